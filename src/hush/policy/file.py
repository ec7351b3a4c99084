r"""The owner's policy, ``hush.toml``: tables, protected units, budgets for ever, and analysts.

Everything the analyst may know of a data set comes from here and nothing from its rows. A column without a line is
invisible. A mistake is reported with its line, and a key that nobody reads is a
mistake, so that a misspelt bound is never passed over.

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
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hush.core import MAX_DIGITS, HushError, InvalidValueError, Neighbours
from hush.core.errors import shown
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
from hush.ledger.budgets import LARGEST_EPSILON, Allowance
from hush.ledger.streams import StreamDeclaration
from hush.policy.columns import kind_of, plain_type, read_columns
from hush.policy.document import Document, PolicyError, Section, locate
from hush.policy.streams import SECTIONS, read_streams
from hush.policy.units import Header, UnitPaths, no_header
from hush.query.errors import QuestionError, did_you_mean
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.schema import Beyond, Schema, Table
from hush.query.types import Type

log = logging.getLogger("hush.curator")
MAX_SIZE = 10_000_000
_DATA_KEYS = ("engine", "cache", "time_limit", "unit", "neighbours", "budget", "version", "share", "tables")
_TABLE_KEYS = ("source", *READING, "rows", "public", "unit", "max_groups", "max_rows", "beyond", "columns")
_ROWS_HINT = "Write a round number that the table will not exceed, such as 1_000_000; everybody may know it."
MORE_ROWS = "Noise grows with it: write how many rows of one unit are typical; what is beyond is weighted down."
MORE_GROUPS = "Noise grows with it: write in how many groups one unit typically is; what is beyond is left out."
_VERSION_HINT = 'Write for instance version = "2026-06", and another one whenever the rows were replaced.'
_ENCODED = f"Such as {ENCODINGS}."
_BEYOND_KEYS = ("max_rows", "max_groups", "by", "share", "error", "receipt", "when")
_BEYOND_EXAMPLE = (
    'Copy the line that hush bounds prints: beyond = [{ max_rows = 3, share = "0.17", error = "0.02", … }].'
)
_TOML_PLACE = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBudget:
    """The ε and δ of everything that may ever be learned, as exact numbers."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of the policy: its source and its public schema."""

    source: str
    table: Table
    reading: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The declared format of the file: separator, encoding, decimal, quotes, timezone."""
    rows: int | None = None
    """A public estimate of the number of rows; a service derives from it when answers leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One protected data set: tables under one unit and one lifetime budget."""

    name: str
    engine: str
    cache: str
    """The memory that the engine may use to keep results and bounded rows for the next question."""
    unit: str | None
    neighbours: Neighbours
    budget: PolicyBudget
    tables: Mapping[str, SourceTable]
    version: str = ""
    """The owner's name for this state of the rows. Under a new name, no question counts as asked before."""
    time_limit: int = 600
    """The seconds that a statement of the engine may take."""
    share: bool = False
    """Whether analysts get each other's answers, where they ask the same: the data set then pays once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyst:
    """An analyst: data sets, own budget, allowance and limit without approval."""

    name: str
    data: tuple[str, ...]
    budget: PolicyBudget | None = None
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
    document: Document = field(default_factory=lambda: Document("hush.toml", MappingProxyType({})))
    """The lines of all keys, for errors that show up later."""

    @classmethod
    def read(cls, path: str | Path, *, mistakes: list[HushError] | None = None, header: Header = no_header) -> Policy:
        """Return the policy in a file.

        A list of ``mistakes`` collects all mistakes, if the file is TOML at all; the returned policy lacks those parts.
        ``header`` reads the names of a source's columns, to tell which of two words is misspelt.
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
        return cls.parse(text, file=str(path), directory=path.parent, mistakes=mistakes, header=header)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        file: str = "hush.toml",
        directory: Path | None = None,
        mistakes: list[HushError] | None = None,
        header: Header = no_header,
    ) -> Policy:
        """Return the policy in a text."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            match = _TOML_PLACE.search(str(error))
            problem = _TOML_PLACE.sub("", str(error)).strip() or "cannot be read"
            raise PolicyError(file, int(match.group(1)) if match else None, f"this is not TOML: {problem}.") from None
        except ValueError:  # Python's own limit, which tomllib lets out
            raise PolicyError(file, None, f"it has a whole number of more than {MAX_DIGITS:,} digits.") from None
        except RecursionError:
            raise PolicyError(file, None, "the file is nested too deeply.") from None
        return _policy(Section(Document(file, locate(text), mistakes), (), values), directory or Path(), header)

    def data_set(self, name: str) -> DataSet:
        """Return a data set by its name."""
        if name not in self.data:
            alternatives = f"There are {', '.join(self.data)}."
            raise QuestionError(
                f"There is no data set '{name}'.", did_you_mean(name, self.data, otherwise=alternatives)
            )
        return self.data[name]

    def schema(self, data: str, found: Mapping[str, Mapping[str, str]] | None = None) -> Schema:
        """Return everything that is public about a data set.

        ``found`` are the columns (name and SQL type) that an engine found. Public tables without declared columns use
        them; in private tables only the keys of unit paths are looked at.
        """
        data_set = self.data_set(data)
        tables = {}
        for name, source in data_set.tables.items():
            table = source.table
            if table.public and not table.columns and found and name in found:
                kinds = {column: kind_of(sql_type) for column, sql_type in found[name].items()}
                table = replace(
                    table,
                    columns={column: plain_type(kind) for column, kind in kinds.items() if kind},
                    unsupported={column: found[name][column] for column, kind in kinds.items() if not kind},
                )
            tables[name] = table
        schema = Schema(data=data, tables=tables, neighbours=data_set.neighbours, unit=data_set.unit)
        for name, table in tables.items():
            stored = {} if found is None or table.public else found.get(name, {})
            tables[name] = replace(table, keys=_undeclared_keys(schema, table, stored))
        return replace(schema, tables=tables)

    def analyst(self, name: str) -> Analyst:
        """Return an analyst by name."""
        if name not in self.analysts:
            alternatives = (
                f"There are {', '.join(self.analysts)}." if self.analysts else "The policy names no analysts."
            )
            raise QuestionError(
                f"There is no analyst '{name}'.", did_you_mean(name, self.analysts, otherwise=alternatives)
            )
        return self.analysts[name]


def _undeclared_keys(schema: Schema, table: Table, stored: Mapping[str, str]) -> dict[str, Type]:
    """Return the columns by which paths lead to units and that are not declared, as they are stored."""
    declared = {column.casefold() for column in table.columns}
    if table.unit is not None and not table.unit.hops:
        declared.add(table.unit.column.casefold())
    targets = schema.targets(table).keys() - declared
    kinds = {column: kind_of(sql_type) for column, sql_type in stored.items() if column.casefold() in targets}
    return {column: plain_type(kind) for column, kind in kinds.items() if kind}


def _policy(root: Section, directory: Path, header: Header) -> Policy:
    root.only(("data", "analysts", *SECTIONS, "ledger", "ledger_id"))
    document = root.document
    none: list[tuple[str, Section]] = []
    data_sections = document.tolerant(lambda: root.section("data").sections(), none)
    if not data_sections:
        raise root.error("data", "the policy has no data set.", "Start one with [data.NAME], or run: hush init FILE…")
    header_of = partial(_header, directory, header)
    data = document.each(data_sections, lambda name, section: _data_set(name, section, header_of))
    # Also data sets with mistakes: analysts who name one would else be told of a second mistake that is none.
    names = [name for name, _ in data_sections]
    people = document.tolerant(lambda: root.section("analysts").sections(), none)
    analysts = document.each(people, lambda name, section: _analyst(name, section, names))
    return Policy(
        data=MappingProxyType(data),
        analysts=MappingProxyType(analysts),
        streams=MappingProxyType(read_streams(root, dict(data_sections), analysts)),
        ledger=document.tolerant(lambda: root.text("ledger"), None),
        ledger_id=document.tolerant(lambda: root.text("ledger_id"), None),
        directory=directory,
        document=root.document,
    )


def _data_set(name: str, section: Section, header: Callable[[Section], Sequence[str]]) -> DataSet:
    section.only(_DATA_KEYS)
    tolerant = section.document.tolerant
    unit_hint = "Name the column that says whose row it is; delete the line only if every row is another person."
    unit = tolerant(lambda: section.text("unit", hint=unit_hint), None)
    neighbours = tolerant(lambda: _neighbours(section), Neighbours.ADD_REMOVE)
    budget = tolerant(lambda: _budget(section), PolicyBudget(epsilon=Fraction(1)))
    table_sections = section.section("tables").sections()
    if not table_sections:
        raise section.error(None, f"{section.name} has no tables.", f"Start one with [{section.name}.tables.NAME].")
    private = {
        key: table_section for key, table_section in table_sections if table_section.values.get("public") is not True
    }
    units = UnitPaths(unit, private, section, header)
    tables = section.document.each(table_sections, lambda key, table_section: _table(key, table_section, units))
    if not private:
        raise section.error("tables", f"all tables of {section.name} are public, so there is nothing to protect.")
    return DataSet(
        name=name,
        engine=tolerant(lambda: section.text("engine", "duckdb"), None) or "duckdb",
        cache=tolerant(lambda: _cache(section), DEFAULT_CACHE),
        unit=unit,
        neighbours=neighbours,
        budget=budget,
        tables=MappingProxyType(tables),
        version=tolerant(lambda: section.text("version", hint=_VERSION_HINT), None) or "",
        time_limit=tolerant(lambda: section.whole("time_limit", 600, maximum=604_800, hint="It counts seconds."), 600),
        share=tolerant(lambda: section.flag("share", default=False), default=False),
    )


def _header(directory: Path, header: Header, table: Section) -> Sequence[str]:
    """Return the column names of a table's source; empty if the policy does not name the source."""
    source = table.values.get("source")
    if not isinstance(source, str):
        return []
    return header(directory / source.strip(), {key: table.values[key] for key in READING if key in table.values})


