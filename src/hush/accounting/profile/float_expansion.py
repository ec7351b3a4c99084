r"""The profile of a few Laplace and bounded-range steps at many arguments, in double precision.

:mod:`.expansion` writes the moment as Σ e^{sx}·q_x(1/s), s = z + 1/2. With each coefficient scaled to
a_{x,j} = e^{x/2}·q_{x,j}, the profile at any real argument t is

    δ(t) = Σ_{x>t} Σ_j a_{x,j}·r_j(x−t),   r_j(y) = e^{-y/2}R_j(y) = 2^{j+1}·P(N ≥ j+1, N − j odd),

N a Poisson variable of mean v = y/2: r_0 = 1 − e^{-y}, r_1 = 2(1 − e^{-y/2})². For v < 40 the probabilities are summed
from the 150th down, all terms positive; what is left out beyond is below e^{-80} of the sum for j ≤ 24. For larger v it
is (1 ± e^{-y})/2 less the terms below j+1, P(N ≤ 24) < 0.01, which loses nothing.

The a_{x,j} alternate in sign; the error bound is in units of the sum of moduli, so what cancels is accounted for.
r_j' = r_{j-1} − r_j/2 with r_{-1} = (1+e^{-y})/2, whence |r_j'| ≤ r_{j-1} + r_j/2 and ≤ 2^{j+1} throughout: an argument
that is off by η moves r_j by at most η(r_{j-1} + r_j/2) + 2^{j+2}η².
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hush.accounting.pairs import Pair
from hush.accounting.pairs.base import Floats
from hush.accounting.pairs.float_errors import UNIT
from hush.accounting.profile.expansion import expanded
from hush.core.balls import Ball, ball, precision

_MOST_STEPS = 24
_MOST_TERMS = 700
_NEAR = 40.0
_LAST = 150
_BITS = 256


def residues(y: Floats, degree: int) -> list[Floats]:
    """Return r_{-1}(y), r_0(y), …, r_degree(y) for y ≥ 0, degree ≤ 24, each with a relative error below 256 units."""
    v = 0.5 * y
    found = [0.5 * (1 + np.exp(-y)), -np.expm1(-y)]
    near = v < _NEAR
    values = [np.empty(y.shape) for _ in range(degree)]
    for here, parts in ((near, _suffixes), (~near, _complements)):
        if degree and here.any():
            for value, part in zip(values, parts(v[here], degree), strict=True):
                value[here] = part
    return found + values


def _suffixes(v: Floats, degree: int) -> list[Floats]:
    """Sum the probabilities from the last one down: all terms positive."""
    terms = [np.exp(-v)]
    for r in range(1, _LAST):
        terms.append(terms[-1] * (v / r))
    for r in range(_LAST - 3, 1, -1):
        terms[r] = terms[r] + terms[r + 2]
    return [2.0 ** (j + 1) * terms[j + 1] for j in range(1, degree + 1)]


def _complements(v: Floats, degree: int) -> list[Floats]:
    """Subtract the probabilities below j+1 from those of the whole parity."""
    even = np.exp(-2 * v)
    whole = [0.5 * (1 + even), 0.5 * (1 - even)]
    term = np.exp(-np.minimum(v, 700.0))
    found = []
    for j in range(1, degree + 1):
        # Probability j−1 has the parity of j+1.
        whole[(j - 1) % 2] = whole[(j - 1) % 2] - term
        term = term * (v / j)
        found.append(2.0 ** (j + 1) * whole[(j + 1) % 2])
    return found


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


class FloatExpansion:
    """δ_R of Laplace and bounded-range steps."""

    def __init__(self, pairs: Mapping[Pair, int], cells: int) -> None:
        with precision(_BITS):
            terms = [
                (float(x), [_rounded(coefficient * (ball(x) / 2).exp()) for coefficient in coefficients])
                for x, coefficients in expanded(pairs)
            ]
        self.terms = terms
        self.most = max(1000, 16 * cells // sum(len(coefficients) for _, coefficients in terms))
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
                    300 * UNIT * parts[j + 1]
                    + 1e-290
                    + slip * (parts[j] + parts[j + 1] / 2) * (1 + 1e-9)
                    + 2.0 ** (j + 2) * slip * slip
                )
        return np.maximum(value, 0.0), error * (1 + 1e-9)
