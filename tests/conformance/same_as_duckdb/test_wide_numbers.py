"""Whole numbers of more than 53 bits mean themselves everywhere, up to 38 digits.

The oracle is plain DuckDB over HUGEINT columns that were moved to the bounds in Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import hush
from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import column, select
from hush.engines.sql.render import text_of
from hush.query.errors import UnplannableError
from hush.query.types import Kind, Type

EDGES = [2**53, 2**63, 2**64, 10**30]
VALUES = sorted({sign * (edge + away) for edge in EDGES for sign in (1, -1) for away in (-1, 0, 1, 2)} | {0, 1, 5, 99})
HELD = {
    "BIGINT": (-(2**63), 2**63 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UHUGEINT": (0, 2**128 - 1),
    "DECIMAL(38,0)": (1 - 10**38, 10**38 - 1),
    "DECIMAL(20,0)": (1 - 10**20, 10**20 - 1),
    "VARCHAR": (-(10**40), 10**40),
}
RANGES = [(0, 2**53 + 2), (0, 2**63 - 1), (0, 2**63), (-(2**63), 2**63 - 1), (-(10**31), 10**31), None]
TOGETHER = 40
ALL = "HUSH_CASES" in os.environ
SHARE = 1 if ALL else 14
"""Of so many conditions each pair of a type and a range is asked one."""


def conditions() -> Iterator[str]:
    for number in (2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 + 1, -(2**53) - 1, -(2**63), 10**30 + 1):
        yield from (f"x {sign} {number}" for sign in ("=", "<>", "<", "<=", ">", ">="))
        yield from (f"x {sign} {number}.5" for sign in ("=", ">"))
        yield f"x BETWEEN {number - 1} AND {number}"
        yield f"x NOT BETWEEN {number} AND {number + 1}"
        yield f"x IN ({number}, {number + 1})"
        yield f"x NOT IN ({number}, 7)"
        yield f"x + 1 = {number}"
        yield f"x - 1 > {number}"
        yield f"x - {number} = 0"
        yield f"-x < {number}"
        yield f"x * 2 = {2 * number}"
        yield f"ABS(x) = {number}"
        yield f"CASE WHEN x > {number} THEN x ELSE 0 END = {number + 1}"
        yield f"CASE WHEN x > 5 THEN x END = {number}"
        yield f"COALESCE(NULLIF(x, {number}), 3) = 3"
        yield f"x IS NOT DISTINCT FROM {number}"
        yield f"GREATEST(x, {number}) = {number}"
        yield f"LEAST(x, {number}) = x"
        yield f"CLIP(x, 0, {abs(number)}) = {number}"
        yield f"CAST(x AS VARCHAR) = '{number}'"
        yield f"WIDTH_BUCKET(x, 0, {2 * abs(number)}, 2) = 1"
    yield from ("x = y", "x < y", "x >= y", "x - y = 1", "x + y > 9223372036854775807", "x * y = 0")
    yield from ("x % 2 = 1", "x % 1000 = 3", "SIGN(x) = 1", "x * 3 > 9223372036854775807", "x = 9007199254740993.0")
    yield from ("TRY_CAST(x AS BIGINT) = 9007199254740993", "ROUND(x, -1) = 9007199254740990")


def moved(number: int, ends: tuple[int, int] | None) -> str:
    """Return a number as the policy declares it, in SQL: between its bounds, or without such NULL beyond 64 bits."""
    if ends is None:
        return str(number) if -(2**63) <= number < 2**63 else "NULL"
    return str(min(max(number, ends[0]), ends[1]))


def counted(asked: list[str]) -> str:
    return (
        "SELECT "
        + ", ".join(f"COUNT(*) FILTER (WHERE {test}) AS c{at}" for at, test in enumerate(asked))
        + " FROM data"
    )


def answered(oracle: duckdb.DuckDBPyConnection, test: str) -> int | None:
    """Return for how many rows a condition holds; None where the oracle's 128 bits do not do."""
    try:
        return oracle.execute(counted([test])).fetchall()[0][0]
    except duckdb.OutOfRangeException:
        return None


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            "CREATE MACRO clip(x, low, high) AS CASE WHEN x IS NOT NULL THEN GREATEST(low, LEAST(x, high)) END"
        )
        connection.execute(
            "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x IS NULL THEN NULL WHEN x < low THEN 0 "
            "WHEN x >= high THEN n + 1 ELSE 1 + (x - low) * n // (high - low) END"
        )
        yield connection


