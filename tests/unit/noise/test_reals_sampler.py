"""Rounded reals: boundaries between integers, and acceptances, are where the ideal real puts them."""

import dataclasses
from fractions import Fraction

import flint
import numpy as np
import pytest
from enumeration import ONES, arb, bracket, contains, random_words, script

from hush.noise import reals
from hush.noise.reals import cauchy, draw_many, draw_one, gaussian, laplace, polynomial, student

LAWS = {
    "laplace": laplace(),
    "gaussian": gaussian(),
    "cauchy": cauchy(Fraction(2)),
    "cauchy 1.5": cauchy(Fraction(3, 2)),
    "polynomial": polynomial(Fraction(3)),
    "student": student(Fraction(3)),
    "student wide": student(Fraction(10**9)),
}
SECOND = {True: 0, False: ONES}  # the word of the branch coin


def words(law, first, other, *, second=False, negative=0):
    return [negative] * law.signed + [SECOND[second]] * bool(law.branch) + [first, other]


def scalar(law, scale, centre, given, fill):
    return draw_one(law, scale, centre, script(*given, fill=fill))


def vector(law, scale, centre, given, fill):
    return int(draw_many(law, scale, centre, 1, script(*given, fill=fill))[0])


def quantile(name, z, *, second):
    """Return the U at which the standard real equals z (for Student with the angle 0)."""
    return {
        "laplace": lambda: 1 / z.exp(),
        "cauchy": lambda: 1 / z if second else z,
        "cauchy 1.5": lambda: 1 / z.sqrt() if second else z,
        "polynomial": lambda: (1 + z) ** -2,
        "student": lambda: (1 + z * z / 3) ** arb("-3/2"),
        "student wide": lambda: (1 + z * z / 10**9) ** arb(-5 * 10**8),
    }[name]()


@pytest.mark.parametrize("draw", [scalar, vector])
@pytest.mark.parametrize("name", [name for name in LAWS if name != "gaussian"])  # its real is that of Laplace
@pytest.mark.parametrize(
    ("scale", "centre", "k"), [("3", "1/3", 1), ("1000", "1/3", 700), ("0.7", "-2.25", -1), ("1e6", "1/3", 99)]
)
def test_rounding_boundaries(name, scale, centre, k, draw):
    """Count the words of U that lead to k or more, by bisection on the program, with U' such that it accepts."""
    law, s, c = LAWS[name], Fraction(scale), Fraction(centre)
    edge = (k - Fraction(1, 2) - c) / s
    second = bool(law.branch) and edge > 1
    falling = not law.branch or second

    def reached(first, fill):
        return (draw(law, s, c, words(law, first, 1 << 20, second=second), fill) >= k) == falling

    # Student's angle 2⁻⁴³ is not quite 0: its cosine differs from 1 by 2⁻⁸³, which no 64-bit boundary shows.
    assert contains(bracket(reached, 64), 64, lambda: quantile(name, arb(edge), second=second))


@pytest.mark.parametrize("name", ["gaussian", "cauchy", "cauchy 1.5"])
@pytest.mark.parametrize("second", [False, True])
def test_acceptance(name, second):
    """Count the words of U' that accept, at several U: scalar and vector, against the formula."""
    law = LAWS[name]
    for first in (2**63, 2**62 + 999, 2**64 - 2**40, 2**50, 2**44 + 1):
        # Refinement alternates: U goes on with zeros, so that it is a known number; U' with the fill.
        def one(other, fill, first=first):
            return (
                reals.resolve(law, Fraction(5), Fraction(1, 3), second, (first, other), script(*[0, fill] * 60))
                is not None
            )

        def many(other, fill, first=first):
            given = words(law, first, other, second=second)
            _, rejected = reals._propose(law, Fraction(5), Fraction(1, 3), 1, script(*given, *[0, fill] * 60))
            return not len(rejected)

        def truth(first=first):
            u = arb(Fraction(first, 2**64))
            if name == "gaussian":
                return (-((-u.log() - 1) ** 2) / 2).exp()
            gamma = arb(2 if name == "cauchy" else "3/2")
            y = u ** (1 / (gamma - 1)) if second else u
            return 1 / (1 + y**gamma)

        assert contains(bracket(one, 64), 64, truth)
        assert contains(bracket(many, 64), 64, truth)


@pytest.mark.parametrize("name", LAWS)
def test_float_level_and_fallback_agree_on_the_same_words(name):
    law = LAWS[name]

    def blind(u, v, second):
        z, error, chance, _ = law.floats(u, v, second)
        return z, np.full_like(error, np.inf), chance, np.inf

    slow = dataclasses.replace(law, floats=blind)
    for scale, centre in (
        (Fraction(3), Fraction(1, 3)),
        (Fraction(10**5), Fraction(7)),
        (Fraction(1, 10**9), Fraction(1, 2)),
    ):
        count = 300
        given = random_words(count * (law.signed + bool(law.branch) + 2))
        results = [reals._propose(chosen, scale, centre, count, script(*given, fill=3)) for chosen in (law, slow)]
        assert results[0][0].tolist() == results[1][0].tolist()
        assert results[0][1].tolist() == results[1][1].tolist()


def test_extreme_parameters():
    assert abs(reals.rounded_student(1, nu=10**400)) < 50
    assert np.abs(reals.rounded_student(1, 20, nu=10**400)).max() < 50
    assert set(np.abs(reals.rounded_cauchy(1, 40, gamma=10**400)).tolist()) <= {0, 1}
    assert abs(reals.rounded_cauchy(1, gamma=10**400)) <= 1
    assert reals.rounded_polynomial(1, 5, a=10**400).tolist() == [0] * 5
    assert reals.rounded_cauchy(1, 200, gamma="1.01").dtype == object
    assert reals.rounded_laplace("1e400", 3).dtype == object
    assert abs(reals.rounded_laplace("1e400")) > 10**350
    assert reals.rounded_gaussian("1e-400", 3, centre="1e400").tolist() == [10**400] * 3
    assert reals.rounded_polynomial("1e-320", 50, a="1.01", centre="0.49").shape == (50,)


def test_the_precision_of_others_is_left_alone():
    before = flint.ctx.prec
    flint.ctx.prec = 77
    try:
        reals.rounded_gaussian(3)
        with pytest.raises(EOFError):  # fails half-way, for want of bits
            draw_one(laplace(), Fraction(10**60), Fraction(0), script(0, 2**63, 0))
        assert flint.ctx.prec == 77
    finally:
        flint.ctx.prec = before
