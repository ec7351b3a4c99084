"""CSV and JSON as people have them: a row counts whatever its cells hold, in the oldest and newest engine."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.curator.opening import protect
from hush.engines.errors import SourceError
from hush.query.plan.stability import Count, Total


def exact(curator: Any, sql: str) -> list[Any]:
    """Return the exact counts, and sums in the columns' own units, of a question without keys, one after the other."""
    outputs, rest = sql.removeprefix("SELECT ").split(" FROM ", 1)
    return [_exact(curator, f"SELECT {output} FROM {rest}") for output in outputs.split(", ")]


def _exact(curator: Any, sql: str) -> Fraction:
    desk, how = curator.plan(sql, epsilon=1)
    [(item, values)] = desk.engine.run(how).statistics.items()
    step = (
        item.factors[0].step if isinstance(item, Total) else Fraction(1, item.bound if isinstance(item, Count) else 1)
    )
    return Fraction(values.tolist()[0] * step)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("bounds", [(0, 10, 1), (0, 10), (0, 10, "0.01")])
@pytest.mark.parametrize("unit", ["id", None])
def test_a_cell_that_does_not_parse_is_null_and_its_row_stays(
    unit: str | None, bounds: tuple[Any, ...], tmp_path: Path
) -> None:
    lines = "".join(f"{at},{'n/a' if at % 4 == 0 else at % 7}\n" for at in range(1000))
    path = write(tmp_path / "t.csv", "id,cost\n" + lines)
    with protect(path, unit=unit, bounds={"cost": bounds}, budget=10**6) as curator:
        # noise beyond ±1/2 has a probability below e⁻⁵⁰⁰
        asked = curator.ask("SELECT COUNT(*) AS n, SUM(cost) AS s, COUNT(cost) AS c FROM data", epsilon=10**5).rows()[0]
        assert (asked["n"], asked["c"]) == (1000, 750)
        assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [1000]
        assert exact(curator, "SELECT COUNT(*) AS n, COUNT(cost) AS c, SUM(cost) AS s FROM data") == [
            1000,
            750,
            sum(at % 7 for at in range(1000) if at % 4),
        ]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE cost IS NULL") == [250]


ODD = {
    "as it should be": (b"id,x\n1,1\n2,2\n3,3\n", 3, 6),
    "windows": (b"id,x\r\n1,1\r\n2,2\r\n3,3\r\n", 3, 6),
    "an old macintosh": (b"id,x\r1,1\r2,2\r3,3\r", 3, 6),
    "a mark": (b"\xef\xbb\xbfid,x\n1,1\n2,2\n3,3", 3, 6),
    "quotes": (b'"id","x"\n"1","1"\n"2","2"\n"3","3"\n', 3, 6),
    "a quote in the middle": (b'id,x\n1"1,1\n2,2"\n3,3\n', 3, 4),
    "an open quote": (b'id,x\n1,1\n"2,2\n3,3\n', 3, 6),
    "an open quote and good ones": (b'id,x\n1,1\n"2,2\n"3","3"\n', 3, 6),
    "behind a quote": (b'id,x\n1,1\n"2"2,2\n3,3\n', 3, 6),
    "a line break": (b'id,x\n"1\n1",1\n2,2\n3,3\n', 3, 6),
    "too few": (b"id,x\n1,1\n2\n3,3\n", 3, 4),
    "too many": (b"id,x\n1,1\n2,2,2,2\n3,3\n", 3, 6),
    "empty lines": (b"id,x\n\n1,1\n\n\n2,2\n3,3\n\n", 3, 6),
    "latin-1": (b"id,x\n1,1\n\xe92,2\n3,3\n", 3, 6),
    "half a character": (b"id,x\n1,1\n2,2\n3\xc3,3", 3, 6),
    "control characters": (b"id,x\n1\x00,1\n2\x1f\x1e,2\n3\x1d,3\n", 3, 6),
    "a header only": (b"id,x\n", 0, 0),
    "a header without an end": (b"id,x", 0, 0),
    "a long row": (b"id,x,t\n1,1,a\n2,2," + b"a" * 3_000_000 + b"\n3,3,b\n", 3, 6),
    "a long quoted row": (b'id,x,t\n1,1,a\n2,2,"' + b"a\n" * 1_500_000 + b'"\n3,3,b\n', 3, 6),
}


