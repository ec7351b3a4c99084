r"""The rows of a question as integer codes, for marginals, synthetic data and models.

Each column has a finite public list of *levels*, numbered 0 … size-1, from the question's types alone:

    declared values       their places in the list
    a bounded line        the index on the column's grid, counted from the lower bound; values outside are clamped
    a boolean             false 0, true 1
    NULL                  the last code, where the policy or the question names NULL as a value (`Type.null_is_key`)

A row that is NULL in a column without a level for NULL is left out, as a row is whose key is NULL (`domains`). That
looks at the row alone, so it moves no other row.

**Bounding.** Of each unit's rows the first ``limits.rows`` are kept, in the order of a keyed hash of the unit and the
row's codes, ties broken by the codes. Rows with equal codes are interchangeable, so the kept codes depend on the unit's
own rows and on nothing else, in whatever order they are stored. Hence adding or removing a unit adds or removes at most
``limits.rows`` coded rows, and every other row stays as it is.

>>> from fractions import Fraction
>>> from hush.query.expressions import Column
>>> age = Type(Kind.INTEGER, lower=Fraction(18), upper=Fraction(99), step=Fraction(1), lists_null=True)
>>> column = CodedColumn.of("age", Column("age", age))
>>> column.size, column.value(0), column.value(81), column.value(82)
(83, Fraction(18, 1), Fraction(99, 1), None)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.stability import MAX_ROWS, Factor, Limits, Matches, Units, limits, uncounted
from hush.query.question import RowQuestion
from hush.query.schema import Schema
from hush.query.types import Kind, Type, Value, at_position


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedColumn:
    """One column as codes 0 … size-1."""

    name: str
    expression: Expression
    factor: Factor | None
    """The grid of a column that lies on a line; None for a list of values."""
    values: tuple[Value, ...]
    """The listed values; empty on a line."""
    null: bool
    """Whether the last code stands for NULL."""

    @classmethod
    def of(cls, name: str, expression: Expression) -> CodedColumn:
        """Return the codes of a column, or refuse it if it has no finite public list of values."""
        type_ = expression.type
        null = type_.null_is_key
        if type_.values is not None or type_.kind is Kind.BOOLEAN:
            values = (False, True) if type_.values is None else type_.values
            return cls(name=name, expression=expression, factor=None, values=values, null=null)
        if type_.kind is Kind.TEXT:
            raise UnplannableError(
                f"the column '{name}' has no public list of values; declare its values in the policy, or leave it out"
            )
        if not type_.bounded:
            raise UnplannableError(
                f"the column '{name}' has no bounds; declare lower and upper in the policy, or CLIP it in the question"
            )
        return cls(name=name, expression=expression, factor=Factor.raw(expression), values=(), null=null)

    @property
    def type(self) -> Type:
        """The column's type."""
        return self.expression.type

    @property
    def levels(self) -> int:
        """How many codes stand for values."""
        return len(self.values) if self.factor is None else self.factor.last - self.factor.first + 1

    @property
    def size(self) -> int:
        """How many codes there are, with that of NULL."""
        return self.levels + self.null

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are neighbouring values, as on a line; listed numbers may be names."""
        return self.factor is not None

    def value(self, code: int) -> Value:
        """Return the value that a code stands for."""
        if self.null and code == self.levels:
            return None
        if not 0 <= code < self.levels:
            raise IndexError(f"the column {self.name!r} has codes 0 … {self.size - 1}; got {code}")
        if self.factor is None:
            return self.values[code]
        return at_position(self.expression.type.kind, (self.factor.first + code) * self.factor.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    """Which coded rows an engine hands over, at most ``limits.rows`` of each unit. Public."""

    question: RowQuestion
    columns: tuple[CodedColumn, ...]
    limits: Limits


def plan_rows(
    question: RowQuestion, schema: Schema, *, max_rows: int | None = None, matches: Matches = uncounted
) -> RowPlan:
    """Plan the coded rows of a question; at most ``max_rows`` per unit, by default the policy's limit."""
    if max_rows is not None and not 1 <= max_rows <= MAX_ROWS:
        raise UnplannableError(f"max_rows must lie between 1 and {MAX_ROWS}; got {max_rows}")
    bounds = limits(question.relation, schema, keys=1, matches=matches)
    if max_rows is not None and bounds.units is not Units.ALONE:
        bounds = replace(bounds, rows=max_rows)
    return RowPlan(
        question=question,
        columns=tuple(CodedColumn.of(name, expression) for name, expression in question.columns),
        limits=bounds,
    )
