"""With slots on, only noise tells neighbouring data apart in what a service says: times, sizes, headers, records.

Two services have data that differ in one unit. To make the worst of it, the second also computes a tenth of a second
longer. Their times are compared by a Kolmogorov-Smirnov test at 1e-6, which is the probability of a false alarm. That
the test would see the difference is shown with slots off, and by planting a shift of 5 % into the times themselves.

Questions that end without an answer are compared in the same way: the engine fails, the limit is passed, the asker
cancels. What is said of them is equal byte for byte, and no error's text gets into any file.

`make nightly` asks 2,000 questions (HUSH_QUESTIONS).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from scipy.stats import ks_2samp
from served import clinic_with
from starlette.testclient import TestClient

from hush.curator import curator as curator_module
from hush.engines.errors import EngineError
from hush.server import app
from hush.server.people import People
from hush.server.settings import ServiceSettings

_EACH = int(os.environ.get("HUSH_QUESTIONS", "60")) // 2
_EACH_OUTCOME = max(5, _EACH // 4) if _EACH < 1000 else _EACH
_LONGER = 0.1
_TICK = 0.25


def _service(folder: Path, rows: int, tick: float, limit: float = 30.0) -> tuple[TestClient, dict[str, str]]:
    folder.mkdir()
    frame = pa.table({"age": [number % 90 for number in range(rows)]})
    policy = clinic_with(folder, frame, bounds={"age": (0, 100)}, budget="100000")
    people = People(folder / "hush.people")
    token = people.make_token("me")[1]
    people.close()
    settings = ServiceSettings(policy=str(policy), people=str(folder / "hush.people"), tick=tick, limit=limit)
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


def _outcomes(
    folder: Path, ways: tuple[Callable[[], None], Callable[[], None]], *, limit: float, cancel: bool
) -> dict[str, tuple[list[float], list[float]]]:
    """Ask both services questions that end without an answer, and return what was seen of each."""
    seen: dict[str, tuple[list[float], list[float]]] = {
        name: ([], []) for name in ("seconds", "recorded", "status", "length")
    }
    said: set[tuple[int, bytes, tuple[tuple[str, str], ...]]] = set()
    way: list[Callable[[], None]] = [ways[0]]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(curator_module, "_answer", lambda *_: way[0]())
        services = [_service(folder / f"rows{rows}", rows, _TICK, limit) for rows in (1000, 999)]
        threads = stack.enter_context(ThreadPoolExecutor(1))
        for client, _ in services:
            stack.enter_context(client)
        for number in range(-1, _EACH_OUTCOME):
            for which, (client, token) in enumerate(services):
                way[0] = ways[which]
                name = f"request {number}"
                body = {"question": "SELECT COUNT(*) AS n FROM data", "epsilon": "1", "fresh": True, "request": name}
                begun = time.perf_counter()
                asked = threads.submit(client.post, "/api/v1/ask", json=body, headers=token)
                while (
                    cancel
                    and not asked.done()
                    and client.delete(f"/api/v1/questions/{name}", headers=token).status_code == 404
                ):
                    time.sleep(0.001)
                told = asked.result()
                if number >= 0:
                    seen["seconds"][which].append(time.perf_counter() - begun)
                    seen["status"][which].append(float(told.status_code))
                    seen["length"][which].append(float(len(told.content)))
                    said.add((told.status_code, told.content, tuple(told.headers.items())))
        for which, (client, token) in enumerate(services):
            for made in client.get(f"/api/v1/history?limit={_EACH_OUTCOME}", headers=token).json()["releases"]:
                spent = datetime.fromisoformat(made["finished"]) - datetime.fromisoformat(made["when"])
                seen["recorded"][which].append(spent.total_seconds())
                said.add((0, f"{made['outcome']}: {made['reason']}".encode(), ()))
    # One response and one line of history, whatever happened inside. A cancel may also come before the charge, or after
    # the slot: both are public, and both have a sentence of their own.
    assert len(said) == 2 or (cancel and len(said) <= 4), [response[:2] for response in said]
    return seen


def _fail(error: Exception, seconds: float) -> Callable[[], None]:
    def fail() -> None:
        time.sleep(seconds)
        raise error

    return fail


_CANARY = "Ada Lovelace, 1815"
"""Stands for the value of a row that an engine's error may quote."""


@pytest.mark.parametrize(
    ("ways", "limit", "cancel"),
    [
        pytest.param((_fail(EngineError(), 0.0), _fail(ValueError(_CANARY), 0.1)), 30.0, False, id="failures"),
        pytest.param((_fail(EngineError(), 1.0), _fail(ValueError(_CANARY), 1.2)), 0.3, False, id="timeouts"),
        pytest.param((lambda: time.sleep(0.0), _fail(ValueError(_CANARY), 0.15)), 30.0, True, id="cancels"),
    ],
)
def test_questions_without_an_answer_end_alike(
    tmp_path: Path, ways: tuple[Callable[[], None], Callable[[], None]], limit: float, cancel: bool
) -> None:
    seen = _outcomes(tmp_path, ways, limit=limit, cancel=cancel)
    for name, (here, there) in seen.items():
        # Exact sums fail for some samples of different sizes. The limit law errs on the side of no alarm.
        assert ks_2samp(here, there, method="asymp").pvalue > 1e-6, name
    here, there = seen["recorded"]
    assert min([*here, *there]) >= min(_TICK, limit) - 0.01
    if len(here) >= 1000:
        assert ks_2samp(here, [1.05 * seconds for seconds in there]).pvalue < 1e-6
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or _CANARY.encode() not in file.read_bytes()
