"""Both ways of an embedded engine: few rows are added up in this process, many inside the engine."""

from __future__ import annotations

import pytest

from hush.engines.duckdb import DuckDB


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
