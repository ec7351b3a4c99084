"""What a type promises is true of every row: ranges, steps, values and NULL, checked by evaluating."""

from __future__ import annotations

import datetime as dt
import math
import os
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import LAZY, STRICT, evaluate

from hush.query.errors import QuestionError
from hush.query.expressions import Column, Op, Released, columns_in, with_columns
from hush.query.functions import FUNCTIONS, call, constant
from hush.query.functions.dates import TIME_UNITS, UNITS
from hush.query.functions.numbers import NUMBERS as RECORDS_OF_NUMBERS
from hush.query.functions.record import as_array
from hush.query.refine import narrowed
from hush.query.released import evaluate as evaluate_by_numpy
from hush.query.sql import parse
from hush.query.types import Interval, Kind, Type, position, round_down, round_up

CASES = int(os.environ.get("HUSH_CASES", "150"))
DAYS = (dt.date(2019, 11, 3), dt.date(2021, 2, 27))
MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))


def _type(kind, *, nullable, lower=None, upper=None, step=None, values=None):
    ends = [None if end is None else Fraction(end) for end in (lower, upper, step)]
    return Type(kind, nullable, *ends, values)


COLUMNS = {
    "i": _type(Kind.INTEGER, nullable=False, lower=-3, upper=7, step=1),
    "n": _type(Kind.INTEGER, nullable=True, lower=0, upper=120, step=1),
    "big": _type(Kind.INTEGER, nullable=True, step=1),
    "d": _type(Kind.DECIMAL, nullable=False, lower="-1.1", upper="2.3", step="0.1"),
    "p": _type(Kind.DECIMAL, nullable=True, lower="0.01", upper=50),
    "free": _type(Kind.DECIMAL, nullable=True),
    "s": _type(Kind.TEXT, nullable=True, values=("Flu", " hiv ", "x")),
    "t": _type(Kind.TEXT, nullable=False),
    "b": _type(Kind.BOOLEAN, nullable=True, values=(False, True)),
    "day": _type(Kind.DATE, nullable=True, lower=position(DAYS[0]), upper=position(DAYS[1]), step=1),
    "at": _type(Kind.TIMESTAMP, nullable=False),
}


@st.composite
def rows(draw):
    def maybe(strategy, name):
        return draw(st.none() | strategy) if COLUMNS[name].nullable else draw(strategy)

    return {
        "i": float(draw(st.integers(-3, 7))),
        "n": maybe(st.integers(0, 120).map(float), "n"),
        "big": maybe(st.integers(-(2**62), 2**62).map(float), "big"),
        "d": draw(st.integers(-11, 23)) / 10,
        "p": maybe(st.floats(0.01, 50), "p"),
        "free": maybe(st.floats(allow_nan=False, allow_infinity=False), "free"),
        "s": maybe(st.sampled_from(("Flu", " hiv ", "x")), "s"),
        "t": draw(st.text(max_size=5)),
        "b": maybe(st.booleans(), "b"),
        "day": maybe(st.dates(*DAYS), "day"),
        "at": draw(MOMENTS),
    }


NUMBERS = st.sampled_from(["0", "1", "-1", "2", "10", "0.5", "0.1", "-2.5", "3", "100", "1e300", "1e-300"]).map(
    lambda text: constant(Fraction(text))
)
DIGITS = st.integers(-2, 3).map(lambda n: constant(Fraction(n)))
WIDTHS = st.integers(1, 5).map(lambda n: constant(Fraction(n)))
BASES = st.sampled_from(["2", "10", "1.5"]).map(lambda text: constant(Fraction(text)))
MONTHS = st.integers(-30, 30).map(lambda n: constant(Fraction(n)))
LOWS, HIGHS = (st.integers(*ends).map(lambda n: constant(Fraction(n))) for ends in ((-5, 5), (-4, 14)))
SIZES = st.integers(1, 3).map(lambda n: constant(Fraction(n)))
TEXTS = st.sampled_from(["x", "a", "Flu", "f%", "%l_", "", "3"]).map(constant)
REGULAR = st.sampled_from(["^F", "[a-f]l?u", "x{1,2}$", "(a|3)+"]).map(constant)
FORMATS = st.sampled_from(["%Y-%m", "%A", "%d.%m.", "%H:%M", "%j %B %G-%V", "%u%%"]).map(constant)
PARTS = (
    Op.YEAR, Op.QUARTER, Op.MONTH, Op.WEEK, Op.DAY, Op.DAY_OF_YEAR, Op.DAY_OF_WEEK, Op.HOUR, Op.MINUTE, Op.SECOND,
)  # fmt: skip
DATES = st.dates(*DAYS).map(constant)


