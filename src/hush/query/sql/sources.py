"""FROM: tables, parts named by WITH, derived tables, UNION ALL. Each keeps the invariant that a row has one unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.expressions import Column, Expression
from hush.query.functions import all_of
from hush.query.functions.logic import either
from hush.query.relations import Filter, Named, Project, Relation, Scan, UnionAll, columns, private
from hush.query.sql.calls import refuse_function
from hush.query.sql.constants import written
from hush.query.sql.expressions import Rows, has_aggregate
from hush.query.sql.grouping import Projection, projections
from hush.query.sql.joins import chained, conjuncts, is_cross, is_inner, joined, test_of, units_compared
from hush.query.sql.nodes import identifier, is_set, only, place, refuse, shown
from hush.query.sql.reading import size
from hush.query.sql.scope import Binding, Context, Scope, Source, UnitName, check_qualifiers, unit_names
from hush.query.sql.windows import RowsWithWindows, has_window, named_windows
from hush.query.types import Type

SELECT_PARTS = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_")


@dataclass(slots=True, eq=False)
class Part:
    """A part named by WITH, and the parts it may use itself."""

    query: exp.Expr
    parts: Parts
    columns: list[str] = field(default_factory=list)
    """New names of its first columns."""
    used: bool = False


_Item = tuple[str, exp.Expr | Binding]
"""A result of a SELECT over rows: its name, and what it is."""
Parts = Mapping[str, Part]
NO_PARTS: Parts = MappingProxyType({})


@dataclass(slots=True)
class Derived:
    """A query as a source: a relation, and what its result names mean."""

    relation: Relation
    names: list[tuple[str, Binding]] = field(default_factory=list)

    def source(self, alias: str | None, renamed: Sequence[str] = ()) -> Source:
        """Return the derived table as an item of FROM, its first columns renamed: ``… AS t(a, b)``."""
        if len(renamed) > len(self.names):
            raise QuestionError(f"'{alias}' has {len(self.names)} columns; got {len(renamed)} names for them.")
        names = [*renamed, *(name for name, _ in self.names[len(renamed) :])]
        found = {name.casefold(): (name, binding) for name, (_, binding) in zip(names, self.names, strict=True)}
        if len(found) < len(names):
            raise QuestionError(f"Two columns of '{alias}' have one name.", "Give each its own.")
        units = frozenset(key for key, (_, binding) in found.items() if binding is UnitName.HERE)
        return Source(alias, found, stored=units)


def with_parts(query: exp.Expr, context: Context, outer: Parts) -> Parts:
    """Return the parts a query may use; each is resolved where it is used."""
    clause = query.args.get("with_")
    if clause is None:
        return outer
    if is_set(clause.args.get("recursive")):
        raise QuestionError("WITH RECURSIVE is not supported.", "Use plain WITH.")
    only(clause, "expressions")
    parts = dict(outer)
    for item in clause.expressions:
        if not isinstance(item, exp.CTE):
            raise refuse(item)
        only(item, "this", "alias", "materialized")
        name = _alias(item)
        if name is None:
            raise refuse(item)
        if name.casefold() in parts and parts[name.casefold()] is not outer.get(name.casefold()):
            raise QuestionError(f"WITH names '{name}' twice.")
        part = Part(item.this, MappingProxyType(dict(parts)), _columns(item))
        parts[name.casefold()] = part
        context.parts.append(part)
    return MappingProxyType(parts)


def check_unused(context: Context) -> None:
    """Resolve parts that nothing used, so that nothing stands in a question that was not understood."""
    for part in context.parts:  # grows while parts with parts of their own are resolved
        if not part.used:
            with context.trial():
                derived(part.query, context, part.parts).source("WITH", part.columns)


def _alias(node: exp.Expr) -> str | None:
    alias = node.args.get("alias")
    if alias is None:
        return None
    if not isinstance(alias, exp.TableAlias):
        raise refuse(node)
    only(alias, "this", "columns")
    return identifier(alias.this)


def _columns(node: exp.Expr) -> list[str]:
    """Return the names in ``… AS t(a, b)``."""
    alias = node.args.get("alias")
    return [] if alias is None else [identifier(column) for column in alias.args.get("columns") or ()]


def from_clause(select: exp.Select, context: Context, parts: Parts) -> Scope:
    """Return the scope of a SELECT: its sources, joined and filtered."""
    scope, conditions = from_items(select, context, parts)
    return filtered(scope, conditions, context)


def from_items(select: exp.Select, context: Context, parts: Parts) -> tuple[Scope, list[exp.Expr]]:
    """Return the sources of a SELECT, joined, and the conditions that are left to filter them by."""
    clause = select.args.get("from_")
    if clause is None:
        raise QuestionError("The question has no FROM.", "Name a table: SELECT COUNT(*) FROM …")
    only(clause, "this")
    where = select.args.get("where")
    if where is not None:
        only(where, "this")
    conditions = [] if where is None else conjuncts(where.this)
    return _joined_items(clause.this, select.args.get("joins") or (), conditions, context, parts)


def _joined_items(
    first: exp.Expr, joins: Sequence[exp.Expr], conditions: list[exp.Expr], context: Context, parts: Parts
) -> tuple[Scope, list[exp.Expr]]:
    """Return the items of FROM joined, and what is left of the conditions in WHERE."""
    scope = replace(item(first, context, parts), parts=parts)
    known: list[exp.Join] = []
    for join in joins:
        if not isinstance(join, exp.Join):
            raise refuse(join)
        known.append(join)
    if any(map(is_cross, known)) and all(map(is_inner, known)):
        return chained([scope, *(item(join.this, context, parts) for join in known)], known, conditions, context)
    for join in known:
        scope = replace(joined(scope, join, item(join.this, context, parts), context), parts=parts)
    return scope, conditions


def filtered(scope: Scope, conditions: Sequence[exp.Expr], context: Context) -> Scope:
    """Return the rows of a scope for which all conditions are true."""
    rows = Rows(context, scope)
    plain = [node for node in units_compared(rows, conditions) if test_of(node) is None]
    found = [rows.condition(node) for node in plain]
    if found:
        context.grow()
        scope = scope.over(Filter(source=scope.relation, condition=all_of(found)))
    for test in map(test_of, conditions):
        if test is not None:
            scope = context.subqueries.kept(scope, test[0], negated=test[1], context=context)
    return scope


def item(node: object, context: Context, parts: Parts) -> Scope:
    """Return one item of FROM."""
    if _is_written(node) and isinstance(node, exp.Expr):
        alias = _alias(node)
        relation, names = written(node, alias, context)
        return Scope(relation, [Derived(relation, names).source(alias, _columns(node))])
    if isinstance(node, exp.Table):
        return _table(node, context, parts)
    if isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table):  # (a JOIN b ON …)
            return _parenthesised(node, context, parts)
        if not isinstance(node.this, exp.Query):
            raise refuse(node.this)
        only(node, "this", "alias")
        found = derived(node.this, context, parts)
        return Scope(found.relation, [found.source(_alias(node), _columns(node))])
    raise refuse(node)


def _parenthesised(node: exp.Subquery, context: Context, parts: Parts) -> Scope:
    """Return joins in parentheses; their tables keep their names."""
    only(node, "this", "alias")
    if is_set(node.args.get("alias")):
        raise QuestionError(
            f"Joins in parentheses keep the names of their tables; got the name {_alias(node)}.",
            "Leave the name out, or write (SELECT * FROM …) AS name.",
        )
    table = node.this.copy()
    joins = table.args.get("joins") or ()
    table.set("joins", None)
    scope, left = _joined_items(table, joins, [], context, parts)
    return filtered(scope, left, context)


def _table(node: exp.Table, context: Context, parts: Parts) -> Scope:
    if not isinstance(node.this, exp.Identifier):
        if isinstance(node.this, exp.Func):
            raise refuse_function(node.this)
        raise refuse(node.this)
    only(node, "this", "alias", "db", "catalog")
    name = identifier(node.this)
    qualifiers = [identifier(node.args[part]) for part in ("catalog", "db") if is_set(node.args.get(part))]
    alias = _alias(node) or name
    if name.casefold() in parts and not qualifiers:
        part = parts[name.casefold()]
        part.used = True
        found = derived(part.query, context, part.parts)
        inner = found.source(name, part.columns)
        again = Derived(found.relation, list(inner.names.values()))
        return Scope(found.relation, [again.source(alias, _columns(node))])
    if _columns(node):
        raise QuestionError(
            f"The columns of a stored table cannot be renamed: {shown(node)}.",
            f"Rename them in a subquery: (SELECT x AS a, … FROM {name}) AS {alias}.",  # noqa: S608 - a hint
        )
    tables = {known.casefold(): table for known, table in context.schema.tables.items()}
    dotted = [".".join([*qualifiers[at:], name]) for at in range(len(qualifiers))]
    whole = next((at for at, full in enumerate(dotted) if full.casefold() in tables), len(qualifiers))
    name = ".".join([*qualifiers[whole:], name])
    check_qualifiers(context.schema, name, qualifiers[:whole], shown(node))
    if name.casefold() not in tables:
        known = [*context.schema.tables, *parts]
        listed = f"There are {', '.join(sorted(context.schema.tables)[:20])}." if context.schema.tables else ""
        error = UnknownTableError(f"There is no table '{name}'.", did_you_mean(name, known, otherwise=listed))
        error.place, error.table = place(node.this), name
        raise error
    table = tables[name.casefold()]
    units = unit_names(context.schema, table)
    hidden = {unit.casefold() for unit in units}
    context.grow()
    keys = {column: type_ for column, type_ in table.keys.items() if column.casefold() not in hidden}
    known_columns = {**{c: t for c, t in table.columns.items() if c.casefold() not in hidden}, **keys}
    read = tuple((context.fresh(column), column, type_) for column, type_ in known_columns.items())
    targets = context.schema.targets(table)
    for unique, column, _ in read:
        if column.casefold() in targets:
            context.links[unique] = targets[column.casefold()]
    names: dict[str, tuple[str, Binding]] = {column.casefold(): (column, unique) for unique, column, _ in read}
    names |= {unit.casefold(): (unit, UnitName.HERE) for unit in units}
    source = Source(
        alias,
        names,
        {column.casefold(): stored for column, stored in table.unsupported.items()},
        stored=frozenset({table.unit.column.casefold()} if table.unit and not table.unit.hops else ()),
        hidden=frozenset(column.casefold() for column in keys),
    )
    return Scope(Scan(table=table.name, public=table.public, columns=read), [source])


def derived(query: exp.Expr, context: Context, parts: Parts, names: Sequence[str] | None = None) -> Derived:
    """Return a query as a relation; ``names`` are the unique names its columns must have (in a union)."""
    context.spend(size(query))
    if isinstance(query, exp.Subquery):
        only(query, "this", "with_")
        return derived(query.this, context, with_parts(query, context, parts), names)
    if isinstance(query, exp.Union):
        return _union(query, context, with_parts(query, context, parts), names)
    if isinstance(query, exp.SetOperation):
        instead = f"{context.schema.unit or 'x'} {'NOT IN' if isinstance(query, exp.Except) else 'IN'}"
        raise QuestionError(
            f"{type(query).__name__.upper()} is not supported; of set operations only UNION ALL is.",
            f"Write WHERE {instead} (SELECT …), and DISTINCT.",
        )
    if not isinstance(query, exp.Select):
        raise refuse(query)
    check_select(query, distinct=True, qualify=True)
    for clause in ("order", "limit", "offset"):
        if is_set(query.args.get(clause)):
            raise QuestionError(
                f"{clause.upper()} in a subquery would pick rows by other units' rows.",
                "Use it at the end of the question.",
            )
    parts = with_parts(query, context, parts)
    scope = from_clause(query, context, parts)
    windows = any(is_set(query.args.get(clause)) for clause in ("qualify", "windows"))
    if windows or any(has_window(node) for node in query.expressions):
        return _with_windows(query, scope, context, names)
    aggregated = query.args.get("group") or any(has_aggregate(node) for node in query.expressions)
    if aggregated and is_set(query.args.get("distinct")):
        raise QuestionError(f"DISTINCT after GROUP BY is not supported: {shown(query)}.", "Leave DISTINCT out.")
    if aggregated or is_set(query.args.get("distinct")) or query.args.get("having"):
        from hush.query.sql.per_unit import per_unit

        return per_unit(query, scope, context, names)
    items = [*_expanded(query, scope)]
    return projected(scope, items, Rows(context, scope), context, names)


def _with_windows(select: exp.Select, scope: Scope, context: Context, names: Sequence[str] | None) -> Derived:
    """Return the rows of a SELECT with windows over a unit's own rows, as far as QUALIFY keeps them."""
    for clause in ("group", "having", "distinct"):
        if is_set(select.args.get(clause)):
            raise QuestionError(
                f"Windows and {clause.upper()} stand in one SELECT: {shown(select)}.", "Use two SELECTs, one in FROM."
            )
    items = [*_expanded(select, scope)]
    named = {name.casefold(): what for name, what in items if isinstance(what, exp.Expr)}
    rows = RowsWithWindows(context, scope, named, named_windows(select))
    results = [
        (name, what if isinstance(what, str | UnitName) else rows.unit(what) or rows.convert(what))
        for name, what in items
    ]
    qualify = select.args.get("qualify")
    rows.names_results = True
    condition = None if qualify is None else rows.condition(qualify.this)
    kept = rows.over()
    types = columns(kept.relation)
    if condition is not None and qualify is not None:
        only(qualify, "this")
        context.grow()
        kept = kept.over(Filter(source=kept.relation, condition=condition))
    shown_as = [(name, Column(what, types[what]) if isinstance(what, str) else what) for name, what in results]
    return finish(kept.relation, shown_as, context, names)


