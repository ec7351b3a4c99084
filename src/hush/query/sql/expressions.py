"""From sqlglot's expressions to ours, by exact node class; a class without a reader is refused.

The walk is the same over the rows of a relation and over the noisy answers; only names differ in their meaning. So
`Converter` knows all but the names, `Rows` knows the names of a relation, and `hush.query.sql.group_by` the names that
may stand after GROUP BY. A reader is a function of a converter and a node; `READERS` has them by class. Which classes
are nothing but a call is read from the tables of functions and aggregates (`hush.query.functions`,
`hush.query.question`).

Some functions only stand for others: their text is read once, and their arguments are put in. A function's arguments
are resolved first, and stand as they are in the text, however often it names them. An aggregate's are put in as the
question has them, because they belong to the rows, and the text around them to the answers; a FILTER goes to every
aggregate of the text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser

from hush.core.work import spend
from hush.query.errors import QuestionError, did_you_mean
from hush.query.expressions import Call, Column, Expression, Literal, Op, pieces
from hush.query.functions import FUNCTIONS, REWRITES, all_of, call, cast, constant, folded, negated
from hush.query.functions.dates import TIME_UNITS, UNITS
from hush.query.functions.record import Reading, Rewrite, is_null, wanted_arguments
from hush.query.functions.texts import cost_of, flags_of, whole
from hush.query.parameters import number_literal
from hush.query.question import AGGREGATES, AggregateFunction, AggregateKind
from hush.query.refine import narrowed
from hush.query.relations import columns
from hush.query.sql.allow_list import (
    ARGUMENT,
    SHOWN,
    WRITTEN,
    called,
    column_name,
    has,
    identifier,
    is_set,
    only,
    place,
    refuse,
    shown,
)
from hush.query.sql.dialects import cast_argument, division_operator, meaning_by_type
from hush.query.sql.names import Binding, Context, Partner, Scope, UnitName
from hush.query.sql.text import DEFAULT, read_expression
from hush.query.types import Kind, Type

_CALLS: dict[type[exp.Expr], tuple[Op, Reading]] = {}
"""Classes of nodes that are nothing but a call, and where their arguments stand."""
_UNKNOWN_TO_PARSER: dict[str, Op] = {}
"""Functions by name, for which the parser has no class; those that it has are read as it says, or refused."""
_DATE_FIELDS: dict[str, Op] = {}
_CASTS: dict[object, Op] = {}
for _record in FUNCTIONS.values():
    _CALLS |= {getattr(exp, reading.node): (_record.op, reading) for reading in _record.reads}
    _DATE_FIELDS |= dict.fromkeys(_record.fields, _record.op)
    _CASTS |= {exp.DataType.Type[name]: _record.op for name in _record.types}
    _UNKNOWN_TO_PARSER |= dict.fromkeys(
        {*_record.names}.difference(DuckDBParser.FUNCTIONS, DuckDBParser.FUNCTION_PARSERS), _record.op
    )

_CALLS[exp.Substring] = (Op.SUBSTRING, Reading("Substring", ("this", "start", "length")))
_CALLS[exp.Replace] = (Op.REPLACE, Reading("Replace", ("this", "expression", "replacement")))
_DEFAULTS: dict[Op, dict[str, Fraction | str]] = {
    Op.SUBSTRING: {"start": Fraction(1), "length": Fraction(2**31 - 1)},
    Op.REPLACE: {"replacement": ""},
}
"""What stands for an argument that is left out."""

_REWRITTEN: dict[type[exp.Expr] | str, Rewrite] = {}
"""Functions that abbreviate others, by class or by name."""
for _rewrite in REWRITES:
    _REWRITTEN |= dict.fromkeys((*_rewrite.names, *([getattr(exp, _rewrite.node)] if _rewrite.node else [])), _rewrite)

_STEPS_OF_A_NODE = 20
_T = exp.DataType.Type
_INTEGERS: dict[object, tuple[int, int]] = {
    _T.TINYINT: (-(2**7), 2**7 - 1),
    _T.SMALLINT: (-(2**15), 2**15 - 1),
    _T.INT: (-(2**31), 2**31 - 1),
    _T.UTINYINT: (0, 2**8 - 1),
    _T.USMALLINT: (0, 2**16 - 1),
    _T.UINT: (0, 2**32 - 1),
    _T.UBIGINT: (0, 2**63 - 1),
}
"""The ranges of types of integers that hold less than 64 bits with a sign."""


# Aggregates

QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_CLASSES: dict[type[exp.Expr], AggregateFunction] = {
    getattr(exp, node): record for record in AGGREGATES for node in record.nodes
}
_NAMES: dict[str, AggregateFunction] = {name: record for record in AGGREGATES for name in record.names}
_SPREAD: dict[AggregateKind | None, str] = {
    AggregateKind.VARIANCE: "(GREATEST(SUM(x * x) - SUM(x) * SUM(x) / COUNT(x), 0) / (COUNT(x) - 1))",
    AggregateKind.VARIANCE_POPULATION: "(GREATEST(AVG(x * x) - AVG(x) * AVG(x), 0))",
}


def is_aggregate(node: object) -> bool:
    """Return whether a node aggregates rows, supported or not."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in _NAMES


