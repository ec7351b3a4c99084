r"""Exact expansion: few Laplace, randomized-response and bounded-range steps, in ball arithmetic.

With s = z + 1/2 each of these moments is a short sum of e^{sx}·q(1/s), x a loss and q a polynomial: so is a product of
them. For one term, closing the contour of :mod:`.contour` to the left,

    (1/2πi) ∫ e^{s(x−ε)} s^{-j} / (s²−1/4) ds = 0 for x ≤ ε,   R_j(x−ε) = 2^{j+1} Σ_{i≥0} (y/2)^{j+1+2i}/(j+1+2i)! for x
    > ε

with y = x − ε (the residues at ±1/2 less the Taylor polynomial at 0), and δ(ε) = e^{ε/2}·Σ_{x>ε} Σ_j q_{x,j} R_j(x−ε).
The coefficients alternate in sign; what is lost to cancellation is made up by more bits, and seen in the ball's radius.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from hush.accounting.pairs import Pair
from hush.accounting.pairs.base import Terms
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.method import LogInterval, invert
from hush.accounting.profile.saddle_point import SaddlePoint
from hush.core.balls import Ball, ball, down, flint, precision, up

_MAX_TERMS = 60_000
_MAX_BITS = 8192


def _times(left: Terms, right: Terms) -> Terms:
    product: Terms = {}
    for x, p in left.items():
        for y, q in right.items():
            found = product.get(x + y)
            product[x + y] = p * q if found is None else found + p * q
    return product


def _power(terms: Terms, count: int) -> Terms:
    """Return the terms of the count-th power; two-term sums by the binomial theorem."""
    if len(terms) == 2:
        (x, p), (y, q) = terms.items()
        one = flint().arb_poly([1])
        left, right = [one], [one]
        for _ in range(count):
            left.append(left[-1] * p)
            right.append(right[-1] * q)
        return {
            (count - i) * x + i * y: left[count - i] * right[i] * flint().arb(math.comb(count, i))
            for i in range(count + 1)
        }
    result: Terms = {Fraction(0): flint().arb_poly([1])}
    base = terms
    while count:
        if count & 1:
            result = _times(result, base)
        count >>= 1
        if count:
            base = _times(base, base)
    return result


def expanded(pairs: Mapping[Pair, int]) -> list[tuple[Fraction, list[Ball]]]:
    """Return the losses x, from the largest, each with the coefficients of q_x."""
    product: Terms = {Fraction(0): flint().arb_poly([1])}
    for pair, count in pairs.items():
        terms = pair.terms()
        assert terms is not None  # noqa: S101 - suits() was asked
        product = _times(product, _power(terms, count))
    return [(x, product[x].coeffs()) for x in sorted(product, reverse=True)]


class Expansion:
    """δ(ε) of a small composition, to any accuracy."""

    last_resort: ClassVar[bool] = False

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self._bits = 256
        self._known: dict[int, list[tuple[Fraction, list[Ball]]]] = {}

    @staticmethod
    def losses(pairs: Mapping[Pair, int]) -> int:
        """Return at most how many losses the expansion has."""
        return math.prod(((pair.terms_shape() or (1, 0))[0] - 1) * count + 1 for pair, count in pairs.items())

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the expansion is short enough to be worth writing out."""
        losses, degree = 1, 1
        for pair, count in pairs.items():
            shape = pair.terms_shape()
            if shape is None or count > 2000:
                return False
            losses *= (shape[0] - 1) * count + 1
            degree += shape[1] * count
            if losses * degree > _MAX_TERMS:
                return False
        return True

    def _expanded(self, bits: int) -> list[tuple[Fraction, list[Ball]]]:
        if bits not in self._known:
            self._known[bits] = expanded(self.cumulant.pairs)
        return self._known[bits]

    def _delta(self, epsilon: Fraction, bits: int) -> Ball:
        total = flint().arb(0)
        for x, coefficients in self._expanded(bits):
            if x <= epsilon:
                break
            total += _residues(ball(x - epsilon) / 2, coefficients, bits)
        return total * (ball(epsilon) / 2).exp()

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε); bits are added until the relative width is below 1e-15."""
        exact = Fraction(epsilon)
        while True:
            with precision(self._bits):
                value = self._delta(exact, self._bits)
                if value.is_zero():
                    return LogInterval(lower=-math.inf, upper=-math.inf)
                if value > 0 and value.rel_accuracy_bits() > 56:
                    log = value.log()
                    return LogInterval(lower=down(log), upper=up(log))
                if self._bits >= _MAX_BITS:
                    top = value.abs_upper()
                    return LogInterval(lower=-math.inf, upper=min(0.0, up(top.log())) if top > 0 else -math.inf)
            self._bits *= 2

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess, slope = SaddlePoint(self.cumulant, largest=self.largest).first_guess(target.lower)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.largest)


def _residues(half: Ball, coefficients: list[Ball], bits: int) -> Ball:
    """Return Σ_j q_j R_j(2·half), by suffix sums of half^r/r! over r of one parity."""
    degree = len(coefficients)
    reach = degree + 2
    term = flint().arb(1)
    powers = [term]
    tiny = flint().arb(2) ** (-bits)
    r = 0
    first = None
    while True:
        r += 1
        term = term * half / r
        powers.append(term)
        if first is None and r == degree:
            first = term
        if r >= reach and 2 * half < r and (term < tiny * first if first is not None else True):
            break
        if r > 100_000:
            return flint().arb.nan()
    # The two parities' remainders: ratios below (half/r)² < 1/4.
    rest = flint().arb(0, 1) * (2 * term).abs_upper()
    suffix = [rest, rest]
    total = flint().arb(0)
    for r in range(len(powers) - 1, 0, -1):
        suffix[r % 2] = suffix[r % 2] + powers[r]
        j = r - 1
        if j < degree:
            total += coefficients[j] * suffix[r % 2] * flint().arb(2) ** (j + 1)
    return total
