"""Whether a policy can be used: every mistake of it and of its files at once, for its owner.

`check` reads the policy and the schemas of its sources, and no rows. With ``rows`` it also counts how many rows and
cells cannot be read as the policy says. Those numbers are exact, so they are told the owner alone: they are neither
logged nor stored, and nothing that an analyst may run returns them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hush.core import HushError
from hush.core.values import dataclass
from hush.curator.catalogue import DescribedTables
from hush.curator.data_sets import (
    located,
    missing_columns,
    open_server_tables,
    open_source,
    read_policy,
    schema_types,
    shared,
)
from hush.engines.errors import SourceError
from hush.engines.opening import (
    Rights,
    Source,
    Unread,
    count_unread,
    declared_columns,
    is_server,
    open_sources,
    rights_of,
)
from hush.policy.file import DataSet, Policy
from hush.query.errors import QuestionError
from hush.query.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found."""

    mistakes: tuple[HushError, ...]
    tables: Mapping[str, tuple[str, ...]]
    """The tables of each data set."""
    unread: Mapping[tuple[str, str], Unread] = field(default_factory=dict)
    """What cannot be read of each table, if that was asked for. Exact facts about rows."""
    seen: DescribedTables = field(default_factory=lambda: DescribedTables(()))
    """The tables as an analyst will see them."""


def check(path: str | Path, *, rows: bool = False) -> Checked:
    """Return every mistake in a policy and its sources' schemas; with ``rows`` also what cannot be read of them."""
    mistakes: list[HushError] = []
    try:
        policy = read_policy(path, mistakes=mistakes)
    except HushError as error:
        return Checked(mistakes=(*mistakes, error), tables={})
    unread: dict[tuple[str, str], Unread] = {}
    seen: list[Schema] = []
    for data in policy.data.values():
        schema = policy.schema(data.name)
        if is_server(data.engine):
            mistakes += _server_mistakes(policy, data, schema)
            continue
        sources = _sources(policy, data, mistakes)
        stored = _stored(policy, data, schema, sources, mistakes)
        found = {name: schema_types(sources[name], name, held) for name, held in stored.items()}
        mistakes += missing_columns(policy, schema, stored)
        seen.append(policy.schema(data.name, found))
        mistakes += _standing_mistakes(policy, seen[-1])
        if rows:
            described = policy.schema(data.name, found)
            for name in stored:
                with suppress(HushError):  # told above, or by opening it
                    unread[data.name, name] = count_unread(described, name, sources[name])
    mistakes += shared(policy)
    mistakes.sort(key=_line)
    tables = {name: tuple(data.tables) for name, data in policy.data.items()}
    return Checked(mistakes=tuple(mistakes), tables=tables, unread=unread, seen=DescribedTables(seen))


def _standing_mistakes(policy: Policy, schema: Schema) -> list[HushError]:
    """Return what is wrong with the SQL of standing questions about a data set."""
    from hush.query.sql import parse

    mistakes: list[HushError] = []
    for name, asked in policy.standing.items():
        if asked.data == schema.data:
            try:
                parse(asked.question, schema, (), "duckdb")
            except QuestionError as error:
                mistakes.append(policy.document.error(("standing", name, "sql"), f"standing.{name}.sql: {error}"))
    return mistakes


def _line(error: HushError) -> int:
    """Return the line of the policy that an error begins with."""
    place = re.match(r".*?:(\d+): ", str(error))
    return int(place.group(1)) if place else 0


def _sources(policy: Policy, data: DataSet, mistakes: list[HushError]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for name in data.tables:
        try:
            sources[name] = open_source(policy, data, name)
        except SourceError as error:
            mistakes.append(error)
    return sources


def _server_mistakes(policy: Policy, data: DataSet, schema: Schema) -> list[HushError]:
    try:
        with open_server_tables(policy, data) as opened:
            return list(missing_columns(policy, schema, opened.types))
    except HushError as error:
        return [error]


def rights(policy: Policy, data: DataSet) -> Rights:
    """Return what a data set's role may do in its database, against what hush needs."""
    schema = policy.schema(data.name)
    with open_server_tables(policy, data) as opened:
        needed = {}
        for name in data.tables:
            held, named = opened.types[name], declared_columns(schema, name)
            needed[name] = list(dict.fromkeys(named or held))
        return rights_of(opened, needed)


def _stored(
    policy: Policy, data: DataSet, schema: Schema, sources: Mapping[str, Source], mistakes: list[HushError]
) -> dict[str, Mapping[str, str]]:
    """Return the columns of each source that can be opened."""
    stored: dict[str, Mapping[str, str]] = {}
    for name, source in sources.items():
        try:
            with open_sources({name: source}, {name: declared_columns(schema, name)}) as opened:
                stored[name] = opened.types[name]
        except SourceError as error:
            mistakes.append(located(error, policy, data, name))
    return stored
