"""Window functions and aggregates over rows of answers, and bounds on their true values.

Three things are computed alike from a column: its values, its plausible truths (an axis of draws in front), and the
ends between which its truth lies. Where partition, order and rows are public, sums, means and shifts of the ends are
the ends of sums, means and shifts: all of these grow with each value.

Where noise has a part in the order, or in which rows there are, a truth may be made of other rows. Let each row's
number lie between two ends, all of them at once with the confidence asked for, and let rows be *surely* there, or
*maybe*. Then

    COUNT         from the rows that are surely there to those that may be
    SUM           each row that may be there adds what it must, from min(low, 0) to max(high, 0), if it is not sure
    RANK          1 + rows that are surely before, to 1 + rows that may be before
    MIN, MAX, AVG lie between the ends of the rows that may be there

which holds whatever noise decided (for ranks: Klein, Wright, Wieczorek 2020). A simulation would not do: of groups of
one size the true ranks are all 1, which no plausible truth shows.

>>> at = Structure.of(np.array([0, 0, 1]), np.array([1, 0, 0]), frame=None, ordered=True)
>>> at.sums(np.array([3.0, 4.0, 5.0]))
array([7., 4., 5.])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hush.query.answers.tree import Window
from hush.query.functions.record import Array, nulls
from hush.query.relations import Frame
from hush.query.released import Ends

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def codes(values: Array) -> Places:
    """Return numbers that order values as they are ordered; -1 for NULL."""
    if values.dtype == np.float64:
        null = np.isnan(values)
        inverse = np.unique(np.where(null, 0.0, values), return_inverse=True)[1].astype(np.int64).reshape(-1)
        return np.where(null, -1, inverse)
    ranks = {
        value: rank for rank, value in enumerate(sorted({value for value in values.tolist() if value is not None}))
    }
    return np.array([-1 if value is None else ranks[value] for value in values.tolist()], dtype=np.int64)


def order_codes(values: Array, *, descending: bool, nulls_first: bool) -> Places:
    """Return numbers by which rows are sorted upwards."""
    ranks = codes(values)
    null, above = ranks < 0, int(ranks.max(initial=0)) + 1
    ranks = above - ranks if descending else ranks + 1
    return np.where(null, 0 if nulls_first else above + 2, ranks)


def combined(columns: Sequence[Places], size: int) -> Places:
    """Return one number for each combination of numbers, in their order."""
    if not columns:
        return np.zeros(size, dtype=np.int64)
    if len(columns) == 1:
        return np.unique(columns[0], return_inverse=True)[1].astype(np.int64).reshape(-1)
    return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].astype(np.int64).reshape(-1)


@dataclass(frozen=True, slots=True)
class Structure:
    """The window frame of each row: a range of places in the rows sorted by partition and order."""

    sorted: Places
    """The rows, sorted."""
    place: Places
    """The place of each row in the sorted rows."""
    begin: Places
    """The first place of each row's partition."""
    end: Places
    """The end of the partition, exclusive."""
    peer: Places
    """The first place of each row's peers (rows equal in the order)."""
    peer_end: Places
    first: Places
    """The first place of the frame."""
    last: Places
    """The end of the frame, exclusive."""

    @classmethod
    def of(cls, partition: Places, order: Places, *, frame: Frame | None, ordered: bool) -> Structure:
        """Return the structure of rows by the numbers of their partition and order."""
        size = len(partition)
        rows = np.lexsort((order, partition)).astype(np.int64)
        place = np.empty(size, dtype=np.int64)
        place[rows] = np.arange(size)
        begin, end = _runs(partition[rows], place)
        peer, peer_end = _runs(combined([partition[rows], order[rows]], size), place)
        if frame is None:
            first, last = begin, peer_end if ordered else end
        else:
            first = begin if frame.first is None else np.clip(place + frame.first, begin, end)
            last = end if frame.last is None else np.clip(place + frame.last + 1, begin, end)
        return cls(rows, place, begin, end, peer, peer_end, first, np.maximum(last, first))

    def sums(self, values: Array) -> Array:
        """Return the sums over frames without NULLs; NULL for a frame without values."""
        full = ~np.isnan(values)
        if full.all():
            return np.where(self.last > self.first, self.added(values), np.nan)
        total, counts = self.added(np.where(full, values, 0.0)), self.added(full.astype(np.float64))
        return np.where(counts > 0, total, np.nan)

    def least(self, values: Array) -> Array:
        """Return the smallest value of each frame.

        It is read from a table: from each place on, the smallest of the next 1, 2, 4, … values.
        """
        row = np.where(np.isnan(values), np.inf, values)[..., self.sorted]
        table = [row]
        while 2 ** len(table) <= row.shape[-1]:
            step, before = 2 ** (len(table) - 1), table[-1]
            beyond = np.full((*before.shape[:-1], step), np.inf)
            table.append(np.minimum(before, np.concatenate([before[..., step:], beyond], axis=-1)))
        length = self.last - self.first
        level = np.floor(np.log2(np.maximum(length, 1))).astype(np.int64)
        least = np.full((*row.shape[:-1], len(level)), np.inf)
        for depth, minima in enumerate(table):
            rows = (level == depth) & (length > 0)
            first, last = minima[..., self.first[rows]], minima[..., self.last[rows] - 2**depth]
            least[..., rows] = np.minimum(first, last)
        return np.where(np.isinf(least), np.nan, least)

    def shifted(self, values: Array, kind: str, number: int) -> Array:
        """Return another row's value: LAG, LEAD, FIRST_VALUE, LAST_VALUE."""
        if kind in {"lag", "lead"}:
            places = self.place + (number if kind == "lead" else -number)
            inside = (places >= self.begin) & (places < self.end)
        else:
            places = self.first if kind == "first_value" else self.last - 1
            inside = self.last > self.first
        rows = self.sorted[np.where(inside, places, 0)] if len(self.sorted) else self.sorted
        shifted = values[..., rows]
        return np.where(inside, shifted, np.array(np.nan if shifted.dtype == np.float64 else None))

    def ranks(self, kind: str, number: int) -> Array:
        """Return the ranks of rows."""
        size = (self.end - self.begin).astype(np.float64)
        match kind:
            case "rank":
                return (self.peer - self.begin + 1).astype(np.float64)
            case "row_number":
                return (self.place - self.begin + 1).astype(np.float64)
            case "percent_rank":
                return np.where(size > 1, (self.peer - self.begin) / np.maximum(size - 1, 1), 0.0)
            case "cume_dist":
                return (self.peer_end - self.begin) / size
            case "dense_rank":
                starts = np.zeros(len(self.sorted) + 1)
                starts[np.unique(self.peer)] = 1
                before = np.cumsum(starts)
                return before[self.peer] - before[self.begin] + 1
            case _:  # ntile: the first tiles have a row more, if they are not of one size
                row, (small, larger) = self.place - self.begin, np.divmod(self.end - self.begin, number)
                edge = larger * (small + 1)
                late = np.maximum(row - edge, 0) // np.maximum(small, 1) + larger
                return np.asarray(np.where(row < edge, row // (small + 1), late) + 1.0)

    def added(self, values: Array) -> Array:
        """Return the sums over frames of values without NULLs."""
        row = values[..., self.sorted]
        if len(self.begin) and (self.first == self.begin).all() and (self.last == self.end).all():
            starts, which = np.unique(self.begin, return_inverse=True)
            return np.asarray(np.add.reduceat(row, starts, axis=-1)[..., which.reshape(-1)])
        before = np.concatenate([np.zeros((*row.shape[:-1], 1)), np.cumsum(row, axis=-1)], axis=-1)
        with np.errstate(invalid="ignore"):  # of two infinite ends nothing is known
            return np.asarray(before[..., self.last] - before[..., self.first])


def _runs(numbers: Places, places: Places) -> tuple[Places, Places]:
    """Return the begin and end of each row's run of equal numbers; equal numbers must be adjacent."""
    size = len(numbers)
    new = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])) if size else np.zeros(0, dtype=np.int64)
    run = np.searchsorted(new, np.arange(size), side="right") - 1
    ends = np.append(new[1:], size)
    return new[run][places], ends[run][places]