def columns(*kinds):
    return st.sampled_from([Column(name, type_) for name, type_ in COLUMNS.items() if type_.kind in kinds])


TRIED: set[Op] = set()
"""The functions that have a strategy."""


def tried(op, *strategies):
    """Return calls of an op; what its rule refuses is not generated."""
    TRIED.add(op)

    def build(arguments):
        try:
            return call(op, *arguments)
        except QuestionError:
            return None

    return st.tuples(*strategies).map(build).filter(lambda found: found is not None)


PLACES = {
    Op.ROUND: lambda number: (number, DIGITS),
    Op.LOG: lambda number: (BASES, number),
    Op.POWER: lambda number: (number, NUMBERS | number),
    Op.CLIP: lambda number: (number, LOWS, HIGHS),
    Op.BIN: lambda number: (number, LOWS, HIGHS, SIZES),
    Op.WIDTH_BUCKET: lambda number: (number, LOWS, HIGHS, SIZES),
    Op.TO_FIXED: lambda number: (number, DIGITS, WIDTHS),
}
"""What stands at the places of functions that need constants; all others take numbers everywhere."""


def of_numbers(op, number):
    """Return calls of a function of numbers, with as many arguments as it takes, up to three unless it needs more."""
    least, most = FUNCTIONS[op].arity
    places = PLACES[op](number) if op in PLACES else (number,) * min(most, 3)
    return st.one_of(*(tried(op, *places[:many]) for many in range(least, len(places) + 1)))


def grow(number, text, boolean, date):
    numbers = [
        *(of_numbers(record.op, number) for record in RECORDS_OF_NUMBERS),
        tried(Op.CASE, boolean, number, boolean, number, number | st.just(constant(None))),
        tried(Op.COALESCE, number, number),
        tried(Op.NULL_IF, number, number),
        tried(Op.LENGTH, text),
        tried(Op.STRLEN, text),
        tried(Op.POSITION, text, TEXTS),
        *(tried(op, date) for op in PARTS),
        tried(Op.DATE_DIFF, st.sampled_from(sorted(UNITS)).map(constant), date, date),
        tried(Op.TO_INTEGER, text | boolean),
        tried(Op.TO_DECIMAL, text | boolean),
        tried(Op.TO_FIXED, text, DIGITS, WIDTHS),
    ]
    texts = [
        *(tried(op, text) for op in (Op.LOWER, Op.UPPER, Op.TRIM, Op.LTRIM, Op.RTRIM)),
        *(tried(op, text, SIZES) for op in (Op.LEFT, Op.RIGHT)),
        tried(Op.SUBSTRING, text, SIZES, SIZES),
        tried(Op.CONCAT, text, TEXTS, text),
        tried(Op.REPLACE, text, TEXTS, TEXTS),
        tried(Op.CASE, boolean, text, text),
        tried(Op.SPLIT_PART, text, TEXTS, SIZES),
        tried(Op.STRFTIME, date, FORMATS),
        tried(Op.COALESCE, text, text),
        tried(Op.TO_TEXT, boolean | date),
    ]
    orders = (Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL)
    booleans = [
        *(tried(op, number, number) for op in orders),
        *(tried(op, text, text) for op in (Op.EQUAL, Op.NOT_EQUAL, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS)),
        *(tried(op, date, date) for op in (Op.EQUAL, Op.LESS, Op.GREATER_EQUAL)),
        tried(Op.AND, boolean, boolean),
        tried(Op.OR, boolean, boolean),
        tried(Op.NOT, boolean),
        tried(Op.IS_NULL, number | text | boolean | date),
        tried(Op.IN, number, NUMBERS, NUMBERS),
        tried(Op.IN, text, TEXTS, TEXTS),
        tried(Op.LIKE, text, TEXTS),
        tried(Op.REGEXP_MATCHES, text, REGULAR, st.sampled_from(["", "i"]).map(constant)),
        tried(Op.LIKE, text, TEXTS, st.sampled_from("%l!").map(constant)),
        tried(Op.TO_BOOLEAN, text | boolean),
    ]
    units = st.sampled_from(["year", "quarter", "month", "week", "day"]).map(constant)
    dates = [
        tried(Op.TRUNCATE_DATE, units, date),
        tried(Op.TRUNCATE_TIME, st.sampled_from(sorted(TIME_UNITS)).map(constant), date),
        tried(Op.MAKE_DATE, number, number, number),
        tried(
            Op.STRPTIME, tried(Op.STRFTIME, date, st.just(constant("%Y-%m-%d"))) | text, st.just(constant("%Y-%m-%d"))
        ),
        tried(Op.TO_DATE, date),
        tried(Op.ADD_INTERVAL, date, MONTHS, MONTHS, st.integers(-(10**12), 10**12).map(Fraction).map(constant)),
        tried(Op.TO_TIMESTAMP, date),
        tried(Op.GREATEST, date, date),
        tried(Op.COALESCE, date, date),
    ]
    return tuple(
        old | st.one_of(new)
        for old, new in zip((number, text, boolean, date), (numbers, texts, booleans, dates), strict=True)
    )


