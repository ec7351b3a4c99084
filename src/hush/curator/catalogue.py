"""The catalogue for analysts: tables, columns with bounds and values, the protected unit, and example questions.

All of it is the owner's policy put into words; nothing comes from the rows of a private table.

>>> import pyarrow as pa
>>> from hush.curator.opening import protect
>>> people = pa.table({"id": [1, 2], "age": [30, 40], "city": ["Oslo", "Bergen"]})
>>> with protect(
...     people, unit="id", bounds={"age": (0, 120)}, values={"city": ["Oslo", "Bergen"]}, budget="1"
... ) as curator:
...     tables = curator.tables()
>>> print(tables["data"])
data: protects each id (of one id, 1 row counts in each of 1 group)
  age   integer from 0 to 120
  city  one of Oslo, Bergen
  for example:
    SELECT COUNT(*) AS n FROM data
    SELECT city, COUNT(*) AS n FROM data GROUP BY city
    SELECT AVG(age) AS mean FROM data
>>> tables["data"]["age"].upper
Fraction(120, 1)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from hush.core.format import ToldInLines, decimal, visible
from hush.query.errors import did_you_mean
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type, Value, at_position

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    """
    all and any as asc between by case cast cross date desc distinct else end exists extract false filter from
    full group grouping having in inner interval intersect into is join left like limit not null offset on or
    order outer over partition right row rows select set some table then time timestamp to true union unique using
    values when where window with
    """.split()  # noqa: SIM905 - one word a line says no more
)
"""Reserved words of SQL: a column with this name must be quoted."""
_LISTED = 12
"""The number of values that are shown; a longer list is cut off."""

_LEFT = ' style="text-align: left"'
"""Notebooks align the cells of tables to the right by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """One column: its type, and the bounds or values that the policy declares."""

    name: str
    type: Type

    @property
    def kind(self) -> str:
        """The type's name: integer, decimal, text, boolean, date or timestamp."""
        return self.type.kind.value

    @property
    def lower(self) -> Value:
        """The declared lower bound, as a number, a date or a time; None where there is none."""
        return None if self.type.lower is None else at_position(self.type.kind, self.type.lower)

    @property
    def upper(self) -> Value:
        """The declared upper bound; None where there is none."""
        return None if self.type.upper is None else at_position(self.type.kind, self.type.upper)

    @property
    def values(self) -> tuple[Value, ...] | None:
        """All values there can be; None where they are not listed."""
        return self.type.values

    def __str__(self) -> str:
        """Return the values or the bounds of the column, in words."""
        if self.type.kind is Kind.BOOLEAN:
            return "true or false" + (", or NULL" if self.type.null_is_key else "")
        if self.values is not None:
            words_shown = [_word(value) for value in self.values[:_LISTED]]
            more = len(self.values) - len(words_shown)
            words = f"one of {', '.join(words_shown)}" + (f" and {more:,} more" if more else "")
            return words + (", or NULL" if self.type.null_is_key else "")
        if self.type.bounded:
            step = self.type.step
            grid = f" in steps of {decimal(step)}" if self.type.kind is Kind.DECIMAL and step is not None else ""
            return f"{self.kind} from {_word(self.lower)} to {_word(self.upper)}{grid}"
        without = {True: "no bounds: CLIP(column, lower, upper) makes some", False: "values are not listed"}
        return f"{self.kind} ({without[self.type.kind.ranged]})"

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values; numbers are exact text."""
        values = None if self.values is None else [None if value is None else _word(value) for value in self.values]
        return {
            "name": self.name,
            "type": self.kind,
            "lower": None if self.lower is None else _word(self.lower),
            "upper": None if self.upper is None else _word(self.upper),
            "step": None if self.type.step is None else decimal(self.type.step),
            "values": values,
            "null": self.type.null_is_key,
            "description": str(self),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TableDescription(ToldInLines, Mapping[str, ColumnDescription]):
    """One table: its columns by name, the protected unit, and how many rows and groups of one unit count."""

    data: str
    """The data set that it belongs to."""
    table: Table
    unit: str | None
    """The protected unit, for example a patient; None where every row is another person."""

    @property
    def name(self) -> str:
        """The name of the table in questions."""
        return self.table.name

    @property
    def public(self) -> bool:
        """Whether its rows need no protection."""
        return self.table.public

    @property
    def types(self) -> dict[str, str]:
        """The columns' types by name."""
        return {name: column.kind for name, column in self.items()}

    def __getitem__(self, column: str) -> ColumnDescription:
        return ColumnDescription(name=column, type=self.table.columns[column])

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.columns)

    def __len__(self) -> int:
        return len(self.table.columns)

    @property
    def protects(self) -> str:
        """The protected unit, and how many rows and groups of one unit count, in words."""
        if self.public:
            return "public, nothing in it is protected"
        if self.unit is None:
            return "protects each row: every row is another person"
        rows, groups = self.table.max_rows, self.table.max_groups
        counted = f"{rows} row{'s count' if rows > 1 else ' counts'} in each of {groups} group{'s' * (groups > 1)}"
        return f"protects each {self.unit} (of one {self.unit}, {counted})"

    @property
    def examples(self) -> tuple[str, ...]:
        """Questions that this table answers."""
        if self.public:
            return ()
        table = quoted(self.name)
        types = self.table.columns.items()
        listed = [(name, type_.values) for name, type_ in types if type_.kind is not Kind.BOOLEAN]
        keys = [quoted(name) for name, values in listed if values is not None and len(values) > 1]
        numbers = [quoted(name) for name, type_ in types if type_.kind.numeric and type_.bounded]
        questions = [f"SELECT COUNT(*) AS n FROM {table}"]  # noqa: S608 - to be read, and names are quoted
        if keys:
            questions.append(f"SELECT {keys[0]}, COUNT(*) AS n FROM {table} GROUP BY {keys[0]}")  # noqa: S608
        if numbers:
            questions.append(f"SELECT AVG({numbers[-1]}) AS mean FROM {table}")  # noqa: S608
        return tuple(questions)

    def lines(self) -> list[str]:
        """Return the table line by line."""
        width = max(map(len, self), default=0)
        lines = [f"{self.name}: {self.protects}"]
        lines += [f"  {name:<{width}}  {column}" for name, column in self.items()]
        lines += [f"  {name}  {sql_type}: cannot be asked about" for name, sql_type in self.table.unsupported.items()]
        for beyond in self.table.beyond:
            noun = "rows" if beyond.by is None else f"groups by {beyond.by}"
            lines.append(f"  beyond {beyond.key} = {beyond.limit}: {beyond.percent} of the {noun} ({beyond.when})")
        if self.examples:
            lines += ["  for example:", *(f"    {question}" for question in self.examples)]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        return {
            "name": self.name,
            "data": self.data,
            "public": self.public,
            "unit": self.unit,
            "max_rows": self.table.max_rows,
            "max_groups": self.table.max_groups,
            "protects": self.protects,
            "columns": [column.to_json() for column in self.values()],
            "examples": list(self.examples),
        }

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td{_LEFT}><code>{escape(visible(name))}</code></td><td{_LEFT}>{escape(visible(str(column)))}</td></tr>"
            for name, column in self.items()
        )
        examples = "".join(f"<li><code>{escape(visible(question))}</code></li>" for question in self.examples)
        head = f"<p><b>{escape(visible(self.name))}</b>: {escape(visible(self.protects))}</p>"
        return f"{head}<table><tbody>{rows}</tbody></table>" + (f"<ul>{examples}</ul>" if examples else "")


