"""Other spellings give the same question, or are refused; nothing is read as something else."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

import hush
from hush.query.errors import QuestionError
from hush.query.schema import Schema, Table
from hush.query.sql import parse
from hush.query.sql.dialects import PrivacyOptions, privacy_options
from hush.query.types import Kind, Type


@pytest.fixture(scope="module")
def curator():
    rows = pd.DataFrame(
        {
            "id": range(300),
            "city": ["Bern", "Ulm", "Genf"] * 100,
            "x": [1, 2, 7] * 100,
            "y": [0.5, 2.0, 8.0] * 100,
            "d": pd.to_datetime(["2024-01-31", "2024-02-29", "2024-12-01"] * 100).date,
        }
    )
    with hush.protect(
        rows,
        unit="id",
        table="visits",
        bounds={"x": (0, 10), "y": (0, 10), "d": ("2024-01-01", "2024-12-31")},
        values={"city": ["Bern", "Genf", "Ulm"]},
        budget={"epsilon": "1e9", "delta": "1e-3"},
        max_rows=2,
        max_groups=2,
    ) as made:
        yield made


COUNTS = "(SELECT id, COUNT(*) AS n FROM visits GROUP BY id)"
SAME = [
    (
        "bigquery",
        "SELECT `city`, COUNT(*) AS n FROM `visits` GROUP BY 1",
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY 1",
    ),
    (
        "tsql",
        "SELECT TOP 2 [city], COUNT(*) AS n FROM [visits] GROUP BY city",
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city LIMIT 2",
    ),
    (
        "postgres",
        "SELECT SUM(x / 2) AS s FROM visits",
        "SELECT SUM(x // 2) AS s FROM visits",
    ),
    (
        "tsql",
        "SELECT SUM(x / 2) AS s FROM visits",
        "SELECT SUM(x // 2) AS s FROM visits",
    ),
    (
        "tsql",
        "SELECT SUM(y / 2) AS s FROM visits",
        "SELECT SUM(y / 2) AS s FROM visits",
    ),
    (
        "bigquery",
        "SELECT SUM(x / 2) AS s FROM visits",
        "SELECT SUM(x / 2) AS s FROM visits",
    ),
    (
        "bigquery",
        "SELECT DATE_TRUNC(d, MONTH) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT DATE_TRUNC('month', d) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
    ),
    (
        "snowflake",
        "SELECT DATE_TRUNC('month', d) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT DATE_TRUNC('month', d) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
    ),
    (
        "bigquery",
        "SELECT SUM(CLIP(LOG(y, 2), 0, 3)) AS s FROM visits",
        "SELECT SUM(CLIP(LOG(2, y), 0, 3)) AS s FROM visits",
    ),
    (
        "bigquery",
        "SELECT SUM(CLIP(LOG(y), 0, 3)) AS s FROM visits",
        "SELECT SUM(CLIP(LN(y), 0, 3)) AS s FROM visits",
    ),
    (
        "bigquery",
        "SELECT COUNTIF(SUBSTR(city, 0, 1) = 'B') AS n FROM visits",
        "SELECT COUNT_IF(SUBSTRING(city, 1, 1) = 'B') AS n FROM visits",
    ),
    (
        "bigquery",
        "SELECT SAFE_DIVIDE(SUM(x), COUNT(*)) AS m FROM visits",
        "SELECT SUM(x) / COUNT(*) AS m FROM visits",
    ),
    (
        "bigquery",
        "SELECT SUM(DATE_DIFF(DATE '2024-12-31', d, DAY)) AS s FROM visits",
        "SELECT SUM(DATE_DIFF('day', d, DATE '2024-12-31')) AS s FROM visits",
    ),
    (
        "snowflake",
        "SELECT SUM(IFF(x > 1, 1, 0)) AS n, SUM(NVL(x, 0)) AS s FROM visits",
        "SELECT SUM(IF(x > 1, 1, 0)) AS n, SUM(COALESCE(x, 0)) AS s FROM visits",
    ),
    (
        "tsql",
        "SELECT YEAR(d) AS y, COUNT(*) AS n FROM visits GROUP BY YEAR(d)",
        "SELECT YEAR(d) AS y, COUNT(*) AS n FROM visits GROUP BY YEAR(d)",
    ),
    (
        "spark",
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city WITH ROLLUP",
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY ROLLUP (city)",
    ),
    ("tsql", "SELECT SUM(CAST(y AS INT)) AS s FROM visits", "SELECT SUM(CAST(TRUNC(y) AS INT)) AS s FROM visits"),
    (  # what is a decimal inside a table stays one outside of it
        "postgres",
        "SELECT AVG(r / 2) AS m FROM (SELECT x * 1.0 AS r FROM visits) AS t",
        "SELECT AVG(r / 2) AS m FROM (SELECT x * 1 AS r FROM visits) AS t",
    ),
    (  # a sum of BIGINT, which a count is, is NUMERIC
        "postgres",
        f"SELECT AVG(CLIP(s / 2, 0, 9)) AS m FROM (SELECT id, SUM(n) AS s FROM {COUNTS} GROUP BY id)",
        f"SELECT AVG(CLIP(s / 2, 0, 9)) AS m FROM (SELECT id, SUM(n) AS s FROM {COUNTS} GROUP BY id)",
    ),
    (
        "tsql",
        "SELECT 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS p, AVG(x) AS m FROM visits GROUP BY x HAVING m / 2 > 0",
        "SELECT 1 * COUNT(*) / SUM(COUNT(*)) OVER () AS p, TRUNC(AVG(x)) AS m FROM visits GROUP BY x HAVING m // 2 > 0",
    ),
    (
        "spark",
        "SELECT COUNT(DISTINCT city, x) AS n FROM visits",
        "SELECT COUNT(DISTINCT (city, x)) FILTER (WHERE city IS NOT NULL AND x IS NOT NULL) AS n FROM visits",
    ),
    (
        "bigquery",
        'SELECT COUNT(*) AS n FROM visits WHERE city = "Bern"',
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'Bern'",
    ),
]


@pytest.mark.parametrize(("dialect", "theirs", "ours"), SAME)
def test_a_spelling_is_the_same_question(dialect, theirs, ours, curator):
    found, expected = curator.parse(theirs, dialect=dialect)[1], curator.parse(ours)[1]
    assert found == expected


REFUSED = [
    ("postgres", "SELECT SUM(x) / COUNT(*) FROM visits", "depends on the type of SUM"),
    ("postgres", "SELECT s / n FROM (SELECT SUM(x) AS s, COUNT(*) AS n FROM visits) AS t", "depends on the type of s"),
    (
        "postgres",
        "SELECT SUM(y / 2) FROM (SELECT x * 1.0 AS y FROM visits UNION ALL SELECT x FROM visits)",
        "type of y",
    ),
    ("spark", "SELECT PERCENTILE(x, 0.5, x) FROM visits", "more arguments than are understood"),
    ("tsql", "SELECT SUM(LEN(city)) FROM visits", "blanks"),
    ("tsql", "SELECT COUNT(*) FROM visits WHERE city LIKE '[AB]%'", "signs"),
    ("bigquery", "SELECT DATE_TRUNC(d, WEEK) AS w, COUNT(*) FROM visits GROUP BY 1", "Sunday"),
    ("tsql", "SELECT DATEPART(weekday, d) AS w, COUNT(*) FROM visits GROUP BY DATEPART(weekday, d)", "a setting"),
    ("spark", "SELECT SUM(pmod(x, 3)) FROM visits", "something else"),
    ("postgres", "SELECT COUNT(*) FROM visits WHERE city ~ 'B'", "something else"),
    ("oracle", "SELECT COUNT(*) FROM visits", "no dialect 'oracle'"),
    ("bigquery", "SELECT COUNT(*) FROM visits WHERE x > ?", "default dialect"),
]


@pytest.mark.parametrize(("dialect", "sql", "why"), REFUSED)
def test_what_means_something_else_is_refused(dialect, sql, why, curator):
    with pytest.raises(QuestionError, match=why):
        curator.parse(sql, dialect=dialect)


def test_null_in_greatest_and_concat_is_as_in_the_dialect(curator):
    found = curator.parse("SELECT SUM(GREATEST(x, 3)) AS s FROM visits", dialect="bigquery")[1]
    plain = "SELECT SUM(CASE WHEN x IS NULL OR 3 IS NULL THEN NULL ELSE GREATEST(x, 3) END) AS s FROM visits"
    assert found == curator.parse(plain)[1]
    found = curator.parse("SELECT COUNT(CONCAT(city, 'a')) AS s FROM visits", dialect="spark")[1]
    assert found == curator.parse("SELECT COUNT(city || 'a') AS s FROM visits")[1]


def test_bigquerys_privacy_clause_is_the_questions_terms(curator):
    options = "epsilon=2, delta=1e-7, max_groups_contributed=1, privacy_unit_column=id"
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options})"
    sql = f"{clause} city, COUNT(*) AS n FROM visits GROUP BY city"
    explained = curator.explain(sql, dialect="BigQuery")
    assert explained.price.epsilon == 2
    assert explained.plan.exact_query.limits.groups == 1
    with pytest.raises(QuestionError, match="privacy unit is city"):
        curator.explain(sql.replace("=id", "=city"), dialect="bigquery")
    with pytest.raises(QuestionError, match="says epsilon = 2"):
        curator.explain(sql, epsilon=3, dialect="bigquery")
    with pytest.raises(hush.HushError, match="max_groups"):  # bounds may only tighten
        curator.explain(sql.replace("contributed=1", "contributed=5"), dialect="bigquery")
    with pytest.raises(QuestionError, match="not known"):
        curator.explain(sql.replace("delta", "noise"), dialect="bigquery")
    for twice in ("EPSILON=1", "kappa=1"):
        with pytest.raises(QuestionError, match="Say it once"):
            curator.explain(sql.replace("delta=1e-7", twice), dialect="bigquery")
    with pytest.raises(QuestionError, match="whole number"):
        curator.explain(sql.replace("contributed=1", "contributed=1.9"), dialect="bigquery")


def test_bounds_per_group_are_clipped_within_the_unit(curator):
    theirs = (
        "SELECT city, SUM(x, contribution_bounds_per_group => (0, 5)) AS s, "
        "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM visits WHERE x > 0 GROUP BY city ORDER BY s DESC"
    )
    ours = (
        "SELECT city, SUM(CLIP(s, 0, 5)) AS s, SUM(CLIP(n, 0, 1)) AS n FROM (SELECT id, city, SUM(x) AS s, "
        "COUNT(*) AS n FROM visits WHERE x > 0 GROUP BY id, city) AS t GROUP BY city ORDER BY s DESC"
    )
    one, other = (
        curator.ask(sql, epsilon=1e6, dialect=dialect).rows()
        for sql, dialect in ((theirs, "bigquery"), (ours, "duckdb"))
    )
    assert [row["city"] for row in one] == [row["city"] for row in other]
    assert [round(row["s"]) for row in one] == [round(row["s"]) for row in other] == [500, 200, 100]
    assert [row["n"] for row in one] == [100, 100, 100]
    with pytest.raises(QuestionError, match="all aggregates"):
        curator.parse(theirs.replace(", contribution_bounds_per_group => (0, 1)", ""), dialect="bigquery")


def test_ends_of_error_bars(curator):
    sql = "SELECT city, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) FROM visits GROUP BY city"
    for row in curator.ask(sql, epsilon="0.5", dialect="snowflake").rows():
        assert row["n"] - row["low"] == row["n_high"] - row["n"] == row["n_error"]
    with pytest.raises(QuestionError, match="no result 'm'"):
        curator.parse("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) AS low FROM visits", dialect="snowflake")


def test_words_of_privacy_inside_comments_and_texts_are_none(curator):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=9)"
    plain = f"-- {clause}\nSELECT COUNT(*) FROM visits WHERE city = '{clause}' /* {clause} */"
    assert privacy_options(plain) == PrivacyOptions()
    commented = "SELECT WITH DIFFERENTIAL_PRIVACY /* a */ OPTIONS (epsilon=2 -- , epsilon=3\n) COUNT(*) FROM visits"
    assert privacy_options(commented) == PrivacyOptions(epsilon=Fraction(2))
    bounds = "), contribution_bounds_per_row => (0, 1))"
    theirs = f"SELECT SUM(x, contribution_bounds_per_row => (0, 2)) AS s FROM visits WHERE city <> '{bounds}'"
    ours = f"SELECT SUM(CLIP(x, 0, 2)) AS s FROM visits WHERE city <> '{bounds}'"
    assert curator.parse(theirs, dialect="bigquery")[1] == curator.parse(ours)[1]
    quantile = "SELECT PERCENTILE_CONT(COALESCE(x, 1), 0.5, contribution_bounds_per_row => (0, 2)) AS p FROM visits"
    ours = "SELECT QUANTILE(CLIP(COALESCE(x, 1), 0, 2), 0.5) AS p FROM visits"
    assert curator.parse(quantile, dialect="bigquery")[1] == curator.parse(ours)[1]
    for other in ("duckdb", "snowflake"):
        with pytest.raises(QuestionError):
            curator.parse(commented, dialect=other)
    with pytest.raises(QuestionError, match="not SQL"):
        curator.parse(commented.replace("OPTIONS", ""), dialect="bigquery")


def test_prices_are_compared_in_other_dialects_too(curator):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed=1)"
    sql = f"{clause} city, COUNT(*) AS n FROM visits GROUP BY city"
    found = curator.at_prices(sql, epsilons=[1, 2], dialect="bigquery")
    assert [one.price.epsilon for one in found] == [1, 2]
    assert {one.plan.exact_query.limits.groups for one in found} == {1}


def test_a_question_of_sql_server_about_texts_says_that_case_counts(curator):
    def notes(sql: str, dialect: str) -> str:
        return str(curator.explain(sql, epsilon=1, dialect=dialect))

    assert "here case counts" in notes("SELECT COUNT(*) AS n FROM visits WHERE city = 'A'", "tsql")
    assert "here case counts" in notes("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "TSQL")
    assert "here case counts" not in notes("SELECT COUNT(*) AS n FROM visits WHERE x > 1", "tsql")
    assert "here case counts" not in notes("SELECT COUNT(*) AS n FROM visits WHERE city = 'A'", "postgres")
    same = "SELECT COUNT(*) AS n FROM visits WHERE city = 'A'"  # a note is no part of the question
    assert curator.parse(same, dialect="tsql")[1] == curator.parse(same)[1]


def test_regular_expressions_are_read_as_bigquery_reads_them(curator):
    theirs = r"SELECT COUNT(*) AS n FROM visits WHERE REGEXP_CONTAINS(city, r'^[ab]\w*')"
    ours = r"SELECT COUNT(*) AS n FROM visits WHERE REGEXP_MATCHES(city, '^[ab]\w*')"
    assert curator.parse(theirs, dialect="bigquery")[1] == curator.parse(ours)[1]
    for dialect in ("postgres", "spark", "snowflake"):
        with pytest.raises(QuestionError):
            curator.parse("SELECT COUNT(*) AS n FROM visits WHERE REGEXP_LIKE(city, 'a')", dialect=dialect)


@pytest.mark.parametrize("dialect", ["postgres", "tsql", "duckdb"])
def test_answers_of_subqueries_are_divided(dialect: str) -> None:
    answers = Table(name="answers", columns={"vip": Type(Kind.BOOLEAN), "age": Type(Kind.INTEGER)})
    poll = Schema(data="poll", tables={"answers": answers})
    parse("SELECT (SELECT COUNT(*) FROM answers WHERE age > 3) / (SELECT COUNT(*) FROM answers)", poll, dialect=dialect)
    assert parse("SELECT COUNT(*) FROM answers WHERE age IN (7 / 7, 30)", poll, dialect=dialect)


def test_a_bit_of_sql_server_is_compared_with_a_number() -> None:
    answers = Table(name="answers", columns={"vip": Type(Kind.BOOLEAN)})
    poll = Schema(data="poll", tables={"answers": answers})
    plain = parse("SELECT COUNT(*) FROM answers WHERE vip = TRUE", poll)
    assert parse("SELECT COUNT(*) FROM answers WHERE vip = 1", poll, dialect="tsql").relation == plain.relation
