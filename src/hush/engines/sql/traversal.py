"""What is in a relation: the expressions that it evaluates, the columns that they read, joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hush.query.expressions import Call, Column, Expression, Op
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
    window_expressions,
)
from hush.query.types import Kind


def referenced(relation: Relation) -> Iterator[Expression]:
    """Yield every expression that a relation evaluates."""
    match relation:
        case Scan() | Constants():
            return
        case Filter():
            yield relation.condition
            yield from referenced(relation.source)
        case Project():
            yield from (value for _, value in relation.columns)
            yield from referenced(relation.source)
        case Join():
            for pair in relation.on:
                yield from pair
            if relation.where is not None:
                yield relation.where
            yield from referenced(relation.left)
            yield from referenced(relation.right)
        case UnionAll():
            yield from (Column(label, type_) for label, type_ in relation.columns)
            for source in relation.sources:
                yield from referenced(source)
        case WithWindows():
            for _, window in relation.windows:
                yield from window_expressions(window)
            yield from referenced(relation.source)
        case PerUnit():
            yield from (value for _, value in relation.keys)
            yield from (item.argument for _, item in relation.aggregates if item.argument is not None)
            yield from referenced(relation.source)


def names_in(expression: Expression) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    match expression:
        case Column():
            yield expression.name
        case Call():
            for argument in expression.arguments:
                yield from names_in(argument)
        case _:
            return


def pieces(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that is in it, as often as it is."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from pieces(argument)


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


def substituted(expression: Expression, known: Mapping[Call, Column]) -> Expression:
    """Return an expression with columns in place of calls."""
    if not isinstance(expression, Call) or not known:
        return expression
    if expression in known:
        return known[expression]
    return replace(expression, arguments=tuple(substituted(argument, known) for argument in expression.arguments))
