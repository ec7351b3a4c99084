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
from pathlib import Path
from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand
from hush.core.storage import DEFAULT_CACHE
from hush.engines.base import TIMEOUT, AnyEngine
from hush.engines.duckdb import DuckDB
from hush.engines.duckdb.checks import Unread, count_unread, overlap
from hush.engines.duckdb.loading import json_columns
from hush.engines.duckdb.registering import OpenSources
from hush.engines.duckdb.sources import (
    CSV,
    Source,
    declared_columns,
    inner_tables,
    proposed_encoding,
    proposed_timezone,
    table_name,
)
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.engines.postgresql import OpenTables
    from hush.engines.postgresql.rights import Rights
    from hush.engines.spark import SparkTables
else:
    __getattr__ = on_demand(
        __name__,
        {
            "hush.engines.postgresql": ("OpenTables",),
            "hush.engines.postgresql.rights": ("Rights",),
            "hush.engines.spark": ("SparkTables",),
        },
    )

_SPARK = re.compile(r"local(\[.*\])?|(spark|sc)://.*")


def open_sources(
    sources: Mapping[str, object],
    declared: Mapping[str, Sequence[str]] | None = None,
    *,
    memory: str = "",
    threads: int | None = None,
) -> OpenSources:
    """Open sources, to see which columns they have; ``declared`` names those of files without a schema."""
    return OpenSources(sources, declared, memory=memory, threads=threads)


def is_server(address: str) -> bool:
    """Return whether an engine's address in a policy is that of a server, whose tables are its sources.

    >>> is_server("postgresql://curator@db.example/clinic"), is_server("local[*]"), is_server("duckdb")
    (True, True, False)
    """
    return address.startswith(("postgresql://", "postgres://")) or _is_spark(address)


def _is_spark(address: str) -> bool:
    return _SPARK.fullmatch(address) is not None


def open_tables(
    address: str,
    tables: Mapping[str, str],
    declared: Mapping[str, Sequence[str]] | None = None,
    *,
    directory: Path | None = None,
    timeout: float | None = TIMEOUT,
) -> OpenTables | SparkTables:
    """Open tables of a server, to see which columns they have; ``tables`` says what each is called there.

    Spark reads files, too: ``declared`` names the columns of those without a schema, ``directory`` is where they are.
    """
    if _is_spark(address):
        from hush.engines.spark import SparkTables

        return SparkTables(address, tables, declared, directory=directory, timeout=timeout)
    from hush.engines.postgresql import OpenTables

    return OpenTables(address, tables, timeout=timeout)


def rights_of(opened: OpenTables | SparkTables, needed: Mapping[str, Sequence[str]]) -> Rights:
    """Return what the role that is connected may do; ``needed`` are the columns of each table that are read."""
    from hush.engines.postgresql import OpenTables
    from hush.engines.postgresql.rights import Rights, rights_of

    if isinstance(opened, OpenTables):
        return rights_of(opened, needed)
    role, missing = opened.role(), opened.unread(needed)
    lines = tuple(f"{role} does not read {column}" for column in missing)
    return Rights(role=role, missing=lines, surplus=(), grants=(), complete=False)


def open_engine(
    schema: Schema,
    opened: OpenSources | OpenTables | SparkTables,
    *,
    cache: str = DEFAULT_CACHE,
    timeout: float | None = TIMEOUT,
) -> AnyEngine:
    """Return an engine over open sources or tables, which it closes when it is closed, or if it cannot be made.

    Of an embedded engine a statement may take ``timeout`` seconds, and ``cache`` says how much may be kept of earlier
    questions.
    """
    try:
        if isinstance(opened, OpenSources):
            return DuckDB(schema, opened, cache=cache, timeout=timeout)
        from hush.engines.postgresql import OpenTables, PostgreSQL

        if isinstance(opened, OpenTables):
            return PostgreSQL(schema, opened)
        from hush.engines.spark import Spark

        return Spark(schema, opened)
    except BaseException:
        opened.close()
        raise


__all__ = [
    "CSV",
    "OpenSources",
    "OpenTables",
    "Rights",
    "Source",
    "SparkTables",
    "Unread",
    "count_unread",
    "declared_columns",
    "inner_tables",
    "is_server",
    "json_columns",
    "open_engine",
    "open_sources",
    "open_tables",
    "overlap",
    "proposed_encoding",
    "proposed_timezone",
    "rights_of",
    "table_name",
]
