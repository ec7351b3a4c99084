"""How aggregates are read, and their arguments checked for what each needs (`hush.query.aggregates`)."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.aggregates import AGGREGATES, BY_KIND, ArgumentNeed
from hush.query.errors import QuestionError, UnboundedError
from hush.query.expressions import Column, Expression, Literal, Op, pieces
from hush.query.functions import all_of, call, constant, describe
from hush.query.functions.rules import is_null
from hush.query.question import Aggregate, AggregateKind
from hush.query.sql.calls import QUANTILES, arguments_of, nearest, record_of
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import ARGUMENT, called, only, refuse, shown
from hush.query.types import Kind

MAX_MODES = 100_000
"""A mode is chosen among at most so many candidates."""

_K = AggregateKind


@dataclass(frozen=True, slots=True)
class Written:
    """An aggregate as it was written: its kind and its parts, before types are looked at."""

    kind: AggregateKind
    arguments: tuple[Expression, ...]
    where: Expression | None
    fraction: Fraction | None = None


def read(node: exp.Expr, rows: Rows) -> Written:
    """Return the aggregate that a node writes."""
    if isinstance(node, exp.Filter):
        only(node, "this", "expression")
        only(node.expression, "this")
        condition = rows.condition(node.expression.this)
        inner = read(node.this, rows.assuming(condition))
        where = condition if inner.where is None else all_of([condition, inner.where])
        return Written(inner.kind, inner.arguments, where, inner.fraction)
    if isinstance(node, exp.WithinGroup):
        return _within_group(node, rows)
    if isinstance(node, exp.Count):
        return _count(node, rows)
    if isinstance(node, QUANTILES):
        only(node, "this", "expression", "quantile")
        return _quantile(node, node.args.get("quantile") or node.args.get("expression"), rows, node.this)
    record = record_of(node)
    if record is not None and record.kind is not None:
        kind, node = _without_distinct(record.kind, node)
        arguments = [rows.convert(argument) for argument in arguments_of(node, record.arity)]
        if record.of_booleans:
            arguments = [
                call(Op.TO_INTEGER, argument) if argument.type.kind is Kind.BOOLEAN else argument
                for argument in arguments
            ]
        return Written(kind, tuple(arguments), None)
    raise QuestionError(
        f"There is no aggregate {called(node)} here.",
        nearest(called(node)) or "There are " + ", ".join(_LISTED) + ".",
    )


_LISTED = sorted(record.names[0] for record in AGGREGATES if record.names and record.kind is not None)


_OF_DISTINCT = {_K.SUM: _K.SUM_DISTINCT, _K.AVG: _K.AVG_DISTINCT, _K.MIN: _K.MIN, _K.MAX: _K.MAX}
"""What aggregates of distinct values are; the least and the greatest value are the same of all rows."""


def _without_distinct(kind: AggregateKind, node: exp.Expr) -> tuple[AggregateKind, exp.Expr]:
    """Return ``SUM(DISTINCT x)`` as the sum of distinct values of x."""
    argument = node.args.get("this")
    if kind not in _OF_DISTINCT or not isinstance(argument, exp.Distinct) or len(argument.expressions) != 1:
        return kind, node
    only(argument, "expressions")
    plain = node.copy()
    plain.set("this", plain.this.expressions[0])
    return _OF_DISTINCT[kind], plain


def _count(node: exp.Count, rows: Rows) -> Written:
    only(node, "this", "expressions", "big_int")
    argument = node.args.get("this")
    if argument is None or isinstance(argument, exp.Star):
        if isinstance(argument, exp.Star):
            only(argument)
        if node.expressions:
            raise refuse(node.expressions[0])
        return Written(_K.COUNT, (), None)
    if node.expressions:
        raise QuestionError("COUNT takes one argument; got several.", "Count rows of values: COUNT(DISTINCT (a, b)).")
    if isinstance(argument, exp.Distinct):
        only(argument, "expressions")
        values = argument.expressions
        value = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
        if rows.unit(value):
            return Written(_K.COUNT_UNITS, (), None)
        where = _unit_where(value, rows)
        if where is not None:
            return Written(_K.COUNT_UNITS, (), where)
        if isinstance(value, exp.Tuple):
            only(value, "expressions")
            return Written(_K.COUNT_DISTINCT, (_row_as_text([rows.convert(part) for part in value.expressions]),), None)
        return Written(_K.COUNT_DISTINCT, (rows.convert(value),), None)
    if rows.unit(argument):  # rows without a unit were dropped, so every row has one
        return Written(_K.COUNT, (), None)
    where = _unit_where(argument, rows)
    if where is not None:
        return Written(_K.COUNT, (), where)
    found = rows.convert(argument)
    # what cannot be NULL is counted as rows, so that COUNT(x) and COUNT(*) are one aggregate and paid for once
    return Written(_K.COUNT, (found,) if found.type.nullable else (), None)


def _unit_where(node: exp.Expr, rows: Rows) -> Expression | None:
    """Return where ``CASE WHEN c THEN unit END`` is the unit, and not NULL; None if it is something else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.If):
        branches, default = [node], node.args.get("false")
        only(node, "this", "true", "false")
    elif isinstance(node, exp.Case) and node.args.get("this") is None:
        branches, default = node.args["ifs"], node.args.get("default")
        only(node, "ifs", "default")
    else:
        return None
    outcomes = [*(branch.args["true"] for branch in branches), *([] if default is None else [default])]
    units = [bool(rows.unit(outcome)) for outcome in outcomes]
    if not any(units):
        return None
    if not all(unit or isinstance(outcome, exp.Null) for unit, outcome in zip(units, outcomes, strict=True)):
        raise QuestionError(f"{shown(node)} is sometimes the unit and sometimes not.", "Write NULL, or leave ELSE out.")
    conditions = [rows.condition(branch.this) for branch in branches]
    if len(conditions) == 1 and units == [True]:
        return conditions[0]
    if default is None:
        units.append(False)
    parts = [part for pair in zip(conditions, units[:-1], strict=True) for part in (pair[0], constant(pair[1]))]
    return call(Op.CASE, *parts, constant(units[-1]))


