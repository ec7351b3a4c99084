"""The accountant's own errors, under the one tree of :mod:`hush.core.errors`.

::

    HushError
    ├── InvalidValueError
    │   └── UnknownEventError     a type or version of event that this release does not know
    └── DescriptionError          an event lacks the description that a question needs (Gaussian noise has no pure ε)
"""

from __future__ import annotations

from hush.core import HushError, InvalidValueError

__all__ = ["DescriptionError", "UnknownEventError"]


class UnknownEventError(InvalidValueError):
    """An event's type or version is not in the vocabulary."""

    code = "unknown-event"


class DescriptionError(HushError, ValueError):
    """An event has no description of the kind that was asked for."""

    code = "no-description"
