"""A black-box audit of fit: from fitted models alone, how large must ε be at least?

As in the audit of mechanisms, all bounds of one audit hold together with probability 1 − 10⁻⁶. A large δ and few
columns give the audit power: it must stay below ε, and catch a build whose noise is a quarter of what it should be.
"""

import math
import os

import numpy as np

from hush import learn
from hush.accounting import compose
from hush.learn import budget, convex_fits
from hush.noise import rounded_gaussian
from hush.utility import lower_bound, upper_bound

ALPHA = 1e-6
FITS = int(os.environ.get("HUSH_CASES", "600"))
DELTA = 0.02
SCHEMA = {"x": ["a"]}


def odds(rows, count=FITS):
    """Return the log-odds that so many fits of the same rows predict."""
    model = learn.LogisticRegression(SCHEMA, epsilon="2", delta=DELTA)
    labels = [1] * rows
    return np.array([model.fit({"x": ["a"] * rows}, labels).decision_function({"x": ["a"]})[0] for _ in range(count)])


def audited(one, other):
    """Return the largest ε that the fits rule out being undercut, over a few thresholds fixed beforehand."""
    thresholds = (-0.5, -0.2, 0.0, 0.2, 0.5)
    miss, best = ALPHA / (4 * len(thresholds)), 0.0
    for threshold in thresholds:
        for first, second in ((one, other), (other, one)):
            for event in (np.greater, np.less_equal):
                p = lower_bound(int(event(first, threshold).sum()), len(first), miss=miss) - DELTA
                q = upper_bound(int(event(second, threshold).sum()), len(second), miss=miss)
                best = max(best, math.log(p / q) if p > 0 else 0.0)
    return best


def test_fits_of_neighbours_stay_below_epsilon():
    assert audited(odds(1), odds(0)) <= 2
    assert compose([learn.LogisticRegression(SCHEMA, epsilon="2", delta=DELTA).event]).epsilon(DELTA).upper <= 2


def test_a_build_with_a_hundredth_of_the_noise_is_caught(monkeypatch):
    def weak(sigma, size=None):
        return rounded_gaussian(sigma / 100, size)

    monkeypatch.setattr(convex_fits, "rounded_gaussian", weak)
    monkeypatch.setattr(budget, "rounded_gaussian", weak)
    assert audited(odds(1, 300), odds(0, 300)) > 2
