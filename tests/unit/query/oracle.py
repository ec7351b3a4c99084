"""A second opinion: expressions evaluated row by row in Python, in float64 and with SQL's NULL."""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction

from hush.query.expressions import Call, Column, Literal, Op


def evaluate(expression, row):
    """Return the value of an expression on a row: floats, text, booleans, dates or None."""
    match expression:
        case Column():
            return row[expression.name]
        case Literal():
            return float(expression.value) if isinstance(expression.value, Fraction) else expression.value
        case Call():
            if expression.op in LAZY:
                return LAZY[expression.op]([lambda a=a: evaluate(a, row) for a in expression.arguments])
            values = [evaluate(argument, row) for argument in expression.arguments]
            if any(value is None for value in values):
                return None
            try:
                found = STRICT[expression.op](*values)
            except (ValueError, OverflowError, ZeroDivisionError):
                return None
            if isinstance(found, complex) or (isinstance(found, float) and not math.isfinite(found)):
                return None
            return found
    raise AssertionError(expression)


def _and(parts):
    values = [part() for part in parts]
    return False if False in values else None if None in values else True


def _or(parts):
    values = [part() for part in parts]
    return True if True in values else None if None in values else False


def _case(parts):
    for condition, value in zip(parts[:-1:2], parts[1::2], strict=True):
        if condition() is True:
            return value()
    return parts[-1]()


def _first(parts):
    return next((value for value in (part() for part in parts) if value is not None), None)


def _null_if(parts):
    one, other = (part() for part in parts)
    return None if one is not None and one == other else one


def _extreme(function):
    def found(parts):
        values = [value for value in (part() for part in parts) if value is not None]
        return function(values) if values else None

    return found


LAZY = {
    Op.AND: _and,
    Op.OR: _or,
    Op.CASE: _case,
    Op.COALESCE: _first,
    Op.NULL_IF: _null_if,
    Op.IS_NULL: lambda parts: parts[0]() is None,
    Op.LEAST: _extreme(min),
    Op.GREATEST: _extreme(max),
}


def _like(text, pattern, escape=None):
    wild = {"%": ".*", "_": "."}
    marks = re.findall(r"(?s)." if escape is None else f"(?s){re.escape(escape)}.|.", pattern)
    parts = "".join(wild.get(mark) or re.escape(mark[-1]) for mark in marks)
    return re.fullmatch(parts, text, re.DOTALL) is not None


def _bin(value, lower, upper, count):
    place = math.floor((min(max(value, lower), upper) - lower) / ((upper - lower) / count))
    edge = min(max(place, 0), int(count) - 1) * (Fraction(upper) - Fraction(lower)) / int(count)
    return float(Fraction(lower) + edge)


def _bucket(value, lower, upper, count):
    if value < lower or value >= upper:
        return 0.0 if value < lower else count + 1
    return float(min(max(math.floor((value - lower) / ((upper - lower) / count)), 0), int(count) - 1) + 1)


