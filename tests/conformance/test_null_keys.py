"""NULL among public keys: a group where the policy or the question names it, and none elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.curator.curator import Curator

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6, 7, 8],
        "g": ["a", "b", None, "a", "zz", None, "b", "a"],
        "plain": ["p", None, "p", "q", "q", None, "zz", "p"],
        "age": [7, 12, None, 18, 25, None, 3, 11],
        "flag": [True, None, False, True, None, None, False, True],
    }
)
VALUES = {"g": ["a", "b", None], "plain": ["p", "q"], "age": [*range(30), None], "flag": [False, True, None]}


@pytest.fixture(scope="module", params=["a row is a unit", "units"])
def curator(request: pytest.FixtureRequest) -> Iterator[Curator]:
    unit = "id" if request.param == "units" else None
    made = hush.protect(ROWS, unit=unit, values=VALUES, budget="1e9", max_groups=2)
    yield made
    made.close()


def counts(curator: Curator, sql: str) -> list[tuple[object, ...]]:
    table = curator.ask(sql, epsilon=10_000, fresh=True).table.drop_columns(["n_error"])  # no noise worth speaking of
    return [tuple(row.values()) for row in table.to_pylist()]


CASES = {
    "SELECT g, COUNT(*) AS n FROM data GROUP BY g": [("a", 3), ("b", 2), (None, 3)],  # zz is no value of g, hence NULL
    "SELECT UPPER(g) AS u, COUNT(*) AS n FROM data GROUP BY 1": [("A", 3), ("B", 2), (None, 3)],
    "SELECT flag, COUNT(*) AS n FROM data GROUP BY flag": [(False, 2), (True, 3), (None, 3)],
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM data GROUP BY 1": [
        (0, 2), (10, 3), (20, 1), (None, 2),
    ],
    "SELECT age > 10 AS older, COUNT(*) AS n FROM data GROUP BY 1": [(False, 2), (True, 4), (None, 2)],
    "SELECT g, flag, COUNT(*) AS n FROM data GROUP BY 1, 2": [
        ("a", False, 0), ("a", True, 3), ("a", None, 0),
        ("b", False, 1), ("b", True, 0), ("b", None, 1),
        (None, False, 1), (None, True, 0), (None, None, 2),
    ],
    "SELECT g, plain, COUNT(*) AS n FROM data GROUP BY 1, 2": [
        ("a", "p", 2), ("a", "q", 1), ("b", "p", 0), ("b", "q", 0), (None, "p", 1), (None, "q", 1),
    ],
    # nothing says that plain may be NULL
    "SELECT plain, COUNT(*) AS n FROM data GROUP BY plain": [("p", 3), ("q", 2)],
    "SELECT CASE WHEN plain = 'p' THEN 'yes' ELSE 'no' END AS k, COUNT(*) AS n FROM data GROUP BY 1": [
        ("yes", 3), ("no", 5),
    ],
    # the question says so
    "SELECT NULLIF(plain, 'q') AS k, COUNT(*) AS n FROM data GROUP BY 1": [("p", 3), (None, 5)],
    "SELECT CASE WHEN plain = 'p' THEN 'yes' END AS k, COUNT(*) AS n FROM data GROUP BY 1": [("yes", 3), (None, 5)],
    # it cannot be NULL any more
    "SELECT g, COUNT(*) AS n FROM data WHERE g IS NOT NULL GROUP BY g": [("a", 3), ("b", 2)],
    "SELECT g, COUNT(*) AS n FROM data WHERE g = 'a' GROUP BY g": [("a", 3)],
    "SELECT COALESCE(g, 'none') AS k, COUNT(*) AS n FROM data GROUP BY 1": [("a", 3), ("b", 2), ("none", 3)],
    "SELECT g IS NULL AS k, COUNT(*) AS n FROM data GROUP BY 1": [(False, 5), (True, 3)],
    # further down
    "SELECT k, COUNT(*) AS n FROM (SELECT g AS k FROM data) GROUP BY k": [("a", 3), ("b", 2), (None, 3)],
    "SELECT g, COUNT(*) AS n FROM data WHERE g IS NULL OR g = 'a' GROUP BY g": [("a", 3), ("b", 0), (None, 3)],
    "SELECT g, COUNT(*) AS n FROM data GROUP BY g HAVING g IS NULL": [(None, 3)],
    "SELECT g, COUNT(*) AS n FROM data GROUP BY g ORDER BY g NULLS FIRST": [(None, 3), ("a", 3), ("b", 2)],
    "SELECT g, COUNT(DISTINCT age) AS n FROM data GROUP BY g": [("a", 3), ("b", 2), (None, 1)],
}  # fmt: skip


@pytest.mark.parametrize("sql", CASES)
def test_null_is_a_key_where_it_is_named(curator: Curator, sql: str) -> None:
    for _ in range(3):  # the third time from rows that were kept
        assert sorted(counts(curator, sql), key=repr) == sorted(CASES[sql], key=repr)
    if "ORDER" in sql:
        assert counts(curator, sql) == CASES[sql]


def test_quantiles_and_averages_stand_beside_their_key(curator: Curator) -> None:
    sql = "SELECT g, AVG(age) AS a, MEDIAN(age) AS m FROM data WHERE age > 0 GROUP BY g"
    rows = curator.ask(sql, epsilon=10**6, fresh=True).table.to_pylist()
    assert [row["g"] for row in rows] == ["a", "b", None]
    assert [row["a"] for row in rows] == pytest.approx([12, 7.5, 25], abs=0.1)
    assert rows[2]["m"] == pytest.approx(25, abs=1)


def test_the_price_and_the_shape_look_at_no_row() -> None:
    """Data without a NULL has the group, with its noisy zero, and data with one has none where none is named."""
    full = ROWS.set_column(1, "g", pa.array(["a"] * 8))
    shapes = []
    for rows in (ROWS, full):
        with hush.protect(rows, values=VALUES, budget=10) as desk:
            answer = desk.ask("SELECT g, COUNT(*) AS n FROM data GROUP BY g", epsilon=1, fresh=True)
            shapes.append(answer.table["g"].to_pylist())
            shown = str(desk.explain("SELECT g, COUNT(*) AS n FROM data GROUP BY g", epsilon=1))
            assert "keys: 3 public" in shown
            assert "rows with another value, or without one, count under NULL" in shown
            mixed = str(desk.explain("SELECT g, plain, COUNT(*) AS n FROM data GROUP BY 1, 2", epsilon=1))
            assert "under NULL, or are not counted where NULL is not listed" in mixed
            assert "are not counted" in str(desk.explain("SELECT plain, COUNT(*) AS n FROM data GROUP BY 1", epsilon=1))
    assert shapes[0] == shapes[1]


POLICY = """
[data.d]
unit = "id"
budget = {{ epsilon = "1e6" }}
[data.d.tables.people]
source = "people.parquet"
max_groups = 3
columns.g = {{ type = "text", values = ["a", "b"]{null} }}
columns.age = {{ type = "integer", lower = 0, upper = 29{null} }}
columns.flag = {{ type = "boolean"{null} }}
[data.d.tables.visits]
source = "visits.parquet"
max_groups = 3
columns.item = {{ type = "text", values = ["x", "y"] }}
[analysts.alice]
data = ["d"]
budget = {{ epsilon = "1e6" }}
"""


@pytest.mark.parametrize("null", [", nullable = true", ""])
def test_the_policy_names_null(tmp_path: Path, null: str) -> None:
    pq.write_table(ROWS, tmp_path / "people.parquet")
    pq.write_table(pa.table({"id": [1, 1, 2, 9], "item": ["x", "y", None, "y"]}), tmp_path / "visits.parquet")
    (tmp_path / "hush.toml").write_text(POLICY.format(null=null))
    with hush.open(tmp_path / "hush.toml", analyst="alice", create=True) as desk:
        also = [(None, 3)] if null else []
        assert counts(desk, "SELECT g, COUNT(*) AS n FROM people GROUP BY g") == [("a", 3), ("b", 2), *also]
        also = [(None, 2)] if null else []
        decades = "SELECT FLOOR(age / 10) * 10 AS k, COUNT(*) AS n FROM people GROUP BY 1"
        assert counts(desk, decades) == [(0, 2), (10, 3), (20, 1), *also]
        left = "SELECT v.item, COUNT(*) AS n FROM people p LEFT JOIN visits v ON p.id = v.id GROUP BY 1"
        assert counts(desk, left) == [("x", 1), ("y", 1), (None, 7)]  # six without a visit, and one without an item
        inner = "SELECT v.item, COUNT(*) AS n FROM people p JOIN visits v ON p.id = v.id GROUP BY 1"
        assert counts(desk, inner) == [("x", 1), ("y", 1)]
        union = "SELECT id, g AS k FROM people UNION ALL SELECT id, item FROM visits"
        either = f"SELECT k, COUNT(*) AS n FROM ({union}) GROUP BY k"
        also = [(None, 4)] if null else []
        assert counts(desk, either) == [("a", 3), ("b", 2), ("x", 1), ("y", 2), *also]


def test_a_list_of_null_alone_is_refused() -> None:
    with pytest.raises(hush.HushError, match="at least one value"):
        hush.protect(ROWS, values={"g": [None]}, budget=1)
