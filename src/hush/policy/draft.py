"""A first ``hush.toml``, drawn from the *schema* of tables and the decisions of their owner, and from nothing else.

What the data must not decide is left to the owner: bounds, values, the unit, the budgets. A bound or a list of values
taken from the rows would itself reveal rows, so none is ever copied. ``hush init`` and the owner's page fill the same
`Draft`, with answers that are read here. Until the owner has decided, the empty places (``unit = ""``, ``epsilon =
""``) make the policy refuse to load, and say on which line.

>>> visits = DraftTable(name="visits", source="visits.parquet", columns={"age": "BIGINT", "photo": "BLOB"})
>>> text = Draft(tables=[visits]).to_toml()
>>> print(text.split("[data.mydata.tables.visits]")[1].split("# Tables")[0].strip())
source = "visits.parquet"
# How many groups one unit may count in, and how many of its rows within one group. More keeps more of the
# data and needs more noise.
max_groups = 1
max_rows = 1
# Only the columns listed here can be asked about; delete the others. Sums, means and quantiles need bounds
# known without looking at the data, such as lower = 0, upper = 120; a list of values makes a public key, and
# nullable = true beside it a group of the rows without one.
columns.age = { type = "integer" }  # add lower = …, upper = …
# columns.photo: BLOB is not supported

The owner says of a column a few words: ``int 0..120``, ``date 2024-01-01..2024-12-31``, ``red, green, blue``. Its usual
words follow from its name alone, and are only ever proposed.

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
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from hush.core import InvalidValueError, exact, positive
from hush.policy.columns import declared_type, kind_of
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
_KINDS = [kind.value for kind in Kind]
_INFERRED = (
    (r"[-+]?[0-9]+", Kind.INTEGER),
    (r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?", Kind.DECIMAL),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", Kind.DATE),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T].+", Kind.TIMESTAMP),
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DECIMAL_SCALE = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*\d+\s*,\s*(\d{1,2})\s*\)", re.IGNORECASE)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ADVICE = {
    Kind.INTEGER: "add lower = …, upper = …",
    Kind.DECIMAL: "add lower = …, upper = …",
    Kind.TEXT: 'add values = ["…", "…"] if the list is public',
    Kind.DATE: "add lower = 2000-01-01, upper = 2030-12-31 or what is known",
    Kind.TIMESTAMP: "add lower = …, upper = … if they are known",
}
_WRITTEN = {
    "encoding": 'how its characters are stored: "utf-8", "windows-1252", "latin-1", "utf-16", …',
    "decimal": 'what stands before decimals: "." or ","',
    "timezone": "where the clocks are that show its times",
}
PUBLIC = "public"
"""In place of a path to the unit: anybody may know the table."""
EVERY_ROW = "every row is another person"
"""In place of the unit's column: there is no unit."""
_EVERY_ROW_WORDS = frozenset({EVERY_ROW, "every row", "each row", "row"})
_HEAD = """\
# The policy of this data: what can be asked, whose privacy is protected, and how much may ever be learned.
# Fill in the empty places. Decide from what you know of the subject, never by looking at the data.
"""
_UNIT = """\
# The column that says whose row it is, such as a patient or customer number. Delete the line only if nobody
# can have two rows."""
_NO_UNIT = "# There is no unit: every row is another person."
_BUDGET = """\
# add-remove protects whether somebody is in the data at all; replace takes the number of people as public.
neighbours = "add-remove"
# What all answers together may reveal, for ever. Epsilon 1 is strong, 10 weak; delta is far below one over
# the number of people, or 0."""
_UNIT_ELSEWHERE = """\
# There is no column {unit} here. Say where a row finds its unit: in which row of another table,
# that one of the columns here refers to. Or, if anybody may know this table, write public = true in place of
# unit, max_groups and max_rows."""
_LIMITS = """\
# How many groups one unit may count in, and how many of its rows within one group. More keeps more of the
# data and needs more noise."""
_COLUMNS = """\
# Only the columns listed here can be asked about; delete the others. Sums, means and quantiles need bounds
# known without looking at the data, such as lower = 0, upper = 120; a list of values makes a public key, and
# nullable = true beside it a group of the rows without one."""
_UNTYPED = """\
# This file keeps no types, so every column is taken as text. Say what each of them is: integer, decimal,
# boolean, date, timestamp or text. What cannot be read as its type is then NULL."""
_PUBLIC_TABLES = (
    "# Tables that anybody may know, such as a list of regions, can be added with public = true and joined freely."
)
_NO_BUDGET = """\
# Without a budget of their own they may spend all that is left of the data's. To set one:
# budget = { epsilon = "1", delta = "1e-8" }"""


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
        if type_name in _KINDS:
            kind, domain = Kind(type_name), after_type.strip()
        elif ".." in answer:
            ends = [end.strip() for end in answer.partition(" step ")[0].split("..", 1)]
            fitting = (each for pattern, each in _INFERRED if all(re.fullmatch(pattern, end) for end in ends))
            kind = next(fitting, Kind.TIMESTAMP)
        elif "," not in answer:
            allowed = f"a type ({', '.join(_KINDS)}), a range such as 0..100, or public values with commas between"
            raise InvalidValueError(column, got=answer, allowed=allowed, hint=did_you_mean(first, _KINDS))
    # Words of another type, a step for instance, would mean nothing for this one.
    base = words if kind.value == words["type"] else {}
    completed: dict[str, Any] = {**base, "type": kind.value}
    if domain and not kind.ranged:
        completed["values"] = read_list(domain, column)
    elif domain:
        extent, _, step = domain.partition(" step ")
        lower, dots, upper = map(str.strip, extent.partition(".."))
        completed |= {"lower": lower} | ({"upper": upper} if dots else {}) | ({"step": step.strip()} if step else {})
    return checked_words(column, completed)


