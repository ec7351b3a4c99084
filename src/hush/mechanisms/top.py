r"""Top k: the k best candidates, in order, by one race.

Running the exponential mechanism k times with ε/k each, taking the winner out each time, has the same law as adding
one Gumbel variable to each score and reading off the k largest (Yellott 1977; Durfee, Rogers 2019): one race of
exponentials whose first k arrivals are kept. So the event is k exponential mechanisms, each chosen after the last, of
range ε/k: they compose to pure ε, and to less at a small δ.

>>> TopK(k=2, epsilon=10**6).release({"a": 1, "b": 9, "c": 5})
['b', 'c']
>>> TopK(k=2, epsilon=1).event.pure_epsilon()
1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush import noise
from hush.accounting import BoundedRangeEvent, ComposedEvent
from hush.accounting.balls import ball, float_up, fraction_up
from hush.accounting.rounding import certified
from hush.core import InvalidValueError, Number, integer, positive
from hush.mechanisms.base import Setter, confidence_level
from hush.mechanisms.exponential import read_scores, truth


@dataclass(frozen=True, slots=True, init=False)
class TopK(Setter):
    """Chooses the indices (or keys) of k high scores, best first; ``epsilon`` is for all k together."""

    k: int
    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool

    def __init__(self, *, k: int, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        self._set(k=integer(k, "k", minimum=1), monotonic=truth(monotonic, "monotonic"))
        self._set(sensitivity=positive(sensitivity, "sensitivity"), epsilon=positive(epsilon, "epsilon"))

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
        names, exact_scores = read_scores(scores)
        if len(exact_scores) < self.k:
            raise InvalidValueError("scores", got=f"{len(exact_scores)} scores", allowed=f"at least k={self.k} scores")
        chosen = noise.select(exact_scores, self.rate, count=self.k).tolist()
        return chosen if names is None else [names[at] for at in chosen]

    def error(self, confidence: Number = Fraction(19, 20), *, candidates: int) -> float:
        """Return how far every choice lies below the best not yet chosen at most, with at least this probability."""
        miss, many = 1 - confidence_level(confidence), integer(candidates, "candidates", minimum=1)
        return float_up(fraction_up(certified(lambda: ball(many * self.k / miss).log() / ball(self.rate), bits=40)))