def _row_as_text(values: list[Expression]) -> Expression:
    """Return a text that tells rows of values apart: each value with its length before it.

    NULL counts as a value, as it does in a row of values.
    """
    parts: list[Expression] = []
    for value in values:
        text = value if value.type.kind is Kind.TEXT else call(Op.TO_TEXT, value)
        length = call(Op.TO_TEXT, call(Op.LENGTH, text))
        parts.append(call(Op.COALESCE, call(Op.CONCAT, length, constant(":"), text), constant("-")))
    return call(Op.CONCAT, *parts)


def _within_group(node: exp.WithinGroup, rows: Rows) -> Written:
    only(node, "this", "expression")
    order = node.expression
    if not isinstance(order, exp.Order) or len(order.expressions) != 1:
        raise refuse(node)
    only(order, "expressions")
    ordered = order.expressions[0]
    only(ordered, "this", "desc", "nulls_first")
    inner = node.this
    if isinstance(inner, exp.Mode):
        only(inner)
        return Written(_K.MODE, (rows.convert(ordered.this),), None)
    if not isinstance(inner, (exp.PercentileCont, exp.PercentileDisc)):
        raise refuse(node)
    only(inner, "this")
    found = _quantile(node, inner.this, rows, ordered.this)
    if ordered.args.get("desc") and found.fraction is not None:
        return Written(found.kind, found.arguments, None, 1 - found.fraction)
    return found


def _quantile(node: exp.Expr, fraction: exp.Expr | None, rows: Rows, argument: exp.Expr) -> Written:
    if isinstance(fraction, exp.Array):
        raise QuestionError(
            f"A list of quantiles is a result by itself; got {shown(node)}.",
            "Write QUANTILE(x, 0.25), QUANTILE(x, 0.75).",
        )
    value = None if fraction is None else rows.convert(fraction)
    if not isinstance(value, Literal) or not isinstance(value.value, Fraction) or not 0 < value.value < 1:
        raise QuestionError(
            f"A quantile needs a constant between 0 and 1, without these; got {shown(node)}.",
            "Write QUANTILE(x, 0.9), MIN(x) or MAX(x).",
        )
    return Written(_K.QUANTILE, (rows.convert(argument),), None, value.value)


