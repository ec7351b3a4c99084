"""The DuckDB engine: every kind of source gives the same answers, and the connection is locked up."""

from __future__ import annotations

import sqlite3
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from seams import duckdb_engine, run_in

from hush.curator.opening import protect
from hush.engines.errors import EngineError, SourceError
from hush.query.plan import plan
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse

ROWS = 200
FRAME = pd.DataFrame(
    {
        "id": [at // 2 for at in range(ROWS)],
        "age": [at % 90 for at in range(ROWS)],
        "city": ["north" if at % 3 else "south" for at in range(ROWS)],
        "cost": [at / 8 for at in range(ROWS)],
    }
)
SQL = "SELECT city, COUNT(*) AS n, SUM(age) AS s, SUM(cost) AS c FROM data GROUP BY city"
OPTIONS = {
    "unit": "id",
    "bounds": {"age": (0, 100, 1), "cost": (0, 100, "0.125")},
    "values": {"city": ["north", "south", "west"]},
    "budget": 1000,
    "max_rows": 2,
    "max_groups": 2,
}


def write(kind: str, directory):
    path = directory / f"data.{kind}"
    match kind:
        case "parquet":
            pq.write_table(pa.Table.from_pandas(FRAME), path)
        case "csv":
            FRAME.to_csv(path, index=False)
        case "json":
            FRAME.to_json(path, orient="records", lines=True)
        case "duckdb":
            connection = duckdb.connect(str(path))
            connection.register("frame", pa.Table.from_pandas(FRAME))
            connection.execute("CREATE TABLE data AS SELECT * FROM frame")
            connection.close()
        case "sqlite":
            connection = sqlite3.connect(path)
            connection.execute("CREATE TABLE data (id, age, city, cost)")
            connection.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", FRAME.itertuples(index=False, name=None))
            connection.commit()
            connection.close()
        case "arrow":
            from pyarrow import feather

            feather.write_feather(pa.Table.from_pandas(FRAME), path)
        case "pandas":
            return FRAME
        case "polars":
            return pl.from_pandas(FRAME)
        case _:
            return pa.Table.from_pandas(FRAME)
    return path


def exact(curator, sql: str):
    desk, how = curator.plan(sql, epsilon=1)
    found = desk.engine.run(how)
    return found.keys, [found.statistics[item].tolist() for item in how.exact_query.statistics]


@pytest.mark.parametrize("kind", ["parquet", "csv", "duckdb", "sqlite", "arrow", "pandas", "polars", "table", "json"])
def test_every_source_gives_the_same_integers(kind: str, tmp_path) -> None:
    with protect(pa.Table.from_pandas(FRAME), **OPTIONS) as curator:
        expected = exact(curator, SQL)
    with protect(write(kind, tmp_path), **OPTIONS) as curator:
        assert exact(curator, SQL)[0] == expected[0]
        # which groups of a unit are kept depends on the process's own hash key, so totals are compared
        assert [sum(values) for values in exact(curator, SQL)[1]] == [sum(values) for values in expected[1]]


@pytest.mark.parametrize(
    "line",
    [
        b'7,"two\nlines"',
        b'7,"two\r\nlines"',
        b"7,stray\rreturn",
        b"7,dos\r",
        b'7,"half"quoted',
        b'7,"left open',
        b'"7,left open',
        b'7,ab"c',
        b'7,"',
        b"7,a\x1fb",
        b"7," + b"x" * 3_000_000,
        b"",
        b"7",
        b"7,a,b,c",
        b"\xff,\xff",
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_no_line_of_a_csv_file_spoils_the_others(line: bytes, end: bytes, tmp_path) -> None:
    others = [b"%d,x" % at for at in range(100)]
    path = tmp_path / "data.csv"
    path.write_bytes(end.join([b"id,t", *others, line, *others, b""]))
    with protect(path, unit="id", budget=10, max_rows=2) as curator:
        assert 200 <= exact(curator, "SELECT COUNT(*) AS n FROM data")[1][0][0] <= 201


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_quoted_fields_are_taken_apart(suffix: str, delimiter: str, tmp_path) -> None:
    path = tmp_path / f"data.{suffix}"
    rows = [
        ("1", "plain"),
        ("2", f'"with {delimiter} inside"'),
        ("3", '"a ""quoted"" word"'),
        ('"4"', "x"),
        ("5", '""'),
        ("6", ""),
        ("", '"nobody"'),
        ("8", '""""'),
        ("9", " spaced "),
    ]
    path.write_text("\ufeffid" + delimiter + "t\r\n" + "".join(delimiter.join(row) + "\r\n" for row in rows), "utf-8")
    with protect(path, unit="id", budget=10) as curator:
        curator.data_sets["data"].engine.connection.refresh()
        stored = run_in(curator.data_sets["data"].engine, 'SELECT * FROM "table_0"')
    assert stored == [
        ("1", "plain"),
        ("2", f"with {delimiter} inside"),
        ("3", 'a "quoted" word'),
        ("4", "x"),
        ("5", None),
        ("6", None),
        (None, "nobody"),
        ("8", '"'),
        ("9", " spaced "),
    ]


def test_the_widest_integers_are_read_whatever_they_are(tmp_path) -> None:
    path = tmp_path / "data.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("CREATE TABLE data AS SELECT CAST(x AS UHUGEINT) AS x FROM (VALUES (5), (7)) AS v(x)")
    connection.execute(f"INSERT INTO data VALUES ({2**128 - 1}::UHUGEINT)")
    connection.close()
    with protect(path, bounds={"x": (0, 10, 1)}, budget=10) as curator:
        assert exact(curator, "SELECT SUM(x) AS s FROM data")[1] == [[22]]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i, COUNT(*) AS n FROM data WHERE i IN (1, 1.25, 1.5, 1.6, 2) GROUP BY i",
        "SELECT CASE WHEN i = 1 THEN 0.1 ELSE 0.10000000000000000001 END AS k, COUNT(*) AS n FROM data GROUP BY k",
        "SELECT CASE WHEN i = 1 THEN 1e-9 ELSE 0.00000000100000000000000000001 END AS k, COUNT(*) FROM data GROUP BY k",
    ],
)
def test_a_row_is_in_one_group_even_if_keys_are_one_number_to_the_engine(sql: str) -> None:
    with protect(pa.table({"i": [1, 1, 2]}), bounds={"i": (0, 10, 1)}, budget=10) as curator:
        assert sum(exact(curator, sql)[1][0]) == 3


def test_keys_made_from_a_decimal_column_meet_its_rows() -> None:
    with protect(pa.table({"x": [1.0, 1.0, 2.5]}), bounds={"x": (0, 3, "0.5")}, budget=10) as curator:
        for expression in ("CAST(x AS VARCHAR)", "CAST(x * 10 AS VARCHAR)", "FLOOR(x)"):
            sql = f"SELECT {expression} AS k, COUNT(*) AS n FROM data GROUP BY k"
            assert sorted(exact(curator, sql)[1][0])[-2:] == [1, 2]


def test_a_unit_is_one_whatever_type_its_tables_store_it_in() -> None:
    unit = UnitPath(column="id")
    tables = {label: Table(name=label, columns={}, unit=unit) for label in ("a", "b", "c")}
    schema = Schema(data="d", tables=tables, unit="id")
    sources = {
        "a": pa.table({"id": pa.array([7, 8, 2**60], pa.int64())}),
        "b": pa.table({"id": pa.array([7.0, 8.0, 2.0**60, None], pa.float64())}),
        "c": pa.table({"id": pa.array([Decimal("7.00"), Decimal("8.00")], pa.decimal128(10, 2))}),
    }
    union = " UNION ALL ".join(f"SELECT id FROM {label}" for label in tables)
    question = parse(f"SELECT COUNT(*) AS n FROM ({union})", schema)
    with duckdb_engine(schema, sources) as engine:
        # one row of each of the three units counts; without the limit of one all eight rows do
        for most, counted in ((1, 3), (None, 8)):
            how = plan(question, schema, epsilon=1, max_rows=most)
            assert [values.tolist() for values in engine.run(how).statistics.values()] == [[counted]]


def test_missing_and_corrupt_sources_are_refused_before_anything_is_asked(tmp_path) -> None:
    with pytest.raises(SourceError, match="no file"):
        protect(tmp_path / "nothing.parquet", budget=1)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(SourceError):
        protect(broken, budget=1)
    with pytest.raises(SourceError, match="cannot tell"):
        protect(tmp_path / "data.xyz", budget=1)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "RESET lock_configuration",
        "SELECT * FROM 'https://example.org/x.parquet'",
        "SELECT getenv('HOME')",
        "CREATE SECRET s (TYPE s3)",
    ],
)
def test_the_connection_is_locked_up(statement: str) -> None:
    schema = Schema(data="d", tables={"t": Table(name="t", columns={})})
    with duckdb_engine(schema, {"t": pa.table({"a": [1]})}) as engine, pytest.raises(EngineError):
        run_in(engine, statement)


def test_python_variables_are_not_tables() -> None:
    schema = Schema(data="d", tables={"t": Table(name="t", columns={})})
    secret = pa.table({"a": [1]})
    with duckdb_engine(schema, {"t": secret}) as engine, pytest.raises(EngineError):
        run_in(engine, "SELECT * FROM secret")


def test_a_long_statement_is_interrupted() -> None:
    schema = Schema(data="d", tables={"t": Table(name="t", columns={})})
    with duckdb_engine(schema, {"t": pa.table({"a": [1]})}, timeout=0.2) as engine, pytest.raises(EngineError):
        run_in(engine, "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")


def test_what_does_not_fit_into_memory_spills() -> None:
    schema = Schema(data="d", tables={"t": Table(name="t", columns={})})
    with duckdb_engine(schema, {"t": pa.table({"a": [1]})}, memory="150MB", threads=1) as engine:
        rows = run_in(
            engine, "SELECT count(*) FROM (SELECT range AS r, hash(range) AS h FROM range(6000000) ORDER BY h OFFSET 1)"
        )
    assert rows == [(5_999_999,)]
