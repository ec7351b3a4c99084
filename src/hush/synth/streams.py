r"""Streams: counts and sums that keep coming for a price that is paid once.

**Factorisation.** Let x_t be what comes in period t of T. All totals are A x, with A the lower triangle of ones. Its
square root is the Toeplitz matrix F of f_0 = 1, f_k = f_{k-1}·(2k-1)/2k, the coefficients of (1-z)^{-1/2}: F·F = A
(Fichtenberger, Henzinger, Upadhyay 2023). With C = F·D, D the scaling that gives every column the length 1, noise on C
x errs in totals by Σ over a row of A·C⁻¹, and by hardly more than the best possible (T = 1000: 3.07 at most and 2.98 in
the mean, at ρ = ½).

**On integers.** K = 2²⁰·C, each entry rounded to an integer, and in period t the integer Y_t = (K x)_t + z_t is
released, z_t discrete Gaussian. Let Δ be the largest column length of K, times what one unit adds to x over its whole
life. Step t has ρ_t = (change of (K x)_t)²/2σ², and Σ_t of these squares is at most Δ² on every path, however later
rows depend on earlier answers. So the whole stream costs ρ = Δ²/2σ². Days, weeks and totals are q·K⁻¹Y, with variance
σ²‖K⁻ᵀq‖²; K is triangular, so what was said of the past never changes when a period is added.

K is made with the four operations of arithmetic and the square root alone, which round alike everywhere.

**Units over their life.** A unit adds at most ``cap`` rows to the whole stream. How many it has added, and how many of
its rows were seen under each key, is private state that lives beside the ledger; whatever the table does later, what a
unit adds stays within its cap. Where rows are units there is nothing to tell them apart by: such a table may only grow.

**Wide integers.** Sums of values below 2³¹ steps fit 64 bits, for no table has 2³² rows. Beyond, arrays hold Python's
integers: the public bound decides this, and no row. So do released numbers that are wider than 64 bits.

>>> from hush.synth import Stream
>>> plan: StreamPlan = plan_stream(periods=100, rho=Fraction(1, 2))
>>> stream: Stream = Stream.begin(plan).advance(np.array([7])).advance(np.array([5]))
>>> stream.released, plan.total_error(100) < 5
(2, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import add, mul
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting.events import Event, ZCDPEvent
from hush.core import InvalidValueError, integer, positive
from hush.core.work import check_wanted
from hush.mechanisms.grouped.base import integer_array
from hush.noise import discrete_gaussian
from hush.synth.measurements import quantile, short_up

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[Any]
"""Of 64 bits, or Python's own where sums may be wider."""
MAX_PERIODS = 20_000
MAX_KEYS = 10_000
_SCALE = 2.0**20
_NARROW = 2**31
_PART = 2**24 - 1


