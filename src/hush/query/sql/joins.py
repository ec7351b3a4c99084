"""JOIN: private tables on the unit, or on the foreign key that leads to it; public tables on anything.

**Foreign keys.** Where the policy says that rows of ``lineitem`` find their unit by ``l_orderkey``, a key of
``orders``, an equality of the two joins on the unit as well. Each row of ``lineitem`` is read once for every unit that
its key has; a row of ``orders`` with that key and the unit u meets just the copy that belongs to u. So the pairs are
those of SQL, each once, and each of one unit, even where the key is not unique.

**Commas.** ``FROM a, b WHERE a.x = b.x`` pairs rows by conditions that stand in WHERE. These are found by the tables
they name, and the tables are joined one after the other, each to those that a condition connects it with. A condition
that all parts of an OR share holds for the OR itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, columns_in
from hush.query.functions import all_of, call
from hush.query.relations import Join, JoinKind, Named, Project, Relation, UnionAll, columns
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import identifier, is_set, only, shown
from hush.query.sql.scope import Binding, Context, Scope, Source, UnitName


@dataclass(slots=True)
class Condition:
    """What ON, USING or WHERE says about a pair of rows."""

    on_unit: bool = False
    equalities: list[tuple[Expression, Expression]] = field(default_factory=list)
    rest: list[Expression] = field(default_factory=list)
    merged: dict[str, tuple[Binding, Binding]] = field(default_factory=dict)
    """Names that USING joins, and what they mean on either side."""

    def relation(self, left: Relation, right: Relation, kind: JoinKind) -> Join:
        """Return the join of two relations on this condition."""
        where = all_of(self.rest) if self.rest else None
        return Join(left=left, right=right, kind=kind, on=tuple(self.equalities), where=where)

    def add(self, condition: Expression, sides: tuple[frozenset[str], frozenset[str]], context: Context) -> None:
        """Take one condition: an equality between columns of the two sides, or another one."""
        if isinstance(condition, Call) and condition.op is Op.EQUAL:
            one, other = condition.arguments
            if columns_in(one) <= sides[1] and columns_in(other) <= sides[0]:
                one, other = other, one
            if columns_in(one) and columns_in(other) and columns_in(one) <= sides[0] and columns_in(other) <= sides[1]:
                self.equalities.append((one, other))
                self.on_unit = self.on_unit or same_key(one, other, context)
                return
        self.rest.append(condition)

    @property
    def mirrored(self) -> Condition:
        """The same condition with the sides exchanged."""
        return replace(self, equalities=[(second, first) for first, second in self.equalities])


def joined(left: Scope, join: exp.Join, right: Scope, context: Context, offered: Sequence[exp.Expr] = ()) -> Scope:
    """Return two sources joined; ``offered`` are conditions of WHERE that say something about both."""
    side, kind = _kind(join)
    check_aliases(left, right)
    context.grow()
    if is_set(join.args.get("using")):
        named = [identifier(node.this if isinstance(node, exp.Column) else node) for node in join.args["using"]]
        condition = _using(left, right, named)
    elif _word(join, "method") == "NATURAL":
        condition = _using(left, right, _common(left, right, join))
    elif is_set(join.args.get("on")):
        condition = on(left, right, conjuncts(join.args["on"]), context)
    else:
        condition = Condition()
    if offered:
        more = on(left, right, offered, context)
        condition = replace(
            condition,
            on_unit=condition.on_unit or more.on_unit,
            equalities=[*condition.equalities, *more.equalities],
            rest=[*condition.rest, *more.rest],
        )
    if left.private and right.private:
        context.join_private()
        if not condition.on_unit:
            raise _not_on_unit(left, right, join, condition, context)
    if side == "FULL":
        return _full(left, right, condition, context)
    _check_owner(left, right, side, kind)
    if kind is not None:
        return left.over(condition.relation(left.relation, right.relation, kind))
    if side == "RIGHT":
        relation = condition.mirrored.relation(right.relation, left.relation, JoinKind.LEFT)
    else:
        outer = JoinKind.LEFT if side == "LEFT" else JoinKind.INNER
        relation = condition.relation(left.relation, right.relation, outer)
    return _together(left, right, relation, condition, side)


def _together(left: Scope, right: Scope, relation: Relation, condition: Condition, side: str) -> Scope:
    """Return the names of both sides over a join; those of the optional side have no unit."""
    lost = {"LEFT": (False, True), "RIGHT": (True, False), "FULL": (True, True), "": (False, False)}[side]
    first = [_without_unit(source) if lost[0] else source for source in left.sources]
    second = [_without_unit(source) if lost[1] else source for source in right.sources]
    second = [replace(source, merged=source.merged | condition.merged.keys()) for source in second]
    merged = {name: pair[1] if side == "RIGHT" else pair[0] for name, pair in condition.merged.items()}
    kept = {
        name: UnitName.LOST if optional and isinstance(binding, UnitName) else binding
        for scope, optional in ((left, lost[0]), (right, lost[1]))
        for name, binding in scope.merged.items()
    }
    return Scope(relation, [*first, *second], kept | merged, left.parts)


def _full(left: Scope, right: Scope, condition: Condition, context: Context) -> Scope:
    """Return a FULL JOIN of private tables: a LEFT JOIN, and the right side's rows that have no partner."""
    if not (left.private and right.private):
        raise QuestionError(
            "A FULL JOIN with a public table would have rows that belong to no unit.",
            "Write a LEFT JOIN with the private table on the left.",
        )
    context.join_private()
    context.grow(4)
    mine, theirs = (columns(scope.relation) for scope in (left, right))
    types = {name: type_.or_null(named=True) for name, type_ in (mine | theirs).items()}
    both: list[Named] = [(name, Column(name, type_)) for name, type_ in mine.items()]
    both += [(name, Column(name, types[name])) for name in theirs]
    alone: list[Named] = [(name, Literal(None, replace(types[name], values=None))) for name in mine]
    alone += [(name, Column(name, type_)) for name, type_ in theirs.items()]
    merged: dict[str, tuple[Binding, Binding]] = {}
    for name, (one, other) in condition.merged.items():
        if isinstance(one, UnitName) or isinstance(other, UnitName):
            merged[name] = (UnitName.HERE, UnitName.HERE)
            continue
        unique = context.fresh(name)
        either = call(Op.COALESCE, Column(one, types[one]), Column(other, types[other]))
        types[unique] = either.type
        both.append((unique, Column(one, mine[one])))
        alone.append((unique, Column(other, theirs[other])))
        merged[name] = (unique, unique)
    first = Project(source=condition.relation(left.relation, right.relation, JoinKind.LEFT), columns=tuple(both))
    second = condition.mirrored.relation(right.relation, left.relation, JoinKind.ANTI)
    rest = Project(source=second, columns=tuple(alone))
    relation = UnionAll(sources=(first, rest), columns=tuple((name, types[name]) for name, _ in both))
    return _together(left, right, relation, replace(condition, merged=merged), "FULL")


