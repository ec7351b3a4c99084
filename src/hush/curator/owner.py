"""For the owner: data that no policy names yet, whether a policy can be used, and how much its bounds cut.

**New tables** (`NewTable`) are what `hush init` and the page's first steps see: tables, columns, first rows. What is
proposed of how a CSV file is written comes from its first line, which has names and is no row.

**Checks.** `check` reads the policy and the schemas of its sources, and no rows. With ``rows`` it also counts how many
rows and cells cannot be read as the policy says. Those numbers are exact, so they are told the owner alone: they are
neither logged nor stored, and nothing that an analyst may run returns them.

**Bounds.** A unit counts with at most ``max_rows`` rows in a group and in at most ``max_groups`` groups. What it has
beyond is weighted down or dropped, and no error bar speaks of that. How much it is depends on the rows, so it has a
price. Two questions with half of ε each are asked, over one row per unit with the number n of its rows (or of its
groups):

1. how many units have n in each of some eighty classes, 1 to 8, 10, 12, 14, 16, 20, … A unit is in one class, so noise
   of one scale protects all of them. The *proposal* is the least class that so many units (95 %) do not exceed, a
   private quantile. The last class that stands out of its noise says up to which M numbers are worth counting;
2. Σ min(n, limit) and Σ min(max(n - limit, 0), M - limit). The second over both is the *share beyond the bound*, with
   the error bar that ratios have. Where a unit has more than M, what it has beyond M is not counted.

The noise of a sum of clipped numbers grows with where they are clipped, and what is lost shrinks: at the best bound
about 1/ε units lie beyond it (Amin, Kulesza, Munoz Medina, Vassilvitskii 2019). So a proposal is a place to start from.

What comes out is public, and an owner may write it into the policy (``beyond = […]``, `Bounding.policy`): then the
notes of answers say it, as long as the limit is the one it was estimated for. It decides no noise.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.core import HushError, InvalidValueError, positive
from hush.core.errors import shown
from hush.core.format import ToldInLines, decimal
from hush.core.numbers import fraction_between
from hush.curator.answer import Answer, Money
from hush.curator.catalogue import DescribedTables, in_quotes
from hush.curator.data_sets import (
    located,
    missing_columns,
    open_server_tables,
    open_source,
    schema_types,
    shared,
)
from hush.curator.terms import BoundingTerms
from hush.engines.errors import SourceError
from hush.engines.registry import (
    CSV,
    Source,
    count_unread,
    declared_columns,
    first_rows,
    format_of,
    inner_tables,
    is_server,
    open_sources,
    open_tables,
    proposed_encoding,
    proposed_separator,
    proposed_timezone,
    server_tables,
    table_name,
)
from hush.policy.draft import DraftTable
from hush.policy.file import DataSet, Policy
from hush.policy.ledger import STREAMS_KEY, streams_of
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.schema import Beyond, Schema, Table

if TYPE_CHECKING:
    from hush.engines.registry import Rights, Unread
    from hush.query.builder import Asker

PREVIEW = 5
"""How many rows an owner sees of a new table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable(DraftTable):
    """A table that no policy names yet."""

    file: Source | None = None
    """Where its rows are; None for a table of a server."""

    @property
    def csv(self) -> bool:
        """Whether it is a CSV file."""
        return self.file is not None and self.file.format in CSV

    def preview(self) -> list[list[str]]:
        """Return the first rows as texts. They are for the owner alone, who has the file."""
        return [] if self.file is None else first_rows(self.file, self.name, PREVIEW)


def table_files(folder: Path) -> list[str]:
    """Return the names of the table files in a folder, by their endings."""
    return sorted(file.name for file in folder.iterdir() if format_of(file) is not None and file.is_file())


