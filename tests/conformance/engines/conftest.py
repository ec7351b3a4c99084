"""Engines to compare: each is made from a connection alone, over the tables of `worlds`, whose rows can be swapped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from hush.engines.spark.session import SparkServer

FRUGAL = """
spark.driver.defaultJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
"""Without compilers, which take longer than a question of a test; nightly runs have them."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a Spark that runs in this process, with two threads and little memory."""
    pytest.importorskip("pyspark", reason="Spark needs PySpark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(
        "spark.driver.memory 2g\nspark.sql.shuffle.partitions 2\nspark.driver.bindAddress 127.0.0.1\n"
        f"spark.driver.host 127.0.0.1\nspark.sql.warehouse.dir {folder}/warehouse\n"
        + ("" if "HUSH_SPARK_CASES" in os.environ else FRUGAL)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("SPARK_LOCAL_DIRS", str(folder / "scratch"))
        server = SparkServer("local[2]")
        with server.transaction():  # so that every engine after it uses the one that runs
            yield "local[2]"
        server.close()


@pytest.fixture(scope="session")
def sail() -> Iterator[str]:
    """Give the address of Sail, a Spark Connect server that runs in this process."""
    server = pytest.importorskip("pysail.spark", reason="Sail needs a client below 4.1: make sail").SparkConnectServer
    running = server("127.0.0.1", 0)
    running.start(background=True)
    yield f"sc://127.0.0.1:{running.listening_address[1]}"
    running.stop()
