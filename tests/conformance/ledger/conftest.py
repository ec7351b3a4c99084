"""Every test of a ledger has a state directory of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
