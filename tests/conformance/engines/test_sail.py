"""Sail, a Spark Connect server: the whole way of a question over the wire, Delta tables, a server that goes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_clinic import ROWS, Clinic, assert_charged_once, views_of
from spark_servers import SailServer

from hush.engines.errors import SourceError
from hush.engines.server import ParameterisedText
from hush.engines.spark import SparkTables
from hush.engines.spark.dialect import SPARK
from hush.query.schema import Schema, Table


def test_a_question_goes_over_the_wire_on_sail(sail: str, tmp_path: Path) -> None:
    clinic = Clinic(sail, tmp_path)
    with clinic.open() as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n, MEDIAN(cost) AS m FROM visits GROUP BY city", epsilon="20")
        assert [row["city"] for row in answer.rows()] == ["a", "b", "c"]
        found = curator.ask("SELECT name, AVG(cost) AS m FROM visits GROUP BY name", epsilon="20")
        assert len(found.rows()) == 4
        assert not [name for name in views_of(curator) if name.startswith("hush")]


def test_delta_tables_are_read_through_sail(sail: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="Delta tables are written by deltalake")
    deltalake.write_deltalake(str(tmp_path / "visits"), pa.table(ROWS))
    pq.write_table(pa.table(ROWS), tmp_path / "visits.parquet")
    sources = {"delta": f"delta:{tmp_path}/visits", "plain": f"{tmp_path}/visits.parquet"}
    with SparkTables(sail, sources) as opened:
        assert opened.types["delta"] == opened.types["plain"]
        tables = {name: Table(name=name, columns={}) for name in sources}
        places = opened.register(Schema(data="d", tables=tables)).tables
        with opened.server.transaction(opened.read) as transaction:
            text = "SELECT COUNT(*), SUM(id), SUM(cost) FROM {0} AS t"
            found = [
                transaction.fetch(ParameterisedText.of(text.format(SPARK.table(place))), {})
                for place in places.values()
            ]
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
