"""Columns of the policy: from ``{ type = "integer", lower = 0, upper = 120 }`` to a type that the engine enforces."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, exact
from hush.core.errors import shown
from hush.policy.document import Section
from hush.query.date_formats import DateFormat
from hush.query.errors import did_you_mean
from hush.query.functions.rules import common_step
from hush.query.types import Kind, Type, Value, position

MAX_VALUES = 1_000_000
_KEYS = ("type", "format", "lower", "upper", "step", "values", "nullable")
_EXAMPLES = {Kind.DATE: "2024-12-31", Kind.TIMESTAMP: "2024-12-31 23:59:59"}

_SQL_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER|\d+)?$|INT(2|4|8|16|32|64|128)$|LONG$|SHORT$"), Kind.INTEGER),
    (re.compile(r"FLOAT\d*$|DOUBLE( PRECISION)?$|REAL$|(DECIMAL|NUMERIC)(\(.*\))?$"), Kind.DECIMAL),
    (re.compile(r"(VAR)?CHAR(ACTER)?( VARYING)?(\(.*\))?$|BPCHAR.*$|TEXT$|STRING$|ENUM.*$|UUID$"), Kind.TEXT),
    (re.compile(r'"?NULL"?$'), Kind.TEXT),  # of a column of objects that are all missing
    (re.compile(r"BOOL(EAN)?$|LOGICAL$"), Kind.BOOLEAN),
    (re.compile(r"DATE(32|64)?$"), Kind.DATE),
    (re.compile(r"(TIMESTAMP|DATETIME)(_S|_MS|_NS|TZ)?(\(\d\))?( WITH(OUT)? TIME ZONE)?$"), Kind.TIMESTAMP),
)


def kind_of(sql_type: str) -> Kind | None:
    """Return the kind of an engine's column type; None if hush has none for it (lists, blobs, intervals).

    >>> kind_of("DECIMAL(10,2)"), kind_of("BIGINT"), kind_of("INTEGER[]")
    (<Kind.DECIMAL: 'decimal'>, <Kind.INTEGER: 'integer'>, None)
    """
    name = " ".join(sql_type.upper().split())
    if name.endswith("]"):
        return None
    return next((kind for pattern, kind in _SQL_KINDS if pattern.match(name)), None)


def plain_type(kind: Kind) -> Type:
    """Return the type of a column for which only the kind is known."""
    if kind is Kind.BOOLEAN:
        return Type(kind, values=(False, True))
    return Type(kind, step=None if kind in {Kind.TEXT, Kind.DECIMAL} else Fraction(1))


def read_columns(section: Section) -> dict[str, Type]:
    """Return the declared columns of a table."""
    _check_names(section)

    def read(name: str, value: object) -> Type:
        if isinstance(value, str):  # columns.age = "integer" is short for { type = "integer" }
            value = {"type": value}
        if not isinstance(value, Mapping):
            raise section.error(
                name, f'{section.name}.{name} must be like {{ type = "integer", lower = 0, upper = 120 }}.'
            )
        return column_type(Section(section.document, (*section.path, name), value))

    return section.document.each(section.values.items(), read)


def _check_names(section: Section) -> None:
    spellings: dict[str, str] = {}
    for name in section.values:
        if not name.strip() or not name.isprintable() or len(name) > 200:
            raise section.error(name, "a column's name must be 1 to 200 printable characters.")
        if name.casefold() in spellings:
            raise section.error(
                name, f"'{name}' and '{spellings[name.casefold()]}' differ in case alone.", "Rename one."
            )
        spellings[name.casefold()] = name


def column_type(section: Section) -> Type:
    """Return the type that a column's words declare."""
    section.only(_KEYS)
    kinds = [kind.value for kind in Kind]
    name = section.text("type")
    if name is None:
        raise section.error(None, f"{section.name} needs a type.", f"Types are {', '.join(kinds)}.")
    if name not in kinds:
        hint = did_you_mean(name, kinds, otherwise=f"Types are {', '.join(kinds)}.")
        raise section.error("type", f"{section.name}.type is no type: {shown(name)}.", hint)
    kind = Kind(name)
    if not kind.ranged:
        for key in ("lower", "upper", "step"):
            if key in section.values:
                hint = 'List the values instead: values = ["a", "b"].' if kind is Kind.TEXT else "Leave it out."
                raise section.error(key, f"a {kind.value} column has no {key}.", hint)
    if "step" in section.values and not kind.numeric:
        raise section.error("step", f"a {kind.value} column has no step.", "Leave it out.")
    lower, upper = (_place(section, key, kind) for key in ("lower", "upper"))
    if lower is not None and upper is not None and lower > upper:
        raise section.error(
            "upper", f"{section.name}.upper must not be below lower; got {shown(section.values['upper'])}."
        )
    values = _values(section, kind)
    if values and kind.ranged:
        places = [position(value) for value in values]
        if (lower is not None and min(places) < lower) or (upper is not None and max(places) > upper):
            raise section.error("values", f"{section.name}.values must lie between lower and upper.")
        lower, upper = min(places), max(places)
    step = _step(section, kind, lower, upper, values)
    date_format = _format(section, kind)
    nullable = section.flag("nullable", default=True)
    if not nullable and not (kind is Kind.BOOLEAN or (kind.numeric and lower is not None and upper is not None)):
        raise section.error(
            "nullable",
            f"{section.name} can be nullable = false only as a number with lower and upper, or as a boolean.",
            "A missing value then counts as the number nearest to zero, or as false. Leave nullable out.",
        )
    if kind is Kind.BOOLEAN:
        values = (False, True)
    if kind is Kind.INTEGER and any(end is not None and not -(2**63) <= end < 2**63 for end in (lower, upper)):
        kind = Kind.DECIMAL  # an engine's integers have 64 bits; a value must not be lost between them and a bound
    return Type(
        kind,
        nullable,
        lower,
        upper,
        step,
        values,
        lists_null=nullable and "nullable" in section.values,
        format=date_format,
    )


