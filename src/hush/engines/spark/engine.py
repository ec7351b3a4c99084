r"""Spark as an engine, over tables of its catalogue and files (`hush.engines.spark.sources`).

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes and are
valid UTF-8, instants are clocks in UTC. Texts by which rows find their unit stay different, valid or not: two that are
made one would be one unit.

What a table is made of is looked up at each question: its files are listed, and a table of the catalogue has the
columns that it had when it was opened, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hush.engines.errors import EngineError, SourceError
from hush.engines.server import ParameterisedText, ServerEngine, ServerTables, Transaction, identifying
from hush.engines.spark.dialect import SAIL, SPARK
from hush.engines.spark.session import SparkServer
from hush.engines.spark.sources import (
    OPTIONS,
    UNTYPED,
    SparkColumn,
    SparkSource,
    check_hazards,
    columns_of,
    format_of,
    times_in_milliseconds,
)
from hush.engines.sql.dialect import Dialect
from hush.engines.sql.relations import Catalogue
from hush.query.errors import UnplannableError
from hush.query.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkTables(ServerTables):
    """Tables of Spark; ``tables`` says where each is, ``declared`` names the columns of those that are JSON."""

    words: ClassVar[Dialect] = SPARK

    def __init__(
        self,
        address: str,
        tables: Mapping[str, str],
        declared: Mapping[str, Sequence[str]] | None = None,
        *,
        directory: Path | None = None,
        timeout: float | None = None,
    ) -> None:
        self.server = SparkServer(address, timeout=timeout)
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
            what = f"table {table!r} is {source.format.upper()}, which Sail does not read safely"
            raise SourceError(f"{what}; store it as parquet", table=table)
        try:
            frame = self.read(session, number)
            columns = columns_of(frame, decoded=source.format in UNTYPED)
        except Exception:  # whatever it says may name hosts  # noqa: BLE001
            what = "in Spark's catalogue" if source.format is None else "a file that Spark can read"
            raise SourceError(f"table {table!r} is not {what}, or may not be read", table=table) from None
        if source.format is not None and source.format not in UNTYPED:
            self._schemas[number] = frame.schema
        return columns

    def read(self, session: SparkSession, number: int) -> DataFrame:
        """Return a source as it is now, in which no row can fail; a table of the catalogue has the columns it had."""
        frame = self._frame(session, number)
        if number in self._times:
            files = [file for file in frame.inputFiles() if file not in self._files]
            names = ", ".join(sorted(times_in_milliseconds(session, files) & self._times[number]))
            if names:
                table = list(self.names)[number]
                what = f"table {table!r} has times in milliseconds ({names}), at which Spark may fail"
                raise SourceError(f"{what}; store them in microseconds", table=table)
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
        """Return what a writer of statements needs to know; refuse tables at one of whose rows Spark may fail."""
        keys = identifying(schema)
        with self.server.transaction(self.read) as transaction:
            for number, (name, source) in enumerate(self.names.items()):
                table = schema.tables.get(name)
                if table is None or table.public:
                    continue
                asked = {*table.columns, *table.keys, *keys.get(name, ())}
                times = frozenset(label for label, item in self._stored[name].items() if item.is_time) & asked
                kind = format_of(transaction.session, source)
                if check_hazards(name, source, kind, times, remote=self.server.remote):
                    self._times[number] = times
                    self.read(transaction.session, number)
        return super().register(schema)

    def _rows(self, table: str) -> str:
        return f"HUSH_SOURCE({list(self.names).index(table)})"

    def role(self) -> str:
        """Return who Spark takes us for."""
        with self.server.transaction() as transaction:
            return str(transaction.fetch(ParameterisedText.of("SELECT CURRENT_USER()"), {})[0][0])

    def unread(self, needed: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the columns that are not there, or of a type that hush does not read."""
        known = {table: {name for name, item in held.items() if item.read()} for table, held in self._stored.items()}
        return [f"{table}.{name}" for table, names in needed.items() for name in names if name not in known[table]]

    def close(self) -> None:
        """End the session."""
        self.server.close()


class Spark(ServerEngine):
    """An engine over open tables of Spark. Use it from any thread."""

    words: Dialect = SPARK
    _tables: SparkTables

    def __init__(self, schema: Schema, tables: SparkTables) -> None:
        super().__init__(schema, tables)
        self.words = SAIL if tables.server.sail else SPARK

    def _begin(self) -> AbstractContextManager[Transaction]:
        return self._tables.server.transaction(self._tables.read)

    def _resolve(self, texts: Sequence[str]) -> None:
        """Resolve statements; in a new session if the old one was lost, since nothing is charged yet."""
        try:
            super()._resolve(texts)
        except UnplannableError:
            if not self._tables.server.broken:
                raise
            super()._resolve(texts)

    def _let_resolve(self, statements: Sequence[ParameterisedText]) -> None:
        with self._tables.server.transaction(self._tables.read) as transaction:
            for statement in statements:
                transaction.resolve(statement)
