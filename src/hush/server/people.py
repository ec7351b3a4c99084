"""Who may use a service: people, their tokens, sessions and one-time links, in SQLite or PostgreSQL.

Budgets are not here but in the ledger. Nothing here is kept in a process's memory, so all workers see a revocation at
once. Whatever is done here is written down with who did it, in the same change, and goes into the ledger's chain from
there (`hush.server.audit`). Revoking a token revokes whatever was made with it.

Secrets are stored as hashes only:

*   tokens, sessions and links are 256 random bits, so one SHA-256 hides them as well as anything could, and a lookup
    costs microseconds (a slow hash on every request would be a denial of service by ourselves);
*   passwords are chosen by people, so they go through a slow one (`hush.server.passwords`).

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
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Self

from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger import OwnerAct, Role
from hush.ledger.actors import label
from hush.ledger.system import now
from hush.server import passwords, people_tables
from hush.server.errors import PeopleError
from hush.server.storage import TakenError, in_database, open_storage

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
_SEEN = 60
"""A session's last use is written down at most so often."""


_ACTING: ContextVar[tuple[str, str]] = ContextVar("acting", default=("", ""))
"""Who acts at the moment, and by which token."""


@contextmanager
def acting(name: str, token: str = "") -> Iterator[None]:
    """Let somebody be who does what is done to people, and their token be what takes along what is made."""
    before = _ACTING.set((name, token))
    try:
        yield
    finally:
        _ACTING.reset(before)


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
    token: str = ""
    """The id of the token that was shown, or with which this session was begun: it takes along what is made now."""

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


