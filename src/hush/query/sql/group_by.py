"""GROUP BY: its keys, its aggregates, and the names that may stand after it.

After GROUP BY there are keys, aggregates, constants and functions of these. This serves twice: over the noisy answers
of a question (`hush.query.sql.select`), and over the exact aggregates of one unit, as in ``SELECT patient_id,
COUNT(*) AS n FROM visits GROUP BY patient_id``. Results within a unit are facts about one unit, exact and not yet
released. How many rows a unit has is not known, so a count or sum has no upper bound of its own: CLIP it, or filter
with WHERE or HAVING.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, compress, islice, product
from typing import NamedTuple

from sqlglot import exp

from hush.query.errors import QuestionError, UnboundedError
from hush.query.expressions import Column, Expression, Literal, Op, columns_in, pieces
from hush.query.functions import all_of, call, constant, describe
from hush.query.functions.record import is_null
from hush.query.question import AGGREGATES, BY_KIND, Aggregate, AggregateKind, ArgumentNeed, result_type
from hush.query.refine import narrowed
from hush.query.relations import (
    ExactAggregate,
    ExactKind,
    Filter,
    Named,
    OwnWindow,
    PerUnit,
    Relation,
    RowOrder,
    WindowKind,
    WithWindows,
    columns,
    exact_type,
)
from hush.query.sql.allow_list import ARGUMENT, NEAREST, called, has, identifier, only, refuse, shown
from hush.query.sql.expressions import (
    QUANTILES,
    Converter,
    Rows,
    arguments_of,
    has_aggregate,
    record_of,
    rewritten_aggregate,
)
from hush.query.sql.names import Context, Derived, Scope, projected
from hush.query.sql.windows import Windows, ordered_by
from hush.query.types import Kind, Type

MAX_SETS = 64
MAX_MODES = 100_000
"""The largest number of candidates among which a mode is chosen."""

_K = AggregateKind


# The items of SELECT


class Projection(NamedTuple):
    """One item of SELECT."""

    name: str
    node: exp.Expr
    named: bool
    """Whether the analyst gave the name."""


def projections(select: exp.Select) -> list[Projection]:
    """Return the items of SELECT with their names; an item without one is named after its column or function."""
    items: list[Projection] = []
    taken: set[str] = set()
    nodes = select.expressions if select.find(exp.Array) is None else _single_quantiles(select.expressions)
    for number, node in enumerate(nodes, start=1):
        named = isinstance(node, exp.Alias)
        if named:
            only(node, "this", "alias")
        inner = node.this if named else node
        name = identifier(node.args["alias"]) if named else _default_name(node, number)
        if name.casefold() in taken:
            if named or isinstance(inner, exp.Column):
                raise QuestionError(f"Two results are called '{name}'.", "Give one another name with AS.")
            name = next(f"{name}_{n}" for n in range(2, 10**6) if f"{name}_{n}".casefold() not in taken)
        taken.add(name.casefold())
        items.append(Projection(name, inner, named))
    return items


def _single_quantiles(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return items of SELECT, in which a list of quantiles is an item for each, named by its percents."""
    items: list[exp.Expr] = []
    for number, node in enumerate(nodes, start=1):
        inner = node.this if isinstance(node, exp.Alias) else node
        quantile = inner.this if isinstance(inner, exp.Filter) else inner
        slots = ("quantile", "expression") if isinstance(quantile, QUANTILES) else ()
        slot = next((slot for slot in slots if isinstance(quantile.args.get(slot), exp.Array)), None)
        if slot is None or not quantile.args[slot].expressions:
            items.append(node)
            continue
        base = identifier(node.args["alias"]) if isinstance(node, exp.Alias) else _default_name(node, number)
        for index, fraction in enumerate(quantile.args[slot].expressions, start=1):
            single = inner.copy()
            (single.this if isinstance(single, exp.Filter) else single).set(slot, fraction.copy())
            is_number = isinstance(fraction, exp.Literal) and not fraction.is_string
            percents = f"{float(fraction.this) * 100:g}".replace(".", "_") if is_number else str(index)
            items.append(exp.Alias(this=single, alias=exp.to_identifier(f"{base}_{percents}", quoted=True)))
    return items


