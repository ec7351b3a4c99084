"""The arguments of `protect` that describe columns, read by the policy's own rules.

A type is never taken from the rows. It comes from ``types`` or ``formats``, else from the source's schema; and where a
source has none (CSV, JSON: all is text), from the words in which the owner gives bounds or values: dates, true and
false, whole numbers as values or with a whole step. Other bounds there mean decimals, since (0, 5000) may well be money
with cents.

>>> stored = {"age": "BIGINT", "day": "DATE", "photo": "BLOB"}
>>> found, unsupported = describe(stored, bounds={"day": ("2024-01-01", "2024-12-31")})
>>> found["day"].bounded, unsupported
(True, {'photo': 'BLOB'})
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core import HushError, InvalidValueError, exact
from hush.core.errors import shown
from hush.policy.columns import column_type, kind_of, plain_type
from hush.policy.document import Document, Path, Section
from hush.query.errors import QuestionError, did_you_mean
from hush.query.types import Kind, Type

_BOUNDS = "(lower, upper) or (lower, upper, step)"
_FORMS = {
    "bounds": ("bounds", '{"age": (0, 120)}'),
    "values": ("lists of values", '{"city": ["Oslo", "Bergen"]}'),
    "types": ("types", '{"paid": "boolean"}'),
    "formats": ("formats of dates", '{"day": "%d/%m/%Y"}'),
}


class _Call(Document):
    """A call of `protect`, in place of a file."""

    def error(self, path: Path, problem: str, hint: str = "") -> HushError:
        begins_with_name = problem.startswith(path[0])  # names keep their spelling, sentences begin with a capital
        return QuestionError(problem if begins_with_name else problem[:1].upper() + problem[1:], hint)


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
        _check(parameter, mapping, stored, unit)
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
                raise QuestionError(f"Column '{name}' has the type {sql_type}, which hush does not support.", _CONVERT)
        else:
            columns[name] = _described(name, kind, words, untyped=name in untyped)
    return columns, unsupported


_CONVERT = "Store it as a number, a text, a boolean, a date or a timestamp."


def _check(parameter: str, mapping: object, stored: Mapping[str, str], unit: str | None) -> None:
    form, example = _FORMS[parameter]
    if not isinstance(mapping, Mapping):
        raise InvalidValueError(parameter, got=mapping, allowed=f"{form} by column, such as {example}")
    for name in mapping:
        if name == unit and unit is not None:
            raise QuestionError(f"'{name}' is the protected unit, whose values nobody sees.", "Describe other columns.")
        if name not in stored:
            hint = did_you_mean(str(name), stored, otherwise=f"It has {', '.join(list(stored)[:20])}.")
            raise QuestionError(f"The table has no column {shown(name)} to describe.", hint)


def _described(name: str, kind: Kind | None, words: Mapping[str, Any], *, untyped: bool) -> Type:
    bounds = _bounds(name, words["bounds"]) if "bounds" in words else None
    values = _values(name, words["values"]) if "values" in words else None
    if "types" in words:
        word = words["types"]
        kind = Kind(word) if word in [each.value for each in Kind] else kind
    elif kind is Kind.TEXT and "formats" in words:
        word = (Kind.TIMESTAMP if "%H" in str(words["formats"]) else Kind.DATE).value
        kind = Kind(word)
    elif kind is Kind.TEXT and untyped:
        word = _kind_of_words(bounds, values).value
        kind = Kind(word)
    elif kind is Kind.TEXT and bounds is not None:
        raise QuestionError(
            f"Column '{name}' is text, which has no bounds.",
            f'To read its texts as something else: types={{"{name}": "{_kind_of_words(bounds, None).value}"}}; '
            "what cannot be read as that is then NULL.",
        )
    else:
        word = "" if kind is None else kind.value
        _check_texts(name, kind, values)
    declared: dict[str, Any] = {"type": word} | ({"format": words["formats"]} if "formats" in words else {})
    if bounds is not None:
        declared |= dict(zip(("lower", "upper", "step"), (_plain(end, kind) for end in bounds), strict=False))
    if values is not None:
        public_values = [_plain(value, kind) for value in values if value is not None]
        if kind is not Kind.BOOLEAN or set(map(id, public_values)) != {id(True), id(False)}:
            declared["values"] = public_values
        if len(public_values) < len(values):
            declared["nullable"] = True
    return column_type(Section(_Call("", {}), (name,), declared))


def _check_texts(name: str, kind: Kind | None, values: Sequence[Any] | None) -> None:
    """Refuse texts as values of a numeric column; a frame takes an empty column for one."""
    for value in values or () if kind is not None and kind.numeric else ():
        if isinstance(value, str) and _number(value) is None:
            raise QuestionError(
                f"{name}.values must be numbers, as the column is; got {shown(value)}.",
                f'To read the column as text: types={{"{name}": "text"}}.',
            )


def _bounds(name: str, bounds: object) -> Sequence[Any]:
    if isinstance(bounds, np.ndarray):
        bounds = bounds.tolist()
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) not in {2, 3}:
        raise InvalidValueError(f"bounds[{name}]", got=bounds, allowed=_BOUNDS)
    return bounds


def _values(name: str, values: Any) -> Sequence[Any]:
    allowed = "a list of at least one value"
    if isinstance(values, str | bytes | Mapping):
        raise InvalidValueError(f"values[{name}]", got=values, allowed=allowed)
    try:
        entries: list[Any] = list(values)
    except TypeError:  # a number, say, has no elements
        entries = []
    if all(value is None for value in entries):
        raise InvalidValueError(f"values[{name}]", got=values, allowed=allowed)
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
    for kind in (Kind.DATE, Kind.TIMESTAMP):
        if all(isinstance(word, str) and _is_time(word, kind) for word in words):
            return kind
    return Kind.DECIMAL


def _number(word: object) -> Any:
    try:
        return exact(word, "bound")
    except InvalidValueError:
        return None


def _is_time(word: str, kind: Kind) -> bool:
    try:
        (dt.date if kind is Kind.DATE else dt.datetime).fromisoformat(word)
    except ValueError:
        return False
    return _number(word) is None


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
