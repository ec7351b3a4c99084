r"""The owner's policy, ``hush.toml``: tables, protected units, budgets for ever, and analysts.

Everything the analyst may know of a data set comes from here and nothing from its rows. A column without a line is
invisible. A mistake is reported with its line, and a key that nobody reads is a mistake, so that a misspelt bound is
never passed over.

>>> policy = Policy.parse('''
... [data.clinic]
... unit = "patient_id"
... budget = { epsilon = "4", delta = "1e-7" }
... [data.clinic.tables.visits]
... source = "visits.parquet"
... columns.age = { type = "integer", lower = 0, upper = 120 }
... ''')
>>> policy.schema("clinic").tables["visits"].columns["age"].upper
Fraction(120, 1)
>>> Policy.parse("[data.clinic]\nunit = 'id'\nbuget = { epsilon = 4 }")
Traceback (most recent call last):
...
hush.policy.document.PolicyError: hush.toml:3: unknown key 'buget' in data.clinic. Did you mean 'budget'?

**The unit of each row** is a column, or a path over foreign keys, such as ``orders.customer_id via order_id``
(docs/policy.md has all forms).

**Assumption**: a key over there leads to one unit, as a primary key does. Where none has the key, the row belongs to
nobody and is left out. ``hush check --rows`` tells the owner of keys that lead to several units. No question may: that
would tell the analyst of rows.

A row behind a key that several units share counts once for each of them. Let *V* be the pairs (row, unit). A unit that
leaves takes along its own rows over there, and rows here that lead to it alone. Then *V* loses the pairs of this unit,
and no other: another's pair (row, unit) needs but the row, which stays, and a row over there that is not this unit's.
So bounds for each unit make sensitivities that hold, whichever keys are shared (``tests/conformance/worlds.py``).

A shared row that leaves *as well* takes along the pairs of all its units: it is protected as that many units are. No
other way to count would mend this. Let Ada share the key i with the unit i, for m units, with a row here behind each.
Without Ada the m rows are those of m units; without Ada and the rows there are none. The first two worlds must differ
by one unit's bound if leaving rows behind is to be protected, the first and the third if taking them along is. Then the
counts m and 0 of unshared keys would differ by two units' bounds, and they do not. To give a row to the first of its
units, or to nobody, protects the second and not the first: Ada's absence would move m rows to m other units.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hush.core import MAX_DIGITS, HushError, InvalidValueError, Neighbours
from hush.core.storage import (
    DECIMALS,
    DEFAULT_CACHE,
    ENCODINGS,
    READING,
    SEPARATORS,
    parse_size,
    path_of,
    text_encoding,
)
from hush.ledger.budgets import LARGEST_EPSILON, Allowance, Budget
from hush.policy.columns import kind_of, plain_type, read_columns
from hush.policy.document import STREAM_SECTIONS, Document, PolicyError, Section
from hush.query.errors import QuestionError, did_you_mean
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.schema import Beyond, Hop, Schema, Table, UnitPath
from hush.query.types import Type

if TYPE_CHECKING:
    from hush.ledger.streams import StreamDeclaration

T = TypeVar("T")
_NAME = r'(?:[^\s."=]+|"[^"]+")'
UNIT_PATH = re.compile(rf"({_NAME})(?:\.({_NAME}))?\s+via\s+({_NAME})(?:\s*=\s*({_NAME}))?", re.IGNORECASE)
_COLUMN = re.compile(rf"{_NAME}(?:\s+{_NAME})*")
_EMPTY = (
    'Name the column, or the row of another table that says it, as in "orders.customer_id via order_id"; '
    "delete the line to use the data set's unit."
)


def unit_path(
    table: str, unit: str | None, tables: Mapping[str, Section], visited: tuple[str, ...] = ()
) -> UnitPath | None:
    """Return the unit path of a private table's rows; None if every row is a unit.

    ``unit`` is that of the data set, ``tables`` are its private tables, and ``visited`` those that lead here.
    """
    section, visited = tables[table], (*visited, table)
    text = section.text("unit", hint=_EMPTY)
    if text is None:
        return None if unit is None else UnitPath(column=unit)
    if unit is None:
        raise section.error(
            "unit", f"table {table} has a unit but its data set has none.", "Say unit = … for the data set."
        )
    match = UNIT_PATH.fullmatch(text)
    if match is None and _COLUMN.fullmatch(text) and not re.search(r"\bvia\b|\.", text, re.IGNORECASE):
        return UnitPath(column=text.strip('"'))
    if match is None:
        problem = f"{section.name}.unit cannot be read: '{text[:60]}'."
        raise section.error("unit", problem, 'Write a column, or "orders.customer_id via order_id".')
    target, column, reference, key = ((group or "").strip('"') for group in match.groups())
    name = next((name for name in tables if name.casefold() == target.casefold()), None)
    if name is None:
        problem = f"there is no private table '{target}' in this data set."
        raise section.error("unit", problem, did_you_mean(target, tables))
    if name in visited:
        raise section.error("unit", f"the units of {' and '.join(dict.fromkeys(visited))} lead round in a circle.")
    beyond = unit_path(name, unit, tables, visited)
    if beyond is None:
        raise section.error("unit", f"table {name} has no unit to lead to.")
    if column and (beyond.hops or beyond.column.casefold() != column.casefold()):
        actual = f"{name}.{beyond.column}" if not beyond.hops else f"{name} (by a path of its own)"
        problem = f"the unit of table {name} is {actual}, not {name}.{column}."
        raise section.error("unit", problem, f'One of the two is misspelt; or write "{name} via {reference}".')
    hop = Hop(column=reference, table=name, key=key or reference)
    return UnitPath(column=beyond.column, hops=(hop, *beyond.hops))


log = logging.getLogger("hush.curator")
MAX_SIZE = 10_000_000
_DATA_KEYS = ("engine", "cache", "time_limit", "unit", "neighbours", "budget", "version", "share", "tables")
_TABLE_KEYS = ("source", *READING, "rows", "public", "unit", "max_groups", "max_rows", "beyond", "columns")
_ROWS_HINT = "Write a round number that the table will not exceed, such as 1_000_000; everybody may know it."
MORE_ROWS = "Noise grows with it: write how many rows of one unit are typical; what is beyond is weighted down."
MORE_GROUPS = "Noise grows with it: write in how many groups one unit typically is; what is beyond is left out."
_VERSION_HINT = 'Write for instance version = "2026-06", and another one whenever the rows were replaced.'
_BEYOND_KEYS = ("max_rows", "max_groups", "by", "share", "error", "receipt", "when")
_BEYOND_EXAMPLE = (
    'Copy the line that hush bounds prints: beyond = [{ max_rows = 3, share = "0.17", error = "0.02", … }].'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of the policy: its source and its public schema."""

    source: str
    table: Table
    reading: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The declared format of the file: separator, encoding, decimal, quotes, timezone."""
    rows: int | None = None
    """A public estimate of the number of rows; a service derives from it when answers leave."""


class DataSet(NamedTuple):
    """One protected data set: tables under one unit and one lifetime budget."""

    name: str
    engine: str
    cache: str
    """The memory that the engine may use to keep results and bounded rows for the next question."""
    unit: str | None
    neighbours: Neighbours
    budget: Budget
    tables: Mapping[str, SourceTable]
    version: str = ""
    """The owner's name for this state of the rows. Under a new name, no question counts as asked before."""
    time_limit: int = 600
    """The seconds that a statement of the engine may take."""
    share: bool = False
    """Whether analysts get each other's answers, where they ask the same: the data set then pays once."""


