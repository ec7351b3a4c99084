"""FROM: tables, parts named by WITH, derived tables, VALUES, UNION. Each keeps the invariant that a row has one unit.

VALUES, GENERATE_SERIES, RANGE and UNNEST of a list are small public tables that the question itself contains: their
rows belong to no unit, and joining them is joining a public table.

``FROM (SELECT city, sex FROM visits) PIVOT (COUNT(*) FOR sex IN ('f', 'm'))`` is read as aggregates with FILTER. There
is a column for each listed value, and a group for each combination of the columns that PIVOT does not name.

>>> from sqlglot import parse_one
>>> tree = parse_one("SELECT * FROM (SELECT city, sex FROM visits) PIVOT (COUNT(*) FOR sex IN ('f'))", read="duckdb")
>>> without_pivots(tree)
>>> tree.args["from_"].this.this.sql("duckdb")
"SELECT city, COUNT(*) FILTER(WHERE sex = 'f') AS f FROM (SELECT city, sex FROM visits) AS _pivoted GROUP BY city"
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from types import MappingProxyType

from sqlglot import exp

from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.expressions import Column, Expression, Literal, Op
from hush.query.functions import all_of, call, constant
from hush.query.functions.logic import either
from hush.query.functions.record import is_null
from hush.query.relations import (
    Constants,
    ExactAggregate,
    ExactKind,
    Filter,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    columns,
    exact_type,
    private,
)
from hush.query.sql.allow_list import NO_WAY, has, identifier, is_star, only, place, refuse, shown
from hush.query.sql.expressions import Rows, has_aggregate, interval_parts
from hush.query.sql.group_by import Projection, per_unit, projections
from hush.query.sql.joins import chained, conjuncts, is_cross, is_inner, joined
from hush.query.sql.names import (
    Binding,
    Context,
    Derived,
    FromSource,
    Part,
    Partner,
    Parts,
    Scope,
    UnitName,
    check_kinds,
    check_qualifiers,
    named_source,
    projected,
    qualifiers_of,
)
from hush.query.sql.windows import RowsWithWindows
from hush.query.types import Kind, Type, Value

MAX_ROWS = 4000
_CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_")


# WITH and aliases


def with_parts(query: exp.Expr, context: Context, outer: Parts) -> Parts:
    """Return the parts a query may use; each is resolved where it is used."""
    clause = query.args.get("with_")
    if clause is None:
        return outer
    if has(clause, "recursive"):
        raise QuestionError("WITH RECURSIVE is not supported.", "Use plain WITH.")
    only(clause, "expressions")
    own: dict[str, Part] = {}
    for node in clause.expressions:
        only(node, "this", "alias", "materialized")
        name, renamed = alias_of(node)
        key = str(name).casefold()
        if key in own:
            raise QuestionError(f"WITH names '{name}' twice.")
        own[key] = Part(node.this, MappingProxyType({**outer, **own}), renamed)
        context.parts.append(own[key])
    return MappingProxyType({**outer, **own})


def alias_of(node: exp.Expr) -> tuple[str | None, list[str]]:
    """Return the name and the columns' names in ``… AS t(a, b)``."""
    alias = node.args.get("alias")
    if alias is None:
        return None, []
    only(alias, "this", "columns")
    name = None if alias.args.get("this") is None else identifier(alias.this)
    return name, [identifier(column) for column in alias.args.get("columns") or ()]


def part_of(node: exp.Table, parts: Parts) -> Part | None:
    """Return the part of WITH that an item of FROM names."""
    if not isinstance(node.this, exp.Identifier) or has(node, "db"):
        return None
    return parts.get(identifier(node.this).casefold())


# FROM and WHERE


def from_clause(select: exp.Select, context: Context, parts: Parts) -> Scope:
    """Return the scope of a SELECT: its sources, joined and filtered."""
    scope, conditions = from_items(select, context, parts)
    return filtered(scope, conditions, context) if conditions else scope


