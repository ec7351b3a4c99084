"""Names: which column of which source a name in the question means.

Names are compared without regard to case, as DuckDB does. A column gets a name that is unique in the question when
its table is read; the analyst's names (aliases, qualifiers) live in the scope alone. The unit has a name too, by
which it can be joined on, grouped by in a subquery and counted, and nothing else.

A `Resolver` is what the readers of syntax know of whoever reads for them: how a node becomes an expression, and what
is assumed.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any, Protocol

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.expressions import Call, Column, Expression, Op
from hush.query.functions.rules import is_null
from hush.query.parameters import Binder
from hush.query.relations import Relation, columns, private
from hush.query.schema import Schema, Table, Target
from hush.query.sql.nodes import identifier, is_set, shown
from hush.query.types import Kind, Type

MAX_WORK = 60_000
MAX_RELATIONS = 100
MAX_PRIVATE_JOINS = 4
MAX_TEXT_COPIES = 32


class UnitName(Enum):
    """A name that means the unit."""

    HERE = "here"
    LOST = "lost"
    """The unit of the optional side of a LEFT JOIN: NULL where nothing matched, so it means nothing."""


Binding = str | UnitName
"""The unique name of a column, or the unit."""


class Subqueries(Protocol):
    """What resolves subqueries inside conditions and expressions: these read FROM, which has conditions itself."""

    def kept(self, scope: Scope, node: exp.Expr, *, negated: bool, context: Context) -> Scope:
        """Return the rows that have a partner in EXISTS or IN (SELECT …), or have none."""
        ...

    def value(self, rows: Any, node: exp.Expr) -> Expression:
        """Return what a subquery is for a row."""
        ...


@dataclass(slots=True)
class Context:
    """What one question carries through its resolution."""

    schema: Schema
    binder: Binder
    subqueries: Subqueries
    work: int = 0
    relations: int = 0
    private_joins: int = 0
    parts: list[Any] = field(default_factory=list)
    """All parts named by WITH."""
    names: set[str] = field(default_factory=set)
    copies: dict[str, int] = field(default_factory=dict)
    """How many texts are strung together in a derived column; one unless said."""
    links: dict[str, Target] = field(default_factory=dict)
    """Columns that are foreign keys on the way to the unit, or what these refer to, with the key they stand for."""
    questions: list[Any] = field(default_factory=list)
    """The finished questions whose answers a question is made of."""
    answered: dict[int, Any] = field(default_factory=dict)
    """What is known of a part of the tree: whether it is a finished question, or its answers."""

    def spend(self, nodes: int) -> None:
        """Count work; WITH parts that use each other twice would otherwise grow without end."""
        self.work += nodes
        if self.work > MAX_WORK:
            raise QuestionError("The question is too large once its WITH parts are put in.", "Ask for less at once.")

    def grow(self, relations: int = 1) -> None:
        """Count relations."""
        self.relations += relations
        if self.relations > MAX_RELATIONS:
            raise QuestionError(f"The question reads more than {MAX_RELATIONS} tables and subqueries.")

    def join_private(self) -> None:
        """Count joins of private tables, whose rows multiply within a unit."""
        self.private_joins += 1
        if self.private_joins > MAX_PRIVATE_JOINS:
            raise QuestionError(
                f"The question joins private tables more than {MAX_PRIVATE_JOINS} times.",
                "Aggregate within the unit first: SELECT unit, COUNT(*) AS n … GROUP BY unit.",
            )

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Resolve something to see whether it is allowed, and forget it; only the work stays counted."""
        before = self.relations, self.private_joins, set(self.names), dict(self.copies), dict(self.links)
        yield
        self.relations, self.private_joins, self.names, self.copies, self.links = before

    def fresh(self, name: str) -> str:
        """Return a name that is unique in the question, without regard to case."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)[:60] or "column"
        candidate, number = clean, 2
        while candidate.casefold() in self.names:
            candidate, number = f"{clean}_{number}", number + 1
        self.names.add(candidate.casefold())
        return candidate

    def text_copies(self, expression: Expression) -> int:
        """Return how many texts an expression may string together: columns, constants, and numbers written out."""
        if expression.type.kind is not Kind.TEXT:
            return 0
        if isinstance(expression, Column):
            return self.copies.get(expression.name, 1)
        if not isinstance(expression, Call):
            return 1
        parts = [self.text_copies(argument) for argument in expression.arguments]
        return max(1, sum(parts) if expression.op is Op.CONCAT else max(parts))

    def check_copies(self, expression: Expression) -> None:
        """Refuse text that would grow with every step until a row fills the memory."""
        if self.text_copies(expression) > MAX_TEXT_COPIES:
            raise QuestionError(f"More than {MAX_TEXT_COPIES} texts are strung together.", "Concatenate fewer columns.")


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: its alias and what its names mean (keys are case-folded; values keep the spelling)."""

    alias: str | None
    names: dict[str, tuple[str, Binding]]
    unsupported: dict[str, str] = field(default_factory=dict)
    """Names of columns that hush has no type for, with their stored types."""
    merged: frozenset[str] = frozenset()
    """Names that USING made one with those of a source to the left: * does not repeat them."""
    stored: frozenset[str] = frozenset()
    """Names of the unit that the table itself stores; a path leads to the others."""
    hidden: frozenset[str] = frozenset()
    """Names that * leaves out: foreign keys that the policy does not declare."""


