"""Relations: row-level tables in which every row of a private relation belongs to exactly one unit.

That invariant is what makes a question answerable: whatever happens below, the planner can bound each unit's
contribution at the very end. It is kept by construction. A scan reads the unit with each row (and
drops rows whose unit is NULL: they belong to nobody). Filters and projections keep it. A join of two private
relations is on the unit; a join with a public relation takes the private side's unit, however many rows it makes. A
SEMI or ANTI join keeps rows of its left side, which is private, by what the same unit (or a public table) has on the
right. A union's rows keep theirs. An aggregate over private rows groups by the unit, so its results are facts about one
unit and need no noise yet; one over public rows is public.

So **what a unit's rows become depends on that unit's rows and on public tables alone**: by induction over the shapes
below, the rows with unit u in any relation are a function of the rows with unit u in the scans, and of public scans.
Adding or removing a unit adds or removes its own rows, and leaves those of all others as they are.

The unit itself is carried along silently: it is not among the columns and no expression can name it, except through
``COUNT(DISTINCT unit)``.

Columns that nothing uses are dropped (`pruned`), so that equal questions are equal and an engine reads only what is
needed. A projection without columns disappears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

from hush.query.expressions import Call, Column, Expression, Literal, Op, columns_in
from hush.query.functions import all_of, call
from hush.query.functions.logic import conjuncts
from hush.query.refine import narrowed
from hush.query.types import Kind, Type, Value

Named = tuple[str, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The rows of one table; ``columns`` maps unique names to the table's column names."""

    table: str
    public: bool
    columns: tuple[tuple[str, str, Type], ...]
    """(unique name here, column in the table, type)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The rows for which ``condition`` is true (not NULL)."""

    source: Relation
    condition: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The named expressions, row by row."""

    source: Relation
    columns: tuple[Named, ...]


class JoinKind(Enum):
    """Which rows a join keeps."""

    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    """Rows of the left side that have a partner on the right; only the left side's columns stay."""
    ANTI = "anti"
    """Rows of the left side that have none."""

    @property
    def widens(self) -> bool:
        """Whether the right side's columns are in the result."""
        return self in {JoinKind.INNER, JoinKind.LEFT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pairs of rows that agree on ``on``, and on the unit if both sides are private.

    Column names of the two sides are disjoint. A join that is not INNER has its private side on the left.
    """

    left: Relation
    right: Relation
    kind: JoinKind
    on: tuple[tuple[Expression, Expression], ...]
    """Equalities between a left and a right expression; between private relations the unit's equality is implied."""
    where: Expression | None = None
    """A further condition over both sides' columns; part of ON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionAll:
    """The rows of all sources, which have the same column names and kinds."""

    sources: tuple[Relation, ...]
    columns: tuple[tuple[str, Type], ...]


class ExactKind(Enum):
    """An exact aggregate over the rows of one unit."""

    COUNT = "count"
    COUNT_DISTINCT = "count distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAggregate:
    """An aggregate within one unit; ``argument`` is None for COUNT(*). The engine enforces its type as a column's."""

    kind: ExactKind
    argument: Expression | None
    type: Type


@dataclass(frozen=True, slots=True, kw_only=True)
class PerUnit:
    """One row for each unit and combination of keys: facts about one unit, exact, not yet released.

    Over a public relation, one row for each combination of keys, and just one where there are no keys.
    """

    source: Relation
    keys: tuple[Named, ...]
    aggregates: tuple[tuple[str, ExactAggregate], ...]


class WindowKind(Enum):
    """Window functions over a unit's own rows."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"
    LAG = "lag"
    LEAD = "lead"
    FIRST_VALUE = "first_value"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """One expression by which a unit's rows are ordered."""

    by: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """ROWS BETWEEN … AND …: the first and the last row, counted from the current one; None where there is no end."""

    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWindow:
    """A function of a row and of its unit's other rows: those that agree on ``partition``, in an order."""

    kind: WindowKind
    argument: Expression | None
    partition: tuple[Expression, ...]
    order: tuple[RowOrder, ...]
    offset: int
    """How many rows LAG and LEAD go."""
    type: Type
    frame: Frame | None = None
    """Which rows an aggregate runs over; by default up to the current one and its equals, or all without an order."""

    @property
    def expressions(self) -> tuple[Expression | None, ...]:
        """All expressions in it."""
        return (self.argument, *self.partition, *(order.by for order in self.order))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithWindows:
    """The rows of a relation, with windows over the rows of the same unit.

    What a window gives a row depends on rows of its own unit alone, so the invariant holds. Rows that the order leaves
    equal are ordered by all their columns: where these are equal too, so is what they are given, in whichever order.
    """

    source: Relation
    windows: tuple[tuple[str, OwnWindow], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """A small public table that the question writes out itself: VALUES, or a series of numbers."""

    columns: tuple[tuple[str, Type], ...]
    rows: tuple[tuple[Literal, ...], ...]
    awaits: int | None = None
    """The number of the answer that replaces the one cell once it is released; None for constants."""


Relation = Scan | Filter | Project | Join | UnionAll | PerUnit | WithWindows | Constants


Node = TypeVar("Node")


def columns(relation: Relation) -> dict[str, Type]:
    """Return the columns of a relation with their types, narrowed by its conditions."""
    match relation:
        case Scan():
            return {name: type_ for name, _, type_ in relation.columns}
        case Filter():
            return narrowed(columns(relation.source), relation.condition)
        case Project():
            return {name: expression.type for name, expression in relation.columns}
        case Join():
            if not relation.kind.widens:
                return columns(relation.left)
            right = columns(relation.right)
            if relation.kind is JoinKind.LEFT:
                right = {name: type_.or_null(named=True) for name, type_ in right.items()}
            found = columns(relation.left) | right
            # a LEFT JOIN keeps rows for which its condition fails, so that narrows nothing
            if relation.where is None or relation.kind is JoinKind.LEFT:
                return found
            return narrowed(found, relation.where)
        case UnionAll() | Constants():
            return dict(relation.columns)
        case WithWindows():
            return columns(relation.source) | {name: window.type for name, window in relation.windows}
        case PerUnit():
            keys = {name: expression.type for name, expression in relation.keys}
            return keys | {name: aggregate.type for name, aggregate in relation.aggregates}


def sources(node: Any) -> tuple[Any, ...]:
    """Return the direct sources of a relation, or of a table of answers (`hush.query.answers.tree`)."""
    if hasattr(node, "left"):
        return (node.left, node.right)
    return (node.source,) if hasattr(node, "source") else getattr(node, "sources", ())


def with_sources(node: Node, change: Callable[[Any], Any]) -> Node:
    """Return a relation, or a table of answers, with its direct sources changed."""
    parts: Any = node
    if hasattr(parts, "sources"):
        changed = {"sources": tuple(map(change, parts.sources))}
    else:
        changed = {name: change(getattr(parts, name)) for name in ("source", "left", "right") if hasattr(parts, name)}
    result: Node = replace(parts, **changed) if changed else node
    return result


def awaited_by(relation: Relation) -> dict[int, Kind]:
    """Return the numbers of the answers that a relation's rows are compared with, each with the kind of its value."""
    parts = walk(relation)
    return {part.awaits: part.columns[0][1].kind for part in parts if getattr(part, "awaits", None) is not None}


def with_answers(relation: Relation, answers: Mapping[int, Value]) -> Relation:
    """Return a relation with the answers that it awaits."""
    if isinstance(relation, Constants) and relation.awaits is not None:
        ((cell,),) = relation.rows
        return replace(relation, rows=((Literal(answers[relation.awaits], cell.type),),))
    return with_sources(relation, lambda source: with_answers(source, answers))


def walk(node: Any) -> Iterator[Any]:
    """Yield a relation, or a table of answers, and all that it is made of, from left to right."""
    yield node
    for source in sources(node):
        yield from walk(source)


def scans(relation: Relation) -> list[Scan]:
    """Return every reading of a table."""
    return [part for part in walk(relation) if isinstance(part, Scan)]


def private(relation: Relation) -> bool:
    """Return whether the relation's rows belong to units."""
    return any(not scan.public for scan in scans(relation))


def with_values(relation: Relation, expressions: Iterable[Expression]) -> Relation:
    """Return the rows of a relation in which no expression is NULL: equalities and comparisons are true of no others.

    NaN is NULL, as everywhere. Rows that IS NOT DISTINCT FROM pairs may be missing, so it is no such equality.
    """
    tests: list[Expression] = [
        call(Op.NOT, call(Op.IS_NULL, value)) for value in dict.fromkeys(expressions) if value.type.nullable
    ]
    return Filter(source=relation, condition=all_of(tests)) if tests else relation


def exact_type(kind: ExactKind, argument: Expression | None, *, empty: bool = False) -> Type:
    """Return the type of an exact aggregate; ``empty`` if there may be no rows at all."""
    whole = Fraction(1)
    if kind is ExactKind.COUNT and argument is None and not empty:
        return Type(Kind.INTEGER, nullable=False, lower=whole, step=whole)
    if argument is None or kind in {ExactKind.COUNT, ExactKind.COUNT_DISTINCT}:
        return Type(Kind.INTEGER, nullable=False, lower=Fraction(0), step=whole)
    type_ = argument.type
    if kind is ExactKind.SUM:  # of rows without number: only the sign of an end survives; too large sums become NULL
        lower = type_.lower if type_.lower is not None and type_.lower >= 0 else None
        upper = type_.upper if type_.upper is not None and type_.upper <= 0 else None
        return Type(type_.kind, nullable=True, lower=lower, upper=upper, step=type_.step)
    if kind is ExactKind.AVG:
        nullable = type_.nullable or not type_.bounded or empty
        return Type(Kind.DECIMAL, nullable=nullable, lower=type_.lower, upper=type_.upper)
    return type_.or_null() if empty else type_


def used(expressions: Iterable[Expression | None]) -> frozenset[str]:
    """Return the columns that any of the expressions uses."""
    return frozenset[str]().union(*(columns_in(each) for each in expressions if each is not None))


def pruned(relation: Relation, needed: frozenset[str]) -> Relation:
    """Return the relation with no more columns than needed."""
    match relation:
        case Scan():
            return replace(relation, columns=tuple(column for column in relation.columns if column[0] in needed))
        case Constants():
            return relation
        case Filter():
            conditions = conjuncts(relation.condition)
            for at, condition in enumerate(conditions):
                others = [*conditions[:at], *conditions[at + 1 :]]
                decided = _decided(relation.source, condition, needed | used(others))
                if decided is not None:
                    return pruned(Filter(source=decided, condition=all_of(others)) if others else decided, needed)
            return replace(relation, source=pruned(relation.source, needed | used([relation.condition])))
        case Project():
            kept = tuple((name, expression) for name, expression in relation.columns if name in needed)
            if all(isinstance(value, Column) and value.name == name for name, value in kept):
                return pruned(relation.source, frozenset(name for name, _ in kept))
            source = pruned(relation.source, used(expression for _, expression in kept))
            return replace(relation, source=source, columns=kept) if kept else source
        case Join():
            needed |= used([relation.where, *(side for pair in relation.on for side in pair)])
            return replace(relation, left=pruned(relation.left, needed), right=pruned(relation.right, needed))
        case UnionAll():
            kept_columns = tuple(column for column in relation.columns if column[0] in needed)
            names = frozenset(name for name, _ in kept_columns)
            members = []
            for source in relation.sources:
                member = pruned(source, names)
                known = columns(member)
                if known.keys() != names:  # its projection has vanished, and a member has the union's columns exactly
                    own = tuple((name, Column(name, type_)) for name, type_ in known.items() if name in names)
                    member = Project(source=member, columns=own)
                members.append(member)
            return replace(relation, sources=tuple(members), columns=kept_columns)
        case WithWindows():
            windows = tuple((name, window) for name, window in relation.windows if name in needed)
            if not windows:
                return pruned(relation.source, needed)
            inside = used(expression for _, window in windows for expression in window.expressions)
            return replace(relation, source=pruned(relation.source, needed | inside), windows=windows)
        case PerUnit():
            aggregates = tuple((name, aggregate) for name, aggregate in relation.aggregates if name in needed)
            if not aggregates and not relation.keys and not private(relation):
                aggregates = relation.aggregates[:1]  # without any, the one row would be all rows of a public table
            inside = used([*(e for _, e in relation.keys), *(aggregate.argument for _, aggregate in aggregates)])
            return replace(relation, source=pruned(relation.source, inside), aggregates=aggregates)


def _decided(relation: Relation, condition: Expression, needed: frozenset[str]) -> Relation | None:
    """Return a LEFT JOIN as an ANTI JOIN or inner JOIN, if a condition only tests whether a row has a partner.

    Such a condition tests a column that is true on the optional side. An ANTI JOIN loses that column with all others of
    its side, so none of them may be needed. A condition on one side's columns can be put before an inner join, or
    before a LEFT JOIN of that side.
    """
    negated = isinstance(condition, Call) and condition.op is Op.NOT
    test = condition.arguments[0] if isinstance(condition, Call) and negated else condition
    if not isinstance(test, Call) or test.op is not Op.IS_NULL or not isinstance(test.arguments[0], Column):
        return None
    mark = test.arguments[0].name
    if isinstance(relation, Filter):
        source = _decided(relation.source, condition, needed | used([relation.condition]))
        return None if source is None else replace(relation, source=source)
    if not isinstance(relation, Join):
        return None
    if mark in columns(relation.left):
        inside = needed | used([relation.where, *(side for pair in relation.on for side in pair)])
        left = _decided(relation.left, condition, inside)
        return None if left is None else replace(relation, left=left)
    if relation.kind is not JoinKind.LEFT or not isinstance(relation.right, Project):
        return None
    value = dict(relation.right.columns).get(mark)
    if not isinstance(value, Literal) or value.value is not True:
        return None
    if negated:
        return replace(relation, kind=JoinKind.INNER)
    return None if needed & columns(relation.right).keys() else replace(relation, kind=JoinKind.ANTI)