def record_of(node: exp.Expr) -> AggregateFunction | None:
    """Return the record of the aggregate that a node calls, perhaps inside FILTER and OVER."""
    while isinstance(node, exp.Filter | exp.Window):
        node = node.this
    return _NAMES.get(str(node.this).upper()) if isinstance(node, exp.Anonymous) else _CLASSES.get(type(node))


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates rows anywhere inside, subqueries and what has OVER left aside."""
    if isinstance(node, exp.Query):
        return False
    inside = list(node.iter_expressions())
    if isinstance(node, exp.Window):  # of what OVER belongs to, the arguments alone
        function = node.this
        inside.remove(function)
        if isinstance(function, exp.Filter):
            inside.append(function.expression)
            function = function.this
        inside += function.iter_expressions()
    return is_aggregate(node) or any(map(has_aggregate, inside))


def arguments_of(node: exp.Expr, count: int, slots: tuple[str, ...] = ("this", "expression")) -> list[exp.Expr]:
    """Return the arguments of a call, which stand in these slots of its node, and must be of this number."""
    if isinstance(node, exp.Anonymous):
        only(node, "this", "expressions")
        arguments = list(node.expressions)
    else:
        only(node, *slots[:count])
        arguments = list(filter(is_set, map(node.args.get, slots[:count])))
    if not arguments and count and is_aggregate(node):
        raise QuestionError(f"{shown(node)} needs an argument.", "Name a column.")
    if len(arguments) != count:
        raise QuestionError(f"{called(node)} takes {wanted_arguments(count, count)}; got {len(arguments)}.")
    return arguments


@cache
def template(text: str) -> exp.Expr:
    """Return the syntax tree of the definition of a function or aggregate; cached."""
    return read_expression(text)


def rewritten_aggregate(node: exp.Expr, *, spread: bool = False) -> exp.Expr | None:
    """Return the expression that an aggregate is rewritten into, with its arguments; None if it is not rewritten.

    FILTER and OVER go to every aggregate in it. With ``spread``, a variance is a function of sums, too.
    """
    record = record_of(node)
    if record is None:
        return None
    definition = record.rewrite
    if not definition and spread:
        definition = _SPREAD.get(record.kind, "")
    if not definition:
        return None
    around, inner = [], node
    while isinstance(inner, exp.Filter | exp.Window):
        around.append(inner)
        inner = inner.this
    parameters = record.parameters if record.rewrite else ("x",)
    arguments = dict(zip(parameters, arguments_of(inner, len(parameters)), strict=True))
    text = shown(node)

    def put_in(child: exp.Expr) -> exp.Expr:
        if isinstance(child, exp.Column) and child.name in arguments:
            return arguments[child.name].copy()
        if is_aggregate(child):
            child.meta[SHOWN] = text
            if arguments:
                child.meta[ARGUMENT] = shown(next(iter(arguments.values())))
        return child

    def surrounded(child: exp.Expr) -> exp.Expr:
        for wrapper in reversed(around if is_aggregate(child) else []):
            outer = wrapper.copy()
            outer.set("this", child)
            outer.meta[SHOWN] = text
            child = outer
        return child

    # expressions that were put in are not looked into: neither an argument for parameters, nor a filtered aggregate
    return template(definition).transform(put_in).transform(surrounded, copy=False)


class Converter(ABC):
    """Turns sqlglot's expressions into ours, by the readers of their classes."""

    context: Context
    noisy = False
    """Whether expressions are over noisy answers."""
    aliases: Mapping[str, exp.Expr] = MappingProxyType({})
    """Results that may be called by their names."""
    aliases_first = False

    def convert(self, node: object) -> Expression:
        """Return our expression for a node; a refusal gets the place of the innermost node that it is about."""
        spend(_STEPS_OF_A_NODE)
        try:
            expression = READERS.get(type(node), _other)(self, node)
            if self.context.dialect != DEFAULT and isinstance(node, exp.Expr):  # there its meaning depends on types
                expression = meaning_by_type(node, expression, self.context.dialect, noisy=self.noisy)
        except QuestionError as error:
            if error.place is None and isinstance(node, exp.Expr):
                error.place = place(node)
            raise
        return expression

    def condition(self, node: object) -> Expression:
        """Return an expression that is true or false."""
        condition = self.convert(node)
        if is_null(condition):
            raise QuestionError("NULL is never true.", "Write a condition, such as x IS NULL.")
        if condition.type.kind is not Kind.BOOLEAN:
            hint = f"Compare it with something, or write CAST({shown(node)} AS BOOLEAN)."
            raise QuestionError(f"A condition is needed; {shown(node)} is {condition.type.kind.value}.", hint)
        return condition

    def condition_of(self, select: exp.Select, name: str) -> Expression | None:
        """Return the condition of a clause: WHERE, HAVING or QUALIFY; None if there is none."""
        clause = select.args.get(name)
        if clause is None:
            return None
        only(clause, "this")
        return self.condition(clause.this)

    @abstractmethod
    def column(self, node: exp.Column) -> Expression:
        """Return the expression that a column name means."""

    def result_called(self, name: str) -> Expression:
        """Return the result of a name; inside it names are columns, for an alias cannot name itself."""
        aliases, self.aliases = self.aliases, MappingProxyType({})
        try:
            return self.convert(aliases[name])
        finally:
            self.aliases = aliases

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return an aggregate, where one may stand."""
        raise QuestionError(
            f"An aggregate cannot stand here: {shown(node)}.",
            "Aggregates belong into SELECT, HAVING and ORDER BY; within one unit first: "
            "FROM (SELECT unit, COUNT(*) AS n FROM … GROUP BY unit).",
        )

    def subquery(self, node: exp.Expr) -> Expression:
        """Return the value of a subquery, EXISTS or IN (SELECT …), where one may stand."""
        if isinstance(node, exp.In):
            raise QuestionError(
                f"IN (SELECT …) stands where rows are chosen: {shown(node)}.",
                "Write the list out, or put it into WHERE.",
            )
        raise refuse(node)

    def present(self, _node: object) -> Expression | None:
        """Return the condition that the unit named by a node is not NULL; None if the node names no unit."""
        return None

    def knowing(self, _condition: Expression, *, holds: bool) -> Converter:  # noqa: ARG002
        """Return a converter for rows on which a condition is true, or on which it is not: false or NULL."""
        return self


class _Template(Converter):
    """The definition of a function that abbreviates others, over its arguments."""

    def __init__(self, context: Context, arguments: Mapping[str, Expression]) -> None:
        self.context = context
        self._arguments = arguments

    def convert(self, node: object) -> Expression:
        """Return our expression for a node, which has no place in the question's text."""
        return READERS.get(type(node), _other)(self, node)

    def column(self, node: exp.Column) -> Expression:
        """Return the argument of this name."""
        return self._arguments[identifier(node.this)]