def tables_of_files(
    files: Iterable[Path], words: Mapping[str, str], *, places: Mapping[Path, str] | None = None
) -> list[NewTable]:
    """Return the tables in files; ``words`` say how text files are written, and what they leave out is proposed.

    ``places`` has what a policy calls a file, where that is not its path.
    """
    sources: dict[str, Source] = {}
    tables: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in files:
        reading = _reading(path, words)
        written = (places or {}).get(path, str(path))
        inside: list[str | None] = [*inner_tables(path)]
        for inner in inside or [None]:
            name = inner or table_name(path)
            source = f"{written}#{inner}" if inner else written
            if name in tables:
                raise InvalidValueError(
                    "FILE",
                    got=f"{tables[name][0]} and {source}",
                    allowed=f"tables of different names, and these are both called {name}",
                    hint="Rename one of them, or name the files that are meant.",
                )
            tables[name], sources[name] = (source, dict(reading)), replace(Source.of(path, **reading), table=inner)
    described = []
    with open_sources(sources) as opened:
        for name, (source, reading) in tables.items():
            file = sources[name]
            columns = schema_types(file, name, opened.types[name])
            if "TIMESTAMP WITH TIME ZONE" in columns.values():
                reading.setdefault("timezone", proposed_timezone(file))
            described.append(
                NewTable(name=name, source=source, columns=columns, untyped=file.untyped, reading=reading, file=file)
            )
    return described


def _reading(path: Path, words: Mapping[str, str]) -> dict[str, Any]:
    source = Source.of(path)
    timezone = {key: word for key, word in words.items() if key == "timezone"}
    if source.format not in CSV:
        return timezone
    encoding = words.get("encoding") or proposed_encoding(path)
    separator = source.separator
    if source.format == "csv":
        separator = words.get("separator") or proposed_separator(Source.of(path, encoding=encoding))
    reading = {} if separator == source.separator else {"separator": separator}
    decimal = words.get("decimal") or ("," if separator == ";" else ".")
    return {**reading, "encoding": encoding, "decimal": decimal, **timezone}


