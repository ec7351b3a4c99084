"""The tables, and how older ones become these.

Five tables, the same on SQLite and PostgreSQL. ``hush_entries`` is the chain. ``hush_head`` has one row: the last
entry's number and hash; it is what writers lock and what the conditional write compares. ``hush_answers`` holds the
bytes of answers for replay, each covered by a hash inside the chain. ``hush_repeats`` finds the charges of one question
again: an index of what stands in their entries, believed only after a look there. ``hush_meta`` says which version of
this schema it is.

A change of the tables is a new version: add statements under the version they start *from*. They run in one
transaction, under the lock, when an owner's or a curator's process opens an older ledger. A ledger of a newer version
is refused. Entries themselves are never migrated: their vocabulary only grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

VERSION: Final = 3

_REPEATS: Final[Sequence[str]] = (
    "CREATE TABLE hush_repeats (number {integer} PRIMARY KEY, question TEXT NOT NULL)",
    "CREATE INDEX hush_repeated ON hush_repeats (question, number)",
)

_BOUND: Final[Sequence[str]] = (
    # Not unique: before version 3 nothing bound the request id of a shared answer.
    "CREATE INDEX hush_shared_requests ON hush_entries (analyst, request) WHERE kind = 'shared'",
    "CREATE INDEX hush_acts ON hush_entries (request) WHERE kind = 'act'",
)

CREATE: Final[Sequence[str]] = (
    "CREATE TABLE hush_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE hush_head (id INTEGER PRIMARY KEY CHECK (id = 1), number BIGINT NOT NULL, hash {blob} NOT NULL)",
    (
        "CREATE TABLE hush_entries (number {integer} PRIMARY KEY, kind TEXT NOT NULL, data TEXT NOT NULL,"
        " analyst TEXT NOT NULL, request TEXT NOT NULL, about BIGINT NOT NULL, weight BIGINT NOT NULL,"
        " body TEXT NOT NULL, hash {blob} NOT NULL)"
    ),
    "CREATE TABLE hush_answers (number {integer} PRIMARY KEY, answer {blob} NOT NULL)",
    # One reservation for each request id of an analyst, one outcome for each reservation.
    "CREATE UNIQUE INDEX hush_requests ON hush_entries (analyst, request) WHERE kind = 'reserve'",
    "CREATE UNIQUE INDEX hush_outcomes ON hush_entries (about) WHERE about > 0",
    *_REPEATS,
    *_BOUND,
)

MIGRATIONS: Mapping[int, Sequence[str]] = {1: _REPEATS, 2: _BOUND}
"""Statements that turn version n into version n + 1, by n."""


def statements(version: int, target: int, migrations: Mapping[int, Sequence[str]]) -> list[str]:
    """Return what turns one version into another."""
    return [statement for step in range(version, target) for statement in migrations[step]]
