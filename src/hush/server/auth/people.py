"""Who may use a service: people, their tokens, sessions and one-time links, in SQLite or PostgreSQL.

Budgets are not here but in the ledger. Nothing here is kept in a process's memory, so all workers see a revocation at
once. Whatever is done here is written down with who did it, in the same change, and goes into the ledger's chain from
there (`hush.server.monitoring`). Revoking a token revokes whatever was made with it.

Secrets are stored as hashes only:

*   tokens, sessions and links are 256 random bits, so one SHA-256 hides them as well as anything could, and a lookup
    costs microseconds (a slow hash on every request would be a denial of service by ourselves);
*   passwords are chosen by people, so they go through a slow one (`hush.server.auth.credentials`).

>>> people = People(":memory:")
>>> people.add("alice", roles=[Role.ANALYST])
>>> secret = people.make_link("alice")
>>> people.use_link(secret).name, people.use_link(secret)
('alice', None)
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hush.core import InvalidValueError
from hush.ledger import Actor, OwnerAct, Role
from hush.ledger.entries import label, now
from hush.server.auth import credentials
from hush.server.auth.credentials import SecondFactor
from hush.server.errors import PeopleError, SecondOwnerError
from hush.server.settings import open_storage
from hush.storage import ConflictError, Storage, in_database

SCOPES = ("read", "ask", "own")
"""The scopes of tokens: read and explain; spend budget; act as an owner."""
IDLE = 30 * 60
"""Seconds without a request after which a session ends."""
ABSOLUTE = 12 * 3600
"""Seconds after its start at which a session ends in any case."""
LINK = 24 * 3600
"""Seconds for which a one-time link is valid."""
_FAILURES = 10_000
"""How many lines of failed sign-ins are kept."""
PROPOSAL = 7 * 86400
"""Seconds for which a proposal of one owner waits for a second owner."""
TOKEN_DAYS = 90
LONGEST_TOKEN_DAYS = 366
_SEEN = 60
"""Seconds between two writes of a session's last use."""
_VERSION = 3
_OF_PERSON = "person TEXT NOT NULL REFERENCES hush_people ON DELETE CASCADE"
_OF_MAKER = "maker TEXT NOT NULL DEFAULT ''"
_TABLES = {
    "hush_service": "version INTEGER NOT NULL",
    "hush_people": "name TEXT PRIMARY KEY, roles TEXT NOT NULL, password TEXT, created {real} NOT NULL",
    "hush_tokens": f"hash {{blob}} PRIMARY KEY, id TEXT NOT NULL UNIQUE, {_OF_PERSON}, label TEXT NOT NULL, "
    f"scopes TEXT NOT NULL, created {{real}} NOT NULL, expires {{real}} NOT NULL, {_OF_MAKER}",
    "hush_sessions": f"hash {{blob}} PRIMARY KEY, id TEXT NOT NULL UNIQUE, {_OF_PERSON}, created {{real}} NOT NULL, "
    f"seen {{real}} NOT NULL, {_OF_MAKER}",
    "hush_links": f"hash {{blob}} PRIMARY KEY, {_OF_PERSON}, expires {{real}} NOT NULL, {_OF_MAKER}",
    "hush_identities": "issuer TEXT NOT NULL, subject TEXT NOT NULL, "
    "person TEXT NOT NULL UNIQUE REFERENCES hush_people ON DELETE CASCADE, PRIMARY KEY (issuer, subject)",
    "hush_proposals": f"id TEXT NOT NULL, {_OF_PERSON}, what TEXT NOT NULL, content TEXT NOT NULL, "
    "created {real} NOT NULL, PRIMARY KEY (id, person)",
    "hush_dashboards": f"id TEXT PRIMARY KEY, {_OF_PERSON}, content TEXT NOT NULL",
    "hush_outbox": "id TEXT PRIMARY KEY, content TEXT NOT NULL",
    "hush_failures": "hour TEXT NOT NULL, person TEXT NOT NULL, address TEXT NOT NULL, way TEXT NOT NULL, "
    "number INTEGER NOT NULL, PRIMARY KEY (hour, person, address, way)",
}
_ADDED = (("hush_identities", "until", "{real} NOT NULL DEFAULT 0"), ("hush_people", "factor", "TEXT"))
"""Columns of later versions. ``until`` is the moment up to which a provider's sign-in holds. It is 0 for people whom an
earlier version bound by name, without an invitation: they are invited anew, and their tokens wait for that."""
_COPIED = {
    "hush_people": ("name", "roles", "password", "created", "factor"),
    "hush_tokens": ("hash", "id", "person", "label", "scopes", "created", "expires", "maker"),
    "hush_identities": ("person", "issuer", "subject", "until"),
    "hush_dashboards": ("id", "person", "content"),
    "hush_outbox": ("id", "content"),
}
"""The tables and columns in a backup, the key first by which the target may have a row already.

Sessions and links are left out: an ended one must not become valid again.
"""
_CURRENT = "NOT EXISTS (SELECT 1 FROM hush_identities i WHERE i.person = p.name AND i.until <= ?)"
"""The SQL condition that a person, if bound to a provider's subject, has signed in there recently enough."""
_ACTING: ContextVar[tuple[str, str]] = ContextVar("acting", default=("", ""))
"""The name of the acting person, and the id of their token."""