def value_of(kind: str, frames: Structure, values: Array | None, number: int = 1) -> Array:
    """Return the value of a window function in every row; ``values`` is None for COUNT(*) and ranks."""
    if kind == "count":
        return frames.added(np.ones(len(frames.sorted)) if values is None else 1.0 - nulls(values))
    if values is None:
        return frames.ranks(kind, number)
    match kind:
        case "sum":
            return frames.sums(values)
        case "avg":
            with np.errstate(all="ignore"):
                return np.asarray(frames.sums(values) / frames.added(1.0 - np.isnan(values)))
        case "min" | "max":
            return _extreme(kind, frames, values)
        case _:
            return frames.shifted(values, kind, number)


def _extreme(kind: str, frames: Structure, values: Array) -> Array:
    if values.dtype == np.float64:
        return frames.least(values) if kind == "min" else -frames.least(-values)
    ranks = codes(values).astype(np.float64)  # texts and dates by their order
    # code -1 is NULL, which MIN and MAX skip
    ranks[ranks < 0] = np.nan
    distinct = sorted({value for value in values.tolist() if value is not None})
    places = _extreme(kind, frames, ranks)
    result = np.empty(len(places), dtype=object)
    result[:] = [None if rank != rank else distinct[int(rank)] for rank in places.tolist()]  # noqa: PLR0124 - NaN
    return result


