"""A finished question: one SELECT with aggregates over rows, with noisy answers.

HAVING, ORDER BY, LIMIT, arithmetic and window functions read released answers alone. ROLLUP, CUBE and GROUPING SETS
ask for several lists of keys at once: one question for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from hush.query.answers.tree import AnswerTable, Window
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op, Released
from hush.query.functions import call, constant
from hush.query.question import Aggregate, Ordering, Question
from hush.query.relations import Named, Relation, pruned, scans, used
from hush.query.schema import Schema
from hush.query.sql.allow_list import identifier, is_set, is_star, only, refuse, shown
from hush.query.sql.expressions import Converter, Rows
from hush.query.sql.from_clause import check_select, from_clause
from hush.query.sql.functions import has_aggregate
from hush.query.sql.group_by import (
    Grouped,
    Projection,
    grouping_sets,
    is_constant,
    ordinal,
    projections,
    read_aggregate,
    typed_aggregate,
)
from hush.query.sql.names import Context, Parts
from hush.query.sql.windows import Windows
from hush.query.types import Kind, Type

MAX_OUTPUTS = 200
MAX_LIMIT = 2**31 - 1
BIT = Type(Kind.INTEGER, nullable=False, lower=Fraction(0), upper=Fraction(1), step=Fraction(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A SELECT with aggregates over rows.

    Outputs, QUALIFY and ORDER BY read what the question releases, and the columns that windows and GROUPING make.
    """

    question: Question
    windows: tuple[tuple[str, Window], ...]
    qualify: Expression | None
    sets: tuple[tuple[int, ...], ...] | None
    """The keys of each grouping set, by their index; None where there is one list of keys."""
    grouping: tuple[str, ...]
    """For each key the column that says whether it is left out of a row's grouping set."""
    distinct: bool
    beside: Callable[[AnswerTable], AnswerTable]
    """Puts the values of subqueries beside the released answers."""


def finished(select: exp.Select, context: Context, parts: Parts) -> Finished:
    """Return the question that a SELECT over rows asks."""
    select, distinct = _without_distinct(select)
    windows = Windows(select, context, parts)
    plain = select.copy() if is_set(select.args.get("qualify")) or is_set(select.args.get("windows")) else select
    plain.set("qualify", None)
    plain.set("windows", None)
    check_select(plain)
    check_outputs(select)
    scope = from_clause(select, context, parts)
    if not scope.private:
        raise QuestionError(
            "The question reads public tables only, which need no protection and are not answered here.",
            "Read them directly, or join them with a private table.",
        )
    rows = Rows(context, scope)
    items = projections(select)
    keys, sets = _keys(select, items, rows)
    grouping = () if sets is None else tuple(context.fresh("grouping") for _ in keys)
    answers = _Answers(rows, keys, windows, grouping)
    outputs: list[Named] = []
    for item in items:
        outputs.append((item.name, answers.convert(item.node)))
        answers.results |= {item.name.casefold(): item.node} if item.named else {}
    answers.aliases = {item.name.casefold(): item.node for item in items if item.named}
    having = select.args.get("having")
    before = len(windows.made)
    has_window = having is not None and any(isinstance(child, exp.Window) for child in having.walk())
    condition = None if has_window else answers.condition_of(select, "having")
    if has_window or len(windows.made) > before or used([condition]) & set(windows.made.values()):
        raise QuestionError("HAVING comes before window functions.", "Write QUALIFY in place of HAVING.")
    qualify = answers.condition_of(select, "qualify")
    answers.aliases_first = True
    order = ordered(select, items, answers)
    if not answers.aggregates and not keys:
        raise _no_aggregate()
    check_rows_as_units(scope.relation, context.schema)
    expressions = [condition, qualify, *(output for _, output in outputs), *(ordering.by for ordering in order)]
    values = {column.name for _, column in windows.asked.values()}
    if used(expressions) - set(windows.made.values()) - set(grouping) - values:
        raise QuestionError("The question would show columns of rows.")  # cannot happen; nothing may depend on that
    question = Question(
        data=context.schema.data,
        relation=scope.relation,
        keys=tuple(keys),
        aggregates=tuple(answers.aggregates),
        outputs=tuple(outputs),
        having=condition,
        order=order,
        limit=counted(select, "limit", answers),
        offset=counted(select, "offset", answers) or 0,
    )
    return Finished(
        question=pruned_question(question, question.keys),
        windows=tuple((name, window) for window, name in windows.made.items()),
        qualify=qualify,
        sets=sets,
        grouping=grouping,
        distinct=distinct,
        beside=windows.beside,
    )


