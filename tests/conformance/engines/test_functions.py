"""Every function of the table of functions, over every value that traps: each engine agrees with DuckDB, or refuses.

Each row is a unit of its own and in one group, and the groups are the values that an expression takes. So an engine
that computes another value anywhere has another group.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from benches import PostgreSQLBench
from gaps import FUNCTIONS as GAPS
from gaps import LAST_BIT
from gaps import TEXTS as APART
from test_same_integers import compiled, engine, reference  # noqa: F401 - fixtures
from test_sensitivity import integers
from worlds import Rows, schema

from hush.query.expressions import Call, Op, pieces
from hush.query.functions import FUNCTIONS
from hush.query.plan import Plan, plan
from hush.query.schema import Schema
from hush.query.sql import parse
from hush.query.types import Kind, Type

NUMBERS = [
    2.5, -2.5, 0.5, -0.5, 0.49999999999999994, -3.7, 1e19, float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0,
    None, 1e20, 1e-7, 7.0, -7.5, 2.0, 9007199254740994.0, 1e-140, 0.1, 1000.0, -1000.0, 709.0, 123456.789,
]  # fmt: skip
"""Of the probes of engines' floats, all but those at which they may differ by declaration (`gaps.EXTREMES`)."""
WHOLES = [None, 0, 1, -1, 7, -7, 3, 2**53 + 1, 2**63 - 1, -(2**63), 1000, 2]
TEXTS = [
    None, "", "a", "B", "abc", "2.5", "-2.5", "1e3", "1_000", "0x1F", "yes",
    "1.5f", "1,5", "1e400", "1e-400", " 2.5 ", "inf", "nan", "on",
    "TRUE", "t", "0", "1", "2021-01-03", "2021-02-30", "2021", "Jan 5 2021", "01/02/2021", "now", "2021-1-3", "5-5-5",
    "2021/01/03", "2021-1-3 4:5:6", "2021-02-29 01:02",
    "2021-01-03 04:05:06.789", "\u0130", "\u00df", "\u0149", "\u0391\u03a3", "\ufb01", "\u00e9", "e\u0301",
    "\U0001f600x", "\ufffd", "a\\b", "a%", "ab\\", "\u00a0a", "a a", "a_b", "'; DROP TABLE x", '"', "$1", "12:30",
    "9223372036854775807", "9223372036854775808", "-0", "+7", "1.", ".5", "infinity", "\ta\n",
]  # fmt: skip
DAYS = [
    None, dt.date(2021, 1, 3), dt.date(2020, 1, 31), dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31),
    dt.date(1969, 12, 31), dt.date(1582, 10, 10), dt.date(2000, 12, 31),
]  # fmt: skip
MOMENTS = [
    None, dt.datetime(2021, 1, 3, 4, 5, 6, 789), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2020, 2, 29, 12), dt.datetime(1900, 6, 15, 0, 0, 1),
]  # fmt: skip
CASES: dict[Op, tuple[str, ...]] = {
    Op.ADD: ("free + cost", "wide + 1", "age + 0.5"),
    Op.SUBTRACT: ("free - cost", "wide - 1"),
    Op.MULTIPLY: ("free * cost", "age * 0.1", "wide * 2"),
    Op.DIVIDE: ("cost / free", "free / cost", "age / 2", "1 / age"),
    Op.DIVIDE_WHOLE: ("wide // 7", "CAST(free AS BIGINT) // CAST(age AS BIGINT)"),
    Op.MODULO: ("MOD(wide, 7)", "age % 3", "free % 2"),
    Op.NEGATE: ("-free", "-wide"),
    Op.ABS: ("ABS(free)", "ABS(wide)"),
    Op.SIGN: ("SIGN(free)", "SIGN(wide)"),
    Op.FLOOR: ("FLOOR(free)", "FLOOR(wide)"),
    Op.CEIL: ("CEIL(free)", "CEIL(age)"),
    Op.TRUNC: ("TRUNC(free)",),
    Op.SQRT: ("SQRT(free)",),
    Op.EXP: ("EXP(free)",),
    Op.LN: ("LN(free)",),
    Op.ROUND: ("ROUND(free)", "ROUND(free, 1)", "ROUND(free, -2)", "ROUND(wide)"),
    Op.LOG: ("LOG10(free)", "LOG(2, free)"),
    Op.POWER: ("POWER(free, 2)", "POWER(free, 0.5)", "POWER(free, -1)", "POWER(free, age)"),
    Op.LEAST: ("LEAST(free, cost)", "LEAST(age, 3)"),
    Op.GREATEST: ("GREATEST(free, cost)",),
    Op.CLIP: ("CLIP(free, -2.5, 7)", "CLIP(wide, 0, 5)"),
    Op.BIN: ("BIN(free, 0, 8, 4)", "BIN(wide, -3, 3, 7)"),
    Op.WIDTH_BUCKET: ("WIDTH_BUCKET(big, 0, 18446744073709551616, 4)", "WIDTH_BUCKET(free, 0, 8, 4)"),
    Op.TO_FIXED: ("CAST(free AS DECIMAL(9, 2))", "CAST(name AS DECIMAL(9, 2))", "CAST(wide AS DECIMAL(18, 3))"),
    Op.EQUAL: ("free = cost", "name = 'a'", "wide + 1 = 9007199254740994", "big * 2 = 18446744073709551616"),
    Op.NOT_EQUAL: ("free <> 1", "name <> 'a'"),
    Op.LESS: ("free < cost", "big - 1 < 9223372036854775807", "name < 'b'", "day < DATE '2000-01-01'"),
    Op.LESS_EQUAL: ("free <= 0.5", "name <= 'B'"),
    Op.GREATER: ("free > cost", "name > 'a'"),
    Op.GREATER_EQUAL: ("free >= 2.5", "at >= TIMESTAMP '2000-01-01'"),
    Op.AND: ("free > 0 AND flag",),
    Op.OR: ("free > 0 OR flag",),
    Op.NOT: ("NOT flag",),
    Op.IS_NULL: ("free IS NULL", "name IS NULL"),
    Op.IN: ("free IN (1, 2.5, 0.1)", "big IN (3, 9223372036854775808)", "name IN ('a', 'on', '')"),
    Op.LIKE: (
        "name LIKE 'a%'", "name LIKE 'a\\%'", "name LIKE 'ab\\'", "name LIKE '%!%' ESCAPE '!'", "name LIKE '_'",
        "name ILIKE 'A_B'", "name LIKE '%a_b%'",
    ),
    Op.REGEXP_MATCHES: ("REGEXP_MATCHES(name, 'a.?b')",),
    Op.CASE: ("CASE WHEN free > 1 THEN cost WHEN flag THEN 0 END", "CASE name WHEN 'a' THEN 'x' ELSE city END"),
    Op.COALESCE: ("COALESCE(free, cost, 1)", "COALESCE(name, 'none')"),
    Op.NULL_IF: ("NULLIF(free, 2.5)", "NULLIF(name, 'a')"),
    Op.LOWER: ("LOWER(name)",),
    Op.UPPER: ("UPPER(name)",),
    Op.TRIM: ("TRIM(name)",),
    Op.LTRIM: ("LTRIM(name)",),
    Op.RTRIM: ("RTRIM(name)",),
    Op.LENGTH: ("LENGTH(name)",),
    Op.SUBSTRING: ("SUBSTRING(name, 1, 2)", "SUBSTRING(name, 2, 3)"),
    Op.CONCAT: ("name || city", "CONCAT(name, city)"),
    Op.LEFT: ("LEFT(name, 2)", "LEFT(name, 0)"),
    Op.RIGHT: ("RIGHT(name, 2)",),
    Op.REPLACE: ("REPLACE(name, 'a', 'q')", "REPLACE(name, '.', '')"),
    Op.STARTS_WITH: ("STARTS_WITH(name, 'a')", "STARTS_WITH(name, '')"),
    Op.ENDS_WITH: ("ENDS_WITH(name, 'b')", "SUFFIX(name, '5')"),
    Op.POSITION: ("STRPOS(name, 'a')", "INSTR(name, '2')"),
    Op.STRLEN: ("STRLEN(name)",),
    Op.SPLIT_PART: ("SPLIT_PART(name, '-', 1)", "SPLIT_PART(name, 'a', 2)", "SPLIT_PART(name, '.', 900)"),
    Op.CONTAINS: ("CONTAINS(name, 'a')", "CONTAINS(name, '%')"),
    Op.YEAR: ("YEAR(day)", "YEAR(at)"),
    Op.QUARTER: ("QUARTER(day)", "QUARTER(at)"),
    Op.MONTH: ("MONTH(day)", "MONTH(at)"),
    Op.DAY: ("DAY(day)", "DAY(at)"),
    Op.DAY_OF_WEEK: ("DAYOFWEEK(day)", "DAYOFWEEK(at)"),
    Op.WEEK: ("WEEK(day)", "WEEK(at)"),
    Op.DAY_OF_YEAR: ("DAYOFYEAR(day)", "DAYOFYEAR(at)"),
    Op.HOUR: ("HOUR(at)",),
    Op.MINUTE: ("MINUTE(at)",),
    Op.SECOND: ("SECOND(at)",),
    Op.MAKE_DATE: ("MAKE_DATE(CAST(age AS INTEGER), 2, 29)", "MAKE_DATE(2021, CAST(wide AS INTEGER), 3)"),
    Op.STRFTIME: (
        "STRFTIME(day, '%Y-%m')", "STRFTIME(at, '%H:%M:%S.%f %I%p%%')", "STRFTIME(day, '%A %a, %B %b%d%j%u%w')",
        "STRFTIME(at, 'it''s \\\"day\\\" %d%j of %G-W%V \\\\ %y YYYY')", "DAYNAME(day)",
    ),
    Op.STRPTIME: ("STRPTIME(name, '%Y-%m-%d')", "STRPTIME(name, '%Y')"),
    Op.TRUNCATE_TIME: ("DATE_TRUNC('hour', at)", "DATE_TRUNC('second', at)"),
    Op.TRUNCATE_DATE: ("DATE_TRUNC('week', day)", "DATE_TRUNC('quarter', at)", "DATE_TRUNC('year', day)"),
    Op.DATE_DIFF: (
        "DATE_DIFF('month', day, at)", "DATE_DIFF('week', day, at)", "DATE_DIFF('day', at, day)",
        "DATE_DIFF('hour', day, at)", "DATE_DIFF('second', at, TIMESTAMP '2000-01-01')", "DATE_DIFF('year', day, at)",
    ),
    Op.ADD_INTERVAL: (
        "day + INTERVAL 1 MONTH", "at - INTERVAL 36 HOUR", "day + INTERVAL '-14 months 2 days'",
        "at + INTERVAL 9999 YEAR",
    ),
    Op.TO_INTEGER: ("CAST(free AS BIGINT)", "CAST(name AS BIGINT)", "CAST(name AS INTEGER)", "CAST(flag AS INTEGER)"),
    Op.TO_DECIMAL: ("CAST(name AS DOUBLE)", "CAST(wide AS DOUBLE)", "CAST(flag AS DOUBLE)"),
    Op.TO_TEXT: (
        "CAST(wide AS VARCHAR)", "CAST(flag AS VARCHAR)", "CAST(day AS VARCHAR)", "CAST(at AS VARCHAR)",
        "CAST(free AS VARCHAR)",
    ),
    Op.TO_BOOLEAN: ("CAST(name AS BOOLEAN)", "CAST(age AS BOOLEAN)"),
    Op.TO_DATE: ("CAST(name AS DATE)", "CAST(at AS DATE)"),
    Op.TO_TIMESTAMP: ("CAST(name AS TIMESTAMP)", "CAST(day AS TIMESTAMP)"),
}  # fmt: skip