def _truncate(unit, day):
    day = day.date() if isinstance(day, dt.datetime) else day
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    if unit == "day":
        return day
    month = {"year": 1, "quarter": (day.month + 2) // 3 * 3 - 2, "month": day.month}[unit]
    return dt.date(day.year, month, 1)


def _truncate_time(unit, value):
    gone = {
        "hour": ("minute", "second", "microsecond"),
        "minute": ("second", "microsecond"),
        "second": ("microsecond",),
    }
    return _to_timestamp(value).replace(**dict.fromkeys(gone[unit], 0))


def _round(value, digits=0.0):
    scale = Fraction(10) ** int(digits)
    return math.copysign(float(math.floor(abs(Fraction(value)) * scale + Fraction(1, 2)) / scale), value)


def _fixed(value, digits, width):
    found = _round(float(value), digits)
    return found if abs(found) < 10 ** (int(width) - int(digits)) else None


def _day(value):
    return value.date() if isinstance(value, dt.datetime) else value


def _difference(unit, first, last):
    sizes = {"hour": 3600, "minute": 60, "second": 1}
    if unit in sizes:
        return float(math.floor(_seconds(last) / sizes[unit]) - math.floor(_seconds(first) / sizes[unit]))
    first, last = _day(first), _day(last)
    days = (last - first).days
    if unit in {"day", "week"}:
        return float(days if unit == "day" else int(Fraction(days, 7)))
    starts = {_truncate(unit, first + dt.timedelta(days=at)) for at in range(min(days, 0), max(days, 0) + 1)}
    return math.copysign(len(starts) - 1.0, days)


def _seconds(value):
    return (_to_timestamp(value) - dt.datetime(1970, 1, 1)) / dt.timedelta(seconds=1)


def _moved(value, months, days, microseconds):
    value = _to_timestamp(value)
    at = value.year * 12 + value.month - 1 + int(months)
    for day in (value.day, 30, 29, 28):
        try:
            value = value.replace(year=at // 12, month=at % 12 + 1, day=min(day, value.day))
            break
        except ValueError:
            continue
    else:
        return None
    return value + dt.timedelta(days=int(days), microseconds=int(microseconds))


def _to_number(value):
    return float(value)


def _to_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _to_boolean(value):
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return bool(value)


def _to_date(value):
    return dt.date.fromisoformat(value) if isinstance(value, str) else _day(value)


def _to_timestamp(value):
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _to_integer(value):
    if isinstance(value, str):
        return float(_round(float(value)))
    return float(round(value)) if abs(value) < 2**63 else None


STRICT = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.DIVIDE: lambda a, b: a / b,
    Op.MODULO: math.fmod,
    Op.NEGATE: lambda a: -a,
    Op.ABS: abs,
    Op.TRUNC: lambda a: float(math.trunc(a)),
    Op.FLOOR: lambda a: float(math.floor(a)),
    Op.CEIL: lambda a: float(math.ceil(a)),
    Op.ROUND: _round,
    Op.SQRT: math.sqrt,
    Op.EXP: math.exp,
    Op.LN: math.log,
    Op.LOG: lambda base, a: math.log10(a) if base == 10 else math.log(a) / math.log(base),
    Op.POWER: math.pow,
    Op.SIGN: lambda a: float((a > 0) - (a < 0)),
    Op.CLIP: lambda a, low, high: min(max(a, low), high),
    Op.BIN: _bin,
    Op.WIDTH_BUCKET: _bucket,
    Op.EQUAL: lambda a, b: a == b,
    Op.NOT_EQUAL: lambda a, b: a != b,
    Op.LESS: lambda a, b: a < b,
    Op.LESS_EQUAL: lambda a, b: a <= b,
    Op.GREATER: lambda a, b: a > b,
    Op.GREATER_EQUAL: lambda a, b: a >= b,
    Op.NOT: lambda a: not a,
    Op.IN: lambda a, *listed: a in listed,
    Op.LIKE: _like,
    Op.REGEXP_MATCHES: lambda text, pattern, flags: re.search(pattern, text, re.IGNORECASE if flags else 0) is not None,
    Op.LOWER: str.lower,
    Op.UPPER: str.upper,
    Op.TRIM: lambda a: a.strip(" "),
    Op.LTRIM: lambda a: a.lstrip(" "),
    Op.RTRIM: lambda a: a.rstrip(" "),
    Op.LENGTH: lambda a: float(len(a)),
    Op.SUBSTRING: lambda a, start, size: a[int(start) - 1 : int(start) - 1 + int(size)],
    Op.CONCAT: lambda *parts: "".join(parts),
    Op.LEFT: lambda a, n: a[: int(n)],
    Op.RIGHT: lambda a, n: a[-int(n) :] if n else "",
    Op.REPLACE: lambda a, old, new: a.replace(old, new),
    Op.STARTS_WITH: str.startswith,
    Op.ENDS_WITH: lambda text, end: text.endswith(end),
    Op.POSITION: lambda text, part: float(text.find(part) + 1),
    Op.STRLEN: lambda text: float(len(text.encode())),
    Op.SPLIT_PART: lambda text, separator, place: ([*text.split(separator), *[""] * 1000])[int(place) - 1],
    Op.CONTAINS: lambda a, b: b in a,
    Op.YEAR: lambda a: float(a.year),
    Op.QUARTER: lambda a: float((a.month + 2) // 3),
    Op.MONTH: lambda a: float(a.month),
    Op.DAY: lambda a: float(a.day),
    Op.DAY_OF_WEEK: lambda a: float(a.isoweekday() % 7),
    Op.WEEK: lambda d: float(d.isocalendar()[1]),
    Op.DAY_OF_YEAR: lambda d: float(d.timetuple().tm_yday),
    Op.MINUTE: lambda d: float(getattr(d, "minute", 0)),
    Op.SECOND: lambda d: float(getattr(d, "second", 0)),
    Op.MAKE_DATE: lambda year, month, day: dt.date(int(year), int(month), int(day)),
    Op.STRFTIME: lambda d, form: _to_timestamp(d).strftime(form.replace("%Y", f"{d.year:04d}")),
    Op.STRPTIME: dt.datetime.strptime,
    Op.TRUNCATE_TIME: _truncate_time,
    Op.HOUR: lambda a: float(a.hour) if isinstance(a, dt.datetime) else 0.0,
    Op.TRUNCATE_DATE: _truncate,
    Op.DATE_DIFF: _difference,
    Op.ADD_INTERVAL: _moved,
    Op.DIVIDE_WHOLE: lambda a, b: float(int(Fraction(a) / Fraction(b))),
    Op.TO_INTEGER: _to_integer,
    Op.TO_DECIMAL: _to_number,
    Op.TO_FIXED: _fixed,
    Op.TO_TEXT: _to_text,
    Op.TO_BOOLEAN: _to_boolean,
    Op.TO_DATE: _to_date,
    Op.TO_TIMESTAMP: _to_timestamp,
}
