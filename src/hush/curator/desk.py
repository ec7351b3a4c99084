"""Opening a data set of a policy: its sources, and whether they have the columns that the policy names.

What is not right is reported with the policy's line. A table's columns are its schema, not its rows; those of a JSON
file, which has none, are what the policy says.
"""

from __future__ import annotations

from collections.abc import Mapping

from hush.curator.columns import schema_types
from hush.curator.curator import Desk
from hush.curator.policy import DataSet, Policy
from hush.engines.duckdb import DuckDB
from hush.engines.errors import SourceError
from hush.engines.sources import Source
from hush.query.errors import did_you_mean
from hush.query.schema import Schema


def open_desk(policy: Policy, chosen: DataSet) -> Desk:
    """Return a data set, ready to be asked about."""
    if chosen.engine != "duckdb":
        raise policy.document.error(
            ("data", chosen.name, "engine"), f"there is no engine {chosen.engine!r} yet.", 'Use engine = "duckdb".'
        )
    sources = {}
    for name, table in chosen.tables.items():
        try:
            sources[name] = Source.of(str(policy.directory / table.source), **table.reading)
        except SourceError as error:
            raise _located(error, policy, chosen, name) from None
    schema = policy.schema(chosen.name)
    try:
        engine = DuckDB(schema, sources, cache=chosen.cache)
    except SourceError as error:
        raise _located(error, policy, chosen, error.table) from None
    try:
        _check_columns(policy, schema, {name: engine.stored(name) for name in sources})
    except BaseException:
        engine.close()
        raise
    public = [name for name, table in schema.tables.items() if table.public]
    found = {name: schema_types(sources[name], name, engine.stored(name)) for name in public}
    schema = policy.schema(chosen.name, found)
    engine.use(schema)
    return Desk(schema=schema, engine=engine)


def _located(error: SourceError, policy: Policy, chosen: DataSet, table: str | None) -> SourceError:
    """Return an error about a source, with the line of the policy that names it."""
    key = ("tables",) if table is None else ("tables", table, "source")
    return SourceError(f"{policy.document.place(('data', chosen.name, *key))}: {error}", table=table)


def _check_columns(policy: Policy, schema: Schema, stored: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse a policy that names columns its tables do not have."""
    for name, table in schema.tables.items():
        here = ("data", schema.data, "tables", name)
        for column in table.columns:
            _check(policy, (*here, "columns", column), name, column, stored[name])
        if table.unit is None:
            continue
        unit = (*here, "unit") if (*here, "unit") in policy.document.lines else ("data", schema.data, "unit")
        if not table.unit.hops:
            _check(policy, unit, name, table.unit.column, stored[name])
            continue
        hop = table.unit.hops[0]  # what follows is the other table's own way
        _check(policy, unit, name, hop.column, stored[name])
        _check(policy, unit, hop.table, hop.key, stored[hop.table])


def _check(policy: Policy, key: tuple[str, ...], table: str, column: str, stored: Mapping[str, str]) -> None:
    if column not in stored:
        hint = did_you_mean(column, stored, otherwise=f"It has {', '.join(list(stored)[:20])}.")
        raise SourceError(
            f"{policy.document.place(key)}: table {table!r} has no column {column!r}. {hint}", table=table
        )
