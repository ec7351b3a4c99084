"""Which group each row of a statement's result belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from hush.engines.sql.keys import Axis


class Groups:
    """The groups of an answer: all public ones in order, or those that statements report."""

    def __init__(self, axes: Sequence[Axis] | None, *, grouped: bool) -> None:
        self._axes = axes
        self._grouped = grouped
        self._seen: dict[tuple[Any, ...], int] = {}
        self._size = 1
        for axis in axes or ():
            self._size *= len(axis.values)

    def __len__(self) -> int:
        return len(self._seen) if self._grouped and self._axes is None else self._size

    def place(self, keys: Sequence[str], rows: list[tuple[Any, ...]]) -> list[int]:
        """Return the group of each row; the key columns come first."""
        if not self._grouped:
            return [0] * len(rows)
        if self._axes is not None:
            return [row[0] for row in rows]
        at = len(keys)
        return [self._seen.setdefault(row[:at], len(self._seen)) for row in rows]

    def keys(self) -> list[tuple[Any, ...]]:
        """Return the keys of all groups."""
        if not self._grouped:
            return [()]
        if self._axes is None:
            return list(self._seen)
        return list(product(*(axis.values for axis in self._axes)))


def aligned(places: list[int], rows: list[tuple[Any, ...]], at: int, groups: Groups) -> list[int]:
    """Return a column of a statement's rows by group, 0 for groups that it does not report."""
    values = [0] * len(groups)
    for place, row in zip(places, rows, strict=True):
        values[place] = int(row[at])
    return values


def pad(values: list[int], size: int) -> list[int]:
    """Add zeros for groups that were seen later."""
    values.extend([0] * (size - len(values)))
    return values
