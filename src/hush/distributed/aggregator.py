r"""The aggregator's side of a secure sum: it carries messages, and in the end knows the noisy sum and nothing else.

It holds no secret. What it sees until the last step is public keys, ciphertexts, masked vectors (each uniform, whatever
the counters) and signatures. The pieces of the last step let it remove the masks from the *sum* only: a party's own
mask is gone from what it knows alone just if both of the party's secrets were rebuilt, which honest parties do not
allow.

Each step takes what arrived, in any order, and leaves out who did not answer. `transcript` is the list of all messages
taken, with their digests and signatures; it lets anybody who has the messages check who said what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hush.accounting import Event
from hush.core import InvalidValueError
from hush.distributed.messages import PRIME, Message, public_key, rebuild
from hush.distributed.party import pairwise_mask, self_mask, well_formed
from hush.distributed.session import AGGREGATOR, AggregationError, Session

__all__ = ["Aggregator", "NoisySum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySum:
    """The sums of all survivors' counters, with noise.

    >>> from hush.distributed import Session, new_key
    >>> keys = {name: new_key()[1] for name in ("north", "south")}
    >>> session = Session(name="beds", parties=keys, aggregator=new_key()[1], epsilon="1")
    >>> NoisySum(session=session, values=np.array([41]), survivors=("north", "south")).survivors
    ('north', 'south')
    """

    session: Session
    values: npt.NDArray[np.int64]
    survivors: tuple[str, ...]
    """The parties with counters and shares of noise in the sums."""

    @property
    def event(self) -> Event:
        """The privacy event of the released sums."""
        return self.session.share.event

    @property
    def deviation(self) -> float:
        """The noise's standard deviation on each counter."""
        share = self.session.share
        return float((share.variance * len(self.survivors) / share.parties) ** 0.5)


