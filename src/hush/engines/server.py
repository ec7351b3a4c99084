r"""What engines have in common whose tables lie in a server: statements go there, and exact integers come back.

They are simpler than the embedded one. There is no path for few rows, which would move rows out of the server; nothing
is kept of a question for the next, since a server's table has no stamp by which to see that it changed.

**One question is one transaction.** All of its statements see the same rows, and nothing is written: lists of public
keys and chosen keys are parameters (`ArrayLists`). Which parameters a statement has is found in its text, outside of
quotes, and they are numbered anew for each.

**Private keys.** The main statement's groups come as a stream, some thousand at a time. Of each part the numbers of
units are shown to whoever chooses (`Choose`), and only the chosen groups are held.

**Functions of what was released** read no table, and are computed by an embedded DuckDB of their own.

>>> statement = ParameterisedText.of("SELECT '$1' FROM UNNEST($7, $3) WHERE x = $7")
>>> statement.text, statement.numbers
("SELECT '$1' FROM UNNEST($1, $2) WHERE x = $1", (7, 3))
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from hush.core.values import dataclass
from hush.engines.base import Choose, CodedRows, Exact
from hush.engines.duckdb.session import Calculator
from hush.engines.errors import EngineError
from hush.engines.public_tables import public_axes, with_public_ranges
from hush.engines.sql.build import Sql
from hush.engines.sql.coded_rows import CodedStatement, coded_statement
from hush.engines.sql.dialect import CHOSEN_PARAMETER, DUCKDB, Dialect, dialect, writing
from hush.engines.sql.keys import NUMBER, Axis, in_form
from hush.engines.sql.relations import Bounds, Catalogue, unit_type
from hush.engines.sql.rows import Fresh, Reads
from hush.engines.sql.values import MAX_TEXT, Form
from hush.engines.statements import Groups, Statements, released_statement
from hush.engines.work import Cost, bounded, check_fanout, cost_of, cost_of_rows, likely_length
from hush.query.errors import UnplannableError
from hush.query.plan.plan import Plan
from hush.query.plan.rows import RowPlan
from hush.query.schema import Schema
from hush.query.types import Value

AT_ONCE = 2**14
"""How many groups with private keys are looked at together."""
_SALT = 10**18
"""Every salt has as many digits, so that no statement is longer for it."""
_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\$(\d+)""")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ParameterisedText:
    """A statement whose parameters are numbered from 1, and what they were called before."""

    text: str
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> ParameterisedText:
        """Return a text with its parameters, which are those outside of quotes, numbered from 1."""
        numbers: dict[int, int] = {}

        def renamed(found: re.Match[str]) -> str:
            if found[1] is None:
                return found[0]
            return f"${numbers.setdefault(int(found[1]), len(numbers) + 1)}"

        return cls(_PARAMETER.sub(renamed, text), tuple(numbers))

    def values(self, by_number: Mapping[int, list[Any]]) -> list[list[Any]]:
        """Return the values of the parameters."""
        return [by_number[number] for number in self.numbers]


