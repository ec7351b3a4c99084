"""Sources that are odd, broken, empty or change: the owner hears of it, and no row's content shows in an error."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from fractions import Fraction
from random import Random

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from seams import duckdb_engine

from hush.curator.opening import open_policy, protect
from hush.engines.duckdb import files, text_files
from hush.engines.duckdb.sources import Source
from hush.engines.errors import EngineError, SourceError
from hush.query.plan import plan
from hush.query.plan.stability import Count, Total
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type

SECRET = "s3cr3t"  # noqa: S105 - a value that must not show


def exact(curator, sql: str) -> list[list[Fraction]]:
    """Return the exact counts, and sums in the columns' own units."""
    desk, how = curator.plan(sql, epsilon=1)
    found = desk.engine.run(how)
    steps = [
        item.factors[0].step if isinstance(item, Total) else Fraction(1, item.bound if isinstance(item, Count) else 1)
        for item in how.exact_query.statistics
    ]
    return [
        [value * step for value in found.statistics[item].tolist()]
        for item, step in zip(how.exact_query.statistics, steps, strict=True)
    ]


def text_that_is_not_utf8() -> pa.Array:
    raw = [b"a", b"\xff\xfe" + SECRET.encode(), b"b"]
    ends = [0, *(sum(map(len, raw[: at + 1])) for at in range(3))]
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))])


@pytest.mark.skipif(not files._mends_texts(duckdb.connect()), reason="this engine refuses it at the start")
def test_a_parquet_text_that_is_not_utf8_concerns_its_own_row(tmp_path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"t": text_that_is_not_utf8(), "x": [1, 2, 3]}), path)
    with protect(path, values={"t": ["a", "b"]}, bounds={"x": (0, 5)}, budget=10) as curator:
        assert exact(curator, "SELECT t, SUM(x) AS s FROM data GROUP BY t") == [[1, 3]]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [[3]]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE t IS NULL") == [[1]]


