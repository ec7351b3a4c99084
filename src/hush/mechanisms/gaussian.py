"""The Gaussian mechanism on the public grid: (ε, δ), exact noise, calibrated on the law that is drawn.

It is never pure DP. Calibrations by name, as factors of the ℓ₂ sensitivity Δ (THEORY item 13):

* ``"analytic"`` (default): the smallest σ with Φ(Δ/2σ - εσ/Δ) - e^{ε}Φ(-Δ/2σ - εσ/Δ) ≤ δ (Balle, Wang 2018), for every
  ε ≥ 0, also ε = 0;
* ``"classical"``: σ = cΔ/ε, c² > max(9/4, 2 ln(1.25/δ)), for 0 < ε < 1;
* ``"2/delta"``: σ = Δ√(2 ln(2/δ))/ε; ``"1/delta"``: σ = Δ√(2 ln(1/δ))/ε. Refused wherever the exact formula says that
  they are not enough.

σ is rounded up to an exact rational. Two laws are drawn, and each has its own event:

**Discrete** (numbers, and arrays in which a neighbour changes one coordinate): integers ∝ e^(-k²/2σ²) in steps, with
the sensitivity d = ⌈Δ/g⌉ in whole steps. The continuous formula does not bind a discrete law, so its certified δ(ε)
is computed, and σ raised until it is at most δ. Smaller shifts are covered: the law is log-concave, so f_{v+w} =
f_w∘(1-f_v) ≤ f_v (`hush.mechanisms.laplace`).

**Rounded** (vectors in which a neighbour changes several coordinates): each coordinate is the grid point nearest to an
ideal real draw from N(xᵢ, σ²). Rounding is post-processing of the continuous mechanism, which is rotation invariant, so
Δ₂ is all that counts and the continuous event is exact; the values need not be on the grid. For the *discrete* law ℓ₂
alone is not enough: which integer vector of length Δ₂ is worst is not known. Sound for it is Δ₂²/2σ²-zCDP (each
coordinate vᵢ²/2σ² by Canonne, Kamath, Steinke 2020, and these add), or one discrete event a changed coordinate
(independent coordinates compose, and larger shifts dominate smaller ones); the first costs about a tenth more noise.

**Error.** σ·z with z the normal quantile holds for the rounded law up to half a step. For the discrete law P(X ≥ m) ≤
P(N ≥ m-1) (Canonne et al., Proposition 25), so ⌈σz⌉ steps always hold; σz itself is reported if the exact sum of the
discrete tail allows it. A value that is rounded to the grid first moves by up to half a step, which is added
(`hush.mechanisms.base`).

>>> Gaussian(sensitivity=1, epsilon=2, delta="1e-6", calibration="classical")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'epsilon' parameter must be below 1 for the classical bound. Got 2 instead...

**Gaussian calibration on the discrete law: the σ that the drawn law itself needs.**

For integers ∝ e^(-k²/2σ²) and a shift of d steps the log-ratio at output x is (2x-d)d/2σ², so with t = εσ²/d + d/2

    δ(ε) = P[X > t-d] - e^ε·P[X > t]        (Canonne, Kamath, Steinke 2020, Theorem 7)

exactly. It is bounded from above in one of two ways, each with its rounding on that side:

* up to σ = 2048 steps the tails are summed in float64. All terms are positive, so a sum has a relative error below
  1e-11; the first tail is raised by that, the second lowered.
* beyond, each sum is compared with an integral: Σ_{k≥j} f(k) lies between ∫_j^∞ f and ∫_{j-1}^∞ f for falling f (j ≥
  1), and σ√(2π) ≤ Σ_k f(k) ≤ σ√(2π)(1 + 3e^{-2π²σ²}) by Poisson summation. This gives away about one step in σ.

>>> discrete_sigma(Fraction(1), Fraction(1, 10**6), 1, "analytic") >= CALIBRATIONS["analytic"](1, "1e-6")
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import DiscreteGaussianEvent, GaussianEvent, theorems
from hush.core import InvalidValueError, Number, fraction_between, integer, nonnegative
from hush.core.grid import add, as_array, integers, is_scalar, number, on_grid, one_number, whole_steps
from hush.core.numbers import assign
from hush.core.rounding import (
    Ball,
    ball,
    certified,
    flint,
    float_up,
    fraction_down,
    fraction_up,
    short_down,
    short_up,
)
from hush.mechanisms.base import (
    Calibrated,
    RoundedNoise,
    Symmetric,
    already_on_grid,
    choose,
    confidence_level,
    default_step,
    in_steps,
    normal_quantile,
    off_grid,
    ordinary,
    release_on_grid,
)

_LARGEST_EPSILON = Fraction(1000)
_LARGEST_SUMMED_SIGMA = 512  # up to this σ in steps the discrete tail is summed term by term


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(Calibrated, Symmetric):
    """Adds exact Gaussian noise to numbers, arrays and columns.

    Parameters
    ----------
    sensitivity
        How much a neighbour can change the value, in ℓ₂.
    epsilon, delta
        The guarantee wanted; or give ``sigma``, the noise's σ in units of the value. From ε = 1000 on the noise is
        that of 1000.
    calibration
        "analytic", "classical", "2/delta" or "1/delta".
    step
        The public grid; by default 1 for a whole sensitivity, else a power of two below a thousandth of it.
    coordinates
        For arrays: how many of their numbers a neighbour can change, at most. 1 draws the discrete law, more the
        rounded one. Not needed for one number, nor for arrays of integers with a sensitivity of one step.

    Examples
    --------
    >>> import hush
    >>> m = hush.Gaussian(sensitivity=1, epsilon=1, delta="1e-6")
    >>> round(float(m.sigma), 2), isinstance(m.release(42), int)
    (4.23, True)
    """

    sensitivity: Fraction
    epsilon: Fraction | None
    delta: Fraction | None
    sigma: Fraction
    calibration: str
    step: Fraction
    coordinates: int | None
    _usual = {"sensitivity": 1}  # noqa: RUF012 - never changed

    def __init__(
        self,
        *,
        sensitivity: Number,
        epsilon: Number | None = None,
        delta: Number | None = None,
        sigma: Number | None = None,
        calibration: str = "analytic",
        step: Number | None = None,
        coordinates: int | None = None,
    ) -> None:
        exact_sensitivity = ordinary(
            sensitivity, "sensitivity", allowed="a positive finite number; without bounds there is none"
        )
        grid = default_step(exact_sensitivity, step)
        changed = 1 if coordinates is None else integer(coordinates, "coordinates", minimum=1)
        choose(calibration, tuple(CALIBRATIONS), "calibration")
        if (epsilon is None) != (delta is None) or (epsilon is None) == (sigma is None):
            allowed = "given together with delta, or else 'sigma' alone"
            raise InvalidValueError("epsilon", got=epsilon, allowed=allowed)
        exact_epsilon: Fraction | None = None
        slip: Fraction | None = None
        if sigma is not None:
            width = ordinary(sigma, "sigma")
        else:
            exact_epsilon = (nonnegative if calibration == "analytic" else ordinary)(epsilon, "epsilon")
            slip = fraction_between(delta, "delta")
            # A guarantee at a smaller ε implies one at a larger ε. Beyond the limit the search would need e^ε with all
            # its digits.
            within = min(exact_epsilon, _LARGEST_EPSILON)
            # Several coordinates get the rounded law: post-processing of the continuous one, so its σ applies as it is.
            # One coordinate gets the discrete law, which has a δ(ε) of its own.
            if changed > 1:
                width = CALIBRATIONS[calibration](within, slip, sensitivity=exact_sensitivity)
            else:
                width = discrete_sigma(within, slip, in_steps(exact_sensitivity, grid), calibration) * grid
        assign(
            self,
            sensitivity=exact_sensitivity,
            epsilon=exact_epsilon,
            delta=slip,
            sigma=width,
            calibration=calibration,
            step=grid,
            coordinates=coordinates,
        )

    @classmethod
    def with_noise(cls, scale: Number, /, **parameters: Any) -> Self:
        """Return the mechanism with noise of this σ."""
        return cls(sigma=scale, **parameters)

    @classmethod
    def _at(cls, epsilon: Fraction, parameters: Mapping[str, Any]) -> Self:
        # Where an error is wanted 1/σ is what grows, in the place of ε: σ is the largest that keeps to the error.
        return cls.with_noise(short_down(1 / epsilon), **parameters)

    @property
    def discrete(self) -> bool:
        """Whether the discrete law is drawn, rather than the rounded one."""
        return self.coordinates is None or self.coordinates == 1

    @property
    def event(self) -> DiscreteGaussianEvent | GaussianEvent:
        """One Gaussian release: discrete, in steps; or continuous, in units of the value."""
        if self.discrete:
            return DiscreteGaussianEvent(
                sigma_squared=(self.sigma / self.step) ** 2, sensitivity=in_steps(self.sensitivity, self.step)
            )
        return GaussianEvent(sigma=self.sigma, sensitivity=self.sensitivity)

    def release(self, value: Any) -> Any:
        """Return value + noise: int for a whole step, else float; a NumPy array for columns."""
        sigma, step = self.sigma / self.step, self.step
        if self.discrete:
            # Whole vectors at ℓ₂ distance 1 differ in one coordinate, by 1.
            columns = "whole" if self.sensitivity <= step else "none"
            return release_on_grid(
                value,
                step=step,
                draw=lambda size: noise.discrete_gaussian(size=size, variance=sigma**2),
                vectors=columns if self.coordinates is None else "any",
                allowed="one number, or an array of integers with a sensitivity of one step",
                hint="Give the mechanism coordinates=…: how many of the numbers a neighbour can change.",
            )
        # Never round first: a rounded value can move further than Δ₂, by up to a step. Centre + noise is rounded.
        if is_scalar(value):
            return on_grid(noise.rounded_gaussian(sigma, centre=one_number(value) / step), step)
        array = as_array(value)
        if already_on_grid(array, step):
            return on_grid(add(whole_steps(array, step), np.asarray(noise.rounded_gaussian(sigma, array.shape))), step)
        drawn = [noise.rounded_gaussian(sigma, centre=number(x) / step) for x in array.ravel().tolist()]
        return on_grid(integers(drawn, array.shape), step)

    @property
    def variance(self) -> float:
        """The noise's variance: of the discrete law at most σ², of the rounded law at most σ² + step²/12."""
        sigma = self.sigma / self.step
        if not self.discrete:
            return RoundedNoise("gaussian").variance(sigma) * float(self.step) ** 2
        if sigma >= 32:  # σ² is right to every digit of a float
            return float(self.sigma**2)
        masses = _masses(float(sigma))
        return float(2 * (masses * np.arange(len(masses)) ** 2).sum()) * float(self.step) ** 2

    def error(self, confidence: Number = Fraction(19, 20), *, count: int = 1) -> float:
        """Return the half-width that holds with at least this probability for ``count`` answers at once."""
        level, numbers = confidence_level(confidence), integer(count, "count", minimum=1)
        sigma = self.sigma / self.step
        # Independent answers all hold with probability `level` if each misses with 1 - level^(1/count), rounded down.
        miss = fraction_down(certified(lambda: -((ball(level).log() / numbers).expm1())))
        width = sigma * normal_quantile(miss / 2)
        if not self.discrete:
            return float_up((width + Fraction(1, 2)) * self.step)  # each answer is rounded by up to half a step
        if sigma < _LARGEST_SUMMED_SIGMA:
            tail = 2 * _masses(float(sigma))[int(width) + 1 :].sum()
            if tail * (1 + 1e-9) <= miss:  # the float sum is right to 1e-11
                return float_up(width * self.step + off_grid(self.sensitivity, self.step))
        # P(X > ⌈σz⌉) ≤ P(N ≥ ⌈σz⌉) always (Canonne, Kamath, Steinke 2020, Proposition 25).
        return float_up(math.ceil(width) * self.step + off_grid(self.sensitivity, self.step))

    def probabilities(self, size: int) -> npt.NDArray[np.float64]:
        """Return the probabilities of noise of -size … size steps, of the law that is drawn."""
        sigma, steps = float(self.sigma / self.step), integer(size, "size", minimum=0)
        if self.discrete:
            # Σ e^(-k²/2σ²) = σ√(2π)·(1 + 2e^(-2π²σ²) + …) by Poisson's formula
            peak = _masses(sigma)[0] if sigma < 4 else 1 / (sigma * math.sqrt(2 * math.pi))
            with np.errstate(under="ignore"):
                half = np.exp(-(np.arange(steps + 1.0) ** 2) / (2 * sigma * sigma)) * peak
        else:
            # P[k - ½ < Y < k + ½], as a difference of tails, which keeps its digits far out.
            beyond = [math.erfc(edge / (sigma * math.sqrt(2))) / 2 for edge in (np.arange(steps + 2) - 0.5).tolist()]
            half = -np.diff(beyond)
        return np.concatenate([half[:0:-1], half])


