"""Who may use a service: people, their tokens, sessions and one-time links, in SQLite.

Budgets are not here but in the ledger. Nothing here is kept in a process's memory, so all workers see a revocation at
once, and a backup of the file is a backup of everything.

Secrets are stored as hashes only:

*   tokens, sessions and links are 256 random bits, so one SHA-256 hides them as well as anything could, and a lookup
    costs microseconds (a slow hash on every request would be a denial of service by ourselves);
*   passwords are chosen by people, so they go through argon2id with 19 MiB and two passes (OWASP's second choice).

A name that nobody has costs as much time as a wrong password: the same hash is computed, against a stand-in.

>>> people = People.in_memory()
>>> people.add("alice", roles=[Role.ANALYST])
>>> secret = people.make_link("alice")
>>> people.use_link(secret).name, people.use_link(secret)
('alice', None)
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger import Role
from hush.ledger.actors import label
from hush.server.errors import PeopleError

SCOPES = ("read", "ask", "own")
"""What a token may be for: to look and explain; to spend; to act as an owner."""
IDLE = 30 * 60
"""A session ends after so many seconds without a request …"""
ABSOLUTE = 12 * 3600
"""… and after so many in any case."""
LINK = 24 * 3600
"""A one-time link is good for so many seconds."""
TOKEN_DAYS = 90
LONGEST_TOKEN_DAYS = 366
SHORTEST_PASSWORD = 12
_SEEN = 60
"""A session's last use is written down at most so often."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, created REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS tokens (
    hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL REFERENCES people ON DELETE CASCADE,
    label TEXT NOT NULL, scopes TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL REFERENCES people ON DELETE CASCADE,
    created REAL NOT NULL, seen REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS links (
    hash BLOB PRIMARY KEY, person TEXT NOT NULL REFERENCES people ON DELETE CASCADE, expires REAL NOT NULL) STRICT;
PRAGMA user_version = 1;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who is signed in, and what this way of signing in allows."""

    name: str
    roles: frozenset[Role]
    scopes: frozenset[str] = frozenset(SCOPES)
    session: str = ""
    """The id of the browser's session; nothing where a token was shown."""
    expires: float = math.inf
    """When the token that was shown ends."""

    @property
    def owner(self) -> bool:
        """Whether this is an owner."""
        return Role.OWNER in self.roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its secret."""

    id: str
    person: str
    label: str
    scopes: tuple[str, ...]
    created: float
    expires: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A browser that is signed in, without its secret."""

    id: str
    person: str
    created: float
    seen: float


