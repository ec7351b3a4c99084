"""Windows over a unit's own rows: ``ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day)``, with QUALIFY.

A window that is parted by the unit looks at rows of one unit alone, so it is a fact about that unit, like an aggregate
within it (`hush.query.sql.per_unit`). The engine parts by the unit whatever else the question says. Over public tables
any window will do.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.relations import ExactKind, OwnWindow, RowOrder, WindowKind, WithWindows, exact_type
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.scope import Context, Scope
from hush.query.types import Kind, Type

_RANKS: dict[type[exp.Expr], WindowKind] = {
    exp.RowNumber: WindowKind.ROW_NUMBER,
    exp.Rank: WindowKind.RANK,
    exp.DenseRank: WindowKind.DENSE_RANK,
}
_SHIFTS: dict[type[exp.Expr], WindowKind] = {exp.Lag: WindowKind.LAG, exp.Lead: WindowKind.LEAD}
_AGGREGATES: dict[type[exp.Expr], WindowKind] = {
    exp.Count: WindowKind.COUNT,
    exp.Sum: WindowKind.SUM,
    exp.Avg: WindowKind.AVG,
    exp.Min: WindowKind.MIN,
    exp.Max: WindowKind.MAX,
}
_MOST = 10**4
_PLACE = Type(Kind.INTEGER, nullable=False, lower=Fraction(1), step=Fraction(1))


def has_window(node: exp.Expr) -> bool:
    """Return whether a window function stands anywhere inside."""
    return any(isinstance(part, exp.Window) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


class RowsWithWindows(Rows):
    """Expressions over rows, in which windows may stand."""

    def __init__(self, context: Context, scope: Scope, aliases: dict[str, exp.Expr]) -> None:
        super().__init__(context, scope)
        self.made: dict[OwnWindow, str] = {}
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
        if is_set(node.args.get("spec")) or is_set(node.args.get("alias")):
            raise QuestionError(
                f"Frames and named windows are not supported over rows; got {shown(node)}.",
                "Write OVER (PARTITION BY … ORDER BY …).",
            )
        only(node, "this", "partition_by", "order", "over")
        plain = Rows(self.context, replace(self.scope, settled=True))
        partition = [part for part in node.args.get("partition_by") or () if plain.unit(part) is None]
        by = tuple(plain.convert(part) for part in partition)
        linked = any(isinstance(part, Column) and part.name in self.context.links for part in by)
        if self.scope.private and len(partition) == len(node.args.get("partition_by") or ()) and not linked:
            unit = self.context.schema.unit
            raise QuestionError(
                f"A window over rows of different units cannot be bounded; got {shown(node)}.",
                f"Add the unit: PARTITION BY {unit}, …." if unit else "Here every row is a unit of its own.",
            )
        order = node.args.get("order")
        orders = () if order is None else tuple(_order(item, plain) for item in order.expressions)
        kind, argument, offset = _function(node, plain)
        if kind in {*_RANKS.values(), *_SHIFTS.values()} and not orders:
            raise QuestionError(f"{shown(node)} needs an order.", "Write OVER (PARTITION BY … ORDER BY …).")
        type_ = _type(kind, argument)
        return OwnWindow(kind=kind, argument=argument, partition=by, order=orders, offset=offset, type=type_)


def _order(node: exp.Expr, rows: Rows) -> RowOrder:
    if not isinstance(node, exp.Ordered):
        raise refuse(node)
    only(node, "this", "desc", "nulls_first")
    by = rows.convert(node.this)
    return RowOrder(by=by, descending=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first")))


def _function(node: exp.Window, rows: Rows) -> tuple[WindowKind, Expression | None, int]:
    call = node.this
    if type(call) in _RANKS:
        only(call)
        return _RANKS[type(call)], None, 1
    if type(call) in _SHIFTS:
        only(call, "this", "offset")
        offset = call.args.get("offset")
        if offset is not None and not (isinstance(offset, exp.Literal) and str(offset.this).isdecimal()):
            raise QuestionError(f"{shown(call)} goes a constant number of rows.", "Write LAG(x, 1).")
        number = 1 if offset is None else int(offset.this)
        if number > _MOST:
            raise QuestionError(f"{shown(call)} goes {_MOST:,} rows at most.")
        return _SHIFTS[type(call)], rows.convert(call.this), number
    if type(call) in _AGGREGATES:
        only(call, "this", "big_int")
        kind = _AGGREGATES[type(call)]
        if isinstance(call.this, exp.Star) and kind is WindowKind.COUNT:
            return kind, None, 1
        if isinstance(call.this, exp.Distinct):
            raise refuse(call.this)
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


def _type(kind: WindowKind, argument: Expression | None) -> Type:
    if kind in _RANKS.values():
        return _PLACE
    if kind in _SHIFTS.values() and argument is not None:
        return argument.type.or_null(named=True)
    return exact_type(ExactKind[kind.name], argument)
