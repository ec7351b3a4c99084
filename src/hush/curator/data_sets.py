"""The data sets of a policy, opened: checks of their sources and columns, and that no rows are read by two tables.

What is not right is reported with the policy's line. A table's columns are its schema, not its rows; those of a JSON
file, which has none, are what the policy says.

**One file, one table.** Two data sets that read one file would each spend a budget on the same people. Two tables of
one data set that read one file would count them twice where both are asked, so that a row changes an answer by two
where one is declared. A file that is public in one place is not protected in another. All of these are refused,
whatever the paths look like (`hush.engines.duckdb.sources`); only public tables may share a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from hush.core import HushError
from hush.core.storage import SEPARATORS
from hush.engines.errors import SourceError
from hush.engines.registry import (
    OpenSources,
    Source,
    SqlEngine,
    declared_columns,
    is_server,
    open_engine,
    open_sources,
    open_tables,
    overlap,
)
from hush.policy.columns import kind_of
from hush.policy.file import DataSet, Policy
from hush.query.errors import did_you_mean
from hush.query.question import fingerprint
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.engines.registry import ServerConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDataSet:
    """One data set, ready to be asked about."""

    schema: Schema
    engine: SqlEngine
    identity: str = ""
    """The fingerprint of name, declared version and places of the tables; it depends on no row."""
    places: Mapping[str, object] = field(default_factory=dict)
    """Where each table's rows are and how they are read; a new version of the data leaves it as it is."""
    share: bool = False
    """Whether analysts get each other's answers."""
    public: Mapping[str, Source] = field(default_factory=dict)
    """Where the rows of public tables are."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """How many rows tables have, as far as the owner declares it. Public."""


def open_data_set(
    policy: Policy, data: DataSet, *, memory: str = "", threads: int | None = None, timeout: float | None = None
) -> OpenDataSet:
    """Return a data set, ready to be asked about; memory, threads and seconds of a statement limit the engine.

    Without ``timeout`` the policy's ``time_limit`` holds.
    """
    timeout, scheme = data.time_limit if timeout is None else timeout, data.engine.partition("://")[0]
    sources: dict[str, Source] = {}
    opened: OpenSources | ServerConnection
    schema = policy.schema(data.name)
    if is_server(data.engine):
        opened = open_server_tables(policy, data, timeout)
    elif data.engine == "duckdb":
        sources = {name: open_source(policy, data, name) for name in data.tables}
        try:
            declared = {name: declared_columns(schema, name) for name in sources}
            opened = open_sources(sources, declared, memory=memory, threads=threads)
        except SourceError as error:
            raise located(error, policy, data, error.table) from None
    else:
        raise policy.document.error(
            ("data", data.name, "engine"),
            f"there is no engine {scheme!r} yet.",
            'Use engine = "duckdb", "postgresql://user@host/database", or Spark\'s "local[*]" or "sc://host:15002".',
        )
    if (mistake := next(missing_columns(policy, schema, opened.types), None)) is not None:
        opened.close()
        raise mistake
    public, types = [name for name, table in schema.tables.items() if table.public], dict(opened.types)
    for name in public if sources else ():
        types[name] = schema_types(sources[name], name, opened.types[name])
    schema = policy.schema(data.name, types if sources else {name: types[name] for name in public})
    try:
        engine = open_engine(schema, opened, cache=data.cache, timeout=timeout)
    except SourceError as error:
        raise located(error, policy, data, error.table) from None
    # engines may write one unit's name differently; the rest of an address may contain a password
    places = {name: (table.source, table.reading) for name, table in data.tables.items()}
    return OpenDataSet(
        schema=schema,
        engine=engine,
        identity=fingerprint(data.name, data.version, places),
        places={name: (scheme, *source) for name, source in places.items()},
        share=data.share,
        public={name: sources[name] for name in public if name in sources},
        sizes={name: table.rows for name, table in data.tables.items() if table.rows is not None},
    )


def open_server_tables(policy: Policy, data: DataSet, timeout: float | None = None) -> ServerConnection:
    """Open the tables of a data set that lies in a server."""
    for name, table in data.tables.items():
        if table.reading:
            key = next(iter(table.reading))
            raise policy.document.error(
                ("data", data.name, "tables", name, key), f"a table of a database has no {key}.", "Delete this line."
            )
    try:
        schema, tables = policy.schema(data.name), {name: table.source for name, table in data.tables.items()}
        declared = {name: declared_columns(schema, name) for name in tables}
        seconds = data.time_limit if timeout is None else timeout
        return open_tables(data.engine, tables, declared, directory=policy.directory, timeout=seconds)
    except SourceError as error:
        if error.table is None:
            raise SourceError(f"{policy.document.place(('data', data.name, 'engine'))}: {error}") from None
        raise located(error, policy, data, error.table) from None


def open_source(policy: Policy, data: DataSet, name: str) -> Source:
    """Return where a table's rows are, as the policy says."""
    table = data.tables[name]
    try:
        return Source.of(str(policy.directory / table.source), **table.reading)
    except SourceError as error:
        raise located(error, policy, data, name) from None


