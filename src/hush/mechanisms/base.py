"""The protocol of mechanisms, and the helpers of additive ones: the grid, sensitivity in steps, rounded variances.

A mechanism is a frozen value that is checked when it is made: an object that exists is valid. It can release, it
states its event for the accountant, and it knows its own error, in three figures:

* ``error(confidence)``: α such that the error is at most α with at least this probability;
* ``bias`` and ``variance``: the mean and the variance of the error. Where the mechanism alone fixes its law (noise that
  is added, a noisy comparison) they are properties; where it needs something that the mechanism does not hold (scores
  to choose from, the number of reports, a smooth sensitivity) they are methods that take it.

There are three ways to make one: from ε (and δ); `with_noise`, from a scale; `for_error`, from the wanted (α, β), which
searches the smallest ε, to 12 digits, with an `error` of at most α.

**Sensitivity in steps.** A caller promises that neighbours' values differ by at most Δ. On a grid of step g the rounded
values differ by at most d = ⌈Δ/g⌉ steps (`hush.core.grid`), and the noise is calibrated to d: the ceiling
is the safe side. For a *vector* each of the k coordinates that a neighbour changes is rounded by itself, and
Σ⌈dᵢ⌉ can exceed ⌈Σdᵢ⌉ by k-1. So arrays that are not on the grid beforehand need ``coordinates=k``, and d becomes
⌈Δ/g⌉ + k - 1. Arrays of whole numbers on a grid that contains the whole numbers are not rounded at all, and need
nothing.

**Half-widths** are measured from the value as it was given. Rounding it to the grid first moves it by up to half a
step, which they include, unless the sensitivity and the grid are whole (`off_grid`): the values are then taken to be
whole too, as counts are, and are not moved.

**Rounded variance.** Smooth noise, propose-test-release and vectors add an ideal real that is rounded to the grid. The
noise is X = the whole number nearest to Y, for a real Y of scale s steps, symmetric about a value *on* the grid
(off it the answer's mean moves by no more than half a step). With T(t) = P[|Y| > t] we have P[|X| > k] = T(k + ½) and
E[X²] = Σ_{k≥0} (2k+1)·P[|X| > k]. So, in squared steps,

* Laplace, T(t) = e^{-t/s}: √r(1+r)/(1-r)², r = e^{-1/s};
* Gaussian: at most s² + 1/12, from which it differs by Σ_{m≥1} (-1)^m·e^{-2π²m²s²}(4s² + 1/π²m²) (Poisson): a sum of
  alternating signs and falling terms that begins below zero, and is less than 10⁻¹¹ from s = 1.2 on;
* polynomial ∝ (1+|z|)^{-a}, T(t) = (1 + t/s)^{1-a}: with c = s + ½ and Hurwitz' zeta
  s^{a-1}·(2ζ(a-2, c) + (1-2c)·ζ(a-1, c)), finite for a > 3 only;
* Cauchy ∝ 1/(1+|z|^γ): E[Y²] = s²·sin(π/γ)/sin(3π/γ), finite for γ > 3 only, and E[X²] ≤ (√E[Y²] + ½)².

>>> round(RoundedNoise("laplace").variance(Fraction(100))), round(RoundedNoise("gaussian").variance(Fraction(1)), 6)
(20000, 1.083333)
>>> RoundedNoise("polynomial", power=Fraction(3)).variance(Fraction(1))
inf
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.core import InvalidValueError, Number, fraction_between, positive
from hush.core.grid import add, as_array, is_scalar, on_grid, one_number, whole_step, whole_steps
from hush.core.rounding import Ball, ball, certified, flint, float_up, fraction_up, smallest_decimal, up

_SMALLEST_PARAMETER, _LARGEST_PARAMETER = Fraction(1, 10**150), Fraction(10**150)

M = TypeVar("M")


@runtime_checkable
class Mechanism(Protocol):
    """A mechanism: it releases a value and states its privacy event.

    >>> import hush
    >>> isinstance(hush.Laplace(sensitivity=1, epsilon=1), Mechanism)
    True
    """

    @property
    def event(self) -> Any:
        """The privacy event of one release, of `hush.accounting`."""

    def release(self, value: Any) -> Any:
        """Return a private version of ``value``."""


@runtime_checkable
class Additive(Mechanism, Protocol):
    """A mechanism that adds independent noise, symmetric about zero.

    >>> import hush
    >>> isinstance(hush.Laplace(sensitivity=1, epsilon=1), Additive)
    True
    """

    @property
    def variance(self) -> float:
        """The noise's variance, in squared units of the value."""

    @property
    def bias(self) -> float:
        """The noise's mean."""

    def error(self, confidence: Number = ..., *, count: int = ...) -> float:
        """Return a half-width that holds for ``count`` answers at once with at least this probability."""