@dataclass(frozen=True, eq=False)
class Factorisation:
    """The square root of totals over a number of periods, with columns of one length."""

    periods: int
    root: Floats
    """f_k."""
    inverse: Floats
    """g_k, the coefficients of (1-z)^(1/2): their Toeplitz matrix is F⁻¹."""
    lengths: Floats
    """The length of each column of F."""

    @staticmethod
    @lru_cache(maxsize=8)
    def of(periods: int) -> Factorisation:
        """Return the factorisation for a number of periods."""
        root, squares, total = [1.0], [1.0], 1.0
        for k in range(1, periods):
            root.append(root[-1] * (2 * k - 1) / (2 * k))
            total += root[-1] * root[-1]
            squares.append(total)
        # (1-z)^(1/2) has the coefficients -f_k/(2k-1) from k = 1 on.
        inverse = [1.0] + [-value / (2 * k - 1) for k, value in enumerate(root) if k]
        return Factorisation(periods, np.array(root), np.array(inverse), np.sqrt(np.array(squares[::-1])))

    def row(self, period: int) -> Integers:
        """Return row ``period`` of K, from 0: the weights of periods 0 … period."""
        back = self.root[: period + 1][::-1]
        return np.rint(back * (_SCALE / self.lengths[: period + 1])).astype(np.int64)

    @cached_property
    def squared_length(self) -> int:
        """The largest squared column length of K, exactly."""
        largest = 0
        for period in range(self.periods):
            scale = _SCALE / self.lengths[period]
            # Of the rounded matrix: the price is that of the integers that are released, not of C.
            column = np.rint(self.root[: self.periods - period] * scale).astype(np.int64)
            largest = max(largest, int(column @ column))
        return largest

    def weights(self, query: Floats) -> Floats:
        """Return C⁻ᵀq: the weights of the measurements in the sum of q·x, q over the first periods."""
        scaled = query * self.lengths[: len(query)]
        # A Toeplitz product is a convolution; twice the length keeps it from going round.
        size = 2 * len(query)
        spectrum = np.fft.rfft(scaled[::-1], size) * np.fft.rfft(self.inverse[: len(query)], size)
        return np.asarray(np.fft.irfft(spectrum, size)[: len(query)][::-1])


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """The noise of a stream over its whole life. Public."""

    periods: int
    variance: Fraction
    """σ² of the discrete Gaussian noise on K x."""
    rho: Fraction
    confidence: float = 0.95

    @property
    def events(self) -> tuple[Event, ...]:
        """The event of the whole stream, charged once."""
        return (ZCDPEvent(rho=self.rho),)

    def cost(self, contribution: int) -> Fraction:
        """Return the ρ of the whole stream, if a unit adds at most ``contribution`` to all periods together, in ℓ₁."""
        return Fraction(self.factorisation.squared_length) * contribution * contribution / (2 * self.variance)

    @cached_property
    def factorisation(self) -> Factorisation:
        """The matrix."""
        return Factorisation.of(self.periods)

    def error(self, query: Floats) -> float:
        """Return the half-width of a sum over the first periods in which ``query`` is the weight of each."""
        return self._half(float(np.linalg.norm(self.factorisation.weights(query))))

    def _half(self, length: float) -> float:
        return quantile("gaussian", self.confidence) * math.sqrt(float(self.variance)) / _SCALE * length

    def total_error(self, period: int) -> float:
        """Return the half-width of the total of periods 1 … period."""
        return self.error(np.ones(period))

    def window_error(self, period: int, width: int) -> float:
        """Return the half-width of the last ``width`` periods up to ``period``, counted from 1."""
        query = np.zeros(period)
        query[max(0, period - width) :] = 1
        return self.error(query)

    def day_error(self, period: int) -> float:
        """Return the half-width of one period, counted from 1."""
        inverse = self.factorisation.inverse[:period]
        return self._half(float(self.factorisation.lengths[period - 1]) * math.sqrt(float(inverse @ inverse)))


