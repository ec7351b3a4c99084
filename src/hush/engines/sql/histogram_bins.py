"""In which bin of a histogram a row falls.

The bins of a line are numbered by arithmetic (`hush.engines.sql.grid`), and so are listed values that are consecutive
points of a grid, where that finds just the rows whose value is one of them (`place`). A handful of other values is
compared one by one. More of them are looked up in a table of the engine: a statement with a branch for each would take
a time that grows faster than their number, and from some ten thousand on be too long.
"""

from __future__ import annotations

from fractions import Fraction

from hush.engines.sql.build import Sql, binary, case, integer, null
from hush.engines.sql.grid import grid_index
from hush.engines.sql.keys import Axis, Lists, key_value, listed, place
from hush.engines.sql.rows import AnyRows, looked_up
from hush.engines.sql.values import Form
from hush.query.plan.choices import Histogram, LineHistogram

_HANDFUL = 8


def binned(rows: AnyRows, histogram: Histogram, lists: Lists) -> tuple[AnyRows, Sql]:
    """Return the rows, perhaps with a further column, and the number of the bin that each falls into; NULL for none."""
    if isinstance(histogram, LineHistogram):
        index = grid_index(rows.known[histogram.factor.expression], histogram.factor)
        offset = binary("-", index, integer(histogram.factor.first))
        return rows, binary("//", offset, integer(histogram.cell)) if histogram.cell > 1 else offset
    type_ = histogram.expression.type
    value = key_value(rows.known[histogram.expression], type_)
    axis = Axis(histogram.values, type_)
    on_grid = place(value, axis)
    if on_grid is not None:
        return rows, on_grid
    if len(histogram.values) > _HANDFUL:
        return looked_up(rows, value, lists(axis, value.form, "m"))
    pairs = [
        (binary("=", value.sql, listed(item, type_, value)), integer(at))
        for at, item in enumerate(histogram.values)
        if value.form is not Form.INTEGER or not isinstance(item, Fraction) or item.denominator == 1
    ]
    return rows, case(*pairs) if pairs else null("INTEGER")
