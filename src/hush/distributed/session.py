r"""The terms of a secure sum, agreed upon beforehand: the parties, the failures tolerated, the noise.

Of n parties up to d may drop out and up to c may collude with the aggregator, pooling all that they know. From these
three numbers follow

* the threshold t = c+1 of shares that rebuild a secret: the colluding ones alone never can. It is at least 2, so that
  no single party holds another's secrets, not even one that listens on the aggregator's line;
* the quorum ⌊(n+c)/2⌋+1 of signatures under one list of survivors. Two different lists would need that many each. The
  colluding parties can sign both, an honest one signs once, so the two lists hold at most n+c signatures: fewer than
  twice the quorum. Hence nobody can make one honest party reveal another's self mask and a third the same party's
  pairwise masks;
* the survivors n-d without which no honest party reveals anything, so that no sum leaves with less noise;
* the honest survivors h = n-d-c whose shares of noise (`hush.distributed.shares`) are the whole protection: of at least
  n-d summands, at most c are known to the adversary.

The quorum must be reachable by the survivors: n-d ≥ ⌊(n+c)/2⌋+1, which is c ≤ n-2d-1.

**A lying aggregator** may show different rosters, pieces or lists to different parties. Take the one list L that got a
quorum, and let V_u be the parties whose pieces u accepted. Every honest signer s has L within V_s, and so added a mask
towards every honest w in L. If w did not add the same mask, the mask of s stays in s's vector for good, as L's mask
keys are never rebuilt. All honest signers added masks towards each other, so no combination of their vectors, or of
vectors tied to theirs, is free of it, and nothing comes out. Otherwise every honest party in L is tied to the signers
by a mask that both added, and the only combinations free of masks are multiples of the sum over *all* honest parties in
L, of whom there are at least h.

A session is a public file: names and public keys of the parties and of the aggregator, the three numbers, the length
of the vectors, the privacy. Its digest is part of every signature, so that no message of another session counts.

>>> keys = {f"party-{i}": bytes([i]) * 32 for i in range(6)}
>>> session = Session(name="flu", parties=keys, aggregator=b"a" * 32, dropouts=1, colluding=1, length=3, epsilon=1)
>>> session.threshold, session.quorum, session.survivors, session.honest
(2, 4, 5, 4)
>>> Session.from_json(session.to_json()) == session
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hush.core import HushError, InvalidValueError, Number, fraction_between, integer, positive
from hush.core.numbers import assign
from hush.distributed.shares import LaplaceShare, SkellamShare

AGGREGATOR = "the aggregator"
"""The sender of the aggregator's own messages; no party may have this name."""
_LONGEST_NAME = 64
_MOST_COUNTERS = 10**6
_LARGEST_SUM = 2**62


