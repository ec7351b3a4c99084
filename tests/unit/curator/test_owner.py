"""Tables that no policy names yet: what their first lines propose, and their first rows for the owner."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core import InvalidValueError
from hush.curator.owner import PREVIEW, tables_of_files


def test_a_csv_file_is_proposed_by_its_first_line_and_shown_as_it_is_then_read(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rows = "".join(f'{number};"1;{number}";\n' for number in range(9))
    path.write_bytes(f"größe;cost;x\n{rows}".encode("windows-1252"))
    (table,) = tables_of_files([path], {})
    assert table.reading == {"separator": ";", "encoding": "windows-1252", "decimal": ","}
    assert table.columns == {"größe": "VARCHAR", "cost": "VARCHAR", "x": "VARCHAR"}
    assert table.preview() == [[str(number), f"1;{number}", ""] for number in range(PREVIEW)]
    (other,) = tables_of_files([path], {"separator": ",", "encoding": "utf-8", "decimal": "."})
    assert other.reading == {"encoding": "utf-8", "decimal": "."}
    assert other.preview()[0] == ['0;"1;0";']


def test_an_open_quote_and_an_empty_file_are_shown_too(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text('a,b\n"open,1\nnext,2\n', encoding="utf-8")
    assert [row[0] for row in tables_of_files([path], {})[0].preview()] == ["open,1\n", "next"]
    path.write_text("a,b\n", encoding="utf-8")
    assert tables_of_files([path], {})[0].preview() == []


def test_other_files_show_their_first_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None], "b": ["x", "y"]}), tmp_path / "t.parquet")
    with closing(sqlite3.connect(tmp_path / "base.sqlite")) as base:
        base.executescript("CREATE TABLE t1 (a INT); CREATE TABLE t2 (b TEXT); INSERT INTO t2 VALUES ('z');")
    (tmp_path / "j.ndjson").write_text('{"a": 7}\n', encoding="utf-8")
    files = [tmp_path / name for name in ("t.parquet", "base.sqlite", "j.ndjson")]
    tables = {table.name: table for table in tables_of_files(files, {})}
    assert tables["t"].preview() == [["1", "x"], ["", "y"]]
    assert (tables["t1"].preview(), tables["t2"].preview(), tables["j"].preview()) == ([], [["z"]], [["7"]])
    assert tables["t2"].source == f"{tmp_path / 'base.sqlite'}#t2"
    with pytest.raises(InvalidValueError, match="both called t"):
        tables_of_files([tmp_path / "t.parquet", tmp_path / "t.parquet"], {})
