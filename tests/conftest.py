"""Both ways of an embedded engine: few rows are added up in this process, many inside the engine.

Anchors of ledgers that tests make go to a directory of their own, not to the home of whoever runs the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hush.engines.duckdb import DuckDB
from hush.ledger import Ledger, Reservation


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table count as one of many rows."""
    monkeypatch.setattr(DuckDB, "_few", lambda _: False)


@pytest.fixture(params=["few rows", "many rows"])
def both_ways(request: pytest.FixtureRequest) -> str:
    """Run a test in both ways."""
    if request.param == "many rows":
        request.getfixturevalue("many_rows")
    return str(request.param)


@pytest.fixture
def no_answer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse an answer that was paid for before: it has no noise of its own."""
    reserve = Ledger.reserve

    def watched(self: Ledger, request: str, **how: Any) -> Reservation:
        reservation = reserve(self, request, **how)
        assert reservation.answer is None, "this question was answered before: ask it with fresh=True"
        return reservation

    monkeypatch.setattr(Ledger, "reserve", watched)
