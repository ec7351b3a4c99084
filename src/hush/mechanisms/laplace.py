r"""The Laplace mechanism on the public grid: pure ε, exact noise.

**The law.** With d the ℓ₁ sensitivity in whole steps and s = d/ε, noise k has probability ∝ e^(-|k|/s) in steps. For
neighbours the log-probability of any output differs by at most Σ|kᵢ - kᵢ'|/s ≤ d/s = ε, whatever the number of
coordinates: pure ε-DP, and tight, since a value in the tail attains it (THEORY item 12; Ghosh, Roughgarden,
Sundararajan 2009). s is a rational, so nothing is rounded.

**Why one event covers every vector.** The event says: one coordinate moves by d. A neighbour may instead move several
by v₁ + … + v_k = d. Write f_v for the trade-off function of a shift by v. The law is log-concave, so one family of
threshold tests is optimal for all shifts, and f_{v+w} = f_w∘(1-f_v) exactly; along the path (0,0) → (v,0) → (v,w) the
same composition bounds the trade-off of the vector shift from below. So a split shift is never easier to see than a
single one.

**Error.** For the continuous law P(|X| > t) = e^(-t/s), so t = s·ln(1/β) holds with probability 1-β. (One source writes
2e^(-t/s), which is wrong.) The discrete law has P(|X| > t) = 2r^(m+1)/(1+r) with r = e^(-1/s), m = ⌊t⌋, which mostly is
smaller, but not always. `error` returns the continuous t if the discrete tail at it is at most β, else m+1, where it
always is: 2r^(m+2)/(1+r) ≤ r^(m+1) ≤ β. Either way the half-width is honest; floats are rounded up.

>>> round(Laplace(sensitivity=1, epsilon=1).variance, 4)
1.8413
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import DiscreteLaplaceEvent
from hush.core import InvalidValueError, Number, integer
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, float_up, fraction_down, fraction_up
from hush.mechanisms.base import (
    Calibrated,
    Symmetric,
    confidence_level,
    default_step,
    in_steps,
    off_grid,
    ordinary,
    release_on_grid,
)

_VANISHING_EXPONENT = 10**5  # e^(-10⁵) is below 10⁻⁴³⁰⁰⁰


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(Calibrated, Symmetric):
    """Adds exact discrete Laplace noise to numbers, arrays and columns.

    Parameters
    ----------
    sensitivity
        How much a neighbour can change the value, in ℓ₁ (the sum over coordinates).
    epsilon
        The privacy parameter; or give ``scale``, the noise scale in units of the value.
    step
        The public grid; by default 1 for a whole sensitivity, else a power of two below a thousandth of it.
    coordinates
        For arrays that are not whole numbers: how many of their numbers a neighbour can change, at most.

    Examples
    --------
    >>> import hush
    >>> m = hush.Laplace(sensitivity=1, epsilon="0.1")
    >>> isinstance(m.release(42), int), round(m.error(confidence=0.99), 2)
    (True, 46.05)
    """

    sensitivity: Fraction
    epsilon: Fraction
    scale: Fraction
    step: Fraction
    coordinates: int | None
    _usual = {"sensitivity": 1}  # noqa: RUF012 - never changed

    def __init__(
        self,
        *,
        sensitivity: Number,
        epsilon: Number | None = None,
        scale: Number | None = None,
        step: Number | None = None,
        coordinates: int | None = None,
    ) -> None:
        exact_sensitivity = ordinary(
            sensitivity, "sensitivity", allowed="a positive finite number; without bounds there is none"
        )
        grid = default_step(exact_sensitivity, step)
        changed = 1 if coordinates is None else integer(coordinates, "coordinates", minimum=1)
        # d = ⌈Δ/g⌉ + k - 1 steps: rounding each of k coordinates by itself can add k - 1 (`hush.mechanisms.base`).
        moved = (in_steps(exact_sensitivity, grid) + changed - 1) * grid
        if (epsilon is None) == (scale is None):
            raise InvalidValueError("epsilon", got=epsilon, allowed="given, or else 'scale', and not both")
        width = moved / ordinary(epsilon, "epsilon") if scale is None else ordinary(scale, "scale")
        budget = moved / width
        assign(self, sensitivity=exact_sensitivity, epsilon=budget, scale=width, step=grid, coordinates=coordinates)

    @classmethod
    def with_noise(cls, scale: Number, /, **parameters: Any) -> Self:
        """Return the mechanism with noise of this scale; its ε depends on the sensitivity, which must be said."""
        return cls(scale=scale, **parameters)

    @property
    def steps(self) -> int:
        """The sensitivity in whole steps, rounding included."""
        return int(self.epsilon * self.scale / self.step)

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """One discrete Laplace release, in steps."""
        return DiscreteLaplaceEvent(scale=self.scale / self.step, sensitivity=self.steps)

    def release(self, value: Any) -> Any:
        """Return value + noise: int for a whole step, else float; a NumPy array for columns."""
        steps = self.scale / self.step
        return release_on_grid(
            value,
            step=self.step,
            draw=lambda size: noise.discrete_laplace(steps, size),
            vectors="whole" if self.coordinates is None else "any",
            allowed="one number, or an array of integers on the grid",
            hint="Rounding each number of a vector to the grid adds to its sensitivity: give the mechanism "
            "coordinates=… (how many of them a neighbour can change), or pass integers.",
        )

    @property
    def variance(self) -> float:
        """The noise's variance, 2r/(1-r)² squared steps with r = e^(-1/s)."""
        s = self.scale / self.step
        if 1 / s > _VANISHING_EXPONENT:
            return 0.0  # r, and with it the variance, is below every float
        spread = certified(lambda: 1 / (2 * (1 / ball(2 * s)).sinh() ** 2), bits=53)  # which is 2r/(1-r)²
        return float_up(fraction_up(spread) * self.step**2)

    def error(self, confidence: Number = Fraction(19, 20), *, count: int = 1) -> float:
        """Return the half-width that holds with at least this probability for ``count`` answers at once.

        It is measured from the value, and includes its rounding to the grid (`hush.mechanisms.base`).
        """
        level, numbers = confidence_level(confidence), integer(count, "count", minimum=1)
        s = self.scale / self.step
        # Independent answers all hold with probability `level` if each misses with 1 - level^(1/count).
        miss = certified(lambda: -((ball(level).log() / numbers).expm1()))
        # t = s·ln(1/miss) of the continuous law, rounded up.
        width = fraction_up(certified(lambda: -ball(s) * miss.log(), bits=40))
        below = int(width)
        if (below + 1) / s > _VANISHING_EXPONENT:  # the tail is below every confidence that can be written
            return float_up(width * self.step + off_grid(self.sensitivity, self.step))
        # P(|X| > ⌊t⌋) of the discrete law. If it exceeds `miss`, one step more always holds (module docstring).
        tail = certified(lambda: 2 * (-(below + 1) / ball(s)).exp() / (1 + (-1 / ball(s)).exp()), bits=40)
        steps = width if fraction_up(tail) <= fraction_down(miss) else Fraction(below + 1)
        return float_up(steps * self.step + off_grid(self.sensitivity, self.step))

    def probabilities(self, size: int) -> npt.NDArray[np.float64]:
        """Return the probabilities of noise of -size … size steps."""
        s, steps = float(self.scale / self.step), integer(size, "size", minimum=0)
        r = np.exp(-1 / s)
        return np.asarray((1 - r) / (1 + r) * r ** np.abs(np.arange(-steps, steps + 1)), dtype=np.float64)
