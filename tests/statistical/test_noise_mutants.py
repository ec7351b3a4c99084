"""Broken samplers, planted on purpose: each must be rejected by one of the checks that the real ones pass.

A mutant that slips through says that a check is too weak. All are so wrong that the chance of missing one is far
below 10⁻⁶.
"""

import math

import numpy as np
import pytest
from noise_checks import (
    DRAWS,
    accepts,
    coincidences,
    frequencies,
    gaussian_survival,
    geometric_survival,
    independence,
    laplace_survival,
    low_bits,
    rounded_survival,
    shape,
    symmetry,
    tails,
)
from scipy import stats
from test_noise_laws import gumbel, permute_and_flip, whole_check

from hush import noise

rng = np.random.default_rng()


def bytes_uniform(size, bits=8):
    return (rng.integers(0, 2**bits, size) + 0.5) / 2**bits


def signs(size):
    return rng.integers(0, 2, size) * 2 - 1


LAPLACE = {
    "zero counted twice": (1, lambda n: signs(n) * noise.geometric(1, n)),
    "zero counted half": (1, lambda n: (d := noise.discrete_laplace(1, n))[(d != 0) | noise.bernoulli("1/2", n)]),
    "an 8-bit uniform": (20, lambda n: signs(n) * np.floor(-20 * np.log(bytes_uniform(n))).astype(int)),
    "a 16-bit uniform at a large scale": (
        1e9,
        lambda n: np.rint(-1e9 * signs(n) * np.log(bytes_uniform(n, 16))).astype(int),
    ),
    "half the scale": (20, lambda n: noise.discrete_laplace(10, n)),
    "three per cent of scale": (1e3, lambda n: noise.discrete_laplace(970, n)),
    "numpy's real noise, rounded": (1, lambda n: np.rint(rng.laplace(scale=1, size=n)).astype(int)),
    "numpy's real noise, rounded down": (20, lambda n: np.floor(rng.laplace(scale=20, size=n)).astype(int)),
    "numpy's noise on a coarse grid": (1e9, lambda n: 256 * np.rint(rng.laplace(scale=1e9 / 256, size=n)).astype(int)),
    "a cut tail": (20, lambda n: np.clip(noise.discrete_laplace(20, n), -150, 150)),
    "a biased sign": (20, lambda n: np.abs(noise.discrete_laplace(20, n)) * np.where(rng.random(n) < 0.51, 1, -1)),
    "always positive": (20, lambda n: np.abs(noise.discrete_laplace(20, n))),
    "shifted by one": (20, lambda n: noise.discrete_laplace(20, n) + 1),
    "each draw used twice": (20, lambda n: np.repeat(noise.discrete_laplace(20, n // 2), 2)),
    "one draw for ever": (20, lambda n: np.full(n, noise.discrete_laplace(20))),
    "a short cycle of the stream": (1e9, lambda n: np.tile(noise.discrete_laplace("1e9", n // 10), 10)),
    "no noise": (0.3, lambda n: np.zeros(n, dtype=int)),
    "a stuck low bit": (1e9, lambda n: noise.discrete_laplace("1e9", n) & ~1),
    "Gaussian instead": (20, lambda n: noise.discrete_gaussian(28, n)),
}

GAUSSIAN = {
    "the variance taken for sigma": (5, lambda n: noise.discrete_gaussian(variance=5, size=n)),
    "half the sigma": (5, lambda n: noise.discrete_gaussian("2.5", n)),
    "three per cent of sigma": (500, lambda n: noise.discrete_gaussian(485, n)),
    "numpy's normal, rounded": (0.3, lambda n: np.rint(rng.normal(0, 0.3, n)).astype(int)),
    "a sum of twelve uniforms": (1e9, lambda n: np.rint(1e9 * (rng.random((12, n)).sum(axis=0) - 6)).astype(int)),
    "zero counted twice": (
        1,
        lambda n: (d := noise.discrete_gaussian(1, n)) * (1 - (rng.random(n) < 0.2) * (abs(d) == 1)),
    ),
    "a table without its tail": (5, lambda n: np.clip(noise.discrete_gaussian(5, n), -18, 18)),
    "offsets left out": (500, lambda n: noise.discrete_gaussian(500, n) & ~15),
    "Laplace instead": (5, lambda n: noise.discrete_laplace("3.5", n)),
}


@pytest.mark.parametrize("name", LAPLACE)
def test_laplace_mutants_are_caught(name):
    scale, mutant = LAPLACE[name]
    collision = 1 / (4 * scale) if scale > 1e8 else None
    assert not accepts(*whole_check(mutant(DRAWS), laplace_survival(scale), scale, collision))


@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_mutants_are_caught(name):
    sigma, mutant = GAUSSIAN[name]
    collision = 1 / (2 * sigma * math.sqrt(math.pi)) if sigma > 1e8 else None
    assert not accepts(*whole_check(mutant(DRAWS), gaussian_survival(sigma), sigma, collision))


def test_other_mutants_are_caught():
    modulo = rng.integers(0, 256, DRAWS) % 100
    assert not accepts(frequencies(modulo, np.full(100, 0.01)))
    eight_bits = (rng.integers(0, 256, DRAWS) < 3).astype(int)  # 3/256 for 1/100
    assert not accepts(frequencies(eight_bits, np.array([0.99, 0.01])))
    scores = [0, 1, 3, 2, 3]
    asked, doubled = gumbel(scores, 0.7), gumbel(scores, 1.4)
    assert not accepts(frequencies(rng.choice(5, 30_000, p=doubled), asked))
    assert not accepts(frequencies(rng.choice(5, 30_000, p=asked), gumbel(scores, 0.7, [5, 1, 0, 2, 1])))
    assert not accepts(frequencies(rng.choice(5, 30_000, p=asked), permute_and_flip(scores, 0.7)))
    unrejected = np.rint(signs(DRAWS) * np.where(rng.random(DRAWS) < 0.5, u := rng.random(DRAWS), 1 / u)).astype(int)
    assert not accepts(shape(unrejected, rounded_survival(stats.cauchy.sf)))
    assert not accepts(shape(noise.geometric(20, DRAWS) + 1, geometric_survival(20)))


def test_each_check_can_reject():
    draws = noise.discrete_laplace(20, DRAWS)
    law = laplace_survival(20)
    assert not accepts(shape(draws + 1, law))
    assert not accepts(tails(draws * (1 + (np.abs(draws) > 150)), law))
    assert not accepts(symmetry(np.where(draws > 0, draws + draws % 2, draws)))
    assert not accepts(low_bits(draws))
    assert not accepts(independence(np.sort(draws)))
    assert not accepts(coincidences(draws, 1e-6))