@contextmanager
def acting(name: str, token: str = "") -> Iterator[None]:
    """Record changes inside the context as acts of this person, and new secrets as made with this token.

    Revoking the token then also revokes these secrets.
    """
    before = _ACTING.set((name, token))
    try:
        yield
    finally:
        _ACTING.reset(before)


class FailedSignIn(NamedTuple):
    """A failed sign-in. The way is password, code, link, token, oidc, sql door (the PostgreSQL protocol) or metrics.

    Or "too many" where a rate limit refused the attempt.
    """

    hour: str
    person: str
    """The name that was given, if a person has it; never another text, which may be a password."""
    address: str
    way: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who is signed in, with the scopes of their session or token."""

    name: str
    roles: frozenset[Role]
    scopes: frozenset[str] = frozenset(SCOPES)
    session: str = ""
    """The id of the browser's session; nothing where a token was shown."""
    expires: float = math.inf
    """When the token that was shown ends."""
    token: str = ""
    """The id of the token that was shown or that began this session: revoking it revokes all that is made now."""

    @property
    def owner(self) -> bool:
        """Whether this is an owner."""
        return Role.OWNER in self.roles

    @property
    def owns(self) -> bool:
        """Whether they act as an owner: with a session, or a token for it."""
        return self.owner and "own" in self.scopes

    @property
    def actor(self) -> Actor:
        """The actor for the ledger; an owner without the scope ``own`` is an analyst."""
        return Actor.owner(self.name) if self.owns else Actor.analyst(self.name)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without its secret."""

    id: str
    person: str
    label: str
    scopes: tuple[str, ...]
    created: float
    expires: float


def hashed(secret: str) -> bytes:
    """Return the SHA-256 hash of a secret, which is stored instead of the secret."""
    return hashlib.sha256(secret.encode()).digest()


class People:
    """The people of a service. Use it from any thread.

    ``by`` is the name for acts outside of `acting`: somebody at the machine. With ``two_owners`` only they can make an
    owner or a link for one: an owner who could would be two owners alone. Removing an owner then takes two.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        clock: Callable[[], float] = time.time,
        by: str = "machine",
        two_owners: bool = False,
    ) -> None:
        self._two_owners = two_owners
        self.storage = open_storage(place, (), durable=True)
        """The tables themselves, for dashboards, which lie beside the people (`hush.server.dashboards`)."""
        self._clock = clock
        self._by = label(by, "by")
        self.acted = True
        """Whether there may be acts that are not in the ledger yet."""
        try:
            with self.storage.changing():
                _prepare(self.storage)
        except BaseException:
            self.storage.close()
            raise

    def close(self) -> None:
        """Let go of the file or the connection."""
        self.storage.close()

    # acts

    def _act(self, what: str, whom: str = "", /, **detail: str) -> None:
        """Store an act in the outbox, in the same transaction as its change (`hush.server.monitoring`)."""
        identity = secrets.token_hex(16)
        content = {"by": _ACTING.get()[0] or self._by, "what": what, "whom": whom, "detail": detail, "when": now()}
        _insert(self.storage, "hush_outbox", id=identity, content=json.dumps(content))
        self.acted = True

    def note(self, what: str, whom: str = "", **detail: str) -> None:
        """Store an act that changes nothing in this store, for example that the policy was written."""
        with self.storage.changing():
            self._act(what, whom, **detail)

    def outbox(self) -> list[OwnerAct]:
        """Return the acts that are not in the ledger yet, oldest first."""
        rows = self.storage.rows("SELECT id, content FROM hush_outbox")
        acts = [OwnerAct(identity=identity, **json.loads(content)) for identity, content in rows]
        return sorted(acts, key=lambda act: act.when)

    def recorded(self, act: OwnerAct) -> None:
        """Delete an act from the outbox, after it was written into the ledger."""
        self.storage.change("DELETE FROM hush_outbox WHERE id = ?", act.identity)

    def fail(self, failures: Mapping[FailedSignIn, int]) -> None:
        """Add to the counts of failed sign-ins; the oldest lines are deleted."""
        into = (
            "INSERT INTO hush_failures VALUES (?, ?, ?, ?, ?) ON CONFLICT (hour, person, address, way) DO UPDATE "
            "SET number = hush_failures.number + excluded.number"
        )
        with self.storage.changing():
            for failed, number in failures.items():
                self.storage.change(into, *failed, number)
            oldest = "SELECT hour FROM hush_failures ORDER BY hour DESC LIMIT 1 OFFSET ?"
            for (hour,) in self.storage.rows(oldest, _FAILURES):
                self.storage.change("DELETE FROM hush_failures WHERE hour <= ?", hour)

    def failures(self) -> dict[FailedSignIn, int]:
        """Return the counts of failed sign-ins by the hour, oldest first."""
        rows = self.storage.rows("SELECT hour, person, address, way, number FROM hush_failures ORDER BY 1, 2, 3, 4")
        return {FailedSignIn(*row[:4]): row[4] for row in rows}

    # people

    def add(self, name: str, *, roles: Iterable[Role]) -> None:
        """Add somebody, who cannot sign in before they have a link, a password or a token."""
        role_text = _roles(roles)
        self._check_second(name, _read_roles(role_text))
        try:
            with self.storage.changing():
                row = {"name": label(name, "name"), "roles": role_text, "created": self._clock()}
                _insert(self.storage, "hush_people", **row)
                self._act("add-person", name, roles=", ".join(json.loads(role_text)))
        except ConflictError:
            raise PeopleError(f"There is somebody called {name!r} already; choose another name.") from None

    def _check_second(self, name: str, roles: Iterable[Role]) -> None:
        """Refuse to make another owner, or a link for one, where acts need two owners."""
        # "" is somebody at the machine. A link for oneself adds no second owner.
        if self._two_owners and Role.OWNER in roles and _ACTING.get()[0] not in {"", name}:
            raise PeopleError("This service asks two owners, so owners and links for them are made at the machine.")

    def set_roles(self, name: str, *, roles: Iterable[Role]) -> bool:
        """Set the roles of a person from now on; return whether they differ from before."""
        with self.storage.changing():
            return self._change_roles(name, roles)

    def _change_roles(self, name: str, roles: Iterable[Role]) -> bool:
        role_text, before = _roles(roles), self.names()
        if name not in before:
            raise _nobody(name)
        if before[name] == _read_roles(role_text):
            return False
        if Role.OWNER not in _read_roles(role_text):
            self._check_owner(name, before[name])
        self.storage.change("UPDATE hush_people SET roles = ? WHERE name = ?", role_text, name)
        self._act("change-roles", name, roles=", ".join(json.loads(role_text)))
        return True

    def remove(self, name: str) -> None:
        """Remove a person with all their sessions, tokens and links; the ledger keeps their charges.

        With ``two_owners`` an owner is removed once a second owner has done the same: one alone would else remain as
        the only one, and what takes two could be prepared by one.
        """
        by = _ACTING.get()[0]
        takes_two = self._two_owners and by and Role.OWNER in self.names().get(name, ())
        if takes_two and not self.agreed(by, "remove-owner", name):
            raise SecondOwnerError
        with self.storage.changing():
            gone = self.storage.rows("DELETE FROM hush_people WHERE name = ? RETURNING roles", name)
            if not gone:
                raise _nobody(name)
            # In the same transaction as the deletion, which a refusal rolls back.
            self._check_owner(name, _read_roles(gone[0][0]))
            self._act("remove-person", name)

    def _check_owner(self, name: str, before: frozenset[Role]) -> None:
        """Refuse to remove the last owner, or to take their role."""
        other_roles = (roles for person, roles in self.names().items() if person != name)
        if Role.OWNER in before and not any(Role.OWNER in roles for roles in other_roles):
            raise PeopleError(f"{name!r} is the last owner; add another one first.")

    def names(self) -> dict[str, frozenset[Role]]:
        """Return everybody, with their roles."""
        everybody = "SELECT name, roles FROM hush_people ORDER BY name"
        return {name: _read_roles(roles) for name, roles in self.storage.rows(everybody)}

    def _insert_of(self, name: str, table: str, **row: Any) -> None:
        """Insert a row about a person, inside of a transaction; refuse a name that nobody has."""
        try:
            _insert(self.storage, table, person=name, **row)
        except ConflictError:
            raise _nobody(name) from None

    def person(self, name: str) -> Person | None:
        """Return somebody by name."""
        roles = self.names().get(name)
        return None if roles is None else Person(name=name, roles=roles)

    # passwords

    def set_password(self, name: str, password: str) -> None:
        """Give somebody a password; all their sessions end."""
        scrambled = credentials.scrambled(password)
        with self.storage.changing():
            if not self.storage.change("UPDATE hush_people SET password = ? WHERE name = ?", scrambled, name):
                raise _nobody(name)
            self.storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
            self._act("set-password", name)

    def check_password(self, name: str, password: str) -> Person | None:
        """Return the person with this name and password, if any; an unknown name takes the same time."""
        query = f"SELECT p.password FROM hush_people p WHERE p.name = ? AND {_CURRENT}"  # noqa: S608 - ours
        stored = self.storage.rows(query, name, self._clock())
        # A name without a valid password is compared too, with a stand-in, so that it takes as long.
        right = credentials.matches(stored[0][0] if stored else None, password)
        return self.person(name) if right else None

    # second factors

    def _factor(self, name: str) -> SecondFactor | None:
        return SecondFactor.read(next(iter(self._stored(name, "factor")), None))

    def _keep_factor(self, name: str, factor: SecondFactor | None) -> None:
        content = None if factor is None else factor.written()
        if not self.storage.change("UPDATE hush_people SET factor = ? WHERE name = ?", content, name):
            raise _nobody(name)

    def has_factor(self, name: str) -> bool:
        """Return whether a person needs a code of a second factor to sign in."""
        factor = self._factor(name)
        return factor is not None and factor.on

    def begin_factor(self, name: str) -> SecondFactor:
        """Store and return a new second factor of a person, which is off until they have shown a code."""
        factor = SecondFactor()
        with self.storage.changing():
            if self.has_factor(name):
                raise PeopleError(f"{name!r} has a second factor already; turn it off first.")
            self._keep_factor(name, factor)
        return factor

    def confirm_factor(self, name: str, code: str) -> list[str]:
        """Turn a second factor on after its first code; return its recovery codes, which are shown this once."""
        with self.storage.changing():
            factor = self._factor(name)
            used_factor = None if factor is None or factor.on else factor.after(code, self._clock())
            if used_factor is None:
                raise PeopleError("The code is not right. Take the one that the app shows now.")
            active_factor, codes = used_factor.turned_on()
            self._keep_factor(name, active_factor)
            self._act("set-factor", name)
        return codes

    def use_code(self, name: str, code: str) -> bool:
        """Return whether a code of somebody's second factor is right, and use it up."""
        with self.storage.changing():
            factor = self._factor(name)
            # Read and stored in one transaction: no two workers accept the same code.
            used_factor = factor.after(code, self._clock()) if factor is not None and factor.on else None
            if used_factor is not None:
                self._keep_factor(name, used_factor)
        return used_factor is not None

    def drop_factor(self, name: str) -> None:
        """Turn somebody's second factor off."""
        with self.storage.changing():
            if self.has_factor(name):
                self._act("drop-factor", name)
            self._keep_factor(name, None)

    def may_change(self, who: Person, old: str) -> bool:
        """Return whether a person may set a password: with the old one, or a first one without a token.

        A password allows more than a token may be for, and outlives it.
        """
        first = self._stored(who.name, "password") == [None] and bool(who.session) and not who.token
        return first or self.check_password(who.name, old) is not None

    def familiar(self, name: str) -> str:
        """Return the mark of browsers in which a person signed in with their present password; "" without a password.

        It follows from the stored hash, whose salt nobody has who has not read the store, and ends with the password.
        """
        if (scrambled := next(iter(self._stored(name, "password")), None)) is None:
            return ""
        return hmac.new(scrambled.encode(), b"familiar\0" + name.encode(), "sha256").hexdigest()

    def _stored(self, name: str, column: str) -> list[Any]:
        """Return the value of a column for a person; nothing if there is no such person."""
        return [row[0] for row in self.storage.rows(f"SELECT {column} FROM hush_people WHERE name = ?", name)]  # noqa: S608 - ours

    def can_sign_in(self) -> bool:
        """Return whether any owner has a password or a token, signs in at a provider, or is signed in."""
        ways = (
            "SELECT roles FROM hush_people WHERE password IS NOT NULL OR EXISTS (SELECT 1 FROM hush_tokens WHERE "
            "person = name AND expires > ?) OR EXISTS (SELECT 1 FROM hush_sessions s WHERE s.person = name AND "
            "s.seen > ? AND s.created > ?) OR EXISTS (SELECT 1 FROM hush_identities i WHERE i.person = name AND "
            "i.until > ?)"
        )
        now = self._clock()
        rows = self.storage.rows(ways, now, now - IDLE, now - ABSOLUTE, now)
        return any(Role.OWNER in _read_roles(roles) for (roles,) in rows)

    # people of an OpenID provider

    def identified(
        self, issuer: str, subject: str, *, roles: frozenset[Role] | None, link: bytes, seconds: float
    ) -> Person:
        """Return the person bound to a provider's subject; raise an error if the owner has not invited them.

        ``link`` is the hash of a one-time link, or nothing. It is used up, and binds the subject to its person: one
        subject to one person, until somebody at the machine unbinds them. ``roles`` are what the provider says, or None
        where the owner gives them; who has none left is suspended. What it says holds for some ``seconds``.
        """
        now = self._clock()
        with self.storage.changing():
            if link:
                self._bind(issuer, subject, link)
            query = "SELECT person, until FROM hush_identities WHERE issuer = ? AND subject = ? AND until > 0"
            bound = self.storage.rows(query, issuer, subject)
            if not bound:
                raise PeopleError("the owner has not invited this subject")
            name, until = bound[0]
            try:
                if roles is not None:
                    self._change_roles(name, roles)
            except (InvalidValueError, PeopleError) as error:  # no role is left, or the last owner's would go
                if link:
                    raise PeopleError(str(error)) from None  # nobody is bound, and the link stays good
                # The suspension must be committed, so the refusal is raised after the transaction.
                refusal, ends = str(error), min(until, now)
            else:
                refusal, ends = "", now + seconds
            self.storage.change("UPDATE hush_identities SET until = ? WHERE person = ?", ends, name)
            # Only the first refusal suspends: later ones would repeat the act.
            if refusal and until > now:
                self.storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
                self._act("suspend-person", name)
        person = self.person(name)
        if refusal or person is None:
            raise PeopleError(f"the provider gives no role that can hold: {refusal}")
        return person

    def _bind(self, issuer: str, subject: str, link: bytes) -> None:
        """Bind a subject to the person of a link, inside of a transaction."""
        invited = self._take_link(link)
        if invited is None or invited[1]:  # what a token made for its own bearer would outlive the token
            raise PeopleError("the link was used before, is too old, or was made with a token for its own bearer")
        bound = (issuer, subject, invited[0])
        columns = "SELECT issuer, subject, person, until FROM hush_identities "
        query = f"{columns} WHERE (issuer = ? AND subject = ?) OR person = ?"
        for *identity, until in self.storage.rows(query, *bound):
            if tuple(identity) == bound:
                continue
            if until > 0:
                raise PeopleError("the person or the subject is bound already; unbind them first")
            self._unbind(identity[2])  # bound by name, by an earlier version: it was nobody's invitation
        into = "INSERT INTO hush_identities (issuer, subject, person, until) VALUES (?, ?, ?, ?) "
        into += "ON CONFLICT (issuer, subject) DO UPDATE SET until = excluded.until"
        self.storage.change(into, *bound, self._clock())
        self._act("bind-identity", invited[0], issuer=issuer, subject=subject)

    def unbind(self, name: str) -> bool:
        """Delete a person's binding to a provider, their sessions, tokens and password; return whether they were bound.

        The subject could have made these, so they end with the binding.
        """
        with self.storage.changing():
            return self._unbind(name)

    def _unbind(self, name: str) -> bool:
        if not self.storage.change("DELETE FROM hush_identities WHERE person = ?", name):
            return False
        self.storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
        self.storage.change("DELETE FROM hush_tokens WHERE person = ?", name)
        self.storage.change("UPDATE hush_people SET password = NULL WHERE name = ?", name)
        self._act("unbind-identity", name)
        return True

    # one-time links

    def make_link(self, name: str, *, seconds: float = LINK) -> str:
        """Return a secret that signs somebody in once, as long as the token it was made with is not revoked."""
        secret = secrets.token_urlsafe(32)
        self._check_second(name, self.names().get(name, ()))
        with self.storage.changing():
            row = {"hash": hashed(secret), "expires": self._clock() + seconds, "maker": _ACTING.get()[1]}
            self._insert_of(name, "hush_links", **row)
            self._act("make-link", name)
        return secret

    def use_link(self, secret: str) -> Person | None:
        """Return the person of a link, and delete it; None if it is not valid."""
        with self.storage.changing():
            link = self._take_link(hashed(secret))
        person = None if link is None else self.person(link[0])
        return None if link is None or person is None else replace(person, token=link[1])

    def _take_link(self, key: bytes) -> tuple[str, str] | None:
        """Delete a link, inside of a transaction; return its person, and the token that its session must end with."""
        gone = "DELETE FROM hush_links WHERE hash = ? RETURNING person, expires, maker"
        links = self.storage.rows(gone, key)
        if not links or links[0][1] <= self._clock():
            return None
        name, _, maker = links[0]
        # A link that a token made for its own bearer must end with the token; else a link would outlive a revocation.
        # A link for another person is an invitation, and stays valid without the token.
        bearer_tokens = self.storage.rows("SELECT expires FROM hush_tokens WHERE id = ? AND person = ?", maker, name)
        if bearer_tokens and bearer_tokens[0][0] <= self._clock():
            return None
        return name, maker if bearer_tokens else ""

    # sessions

    def begin_session(self, name: str, *, maker: str = "") -> str:
        """Return the secret of a new session."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        row = {"hash": hashed(secret), "id": secrets.token_hex(8), "created": now, "seen": now, "maker": maker}
        with self.storage.changing():
            self.storage.change("DELETE FROM hush_sessions WHERE created < ? OR seen < ?", now - ABSOLUTE, now - IDLE)
            self._insert_of(name, "hush_sessions", **row)
        return secret

    def session(self, secret: str) -> Person | None:
        """Return the person of a session; None if it is unknown or has ended."""
        now, key = self._clock(), hashed(secret)
        columns = "SELECT s.id, s.person, p.roles, s.created, s.seen, s.maker FROM hush_sessions s "
        sessions = self.storage.rows(f"{columns} JOIN hush_people p ON p.name = s.person WHERE s.hash = ?", key)
        if not sessions or now - sessions[0][3] >= ABSOLUTE or now - sessions[0][4] >= IDLE:
            return None
        identity, name, roles, _, last_use, maker = sessions[0]
        # Not at every request: a read must not always cost a write.
        if now - last_use >= _SEEN:
            self.storage.change("UPDATE hush_sessions SET seen = ? WHERE hash = ?", now, key)
        return Person(name=name, roles=_read_roles(roles), session=identity, token=maker)

    def sessions(self, name: str) -> list[dict[str, Any]]:
        """Return somebody's sessions that have not ended, newest first, each with when it began and was last used."""
        now, fields = self._clock(), ("id", "person", "created", "seen")
        alive = "person = ? AND created > ? AND seen > ? ORDER BY created DESC"
        query = f"SELECT {', '.join(fields)} FROM hush_sessions WHERE {alive}"  # noqa: S608 - ours
        rows = self.storage.rows(query, name, now - ABSOLUTE, now - IDLE)
        return [dict(zip(fields, row, strict=True)) for row in rows]

    def end_session(self, name: str, identity: str | None = None) -> int:
        """End one session or all sessions of a person; return how many ended."""
        with self.storage.changing():
            if identity is None:
                self._act("sign-out", name)
                return self.storage.change("DELETE FROM hush_sessions WHERE person = ?", name)
            return self.storage.change("DELETE FROM hush_sessions WHERE person = ? AND id = ?", name, identity)

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
        token_scopes = tuple(scope for scope in SCOPES if scope in set(scopes))
        if not token_scopes or set(scopes) - set(SCOPES):
            raise InvalidValueError("scopes", got=list(scopes), allowed=f"some of {', '.join(SCOPES)}")
        if not 0 < days <= LONGEST_TOKEN_DAYS:
            raise InvalidValueError("days", got=days, allowed=f"a number of days up to {LONGEST_TOKEN_DAYS}")
        if len(label) > 200 or not (label.isprintable() or not label):
            raise InvalidValueError("label", got=label, allowed="up to 200 printable characters")
        secret, now, maker = f"hush_{secrets.token_urlsafe(32)}", self._clock(), _ACTING.get()[1]
        # A token must not outlive the token that it was made with.
        ends = [row[0] for row in self.storage.rows("SELECT expires FROM hush_tokens WHERE id = ?", maker)]
        expires = min(now + days * 86400, until, *ends)
        token = Token(secrets.token_hex(8), name, label, token_scopes, now, expires)
        row = {**asdict(token), "scopes": " ".join(token_scopes), "hash": hashed(secret), "maker": maker}
        with self.storage.changing():
            self._insert_of(row.pop("person"), "hush_tokens", **row)
            self._act("make-token", name, id=token.id, scopes=" ".join(token_scopes))
        return token, secret

    def token(self, secret: str) -> Person | None:
        """Return the person and the scopes of a token; None if it is unknown, expired or waits for a sign-in."""
        columns = "SELECT t.person, p.roles, t.scopes, t.expires, t.id FROM hush_tokens t JOIN hush_people p "
        query = f"{columns} ON p.name = t.person WHERE t.hash = ? AND {_CURRENT}"
        tokens = self.storage.rows(query, hashed(secret), self._clock())
        if not tokens or tokens[0][3] <= self._clock():
            return None
        name, roles, scopes, expires, identity = tokens[0]
        allowed = frozenset(scopes.split())
        return Person(name=name, roles=_read_roles(roles), scopes=allowed, expires=expires, token=identity)

    def tokens(self, name: str) -> list[Token]:
        """Return somebody's tokens, newest first; those that expired too."""
        columns = "SELECT id, person, label, scopes, created, expires FROM hush_tokens"
        rows = self.storage.rows(f"{columns} WHERE person = ? ORDER BY created DESC", name)
        return [Token(key, who, text, tuple(scopes.split()), *times) for key, who, text, scopes, *times in rows]

    def revoke_token(self, name: str, identity: str) -> bool:
        """Delete a token, and all tokens, links and sessions made with it; return whether it existed."""
        descendants = (
            "WITH RECURSIVE gone (id) AS (SELECT id FROM hush_tokens WHERE person = ? AND id = ? UNION "
            "SELECT t.id FROM hush_tokens t JOIN gone g ON t.maker = g.id) SELECT id FROM gone"
        )
        with self.storage.changing():
            gone = [row[0] for row in self.storage.rows(descendants, name, identity)]
            for token in gone:
                self.storage.change("DELETE FROM hush_tokens WHERE id = ?", token)
                for table in ("hush_links", "hush_sessions"):
                    self.storage.change(f"DELETE FROM {table} WHERE maker = ?", token)  # noqa: S608 - ours
            if gone:
                more = {"along with": str(len(gone) - 1)} if len(gone) > 1 else {}
                self._act("revoke-token", name, id=identity, **more)
        return bool(gone)

    # what two owners do

    def agreed(self, name: str, what: str, content: str) -> bool:
        """Return whether another owner has proposed the same; else store the proposal."""
        key, now = hashlib.sha256(json.dumps([what, content]).encode()).hexdigest(), self._clock()
        with self.storage.changing():
            self.storage.change("DELETE FROM hush_proposals WHERE created < ?", now - PROPOSAL)
            proposers = {row[0] for row in self.storage.rows("SELECT person FROM hush_proposals WHERE id = ?", key)}
            # A proposer who is no owner any more does not count.
            seconders = {person for person in proposers - {name} if Role.OWNER in self.names()[person]}
            if seconders:
                self.storage.change("DELETE FROM hush_proposals WHERE id = ?", key)
                self._act("confirm", min(seconders), what=what, sha256=key)
            elif name not in proposers:
                self._insert_of(name, "hush_proposals", id=key, what=what, content=content, created=now)
                self._act("propose", what=what, sha256=key)
        return bool(seconders)

    def proposals(self, what: str) -> list[tuple[str, str]]:
        """Return the proposals that wait for a second owner, each as proposer and content, oldest first."""
        query = "SELECT person, content FROM hush_proposals WHERE what = ? AND created >= ? ORDER BY created"
        return [(row[0], row[1]) for row in self.storage.rows(query, what, self._clock() - PROPOSAL)]

    # backup

    def backup(self, place: str | Path) -> None:
        """Write a copy of everything to a new file, while the service goes on."""
        if Path(place).exists():
            raise InvalidValueError("place", got=str(place), allowed="a file that does not exist yet")
        with closing(People(place)) as copy, self.storage.changing(), copy.storage.changing():
            _copy(self.storage, copy.storage)

    def restore(self, place: str | Path) -> None:
        """Replace everything here by a copy. All sessions and links end; acts that wait to be recorded stay.

        Tokens that were revoked after the copy was made are good again: revoke them again.
        """
        if not Path(place).is_file():
            raise InvalidValueError("place", got=str(place), allowed="a copy that backup wrote")
        with closing(People(place)) as copy:
            if not any(Role.OWNER in roles for roles in copy.names().values()):
                raise PeopleError("The copy has no owner, so nobody could act afterwards; nothing was restored.")
            with self.storage.changing(), copy.storage.changing():
                self.storage.change("DELETE FROM hush_people")
                # Foreign keys have deleted tokens, sessions and links along with the people; the outbox stays.
                _copy(copy.storage, self.storage)
                self._act("restore-people", "", people=str(len(self.names())))

    def clear(self) -> None:
        """Delete all people and acts, after a restore has failed half-way."""
        with self.storage.changing():
            self.storage.change("DELETE FROM hush_people")
            self.storage.change("DELETE FROM hush_outbox")


