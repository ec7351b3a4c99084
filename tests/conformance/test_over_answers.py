"""Questions over answers, roll-ups and windows: at a very large ε they are what plain DuckDB answers.

Random questions are put together of finished questions and of what can be done with these; ``HUSH_CASES`` says how
many.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import hush
from hush.curator import pipeline
from hush.curator.curator import Curator
from hush.engines.sql.dialect import float_digits
from hush.query.relations import Relation, awaited_by, with_answers

CASES = int(os.environ.get("HUSH_CASES", "40"))
ROWS = 1500


def frame() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": np.arange(ROWS),
            "g": rng.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2]),
            "h": rng.choice(["p", "q"], ROWS),
            "city": rng.choice(["Bern", "Genf", "Ulm", "Wien"], ROWS),
            "x": rng.integers(0, 100, ROWS),
            "m": rng.integers(1, 7, ROWS),
        }
    )


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    made = hush.protect(
        frame(),
        unit="id",
        table="visits",
        bounds={"x": (0, 100), "m": (1, 6)},
        values={"g": ["a", "b", "c"], "h": ["p", "q"]},
        budget={"epsilon": "1e15", "delta": "0.5"},
        max_rows=1,
        max_groups=1,
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect(":memory:")
    table = frame()
    made.register("fresh", table)
    made.execute("CREATE TABLE visits AS SELECT * FROM fresh")
    yield made
    made.close()


def cell(value: Any) -> tuple[int, Any]:
    """Return a cell so that rows can be sorted and compared."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 2, 0
    if isinstance(value, str):
        return 1, value
    return 0, round(float(value), 5)


def assert_same(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str, *, ordered: bool = False) -> None:
    answer = curator.ask(sql, epsilon="1e9", delta="1e-9")
    ours = [tuple(map(cell, row)) for row in zip(*(column.values for column in answer.columns), strict=True)]
    theirs = [tuple(map(cell, row)) for row in plain.execute(sql).fetchall()]
    if not ordered:
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs, sql
    for column in answer.columns:
        assert column.errors is None or all(error is None or error >= 0 for error in column.errors), (sql, column)


