"""From sqlglot's expressions to ours, by exact node class; a class that is not in the tables below is refused.

The walk is the same over the rows of a relation and over the noisy answers; what differs is what a column name means.
So `Converter` knows all but the names, `Rows` knows the names of a relation, and `hush.query.sql.grouping` knows what
may be named after GROUP BY.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sqlglot import exp

from hush.query._support import is_null
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op
from hush.query.functions import call, folded
from hush.query.refine import narrowed
from hush.query.sql.calls import BINARY, UNARY, refuse_function
from hush.query.sql.handlers import SPECIAL
from hush.query.sql.nodes import REASONS, identifier, is_set, only, refuse, shown
from hush.query.sql.scope import Context, Scope, UnitName
from hush.query.types import Kind, Type


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
                left, right = self.convert(node.this), self.convert(node.expression)
                if op in _DIVIDING and isinstance(right, Literal) and right.value == 0:
                    raise QuestionError(f"{shown(node)} divides by zero: it is always NULL.", "Divide by a number.")
                return folded(op, left, right)
            if kind in SPECIAL:
                return SPECIAL[kind](self, node)
            if isinstance(node, exp.Func) and kind.__name__ not in REASONS:
                raise refuse_function(node)
        raise refuse(node)

    def condition(self, node: object) -> Expression:
        """Return an expression that is true or false."""
        found = self.convert(node)
        if is_null(found):
            raise QuestionError("NULL is never true.", "Write a condition, such as x IS NULL.")
        if found.type.kind is not Kind.BOOLEAN:
            hint = f"Compare it with something, or write CAST({shown(node)} AS BOOLEAN)."
            raise QuestionError(f"A condition is needed; {shown(node)} is {found.type.kind.value}.", hint)
        return found


_DIVIDING = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}
_AGGREGATE_NAMES = {"COUNT_STAR", "QUANTILE_CONT", "QUANTILE_DISC"}


def is_aggregate(node: object) -> bool:
    """Return whether a node aggregates rows, supported or not."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
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
        self._known: dict[int, tuple[object, Expression]] = {}

    def convert(self, node: object) -> Expression:
        """Return our expression for a node, and remember it: what follows GROUP BY asks for parts again and again."""
        if isinstance(node, exp.Subquery | exp.Exists) or (isinstance(node, exp.In) and is_set(node.args.get("query"))):
            from hush.query.sql.subqueries import value_of

            return value_of(self, node)
        if id(node) not in self._known:
            self._known[id(node)] = (node, super().convert(node))  # the node too, so that its id stays its own
        return self._known[id(node)][1]

    def assuming(self, condition: Expression, *, outcome: bool = True) -> Rows:
        """Return a converter for the rows on which a condition is true (or false)."""
        return Rows(self.context, self.scope, narrowed(self.types, condition, outcome=outcome))

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the relation; the unit cannot be had."""
        qualifier = node.args.get("table")
        name = identifier(node.this)
        found = self.scope.require(
            name, None if qualifier is None else identifier(qualifier), quoted=bool(node.this.args.get("quoted"))
        )
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
