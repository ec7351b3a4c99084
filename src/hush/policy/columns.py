"""Columns of the policy: from ``{ type = "integer", lower = 0, upper = 120 }`` to a type that the engine enforces.

The arguments of `protect` that describe columns are read by the same rules (`describe`). There a type is never taken
from the rows. It comes from ``types`` or ``formats``, else from the source's schema; and where a source has none (CSV,
JSON: all is text), from the words in which the owner gives bounds or values: dates, true and false, whole numbers as
values or with a whole step. Other bounds there mean decimals, since (0, 5000) may well be money with cents.

>>> stored = {"age": "BIGINT", "day": "DATE", "photo": "BLOB"}
>>> found, unsupported = describe(stored, bounds={"day": ("2024-01-01", "2024-12-31")})
>>> found["day"].bounded, unsupported
(True, {'photo': 'BLOB'})
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core import InvalidValueError, exact
from hush.core.errors import shown
from hush.policy.document import Document, Section
from hush.query.errors import QuestionError, did_you_mean
from hush.query.functions.record import common_step
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
    section.check_names("a column's name", 200)

    def read(name: str, value: object) -> Type:
        if isinstance(value, str):  # columns.age = "integer" is short for { type = "integer" }
            value = {"type": value}
        if not isinstance(value, Mapping):
            example = '{ type = "integer", lower = 0, upper = 120 }'
            raise section.error(name, f"{section.name}.{name} must be like {example}.")
        return column_type(Section(section.document, (*section.path, name), value))

    return section.document.each(section.values.items(), read)


def column_type(section: Section) -> Type:
    """Return the type that a column's words declare."""
    section.only(_KEYS)
    words, kinds = section.values, [kind.value for kind in Kind]
    if "type" not in words:
        raise section.error(None, f"{section.name} needs a type.", f"Types are {', '.join(kinds)}.")
    name = str(words["type"]).strip()
    if name not in kinds:
        hint = did_you_mean(name, kinds, otherwise=f"Types are {', '.join(kinds)}.")
        raise section.error("type", f"{section.name}.type is no type: {shown(name)}.", hint)
    kind = Kind(name)
    for key, has in (("lower", kind.ranged), ("upper", kind.ranged), ("step", kind.numeric)):
        if key in words and not has:
            hint = 'List the values instead: values = ["a", "b"].' if kind is Kind.TEXT else "Leave it out."
            raise section.error(key, f"a {name} column has no {key}.", hint)
    lower, upper = (
        position(_value(section, key, words[key], kind)) if key in words else None for key in ("lower", "upper")
    )
    if lower is not None and upper is not None and lower > upper:
        raise section.error("upper", f"{section.name}.upper must not be below lower; got {shown(words['upper'])}.")
    values = _values(section, kind) if "values" in words else None
    if values and kind.ranged:
        places = [position(value) for value in values]
        if (lower is not None and min(places) < lower) or (upper is not None and max(places) > upper):
            raise section.error("values", f"{section.name}.values must lie between lower and upper.")
        lower, upper = min(places), max(places)
    step = _step(section, kind, lower, upper, values) if kind.ranged else None
    date_format = ""
    if "format" in words:
        if kind not in _EXAMPLES:
            raise section.error("format", f"a {name} column has no format.", "It is for dates and timestamps.")
        from hush.query.date_formats import DateFormat

        date_format = section.parsed("format", lambda text: DateFormat.parse(text).text, "")
    nullable = section.flag("nullable", default=True)
    if not nullable and not (kind is Kind.BOOLEAN or (kind.numeric and lower is not None and upper is not None)):
        problem = f"{section.name} can be nullable = false only as a number with lower and upper, or as a boolean."
        hint = "A missing value then counts as the number nearest to zero, or as false. Leave nullable out."
        raise section.error("nullable", problem, hint)
    if kind is Kind.BOOLEAN:
        values = (False, True)
    if kind is Kind.INTEGER and any(end is not None and not -(2**63) <= end < 2**63 for end in (lower, upper)):
        kind = Kind.DECIMAL  # an engine's integers have 64 bits; a value must not be lost between them and a bound
    lists_null = nullable and "nullable" in words
    return Type(kind, nullable, lower, upper, step, values, lists_null=lists_null, format=date_format)


