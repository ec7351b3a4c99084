"""Few rows are handed out and added up here, many inside the engine: one question has one answer, whatever happens."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from hush.core import Neighbours
from hush.curator.opening import protect
from hush.engines.base import Exact
from hush.engines.duckdb import DuckDB
from hush.engines.duckdb import few_rows as few
from hush.engines.duckdb.few_rows_statement import FEW
from hush.query.plan import plan
from hush.query.plan.plan import Plan
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type


def sums(exact: Exact) -> list[tuple[Any, ...]]:
    """Return the keys and statistics of all groups, in order."""
    return sorted(zip(map(repr, exact.keys), *(values.tolist() for values in exact.statistics.values()), strict=True))


def two_ways(engine: DuckDB, how: Plan, monkeypatch: pytest.MonkeyPatch) -> tuple[Exact, Exact]:
    """Return a plan's integers, added up here and inside the engine."""
    compiled = engine.compile(how)
    assert engine._few()
    mine = engine.execute(compiled)
    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "_few", lambda _: False)
        return mine, engine.execute(compiled)


ENDS = (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
KEYS = {
    "texts": pa.array(["b", "a", None, "é", "", "it's", "b", "\U0001f600", "a", "zz"]),
    "integers": pa.array([3, -1, None, 2**62, -(2**62), 0, 3, 7, -1, 10**15]),
    "beyond 64 bits": pa.array([2**63, 2**64 - 1, None, 1, 2, 3, 1, 2, 3, 0], pa.uint64()),
    "decimals": pa.array([0.5, -0.0, 0.0, float("nan"), float("inf"), None, 1e300, -1e-300, 0.1, 0.5]),
    "booleans": pa.array([True, False, None, True, True] * 2),  # which are public
    "dates": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(1969, 12, 31)] * 2),
    "timestamps": pa.array([dt.datetime(2020, 2, 29, 1, 2, 3, 456789), None, *ENDS, dt.datetime(1969, 12, 31)] * 2),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("unit", [None, "id", "name"])