@dataclass(slots=True)
class Scope:
    """The relation that a SELECT reads, and its names."""

    relation: Relation
    sources: list[Source]
    merged: dict[str, Binding] = field(default_factory=dict)
    """Names that USING joined, and what they mean without a table before them."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What WITH names here, for subqueries inside expressions."""
    settled: bool = False
    """Whether the relation is settled already, so that expressions cannot join anything to it."""

    def types(self) -> dict[str, Type]:
        """Return the types of the relation's columns."""
        return columns(self.relation)

    @property
    def private(self) -> bool:
        """Whether the rows belong to units."""
        return private(self.relation)

    def find(self, name: str, qualifier: str | None = None) -> Binding | None:
        """Return what a name means; None if nothing here has it."""
        if qualifier is None and name.casefold() in self.merged:
            return self.merged[name.casefold()]
        sources = self.sources if qualifier is None else [self._source(qualifier)]
        found = [source.names[name.casefold()][1] for source in sources if name.casefold() in source.names]
        if not found:
            return None
        if len(found) > 1 and not all(isinstance(f, UnitName) for f in found):
            owners = [s.alias or "…" for s in sources if name.casefold() in s.names]
            raise QuestionError(
                f"'{name}' could mean {' or '.join(f'{o}.{name}' for o in owners)}.", "Write one of these."
            )
        return UnitName.HERE if UnitName.HERE in found else found[0]

    def require(self, name: str, qualifier: str | None = None, *, quoted: bool = False) -> Binding:
        """Return what a name means, or refuse with the nearest known one; ``quoted`` names may be meant as texts."""
        found = self.find(name, qualifier)
        if found is None:
            for source in self.sources if qualifier is None else [self._source(qualifier)]:
                if name.casefold() in source.unsupported:
                    stored = source.unsupported[name.casefold()]
                    raise QuestionError(
                        f"Column '{name}' has the type {stored}, which hush does not support.",
                        "Ask the owner to store it as a number, a text, a boolean, a date or a timestamp.",
                    )
            known = [spelling for source in self.sources for spelling, _ in source.names.values()]
            listed = "Known are " + ", ".join(sorted(set(known))[:20]) + "." if known else ""
            if quoted and qualifier is None:
                listed = "A text is written in single quotes, as in x = 'text'; double quotes are for names."
            full = f"{qualifier}.{name}" if qualifier else name
            raise QuestionError(f"There is no column '{full}' here.", _hint(name, known, listed))
        return found

    def _source(self, alias: str) -> Source:
        for source in self.sources:
            if source.alias is not None and source.alias.casefold() == alias.casefold():
                return source
        known = [source.alias for source in self.sources if source.alias]
        raise QuestionError(
            f"There is no table '{alias}' in FROM.",
            did_you_mean(alias, known, otherwise=f"There are {', '.join(known)}." if known else ""),
        )

    def over(self, relation: Relation) -> Scope:
        """Return the same names over a filtered relation."""
        return replace(self, relation=relation)


