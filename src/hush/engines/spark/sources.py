r"""Where a table of Spark lies, how its columns are read, and at which rows Spark's own readers would fail.

A source is the name of a table, ``catalogue.schema.table``, or a path: to files whose kind their ending tells, or with
the kind before it, ``parquet:/data/visits``. Parquet and ORC have types. CSV has a header, and JSON, one object on a
line, the columns that the policy names; both are read as texts, which become numbers by one grammar, whatever the rows
are: to infer types would let one row decide those of a column.

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
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.core.values import dataclass
from hush.engines.errors import SourceError
from hush.engines.spark.dialect import SPARK

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
"""Formats whose times are microseconds, or texts."""
_MILLISECONDS = re.compile(r"int64 (.+) \(TIMESTAMP\(MILLIS,")
_AT_ONCE = 16
_REPLACED = "\ufffd"
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
    decoded: bool = False
    """Whether bytes that are no UTF-8 have become U+FFFD."""

    @property
    def is_time(self) -> bool:
        """Whether it holds times of a day."""
        return self.type in _TIMES

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
            if identifies and self.decoded:
                valid = f"CASE WHEN NOT CONTAINS({plain}, {SPARK.text(_REPLACED)}) THEN {plain} END"
            elif identifies:
                valid = f"CASE WHEN IS_VALID_UTF8({plain}) THEN {plain} ELSE CONCAT({valid}, ' ', HEX({plain})) END"
            return valid, "VARCHAR"
        fixed = _DECIMAL.fullmatch(self.type)
        return None if fixed is None else (name, f"DECIMAL({fixed[1]},{fixed[2]})")


def columns_of(frame: DataFrame, *, decoded: bool = False) -> dict[str, SparkColumn]:
    """Return a frame's columns by their names."""
    return {held.name: SparkColumn(held.name, held.dataType.simpleString(), decoded) for held in frame.schema.fields}


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
    """Refuse a private table at one of whose rows Spark would fail; return whether its files must be looked at."""
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
        place = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            java.org.apache.hadoop.fs.Path(java.java.net.URI(file)), settings
        )
        reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(place)
        try:
            return _MILLISECONDS.findall(str(reader.getFileMetaData().getSchema().toString()))
        finally:
            reader.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name for names in pool.map(found, files) for name in names}