@dataclass(frozen=True, slots=True)
class Membership:
    """The rows that exist surely, and those that exist possibly, with their partitions."""

    partition: Places
    surely: Flags
    maybe: Flags

    def ends(self, kind: str, values: Ends | None, *, whole: bool) -> Ends:
        """Return the bounds of an aggregate over a ``whole`` partition, or else over any frame in the partition."""
        size = len(self.partition)
        count = int(self.partition.max(initial=-1)) + 1
        sure = self.surely if whole else np.zeros(size, dtype=bool)

        def total(weights: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.bincount(self.partition, weights, minlength=count)[self.partition] if size else np.zeros(0)

        if kind == "count":
            return total(sure.astype(float)), total(self.maybe.astype(float))
        if kind == "count_distinct" or values is None:
            return np.zeros(size), total(self.maybe.astype(float))
        low, high = values
        if kind == "sum":
            # a row that may be missing adds 0 or its value: the smaller below, the larger above
            lows = np.where(sure, low, np.where(self.maybe, np.minimum(low, 0), 0))
            highs = np.where(sure, high, np.where(self.maybe, np.maximum(high, 0), 0))
            return unknown_as_infinite(total(lows), total(highs))
        least, largest = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(least, self.partition[self.maybe], low[self.maybe])
        np.maximum.at(largest, self.partition[self.maybe], high[self.maybe])
        if kind == "min" and whole:
            np.minimum.at(largest, self.partition[sure], high[sure])
        if kind == "max" and whole:
            np.maximum.at(least, self.partition[sure], low[sure])
        return unknown_as_infinite(least[self.partition], largest[self.partition])

    def rank_ends(self, order: Ends | None, *, descending: bool) -> Ends:
        """Return bounds on the number of rows before each row, by the first item of ORDER BY."""
        size = len(self.partition)
        if order is None:
            rows_of_partition = self.ends("count", None, whole=True)[1]
            return np.zeros(size), np.maximum(rows_of_partition - 1, 0)
        low, high = (-order[1], -order[0]) if descending else order
        least, largest = np.zeros(size), np.zeros(size)
        for partition in np.unique(self.partition):
            rows = np.flatnonzero(self.partition == partition)
            sure, may = np.sort(high[rows][self.surely[rows]]), np.sort(low[rows][self.maybe[rows]])
            # surely before: the upper end is below this row's lower end;
            # possibly before: the lower end is not above this row's upper end (without the row itself)
            least[rows] = np.searchsorted(sure, low[rows], side="left")
            largest[rows] = np.searchsorted(may, high[rows], side="right") - self.maybe[rows]
        return least, np.maximum(largest, least)


def unknown_as_infinite(low: Array, high: Array) -> Ends:
    """Return ends in which NaN stands for an infinite one."""
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def rank_interval(window: Window, before: Ends, size: Array) -> Ends:
    """Return bounds on a rank, from bounds on the number of rows before."""
    least, largest = before
    match window.kind:
        case "rank" | "row_number":
            return least + 1, largest + 1
        case "dense_rank":
            # ties do not count in a dense rank, so it may be 1 however many rows come before
            return np.ones(len(least)), largest + 1
        case "ntile":
            return np.ones(len(least)), np.full(len(least), float(window.number))
        case "percent_rank":
            rivals = np.maximum(size - 1, 1)
            return np.clip(least / rivals, 0, 1), np.clip(largest / rivals, 0, 1)
        case _:
            return np.zeros(len(least)), np.ones(len(least))


def distinct_counts(partition: Places, values: Array, rows: Flags) -> Array:
    """Return the number of distinct values in each row's partition."""
    ranks = codes(values)
    counted = rows & (ranks >= 0)
    pairs = np.unique(np.column_stack([partition[counted], ranks[counted]]), axis=0)
    count = int(partition.max(initial=-1)) + 1
    return np.bincount(pairs[:, 0], minlength=count).astype(np.float64)[partition] if len(partition) else np.zeros(0)
