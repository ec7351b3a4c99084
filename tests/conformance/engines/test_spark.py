"""Spark as a curator's engine: the whole way of a question, files, faults, secrets, names, values that trap."""

from __future__ import annotations

import datetime as dt
import importlib.util
import logging
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benches import POLICY
from pyarrow import orc
from spark_clinic import ROWS, Clinic, views_of

from hush.cli import run
from hush.core import HushError
from hush.curator.kept_release import plan_rows
from hush.curator.opening import open_policy
from hush.engines.errors import EngineError, SourceError
from hush.engines.spark import SparkTables
from hush.engines.spark.connection import SparkServer, check_address, check_java
from hush.engines.spark.dialect import SPARK, atomic_expression
from hush.engines.sql.nodes import ParameterRows, call, column, read, select
from hush.engines.sql.render import plain, render
from hush.query.plan.stability import Units
from hush.query.schema import Schema, Table, UnitPath
from hush.query.types import Kind, Type

ZONES = """
[data.clinic.tables.zones]
source = "zones.parquet"
public = true
[data.clinic.tables.zones.columns]
city = {{ type = "text" }}
zone = {{ type = "text", values = ["n", "s"] }}
"""


@pytest.fixture
def clinic(spark: str, tmp_path: Path) -> Clinic:
    return Clinic(spark, tmp_path)


@pytest.fixture(scope="module")
def server(spark: str) -> Iterator[SparkServer]:
    made = SparkServer(spark, timeout=100)
    yield made
    made.close()


def test_keys_quantiles_functions_and_threads_leave_no_view_behind(clinic: Clinic) -> None:
    with clinic.open() as curator:
        answer = curator.ask(
            "SELECT city, COUNT(*) AS n, MEDIAN(cost) AS m, 2 * COUNT(*) AS twice FROM visits GROUP BY city ORDER BY 1",
            epsilon="20",
        )
        assert [row["city"] for row in answer.rows()] == ["a", "b", "c"]
        failures: list[HushError] = []

        def ask() -> None:
            try:
                found = curator.ask("SELECT name, AVG(cost) AS m FROM visits GROUP BY name", epsilon="10")
                assert len(found.rows()) == 4
            except HushError as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        with pytest.raises(HushError):
            curator.ask("SELECT COUNT(*) AS n FROM visits WHERE secret = 'hidden word'", epsilon="1")
        assert not views_of(curator)
    assert run(["engine", "check", "--policy", str(clinic.folder / "hush.toml")]) == 0


def test_a_list_without_keys_is_a_list(server: SparkServer) -> None:
    """As of groups with private keys of which none is chosen."""
    rows = ParameterRows(((1, "VARCHAR"), (2, "INTEGER")), "l", ("k", "c"))
    statement = render(select([column("k", "l"), column("c", "l")], rows), SPARK, views="test")
    for values, expected in (({1: [], 2: []}, []), ({1: ["a"], 2: [0]}, [("a", 0)])):
        with server.transaction() as transaction:
            assert transaction.fetch(statement, values) == expected


def test_what_spark_says_goes_nowhere(
    server: SparkServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="hush")
    for piece in ("CAST(x AS INT)", "RAISE_ERROR(x)", "1 / (LENGTH(x) - 11)", "nothing_of(x)"):
        with pytest.raises(EngineError) as caught, server.transaction() as transaction:
            transaction.fetch(plain(f"SELECT {piece} FROM VALUES ('hidden word') AS t(x)"), {})
        assert caught.value.__context__ is None or caught.value.__suppress_context__
        assert "hidden" not in str(caught.value)
    shown = capfd.readouterr()
    assert "hidden" not in shown.out + shown.err + caplog.text
    assert "DIVIDE_BY_ZERO" in caplog.text
    assert "local" not in repr(server)


ODD = ["a`b", 'c"d', "e'f", "$1", "${HOME}", "g h", "Case", "case"]


