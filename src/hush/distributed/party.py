r"""Both sides of a secure sum (Bonawitz et al. 2017, with signatures against a lying aggregator).

    advertise   two fresh X25519 keys: one to talk to the others in secret, one to agree on masks
    share       Shamir pieces of the mask key and of the self mask's seed, encrypted for each other party
    mask        y = x + noise + self mask + Σ_{v after u} m_uv - Σ_{v before u} m_uv    mod 2⁶⁴
    confirm     a signature under the list of parties whose y arrived
    reveal      for those on the list the piece of the self mask's seed, for the others that of the mask key: never both

The pairwise masks of those on the list cancel; those towards others are removed with the rebuilt mask keys; self masks
are removed with the rebuilt seeds. What is left is Σ(x + noise).

**What this party insists on**, so that no sum has too little noise (`hush.distributed.session` has the argument): at
least n-d parties on the list, itself among them; a quorum of signatures under that very list before it reveals
anything; one list only, ever. A signature is under the list together with the roster, which holds keys that are fresh
in every run: one that was given in an earlier, broken run of the same session counts for nothing. Its own noise is
drawn before its vector is masked, so that every y holds a full share.

**What the caller must see to**: that a party masks a vector once for each session (`before_masking`). A second run with
the same counters would be a second release, and an honest party that signs in two runs at once would count twice.

**The aggregator** carries messages, and in the end knows the noisy sum and nothing else. It holds no secret. What it
sees until the last step is public keys, ciphertexts, masked vectors (each uniform, whatever the counters) and
signatures. The pieces of the last step let it remove the masks from the *sum* only: a party's own mask is gone from
what it knows alone just if both of the party's secrets were rebuilt, which honest parties do not allow.

Each step takes what arrived, in any order, and leaves out who did not answer. `transcript` is the list of all messages
taken, with their digests and signatures; it lets anybody who has the messages check who said what.

>>> from hush.distributed.messages import new_key
>>> keys, (private, public) = {name: new_key() for name in ("north", "south")}, new_key()
>>> session = Session(name="beds", parties={n: k[1] for n, k in keys.items()}, aggregator=public, epsilon=1000)
>>> parties = [Party(session, name=name, key=keys[name][0], values=[20]) for name in keys]
>>> aggregator = Aggregator(session, key=private)
>>> roster = aggregator.roster([party.advertise() for party in parties])
>>> pieces = aggregator.pieces([party.share(roster) for party in parties])
>>> survivors = aggregator.survivors([party.mask(pieces[party.name]) for party in parties])
>>> confirmations = aggregator.confirmations([party.confirm(survivors) for party in parties])
>>> total: NoisySum = aggregator.unmask([party.reveal(confirmations) for party in parties])
>>> total.values.tolist(), total.survivors
([40], ('north', 'south'))
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from hush.accounting import Event
from hush.core import InvalidValueError, integer
from hush.distributed.messages import PRIME, Message, agreed_secret, derived_key, public_key, rebuild, split, stream
from hush.distributed.session import AGGREGATOR, AggregationError, Session

_PIECE = 66  # bytes of a field element of 521 bits


def _broken(why: str) -> AggregationError:
    """Return the error that ends a run."""
    return AggregationError(f"{why}. No sum is released; begin a new session")


class Party:
    """One party; each step is taken once, in order.

    ``values`` are its counters: whole numbers, moved into [-bound, bound]. ``before_masking`` is called when all is
    checked, before the vector is masked: here a ledger is charged. If it raises, nothing leaves.
    """

    def __init__(
        self,
        session: Session,
        *,
        name: str,
        key: bytes,
        values: Sequence[int] | npt.NDArray[Any],
        before_masking: Callable[[], None] = lambda: None,
    ) -> None:
        if name not in session.parties:
            raise InvalidValueError("name", got=name, allowed=f"a party of session {session.name!r}")
        if public_key(key) != session.parties[name]:
            raise InvalidValueError("key", got="another key", allowed=f"the private key of {name!r} in the session")
        self.session, self.name, self._key, self._before_masking = session, name, key, before_masking
        self._values = _counters(values, session)
        self._step = 0
        self._mask_key, self._talk_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._public_mask = self._mask_key.public_key().public_bytes_raw()
        self._seed = os.urandom(32)
        self._talk: dict[str, bytes] = {}
        self._secrets: dict[str, bytes] = {}
        self._masks: dict[str, bytes] = {}
        self._pieces: dict[str, tuple[int, int]] = {}
        self._roster = ""
        self._list: list[str] = []

    def _next(self, step: int) -> None:
        if self._step != step:
            raise _broken(f"{self.name!r} was asked for a step twice or out of order")
        self._step += 1

    def _say(self, kind: str, body: Any) -> Message:
        return Message.signed(kind, self.name, body, session=self.session.digest, key=self._key)

    def _heard(self, message: Message, kind: str) -> Any:
        """Return the body of a message of the aggregator."""
        if message.sender != AGGREGATOR:
            raise _broken("a message that should be the aggregator's is somebody else's")
        return message.check(kind, session=self.session.digest, key=self.session.aggregator).body

    def _of_party(self, data: Any, kind: str) -> Message:
        message = Message.from_bytes(data.encode() if isinstance(data, str) else b"")
        if message.sender not in self.session.parties:
            raise _broken(f"{message.sender!r} is no party of session {self.session.name!r}")
        return message.check(kind, session=self.session.digest, key=self.session.parties[message.sender])

    def _enough(self, names: Sequence[str]) -> None:
        if len(names) < self.session.survivors:
            left = f"only {len(names)} of {len(self.session.parties)} parties are left"
            raise _broken(f"{left}, and the noise needs {self.session.survivors}")

    def advertise(self) -> Message:
        """Return this party's fresh public keys."""
        self._next(0)
        return self._say(
            "advertise", {"talk": self._talk_key.public_key().public_bytes_raw().hex(), "mask": self._public_mask.hex()}
        )

    def share(self, roster: Message) -> Message:
        """Return encrypted pieces of this party's secrets for every other party on the roster."""
        self._next(1)
        with well_formed("roster"):
            advertised = [self._of_party(data, "advertise") for data in self._heard(roster, "roster")]
            for message in advertised:
                self._talk[message.sender] = bytes.fromhex(message.body["talk"])
                self._masks[message.sender] = bytes.fromhex(message.body["mask"])
        if len(self._talk) != len(advertised) or self._masks.get(self.name) != self._public_mask:
            raise _broken("the roster names a party twice or lacks this one")
        self._enough(list(self._talk))
        self._roster = hashlib.sha256("".join(sorted(message.digest for message in advertised)).encode()).hexdigest()
        numbers = {party: number for party, number in self.session.numbers().items() if party in self._talk}
        threshold = self.session.threshold
        mask_pieces = split(self._mask_key.private_bytes_raw(), holders=numbers.values(), threshold=threshold)
        seed_pieces = split(self._seed, holders=numbers.values(), threshold=threshold)
        sealed = {}
        for party, number in numbers.items():
            piece = mask_pieces[number].to_bytes(_PIECE) + seed_pieces[number].to_bytes(_PIECE)
            if party == self.name:
                self._pieces[party] = mask_pieces[number], seed_pieces[number]
            else:
                cipher, purpose = self._channel(self.name, party)
                sealed[party] = cipher.encrypt(bytes(12), piece, purpose).hex()
        return self._say("share", {"pieces": sealed, "seed": hashlib.sha256(self._seed).hexdigest()})

    def _channel(self, sender: str, receiver: str) -> tuple[ChaCha20Poly1305, bytes]:
        """Return the cipher of the one message that this party and another send each other, and its purpose."""
        # Names are printable, so that a zero byte keeps them apart: no two pairs of names give the same bytes.
        purpose = self.session.digest + sender.encode() + b"\0" + receiver.encode()
        other = receiver if sender == self.name else sender
        if other not in self._secrets:
            self._secrets[other] = agreed_secret(self._talk_key, self._talk[other])
        # A key for each direction: each encrypts one message, so that a nonce of zeros is used once.
        return ChaCha20Poly1305(derived_key(self._secrets[other], b"pieces " + purpose)), purpose

    def mask(self, sealed: Message) -> Message:
        """Return this party's vector with its noise, masked, having read the pieces of the others."""
        self._next(2)
        with well_formed("pieces"):
            pieces = dict(self._heard(sealed, "pieces"))
        for party, data in pieces.items():
            if party == self.name or party not in self._talk:
                raise _broken("pieces came from a party that is not on the roster")
            try:
                cipher, purpose = self._channel(party, self.name)
                piece = cipher.decrypt(bytes(12), bytes.fromhex(data), purpose)
            except (InvalidTag, ValueError, TypeError):
                piece = b""
            if len(piece) != 2 * _PIECE:
                raise _broken(f"the pieces of {party!r} do not decrypt")
            self._pieces[party] = int.from_bytes(piece[:_PIECE]), int.from_bytes(piece[_PIECE:])
        self._enough(list(self._pieces))
        self._before_masking()
        length = self.session.length
        drawn = np.asarray(self.session.share.draw(size=length), dtype=np.int64)
        # The counters and the share of noise leave together, under masks modulo 2⁶⁴.
        vector = (self._values + drawn).view(np.uint64) + self_mask(self._seed, self.session)
        for party in self._pieces:
            if party != self.name:
                vector += pairwise_mask(self._mask_key, self._masks[party], self.name, party, self.session)
        return self._say("mask", vector.astype("<u8").tobytes().hex())

    def confirm(self, survivors: Message) -> Message:
        """Return a signature under the list of parties with vectors that arrived."""
        self._next(3)
        with well_formed("survivors"):
            names = [str(name) for name in self._heard(survivors, "survivors")]
        # One order only: parties who agree on the list sign the same bytes.
        if names != sorted(set(names)) or self.name not in names or not set(names) <= set(self._pieces):
            raise _broken("the list of survivors is not a list of parties with this one")
        self._enough(names)
        self._list = names
        return self._say("confirm", self._view())

    def _view(self) -> str:
        """Return a digest of the list of survivors and of the roster with everybody's fresh keys."""
        return hashlib.sha256(json.dumps([self._roster, self._list]).encode()).hexdigest()

    def reveal(self, confirmations: Message) -> Message:
        """Return pieces of survivors' self masks and of the others' mask keys, once a quorum signed the same list."""
        self._next(4)
        with well_formed("confirmations"):
            signed = [self._of_party(data, "confirm") for data in self._heard(confirmations, "confirmations")]
        if any(message.body != self._view() for message in signed):
            raise _broken("the aggregator lies: two rosters or lists of survivors are about, or one of another run")
        signers = {message.sender for message in signed} & set(self._list)
        if len(signers) < self.session.quorum:
            raise _broken(f"{len(signers)} parties signed the list of survivors where {self.session.quorum} must")
        seeds = {party: f"{self._pieces[party][1]:x}" for party in self._list}
        masks = {party: f"{piece[0]:x}" for party, piece in self._pieces.items() if party not in seeds}
        return self._say("reveal", {"seeds": seeds, "masks": masks})


