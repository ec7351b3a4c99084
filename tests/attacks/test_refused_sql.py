"""Attempts to reach past the front end: none becomes a question, and none ends in anything but a refusal."""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core import HushError
from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.question import Question
from hush.query.sql import parse
from hush.query.sql.text import MAX_LENGTH


def _clinic():
    place = Path(__file__).parents[1] / "unit" / "query" / "clinic.py"
    return runpy.run_path(str(place))["make_schema"]()


SCHEMA = _clinic()


@pytest.fixture(scope="module")
def schema():
    return SCHEMA


ESCAPES = {
    "files": [
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "SELECT COUNT(*) FROM read_csv_auto('/etc/passwd')",
        "SELECT COUNT(*) FROM read_parquet('s3://bucket/x.parquet')",
        "SELECT COUNT(*) FROM read_json('x.json')",
        "SELECT COUNT(*) FROM read_text('/etc/passwd')",
        "SELECT COUNT(*) FROM read_blob('/etc/passwd')",
        "SELECT COUNT(*) FROM glob('/*')",
        "SELECT COUNT(*) FROM parquet_scan('x')",
        "SELECT COUNT(*) FROM sqlite_scan('x.db', 't')",
        "SELECT COUNT(*) FROM postgres_scan('host=x', 'public', 't')",
        "SELECT COUNT(*) FROM '/etc/passwd'",
        "SELECT COUNT(*) FROM 'https://example.org/x.csv'",
        'SELECT COUNT(*) FROM "/etc/passwd"',
        "SELECT COUNT(*) FROM visits JOIN read_csv('x') r ON r.a = visits.age",
        "SELECT COUNT(*) FROM visits WHERE city = (SELECT content FROM read_text('/etc/passwd'))",
        "SELECT COUNT(*) FROM query('SELECT 1')",
        "SELECT COUNT(*) FROM query_table('visits')",
    ],
    "statements": [
        "DROP TABLE visits",
        "DELETE FROM visits",
        "INSERT INTO visits VALUES (1)",
        "UPDATE visits SET age = 1",
        "CREATE TABLE x AS SELECT * FROM visits",
        "COPY visits TO '/tmp/x.csv'",
        "COPY (SELECT * FROM visits) TO '/tmp/x.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '1KB'",
        "CALL pragma_version()",
        "EXPORT DATABASE '/tmp/x'",
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
        "DESCRIBE visits",
        "SHOW TABLES",
        "SUMMARIZE visits",
        "VALUES (1)",
        "TABLE visits",
        "SELECT COUNT(*) FROM visits; DROP TABLE visits",
        "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) INTO x FROM visits",
        "BEGIN; SELECT COUNT(*) FROM visits",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "PIVOT visits ON disease",
        "WITH x AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) FROM x",
    ],
    "settings, time, randomness, catalogue": [
        "SELECT COUNT(*) FROM visits WHERE city = current_setting('home_directory')",
        "SELECT COUNT(*) FROM visits WHERE city = getenv('HOME')",
        "SELECT COUNT(*) FROM visits WHERE now() > '2020-01-01'",
        "SELECT COUNT(*) FROM visits WHERE day > current_date",
        "SELECT COUNT(*) FROM visits WHERE at > current_timestamp",
        "SELECT COUNT(*) FROM visits WHERE day > today()",
        "SELECT COUNT(*) FROM visits WHERE random() < 0.5",
        "SELECT COUNT(*), random() FROM visits",
        "SELECT COUNT(*), uuid() FROM visits",
        "SELECT COUNT(*), gen_random_uuid() FROM visits",
        "SELECT COUNT(*), nextval('s') FROM visits",
        "SELECT COUNT(*), version() FROM visits",
        "SELECT COUNT(*), current_user FROM visits",
        "SELECT COUNT(*), current_schema() FROM visits",
        "SELECT COUNT(*), setseed(0.5) FROM visits",
        "SELECT COUNT(*), txid_current() FROM visits",
        "SELECT COUNT(*) FROM information_schema.tables",
        "SELECT COUNT(*) FROM duckdb_tables()",
        "SELECT COUNT(*) FROM pg_catalog.pg_class",
        "SELECT COUNT(*) FROM sqlite_master",
        "SELECT COUNT(*) FROM pragma_table_info('visits')",
    ],
    "would show single rows": [
        "SELECT * FROM visits",
        "SELECT visits.* FROM visits",
        "SELECT age FROM visits",
        "SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id",
        "SELECT patient_id FROM visits",
        "SELECT MIN(patient_id) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE patient_id = 7",
        "SELECT COUNT(*) FROM visits WHERE patient_id IN (7, 8)",
        "SELECT COUNT(*) FROM visits GROUP BY patient_id + 0",
        "SELECT COUNT(*), age FROM visits",
        "SELECT ANY_VALUE(city) FROM visits",
        "SELECT FIRST(city) FROM visits",
        "SELECT ARG_MAX(city, cost) FROM visits",
        "SELECT STRING_AGG(city, ',') FROM visits",
        "SELECT LIST(city) FROM visits",
        "SELECT HISTOGRAM(city) FROM visits",
        "SELECT BIT_XOR(age) FROM visits",
        "SELECT MAX(cost, 5) FROM visits",
        "SELECT MODE(city) FROM visits",
        "SELECT SUM(age ORDER BY city) FROM visits",
        "SELECT VARIANCE(DISTINCT age) FROM visits",
        "SELECT COLUMNS('a.*') FROM visits",
        "SELECT COUNT(*) OVER () FROM visits",
        "SELECT SUM(cost) OVER () FROM visits",
        "SELECT disease, ROW_NUMBER() OVER (ORDER BY cost) FROM visits",
        "SELECT disease, COUNT(*) AS n, MAX(cost) OVER () FROM visits GROUP BY disease",
        "SELECT disease, COUNT(*), GROUPING(cost) FROM visits GROUP BY ROLLUP (disease)",
        "SELECT RANK() OVER (ORDER BY cost) FROM visits",
        "SELECT disease, COUNT(*) FROM visits GROUP BY disease QUALIFY ROW_NUMBER() OVER () = 1",
        "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
        "SELECT COUNT(*) FROM visits USING SAMPLE 10",
        "SELECT AVG(cost) FROM (SELECT cost FROM visits ORDER BY cost LIMIT 1) t",
        "SELECT AVG(cost) FROM (SELECT DISTINCT cost FROM visits) t",
        "SELECT AVG(cost) FROM (SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease) t",
        "SELECT cost FROM (SELECT COUNT(*) AS n FROM visits) t",
        "SELECT a.n FROM (SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease) a JOIN visits v USING (disease)",
        "SELECT COUNT(*) FROM visits JOIN (SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1) a USING (disease)",
    ],
    "other units": [
        "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM patients)",
        "SELECT COUNT(*) FROM visits WHERE city IN (SELECT city FROM patients)",
        "SELECT COUNT(*) FROM visits WHERE age = ANY (SELECT born FROM patients)",
        "SELECT COUNT(*) FROM visits WHERE age > ALL (SELECT born FROM patients)",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.city = p.city",
        "SELECT COUNT(*) FROM visits, patients",
        "SELECT COUNT(*) FROM visits CROSS JOIN patients",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.patient_id OR 1 = 1",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON NOT v.patient_id = p.patient_id",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id <> p.patient_id",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id = v.patient_id",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON (v.patient_id = p.patient_id) = TRUE",
        "SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.patient_id + 1",
        "SELECT COUNT(*) FROM visits v ASOF JOIN patients p ON v.patient_id = p.patient_id AND v.age >= p.born",
        "SELECT COUNT(*) FROM visits v POSITIONAL JOIN patients p",
        "SELECT COUNT(*) FROM regions r LEFT JOIN visits v ON r.region_id = v.region_id",
        "SELECT COUNT(*) FROM visits v, LATERAL (SELECT 1 FROM patients) x",
        "SELECT COUNT(*) FROM visits EXCEPT SELECT COUNT(*) FROM patients",
        "SELECT COUNT(*) FROM visits UNION ALL SELECT cost FROM visits",
        "SELECT COUNT(*) FROM (SELECT age FROM visits EXCEPT SELECT born FROM patients) t",
        "SELECT COUNT(*) FROM (SELECT age FROM visits INTERSECT SELECT born FROM patients) t",
        "SELECT COUNT(*) FROM (SELECT city FROM visits UNION SELECT city FROM patients) t",
        "SELECT COUNT(*) FROM (SELECT city FROM visits UNION ALL SELECT name FROM regions) t",
        "SELECT COUNT(*) FROM (SELECT patient_id, city FROM visits UNION ALL SELECT city, city FROM patients) t",
        "SELECT COUNT(*) FROM (SELECT age FROM visits) a JOIN (SELECT born FROM patients) b ON a.age = b.born",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT COUNT(*) FROM r",
        "WITH r AS (SELECT age FROM r) SELECT COUNT(*) FROM r",
        "SELECT COUNT(*) FROM regions",
        "WITH evil AS (SELECT * FROM read_csv('x')) SELECT COUNT(*) FROM visits",
    ],
    "rows that fail, stall or fill the memory": [
        "SELECT COUNT(*) FROM visits WHERE error(city) IS NULL",
        "SELECT COUNT(*) FROM visits WHERE regexp_matches(city, '((a{30}){30}){30}')",
        "SELECT COUNT(*) FROM visits WHERE regexp_matches(city, street)",
        "SELECT COUNT(*) FROM visits WHERE city ~ '(a+)+\\1'",
        "SELECT COUNT(*) FROM visits WHERE city SIMILAR TO '(a+){999}'",
        "SELECT COUNT(*) FROM visits WHERE city LIKE '%a%a%a%a%a%a%a%a%'",
        "SELECT COUNT(*) FROM visits WHERE LENGTH(repeat(city, 1000000000)) > 1",
        "SELECT COUNT(*) FROM visits WHERE LENGTH(lpad(city, 1000000000, 'x')) > 1",
        "SELECT COUNT(*) FROM visits WHERE LENGTH(REPLACE(city, 'a', 'aaaaaaaaaa')) > 1",
        "SELECT COUNT(*) FROM visits, range(1000000000)",
        "SELECT COUNT(*) FROM visits, generate_series(1, 1000000000)",
        "SELECT SUM(income) FROM visits",
        "SELECT SUM(1 / cost) FROM visits",
        "SELECT SUM(EXP(income)) FROM visits",
        "SELECT MAX(income) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE md5(city) LIKE '0%'",
        "SELECT COUNT(*) FROM visits WHERE age::INTEGER[] IS NULL",
        "SELECT COUNT(*) FROM visits WHERE [age][1] = 1",
        "SELECT COUNT(*) FROM visits WHERE list_transform([age], x -> x)[1] = 1",
        "SELECT COUNT(*) FROM visits WHERE {'a': age}.a = 1",
        "SELECT COUNT(*) FROM visits WHERE age << 3 > 1",
        "SELECT COUNT(*) FROM visits WHERE age / 2 // 3 > 1",
        "SELECT COUNT(*) FROM visits WHERE city COLLATE nocase = 'x'",
        "SELECT COUNT(*) FROM visits WHERE at AT TIME ZONE 'UTC' > '2020-01-01'",
        "SELECT COUNT(*) FROM visits LIMIT (SELECT COUNT(*) FROM visits)",
        "SELECT COUNT(*) FROM visits LIMIT 10 PERCENT",
    ],
}
ATTEMPTS = [attempt for attempts in ESCAPES.values() for attempt in attempts]