class Rows(Converter):
    """Expressions over the rows of a relation."""

    def __init__(self, context: Context, scope: Scope, types: dict[str, Type] | None = None) -> None:
        self.context = context
        self.scope = scope
        self.types = columns(scope.relation) if types is None else types
        self._converted: dict[int, tuple[object, Expression]] = {}

    def convert(self, node: object) -> Expression:
        """Return our expression for a node, and remember it: results after GROUP BY ask for their parts repeatedly."""
        if id(node) not in self._converted:
            self._converted[id(node)] = (node, super().convert(node))  # the node too, so that its id stays its own
        return self._converted[id(node)][1]

    def knowing(self, condition: Expression, *, holds: bool) -> Rows:
        """Return a converter with the types that columns have there; a subclass narrows no types."""
        if type(self) is not Rows:
            return self
        return Rows(self.context, self.scope, narrowed(self.types, condition, outcome=holds, or_null=not holds))

    def subquery(self, node: exp.Expr) -> Expression:
        """Return the value of a subquery for a row."""
        return self.context.subqueries().value(self, node)

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the relation, or the result of that name; the unit cannot be had."""
        name, qualifier = identifier(node.this), node.args.get("table")
        is_alias = qualifier is None and name.casefold() in self.aliases
        if is_alias and (self.aliases_first or self.scope.find(name) is None):
            return self.result_called(name.casefold())
        quoted = bool(node.this.args.get("quoted"))
        if quoted and qualifier is None:  # meant as a text, where a value is expected, and no column is similar
            parent = node.parent
            compared = isinstance(parent, exp.Binary | exp.Predicate | exp.In) and node.arg_key != "this"
            chosen = isinstance(parent, exp.If | exp.Case) and node.arg_key in {"true", "false", "default"}
            similar = did_you_mean(name, [spelling for _, spelling, _ in self.scope.bindings()])
            if (compared or chosen) and not similar:
                return constant(name)
        binding = self.scope.require(name, None if qualifier is None else identifier(qualifier), quoted=quoted)
        if isinstance(binding, Partner):
            full = shown(node)
            raise QuestionError(
                f"{full} is the protected unit, of the optional side of a join, which no expression can use.",
                f"Possible are COUNT({full}), COUNT(DISTINCT {full}), {full} IS NULL and {full} IS NOT NULL. With "
                f"WHERE {full} IS NOT NULL, the unit of the other side is the same.",
            )
        if isinstance(binding, UnitName):
            raise QuestionError(
                f"'{name}' is the protected unit, which no expression can use.",
                f"Possible are COUNT(DISTINCT {name}), joins ON a.{name} = b.{name}, "
                f"and GROUP BY {name} in a subquery.",
            )
        return Column(binding, self.types[binding])

    def binding(self, node: object) -> Binding | None:
        """Return the binding of a name; None for a node that is no name, and for a name that no source has."""
        name = column_name(node)
        return None if name is None else self.scope.find(*name)

    def unit(self, node: object) -> UnitName | None:
        """Return the unit, if a node names it."""
        binding = self.binding(node)
        return binding if isinstance(binding, UnitName) else None

    def result(self, result: exp.Expr | Binding) -> Expression | UnitName:
        """Return a result of a SELECT over rows: the unit passes by its name alone."""
        binding = self.binding(result) if isinstance(result, exp.Expr) else result
        if isinstance(binding, UnitName):
            return binding
        if binding is not None and (isinstance(binding, Partner) or binding is result):
            return Column(binding, self.types[binding])
        return self.convert(result)

    def present(self, node: object) -> Expression | None:
        """Return the condition that the unit named by a node is not NULL; None if the node names no unit."""
        binding = self.binding(node)
        if isinstance(binding, UnitName):
            return constant(True)  # rows without a unit were dropped
        if isinstance(binding, Partner):
            return call(Op.NOT, call(Op.IS_NULL, Column(binding, self.types[binding])))
        return None


READERS: dict[type, Callable[..., Expression]] = dict.fromkeys(
    (exp.Subquery, exp.Exists), lambda to, node: to.subquery(node)
)
"""The reader of each class of nodes."""


def _reads(*classes: type[exp.Expr]) -> Callable[[Callable[..., Expression]], Callable[..., Expression]]:
    def register(reader: Callable[..., Expression]) -> Callable[..., Expression]:
        READERS.update(dict.fromkeys(classes, reader))
        return reader

    return register


def _other(to: Converter, node: object) -> Expression:
    """Read an aggregate, or refuse a node of any other class: nothing unlisted is read."""
    if isinstance(node, exp.Expr) and is_aggregate(node):
        rewritten = rewritten_aggregate(node)
        return to.aggregate(node) if rewritten is None else to.convert(rewritten)
    raise refuse(node)


@_reads(*_CALLS)
def _call(to: Converter, node: exp.Expr) -> Expression:
    """Read a call of a function, its arguments being those of its node, in order."""
    op, reading = _CALLS[type(node)]
    only(node, *(slot.removeprefix("*") for slot in reading.slots), *reading.ignored)
    arguments: list[Expression] = []
    for slot in reading.slots:
        if slot.startswith("*"):
            arguments += [to.convert(argument) for argument in node.args.get(slot[1:]) or ()]
        elif has(node, slot):
            arguments.append(to.convert(node.args[slot]))
        elif slot in _DEFAULTS.get(op, ()):
            arguments.append(constant(_DEFAULTS[op][slot]))
    last = arguments[-1] if arguments and op in {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO} else None
    if isinstance(last, Literal) and last.value == 0:
        raise QuestionError(f"{shown(node)} divides by zero: it is always NULL.", "Divide by a number.")
    if isinstance(node, exp.Div) and node.args.get("typed"):  # a dialect in which 7 / 2 is 3
        op = division_operator(node)
    return folded(op, *arguments) if len(arguments) == 2 else call(op, *arguments)


@_reads(*(key for key in _REWRITTEN if not isinstance(key, str)))
def _rewritten(to: Converter, node: exp.Expr) -> Expression:
    rewrite = _REWRITTEN[str(node.this).upper() if isinstance(node, exp.Anonymous) else type(node)]
    nodes = arguments_of(node, len(rewrite.parameters), rewrite.slots)
    arguments = {name: to.convert(argument) for name, argument in zip(rewrite.parameters, nodes, strict=True)}
    return _Template(to.context, arguments).convert(template(rewrite.text))


@_reads(exp.Anonymous)
def _anonymous(to: Converter, node: exp.Anonymous) -> Expression:
    name = str(node.this).upper()
    if is_aggregate(node):
        return _other(to, node)
    if name in _REWRITTEN:
        return _rewritten(to, node)
    only(node, "this", "expressions")
    if name == "DATE_PART" and len(node.expressions) == 2:
        return _extract(to, exp.Extract(this=node.expressions[0], expression=node.expressions[1]))
    if name == "DAYS_BETWEEN" and len(node.expressions) == 2:
        return call(Op.DATE_DIFF, constant("day"), *map(to.convert, node.expressions))
    if name not in _UNKNOWN_TO_PARSER:
        raise refuse(node)
    return call(_UNKNOWN_TO_PARSER[name], *map(to.convert, node.expressions))


# Names, constants and arithmetic


@_reads(exp.Column)
def _column(to: Converter, node: exp.Column) -> Expression:
    if isinstance(node.this, exp.Star):
        raise refuse(node.this)
    only(node, "this", "table")
    return to.column(node)


@_reads(exp.Paren, exp.Neg)
def _unary(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this")
    return negated(to.convert(node.this)) if isinstance(node, exp.Neg) else to.convert(node.this)


@_reads(exp.Literal, exp.Boolean, exp.Null, exp.Placeholder)
def _constant(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this", "is_string")
    if isinstance(node, exp.Placeholder):
        return to.context.binder.bind(str(node.this or ""))
    if isinstance(node, exp.Literal):
        return constant(str(node.this) if node.is_string else number_literal(str(node.this)))
    return constant(bool(node.this) if isinstance(node, exp.Boolean) else None)


@_reads(exp.Add, exp.Sub)
def _sum(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this", "expression")
    adds = isinstance(node, exp.Add)
    if (interval := _interval(node.expression)) is not None:
        return _moved(to, node.this, interval, 1 if adds else -1)
    if adds and (interval := _interval(node.this)) is not None:
        return _moved(to, node.expression, interval)
    first, second = to.convert(node.this), to.convert(node.expression)
    if not adds and first.type.kind is second.type.kind is Kind.DATE:
        return call(Op.DATE_DIFF, constant("day"), second, first)
    if adds and to.context.dialect == "tsql" and first.type.kind is second.type.kind is Kind.TEXT:
        return call(Op.CONCAT, first, second)
    return folded(Op.ADD if adds else Op.SUBTRACT, first, second)


@_reads(exp.Log)
def _log(to: Converter, node: exp.Log) -> Expression:
    only(node, "this", "expression")
    value = node.args.get("expression")
    base = constant(Fraction(10)) if value is None else to.convert(node.this)
    return call(Op.LOG, base, to.convert(node.this if value is None else value))


# Conditions


@_reads(exp.And)
def _and(to: Converter, node: exp.And) -> Expression:
    only(node, "this", "expression")
    return all_of([to.condition(node.this), to.condition(node.expression)])


@_reads(exp.Between)
def _between(to: Converter, node: exp.Between) -> Expression:
    if has(node, "symmetric"):
        low, high = shown(node.args["low"]), shown(node.args["high"])
        raise QuestionError(
            "BETWEEN SYMMETRIC is not supported.", f"Write BETWEEN LEAST({low}, {high}) AND GREATEST({low}, {high})."
        )
    only(node, "this", "low", "high")
    value = to.convert(node.this)
    lower = call(Op.GREATER_EQUAL, value, to.convert(node.args["low"]))
    return call(Op.AND, lower, call(Op.LESS_EQUAL, value, to.convert(node.args["high"])))


@_reads(exp.EQ, exp.NEQ)
def _equal(to: Converter, node: exp.Expr) -> Expression:
    """Compare values, or rows of values one by one: (a, b) = (1, 2). In these, NULL is a value."""
    only(node, "this", "expression")
    if isinstance(node, exp.EQ):
        units = [unit for side in (node.this, node.expression) if (unit := to.present(side)) is not None]
        if len(units) == 2:  # a row has one unit; a partner's is the same, where there is one
            partners: list[Expression] = [unit for unit in units if not isinstance(unit, Literal)]
            return call(Op.CASE, all_of(partners), constant(True), constant(None)) if partners else constant(True)
    if isinstance(node.this, exp.Tuple) or isinstance(node.expression, exp.Tuple):
        same = _same_rows([to.convert(value) for value in _row_values(node.this)], to, node.expression)
        return same if isinstance(node, exp.EQ) else call(Op.NOT, same)
    op = Op.EQUAL if isinstance(node, exp.EQ) else Op.NOT_EQUAL
    first, second = to.convert(node.this), to.convert(node.expression)
    is_bit = to.context.dialect == "tsql" and first.type.kind is Kind.BOOLEAN and isinstance(second, Literal)
    if is_bit and isinstance(second, Literal) and second.value in (0, 1):  # a BIT is compared with a number there
        second = constant(bool(second.value))
    return call(op, first, second)


def _row_values(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if not isinstance(node, exp.Tuple):
        raise QuestionError(f"A row of values is needed; got {shown(node)}.", "Write (a, b) IN ((1, 2), (3, 4)).")
    only(node, "expressions")
    return list(node.expressions)


def _same_rows(values: list[Expression], to: Converter, node: exp.Expr) -> Expression:
    others = [to.convert(value) for value in _row_values(node)]
    if len(others) != len(values) or not values:
        raise QuestionError(f"A row of {len(values)} values is compared with one of {len(others)}.")
    return _same_tuples(list(zip(values, others, strict=True)))


def _same_tuples(pairs: Sequence[tuple[Expression, Expression]]) -> Expression:
    """Return the condition that the values of all pairs are equal or both NULL; it is never NULL itself."""
    tests: list[Expression] = []
    for first, second in pairs:
        if is_null(first) or is_null(second):
            test = call(Op.IS_NULL, first if is_null(second) else second)
        else:
            test = call(Op.EQUAL, first, second)
            if first.type.nullable and second.type.nullable:
                both = call(Op.AND, call(Op.IS_NULL, first), call(Op.IS_NULL, second))
                test = call(Op.COALESCE, test, both)
        tests.append(test)
    same = all_of(tests)
    return call(Op.COALESCE, same, constant(False)) if same.type.nullable else same


def _any_of(conditions: Sequence[Expression]) -> Expression:
    """Return the disjunction of conditions as a balanced tree."""
    if len(conditions) == 1:
        return conditions[0]
    # balanced, so that a long list is not deeply nested
    half = len(conditions) // 2
    return call(Op.OR, _any_of(conditions[:half]), _any_of(conditions[half:]))


@_reads(exp.In)
def _in(to: Converter, node: exp.In) -> Expression:
    if has(node, "query"):
        return to.subquery(node)
    parameter = node.args.get("field")
    if isinstance(parameter, exp.Placeholder):
        only(node, "this", "field")
        only(parameter, "this")
        value, members = to.convert(node.this), to.context.binder.bind_list(str(parameter.this or ""))
        return call(Op.IN, value, *members) if members else constant(False)  # an empty list has not even NULL
    if has(node, "field", "unnest"):
        raise QuestionError(f"IN needs a list; got {shown(node)}.", "Write x IN ('a', 'b'), or x IN ? with a list.")
    only(node, "this", "expressions")
    if node.args.get("expressions") is None:
        raise refuse(node)
    if isinstance(node.this, exp.Tuple) and node.expressions:
        values = [to.convert(value) for value in _row_values(node.this)]
        return _any_of([_same_rows(values, to, row) for row in node.expressions])
    value = to.convert(node.this)
    listed: list[Expression] = [to.convert(member) for member in node.expressions]
    computed = [member for member in listed if isinstance(member, Call)]
    if computed and all(isinstance(piece, Call | Literal) for member in listed for piece in pieces(member)):
        return _any_of([call(Op.EQUAL, value, member) for member in listed])  # constants like 7 // 2
    return call(Op.IN, value, *listed) if listed else constant(False)


@_reads(exp.NullSafeEQ, exp.NullSafeNEQ)
def _same(to: Converter, node: exp.Expr) -> Expression:
    """Read IS [NOT] DISTINCT FROM: equality in which NULL equals NULL, and which is never NULL itself."""
    only(node, "this", "expression")
    same = _same_tuples([(to.convert(node.this), to.convert(node.expression))])
    return call(Op.NOT, same) if isinstance(node, exp.NullSafeNEQ) else same


@_reads(exp.Is)
def _is(to: Converter, node: exp.Is) -> Expression:
    only(node, "this", "expression", "negate")
    negate = bool(node.args.get("negate"))
    present = to.present(node.this) if isinstance(node.expression, exp.Null) else None
    if present is not None:  # of the unit nothing else can be told
        return present if negate else present.arguments[0] if isinstance(present, Call) else constant(False)
    value = to.convert(node.this)
    if isinstance(node.expression, exp.Null):
        condition = call(Op.IS_NULL, value)
    elif isinstance(node.expression, exp.Boolean):
        condition = call(Op.COALESCE, value if node.expression.this else call(Op.NOT, value), constant(False))
    else:
        raise refuse(node)
    return call(Op.NOT, condition) if negate else condition


@_reads(exp.Escape)
def _escape(to: Converter, node: exp.Escape) -> Expression:
    only(node, "this", "expression")
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise refuse(node)
    escape = to.convert(node.expression)
    mark = escape.value if isinstance(escape, Literal) else None
    if not isinstance(mark, str) or (isinstance(node.this, exp.ILike) and mark.isalpha()):
        raise QuestionError(f"ESCAPE takes one character; got {shown(node.expression)}.", "Write ESCAPE '!'.")
    return _like(to, node.this, *([escape] if mark else []))


@_reads(exp.Like, exp.ILike)
def _like(to: Converter, node: exp.Expr, *escape: Expression) -> Expression:
    only(node, "this", "expression", "negate")
    value, pattern = to.convert(node.this), to.convert(node.expression)
    if isinstance(node, exp.ILike):
        text = pattern.value if isinstance(pattern, Literal) else None
        if not isinstance(text, str) or not text.isascii():
            raise QuestionError(
                "ILIKE needs a constant pattern of ASCII characters.", "Write LOWER(x) LIKE 'pattern' in small letters."
            )
        value, pattern = call(Op.LOWER, value), constant(text.lower())
    like = call(Op.LIKE, value, pattern, *escape)
    return call(Op.NOT, like) if node.args.get("negate") else like


@_reads(exp.RegexpLike, exp.RegexpILike, exp.RegexpFullMatch, exp.SimilarTo)
def _regular(to: Converter, node: exp.Expr) -> Expression:
    """Read REGEXP_MATCHES(x, 'a+'), and a match of the whole text: REGEXP_FULL_MATCH and SIMILAR TO."""
    only(node, "this", "expression", "flag", "options", "full_match")
    value, pattern = to.convert(node.this), to.convert(node.expression)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise QuestionError(f"A regular expression needs a constant pattern; got {shown(node.expression)}.")
    options = node.args.get("flag") or node.args.get("options")
    flags = constant("i" if isinstance(node, exp.RegexpILike) else "") if options is None else to.convert(options)
    if isinstance(node, exp.RegexpFullMatch) and WRITTEN not in node.meta and not whole(pattern.value):
        raise QuestionError(
            "x ~ 'pattern' means a match of the whole text before DuckDB 2, and of a part of it from there on.",
            f"Write REGEXP_MATCHES({shown(node.this)}, {shown(node.expression)}) for a part, or REGEXP_FULL_MATCH.",
        )
    if isinstance(node, exp.RegexpFullMatch | exp.SimilarTo):
        plain, inner = flags_of(pattern.value)
        cost_of(plain, inner)  # refuses a pattern like "a)|(b", which would be one in brackets
        pattern = constant(f"{f'(?{inner})' if inner else ''}^(?:{plain})$")
    return call(Op.REGEXP_MATCHES, value, pattern, flags)


# Choices


@_reads(exp.Case, exp.If)
def _case(to: Converter, node: exp.Expr) -> Expression:
    if isinstance(node, exp.If):
        operand, branches, default = None, [node], node.args.get("false")
    else:
        only(node, "this", "ifs", "default")
        operand = to.convert(node.this) if has(node, "this") else None
        branches, default = node.args["ifs"], node.args.get("default")
    arguments: list[Expression] = []
    for branch in branches:
        only(branch, "this", "true", *(["false"] if branch is node else []))
        tested = branch.this
        condition = to.condition(tested) if operand is None else call(Op.EQUAL, operand, to.convert(tested))
        arguments += [condition, to.knowing(condition, holds=True).convert(branch.args["true"])]
        to = to.knowing(condition, holds=False)  # the next branch is also for rows where the condition is NULL
    return call(Op.CASE, *arguments, constant(None) if default is None else to.convert(default))


@_reads(exp.DecodeCase)
def _decode(to: Converter, node: exp.DecodeCase) -> Expression:
    """Read DECODE(x, search, result, …, otherwise) as a CASE in which NULL equals NULL."""
    only(node, "expressions")
    value, *pairs = node.expressions or [None]
    if len(pairs) < 2:
        raise QuestionError("DECODE needs a value and a result.", "Write DECODE(x, 'a', 1, 'b', 2, 0).")
    arguments: list[Expression] = []
    for search, result in zip(pairs[:-1:2], pairs[1::2], strict=False):
        arguments += [_same(to, exp.NullSafeEQ(this=value.copy(), expression=search)), to.convert(result)]
    return call(Op.CASE, *arguments, to.convert(pairs[-1]) if len(pairs) % 2 else constant(None))


# Texts


@_reads(exp.DPipe, exp.Concat)
def _concat(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this", "expression", "expressions", "safe", "coalesce")
    texts = []
    for argument in node.expressions or (node.this, node.expression):
        text = to.convert(argument)
        if text.type.kind is not Kind.TEXT and not is_null(text):
            text = cast(Op.TO_TEXT, cast_argument(argument, text, Op.TO_TEXT, to.context.dialect))
        if isinstance(node, exp.Concat) and text.type.nullable:  # CONCAT() skips NULLs
            text = call(Op.COALESCE, text, constant(""))
        texts.append(text)
    return call(Op.CONCAT, *texts)


@_reads(exp.Trim)
def _trim(to: Converter, node: exp.Trim) -> Expression:
    """Read TRIM(x), LTRIM(x), RTRIM(x), and TRIM(LEADING FROM x): blanks alone."""
    if has(node, "expression"):
        raise QuestionError(
            f"Only blanks can be trimmed; got {shown(node)}.",
            "Where the characters stand at the ends alone, REPLACE(x, 'a', '') is the same.",
        )
    only(node, "this", "position")
    side = str(node.args.get("position") or "BOTH").upper()
    return call({"BOTH": Op.TRIM, "LEADING": Op.LTRIM, "TRAILING": Op.RTRIM}[side], to.convert(node.this))


# Dates and intervals

_AMOUNTS = re.compile(r"\s*([+-]?\d{1,18})\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)


def _interval(node: object) -> tuple[exp.Interval, int] | None:
    """Return an interval and its sign; None for any other node."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        only(node, "this")
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return (node, sign) if isinstance(node, exp.Interval) else None


