"""The values of a question's parameters as they travel in JSON, between a service and its client.

JSON's own values stay as they are. Dates, times and exact numbers, which it has not, are objects with one name:

>>> import datetime as dt
>>> from fractions import Fraction
>>> to_wire([3, "x", dt.date(2026, 1, 31), Fraction(1, 3)])
[3, 'x', {'date': '2026-01-31'}, {'number': '1/3'}]
>>> from_wire(to_wire({"from": dt.date(2026, 1, 31)}))
{'from': datetime.date(2026, 1, 31)}
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, exact
from hush.query.errors import QuestionError


def to_wire(value: Any) -> Any:
    """Return a parameter, or a list or mapping of such, as JSON values."""
    if type(value).__module__.split(".")[0] in {"numpy", "pandas", "polars"}:
        value = value.tolist() if hasattr(value, "tolist") else list(value) if hasattr(value, "__iter__") else value
    if isinstance(value, Mapping):
        return {str(name): to_wire(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(part) for part in value]
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, Fraction | Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise QuestionError(
        f"A parameter must be a number, text, bool, date, datetime or None; got {type(value).__name__}.",
        "A list stands for the list of IN alone: x IN ?.",
    )


def from_wire(value: Any) -> Any:
    """Return the parameters that `to_wire` wrote: a list, or a mapping by name."""
    if isinstance(value, Mapping):
        return {name: _value(part) for name, part in value.items()}
    return [_value(part) for part in value]


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        name, text = next(iter(value.items()))
        if name in _READ and isinstance(text, str):
            with suppress(ValueError):
                return _READ[name](text)
    allowed = "a value, or an object with one of the names date, timestamp and number, and a text"
    raise InvalidValueError("parameters", got=value, allowed=allowed)


def _number(text: str) -> Fraction | float:
    return float(text) if text.lower().lstrip("-") in {"nan", "inf", "infinity"} else exact(text, "parameters")


_READ: Mapping[str, Any] = {"date": dt.date.fromisoformat, "timestamp": dt.datetime.fromisoformat, "number": _number}