def _neighbours(section: Section) -> Neighbours:
    try:
        return Neighbours.parse(section.values.get("neighbours", Neighbours.ADD_REMOVE.value))
    except InvalidValueError as error:
        raise section.error(
            "neighbours", f"{section.name}.neighbours must be {error.allowed}; got {shown(error.got)}."
        ) from None


def _cache(section: Section) -> str:
    cache = section.text("cache", DEFAULT_CACHE) or DEFAULT_CACHE
    try:
        parse_size(cache)
    except InvalidValueError as error:
        raise section.error("cache", f"{section.name}.cache must be {error.allowed}; got {shown(error.got)}.") from None
    return cache


def _table(name: str, section: Section, units: UnitPaths) -> SourceTable:
    section.only((*_TABLE_KEYS, "keep"))
    public = section.document.tolerant(lambda: section.flag("public", default=False), default=False)
    source = section.text("source")
    if source is None:
        raise section.error(None, f"{section.name} needs a source.", 'Write for instance source = "visits.parquet".')
    if "://" in source:
        raise section.error(
            "source", f"{section.name}.source must be a file; got {shown(source)}.", "Fetch it, and name the file."
        )
    if public:
        for key in ("unit", "max_groups", "max_rows", "beyond"):
            if key in section.values:
                raise section.error(
                    key, f"a public table has no {key}.", "Delete this line, or the one with public = true."
                )
    no_columns: dict[str, Type] = {}
    columns = section.document.tolerant(lambda: read_columns(section.section("columns")), no_columns)
    path = None if public else units.path(name)
    if not public and not section.values.get("columns"):
        raise section.error(
            None, f"{section.name} declares no columns, so nothing could be asked.", "Add columns.NAME = { type = … }."
        )
    if path is not None:
        # The unit is refused under either name, that of this table and that of the data set.
        hidden = {path.column.casefold()} if not path.hops else set()
        hidden |= {units.unit.casefold()} if units.unit else set()
        for column in columns:
            if column.casefold() in hidden:
                inside = section.section("columns")
                raise inside.error(
                    column,
                    f"'{column}' is the protected unit and cannot be a column.",
                    f"Delete the line; COUNT(DISTINCT {column}) and joins on it work without.",
                )
    table = Table(
        name=name,
        columns=columns,
        public=public,
        unit=path,
        max_rows=section.whole("max_rows", 1, maximum=MAX_ROWS, hint=MORE_ROWS),
        max_groups=section.whole("max_groups", 1, maximum=MAX_GROUPS, hint=MORE_GROUPS),
        beyond=_beyond(section),
    )
    if path is None and not public and (table.max_rows, table.max_groups) != (1, 1):
        key = "max_rows" if table.max_rows > 1 else "max_groups"
        raise section.error(
            key, f"every row of {name} is a unit of its own, so {key} is 1.", "Leave it out, or say the unit."
        )
    nothing: Mapping[str, Any] = MappingProxyType({})
    reading = section.document.tolerant(lambda: _reading(section), nothing)
    if "keep" in section.values:
        log.warning(
            "%s.keep is no longer used: delete the line, and the directory hush.kept, which holds copies of rows; "
            "a large CSV file is read faster as parquet",
            section.name,
        )
    rows = section.whole("rows", 1, maximum=10**12, hint=_ROWS_HINT) if "rows" in section.values else None
    return SourceTable(source=source, table=table, reading=reading, rows=rows)