def test_there_are_enough_attempts():
    assert len(set(ATTEMPTS)) >= 150


@pytest.mark.parametrize("text", ATTEMPTS)
def test_refused_with_a_reason(text, schema):
    with pytest.raises(QuestionError) as caught:
        parse(text, schema)
    message = str(caught.value)
    assert len(message) > 20
    assert "Traceback" not in message
    assert caught.value.code in {"question", "unbounded"}
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "SELECT COUNT(*) FROM visits WHERE " + "(" * n + "TRUE" + ")" * n,
        lambda n: "SELECT COUNT(*) FROM visits WHERE " + "NOT " * n + "TRUE",
        lambda n: "SELECT SUM(" + "-" * n + "age) FROM visits",
        lambda n: "SELECT SUM(" + "- " * n + "age) FROM visits",
        lambda n: "SELECT SUM(" + "ABS(" * n + "age" + ")" * n + ") FROM visits",
        lambda n: "SELECT SUM(" + "age + " * n + "1) FROM visits",
        lambda n: "SELECT COUNT(*) FROM visits WHERE " + "age > 1 AND " * n + "TRUE",
        lambda n: "SELECT COUNT(*) FROM visits WHERE " + "age > 1 OR " * n + "TRUE",
        lambda n: "SELECT SUM(" + "CASE WHEN age > 1 THEN " * n + "1" + " END" * n + ") FROM visits",
        lambda n: "SELECT COUNT(*) FROM " + "(SELECT age FROM " * n + "visits" + ") t" * n,
        lambda n: "SELECT COUNT(*) FROM visits" + " JOIN visits" * n,
        lambda n: "SELECT COUNT(*) FROM (" + " UNION ALL ".join(["SELECT age FROM visits"] * n) + ") t",
        lambda n: "SELECT " + ", ".join(["COUNT(*)"] * n) + " FROM visits",
        lambda n: "SELECT SUM(age" + "::INTEGER" * n + ") FROM visits",
        lambda n: "SELECT COUNT(*) FROM visits WHERE city = '" + "x" * n,
        lambda n: "SELECT " + "[" * n,
        lambda n: "SELECT COUNT(*) /*" + "/*" * n,
        lambda n: "(" * n,
        lambda n: "SELECT CAST(" * n,
        lambda n: "SELECT COUNT(*) FROM visits WHERE age IN (" + ", ".join(map(str, range(n))) + ")",
        lambda n: (
            "WITH a0 AS (SELECT age FROM visits)"
            + "".join(f", a{i} AS (SELECT age FROM a{i - 1} UNION ALL SELECT age FROM a{i - 1})" for i in range(1, n))
            + f" SELECT COUNT(*) FROM a{n - 1}"
        ),
        lambda n: (
            "WITH a0 AS (SELECT city AS c FROM visits)"
            + "".join(f", a{i} AS (SELECT c || c AS c FROM a{i - 1})" for i in range(1, n))
            + f" SELECT COUNT(DISTINCT c) FROM a{n - 1}"
        ),
        lambda n: (
            "WITH a0 AS (SELECT CAST(age AS VARCHAR) AS c FROM visits)"
            + "".join(f", a{i} AS (SELECT c || c AS c FROM a{i - 1})" for i in range(1, n))
            + f" SELECT COUNT(DISTINCT c) FROM a{n - 1}"
        ),
        lambda n: (
            "WITH a0 AS (SELECT cost * 1e-300 AS c, 3 * age AS i FROM visits)"
            + "".join(f", a{i} AS (SELECT c * c AS c, POWER(i, 4) * i AS i FROM a{i - 1})" for i in range(1, n))
            + f" SELECT SUM(CLIP(c, 0, 1)), SUM(CLIP(i, 0, 1)) FROM a{n - 1}"
        ),
        lambda n: (
            "WITH a0 AS (SELECT income AS c FROM visits)"
            + "".join(f", a{i} AS (SELECT POWER(ROUND(c, 2), 4) AS c FROM a{i - 1})" for i in range(1, n))
            + f" SELECT SUM(CLIP(c, 0, 1)) FROM a{n - 1}"
        ),
        lambda n: (
            "SELECT age, COUNT(*)"
            + "".join(f" + COALESCE(age + {i}, " + "1, " * 40 + "2)" for i in range(min(n, 90)))
            + " FROM visits GROUP BY age"
        ),
        lambda n: (
            "WITH a0 AS (SELECT COUNT(*) AS c FROM visits)"
            + "".join(f", a{i} AS (SELECT (SELECT c FROM a{i - 1}) + c AS c FROM a{i - 1})" for i in range(1, n))
            + f" SELECT c FROM a{n - 1}"
        ),
        lambda n: "SELECT SUM(" + "1e300 * " * n + "age) FROM visits",
        lambda n: "SELECT SUM(" + "POWER(" * n + "age" + ", 64)" * n + ") FROM visits",
        lambda n: "SELECT SUM(age * 1" + "0" * n + ") FROM visits",
    ],
)
@pytest.mark.parametrize("size", [30, 300, 5000])
def test_size_ends_in_a_question_or_a_refusal(make, size, schema):
    """Each takes a second at most; work that grew with the power of its size would never end here."""
    with contextlib.suppress(QuestionError):
        parse(make(size), schema)


