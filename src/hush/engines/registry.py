"""The way to an engine: the one place outside their folders that names concrete engines.

Sources are opened first, which shows the columns they have; once these are described by a schema, an engine is made
over them, and never changes.

>>> import pyarrow as pa
>>> from hush.query.schema import Schema, Table
>>> from hush.query.types import Kind, Type
>>> opened = open_sources({"people": pa.table({"age": [30]})})
>>> opened.types["people"]
{'age': 'BIGINT'}
>>> people = Table(name="people", columns={"age": Type(Kind.INTEGER)})
>>> open_engine(Schema(data="people", tables={"people": people}), opened).close()
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hush.core.storage import DEFAULT_CACHE
from hush.engines.duckdb.connection import DuckDBConnection
from hush.engines.duckdb.files import OpenSources, count_unread, first_rows
from hush.engines.duckdb.sources import (
    CSV,
    Source,
    declared_columns,
    format_of,
    inner_tables,
    overlap,
    proposed_encoding,
    proposed_separator,
    proposed_timezone,
    table_name,
)
from hush.engines.duckdb.text_files import json_columns
from hush.engines.errors import SourceError
from hush.engines.protocol import TIMEOUT
from hush.engines.sql.statements import Statements
from hush.engines.sql_engine import SqlConnection, SqlEngine
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.engines.server import Rights, ServerConnection
    from hush.engines.unread import Unread

_SERVERS = {
    r"postgres(ql)?://.*": "hush.engines.postgresql",
    r"local(\[.*\])?|(spark|sc)://.*": "hush.engines.spark",
}
"""Which addresses of a policy lead to which package: each is one line, and has a function ``open_tables``."""


open_sources = OpenSources


def is_server(address: str) -> bool:
    """Return whether an engine's address in a policy is that of a server, which has the tables.

    >>> is_server("postgresql://curator@db.example/clinic"), is_server("local[*]"), is_server("duckdb")
    (True, True, False)
    """
    return _package(address) is not None


def _package(address: str) -> str | None:
    return next((package for pattern, package in _SERVERS.items() if re.fullmatch(pattern, address, re.DOTALL)), None)


def server_tables(address: str) -> dict[str, str]:
    """Return the tables of a server that its role may read, by names for a policy, each with its name there."""
    package = import_module(_package(address) or "")
    if not hasattr(package, "readable_tables"):
        raise SourceError("the tables of this engine are not listed; name them in a policy: docs/engines.md")
    tables: dict[str, str] = package.readable_tables(address)
    return tables


def open_tables(
    address: str,
    tables: Mapping[str, str],
    declared: Mapping[str, Sequence[str]] | None = None,
    *,
    directory: Path | None = None,
    timeout: float | None = TIMEOUT,
) -> ServerConnection:
    """Open tables of a server, to see which columns they have; ``tables`` has the name of each there.

    Spark reads files, too: ``declared`` names the columns of those without a schema, ``directory`` is where they are.
    """
    package = import_module(_package(address) or "")
    opened: ServerConnection = package.open_tables(address, tables, declared, directory=directory, timeout=timeout)
    return opened


def open_engine(
    schema: Schema,
    opened: OpenSources | ServerConnection,
    *,
    cache: str = DEFAULT_CACHE,
    timeout: float | None = TIMEOUT,
) -> SqlEngine:
    """Return an engine over open sources or tables, which it closes when it is closed, or if it cannot be made.

    Of an embedded engine a statement may take ``timeout`` seconds, and ``cache`` says how much may be kept of earlier
    questions.
    """
    connection: OpenSources | SqlConnection = opened
    try:
        connection = opened if not isinstance(opened, OpenSources) else DuckDBConnection(opened, timeout, cache)
        return SqlEngine(schema, connection)
    except BaseException:
        connection.close()
        raise


__all__ = [
    "CSV",
    "OpenSources",
    "Rights",
    "ServerConnection",
    "Source",
    "SqlEngine",
    "Statements",
    "Unread",
    "count_unread",
    "declared_columns",
    "first_rows",
    "format_of",
    "inner_tables",
    "is_server",
    "json_columns",
    "open_engine",
    "open_sources",
    "open_tables",
    "overlap",
    "proposed_encoding",
    "proposed_separator",
    "proposed_timezone",
    "server_tables",
    "table_name",
]
