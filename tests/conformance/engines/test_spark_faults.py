"""What goes wrong at a Spark between the charge and the answer: one public error, and the next question works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_clinic import QUESTION, ROWS, Clinic, assert_charged_once, views_of
from spark_servers import Cluster, ConnectServer

from hush.core.work import limited
from hush.engines.errors import EngineError, SourceError
from hush.engines.spark.connection import SparkServer
from hush.engines.sql.render import plain

NIGHTLY = pytest.mark.skipif(
    "HUSH_SPARK_CASES" not in os.environ, reason="starts a Spark; with HUSH_SPARK_CASES, nightly"
)
SLOW = plain("SELECT SUM(a.id * b.id % 7) FROM RANGE(10000000) AS a CROSS JOIN RANGE(10000) AS b")
ONE = plain("SELECT 1")


@pytest.fixture(params=["spark", "connect"])
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Clinic:
    """Give a clinic on a Spark that runs here, and on one that is reached by Spark Connect."""
    return Clinic(request.getfixturevalue(request.param), tmp_path)


def test_a_file_that_goes_is_charged_and_the_next_question_works(
    clinic: Clinic, capfd: pytest.CaptureFixture[str]
) -> None:
    with clinic.open() as curator:
        assert_charged_once(curator, clinic.file.unlink, lambda: pq.write_table(pa.table(ROWS), clinic.file))
    shown = capfd.readouterr()
    assert str(clinic.file) not in shown.out + shown.err


@pytest.fixture
def owner(clinic: Clinic) -> Iterator[SparkServer]:
    """Give the owner's own session, in whose catalogue the visits are."""
    server = SparkServer(clinic.address)
    with server.transaction() as transaction:
        make(transaction.session, clinic)
    yield server
    with server.transaction() as transaction:
        transaction.session.sql("DROP TABLE IF EXISTS kept_here")
    server.close()


def make(session, clinic: Clinic) -> None:
    session.sql(f"CREATE TABLE kept_here USING parquet AS SELECT * FROM parquet.`{clinic.file}`").collect()


def test_a_table_that_is_dropped_in_the_middle_is_charged_and_the_next_question_works(
    clinic: Clinic, owner: SparkServer
) -> None:
    with owner.transaction() as transaction, clinic.open("kept_here") as curator:
        session = transaction.session
        assert_charged_once(
            curator, lambda: session.sql("DROP TABLE kept_here").collect(), lambda: make(session, clinic)
        )


def test_a_table_that_is_altered_is_charged_once_and_refused_before_the_next_charge(
    clinic: Clinic, owner: SparkServer
) -> None:
    """A text where numbers were would be cast, and a row could make that fail."""

    def alter() -> None:
        session.sql("DROP TABLE kept_here").collect()
        rows = "SELECT id, city, name, 'costly' AS cost, secret"
        session.sql(f"CREATE TABLE kept_here USING parquet AS {rows} FROM parquet.`{clinic.file}`").collect()

    def refused_then_restored() -> None:
        before = curator.session.accounts("clinic").remaining
        with pytest.raises(SourceError, match="has other columns than before; open the policy anew"):
            curator.ask(QUESTION, epsilon="1")
        assert curator.session.accounts("clinic").remaining == before
        session.sql("DROP TABLE kept_here").collect()
        make(session, clinic)

    with owner.transaction() as transaction, clinic.open("kept_here") as curator:
        session = transaction.session
        assert_charged_once(curator, alter, refused_then_restored)


@pytest.mark.parametrize("place", ["spark", "connect"])
def test_a_statement_that_takes_too_long_is_ended(request: pytest.FixtureRequest, place: str) -> None:
    server = SparkServer(request.getfixturevalue(place), timeout=1)
    with pytest.raises(EngineError), server.transaction() as transaction:
        transaction.fetch(SLOW, {})
    server._timeout = 100
    with server.transaction() as transaction:
        assert transaction.fetch(ONE, {}) == [(1,)]
    server.close()


def test_a_statement_that_is_abandoned_is_ended(spark: str) -> None:
    def wanted() -> None:
        raise EngineError

    with closing(SparkServer(spark)) as server:
        with limited(1, wanted) as work:
            threading.Timer(0.2, work.interrupt).start()  # perhaps before it has a job that can be ended
            with pytest.raises(EngineError), server.transaction() as transaction:
                transaction.fetch(SLOW, {})
        with server.transaction() as transaction:
            assert transaction.fetch(ONE, {}) == [(1,)]