@pytest.mark.parametrize("start", ["city", "CAST(age AS VARCHAR)", "'x'", "CASE WHEN smoker THEN 'x' ELSE city END"])
def test_text_cannot_grow_without_end(start, schema):
    parts = "".join(f", a{i} AS (SELECT c || c AS c FROM a{i - 1})" for i in range(1, 80))
    question = parse(f"WITH a0 AS (SELECT {start} AS c FROM visits){parts} SELECT COUNT(DISTINCT c) FROM a79", schema)
    (text,) = question.aggregates[0].arguments  # an engine cuts it at every step, and the price of a row is bounded
    assert text.type.values is None


def test_limits_are_named(schema):
    with pytest.raises(QuestionError, match="limit is"):
        parse("SELECT COUNT(*) FROM visits -- " + "x" * MAX_LENGTH, schema)
    with pytest.raises(QuestionError, match="nested more than"):
        parse("SELECT COUNT(*) FROM visits WHERE " + "(" * 500 + "TRUE" + ")" * 500, schema)


@pytest.mark.parametrize("value", ["x' OR '1'='1", "'; DROP TABLE visits; --", "%", "\\", '"', "\u202e"])
def test_values_never_become_text(value, schema):
    question = parse("SELECT COUNT(*) FROM visits WHERE city = ?", schema, [value])
    assert question.relation.condition.arguments[1].value == value
    assert question == parse("SELECT COUNT(*) FROM visits WHERE city = $c", schema, {"c": value})


