"""Passwords: chosen by people, so stored with a slow hash, and compared in the same time for known and unknown names.

argon2id with 19 MiB and two passes, OWASP's second choice. A name that nobody has costs as much time as a wrong
password: the same hash is computed, against a stand-in.

>>> stored = scrambled("correct horse battery")
>>> matches(stored, "correct horse battery"), matches(stored, "wrong"), matches(None, "wrong")
(True, False, False)
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

from hush.core import InvalidValueError

SHORTEST = 12
LONGEST = 1000


def scrambled(password: object) -> str:
    """Return the argon2id hash of a password, which is stored instead of the password."""
    if not isinstance(password, str) or not SHORTEST <= len(password) <= LONGEST:
        raise InvalidValueError("password", got="something else", allowed=f"{SHORTEST} to {LONGEST} characters")
    return str(_hasher().hash(password))


def matches(stored: str | None, password: str) -> bool:
    """Return whether a password matches the stored hash; without a hash it takes the same time."""
    import argon2

    try:
        _hasher().verify(stored or _stand_in(), password[:LONGEST])
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
    return stored is not None


@cache
def _hasher() -> Any:
    import argon2

    return argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


@cache
def _stand_in() -> str:
    """Return the hash of a password that nobody knows."""
    return str(_hasher().hash(secrets.token_urlsafe(32)))
