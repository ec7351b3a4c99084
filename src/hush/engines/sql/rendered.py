"""A relation as a SELECT, and expressions over it that are computed once.

Engines put the expression that a column stands for in place of its name, wherever a condition over a subquery names it
(filter pushdown): what is written once may be computed many times. So a column's cost in conditions is that of its
expression (`Rendered.in_place`), through all subqueries; and what is dear and needed more than once becomes a column
that no condition is put through (`build.apart`).

>>> from hush.engines.sql.build import read
>>> cells = {"age": Value(column("age", "s"), Form.INTEGER)}
>>> finish(select([], read("people", "s")), cells, column("id", "s")).query.text
'SELECT "s"."id" AS "u", "s"."age" AS "c0" FROM "people" AS "s"'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hush.engines.sql.build import (
    MADE,
    ColumnName,
    Named,
    Query,
    Sql,
    alias,
    apart,
    column,
    costing,
    integer,
    select,
    whole,
)
from hush.engines.sql.expressions import render
from hush.engines.sql.traversal import clipped, names_in, repeated_texts, with_known
from hush.engines.sql.values import Form, Value
from hush.query.expressions import Call, Column, Expression

UNIT = "u"
_DEAR = 1000
"""What costs so many nanoseconds is computed once, in a column that no condition is put through."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A SELECT, its columns by their names in the question tree, and whether it has a unit."""

    query: Query
    columns: Mapping[str, Value]
    """As seen from outside: columns of an alias ``t``."""
    unit: bool
    inlined: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds that a column takes where the engine puts its expression in place of its name, as in conditions."""

    @property
    def in_place(self) -> Mapping[str, Value]:
        """The columns, at what they cost in a condition."""
        return priced(self.columns, self.inlined)


def finish(query: Query, cells: Mapping[str, Value], unit: Sql | None) -> Rendered:
    """Name the cells c0, c1, … and return what they look like from outside."""
    named: list[Named] = []
    if unit is not None:
        named.append(alias(unit, UNIT))
    outside = {}
    for index, (label, value) in enumerate(cells.items()):
        named.append(alias(value.sql, f"c{index}"))
        outside[label] = replace(value, sql=column(f"c{index}", "t"))
    if not named:
        named.append(alias(integer(1), "c0"))
    return Rendered(query.showing(named), outside, unit is not None)


def staged(source: Rendered, expressions: Iterable[Expression]) -> tuple[Rendered, dict[Expression, Value]]:
    """Compute expressions once, as columns of their own, so that what uses them many times stays short."""
    items = list(dict.fromkeys(expressions))
    source, simpler = computed_once(source, items)
    made = {item: render(value, source.columns) for item, value in zip(items, simpler, strict=True)}
    plain = {item: value for item, value in made.items() if isinstance(value.sql, ColumnName)}
    longer = {f"\0{index}": item for index, item in enumerate(made) if item not in plain}
    if not longer:
        return source, plain
    cells = {label: made[item] for label, item in longer.items()}
    cells = {label: _apart(value) if value.sql.work > _DEAR else value for label, value in cells.items()}
    wrapped = wrapped_in(source, {**source.columns, **cells})
    known = {item: wrapped.columns[label] for label, item in longer.items()}
    for item in plain:
        known[item] = render(item, wrapped.columns)
    return wrapped, known


def computed_once(source: Rendered, expressions: Sequence[Expression]) -> tuple[Rendered, list[Expression]]:
    """Return a relation with what the expressions need more than once, and the expressions in terms of that.

    These are texts, such as LOWER(t) in many ILIKE, what CLIP moves into its bounds, and columns that the engine would
    compute wherever a condition names them; if they are dear.
    """
    source, expressions = _with_columns(source, expressions, repeated_texts(expressions))
    return _with_columns(source, expressions, clipped(expressions))


def _with_columns(
    source: Rendered, expressions: Sequence[Expression], calls: Sequence[Call]
) -> tuple[Rendered, list[Expression]]:
    values = {piece: render(piece, source.columns) for piece in calls}
    values = {piece: value for piece, value in values.items() if value.sql.work > _DEAR}
    known = {piece: Column(f"\0once {len(source.columns) + at}", piece.type) for at, piece in enumerate(values)}
    simpler = [with_known(expression, known) for expression in expressions]
    often = Counter(label for expression in simpler for label in names_in(expression))
    dear = {label for label, work in source.inlined.items() if work > _DEAR and often[label] > 1}
    if not known and not dear:
        return source, simpler
    cells = {label: _apart(value) if label in dear else value for label, value in source.columns.items()}
    cells |= {name.name: _apart(values[piece]) for piece, name in known.items()}
    inlined = {label: 0 if label in dear else work for label, work in source.inlined.items()}
    return replace(wrapped_in(source, cells), inlined=inlined), simpler


def _apart(value: Value) -> Value:
    return replace(value, sql=costing(apart(value.sql), MADE * value.chars if value.form is Form.TEXT else 0))


def _in_place(column_: Sql, work: int) -> Sql:
    """Return a column that the engine may replace by the expression which it names, and that costs as much."""
    return whole(column_, work)


def works_of(cells: Mapping[str, Value]) -> dict[str, int]:
    """Return what each cell costs."""
    return {label: value.sql.work for label, value in cells.items()}


def priced(columns: Mapping[str, Value], inlined: Mapping[str, int]) -> Mapping[str, Value]:
    """Return columns at what they cost where the engine puts their expressions in place of their names."""
    return {label: replace(value, sql=_in_place(value.sql, inlined.get(label, 0))) for label, value in columns.items()}


def wrapped_in(source: Rendered, cells: Mapping[str, Value]) -> Rendered:
    """Return a SELECT from a relation, with other columns."""
    return finish(select([], source.query), cells, column(UNIT, "t") if source.unit else None)