def tables_of_server(address: str) -> list[NewTable]:
    """Return the tables of a database server that its role may read."""
    places = server_tables(address)
    with open_tables(address, places) as opened:
        types = opened.types
    return [NewTable(name=name, source=origin, columns=types[name]) for name, origin in places.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A word of the policy with which more of a table can be read."""

    data: str
    table: str
    column: str | None
    """The column that it is for; None for a word about the file."""
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key} = {json.dumps(self.value, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check: mistakes, tables, unreadable cells and notes."""

    mistakes: tuple[HushError, ...]
    tables: Mapping[str, tuple[str, ...]]
    """The tables of each data set."""
    unread: Mapping[tuple[str, str], Unread] = field(default_factory=dict)
    """The numbers of unreadable rows and cells of each table, if asked for. Exact facts about rows."""
    seen: DescribedTables = field(default_factory=lambda: DescribedTables(()))
    """The tables as an analyst will see them."""
    notes: tuple[str, ...] = ()
    """Remarks for the owner that are no mistakes."""
    proposals: tuple[Proposal, ...] = ()
    """What to write in place of words with which a column cannot be read; found out from rows."""


def check(path: str | Path, *, rows: bool = False) -> Checked:
    """Return every mistake in a policy and its sources' schemas; with ``rows`` also the number of unreadable cells."""
    from hush.policy.streams import mistake_in_sql
    from hush.query.sql import parse

    mistakes: list[HushError] = []
    try:
        policy = Policy.read(path, mistakes=mistakes)
    except HushError as error:
        return Checked(mistakes=(*mistakes, error), tables={})
    unread: dict[tuple[str, str], Unread] = {}
    schemas: list[Schema] = []
    for data in policy.data.values():
        schema = policy.schema(data.name)
        if is_server(data.engine):
            try:
                with open_server_tables(policy, data) as server:
                    missing = list(missing_columns(policy, schema, server.types))
                    mistakes += missing
                    counts = server.unread(schema) if rows and not missing else {}
                    unread |= {(data.name, name): count for name, count in counts.items()}
            except HushError as error:
                mistakes.append(error)
            continue
        sources: dict[str, Source] = {}
        stored: dict[str, Mapping[str, str]] = {}
        for name in data.tables:
            try:
                sources[name] = open_source(policy, data, name)
                with open_sources({name: sources[name]}, {name: declared_columns(schema, name)}) as opened:
                    stored[name] = opened.types[name]
            except SourceError as error:
                mistakes.append(error if name not in sources else located(error, policy, data, name))
        types = {name: schema_types(sources[name], name, columns) for name, columns in stored.items()}
        mistakes += missing_columns(policy, schema, stored)
        schemas.append(policy.schema(data.name, types))
        for name, declared in policy.streams.items():
            if declared.data == data.name:
                try:
                    parse(declared.question, schemas[-1], (), "duckdb")
                except QuestionError as error:
                    mistakes.append(mistake_in_sql(policy.document, name, error))
        if rows:
            for name in stored:
                with suppress(HushError):  # told above, or by opening it
                    unread[data.name, name] = count_unread(schemas[-1], name, sources[name])
    proposals: list[Proposal] = []
    for (of, name), count in unread.items():
        mistakes += _row_mistakes(policy, policy.data[of], name, count, proposals)
    mistakes += shared(policy)
    mistakes.sort(key=lambda mistake: int((re.match(r".*?:(\d+): ", str(mistake)) or ("", "0"))[1]))  # by line
    notes: tuple[str, ...] = ()
    folder = streams_of(policy, "").parent
    if not os.environ.get(STREAMS_KEY) and any(folder.glob("*/*.stream")):
        warning = f"Streams keep exact numbers in {folder.name}, which are not encrypted."
        notes = (f"{warning} To encrypt them, name a file of 32 random bytes outside this folder in {STREAMS_KEY}.",)
    return Checked(
        mistakes=tuple(mistakes),
        tables={name: tuple(data.tables) for name, data in policy.data.items()},
        unread=unread,
        seen=DescribedTables(schemas),
        notes=notes,
        proposals=tuple(proposals),
    )


def _row_mistakes(
    policy: Policy, data: DataSet, name: str, counts: Unread, proposals: list[Proposal]
) -> Iterator[HushError]:
    """Yield the mistakes that show in the rows of a table, and add what to write instead to the proposals."""
    section = ("data", data.name, "tables", name)
    where = f"data.{data.name}.tables.{name}"

    def proposed(options: Sequence[tuple[str, str]], label: str) -> str:
        columns = [label if key == "format" else None for key, _ in options]  # all other words are about the file
        words = [
            Proposal(data=data.name, table=name, column=column, key=key, value=value)
            for column, (key, value) in zip(columns, options, strict=True)
        ]
        proposals.extend(proposal for proposal in words[:1] if proposal not in proposals)
        return " or ".join(map(str, words))

    if counts.shared_keys:
        yield policy.document.error(
            section,
            f"{where}: other tables find their unit by a key that several units share.",
            "A row behind such a key counts for each of them, and is protected less. Make the key unique.",
        )
    if counts.encoding:
        words = proposed([("encoding", counts.encoding)], "")
        yield policy.document.error(
            (*section, "encoding"), f"{where}: the file is not in the encoding that is declared.", f"Write {words}."
        )
    lines = counts.lines
    if lines is not None and 2 * max(lines.short, lines.long) > counts.rows:
        few = "few" if lines.short > lines.long else "many"
        yield policy.document.error(
            (*section, "separator"),
            f"{where}: {max(lines.short, lines.long)} of {counts.rows} rows have too {few} fields.",
            "Write what stands between the fields of the first line as separator. Where that stands inside of fields, "
            "too, as a decimal comma may, store the file with another.",
        )
    if counts.rows and counts.without_unit == counts.rows:
        yield policy.document.error((*section, "unit"), f"{where}: no row has a unit.", "Is it another column?")
    for label, cells in counts.cells.items():
        if not cells.mistaken:
            continue
        type_ = data.tables[name].table.columns[label]
        kind = f"a listed {type_.kind.value}" if type_.values is not None else type_.kind.value
        problem = f"{where}.columns.{label}: {cells.unread} of {cells.filled} cells cannot be read as {kind}."
        if cells.proposals:
            best = cells.others[cells.proposals[0]]
            hint = f"Write {proposed(cells.proposals, label)}, which reads {best} of {cells.filled}."
        elif type_.values is not None:
            hint = "Compare how its values are spelt there, capitals too."
        else:
            hint = "Look at some of them: is it of another type?"
        yield policy.document.error((*section, "columns", label), problem, hint)


def rights(policy: Policy, data: DataSet) -> Rights:
    """Return the rights of a data set's role in its database, beside those that hush needs."""
    schema = policy.schema(data.name)
    with open_server_tables(policy, data) as opened:
        needed = {}
        for name in data.tables:
            columns, declared = opened.types[name], declared_columns(schema, name)
            needed[name] = list(dict.fromkeys(declared or columns))
        return opened.rights(needed)


# how much bounding cuts

QUANTILE = Fraction(19, 20)
_CLASSES = tuple(sorted({part * 2**k // 4 for k in range(20) for part in (4, 5, 6, 7)} - {0} | {2**20}))
_STANDS_OUT = 2
"""A class is occupied if its count exceeds this many half-widths plus 3 units."""
_GAP = 8
"""The search ends after this many empty classes in a row, two octaves: later ones may seem occupied by noise alone."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bounding(ToldInLines):
    """An estimate of how many rows, or groups, units have, and of the share beyond a bound."""

    table: str
    by: str | None
    """The column that makes the groups; None for rows."""
    limit: int
    """The bound of the policy."""
    share: float
    """The part of rows (or groups) beyond the bound."""
    error: float | None
    """The half-width of the share; None if nothing is known."""
    proposal: int
    """The proposed bound: the least class that the given quantile of the units does not exceed."""
    quantile: Fraction
    most: int
    """The number of rows, or groups, of a unit up to which the share beyond the bound is counted."""
    units: tuple[tuple[int, int, float], ...]
    """(up to, number of units, half-width) by class."""
    confidence: float
    price: Money
    receipts: tuple[str, ...]
    when: str

    @property
    def beyond(self) -> Beyond | None:
        """The estimate as a policy states it; None where it is too uncertain."""
        # a share lies between 0 and 1, so a wider error bar says nothing
        if self.error is None or self.error > 0.9:
            return None
        share = Fraction(f"{max(self.share, 0.0):.6g}")
        error = Fraction(f"{1.01 * (self.error + 1e-6):.3g}")  # no less than it is, and what rounding the share adds
        receipt = ", ".join(self.receipts)
        return Beyond(
            by=self.by, limit=self.limit, share=min(share, Fraction(1)), error=error, receipt=receipt, when=self.when
        )

    def policy(self) -> str:
        """Return the line of a policy that tells analysts this estimate."""
        excess = self.beyond
        if excess is None:
            return ""
        by = "" if excess.by is None else f'by = "{excess.by}", '
        return (
            f'beyond = [{{ {by}{excess.key} = {excess.limit}, share = "{decimal(excess.share)}", '
            f'error = "{decimal(excess.error)}", receipt = "{excess.receipt}", when = "{excess.when}" }}]'
        )

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content |= {"quantile": decimal(self.quantile), "units": [list(row) for row in self.units]}
        return content | {"price": self.price.to_json(), "receipts": list(self.receipts), "policy": self.policy()}

    def lines(self) -> list[str]:
        """Return the estimate line by line."""
        noun, key = ("rows", "max_rows") if self.by is None else (f"groups by {self.by}", "max_groups")
        share = "anything" if self.beyond is None else self.beyond.percent
        upto = f"; what a unit has beyond {self.most} is not counted" if self.most < _CLASSES[-1] else ""
        lines = [
            f"{noun} beyond {key} = {self.limit}: {share}{upto}",
            f"proposal: {key} = {self.proposal}, which {100 * float(self.quantile):g}% of the units do not exceed",
            f"± at {100 * self.confidence:g}% confidence; price {self.price}; receipts {', '.join(self.receipts)}",
        ]
        if self.beyond is not None:
            lines.append(f"to let the notes of answers say so, write under the table in the policy: {self.policy()}")
        return lines


def estimate(asker: Asker, schemas: Sequence[Schema], terms: BoundingTerms) -> tuple[Schema, Bounding]:
    """Ask how much the bounds of a table cut; return the schema that has the table, and the estimate."""
    table, by, price = terms.table, terms.by, positive(terms.epsilon, "epsilon")
    schema = next((schema for schema in schemas if table in schema.tables), None)
    if schema is None:
        private = [name for schema in schemas for name, relation in schema.tables.items() if not relation.public]
        raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), private))
    level = QUANTILE if terms.quantile is None else fraction_between(terms.quantile, "quantile")
    unit, limit = _bound(schema, schema.tables[table], by)
    number = "COUNT(*)" if by is None else f"COUNT(DISTINCT {in_quotes(by)})"
    # a question like an analyst's: parsed and checked like any, never executed as it is written
    rows = f"(SELECT {number} AS n FROM {in_quotes(table)} GROUP BY {in_quotes(unit)})"  # noqa: S608
    # one class per unit, so that noise of one scale protects all classes
    classes = " ".join(f"WHEN n <= {upto} THEN {upto}" for upto in _CLASSES[:-1])
    classes = f"CASE {classes} ELSE {_CLASSES[-1]} END"
    counted: Answer = asker.ask(
        f"SELECT k, COUNT(*) AS units FROM (SELECT {classes} AS k FROM {rows}) GROUP BY k",  # noqa: S608
        epsilon=price / 2,
        data=schema.data,
    )
    units = tuple((int(row["k"]), int(row["units"]), float(row["units_error"])) for row in counted.rows())
    top_class = _last(units, limit)
    base, over = f"SUM(CLIP(n, 0, {limit}))", f"SUM(CLIP(n - {limit}, 0, {top_class - limit}))"
    part_beyond = f"SELECT {over} / ({over} + {base}) AS share FROM {rows}"  # noqa: S608
    shares: Answer = asker.ask(part_beyond, epsilon=price / 2, data=schema.data)
    (row,) = shares.rows()
    return schema, Bounding(
        table=table,
        by=by,
        limit=limit,
        share=float("nan") if row["share"] is None else float(row["share"]),
        error=None if row["share"] is None else row["share_error"],
        proposal=proposed(units, level),
        quantile=level,
        most=top_class,
        units=units,
        confidence=shares.confidence,
        price=Money(
            epsilon=counted.price.epsilon + shares.price.epsilon, delta=counted.price.delta + shares.price.delta
        ),
        receipts=(counted.receipt, shares.receipt),
        when=dt.datetime.now(dt.UTC).date().isoformat(),
    )


def proposed(units: tuple[tuple[int, int, float], ...], quantile: Fraction) -> int:
    """Return the least class that a given quantile of the units does not exceed.

    >>> proposed(((1, 50, 1.0), (2, 45, 1.0), (3, 5, 1.0)), Fraction(19, 20))
    2
    """
    everybody = sum(number for _, number, _ in units)
    upto = accumulate(number for _, number, _ in units)
    return next(
        last
        for (last, _, _), below in zip(units, upto, strict=True)
        if below >= quantile * everybody or last == units[-1][0]
    )


def _last(units: tuple[tuple[int, int, float], ...], limit: int) -> int:
    """Return the last class that stands out of its noise, or twice the limit."""
    # at least twice the limit, or rows just beyond it could not be counted
    last, gap = 2 * limit, 0
    for upto, number, error in units:
        occupied = number > _STANDS_OUT * error + 3
        last, gap = (max(last, upto), 0) if occupied else (last, gap + (upto > limit))
        if gap == _GAP:
            break
    return last


def _bound(schema: Schema, table: Table, by: str | None) -> tuple[str, int]:
    """Return the name of the unit, and the bound: ``max_groups`` where ``by`` is given, else ``max_rows``."""
    if table.public:
        private = [name for name, candidate in schema.tables.items() if not candidate.public]
        hint = did_you_mean(table.name, private, otherwise=f"Bounded are {', '.join(private)}.")
        raise QuestionError(f"The table {table.name!r} is public.", hint)
    if table.unit is None:
        raise QuestionError(f"Every row of {table.name!r} is a unit of its own.", "Nothing is bounded there.")
    if by is not None and by not in table.columns:
        raise QuestionError(
            f"The table {table.name!r} has no column {shown(by)}.", did_you_mean(str(by), table.columns)
        )
    return schema.unit or table.unit.column, table.max_rows if by is None else table.max_groups
