"""Modes: which value a row counts for, by arithmetic, by comparison or by a list, and what is picked of them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from test_bounded_tables import forget_results, tables

import hush
from hush.curator.curator import Curator
from hush.engines.protocol import Exact
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.keys import Axis, key_value, place
from hush.engines.sql.nodes import case, column, integer, read, select
from hush.engines.sql.render import text_of
from hush.engines.sql.statements import Statements
from hush.engines.sql.values import SqlType, Value, constant
from hush.query.plan.plan import Plan
from hush.query.types import Kind, Type

HUGE = 10**6
"""At this ε a value with one row, of a unit each, less than the most frequent one has a probability below e^(-10⁴)."""

BUDGET = {"epsilon": "1e9", "delta": "1e-3"}


def planned(curator: Curator, sql: str) -> tuple[Plan, Statements, Exact]:
    desk, how = curator.plan(sql, epsilon=1)
    compiled = desk.engine.prepare(how)
    return how, compiled, desk.engine.execute(compiled)


# arithmetic finds just what equality finds

STEPS = ["1", "2", "7", "1/2", "1/4", "1/10", "1/100", "1/3", "3/4", "1/1000000007", "5/2", "3/10", "2/3"]


def near(rng: Random, points: list[Fraction]) -> list[float | None]:
    """Return floats on a grid, beside it, between its points, and far away."""
    found: list[float | None] = [None, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]
    found += [2.0**52, -(2.0**53), 2.0**63, 1e300]
    step = points[1] - points[0]
    for point in [points[0], points[1], points[-1], *rng.sample(points, min(len(points), 30))]:
        x = float(point)
        found += [x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf), -x]
        found += [float(point + step / 2), float(point + step), float(point - step), float(point + step / 3)]
        found += [float(point.numerator) * float(Fraction(1, point.denominator)), x + 0.1 - 0.1]
    return found


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("first", [0, -7, 5, -(2**40), 2**50 - 60])
def test_arithmetic_is_equality_for_floats(step: str, first: int) -> None:
    rng, size = Random(f"{step} {first}"), 50
    points = [Fraction(step) * (first + at) for at in range(size)]
    type_ = Type(Kind.DECIMAL, True, points[0], points[-1])
    value = key_value(Value(column("x", "t"), SqlType.DOUBLE, clean=False), type_, DUCKDB)
    found = place(value, Axis(tuple(points), type_))
    assert found is not None
    assert_same_modes(found, value, points, type_, pa.array(near(rng, points), pa.float64()))


@pytest.mark.parametrize("step", [1, 2, 7, 10**9])
@pytest.mark.parametrize("first", [0, -7, 5, -(2**33)])
def test_arithmetic_is_equality_for_integers(step: int, first: int) -> None:
    points = [Fraction(step * (first + at)) for at in range(50)]
    type_ = Type(Kind.INTEGER, True, points[0], points[-1], Fraction(step))
    value = key_value(Value(column("x", "t"), SqlType.INTEGER), type_, DUCKDB)
    found = place(value, Axis(tuple(points), type_))
    assert found is not None
    cells = [int(point) + off for point in points for off in (-step, -1, 0, 1, step // 2)]
    assert_same_modes(found, value, points, type_, pa.array([None, 2**63 - 1, -(2**63), 0, *cells], pa.int64()))


def assert_same_modes(found: Any, value: Value, points: list[Fraction], type_: Type, cells: pa.Array) -> None:
    """Compare a number with the one that comparisons one by one give, in the engine."""
    one_by_one = case(
        *((value.sql.equals(constant(point, type_).to(value.form).sql), integer(at)) for at, point in enumerate(points))
    )
    query = select([found.alias("found"), one_by_one.alias("expected")], read("cells", "t"))
    connection = duckdb.connect()
    connection.register("cells", pa.table({"x": cells}))
    rows = connection.execute(text_of(query)).fetchall()
    assert [row[0] for row in rows] == [row[1] for row in rows]
    assert len({row[0] for row in rows} - {None}) > 3  # points were among them


@pytest.mark.parametrize("step", ["1/100000000000000000", "10000000000000000000001"])
def test_where_it_would_not_be_there_is_no_arithmetic(step: str) -> None:
    type_ = Type(Kind.DECIMAL)
    axis = Axis(tuple(Fraction(step) * at for at in range(30)), type_)
    assert axis.line() is not None
    assert place(Value(column("x", "t"), SqlType.DOUBLE), axis) is None
    halves = Axis(tuple(Fraction(at, 2) for at in range(30)), type_)
    assert place(Value(column("x", "t"), SqlType.INTEGER), halves) is None


# what rows count for, and what is picked


def texts(many: int) -> list[str]:
    return [f"it's {at}" for at in range(many)]


def days(many: int) -> list[dt.date]:
    return [dt.date(2000, 1, 1) + dt.timedelta(days=at) for at in range(many)]


def cents(many: int) -> list[float]:
    return [at / 100 for at in range(many)]


def gaps(many: int) -> list[int]:
    return [at * at - 100 for at in range(many)]


CASES: dict[str, tuple[list[Any], list[Any], dict[str, Any], str]] = {
    # the public values; others, which count for none; what is declared; how values are numbered
    "integers": (list(range(-3, 997)), [], {"bounds": {"x": (-3, 996)}}, "arithmetic"),
    "30,000 integers": (list(range(30_000)), [], {"bounds": {"x": (0, 29_999)}}, "arithmetic"),
    "100,000 integers": (list(range(100_000)), [], {"bounds": {"x": (0, 99_999)}}, "arithmetic"),
    "listed integers on a line": (list(range(5, 60)), [4, 60], {"values": {"x": list(range(5, 60))}}, "arithmetic"),
    "listed integers": (gaps(40), [-101, -98, 1], {"values": {"x": gaps(40)}}, "list"),
    "five listed integers": (gaps(5), [-101, -98], {"values": {"x": gaps(5)}}, "comparison"),
    "decimals": (cents(1001), [], {"bounds": {"x": (0, 10, "0.01")}}, "arithmetic"),
    "100,000 decimals": (cents(100_000), [], {"bounds": {"x": (0, "999.99", "0.01")}}, "arithmetic"),
    "decimals of an odd step": (
        [at * 3 / 10 for at in range(400)],
        [],
        {"bounds": {"x": (0, "119.7", "0.3")}},
        "arithmetic",
    ),
    "dates": (days(700), [], {"bounds": {"x": ("2000-01-01", "2001-11-30")}}, "list"),
    "100,000 dates": (days(100_000), [], {"bounds": {"x": ("2000-01-01", "2273-10-15")}}, "list"),
    "listed dates": (days(60)[::2], days(60)[1::2], {"values": {"x": days(60)[::2]}}, "list"),
    "5 texts": (texts(5), ["", "other"], {"values": {"x": texts(5)}}, "comparison"),
    "50 texts": (texts(50), ["", "other"], {"values": {"x": texts(50)}}, "list"),
    "5,000 texts": (texts(5000), ["", "other"], {"values": {"x": texts(5000)}}, "list"),
}


def rows_of(rng: Random, values: list[Any], others: list[Any], size: int) -> pa.Table:
    """Return rows of ten groups, each of which has a most frequent value; NULLs and others are more frequent still."""
    favourites = [rng.choice(values) for _ in range(10)]
    cells: list[tuple[int, int, Any]] = []
    for at in range(size):
        group = at % 10
        x = rng.choice([favourites[group], rng.choice(values), None, None, *(others[:1] * 2)])
        cells.append((at, group, x))
    ids, groups, xs = zip(*cells, strict=True)
    return pa.table({"id": list(ids), "g": list(groups), "word": [f"w{at}" for at in groups], "x": list(xs)})


def counted(data: pa.Table, values: list[Any]) -> dict[int, Counter[Any]]:
    """Return, for every group, how many rows have each public value, as DuckDB compares them."""
    found: dict[int, Counter[Any]] = {at: Counter() for at in range(10)}
    connection = duckdb.connect()
    connection.register("data", data)
    connection.register("public", pa.table({"v": pa.array(values, data.schema.field("x").type)}))
    query = "SELECT g, x, count(*) FROM data SEMI JOIN public ON x = v GROUP BY ALL"
    for group, x, many in connection.execute(query).fetchall():
        found[group][x] = many
    return found


def shown(value: Any) -> Any:
    return Fraction(str(value)) if isinstance(value, int | float) else value


@pytest.mark.parametrize("name", CASES)
def test_rows_count_for_the_value_they_have(name: str) -> None:
    values, others, declared, way = CASES[name]
    data = rows_of(Random(name), values, others, 3000)
    expected = counted(data, values)
    lists = {"g": list(range(10)), **declared.get("values", {})}
    with hush.protect(data, bounds=declared.get("bounds", {}), values=lists, budget=BUDGET) as c:
        how, compiled, exact = planned(c, "SELECT g, MODE(x) AS m FROM data GROUP BY g")
        (statement,), histogram = compiled.others, how.draws[0].histogram
        assert bool(statement.parameters) == (way == "list")
        assert (statement.text.count("WHEN") >= len(values)) == (way == "comparison")
        assert list(histogram.values) == [shown(value) for value in values]
        for (group,), sparse in zip(exact.keys, exact.histograms[0], strict=True):
            got = {values[at]: many for at, many in zip(sparse.bins.tolist(), sparse.weights.tolist(), strict=True)}
            assert got == expected[int(group)]
        # by public keys, by private ones, and of all rows
        answers = c.ask("SELECT g, MODE(x) AS m FROM data GROUP BY g", epsilon=HUGE, fresh=True).table["m"].to_pylist()
        assert_modes(answers, [expected[at] for at in range(10)])
        found = c.ask(
            "SELECT word, MODE(x) AS m FROM data GROUP BY word ORDER BY word", epsilon=HUGE, delta="1e-6", fresh=True
        )
        assert_modes(found.table["m"].to_pylist(), [expected[at] for at in range(10)])
        whole = sum(expected.values(), Counter())
        assert_modes(c.ask("SELECT MODE(x) AS m FROM data", epsilon=HUGE, fresh=True).table["m"].to_pylist(), [whole])


def assert_modes(answers: list[Any], counts: list[Counter[Any]]) -> None:
    assert len(answers) == len(counts)
    for answer, many in zip(answers, counts, strict=True):
        assert many[answer] == max(many.values())  # with one value ahead of all others it is that one


WEIGHT = 2**20


@pytest.mark.parametrize("name", ["integers", "decimals", "dates", "5 texts", "50 texts", "5,000 texts"])
def test_of_a_unit_s_rows_those_with_a_public_value_share_its_bound(name: str) -> None:
    """From the tables, and from rows that were bounded before: of n rows in a group each weighs min(1, 3/n)."""
    values, others, declared, _ = CASES[name]
    rng = Random(name)
    data = rows_of(rng, values, others, 4000)
    units = pa.array([rng.randrange(60) for _ in range(4000)])
    data = data.set_column(0, "id", units)
    listed_, pairs = set(values), Counter[tuple[int, int]]()
    cells = list(zip(*(data[label].to_pylist() for label in ("id", "g", "x")), strict=True))
    for unit, group, x in cells:
        pairs[unit, group] += x in listed_
    expected: dict[int, Counter[Any]] = {at: Counter() for at in range(10)}
    for unit, group, x in cells:
        if x in listed_:
            many = pairs[unit, group]
            expected[group][x] += WEIGHT if many <= 3 else WEIGHT * 3 // many
    options = {"unit": "id", "max_rows": 3, "max_groups": 10, "budget": BUDGET}
    lists = {"g": list(range(10)), **declared.get("values", {})}
    with hush.protect(data, bounds=declared.get("bounds", {}), values=lists, **options) as curator:
        engine = curator.data_sets["data"].engine
        for stored in (0, 1, 1):
            forget_results(engine)
            _, _, exact = planned(curator, "SELECT g, COUNT(*) AS n, MODE(x) AS m FROM data GROUP BY g")
            assert len(tables(engine)) == stored
            for (group,), sparse in zip(exact.keys, exact.histograms[0], strict=True):
                got = {values[at]: many for at, many in zip(sparse.bins.tolist(), sparse.weights.tolist(), strict=True)}
                assert got == expected[int(group)]
        assert all(
            first - second > WEIGHT for (_, first), (_, second) in (one.most_common(2) for one in expected.values())
        )
        answers = (
            curator.ask("SELECT g, MODE(x) AS m FROM data GROUP BY g", epsilon=HUGE, fresh=True).table["m"].to_pylist()
        )
        assert_modes(answers, [expected[at] for at in range(10)])


@pytest.mark.parametrize("unit", [None, "id"])
def test_values_that_are_one_float_are_one_bin_so_that_no_row_counts_twice(unit: str | None) -> None:
    """Where rows are units, and in stored rows of units with few, nothing weighs a row down that came twice."""
    same = ["0.1", "0.10000000000000000001", "0.10000000000000000002"]
    values = [*same, *(f"{at * at}.5" for at in range(9))]
    data = pa.table({"id": list(range(30)), "x": [0.1] * 20 + [4.5] * 10})
    bounded = {} if unit is None else {"unit": unit, "max_rows": 1, "max_groups": 1}
    with hush.protect(data, values={"x": values}, budget=BUDGET, **bounded) as curator:
        engine = curator.data_sets["data"].engine
        for _ in range(3):  # from the tables, and from rows that were bounded before
            how, compiled, exact = planned(curator, "SELECT MODE(x) AS m FROM data")
            assert len(how.draws[0].histogram.values) == len(values)
            assert compiled.others[0].parameters
            ((sparse,),) = exact.histograms
            one = 1 if unit is None else WEIGHT
            assert sparse.weights.tolist() == [20 * one, 10 * one]
            forget_results(engine)
        assert bool(tables(engine)) == (unit is not None)
