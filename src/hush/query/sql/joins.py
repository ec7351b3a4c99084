"""JOIN: private tables on the unit, or on the foreign key that leads to it; public tables on anything.

**Foreign keys.** Where the policy says that rows of ``lineitem`` find their unit by ``l_orderkey``, a key of
``orders``, an equality of the two joins on the unit as well. Each row of ``lineitem`` is read once for every unit that
its key has; a row of ``orders`` with that key and the unit u meets just the copy that belongs to u. So the pairs are
those of SQL, each once, and each of one unit, even where the key is not unique.

**Commas.** ``FROM a, b WHERE a.x = b.x`` pairs rows by conditions that stand in WHERE. These are found by the tables
they name, and the tables are joined one after the other, each to those that a condition connects it with. A condition
that all parts of an OR share holds for the OR itself.

**LEFT JOIN from a public table to a private one.** ``regions r LEFT JOIN visits v ON … GROUP BY r.name`` has, beside
the rows of a JOIN, one for each region without a visit, which would belong to no unit. But aggregates of columns of
visits ignore it: COUNT(v.x), SUM(v.x), AVG(v.x) of NULL alone. And its key is listed anyway, since all keys of a public
table are. So where nothing else is asked, JOIN is the same question (`with_plain_joins`). COUNT(*) is something else:
it counts that row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, columns_in
from hush.query.functions import all_of, call, constant
from hush.query.relations import Join, JoinKind, Named, Project, Relation, UnionAll, columns
from hush.query.schema import Schema, Table
from hush.query.sql.allow_list import NO_WAY, column_name, has, identifier, only, shown
from hush.query.sql.expressions import Rows
from hush.query.sql.names import Binding, Context, Partner, Scope, UnitName


@dataclass(slots=True)
class Condition:
    """The condition on a pair of rows, from ON, USING or WHERE."""

    on_unit: bool = False
    equalities: list[tuple[Expression, Expression]] = field(default_factory=list)
    further: list[Expression] = field(default_factory=list)
    merged: dict[str, tuple[Binding, Binding]] = field(default_factory=dict)
    """Names that USING joins, and their binding on either side."""

    def relation(self, first: Relation, second: Relation, kind: JoinKind) -> Join:
        """Return the join of two relations on this condition."""
        where = all_of(self.further) if self.further else None
        return Join(left=first, right=second, kind=kind, on=tuple(self.equalities), where=where)

    def equate(self, first: Expression, second: Expression, context: Context) -> None:
        """Add an equality of a column of the first side and one of the second."""
        self.equalities.append((first, second))
        if isinstance(first, Column) and isinstance(second, Column):  # one key on the way to the unit
            target = context.links.get(first.name)
            self.on_unit |= target is not None and context.links.get(second.name) == target

    @property
    def mirrored(self) -> Condition:
        """The same condition with the sides exchanged."""
        return replace(self, equalities=[(second, first) for first, second in self.equalities])


def sorted_conditions(
    rows: Rows, nodes: Sequence[exp.Expr], sides: tuple[Relation, Relation], equates: Callable[[exp.EQ], bool]
) -> Condition:
    """Sort conditions on pairs into the unit's equality, equalities between the sides, and further ones.

    ``equates`` says whether an equality of two names of units is one of both sides.
    """
    condition = Condition()
    first_side, second_side = (frozenset(columns(side)) for side in sides)
    for node in nodes:
        if isinstance(node, exp.EQ):
            units = [unit for side in (node.this, node.expression) if (unit := rows.present(side)) is not None]
            if len(units) == 2:
                only(node, "this", "expression")
                condition.on_unit |= equates(node)
                condition.further += [unit for unit in units if not isinstance(unit, Literal)]
                continue
        expression = rows.condition(node)
        if isinstance(expression, Call) and expression.op is Op.EQUAL:
            first, second = expression.arguments
            if columns_in(first) <= second_side and columns_in(second) <= first_side:
                first, second = second, first
            named = columns_in(first) and columns_in(second)
            if named and columns_in(first) <= first_side and columns_in(second) <= second_side:
                condition.equate(first, second, rows.context)
                continue
        condition.further.append(expression)
    return condition


def joined(first: Scope, join: exp.Join, second: Scope, context: Context, offered: Sequence[exp.Expr] = ()) -> Scope:
    """Return two sources joined; ``offered`` are conditions of WHERE over both sources, for a join without its own."""
    side, half = kind_of(join)
    aliases = {source.alias.casefold() for source in first.sources if source.alias}
    for source in second.sources:
        if source.alias and source.alias.casefold() in aliases:
            raise QuestionError(f"Two sources in FROM are called '{source.alias}'.", "Give one another name with AS.")
    context.grow()
    condition = on(first, second, offered, context) if offered else condition_of(first, second, join, context)
    if first.private and second.private:
        context.join_private()
        if not condition.on_unit:
            # without equal units, a row of one unit could repeat rows of others: no bound on its influence
            raise _not_on_unit(first, second, join, condition, context)
    kept, other = (second, first) if side == "RIGHT" else (first, second)
    if not kept.private and other.private and half is not None:
        raise QuestionError(
            "Rows of a public table would be kept by what a private table holds, and belong to no unit.",
            "Put the private table on the left.",
        )
    if not kept.private and other.private and side:
        raise QuestionError(
            f"A {side} JOIN from a public to a private table would have rows that belong to no unit.",
            "Write JOIN for the rows that have a partner. Rows without one can be had as keys alone, with a count of "
            "0: GROUP BY columns of the public table, and count one of the private table, COUNT(x), not COUNT(*).",
        )
    if side in {"RIGHT", "FULL"}:
        first = _optional(first, context)
    if side in {"LEFT", "FULL"}:
        second = _optional(second, context)
    if half is not None:
        return replace(first, relation=condition.relation(first.relation, second.relation, half))
    if side == "FULL":
        relation: Relation = _full(first, second, condition, context)
    elif side == "RIGHT":
        relation = condition.mirrored.relation(second.relation, first.relation, JoinKind.LEFT)
    else:
        outer = JoinKind.LEFT if side == "LEFT" else JoinKind.INNER
        relation = condition.relation(first.relation, second.relation, outer)
    return beside(first, second, relation, condition, side)


def condition_of(first: Scope, second: Scope, join: exp.Join, context: Context) -> Condition:
    """Return the condition that a join states itself, by ON, USING or NATURAL."""
    if has(join, "using"):
        names = [identifier(node.this if isinstance(node, exp.Column) else node) for node in join.args["using"]]
        return _using(first, second, names, context)
    if _word(join, "method") == "NATURAL":
        return _using(first, second, _common_names(first, second, join), context)
    return on(first, second, conjuncts(join.args["on"]), context) if has(join, "on") else Condition()


def beside(first: Scope, second: Scope, relation: Relation, condition: Condition, side: str) -> Scope:
    """Return the scope of two sources joined."""
    sources = [replace(source, merged=source.merged | condition.merged.keys()) for source in second.sources]
    merged = {name: pair[1] if side == "RIGHT" else pair[0] for name, pair in condition.merged.items()}
    return Scope(relation, [*first.sources, *sources], first.merged | second.merged | merged, first.parts)


def _full(first: Scope, second: Scope, condition: Condition, context: Context) -> Relation:
    """Return a FULL JOIN of private tables: a LEFT JOIN, and the right side's rows that have no partner.

    A name that USING joined becomes a column of its own, with the value of the side that has one.
    """
    if not (first.private and second.private):
        raise QuestionError(
            "A FULL JOIN with a public table would have rows that belong to no unit.",
            "Write a LEFT JOIN with the private table on the left; rows of the public one without a partner are "
            "left out.",
        )
    context.join_private()
    context.grow(4)
    mine, theirs = columns(first.relation), columns(second.relation)
    types = {name: type_.or_null(named=True) for name, type_ in (mine | theirs).items()}
    both: list[Named] = [(name, Column(name, type_)) for name, type_ in mine.items()]
    both += [(name, Column(name, types[name])) for name in theirs]
    alone: list[Named] = [(name, Literal(None, replace(types[name], values=None))) for name in mine]
    alone += [(name, Column(name, type_)) for name, type_ in theirs.items()]
    for name, (one, two) in condition.merged.items():
        if isinstance(one, UnitName) or isinstance(two, UnitName):
            condition.merged[name] = (UnitName.HERE, UnitName.HERE)
            continue
        unique = context.fresh(name)
        types[unique] = call(Op.COALESCE, Column(one, types[one]), Column(two, types[two])).type
        both.append((unique, Column(one, mine[one])))
        alone.append((unique, Column(two, theirs[two])))
        condition.merged[name] = (unique, unique)
    pairs = Project(source=condition.relation(first.relation, second.relation, JoinKind.LEFT), columns=tuple(both))
    unmatched = condition.mirrored.relation(second.relation, first.relation, JoinKind.ANTI)
    sources = (pairs, Project(source=unmatched, columns=tuple(alone)))
    return UnionAll(sources=sources, columns=tuple((name, types[name]) for name, _ in both))


def _word(join: exp.Join, name: str) -> str:
    return str(join.args.get(name) or "").upper()


def is_cross(join: exp.Join) -> bool:
    """Return whether a join has no condition of its own: a comma, or CROSS JOIN."""
    return _word(join, "kind") == "CROSS" and not has(join, "side", "method")


def is_inner(join: exp.Join) -> bool:
    """Return whether a join is an inner or cross join without USING."""
    return _word(join, "kind") in {"", "INNER", "CROSS"} and not has(join, "side", "method", "using")


_HALVES = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI}
_ASOF = (
    "Within a unit keep the last of the rows before: JOIN … ON a.unit = b.unit AND b.time <= a.time, and "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY a.unit, a.key ORDER BY b.time DESC) = 1."
)


def kind_of(join: exp.Join) -> tuple[str, JoinKind | None]:
    """Return the outer side of a join (or none), and SEMI or ANTI if only left rows remain."""
    method, side, kind = (_word(join, name) for name in ("method", "side", "kind"))
    called = " ".join(word for word in (method, side, kind, "JOIN") if word)
    plain = method in {"", "NATURAL"} and side in {"", "LEFT", "RIGHT", "FULL"}
    halved = kind in _HALVES and side in {"", "LEFT"}
    if not plain or not (halved or kind in {"", "INNER", "OUTER"} or called == "CROSS JOIN"):
        ways = {"ASOF": _ASOF, "": "Write JOIN or LEFT JOIN."}
        raise QuestionError(f"{called} is not supported.", ways.get(method, NO_WAY))
    only(join, "this", "on", "using", "side", "kind", "method")
    conditions = sum(has(join, name) for name in ("on", "using")) + (method == "NATURAL")
    if conditions > 1 or (conditions and kind == "CROSS"):
        raise QuestionError(f"A {called} has no further condition.", "Write JOIN … ON or JOIN … USING (…).")
    if kind != "CROSS" and not conditions:
        raise QuestionError(
            f"A JOIN needs ON or USING; got {called} {shown(join.this)}.",
            "Say what belongs together: JOIN … USING (key). CROSS JOIN pairs every row with every row.",
        )
    return ("" if kind in _HALVES else side), _HALVES.get(kind)


def _not_on_unit(first: Scope, second: Scope, join: exp.Join, condition: Condition, context: Context) -> QuestionError:
    """Return the refusal of a join of private tables without an equality of units, with a suggested equality.

    A pair of rows of two units would belong to both, so there would be no bound on what one unit changes.
    """
    unit = next((name for _, name, binding in first.bindings() if binding is UnitName.HERE), context.schema.unit)
    if unit is None:
        return QuestionError(
            "Private tables in which every row is a unit cannot be joined: a pair of rows would belong to two units.",
            "Ask about them one by one, or join a public table.",
        )
    links = context.links
    mine, theirs = (  # of each side its foreign keys, by the key that they stand for
        {links[b]: f"{source.alias or ''}.{name}".lstrip(".") for source, name, b in scope.bindings() if b in links}
        for scope in (first, second)
    )
    shared = next((target for target in mine if target in theirs), None)
    also = "" if shared is None else f" So does the foreign key: ON {mine[shared]} = {theirs[shared]}."
    # the unit alone would pair all rows of a unit with each other
    way = f"keep the condition and add the unit, USING ({unit}, …) or ON … AND a.{unit} = b.{unit}"
    return QuestionError(
        f"Private tables are joined on the unit, {'too, ' if condition.equalities else ''}so that no row belongs to "
        f"two; got {shown(join)}.",
        "Pairs of rows of different units cannot be asked about. For those of one unit, which are all there are where "
        f"a key belongs to one unit, {way}; a subquery must select {unit} for that.{also}",
    )


def _common_names(first: Scope, second: Scope, join: exp.Join) -> list[str]:
    """Return the names that both sides of a NATURAL JOIN have; without any it would pair all rows, and is refused.

    The unit counts where a table stores it, not where it is only reached by a foreign key.
    """
    mine, theirs = (
        {
            name.casefold(): name
            for source, name, binding in scope.bindings()
            if name.casefold() not in source.hidden
            and (not isinstance(binding, UnitName) or name.casefold() in source.stored)
        }
        for scope in (first, second)
    )
    shared = [name for key, name in mine.items() if key in theirs]
    if not shared:
        raise QuestionError(f"The sides of NATURAL JOIN {shown(join.this)} have no column in common.", "Write ON.")
    return shared


def _using(first: Scope, second: Scope, names: Sequence[str], context: Context) -> Condition:
    condition = Condition()
    mine, theirs = columns(first.relation), columns(second.relation)
    for name in names:
        one, two = first.require(name), second.require(name)
        if one is UnitName.HERE and two is UnitName.HERE:
            condition.on_unit = True
        elif isinstance(one, UnitName) or isinstance(two, UnitName):
            raise QuestionError(f"'{name}' is the unit on one side only.", "Join private tables on the unit of both.")
        else:
            left, right = call(Op.EQUAL, Column(one, mine[one]), Column(two, theirs[two])).arguments
            condition.equate(left, right, context)
        condition.merged[name.casefold()] = (one, two)
    return condition


def on(first: Scope, second: Scope, nodes: Sequence[exp.Expr], context: Context) -> Condition:
    """Return the condition that ON, or WHERE, states on pairs of rows of two sources."""
    both = Scope(first.relation, [*first.sources, *second.sources], first.merged | second.merged, settled=True)
    rows = Rows(context, both, columns(first.relation) | columns(second.relation))

    def equates(node: exp.EQ) -> bool:
        sides_of = [owners(column_name(side), [first, second]) for side in (node.this, node.expression)]
        for side, sides in zip((node.this, node.expression), sides_of, strict=True):
            if len(sides) > 1:
                name = (column_name(side) or ("",))[0].casefold()
                raise QuestionError(
                    f"'{name}' is the unit of both sides.", f"Write a.{name} = b.{name}, or USING ({name})."
                )
        if set.union(*sides_of) != {0, 1}:
            raise QuestionError(f"{shown(node)} compares a unit with itself.", "Name both tables: a.unit = b.unit.")
        return True

    return sorted_conditions(rows, nodes, (first.relation, second.relation), equates)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of AND; conditions common to all operands of an OR are factored out."""
    conditions: list[exp.Expr] = []
    for member in _operands(node, exp.And):
        if not isinstance(member, exp.Or):
            conditions.append(member)
            continue
        # (a AND b) OR (a AND c) is a AND (b OR c), so a may serve as a join condition
        ways = [conjuncts(way) for way in _operands(member, exp.Or)]
        shared = [condition for condition in ways[0] if all(condition in way for way in ways[1:])]
        further = [[condition for condition in way if condition not in shared] for way in ways]
        reduced = exp.or_(*(exp.and_(*way) for way in further)) if shared and all(further) else member
        conditions += [*shared, reduced]
    return conditions