def plan_stream(*, periods: int, rho: Fraction, contribution: int = 1, confidence: float = 0.95) -> StreamPlan:
    """Plan the noise of a stream; a unit adds at most ``contribution`` to all its periods together, in ℓ₁."""
    horizon = integer(periods, "periods", minimum=1, maximum=MAX_PERIODS)
    added = integer(contribution, "contribution", minimum=1)
    price = positive(rho, "rho")
    squared = Fraction(Factorisation.of(horizon).squared_length) * added * added
    # Rounded up; ρ is then computed from it, and is never more than was asked for.
    variance = short_up(squared / (2 * price))
    return StreamPlan(periods=horizon, variance=variance, rho=squared / (2 * variance), confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """The rows of each unit that a stream has seen and counted so far. Private."""

    units: Integers
    """The unit and key of each pair, in order; one unit -1 where rows are units."""
    keys: Integers
    rows: Integers
    """How many rows of the pair were seen."""
    sums: Integers
    used: Integers
    """How many rows of the pair were counted."""

    @classmethod
    def nothing(cls) -> Seen:
        """Return the state of a stream that has seen nothing."""
        none = np.zeros(0, dtype=np.int64)
        return cls(units=none, keys=none, rows=none, sums=none, used=none)


def arrivals(
    seen: Seen,
    units: Integers | None,
    keys: Integers,
    values: Integers | None,
    *,
    cap: int,
    bound: int,
    size: int,
    period: Integers | None = None,
    steps: int = 1,
) -> tuple[Integers, Seen]:
    """Return how much each key grew in each step, counting at most ``cap`` new rows of a unit over its life.

    The growth has one row per step and one column for each of ``size`` keys; the state after it is returned too. The
    rows given are all that the table has now, and ``period`` is the step in which each comes, 0 for those of before.
    The new rows of a pair (unit, key) are those beyond what was seen of it. A count grows by the new rows that are
    counted, a sum by the change of the pair's ``values``. These lie within ±``bound``, so a sum changes by no more than
    ``bound`` for each counted row. Without ``units`` every row is a unit, and every new one is counted.
    """
    summed = np.zeros(len(keys), np.int64) if values is None else values
    if bound >= _NARROW:
        summed = summed.astype(object)
    step = np.zeros(len(keys), np.int64) if period is None else period
    owner = np.full(len(keys), -1, dtype=np.int64) if units is None else units
    state, pair_of_row = _with_pairs(seen, owner, keys, summed.dtype)
    unit_of_pair = np.searchsorted(state.units, state.units)  # the number of the unit's first pair
    used_of_unit = np.zeros(len(state.units), np.int64)
    np.add.at(used_of_unit, unit_of_pair, state.used)
    rows_now, sums_now = np.zeros_like(state.rows), np.zeros_like(state.sums)
    growth = np.zeros((steps, size), dtype=np.int64 if values is None else summed.dtype)

    by_step = np.argsort(step, kind="stable")
    ends = np.searchsorted(step[by_step], np.arange(steps), side="right")
    for number, arrived in enumerate(np.split(by_step, ends)[:-1]):
        check_wanted()
        np.add.at(rows_now, pair_of_row[arrived], 1)
        np.add.at(sums_now, pair_of_row[arrived], summed[arrived])
        # a pair without rows in a step does not change; in the first nearly all have some, so all are visited
        pairs = np.unique(pair_of_row[arrived]) if number else np.arange(len(state.units))
        new_rows = np.maximum(rows_now[pairs] - state.rows[pairs], 0)
        counted_rows = new_rows if units is None else _within_cap(unit_of_pair[pairs], new_rows, used_of_unit, cap)
        limit = bound * counted_rows.astype(summed.dtype)
        change = np.maximum(np.minimum(sums_now[pairs] - state.sums[pairs], limit), -limit)
        np.add.at(growth[number], state.keys[pairs], counted_rows if values is None else change)
        # what was seen never shrinks: rows that go and come back are not new
        state.sums[pairs] = np.where(rows_now[pairs] >= state.rows[pairs], sums_now[pairs], state.sums[pairs])
        state.rows[pairs] = np.maximum(state.rows[pairs], rows_now[pairs])
        state.used[pairs] += counted_rows
        np.add.at(used_of_unit, unit_of_pair[pairs], counted_rows)
    return growth, state


def _with_pairs(seen: Seen, units: Integers, keys: Integers, sum_type: np.dtype[Any]) -> tuple[Seen, Integers]:
    """Return the state with a place for every pair of before and now, and the place of each row's pair."""
    all_units, all_keys = np.concatenate([seen.units, units]), np.concatenate([seen.keys, keys])
    order = np.lexsort((all_keys, all_units))
    sorted_units, sorted_keys = all_units[order], all_keys[order]
    starts_pair = np.ones(len(order), dtype=np.bool_)
    starts_pair[1:] = (sorted_units[1:] != sorted_units[:-1]) | (sorted_keys[1:] != sorted_keys[:-1])
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.cumsum(starts_pair) - 1
    seen_places, row_places = np.split(places, [len(seen.units)])

    pair_units, pair_keys = sorted_units[starts_pair], sorted_keys[starts_pair]
    count = len(pair_units)
    rows, used, sums = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, sum_type)
    rows[seen_places], used[seen_places], sums[seen_places] = seen.rows, seen.used, seen.sums
    return Seen(units=pair_units, keys=pair_keys, rows=rows, sums=sums, used=used), row_places


def _within_cap(units: Integers, new_rows: Integers, used_of_unit: Integers, cap: int) -> Integers:
    """Return how many new rows of each pair count; pairs of one unit stand together."""
    if not len(units):
        return new_rows
    ahead = np.cumsum(new_rows) - new_rows  # new rows of pairs before this one
    ahead -= ahead[np.searchsorted(units, units)]  # of the same unit
    return np.asarray(np.minimum(new_rows, np.maximum(cap - used_of_unit[units] - ahead, 0)))