FINE = [
    "SELECT disease, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM visits GROUP BY ROLLUP (disease)",
    "WITH a AS (SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1) SELECT SUM(n) FROM a JOIN a AS b USING (disease)",
    "SELECT n, SUM(n) OVER (PARTITION BY d ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT disease, COUNT(*) FROM visits GROUP BY disease UNION ALL SELECT 'x', COUNT(*) FROM visits ORDER BY 2",
    "SELECT disease, COUNT(*) AS n, AVG(cost) FROM visits WHERE age BETWEEN 18 AND 65 GROUP BY disease HAVING n > 3",
    "SELECT sex, MEDIAN(cost) FROM visits v JOIN patients p ON v.patient_id = p.patient_id GROUP BY 1 ORDER BY 2 DESC",
    "WITH t AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) SELECT AVG(CLIP(n, 0, 9)) FROM t",
    "SELECT CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END AS g, SUM(cost * quantity) FROM visits GROUP BY 1 LIMIT 5",
    "SELECT COUNT(*) FILTER (WHERE smoker) / COUNT(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits) t",
    "SELECT r.name, QUANTILE(age, 0.9) FROM visits LEFT JOIN regions r USING (region_id) GROUP BY r.name",
]
WORDS = sorted({word for text in FINE + ATTEMPTS for word in re.findall(r"\w+|'[^']*'|[^\w\s]", text)})