def _operands(node: exp.Expr, operator: type[exp.Expr]) -> list[exp.Expr]:
    operands, stack = [], [node]
    while stack:
        operand = stack.pop()
        if isinstance(operand, exp.Paren):
            only(operand, "this")
            stack.append(operand.this)
        elif isinstance(operand, operator):
            only(operand, "this", "expression")
            stack += [operand.expression, operand.this]
        else:
            operands.append(operand)
    return operands


def chained(
    items: Sequence[Scope], joins: Sequence[exp.Join], where: Sequence[exp.Expr], context: Context
) -> tuple[Scope, list[exp.Expr]]:
    """Return sources joined by commas and inner joins, and the conditions of WHERE that were not used.

    Each source is joined to those that a condition connects it with, private ones first: a public table that comes
    before would pair all its rows with all of another.
    """
    for join in joins:
        kind_of(join)
    by_join = [node for join in joins if has(join, "on") for node in conjuncts(join.args["on"])]
    conditions = [(node, _sources_of(node, items)) for node in (*by_join, *where)]
    first = next((index for index, item in enumerate(items) if item.private), 0)
    scope, inside, waiting = items[first], {first}, [index for index in range(len(items)) if index != first]
    used: set[int] = set()

    def usable(index: int) -> list[exp.Expr]:
        """Return the conditions that connect a source with those that are joined already."""
        return [node for node, sources in conditions if sources is not None and {index} < sources <= inside | {index}]

    def rank(index: int) -> int:
        nodes = usable(index)
        if not items[index].private:
            return 1 if any(isinstance(node, exp.EQ) for node in nodes) else 3
        return 0 if scope.private and on(scope, items[index], nodes, context.trial()).on_unit else 2

    while waiting:
        index = min(waiting, key=rank)
        nodes = usable(index)
        cross = exp.Join(this=joins[index - 1].this if index else exp.Identifier(this="…"), kind="CROSS")
        scope = joined(scope, cross, items[index], context, nodes)
        used |= set(map(id, nodes))
        inside.add(index)
        waiting.remove(index)
    sources = [source for item in items for source in item.sources]
    unused = [node for node, _ in conditions if id(node) not in used]
    return replace(scope, sources=sources, parts=items[0].parts), unused