def test_columns_and_files_with_odd_names_and_types_are_read(spark: str, tmp_path: Path) -> None:
    frame = pa.table({name: pa.array([at, None]) for at, name in enumerate(ODD)})
    pq.write_table(frame, tmp_path / "odd.parquet")
    kinds = pa.table(
        {
            "a": pa.array([1, 2], pa.int16()),
            "b": pa.array([1.5, None], pa.float32()),
            "t": pa.array(["a", "b"]),
            "u": pa.array([2**64 - 1, 0], pa.uint64()),
            "at": pa.array([0, 1], pa.timestamp("us")),
            "instant": pa.array([0, 1], pa.timestamp("us", "Europe/Berlin")),
            "raw": pa.array([b"x", b"y"], pa.binary()),
        }
    )
    pq.write_table(kinds, tmp_path / "kinds.parquet")
    with SparkTables(spark, {"odd": "odd.parquet", "kinds": "parquet:kinds.parquet"}, directory=tmp_path) as opened:
        assert list(opened.types["odd"]) == ODD
        assert opened.types["kinds"] == {
            "a": "SMALLINT", "b": "FLOAT", "t": "VARCHAR", "u": "DECIMAL(20,0)", "at": "TIMESTAMP",
            "instant": "TIMESTAMP", "raw": "binary",
        }  # fmt: skip
        place = opened.register(Schema(data="odd", tables={"odd": Table(name="odd", columns={})})).tables["odd"]
        query = select([call("sum", column(name)) for name in ODD], read(place, "t"))
        with opened.server.transaction() as transaction:
            found = transaction.fetch(render(query, SPARK), {})
        assert found == [tuple(range(len(ODD)))]


def test_csv_json_orc_and_tables_of_the_catalogue_hold_the_same(spark: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text('id,note\n1,"a\n2,""b"""\n3,\n4,5,6\n')
    (tmp_path / "v.json").write_text('{"id": 1, "note": "a\\n2,\\"b\\""}\n{"id": 3}\nbroken\n{"id": 4, "note": 5}\n')
    orc.write_table(pa.table({"id": [1, 3, 4], "note": ['a\n2,"b"', None, "5"]}), tmp_path / "v.orc")
    keeper = SparkServer(spark)
    with keeper.transaction() as transaction:
        transaction.session.sql(f"CREATE TABLE IF NOT EXISTS `kept_visits` USING orc LOCATION '{tmp_path}/v.orc'")
    sources = {"csv": "well-formed csv:v.csv", "json": "v.json", "orc": "v.orc", "kept": "`kept_visits`"}
    with SparkTables(spark, sources, {"json": ["id", "note"]}, directory=tmp_path) as opened:
        tables = {name: Table(name=name, columns={}) for name in sources}
        places = opened.register(Schema(data="d", tables=tables)).tables
        found = {}
        for name in sources:
            with opened.server.transaction() as transaction:
                query = select([column("id").cast("INTEGER"), column("note")], read(places[name], "t"))
                found[name] = sorted(transaction.fetch(render(query.where(column("id").not_null()), SPARK), {}))
    with keeper.transaction() as transaction:
        transaction.session.sql("DROP TABLE `kept_visits`")
    keeper.close()
    expected = [(1, 'a\n2,"b"'), (3, None), (4, "5")]
    assert found == dict.fromkeys(sources, expected)


def ids_of(address: str, source: str, folder: Path) -> list[str]:
    with SparkTables(address, {"v": source}, directory=folder) as opened:
        place = opened.register(Schema(data="d", tables={"v": Table(name="v", columns={})})).tables["v"]
        with opened.server.transaction() as transaction:
            return sorted(
                row[0] for row in transaction.fetch(render(select([column("id")], read(place, "t")), SPARK), {})
            )


TIMED = Table(name="v", columns={"at": Type(Kind.TIMESTAMP)})


def registered(address: str, source: str, folder: Path, table: Table) -> None:
    with SparkTables(address, {"v": source}, directory=folder) as opened:
        opened.register(Schema(data="d", tables={"v": table}))


@pytest.mark.parametrize("place", ["spark", "connect"])
def test_times_at_which_a_row_could_fail_are_refused_before_any_question(
    request: pytest.FixtureRequest, place: str, tmp_path: Path
) -> None:
    """Of parquet in milliseconds, and of ORC: one beyond the year 294,000 fails every statement that reads it."""
    address = request.getfixturevalue(place)
    far = [1000, 9_300_000_000_000_000]
    pq.write_table(pa.table({"at": pa.array(far, pa.timestamp("ms"))}), tmp_path / "a coarse.parquet")
    pq.write_table(pa.table({"at": pa.array(far, pa.timestamp("us"))}), tmp_path / "fine.parquet")
    orc.write_table(pa.table({"at": pa.array([1, 10**13], pa.timestamp("s"))}), tmp_path / "times.orc")
    coarse, fine, other = (str(tmp_path / name) for name in ("a coarse.parquet", "fine.parquet", "times.orc"))
    message = "in milliseconds .at., at which Spark may fail" if place == "spark" else "may be beyond Spark's range"
    with pytest.raises(SourceError, match=message):
        registered(address, coarse, tmp_path, TIMED)
    with pytest.raises(SourceError, match="may be beyond Spark's range"):
        registered(address, other, tmp_path, TIMED)
    registered(address, f"parquet in microseconds:{fine}", tmp_path, TIMED)
    for source in (coarse, other):  # where nobody asks for them, or where no row is private
        registered(address, source, tmp_path, Table(name="v", columns={}))
        registered(address, source, tmp_path, replace(TIMED, public=True))
    if place == "spark":
        registered(address, fine, tmp_path, TIMED)


def test_a_file_in_milliseconds_that_comes_later_is_refused_before_the_charge(spark: str, tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("us"))}), tmp_path / "v" / "a.parquet")
    with SparkTables(spark, {"v": "parquet:v"}, directory=tmp_path) as opened:
        place = opened.register(Schema(data="d", tables={"v": TIMED})).tables["v"]
        statement = render(select([call("count", column("at"))], read(place, "t")), SPARK)
        pq.write_table(pa.table({"at": pa.array([2], pa.timestamp("ms"))}), tmp_path / "v" / "b.parquet")
        with pytest.raises(SourceError, match="in milliseconds"), opened.server.transaction() as transaction:
            transaction.resolve(statement)
        with pytest.raises(EngineError), opened.server.transaction() as transaction:
            transaction.fetch(statement, {})