def from_items(select: exp.Select, context: Context, parts: Parts) -> tuple[Scope, list[exp.Expr]]:
    """Return the sources of a SELECT, joined, and the conditions that are left to filter them by."""
    clause = select.args.get("from_")
    if clause is None:
        raise QuestionError("The question has no FROM.", "Name a table: SELECT COUNT(*) FROM …")
    only(clause, "this")
    where, joins = select.args.get("where"), select.args.get("joins") or ()
    if where is not None:
        only(where, "this")
    conditions = [] if where is None else conjuncts(where.this)
    scope = replace(from_item(clause.this, context, parts), parts=parts)
    # a comma's condition stands in WHERE, and may connect any two of the tables
    if any(map(is_cross, joins)) and all(map(is_inner, joins)):
        items = [scope, *(from_item(join.this, context, parts) for join in joins)]
        return chained(items, joins, conditions, context)
    for join in joins:
        scope = replace(joined(scope, join, from_item(join.this, context, parts), context), parts=parts)
    return scope, conditions


def filtered(scope: Scope, conditions: Sequence[exp.Expr], context: Context) -> Scope:
    """Return the rows of a scope for which all conditions are true."""
    rows = Rows(context, scope)
    tests: list[tuple[exp.Expr, bool]] = []
    expressions: list[Expression] = []
    for condition in conditions:
        node, negated = condition, False
        while isinstance(node, exp.Paren | exp.Not):
            node, negated = node.this, negated ^ isinstance(node, exp.Not)
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and has(node, "query")):
            tests.append((node, negated))
        elif (expression := rows.condition(condition)) != constant(True):  # such as that a row has its unit
            expressions.append(expression)
    if expressions:
        context.grow()
        scope = replace(scope, relation=Filter(source=scope.relation, condition=all_of(expressions)))
    for node, negated in tests:
        scope = context.subqueries().partners(scope, node, negated=negated, context=context)
    return scope


def from_item(node: exp.Expr, context: Context, parts: Parts) -> Scope:
    """Return one item of FROM."""
    if isinstance(node, exp.Values | exp.Unnest) or isinstance(node.this, exp.GenerateSeries):
        alias, renamed = alias_of(node)
        constants = _constants(node, alias, context)
        return Scope(constants.relation, [named_source(constants.names, alias, renamed)])
    # a stored table has no answers; a part of WITH or a subquery may be a question of its own
    if not isinstance(node, exp.Table) or part_of(node, parts) is not None:
        numbers = context.subqueries().numbers(node, context, parts)
        if numbers is not None:
            return numbers
    if isinstance(node, exp.Table):
        return _table(node, context, parts)
    if not isinstance(node, exp.Subquery):
        raise refuse(node)
    only(node, "this", "alias")
    if isinstance(node.this, exp.Table):  # (a JOIN b ON …): its tables keep their names
        table = node.this.copy()
        joins = table.args.get("joins") or []
        if not has(node, "alias"):
            table.set("joins", None)
            return from_clause(exp.Select(from_=exp.From(this=table), joins=joins), context, parts)
        if joins:
            raise QuestionError(
                f"Joins in parentheses keep the names of their tables; got the name {alias_of(node)[0]}.",
                "Leave the name out, or write (SELECT * FROM …) AS name.",
            )
        table.set("alias", node.args["alias"].copy())
        return _table(table, context, parts)
    rows = derived(node.this, context, parts)
    return Scope(rows.relation, [named_source(rows.names, *alias_of(node))])


