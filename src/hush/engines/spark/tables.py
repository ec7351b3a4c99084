r"""Tables of Spark's catalogue and files as an engine: their columns, and rows at which Spark's readers would fail.

A source is the name of a table, ``catalogue.schema.table``, or a path: to files whose kind their ending tells, or with
the kind before it, ``parquet:/data/visits``. Parquet and ORC have types. CSV has a header, and JSON, one object on a
line, the columns that the policy names; both are read as texts, which become numbers by one grammar, whatever the rows
are: types are not guessed from the data, because then one row could change the type of a column.

**A row may not decide whether a question fails**, so what Spark's readers raise for is refused when a policy is opened,
unless the table is public or its owner promises that there is no such row:

* CSV: a record of more than 100,000 cells, and a quote that is never closed makes one row of all that follow. A program
  that writes CSV properly makes neither: ``well-formed csv:/data/visits`` says that one has.
* Times of parquet in milliseconds overflow at the year 294,000. A master's driver reads the types that the files have
  (`times_in_milliseconds`); a Spark Connect server does not show them, and ``parquet in microseconds:`` promises.
* Times of ORC overflow alike, whatever the files say.

Bytes that are no UTF-8 reach us as U+FFFD from CSV and JSON. Two units could be one there, so a text with this
character names no unit.

>>> SparkSource.of("clinic.`my.visits`"), SparkSource.of("parquet:/data/visits")
(SparkSource(format=None, place='`clinic`.`my.visits`'), SparkSource(format='parquet', place='/data/visits'))

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes and are
valid UTF-8, instants are clocks in UTC. Texts by which rows find their unit stay different, valid or not: two that are
made one would be one unit.

What a table is made of is looked up at each question: its files are listed, and a table of the catalogue has the
columns that it had when it was opened, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.engines.errors import EngineError, SourceError
from hush.engines.protocol import Pace
from hush.engines.server import Rights, ServerConnection, Transaction
from hush.engines.spark.dialect import SAIL, SPARK, SparkDialect
from hush.engines.spark.session import SparkServer
from hush.engines.sql.nodes import From, Scalar, Select, SourceView, column, primitive
from hush.engines.sql.relations import Catalogue
from hush.engines.sql.render import Statement, plain
from hush.engines.sql.statements import ReleasedStatement
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """A column as Spark has it."""

    name: str
    type: str
    decoded: bool = False
    """Whether bytes that are no UTF-8 have become U+FFFD."""

    @property
    def is_time(self) -> bool:
        """Whether it holds times of a day."""
        return self.type in _TIMES

    def read(self, *, identifies: bool = False) -> tuple[Scalar, str] | None:
        """Return the expression that reads it and its neutral type; a unit, or a key to one, ``identifies``."""
        name = column(self.name)
        if self.type in _PLAIN:
            return name, _PLAIN[self.type]
        if self.type == "timestamp":
            return primitive("stored_instant", name), "TIMESTAMP"
        if self.type.startswith(("string", "char", "varchar")):
            # a collation may call different texts equal, and units must stay apart
            plain = "collate" not in self.type
            if identifies:
                return primitive("stored_key", name, plain=plain, decoded=self.decoded), "VARCHAR"
            return primitive("stored_text", name, plain=plain), "VARCHAR"
        fixed = _DECIMAL.fullmatch(self.type)
        return None if fixed is None else (name, f"DECIMAL({fixed[1]},{fixed[2]})")


def columns_of(frame: DataFrame, *, decoded: bool = False) -> dict[str, SparkColumn]:
    """Return a frame's columns by their names."""
    return {
        column_field.name: SparkColumn(column_field.name, column_field.dataType.simpleString(), decoded)
        for column_field in frame.schema.fields
    }


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
        self.server = SparkServer(address, timeout=timeout)
        # a remote server's files are on its own disk, where this directory means nothing
        directory = None if self.server.remote else directory
        self.names: dict[str, SparkSource] = {}
        self._declared = declared or {}
        self._schemas: dict[int, Any] = {}
        self._stored: dict[str, dict[str, SparkColumn]] = {}
        for table, source in tables.items():
            try:
                self.names[table] = SparkSource.of(source, directory)
            except SourceError as error:
                raise SourceError(str(error), table=table) from None
        self._places = list(self.names.values())
        self._times: dict[int, frozenset[str]] = {}
        self._files: set[str] = set()
        try:
            with self.server.transaction(self.read) as transaction:
                for number, table in enumerate(self.names):
                    self._stored[table] = self._columns(table, number, transaction.session)
        except EngineError:
            self.close()
            raise SourceError("Spark cannot be reached; is its address right, and does it run?") from None
        except SourceError:
            self.close()
            raise

    def _columns(self, table: str, number: int, session: SparkSession) -> dict[str, SparkColumn]:
        source = self._places[number]
        if source.format in UNTYPED and self.server.sail:
            # where one malformed record fails every statement, and columns of CSV go by their place
            problem = f"table {table!r} is {source.format.upper()}, which Sail does not read safely"
            raise SourceError(f"{problem}; store it as parquet", table=table)
        try:
            frame = self.read(session, number)
            columns = columns_of(frame, decoded=source.format in UNTYPED)
        except Exception:  # whatever it says may name hosts  # noqa: BLE001
            problem = "in Spark's catalogue" if source.format is None else "a file that Spark can read"
            raise SourceError(f"table {table!r} is not {problem}, or may not be read", table=table) from None
        if source.format is not None and source.format not in UNTYPED:
            # the columns stay those of now: files that come later cannot change a type
            self._schemas[number] = frame.schema
        return columns

    def read(self, session: SparkSession, number: int) -> DataFrame:
        """Return a source as it is now, in which no row can fail; a table of the catalogue has the columns it had."""
        frame = self._frame(session, number)
        if number in self._times:
            # files of parquet are written once, so each is looked at once
            files = [file for file in frame.inputFiles() if file not in self._files]
            names = ", ".join(sorted(times_in_milliseconds(session, files) & self._times[number]))
            if names:
                table = list(self.names)[number]
                problem = f"table {table!r} has times in milliseconds ({names}), at which Spark may fail"
                raise SourceError(f"{problem}; store them in microseconds", table=table)
            self._files.update(files)
        return frame

    def _frame(self, session: SparkSession, number: int) -> DataFrame:
        source, table = self._places[number], list(self.names)[number]
        if source.format is None:
            with suppress(Exception):  # a session keeps the files that it has seen, whatever others do to the table
                session.catalog.refreshTable(source.place)
            frame = session.table(source.place)
            if self._stored.get(table) not in (None, columns_of(frame)):
                # a text where numbers were would be cast, and a row could make that fail
                raise SourceError(f"table {table!r} has other columns than before; open the policy anew", table=table)
            return frame
        reader = session.read.format(source.format).options(**OPTIONS.get(source.format, {}))
        if number in self._schemas:
            reader = reader.schema(self._schemas[number])
        elif source.format == "json":
            reader = reader.schema(", ".join(f"{SPARK.quoted(name)} STRING" for name in self._declared.get(table, ())))
        return reader.load(source.place)

    def register(self, schema: Schema) -> Catalogue:
        """Return the catalogue of the tables; refuse those in which a row could make Spark fail."""
        with self.server.transaction(self.read) as transaction:
            for number, (name, source) in enumerate(self.names.items()):
                table = schema.tables.get(name)
                # a public table may fail: that tells of nobody
                if table is None or table.public:
                    continue
                needed = {*table.columns, *table.keys, *schema.identifying(name)}
                times = frozenset(label for label, stored in self._stored[name].items() if stored.is_time) & needed
                kind = format_of(transaction.session, source)
                if check_hazards(name, source, kind, times, remote=self.server.remote):
                    self._times[number] = times
                    self.read(transaction.session, number)
        return super().register(schema)

    pace = Pace(statement=2.0, row=4)

    @property
    def dialect(self) -> SparkDialect:  # type: ignore[override]
        """How the server spells SQL: Spark's way, or Sail's."""
        return SAIL if self.server.sail else SPARK

    def _rows(self, table: str) -> From:
        return SourceView(list(self.names).index(table))

    def rights(self, needed: Mapping[str, Sequence[str]]) -> Rights:
        """Return the columns that are not there, or of a type that hush does not read; Spark tells of no rights."""
        with self.server.transaction() as transaction:
            role = str(transaction.fetch(plain(_CURRENT_USER), {})[0][0])
        readable = {
            table: {name for name, stored in columns.items() if stored.read()}
            for table, columns in self._stored.items()
        }
        missing = [
            f"{table}.{name}" for table, names in needed.items() for name in names if name not in readable[table]
        ]
        return Rights(role=role, missing=tuple(f"{role} does not read {name}" for name in missing), complete=False)

    def begin(self) -> AbstractContextManager[Transaction]:
        """Begin a question's statements."""
        return self.server.transaction(self.read)

    def resolve(
        self, statements: Sequence[Statement], released: ReleasedStatement | None = None, keys: Select | None = None
    ) -> None:
        """Resolve statements; in a new session if the old one was lost, since nothing is charged yet."""
        try:
            super().resolve(statements, released, keys)
        except UnplannableError:
            # the session is there, so the statement itself is what Spark cannot resolve
            if not self.server.broken:
                raise
            super().resolve(statements, released, keys)

    def _let_resolve(self, statements: Sequence[Statement]) -> None:
        with self.server.transaction(self.read) as transaction:
            for statement in statements:
                transaction.resolve(statement)

    def close(self) -> None:
        """End the session."""
        super().close()
        self.server.close()