def _value(section: Section, key: str, value: Any, kind: Kind) -> Value:
    """Return one written value, a bound or a listed one, as a value of the column's kind."""
    expected, hint = "text", ""
    if kind.numeric:
        try:
            number = exact(value, key)
        except InvalidValueError:
            number = None
        if number is not None and (kind is not Kind.INTEGER or number.denominator == 1):
            return number
        expected = "a whole number" if kind is Kind.INTEGER else "a number"
    elif kind is Kind.TEXT:
        if isinstance(value, str):
            return value
    else:
        time = value
        with suppress(ValueError, TypeError):  # TOML has dates and times of its own
            time = (dt.date if kind is Kind.DATE else dt.datetime).fromisoformat(value)
        if isinstance(time, dt.datetime):
            if kind is Kind.TIMESTAMP and time.tzinfo is None:
                return time
        elif isinstance(time, dt.date):
            return time if kind is Kind.DATE else dt.datetime.combine(time, dt.time())
        expected, hint = f"a {kind.value}, without a time zone", f"Write {_EXAMPLES[kind]}."
    raise section.error(key, f"{section.name}.{key} must be {expected}; got {shown(value)}.", hint)


def _values(section: Section, kind: Kind) -> tuple[Value, ...]:
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
    step = section.number("step", "a positive number", lambda number: number > 0)
    if step is None:
        if kind is not Kind.DECIMAL:
            return Fraction(1)
        if values is not None:
            return common_step(abs(position(value)) for value in values) or Fraction(1)
        return None  # conditions and keys see what is stored; it is rounded where it is summed
    if kind is Kind.INTEGER and step.denominator != 1:
        written = shown(section.values["step"])
        problem = f"{section.name} is an integer column, so its step is a whole number; got {written}."
        raise section.error("step", problem)
    if any((position(value) / step).denominator != 1 for value in values or ()):
        raise section.error("values", f"{section.name}.values must be multiples of its step.")
    if lower is not None and upper is not None and math.ceil(lower / step) > math.floor(upper / step):
        problem = f"{section.name}.step is too large: no multiple of it lies between lower and upper."
        raise section.error("step", problem)
    return step


_FORMS = {
    "bounds": 'bounds by column, such as {"age": (0, 120)}',
    "values": 'lists of values by column, such as {"city": ["Oslo", "Bergen"]}',
    "types": 'types by column, such as {"paid": "boolean"}',
    "formats": 'formats of dates by column, such as {"day": "%d/%m/%Y"}',
}


def declared_type(name: str, words: Mapping[str, Any]) -> Type:
    """Return the type that words about a column declare, which stand in no file."""
    return column_type(Section(Document(), (name,), words))


def describe(
    stored: Mapping[str, str],
    *,
    unit: str | None = None,
    untyped: Collection[str] = (),
    bounds: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    formats: Mapping[str, str] | None = None,
) -> tuple[dict[str, Type], dict[str, str]]:
    """Return the columns that can be asked about, and the stored types of the others.

    ``stored`` are the names and types of the source's schema; ``untyped`` are the columns
    without a type, which are stored as text.
    """
    arguments = {"bounds": bounds or {}, "values": values or {}, "types": types or {}, "formats": formats or {}}
    for parameter, mapping in arguments.items():
        if not isinstance(mapping, Mapping):
            raise InvalidValueError(parameter, got=mapping, allowed=_FORMS[parameter])
        for name in mapping:
            if name == unit and unit is not None:
                hint = "Describe other columns."
                raise QuestionError(f"'{name}' is the protected unit, whose values nobody sees.", hint)
            if name not in stored:
                hint = did_you_mean(str(name), stored, otherwise=f"It has {', '.join(list(stored)[:20])}.")
                raise QuestionError(f"The table has no column {shown(name)} to describe.", hint)
    columns, unsupported = {}, {}
    for name, sql_type in stored.items():
        words = {parameter: mapping[name] for parameter, mapping in arguments.items() if name in mapping}
        kind = kind_of(sql_type)
        if name == unit:
            continue
        if not words and kind is not None:
            columns[name] = plain_type(kind)
        elif kind is None and "types" not in words:
            unsupported[name] = sql_type
            if words:
                hint = "Store it as a number, a text, a boolean, a date or a timestamp."
                raise QuestionError(f"Column '{name}' has the type {sql_type}, which hush does not support.", hint)
        else:
            columns[name] = _described(name, kind, words, untyped=name in untyped)
    return columns, unsupported