def _table(node: exp.Table, context: Context, parts: Parts) -> Scope:
    if not isinstance(node.this, exp.Identifier):
        raise refuse(node.this)
    only(node, "this", "alias", "db", "catalog")
    name = identifier(node.this)
    alias, renamed = alias_of(node)
    alias = alias or name
    if (part := part_of(node, parts)) is not None:
        part.used = True
        rows = derived(part.query, context, part.parts)
        names = list(named_source(rows.names, name, part.columns).names.values())
        return Scope(rows.relation, [named_source(names, alias, renamed)])
    if renamed:
        raise QuestionError(
            f"The columns of a stored table cannot be renamed: {shown(node)}.",
            f"Rename them in a subquery: (SELECT x AS a, … FROM {name}) AS {alias}.",  # noqa: S608 - a hint
        )
    tables = {stored.casefold(): table for stored, table in context.schema.tables.items()}
    if has(node, "db"):
        # the name of a stored table may itself have dots
        qualifiers = qualifiers_of(node)
        dotted = [".".join([*qualifiers[start:], name]) for start in range(len(qualifiers))]
        start = next((index for index, full in enumerate(dotted) if full.casefold() in tables), len(qualifiers))
        name = ".".join([*qualifiers[start:], name])
        check_qualifiers(context.schema, name, qualifiers[:start], shown(node))
    if name.casefold() not in tables:
        hint = f"There are {', '.join(sorted(context.schema.tables)[:20])}." if tables else ""
        hint = did_you_mean(name, [*context.schema.tables, *parts], otherwise=hint)
        error = UnknownTableError(f"There is no table '{name}'.", hint)
        error.place, error.table = place(node.this), name
        raise error
    table = tables[name.casefold()]
    units: dict[str, tuple[str, Binding]] = {}
    if not table.public and table.unit is not None:
        for unit in (table.unit.column, context.schema.unit or table.unit.column):
            units.setdefault(unit.casefold(), (unit, UnitName.HERE))
    context.grow()
    targets, read = context.schema.targets(table), []
    bindings: dict[str, tuple[str, Binding]] = {}
    for column, type_ in {**table.columns, **table.keys}.items():
        if (key := column.casefold()) not in units:
            unique = context.fresh(column)
            read.append((unique, column, type_))
            bindings[key] = (column, unique)
            if key in targets:
                context.links[unique] = targets[key]
    source = FromSource(
        alias,
        bindings | units,
        {column.casefold(): stored_type for column, stored_type in table.unsupported.items()},
        stored=frozenset({table.unit.column.casefold()} if table.unit and not table.unit.hops else ()),
        hidden=frozenset(map(str.casefold, table.keys)) - units.keys(),
    )
    return Scope(Scan(table=table.name, public=table.public, columns=tuple(read)), [source])


# A query as a source


def derived(query: exp.Expr, context: Context, parts: Parts, names: Sequence[str] | None = None) -> Derived:
    """Return a query as a relation; ``names`` are the unique names its columns must have (in a union)."""
    if isinstance(query, exp.Subquery):
        only(query, "this", "with_")
        return derived(query.this, context, with_parts(query, context, parts), names)
    if (constant_rows := _constant_rows(query, context, names)) is not None:
        return constant_rows
    if isinstance(query, exp.SetOperation):
        return _set_operation(query, context, with_parts(query, context, parts), names)
    if not isinstance(query, exp.Select):
        raise refuse(query)
    query = context.once("first of each", query, partial(_first_of_each, query))
    check_select(query, "distinct", "qualify", "windows")
    if has(query, "limit", "offset"):  # ORDER BY alone changes nothing
        unit = context.schema.unit
        raise QuestionError(
            "LIMIT in a subquery would pick rows by other units' rows.",
            "For the rows with the greatest x ask for their border first, QUANTILE(x, 0.9), and write it: WHERE "
            "x >= 42."
            + (f" So many rows of each unit: QUALIFY ROW_NUMBER() OVER (PARTITION BY {unit} …) <= 3." if unit else ""),
        )
    scope = from_clause(query, context, with_parts(query, context, parts))
    nodes = chain(*(item.walk(prune=lambda child: isinstance(child, exp.Query)) for item in query.expressions))
    windowed = has(query, "qualify", "windows") or any(isinstance(node, exp.Window) for node in nodes)
    clause = next((name for name in ("group", "having", "distinct") if has(query, name)), None)
    if windowed and clause is not None:
        raise QuestionError(
            f"Windows and {clause.upper()} stand in one SELECT: {shown(query)}.", "Use two SELECTs, one in FROM."
        )
    aggregated = has(query, "group") or any(map(has_aggregate, query.expressions))
    if aggregated and has(query, "distinct"):
        raise QuestionError(f"DISTINCT after GROUP BY is not supported: {shown(query)}.", "Leave DISTINCT out.")
    if not windowed and (aggregated or clause is not None):
        return per_unit(query, scope, context, names)
    items = expanded(query, scope)
    rows = RowsWithWindows(context, scope, query) if windowed else Rows(context, scope)
    results = [(item.name, rows.result(item.node)) for item in items]
    relation = scope.relation
    if isinstance(rows, RowsWithWindows):
        rows.aliases = {item.name.casefold(): item.node for item in items}
        condition = rows.condition_of(query, "qualify")
        relation = rows.relation()
        if condition is not None:
            context.grow()
            relation = Filter(source=relation, condition=condition)
    return projected(relation, results, context, names)


