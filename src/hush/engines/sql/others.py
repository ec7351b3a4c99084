"""The statements beside the main one: counts of distinct values, and histograms for what is picked.

They run over the same bounded rows, but each reads no more of them than it needs. Where keys are private, they run once
keys are chosen, over rows whose keys are the numbers of chosen ones.
"""

from __future__ import annotations

from hush.engines.sql.bins import binned
from hush.engines.sql.build import (
    Named,
    Query,
    Sql,
    alias,
    binary,
    call,
    case,
    cast,
    column,
    count,
    distinct,
    grouped,
    integer,
    not_null,
    select,
    where,
    window,
)
from hush.engines.sql.chosen import numbered_by_choice
from hush.engines.sql.keys import Lists, key_value
from hush.engines.sql.refining import refined
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.rows import MANY, Fresh, Reads, Rows, condition_in, together
from hush.query.plan.choices import Choice, LineHistogram, Pick
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction
from hush.query.plan.statistics import DistinctCount

_LARGEST = 2**62


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
        return numbered_by_choice(rows, self._rows.keys) if self._numbered else rows

    @property
    def _labels(self) -> list[str]:
        return ["k"] if self._numbered else self._rows.keys

    @property
    def _keys(self) -> list[Sql]:
        return [column(label, "t") for label in self._labels]

    def _by(self) -> list[Sql]:
        return [column(UNIT, "t"), *self._keys]

    def distinct(self, item: DistinctCount) -> Query:
        """Return the statement for one count of distinct values: the key columns and ``s``."""
        value = key_value(self._rows.known[item.expression], item.expression.type)
        test = condition_in(self._rows, item.population)
        cell = value.sql if test is None else case((test, value.sql))
        kept = self._only(self._rows.kept([alias(cell, "v")]))
        by = self._by()
        seen = where(select([*by, column("v", "t")], kept), not_null(column("v", "t")))
        seen = grouped(seen, [*by, column("v", "t")])
        mixed = call("hash", column(UNIT, "t"), column("v", "t"), integer(self._rows.salt + 1))
        order = [column("v", "t")] if self._extraction.limits.units is Units.NUMBERED else [mixed, column("v", "t")]
        rank = window("row_number", by, order)
        ranked = select([*self._keys, column("v", "t"), alias(rank, "rank")], seen)
        shown = where(
            select([*self._keys, alias(call("count", distinct(column("v", "t"))), "s")], ranked),
            binary("<=", column("rank", "t"), integer(self._extraction.limits.rows)),
        )
        return grouped(shown, self._keys)

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
        weight = alias(cast(call("least", call("sum", column("w", "t")), integer(_LARGEST)), "BIGINT"), "w")
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