def seconds(*, rows: float, keys: int, first: int, last: int) -> float:
    """Return how long periods ``first`` … ``last`` should take besides reading rows, by public figures.

    Generous, because what is not ready then shows it: about four times what was measured on 2 cores of an AMD EPYC for
    sorting rows, for the state file of their units, and for the weighted sums over all periods before.
    """
    cells = keys * (last - first) * (first + last + 1) / 2
    return 0.02 + 8e-6 * rows + (last - first) * (6e-4 + 4e-6 * keys) + 6e-8 * cells


def weighted(weights: Integers, exact: Integers) -> list[int]:
    """Return each column's sum of weights below 2²¹ times numbers, of at most 2¹⁵ rows, as Python's integers.

    Numbers of 64 bits are cut in three, so that no product and no sum of a part leaves 64 bits.
    """
    if exact.dtype == object:
        return [sum(map(mul, weights.tolist(), column)) for column in exact.T.tolist()]
    # Shifts round down: the upper part keeps the sign, and the lower two lie in 0 … 2²⁴-1.
    parts = (weights @ (exact >> 48), weights @ ((exact >> 24) & _PART), weights @ (exact & _PART))
    return [
        (high << 48) + (middle << 24) + low for high, middle, low in zip(*map(np.ndarray.tolist, parts), strict=True)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningTotals:
    """A stream up to its last period: the exact series, which is private, and the released one."""

    plan: StreamPlan
    exact: Integers
    """One row for each period that was released, one column for each key. Private."""
    measured: Integers
    """Y: the released integers, in the same shape. Public."""

    @classmethod
    def begin(cls, plan: StreamPlan, keys: int = 1) -> RunningTotals:
        """Return a stream before its first release."""
        width = integer(keys, "keys", minimum=1, maximum=MAX_KEYS)
        none = np.zeros((0, width), dtype=np.int64)
        return cls(plan=plan, exact=none, measured=none)

    @property
    def released(self) -> int:
        """How many periods were released."""
        return len(self.measured)

    def advance(self, came: Integers) -> RunningTotals:
        """Release one period for each row of ``came``, which has the new counts or sums under each key."""
        rows = np.atleast_2d(came)
        first, last = self.released, self.released + len(rows)
        if last > self.plan.periods:
            raise InvalidValueError("stream", got=f"{last} periods", allowed="one that has not come to its horizon")
        exact, measured = np.vstack([self.exact, rows]), [self.measured]
        for period in range(first, last):
            check_wanted()
            noise: Integers = discrete_gaussian(variance=self.plan.variance, size=(exact.shape[1],))
            totals = weighted(self.plan.factorisation.row(period), exact[: period + 1])
            measured.append(integer_array(list(map(add, totals, noise.tolist())))[None, :])
        return replace(self, exact=exact, measured=np.vstack(measured))

    @cached_property
    def estimates(self) -> Floats:
        """The unbiased estimate of every period: K⁻¹Y."""
        return solve(self.plan.factorisation, self.measured)

    def series(self, width: int = 7) -> dict[str, Any]:
        """Return each period's value, that of the last ``width`` periods, and the total, with their half-widths."""
        values = self.estimates
        totals = np.cumsum(values, axis=0)
        windows = totals.copy()
        windows[width:] -= totals[:-width]
        periods = range(1, self.released + 1)
        return {
            "value": values,
            "value_error": np.array([self.plan.day_error(period) for period in periods]),
            "window": windows,
            "window_error": np.array([self.plan.window_error(period, width) for period in periods]),
            "total": totals,
            "total_error": np.array([self.plan.total_error(period) for period in periods]),
        }


def solve(factorisation: Factorisation, measured: Integers) -> Floats:
    """Return K⁻¹Y by forward substitution."""
    solution = np.zeros(measured.shape)
    for period in range(len(measured)):
        weights = factorisation.row(period).astype(np.float64)
        solution[period] = (measured[period].astype(np.float64) - weights[:-1] @ solution[:period]) / weights[-1]
    return solution