def _constant_rows(query: exp.Expr, context: Context, unique: Sequence[str] | None) -> Derived | None:
    """Return the rows of ``SELECT 'a' AS x UNION ALL SELECT 'b'``, which reads nothing; None for other queries."""
    selects = [query]
    if isinstance(query, exp.Union) and not has(query, "distinct", "with_", "by_name"):
        selects = members_of(query)
    for select in selects:
        if not isinstance(select, exp.Select) or has(select, *(select.args.keys() - {"expressions"})):
            return None
    rows = [[item.unalias() for item in select.expressions] for select in selects]
    constants = _constants(exp.Values(expressions=[exp.Tuple(expressions=row) for row in rows]), None, context, unique)
    labels = [item.alias_or_name for item in selects[0].expressions]
    names = [(label or name, unique) for label, (name, unique) in zip(labels, constants.names, strict=True)]
    return Derived(constants.relation, names)


def _first_of_each(select: exp.Select) -> exp.Select:
    """Return ``SELECT DISTINCT ON (a) … ORDER BY a, b`` with QUALIFY: the first row of each a."""
    on = select.args["distinct"].args.get("on") if has(select, "distinct") else None
    if not isinstance(on, exp.Tuple) or has(select, "group", "having", "qualify"):
        return select
    plain, keys = select.copy(), on.copy().expressions
    order = plain.args.get("order") or exp.Order(expressions=[exp.Ordered(this=key.copy()) for key in keys])
    window = exp.Window(this=exp.RowNumber(), partition_by=keys, order=order.copy())
    first = exp.Qualify(this=exp.EQ(this=window, expression=exp.Literal.number(1)))
    for name, value in {"distinct": None, "order": None, "qualify": first}.items():
        plain.set(name, value)
    return plain


def check_select(select: exp.Select, *further: str) -> None:
    """Refuse a SELECT with other clauses than the usual and these, in its own words where that helps."""
    if has(select, "distinct"):
        if "distinct" not in further:
            raise QuestionError(
                "DISTINCT ON would return single rows.",
                "Keep them in a subquery that is aggregated: FROM (SELECT DISTINCT ON …).",
            )
        only(select.args["distinct"])
    only(select, *_CLAUSES, *further)
    if not select.expressions:
        raise QuestionError("SELECT names no results.", "Ask for instance SELECT COUNT(*) FROM …")


def expanded(select: exp.Select, scope: Scope) -> list[Projection]:
    """Return the results of a SELECT, with ``*`` and ``t.*`` expanded; a column that USING joined is there once.

    The unit is named once. Of two columns with one name the second is x_1, as DuckDB has it; a result that the
    question itself names is never renamed.
    """
    if not any(map(is_star, select.expressions)):
        return projections(select)
    plain = select.copy()
    results: list[exp.Expr] = []
    taken: dict[str, Binding] = {}
    for node in plain.expressions:
        if not is_star(node):
            results.append(node)
            continue
        only(node.this if isinstance(node, exp.Column) else node)
        table = identifier(node.args["table"]).casefold() if isinstance(node, exp.Column) else None
        for source in scope.sources:
            if table not in {None, (source.alias or "").casefold()}:
                continue
            for key, (name, own) in source.names.items():
                merged = table is None and key in scope.merged
                binding = scope.merged[key] if merged else own
                again = binding is UnitName.HERE and taken.get(key) is UnitName.HERE
                joined_already = table is None and key in source.merged
                if again or joined_already or key in source.hidden or isinstance(binding, Partner):
                    continue
                column: exp.Expr = exp.column(name, table=None if merged else source.alias, quoted=True)
                if key in taken:
                    numbered = (f"{name}_{number}" for number in range(1, 10**6))
                    unique = next(other for other in numbered if other.casefold() not in taken)
                    column = exp.alias_(column, unique, quoted=True)
                taken[column.alias_or_name.casefold()] = binding
                results.append(column)
    plain.set("expressions", results)
    return projections(plain)


