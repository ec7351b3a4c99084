"""A first ``hush.toml``, drawn from the *schema* of tables and from nothing else.

What the data must not decide is left to the owner: bounds, values, the unit, the budgets. A bound or a list of values
taken from the rows would itself reveal rows, so none is ever copied. Until the owner has decided, the empty places
(``unit = ""``, ``epsilon = ""``) make the policy refuse to load, and say on which line.

>>> text = draft([("visits", "age", "BIGINT"), ("visits", "photo", "BLOB")], sources={"visits": "visits.parquet"})
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
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hush.core import InvalidValueError
from hush.policy.columns import column_type, kind_of
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
_WHOSE = (
    "# The column that says whose row it is, such as a patient or customer number. Delete the line only if nobody",
    "# can have two rows.",
)
_EVERY_ROW = ("# There is no unit: every row is another person.",)
PUBLIC = "public"
"""In place of a path to the unit: anybody may know the table."""
_PUBLIC_TABLE = ("public = true  # anybody may know it",)
_PUBLIC_TABLES = (
    "# Tables that anybody may know, such as a list of regions, can be added with public = true and joined freely.",
)
_LIMITS = (
    "# How many groups one unit may count in, and how many of its rows within one group. More keeps more of the",
    "# data and needs more noise.",
)
_NO_BUDGET = (
    "# Without a budget of their own they may spend all that is left of the data's. To set one:",
    '# budget = { epsilon = "1", delta = "1e-8" }',
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
    column_type(Section(Document(""), (column,), words))
    return words


def texts(answer: str) -> list[str]:
    """Return the texts of a list; one with a comma in it stands in double quotes."""
    texts = [text.strip() for text in next(csv.reader([answer], skipinitialspace=True))]
    return [text for text in texts if text]


def draft(
    columns: Iterable[tuple[str, str, str]],
    *,
    sources: Mapping[str, str],
    said: Mapping[tuple[str, str], Mapping[str, Any]] = MappingProxyType({}),
    untyped: Collection[str] = (),
    reading: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    data: str = "mydata",
    engine: str = "duckdb",
    unit: str | None = None,
    every_row: bool = False,
    paths: Mapping[str, str] = MappingProxyType({}),
    limits: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    left_out: Collection[tuple[str, str]] = (),
    epsilon: str = "",
    delta: str = "",
    analysts: Sequence[str] = ("alice",),
    own_epsilon: str = "",
) -> str:
    """Return the text of a first policy.

    ``columns`` are (table, column, SQL type) as an engine describes them; ``sources`` says where each table is,
    and ``untyped`` which of them are in files that keep no types, such as CSV.
    ``said`` are the owner's words for a (table, column), in the policy's terms.
    ``reading`` is the format of each table's file: separator, encoding, decimal, timezone.
    ``unit``, ``epsilon`` and ``delta`` are the owner's answers; a unit of None leaves it empty, unless
    ``every_row`` is another person. ``paths`` says where a table without the unit finds it, or `PUBLIC`; ``limits`` is
    max_groups and max_rows of a table; ``left_out`` are columns that nobody may ask about. Analysts have a budget of
    their own where ``own_epsilon`` says so.
    """
    tables = _by_table(columns)
    lines = [
        "# The policy of this data: what can be asked, whose privacy is protected, and how much may ever be learned.",
        "# Fill in the empty places. Decide from what you know of the subject, never by looking at the data.",
        "",
        f"[data.{_key(data)}]",
        f"engine = {_text(engine)}",
        *(_EVERY_ROW if every_row else [*_WHOSE, f"unit = {_text(unit or '')}"]),
        "# add-remove protects whether somebody is in the data at all; replace takes the number of people as public.",
        'neighbours = "add-remove"',
        "# What all answers together may reveal, for ever. Epsilon 1 is strong, 10 weak; delta is far below one over",
        "# the number of people, or 0.",
        _budget(epsilon, delta),
    ]
    for table, described in tables.items():
        lines += ["", f"[data.{_key(data)}.tables.{_key(table)}]"]
        lines.append(f"source = {_text(sources.get(table, table))}")
        for key, value in reading.get(table, {}).items():
            lines.append(f"{key} = {_text(value)}" + (f"  # {_WRITTEN[key]}" if key in _WRITTEN else ""))
        if table in untyped and "timezone" not in reading.get(table, {}):
            lines.append('# timezone = "Europe/Berlin"  # if its times have an offset, such as +01:00')
        if paths.get(table) == PUBLIC:
            lines += _PUBLIC_TABLE
            continue
        if paths.get(table):
            lines.append(f"unit = {_text(paths[table])}  # where a row finds its unit")
        elif unit is not None and not _has(described, unit):
            lines += _path(table, tables, unit)
        groups, rows = limits.get(table, ("1", "1"))
        lines += [*_LIMITS, f"max_groups = {groups}", f"max_rows = {rows}"]
        mine = {column: words for (name, column), words in said.items() if name == table}
        askable = [(column, sql_type) for column, sql_type in described if (table, column) not in left_out]
        lines += _columns(askable, unit, mine, untyped=table in untyped)
    lines += ["", *_PUBLIC_TABLES]
    for analyst in analysts:
        lines += ["", f"[analysts.{_key(analyst)}]", f"data = [{_text(data)}]"]
        lines += [_budget(own_epsilon, delta)] if own_epsilon else _NO_BUDGET
    return "\n".join([*lines, ""])


def _budget(epsilon: str, delta: str) -> str:
    return f"budget = {{ epsilon = {_text(epsilon)}, delta = {_text(delta or '0')} }}"


def without_unit(columns: Iterable[tuple[str, str, str]], unit: str) -> list[str]:
    """Return the tables that have no column of the unit's name."""
    return [table for table, described in _by_table(columns).items() if not _has(described, unit)]


