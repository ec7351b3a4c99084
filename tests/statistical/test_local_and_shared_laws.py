"""Local reports and shares of noise, drawn for real: their laws and the errors they promise.

Each check rejects with probability below 10⁻⁷ under the stated law; no test makes more than ten.
"""

import math

import numpy as np
import pytest
from noise_checks import ALPHA, laplace_survival, shape
from scipy import stats

from hush import local, noise
from hush.distributed import LaplaceShare, price_of_trust
from hush.mechanisms import RandomizedResponse


@pytest.mark.parametrize(("epsilon", "honest"), [("0.1", 14), ("1", 14), ("1", 2)])
def test_summed_shares_are_discrete_laplace(epsilon, honest):
    share = LaplaceShare(epsilon=epsilon, parties=honest, honest=honest)
    total = sum(share.draw(size=1_000_000) for _ in range(honest))
    assert shape(total, laplace_survival(float(share.scale))) > ALPHA


def test_one_share_missing_is_not():
    """The check above finds a missing share, so it could fail."""
    share = LaplaceShare(epsilon="0.1", parties=14, honest=14)
    total = sum(share.draw(size=300_000) for _ in range(13))
    assert shape(total, laplace_survival(float(share.scale))) < ALPHA


@pytest.mark.parametrize("variance", [3, 400])
def test_skellam_draws(variance):
    draws = noise.skellam(variance, size=300_000)
    cells = np.arange(-6 * int(variance**0.5), 6 * int(variance**0.5) + 1)
    masses = stats.skellam.pmf(cells, variance / 2, variance / 2)
    keep = masses * len(draws) > 100
    counts = np.array([np.count_nonzero(draws == k) for k in cells[keep]])
    expected = masses[keep] * len(draws)
    rest = len(draws) - counts.sum(), len(draws) - expected.sum()
    statistic = ((counts - expected) ** 2 / expected).sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1)
    assert stats.chi2.sf(statistic, keep.sum()) > ALPHA


def test_the_reports_of_projective_geometry_follow_their_law():
    oracle = local.ProjectiveGeometry(epsilon=1, categories=20)
    reports = oracle.release([7] * 200_000)
    counts = np.bincount(reports, minlength=oracle.points)
    p, _ = oracle.support
    orthogonal = counts > counts.mean()
    assert orthogonal.sum() == round(p * 200_000 / counts[orthogonal].mean())
    expected = np.where(orthogonal, p / orthogonal.sum(), (1 - p) / (~orthogonal).sum()) * 200_000
    assert stats.chisquare(counts, expected).pvalue > ALPHA


@pytest.mark.parametrize("value", [0, 30, 100])
def test_local_means_are_unbiased_with_the_stated_variance(value):
    mechanism = local.mean(epsilon=2, lower=0, upper=100)
    estimates = np.array([mechanism.estimate(mechanism.release([value] * 50)) for _ in range(400)])
    deviation = math.sqrt(mechanism.variance(count=50, value=value))
    assert abs(estimates.mean() - value) < 5.5 * deviation / 20
    ratio = estimates.var(ddof=1) / deviation**2 * 399
    assert ALPHA / 2 < stats.chi2.cdf(ratio, 399) < 1 - ALPHA / 2


def test_local_vector_means_keep_their_error():
    mechanism = local.vector_mean(epsilon=4, dimensions=20)
    rows = np.zeros((4000, 20))
    rows[:, 3], rows[:, 11] = 0.6, 0.8
    estimate = mechanism.estimate(mechanism.release(rows))
    spread = 4000 * ((estimate - rows[0]) ** 2).sum() / mechanism.squared_error(count=1)
    # About a chi-square over twenty, whose tail beyond four times its mean is below 10⁻⁸.
    assert 0.05 < spread < 4
    short = mechanism.estimate(mechanism.release(rows * 0.25))
    assert abs(short[11] - 0.2) < 6 * math.sqrt(mechanism.squared_error(count=4000) / 20) * 1.6


def test_heavy_hitters_are_found_with_honest_bars():
    words = ["flu"] * 9000 + ["covid"] * 6000 + [f"x{i}" for i in range(3000)]
    found = local.heavy_hitters(epsilon=5, length=5, keep=8).run(words, confidence="0.9999999")
    assert found.words[:2] == ("flu", "covid")
    # The last round is a random fifth of the people: its own share of a word moves by sampling as well.
    sampling = 6 * math.sqrt(0.25 / 3600)
    assert abs(found.frequencies[0] - 0.5) < found.error + sampling
    assert abs(found.frequencies[1] - 1 / 3) < found.error + sampling


@pytest.mark.parametrize("model", ["central", "aggregated, 10% lost", "aggregated, 33% lost", "shuffled", "local"])
def test_the_price_of_trust_by_running_it(model):
    """Each model counts 1,000 people many times, and its mean squared error is that of the formula.

    A mean of squares of R errors deviates by at most √(5/R) of itself, as none has a kurtosis above 6 at this ε.
    """
    people, yes, runs = 1000, 300, 500
    row = next(row for row in price_of_trust(epsilon=1, people=people) if row.model == model)
    if row.local_epsilon is not None:
        mechanism = RandomizedResponse(epsilon=row.local_epsilon)
        answers = [1] * yes + [0] * (people - yes)
        errors = [float(mechanism.estimate(mechanism.release(answers))[1]) * people - yes for _ in range(runs)]
    elif model == "central":
        errors = (noise.discrete_laplace(1, size=runs)).tolist()
    else:
        lost = 100 if "10%" in model else 333
        share = LaplaceShare(epsilon=1, parties=people, honest=people - lost)
        errors = share.draw(size=(runs, people)).sum(axis=1).tolist()
    ratio = float(np.mean(np.square(errors))) / row.deviation**2
    assert abs(ratio - 1) < 6 * math.sqrt(5 / runs)