def test_where_the_engine_must_refuse_it_that_happens_at_the_start(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(files, "_mends_texts", lambda _: False)
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"t": text_that_is_not_utf8()}), path)
    with caplog.at_level(logging.INFO, "hush"), pytest.raises(SourceError) as caught:
        protect(path, budget=10)
    assert SECRET not in str(caught.value)
    assert not caplog.records
    pq.write_table(pa.table({"t": ["a", None]}), path)
    with protect(path, values={"t": ["a"]}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(t) AS n FROM data") == [[1]]


@pytest.mark.parametrize("known", [True, False])
def test_nan_is_null_even_where_a_file_s_statistics_leave_it_out(known: bool, tmp_path, monkeypatch) -> None:
    # written with the least and greatest value 2: the engine would take "between 1 and 3" for granted
    if not known:
        monkeypatch.setattr(files, "_mends_texts", lambda _: False)
    path = tmp_path / "data.parquet"
    nan = float("nan")
    pq.write_table(pa.table({"id": [1, 2, 3], "x": [2.0, nan, 2.0], "y": [nan, 2.0, 2.0]}), path)
    bounds = {"x": (1, 3, 1), "y": (1, 3)}
    with protect(path, unit="id", bounds=bounds, budget=10) as curator:
        assert exact(curator, "SELECT SUM(x) AS s FROM data") == [[4]]
        assert exact(curator, "SELECT COUNT(x) AS n, COUNT(y) AS m FROM data") == [[2], [2]]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE x IS NULL") == [[1]]
    with protect(path, unit="id", values={"x": [2, 3]}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(x) AS n FROM data") == [[2]]


def test_a_frame_s_text_that_is_not_utf8_is_refused_at_the_start() -> None:
    with pytest.raises(SourceError) as caught:
        protect(pa.table({"t": text_that_is_not_utf8()}), budget=10)
    assert SECRET not in str(caught.value)


BROKEN = {
    "data.parquet": b"",
    "data.csv": b"",
    "data.json": b"",
    "data.arrow": b"nothing of the kind",
    "data.duckdb": b"nothing of the kind",
    "data.sqlite": b"nothing of the kind" * 100,
}


@pytest.mark.parametrize("label", BROKEN)
def test_a_file_that_is_not_what_its_name_says_is_refused(label: str, tmp_path) -> None:
    path = tmp_path / label
    path.write_bytes(BROKEN[label])
    with pytest.raises(SourceError):
        protect(path, budget=1)


def test_a_parquet_file_whose_pages_are_damaged_gives_one_public_text(tmp_path) -> None:
    path = tmp_path / "data.parquet"
    rows = 10_000
    pq.write_table(pa.table({"id": list(range(rows)), "x": [float(at) for at in range(rows)]}), path)
    damaged = bytearray(path.read_bytes())
    damaged[100 : len(damaged) // 2] = b"\xff" * (len(damaged) // 2 - 100)
    path.write_bytes(damaged)
    with protect(path, unit="id", bounds={"x": (0, 9)}, budget=10) as curator:
        with pytest.raises(EngineError) as caught:
            curator.ask("SELECT SUM(x) AS s FROM data", epsilon=1)
        assert str(caught.value) == str(EngineError())
        assert curator.budget()[0].remaining.epsilon == 9


@pytest.mark.parametrize("label", ["data.parquet", "data.csv"])
def test_an_empty_table_is_answered_like_any_other(label: str, tmp_path) -> None:
    path = tmp_path / label
    if label.endswith("csv"):
        path.write_text("id,x,t\n")
    else:
        empty = {"id": pa.array([], pa.int64()), "x": pa.array([], pa.float64()), "t": pa.array([], pa.string())}
        pq.write_table(pa.table(empty), path)
    options = {"unit": "id", "bounds": {"x": (0, 1)}, "budget": {"epsilon": 100, "delta": "1e-6"}}
    wanted = "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, MEDIAN(x) AS q, COUNT(DISTINCT id) AS u"
    with protect(path, **options) as curator:
        assert exact(curator, f"SELECT {wanted} FROM data")[0] == [0]
        assert len(curator.ask(f"SELECT {wanted} FROM data", epsilon=1)) == 1
        assert len(curator.ask(f"SELECT t, {wanted} FROM data GROUP BY t", epsilon=1)) == 0
    with protect(path, **options, values={"t": ["a", "b"]}) as curator:
        assert len(curator.ask(f"SELECT t, {wanted} FROM data GROUP BY t", epsilon=1)) == 2


@pytest.mark.parametrize(
    "frame",
    [
        pa.table([[1], [2]], names=["a", "a"]),
        pa.table([[1], [2]], names=["a", "A"]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["a", "A"]),
    ],
)
def test_two_columns_of_one_name_are_refused(frame: object) -> None:
    with pytest.raises(SourceError):
        protect(frame, budget=1)


@pytest.mark.parametrize("header", ["a,a", "a,A", "", '"a\nb",c', ",column_1"])
def test_a_header_without_distinct_names_is_refused(header: str, tmp_path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"{header}\n1,2\n")
    with pytest.raises(SourceError):
        protect(path, budget=1)


def test_how_a_file_is_loaded_changes_nothing(tmp_path, monkeypatch) -> None:
    """A file of plain lines goes to the engine as it is, any other rewritten: the rows must be the same."""
    rng, path = Random(7), tmp_path / "data.csv"
    parts = ["a", "1", " ", "é", "NULL", "\\N", "", "0.5", "'", "#x", "-", "\t", "\x00", "\xa0", "//"]
    names = ["a", "b", "c"]
    connection, ways = duckdb.connect(), 0

    def rows() -> list[str]:
        scratch, source = tmp_path / "scratch", Source.of(path)
        read = text_files.TextTable(
            connection=connection, source=source, scratch=scratch, names=names, columns=names, types={}
        )
        read.load("t")
        return sorted(map(repr, connection.execute("FROM t").fetchall()))

    for _ in range(100):
        sizes = [rng.choice([3] * 20 + [2, 4, 1, 0]) for _ in range(rng.randint(0, 8))]
        lines = [
            ",".join("".join(rng.choice(parts) for _ in range(rng.randint(0, 2))) for _ in range(n)) for n in sizes
        ]
        text = "\n".join(["a,b,c", *lines]) + rng.choice(["", "\n", "\n\n"])
        path.write_bytes(text.encode().replace("é".encode(), rng.choice(["é".encode(), "é".encode(), b"\xff"])))
        ways += text_files.plain_rows(path) is not None
        quick = rows()
        assert len(quick) == len([line for line in lines if line])
        with monkeypatch.context() as patch:
            patch.setattr(text_files, "plain_rows", lambda _: None)
            assert quick == rows(), text
    assert 20 < ways < 80


def test_a_csv_file_that_comes_to_hold_quotes(tmp_path) -> None:
    path, new = tmp_path / "data.csv", tmp_path / "new.csv"
    path.write_text("id,x\n1,1\n2,2\n")
    sql = "SELECT SUM(x) AS s FROM data"
    with protect(path, unit="id", bounds={"x": (0, 10, 1)}, budget=100) as curator:
        assert exact(curator, sql) == [[3]]
        new.write_text('id,x\n"1","5"\n2,2\n')
        new.replace(path)
        assert exact(curator, sql) == [[7]]
        new.write_text("id,y\n1,1\n")
        new.replace(path)
        with pytest.raises(SourceError, match="no longer what it was"):
            curator.ask(sql, epsilon=1)


def test_a_file_that_changes_while_the_curator_runs(tmp_path) -> None:
    path, new = tmp_path / "data.parquet", tmp_path / "new.parquet"

    def becomes(**columns: object) -> None:
        pq.write_table(pa.table(columns), new)
        new.replace(path)

    becomes(id=[1, 2, 3], x=[1.0, 2.0, 3.0])
    sql = "SELECT SUM(x) AS s FROM data"
    with protect(path, unit="id", bounds={"x": (0, 10, 1)}, budget=100) as curator:
        assert exact(curator, sql) == [[6]]
        becomes(id=[1, 2, 3, 4], x=[1.0, 2.0, 3.0, 4.0])
        assert exact(curator, sql) == [[10]]
        for columns in ({"id": [1], "other": [1.0]}, {"id": [1], "x": [SECRET]}):
            becomes(**columns)
            with pytest.raises(SourceError, match="no longer what it was"):
                curator.ask(sql, epsilon=1)
        path.write_bytes(b"junk")
        with pytest.raises(SourceError, match="no longer what it was"):
            curator.ask(sql, epsilon=1)
        path.unlink()
        with pytest.raises(SourceError, match="gone"):
            curator.ask(sql, epsilon=1)
        assert curator.budget()[0].remaining.epsilon == 100
        becomes(id=[1, 2], x=[5.0, 5.0])
        assert exact(curator, sql) == [[10]]


def test_a_file_that_goes_between_charge_and_answer(tmp_path, monkeypatch) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), path)
    with protect(path, unit="id", bounds={"x": (0, 10, 1)}, budget=100) as curator:
        engine = curator.data_sets["data"].engine
        execute = engine.execute
        monkeypatch.setattr(engine, "execute", lambda *given: path.unlink() or execute(*given))
        with pytest.raises(EngineError) as caught:
            curator.ask("SELECT SUM(x) AS s FROM data", epsilon=1)
        assert str(caught.value) == str(EngineError())
        assert curator.budget()[0].remaining.epsilon == 99


def test_a_sqlite_file_that_is_damaged_in_its_middle_is_refused_before_the_charge(tmp_path) -> None:
    path = tmp_path / "data.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE data (x)")
        connection.executemany("INSERT INTO data VALUES (?)", [(row % 7,) for row in range(20_000)])
    with protect(path, bounds={"x": (0, 7)}, budget=1) as curator:
        data = bytearray(path.read_bytes())
        middle = len(data) // 3
        data[middle : middle + 5000] = bytes([255]) * 5000
        path.write_bytes(data)
        with pytest.raises(SourceError, match="nothing was charged"):
            curator.ask("SELECT SUM(x) AS s FROM data", epsilon=1)
        assert not curator.history()
    with pytest.raises(SourceError, match="cannot be read"):
        protect(path, bounds={"x": (0, 7)}, budget=1)