def hashed(secret: str) -> bytes:
    """Return what is stored of a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()


def sqlite(place: str | Path, schema: str, *, durable: bool) -> sqlite3.Connection:
    """Open a SQLite file that only this account can read, for all threads of a process under one lock."""
    if place != ":memory:":
        os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.executescript(schema)
    return connection


class People:
    """The people of a service. Use it from any thread."""

    def __init__(self, place: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self._connection = sqlite(place, _SCHEMA, durable=True)
        self._lock = threading.RLock()
        self._clock = clock

    @classmethod
    def in_memory(cls, *, clock: Callable[[], float] = time.time) -> Self:
        """Return a store that lives and dies with this process."""
        return cls(":memory:", clock=clock)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    # people

    def add(self, name: str, *, roles: Iterable[Role]) -> None:
        """Add somebody, who cannot sign in before they have a link, a password or a token."""
        label(name, "name")
        wanted = _roles(roles)
        try:
            with self._changing() as connection:
                row = (name, wanted, self._clock())
                connection.execute("INSERT INTO people (name, roles, created) VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise PeopleError(f"There is somebody called {name!r} already; choose another name.") from None

    def remove(self, name: str) -> None:
        """Remove somebody with all their sessions, tokens and links; the ledger keeps what they asked."""
        with self._changing() as connection:
            gone = connection.execute("DELETE FROM people WHERE name = ? RETURNING roles", (name,)).fetchall()
            if not gone:
                raise PeopleError(f"There is nobody called {name!r}.")
            left = [_read_roles(row[0]) for row in connection.execute("SELECT roles FROM people").fetchall()]
            if Role.OWNER in _read_roles(gone[0][0]) and not any(Role.OWNER in roles for roles in left):
                raise PeopleError(f"{name!r} is the last owner; add another one first.")

    def names(self) -> dict[str, frozenset[Role]]:
        """Return everybody, with their roles."""
        return {name: _read_roles(roles) for name, roles in self._rows("SELECT name, roles FROM people ORDER BY name")}

    def person(self, name: str) -> Person | None:
        """Return somebody by name."""
        roles = self.names().get(name)
        return None if roles is None else Person(name=name, roles=roles)

    # passwords

    def set_password(self, name: str, password: str) -> None:
        """Give somebody a password; all their sessions end."""
        if not isinstance(password, str) or not SHORTEST_PASSWORD <= len(password) <= 1000:
            allowed = f"{SHORTEST_PASSWORD} to 1000 characters"
            raise InvalidValueError("password", got="something else", allowed=allowed)
        scrambled = _hasher().hash(password)
        with self._changing() as connection:
            if not connection.execute("UPDATE people SET password = ? WHERE name = ?", (scrambled, name)).rowcount:
                raise PeopleError(f"There is nobody called {name!r}.")
            connection.execute("DELETE FROM sessions WHERE person = ?", (name,))

    def check_password(self, name: str, password: str) -> Person | None:
        """Return who has this name and password; as slow for a name that nobody has."""
        import argon2

        found = self._rows("SELECT password FROM people WHERE name = ?", name)
        stored = found[0][0] if found and found[0][0] else _stand_in()
        try:
            _hasher().verify(stored, password[:1000])
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return None
        return self.person(name) if found and found[0][0] else None

    def may_change(self, who: Person, old: str) -> bool:
        """Return whether somebody may have a new password: who knows the old one, or has none and shows no token.

        A password allows more than a token may be for.
        """
        found = self._rows("SELECT password FROM people WHERE name = ?", who.name)
        first = bool(found) and found[0][0] is None and bool(who.session)
        return first or self.check_password(who.name, old) is not None

    def can_sign_in(self) -> bool:
        """Return whether an owner has a password or a token, or is signed in."""
        ways = (
            "SELECT roles FROM people WHERE password IS NOT NULL OR EXISTS (SELECT 1 FROM tokens WHERE person = name "
            "AND expires > ?) OR EXISTS (SELECT 1 FROM sessions WHERE person = name AND seen > ? AND created > ?)"
        )
        now = self._clock()
        rows = self._rows(ways, now, now - IDLE, now - ABSOLUTE)
        return any(Role.OWNER in _read_roles(roles) for (roles,) in rows)

    # one-time links

    def make_link(self, name: str, *, seconds: float = LINK) -> str:
        """Return a secret that signs somebody in once."""
        secret = secrets.token_urlsafe(32)
        with self._changing() as connection:
            row = (hashed(secret), name, self._clock() + seconds)
            try:
                connection.execute("INSERT INTO links (hash, person, expires) VALUES (?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise PeopleError(f"There is nobody called {name!r}.") from None
        return secret

    def use_link(self, secret: str) -> Person | None:
        """Return whom a link signs in, and use it up."""
        with self._changing() as connection:
            gone = "DELETE FROM links WHERE hash = ? RETURNING person, expires"
            found = connection.execute(gone, (hashed(secret),)).fetchall()
        return self.person(found[0][0]) if found and found[0][1] > self._clock() else None

    # sessions

    def begin_session(self, name: str) -> str:
        """Return the secret of a new session."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._changing() as connection:
            row = (hashed(secret), secrets.token_hex(8), name, now, now)
            connection.execute("DELETE FROM sessions WHERE created < ? OR seen < ?", (now - ABSOLUTE, now - IDLE))
            connection.execute("INSERT INTO sessions (hash, id, person, created, seen) VALUES (?, ?, ?, ?, ?)", row)
        return secret

    def session(self, secret: str) -> Person | None:
        """Return whose session this is, if it has not ended."""
        now, key = self._clock(), hashed(secret)
        found = self._rows(
            "SELECT s.id, s.person, p.roles, s.created, s.seen FROM sessions s JOIN people p ON p.name = s.person "
            "WHERE s.hash = ?",
            key,
        )
        if not found:
            return None
        identity, name, roles, created, seen = found[0]
        if now - created >= ABSOLUTE or now - seen >= IDLE:
            return None
        if now - seen >= _SEEN:
            with self._changing() as connection:
                connection.execute("UPDATE sessions SET seen = ? WHERE hash = ?", (now, key))
        return Person(name=name, roles=_read_roles(roles), session=identity)

    def sessions(self, name: str) -> list[BrowserSession]:
        """Return somebody's sessions that have not ended, newest first."""
        now = self._clock()
        rows = self._rows(
            "SELECT id, person, created, seen FROM sessions WHERE person = ? AND created > ? AND seen > ? "
            "ORDER BY created DESC",
            name,
            now - ABSOLUTE,
            now - IDLE,
        )
        return [BrowserSession(id=row[0], person=row[1], created=row[2], seen=row[3]) for row in rows]

    def end_session(self, name: str, identity: str | None = None) -> int:
        """End one session of somebody, or all of them; return how many ended."""
        with self._changing() as connection:
            if identity is None:
                return connection.execute("DELETE FROM sessions WHERE person = ?", (name,)).rowcount
            gone = "DELETE FROM sessions WHERE person = ? AND id = ?"
            return connection.execute(gone, (name, identity)).rowcount

    # tokens

    def make_token(
        self,
        name: str,
        *,
        label: str = "",
        scopes: Iterable[str] = ("read", "ask"),
        days: float = TOKEN_DAYS,
        until: float = math.inf,
    ) -> tuple[Token, str]:
        """Return a new token and its secret, which is shown this once; it ends with the one that it was made by."""
        chosen = tuple(scope for scope in SCOPES if scope in set(scopes))
        if not chosen or set(scopes) - set(SCOPES):
            raise InvalidValueError("scopes", got=list(scopes), allowed=f"some of {', '.join(SCOPES)}")
        if not 0 < days <= LONGEST_TOKEN_DAYS:
            raise InvalidValueError("days", got=days, allowed=f"a number of days up to {LONGEST_TOKEN_DAYS}")
        if len(label) > 200 or not (label.isprintable() or not label):
            raise InvalidValueError("label", got=label, allowed="up to 200 printable characters")
        secret, now = f"hush_{secrets.token_urlsafe(32)}", self._clock()
        token = Token(
            id=secrets.token_hex(8),
            person=name,
            label=label,
            scopes=chosen,
            created=now,
            expires=min(now + days * 86400, until),
        )
        with self._changing() as connection:
            row = (hashed(secret), token.id, name, label, " ".join(chosen), now, token.expires)
            try:
                connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise PeopleError(f"There is nobody called {name!r}.") from None
        return token, secret

    def token(self, secret: str) -> Person | None:
        """Return whose token this is, with the scopes it has, if it has not expired."""
        found = self._rows(
            "SELECT t.person, p.roles, t.scopes, t.expires FROM tokens t JOIN people p ON p.name = t.person "
            "WHERE t.hash = ?",
            hashed(secret),
        )
        if not found or found[0][3] <= self._clock():
            return None
        name, roles, scopes, expires = found[0]
        return Person(name=name, roles=_read_roles(roles), scopes=frozenset(scopes.split()), expires=expires)

    def tokens(self, name: str) -> list[Token]:
        """Return somebody's tokens, newest first; those that expired too."""
        rows = self._rows(
            "SELECT id, person, label, scopes, created, expires FROM tokens WHERE person = ? ORDER BY created DESC",
            name,
        )
        return [
            Token(id=row[0], person=row[1], label=row[2], scopes=tuple(row[3].split()), created=row[4], expires=row[5])
            for row in rows
        ]

    def revoke_token(self, name: str, identity: str) -> bool:
        """End a token of somebody; say whether there was one."""
        with self._changing() as connection:
            gone = "DELETE FROM tokens WHERE person = ? AND id = ?"
            return bool(connection.execute(gone, (name, identity)).rowcount)

    # backup

    def backup(self, place: str | Path) -> None:
        """Write a copy of everything to a new file, while the service goes on."""
        if Path(place).exists():
            raise InvalidValueError("place", got=str(place), allowed="a file that does not exist yet")
        with self._lock:
            target = sqlite(place, "", durable=True)
            try:
                self._connection.backup(target)
            finally:
                target.close()


def _roles(roles: Iterable[Role]) -> str:
    names = sorted({role.value for role in roles})
    if not names:
        raise InvalidValueError("roles", got=[], allowed="at least one of owner and analyst")
    return json.dumps(names)


def _read_roles(text: str) -> frozenset[Role]:
    return frozenset(Role(name) for name in json.loads(text))


@cache
def _hasher() -> Any:
    import argon2

    return argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


@cache
def _stand_in() -> str:
    """Return the hash of a password that nobody knows."""
    return str(_hasher().hash(secrets.token_urlsafe(32)))
