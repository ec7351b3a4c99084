"""Which rows a source really reads: two names for one file are one file.

A file is known by its device and inode, so that another spelling of its path, a symbolic link and a hard link are the
same; a table of a database by its file and its name; a view by the tables that it is made of; a frame in memory by the
object. Copies are other files, and nothing here can tell them.

>>> import pyarrow as pa
>>> frame = pa.table({"x": [1]})
>>> one, same, copy = Source.of(frame), Source.of(frame), Source.of(pa.table({"x": [1]}))
>>> overlap(one, "a", same, "b"), overlap(one, "a", copy, "b")
(True, False)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hush.engines.duckdb.other_programs import sheet_of
from hush.engines.duckdb.sources import Source, inner_table
from hush.engines.errors import SourceError

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
