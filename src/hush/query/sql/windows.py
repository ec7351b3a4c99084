"""Window functions: over answers, and over a unit's own rows.

**Over answers**, ``SUM(n) OVER (PARTITION BY region ORDER BY month)`` compares released numbers with each other, so it
costs nothing.

**Over rows**, ``ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day)`` is parted by the unit: it looks at rows of
one unit alone, so it is a fact about that unit, like an aggregate within it (`hush.query.sql.group_by`). The engine
parts by the unit in any case. Over public tables any window will do. Other windows over rows would compare different
units, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from hush.query.answers.tree import RANKS, AnswerTable, Computed, Matched, Window, columns_of, within_limit
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.question import Ordering
from hush.query.relations import ExactKind, Frame, OwnWindow, RowOrder, WindowKind, WithWindows, exact_type
from hush.query.sql.allow_list import has, identifier, is_set, only, shown
from hush.query.sql.dialects import meaning_by_type
from hush.query.sql.expressions import Rows, rewritten_aggregate
from hush.query.sql.names import Context, Parts, Scope
from hush.query.types import Kind, Type

Convert = Callable[[object], Expression]
_Names = dict[type[exp.Expr], str]
_RANKS: _Names = {exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.RowNumber: "row_number"}
_RANKS |= {exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist"}
_SHIFTS: _Names = {exp.Lag: "lag", exp.Lead: "lead", exp.FirstValue: "first_value", exp.LastValue: "last_value"}
_FOLDS: _Names = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_MAX_NUMBER = 10**6


# Clauses, which are the same over answers and over rows


def ordered_by(clause: exp.Expr | None) -> list[exp.Ordered]:
    """Return the items of ORDER BY; none where there is no such clause."""
    if clause is None:
        return []
    only(clause, "expressions")
    for ordered in clause.expressions:
        only(ordered, "this", "desc", "nulls_first")
    return list(clause.expressions)


def _clauses(node: exp.Window, select: exp.Select) -> tuple[list[exp.Expr], list[exp.Ordered], exp.Expr | None]:
    """Return PARTITION BY, ORDER BY and the frame; those of a window that the SELECT names come first."""
    only(node, "this", "partition_by", "order", "spec", "alias", "over")
    partition = list(node.args.get("partition_by") or ())
    order, spec = node.args.get("order"), node.args.get("spec")
    if has(node, "alias"):
        name = identifier(node.args["alias"])
        windows = {identifier(window.this).casefold(): window for window in select.args.get("windows") or ()}
        named = windows.get(name.casefold())
        if named is None:
            raise QuestionError(f"There is no window '{name}'.", "Name it: WINDOW w AS (ORDER BY …).")
        only(named, "this", "partition_by", "order", "spec")
        if partition or (order is not None and named.args.get("order") is not None):
            raise QuestionError(f"{shown(node)} says again what the window '{name}' says.", "Write one of them.")
        partition = list(named.args.get("partition_by") or ())
        order, spec = order or named.args.get("order"), spec or named.args.get("spec")
    return partition, ordered_by(order), spec


def _frame(spec: exp.Expr, *, ordered: bool) -> Frame | None:
    """Return ROWS BETWEEN …; None for the RANGE that SQL takes by default."""
    only(spec, "kind", "start", "start_side", "end", "end_side")
    kind, first, last = spec.args.get("kind"), _frame_end(spec, "start"), _frame_end(spec, "end")
    if kind == "ROWS":
        if first is not None and last is not None and first > last:
            raise QuestionError(f"{shown(spec)} starts after its end.")
        return Frame(first=first, last=last)
    if kind == "RANGE" and first is None and last == 0:
        return None
    if kind == "RANGE" and first is None and last is None:
        return Frame(first=None, last=None) if ordered else None
    raise QuestionError(
        f"{shown(spec)} is not supported.",
        "Where no two rows are equal in the order, ROWS means the same: ROWS BETWEEN 6 PRECEDING AND CURRENT ROW.",
    )


def _frame_end(spec: exp.Expr, name: str) -> int | None:
    """Return how many rows after the current one a frame starts or ends; None where it is unbounded."""
    value, side = spec.args.get(name), spec.args.get(f"{name}_side")
    if value == "UNBOUNDED":
        if (side == "PRECEDING") is not (name == "start"):
            raise QuestionError("A frame starts at UNBOUNDED PRECEDING or ends at UNBOUNDED FOLLOWING.")
        return None
    if value == "CURRENT ROW" or not is_set(value):
        return 0
    if isinstance(value, exp.Interval):
        raise QuestionError(
            "Frames of time are not supported.",
            "Where there is one row for each day, count rows: ROWS BETWEEN 6 PRECEDING AND CURRENT ROW is a week. "
            "Within a unit join its rows: ON a.unit = b.unit AND b.day BETWEEN a.day - INTERVAL 6 DAY AND a.day.",
        )
    number = _whole_number(value, "A frame", 0)
    return -number if side == "PRECEDING" else number


def _whole_number(node: object, name: str, least: int, most: int = _MAX_NUMBER, hint: str = "") -> int:
    text = str(node.this)[:20] if isinstance(node, exp.Literal) and not node.is_string else ""
    if text.isdecimal() and least <= int(text) <= most:
        return int(text)
    raise QuestionError(f"{name} needs a whole number from {least} to {most:,}; got {shown(node)}.", hint)


def direction(node: exp.Ordered) -> dict[str, bool]:
    """Return whether an item of ORDER BY is descending, and whether its NULLs come first."""
    return {"descending": bool(node.args.get("desc")), "nulls_first": bool(node.args.get("nulls_first"))}


def unfiltered(node: exp.Expr) -> exp.Expr:
    """Return ``SUM(x) FILTER (WHERE c)`` as ``SUM(CASE WHEN c THEN x END)``: aggregates over answers skip NULL."""
    if not isinstance(node, exp.Filter):
        return node
    only(node, "this", "expression")
    only(node.expression, "this")
    plain: exp.Expr = node.this.copy()
    argument = plain.this.expressions[0] if isinstance(plain.this, exp.Distinct) else plain.this
    value = exp.Literal.number(1) if isinstance(argument, exp.Star) else argument.copy()
    argument.replace(exp.Case(ifs=[exp.If(this=node.expression.this.copy(), true=value)]))
    return plain


# Over answers


@dataclass(slots=True)
class Windows:
    """The window functions of one SELECT, and the numbers that subqueries ask for; each is computed once."""

    select: exp.Select
    context: Context
    parts: Parts
    made: dict[Window, str] = field(default_factory=dict)
    asked: dict[str, tuple[AnswerTable, Column]] = field(default_factory=dict)
    """By its text, the answer to each subquery that stands for a value."""

    def value(self, node: exp.Subquery) -> Expression:
        """Return the column that a subquery beside answers becomes."""
        text = node.sql()
        if text not in self.asked:
            answers = self.context.subqueries().answer(node, self.context, self.parts)
            unique = answers.names[0][1]
            type_ = next(column.type for column in columns_of(answers.table) if column.name == unique)
            name = self.context.fresh("value")
            table = Computed(source=answers.table, columns=((name, Column(unique, type_)),))
            self.asked[text] = table, Column(name, type_)
        return meaning_by_type(node, self.asked[text][1], self.context.dialect)

    def beside(self, table: AnswerTable) -> AnswerTable:
        """Return a table of answers with the values of all subqueries in every row."""
        for values, _ in self.asked.values():
            table = within_limit(Matched(left=table, right=values, on=(), how="inner"))
        return table

    def column(self, node: exp.Window, convert: Convert) -> Expression:
        """Return the column that a window function becomes."""
        if (sums := rewritten_aggregate(node, spread=True)) is not None:
            return convert(sums)
        if any(inner is not node for inner in node.find_all(exp.Window)):
            raise QuestionError(f"A window function stands inside another: {shown(node)}.", "Use two SELECTs.")
        partition, order, spec = _clauses(node, self.select)
        by = tuple(map(convert, partition))
        kind, argument, number = _called(node.this, convert, _MAX_NUMBER)
        orders = tuple(Ordering(by=convert(ordered.this), **direction(ordered)) for ordered in order)
        if not orders and kind in {"ntile", "row_number", "lag", "lead"}:
            raise QuestionError(f"{shown(node)} needs an order.", "Write OVER (ORDER BY …).")
        if spec is not None and kind in {"lag", "lead", *RANKS}:
            raise QuestionError(f"{shown(node)} takes no frame.", "Leave ROWS or RANGE out.")
        if kind == "count_distinct" and (orders or spec is not None):
            raise QuestionError(
                f"{shown(node)} counts distinct values of a whole partition alone.", "Leave ORDER BY and the frame out."
            )
        frame = None if spec is None else _frame(spec, ordered=bool(orders))
        window = Window(kind=kind, argument=argument, partition=by, order=orders, frame=frame, number=number)
        self.made[window] = name = self.made.get(window) or self.context.fresh("window")
        return meaning_by_type(node, Column(name, window.type), self.context.dialect)


def _called(call: exp.Expr, convert: Convert, furthest: int, hint: str = "") -> tuple[str, Expression | None, int]:
    """Return the name of a window function, its argument, and its number: an offset, or how many tiles."""
    if type(call) in _RANKS:
        only(call)
        return _RANKS[type(call)], None, 1
    if isinstance(call, exp.Ntile):
        only(call, "this")
        return "ntile", None, _whole_number(call.this, "NTILE", 1)
    if type(call) not in _SHIFTS:
        return (*fold(call, convert), 1)
    only(call, "this", "offset")
    name, offset = _SHIFTS[type(call)], call.args.get("offset")
    return name, convert(call.this), _whole_number(offset, name.upper(), 0, furthest, hint) if is_set(offset) else 1


def fold(call: object, convert: Convert) -> tuple[str, Expression | None]:
    """Return an aggregate over answers: its kind and its argument."""
    if isinstance(call, exp.Filter):
        call = unfiltered(call)
    if not isinstance(call, exp.Expr) or type(call) not in _FOLDS:
        raise QuestionError(
            f"{shown(call)} is not available here.",
            "Over answers there are COUNT, SUM, AVG, MIN and MAX; with OVER also RANK, DENSE_RANK, ROW_NUMBER, "
            "PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE and LAST_VALUE.",
        )
    counts = isinstance(call, exp.Count)
    only(call, "this", *(["big_int"] if counts else []))
    if counts and isinstance(call.this, exp.Star):
        return "count", None
    if counts and isinstance(call.this, exp.Distinct):
        only(call.this, "expressions")
        if len(call.this.expressions) != 1:
            raise QuestionError(f"{shown(call)} counts one column over answers.", "Name one.")
        return "count_distinct", convert(call.this.expressions[0])
    argument = convert(call.this)
    if isinstance(call, exp.Sum | exp.Avg) and not argument.type.kind.numeric:
        raise QuestionError(f"{shown(call)} needs numbers; got {argument.type.kind.value}.", "Use COUNT, MIN or MAX.")
    return _FOLDS[type(call)], argument


# Over a unit's own rows

_FURTHEST = 10**4
_WIDEST = 1000
_POSITION = Type(Kind.INTEGER, nullable=False, lower=Fraction(1), step=Fraction(1))


class RowsWithWindows(Rows):
    """Expressions over rows, in which windows may stand."""

    def __init__(self, context: Context, scope: Scope, select: exp.Select) -> None:
        super().__init__(context, scope)
        self.windows: dict[OwnWindow, str] = {}
        self._select = select

    def convert(self, node: object) -> Expression:
        """Return a SQL expression as a tree of ours; a window becomes a column of the relation below."""
        if isinstance(node, exp.Window):
            window = self._window(node)
            self.windows[window] = name = self.windows.get(window) or self.context.fresh("window")
            return meaning_by_type(node, Column(name, window.type), self.context.dialect)
        return super().convert(node)

    def relation(self) -> WithWindows:
        """Return the rows with all windows that were met."""
        self.context.grow()
        windows = tuple((name, window) for window, name in self.windows.items())
        return WithWindows(source=self.scope.relation, windows=windows)

    def _window(self, node: exp.Window) -> OwnWindow:
        partition, order, spec = _clauses(node, self._select)
        plain = Rows(self.context, replace(self.scope, settled=True))
        keys = [key for key in partition if plain.unit(key) is None]
        by = tuple(plain.convert(key) for key in keys)
        linked = any(map(self.context.is_link, by))
        if self.scope.private and len(keys) == len(partition) and not linked:
            raise _of_different_units(node, order, self.context.schema.unit)
        # a unit's rows have one unit, so nothing is ordered by it
        items = [item for item in order if plain.unit(item.this) is None]
        orders = tuple(RowOrder(by=plain.convert(item.this), **direction(item)) for item in items)
        call = unfiltered(node.this)
        name, argument, offset = _called(call, plain.convert, _FURTHEST, "Write LAG(x, 1).")
        if name.upper() not in WindowKind.__members__:
            own = f"Take it in a subquery that groups by {self.context.schema.unit or 'a key'}, and join that."
            raise QuestionError(
                f"{shown(call)} is not available as a window over rows.",
                own
                if name == "count_distinct"
                else "There are ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, COUNT, SUM, AVG, MIN and MAX.",
            )
        if name in {"min", "max"} and argument is not None and not argument.type.kind.ranged:
            raise QuestionError(f"{shown(call)} needs numbers or dates; got {argument.type.kind.value}.")
        kind = WindowKind[name.upper()]
        if type(call) not in _FOLDS and not orders:
            raise QuestionError(f"{shown(node)} needs an order.", "Write OVER (PARTITION BY … ORDER BY …).")
        frame = None if spec is None else _own_frame(spec, call, kind, ordered=bool(orders))
        if argument is None and kind is not WindowKind.COUNT:
            type_ = _POSITION
        elif argument is not None and type(call) in _SHIFTS:
            type_ = argument.type.or_null(named=True)
        else:
            first, last = (None, None) if frame is None else (frame.first, frame.last)
            empty = (first is not None and first > 0) or (last is not None and last < 0)
            type_ = exact_type(ExactKind[name.upper()], argument, empty=empty)
        return OwnWindow(
            kind=kind, argument=argument, partition=by, order=orders, offset=offset, type=type_, frame=frame
        )


def _own_frame(spec: exp.Expr, call: exp.Expr, kind: WindowKind, *, ordered: bool) -> Frame | None:
    """Return the frame of an aggregate over a unit's own rows.

    A frame that leaves rows behind has at most `_WIDEST` rows, because engines may add up every frame anew. So there
    is a bound for the cost of a row.
    """
    frame = _frame(spec, ordered=ordered)
    if kind is WindowKind.FIRST_VALUE and (frame is None or frame.first is None):
        return None  # the first of all rows is in every frame that begins there
    if type(call) not in _FOLDS:
        way = "Without it, it is the first of all rows, which is another question; there is no other way to ask it."
        way = way if kind is WindowKind.FIRST_VALUE else "Leave ROWS or RANGE out."
        raise QuestionError(f"{kind.value.upper()} takes no frame here.", way)
    if frame is None or frame.first is None:
        return frame
    if not ordered:
        raise QuestionError(f"{shown(spec)} needs an order.", "Write OVER (PARTITION BY … ORDER BY …).")
    if frame.last is None:
        raise QuestionError(
            f"{shown(spec)} has no last row.", "Turn the order round, and start at UNBOUNDED PRECEDING."
        )
    if frame.last - frame.first >= _WIDEST:
        raise QuestionError(f"{shown(spec)} has more than {_WIDEST:,} rows.", "Start at UNBOUNDED PRECEDING.")
    return frame


def _of_different_units(node: exp.Window, order: list[exp.Ordered], unit: str | None) -> QuestionError:
    """Return the refusal of a window over rows of different units, with hints for the usual purposes.

    One unit's row could move the rank or sum of every other row.
    """
    call = node.this
    by = shown(order[0].this) if order else "x"
    if isinstance(call, exp.AggFunc) and not isinstance(call, (*_RANKS, *_SHIFTS, exp.Ntile)):
        way = f"Ask for {shown(call)} with GROUP BY, or without; shares, ranks and running sums of answers are free."
    elif isinstance(call, (*_RANKS, exp.Ntile)):
        way = (
            f"For a median or percentile write MEDIAN({by}) or QUANTILE({by}, 0.9), and to compare rows with it write "
            f"the number that was answered: WHERE {by} > 42. Ranks of answers are free."
        )
    else:
        way = "Rows beside each other are known within a unit alone."
    own = f" PARTITION BY {unit} is another question: about each unit's own rows." if unit else ""
    return QuestionError(f"A window over rows of different units cannot be bounded; got {shown(node)}.", way + own)
