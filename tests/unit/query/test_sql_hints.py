"""What somebody who knows SQL tries first, and the way out that each refusal names."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.sql import parse
from hush.query.sql.text import read_query

WAYS_OUT = {
    'SELECT "Flu", COUNT(*) FROM visits': "A text is written in single quotes",
    'SELECT COUNT(*) FROM visits WHERE "costs" > 3': "Did you mean 'cost'?",
    "SELECT disease, COUNT(*) FROM visits": "Add GROUP BY disease and COUNT(*), or aggregate it, as in COUNT(",
    "SELECT age, COUNT(*) FROM visits": "as in AVG(age)",
    "SELECT disease, age, COUNT(*) FROM visits GROUP BY 1": "Add it to GROUP BY, or aggregate it, as in AVG(age)",
    "SELECT TOP 5 PERCENT disease, COUNT(*) FROM visits GROUP BY disease": "LIMIT 10",
    "SELECT disease, COUNT(*) FROM visits GROUP BY disease FETCH FIRST 5 ROWS WITH TIES": "LIMIT 10",
    "SELECT disease, ROW_NUMBER() OVER (ORDER BY age) FROM visits": "Over rows it stands in a subquery",
    "SELECT disease, SUM(n) AS m FROM (SELECT disease, city, COUNT(*) AS n FROM visits GROUP BY 1, 2) AS t "
    "GROUP BY disease HAVING RANK() OVER (ORDER BY SUM(n)) = 1": "Write QUALIFY in place of HAVING.",
    "SELECT COUNT(*) FROM archive.visits": "Write visits, or clinic.visits",
    "SELECT COUNT(*) FROM visits WHERE day > CURRENT_DATE": "such as DATE '2024-12-31'",
    "SELECT COUNT(*) FROM visits WHERE at > now()": "such as DATE '2024-12-31'",
    "SELECT weekday(day), COUNT(*) FROM visits GROUP BY 1": "Use DAYOFWEEK(d)",
    "SELECT AVERAGE(cost) FROM visits": "Use AVG(x).",
    "SELECT date_format(day, '%Y'), COUNT(*) FROM visits GROUP BY 1": "Use STRFTIME(d, '%Y-%m').",
    "SELECT yearweek(day), COUNT(*) FROM visits GROUP BY 1": "Use CAST(STRFTIME(d, '%G%V') AS INTEGER)",
    "SELECT COVAR(cost, age) FROM visits": "Use COVAR_SAMP(x, y)",
    "SELECT COUNT(disease, age) FROM visits": "COUNT(DISTINCT (a, b))",
    "SELECT 1 + QUANTILE(cost, [0.25, 0.5]) FROM visits": "Write QUANTILE(x, 0.25), QUANTILE(x, 0.75).",
    "SELECT COUNT(*) FROM visits WHERE age > '30'": "Write 30 without quotes.",
    "SELECT COUNT(*) FROM visits WHERE age IN ('3.5')": "Write 3.5 without quotes.",
    "SELECT COUNT(*) FROM visits WHERE age > 'thirty'": "Cast one of them",
    "SELECT COUNT(*) FROM visits WHERE disease = 5": "Cast one of them",
    "SELECT COUNT(*) FROM visits WHERE age NOT BETWEEN SYMMETRIC 50 AND 20": (
        "BETWEEN SYMMETRIC is not supported. Write BETWEEN LEAST(50, 20) AND GREATEST(50, 20)."
    ),
    "SELECT COUNT(*) FROM visits WHERE TRIM(BOTH 'x' FROM disease) = 'a'": (
        "Only blanks can be trimmed; got TRIM(disease, 'x'). Where the characters stand at the ends alone, "
        "REPLACE(x, 'a', '') is the same."
    ),
    "SELECT COUNT(*) FROM visits WHERE RTRIM(disease, 'u') = 'a'": "REPLACE(x, 'a', '') is the same",
    "SELECT SUM(city) FROM visits": (
        "city is text. If its texts are numbers, write CLIP(CAST(city AS INTEGER), lower, upper)"
    ),
    "SELECT AVG(LOWER(city)) FROM visits": "CLIP(CAST(LOWER(city) AS INTEGER), lower, upper)",
    "SELECT MEDIAN(city) FROM visits": "city is text. If its texts are numbers",
    "SELECT MAX(city) FROM visits": "declare its type, in the policy or as types= of hush.protect.",
    "SELECT SUM(CAST(city AS INTEGER)) FROM visits": "Write CLIP(CAST(city AS INT), lower, upper) with",
    "SELECT AVG(day) FROM visits": "Use MEDIAN(x), MIN(x) or MAX(x), or count days",
    "SELECT MAX(at) FROM visits": "without limit. Add WHERE … BETWEEN lower AND upper",
    "SELECT VARIANCE(DISTINCT age) FROM visits": "Leave DISTINCT out",
    "SELECT SUM(CLIP(income, 5, 1)) FROM visits": "got 5 and 1. Write the lower one first.",
    "SELECT SUM(CLIP(income, age, 1)) FROM visits": "Write the number itself",
    "SELECT COUNT(*) FROM visits GROUP BY BIN(age, 5, 5, 2)": "Write for instance BIN(x, 0, 100, 20).",
    "EXPLAIN SELECT COUNT(*) FROM visits": "hush explain",
    "SHOW TABLES": "curator.tables()",
}


@pytest.mark.parametrize("text", WAYS_OUT)
def test_a_refusal_names_the_way_out(text, schema):
    with pytest.raises(QuestionError, match=re.escape(WAYS_OUT[text])):
        parse(text, schema)


def test_a_column_may_be_called_top(schema):
    """Only TOP with a number behind it is another database's LIMIT."""
    assert parse("SELECT top, COUNT(*) FROM (SELECT age AS top FROM visits) AS t GROUP BY top", schema).keys
    assert parse('SELECT "top" + 5 AS x, COUNT(*) FROM (SELECT age AS top FROM visits) AS t GROUP BY 1', schema).keys