def check_aliases(left: Scope, right: Scope) -> None:
    """Refuse two sources of one name."""
    aliases = {source.alias.casefold() for source in left.sources if source.alias}
    for source in right.sources:
        if source.alias and source.alias.casefold() in aliases:
            raise QuestionError(f"Two sources in FROM are called '{source.alias}'.", "Give one another name with AS.")


def _word(join: exp.Join, name: str) -> str:
    return str(join.args.get(name) or "").upper()


def is_cross(join: exp.Join) -> bool:
    """Return whether a join has no condition of its own: a comma, or CROSS JOIN."""
    return _word(join, "kind") == "CROSS" and not _word(join, "side") and not _word(join, "method")


def is_inner(join: exp.Join) -> bool:
    """Return whether a join keeps just the pairs for which a condition after ON holds, or all."""
    plain = not _word(join, "side") and not _word(join, "method") and _word(join, "kind") in {"", "INNER", "CROSS"}
    return plain and not is_set(join.args.get("using"))


def _kind(join: exp.Join) -> tuple[str, JoinKind | None]:
    """Return which sides are optional, and whether only rows of the left side stay."""
    method, side, kind = (_word(join, name) for name in ("method", "side", "kind"))
    if method not in {"", "NATURAL"}:
        raise QuestionError(f"{method} JOIN is not supported.", "Write JOIN … ON or JOIN … USING (…).")
    halves = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI}
    if side not in {"", "LEFT", "RIGHT", "FULL"} or kind not in {"", "INNER", "OUTER", "CROSS", *halves}:
        raise QuestionError(f"{side} {kind} JOIN is not supported.".lstrip(), "Write JOIN or LEFT JOIN.")
    if (kind == "CROSS" and (side or method)) or (kind in halves and side not in {"", "LEFT"}):
        raise QuestionError(f"{side} {method} {kind} JOIN is not supported.".lstrip(), "Write JOIN or LEFT JOIN.")
    only(join, "this", "on", "using", "side", "kind", "method")
    conditions = sum(is_set(join.args.get(name)) for name in ("on", "using")) + (method == "NATURAL")
    if conditions > 1:
        raise QuestionError("A NATURAL JOIN has no further condition.", "Write JOIN … ON or JOIN … USING (…).")
    if side and conditions != 1:
        raise QuestionError(f"A {side} JOIN needs ON or USING; got {side} JOIN {shown(join.this)}.")
    if kind == "CROSS" and conditions:
        raise QuestionError("A CROSS JOIN has no condition.", "Write JOIN … ON.")
    if kind != "CROSS" and not conditions:
        raise QuestionError(
            f"A JOIN needs ON or USING; got JOIN {shown(join.this)}.",
            "Say what belongs together: JOIN … USING (key). CROSS JOIN pairs every row with every row.",
        )
    return ("" if kind in halves else side), halves.get(kind)