def _beyond(section: Section) -> tuple[Beyond, ...]:
    """Return the estimates of rows beyond the limits that a table of the policy records."""
    estimates = section.values.get("beyond", [])
    if not isinstance(estimates, list) or not all(isinstance(estimate, Mapping) for estimate in estimates):
        raise section.error(
            "beyond", f"{section.name}.beyond must be a list of estimates; got {shown(estimates)}.", _BEYOND_EXAMPLE
        )
    return tuple(
        _estimate(section, Section(section.document, (*section.path, "beyond"), estimate)) for estimate in estimates
    )


def _estimate(table: Section, section: Section) -> Beyond:
    section.only(_BEYOND_KEYS)
    by = section.text("by")
    key = "max_rows" if by is None else "max_groups"
    if set(section.values) - {"by"} != {key, "share", "error", "receipt", "when"}:
        raise table.error("beyond", f"{section.name} must say {key}, share, error, receipt and when.", _BEYOND_EXAMPLE)
    share, error = (section.number(name, "a number from 0 to 1") for name in ("share", "error"))
    if share is None or error is None or not (0 <= share <= 1 and 0 <= error <= 1):
        raise table.error("beyond", f"{section.name} must have a share and an error from 0 to 1.", _BEYOND_EXAMPLE)
    try:
        when = dt.date.fromisoformat(str(section.values["when"])).isoformat()
    except ValueError:
        raise table.error(
            "beyond", f"{section.name}.when must be a date; got {shown(section.values['when'])}.", _BEYOND_EXAMPLE
        ) from None
    limit = section.whole(key, 1, maximum=MAX_ROWS, hint=_BEYOND_EXAMPLE)
    return Beyond(by=by, limit=limit, share=share, error=error, receipt=section.text("receipt") or "", when=when)


