"""The tables of people: how they are made, brought to this version, and copied.

A copy is a SQLite file, whichever store it was made of, and can be restored into either.
"""

from __future__ import annotations

from hush.server.errors import PeopleError
from hush.storage import Storage, in_database

VERSION = 3
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
    (
        "CREATE TABLE IF NOT EXISTS hush_proposals (id TEXT NOT NULL, person TEXT NOT NULL "
        "REFERENCES hush_people ON DELETE CASCADE, what TEXT NOT NULL, content TEXT NOT NULL, created {real} NOT NULL, "
        "PRIMARY KEY (id, person))"
    ),
    (
        "CREATE TABLE IF NOT EXISTS hush_dashboards (id TEXT PRIMARY KEY, person TEXT NOT NULL "
        "REFERENCES hush_people ON DELETE CASCADE, content TEXT NOT NULL)"
    ),
    "CREATE TABLE IF NOT EXISTS hush_outbox (id TEXT PRIMARY KEY, content TEXT NOT NULL)",
    (
        "CREATE TABLE IF NOT EXISTS hush_failures (hour TEXT NOT NULL, person TEXT NOT NULL, address TEXT NOT NULL, "
        "way TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (hour, person, address, way))"
    ),
)
_ADDED = (("hush_identities", "until", "{real} NOT NULL DEFAULT 0"), ("hush_people", "factor", "TEXT"))
"""Columns of later versions. ``until`` is the moment up to which a provider's sign-in holds. It is 0 for people whom an
earlier version bound by name, without an invitation: they are invited anew, and their tokens wait for that."""
COPIED = {
    "hush_people": ("name", "roles", "password", "created", "factor"),
    "hush_tokens": ("hash", "id", "person", "label", "scopes", "created", "expires", "maker"),
    "hush_identities": ("person", "issuer", "subject", "until"),
    "hush_dashboards": ("id", "person", "content"),
    "hush_outbox": ("id", "content"),
}
"""The tables and columns in a backup. Sessions and links are left out: an ended one must not become valid again."""
_RENAMED = ("people", "tokens", "sessions", "links")
"""The tables of version 1, which lie in SQLite files alone."""
ENDED = (("hush_tokens", "id"), ("hush_links", "maker"), ("hush_sessions", "maker"))
"""The tables with rows that end with a token, and the column with its id."""


def prepare(storage: Storage) -> None:
    """Make the tables, or bring older ones to this version; refuse newer ones."""
    if not in_database(storage.place):
        for name in _RENAMED:
            if storage.has_table(name):
                storage.change(f"ALTER TABLE {name} RENAME TO hush_{name}")
                if name != "people":
                    storage.change(f"ALTER TABLE hush_{name} ADD COLUMN maker TEXT NOT NULL DEFAULT ''")
    storage.make(_SCHEMA)
    versions = storage.rows("SELECT version FROM hush_service")
    if versions and versions[0][0] > VERSION:
        raise PeopleError(f"The people at {storage.place} were written by a newer hush; use that one.")
    for table, column, kind in _ADDED:
        if not storage.has_column(table, column):
            storage.make([f"ALTER TABLE {table} ADD COLUMN {column} {kind}"])
            # An earlier version bound these people by name alone: their sessions must not go on.
            if column == "until":
                storage.change("DELETE FROM hush_sessions WHERE person IN (SELECT person FROM hush_identities)")
    storage.change("DELETE FROM hush_service")
    storage.change("INSERT INTO hush_service VALUES (?)", VERSION)


def copy(source: Storage, target: Storage) -> None:
    """Copy the tables of a backup, inside transactions of both stores; rows that the target has are kept."""
    for table, names in COPIED.items():
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        for row in source.rows(f"SELECT {columns} FROM {table}"):  # noqa: S608 - ours
            duplicates = target.rows(f"SELECT 1 FROM {table} WHERE {names[0]} = ?", row[0])  # noqa: S608 - ours
            if not duplicates:
                target.change(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row)  # noqa: S608 - ours