def assert_question_or_refused(text, schema, parameters=()):
    """Assert that a text is a question or refused."""
    try:
        found = parse(text, schema, parameters)
    except HushError as error:
        inner, message = error.__cause__, str(error)
        found = None
    if found is None:
        assert inner is None or "not SQL" in message  # nothing failed inside
        return
    assert isinstance(found, Question | Composed)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=80))
def test_any_text(text):
    assert_question_or_refused(text, SCHEMA)
    assert_question_or_refused("SELECT COUNT(*) FROM visits WHERE " + text, SCHEMA)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_any_words(text):
    assert_question_or_refused("SELECT " + text, SCHEMA)
    assert_question_or_refused("SELECT COUNT(*) FROM visits WHERE " + text, SCHEMA)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(FINE + ATTEMPTS), st.data())
def test_mutated_questions(text, data):
    tokens = re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", text)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(tokens) - 1))
        word = data.draw(st.sampled_from(WORDS))
        how = data.draw(st.sampled_from(["drop", "double", "replace", "insert", "swap"]))
        if how == "drop" and len(tokens) > 1:
            del tokens[place]
        elif how == "double":
            tokens.insert(place, tokens[place])
        elif how == "replace":
            tokens[place] = f" {word} "
        elif how == "insert":
            tokens.insert(place, f" {word} ")
        else:
            other = data.draw(st.integers(0, len(tokens) - 1))
            tokens[place], tokens[other] = tokens[other], tokens[place]
    assert_question_or_refused("".join(tokens), SCHEMA)