# UNION, INTERSECT, EXCEPT


def members_of(query: exp.SetOperation) -> list[exp.Expr]:
    """Return the SELECTs that a set operation names; of UNIONs within a UNION of the same kind, theirs."""
    word, every = type(query).__name__.upper(), not has(query, "distinct")
    if has(query, "by_name"):
        raise QuestionError(f"{word} BY NAME is not supported.", "List the columns in one order in every SELECT.")
    if every and not isinstance(query, exp.Union):
        raise QuestionError(f"{word} ALL is not supported: it pairs equal rows one by one.", NO_WAY)
    members: list[exp.Expr] = []
    stack: list[exp.Expr] = [query]
    while stack:
        node = stack.pop()
        separate = has(node, "with_", "order", "limit", "offset", "by_name")
        alike = isinstance(node, exp.Union) and has(node, "distinct") is not every
        if node is query or (alike and isinstance(query, exp.Union) and not separate):
            assert isinstance(node, exp.SetOperation)  # noqa: S101 - the query is one
            stack += [node.expression, node.this]
        else:
            members.append(node)
    return members


def _set_operation(query: exp.SetOperation, context: Context, parts: Parts, names: Sequence[str] | None) -> Derived:
    """Return the rows of a UNION ALL; or equal rows of one unit once, as UNION, INTERSECT and EXCEPT have them.

    Then equal rows are one group (`PerUnit`), in which NULL equals NULL. INTERSECT and EXCEPT keep a group by the sides
    in which it has rows: the first side is 0, the second 1.
    """
    only(query, "this", "expression", "with_", "distinct", "by_name")
    nodes, word = members_of(query), type(query).__name__.upper()
    every = not has(query, "distinct")
    first = context.once("names", nodes[0], lambda: derived(nodes[0], context.trial(), parts).names)
    fresh = [context.fresh(name) for name, binding in first if isinstance(binding, str)]
    unique = list(names) if names is not None and every else fresh
    members = [derived(node, context, parts, unique) for node in nodes]
    shape = [isinstance(binding, str) for _, binding in members[0].names]
    for member in members[1:]:
        if [isinstance(binding, str) for _, binding in member.names] != shape:
            raise QuestionError(
                f"The parts of {word} need the same number of columns, with the unit in the same place.",
                "List the columns in every SELECT.",
            )
    if len({private(member.relation) for member in members}) > 1:
        raise QuestionError(f"{word} cannot mix private and public tables: public rows belong to no unit.")
    if not every and private(members[0].relation) and all(shape):  # a row that is left would be of several units
        hint = "To count different values write COUNT(DISTINCT x) over UNION ALL (NULL is not counted)."
        if word != "UNION":
            hint = "To count values ask for each side's with their counts, GROUP BY x, and compare them."
        if (unit := context.schema.unit) is not None:
            rows = f"For each {unit}'s rows apart, where a row of two of them counts twice"
            hint = f"{hint} {rows}, select {unit} in every part."
        raise QuestionError(f"{word} would make one row of equal rows of different units.", hint)
    context.grow()
    merged = []
    for name in unique:
        types = [columns(member.relation)[name] for member in members]
        check_kinds(types, f"The parts of UNION ALL disagree about '{name}':", "Cast it in one of them.")
        common = either([Column(name, type_) for type_ in types], nullable=any(type_.nullable for type_ in types))
        merged.append((name, common))
    sources = tuple(member.relation for member in members)
    if every:
        named = iter(unique)
        bindings = [(name, next(named) if isinstance(b, str) else UnitName.HERE) for name, b in first]
        return Derived(UnionAll(sources=sources, columns=tuple(merged)), bindings)
    grouped, keys = _equal_rows_once(query, sources, merged, context)
    columns_left = iter(keys)
    results = [(name, next(columns_left) if isinstance(b, str) else UnitName.HERE) for name, b in first]
    return projected(grouped, results, context, names)


