"""Aggregates and functions that stand for others are the very same question."""

from __future__ import annotations

import pytest

from hush.query.errors import QuestionError, UnboundedError
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