def _masses(sigma: float) -> npt.NDArray[np.float64]:
    """Return P[X = k] of the discrete law for k = 0, 1, … until it vanishes from float64."""
    k = np.arange(int(39 * sigma) + 3, dtype=np.float64)
    weights = np.exp(-k * k / (2 * sigma * sigma))
    return np.asarray(weights / (2 * weights.sum() - weights[0]), dtype=np.float64)


CALIBRATIONS: dict[str, Callable[..., Fraction]] = {
    "analytic": theorems.gaussian.analytic,
    "classical": theorems.gaussian.classical,
    "2/delta": theorems.gaussian.two_over_delta,
    "1/delta": theorems.gaussian.one_over_delta,
}
_LARGEST_SIGMA_OF_SUMS = 2048
_SUM_ERROR = 1e-11
_POISSON_REMAINDER = Fraction(1, 2**10000)  # far above 3e^(-2π²σ²) for σ > 2048


@lru_cache(maxsize=1024)
def discrete_sigma(epsilon: Fraction, delta: Fraction, steps: int, calibration: str) -> Fraction:
    """Return σ in steps: the named calibration, raised where needed until the discrete law's δ(ε) is at most δ.

    δ(ε) of a lattice law is not smooth in σ, so this is a search for *a* certified σ close above the named one.
    """
    sigma = CALIBRATIONS[calibration](epsilon, delta, sensitivity=steps)
    enough, short = sigma, sigma
    # Raise σ by 2⁻²⁰, 2⁻¹⁹, … of itself until the certified δ(ε) is at most δ.
    for attempt in range(60):
        if discrete_delta(enough, steps, epsilon) <= delta:
            break
        short, enough = enough, short_up(sigma * (1 + Fraction(2**attempt, 2**20)))
    else:
        raise InvalidValueError("step", got=steps, allowed="fine enough for this noise", hint="Declare a smaller step.")
    # Narrow the bracket by bisection. `enough` was certified at each step, so any of its values is safe to return.
    for _ in range(8 if enough > sigma else 0):
        middle = short_up((short + enough) / 2)
        if discrete_delta(middle, steps, epsilon) <= delta:
            enough = middle
        else:
            short = middle
    return enough


