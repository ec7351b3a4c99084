"""Choose among several by their scores: the exponential mechanism, permute-and-flip, top k.

Both share how scores are read, and by how much a choice falls short of the best.

Scores are data: NaN and None count as 0 and everything beyond ±10¹⁵⁰ as ±10¹⁵⁰ (clamping cannot increase a
sensitivity), so no score makes a release fail. Their number is public.

A mechanism that chooses among scores is an estimator of the best score. With G = best - chosen ≥ 0, the *shortfall*,

    bias = E[chosen] - best = -E[G],        variance = Var[chosen] = Var[G],

both exact from the probabilities of the choices, hence functions of the scores, which are private: for planning and for
the owner's eyes. Without scores there are bounds over *all* scores of k candidates. Let c be the rate in the exponent
and w_i = e^{-cG_i} the weights of the k-1 others, W their sum.

**Bias.** For the exponential mechanism E[G] = Σ G_i w_i/(1+W) = (1/c)·Σ -w_i ln w_i/(1+W). At a fixed W the entropy is
largest for equal weights, so all others lie G behind and E[G] = G·x/(1+x), x = (k-1)e^{-cG}. Its slope vanishes where
cG = 1+x, so x·e^x = (k-1)/e and the largest E[G] is x/c = LambertW((k-1)/e)/c: attained, and about ln(k)/c.
Permute-and-flip's E[G] is never larger (McKenna, Sheldon 2020, Theorem 2).

**Variance.** Both take a candidate G_i behind with probability at most w_i, so P[G > t] ≤ min(1, (k-1)e^{-ct}), and
with L = ln(k-1) Var[G] ≤ E[G²] = ∫ 2t·P[G > t] dt ≤ (L² + 2L + 2)/c².

**The exponential mechanism: choose a candidate with probability ∝ e^(ε·score/2Δ), exactly.**

**Privacy.** If a neighbour moves every score by at most Δ, each weight and their sum move by a factor of at most
e^(ε/2): ε-DP (McSherry, Talwar 2007). The log-ratios even lie in a *window* of width ε (bounded range; Durfee, Rogers
2019), which composes better than ε-DP alone, and is what the event says. With ``monotonic=True`` (a neighbour moves
all scores the same way, as it does counts under add/remove) the log-ratios of ∝ e^(ε·score/Δ) lie in a window of
width ε already: twice the rate at the same price.

**Exactness.** Scores are exact rationals, and the winner is drawn by a race of exponentials decided in ball arithmetic
where float64 cannot (`hush.noise.race`): the probabilities are the ideal ones.

**Utility** (McSherry, Talwar 2007). P[score ≤ best - (ln k + t)/rate] ≤ e^(-t) for k candidates.

>>> medical = {"Diabetes": 24, "Hepatitis": 8, "Flu": 28, "HIV": 5}
>>> choose = Exponential(sensitivity=1, epsilon="0.1")
>>> choose.probabilities(medical).round(4).tolist()
[0.3271, 0.147, 0.3995, 0.1265]
>>> round(choose.bias(medical), 2), round(choose.variance(medical), 1)
(-7.16, 79.7)
>>> Exponential.for_error(10, candidates=4).error(candidates=4) <= 10
True

**Permute-and-flip: like the exponential mechanism, and never worse (McKenna, Sheldon 2020).**

Visit the candidates in random order and take each with probability e^(-rate·(best - score)) until one is taken. That is
the largest of score plus one-sided exponential noise (Ding, Kifer, Steinke, Wang 2021), which is how it is drawn.

**Privacy.** Fix the other candidates' noise: i wins if its own exponential exceeds a threshold, which a neighbour
moves by at most 2Δ, or by Δ if all scores move the same way (``monotonic``). An exponential of rate c beyond t + s is
at least e^(-cs) times as likely as beyond t. So rate ε/2Δ, or ε/Δ, is ε-DP. It is *not* of bounded range, so its
event is its own.

**Probabilities.** Let candidate i come at a uniform time T_i. It wins if it is accepted and no earlier one was:
P[i] = p_i·∫₀¹ Π_{j≠i} (1 - t·p_j) dt with p_j = e^(-rate·(best - score_j)), an integral of a polynomial.

**Utility.** P[i] ≤ p_i, so P[score ≤ best - t] ≤ (k-1)e^(-rate·t) for k candidates.

**Top k: the k best candidates, in order, by one race.**

Running the exponential mechanism k times with ε/k each, taking the winner out each time, has the same law as adding
one Gumbel variable to each score and reading off the k largest (Yellott 1977; Durfee, Rogers 2019): one race of
exponentials whose first k arrivals are kept. So the event is k exponential mechanisms, each chosen after the last, of
range ε/k: they compose to pure ε, and to less at a small δ.

**Utility.** Each of the k choices is an exponential mechanism among those left, so with a miss of β/k each no choice
falls further behind the best that was left than ln(k·m/β)/rate, for m candidates.
`bias` and `variance` are those of the *total* score of the k chosen: E[total] - (the k largest) and Var[total]. They
and `probabilities` are exact sums over the sets that may be chosen first (the chance to go on from S to S ∪ {i} is
w_i over the weights outside S), of which there may be 10⁵. Without scores `bias` is at least -k·LambertW((m-1)/e)/rate:
the best that is left for the j-th choice is no worse than the j-th largest of all. So the total falls short by no
more than the sum of the k choices' shortfalls, and `variance` is at most k² times the bound for one choice (Cauchy,
Schwarz).

"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import BoundedRangeEvent, ComposedEvent, PermuteAndFlipEvent
from hush.core import InvalidValueError, Number, integer, nonnegative
from hush.core.grid import as_array, number
from hush.core.numbers import assign
from hush.core.rounding import Ball, ball, certified, flint, precision, up
from hush.mechanisms.base import HALF_A_STEP, Calibrated, confidence_level, ordinary

_LARGEST_SCORE = 10**150
_MOST_SETS = 10**5  # sets of candidates that exact probabilities of top k may enumerate


def moments(chances: npt.NDArray[np.float64], scores: Sequence[Any]) -> tuple[float, float]:
    """Return the bias and the variance of the chosen score against the best one."""
    best = max(scores)
    behind = np.array([float(best - score) for score in scores], dtype=np.float64)
    mean = math.fsum(chances * behind)
    return -mean, math.fsum(chances * (behind - mean) ** 2)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Choosing(Calibrated):
    """A mechanism that chooses by scores, at a rate in the exponent."""

    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool
    _read_epsilon = staticmethod(ordinary)
    _never_behind = 0
    """1 where the best candidate itself does not count in the bound of `error`."""

    def __init__(self, *, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        assign(
            self,
            sensitivity=ordinary(sensitivity, "sensitivity"),
            epsilon=self._read_epsilon(epsilon, "epsilon"),
            monotonic=truth(monotonic, "monotonic"),
        )

    @property
    def _choices(self) -> int:
        """The number of candidates that are chosen."""
        return 1

    @property
    def rate(self) -> Fraction:
        """The factor of the score in the exponent of each choice: ε/2Δ, or ε/Δ if monotonic, over their number."""
        return self.epsilon / self._choices / (self.sensitivity if self.monotonic else 2 * self.sensitivity)

    def release(self, scores: Any) -> Any:
        """Return the chosen index; for a mapping from candidates to scores, the chosen candidate."""
        names, exact_scores = read_scores(scores)
        index = self._index(exact_scores)
        return index if names is None else names[index]

    @abstractmethod
    def _index(self, scores: npt.NDArray[Any]) -> Any:
        """Return the index that is chosen by exact scores, or the indices."""

    @abstractmethod
    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return the probability that each candidate is chosen."""

    def _moments(self, scores: Any) -> tuple[float, float]:
        return moments(self.probabilities(scores), read_scores(scores)[1].tolist())

    def _noise_scale(self) -> Fraction:
        return Fraction(1 / self.rate)

    def _limit(self, **asked: Any) -> str:
        integer(asked.get("candidates"), "candidates", minimum=2)
        return HALF_A_STEP

    def error(self, confidence: Number = Fraction(19, 20), *, candidates: int) -> float:
        """Return α: with at least this probability each choice is at most α below the best one not yet chosen."""
        miss, number = 1 - confidence_level(confidence), integer(candidates, "candidates", minimum=1)
        if number == 1 and (self._never_behind or not self.rate):
            return 0.0
        if not self.rate:
            return math.inf
        odds = (number - self._never_behind) * self._choices / miss
        return max(0.0, up(certified(lambda: ball(odds).log() / ball(self.rate), bits=40)))

    def _worst(self, scores: Any, candidates: int, figure: Callable[[Ball, Ball], Ball]) -> float:
        """Return a figure of the number of rivals and the rate, rounded up; refuse scores beside their number."""
        if scores is not None:
            raise InvalidValueError("candidates", got="both", allowed="left out where the scores are given")
        rivals = integer(candidates, "candidates", minimum=1) - 1
        if not rivals or not self.rate:
            return math.inf if rivals else 0.0
        return up(certified(lambda: figure(ball(rivals), ball(self.rate)), bits=40))

    def bias(self, scores: Any = None, *, candidates: int | None = None) -> float:
        """Return E[chosen score] - best; or, for a number of candidates, a lower bound over all scores."""
        if candidates is None:
            return float(self._moments(scores)[0])
        # Worst where all rivals tie: the maximum over the gap, W((n-1)/e)/rate, with Lambert's W.
        worst = self._worst(scores, candidates, lambda rivals, rate: (rivals * (-ball(1)).exp()).lambertw() / rate)
        return 0.0 - worst * self._choices

    def variance(self, scores: Any = None, *, candidates: int | None = None) -> float:
        """Return the variance of the chosen score; or, for a number of candidates, an upper bound over all scores."""
        if candidates is None:
            return self._moments(scores)[1]
        worst = self._worst(scores, candidates, lambda rivals, rate: ((rivals.log() + 1) ** 2 + 1) / rate**2)
        return worst * self._choices**2


