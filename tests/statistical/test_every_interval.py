"""Every kind of interval that hush shows holds: a quick look at the settings of ``benchmarks/coverage.py``.

A setting fails where a true coverage of 93 % at a nominal 95 % would show so few hits with a probability below 1e-6.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage.py"
_SPEC = importlib.util.spec_from_file_location("every_interval", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
every_interval = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(every_interval)
QUICK = [
    pytest.param(count, id=f"{name}, {rows} rows, ε={epsilon}")
    for name, rows, epsilon, count in every_interval.settings()
    if rows <= 1000 and name not in every_interval.SLOW
]


def test_the_table_has_all_that_was_asked_for():
    assert len(list(every_interval.settings())) > 150
    assert len(QUICK) >= 40


@pytest.mark.parametrize("count", QUICK)
def test_intervals_hold(count):
    held, asked, _ = count(100)
    assert not every_interval.misses(held, asked)


def test_a_coverage_of_two_thirds_would_be_seen():
    assert every_interval.misses(200, 300)
    assert not every_interval.misses(270, 300)
