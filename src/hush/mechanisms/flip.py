r"""Permute-and-flip: like the exponential mechanism, and never worse (McKenna, Sheldon 2020).

Visit the candidates in random order and take each with probability e^(-rate·(best - score)) until one is taken. That is
the largest of score plus one-sided exponential noise (Ding, Kifer, Steinke, Wang 2021), which is how it is drawn.

**Privacy.** Fix the other candidates' noise: i wins if its own exponential exceeds a threshold, which a neighbour
moves by at most 2Δ, or by Δ if all scores move the same way (``monotonic``). An exponential of rate c beyond t + s is
at least e^(-cs) times as likely as beyond t. So rate ε/2Δ, or ε/Δ, is ε-DP. It is *not* of bounded range, so its
event is its own.

**Probabilities.** Let candidate i come at a uniform time T_i. It wins if it is accepted and no earlier one was:
P[i] = p_i·∫₀¹ Π_{j≠i} (1 - t·p_j) dt with p_j = e^(-rate·(best - score_j)), an integral of a polynomial.

**Utility.** P[i] ≤ p_i, so P[score ≤ best - t] ≤ (k-1)e^(-rate·t) for k candidates: `error`, which `for_error` inverts.
`bias` and `variance` are those of the chosen score (`hush.mechanisms.choosing`).

>>> import numpy as np
>>> flip = PermuteAndFlip(sensitivity=1, epsilon=1)
>>> flip.probabilities([2, 0]).round(4).tolist()
[0.8161, 0.1839]
>>> bool(np.isclose(flip.probabilities([24, 8, 28, 5]).sum(), 1))
True
>>> round(flip.bias([2, 0]), 4), round(flip.variance([2, 0]), 4)
(-0.3679, 0.6004)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import PermuteAndFlipEvent
from hush.core import Number, integer
from hush.core.balls import ball, flint, fraction_up, precision
from hush.core.rounding import certified, float_up
from hush.mechanisms.base import confidence_level, ordinary
from hush.mechanisms.choosing import Choosing, read_scores, truth


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(Choosing):
    """Chooses the index (or key) of a high score, with less expected error than `Exponential`."""

    sensitivity: Fraction
    epsilon: Fraction
    monotonic: bool

    def __init__(self, *, sensitivity: Number = 1, epsilon: Number, monotonic: bool = False) -> None:
        self._set(sensitivity=ordinary(sensitivity, "sensitivity"), epsilon=ordinary(epsilon, "epsilon"))
        self._set(monotonic=truth(monotonic, "monotonic"))

    @property
    def event(self) -> PermuteAndFlipEvent:
        """Pure ε."""
        return PermuteAndFlipEvent(epsilon=self.epsilon)

    def release(self, scores: Any) -> Any:
        """Return the chosen index; for a mapping from candidates to scores, the chosen candidate."""
        names, exact_scores = read_scores(scores)
        chosen = noise.select(exact_scores, self.rate, race="exponential")
        return chosen if names is None else names[chosen]

    def probabilities(self, scores: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each candidate."""
        _, exact_scores = read_scores(scores)
        best = max(exact_scores.tolist())
        taken = [(-ball(self.rate * (best - Fraction(score)))).exp() for score in exact_scores.tolist()]

        def chance(i: int) -> float:
            product = flint().arb_poly([1])
            for j, p in enumerate(taken):
                if j != i:
                    product *= flint().arb_poly([1, -p])
            return float((taken[i] * product.integral()(flint().arb(1))).mid())

        with precision(128 + 4 * len(taken)):
            return np.array([chance(i) for i in range(len(taken))], dtype=np.float64)

    def error(self, confidence: Number = Fraction(19, 20), *, candidates: int) -> float:
        """Return how far below the best score the chosen one lies at most, with at least this probability.

        The noise on every other candidate exceeds t/rate with probability at most e^(-t), and there are k-1 of them.
        """
        miss, many = 1 - confidence_level(confidence), integer(candidates, "candidates", minimum=1)
        if many == 1:
            return 0.0
        return max(
            0.0, float_up(fraction_up(certified(lambda: ball((many - 1) / miss).log() / ball(self.rate), bits=20)))
        )