OFTEN = frozenset({Op.DATE_DIFF, Op.TO_DATE, Op.TO_TIMESTAMP, Op.TO_BOOLEAN})
"""What is computed on Spark at every change, where a question takes a second; all others at night."""


def rows(apart: frozenset[str] = frozenset()) -> Rows:
    """Return visits in which each list of values goes round at a pace of its own, without some texts."""
    texts = [value for value in TEXTS if value not in apart]

    def cell(values: list[Any], number: int) -> Any:
        return values[number % len(values)]

    visits: list[tuple[object, ...]] = [
        (
            number, number, cell(WHOLES, number), cell(NUMBERS, 3 * number + 1), cell(NUMBERS, number),
            cell(["a", "b", "c", None], number), cell(texts, number), cell([True, False, None], number),
            cell(DAYS, number), cell(WHOLES, 5 * number + 2), 0, cell(MOMENTS, number),
        )
        for number in range(2 * len(TEXTS) + 5)
    ]  # fmt: skip
    return {"visits": visits, "orders": [], "items": [], "answers": [], "ballots": [], "regions": []}


def planned(expression: str) -> tuple[Plan, Any]:
    about: Schema = schema(Random(0))
    free = {name: Type(type_.kind, True) for name, type_ in about.tables["visits"].columns.items()}
    free |= {"age": Type(Kind.INTEGER, True), "wide": Type(Kind.INTEGER, True)}
    table = replace(about.tables["visits"], columns=free, max_rows=1, max_groups=1)
    about = replace(about, tables={**about.tables, "visits": table})
    text = f"SELECT {expression} AS k, COUNT(*) AS n FROM visits GROUP BY {expression}"
    return plan(parse(text, about), about, epsilon=1, delta="1e-6"), about


