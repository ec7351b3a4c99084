# ruff: noqa: E501 - a statement is read best in one line
"""A refusal's advice, followed to the letter, asks the same question: the answer is DuckDB's to what was refused.

Where there is no way to the same answer, the refusal says so: in words that are listed with it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from duckdb_oracle import answered, assert_same_rows, plain_duckdb

import hush
from hush.core import HushError
from hush.curator.curator import Curator

PEOPLE, ORDERS = 61, 300
RUNNING = "SUM(amount) OVER (PARTITION BY id ORDER BY number{}"
HAS_WORD = "CONTAINS(';' || tags || ';', ';' || word || ';')"
PER_COUNTRY = "SELECT country, COUNT(*) AS n FROM orders WHERE amount > 7 GROUP BY country"
FOLLOWED = [
    (
        "SELECT SUM(number) AS s FROM orders",
        "CLIP(number, lower, upper)",
        "SELECT SUM(CLIP(number, 0, 1000)) AS s FROM orders",
    ),
    (
        "SELECT SUM(number) AS s FROM orders WHERE country = 'DE'",
        "add WHERE … BETWEEN lower AND upper",
        "SELECT SUM(number) AS s FROM orders WHERE country = 'DE' AND number BETWEEN 0 AND 1000",
    ),
    (
        "SELECT WEEKDAY(day) AS w, COUNT(*) AS n FROM orders GROUP BY w ORDER BY w",
        "DAYOFWEEK(d)",
        "SELECT DAYOFWEEK(day) AS w, COUNT(*) AS n FROM orders GROUP BY w ORDER BY w",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE EPOCH(day) > 1680000000",
        "DATE_DIFF('second', DATE '1970-01-01', d)",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('second', DATE '1970-01-01', day) > 1680000000",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE EPOCH_MS(day) > 1680000000000",
        "DATE_DIFF('second', DATE '1970-01-01', d) * 1000",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('second', DATE '1970-01-01', day) * 1000 > 1680000000000",
    ),
    (
        "SELECT YEARWEEK(day) AS w, COUNT(*) AS n FROM orders WHERE day < DATE '2023-02-01' GROUP BY w HAVING n > 0 ORDER BY w",
        "CAST(STRFTIME(d, '%G%V') AS INTEGER)",
        "SELECT CAST(STRFTIME(day, '%G%V') AS INTEGER) AS w, COUNT(*) AS n FROM orders WHERE day < DATE '2023-02-01' GROUP BY w HAVING n > 0 ORDER BY w",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_SUB('month', DATE '2023-01-15', day) = 2 AND day >= DATE '2023-01-15'",
        "DATE_DIFF('month', a, b) - CASE WHEN DAY(b) < DAY(a) AND DAY(b + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('month', DATE '2023-01-15', day) - CASE WHEN DAY(day) < DAY(DATE '2023-01-15') AND DAY(day + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END = 2 AND day >= DATE '2023-01-15'",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_SUB('month', DATE '2023-01-31', day) = 1 AND day >= DATE '2023-01-31'",
        "DATE_DIFF('month', a, b) - CASE WHEN DAY(b) < DAY(a) AND DAY(b + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('month', DATE '2023-01-31', day) - CASE WHEN DAY(day) < DAY(DATE '2023-01-31') AND DAY(day + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END = 1 AND day >= DATE '2023-01-31'",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_SUB('day', DATE '2023-01-15', day) < 20",
        "DATE_DIFF('day', a, b)",
        "SELECT COUNT(*) AS n FROM orders WHERE DATE_DIFF('day', DATE '2023-01-15', day) < 20",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE LPAD(CAST(MONTH(day) AS VARCHAR), 2, '0') = '03'",
        "RIGHT('0' || x, 2)",
        "SELECT COUNT(*) AS n FROM orders WHERE RIGHT('0' || CAST(MONTH(day) AS VARCHAR), 2) = '03'",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE number & 1 = 1",
        "the last bit is x % 2",
        "SELECT COUNT(*) AS n FROM orders WHERE number % 2 = 1",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE country COLLATE NOCASE = 'de'",
        "LOWER(x) = 'text'",
        "SELECT COUNT(*) AS n FROM orders WHERE LOWER(country) = 'de'",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE TRIM(tags, 'c') = ';ab;a'",
        "REPLACE(x, 'a', '') is the same",
        "SELECT COUNT(*) AS n FROM orders WHERE REPLACE(tags, 'c', '') = ';ab;a'",
    ),
    (
        "SELECT COUNT(*) AS n FROM people WHERE name ILIKE 'É%'",
        "LOWER(x) LIKE 'pattern'",
        "SELECT COUNT(*) AS n FROM people WHERE LOWER(name) LIKE 'é%'",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE amount BETWEEN SYMMETRIC 30 AND 20",
        "BETWEEN LEAST(30, 20) AND GREATEST(30, 20)",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE tags ~ 'a'",
        "REGEXP_MATCHES(tags, 'a')",
        "SELECT COUNT(*) AS n FROM orders WHERE REGEXP_MATCHES(tags, 'a')",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE amount > ANY (SELECT people_m FROM countries)",
        "x > the least of them: (SELECT MIN(y) …)",
        "SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT MIN(people_m) FROM countries)",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE amount * 2 > ALL (SELECT people_m FROM countries)",
        "NOT EXISTS (SELECT 1 … WHERE x <= y OR x IS NULL OR y IS NULL)",
        "SELECT COUNT(*) AS n FROM orders WHERE NOT EXISTS (SELECT 1 FROM countries WHERE amount * 2 <= people_m OR amount * 2 IS NULL OR people_m IS NULL)",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE amount * 2 > ALL (SELECT people_m FROM countries WHERE people_m > 1000000)",
        "NOT EXISTS (SELECT 1 … WHERE x <= y OR x IS NULL OR y IS NULL)",
        "SELECT COUNT(*) AS n FROM orders WHERE NOT EXISTS (SELECT 1 FROM countries WHERE people_m > 1000000 AND (amount * 2 <= people_m OR amount * 2 IS NULL OR people_m IS NULL))",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id, LAG(amount, 1, 0) OVER (PARTITION BY id ORDER BY number) AS l FROM orders) WHERE l < 5",
        "CASE WHEN ROW_NUMBER() OVER (…) <= 1 THEN 0 ELSE LAG(x, 1) OVER (…) END",
        "SELECT COUNT(*) AS n FROM (SELECT id, CASE WHEN ROW_NUMBER() OVER (PARTITION BY id ORDER BY number) <= 1 THEN 0 ELSE LAG(amount, 1) OVER (PARTITION BY id ORDER BY number) END AS l FROM orders) WHERE l < 5",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE TRUNC(CAST(amount / 7 AS DOUBLE), 1) > 0.5",
        "TRUNC(x * 10) / 10",
        "SELECT COUNT(*) AS n FROM orders WHERE TRUNC(CAST(amount / 7 AS DOUBLE) * 10) / 10 > 0.5",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE (number, amount) < (40, 7)",
        "(a, b) < (c, d) is a < c OR (a = c AND b < d)",
        "SELECT COUNT(*) AS n FROM orders WHERE number < 40 OR (number = 40 AND amount < 7)",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders, LATERAL (SELECT amount * 2 AS b) AS t WHERE b > 20",
        "FROM (SELECT *, x * 2 AS y FROM …) AS t",
        "SELECT COUNT(*) AS n FROM (SELECT *, amount * 2 AS b FROM orders) AS t WHERE b > 20",
    ),
    (
        f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)')} AS s FROM orders) WHERE s > 100",
        "Turn the order round, and start at UNBOUNDED PRECEDING",
        f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' DESC ROWS UNBOUNDED PRECEDING)')} AS s FROM orders) WHERE s > 100",
    ),
    (
        f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' RANGE BETWEEN 0 PRECEDING AND CURRENT ROW)')} AS s FROM orders) WHERE s > 30",
        "Where no two rows are equal in the order, ROWS means the same",
        f"SELECT COUNT(*) AS n FROM (SELECT {RUNNING.format(' ROWS BETWEEN 0 PRECEDING AND CURRENT ROW)')} AS s FROM orders) WHERE s > 30",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id, SUM(amount) OVER (PARTITION BY id ORDER BY day RANGE BETWEEN INTERVAL 30 DAY PRECEDING AND CURRENT ROW) AS s FROM orders) WHERE s > 50",
        "ON a.unit = b.unit AND b.day BETWEEN a.day - INTERVAL 6 DAY AND a.day",
        "SELECT COUNT(*) AS n FROM (SELECT a.id, a.number, SUM(b.amount) AS s FROM orders a JOIN orders b ON a.id = b.id AND b.day BETWEEN a.day - INTERVAL 30 DAY AND a.day GROUP BY a.id, a.number) AS t WHERE s > 50",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id, COUNT(DISTINCT country) OVER (PARTITION BY id) AS k FROM orders) WHERE k = 3",
        "Take it in a subquery that groups by id, and join that",
        "SELECT COUNT(*) AS n FROM orders JOIN (SELECT id, COUNT(DISTINCT country) AS k FROM orders GROUP BY id) AS t USING (id) WHERE k = 3",
    ),
    (
        "SELECT tag, COUNT(*) AS n FROM orders, UNNEST(STRING_SPLIT(tags, ';')) AS u(tag) WHERE tag IN ('a', 'b') GROUP BY tag ORDER BY tag",
        "CONTAINS(',' || x || ',', ',' || word || ',')",
        f"SELECT word, COUNT(*) AS n FROM orders JOIN (VALUES ('a'), ('b')) AS words(word) ON {HAS_WORD} GROUP BY word ORDER BY word",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT UNNEST(STRING_SPLIT(tags, ';')) AS tag FROM orders) AS q WHERE tag = 'a'",
        "CONTAINS(',' || x || ',', ',' || word || ',')",
        f"SELECT COUNT(*) AS n FROM orders JOIN (VALUES ('a')) AS words(word) ON {HAS_WORD}",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT UNNEST(STRING_SPLIT(tags, ';')) AS tag FROM orders) AS q",
        "Words that are not listed are left out",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT country FROM orders)",
        "COUNT(DISTINCT x)",
        "SELECT COUNT(DISTINCT country) AS n FROM orders",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT country, tags FROM orders)",
        "COUNT(DISTINCT (x, y))",
        "SELECT COUNT(DISTINCT (country, tags)) AS n FROM orders",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT country FROM orders UNION SELECT country FROM orders WHERE amount > 3)",
        "COUNT(DISTINCT x) over UNION ALL",
        "SELECT COUNT(DISTINCT country) AS n FROM (SELECT country FROM orders UNION ALL SELECT country FROM orders WHERE amount > 3)",
    ),
    (
        "SELECT country FROM orders WHERE amount > 40 INTERSECT SELECT country FROM orders WHERE amount < 5 ORDER BY 1",
        "FROM (SELECT …) AS a JOIN (SELECT …) AS b ON a.key = b.key",
        "SELECT a.country FROM (SELECT country, COUNT(*) AS n FROM orders WHERE amount > 40 GROUP BY country) AS a JOIN (SELECT country, COUNT(*) AS n FROM orders WHERE amount < 5 GROUP BY country) AS b ON a.country = b.country WHERE a.n > 0.5 AND b.n > 0.5 ORDER BY 1",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id FROM orders UNION BY NAME SELECT id FROM people)",
        "List the columns in one order in every SELECT",
        "SELECT COUNT(*) AS n FROM (SELECT id FROM orders UNION SELECT id FROM people)",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id FROM orders INTERSECT ALL SELECT id FROM people)",
        "There is no other way",
        None,
    ),
    (
        "SELECT c.name, COUNT(*) AS n FROM countries c LEFT JOIN orders o ON o.country = c.code WHERE o.amount > 10 GROUP BY c.name ORDER BY c.name",
        "Write JOIN for the rows that have a partner",
        "SELECT c.name, COUNT(*) AS n FROM countries c JOIN orders o ON o.country = c.code WHERE o.amount > 10 GROUP BY c.name ORDER BY c.name",
    ),
    (
        "SELECT COUNT(*) AS n FROM countries c LEFT JOIN orders o ON o.country = c.code AND o.amount > 1000",
        "Rows without one can be had as keys alone",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o FULL JOIN countries c ON o.country = c.code",
        "rows of the public one without a partner are left out",
        "SELECT COUNT(*) AS n FROM orders o LEFT JOIN countries c ON o.country = c.code",
    ),
    (
        "SELECT COUNT(*) AS n FROM countries WHERE code NOT IN (SELECT country FROM orders WHERE amount > 49.8)",
        "WHERE n > 0.5, or n < 0.5 for NOT",
        "SELECT COUNT(*) AS n FROM (SELECT c.code, COUNT(o.amount) AS n FROM countries AS c LEFT JOIN orders AS o ON o.country = c.code AND o.amount > 49.8 GROUP BY c.code) AS t WHERE n < 0.5",
    ),
    (
        "SELECT COUNT(*) AS n FROM countries c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.country = c.code AND o.amount > 49.8)",
        "WHERE n > 0.5, or n < 0.5 for NOT",
        "SELECT COUNT(*) AS n FROM (SELECT c.code, COUNT(o.amount) AS n FROM countries AS c LEFT JOIN orders AS o ON o.country = c.code AND o.amount > 49.8 GROUP BY c.code) AS t WHERE n > 0.5",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders q WHERE q.country = o.country)",
        "WHERE x > CASE key WHEN 'a' THEN 42 WHEN 'b' THEN 43 END",
        "SELECT COUNT(*) AS n FROM orders WHERE amount > CASE country WHEN 'DE' THEN {SELECT AVG(amount) FROM orders WHERE country = 'DE'} WHEN 'FR' THEN {SELECT AVG(amount) FROM orders WHERE country = 'FR'} WHEN 'IT' THEN {SELECT AVG(amount) FROM orders WHERE country = 'IT'} END",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.age > o.amount)",
        "that is another question",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM people WHERE age > ALL (SELECT amount FROM orders)",
        "x > the greatest of them",
        "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT MAX(amount) FROM orders)",
    ),
    (
        "SELECT MAX(age) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS r, COUNT(*) OVER () AS c FROM people) WHERE r <= (c + 1) // 2",
        "MEDIAN(age)",
        "SELECT MEDIAN(age) AS m FROM people",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT age, NTILE(4) OVER (ORDER BY age) AS q FROM people) WHERE q = 4",
        "PARTITION BY id is another question",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT age, PERCENT_RANK() OVER (ORDER BY age) AS q FROM people) WHERE q > 0.75",
        "QUANTILE(age, 0.9)",
        "SELECT COUNT(*) AS n FROM people WHERE age > {SELECT QUANTILE(age, 0.75) FROM people}",
    ),
    (
        "SELECT DISTINCT country, n FROM (SELECT country, COUNT(*) OVER (PARTITION BY country) AS n FROM orders) ORDER BY 1",
        "Ask for COUNT(*) with GROUP BY",
        "SELECT country, COUNT(*) AS n FROM orders GROUP BY country ORDER BY 1",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT amount - LAG(amount) OVER (ORDER BY number) AS d FROM orders) WHERE d > 0",
        "Rows beside each other are known within a unit alone",
        None,
    ),
    (
        "SELECT AVG(amount) AS m FROM (SELECT amount FROM orders ORDER BY amount DESC LIMIT 10)",
        "ask for their border first, QUANTILE(x, 0.9)",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o JOIN orders q ON o.country = q.country",
        "Pairs of rows of different units cannot be asked about",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o JOIN orders q ON o.number = q.number",
        "add the unit, USING (id, …) or ON … AND a.id = b.id",
        "SELECT COUNT(*) AS n FROM orders o JOIN orders q ON o.number = q.number AND o.id = q.id",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders o JOIN orders q USING (number)",
        "add the unit, USING (id, …)",
        "SELECT COUNT(*) AS n FROM orders o JOIN orders q USING (id, number)",
    ),
    (
        "SELECT COUNT(*) AS n FROM orders CROSS JOIN people",
        "Pairs of rows of different units cannot be asked about",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM orders POSITIONAL JOIN people",
        "There is no other way",
        None,
    ),
    (
        "SELECT COUNT(*) AS n, SUM(q.amount) AS s FROM orders o ASOF JOIN (SELECT id, number, amount FROM orders WHERE country = 'DE') q ON o.id = q.id AND o.number >= q.number",
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY a.unit, a.key ORDER BY b.time DESC) = 1",
        "SELECT COUNT(*) AS n, SUM(amount) AS s FROM (SELECT o.id, q.amount FROM orders o JOIN (SELECT id, number, amount FROM orders WHERE country = 'DE') q ON o.id = q.id AND q.number <= o.number QUALIFY ROW_NUMBER() OVER (PARTITION BY o.id, o.number ORDER BY q.number DESC) = 1) AS t",
    ),
    (
        "SELECT MAX(country) AS m FROM orders",
        "HAVING n > 0.5 ORDER BY country LIMIT 1, or DESC for the last",
        "SELECT country FROM (SELECT country, COUNT(*) AS n FROM orders GROUP BY country HAVING n > 0.5 ORDER BY country DESC LIMIT 1) AS t",
    ),
    (
        "SELECT country, ANY_VALUE(c.name) AS name, COUNT(*) AS n FROM orders JOIN countries c ON code = country GROUP BY country ORDER BY country",
        "Add the column to GROUP BY if it follows from the keys",
        "SELECT country, c.name AS name, COUNT(*) AS n FROM orders JOIN countries c ON code = country GROUP BY country, c.name HAVING n > 0.5 ORDER BY country",
    ),
    (
        "SELECT QUANTILE(amount, 1) AS q FROM orders",
        "MIN(x) or MAX(x)",
        "SELECT MAX(amount) AS q FROM orders",
    ),
    (
        "SELECT MODE(tags) AS m FROM orders WHERE tags <> ''",
        "GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1",
        None,
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT id, MAX(country) AS s FROM orders WHERE country <> 'FR' GROUP BY id) WHERE s = 'IT'",
        "COUNT(*) FILTER (WHERE x = 'a') > 0",
        "SELECT COUNT(*) AS n FROM (SELECT id, COUNT(*) FILTER (WHERE country = 'IT') AS s FROM orders WHERE country <> 'FR' GROUP BY id) WHERE s > 0",
    ),
    (
        "SELECT AVG(s) AS a FROM (SELECT id, SUM(amount) AS s FROM orders GROUP BY id)",
        "CLIP(s, lower, upper)",
        "SELECT AVG(CLIP(s, 0, 5000)) AS a FROM (SELECT id, SUM(amount) AS s FROM orders GROUP BY id)",
    ),
    (
        "SELECT country, COUNT(*) AS n FROM orders",
        "Add GROUP BY country",
        None,
    ),
    (
        "SELECT country, c.name, COUNT(*) AS n FROM orders JOIN countries c ON code = country GROUP BY country",
        "Add it to GROUP BY",
        None,
    ),
    (
        "SELECT country, COUNT(*) AS n FROM orders GROUP BY country HAVING RANK() OVER (ORDER BY COUNT(*)) = 1",
        "Write QUALIFY in place of HAVING",
        None,
    ),
    (
        "SELECT country, COUNT(*) AS n FROM orders WHERE amount > 7 GROUP BY country ORDER BY n DESC FETCH FIRST 1 ROWS WITH TIES",
        "Write a number of rows alone: LIMIT 10",
        None,
    ),
    (
        f"WITH a AS ({PER_COUNTRY}) SELECT c.name, n FROM a JOIN (SELECT code, name FROM countries WHERE people_m > 60) AS c ON c.code = a.country ORDER BY 1",
        "Join the public table itself, and put its conditions into WHERE",
        f"WITH a AS ({PER_COUNTRY}) SELECT c.name, n FROM a JOIN countries AS c ON c.code = a.country WHERE c.people_m > 60 ORDER BY 1",
    ),
    (
        f"SELECT country, COUNT(*) * 1.0 / (SELECT n FROM ({PER_COUNTRY}) AS t WHERE country = 'DE') AS r FROM orders GROUP BY country ORDER BY 1",
        "join it on its keys",
        None,
    ),
    ("SELECT * FROM orders", "Rows are never shown", None),
    ("SELECT country, amount FROM orders WHERE amount > 49", "Rows are never shown", None),
    ("SELECT id, SUM(amount) AS s FROM orders GROUP BY id", "Individuals are never shown", None),
    ("SELECT COUNT(*) AS n FROM orders WHERE id = 7", "which no expression can use", None),
    ("SELECT COUNT(*) AS n FROM orders TABLESAMPLE 10 PERCENT", "A sample cannot be asked about", None),
    ("SELECT KURTOSIS(amount) AS k FROM orders", "GROUP BY BIN(x, 0, 100, 50)", None),
    ("SELECT STRING_AGG(country, ',') AS k FROM orders", "GROUP BY x, COUNT(*)", None),
    ("SELECT ARG_MAX(country, amount) AS k FROM orders", "over all there is none", None),
    ("SELECT COUNT(*) AS n FROM orders WHERE day > CURRENT_DATE", "Write the date itself", None),
    (
        "SELECT COUNT(*) AS n FROM orders WHERE day AT TIME ZONE 'UTC' > DATE '2023-02-01'",
        "Timestamps are taken as they are stored",
        None,
    ),
    ("SELECT COUNT(*) AS n FROM orders WHERE HASH(country) % 2 = 0", "use the value itself", None),
    ("SELECT COUNT(*) AS n FROM countries", "Read them directly", None),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o.id FROM people p LEFT JOIN orders o ON o.id = p.id GROUP BY o.id)",
        "Possible are COUNT(o.id)",
        None,
    ),
]
"""What is refused, words of the refusal, and what its advice leads to; None where it leads elsewhere, and says so.