LEAVES = (
    columns(Kind.INTEGER, Kind.DECIMAL) | NUMBERS,
    columns(Kind.TEXT) | TEXTS,
    columns(Kind.BOOLEAN) | st.booleans().map(constant),
    columns(Kind.DATE, Kind.TIMESTAMP) | DATES,
)
ONCE = grow(*LEAVES)
TWICE = grow(*ONCE)
EXPRESSIONS = st.one_of(TWICE)


def assert_within(value, type_):
    """Assert that a value is one the type allows."""
    if value is None:
        assert type_.nullable
        return
    if type_.kind.ranged:
        place = Fraction(value) if isinstance(value, float) else position(value)
        span = Interval.of(type_.lower, type_.upper)
        assert span.lower <= place <= span.upper
        if type_.kind is Kind.INTEGER:
            assert place.denominator == 1
        if type_.step is not None and abs(place) < 2**40:
            nearest = round(place / type_.step) * type_.step
            assert abs(place - nearest) <= max(1, abs(place)) * Fraction(1, 2**35)
    if type_.values is not None:
        assert any(
            value == listed or (isinstance(listed, Fraction) and math.isclose(value, listed)) for listed in type_.values
        )


@settings(max_examples=CASES, deadline=None)
@given(EXPRESSIONS, st.lists(rows(), min_size=1, max_size=6))
def test_no_row_leaves_the_type(expression, table):
    for row in table:
        assert_within(evaluate(expression, row), expression.type)


BORDERS = {
    "i": [-3.0, -1.0, 0.0, 1.0, 7.0],
    "n": [None, 0.0, 1.0, 59.0, 120.0],
    "big": [None, 0.0, -7.0, 2.0**40],
    "d": [-1.1, -0.5, 0.0, 0.1, 2.3],
    "p": [None, 0.01, 0.5, 1.5, 50.0],
    "free": [None, -2.5, 0.0, 0.5, 709.0, 1e100],
}
"""Numbers at the ends of ranges, and between them."""
_RNG = Random(20261119)
BORDER_ROWS = [{name: _RNG.choice(values) for name, values in BORDERS.items()} for _ in range(60)]


@pytest.mark.parametrize("record", RECORDS_OF_NUMBERS, ids=lambda record: record.op.name)
def test_a_function_of_numbers_keeps_its_type_and_numpy_agrees(record):
    @settings(max_examples=CASES, deadline=None)
    @given(of_numbers(record.op, LEAVES[0]))
    def check(expression):
        names = sorted(columns_in(expression))
        over = {name: Released("key", at, COLUMNS[name]) for at, name in enumerate(names)}
        keys = [as_array([row[name] for row in BORDER_ROWS], COLUMNS[name].kind) for name in names]
        arrays = np.broadcast_to(evaluate_by_numpy(with_columns(expression, over), keys, []), len(BORDER_ROWS))
        for row, by_numpy in zip(BORDER_ROWS, arrays.tolist(), strict=True):
            value = evaluate(expression, row)
            assert_within(value, expression.type)
            same = math.isnan(by_numpy) if value is None else math.isclose(value, by_numpy, rel_tol=1e-9, abs_tol=1e-12)
            assert same or record.by_engine, f"{expression} of {row}: {value} by the oracle, {by_numpy} by NumPy"

    check()


def test_every_function_has_a_strategy():
    assert set(Op) == TRIED, "add it to PLACES or to grow"


YEARS = tried(Op.YEAR, columns(Kind.DATE, Kind.TIMESTAMP))
THEN = st.integers(2018, 2023).map(Fraction).map(constant) | NUMBERS
OF_YEARS = st.one_of(
    *(tried(op, YEARS, THEN) | tried(op, THEN, YEARS) for op in (Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.GREATER_EQUAL)),
    tried(Op.IN, YEARS, THEN, THEN),
)
CONDITIONS = ONCE[2] | OF_YEARS


