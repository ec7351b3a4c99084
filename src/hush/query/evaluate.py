"""Post-processing: expressions over released keys and noisy aggregates, evaluated in Python.

Outputs, HAVING and ORDER BY see only what is already released, so nothing here can cost privacy or fail differently
for different rows. Numbers and booleans are float64 arrays in which NaN is NULL; texts and dates are object arrays in
which None is NULL. Aggregates may carry a leading axis of simulated answers; everything broadcasts over it.

>>> from fractions import Fraction
>>> from hush.query.types import Type
>>> total = Released("aggregate", 0, Type(Kind.DECIMAL))
>>> half = Call(Op.DIVIDE, (total, Literal(Fraction(2), Type(Kind.INTEGER))), Type(Kind.DECIMAL))
>>> evaluate(half, [], [np.array([3.0, 5.0])])
array([1.5, 2.5])
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.query._logic import without_escapes
from hush.query._moments import between, shifted
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.types import Kind

Array = npt.NDArray[Any]

__all__ = ["Array", "as_array", "evaluate", "number"]


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
    return _each(op, expression, arguments)


def _floats(array: Array) -> Array:
    return array if array.dtype == np.float64 else as_array(list(array.ravel()), Kind.DECIMAL).reshape(array.shape)


def _nulls(array: Array) -> Array:
    if array.dtype == np.float64:
        return np.asarray(np.isnan(array))
    return np.array([value is None for value in array.ravel()], dtype=bool).reshape(array.shape)


def _round(x: Array, digits: Array | None = None) -> Array:
    scale = 10.0 ** (np.zeros(1) if digits is None else digits)
    return np.asarray(np.where(x < 0, -1, 1) * np.floor(np.abs(x) * scale + 0.5) / scale)


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
    Op.TO_FIXED: _round,
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


def _like(_: Call, arguments: list[Array]) -> Array:
    return _map(lambda value, *pattern: float(_matches(value, *pattern)), Kind.BOOLEAN, *arguments)


def _matches(value: str, text: str, escape: str = "") -> bool:
    """Match LIKE by going back to the last % only: at most |value|·|pattern| steps, whatever the pattern."""
    pattern = without_escapes(text, escape) or []
    at = here = 0
    back: tuple[int, int] | None = None
    while at < len(value):
        if here < len(pattern) and pattern[here] == ("%", False):
            back, here = (here + 1, at), here + 1
        elif here < len(pattern) and (pattern[here] == ("_", False) or pattern[here][0] == value[at]):
            at, here = at + 1, here + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            here, at = back
        else:
            return False
    return all(part == ("%", False) for part in pattern[here:])


def _to_number(expression: Call, arguments: list[Array]) -> Array:
    """CAST to a number or a boolean; what cannot be read is NULL."""
    (values,) = arguments
    op = expression.op
    if values.dtype != np.float64:
        return _map(_READ[op], expression.type.kind, values)
    match op:
        case Op.TO_INTEGER:
            found = np.where(np.abs(values) < 2.0**63, np.rint(values), np.nan)
        case Op.TO_BOOLEAN:
            found = np.where(np.isnan(values), np.nan, (values != 0).astype(float))
        case _:
            found = values
    return np.asarray(found, dtype=np.float64)


def _whole(text: str) -> int | None:
    found = Decimal(text.strip())
    return int(found.to_integral_value(ROUND_HALF_UP)) if abs(found) < 2**63 else None


_READ: dict[Op, Callable[[str], Any]] = {
    Op.TO_INTEGER: _whole,
    Op.TO_DECIMAL: float,
    Op.TO_BOOLEAN: lambda text: {"true": 1, "t": 1, "1": 1, "false": 0, "f": 0, "0": 0}.get(text.strip().lower()),
}


_SPECIAL: dict[Op, Callable[[Call, list[Array]], Array]] = {
    Op.CASE: _case,
    Op.COALESCE: _coalesce,
    Op.NULL_IF: _null_if,
    Op.IS_NULL: _is_null,
    Op.IN: _in,
    Op.LEAST: _extreme,
    Op.GREATEST: _extreme,
    Op.LIKE: _like,
    Op.TO_INTEGER: _to_number,
    Op.TO_DECIMAL: _to_number,
    Op.TO_BOOLEAN: _to_number,
}


def _truncate(unit: str, value: dt.date) -> dt.date:
    start = value.replace(hour=0, minute=0, second=0, microsecond=0) if isinstance(value, dt.datetime) else value
    match unit:
        case "year":
            return start.replace(month=1, day=1)
        case "quarter":
            return start.replace(month=3 * ((start.month - 1) // 3) + 1, day=1)
        case "month":
            return start.replace(day=1)
        case "week":
            return start - dt.timedelta(days=start.weekday())
        case _:
            return start


def _text(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _substring(value: Any, start: float, size: float) -> str:
    first = int(start)
    return _text(value)[max(first - 1, 0) : max(first - 1 + int(size), 0)]


_VALUES: dict[Op, Callable[..., Any]] = {
    Op.LOWER: lambda value: _text(value).lower(),
    Op.UPPER: lambda value: _text(value).upper(),
    Op.TRIM: lambda value: _text(value).strip(" "),
    Op.LTRIM: lambda value: _text(value).lstrip(" "),
    Op.RTRIM: lambda value: _text(value).rstrip(" "),
    Op.LENGTH: lambda value: len(_text(value)),
    Op.SUBSTRING: _substring,
    Op.CONCAT: lambda *parts: "".join(map(_text, parts)),
    Op.LEFT: lambda value, size: _text(value)[: int(size)],
    Op.RIGHT: lambda value, size: _text(value)[max(len(_text(value)) - int(size), 0) :],
    Op.REPLACE: lambda value, old, new: _text(value).replace(old, new) if old else _text(value),
    Op.STARTS_WITH: lambda value, start: float(_text(value).startswith(start)),
    Op.CONTAINS: lambda value, part: float(part in _text(value)),
    Op.YEAR: lambda value: value.year,
    Op.QUARTER: lambda value: (value.month - 1) // 3 + 1,
    Op.MONTH: lambda value: value.month,
    Op.DAY: lambda value: value.day,
    Op.DAY_OF_WEEK: lambda value: (calendar.weekday(value.year, value.month, value.day) + 1) % 7,
    Op.HOUR: lambda value: getattr(value, "hour", 0),
    Op.TRUNCATE_DATE: _truncate,
    Op.DATE_DIFF: between,
    Op.ADD_INTERVAL: lambda value, *parts: shifted(value, *map(int, parts)),
    Op.TO_TEXT: _text,
    Op.TO_DATE: lambda value: _day(value),  # noqa: PLW0108 - defined below
    Op.TO_TIMESTAMP: lambda value: dt.datetime.fromisoformat(str(value)),
}


def _day(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        return value.date()
    return value if isinstance(value, dt.date) else dt.date.fromisoformat(str(value)[:10])


def _each(op: Op, expression: Call, arguments: list[Array]) -> Array:
    function = _VALUES.get(op)
    if function is None:
        raise QuestionError(f"{op.name} cannot be applied to noisy answers.", "Use it on the rows, in a derived table.")
    return _map(function, expression.type.kind, *arguments)
