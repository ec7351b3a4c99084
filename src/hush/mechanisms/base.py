"""What every mechanism offers.

A mechanism is a frozen value: whatever exists is valid. It can release, it states the event that an accountant needs,
and it knows its own error.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from hush.core import Number, fraction_between


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


class Setter:
    """Sets the fields of a frozen dataclass in its own ``__init__``."""

    __slots__ = ()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)
