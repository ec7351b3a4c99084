"""How much work a statement is: nanoseconds for each stored row, and rather too many.

A node costs what it does itself, and what all nodes in it cost, each as often as it is written there. A query costs
what its clauses cost for each row that they look at, whatever is nested in it. That bounds the time that one unit's
rows can take (`hush.engines.work`), before the charge and without a look at any row.

>>> from hush.engines.sql.nodes import column, quotient
>>> cost(quotient(column("s"), column("n"), wide=True))
3
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hush.engines.sql.dialect import float_digits
from hush.engines.sql.nodes import (
    Alias,
    Between,
    Case,
    Cast,
    Costed,
    Directed,
    DistinctArgument,
    Double,
    From,
    FunctionCall,
    InList,
    IsNull,
    JoinClause,
    Node,
    Operation,
    Prefixed,
    Primitive,
    Select,
    Subquery,
    TableName,
    Union,
    WindowCall,
    WithClause,
    bottom_up,
)

OPERATION = 3
"""Nanoseconds for an operator, a comparison, a branch or a plain function."""
_CALLS = {
    "ln": 25, "exp": 25, "pow": 60, "sqrt": 10, "round": 20, "hash": 20,
    "date_diff": 80, "date_trunc": 80, "year": 30, "quarter": 30, "month": 30, "day": 30, "dayofweek": 30, "hour": 30,
    "week": 60, "dayofyear": 30, "minute": 30, "second": 30, "try_strptime": 800, "strftime": 800,
    "to_months": 60, "to_days": 30, "to_microseconds": 30, "epoch_us": 10,
}  # fmt: skip
_CAST, _LISTED, _LIST, _DISTINCT, _WINDOW = 15, 4, 60, 100, 250
"""Nanoseconds for a cast, a value of a list, a row from a list, a distinct value, and a row of a window."""
_SELECT, _GROUP, _JOIN = 20, 100, 100
"""Nanoseconds for a row of a SELECT, in groups, and in a join."""
_PRIMITIVES = {
    "power": _CALLS["pow"], "rounded": _CALLS["round"], "row_hash": _CALLS["hash"], "unit_number": 3 * OPERATION,
    "row_number": _WINDOW, "apart": _LIST, "date_trunc": _CALLS["date_trunc"], "date_diff": _CALLS["date_diff"],
    "days": _CALLS["date_diff"] + OPERATION, "microseconds": _CALLS["epoch_us"], "formatted": _CALLS["strftime"],
    "struct": 0, "collated": 0, "instant": 0,
}  # fmt: skip
"""Those of primitives that cost more than an operation, or nothing."""
_MOVES = {"months": "to_months", "days": "to_days", "microseconds": "to_microseconds"}


def costs(nodes: Iterable[Node | None]) -> int:
    """Return the sum of the costs of several nodes."""
    return sum(cost(node) for node in nodes if node is not None)


def cost(node: Node) -> int:
    """Return the nanoseconds that a node takes for one row; a source or a query, for one stored row."""
    if "cost" not in node.__dict__:
        # a tree shares its parts, and each is priced once; frozen nodes take no attribute but have a dictionary
        for unpriced in bottom_up(node, lambda candidate: "cost" in candidate.__dict__):
            unpriced.__dict__["cost"] = _cost(unpriced)
    found: int = node.__dict__["cost"]
    return found


def _cost(node: Node) -> int:
    """Return the cost of a node, after those of its parts."""
    match node:
        case FunctionCall():
            return _CALLS.get(node.function, OPERATION) + costs(node.arguments)
        case Primitive():
            return _of_primitive(node) + costs(node.arguments)
        case Cast():
            return (_CAST if node.safe else OPERATION) + cost(node.value)
        case Case():
            branches = sum(cost(condition) + cost(value) + OPERATION for condition, value in node.pairs)
            return branches + costs([node.otherwise])
        case Between():
            return 2 * OPERATION + cost(node.value) + cost(node.low) + cost(node.high)
        case InList():
            return cost(node.value) + _LISTED * len(node.values) + costs(node.values)
        case Operation():
            return OPERATION * (len(node.operands) - 1) + costs(node.operands)
        case Prefixed() | IsNull():
            return OPERATION + cost(node.value)
        case DistinctArgument():
            return _DISTINCT + cost(node.value)
        case Alias() | Directed():
            return cost(node.value)
        case WindowCall():
            return _WINDOW + costs((*node.partition, *node.order, *node.call.arguments))
        case Costed():
            return node.work if node.only else cost(node.value) + node.work
        case Double():
            return OPERATION if "inf" in float_digits(node.value) else 0  # an infinity is a cast
        case Subquery():
            return 0 if node.stored else cost(node.query)
        case Union():
            return costs(node.queries)
        case JoinClause():
            return _JOIN + costs((node.source, node.on))
        case WithClause():
            return cost(node.query)
        case Select():
            ranked = 0 if node.qualify is None else cost(node.qualify[0]) + OPERATION
            clauses = (*node.columns, *node.joins, *node.where, *node.group, *node.order, node.having)
            per_row = _SELECT + (_GROUP if node.group or node.distinct or node.order else 0)
            return rows_of(node) * (per_row + costs(clauses) + ranked) + costs((node.source, *node.before))
        case _:  # constants are made once, not for every row
            return 0


def _of_primitive(node: Primitive) -> int:
    """Return the cost of a primitive without its arguments."""
    options: dict[str, Any] = dict(node.options)
    match node.name:
        case "date_part":
            return _CALLS[options["part"]]
        case "moved":
            return sum(_CALLS[call] + OPERATION for unit, call in _MOVES.items() if options[unit])
        case "scaled":
            return _CALLS["round"] + (0 if options["times"] is None and options["over"] is None else OPERATION)
        case "weighted_down":  # a sum that is rounded down names its count twice
            twice = cost(node.arguments[1]) if options["floor"] else 0
            return (5 if options["floor"] else 3) * OPERATION + twice
        case _:
            return _PRIMITIVES.get(node.name, OPERATION)


def rows_of(source: Select | From | None) -> int:
    """Return how many rows a source makes of a stored row; a query, but for its joins."""
    match source:
        case Select():
            return rows_of(source.source)
        case TableName():
            return source.rows
        case Subquery() if not source.stored:
            return rows_of(source.query)
        case Union():
            return sum(rows_of(query) for query in source.queries)
        case _:
            return 1