def located(error: SourceError, policy: Policy, data: DataSet, table: str | None) -> SourceError:
    """Return an error about a source, with the line of the policy that names it."""
    key = ("tables",) if table is None else ("tables", table, "source")
    return SourceError(f"{policy.document.place(('data', data.name, *key))}: {error}", table=table)


# columns


def schema_types(source: Source, table: str, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the column types of a source's schema; ``stored`` are the types in the engine, used where it has none.

    SQLite declares types and does not enforce them, so its values are held as text and forced into what is declared.
    """
    declared = source.declared_types(table)
    return {name: word if kind_of(word := declared.get(name, "")) else sql_type for name, sql_type in stored.items()}


def untyped_columns(source: Source, table: str, stored: Mapping[str, str]) -> set[str]:
    """Return the columns that are text only because the source's schema declares no type for them.

    Those are also the empty ones of frames of Python objects, which an engine takes to hold nothing but NULL.
    """
    if source.untyped:
        return set(stored)
    empty = {name for name, sql_type in stored.items() if sql_type.strip('"') == "NULL"}
    declared = source.declared_types(table)
    return {name for name in stored if not kind_of(declared.get(name, ""))} if source.format == "sqlite" else empty


def missing_columns(policy: Policy, schema: Schema, stored: Mapping[str, Mapping[str, str]]) -> Iterator[SourceError]:
    """Yield an error for every column that the policy names and its table does not have."""
    for name, table in schema.tables.items():
        section = ("data", schema.data, "tables", name)
        references: list[tuple[tuple[str, ...], str, str]]
        references = [((*section, "columns", column), name, column) for column in table.columns]
        if table.unit is not None and table.unit.hops:
            hop = table.unit.hops[0]  # what follows is the other table's own way
            references += [((*section, "unit"), name, hop.column), ((*section, "unit"), hop.table, hop.key)]
        elif table.unit is not None:
            references.append(((*section, "unit"), name, table.unit.column))
        for key, holder, column in references:
            columns = stored.get(holder)
            if columns is not None and column not in columns:
                hint = did_you_mean(column, columns, otherwise=f"It has {', '.join(list(columns)[:20])}.")
                separators = [mark for mark in SEPARATORS if mark in next(iter(columns), "")]
                if len(columns) == 1 and separators:
                    hint = f"Its first line is {next(iter(columns))!r}: write separator = {json.dumps(separators[0])}."
                if key[-1] == "unit" and key not in policy.document.lines:
                    key = ("data", schema.data, "unit")  # noqa: PLW2901
                location = policy.document.place(key)
                yield SourceError(f"{location}: table {holder!r} has no column {column!r}. {hint}", table=holder)


# one file, one table


class TableRows(NamedTuple):
    """A table of a data set, and where its rows are."""

    data: str
    table: str
    place: Source | tuple[str, str]
    """A source; or the address of a server and the name of the table there."""
    public: bool


def refuse_sharing(policy: Policy) -> None:
    """Refuse a policy that reads one file under two names; files that cannot be read are reported elsewhere."""
    for mistake in shared(policy):
        raise mistake


def shared(policy: Policy) -> Iterator[HushError]:
    """Yield an error for every two tables of a policy that read the same rows."""
    tables = []
    for data in policy.data.values():
        for name, table in data.tables.items():
            place: Source | tuple[str, str] = (data.engine, table.source.strip().removeprefix("public."))
            with suppress(SourceError):
                place = place if is_server(data.engine) else Source.of(str(policy.directory / table.source))
                tables.append(TableRows(data.name, name, place, table.table.public))
    for former, latter, why in twins(tables):
        rows, hint = "the same rows", "Name each table once: delete one of the two."
        if isinstance(former.place, Source):
            rows += "" if former.place.path is None else f" of {former.place.path.name}"
            hint = "Name each file once: delete one of the two tables, or let it read a file of its own."
        yield policy.document.error(
            ("data", latter.data, "tables", latter.table, "source"),
            f"table '{latter.table}' of {latter.data} reads {rows} as table '{former.table}' of {former.data}, {why}.",
            hint,
        )


def twins(tables: Iterable[TableRows]) -> Iterator[tuple[TableRows, TableRows, str]]:
    """Yield every two tables with the same rows that are not both public, and in words why that is refused."""
    for former, latter in combinations(tables, 2):
        if former.public and latter.public:
            continue
        if isinstance(former.place, Source) and isinstance(latter.place, Source):
            try:
                same = overlap(former.place, former.table, latter.place, latter.table)
            except SourceError:  # one file at least, of which nothing better is known
                same = True
        else:  # tables of servers are one as far as addresses and names tell
            same = former.place == latter.place
        if not same:
            continue
        why = "so they would have two budgets"
        if former.data == latter.data:
            why = "so they would count twice in a question about both"
        if former.public or latter.public:
            public = "former" if former.public else "latter"
            why = f"and the {public} is public, so nothing of them would be protected"
        yield former, latter, why