def _reading(section: Section) -> Mapping[str, Any]:
    """Return the declared format of a table's file."""
    for key, allowed in (("separator", SEPARATORS), ("decimal", DECIMALS)):
        value = section.values.get(key)
        if value is not None and value not in allowed:
            choices = ", ".join(map(json.dumps, allowed))
            raise section.error(key, f"{section.name}.{key} must be one of {choices}; got {shown(value)}.")
    encoding = section.values.get("encoding")
    if encoding is not None and text_encoding(encoding) is None:
        raise section.error(
            "encoding", f"{section.name}.encoding must be a name of one; got {shown(encoding)}.", _ENCODED
        )
    section.flag("quotes", default=True)
    section.text("timezone", hint='Write for instance timezone = "Europe/Berlin".')
    return MappingProxyType({key: section.values[key] for key in READING if key in section.values})


def _budget(section: Section) -> PolicyBudget:
    example = 'Write for instance budget = { epsilon = "1", delta = "1e-7" }.'
    if "budget" not in section.values:
        raise section.error(None, f"{section.name} needs a budget.", example)
    inner = section.section("budget")
    inner.only(("epsilon", "delta"))
    if "epsilon" not in inner.values:
        raise inner.error(None, f"{inner.name} needs an epsilon.", example)
    if inner.values["epsilon"] == "":
        raise inner.error(
            "epsilon", f"{inner.name}.epsilon is still empty.", f"Decide how much may be learned. {example}"
        )
    epsilon = inner.number("epsilon", "a positive number")
    delta = inner.number("delta", "a number of at least 0 and below 1") or Fraction(0)
    if epsilon is None or not 0 < epsilon <= LARGEST_EPSILON:
        raise inner.error(
            "epsilon",
            f"{inner.name}.epsilon must be a positive number of at most 1e100; got {shown(_raw(inner, 'epsilon'))}.",
        )
    if not 0 <= delta < 1:
        raise inner.error(
            "delta", f"{inner.name}.delta must be at least 0 and below 1; got {shown(_raw(inner, 'delta'))}."
        )
    return PolicyBudget(epsilon=epsilon, delta=delta)


