"""Questions about answers: what is done with one or several finished questions, all of it after the noise.

``SELECT disease, n, n / SUM(n) OVER () FROM (SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease)`` reads no
row. It is a table made of what the inner question releases, so it costs what that costs. A `Composed` question holds
the finished questions, each paid for once, and the table that is made of their answers: a tree of the nodes below.

The columns of every node have names that are unique in the question. A column is *noisy* if noise has a part in its
values. That is known before anything is asked, like everything else here.

>>> from hush.query.types import Kind
>>> count = AnswerColumnName(name="n", type=Type(Kind.INTEGER), noisy=True)
>>> answers = Asked(question=0, columns=(count,))
>>> ranks = Windowed(source=answers, windows=(("r", Window(kind="rank", order=(Ordering(by=count.column),))),))
>>> [(column.name, column.noisy) for column in columns_of(ranks)]
[('n', True), ('r', True)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from hush.core.values import dataclass
from hush.query.expressions import Column, Expression, columns_in
from hush.query.question import Ordering, Question
from hush.query.relations import Frame, Named
from hush.query.types import Kind, Type

INTEGER, DECIMAL = Type(Kind.INTEGER), Type(Kind.DECIMAL)
RANKS = frozenset({"rank", "dense_rank", "row_number", "percent_rank", "cume_dist", "ntile"})
"""Windows that say where a row stands among others."""
SHIFTS = frozenset({"lag", "lead", "first_value", "last_value"})
"""Windows that show another row's value."""
FOLDS = frozenset({"count", "count_distinct", "sum", "avg", "min", "max"})
"""What makes one value of several rows' values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumnName:
    """A column of a table of answers."""

    name: str
    type: Type
    noisy: bool

    @property
    def column(self) -> Column:
        """The column in an expression."""
        return Column(self.name, self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window function over a table of answers."""

    kind: str
    argument: Expression | None = None
    partition: tuple[Expression, ...] = ()
    order: tuple[Ordering, ...] = ()
    frame: Frame | None = None
    """None for what SQL takes: all rows, or with an ORDER BY those up to the current one and its peers."""
    number: int = 1
    """How many rows LAG and LEAD go; how many tiles NTILE makes."""

    @property
    def type(self) -> Type:
        """What it gives."""
        if self.kind in {"percent_rank", "cume_dist"}:
            return DECIMAL
        return INTEGER if self.kind in RANKS else Fold(kind=self.kind, argument=self.argument).type


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """An aggregate over rows of answers."""

    kind: str
    argument: Expression | None = None

    @property
    def type(self) -> Type:
        """What it gives."""
        if self.kind.startswith("count") or self.argument is None:
            return INTEGER
        kind = self.argument.type.kind
        if self.kind in {"sum", "avg"}:
            return INTEGER if self.kind == "sum" and kind is Kind.INTEGER else DECIMAL
        return Type(kind, lower=self.argument.type.lower, upper=self.argument.type.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question releases: a column for each of its outputs."""

    question: int
    columns: tuple[AnswerColumnName, ...]
    added_up: tuple[int, ...] | None = None
    """Where groups are added up to fewer: the public keys that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified:
    """The rows for which a condition is true: WHERE, HAVING, QUALIFY."""

    source: AnswerTable
    condition: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Expressions over a row."""

    source: AnswerTable
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """All columns of the source, and window functions over its rows."""

    source: AnswerTable
    windows: tuple[tuple[str, Window], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrouped:
    """GROUP BY over answers: a row for each combination of keys, or one row if there are none."""

    source: AnswerTable
    keys: tuple[Named, ...]
    folds: tuple[tuple[str, Fold], ...]
    whole: bool = False
    """Whether there are no keys because none were asked for: then there is one row, even of no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """ORDER BY … LIMIT … OFFSET …."""

    source: AnswerTable
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Two tables of answers joined on public columns."""

    left: AnswerTable
    right: AnswerTable
    on: tuple[tuple[str, str], ...]
    """Columns of the left and of the right that are equal; none for a CROSS JOIN."""
    how: str
    """inner, left or full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacked:
    """UNION ALL: the rows of several tables, whose columns correspond by their places."""

    sources: tuple[AnswerTable, ...]
    columns: tuple[AnswerColumnName, ...]
    levels: bool = False
    """Whether they are the levels of one ROLLUP, CUBE or GROUPING SETS: questions about the same rows."""


AnswerTable = Asked | Qualified | Computed | Windowed | Regrouped | Sorted | Matched | Stacked


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """Finished questions, and the table that is made of their answers."""

    data: str
    questions: tuple[Question, ...]
    table: AnswerTable
    outputs: tuple[tuple[str, str], ...]
    """The name of each result as it is shown, and of its column."""
    intervals: tuple[tuple[str, str], ...] = ()
    """Outputs that are shown as an end of their error bar: "low" or "high"."""
    text: str = field(default="", compare=False)
    """The question as it was asked, with the values of its parameters."""


def columns_of(table: AnswerTable) -> tuple[AnswerColumnName, ...]:
    """Return the columns of a table of answers."""
    match table:
        case Asked() | Stacked():
            return table.columns
        case Qualified() | Sorted():
            return columns_of(table.source)
        case Computed():
            noisy = noisy_names(table.source)
            return tuple(_named(name, one.type, columns_in(one) & noisy) for name, one in table.columns)
        case Windowed():
            before = columns_of(table.source)
            noisy, chosen = noisy_names(table.source), chosen_by_noise(table.source)
            return (
                *before,
                *(_named(name, one.type, chosen or window_reads(one) & noisy) for name, one in table.windows),
            )
        case Regrouped():
            noisy, chosen = noisy_names(table.source), chosen_by_noise(table.source)
            by_noise = chosen or any(columns_in(one) & noisy for _, one in table.keys)
            keys = [_named(name, one.type, columns_in(one) & noisy) for name, one in table.keys]
            folds = [
                _named(name, one.type, by_noise or (one.argument is not None and columns_in(one.argument) & noisy))
                for name, one in table.folds
            ]
            return (*keys, *folds)
        case Matched():
            optional = {"left": (False, True), "full": (True, True)}.get(table.how, (False, False))
            sides = [columns_of(table.left), columns_of(table.right)]
            return tuple(
                _named(one.name, one.type.or_null() if null else one.type, one.noisy)
                for null, side in zip(optional, sides, strict=True)
                for one in side
            )


def noisy_names(table: AnswerTable) -> frozenset[str]:
    """Return the columns in whose values noise has a part."""
    return frozenset(column.name for column in columns_of(table) if column.noisy)


def chosen_by_noise(table: AnswerTable) -> bool:
    """Return whether noise has a part in which rows a table has."""
    match table:
        case Asked():
            return False
        case Qualified():
            noisy = noisy_names(table.source)
            return bool(columns_in(table.condition) & noisy) or chosen_by_noise(table.source)
        case Sorted():
            cuts = table.limit is not None or table.offset > 0
            by = frozenset[str]().union(*(columns_in(item.by) for item in table.order))
            return (cuts and bool(by & noisy_names(table.source))) or chosen_by_noise(table.source)
        case Computed() | Windowed() | Regrouped():
            return chosen_by_noise(table.source)
        case Matched():
            return chosen_by_noise(table.left) or chosen_by_noise(table.right)
        case Stacked():
            return any(map(chosen_by_noise, table.sources))


def window_reads(window: Window) -> frozenset[str]:
    """Return the columns that a window reads."""
    ordered = (item.by for item in window.order)
    argument = () if window.argument is None else (window.argument,)
    return frozenset[str]().union(*map(columns_in, (*argument, *window.partition, *ordered)))


def sources_of(table: AnswerTable) -> Iterable[AnswerTable]:
    """Return what a table is made of."""
    match table:
        case Asked():
            return ()
        case Matched():
            return (table.left, table.right)
        case Stacked():
            return table.sources
        case _:
            return (table.source,)


def walk(table: AnswerTable) -> Iterator[AnswerTable]:
    """Yield a table and all that it is made of."""
    yield table
    for source in sources_of(table):
        yield from walk(source)


def _named(name: str, type_: Type, noise: object) -> AnswerColumnName:
    return AnswerColumnName(name=name, type=type_, noisy=bool(noise))