def test_a_sqlite_table_without_rows(tmp_path) -> None:
    path = tmp_path / "data.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE data (id, x)")
    connection.commit()
    connection.close()
    with protect(path, unit="id", bounds={"x": (0, 1)}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [[0]]


# columns that are declared without NULL

POLICY = """
[data.d]
unit = "id"
budget = { epsilon = "100" }
[data.d.tables.t]
source = "t.parquet"
max_rows = 3
columns.i = { type = "integer", lower = 3, upper = 9, nullable = false }
columns.d = { type = "decimal", lower = -8, upper = -1, step = "0.25", nullable = false }
columns.b = { type = "boolean", nullable = false }
columns.v = { type = "integer", values = [-7, 5, 11], nullable = false }
[analysts.a]
data = ["d"]
budget = { epsilon = "100" }
"""


def test_what_is_missing_in_a_column_without_null_counts_as_the_policy_says(tmp_path) -> None:
    (tmp_path / "hush.toml").write_text(POLICY)
    rows = {
        "id": [1, 2, 3],
        "i": pa.array([None, 4, 100], pa.int64()),
        "d": pa.array([None, float("nan"), -2.25], pa.float64()),
        "b": pa.array([None, True, None], pa.bool_()),
        "v": pa.array([None, 11, 6], pa.int64()),
    }
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    with open_policy(tmp_path / "hush.toml", create=True) as curator:
        # 3 + 4 + 9; -1 - 1 - 2.25; 6 is not listed
        assert exact(curator, "SELECT SUM(i) AS s FROM t") == [[16]]
        assert exact(curator, "SELECT SUM(d) AS s FROM t") == [[Fraction(-17, 4)]]
        assert exact(curator, "SELECT COUNT(*) FILTER (WHERE b) AS n FROM t") == [[1]]
        assert exact(curator, "SELECT COUNT(*) FILTER (WHERE NOT b) AS n FROM t") == [[2]]
        assert exact(curator, "SELECT SUM(v) AS s FROM t") == [[21]]
        assert exact(curator, "SELECT COUNT(i) AS n FROM t") == [[3]]
        assert exact(curator, "SELECT COUNT(*) AS n FROM t WHERE i IS NULL OR d IS NULL OR b IS NULL") == [[0]]


@pytest.mark.parametrize("wanted", ["SUM(x)", "AVG(x)", "VARIANCE(x)", "SUM(COALESCE(x, 5000) * 2)", "COVAR_POP(x, y)"])
@pytest.mark.parametrize("step", [None, Fraction(1, 100)])
def test_null_in_a_column_without_null_stays_within_the_sensitivity(wanted: str, step: Fraction | None) -> None:
    # bounds far from zero: a missing value taken for zero would weigh a thousand, not five
    type_ = Type(Kind.DECIMAL, False, Fraction(1000), Fraction(1010), step)
    table = Table(name="t", columns={"x": type_, "y": type_}, unit=UnitPath(column="id"), max_rows=2)
    about = Schema(data="d", tables={"t": table}, unit="id")
    how = plan(parse(f"SELECT {wanted} AS a FROM t", about), about, epsilon=1)
    answers = []
    for rows in ([None, None, None], []):
        ids = [1] * len(rows)
        data = {"id": pa.array(ids, pa.int64()), **{label: pa.array(rows, pa.float64()) for label in "xy"}}
        with duckdb_engine(about, {"t": pa.table(data)}, threads=1) as engine:
            answers.append({item: values.tolist() for item, values in engine.run(how).statistics.items()})
    for noise in how.noises:
        change = [abs(answers[0][item][0] - answers[1][item][0]) for item in noise.statistics]
        assert sum(change) <= noise.law.sensitivity * noise.law.contribution.units


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_of_a_database_is_named_after_its_file(tmp_path, kind: str) -> None:
    path = tmp_path / "with#sign" / f"base.{kind}"
    path.parent.mkdir()
    connection = duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path)
    for name, rows in (("first", 3), ("second", 5)):
        connection.execute(f"CREATE TABLE {name} (x INTEGER)")
        connection.executemany(f"INSERT INTO {name} VALUES (?)", [(at,) for at in range(rows)])
    connection.commit()
    connection.close()
    for name, rows in (("first", 3), ("Second", 5)):
        with protect(f"{path}#{name}", budget=10) as curator:
            assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [[rows]]
    for origin in (path, f"{path}#third"):
        with pytest.raises(SourceError, match=f"first, second; name one: 'base.{kind}#TABLE'"):
            protect(origin, budget=10)


def test_a_quote_is_no_burden_to_a_wide_file(tmp_path) -> None:
    """What reads the file is longer than any question may be, and that is no concern of a question's."""
    path, names = tmp_path / "t.csv", [f"column_{at}" for at in range(1500)]
    rows = [[str(at), *["7"] * 1498, '"8"'] for at in range(3)]
    path.write_text("\n".join(map(",".join, [names, *rows])), encoding="utf-8")
    with protect(path, bounds={"column_0": (0, 9, 1), "column_1499": (0, 9, 1)}, budget=10) as curator:
        assert exact(curator, "SELECT SUM(column_0) AS s, SUM(column_1499) AS t FROM data") == [[3], [24]]
