"""Answers for different inputs lie on one grid: their low bits say nothing.

A float sampler fails this at once: the sets of floats that x + noise can take differ from input to input (Mironov
2012), so one look at an answer may tell the input.
"""

import numpy as np
import pytest

from hush import Grid, noise

INPUTS = ["0", "1", "1/3"]
REALS = {
    "laplace": lambda size, centre: noise.rounded_laplace(3, size, centre=centre),
    "gaussian": lambda size, centre: noise.rounded_gaussian(3, size, centre=centre),
    "cauchy": lambda size, centre: noise.rounded_cauchy(3, size, centre=centre),
    "polynomial": lambda size, centre: noise.rounded_polynomial(3, size, a=3, centre=centre),
    "student": lambda size, centre: noise.rounded_student(3, size, nu=3, centre=centre),
}


def seen(answers):
    return set(np.asarray(answers).tolist())


@pytest.mark.parametrize("name", REALS)
def test_rounded_reals_reach_the_same_integers_from_every_input(name):
    """Each of -4 … 4 has probability above 0.02 for each input: one is missing from 5000 draws with chance < 10⁻⁴⁰."""
    for centre in INPUTS:
        answers = seen(REALS[name](5000, centre))
        assert all(type(answer) is int for answer in answers)
        assert answers >= set(range(-4, 5))


@pytest.mark.parametrize("draw", [noise.discrete_laplace, noise.discrete_gaussian])
def test_noise_on_a_grid_reaches_the_same_points_from_every_input(draw):
    grid = Grid("0.1")
    points = {k / 10 for k in range(-20, 21)}
    for value in INPUTS:
        index = grid.round(value)
        answers = grid.values(index + draw(20, 50_000))
        # Every point of the grid has one float, whatever the input was; each has a chance above 0.002.
        assert seen(answers) >= points
        assert all(answer == round(answer * 10) / 10 for answer in answers[:1000])


def test_float_noise_is_caught():
    rng = np.random.default_rng()
    supports = [seen(float(eval(value)) + rng.laplace(scale=3, size=5000)) for value in INPUTS]  # noqa: S307 - our own
    assert not supports[0] & supports[1] & supports[2]
    assert not all(float(answer).is_integer() for answer in supports[0])


def test_exact_values_survive_tiny_noise():
    for centre, expected in (("0.25", 0), ("0.75", 1), ("-7", -7), ("1e30", 10**30)):
        for draw in (noise.rounded_laplace, noise.rounded_gaussian):
            assert draw("1e-12", centre=centre) == expected
            assert set(draw("1e-12", 50, centre=centre).tolist()) == {expected}
    # Half-way, the sign of the noise alone decides. All forty alike: 2⁻³⁹ a time.
    assert {noise.rounded_laplace("1e-300", centre="0.5") for _ in range(40)} == {0, 1}
    assert seen(noise.rounded_laplace("1e-300", 40, centre="0.5")) == {0, 1}
