"""From sqlglot's expressions to ours, by exact node class; a class that is not in the tables is refused.

The tables are those of functions and aggregates (`hush.query.sql.calls`) and of syntax (`hush.query.sql.handlers`). The
walk is the same over the rows of a relation and over the noisy answers; what differs is what a column name means. So
`Converter` knows all but the names, `Rows` knows the names of a relation, and `hush.query.sql.grouping` knows what may
be named after GROUP BY.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Literal, Op
from hush.query.functions import call, folded
from hush.query.refine import narrowed, narrowed_unless
from hush.query.sql.calls import CALLS, is_aggregate, refuse_function, rewritten_aggregate, rewritten_function
from hush.query.sql.handlers import SPECIAL
from hush.query.sql.nodes import REASONS, identifier, is_set, only, place, refuse, shown
from hush.query.sql.scope import Context, Resolver, Scope, UnitName
from hush.query.types import Kind, Type


class Converter(Resolver):
    """Turns one sqlglot expression into ours, by the tables."""

    def given(self, values: Mapping[str, Expression]) -> Converter:
        """Return a converter of a text in which names stand for expressions."""
        return _Given(self.context, values)

    def convert(self, node: object) -> Expression:
        """Return our expression for a node; a refusal knows the innermost one that it is about."""
        try:
            return self._converted(node)
        except QuestionError as error:
            if error.place is None and isinstance(node, exp.Expr):
                error.place = place(node)
            raise

    def _converted(self, node: object) -> Expression:
        kind = type(node)
        if isinstance(node, exp.Expr):
            if is_aggregate(node):
                rewritten = rewritten_aggregate(node)
                return self.aggregate(node) if rewritten is None else self.convert(rewritten)
            if kind in CALLS:
                return self._call(node)
            if (standing := rewritten_function(self, node)) is not None:
                return standing
            if kind in SPECIAL:
                return SPECIAL[kind](self, node)
            if isinstance(node, exp.Func) and kind.__name__ not in REASONS:
                raise refuse_function(node)
        raise refuse(node)

    def _call(self, node: exp.Expr) -> Expression:
        """Return a call whose arguments are those of its node, in order."""
        op, reading = CALLS[type(node)]
        only(node, *(slot.removeprefix("*") for slot in reading.slots), *reading.ignored)
        arguments: list[Expression] = []
        for slot in reading.slots:
            if slot.startswith("*"):
                arguments += [self.convert(item) for item in node.args.get(slot[1:]) or ()]
            elif is_set(node.args.get(slot)):
                arguments.append(self.convert(node.args[slot]))
        if op in _DIVIDING and isinstance(arguments[-1], Literal) and arguments[-1].value == 0:
            raise QuestionError(f"{shown(node)} divides by zero: it is always NULL.", "Divide by a number.")
        if isinstance(node, exp.Div) and node.args.get("typed"):  # a dialect in which 7 / 2 is 3
            whole = all(argument.type.kind is Kind.INTEGER for argument in arguments)
            op = Op.DIVIDE_WHOLE if whole else op
        return folded(op, *arguments) if len(arguments) == 2 else call(op, *arguments)


_DIVIDING = {Op.DIVIDE, Op.DIVIDE_WHOLE, Op.MODULO}


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates rows anywhere inside; subqueries are for whoever resolves them."""
    return any(is_aggregate(part) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


class _Given(Converter):
    """The text of a function that stands for others, over its arguments."""

    def __init__(self, context: Context, values: Mapping[str, Expression]) -> None:
        super().__init__(context)
        self._values = values

    def convert(self, node: object) -> Expression:
        """Return our expression for a node, whose place is not one in the question."""
        return self._converted(node)

    def column(self, node: exp.Column) -> Expression:
        """Return the argument of this name."""
        return self._values[identifier(node.this)]


class Rows(Converter):
    """Expressions over the rows of a relation."""

    def __init__(self, context: Context, scope: Scope, types: dict[str, Type] | None = None) -> None:
        super().__init__(context)
        self.scope = scope
        self.types = scope.types() if types is None else types
        self._known: dict[int, tuple[object, Expression]] = {}

    def convert(self, node: object) -> Expression:
        """Return our expression for a node, and remember it: what follows GROUP BY asks for parts again and again."""
        if id(node) not in self._known:
            found = self._subquery(node) or super().convert(node)
            self._known[id(node)] = (node, found)  # the node too, so that its id stays its own
        return self._known[id(node)][1]

    def _subquery(self, node: object) -> Expression | None:
        """Return what a subquery inside an expression is for a row; None for everything else."""
        if isinstance(node, exp.Subquery | exp.Exists) or (isinstance(node, exp.In) and is_set(node.args.get("query"))):
            return self.context.subqueries.value(self, node)
        return None

    def assuming(self, condition: Expression, *, outcome: bool = True) -> Rows:
        """Return a converter for the rows on which a condition is true (or false)."""
        return Rows(self.context, self.scope, narrowed(self.types, condition, outcome=outcome))

    def unless(self, condition: Expression) -> Rows:
        """Return a converter for the rows on which a condition is not true."""
        return Rows(self.context, self.scope, narrowed_unless(self.types, condition))

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the relation; the unit cannot be had."""
        qualifier = node.args.get("table")
        name = identifier(node.this)
        found = self.scope.require(
            name, None if qualifier is None else identifier(qualifier), quoted=bool(node.this.args.get("quoted"))
        )
        if found is UnitName.LOST:
            raise QuestionError(
                f"'{name}' is the protected unit, of the optional side of a join, which no expression can use.",
                f"For rows without a partner write WHERE {name} IS NULL, and read nothing else of that side, or NOT "
                "EXISTS; elsewhere test another of its columns for NULL.",
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
