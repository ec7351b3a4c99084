"""Neighbouring data sets that mechanisms get wrong: a catalogue made from the schema, then a search from the best.

A schema is what is public about the rows: bounds ``(lower, upper)`` or a list of values for rows that are single
numbers or texts, or a mapping from column to these for rows that are mappings. With ``unit`` a neighbour differs in all
rows of one unit, else in one row. Pairs of the catalogue come with the name of what they try.

>>> pair = hostile((0, 10))[0]
>>> pair.name, pair.left, pair.right
('one row or none, upper end', [10], [])
>>> len(hostile({"age": (0, 120), "sex": ["f", "m"]}, unit="who")) > 20
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.core import InvalidValueError, Neighbours
from hush.noise import permutation, uniform_integer

Schema = Any
_SIZES = (1, 8, 40)
"""How many rows the bases of the catalogue have."""
_HEAVY = 50
"""How many rows a heavy unit has."""


@dataclass(slots=True)
class NeighbourPair:
    """Two neighbouring data sets, and the fault that they try to show.

    >>> NeighbourPair("a new row", [1, 2], [1]).left
    [1, 2]
    """

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
    schema: Schema,
    neighbours: str | Neighbours = "add-remove",
    *,
    unit: str | None = None,
    outside: bool = True,
) -> list[NeighbourPair]:
    """Return the catalogue of pairs for a schema; ``outside`` adds rows that are not in it: NaN, NULL, outliers."""
    replace = Neighbours.parse(neighbours) is Neighbours.REPLACE
    ordinary = _row(schema, middle=True)
    low, high = _row(schema, last=False), _row(schema, last=True)
    pairs = []

    def differ(name: str, base: list[Any], more: Any) -> None:
        """Add a pair in which one unit comes with a row, or has it instead of an ordinary one."""
        rows = more if isinstance(more, list) else [more]
        instead = [ordinary] if replace else []
        own = [_owned(row, unit, "new") for row in rows]
        pairs.append(NeighbourPair(name, [*base, *own], [*base, *(_owned(row, unit, "new") for row in instead)]))

    def base(size: int, row: Any = None) -> list[Any]:
        return [_owned(ordinary if row is None else row, unit, index) for index in range(size)]

    for name, row in (("upper end", high), ("lower end", low), ("middle", ordinary)):
        differ(f"one row or none, {name}", [], row)
        for size in _SIZES:
            differ(f"{name} beside {size}", base(size), row)
    differ("upper end beside 8 at the lower", base(8, low), high)
    differ("lower end beside 8 at the upper", base(8, high), low)
    differ("a tie broken", [*base(4, low), *(_owned(high, unit, index) for index in range(10, 14))], high)
    rare = [_owned(row, unit, index) for index, row in enumerate([low] * 20)]
    differ("first of its kind", rare, high)
    if outside:
        for name, row in _outside(schema, ordinary):
            differ(f"{name} beside 8", base(8), row)
    if unit is not None:
        for name, row in (("upper", high), ("middle", ordinary)):
            differ(f"a heavy unit, {name}", base(8), [row] * _HEAVY)
        spread = [_row(schema, last=None) for _ in range(_HEAVY)]
        differ("a heavy unit in many groups", base(8), spread)
    else:
        # The same rows in another order differ in nothing, so they must not be told apart at all.
        mixed = [*base(4, low), *base(4, high)]
        pairs.append(NeighbourPair("row order", mixed, mixed[::-1]))
    # With few values many pairs are the same, or no pair at all.
    different = {repr((pair.left, pair.right)): pair for pair in reversed(pairs) if repr(pair.left) != repr(pair.right)}
    return list(different.values())[::-1]


def _outside(schema: Schema, ordinary: Any) -> list[tuple[str, Any]]:
    """Return rows with a value that the schema does not have, one column at a time."""
    columns: list[str | None] = list(schema) if isinstance(schema, Mapping) else [None]
    rows = []
    for column in columns:
        kind = schema[column] if isinstance(schema, Mapping) else schema
        values: list[tuple[str, Any]] = [("NULL", None)]
        if _bounds(kind) is None:
            values += [("a new category", "⟨new⟩"), ("an empty text", "")]
        else:
            lower, upper = kind
            values += [
                ("NaN", math.nan), ("∞", math.inf), ("-∞", -math.inf), ("-0.0", -0.0),
                ("an outlier above", 1000 * (abs(upper) + 1)), ("an outlier below", -1000 * (abs(lower) + 1)),
                ("2^53 + 1", 2**53 + 1), ("2^63 - 1", 2**63 - 1), ("1e308", 1e308), ("5e-324", 5e-324),
            ]  # fmt: skip
        for name, value in values:
            rows.append((name if column is None else f"{name} in {column}", _with(ordinary, column, value)))
    return rows


def _bounds(kind: Any) -> tuple[float, float] | None:
    return kind if isinstance(kind, tuple) and len(kind) == 2 and not isinstance(kind[0], str) else None


def _value(kind: Any, *, middle: bool, last: bool | None) -> Any:
    """Return the middle, an end, or (``last`` is None) a random value of a column."""
    bounds = _bounds(kind)
    if bounds is None:
        if not isinstance(kind, Sequence) or isinstance(kind, str) or not len(kind):
            raise InvalidValueError("schema", got=kind, allowed="bounds (lower, upper) or a list of values")
        index = len(kind) // 2 if middle else uniform_integer(len(kind)) if last is None else -1 if last else 0
        return kind[index]
    lower, upper = bounds
    if not lower <= upper:
        raise InvalidValueError("schema", got=kind, allowed="bounds with lower ≤ upper")
    whole = isinstance(lower, int) and isinstance(upper, int)
    if middle:
        return (lower + upper) // 2 if whole else (lower + upper) / 2
    if last is None:
        share = uniform_integer(1025) / 1024
        return lower + (round(share * (upper - lower)) if whole else share * (upper - lower))
    return upper if last else lower


def _row(schema: Schema, *, middle: bool = False, last: bool | None = None) -> Any:
    if isinstance(schema, Mapping):
        return {column: _value(kind, middle=middle, last=last) for column, kind in schema.items()}
    return _value(schema, middle=middle, last=last)


def _with(row: Any, column: str | None, value: Any) -> Any:
    return value if column is None else {**row, column: value}


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


def nearby_pair(pair: NeighbourPair, schema: Schema, *, unit: str | None = None) -> NeighbourPair:
    """Return a pair that differs from this one in one coordinate of a shared row, or in the number of shared rows."""
    left, right = list(pair.left), list(pair.right)
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] is right[shared]:
        shared += 1
    change = uniform_integer(3)
    if shared and change == 0:  # another value in one of the shared rows
        index = uniform_integer(shared)
        fresh, row = _row(schema), left[index]
        if isinstance(row, Mapping):
            column = list(fresh)[uniform_integer(len(fresh))]
            fresh = {**row, column: fresh[column]}
        left[index] = right[index] = fresh
    elif shared and change == 1:  # half of the shared rows
        kept = permutation(shared)[: shared // 2]
        common = [left[int(index)] for index in kept]
        left, right = common + left[shared:], common + right[shared:]
    else:  # more shared rows
        common = [_owned(_row(schema), unit, f"more {index}") for index in range(1 + shared)]
        left, right = common + left, common + right
    name = pair.name if pair.name.startswith("near ") else f"near {pair.name}"
    return NeighbourPair(name, left, right)
