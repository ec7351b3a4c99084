"""The accountant's own errors, under the one tree of :mod:`hush.core.errors`.

::

    HushError
    ├── InvalidValueError
    │   └── UnknownEventError     a type or version of event that this release does not know
    ├── PrecisionError
    │   └── UncertainError        the certified ends of a figure lie too far apart; it carries both
    └── DescriptionError          an event lacks the description that a question needs (Gaussian noise has no pure ε)
"""

from __future__ import annotations

from hush.core import HushError, InvalidValueError, PrecisionError


class UnknownEventError(InvalidValueError):
    """An event's type or version is not in the vocabulary."""

    code = "unknown-event"


class UncertainError(PrecisionError):
    """A figure's certified ends lie further apart than the accountant promises; both are sound, and carried along."""

    def __init__(self, figure: str, lower: float, upper: float) -> None:
        self.figure, self.lower, self.upper = figure, lower, upper
        super().__init__(
            f"{figure} is certified to lie between {lower:.9g} and {upper:.9g}, which is wider than promised. "
            "The upper end is sound: ask again with strict=False to have it."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (UncertainError, (self.figure, self.lower, self.upper))


class DescriptionError(HushError, ValueError):
    """An event has no description of the kind that was asked for."""

    code = "no-description"
