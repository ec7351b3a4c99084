r"""Above threshold (the sparse vector technique): pay only for the answers that are "yes".

A stream of values, each of sensitivity Δ, is compared with one noisy threshold; "no" is free, and after ``count`` times
"yes" it stops. The threshold gets discrete Laplace noise for ε₁, every value noise for ε₂, ε₁ + ε₂ = ε:

    threshold + Lap(Δ/ε₁),    value + Lap(2cΔ/ε₂)     (cΔ/ε₂ if all values move the same way: ``monotonic``)

**Privacy** (Dwork, Roth 2014; Lyu, Su, Li 2017, Algorithm 1, without its error). For one run up to a "yes" at i:
moving the threshold's noise by Δ and the i-th value's by 2Δ maps the runs on D that give these answers into runs on
D' that give the same, each at most e^(ε₁ + ε₂/c) times less likely; the "no" answers before i need nothing. All
quantities are whole steps, so the argument holds for the discrete law as it stands. The threshold's noise is drawn
once; c times "yes" cost ε₁ + ε₂. The best split is ε₂/ε₁ = (2c)^(2/3) (c^(2/3) if monotonic), rounded to a rational
here, which any split may be.

The noisy values themselves are never released: releasing them too is the classic mistake.

**Utility.** An answer compares value - threshold with one noise, the difference of the two: its mean is 0, `bias`, and
the sum of their variances is `variance`, both in units of the value. `error` is the α of (α, β)-accuracy (Dwork, Roth
2014, Definition 3.9): with probability 1-β, over all queries, no "yes" is below threshold - α and no "no" above
threshold + α.

>>> stream = AboveThreshold(threshold=100, epsilon=10**4, count=2).open()
>>> stream.ask(1), stream.ask(500), stream.done
(False, True, False)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number, exact, integer
from hush.core.grid import as_array, whole_step
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, float_up, fraction_up
from hush.mechanisms.base import Calibrated, Symmetric, confidence_level, default_step, in_steps, off_grid, ordinary
from hush.mechanisms.laplace import Laplace
from hush.mechanisms.selection import truth


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AboveThreshold(Calibrated, Symmetric):
    """Says which values of a stream lie above a threshold, up to ``count`` times "yes".

    >>> import hush
    >>> hush.AboveThreshold(threshold=100, epsilon=10**4, count=2).release([1, 500, 3, 700, 900]).tolist()
    [False, True, False, True]
    """

    threshold: Fraction
    sensitivity: Fraction
    epsilon: Fraction
    count: int
    monotonic: bool
    step: Fraction

    def __init__(
        self,
        *,
        threshold: Number,
        epsilon: Number,
        sensitivity: Number = 1,
        count: int = 1,
        monotonic: bool = False,
        step: Number | None = None,
    ) -> None:
        exact_sensitivity = ordinary(sensitivity, "sensitivity")
        assign(
            self,
            threshold=exact(threshold, "threshold"),
            sensitivity=exact_sensitivity,
            epsilon=ordinary(epsilon, "epsilon"),
            count=integer(count, "count", minimum=1),
            monotonic=truth(monotonic, "monotonic"),
            step=default_step(exact_sensitivity, step),
        )

    def _noise_scale(self) -> Fraction:
        return self.scales[1] * self.step

    def _limit(self, **_asked: Any) -> str:
        return "two steps of the grid and the rounding to it: take a smaller step"

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The noise scales of the threshold and of a value, in steps."""
        sides = self.count if self.monotonic else 2 * self.count
        # The noise of a comparison is least at ε₂/ε₁ = sides^(2/3); any rational share keeps ε₁ + ε₂ = ε.
        share = max(Fraction(1 / (1 + sides ** (2 / 3))).limit_denominator(1024), Fraction(1, 1024))
        steps = in_steps(self.sensitivity, self.step)
        return steps / (self.epsilon * share), sides * steps / (self.epsilon * (1 - share))

    @property
    def rounding(self) -> Fraction:
        """The sum of the threshold's move to the grid and of the largest move of a value."""
        moved = abs(whole_step(self.threshold, self.step) * self.step - self.threshold)
        return moved + off_grid(self.sensitivity, self.step)

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε, for the whole stream."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    def open(self) -> Stream:
        """Begin a stream; its whole price is the event's, however few values are asked."""
        return Stream(self)

    def release(self, values: Any) -> npt.NDArray[np.bool_]:
        """Return the answers, one a value, up to and including the last "yes" allowed."""
        stream, answers = self.open(), []
        for value in as_array(values, "values").ravel().tolist():
            answers.append(stream.ask(value))
            if stream.done:
                break
        return np.array(answers, dtype=np.bool_)

    def error(self, confidence: Number = Fraction(19, 20), *, queries: int) -> float:
        """Return α: with at least this probability no "yes" is below threshold - α and no "no" above threshold + α."""
        miss, comparisons = 1 - confidence_level(confidence), integer(queries, "queries", minimum=1)
        narrow, wide = self.scales
        # Union bound: half of β for the threshold, half for all values. P(|X| > m) ≤ P(|X| ≥ m) ≤ e^(-(m-1)/s)
        # explains the two further steps.
        width = certified(
            lambda: ball(narrow) * ball(2 / miss).log() + ball(wide) * ball(2 * comparisons / miss).log(), bits=40
        )
        return float_up((fraction_up(width) + 2) * self.step + self.rounding)

    @property
    def variance(self) -> float:
        """The variance of the noise in one comparison: the threshold's and the value's together."""
        return sum(Laplace(sensitivity=1, scale=s, step=1).variance for s in self.scales) * float(self.step) ** 2


class Stream:
    """One run of `AboveThreshold`: the threshold's noise is drawn when it opens."""

    __slots__ = ("_mechanism", "_noisy", "_width", "_yes")

    def __init__(self, mechanism: AboveThreshold) -> None:
        self._mechanism = mechanism
        first, self._width = mechanism.scales
        self._noisy = whole_step(mechanism.threshold, mechanism.step) + noise.discrete_laplace(first)
        self._yes = 0

    @property
    def done(self) -> bool:
        """Whether it has said "yes" as often as it may."""
        return self._yes >= self._mechanism.count

    def ask(self, value: Any) -> bool:
        """Say whether this value lies above the threshold."""
        if self.done:
            raise InvalidValueError(
                "value", got="one more value", allowed=f"asked before {self._mechanism.count} times 'yes'",
                hint="The price is spent; open another stream and pay for it.",
            )  # fmt: skip
        # Each value has fresh noise; the threshold's was drawn once, in __init__.
        above = whole_step(value, self._mechanism.step) + noise.discrete_laplace(self._width) >= self._noisy
        self._yes += above
        return above