def _default_name(node: exp.Expr, number: int) -> str:
    """Return the name of a result that has none: of a column its own, of a function the function's."""
    while isinstance(node, (exp.Paren, exp.Filter, exp.WithinGroup)):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return identifier(node.this)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()[:60] if str(node.this).isidentifier() else f"column_{number}"
    if isinstance(node, exp.Func) and not isinstance(node, (exp.And, exp.Or, exp.Case, exp.Cast)):
        argument = node.args.get("this")
        is_column = isinstance(argument, exp.Column) and isinstance(argument.this, exp.Identifier)
        return (node.sql_name().lower() + (f"_{argument.name.lower()}" if is_column and argument else ""))[:100]
    return f"column_{number}"


def ordinal(node: exp.Literal, items: Sequence[Projection]) -> Projection:
    """Return the item of SELECT that a number stands for."""
    text = str(node.this)
    if not text.isdecimal() or len(text) > 6 or not 1 <= int(text) <= len(items):
        raise QuestionError(f"Result number {text[:20]} does not exist; there are {len(items)}.")
    return items[int(text) - 1]


# Keys


def grouping_sets(select: exp.Select, items: Sequence[Projection], rows: Rows) -> list[list[exp.Expr]]:
    """Return the lists of keys that GROUP BY names: one, or those of ROLLUP, CUBE and GROUPING SETS.

    Several of them stand for all combinations: ``a, ROLLUP (b)`` for (a, b) and (a).
    """
    group = select.args.get("group")
    if group is None:
        return [[]]
    only(group, "expressions", "all", "rollup", "cube", "grouping_sets")
    if has(group, "all"):  # every result that is not an aggregate; a constant has no groups
        nodes = [item.node for item in items if not has_aggregate(item.node)]
        return [[node for node in nodes if node.find(exp.Column)]]
    elements = list(group.expressions)
    for slot in ("rollup", "cube", "grouping_sets"):
        elements += group.args.get(slot) or ()
    last = elements[-1] if elements else None
    if isinstance(last, exp.Rollup | exp.Cube) and not last.expressions:  # GROUP BY a, b WITH ROLLUP
        if len(elements) != len(group.expressions) + 1:
            raise QuestionError("WITH ROLLUP stands at the end of GROUP BY, alone.", "Write GROUP BY ROLLUP (a, b).")
        last.set("expressions", group.expressions)
        elements = [last]

    def key(node: exp.Expr) -> exp.Expr:
        """Return the expression of a key, which may be the number or the name of a result."""
        expression = node
        if isinstance(node, exp.Literal) and not node.is_string:
            expression = ordinal(node, items).node
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.args.get("table"):
            name = identifier(node.this)
            if rows.scope.find(name) is None:
                named = (item.node for item in items if item.named and item.name.casefold() == name.casefold())
                expression = next(named, node)
        if has_aggregate(expression):
            raise QuestionError(
                f"GROUP BY cannot use the aggregate {shown(expression)}.",
                "Aggregate within the unit in a subquery first.",
            )
        return expression

    choices = list(map(_sets_of, elements))
    if math.prod(map(len, choices)) > MAX_SETS:
        raise QuestionError(f"GROUP BY names more than {MAX_SETS} lists of keys.", "Ask for fewer of them.")
    return [list(map(key, chain(*parts))) for parts in product(*choices)]


def single_set(select: exp.Select, items: Sequence[Projection], rows: Rows) -> list[exp.Expr]:
    """Return the one list of keys that GROUP BY names; refuse several."""
    sets = grouping_sets(select, items, rows)
    if len(sets) > 1:
        raise QuestionError("ROLLUP, CUBE and GROUPING SETS stand in a question over rows alone.", "List the keys.")
    return sets[0]


def _sets_of(element: exp.Expr) -> list[list[exp.Expr]]:
    """Return the grouping sets of one element of GROUP BY: those of ROLLUP, …, the keys of ``(a, b)``, or one key."""
    if isinstance(element, exp.Paren):
        return [[element.this]]
    if not isinstance(element, exp.GroupingSets | exp.Rollup | exp.Cube | exp.Tuple):
        return [[element]]
    only(element, "expressions")
    if isinstance(element, exp.Tuple):
        return [element.expressions]
    members = [_sets_of(member) for member in element.expressions]
    if isinstance(element, exp.GroupingSets):
        return list(chain(*members))
    if any(len(sets) != 1 for sets in members):
        raise refuse(element)
    if isinstance(element, exp.Rollup):
        chosen = [members[:size] for size in range(len(members), -1, -1)]
    else:  # of CUBE no more than show that there are too many
        masks = islice(product((True, False), repeat=len(members)), MAX_SETS + 1)
        chosen = [list(compress(members, mask)) for mask in masks]
    # a member of ROLLUP and CUBE is one list of keys
    return [[key for (keys,) in part for key in keys] for part in chosen]


