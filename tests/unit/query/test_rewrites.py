"""Aggregates and functions that stand for others are the very same question."""

from __future__ import annotations

import pytest

from hush.query.errors import QuestionError, UnboundedError
from hush.query.functions.dates import WEEKDAYS
from hush.query.plan.estimators import compile_aggregates
from hush.query.plan.stability import Total
from hush.query.sql import parse

AGGREGATES = {
    "COUNT_STAR()": "COUNT(*)",
    "COUNT_IF(smoker)": "COUNT(*) FILTER (WHERE smoker)",
    "BOOL_OR(smoker)": "COUNT_IF(smoker) > 0",
    "BOOL_AND(age > 3)": "COUNT_IF(NOT age > 3) <= 0",
    "MEDIAN(cost)": "QUANTILE(cost, 0.5)",
    "STDDEV(cost)": "SQRT(VARIANCE(cost))",
    "STDDEV_SAMP(cost)": "SQRT(VAR_SAMP(cost))",
    "STDDEV_POP(cost)": "SQRT(VAR_POP(cost))",
    "STD(cost)": "STDDEV(cost)",
    "STDEV(cost)": "STDDEV(cost)",
    "VAR(cost)": "VARIANCE(cost)",
    "MEAN(cost)": "AVG(cost)",
    "AVG(smoker)": "AVG(CAST(smoker AS INTEGER))",
    "APPROX_COUNT_DISTINCT(city)": "COUNT(DISTINCT city)",
    "APPROX_COUNT_DISTINCT(patient_id)": "COUNT(DISTINCT patient_id)",
    "COUNT(DISTINCT disease, age)": "COUNT(DISTINCT (disease, age))",
    "COUNT(DISTINCT CASE WHEN smoker THEN patient_id END)": "COUNT(DISTINCT patient_id) FILTER (WHERE smoker)",
    "COUNT(DISTINCT IF(smoker, patient_id, NULL))": "COUNT(DISTINCT CASE WHEN smoker THEN patient_id ELSE NULL END)",
    "COUNT(CASE WHEN smoker THEN patient_id END)": "COUNT_IF(smoker)",
    "REGR_COUNT(cost, age)": "COUNT(*) FILTER (WHERE cost IS NOT NULL AND age IS NOT NULL)",
    "REGR_AVGX(cost, age)": "AVG(age) FILTER (WHERE cost IS NOT NULL)",
    "REGR_SLOPE(cost, age)": "COVAR_POP(cost, age) / VAR_POP(age) FILTER (WHERE cost IS NOT NULL)",
    "REGR_INTERCEPT(cost, age)": "REGR_AVGY(cost, age) - REGR_SLOPE(cost, age) * REGR_AVGX(cost, age)",
    "REGR_R2(cost, age)": "POWER(CORR(cost, age), 2)",
    "GEOMETRIC_MEAN(CLIP(cost, 1, 100))": "EXP(AVG(LN(CLIP(cost, 1, 100))))",
}


@pytest.mark.parametrize("written", AGGREGATES)
def test_an_aggregate_is_what_it_stands_for(written, schema):
    meant = AGGREGATES[written]
    assert parse(f"SELECT {written} AS a FROM visits", schema) == parse(f"SELECT {meant} AS a FROM visits", schema)


def test_a_filter_goes_to_every_aggregate(schema):
    written = "GEOMETRIC_MEAN(CLIP(cost, 1, 9)) FILTER (WHERE age > 5)"
    meant = "EXP(AVG(LN(CLIP(cost, 1, 9))) FILTER (WHERE age > 5))"
    assert parse(f"SELECT {written} AS a FROM visits", schema) == parse(f"SELECT {meant} AS a FROM visits", schema)
    counted, both = (
        parse(f"SELECT {text} AS a FROM visits", schema)
        for text in (
            "COUNT_IF(smoker) FILTER (WHERE age > 5)",
            "COUNT(*) FILTER (WHERE age > 5 AND smoker)",
        )
    )
    assert counted == both


FUNCTIONS = {
    "PI()": "CAST(3.141592653589793 AS DOUBLE)",
    "ISODOW(day)": "(DAYOFWEEK(day) + 6) % 7 + 1",
    "DAYNAME(day)": "STRFTIME(day, '%A')",
    "MONTHNAME(at)": "STRFTIME(at, '%B')",
    "DOY(day)": "DAYOFYEAR(day)",
    "DATE(at)": "CAST(at AS DATE)",
    "INSTR(city, 'a')": "STRPOS(city, 'a')",
    "POSITION('a' IN city)": "STRPOS(city, 'a')",
    "SUFFIX(city, 'a')": "ENDS_WITH(city, 'a')",
    "TRY_STRPTIME(city, '%Y')": "STRPTIME(city, '%Y')",
    "EXTRACT(week FROM day)": "WEEK(day)",
    "DATE_PART('doy', day)": "DAYOFYEAR(day)",
}


@pytest.mark.parametrize("written", FUNCTIONS)
def test_a_function_is_what_it_stands_for(written, schema):
    text = "SELECT COUNT(*) AS n FROM visits WHERE {0} IS NULL OR {0} IS NOT NULL"
    assert parse(text.format(written), schema) == parse(text.format(FUNCTIONS[written]), schema)


