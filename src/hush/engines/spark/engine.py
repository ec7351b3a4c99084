r"""Spark as an engine, and the tables of a policy that it reads: those of its catalogue, and files.

A source is the name of a table, ``catalogue.schema.table``, or a path: to files whose kind their ending tells, or with
the kind before it, ``parquet:/data/visits``. Parquet and ORC have types. CSV has a header, and JSON, one object on a
line, the columns that the policy names; both are read as texts, which become numbers by one grammar, whatever the rows
are: to infer types would let one row decide those of a column.

A table is read through a query that brings its columns into neutral types: texts are compared by their bytes and are
valid UTF-8, instants are clocks in UTC. Texts by which rows find their unit stay different, valid or not: two that are
made one would be one unit.

>>> SparkSource.of("clinic.`my.visits`"), SparkSource.of("parquet:/data/visits")
(SparkSource(format=None, place='`clinic`.`my.visits`'), SparkSource(format='parquet', place='/data/visits'))
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hush.core.values import dataclass
from hush.engines.errors import EngineError, SourceError
from hush.engines.server import ParameterisedText, ServerEngine, Transaction, identifying
from hush.engines.spark.dialect import SAIL, SPARK
from hush.engines.spark.session import SparkServer
from hush.engines.sql.dialect import Dialect
from hush.engines.sql.relations import Catalogue
from hush.query.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s]+)")
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^.`\s]+)(?:\.(?:`(?:[^`]|``)+`|[^.`\s]+)){0,3}")
_ENDINGS = {
    "parquet": "parquet", "orc": "orc", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
}  # fmt: skip
_FORMATS = frozenset({*_ENDINGS.values(), "delta", "iceberg"})
_UNTYPED = frozenset({"csv", "json"})
_OPTIONS = {
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
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Where a table's rows are: files of a format, or a table of the catalogue by its quoted name."""

    format: str | None
    place: str

    @classmethod
    def of(cls, source: str, directory: Path | None = None) -> SparkSource:
        """Return a source as a policy writes it; paths are relative to a directory."""
        kind, _, path = source.partition(":")
        if kind in _FORMATS and path and not path.startswith("//"):
            return cls(kind, _absolute(path, directory))
        ending = source.rstrip("/*").rpartition(".")[2].lower()
        if ending in _ENDINGS and _looks_like_files(source):
            return cls(_ENDINGS[ending], _absolute(source, directory))
        if not _NAME.fullmatch(source.strip()) or "\0" in source:
            raise SourceError(
                f"a table of Spark is written schema.table, visits.parquet or parquet:/data/visits; got {source!r}"
            )
        parts = [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(source.strip())]
        return cls(None, ".".join(map(SPARK.quoted, parts)))


def _looks_like_files(source: str) -> bool:
    """Return whether a name that ends as files do is a path: clinic.csv is a file, and `clinic`.csv a table."""
    return "`" not in source


def _absolute(path: str, directory: Path | None) -> str:
    if "://" in path or path.startswith("/") or directory is None:
        return path
    return str(directory / path)


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """A column as Spark has it."""

    name: str
    type: str

    def read(self, *, identifies: bool = False) -> tuple[str, str] | None:
        """Return how it is read and as which neutral type; a unit, or a key to one, ``identifies``."""
        name = SPARK.quoted(self.name)
        if self.type in _PLAIN:
            return name, _PLAIN[self.type]
        if self.type == "timestamp":
            return f"CAST({name} AS TIMESTAMP_NTZ)", "TIMESTAMP"
        if self.type.startswith(("string", "char", "varchar")):
            plain = f"COLLATE({name}, 'UTF8_BINARY')" if "collate" in self.type else name
            valid = f"MAKE_VALID_UTF8({plain})"
            if identifies:
                valid = f"CASE WHEN IS_VALID_UTF8({plain}) THEN {plain} ELSE CONCAT({valid}, ' ', HEX({plain})) END"
            return valid, "VARCHAR"
        fixed = _DECIMAL.fullmatch(self.type)
        return None if fixed is None else (name, f"DECIMAL({fixed[1]},{fixed[2]})")


class SparkTables:
    """Tables of Spark, and the columns each has: what an engine is made over, which closes them.

    ``tables`` says where each is; ``declared`` names the columns of those that are JSON.
    """

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
        if source.format in _UNTYPED and self.server.sail:
            # where one malformed record fails every statement, and columns of CSV go by their place
            what = f"table {table!r} is {source.format.upper()}, which Sail does not read safely"
            raise SourceError(f"{what}; store it as parquet", table=table)
        try:
            frame = session.table(source.place) if source.format is None else self.read(session, number)
            fields = frame.schema.fields
        except Exception:  # whatever it says may name hosts  # noqa: BLE001
            what = "in Spark's catalogue" if source.format is None else "a file that Spark can read"
            raise SourceError(f"table {table!r} is not {what}, or may not be read", table=table) from None
        if source.format is not None and source.format not in _UNTYPED:
            self._schemas[number] = frame.schema
        return {field.name: SparkColumn(field.name, field.dataType.simpleString()) for field in fields}

    def read(self, session: SparkSession, number: int) -> DataFrame:
        """Return a source's files, as they are now."""
        source = self._places[number]
        assert source.format is not None  # noqa: S101 - the dialect names files alone
        reader = session.read.format(source.format).options(**_OPTIONS.get(source.format, {}))
        if number in self._schemas:
            reader = reader.schema(self._schemas[number])
        elif source.format == "json":
            table = list(self.names)[number]
            reader = reader.schema(", ".join(f"{SPARK.quoted(name)} STRING" for name in self._declared.get(table, ())))
        return reader.load(source.place)

    @property
    def types(self) -> dict[str, dict[str, str]]:
        """The columns of each table with neutral types; those without one by Spark's own name."""
        return {table: self._types(table) for table in self.names}

    def _types(self, table: str, identifying_: frozenset[str] = frozenset()) -> dict[str, str]:
        read = {label: item.read(identifies=label in identifying_) for label, item in self._stored[table].items()}
        return {label: self._stored[table][label].type if how is None else how[1] for label, how in read.items()}

    def register(self, schema: Schema) -> Catalogue:
        """Return what a writer of statements needs to know."""
        keys = identifying(schema)
        places: dict[str, str] = {}
        for number, (table, source) in enumerate(self.names.items()):
            read = {
                label: item.read(identifies=label in keys.get(table, frozenset()))
                for label, item in self._stored[table].items()
            }
            shown = [f"{how[0]} AS {SPARK.quoted(label)}" for label, how in read.items() if how is not None]
            rows = source.place if source.format is None else f"HUSH_SOURCE({number})"
            places[table] = f"\0(SELECT {', '.join(shown) or '1'} FROM {rows})"  # noqa: S608 - quoted names
        types = {table: self._types(table, keys.get(table, frozenset())) for table in self.names}
        return Catalogue(schema, places, types)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Spark(ServerEngine):
    """An engine over open tables of Spark. Use it from any thread."""

    words: Dialect = SPARK

    def __init__(self, schema: Schema, tables: SparkTables) -> None:
        super().__init__(schema, tables.register(schema))
        self._tables = tables
        self.words = SAIL if tables.server.sail else SPARK

    def _begin(self) -> AbstractContextManager[Transaction]:
        return self._tables.server.transaction(self._tables.read)

    def _let_resolve(self, statements: Sequence[ParameterisedText]) -> None:
        with self._tables.server.transaction(self._tables.read) as transaction:
            for statement in statements:
                transaction.resolve(statement)

    def close(self) -> None:
        """End the session."""
        super().close()
        self._tables.close()