def test_every_class_sqlglot_has_is_read_or_refused(schema):
    """Put each node class of the parser where an expression or a source is expected; few are read."""
    from sqlglot import exp

    from hush.query.sql import resolve

    classes = [c for c in vars(exp).values() if isinstance(c, type) and issubclass(c, exp.Expression)]
    assert len(classes) > 800
    read = set()
    for node_class in classes:
        for filler in (exp.column("smoker"), exp.column("age")):
            for names in (node_class.arg_types, [name for name, needed in node_class.arg_types.items() if needed]):
                made = node_class(**{name: filler.copy() for name in names})
                for place in ("where", "argument", "from_"):
                    tree = sqlglot.parse_one("SELECT COUNT(age) FROM visits WHERE age = 1", dialect="duckdb")
                    holder = tree.expressions[0] if place == "argument" else tree.args[place]
                    holder.set("this", made.copy())
                    try:
                        resolve(tree, schema)
                    except HushError:
                        continue
                    read.add(node_class.__name__)
    assert read <= READ, read - READ


READ = {
    "Atanh",
    "Pi",
    "Trunc",
    "Abs",
    "Add",
    "And",
    "Between",
    "Boolean",
    "Case",
    "Ceil",
    "Coalesce",
    "Column",
    "Concat",
    "Contains",
    "DPipe",
    "Distinct",
    "Div",
    "EQ",
    "Exp",
    "Floor",
    "GT",
    "GTE",
    "Greatest",
    "ILike",
    "If",
    "IntDiv",
    "Is",
    "LT",
    "LTE",
    "Least",
    "Length",
    "Like",
    "Literal",
    "Ln",
    "Log",
    "Lower",
    "Mod",
    "Mul",
    "NEQ",
    "Neg",
    "Not",
    "Null",
    "NullSafeEQ",
    "NullSafeNEQ",
    "Nullif",
    "Or",
    "Paren",
    "Pow",
    "Replace",
    "Round",
    "Sign",
    "Sqrt",
    "Star",
    "StartsWith",
    "Sub",
    "Subquery",
    "Substring",
    "Table",
    "Trim",
    "Upper",
}
"""Conditions, arithmetic, functions, what COUNT takes, and sources."""
