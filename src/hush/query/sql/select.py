"""The question itself: one SELECT with aggregates, and what is done with the noisy answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.core import HushError
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Released
from hush.query.pruning import pruned, used
from hush.query.question import Aggregate, Ordering, Question, RowQuestion
from hush.query.relations import Filter, Join, Named, PerUnit, Project, Relation, Scan, UnionAll, private
from hush.query.relations import columns as columns_of
from hush.query.schema import Schema
from hush.query.sql.aggregates import read, typed
from hush.query.sql.expressions import Converter, Rows, has_aggregate
from hush.query.sql.grouping import Grouped, Projection, group_items, is_constant, ordinal, projections
from hush.query.sql.nodes import STATEMENTS, is_set, only, refuse, shown
from hush.query.sql.parameters import Binder, Parameters
from hush.query.sql.reading import size
from hush.query.sql.scope import Context
from hush.query.sql.sources import NO_PARTS, check_select, check_unused, derived, from_clause, with_parts

MAX_OUTPUTS = 200
MAX_LIMIT = 2**31 - 1


def resolve(node: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "") -> Question:
    """Return the question that a tree asks."""
    context = Context(schema=schema, binder=Binder(parameters))
    with _refusing():
        question = _resolve(node, context, text)
    context.binder.check_all_used()
    return replace(question, text=text + context.binder.written())


def resolve_rows(node: exp.Expr, schema: Schema, parameters: Parameters = (), text: str = "") -> RowQuestion:
    """Return the rows that a tree names; the unit's own name among the results of ``*`` is left out."""
    context = Context(schema=schema, binder=Binder(parameters))
    with _refusing():
        table = derived(node, context, NO_PARTS)
        check_unused(context)
        _check_rows_as_units(table.relation, schema)
    context.binder.check_all_used()
    if not private(table.relation):
        raise QuestionError("The question reads public tables only, which need no protection.", "Read them directly.")
    types = columns_of(table.relation)
    shown_columns = [(label, unique) for label, unique in table.names if isinstance(unique, str)]
    if not shown_columns:
        raise QuestionError("The question names no columns beside the unit.", "Write SELECT age, city FROM …")
    if len(shown_columns) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(shown_columns)} columns; the limit is {MAX_OUTPUTS}.")
    repeated = {label for label, _ in shown_columns if sum(label == other for other, _ in shown_columns) > 1}
    if repeated:
        raise QuestionError(f"Two columns are called '{min(repeated)}'.", "Give each its own name: SELECT x AS y.")
    return RowQuestion(
        data=schema.data,
        relation=table.relation,
        columns=tuple((label, Column(unique, types[unique])) for label, unique in shown_columns),
        text=text + context.binder.written(),
    )


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a tree of a shape nobody has met like all that is not understood. The tests check that none is known."""
    try:
        yield
    except HushError:
        raise
    except RecursionError:
        raise QuestionError("The question is nested too deeply.", "Name its parts with WITH.") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise QuestionError("The question could not be understood.") from error


def _resolve(node: exp.Expr, context: Context, text: str) -> Question:
    while isinstance(node, exp.Subquery):
        only(node, "this")
        node = node.this
    if isinstance(node, exp.SetOperation):
        raise QuestionError(
            f"{type(node).__name__.upper()} of answers is not supported.",
            "Ask two questions, or put UNION ALL of the rows into FROM (… UNION ALL …).",
        )
    if not isinstance(node, exp.Select):
        raise QuestionError(f"{type(node).__name__} is not a question. {STATEMENTS}")
    context.spend(size(node))
    node = _without_distinct(node)
    check_select(node)
    if len(node.expressions) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(node.expressions)} results; the limit is {MAX_OUTPUTS}.")
    for output in node.expressions:
        if isinstance(output, exp.Star) or (isinstance(output, exp.Column) and isinstance(output.this, exp.Star)):
            raise refuse(output if isinstance(output, exp.Star) else output.this)
    scope = from_clause(node, context, with_parts(node, context, NO_PARTS))
    if not scope.private:
        raise QuestionError(
            "The question reads public tables only, which need no protection and are not answered here.",
            "Read them directly, or join them with a private table.",
        )
    rows = Rows(context, scope)
    items = projections(node)
    keys = _keys(node, items, rows)
    answers = _Answers(rows, keys)
    answers.results = frozenset(item.name.casefold() for item in items if item.named)
    outputs = tuple((item.name, answers.convert(item.node)) for item in items)
    answers.aliases = {item.name.casefold(): item.node for item in items if item.named}
    having = node.args.get("having")
    condition = None
    if having is not None:
        only(having, "this")
        condition = answers.condition(having.this)
    answers.aliases_first = True
    order = _order(node, items, answers)
    if not answers.aggregates and not keys:
        raise _no_aggregate()
    check_unused(context)
    _check_rows_as_units(scope.relation, context.schema)
    if used([condition, *(expression for _, expression in outputs), *(ordering.by for ordering in order)]):
        raise QuestionError("The question would show columns of rows.")  # cannot happen; nothing may depend on that
    needed = used(
        [
            *(expression for _, expression in keys),
            *(argument for aggregate in answers.aggregates for argument in aggregate.arguments),
            *(aggregate.where for aggregate in answers.aggregates),
        ]
    )
    return Question(
        data=context.schema.data,
        relation=pruned(scope.relation, needed),
        keys=tuple(keys),
        aggregates=tuple(answers.aggregates),
        outputs=outputs,
        having=condition,
        order=order,
        limit=_count(node, "limit", answers),
        offset=_count(node, "offset", answers) or 0,
        text=text,
    )


def _check_rows_as_units(relation: Relation, schema: Schema) -> None:
    """Refuse to read a table twice in which every row is a unit: the two copies of a row would pass for two units."""
    seen: set[str] = set()
    stack = [relation]
    while stack:
        node = stack.pop()
        match node:
            case Scan():
                if not node.public and schema.tables[node.table].unit is None and node.table in seen:
                    raise QuestionError(
                        f"Every row of {node.table} is a unit, so the table can be read only once in a question.",
                        "Use FILTER or CASE instead of UNION ALL.",
                    )
                seen.add(node.table)
            case Join():
                stack += [node.left, node.right]
            case UnionAll():
                stack += node.sources
            case Filter() | Project() | PerUnit():
                stack.append(node.source)


def _without_distinct(select: exp.Select) -> exp.Select:
    """Return ``SELECT DISTINCT a, b`` as ``SELECT a, b … GROUP BY a, b``: which keys there are."""
    distinct = select.args.get("distinct")
    if not isinstance(distinct, exp.Distinct) or is_set(distinct.args.get("on")):
        return select
    group = select.args.get("group")
    grouped = group is not None or is_set(select.args.get("having"))
    if grouped or any(has_aggregate(node) for node in select.expressions):
        return select
    plain = select.copy()
    plain.set("distinct", None)
    results = range(1, len(select.expressions) + 1)
    plain.set("group", exp.Group(expressions=[exp.Literal.number(place) for place in results]))
    return plain


def _no_aggregate() -> QuestionError:
    return QuestionError(
        "The question has no aggregate, so it would return the rows of individuals.",
        "Ask for instance SELECT COUNT(*), AVG(x) FROM …",
    )


def _keys(select: exp.Select, items: Sequence[Projection], rows: Rows) -> list[Named]:
    """Return the keys of GROUP BY, each named after the result that shows it."""
    if (
        select.args.get("group") is None
        and not any(has_aggregate(i.node) for i in items)
        and not select.args.get("having")
    ):
        for item in items:
            named = any(isinstance(part, exp.Column | exp.Anonymous) for part in item.node.walk())
            if named and not isinstance(item.node, exp.Query):
                rows.convert(item.node)  # a plainer reason, such as an unknown name, comes first
        raise _no_aggregate()
    shown_as: list[tuple[str, Expression]] = []
    found: list[Named] = []
    names: set[str] = set()
    nodes = group_items(select, items, rows)
    for item in items if nodes else ():
        if not has_aggregate(item.node):
            try:
                shown_as.append((item.name, rows.convert(item.node)))
            except QuestionError:
                continue  # said when the results are resolved
    for place, node in enumerate(nodes, start=1):
        if rows.unit(node):
            raise QuestionError(
                f"Grouping by the unit, {shown(node)}, would give an answer about each individual.",
                f"Aggregate within the unit first: FROM (SELECT {shown(node)}, … GROUP BY {shown(node)}).",
            )
        expression = rows.convert(node)
        if is_constant(expression):
            raise QuestionError(f"GROUP BY {shown(node)} has one group, the same for all rows.", "Leave it out.")
        if any(expression == known for _, known in found):
            continue
        name = next((name for name, known in shown_as if known == expression), "")
        name = name or (expression.name if isinstance(expression, Column) else f"key_{place}")
        base, number = name, 2
        while name.casefold() in names:
            name, number = f"{base}_{number}", number + 1
        names.add(name.casefold())
        found.append((name, expression))
    return found


class _Answers(Grouped):
    """Expressions over keys and noisy aggregates."""

    def __init__(self, rows: Rows, keys: Sequence[Named]) -> None:
        super().__init__(rows, [expression for _, expression in keys])
        self.aggregates: list[Aggregate] = []

    def key(self, index: int) -> Expression:
        return Released("key", index, self.keys[index].type)

    def aggregate(self, node: exp.Expr) -> Expression:
        found = typed(read(node, self.rows), node)
        if found not in self.aggregates:
            self.aggregates.append(found)
        return Released("aggregate", self.aggregates.index(found), found.type)


def _order(select: exp.Select, items: Sequence[Projection], answers: _Answers) -> tuple[Ordering, ...]:
    clause = select.args.get("order")
    if clause is None:
        return ()
    only(clause, "expressions")
    found = []
    for node in clause.expressions:
        if not isinstance(node, exp.Ordered):
            raise refuse(node)
        only(node, "this", "desc", "nulls_first")
        descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        found += [
            Ordering(by=by, descending=descending, nulls_first=first) for by in _ordered(node.this, items, answers)
        ]
    return tuple(found)


def _ordered(target: exp.Expr, items: Sequence[Projection], answers: _Answers) -> list[Expression]:
    """Return what one part of ORDER BY stands for; ALL for every result in turn."""
    if isinstance(target, exp.Var) and str(target.this).upper() == "ALL":
        chosen = items
    elif isinstance(target, exp.Literal) and not target.is_string:
        chosen = [ordinal(target, items)]
    else:
        return [answers.convert(target)]
    answers.aliases_first = False
    by = [answers.convert(item.node) for item in chosen]
    answers.aliases_first = True
    return by


def _count(select: exp.Select, name: str, converter: Converter) -> int | None:
    """Return the whole number of LIMIT or OFFSET."""
    clause = select.args.get(name)
    if clause is None:
        return None
    options = clause.args.get("limit_options")
    if isinstance(options, exp.LimitOptions):
        if is_set(options.args.get("percent")) or is_set(options.args.get("with_ties")):
            raise QuestionError(
                f"{shown(clause)} is not supported: noisy answers have no ties, and how many there are may be private.",
                "Write a number of rows alone: LIMIT 10.",
            )
        only(options, "rows")
    if isinstance(clause, exp.Fetch):  # FETCH FIRST 3 ROWS ONLY, or FETCH FIRST ROW ONLY
        only(clause, "direction", "count", "limit_options")
        node = clause.args.get("count") or exp.Literal.number(1)
    else:
        only(clause, "expression", "limit_options")
        node = clause.expression
    if not isinstance(node, (exp.Literal, exp.Placeholder)):
        raise QuestionError(f"{name.upper()} needs a whole number; got {shown(node)}.")
    found = converter.convert(node)
    value = found.value if isinstance(found, Literal) else None
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= MAX_LIMIT:
        raise QuestionError(f"{name.upper()} needs a whole number of at least 0; got {shown(node)}.")
    return value.numerator
