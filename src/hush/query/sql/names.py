"""Name resolution: from names in a question to columns of its sources.

Names are compared without regard to case, as DuckDB does. A column gets a name that is unique in the question when
its table is read; the analyst's names (aliases, qualifiers) live in the scope alone. The unit has a name too, by
which it can be joined on, grouped by in a subquery and counted, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, TypeGuard, TypeVar

from sqlglot import exp

from hush.core.work import spend
from hush.query.answers.tree import AnswerTable
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.expressions import Column, Expression
from hush.query.parameters import Binder
from hush.query.question import Question
from hush.query.relations import Named, Project, Relation, private
from hush.query.schema import Schema, Target
from hush.query.sql.allow_list import has, identifier, shown
from hush.query.sql.text import DEFAULT
from hush.query.types import Type

MAX_RELATIONS = 100
MAX_PRIVATE_JOINS = 4
_STEPS_OF_A_RELATION = 200
_Fact = TypeVar("_Fact")


class UnitName(Enum):
    """A name that means the unit."""

    HERE = "here"


class Partner(str):
    """Stands for the unit column of the optional side of an outer join: true, or NULL where nothing matched.

    Rows that match have the same unit on both sides, so whether a row matched is all that can be asked of this column.
    """

    __slots__ = ()


Binding = str | UnitName
"""The unique name of a column, or the unit."""


@dataclass(slots=True)
class Answers:
    """A table of answers, and the names of its results."""

    table: AnswerTable
    names: list[tuple[str, str]]
    """Each result's name, and its column."""


@dataclass(slots=True, eq=False)
class Part:
    """A part named by WITH, and the parts it may use itself."""

    query: exp.Expr
    parts: Parts
    columns: list[str] = field(default_factory=list)
    """New names of its first columns."""
    used: bool = False


Parts = Mapping[str, Part]
NO_PARTS: Parts = MappingProxyType({})


class Subqueries(Protocol):
    """The module that resolves subqueries inside conditions and expressions: it reads FROM, which has conditions."""

    def partners(self, scope: Scope, node: exp.Expr, *, negated: bool, context: Context) -> Scope:
        """Return the rows that have a partner (EXISTS, IN), or with NOT those that have none."""

    def value(self, rows: Any, node: exp.Expr) -> Expression:
        """Return the value of a subquery for a row, of which ``rows`` reads expressions."""

    def numbers(self, node: exp.Expr, context: Context, parts: Parts) -> Scope | None:
        """Return an item of FROM that is an answer of one row, as constants; None for any other item."""

    def answer(self, node: exp.Subquery, context: Context, parts: Parts) -> Answers:
        """Return the one number that a subquery beside answers asks for, as a table of answers."""


