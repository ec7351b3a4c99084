# ruff: noqa: E501 - a statement is read best in one line
"""A refusal's advice, followed to the letter, asks the same question: the answer is DuckDB's to what was refused."""

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
from hush.query.errors import QuestionError

PEOPLE, ORDERS = 60, 300
RUNNING = "SUM(amount) OVER (PARTITION BY id ORDER BY number{}"
HAS_WORD = "CONTAINS(';' || tags || ';', ';' || word || ';')"
FOLLOWED = {
    "SELECT SUM(amount > 30) AS n FROM orders": (
        "COUNT_IF(amount > 30)",
        "SELECT COUNT_IF(amount > 30) AS n FROM orders",
    ),
    "SELECT SUM(number) AS s FROM orders": (
        "CLIP(number, lower, upper)",
        "SELECT SUM(CLIP(number, 0, 1000)) AS s FROM orders",
    ),
    "SELECT WEEKDAY(day) AS w, COUNT(*) AS n FROM orders GROUP BY w ORDER BY w": (
        "DAYOFWEEK(d)",
        "SELECT DAYOFWEEK(day) AS w, COUNT(*) AS n FROM orders GROUP BY w ORDER BY w",
    ),
    "SELECT COUNT(*) AS n FROM orders WHERE EPOCH(day) > 1680000000": (
        "DATE_DIFF('second', DATE '1970-01-01', d)",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('second', DATE '1970-01-01', day) > 1680000000",
    ),
    f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)')} AS s FROM "
    "orders) WHERE s > 100": (
        "Turn the order round, and start at UNBOUNDED PRECEDING",
        f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' DESC ROWS UNBOUNDED PRECEDING)')} AS s FROM orders) WHERE s > 100",
    ),
    "SELECT COUNT(*) AS n FROM (SELECT id FROM orders WHERE country = 'DE' INTERSECT SELECT id FROM orders WHERE country = 'FR')": (
        "Write WHERE id IN (SELECT …), and DISTINCT",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id FROM orders WHERE country = 'DE' AND id IN (SELECT id FROM orders WHERE country = 'FR'))",
    ),
    "SELECT COUNT(*) AS n FROM (SELECT id FROM people EXCEPT SELECT id FROM orders WHERE amount > 20)": (
        "Write WHERE id NOT IN (SELECT …), and DISTINCT",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id FROM people WHERE id NOT IN (SELECT id FROM orders WHERE amount > 20))",
    ),
    "SELECT tag, COUNT(*) AS n FROM orders, UNNEST(STRING_SPLIT(tags, ';')) AS u(tag) WHERE tag IN ('a', 'b') GROUP BY tag ORDER BY tag": (
        f"JOIN (VALUES ('first'), ('second')) AS words(word) ON {HAS_WORD}",
        f"SELECT word, COUNT(*) AS n FROM orders JOIN (VALUES ('a'), ('b')) AS words(word) ON {HAS_WORD} GROUP BY word ORDER BY word",
    ),
    "SELECT COUNT(*) AS n FROM (SELECT UNNEST(STRING_SPLIT(tags, ';')) AS tag FROM orders) AS q WHERE tag = 'a'": (
        f"JOIN (VALUES ('first'), ('second')) AS words(word) ON {HAS_WORD}",
        f"SELECT COUNT(*) AS n FROM orders JOIN (VALUES ('a')) AS words(word) ON {HAS_WORD}",
    ),
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT country FROM orders)": (
        "COUNT(DISTINCT x)",
        "SELECT COUNT(DISTINCT country) AS n FROM orders",
    ),
    "SELECT COUNT(DISTINCT CASE WHEN o.id IS NULL THEN p.id END) AS n FROM people p LEFT JOIN orders o ON o.id = p.id": (
        "test another of its columns for NULL",
        "SELECT COUNT(DISTINCT CASE WHEN o.number IS NULL THEN p.id END) AS n FROM people p LEFT JOIN orders o ON o.id = p.id",
    ),
    "SELECT c.name, COUNT(*) AS n FROM countries c LEFT JOIN orders o ON o.country = c.code WHERE o.amount > 10 "
    "GROUP BY c.name ORDER BY c.name": (
        "Write JOIN",
        "SELECT c.name, COUNT(*) AS n FROM countries c JOIN orders o ON o.country = c.code WHERE o.amount > 10 GROUP BY c.name ORDER BY c.name",
    ),
}
"""What is refused, the words of the advice that are followed, and what they lead to."""


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    first = dt.date(2023, 1, 1)
    return {
        "people": pa.table({"id": range(PEOPLE), "age": [20 + at % 50 for at in range(PEOPLE)]}),
        "orders": pa.table(
            {
                "id": [at * 7 % (PEOPLE - 9) for at in range(ORDERS)],
                "number": range(ORDERS),
                "amount": [Decimal(at * 13 % 500) / 10 for at in range(ORDERS)],
                "day": [first + dt.timedelta(days=at * 11 % 365) for at in range(ORDERS)],
                "country": [("DE", "FR", "IT")[at % 3] for at in range(ORDERS)],
                "tags": [("a;b", "b", "c;ab;a", "", None)[at % 5] for at in range(ORDERS)],
            }
        ),
        "countries": pa.table({"code": ["DE", "FR", "IT"], "name": ["Germany", "France", "Italy"]}),
    }


@pytest.fixture(scope="module")
def curator(tables: dict[str, pa.Table]) -> Iterator[Curator]:
    with hush.protect(
        {name: table for name, table in tables.items() if name != "countries"},
        unit="id",
        bounds={"age": (0, 100), "amount": (0, 100, "0.1"), "day": ("2023-01-01", "2023-12-31")},
        values={"country": ["DE", "FR", "IT"]},
        budget={"epsilon": "1e12", "delta": "0.1"},
        max_rows=100,
        max_groups=100,
        public={"countries": tables["countries"]},
    ) as made:
        yield made


@pytest.fixture(scope="module")
def plain(tables: dict[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with plain_duckdb(tables) as connection:
        yield connection


@pytest.mark.parametrize("refused", FOLLOWED)
def test_advice_followed_to_the_letter_asks_the_same(
    curator: Curator, plain: duckdb.DuckDBPyConnection, refused: str
) -> None:
    words, followed = FOLLOWED[refused]
    with pytest.raises(QuestionError) as refusal:
        curator.explain(refused, epsilon="1")
    assert words in refusal.value.hint
    assert_same_rows(answered(curator.ask(followed, epsilon="1e9")), plain.execute(refused).fetchall(), absolute=0.01)
