"""With slots on, only noise tells neighbouring data apart in what a service says of whole releases.

Marginals, synthetic rows, ranges, a model and the periods of a stream are made over the API of two services whose data
differ in one unit; the second also reads its rows a tenth of a second longer. What is seen of both is compared as that
of questions is (`test_service_secrecy`): times, sizes, bodies, headers, events, and the times of the ledger.

`make nightly` makes hundreds of each (HUSH_RELEASES).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from neighbouring_services import Asked, check_alike, neighbours, told_apart

from hush.engines.protocol import CodedRows
from hush.engines.sql_engine import SqlEngine

_EACH = int(os.environ.get("HUSH_RELEASES", "4")) // 2
_LONGER = 0.1
_TICK = 0.5 if _EACH >= 100 else 0.25
_ROWS = pa.table(
    {
        "day": [number % 400 for number in range(1000)],
        "age": [number % 90 for number in range(1000)],
        "city": [("Oslo", "Bergen")[number % 2] for number in range(1000)],
    }
)
_POLICY: dict[str, Any] = {
    "bounds": {"age": (0, 100), "day": (0, 2000)},
    "values": {"city": ["Oslo", "Bergen"]},
    "budget": {"epsilon": "100000", "delta": "1e-6"},
}
_PAID = {"epsilon": "1", "fresh": True}
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "marginals": ("/releases/marginals", {"table": "data", "by": ["city", "age"], "degree": 1, **_PAID}),
    "synth": ("/releases/synth", {"question": "SELECT city FROM data", **_PAID}),
    "ranges": ("/releases/ranges", {"question": "SELECT age FROM data", **_PAID}),
    "fit": ("/releases/fit", {"question": "SELECT age, city FROM data", "target": "age", "model": "linear", **_PAID}),
}
_STREAM = {"question": "SELECT day, COUNT(*) AS n FROM data GROUP BY day", "horizon": "2000 periods", "epsilon": "1"}


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How much longer rows are read, in seconds."""
    extra = [0.0]
    original = SqlEngine.rows

    def rows(*arguments: Any) -> CodedRows:
        time.sleep(extra[0])
        return original(*arguments)

    monkeypatch.setattr(SqlEngine, "rows", rows)
    return extra


def _make(services: tuple[Asked, Asked], extra: list[float], kind: str) -> None:
    """Make releases at both services in turn."""
    step: Callable[[int], tuple[str, dict[str, Any]]]
    if kind == "stream":
        for service in services:
            assert service.post("/streams", {**_STREAM, "name": "days"})[0].status_code == 201
        step = lambda number: ("/streams/days/advance", {"through": number + 1})  # noqa: E731
    else:
        step = lambda _: _KINDS[kind]  # noqa: E731
    for number in range(-1, _EACH):  # the first is to warm up
        for which, service in enumerate(services):
            extra[0] = _LONGER * which
            told, seconds = service.post(*step(number))
            assert told.status_code == 200, told.text
            if number >= 0:
                service.seen.response(told, seconds)
    for service in services:
        service.read_ledger(1 if kind == "stream" else _EACH)


@pytest.mark.parametrize("kind", [*_KINDS, "stream"])
def test_with_slots_nothing_tells_neighbouring_data_apart(tmp_path: Path, longer: list[float], kind: str) -> None:
    with neighbours(tmp_path, _ROWS, tick=_TICK, **_POLICY) as services:
        _make(services, longer, kind)
    here, there = (service.seen for service in services)
    check_alike(here, there, slot=_TICK)
    assert min([*here.seconds, *there.seconds]) >= _TICK
    if _EACH >= 100:  # without slots the same comparison finds the difference
        with neighbours(tmp_path / "without slots", _ROWS, tick=0, **_POLICY) as services:
            _make(services, longer, kind)
        assert told_apart(services[0].seen.seconds, services[1].seen.seconds)