def _by_table(columns: Iterable[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, sql_type in columns:
        tables.setdefault(table, []).append((column, sql_type))
    return tables


def _has(described: list[tuple[str, str]], unit: str) -> bool:
    return any(column.casefold() == unit.casefold() for column, _ in described)


def suggested_paths(table: str, columns: Iterable[tuple[str, str, str]], unit: str) -> list[str]:
    """Return unit paths for a table without the unit, by column names that it shares with other tables.

    >>> columns = [("visits", "pid", "BIGINT"), ("visits", "visit_id", "BIGINT"), ("drugs", "visit_id", "BIGINT")]
    >>> suggested_paths("drugs", columns, "pid")
    ['visits.pid via visit_id']
    """
    return _suggested(table, _by_table(columns), unit)


def _suggested(table: str, tables: Mapping[str, list[tuple[str, str]]], unit: str) -> list[str]:
    names = {column.casefold(): column for column, _ in tables[table]}
    return [
        f"{_name(owner_table)}.{_name(unit)} via {_name(names[column.casefold()])}"
        for owner_table, described in tables.items()
        if _has(described, unit)
        for column, _ in described
        if column.casefold() in names
    ]


def _path(table: str, tables: Mapping[str, list[tuple[str, str]]], unit: str) -> list[str]:
    """Return the lines of an empty unit path for a table without the unit, with examples from column names."""
    examples = _suggested(table, tables, unit) or [f"TABLE.{_name(unit)} via KEY"]
    return [
        f"# There is no column {_comment(unit)} here. Say where a row finds its unit: in which row of another table,",
        "# that one of the columns here refers to. Or, if anybody may know this table, write public = true in place of",
        "# unit, max_groups and max_rows.",
        *(f"# unit = {_text(example)}" for example in examples[:5]),
        'unit = ""',
    ]


def _name(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else f'"{name}"'


def first_words(sql_type: str) -> dict[str, Any]:
    """Return a column's words as its SQL type alone gives them; empty if the type is not supported.

    >>> first_words("DECIMAL(10,2)")
    {'type': 'decimal', 'step': '0.01'}
    """
    kind = kind_of(sql_type)
    if kind is None:
        return {}
    scale = _DECIMAL_SCALE.fullmatch(sql_type.strip())
    step = {"step": _step(int(scale.group(1)))} if kind is Kind.DECIMAL and scale else {}
    return {"type": kind.value, **step}


def _columns(
    described: list[tuple[str, str]], unit: str | None, answers: Mapping[str, Mapping[str, Any]], *, untyped: bool
) -> list[str]:
    lines = [
        "# Only the columns listed here can be asked about; delete the others. Sums, means and quantiles need bounds",
        "# known without looking at the data, such as lower = 0, upper = 120; a list of values makes a public key, and",
        "# nullable = true beside it a group of the rows without one.",
    ]
    if untyped:
        lines += [
            "# This file keeps no types, so every column is taken as text. Say what each of them is: integer, decimal,",
            "# boolean, date, timestamp or text. What cannot be read as its type is then NULL.",
        ]
    for column, sql_type in described:
        if unit is not None and column.casefold() == unit.casefold():
            continue
        words = answers.get(column) or first_words(sql_type)
        if not words:
            lines.append(f"# columns.{_key(column)}: {_comment(sql_type)} is not supported")
            continue
        kind = Kind(words["type"])
        bounded = "values" in words or {"lower", "upper"} <= words.keys()
        advice = f"  # {_ADVICE[kind]}" if kind in _ADVICE and not bounded else ""
        assignments = ", ".join(f"{key} = {_value(value, kind, key)}" for key, value in words.items())
        lines.append(f"columns.{_key(column)} = {{ {assignments} }}{advice}")
    return lines


def _step(scale: int) -> str:
    return "1" if scale == 0 else f"0.{'0' * (scale - 1)}1"


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
