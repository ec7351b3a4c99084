"""A key by which rows find their unit, and that several units share: the owner's check tells of it on every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.curator.owner import check

POLICY = """
[data.shop]
engine = "{address}"
unit = "customer_id"
budget = {{ epsilon = "100", delta = "1e-6" }}
[data.shop.tables.orders]
source = "{orders}"
columns.price = {{ type = "integer", lower = 0, upper = 9 }}
[data.shop.tables.items]
source = "{items}"
unit = "orders.customer_id via order_id"
columns.number = {{ type = "integer", lower = 0, upper = 9 }}
[analysts.ann]
data = ["shop"]
budget = {{ epsilon = "100", delta = "1e-6" }}
"""
ITEMS = {"order_id": [1, 2, 2], "number": [1, 2, 3]}
UNIQUE, SAME_UNIT = [(1, 7), (2, 7), (None, 8), (None, 9)], [(1, 7), (1, 7), (2, None), (2, 8)]
SHARED = [(1, 7), (2, 7), (2, 8)]
Orders = list[tuple[int | None, int | None]]
Sources = Callable[[Orders], dict[str, str]]


def in_files(address: str, folder: Path) -> Sources:
    def made(orders: Orders) -> dict[str, str]:
        keys, units = (pa.array(list(cells), pa.int64()) for cells in zip(*orders, strict=True))
        tables = {"orders": {"order_id": keys, "customer_id": units, "price": [1] * len(orders)}, "items": ITEMS}
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        return {"address": address, **{name: str(folder / f"{name}.parquet") for name in tables}}

    return made


def in_postgresql(address: str) -> Sources:
    def made(orders: Orders) -> dict[str, str]:
        with psycopg.connect(address, autocommit=True) as owner:
            owner.execute("DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop")
            owner.execute("CREATE TABLE shop.orders (order_id bigint, customer_id bigint, price bigint)")
            owner.execute("CREATE TABLE shop.items (order_id bigint, number bigint)")
            owner.cursor().executemany("INSERT INTO shop.orders VALUES (%s, %s, 1)", orders)
            owner.cursor().executemany(
                "INSERT INTO shop.items VALUES (%s, %s)", list(zip(*ITEMS.values(), strict=True))
            )
        return {"address": address, "orders": "shop.orders", "items": "shop.items"}

    return made


@pytest.fixture(params=["duckdb", "postgresql", "spark"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> Sources:
    if request.param == "postgresql":
        return in_postgresql(request.getfixturevalue("postgresql"))
    address = request.getfixturevalue("spark") if request.param == "spark" else "duckdb"
    return in_files(address, tmp_path)


def mistakes(sources: Sources, orders: Orders, folder: Path, *, rows: bool) -> list[str]:
    policy = folder / "hush.toml"
    policy.write_text(POLICY.format(**sources(orders)))
    return [str(mistake) for mistake in check(policy, rows=rows).mistakes]


def test_a_key_that_several_units_share_is_a_mistake_of_the_policy(sources: Sources, tmp_path: Path) -> None:
    (found,) = mistakes(sources, SHARED, tmp_path, rows=True)
    assert "data.shop.tables.orders: other tables find their unit by a key that several units share" in found
    assert not mistakes(sources, SHARED, tmp_path, rows=False)  # which reads no rows


@pytest.mark.parametrize("orders", [UNIQUE, SAME_UNIT], ids=["unique", "of one unit"])
def test_keys_of_one_unit_are_none(sources: Sources, orders: Orders, tmp_path: Path) -> None:
    assert not mistakes(sources, orders, tmp_path, rows=True)
