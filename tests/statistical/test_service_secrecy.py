"""With slots on, only noise tells neighbouring data apart in what a service says: times, sizes, headers, records.

Two services have data that differ in one unit. To make the worst of it, the second also computes a tenth of a second
longer. Their times are compared by a Kolmogorov-Smirnov test at 1e-6, which is the probability of a false alarm. That
the test would see the difference is shown with slots off, and by planting a shift of 5 % into the times themselves.

`make nightly` asks 2,000 questions (HUSH_QUESTIONS).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from scipy.stats import ks_2samp
from served import clinic_with
from starlette.testclient import TestClient

from hush.curator import curator as curator_module
from hush.server import app
from hush.server.people import People
from hush.server.settings import ServiceSettings

_EACH = int(os.environ.get("HUSH_QUESTIONS", "60")) // 2
_LONGER = 0.1
_TICK = 0.25


def _service(folder: Path, rows: int, tick: float) -> tuple[TestClient, dict[str, str]]:
    folder.mkdir()
    frame = pa.table({"age": [number % 90 for number in range(rows)]})
    policy = clinic_with(folder, frame, bounds={"age": (0, 100)}, budget="100000")
    people = People(folder / "hush.people")
    token = people.make_token("me")[1]
    people.close()
    settings = ServiceSettings(policy=str(policy), people=str(folder / "hush.people"), tick=tick)
    client = TestClient(app(settings), base_url="http://localhost")
    return client, {"authorization": f"Bearer {token}"}


@pytest.fixture
def longer_on_the_second(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    extra = [0.0]
    original = curator_module._answer

    def computed(*arguments: object) -> object:
        time.sleep(extra[0])
        return original(*arguments)

    monkeypatch.setattr(curator_module, "_answer", computed)
    return extra


def _observed(folder: Path, tick: float, extra: list[float]) -> dict[str, tuple[list[float], list[float]]]:
    """Ask both services in turn, and return what was seen of each: times, sizes, times in the ledger."""
    seen: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ("seconds", "bytes", "recorded")}
    headers: set[tuple[str, ...]] = set()
    with ExitStack() as stack:
        services = [_service(folder / f"rows{rows}", rows, tick) for rows in (1000, 999)]
        for client, _ in services:
            stack.enter_context(client)
        for number in range(-2, _EACH):  # the first two are to warm up
            for which, (client, token) in enumerate(services):
                extra[0] = _LONGER * which
                body = {"question": "SELECT COUNT(*) + 100000 AS n FROM data", "epsilon": "1", "fresh": True}
                begun = time.perf_counter()
                told = client.post("/api/v1/ask", json=body, headers=token)
                seconds = time.perf_counter() - begun
                assert told.status_code == 200
                if number >= 0:
                    seen["seconds"][which].append(seconds)
                    seen["bytes"][which].append(float(len(told.content) - len(told.json()["receipt"])))
                    headers.add(tuple(told.headers))
        for which, (client, token) in enumerate(services):
            for made in client.get(f"/api/v1/history?limit={_EACH}", headers=token).json()["releases"]:
                spent = datetime.fromisoformat(made["finished"]) - datetime.fromisoformat(made["when"])
                seen["recorded"][which].append(spent.total_seconds())
    assert len(headers) == 1
    return seen


def test_with_slots_nothing_tells_neighbouring_data_apart(tmp_path: Path, longer_on_the_second: list[float]) -> None:
    seen = _observed(tmp_path, _TICK, longer_on_the_second)
    for name, (here, there) in seen.items():
        assert ks_2samp(here, there).pvalue > 1e-6, name
    here, there = seen["recorded"]
    if len(here) >= 1000:  # with so many a shift of a twentieth shows
        assert ks_2samp(here, [1.05 * seconds for seconds in there]).pvalue < 1e-6


def test_without_slots_the_same_test_finds_the_difference(tmp_path: Path, longer_on_the_second: list[float]) -> None:
    seen = _observed(tmp_path, 0, longer_on_the_second)
    for name in ("seconds", "recorded"):
        assert ks_2samp(*seen[name]).pvalue < 1e-6