# Aggregates


_untyped = partial(Aggregate, type=Type(Kind.DECIMAL))
"""An aggregate as it is read; it gets its type when its arguments are looked at."""
_OF_DISTINCT = {_K.SUM: _K.SUM_DISTINCT, _K.AVG: _K.AVG_DISTINCT, _K.MIN: _K.MIN, _K.MAX: _K.MAX}
"""Aggregates of distinct values; the least and the greatest value are the same of all rows."""


def read_aggregate(node: exp.Expr, rows: Rows) -> Aggregate:
    """Return the aggregate that a node calls."""
    if isinstance(node, exp.Filter):
        only(node, "this", "expression")
        only(node.expression, "this")
        condition = rows.condition(node.expression.this)
        inner = read_aggregate(node.this, rows.knowing(condition, holds=True))
        return replace(inner, where=condition if inner.where is None else all_of([condition, inner.where]))
    if isinstance(node, exp.Count):
        return _count(node, rows)
    if isinstance(node, (exp.WithinGroup, *QUANTILES)):
        return _quantile(node, rows)
    record = record_of(node)
    if record is None or record.kind is None:
        listed = sorted(each.names[0] for each in AGGREGATES if each.names and each.kind is not None)
        hint = NEAREST.get(called(node).upper()) or f"There are {', '.join(listed)}."
        raise QuestionError(f"There is no aggregate {called(node)} here.", hint)
    kind, argument = record.kind, node.args.get("this")
    if kind in _OF_DISTINCT and isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        only(argument, "expressions")
        kind, node = _OF_DISTINCT[kind], node.copy()
        node.set("this", argument.expressions[0])  # itself and no copy, for it learns its type
    arguments: list[Expression] = []
    for value in map(rows.convert, arguments_of(node, record.arity)):
        is_flag = record.of_booleans and value.type.kind is Kind.BOOLEAN
        arguments.append(call(Op.TO_INTEGER, value) if is_flag else value)
    return _untyped(kind=kind, arguments=tuple(arguments))


def _count(node: exp.Count, rows: Rows) -> Aggregate:
    only(node, "this", "expressions", "big_int")
    argument = node.args.get("this")
    if node.expressions:
        raise QuestionError("COUNT takes one argument; got several.", "Count rows of values: COUNT(DISTINCT (a, b)).")
    if argument is None or isinstance(argument, exp.Star):
        only(argument or node, "big_int")
        return _untyped(kind=_K.COUNT)
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        only(argument, "expressions")
        values = argument.expressions
        argument = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
    where = rows.present(argument) or _unit_where(argument, rows)
    if where is not None:
        always = rows.unit(argument)  # rows without a unit were dropped, so every row has one
        return _untyped(kind=_K.COUNT_UNITS if distinct else _K.COUNT, where=None if always else where)
    if distinct and isinstance(argument, exp.Tuple):
        only(argument, "expressions")
        texts: list[Expression] = []  # each value with its length before it; NULL is a value in a row of values
        for value in map(rows.convert, argument.expressions):
            text = value if value.type.kind is Kind.TEXT else call(Op.TO_TEXT, value)
            length = call(Op.TO_TEXT, call(Op.LENGTH, text))
            texts.append(call(Op.COALESCE, call(Op.CONCAT, length, constant(":"), text), constant("-")))
        return _untyped(kind=_K.COUNT_DISTINCT, arguments=(call(Op.CONCAT, *texts),))
    counted = rows.convert(argument)
    if distinct:
        return _untyped(kind=_K.COUNT_DISTINCT, arguments=(counted,))
    # an argument that cannot be NULL is counted as rows, so that COUNT(x) and COUNT(*) are paid for once
    return _untyped(kind=_K.COUNT, arguments=(counted,) if counted.type.nullable else ())