A number that the advice says to ask for first stands in braces.
"""


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    first = dt.date(2023, 1, 1)
    return {
        "people": pa.table(
            {
                "id": range(PEOPLE),
                "age": [20 + at % 50 for at in range(PEOPLE)],
                "name": [("Éva", "eva", "étienne", "Zoë")[at % 4] for at in range(PEOPLE)],
            }
        ),
        "orders": pa.table(
            {
                "id": [at * 7 % (PEOPLE - 10) for at in range(ORDERS)],
                "number": range(ORDERS),
                "amount": [Decimal(at * 13 % 500) / 10 for at in range(ORDERS)],
                "day": [first + dt.timedelta(days=at * 11 % 365) for at in range(ORDERS)],
                "country": [("DE", "FR", "IT")[at % 3] for at in range(ORDERS)],
                "tags": [("a;b", "b", "c;ab;a", "", None)[at % 5] for at in range(ORDERS)],
            }
        ),
        "countries": pa.table(
            {"code": ["DE", "FR", "IT"], "name": ["Germany", "France", "Italy"], "people_m": [83, 68, 39]}
        ),
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


@pytest.mark.parametrize(("refused", "words", "followed"), FOLLOWED)
def test_advice_followed_to_the_letter_asks_the_same(
    curator: Curator, plain: duckdb.DuckDBPyConnection, refused: str, words: str, followed: str | None
) -> None:
    with pytest.raises(HushError) as refusal:
        curator.explain(refused, epsilon="1")
    assert words in str(refusal.value)
    if followed is not None:
        first = re.sub(r"\{(.*?)\}", lambda part: str(curator.ask(part[1], epsilon="1e9").value()), followed)
        ours = answered(curator.ask(first, epsilon="1e9"))
        assert_same_rows(ours, plain.execute(refused).fetchall(), absolute=0.01)
