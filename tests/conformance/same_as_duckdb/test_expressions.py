"""What the front end takes SQL to mean is what DuckDB takes it to mean."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

import pytest
from oracle import evaluate

from hush.query.parameters import Binder
from hush.query.relations import Scan
from hush.query.sql.expressions import Rows
from hush.query.sql.names import Context, FromSource, Scope
from hush.query.sql.text import read_expression
from hush.query.types import Kind, Type

duckdb = pytest.importorskip("duckdb")

COLUMNS = {
    "x": (Kind.DECIMAL, "DOUBLE"),
    "i": (Kind.INTEGER, "BIGINT"),
    "s": (Kind.TEXT, "VARCHAR"),
    "b": (Kind.BOOLEAN, "BOOLEAN"),
    "d": (Kind.DATE, "DATE"),
    "t": (Kind.TIMESTAMP, "TIMESTAMP"),
}
ROWS = [
    (1.25, 7, " Flu ", True, dt.date(2024, 2, 29), dt.datetime(2023, 12, 31, 23, 59, 59)),
    (-2.5, -3, "éa%", False, dt.date(2023, 1, 1), dt.datetime(1969, 7, 20, 0, 0)),
    (0.0, 0, "", None, None, dt.datetime(2000, 1, 3, 12, 30)),
    (None, None, None, None, dt.date(1999, 12, 31), None),
    (1e10, 100, "3", True, dt.date(2020, 6, 14), dt.datetime(2020, 6, 14, 6, 0)),
]
EXPRESSIONS = [
    "x + i * 2 - 1", "x / 4", "i % 3", "MOD(i, -2)", "-x", "ABS(i)", "FLOOR(x)", "CEIL(x)", "SIGN(i)", "ROUND(x, 1)",
    "POWER(i, 2)", "LEAST(x, i)", "GREATEST(x, i, 0)", "SQRT(ABS(x))", "LN(ABS(x) + 1)", "LOG(ABS(x) + 1)",
    "LOG(2, ABS(x) + 1)", "i BETWEEN 0 AND 7", "i IN (7, 100)", "i NOT IN (7, 100)", "s LIKE '%a%'", "s NOT LIKE '_lu'",
    "s ILIKE ' f%'", "b AND i > 0", "b OR i > 0", "NOT b", "b IS TRUE", "b IS NOT TRUE", "x IS NULL", "x IS NOT NULL",
    "CASE WHEN i > 5 THEN 'big' WHEN i > 0 THEN 'small' END", "CASE i WHEN 7 THEN 1 ELSE 0 END", "IF(b, 1, 2)",
    "COALESCE(x, i, 5)", "NULLIF(i, 7)", "IFNULL(s, '-')", "LOWER(s)", "UPPER(s)", "TRIM(s)", "LTRIM(s)", "RTRIM(s)",
    "TRIM(LEADING FROM s)", "TRIM(BOTH FROM s)", "LENGTH(s)",
    "SUBSTRING(s, 2, 2)", "SUBSTR(s, 2)", "LEFT(s, 2)", "RIGHT(s, 2)", "CONCAT(s, '-', s)", "s || '!'",
    "REPLACE(s, 'lu', 'x')", "STARTS_WITH(s, ' ')", "CONTAINS(s, 'a')", "YEAR(d)", "QUARTER(d)", "MONTH(d)", "DAY(d)",
    "DAYOFWEEK(d)", "HOUR(t)", "EXTRACT(dow FROM t)", "DATE_PART('month', t)", "DATE_TRUNC('month', d)",
    "DATE_TRUNC('week', d)", "DATE_TRUNC('quarter', t)::DATE", "DATE_TRUNC('year', d)", "DATE_DIFF('day', d, t)",
    "d - DATE '2020-01-01'", "CAST(t AS DATE)", "TRY_CAST(s AS INTEGER)", "TRY_CAST(s AS DOUBLE)", "CAST(b AS INTEGER)",
    "CAST(i AS VARCHAR)", "d > '2020-01-01'", "t >= d", "i = 7 AND NOT (x > 1 OR s = '')", "1 + 2 * 3 - 4 / 2",
    "- i * - i", "NOT i = 7", "TRY_CAST(x AS BIGINT)", "TRY_CAST(x * 0.2 AS BIGINT)", "TRY_CAST('-2.5' AS INTEGER)",
    "CAST(x AS DECIMAL(18, 1))", "CAST(x / 16 AS DECIMAL)", "CAST(x AS DECIMAL(18))",
    "i // 3", "i // -2", "i // 7", "(i - 3) // (i + 10)", "d + INTERVAL 1 MONTH", "d - INTERVAL '3' DAY",
    "t - INTERVAL '1 month 2 days'", "INTERVAL (2) WEEKS + t", "t + INTERVAL '-36' HOURS", "- INTERVAL 1 QUARTER + d",
    "DATE_ADD(d, INTERVAL 1 YEAR)", "t + INTERVAL 90 SECOND", "DATE_DIFF('month', d, t)", "DATEDIFF('year', t, d)",
    "DATE_DIFF('quarter', d, t)", "DATE_DIFF('week', d, t)", "DATE_DIFF('week', t, d)", "DATE_DIFF('hour', d, t)",
    "DATE_DIFF('minute', t, d)", "DATE_DIFF('second', t, d)", "i IS DISTINCT FROM 7", "i IS NOT DISTINCT FROM x",
    "b IS DISTINCT FROM NULL", "NULL IS NOT DISTINCT FROM s", "b IS NOT DISTINCT FROM TRUE", "s LIKE '%a!%' ESCAPE '!'",
    "s NOT LIKE '%!%%' ESCAPE '!'", "s ILIKE ' F!lu' ESCAPE '!'", "s LIKE '%a%' ESCAPE ''", "s LIKE 'éa%%' ESCAPE '%'",
]  # fmt: skip


def convert(text):
    types = {name: Type(kind) for name, (kind, _) in COLUMNS.items()}
    scan = Scan(table="r", public=False, columns=tuple((name, name, type_) for name, type_ in types.items()))
    scope = Scope(scan, [FromSource("r", {name: (name, name) for name in types})])
    return Rows(Context(schema=None, binder=Binder(()), subqueries=None), scope).convert(read_expression(text))


@pytest.fixture(scope="module")
def connection():
    made = duckdb.connect(":memory:", config={"enable_external_access": "false"})
    made.execute("CREATE TABLE r (" + ", ".join(f"{name} {sql}" for name, (_, sql) in COLUMNS.items()) + ")")
    made.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    yield made
    made.close()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_same_meaning(text, connection):
    expression = convert(text)
    theirs = [value for (value,) in connection.execute(f"SELECT {text} FROM r").fetchall()]
    for row, their in zip(ROWS, theirs, strict=True):
        named = dict(zip(COLUMNS, row, strict=True))
        ours = evaluate(expression, {k: float(v) if k in "xi" and v is not None else v for k, v in named.items()})
        if text == "CAST(i AS VARCHAR)" and ours is not None:
            ours = str(int(float(ours)))
        if isinstance(their, dt.datetime) and isinstance(ours, dt.date) and not isinstance(ours, dt.datetime):
            their = their.date()  # noqa: PLW2901
        if isinstance(ours, float) and their is not None:
            assert math.isclose(ours, Fraction(their), rel_tol=1e-12, abs_tol=1e-12), (text, row)
        else:
            assert ours == their, (text, row)
        assert expression.type.nullable or their is not None