def test_private_keys_of_every_kind(kind: str, unit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = KEYS[kind]
    frame = pa.table({"id": [at % 4 for at in range(10)], "k": keys, "x": list(range(10))})
    frame = frame.append_column("name", pa.array([f"person {at % 4}" for at in range(10)]))
    owned = {} if unit is None else {"unit": unit, "max_rows": 2, "max_groups": 2}
    budget = {"epsilon": 100, "delta": "1e-3"}
    with protect(frame, bounds={"x": (0, 9)}, budget=budget, **owned) as curator:
        for sql in (
            "SELECT k, COUNT(*) AS n, SUM(x) AS s, COUNT(DISTINCT x) AS d FROM data GROUP BY k",
            "SELECT k, x > 4 AS more, MEDIAN(x) AS m FROM data GROUP BY k, more",
        ):
            desk, how = curator.plan(sql, epsilon=1)
            mine, theirs = two_ways(desk.engine, how, monkeypatch)
            assert mine.keys == theirs.keys
            assert [list(map(type, key)) for key in mine.keys] == [list(map(type, key)) for key in theirs.keys]
            assert np.array_equal(mine.units, theirs.units)
            assert sums(mine) == sums(theirs)


HUGE = Type(Kind.INTEGER, True, Fraction(-(2**51)), Fraction(2**51), Fraction(1))


@pytest.mark.parametrize("rows", [1, 2, 2**20])
def test_the_largest_integers_of_the_most_rows(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 2¹⁶ squares of 2⁵⁶, weighted down or not, are far beyond 64 bits."""
    rng = np.random.default_rng(rows)
    x = rng.choice(np.array([-(2**51), 2**51, 2**51 - 1, 0]), FEW)
    frame = pa.table({"id": np.arange(FEW) // 7, "x": x, "y": -np.abs(x)})
    table = Table(name="t", columns={"x": HUGE, "y": HUGE}, unit=UnitPath(column="id"), max_rows=rows)
    about = Schema(data="d", tables={"t": table}, neighbours=Neighbours.ADD_REMOVE, unit="id")
    never_positive = f"SUM(CLIP(y, {-(2**51)}, 0)) AS b"
    sql = f"SELECT COUNT(*) AS n, SUM(x) AS s, VARIANCE(x) AS v, CORR(x, y) AS r, {never_positive} FROM t"
    how = plan(parse(sql, about), about, epsilon=1, delta="1e-6")
    with DuckDB(about, {"t": frame}) as engine:
        mine, theirs = two_ways(engine, how, monkeypatch)
        assert sums(mine) == sums(theirs)
        assert rows == 1 or max(abs(values[0]) for values in mine.statistics.values()) > 2**63
        whole = [np.arange(4)] * 2
        for values in ([2**62, -(2**62), 2**62 - 1, -1], [2**31, -(2**31), 2**53, -(2**53)]):
            found = few._added(np.array(values * 2), np.concatenate(whole), 4)
            assert found.tolist() == [2 * value for value in values]


@pytest.mark.parametrize(
    "values",
    [
        np.array([], dtype=np.int32),
        np.array([-128, 127, 0, 127, -1], dtype=np.int8),
        np.array([0, 255, 3], dtype=np.uint8),
        np.array([2**63, 2**63 - 1, 2**63 + 5, 2**63], dtype=np.uint64),
        np.array([2**64 - 1, 0, 2**63, 7], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, 0, -1]),
        np.array([2**63 - 1, 2**63 - 3, 2**63 - 1]),
        np.array([2**20, 1, 2**20, 0]),
    ],
)
def test_numbers_of_units(values: np.ndarray) -> None:
    assert few._numbered(values).tolist() == np.unique(values, return_inverse=True)[1].tolist()


def test_one_row_more_than_few_is_left_to_the_engine() -> None:
    for many in (FEW, FEW + 1):
        frame = pa.table({"id": np.arange(many), "x": np.arange(many) % 10})
        with protect(frame, unit="id", bounds={"x": (0, 9)}, budget=100) as curator:
            desk, how = curator.plan("SELECT COUNT(*) AS n FROM data", epsilon=1)
            assert desk.engine._few() == (many <= FEW)
            assert sums(desk.engine.run(how)) == [("()", many)]


UNION = " UNION ALL ".join(["SELECT id, x FROM data"] * 40)
MANY = {
    "a join": "SELECT COUNT(*) AS n, SUM(a.x) AS s FROM data AS a JOIN data AS b ON a.id = b.id",
    "a union": f"SELECT COUNT(*) AS n, SUM(x) AS s FROM ({UNION}) AS t",
}


def told(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that takes note of whether handed-out rows were too many."""
    seen: list[bool] = []
    tell = few.too_many
    monkeypatch.setattr(few, "too_many", lambda *given: seen.append(tell(*given)) or seen[-1])
    return seen


@pytest.mark.parametrize("sql", MANY.values(), ids=MANY)
def test_few_rows_that_become_many(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({"id": np.arange(2000) // 100, "x": np.arange(2000) % 10})
    with protect(frame, unit="id", max_rows=9, bounds={"x": (0, 9)}, budget=100) as curator:
        desk, how = curator.plan(sql, epsilon=1)
        seen = told(monkeypatch)
        mine, theirs = two_ways(desk.engine, how, monkeypatch)
        assert seen == [True]
        assert sums(mine) == sums(theirs)
        flat, limit = desk.engine.compile(how).flat, f"LIMIT {FEW + 1}"
        assert limit in flat.text  # and before rows are numbered: to number those beyond takes as long as to answer
        assert not flat.text.endswith(limit)


@pytest.mark.parametrize("keys", ["k", "k, l"])
@pytest.mark.parametrize("length", [0, 512, 513])
def test_long_texts_are_not_handed_out(length: int, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of all keys of a row count, in bytes."""
    word = "w" * (length % 2) + "é" * (length // 2)
    frame = pa.table({"id": list(range(90)), "k": ["short", word, None] * 30, "l": ["", "x" * (length > 0), None] * 30})
    with protect(frame, unit="id", budget={"epsilon": 100, "delta": "1e-3"}) as curator:
        desk, how = curator.plan(f"SELECT {keys}, COUNT(*) AS n FROM data GROUP BY {keys}", epsilon=1)
        seen = told(monkeypatch)
        mine, theirs = two_ways(desk.engine, how, monkeypatch)
        assert seen == [length > (512 if keys == "k" else 511)]
        assert mine.keys == theirs.keys
        assert sums(mine) == sums(theirs)


@pytest.mark.parametrize("key", ["", "k, "])
@pytest.mark.parametrize(("before", "after"), [(70_000, 3000), (3000, 70_000)])
def test_a_file_that_crosses_the_size_between_charge_and_answer(
    before: int, after: int, key: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"

    def write(rows: int) -> None:
        lines = (f"{at // 2},{at * 400},word {at % 3}\n" for at in range(rows))
        path.write_text("id,x,k\n" + "".join(lines), encoding="utf-8")

    write(before)
    x = Type(Kind.INTEGER, True, Fraction(0), Fraction(2**25), Fraction(1))
    table = Table(name="t", columns={"x": x, "k": Type(Kind.TEXT, True)}, unit=UnitPath(column="id"), max_rows=3)
    about = Schema(data="d", tables={"t": table}, neighbours=Neighbours.ADD_REMOVE, unit="id")
    sql = (
        "SELECT k, MEDIAN(x) AS m, SUM(x) AS s FROM t GROUP BY k"
        if key
        else "SELECT MEDIAN(x) AS m, SUM(x) AS s FROM t"
    )
    how = plan(parse(sql, about), about, epsilon=1, delta="1e-6")
    with DuckDB(about, {"t": path}) as engine:
        compiled = engine.compile(how)
        assert engine._few() == (before <= FEW)
        write(after)
        right = engine.run(how)  # somebody asks the same meanwhile
        found = engine.execute(compiled)
        assert sums(found) == sums(right)
        width = how.picks[0].choice.histogram.width
        for one, other in zip(found.histograms[0], right.histograms[0], strict=True):
            wide = [{}, {}]
            for counted, sparse in zip(wide, (one, other), strict=True):
                for place, weight in zip((sparse.bins // width).tolist(), sparse.weights.tolist(), strict=True):
                    counted[place] = counted.get(place, 0) + weight
            assert wide[0] == wide[1]


def test_groups_that_the_bounds_empty_are_not_offered() -> None:
    """Every unit is in many groups, of which one is kept: most groups are left without a unit."""
    rng = Random(1)
    frame = pa.table({"id": [at % 5 for at in range(400)], "k": [f"key {rng.randrange(200)}" for _ in range(400)]})
    with protect(frame, unit="id", max_groups=1, budget={"epsilon": 100, "delta": "1e-3"}) as curator:
        desk, how = curator.plan("SELECT k, COUNT(*) AS n FROM data GROUP BY k", epsilon=1)
        offered: list[np.ndarray] = []
        desk.engine.run(how, lambda units: offered.append(units) or np.zeros(len(units), dtype=bool))
        (units,) = offered
        assert units.min() >= 1
        assert units.sum() == 5


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_frames_of_every_library_are_few_rows(kind: str) -> None:
    frame = pa.table({"id": list(range(100)), "word": ["a", None] * 50})
    kinds = {"arrow": lambda: frame, "pandas": frame.to_pandas, "polars": lambda: pl.from_arrow(frame)}
    with protect(kinds[kind](), unit="id", budget=100) as curator:
        desk, _ = curator.plan("SELECT COUNT(word) AS n FROM data", epsilon=1)
        assert desk.engine._few()


def test_one_column_may_be_a_condition_and_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({"id": [1, 1, 2, 3], "x": [1, None, 3, 4], "b": [True, None, False, True]})
    with protect(frame, unit="id", bounds={"x": (0, 9)}, max_rows=2, budget=100) as curator:
        for sql in (
            "SELECT COUNT(x) AS n, COUNT(DISTINCT x IS NOT NULL) AS d, COUNT(DISTINCT x) AS v FROM data",
            "SELECT COUNT(*) FILTER (WHERE b) AS n, COUNT(DISTINCT b) AS d, MODE(b) AS m FROM data",
            "SELECT SUM(DISTINCT x) AS s, AVG(DISTINCT x / 3) AS a, SUM(DISTINCT x) FILTER (WHERE b) AS f FROM data",
        ):
            desk, how = curator.plan(sql, epsilon=1)
            mine, theirs = two_ways(desk.engine, how, monkeypatch)
            assert sums(mine) == sums(theirs)


def test_rows_of_an_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({"id": pa.array([], pa.int64()), "k": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    budget = {"epsilon": 100, "delta": "1e-3"}
    with protect(frame, unit="id", bounds={"x": (0, 9)}, values={"k": ["a", "b"]}, budget=budget) as curator:
        for sql in (
            "SELECT COUNT(*) AS n, SUM(x) AS s, COUNT(DISTINCT x) AS d, MEDIAN(x) AS m, CORR(x, x + 1) AS r FROM data",
            "SELECT k, COUNT(*) AS n, COUNT(DISTINCT id) AS u, MEDIAN(x) AS m FROM data GROUP BY k",
            "SELECT x, COUNT(*) AS n, MODE(k) AS m FROM data GROUP BY x",
            "SELECT k, SUM(DISTINCT x) AS s, AVG(DISTINCT x) AS a FROM data GROUP BY k",
            "SELECT CONCAT(k, 'c') AS c, SUM(x) AS s, MEDIAN(x) AS m FROM data GROUP BY c",
        ):
            desk, how = curator.plan(sql, epsilon=1)
            mine, theirs = two_ways(desk.engine, how, monkeypatch)
            assert mine.keys == theirs.keys
            assert sums(mine) == sums(theirs)
            assert [len(one) for one in mine.histograms] == [len(one) for one in theirs.histograms]