class DescribedTables(dict[str, TableDescription]):
    """The tables that can be asked about, by name.

    If two data sets have a table of the same name, the first keeps the name and each later one is ``DATA.TABLE``.
    """

    def __init__(self, schemas: Iterable[Schema]) -> None:
        super().__init__()
        for schema in schemas:
            for name, table in schema.tables.items():
                unit = None if table.unit is None else schema.unit or table.unit.column
                described = TableDescription(data=schema.data, table=table, unit=unit)
                self[f"{schema.data}.{name}" if name in self else name] = described

    def __missing__(self, name: str) -> TableDescription:
        raise KeyError(f"there is no table {name!r}. {did_you_mean(name, self)}".strip())

    def to_json(self) -> list[dict[str, Any]]:
        """Return all tables as plain JSON values."""
        return [table.to_json() for table in self.values()]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.values()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.values())


def quoted(name: str) -> str:
    """Return a name as SQL needs it: in double quotes, unless it is a plain word that is not reserved.

    >>> quoted("age"), quoted("education-num"), quoted("order")
    ('age', '"education-num"', '"order"')
    """
    if _PLAIN_NAME.fullmatch(name) and name.casefold() not in _RESERVED:
        return name
    return in_quotes(name)


def in_quotes(name: str) -> str:
    """Return a name in SQL's double quotes, with its own quotes doubled."""
    return '"' + name.replace('"', '""') + '"'


def _word(value: Value) -> str:
    """Return a value as it is shown; numbers exactly."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return decimal(value)
    return "NULL" if value is None else str(value)
