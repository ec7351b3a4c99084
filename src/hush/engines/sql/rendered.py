"""A relation as a SELECT, and expressions over it that are computed once.

Engines put the expression that a column stands for in place of its name, wherever a condition over a subquery names it
(filter pushdown): what is written once may be computed many times. So a column's cost in conditions is that of its
expression (`Rendered.in_place`), through all subqueries; and what is dear and needed more than once becomes a column
that no condition is put through (`build.apart`).

>>> from hush.engines.sql.queries import read
>>> cells = {"age": Value(column("age", "s"), Form.INTEGER)}
>>> finish(select([], read("people", "s")), cells, column("id", "s")).query.text
'SELECT "s"."id" AS "u", "s"."age" AS "c0" FROM "people" AS "s"'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from hush.core.values import dataclass
from hush.engines.sql.build import MADE, ColumnName, Named, Sql, alias, apart, column, costing, integer, whole
from hush.engines.sql.expressions import render
from hush.engines.sql.queries import Query, select
from hush.engines.sql.values import Form, Value
from hush.query.expressions import Call, Column, Expression, Op, pieces, substituted
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
    relations_in,
    window_expressions,
)
from hush.query.types import Kind

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


def referenced(relation: Relation) -> Iterator[Expression]:
    """Yield every expression that a relation evaluates, and those that it is made of."""
    for part in relations_in(relation):
        yield from _own(part)


def _own(relation: Relation) -> Iterator[Expression]:
    """Yield the expressions of one relation, without those of its sources."""
    match relation:
        case Scan() | Constants():
            return
        case Filter():
            yield relation.condition
        case Project():
            yield from (value for _, value in relation.columns)
        case Join():
            for pair in relation.on:
                yield from pair
            if relation.where is not None:
                yield relation.where
        case UnionAll():
            yield from (Column(label, type_) for label, type_ in relation.columns)
        case WithWindows():
            for _, window in relation.windows:
                yield from window_expressions(window)
        case PerUnit():
            yield from (value for _, value in relation.keys)
            yield from (item.argument for _, item in relation.aggregates if item.argument is not None)


def names_in(expression: Expression) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    return (piece.name for piece in pieces(expression) if isinstance(piece, Column))


def repeated_texts(expressions: Iterable[Expression]) -> list[Call]:
    """Return the texts that some expressions compute more than once, and not those inside of these alone."""
    given = list(expressions)
    often = Counter(piece for expression in given for piece in pieces(expression))

    def largest(expression: Expression) -> Iterator[Call]:
        if not isinstance(expression, Call):
            return
        text = expression.type.kind is Kind.TEXT and any(True for _ in names_in(expression))
        if text and often[expression] > 1:
            yield expression
            return
        for argument in expression.arguments:
            yield from largest(argument)

    return list(dict.fromkeys(call for expression in given for call in largest(expression)))


def clipped(expressions: Iterable[Expression]) -> list[Call]:
    """Return what is moved into bounds, for which it is compared with both and taken."""
    calls = [piece for item in expressions for piece in pieces(item) if isinstance(piece, Call) and piece.op is Op.CLIP]
    return list(dict.fromkeys(call.arguments[0] for call in calls if isinstance(call.arguments[0], Call)))


def with_known(expression: Expression, known: Mapping[Call, Column]) -> Expression:
    """Return an expression with columns in place of calls."""
    if not known:
        return expression
    return substituted(expression, lambda piece: known.get(piece) if isinstance(piece, Call) else None)
