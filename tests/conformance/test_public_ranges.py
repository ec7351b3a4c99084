"""Public columns need no bounds: their range is looked up, and holds for whatever is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from seams import duckdb_engine, statements_run

import hush
from hush.curator.curator import Curator
from hush.engines.sql_engine import SqlEngine
from hush.query.errors import UnboundedError, UnplannableError
from hush.query.plan import plan
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type

QUANTITY = Type(Kind.INTEGER, False, Fraction(0), Fraction(10), Fraction(1))
SALES = {"id": [1, 2, 3, 4], "sku": [1, 2, 2, 9], "qty": [3, 1, 5, 10]}
PRICES = {
    "sku": [1, 2, 9],
    "price": [0.1, float("nan"), 7.25],
    "fixed": pa.array([Decimal("0.50"), Decimal("12.25"), None], pa.decimal128(9, 2)),
    "since": pa.array([dt.date(2020, 2, 29), dt.date(2024, 1, 1), None], pa.date32()),
    "nothing": pa.array([None, None, None], pa.float64()),
}
COLUMNS = {
    "sku": Type(Kind.INTEGER),
    "price": Type(Kind.DECIMAL),
    "fixed": Type(Kind.DECIMAL),
    "since": Type(Kind.DATE),
    "nothing": Type(Kind.DECIMAL),
}


def about(**changed: Type) -> Schema:
    sales = Table(name="sales", columns={"sku": Type(Kind.INTEGER), "qty": QUANTITY}, unit=UnitPath(column="id"))
    prices = Table(name="prices", columns=COLUMNS | changed, public=True)
    return Schema(data="shop", tables={"sales": sales, "prices": prices}, unit="id")


@pytest.fixture
def engine(tmp_path) -> Iterator[SqlEngine]:
    pq.write_table(pa.table(PRICES), tmp_path / "prices.parquet")
    made = duckdb_engine(about(), {"sales": pa.table(SALES), "prices": tmp_path / "prices.parquet"}, threads=1)
    yield made
    made.close()


def asked(engine: SqlEngine, what: str, where: str = ""):
    question = parse(f"SELECT {what} AS a FROM sales JOIN prices USING (sku) {where}", engine.described())
    return plan(question, engine.described(), epsilon=1, matches=engine.matches)


def total(engine: SqlEngine, how) -> Fraction:
    exact = engine.run(how)
    (item,) = how.exact_query.statistics
    return exact.statistics[item].tolist()[0] * item.factors[0].step


def test_ranges_are_those_of_the_values(engine: SqlEngine) -> None:
    columns = engine.described().tables["prices"].columns
    assert (columns["price"].lower, columns["price"].upper) == (Fraction("0.1"), Fraction("7.25"))
    assert (columns["fixed"].lower, columns["fixed"].upper, columns["fixed"].step) == (
        Fraction(1, 2),
        Fraction(49, 4),
        Fraction(1, 100),
    )
    assert (columns["sku"].lower, columns["sku"].upper) == (1, 9)
    assert columns["since"].bounded
    assert (columns["nothing"].lower, columns["nothing"].upper) == (0, 0)
    assert engine.described() is engine.described()


def test_declared_bounds_hold() -> None:
    declared = Type(Kind.DECIMAL, lower=Fraction(1))
    with duckdb_engine(about(price=declared), {"sales": pa.table(SALES), "prices": pa.table(PRICES)}) as engine:
        column = engine.described().tables["prices"].columns["price"]
        assert (column.lower, column.upper) == (1, Fraction("7.25"))


def test_private_columns_stay_unknown_and_unread(engine: SqlEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = statements_run(monkeypatch)
    assert not engine.described().tables["sales"].columns["sku"].bounded
    place = engine._catalogue.tables["sales"]
    assert seen
    assert not any(f'"{place}"' in text for text in seen)
    with pytest.raises(UnboundedError, match="Column sku in SUM"):
        parse("SELECT SUM(sku) FROM sales", engine.described())


def test_sums_over_public_columns(engine: SqlEngine) -> None:
    # 3 · 0.50 + 1 · 12.25 + 5 · 12.25; the third price is missing
    assert total(engine, asked(engine, "SUM(qty * fixed)")) == 75
    assert total(engine, asked(engine, "SUM(prices.sku)", "WHERE qty > 1")) == 12


def test_keys_are_the_values_that_the_table_has(engine: SqlEngine) -> None:
    for where, keys in (("", [1, 2, 9]), ("WHERE prices.sku > 1", [2, 9])):
        text = f"SELECT prices.sku AS k, COUNT(*) AS n FROM sales JOIN prices USING (sku) {where} GROUP BY 1"
        how = plan(parse(text, engine.described()), engine.described(), epsilon=1, matches=engine.matches)
        assert [key for (key,) in engine.run(how).keys] == keys


def test_a_file_that_changes_is_clamped_into_the_plan_and_looked_at_again(engine: SqlEngine, tmp_path) -> None:
    before = asked(engine, "SUM(qty * fixed)")
    bound = max(noise.law.sensitivity * noise.law.contribution.units for noise in before.noises)
    dear = [Decimal("9999.00")] * 3
    later = PRICES | {"fixed": pa.array(dear, pa.decimal128(9, 2))}
    pq.write_table(pa.table(later), tmp_path / "prices.parquet")
    exact = engine.run(before)
    (item,) = before.exact_query.statistics
    assert 0 < exact.statistics[item].tolist()[0] <= bound * len(SALES["id"])
    assert exact.statistics[item].tolist()[0] * item.factors[0].step == sum(SALES["qty"]) * Fraction(49, 4)
    assert engine.described().tables["prices"].columns["fixed"].upper == 9999
    assert total(engine, asked(engine, "SUM(qty * fixed)")) == sum(SALES["qty"]) * 9999


NO_POINT = "FROM data WHERE cost BETWEEN 0.3 AND 0.4"
BY_COST = f"SELECT cost, COUNT(*) AS n {NO_POINT} GROUP BY cost"
BY_ALL_COSTS = "SELECT cost, COUNT(*) AS n FROM data GROUP BY cost"


@pytest.fixture
def stepped() -> Iterator[Curator]:
    table = pa.table({"id": list(range(40)), "cost": [at % 8 / 4 for at in range(40)], "g": ["a", "b"] * 20})
    bounds, values = {"cost": (0, 2, "0.25")}, {"g": ["a", "b"]}
    with hush.protect(table, unit="id", bounds=bounds, values=values, budget=10**9, max_rows=2, max_groups=2) as made:
        yield made


@pytest.mark.parametrize(
    "sql",
    [
        BY_COST,
        f"SELECT cost * 4 AS c, COUNT(*) AS n {NO_POINT} GROUP BY 1",
        f"SELECT -cost AS c, COUNT(*) AS n {NO_POINT} GROUP BY ROLLUP(-cost)",
        f"SELECT g, cost, MEDIAN(cost) AS m, MODE(g) AS o {NO_POINT} GROUP BY 1, 2",
        f"SELECT a.cost, a.n, b.n AS m FROM ({BY_COST}) a JOIN ({BY_ALL_COSTS}) b USING (cost)",
        f"{BY_COST} UNION ALL {BY_COST}",
    ],
)
def test_a_range_without_a_point_of_its_grid_has_no_key(stepped: Curator, sql: str) -> None:
    """There was no last point to look at, and an error of Python."""
    assert stepped.ask(sql, epsilon=100).table.num_rows == 0


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT MODE(cost) AS m {NO_POINT}",
        f"SELECT g, MODE(cost) AS m {NO_POINT} GROUP BY g",
        "SELECT MODE(cost) FILTER (WHERE cost BETWEEN 0.3 AND 0.4) AS m FROM data",
    ],
)
def test_a_mode_of_no_value_is_refused_and_free(stepped: Curator, sql: str) -> None:
    before = str(stepped.budget())
    with pytest.raises(UnplannableError, match="the conditions leave none of it"):
        stepped.ask(sql, epsilon=100)
    assert str(stepped.budget()) == before