def checked_words(column: str, words: dict[str, Any]) -> dict[str, Any]:
    """Return a column's words, if the policy's rules allow them: a draft says nothing that a policy cannot."""
    declared_type(column, words)
    return words


def read_list(answer: str, parameter: str) -> list[str]:
    """Return the texts of a list; one with a comma in it stands in double quotes."""
    try:
        (entries,) = csv.reader([answer], skipinitialspace=True)
    except (csv.Error, ValueError):
        raise InvalidValueError(parameter, got=answer, allowed="values in one line, separated by commas") from None
    return [entry.strip() for entry in entries if entry.strip()]


def read_count(answer: str, parameter: str, largest: int) -> str:
    """Return a whole number from 1 to ``largest``, as a policy writes it."""
    # The length is looked at first: int() fails for texts of thousands of digits.
    if not (answer.isascii() and answer.isdecimal() and len(answer) <= 18 and 1 <= int(answer) <= largest):
        raise InvalidValueError(parameter, got=answer, allowed=f"a whole number from 1 to {largest}")
    return str(int(answer))


def read_epsilon(answer: str, parameter: str) -> str:
    """Return ε as it was written, after checking that it is positive."""
    positive(answer, parameter)
    return answer


def read_delta(answer: str, parameter: str) -> str:
    """Return δ as it was written, after checking that it is at least 0 and below 1."""
    allowed = "a number of at least 0 and below 1"
    if not 0 <= exact(answer, parameter, allowed=allowed) < 1:
        raise InvalidValueError(parameter, got=answer, allowed=allowed)
    return answer


