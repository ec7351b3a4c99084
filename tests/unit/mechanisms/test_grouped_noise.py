"""Half-widths of several noises together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from hush.mechanisms.grouped import GroupedGaussian, GroupedLaplace, sum_error

DRAWS = 200_000


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize(
    "parts",
    [
        ((1, 10), (1, 10)),
        ((1, 10), (1, 10), (-1, 10)),
        ((Fraction(1, 1000), 5000), (Fraction(1, 1000), 5000), (Fraction(-1, 1000), 5000)),
        ((Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 3), Fraction(1, 2))),
        ((2, 300), (5, 100), (5, 100), (5, 100)),
        ((1, 300), (5, 100), (5, 100), (Fraction(1, 7), 9000)),
        ((Fraction(1, 100), 10**6), (2500, 10)),
        ((Fraction(1, 100), 10**5), (2500, Fraction(1, 5))),
        ((1, Fraction(1, 3)), (-60, Fraction(1, 3))),
        ((3, 5000), (1, 9000)),
    ],
)
def test_the_least_width_of_laplace_noises(parts, confidence: float) -> None:
    """No more draws lie strictly inside than the confidence says, and no fewer inside or at the edge: 1e-7 each."""
    parts = [(Fraction(factor), GroupedLaplace(scale=Fraction(scale))) for factor, scale in parts]
    width = float(sum_error(parts, confidence))
    draws = np.abs(sum(float(factor) * law.draw(DRAWS).astype(float) for factor, law in parts))
    slack = 4e-3  # what the points summed over leave out: 3e-3 where the widest noise has the widest steps
    within, strictly = np.count_nonzero(draws <= width * (1 + 1e-9)), np.count_nonzero(draws < width * (1 - 1e-9))
    assert within >= binom.ppf(1e-7, DRAWS, confidence - slack)
    assert strictly <= binom.isf(1e-7, DRAWS, confidence + slack)


def test_two_gaussians_are_one() -> None:
    parts = [
        (Fraction(3), GroupedGaussian(sigma=Fraction(1000))),
        (Fraction(-4), GroupedGaussian(sigma=Fraction(1000))),
    ]
    assert float(sum_error(parts, 0.95)) == pytest.approx(1.959964 * 5000 + 3.5)


def test_what_counts_for_nothing_is_left_out() -> None:
    law = GroupedLaplace(scale=Fraction(10))
    assert sum_error([(Fraction(2), law), (Fraction(0), law)], 0.95) == 2 * law.error(0.95)


@pytest.mark.parametrize("size", [1, 40, 401])
@pytest.mark.parametrize("spread", ["1/50", "1/2", "3", "40", "99", "1000", "123456789/7"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_imagined_noise_has_the_quantiles_of_its_law(kind: str, spread: str, size: int) -> None:
    """The i-th of n in order has at most (i + 1/2)/n of the law below it, and at least as much up to it."""
    law = GroupedLaplace(scale=Fraction(spread)) if kind == "laplace" else GroupedGaussian(sigma=Fraction(spread))
    drawn = np.sort(law.imagine(size))
    assert np.array_equal(drawn, np.rint(drawn))
    assert np.array_equal(drawn, -drawn[::-1])
    for at, value in enumerate(drawn[size // 2 :].astype(int).tolist(), start=size // 2):
        share = abs((2 * at + 1) / size - 1)
        assert law.within(value) >= share - 1e-4 * (float(Fraction(spread)) > 100) - 1e-9
        assert value == 0 or law.within(value - 1) <= share + 1e-4 * (float(Fraction(spread)) > 100) + 1e-9


def test_imagined_noises_have_orders_of_their_own() -> None:
    """Two orders of 400 correlate by less than 0.3: six standard deviations, false alarm below 1e-8."""
    law = GroupedLaplace(scale=Fraction(10))
    first, second = law.imagine(400), law.imagine(400)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3
