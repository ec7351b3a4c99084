"""The table of dialects: each expression is what its database gives, or refused; three databases are asked.

Values of the other databases are those of their documentation, which the table cites.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import psycopg
import pyarrow as pa
import pytest

import hush
from hush.engines.spark.connection import SparkServer
from hush.query.sql.dialects import DIALECTS

with (Path(__file__).parents[3] / "docs" / "dialects.csv").open(newline="") as _file:
    TABLE = list(csv.DictReader(_file))
T = {
    "i": ("INT", 7), "j": ("INT", 2), "k": ("INT", -7), "n": ("INT", None), "y": ("DOUBLE PRECISION", 2.5),
    "z": ("DOUBLE PRECISION", -2.5), "c": ("DECIMAL(6, 2)", Decimal("2.50")), "s": ("TEXT", "Banana"),
    "q": ("TEXT", None), "w": ("TEXT", "  ab "), "d": ("DATE", dt.date(2024, 1, 31)),
    "e": ("DATE", dt.date(2024, 3, 1)), "u": ("TIMESTAMP", dt.datetime(2024, 1, 31, 22, 50, 15, 500_000)),
    "v": ("TIMESTAMP", dt.datetime(2024, 3, 1, 1, 10, 5)),
}  # fmt: skip
"""A row, with which expressions are computed."""
M = {
    "x": ("INT", [1, 2, 2, 3, 5, 8, 22]), "f": ("DOUBLE PRECISION", [0.5, 1.5, 2.0, 4.0, 4.5, 7.0, 9.5]),
    "a": ("TEXT", ["p", "p", "q", None, "q", "p", None]), "b": ("INT", [1, 1, 2, 2, None, 3, None]),
}  # fmt: skip
"""Rows that aggregates are of."""
AGGREGATE = re.compile(
    r"\b(COUNT|COUNT_IF|COUNTIF|COUNT_BIG|SUM|AVG|MEAN|MIN|MAX|MODE|MEDIAN|PERCENTILE\w*|STD\w*|STDEVP?|VAR\w*|APPROX_\w+|BOOL\w+|"
    r"EVERY|LOGICAL_OR)\("
)
UNITS = 60


def table_of(expression: str) -> str:
    return "m" if AGGREGATE.search(expression) else "t"


def same(found: object, said: str) -> bool:
    if isinstance(found, dt.timedelta):
        return said == f"{found.days} days"
    if found is None or isinstance(found, bool):
        return said == {None: "NULL", True: "true", False: "false"}[found]
    if isinstance(found, dt.datetime) and found.time() == dt.time():
        found = found.date()  # the last of the types that dialects tell apart and a table does not
    if isinstance(found, int | float | Decimal):
        return math.isclose(float(found), float(said), rel_tol=2e-6, abs_tol=1e-9)  # some have six digits
    return str(found).removesuffix("00000") == said


def rows_of(*dialects: str) -> list[dict[str, str]]:
    return [row for row in TABLE if row["dialect"] in dialects]


def written(type_: str, value: object, *, spark: bool = False) -> str:
    kind = {"TEXT": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ", "DOUBLE PRECISION": "DOUBLE"}.get(type_, type_)
    text = "NULL" if value is None else f"'{value}'"
    return f"CAST({text} AS {kind if spark else type_})"


def tables(*, spark: bool = False) -> dict[str, str]:
    """Return SELECT statements of which the tables are made."""
    single = ", ".join(f"{written(*cell, spark=spark)} AS {name}" for name, cell in T.items())
    several = [
        ", ".join(f"{written(type_, cells[row], spark=spark)} AS {name}" for name, (type_, cells) in M.items())
        for row in range(7)
    ]
    return {"t": f"SELECT {single}", "m": " UNION ALL ".join(f"SELECT {row}" for row in several)}


def check(ask, *dialects: str) -> None:
    """Fail unless a database gives the values of the table."""
    rows = rows_of(*dialects)
    for name in ("t", "m"):
        mine = [row for row in rows if table_of(row["expression"]) == name]
        values = ask(f"SELECT {', '.join(row['expression'] for row in mine)} FROM {name}")
        wrong = [(row, value) for row, value in zip(mine, values, strict=True) if not same(value, row["value"])]
        assert not wrong


def test_duckdb_gives_the_values_of_the_table() -> None:
    with duckdb.connect() as connection:
        for name, text in tables().items():
            connection.execute(f"CREATE TABLE {name} AS {text}")
        check(lambda text: connection.execute(text).fetchone(), "duckdb")


def test_postgresql_gives_the_values_of_the_table(postgresql: str) -> None:
    with psycopg.connect(postgresql) as connection:
        for name, text in tables().items():
            connection.execute(f"CREATE TEMPORARY TABLE {name} AS {text}")
        check(lambda text: connection.execute(text).fetchone(), "postgres")


def test_spark_gives_the_values_of_the_table(spark: str) -> None:
    server = SparkServer(spark)
    with server.transaction() as transaction:
        for name, text in tables(spark=True).items():
            transaction.session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")
        check(lambda text: tuple(transaction.session.sql(text).collect()[0]), "spark")
        for name in tables():
            transaction.session.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def curator() -> Iterator[hush.Curator]:
    """Give a data set in which every unit has the one row, so that a group's key is what an expression is."""
    kinds = {"TEXT": pa.string(), "INT": pa.int64()}
    single = {name: pa.array([value] * UNITS, kinds.get(type_)) for name, (type_, value) in T.items()}
    several = {name: pa.array(cells) for name, (_, cells) in M.items()}
    tables = {"t": pa.table({"id": range(UNITS), **single}), "m": pa.table({"id": range(7), **several})}
    with hush.protect(
        tables,
        unit="id",
        bounds={"x": (0, 50), "f": (0, 50), "b": (0, 9)},
        budget={"epsilon": "1e15", "delta": "0.1"},
        max_rows=1,
        max_groups=1,
    ) as made:
        yield made


def asked(curator: hush.Curator, dialect: str, expression: str) -> object:
    """Return what an expression is here."""
    columns = re.findall(r"\b[a-z]\b", re.sub(r"'[^']*'", "", expression))
    grouped = f" GROUP BY {expression}" if table_of(expression) == "t" and set(columns) & set(T) else ""
    text = f"SELECT {expression} AS it, COUNT(*) AS rows FROM {table_of(expression)}{grouped}"
    # noise of a price of 10⁹ moves a count or a sum of whole numbers with a probability below exp(-10⁶)
    found = max(curator.ask(text, epsilon=10**9, delta="1e-9", dialect=dialect).rows(), key=lambda row: row["rows"])[
        "it"
    ]
    return pd.Timestamp(found).to_pydatetime() if isinstance(found, dt.datetime) else found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_expression_is_what_its_database_gives_or_refused(dialect: str, curator: hush.Curator) -> None:
    wrong = []
    for row in rows_of(dialect):
        try:
            found = asked(curator, dialect, row["expression"])
        except hush.HushError as error:
            if row["here"] != "refused":
                wrong.append((row, str(error)))
        else:
            if row["here"] != "equal" or not same(found, row["value"]):
                wrong.append((row, found))
    assert not wrong


def test_every_expression_cites_its_source() -> None:
    refused = sum(row["here"] == "refused" for row in TABLE)
    page = (Path(__file__).parents[3] / "docs" / "dialects.md").read_text("utf-8")
    assert f"{len(TABLE)} expressions" in page
    assert f"{refused} of them are refused" in page
    assert len(TABLE) >= 120
    assert all(row["source"].startswith("https://") for row in TABLE)
