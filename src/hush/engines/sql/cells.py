"""What a statement computes of every row, under names of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hush.engines.sql.build import Sql, alias, column
from hush.engines.sql.writing import Texts


class Cells:
    """Expressions over one row, each computed once."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._labels: dict[str, str] = {}
        self._made: dict[Hashable, str] = {}
        self.named: list[Sql] = []

    def add(self, value: Sql) -> Sql:
        """Return the column of ``t`` that holds a value."""
        text = self._texts.of(value)
        if text not in self._labels:
            self._labels[text] = f"v{len(self._labels)}"
            self.named.append(alias(value, self._labels[text]))
        return column(self._labels[text], "t")

    def once(self, what: Hashable, make: Callable[[], Sql]) -> Sql:
        """Return the column of ``t`` that holds a value, which is written at most once."""
        if what not in self._made:
            self._made[what] = self.add(make()).name
        return column(self._made[what], "t")