@pytest.mark.parametrize("stored", HELD if ALL else ["BIGINT", "HUGEINT", "VARCHAR"])
def test_whole_numbers_are_compared_exactly(stored: str, oracle: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    values = [value for value in VALUES if HELD[stored][0] <= value <= HELD[stored][1]]
    pairs = list(zip(values, values[1:] + values[:1], strict=True))
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE TABLE data (x {stored}, y {stored})")
        base.executemany(
            f"INSERT INTO data VALUES (CAST(? AS {stored}), CAST(? AS {stored}))", [[str(x), str(y)] for x, y in pairs]
        )
    for number, ends in enumerate(RANGES):
        rows = ", ".join(f"({moved(x, ends)}, {moved(y, ends)})" for x, y in pairs)
        oracle.execute(
            f"CREATE OR REPLACE TABLE data AS SELECT CAST(x AS HUGEINT) AS x, CAST(y AS HUGEINT) AS y "
            f"FROM (VALUES {rows}) AS v(x, y)"
        )
        asked = list(conditions())[number % SHARE :: SHARE]
        bounds = {} if ends is None else {"x": ends, "y": ends}
        types = {"x": "integer", "y": "integer"}
        with hush.protect(path, bounds=bounds, types=types, budget="1e15") as curator:
            truths = {test: truth for test in asked if (truth := answered(oracle, test)) is not None}
            for start in range(0, len(truths), TOGETHER):
                part = list(truths)[start : start + TOGETHER]
                (row,) = curator.ask(counted(part), epsilon="1e9").rows()
                ours = {test: row[f"c{at}"] for at, test in enumerate(part)}
                wrong = {test: (count, truths[test]) for test, count in ours.items() if count != truths[test]}
                assert not wrong, (stored, ends)


ROWS = [(1, 2**53 + 1), (1, 2**53 + 2), (2, 2**53 + 3), (2, 7), (3, 2**63 - 1), (3, 2**63 - 2), (4, 2**63 - 1)]
STATEMENTS = [
    f"SELECT COUNT(*) FROM (SELECT id, SUM(x) AS v FROM data GROUP BY id) AS q WHERE v = {2**54 + 3}",
    f"SELECT COUNT(*) FROM (SELECT id, SUM(x) AS v FROM data GROUP BY id) AS q WHERE v > {2**64 - 4}",
    f"SELECT COUNT(*) FROM (SELECT id, MAX(x) AS v FROM data GROUP BY id) AS q WHERE v = {2**53 + 2}",
    f"SELECT COUNT(*) FROM (SELECT id, MAX(u + 1) AS v FROM data GROUP BY id) AS q WHERE v = {2**63 + 1}",
    f"SELECT COUNT(*) FROM (SELECT x AS v FROM data UNION ALL SELECT u AS v FROM data) AS q WHERE v = {2**63}",
    f"SELECT COUNT(*) FROM data JOIN (VALUES ({2**63}), ({2**53 + 2}), (NULL)) AS v(k) ON u = k",
    f"SELECT COUNT(*) FROM data WHERE u IN (SELECT k FROM (VALUES ({2**63}), ({2**53 + 2})) AS v(k))",
    "SELECT COUNT(*) FROM data AS a JOIN data AS b ON a.id = b.id AND a.x = b.u",
    "SELECT COUNT(DISTINCT CAST(u AS VARCHAR)) FROM data",
    "SELECT g, COUNT(*) FROM data GROUP BY g ORDER BY g",
    f"SELECT COUNT(*) FROM data WHERE w = {2**63 + 1}",
]


def test_wide_numbers_pass_through_subqueries_joins_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE data (id BIGINT, x BIGINT, u UBIGINT, w HUGEINT, g UBIGINT)")
        for unit, x in ROWS:
            base.execute(f"INSERT INTO data VALUES ({unit}, {x}, {x + 1}, {2**63 + x % 2}, {2**63 * (x % 2)})")
        truths = [base.execute(sql).fetchall() for sql in STATEMENTS]
    bounds, values = {"x": (0, 2**63 - 1), "u": (0, 2**64 - 1)}, {"w": [2**63, 2**63 + 1], "g": [0, 2**63]}
    with hush.protect(
        path, unit="id", bounds=bounds, values=values, max_rows=4, max_groups=2, budget="1e15"
    ) as curator:
        for sql, truth in zip(STATEMENTS, truths, strict=True):
            rows = curator.ask(sql, epsilon="1e9").rows()
            assert [tuple(value for name, value in row.items() if "_error" not in name) for row in rows] == truth, sql


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT u, COUNT(*) FROM data GROUP BY u", "CAST(… AS VARCHAR)"),
        ("SELECT COUNT(DISTINCT u) FROM data", "CAST(… AS VARCHAR)"),
        ("SELECT COUNT(*) FROM data WHERE m = 9007199254740993.25", "CAST(x AS DOUBLE)"),
        ("SELECT COUNT(*) FROM data WHERE u * u = 9007199254740993", "CAST(x AS DOUBLE)"),
    ],
)
def test_what_would_be_compared_as_floats_is_refused(sql: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE data AS SELECT CAST(5 AS UBIGINT) AS u, CAST(5.25 AS DECIMAL(20, 2)) AS m")
    with hush.protect(
        path, bounds={"u": (0, 2**64 - 1), "m": (0, 10**17)}, budget={"epsilon": 1, "delta": "1e-6"}
    ) as curator:
        with pytest.raises(UnplannableError) as refused:
            curator.ask(sql, epsilon="0.5", delta="1e-7")
        assert said in str(refused.value)
        assert not curator.history()


LAST = (2**127 - 1) // 3
"""Three times this is still a HUGEINT, and a little more is none."""


@pytest.mark.parametrize("number", [0, LAST, LAST + 10, 10**38 - 1])
def test_no_number_makes_its_bin_overflow(number: int, tmp_path: Path) -> None:
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE TABLE data AS SELECT CAST({number} AS HUGEINT) AS x")
    tests = [
        f"BIN(x, {LAST}, {LAST + 10}, 3) > 5",
        f"BIN(x, {10**37}, {10**37 + 10}, 1000) > 5",
        f"BIN(x, {10**38 - 1}, {19 * 10**37}, 1) > 5",
        f"WIDTH_BUCKET(x, {10**38 - 1}, {19 * 10**37}, 1) >= 0",
    ]
    with hush.protect(path, bounds={"x": (0, 10**38 - 1)}, budget="1e15") as curator:
        (row,) = curator.ask(counted(tests), epsilon="1e9").rows()
        assert [row[f"c{at}"] for at in range(len(tests))] == [1] * len(tests)


def test_a_step_keeps_a_bound_of_zero() -> None:
    """The step is a power of two: others are rounded as floats where the bounds are far."""
    type_ = Type(Kind.INTEGER, True, Fraction(0), Fraction(2**60), Fraction(16))
    below = Type(Kind.INTEGER, True, Fraction(-(2**60)), Fraction(0), Fraction(16))
    assert force(column("x"), "BIGINT", type_).within == (0, 2**60)
    assert force(column("x"), "BIGINT", below).within == (-(2**60), 0)


def test_beyond_64_bits_there_is_nothing_without_a_bound_whatever_the_step() -> None:
    type_ = Type(Kind.INTEGER, True, Fraction(0), None, Fraction(3))
    sql = text_of(select([force(column("x"), "HUGEINT", type_).sql]))
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(f"{sql} FROM (VALUES (CAST({2**64} AS HUGEINT)), (-5), (7)) AS t(x)")
        assert found.fetchall() == [(None,), (0,), (6,)]


def test_no_steps_of_a_coarse_grid_are_zero(tmp_path: Path) -> None:
    """Its step needs more than 64 bits, and the number of steps, which no row can change, is 0."""
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE data AS SELECT CAST(0 AS HUGEINT) AS x")
    with hush.protect(path, bounds={"x": (-(10**38) + 1, 10**38 - 1)}, budget="1e15") as curator:
        (row,) = curator.ask(f"SELECT SUM(BIN(x, 0, {2**64}, 1)) AS s FROM data", epsilon=1).rows()
        assert row["s"] % 2**64 == 0  # with noise of whole steps


def test_texts_of_numbers_beyond_128_bits_are_moved_to_the_bounds(tmp_path: Path) -> None:
    most = 10**38 - 1
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE data AS SELECT unnest(['1e300', '-inf', 'nan', '1e20', ?, ?]) AS x", [
            str(2**130), str(-(10**45)),
        ])  # fmt: skip
    tests = [f"x = {most}", f"x = {-most}", f"x = {10**20}", "x IS NULL"]
    with hush.protect(path, bounds={"x": (-most, most)}, types={"x": "integer"}, budget="1e15") as curator:
        (row,) = curator.ask(counted(tests), epsilon="1e9").rows()
        assert [row[f"c{at}"] for at in range(len(tests))] == [2, 2, 1, 1]