def first_words(sql_type: str) -> dict[str, Any]:
    """Return a column's words as its SQL type alone gives them; empty if the type is not supported.

    >>> first_words("DECIMAL(10,2)")
    {'type': 'decimal', 'step': '0.01'}
    """
    kind, scale = kind_of(sql_type), _DECIMAL_SCALE.fullmatch(sql_type.strip())
    words = {} if kind is None else {"type": kind.value}
    if scale:
        words["step"] = f"{Decimal(1).scaleb(-int(scale[1])):f}"
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTable:
    """A table of a draft: its schema, and the decisions of its owner."""

    name: str
    source: str
    """Where it is, as a policy writes it."""
    columns: Mapping[str, str]
    """The SQL types of its columns, by name."""
    untyped: bool = False
    """Whether its file keeps no types, as CSV, so that every column is text."""
    reading: Mapping[str, str] = field(default_factory=dict)
    """How its file is written, in the policy's words: separator, encoding, decimal, timezone."""
    unit: str = ""
    """The path to its unit, or `PUBLIC`, where it has no column of the unit's name; empty as long as that is open."""
    max_groups: str = "1"
    max_rows: str = "1"
    words: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The owner's words about columns, in the policy's terms; None for one that nobody may ask about."""

    def has(self, column: str) -> bool:
        """Say whether there is a column of this name."""
        return column.casefold() in map(str.casefold, self.columns)

    def columns_but(self, unit: str | None) -> dict[str, str]:
        """Return the columns that can be asked about: all but the unit's."""
        hidden = (unit or "").casefold()
        return {name: sql_type for name, sql_type in self.columns.items() if name.casefold() != hidden}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A policy as far as its owner decided; an empty text is an open place."""

    tables: Sequence[DraftTable]
    data: str = "mydata"
    engine: str = "duckdb"
    unit: str | None = ""
    """The column that identifies a person; None if every row is another person."""
    dates: str = ""
    """The format of dates in files without types; empty for ISO's."""
    epsilon: str = ""
    delta: str = ""
    analysts: Sequence[str] = ("alice",)
    own_epsilon: str = ""
    """The budget of each analyst; empty if they share the data's."""

    @property
    def holders(self) -> dict[str, list[DraftTable]]:
        """The tables with each column, by its name."""
        holders: dict[str, list[DraftTable]] = {}
        for table in self.tables:
            for column in table.columns:
                holders.setdefault(column, []).append(table)
        return holders

    @property
    def without_unit(self) -> list[DraftTable]:
        """The tables that have no column of the unit's name, if there is a unit."""
        return [table for table in self.tables if self.unit and not table.has(self.unit)]

    @property
    def finished(self) -> bool:
        """Whether no place is open."""
        return self.unit != "" and bool(self.epsilon) and all(table.unit for table in self.without_unit)

    def read_unit(self, answer: str, parameter: str) -> str | None:
        """Return the unit: the name of a column, or None for every row."""
        names = self.holders
        if " ".join(answer.casefold().split()) in _EVERY_ROW_WORDS and answer not in names:
            return None
        if answer.casefold() not in {name.casefold() for name in names}:
            hint = did_you_mean(answer, names, otherwise=f"There are {', '.join(list(names)[:20])}.")
            raise InvalidValueError(parameter, got=answer, allowed="the column that says whose row it is", hint=hint)
        return answer

    def suggested_paths(self, table: DraftTable) -> list[str]:
        """Return unit paths for a table without the unit, by column names that it shares with other tables.

        >>> visits = DraftTable(name="visits", source="", columns={"pid": "BIGINT", "visit_id": "BIGINT"})
        >>> drugs = DraftTable(name="drugs", source="", columns={"visit_id": "BIGINT"})
        >>> Draft(tables=[visits, drugs], unit="pid").suggested_paths(drugs)
        ['visits.pid via visit_id']
        """
        names = {column.casefold(): column for column in table.columns}
        unit = self.unit or ""
        return [
            f"{_key(other.name)}.{_key(unit)} via {_key(names[column.casefold()])}"
            for other in self.tables
            if other.has(unit)
            for column in other.columns
            if column.casefold() in names
        ]

    def revised(self, table: str, column: str | None, key: str, value: str) -> Draft:
        """Return the draft with another word about a column, or about a table's file."""
        old = next(old for old in self.tables if old.name == table)
        if column is None:
            new = replace(old, reading={**old.reading, key: value})
        else:
            words = old.words.get(column) or first_words(old.columns[column])
            new = replace(old, words={**old.words, column: {**words, key: value}})
        return replace(self, tables=[new if each is old else each for each in self.tables])

    def to_toml(self) -> str:
        """Return the text of the policy."""
        section = f"data.{_key(self.data)}"
        lines = [_HEAD, f"[{section}]", f"engine = {_text(self.engine)}"]
        lines += [_NO_UNIT] if self.unit is None else [_UNIT, f"unit = {_text(self.unit)}"]
        lines += [_BUDGET, _budget(self.epsilon, self.delta)]
        for table in self.tables:
            lines += ["", f"[{section}.tables.{_key(table.name)}]", *self._table(table)]
        lines += ["", _PUBLIC_TABLES]
        for analyst in self.analysts:
            lines += ["", *analyst_section(analyst, self.data, self.own_epsilon, self.delta)]
        return "\n".join([*lines, ""])

    def _table(self, table: DraftTable) -> list[str]:
        lines = [f"source = {_text(table.source)}"]
        for key, value in table.reading.items():
            lines.append(f"{key} = {_text(value)}" + (f"  # {_WRITTEN[key]}" if key in _WRITTEN else ""))
        if table.untyped and "timezone" not in table.reading:
            lines.append('# timezone = "Europe/Berlin"  # if its times have an offset, such as +01:00')
        if table.unit == PUBLIC:
            return [*lines, "public = true  # anybody may know it"]
        if table.unit:
            lines.append(f"unit = {_text(table.unit)}  # where a row finds its unit")
        elif self.unit and not table.has(self.unit):
            examples = self.suggested_paths(table) or [f"TABLE.{_key(self.unit)} via KEY"]
            lines.append(_UNIT_ELSEWHERE.format(unit=_comment(self.unit)))
            lines += [*(f"# unit = {_text(example)}" for example in examples[:5]), 'unit = ""']
        lines += [_LIMITS, f"max_groups = {table.max_groups}", f"max_rows = {table.max_rows}", _COLUMNS]
        lines += [_UNTYPED] if table.untyped else []
        for column, sql_type in table.columns_but(self.unit).items():
            words = table.words.get(column, {})
            if words is not None:  # else nobody may ask about it
                lines.append(self._column(column, sql_type, words or first_words(sql_type), untyped=table.untyped))
        return lines

    def _column(self, column: str, sql_type: str, words: Mapping[str, Any], *, untyped: bool) -> str:
        if not words:
            return f"# columns.{_key(column)}: {_comment(sql_type)} is not supported"
        kind = Kind(words["type"])
        # A time needs a format that has one.
        if untyped and self.dates and (kind is Kind.DATE or (kind is Kind.TIMESTAMP and "%H" in self.dates)):
            words = {"type": kind.value, "format": self.dates, **words}
        bounded = "values" in words or {"lower", "upper"} <= words.keys()
        advice = f"  # {_ADVICE[kind]}" if kind in _ADVICE and not bounded else ""
        assignments = ", ".join(f"{key} = {_value(value, kind, key)}" for key, value in words.items())
        return f"columns.{_key(column)} = {{ {assignments} }}{advice}"


def analyst_section(name: str, data: str, epsilon: str, delta: str) -> list[str]:
    """Return the lines of a policy that let somebody ask; without an ε they have no budget of their own."""
    budget = _budget(epsilon, delta) if epsilon else _NO_BUDGET
    return [f"[analysts.{_key(name)}]", f"data = [{_text(data)}]", budget]


def _budget(epsilon: str, delta: str) -> str:
    return f"budget = {{ epsilon = {_text(epsilon)}, delta = {_text(delta or '0')} }}"


def _value(value: str | list[str], kind: Kind, key: str) -> str:
    """Return a word as TOML; a bound that is a whole number or a day needs no quotes."""
    if not isinstance(value, str):
        return f"[{', '.join(map(_text, value))}]"
    if key in {"lower", "upper"} and (_INTEGER if kind.numeric else _ISO_DATE).fullmatch(value):
        return value
    return _text(value)


def _text(value: str) -> str:
    """Return TOML text; JSON's escapes are TOML's, but for the delete character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _comment(text: str) -> str:
    # A line break in a name would end the comment, and what follows would be read as TOML.
    return " ".join("".join(c for c in text if c.isprintable()).split())[:80]