def _check_owner(left: Scope, right: Scope, side: str, kind: JoinKind | None) -> None:
    """Refuse a join in which a row of a public table stays or goes by what private tables hold."""
    public, private = (right, left) if side == "RIGHT" else (left, right)
    if public.private or not private.private:
        return
    if kind is not None:
        raise QuestionError(
            "Rows of a public table would be kept by what a private table holds, and belong to no unit.",
            "Put the private table on the left.",
        )
    if side:
        raise QuestionError(
            f"A {side} JOIN from a public to a private table would have rows that belong to no unit.",
            "Write JOIN, which keeps the rows that have a partner: every key of the public table has its group anyway; "
            "or group by it and count a column of the private table: COUNT(x), not COUNT(*).",
        )


def _units(scope: Scope) -> list[tuple[str, str]]:
    """Return the aliases and the names under which a side has its unit."""
    return [
        (source.alias or "", name)
        for source in scope.sources
        for name, binding in source.names.values()
        if binding is UnitName.HERE
    ]


def _not_on_unit(left: Scope, right: Scope, join: exp.Join, condition: Condition, context: Context) -> QuestionError:
    units = _units(left)
    unit = units[0][1] if units else context.schema.unit
    if unit is None:
        return QuestionError(
            "Private tables in which every row is a unit cannot be joined: a pair of rows would belong to two units.",
            "Ask about them one by one, or join a public table.",
        )
    here, there = units[0] if units else ("a", unit), (_units(right) or [("b", unit)])[0]
    keys = _linked(left, right, context)
    also = f" So does the foreign key: ON {keys}." if keys else ""
    if condition.equalities:  # the unit alone would pair all rows of a unit with each other
        if is_set(join.args.get("using")):
            way = f"USING ({', '.join([unit, *(shown(name) for name in join.args['using'])])})"
        elif is_set(join.args.get("on")):
            way = f"ON {shown(join.args['on'])} AND {here[0] or 'a'}.{here[1]} = {there[0] or 'b'}.{there[1]}"
        else:
            way = f"{here[0] or 'a'}.{here[1]} = {there[0] or 'b'}.{there[1]} in WHERE"
        return QuestionError(
            f"Private tables are joined on the unit, too, so that no row belongs to two; got {shown(join)}.",
            f"Keep the condition and add the unit: {way}. On the unit alone all rows of a unit would meet.{also}",
        )
    return QuestionError(
        f"Private tables can be joined on the unit only; got {shown(join)}.",
        f"Write JOIN … USING ({unit}) or ON a.{unit} = b.{unit}, with further conditions after AND; "
        f"a subquery must select {unit} for that.{also}",
    )


