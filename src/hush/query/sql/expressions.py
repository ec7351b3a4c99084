"""From sqlglot's expressions to ours, by exact node class; a class that is not in the tables below is refused.

The walk is the same over the rows of a relation and over the noisy answers; what differs is what a column name means.
So `Converter` knows all but the names, `Rows` knows the names of a relation, and `hush.query.sql.grouping` knows what
may be named after GROUP BY.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op
from hush.query.functions import all_of, call, cast, constant, negated
from hush.query.refine import narrowed
from hush.query.sql.calls import ANONYMOUS, BINARY, CASTS, DATE_PARTS, UNARY, refuse_function
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.parameters import number_literal
from hush.query.sql.scope import Context, Scope, UnitName
from hush.query.types import Kind, Type

_LONGEST = 2**31 - 1


class Converter(ABC):
    """Turns one sqlglot expression into ours."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def column(self, node: exp.Column) -> Expression:
        """Return what a column name means."""

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return an aggregate, where one may stand."""
        raise QuestionError(
            f"An aggregate cannot stand here: {shown(node)}.",
            "Aggregates belong into SELECT, HAVING and ORDER BY; within one unit first: "
            "FROM (SELECT unit, COUNT(*) AS n FROM … GROUP BY unit).",
        )

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Converter:  # noqa: ARG002
        """Return a converter for where a condition is known to hold (or not to)."""
        return self

    def convert(self, node: object) -> Expression:
        """Return our expression for a node."""
        kind = type(node)
        if isinstance(node, exp.Expr):
            if is_aggregate(node):
                return self.aggregate(node)
            if kind in UNARY:
                only(node, "this")
                return call(UNARY[kind], self.convert(node.this))
            if kind in BINARY:
                op, ignored = BINARY[kind]
                only(node, "this", "expression", *ignored)
                return call(op, self.convert(node.this), self.convert(node.expression))
            if kind in _SPECIAL:
                return _SPECIAL[kind](self, node)
            if isinstance(node, exp.Func):
                raise refuse_function(node)
        raise refuse(node)

    def condition(self, node: object) -> Expression:
        """Return an expression that is true or false."""
        found = self.convert(node)
        if found.type.kind is not Kind.BOOLEAN:
            raise QuestionError(f"A condition is needed; {shown(node)} is {found.type.kind.value}.")
        return found

    # one method for each class that needs more than a table

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise refuse(node.this)
        if is_set(node.args.get("db")) or is_set(node.args.get("catalog")):
            raise QuestionError(f"Only table.column can be named; got {shown(node)}.")
        only(node, "this", "table")
        return self.column(node)

    def _paren(self, node: exp.Paren) -> Expression:
        only(node, "this")
        return self.convert(node.this)

    def _literal(self, node: exp.Literal) -> Expression:
        only(node, "this", "is_string")
        text = str(node.this)
        return constant(text) if node.is_string else constant(number_literal(text))

    def _boolean(self, node: exp.Boolean) -> Expression:
        only(node, "this")
        return constant(bool(node.this))

    def _null(self, node: exp.Null) -> Expression:
        only(node)
        return constant(None)

    def _placeholder(self, node: exp.Placeholder) -> Expression:
        only(node, "this")
        return self.context.binder.bind(str(node.this or ""))

    def _negative(self, node: exp.Neg) -> Expression:
        only(node, "this")
        return negated(self.convert(node.this))

    def _subtract(self, node: exp.Sub) -> Expression:
        only(node, "this", "expression")
        left, right = self.convert(node.this), self.convert(node.expression)
        if left.type.kind is Kind.DATE and right.type.kind is Kind.DATE:
            return call(Op.DAYS_BETWEEN, right, left)
        return call(Op.SUBTRACT, left, right)

    def _and(self, node: exp.And) -> Expression:
        only(node, "this", "expression")
        return all_of([self.condition(node.this), self.condition(node.expression)])

    def _between(self, node: exp.Between) -> Expression:
        only(node, "this", "low", "high")
        value = self.convert(node.this)
        lower = call(Op.GREATER_EQUAL, value, self.convert(node.args["low"]))
        return call(Op.AND, lower, call(Op.LESS_EQUAL, value, self.convert(node.args["high"])))

    def _in(self, node: exp.In) -> Expression:
        if is_set(node.args.get("query")) or is_set(node.args.get("unnest")):
            raise QuestionError(
                f"IN (SELECT …) is not supported: {shown(node)}.",
                "Join on the unit, join a public table, or write the list out.",
            )
        only(node, "this", "expressions")
        return call(Op.IN, self.convert(node.this), *(self.convert(item) for item in node.expressions))

    def _is(self, node: exp.Is) -> Expression:
        only(node, "this", "expression", "negate")
        value = self.convert(node.this)
        if isinstance(node.expression, exp.Null):
            found: Expression = call(Op.IS_NULL, value)
        elif isinstance(node.expression, exp.Boolean):
            wanted = value if node.expression.this else call(Op.NOT, value)
            found = call(Op.COALESCE, wanted, constant(False))
        else:
            raise refuse(node)
        return call(Op.NOT, found) if node.args.get("negate") else found

    def _like(self, node: exp.Expr) -> Expression:
        only(node, "this", "expression", "negate")
        value, pattern = self.convert(node.this), self.convert(node.expression)
        if isinstance(node, exp.ILike):
            text = pattern.value if isinstance(pattern, Literal) else None
            if not isinstance(text, str) or not text.isascii():
                raise QuestionError("ILIKE needs a constant pattern of ASCII characters.", "Use LIKE.")
            value, pattern = call(Op.LOWER, value), constant(text.lower())
        found = call(Op.LIKE, value, pattern)
        return call(Op.NOT, found) if node.args.get("negate") else found

    def _case(self, node: exp.Case) -> Expression:
        only(node, "this", "ifs", "default")
        operand = self.convert(node.this) if is_set(node.args.get("this")) else None
        parts: list[Expression] = []
        here: Converter = self
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            if operand is None:
                condition = here.condition(branch.this)
            else:
                condition = call(Op.EQUAL, operand, here.convert(branch.this))
            parts += [condition, here.assuming(condition).convert(branch.args["true"])]
            if not condition.type.nullable:  # otherwise the next branch is also for rows where it is NULL
                here = here.assuming(condition, outcome=False)
        default = node.args.get("default")
        return call(Op.CASE, *parts, constant(None) if default is None else here.convert(default))

    def _if(self, node: exp.If) -> Expression:
        only(node, "this", "true", "false")
        condition = self.condition(node.this)
        otherwise = node.args.get("false")
        return call(
            Op.CASE,
            condition,
            self.assuming(condition).convert(node.args["true"]),
            constant(None) if otherwise is None else self.convert(otherwise),
        )

    def _coalesce(self, node: exp.Coalesce) -> Expression:
        only(node, "this", "expressions", "is_nvl", "is_null")
        return call(Op.COALESCE, self.convert(node.this), *(self.convert(item) for item in node.expressions))

    def _extreme(self, node: exp.Expr) -> Expression:
        only(node, "this", "expressions", "ignore_nulls")
        op = Op.LEAST if isinstance(node, exp.Least) else Op.GREATEST
        return call(op, self.convert(node.this), *(self.convert(item) for item in node.expressions))

    def _round(self, node: exp.Round) -> Expression:
        only(node, "this", "decimals")
        digits = node.args.get("decimals")
        return call(Op.ROUND, self.convert(node.this), *([] if digits is None else [self.convert(digits)]))

    def _log(self, node: exp.Log) -> Expression:
        only(node, "this", "expression")
        base, value = node.this, node.args.get("expression")
        if value is None:
            base, value = None, node.this
        number = constant(Fraction(10)) if base is None else self.convert(base)
        if not isinstance(number, Literal) or not isinstance(number.value, Fraction) or number.value <= 1:
            raise QuestionError("LOG needs a constant base above 1.", "Write LN(x), LOG10(x) or LOG(2, x).")
        return call(Op.DIVIDE, call(Op.LN, self.convert(value)), call(Op.LN, number))

    def _substring(self, node: exp.Substring) -> Expression:
        only(node, "this", "start", "length")
        size = node.args.get("length")
        start = node.args.get("start")
        return call(
            Op.SUBSTRING,
            self.convert(node.this),
            constant(Fraction(1)) if start is None else self.convert(start),
            constant(Fraction(_LONGEST)) if size is None else self.convert(size),
        )

    def _concat(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.DPipe):
            only(node, "this", "expression", "safe")
            parts = [self.convert(node.this), self.convert(node.expression)]
        else:  # CONCAT() skips NULLs
            only(node, "expressions", "safe", "coalesce")
            parts = [self.convert(item) for item in node.expressions]
            parts = [call(Op.COALESCE, part, constant("")) if part.type.nullable else part for part in parts]
        found = call(Op.CONCAT, *parts)
        self.context.check_copies(found)
        return found

    def _replace(self, node: exp.Replace) -> Expression:
        only(node, "this", "expression", "replacement")
        return call(
            Op.REPLACE,
            self.convert(node.this),
            self.convert(node.expression),
            self.convert(node.args["replacement"]) if is_set(node.args.get("replacement")) else constant(""),
        )

    def _extract(self, node: exp.Extract) -> Expression:
        only(node, "this", "expression")
        return self._part(_word(node.this), node.expression)

    def _part(self, name: str, node: object) -> Expression:
        if name not in DATE_PARTS:
            allowed = ", ".join(sorted(DATE_PARTS))
            raise QuestionError(f"Of a date can be taken: {allowed}; got {name[:40]}.")
        return call(DATE_PARTS[name], self.convert(node))

    def _truncate(self, node: exp.Expr) -> Expression:
        only(node, "this", "unit", "input_type_preserved")
        return call(Op.TRUNCATE_DATE, constant(_word(node.args.get("unit"))), self.convert(node.this))

    def _days(self, node: exp.DateDiff) -> Expression:
        only(node, "this", "expression", "unit", "date_part_boundary")
        if _word(node.args.get("unit")) != "day":
            raise QuestionError("Differences of dates are counted in days.", "Write DATE_DIFF('day', a, b).")
        return call(Op.DAYS_BETWEEN, self.convert(node.expression), self.convert(node.this))

    def _cast(self, node: exp.Expr) -> Expression:
        only(node, "this", "to", "safe")
        to = node.args["to"]
        if not isinstance(to, exp.DataType) or to.this not in CASTS:
            raise QuestionError(
                f"There is no cast to {shown(to)}.",
                "Casts are to INTEGER, DOUBLE, DECIMAL(p, s), VARCHAR, BOOLEAN, DATE and TIMESTAMP.",
            )
        op = CASTS[to.this]
        only(to, "this", *(["expressions"] if op is Op.TO_DECIMAL else []))
        found = cast(op, self.convert(node.this))
        sizes = to.expressions
        if len(sizes) == 2:
            only(sizes[1], "this")
            found = call(Op.ROUND, found, self.convert(sizes[1].this))
        return found

    def _anonymous(self, node: exp.Anonymous) -> Expression:
        only(node, "this", "expressions")
        name = str(node.this).upper()
        if name == "DATE_PART" and len(node.expressions) == 2:
            return self._part(_word(node.expressions[0]), node.expressions[1])
        if name not in ANONYMOUS:
            raise refuse_function(node)
        return call(ANONYMOUS[name], *(self.convert(item) for item in node.expressions))


def _word(node: object) -> str:
    """Return a unit of time, which sqlglot keeps as a variable or as text."""
    if isinstance(node, exp.Var) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this).casefold()
    raise QuestionError("A unit of time is constant text.", "Write for instance DATE_TRUNC('month', d).")


_SPECIAL: dict[type[exp.Expr], Callable[..., Expression]] = {
    exp.Column: Converter._column,
    exp.Paren: Converter._paren,
    exp.Literal: Converter._literal,
    exp.Boolean: Converter._boolean,
    exp.Null: Converter._null,
    exp.Placeholder: Converter._placeholder,
    exp.Neg: Converter._negative,
    exp.Sub: Converter._subtract,
    exp.And: Converter._and,
    exp.Between: Converter._between,
    exp.In: Converter._in,
    exp.Is: Converter._is,
    exp.Like: Converter._like,
    exp.ILike: Converter._like,
    exp.Case: Converter._case,
    exp.If: Converter._if,
    exp.Coalesce: Converter._coalesce,
    exp.Least: Converter._extreme,
    exp.Greatest: Converter._extreme,
    exp.Round: Converter._round,
    exp.Log: Converter._log,
    exp.Substring: Converter._substring,
    exp.DPipe: Converter._concat,
    exp.Concat: Converter._concat,
    exp.Replace: Converter._replace,
    exp.Extract: Converter._extract,
    exp.TimestampTrunc: Converter._truncate,
    exp.DateTrunc: Converter._truncate,
    exp.DateDiff: Converter._days,
    exp.Cast: Converter._cast,
    exp.TryCast: Converter._cast,
    exp.Anonymous: Converter._anonymous,
}

_AGGREGATE_NAMES = {"COUNT_STAR", "QUANTILE_CONT", "QUANTILE_DISC"}


def is_aggregate(node: object) -> bool:
    """Return whether a node aggregates rows, supported or not."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in _AGGREGATE_NAMES


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates rows anywhere inside; subqueries are for whoever resolves them."""
    return any(is_aggregate(part) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


class Rows(Converter):
    """Expressions over the rows of a relation."""

    def __init__(self, context: Context, scope: Scope, types: dict[str, Type] | None = None) -> None:
        super().__init__(context)
        self.scope = scope
        self.types = scope.types() if types is None else types

    def assuming(self, condition: Expression, *, outcome: bool = True) -> Rows:
        """Return a converter for the rows on which a condition is true (or false)."""
        return Rows(self.context, self.scope, narrowed(self.types, condition, outcome=outcome))

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the relation; the unit cannot be had."""
        qualifier = node.args.get("table")
        name = identifier(node.this)
        found = self.scope.require(name, None if qualifier is None else identifier(qualifier))
        if isinstance(found, UnitName):
            raise QuestionError(
                f"'{name}' is the protected unit, which no expression can use.",
                f"Possible are COUNT(DISTINCT {name}), joins ON a.{name} = b.{name}, "
                f"and GROUP BY {name} in a subquery.",
            )
        return Column(found, self.types[found])

    def unit(self, node: object) -> UnitName | None:
        """Return whether a node names the unit."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        only(node, "this", "table")
        qualifier = node.args.get("table")
        found = self.scope.find(identifier(node.this), None if qualifier is None else identifier(qualifier))
        if found is UnitName.LOST:
            raise QuestionError(
                f"{shown(node)} is the unit on the optional side of a LEFT JOIN.", "Name the left side's unit."
            )
        return found if isinstance(found, UnitName) else None