def truth(value: object, parameter: str) -> bool:
    """Return a boolean; anything else is refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidValueError(parameter, got=value, allowed="True or False")
    return bool(value)


def read_scores(scores: Any) -> tuple[list[Any] | None, npt.NDArray[Any]]:
    """Return the candidates' names, if any, and their scores as exact numbers: an integer array, or rationals."""
    names = None
    if isinstance(scores, Mapping):
        names, scores = list(scores.keys()), list(scores.values())
    if not isinstance(scores, list):
        array = as_array(scores, "scores")
    elif any(isinstance(score, (list, tuple, str)) for score in scores):
        raise InvalidValueError("scores", got="nested or text scores", allowed="a non-empty list of numbers")
    elif all(type(score) is int and -(2**60) <= score <= 2**60 for score in scores):
        array = np.array(scores, dtype=np.int64)
    else:  # one by one: NumPy would turn large integers and rationals into floats
        array = np.empty(len(scores), dtype=object)
        for index, score in enumerate(scores):
            array[index] = score
    if array.ndim != 1 or not array.size:
        raise InvalidValueError(
            "scores", got=f"shape {array.shape}", allowed="a non-empty list of one score a candidate"
        )
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize < 8):
        return names, array.astype(np.int64)
    if array.dtype.kind == "i":
        # The race needs gaps below 2⁶²; clamping moves no score further from its neighbour's.
        return names, np.clip(array, -(2**60), 2**60)
    exact = [min(max(number(score), Fraction(-_LARGEST_SCORE)), Fraction(_LARGEST_SCORE)) for score in array.tolist()]
    return names, np.array(exact, dtype=object)