def confidence_level(confidence: Number) -> Any:
    """Return a confidence as an exact number in (0, 1)."""
    return fraction_between(confidence, "confidence", allowed="a probability strictly between 0 and 1, such as 0.95")


def ordinary(value: object, parameter: str, *, allowed: str = "a positive finite number") -> Fraction:
    """Return an exact number from 10⁻¹⁵⁰ to 10¹⁵⁰: the product of any two is still within the range of floats."""
    number = positive(value, parameter, allowed=allowed)
    if not _SMALLEST_PARAMETER <= number <= _LARGEST_PARAMETER:
        raise InvalidValueError(parameter, got=value, allowed="a number from 1e-150 to 1e150")
    return number


def unquoted(read: Callable[[Any, str], M], value: Any, parameter: str, allowed: str) -> M:
    """Return a private value as ``read`` reads it; the text of a refusal names its type only."""
    try:
        return read(value, parameter)
    except (InvalidValueError, TypeError, ValueError):
        raise InvalidValueError(parameter, got=f"another {type(value).__name__}", allowed=allowed) from None


def choose(name: object, names: tuple[str, ...], parameter: str = "method") -> str:
    """Return ``name`` if it is among ``names``; refuse it otherwise."""
    if not isinstance(name, str) or name not in names:
        raise InvalidValueError(parameter, got=name, allowed=" or ".join(map(repr, names)))
    return name


def least(make: Callable[[Fraction], M], error: Callable[[M], float], target: Number, *, why: str) -> M:
    """Return the mechanism of the smallest ε, to 12 digits, with an error of at most ``target``.

    ``why`` tells the reason why no ε brings the error below a limit.
    """
    goal, limit = positive(target, "error"), error(make(_LARGEST_PARAMETER))
    if goal <= Fraction(limit):
        raise InvalidValueError("error", got=target, allowed=f"above {limit:.6g}, {why}")
    # The error falls as ε grows: that of the largest ε is the least, and bisection over decimals finds the smallest ε.
    return make(smallest_decimal(lambda epsilon: error(make(epsilon)) <= goal, digits=12))


