"""A question: one grouped aggregate over a private relation, and what is done with the noisy answers.

This is the meeting point of SQL and the Python builder on one side and of the planner on the other. It says nothing
of noise, prices or engines. Everything an analyst can ask is one of these; two ways of asking the same thing give
equal objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from hush.query.expressions import Expression
from hush.query.relations import Named, Relation
from hush.query.types import Type


class AggregateKind(Enum):
    """What may be asked about a group."""

    COUNT = "count"
    """Rows, or rows whose argument is not NULL."""
    COUNT_UNITS = "count units"
    """COUNT(DISTINCT unit)."""
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    VARIANCE = "variance"
    """The sample variance (divided by n-1), as SQL's VARIANCE."""
    VARIANCE_POPULATION = "variance population"
    COVARIANCE = "covariance"
    """The sample covariance."""
    COVARIANCE_POPULATION = "covariance population"
    CORRELATION = "correlation"
    QUANTILE = "quantile"
    MIN = "min"
    MAX = "max"
    MODE = "mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate; COUNT(*) has no argument, CORRELATION and COVARIANCE have two, the others one."""

    kind: AggregateKind
    arguments: tuple[Expression, ...] = ()
    where: Expression | None = None
    """FILTER (WHERE …)."""
    fraction: Fraction | None = None
    """Which quantile, in (0, 1)."""
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One ORDER BY item over released values."""

    by: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """SELECT outputs FROM relation GROUP BY keys HAVING … ORDER BY … LIMIT …, with all names resolved."""

    data: str
    relation: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[Aggregate, ...]
    """Distinct: an aggregate that is written twice is asked once."""
    outputs: tuple[Named, ...]
    """Post-processing: expressions over `Released` keys and aggregates."""
    having: Expression | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    intervals: tuple[tuple[str, str], ...] = ()
    """Outputs that are shown as an end of their error bar: "low" or "high"."""
    text: str = field(default="", compare=False)
    """The question as it was asked, with the values of its parameters, for the ledger and for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuestion:
    """SELECT columns FROM relation, row by row: what a whole release or a model is made from.

    No row of it is ever shown. It names the rows; `hush.query.plan.rows` says what is read of them.
    """

    data: str
    relation: Relation
    columns: tuple[Named, ...]
    text: str = field(default="", compare=False)
    """The question as it was asked, for the ledger and for messages."""
