"""What the owner is told of sources before any question: which read the same rows, and what of them cannot be read.

**Two names for one file are one file** (`overlap`). A file is known by its device and inode: another spelling of its
path, a symbolic link and a hard link are the same. A table of a database is known by its file and its name, a view by
the tables that it is made of, and a frame in memory by the object. Copies are other files, and nothing here can tell
them.

**How many rows and cells of a source cannot be read as the policy says** (`count_unread`). Exact, so for the owner
alone. Nothing here goes into a log, a ledger or an answer: the numbers are facts about rows, and spend no budget
because nobody but the owner, who has the rows, is told. They say whether an encoding, a decimal mark or a type is
misdeclared: a column of which every cell is unread was not written as the policy believes.

>>> import pyarrow as pa
>>> frame = pa.table({"x": [1]})
>>> one, same, copy = Source.of(frame), Source.of(frame), Source.of(pa.table({"x": [1]}))
>>> overlap(one, "a", same, "b"), overlap(one, "a", copy, "b")
(True, False)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hush.core.values import dataclass
from hush.engines.duckdb.delimited import Tally
from hush.engines.duckdb.loading import said
from hush.engines.duckdb.other_programs import sheet_of
from hush.engines.duckdb.registering import OpenSources
from hush.engines.duckdb.sources import Source, declared_columns, inner_table
from hush.engines.errors import SourceError
from hush.engines.sql.build import Sql, binary, column, count, not_null
from hush.engines.sql.forcing import force
from hush.engines.sql.queries import read, select
from hush.query.schema import Schema
from hush.query.types import Kind, Type

_DATABASES = {"duckdb", "sqlite", "excel"}


def overlap(one: Source, name: str, other: Source, other_name: str) -> bool:
    """Return whether two sources read the same rows; the names are what their tables are called where nobody says."""
    if one.path is None or other.path is None:
        return one.frame is not None and one.frame is other.frame
    if not _inodes(one) & _inodes(other):
        return False
    if one.format not in _DATABASES or other.format not in _DATABASES:
        return True
    mine, theirs = _tables(one, name), _tables(other, other_name)
    return mine is None or theirs is None or bool(mine & theirs)


def _inodes(source: Source) -> set[tuple[int, int] | str]:
    """Return the files that a source reads."""
    return {_inode(path) for path in source.every_file}


def _inode(path: Path) -> tuple[int, int] | str:
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return status.st_dev, status.st_ino


def _tables(source: Source, usual: str) -> frozenset[str] | None:
    """Return the stored tables that a source reads, in lower case; None if that cannot be told."""
    assert source.path is not None  # noqa: S101 - the caller looked
    if source.format == "excel":
        return frozenset({sheet_of(source.path, source.table, usual).casefold()})
    read = _duckdb_tables if source.format == "duckdb" else _sqlite_tables
    try:
        return read(source.path, source.table, usual)
    except SourceError:
        raise
    except Exception as error:  # both raise errors of their own
        raise SourceError(f"{source.path.name} is not a database that can be read") from error


def _sqlite_tables(path: Path, table: str | None, usual: str) -> frozenset[str]:
    """Return what SQLite itself says that it reads, down to the stored tables."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    read: set[str] = set()

    def note(action: int, name: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and name is not None:
            read.add(name.casefold())
        return sqlite3.SQLITE_OK

    try:
        listed = connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        wanted = inner_table(path, [row[0] for row in listed], table, usual)
        connection.set_authorizer(note)
        quoted = '"' + wanted.replace('"', '""') + '"'
        connection.execute(f"SELECT * FROM {quoted} LIMIT 0")  # noqa: S608 - a quoted name
    finally:
        connection.close()
    views = {name.casefold() for name, kind in listed if kind == "view"}
    return frozenset({*read, wanted.casefold()} - views)


def _duckdb_tables(path: Path, table: str | None, usual: str) -> frozenset[str] | None:
    import duckdb

    with duckdb.connect(":memory:") as base:
        place = str(path).replace("'", "''")
        base.execute(f"ATTACH '{place}' AS base (READ_ONLY)")  # others in this process may have it open
        mine = "WHERE database_name = 'base' AND schema_name = 'main' AND NOT internal"
        tables = base.execute(f"SELECT table_name FROM duckdb_tables() {mine}").fetchall()  # noqa: S608
        made = base.execute(f"SELECT view_name, sql FROM duckdb_views() {mine}").fetchall()  # noqa: S608
        names = [row[0] for row in tables]
        wanted = inner_table(path, [*names, *(view for view, _ in made)], table, usual)
        views = {name.casefold(): sql for name, sql in made}
        stored: set[str] = set()
        waiting, seen = [wanted.casefold()], set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in views:
                stored.add(name)  # or what a part of a view is called there, which is no table of any source
                continue
            query = views[name].partition(" AS ")[2].rstrip("; ")
            tree = json.loads(base.execute("SELECT json_serialize_sql($1)", [query]).fetchall()[0][0])
            kinds = list(_origins(tree))
            if tree.get("error") or any(kind != "BASE_TABLE" for kind, _ in kinds):
                return None  # a function, which may read anything
            waiting += [origin for _, origin in kinds]
    return frozenset(stored)


def _origins(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield what a serialised query reads from: the kind, and of tables the name in lower case."""
    if isinstance(tree, dict):
        if tree.get("type") in {"BASE_TABLE", "TABLE_FUNCTION"}:
            yield tree["type"], str(tree.get("table_name", "")).casefold()
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _origins(branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What of one table cannot be read."""

    rows: int
    lines: Tally | None
    """How the lines of a text file were read."""
    cells: Mapping[str, int]
    """Cells of each declared column that hold something, and are NULL as its type or among its values."""
    without_unit: int | None
    """Rows without their unit; None where it is in another table, or every row is one."""


def count_unread(schema: Schema, name: str, source: Source) -> Unread:
    """Read a table whole, and count what cannot be read of it."""
    table = schema.tables[name]
    raw = replace(table, columns=dict.fromkeys(table.columns, Type(Kind.TEXT)))
    plain = replace(schema, tables={**schema.tables, name: raw})
    with OpenSources({name: source}, {name: declared_columns(plain, name)}) as opened:
        opened.register(plain)
        lines = opened.renew(name, plain) if source.lines else None
        types = opened.types[name]
        conditions: dict[str, Sql] = {}
        for label, type_ in table.columns.items():
            if label not in types:
                continue
            cell: Sql = column(label)
            written = said(cell, source, type_.kind) if types[label] == "VARCHAR" else cell
            forced = force(written, types[label], replace(type_, nullable=True)).sql
            conditions[label] = binary("AND", not_null(cell), Sql(f"({forced}) IS NULL"))
        unit = table.unit.column if table.unit is not None and not table.unit.hops else None
        if unit is not None and unit in types:
            conditions["\0"] = Sql(f"{column(unit)} IS NULL")
        counted = [count(), *(count(condition) for condition in conditions.values())]
        rows, *counts = opened.connection.execute(select(counted, read(opened.places[name], "t")).text).fetchall()[0]
    found = dict(zip(conditions, counts, strict=True))
    return Unread(rows=rows, lines=lines, without_unit=found.pop("\0", None), cells=found)
