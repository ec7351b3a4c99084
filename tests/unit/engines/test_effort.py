"""How long a question should take follows from the question and from declared sizes, whatever rows there are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import hush
from hush.curator.curator import Curator
from hush.curator.pipeline import prepare
from hush.engines.protocol import DEFAULT_ROWS

PUBLIC = pa.table({"c": list(range(500)), "label": ["a", "b"] * 250})
QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM data",
    "keys": "SELECT g, SUM(x) AS s FROM data GROUP BY g",
    "median": "SELECT g, MEDIAN(x) AS s FROM data GROUP BY g",
    "private keys": "SELECT t, COUNT(*) AS n FROM data GROUP BY t",
    "public join": "SELECT COUNT(*) AS n FROM data, r",
    "looked up": "SELECT COUNT(*) AS n FROM data JOIN r ON x = c",
    "self join": "SELECT COUNT(*) AS n FROM data AS a JOIN data AS b ON a.id = b.id",
    "composed": "SELECT SUM(n) AS s FROM (SELECT g, COUNT(*) AS n FROM data GROUP BY g) AS q",
}


def opened(rows: int) -> Curator:
    types = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("t", pa.string()), ("g", pa.string())])
    columns = {"id": list(range(rows)), "x": [5] * rows, "t": ["w" * 50] * rows, "g": ["a"] * rows}
    frame = pa.table(columns, types)
    budget = {"epsilon": 10, "delta": "1e-3"}
    return hush.protect(
        frame, unit="id", bounds={"x": (0, 9)}, values={"g": ["a", "b"]}, budget=budget, public={"r": PUBLIC}
    )


def seconds(curator: Curator, sql: str, size: int | None = None) -> float:
    data_set, plan = curator.plan(sql, epsilon=1)
    if size is not None:
        object.__setattr__(data_set, "sizes", {"data": size})
    return prepare(plan, data_set).seconds


@pytest.mark.parametrize("sql", QUESTIONS.values(), ids=QUESTIONS)
def test_it_tells_nothing_of_the_rows(sql: str) -> None:
    found = set()
    for rows in (0, 1, 2048, 65_537):
        with opened(rows) as curator:
            found.add(seconds(curator, sql))
    assert len(found) == 1


def test_it_grows_with_what_is_declared_and_with_what_joins_make() -> None:
    with opened(10) as curator:
        each = {name: [seconds(curator, sql, size) for size in (1000, 10**6)] for name, sql in QUESTIONS.items()}
        assert seconds(curator, QUESTIONS["count"], DEFAULT_ROWS) < 0.1  # an ordinary question is answered at once
    assert all(few < 0.3 for name, (few, _) in each.items() if name != "self join")
    assert all(few < many for few, many in each.values())
    assert each["public join"][1] > 50 * each["looked up"][1]
    assert each["self join"][0] > 0.3  # as many pairs as one person may have
