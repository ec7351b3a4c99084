"""Aggregates: names, requirements on arguments and types of results, or the SQL that replaces an aggregate.

A sum, mean, variance or quantile needs to know between which values its argument lies; that is what makes the
influence of one unit finite. A count needs nothing. A mode needs to know the candidates.

Many aggregates are functions of others. They are *rewritten*: ``COUNT_IF(c)`` is ``COUNT(*) FILTER (WHERE c)``. What
they cost, how far off they may be, and which statistics they share with the rest of the question, follows from what
they are rewritten into, over values that are released anyway.

>>> [record.names[0] for record in AGGREGATES if record.rewrite == "QUANTILE(x, 0.5)"]
['MEDIAN']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from hush.query.expressions import Expression
from hush.query.question import AggregateKind
from hush.query.types import Kind, Type


class ArgumentNeed(Enum):
    """Public facts that an aggregate needs about its arguments."""

    NOTHING = "nothing"
    NUMBERS = "numbers with bounds"
    ORDER = "numbers, dates or timestamps with bounds"
    CANDIDATES = "a list of all values"


Arguments = tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """One aggregate: a kind of its own, or an abbreviation of an expression over others."""

    names: tuple[str, ...]
    """Its names in SQL, the usual one first."""
    nodes: tuple[str, ...] = ()
    """The sqlglot node classes; an aggregate without a class is found by name."""
    kind: AggregateKind | None = None
    arity: int = 1
    of_booleans: bool = False
    """Whether it accepts booleans, as 1 and 0."""
    needs: ArgumentNeed = ArgumentNeed.NUMBERS
    result: Callable[[Arguments], Type] = lambda _: Type(Kind.DECIMAL)
    """The type of the answer."""
    parameters: tuple[str, ...] = ()
    """The names of its arguments in ``rewrite``."""
    rewrite: str = ""
    """The equal expression over other aggregates, in SQL."""


def _number_of(_: Arguments) -> Type:
    return Type(Kind.INTEGER, nullable=False, step=Fraction(1))


def _summed(arguments: Arguments) -> Type:
    type_ = arguments[0].type
    return Type(type_.kind, nullable=False, step=type_.step)


def _chosen(arguments: Arguments) -> Type:
    """Return the type of a chosen value, which keeps its bounds."""
    return arguments[0].type.or_null()


def _covariance(arguments: Arguments) -> Type:
    """Return the type of a covariance; its bounds hold for the truth and limit error bars."""
    # by Cauchy-Schwarz and Popoviciu: a variance is at most a quarter of the squared range
    most = math.prod((_spread(argument.type) for argument in arguments), start=Fraction(1, 4))
    return Type(Kind.DECIMAL, lower=-most, upper=most)


def _sample_covariance(arguments: Arguments) -> Type:
    """Return the type of a sample covariance: n/(n - 1) is at most 2 from two rows on."""
    most = 2 * math.prod((_spread(argument.type) for argument in arguments), start=Fraction(1, 4))
    return Type(Kind.DECIMAL, lower=-most, upper=most)


def _correlation(_: Arguments) -> Type:
    """Return the type of a correlation, from -1 to 1."""
    return Type(Kind.DECIMAL, lower=Fraction(-1), upper=Fraction(1))


def _spread(type_: Type) -> Fraction:
    """Return the width of the range of a bounded type."""
    assert type_.lower is not None  # noqa: S101 - the bounds were checked
    assert type_.upper is not None  # noqa: S101
    return type_.upper - type_.lower


def _regression(name: str, node: str, rewrite: str) -> AggregateFunction:
    """Return a regression aggregate of y on x, over the rows where neither is NULL."""
    return AggregateFunction(names=(name,), nodes=(node,), parameters=("y", "x"), rewrite=rewrite)


_K = AggregateKind
AGGREGATES = (
    AggregateFunction(names=("COUNT",), nodes=("Count",), kind=_K.COUNT, needs=ArgumentNeed.NOTHING, result=_number_of),
    AggregateFunction(names=(), kind=_K.COUNT_UNITS, needs=ArgumentNeed.NOTHING, result=_number_of),
    AggregateFunction(names=(), kind=_K.COUNT_DISTINCT, needs=ArgumentNeed.NOTHING, result=_number_of),
    AggregateFunction(names=("COUNT_IF",), nodes=("CountIf",), parameters=("c",), rewrite="COUNT(*) FILTER (WHERE c)"),
    AggregateFunction(names=("BOOL_OR",), nodes=("LogicalOr",), parameters=("c",), rewrite="COUNT_IF(c) > 0"),
    AggregateFunction(names=("BOOL_AND",), nodes=("LogicalAnd",), parameters=("c",), rewrite="COUNT_IF(NOT c) <= 0"),
    AggregateFunction(names=("COUNT_STAR",), rewrite="COUNT(*)"),
    AggregateFunction(
        names=("APPROX_COUNT_DISTINCT",), nodes=("ApproxDistinct",), parameters=("x",), rewrite="COUNT(DISTINCT x)"
    ),
    AggregateFunction(names=("SUM",), nodes=("Sum",), kind=_K.SUM, of_booleans=True, result=_summed),
    AggregateFunction(names=("AVG", "MEAN"), nodes=("Avg",), kind=_K.AVG, of_booleans=True),
    AggregateFunction(names=(), kind=_K.SUM_DISTINCT, result=_summed),
    AggregateFunction(names=(), kind=_K.AVG_DISTINCT, of_booleans=True),
    AggregateFunction(names=("GEOMETRIC_MEAN", "GEOMEAN"), parameters=("x",), rewrite="EXP(AVG(LN(x)))"),
    AggregateFunction(names=("VARIANCE", "VAR_SAMP", "VAR"), nodes=("Variance",), kind=_K.VARIANCE),
    AggregateFunction(names=("VAR_POP",), nodes=("VariancePop",), kind=_K.VARIANCE_POPULATION),
    AggregateFunction(
        names=("STDDEV", "STDDEV_SAMP", "STD", "STDEV"),
        nodes=("Stddev", "StddevSamp"),
        parameters=("x",),
        rewrite="SQRT(VARIANCE(x))",
    ),
    AggregateFunction(names=("STDDEV_POP",), nodes=("StddevPop",), parameters=("x",), rewrite="SQRT(VAR_POP(x))"),
    AggregateFunction(
        names=("COVAR_SAMP",), nodes=("CovarSamp",), kind=_K.COVARIANCE, arity=2, result=_sample_covariance
    ),
    AggregateFunction(
        names=("COVAR_POP",), nodes=("CovarPop",), kind=_K.COVARIANCE_POPULATION, arity=2, result=_covariance
    ),
    AggregateFunction(names=("CORR",), nodes=("Corr",), kind=_K.CORRELATION, arity=2, result=_correlation),
    _regression("REGR_COUNT", "RegrCount", "COUNT(*) FILTER (WHERE y IS NOT NULL AND x IS NOT NULL)"),
    _regression("REGR_AVGX", "RegrAvgx", "AVG(x) FILTER (WHERE y IS NOT NULL)"),
    _regression("REGR_AVGY", "RegrAvgy", "AVG(y) FILTER (WHERE x IS NOT NULL)"),
    _regression("REGR_SLOPE", "RegrSlope", "COVAR_POP(y, x) / VAR_POP(x) FILTER (WHERE y IS NOT NULL)"),
    _regression("REGR_INTERCEPT", "RegrIntercept", "REGR_AVGY(y, x) - REGR_SLOPE(y, x) * REGR_AVGX(y, x)"),
    _regression("REGR_R2", "RegrR2", "POWER(CORR(y, x), 2)"),
    AggregateFunction(
        names=("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC"),
        nodes=("Quantile", "ApproxQuantile", "PercentileCont", "PercentileDisc"),
        kind=_K.QUANTILE,
        needs=ArgumentNeed.ORDER,
        result=_chosen,
    ),
    AggregateFunction(names=("MEDIAN",), nodes=("Median",), parameters=("x",), rewrite="QUANTILE(x, 0.5)"),
    AggregateFunction(names=("MIN",), nodes=("Min",), kind=_K.MIN, needs=ArgumentNeed.ORDER, result=_chosen),
    AggregateFunction(names=("MAX",), nodes=("Max",), kind=_K.MAX, needs=ArgumentNeed.ORDER, result=_chosen),
    AggregateFunction(names=("MODE",), nodes=("Mode",), kind=_K.MODE, needs=ArgumentNeed.CANDIDATES, result=_chosen),
)
"""All aggregates over a group."""

BY_KIND: dict[AggregateKind, AggregateFunction] = {
    record.kind: record for record in AGGREGATES if record.kind is not None
}