class Analyst(NamedTuple):
    """An analyst: data sets, own budget, allowance and limit without approval."""

    name: str
    data: tuple[str, ...]
    budget: Budget | None = None
    """Their own budget on each of the data sets; None where the data set's alone binds them."""
    allowance: Allowance | None = None
    """The largest part of the budget for each window of time; None if there is no limit."""
    ask_first: Fraction | None = None
    """The largest ε of a question that needs no approval of the owner; None where none needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A valid policy."""

    data: Mapping[str, DataSet]
    analysts: Mapping[str, Analyst] = field(default_factory=lambda: MappingProxyType({}))
    streams: Mapping[str, StreamDeclaration] = field(default_factory=lambda: MappingProxyType({}))
    """Questions that are released again and again."""
    ledger: str | None = None
    """The path of the ledger, relative to ``directory``; None for the usual one."""
    ledger_id: str | None = None
    """The id of the ledger, written by ``hush ledger open``. Any other ledger is refused."""
    directory: Path = Path()
    """The directory of the policy, for relative sources."""
    document: Document = field(default_factory=lambda: Document("hush.toml"))
    """The lines of all keys, for errors that show up later."""

    @classmethod
    def read(cls, path: str | Path, *, mistakes: list[HushError] | None = None) -> Policy:
        """Return the policy in a file.

        A list of ``mistakes`` collects all mistakes, if the file is TOML at all; the returned policy lacks those parts.
        """
        path = path_of(path)
        try:
            if path.stat().st_size > MAX_SIZE:
                raise PolicyError(str(path), None, f"the file is larger than {MAX_SIZE} bytes.")
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise PolicyError(str(path), None, "there is no such file.", "Write one with: hush init FILE…") from None
        except UnicodeDecodeError:
            raise PolicyError(str(path), None, "the file is not UTF-8 text.") from None
        except OSError as error:
            raise PolicyError(str(path), None, f"the file cannot be read: {error.strerror}.") from None
        return cls.parse(text, file=str(path), directory=path.parent, mistakes=mistakes)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        file: str = "hush.toml",
        directory: Path | None = None,
        mistakes: list[HushError] | None = None,
    ) -> Policy:
        """Return the policy in a text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            problem, _, position = str(error).partition(" (at line ")
            line = int(position.partition(",")[0]) if position else None
            raise PolicyError(file, line, f"this is not TOML: {problem}.") from None
        except ValueError:  # Python's own limit, which tomllib lets out
            raise PolicyError(file, None, f"it has a whole number of more than {MAX_DIGITS:,} digits.") from None
        except RecursionError:
            raise PolicyError(file, None, "the file is nested too deeply.") from None
        return _policy(Section(Document(file, text, mistakes), (), values), directory or Path())

    def data_set(self, name: str) -> DataSet:
        """Return a data set by its name."""
        return _named(self.data, name, "data set")

    def schema(self, data: str, found: Mapping[str, Mapping[str, str]] | None = None) -> Schema:
        """Return everything that is public about a data set.

        ``found`` are the columns (name and SQL type) that an engine found. Public tables without declared columns use
        them; in private tables only the keys of unit paths are looked at.
        """
        data_set, sources = self.data_set(data), found or {}
        tables = {}
        for name, source in data_set.tables.items():
            table, stored = source.table, sources.get(name, {})
            if table.public and not table.columns:
                kinds = {column: kind_of(sql_type) for column, sql_type in stored.items()}
                columns = {column: plain_type(kind) for column, kind in kinds.items() if kind}
                unsupported = {column: stored[column] for column, kind in kinds.items() if not kind}
                table = replace(table, columns=columns, unsupported=unsupported)
            tables[name] = table
        schema = Schema(data=data, tables=tables, neighbours=data_set.neighbours, unit=data_set.unit)
        for name, table in tables.items():
            # columns by which paths lead to units and that are not declared, as they are stored
            declared = set(map(str.casefold, table.columns))
            if table.unit is not None and not table.unit.hops:
                declared.add(table.unit.column.casefold())
            targets, keys = schema.targets(table).keys() - declared, dict[str, Type]()
            for column, sql_type in ({} if table.public else sources.get(name, {})).items():
                if column.casefold() in targets and (kind := kind_of(sql_type)):
                    keys[column] = plain_type(kind)
            tables[name] = replace(table, keys=keys)
        return replace(schema, tables=tables)

    def analyst(self, name: str) -> Analyst:
        """Return an analyst by name."""
        return _named(self.analysts, name, "analyst")


def _named(entries: Mapping[str, T], name: str, noun: str) -> T:
    if name not in entries:
        names = f"There are {', '.join(entries)}." if entries else f"The policy names no {noun}s."
        raise QuestionError(f"There is no {noun} '{name}'.", did_you_mean(name, entries, otherwise=names))
    return entries[name]


def _policy(root: Section, directory: Path) -> Policy:
    root.only(("data", "analysts", *STREAM_SECTIONS, "ledger", "ledger_id"))
    document, data_sections = root.document, root.sections("data")
    if not data_sections:
        raise root.error("data", "the policy has no data set.", "Start one with [data.NAME], or run: hush init FILE…")
    data = document.each(data_sections, _data_set)
    # Also data sets with mistakes: analysts who name one would else be told of a second mistake that is none.
    names = list(dict(data_sections))
    analysts = document.each(root.sections("analysts"), lambda name, section: _analyst(name, section, names))
    streams: dict[str, StreamDeclaration] = {}
    if not root.values.keys().isdisjoint(STREAM_SECTIONS):
        from hush.policy.streams import read_streams

        streams = read_streams(root, names, analysts)
    return Policy(
        data=MappingProxyType(data),
        analysts=MappingProxyType(analysts),
        streams=MappingProxyType(streams),
        ledger=root.text("ledger"),
        ledger_id=root.text("ledger_id"),
        directory=directory,
        document=document,
    )


def _data_set(name: str, section: Section) -> DataSet:
    section.only(_DATA_KEYS)
    unit_hint = "Name the column that says whose row it is; delete the line only if every row is another person."
    unit = section.text("unit", hint=unit_hint)
    neighbours, budget = section.parsed("neighbours", Neighbours.parse, Neighbours.ADD_REMOVE), _budget(section)
    table_sections = section.sections("tables")
    if not table_sections:
        raise section.error(None, f"{section.name} has no tables.", f"Start one with [{section.name}.tables.NAME].")
    private = {key: table for key, table in table_sections if table.values.get("public") is not True}
    tables = section.document.each(table_sections, lambda key, table: _table(key, table, unit, private))
    if not private:
        raise section.error("tables", f"all tables of {section.name} are public, so there is nothing to protect.")
    return DataSet(
        name=name,
        engine=section.text("engine") or "duckdb",
        cache=section.parsed("cache", _cache, DEFAULT_CACHE),
        unit=unit,
        neighbours=neighbours,
        budget=budget,
        tables=MappingProxyType(tables),
        version=section.text("version", hint=_VERSION_HINT) or "",
        time_limit=section.whole("time_limit", 600, maximum=604_800, hint="It counts seconds."),
        share=section.flag("share", default=False),
    )


def _cache(size: object) -> str:
    parse_size(str(size))
    return str(size).strip()


def _table(name: str, section: Section, unit: str | None, private: Mapping[str, Section]) -> SourceTable:
    section.only((*_TABLE_KEYS, "keep"))
    public = section.flag("public", default=False)
    source = section.text("source")
    if source is None:
        raise section.error(None, f"{section.name} needs a source.", 'Write for instance source = "visits.parquet".')
    if "://" in source:
        raise section.wrong("source", "a file", "Fetch it, and name the file.")
    for key in ("unit", "max_groups", "max_rows", "beyond") if public else ():
        if key in section.values:
            hint = "Delete this line, or the one with public = true."
            raise section.error(key, f"a public table has no {key}.", hint)
    declared = section.section("columns")
    columns = read_columns(declared)
    path = None if public else unit_path(name, unit, private)
    if not public and not declared.values:
        problem = f"{section.name} declares no columns, so nothing could be asked."
        raise section.error(None, problem, "Add columns.NAME = { type = … }.")
    if path is not None:
        # The unit is refused under either name, that of this table and that of the data set.
        hidden = {unit.casefold()} if unit else set()
        hidden |= set() if path.hops else {path.column.casefold()}
        for column in columns:
            if column.casefold() in hidden:
                problem = f"'{column}' is the protected unit and cannot be a column."
                hint = f"Delete the line; COUNT(DISTINCT {column}) and joins on it work without."
                raise declared.error(column, problem, hint)
    table = Table(
        name=name,
        columns=columns,
        public=public,
        unit=path,
        max_rows=section.whole("max_rows", 1, maximum=MAX_ROWS, hint=MORE_ROWS),
        max_groups=section.whole("max_groups", 1, maximum=MAX_GROUPS, hint=MORE_GROUPS),
        beyond=_beyond(section) if "beyond" in section.values else (),
    )
    if path is None and not public and (table.max_rows, table.max_groups) != (1, 1):
        key = "max_rows" if table.max_rows > 1 else "max_groups"
        problem = f"every row of {name} is a unit of its own, so {key} is 1."
        raise section.error(key, problem, "Leave it out, or say the unit.")
    if "keep" in section.values:
        log.warning(
            "%s.keep is no longer used: delete the line, and the directory hush.kept, which holds copies of rows; "
            "a large CSV file is read faster as parquet",
            section.name,
        )
    rows = section.whole("rows", 1, maximum=10**12, hint=_ROWS_HINT) if "rows" in section.values else None
    return SourceTable(source=source, table=table, reading=_reading(section), rows=rows)


def _beyond(table: Section) -> tuple[Beyond, ...]:
    """Return the estimates of rows beyond the limits that a table of the policy records."""
    estimates = table.values["beyond"]
    if not isinstance(estimates, list) or not all(isinstance(estimate, Mapping) for estimate in estimates):
        raise table.wrong("beyond", "a list of estimates", _BEYOND_EXAMPLE)
    read = []
    for values in estimates:
        section = Section(table.document, (*table.path, "beyond"), values)
        section.only(_BEYOND_KEYS)
        by = section.text("by")
        key = "max_rows" if by is None else "max_groups"
        if set(values) - {"by"} != {key, "share", "error", "receipt", "when"}:
            problem = f"{section.name} must say {key}, share, error, receipt and when."
            raise table.error("beyond", problem, _BEYOND_EXAMPLE)
        share, error = (
            section.number(name, "a number from 0 to 1", lambda part: 0 <= part <= 1) or Fraction(0)
            for name in ("share", "error")
        )
        try:
            when = dt.date.fromisoformat(str(values["when"])).isoformat()
        except ValueError:
            raise section.wrong("when", "a date", _BEYOND_EXAMPLE) from None
        limit = section.whole(key, 1, maximum=MAX_ROWS, hint=_BEYOND_EXAMPLE)
        receipt = section.text("receipt") or ""
        read.append(Beyond(by=by, limit=limit, share=share, error=error, receipt=receipt, when=when))
    return tuple(read)


def _reading(section: Section) -> Mapping[str, Any]:
    """Return the declared format of a table's file."""
    reading = {key: section.values[key] for key in READING if key in section.values}
    for key, allowed in (("separator", SEPARATORS), ("decimal", DECIMALS)):
        words = f"one of {', '.join(map(json.dumps, allowed))}"
        if not section.holds(key, good=reading.get(key, ",") in allowed, allowed=words):
            del reading[key]
    codec, hint = text_encoding(reading.get("encoding", "utf-8")), f"Such as {ENCODINGS}."
    if not section.holds("encoding", good=codec is not None, allowed="a name of one", hint=hint):
        del reading["encoding"]
    section.flag("quotes", default=True)
    section.text("timezone", hint='Write for instance timezone = "Europe/Berlin".')
    return MappingProxyType(reading)


