"""Random statements mean what DuckDB takes them to mean: a differential oracle.

A statement that hush refuses, or that fails in DuckDB, proves nothing and is counted. Where both answer, every key
must be equal and every number within the noise of ε = 10⁹ and its half-width.

``HUSH_STATEMENTS`` says how many statements are made, ``HUSH_SEED`` from which seed: the seed of a failing statement is
in its message.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from duckdb_oracle import answered, as_exact, near, plain_duckdb, same
from random_statements import LARGE, PUBLIC, StatementWriter, awkward_table

import hush
from hush.core import HushError
from hush.curator.curator import Curator
from hush.engines.errors import EngineError

STATEMENTS = int(os.environ.get("HUSH_STATEMENTS", "200"))
SEED = int(os.environ.get("HUSH_SEED", "0"))


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return awkward_table()


@pytest.fixture(scope="module")
def curator(rows: pa.Table) -> Iterator[Curator]:
    with hush.protect(
        rows,
        unit="id",
        table="r",
        bounds={
            "i": (-10, 10),
            "x": (-100, 100),
            "f": (-10, 10),
            "d": (-100, 100),
            "day": (dt.date(2019, 1, 1), dt.date(2021, 12, 31)),
            "moment": (dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)),
        },
        values={
            "g": [0, 1, 2, 3],
            "big": [LARGE + at for at in range(8)],
            "t": ["red", "Blue", "straße", " a"],
        },
        budget={"epsilon": "1e15", "delta": "0.5"},
        public={"p": PUBLIC},
        max_rows=2,
        max_groups=2,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def plain(rows: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain_duckdb({"r": rows, "p": PUBLIC}) as connection:
        yield connection


def near_or_nothing(ours: object, theirs: object) -> bool:
    """Return whether a noisy number is what it should be; of nothing there is no sum, and that is not said."""
    return theirs is None or near(ours, theirs)


def assert_same_answer(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return which of both answered; fail if they differ."""
    try:
        theirs = plain.execute(sql).fetchall()
    except duckdb.Error:
        theirs = None
    try:
        answer = curator.ask(sql, epsilon="1e9", delta="0.01", fresh=True)
    except EngineError as error:  # nothing fails after the charge
        raise AssertionError(sql) from error
    except HushError:
        return "refused"
    if theirs is None:
        return "fails in DuckDB"
    ours = answered(answer)
    if " GROUP BY " not in sql or "AS u WHERE" in sql:
        assert all(near_or_nothing(a, b) for a, b in zip(ours[0], theirs[0], strict=True)), (sql, ours, theirs)
        return "compared"
    keyed = {as_exact(row[0]): row for row in theirs}
    for row in ours:
        key = as_exact(row[0])
        found = keyed.get(key) or next((other for at, other in keyed.items() if same(key, at)), None)
        assert found is not None, (sql, row, theirs)
        assert same(row[0], found[0]), (sql, row, found)
        assert same(row[1], found[1]), (sql, row, found)
        assert near_or_nothing(row[2], found[2]), (sql, row, found)
        assert near_or_nothing(row[3], found[3]), (sql, row, found)
    shown = [as_exact(row[0]) for row in ours]
    missing = [row for row in theirs if row[2] >= 4 and not any(same(key, row[0]) for key in shown)]
    assert not missing, (sql, ours, missing)
    if "ORDER BY" in sql.rsplit(" GROUP BY ", 1)[-1]:  # and not within a window
        order = [
            next(key for key in shown if same(key, row[0])) for row in theirs if any(same(key, row[0]) for key in shown)
        ]
        assert shown == order, (sql, ours, theirs)
    return "compared"


PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_random_statements_mean_what_duckdb_means(
    curator: Curator, plain: duckdb.DuckDBPyConnection, part: int
) -> None:
    outcomes = {"compared": 0, "refused": 0, "fails in DuckDB": 0}
    for seed in range(SEED + part, SEED + STATEMENTS, PARTS):
        outcomes[assert_same_answer(curator, plain, StatementWriter(seed).statement())] += 1
    assert outcomes["compared"] >= sum(outcomes.values()) / 3, outcomes
