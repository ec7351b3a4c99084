"""At a very large ε an answer is what plain DuckDB answers on the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from duckdb_oracle import answered, assert_same_rows, plain_duckdb

import hush
from hush.curator.curator import Curator

MANY = 400
TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.49, 3.75, None, 120.5]
WORDS = ["2.5", "-2.5", "1.5", "7", " 8 ", "0.49999999999999999999", "flu", "50%", "5_0", None]


def visits() -> pa.Table:
    first = dt.date(2023, 1, 1)
    days = [None if at % 11 == 0 else first + dt.timedelta(days=(37 * at) % 700) for at in range(MANY)]
    moments = [None if day is None else dt.datetime(day.year, day.month, day.day, day.day % 24, 59, 30) for day in days]
    return pa.table(
        {
            "id": pa.array(range(MANY), pa.int64()),
            "x": pa.array([TIES[at % 10] for at in range(MANY)], pa.float64()),
            "d": pa.array([None if (v := TIES[at % 10]) is None else Decimal(str(v)) for at in range(MANY)]).cast(
                pa.decimal128(9, 2)
            ),
            "s": pa.array([WORDS[at % 10] for at in range(MANY)]),
            "i": pa.array([at % 23 - 11 for at in range(MANY)], pa.int64()),
            "j": pa.array([None if at % 7 == 0 else at % 5 - 2 for at in range(MANY)], pa.int64()),
            "sku": pa.array([f"p{at % 4}" for at in range(MANY)]),
            "day": pa.array(days, pa.date32()),
            "seen": pa.array(moments, pa.timestamp("us")),
        }
    )


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    prices = {"sku": ["p0", "p1", "p2"], "price": [2.5, 10.0, 0.125], "i": [1, 2, 3]}
    return {"visits": visits(), "prices": pa.table(prices)}


@pytest.fixture(scope="module")
def curator(tables: dict[str, pa.Table]) -> Iterator[Curator]:
    made = hush.protect(
        tables["visits"],
        unit="id",
        table="visits",
        bounds={
            "x": (-500, 500, "0.01"),
            "d": (-500, 500, "0.01"),
            "i": (-20, 20),
            "j": (-5, 5),
            "day": (dt.date(2023, 1, 1), dt.date(2024, 12, 31)),
            "seen": (dt.datetime(2023, 1, 1), dt.datetime(2025, 1, 1)),
        },
        values={"sku": ["p0", "p1", "p2", "p3"]},
        budget={"epsilon": "1e12", "delta": "0.1"},
        public={name: table for name, table in tables.items() if name != "visits"},
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(tables: dict[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain_duckdb(tables) as connection:
        yield connection


def assert_same(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str, parameters: object = ()) -> None:
    answer = curator.ask(sql, parameters=parameters, epsilon="1e8", fresh=True)
    assert_same_rows(answered(answer), plain.execute(sql, parameters or None).fetchall())


CASTS = [
    "SELECT SUM(CAST(x AS INTEGER)) FROM visits",
    "SELECT SUM(CAST(d AS INTEGER)) FROM visits",
    "SELECT SUM(CLIP(TRY_CAST(s AS INTEGER), -99, 99)) FROM visits",
    "SELECT SUM(CAST(x + 0.5 AS INTEGER)), SUM(CAST(d + 0.5 AS INTEGER)) FROM visits",
    "SELECT SUM(CAST(i / 2 AS INTEGER)), SUM(CAST(i * 0.5 AS INTEGER)) FROM visits",
    "SELECT SUM(CAST(-d AS INTEGER)), SUM(CAST(ABS(d) * i AS BIGINT)) FROM visits",
    "SELECT SUM(CAST(x::DECIMAL(9, 1) AS INTEGER)), SUM(CAST(ROUND(x, 1) AS INTEGER)) FROM visits",
    "SELECT SUM(CAST(CASE WHEN i > 0 THEN d ELSE 1 END AS INTEGER)) FROM visits",
    "SELECT SUM(CAST(COALESCE(d, 2.5) AS INTEGER)) FROM visits",
    "SELECT SUM(c) FROM (SELECT CAST(d AS INTEGER) + CAST(x AS INTEGER) AS c FROM visits) AS t",
    "SELECT CAST(x AS INTEGER) AS k, COUNT(*) AS n FROM visits WHERE x IS NOT NULL GROUP BY 1 HAVING n > 9 ORDER BY 1",
    "SELECT SUM(x::DECIMAL(9)), SUM(x::DECIMAL) FROM visits",
    "SELECT CAST(AVG(i) * 100 AS INTEGER) AS rounded, CAST(COUNT(*) / 3 AS INTEGER) FROM visits",
]


@pytest.mark.parametrize("sql", CASTS)
def test_casts_round_as_duckdb_rounds(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert_same(curator, plain, sql)


FORMS = [
    "SELECT SUM(i // 3), SUM(i // -4), SUM(i // j), SUM((i - 7) // 2) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL 1 MONTH > DATE '2024-02-15'",
    "SELECT COUNT(*) FROM visits WHERE seen - INTERVAL '36' HOUR < TIMESTAMP '2023-07-01 12:00:00'",
    "SELECT SUM(DATE_DIFF('day', day, day + INTERVAL '1 month 2 days')) FROM visits",
    "SELECT YEAR(day + INTERVAL 400 DAY), COUNT(*) AS n FROM visits WHERE j = 1 GROUP BY 1 HAVING n > 9 ORDER BY 1",
    "SELECT SUM(DATE_DIFF('month', day, DATE '2024-06-30')) FROM visits",
    "SELECT SUM(DATE_DIFF('year', DATE '2021-12-31', seen)), SUM(DATE_DIFF('quarter', day, seen)) FROM visits",
    "SELECT SUM(DATE_DIFF('week', DATE '2023-06-07', day)) FROM visits",
    "SELECT SUM(DATE_DIFF('hour', TIMESTAMP '2023-05-05 05:05:05', seen)) FROM visits",
    "SELECT SUM(DATE_DIFF('minute', day, seen)), SUM(DATE_DIFF('second', day, seen)) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE i IS DISTINCT FROM j",
    "SELECT COUNT(*) FROM visits WHERE j IS NOT DISTINCT FROM NULL OR x IS NOT DISTINCT FROM 2.5",
    "SELECT COUNT(*) FROM visits WHERE s LIKE '%!%' ESCAPE '!' OR s LIKE '5!_%' ESCAPE '!'",
    "SELECT COUNT(*) // 7, SUM(i) // 2 FROM visits",
    "SELECT COUNT(*) FILTER (WHERE REGEXP_MATCHES(s, '^-?[0-9.]+$')), COUNT_IF(s SIMILAR TO '.*u|7') FROM visits",
    "SELECT COUNT_IF(REGEXP_MATCHES(s, 'FL', 'i')), COUNT_IF(NOT REGEXP_FULL_MATCH(s, '.{3}')) FROM visits",
    "SELECT COUNT_IF(s ~ '^[0-9]$'), COUNT_IF(REGEXP_MATCHES(s, '(?i)F')), COUNT_IF(s NOT SIMILAR TO '5.') FROM visits",
    "SELECT SUM(DISTINCT i), AVG(DISTINCT i), SUM(DISTINCT x), AVG(DISTINCT d), SUM(DISTINCT j + i) FROM visits",
    "SELECT j, SUM(DISTINCT i) FROM visits WHERE j < 3 AND j > -3 GROUP BY 1 ORDER BY j",
    "SELECT j, AVG(DISTINCT i) FILTER (WHERE i > 3) FROM visits WHERE j < 3 AND j > -3 GROUP BY 1 ORDER BY j",
]


@pytest.mark.parametrize("sql", FORMS)
def test_forms_mean_what_duckdb_means(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert_same(curator, plain, sql)


def test_lists_mean_what_duckdb_means(curator: Curator, plain: duckdb.DuckDBPyConnection) -> None:
    assert_same(curator, plain, "SELECT COUNT(*) FROM visits WHERE i IN ? AND sku NOT IN ?", [[1, 2, 3], ["p1", "p2"]])
    (theirs,) = plain.execute("SELECT COUNT(*) FROM visits WHERE i IN (1, 2, 3)").fetchall()
    built = curator.table("visits").where("i IN ?", [1, 2, 3]).agg(n="COUNT(*)").ask(epsilon="1e6", fresh=True)
    assert built.value() == theirs[0]


def test_keys_that_cannot_occur_are_not_listed(curator: Curator) -> None:
    months = [100 * year + month for year in (2023, 2024) for month in range(1, 13)]
    for key, where in (("YEAR(day) * 100 + MONTH(day)", ""), ("k", "WHERE k > 202306")):
        rows = "visits" if key != "k" else "(SELECT YEAR(day) * 100 + MONTH(day) AS k FROM visits) AS t"
        answer = curator.ask(
            f"SELECT {key} AS m, COUNT(*) AS n FROM {rows} {where} GROUP BY 1", epsilon="1e6", fresh=True
        )
        assert [row["m"] for row in answer.rows()] == [month for month in months if not where or month > 202306]


JOINS = [
    "SELECT sku, SUM(i) FROM (SELECT * FROM visits JOIN prices USING (sku)) GROUP BY 1 HAVING COUNT(*) > 5 ORDER BY 1",
    "WITH t AS (SELECT * FROM visits LEFT JOIN prices USING (sku)) SELECT sku, COUNT(i_1) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT sku_1, SUM(m) FROM (SELECT *, v.i AS m FROM visits v JOIN prices p ON v.sku = p.sku) GROUP BY 1 ORDER BY 1",
]


@pytest.mark.parametrize("sql", JOINS)
def test_star_of_joins_is_what_duckdb_has(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert_same(curator, plain, sql)


def test_builder_derives_after_a_join(curator: Curator, plain: duckdb.DuckDBPyConnection) -> None:
    (theirs,) = plain.execute(
        "SELECT SUM(visits.i * 2) FROM visits JOIN prices USING (sku) WHERE visits.i > 1"
    ).fetchall()
    base = curator.table("visits")
    for rows in (base.join("prices", using="sku"), base.join("prices", on="visits.sku = prices.sku")):
        answer = rows.where("visits.i > 1").derive(v="visits.i * 2").agg(s="SUM(v)").ask(epsilon="1e6", fresh=True)
        assert answer.value() == pytest.approx(theirs[0], abs=1e-3)


def test_casts_of_stored_bounded_rows_round_alike() -> None:
    """Rows that are kept between questions remember which of their numbers are exact."""
    found = []
    with hush.protect(
        visits(), unit="sku", table="visits", bounds={"d": (-500, 500, "0.01")}, budget="1e12", max_rows=MANY
    ) as curator:
        for _ in range(4):
            answer = curator.ask("SELECT SUM(CAST(d AS INTEGER)) AS n FROM visits", epsilon="1e9", fresh=True)
            found.append(round(answer.value()))
            curator.ask("SELECT AVG(d) AS n FROM visits", epsilon="1e6", fresh=True)
    assert len(set(found)) == 1


POLICY = """
[data.d]
unit = "id"
budget = { epsilon = "1e12" }
[data.d.tables.t]
source = "t.csv"
columns.a = { type = "integer", lower = -99, upper = 99 }
columns.b = { type = "text" }
[analysts.a]
data = ["d"]
budget = { epsilon = "1e12" }
"""


@pytest.mark.parametrize("words", [WORDS, ["2.5", "-2.5", "1.5", "7"]])
def test_csv_declared_integer_is_what_cast_reads(tmp_path, words: list[str | None]) -> None:
    (tmp_path / "hush.toml").write_text(POLICY)
    lines = [f"{at},{word or ''},{word or ''}" for at, word in enumerate(words * 40)]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,b", *lines]))
    with hush.open(tmp_path / "hush.toml", create=True) as curator:
        answer = curator.ask(
            "SELECT SUM(a) AS a, SUM(CLIP(CAST(b AS INTEGER), -99, 99)) AS b FROM t", epsilon="1e6", fresh=True
        )
    row = next(iter(answer.rows()))
    exact = duckdb.sql(
        f"SELECT SUM(TRY_CAST(w AS INTEGER)) FROM (SELECT UNNEST({words!r}::VARCHAR[]) AS w)".replace("None", "NULL")
    )
    assert row["a"] == pytest.approx(row["b"]) == pytest.approx(40 * exact.fetchall()[0][0])