@settings(max_examples=CASES, deadline=None)
@given(
    CONDITIONS | grow(*LEAVES[:2], CONDITIONS, LEAVES[3])[2], st.lists(rows(), min_size=1, max_size=10), st.booleans()
)
def test_rows_that_pass_are_in_the_narrowed_types(condition, table, outcome):
    types = narrowed(COLUMNS, condition, outcome=outcome)
    for row in table:
        if evaluate(condition, row) is outcome:
            for name, type_ in types.items():
                assert_within(row[name], type_)


@pytest.mark.parametrize(
    ("condition", "first", "last"),
    [
        ("YEAR(day) = 2021", (2021, 1, 1), (2021, 12, 31)),
        ("2021 < YEAR(day)", (2022, 1, 1), (2024, 12, 31)),
        ("YEAR(day) < 2022.5 AND NOT YEAR(day) <> 2022", (2022, 1, 1), (2022, 12, 31)),
        ("YEAR(day) IN (2021, 2023)", (2021, 1, 1), (2023, 12, 31)),
        ("EXTRACT(YEAR FROM day) BETWEEN 2020 AND 2021", (2020, 1, 1), (2021, 12, 31)),
        ("YEAR(day) NOT IN (2020)", (2020, 1, 1), (2024, 12, 31)),
        ("YEAR(day) <> 2020", (2020, 1, 1), (2024, 12, 31)),
        ("YEAR(day) = 1066", (2020, 1, 1), (2024, 12, 31)),  # which no row passes
        ("YEAR(day) > 10000000000", (2020, 1, 1), (2024, 12, 31)),
    ],
)
def test_a_year_says_between_which_days(condition, first, last, schema):
    ((_, key),) = parse(f"SELECT day, COUNT(*) FROM visits WHERE {condition} GROUP BY day", schema).keys
    assert (key.type.lower, key.type.upper) == (position(dt.date(*first)), position(dt.date(*last)))


def test_every_function_has_a_rule_and_an_oracle():
    assert set(FUNCTIONS) == set(Op)
    assert set(LAZY) | set(STRICT) == set(Op)


@given(st.fractions())
def test_outward_rounding_is_tight(value):
    lower, upper = round_down(value), round_up(value)
    assert lower <= value <= upper
    assert float(upper) == float(lower) or math.nextafter(float(lower), math.inf) == float(upper)


@given(st.fractions(), st.fractions(), st.fractions(), st.fractions(), st.fractions(0, 1), st.fractions(0, 1))
def test_interval_arithmetic(a, b, c, d, s, t):
    one, other = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    x, y = a + s * (b - a), c + t * (d - c)
    for operation in ("__add__", "__sub__", "__mul__", "__truediv__"):
        assume(operation != "__truediv__" or y != 0)
        exact = getattr(x, operation)(y)
        found = getattr(one, operation)(other)
        assert found.lower <= exact <= found.upper


@pytest.mark.parametrize(
    ("expression", "lower", "upper"),
    [
        (call(Op.MULTIPLY, Column("p", COLUMNS["p"]), Column("n", COLUMNS["n"])), 0, 6000),
        (call(Op.ABS, Column("i", COLUMNS["i"])), 0, 7),
        (call(Op.MULTIPLY, Column("i", COLUMNS["i"]), Column("i", COLUMNS["i"])), 0, 49),
        (call(Op.POWER, Column("n", COLUMNS["n"]), constant(Fraction(2))), 0, 14400),
        (call(Op.DIVIDE, Column("n", COLUMNS["n"]), Column("i", COLUMNS["i"])), -120, 120),
        (call(Op.MODULO, Column("n", COLUMNS["n"]), constant(Fraction(7))), 0, 6),
        (call(Op.CLIP, Column("free", COLUMNS["free"]), constant(Fraction(0)), constant(Fraction(9))), 0, 9),
        (call(Op.YEAR, Column("day", COLUMNS["day"])), 2019, 2021),
    ],
)
def test_ranges_are_tight_where_it_matters(expression, lower, upper):
    assert (expression.type.lower, expression.type.upper) == (lower, upper)


def test_a_whole_number_too_large_for_the_engine_may_be_null():
    type_ = call(Op.TO_INTEGER, constant(Fraction("1e300"))).type
    assert type_.nullable
    assert not call(Op.TO_INTEGER, constant(Fraction(7))).type.nullable


def test_what_becomes_null_is_no_value_any_more():
    flu = Column("s", Type(Kind.TEXT, values=("Flu", "HIV")))
    assert call(Op.NULL_IF, flu, constant("Flu")).type.values == ("HIV",)
    assert call(Op.NULL_IF, flu, constant("none")).type.values == ("Flu", "HIV")
