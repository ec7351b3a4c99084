"""What is in a relation: the expressions that it evaluates, the columns that they read, joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

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
