"""Post-processing: arithmetic, comparison and choice over noisy aggregates, evaluated in Python.

Outputs, HAVING and ORDER BY see only what is already released, so nothing here can cost privacy or fail differently
for different rows. Functions of keys, texts and dates, and casts, are computed by the engine (`hush.query.released`).
Numbers and booleans are float64 arrays in which NaN is NULL; texts, dates and whole numbers beyond 2⁵³ are objects,
of which None is NULL. Aggregates may carry a leading axis of simulated answers; everything broadcasts over it.

>>> from fractions import Fraction
>>> from hush.query.types import Type
>>> total = Released("aggregate", 0, Type(Kind.DECIMAL))
>>> half = Call(Op.DIVIDE, (total, Literal(Fraction(2), Type(Kind.INTEGER))), Type(Kind.DECIMAL))
>>> evaluate(half, [], [np.array([3.0, 5.0])])
array([1.5, 2.5])
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.types import Kind

Array = npt.NDArray[Any]

__all__ = ["Array", "as_array", "evaluate", "key_array", "number"]

_FLOATS = 2**53


def evaluate(expression: Expression, keys: Sequence[Array], aggregates: Sequence[Array]) -> Array:
    """Return the expression's values for all groups."""
    match expression:
        case Released():
            return (keys if expression.source == "key" else aggregates)[expression.index]
        case Literal():
            return as_array([expression.value], expression.type.kind)
        case Call():
            arguments = [evaluate(argument, keys, aggregates) for argument in expression.arguments]
            with np.errstate(all="ignore"):
                result = _apply(expression, arguments)
            if result.dtype == np.float64 and not np.isfinite(result).all():
                result = np.where(np.isfinite(result), result, np.nan)
            return result
        case Column():
            raise QuestionError("a row's column stands outside an aggregate.", "Aggregate it, or add it to GROUP BY.")


def as_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return released values as an array."""
    if kind.numeric or kind is Kind.BOOLEAN:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            return np.array([number(value) for value in values], dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def key_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return the values of a key as an array: whole numbers that floats do not tell apart as they are."""
    array = as_array(values, kind)
    if kind is Kind.INTEGER and bool((np.abs(array) >= _FLOATS).any()):
        return np.array([None if value is None else int(value) for value in values], dtype=object)
    return array


