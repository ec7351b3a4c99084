"""Checks of sources for their owner: which read the same rows, and how many cells cannot be read.

**Two names for one file are one file** (`overlap`). A file is known by its device and inode: another spelling of its
path, a symbolic link and a hard link are the same. A table of a database is known by its file and its name, a view by
the tables that it is made of, and a frame in memory by the object. Copies are other files, and nothing here can tell
them.

**How many rows and cells of a source cannot be read as the policy says** (`count_unread`). Exact, so for the owner
alone; `hush.engines.unread` says more.

>>> import pyarrow as pa
>>> frame = pa.table({"x": [1]})
>>> one, same, copy = Source.of(frame), Source.of(frame), Source.of(pa.table({"x": [1]}))
>>> overlap(one, "a", same, "b"), overlap(one, "a", copy, "b")
(True, False)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from hush.core.storage import DECIMALS
from hush.engines.duckdb.files import OpenSources
from hush.engines.duckdb.other_programs import sheet_of
from hush.engines.duckdb.session import text_of
from hush.engines.duckdb.sources import CSV, SQLITE_TABLES, Source, declared_columns, inner_table, sqlite_file
from hush.engines.duckdb.text_files import said, utf8_blocks
from hush.engines.errors import SourceError
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import EVERYTHING, Scalar, Select, TableName, read, select
from hush.engines.sql.relations import shared_key_counts
from hush.engines.unread import Tally, Unread, count_cells
from hush.query.schema import Schema
from hush.query.types import Kind, Type

_DATABASES = {"duckdb", "sqlite", "excel"}
_TABLES = """
SELECT table_name FROM duckdb_tables() WHERE database_name = 'base' AND schema_name = 'main' AND NOT internal
"""
_VIEWS = """
SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'base' AND schema_name = 'main' AND NOT internal
"""
_FIRST_OF_SEVERAL = 0xC0
"""The least byte with which a character of several bytes begins in UTF-8."""
_PARSED = "SELECT json_serialize_sql($1)"


def overlap(first: Source, first_name: str, second: Source, second_name: str) -> bool:
    """Return whether two sources read the same rows; the names are the defaults for their tables."""
    if first.path is None or second.path is None:
        return first.frame is not None and first.frame is second.frame
    if not _inodes(first) & _inodes(second):
        return False
    # a file that is no database is one table, so the same file is the same rows
    if first.format not in _DATABASES or second.format not in _DATABASES:
        return True
    mine, theirs = _tables(first, first_name), _tables(second, second_name)
    # what cannot be told counts as the same rows, to be on the safe side
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
    if source.format == "excel":
        return frozenset({sheet_of(source.file, source.table, usual).casefold()})
    read = _duckdb_tables if source.format == "duckdb" else _sqlite_tables
    try:
        return read(source.file, source.table, usual)
    except SourceError:
        raise
    except Exception as error:  # both raise errors of their own
        raise SourceError(f"{source.file.name} is not a database that can be read") from error


def _sqlite_tables(path: Path, table: str | None, usual: str) -> frozenset[str]:
    """Return the stored tables that SQLite reads for a table or view."""
    read: set[str] = set()

    def note(action: int, name: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and name is not None:
            read.add(name.casefold())
        return sqlite3.SQLITE_OK

    with sqlite_file(path) as connection:
        tables = dict(connection.execute(SQLITE_TABLES).fetchall())
        target = inner_table(path, list(tables), table, usual)
        # SQLite calls it for every table that a statement reads, when it is compiled: LIMIT 0 runs nothing
        connection.set_authorizer(note)
        connection.execute(text_of(replace(select([EVERYTHING], TableName(target)), limit=0)))
    views = {name.casefold() for name, kind in tables.items() if kind == "view"}
    return frozenset({*read, target.casefold()} - views)


def _duckdb_tables(path: Path, table: str | None, usual: str) -> frozenset[str] | None:
    import duckdb

    with duckdb.connect(":memory:") as base:
        base.execute(DUCKDB.attached(str(path), "base"))  # others in this process may have it open
        definitions = dict(base.execute(_VIEWS).fetchall())
        tables = [row[0] for row in base.execute(_TABLES).fetchall()]
        target = inner_table(path, [*tables, *definitions], table, usual)
        views = {name.casefold(): sql for name, sql in definitions.items()}
        stored: set[str] = set()
        waiting, visited = [target.casefold()], set[str]()
        while waiting:
            name = waiting.pop()
            # several views may read the same table or view
            if name in visited:
                continue
            visited.add(name)
            if name not in views:
                stored.add(name)  # or what a part of a view is called there, which is no table of any source
                continue
            query = views[name].partition(" AS ")[2].rstrip("; ")
            tree = json.loads(base.execute(_PARSED, [query]).fetchall()[0][0])
            kinds = list(_origins(tree))
            if tree.get("error") or any(kind != "BASE_TABLE" for kind, _ in kinds):
                return None  # a function, which may read anything
            waiting += [origin for _, origin in kinds]
    return frozenset(stored)


def _origins(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the origins of a serialised query: their kind, and the name of a table in lower case."""
    if isinstance(tree, dict):
        if tree.get("type") in {"BASE_TABLE", "TABLE_FUNCTION"}:
            yield tree["type"], str(tree.get("table_name", "")).casefold()
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _origins(branch)


def count_unread(schema: Schema, name: str, source: Source) -> Unread:
    """Read a whole table, and count the rows and cells that cannot be read."""
    table = schema.tables[name]
    # as texts, so that a cell that cannot be read is told from one that is empty
    raw = replace(table, columns=dict.fromkeys(table.columns, Type(Kind.TEXT)))
    plain = replace(schema, tables={**schema.tables, name: raw})

    def as_said(cell: Scalar, type_: Type, decimal: str | None) -> Scalar:
        return said(cell, source if decimal is None else replace(source, decimal=decimal), type_)

    with OpenSources({name: source}, {name: declared_columns(plain, name)}) as opened:

        def fetch(query: Select) -> Sequence[Any]:
            return cast("Sequence[Any]", opened.connection.execute(text_of(query)).fetchall()[0])

        catalogue = opened.register(plain)
        lines = opened.renew(name, plain) if source.lines else None
        decimals = [mark for mark in DECIMALS if mark != source.decimal] if source.format in CSV else []
        rows = read(opened.places[name], "t")
        counted = count_cells(table, opened.types[name], rows, fetch, said=as_said, decimals=decimals)
        shared = sum(fetch(query)[0] for query in shared_key_counts(catalogue, name))
    return replace(counted, lines=lines, encoding=_other_encoding(source, lines), shared_keys=shared)


def _other_encoding(source: Source, lines: Tally | None) -> str:
    """Return the encoding that a CSV file seems to have, if it is not the declared one; else nothing.

    Hardly any text of another encoding is UTF-8 by chance. So a file whose characters beyond ASCII are mostly not UTF-8
    was not written as UTF-8, and one of which all are was.
    """
    declared_utf8 = source.encoding in {"utf-8", "utf-8-sig"}
    if source.format not in CSV or lines is None or (declared_utf8 and not lines.replaced):
        return ""
    tally, foreign = Tally(), 0
    for path in source.every_file:
        for block in utf8_blocks(path, tally=tally):
            foreign += int(np.count_nonzero(np.frombuffer(block, np.uint8) >= _FIRST_OF_SEVERAL))
    if declared_utf8:
        return "windows-1252" if 2 * tally.replaced > foreign else ""
    return "utf-8" if foreign and not tally.replaced else ""