@pytest.mark.parametrize("label", ODD)
def test_no_row_is_lost(label: str, tmp_path: Path) -> None:
    text, rows, total = ODD[label]
    for name in ("t.csv", "t.csv.gz"):
        if name.endswith("gz"):
            import gzip

            text = gzip.compress(text)
        with protect(write(tmp_path / name, text), bounds={"x": (0, 10, 1)}, budget=10) as curator:
            assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [rows]
            assert exact(curator, "SELECT COUNT(*) AS n, SUM(x) AS s FROM data") == [rows, total]


def test_texts_keep_their_line_breaks(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'id,note\r\n1,"two\r\nlines, ""quoted"""\r\n2,plain\r\n')
    wanted = 'two\r\nlines, "quoted"'
    with protect(path, unit="id", values={"note": [wanted, "plain"]}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(note) AS n FROM data WHERE note <> 'plain'") == [1]


def test_where_nothing_is_quoted_a_quote_is_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'id,x,t\n1,1,"a\n2,2,b"\n3,3,c\n')
    with protect(path, bounds={"x": (0, 10, 1)}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n, SUM(x) AS s FROM data") == [2, 4]
    with protect(path, bounds={"x": (0, 10, 1)}, budget=10, quotes=False) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n, SUM(x) AS s FROM data") == [3, 6]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE t = 'b\"'") == [1]


def test_an_encoding_is_declared(tmp_path: Path) -> None:
    for encoding in ("latin-1", "windows-1252", "utf-16", "utf-8", "Shift_JIS"):
        name = "日" if encoding == "Shift_JIS" else "é"
        path = write(tmp_path / "t.csv", f"id,{name}\n1,{name}\n2,x\n".encode(encoding))
        with protect(path, unit="id", values={name: [name, "x"]}, budget=10, encoding=encoding) as curator:
            assert exact(curator, f"SELECT COUNT(*) AS n FROM data WHERE \"{name}\" = '{name}'") == [1]
    for wrong in ("nothing", "base64", "idna", 5):
        with pytest.raises(SourceError, match="'windows-1252'"):
            protect(path, budget=1, encoding=wrong)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="for CSV files"):
        protect(pa.table({"x": [1]}), budget=1, encoding="utf-8")


def test_decimal_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id;x;t\n1;1,5;1,5\n2;-2,25;a\n3;1.5;b\n4;1.000,5;c\n5;7;d\n")
    options: dict[str, Any] = {"unit": "id", "bounds": {"x": (-10, 10, "0.25")}, "budget": 10, "separator": ";"}
    with protect(path, **options, decimal=",") as curator:
        assert exact(curator, "SELECT COUNT(*) AS n, COUNT(x) AS m, SUM(x) AS s FROM data") == [5, 3, Fraction(25, 4)]
        assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE t = '1,5'") == [1]
    with protect(path, **options) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n, COUNT(x) AS m FROM data") == [5, 2]
    with pytest.raises(SourceError, match="decimal mark"):
        protect(path, **options, decimal="'")


DAYS = [dt.date(2024, 2, 1), dt.date(2024, 12, 31)]
TIMES = ["2024-03-01 23:30:00+01:00", "2024-03-01T22:30:00Z", "2024-03-01 23:30:00", "2024-03-01 17:30:00.5-0500", "x"]


@pytest.mark.parametrize("form", ["csv", "ndjson", "json", "sqlite", "parquet"])
@pytest.mark.parametrize("details", [{}, {"bounds": {"t": (DAYS[0], DAYS[1])}}, {"values": {"t": DAYS}}])
def test_dates_as_people_write_them(form: str, details: dict[str, Any], tmp_path: Path) -> None:
    """Forced where they are loaded, read by each question, and from a list of values: they are the same dates."""
    path = tmp_path / f"t.{form}"
    texts = ["31/12/2024", "1/2/2024", "12/31/2024", "2024-12-31", "30/02/2024", "", None]
    records = [{"id": at, "t": text} for at, text in enumerate(texts)]
    if form == "csv":
        write(path, "id,t\n" + "".join(f"{row['id']},{row['t'] or ''}\n" for row in records))
    elif form == "sqlite":
        import sqlite3

        with sqlite3.connect(path) as base:
            base.execute("CREATE TABLE t (id, t)")
            base.executemany("INSERT INTO t VALUES (?, ?)", [(row["id"], row["t"]) for row in records])
        base.close()
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        write(path, json.dumps(records) if form == "json" else "\n".join(map(json.dumps, records)))
    timezone = None if form == "parquet" else "Europe/Berlin"  # a format has no offset, so it changes nothing
    with protect(path, unit="id", formats={"t": "%d/%m/%Y"}, budget=10, timezone=timezone, **details) as curator:
        assert curator.tables()["data"]["t"].kind == "date"
        sql = "SELECT COUNT(*) AS n, COUNT(t) AS m, COUNT_IF(t = DATE '2024-02-01') AS f FROM data"
        assert exact(curator, sql) == [7, 2, 1]


