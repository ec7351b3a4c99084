"""Streams: the factorisation's figures, integers, a unit's life within its cap, periods released once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import InvalidValueError
from hush.synth.measurements import quantile
from hush.synth.streams import Factorisation, RunningTotals, Seen, arrivals, plan_stream, solve

HALF = Fraction(1, 2)


@pytest.mark.parametrize(("periods", "largest", "mean"), [(1000, 3.08, 2.99), (365, 2.757, 2.669)])
def test_totals_err_as_the_normalised_square_root_does(periods: int, largest: float, mean: float) -> None:
    plan = plan_stream(periods=periods, rho=HALF)
    errors = np.array([plan.total_error(period) for period in range(1, periods + 1)]) / quantile("gaussian", 0.95)
    assert errors.max() <= largest
    assert np.sqrt((errors**2).mean()) <= mean


def test_the_price_is_that_of_the_longest_column_of_the_integers() -> None:
    factorisation = Factorisation.of(60)
    matrix = np.zeros((60, 60), dtype=np.int64)
    for period in range(60):
        matrix[period, : period + 1] = factorisation.row(period)
    squared = int((matrix**2).sum(axis=0).max())
    assert factorisation.squared_length == squared
    plan = plan_stream(periods=60, rho=HALF, contribution=3)
    assert plan.rho == Fraction(9 * squared) / (2 * plan.variance) <= HALF
    assert plan.rho > HALF * (1 - Fraction(1, 10**6))


def test_the_roots_product_is_the_triangle_of_ones() -> None:
    factorisation = Factorisation.of(20)
    root = np.array([[factorisation.root[i - j] if i >= j else 0 for j in range(20)] for i in range(20)])
    assert np.allclose(root @ root, np.tril(np.ones((20, 20))))
    query = np.random.default_rng(0).random(20)
    scaled = root / factorisation.lengths
    assert np.allclose(factorisation.weights(query), np.linalg.solve(scaled.T, query))


def test_estimates_are_unbiased_and_days_add_up_to_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    from hush.synth import streams

    monkeypatch.setattr(streams, "discrete_gaussian", lambda *, size, **_: np.zeros(size, dtype=np.int64))
    stream = RunningTotals.begin(plan_stream(periods=50, rho=HALF), keys=2)
    series = np.random.default_rng(1).integers(0, 1000, (50, 2))
    for came in series:
        stream = stream.advance(came)
    assert np.allclose(stream.estimates, series, atol=1e-6)
    shown = stream.series(width=7)
    assert np.allclose(shown["value"].cumsum(axis=0), shown["total"])
    assert np.allclose(shown["window"][20], series[14:21].sum(axis=0), atol=1e-5)


def test_what_was_released_stays_when_periods_come() -> None:
    stream = RunningTotals.begin(plan_stream(periods=30, rho=HALF))
    shown = []
    for came in range(30):
        stream = stream.advance(np.array([came]))
        assert stream.measured.dtype == np.int64
        shown.append(stream.estimates.copy())
    for number, estimates in enumerate(shown):
        assert np.array_equal(estimates, stream.estimates[: number + 1])
    assert np.array_equal(solve(stream.plan.factorisation, stream.measured), stream.estimates)
    with pytest.raises(InvalidValueError, match="horizon"):
        stream.advance(np.array([1]))


def test_a_unit_adds_no_more_than_its_cap_over_its_life_whatever_the_table_does() -> None:
    generator = np.random.default_rng(2)
    for _ in range(40):
        cap, bound, keys = 4, 10, 3
        seen = {True: Seen.nothing(), False: Seen.nothing()}
        moved_rows, moved_sums = 0, 0
        sums = {True: Seen.nothing(), False: Seen.nothing()}
        for _period in range(8):
            rows = generator.integers(0, 12)
            units, places = generator.integers(0, 4, rows), generator.integers(0, keys, rows)
            values = generator.integers(-bound, bound + 1, rows)
            counts, totals = {}, {}
            for there in (True, False):  # with and without unit 0
                kept = np.ones(rows, bool) if there else units != 0
                args = (units[kept], places[kept])
                counts[there], seen[there] = arrivals(seen[there], *args, None, cap=cap, bound=1, size=keys)
                totals[there], sums[there] = arrivals(sums[there], *args, values[kept], cap=cap, bound=bound, size=keys)
            moved_rows += int(np.abs(counts[True] - counts[False]).sum())
            moved_sums += int(np.abs(totals[True] - totals[False]).sum())
        assert moved_rows <= cap
        assert moved_sums <= cap * bound


def test_rows_that_come_late_count_when_they_come() -> None:
    seen = Seen.nothing()
    first, seen = arrivals(seen, np.array([1, 2]), np.array([0, 1]), None, cap=5, bound=1, size=2)
    late, seen = arrivals(seen, np.array([1, 2, 1]), np.array([0, 1, 1]), None, cap=5, bound=1, size=2)
    none, _ = arrivals(seen, np.array([1, 2, 1]), np.array([0, 1, 1]), None, cap=5, bound=1, size=2)
    assert (first.tolist(), late.tolist(), none.tolist()) == ([[1, 1]], [[0, 1]], [[0, 0]])


def test_rows_as_units_count_when_they_come() -> None:
    first, seen = arrivals(Seen.nothing(), None, np.array([0, 0, 1]), None, cap=1, bound=1, size=2)
    more, _ = arrivals(seen, None, np.array([0, 0, 1, 1, 1]), None, cap=1, bound=1, size=2)
    assert (first.tolist(), more.tolist()) == ([[2, 1]], [[0, 2]])


@given(st.data())
def test_many_periods_at_once_are_the_same_as_one_after_the_other(data: st.DataObject) -> None:
    """Of one table, at any state before: counts, sums and the state after."""
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    alone, bound = data.draw(st.booleans()), data.draw(st.sampled_from([1, 10, 2**40]))
    terms = {"cap": data.draw(st.integers(1, 6)), "bound": bound, "size": 3}

    def table(rows: int) -> tuple[np.ndarray, ...]:
        values = generator.integers(-bound, bound + 1, rows) if bound > 1 else None
        return None if alone else generator.integers(0, 5, rows), generator.integers(0, 3, rows), values

    _, begun = arrivals(Seen.nothing(), *table(data.draw(st.integers(0, 20))), **terms)
    units, keys, values = table(data.draw(st.integers(0, 40)))
    period = generator.integers(0, 6, len(keys))
    at_once, after = arrivals(begun, units, keys, values, **terms, period=period, steps=6)
    state = begun
    for number in range(6):
        there = period <= number
        came, state = arrivals(
            state,
            None if units is None else units[there],
            keys[there],
            None if values is None else values[there],
            **terms,
        )
        assert came[0].tolist() == at_once[number].tolist()
    for name in ("units", "keys", "rows", "sums", "used"):
        assert getattr(state, name).tolist() == getattr(after, name).tolist()
