"""Signed messages of a secure sum, the keys behind them, and how a secret is shared.

A message is JSON with a kind, a sender, a body and the sender's Ed25519 signature over the session's digest, the kind,
the sender and the body. A message of another session, of somebody else, of another kind or changed on its way does not
verify. Every kind is taken once per sender, so that a replayed message changes nothing.

>>> private, public = new_key()
>>> message = Message.signed("advertise", "clinic", {"a": 1}, session=bytes(32), key=private)
>>> message.check("advertise", session=bytes(32), key=public).body
{'a': 1}
>>> message.check("advertise", session=bytes([1]) * 32, key=public)
Traceback (most recent call last):
...
hush.distributed.session.AggregationError: a message of 'clinic' (advertise) does not verify; ...

**Shamir's secret sharing over the field of 2⁵²¹-1 elements.**

A secret a₀ is the constant term of a random polynomial of degree t-1; party x holds its value at x. Any t values give
the polynomial back by Lagrange's formula, and t-1 say nothing: for each secret there is exactly one polynomial that
fits them (Shamir 1979).

>>> pieces = split(b"a secret of thirty-two bytes....", holders=[1, 2, 3, 4], threshold=3)
>>> rebuild({x: pieces[x] for x in (4, 1, 3)})
b'a secret of thirty-two bytes....'
>>> rebuild({x: pieces[x] for x in (4, 1)}) is None
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hush.core import InvalidValueError
from hush.distributed.session import AggregationError
from hush.noise.bits import system_bits
from hush.noise.uniform import draw_uniform_integer


def new_key() -> tuple[bytes, bytes]:
    """Return a new Ed25519 key: its private and its public 32 bytes."""
    private = Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def public_key(private: bytes) -> bytes:
    """Return the public part of an Ed25519 private key."""
    if not isinstance(private, bytes) or len(private) != 32:
        raise InvalidValueError("key", got="something else", allowed="a private key of 32 bytes")
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


@dataclass(frozen=True, slots=True)
class Message:
    """One signed message."""

    kind: str
    sender: str
    body: Any
    signature: bytes

    @classmethod
    def signed(cls, kind: str, sender: str, body: Any, *, session: bytes, key: bytes) -> Message:
        """Return a message signed with a private key."""
        text = _signed_text(kind, sender, body, session)
        return cls(kind, sender, body, Ed25519PrivateKey.from_private_bytes(key).sign(text))

    def check(self, kind: str, *, session: bytes, key: bytes) -> Message:
        """Return the message itself if it is of this kind and its signature holds."""
        try:
            text = _signed_text(kind, self.sender, self.body, session)
            Ed25519PublicKey.from_public_bytes(key).verify(self.signature, text)
        except (InvalidSignature, ValueError, TypeError, RecursionError):
            raise AggregationError(
                f"a message of {self.sender!r} ({self.kind}) does not verify; it is of another session, step or key, "
                "or was changed on its way. Nothing was revealed; begin a new session."
            ) from None
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the message, for the transcript."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the message as JSON."""
        content = {"kind": self.kind, "sender": self.sender, "body": self.body, "signature": self.signature.hex()}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """Read a message; refuse malformed bytes."""
        try:
            content = json.loads(data)
            signature = bytes.fromhex(content["signature"])
            return cls(str(content["kind"]), str(content["sender"]), content["body"], signature)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise AggregationError("a malformed message arrived; nothing was revealed by it") from None


def _signed_text(kind: str, sender: str, body: Any, session: bytes) -> bytes:
    return session + json.dumps([kind, sender, body], sort_keys=True, separators=(",", ":")).encode()


def agreed_secret(private: X25519PrivateKey, public: bytes) -> bytes:
    """Return the X25519 secret of two parties; keys for each purpose are derived from it."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise AggregationError("a party's key agreement key is not valid; begin a new session") from None


def derived_key(secret: bytes, purpose: bytes) -> bytes:
    """Return a key of 32 bytes made of a secret for one purpose (HKDF-SHA256)."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"hush secure sum " + purpose).derive(secret)


def stream(key: bytes, size: int) -> bytes:
    """Return ``size`` bytes of ChaCha20's key stream; each key is used for one stream."""
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


PRIME = 2**521 - 1
_SECRET_BYTES = 32


def split(secret: bytes, *, holders: Iterable[int], threshold: int) -> dict[int, int]:
    """Return each holder's piece of a secret of 32 bytes."""
    bits = system_bits()
    # Shamir 1979: the secret is the constant term of a random polynomial of degree threshold - 1.
    terms = [int.from_bytes(secret), *(draw_uniform_integer(PRIME, bits) for _ in range(threshold - 1))]
    pieces = {}
    for x in holders:
        value = 0
        for term in reversed(terms):
            value = (value * x + term) % PRIME
        pieces[x] = value
    return pieces


def rebuild(pieces: Mapping[int, int]) -> bytes | None:
    """Return the secret behind at least as many pieces as its threshold, None where they do not belong together."""
    # Lagrange's interpolation at 0. Pieces that do not belong together give a random field element of 521 bits, which
    # has 256 bits with probability 2⁻²⁶⁵.
    secret = 0
    for x, piece in pieces.items():
        above, below = 1, 1
        for holder in pieces.keys() - {x}:
            above, below = above * holder % PRIME, below * (holder - x) % PRIME
        secret += piece * above * pow(below, -1, PRIME)
    secret %= PRIME
    return secret.to_bytes(_SECRET_BYTES) if secret < 2 ** (8 * _SECRET_BYTES) else None