Q = "(SELECT g, city, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY g, city) AS t"
QUESTIONS = """
SELECT g, h, COUNT(*) AS n, AVG(x) AS a FROM visits GROUP BY ROLLUP (g, h);
SELECT g, city, m, COUNT(*) AS n FROM visits GROUP BY CUBE (g, city, m);
SELECT g, city, SUM(x) AS s, VARIANCE(x) AS v FROM visits GROUP BY GROUPING SETS ((g, city), (city), (), (g));
SELECT g, h, city, COUNT(*) AS n, GROUPING(g, h) AS b, GROUPING(city) AS c FROM visits GROUP BY g, ROLLUP (h, city);
SELECT UPPER(g) AS u, COUNT(*) AS n, COALESCE(h, 'all') AS k FROM visits GROUP BY ROLLUP (g, h) HAVING COUNT(*) > 9;
SELECT g, COUNT(DISTINCT id) AS n FROM visits GROUP BY ROLLUP (g);
SELECT UPPER(k) AS u, n FROM (SELECT g AS k, COUNT(*) AS n FROM visits GROUP BY g UNION ALL SELECT city, COUNT(*) FROM
visits GROUP BY city) WHERE LEFT(k, 1) <> 'U';
SELECT g, h, COUNT(*) AS n FROM visits GROUP BY ROLLUP ((g, h));
SELECT g, city, n, n / SUM(n) OVER (PARTITION BY g) AS share FROM @Q;
SELECT city, SUM(n) AS n, COUNT(*) AS k, MAX(s) AS most FROM @Q GROUP BY city;
SELECT city, SUM(n) FILTER (WHERE g = 'a') AS a, COUNT(*) FILTER (WHERE g <> 'b') AS k, AVG(s) FILTER (WHERE n > 100)
    AS av, COUNT(DISTINCT g) FILTER (WHERE g < 'c') AS d, STDDEV(n) FILTER (WHERE g <> 'c') AS sd FROM @Q GROUP BY city;
SELECT g, city, SUM(n) FILTER (WHERE g = 'a') OVER (PARTITION BY city) AS a, n FROM @Q;
SELECT g, city, COUNT(DISTINCT g) OVER (PARTITION BY city) AS d FROM @Q WHERE g <> 'b' OR city < 'G';
SELECT g, COUNT(*) AS n, SUM(COUNT(*)) FILTER (WHERE g <> 'a') OVER () AS others FROM visits GROUP BY g;
SELECT SUM(n) AS n, AVG(s) AS a, MIN(n) AS least, COUNT(DISTINCT g) AS k FROM @Q WHERE g <> 'b';
SELECT g, city, n, LAG(n) OVER (PARTITION BY g ORDER BY city) AS before, LEAD(n, 2) OVER w AS after FROM @Q WINDOW w
AS (PARTITION BY g ORDER BY city);
SELECT g, city, SUM(n) OVER (ORDER BY g, city) AS run, AVG(n) OVER (ORDER BY g, city ROWS BETWEEN 2 PRECEDING AND
CURRENT ROW) AS slide, MIN(s) OVER (PARTITION BY g ORDER BY city ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM
@Q;
SELECT g, city, RANK() OVER (PARTITION BY g ORDER BY n DESC) AS r, PERCENT_RANK() OVER (ORDER BY n) AS p, NTILE(3)
OVER (ORDER BY n, g, city) AS t, CUME_DIST() OVER (ORDER BY n) AS c, DENSE_RANK() OVER (ORDER BY g) AS d FROM @Q;
SELECT * FROM @Q QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC, city) <= 2;
SELECT DISTINCT g FROM @Q WHERE n > 60;
SELECT g, n FROM (SELECT g, SUM(n) AS n FROM @Q GROUP BY g HAVING SUM(n) > 10) ORDER BY n DESC LIMIT 2;
SELECT g, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS total, FIRST_VALUE(COUNT(*)) OVER (ORDER BY g) AS first FROM
visits GROUP BY g;
WITH a AS (SELECT g, COUNT(*) AS n FROM visits GROUP BY g), b AS (SELECT g, COUNT(*) AS n FROM visits WHERE x > 50
GROUP BY g) SELECT a.g, a.n, b.n AS k, b.n / a.n AS share FROM a JOIN b ON a.g = b.g;
WITH a AS (SELECT g, h, COUNT(*) AS n FROM visits GROUP BY g, h), t AS (SELECT g, SUM(n) AS n FROM a GROUP BY g)
SELECT a.g, h, a.n, 100.0 * a.n / t.n AS share FROM a LEFT JOIN t USING (g);
WITH a AS (SELECT city, COUNT(*) AS n FROM visits WHERE g = 'a' GROUP BY city), b AS (SELECT city, COUNT(*) AS k
FROM visits WHERE city <> 'Ulm' GROUP BY city) SELECT a.city, b.city AS other, n, k FROM a FULL JOIN b ON a.city =
b.city;
WITH a AS (SELECT g, COUNT(*) AS n FROM visits GROUP BY g) SELECT one.g, one.n - other.n AS d FROM a AS one JOIN a
AS other USING (g);
WITH a AS (SELECT g, COUNT(*) AS n FROM visits GROUP BY g), t AS (SELECT SUM(n) AS n FROM a) SELECT g, a.n / t.n AS
p FROM a, t;
SELECT g AS what, COUNT(*) AS n FROM visits GROUP BY g UNION ALL SELECT city, SUM(x) FROM visits GROUP BY city UNION
ALL SELECT 'all', COUNT(*) FROM visits;
SELECT k, n, RANK() OVER (ORDER BY n DESC) AS r FROM (SELECT g AS k, COUNT(*) AS n FROM visits GROUP BY g UNION ALL
SELECT h, COUNT(*) FROM visits GROUP BY h);
SELECT n FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city ORDER BY n DESC LIMIT 2) WHERE n > 1;
SELECT LEFT(city, 1) AS l, SUM(n) AS n FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) GROUP BY 1;
SELECT m, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY m) AS change FROM visits GROUP BY m;
SELECT COUNT(*) AS k FROM (SELECT city, COUNT(*) AS n FROM visits WHERE g = 'z' GROUP BY city)
"""
FIXED = [" ".join(text.split()).replace("@Q", Q) for text in QUESTIONS.split(";")]


