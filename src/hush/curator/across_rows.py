"""Window functions and aggregates over rows of answers, and how far they can be from the truth.

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

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.query.composed import Window
from hush.query.relations import Frame
from hush.query.released import Array, Ends

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def codes(values: Array) -> Places:
    """Return numbers that order values as they are ordered; -1 for NULL."""
    if values.dtype == np.float64:
        null = np.isnan(values)
        found = np.unique(np.where(null, 0.0, values), return_inverse=True)[1].astype(np.int64).reshape(-1)
        return np.where(null, -1, found)
    known = {
        value: place for place, value in enumerate(sorted({value for value in values.tolist() if value is not None}))
    }
    return np.array([-1 if value is None else known[value] for value in values.tolist()], dtype=np.int64)


def order_codes(values: Array, *, descending: bool, nulls_first: bool) -> Places:
    """Return numbers by which rows are sorted upwards."""
    found = codes(values)
    null, most = found < 0, int(found.max(initial=0)) + 1
    found = most - found if descending else found + 1
    return np.where(null, 0 if nulls_first else most + 2, found)


def combined(columns: Sequence[Places], size: int) -> Places:
    """Return one number for each combination of numbers, in their order."""
    if not columns:
        return np.zeros(size, dtype=np.int64)
    if len(columns) == 1:
        return np.unique(columns[0], return_inverse=True)[1].astype(np.int64).reshape(-1)
    return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].astype(np.int64).reshape(-1)


@dataclass(frozen=True, slots=True)
class Structure:
    """Which rows each row's window sees: a range of places in the rows sorted by partition and order."""

    sorted: Places
    """The rows, sorted."""
    place: Places
    """Where each row is among them."""
    partition: Places
    begin: Places
    """Of each row, where its partition begins."""
    end: Places
    """Where it ends, exclusive."""
    peer: Places
    """Of each row, where its peers (rows of the same order) begin."""
    peer_end: Places
    first: Places
    """Where its frame begins."""
    last: Places
    """Where its frame ends, exclusive."""

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
        return cls(rows, place, partition, begin, end, peer, peer_end, first, np.maximum(last, first))

    def sums(self, values: Array) -> Array:
        """Return the sums over frames, of what is not NULL; NULL of nothing."""
        full = ~np.isnan(values)
        if full.all():
            return np.where(self.last > self.first, self._added(values), np.nan)
        total, many = self._added(np.where(full, values, 0.0)), self._added(full.astype(np.float64))
        return np.where(many > 0, total, np.nan)

    def counts(self, full: Array) -> Array:
        """Return how many rows of a frame are true."""
        return self._added(full.astype(np.float64))

    def means(self, values: Array) -> Array:
        """Return the means over frames."""
        with np.errstate(all="ignore"):
            return np.asarray(self.sums(values) / self.counts(~np.isnan(values)))

    def least(self, values: Array) -> Array:
        """Return the least value of a frame, by a table of the least of 1, 2, 4, … values from each place on."""
        row = np.where(np.isnan(values), np.inf, values)[..., self.sorted]
        table = [row]
        while 2 ** len(table) <= row.shape[-1]:
            step = 2 ** (len(table) - 1)
            before = table[-1]
            table.append(
                np.minimum(
                    before, np.concatenate([before[..., step:], np.full((*before.shape[:-1], step), np.inf)], axis=-1)
                )
            )
        length = self.last - self.first
        level = np.floor(np.log2(np.maximum(length, 1))).astype(np.int64)
        found = np.full((*row.shape[:-1], len(level)), np.inf)
        for depth, known in enumerate(table):
            at = (level == depth) & (length > 0)
            one, other = known[..., self.first[at]], known[..., self.last[at] - 2**depth]
            found[..., at] = np.minimum(one, other)
        return np.where(np.isinf(found), np.nan, found)

    def shifted(self, values: Array, kind: str, number: int) -> Array:
        """Return another row's value: LAG, LEAD, FIRST_VALUE, LAST_VALUE."""
        if kind in {"lag", "lead"}:
            place = self.place + (number if kind == "lead" else -number)
            there = (place >= self.begin) & (place < self.end)
        else:
            place = self.first if kind == "first_value" else self.last - 1
            there = self.last > self.first
        rows = self.sorted[np.where(there, place, 0)] if len(self.sorted) else self.sorted
        found = values[..., rows]
        if found.dtype == np.float64:
            return np.where(there, found, np.nan)
        found = found.copy()
        found[~there] = None
        return found

    def ranks(self, kind: str, number: int) -> Array:
        """Return where rows stand."""
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
                place, (small, larger) = self.place - self.begin, np.divmod(self.end - self.begin, number)
                edge = larger * (small + 1)
                late = np.maximum(place - edge, 0) // np.maximum(small, 1) + larger
                return np.asarray(np.where(place < edge, place // (small + 1), late) + 1.0)

    def _added(self, values: Array) -> Array:
        row = values[..., self.sorted]
        if len(self.begin) and (self.first == self.begin).all() and (self.last == self.end).all():
            starts, which = np.unique(self.begin, return_inverse=True)
            return np.asarray(np.add.reduceat(row, starts, axis=-1)[..., which.reshape(-1)])
        before = np.concatenate([np.zeros((*row.shape[:-1], 1)), np.cumsum(row, axis=-1)], axis=-1)
        return np.asarray(before[..., self.last] - before[..., self.first])


def _runs(numbers: Places, place: Places) -> tuple[Places, Places]:
    """Return where the run of equal numbers of each row begins and ends; numbers come in sorted order."""
    size = len(numbers)
    new = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]])) if size else np.zeros(0, dtype=np.int64)
    run = np.searchsorted(new, np.arange(size), side="right") - 1
    ends = np.append(new[1:], size)
    return new[run][place], ends[run][place]


