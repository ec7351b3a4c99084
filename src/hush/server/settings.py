"""How a service was started, and where its state lies. Every worker process is told the same settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from hush import storage
from hush.core import HushError, InvalidValueError
from hush.core.storage import parse_size
from hush.policy.file import Policy
from hush.server.errors import StorageError
from hush.storage import Storage, in_database

log = logging.getLogger("hush.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How a service runs."""

    policy: str
    people: str
    """The SQLite file of people, or a PostgreSQL database; queue, rates and counters are kept beside it."""
    tick: float = 0.1
    """The shortest first slot, in seconds: no outcome leaves earlier; 0 for no slots.

    Questions with more public work have a later first slot, and each further slot is twice as late.
    """
    limit: float = 30.0
    """How long a question may take from its charge, in seconds."""
    at_once: int = 2
    """How many questions a worker computes at once."""
    queue: int = 256
    """How many questions may wait on all workers together."""
    each: int = 32
    """How many waiting questions one person may have."""
    memory: str = ""
    """The memory limit of an engine, for example 2GB; empty for the engine's own choice."""
    threads: int = 0
    """How many threads an engine may use; 0 for the engine's own choice."""
    quota: str = ""
    """The disk quota of ledger, streams and people, for example 10GB; empty for no limit."""
    oidc: str = ""
    """The settings file of the OpenID provider; empty for none."""
    two_owners: bool = False
    """Whether raises of budgets and edits of the policy hold only once a second owner has confirmed them."""
    mcp: bool = False
    """Whether language models can ask at /mcp."""
    secure: bool = False
    """Whether browsers come by https, here or at a proxy: cookies are then bound to it."""
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """The names under which the service may be addressed; empty for any."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))
        for name, value in (("tick", self.tick), ("limit", self.limit)):
            if not 0 <= value <= 3600 or (name == "limit" and value == 0):
                raise InvalidValueError(name, got=value, allowed="a number of seconds up to 3600")
        if self.quota:
            parse_size(self.quota, "quota")
        for name in ("at_once", "queue", "each"):
            if getattr(self, name) < 1:
                raise InvalidValueError(name, got=getattr(self, name), allowed="a whole number from 1")

    @property
    def shared_state(self) -> str:
        """The SQLite file of queue, rates and counters, which may be lost at any time; or the database of people."""
        return self.people if self.people == ":memory:" or in_database(self.people) else f"{self.people}.traffic"


def people_of(policy: str | Path) -> str:
    """Return the default place of the store of people for a policy.

    They are beside the policy; or, where its ledger lies in a database and there is no such file, in that database.
    """
    beside = Path(policy).parent / "hush.people"
    if not beside.exists() and Path(policy).exists():
        with suppress(HushError):  # a mistake in the policy is reported where the policy is used
            ledger = Policy.read(policy).ledger
            if ledger is not None and in_database(ledger):
                return ledger
    return str(beside)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("clinic.example")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def open_storage(place: str | Path, schema: Sequence[str], *, durable: bool) -> Storage:
    """Open a SQLite file that only this account can read, or a database, and make the tables that it lacks."""
    opened = storage.open_storage(place, storage.Options(lock=str(durable), durable=durable, failure=_failure))
    with opened.changing():
        opened.make(schema)
    return opened


def _failure(kind: storage.Kind, place: str, error: Exception) -> Exception:
    """Return the error for analysts, and log its type without the text of the driver."""
    if kind == "conflict":
        return storage.ConflictError()
    log.warning("the state of the service at %s cannot be reached: %s", place, type(error).__name__)
    return StorageError()