def _moved(to: Converter, moment: object, interval: tuple[exp.Interval, int], sign: int = 1) -> Call:
    """Return a date or timestamp moved by an interval: a timestamp."""
    node, own_sign = interval
    components = [sign * own_sign * component for component in interval_parts(to, node)]
    return call(Op.ADD_INTERVAL, to.convert(moment), *(constant(Fraction(component)) for component in components))


def interval_parts(to: Converter, node: exp.Interval) -> tuple[int, int, int]:
    """Return the months, days and microseconds of a constant interval: INTERVAL 1 MONTH, INTERVAL '2 days 3 hours'."""
    only(node, "this", "unit")
    unit, amount = node.args.get("unit"), node.this
    text = str(amount.this) if isinstance(amount, exp.Literal) and amount.is_string else None
    if unit is None and text is not None:
        amounts = _AMOUNTS.findall(text) if _AMOUNTS.sub("", text) == "" else []
    else:
        if text is None:
            value = to.convert(amount)
            text = str(value.value) if isinstance(value, Literal) else ""
        amounts = [(text.strip(), "" if unit is None else str(unit.this))]
    components = [0, 0, 0]
    for count, name in amounts:
        place, size = UNITS.get(name.casefold().removesuffix("s"), (0, 0))
        if not size or not re.fullmatch(r"[+-]?\d{1,18}", count, re.ASCII):
            amounts = []
            break
        components[place] += int(count) * size
    if not amounts:
        raise QuestionError(
            f"An interval is a constant whole number of {', '.join(f'{unit}s' for unit in UNITS)}; got {shown(node)}.",
            "Write for instance day + INTERVAL 1 MONTH, or INTERVAL '3' DAY.",
        )
    return components[0], components[1], components[2]