class AggregationError(HushError):
    """A secure sum that cannot go on; no sum was released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One secure sum: its parties, limits and privacy."""

    name: str
    """A name that is used once; the same parties' next sum has another."""
    parties: Mapping[str, bytes]
    """Each party's name and Ed25519 public key (32 bytes)."""
    aggregator: bytes
    dropouts: int = 0
    """How many parties may drop out."""
    colluding: int = 0
    """How many parties may pool their knowledge with the aggregator's."""
    length: int = 1
    """How many counters the vectors have."""
    sensitivity: int = 1
    """How much one person can change all counters of all parties together, in ℓ₁."""
    epsilon: Number
    delta: Number | None = None
    """With it the released sums are (ε, δ)-private; without it their privacy is pure."""
    bound: int = 2**31
    """The largest absolute value of a party's counter; larger ones are moved to it."""
    digest: bytes = field(init=False, compare=False, repr=False)
    """SHA-256 of the session: a part of every signature."""
    share: LaplaceShare | SkellamShare = field(init=False, compare=False, repr=False)
    """The share of noise that each party adds to each counter."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 200:
            raise InvalidValueError("name", got=self.name, allowed="a text of 1 to 200 characters")
        keys = _public_keys(self.parties, self.aggregator)
        total, lost = len(keys), integer(self.dropouts, "dropouts", minimum=0)
        pooled = integer(self.colluding, "colluding", minimum=0)
        if pooled > total - 2 * lost - 1 or total - lost - pooled < 2:
            raise InvalidValueError(
                "colluding",
                got=pooled,
                allowed=f"at most parties - 2·dropouts - 1 = {total - 2 * lost - 1}, with two honest parties left",
                hint="Add parties, or tolerate fewer dropouts or colluding parties.",
            )
        # All counters together stay far below 2⁶³, which leaves room for the noise: sums are taken modulo 2⁶⁴.
        bound = integer(self.bound, "bound", minimum=1, maximum=_LARGEST_SUM // total // 4)
        length = integer(self.length, "length", minimum=1, maximum=_MOST_COUNTERS)
        moved = integer(self.sensitivity, "sensitivity", minimum=1, maximum=10**6)
        delta = None if self.delta is None else fraction_between(self.delta, "delta")
        assign(self, parties=keys, dropouts=lost, colluding=pooled, length=length, sensitivity=moved, bound=bound)
        assign(self, epsilon=positive(self.epsilon, "epsilon"), delta=delta)
        # Made once: every signature needs the digest, and limits of the noise are told before a run begins.
        assign(self, share=self._share(), digest=hashlib.sha256(self.to_json().encode()).digest())

    @property
    def threshold(self) -> int:
        """The number of parties' shares that rebuild a secret."""
        return max(2, self.colluding + 1)

    @property
    def quorum(self) -> int:
        """The number of signatures that a list of survivors needs."""
        return (len(self.parties) + self.colluding) // 2 + 1

    @property
    def survivors(self) -> int:
        """The number of parties' vectors that a sum must hold."""
        return len(self.parties) - self.dropouts

    @property
    def honest(self) -> int:
        """The number of parties with noise that alone protects everybody."""
        return self.survivors - self.colluding

    def _share(self) -> LaplaceShare | SkellamShare:
        n, h = len(self.parties), self.honest
        if self.delta is None:
            return LaplaceShare(sensitivity=self.sensitivity, epsilon=self.epsilon, parties=n, honest=h)
        # The Skellam curve is that of one counter; at a sensitivity of 1 in ℓ₁ no more than one can change.
        if self.length > 1 and self.sensitivity > 1:
            raise InvalidValueError(
                "delta",
                got=str(self.delta),
                allowed="left out for vectors whose sensitivity is above 1",
                hint="Pure noise (no delta) takes any sensitivity.",
            )
        return SkellamShare(sensitivity=self.sensitivity, epsilon=self.epsilon, delta=self.delta, parties=n, honest=h)

    def numbers(self) -> dict[str, int]:
        """Return each party's number, from 1 on, in the order of names."""
        return {party: number for number, party in enumerate(self.parties, start=1)}

    def to_json(self) -> str:
        """Return the session as canonical JSON."""
        content: dict[str, Any] = {name: getattr(self, name) for name in self._names()}
        content |= {
            "version": 1,
            "parties": {party: key.hex() for party, key in self.parties.items()},
            "aggregator": self.aggregator.hex(),
            "epsilon": str(self.epsilon),
            "delta": None if self.delta is None else str(self.delta),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @classmethod
    def _names(cls) -> set[str]:
        return {entry.name for entry in fields(cls) if entry.compare}

    @classmethod
    def from_json(cls, text: str) -> Session:
        """Read a session; an error names missing and unknown fields."""
        try:
            content = json.loads(text)
            keys = {str(party): bytes.fromhex(key) for party, key in content["parties"].items()}
            aggregator = bytes.fromhex(content["aggregator"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidValueError(
                "session", got=text, allowed="a session file as `hush aggregate open` writes it"
            ) from None
        names = {"version", *cls._names()}
        if set(content) != names or content["version"] != 1:
            wrong = ", ".join(sorted(set(content) ^ names)) or f"version {content['version']}"
            raise InvalidValueError("session", got=wrong, allowed="version 1 with exactly the fields of a session")
        del content["version"]
        return cls(**{**content, "parties": keys, "aggregator": aggregator})


def _public_keys(parties: Mapping[str, bytes], aggregator: bytes) -> dict[str, bytes]:
    """Return the parties' keys in the order of names; refuse names or keys that could be confused."""
    integer(len(parties), "parties", minimum=2, maximum=10**4)
    for name in parties:
        short = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
        if not short or not name.isprintable() or name == AGGREGATOR:
            allowed = f"names of 1 to {_LONGEST_NAME} printable characters, none of them {AGGREGATOR!r}"
            raise InvalidValueError("parties", got=name, allowed=allowed)
    keys = [*parties.values(), aggregator]
    # Whoever holds one key under two names would count as two parties, and as two signatures of a quorum.
    if not all(isinstance(key, bytes) and len(key) == 32 for key in keys) or len(set(keys)) < len(keys):
        allowed = "a different public key of 32 bytes for every party and for the aggregator"
        raise InvalidValueError("parties", got=keys, allowed=allowed)
    return dict(sorted(parties.items()))
