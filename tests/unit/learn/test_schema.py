"""Rows as codes: public levels, and no value that could fail."""

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hush.core import InvalidValueError
from hush.learn.schema import CELLS, Column, Schema, numbers


def test_whole_bounds_get_a_grid_that_hits_every_whole_number():
    for lower, upper in ((0, 99), (1, 16), (-5, 500)):
        column = Column.parse("x", (lower, upper))
        whole = np.arange(lower, upper + 1)
        assert np.allclose(column.points[column.codes(whole)], whole)
    assert Column.parse("x", (0, 1)).levels == CELLS + 1


def test_values_beyond_a_bound_count_as_the_bound_and_no_number_counts_as_missing():
    column = Column.parse("x", (0, 10))
    hostile = [-np.inf, -1e308, -1, 10.4, 1e308, np.inf, np.nan, None, "7", "seven", [], 10**400, decimal.Decimal(3)]
    last, missing = column.levels - 1, column.levels
    step = column.steps // 10
    expected = [0, 0, 0, last, last, last, missing, missing, 7 * step, missing, missing, last, 3 * step]
    assert column.codes(hostile).tolist() == expected


def test_unknown_categories_are_missing_whatever_they_are():
    column = Column.parse("x", ["a", "b"])
    assert column.codes(["b", "c", None, 3, float("nan"), [], {}, "a"]).tolist() == [1, 2, 2, 2, 2, 2, 2, 0]
    numeric = Column.parse("x", [3, 1, 2])
    assert numeric.codes(np.array([1.0, 2.0, 3.0, 2.5, np.nan, 999.0])).tolist() == [1, 2, 0, 3, 3, 3]


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table, lambda d: np.array(list(d.values()), dtype=object).T])
def test_tables_of_every_kind_give_the_same_codes(kind):
    data = {"age": [3, 50, 99], "sex": ["f", "m", "f"]}
    schema = Schema.parse({"age": (0, 99), "sex": ["m", "f"]})
    assert [codes.tolist() for codes in schema.codes(kind(data))] == [[3, 50, 99], [1, 0, 1]]


@pytest.mark.parametrize(
    "wrong", [{}, None, {"x": 3}, {"x": (1, 1)}, {"x": (0, float("inf"))}, {"x": []}, {"x": ["a", "a"]}, {"x": "ab"}]
)
def test_a_schema_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidValueError):
        Schema.parse(wrong)


def test_a_table_without_a_column_is_refused_by_name():
    schema = Schema.parse({"age": (0, 99), "sex": ["m", "f"]})
    with pytest.raises(InvalidValueError, match="sex"):
        schema.codes({"age": [1]})
    with pytest.raises(InvalidValueError, match="2 columns"):
        schema.codes(np.zeros((3, 5)))


def test_dates_are_no_numbers_and_schemas_survive_json():
    assert np.isnan(numbers(np.array(["2020-01-01"], dtype="datetime64[D]"))).all()
    schema = Schema.parse({"age": (0, 99), "sex": ["m", "f"], "rate": (0.5, 2)})
    assert Schema.from_json(schema.to_json()) == schema
