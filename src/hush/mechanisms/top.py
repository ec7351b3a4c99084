r"""Top k: the k best candidates, in order, by one race.

Running the exponential mechanism k times with ε/k each, taking the winner out each time, has the same law as adding
one Gumbel variable to each score and reading off the k largest (Yellott 1977; Durfee, Rogers 2019): one race of
exponentials whose first k arrivals are kept. So the event is k exponential mechanisms, each chosen after the last, of
range ε/k: they compose to pure ε, and to less at a small δ.

**Utility.** Each of the k choices is an exponential mechanism among those left, so with a miss of β/k each no choice
falls further behind the best that was left than ln(k·m/β)/rate, for m candidates: `error`, which `for_error` inverts.
`bias` and `variance` are those of the *total* score of the k chosen: E[total] - (the k largest) and Var[total]. They
and `probabilities` are exact sums over the sets that may be chosen first (the chance to go on from S to S ∪ {i} is
w_i over the weights outside S), of which there may be 10⁵. Without scores `bias` is at least -k·LambertW((m-1)/e)/rate
(`hush.mechanisms.selection`): the best that is left for the j-th choice is no worse than the j-th largest of all.

>>> TopK(k=2, epsilon=10**6).release({"a": 1, "b": 9, "c": 5})
['b', 'c']
>>> TopK(k=2, epsilon=1).event.pure_epsilon()
1.0
>>> TopK(k=2, epsilon=4).probabilities([3, 1, 0]).round(4).tolist()
[0.9896, 0.7361, 0.2744]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import BoundedRangeEvent, ComposedEvent
from hush.core import InvalidValueError, Number, integer
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up
from hush.core.values import assign
from hush.mechanisms.base import ReadableRepr, confidence_level, least, ordinary
from hush.mechanisms.selection import one_of, read_scores, truth, worst_bias

_MOST_SETS = 10**5  # sets of candidates that exact probabilities may enumerate


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TopK(ReadableRepr):
    """Chooses the indices (or keys) of k high scores, best first; ``epsilon`` is for all k together.

    >>> import hush
    >>> hush.TopK(k=2, epsilon=10**6).release({"a": 1, "b": 9, "c": 5})
    ['b', 'c']
    """

    k: int
    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool

    def __init__(self, *, k: int, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        assign(
            self,
            k=integer(k, "k", minimum=1),
            monotonic=truth(monotonic, "monotonic"),
            sensitivity=ordinary(sensitivity, "sensitivity"),
            epsilon=ordinary(epsilon, "epsilon"),
        )

    @classmethod
    def with_noise(cls, noise: Number, *, k: int, sensitivity: Number = 1, monotonic: bool = False) -> TopK:
        """Return the mechanism of rate 1/noise, the scale of the Gumbel noise on a score."""
        sides = integer(k, "k", minimum=1) * (1 if truth(monotonic, "monotonic") else 2)
        budget = sides * ordinary(sensitivity, "sensitivity") / ordinary(noise, "noise")
        return cls(k=k, sensitivity=sensitivity, epsilon=budget, monotonic=monotonic)

    @classmethod
    def for_error(
        cls,
        error: Number,
        *,
        confidence: Number = Fraction(19, 20),
        candidates: int,
        k: int,
        sensitivity: Number = 1,
        monotonic: bool = False,
    ) -> TopK:
        """Return the mechanism of the smallest ε, to 12 digits, with an error of at most ``error``."""
        number = integer(candidates, "candidates", minimum=2)
        return least(
            lambda epsilon: cls(k=k, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic),
            lambda mechanism: mechanism.error(confidence, candidates=number),
            error,
        )

    @property
    def rate(self) -> Fraction:
        """The factor of the score in the exponent of each of the k choices."""
        return self.epsilon / self.k / (self.sensitivity if self.monotonic else 2 * self.sensitivity)

    @property
    def event(self) -> ComposedEvent:
        """The k choices of range ε/k, each chosen after the last."""
        return ComposedEvent(parts=[(BoundedRangeEvent(epsilon=self.epsilon / self.k), self.k)])

    def release(self, scores: Any) -> list[Any]:
        """Return the k chosen indices, or candidates of a mapping, in the order drawn."""
        names, exact_scores = self._read(scores)
        indices = noise.select(exact_scores, self.rate, count=self.k).tolist()
        return indices if names is None else [names[index] for index in indices]

    def _read(self, scores: Any) -> tuple[list[Any] | None, npt.NDArray[Any]]:
        names, exact_scores = read_scores(scores)
        if len(exact_scores) < self.k:
            raise InvalidValueError("scores", got=f"{len(exact_scores)} scores", allowed=f"at least k={self.k} scores")
        return names, exact_scores

    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return for each candidate the probability of being among the k chosen."""
        _, exact_scores = self._read(scores)
        chances = np.zeros(len(exact_scores))
        for members, chance in self._sets(exact_scores).items():
            chances[list(members)] += chance
        return chances

    def _sets(self, scores: npt.NDArray[Any]) -> dict[frozenset[int], float]:
        """Return the probability of every set of k candidates."""
        behind = [self.rate * (max(scores.tolist()) - Fraction(score)) for score in scores.tolist()]
        number = len(behind)
        if sum(math.comb(number, size) for size in range(self.k + 1)) > _MOST_SETS:
            raise InvalidValueError(
                "scores", got=f"{number} scores",
                allowed=f"so few that at most {_MOST_SETS} sets of {self.k} may come first",
                hint="For any scores of so many there is bias(candidates=…), and error(candidates=…).",
            )  # fmt: skip
        reached: dict[frozenset[int], float] = {frozenset(): 1.0}
        for _ in range(self.k):
            # One more choice: from each set reached so far, by the exponential law over the remaining candidates.
            further: dict[frozenset[int], float] = {}
            for members, chance in reached.items():
                remaining = [i for i in range(number) if i not in members]
                # Relative to the best that is left: after the first choices all weights could underflow together.
                nearest = min(behind[i] for i in remaining)
                # e^(-10⁴) is 0 as a float, and a larger fraction might not fit one.
                weights = [math.exp(-float(min(behind[i] - nearest, 10**4))) for i in remaining]
                total = math.fsum(weights)
                for i, weight in zip(remaining, weights, strict=True):
                    key = members | {i}
                    further[key] = further.get(key, 0.0) + chance * weight / total
            reached = further
        return reached

    def _shortfalls(self, scores: Any) -> tuple[float, float]:
        """Return the mean and the variance of the k largest scores' total less that of the chosen."""
        exact_scores = [Fraction(score) for score in self._read(scores)[1].tolist()]
        best = sum(sorted(exact_scores)[-self.k :], Fraction(0))
        laws = [
            (chance, float(best - sum((exact_scores[i] for i in members), Fraction(0))))
            for members, chance in self._sets(self._read(scores)[1]).items()
        ]
        mean = math.fsum(chance * short for chance, short in laws)
        return mean, math.fsum(chance * (short - mean) ** 2 for chance, short in laws)

    def bias(self, scores: Any = None, *, candidates: int | None = None) -> float:
        """Return E[total of the chosen] - the k largest; or, for a number of candidates, a lower bound."""
        if candidates is None:
            return -self._shortfalls(scores)[0]
        one_of(scores)
        return self.k * worst_bias(self.rate, candidates)

    def variance(self, scores: Any) -> float:
        """Return the variance of the total score of the chosen."""
        return self._shortfalls(scores)[1]

    def error(self, confidence: Number = Fraction(19, 20), *, candidates: int) -> float:
        """Return α: with at least this probability each choice is at most α below the best one not yet chosen."""
        miss, number = 1 - confidence_level(confidence), integer(candidates, "candidates", minimum=1)
        return float_up(fraction_up(certified(lambda: ball(number * self.k / miss).log() / ball(self.rate), bits=40)))