@contextmanager
def well_formed(kind: str) -> Iterator[None]:
    """Turn the Python errors of a malformed message into a refusal."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _broken(f"a message ({kind}) has not the form that it must have") from None


def self_mask(seed: bytes, session: Session) -> npt.NDArray[np.uint64]:
    """Return the mask that hides a party's vector until the survivors are known."""
    return _words(derived_key(seed, b"self " + session.digest), session.length)


def pairwise_mask(
    private: X25519PrivateKey, public: bytes, sender: str, peer: str, session: Session
) -> npt.NDArray[np.uint64]:
    """Return the mask that ``sender`` adds for the pair with ``peer``; ``peer`` adds its negative."""
    first, second = sorted((sender, peer))
    purpose = b"mask " + session.digest + first.encode() + b"\0" + second.encode()
    words = _words(derived_key(agreed_secret(private, public), purpose), session.length)
    return words if sender == first else np.negative(words)


def _words(key: bytes, length: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(stream(key, 8 * length), dtype="<u8").astype(np.uint64)


def _counters(values: Any, session: Session) -> npt.NDArray[np.int64]:
    """Return a party's counters, clamped to the bound; an error may name their number, which is public."""
    entries = values.tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        integers = [integer(value, "values") for value in entries]
    except InvalidValueError:
        raise InvalidValueError("values", got="something else", allowed="whole numbers only") from None
    moved = np.array([max(-session.bound, min(session.bound, value)) for value in integers], dtype=np.int64)
    if len(moved) != session.length:
        raise InvalidValueError("values", got=f"{len(moved)} counters", allowed=f"{session.length} counters")
    return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySum:
    """The sums of all survivors' counters, with noise."""

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
    """Runs one session; each step is taken once, in order."""

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
        return self._note(Message.signed(kind, AGGREGATOR, body, session=self.session.digest, key=self._key))

    def _note(self, message: Message) -> Message:
        entry = {"kind": message.kind, "sender": message.sender, "digest": message.digest}
        self.transcript.append({**entry, "signature": message.signature.hex()})
        return message

    def _take(self, messages: Iterable[Message], kind: str, among: Iterable[str]) -> dict[str, Message]:
        """Return each sender's message; a second message of one sender, or one of a stranger, is refused."""
        allowed, received = set(among), {}
        for message in messages:
            if message.sender not in allowed or message.sender in received:
                raise _broken(f"{message.sender!r} sent a message ({kind}) twice, or is no party of this step")
            key = self.session.parties[message.sender]
            received[message.sender] = self._note(message.check(kind, session=self.session.digest, key=key))
        needed = {"confirm": self.session.quorum, "reveal": self.session.threshold}.get(kind, self.session.survivors)
        if len(received) < needed:
            left = f"only {len(received)} of {len(self.session.parties)} parties are left at step {kind!r}"
            raise _broken(f"{left}, and {needed} must be")
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
            raise _broken("a party did not share its secrets with all others")
        return {
            party: self.say("pieces", {v: sealed[party] for v, sealed in self._sealed.items() if v != party})
            for party in self._sealed
        }

    def survivors(self, messages: Iterable[Message]) -> Message:
        """Take the masked vectors and return the list of who sent one."""
        for party, message in self._take(messages, "mask", self._sealed).items():
            try:
                data = bytes.fromhex(message.body)
            except (ValueError, TypeError):
                data = b""
            if len(data) != 8 * self.session.length:
                raise _broken(f"{party!r} sent {len(data) / 8:g} counters where the session has {self.session.length}")
            self._vectors[party] = np.frombuffer(data, dtype="<u8").astype(np.uint64)
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
                raise _broken(f"the pieces of {party!r} do not belong together")
            # Arithmetic modulo 2⁶⁴: masks that are added and taken away cancel exactly.
            total = total + self._vectors[party] - self_mask(seed, self.session)
        # Parties that shared secrets and then sent no vector: their masks are in the others' vectors still.
        for party in set(self._sealed) - set(names):
            secret = X25519PrivateKey.from_private_bytes(self._rebuilt(received, "masks", party))
            if secret.public_key().public_bytes_raw() != self._mask_keys[party]:
                raise _broken(f"the pieces of {party!r} do not belong together")
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
            raise _broken(f"a piece of {party!r} is missing or malformed") from None
        needed = dict(list(pieces.items())[: self.session.threshold])
        if any(not 0 <= piece < PRIME for piece in needed.values()) or (secret := rebuild(needed)) is None:
            raise _broken(f"the pieces of {party!r} do not belong together")
        return secret