def check_select(select: exp.Select, *, distinct: bool = False, qualify: bool = False) -> None:
    """Refuse a SELECT with anything unusual, in its own words where that helps."""
    if distinct and is_set(select.args.get("distinct")):
        only(select.args["distinct"])
    elif is_set(select.args.get("distinct")):
        raise QuestionError(
            "SELECT DISTINCT would return single rows.", "Use GROUP BY and COUNT(*), or COUNT(DISTINCT x)."
        )
    if not qualify and (is_set(select.args.get("qualify")) or is_set(select.args.get("windows"))):
        raise QuestionError("Window functions and QUALIFY are not supported.", "Use GROUP BY and HAVING.")
    if is_set(select.args.get("into")):
        raise QuestionError("SELECT INTO is not supported; hush changes no data.")
    if is_set(select.args.get("sample")):
        raise QuestionError(
            "TABLESAMPLE is not supported.", "Ask about the whole table; the noise already protects it."
        )
    only(select, *SELECT_PARTS, *(["distinct"] if distinct else []), *(["qualify", "windows"] if qualify else []))
    if not select.expressions:
        raise QuestionError("SELECT names no results.", "Ask for instance SELECT COUNT(*) FROM …")


def _expanded(select: exp.Select, scope: Scope) -> list[_Item]:
    """Return the results of a SELECT over rows, with * written out; what USING joined is there once."""
    found: list[_Item] = []
    starred = [node for node in select.expressions if _star(node)]
    if not starred:
        return [(projection.name, projection.node) for projection in projections(select)]
    plain = select.copy()
    plain.set("expressions", [node for node in select.expressions if not _star(node)])
    rest: list[Projection] = projections(plain) if plain.expressions else []
    for node in select.expressions:
        if not _star(node):
            projection = rest.pop(0)
            found.append((projection.name, projection.node))
            continue
        star = node.this if isinstance(node, exp.Column) else node
        only(star)
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        for source in scope.sources:
            if table is None or (source.alias or "").casefold() == identifier(table).casefold():
                found += [
                    (name, binding if table is not None else scope.merged.get(key, binding))
                    for key, (name, binding) in source.names.items()
                    if key not in source.hidden and (table is not None or key not in source.merged)
                ]
    found = [(name, what) for name, what in found if what is not UnitName.LOST]
    return _without_repeats(found)


