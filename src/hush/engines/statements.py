"""A plan as statements, and their rows as exact integers by group.

The first column of a statement's rows is the number of the group (`Groups`).

**Functions of what was released** (`released_statement`) are computed in the engine's own types; see
`hush.query.released`. Keys and noisy aggregates come as parameters, one list each. So that statement's length depends
on the question alone, and it is written and resolved before the charge. No value can make it fail
(`hush.engines.sql.expressions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, Self

import numpy as np

from hush.core.values import dataclass
from hush.engines.base import Exact, Histograms, Sparse
from hush.engines.sql.build import alias, call, cast, column, parameter
from hush.engines.sql.expressions import name_of, render
from hush.engines.sql.keys import Axis, Lists, key_value, shown_value
from hush.engines.sql.main_statement import MainWriter
from hush.engines.sql.other_statements import OtherWriter
from hush.engines.sql.queries import Query, ordered, select
from hush.engines.sql.relations import Bounds
from hush.engines.sql.rows import Reads, Rows
from hush.engines.sql.values import FORMS, Form, Value
from hush.mechanisms.grouped.base import Integers, integer_array
from hush.query.expressions import Released
from hush.query.plan.choices import Choice
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Distinct, Statistic
from hush.query.question import Question
from hush.query.released import released_in, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text and the names of what it returns."""

    text: str
    labels: list[str]
    work: int
    """Nanoseconds that a stored row takes."""

    @classmethod
    def of(cls, query: Query) -> Statement:
        """Return a query as text."""
        return cls(text=query.measured, labels=query.labels, work=query.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """A plan's statements, those that any number of rows need.

    All of them are written, and measured, when this is made, which is before the charge: whether a question can be
    written must depend on the question alone, and not on how many rows there are, nor on what was asked before.
    """

    plan: Plan
    axes: list[Axis] | None
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    reads: Reads
    rows: Rows
    """The rows that the statements add up."""
    bounds: Bounds
    """What bounds the work of one unit's rows."""
    lists: Lists
    """Held as long as the statements, which read them."""
    notes: tuple[str, ...] = ()
    """What is bounded for the sake of time, whoever is there."""
    main: Statement | None
    """All statistics but distinct values."""
    distinct: tuple[tuple[int, Statement], ...]
    """Counts of distinct values that the main statement lacks, by the place of the statistic."""
    histograms: tuple[Statement, ...]
    """One for each pick."""
    released: ReleasedStatement | None
    """Functions of what is released; None if there are none."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        axes: list[Axis] | None,
        shown: list[int] | None,
        reads: Reads,
        rows: Rows,
        bounds: Bounds,
        lists: Lists,
        released: ReleasedStatement | None,
    ) -> Self:
        """Write all statements over some rows; refuse those that are too long."""
        extraction = plan.extraction

        def other(what: Choice | Distinct) -> OtherWriter:
            return OtherWriter(extraction, rows, Reads.by(what), lists)

        first = MainWriter(extraction, rows).statement()
        main = None if first is None else Statement.of(first)
        done = frozenset() if main is None else frozenset(main.labels)
        distinct = tuple(
            (index, Statement.of(other(item).distinct(item)))
            for index, item in enumerate(extraction.statistics)
            if isinstance(item, Distinct) and f"s{index}" not in done
        )
        return cls(
            plan=plan,
            axes=axes,
            shown=shown,
            reads=reads,
            rows=rows,
            bounds=bounds,
            lists=lists,
            main=main,
            distinct=distinct,
            histograms=tuple(Statement.of(other(pick.choice).histogram(pick)) for pick in plan.picks),
            released=released,
        )

    @property
    def keys(self) -> Sequence[str]:
        """The key columns of the main statement; the others have one, ``k``, if there are keys."""
        return self.rows.keys

    def over(self, rows: Rows) -> Self:
        """Return statements that compute the same from other rows."""
        return type(self).of(
            self.plan,
            axes=self.axes,
            shown=self.shown,
            reads=self.reads,
            rows=rows,
            bounds=self.bounds,
            lists=self.lists,
            released=self.released,
        )

    @property
    def others(self) -> list[Statement]:
        """All but the main one."""
        return [*(item for _, item in self.distinct), *self.histograms]

    @property
    def statements(self) -> list[Statement]:
        """All of them, in an order that depends on the plan alone."""
        main = [] if self.main is None else [self.main]
        return [*main, *self.others]


_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedStatement:
    """A statement that returns a column for each part, and a row for each group."""

    text: str
    parts: int
    """How many columns it returns."""
    reads: tuple[tuple[Released, Form], ...]
    """What its parameters hold, after the numbers of the groups."""

    def parameters(self, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the lists it reads: from each key's and each aggregate's values by group."""
        size = len((keys or aggregates)[0]) if keys or aggregates else 1
        columns: list[list[Any]] = [list(range(size))]
        for item, form in self.reads:
            values = (keys if item.source == "key" else aggregates)[item.index]
            columns.append([_in_form(value, form) for value in values])
        return columns


def released_statement(question: Question, keys: Sequence[Value]) -> ReleasedStatement | None:
    """Return the statement for a question's outputs; None if there is nothing to compute.

    ``keys`` says what is known of each key's values, such as how many digits a decimal has.
    """
    parts = shown(question).parts
    if not parts:
        return None
    columns: dict[str, Value] = {}
    cells = [alias(call("unnest", cast(parameter(1), "BIGINT[]")), "i")]
    reads: list[tuple[Released, Form]] = []
    for at, item in enumerate(released_in(parts), start=2):
        form = FORMS[item.type.kind]
        value = Value(column(f"v{at}", "t"), form)
        if item.source == "key":
            key = key_value(keys[item.index], item.type)
            if key.single:  # a listed key of float32 numbers is the decimal that they stand for
                value = value.as_single()
            elif key.form is form:
                value = replace(key, sql=value.sql, within=None, step=None, literal=None)
        cells.append(alias(call("unnest", cast(parameter(at), f"{form.value}[]")), f"v{at}"))
        columns[name_of(item)] = value
        reads.append((item, form))
    values = [shown_value(render(part, columns), part.type) for part in parts]
    results = [alias(value.sql, f"o{at}") for at, value in enumerate(values)]
    query = ordered(select(results, select(cells)), column("i", "t"))
    return ReleasedStatement(text=query.measured, parts=len(parts), reads=tuple(reads))


def _in_form(value: Any, form: Form) -> Any:
    """Return a released value as the engine takes it; what is no number is NULL."""
    if value is None or form not in {Form.INTEGER, Form.DOUBLE}:
        return value
    if form is Form.INTEGER:
        return None if value != value else max(-_LARGEST, min(_LARGEST, int(value)))  # noqa: PLR0124 - NaN
    try:
        return float(value) if isinstance(value, Fraction | int) else value
    except OverflowError:
        return None


Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of an answer: all public ones in order, the chosen ones, or, without keys, everything."""

    keys: list[Row]
    grouped: bool

    @classmethod
    def public(cls, axes: Sequence[Axis] | None) -> Groups:
        """Return all combinations of public keys."""
        return cls(keys=list(product(*(axis.values for axis in axes or ()))), grouped=bool(axes))

    def column(self, columns: Sequence[Row], at: int) -> Integers:
        """Return a column of a statement's results by group, 0 for groups that it does not report."""
        integers = integer_array(columns[at] if columns else ())
        values = np.zeros(len(self.keys), dtype=integers.dtype)
        values[list(columns[0]) if self.grouped and columns else slice(len(integers))] = integers
        return values

    def histograms(self, statement: Statement, rows: Sequence[Row]) -> Histograms:
        """Return each group's histogram."""
        at = int(self.grouped)  # then come the bin, its number of cells where bins differ, and the weight
        table = np.array(rows, dtype=np.int64).reshape(-1, len(statement.labels))
        group = table[:, 0] if self.grouped else np.zeros(len(table), dtype=np.int64)
        order = np.lexsort((table[:, at], group))
        cells = table[order, at + 1] if "cells" in statement.labels else None
        return Histograms(
            joined=Sparse(bins=table[order, at], weights=table[order, -1], cells=cells),
            edges=np.searchsorted(group[order], np.arange(len(self.keys) + 1)),
        )

    def exact(
        self, compiled: Statements, labels: Sequence[str], main: Sequence[Row], others: Iterator[Sequence[Row]]
    ) -> Exact:
        """Return the exact integers: from the main statement's rows, with the names of their columns, and the rest."""
        statistics: dict[Statistic, Integers] = {}
        wanted, columns = compiled.plan.extraction.statistics, _columns(main)
        for index, item in enumerate(wanted):
            if f"s{index}" in labels:
                statistics[item] = self.column(columns, labels.index(f"s{index}"))
        for index, statement in compiled.distinct:
            statistics[wanted[index]] = self.column(_columns(next(others)), statement.labels.index("s"))
        units = self.column(columns, labels.index("units")) if "units" in labels else None
        histograms = tuple(self.histograms(item, next(others)) for item in compiled.histograms)
        return Exact(keys=self.keys, units=units, statistics=statistics, histograms=histograms)


def _columns(rows: Sequence[Row]) -> list[Row]:
    return list(zip(*rows, strict=True))