def _budget(section: Section) -> Budget:
    inner = section.section("budget")
    inner.only(("epsilon", "delta"))
    if inner.values.get("epsilon", "") == "":
        hint = 'Decide how much may be learned. Write for instance budget = { epsilon = "1", delta = "1e-7" }.'
        inner.document.note(inner.error("epsilon", f"{inner.name}.epsilon is still empty.", hint))
        return Budget(epsilon=1)
    allowed = "a positive number of at most 1e100"
    epsilon = inner.number("epsilon", allowed, lambda number: 0 < number <= LARGEST_EPSILON)
    delta = inner.number("delta", "a number of at least 0 and below 1", lambda number: 0 <= number < 1)
    return Budget(epsilon=epsilon or 1, delta=delta or 0)


def _analyst(name: str, section: Section, data: Sequence[str]) -> Analyst:
    section.only(("data", "budget", "allowance", "ask_first"))
    data_sets = section.values.get("data")
    if not isinstance(data_sets, list) or not data_sets or not all(isinstance(each, str) for each in data_sets):
        raise section.wrong("data", "a list of data sets", f'Write data = ["{next(iter(data))}"].')
    for index, named in enumerate(data_sets):
        if named not in data:
            problem = f"{section.name}.data names '{named}', which is no data set."
            hint = did_you_mean(named, data, otherwise=f"There are {', '.join(data)}.")
            raise section.document.error((*section.path, "data", str(index)), problem, hint)
    budget = _budget(section) if "budget" in section.values else None
    allowance = ask_first = None
    if "allowance" in section.values:
        inner = section.section("allowance")
        inner.only(("epsilon", "every"))
        try:
            allowance = Allowance(epsilon=inner.values.get("epsilon", ""), every=inner.values.get("every", ""))
        except InvalidValueError as error:
            example = 'Write for instance allowance = { epsilon = "1", every = "month" }.'
            raise inner.wrong(error.parameter, error.allowed, example) from None
    if "ask_first" in section.values:
        inner = section.section("ask_first")
        inner.only(("epsilon",))
        if "epsilon" not in inner.values:
            raise inner.error(None, f"{inner.name} needs an epsilon.", 'Write ask_first = { epsilon = "0.5" }.')
        ask_first = inner.number("epsilon", "a number of at least 0", lambda number: number >= 0)
    return Analyst(name, tuple(dict.fromkeys(data_sets)), budget, allowance, ask_first)