def _unit_where(node: exp.Expr, rows: Rows) -> Expression | None:
    """Return the condition under which ``CASE WHEN c THEN unit END`` is not NULL; None for other expressions."""
    node = node.unnest()
    if isinstance(node, exp.If):
        branches, default = [node], node.args.get("false")
        only(node, "this", "true", "false")
    elif isinstance(node, exp.Case) and not has(node, "this"):
        branches, default = node.args["ifs"], node.args.get("default")
        only(node, "ifs", "default")
    else:
        return None
    outcomes = [*(branch.args["true"] for branch in branches), default or exp.Null()]
    units = [rows.present(outcome) for outcome in outcomes]
    if not any(units):
        return None
    if not all(unit or isinstance(outcome, exp.Null) for unit, outcome in zip(units, outcomes, strict=True)):
        raise QuestionError(f"{shown(node)} is sometimes the unit and sometimes not.", "Write NULL, or leave ELSE out.")
    conditions = [rows.condition(branch.this) for branch in branches]
    if len(conditions) == 1 and units[0] == constant(True) and default is None:
        return conditions[0]
    *present, otherwise = (unit or constant(False) for unit in units)
    return call(Op.CASE, *chain(*zip(conditions, present, strict=True)), otherwise)


def _quantile(node: exp.Expr, rows: Rows) -> Aggregate:
    """Return QUANTILE(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), or MODE() WITHIN GROUP (ORDER BY x)."""
    descending = False
    if isinstance(node, exp.WithinGroup):
        only(node, "this", "expression")
        inner, order = node.this, ordered_by(node.expression)
        if not isinstance(inner, exp.Mode | exp.PercentileCont | exp.PercentileDisc) or len(order) != 1:
            raise refuse(node)
        argument, descending = order[0].this, bool(order[0].args.get("desc"))
        if isinstance(inner, exp.Mode):
            only(inner)
            return _untyped(kind=_K.MODE, arguments=(rows.convert(argument),))
        only(inner, "this")
        fraction = inner.this
    else:
        only(node, "this", "expression", "quantile")
        argument, fraction = node.this, node.args.get("quantile") or node.args.get("expression")
    if isinstance(fraction, exp.Array):
        raise QuestionError(
            f"A list of quantiles is a result by itself; got {shown(node)}.",
            "Write QUANTILE(x, 0.25), QUANTILE(x, 0.75).",
        )
    value = None if fraction is None else rows.convert(fraction)
    if not isinstance(value, Literal) or not isinstance(value.value, Fraction) or not 0 < value.value < 1:
        raise QuestionError(
            f"A quantile needs a constant between 0 and 1, without these; got {shown(node)}.",
            "Write QUANTILE(x, 0.9), MIN(x) or MAX(x).",
        )
    share = 1 - value.value if descending else value.value
    return _untyped(kind=_K.QUANTILE, arguments=(rows.convert(argument),), fraction=share)


def typed_aggregate(aggregate: Aggregate, node: exp.Expr) -> Aggregate:
    """Return the aggregate with its type; refuse arguments that are of the wrong kind or without bounds."""
    record = BY_KIND[aggregate.kind]
    for argument in aggregate.arguments:
        kind = argument.type.kind
        if is_null(argument):
            raise QuestionError(f"{shown(node)} is about nothing: NULL is not a value.", "Name a column.")
        if record.needs is ArgumentNeed.CANDIDATES:
            _check_candidates(argument, node)
        elif record.needs is not ArgumentNeed.NOTHING:
            if not kind.numeric and not (record.needs is ArgumentNeed.ORDER and kind.ranged):
                raise QuestionError(
                    f"{shown(node)} needs numbers; {describe(argument)} is {kind.value}.", _instead(argument, node)
                )
            if not argument.type.bounded:
                raise _unbounded(argument, node)
    return replace(aggregate, type=result_type(aggregate.kind, aggregate.arguments))


