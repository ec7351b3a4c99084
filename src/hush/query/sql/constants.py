"""Small public tables that a question writes out itself: VALUES, GENERATE_SERIES, RANGE, UNNEST of a list.

Their rows are part of the question, so they belong to no unit, and joining them is joining a public table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Literal
from hush.query.functions import constant
from hush.query.functions.logic import either
from hush.query.functions.rules import is_null
from hush.query.relations import Constants
from hush.query.sql.expressions import Rows
from hush.query.sql.intervals import fixed_interval
from hush.query.sql.nodes import is_set, only, refuse, shown
from hush.query.sql.scope import Binding, Context, Scope
from hush.query.types import Kind, Type, Value

MAX_ROWS = 4000
Cells = Sequence[Sequence[Literal]]


def written(node: exp.Expr, alias: str | None, context: Context) -> tuple[Constants, list[tuple[str, Binding]]]:
    """Return a table that the question writes out, and its columns' names as DuckDB gives them."""
    rows = Rows(context, Scope(Constants(columns=(), rows=()), []))
    if isinstance(node, exp.Values):
        only(node, "expressions", "alias")
        cells = [_row(item, rows) for item in node.expressions]
        names = [f"col{place}" for place in range(len(cells[0]) if cells else 0)]
    else:
        series = node.this if isinstance(node, exp.Table) else _listed(node)
        values = _series(series, rows) if isinstance(series, exp.GenerateSeries) else _list(series, rows)
        cells = [[value] for value in values]
        exclusive = isinstance(series, exp.GenerateSeries) and is_set(series.args.get("is_end_exclusive"))
        usual = "range" if exclusive else "generate_series" if isinstance(node, exp.Table) else "unnest"
        names = [alias or usual]
    if not cells or any(len(row) != len(cells[0]) for row in cells):
        raise QuestionError(f"The rows of {shown(node)} need the same number of values, and at least one.")
    if len(cells) > MAX_ROWS:
        raise QuestionError(
            f"The question writes out {len(cells):,} rows; the limit is {MAX_ROWS:,}.", "Use a public table."
        )
    types = [_type([row[place] for row in cells], node) for place in range(len(cells[0]))]
    unique = [context.fresh(name) for name in names]
    context.grow()
    relation = Constants(columns=tuple(zip(unique, types, strict=True)), rows=tuple(tuple(row) for row in cells))
    return relation, list(zip(names, unique, strict=True))


def _row(node: exp.Expr, rows: Rows) -> list[Literal]:
    return [_literal(item, rows) for item in (node.expressions if isinstance(node, exp.Tuple) else [node])]


def _literal(node: exp.Expr, rows: Rows) -> Literal:
    found = rows.convert(node)
    if not isinstance(found, Literal):
        raise QuestionError(f"Only constants can be written out as rows; got {shown(node)}.")
    return found


def _type(cells: Sequence[Literal], node: exp.Expr) -> Type:
    kinds = {cell.type.kind for cell in cells if not is_null(cell)}
    if not kinds:
        raise QuestionError(f"A column of {shown(node)} holds nothing but NULL.", "Leave it out.")
    if len(kinds) > 1 and not all(kind.numeric for kind in kinds):
        listed = " and ".join(sorted(kind.value for kind in kinds))
        raise QuestionError(f"A column of {shown(node)} holds {listed}.", "Write constants of one kind.")
    found = either(cells, nullable=any(map(is_null, cells)))
    known = tuple(dict.fromkeys(cell.value for cell in cells if cell.value is not None))
    return found if found.kind in {Kind.BOOLEAN, Kind.TIMESTAMP} else replace(found, values=known)


def _listed(node: exp.Expr) -> exp.Expr:
    """Return the list that UNNEST makes rows of."""
    only(node, "expressions", "alias")
    (series,) = node.expressions if len(node.expressions) == 1 else (None,)
    if not isinstance(series, exp.Array | exp.GenerateSeries):
        raise refuse(node)
    return series


def _list(node: exp.Expr, rows: Rows) -> list[Literal]:
    only(node, "expressions", "value_constructor")
    return [_literal(item, rows) for item in node.expressions]


def _series(node: exp.Expr, rows: Rows) -> list[Literal]:
    only(node, "start", "end", "step", "is_end_exclusive")
    first, last = (_literal(node.args[end], rows).value for end in ("start", "end"))
    exclusive = is_set(node.args.get("is_end_exclusive"))
    step = node.args.get("step")
    values: list[Value]
    if isinstance(first, Fraction) and isinstance(last, Fraction):
        by = Fraction(1) if step is None else _literal(step, rows).value
        if not isinstance(by, Fraction) or by == 0 or any(end.denominator != 1 for end in (first, last, by)):
            raise QuestionError(f"A series has whole numbers and a step that is not 0; got {shown(node)}.")
        size = max(0, (last - first) // by + 1)
        size -= exclusive and size > 0 and first + (size - 1) * by == last
        _check_size(int(size))
        values = [first + at * by for at in range(int(size))]
    elif isinstance(first, dt.date) and isinstance(last, dt.date) and isinstance(step, exp.Interval):
        values = _moments(_midnight(first), _midnight(last), fixed_interval(rows, step), exclusive=exclusive)
    else:
        raise QuestionError(f"A series has whole numbers, or dates and an interval; got {shown(node)}.")
    if not values:
        raise QuestionError(f"The series {shown(node)} is empty.", "Let it begin before it ends.")
    return [constant(value) for value in values]


def _midnight(day: dt.date) -> dt.datetime:
    return day if isinstance(day, dt.datetime) else dt.datetime(day.year, day.month, day.day)  # noqa: DTZ001


def _moments(first: dt.datetime, last: dt.datetime, by: tuple[int, dt.timedelta], *, exclusive: bool) -> list[Value]:
    """Return moments from first to last, so many months and so much time apart."""
    months, span = by
    if months < 0 or span < dt.timedelta() or (not months and not span):
        raise QuestionError("The interval of a series of dates must be longer than nothing.")
    if months and first.day > 28:
        raise QuestionError("A series of months begins before the 29th.", "Begin at the first of a month.")
    found: list[Value] = []
    moment = first
    while moment < last or (moment == last and not exclusive):
        found.append(moment)
        _check_size(len(found))
        years, month = divmod(moment.month - 1 + months, 12)
        if moment.year + years > dt.MAXYEAR:
            break
        moment = moment.replace(year=moment.year + years, month=month + 1) + span
    return found


def _check_size(size: int) -> None:
    if size > MAX_ROWS:
        raise QuestionError(
            f"A series may have {MAX_ROWS:,} members; this one has more.", "Use larger steps, or a public table."
        )