def _linked(left: Scope, right: Scope, context: Context) -> str:
    """Return the equality of foreign keys that would join two sides, if there is one."""
    found: list[dict[tuple[str, str], str]] = []
    for scope in (left, right):
        named = {
            context.links[binding]: f"{source.alias or ''}.{name}".lstrip(".")
            for source in scope.sources
            for name, binding in source.names.values()
            if isinstance(binding, str) and binding in context.links
        }
        found.append(named)
    shared = [target for target in found[0] if target in found[1]]
    return f"{found[0][shared[0]]} = {found[1][shared[0]]}" if shared else ""


def _common(left: Scope, right: Scope, join: exp.Join) -> list[str]:
    """Return the names that both sides of a NATURAL JOIN have."""

    def named(scope: Scope) -> dict[str, str]:
        return {
            key: name
            for source in scope.sources
            for key, (name, binding) in source.names.items()
            if key not in source.hidden and (not isinstance(binding, UnitName) or key in source.stored)
        }

    mine, theirs = named(left), named(right)
    shared = [name for key, name in mine.items() if key in theirs]
    if not shared:
        raise QuestionError(f"The sides of NATURAL JOIN {shown(join.this)} have no column in common.", "Write ON.")
    return shared


def _using(left: Scope, right: Scope, names: Sequence[str]) -> Condition:
    found = Condition()
    left_types, right_types = columns(left.relation), columns(right.relation)
    for name in names:
        one, other = left.require(name), right.require(name)
        if one is UnitName.HERE and other is UnitName.HERE:
            found.on_unit = True
        elif isinstance(one, UnitName) or isinstance(other, UnitName):
            raise QuestionError(f"'{name}' is the unit on one side only.", "Join private tables on the unit of both.")
        else:
            pair = call(Op.EQUAL, Column(one, left_types[one]), Column(other, right_types[other]))
            found.equalities.append((pair.arguments[0], pair.arguments[1]))
        found.merged[name.casefold()] = (one, other)
    return found


def on(left: Scope, right: Scope, nodes: Sequence[exp.Expr], context: Context) -> Condition:
    """Sort conditions on pairs into the unit's equality, equalities between the sides, and the rest."""
    both = Scope(left.relation, [*left.sources, *right.sources], left.merged | right.merged, settled=True)
    types = columns(left.relation) | columns(right.relation)
    rows = Rows(context, both, types)
    found = Condition()
    sides = frozenset(columns(left.relation)), frozenset(columns(right.relation))
    for part in nodes:
        if isinstance(part, exp.EQ) and _is_unit(rows, part.this) and _is_unit(rows, part.expression):
            only(part, "this", "expression")
            owners = [_owners(node, left, right) for node in (part.this, part.expression)]
            if set.union(*owners) != {"left", "right"}:
                raise QuestionError(f"{shown(part)} compares a unit with itself.", "Name both tables: a.unit = b.unit.")
            found.on_unit = True
            continue
        found.add(rows.condition(part), sides, context)
    return found