@pytest.fixture(scope="module")
def benches(reference: Any, engine: Any) -> tuple[Any, Any]:  # noqa: F811
    """Give DuckDB and another engine, over the same rows."""
    if engine.place == "connect":
        pytest.skip("the same Spark computes them")
    if engine.name not in GAPS:
        pytest.skip(f"nobody has said yet which functions {engine.name} refuses")
    for bench in (reference, engine):
        bench.fill(rows(APART.get(engine.name, frozenset())))
    return reference, engine


def to_twelve_digits(found: dict[Any, int]) -> Counter[Any]:
    """Return the same integers, of which those of groups whose keys are nearly the same float are together."""
    near = Counter[Any]()
    for (what, key), many in found.items():
        near[what, tuple(f"{part:.12g}" if isinstance(part, float) else part for part in key)] += many
    return near


def test_every_function_is_in_a_case_that_calls_it() -> None:
    assert set(CASES) == set(FUNCTIONS)
    for op, expressions in CASES.items():
        for expression in expressions:
            value = planned(expression)[0].exact_query.keys[0][1]
            assert any(isinstance(piece, Call) and piece.op is op for piece in pieces(value)), (op, expression)


@pytest.mark.parametrize("op", CASES, ids=lambda op: op.name)
def test_a_function_means_the_same(op: Op, benches: tuple[Any, Any]) -> None:
    duckdb, other = benches
    if other.name == "spark" and op not in OFTEN and "HUSH_SPARK_CASES" not in os.environ:
        pytest.skip("a question of Spark takes a second; with HUSH_SPARK_CASES, as nightly")
    for expression in CASES[op]:
        how, about = planned(expression)
        there = compiled(other, how, about)
        assert (there is None) == (expression in GAPS[other.name]), expression
        if there is not None:
            found, expected = (
                integers(bench.execute(each), how)
                for bench, each in ((other, there), (duckdb, duckdb.prepare(how, about)))
            )
            if op.name in LAST_BIT.get(other.name, ()):
                found, expected = to_twelve_digits(found), to_twelve_digits(expected)
            assert found == expected, (expression, found.items() ^ expected.items())


def test_what_only_postgresql_can_store_makes_no_statement_fail(postgresql: str) -> None:
    """Infinite dates and times, years before 1 and after 9999: none of them is in the calendar, so all are NULL."""
    bench = PostgreSQLBench(postgresql)
    bench.fill(rows() | {"visits": []})
    bench._connection.execute(
        "INSERT INTO clinic.visits (id, day, at) VALUES (1, 'infinity', 'infinity'), (2, '-infinity', '-infinity'), "
        "(3, '5874897-12-31', '294276-12-31 23:59:59.999999'), (4, '4713-01-01 BC', '4713-01-01 BC')"
    )
    for expression in [one for each in CASES.values() for one in each if re.search(r"\b(day|at)\b", one)]:
        how, about = planned(expression)
        there = compiled(bench, how, about)
        if there is not None:
            assert {key for _, key in integers(bench.execute(there), how)} <= {(None,)}, expression
    bench.close()
