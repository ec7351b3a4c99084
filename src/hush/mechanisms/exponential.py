r"""The exponential mechanism: choose a candidate with probability ∝ e^(ε·score/2Δ), exactly.

**Privacy.** If a neighbour moves every score by at most Δ, each weight and their sum move by a factor of at most
e^(ε/2): ε-DP (McSherry, Talwar 2007). The log-ratios even lie in a *window* of width ε (bounded range; Durfee, Rogers
2019), which composes better than ε-DP alone, and is what the event says. With ``monotonic=True`` (a neighbour moves
all scores the same way, as it does counts under add/remove) the log-ratios of ∝ e^(ε·score/Δ) lie in a window of
width ε already: twice the rate at the same price.

**Exactness.** Scores are exact rationals, and the winner is drawn by a race of exponentials decided in ball arithmetic
where float64 cannot (`hush.noise.select`): the probabilities are the ideal ones.

**Utility.** P[score ≤ best - (ln k + t)/rate] ≤ e^(-t) for k candidates.

Scores are data: NaN and None count as 0 and everything beyond ±10¹⁵⁰ as ±10¹⁵⁰ (clamping cannot increase a
sensitivity), so no score makes a release fail. Their number is public.

>>> medical = {"Diabetes": 24, "Hepatitis": 8, "Flu": 28, "HIV": 5}
>>> choose = Exponential(sensitivity=1, epsilon="0.1")
>>> choose.probabilities(medical).round(4).tolist()
[0.3271, 0.147, 0.3995, 0.1265]
>>> Exponential(sensitivity=1, epsilon=10**6).release(medical)
'Flu'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import BoundedRangeEvent
from hush.accounting.balls import ball, flint, float_up, fraction_up
from hush.accounting.rounding import certified
from hush.core import InvalidValueError, Number, integer, nonnegative, positive
from hush.mechanisms.base import Setter, confidence_level
from hush.mechanisms.columns import as_array, number

_LARGEST = 10**150


@dataclass(frozen=True, slots=True, init=False)
class Exponential(Setter):
    """Chooses the index (or key) of a high score.

    ε = 0 is allowed: every candidate is equally likely.
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool

    def __init__(self, *, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        self._set(sensitivity=positive(sensitivity, "sensitivity"), epsilon=nonnegative(epsilon, "epsilon"))
        self._set(monotonic=truth(monotonic, "monotonic"))

    @property
    def rate(self) -> Fraction:
        """The factor of the score in the exponent."""
        return self.epsilon / (self.sensitivity if self.monotonic else 2 * self.sensitivity)

    @property
    def event(self) -> BoundedRangeEvent:
        """Range ε, valid however it was chosen."""
        return BoundedRangeEvent(epsilon=self.epsilon)

    def release(self, scores: Any) -> Any:
        """Return the chosen index; for a mapping from candidates to scores, the chosen candidate."""
        names, exact_scores = read_scores(scores)
        chosen = noise.select(exact_scores, self.rate) if self.rate else noise.uniform_integer(len(exact_scores))
        return chosen if names is None else names[chosen]

    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each candidate, right to the last digit or two."""
        _, exact_scores = read_scores(scores)
        return chances(exact_scores, self.rate)

    def error(self, confidence: Number = Fraction(19, 20), *, candidates: int) -> float:
        """Return how far below the best score the chosen one lies at most, with at least this probability."""
        miss, many = 1 - confidence_level(confidence), integer(candidates, "candidates", minimum=1)
        if not self.rate:
            return float("inf") if many > 1 else 0.0
        return float_up(fraction_up(certified(lambda: (ball(many / miss)).log() / ball(self.rate), bits=40)))


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
    array = as_array(scores, "scores") if not isinstance(scores, list) else _listed(scores)
    if array.ndim != 1 or not array.size:
        raise InvalidValueError(
            "scores", got=f"shape {array.shape}", allowed="a non-empty list of one score a candidate"
        )
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize < 8):
        return names, array.astype(np.int64)
    if array.dtype.kind == "i":
        # The race needs gaps below 2⁶²; clamping moves no score further from its neighbour's.
        return names, np.clip(array, -(2**60), 2**60)
    exact: npt.NDArray[Any] = np.empty(array.size, dtype=object)
    exact[:] = [min(max(number(score), Fraction(-_LARGEST)), Fraction(_LARGEST)) for score in array.tolist()]
    return names, exact


def _listed(scores: list[Any]) -> npt.NDArray[Any]:
    """Return a list as an array without letting NumPy turn large integers and rationals into floats."""
    if any(isinstance(score, (list, tuple, str)) for score in scores):
        raise InvalidValueError("scores", got="nested or text scores", allowed="a non-empty list of numbers")
    if all(type(score) is int and -(2**60) <= score <= 2**60 for score in scores):
        return np.array(scores, dtype=np.int64)
    array: npt.NDArray[Any] = np.empty(len(scores), dtype=object)
    array[:] = scores
    return array


def chances(scores: npt.NDArray[Any], rate: Fraction) -> npt.NDArray[np.float64]:
    """Return e^(rate·score)/Σ, each right to the last digit or two of a float."""
    best = max(scores.tolist())
    weights = [(-ball(rate * (best - Fraction(score)))).exp() for score in scores.tolist()]
    total: Any = sum(weights, flint().arb(0))
    return np.array([float((weight / total).mid()) for weight in weights], dtype=np.float64)