def same_key(one: Expression, other: Expression, context: Context) -> bool:
    """Return whether two columns stand for one key on the way to the unit."""
    if not isinstance(one, Column) or not isinstance(other, Column):
        return False
    target = context.links.get(one.name)
    return target is not None and context.links.get(other.name) == target


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that AND joins."""
    return _flat(node, exp.And)


def _flat(node: exp.Expr, operator: type[exp.Expr]) -> list[exp.Expr]:
    found, stack = [], [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.Paren):
            only(part, "this")
            stack.append(part.this)
        elif isinstance(part, operator):
            only(part, "this", "expression")
            stack += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _shared(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that all parts of an OR have in common."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Or):
        return []
    first, *rest = [conjuncts(part) for part in _flat(node, exp.Or)]
    return [part for part in first if all(part in other for other in rest)]


def chained(
    items: Sequence[Scope], joins: Sequence[exp.Join], where: Sequence[exp.Expr], context: Context
) -> tuple[Scope, list[exp.Expr]]:
    """Return sources joined by commas and inner joins, and the conditions of WHERE that are left.

    Each source is joined to those that a condition connects it with, private ones first: a public table that comes
    before would pair all its rows with all of another.
    """
    for place, (item, join) in enumerate(zip(items[1:], joins, strict=True), start=1):
        _kind(join)
        for other in items[:place]:
            check_aliases(other, item)
    by_join = [part for join in joins if is_set(join.args.get("on")) for part in conjuncts(join.args["on"])]
    given = [*by_join, *where]
    implied = [part for node in given for part in _shared(node)]
    named = [(part, _sources_of(part, items)) for part in [*given, *implied]]
    left = next((place for place, item in enumerate(items) if item.private), 0)
    scope, inside, waiting = items[left], {left}, [place for place in range(len(items)) if place != left]
    spent: set[int] = set()

    def usable(place: int) -> list[int]:
        return [
            at
            for at, (_, of) in enumerate(named)
            if at not in spent and of is not None and place in of and len(of) > 1 and of <= inside | {place}
        ]

    def rank(place: int) -> int:
        parts = [named[at][0] for at in usable(place)]
        if not items[place].private:
            return 1 if any(isinstance(part, exp.EQ) for part in parts) else 3
        with context.trial():
            return 0 if scope.private and on(scope, items[place], parts, context).on_unit else 2

    while waiting:
        place = min(waiting, key=rank)
        parts = usable(place)
        cross = exp.Join(this=joins[place - 1].this if place else exp.Identifier(this="…"), kind="CROSS")
        scope = joined(scope, cross, items[place], context, [named[at][0] for at in parts])
        spent |= set(parts)
        inside.add(place)
        waiting.remove(place)
    order = [source for item in items for source in item.sources]
    left_over = [part for at, part in enumerate(given) if at not in spent]
    return replace(scope, sources=order, parts=items[0].parts), left_over


def _sources_of(node: exp.Expr, items: Sequence[Scope]) -> frozenset[int] | None:
    """Return which sources a condition names; None if that cannot be told here, and is for whoever resolves it."""
    found: set[int] = set()
    for part in node.walk():
        if isinstance(part, exp.Query):
            return None
        if not isinstance(part, exp.Column):
            continue
        if not isinstance(part.this, exp.Identifier):
            return None
        name, table = identifier(part.this).casefold(), part.args.get("table")
        alias = None if table is None else identifier(table).casefold()
        owners = _having(name, alias, items)
        if len(owners) != 1:
            return None
        found |= owners
    return frozenset(found)


def _having(name: str, alias: str | None, items: Sequence[Scope]) -> set[int]:
    """Return the sources that have a name; of the unit's names, those that store it, if any."""
    owners = [
        (place, source)
        for place, item in enumerate(items)
        for source in item.sources
        if name in source.names and (alias is None or (source.alias or "").casefold() == alias)
    ]
    storing = {place for place, source in owners if name in source.stored}
    return storing or {place for place, _ in owners}


def _is_unit(rows: Rows, node: object) -> bool:
    return rows.unit(node) is UnitName.HERE


def _owners(node: exp.Expr, left: Scope, right: Scope) -> set[str]:
    """Return which side a name of the unit belongs to."""
    while isinstance(node, exp.Paren):
        node = node.this
    qualifier = node.args.get("table")
    name, alias = identifier(node.this).casefold(), None if qualifier is None else identifier(qualifier).casefold()
    found = {("left", "right")[place] for place in _having(name, alias, [left, right])}
    if len(found) > 1:
        raise QuestionError(f"'{name}' is the unit of both sides.", f"Write a.{name} = b.{name}, or USING ({name}).")
    return found


def _without_unit(source: Source) -> Source:
    """Return the optional side of a join, whose unit is NULL where nothing matched."""
    names: dict[str, tuple[str, Binding]] = {
        key: (name, UnitName.LOST if isinstance(binding, UnitName) else binding)
        for key, (name, binding) in source.names.items()
    }
    return replace(source, names=names)


def test_of(node: exp.Expr) -> tuple[exp.Expr, bool] | None:
    """Return EXISTS or IN (SELECT …), and whether NOT stands before it; None if a condition is neither."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    tested = isinstance(node, exp.Exists) or (isinstance(node, exp.In) and is_set(node.args.get("query")))
    return (node, negated) if tested else None


def units_compared(rows: Rows, nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the conditions of WHERE but those that compare units: a row has only one."""
    for node in nodes:
        if not (isinstance(node, exp.EQ) and _is_unit(rows, node.this) and _is_unit(rows, node.expression)):
            yield node
