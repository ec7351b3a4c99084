"""Rate limits: how often somebody may do something, and how many connections an address may hold.

**Rates** are exact across workers. A *generic cell rate algorithm* (GCRA) stores one number for each key: the moment at
which the key would be idle again. A visit is allowed as long as that moment is at most ``burst`` intervals ahead, and
moves it one interval further.

>>> from hush.server.settings import open_storage
>>> moments = iter([0, 0, 0, 1])
>>> limits = RateLimits(open_storage(":memory:", SCHEMA, durable=False), clock=lambda: next(moments))
>>> [limits.visit("alice", every=1, burst=2) for _ in range(4)]
[0.0, 0.0, 1.0, 0.0]

**Connections** are counted by one worker, in all and for each address. An IPv6 address counts with all others of its
/64, which one household has to itself.

>>> limit = ConnectionLimit(most=3, each=2)
>>> [limit.enter(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3")]
[True, True, False, True, False]
>>> limit.leave("10.0.0.1")
>>> limit.enter("10.0.0.1")
True
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from ipaddress import IPv6Address, ip_address, ip_network

from hush.server.errors import TooManyError
from hush.storage import Storage

SCHEMA = ("CREATE {kept} TABLE IF NOT EXISTS hush_rates (key TEXT PRIMARY KEY, idle {real} NOT NULL)",)


class Rate(Enum):
    """A limit: once in ``every`` seconds in the long run, and ``burst`` times at once."""

    def __init__(self, key: str, every: float, burst: int, what: str) -> None:
        self.key, self.every, self.burst, self.what = key, every, burst, what

    VISITS = "visit", 1 / 100, 1000, "requests"
    QUESTIONS = "ask", 1 / 10, 200, "questions"
    EXPLANATIONS = "explain", 1 / 40, 400, "explanations"
    TRIALS = "dummy", 1 / 5, 100, "trials"
    TRIES = "try", 1, 60, "tries"
    REQUESTS = "request", 60, 20, "requests"
    TOKENS = "token", 10, 50, "tokens"
    PASSWORDS = "password", 60, 5, "attempts"
    SIGN_INS_OF_AN_ADDRESS = "sign-in from", 6, 20, "attempts"
    SIGN_INS_OF_A_NAME_FROM_AN_ADDRESS = "sign-in as from", 30, 15, "attempts"
    SIGN_INS_OF_A_NAME = "sign-in as", 10, 100, "attempts"
    CODES = "code of", 180, 5, "attempts"
    WELCOMES = "welcome from", 6, 20, "attempts"
    PG_CONNECTIONS = "door", 0.5, 60, "connections"


class RateLimits:
    """The rate limits of a service, in the state that all workers share."""

    def __init__(self, storage: Storage, *, clock: Callable[[], float] = time.time) -> None:
        self._storage, self._clock = storage, clock

    def check(self, rate: Rate, key: str) -> None:
        """Count a visit of a person or an address, or refuse it if it comes too soon."""
        seconds = self.visit(f"{rate.key} {key}", every=rate.every, burst=rate.burst)
        if seconds:
            raise TooManyError(seconds, rate.what)

    def visit(self, key: str, *, every: float, burst: int) -> float:
        """Count a visit and return 0, or return the seconds after which it may come."""
        with self._storage.changing():
            now = self._clock()
            stored = self._storage.rows("SELECT idle FROM hush_rates WHERE key = ?", key)
            # At most a burst ahead: a clock that was set back locks nobody out.
            idle = max(now, min(stored[0][0], now + burst * every)) if stored else now
            wait = idle + every - (now + burst * every)
            # A visit at its exact moment must not fail because of rounding.
            if wait > 1e-9:
                return wait
            into = "INSERT INTO hush_rates VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET idle = excluded.idle"
            self._storage.change(into, key, idle + every)
            if not stored:
                self._storage.change("DELETE FROM hush_rates WHERE idle < ?", now - 3600)
        return 0.0


class ConnectionLimit:
    """The open connections of one worker, in all and by address."""

    def __init__(self, *, most: int, each: int) -> None:
        self.most, self.each = most, each
        self._open: Counter[str] = Counter()

    def enter(self, address: str, *, proxy: bool = False) -> bool:
        """Count a connection, and return whether it is within the limits; a proxy's address has no limit of its own."""
        block = address_block(address)
        if self._open.total() >= self.most or (not proxy and self._open[block] >= self.each):
            return False
        self._open[block] += 1
        return True

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        self._open -= Counter([address_block(address)])  # which keeps no zeros


def address_block(address: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address.

    >>> address_block("2001:db8::1") == address_block("2001:db8::ffff"), address_block("::ffff:10.0.0.1")
    (True, '10.0.0.1')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)