def _equal_rows_once(
    query: exp.SetOperation, sources: tuple[Relation, ...], merged: Sequence[tuple[str, Type]], context: Context
) -> tuple[Relation, list[Column]]:
    """Return one row for equal rows of a unit, as far as the operation keeps it, and its columns in their order."""
    side, compares = context.fresh("side"), not isinstance(query, exp.Union)
    merged_types = dict(merged)
    if compares:
        context.grow(3)
        numbered: list[Relation] = []
        for number, source in enumerate(sources):
            own = columns(source)
            kept = tuple((name, Column(name, own[name])) for name, _ in merged)
            numbered.append(Project(source=source, columns=(*kept, (side, constant(Fraction(number))))))
        sources = tuple(numbered)
        merged_types[side] = either([constant(Fraction(0)), constant(Fraction(1))], nullable=False)
    keys = [(context.fresh(name), Column(name, type_)) for name, type_ in merged]
    aggregates: list[tuple[str, ExactAggregate]] = []
    conditions: list[Expression] = []
    # INTERSECT keeps what begins on the first side and ends on the second, EXCEPT what is on the first alone
    ends = {ExactKind.MIN: 0, ExactKind.MAX: int(isinstance(query, exp.Intersect))}
    for kind, number in ends.items() if compares else ():
        argument = Column(side, merged_types[side])
        aggregate = ExactAggregate(kind=kind, argument=argument, type=exact_type(kind, argument))
        aggregates.append((context.fresh(kind.value), aggregate))
        conditions.append(call(Op.EQUAL, Column(aggregates[-1][0], aggregate.type), constant(Fraction(number))))
    union = UnionAll(sources=sources, columns=tuple(merged_types.items()))
    grouped: Relation = PerUnit(source=union, keys=tuple(keys), aggregates=tuple(aggregates))
    if compares:
        grouped = Filter(source=grouped, condition=all_of(conditions))
    return grouped, [Column(name, key.type) for name, key in keys]


# Tables that the question contains


def _constants(node: exp.Expr, alias: str | None, context: Context, unique: Sequence[str] | None = None) -> Derived:
    """Return VALUES, a series or a list as a table, with the names that DuckDB gives its columns."""
    rows = Rows(context, Scope(Constants(columns=(), rows=()), []))
    if isinstance(node, exp.Values):
        only(node, "expressions", "alias")
        nodes = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        cells = [[_literal(cell, rows) for cell in row] for row in nodes]
        names = [f"col{index}" for index in range(len(cells[0]) if cells else 0)]
    else:
        series = node.this
        if not isinstance(node, exp.Table):
            only(node, "expressions", "alias")
            (series,) = node.expressions if len(node.expressions) == 1 else (None,)
        exclusive = False
        if isinstance(series, exp.GenerateSeries):
            exclusive = has(series, "is_end_exclusive")
            cells = [[constant(value)] for value in _series(series, rows, exclusive=exclusive)]
        elif isinstance(series, exp.Array):
            only(series, "expressions", "value_constructor")
            cells = [[_literal(cell, rows)] for cell in series.expressions]
        else:
            raise refuse(node)
        names = [alias or ("range" if exclusive else "generate_series" if isinstance(node, exp.Table) else "unnest")]
    if not cells or any(len(row) != len(cells[0]) for row in cells):
        raise QuestionError(f"The rows of {shown(node)} need the same number of values, and at least one.")
    if len(cells) > MAX_ROWS:
        raise QuestionError(
            f"{shown(node)} has more than {MAX_ROWS:,} rows.", "Use a public table, or larger steps of a series."
        )
    types = []
    for column in zip(*cells, strict=True):
        values = [cell for cell in column if not is_null(cell)]
        if not values:
            raise QuestionError(f"A column of {shown(node)} holds nothing but NULL.", "Leave it out.")
        check_kinds((cell.type for cell in values), f"A column of {shown(node)} holds", "Write constants of one kind.")
        type_ = either(column, nullable=any(map(is_null, column)))
        listed = tuple(dict.fromkeys(cell.value for cell in values))
        types.append(type_ if type_.kind in {Kind.BOOLEAN, Kind.TIMESTAMP} else replace(type_, values=listed))
    if unique is None or len(unique) != len(names):
        unique = [context.fresh(name) for name in names]
    context.grow()
    relation = Constants(columns=tuple(zip(unique, types, strict=True)), rows=tuple(tuple(row) for row in cells))
    return Derived(relation, list(zip(names, unique, strict=True)))