def discrete_delta(sigma: Fraction, steps: int, epsilon: Fraction) -> Fraction:
    """Return a certified upper bound of δ(ε) for the discrete Gaussian of this σ and a shift of ``steps``."""
    threshold = epsilon * sigma**2 / steps + Fraction(steps, 2)
    # The first whole numbers beyond t - d and beyond t, for P[X > t-d] - e^ε·P[X > t].
    near, far = math.floor(threshold - steps) + 1, math.floor(threshold) + 1
    if sigma <= _LARGEST_SIGMA_OF_SUMS:
        masses = _masses(sigma.numerator / sigma.denominator)

        def tail(j: int) -> float:
            """Return P[X ≥ j]; for j ≤ 0 by symmetry 1 - P[X ≥ 1 - j]."""
            return float(masses[j:].sum()) if j > 0 else float(1 - masses[1 - j :].sum())

        # The first probability is rounded up, the second one down: δ(ε) is bounded from above. Beyond 39σ masses are
        # below the smallest float; 10⁻³⁰⁰ stands for them.
        high = Fraction(tail(near)) * (1 + Fraction(_SUM_ERROR)) + Fraction(1, 10**300)
        low = tail(far) * (1 - _SUM_ERROR)
        # e^ε·P[X > t]: the lower end; where the tail has vanished from float64, nothing is subtracted.
        less = fraction_down(certified(lambda: ball(epsilon).exp())) * Fraction(low) if low > 1e-290 else Fraction(0)
        return max(high - less, Fraction(0))

    def beyond(x: Fraction) -> Ball:
        return (ball(x) / flint().arb(2).sqrt()).erfc() / 2

    # P[X ≥ near] ≤ P[N ≥ near-1] also for near ≤ 0: it is 1 - P[X ≥ 1-near], and P[X ≥ m] ≥ P[N ≥ m]/(1+η).
    upper = certified(lambda: beyond((near - 1) / sigma)) + ball(_POISSON_REMAINDER)
    lower = certified(lambda: ball(epsilon).exp() * beyond(far / sigma))
    return max(fraction_up(upper) - fraction_down(lower) / (1 + _POISSON_REMAINDER), Fraction(0))
