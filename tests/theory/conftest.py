"""Every answer here has noise of its own: one that was paid for before would measure nothing."""

from __future__ import annotations

from typing import Any

import pytest

from hush.ledger import Ledger, Reservation


@pytest.fixture(autouse=True)
def _no_answer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = Ledger.reserve

    def watched(self: Ledger, request: str, **how: Any) -> Reservation:
        reservation = reserve(self, request, **how)
        assert reservation.answer is None, "this question was answered before: ask it with fresh=True"
        return reservation

    monkeypatch.setattr(Ledger, "reserve", watched)
