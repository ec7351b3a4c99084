"""Noisy Newton steps: sums of integers, their sensitivity, and what a fit of them is worth."""

from fractions import Fraction

import numpy as np
import pytest

from hush.accounting import compose
from hush.core import InvalidValueError
from hush.learn import LogisticRegression, Regression, convex_fits
from hush.learn.convex_fits import NewtonDesign, inverse_moments

SCHEMA = {"x": (0, 99), "g": ["a", "b", "c"]}
MAPS = [np.array([[0.3, -0.2], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]), np.array([[0.7], [-0.1], [0.0]])]


@pytest.fixture
def _silent(monkeypatch):
    """No noise."""
    monkeypatch.setattr(convex_fits, "noisy", lambda values, _sigma: np.asarray(values, dtype=np.float64))
    monkeypatch.setattr(convex_fits, "rounded_gaussian", lambda _sigma, size: np.zeros(size, dtype=np.int64))


def rows_of(count, seed=0):
    draws = np.random.default_rng(seed)
    return [draws.integers(0, 4, count), draws.integers(0, 3, count)]


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_a_unit_moves_every_release_by_no_more_than_is_paid_for(unit_rows):
    """Any k rows beside any others: the change over the deviation is at most the μ that was asked for."""
    mu_squared = Fraction(1, 7)
    draws = np.random.default_rng(1)
    for _ in range(60):
        codes = rows_of(20 + unit_rows, int(draws.integers(10**6)))
        if draws.random() < 0.3:  # the same row k times, of the longest level
            codes = [np.where(np.arange(len(part)) >= 20, 1 - place, part) for place, part in enumerate(codes)]
        slopes = np.clip(draws.normal(size=20 + unit_rows) * 3, -1, 1)
        after = NewtonDesign.of(codes, MAPS, intercept=1.5, rows=unit_rows)
        before = NewtonDesign.of([part[:20] for part in codes], MAPS, intercept=1.5, rows=unit_rows)
        change = after.gradient(slopes, mu_squared) - before.gradient(slopes[:20], mu_squared)
        assert np.sum(change**2) <= float(mu_squared * after.gradient_deviation(mu_squared) ** 2) * (1 + 1e-9)
        (more, sigma), (fewer, _) = after.moments(mu_squared), before.moments(mu_squared)
        assert np.sum(np.triu(more - fewer) ** 2) <= float(mu_squared) * sigma**2 * (1 + 1e-9)


@pytest.mark.usefixtures("_silent")
def test_steps_without_noise_find_least_squares():
    codes = rows_of(500)
    rows = NewtonDesign.of(codes, MAPS, intercept=1.0, rows=1)
    truth = np.array([0.1, 0.3, -0.2, 0.25])
    target = rows.margins(truth)
    moments, _ = rows.moments(Fraction(1))
    inverse = inverse_moments(moments, 1e-9)
    found = rows.minimum(convex_fits.HUBER, target, np.zeros(4), inverse=inverse, steps=4, mu_squared=Fraction(1))
    assert np.allclose(rows.margins(found), target, atol=2e-3)


def table(count):
    draws = np.random.default_rng(5)
    x, g = draws.integers(0, 100, count).astype(float), draws.choice(["a", "b", "c"], count)
    return {"x": x, "g": g}, x, g


def test_classification_of_units_with_several_rows():
    """With 50,000 rows the noise on the curves is far below what they say; failing by chance is below 1e-6."""
    columns, x, g = table(50_000)
    model = LogisticRegression(SCHEMA, epsilon="2", rows=3).fit(columns, (x > 50).astype(int) ^ (g == "c"))
    assert compose([model.event]).epsilon("1e-6") <= 2
    shown = model.predict({"x": np.array([5.0, 95.0]), "g": np.array(["a", "a"])}).tolist()
    assert shown == [0, 1]
    assert "noise" in model.explain()


def test_regression_of_units_with_several_rows():
    """With 50,000 rows noise moves a prediction by a few per cent of the range; failing by chance is below 1e-6."""
    columns, x, g = table(50_000)
    model = Regression(SCHEMA, target=(0, 300), epsilon="2", rows=3).fit(columns, 2 * x + 50 * (g == "b"))
    assert compose([model.event]).epsilon("1e-6") <= 2
    shown = model.predict({"x": np.array([10.0, 90.0]), "g": np.array(["a", "b"])})
    assert np.all(np.abs(shown - [20, 230]) < 30)
    with pytest.raises(InvalidValueError, match="rows"):
        Regression(SCHEMA, target=(0, 300), rows=0).fit(columns, x)
