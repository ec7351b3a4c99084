"""Types of columns and expressions: a kind, whether NULL may occur, and the public range of the values.

A type is a *promise that the engine enforces*: where a column is read, its value is forced into its declared type
(numbers clamped and rounded to the step, NaN and values outside the declared list turned into NULL), so ranges
derived from types hold for every row there could ever be. Numbers, dates and timestamps have ranges; dates count
days and timestamps microseconds since 1970, so a range is always a pair of rationals. ``values`` is a finite public
list of all values.

>>> Type(Kind.INTEGER, lower=Fraction(0), upper=Fraction(120), step=Fraction(1)).bounded
True
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction

Value = Fraction | str | bool | dt.date | dt.datetime | None
"""A value of an expression: numbers are exact."""


class Kind(Enum):
    """The kind of values of a column or expression."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @property
    def numeric(self) -> bool:
        """Whether arithmetic applies."""
        return self in {Kind.INTEGER, Kind.DECIMAL}

    @property
    def ranged(self) -> bool:
        """Whether values are ordered on a line and can have bounds."""
        return self not in {Kind.TEXT, Kind.BOOLEAN}


@dataclass(frozen=True, slots=True)
class Type:
    """The kind and the public range of a column or expression."""

    kind: Kind
    nullable: bool = True
    lower: Fraction | None = None
    upper: Fraction | None = None
    step: Fraction | None = None
    """Every value is a multiple of this, if it is known."""
    values: tuple[Value, ...] | None = None
    """All values there can be (without NULL), if they are listed in public."""
    lists_null: bool = False
    """Whether the policy, or the question, names NULL as one of the values, if NULL is still possible."""
    format: str = ""
    """How the dates of a stored text are written, such as ``%d/%m/%Y``; nothing means ISO's 2024-12-31."""
    written: str = field(default="", compare=False, repr=False)
    """The type of a number in the question's dialect, which may decide the meaning of ``/``; not part of equality."""

    def __hash__(self) -> int:
        """Return a partial hash: long lists are slow to hash, and expressions are told apart by their names."""
        return hash(self.nullable)

    @property
    def bounded(self) -> bool:
        """Whether both ends of the range are known."""
        return self.lower is not None and self.upper is not None

    @property
    def null_is_key(self) -> bool:
        """Whether NULL has a group of its own among public keys."""
        return self.nullable and self.lists_null

    def or_null(self, *, named: bool = False) -> Type:
        """Return the same type with NULL allowed; ``named`` where the question itself says that there may be one."""
        return replace(self, nullable=True, lists_null=named or self.null_is_key)


UNKNOWN = "unknown"
"""The dialect type of a number, where it is not known."""


def written_in(types: Iterable[Type]) -> str:
    """Return the common dialect type of several types; ``UNKNOWN`` if they differ."""
    found = {type_.written for type_ in types}
    return found.pop() if len(found) == 1 else UNKNOWN


_EPOCH = dt.date(1970, 1, 1)
_EPOCH_TIME = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps here are without a zone
_MICROSECOND = dt.timedelta(microseconds=1)


def position(value: Value) -> Fraction:
    """Return where a value lies on its line: numbers themselves, days or microseconds since 1970.

    >>> position(dt.date(1970, 2, 1))
    Fraction(31, 1)
    """
    if isinstance(value, dt.datetime):
        return Fraction((value - _EPOCH_TIME) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Fraction((value - _EPOCH).days)
    if isinstance(value, Fraction):
        return value
    raise TypeError(f"{type(value).__name__} values have no order here")


def at_position(kind: Kind, place: Fraction) -> Value:
    """Return the value at a place on the line of a kind; the inverse of `position`."""
    if kind is Kind.DATE:
        return _EPOCH + dt.timedelta(days=int(place))
    if kind is Kind.TIMESTAMP:
        return _EPOCH_TIME + int(place) * _MICROSECOND
    return place