def _literal(node: exp.Expr, rows: Rows) -> Literal:
    value = rows.convert(node)
    if not isinstance(value, Literal):
        raise QuestionError(f"Only constants can be written out as rows; got {shown(node)}.")
    return value


def _series(node: exp.Expr, rows: Rows, *, exclusive: bool) -> list[Value]:
    """Return the members of GENERATE_SERIES or RANGE: whole numbers, or moments an interval apart."""
    only(node, "start", "end", "step", "is_end_exclusive")
    if node.find(exp.Column):
        raise QuestionError(
            f"A series has constant ends; got {shown(node)}.",
            "Join a longer one with a condition: JOIN GENERATE_SERIES(1, 100) AS s(k) ON s.k <= x.",
        )
    first, last = (_literal(node.args[end], rows).value for end in ("start", "end"))
    step = node.args.get("step")
    values: list[Value] = []
    if isinstance(first, Fraction) and isinstance(last, Fraction):
        by = Fraction(1) if step is None else _literal(step, rows).value
        if not isinstance(by, Fraction) or by == 0 or any(end.denominator != 1 for end in (first, last, by)):
            raise QuestionError(f"A series has whole numbers and a step that is not 0; got {shown(node)}.")
        count = max(0, (last - first) // by + 1)
        count -= exclusive and count > 0 and first + (count - 1) * by == last
        values = [first + index * by for index in range(min(int(count), MAX_ROWS + 1))]
    elif isinstance(first, dt.date) and isinstance(last, dt.date) and isinstance(step, exp.Interval):
        months, days, microseconds = interval_parts(rows, step)
        span = dt.timedelta(days=days, microseconds=microseconds)
        if months < 0 or span < dt.timedelta() or (not months and not span):
            raise QuestionError("The interval of a series of dates must be longer than nothing.")
        moment, end = (
            day if isinstance(day, dt.datetime) else dt.datetime.combine(day, dt.time.min) for day in (first, last)
        )
        if months and moment.day > 28:
            raise QuestionError("A series of months begins before the 29th.", "Begin at the first of a month.")
        while (moment < end or (moment == end and not exclusive)) and len(values) <= MAX_ROWS:
            values.append(moment)
            years, month = divmod(moment.month - 1 + months, 12)
            if moment.year + years > dt.MAXYEAR:
                break
            moment = moment.replace(year=moment.year + years, month=month + 1) + span
    else:
        raise QuestionError(f"A series has whole numbers, or dates and an interval; got {shown(node)}.")
    if not values:
        raise QuestionError(f"The series {shown(node)} is empty.", "Let it begin before it ends.")
    return values


# PIVOT


def without_pivots(tree: exp.Expr) -> None:
    """Replace every PIVOT of a subquery in a tree by a SELECT with GROUP BY; refuse others."""
    for pivot in list(tree.find_all(exp.Pivot)):
        source, fields = pivot.parent, pivot.args.get("fields") or []
        if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select) or source.this.is_star:
            raise refuse(pivot)
        if len(fields) != 1 or has(pivot, "unpivot"):
            raise refuse(pivot)
        select, field = source.this, fields[0]
        values = [value.this if isinstance(value, exp.PivotAlias) else value for value in field.expressions]
        aggregates = [aggregate.unalias() for aggregate in pivot.expressions]
        names = pivot.args.get("columns") or []
        if not all(isinstance(value, exp.Literal) for value in values) or len(names) != len(values) * len(aggregates):
            raise refuse(pivot)
        used = {column.name.casefold() for node in (field.this, *aggregates) for column in node.find_all(exp.Column)}
        keys = [exp.column(name) for name in select.named_selects if name.casefold() not in used]
        cells = [
            exp.Filter(this=aggregate.copy(), expression=exp.Where(this=field.this.eq(value)))
            for value in values
            for aggregate in aggregates
        ]
        results = [exp.alias_(cell, name.copy()) for cell, name in zip(cells, names, strict=True)]
        grouped = exp.select(*keys, *results).from_(select.subquery("_pivoted")).group_by(*keys)
        source.replace(exp.Subquery(this=grouped, alias=pivot.args.get("alias") or source.args.get("alias")))
