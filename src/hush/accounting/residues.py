r"""The profile of a few Laplace and bounded-range steps at many arguments, in double precision.

:mod:`.expansion` writes the moment as Σ e^{sx}·q_x(1/s), s = z + 1/2. With each coefficient scaled to
a_{x,j} = e^{x/2}·q_{x,j}, the profile at any real argument t is

    δ(t) = Σ_{x>t} Σ_j a_{x,j}·r_j(x−t),   r_j(y) = e^{-y/2}R_j(y) = 2^{j+1}·P(N ≥ j+1, N − j odd),

N a Poisson variable of mean v = y/2: r_0 = 1 − e^{-y}, r_1 = 2(1 − e^{-y/2})². For v < j + 3 the probability is summed
from its first term, all terms positive; the sum of the terms left out after n more of one parity is below the last
one, for there v²/(r(r+1)) < 1/2. For larger v it is (1 ± e^{-y})/2 less the terms below j+1, which is at least 1/8 and
so loses no more than three bits.

The a_{x,j} alternate in sign; the error bound is in units of the sum of moduli, so what cancels is accounted for.
r_j' = r_{j-1} − r_j/2 with r_{-1} = (1+e^{-y})/2, whence |r_j'| ≤ r_{j-1} + r_j/2 and ≤ 2^{j+1} throughout: an argument that is off by η
moves r_j by at most η(r_{j-1} + r_j/2) + 2^{j+2}η².
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hush.accounting.balls import ball, precision
from hush.accounting.expansion import expanded
from hush.accounting.pairs.rounding import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hush.accounting.balls import Ball
    from hush.accounting.pairs import Pair
    from hush.accounting.pairs.base import Floats

__all__ = ["Residues", "tilt"]

_MOST_STEPS = 8
_MOST_TERMS = 300
_BITS = 256


def residues(y: Floats, degree: int) -> list[Floats]:
    """Return r_{-1}(y), r_0(y), …, r_degree(y) for y ≥ 0, each with a relative error below 64 units."""
    v = 0.5 * y
    found = [0.5 * (1 + np.exp(-y)), -np.expm1(-y)]
    for j in range(1, degree + 1):
        near = v < j + 3
        value = np.empty(y.shape)
        if near.any():
            value[near] = _from_first(v[near], j)
        if not near.all():
            value[~near] = _by_complement(v[~near], j)
        found.append(value)
    return found


def _from_first(v: Floats, j: int) -> Floats:
    # e^{-v}(2v)^{j+1}/(j+1)!, then ratios v²/(r(r+1)).
    term = 2.0 * np.exp(-v)
    for r in range(1, j + 2):
        term = term * (2 * v / r if r <= j else v / r)
    total = term.copy()
    r = j + 2
    while r < 2 * j + 60:
        term = term * (v * v / (r * (r + 1)))
        total += term
        r += 2
    return total


def _by_complement(v: Floats, j: int) -> Floats:
    sign = 1.0 if (j + 1) % 2 == 0 else -1.0
    total = 0.5 * (1 + sign * np.exp(-2 * v))
    term = np.exp(-np.minimum(v, 700.0))
    for r in range(j):
        if (r - (j + 1)) % 2 == 0:
            total = total - term
        term = term * (v / (r + 1))
    return 2.0 ** (j + 1) * total


def _rounded(value: Ball) -> tuple[float, float]:
    """Return the nearest float, and a size of which one unit covers the rounding."""
    middle = float(value.mid())
    return middle, abs(middle) + float(value.rad()) / UNIT + 1e-300


def tilt(x: Floats, value: Floats, wrong: Floats, c: float, scale: float) -> tuple[Floats, Floats]:
    """Return e^{cx − scale} times a value and its error, with the rounding of the factor."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        exponent = c * x - scale
        front = np.where((value > 0) | (wrong > 0), np.exp(exponent), 0.0)
        units = 8 * UNIT * (4 + np.abs(c * x) + abs(scale))
        return front * value, front * (wrong + value * units) * (1 + 1e-9) + 1e-320


class Residues:
    """δ_R of Laplace and bounded-range steps."""

    def __init__(self, pairs: Mapping[Pair, int], cells: int) -> None:
        with precision(_BITS):
            terms = [
                (float(x), [_rounded(coefficient * (ball(x) / 2).exp()) for coefficient in coefficients])
                for x, coefficients in expanded(pairs)
            ]
        self.terms = terms
        self.most = max(1000, 8 * cells // sum(len(coefficients) for _, coefficients in terms))
        self.most = min(self.most, cells)

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the expansion is short, and its cancellation mild."""
        steps = sum(pairs.values())
        terms = steps + 1
        for count in pairs.values():
            terms *= count + 1
        return steps <= _MOST_STEPS and terms <= _MOST_TERMS

    def tilted(self, x: Floats, eta: float, c: float, scale: float) -> tuple[Floats, Floats]:
        """Return e^{cx − scale}·δ_R(x), and an error that holds for every argument of δ_R within η of x."""
        value, wrong = self.profile(x, eta)
        return tilt(x, value, wrong, c, scale)

    def profile(self, t: Floats, eta: float) -> tuple[Floats, Floats]:
        """Return δ_R(t) and an error that holds for every argument within η of t."""
        value, error = np.zeros(t.shape), np.zeros(t.shape)
        for x, coefficients in self.terms:
            # x − t carries a rounding of each besides.
            off = eta + 2 * UNIT * (abs(x) + np.abs(t))
            here = t < x + off
            if not here.any():
                continue
            y = np.maximum(x - t[here], 0.0)
            slip = off[here]
            parts = residues(y, len(coefficients) - 1)
            for j, (coefficient, size) in enumerate(coefficients):
                value[here] += coefficient * parts[j + 1]
                error[here] += size * (
                    96 * UNIT * parts[j + 1]
                    + slip * (parts[j] + parts[j + 1] / 2) * (1 + 1e-9)
                    + 2.0 ** (j + 2) * slip * slip
                )
        return np.maximum(value, 0.0), error * (1 + 1e-9)