def test_csv_that_nobody_vouches_for_is_refused_unless_it_is_public(spark: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("id,city\n1,x\n")
    with pytest.raises(SourceError, match="say so by 'well-formed csv:' before its path"):
        registered(spark, "v.csv", tmp_path, Table(name="v", columns={}))
    registered(spark, "v.csv", tmp_path, Table(name="v", columns={}, public=True))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_bytes_that_are_no_text_make_no_two_units_one(spark: str, tmp_path: Path, kind: str) -> None:
    rows = {"csv": b"id,city\na\xff,x\na\xfe,x\nb,x\n", "json": b'{"id": "a\xff"}\n{"id": "a\xfe"}\n{"id": "b"}\n'}
    (tmp_path / f"v.{kind}").write_bytes(rows[kind])
    source = "well-formed csv:v.csv" if kind == "csv" else "v.json"
    table = Table(name="v", columns={"id": Type(Kind.TEXT)}, unit=UnitPath(column="id"))
    with SparkTables(spark, {"v": source}, {"v": ["id"]}, directory=tmp_path) as opened:
        place = opened.register(Schema(data="d", tables={"v": table})).tables["v"]
        with opened.server.transaction() as transaction:
            found = transaction.fetch(render(select([column("id")], read(place, "t")), SPARK), {})
    assert sorted(found, key=str) == [("b",), (None,), (None,)]


def test_a_file_of_another_header_gives_no_row_another_unit(spark: str, tmp_path: Path) -> None:
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "a.csv").write_text("id,city\n1,x\n")
    (tmp_path / "visits" / "b.csv").write_text("id,city\n2,y\n")
    assert ids_of(spark, "well-formed csv:visits", tmp_path) == ["1", "2"]
    (tmp_path / "visits" / "b.csv").write_text("city,id\ny,2\n")
    with pytest.raises(EngineError):
        ids_of(spark, "well-formed csv:visits", tmp_path)


def test_folders_that_name_a_unit_are_texts(spark: str, tmp_path: Path) -> None:
    for unit in ("1", "01", "1.0"):
        (tmp_path / "visits" / f"id={unit}").mkdir(parents=True)
        pq.write_table(pa.table({"cost": [1.0]}), tmp_path / "visits" / f"id={unit}" / "rows.parquet")
    assert ids_of(spark, "parquet:visits", tmp_path) == ["01", "1", "1.0"]