class ReadableRepr:
    """A ``repr`` for frozen dataclasses that writes exact numbers as ``1/10``, not as ``Fraction(1, 10)``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the fields that are not None, numbers as 1/10: ``Laplace(sensitivity=1, …)``."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        texts = {name: str(value) if isinstance(value, Fraction) else repr(value) for name, value in values.items()}
        fields = ", ".join(f"{name}={texts[name]}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({fields})"


class Symmetric:
    """A mechanism with noise that is symmetric about zero."""

    __slots__ = ()

    @property
    def bias(self) -> float:
        """Zero: the noise is symmetric."""
        return 0.0


HALF_A_STEP = "half a step of the grid: take a smaller step"
"""The usual reason why no ε brings an error lower."""


class Calibrated(ReadableRepr):
    """A mechanism that is made from ε, from a scale of its noise, or from an error that is wanted."""

    __slots__ = ()
    epsilon: Any
    error: Any
    _noise_scale: Any
    """A method that returns the scale of the noise, proportional to 1/ε, in units of the value."""
    _usual: ClassVar[Mapping[str, Any]] = {}
    """The parameters that may be left out where an error is wanted."""

    @classmethod
    def with_noise(cls, scale: Number, /, **parameters: Any) -> Self:
        """Return the mechanism with noise of this scale; ``parameters`` are those of the class, but for ε."""
        unit: Any = cls(epsilon=Fraction(1, 2), **parameters)  # type: ignore[call-arg]
        budget = unit.epsilon * unit._noise_scale() / ordinary(scale, "noise")  # noqa: SLF001 - of its own class
        return cls(epsilon=budget, **parameters)  # type: ignore[call-arg]

    @classmethod
    def for_error(cls, error: Number, *, confidence: Number = Fraction(19, 20), **parameters: Any) -> Self:
        """Return the mechanism of the smallest ε, to 12 digits, with an `error` of at most ``error``.

        ``parameters`` are those of the class, but for ε, and those of its `error`.
        """
        asked = {name: parameters.pop(name) for name in inspect.signature(cls.error).parameters if name in parameters}
        parameters = {**cls._usual, **parameters}
        why = cls._at(Fraction(1, 2), parameters)._limit(**asked)  # noqa: SLF001 - of its own class

        def half_width(mechanism: Any) -> float:
            return float(mechanism.error(confidence, **asked))

        made: Self = least(lambda epsilon: cls._at(epsilon, parameters), half_width, error, why=why)
        return made

    @classmethod
    def _at(cls, epsilon: Fraction, parameters: Mapping[str, Any]) -> Self:
        """Return the mechanism of this ε; whatever takes long to check of its parameters is for `_limit` to check."""
        return cls(epsilon=epsilon, **parameters)  # type: ignore[call-arg]

    def _limit(self, **_asked: Any) -> str:
        """Return why no ε brings the error below a limit; refuse a mechanism that is never wrong, or not private."""
        return HALF_A_STEP


_STEPS_PER_SENSITIVITY = 2**10  # at least, on a default grid that is not the whole numbers


def default_step(sensitivity: Fraction, step: Number | None) -> Fraction:
    """Return the declared step; by default 1 for a whole sensitivity, else a power of two below its thousandth."""
    if step is not None:
        return ordinary(step, "step")
    if sensitivity.denominator == 1:
        return Fraction(1)
    # Multiples of a power of two are exact as floats (up to 2⁵³), so answers on the grid are not rounded again.
    target = sensitivity / _STEPS_PER_SENSITIVITY
    # Bit lengths give log₂ of the target within one; the step is rounded down, to the finer grid.
    power = Fraction(2) ** (target.numerator.bit_length() - target.denominator.bit_length())
    return power if power <= target else power / 2


def off_grid(sensitivity: Fraction, step: Fraction) -> Fraction:
    """Return the largest distance of a value from its grid point: half a step, or 0 for whole numbers on the grid."""
    on_whole_grid = sensitivity.denominator == 1 and step.numerator == 1
    return Fraction(0) if on_whole_grid else step / 2


def in_steps(sensitivity: Fraction, step: Fraction) -> int:
    """Return ⌈Δ/g⌉, the sensitivity in whole steps, rounded up to the safe side."""
    return -(-sensitivity // step)


def already_on_grid(array: npt.NDArray[Any], step: Fraction) -> bool:
    """Return whether every value of this dtype is a whole number of steps; no value is looked at."""
    return array.dtype.kind in "biu" and step.numerator == 1


def release_on_grid(
    value: Any, *, step: Fraction, draw: Callable[[Any], Any], vectors: str, allowed: str, hint: str
) -> Any:
    """Add ``draw(None)`` or ``draw(shape)`` steps of noise to a number or column.

    ``vectors`` says which columns of several numbers may come: "any", "whole" ones on the grid, or "none". Others are
    refused with ``allowed`` and ``hint``.
    """
    if is_scalar(value):
        return on_grid(whole_step(one_number(value), step) + draw(None), step)
    array = as_array(value)
    admitted = array.size <= 1 or vectors == "any" or (vectors == "whole" and already_on_grid(array, step))
    if not admitted:
        raise InvalidValueError("value", got=f"{array.size} numbers of dtype {array.dtype}", allowed=allowed, hint=hint)
    return on_grid(add(whole_steps(array, step), np.asarray(draw(array.shape))), step)


@lru_cache(maxsize=256)
def normal_quantile(miss: Fraction) -> Fraction:
    """Return z, rounded up to 12 digits, with P(N(0,1) > z) ≤ miss < 1/2."""

    def beyond(z: Fraction) -> Fraction:
        return fraction_up(certified(lambda: (ball(z) / flint().arb(2).sqrt()).erfc() / 2, bits=45))

    return smallest_decimal(lambda z: beyond(z) <= miss, digits=12)


_WIDEST_SUM = 10**6  # in steps; beyond it a bound is computed


@dataclass(frozen=True, slots=True)
class RoundedNoise:
    """An ideal real, symmetric about zero, that is rounded to a whole number; its figures are rounded up.

    The law is "laplace", "gaussian", "polynomial" or "cauchy"; ``power`` is a or γ of the latter two.
    """

    law: str
    power: Fraction = Fraction(2)

    def draw(self, scale: Fraction, centre: Fraction) -> int:
        """Draw a whole number: the one nearest to centre + scale·Z."""
        if self.law == "polynomial":
            return noise.rounded_polynomial(scale, a=self.power, centre=centre)
        if self.law == "cauchy":
            return noise.rounded_cauchy(scale, gamma=self.power, centre=centre)
        return (noise.rounded_laplace if self.law == "laplace" else noise.rounded_gaussian)(scale, centre=centre)

    def half_width(self, miss: Fraction) -> Fraction:
        """Return t with P[|Z| > t] ≤ miss for the ideal real Z of scale 1.

        For the Cauchy the tail ∫_t^∞ 2/(1+z^γ) ≤ 2t^{1-γ}/(γ-1) is used, over a mass of at least γ/(γ-1).
        """
        if self.law == "gaussian":
            return normal_quantile(miss / 2)

        def width() -> Ball:  # each tail is solved for t
            if self.law == "laplace":
                return -ball(miss).log()
            if self.law == "polynomial":  # P[|Z| > t] = (1+t)^(1-a)
                return (-ball(miss).log() / ball(self.power - 1)).expm1()
            return (ball(miss * self.power / 2).log() / ball(1 - self.power)).exp()

        return fraction_up(certified(width, bits=40))

    def variance(self, scale: Fraction) -> float:
        """Return the variance, in squared steps, at a scale in steps; for the Cauchy law an upper bound."""
        if self.law == "gaussian":
            return float_up(scale**2 + Fraction(1, 12))
        if self.law != "laplace" and self.power <= 3:
            return math.inf

        def value() -> Ball:
            s, power, half = ball(scale), ball(self.power), flint().arb("0.5")
            if self.law == "laplace":
                root = (-half / s).exp()  # √r, for √r(1+r)/(1-r)²
                return root * (1 + root**2) / (1 - root**2) ** 2
            if self.law == "polynomial" and scale <= _WIDEST_SUM:
                c = s + half  # Σ (2k+1)·(1 + (k+½)/s)^(1-a), by Hurwitz' zeta at c
                return s ** (power - 1) * (2 * (power - 2).zeta(c) + (1 - 2 * c) * (power - 1).zeta(c))
            # E[X²] ≤ (√E[Y²] + ½)², by Minkowski: rounding moves Y by at most ½.
            angle = flint().arb.pi() / power
            square = 2 / ((power - 2) * (power - 3)) if self.law == "polynomial" else angle.sin() / (3 * angle).sin()
            return (square.sqrt() * s + half) ** 2

        return up(certified(value, bits=53 if self.law == "laplace" else 40))