class Aggregator:
    """Runs one session; each step is taken once, in order.

    >>> from hush.distributed import Session, new_key
    >>> private, public = new_key()
    >>> keys = {name: new_key()[1] for name in ("north", "south")}
    >>> aggregator = Aggregator(Session(name="beds", parties=keys, aggregator=public, epsilon="1"), key=private)
    """

    def __init__(self, session: Session, *, key: bytes) -> None:
        if public_key(key) != session.aggregator:
            raise InvalidValueError("key", got="another key", allowed="the private key of the session's aggregator")
        self.session, self._key, self._numbers = session, key, session.numbers()
        self.transcript: list[dict[str, str]] = []
        self._mask_keys: dict[str, bytes] = {}
        self._sealed: dict[str, Mapping[str, str]] = {}
        self._seeds: dict[str, str] = {}
        self._vectors: dict[str, npt.NDArray[np.uint64]] = {}

    def say(self, kind: str, body: Any) -> Message:
        """Return a message of the aggregator's own."""
        message = Message.signed(kind, AGGREGATOR, body, session=self.session.digest, key=self._key)
        self._note(message)
        return message

    def _note(self, message: Message) -> None:
        self.transcript.append({
            "kind": message.kind,
            "sender": message.sender,
            "digest": message.digest,
            "signature": message.signature.hex(),
        })  # fmt: skip

    def _take(self, messages: Iterable[Message], kind: str, among: Iterable[str]) -> dict[str, Message]:
        """Return each sender's message; a second message of one sender, or one of a stranger, is refused."""
        allowed, received = set(among), {}
        for message in messages:
            if message.sender not in allowed or message.sender in received:
                raise AggregationError(f"{message.sender!r} sent a message ({kind}) twice, or is no party of this step")
            key = self.session.parties[message.sender]
            received[message.sender] = message.check(kind, session=self.session.digest, key=key)
            self._note(message)
        needed = {"confirm": self.session.quorum, "reveal": self.session.threshold}.get(kind, self.session.survivors)
        if len(received) < needed:
            raise AggregationError(
                f"only {len(received)} of {len(self.session.parties)} parties are left at step {kind!r}; "
                f"{needed} must be. No sum is released; begin a new session"
            )
        return received

    def roster(self, messages: Iterable[Message]) -> Message:
        """Take the public keys and return the roster."""
        received = self._take(messages, "advertise", self.session.parties)
        with well_formed("advertise"):
            self._mask_keys = {party: bytes.fromhex(message.body["mask"]) for party, message in received.items()}
        return self.say("roster", [message.to_bytes().decode() for message in received.values()])

    def pieces(self, messages: Iterable[Message]) -> dict[str, Message]:
        """Take the encrypted pieces and return each party's own."""
        received = self._take(messages, "share", self._mask_keys)
        with well_formed("share"):
            self._sealed = {party: dict(message.body["pieces"]) for party, message in received.items()}
            self._seeds = {party: message.body["seed"] for party, message in received.items()}
        if any(set(sealed) != set(self._mask_keys) - {party} for party, sealed in self._sealed.items()):
            raise AggregationError("a party did not share its secrets with all others; no sum is released")
        return {
            party: self.say("pieces", {v: sealed[party] for v, sealed in self._sealed.items() if v != party})
            for party in self._sealed
        }

    def survivors(self, messages: Iterable[Message]) -> Message:
        """Take the masked vectors and return the list of who sent one."""
        for party, message in self._take(messages, "mask", self._sealed).items():
            words = np.frombuffer(_bytes(message.body), dtype="<u8").astype(np.uint64)
            if len(words) != self.session.length:
                raise AggregationError(f"{party!r} sent {len(words)} counters; the session has {self.session.length}")
            self._vectors[party] = words
        return self.say("survivors", sorted(self._vectors))

    def confirmations(self, messages: Iterable[Message]) -> Message:
        """Take the signatures under the list and return them all."""
        received = self._take(messages, "confirm", self._vectors)
        return self.say("confirmations", [message.to_bytes().decode() for message in received.values()])

    def unmask(self, messages: Iterable[Message]) -> NoisySum:
        """Take the revealed pieces and return the noisy sum."""
        received = self._take(messages, "reveal", self._vectors)
        names = sorted(self._vectors)
        total = np.zeros(self.session.length, dtype=np.uint64)
        for party in names:
            seed = self._rebuilt(received, "seeds", party)
            if hashlib.sha256(seed).hexdigest() != self._seeds[party]:
                raise AggregationError(f"the pieces of {party!r} do not belong together; no sum is released")
            # Arithmetic modulo 2⁶⁴: masks that are added and taken away cancel exactly.
            total = total + self._vectors[party] - self_mask(seed, self.session)
        # Parties that shared secrets and then sent no vector: their masks are in the others' vectors still.
        for party in set(self._sealed) - set(names):
            secret = X25519PrivateKey.from_private_bytes(self._rebuilt(received, "masks", party))
            if secret.public_key().public_bytes_raw() != self._mask_keys[party]:
                raise AggregationError(f"the pieces of {party!r} do not belong together; no sum is released")
            # The survivors' masks towards this party are the negatives of its own towards them.
            for survivor in names:
                total = total + pairwise_mask(secret, self._mask_keys[survivor], party, survivor, self.session)
        # The sum modulo 2⁶⁴ read as a signed number: the session's bound keeps it in that range.
        return NoisySum(session=self.session, values=total.view(np.int64), survivors=tuple(names))

    def _rebuilt(self, received: Mapping[str, Message], kind: str, party: str) -> bytes:
        """Return a party's secret, rebuilt from as many pieces as the threshold asks for."""
        try:
            pieces = {self._numbers[u]: int(message.body[kind][party], 16) for u, message in received.items()}
        except (KeyError, ValueError, TypeError):
            raise AggregationError(f"a piece of {party!r} is missing or malformed; no sum is released") from None
        needed = dict(list(pieces.items())[: self.session.threshold])
        if any(not 0 <= piece < PRIME for piece in needed.values()) or (secret := rebuild(needed)) is None:
            raise AggregationError(f"the pieces of {party!r} do not belong together; no sum is released")
        return secret


def _bytes(text: Any) -> bytes:
    try:
        data = bytes.fromhex(text)
    except (ValueError, TypeError):
        data = b""
    return data if len(data) % 8 == 0 else b""
