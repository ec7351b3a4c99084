"""Values that are easily lost on the way: constants, decimals, float32, large integers, functions of keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import hush
from hush.curator.curator import Curator
from hush.query.errors import QuestionError

ROWS = 40
LARGE = 2**60


def rows() -> pa.Table:
    def cycle(values: list, type_: pa.DataType) -> pa.Array:
        return pa.array([values[at % len(values)] for at in range(ROWS)], type_)

    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "x": cycle([0.07, 0.06, 0.1, 0.3, 53.1, 2.5, None], pa.float64()),
            "f": cycle([0.1, 0.2, 0.3, 2.5], pa.float32()),
            "d": cycle([Decimal(word) for word in ("0.07", "0.06", "0.20", "1.50", "2.50")], pa.decimal128(9, 2)),
            "i": cycle([0, 1, 2, 3, 4], pa.int64()),
            "big": cycle([LARGE + at for at in range(8)], pa.int64()),
            "t": cycle(["straße", " a", "b", "zz", None], pa.string()),
            "b": cycle([True, False, None], pa.bool_()),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=at) for at in range(ROWS)]),
            "moment": pa.array(
                [dt.datetime(2020, 1, 1, 1, 2, 3, 500000) + dt.timedelta(hours=at % 4) for at in range(ROWS)]
            ),
            "m": cycle([0.9, 0.3, 0.6], pa.float64()),
            "w": cycle(["2020-1-5", "yes", "2020-02-03 ", "7"], pa.string()),
        }
    )


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    with hush.protect(
        rows(),
        unit="id",
        table="r",
        bounds={
            "x": (0, 100),
            "f": (0, 100),
            "d": (0, 100),
            "i": (0, 10),
            "day": (dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
            "m": (0, 3, "0.3"),
            "moment": (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)),
        },
        values={
            "t": ["straße", " a", "b"],
            "w": ["2020-1-5", "yes", "2020-02-03 ", "7"],
            "big": [LARGE + at for at in range(8)],
        },
        budget={"epsilon": "1e13", "delta": "0.5"},
        max_rows=2,
    ) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as made:
        made.register("fresh", rows())
        made.execute("CREATE TABLE r AS SELECT * FROM fresh")
        yield made


CONDITIONS = [
    "x BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
    "d BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
    "0.1 + 0.2 = 0.3",
    "0.1 * 3 = 0.3",
    "i * 0.1 = 0.3",
    "0.1 * i < 0.3",
    "d + 0.1 = 0.3",
    "d * 1.5 - 0.09 = 0.00",
    "d % 0.02 = 0",
    "ROUND(d * 0.5, 1) = 0.1",
    "x = 53.1",
    "x < 53.1",
    "x > 0.06",
    "m = 0.9",
    "m >= 0.9",
    "f = 0.1",
    "f > 0.1",
    "f <= 0.3",
    "f * 3 = 0.3",
    "f IN (0.1, 0.2)",
    "f = 0.1000000000000000",
    "f = 0.10000000000000000001",
    "f IN (0.20000000000000000001, 7)",
    "f BETWEEN 0.10000000000000000001 AND 0.20000000000000000001",
    "f + 0.00000000000000000001 = 0.1",
    "CAST(CASE WHEN i > 0 THEN d END AS INTEGER) = 3",
    "CAST(CASE WHEN i > 0 THEN d END AS VARCHAR) = '1.50'",
    "CAST(IF(i > 0, d, NULL) AS INTEGER) = 3",
    "CAST(NULLIF(d, 1) AS VARCHAR) = '1.50'",
    "CAST(COALESCE(NULL, d) AS VARCHAR) = '1.50'",
    "CASE WHEN i > 0 THEN f END = 0.1",
    "CASE WHEN i > 0 THEN f END * 3 = 0.3",
    "CASE WHEN i > 0 THEN d END + 0.1 = 0.3",
    "LOG10(i * 250 + 250) = 3",
    "LOG(2, i + 4) = 3",
    "CAST(d AS INTEGER) = 3",
    "CAST(d AS VARCHAR) = '1.50'",
    "CAST(f AS VARCHAR) = '0.1'",
    "big = 1152921504606846978",
    "big + 1 = 1152921504606846978",
    "big - 1152921504606846976 = 2.0",
    "big > 1152921504606846978.5",
    "big % 8 = 3",
    "-big = -1152921504606846979",
    "STARTS_WITH(t, '') AND t IN ('straße', ' a', 'b')",
    "TRY_CAST(i * 250 AS DECIMAL(4, 1)) IS NULL",
    "TRY_CAST(w AS DATE) = DATE '2020-02-03'",
    "TRY_CAST(w AS DATE) = DATE '2020-01-05'",
    "TRY_CAST(w AS BOOLEAN)",
    "big % 0.3 = 0.1",
    "TRY_CAST(big AS INTEGER) IS NULL",
    "TRY_CAST(i * 100 AS TINYINT) IS NULL",
    "i = 2.5",
    "i <> 2.5",
    "i < 2.5",
    "2.5 < i",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_see_what_is_stored(curator: Curator, plain: duckdb.DuckDBPyConnection, condition: str) -> None:
    sql = f"SELECT COUNT(*) AS n FROM r WHERE {condition}"
    assert curator.ask(sql, epsilon="1e9", fresh=True).value() == plain.execute(sql).fetchall()[0][0]


STATEMENTS = [
    "SELECT COUNT(DISTINCT big) FROM (SELECT big FROM r UNION ALL SELECT big FROM r) AS u",
    "SELECT COUNT(*) FROM (SELECT d FROM r UNION ALL SELECT d FROM r) AS u WHERE CAST(d AS INTEGER) = 3",
    "SELECT COUNT(*) FROM (SELECT f FROM r UNION ALL SELECT d FROM r) AS u WHERE f = 0.2",
    "SELECT COUNT(*) FROM (SELECT id, SUM(x) AS v FROM r GROUP BY id) AS u WHERE v = 53.1",
    "SELECT COUNT(*) FROM (SELECT id, SUM(d) AS v FROM r GROUP BY id) AS u WHERE v = 0.07",
    "SELECT COUNT(*) FROM (SELECT id, AVG(x) AS v FROM r GROUP BY id) AS u WHERE v = 0.3",
    "SELECT COUNT(*) FROM (SELECT id, MAX(d) AS v FROM r GROUP BY id) AS u WHERE CAST(v AS INTEGER) = 3",
    "SELECT COUNT(*) FROM (SELECT id, MAX(big) AS v FROM r GROUP BY id) AS u WHERE v = 1152921504606846979",
    "SELECT big, COUNT(*) FROM r GROUP BY big HAVING big = 1152921504606846978",
    "SELECT big, COUNT(*) FROM r GROUP BY big ORDER BY big DESC",
    "SELECT big, big + 1 AS v, CAST(big AS VARCHAR), COUNT(*) FROM r GROUP BY big ORDER BY 1",
    "SELECT UPPER(t) AS u, COUNT(*) FROM r WHERE t IN ('straße', ' a', 'b') GROUP BY t ORDER BY t",
    "SELECT CAST(b AS VARCHAR), CAST(b AS INTEGER), NOT b, COUNT(*) FROM r WHERE b IS NOT NULL GROUP BY b ORDER BY 1",
    "SELECT TRY_CAST(w AS DATE), TRY_CAST(w AS BOOLEAN), TRY_CAST(w AS INTEGER), COUNT(*) FROM r GROUP BY w ORDER BY w",
    "SELECT LEAST(day, NULL), CAST(day AS VARCHAR), COUNT(*) FROM r WHERE day < '2020-01-05' GROUP BY day ORDER BY 1",
    "SELECT i * 0.1 AS v, CAST(i * 0.1 AS VARCHAR), i * 0.1 = 0.3, COUNT(*) FROM r WHERE i < 5 GROUP BY i ORDER BY i",
    "SELECT CAST(COUNT(*) * 0.5 AS INTEGER), CAST(COUNT(*) AS VARCHAR) FROM r WHERE x IS NULL",
    "SELECT d, CAST(d AS VARCHAR) AS s, CAST(d AS INTEGER), ROUND(d, 1), COUNT(*) FROM r GROUP BY d ORDER BY d",
    "SELECT ROUND(f, 1) * 0.1, COUNT(*) FROM r GROUP BY ROUND(f, 1) HAVING ROUND(f, 1) = 0.2",
    "SELECT moment, CAST(moment AS VARCHAR) AS s, HOUR(moment), COUNT(*) FROM r GROUP BY 1 ORDER BY 1",
]


def alike(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("sql", STATEMENTS)
def test_nothing_is_lost_on_the_way(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    answer = curator.ask(sql, epsilon="1e9", delta="0.01", fresh=True)
    ours = [tuple(cell for name, cell in row.items() if not name.endswith("_error")) for row in answer.rows()]
    assert ours == [tuple(map(alike, row)) for row in plain.execute(sql).fetchall()]


def test_the_mode_of_whole_numbers_that_equal_no_whole_number_is_answered(curator: Curator) -> None:
    """Nothing fails after the charge: no row passes, and what is picked is any value."""
    assert curator.ask("SELECT MODE(i) AS m FROM r WHERE i = 2.5", epsilon=1, fresh=True).value() in range(11)


def test_a_sum_of_nothing_is_about_zero(curator: Curator) -> None:
    """Whether rows exist is a private fact, so NULL is not the answer."""
    assert curator.ask("SELECT SUM(i) AS s FROM r WHERE i > 20", epsilon="1e9", fresh=True).value() == 0


def test_bars_cover_the_rounding_to_the_grid(curator: Curator, plain: duckdb.DuckDBPyConnection) -> None:
    """Noise at ε = 10⁹ is a few steps, and the bar of a sum 2¹⁹: a false alarm has probability e^(-2¹⁸)."""
    step = 2**-23
    for sql in ("SELECT SUM(x) AS v FROM r", "SELECT SUM(x) / 7 AS v FROM r"):
        (row,) = curator.ask(sql, epsilon="1e9", fresh=True).rows()
        truth = float(plain.execute(sql).fetchall()[0][0])
        assert row["v_error"] is not None
        assert abs(row["v"] - truth) <= row["v_error"]
        assert row["v_error"] >= 2**19 * step / 7
    (row,) = curator.ask("SELECT AVG(x) AS v FROM r", epsilon="1e9", fresh=True).rows()
    assert row["v_error"] >= step / 2


POLICY = """
[data.d]
unit = "id"
budget = { epsilon = "1e12" }
[data.d.tables.r]
source = "r.parquet"
columns.temperature = { type = "decimal", lower = -50, upper = 60 }
[analysts.a]
data = ["d"]
budget = { epsilon = "1e12" }
"""


def test_a_decimal_without_a_step_is_compared_as_it_is_stored(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": range(30), "temperature": [53.1, 53.2, 53.0] * 10}), tmp_path / "r.parquet")
    (tmp_path / "hush.toml").write_text(POLICY)
    with hush.open(tmp_path / "hush.toml", create=True) as curator:
        for sign, count in (("=", 10), ("<", 10), ("<=", 20), (">", 10), (">=", 20), ("<>", 20)):
            sql = f"SELECT COUNT(*) AS n FROM r WHERE temperature {sign} 53.1"
            assert curator.ask(sql, epsilon="1e9", fresh=True).value() == count


def test_a_condition_between_private_tables_is_kept_and_the_unit_added() -> None:
    frame = pa.table({"id": [1, 2], "k": [1, 2]})
    with hush.protect(frame, unit="id", table="orders", budget=1) as curator, pytest.raises(QuestionError) as refused:
        curator.explain("SELECT COUNT(*) FROM orders AS o JOIN orders AS l ON l.k = o.k", epsilon=1)
    assert "keep the condition and add the unit, USING (id, …) or ON … AND a.id = b.id" in str(refused.value)


@pytest.mark.parametrize("number", ["1.0000000596046448", "1.00000005960464477539062500001", "1.0000000596046447"])
def test_a_constant_beside_a_float_is_rounded_once(number: str) -> None:
    """By way of a float64, a number just above the middle of two floats would be the middle, and then the even one."""
    table = pa.table({"id": [1, 2, 3], "f": pa.array([1 + 2**-23, 1.0, 1 + 2**-23], pa.float32())})
    sql = f"SELECT COUNT(*) AS n FROM data WHERE f = {number}"
    with duckdb.connect(":memory:") as base:
        truth = base.register("data", table).execute(sql).fetchall()
    with hush.protect(table, unit="id", bounds={"f": (0, 2)}, budget=10**9) as made:
        assert made.ask(sql, epsilon=10**6).table["n"].to_pylist() == [truth[0][0]]
