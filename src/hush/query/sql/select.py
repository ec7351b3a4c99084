"""SELECT with aggregates over rows, and SELECT over answers, which reads what was released and is free.

A derived table or a part of WITH is a finished question if it aggregates rows without grouping by the unit. Whatever is
selected from one reads what was released: WHERE, GROUP BY, window functions, ORDER BY, LIMIT, joins on keys, UNION ALL.
In a SELECT over rows HAVING, ORDER BY, LIMIT, arithmetic and window functions do. ROLLUP, CUBE and GROUPING SETS ask
for several lists of keys at once: one question for each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from operator import attrgetter, itemgetter

from sqlglot import exp

from hush.query.answers.tree import (
    AnswerColumnName,
    AnswerTable,
    Computed,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Window,
    Windowed,
    columns_of,
    noisy_names,
    within_limit,
)
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op, columns_in
from hush.query.functions import call, constant
from hush.query.question import Aggregate, Ordering, Question
from hush.query.relations import Named, Scan, used
from hush.query.sql.allow_list import STATEMENTS, column_name, has, identifier, only, refuse, shown
from hush.query.sql.answers import level, levels, row_keys, select_results
from hush.query.sql.expressions import Converter, Rows, has_aggregate, rewritten_aggregate
from hush.query.sql.from_clause import (
    alias_of,
    check_select,
    expanded,
    from_clause,
    from_item,
    members_of,
    part_of,
    with_parts,
)
from hush.query.sql.group_by import (
    Grouped,
    Projection,
    grouping_sets,
    ordinal,
    projections,
    read_aggregate,
    single_set,
    typed_aggregate,
)
from hush.query.sql.joins import Condition, beside, condition_of, conjuncts, is_cross, kind_of, on, owners
from hush.query.sql.names import Answers, Context, FromSource, Parts, Scope, check_kinds, named_source
from hush.query.sql.windows import Windows, direction, fold, ordered_by
from hush.query.types import Kind, Type, written_in

MAX_OUTPUTS = 200
_MAX_LIMIT = 2**31 - 1
_NO_AGGREGATE = (
    "The question has no aggregate, so it would show single rows.",
    "Rows are never shown. Ask for instance SELECT COUNT(*), AVG(x) FROM …",
)
_BIT = Type(Kind.INTEGER, nullable=False, lower=Fraction(0), upper=Fraction(1), step=Fraction(1))


# Which queries are finished questions


def is_finished(node: object, context: Context, parts: Parts) -> bool:
    """Return whether an item of FROM is made of finished questions."""
    if isinstance(node, exp.Table):
        part = part_of(node, parts)
        return part is not None and is_finished(part.query, context, part.parts)
    return isinstance(node, exp.Query) and context.once("finished", node, lambda: _is_finished(node, context, parts))


def _is_finished(node: exp.Query, context: Context, parts: Parts) -> bool:
    with contextlib.suppress(QuestionError):  # said where it is resolved
        context = context.trial()
        parts = with_parts(node, context, parts)
        if isinstance(node, exp.Subquery | exp.SetOperation):
            return any(is_finished(query, context, parts) for query in (node.this, node.args.get("expression")))
        if not isinstance(node, exp.Select):
            return False
        if _reads_answers(node, context, parts):
            return True
        if has(node, "group", "having") or any(map(has_aggregate, node.expressions)):
            rows = Rows(context, from_clause(node, context, parts))
            keys = chain(*grouping_sets(node, projections(node), rows))
            # a key that is the unit, or belongs to one, makes it an aggregate within the unit
            return rows.scope.private and not any(rows.unit(key) or context.is_link(rows.convert(key)) for key in keys)
    return False


def _reads_answers(select: exp.Select, context: Context, parts: Parts) -> bool:
    """Return whether a SELECT reads answers, perhaps beside public tables, and no rows of units."""
    if not has(select, "from_"):
        return False
    sources = [clause.this for clause in (select.args["from_"], *(select.args.get("joins") or ()))]
    others = [source for source in sources if not is_finished(source, context, parts)]
    if not others or len(others) == len(sources):
        return len(others) < len(sources)
    trial = context.trial()
    private = context.once("privacy", select, lambda: [from_item(source, trial, parts).private for source in others])
    return not any(private)


# SELECT


def answers_of(node: exp.Expr, context: Context, parts: Parts) -> Answers:
    """Return the answers of a query that is, or is made of, finished questions.

    Of a SELECT all clauses are read first, then applied in SQL's order.
    """
    parts = with_parts(node, context, parts)
    if isinstance(node, exp.Subquery):
        only(node, "this", "with_")
        return answers_of(node.this, context, parts)
    if isinstance(node, exp.SetOperation):
        return _union(node, context, parts)
    if not isinstance(node, exp.Select):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    select = node if has(node, "from_") else _from_first(node)
    over_answers, distinct = _reads_answers(select, context, parts), False
    if select.args.get("distinct") is not None:
        select, distinct = _without_distinct(select, over_answers=over_answers)
    check_select(select, "qualify", "windows")
    windows = Windows(select, context, parts)
    items: Sequence[Projection]
    names: _OverRows | _Regrouping | _Released
    if over_answers:
        table, scope = _from_answers(select, context, parts)
        values = Windows(select, context, parts)  # what WHERE asks for is beside the rows before they are grouped
        where = _OverRows(context, scope, values, windowed=False).condition_of(select, "where")
        if where is not None:
            table = Qualified(source=values.beside(table), condition=where)
        items, names = expanded(select, scope), _OverRows(context, scope, windows)
        if has(select, "group", "having") or any(has_aggregate(item.node) for item in items):
            names = _Regrouping(select, items, _OverRows(context, scope, None), windows)
    else:
        scope = from_clause(select, context, parts)
        if not scope.private:
            raise QuestionError(
                "The question reads public tables only, which need no protection and are not answered here.",
                "Read them directly, or join them with a private table.",
            )
        items = projections(select)
        names = _Released(select, items, Rows(context, scope), windows)
    if len(items) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(items)} results; the limit is {MAX_OUTPUTS}.")
    # Clauses after the results may call them by their names. So may results: one over rows of units may name earlier
    # ones, one over answers without GROUP BY any other.
    aliases = {item.name.casefold(): item.node for item in items if item.named}
    if isinstance(names, _OverRows):
        names.aliases = aliases
    # reading an expression notes which aggregates and windows it asks for
    outputs: list[Named] = []
    for item in items:
        outputs.append((item.name, names.convert(item.node)))
        if item.named and isinstance(names, _Released):
            names.results[item.name.casefold()] = item.node
    names.aliases = aliases
    # a window in HAVING would read rows that HAVING itself chooses
    before = len(windows.made)
    having = names.condition_of(select, "having")
    if len(windows.made) > before or used([having]) & set(windows.made.values()):
        raise QuestionError("HAVING comes before window functions.", "Write QUALIFY in place of HAVING.")
    qualify = names.condition_of(select, "qualify")
    order = _ordered(select, items, names)
    limit, offset = _rows_of(select.args.get("limit"), names), _rows_of(select.args.get("offset"), names)
    # the steps are in SQL's order: GROUP BY, HAVING, windows, QUALIFY, DISTINCT, ORDER BY, LIMIT
    if isinstance(names, _Released):
        table = names.table(outputs, [having, qualify], order)
    elif isinstance(names, _Regrouping):
        table = names.table(table)
    if windows.asked:
        table = windows.beside(table)
    if having is not None:
        table = Qualified(source=table, condition=having)
    if windows.made:
        table = Windowed(source=table, windows=tuple((name, window) for window, name in windows.made.items()))
    if qualify is not None:
        table = Qualified(source=table, condition=qualify)
    return select_results(table, outputs, context, order=order, limit=limit, offset=offset or 0, distinct=distinct)


def _from_first(select: exp.Select) -> exp.Select:
    """Return ``SELECT (SELECT …) / (SELECT …)``, which has no FROM, with the first subquery there."""
    plain = select.copy()
    first = plain.find(exp.Subquery)
    if first is None:
        return select
    alias = exp.TableAlias(this=exp.to_identifier("_first"), columns=[exp.to_identifier("_value")])
    plain.set("from_", exp.From(this=exp.Subquery(this=first.this.copy(), alias=alias)))
    column: exp.Expr = exp.column("_value")
    if first.parent is plain and not first.alias:
        column = exp.alias_(column, "value")
    first.replace(column)
    return plain


def _without_distinct(select: exp.Select, *, over_answers: bool) -> tuple[exp.Select, bool]:
    """Return a SELECT without DISTINCT, and whether equal rows must be left out of its answers later.

    Of rows, ``SELECT DISTINCT a, b`` is ``SELECT a, b … GROUP BY a, b``: the keys that there are.
    """
    if has(select.args["distinct"], "on"):
        if over_answers:
            raise QuestionError("DISTINCT ON is not supported.", "Write QUALIFY ROW_NUMBER() OVER (…) = 1.")
        return select, False  # `check_select` refuses it
    plain = select.copy()
    plain.set("distinct", None)
    if over_answers or has(select, "group", "having") or any(map(has_aggregate, select.expressions)):
        return plain, True
    ordinals = range(1, len(select.expressions) + 1)
    return plain.group_by(*map(exp.Literal.number, ordinals)), False


# The names of a SELECT over rows: keys and noisy aggregates


class _Released(Grouped):
    """Expressions over released keys and noisy aggregates, each of which is a column, as window functions are."""

    noisy = True

    def __init__(self, select: exp.Select, items: Sequence[Projection], rows: Rows, windows: Windows) -> None:
        keys, self._sets = _keys(select, items, rows)
        super().__init__(rows, keys, [Column(rows.context.fresh(name), key.type) for name, key in keys])
        self.windows: Windows = windows
        self._aggregates: dict[Aggregate, Column] = {}
        self._grouping: list[str] = []
        """For each key the column that says whether a row lacks it; none where there is one list of keys."""
        if self._sets is not None:
            self.columns = [replace(column, type=column.type.or_null()) for column in self.columns]
            self._grouping = [self.context.fresh("grouping") for _ in keys]

    def table(
        self, outputs: Sequence[Named], conditions: list[Expression | None], order: Sequence[Ordering]
    ) -> AnswerTable:
        """Return the table of what is released; all that the question computes reads no other columns.

        From there on everything is as over answers. So a question without an aggregate or key is refused here, and so
        is one whose results would read a column of rows.
        """
        if not self._aggregates and not self.keys:
            raise QuestionError(*_NO_AGGREGATE)
        relation, columns = self.rows.scope.relation, [*self.columns, *self._aggregates.values()]
        expressions = [*dict(outputs).values(), *conditions, *map(attrgetter("by"), order)]
        for window in self.windows.made:
            expressions += window.expressions
        computed = [*columns, *map(itemgetter(1), self.windows.asked.values())]
        known = {*map(attrgetter("name"), computed), *self._grouping, *self.windows.made.values()}
        if used(expressions) - known:
            raise QuestionError("The question would show columns of rows.")  # cannot happen; nothing may depend on that
        question = Question(
            data=self.context.schema.data,
            relation=relation,
            keys=self.named_keys,
            aggregates=tuple(self._aggregates),
            outputs=(),
        )
        if self._sets is None:
            return level(question, columns, self.context)
        return levels(question, self._sets, columns, self._grouping, self.context)

    def aggregate(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Grouping | exp.GroupingId):
            # GROUPING(a, b) has a bit for each key, the last one lowest, which is 1 where the key is left out
            only(node, "expressions")
            bits: Expression = constant(Fraction(0))
            for argument in node.expressions:
                expression = self.rows.convert(argument)
                if expression not in self.keys:
                    raise QuestionError(f"{shown(argument)} is not in GROUP BY.", "GROUPING takes keys of GROUP BY.")
                index = self.keys.index(expression)
                bit: Expression = Column(self._grouping[index], _BIT) if self._grouping else constant(Fraction(0))
                if len(node.expressions) == 1:
                    return bit
                bits = call(Op.ADD, call(Op.MULTIPLY, bits, constant(Fraction(2))), bit)
            return bits
        aggregate = typed_aggregate(read_aggregate(node, self.rows), node)
        if aggregate not in self._aggregates:
            self._aggregates[aggregate] = Column(self.context.fresh(aggregate.kind.name.lower()), aggregate.type)
        return self._aggregates[aggregate]


def _keys(
    select: exp.Select, items: Sequence[Projection], rows: Rows
) -> tuple[list[Named], tuple[tuple[int, ...], ...] | None]:
    """Return the keys of GROUP BY, named after their results, and for each grouping set the places of its keys."""
    if not has(select, "group", "having") and not any(has_aggregate(item.node) for item in items):
        for item in items:
            if item.node.find(exp.Column, exp.Anonymous) and not isinstance(item.node, exp.Query):
                rows.convert(item.node)  # a plainer reason, such as an unknown name, comes first
        raise QuestionError(*_NO_AGGREGATE)
    sets = grouping_sets(select, items, rows)
    nodes = list({id(node): node for nodes in sets for node in nodes}.values())
    results: dict[Expression, str] = {}
    for item in items if nodes else ():
        if not has_aggregate(item.node):
            with contextlib.suppress(QuestionError):  # said when the results are resolved
                results.setdefault(rows.convert(item.node), item.name)
    keys: dict[str, Expression] = {}
    taken: set[str] = set()
    for node in nodes:
        unit = rows.unit(node)
        expression = None if unit else rows.convert(node)
        if expression is None or rows.context.is_link(expression):
            text = shown(node)
            what = f"the unit, {text}," if unit else f"{text}, a key that belongs to one unit,"
            inner = f"(SELECT {text}, COUNT(*) AS n … GROUP BY {text}) AS t"
            raise QuestionError(
                f"Grouping by {what} would give an answer about each individual.",
                f"Individuals are never shown. Aggregate their numbers: SELECT AVG(CLIP(n, 0, 20)) FROM {inner}.",  # noqa: S608
            )
        if not columns_in(expression):
            if len(nodes) > 1 and len(sets) == 1:
                continue  # one value for all rows makes no groups
            raise QuestionError(f"GROUP BY {shown(node)} has one group, the same for all rows.", "Leave it out.")
        if expression not in keys.values():
            # without a result, as the analyst wrote it: of a column its name, of anything else its text
            is_column = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)
            written = results.get(expression) or (identifier(node.this) if is_column else shown(node))
            name, number = written, 2
            while name.casefold() in taken:
                name, number = f"{written}_{number}", number + 1
            taken.add(name.casefold())
            keys[name] = expression
    if len(sets) == 1:
        return list(keys.items()), None
    indices = {expression: index for index, expression in enumerate(keys.values())}
    return list(keys.items()), tuple(tuple(sorted({indices[rows.convert(node)] for node in nodes})) for nodes in sets)


# The names of a SELECT over answers: columns, or after GROUP BY keys and folds


class _OverRows(Rows):
    """Expressions over rows of answers, in which results may be called by their names."""

    def __init__(self, context: Context, scope: Scope, windows: Windows | None, *, windowed: bool = True) -> None:
        super().__init__(context, scope)
        self._windows = windows
        self._windowed = windowed

    def convert(self, node: object) -> Expression:
        """Return our expression for a node; nothing is remembered, because names may change their meaning."""
        if isinstance(node, exp.Window):
            if self._windows is None or not self._windowed:
                raise QuestionError("Window functions come after WHERE and GROUP BY.", "Use QUALIFY, or two SELECTs.")
            return self._windows.column(node, self.convert)
        if isinstance(node, exp.Subquery) and self._windows is not None:
            return self._windows.value(node)
        return Converter.convert(self, node)


class _Regrouping(Grouped):
    """Expressions over keys and aggregates of answers."""

    def __init__(self, select: exp.Select, items: Sequence[Projection], rows: _OverRows, windows: Windows) -> None:
        keys = dict.fromkeys(map(rows.convert, single_set(select, items, rows)))
        columns = [Column(rows.context.fresh("key"), key.type) for key in keys]
        super().__init__(rows, [(column.name, key) for column, key in zip(columns, keys, strict=True)], columns)
        self.windows = windows
        self._folds: dict[Window, str] = {}

    def table(self, table: AnswerTable) -> Regrouped:
        """Return the groups of a table with all folds that were asked for."""
        folds = tuple((name, window) for window, name in self._folds.items())
        return Regrouped(source=table, keys=self.named_keys, folds=folds, whole=not self.keys)

    def aggregate(self, node: exp.Expr) -> Expression:
        if (sums := rewritten_aggregate(node, spread=True)) is not None:
            return self.convert(sums)
        kind, argument = fold(node, self.rows.convert)
        window = Window(kind=kind, argument=argument, partition=tuple(self.keys))
        return Column(self._folds.setdefault(window, self.context.fresh(kind)), window.type)


# ORDER BY and LIMIT


def _ordered(query: exp.Query, items: Sequence[Projection], names: Grouped | _OverRows) -> tuple[Ordering, ...]:
    """Return ORDER BY; in it a number is a result, ALL every result in turn, and results are named before columns."""
    if not has(query, "order"):
        return ()
    orderings = []
    for node in ordered_by(query.args["order"]):
        target = node.this
        results: Sequence[Projection] = ()
        if isinstance(target, exp.Var) and str(target.this).upper() == "ALL":
            results = items
        elif isinstance(target, exp.Literal) and not target.is_string:
            results = [ordinal(target, items)]
        names.aliases_first = not results
        targets = [item.node for item in results] or [target]
        orderings += [Ordering(by=names.convert(by), **direction(node)) for by in targets]
        names.aliases_first = True
    return tuple(orderings)


def _rows_of(clause: exp.Expr | None, names: Converter) -> int | None:
    """Return the number of rows that LIMIT, OFFSET, FETCH FIRST 3 ROWS ONLY or FETCH FIRST ROW ONLY names."""
    if clause is None:
        return None
    if isinstance(options := clause.args.get("limit_options"), exp.LimitOptions):
        only(options, "rows")
    only(clause, "direction", "count", "expression", "limit_options")
    node = clause.args.get("expression") or clause.args.get("count") or exp.Literal.number(1)
    number = names.convert(node) if isinstance(node, exp.Literal | exp.Placeholder) else None
    value = number.value if isinstance(number, Literal) else None
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= _MAX_LIMIT:
        raise QuestionError(f"LIMIT and OFFSET need a whole number of at least 0; got {shown(node)}.")
    return value.numerator


# FROM answers


def scan_of(table: AnswerTable) -> Scan:
    """Return a stand-in for the relation of a table of answers, which knows the types of its columns."""
    columns = tuple((column.name, column.name, column.type) for column in columns_of(table))
    return Scan(table="answers", public=True, columns=columns)


def _from_answers(select: exp.Select, context: Context, parts: Parts) -> tuple[AnswerTable, Scope]:
    clause = select.args["from_"]
    only(clause, "this")
    table, source = answer_item(clause.this, context, parts)
    scope = Scope(scan_of(table), [source], settled=True)
    for join in select.args.get("joins") or ():
        joined, source = answer_item(join.this, context, parts)
        second = Scope(scan_of(joined), [source])
        where = select.args.get("where")
        if is_cross(join) and where is not None:  # FROM a, b WHERE a.key = b.key
            condition = on(scope, second, _between(conjuncts(where.this), scope, second), context)
        else:
            condition = condition_of(scope, second, join, context)
        table, scope = _joined(join, table, scope, joined, second, condition)
    return table, scope


def answer_item(node: exp.Expr, context: Context, parts: Parts) -> tuple[AnswerTable, FromSource]:
    """Return an item of FROM as a table of answers (a public table as a list of keys), with its column names."""
    if not is_finished(node, context, parts):
        node = _public_rows(node, context, parts)
    default: str | None = None
    if isinstance(node, exp.Table):
        only(node, "this", "alias")
        part = part_of(node, parts)
        assert part is not None  # noqa: S101 - only parts of WITH are finished
        part.used = True
        earlier = context.answers.get(part)
        answers = answers_of(part.query, context, part.parts) if earlier is None else earlier
        names = list(named_source(answers.names, "WITH", part.columns).names.values())
        table, context.answers[part] = answers.table, answers
        if earlier is not None:  # read twice: each has names of its own
            columns = [column.column for column in columns_of(table)]
            fresh = {column.name: context.fresh(column.name) for column in columns}
            table = Computed(source=table, columns=tuple((fresh[column.name], column) for column in columns))
            names = [(name, fresh[str(unique)]) for name, unique in names]
        default = identifier(node.this)
    elif isinstance(node, exp.Subquery):
        only(node, "this", "alias", "with_")
        answers = answers_of(node.this, context, with_parts(node, context, parts))
        names, table = list(answers.names), answers.table
    else:
        raise refuse(node)
    alias, renamed = alias_of(node)
    return table, named_source(names, alias or default, renamed)


def _between(conditions: list[exp.Expr], *sides: Scope) -> list[exp.Expr]:
    """Return the equalities of a column of one side and one of the other."""
    equalities = [node for node in conditions if isinstance(node, exp.EQ)]
    holders = [[owners(column_name(side), sides) for side in (node.this, node.expression)] for node in equalities]
    return [node for node, held in zip(equalities, holders, strict=True) if held in ([{0}, {1}], [{1}, {0}])]


def _public_rows(node: exp.Expr, context: Context, parts: Parts) -> exp.Expr:
    """Return a public table as a question that asks for its rows as keys: they are listed, and cost nothing."""
    scope = from_item(node, context.trial(), parts)
    if scope.private:
        raise QuestionError(
            f"{shown(node)} has rows of units, which cannot meet noisy answers.",
            "Ask for the number first, and write it, or pass it as a parameter. Where the answer has keys, join the "
            "tables in the question itself, before it aggregates.",
        )
    if not isinstance(scope.relation, Scan):
        raise QuestionError(
            f"Answers are joined with answers, and with public tables as they are stored; got {shown(node)}.",
            "Join the public table itself, and put its conditions into WHERE.",
        )
    names = [name for source in scope.sources for key, (name, _) in source.names.items() if key not in source.hidden]
    alias = exp.to_identifier(scope.sources[0].alias or "_public", quoted=True)
    columns = [exp.column(name, table=alias.copy(), quoted=True) for name in names]
    # a question needs a private table; with public keys alone it costs nothing (`at_price`)
    private = next(table.name for table in context.schema.tables.values() if not table.public)
    rows = exp.alias_(exp.Table(this=exp.to_identifier(private, quoted=True)), "_rows", table=True)
    public = node.copy()
    public.set("alias", exp.TableAlias(this=alias.copy()))
    # all columns, so that rows which agree on those that are read stay apart; after LEFT JOIN NULL is a key, too, and
    # the row of NULLs alone that it adds is left out
    keys = exp.select(*columns).from_(rows).join(public, on=exp.true(), join_type="LEFT").group_by(*columns)
    keys = keys.having(exp.or_(*(column.is_(exp.null()).not_() for column in columns)))
    return keys.subquery(exp.TableAlias(this=alias))


def _joined(
    join: exp.Join, table: AnswerTable, first: Scope, joined: AnswerTable, second: Scope, condition: Condition
) -> tuple[AnswerTable, Scope]:
    side, half = kind_of(join)
    if half is not None:
        raise QuestionError(f"{shown(join)} is not supported over answers.", "Use JOIN, LEFT JOIN or FULL JOIN.")
    if side == "FULL" and condition.merged:
        raise QuestionError("FULL JOIN over answers needs ON.", "Write ON a.key = b.key, and COALESCE(a.key, b.key).")
    pairs: list[tuple[str, str]] = []
    further = list(condition.further)
    for a, b in condition.equalities:
        if isinstance(a, Column) and isinstance(b, Column):
            pairs.append((a.name, b.name))
        else:
            further.append(call(Op.EQUAL, a, b))
    if further and side:
        raise QuestionError("An outer join over answers is on equal keys alone.", "Move other conditions to WHERE.")
    if {name for pair in pairs for name in pair} & (noisy_names(table) | noisy_names(joined)):
        raise QuestionError("Answers are joined on keys; noisy numbers are equal by chance.", "Join on the keys.")
    # if the pairs cover a key of one side, each row of the other meets one row at most
    keys, joined_keys = row_keys(table), row_keys(joined)
    covered = keys is not None and keys <= {mine for mine, _ in pairs}
    if not covered and (joined_keys is None or not joined_keys <= {theirs for _, theirs in pairs}):
        raise QuestionError(
            f"{shown(join)} could make many rows of one: it is not on all keys of either side.",
            "Join on all keys of one of the two answers, or with an answer that has one row.",
        )
    if side == "RIGHT":  # a LEFT JOIN with its sides exchanged
        table = Matched(left=joined, right=table, on=tuple((b, a) for a, b in pairs), how="left")
    else:
        table = Matched(left=table, right=joined, on=tuple(pairs), how=side.lower() or "inner")
    table = within_limit(table)
    for test in further:
        table = Qualified(source=table, condition=test)
    return table, replace(beside(first, second, scan_of(table), condition, side), settled=True)


# UNION of answers


def _union(query: exp.SetOperation, context: Context, parts: Parts) -> Answers:
    """Return UNION ALL of answers, or UNION: equal rows once."""
    only(query, "this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset")
    if not isinstance(query, exp.Union):
        raise QuestionError(
            f"{type(query).__name__.upper()} of answers is not supported: noisy numbers are equal by chance.",
            "Join them on their keys: FROM (SELECT …) AS a JOIN (SELECT …) AS b ON a.key = b.key, or for what the "
            "second has not LEFT JOIN … WHERE b.key IS NULL.",
        )
    once = has(query, "distinct")
    answers: list[Answers] = []
    for member in members_of(query):
        keyed = isinstance(member, exp.Select) and not has(member, "group", "distinct")
        if once and keyed:  # SELECT a FROM … is the same as SELECT DISTINCT a FROM … in a UNION
            member = member.copy()  # noqa: PLW2901
            member.set("distinct", exp.Distinct())
        answers.append(answers_of(member, context, parts))
    union = _stacked(answers, context)
    labels = [label for label, _ in union.names]
    if once:
        columns = columns_of(union.table)
        outputs = [(label, column.column) for label, column in zip(labels, columns, strict=True)]
        union = select_results(union.table, outputs, context, distinct=True)
    if has(query, "order", "limit", "offset"):
        scope = Scope(scan_of(union.table), [named_source(union.names, None)], settled=True)
        rows = _OverRows(context, scope, None)
        items = [Projection(label, exp.column(label, quoted=True), named=True) for label in labels]
        limit, offset = _rows_of(query.args.get("limit"), rows), _rows_of(query.args.get("offset"), rows)
        union.table = Sorted(source=union.table, order=_ordered(query, items, rows), limit=limit, offset=offset or 0)
    return union


def _stacked(answers: Sequence[Answers], context: Context) -> Answers:
    """Return answers one below the other, with the names of the first; refuse columns of kinds that do not mix."""
    if len({len(each.names) for each in answers}) > 1:
        raise QuestionError("The parts of UNION ALL have different numbers of results.", "Name as many in each.")
    results: list[list[AnswerColumnName]] = []
    for each in answers:
        by_name = {column.name: column for column in columns_of(each.table)}
        results.append([by_name[unique] for _, unique in each.names])
    labels = [label for label, _ in answers[0].names]
    columns = []
    for label, *matching in zip(labels, *results, strict=True):
        types = [column.type for column in matching]
        check_kinds(types, f"The parts of UNION ALL disagree about '{label}':", "Cast it in one of them.")
        kind = types[0].kind if all(type_.kind is types[0].kind for type_ in types) else Kind.DECIMAL
        type_ = Type(kind, written=written_in(types))
        noise = any(column.noisy for column in matching)
        columns.append(AnswerColumnName(name=context.fresh(label), type=type_, noisy=noise))
    tables = []
    for each, own in zip(answers, results, strict=True):
        renamed = tuple(
            (context.fresh(label), column.column) for (label, _), column in zip(each.names, own, strict=True)
        )
        tables.append(Computed(source=each.table, columns=renamed))
    if len({label.casefold() for label in labels}) < len(labels):
        raise QuestionError("Two results have one name.", "Give one another name with AS.")
    names = [(label, column.name) for label, column in zip(labels, columns, strict=True)]
    return Answers(within_limit(Stacked(sources=tuple(tables), columns=tuple(columns))), names)
