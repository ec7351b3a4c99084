r"""Sessions of Spark, and the statements of a question.

An address is a master (``local[*]``, ``spark://host:7077``), where the driver runs in this process, or a Spark Connect
server (``sc://host:15002``), where nothing but statements and results go over the wire. A process has one master, and
engines have sessions of their own in it: their settings and views are theirs. It ends with the last of them.

**Settings.** The dialect relies on ANSI mode, on UTC, on names that differ by case, and on the parser's standard
reading of constants. They are set for every session, whatever the owner's configuration says.

**Views.** A statement says which views it needs (`Statement.views`). Lists of keys become views of the parameters'
values, handed over as Arrow, which starts no Python workers. A table's files, or a table of the catalogue, are a view
too: its own name stands in no statement, so what WITH names cannot hide it. Names of views are the question's own, and
they are dropped when it ends; all of its statements see one list of files.

**What Spark says** may hold a row's values. It goes nowhere, not even into the owner's log: there stand the kind of an
error and its condition, such as DIVIDE_BY_ZERO. Spark's own logs are off, in the JVM and in Python, where each error is
written to the standard error stream otherwise.

>>> check_address("sc://spark.example:15002/;token=secret")
Traceback (most recent call last):
hush.engines.errors.SourceError: an engine's address holds no token; put it into SPARK_CONNECT_AUTHENTICATE_TOKEN
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hush.core.work import interrupting
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.spark.dialect import SPARK
from hush.engines.sql.render import Statement
from hush.engines.sql.statements import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Read = Callable[[SparkSession, int], DataFrame]
    """Reads a source, by its number."""

_MASTER = re.compile(r"local(\[[\w*,]+\])?|spark://[^\s;]+")
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # folders unit=1 and unit=01 are two units, and one named otherwise must not fail a statement
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_START = {
    "spark.app.name": "hush",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # of statements that ended Spark keeps a thousand plans, for pages that nobody sees
    "spark.sql.ui.retainedExecutions": "8",
    "spark.ui.retainedJobs": "32",
    "spark.ui.retainedStages": "64",
    "spark.ui.retainedTasks": "512",
    "spark.sql.maxPlanStringLength": "20000",
    "spark.driver.extraJavaOptions": "-Xss16m -Dlog4j2.level=OFF -Dlog4j2.StatusLogger.level=OFF",
}
_LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that write every error, with its values, to the standard error stream."""
_IS_SAIL = "SELECT RINT(2.5D) = 3.0D"
_SETTINGS_TAKEN = r"SELECT current_timezone(), '\u0024{spark.app.name}'"
_ANYTHING = "SELECT 1"
_NOTHING = 100
_RETRIES = 4
"""How often a Spark Connect server is tried again, within five seconds."""
_MASTERS = threading.RLock()
_DRIVER: _Driver | None = None


def check_address(address: str) -> str:
    """Return an address without a token; refuse one that has it, without repeating it."""
    if not address.startswith("sc://") and _MASTER.fullmatch(address) is None:
        raise SourceError("Spark's address is written local[*], spark://host:7077 or sc://host:15002")
    if re.search(r"token=|://[^/]*@", address, re.IGNORECASE):
        raise SourceError("an engine's address holds no token; put it into SPARK_CONNECT_AUTHENTICATE_TOKEN")
    return address


