"""What every mechanism offers.

A mechanism is a frozen value: whatever exists is valid. It can release, it states the event that an accountant needs,
and it knows its own error, in three figures:

* ``error(confidence)``: α such that the error is at most α with at least this probability;
* ``bias`` and ``variance``: the mean and the variance of the error. Where the mechanism alone fixes its law (noise that
  is added, a noisy comparison) they are properties; where it needs something that the mechanism does not hold (scores
  to choose from, the number of reports, a smooth sensitivity) they are methods that take it.

There are three ways to make one: from ε (and δ); `with_noise`, from a scale; `for_error`, from the wanted (α, β), which
finds the smallest ε, to 12 digits, whose `error` keeps to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, TypeVar, runtime_checkable

from hush.core import InvalidValueError, Number, fraction_between, positive
from hush.core.rounding import smallest_decimal

_SMALLEST, _LARGEST = Fraction(1, 10**150), Fraction(10**150)

M = TypeVar("M")


@runtime_checkable
class Mechanism(Protocol):
    """Something that releases a value and can say what that costs."""

    @property
    def event(self) -> Any:
        """What an accountant needs: an event of `hush.accounting`."""

    def release(self, value: Any) -> Any:
        """Return a private version of ``value``."""


@runtime_checkable
class Additive(Mechanism, Protocol):
    """A mechanism that adds independent noise, symmetric about zero."""

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
    """Return an exact number from 10⁻¹⁵⁰ to 10¹⁵⁰, whose products with others of the kind are still floats."""
    number = positive(value, parameter, allowed=allowed)
    if not _SMALLEST <= number <= _LARGEST:
        raise InvalidValueError(parameter, got=value, allowed="a number from 1e-150 to 1e150")
    return number


def choose(name: object, names: tuple[str, ...], parameter: str = "method") -> str:
    """Return one of these names; refuse everything else."""
    if not isinstance(name, str) or name not in names:
        raise InvalidValueError(parameter, got=name, allowed=" or ".join(map(repr, names)))
    return name


def least(
    make: Callable[[Fraction], M],
    error: Callable[[M], float],
    wanted: Number,
    *,
    floor: Fraction = Fraction(0),
    why: str = "",
    near: Fraction | None = None,
) -> M:
    """Return the mechanism of the smallest ε, to 12 digits, whose error is at most what is wanted.

    ``floor`` is what no ε brings the error below, and ``why``; ``near`` is a guess of ε.
    """
    goal = positive(wanted, "error")
    if goal <= floor:
        raise InvalidValueError("error", got=wanted, allowed=f"above {float(floor):.6g}, {why}")
    return make(smallest_decimal(lambda epsilon: error(make(epsilon)) <= goal, digits=12, near=near))


class Setter:
    """Sets the fields of a frozen dataclass in its own ``__init__``."""

    __slots__ = ()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the fields that say something, exact numbers as one writes them: ``Laplace(sensitivity=1, …)``."""
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={_written(value)}" for name, value in values if value is not None)
        return f"{type(self).__name__}({shown})"


def _written(value: Any) -> str:
    return str(value) if isinstance(value, Fraction) else repr(value)
