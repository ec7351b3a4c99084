"""Sail, a Spark Connect server: the whole way of a question over the wire, Delta tables, a server that goes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from spark_clinic import ROWS, Clinic, assert_charged_once, views_of
from spark_servers import SailServer

from hush.engines.errors import SourceError
from hush.engines.spark import SparkTables
from hush.engines.spark.dialect import SAIL
from hush.engines.sql.nodes import call, column, count, read, select
from hush.engines.sql.render import render
from hush.query.schema import Schema, Table


def test_a_question_goes_over_the_wire_on_sail(sail: str, tmp_path: Path) -> None:
    clinic = Clinic(sail, tmp_path)
    with clinic.open() as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n, MEDIAN(cost) AS m FROM visits GROUP BY city", epsilon="20")
        assert [row["city"] for row in answer.rows()] == ["a", "b", "c"]
        found = curator.ask("SELECT name, AVG(cost) AS m FROM visits GROUP BY name", epsilon="20")
        assert len(found.rows()) == 4
        assert not [name for name in views_of(curator) if name.startswith("hush")]


def delta(folder: Path) -> str:
    deltalake = pytest.importorskip("deltalake", reason="Delta tables are written by deltalake")
    deltalake.write_deltalake(str(folder), pa.table(ROWS))
    deltalake.write_deltalake(str(folder), pa.table(ROWS).slice(0, 9), mode="append")
    deltalake.DeltaTable(str(folder)).delete("id = 7")
    return f"delta:{folder}"


def iceberg(folder: Path) -> str:
    memory = pytest.importorskip("pyiceberg.catalog.memory", reason="Iceberg tables are written by pyiceberg")
    catalogue = memory.InMemoryCatalog("catalogue", warehouse=f"file://{folder}")
    catalogue.create_namespace("clinic")
    visits = catalogue.create_table("clinic.visits", schema=pa.table(ROWS).schema)
    visits.append(pa.table(ROWS))
    visits.append(pa.table(ROWS).slice(0, 9))
    visits.delete("id = 7")
    return f"iceberg:{visits.location()}"


@pytest.mark.parametrize("write", [delta, iceberg])
def test_delta_and_iceberg_tables_are_read_through_sail(sail: str, tmp_path: Path, write: Any) -> None:
    """Rows that were appended are there, and rows that were deleted are not."""
    rows = pa.concat_tables([pa.table(ROWS), pa.table(ROWS).slice(0, 9)])
    pq.write_table(rows.filter(pc.field("id") != 7), tmp_path / "visits.parquet")
    sources = {"versions": write(tmp_path / "visits"), "plain": f"{tmp_path}/visits.parquet"}
    with SparkTables(sail, sources) as opened:
        assert opened.types["versions"] == opened.types["plain"]
        tables = {name: Table(name=name, columns={}) for name in sources}
        places = opened.register(Schema(data="d", tables=tables)).tables
        with opened.server.transaction() as transaction:
            sums = [count(), call("sum", column("id")), call("sum", column("cost"))]
            queries = [select(sums, read(place, "t")) for place in places.values()]
            found = [transaction.fetch(render(query, SAIL, views="test"), {}) for query in queries]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_of_which_one_record_fails_every_question_are_refused_on_sail(
    sail: str, tmp_path: Path, kind: str
) -> None:
    (tmp_path / f"visits.{kind}").write_text("id,city\n1,a\n2,b,c\n")
    with pytest.raises(SourceError, match="store it as parquet"):
        SparkTables(sail, {"visits": f"{tmp_path}/visits.{kind}"}, {"visits": ["id", "city"]})


def test_a_server_that_is_killed_is_one_public_error_and_the_next_question_works_on_sail(tmp_path: Path) -> None:
    pytest.importorskip("pysail.spark", reason="Sail needs a client below 4.1: make sail")
    with closing(SailServer(tmp_path)) as server, Clinic(server.address, tmp_path).open() as curator:
        assert_charged_once(curator, server.kill, server.start)
