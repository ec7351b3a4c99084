"""Engines to compare: each is made from a connection alone, over the tables of `worlds`, whose rows can be swapped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest
from spark_servers import Cluster, ConnectServer, SailServer, free_port

from hush.engines.spark.connection import SparkServer

FRUGAL = """
spark.driver.defaultJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
"""Without compilers, which take longer than a question of a test; nightly runs have them."""
CONNECT = """
spark.plugins org.apache.spark.sql.connect.SparkConnectPlugin
spark.connect.grpc.binding.address 127.0.0.1
spark.connect.grpc.binding.port {port}
"""
"""Lets the driver serve Spark Connect, too, which costs less than a server of its own."""
SETTINGS = """
spark.driver.memory 2g
spark.executor.memory 512m
spark.sql.shuffle.partitions 2
spark.driver.bindAddress 127.0.0.1
spark.driver.host 127.0.0.1
spark.sql.warehouse.dir {folder}/warehouse
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a master and two workers on this machine."""
    if os.environ.get("HUSH_SPARK_SERVER") != "cluster":
        pytest.skip("starts five Javas; with HUSH_SPARK_SERVER=cluster, as nightly")
    with closing(Cluster(tmp_path_factory.mktemp("cluster"))) as started_cluster:
        yield started_cluster


@pytest.fixture(scope="session")
def spark_address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a Spark: a driver in this process, unless HUSH_SPARK_SERVER says connect or cluster."""
    pytest.importorskip("pyspark", reason="Spark needs PySpark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    place = os.environ.get("HUSH_SPARK_SERVER")
    if place == "cluster":
        yield request.getfixturevalue("cluster").address
    elif place == "connect":
        with closing(ConnectServer(tmp_path_factory.mktemp("connect"))) as server:
            yield server.address
    else:
        yield "local[2]"


@pytest.fixture(scope="session")
def connect_port() -> int:
    """Give the port at which the driver serves Spark Connect."""
    return free_port()


@pytest.fixture(scope="session")
def spark(spark_address: str, tmp_path_factory: pytest.TempPathFactory, connect_port: int) -> Iterator[str]:
    """Give the address of a Spark that runs already, with two threads and little memory."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(
        SETTINGS.format(folder=folder)
        + ("" if "HUSH_SPARK_CASES" in os.environ else FRUGAL)
        + (CONNECT.format(port=connect_port) if spark_address == "local[2]" else "")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "scratch"))
        server = SparkServer(spark_address)
        with server.transaction():  # so that every engine after it uses the one that runs
            yield spark_address
        server.close()


@pytest.fixture(scope="session")
def connect(spark: str, connect_port: int) -> str:
    """Give the address of a Spark Connect server, which the same driver is."""
    if spark != "local[2]":
        pytest.skip("the suite runs at another server already")
    return f"sc://127.0.0.1:{connect_port}"


@pytest.fixture(scope="session")
def sail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of Sail, a Spark Connect server without a JVM."""
    pytest.importorskip("pysail.spark", reason="Sail needs a client below 4.1: make sail")
    with closing(SailServer(tmp_path_factory.mktemp("sail"))) as server:
        yield server.address