def test_rows_that_are_units_are_told_apart_in_thousands_of_partitions(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of rows begin at 2³³ times a partition's, so those of the 1,024th times 2²⁰ are beyond 64 bits."""
    pq.write_table(pa.table({"city": ["a", "a", "b"], "zone": ["n", "s", "n"]}), clinic.folder / "zones.parquet")
    policy = POLICY.replace("[analysts", ZONES + "[analysts")
    for line in ('unit = "id"', "max_rows = 5", "max_groups = {groups}"):
        policy = policy.replace(f"{line}\n", "")
    path = clinic.folder / "rows.toml"
    path.write_text(policy.format(address=clinic.address, source="visits.parquet"))
    monkeypatch.setitem(SPARK.otherwise, "row_id", f"(MONOTONICALLY_INCREASING_ID() + {1024 * 2**33})")
    with open_policy(path, create=True) as curator:
        planned = plan_rows(curator.session, "SELECT z.zone FROM visits JOIN zones AS z ON visits.city = z.city")
        engine = curator.data_sets["clinic"].engine
        found = engine.rows(engine.prepare_rows(planned.plan))
    assert planned.plan.limits.units is Units.NUMBERED
    assert len(set(found.units.tolist())) == len([city for city in ROWS["city"] if city != "c"])


@pytest.mark.parametrize(
    "name",
    [
        "`; DROP TABLE x; --",
        "a.b.c.d.e",
        "x` UNION SELECT",
        "nowhere.visits",
        "$1",
        "visits; SELECT 1",
        "parquet:/nowhere",
    ],
)
def test_names_with_quotes_reach_no_other_table(clinic: Clinic, name: str) -> None:
    with pytest.raises(HushError):
        clinic.open(name)


@pytest.mark.parametrize("address", ["sc://spark.example/;token=s3cret", "sc://ann:s3cret@spark.example"])
def test_an_address_with_a_token_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(SourceError, match="holds no token") as caught:
        check_address(address)
    assert "s3cret" not in str(caught.value)


def test_what_is_missing_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SourceError, match="pip install 'hush\\[spark\\]'"):
        SparkServer("local[*]")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SourceError, match="Spark needs Java 17"):
        check_java()