def test_a_result_of_a_columns_name_is_the_column(schema):
    with pytest.raises(QuestionError, match="outside an aggregate"):
        parse("SELECT AVG(cost) AS cost, cost + 1 AS more FROM visits", schema)


@pytest.mark.parametrize("expression", ["age / 0", "age % 0", "age // 0.0", "1 / (0)"])
def test_what_divides_by_zero_is_refused(expression, schema):
    with pytest.raises(QuestionError, match="divides by zero: it is always NULL"):
        parse(f"SELECT SUM({expression}) FROM visits", schema)


def test_a_name_that_sql_reads_as_a_difference_is_shown_in_double_quotes(schema):
    visits = schema.tables["visits"]
    named = replace(visits, columns={**visits.columns, "education-num": visits.columns["age"]})
    people = replace(schema, tables={**schema.tables, "visits": named})
    with pytest.raises(QuestionError, match='in double quotes: "education-num"'):
        parse("SELECT AVG(education-num) FROM visits", people)


def test_a_function_of_a_windows_column_is_refused_with_the_way_out(schema):
    text = (
        "SELECT disease, UPPER(LAG(disease) OVER (ORDER BY disease)) AS p, COUNT(*) AS n FROM visits GROUP BY disease"
    )
    with pytest.raises(QuestionError, match=r"A function of texts .* Compute it in the inner question"):
        parse(text, schema)


def test_an_aggregate_with_a_filter_is_told_to_clip_its_argument(schema):
    with pytest.raises(QuestionError, match=re.escape("CLIP(income * 2, lower, upper)")):
        parse("SELECT SUM(income * 2) FILTER (WHERE age > 3) FROM visits", schema)


def test_a_hint_names_a_unit_that_has_no_name(schema):
    visits = replace(schema.tables["visits"], unit=None)
    other = replace(visits, name="other")
    poll = replace(schema, tables={"visits": visits, "other": other}, unit=None)
    with pytest.raises(QuestionError, match=r"inner\.unit = outer\.unit"):
        parse(
            "SELECT COUNT(*) FROM visits WHERE age > (SELECT MAX(o.age) FROM other AS o WHERE o.age = visits.age)", poll
        )


def test_parameters_are_numbered_in_one_pass():
    began = time.process_time()
    tree = read_query(f"SELECT COUNT(*) FROM visits WHERE age IN ({', '.join('?' * 4800)})")
    assert time.process_time() - began < 0.7  # 1.6 s where every number counted those before it
    assert [node.name for node in tree.find(exp.In).expressions] == [str(number) for number in range(1, 4801)]