def _instead(argument: Expression, node: exp.Expr) -> str:
    """Return a hint for an argument that is not a number."""
    text = _argument_text(argument, node)
    if argument.type.kind is Kind.BOOLEAN:
        return f"Count instead: COUNT_IF({text})."
    if argument.type.kind is not Kind.TEXT:
        return f"Use MEDIAN(x), MIN(x) or MAX(x), or count days: DATE_DIFF('day', DATE '2020-01-01', {text})."
    keys = f"SELECT {text}, COUNT(*) AS n … GROUP BY {text} HAVING n > 0.5 ORDER BY {text}"
    first = f"Keys are in order: {keys} LIMIT 1, or DESC for the last. " if isinstance(node, exp.Min | exp.Max) else ""
    return (
        f"{first}If its texts are numbers, write CLIP(CAST({text} AS INTEGER), lower, upper) with bounds you "
        "choose, or ask the owner to declare its type, in the policy or as types= of hush.protect."
    )


def _argument_text(argument: Expression, node: exp.Expr) -> str:
    """Return an aggregate's argument as its author would write it, as far as that is known."""
    if isinstance(argument, Column):
        return argument.name
    while isinstance(node, exp.Filter | exp.Window):
        node = node.this
    if ARGUMENT in node.meta:
        return str(node.meta[ARGUMENT])
    record = record_of(node)
    return shown(node.this) if record is not None and record.arity == 1 and isinstance(node.this, exp.Expr) else "x"


def _unbounded(argument: Expression, node: exp.Expr) -> UnboundedError:
    """Return the refusal of an argument without known bounds: one row could change the answer without limit."""
    named = [piece for piece in pieces(argument) if isinstance(piece, Column)]
    names = list(dict.fromkeys(c.name for c in named if c.type.kind.ranged and not c.type.bounded))
    if names:
        which, have = ("Column", "has") if len(names) == 1 else ("Columns", "have")
        refusal = f"{which} {', '.join(names)} in {shown(node)} {have} no known lower and upper bound"
    else:
        refusal = f"The values in {shown(node)} have no known lower and upper bound"
    clip = f"Write CLIP({_argument_text(argument, node)}, lower, upper) with bounds you choose, add"
    return UnboundedError(
        f"{refusal}, so one row could change the answer without limit.",
        f"{clip if argument.type.kind.numeric else 'Add'} WHERE … BETWEEN lower AND upper, "
        "or ask the owner to declare bounds in the policy.",
    )


def _check_candidates(argument: Expression, node: exp.Expr) -> None:
    """Refuse the mode of an argument without a public list of values that is short enough.

    A list of the values in the data would tell which there are; and every candidate is counted.
    """
    type_ = argument.type
    if type_.values is not None or type_.kind is Kind.BOOLEAN:
        return
    if type_.lower is not None and type_.upper is not None and type_.step:
        if (type_.upper - type_.lower) / type_.step < MAX_MODES:
            return
        raise QuestionError(
            f"{shown(node)} would choose among more than {MAX_MODES:,} values.", "Bin them: MODE(BIN(x, 0, 100, 20))."
        )
    raise UnboundedError(
        f"{shown(node)} needs to know which values there can be; {describe(argument)} has no public list.",
        "Take the largest group, GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1, which also knows the values of a public "
        "table; or add WHERE x IN ('a', 'b', …), bin numbers with BIN(x, lower, upper, n), or ask the owner to declare "
        "values.",
    )


# Names after GROUP BY