def check_java() -> None:
    """Refuse to start without Java, and say how to install it."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise SourceError("Spark needs Java 17 or newer: install it, or set JAVA_HOME")


class SparkServer:
    """An address, and a session there. Use it from any thread."""

    def __init__(self, address: str, *, timeout: float | None = None) -> None:
        self._address = check_address(address)
        self.timeout = timeout
        """Seconds that a statement may take."""
        self._lock = threading.Lock()
        self._questions = 0
        self._session: SparkSession | None = None
        self._broken = self._sail = False
        self._pid = os.getpid()
        if importlib.util.find_spec("pyspark") is None:
            raise SourceError("Spark needs PySpark: pip install 'hush[spark]'")
        # errors may hold a row's values, and these loggers write them out
        for name in _LOUD:
            logging.getLogger(name).setLevel(_NOTHING)

    def __repr__(self) -> str:
        return "SparkServer()"  # not even where it is

    @property
    def remote(self) -> bool:
        """Whether it is a Spark Connect server."""
        return self._address.startswith("sc://")

    @contextmanager
    def transaction(self, read: Read | None = None) -> Iterator[SparkTransaction]:
        """Give the statements of one question; ``read`` reads the files of a source."""
        transaction = SparkTransaction(self, self._opened(), self._number(), read)
        try:
            yield transaction
        finally:
            transaction.close()

    def _number(self) -> int:
        with self._lock:
            self._questions += 1
            return self._questions

    def _opened(self) -> SparkSession:
        """Return the session; one that broke is replaced."""
        with self._lock:
            # a fork would share the sockets of its parent's session
            if self._pid != os.getpid():
                log.debug("a session of Spark belongs to the process that made it")
                raise EngineError
            if self._session is not None and self._broken:
                self._ended()
            for last in (False, True):  # a server that has just come back may lose the first statement
                if self._session is not None:
                    break
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # of versions of pandas
                        self._session = self._started()
                except SourceError:
                    raise
                except Exception as error:  # it may name hosts  # noqa: BLE001
                    log.debug("Spark cannot be reached: %s", type(error).__name__)
                    if last:
                        raise EngineError from None
                self._broken = False
            assert self._session is not None  # noqa: S101 - for mypy
            return self._session

    def _started(self) -> SparkSession:
        session = _remote(self._address) if self.remote else _master(self._address)
        try:
            self._set(session)
        except BaseException:
            self._let_go(session)
            raise
        return session

    def _set(self, session: SparkSession) -> None:
        """Make every setting, and check that it was taken; Sail has fewer settings."""
        # RINT rounds half to even, so 2.5 becomes 2; in Sail it becomes 3
        self._sail = bool(session.sql(_IS_SAIL).collect()[0][0])
        for key, value in _SETTINGS.items():
            # Sail does not have all of them; what was taken is checked below
            with suppress(Exception):
                session.conf.set(key, value)
        # of Sail the settings are not compared, but their effect on a statement is
        zone, text = session.sql(_SETTINGS_TAKEN).collect()[0]
        accepted = self._sail or all(session.conf.get(key, None) == value for key, value in _SETTINGS.items())
        if not accepted or zone != "UTC" or text != "${spark.app.name}":
            raise SourceError("this Spark does not take the settings that hush needs; see hush.engines.spark.session")

    @property
    def sail(self) -> bool:
        """Whether the server is Sail, by its RINT."""
        self._opened()
        return self._sail

    def suspect(self) -> None:
        """Take note that a statement failed: the next question looks whether the session still answers."""
        with self._lock:
            session = self._session
        try:
            if session is not None and self.remote:
                session.sql(_ANYTHING).collect()
            elif session is not None:  # a statement would wait where no worker is left
                assert not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001, S101
        except Exception:  # noqa: BLE001
            with self._lock:
                self._broken = True

    @property
    def broken(self) -> bool:
        """Whether the session no longer answers."""
        with self._lock:
            return self._broken

    def _ended(self) -> None:
        """End the session, and remove the files of one that broke."""
        session, self._session = self._session, None
        if session is not None and self._pid == os.getpid():
            self._let_go(session)

    def _let_go(self, session: SparkSession) -> None:
        if self.remote:
            with suppress(Exception):
                session.stop()
            with suppress(Exception):
                session.client._channel.close()  # noqa: SLF001
        else:
            _release(session, broken=self._broken)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._ended()


class _Driver:
    """The driver that runs in this process, how many sessions use it, and the folders that stay if it is killed."""

    def __init__(self, context: Any, *, ours: bool) -> None:
        self.context, self.ours, self.users = context, ours, 0
        self._folders = [Path(context._temp_dir).parent]  # noqa: SLF001
        with suppress(Exception):  # by the field: methods of this class need another that is not installed
            read = context._jvm.org.apache.commons.lang3.reflect.FieldUtils.readField  # noqa: SLF001
            blocks = read(context._jsc.sc().env(), "blockManager", True)  # noqa: SLF001
            self._folders += [Path(str(folder)) for folder in blocks.diskBlockManager().localDirs()]

    def end(self, *, broken: bool) -> None:
        """End it; of one that broke nothing stays, not in this process and not on the disk."""
        with suppress(Exception):
            self.context.stop()
        if broken:  # the JVM may be gone
            for name in ("_active_spark_context", "_gateway", "_jvm"):
                setattr(type(self.context), name, None)
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)


def _remote(address: str) -> SparkSession:
    """Return a new session of a Spark Connect server."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    # PySpark's own builder would forbid this process to run a master for another data set
    session: Any = RemoteSession.builder.remote(address).create()
    # its own policy waits ten minutes for a server that is gone
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    # before 4.1 it ends a pool that all sessions share, at any moment when this one is collected: questions of others
    # fail then, or wait for ever
    session.client.close = lambda: None
    return cast("SparkSession", session)


def _master(address: str) -> SparkSession:
    """Return a new session at the master that runs in this process, which is started if there is none."""
    global _DRIVER  # noqa: PLW0603 - as PySpark's own context is the process's
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _MASTERS:
        running = SparkContext._active_spark_context  # noqa: SLF001 - there is no other way to ask
        # PySpark has one context a process, and would return it whatever the address is
        if running is not None and running.master != address:
            raise SourceError("this process runs Spark at another master already; use one master for all data sets")
        check_java()
        builder: Any = SparkSession.builder
        if running is None:
            builder = builder.master(address)
            for key, value in _START.items():
                builder = builder.config(key, value)
        session: SparkSession = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        if _DRIVER is None or _DRIVER.context is not session.sparkContext:
            _DRIVER = _Driver(session.sparkContext, ours=running is None)
        _DRIVER.users += 1
        return session.newSession()


def _release(session: SparkSession, *, broken: bool) -> None:
    """Let go of the master; the last session ends it, and the first that finds it broken."""
    global _DRIVER  # noqa: PLW0603
    with _MASTERS:
        driver = _DRIVER
        if driver is None or driver.context is not session.sparkContext:
            return  # another session has replaced it
        # a context that somebody else started is not ours to stop, unless it is broken
        driver.users -= 1
        if broken or (driver.ours and not driver.users):
            _DRIVER = None
            driver.end(broken=broken)


class SparkTransaction:
    """Statements of one question; every failure is an `EngineError`."""

    def __init__(self, server: SparkServer, session: SparkSession, number: int, read: Read | None) -> None:
        self._server, self._session, self._read = server, session, read
        self._name = f"hush_{number}"
        self._views: set[str] = set()

    @property
    def session(self) -> SparkSession:
        """The session."""
        return self._session

    def fetch(self, statement: Statement, parameters: Mapping[int, Sequence[Any]]) -> list[Row]:
        """Run a statement and return its rows."""
        with self._running():
            table = self._query(statement, parameters).toArrow()
            columns = [_cells(column.to_pylist()) for column in table.columns]
            return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows

    def stream(self, statement: Statement, parameters: Mapping[int, Sequence[Any]], size: int) -> Iterator[list[Row]]:
        """Run a statement and yield its rows in batches of a size."""
        with self._running():
            # Spark hands over one partition after the other, and never all groups at once
            rows = iter(self._query(statement, parameters).toLocalIterator())
        while True:
            with self._running():
                batch = [row for _, row in zip(range(size), rows, strict=False)]
            if not batch:
                break
            yield [tuple(_cells(row)) for row in batch]

    def resolve(self, statement: Statement) -> None:
        """Let Spark resolve a statement without running it; of a table that changed it may be said."""
        with self._running(charged=False):
            _ = self._query(statement, None).schema

    @contextmanager
    def _running(self, *, charged: bool = True) -> Iterator[None]:
        """Run something with the time limit; replace its error, which may tell of a row."""
        limit, ended = self._server.timeout, threading.Event()
        try:
            self._tagged(self._name)
            if limit is not None:
                self._end_after(limit, ended)
            with interrupting(partial(self._end_after, 0.0, ended)):
                yield
        except EngineError:
            raise
        except Exception as error:
            # our own readers raise it, before the charge, and it tells of no row; afterwards all failures look alike
            if isinstance(error, SourceError) and not charged:
                raise
            condition = getattr(error, "getCondition", lambda: None)
            name = None
            with suppress(Exception):
                name = condition()
            log.debug("engine failure: %s %s", type(error).__name__, name)
            # so that the next question does not meet a session that is gone
            self._server.suspect()
            raise EngineError from None
        finally:
            ended.set()
            with suppress(Exception):
                self._tagged(None)

    def _tagged(self, name: str | None) -> None:
        """Give the jobs of this thread a name by which they can be ended; None takes it away.

        At a master the name is the context's: that of a session is known to the thread alone that gave it.
        """
        if self._server.remote:
            if name is None:
                self._session.removeTag(self._name)
            else:
                self._session.addTag(name)
            return
        context = self._session.sparkContext
        if name is None:
            context.removeJobTag(self._name)
        else:
            context.addJobTag(name)
            context.setInterruptOnCancel(True)

    def _end_after(self, limit: float, ended: threading.Event) -> None:
        threading.Thread(target=self._watch, args=(limit, ended), name="hush-cancel", daemon=True).start()

    def _watch(self, limit: float, ended: threading.Event) -> None:
        """Cancel jobs beyond the limit, again and again: a statement that is still planned has no job yet."""
        while not ended.wait(limit):
            limit = 1
            with suppress(Exception):
                self._interrupt()

    def _interrupt(self) -> None:
        if self._server.remote:
            self._session.interruptTag(self._name)
        else:
            self._session.sparkContext.cancelJobsWithTag(self._name)

    def _query(self, statement: Statement, parameters: Mapping[int, Sequence[Any]] | None) -> DataFrame:
        """Return a statement's rows, not computed yet, after its views are made; without parameters lists are empty."""
        for name, content in statement.views:
            if name in self._views:
                continue
            if isinstance(content, int):
                assert self._read is not None  # noqa: S101 - a statement over files has a reader
                frame = self._read(self._session, content)
            else:
                frame = self._listed(content, parameters)
            frame.createOrReplaceTempView(name)
            self._views.add(name)
        return self._session.sql(statement.text)

    def _listed(
        self, cells: Sequence[tuple[int, str, str]], parameters: Mapping[int, Sequence[Any]] | None
    ) -> DataFrame:
        """Return lists as one table: cells are a parameter's number, a type and a name each."""
        import pyarrow as pa

        if parameters is None or not parameters[cells[0][0]]:  # PySpark before 4.1 takes no table without rows
            return self._session.sql(SPARK.empty([(kind, name) for _, kind, name in cells]))
        table = pa.table({name: pa.array(parameters[number], _arrow_type(kind)) for number, kind, name in cells})
        return self._session.createDataFrame(table)

    def close(self) -> None:
        """Drop the question's views; those of a session that broke go with it."""
        for name in () if self._server.broken else self._views:
            with suppress(Exception):
                self._session.catalog.dropTempView(name)
        self._views.clear()


def _cells(values: Sequence[Any]) -> list[Any]:
    """Return the cells of a column with decimals, which are whole numbers, as int."""
    return [int(value) if isinstance(value, Decimal) else value for value in values]


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    types = {
        "BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"),
    }  # fmt: skip
    return types[kind]