@pytest.mark.parametrize("form", ["csv", "ndjson", "json", "sqlite"])
def test_clocks_of_a_declared_time_zone(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    records = [{"id": at, "t": time} for at, time in enumerate(TIMES)]
    if form == "csv":
        write(path, "id,t\n" + "".join(f"{row['id']},{row['t']}\n" for row in records))
    elif form == "sqlite":
        import sqlite3

        with sqlite3.connect(path) as base:
            base.execute("CREATE TABLE t (id, t)")
            base.executemany("INSERT INTO t VALUES (?, ?)", [(row["id"], row["t"]) for row in records])
        base.close()
    else:
        write(path, json.dumps(records) if form == "json" else "\n".join(map(json.dumps, records)))
    sql = "SELECT COUNT(*) AS n FROM data WHERE t >= '2024-03-01 23:30:00' AND t < '2024-03-01 23:31:00'"
    options: dict[str, Any] = {"unit": "id", "types": {"t": "timestamp"}, "budget": 10}
    with protect(path, **options, timezone="Europe/Berlin") as curator:
        assert exact(curator, sql) == [4]
    with protect(path, **options) as curator:
        assert exact(curator, sql) == [2]  # as they are written
        assert exact(curator, "SELECT COUNT(*) AS n, COUNT(t) AS m FROM data") == [5, 4]
    with pytest.raises(SourceError, match="there is no time zone 'Berlin'"):
        protect(path, **options, timezone="Berlin")


def test_clocks_of_columns_with_a_time_zone(tmp_path: Path) -> None:
    instant = dt.datetime(2024, 3, 1, 22, 30, tzinfo=dt.UTC)
    far = [-(2**63) + 1, 2**63 - 1, 253402300799 * 10**6]  # nobody's clock shows these
    times = [int(instant.timestamp()) * 10**6, None, *far]
    zoned = pa.array(times, pa.int64()).cast(pa.timestamp("us", "America/New_York"))
    frame = pa.table({"id": list(range(5)), "t": zoned})
    pq.write_table(frame, tmp_path / "t.parquet")

    def hours(source: object, **options: Any) -> int:
        with protect(source, unit="id", budget=10, **options) as curator:
            assert exact(curator, "SELECT COUNT(*) AS n FROM data") == [5]
            hour = [
                exact(curator, f"SELECT COUNT(*) AS n FROM data WHERE EXTRACT(HOUR FROM t) = {at}") for at in range(24)
            ]
            found = [at for at, count in enumerate(hour) if count != [0] and at not in {23, 18}]
            assert exact(curator, "SELECT COUNT(*) AS n FROM data WHERE t > '2025-01-01'")[0] <= 1
            return found[0] if found else 23

    assert hours(frame) == 17  # a frame says itself where its clocks are
    assert hours(frame, timezone="Europe/Berlin") == 23
    assert hours(tmp_path / "t.parquet") == 22
    assert hours(tmp_path / "t.parquet", timezone="America/New_York") == 17


def test_every_line_of_json_is_a_row(tmp_path: Path) -> None:
    long = json.dumps({"id": 5, "x": 5, "t": "a" * 3_000_000})
    lines = [
        '{"id": 1, "x": 1}', "no JSON", '{"id": 2, "x": "\x01"}', '{"id": 3, "x"', "[1]", "7", "", "  ", long,
        '{"id": 6, "x": 6, "t": "\xe9"}',
    ]  # fmt: skip
    path = write(tmp_path / "t.ndjson", "\r\n".join(lines).encode("latin-1"))
    with protect(path, bounds={"x": (0, 10, 1)}, types={"id": "integer", "t": "text"}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n, SUM(x) AS s FROM data") == [8, 12]
        assert exact(curator, "SELECT COUNT(t) AS n FROM data") == [2]


@pytest.mark.parametrize(
    "deep", ['{"id": 9, "zz": ' + "[" * 5000 + "]" * 5000 + "}", "[" * 90000 + '"]\\""' + "]" * 90000]
)
def test_a_record_nested_too_deep_is_a_row(tmp_path: Path, deep: str) -> None:
    """Whether a JSON array can be opened depends on no record that its writer could have written."""
    records = [json.dumps({"id": i, "x": 1}) for i in range(3)]
    for more in ([], [deep]):
        path = write(tmp_path / "t.json", "[" + ",\n".join([*records[:1], *more, *records[1:]]) + "]")
        with protect(path, bounds={"x": (0, 10, 1)}, types={"id": "integer"}, budget=10) as curator:
            assert exact(curator, "SELECT COUNT(*) AS n, SUM(x) AS s FROM data") == [3 + len(more), 3]


def test_a_column_without_a_name_is_numbered(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ",x\n0,1\n1,2\n")  # as pandas writes a frame with its index
    with protect(path, unit="column_1", bounds={"x": (0, 10, 1)}, budget=10) as curator:
        assert exact(curator, "SELECT SUM(x) AS s FROM data") == [3]


def test_a_file_is_answered_as_it_was_when_it_was_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.csv", "id,x\n1,1\n")
    with protect(path, unit="id", bounds={"x": (0, 10, 1)}, budget=10**6) as curator:
        engine = curator.data_sets["data"].engine
        execute = engine.execute
        monkeypatch.setattr(engine, "execute", lambda *given: path.unlink() or execute(*given))
        assert curator.ask("SELECT SUM(x) AS s FROM data", epsilon=10**4).value() == 1
        monkeypatch.undo()
        with pytest.raises(SourceError, match="gone"):
            curator.ask("SELECT SUM(x) AS s FROM data WHERE x > 0", epsilon=1)


SCHEMAS = {
    "csv": (b"id,x\n1,1\n", b"x,id\n1,1\n"),
    "ndjson": (b'{"id": 1, "x": 1}\n', None),
    "parquet": ({"id": [1], "x": [1]}, {"id": [1], "x": [1.0]}),
    "arrow": ({"id": [1], "x": [1]}, {"id": [1], "y": [1]}),
    "duckdb": ("id INTEGER, x INTEGER", "id INTEGER, x VARCHAR"),
    "sqlite": ("id, x", "id, y"),
}


@pytest.mark.parametrize("form", SCHEMAS)
def test_other_columns_are_refused_before_the_charge(form: str, tmp_path: Path) -> None:
    path, new = tmp_path / f"data.{form}", tmp_path / f"new.{form}"

    def becomes(said: Any, value: int) -> None:
        new.unlink(missing_ok=True)
        if isinstance(said, bytes):
            new.write_bytes(said.replace(b"1", str(value).encode()))
        elif form == "parquet":
            pq.write_table(pa.table(said), new)
        elif form == "arrow":
            from pyarrow import feather

            feather.write_feather(pa.table(said), str(new))
        else:
            import sqlite3

            import duckdb

            base = duckdb.connect(str(new)) if form == "duckdb" else sqlite3.connect(new)
            base.execute(f"CREATE TABLE data ({said})")
            base.execute(f"INSERT INTO data VALUES ({value}, {value})")
            base.commit()
            base.close()
        new.replace(path)

    before, after = SCHEMAS[form]
    becomes(before, 1)
    options: dict[str, Any] = {"unit": "id", "bounds": {"x": (0, 10, 1)}, "budget": 100}
    sql = "SELECT COUNT(*) AS n FROM data"
    with hush.protect(path, **options) as curator:
        assert exact(curator, sql) == [1]
        if after is not None:
            becomes(after, 1)
            with pytest.raises(SourceError, match="no longer what it was"):
                curator.ask(sql, epsilon=1)
        becomes(before, 5)
        if not isinstance(before, dict):
            assert exact(curator, "SELECT SUM(x) AS s FROM data") == [5]
        assert curator.budget()[0].remaining.epsilon == 100


def test_two_tables_of_one_database(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "base.duckdb")) as base:
        base.execute("CREATE TABLE visits AS SELECT range AS id, range % 3 AS region FROM range(9)")
        base.execute("CREATE TABLE regions AS SELECT range AS region FROM range(3)")
    visits, regions = f"{tmp_path / 'base.duckdb'}#visits", f"{tmp_path / 'base.duckdb'}#regions"
    with protect(visits, unit="id", public={"regions": regions}, budget=10) as curator:
        assert exact(curator, "SELECT COUNT(*) AS n FROM data JOIN regions USING (region)") == [9]
