"""Conditions on a release: error bars hold also where a condition cuts a group of neighbouring values."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from hush.core import InvalidValueError
from hush.curator.coding import masks
from hush.curator.curator import Curator
from hush.curator.opening import protect

ROWS = 3000


def data() -> pa.Table:
    start = dt.datetime(2024, 1, 1)
    return pa.table(
        {
            "kind": [None if row % 7 == 0 else "ab"[row % 2] for row in range(ROWS)],
            "at": [start + dt.timedelta(hours=row) for row in range(ROWS)],
            "cost": np.arange(ROWS) * 0.01,
            "age": np.arange(ROWS) % 90,
        }
    )


@pytest.fixture(scope="module")
def curator() -> Curator:
    return protect(
        data(),
        values={"kind": ["a", "b", None]},
        bounds={"at": ("2024-01-01", "2024-12-31"), "cost": (0, 5000, "0.01"), "age": (0, 99)},
        budget={"epsilon": 1000, "delta": "1e-6"},
    )


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("cost < 10", 1000),
        ("cost = 3.17", 1),
        ("cost BETWEEN 4 AND 4.5", 51),
        ("cost IN (1.0, 2.0) OR cost > 25", 2 + 499),
        ("at < TIMESTAMP '2024-02-01 00:00:00'", 744),
        ("NOT cost < 29", 100),
        ("kind IS NULL", 429),
        ("age + 1 <= 30 AND kind = 'a'", None),
        ("TRUE", ROWS),
    ],
)
def test_intervals_hold_for_any_condition(curator: Curator, condition: str, truth: int | None) -> None:
    frame = data().to_pandas()
    expected = int(((frame.age + 1 <= 30) & (frame.kind == "a")).sum()) if truth is None else truth
    tables = curator.marginals("SELECT kind, at, cost, age FROM data", epsilon="8")
    made = curator.synth("SELECT kind, at, cost, age FROM data", epsilon="8")
    counted = tables.count(condition).columns[0]
    assert counted.errors is not None
    # a normal deviate beyond three half-widths of 95 % has a probability below 1e-8
    assert abs(counted.values[0] - expected) <= 3 * counted.errors[0]
    answer = made.count(condition)
    assert answer.error is not None
    assert abs(answer.value - expected) <= 3 * answer.error


def test_groups_that_are_cut_are_found(curator: Curator) -> None:
    coding = curator.marginals("SELECT cost, age FROM data", epsilon="1").coding
    width = coding.column("cost").width
    assert width > 1
    inside = masks(coding, "cost = 3.17")
    assert inside.maybe.sum() == 1
    assert inside.surely.sum() == 0
    aligned = masks(coding, f"cost < {width * 3 / 100}")
    assert aligned.exact
    assert aligned.surely.sum() == 3
    assert masks(coding, "age < 30").exact


def test_what_cannot_be_told_is_refused(curator: Curator) -> None:
    coding = curator.marginals("SELECT cost, age FROM data", epsilon="1").coding
    for condition in ("cost * 2 < 10", "cost < age", "cost < 10 OR age < 3", "COUNT(*) > 3"):
        with pytest.raises(InvalidValueError, match="condition"):
            masks(coding, condition)
