"""Opening a data set of a policy: its sources, and whether they have the columns that the policy names.

What is not right is reported with the policy's line. A table's columns are its schema, not its rows; those of a JSON
file, which has none, are what the policy says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    sources = {name: opened_source(policy, chosen, name) for name in chosen.tables}
    schema = policy.schema(chosen.name)
    try:
        engine = DuckDB(schema, sources, cache=chosen.cache)
    except SourceError as error:
        raise located(error, policy, chosen, error.table) from None
    mistake = next(missing_columns(policy, schema, {name: engine.stored(name) for name in sources}), None)
    if mistake is not None:
        engine.close()
        raise mistake
    public = [name for name, table in schema.tables.items() if table.public]
    found = {name: schema_types(sources[name], name, engine.stored(name)) for name in public}
    schema = policy.schema(chosen.name, found)
    engine.use(schema)
    return Desk(schema=schema, engine=engine)


def opened_source(policy: Policy, chosen: DataSet, name: str) -> Source:
    """Return where a table's rows are, as the policy says."""
    table = chosen.tables[name]
    try:
        return Source.of(str(policy.directory / table.source), **table.reading)
    except SourceError as error:
        raise located(error, policy, chosen, name) from None


def located(error: SourceError, policy: Policy, chosen: DataSet, table: str | None) -> SourceError:
    """Return an error about a source, with the line of the policy that names it."""
    key = ("tables",) if table is None else ("tables", table, "source")
    return SourceError(f"{policy.document.place(('data', chosen.name, *key))}: {error}", table=table)


def missing_columns(policy: Policy, schema: Schema, stored: Mapping[str, Mapping[str, str]]) -> Iterator[SourceError]:
    """Yield an error for every column that the policy names and its table does not have."""
    for name, table in schema.tables.items():
        here = ("data", schema.data, "tables", name)
        named: list[tuple[tuple[str, ...], str, str]] = [
            ((*here, "columns", column), name, column) for column in table.columns
        ]
        if table.unit is not None:
            unit = (*here, "unit") if (*here, "unit") in policy.document.lines else ("data", schema.data, "unit")
            if table.unit.hops:
                hop = table.unit.hops[0]  # what follows is the other table's own way
                named += [(unit, name, hop.column), (unit, hop.table, hop.key)]
            else:
                named.append((unit, name, table.unit.column))
        for key, holder, column in named:
            held = stored.get(holder)
            if held is not None and column not in held:
                hint = did_you_mean(column, held, otherwise=f"It has {', '.join(list(held)[:20])}.")
                place = policy.document.place(key)
                yield SourceError(f"{place}: table {holder!r} has no column {column!r}. {hint}", table=holder)
