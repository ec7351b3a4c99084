"""What people prove who they are with: passwords, and codes of a second factor.

**Passwords** are chosen by people, so they are stored with a slow hash: argon2id with 19 MiB and two passes, OWASP's
second choice. A name that nobody has costs as much time as a wrong password: the same hash is computed, against a
stand-in.

>>> stored = scrambled("correct horse battery")
>>> matches(stored, "correct horse battery"), matches(stored, "wrong"), matches(None, "wrong")
(True, False, False)

**Codes** are time-based one-time passwords (RFC 6238). A code is a function of a secret, which an app on a device holds
too, and of the half minute (RFC 4226: six digits of an HMAC-SHA-1). One half minute before and after is accepted, and
none that is not later than the last one that was used: a code that somebody looks up over a shoulder is worth nothing.
Recovery codes, for a lost device, are 80 random bits each, stored as hashes, and good once. The secret itself must be
stored: a thief of the store of people has it.

>>> totp("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", 1)  # RFC 4226, appendix D
'287082'
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Self
from urllib.parse import quote, urlencode

from hush.core import InvalidValueError

SHORTEST = 12
LONGEST = 1000
STEP = 30
RECOVERY = 8


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


def totp(secret: str, counter: int) -> str:
    """Return the code of a half minute."""
    digest = hmac.new(base64.b32decode(secret), counter.to_bytes(8, "big"), hashlib.sha1).digest()
    # Dynamic truncation (RFC 4226, 5.3): the last four bits choose where the code is taken from.
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


def _random(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode()


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFactor:
    """The stored second factor of one person."""

    secret: str = field(default_factory=lambda: _random(20))
    used: int = 0
    """The half minute of the last code that was accepted."""
    recovery: tuple[str, ...] = ()
    """The hashes of codes that are left; nobody has any before they have shown a first code of their device."""
    on: bool = False
    """Whether signing in needs it: from the first code that is shown."""

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the stored one."""
        stored = json.loads(text or "null")
        return stored and cls(**{**stored, "recovery": tuple(stored["recovery"])})

    def written(self) -> str:
        """Return the second factor as JSON text, as it is stored."""
        return json.dumps(asdict(self))

    def address(self, name: str) -> str:
        """Return the otpauth link with which an authenticator app is set up."""
        return f"otpauth://totp/hush:{quote(name, safe='')}?{urlencode({'secret': self.secret, 'issuer': 'hush'})}"

    def after(self, code: str, now: float) -> Self | None:
        """Return the second factor after a code was used; None where the code is wrong or was used before."""
        # Recovery codes are shown in groups of four: spaces, hyphens and small letters are accepted.
        normalized_code = "".join(code.split()).replace("-", "").upper()
        for counter in range(int(now // STEP) - 1, int(now // STEP) + 2):
            if counter > self.used and hmac.compare_digest(
                totp(self.secret, counter).encode(), normalized_code.encode()
            ):
                return replace(self, used=counter)
        if _hash(normalized_code) in self.recovery:
            return replace(
                self, recovery=tuple(code_hash for code_hash in self.recovery if code_hash != _hash(normalized_code))
            )
        return None

    def turned_on(self) -> tuple[Self, list[str]]:
        """Return the second factor turned on, and its recovery codes, which are shown this once."""
        codes = [_random(10) for _ in range(RECOVERY)]
        code_texts = ["-".join(code[start : start + 4] for start in range(0, 16, 4)) for code in codes]
        return replace(self, on=True, recovery=tuple(map(_hash, codes))), code_texts
