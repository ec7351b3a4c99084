"""Keys from a public table: in the combinations that the table has, and in no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import hush
from hush.curator.curator import Curator

PEOPLE = pa.table({"id": list(range(6)), "town": ["a", "b", "c", "a", "zz", None]})
TOWNS = pa.table({"town": ["a", "b", "c", "d"], "region": ["N", "S", "N", "W"], "pop": [10, 20, 30, 40]})
JOIN = "FROM data d JOIN towns t ON d.town = t.town"
LEFT = "FROM data d LEFT JOIN towns t ON d.town = t.town"


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    made = hush.protect(PEOPLE, unit="id", budget="1e9", public={"towns": TOWNS}, max_groups=3)
    yield made
    made.close()


def counts(curator: Curator, sql: str) -> list[tuple[object, ...]]:
    table = curator.ask(sql, epsilon=10_000, fresh=True).table.drop_columns(["n_error"])  # no noise worth speaking of
    return [tuple(row.values()) for row in table.to_pylist()]


CASES = {
    f"SELECT t.region, t.town, COUNT(*) AS n {JOIN} GROUP BY 1, 2": [
        ("N", "a", 2), ("N", "c", 1), ("S", "b", 1), ("W", "d", 0),
    ],
    f"SELECT t.region, t.pop > 25 AS big, COUNT(*) AS n {JOIN} GROUP BY 1, 2": [
        ("N", False, 2), ("N", True, 1), ("S", False, 1), ("W", True, 0),
    ],
    f"SELECT LOWER(t.region) AS r, COUNT(*) AS n {JOIN} GROUP BY 1": [("n", 3), ("s", 1), ("w", 0)],
    f"SELECT t.region, t.town, COUNT(*) AS n {JOIN} WHERE t.town IN ('a', 'b') GROUP BY 1, 2": [
        ("N", "a", 2), ("S", "b", 1),
    ],
    f"SELECT t.region, t.town, COUNT(*) AS n {LEFT} GROUP BY 1, 2": [
        ("N", "a", 2), ("N", "c", 1), ("S", "b", 1), ("W", "d", 0), (None, None, 2),
    ],
    f"SELECT t.region, t.town, COUNT(*) AS n {LEFT} WHERE t.town IS NOT NULL GROUP BY 1, 2": [
        ("N", "a", 2), ("N", "c", 1), ("S", "b", 1), ("W", "d", 0),
    ],
    f"SELECT COALESCE(t.region, 'none') AS r, t.town, COUNT(*) AS n {LEFT} "
    "WHERE t.town > 'b' IS NOT TRUE GROUP BY 1, 2": [
        ("N", "a", 2), ("N", "c", 0), ("S", "b", 1), ("W", "d", 0), ("none", None, 2),
    ],
    "SELECT x.r, COUNT(*) AS n FROM data d "
    "LEFT JOIN (SELECT town, COALESCE(region, '?') AS r FROM towns) x USING (town) GROUP BY 1": [
        ("N", 3), ("S", 1), ("W", 0), (None, 2),
    ],
    f"SELECT COALESCE(t.region, 'none') AS r, COUNT(*) AS n {LEFT} GROUP BY 1": [
        ("N", 3), ("S", 1), ("W", 0), ("none", 2),
    ],
    "SELECT x.r, x.town, COUNT(*) AS n FROM data d JOIN (SELECT town, region || '!' AS r FROM towns) x USING (town) "
    "GROUP BY 1, 2": [("N!", "a", 2), ("N!", "c", 1), ("S!", "b", 1), ("W!", "d", 0)],
    f"SELECT t.region, d.town = 'a' AS first, COUNT(*) AS n {JOIN} GROUP BY 1, 2": [
        ("N", False, 1), ("N", True, 2), ("S", False, 1), ("S", True, 0), ("W", False, 0), ("W", True, 0),
    ],
}  # fmt: skip


@pytest.mark.parametrize("sql", CASES)
def test_a_public_table_combines_its_keys(curator: Curator, sql: str) -> None:
    assert counts(curator, sql) == CASES[sql]


def test_sums_and_medians_stand_beside_their_keys(curator: Curator) -> None:
    sql = f"SELECT t.region, t.town, SUM(CLIP(t.pop, 0, 50)) AS n, MEDIAN(CLIP(t.pop, 0, 50)) AS m {JOIN} GROUP BY 1, 2"
    rows = curator.ask(sql, epsilon=100_000, fresh=True).table.select(["region", "town", "n", "m"]).to_pylist()
    assert [(row["town"], row["n"]) for row in rows] == [("a", 20), ("c", 30), ("b", 20), ("d", 0)]
    assert [row["m"] for row in rows[:3]] == [10, 30, 20]


def test_whole_numbers_are_written_as_whole_numbers_however_they_were_computed() -> None:
    """The listed keys and the rows' keys must be spelt alike; 1 and 1.0 were two keys, and rows were lost."""
    rows = "(SELECT id, LENGTH(town) % 2 AS k FROM data UNION ALL SELECT id, 0 AS k FROM data)"
    sql = f"SELECT CAST(CLIP(k, 0, 1) AS VARCHAR) AS k, COUNT(*) AS n FROM {rows} GROUP BY 1"
    made = hush.protect(PEOPLE, unit="id", budget="1e9", max_rows=2, max_groups=2)
    with made:
        assert counts(made, sql) == [("0", 7), ("1", 4)]


