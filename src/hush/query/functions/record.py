"""The record of a function: syntax, types, evaluation and cost.

A `Function` says how an `Op` is written in a question, how its arguments are checked and its type derived, how NumPy
computes it over noisy answers, and what it costs. The front end, the typing, the evaluation and the engines all read
this table, so a new function is one name in `Op`, one record, and its SQL where that is not ``NAME(arguments)``.

A `Rewrite` is a function that is only another way to write others: its meaning, its range, its cost and its totality
are those of the text that it stands for.

NumPy sees released values as arrays: numbers and booleans as float64 with NaN for NULL, others as objects with None for
NULL. Whole numbers beyond 2⁵³ are objects too. Arrays may carry a leading axis of simulated answers.

>>> as_array([1, None], Kind.INTEGER), as_array(["a", None], Kind.TEXT)
(array([ 1., nan]), array(['a', None], dtype=object))
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.query.expressions import Call, Expression, Op
from hush.query.types import Kind, Type

Array = npt.NDArray[Any]
Arguments = tuple[Expression, ...]
Rule = Callable[[Op, Arguments], Type]
"""Checks the arguments and returns the type: the kind, the range and the step, and whether NULL may occur."""
Evaluation = Callable[[Call, list[Array]], Array]
"""Computes a call over arrays; NaN or None stands for NULL."""

ANY_NUMBER = 1000
"""The limit of arguments for functions with any number of arguments."""
ONE = ("this",)
"""The slot of a sqlglot node for the argument of a function with one argument."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A class of sqlglot's nodes that calls a function with the node's own arguments, in order."""

    node: str
    """The name of the class, for instance "Left"; this layer does not import the parser."""
    slots: tuple[str, ...] = ("this", "expression")
    """The node's arguments; those that are not set are left out. One that starts with * holds a list."""
    ignored: tuple[str, ...] = ()
    """Arguments that only say how other databases differ."""


class Rising(Enum):
    """The arguments in which a function is non-decreasing, the others being constants."""

    ALL = "all"
    FIRST = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One total function of a row's values."""

    op: Op
    rule: Rule
    arity: tuple[int, int]
    """The least and the largest number of arguments."""
    names: tuple[str, ...] = ()
    """Its names in ``NAME(…)``; engines use the first one unless they define their own SQL."""
    reads: tuple[Reading, ...] = ()
    """Classes of nodes that are plain calls to this function."""
    fields: tuple[str, ...] = ()
    """Names of the part of a date that it takes, in EXTRACT and DATE_PART."""
    types: tuple[str, ...] = ()
    """Names of SQL's types to which it casts."""
    prepare: Callable[[Op, Arguments], Arguments] | None = None
    """Brings the arguments to one kind before the rule sees them."""
    chooses: bool = False
    """Whether its value is one of the arguments; then its rule decides about NULL itself."""
    evaluate: Evaluation | None = None
    """How NumPy computes it over noisy numbers; None for a function of texts or dates."""
    by_engine: bool | None = None
    """Whether its meaning is the engine's also over noisy numbers; by default if NumPy has none."""
    rising: Rising | None = None
    """Whether it is non-decreasing, so that it maps the ends of intervals to ends."""
    per_character: int | None = None
    """Nanoseconds per character of its texts, at most, on the slowest engine; None if it reads texts as something."""
    cost: Callable[[Call], int] | None = None
    """The cost per character where it depends on constants of the call."""
    lengthens: int = 1
    """An upper bound on the length of its result, as a multiple of its longest text argument."""
    searches: bool = False
    """Whether it searches its first text for the others, so that longer ones cost more."""

    @property
    def computed_by_engine(self) -> bool:
        """Whether an engine computes it even over released answers."""
        return self.evaluate is None if self.by_engine is None else self.by_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A function that is an abbreviation of an expression over others."""

    names: tuple[str, ...]
    parameters: tuple[str, ...]
    """The names of its arguments in the text."""
    text: str
    """The expression, in SQL."""
    node: str = ""
    """sqlglot's class for it, if it has one."""
    slots: tuple[str, ...] = ("this", "expression")
    """Which of the node's arguments the parameters are."""


