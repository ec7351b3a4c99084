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
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from hush.query.expressions import Expression
from hush.query.relations import Named, Relation
from hush.query.types import Type


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


def _written(value: object) -> str:
    kind = type(value)
    if kind in _PLAIN:
        text = str(value)
        return f"{kind.__name__}{len(text)}:{text}"
    if kind in {tuple, list}:
        return f"({','.join(map(_written, value))})"  # type: ignore[call-overload]
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if is_dataclass(value):
        return f"{kind.__name__}{{{','.join(_fields_of(value))}}}"
    if isinstance(value, Mapping):
        pairs = sorted(f"{_written(key)}={_written(entry)}" for key, entry in value.items())
        return f"[{','.join(pairs)}]"
    if isinstance(value, AbstractSet):
        return f"<{','.join(sorted(map(_written, value)))}>"
    if isinstance(value, _PLAIN):  # a subclass, such as a text of another library
        text = str(value)
        return f"{kind.__name__}{len(text)}:{text}"
    raise TypeError(f"a tree holds a {kind.__name__}, which has no fingerprint")


def _fields_of(value: Any) -> list[str]:
    written, kind = [], value.__class__
    for name, default in _compared(kind):
        held = getattr(value, name)
        # a field at its default is left out: a new field keeps old fingerprints
        if default is MISSING or (held is not default and held != default):
            written.append(f"{name}={_written(held)}")
    return written


@cache
def _compared(kind: Any) -> tuple[tuple[str, object], ...]:
    """Return the fields that take part in equality, with their plain defaults."""
    return tuple((field.name, field.default) for field in fields(kind) if field.compare)
