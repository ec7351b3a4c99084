"""Rows as codes: public levels, and no value that could fail."""

import datetime as dt
import decimal
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hush.core import InvalidValueError
from hush.learn.schema import CELLS, ModelColumn, ModelSchema


def test_whole_bounds_get_a_grid_that_hits_every_whole_number():
    for lower, upper in ((0, 99), (1, 16), (-5, 500)):
        column = ModelColumn.parse("x", (lower, upper))
        whole = np.arange(lower, upper + 1)
        assert np.allclose(column.points[column.codes(whole)], whole)
    assert ModelColumn.parse("x", (0, 1)).levels == CELLS + 1


def test_values_beyond_a_bound_count_as_the_bound_and_no_number_counts_as_missing():
    column = ModelColumn.parse("x", (0, 10))
    hostile = [-np.inf, -1e308, -1, 10.4, 1e308, np.inf, np.nan, None, "7", "seven", [], 10**400, decimal.Decimal(3)]
    last, missing = column.levels - 1, column.levels
    step = column.steps // 10
    expected = [0, 0, 0, last, last, last, missing, missing, 7 * step, missing, missing, last, 3 * step]
    assert column.codes(hostile).tolist() == expected


def test_unknown_categories_are_missing_whatever_they_are():
    column = ModelColumn.parse("x", ["a", "b"])
    assert column.codes(["b", "c", None, 3, float("nan"), [], {}, "a"]).tolist() == [1, 2, 2, 2, 2, 2, 2, 0]
    numeric = ModelColumn.parse("x", [3, 1, 2])
    assert numeric.codes(np.array([1.0, 2.0, 3.0, 2.5, np.nan, 999.0])).tolist() == [1, 2, 0, 3, 3, 3]


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pa.table, lambda d: np.array(list(d.values()), dtype=object).T])
def test_tables_of_every_kind_give_the_same_codes(kind):
    data = {"age": [3, 50, 99], "sex": ["f", "m", "f"]}
    schema = ModelSchema.parse({"age": (0, 99), "sex": ["m", "f"]})
    assert [codes.tolist() for codes in schema.codes(kind(data))] == [[3, 50, 99], [1, 0, 1]]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        None,
        {"x": 3},
        {"x": (1, 1)},
        {"x": (0, float("inf"))},
        {"x": []},
        {"x": ["a", "a"]},
        {"x": "ab"},
        {"x": [[1]]},
        {"x": [np.nan]},
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidValueError):
        ModelSchema.parse(wrong)


def test_a_table_without_a_column_is_refused_by_name():
    schema = ModelSchema.parse({"age": (0, 99), "sex": ["m", "f"]})
    with pytest.raises(InvalidValueError, match="sex"):
        schema.codes({"age": [1]})
    with pytest.raises(InvalidValueError, match="2 columns"):
        schema.codes(np.zeros((3, 5)))
    with pytest.raises(InvalidValueError, match="different lengths"):
        schema.codes({"age": [1, 2], "sex": ["m"]})
    hidden = np.ma.array([3, 4], mask=[False, True])
    assert schema.codes({"age": hidden, "sex": ["m", "f"]})[0].tolist() == [3, 100]


@pytest.mark.parametrize("declared", [[0, 1], [False, True], [0.0, 1.0], [Fraction(0), decimal.Decimal(1)]])
@pytest.mark.parametrize(
    "values",
    [
        [1, 1.0, True, decimal.Decimal("1.0"), Fraction(1), np.float32(1), np.int8(1), np.True_, "1", " 1.0"],
        *(np.ones(2, dtype=kind) for kind in ("i1", "u8", "f2", "f4", "f8", "?", "O", "U1")),
        pd.array([1, 1], dtype="Int64"),
        pa.array([1, 1]),
        pa.chunked_array([pa.array([decimal.Decimal("1.00")])]),
    ],
    ids=lambda values: str(getattr(values, "dtype", getattr(values, "type", "list"))),
)
def test_one_number_is_one_value_whatever_type_holds_it(declared, values):
    assert set(ModelColumn.parse("x", declared).codes(values).tolist()) == {1}


def test_decimals_are_found_as_every_type_writes_them():
    tenths = [Fraction(tenth, 10) for tenth in range(10)]
    column = ModelColumn.parse("x", tenths)
    for kind in (float, np.float32, decimal.Decimal):
        assert column.codes([kind(str(float(tenth))) for tenth in tenths]).tolist() == list(range(10))
    for kind in ("f4", "f8"):
        assert column.codes(np.array([float(tenth) for tenth in tenths], dtype=kind)).tolist() == list(range(10))
    assert column.codes(np.array([0, 1, -1])).tolist() == [0, 10, 10]
    large = ModelColumn.parse("x", [2**60, 2**60 + 1])
    assert large.codes(np.array([2**60 + 1, 2**60 + 2])).tolist() == [1, 2]


def test_texts_that_a_policy_lists_are_found_where_a_reader_made_numbers_of_them():
    assert ModelColumn.parse("x", ["1", "2"]).codes(np.array([1.0, 2.0, 2.5])).tolist() == [0, 1, 2]
    assert ModelColumn.parse("x", [1, "1"]).codes(["1", 1]).tolist() == [1, 0]


def test_dates_are_found_in_bounds_and_lists():
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 3)]
    forms = (
        [*days, None],
        np.array([*days, "NaT"], dtype="datetime64[D]"),
        pd.to_datetime(pd.Series([*days, None])),
        [str(day) for day in days] + ["soon"],
        pa.array([*days, None]),
    )
    listed, line = ModelColumn.parse("x", days), ModelColumn.parse("x", (dt.date(2026, 1, 1), dt.date(2026, 1, 5)))
    time = ModelColumn.parse("x", (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 5)))
    for values in forms:
        assert listed.codes(values).tolist() == [0, 1, 2]
        assert line.codes(values).tolist() == [0, line.steps // 2, line.levels]
        assert time.codes(values).tolist() == [0, time.steps // 2, time.levels]
    assert np.isnan(ModelColumn.parse("x", (0, 1)).numbers(forms[1])).all()


def test_schemas_survive_json():
    days = (dt.date(2026, 1, 1), dt.date(2026, 1, 5))
    schema = ModelSchema.parse(
        {"age": (0, 99), "sex": ["m", "f"], "rate": (Fraction(1, 2), 2), "day": days, "k": [days[0]]}
    )
    assert ModelSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