class People:
    """The people of a service. Use it from any thread.

    ``by`` names whoever acts outside of `acting`: somebody at the machine.
    """

    def __init__(self, place: str | Path, *, clock: Callable[[], float] = time.time, by: str = "machine") -> None:
        self._storage = open_storage(place, (), durable=True)
        self._clock = clock
        self._by = label(by, "by")
        self.acted = True
        """Whether there may be acts that are not in the ledger yet."""
        try:
            with self._storage.changing():
                people_tables.prepare(self._storage, database=in_database(place))
        except BaseException:
            self._storage.close()
            raise

    @classmethod
    def in_memory(cls, *, clock: Callable[[], float] = time.time) -> Self:
        """Return a store that lives and dies with this process."""
        return cls(":memory:", clock=clock)

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._storage.close()

    # acts

    def _act(self, what: str, whom: str, **detail: str) -> None:
        """Write down what is done, in the change that does it, until it stands in the ledger (`hush.server.audit`)."""
        identity = secrets.token_hex(16)
        content = {"by": _ACTING.get()[0] or self._by, "what": what, "whom": whom, "detail": detail, "when": now()}
        self._storage.change("INSERT INTO hush_outbox VALUES (?, ?)", identity, json.dumps(content))
        self.acted = True

    def note(self, what: str, whom: str = "", **detail: str) -> None:
        """Write down an act that changes nothing here, such as a policy that was written."""
        with self._storage.changing():
            self._act(what, whom, **detail)

    def outbox(self) -> list[OwnerAct]:
        """Return the acts that are not in the ledger yet, oldest first."""
        rows = self._storage.rows("SELECT id, content FROM hush_outbox")
        acts = [OwnerAct(identity=identity, **json.loads(content)) for identity, content in rows]
        return sorted(acts, key=lambda act: act.when)

    def recorded(self, act: OwnerAct) -> None:
        """Forget an act that stands in the ledger now."""
        with self._storage.changing():
            self._storage.change("DELETE FROM hush_outbox WHERE id = ?", act.identity)

    # people

    def add(self, name: str, *, roles: Iterable[Role]) -> None:
        """Add somebody, who cannot sign in before they have a link, a password or a token."""
        wanted = _roles(roles)
        try:
            with self._storage.changing():
                self._insert(name, wanted)
        except TakenError:
            raise PeopleError(f"There is somebody called {name!r} already; choose another name.") from None

    def _insert(self, name: str, roles: str) -> None:
        into = "INSERT INTO hush_people (name, roles, created) VALUES (?, ?, ?)"
        self._storage.change(into, label(name, "name"), roles, self._clock())
        self._act("add-person", name, roles=_told_roles(roles))

    def set_roles(self, name: str, *, roles: Iterable[Role]) -> bool:
        """Give somebody other roles, for what they do from now on; return whether that changes anything."""
        with self._storage.changing():
            return self._change_roles(name, roles)

    def _change_roles(self, name: str, roles: Iterable[Role]) -> bool:
        wanted, before = _roles(roles), self.names()
        if name not in before:
            raise PeopleError(f"There is nobody called {name!r}.")
        if before[name] == _read_roles(wanted):
            return False
        self._storage.change("UPDATE hush_people SET roles = ? WHERE name = ?", wanted, name)
        self._check_owner(name, before[name])
        self._act("change-roles", name, roles=_told_roles(wanted))
        return True

    def remove(self, name: str) -> None:
        """Remove somebody with all their sessions, tokens and links; the ledger keeps what they asked."""
        with self._storage.changing():
            gone = self._storage.rows("DELETE FROM hush_people WHERE name = ? RETURNING roles", name)
            if not gone:
                raise PeopleError(f"There is nobody called {name!r}.")
            self._check_owner(name, _read_roles(gone[0][0]))
            self._act("remove-person", name)

    def _check_owner(self, name: str, before: frozenset[Role]) -> None:
        """Refuse a change that leaves no owner."""
        if Role.OWNER in before and not any(Role.OWNER in roles for roles in self.names().values()):
            raise PeopleError(f"{name!r} is the last owner; add another one first.")

    def names(self) -> dict[str, frozenset[Role]]:
        """Return everybody, with their roles."""
        everybody = "SELECT name, roles FROM hush_people ORDER BY name"
        return {name: _read_roles(roles) for name, roles in self._storage.rows(everybody)}

    def person(self, name: str) -> Person | None:
        """Return somebody by name."""
        roles = self.names().get(name)
        return None if roles is None else Person(name=name, roles=roles)

    # passwords

    def set_password(self, name: str, password: str) -> None:
        """Give somebody a password; all their sessions end."""
        scrambled = passwords.scrambled(password)
        with self._storage.changing():
            if not self._storage.change("UPDATE hush_people SET password = ? WHERE name = ?", scrambled, name):
                raise PeopleError(f"There is nobody called {name!r}.")
            self._storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
            self._act("set-password", name)

    def check_password(self, name: str, password: str) -> Person | None:
        """Return who has this name and password; as slow for a name that nobody has."""
        stored = self._storage.rows("SELECT password FROM hush_people WHERE name = ?", name)
        right = passwords.matches(stored[0][0] if stored else None, password)
        return self.person(name) if right else None

    def may_change(self, who: Person, old: str) -> bool:
        """Return whether somebody may have a new password: who knows the old one, or has none and shows no token.

        A password allows more than a token may be for.
        """
        stored = self._storage.rows("SELECT password FROM hush_people WHERE name = ?", who.name)
        first = bool(stored) and stored[0][0] is None and bool(who.session)
        return first or self.check_password(who.name, old) is not None

    def can_sign_in(self) -> bool:
        """Return whether an owner has a password or a token, or is signed in."""
        ways = (
            "SELECT roles FROM hush_people WHERE password IS NOT NULL OR EXISTS (SELECT 1 FROM hush_tokens WHERE "
            "person = name AND expires > ?) OR EXISTS (SELECT 1 FROM hush_sessions s WHERE s.person = name AND "
            "s.seen > ? AND s.created > ?)"
        )
        now = self._clock()
        rows = self._storage.rows(ways, now, now - IDLE, now - ABSOLUTE)
        return any(Role.OWNER in _read_roles(roles) for (roles,) in rows)

    # people of an OpenID provider

    def bind_identity(
        self, issuer: str, subject: str, name: str, *, roles: frozenset[Role] | None = None
    ) -> Person | None:
        """Return who a provider's subject is here; None for a name that is somebody else's.

        The first sign-in binds the subject to a name: to that of somebody whom the owner has added and who has no
        password, or, with ``roles``, to a new one. Later ones change the roles, where the provider says them.
        """
        with self._storage.changing():
            query = "SELECT person FROM hush_identities WHERE issuer = ? AND subject = ?"
            bound = self._storage.rows(query, issuer, subject)
            if not bound:
                taken = (
                    "SELECT p.password IS NOT NULL OR EXISTS (SELECT 1 FROM hush_identities i WHERE i.person = p.name) "
                    "FROM hush_people p WHERE p.name = ?"
                )
                namesakes = self._storage.rows(taken, name)
                if (namesakes and namesakes[0][0]) or not (namesakes or roles):
                    return None
                if not namesakes:
                    self._insert(name, _roles(roles or ()))
                self._storage.change("INSERT INTO hush_identities VALUES (?, ?, ?)", issuer, subject, name)
            who = bound[0][0] if bound else name
            if roles is not None:
                self._change_roles(who, roles)
        return self.person(who)

    # one-time links

    def make_link(self, name: str, *, seconds: float = LINK) -> str:
        """Return a secret that signs somebody in once, as long as the token it was made with is not revoked."""
        secret = secrets.token_urlsafe(32)
        with self._storage.changing():
            row = (hashed(secret), name, self._clock() + seconds, _ACTING.get()[1])
            try:
                self._storage.change("INSERT INTO hush_links (hash, person, expires, maker) VALUES (?, ?, ?, ?)", *row)
            except TakenError:
                raise PeopleError(f"There is nobody called {name!r}.") from None
            self._act("make-link", name)
        return secret

    def use_link(self, secret: str) -> Person | None:
        """Return whom a link signs in, and use it up."""
        with self._storage.changing():
            gone = "DELETE FROM hush_links WHERE hash = ? RETURNING person, expires, maker"
            links = self._storage.rows(gone, hashed(secret))
            if not links or links[0][1] <= self._clock():
                return None
            name, _, maker = links[0]
            # A token that signs its own bearer in takes along what they do so. For others it only opened the door.
            own = self._storage.rows("SELECT expires FROM hush_tokens WHERE id = ? AND person = ?", maker, name)
        if own and own[0][0] <= self._clock():
            return None
        person = self.person(name)
        return replace(person, token=maker) if person is not None and own else person

    # sessions

    def begin_session(self, name: str, *, maker: str = "") -> str:
        """Return the secret of a new session."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        into = "INSERT INTO hush_sessions (hash, id, person, created, seen, maker) VALUES (?, ?, ?, ?, ?, ?)"
        with self._storage.changing():
            self._storage.change("DELETE FROM hush_sessions WHERE created < ? OR seen < ?", now - ABSOLUTE, now - IDLE)
            self._storage.change(into, hashed(secret), secrets.token_hex(8), name, now, now, maker)
        return secret

    def session(self, secret: str) -> Person | None:
        """Return whose session this is, if it has not ended."""
        now, key = self._clock(), hashed(secret)
        sessions = self._storage.rows(
            "SELECT s.id, s.person, p.roles, s.created, s.seen, s.maker FROM hush_sessions s "
            "JOIN hush_people p ON p.name = s.person WHERE s.hash = ?",
            key,
        )
        if not sessions:
            return None
        identity, name, roles, created, seen, maker = sessions[0]
        if now - created >= ABSOLUTE or now - seen >= IDLE:
            return None
        if now - seen >= _SEEN:
            with self._storage.changing():
                self._storage.change("UPDATE hush_sessions SET seen = ? WHERE hash = ?", now, key)
        return Person(name=name, roles=_read_roles(roles), session=identity, token=maker)

    def sessions(self, name: str) -> list[BrowserSession]:
        """Return somebody's sessions that have not ended, newest first."""
        now = self._clock()
        rows = self._storage.rows(
            "SELECT id, person, created, seen FROM hush_sessions WHERE person = ? AND created > ? AND seen > ? "
            "ORDER BY created DESC",
            name,
            now - ABSOLUTE,
            now - IDLE,
        )
        return [BrowserSession(id=row[0], person=row[1], created=row[2], seen=row[3]) for row in rows]

    def end_session(self, name: str, identity: str | None = None) -> int:
        """End one session of somebody, or all of them; return how many ended."""
        with self._storage.changing():
            if identity is None:
                self._act("sign-out", name)
                return self._storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
            return self._storage.change("DELETE FROM hush_sessions WHERE person = ? AND id = ?", name, identity)

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
        """Return a new token and its secret, which is shown this once.

        It ends with the token that it was made with: when that one expires, which is ``until``, or is revoked.
        """
        chosen = tuple(scope for scope in SCOPES if scope in set(scopes))
        if not chosen or set(scopes) - set(SCOPES):
            raise InvalidValueError("scopes", got=list(scopes), allowed=f"some of {', '.join(SCOPES)}")
        if not 0 < days <= LONGEST_TOKEN_DAYS:
            raise InvalidValueError("days", got=days, allowed=f"a number of days up to {LONGEST_TOKEN_DAYS}")
        if len(label) > 200 or not (label.isprintable() or not label):
            raise InvalidValueError("label", got=label, allowed="up to 200 printable characters")
        secret, now, maker = f"hush_{secrets.token_urlsafe(32)}", self._clock(), _ACTING.get()[1]
        ends = [row[0] for row in self._storage.rows("SELECT expires FROM hush_tokens WHERE id = ?", maker)]
        expires = min(now + days * 86400, until, *ends)
        token = Token(id=secrets.token_hex(8), person=name, label=label, scopes=chosen, created=now, expires=expires)
        names = people_tables.COPIED["hush_tokens"]
        into = f"INSERT INTO hush_tokens ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - ours
        with self._storage.changing():
            row = (hashed(secret), token.id, name, label, " ".join(chosen), now, expires, maker)
            try:
                self._storage.change(into, *row)
            except TakenError:
                raise PeopleError(f"There is nobody called {name!r}.") from None
            self._act("make-token", name, id=token.id, scopes=" ".join(chosen))
        return token, secret

    def token(self, secret: str) -> Person | None:
        """Return whose token this is, with the scopes it has, if it has not expired."""
        tokens = self._storage.rows(
            "SELECT t.person, p.roles, t.scopes, t.expires, t.id FROM hush_tokens t "
            "JOIN hush_people p ON p.name = t.person WHERE t.hash = ?",
            hashed(secret),
        )
        if not tokens or tokens[0][3] <= self._clock():
            return None
        name, roles, scopes, expires, identity = tokens[0]
        allowed = frozenset(scopes.split())
        return Person(name=name, roles=_read_roles(roles), scopes=allowed, expires=expires, token=identity)

    def tokens(self, name: str) -> list[Token]:
        """Return somebody's tokens, newest first; those that expired too."""
        names = "id, person, label, scopes, created, expires"
        rows = self._storage.rows(
            f"SELECT {names} FROM hush_tokens WHERE person = ? ORDER BY created DESC",  # noqa: S608 - ours
            name,
        )
        return [
            Token(id=row[0], person=row[1], label=row[2], scopes=tuple(row[3].split()), created=row[4], expires=row[5])
            for row in rows
        ]

    def revoke_token(self, name: str, identity: str) -> bool:
        """End a token of somebody, with whatever was made by it; say whether there was one."""
        made = (
            "WITH RECURSIVE gone (id) AS (SELECT id FROM hush_tokens WHERE person = ? AND id = ? UNION "
            "SELECT t.id FROM hush_tokens t JOIN gone g ON t.maker = g.id) SELECT id FROM gone"
        )
        with self._storage.changing():
            gone = [row[0] for row in self._storage.rows(made, name, identity)]
            for token in gone:
                for table, column in people_tables.ENDED:
                    self._storage.change(f"DELETE FROM {table} WHERE {column} = ?", token)  # noqa: S608 - ours
            if gone:
                more = {"along with": str(len(gone) - 1)} if len(gone) > 1 else {}
                self._act("revoke-token", name, id=identity, **more)
        return bool(gone)

    # backup

    def backup(self, place: str | Path) -> None:
        """Write a copy of everything to a new file, while the service goes on."""
        if Path(place).exists():
            raise InvalidValueError("place", got=str(place), allowed="a file that does not exist yet")
        copy = People(place)
        try:
            with self._storage.changing(), copy._storage.changing():
                people_tables.copy(self._storage, copy._storage)
        finally:
            copy.close()

    def restore(self, place: str | Path) -> None:
        """Put a copy in the place of everything here. All sessions and links end; acts that wait to be recorded stay.

        Tokens that were revoked after the copy was made are good again: revoke them again.
        """
        if not Path(place).is_file():
            raise InvalidValueError("place", got=str(place), allowed="a copy that backup wrote")
        copy = People(place)
        try:
            if not any(Role.OWNER in roles for roles in copy.names().values()):
                raise PeopleError("The copy has no owner, so nobody could act afterwards; nothing was restored.")
            with self._storage.changing(), copy._storage.changing():
                self._storage.change("DELETE FROM hush_people")
                people_tables.copy(copy._storage, self._storage)
                self._act("restore-people", "", people=str(len(self.names())))
        finally:
            copy.close()


def _told_roles(text: str) -> str:
    return ", ".join(json.loads(text))


def _roles(roles: Iterable[Role]) -> str:
    names = sorted({role.value for role in roles})
    if not names:
        raise InvalidValueError("roles", got=[], allowed="at least one of owner and analyst")
    return json.dumps(names)


def _read_roles(text: str) -> frozenset[Role]:
    return frozenset(Role(name) for name in json.loads(text))