def _format(section: Section, kind: Kind) -> str:
    """Return how a column's dates are written in texts, if it is declared."""
    if "format" not in section.values:
        return ""
    if kind not in _EXAMPLES:
        raise section.error("format", f"a {kind.value} column has no format.", "It is for dates and timestamps.")
    try:
        return DateFormat.parse(section.values["format"]).text
    except InvalidValueError as error:
        what = f"{section.name}.format must be {error.allowed}; got {shown(error.got)}."
        raise section.error("format", what, error.hint) from None


def _place(section: Section, key: str, kind: Kind) -> Fraction | None:
    """Return a bound as a place on the line of its kind."""
    if key not in section.values:
        return None
    value = _value(section, key, section.values[key], kind)
    return position(value)


def _value(section: Section, key: str, value: Any, kind: Kind) -> Value:
    """Return one written value as a value of the column's kind."""
    if kind.numeric:
        try:
            number = exact(value, key)
        except InvalidValueError:
            number = None
        if number is None or (kind is Kind.INTEGER and number.denominator != 1):
            expected = "a whole number" if kind is Kind.INTEGER else "a number"
            raise section.error(key, f"{section.name}.{key} must be {expected}; got {shown(value)}.")
        return number
    if kind is Kind.TEXT:
        if not isinstance(value, str):
            raise section.error(key, f"{section.name}.{key} must be text; got {shown(value)}.")
        return value
    return _time(section, key, value, kind)


def _time(section: Section, key: str, value: Any, kind: Kind) -> Value:
    error = section.error(
        key,
        f"{section.name}.{key} must be a {kind.value}, without a time zone; got {shown(value)}.",
        f"Write {_EXAMPLES[kind]}.",
    )
    if isinstance(value, str):
        try:
            value = dt.date.fromisoformat(value) if kind is Kind.DATE else dt.datetime.fromisoformat(value)
        except ValueError:
            raise error from None
    if kind is Kind.DATE:
        if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
            raise error
        return value
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        raise error
    return value


def _values(section: Section, kind: Kind) -> tuple[Value, ...] | None:
    if "values" not in section.values:
        return None
    entries = section.values["values"]
    if kind is Kind.BOOLEAN:
        raise section.error("values", "a boolean column has the values true and false.", "Leave values out.")
    if not isinstance(entries, list) or not entries or len(entries) > MAX_VALUES:
        raise section.error("values", f"{section.name}.values must be a list of 1 to {MAX_VALUES} values.")
    public_values = [_value(section, "values", value, kind) for value in entries]
    if len(set(public_values)) != len(public_values):
        double = next(value for value in entries if entries.count(value) > 1) if len(entries) < 10_000 else "one"
        raise section.error("values", f"{section.name}.values lists {shown(double)} twice.")
    return tuple(public_values)


def _step(
    section: Section, kind: Kind, lower: Fraction | None, upper: Fraction | None, values: tuple[Value, ...] | None
) -> Fraction | None:
    """Return the grid of a column: whole numbers, a declared step, or that of the values; else none."""
    if not kind.ranged:
        return None
    step = section.number("step", "a positive number")
    if step is not None and step <= 0:
        raise section.error(
            "step", f"{section.name}.step must be a positive number; got {shown(section.values['step'])}."
        )
    if step is None:
        if kind is not Kind.DECIMAL:
            return Fraction(1)
        if values is not None:
            return common_step(abs(position(value)) for value in values) or Fraction(1)
        return None  # conditions and keys see what is stored; it is rounded where it is summed
    if kind is Kind.INTEGER and step.denominator != 1:
        raise section.error(
            "step",
            f"{section.name} is an integer column, so its step is a whole number; got {shown(section.values['step'])}.",
        )
    if any((position(value) / step).denominator != 1 for value in values or ()):
        raise section.error("values", f"{section.name}.values must be multiples of its step.")
    if lower is not None and upper is not None and math.ceil(lower / step) > math.floor(upper / step):
        raise section.error(
            "step", f"{section.name}.step is too large: no multiple of it lies between lower and upper."
        )
    return step
