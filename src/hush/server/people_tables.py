"""The tables of people: how they are made, brought to this version, and copied.

A copy is a SQLite file, whichever store it was made of, and can be restored into either.
"""

from __future__ import annotations

from hush.server.errors import PeopleError
from hush.server.storage import Storage

VERSION = 2
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS hush_service (version INTEGER NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS hush_people (name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, "
        "created {real} NOT NULL)"
    ),
    (
        "CREATE TABLE IF NOT EXISTS hush_tokens (hash {blob} PRIMARY KEY, id TEXT NOT NULL UNIQUE, "
        "person TEXT NOT NULL REFERENCES hush_people ON DELETE CASCADE, label TEXT NOT NULL, "
        "scopes TEXT NOT NULL, created {real} NOT NULL, expires {real} NOT NULL, maker TEXT NOT NULL DEFAULT '')"
    ),
    (
        "CREATE TABLE IF NOT EXISTS hush_sessions (hash {blob} PRIMARY KEY, id TEXT NOT NULL UNIQUE, "
        "person TEXT NOT NULL REFERENCES hush_people ON DELETE CASCADE, created {real} NOT NULL, seen {real} NOT NULL, "
        "maker TEXT NOT NULL DEFAULT '')"
    ),
    (
        "CREATE TABLE IF NOT EXISTS hush_links (hash {blob} PRIMARY KEY, person TEXT NOT NULL "
        "REFERENCES hush_people ON DELETE CASCADE, expires {real} NOT NULL, maker TEXT NOT NULL DEFAULT '')"
    ),
    (
        "CREATE TABLE IF NOT EXISTS hush_identities (issuer TEXT NOT NULL, subject TEXT NOT NULL, person TEXT NOT NULL "
        "UNIQUE REFERENCES hush_people ON DELETE CASCADE, PRIMARY KEY (issuer, subject))"
    ),
    "CREATE TABLE IF NOT EXISTS hush_outbox (id TEXT PRIMARY KEY, content TEXT NOT NULL)",
)
COPIED = {
    "hush_people": ("name", "roles", "password", "created"),
    "hush_tokens": ("hash", "id", "person", "label", "scopes", "created", "expires", "maker"),
    "hush_identities": ("person", "issuer", "subject"),
    "hush_outbox": ("id", "content"),
}
"""What a backup holds. Sessions and links are not among it: what has ended must not begin again."""
_RENAMED = ("people", "tokens", "sessions", "links")
"""The tables of version 1, which lie in SQLite files alone."""
ENDED = (("hush_tokens", "id"), ("hush_links", "maker"), ("hush_sessions", "maker"))
"""What ends with a token."""


def prepare(storage: Storage, *, database: bool) -> None:
    """Make the tables, or bring older ones to this version; refuse newer ones."""
    if not database:
        for name in _RENAMED:
            if storage.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name):
                storage.change(f"ALTER TABLE {name} RENAME TO hush_{name}")
                if name != "people":
                    storage.change(f"ALTER TABLE hush_{name} ADD COLUMN maker TEXT NOT NULL DEFAULT ''")
    storage.make(_SCHEMA)
    found = storage.rows("SELECT version FROM hush_service")
    if not found:
        storage.change("INSERT INTO hush_service VALUES (?)", VERSION)
    elif found[0][0] > VERSION:
        raise PeopleError(f"The people at {storage.place} were written by a newer hush; use that one.")


def copy(source: Storage, target: Storage) -> None:
    """Copy what a backup holds, inside a change of both."""
    for table, names in COPIED.items():
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        for row in source.rows(f"SELECT {columns} FROM {table}"):  # noqa: S608 - ours
            known = target.rows(f"SELECT 1 FROM {table} WHERE {names[0]} = ?", row[0])  # noqa: S608 - ours
            if not known:
                target.change(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row)  # noqa: S608 - ours
