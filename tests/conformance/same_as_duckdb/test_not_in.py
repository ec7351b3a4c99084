"""NOT IN, EXISTS and quantified comparisons over lists with NULLs mean what they mean in plain DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import hush
from hush.query.errors import QuestionError

OUTER = pa.table({"pid": [1, 2, 3, 4, 5, 5], "x": [1, 2, None, 4, 5, None], "z": [1, None, 1, 2, 2, 2]})
INNER = pa.table({"pid": [1, 2, 3, 4, 5], "y": [1, 9, 9, None, 5], "w": [1, 1, None, 2, 2]})
PLACES = pa.table({"place": [1, 2, None], "size": [1, 2, 3]})
STATEMENTS = [
    "a.x NOT IN (SELECT y FROM b WHERE b.pid = a.pid)",
    "NOT a.x IN (SELECT y FROM b WHERE b.pid = a.pid)",
    "a.x <> ALL (SELECT y FROM b WHERE b.pid = a.pid)",
    "a.x = ANY (SELECT y FROM b WHERE b.pid = a.pid)",
    "a.x IN (SELECT y FROM b WHERE b.pid = a.pid)",
    "a.x NOT IN (SELECT y FROM b WHERE b.pid = a.pid AND y > 4)",
    "a.x NOT IN (SELECT y FROM b WHERE b.pid = a.pid AND b.w = a.z)",
    "(a.pid, a.x) NOT IN (SELECT pid, y FROM b)",
    "a.x NOT IN (SELECT x FROM a AS o WHERE o.pid = a.pid AND o.z > 1)",
    "a.x NOT IN (SELECT place FROM places)",
    "a.x NOT IN (SELECT place FROM places WHERE place > 1)",
    "a.x NOT IN (SELECT place FROM places WHERE size > a.z)",
    "a.pid NOT IN (SELECT pid FROM b WHERE y > 4)",
    "EXISTS (SELECT 1 FROM b WHERE b.pid = a.pid AND y > 4)",
]


@pytest.fixture(scope="module")
def curator() -> Iterator[hush.Curator]:
    bounds = {"x": (0, 9), "y": (0, 9), "z": (0, 9), "w": (0, 9)}
    tables = {"a": OUTER, "b": INNER}
    options = {"unit": "pid", "public": {"places": PLACES}, "max_rows": 9, "max_groups": 9, "budget": "1e15"}
    with hush.protect(tables, bounds=bounds, **options) as made:
        yield made


@pytest.mark.parametrize("condition", STATEMENTS)
def test_conditions_on_lists_mean_what_duckdb_means(curator: hush.Curator, condition: str) -> None:
    statement = f"SELECT COUNT(*) AS n FROM a WHERE {condition}"
    with duckdb.connect() as plain:
        for name, table in {"a": OUTER, "b": INNER, "places": PLACES}.items():
            plain.register(name, table)
        expected = plain.execute(statement).fetchall()[0][0]
    assert curator.ask(statement, epsilon="1e9").rows()[0]["n"] == expected


@pytest.mark.parametrize("dialect", ["postgres", "tsql", "bigquery", "snowflake", "spark"])
def test_they_are_read_in_every_dialect(curator: hush.Curator, dialect: str) -> None:
    for condition, expected in (("EXISTS (SELECT 1 FROM b WHERE b.pid = a.pid AND y > 4)", 4), (STATEMENTS[0], 1)):
        statement = f"SELECT COUNT(*) AS n FROM a WHERE {condition}"
        assert curator.ask(statement, epsilon="1e9", dialect=dialect).rows()[0]["n"] == expected


@pytest.mark.parametrize("word", ["EXISTS", "NOT EXISTS"])
def test_an_aggregate_of_nothing_is_a_row(curator: hush.Curator, word: str) -> None:
    with pytest.raises(QuestionError, match="always true"):
        curator.explain(f"SELECT COUNT(*) FROM a WHERE {word} (SELECT MAX(y) FROM b WHERE b.pid = a.pid)", epsilon=1)
