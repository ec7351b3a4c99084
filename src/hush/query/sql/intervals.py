"""``d + INTERVAL 1 MONTH``: constant intervals, read into months, days and microseconds."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Expression, Literal, Op
from hush.query.functions import call, constant
from hush.query.sql.nodes import only, refuse, shown
from hush.query.sql.scope import Resolver

_PARTS = re.compile(r"\s*([+-]?\d{1,18})\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)
_SECOND = 10**6
_UNITS: dict[str, tuple[int, int]] = {
    "year": (0, 12),
    "quarter": (0, 3),
    "month": (0, 1),
    "week": (1, 7),
    "day": (1, 1),
    "hour": (2, 3600 * _SECOND),
    "minute": (2, 60 * _SECOND),
    "second": (2, _SECOND),
}
"""Which part of an interval a unit counts in (months, days, microseconds), and for how much."""
_HINT = "Write for instance day + INTERVAL 1 MONTH, or INTERVAL '3' DAY."


def interval(node: object) -> tuple[exp.Interval, int] | None:
    """Return an interval and its sign, if a node is one."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        only(node, "this")
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return (node, sign) if isinstance(node, exp.Interval) else None


def moved(to: Resolver, moment: object, by: tuple[exp.Interval, int], sign: int = 1) -> Expression:
    """Return a date or timestamp moved by an interval: a timestamp."""
    found, own = by
    parts = [sign * own * part for part in _read(to, found)]
    return call(Op.ADD_INTERVAL, to.convert(moment), *(constant(Fraction(part)) for part in parts))


def fixed_interval(to: Resolver, node: exp.Interval) -> tuple[int, dt.timedelta]:
    """Return a constant interval as months and a span of time."""
    months, days, microseconds = _read(to, node)
    return months, dt.timedelta(days=days, microseconds=microseconds)


def _read(to: Resolver, node: exp.Interval) -> tuple[int, int, int]:
    only(node, "this", "unit")
    unit, amount = node.args.get("unit"), node.this
    if unit is None:
        if not (isinstance(amount, exp.Literal) and amount.is_string):
            raise refuse(node)
        return _sum(node, _PARTS.findall(amount.this) if _PARTS.sub("", amount.this) == "" else [])
    if not isinstance(unit, exp.Var):
        raise refuse(node)
    if isinstance(amount, exp.Literal) and amount.is_string:
        count = str(amount.this).strip()
    else:
        value = to.convert(amount)
        number = value.value if isinstance(value, Literal) else None
        count = str(number) if isinstance(number, Fraction) else ""
    return _sum(node, [(count, str(unit.this))])


def _sum(node: exp.Interval, parts: list[tuple[str, str]]) -> tuple[int, int, int]:
    found = [0, 0, 0]
    for count, unit in parts:
        known = _UNITS.get(unit.casefold().removesuffix("s"))
        if known is None or not re.fullmatch(r"[+-]?\d{1,18}", count, re.ASCII):
            break
        found[known[0]] += int(count) * known[1]
    else:
        if parts:
            return found[0], found[1], found[2]
    raise QuestionError(
        f"An interval is a constant whole number of {', '.join(f'{unit}s' for unit in _UNITS)}; got {shown(node)}.",
        _HINT,
    )