CONDITIONS = {
    "(disease, age) = ('Flu', 3)": "COALESCE(disease = 'Flu' AND age = 3, FALSE)",
    "(disease, age) <> ('Flu', 3)": "NOT COALESCE(disease = 'Flu' AND age = 3, FALSE)",
    "(disease, age) IN (('Flu', 3), ('HIV', NULL))": (
        "COALESCE(disease = 'Flu' AND age = 3, FALSE) OR COALESCE(disease = 'HIV' AND age IS NULL, FALSE)"
    ),
    "(disease, age) NOT IN (('Flu', 3))": "NOT COALESCE(disease = 'Flu' AND age = 3, FALSE)",
    "DECODE(disease, 'Flu', 1, NULL, 2, 0) = 1": (
        "CASE WHEN disease IS NOT DISTINCT FROM 'Flu' THEN 1 WHEN disease IS NULL THEN 2 ELSE 0 END = 1"
    ),
}


@pytest.mark.parametrize("written", CONDITIONS)
def test_a_condition_is_what_it_stands_for(written, schema):
    text = "SELECT COUNT(*) AS n FROM visits WHERE {}"
    assert parse(text.format(written), schema) == parse(text.format(CONDITIONS[written]), schema)


def test_a_list_of_quantiles_is_several_results(schema):
    listed = parse("SELECT QUANTILE(cost, [0.25, 0.999]) AS q FROM visits", schema)
    apart = parse("SELECT QUANTILE(cost, 0.25) AS q_25, QUANTILE(cost, 0.999) AS q_99_9 FROM visits", schema)
    assert listed == apart
    with pytest.raises(QuestionError, match="a result by itself"):
        parse("SELECT QUANTILE(cost, [0.5]) + 1 FROM visits", schema)


@pytest.mark.parametrize(
    ("clamp", "ends"),
    [
        ("CASE WHEN income < 0 THEN 0 WHEN income > 100 THEN 100 ELSE income END", (0, 100)),
        ("CASE WHEN income < 0 OR 100 < income THEN 5 ELSE income END", (0, 100)),
        ("CASE WHEN NOT (income >= 0 AND income <= 100) THEN NULL ELSE income END", (0, 100)),
        ("CASE WHEN income < 0 AND smoker THEN 0 ELSE income END", (None, None)),
        ("CASE WHEN income < age THEN 0 ELSE income END", (None, None)),
        ("CASE WHEN income >= 0 THEN income ELSE NULL END", (0, None)),
    ],
)
def test_a_clamp_by_case_has_bounds(clamp, ends, schema):
    question = parse(f"SELECT COUNT({clamp}) AS n FROM visits", schema)
    (argument,) = question.aggregates[0].arguments
    assert (argument.type.lower, argument.type.upper) == ends


def test_aggregates_of_one_regression_share_their_statistics(schema):
    question = parse("SELECT REGR_SLOPE(cost, age), REGR_INTERCEPT(cost, age) FROM visits", schema)
    _, needs = compile_aggregates(question.aggregates, weighted=False)
    assert len({total.population for total in needs.statistics if isinstance(total, Total)}) == 1
    assert len(needs.statistics) == 4  # halves of age or cost, which count; the other sum; both products


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("DAYNAME(at)", set(WEEKDAYS)),
        ("STRFTIME(day, '%Y')", {"2020", "2021", "2022", "2023", "2024"}),
        ("STRFTIME(day, '%Y-%m-%d')", None),
        ("STRFTIME(at, '%H')", None),
        ("SPLIT_PART(disease, 'i', 1)", {"D", "Flu", "Hepat", "HIV"}),
    ],
)
def test_which_texts_there_can_be(expression, values, schema):
    ((_, key),) = parse(f"SELECT {expression} AS k, COUNT(*) FROM visits GROUP BY 1", schema).keys
    assert (None if key.type.values is None else set(key.type.values)) == values


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("STRFTIME(day, '%c')", "%c"),
        ("STRFTIME(day, '%')", "STRFTIME takes a format"),
        ("STRFTIME(day, city)", "constant text as its format"),
        ("STRPTIME(city, '%z')", "STRPTIME takes a format"),
        ("STRFTIME(city, '%Y')", "needs date or timestamp"),
        ("SPLIT_PART(city, '', 1)", "not empty"),
        ("SPLIT_PART(city, ',', 0)", "from 1 to 1000"),
        ("MAKE_DATE(cost, 1, 1)", "whole numbers"),
        ("WIDTH_BUCKET(age, 3, 3, 2)", "3 twice"),
        ("TRUNC(cost, 2)", "DECIMALS"),
    ],
)
def test_what_functions_refuse(expression, words, schema):
    with pytest.raises(QuestionError, match=words):
        parse(f"SELECT COUNT(*) FROM visits WHERE {expression} IS NULL", schema)


def test_a_rewritten_aggregate_works_within_a_unit(schema):
    inner = "SELECT patient_id, {} AS n FROM visits GROUP BY patient_id"
    outer = "SELECT AVG(CLIP(n, 0, 20)) AS a FROM ({}) AS t"
    written, meant = (
        parse(outer.format(inner.format(text)), schema)
        for text in ("COUNT_IF(smoker)", "COUNT(*) FILTER (WHERE smoker)")
    )
    assert written == meant


def test_refusals_show_what_was_written(schema):
    with pytest.raises(UnboundedError, match=r"GEOMETRIC_MEAN\(income\).*CLIP\(income, lower, upper\)"):
        parse("SELECT GEOMETRIC_MEAN(income) FROM visits", schema)
    with pytest.raises(QuestionError, match=r"cannot stand here: GEOMETRIC_MEAN\(cost\)"):
        parse("SELECT COUNT(*) FROM visits WHERE GEOMETRIC_MEAN(cost) > 3", schema)
    with pytest.raises(QuestionError, match="GEOMETRIC_MEAN takes 1 argument; got 2"):
        parse("SELECT GEOMETRIC_MEAN(cost, 2) FROM visits", schema)
    with pytest.raises(QuestionError, match="DISTINCT"):
        parse("SELECT GEOMETRIC_MEAN(DISTINCT cost) FROM visits", schema)