BOTH = (
    "WITH a AS (SELECT g, COUNT(*) AS n FROM visits GROUP BY g), "
    "b AS (SELECT g, COUNT(*) AS n FROM visits WHERE g <> 'b' GROUP BY g HAVING COUNT(*) > 1) "
)


@pytest.mark.parametrize(
    "text",
    [
        "a.g || UPPER('x' || 'y')",
        "CONCAT(b.g, CAST(DATE '2020-01-01' AS VARCHAR))",
        "STARTS_WITH(b.g, LEFT('ab', 1))",
        "CASE WHEN UPPER(b.g) = 'A' THEN 'yes' ELSE 'no' END",
        "UPPER(COALESCE(b.g, 'none'))",
    ],
)
def test_functions_of_texts_over_a_join(curator: Curator, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    assert_same(curator, plain, f"{BOTH} SELECT a.g, {text} AS k, a.n FROM a JOIN b ON a.g = b.g")


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("UPPER(b.g)", True),
        ("UPPER(NULLIF(b.g, 'a'))", True),
        ("b.g || UPPER('x')", True),
        ("COALESCE(UPPER(b.g), 'none')", True),
        ("UPPER(COALESCE(a.g, 'none'))", True),
        ("UPPER(COALESCE(b.g, 'none'))", False),
        ("CONCAT(b.g, 'x')", False),
        ("UPPER(CASE WHEN b.g IS NULL THEN 'none' ELSE b.g END)", False),
        ("CAST(b.g IS NULL AS VARCHAR)", False),
        ("UPPER(NULLIF(COALESCE(b.g, 'q'), 'a'))", False),
    ],
)
def test_no_function_of_what_an_outer_join_leaves_out_is_computed_before_it(
    curator: Curator, plain: duckdb.DuckDBPyConnection, text: str, answered: bool
) -> None:
    """A row without a partner has NULL for all that was computed of the partner, and that would not be the value."""
    for join in ("a LEFT JOIN b", "b RIGHT JOIN a", "a FULL JOIN b"):
        sql = f"{BOTH} SELECT a.n, {text} AS k FROM {join} ON a.g = b.g"
        if answered and (join != "a FULL JOIN b" or "COALESCE(a.g" not in text):
            assert_same(curator, plain, sql)
        else:
            with pytest.raises(hush.HushError, match="of what was computed from several answers"):
                curator.explain(sql, epsilon=1)


