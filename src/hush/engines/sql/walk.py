"""What is in a relation: the expressions that it evaluates, the columns that they read, joins."""

from __future__ import annotations

from collections.abc import Iterator

from hush.query.expressions import Call, Column, Expression
from hush.query.relations import Filter, Join, PerUnit, Project, Relation, Scan, UnionAll


def referenced(relation: Relation) -> Iterator[Expression]:
    """Yield every expression that a relation evaluates."""
    match relation:
        case Scan():
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