def unit_names(schema: Schema, table: Table) -> list[str]:
    """Return the names by which a table's unit is known."""
    if table.public or table.unit is None:
        return []
    return list(dict.fromkeys([table.unit.column, *([schema.unit] if schema.unit else [])]))


_USUAL = {"main", "public", "dbo"}


def check_qualifiers(schema: Schema, table: str, qualifiers: Sequence[str], written: str) -> None:
    """Refuse what stands before a table's name unless it says nothing else than the data set does.

    The last part of a name is the table's. Before it may stand the data set's name, the table's own name, or one of the
    schemas that databases have without being asked. Anything else might mean another table.
    """
    fitting = {schema.data.casefold(), table.casefold(), *_USUAL}
    for qualifier in qualifiers:
        if qualifier.casefold() not in fitting:
            raise UnknownTableError(
                f"There is no '{qualifier}' here; got {written}.",
                f"Write {table}, or {schema.data}.{table}: a table's name, after the data set's if need be.",
            )


def unqualified(node: exp.Expr, schema: Schema) -> exp.Expr:
    """Return a tree in which columns are named by their tables alone, without schema and catalogue."""
    long = [column for column in node.find_all(exp.Column) if is_set(column.args.get("db"))]
    if not long:
        return node
    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        qualifiers = [identifier(column.args[part]) for part in ("catalog", "db") if is_set(column.args.get(part))]
        if qualifiers:
            check_qualifiers(schema, identifier(column.args["table"]), qualifiers, shown(column))
            column.set("db", None)
            column.set("catalog", None)
    return node


def _hint(name: str, known: Collection[str], listed: str) -> str:
    """Return what to write instead of a column that is not there: ``education-num`` is read as a difference."""
    torn = next((column for column in known if name.casefold() in re.split(r"\W+", column.casefold())), None)
    if torn is not None and torn.casefold() != name.casefold():
        return f"""Write a name with such characters in double quotes: "{torn}"."""
    return did_you_mean(name, known, otherwise=listed)


class Resolver(ABC):
    """Turns sqlglot's expressions into ours."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def column(self, node: exp.Column) -> Expression:
        """Return what a column name means."""

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return an aggregate, where one may stand."""
        raise QuestionError(
            f"An aggregate cannot stand here: {shown(node)}.",
            "Aggregates belong into SELECT, HAVING and ORDER BY; within one unit first: "
            "FROM (SELECT unit, COUNT(*) AS n FROM … GROUP BY unit).",
        )

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Resolver:  # noqa: ARG002
        """Return a resolver for where a condition is known to hold (or not to)."""
        return self

    def unless(self, _condition: Expression) -> Resolver:
        """Return a resolver for where a condition is not true: false or NULL."""
        return self

    @abstractmethod
    def given(self, values: Mapping[str, Expression]) -> Resolver:
        """Return a resolver of a text in which names stand for expressions."""

    @abstractmethod
    def convert(self, node: object) -> Expression:
        """Return our expression for a node."""

    def condition(self, node: object) -> Expression:
        """Return an expression that is true or false."""
        found = self.convert(node)
        if is_null(found):
            raise QuestionError("NULL is never true.", "Write a condition, such as x IS NULL.")
        if found.type.kind is not Kind.BOOLEAN:
            hint = f"Compare it with something, or write CAST({shown(node)} AS BOOLEAN)."
            raise QuestionError(f"A condition is needed; {shown(node)} is {found.type.kind.value}.", hint)
        return found
