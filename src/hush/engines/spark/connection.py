r"""Spark as an engine: sessions, the statements of a question, and tables and files at which no reader may fail.

An address is a master (``local[*]``, ``spark://host:7077``), where the driver runs in this process, or a Spark Connect
server (``sc://host:15002``), where nothing but statements and results go over the wire. A process has one master, and
engines have sessions of their own in it: their settings and views are theirs. It ends with the last of them.

**Settings** that the dialect relies on are set for every session, whatever the owner's configuration says.

**Views.** Lists of keys become views of the parameters' values, handed over as Arrow, which starts no Python workers. A
table's files, or a table of the catalogue, are a view too: its own name stands in no statement, so what WITH names
cannot hide it. Views are the question's own, and dropped when it ends; all of its statements see one list of files.

**What Spark says** may hold a row's values. It goes nowhere, not even into the owner's log: there stand the kind of an
error and its condition, such as DIVIDE_BY_ZERO. Spark's own logs are off, in the JVM and in Python, where each error is
written to the standard error stream otherwise.

>>> check_address("sc://spark.example:15002/;token=secret")
Traceback (most recent call last):
hush.engines.errors.SourceError: an engine's address holds no token; put it into SPARK_CONNECT_AUTHENTICATE_TOKEN

**Tables** (`SparkTables`). A source is the name of a table, ``catalogue.schema.table``, or a path: to files whose kind
their ending tells, or with the kind before it, ``parquet:/data/visits``. Parquet and ORC have types. CSV has a header,
and JSON, one object on a line, the columns that the policy names; both are read as texts, which become numbers by one
grammar: types are not guessed from the data, because then one row could change the type of a column.

**A row may not decide whether a question fails**, so what Spark's readers raise for is refused when a policy is opened
(`check_hazards`; docs/engines.md has the table), unless the table is public or its owner promises that there is no such
row. Which times of parquet are in milliseconds a master's driver reads in the files; a Spark Connect server does not
show it.

>>> SparkSource.of("clinic.`my.visits`"), SparkSource.of("parquet:/data/visits")
(SparkSource(format=None, place='`clinic`.`my.visits`'), SparkSource(format='parquet', place='/data/visits'))

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes and are
valid UTF-8, instants are clocks in UTC. Texts by which rows find their unit stay different, valid or not: two that are
made one would be one unit. Its files are listed anew at each question; a table of the catalogue has the columns that it
had when it was opened, or is refused.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hush.core.work import interrupting
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.protocol import Pace
from hush.engines.server import Rights, ServerConnection, StoredColumn
from hush.engines.spark.dialect import SAIL, SPARK, SparkDialect
from hush.engines.sql.nodes import From, Scalar, TableName, call, column, primitive
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement, plain
from hush.engines.sql.statements import Row
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

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

    def __init__(self, address: str, *, timeout: float | None = None, read: Read | None = None) -> None:
        self._address = check_address(address)
        self.timeout = timeout
        """Seconds that a statement may take."""
        self._read = read
        """Reads the files of a source."""
        self.remote = address.startswith("sc://")
        """Whether it is a Spark Connect server."""
        self.broken = False
        """Whether the session no longer answers."""
        self._lock = threading.Lock()
        self._questions = count(1)
        self._session: SparkSession | None = None
        self._sail = False
        self._pid = os.getpid()
        if importlib.util.find_spec("pyspark") is None:
            raise SourceError("Spark needs PySpark: pip install 'hush[spark]'")
        # errors may hold a row's values, and these loggers write them out
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    def __repr__(self) -> str:
        return "SparkServer()"  # not even where it is

    @contextmanager
    def transaction(self) -> Iterator[SparkTransaction]:
        """Give the statements of one question."""
        transaction = SparkTransaction(self, self._opened(), next(self._questions), self._read)
        try:
            yield transaction
        finally:
            transaction.close()

    def _opened(self) -> SparkSession:
        """Return the session; one that broke is replaced."""
        with self._lock:
            # a fork would share the sockets of its parent's session
            if self._pid != os.getpid():
                log.debug("a session of Spark belongs to the process that made it")
                raise EngineError
            if self.broken:
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
                self.broken = False
            assert self._session is not None  # noqa: S101 - for mypy
            return self._session

    def _started(self) -> SparkSession:
        """Return a new session with every setting, each one checked; Sail has fewer."""
        session = _remote(self._address) if self.remote else _master(self._address)
        try:
            # RINT rounds half to even, so 2.5 becomes 2; in Sail it becomes 3
            self._sail = bool(session.sql(_IS_SAIL).collect()[0][0])
            for key, value in _SETTINGS.items():
                # Sail does not have all of them; what was taken is checked below
                with suppress(Exception):
                    session.conf.set(key, value)
            # of Sail the settings are not compared, but their effect on a statement is
            zone, text = session.sql(_SETTINGS_TAKEN).collect()[0]
            accepted = self._sail or all(session.conf.get(key, None) == value for key, value in _SETTINGS.items())
        except BaseException:
            self._let_go(session)
            raise
        if accepted and zone == "UTC" and text == "${spark.app.name}":
            return session
        self._let_go(session)
        raise SourceError("this Spark does not take the settings that hush needs; see hush.engines.spark.connection")

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
            with self._lock:  # not while a new session begins
                self.broken = True

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
            _release(session, broken=self.broken)

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
        self._server, self.session, self._read = server, session, read
        self._name = f"hush_{number}"
        self._views: set[str] = set()

    def fetch(self, statement: Statement, parameters: Mapping[int, Sequence[Any]]) -> list[Row]:
        with self._running():
            table = self._query(statement, parameters).toArrow()
            columns = [_cells(column.to_pylist()) for column in table.columns]
            return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows

    def stream(self, statement: Statement, parameters: Mapping[int, Sequence[Any]], size: int) -> Iterator[list[Row]]:
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
            # the jobs of this thread have a name by which they can be ended; at a master it is the context's, as that
            # of a session is known to the thread alone that gave it
            if self._server.remote:
                self.session.addTag(self._name)
            else:
                self.session.sparkContext.addJobTag(self._name)
                self.session.sparkContext.setInterruptOnCancel(True)
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
            name = None
            with suppress(Exception):  # not every error has one
                name = cast("Any", error).getCondition()
            log.debug("engine failure: %s %s", type(error).__name__, name)
            # so that the next question does not meet a session that is gone
            self._server.suspect()
            raise EngineError from None
        finally:
            ended.set()
            with suppress(Exception):
                if self._server.remote:
                    self.session.removeTag(self._name)
                else:
                    self.session.sparkContext.removeJobTag(self._name)

    def _end_after(self, limit: float, ended: threading.Event) -> None:
        """Cancel jobs beyond the limit, again and again: a statement that is still planned has no job yet."""

        def watch() -> None:
            wait = limit
            while not ended.wait(wait):
                wait = 1
                with suppress(Exception):
                    if self._server.remote:
                        self.session.interruptTag(self._name)
                    else:
                        self.session.sparkContext.cancelJobsWithTag(self._name)

        threading.Thread(target=watch, name="hush-cancel", daemon=True).start()

    def _query(self, statement: Statement, parameters: Mapping[int, Sequence[Any]] | None) -> DataFrame:
        """Return a statement's rows, not computed yet, after its views are made; without parameters lists are empty."""
        for name, content in statement.views:
            if name in self._views:
                continue
            if isinstance(content, int):
                assert self._read is not None  # noqa: S101 - a statement over files has a reader
                frame = self._read(self.session, content)
            elif parameters is None or not parameters[content[0][0]]:  # PySpark before 4.1 takes no table without rows
                frame = self.session.sql(SPARK.empty([(kind, label) for _, kind, label in content]))
            else:
                import pyarrow as pa

                types = {
                    "BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "STRING": pa.string(),
                    "BOOLEAN": pa.bool_(), "DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"),
                }  # fmt: skip
                cells = {label: pa.array(parameters[number], types[kind]) for number, kind, label in content}
                frame = self.session.createDataFrame(pa.table(cells))
            frame.createOrReplaceTempView(name)
            self._views.add(name)
        return self.session.sql(statement.text)

    def close(self) -> None:
        """Drop the question's views; those of a session that broke go with it."""
        for name in () if self._server.broken else self._views:
            with suppress(Exception):
                self.session.catalog.dropTempView(name)
        self._views.clear()