def typed(written: Written, node: exp.Expr) -> Aggregate:
    """Return the aggregate with its type; refuse arguments that are of the wrong kind or without bounds."""
    record = BY_KIND[written.kind]
    for argument in written.arguments:
        if is_null(argument):
            raise QuestionError(f"{shown(node)} is about nothing: NULL is not a value.", "Name a column.")
        if record.needs is ArgumentNeed.NOTHING:
            continue
        if record.needs is ArgumentNeed.CANDIDATES:
            _check_candidates(argument, node)
        elif record.needs is ArgumentNeed.ORDER and argument.type.kind.ranged:
            _check_bounds(argument, node)
        elif not argument.type.kind.numeric:
            raise QuestionError(
                f"{shown(node)} needs numbers; {describe(argument)} is {argument.type.kind.value}.",
                _instead(argument, node, chooses=record.needs is ArgumentNeed.ORDER),
            )
        else:
            _check_bounds(argument, node)
    return Aggregate(
        kind=written.kind,
        arguments=written.arguments,
        where=written.where,
        fraction=written.fraction,
        type=record.result(written.arguments),
    )


def _instead(argument: Expression, node: exp.Expr, *, chooses: bool) -> str:
    """Return the way out for an argument that is no number."""
    written = _written(argument, node)
    if argument.type.kind is Kind.BOOLEAN:
        return f"Count instead: COUNT_IF({written})."
    if argument.type.kind is not Kind.TEXT:
        return f"Use MEDIAN(x), MIN(x) or MAX(x), or count days: DATE_DIFF('day', DATE '2020-01-01', {written})."
    most = f"The most frequent text is MODE({written}). " if chooses else ""
    return (
        f"{most}If its texts are numbers, write CLIP(CAST({written} AS INTEGER), lower, upper) with bounds you choose, "
        "or ask the owner to declare its type, in the policy or as types= of hush.protect."
    )


def _written(argument: Expression, node: exp.Expr) -> str:
    """Return an aggregate's argument as its author would write it, as far as that is known."""
    if isinstance(argument, Column):
        return argument.name
    if ARGUMENT in node.meta:
        return str(node.meta[ARGUMENT])
    record = record_of(node)
    return shown(node.this) if record is not None and record.arity == 1 and isinstance(node.this, exp.Expr) else "x"


def _check_bounds(argument: Expression, node: exp.Expr) -> None:
    if argument.type.bounded:
        return
    names = list(dict.fromkeys(_unbounded(argument)))
    if names:
        which, have = ("Column", "has") if len(names) == 1 else ("Columns", "have")
        what = f"{which} {', '.join(names)} in {shown(node)} {have} no known lower and upper bound"
    else:
        what = f"The values in {shown(node)} have no known lower and upper bound"
    clip = f"Write CLIP({_written(argument, node)}, lower, upper) with bounds you choose, add"
    raise UnboundedError(
        f"{what}, so one row could change the answer without limit.",
        f"{clip if argument.type.kind.numeric else 'Add'} WHERE … BETWEEN lower AND upper, "
        "or ask the owner to declare bounds in the policy.",
    )


def _unbounded(expression: Expression) -> list[str]:
    columns = (piece for piece in pieces(expression) if isinstance(piece, Column))
    return [one.name for one in columns if one.type.kind.ranged and not one.type.bounded]


def _check_candidates(argument: Expression, node: exp.Expr) -> None:
    type_ = argument.type
    if type_.values is not None or type_.kind is Kind.BOOLEAN:
        return
    if type_.lower is not None and type_.upper is not None and type_.step:
        if (type_.upper - type_.lower) / type_.step < MAX_MODES:
            return
        raise QuestionError(
            f"{shown(node)} would choose among more than {MAX_MODES:,} values.", "Bin them: MODE(BIN(x, 0, 100, 20))."
        )
    raise UnboundedError(
        f"{shown(node)} needs to know which values there can be; {describe(argument)} has no public list.",
        "Take the largest group, GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1, which also knows the values of a public "
        "table; or add WHERE x IN ('a', 'b', …), bin numbers with BIN(x, lower, upper, n), or ask the owner to declare "
        "values.",
    )