@_reads(exp.DateAdd, exp.TsOrDsAdd)
def _date_add(to: Converter, node: exp.Expr) -> Expression:
    """Move a date or timestamp. In other dialects, TsOrDsAdd, a date that is moved by whole days stays a date."""
    only(node, "this", "expression")
    interval = _interval(node.expression)
    if interval is None:
        raise QuestionError(f"An interval is needed; got {shown(node)}.", "Write DATE_ADD(d, INTERVAL 1 MONTH).")
    moment = _moved(to, node.this, interval)
    day, *_, time = moment.arguments
    whole_days = isinstance(time, Literal) and not time.value and day.type.kind is Kind.DATE
    return call(Op.TO_DATE, moment) if whole_days and isinstance(node, exp.TsOrDsAdd) else moment


def _time_unit(node: object) -> str:
    """Return a unit of time, which sqlglot keeps as a variable or as text."""
    if isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this).casefold()
    raise QuestionError("A unit of time is constant text.", "Write for instance DATE_TRUNC('month', d).")


@_reads(exp.Extract)
def _extract(to: Converter, node: exp.Extract) -> Expression:
    only(node, "this", "expression")
    field = _time_unit(node.this)
    if field == "isodow":
        return to.convert(exp.DayOfWeekIso(this=node.expression))
    if field not in _DATE_FIELDS:
        allowed = ", ".join(sorted([*_DATE_FIELDS, "isodow"]))
        raise QuestionError(f"Of a date can be taken: {allowed}; got {field[:40]}.")
    return call(_DATE_FIELDS[field], to.convert(node.expression))


