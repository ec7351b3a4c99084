"""Servers of Spark in processes of their own, on loopback: each is ended by its id, together with what it started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

PATIENCE = 120.0
"""Seconds that a busy machine may take to start a server."""
HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def listens(port: int) -> bool:
    """Return whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


class Child:
    """A program that runs in a group of processes of its own."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
        self._log = folder / "log.txt"
        if shutil.which("setpriv") is not None:  # it ends with this process, however that ends
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=os.environ | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def listening(self, port: int) -> Self:
        """Wait until it listens at a port."""
        try:
            wait_until(lambda: listens(port) or self._process.poll() is not None, "the server does not listen")
            assert self._process.poll() is None, self._log.read_text()[-2000:]
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """End it, and what it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, whichever thread started them."""
    return [int(name) for file in Path(f"/proc/{pid}/task").glob("*/children") for name in file.read_text().split()]


def descendants(pid: int, word: str) -> list[int]:
    """Return the processes below one whose command has a word."""
    found = []
    for child in children(pid):
        if word.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
            found.append(child)
        found += descendants(child, word)
    return found


def spark_class(*words: str) -> list[str]:
    """Return a command that runs a class of the installed Spark."""
    import pyspark

    return [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *words]


class ConnectServer:
    """Spark's own Connect server, which can be killed and started again at the same port."""

    def __init__(self, folder: Path, master: str = "local[2]") -> None:
        self._folder, self._master, self.port = folder, master, free_port()
        self.address = f"sc://{HOST}:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.ui.enabled": "false",
        }
        command = spark_class(
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", self._master),
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            "spark-internal",
        )
        scratch = {"SPARK_LOCAL_DIRS": str(self._folder / "scratch")}
        self._child = Child(command, self._folder, scratch).listening(self.port)

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    close = kill


class Cluster:
    """A master and two workers, each of which has one core."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self.address = f"spark://{HOST}:{self._port}"
        small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(folder / "scratch"), "SPARK_LOCAL_IP": HOST}
        self._environment = small
        master = spark_class(
            "org.apache.spark.deploy.master.Master",
            *("--host", HOST, "--port", str(self._port), "--webui-port", str(free_port())),
        )
        self._master = Child(master, folder, small).listening(self._port)
        self.workers = [self.worker(), self.worker()]

    def worker(self) -> Child:
        """Start a worker."""
        port = free_port()
        command = spark_class(
            "org.apache.spark.deploy.worker.Worker",
            *("--host", HOST, "--port", str(port), "--webui-port", str(free_port()), "--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self._folder / "work"), self.address),
        )
        return Child(command, self._folder, self._environment).listening(port)

    def executors(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        return [pid for worker in self.workers for pid in descendants(worker.pid, "CoarseGrainedExecutorBackend")]

    def close(self) -> None:
        """End all of it."""
        for child in [*self.workers, self._master]:
            child.kill()


SAIL = "from pysail.spark import SparkConnectServer as S; S({host!r}, {port}).start(background=False)"


class SailServer:
    """Sail in a process of its own: when it is told to stop it may hang, so it is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, free_port()
        self.address = f"sc://{HOST}:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-c", SAIL.format(host=HOST, port=self.port)]
        self._child = Child(command, self._folder).listening(self.port)

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    close = kill
