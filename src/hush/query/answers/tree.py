"""Questions about answers: tables computed from one or several finished questions, as post-processing.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import NamedTuple

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Op, Released, columns_in, with_columns
from hush.query.functions.record import is_null
from hush.query.question import Ordering, Question
from hush.query.relations import Frame, Named, sources, used, walk
from hush.query.types import Kind, Type

MOST_TABLES = 2000
INTEGER, DECIMAL = Type(Kind.INTEGER), Type(Kind.DECIMAL)
RANKS = frozenset({"rank", "dense_rank", "row_number", "percent_rank", "cume_dist", "ntile"})


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
    """None for the default of SQL: all rows, or with an ORDER BY those up to the current one and its peers."""
    number: int = 1
    """The offset of LAG and LEAD, or the number of tiles of NTILE."""

    @property
    def expressions(self) -> tuple[Expression | None, ...]:
        """All expressions in it."""
        return (self.argument, *self.partition, *(ordering.by for ordering in self.order))

    def mapped(self, change: Callable[[Expression], Expression]) -> Window:
        """Return the window with every expression in it changed."""
        argument = None if self.argument is None else change(self.argument)
        order = tuple(replace(ordering, by=change(ordering.by)) for ordering in self.order)
        return replace(self, argument=argument, partition=tuple(map(change, self.partition)), order=order)

    @property
    def type(self) -> Type:
        """The type of its values."""
        if self.kind in {"percent_rank", "cume_dist"}:
            return DECIMAL
        if self.kind in RANKS or self.kind.startswith("count") or self.argument is None:
            return INTEGER
        kind = self.argument.type.kind
        if self.kind in {"sum", "avg"}:
            return INTEGER if self.kind == "sum" and kind is Kind.INTEGER else DECIMAL
        return Type(kind, lower=self.argument.type.lower, upper=self.argument.type.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The answer of a question: a column for each of its outputs."""

    question: int
    columns: tuple[AnswerColumnName, ...]
    added_up: tuple[int, ...] | None = None
    """The keys that remain where groups are summed over the others; None without summing."""


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
    folds: tuple[tuple[str, Window], ...]
    """Aggregates, as windows that are parted by the keys."""
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
    """UNION ALL: the rows of several tables, with columns matched by position."""

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
    awaited: tuple[tuple[AnswerTable, str], ...] = ()
    """Answers that rows of later questions are compared with: a table of one row, and its column."""
    intervals: tuple[tuple[str, str], ...] = ()
    """Outputs that are shown as an end of their error bar: "low" or "high"."""
    text: str = field(default="", compare=False)
    """The question as it was asked, with the values of its parameters."""


def columns_of(table: AnswerTable) -> tuple[AnswerColumnName, ...]:
    """Return the columns of a table of answers."""
    return _known(table)[0]


def noisy_names(table: AnswerTable) -> frozenset[str]:
    """Return the names of the noisy columns."""
    return frozenset(column.name for column in columns_of(table) if column.noisy)


def chosen_by_noise(table: AnswerTable) -> bool:
    """Return whether noise decides which rows a table has."""
    return _known(table)[1]


def _known(table: AnswerTable) -> tuple[tuple[AnswerColumnName, ...], bool]:
    """Return the columns, and whether noise chose the rows. Each source is asked once, or the work would double."""
    match table:
        case Asked():
            return table.columns, False
        case Stacked():
            return table.columns, any(map(chosen_by_noise, table.sources))
        case Matched():
            (left, left_chosen), (right, right_chosen) = _known(table.left), _known(table.right)
            if table.how == "full":
                left = tuple(replace(each, type=each.type.or_null()) for each in left)
            if table.how in {"left", "full"}:
                right = tuple(replace(each, type=each.type.or_null()) for each in right)
            return (*left, *right), left_chosen or right_chosen
    before, chosen_before = _known(table.source)
    noisy = frozenset(column.name for column in before if column.noisy)
    match table:
        case Qualified():
            return before, chosen_before or bool(columns_in(table.condition) & noisy)
        case Sorted():
            cuts = table.limit is not None or table.offset > 0
            return before, chosen_before or (cuts and any(columns_in(ordering.by) & noisy for ordering in table.order))
        case Computed():
            columns = (_named(name, each.type, columns_in(each) & noisy) for name, each in table.columns)
            return tuple(columns), chosen_before
        case Windowed():
            windows = (
                _named(name, each.type, chosen_before or used(each.expressions) & noisy) for name, each in table.windows
            )
            return (*before, *windows), chosen_before
        case Regrouped():
            # a sum over rows that noise chose, or grouped by a noisy key, is noisy even of public numbers
            by_noise = chosen_before or any(columns_in(each) & noisy for _, each in table.keys)
            keys = (_named(name, each.type, columns_in(each) & noisy) for name, each in table.keys)
            folds = (_named(name, each.type, by_noise or used(each.expressions) & noisy) for name, each in table.folds)
            return (*keys, *folds), chosen_before