def _cells(values: Sequence[Any]) -> list[Any]:
    """Return the cells of a column with decimals, which are whole numbers, as int."""
    return [int(value) if isinstance(value, Decimal) else value for value in values]


_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^.`\s]+)(?:\.(?:`(?:[^`]|``)+`|[^.`\s]+)){0,3}")
_ENDINGS = {
    "parquet": "parquet", "orc": "orc", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
}  # fmt: skip
_FORMATS = frozenset({*_ENDINGS.values(), "delta", "iceberg"})
_PROMISES = {"well-formed csv": "csv", "parquet in microseconds": "parquet"}
UNTYPED = frozenset({"csv", "json"})
OPTIONS = {
    # a line break inside of quotes is not the end of a row: a row cut in two could be another unit's
    "csv": {"header": "true", "inferSchema": "false", "multiLine": "true", "quote": '"', "escape": '"',
            "mode": "PERMISSIVE", "maxColumns": "100000", "maxCharsPerColumn": "-1",
            # columns go by their place: a file whose header is another would give its rows other units
            "enforceSchema": "false"},
    "json": {"primitivesAsString": "true", "mode": "PERMISSIVE"},
}  # fmt: skip
_PLAIN = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_WITHOUT_HAZARD = frozenset({"delta", "iceberg", "csv", "json"})
"""Formats that store times as microseconds, or as texts."""
_CURRENT_USER = "SELECT CURRENT_USER()"
_MILLISECONDS = re.compile(r"int64 (.+) \(TIMESTAMP\(MILLIS,")
_AT_ONCE = 16
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Where a table's rows are: files of a format, or a table of the catalogue by its quoted name."""

    format: str | None
    place: str
    promised: bool = field(default=False, repr=False)
    """Whether the owner promises that its readers fail at no row."""

    @classmethod
    def of(cls, source: str, directory: Path | None = None) -> SparkSource:
        """Return a source as a policy writes it; paths are relative to a directory."""
        kind, _, path = source.partition(":")
        if kind in _PROMISES and path:
            return cls(_PROMISES[kind], _absolute(path, directory), promised=True)
        if kind in _FORMATS and path and not path.startswith("//"):
            return cls(kind, _absolute(path, directory))
        ending = source.rstrip("/*").rpartition(".")[2].lower()
        if ending in _ENDINGS and "`" not in source:  # clinic.csv is a file, and `clinic`.csv a table
            return cls(_ENDINGS[ending], _absolute(source, directory))
        if not _NAME.fullmatch(source.strip()) or "\0" in source:
            raise SourceError(
                f"a table of Spark is written schema.table, visits.parquet or parquet:/data/visits; got {source!r}"
            )
        parts = [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(source.strip())]
        return cls(None, ".".join(map(SPARK.quoted, parts)))


def _absolute(path: str, directory: Path | None) -> str:
    if "://" in path or path.startswith("/") or directory is None:
        return path
    return str(directory / path)


def _column(name: str, type_: str, *, decoded: bool) -> StoredColumn:
    """Return a column as Spark has it; where it is ``decoded``, bytes that are no UTF-8 have become U+FFFD."""
    cell = column(name)
    read: tuple[Scalar, str] | None = None
    if type_ in _PLAIN:
        read = cell, _PLAIN[type_]
    elif type_ == "timestamp":
        read = call("stored_instant", cell), "TIMESTAMP"
    elif type_.startswith(("string", "char", "varchar")):
        # a collation may call different texts equal, and units must stay apart
        plain = "collate" not in type_
        key = primitive("stored_key", cell, plain=plain, decoded=decoded), "VARCHAR"
        return StoredColumn(type_, (primitive("stored_text", cell, plain=plain), "VARCHAR"), key)
    elif fixed := _DECIMAL.fullmatch(type_):
        read = cell, f"DECIMAL({fixed[1]},{fixed[2]})"
    return StoredColumn(type_, read, read)


def columns_of(frame: DataFrame, *, decoded: bool = False) -> dict[str, StoredColumn]:
    """Return a frame's columns by their names."""
    fields = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    return {name: _column(name, type_, decoded=decoded) for name, type_ in fields}


def format_of(session: SparkSession, source: SparkSource) -> str | None:
    """Return the format of a source's files; None if the catalogue does not say, as of a view."""
    if source.format is not None:
        return source.format
    try:
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {source.place}").collect()
    except Exception:  # of servers that cannot say  # noqa: BLE001
        return None
    return next((str(row[1]).lower() for row in rows if row[0] == "Provider"), None)


def check_hazards(table: str, source: SparkSource, kind: str | None, times: Collection[str], *, remote: bool) -> bool:
    """Refuse a private table in which a row could make Spark fail; return whether its files must be looked at."""
    if source.promised:
        return False
    if kind == "csv" and source.format is not None:
        raise SourceError(
            f"table {table!r} is CSV: one record with a quote that is never closed, or with 100,000 cells, decides "
            "what Spark reads; if a program wrote it properly, say so by 'well-formed csv:' before its path, else "
            "store it as parquet",
            table=table,
        )
    if source.format is None and kind in {"csv", "json", "text", "xml"}:
        raise SourceError(
            f"table {table!r} is {kind} with types, at which a row can fail; name its files instead", table=table
        )
    if not times or kind in _WITHOUT_HAZARD:
        return False
    if kind == "parquet" and not remote:
        return True
    way = "promise 'parquet in microseconds:' before its path, " if source.format == "parquet" else ""
    raise SourceError(
        f"the times of table {table!r} may be beyond Spark's range, where it fails; {way}store them in Delta or "
        "Iceberg, or leave them out of the policy",
        table=table,
    )


def times_in_milliseconds(session: SparkSession, files: Sequence[str]) -> set[str]:
    """Return the columns that are times in milliseconds in one of some files of parquet, by the types written there."""
    context: Any = session.sparkContext
    java, settings = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no other way

    def found(file: str) -> list[str]:
        input_file = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            java.org.apache.hadoop.fs.Path(java.java.net.URI(file)), settings
        )
        reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(input_file)
        try:
            return _MILLISECONDS.findall(str(reader.getFileMetaData().getSchema().toString()))
        finally:
            reader.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name for names in pool.map(found, files) for name in names}


class SparkTables(ServerConnection):
    """Tables of Spark; ``tables`` says where each is, ``declared`` names the columns of JSON files."""

    server: SparkServer

    def __init__(
        self,
        address: str,
        tables: Mapping[str, str],
        declared: Mapping[str, Sequence[str]] | None = None,
        *,
        directory: Path | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self.server = SparkServer(address, timeout=timeout, read=self.read)
        # a remote server's files are on its own disk, where this directory means nothing
        directory = None if self.server.remote else directory
        self.names: dict[str, SparkSource] = {}
        """Where each table is; a view of its rows has the number of its place here."""
        self._declared = declared or {}
        self._schemas: dict[str, Any] = {}
        self._stored: dict[str, dict[str, StoredColumn]] = {}
        for table, source in tables.items():
            try:
                self.names[table] = SparkSource.of(source, directory)
            except SourceError as error:
                raise SourceError(str(error), table=table) from None
        self._times: dict[str, frozenset[str]] = {}
        self._files: set[str] = set()
        try:
            with self.server.transaction() as transaction:
                for table, place in self.names.items():
                    self._stored[table] = self._columns(table, place, transaction.session)
        except EngineError:
            self.close()
            raise SourceError("Spark cannot be reached; is its address right, and does it run?") from None
        except SourceError:
            self.close()
            raise

    def _columns(self, table: str, source: SparkSource, session: SparkSession) -> dict[str, StoredColumn]:
        if source.format in UNTYPED and self.server.sail:
            # where one malformed record fails every statement, and columns of CSV go by their place
            problem = f"table {table!r} is {source.format.upper()}, which Sail does not read safely"
            raise SourceError(f"{problem}; store it as parquet", table=table)
        try:
            frame = self._frame(session, table)
            columns = columns_of(frame, decoded=source.format in UNTYPED)
        except Exception:  # whatever it says may name hosts  # noqa: BLE001
            problem = "in Spark's catalogue" if source.format is None else "a file that Spark can read"
            raise SourceError(f"table {table!r} is not {problem}, or may not be read", table=table) from None
        if source.format is not None and source.format not in UNTYPED:
            # the columns stay those of now: files that come later cannot change a type
            self._schemas[table] = frame.schema
        return columns

    def read(self, session: SparkSession, number: int) -> DataFrame:
        """Return a source as it is now, in which no row can fail; a table of the catalogue has the columns it had."""
        table = list(self.names)[number]
        frame = self._frame(session, table)
        if table in self._times:
            # files of parquet are written once, so each is looked at once
            files = [file for file in frame.inputFiles() if file not in self._files]
            names = ", ".join(sorted(times_in_milliseconds(session, files) & self._times[table]))
            if names:
                problem = f"table {table!r} has times in milliseconds ({names}), at which Spark may fail"
                raise SourceError(f"{problem}; store them in microseconds", table=table)
            self._files.update(files)
        return frame

    def _frame(self, session: SparkSession, table: str) -> DataFrame:
        source = self.names[table]
        if source.format is None:
            with suppress(Exception):  # a session keeps the files that it has seen, whatever others do to the table
                session.catalog.refreshTable(source.place)
            frame = session.table(source.place)
            if self._stored.get(table) not in (None, columns_of(frame)):
                # a text where numbers were would be cast, and a row could make that fail
                raise SourceError(f"table {table!r} has other columns than before; open the policy anew", table=table)
            return frame
        reader = session.read.format(source.format).options(**OPTIONS.get(source.format, {}))
        if table in self._schemas:
            reader = reader.schema(self._schemas[table])
        elif source.format == "json":
            reader = reader.schema(", ".join(f"{SPARK.quoted(name)} STRING" for name in self._declared.get(table, ())))
        return reader.load(source.place)

    def register(self, schema: Schema) -> Catalogue:
        """Return the catalogue of the tables; refuse those in which a row could make Spark fail."""
        with self.server.transaction() as transaction:
            for number, (name, source) in enumerate(self.names.items()):
                table = schema.tables.get(name)
                # a public table may fail: that tells of nobody
                if table is None or table.public:
                    continue
                needed = {*table.columns, *table.keys, *schema.identifying(name)}
                times = (
                    frozenset(label for label, stored in self._stored[name].items() if stored.type in _TIMES) & needed
                )
                kind = format_of(transaction.session, source)
                if check_hazards(name, source, kind, times, remote=self.server.remote):
                    self._times[name] = times
                    self.read(transaction.session, number)
        return super().register(schema)

    pace = Pace(statement=2.0, row=4)

    @property
    def dialect(self) -> SparkDialect:  # type: ignore[override]
        """How the server spells SQL: Spark's way, or Sail's."""
        return SAIL if self.server.sail else SPARK

    def _rows(self, table: str) -> From:
        return TableName(list(self.names).index(table))

    def rights(self, needed: Mapping[str, Sequence[str]]) -> Rights:
        """Return the columns that are not there, or of a type that hush does not read; Spark tells of no rights."""
        with self.server.transaction() as transaction:
            role = str(transaction.fetch(plain(_CURRENT_USER), {})[0][0])
        readable = {
            table: {name for name, stored in columns.items() if stored.cell} for table, columns in self._stored.items()
        }
        missing = [
            f"{table}.{name}" for table, names in needed.items() for name in names if name not in readable[table]
        ]
        return Rights(role=role, missing=tuple(f"{role} does not read {name}" for name in missing), complete=False)

    def resolve(self, statements: Sequence[Statement], released: Statement | None = None) -> None:
        """Resolve statements; in a new session if the old one was lost, since nothing is charged yet."""
        try:
            super().resolve(statements, released)
        except UnplannableError:
            # the session is there, so the statement itself is what Spark cannot resolve
            if not self.server.broken:
                raise
            super().resolve(statements, released)

    def _let_resolve(self, statements: Sequence[Statement]) -> None:
        with self.server.transaction() as transaction:
            for statement in statements:
                transaction.resolve(statement)
