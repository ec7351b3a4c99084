"""The solver: exact sums, a certificate that is never wrong, and a public answer where there is none."""

from fractions import Fraction

import numpy as np
import pytest

from hush.learn import convex_fits
from hush.learn.convex_fits import HUBER, LOGISTIC, STEP, Perturbation, certified_minimum
from hush.learn.features import Design, Knots, choose_knots, numeric_map

CHOICE = np.random.default_rng(20261116)  # picks rows, never noise


def case(loss, rows=400):
    codes = [CHOICE.integers(0, 4, rows), CHOICE.integers(0, 21, rows)]
    maps = [np.vstack([np.eye(3), np.zeros((1, 3))]), numeric_map(20, Knots(low=2, high=17, places=(2, 9, 17)))]
    design = Design(codes, maps)
    target = CHOICE.integers(0, 2, rows).astype(float) if loss is LOGISTIC else CHOICE.normal(0, 2, rows)
    how = Perturbation(
        loss=loss, radius_squared=Fraction(3), mu_squared=Fraction(1, 20), curvature=Fraction(1, 10), width=design.width
    )
    return design, target, how


def dense(design):
    columns = [np.ones((design.rows, 1))] + [m[c] for m, c in zip(design.maps, design.codes, strict=True)]
    return np.hstack(columns)


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER])
def test_sums_and_curvatures_are_those_of_the_dense_matrix(loss):
    design, target, _ = case(loss)
    x = dense(design)
    theta = CHOICE.normal(size=design.width)
    margins = design.margins(theta)
    assert np.allclose(margins, x @ theta)
    derivative = loss.derivative(margins, target)
    assert np.allclose(design.sums(derivative), x.T @ derivative, atol=1e-12)
    weight = loss.second(margins, target)
    assert np.allclose(design.curvature(weight), x.T @ (weight[:, None] * x), atol=1e-3)


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER])
def test_a_certified_minimum_has_the_gradient_it_promises(loss):
    design, target, how = case(loss)
    x, b, centre = dense(design), CHOICE.normal(0, 10, design.width), CHOICE.normal(size=design.width)
    theta = certified_minimum(how, design, target, centre, b)
    assert theta is not None
    gradient = x.T @ loss.derivative(x @ theta, target) + how.penalty * (theta - centre) + b
    assert np.linalg.norm(gradient) <= float(how.gamma)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_stopped_early_it_certifies_truly_or_not_at_all(steps):
    design, target, how = case(LOGISTIC)
    x, b, centre = dense(design), CHOICE.normal(0, 10, design.width), np.zeros(design.width)
    theta = certified_minimum(how, design, target, centre, b, steps=steps)
    if theta is not None:
        gradient = x.T @ LOGISTIC.derivative(x @ theta, target) + how.penalty * theta + b
        assert np.linalg.norm(gradient) <= float(how.gamma)
    assert certified_minimum(how, design, target, centre, b, steps=0) is None


def test_without_a_certificate_the_public_centre_is_released(monkeypatch):
    design, target, how = case(LOGISTIC)
    monkeypatch.setattr(convex_fits, "certified_minimum", lambda *_args, **_named: None)
    centre = np.linspace(-1, 1, design.width)
    released = how.release(design, target, centre)
    assert np.abs(released - centre).max() < 8 * float(how.output_sigma) + float(STEP)


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER])
@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one_row_have_a_minimum_too(loss, rows):
    design, target, how = case(loss, rows)
    b = CHOICE.normal(0, 10, design.width)
    theta = certified_minimum(how, design, target, np.zeros(design.width), b)
    assert theta is not None
    if rows == 0:
        assert np.allclose(theta, -b / how.penalty, atol=1e-6)


def test_the_noise_is_no_less_than_the_event_states():
    _, _, how = case(HUBER)
    assert how.radius_squared / how.sigma**2 <= how.mu_squared
    assert (2 * how.tolerance) ** 2 / how.output_sigma**2 <= how.mu_squared / 10**4
    assert Fraction(how.penalty) >= how.ridge


@pytest.mark.parametrize("places", [(), (0, 19), (3, 4, 5), (0, 1, 7, 18)])
def test_a_levels_features_have_a_squared_norm_of_at_most_one_exactly(places):
    part = numeric_map(20, Knots(low=0, high=19, places=places))
    assert all(sum(Fraction(value) ** 2 for value in row) <= 1 for row in part.tolist())
    assert not part[-1].any()
    if places:
        assert np.allclose(part[:-1, 1:].sum(axis=1), 59 / 64)


def test_knots_go_where_rows_are_and_resolve_spikes():
    counts = np.zeros(100)
    counts[0], counts[50:60] = 90_000, 1_000
    knots = choose_knots(counts + CHOICE.normal(0, 30, 100), 30.0, 8)
    assert knots.places[0] == 0
    assert 50 <= knots.places[-1] <= 75
    assert sum(50 <= place < 60 for place in knots.places) >= 3
    assert choose_knots(np.zeros(50), 1.0, 8).places == (0, 49)