def test_a_key_beyond_64_bits_keeps_its_rows(curator: Curator) -> None:
    sql = f"SELECT CASE WHEN t.pop > 15 THEN 9223372036854775808 ELSE 1 END AS k, COUNT(*) AS n {JOIN} GROUP BY 1"
    assert sorted(counts(curator, sql)) == [(1.0, 2), (2.0**63, 2)]


SPELT = [
    "CAST(d AS VARCHAR)", "CAST(-d AS VARCHAR)", "CAST(ABS(d) AS VARCHAR)", "CAST(d + i AS VARCHAR)",
    "CAST(d * 2 AS VARCHAR)", "CAST(COALESCE(d, 0) AS VARCHAR)", "CAST(d AS VARCHAR) || '!'",
    "LENGTH(CAST(d AS VARCHAR))", "CAST(x AS VARCHAR)", "CAST(x / 2 AS VARCHAR)",
    "CAST(CASE WHEN i = 1 THEN d END AS VARCHAR)",
]  # fmt: skip


@pytest.mark.parametrize("key", SPELT)
@pytest.mark.parametrize("rows", ["data", "(SELECT id, {key} AS k FROM data) AS t"])
def test_decimals_are_spelt_in_the_list_as_in_the_rows(key: str, rows: str) -> None:
    """0.50 of a DECIMAL(9, 2) stood as 0.5 in the list, and its rows were lost."""
    table = pa.table(
        {
            "id": range(40),
            "d": pa.array([Decimal(at % 8) / 20 + 1 for at in range(40)], pa.decimal128(9, 2)),
            "x": pa.array([at % 8 / 4 for at in range(40)], pa.float64()),
            "i": pa.array([at % 3 for at in range(40)], pa.int64()),
        }
    )
    bounds = {"d": (1, "1.4", "0.05"), "x": (0, 2, "0.25"), "i": (0, 2)}
    shown = key if rows == "data" else "k"
    sql = f"SELECT {shown} AS k, COUNT(*) AS n FROM {rows.format(key=key)} GROUP BY 1"
    with hush.protect(table, unit="id", bounds=bounds, budget="1e9", max_rows=2, max_groups=2) as made:
        answered = Counter(dict(counts(made, sql)))
    with duckdb.connect(":memory:") as plain:
        plain.register("data", table)
        truth = dict(plain.execute(sql).fetchall())
    truth.pop(None, None)
    answered.pop(None, None)
    assert +answered == truth


def test_a_column_that_a_branch_of_case_narrows_is_listed_with_its_whole_range():
    """In ELSE the column i is known to be at least 0; where CASE looks at it, it is not."""
    table = pa.table({"i": [-2, -1, 0, 1, 1], "g": [100, 200, 300, 100, 200]})
    bounds, values = {"i": (-3, 3)}, {"g": [100, 200, 300]}
    with hush.protect(table, bounds=bounds, values=values, budget="1e9") as curator:
        question = "SELECT CASE WHEN i < 0 THEN g ELSE i END AS k, COUNT(*) AS n FROM data GROUP BY k"
        counts = {row["k"]: row["n"] for row in curator.ask(question, epsilon="1e8").rows()}
    assert counts == {0: 1, 1: 2, 2: 0, 3: 0, 100: 1, 200: 1, 300: 0}


