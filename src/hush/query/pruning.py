"""Drop columns that nothing uses, so that equal questions are equal and an engine reads only what is needed.

A projection without columns disappears: the unit is carried along by every relation anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hush.query.expressions import Call, Column, Expression
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
    columns,
    window_expressions,
)


def columns_in(expression: Expression) -> frozenset[str]:
    """Return the names of all columns in an expression."""
    if isinstance(expression, Column):
        return frozenset({expression.name})
    if isinstance(expression, Call):
        return frozenset().union(*(columns_in(argument) for argument in expression.arguments))
    return frozenset()


def used(expressions: Iterable[Expression | None]) -> frozenset[str]:
    """Return the columns that any of the expressions uses."""
    return frozenset().union(*(columns_in(expression) for expression in expressions if expression is not None))


def pruned(relation: Relation, needed: frozenset[str]) -> Relation:
    """Return the relation with no more columns than needed."""
    match relation:
        case Scan():
            return replace(relation, columns=tuple(column for column in relation.columns if column[0] in needed))
        case Constants():
            return relation
        case Filter():
            return replace(relation, source=pruned(relation.source, needed | used([relation.condition])))
        case Project():
            kept = tuple((name, expression) for name, expression in relation.columns if name in needed)
            source = pruned(relation.source, used(expression for _, expression in kept))
            return replace(relation, source=source, columns=kept) if kept else source
        case Join():
            needed |= used([relation.where, *(side for pair in relation.on for side in pair)])
            return replace(relation, left=pruned(relation.left, needed), right=pruned(relation.right, needed))
        case UnionAll():
            kept_columns = tuple(column for column in relation.columns if column[0] in needed)
            names = frozenset(name for name, _ in kept_columns)
            sources = tuple(_exactly(pruned(source, names), names) for source in relation.sources)
            return replace(relation, sources=sources, columns=kept_columns)
        case WithWindows():
            windows = tuple((name, window) for name, window in relation.windows if name in needed)
            if not windows:
                return pruned(relation.source, needed)
            inside = used(expression for _, window in windows for expression in window_expressions(window))
            return replace(relation, source=pruned(relation.source, needed | inside), windows=windows)
        case PerUnit():
            aggregates = tuple((name, aggregate) for name, aggregate in relation.aggregates if name in needed)
            inside = used([*(e for _, e in relation.keys), *(aggregate.argument for _, aggregate in aggregates)])
            return replace(relation, source=pruned(relation.source, inside), aggregates=aggregates)


def _exactly(relation: Relation, names: frozenset[str]) -> Relation:
    """Return a member of a union with exactly the union's columns, as its projection vanished if it has none."""
    if frozenset(columns(relation)) == names:
        return relation
    return Project(source=relation, columns=())
