"""Neighbouring data sets that mechanisms get wrong: a catalogue made from the schema, then random pairs.

A schema is what is public about the rows: bounds ``(lower, upper)`` or a list of values for rows that are single
numbers or texts, or a mapping from column to these for rows that are mappings. With ``unit`` a neighbour differs in all
rows of one unit, else in one row. Pairs of the catalogue come with the name of what they try.

>>> pair = hostile((0, 10))[0]
>>> pair == NeighbourPair("one row or none, upper end", [10], [])
True
>>> len(hostile({"age": (0, 120), "sex": ["f", "m"]}, unit="who")) > 20
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.core import InvalidValueError, Neighbours
from hush.noise import uniform_integer

Schema = Any
_SIZES = (1, 8, 40)
"""How many rows the bases of the catalogue have."""
_HEAVY = 50
"""How many rows a heavy unit has."""


@dataclass(slots=True)
class NeighbourPair:
    """Two neighbouring data sets, and the fault that they try to show."""

    name: str
    left: Any
    right: Any


def read_pairs(path: str | Path) -> list[NeighbourPair]:
    """Read pairs from a JSON file: a list of ``[rows, rows]``, or of ``{"name": …, "left": rows, "right": rows}``."""
    try:
        listed = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidValueError("rows", got=str(path), allowed="a JSON file of pairs", hint=f"{error}.") from None
    return [as_pair(pair, index) for index, pair in enumerate(listed if isinstance(listed, list) else [listed])]


def as_pair(value: Any, index: int = 0) -> NeighbourPair:
    """Return two data sets as a pair."""
    if isinstance(value, NeighbourPair):
        return value
    if isinstance(value, Mapping) and {"left", "right"} <= value.keys():
        return NeighbourPair(str(value.get("name", f"pair {index + 1}")), value["left"], value["right"])
    if isinstance(value, list | tuple) and len(value) == 2:
        return NeighbourPair(f"pair {index + 1}", value[0], value[1])
    raise InvalidValueError("pairs", got=value, allowed="a list of pairs (rows, rows)")


def hostile(
    schema: Schema, neighbours: str | Neighbours = "add-remove", *, unit: str | None = None, outside: bool = True
) -> list[NeighbourPair]:
    """Return the catalogue of pairs for a schema; ``outside`` adds rows that are not in it: NaN, NULL, outliers."""
    ordinary, low, high = (_row(schema, pick) for pick in (lambda size: size // 2, lambda _: 0, lambda size: size - 1))
    instead = [_owned(ordinary, unit, "new")] if Neighbours.parse(neighbours) is Neighbours.REPLACE else []
    pairs = []

    def differ(name: str, base: list[Any], *more: Any) -> None:
        """Add a pair in which one unit comes with rows, or has them instead of an ordinary one."""
        pairs.append(NeighbourPair(name, [*base, *(_owned(row, unit, "new") for row in more)], [*base, *instead]))

    def base(size: int, row: Any = ordinary, first: int = 0) -> list[Any]:
        return [_owned(row, unit, index) for index in range(first, first + size)]

    for name, row in (("upper end", high), ("lower end", low), ("middle", ordinary)):
        differ(f"one row or none, {name}", [], row)
        for size in _SIZES:
            differ(f"{name} beside {size}", base(size), row)
    differ("upper end beside 8 at the lower", base(8, low), high)
    differ("lower end beside 8 at the upper", base(8, high), low)
    differ("a tie broken", [*base(4, low), *base(4, high, 10)], high)
    differ("first of its kind", base(20, low), high)
    if outside:
        for name, row in _outside(schema, ordinary):
            differ(f"{name} beside 8", base(8), row)
    if unit is not None:
        differ("a heavy unit, upper", base(8), *[high] * _HEAVY)
        differ("a heavy unit, middle", base(8), *[ordinary] * _HEAVY)
        differ("a heavy unit in many groups", base(8), *(_row(schema) for _ in range(_HEAVY)))
    else:
        # The same rows in another order differ in nothing, so they must not be told apart at all.
        mixed = [*base(4, low), *base(4, high)]
        pairs.append(NeighbourPair("row order", mixed, mixed[::-1]))
    # With few values many pairs are the same, or no pair at all.
    different = {repr((pair.left, pair.right)): pair for pair in reversed(pairs) if repr(pair.left) != repr(pair.right)}
    return list(different.values())[::-1]


def _outside(schema: Schema, ordinary: Any) -> list[tuple[str, Any]]:
    """Return rows with a value that the schema does not have, one column at a time."""
    rows: list[tuple[str, Any]] = []
    for column, kind in schema.items() if isinstance(schema, Mapping) else ((None, schema),):
        values: list[tuple[str, Any]] = [("NULL", None)]
        if _is_range(kind):
            lower, upper = kind
            values += [
                ("NaN", math.nan), ("∞", math.inf), ("-∞", -math.inf), ("-0.0", -0.0),
                ("an outlier above", 1000 * (abs(upper) + 1)), ("an outlier below", -1000 * (abs(lower) + 1)),
                ("2^53 + 1", 2**53 + 1), ("2^63 - 1", 2**63 - 1), ("1e308", 1e308), ("5e-324", 5e-324),
            ]  # fmt: skip
        else:
            values += [("a new category", "⟨new⟩"), ("an empty text", "")]
        if column is not None:
            values = [(f"{name} in {column}", {**ordinary, column: value}) for name, value in values]
        rows += values
    return rows


def _row(schema: Schema, pick: Callable[[int], int] = uniform_integer) -> Any:
    """Return a row; ``pick`` says which one of this number of values a column has, by default a random one."""
    if isinstance(schema, Mapping):
        return {column: _value(kind, pick) for column, kind in schema.items()}
    return _value(schema, pick)


def _value(kind: Any, pick: Callable[[int], int]) -> Any:
    if not _is_range(kind):
        if not isinstance(kind, Sequence) or isinstance(kind, str) or not len(kind):
            raise InvalidValueError("schema", got=kind, allowed="bounds (lower, upper) or a list of values")
        return kind[pick(len(kind))]
    lower, upper = kind
    if not lower <= upper:
        raise InvalidValueError("schema", got=kind, allowed="bounds with lower ≤ upper")
    share = pick(1025) / 1024
    offset = share * (upper - lower)
    whole = isinstance(lower, int) and isinstance(upper, int)
    return upper if share == 1 else lower + (round(offset) if whole else offset)


def _is_range(kind: Any) -> bool:
    return isinstance(kind, tuple) and len(kind) == 2 and not isinstance(kind[0], str)


def _owned(row: Any, unit: str | None, name: object) -> Any:
    return {**row, unit: f"unit {name}"} if unit is not None and isinstance(row, Mapping) else row


def random_pair(
    schema: Schema, neighbours: str | Neighbours = "add-remove", *, unit: str | None = None
) -> NeighbourPair:
    """Return a pair of random rows."""
    size = uniform_integer(60)
    base = [_owned(_row(schema), unit, index) for index in range(size)]
    new, old = _owned(_row(schema), unit, "new"), _owned(_row(schema), unit, "new")
    right = [*base, old] if Neighbours.parse(neighbours) is Neighbours.REPLACE else base
    return NeighbourPair(f"random, {size} rows", [*base, new], right)
