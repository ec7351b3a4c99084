"""What tests look at behind the public interfaces, in one place: who changes an inside mends its seam here."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import pytest

from hush.engines.duckdb.connection import DuckDBSession
from hush.engines.registry import declared_columns, open_engine, open_sources
from hush.engines.sql.dialect import Dialect
from hush.engines.sql_engine import SqlEngine
from hush.ledger import Ledger
from hush.ledger.chain import Chain
from hush.query.schema import Schema


def duckdb_engine(
    schema: Schema, sources: Mapping[str, object], *, memory: str = "", threads: int | None = None, **limits: Any
) -> SqlEngine:
    """Return the embedded engine over files and frames, with limits of its time and its cache."""
    declared = {table: declared_columns(schema, table) for table in sources if table in schema.tables}
    return open_engine(schema, open_sources(sources, declared, memory=memory, threads=threads), **limits)


def chain_of(ledger: Ledger) -> Chain:
    """Return the chain of entries behind a ledger, with its store and its anchor."""
    return ledger._chain


def run_in(engine: SqlEngine, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement in an engine's own session, as hush itself would."""
    return engine.connection.execute(statement)


def statements_run(patch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which all statements are added that the embedded engine is given from now on."""
    run: list[str] = []
    running = DuckDBSession._running
    patch.setattr(DuckDBSession, "_running", lambda session, text: run.append(text) or running(session, text))
    return run


def cache_of(engine: SqlEngine) -> Any:
    """Return what an engine keeps between questions."""
    return engine.connection._cache


def hash_key(engine: SqlEngine) -> int:
    """Return the key by which an engine orders the rows and values of a unit."""
    return engine._salt


def set_hash_key(engine: SqlEngine, key: int) -> None:
    """Give an engine another's order, so that both leave out the same rows."""
    engine._salt = key


def change_catalogue(engine: SqlEngine, **changes: object) -> None:
    """Give an engine, and all of its parts that keep one, a catalogue with other fields."""
    changed = engine._catalogue._replace(**changes)
    engine._public_rows.catalogue = changed
    for part in (engine, engine.connection):
        if hasattr(part, "_catalogue"):
            part._catalogue = changed


def write_in(engine: SqlEngine, dialect: Dialect) -> None:
    """Let an engine write its statements in another dialect."""
    change_catalogue(engine, dialect=dialect)


def with_parameters(mechanism: Any, **changes: object) -> Any:
    """Return a mechanism with other values of parameters that it computes by itself, such as where scores are cut."""
    changed = copy(mechanism)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed
