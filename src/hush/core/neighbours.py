"""The unit of privacy, and the relation that makes two data sets neighbours.

A *unit* is one row, or all rows that share a value of one column (a patient, a household). Two data sets are
neighbours when they differ in one unit: by adding or removing it (the size is private), or by replacing it (the
size is public). Sensitivities differ between the two (THEORY, items 2 and 7): a histogram of one cell per unit
changes by 1 in ℓ₁ when a unit is added or removed, and by 2 when it is replaced.

>>> Neighbours.parse("replace").units_touched
2
>>> Unit.of("patient_id"), Unit.row()
(Unit(column='patient_id'), Unit(column=None))
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hush.core.errors import InvalidValueError


class Neighbours(Enum):
    """The relation under which neighbouring data sets must be hard to tell apart.

    >>> import hush
    >>> hush.Neighbours.parse("replace").units_touched
    2
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def parse(cls, value: object, parameter: str = "neighbours") -> Neighbours:
        """Return the relation named by ``value``."""
        for relation in cls:
            if value is relation or (isinstance(value, str) and value == relation.value):
                return relation
        raise InvalidValueError(parameter, got=value, allowed=" or ".join(repr(relation.value) for relation in cls))

    @property
    def units_touched(self) -> int:
        """The number of units that differ between neighbours: 1 if a unit comes or goes, 2 if another replaces it."""
        return 1 if self is Neighbours.ADD_REMOVE else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One protected individual: a row (``column`` is None) or all rows with one value of ``column``.

    >>> import hush
    >>> hush.Unit.of("patient_id"), hush.Unit.row()
    (Unit(column='patient_id'), Unit(column=None))
    """

    column: str | None

    def __post_init__(self) -> None:
        if self.column is not None and (not isinstance(self.column, str) or not self.column.strip()):
            raise InvalidValueError("column", got=self.column, allowed="a column's name, or None for one row a unit")

    @classmethod
    def row(cls) -> Unit:
        """Return the unit of one row."""
        return cls(column=None)

    @classmethod
    def of(cls, column: str) -> Unit:
        """Return the unit of all rows with the same value of ``column``."""
        return cls(column=column)