def _without_repeats(found: list[_Item]) -> list[_Item]:
    """Return results with the unit named once; of two columns with one name the second is x_1, as DuckDB has it.

    A result that the question itself names is never renamed.
    """
    kept: dict[str, _Item] = {}
    written = {name.casefold() for name, what in found if isinstance(what, exp.Expr)}
    for name, binding in found:
        if binding is UnitName.HERE and kept.get(name.casefold(), ("", None))[1] is UnitName.HERE:
            continue
        if name.casefold() in kept or (name.casefold() in written and not isinstance(binding, exp.Expr)):
            if isinstance(binding, exp.Expr) or name.casefold() in written:
                raise QuestionError(f"* has a column called '{name}' already.", "Give the new one another name.")
            name = next(n for at in range(1, 10**6) if (n := f"{name}_{at}").casefold() not in {*kept, *written})  # noqa: PLW2901
        kept[name.casefold()] = (name, binding)
    return list(kept.values())


def _star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def projected(
    scope: Scope,
    items: Sequence[tuple[str, exp.Expr | Binding]],
    converter: Rows,
    context: Context,
    names: Sequence[str] | None,
) -> Derived:
    """Return the named results of a SELECT over rows; the unit passes by its name alone."""
    results: list[tuple[str, Expression | UnitName]] = []
    types = converter.types
    for name, what in items:
        if isinstance(what, UnitName):
            results.append((name, what))
        elif isinstance(what, str):
            results.append((name, Column(what, types[what])))
        else:
            results.append((name, converter.unit(what) or converter.convert(what)))
    return finish(scope.relation, results, context, names)


