"""Window functions: over answers, and over a unit's own rows.

**Over answers**, ``SUM(n) OVER (PARTITION BY region ORDER BY month)`` compares released numbers with each other, so it
costs nothing.

**Over rows**, ``ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day)`` is parted by the unit: it looks at rows of
one unit alone, so it is a fact about that unit, like an aggregate within it (`hush.query.sql.per_unit`). The engine
parts by the unit whatever else the question says. Over public tables any window will do. Other windows over rows would
compare different units, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.composed import Window
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.question import Ordering
from hush.query.relations import ExactKind, Frame, OwnWindow, RowOrder, WindowKind, WithWindows, exact_type
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.scope import Context, Scope
from hush.query.types import Kind, Type

Convert = Callable[[object], Expression]
_RANKS: dict[type[exp.Expr], str] = {
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.RowNumber: "row_number",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_SHIFTS: dict[type[exp.Expr], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
}
FOLDED: dict[type[exp.Expr], str] = {exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_MOST = 10**6


class Windows:
    """The window functions of one SELECT; one that is written twice is computed once."""

    def __init__(self, select: exp.Select, context: Context) -> None:
        self.made: dict[Window, str] = {}
        self._context = context
        self._named = named_windows(select)
        self._inside = False

    def column(self, node: exp.Window, convert: Convert) -> Column:
        """Return the column that a window function becomes."""
        if self._inside:
            raise QuestionError(f"A window function stands inside another: {shown(node)}.", "Use two SELECTs.")
        self._inside = True
        try:
            window = self._window(node, convert)
        finally:
            self._inside = False
        name = self.made.get(window) or self._context.fresh("window")
        self.made[window] = name
        return Column(name, window.type)

    def _window(self, node: exp.Window, convert: Convert) -> Window:
        only(node, "this", "partition_by", "order", "spec", "alias", "over")
        partition, order, spec = _clauses(node, self._named)
        by = tuple(convert(part) for part in partition)
        kind, argument, number = _function(node, convert)
        orderings = tuple(_ordering(item, convert) for item in order)
        if kind in {*_RANKS.values(), "ntile", "lag", "lead"}:
            if not orderings and kind in {"ntile", "row_number", "lag", "lead"}:
                raise QuestionError(f"{shown(node)} needs an order.", "Write OVER (ORDER BY …).")
            if spec is not None and kind in {"lag", "lead", *_RANKS.values(), "ntile"}:
                raise QuestionError(f"{shown(node)} takes no frame.", "Leave ROWS or RANGE out.")
        frame = None if spec is None else _frame(spec, ordered=bool(orderings))
        return Window(kind=kind, argument=argument, partition=by, order=orderings, frame=frame, number=number)


def named_windows(select: exp.Select) -> dict[str, exp.Window]:
    """Return the windows that ``WINDOW w AS (…)`` names."""
    found: dict[str, exp.Window] = {}
    for node in select.args.get("windows") or ():
        if not isinstance(node, exp.Window):
            raise refuse(node)
        found[identifier(node.this).casefold()] = node
    return found


def _clauses(
    node: exp.Window, windows: Mapping[str, exp.Window]
) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None]:
    """Return PARTITION BY, ORDER BY and the frame; what a named window says comes first."""
    partition = list(node.args.get("partition_by") or ())
    order, spec = node.args.get("order"), node.args.get("spec")
    if is_set(node.args.get("alias")):
        name = identifier(node.args["alias"])
        named = windows.get(name.casefold())
        if named is None:
            raise QuestionError(f"There is no window '{name}'.", "Name it: WINDOW w AS (ORDER BY …).")
        only(named, "this", "partition_by", "order", "spec")
        if partition or (order is not None and named.args.get("order") is not None):
            raise QuestionError(f"{shown(node)} says again what the window '{name}' says.", "Write one of them.")
        partition = list(named.args.get("partition_by") or ())
        order, spec = order or named.args.get("order"), spec or named.args.get("spec")
    if order is not None:
        only(order, "expressions")
    return partition, [] if order is None else order.expressions, spec


def _ordering(node: exp.Expr, convert: Convert) -> Ordering:
    if not isinstance(node, exp.Ordered):
        raise refuse(node)
    only(node, "this", "desc", "nulls_first")
    descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    return Ordering(by=convert(node.this), descending=descending, nulls_first=first)


def _function(node: exp.Window, convert: Convert) -> tuple[str, Expression | None, int]:
    """Return the kind of a window function, its argument and its number."""
    call = node.this
    kind = type(call)
    if kind in _RANKS:
        only(call)
        return _RANKS[kind], None, 1
    if kind is exp.Ntile:
        only(call, "this")
        return "ntile", None, _whole(call.this, "NTILE", 1)
    if kind in _SHIFTS:
        only(call, "this", "offset")
        number = _whole(call.args["offset"], _SHIFTS[kind].upper(), 0) if is_set(call.args.get("offset")) else 1
        return _SHIFTS[kind], convert(call.this), number
    return (*fold(call, convert), 1)


def fold(call: object, convert: Convert) -> tuple[str, Expression | None]:
    """Return an aggregate over answers: its kind and its argument."""
    if isinstance(call, exp.Count):
        only(call, "this", "big_int")
        if isinstance(call.this, exp.Star):
            return "count", None
        if isinstance(call.this, exp.Distinct):
            only(call.this, "expressions")
            if len(call.this.expressions) != 1:
                raise QuestionError(f"{shown(call)} counts one column over answers.", "Name one.")
            return "count_distinct", convert(call.this.expressions[0])
        return "count", convert(call.this)
    if type(call) in FOLDED:
        assert isinstance(call, exp.Expr)  # noqa: S101 - the table holds such alone
        only(call, "this")
        found = convert(call.this)
        if type(call) in {exp.Sum, exp.Avg} and not found.type.kind.numeric:
            raise QuestionError(f"{shown(call)} needs numbers; got {found.type.kind.value}.", "Use COUNT, MIN or MAX.")
        return FOLDED[type(call)], found
    raise QuestionError(
        f"{shown(call)} is not available over answers.",
        "There are COUNT, SUM, AVG, MIN and MAX, and with OVER also RANK, DENSE_RANK, ROW_NUMBER, PERCENT_RANK, "
        "CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE and LAST_VALUE.",
    )


def _whole(node: object, what: str, least: int) -> int:
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        number = int(str(node.this)[:20])
        if least <= number <= _MOST:
            return number
    raise QuestionError(f"{what} needs a whole number from {least} to {_MOST:,}; got {shown(node)}.")


def _frame(spec: exp.Expr, *, ordered: bool) -> Frame | None:
    """Return ROWS BETWEEN …; None where RANGE says what SQL takes anyway."""
    only(spec, "kind", "start", "start_side", "end", "end_side")
    parts: Mapping[str, object] = spec.args
    first, last = _end(parts, "start"), _end(parts, "end")
    if not is_set(parts.get("end")):
        last = 0
    if parts.get("kind") == "ROWS":
        if first is not None and last is not None and first > last:
            raise QuestionError(f"{shown(spec)} starts after its end.")
        return Frame(first=first, last=last)
    if parts.get("kind") == "RANGE" and first is None and last == 0:
        return None
    if parts.get("kind") == "RANGE" and first is None and last is None:
        return Frame(first=None, last=None) if ordered else None
    raise QuestionError(f"{shown(spec)} is not supported.", "Write ROWS BETWEEN 6 PRECEDING AND CURRENT ROW.")


def _end(parts: Mapping[str, object], name: str) -> int | None:
    """Return how many rows after the current one a frame starts or ends; None where it has no such end."""
    value, side = parts.get(name), parts.get(f"{name}_side")
    if value == "UNBOUNDED":
        if (side == "PRECEDING") is not (name == "start"):
            raise QuestionError("A frame starts at UNBOUNDED PRECEDING or ends at UNBOUNDED FOLLOWING.")
        return None
    if value in {"CURRENT ROW", None}:
        return 0
    if isinstance(value, exp.Interval):
        raise QuestionError(
            "Frames of time are not supported.", "Count rows: ROWS BETWEEN 6 PRECEDING AND CURRENT ROW."
        )
    number = _whole(value, "A frame", 0)
    return -number if side == "PRECEDING" else number


_OWN_RANKS: dict[type[exp.Expr], WindowKind] = {
    exp.RowNumber: WindowKind.ROW_NUMBER,
    exp.Rank: WindowKind.RANK,
    exp.DenseRank: WindowKind.DENSE_RANK,
}
_OWN_SHIFTS: dict[type[exp.Expr], WindowKind] = {exp.Lag: WindowKind.LAG, exp.Lead: WindowKind.LEAD}
_OWN_FOLDS: dict[type[exp.Expr], WindowKind] = {
    exp.Count: WindowKind.COUNT,
    exp.Sum: WindowKind.SUM,
    exp.Avg: WindowKind.AVG,
    exp.Min: WindowKind.MIN,
    exp.Max: WindowKind.MAX,
}
_FURTHEST = 10**4
_WIDEST = 1000
_PLACE = Type(Kind.INTEGER, nullable=False, lower=Fraction(1), step=Fraction(1))


def has_window(node: exp.Expr) -> bool:
    """Return whether a window function stands anywhere inside."""
    return any(isinstance(part, exp.Window) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


class RowsWithWindows(Rows):
    """Expressions over rows, in which windows may stand."""

    def __init__(
        self, context: Context, scope: Scope, aliases: dict[str, exp.Expr], named: Mapping[str, exp.Window]
    ) -> None:
        super().__init__(context, scope)
        self.made: dict[OwnWindow, str] = {}
        self._named = named
        self.aliases = aliases
        self.names_results = False
        """Whether results can be named, as in QUALIFY."""

    def convert(self, node: object) -> Expression:
        """Return our expression; a window becomes a column."""
        if isinstance(node, exp.Window):
            window = self._window(node)
            name = self.made.get(window) or self.context.fresh("window")
            self.made[window] = name
            return Column(name, window.type)
        return super().convert(node)

    def column(self, node: exp.Column) -> Expression:
        """Return a column of the rows, or in QUALIFY a result."""
        name = identifier(node.this).casefold() if isinstance(node.this, exp.Identifier) else ""
        plain = not is_set(node.args.get("table")) and self.scope.find(name) is None
        if self.names_results and plain and name in self.aliases:
            return self.convert(self.aliases[name])
        return super().column(node)

    def assuming(self, _condition: Expression, *, outcome: bool = True) -> Rows:  # noqa: ARG002
        """Return the same: what a condition says is not carried into its branches here."""
        return self

    def over(self) -> Scope:
        """Return the rows with all windows that were met."""
        self.context.grow()
        windows = tuple((name, window) for window, name in self.made.items())
        return self.scope.over(WithWindows(source=self.scope.relation, windows=windows))

    def _window(self, node: exp.Window) -> OwnWindow:
        only(node, "this", "partition_by", "order", "spec", "alias", "over")
        parted, ordered, spec = _clauses(node, self._named)
        plain = Rows(self.context, replace(self.scope, settled=True))
        partition = [part for part in parted if plain.unit(part) is None]
        by = tuple(plain.convert(part) for part in partition)
        linked = any(isinstance(part, Column) and part.name in self.context.links for part in by)
        if self.scope.private and len(partition) == len(parted) and not linked:
            unit = self.context.schema.unit
            raise QuestionError(
                f"A window over rows of different units cannot be bounded; got {shown(node)}.",
                f"Add the unit: PARTITION BY {unit}, …." if unit else "Here every row is a unit of its own.",
            )
        orders = tuple(_order(item, plain) for item in ordered)
        kind, argument, offset = _own_function(node, plain)
        if kind in {*_OWN_RANKS.values(), *_OWN_SHIFTS.values()} and not orders:
            raise QuestionError(f"{shown(node)} needs an order.", "Write OVER (PARTITION BY … ORDER BY …).")
        frame = None if spec is None else _own_frame(spec, kind, ordered=bool(orders))
        type_ = _type(kind, argument, frame)
        return OwnWindow(
            kind=kind, argument=argument, partition=by, order=orders, offset=offset, type=type_, frame=frame
        )


def _own_frame(spec: exp.Expr, kind: WindowKind, *, ordered: bool) -> Frame | None:
    """Return the frame of an aggregate over a unit's own rows.

    A frame that leaves rows behind has at most `_WIDEST` rows, because engines may add up every frame anew. So what a
    row costs has a bound.
    """
    if kind in {*_OWN_RANKS.values(), *_OWN_SHIFTS.values()}:
        raise QuestionError(f"{kind.value.upper()} takes no frame.", "Leave ROWS or RANGE out.")
    frame = _frame(spec, ordered=ordered)
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


def _order(node: exp.Expr, rows: Rows) -> RowOrder:
    if not isinstance(node, exp.Ordered):
        raise refuse(node)
    only(node, "this", "desc", "nulls_first")
    by = rows.convert(node.this)
    return RowOrder(by=by, descending=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first")))


def _own_function(node: exp.Window, rows: Rows) -> tuple[WindowKind, Expression | None, int]:
    call = node.this
    if type(call) in _OWN_RANKS:
        only(call)
        return _OWN_RANKS[type(call)], None, 1
    if type(call) in _OWN_SHIFTS:
        only(call, "this", "offset")
        offset = call.args.get("offset")
        if offset is not None and not (isinstance(offset, exp.Literal) and str(offset.this).isdecimal()):
            raise QuestionError(f"{shown(call)} goes a constant number of rows.", "Write LAG(x, 1).")
        number = 1 if offset is None else int(offset.this)
        if number > _FURTHEST:
            raise QuestionError(f"{shown(call)} goes {_FURTHEST:,} rows at most.")
        return _OWN_SHIFTS[type(call)], rows.convert(call.this), number
    if type(call) in _OWN_FOLDS:
        only(call, "this", "big_int")
        kind = _OWN_FOLDS[type(call)]
        if isinstance(call.this, exp.Star) and kind is WindowKind.COUNT:
            return kind, None, 1
        if isinstance(call.this, exp.Distinct):
            raise QuestionError(
                f"{shown(call)} is not available as a window over rows.",
                f"Take it in a subquery that groups by {rows.context.schema.unit or 'a key'}, and join that.",
            )
        argument = rows.convert(call.this)
        if kind in {WindowKind.SUM, WindowKind.AVG} and not argument.type.kind.numeric:
            raise QuestionError(f"{shown(call)} needs numbers; got {argument.type.kind.value}.")
        if kind in {WindowKind.MIN, WindowKind.MAX} and not argument.type.kind.ranged:
            raise QuestionError(f"{shown(call)} needs numbers or dates; got {argument.type.kind.value}.")
        return kind, argument, 1
    raise QuestionError(
        f"{shown(call)} is not available as a window over rows.",
        "There are ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, COUNT, SUM, AVG, MIN and MAX.",
    )


def _type(kind: WindowKind, argument: Expression | None, frame: Frame | None) -> Type:
    if kind in _OWN_RANKS.values():
        return _PLACE
    if kind in _OWN_SHIFTS.values() and argument is not None:
        return argument.type.or_null(named=True)
    first, last = (None, None) if frame is None else (frame.first, frame.last)
    empty = (first is not None and first > 0) or (last is not None and last < 0)
    return exact_type(ExactKind[kind.name], argument, empty=empty)