class Grouped(Converter):
    """Expressions over keys and aggregates; a subclass has the expression for an aggregate."""

    def __init__(self, rows: Rows, keys: Sequence[Named], columns: Sequence[Column]) -> None:
        self.context = rows.context
        self.rows = rows
        self.named_keys = tuple(keys)
        self.keys = list(dict(keys).values())
        self.columns = list(columns)
        """The column of each key."""
        self.windows: Windows | None = None
        """The window functions and subqueries over answers, where they may stand."""
        self.results: dict[str, exp.Expr] = {}
        """The results before this one, by the names that the analyst gave them."""

    def convert(self, node: object) -> Expression:
        """Return an expression over keys and aggregates: the key that a node is, else node by node."""
        if self.windows is not None and isinstance(node, exp.Window):
            return self.windows.column(node, self.convert)
        if self.windows is not None and isinstance(node, exp.Subquery):
            return self.windows.value(node)
        if isinstance(node, exp.Expr) and not isinstance(node, (exp.Literal, exp.Placeholder)):
            alias_first = self.aliases_first and isinstance(node, exp.Column) and self._alias(node) is not None
            if self.keys and not alias_first and not has_aggregate(node):
                try:
                    expression = self.rows.convert(node)
                except QuestionError:
                    pass  # a part of it will say why
                else:
                    if expression in self.keys:
                        return self.columns[self.keys.index(expression)]
                    if not columns_in(expression):
                        return expression
        return super().convert(node)

    def _alias(self, node: exp.Column) -> str | None:
        """Return the key of the result that a name calls; None if there is none."""
        key = node.name.casefold()
        return key if key in self.aliases and not has(node, "table") else None

    def column(self, node: exp.Column) -> Expression:
        """Return a result by its name; refuse a column that is neither a key nor inside an aggregate."""
        if (key := self._alias(node)) is not None:
            return self.result_called(key)
        name = identifier(node.this)
        if name.casefold() in self.results and not has(node, "table") and self.rows.scope.find(name) is None:
            return self.convert(self.results[name.casefold()])
        expression = self.rows.column(node)  # refuses a name that no source has, and the unit
        if isinstance(expression, Literal):  # a text in double quotes
            return expression
        aggregated = f"AVG({name})" if expression.type.kind.numeric else f"COUNT(DISTINCT {name})"
        if self.keys:
            raise QuestionError(
                f"'{name}' is neither in GROUP BY nor inside an aggregate.",
                f"Add it to GROUP BY, or aggregate it, as in {aggregated}.",
            )
        raise QuestionError(
            f"'{name}' outside an aggregate would show single rows.",
            f"Add GROUP BY {name} and COUNT(*), or aggregate it, as in {aggregated}.",
        )


# Within a unit