def finish(
    relation: Relation,
    results: Sequence[tuple[str, Expression | UnitName]],
    context: Context,
    names: Sequence[str] | None,
) -> Derived:
    """Return a projection to results, under the given unique names or fresh ones."""
    bindings: list[tuple[str, Binding]] = []
    made: list[Named] = []
    given = iter(names) if names is not None else None
    for name, what in results:
        if isinstance(what, UnitName):
            bindings.append((name, what))
            continue
        unique = context.fresh(name) if given is None else next(given, "")
        link = context.links.get(what.name) if isinstance(what, Column) else None
        if link is not None and given is None:
            context.links[unique] = link
        context.copies[unique] = max(context.text_copies(what), context.copies.get(unique, 0))
        bindings.append((name, unique))
        made.append((unique, what))
    context.grow()
    return Derived(Project(source=relation, columns=tuple(made)), bindings)


def _union(query: exp.Union, context: Context, parts: Parts, names: Sequence[str] | None) -> Derived:
    """Return the rows of all parts of a UNION ALL."""
    members: list[exp.Expr] = []
    stack: list[exp.Expr] = [query]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Union) and (node is query or not is_set(node.args.get("with_"))):
            if is_set(node.args.get("distinct")):
                raise QuestionError("UNION drops equal rows of different units.", "Write UNION ALL.")
            only(node, "this", "expression", "with_")
            stack += [node.expression, node.this]
        else:
            members.append(node)
    with context.trial():
        first = derived(members[0], context, parts)
    unique = list(names) if names is not None else [context.fresh(n) for n, b in first.names if isinstance(b, str)]
    found = [derived(member, context, parts, unique) for member in members]
    shape = [isinstance(binding, str) for _, binding in found[0].names]
    for member in found[1:]:
        if [isinstance(binding, str) for _, binding in member.names] != shape:
            raise QuestionError(
                "The parts of UNION ALL need the same number of columns, with the unit in the same place.",
                "List the columns in every SELECT.",
            )
    if len({private(member.relation) for member in found}) > 1:
        raise QuestionError("UNION ALL cannot mix private and public tables: public rows belong to no unit.")
    context.grow()
    types = [columns(member.relation) for member in found]
    merged = tuple((name, _merged(name, [t[name] for t in types])) for name in unique)
    relation = UnionAll(sources=tuple(member.relation for member in found), columns=merged)
    given = iter(unique)
    bindings: list[tuple[str, Binding]] = [
        (name, next(given) if isinstance(binding, str) else binding) for name, binding in first.names
    ]
    return Derived(relation, bindings)


def _merged(name: str, types: Sequence[Type]) -> Type:
    kinds = {type_.kind for type_ in types}
    if len(kinds) > 1 and not all(kind.numeric for kind in kinds):
        listed = " and ".join(sorted(kind.value for kind in kinds))
        raise QuestionError(f"The parts of UNION ALL disagree about '{name}': {listed}.", "Cast it in one of them.")
    return either([Column(name, type_) for type_ in types], nullable=any(type_.nullable for type_ in types))


def _is_written(node: object) -> bool:
    """Return whether an item of FROM is a table that the question writes out."""
    if isinstance(node, exp.Values | exp.Unnest):
        return True
    return isinstance(node, exp.Table) and isinstance(node.this, exp.GenerateSeries)
