"""What conditions leave of public keys: ``WHERE r_name = 'ASIA' GROUP BY n_name`` can have five nations, not 25.

Every row of a question satisfies the conditions of its filters and inner joins. Those over columns of public tables
alone are a question about public tables: their join, so restricted, has every combination of public values that a row
can have. Only what is not in it is left out, so no row is dropped. Tables are taken together where an equality connects
them; a LEFT JOIN's optional side, unions and aggregates are left as they are.

A condition over one key expression and constants, ``WHERE MONTH(day) < 4 GROUP BY MONTH(day)``, narrows that key.

All of it depends on the question and on public tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from hush.core.values import dataclass
from hush.query.expressions import Call, Column, Expression, Op, columns_in, substituted
from hush.query.functions import all_of, call
from hush.query.functions.logic import conjuncts
from hush.query.refine import narrowed
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    JoinKind,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
    columns,
)
from hush.query.types import Type

_KEY = "\0key"


@dataclass(slots=True)
class _Spine:
    """The tables that inner joins connect, in whose columns everything is said."""

    names: dict[str, Expression] = field(default_factory=dict)
    """What a column above stands for."""
    leaves: list[Scan] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)

    def say(self, conditions: Iterable[Expression]) -> None:
        """Add conditions on rows above, as far as they can be said in columns of tables."""
        for condition in conditions:
            for part in conjuncts(condition):
                said = _said(part, self.names)
                if said is not None:
                    self.conditions.append(said)


def _said(expression: Expression, names: Mapping[str, Expression]) -> Expression | None:
    """Return an expression in terms of what its columns stand for; None if one stands for nothing known."""
    if isinstance(expression, Column):
        return names.get(expression.name)
    if not isinstance(expression, Call):
        return expression
    arguments = [_said(argument, names) for argument in expression.arguments]
    known = tuple(argument for argument in arguments if argument is not None)
    return replace(expression, arguments=known) if len(known) == len(arguments) else None


def _spine(relation: Relation) -> _Spine:
    match relation:
        case Scan():
            names: dict[str, Expression] = {name: Column(name, type_) for name, _, type_ in relation.columns}
            return _Spine(names, [relation])
        case Filter():
            found = _spine(relation.source)
            found.say([relation.condition])
            return found
        case WithWindows():
            return _spine(relation.source)
        case Project():
            found = _spine(relation.source)
            said = {name: _said(value, found.names) for name, value in relation.columns}
            found.names = {name: value for name, value in said.items() if value is not None}
            return found
        case Join():
            found = _spine(relation.left)
            if relation.kind is not JoinKind.INNER:
                return found
            other = _spine(relation.right)
            found = _Spine(
                found.names | other.names, [*found.leaves, *other.leaves], [*found.conditions, *other.conditions]
            )
            found.say(call(Op.EQUAL, one, two) for one, two in relation.on)
            found.say([] if relation.where is None else [relation.where])
            return found
        case PerUnit():
            found = _spine(relation.source)
            said = {name: _said(value, found.names) for name, value in relation.keys}
            found.names = {name: value for name, value in said.items() if value is not None}
            return found
        case UnionAll() | Constants():
            return _Spine()


def restricted(scan: Scan, relation: Relation) -> Relation:
    """Return a public table with the public tables that conditions connect it with, as far as these let it be."""
    spine = _spine(relation)
    public = [leaf for leaf in spine.leaves if leaf.public]
    if scan not in public:
        return scan
    owners = {name: leaf for leaf in public for name, _, _ in leaf.columns}
    said = [part for part in spine.conditions if columns_in(part) and columns_in(part) <= owners.keys()]
    found: Relation = scan
    left = [part for part in said if not _is_link(part, owners)]
    links = [part for part in said if _is_link(part, owners)]
    while True:
        known = frozenset(columns(found))
        nearest = next((pair for pair in map(_split, links) if _reaches(pair, known)), None)
        if nearest is None:
            break
        _, other = nearest if columns_in(nearest[0]) <= known else nearest[::-1]
        leaf = owners[next(iter(columns_in(other)))]
        there = frozenset(name for name, _, _ in leaf.columns)
        between = [pair for pair in map(_split, links) if _between(pair, known, there)]
        on = tuple(pair if columns_in(pair[0]) <= known else pair[::-1] for pair in between)
        found = Join(left=found, right=leaf, kind=JoinKind.INNER, on=on)
        links = [part for part in links if not _between(_split(part), known, there)]
    known = frozenset(columns(found))
    conditions = [part for part in [*left, *links] if columns_in(part) <= known]
    return Filter(source=found, condition=all_of(conditions)) if conditions else found


def public_scans(relation: Relation) -> list[Scan]:
    """Return the tables that a restricted table is joined with, and itself."""
    match relation:
        case Scan():
            return [relation]
        case Filter():
            return public_scans(relation.source)
        case Join():
            return [*public_scans(relation.left), *public_scans(relation.right)]
        case _:
            return []


def _is_link(part: Expression, owners: Mapping[str, Scan]) -> bool:
    """Return whether a condition is an equality between columns of two tables."""
    if not isinstance(part, Call) or part.op is not Op.EQUAL:
        return False
    sides = [{id(owners[name]) for name in columns_in(side)} for side in part.arguments]
    return all(len(side) == 1 for side in sides) and sides[0] != sides[1]


def _split(part: Expression) -> tuple[Expression, Expression]:
    assert isinstance(part, Call)  # noqa: S101 - an equality
    return part.arguments[0], part.arguments[1]


def _reaches(pair: tuple[Expression, Expression], known: frozenset[str]) -> bool:
    return (columns_in(pair[0]) <= known) is not (columns_in(pair[1]) <= known)


def _between(pair: tuple[Expression, Expression], known: frozenset[str], there: frozenset[str]) -> bool:
    one, other = (columns_in(side) for side in pair)
    return (one <= known and other <= there) or (one <= there and other <= known)


def narrowed_key(key: Expression, relation: Relation) -> Type:
    """Return the type of a key on the rows that pass all conditions over that key and constants alone."""
    if not isinstance(key, Call):
        return key.type
    spine = _spine(relation)
    said = _said(key, spine.names)
    if said is None:
        return key.type
    types: dict[str, Type] = {_KEY: key.type}
    for condition in spine.conditions:
        about = _about(condition, said, Column(_KEY, key.type))
        if columns_in(about) == {_KEY}:
            types = narrowed(types, about)
    return types[_KEY]


def _about(expression: Expression, key: Expression, name: Column) -> Expression:
    """Return an expression with a name in place of a key."""
    return substituted(expression, lambda piece: name if _same(piece, key) else None)


def _same(one: Expression, other: Expression) -> bool:
    """Return whether two expressions are the same but for what is known of their ranges."""
    if isinstance(one, Call) and isinstance(other, Call):
        pairs = zip(one.arguments, other.arguments, strict=False)
        return one.op is other.op and len(one.arguments) == len(other.arguments) and all(_same(a, b) for a, b in pairs)
    if isinstance(one, Column) and isinstance(other, Column):
        return one.name == other.name
    return one == other
