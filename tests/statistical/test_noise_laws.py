"""A million draws of each law stand every check. False-alarm probability per test: at most 10⁻⁶ (see noise_checks)."""

import math
from itertools import permutations

import numpy as np
import pytest
from noise_checks import (
    ALPHA,
    DRAWS,
    LEAST,
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
from scipy import integrate, stats

from hush import noise
from hush.noise.bits import system_bits
from hush.noise.race import draw_order, prepare


def singles(chance):
    """Return how many coins are tossed one by one: so many that the rarer side is expected a hundred times."""
    rarer = min(chance, 1 - chance)
    return max(20_000, math.ceil(1.1 * LEAST / rarer)) if rarer else 20_000


def whole_check(draws, survival, scale, collision=None, *, symmetric=True):
    """Return every check that applies to a law on the integers."""
    checks = [shape(draws, survival), tails(draws, survival), independence(draws)]
    if symmetric:
        checks.append(symmetry(draws))
    if scale > 2**14:
        checks.append(low_bits(draws))
    if collision is not None:
        checks.append(coincidences(draws, collision))
    return checks


@pytest.mark.parametrize("scale", ["0.3", "1", "20", "1e3", "1e9"])
def test_discrete_laplace(scale):
    s = float(scale)
    draws = noise.discrete_laplace(scale, DRAWS)
    assert draws.dtype == np.int64
    assert accepts(*whole_check(draws, laplace_survival(s), s, 1 / (4 * s) if s > 1e8 else None))


@pytest.mark.parametrize("sigma", ["0.3", "1", "5", "500", "1e9"])
def test_discrete_gaussian(sigma):
    s = float(sigma)
    draws = noise.discrete_gaussian(sigma, DRAWS)
    collision = 1 / (2 * s * math.sqrt(math.pi)) if s > 1e8 else None
    assert accepts(*whole_check(draws, gaussian_survival(s), s, collision))


@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian", "geometric"])
@pytest.mark.parametrize("power", [59, 60, 63, 100, 600])
def test_laws_that_64_bits_do_not_hold(name, power):
    """Of scale 2^power: the high bits have its shape; those at both ends of the words that it is made of are uniform.

    ⌊X/2^m⌋ ≥ k if X ≥ k·2^m, whose probability is that of a scale of 2²⁰ but for a factor of 1 ± 2⁻²⁰.
    """
    law = {
        "discrete_laplace": laplace_survival,
        "discrete_gaussian": gaussian_survival,
        "geometric": geometric_survival,
    }
    survival = law[name](2.0**power)
    whole = getattr(noise, name)(2**power, DRAWS // 10).astype(object)
    assert all(type(value) is int for value in whole[:1000])
    draws = (whole >> (power - 20)).astype(np.int64)
    checks = [shape(draws, lambda k: survival(k * 2.0 ** (power - 20))), independence(draws)]
    checks += [low_bits(((whole >> low) & 255).astype(np.int64)) for low in (0, 28, power - 35, power - 20)]
    if name != "geometric":
        checks.append(symmetry(draws * 2 + 1))  # ⌊X/2^m⌋ + 1/2, which is as likely as its negative
    assert accepts(*checks)


@pytest.mark.parametrize("scale", ["0.3", "1", "20", "1e9"])
def test_geometric(scale):
    draws = noise.geometric(scale, DRAWS)
    assert accepts(*whole_check(draws, geometric_survival(float(scale)), float(scale), symmetric=False))
    assert draws.min() >= 0


@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian", "geometric"])
@pytest.mark.parametrize("scale", ["1", "3e6"])
def test_scalar_draws_have_the_same_law(name, scale):
    law = {
        "discrete_laplace": laplace_survival,
        "discrete_gaussian": gaussian_survival,
        "geometric": geometric_survival,
    }
    draw = getattr(noise, name)
    draws = np.array([draw(scale) for _ in range(40_000)])
    assert accepts(shape(draws, law[name](float(scale)), cells=30), independence(draws))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 257])