def _sources_of(node: exp.Expr, items: Sequence[Scope]) -> frozenset[int] | None:
    """Return the sources that a condition names; None if that is not known before resolution."""
    sources: set[int] = set()
    for child in node.walk():
        if isinstance(child, exp.Query):
            return None
        if isinstance(child, exp.Column):
            holders = owners(column_name(child), items)
            if len(holders) != 1:
                return None
            sources |= holders
    return frozenset(sources)


def owners(column: tuple[str, str | None] | None, items: Sequence[Scope]) -> set[int]:
    """Return the sources that have a name; of the unit's names, those that store it, if any."""
    if column is None:
        return set()
    name, alias = column[0].casefold(), None if column[1] is None else column[1].casefold()
    holders = [
        (index, source)
        for index, item in enumerate(items)
        for source in item.sources
        if name in source.names and (alias is None or (source.alias or "").casefold() == alias)
    ]
    return {index for index, source in holders if name in source.stored} or {index for index, _ in holders}


def _optional(scope: Scope, context: Context) -> Scope:
    """Return the optional side of a join with a column in place of the unit: true, or NULL without a partner."""
    if not any(binding is UnitName.HERE for _, _, binding in scope.bindings()):
        return scope
    mark = Partner(context.fresh("partner"))
    own: list[Named] = [(name, Column(name, type_)) for name, type_ in columns(scope.relation).items()]

    def marked(binding: Binding) -> Binding:
        return mark if isinstance(binding, UnitName) else binding

    sources = [
        replace(source, names={key: (name, marked(binding)) for key, (name, binding) in source.names.items()})
        for source in scope.sources
    ]
    merged = {name: marked(binding) for name, binding in scope.merged.items()}
    relation = Project(source=scope.relation, columns=(*own, (mark, constant(True))))
    return replace(scope, relation=relation, sources=sources, merged=merged)


