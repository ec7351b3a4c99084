"""Two services whose data differ in one unit, and all that can be seen of them from outside.

What is seen of one service is compared with what is seen of the other: times by a Kolmogorov-Smirnov test at 1e-6,
which is the probability of a false alarm; bodies, headers and the ledger's events byte for byte, but for the digits of
noisy numbers.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pyarrow as pa
from served import clinic_with
from starlette.testclient import TestClient

from hush.server import app
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


@dataclass
class Seen:
    """What was seen of one service."""

    seconds: list[float] = field(default_factory=list)
    """How long whoever asked waited for each response."""
    sizes: list[float] = field(default_factory=list)
    recorded: list[float] = field(default_factory=list)
    """How long after its charge each outcome stands in the ledger."""
    said: set[tuple[Any, ...]] = field(default_factory=set)
    """Responses and records, without the digits of their numbers."""

    def response(self, told: httpx2.Response, seconds: float) -> None:
        """Note a response."""
        self.seconds.append(seconds)
        self.sizes.append(float(len(told.content)))
        headers = {name: without_digits(value) for name, value in told.headers.items() if name != "content-length"}
        self.said.add((told.status_code, without_digits(told.text), tuple(headers.items())))


def without_digits(text: str) -> str:
    return _NUMBER.sub("#", text)


@dataclass
class Asked:
    """One of the services, and somebody who asks it."""

    client: TestClient
    token: dict[str, str]
    seen: Seen = field(default_factory=Seen)

    def post(self, path: str, body: dict[str, Any]) -> tuple[httpx2.Response, float]:
        """Ask, and return the response and how long it took."""
        begun = time.perf_counter()
        told = self.client.post(f"/api/v1{path}", json=body, headers=self.token)
        return told, time.perf_counter() - begun

    def read_ledger(self, newest: int) -> None:
        """Note what the ledger says of the newest questions."""
        releases = self.client.get(f"/api/v1/history?limit={newest}", headers=self.token).json()["releases"]
        for made in releases:
            spent = datetime.fromisoformat(made["finished"]) - datetime.fromisoformat(made["when"])
            self.seen.recorded.append(spent.total_seconds())
            told = {name: made[name] for name in ("question", "events", "price", "outcome", "reason")}
            self.seen.said.add(("ledger", without_digits(json.dumps(told))))


@contextmanager
def neighbours(
    folder: Path, frame: pa.Table, *, tick: float, limit: float = 30.0, **policy: Any
) -> Iterator[tuple[Asked, Asked]]:
    """Serve a table, and the same table without its last row."""
    fewer = frame.slice(0, len(frame) - 1)
    with (
        _served(folder / "with", frame, tick, limit, policy) as here,
        _served(folder / "without", fewer, tick, limit, policy) as there,
    ):
        yield here, there


@contextmanager
def _served(folder: Path, frame: pa.Table, tick: float, limit: float, policy: dict[str, Any]) -> Iterator[Asked]:
    folder.mkdir(parents=True)
    with served(clinic_with(folder, frame, **policy), tick=tick, limit=limit) as asked:
        yield asked


@contextmanager
def served(written: Path, *, tick: float, limit: float = 30.0) -> Iterator[Asked]:
    """Serve a policy that has its ledger, and people beside it of whom one is called me."""
    folder = written.parent
    people = People(folder / "hush.people")
    token = people.make_token("me")[1]
    people.close()
    settings = ServiceSettings(policy=str(written), people=str(folder / "hush.people"), tick=tick, limit=limit)
    with TestClient(app(settings), base_url="http://localhost") as client:
        yield Asked(client, {"authorization": f"Bearer {token}"})


def told_apart(here: Sequence[float], there: Sequence[float], *, level: float = 1e-6) -> bool:
    """Return whether two samples of one size differ by more than they do by chance with probability ``level``."""
    count = len(here)
    assert count == len(there)
    if not count:
        return False
    first, second, both = np.sort(here), np.sort(there), np.concatenate([here, there])
    steps = int(abs(np.searchsorted(first, both, "right") - np.searchsorted(second, both, "right")).max())
    # Reflection: of the C(2n, n) orders of both samples, C(2n, n-k) bring n·(F - G) up to k, and as many down to -k.
    # Ties can only make the distance less. Scipy's sums fail for some samples and its limit law for samples of one,
    # and that law takes 11 of 12 for less than 1e-6, which is 2e-5. Fewer than 12 never differ at 1e-6.
    return 2 * comb(2 * count, count - steps) < Fraction(level) * comb(2 * count, count)


def check_alike(here: Seen, there: Seen, *, slot: float) -> None:
    """Check that two services show the same, and that the ledger's records are no earlier than a slot.

    That the comparison would see a difference is shown by planting one of a twentieth, where there are enough times.
    """
    assert here.said == there.said
    for name in ("seconds", "sizes", "recorded"):
        assert not told_apart(getattr(here, name), getattr(there, name)), name
    assert min([*here.recorded, *there.recorded]) >= slot - 0.01
    if len(here.recorded) >= 100:
        assert told_apart(here.recorded, [1.05 * seconds for seconds in there.recorded])
