"""Aggregates: what each needs, and what it gives.

A sum, mean, variance or quantile needs to know between which values its argument lies; that is what makes the
influence of one unit finite. A count needs nothing. A mode needs to know the candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from hush.query._support import is_null
from hush.query.errors import QuestionError, UnboundedError
from hush.query.expressions import Call, Column, Expression, Literal
from hush.query.functions import all_of, describe
from hush.query.question import Aggregate, AggregateKind
from hush.query.sql.calls import FUNCTIONS, nearest
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import called, is_set, only, refuse, shown
from hush.query.types import Kind, Type

MAX_MODES = 100_000
"""A mode is chosen among at most so many candidates."""

_K = AggregateKind
_ONE: dict[type[exp.Expr], AggregateKind] = {
    exp.Sum: _K.SUM,
    exp.Avg: _K.AVG,
    exp.Variance: _K.VARIANCE,
    exp.VariancePop: _K.VARIANCE_POPULATION,
    exp.Stddev: _K.STDDEV,
    exp.StddevSamp: _K.STDDEV,
    exp.StddevPop: _K.STDDEV_POPULATION,
    exp.Min: _K.MIN,
    exp.Max: _K.MAX,
    exp.Mode: _K.MODE,
}
_TWO: dict[type[exp.Expr], AggregateKind] = {
    exp.Corr: _K.CORRELATION,
    exp.CovarSamp: _K.COVARIANCE,
    exp.CovarPop: _K.COVARIANCE_POPULATION,
}
_QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_ORDERED = {_K.MIN, _K.MAX, _K.QUANTILE}


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
    kind = type(node)
    if isinstance(node, exp.Count):
        return _count(node, rows)
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "COUNT_STAR" and not node.expressions:
        return Written(_K.COUNT, (), None)
    if isinstance(node, exp.CountIf):
        only(node, "this")
        return Written(_K.COUNT, (), rows.condition(node.this))
    if isinstance(node, exp.Median):
        only(node, "this")
        return Written(_K.QUANTILE, (_argument(node, rows),), None, Fraction(1, 2))
    if isinstance(node, _QUANTILES):
        only(node, "this", "expression", "quantile")
        return _quantile(node, node.args.get("quantile") or node.args.get("expression"), rows, node.this)
    if kind in _ONE:
        only(node, "this")
        return Written(_ONE[kind], (_argument(node, rows),), None)
    if kind in _TWO:
        only(node, "this", "expression")
        return Written(_TWO[kind], (_argument(node, rows), rows.convert(node.expression)), None)
    raise QuestionError(
        f"There is no aggregate {called(node)} here.",
        nearest(called(node)) or "There are " + ", ".join(name for name in FUNCTIONS if name in _LISTED) + ".",
    )


_LISTED = frozenset(
    {
        "COUNT",
        "COUNT_IF",
        "SUM",
        "AVG",
        "VARIANCE",
        "STDDEV",
        "MEDIAN",
        "QUANTILE",
        "MIN",
        "MAX",
        "MODE",
        "CORR",
        "COVAR_SAMP",
        "COVAR_POP",
    }
)


def _argument(node: exp.Expr, rows: Rows) -> Expression:
    if not is_set(node.args.get("this")):
        raise QuestionError(f"{shown(node)} needs an argument.", "Name a column.")
    if isinstance(node.this, exp.Distinct):
        raise QuestionError(
            f"DISTINCT is supported in COUNT(DISTINCT x) only; got {shown(node)}.",
            "Leave DISTINCT out, or count how many values there are: COUNT(DISTINCT x).",
        )
    return rows.convert(node.this)


def _count(node: exp.Count, rows: Rows) -> Written:
    only(node, "this", "expressions", "big_int")
    argument = node.args.get("this")
    if argument is None or isinstance(argument, exp.Star):
        if isinstance(argument, exp.Star):
            only(argument)
        if node.expressions:
            raise refuse(node.expressions[0])
        return Written(_K.COUNT, (), None)
    several = [*(argument.expressions if isinstance(argument, exp.Distinct) else []), *node.expressions]
    if len(several) > 1 or node.expressions:
        raise QuestionError(
            f"COUNT takes one argument; got {max(len(several), 2)}.", "Join them: COUNT(DISTINCT a || '/' || b)."
        )
    if isinstance(argument, exp.Distinct):
        only(argument, "expressions")
        if rows.unit(several[0]):
            return Written(_K.COUNT_UNITS, (), None)
        return Written(_K.COUNT_DISTINCT, (rows.convert(several[0]),), None)
    if rows.unit(argument):  # rows without a unit were dropped, so every row has one
        return Written(_K.COUNT, (), None)
    found = rows.convert(argument)
    # what cannot be NULL is counted as rows, so that COUNT(x) and COUNT(*) are one aggregate and paid for once
    return Written(_K.COUNT, (found,) if found.type.nullable else (), None)


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
            f"A quantile is asked for by itself; got {shown(node)}.", "Write QUANTILE(x, 0.25), QUANTILE(x, 0.75)."
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
    kind = written.kind
    for argument in written.arguments:
        if is_null(argument):
            raise QuestionError(f"{shown(node)} is about nothing: NULL is not a value.", "Name a column.")
        if kind in {_K.COUNT, _K.COUNT_DISTINCT}:
            continue
        if kind is _K.MODE:
            _check_candidates(argument, node)
        elif kind in _ORDERED and argument.type.kind.ranged:
            _check_bounds(argument, node)
        elif not argument.type.kind.numeric:
            raise QuestionError(
                f"{shown(node)} needs numbers; {describe(argument)} is {argument.type.kind.value}.",
                _instead(argument, node, chooses=kind in _ORDERED),
            )
        else:
            _check_bounds(argument, node)
    return Aggregate(
        kind=kind,
        arguments=written.arguments,
        where=written.where,
        fraction=written.fraction,
        type=_result(kind, written.arguments),
    )


def _instead(argument: Expression, node: exp.Expr, *, chooses: bool) -> str:
    """Return the way out for an argument that is no number."""
    written = _written(argument, node)
    if argument.type.kind is Kind.BOOLEAN:
        return "Count instead: COUNT_IF(…)."
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
    return shown(node.this) if type(node) in _ONE or isinstance(node, exp.Median) else "x"


def _result(kind: AggregateKind, arguments: tuple[Expression, ...]) -> Type:
    """Return the type of an answer. Only chosen values keep their bounds, and correlations are moved into theirs.

    Noise knows no bounds, so those of a covariance are the truth's alone: by them error bars end.
    """
    match kind:
        case _K.COUNT | _K.COUNT_UNITS | _K.COUNT_DISTINCT:
            return Type(Kind.INTEGER, nullable=False, step=Fraction(1))
        case _K.SUM:
            argument = arguments[0].type
            return Type(argument.kind, nullable=False, step=argument.step)
        case _K.QUANTILE | _K.MIN | _K.MAX | _K.MODE:
            return arguments[0].type.or_null()
        case _K.CORRELATION:
            return Type(Kind.DECIMAL, lower=Fraction(-1), upper=Fraction(1))
        case _K.COVARIANCE | _K.COVARIANCE_POPULATION:
            most = math.prod((_spread(argument.type) for argument in arguments), start=Fraction(1, 4))
            most *= 2 if kind is _K.COVARIANCE else 1  # n/(n - 1) of two rows or more
            return Type(Kind.DECIMAL, lower=-most, upper=most)
        case _:
            return Type(Kind.DECIMAL)


def _spread(type_: Type) -> Fraction:
    """Return how far apart two values of a bounded type can be."""
    assert type_.lower is not None  # noqa: S101 - the bounds were checked
    assert type_.upper is not None  # noqa: S101
    return type_.upper - type_.lower


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
    if isinstance(expression, Column):
        return [] if expression.type.bounded or not expression.type.kind.ranged else [expression.name]
    if isinstance(expression, Call):
        return [name for argument in expression.arguments for name in _unbounded(argument)]
    return []


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
