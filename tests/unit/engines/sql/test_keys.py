"""A number's integer on a grid is the same, whether it is carried as an integer of its own grid or read as a float."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import pytest

from hush.engines.sql.forcing import force, force_index
from hush.engines.sql.keys import grid_index, times_finer
from hush.engines.sql.nodes import Scalar, column, read, select
from hush.engines.sql.render import text_of
from hush.engines.sql.values import SqlType, Value
from hush.query.expressions import Column
from hush.query.plan.stability import Factor
from hush.query.types import Kind, Type

_ODD = [None, math.nan, math.inf, -math.inf, -0.0, 0.49999999999999994, 0.005, 0.015, -0.005, 2.675, 1e300, 5e-324]
_TYPES = [
    Type(kind=Kind.DECIMAL, lower=Fraction(lower), upper=Fraction(upper), step=Fraction(step))
    for lower, upper, step in [
        ("0", "5000", "1/100"), ("-3", "7", "1/100"), ("-1", "1", "1/3"), ("0", "21", "7/10"),
        (str(2**30), str(2**30 + 3), "1/100"), ("-1000000", "1000000", "2"),
    ]
]  # fmt: skip


def _values(type_: Type) -> list[float | None]:
    """Return odd numbers, points of the grid, and what lies just beside the middle between two."""
    first = int(type_.lower / type_.step)
    points = [float((first + at) * type_.step) for at in (0, 1, 2, 3, 57, 123, 4567)]
    middles = [float((first + at) * type_.step + type_.step / 2) for at in (0, 1, 2, 57, 4567)]
    around = [math.nextafter(middle, end) for middle in middles for end in (-math.inf, math.inf)]
    return [*_ODD, *points, *middles, *around]


def _integers(values: list[float | None], index: Scalar) -> list[int | None]:
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE "place" (a DOUBLE)')
        connection.executemany('INSERT INTO "place" VALUES (?)', [[value] for value in values])
        return [
            row[0] for row in connection.execute(text_of(select([index.alias("i")], read("place", "s")))).fetchall()
        ]


@pytest.mark.parametrize("type_", _TYPES, ids=lambda type_: f"{type_.lower}..{type_.upper} by {type_.step}")
def test_a_finer_grid_has_the_integers_that_the_floats_would_have(type_: Type) -> None:
    factor = Factor.raw(Column("a", type_), weighted=True)
    carried = force_index(column("a", "s"), "DOUBLE", type_)
    finer = times_finer(carried, type_.step, factor.step)
    by_float = grid_index(force(column("a", "s"), "DOUBLE", type_), factor)
    assert factor.step < type_.step
    assert finer.within == (factor.first, factor.last)
    values = _values(type_)
    assert _integers(values, finer.sql) == _integers(values, by_float)


def test_whole_numbers_are_multiplied_as_such() -> None:
    factor = Factor.raw(Column("a", Type(kind=Kind.INTEGER, lower=Fraction(-5), upper=Fraction(120))), weighted=True)
    whole = Value(column("a", "s").cast("BIGINT"), SqlType.INTEGER, within=(-5, 120))
    index = grid_index(whole, factor)
    assert "DOUBLE" not in text_of(select([index]))
    assert _integers([None, -5, 0, 7, 120], index) == [None, *(value / factor.step for value in (-5, 0, 7, 120))]


@pytest.mark.parametrize(
    ("within", "own", "step"),
    [
        (None, Fraction(1), Fraction(1, 2)),  # nobody knows how large
        ((0, 2**49), Fraction(1), Fraction(1, 2)),  # a float would be rounded
        ((0, 9), Fraction(1), Fraction(2)),  # coarser
        ((0, 9), Fraction(1), Fraction(2, 3)),  # neither
    ],
)
def test_other_grids_go_by_floats(within: tuple[int, int] | None, own: Fraction, step: Fraction) -> None:
    assert times_finer(Value(column("a"), SqlType.INTEGER, within=within), own, step) is None
