"""Dates as people write them are the same dates on every engine, and no text makes a statement fail."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.curator.opening import protect
from hush.engines.errors import SourceError
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.spark.connection import SparkServer
from hush.engines.spark.dialect import SAIL, SPARK, SparkDialect
from hush.engines.sql.dialect import DUCKDB, Dialect
from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import TableName, column, select
from hush.engines.sql.render import render
from hush.query.types import Kind, Type

FORMATS = [
    "%d/%m/%Y", "%d.%m.%y", "%m/%d/%Y", "%Y-%m-%d", "%Y%m%d", "%d%m%y", "%d.%m.%Y %H:%M", "%m/%d/%y %H:%M:%S",
    "%Y/%m/%dT%H:%M:%S", "%H:%M on %d-%m-%Y", "%d, %m, %Y",
]  # fmt: skip
NASTY = [
    "", " ", "%d", "\\1", "$1", "now", "today", "infinity", "epoch", "29/02/2023", "29/02/2024", " 1/2/2024\t",
    "1/2/2024\n", "1/2/2024\u2028", "1/2/2024\u00a0", "\u0661/\u0662/\u0662\u0660\u0662\u0664", "01/02/0000",
    "01/02/0001", "31/12/9999", "01/02/10000", "-1/2/2024", "+1/2/2024", "1/2/-2024", "1/2/2024 BC", "1/2/2024 10:00",
    "01.02.68", "01.02.69", "00.01.24", "31.04.24", "20240229", "20230229", "2024229", "010224", "1.2.2024 24:00",
    "1.2.2024 23:60", "1.2.2024 9:5", "2/29/24 23:59:60", "2/29/24 23:59:59", "2/29/69 1:2:3", "0099/02/03T00:00:00",
    "7:05 on 1-2-1582", "1, 2, 2024", "1x2x2024", "x" * 100_000, "1/" * 50_000, "\ufffd", "'", '"', "2024-13-01",
    "2024-12-31", "10000-01-01", "2024-12-31Z",
]  # fmt: skip


def texts() -> list[str]:
    """Return texts near all formats: moments of the calendar, and parts that are too large by a little."""
    rng = Random("dates")
    near = []
    for date_format in FORMATS:
        for _ in range(150):
            ends = {"d": 32, "m": 13, "Y": 10_000, "y": 99, "H": 24, "M": 60, "S": 60}
            text = date_format
            for letter, end in ends.items():
                number = rng.randint(0, end)
                digits = {"Y": f"{number:04}", "y": f"{number:02}"}.get(
                    letter, rng.choice([f"{number:02}", str(number)])
                )
                text = text.replace(f"%{letter}", digits)
            near.append(text)
    return NASTY + near


TEXTS = texts()


def wanted(text: str, date_format: str, kind: Kind) -> str | None:
    """Return the moment that Python reads, in ISO's words; none where it reads more than a format says."""
    plain = text.strip(" \t")
    numbers = re.findall("[0-9]+", plain)
    widths = {"Y": "[0-9]{4}", "y": "[0-9]{2}"}
    digits = "[0-9]{2}" if re.search("%.%", date_format) else "[0-9]{1,2}"
    shape = re.sub("%(.)", lambda found: widths.get(found[1], digits), date_format.replace(".", "[.]"))
    if not re.fullmatch(shape, plain) or not numbers:
        return None
    try:
        moment = dt.datetime.strptime(plain, date_format)  # noqa: DTZ007 - without a zone
    except ValueError:
        return None
    return moment.date().isoformat() if kind is Kind.DATE else moment.isoformat(sep=" ")


def check(dialect: Dialect, ask: Callable[[str], Sequence[Sequence[object]]], formats: Sequence[str] = FORMATS) -> None:
    """Fail unless an engine reads all texts in all formats as is wanted; its table is ``texts``."""
    for kind in (Kind.DATE, Kind.TIMESTAMP):
        types = [Type(kind, format=date_format) for date_format in formats]
        cells = [force(column("t"), "VARCHAR", type_).sql.alias(f"c{number}") for number, type_ in enumerate(types)]
        rows = ask(render(select([column("n"), *cells], TableName("texts")), dialect).text)
        assert len(rows) == len(TEXTS)
        for number, *moments in rows:
            text = TEXTS[int(str(number))]
            expected = [wanted(text, date_format, kind) for date_format in formats]
            assert [None if moment is None else str(moment) for moment in moments] == expected, text[:100]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    pq.write_table(pa.table({"n": range(len(TEXTS)), "t": TEXTS}), path)
    return path


def test_duckdb_reads_dates_as_python_does(file: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE texts AS FROM '{file}'")
        check(DUCKDB, lambda query: connection.execute(query).fetchall())


def test_postgresql_reads_dates_as_python_does(postgresql: str) -> None:
    with psycopg.connect(postgresql) as connection:
        connection.execute("CREATE TEMPORARY TABLE texts (n int, t text)")
        connection.execute("SET datestyle = 'SQL, DMY'")  # whatever the server's own habits are
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO texts VALUES (%s, %s)", list(enumerate(TEXTS)))
        check(POSTGRESQL, lambda query: connection.execute(query).fetchall())


@pytest.mark.parametrize(("place", "dialect"), [("spark", SPARK), ("sail", SAIL)])
def test_spark_reads_dates_as_python_does(
    request: pytest.FixtureRequest, file: Path, place: str, dialect: SparkDialect
) -> None:
    server = SparkServer(request.getfixturevalue(place))
    formats = FORMATS if "HUSH_SPARK_CASES" in os.environ else FORMATS[::3]  # every one takes Spark a second
    with server.transaction() as transaction:
        transaction.session.read.parquet(str(file)).createOrReplaceTempView("texts")
        check(dialect, lambda query: [tuple(row) for row in transaction.session.sql(query).collect()], formats)
        transaction.session.catalog.dropTempView("texts")


@pytest.mark.parametrize("cells", [[1, 2], [True, False], [b"1", b"2"], [1.5, None]])
def test_a_format_of_what_is_no_text_is_refused_at_once(cells: list[object]) -> None:
    with pytest.raises(SourceError, match="column 'day' of table 'data' has the format '%d/%m/%Y' of dates in texts"):
        protect(pa.table({"day": cells}), types={"day": "date"}, formats={"day": "%d/%m/%Y"}, budget=1)


@pytest.mark.parametrize("cells", [["1/2/2024", None], [dt.date(2024, 2, 1), None], [dt.datetime(2024, 2, 1), None]])
def test_a_format_of_texts_and_dates_is_not(cells: list[object]) -> None:
    with protect(pa.table({"day": cells}), formats={"day": " %d/%m/%Y"}, budget="1e9") as curator:
        answer = curator.ask("SELECT COUNT(day) AS n FROM data WHERE day = '2024-02-01'", epsilon="1e8")
        assert answer.rows()[0]["n"] == 1
