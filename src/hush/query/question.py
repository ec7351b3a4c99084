"""A question: one grouped aggregation over a private relation, with post-processing of the noisy answers.

This is the meeting point of SQL and the Python builder on one side and of the planner on the other. It says nothing
of noise, prices or engines. Everything an analyst can ask is one of these; two ways of asking the same thing give
equal objects.

**Fingerprints** are equal for equal questions and policies, in every process and on every machine.
A question that is asked again is known by its typed tree, not by its text: ``select count(*) from t`` and
``SELECT COUNT(*) FROM t`` are one question. `fingerprint` writes a tree of frozen dataclasses in one canonical way and
hashes it. Fields that take no part in equality (the text, for one) are left out. Every value is written with its type
and its length, so two different trees never have the same text:

- a dataclass by its class and its fields by name; fields that hold their default are left out, so that a new field of
  a later version leaves old fingerprints as they are;
- a tuple or list in order; a set and a mapping in the order of their written elements;
- numbers exactly, dates in ISO form, texts as they are.

Nothing here looks at data: trees and policies are public.

>>> from fractions import Fraction
>>> fingerprint((1, "a")) == fingerprint([1, "a"]) != fingerprint((1, "b"))
True
>>> fingerprint(Fraction(1, 2)) == fingerprint(0.5)
False

**Aggregates.** A sum, mean, variance or quantile needs to know between which values its argument lies; that is what
makes the influence of one unit finite. A count needs nothing. A mode needs to know the candidates.

Many aggregates are functions of others. They are *rewritten*: ``COUNT_IF(c)`` is ``COUNT(*) FILTER (WHERE c)``. What
they cost, how far off they may be, and which statistics they share with the rest of the question, follows from what
they are rewritten into, over values that are released anyway.

>>> [record.names[0] for record in AGGREGATES if record.rewrite == "QUANTILE(x, 0.5)"]
['MEDIAN']
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from hush.query.expressions import Expression
from hush.query.relations import Named, Relation
from hush.query.types import Kind, Type


class AggregateKind(Enum):
    """Kinds of aggregates over a group."""

    COUNT = "count"
    """COUNT(*), or COUNT(x): rows where the argument is not NULL."""
    COUNT_UNITS = "count units"
    """COUNT(DISTINCT unit)."""
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    SUM_DISTINCT = "sum distinct"
    """SUM(DISTINCT x)."""
    AVG = "avg"
    AVG_DISTINCT = "avg distinct"
    """AVG(DISTINCT x)."""
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
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Notes on differences from the meaning in the question's dialect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuestion:
    """SELECT columns FROM relation, row by row: the input of synthetic data and models.

    No row of it is ever shown. It names the rows; `hush.query.plan.rows` says what is read of them.
    """

    data: str
    relation: Relation
    columns: tuple[Named, ...]
    text: str = field(default="", compare=False)
    """The question as it was asked, for the ledger and for messages."""


_PLAIN = (str, bool, int, float, Fraction, Decimal, dt.date, dt.datetime, dt.time, dt.timedelta, bytes, type(None))


def fingerprint(*trees: object) -> str:
    """Return 32 hexadecimal digits that stand for trees of dataclasses, collections and plain values.

    Names of classes, fields and members of enumerations are part of it. A renamed class makes every paid question new,
    and ends the streams that were made before.
    """
    return hashlib.sha256(_written(trees).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _written(value: Any) -> str:
    kind: Any = type(value)
    if kind is str:  # first, for lists of values are long
        return f"str{len(value)}:{value}"
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, _PLAIN):
        text = str(value)
        return f"{kind.__name__}{len(text)}:{text}"
    if kind in {tuple, list}:
        return f"({','.join(map(_written, value))})"
    if is_dataclass(value):
        written = []
        for name, default in _compared(kind):
            held = getattr(value, name)
            # a field at its default is left out: a new field keeps old fingerprints
            if default is MISSING or (held is not default and held != default):
                written.append(f"{name}={_written(held)}")
        return f"{kind.__name__}{{{','.join(written)}}}"
    if isinstance(value, Mapping):
        pairs = sorted(f"{_written(key)}={_written(entry)}" for key, entry in value.items())
        return f"[{','.join(pairs)}]"
    if isinstance(value, AbstractSet):
        return f"<{','.join(sorted(map(_written, value)))}>"
    raise TypeError(f"a tree holds a {kind.__name__}, which has no fingerprint")


@cache
def _compared(kind: Any) -> tuple[tuple[str, object], ...]:
    """Return the fields that take part in equality, with their plain defaults."""
    return tuple((field.name, field.default) for field in fields(kind) if field.compare)


class ArgumentNeed(Enum):
    """Public facts that an aggregate needs about its arguments."""

    NOTHING = "nothing"
    NUMBERS = "numbers with bounds"
    ORDER = "numbers, dates or timestamps with bounds"
    CANDIDATES = "a list of all values"


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """One aggregate: a kind of its own, or an abbreviation of an expression over others."""

    names: tuple[str, ...]
    """Its names in SQL, the usual one first."""
    nodes: tuple[str, ...] = ()
    """The sqlglot node classes; an aggregate without a class is found by name."""
    kind: AggregateKind | None = None
    needs: ArgumentNeed = ArgumentNeed.NUMBERS
    _: KW_ONLY
    arity: int = 1
    of_booleans: bool = False
    """Whether it accepts booleans, as 1 and 0."""
    parameters: tuple[str, ...] = ()
    """The names of its arguments in ``rewrite``."""
    rewrite: str = ""
    """The equal expression over other aggregates, in SQL."""


def result_type(kind: AggregateKind, arguments: tuple[Expression, ...]) -> Type:
    """Return the type of an aggregate's answers. Bounds hold for the truth, and limit error bars."""
    match kind:
        case AggregateKind.COUNT | AggregateKind.COUNT_UNITS | AggregateKind.COUNT_DISTINCT:
            return Type(Kind.INTEGER, nullable=False, step=Fraction(1))
        case AggregateKind.SUM | AggregateKind.SUM_DISTINCT:
            return Type(arguments[0].type.kind, nullable=False, step=arguments[0].type.step)
        case AggregateKind.QUANTILE | AggregateKind.MIN | AggregateKind.MAX | AggregateKind.MODE:
            return arguments[0].type.or_null()  # a chosen value keeps its bounds
        case AggregateKind.CORRELATION:
            return Type(Kind.DECIMAL, lower=Fraction(-1), upper=Fraction(1))
        case AggregateKind.COVARIANCE | AggregateKind.COVARIANCE_POPULATION:
            # by Cauchy-Schwarz and Popoviciu: a variance is at most a quarter of the squared range;
            # n/(n - 1), by which a sample covariance is larger, is at most 2 from two rows on
            most = Fraction(1, 2 if kind is AggregateKind.COVARIANCE else 4)
            for argument in arguments:
                lower, upper = argument.type.lower, argument.type.upper
                assert lower is not None and upper is not None  # noqa: S101, PT018 - the bounds were checked
                most *= upper - lower
            return Type(Kind.DECIMAL, lower=-most, upper=most)
        case _:
            return Type(Kind.DECIMAL)


