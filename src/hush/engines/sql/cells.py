"""What a statement computes of every row, under names of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hush.engines.sql.build import ColumnName, Named, Sql, alias, column


class Cells:
    """Expressions over one row, each computed once."""

    def __init__(self) -> None:
        self._labels: dict[Sql, str] = {}
        self._made: dict[Hashable, ColumnName] = {}
        self.named: list[Named] = []

    def add(self, value: Sql) -> ColumnName:
        """Return the column of ``t`` that holds a value."""
        if value not in self._labels:
            self._labels[value] = f"v{len(self._labels)}"
            self.named.append(alias(value, self._labels[value]))
        return column(self._labels[value], "t")

    def once(self, what: Hashable, make: Callable[[], Sql]) -> Sql:
        """Return the column of ``t`` that holds a value, which is written at most once."""
        if what not in self._made:
            self._made[what] = self.add(make())
        return self._made[what]
