"""A column in an owner's few words: ``int 0..120``, ``date 2024-01-01..2024-12-31``, ``red, green, blue``.

The usual words of a column follow from its name alone. They are only ever proposed.

>>> known_words("age", "int 0..120", {"type": "text"}, untyped=True)
{'type': 'integer', 'lower': '0', 'upper': '120'}
>>> known_words("cost", "0..5000 step 0.01", {"type": "decimal"}, untyped=False)
{'type': 'decimal', 'lower': '0', 'upper': '5000', 'step': '0.01'}
>>> usual_words("year"), usual_words("patient_name"), usual_words("cost")
('integer 1900..2100', '-', '')
"""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from hush.core import InvalidValueError
from hush.policy.columns import column_type
from hush.policy.document import Document, Section
from hush.query.errors import did_you_mean
from hush.query.types import Kind

LEAVE_OUT = "-"
"""The word for a column that nobody may ask about."""
_YEAR = dt.datetime.now(dt.UTC).year
_USUAL_WORDS = {
    r"age|age_years": "integer 0..120",
    r"sex|gender": "text female, male",
    r"(year_of_)?birth(_?year)?|yob": f"integer 1900..{_YEAR}",
    r"year": "integer 1900..2100",
    r"month": "integer 1..12",
    r"hour": "integer 0..23",
    r"minute": "integer 0..59",
    r"weight(_kg)?": "decimal 0..300",
    r"height(_cm)?": "decimal 0..250",
    r"percent(age)?|.*_(percent|pct)": "decimal 0..100",
    r"lat(itude)?": "decimal -90..90",
    r"lon(gitude)?": "decimal -180..180",
    r"dob|born|birthday|(date_of_)?birth_?date|date_of_birth|.*_dob|geburtsdatum": f"date 1900-01-01..{_YEAR}-12-31",
    r"date|day|.*_(date|day)|date_.*|date_of_.*": "date 2000-01-01..2030-12-31",
    r"time(stamp)?|.*_(at|time|timestamp)": "timestamp 2000-01-01..2030-12-31",
    r"id|.*_id|uuid|.*name|e?mail|phone|.*_(e?mail|phone|address)|address|ssn|iban|notes?|comments?": LEAVE_OUT,
}
"""Usual words by patterns of column names. They never come from rows, and the owner confirms each."""
_TYPES = {"int": "integer", "float": "decimal", "number": "decimal", "str": "text", "string": "text", "bool": "boolean"}
_INFERRED = (
    (r"[-+]?[0-9]+", Kind.INTEGER),
    (r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?", Kind.DECIMAL),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", Kind.DATE),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T].+", Kind.TIMESTAMP),
)


def usual_words(column: str, kind: Kind | None = None) -> str:
    """Return the usual words of a column with a well-known name and this kind; an empty text for others."""
    # birthYear, "Birth Year" and birth_year are one name.
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).replace(" ", "_").casefold()
    usual = next((words for pattern, words in _USUAL_WORDS.items() if re.fullmatch(pattern, name)), "")
    if kind is None or usual in {"", LEAVE_OUT}:
        return usual
    type_, _, domain = usual.partition(" ")
    # A file's own type wins over the usual one, but the two kinds of numbers can share a range.
    fits = type_ == kind.value or {type_, kind.value} <= {Kind.INTEGER.value, Kind.DECIMAL.value}
    return domain if fits else ""


def known_words(column: str, answer: str, words: Mapping[str, Any], *, untyped: bool) -> Mapping[str, Any]:
    """Return a column's words, completed by the owner's: a type if the file keeps none, a range, or public values."""
    kind, domain = Kind(words["type"]), answer
    if untyped:
        first, _, after_type = answer.partition(" ")
        type_name = _TYPES.get(first.casefold(), first.casefold())
        if type_name in {each.value for each in Kind}:
            kind, domain = Kind(type_name), after_type.strip()
        elif ".." in answer:
            kind = _inferred(answer)
        elif "," not in answer:
            types = ", ".join(each.value for each in Kind)
            hint = did_you_mean(first, [each.value for each in Kind], otherwise="")
            allowed = f"a type ({types}), a range such as 0..100, or public values with commas between"
            raise InvalidValueError(column, got=answer, allowed=allowed, hint=hint)
    # Words of another type, a step for instance, would mean nothing for this one.
    base = words if kind.value == words["type"] else {}
    completed: dict[str, Any] = {**base, "type": kind.value}
    if not domain:
        return checked_words(column, completed)
    if not kind.ranged:
        return checked_words(column, {**completed, "values": texts(domain)})
    domain, _, step = domain.partition(" step ")
    lower, dots, upper = domain.partition("..")
    completed["lower"] = lower.strip()
    completed |= ({"upper": upper.strip()} if dots else {}) | ({"step": step.strip()} if step else {})
    return checked_words(column, completed)


def _inferred(answer: str) -> Kind:
    """Return the kind (number, date or time) that both ends of a range have."""
    ends = [end.strip() for end in answer.partition(" step ")[0].split("..", 1)]
    return next(
        (kind for pattern, kind in _INFERRED if all(re.fullmatch(pattern, end) for end in ends)), Kind.TIMESTAMP
    )


def checked_words(column: str, words: dict[str, Any]) -> dict[str, Any]:
    """Return a column's words, if the policy's rules allow them."""
    # The policy's own reader is the judge, so that a draft never says what a policy cannot.
    column_type(Section(Document("", {}), (column,), words))
    return words


def texts(answer: str) -> list[str]:
    """Return the texts of a list; one with a comma in it stands in double quotes."""
    texts = [text.strip() for text in next(csv.reader([answer], skipinitialspace=True))]
    return [text for text in texts if text]
