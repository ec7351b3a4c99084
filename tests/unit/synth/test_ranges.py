"""All ranges of one column from one release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hush.accounting.events import ApproximateDPEvent, ZCDPEvent
from hush.core import InvalidValueError
from hush.synth import Price, plan_ranges

HALF = Price(law="gaussian", amount=Fraction(1, 2))


def test_all_ranges_of_1024_cells_err_by_the_figure_of_the_best_tree() -> None:
    """`tests/theory` compares the Gaussian strategy with the bound of all strategies."""
    assert plan_ranges(1024, Price(law="laplace", amount=Fraction(1))).mean_square_error() ** 0.5 <= 13.7


def test_the_mean_is_that_of_every_single_range() -> None:
    plan = plan_ranges(12, HALF)
    ranges = [plan.covariance[a : b + 1, a : b + 1].sum() for a in range(12) for b in range(a, 12)]
    assert plan.mean_square_error() == pytest.approx(np.mean(ranges))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_no_unit_changes_what_is_measured_by_more_than_is_paid_for(law: str) -> None:
    plan = plan_ranges(40, Price(law=law, amount=Fraction(1, 2)), rows=3, touched=2)
    matrix = plan.strategy
    generator = np.random.default_rng(0)
    (event,) = plan.events
    largest = 0
    for _ in range(500):
        change = np.zeros(40, dtype=np.int64)
        change[generator.integers(40)] += 3
        change[generator.integers(40)] -= 3
        moved = matrix @ change
        norm = int(moved @ moved) if law == "gaussian" else int(np.abs(moved).sum())
        largest = max(largest, norm)
    if law == "gaussian":
        assert isinstance(event, ZCDPEvent)
        assert Fraction(largest) / (2 * plan.parameter) <= event.rho_ <= Fraction(1, 2)
    else:
        assert isinstance(event, ApproximateDPEvent)
        assert Fraction(largest) / plan.parameter <= event.epsilon <= Fraction(1, 2)


def test_parts_add_up_and_quantiles_lie_in_order() -> None:
    counts = np.random.default_rng(1).integers(0, 200, 100)
    for price in (Price(law="gaussian", amount=Fraction(10)), Price(law="laplace", amount=Fraction(10))):
        released = plan_ranges(100, price).measure(counts)
        parts = released.histogram([0, 10, 50, 100])
        assert sum(part.value for part in parts) == pytest.approx(released.count(0, 99).value)
        assert np.all(np.diff(released.totals) >= 0)
        truth = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
        middle, low, high = released.quantile(0.5)
        assert low <= middle <= high
        assert low <= truth <= high
        assert abs(middle - truth) <= 2


def test_any_number_of_cells_and_no_rows() -> None:
    for cells in (1, 2, 17):
        for law in ("gaussian", "laplace"):
            released = plan_ranges(cells, Price(law=law, amount=Fraction(1))).measure(np.zeros(cells, dtype=np.int64))
            assert released.count(0, cells - 1).error > 0
            assert 0 <= released.quantile(0.5)[0] < cells
    with pytest.raises(InvalidValueError, match="neighbouring"):
        plan_ranges(2000, HALF)
