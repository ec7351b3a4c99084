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

import sqlite3

import sqlglot
from sqlglot import expressions as exp

from hush.engines.errors import SourceError
from hush.engines.sources import Source, inner_table

_DATABASES = {"duckdb", "sqlite"}


def overlap(one: Source, name: str, other: Source, other_name: str) -> bool:
    """Return whether two sources read the same rows; the names are what their tables are called where nobody says."""
    if one.path is None or other.path is None:
        return one.frame is not None and one.frame is other.frame
    if _inode(one) != _inode(other):
        return False
    if one.format not in _DATABASES or other.format not in _DATABASES:
        return True
    mine, theirs = _tables(one, name), _tables(other, other_name)
    return mine is None or theirs is None or bool(mine & theirs)


def _inode(source: Source) -> tuple[int, int] | str:
    assert source.path is not None  # noqa: S101 - the caller looked
    try:
        status = source.path.stat()
    except OSError:
        return str(source.path)
    return status.st_dev, status.st_ino


def _tables(source: Source, usual: str) -> frozenset[str] | None:
    """Return the stored tables that a source reads, in lower case; None if that cannot be told."""
    tables, views = _listed(source)
    assert source.path is not None  # noqa: S101 - the caller looked
    wanted = inner_table(source.path, [*tables, *views], source.table, usual)
    return _bases(wanted.casefold(), {name.casefold(): sql for name, sql in views.items()}, source.format, 0)


def _bases(name: str, views: dict[str, str], dialect: str, depth: int) -> frozenset[str] | None:
    if name not in views:
        return frozenset({name})
    if depth > len(views):
        return None
    try:
        statement = sqlglot.parse_one(views[name], read=dialect)
    except sqlglot.errors.SqlglotError:
        return None
    query = statement.expression if isinstance(statement, exp.Create) else None
    if query is None:
        return None
    own = {part.alias_or_name.casefold() for part in query.find_all(exp.CTE)}
    bases: frozenset[str] = frozenset()
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            return None  # a function, which may read anything
        if table.name.casefold() in own:
            continue
        inner = _bases(table.name.casefold(), views, dialect, depth + 1)
        if inner is None:
            return None
        bases |= inner
    return bases


def _listed(source: Source) -> tuple[list[str], dict[str, str]]:
    """Return the tables of a database, and its views with what they are made of."""
    assert source.path is not None  # noqa: S101 - the caller looked
    try:
        if source.format == "duckdb":
            import duckdb

            with duckdb.connect(str(source.path), read_only=True) as base:
                tables = base.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()
                views = base.execute(
                    "SELECT view_name, sql FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
                ).fetchall()
        else:
            connection = sqlite3.connect(f"{source.path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                views = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall()
            finally:
                connection.close()
    except Exception as error:  # both raise errors of their own
        raise SourceError(f"{source.path.name} is not a database that can be read") from error
    return [row[0] for row in tables], dict(views)