@pytest.mark.parametrize("sql", FIXED)
def test_same_as_duckdb(curator: Curator, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert_same(curator, plain, sql)


class Writer:
    """Writes a question over answers."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def one(self, *options: str) -> str:
        return self.rng.choice(options)

    def question(self) -> str:
        keys = self.rng.sample(["g", "h", "city", "m"], self.rng.choice([1, 2, 2, 3]))
        if self.rng.random() < 0.3:
            shown = ", ".join([*keys, "COUNT(*) AS n", "SUM(x) AS s", f"GROUPING({keys[0]}) AS b"])
            how = self.one("ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())")
            inner = f"SELECT {shown} FROM visits{self.where()} GROUP BY {how.format(', '.join(keys))}"
            numbers = ["n", "s", "b"]
        else:
            second = self.one("SUM(x)", "COUNT(*) FILTER (WHERE x > 40)", "AVG(x)", "MAX(COUNT(*)) OVER ()")
            inner = f"SELECT {', '.join(keys)}, COUNT(*) AS n, {second} AS s FROM visits{self.where()} GROUP BY ALL"
            numbers = ["n", "s"]
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            inner, keys, numbers = self.over(inner, keys, numbers)
        return inner

    def where(self) -> str:
        return self.one("", "", " WHERE x > 20", " WHERE h = 'p' OR city <> 'Ulm'")

    def number(self, numbers: list[str]) -> str:
        a, b = (self.rng.choice(numbers) for _ in range(2))
        return self.one(
            a, f"{a} + {b}", f"2 * {a} - {b}", f"{a} / NULLIF({b}, 0)", f"ABS({a} - 90)", f"COALESCE({a}, 0)",
            f"CASE WHEN {a} > 80 THEN {a} ELSE -{b} END",
        )  # fmt: skip

    def over(self, inner: str, keys: list[str], numbers: list[str]) -> tuple[str, list[str], list[str]]:
        condition = self.one("", "", f" WHERE {self.rng.choice(numbers)} > {self.rng.choice([50, 120, 4000])}")
        if keys and self.rng.random() < 0.35:
            kept = self.rng.sample(keys, self.rng.randrange(len(keys) + 1))
            fold = self.one("SUM", "AVG", "MIN", "MAX", "COUNT")
            shown = [*kept, f"{fold}({self.number(numbers)}) AS n", "COUNT(*) AS k"]
            group = f" GROUP BY {', '.join(kept)}" if kept else ""
            having = self.one("", " HAVING COUNT(*) > 1")
            return f"SELECT {', '.join(shown)} FROM ({inner}) AS t{condition}{group}{having}", kept, ["n", "k"]
        window = self.window(keys, numbers)
        shown = [*keys, f"{self.number(numbers)} AS n", f"{window} AS w"]
        qualify = self.one("", "", " QUALIFY w > 1") if "w" in shown[-1] else ""
        return f"SELECT {', '.join(shown)} FROM ({inner}) AS t{condition}{qualify}", keys, ["n", "w"]

    def window(self, keys: list[str], numbers: list[str]) -> str:
        by = ", ".join(keys) or "1"
        order = f"ORDER BY {by}" + self.one("", " DESC")
        partition = f"PARTITION BY {self.rng.choice(keys)} " if keys and self.rng.random() < 0.5 else ""
        a = self.rng.choice(numbers)
        return self.one(
            f"SUM({a}) OVER ({partition})", f"{a} / SUM({a}) OVER ({partition})",
            f"RANK() OVER ({partition}ORDER BY {a} DESC)",
            f"SUM({a}) OVER ({partition}{order} ROWS UNBOUNDED PRECEDING)", f"MAX({a}) OVER ({partition})",
            f"COUNT({a}) OVER ({partition})", f"DENSE_RANK() OVER ({partition}ORDER BY {a})",
        )  # fmt: skip


def test_random_questions_are_the_same_as_duckdb(curator: Curator, plain: duckdb.DuckDBPyConnection) -> None:
    rng, answered = Random(17), 0
    for _ in range(CASES):
        sql = Writer(rng).question()
        try:
            curator.explain(sql, epsilon="1e9", delta="1e-9")
        except hush.HushError:
            continue
        assert_same(curator, plain, sql)
        answered += 1
    assert answered > 0.9 * CASES


def test_rows_meet_the_released_number_and_not_the_exact_one(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two questions share ε. The noisy mean is the exact one with a probability below 10⁻⁶."""
    sql = "SELECT COUNT(*) AS n FROM visits WHERE x < (SELECT AVG(x) FROM visits)"
    parts = curator.plan(sql, epsilon="1e-4").plan.parts.values()
    assert sum(part.epsilon for part in parts) == Fraction("1e-4")
    met = []

    def recording(relation: Relation, answers: dict[int, Any]) -> Relation:
        met.extend(answers.values())
        return with_answers(relation, answers)

    monkeypatch.setattr(pipeline, "with_answers", recording)
    curator.ask(sql, epsilon="1e-4")
    assert met
    assert float(np.mean(frame()["x"].to_numpy())) not in {float(number) for number in met}


def test_keys_beyond_floats_keep_their_order() -> None:
    first = 2**60
    rows = pa.table({"id": range(60), "big": [first + at % 6 for at in range(60)]})
    sql = "SELECT big AS k, SUM(COUNT(*)) OVER () AS s FROM r GROUP BY big ORDER BY k DESC"
    values = {"big": [first + at for at in range(6)]}
    with hush.protect(rows, unit="id", table="r", values=values, budget="1e12") as curator:
        assert [row["k"] - first for row in curator.ask(sql, epsilon="1").rows()] == [5, 4, 3, 2, 1, 0]


def test_what_noise_may_have_counted_or_left_out_is_within_the_bar(curator: Curator) -> None:
    """At a tiny ε no row is surely above 100, so each of the six may count or not.

    Noise makes one of six rows look sure with probability 6·0.001 at most, and so in more than 3 of 10 answers with
    C(10, 4)·0.006⁴ < 3e-7.
    """
    inner = "(SELECT g, h, COUNT(*) AS n FROM visits GROUP BY g, h) AS t"
    for sql in (
        f"SELECT COUNT(*) FILTER (WHERE n > 100) AS k FROM {inner}",
        f"SELECT COUNT(CASE WHEN n > 100 THEN 1 END) OVER () AS k FROM {inner}",
    ):
        too_short = 0
        for _ in range(10):
            (column,) = curator.ask(sql, epsilon="1e-6", confidence="0.999", fresh=True).columns
            assert column.errors is not None
            errors = [math.nan if error is None else error for error in column.errors]
            too_short += not all(
                error >= max(value, 6 - value) for value, error in zip(column.values, errors, strict=True)
            )
        assert too_short <= 3, sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM visits WHERE x < (SELECT AVG(x) FROM visits)",
        "SELECT SUM(CLIP(x * (SELECT AVG(x) FROM visits) / 7, 0, 9)) AS s FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE ROUND(x / (SELECT AVG(x) FROM visits), 1) > 1",
    ],
)
def test_no_released_number_makes_a_statement_that_could_be_refused(curator: Curator, sql: str) -> None:
    """The statement with a released number differs in the number alone from what was prepared before the charge."""
    data_set, plan = curator.plan(sql, epsilon=1)
    program = pipeline.prepare(plan, data_set)
    number, question = next((at, part) for at, part in program.plan.parts.items() if awaited_by(part.question.relation))
    prepared = [statement.text for statement in program.statements[number].statements]
    longest = float_digits(pipeline._LONGEST_NUMBER)
    values = [0, 7, -7, 2**62, 2**64, -(2**100), 10**30, "0.1", "-1e-7", "1.5e300", "-1.7976931348623157e308", "5e-324"]
    for value in map(Fraction, values):
        written = [
            statement.text
            for statement in data_set.engine.prepare(pipeline.with_numbers(question, {0: value})).statements
        ]
        digits = float_digits(value)
        assert [text.replace(f"({longest})", "@").replace(longest, "@") for text in prepared] == [
            text.replace(f"VALUES ({digits})", "VALUES (@)").replace(f"VALUES (({digits}))", "VALUES (@)")
            for text in written
        ]
        assert all(len(text) <= len(before) for text, before in zip(written, prepared, strict=True))
    data_set.engine.prepare(pipeline.with_numbers(question, {0: None}))


def test_the_difference_of_two_groups_of_one_question_is_not_called_exact(curator: Curator) -> None:
    text = (
        "WITH q AS (SELECT g, COUNT(*) AS n FROM visits GROUP BY g) SELECT x.g, x.n - y.n AS d, x.n FROM "
        "(SELECT g, n, 'b' AS other FROM q) AS x JOIN q AS y ON x.other = y.g"
    )
    errors = curator.explain(text, epsilon=1).errors()
    assert errors["d"] is None
    assert errors["n"] == 3