REGIONS = "SELECT town, region, COUNT(*) AS c FROM towns GROUP BY town, region"
NO_PARTNER = {
    f"SELECT x.region AS g, COUNT(*) AS n FROM data d LEFT JOIN ({REGIONS}) x USING (town) GROUP BY 1": None,
    "SELECT COALESCE(t.region, 'none') AS g, COUNT(*) AS n FROM data d LEFT JOIN towns t "
    "USING (town) GROUP BY 1": "none",
    "SELECT x.g, COUNT(*) AS n FROM data d LEFT JOIN (SELECT town, region AS g FROM towns) x "
    "USING (town) GROUP BY 1": None,
    "SELECT x.region AS g, COUNT(*) AS n FROM data d LEFT JOIN (SELECT e.id, e.town, t.region FROM data e "
    "JOIN towns t ON e.town = t.town) x ON d.id = x.id AND d.town = x.town GROUP BY 1": None,
}  # fmt: skip


@pytest.mark.parametrize("keys", ["public", "private"])
@pytest.mark.parametrize("sql", NO_PARTNER)
def test_rows_without_a_partner_are_a_group_of_each_unit(sql: str, keys: str) -> None:
    """They were not counted where the keys bound the groups of a unit, so that it lost one of its groups."""
    units = 200
    people = pa.table({"id": [at for at in range(units) for _ in range(3)], "town": ["a", "b", "zz"] * units})
    towns = pa.table({"town": ["a", "b"], "region": ["A", "B"]})
    budget = {"epsilon": "1e9", "delta": "1e-6"}
    with hush.protect(people, unit="id", budget=budget, public={"towns": towns}, max_groups=10, max_rows=10) as made:
        answer = made.ask(sql, epsilon=10**6, keys=keys, fresh=True).table.to_pylist()
    assert {row["g"]: row["n"] for row in answer} == {"A": units, "B": units, NO_PARTNER[sql]: units}


def test_an_expression_of_a_row_of_nulls_and_null_are_two_keys() -> None:
    people = pa.table({"id": [1] * 4, "town": ["a", "b", "c", "zz"]})
    public = {
        "towns": pa.table({"town": ["a", "b"], "region": ["A", "B"]}),
        "all_towns": pa.table({"town": ["a", "b", "c"]}),
    }
    sql = (
        "SELECT x.g, COUNT(*) AS n FROM data d LEFT JOIN (SELECT s.town, COALESCE(t.region, 'none') AS g "
        "FROM all_towns s LEFT JOIN towns t ON s.town = t.town) x ON d.town = x.town GROUP BY 1"
    )
    with hush.protect(people, unit="id", budget="1e9", public=public, max_groups=10, max_rows=10) as made:
        assert counts(made, sql) == [("A", 1), ("B", 1), ("none", 1), (None, 1)]


def test_rows_without_a_partner_are_a_group_beside_those_of_rows_with_several() -> None:
    people = pa.table({"id": [at for at in range(200) for _ in range(3)], "town": ["a", "b", "zz"] * 200})
    towns = pa.table({"town": ["a", "a", "b", "b"], "region": ["A", "B", "A", "B"]})
    joined = "SELECT t.region, COUNT(*) AS n FROM data d LEFT JOIN {} t ON d.town = t.town{} GROUP BY 1"
    paired = "(SELECT e.id, e.town, t.region FROM data e JOIN towns t ON e.town = t.town)"
    budget = {"epsilon": "1e9", "delta": "1e-6"}
    with hush.protect(people, unit="id", budget=budget, public={"towns": towns}, max_groups=1, max_rows=3) as made:
        for sql in (joined.format("towns", ""), joined.format(paired, " AND d.id = t.id")):
            for keys in ("public", "private"):
                assert sorted(made.ask(sql, epsilon=10**6, keys=keys, fresh=True).table["n"].to_pylist()) == [
                    200,
                    400,
                    400,
                ]
