"""What the readers of syntax know of whoever reads for them: how a node becomes an expression, and what is assumed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Expression
from hush.query.functions.rules import is_null
from hush.query.sql.nodes import shown
from hush.query.sql.scope import Context
from hush.query.types import Kind


class Resolver(ABC):
    """Turns sqlglot's expressions into ours."""

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

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Resolver:  # noqa: ARG002
        """Return a resolver for where a condition is known to hold (or not to)."""
        return self

    def unless(self, _condition: Expression) -> Resolver:
        """Return a resolver for where a condition is not true: false or NULL."""
        return self

    @abstractmethod
    def given(self, values: Mapping[str, Expression]) -> Resolver:
        """Return a resolver of a text in which names stand for expressions."""

    @abstractmethod
    def convert(self, node: object) -> Expression:
        """Return our expression for a node."""

    def condition(self, node: object) -> Expression:
        """Return an expression that is true or false."""
        found = self.convert(node)
        if is_null(found):
            raise QuestionError("NULL is never true.", "Write a condition, such as x IS NULL.")
        if found.type.kind is not Kind.BOOLEAN:
            hint = f"Compare it with something, or write CAST({shown(node)} AS BOOLEAN)."
            raise QuestionError(f"A condition is needed; {shown(node)} is {found.type.kind.value}.", hint)
        return found
