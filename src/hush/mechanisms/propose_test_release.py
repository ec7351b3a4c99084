r"""Propose–test–release: propose a sensitivity η, test privately that the data are far from exceeding it, then release.

Let A(D) be any whole number that (i) differs by at most 1 between neighbours and (ii) is 0 wherever some neighbour D'
has |f(D) - f(D')| > η: the distance to the nearest data set whose *local sensitivity* exceeds η is one. Then

    release f(D) + (ηa/ε)·Z₂   if   A(D) + (a/ε)·Z₁ > b/ε,   else answer ⊥ (`Refused`), which is charged like an answer.

**Privacy** (Dwork, Lei 2009; Avella-Medina, Brunel 2020; THEORY item 16). Neighbours with |f - f'| ≤ η: the test is
ε-DP by (i) and the release is ε-DP, together 2ε. Neighbours with |f - f'| > η: by (ii) A = 0 on *both*, so both run
the same test and pass it with probability P[(a/ε)Z₁ > b/ε] only. Laplace, a = 1, b = ln(2/δ): that is at most δ: (2ε,
δ). Gaussian, a = √(2 ln(1.25/δ)), b = a², ε < 1: (2ε, 2e^ε·δ + δ²).

One source measures the distance at which |f(D) - f(D₂)| exceeds η, seen *from D itself*. Then (ii) fails: the median
of 501 zeros, one 0.5 and 499 times 1.1 is far from moving by 1 and yet one row from a data set whose median is 0: not
private.

**Rounding.** Z₁ is discrete Laplace (A is whole; P[X > t] = r^(⌊t⌋+1)/(1+r) ≤ e^{-εt}), or an ideal real normal
rounded to 2⁻²⁰ and compared with a threshold 2⁻²⁰ higher. b/ε is rounded up: refusing more often is the safe side. a
is rounded up and b taken as a², so that P[Z > b/a] = P[Z > a] only falls.

>>> bool(Refused)
False
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from hush import noise as noises
from hush.accounting import ProposeTestReleaseEvent
from hush.core import InvalidValueError, Number, fraction_between, integer
from hush.core.grid import on_grid, one_number
from hush.core.numbers import assign
from hush.core.rounding import ball, certified, flint, float_up, fraction_up, short_up
from hush.mechanisms.base import (
    HALF_A_STEP,
    Calibrated,
    RoundedNoise,
    Symmetric,
    choose,
    confidence_level,
    ordinary,
    unquoted,
)

_TEST_GRID = 2**20  # steps in one unit of distance, for the Gaussian noise of the test
_LARGEST_EPSILON = 1 - Fraction(1, 10**12)  # of the Gaussian variant
_INFINITE_DISTANCE = 2**62  # beyond every noise that is drawn


class RefusedType(Enum):
    """The type of ⊥: a mechanism looked, and chose not to answer. There is one value, `Refused`; it is false."""

    REFUSED = "Refused"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "Refused"

    __str__ = __repr__


Refused: Final = RefusedType.REFUSED


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProposeTestRelease(Calibrated, Symmetric):
    """Releases a value if it is privately found to be stable; costs (2ε, δ) with Laplace noise either way.

    Parameters
    ----------
    epsilon, delta
        Of each of the two steps, as in the theorem; `event` has the total.
    eta
        The proposed sensitivity η, in units of the value.
    noise
        "laplace" or "gaussian".
    step
        The public grid of answers.

    Examples
    --------
    >>> import hush
    >>> hush.ProposeTestRelease(epsilon=10**4, delta="0.5", eta=1, step="0.5").release(7, distance=1000)
    7.0
    """

    epsilon: Fraction
    delta: Fraction
    eta: Fraction
    noise: str
    step: Fraction

    def __init__(self, *, epsilon: Number, delta: Number, eta: Number, noise: str = "laplace", step: Number) -> None:
        budget, slip = ordinary(epsilon, "epsilon"), fraction_between(delta, "delta")
        choose(noise, ("laplace", "gaussian"), "noise")
        if noise == "gaussian" and budget >= 1:
            raise InvalidValueError("epsilon", got=epsilon, allowed="below 1 for Gaussian noise")
        assign(self, epsilon=budget, delta=slip, eta=ordinary(eta, "eta"), noise=noise, step=ordinary(step, "step"))

    @classmethod
    def _at(cls, epsilon: Fraction, parameters: Mapping[str, Any]) -> Self:
        gaussian = parameters.get("noise") == "gaussian"
        return cls(epsilon=min(epsilon, _LARGEST_EPSILON) if gaussian else epsilon, **parameters)

    def _noise_scale(self) -> Fraction:
        return self.eta * self.spread / self.epsilon

    def _limit(self, **_asked: Any) -> str:
        at_one = "the error at ε = 1, below which Gaussian noise is proven: propose a smaller η"
        return HALF_A_STEP if self.noise == "laplace" else at_one

    @property
    def event(self) -> ProposeTestReleaseEvent:
        """Test and release together; ⊥ costs the same."""
        return ProposeTestReleaseEvent(epsilon=self.epsilon, delta=self.delta, noise=self.noise)

    @property
    def spread(self) -> Fraction:
        """The factor a: 1, or √(2 ln(1.25/δ)) rounded up."""
        return Fraction(1) if self.noise == "laplace" else _spread(self.delta)

    @property
    def threshold(self) -> Fraction:
        """The b/ε that the noisy distance must exceed, rounded up."""
        if self.noise == "gaussian":
            return self.spread**2 / self.epsilon
        return _logarithm(2 / self.delta) / self.epsilon

    def release(self, value: Any, distance: float) -> Any:
        """Return value + noise, or `Refused`; ``distance`` is A(D) as above, infinite where nothing is unstable."""
        far, exact_value = _read_distance(distance), one_number(value)
        width = self.spread / self.epsilon
        if self.noise == "laplace":
            passed = far + noises.discrete_laplace(width) > self.threshold
        else:
            # The noise is a real number rounded by up to half of 1/_TEST_GRID; the raised threshold covers that.
            drawn = Fraction(noises.rounded_gaussian(width * _TEST_GRID), _TEST_GRID)
            passed = far + drawn > self.threshold + Fraction(1, _TEST_GRID)
        # Drawn in either case, so that the time taken does not tell the outcome of the test.
        noisy = RoundedNoise(self.noise).draw(self.eta * width / self.step, exact_value / self.step)
        return on_grid(noisy, self.step) if passed else Refused

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """Return the half-width of an answer that is not `Refused`."""
        width = RoundedNoise(self.noise).half_width(1 - confidence_level(confidence))
        return float_up(width * self._noise_scale() + self.step / 2)

    @property
    def variance(self) -> float:
        """The variance of an answer that is not `Refused`, about a value on the grid."""
        return RoundedNoise(self.noise).variance(self._noise_scale() / self.step) * float(self.step) ** 2

    def probabilities(self, distance: float) -> npt.NDArray[np.float64]:
        """Return the probabilities of `Refused` and of an answer, at this distance."""
        short = self.threshold - _read_distance(distance)
        if self.noise == "laplace":
            # P[X > t] = r^(⌊t⌋+1)/(1+r) for t ≥ 0, and by symmetry 1 - r^(-⌊t⌋)/(1+r) for t < 0.
            epsilon, k = float(self.epsilon), math.floor(short)
            rarer = math.exp(-epsilon * (k + 1 if k >= 0 else -k)) / (1 + math.exp(-epsilon))
            return np.array([1 - rarer, rarer] if k >= 0 else [rarer, 1 - rarer])
        above = float((short + Fraction(1, _TEST_GRID)) * self.epsilon / self.spread) / math.sqrt(2)
        return np.array([math.erfc(-above) / 2, math.erfc(above) / 2])

    def distance_needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """Return the distance A from which on an answer is given with at least this probability."""
        # One tail of the test's noise: of the Laplace law half of P[|Z| > t] would do.
        miss = 1 - confidence_level(confidence)
        tail = RoundedNoise(self.noise).half_width(miss if self.noise == "laplace" else min(2 * miss, Fraction(49, 50)))
        # 2 covers int(), which rounds down, and the strict comparison.
        return int(self.threshold + tail * self.spread / self.epsilon) + 2


def _read_distance(distance: float) -> int:
    def read(value: Any, parameter: str) -> int:
        return _INFINITE_DISTANCE if value == math.inf else integer(value, parameter, minimum=0)

    return unquoted(read, distance, "distance", "a whole number of at least 0, or infinity")


@lru_cache(maxsize=64)
def _spread(delta: Fraction) -> Fraction:
    return short_up(fraction_up(certified(lambda: flint().arb.sqrt(2 * ball(Fraction(5, 4) / delta).log()))))


@lru_cache(maxsize=64)
def _logarithm(value: Fraction) -> Fraction:
    return short_up(fraction_up(certified(lambda: ball(value).log())))