def number(value: Any) -> float:
    """Return a value as float64, NaN for NULL."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _apply(expression: Call, arguments: list[Array]) -> Array:
    op = expression.op
    if op in _NUMERIC:
        return np.asarray(_NUMERIC[op](*map(_floats, arguments)), dtype=np.float64)
    if op in _COMPARE:
        return _compare(op, *arguments)
    if op in _SPECIAL:
        return _SPECIAL[op](expression, arguments)
    # a function of texts and dates, which an engine computes: nothing is known of it where truths are simulated
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    return np.full(shape, np.nan) if expression.type.kind.numeric else np.full(shape, None, dtype=object)


def _floats(array: Array) -> Array:
    return array if array.dtype == np.float64 else as_array(list(array.ravel()), Kind.DECIMAL).reshape(array.shape)


def _nulls(array: Array) -> Array:
    if array.dtype == np.float64:
        return np.asarray(np.isnan(array))
    return np.array([value is None for value in array.ravel()], dtype=bool).reshape(array.shape)


def _round(x: Array, digits: Array | None = None) -> Array:
    scale = 10.0 ** (np.zeros(1) if digits is None else digits)
    size = np.abs(x) * scale
    whole = np.floor(size)
    return np.asarray(np.where(x < 0, -1, 1) * (whole + (size - whole >= 0.5)) / scale)


def _bin(x: Array, low: Array, high: Array, many: Array) -> Array:
    width = (high - low) / many
    return np.asarray(low + width * np.minimum(np.floor((np.clip(x, low, high) - low) / width), many - 1))


_NUMERIC: dict[Op, Callable[..., Array]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.DIVIDE: lambda a, b: a / b,
    Op.DIVIDE_WHOLE: lambda a, b: np.trunc(a / b),
    Op.MODULO: np.fmod,
    Op.NEGATE: lambda a: -a,
    Op.ABS: np.abs,
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND: _round,
    Op.SQRT: np.sqrt,
    Op.EXP: np.exp,
    Op.LN: np.log,
    Op.POWER: lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, np.power(a, b)),
    Op.SIGN: np.sign,
    Op.CLIP: np.clip,
    Op.BIN: _bin,
    # three-valued logic on 0, 1 and NaN
    Op.AND: lambda a, b: np.where((a == 0) | (b == 0), 0.0, a * b),
    Op.OR: lambda a, b: np.where((a == 1) | (b == 1), 1.0, a + b),
    Op.NOT: lambda a: 1 - a,
    Op.TO_FIXED: lambda a, digits, _: _round(a, digits),
    Op.LOG: lambda base, a: np.log(a) / np.log(base),
}

_COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQUAL: lambda a, b: a == b,
    Op.NOT_EQUAL: lambda a, b: a != b,
    Op.LESS: lambda a, b: a < b,
    Op.LESS_EQUAL: lambda a, b: a <= b,
    Op.GREATER: lambda a, b: a > b,
    Op.GREATER_EQUAL: lambda a, b: a >= b,
}


def _compare(op: Op, left: Array, right: Array) -> Array:
    if left.dtype == np.float64 and right.dtype == np.float64:
        return np.where(np.isnan(left) | np.isnan(right), np.nan, _COMPARE[op](left, right).astype(float))
    return _map(lambda a, b: float(_COMPARE[op](*_comparable(a, b))), Kind.BOOLEAN, left, right)


def _comparable(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, dt.datetime) is not isinstance(right, dt.datetime) and isinstance(left, dt.date):
        if not isinstance(left, dt.datetime):
            left = dt.datetime.combine(left, dt.time())
        elif isinstance(right, dt.date):
            right = dt.datetime.combine(right, dt.time())
    return left, right


def _map(function: Callable[..., Any], kind: Kind, *arrays: Array) -> Array:
    """Apply a function value by value; NULL in, NULL out, and NULL where it does not apply."""
    together = np.broadcast_arrays(*(_objects(array) for array in arrays))
    results = []
    for values in zip(*(array.ravel() for array in together), strict=True):
        try:
            results.append(None if any(value is None for value in values) else function(*values))
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            results.append(None)
    return as_array(results, kind).reshape(together[0].shape)


def _objects(array: Array) -> Array:
    if array.dtype != np.float64:
        return array
    result = np.empty(array.shape, dtype=object)
    result[...] = [None if math.isnan(value) else value for value in array.ravel()] if array.ndim == 1 else array
    if array.ndim > 1:
        result[np.isnan(array)] = None
    return result


def _choose(conditions: list[Array], values: list[Array]) -> Array:
    """Return the first value whose condition is 1, else the last value."""
    if all(value.dtype == np.float64 for value in values):
        result = values[-1]
        for condition, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
            result = np.where(condition == 1, value, result)
        return np.asarray(result, dtype=np.float64)
    together = np.broadcast_arrays(*conditions, *(_objects(value) for value in values))
    result = np.array(together[-1], dtype=object)
    count = len(conditions)
    for at in range(count - 1, -1, -1):
        result = np.where(together[at] == 1, together[count + at], result)
    return np.asarray(result, dtype=object)


def _case(_: Call, arguments: list[Array]) -> Array:
    return _choose([_floats(item) for item in arguments[:-1:2]], [*arguments[1:-1:2], arguments[-1]])


def _coalesce(_: Call, arguments: list[Array]) -> Array:
    return _choose([1 - _nulls(item).astype(float) for item in arguments[:-1]], arguments)


def _null_if(_: Call, arguments: list[Array]) -> Array:
    same = _compare(Op.EQUAL, arguments[0], arguments[1])
    empty = np.full(1, np.nan) if arguments[0].dtype == np.float64 else np.array([None], dtype=object)
    return _choose([same], [empty, arguments[0]])


def _is_null(_: Call, arguments: list[Array]) -> Array:
    return _nulls(arguments[0]).astype(np.float64)


def _in(_: Call, arguments: list[Array]) -> Array:
    found = _compare(Op.EQUAL, arguments[0], arguments[1])
    for other in arguments[2:]:
        found = _NUMERIC[Op.OR](found, _compare(Op.EQUAL, arguments[0], other))
    return np.asarray(found, dtype=np.float64)


def _extreme(expression: Call, arguments: list[Array]) -> Array:
    pick = np.fmin if expression.op is Op.LEAST else np.fmax
    if all(item.dtype == np.float64 for item in arguments):
        result = arguments[0]
        for item in arguments[1:]:
            result = pick(result, item)
        return result
    chosen = min if expression.op is Op.LEAST else max
    return _map(lambda *values: chosen(values), expression.type.kind, *arguments)


def _to_number(expression: Call, arguments: list[Array]) -> Array:
    """CAST of a noisy number to another."""
    values = _floats(arguments[0])
    match expression.op:
        case Op.TO_INTEGER:
            found = np.where(np.abs(values) < 2.0**63, np.rint(values), np.nan)
        case Op.TO_BOOLEAN:
            found = np.where(np.isnan(values), np.nan, (values != 0).astype(float))
        case _:
            found = values
    return np.asarray(found, dtype=np.float64)


_SPECIAL: dict[Op, Callable[[Call, list[Array]], Array]] = {
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.NULL_IF: _null_if,
    Op.IS_NULL: _is_null,
    Op.IN: _in,
    Op.LEAST: _extreme,
    Op.GREATEST: _extreme,
    Op.TO_INTEGER: _to_number,
    Op.TO_DECIMAL: _to_number,
    Op.TO_BOOLEAN: _to_number,
}
