r"""The exponential mechanism: choose a candidate with probability ∝ e^(ε·score/2Δ), exactly.

**Privacy.** If a neighbour moves every score by at most Δ, each weight and their sum move by a factor of at most
e^(ε/2): ε-DP (McSherry, Talwar 2007). The log-ratios even lie in a *window* of width ε (bounded range; Durfee, Rogers
2019), which composes better than ε-DP alone, and is what the event says. With ``monotonic=True`` (a neighbour moves
all scores the same way, as it does counts under add/remove) the log-ratios of ∝ e^(ε·score/Δ) lie in a window of
width ε already: twice the rate at the same price.

**Exactness.** Scores are exact rationals, and the winner is drawn by a race of exponentials decided in ball arithmetic
where float64 cannot (`hush.noise.select`): the probabilities are the ideal ones.

**Utility** (McSherry, Talwar 2007). P[score ≤ best - (ln k + t)/rate] ≤ e^(-t) for k candidates: `error`, which
`for_error` inverts. `bias` and `variance` are those of the chosen score (`hush.mechanisms.choosing`).

>>> medical = {"Diabetes": 24, "Hepatitis": 8, "Flu": 28, "HIV": 5}
>>> choose = Exponential(sensitivity=1, epsilon="0.1")
>>> choose.probabilities(medical).round(4).tolist()
[0.3271, 0.147, 0.3995, 0.1265]
>>> Exponential(sensitivity=1, epsilon=10**6).release(medical)
'Flu'
>>> round(choose.bias(medical), 2), round(choose.variance(medical), 1)
(-7.16, 79.7)
>>> Exponential.for_error(10, candidates=4).error(candidates=4) <= 10
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import BoundedRangeEvent
from hush.core import Number, integer, nonnegative
from hush.core.balls import ball, fraction_up
from hush.core.rounding import certified, float_up
from hush.mechanisms.base import confidence_level, ordinary
from hush.mechanisms.choosing import Choosing, chances, read_scores, truth


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Exponential(Choosing):
    """Chooses the index (or key) of a high score.

    ε = 0 is allowed: every candidate is equally likely.
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool

    def __init__(self, *, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        self._set(sensitivity=ordinary(sensitivity, "sensitivity"), epsilon=nonnegative(epsilon, "epsilon"))
        self._set(monotonic=truth(monotonic, "monotonic"))

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
