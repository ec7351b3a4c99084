r"""The system catalogue that tools read before they ask: PostgreSQL's own tables, filled from the schema alone.

Tools find out which tables there are by statements of any shape over ``pg_catalog`` and ``information_schema``. These
run in a database of their own, in memory, which holds nothing but names and types of columns, and reaches nothing: no
file, no network, no extension. A statement may name these tables only, and functions from a list; there is one, and it
reads. The engine looks at its clock between blocks of rows only, and does not count the texts of a block as memory. So
functions that make long texts of short ones are not on the list, and how much longer ``||`` may make a text is bounded:
the worst that a statement can do is take its second of time.

Every table of every data set that somebody may ask about is listed, in a schema with the data set's name.

>>> visits = {"name": "visits", "columns": [{"name": "age", "type": "integer"}]}
>>> catalogue = SystemCatalogue([{"name": "clinic", "tables": [visits]}])
>>> catalogue.answers("SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r'")
True
>>> catalogue.run("SELECT column_name FROM information_schema.columns WHERE table_schema = 'clinic'")[1]
[('age',)]
>>> catalogue.answers("SELECT COUNT(*) FROM visits")
False
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
from sqlglot import exp

from hush.query.errors import QuestionError
from hush.server.pgwire import messages
from hush.server.pgwire.catalogue_rows import CATALOGUE_TYPES, SHAPES, VERSION, contents
from hush.server.pgwire.catalogue_statements import (
    MACROS,
    SCHEMAS,
    common_table,
    constant,
    labelled,
    parsed,
    place_of,
    rewritten,
    stored_name,
)
from hush.server.pgwire.messages import ResultColumn

_SECONDS = 1.0
_MOST_ROWS, _AT_ONCE = 10_000, 50
_LARGEST = 2**23
"""How many characters a result has at most."""
_STORED = {
    "bool": "BOOLEAN", "int2": "INTEGER", "int4": "INTEGER", "int8": "BIGINT", "oid": "BIGINT", "xid": "BIGINT",
    "regproc": "BIGINT", "float4": "DOUBLE", "timestamptz": "TIMESTAMP", "int2vector": "BIGINT[]",
    "oidvector": "BIGINT[]", "_oid": "BIGINT[]", "_int2": "BIGINT[]", "_text": "VARCHAR[]", "_char": "VARCHAR[]",
    "_aclitem": "VARCHAR[]", "anyarray": "VARCHAR[]",
}  # fmt: skip


def _created() -> str:
    """Return the statements that make the tables, and those that functions read.

    A macro takes names from where it is called, so what it reads has names that nobody else has.
    """
    tables = [
        f'CREATE TABLE "{stored_name(table)}" ('
        + ", ".join(f'"{name}" {_STORED.get(kind, "VARCHAR")}' for name, kind in columns)
        + ")"
        for table, columns in SHAPES.items()
    ]
    types = ", ".join(f"({kind.oid}, '{kind.name}', '{kind.shown}')" for kind in CATALOGUE_TYPES)
    tables += [
        f"CREATE VIEW hush_types AS FROM (VALUES {types}) AS t(hush_type, hush_short, hush_shown)",
        "CREATE VIEW hush_classes AS SELECT oid AS hush_class, relname AS hush_table FROM pg_class",
        "CREATE VIEW hush_settings AS SELECT name AS hush_name, setting AS hush_said FROM pg_settings",
    ]
    return "; ".join(tables)


_TABLES = _created()
_FUNCTIONS = "; ".join(f"CREATE MACRO {line}" for line in MACROS)


class SystemCatalogue:
    """The system catalogue of the data sets that one person may ask about."""

    def __init__(self, data_sets: Sequence[Mapping[str, Any]], user: str = "hush") -> None:
        self._schema = str(data_sets[0]["name"]) if data_sets else "public"
        self._connection = duckdb.connect(
            ":memory:", config={"threads": "1", "memory_limit": "200MB", "enable_external_access": "false"}
        )
        self._lock = threading.Lock()
        self._connection.execute(f"BEGIN; {_TABLES}")
        for table, rows in contents(data_sets, user).items():
            self._insert(table, rows)
        words = {"{version}": VERSION, "{schema}": self._schema.replace("'", "''"), "{user}": user.replace("'", "''")}
        functions = _FUNCTIONS
        for name, word in words.items():
            functions = functions.replace(name, word)
        # Locked at last: no statement can allow files, network or more memory again.
        self._connection.execute(f"{functions}; COMMIT; SET lock_configuration = true")

    def _insert(self, place: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for names in dict.fromkeys(tuple(row) for row in rows):
            alike = [row for row in rows if tuple(row) == names]
            marks = ", ".join(f"({', '.join('?' for _ in names)})" for _ in alike)
            fields = ", ".join(f'"{name}"' for name in names)
            statement = f'INSERT INTO "{stored_name(place)}" ({fields}) VALUES {marks}'  # noqa: S608 - of the catalogue
            self._connection.execute(statement, [value for row in alike for value in row.values()])

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def answers(self, statement: str) -> bool:
        """Return whether a statement is about the catalogue, or about nothing at all (SELECT 1, SELECT version())."""
        tree = parsed(statement)
        if not isinstance(tree, exp.Select | exp.Union | exp.Subquery):
            return False
        tables = [table for table in tree.find_all(exp.Table) if common_table(table) is None]
        return all(
            place_of(table) is not None or table.db.lower() in SCHEMAS or isinstance(table.this, exp.Func)
            for table in tables
        )

    def run(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[list[ResultColumn], list[tuple[Any, ...]]]:
        """Run a statement about the catalogue."""
        tree = parsed(statement)
        if not isinstance(tree, exp.Select | exp.Union | exp.Subquery):
            raise QuestionError("This statement about the catalogue could not be read.")
        for parameter in list(tree.find_all(exp.Parameter)):
            parameter.replace(constant((parameters or {}).get(parameter.this.name)))
        try:
            translated_sql = rewritten(labelled(tree)).sql(dialect="duckdb")
        except RecursionError:
            raise QuestionError("This statement about the catalogue is nested too deeply.") from None
        with self._lock:
            timer = threading.Timer(_SECONDS, self._connection.interrupt)
            timer.start()
            try:
                result = self._connection.execute(translated_sql)
                rows = _fetched(result)
                described = result.description or []
            except duckdb.Error:
                raise QuestionError("This statement about the catalogue cannot be answered here.") from None
            finally:
                timer.cancel()
        fields = [ResultColumn(str(name), _oid(str(kind))) for name, kind, *_ in described]
        return fields, [tuple(_plain(value) for value in row) for row in rows]


def _fetched(result: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Return the first rows of a result; refuse a result that is too large."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    while len(rows) < _MOST_ROWS and (block := result.fetchmany(_AT_ONCE)):
        rows += block
        size += sum(len(value) if isinstance(value, str | list) else 8 for row in block for value in row)
        if size > _LARGEST:
            raise QuestionError("This statement about the catalogue gives too much at once.", "Ask for fewer columns.")
    return rows


def _oid(kind: str) -> int:
    if kind in {"BOOLEAN", "bool"}:
        return messages.BOOLEAN
    if kind in {"BIGINT", "INTEGER", "NUMBER", "SMALLINT", "HUGEINT", "UBIGINT", "UINTEGER"}:
        return messages.WHOLE
    clocks = {"DATE": messages.DATE, "TIMESTAMP": messages.TIMESTAMP, "DATETIME": messages.TIMESTAMP}
    return messages.FLOAT if kind in {"DOUBLE", "FLOAT"} else clocks.get(kind, messages.TEXT)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return "{" + ",".join("NULL" if element is None else messages.written(element) for element in value) + "}"
    return value