def _nobody(name: str) -> PeopleError:
    return PeopleError(f"There is nobody called {name!r}.")


def _roles(roles: Iterable[Role]) -> str:
    names = sorted({role.value for role in roles})
    if not names:
        raise InvalidValueError("roles", got=[], allowed="at least one of owner and analyst")
    return json.dumps(names)


def _read_roles(text: str) -> frozenset[Role]:
    return frozenset(Role(name) for name in json.loads(text))


# the tables: a copy is a SQLite file, whichever store it was made of, and can be restored into either


def _prepare(storage: Storage) -> None:
    """Make the tables, or bring older ones to this version; refuse newer ones."""
    if not in_database(storage.place):
        for name in ("people", "tokens", "sessions", "links"):  # of version 1, which lie in SQLite files alone
            if storage.has_table(name):
                storage.change(f"ALTER TABLE {name} RENAME TO hush_{name}")
                if name != "people":
                    storage.change(f"ALTER TABLE hush_{name} ADD COLUMN {_OF_MAKER}")
    storage.make([f"CREATE TABLE IF NOT EXISTS {table} ({columns})" for table, columns in _TABLES.items()])
    versions = storage.rows("SELECT version FROM hush_service")
    if versions and versions[0][0] > _VERSION:
        raise PeopleError(f"The people at {storage.place} were written by a newer hush; use that one.")
    for table, column, kind in _ADDED:
        if column not in storage.columns(table):
            storage.make([f"ALTER TABLE {table} ADD COLUMN {column} {kind}"])
            # An earlier version bound these people by name alone: their sessions must not go on.
            if column == "until":
                storage.change("DELETE FROM hush_sessions WHERE person IN (SELECT person FROM hush_identities)")
    storage.change("DELETE FROM hush_service")
    storage.change("INSERT INTO hush_service VALUES (?)", _VERSION)


def _copy(source: Storage, target: Storage) -> None:
    """Copy the tables of a backup, inside transactions of both stores; rows that the target has are kept."""
    for table, names in _COPIED.items():
        for row in source.rows(f"SELECT {', '.join(names)} FROM {table}"):  # noqa: S608 - ours
            _insert(target, table, f"ON CONFLICT ({names[0]}) DO NOTHING", **dict(zip(names, row, strict=True)))


def _insert(storage: Storage, table: str, clause: str = "", /, **row: Any) -> None:
    """Insert a row; table, columns and clause are ours."""
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    storage.change(f"INSERT INTO {table} ({columns}) VALUES ({marks}) {clause}", *row.values())  # noqa: S608 - ours