def _allowance(section: Section) -> Allowance | None:
    example = 'Write for instance allowance = { epsilon = "1", every = "month" }.'
    if "allowance" not in section.values:
        return None
    inner = section.section("allowance")
    inner.only(("epsilon", "every"))
    try:
        return Allowance(epsilon=inner.values.get("epsilon", ""), every=inner.values.get("every", ""))
    except InvalidValueError as error:
        key = error.parameter if error.parameter in inner.values else None
        raise inner.error(key, f"{inner.name}.{error.parameter} must be {error.allowed}.", example) from None


def _ask_first(section: Section) -> Fraction | None:
    example = 'Write for instance ask_first = { epsilon = "0.5" }.'
    if "ask_first" not in section.values:
        return None
    inner = section.section("ask_first")
    inner.only(("epsilon",))
    epsilon = inner.number("epsilon", "a number of at least 0")
    if epsilon is None or epsilon < 0:
        raise inner.error("epsilon", f"{inner.name}.epsilon must be a number of at least 0.", example)
    return epsilon


def _raw(section: Section, key: str) -> Any:
    return section.values.get(key)


def _analyst(name: str, section: Section, data: Sequence[str]) -> Analyst:
    section.only(("data", "budget", "allowance", "ask_first"))
    data_sets = section.values.get("data")
    if (
        not isinstance(data_sets, list)
        or not data_sets
        or not all(isinstance(name_of_data, str) for name_of_data in data_sets)
    ):
        raise section.error(
            "data",
            f"{section.name}.data must be a list of data sets; got {shown(data_sets)}.",
            f'Write data = ["{next(iter(data))}"].',
        )
    for index, name_of_data in enumerate(data_sets):
        if name_of_data not in data:
            raise section.document.error(
                (*section.path, "data", str(index)),
                f"{section.name}.data names '{name_of_data}', which is no data set.",
                did_you_mean(name_of_data, data, otherwise=f"There are {', '.join(data)}."),
            )
    budget = _budget(section) if "budget" in section.values else None
    return Analyst(
        name=name,
        data=tuple(dict.fromkeys(data_sets)),
        budget=budget,
        allowance=_allowance(section),
        ask_first=_ask_first(section),
    )
