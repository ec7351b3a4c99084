"""Parameters: Python values for ``?`` and ``$name``, which become constants of the tree and never text.

Between a service and its client they travel in JSON, whose own values stay as they are. Dates, times and exact numbers,
which it has not, are objects with one name:

>>> import datetime as dt
>>> from fractions import Fraction
>>> to_wire([3, "x", dt.date(2026, 1, 31), Fraction(1, 3)])
[3, 'x', {'date': '2026-01-31'}, {'number': '1/3'}]
>>> from_wire(to_wire({"from": dt.date(2026, 1, 31)}))
{'from': datetime.date(2026, 1, 31)}
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, exact
from hush.query.errors import QuestionError, did_you_mean
from hush.query.expressions import Literal
from hush.query.functions import constant
from hush.query.types import Value

_LIBRARIES = {"numpy", "pandas", "polars"}


def to_wire(value: Any) -> Any:
    """Return a parameter, or a list or mapping of parameters, as JSON values."""
    value = _python(value)
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
    raise _unknown("A parameter", value)


def _python(value: Any) -> Any:
    """Return an array or a column as a list, a number or time of NumPy as Python's, and anything else as it is."""
    if type(value).__module__.split(".")[0] not in _LIBRARIES:
        return value
    if getattr(value, "ndim", 1) == 0:
        plain = value.item()  # a number, if it is a time in nanoseconds
        is_time = value.dtype.kind == "M" and isinstance(plain, int)
        return value.astype("datetime64[us]").item() if is_time else plain
    return list(value) if getattr(value, "ndim", 1) == 1 and hasattr(value, "__iter__") else value


def _unknown(name: str, value: object) -> QuestionError:
    return QuestionError(
        f"{name} must be a number, text, bool, date, datetime or None; got {type(value).__name__}.",
        "A list stands for the list of IN alone: x IN ?.",
    )


def from_wire(value: Any) -> Any:
    """Return the parameters that `to_wire` wrote: a list, or a mapping by name."""
    if isinstance(value, Mapping):
        return {name: _from_json(part) for name, part in value.items()}
    return [_from_json(part) for part in value]


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        ((name, text),) = value.items()
        if name in _READ and isinstance(text, str):
            with suppress(ValueError):
                return _READ[name](text)
    allowed = "a value, or an object with one of the names date, timestamp and number, and a text"
    raise InvalidValueError("parameters", got=value, allowed=allowed)


def _number(text: str) -> Fraction | float:
    return float(text) if text.lower().lstrip("-") in {"nan", "inf", "infinity"} else exact(text, "parameters")


_READ: Mapping[str, Any] = {"date": dt.date.fromisoformat, "timestamp": dt.datetime.fromisoformat, "number": _number}

Parameters = Sequence[Any] | Mapping[str, Any]

MAX_LIST = 1000
_LARGEST = Fraction(10) ** 300
_SHORT = 20  # whole numbers of fewer digits need no look at their size
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,3})?|\.\d+([eE][+-]?\d{1,3})?", re.ASCII)


class Binder:
    """The parameters of one question; records which ones were used."""

    def __init__(self, parameters: Parameters) -> None:
        parameters = _python(parameters)
        self._named = isinstance(parameters, Mapping)
        if not isinstance(parameters, Mapping | Sequence) or isinstance(parameters, str | bytes):
            raise QuestionError(
                f"Parameters are a list for ? or a mapping for $name; got {type(parameters).__name__}.",
                "Write for instance parameters=[30] or parameters={'age': 30}.",
            )
        given: Any = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters, start=1)
        self._values = {str(name): _python(value) for name, value in given}
        self._used: dict[str, Value | tuple[Value, ...]] = {}

    def bind(self, name: str) -> Literal:
        """Return the constant for ``$name``."""
        if name not in self._values:
            if name.isdigit():
                raise QuestionError(
                    f"Parameter {name} is missing; got {len(self._values)}.", "Pass a value for each ?: parameters=[…]."
                )
            hint = did_you_mean(name, self._values, otherwise="Pass it: parameters={'" + name + "': …}.")
            raise QuestionError(f"Parameter ${name} is missing.", hint)
        value = self._values[name]
        if isinstance(value, list | tuple):
            raise QuestionError(f"Parameter ${name} is a list, which stands for the list of IN alone.", "Write x IN ?.")
        literal = constant(_value(value, f"${name}"))
        self._used[name] = literal.value
        return literal

    def bind_list(self, name: str) -> list[Literal]:
        """Return the constants for the ``$name`` of ``x IN $name``, which is a list."""
        values = self._values.get(name)
        if not isinstance(values, list | tuple):
            single = self.bind(name)  # if it is missing, that is said
            raise QuestionError(f"IN ${name} needs a list; got {_shown(single.value)}.", f"Write IN (${name}).")
        if len(values) > MAX_LIST:
            raise QuestionError(f"The list ${name} may have {MAX_LIST:,} values; got {len(values):,}.")
        listed = [constant(_value(value, f"${name}")) for value in values]
        self._used[name] = tuple(item.value for item in listed)
        return listed

    def written(self) -> str:
        """Return the values as SQL comments, to append to the question's text; refuse those that it does not use."""
        names = sorted(self._used) if self._named else sorted(self._used, key=int)
        if len(names) < len(self._values):
            unused = [name for name in self._values if name not in self._used]
            which = ", ".join(f"${name}" for name in unused) if self._named else f"the last {len(unused)} of them"
            raise QuestionError(
                f"The question uses {len(names)} parameters; got {len(self._values)}.",
                f"Leave {which} out, or write a ? or $name for each.",
            )
        return "".join(f"\n-- ${name} = {_shown(self._used[name])}" for name in names)


def _value(value: Any, name: str) -> Fraction | str | bool | dt.date | dt.datetime | None:
    """Return a Python or NumPy value as a value of the tree."""
    value = _python(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise QuestionError(f"Parameter {name} holds characters that are not text.")
        return str(value)
    if isinstance(value, dt.datetime):
        if value != value:  # noqa: PLR0124 - as pandas' NaT is
            raise QuestionError(f"Parameter {name} is no time; use IS NULL to look for missing ones.")
        if value.tzinfo is not None:
            raise QuestionError(f"Parameter {name} has a time zone; timestamps here have none.")
        return dt.datetime.combine(value.date(), value.time())
    if isinstance(value, dt.date):
        return value
    if isinstance(value, (int, float, Decimal, Fraction)):
        if isinstance(value, float) and not math.isfinite(value):
            raise QuestionError(f"Parameter {name} must be a finite number; got {value}.")
        return _within_floats(value, name)
    raise _unknown(f"Parameter {name}", value)


def _shown(value: Value | tuple[Value, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, dt.date):
        return f"{'TIMESTAMP' if isinstance(value, dt.datetime) else 'DATE'} '{value.isoformat()}'"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def number_literal(text: str) -> Fraction:
    """Return the number that a constant in the question stands for."""
    if text.isascii() and text.isdigit() and len(text) < _SHORT:
        return Fraction(int(text))
    if len(text) > 400 or not _NUMBER.fullmatch(text):
        raise QuestionError(f"{text[:40]!r} is not a number that can be read.", "Write for instance 12, 0.5 or 1e6.")
    return _within_floats(text, "a constant")


def _within_floats(value: object, name: str) -> Fraction:
    try:
        number = exact(value, name)
    except InvalidValueError as error:
        raise QuestionError(str(error)) from None
    if number and not 1 / _LARGEST <= abs(number) <= _LARGEST:
        raise QuestionError(f"{name} must be zero or of a size between 1e-300 and 1e300.")
    return number
