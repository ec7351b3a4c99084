"""The statements beside the main one: counts of distinct values, and histograms for what is picked.

They run over the same bounded rows, but each reads no more of them than it needs. Where keys are private, they run once
keys are chosen, over rows whose keys are the numbers of chosen ones.

**Histograms that are fine where it matters.** Bins near a pick's target are counted cell by cell, the others as a
whole. What is near, and why the rest need not be known more exactly, is in `hush.mechanisms.grouped.quantile`. A first
pass counts the bins of every group and ranks them; the second joins the bins found near with the rows, and counts
again. Both are one statement, so they see the same rows.

**In which bin a row falls** (`binned`). The bins of a line are numbered by arithmetic (`hush.engines.sql.grid`), and so
are listed values that are consecutive points of a grid, where that finds just the rows whose value is one of them
(`place`). A handful of other values is compared one by one. More of them are looked up in a table of the engine: a
statement with a branch for each would take a time that grows faster than their number, and from some ten thousand on
be too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hush.engines.sql.build import (
    Named,
    Sql,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    count,
    distinct,
    integer,
    matches,
    not_null,
    null,
    row_hash,
    summed,
    total,
    wide_quotient,
    window,
)
from hush.engines.sql.grid import grid_index
from hush.engines.sql.keys import Axis, Lists, key_value, listed, numbered_by_choice, place
from hush.engines.sql.queries import Query, grouped, joined, read, select, subquery, where, with_before
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.rows import MANY, AnyRows, Fresh, Reads, Rows, condition_in, looked_up, together
from hush.engines.sql.values import Form
from hush.mechanisms.grouped import GroupedQuantile
from hush.query.plan.choices import Choice, Histogram, LineHistogram, Pick
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction
from hush.query.plan.statistics import Distinct, DistinctCount, DistinctTotal

_LARGEST = 2**62
_FAR = 2**120


def _place(item: Distinct) -> list[Named]:
    """Return the integer of a value, if it is summed: rows with one value have one integer, so any will do."""
    return [alias(call("min", column("i", "t")), "i")] if isinstance(item, DistinctTotal) else []


class OtherWriter:
    """Writes one of the other statements of an extraction, for what reads ``reads``."""

    def __init__(self, extraction: Extraction, rows: Rows, reads: Reads, lists: Lists) -> None:
        self._extraction = extraction
        self._rows = rows.reading(reads)
        self._lists = lists
        self._alone = extraction.limits.units is Units.ALONE
        self._numbered = extraction.count_units

    def _only(self, rows: Query) -> Query:
        """Return the rows, bounded before, of groups that were chosen."""
        return numbered_by_choice(rows, self._rows.private_keys) if self._numbered else rows

    @property
    def _labels(self) -> list[str]:
        return ["k"] if self._numbered else self._rows.keys

    @property
    def _keys(self) -> list[Sql]:
        return [column(label, "t") for label in self._labels]

    def _by(self) -> list[Sql]:
        return [column(UNIT, "t"), *self._keys]

    def distinct(self, item: Distinct) -> Query:
        """Return the statement for one count or sum of distinct values: the key columns and ``s``."""
        value = key_value(self._rows.known[item.expression], item.expression.type)
        test = condition_in(self._rows, item.population)
        cell = value.sql if test is None else case((test, value.sql))
        cells = [alias(cell, "v")]
        if isinstance(item, DistinctTotal):
            cells.append(alias(grid_index(self._rows.known[item.expression], item.factor), "i"))
        kept = self._only(self._rows.kept(cells))
        if self._alone:
            return self._over_values(item, where(select([], kept), not_null(column("v", "t"))))
        by = self._by()
        seen = where(select([*by, column("v", "t"), *_place(item)], kept), not_null(column("v", "t")))
        seen = grouped(seen, [*by, column("v", "t")])
        mixed = row_hash([column(UNIT, "t"), column("v", "t")], self._rows.salt + 1)
        order = [column("v", "t")] if self._extraction.limits.units is Units.NUMBERED else [mixed, column("v", "t")]
        rank = window("row_number", by, order)
        carried = [column("i", "t")] if isinstance(item, DistinctTotal) else []
        ranked = select([*self._keys, column("v", "t"), *carried, alias(rank, "rank")], seen)
        few = binary("<=", column("rank", "t"), integer(self._extraction.limits.rows))
        return self._over_values(item, where(select([], ranked), few))

    def _over_values(self, item: Distinct, rows: Query) -> Query:
        """Return the number or the sum of the values v that occur in a group's rows."""
        if isinstance(item, DistinctCount):
            counted = alias(call("count", distinct(column("v", "t"))), "s")
            return grouped(rows.showing([*self._keys, counted]), self._keys)
        once = grouped(rows.showing([*self._keys, column("v", "t"), *_place(item)]), [*self._keys, column("v", "t")])
        value = binary("-", column("i", "t"), integer(item.factor.centre)) if item.factor.centre else column("i", "t")
        return grouped(select([*self._keys, alias(total(value), "s")], once), self._keys)

    def histogram(self, pick: Pick) -> Query:
        """Return the statement for a histogram: the key columns, ``bin`` and ``w``, an exact weight below 2⁶².

        A refined one has ``cells`` between them, how many cells the bin has: bins near the target are counted cell by
        cell, and the others (`hush.mechanisms.grouped.quantile`) as a whole. ``bin`` is the number of the first cell.
        """
        weighed, histogram = self._weighed(pick.choice), pick.choice.histogram
        by = [*self._keys, column("bin", "t")]
        if isinstance(histogram, LineHistogram) and histogram.refined:
            weighed = refined(weighed, self._labels, pick, histogram.width // histogram.cell, keep=not self._alone)
            by.append(column("cells", "t"))
        # clamped at a public 2⁶² so that 64 bits hold it; a clamp never increases a sensitivity
        weight = alias(cast(call("least", summed(column("w", "t"), wide=True), integer(_LARGEST)), "BIGINT"), "w")
        return grouped(select([*by, weight], weighed), by)

    def _weighed(self, choice: Choice) -> Query:
        """Return the key columns, ``bin`` and ``w``, whose sum over a bin is its weight."""
        rows, number = binned(self._rows, choice.histogram, self._lists)
        test = condition_in(rows, choice.histogram.population)
        cell = alias(number if test is None else case((test, number)), "bin")
        if isinstance(rows, Fresh):
            return (self._rows_in_bins if self._alone else self._pairs_in_bins)(choice, rows, cell)
        most = self._extraction.limits.rows
        light = self._rows_in_bins(choice, rows.part(most=most), cell)
        return together(light, self._pairs_in_bins(choice, rows.part(above=most), cell))

    def _rows_in_bins(self, choice: Choice, rows: Rows, cell: Named) -> Query:
        """Return the weight of each bin over rows none of which is weighted down."""
        source = self._only(rows.plain([cell]) if isinstance(rows, Fresh) else rows.kept([cell]))
        by = [*self._keys, column("bin", "t")]
        full = choice.weight(self._extraction.limits)
        weight = binary("*", cast(count(), "HUGEINT"), integer(full)) if full > 1 else cast(count(), "HUGEINT")
        query = where(select([*by, alias(weight, "w")], source), not_null(column("bin", "t")))
        return grouped(query, by)

    def _pairs_in_bins(self, choice: Choice, rows: Rows, cell: Named) -> Query:
        """Return the weight of each row in its bin, weighted down to the bound over its pair (unit, group)."""
        limits, many = self._extraction.limits, column(MANY, "t")
        kept = self._only(rows.kept([cell], counted="bin"))
        full = choice.weight(limits)
        weight = case(
            (binary("<=", many, integer(limits.rows)), integer(full)),
            otherwise=binary("//", integer(full * limits.rows), many),
        )
        query = select([*self._keys, column("bin", "t"), alias(weight, "w")], kept)
        return where(query, not_null(column("bin", "t")))


def refined(weighed: Query, keys: Sequence[str], pick: Pick, many: int, *, keep: bool) -> Query:
    """Return the key columns, ``bin``, ``cells`` and ``w`` from key columns, ``bin`` (a cell's number) and ``w``.

    A bin has ``many`` cells; in the result ``bin`` is the first of its ``cells`` cells. ``keep`` the weighed rows
    between the passes where they cost more to compute than to store.
    """
    rows = read("weighed", "t") if keep else weighed
    whole_bin: Sql = binary("//", column("bin", "t"), integer(many))
    coarse = select([*_columns(keys), alias(whole_bin, "bin"), alias(summed(column("w", "t"), wide=True), "w")], rows)
    coarse = grouped(coarse, [*_columns(keys), whole_bin])
    upto = window("sum", _columns(keys), [column("bin", "t")], column("w", "t"))
    whole = window("sum", _columns(keys), (), column("w", "t"))
    ranked = select(
        [*_columns(keys), column("bin", "t"), column("w", "t"), alias(upto, "upto"), alias(whole, "whole")], coarse
    )
    near = where(select([*_columns(keys), column("bin", "t")], ranked), _near(pick))
    same = [matches(column(label, "t"), column(label, "near"), "BIGINT") for label in keys]
    same.append(binary("=", whole_bin, column("bin", "near")))
    found = not_null(column("bin", "near"))
    first = binary("*", whole_bin, integer(many))
    query = select(
        [
            *_columns(keys),
            alias(case((found, column("bin", "t")), otherwise=first), "bin"),
            alias(case((found, integer(1)), otherwise=integer(many)), "cells"),
            column("w", "t"),
        ],
        rows,
    )
    query = joined(query, subquery(near, "near"), "left", both(same))
    return with_before(query, "weighed", weighed) if keep else query


def _columns(keys: Sequence[str]) -> list[Sql]:
    return [column(label, "t") for label in keys]


def _near(pick: Pick) -> Sql:
    """Return whether a bin of weight ``w``, ``upto`` with all before it and ``whole`` in its group, may matter.

    It does if it comes within the pick's reach h of the target t: b·L < t + h and b·U > t - h. All weights together are
    below 2¹⁰², b below 2¹⁴: 128 bits hold the products, and a larger h still lets in everything.
    """
    assert isinstance(pick.mechanism, GroupedQuantile)  # noqa: S101 - only lines are refined
    aims = pick.mechanism.aims
    whole, upto, weight = (cast(column(label, "t"), "HUGEINT") for label in ("whole", "upto", "w"))
    target: Sql
    if aims.fraction.denominator > 1:
        target = _times(whole, aims.fraction.numerator)
    else:
        half = wide_quotient(whole, integer(2))
        target = call("least", cast(integer(min(aims.rank, _FAR)), "HUGEINT"), half)
        if aims.fraction == 1:
            target = binary("-", whole, target)
    reach = cast(integer(min(aims.reach, _FAR)), "HUGEINT")
    below = _times(binary("-", upto, weight), aims.fraction.denominator)
    return both(
        [
            binary("<", below, binary("+", target, reach)),
            binary(">", _times(upto, aims.fraction.denominator), binary("-", target, reach)),
        ]
    )


def _times(value: Sql, times: int) -> Sql:
    return value if times == 1 else binary("*", value, integer(times))


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
