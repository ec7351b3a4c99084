"""The accuracies promised; each threshold is so far from the expected figure that a false alarm is below 1e-6."""

import numpy as np
import pytest

from hush.mechanisms import count, histogram, mean, median

RNG = np.random.default_rng(20_261_115)


def median_errors(runs=200, **arguments):
    errors = []
    for _ in range(runs):
        data = RNG.normal(size=1001)
        errors.append(abs(float(median(data, bounds=(-1000, 1000), epsilon=1, **arguments)) - np.median(data)))
    return np.array(errors)


def test_the_default_median():
    """Expected 0.0032; a rank is off by a two-sided geometric variable, so the mean of 200 has deviation 0.0003."""
    assert median_errors().mean() <= 0.0075


def test_the_default_median_under_replace():
    assert median_errors(neighbours="replace").mean() <= 0.0095  # expected 0.0057, deviation 0.0004


def test_the_median_by_smooth_sensitivity():
    """Expected 0.0117; the noise has tails of power 4.5, so single runs are capped at 20 times that."""
    errors = median_errors(method="smooth")
    assert np.minimum(errors, 0.25).mean() <= 0.022
    assert np.median(errors) <= 0.012


def test_counts_have_the_variance_of_the_optimal_noise():
    draws = np.array([count(np.ones(5), epsilon=1).value - 5 for _ in range(20_000)])
    # Var of a sample variance ≈ (κ-1)σ⁴/n with kurtosis 6.5: deviation 0.031; six of them.
    assert draws.var() == pytest.approx(1.8413, abs=0.19)
    cells = histogram(np.zeros(10, dtype=int), categories=200_000, epsilon=1).value[1:]
    assert cells.var() == pytest.approx(1.8413, abs=0.06)


@pytest.mark.parametrize("arguments", [{"bounds": (-1000, 1000)}, {}])
def test_a_mean_of_unknown_location(arguments):
    """Median absolute error to the sample mean, expected 0.008: half of 100 runs beyond 0.03 is all but impossible."""
    errors = []
    for _ in range(100):
        data = RNG.normal(50, 1, 1000)
        errors.append(abs(float(mean(data, epsilon=1, **arguments)) - data.mean()))
    assert np.median(errors) <= 0.03
