"""JOIN: private tables on the unit, public tables on anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Op
from hush.query.functions import all_of, call
from hush.query.pruning import columns_in
from hush.query.relations import Join, JoinKind, columns
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import identifier, is_set, only, shown
from hush.query.sql.scope import Binding, Context, Scope, Source, UnitName


@dataclass(slots=True)
class _Condition:
    """What ON or USING says."""

    on_unit: bool
    equalities: list[tuple[Expression, Expression]]
    rest: list[Expression]
    merged: frozenset[str] = frozenset()


def joined(left: Scope, join: exp.Join, right: Scope, context: Context) -> Scope:
    """Return two sources joined."""
    kind = _kind(join)
    aliases = {source.alias.casefold() for source in left.sources if source.alias}
    for source in right.sources:
        if source.alias and source.alias.casefold() in aliases:
            raise QuestionError(f"Two sources in FROM are called '{source.alias}'.", "Give one another name with AS.")
    context.grow()
    if is_set(join.args.get("using")):
        condition = _using(left, right, join)
    elif is_set(join.args.get("on")):
        condition = _on(left, right, join.args["on"], context)
    else:
        condition = _Condition(on_unit=False, equalities=[], rest=[])
    if left.private and right.private:
        context.join_private()
        if not condition.on_unit:
            raise _not_on_unit(left, right, join, condition, context)
    elif kind is JoinKind.LEFT and right.private:
        raise QuestionError(
            "A LEFT JOIN from a public to a private table would have rows that belong to no unit.",
            "Put the private table on the left.",
        )
    relation = Join(
        left=left.relation,
        right=right.relation,
        kind=kind,
        on=tuple(condition.equalities),
        where=all_of(condition.rest) if condition.rest else None,
    )
    sources = [replace(source, merged=condition.merged) for source in right.sources]
    if kind is JoinKind.LEFT:
        sources = [_without_unit(source) for source in sources]
    return Scope(relation, [*left.sources, *sources], left.merged | right.merged | condition.merged)


def _kind(join: exp.Join) -> JoinKind:
    method, side, kind = (str(join.args.get(name) or "").upper() for name in ("method", "side", "kind"))
    if method:
        raise QuestionError(f"{method} JOIN is not supported.", "Write JOIN … ON or JOIN … USING (…).")
    if side in {"RIGHT", "FULL"}:
        raise QuestionError(f"{side} JOIN is not supported.", "Write a LEFT JOIN with the private table on the left.")
    if side not in {"", "LEFT"} or kind not in {"", "INNER", "OUTER", "CROSS"} or (kind == "CROSS" and side):
        raise QuestionError(f"{side} {kind} JOIN is not supported.".lstrip(), "Write JOIN or LEFT JOIN.")
    only(join, "this", "on", "using", "side", "kind")
    conditions = sum(is_set(join.args.get(name)) for name in ("on", "using"))
    if side == "LEFT" and conditions != 1:
        raise QuestionError(f"A LEFT JOIN needs ON or USING; got LEFT JOIN {shown(join.this)}.")
    if kind == "CROSS" and conditions:
        raise QuestionError("A CROSS JOIN has no condition.", "Write JOIN … ON.")
    if kind != "CROSS" and not conditions:
        raise QuestionError(
            f"A JOIN needs ON or USING; got JOIN {shown(join.this)}.",
            "Say what belongs together: JOIN … USING (key). CROSS JOIN pairs every row with every row.",
        )
    return JoinKind.LEFT if side == "LEFT" else JoinKind.INNER


def _units(scope: Scope) -> list[tuple[str, str]]:
    """Return the aliases and the names under which a side has its unit."""
    return [
        (source.alias or "", name)
        for source in scope.sources
        for name, binding in source.names.values()
        if binding is UnitName.HERE
    ]


def _not_on_unit(left: Scope, right: Scope, join: exp.Join, condition: _Condition, context: Context) -> QuestionError:
    units = _units(left)
    unit = units[0][1] if units else context.schema.unit
    if unit is None:
        return QuestionError(
            "Private tables in which every row is a unit cannot be joined: a pair of rows would belong to two units.",
            "Ask about them one by one, or join a public table.",
        )
    here, there = units[0] if units else ("a", unit), (_units(right) or [("b", unit)])[0]
    if condition.equalities:  # the unit alone would pair all rows of a unit with each other
        if is_set(join.args.get("using")):
            way = f"USING ({', '.join([unit, *(shown(name) for name in join.args['using'])])})"
        else:
            way = f"ON {shown(join.args['on'])} AND {here[0] or 'a'}.{here[1]} = {there[0] or 'b'}.{there[1]}"
        return QuestionError(
            f"Private tables are joined on the unit, too, so that no row belongs to two; got {shown(join)}.",
            f"Keep the condition and add the unit: {way}. On the unit alone all rows of a unit would meet.",
        )
    return QuestionError(
        f"Private tables can be joined on the unit only; got {shown(join)}.",
        f"Write JOIN … USING ({unit}) or ON a.{unit} = b.{unit}, with further conditions after AND; "
        f"a subquery must select {unit} for that.",
    )


def _using(left: Scope, right: Scope, join: exp.Join) -> _Condition:
    found = _Condition(on_unit=False, equalities=[], rest=[])
    left_types, right_types = columns(left.relation), columns(right.relation)
    merged = set()
    for node in join.args["using"]:
        name = identifier(node.this if isinstance(node, exp.Column) else node)
        one, other = left.require(name), right.require(name)
        if one is UnitName.HERE and other is UnitName.HERE:
            found.on_unit = True
        elif isinstance(one, UnitName) or isinstance(other, UnitName):
            raise QuestionError(f"'{name}' is the unit on one side only.", "Join private tables on the unit of both.")
        else:
            from hush.query.expressions import Column

            pair = call(Op.EQUAL, Column(one, left_types[one]), Column(other, right_types[other]))
            found.equalities.append((pair.arguments[0], pair.arguments[1]))
        merged.add(name.casefold())
    found.merged = frozenset(merged)
    return found


def _on(left: Scope, right: Scope, node: exp.Expr, context: Context) -> _Condition:
    """Sort the conjuncts of ON into the unit's equality, equalities between the sides, and the rest."""
    both = Scope(left.relation, [*left.sources, *right.sources], left.merged | right.merged)
    types = columns(left.relation) | columns(right.relation)
    rows = Rows(context, both, types)
    found = _Condition(on_unit=False, equalities=[], rest=[])
    sides = frozenset(columns(left.relation)), frozenset(columns(right.relation))
    for part in _conjuncts(node):
        if isinstance(part, exp.EQ) and _is_unit(rows, part.this) and _is_unit(rows, part.expression):
            only(part, "this", "expression")
            owners = {_owner(side, left, right) for side in (part.this, part.expression)}
            if owners != {"left", "right"}:
                raise QuestionError(f"{shown(part)} compares a unit with itself.", "Name both tables: a.unit = b.unit.")
            found.on_unit = True
            continue
        condition = rows.condition(part)
        if isinstance(condition, Call) and condition.op is Op.EQUAL:
            one, other = condition.arguments
            if columns_in(one) and columns_in(other):
                if columns_in(one) <= sides[0] and columns_in(other) <= sides[1]:
                    found.equalities.append((one, other))
                    continue
                if columns_in(one) <= sides[1] and columns_in(other) <= sides[0]:
                    found.equalities.append((other, one))
                    continue
        found.rest.append(condition)
    return found


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    found, stack = [], [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.Paren):
            only(part, "this")
            stack.append(part.this)
        elif isinstance(part, exp.And):
            only(part, "this", "expression")
            stack += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _is_unit(rows: Rows, node: object) -> bool:
    return rows.unit(node) is UnitName.HERE


def _owner(node: exp.Expr, left: Scope, right: Scope) -> str:
    """Return which side a name of the unit belongs to."""
    while isinstance(node, exp.Paren):
        node = node.this
    qualifier = node.args.get("table")
    name, alias = identifier(node.this).casefold(), None if qualifier is None else identifier(qualifier).casefold()

    def has(scope: Scope) -> bool:
        return any(
            name in source.names and (alias is None or (source.alias or "").casefold() == alias)
            for source in scope.sources
        )

    if has(left) and has(right):
        raise QuestionError(f"'{name}' is the unit of both sides.", f"Write a.{name} = b.{name}, or USING ({name}).")
    return "left" if has(left) else "right"


def _without_unit(source: Source) -> Source:
    """Return the optional side of a LEFT JOIN, whose unit is NULL where nothing matched."""
    names: dict[str, tuple[str, Binding]] = {
        key: (name, UnitName.LOST if isinstance(binding, UnitName) else binding)
        for key, (name, binding) in source.names.items()
    }
    return replace(source, names=names)