def _described(name: str, kind: Kind | None, words: Mapping[str, Any], *, untyped: bool) -> Type:
    bounds = words.get("bounds")
    bounds = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    if "bounds" in words and (not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) not in {2, 3}):
        raise InvalidValueError(f"bounds[{name}]", got=bounds, allowed="(lower, upper) or (lower, upper, step)")
    values = _listed(name, words["values"]) if "values" in words else None
    if "types" in words:
        kind = Kind(words["types"]) if words["types"] in [each.value for each in Kind] else kind
    elif kind is Kind.TEXT and "formats" in words:
        kind = Kind.TIMESTAMP if "%H" in str(words["formats"]) else Kind.DATE
    elif kind is Kind.TEXT and untyped:
        kind = _kind_of_words(bounds, values)
    elif kind is Kind.TEXT and bounds is not None:
        raise QuestionError(
            f"Column '{name}' is text, which has no bounds.",
            f'To read its texts as something else: types={{"{name}": "{_kind_of_words(bounds, None).value}"}}; '
            "what cannot be read as that is then NULL.",
        )
    elif kind is not None and kind.numeric:
        # texts as values of a column of numbers: a frame takes an empty column for one
        for value in values or ():
            if isinstance(value, str) and _number(value) is None:
                raise QuestionError(
                    f"{name}.values must be numbers, as the column is; got {shown(value)}.",
                    f'To read the column as text: types={{"{name}": "text"}}.',
                )
    declared: dict[str, Any] = {"type": words.get("types", "" if kind is None else kind.value)}
    declared |= {"format": words["formats"]} if "formats" in words else {}
    if bounds is not None:
        declared |= dict(zip(("lower", "upper", "step"), (_plain(end, kind) for end in bounds), strict=False))
    if values is not None:
        public_values = [_plain(value, kind) for value in values if value is not None]
        if kind is not Kind.BOOLEAN or set(map(id, public_values)) != {id(True), id(False)}:
            declared["values"] = public_values
        if len(public_values) < len(values):
            declared["nullable"] = True
    return declared_type(name, declared)


def _listed(name: str, values: Any) -> Sequence[Any]:
    entries: list[Any] = []
    if not isinstance(values, str | bytes | Mapping):
        with suppress(TypeError):  # a number, say, has no elements
            entries = list(values)
    if all(value is None for value in entries):
        raise InvalidValueError(f"values[{name}]", got=values, allowed="a list of at least one value")
    return entries


def _kind_of_words(bounds: Sequence[Any] | None, values: Sequence[Any] | None) -> Kind:
    """Return the kind of a column without a stored type, by the owner's bounds or values."""
    words = [*(bounds or ())[:2], *(value for value in values or () if value is not None)]
    if all(isinstance(word, bool | np.bool_) for word in words):
        return Kind.BOOLEAN
    if all(isinstance(word, dt.date | np.datetime64) for word in words):
        times = any(isinstance(word, dt.datetime | np.datetime64) for word in words)
        return Kind.TIMESTAMP if times else Kind.DATE
    # Listed values are categories: whole numbers, or text.
    if bounds is None:
        integers = all(isinstance(word, int | np.integer) and not isinstance(word, bool) for word in words)
        return Kind.INTEGER if integers else Kind.TEXT
    numbers = [_number(word) for word in bounds]
    if all(number is not None and number.denominator == 1 for number in numbers) and len(numbers) == 3:
        return Kind.INTEGER
    texts = [word for word in words if isinstance(word, str) and _number(word) is None]
    for kind, reads in ((Kind.DATE, dt.date), (Kind.TIMESTAMP, dt.datetime)):
        with suppress(ValueError):
            if len([reads.fromisoformat(text) for text in texts]) == len(words):
                return kind
    return Kind.DECIMAL


def _number(word: object) -> Any:
    try:
        return exact(word, "bound")
    except InvalidValueError:
        return None


def _plain(value: Any, kind: Kind | None) -> Any:
    """Return NumPy's and pandas' values as Python's own, and texts of a text column as texts."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, np.bool_):
        value = bool(value)
    if isinstance(value, dt.date) and value != value:  # noqa: PLR0124 - pandas' NaT is no time, and says so
        return str(value)
    if kind is Kind.DATE and isinstance(value, dt.datetime) and value.time() == dt.time() and value.tzinfo is None:
        return value.date()
    if kind is Kind.TEXT and isinstance(value, bool | int | float | Decimal | Fraction | dt.date | np.number):
        return str(value)
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidValueError("values", got=value, allowed="texts that UTF-8 can write")
    return value