_FLOATS = 2**53


def as_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return released values as an array."""
    if kind.numeric or kind is Kind.BOOLEAN:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            return np.array([as_float(value) for value in values], dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def key_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return the values of a key as an array; integers too large for float64 stay Python integers."""
    array = as_array(values, kind)
    if kind is Kind.INTEGER and bool((np.abs(array) >= _FLOATS).any()):
        return np.array([None if value is None else int(value) for value in values], dtype=object)
    return array


def as_float(value: Any) -> float:
    """Return a value as float64, NaN for NULL."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def floats(array: Array) -> Array:
    """Return numbers as float64."""
    return array if array.dtype == np.float64 else as_array(list(array.ravel()), Kind.DECIMAL).reshape(array.shape)


def nulls(array: Array) -> Array:
    """Return where an array is NULL."""
    if array.dtype == np.float64:
        return np.asarray(np.isnan(array))
    return np.array([value is None for value in array.ravel()], dtype=bool).reshape(array.shape)


def objects(array: Array) -> Array:
    """Return an array as objects, None for NULL."""
    if array.dtype != np.float64:
        return array
    result = np.empty(array.shape, dtype=object)
    result[...] = [None if math.isnan(value) else value for value in array.ravel()] if array.ndim == 1 else array
    if array.ndim > 1:
        result[np.isnan(array)] = None
    return result


def of_floats(function: Callable[..., Any]) -> Evaluation:
    """Return the evaluation of a function of float64 arrays, in which NaN gives NaN."""
    return lambda _, arguments: np.asarray(function(*map(floats, arguments)), dtype=np.float64)


def mapped(function: Callable[..., Any], kind: Kind, *arrays: Array) -> Array:
    """Apply a function value by value; NULL in, NULL out, and NULL where it does not apply."""
    together = np.broadcast_arrays(*(objects(array) for array in arrays))
    results = []
    for values in zip(*(array.ravel() for array in together), strict=True):
        try:
            results.append(None if any(value is None for value in values) else function(*values))
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            results.append(None)
    return as_array(results, kind).reshape(together[0].shape)


_COMPARISONS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQUAL: operator.eq,
    Op.NOT_EQUAL: operator.ne,
    Op.LESS: operator.lt,
    Op.LESS_EQUAL: operator.le,
    Op.GREATER: operator.gt,
    Op.GREATER_EQUAL: operator.ge,
}


def compared(op: Op, left: Array, right: Array) -> Array:
    """Return a comparison: 1, 0, or NaN where either side is NULL."""
    compare = _COMPARISONS[op]
    if left.dtype == np.float64 and right.dtype == np.float64:
        return np.where(np.isnan(left) | np.isnan(right), np.nan, compare(left, right).astype(float))
    return mapped(lambda a, b: float(compare(*_comparable(a, b))), Kind.BOOLEAN, left, right)


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, dt.datetime) is not isinstance(right, dt.datetime) and isinstance(left, dt.date):
        if not isinstance(left, dt.datetime):
            left = dt.datetime.combine(left, dt.time())
        elif isinstance(right, dt.date):
            right = dt.datetime.combine(right, dt.time())
    return left, right


def chosen(conditions: list[Array], values: list[Array]) -> Array:
    """Return the value of the first condition that is 1, else the last value."""
    if all(value.dtype == np.float64 for value in values):
        result = values[-1]
        # from the last to the first, so that the first condition that holds wins
        for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
            result = np.where(condition == 1, value, result)
        return np.asarray(result, dtype=np.float64)
    together = np.broadcast_arrays(*conditions, *(objects(value) for value in values))
    result = np.array(together[-1], dtype=object)
    count = len(conditions)
    for place in range(count - 1, -1, -1):
        result = np.where(together[place] == 1, together[count + place], result)
    return np.asarray(result, dtype=object)


def unknown(expression: Call, arguments: list[Array]) -> Array:
    """Return NULLs for a function that only an engine computes, where truths are simulated."""
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    return np.full(shape, np.nan) if expression.type.kind.numeric else np.full(shape, None, dtype=object)
