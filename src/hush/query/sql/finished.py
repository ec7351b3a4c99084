"""A finished question: one SELECT with aggregates over rows, whose answers are noisy.

What is done with the answers (HAVING, ORDER BY, LIMIT, arithmetic, window functions) reads what was released alone.
ROLLUP, CUBE and GROUPING SETS ask for several lists of keys at once: one question for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.composed import Window
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op, Released
from hush.query.functions import call, constant
from hush.query.question import Aggregate, Ordering, Question
from hush.query.relations import (
    Named,
    Relation,
    pruned,
    scans,
    used,
)
from hush.query.schema import Schema
from hush.query.sql.aggregates import read, typed
from hush.query.sql.expressions import Converter, Rows, has_aggregate
from hush.query.sql.grouping import Grouped, Projection, grouping_sets, is_constant, ordinal, projections
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.scope import Context
from hush.query.sql.sources import Parts, check_select, from_clause
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
    """The keys of each grouping set, by their places; None where there is one list of keys."""
    grouping: tuple[str, ...]
    """For each key the column that says whether it is left out of a row's grouping set."""
    distinct: bool


def finished(select: exp.Select, context: Context, parts: Parts, text: str = "") -> Finished:
    """Return the question that a SELECT over rows asks."""
    select, distinct = _without_distinct(select)
    windows = Windows(select, context)
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
    answers.results = frozenset(item.name.casefold() for item in items if item.named)
    outputs = tuple((item.name, answers.convert(item.node)) for item in items)
    answers.aliases = {item.name.casefold(): item.node for item in items if item.named}
    condition = _having(select, answers, windows)
    qualify = qualified(select, answers)
    answers.aliases_first = True
    order = ordered(select, items, answers)
    if not answers.aggregates and not keys:
        raise _no_aggregate()
    check_rows_as_units(scope.relation, context.schema)
    shown_expressions = [condition, qualify, *(one for _, one in outputs), *(item.by for item in order)]
    if used(shown_expressions) - set(windows.made.values()) - set(grouping):
        raise QuestionError("The question would show columns of rows.")  # cannot happen; nothing may depend on that
    question = Question(
        data=context.schema.data,
        relation=scope.relation,
        keys=tuple(keys),
        aggregates=tuple(answers.aggregates),
        outputs=outputs,
        having=condition,
        order=order,
        limit=counted(select, "limit", answers),
        offset=counted(select, "offset", answers) or 0,
        text=text,
    )
    made = tuple((name, window) for window, name in windows.made.items())
    return Finished(
        question=pruned_question(question, question.keys),
        windows=made,
        qualify=qualify,
        sets=sets,
        grouping=grouping,
        distinct=distinct,
    )


def pruned_question(question: Question, keys: tuple[Named, ...]) -> Question:
    """Return a question with these keys, over the columns that it needs."""
    needed = used(
        [
            *(expression for _, expression in keys),
            *(argument for aggregate in question.aggregates for argument in aggregate.arguments),
            *(aggregate.where for aggregate in question.aggregates),
        ]
    )
    return replace(question, keys=keys, relation=pruned(question.relation, needed))


def check_outputs(select: exp.Select, *, stars: bool = False) -> None:
    """Refuse too many results, and * over rows."""
    if len(select.expressions) > MAX_OUTPUTS:
        raise QuestionError(f"The question has {len(select.expressions)} results; the limit is {MAX_OUTPUTS}.")
    for output in () if stars else select.expressions:
        if isinstance(output, exp.Star) or (isinstance(output, exp.Column) and isinstance(output.this, exp.Star)):
            raise refuse(output if isinstance(output, exp.Star) else output.this)


def _having(select: exp.Select, answers: _Answers, windows: Windows) -> Expression | None:
    having = select.args.get("having")
    if having is None:
        return None
    only(having, "this")
    if any(isinstance(part, exp.Window) for part in having.walk()):
        raise QuestionError("HAVING comes before window functions.", "Write QUALIFY in place of HAVING.")
    before = len(windows.made)
    condition = answers.condition(having.this)
    if len(windows.made) > before or used([condition]) & set(windows.made.values()):
        raise QuestionError("HAVING comes before window functions.", "Write QUALIFY in place of HAVING.")
    return condition


def qualified(select: exp.Select, converter: Converter) -> Expression | None:
    """Return the condition of QUALIFY."""
    clause = select.args.get("qualify")
    if clause is None:
        return None
    only(clause, "this")
    return converter.condition(clause.this)


def check_rows_as_units(relation: Relation, schema: Schema) -> None:
    """Refuse to read a table twice in which every row is a unit: the two copies of a row would pass for two units."""
    seen: set[str] = set()
    for scan in scans(relation):
        if not scan.public and schema.tables[scan.table].unit is None and scan.table in seen:
            raise QuestionError(
                f"Every row of {scan.table} is a unit, so the table can be read only once in a question.",
                "Use FILTER or CASE instead of UNION ALL.",
            )
        seen.add(scan.table)