def test_uniform_integers(n):
    many, each = noise.uniform_integer(n, DRAWS), np.array([noise.uniform_integer(n) for _ in range(40_000)])
    p = np.full(n, 1 / n)
    assert accepts(frequencies(many, p), frequencies(each, p), independence(many))


def test_wide_uniform_integers():
    draws = noise.uniform_integer(3 * 2**61, DRAWS)
    assert accepts(frequencies(draws >> 56, np.full(96, 1 / 96)), low_bits(draws), coincidences(draws, 1e-12))


def test_uniform_integers_below_many_bounds():
    """Bounds in turn, so that those that begin anew are mixed; then of more bits than a word has."""
    bounds = np.array([1, 2, 3, 7, 100, 257])
    draws = noise.uniform_integers(np.tile(bounds, DRAWS // 6)).reshape(-1, 6).T
    assert accepts(*(frequencies(one, np.full(n, 1 / n)) for one, n in zip(draws, bounds, strict=True)))
    assert accepts(*(independence(one) for one in draws))
    wide = noise.uniform_integers(np.full(DRAWS, 3 * 2**61))
    assert accepts(frequencies(wide >> 56, np.full(96, 1 / 96)), low_bits(wide))
    wider = noise.uniform_integers([3 * 2**100] * (DRAWS // 10))
    high, low = ((wider >> shift & 1023).astype(np.int64) for shift in (95, 0))
    assert accepts(frequencies(high, np.full(96, 1 / 96)), frequencies(low >> 2, np.full(256, 1 / 256)))


def test_permutations():
    orders = {order: at for at, order in enumerate(permutations(range(4)))}
    draws = np.array([orders[tuple(noise.permutation(4).tolist())] for _ in range(40_000)])
    assert accepts(frequencies(draws, np.full(24, 1 / 24)))


@pytest.mark.parametrize("p", ["0", "1", "1/3", "0.001", "0.999"])
def test_bernoulli(p):
    chance = float(eval(p))  # noqa: S307 - our own five strings
    many, each = noise.bernoulli(p, DRAWS), np.array([noise.bernoulli(p) for _ in range(singles(chance))])
    law = np.array([1 - chance, chance])
    assert accepts(frequencies(many.astype(int), law), frequencies(each.astype(int), law))


@pytest.mark.parametrize("x", [0, "0.5", "1", "7"])
def test_bernoulli_exp(x):
    chance = math.exp(-float(x))
    many, each = noise.bernoulli_exp(x, DRAWS), np.array([noise.bernoulli_exp(x) for _ in range(singles(chance))])
    law = np.array([1 - chance, chance])
    assert accepts(frequencies(many.astype(int), law), frequencies(each.astype(int), law))


def permute_and_flip(scores, rate):
    """P[i] = ∫ e⁻ˣ ∏_{j≠i} P[E_j < x + c(s_i - s_j)] dx, by quadrature from where all factors are positive."""
    probabilities = []
    for i, own in enumerate(scores):
        gaps = [rate * (own - other) for j, other in enumerate(scores) if j != i]

        def density(x, gaps=gaps):
            return math.exp(-x) * math.prod(-math.expm1(-max(0.0, x + gap)) for gap in gaps)

        start = max(0.0, *(-gap for gap in gaps))
        probabilities.append(integrate.quad(density, start, start + 60, epsabs=1e-13, epsrel=1e-12)[0])
    return np.array(probabilities)


def gumbel(scores, rate, weights=None):
    mass = np.exp(rate * np.array(scores, dtype=float)) * (1 if weights is None else np.array(weights))
    return mass / mass.sum()


def selections(draws, scores, rate, *, weights=None, race="gumbel", count=1):
    """Prepare a race once, as `noise.select` does each time, and run it many times."""
    field = prepare(scores, rate, weights, race)
    return np.array([draw_order(field, count, system_bits()) for _ in range(draws)]).squeeze()


def test_select_by_gumbel():
    scores, weights = [0, 1, 3, 2, 3], [5, 1, 0, 2, 1]
    array = np.array(scores)
    plain = selections(30_000, array, "0.7")
    weighted = selections(30_000, array, "0.7", weights=np.array(weights))
    assert accepts(frequencies(plain, gumbel(scores, 0.7)), frequencies(weighted, gumbel(scores, 0.7, weights)))


def test_select_by_permute_and_flip():
    scores = [0, 1, 3, 2, 3]
    p = permute_and_flip(scores, 0.7)
    assert math.isclose(p.sum(), 1, rel_tol=1e-9)
    assert accepts(frequencies(selections(30_000, np.array(scores), "0.7", race="exponential"), p))


def test_select_several():
    """The first two of a Gumbel race are two draws without replacement."""
    p = gumbel([0, 1, 2], 1)
    pairs = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j}
    codes = {pair: at for at, pair in enumerate(pairs)}
    scores = np.arange(3)
    draws = np.array([codes[tuple(pair)] for pair in selections(30_000, scores, 1, count=2).tolist()])
    assert accepts(frequencies(draws, np.array(list(pairs.values()))))


def cauchy_sf(gamma):
    """P[Z > z] for the density ∝ 1/(1+|z|^γ), through the regularised incomplete beta function."""

    def sf(z):
        # t = 1/(1+|z|^γ) has P[T < t] = I_t(1-1/γ, 1/γ), given the sign.
        half = stats.beta.cdf(1 / (1 + np.abs(z) ** gamma), 1 - 1 / gamma, 1 / gamma) / 2
        return np.where(z >= 0, half, 1 - half)

    return sf


def polynomial_sf(a):
    def sf(z):
        half = (1 + np.abs(z)) ** (1 - a) / 2
        return np.where(z >= 0, half, 1 - half)

    return sf


REALS = {
    "laplace": (noise.rounded_laplace, {}, stats.laplace.sf),
    "gaussian": (noise.rounded_gaussian, {}, stats.norm.sf),
    "cauchy 2": (noise.rounded_cauchy, {"gamma": 2}, stats.cauchy.sf),
    "cauchy 4": (noise.rounded_cauchy, {"gamma": 4}, cauchy_sf(4)),
    "polynomial": (noise.rounded_polynomial, {"a": 3}, polynomial_sf(3)),
    "student": (noise.rounded_student, {"nu": 3}, stats.t(3).sf),
}


@pytest.mark.parametrize("name", REALS)
@pytest.mark.parametrize(("scale", "centre"), [("1", "0"), ("3.7", "0.3"), ("1000", "1/3")])
def test_rounded_reals(name, scale, centre):
    draw, options, sf = REALS[name]
    s, c = float(scale), float(eval(centre))  # noqa: S307 - our own three strings
    size = DRAWS // 2
    draws = draw(scale, size, centre=centre, **options)
    if draws.dtype == object:
        draws = np.array([max(-(2**62), min(2**62, value)) for value in draws], dtype=np.int64)
    survival = rounded_survival(lambda y: sf((y - c) / s))
    assert accepts(shape(draws, survival), tails(draws, survival), independence(draws))


@pytest.mark.parametrize("name", REALS)
def test_scalar_rounded_reals_have_the_same_law(name):
    draw, options, sf = REALS[name]
    draws = np.array([max(-(2**62), min(2**62, draw("3.7", centre="0.3", **options))) for _ in range(10_000)])
    assert accepts(shape(draws, rounded_survival(lambda y: sf((y - 0.3) / 3.7)), cells=20))


def test_the_thresholds_follow_from_the_false_alarm_rate():
    assert ALPHA * 10 <= 1e-6
    assert stats.chi2.sf(stats.chi2.isf(ALPHA, 59), 59) == pytest.approx(ALPHA, rel=1e-6)