TRAPS = [
    ("'2.5'", "BIGINT", 3), ("'-2.5'", "BIGINT", -3), ("'1e3'", "BIGINT", 1000), ("'1_000'", "BIGINT", None),
    ("'0x1F'", "BIGINT", None), ("'9223372036854775808'", "BIGINT", None), ("''", "BIGINT", None),
    ("'1e-999999999'", "BIGINT", None), ("'1.5f'", "DOUBLE", None), ("'1,5'", "DOUBLE", None),
    ("'1e400'", "DOUBLE", float("inf")), ("'1e-400'", "DOUBLE", 0.0), ("'-inf'", "DOUBLE", float("-inf")),
    ("' 2.5 '", "DOUBLE", 2.5), ("'5e-324'", "DOUBLE", 5e-324),
    ("'1.7976931348623157e308'", "DOUBLE", 1.7976931348623157e308),
    ("'now'", "DATE", None), ("'Jan 5 2021'", "DATE", None), ("'01/02/2021'", "DATE", None), ("'2021'", "DATE", None),
    ("'2021-02-30'", "DATE", None), ("'0-1-1'", "DATE", None), ("'12021-01-03'", "DATE", None),
    ("'2021/1-3'", "DATE", None), ("'5/5/5'", "DATE", dt.date(5, 5, 5)), ("'02021-1-3'", "DATE", dt.date(2021, 1, 3)),
    ("'2021-1-3 4:5'", "TIMESTAMP", dt.datetime(2021, 1, 3, 4, 5)), ("'yes'", "BOOLEAN", True),
    ("'on'", "BOOLEAN", None), ("'TRUE'", "BOOLEAN", True),
]  # fmt: skip
PIECES = [
    (SPARK.rounded("2.5e0D"), 3.0),
    (SPARK.rounded("-2.5e0D"), -3.0),
    (SPARK.rounded("0.49999999999999994e0D"), 0.0),
    (SPARK.scaled("0.49999999999999994e0D", times=None, over=None, most=Fraction(1)), 0.0),
    (SPARK.scaled("-2.5e0D", times=None, over=None, most=Fraction(9)), -3.0),
    (SPARK.rounded("4503599627370497.5e0D"), 4503599627370498.0),
    (SPARK.try_cast("CAST('NaN' AS DOUBLE)", "BIGINT", "DOUBLE"), None),
    (SPARK.try_cast("9223372036854775808e0D", "BIGINT", "DOUBLE"), None),
    (SPARK.try_cast("2.5e0D", "BIGINT", "DOUBLE"), 2),
    (SPARK.try_cast("3.5e0D", "BIGINT", "DOUBLE"), 4),
    (SPARK.float_operation("1e308D", "10e0D", operator="*", spans=()), float("inf")),
    (SPARK.float_operation("1e0D", "0e0D", operator="/", spans=()), None),
    (SPARK.float_operation("1e0D", "0e0D", operator="%", spans=()), None),
    (SPARK.float_operation("(-7.5e0D)", "2e0D", operator="%", spans=()), -1.5),
    (SPARK.call("ln", ["(-1e0D)"]), None),
    (SPARK.call("floor", ["1e300D"]), 1e300),
    (SPARK.call("ceil", ["(-2.5e0D)"]), -2.0),
    (SPARK.call("trim", ["'\u00a0a'"]), "a"),
    (SPARK.like("'a\\\\b'", characters=[(sign, False) for sign in "a\\b"]), True),
    (SPARK.like("'a%'", characters=[(sign, False) for sign in "a\\%"]), False),
    (SPARK.like("'a\nb'", characters=[(sign, False) for sign in "a%b"]), True),
    (SPARK.like("REPEAT('a', 10000)", characters=[(sign, False) for sign in "%a%a%a%a%a%b"]), False),
    (SPARK.quotient("-7", "2"), -3),
    (SPARK.quotient("CAST('1000000000000000000000000000000' AS DECIMAL(38,0))", "7", wide=True), 10**30 // 7),
    (SPARK.weighted_down("CAST(-10 AS DECIMAL(38,0))", "CAST(3 AS BIGINT)", rows=2, floor=True), -7),
    (SPARK.weighted_down("CAST(-10 AS DECIMAL(38,0))", "CAST(3 AS BIGINT)", rows=2, floor=False), -6),
    (SPARK.weighted_down("CAST(-10 AS BIGINT)", "CAST(3 AS BIGINT)", rows=2, floor=True, narrow=True), -7),
    (SPARK.cast("9007199254740994e0D", "HUGEINT", "DOUBLE"), 9007199254740994),
    (SPARK.cast("1267650600228229401496703205376e0D", "HUGEINT", "DOUBLE"), 2**100),
    (SPARK.substring("'abc'", start=0, size=2), "a"),
    (SPARK.date_diff("DATE'2020-01-31'", "DATE'2020-02-01'", unit="month"), 1),
    (SPARK.date_diff("DATE'2021-01-03'", "DATE'2021-01-04'", unit="week"), 0),
    (SPARK.date_diff("DATE'2021-01-10'", "DATE'2021-01-03'", unit="week"), -1),
    (SPARK.rounded("1e308D", 1), 1e308),
    (SPARK.call("dayofweek", ["DATE'2021-01-03'"]), 0),
    (SPARK.moved("TIMESTAMP_NTZ'0001-01-01'", months=-12 * 9000, days=0, microseconds=0), None),
    (SPARK.try_cast("DATE_ADD(DATE'1970-01-01', 200000000)", "TIMESTAMP", "DATE"), None),
    (SPARK.text("${spark.app.name} it's \\ \\u0027"), "${spark.app.name} it's \\ \\u0027"),
]


def test_values_that_trap(server: SparkServer) -> None:
    """All of them in one statement: what raised would fail it."""
    casts = [SPARK.try_cast(f"CAST({value} AS STRING)", to, "VARCHAR") for value, to, _ in TRAPS]
    pieces = [*casts, *(piece for piece, _ in PIECES)]
    with server.transaction() as transaction:
        # from a table: constants would be computed by the planner, which is more lenient
        rows = transaction.fetch(plain(f"SELECT {', '.join(pieces)} FROM RANGE(1)"), {})
    expected = [*(result for *_, result in TRAPS), *(result for _, result in PIECES)]
    found = dict(zip(pieces, zip(rows[0], expected, strict=True), strict=True))
    assert {piece: pair for piece, pair in found.items() if pair[0] != pair[1]} == {}


def test_parts_of_a_pattern_are_atomic() -> None:
    assert atomic_expression([("%", False), ("5", False), ("%", True), ("%", False)]) == r"(?s)\A(?>.*?5%).*\z"
