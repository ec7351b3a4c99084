"""The statement for few rows: one that hands out the rows themselves, as integers, and adds nothing up.

To plan the statements that bound, weigh and add up (`extraction`, `others`) takes an engine many times as long as to
read some thousand rows. Where there are no more, it only reads them, with everything that depends on one row alone, in
its own arithmetic: which group a row is in, its unit, its numbers on their grids, conditions, hashes. What is left is
to clamp them and sums of integers, which `hush.engines.duckdb.few_rows` does. Both ways return the same integers.

All columns are BIGINT or BOOLEAN, but for numbers on a grid (BIGINT, or whole in DOUBLE), hashes (UBIGINT) and the
values of private keys. Units that are no integers, private keys and distinct values are numbered by the engine in their
own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from hush.core.values import dataclass
from hush.engines.sql.build import (
    Named,
    alias,
    binary,
    byte_length,
    call,
    case,
    cast,
    column,
    integer,
    negated,
    not_null,
    row_hash,
    try_cast,
    window,
)
from hush.engines.sql.grid import on_grid
from hush.engines.sql.keys import Lists, key_value
from hush.engines.sql.other_statements import binned
from hush.engines.sql.queries import select, up_to
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.rows import Cells, Fresh, condition_in
from hush.engines.sql.values import Form
from hush.engines.statements import Statements
from hush.query.plan.choices import Choice, LineHistogram
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction
from hush.query.plan.statistics import Distinct, DistinctCount, DistinctTotal, Factor, Others, Population, Total

FEW = 2**16
"""No more rows than this are handed out."""
GROUP, ORDER, LONG = "k", "h", "long"
_LONGEST = 2**9
"""If the keys of one row have more bytes of text, texts are not handed out: a small file may hold much text.

A character may take four bytes in Python, so the texts of all rows take 2²⁷ bytes at most, however many keys there are.
"""
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A statement whose rows are a question's rows, and which of its columns are what."""

    text: str
    work: int
    """Nanoseconds that a stored row takes."""
    keys: Sequence[tuple[str, Form]]
    """The values of private keys."""
    ordered: bool
    """Whether a unit's groups have an order, by which the first are kept."""
    long: bool
    """Whether a column tells that the texts of its row are too long to be handed out."""
    factors: dict[Factor, str]
    """A number on the factor's grid, not clamped."""
    populations: dict[Population, str | None]
    """A column that says whether a row is in a population; None for every row."""
    distinct: dict[Distinct, tuple[str, str]]
    """A value's number, and the hash in whose order a unit's values come."""
    bins: dict[Choice, str]
    """In which bin of a list a row falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedStatements(Statements):
    """A plan's statements: those that any number of rows need, and the one that hands out few rows."""

    flat: Flat | None = None
    """None where rows are stored already."""


class FlatWriter:
    """Writes the statement for few rows; ``unit_type`` is how the engine stores units, if it is one type."""

    def __init__(self, extraction: Extraction, rows: Fresh, lists: Lists, unit_type: str | None) -> None:
        self._extraction = extraction
        self._rows = rows
        self._lists = lists
        self._unit_type = unit_type
        self._cells = Cells()
        self._factors: dict[Factor, str] = {}
        self._populations: dict[Population, str | None] = {}

    def statement(self, choices: Sequence[Choice]) -> Flat:
        """Return the statement for all statistics and choices."""
        seen: dict[Distinct, str] = {}
        bins: dict[Choice, str] = {}
        for item in self._extraction.statistics:
            self._member(item.population)
            match item:
                case Total():
                    for factor in item.factors:
                        self._place(factor)
                case Others():
                    self._member(item.population.within or Population())
                case DistinctCount() | DistinctTotal():
                    if isinstance(item, DistinctTotal):
                        self._place(item.factor)
                    value = key_value(self._rows.known[item.expression], item.expression.type)
                    seen[item] = self._cells.add(value.sql).label
        for choice in choices:
            histogram = choice.histogram
            self._member(histogram.population)
            if isinstance(histogram, LineHistogram):
                self._place(histogram.factor)
            else:
                self._rows, number = binned(self._rows, histogram, self._lists)
                bins[choice] = self._cells.add(cast(number, "BIGINT")).label
        return self._written(seen, bins)

    def _place(self, factor: Factor) -> None:
        if factor not in self._factors:
            value = on_grid(self._rows.known[factor.expression], factor.step)
            shown = cast(value.sql, "BIGINT") if value.form is Form.INTEGER else value.sql
            self._factors[factor] = self._cells.add(shown).label

    def _member(self, population: Population) -> None:
        if population not in self._populations:
            test = condition_in(self._rows, population)
            self._populations[population] = None if test is None else self._cells.add(test).label

    def _written(self, seen: dict[Distinct, str], bins: dict[Choice, str]) -> Flat:
        """Return the rows with what is numbered among all of them."""
        order, units = self._rows.order(), self._extraction.limits.units
        read = dict.fromkeys([*self._factors.values(), *filter(None, self._populations.values()), *bins.values()])
        shown: list[Named] = [column(label, "t") for label in read]
        if units is not Units.ALONE:
            shown.append(self._unit())
        if order is not None:
            shown.append(alias(order, ORDER))
        if self._rows.axes:
            shown.append(column(GROUP, "t"))
        keys, long = self._private_keys()
        shown += keys
        numbers: dict[Distinct, tuple[str, str]] = {}
        for at, (item, label) in enumerate(seen.items()):
            value, (number, mixed) = column(label, "t"), (f"d{at}", f"e{at}")
            shown.append(alias(case((not_null(value), window("dense_rank", [], [value]))), number))
            if units is Units.COLUMN:
                shown.append(alias(row_hash([column(UNIT, "t"), value], self._rows.salt + 1), mixed))
            numbers[item] = (number, mixed)
        # what a join makes beyond these is neither computed nor numbered: nobody would look at it
        rows = up_to(self._rows.plain(self._cells.named), FEW + 1)
        query = select(shown or [alias(integer(1), "one")], rows)
        return Flat(
            text=query.measured,
            work=query.work,
            keys=self._forms(),
            ordered=order is not None,
            long=long,
            factors=self._factors,
            populations=self._populations,
            distinct=numbers,
            bins=bins,
        )

    def _unit(self) -> Named:
        """Return the unit as an integer; numbers of rows fit into 64 bits."""
        unit = column(UNIT, "t")
        if self._extraction.limits.units is Units.NUMBERED:
            return alias(try_cast(unit, "BIGINT", "HUGEINT"), UNIT)
        return unit if self._unit_type in _INTEGERS else alias(window("dense_rank", [], [unit]), UNIT)

    def _forms(self) -> list[tuple[str, Form]]:
        return list(self._rows.private_keys.items())

    def _private_keys(self) -> tuple[list[Named], bool]:
        """Return the number of a row's private keys, and the keys; and whether some are texts, which may be long."""
        keys = self._forms()
        if not keys:
            return [], False
        shown: list[Named] = [alias(window("dense_rank", [], [column(label, "t") for label, _ in keys]), GROUP)]
        texts = [column(label, "t") for label, form in keys if form is Form.TEXT]
        if not texts:
            return [*shown, *(column(label, "t") for label, _ in keys)], False
        bytes_ = [call("coalesce", byte_length(value), integer(0)) for value in texts]
        short = binary("<=", reduce(lambda one, other: binary("+", one, other), bytes_), integer(_LONGEST))
        for label, form in keys:
            value = column(label, "t")
            shown.append(alias(case((short, value)), label) if form is Form.TEXT else value)
        return [*shown, alias(negated(short), LONG)], True