def _without_distinct(select: exp.Select) -> tuple[exp.Select, bool]:
    """Return ``SELECT DISTINCT a, b`` as ``SELECT a, b … GROUP BY a, b``: which keys there are.

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
    results = range(1, len(select.expressions) + 1)
    plain.set("group", exp.Group(expressions=[exp.Literal.number(place) for place in results]))
    return plain, False


def _no_aggregate() -> QuestionError:
    return QuestionError(
        "The question has no aggregate, so it would return the rows of individuals.",
        "Ask for instance SELECT COUNT(*), AVG(x) FROM …",
    )


def _keys(
    select: exp.Select, items: Sequence[Projection], rows: Rows
) -> tuple[list[Named], tuple[tuple[int, ...], ...] | None]:
    """Return the keys of GROUP BY, each named after the result that shows it, and which of them each set has."""
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
    sets = grouping_sets(select, items, rows)
    nodes = list({id(node): node for nodes in sets for node in nodes}.values())
    for item in items if nodes else ():
        if not has_aggregate(item.node):
            try:
                shown_as.append((item.name, rows.convert(item.node)))
            except QuestionError:
                continue  # said when the results are resolved
    for node in nodes:
        if rows.unit(node):
            raise QuestionError(
                f"Grouping by the unit, {shown(node)}, would give an answer about each individual.",
                f"Aggregate within the unit first: FROM (SELECT {shown(node)}, … GROUP BY {shown(node)}).",
            )
        expression = rows.convert(node)
        if isinstance(expression, Column) and expression.name in rows.context.links:
            raise QuestionError(
                f"Grouping by {shown(node)}, a key that belongs to one unit, would give an answer about each of them.",
                f"Aggregate by it in a subquery first: FROM (SELECT {shown(node)}, … GROUP BY {shown(node)}) AS t.",
            )
        if is_constant(expression) and len(nodes) > 1 and len(sets) == 1:
            continue  # one value for all rows makes no groups
        if is_constant(expression):
            raise QuestionError(f"GROUP BY {shown(node)} has one group, the same for all rows.", "Leave it out.")
        if any(expression == known for _, known in found):
            continue
        name = next((name for name, known in shown_as if known == expression), "")
        name = name or _written_name(node)
        base, number = name, 2
        while name.casefold() in names:
            name, number = f"{base}_{number}", number + 1
        names.add(name.casefold())
        found.append((name, expression))
    if len(sets) == 1:
        return found, None
    place_of = {expression: place for place, (_, expression) in enumerate(found)}
    return found, tuple(tuple(sorted({place_of[rows.convert(node)] for node in nodes})) for nodes in sets)


def _written_name(node: exp.Expr) -> str:
    """Return a key's name as the analyst wrote it: of a column its own, of anything else its text."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return identifier(node.this)
    return shown(node)


class _Answers(Grouped):
    """Expressions over keys and noisy aggregates."""

    def __init__(self, rows: Rows, keys: Sequence[Named], windows: Windows, grouping: tuple[str, ...]) -> None:
        super().__init__(rows, [expression for _, expression in keys])
        self.aggregates: list[Aggregate] = []
        self._windows = windows
        self._grouping = grouping

    def convert(self, node: object) -> Expression:
        """Return an expression over what is released; window functions and GROUPING are columns of their own."""
        if isinstance(node, exp.Window):
            return self._windows.column(node, self.convert)
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouped_by(node)
        return super().convert(node)

    def _grouped_by(self, node: exp.Expr) -> Expression:
        """Return GROUPING(a, b): a bit for each key, the last one lowest, which is 1 where the key is left out."""
        only(node, "expressions")
        found: Expression = constant(Fraction(0))
        for argument in node.expressions:
            expression = self.rows.convert(argument)
            if expression not in self.keys:
                raise QuestionError(f"{shown(argument)} is not in GROUP BY.", "GROUPING takes keys of GROUP BY.")
            place = self.keys.index(expression)
            bit: Expression = Column(self._grouping[place], BIT) if self._grouping else constant(Fraction(0))
            found = (
                bit
                if len(node.expressions) == 1
                else call(Op.ADD, call(Op.MULTIPLY, found, constant(Fraction(2))), bit)
            )
        return found

    def key(self, index: int) -> Expression:
        return Released("key", index, self.keys[index].type)

    def aggregate(self, node: exp.Expr) -> Expression:
        found = typed(read(node, self.rows), node)
        if found not in self.aggregates:
            self.aggregates.append(found)
        return Released("aggregate", self.aggregates.index(found), found.type)


class Aliased(Protocol):
    """What reads expressions in which results may be called by their names."""

    aliases_first: bool

    def convert(self, node: object) -> Expression:
        """Return our expression for a node."""


def ordered(select: exp.Query, items: Sequence[Projection], answers: Aliased) -> tuple[Ordering, ...]:
    """Return ORDER BY."""
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
        found += [Ordering(by=by, descending=descending, nulls_first=first) for by in _by(node.this, items, answers)]
    return tuple(found)


def _by(target: exp.Expr, items: Sequence[Projection], answers: Aliased) -> list[Expression]:
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
    found = converter.convert(node)
    value = found.value if isinstance(found, Literal) else None
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= MAX_LIMIT:
        raise QuestionError(f"{name.upper()} needs a whole number of at least 0; got {shown(node)}.")
    return value.numerator