def value_of(kind: str, at: Structure, values: Array | None, number: int = 1) -> Array:
    """Return what a function over frames gives; ``values`` is None for COUNT(*) and ranks."""
    match kind:
        case "count":
            full = np.ones(len(at.sorted), dtype=bool) if values is None else ~_nulls(values)
            return at.counts(full)
        case "sum":
            assert values is not None  # noqa: S101 - it has an argument
            return at.sums(values)
        case "avg":
            assert values is not None  # noqa: S101 - it has an argument
            return at.means(values)
        case "min" | "max":
            assert values is not None  # noqa: S101 - it has an argument
            return _extreme(kind, at, values)
        case "lag" | "lead" | "first_value" | "last_value":
            assert values is not None  # noqa: S101 - it has an argument
            return at.shifted(values, kind, number)
        case _:
            return at.ranks(kind, number)


def _nulls(values: Array) -> Flags:
    if values.dtype == np.float64:
        return np.isnan(values)
    return np.array([value is None for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def _extreme(kind: str, at: Structure, values: Array) -> Array:
    if values.dtype == np.float64:
        return at.least(values) if kind == "min" else -at.least(-values)
    found = codes(values).astype(np.float64)  # texts and dates by their order
    found[found < 0] = np.nan
    known = sorted({value for value in values.tolist() if value is not None})
    places = _extreme(kind, at, found)
    result = np.empty(len(places), dtype=object)
    result[:] = [None if place != place else known[int(place)] for place in places.tolist()]  # noqa: PLR0124 - NaN
    return result


@dataclass(frozen=True, slots=True)
class Membership:
    """Which rows a truth may have: surely and maybe, by their partition."""

    partition: Places
    surely: Flags
    maybe: Flags

    def ends(self, kind: str, values: Ends | None, *, whole: bool) -> Ends:
        """Return between which numbers a function over a partition lies, or over a frame of it if not ``whole``."""
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
            lows = np.where(sure, low, np.where(self.maybe, np.minimum(low, 0), 0))
            highs = np.where(sure, high, np.where(self.maybe, np.maximum(high, 0), 0))
            return _defined(total(lows), total(highs))
        least, most = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(least, self.partition[self.maybe], low[self.maybe])
        np.maximum.at(most, self.partition[self.maybe], high[self.maybe])
        if kind == "min" and whole:
            np.minimum.at(most, self.partition[sure], high[sure])
        if kind == "max" and whole:
            np.maximum.at(least, self.partition[sure], low[sure])
        return _defined(least[self.partition], most[self.partition])

    def rank_ends(self, order: Ends | None, *, descending: bool) -> Ends:
        """Return how many rows come before each, at least and at most, by the first thing that they are ordered by."""
        size = len(self.partition)
        if order is None:
            others = self.ends("count", None, whole=True)[1]
            return np.zeros(size), np.maximum(others - 1, 0)
        low, high = (-order[1], -order[0]) if descending else order
        least, most = np.zeros(size), np.zeros(size)
        for part in np.unique(self.partition):
            rows = np.flatnonzero(self.partition == part)
            sure, may = np.sort(high[rows][self.surely[rows]]), np.sort(low[rows][self.maybe[rows]])
            least[rows] = np.searchsorted(sure, low[rows], side="left")
            most[rows] = np.searchsorted(may, high[rows], side="right") - self.maybe[rows]
        return least, np.maximum(most, least)


def _defined(low: Array, high: Array) -> Ends:
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def rank_interval(window: Window, before: Ends, size: Array) -> Ends:
    """Return between which numbers a rank lies, from how many rows come before."""
    least, most = before
    match window.kind:
        case "rank" | "row_number":
            return least + 1, most + 1
        case "dense_rank":
            return np.ones(len(least)), most + 1
        case "ntile":
            return np.ones(len(least)), np.full(len(least), float(window.number))
        case "percent_rank":
            others = np.maximum(size - 1, 1)
            return np.clip(least / others, 0, 1), np.clip(most / others, 0, 1)
        case _:
            return np.zeros(len(least)), np.ones(len(least))


def distinct_counts(partition: Places, values: Array, rows: Flags) -> Array:
    """Return how many different values each row's partition has."""
    found = codes(values)
    kept = rows & (found >= 0)
    pairs = np.unique(np.column_stack([partition[kept], found[kept]]), axis=0)
    count = int(partition.max(initial=-1)) + 1
    return np.bincount(pairs[:, 0], minlength=count).astype(np.float64)[partition] if len(partition) else np.zeros(0)