class ArrayLists:
    """The lists of one question, as parameters: two arrays each, of values and of their numbers."""

    def __init__(self) -> None:
        self.parameters: dict[int, list[Any]] = {}
        self._known: dict[tuple[Sequence[Value], Form], int] = {}

    def __call__(self, axis: Axis, form: Form, label: str) -> Sql:
        """Return a list to select values k and numbers c from; of values that are one number the first."""
        number = self._known.get((axis.values, form))
        if number is None:
            number = self._known[axis.values, form] = len(self.parameters) + 1
            pairs: dict[Any, int] = {}
            for at, value in enumerate(axis.values):
                held = in_form(value, form)
                if held is not None or value is None:
                    pairs.setdefault(held, at)
            self.parameters[number], self.parameters[number + 1] = list(pairs), list(pairs.values())
        words = dialect()
        arrays = [(words.parameter(number), form.value), (words.parameter(number + 1), "INTEGER")]
        return Sql(words.rows_of(arrays, label, ["k", "c"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatements:
    """A plan's statements, their lists, and how many parameters they have."""

    statements: Statements
    lists: ArrayLists

    @property
    def notes(self) -> tuple[str, ...]:
        """What is bounded for the sake of time, whoever is there."""
        return self.statements.notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRows:
    """The statement that hands out a question's coded rows, and its lists."""

    plan: RowPlan
    statement: CodedStatement
    lists: ArrayLists


class Transaction(Protocol):
    """One snapshot of a server's tables, read-only; every failure is an `EngineError`."""

    def fetch(self, statement: ParameterisedText, parameters: Mapping[int, list[Any]]) -> list[Row]:
        """Run a statement and return its rows."""

    def stream(
        self, statement: ParameterisedText, parameters: Mapping[int, list[Any]], size: int
    ) -> Iterator[list[Row]]:
        """Run a statement and give its rows so many at a time."""


class StoredColumn(Protocol):
    """A column as a server stores it."""

    @property
    def type(self) -> str:
        """The server's own name of its type."""

    def read(self, *, identifies: bool = False) -> tuple[str, str] | None:
        """Return how it is read and as which neutral type; None where hush does not read it.

        A unit, or a key to one, ``identifies``.
        """


class ServerTables(ABC):
    """Open tables of a server, and the columns each has: what an engine is made over, which closes them."""

    words: ClassVar[Dialect]
    """How the server spells SQL."""
    _stored: Mapping[str, Mapping[str, StoredColumn]]
    """The columns of each table, by their names."""

    @abstractmethod
    def _rows(self, table: str) -> str:
        """Return what a table is selected from."""

    def _labels(self, schema: Schema, table: str, keys: frozenset[str]) -> Collection[str]:  # noqa: ARG002 - for some
        """Return the columns of a table that statements may read; ``keys`` are those that identify units."""
        return self._stored[table]

    @property
    def types(self) -> dict[str, dict[str, str]]:
        """The columns of each table with neutral types; those without one by the server's own name."""
        return {table: self._types(table) for table in self._stored}

    def _read(self, table: str, keys: frozenset[str]) -> dict[str, tuple[str, str] | None]:
        return {label: item.read(identifies=label in keys) for label, item in self._stored[table].items()}

    def _types(self, table: str, keys: frozenset[str] = frozenset()) -> dict[str, str]:
        read = self._read(table, keys)
        return {label: self._stored[table][label].type if how is None else how[1] for label, how in read.items()}

    def register(self, schema: Schema) -> Catalogue:
        """Return what a writer of statements needs to know."""
        keys = identifying(schema)
        places: dict[str, str] = {}
        for table in self._stored:
            read = self._read(table, keys.get(table, frozenset()))
            labels = self._labels(schema, table, keys.get(table, frozenset()))
            shown = [
                f"{how[0]} AS {self.words.quoted(label)}"
                for label, how in read.items()
                if how is not None and label in labels
            ]
            places[table] = f"\0(SELECT {', '.join(shown) or '1'} FROM {self._rows(table)})"  # noqa: S608 - quoted names
        types = {table: self._types(table, keys.get(table, frozenset())) for table in self._stored}
        return Catalogue(schema, places, types)

    @abstractmethod
    def close(self) -> None:
        """Close what leads to the server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ServerEngine(ABC):
    """An engine over the tables of a server. Use it from any thread."""

    words: Dialect
    """How the server spells SQL."""
    _tables: ServerTables

    def __init__(self, schema: Schema, tables: ServerTables) -> None:
        self._schema = schema
        self._tables = tables
        self._catalogue = tables.register(schema)
        self._salt = _SALT + secrets.randbelow(3 * _SALT)
        self._calculator = Calculator()

    @abstractmethod
    def _begin(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction."""

    def _public(self, text: str) -> list[Row]:
        """Run a statement over public tables."""
        with self._begin() as transaction:
            return transaction.fetch(ParameterisedText.of(text), {})

    def described(self) -> Schema:
        """Return the schema, with the ranges of public tables as they are now."""
        with writing(self.words):
            return with_public_ranges(self._catalogue, self._public)

    # plans

    def run(self, plan: Plan, choose: Choose | None = None) -> Exact:
        """Compute a plan's exact integers; of groups with private keys only those that are wanted."""
        return self.execute(self.compile(plan), choose)

    def write(self, plan: Plan) -> ServerStatements:
        """Return all statements that a plan may need. Reads public tables alone."""
        with writing(self.words):
            return self._written(plan)

    def _written(self, plan: Plan) -> ServerStatements:
        extraction = plan.extraction
        spread = check_fanout(extraction.relation, self._catalogue, self._public)
        axes, shown = public_axes(extraction, self._catalogue, self._public)
        reads = Reads.of(extraction, [pick.choice for pick in plan.picks])
        lists = ArrayLists()

        def write(bounds: Bounds) -> tuple[Statements, Cost]:
            rows = Fresh(extraction, self._catalogue, axes, self._salt, reads, lists=lists, bounds=bounds)
            known = [rows.known[key] for _, key in extraction.keys]
            with writing(DUCKDB):
                released = released_statement(plan.question, known)
            made = Statements.of(
                plan,
                axes=axes,
                shown=shown,
                reads=reads,
                rows=rows,
                bounds=bounds,
                lists=lists,
                released=released,
            )
            return made, cost_of(made)

        statements, _, notes = bounded(write, spread, likely_length(plan, spread))
        return ServerStatements(statements=replace(statements, notes=notes), lists=lists)

    def compile(self, plan: Plan) -> ServerStatements:
        """Return all statements that a plan may need, which the server understands."""
        compiled = self.write(plan)
        self._resolve([item.text for item in compiled.statements.statements])
        return compiled

    def _resolve(self, texts: Sequence[str]) -> None:
        if max(map(len, texts), default=0) > self.words.longest:
            raise UnplannableError("the question is too large for this engine; split it or simplify its expressions")
        try:
            self._let_resolve([ParameterisedText.of(text) for text in dict.fromkeys(texts)])
        except EngineError:
            raise UnplannableError(
                "the engine cannot express this question; use simpler expressions (nothing was charged)"
            ) from None

    @abstractmethod
    def _let_resolve(self, statements: Sequence[ParameterisedText]) -> None:
        """Let the server resolve statements without running them."""

    def execute(self, compiled: ServerStatements, choose: Choose | None = None) -> Exact:
        """Run a compiled plan, in one transaction."""
        statements = compiled.statements
        private = statements.plan.extraction.count_units
        groups = None if private else Groups.public(statements.axes)
        if groups is not None and not statements.plan.events:  # public keys alone: nothing is paid, so no row is read
            return Exact(keys=groups.keys, units=None, statistics={}, histograms=()).only(statements.shown)
        with self._begin() as transaction:
            if groups is None:
                return self._private(compiled, transaction, choose)
            results = iter([self._fetch(transaction, compiled, item.text) for item in statements.statements])
            labels, rows = ([], []) if statements.main is None else (statements.main.labels, next(results))
            return groups.exact(statements, labels, rows, results).only(statements.shown)

    def _fetch(
        self,
        transaction: Transaction,
        compiled: ServerStatements,
        text: str,
        chosen: Mapping[int, list[Any]] | None = None,
    ) -> list[Row]:
        return transaction.fetch(ParameterisedText.of(text), {**compiled.lists.parameters, **(chosen or {})})

    def _private(self, compiled: ServerStatements, transaction: Transaction, choose: Choose | None) -> Exact:
        """Choose groups from the stream of all, and compute the rest of these alone."""
        statements = compiled.statements
        main = statements.main
        assert main is not None  # noqa: S101 - it counts the units by which keys are chosen
        units, wanted = main.labels.index("units"), []
        for part in transaction.stream(ParameterisedText.of(main.text), compiled.lists.parameters, AT_ONCE):
            counts = np.array([int(row[units]) for row in part], dtype=np.int64)
            picked = np.ones(len(part), dtype=np.bool_) if choose is None else choose(counts)
            wanted += [row for row, taken in zip(part, picked.tolist(), strict=True) if taken]
        many = len(statements.keys)
        wanted.sort(key=lambda row: tuple((cell is None, 0 if cell is None else cell) for cell in row[:many]))
        chosen: dict[int, list[Any]] = {CHOSEN_PARAMETER: list(range(len(wanted)))}
        chosen |= {CHOSEN_PARAMETER + 1 + at: [row[at] for row in wanted] for at in range(many)}
        others = (self._fetch(transaction, compiled, item.text, chosen) for item in statements.others)
        groups = Groups(keys=[row[:many] for row in wanted], grouped=True)
        numbered = [(at, *row) for at, row in enumerate(wanted)]
        return groups.exact(statements, [NUMBER, *main.labels], numbered, others)

    def compute(
        self, compiled: ServerStatements, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]
    ) -> list[Row]:
        """Return the functions of what was released, a row for each group; nothing else is read."""
        return self._calculator.compute(compiled.statements.released, keys, aggregates)

    # coded rows

    def compile_rows(self, plan: RowPlan, unit_key: str | None = None) -> ServerRows:
        """Return the statement of a plan's coded rows. What the server cannot do is refused here, before any charge."""
        lists, kind = ArrayLists(), unit_type(self._catalogue)

        def write(bounds: Bounds) -> tuple[CodedStatement, Cost]:
            made = coded_statement(plan, self._catalogue, self._salt, lists, kind, bounds, unit_key)
            return made, cost_of_rows(made.rows, made.work)

        with writing(self.words):
            spread = check_fanout(plan.relation, self._catalogue, self._public)
            statement, _, _ = bounded(write, spread, MAX_TEXT)
        self._resolve([statement.text])
        return ServerRows(plan=plan, statement=statement, lists=lists)

    def rows(self, compiled: ServerRows) -> CodedRows:
        """Return the bounded rows of a question as integer codes."""
        statement = compiled.statement
        with self._begin() as transaction:
            found = transaction.fetch(ParameterisedText.of(statement.text), compiled.lists.parameters)
        first = 0 if statement.unit is None else 1
        table = np.array(found, dtype=np.int64).reshape(-1, first + len(statement.codes))
        codes = {column.name: table[:, first + at] for at, column in enumerate(compiled.plan.columns)}
        return CodedRows(codes=codes, units=table[:, 0] if first else None)

    def close(self) -> None:
        """Give back what the engine holds, and close its tables."""
        self._calculator.close()
        self._tables.close()


def identifying(schema: Schema) -> dict[str, frozenset[str]]:
    """Return the columns of each table by which rows find their unit."""
    found: dict[str, set[str]] = {}
    for table in schema.tables.values():
        if table.unit is None:
            continue
        holder = table.name
        for hop in table.unit.hops:
            found.setdefault(holder, set()).add(hop.column)
            found.setdefault(hop.table, set()).add(hop.key)
            holder = hop.table
        found.setdefault(holder, set()).add(table.unit.column)
    return {name: frozenset(columns) for name, columns in found.items()}