def pruned_question(question: Question, keys: tuple[Named, ...]) -> Question:
    """Return a question with these keys, over the columns that it needs."""
    expressions: list[Expression | None] = [key for _, key in keys]
    for aggregate in question.aggregates:
        expressions += [*aggregate.arguments, aggregate.where]
    return replace(question, keys=keys, relation=pruned(question.relation, used(expressions)))


def check_outputs(select: exp.Select, *, stars: bool = False) -> None:
    """Refuse too many results, and * over rows."""
    if len(select.expressions) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(select.expressions)} results; the limit is {MAX_OUTPUTS}.")
    for output in () if stars else filter(is_star, select.expressions):
        raise refuse(output if isinstance(output, exp.Star) else output.this)


def check_rows_as_units(relation: Relation, schema: Schema) -> None:
    """Refuse to read a table twice in which every row is a unit: the two copies of a row would pass for two units."""
    read: set[str] = set()
    for scan in scans(relation):
        if not scan.public and schema.tables[scan.table].unit is None and scan.table in read:
            raise QuestionError(
                f"Every row of {scan.table} is a unit, so the table can be read only once in a question.",
                "Use FILTER or CASE instead of UNION ALL.",
            )
        read.add(scan.table)


def _without_distinct(select: exp.Select) -> tuple[exp.Select, bool]:
    """Return ``SELECT DISTINCT a, b`` as ``SELECT a, b … GROUP BY a, b``: the keys that there are.

    Of answers equal rows are left out afterwards; then the second result is true.
    """
    distinct = select.args.get("distinct")
    if not isinstance(distinct, exp.Distinct) or is_set(distinct.args.get("on")):
        return select, False
    plain = select.copy()
    plain.set("distinct", None)
    grouped = is_set(select.args.get("group")) or is_set(select.args.get("having"))
    if grouped or any(has_aggregate(node) for node in select.expressions):
        return plain, True
    ordinals = [exp.Literal.number(number) for number in range(1, len(select.expressions) + 1)]
    plain.set("group", exp.Group(expressions=ordinals))
    return plain, False


def _no_aggregate() -> QuestionError:
    return QuestionError(
        "The question has no aggregate, so it would show single rows.",
        "Rows are never shown. Ask for instance SELECT COUNT(*), AVG(x) FROM …",
    )


def _keys(
    select: exp.Select, items: Sequence[Projection], rows: Rows
) -> tuple[list[Named], tuple[tuple[int, ...], ...] | None]:
    """Return the keys of GROUP BY, named after their results, and for each grouping set the places of its keys."""
    aggregated = any(has_aggregate(item.node) for item in items)
    if select.args.get("group") is None and not aggregated and not select.args.get("having"):
        for item in items:
            named = any(isinstance(child, exp.Column | exp.Anonymous) for child in item.node.walk())
            if named and not isinstance(item.node, exp.Query):
                rows.convert(item.node)  # a plainer reason, such as an unknown name, comes first
        raise _no_aggregate()
    sets = grouping_sets(select, items, rows)
    nodes = list({id(node): node for nodes in sets for node in nodes}.values())
    results: list[tuple[str, Expression]] = []
    for item in items if nodes else ():
        if not has_aggregate(item.node):
            try:
                results.append((item.name, rows.convert(item.node)))
            except QuestionError:
                continue  # said when the results are resolved
    keys: list[Named] = []
    names: set[str] = set()
    for node in nodes:
        text = shown(node)
        unit = rows.unit(node)
        expression = None if unit else rows.convert(node)
        if expression is None or (isinstance(expression, Column) and expression.name in rows.context.links):
            what = (
                f"the unit, {text}, would give an answer about each individual."
                if unit
                else f"{text}, a key that belongs to one unit, would give an answer about each of them."
            )
            inner = f"(SELECT {text}, COUNT(*) AS n … GROUP BY {text}) AS t"
            raise QuestionError(
                f"Grouping by {what}",
                f"Individuals are never shown. Aggregate their numbers: SELECT AVG(CLIP(n, 0, 20)) FROM {inner}.",  # noqa: S608
            )
        if is_constant(expression):
            if len(nodes) > 1 and len(sets) == 1:
                continue  # one value for all rows makes no groups
            raise QuestionError(f"GROUP BY {text} has one group, the same for all rows.", "Leave it out.")
        if any(expression == key for _, key in keys):
            continue
        name = next((name for name, result in results if result == expression), "")
        if not name:  # as the analyst wrote it: of a column its name, of anything else its text
            is_column = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)
            name = identifier(node.this) if is_column else text
        base, number = name, 2
        while name.casefold() in names:
            name, number = f"{base}_{number}", number + 1
        names.add(name.casefold())
        keys.append((name, expression))
    if len(sets) == 1:
        return keys, None
    indices = {expression: index for index, (_, expression) in enumerate(keys)}
    return keys, tuple(tuple(sorted({indices[rows.convert(node)] for node in nodes})) for nodes in sets)