@dataclass(slots=True)
class Context:
    """The state of one question while it is resolved."""

    schema: Schema
    binder: Binder
    subqueries: Callable[[], Subqueries]
    dialect: str = DEFAULT
    relations: int = 0
    private_joins: int = 0
    parts: list[Part] = field(default_factory=list)
    """All parts named by WITH."""
    names: set[str] = field(default_factory=set)
    links: dict[str, Target] = field(default_factory=dict)
    """Foreign keys on the way to the unit, and the keys that they refer to, each with the key it stands for."""
    questions: list[Question] = field(default_factory=list)
    """The finished questions from which a question over answers is computed."""
    awaited: list[tuple[AnswerTable, str]] = field(default_factory=list)
    """Answers that rows are compared with: each a table of answers with one row, and its column."""
    answers: dict[Part, Answers] = field(default_factory=dict)
    """The answers of parts that are finished questions, and were read."""
    facts: dict[tuple[str, int], tuple[Any, exp.Expr]] = field(default_factory=dict)
    """What `once` found, which trials share; with each the node, so that its id stays its own."""

    def once(self, what: str, node: exp.Expr, find: Callable[[], _Fact]) -> _Fact:
        """Return a fact about a node, and find it only once: trials within trials would double the work each time."""
        key = what, id(node)
        if key not in self.facts:
            self.facts[key] = find(), node
        fact: _Fact = self.facts[key][0]
        return fact

    def grow(self, relations: int = 1) -> None:
        """Count relations."""
        spend(_STEPS_OF_A_RELATION * relations)
        self.relations += relations
        if self.relations > MAX_RELATIONS:
            raise QuestionError(f"The question reads more than {MAX_RELATIONS} tables and subqueries.")

    def join_private(self) -> None:
        """Count joins of private tables, in which rows multiply within a unit."""
        self.private_joins += 1
        if self.private_joins > MAX_PRIVATE_JOINS:
            raise QuestionError(
                f"The question joins private tables more than {MAX_PRIVATE_JOINS} times.",
                "Aggregate within the unit first: SELECT unit, COUNT(*) AS n … GROUP BY unit.",
            )

    def trial(self) -> Context:
        """Return a copy, of which nothing stays."""
        spend(_STEPS_OF_A_RELATION + len(self.names) // 10)
        changing = ("parts", "names", "links", "questions", "awaited", "answers")
        copies: dict[str, Any] = {name: copy(getattr(self, name)) for name in changing}
        return replace(self, **copies)

    def fresh(self, name: str) -> str:
        """Return a name that is unique in the question, without regard to case."""
        clean = re.sub(r"\W", "_", name)[:60] or "column"
        candidate, number = clean, 2
        while candidate.casefold() in self.names:
            candidate, number = f"{clean}_{number}", number + 1
        spend(number)
        self.names.add(candidate.casefold())
        return candidate

    def is_link(self, expression: Expression) -> TypeGuard[Column]:
        """Return whether an expression is a key on the way to the unit, and so belongs to one."""
        return isinstance(expression, Column) and expression.name in self.links


@dataclass(frozen=True, slots=True)
class FromSource:
    """One item of FROM: its alias and its names (keys are case-folded; values keep the spelling)."""

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
    sources: list[FromSource]
    merged: dict[str, Binding] = field(default_factory=dict)
    """Names that USING joined, and their meaning without a table before them."""
    parts: Parts = field(default_factory=dict)
    """The parts named by WITH, for subqueries inside expressions."""
    settled: bool = False
    """Whether the relation is settled already, so that expressions cannot join anything to it."""

    @property
    def private(self) -> bool:
        """Whether the rows belong to units."""
        return private(self.relation)

    def find(self, name: str, qualifier: str | None = None) -> Binding | None:
        """Return the binding of a name; None if no source has it."""
        key = name.casefold()
        if qualifier is None and key in self.merged:
            return self.merged[key]
        owners, bindings = [], []
        for source in self.sources if qualifier is None else [self._named(qualifier)]:
            if key in source.names:
                owners.append(source.alias or "…")
                bindings.append(source.names[key][1])
        if UnitName.HERE in bindings:
            bindings = [binding for binding in bindings if not isinstance(binding, Partner)]
        if len(bindings) > 1 and not all(isinstance(binding, UnitName) for binding in bindings):
            raise QuestionError(
                f"'{name}' could mean {' or '.join(f'{owner}.{name}' for owner in owners)}.", "Write one of these."
            )
        return bindings[0] if bindings else None

    def require(self, name: str, qualifier: str | None = None, *, quoted: bool = False) -> Binding:
        """Return the binding of a name, or refuse it with the nearest name; a ``quoted`` one may be meant as a text."""
        binding = self.find(name, qualifier)
        if binding is not None:
            return binding
        for source in self.sources if qualifier is None else [self._named(qualifier)]:
            if (stored := source.unsupported.get(name.casefold())) is not None:
                raise QuestionError(
                    f"Column '{name}' has the type {stored}, which hush does not support.",
                    "Ask the owner to store it as a number, a text, a boolean, a date or a timestamp.",
                )
        spellings = [spelling for _, spelling, _ in self.bindings()]
        hint = "Known are " + ", ".join(sorted(set(spellings))[:20]) + "." if spellings else ""
        if quoted and qualifier is None:
            hint = "A text is written in single quotes, as in x = 'text'; double quotes are for names."
        # education-num is read as a difference of two columns
        torn = next((column for column in spellings if name.casefold() in re.split(r"\W+", column.casefold())), None)
        if torn is not None and torn.casefold() != name.casefold():
            hint = f'Write a name with such characters in double quotes: "{torn}".'
        else:
            hint = did_you_mean(name, spellings, otherwise=hint)
        raise QuestionError(f"There is no column '{f'{qualifier}.{name}' if qualifier else name}' here.", hint)

    def bindings(self) -> list[tuple[FromSource, str, Binding]]:
        """Return all names of all sources, as they are spelled, each with its source and its binding."""
        return [(source, name, binding) for source in self.sources for name, binding in source.names.values()]

    def _named(self, alias: str) -> FromSource:
        for source in self.sources:
            if source.alias is not None and source.alias.casefold() == alias.casefold():
                return source
        aliases = [source.alias for source in self.sources if source.alias]
        raise QuestionError(
            f"There is no table '{alias}' in FROM.",
            did_you_mean(alias, aliases, otherwise=f"There are {', '.join(aliases)}." if aliases else ""),
        )


@dataclass(slots=True)
class Derived:
    """A query as a source: a relation, and the bindings of its results' names."""

    relation: Relation
    names: list[tuple[str, Binding]] = field(default_factory=list)


def named_source(results: Sequence[tuple[str, Binding]], alias: str | None, renamed: Sequence[str] = ()) -> FromSource:
    """Return results as an item of FROM, the first ones renamed: ``… AS t(a, b)``."""
    if len(renamed) > len(results):
        raise QuestionError(f"'{alias}' has {len(results)} columns; got {len(renamed)} names for them.")
    names = [*renamed, *(name for name, _ in results[len(renamed) :])]
    bindings = {name.casefold(): (name, binding) for name, (_, binding) in zip(names, results, strict=True)}
    if len(bindings) < len(names):
        raise QuestionError(f"Two columns of '{alias}' have one name.", "Give each its own.")
    units = frozenset(key for key, (_, binding) in bindings.items() if binding is UnitName.HERE)
    return FromSource(alias, bindings, stored=units)


def check_kinds(types: Iterable[Type], what: str, hint: str) -> None:
    """Refuse values of one column that are of several kinds, unless all are numbers."""
    kinds = {type_.kind for type_ in types}
    if len(kinds) > 1 and not all(kind.numeric for kind in kinds):
        raise QuestionError(f"{what} {' and '.join(sorted(kind.value for kind in kinds))}.", hint)


def projected(
    relation: Relation,
    results: Sequence[tuple[str, Expression | UnitName]],
    context: Context,
    names: Sequence[str] | None,
) -> Derived:
    """Return a projection to results, under the given unique names or fresh ones."""
    bindings: list[tuple[str, Binding]] = []
    projection: list[Named] = []
    given = iter(names) if names is not None else None
    for name, result in results:
        if isinstance(result, UnitName):
            bindings.append((name, result))
            continue
        unique = context.fresh(name) if given is None else next(given, "")
        if isinstance(result, Column):
            if isinstance(result.name, Partner):
                unique = Partner(unique)
            if given is None and result.name in context.links:
                context.links[unique] = context.links[result.name]
        bindings.append((name, unique))
        projection.append((unique, result))
    context.grow()
    return Derived(Project(source=relation, columns=tuple(projection)), bindings)


def check_qualifiers(schema: Schema, table: str, qualifiers: Sequence[str], text: str) -> None:
    """Refuse qualifiers before a table's name unless they say nothing else than the data set does.

    The last part of a name is the table's. Before it may stand the data set's name, the table's own name, or one of the
    usual schemas. Anything else might mean another table.
    """
    # "main" and the like are schemas that databases have without being asked
    allowed = {schema.data.casefold(), table.casefold(), "main", "public", "dbo", "default"}
    for qualifier in qualifiers:
        if qualifier.casefold() not in allowed:
            raise UnknownTableError(
                f"There is no '{qualifier}' here; got {text}.",
                f"Write {table}, or {schema.data}.{table}: a table's name, after the data set's if need be.",
            )


def qualifiers_of(node: exp.Expr) -> list[str]:
    """Return the catalogue and the schema before a table's name."""
    return [identifier(node.args[slot]) for slot in ("catalog", "db") if has(node, slot)]


def without_qualifiers(tree: exp.Expr, schema: Schema) -> None:
    """Name the columns of a tree by their tables alone, without schema and catalogue.

    A catalogue that is the same throughout, as in ``shop.public.orders``, is the database's name.
    """
    catalogued = [node for node in tree.find_all(exp.Column, exp.Table) if has(node, "catalog")]
    if len({identifier(node.args["catalog"]).casefold() for node in catalogued}) == 1:
        for node in catalogued:
            node.set("catalog", None)
    for column in list(tree.find_all(exp.Column)):
        if qualifiers := qualifiers_of(column):
            check_qualifiers(schema, identifier(column.args["table"]), qualifiers, shown(column))
            column.set("db", None)
            column.set("catalog", None)
