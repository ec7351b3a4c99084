"""Columns of text files kept in their declared types: forced twice, they are what they were when forced once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from hush.engines.duckdb.sources import Source
from hush.engines.duckdb.text_files import TextTable, kept_types
from hush.engines.sql.forcing import force
from hush.engines.sql.nodes import TableName, column, select
from hush.engines.sql.render import text_of
from hush.query.schema import Table
from hush.query.types import Kind, Type

TEXTS = [
    "", " ", "0", "-0", "1", " 1 ", "+1", "01", "1.5", "2.5", "-2.5", "0.125", "0.005", "0.015", "1e2", "1E-3", "1_000",
    "1,5",    "99", "100", "101", "-1", "1e400", "-1e400", "nan", "NaN", "inf", "-Infinity",
    "9223372036854775807", "9223372036854775808",
    "0x10", "true", "false", "t", "yes", "2024-02-29", "2024-02-30", "2024-05-01 12:30:00", "2024-05-01T12:30:00Z",
    "0001-01-01", "9999-12-31", "10000-01-01", "infinity", "epoch", "abc", None,
]  # fmt: skip
F = Fraction
TYPES = {
    "integer": Type(Kind.INTEGER, lower=F(0), upper=F(100), step=F(1)),
    "integer of a step": Type(Kind.INTEGER, lower=F(-10), upper=F(100), step=F(5)),
    "integer without NULL": Type(Kind.INTEGER, lower=F(3), upper=F(100), step=F(1), nullable=False),
    "large integer": Type(Kind.INTEGER, lower=F(-(2**62)), upper=F(2**62), step=F(1)),
    "decimal": Type(Kind.DECIMAL, lower=F(-1), upper=F(100)),
    "open decimal": Type(Kind.DECIMAL),
    "cents": Type(Kind.DECIMAL, lower=F(0), upper=F(100), step=F(1, 100)),
    "quarters": Type(Kind.DECIMAL, lower=F(-10), upper=F(100), step=F(1, 4)),
    "boolean": Type(Kind.BOOLEAN),
    "date": Type(Kind.DATE),
    "timestamp": Type(Kind.TIMESTAMP),
}


@pytest.mark.parametrize("label", TYPES)
def test_a_value_that_is_forced_twice_is_what_it_is_when_forced_once(label: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n")
    type_ = TYPES[label]
    table = Table(name="t", columns={"x": type_, "y": Type(Kind.TEXT)})
    kept = kept_types(table, Source.of(path))
    assert list(kept) == ["x"]
    physical = kept["x"][0]
    with duckdb.connect() as base:
        wanted = TextTable(
            connection=base, source=Source.of(path), scratch=path, names=["x", "y"], columns=["x"], types={}, kept=kept
        )
        base.execute("CREATE TABLE texts (x VARCHAR)")
        base.executemany("INSERT INTO texts VALUES ($1)", [[text] for text in TEXTS])
        assert wanted.create("kept", select([column("x")], TableName("texts"))) == len(TEXTS)
        assert base.execute("DESCRIBE kept").fetchall()[0][1] == physical
        once, again = force(column("x"), "VARCHAR", type_), force(column("x"), physical, type_)
        assert once.scale == again.scale
        assert once.form == again.form
        one, other = (
            base.execute(text_of(select([value.sql.alias("v")], TableName(place)))).fetchall()
            for value, place in ((once, "texts"), (again, "kept"))
        )
    assert one == other


def test_lists_texts_and_public_columns_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n")
    listed = Type(Kind.INTEGER, lower=F(1), upper=F(2), values=(F(1), F(2)))
    source = Source.of(tmp_path / "t.csv")
    assert not kept_types(Table(name="t", columns={"x": listed, "y": Type(Kind.TEXT)}), source)
    assert not kept_types(Table(name="t", columns={"x": TYPES["integer"]}, public=True), source)
