"""DuckDB, embedded and locked up.

A connection is opened, the owner's sources are registered, and then it is closed to the world for good: no extensions,
no files but the registered ones, no settings, no Python variables. Memory and threads are limited, what does not fit
spills into a private directory, and a statement that takes too long is interrupted. Every failure becomes the one
public text of `EngineError`.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hush.engines.axes import public_axes
from hush.engines.base import Exact, Sparse
from hush.engines.errors import EngineError, SourceError, log
from hush.engines.groups import Groups, aligned, pad
from hush.engines.sources import (
    Source,
    csv_header,
    declared_columns,
    json_names,
    missing_names,
    sqlite_columns,
    sqlite_rows,
)
from hush.engines.sql.build import Sql, call, name, select
from hush.engines.sql.extraction import ExtractionWriter
from hush.engines.sql.forms import Form
from hush.engines.sql.keys import Axis
from hush.engines.sql.relations import Catalogue
from hush.query.plan.errors import UnplannableError
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Statistic
from hush.query.schema import Schema
from hush.query.types import Value as Constant

if TYPE_CHECKING:
    import duckdb
    from sqlglot import exp

_CACHED_CELLS = 4_000_000


class DuckDB:
    """An engine over registered tables. Use it from any thread."""

    def __init__(
        self,
        schema: Schema,
        sources: Mapping[str, object],
        *,
        memory: str = "",
        threads: int | None = None,
        timeout: float | None = 600.0,
    ) -> None:
        import duckdb

        self._schema = schema
        self._timeout = timeout
        self._salt = secrets.randbits(62)
        self._spill = tempfile.mkdtemp(prefix="hush-spill-")
        self._sources = {table: Source.of(origin) for table, origin in sources.items()}
        self._cache: OrderedDict[str, list[tuple[Any, ...]]] = OrderedDict()
        self._cached = 0
        self._lists: dict[tuple[tuple[Constant, ...], Form], str] = {}
        self._lock = threading.Lock()
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": self._spill,
        }
        if memory:
            config["memory_limit"] = memory
        if threads:
            config["threads"] = threads
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        try:
            self._catalogue = self._register()
        except duckdb.Error as error:
            self.close()
            raise SourceError(f"a source cannot be read: {str(error).splitlines()[0]}") from error
        except BaseException:
            self.close()
            raise
        self._execute_plain("SET TimeZone = 'UTC'")
        self._execute_plain("SET disabled_optimizers = 'top_n_window_elimination'")
        self._execute_plain("SET enable_external_access = false")
        self._execute_plain("SET lock_configuration = true")

    # set-up

    def _execute_plain(self, statement: str) -> None:
        self._connection.execute(statement)

    def _register(self) -> Catalogue:
        files = [str(source.path) for source in self._sources.values() if source.path is not None]
        if files:
            listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
            self._execute_plain(f"SET allowed_paths = [{listed}]")
        tables, types = {}, {}
        for index, (table, source) in enumerate(self._sources.items()):
            if table not in self._schema.tables:
                raise SourceError(f"a source is given for table {table!r}, which the policy does not describe")
            place = f"table_{index}"
            self._add(place, table, source, index)
            rows = self._connection.execute(f'DESCRIBE "{place}"').fetchall()
            tables[table] = place
            types[table] = {row[0]: str(row[1]) for row in rows}
        return Catalogue(self._schema, tables, types)

    def _add(self, place: str, table: str, source: Source, index: int) -> None:
        from sqlglot import exp

        origin: Sql
        match source.format:
            case "frame":
                self._connection.register(f"frame_{index}", _arrow(source.frame))
                origin = exp.Table(this=name(f"frame_{index}"))
            case "arrow":
                from pyarrow import feather

                self._connection.register(f"frame_{index}", feather.read_table(source.path))
                origin = exp.Table(this=name(f"frame_{index}"))
            case "parquet":
                origin = call("read_parquet", exp.Literal.string(str(source.path)))
            case "csv" | "tsv":
                assert source.path is not None  # noqa: S101 - a file has a path
                delimiter = "," if source.format == "csv" else "\t"
                header = csv_header(source.path, delimiter)
                origin = _reader(
                    "read_csv",
                    source.path,
                    header,
                    auto_detect=exp.false(),
                    header=exp.true(),
                    delim=exp.Literal.string(delimiter),
                    quote=exp.Literal.string('"'),
                    escape=exp.Literal.string('"'),
                    # one odd line must not fail the others: hence no null_padding, which refuses line breaks in quotes,
                    # and no strict mode, which refuses a stray carriage return
                    ignore_errors=exp.true(),
                    strict_mode=exp.false(),
                )
            case "json":
                assert source.path is not None  # noqa: S101 - a file has a path
                labels = declared_columns(self._schema, table)
                if not labels:
                    labels = json_names(source.path)
                elif missing := missing_names(source.path, labels):
                    log.warning("%s: the first record has no %s", source.path.name, ", ".join(missing))
                # one record a line is said where the name says it: guessing would let a broken line fail the others
                lines = source.path.suffix.lower() in {".ndjson", ".jsonl"}
                layout = exp.Literal.string("newline_delimited" if lines else "auto")
                origin = _reader("read_json", source.path, labels, ignore_errors=exp.true(), format=layout)
            case "duckdb":
                self._execute_plain(
                    f"ATTACH '{str(source.path).replace(chr(39), chr(39) * 2)}' AS base_{index} (READ_ONLY)"
                )
                origin = exp.Table(this=name(source.table or table), db=name("main"), catalog=name(f"base_{index}"))
            case _:
                assert source.path is not None  # noqa: S101 - a file has a path
                inner, columns = sqlite_columns(source.path, source.table, table)
                import pyarrow as pa

                cells = sqlite_rows(source.path, inner, columns)
                self._connection.register(
                    f"frame_{index}", pa.table({label: pa.array(cell, pa.string()) for label, cell in cells.items()})
                )
                origin = exp.Table(this=name(f"frame_{index}"))
        # a frame is copied: it cannot change between a plan and its answer, and every thread sees it
        copied = isinstance(origin, exp.Table) and origin.name == f"frame_{index}"
        kind = "TABLE" if copied else "VIEW"
        create = exp.Create(this=exp.Table(this=name(place)), kind=kind, expression=select([exp.Star()], origin))
        self._connection.execute(create.sql("duckdb"))
        if copied:
            self._connection.unregister(f"frame_{index}")

    def stored(self, table: str) -> Mapping[str, str]:
        """Return the columns of a table as they are stored, with the engine's types."""
        return self._catalogue.types[table]

    def use(self, schema: Schema) -> None:
        """Describe the same tables anew, once their stored columns are known."""
        self._schema = schema
        self._catalogue = Catalogue(schema, self._catalogue.tables, self._catalogue.types)

    # answers

    def run(self, plan: Plan) -> Exact:
        """Compute a plan's exact integers."""
        return self.execute(self.compile(plan))

    def compile(self, plan: Plan) -> Compiled:
        """Return the statements of a plan. Reads public tables at most."""
        extraction = plan.extraction
        axes, shown = public_axes(extraction, self._catalogue, self._fetch)
        choices = [pick.choice for pick in plan.picks]
        writer = ExtractionWriter(extraction, self._catalogue, axes, self._salt, choices, lists=self._list)
        main = writer.statement()
        done = set() if main is None else {item.alias_or_name for item in main.expressions}
        compiled = Compiled(
            plan=plan,
            axes=axes,
            shown=shown,
            keys=writer.keys,
            main=None if main is None else Statement.of(main),
            distinct=tuple(
                (index, Statement.of(writer.distinct(index)))
                for index in range(len(extraction.statistics))
                if f"s{index}" not in done
            ),
            histograms=tuple(Statement.of(writer.histogram(choice)) for choice in choices),
        )
        self._bind(compiled)
        return compiled

    def _bind(self, compiled: Compiled) -> None:
        """Let the engine read the statements without running them: what it cannot do is refused before the charge."""
        main = () if compiled.main is None else (compiled.main,)
        for statement in (*main, *(item for _, item in compiled.distinct), *compiled.histograms):
            try:
                self._execute(f"EXPLAIN {statement.text}")
            except EngineError:
                raise UnplannableError(
                    "the engine cannot express this question; use simpler expressions (nothing was charged)"
                ) from None

    def _list(self, axis: Axis, form: Form) -> str:
        """Return a table with an axis's values and numbers, made once; they are public, and passed as parameters."""
        with self._lock:
            place = self._lists.get((axis.values, form))
            if place is None:
                place = self._lists[axis.values, form] = f"list_{len(self._lists)}"
                # values that are one number to the engine get one number here: a row must never fall into two groups
                pairs = [(_in_form(value, form), at) for at, value in enumerate(axis.values)]
                pairs = [(value, at) for value, at in pairs if value is not None or axis.values[at] is None]
                self._connection.execute(
                    f'CREATE TABLE "{place}" AS SELECT k, min(c) AS c FROM (SELECT '  # noqa: S608 - our own words
                    f"unnest(CAST($1 AS {form.value}[])) AS k, unnest(CAST($2 AS INTEGER[])) AS c) GROUP BY k",
                    [[value for value, _ in pairs], [at for _, at in pairs]],
                )
            return place

    def execute(self, compiled: Compiled) -> Exact:
        """Run a compiled plan."""
        extraction = compiled.plan.extraction
        groups = Groups(compiled.axes, grouped=bool(extraction.keys))
        statistics: dict[Statistic, list[int]] = {}
        units = None
        if compiled.main is not None:
            labels, rows = compiled.main.labels, self._fetch(compiled.main.text)
            places = groups.place(compiled.keys, rows)
            if extraction.count_units:
                units = aligned(places, rows, labels.index("units"), groups)
            for index, item in enumerate(extraction.statistics):
                if f"s{index}" in labels:
                    statistics[item] = aligned(places, rows, labels.index(f"s{index}"), groups)
        for index, statement in compiled.distinct:
            rows = self._fetch(statement.text)
            places = groups.place(compiled.keys, rows)
            statistics[extraction.statistics[index]] = aligned(places, rows, statement.labels.index("s"), groups)
        histograms = tuple(self._histogram(statement, compiled.keys, groups) for statement in compiled.histograms)
        keys = groups.keys()
        for values in statistics.values():
            pad(values, len(keys))
        if compiled.shown is not None:
            keys = [keys[at] for at in compiled.shown]
            statistics = {item: [values[at] for at in compiled.shown] for item, values in statistics.items()}
            histograms = tuple([bins[at] for at in compiled.shown] for bins in histograms)
        return Exact(
            keys=keys,
            units=None if units is None else np.array(pad(units, len(keys)), dtype=np.int64),
            statistics=statistics,
            histograms=histograms,
        )

    def _histogram(self, statement: Statement, keys: Sequence[str], groups: Groups) -> list[Sparse]:
        rows = self._fetch(statement.text)
        places = groups.place(keys, rows)
        table = np.array([(place, *row[-2:]) for place, row in zip(places, rows, strict=True)], dtype=np.int64)
        table = table.reshape(-1, 3)
        table = table[np.lexsort((table[:, 1], table[:, 0]))]
        edges = np.searchsorted(table[:, 0], np.arange(len(groups) + 1))
        return [
            Sparse(bins=table[start:stop, 1], weights=table[start:stop, 2]) for start, stop in pairwise(edges.tolist())
        ]

    def _fetch(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement; results are kept for the next question that needs the same exact numbers."""
        key = f"{[source.stamp() for source in self._sources.values()]}{text}"
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        rows = self._execute(text)
        cells = _cells(rows)
        if cells <= _CACHED_CELLS // 4:
            with self._lock:
                self._cache[key] = rows
                self._cached += cells
                while self._cached > _CACHED_CELLS:
                    self._cached -= _cells(self._cache.popitem(last=False)[1])
        return rows

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        timer = None
        if self._timeout:
            timer = threading.Timer(self._timeout, cursor.interrupt)
            timer.daemon = True
            timer.start()
        try:
            return cursor.execute(text).fetchall()
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.warning("engine failure: %s\n%s", error, text)
            raise EngineError from None
        finally:
            if timer is not None:
                timer.cancel()
            cursor.close()

    def close(self) -> None:
        """Close the connection and remove what was spilled."""
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text and the names of what it returns."""

    text: str
    labels: list[str]

    @classmethod
    def of(cls, query: exp.Select) -> Statement:
        """Return a query as text."""
        return cls(text=query.sql("duckdb"), labels=[item.alias_or_name for item in query.expressions])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A plan's statements."""

    plan: Plan
    axes: list[Axis] | None
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    keys: list[str]
    main: Statement | None
    distinct: tuple[tuple[int, Statement], ...]
    histograms: tuple[Statement, ...]


def _cells(rows: list[tuple[Any, ...]]) -> int:
    return len(rows) * max(1, len(rows[0])) if rows else 1


def _reader(function: str, path: Path, columns: Sequence[str], **options: Any) -> Sql:
    """Return a call of a file reader that takes every column as text."""
    from sqlglot import exp

    struct = exp.Struct(
        expressions=[exp.PropertyEQ(this=name(label), expression=exp.Literal.string("VARCHAR")) for label in columns]
    )
    named = [exp.EQ(this=column_name(key), expression=value) for key, value in {**options, "columns": struct}.items()]
    return call(function, exp.Literal.string(str(path)), *named)


def column_name(text: str) -> Sql:
    """Return the unquoted name of a reader's option; ``text`` is one of this module's own words."""
    from sqlglot import exp

    return exp.Var(this=text)


def _arrow(frame: Any) -> Any:
    """Return a frame as something DuckDB reads with fixed column types."""
    try:
        import pyarrow as pa
    except ImportError:
        return frame
    if type(frame).__module__.split(".")[0] == "pandas":
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SourceError("a column of the frame mixes types; convert it to one type first") from error
    return pa.table(frame)


def _in_form(value: Constant, form: Form) -> Any:
    """Return a public value as the engine holds it; None if no value of that form equals it."""
    if not isinstance(value, Fraction):
        return value
    if form is Form.INTEGER:
        return int(value) if value.denominator == 1 and -(2**63) <= value < 2**63 else None
    try:
        return float(value)
    except OverflowError:
        return None


__all__ = ["DuckDB"]