def test_a_process_has_data_at_a_master_and_at_a_connect_server(connect: str, spark: str, tmp_path: Path) -> None:
    for address in (connect, spark, connect):
        with Clinic(address, tmp_path).open() as curator:
            assert len(curator.ask(QUESTION, epsilon="1").rows()) == 3


@NIGHTLY
def test_a_connect_server_that_is_killed_is_one_public_error_and_the_next_question_works(tmp_path: Path) -> None:
    with closing(ConnectServer(tmp_path)) as connect, Clinic(connect.address, tmp_path).open() as curator:
        assert_charged_once(curator, connect.kill, connect.start)
        server = curator.data_sets["clinic"].engine.connection.server
        killer = threading.Timer(3, connect.kill)
        killer.start()
        with pytest.raises(EngineError), server.transaction() as transaction:
            transaction.fetch(SLOW, {})
        killer.join()
        connect.start()
        assert len(curator.ask(QUESTION, epsilon="3").rows()) == 3
        assert not views_of(curator)


def test_an_executor_that_is_killed_changes_no_integer(cluster: Cluster, spark: str, tmp_path: Path) -> None:
    """Spark runs its tasks again; the exact integers are those of a question in peace."""
    with Clinic(spark, tmp_path).open() as curator:
        data, plan = curator.plan(QUESTION, epsilon="1")
        compiled = data.engine.prepare(plan)
        expected = data.engine.execute(compiled)
        server = data.engine.connection.server
        with server.transaction() as transaction:  # a statement that runs when its executor goes
            killer = threading.Timer(2, lambda: os.kill(cluster.executors()[0], signal.SIGKILL))
            killer.start()
            rows = plain("SELECT SUM(a.id % 7) FROM RANGE(0, 400000000, 1, 8) AS a")
            assert transaction.fetch(rows, {}) == [(sum(range(7)) * (400_000_000 // 7) + sum(range(400_000_000 % 7)),)]
            killer.join()
        os.kill(cluster.executors()[-1], signal.SIGKILL)
        found = data.engine.execute(compiled)
        assert {name: part.tolist() for name, part in found.statistics.items()} == {
            name: part.tolist() for name, part in expected.statistics.items()
        }
        assert not views_of(curator)


def test_when_all_workers_are_killed_a_question_is_charged_and_the_next_one_works(
    cluster: Cluster, spark: str, tmp_path: Path
) -> None:
    def kill() -> None:
        for worker in cluster.workers:
            worker.kill()

    def start() -> None:
        server._timeout = 100
        cluster.workers = [cluster.worker(), cluster.worker()]

    with Clinic(spark, tmp_path).open() as curator:
        server = curator.data_sets["clinic"].engine.connection.server
        curator.ask(QUESTION, epsilon="1")
        server._timeout = 5
        assert_charged_once(curator, kill, start)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from spark_clinic import Clinic, QUESTION, assert_charged_once
with Clinic("local[1]", Path({folder!r})).open() as curator, Clinic("local[1]", Path({other!r})).open() as another:
    curator.ask(QUESTION, epsilon="1")
    another.ask(QUESTION, epsilon="1")
    from pyspark import SparkContext
    jvm = SparkContext._gateway.proc.pid
    assert_charged_once(curator, lambda: os.kill(jvm, signal.SIGKILL), lambda: None)
    first = SparkContext._active_spark_context
    another.ask(QUESTION, epsilon="1")  # its session went with the driver, before it was charged
    curator.ask(QUESTION, epsilon="1")
    assert SparkContext._active_spark_context is first  # none has ended the other's
print("answered again")
"""


@NIGHTLY
def test_when_the_driver_is_killed_the_question_is_charged_and_the_next_one_starts_another(tmp_path: Path) -> None:
    scratch, other = tmp_path / "scratch", tmp_path / "other"
    scratch.mkdir()
    other.mkdir()
    program = textwrap.dedent(KILLED).format(
        path=[str(Path(__file__).parent), *sys.path], folder=str(tmp_path), other=str(other)
    )
    made = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=scratch,
        env=os.environ | {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)},
    )
    assert made.stdout.endswith("answered again\n"), made.stderr[-2000:]
    # Java's own counters, and the empty folder that Spark makes for a catalogue wherever it runs
    assert not [path for path in scratch.iterdir() if not path.name.startswith(("hsperfdata", "spark-warehouse"))]