class WithinUnit(Grouped):
    """Expressions over the keys and exact aggregates of one unit.

    ``outside`` it, they are expressions of the rows to which the aggregates are joined, by a LEFT JOIN.
    """

    def __init__(self, rows: Rows, keys: Sequence[Named], *, outside: bool = False) -> None:
        super().__init__(rows, keys, [Column(name, key.type) for name, key in keys])
        self.outside = outside
        self.empty = not keys and not rows.scope.private
        """Whether there may be no row to aggregate: of a public table without keys, for a unit has a row."""
        self.aggregates: dict[ExactAggregate, str] = {}
        self.firsts: dict[OwnWindow, str] = {}
        """The windows that ARG_MIN and ARG_MAX need."""
        self.narrowed: dict[str, Type] = {}
        """Types that HAVING narrowed."""

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return the column that holds an aggregate."""
        if (sums := rewritten_aggregate(node, spread=True)) is not None:
            return self.convert(sums)
        is_arg = isinstance(node, exp.ArgMin | exp.ArgMax)
        exact = self._value_at_end(node) if is_arg else self._exact(node)
        self.aggregates[exact] = name = self.aggregates.get(exact) or self.context.fresh(exact.kind.name.lower())
        if not self.outside:
            return Column(name, self.narrowed.get(name, exact.type))
        # without rows a count is 0, others are NULL
        outer = Column(name, exact.type.or_null(named=True))
        counts = exact.kind in {ExactKind.COUNT, ExactKind.COUNT_DISTINCT}
        return call(Op.COALESCE, outer, constant(Fraction(0))) if counts else outer

    def _exact(self, node: exp.Expr) -> ExactAggregate:
        """Return an aggregate within one unit; FILTER becomes CASE."""
        aggregate = read_aggregate(node, self.rows)
        if aggregate.kind is _K.COUNT_UNITS:
            raise QuestionError("Within one unit there is one unit.", "Count rows: COUNT(*).")
        if aggregate.kind.name not in ExactKind.__members__:
            raise QuestionError(
                f"{shown(node)} is not available within a unit.",
                "There are COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, ARG_MIN, ARG_MAX, STDDEV and VARIANCE.",
            )
        kind = ExactKind[aggregate.kind.name]
        argument = aggregate.arguments[0] if aggregate.arguments else None
        if aggregate.where is not None:
            argument = call(Op.CASE, aggregate.where, constant(True) if argument is None else argument, constant(None))
        if argument is not None and kind in {ExactKind.SUM, ExactKind.AVG} and not argument.type.kind.numeric:
            raise QuestionError(f"{shown(node)} needs numbers; got {argument.type.kind.value}.")
        if argument is not None and kind in {ExactKind.MIN, ExactKind.MAX} and not argument.type.kind.ranged:
            raise QuestionError(
                f"{shown(node)} needs numbers or dates; got {argument.type.kind.value}.",
                "Whether a unit has a value is COUNT(*) FILTER (WHERE x = 'a') > 0.",
            )
        return ExactAggregate(kind=kind, argument=argument, type=exact_type(kind, argument, empty=self.empty))

    def _value_at_end(self, node: exp.Expr) -> ExactAggregate:
        """Return ARG_MIN(x, y): the x of the row with the least y, among rows where neither is NULL.

        A window gives each row of a group the first value in the order of y; they are all the same, so MIN is it.
        """
        only(node, "this", "expression")
        value, by = self.rows.convert(node.this), self.rows.convert(node.expression)
        missing = call(Op.OR, call(Op.IS_NULL, value), call(Op.IS_NULL, by))
        first = call(Op.CASE, missing, constant(None), value)
        descending = isinstance(node, exp.ArgMax)
        window = OwnWindow(
            kind=WindowKind.FIRST_VALUE,
            argument=first,
            partition=tuple(self.keys),
            # rows with a NULL come last, so the first value is one of a complete row
            order=(RowOrder(by=call(Op.TO_INTEGER, missing)), RowOrder(by=by, descending=descending)),
            offset=1,
            type=first.type.or_null(named=True),
        )
        name = self.firsts.setdefault(window, self.context.fresh("first"))
        return ExactAggregate(kind=ExactKind.MIN, argument=Column(name, window.type), type=window.type)

    def relation(self, source: Relation) -> PerUnit:
        """Return one row for each unit and combination of keys, with all aggregates that were met."""
        if self.firsts:
            self.context.grow()
            source = WithWindows(source=source, windows=tuple((name, window) for window, name in self.firsts.items()))
        aggregates = tuple((name, exact) for exact, name in self.aggregates.items())
        return PerUnit(source=source, keys=self.named_keys, aggregates=aggregates)


def per_unit(select: exp.Select, scope: Scope, context: Context, names: Sequence[str] | None) -> Derived:
    """Return a subquery that groups by the unit."""
    rows = Rows(context, scope)
    items = projections(select)
    distinct = has(select, "distinct")
    listed = [item.node for item in items] if distinct else single_set(select, items, rows)
    keys: list[Named] = []
    grouped_by_unit = not scope.private
    for node in listed:
        if rows.unit(node):
            grouped_by_unit = True
            continue
        expression = rows.convert(node)
        if expression in [key for _, key in keys]:
            continue
        name = context.fresh(expression.name if isinstance(expression, Column) else "key")
        keys.append((name, expression))
        if context.is_link(expression):
            context.links[name] = context.links[expression.name]
            grouped_by_unit = True  # a key on the way to the unit belongs to one
    if not grouped_by_unit:
        unit = context.schema.unit
        if distinct:
            hint = "To count different values write COUNT(DISTINCT x)"
            own = f"For each unit's different rows, which is another question, add {unit} to the results."
            raise QuestionError(
                "SELECT DISTINCT would make one row of rows of different units.",
                f"{hint}, of several columns COUNT(DISTINCT (x, y)). {own}" if unit else f"{hint}.",
            )
        raise QuestionError(
            "A subquery over rows may aggregate only within one unit; answers can be joined with answers alone.",
            "Answers by key can be joined with each other, ON a.key = b.key. For numbers of each unit, which is "
            f"another question, add {unit} to GROUP BY."
            if unit
            else "Here every row is a unit, so nothing is left to group.",
        )
    grouped = WithinUnit(rows, keys)
    grouped.aliases = {item.name.casefold(): item.node for item in items if item.named}
    condition = grouped.condition_of(select, "having")
    grouped.aliases = {}
    results = [(item.name, rows.unit(item.node) or grouped.convert(item.node)) for item in items]
    context.grow()
    relation: Relation = grouped.relation(scope.relation)
    if condition is not None:
        context.grow()
        # HAVING narrows the ranges of aggregates, so results are converted once more
        grouped.narrowed = narrowed(columns(relation), condition)
        grouped.columns = [Column(column.name, grouped.narrowed[column.name]) for column in grouped.columns]
        relation = Filter(source=relation, condition=condition)
        results = [(item.name, rows.unit(item.node) or grouped.convert(item.node)) for item in items]
    return projected(relation, results, context, names)