class _Answers(Grouped):
    """Expressions over keys and noisy aggregates."""

    def __init__(self, rows: Rows, keys: Sequence[Named], windows: Windows, grouping: tuple[str, ...]) -> None:
        super().__init__(rows, [expression for _, expression in keys])
        self.aggregates: list[Aggregate] = []
        self._windows = windows
        self._grouping = grouping

    def convert(self, node: object) -> Expression:
        """Return an expression over released answers; window functions and GROUPING are columns of their own."""
        if isinstance(node, exp.Window):
            return self._windows.column(node, self.convert)
        if isinstance(node, exp.Subquery):
            return self._windows.value(node)
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouped_by(node)
        return super().convert(node)

    def _grouped_by(self, node: exp.Expr) -> Expression:
        """Return GROUPING(a, b): a bit for each key, the last one lowest, which is 1 where the key is left out."""
        only(node, "expressions")
        bits: Expression = constant(Fraction(0))
        for argument in node.expressions:
            expression = self.rows.convert(argument)
            if expression not in self.keys:
                raise QuestionError(f"{shown(argument)} is not in GROUP BY.", "GROUPING takes keys of GROUP BY.")
            index = self.keys.index(expression)
            bit: Expression = Column(self._grouping[index], BIT) if self._grouping else constant(Fraction(0))
            if len(node.expressions) == 1:
                return bit
            bits = call(Op.ADD, call(Op.MULTIPLY, bits, constant(Fraction(2))), bit)
        return bits

    def key(self, index: int) -> Expression:
        return Released("key", index, self.keys[index].type)

    def aggregate(self, node: exp.Expr) -> Expression:
        aggregate = typed_aggregate(read_aggregate(node, self.rows), node)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return Released("aggregate", self.aggregates.index(aggregate), aggregate.type)


class Aliased(Protocol):
    """A reader of expressions in which results may be called by their names."""

    aliases_first: bool

    def convert(self, node: object) -> Expression:
        """Return our expression for a node."""


def ordered(select: exp.Query, items: Sequence[Projection], answers: Aliased) -> tuple[Ordering, ...]:
    """Return ORDER BY; in it a number is a result, and ALL every result in turn."""
    clause = select.args.get("order")
    if clause is None:
        return ()
    only(clause, "expressions")
    orderings = []
    for node in clause.expressions:
        if not isinstance(node, exp.Ordered):
            raise refuse(node)
        only(node, "this", "desc", "nulls_first")
        target = node.this
        results: Sequence[Projection] = ()
        if isinstance(target, exp.Var) and str(target.this).upper() == "ALL":
            results = items
        elif isinstance(target, exp.Literal) and not target.is_string:
            results = [ordinal(target, items)]
        answers.aliases_first = not results
        expressions = [answers.convert(item.node) for item in results] if results else [answers.convert(target)]
        answers.aliases_first = True
        descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        orderings += [Ordering(by=by, descending=descending, nulls_first=first) for by in expressions]
    return tuple(orderings)


def counted(select: exp.Query, name: str, converter: Converter) -> int | None:
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
    number = converter.convert(node)
    value = number.value if isinstance(number, Literal) else None
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= MAX_LIMIT:
        raise QuestionError(f"{name.upper()} needs a whole number of at least 0; got {shown(node)}.")
    return value.numerator