def chances(scores: npt.NDArray[Any], rate: Fraction) -> npt.NDArray[np.float64]:
    """Return e^(rate·score)/Σ, each right to the last digit or two of a float."""
    best = max(scores.tolist())
    # Relative to the best: a common factor cancels, and no weight overflows.
    weights = [(-ball(rate * (best - Fraction(score)))).exp() for score in scores.tolist()]
    total: Any = sum(weights, flint().arb(0))
    return np.array([float((weight / total).mid()) for weight in weights], dtype=np.float64)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(Choosing):
    """Chooses the index (or key) of a high score.

    ε = 0 is allowed: every candidate is equally likely.

    >>> import hush
    >>> hush.Exponential(sensitivity=1, epsilon=10**6).release({"Flu": 900, "HIV": 10})
    'Flu'
    """

    _read_epsilon = staticmethod(nonnegative)

    @property
    def event(self) -> BoundedRangeEvent:
        """Bounded range ε."""
        return BoundedRangeEvent(epsilon=self.epsilon)

    def _index(self, scores: npt.NDArray[Any]) -> int:
        return noise.select(scores, self.rate) if self.rate else noise.uniform_integer(len(scores))

    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each candidate, right to the last digit or two."""
        _, exact_scores = read_scores(scores)
        return chances(exact_scores, self.rate)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(Choosing):
    """Chooses the index (or key) of a high score, with less expected error than `Exponential`.

    >>> import hush
    >>> hush.PermuteAndFlip(sensitivity=1, epsilon=1).probabilities([2, 0]).round(4).tolist()
    [0.8161, 0.1839]
    """

    _never_behind = 1

    @property
    def event(self) -> PermuteAndFlipEvent:
        """Pure ε."""
        return PermuteAndFlipEvent(epsilon=self.epsilon)

    def _index(self, scores: npt.NDArray[Any]) -> int:
        return noise.select(scores, self.rate, race="exponential")

    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each candidate."""
        _, exact_scores = read_scores(scores)
        best = max(exact_scores.tolist())
        heads = [(-ball(self.rate * (best - Fraction(score)))).exp() for score in exact_scores.tolist()]

        def chance(i: int) -> float:
            # P[i] = p_i·∫₀¹ Π_{j≠i} (1 - p_j·x) dx: i comes up at the uniform time x, and nobody was taken before.
            product = flint().arb_poly([1])
            for j, p in enumerate(heads):
                if j != i:
                    product *= flint().arb_poly([1, -p])
            return float((heads[i] * product.integral()(flint().arb(1))).mid())

        # The products alternate in sign and cancel; four further bits a factor make up for that.
        with precision(128 + 4 * len(heads)):
            return np.array([chance(i) for i in range(len(heads))], dtype=np.float64)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TopK(Choosing):
    """Chooses the indices (or keys) of k high scores, best first; ``epsilon`` is for all k together.

    >>> import hush
    >>> hush.TopK(k=2, epsilon=10**6).release({"a": 1, "b": 9, "c": 5})
    ['b', 'c']
    """

    k: int

    def __init__(self, *, k: int, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        Choosing.__init__(self, sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic)
        assign(self, k=integer(k, "k", minimum=1))

    @property
    def _choices(self) -> int:
        return self.k

    @property
    def event(self) -> ComposedEvent:
        """The k choices of range ε/k, each chosen after the last."""
        return ComposedEvent(parts=[(BoundedRangeEvent(epsilon=self.epsilon / self.k), self.k)])

    def release(self, scores: Any) -> list[Any]:
        """Return the k chosen indices, or candidates of a mapping, in the order drawn."""
        names, exact_scores = self._read(scores)
        indices = self._index(exact_scores)
        return indices if names is None else [names[index] for index in indices]

    def _index(self, scores: npt.NDArray[Any]) -> Any:
        return noise.select(scores, self.rate, count=self.k).tolist()

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

    def _moments(self, scores: Any) -> tuple[float, float]:
        _, array = self._read(scores)
        sets, exact_scores = self._sets(array), [Fraction(score) for score in array.tolist()]
        totals = [sum((exact_scores[i] for i in members), Fraction(0)) for members in sets]
        return moments(np.array([*sets.values()]), totals)
