"""Sources that people have: compressed texts, other separators, Arrow files, lazy frames."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather

import hush
from hush.core.storage import SEPARATORS
from hush.engines.errors import SourceError
from hush.policy.file import Policy

SUM = "SELECT SUM(n) AS s FROM data"
TOTAL = sum(at % 9 for at in range(300))


def total(source: object, **options: Any) -> Any:
    with hush.protect(source, unit="id", bounds={"n": (0, 10, 1)}, budget=10**6, **options) as curator:
        return curator.ask(SUM, epsilon=10**4).value()  # noise beyond ±1/2 has a probability below e⁻⁵⁰⁰


def lines(separator: str, *, quoted: bool = False) -> str:
    head = separator.join(("id", "note", "n"))
    note = f'"a{separator}""b"' if quoted else "a"
    return "\n".join([head, *(separator.join((str(at), note, str(at % 9))) for at in range(300))]) + "\n"


@pytest.mark.parametrize("quoted", [True, False])
@pytest.mark.parametrize("separator", SEPARATORS)
def test_separators(tmp_path: Path, separator: str, *, quoted: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines(separator, quoted=quoted), encoding="utf-8")
    assert total(path, separator=separator) == TOTAL
    with hush.protect(
        path, unit="id", values={"note": [f'a{separator}"b', "a"]}, budget=10**6, separator=separator
    ) as curator:
        found = curator.ask("SELECT note, COUNT(*) AS n FROM data GROUP BY note", epsilon=10**4).rows()
    assert [row["n"] for row in found] == ([300, 0] if quoted else [0, 300])


def test_a_separator_is_never_guessed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(lines(";"), encoding="utf-8")
    with pytest.raises(hush.HushError, match="id;note;n"):
        total(path)
    for wrong in ("", ";;", '"', "\n", "a", 5):
        with pytest.raises(SourceError, match="separated by one of"):
            total(path, separator=wrong)
    with pytest.raises(SourceError, match="leave it out"):
        total(pa.table({"id": [1], "n": [1]}), separator=";")


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "json"])
def test_compressed_texts(tmp_path: Path, ending: str) -> None:
    records = [{"id": at, "note": 'a"b', "n": at % 9} for at in range(300)]
    texts = {
        "csv": lines(",", quoted=True),
        "tsv": lines("\t"),
        "ndjson": "\n".join(map(json.dumps, records)),
        "json": json.dumps(records),
    }
    path = tmp_path / f"t.{ending}.gz"
    path.write_bytes(gzip.compress(texts[ending].encode()))
    assert total(path) == TOTAL
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SourceError):
        total(path)


def test_what_cannot_be_compressed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet.gz"
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="its name should end in one of"):
        total(path)


@pytest.mark.parametrize("ending", ["arrow", "feather", "ipc"])
def test_arrow_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    feather.write_feather(pa.table({"id": list(range(300)), "n": [at % 9 for at in range(300)]}), str(path))
    assert total(path) == TOTAL


def test_lazy_frames() -> None:
    frame = pl.LazyFrame({"id": list(range(300)), "n": [at % 9 for at in range(300)]})
    assert total(frame.filter(pl.col("id") >= 0)) == TOTAL


def test_a_policy_says_the_separator(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(lines(";"), encoding="utf-8")
    text = """
[data.d]
unit = "id"
budget = { epsilon = 1000000 }
[data.d.tables.data]
source = "t.csv"
separator = ";"
columns.n = { type = "integer", lower = 0, upper = 10 }
[analysts.a]
data = ["d"]
budget = { epsilon = 1000000 }
"""
    (tmp_path / "hush.toml").write_text(text, encoding="utf-8")
    with hush.open(tmp_path / "hush.toml", create=True) as curator:
        assert curator.ask(SUM, epsilon=10**4).value() == TOTAL
    with pytest.raises(hush.HushError, match=r"hush.toml:7: .*separator must be one of"):
        Policy.parse(text.replace('";"', '"ab"'))