_K, _N = AggregateKind, ArgumentNeed
AGGREGATES = (
    AggregateFunction(("COUNT",), ("Count",), _K.COUNT, _N.NOTHING),
    AggregateFunction((), (), _K.COUNT_UNITS, _N.NOTHING),
    AggregateFunction((), (), _K.COUNT_DISTINCT, _N.NOTHING),
    AggregateFunction(("SUM",), ("Sum",), _K.SUM, of_booleans=True),
    AggregateFunction(("AVG", "MEAN"), ("Avg",), _K.AVG, of_booleans=True),
    AggregateFunction((), (), _K.SUM_DISTINCT),
    AggregateFunction((), (), _K.AVG_DISTINCT, of_booleans=True),
    AggregateFunction(("VARIANCE", "VAR_SAMP", "VAR"), ("Variance",), _K.VARIANCE),
    AggregateFunction(("VAR_POP",), ("VariancePop",), _K.VARIANCE_POPULATION),
    AggregateFunction(("COVAR_SAMP",), ("CovarSamp",), _K.COVARIANCE, arity=2),
    AggregateFunction(("COVAR_POP",), ("CovarPop",), _K.COVARIANCE_POPULATION, arity=2),
    AggregateFunction(("CORR",), ("Corr",), _K.CORRELATION, arity=2),
    AggregateFunction(
        ("QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC"),
        ("Quantile", "ApproxQuantile", "PercentileCont", "PercentileDisc"),
        _K.QUANTILE,
        _N.ORDER,
    ),
    AggregateFunction(("MIN",), ("Min",), _K.MIN, _N.ORDER),
    AggregateFunction(("MAX",), ("Max",), _K.MAX, _N.ORDER),
    AggregateFunction(("MODE",), ("Mode",), _K.MODE, _N.CANDIDATES),
    *(
        AggregateFunction(names, nodes, parameters=parameters, rewrite=rewrite)
        for names, nodes, parameters, rewrite in (
            (("COUNT_STAR",), (), (), "COUNT(*)"),
            (("COUNT_IF",), ("CountIf",), ("c",), "COUNT(*) FILTER (WHERE c)"),
            (("BOOL_OR",), ("LogicalOr",), ("c",), "COUNT_IF(c) > 0"),
            (("BOOL_AND",), ("LogicalAnd",), ("c",), "COUNT_IF(NOT c) <= 0"),
            (("APPROX_COUNT_DISTINCT",), ("ApproxDistinct",), ("x",), "COUNT(DISTINCT x)"),
            (("GEOMETRIC_MEAN", "GEOMEAN"), (), ("x",), "EXP(AVG(LN(x)))"),
            (("STDDEV", "STDDEV_SAMP", "STD", "STDEV"), ("Stddev", "StddevSamp"), ("x",), "SQRT(VARIANCE(x))"),
            (("STDDEV_POP",), ("StddevPop",), ("x",), "SQRT(VAR_POP(x))"),
            (("MEDIAN",), ("Median",), ("x",), "QUANTILE(x, 0.5)"),
        )
    ),
    # of y on x, over the rows where neither is NULL
    *(
        AggregateFunction((name,), (node,), parameters=("y", "x"), rewrite=rewrite)
        for name, node, rewrite in (
            ("REGR_COUNT", "RegrCount", "COUNT(*) FILTER (WHERE y IS NOT NULL AND x IS NOT NULL)"),
            ("REGR_AVGX", "RegrAvgx", "AVG(x) FILTER (WHERE y IS NOT NULL)"),
            ("REGR_AVGY", "RegrAvgy", "AVG(y) FILTER (WHERE x IS NOT NULL)"),
            ("REGR_SLOPE", "RegrSlope", "COVAR_POP(y, x) / VAR_POP(x) FILTER (WHERE y IS NOT NULL)"),
            ("REGR_INTERCEPT", "RegrIntercept", "REGR_AVGY(y, x) - REGR_SLOPE(y, x) * REGR_AVGX(y, x)"),
            ("REGR_R2", "RegrR2", "POWER(CORR(y, x), 2)"),
        )
    ),
)
"""All aggregates over a group."""

BY_KIND: dict[AggregateKind, AggregateFunction] = {
    record.kind: record for record in AGGREGATES if record.kind is not None
}