def within_limit(table: AnswerTable) -> AnswerTable:
    """Return a table of answers; refuse one of too many tables, each counted as often as it is used."""
    if next(islice(walk(table), MOST_TABLES, None), None) is not None:
        raise QuestionError(f"The question puts more than {MOST_TABLES:,} tables of answers together.", "Ask for less.")
    return table


def _named(name: str, type_: Type, noise: object) -> AnswerColumnName:
    return AnswerColumnName(name=name, type=type_, noisy=bool(noise))


# What a column means


class Meaning(NamedTuple):
    """A column as an expression over the released values of one group of one question, in rows that have a group."""

    question: int
    added_up: tuple[int, ...] | None
    """The keys that remain where groups are summed, as in `Asked`."""
    expression: Expression


Meanings = Mapping[str, Mapping[int, Meaning | None]]
"""The meaning of each column in rows that read a question, by the number of its `Asked` among those of the table.

None stands for more than one group of one question.
"""


def released_columns(asked: Asked, outputs: Mapping[str, Expression]) -> dict[str, Expression]:
    """Return the released values that the columns of an answer show, given the outputs of its question by their names.

    Columns that are no outputs are the keys and aggregates of groups that are summed.
    """
    summed = [column for column in asked.columns if column.name not in outputs]
    places = [("key", key) for key in asked.added_up or ()]
    places += [("aggregate", index) for index in range(len(summed) - len(places))]
    sums = {
        column.name: Released(source, index, column.type)
        for (source, index), column in zip(places, summed, strict=True)
    }
    return {column.name: sums.get(column.name) or outputs[column.name] for column in asked.columns}


def meanings(table: AnswerTable, outputs: Mapping[int, Mapping[str, Expression]]) -> Meanings:
    """Return the meaning of each column of a table, given the outputs of the questions by their names."""
    inside = [meanings(source, outputs) for source in sources(table)]
    match table:
        case Asked():
            released = released_columns(table, outputs[table.question])
            return {name: {0: Meaning(table.question, table.added_up, value)} for name, value in released.items()}
        case Qualified() | Sorted() | Windowed():
            return inside[0]
        case Computed():
            return {name: _meaning_of(expression, inside[0]) for name, expression in table.columns}
        case Regrouped():
            return {}
    counts = (sum(isinstance(node, Asked) for node in walk(source)) for source in sources(table))
    columns: dict[str, dict[int, Meaning | None]] = {}
    for first, side in zip(accumulate(counts, initial=0), inside, strict=False):
        names = side if isinstance(table, Matched) else [column.name for column in table.columns]
        for name, known in zip(names, side.values(), strict=True):
            meant = columns.setdefault(name, {})
            meant |= {first + part: meaning for part, meaning in (known or {0: None}).items()}
    return columns


def _meaning_of(expression: Expression, known: Meanings) -> Mapping[int, Meaning | None]:
    """Return the meaning of an expression over columns."""
    if isinstance(expression, Column):
        return known.get(expression.name, {})
    columns = {name: known.get(name, {}) for name in sorted(columns_in(expression))}
    meant: dict[int, Meaning | None] = {}
    for part in sorted(set[int]().union(*columns.values())):
        single = {name: each for name, column in columns.items() if (each := column.get(part)) is not None}
        meant[part] = None
        if len(single) == len(columns):
            first, *_ = single.values()
            over = with_columns(expression, {name: each.expression for name, each in single.items()})
            meant[part] = Meaning(first.question, first.added_up, over)
    return meant


_SKIPPING_NULL = {Op.AND, Op.OR, Op.CASE, Op.COALESCE, Op.LEAST, Op.GREATEST}


def null_of_null(expression: Expression) -> bool:
    """Return whether an expression is surely NULL where its columns are."""
    if not isinstance(expression, Call):
        return isinstance(expression, Column) or is_null(expression)
    if expression.op is Op.IS_NULL:
        return False
    if expression.op is Op.NULL_IF:
        return null_of_null(expression.arguments[0])
    nulls = map(null_of_null, expression.arguments)
    return all(nulls) if expression.op in _SKIPPING_NULL else any(nulls)