@_reads(exp.TimestampTrunc, exp.DateTrunc)
def _truncate(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this", "unit", "input_type_preserved")
    unit = _time_unit(node.args.get("unit"))
    op = Op.TRUNCATE_TIME if unit in TIME_UNITS else Op.TRUNCATE_DATE
    return call(op, constant(unit), to.convert(node.this))


@_reads(exp.DateBin)
def _bucket(to: Converter, node: exp.DateBin) -> Expression:
    """Read TIME_BUCKET(INTERVAL '1 month', d), which DuckDB counts from a Monday, the first of a year."""
    only(node, "this", "expression")
    width = node.this
    if isinstance(width, exp.Cast) and isinstance(width.this, exp.Literal):
        width = exp.Interval(this=width.this)
    unit = None
    if isinstance(width, exp.Interval):
        parts = interval_parts(to, width)
        units = {tuple(size * (index == place) for index in range(3)): name for name, (place, size) in UNITS.items()}
        unit = units.get(parts)
    if unit is None:
        raise QuestionError(
            f"{shown(node)} has buckets of another width than one {', '.join(UNITS)}.",
            "Number them: FLOOR(DATE_DIFF('day', DATE '2000-01-03', d) / 10) for buckets of ten days.",
        )
    return to.convert(exp.TimestampTrunc(this=node.expression, unit=exp.Var(this=unit)))


@_reads(exp.DateDiff)
def _difference(to: Converter, node: exp.DateDiff) -> Expression:
    only(node, "this", "expression", "unit", "date_part_boundary")
    unit = _time_unit(node.args.get("unit")).removesuffix("s")
    return call(Op.DATE_DIFF, constant(unit), to.convert(node.expression), to.convert(node.this))


# Casts


@_reads(exp.Cast, exp.TryCast)
def _cast(to: Converter, node: exp.Expr) -> Expression:
    only(node, "this", "to", "safe")
    target = node.args["to"]
    if not isinstance(target, exp.DataType) or target.this not in _CASTS:
        raise QuestionError(
            f"There is no cast to {shown(target)}.",
            "Casts are to INTEGER, DOUBLE, DECIMAL(p, s), VARCHAR, BOOLEAN, DATE and TIMESTAMP.",
        )
    op = _CASTS[target.this]
    only(target, "this", *(["expressions"] if op is Op.TO_DECIMAL else []))
    value = cast_argument(node, to.convert(node.this), op, to.context.dialect, noisy=to.noisy)
    if target.this is exp.DataType.Type.DECIMAL:
        sizes = target.expressions  # DECIMAL is DECIMAL(18, 3), and DECIMAL(p) is DECIMAL(p, 0)
        for size in sizes:
            only(size, "this")
        digits = to.convert(sizes[1].this) if len(sizes) == 2 else constant(Fraction(0 if sizes else 3))
        if value.type.kind is Kind.BOOLEAN:
            value = call(Op.TO_INTEGER, value)
        return call(Op.TO_FIXED, value, digits, to.convert(sizes[0].this) if sizes else constant(Fraction(18)))
    number, ends = cast(op, value), _INTEGERS.get(target.this)
    type_ = number.type
    if ends is None or (type_.bounded and ends[0] <= (type_.lower or 0) <= (type_.upper or 0) <= ends[1]):
        return number
    low, high = (constant(Fraction(end)) for end in ends)  # NULL outside of the integers that the type has
    inside = call(Op.AND, call(Op.GREATER_EQUAL, number, low), call(Op.LESS_EQUAL, number, high))
    return call(Op.CASE, inside, number, constant(None))
