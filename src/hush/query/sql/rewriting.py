"""Functions and aggregates that only stand for others: their text is read once, and their arguments are put in.

A function's arguments are resolved first, and stand as they are in the text, however often it names them. An
aggregate's are put in as they were written, because they belong to the rows and what is around them to the answers; a
FILTER goes to every aggregate of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sqlglot import exp

from hush.query.aggregates import AGGREGATES, AggregateFunction
from hush.query.errors import QuestionError
from hush.query.expressions import Expression
from hush.query.functions.record import Rewrite
from hush.query.functions.rules import wanted_arguments
from hush.query.sql.calls import REWRITTEN
from hush.query.sql.nodes import ARGUMENT, SHOWN, called, is_set, only, shown
from hush.query.sql.reading import read_expression
from hush.query.sql.resolver import Resolver

QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_CLASSES: dict[type[exp.Expr], AggregateFunction] = {
    getattr(exp, node): record for record in AGGREGATES for node in record.nodes
}
_NAMES: dict[str, AggregateFunction] = {name: record for record in AGGREGATES for name in record.names}


def is_aggregate(node: object) -> bool:
    """Return whether a node aggregates rows, supported or not."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in _NAMES


def record_of(node: exp.Expr) -> AggregateFunction | None:
    """Return what there is to know of the aggregate that a node calls."""
    return _NAMES.get(str(node.this).upper()) if isinstance(node, exp.Anonymous) else _CLASSES.get(type(node))


def arguments_of(node: exp.Expr, count: int) -> list[exp.Expr]:
    """Return the arguments of a call, which are as many as there should be."""
    if isinstance(node, exp.Anonymous):
        only(node, "this", "expressions")
        given = list(node.expressions)
    else:
        slots = ("this", "expression")[:count]
        only(node, *slots)
        given = [node.args[slot] for slot in slots if is_set(node.args.get(slot))]
    if not given and count:
        raise QuestionError(f"{shown(node)} needs an argument.", "Name a column.")
    if len(given) != count:
        raise QuestionError(f"{called(node)} takes {wanted_arguments(count, count)}; got {len(given)}.")
    if isinstance(given[0] if given else None, exp.Distinct):
        raise QuestionError(
            f"DISTINCT is supported in COUNT(DISTINCT x) only; got {shown(node)}.",
            "Leave DISTINCT out, or count how many values there are: COUNT(DISTINCT x).",
        )
    return given


@cache
def _template(text: str) -> exp.Expr:
    return read_expression(text)


def rewritten_aggregate(node: exp.Expr) -> exp.Expr | None:
    """Return what an aggregate stands for; None if it stands for itself."""
    inner, filters = node, []
    while isinstance(inner, exp.Filter):
        filters.append(inner)
        inner = inner.this
    record = record_of(inner)
    if record is None or not record.rewrite:
        return None
    arguments = dict(zip(record.parameters, arguments_of(inner, len(record.parameters)), strict=True))
    whole = shown(node)

    def put_in(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and part.name in arguments:
            return arguments[part.name].copy()
        if is_aggregate(part):
            part.meta[SHOWN] = whole
            if arguments:
                part.meta[ARGUMENT] = shown(next(iter(arguments.values())))
        return part

    def filtered(part: exp.Expr) -> exp.Expr:
        if not is_aggregate(part):
            return part
        for condition in reversed(filters):
            outer = condition.copy()
            outer.set("this", part)
            outer.meta[SHOWN] = whole
            part = outer
        return part

    # what is put in is not looked into: neither an argument for parameters, nor a filtered aggregate for others
    return _template(record.rewrite).transform(put_in).transform(filtered, copy=False)


def rewritten_function(to: Resolver, node: exp.Expr) -> Expression | None:
    """Return what a function stands for; None if it stands for itself."""
    rewrite = REWRITTEN.get(str(node.this).upper() if isinstance(node, exp.Anonymous) else type(node))
    if rewrite is None:
        return None
    return to.given(_arguments(to, node, rewrite)).convert(_template(rewrite.text))


def _arguments(to: Resolver, node: exp.Expr, rewrite: Rewrite) -> Mapping[str, Expression]:
    if isinstance(node, exp.Anonymous):
        only(node, "this", "expressions")
        given = list(node.expressions)
    else:
        slots = rewrite.slots[: len(rewrite.parameters)]
        only(node, *slots)
        given = [node.args[slot] for slot in slots if is_set(node.args.get(slot))]
    count = len(rewrite.parameters)
    if len(given) != count:
        raise QuestionError(f"{called(node)} takes {wanted_arguments(count, count)}; got {len(given)}.")
    return {name: to.convert(argument) for name, argument in zip(rewrite.parameters, given, strict=True)}
