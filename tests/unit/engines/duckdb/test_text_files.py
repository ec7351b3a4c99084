"""Records of CSV files: what they are does not depend on how a file is cut into blocks, and none is lost."""

from __future__ import annotations

import csv
import encodings.aliases
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.core.storage import text_encoding
from hush.engines.duckdb import text_files
from hush.engines.duckdb.text_files import BREAK, FIELD, RETURN, CsvRewriter, plain_rows, utf8_blocks

TEXTS = st.text(alphabet='ab,;\n\r" é\x1d\x1e\x1f\x00', max_size=60)
WELL_FORMED = st.lists(
    st.lists(st.text(alphabet='ab,\n\r" é', max_size=4), min_size=3, max_size=3), min_size=0, max_size=12
)


def cells(lines: bytes) -> list[list[str]]:
    return [
        [cell.replace(BREAK.decode(), "\n").replace(RETURN.decode(), "\r") for cell in line.split(FIELD.decode())]
        for line in lines.decode().split("\n")[:-1]
    ]


def read(text: bytes, *, columns: int = 3, size: int | None = None, **options) -> list[list[str]]:
    writer = CsvRewriter(columns=columns, separator=",", **options)
    blocks = [text] if size is None else [text[at : at + size] for at in range(0, len(text), size)]
    found = cells(b"".join(writer.lines(blocks)))
    assert writer.tally.rows == len(found)
    return [row[:columns] for row in found]


@given(TEXTS, st.integers(1, 9), st.booleans(), st.integers(1, 3))
@example('"\n"', 1, True, 3)
@example('a,"b\r\n",c\r\n"', 2, True, 3)
def test_blocks_do_not_matter(text: str, size: int, quotes: bool, columns: int) -> None:
    data = ("x,y,z\n" + text).encode()
    whole = read(data, quotes=quotes, columns=columns)
    assert read(data, size=size, quotes=quotes, columns=columns) == whole


@given(TEXTS, st.integers(1, 9))
def test_neither_does_it_matter_which_blocks_are_regular(text: str, size: int) -> None:
    data = ("x,y,z\n" + text).encode()
    slow = CsvRewriter(columns=3, separator=",")
    slow._regular = lambda *_, **__: None
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    assert cells(b"".join(slow.lines(blocks))) == read(data, size=size)


@given(WELL_FORMED, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_a_writer_of_csv_wrote_is_read_as_it_was(rows: list[list[str]], end: str, quoting: int) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # Python before 3.13 leaves a carriage return bare
        rows = [[cell.replace("\r", "") for cell in row] for row in rows]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=end, quoting=quoting)
    writer.writerows([["x", "y", "z"], *rows])
    assert read(file.getvalue().encode(), size=7) == rows


@given(st.lists(st.text(alphabet='ab,"\x1f', min_size=1, max_size=9), max_size=9), st.integers(1, 9))
def test_without_quoting_every_line_is_a_row(lines: list[str], size: int) -> None:
    data = "\n".join(["x,y,z", *lines]).encode()
    assert len(read(data, quotes=False, size=size)) == len(lines)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('1,"two\nlines",3\n4,5,6\n', [["1", "two\nlines", "3"], ["4", "5", "6"]]),
        ('1,"open,3\n4,5,6\n', [["1", '"open', "3"], ["4", "5", "6"]]),
        ('1,"open,3\n4,"x",6\n', [["1", '"open', "3"], ["4", "x", "6"]]),
        ('1,"a"b,3\n4,5"6,\n', [["1", '"a"b', "3"], ["4", '5"6', ""]]),
        ("1\n\n2,3\n1,2,3,4\n,,\n", [["1", "", ""], ["2", "3", ""], ["1", "2", "3"], ["", "", ""]]),
        ('"a\nb",c\n', [['"a', "", ""], ['b"', "c", ""]]),  # with line breaks, and too few fields
        ("", []),
        ('"1","2","3"', [["1", "2", "3"]]),
    ],
)
def test_records(text: str, rows: list[list[str]]) -> None:
    assert read(b"x,y,z\n" + text.encode()) == rows


def test_lines_may_end_in_carriage_returns_if_the_header_does() -> None:
    assert read(b"x,y,z\r1,2,3\r4,5,6") == [["1", "2", "3"], ["4", "5", "6"]]
    assert read(b"x,y,z\n1,2\r,3\n") == [["1", "2\r", "3"]]


def test_a_row_of_one_empty_field_is_one() -> None:
    assert read(b'x\na\n""\n\nb\n', columns=1) == [["a"], [""], ["b"]]


def test_long_rows_are_cut_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONG", 300)
    monkeypatch.setattr(text_files, "RECORD", 1000)
    long = "é" * 200
    for quote in ("", '"'):
        rows = read(f"x,y,z\n1,{quote}{long}{quote},3\n4,5,6\n".encode())
        assert rows == [["1", "é" * 50, "3"], ["4", "5", "6"]]
    text = 'x,y,z\n1,"' + "a\n" * 600 + '",3\n'  # one record, were it not so long
    for size in (None, 1, 100):
        assert len(read(text.encode(), size=size)) == 601


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for name in sorted({*encodings.aliases.aliases.values(), "utf-8-sig"}):
        known = text_encoding(name)
        if known in {None, "utf-16", "utf-32"}:  # these two begin with a mark, or the header cannot be read
            continue
        for data in (bytes(range(256)) * 2, b"\xff\xfe\x00", b"\x1b$B\x1b", b""):
            path.write_bytes(data)
            b"".join(utf8_blocks(path, known)).decode()
    for name, text in (("utf-8", "\ufeffé"), ("utf-16", "é"), ("windows-1252", "é€"), ("shift_jis", "日本")):
        path.write_bytes(text.encode(name))
        assert b"".join(utf8_blocks(path, text_encoding(name) or "")).decode() == text.removeprefix("\ufeff")
    assert text_encoding("rot13") is None
    assert text_encoding(5) is None


def test_what_is_not_in_the_encoding_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("x\né \ufffd\n".encode() + b"\xe9\n\xff")
    tally = text_files.Tally()
    assert b"".join(utf8_blocks(path, tally=tally)).decode() == "x\né \ufffd\n\ufffd\n\ufffd"
    assert tally.replaced == 2


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"x,y\n1,2\n3,4\n", 2),
        (b"x,y\n1,2\n3,4", 2),
        (b"x,y", 0),
        ("x,y\né,2\n".encode(), 1),
        (b"x,y\n\xe9,2\n", None),
        (b"x,y\n1,\xc3", None),
        (b'x,y\n"1",2\n', None),
        (b"x,y\n1,2\r\n", None),
        (b"x,y\n\n1,2\n", None),
    ],
)
def test_rows_of_plain_files_are_counted(text: bytes, rows: int | None, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "t.csv").write_bytes(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text))
    for size in (1, 2, 100):
        monkeypatch.setattr(text_files, "BLOCK", size)
        assert plain_rows(tmp_path / "t.csv") == plain_rows(tmp_path / "t.csv.gz") == rows
