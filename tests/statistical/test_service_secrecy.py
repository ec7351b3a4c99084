"""With slots on, only noise tells neighbouring data apart in what a service says of questions: times, bodies, records.

To make the worst of it, the second service also computes a tenth of a second longer. That the test would see the
difference is shown with slots off, and by planting a shift of 5 % into the times themselves.

Questions that end without an answer are compared in the same way: the engine fails, the limit is passed, the asker
cancels. What is said of them is equal byte for byte, and no error's text gets into any file. Cancels come at once, or
within a fiftieth of a second of the slot. Each has one of two fates, and which one it was told: it came before the slot
and there is no answer, or it came too late.

`make nightly` asks 2,000 questions (HUSH_QUESTIONS).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from neighbouring_services import Asked, check_alike, neighbours, told_apart

from hush.curator.pipeline import Program
from hush.engines.errors import EngineError

_EACH = int(os.environ.get("HUSH_QUESTIONS", "40")) // 2
_EACH_OUTCOME = max(6, _EACH // 4) if _EACH < 1000 else _EACH
_LONGER = 0.1
_TICK = 0.25
_ROWS = pa.table({"age": [number % 90 for number in range(1000)]})
_POLICY = {"bounds": {"age": (0, 100)}, "budget": "100000"}


@pytest.fixture
def longer_on_the_second(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    extra = [0.0]
    original = Program.compute

    def computed(*arguments: object) -> object:
        time.sleep(extra[0])
        return original(*arguments)

    monkeypatch.setattr(Program, "compute", computed)
    return extra


def _ask(services: tuple[Asked, Asked], extra: list[float]) -> None:
    """Ask both services in turn."""
    body = {"question": "SELECT COUNT(*) + 100000 AS n FROM data", "epsilon": "1", "fresh": True}
    for number in range(-2, _EACH):  # the first two are to warm up
        for which, service in enumerate(services):
            extra[0] = _LONGER * which
            told, seconds = service.post("/ask", body)
            assert told.status_code == 200
            if number >= 0:
                service.seen.response(told, seconds)
    for service in services:
        service.read_ledger(_EACH)


def test_with_slots_nothing_tells_neighbouring_data_apart(tmp_path: Path, longer_on_the_second: list[float]) -> None:
    with neighbours(tmp_path, _ROWS, tick=_TICK, **_POLICY) as services:
        _ask(services, longer_on_the_second)
    check_alike(services[0].seen, services[1].seen, slot=_TICK)


def test_without_slots_the_same_test_finds_the_difference(tmp_path: Path, longer_on_the_second: list[float]) -> None:
    with neighbours(tmp_path, _ROWS, tick=0, **_POLICY) as services:
        _ask(services, longer_on_the_second)
    here, there = (service.seen for service in services)
    assert told_apart(here.seconds, there.seconds)
    assert told_apart(here.recorded, there.recorded)


_CANARY = "Ada Lovelace, 1815"
"""Stands for the value of a row that an engine's error may quote."""


def _fail(error: Exception, seconds: float) -> Callable[[], None]:
    def fail() -> None:
        time.sleep(seconds)
        raise error

    return fail


def _nothing_quotes_a_row(folder: Path) -> None:
    for file in folder.rglob("*"):
        assert not file.is_file() or _CANARY.encode() not in file.read_bytes()


@pytest.mark.parametrize(
    ("ways", "limit"),
    [
        pytest.param((_fail(EngineError(), 0.0), _fail(ValueError(_CANARY), 0.1)), 30.0, id="failures"),
        pytest.param((_fail(EngineError(), 1.0), _fail(ValueError(_CANARY), 1.2)), 0.3, id="timeouts"),
    ],
)
def test_questions_without_an_answer_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: tuple[Callable[[], None], ...], limit: float
) -> None:
    way = [ways[0]]
    monkeypatch.setattr(Program, "compute", lambda *_: way[0]())
    body = {"question": "SELECT COUNT(*) AS n FROM data", "epsilon": "1", "fresh": True}
    with neighbours(tmp_path, _ROWS, tick=_TICK, limit=limit, **_POLICY) as services:
        for number in range(-1, _EACH_OUTCOME):
            for which, service in enumerate(services):
                way[0] = ways[which]
                told, seconds = service.post("/ask", body)
                if number >= 0:
                    service.seen.response(told, seconds)
        for service in services:
            service.read_ledger(_EACH_OUTCOME)
            assert len(service.seen.said) == 2, service.seen.said  # one response, one line of history
    check_alike(services[0].seen, services[1].seen, slot=min(_TICK, limit))
    _nothing_quotes_a_row(tmp_path)


def test_cancelled_questions_end_alike_whether_they_were_ready_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first service is ready at once, the second at the half of the slot or never: a public schedule says when."""
    began, way = threading.Event(), [lambda: None]

    def computed(*_: object) -> None:
        began.set()
        way[0]()

    monkeypatch.setattr(Program, "compute", computed)
    fates: tuple[list[float], list[float]] = ([], [])
    with neighbours(tmp_path, _ROWS, tick=_TICK, **_POLICY) as services, ThreadPoolExecutor(1) as threads:
        for number in range(-1, _EACH_OUTCOME):
            for which, service in enumerate(services):
                at_once = number % 2 == 0  # the others come shortly before the slot, or shortly after
                way[0] = _fail(ValueError(_CANARY), which * (1.5 if at_once else 0.5) * _TICK)
                began.clear()
                request = f"request {number}"
                body = {"question": "SELECT COUNT(*) AS n FROM data", "epsilon": "1", "fresh": True, "request": request}
                asked = threads.submit(service.post, "/ask", body)
                assert began.wait(30)
                time.sleep(0.0 if at_once else _TICK + 0.001 * (number * 7 % 41 - 20))
                cancel = service.client.delete(f"/api/v1/questions/{request}", headers=service.token).status_code
                told, seconds = asked.result(60)
                assert (cancel, told.status_code) in {(202, 409), (404, 422)}
                if number < 0:
                    continue
                fates[which].append(float(cancel))
                if cancel == 202:
                    service.seen.response(told, seconds)
        for service in services:
            service.read_ledger(_EACH_OUTCOME)
            assert len(service.seen.said) == 2, service.seen.said
    assert not told_apart(*fates)
    assert min(fates[which].count(202.0) for which in (0, 1)) >= 0.2 * _EACH_OUTCOME
    check_alike(services[0].seen, services[1].seen, slot=_TICK)
    _nothing_quotes_a_row(tmp_path)