# LEFT JOIN from a public table

_STRICT = (
    exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Distinct
)  # fmt: skip
"""Nodes that are NULL, or not counted, if one column is NULL."""


def with_plain_joins(tree: exp.Expr, schema: Schema) -> None:
    """Replace the LEFT JOINs of a tree by JOINs where the result is the same."""
    parts = {part.alias_or_name.casefold() for part in tree.find_all(exp.CTE)}
    tables = {name.casefold(): table for name, table in schema.tables.items() if name.casefold() not in parts}
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        if len(joins) == 1 and has(select, "from_") and _ignores_unmatched(select, joins[0], tables):
            joins[0].set("side", None)


def _ignores_unmatched(select: exp.Select, join: exp.Join, tables: dict[str, Table]) -> bool:
    """Return whether a SELECT from a public table, LEFT JOIN a private one, ignores public rows without a partner."""
    sources = (select.args["from_"].this, join.this)
    public, private = (tables.get(node.name.casefold()) if isinstance(node, exp.Table) else None for node in sources)
    if public is None or private is None or not public.public or private.public:
        return False
    if _word(join, "side") != "LEFT" or has(join, "method"):
        return False
    alias = join.alias_or_name.casefold()
    stored = {name.casefold() for name in (*private.columns, *([] if private.unit is None else [private.unit.column]))}

    def reads_private(node: exp.Expr) -> bool:
        return any(
            column.table.casefold() == alias if column.table else column.name.casefold() in stored
            for column in node.find_all(exp.Column)
        )

    group, where = select.args.get("group"), select.args.get("where")
    if group is None or not group.expressions or any(map(reads_private, group.expressions)):
        return False
    if where is not None and reads_private(where) and where.find(exp.Is, exp.Coalesce, exp.Case, exp.Or, exp.Not):
        return False
    aggregates = list(select.find_all(exp.AggFunc))
    if not aggregates or select.find(exp.Filter, exp.Window):
        return False
    # COUNT(*), which reads no column, would count a public row without a partner as one row
    return all(
        reads_private(node) and all(isinstance(child, _STRICT) for child in node.this.walk()) for node in aggregates
    )
