r"""Skellam noise: the difference of two Poisson variables, of variance v together, on an integer of sensitivity Δ.

P(k) = e^{-v}·I_k(v), I the modified Bessel function. The pair is the law of X+Δ against that of X; reflecting the
output swaps them. R(k) = P(k+1)/P(k) falls in k, and Amos (1974) has

    L(k) ≤ R(k) ≤ U(k),    U(k) = v/(k+½+√((k+½)²+v²)),   L(k) = v/h(k),   h(k) = k+½+√((k+3/2)²+v²),       k ≥ 0.

**Masses** in balls come from two Bessel functions at the far end K by I_{k-1} = I_{k+1} + (2k/v)·I_k, all of whose
terms are positive. Beyond K they are at most P(K)·U(K)^j.

**The profile.** The loss ln P(x-Δ)/P(x) rises in x, so the worst set of outputs is a half line: with the tails S(t) =
P(X ≥ t) and t the first x of a loss above ε, δ(ε) = S(t-Δ) - e^ε·S(t).

**The moment** M(z) = Σ_x P(x-Δ)^{1+z}·P(x)^{-z} is summed for |x| ≤ K. Let c = Re z ≥ 0. On the left P(x-Δ) bounds the
terms. On the right the loss is at most Δ·ln(1/L(x)), and h grows by at most 2 at each step, so that h(x) ≤ h(K)·
e^{2(x-K)/h(K)}: a term is at most T·ρ^{x-K} with T = P(K-Δ)·L(K)^{-cΔ} and ρ = U(K-Δ)·e^{2cΔ/h(K)}, and what is left
out at most T·ρ/(1-ρ). With c < 0 reflect: M(z) = M(-1-z), and between -½ and 0 the terms are at most the larger mass.

**ρ.** D_α rises in α, so over α in [a, b] D_α/α ≤ D_b/a, which a grid of orders makes nearly sharp. Past the grid, for
whole α, D_α ≤ αΔ²/2v + min(((2α-1)Δ²+6Δ)/4v², 3Δ/2v) (Agarwal, Kairouz, Liu 2021, Theorem 3.5), and between them that
of the next.

>>> from hush.core.rounding import up
>>> pair = SkellamPair(variance=Fraction("14.24"), sensitivity=1)
>>> round(up(pair.profile(ball(Fraction(1)))) * 1e6, 3)
1.001
>>> abs(float(pair.moment(flint().acb(0)).real.mid()) - 1) < 1e-12
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hush.accounting.pairs.base import EVERYWHERE, UNIT, Batch, Complexes, Floats, LossCells, Pair, Range
from hush.core.rounding import Ball, ball, down, flint, float_up, precision, smallest_decimal, up
from hush.core.work import spend

MOST_VARIANCE = 10**6
"""The largest variance at which the outputs are listed one by one."""
_WORKING_BITS = 192
_MAX_MASSES = 1 << 17
_MAX_VALUES_AT_ONCE = 1 << 20
_ORDERS = [1.04**k for k in range(-100, 131)]
"""The orders less 1 at which ρ is looked for: from 0.02 to 164."""


def _end(variance: float, centre: float, sensitivity: int) -> int:
    """Return the last output to list, a power of two; the masses that matter lie round ``centre``."""
    # Forty deviations: the tails beyond are bounded too, so a poor choice costs accuracy and no certainty.
    least = centre + 40 * math.sqrt(variance + centre) + 60 + 2 * sensitivity
    return 1 << math.ceil(math.log2(least))


@lru_cache(maxsize=8)
def _masses(variance: Fraction, end: int) -> list[Ball]:
    """Return P(0), …, P(end)."""
    with precision(_WORKING_BITS):
        spend(4 * end)
        arb, rate = flint().arb, ball(variance)
        after, mass = rate.bessel_i(arb(end + 1), scaled=True), rate.bessel_i(arb(end), scaled=True)
        masses = [mass]
        # Downwards: all terms of the recurrence are positive, so nothing cancels.
        for k in range(end, 0, -1):
            after, mass = mass, after + mass * (2 * k) / rate
            masses.append(mass)
        return masses[::-1]


@lru_cache(maxsize=8)
def _logs(variance: Fraction, end: int) -> list[Ball]:
    with precision(_WORKING_BITS):
        return [mass.log() for mass in _masses(variance, end)]


@lru_cache(maxsize=8)
def _float_logs(variance: Fraction, end: int) -> Floats:
    """Return ln P(0), …, ln P(end), each right to one unit in its last place."""
    return np.array([float(log.mid()) for log in _logs(variance, end)])


def _upper_ratio(rate: Ball, k: int) -> Ball:
    half = ball(Fraction(2 * k + 1, 2))
    return rate / (half + (rate * rate + half * half).sqrt())


def skellam_profile(variance: Fraction, sensitivity: int, epsilon: Ball) -> Ball:
    """Return a ball around the smallest δ at which Skellam noise of this variance is (ε, δ)-DP."""
    with precision(_WORKING_BITS):
        # The loss at x is about asinh(x/v)·Δ: the half line begins near v·sinh(ε/Δ).
        begin = float(variance) * math.sinh(min(abs(float(epsilon.mid())) / sensitivity, 50.0))
        masses = _masses(variance, _end(float(variance), min(begin, 1e6), sensitivity))
        e_epsilon, zero = epsilon.exp(), flint().arb(0)

        def mass(k: int) -> Ball:
            return masses[abs(k)] if abs(k) < len(masses) else zero

        # By bisection, as the loss rises: the first x with P(x-Δ) > e^ε P(x).
        low, high = -len(masses), len(masses) - 1
        while low < high:
            middle = (low + high) // 2
            if mass(middle - sensitivity) > e_epsilon * mass(middle):
                high = middle
            else:
                low = middle + 1
        ratio = _upper_ratio(ball(variance), len(masses) - 1)
        beyond = zero.union((masses[-1] * ratio / (1 - ratio)).upper())
        plain = sum((mass(k) for k in range(low, len(masses))), start=zero) + beyond
        moved = plain + sum((mass(k) for k in range(low - sensitivity, low)), start=zero)
        if low - sensitivity <= -len(masses):  # the tail on the left belongs to it, or a part of that
            moved, plain = moved + beyond, plain + beyond
        delta = moved - e_epsilon * plain
        # Where a ball cannot tell whether the x before belongs to the half line, its gain may be missing.
        gain = mass(low - 1 - sensitivity) - e_epsilon * mass(low - 1)
        if not gain <= 0:
            delta += zero.union(gain.upper())
        if low == len(masses) - 1:  # the half line may begin further out; then δ is between 0 and this tail
            return zero.union(moved.upper())
        return delta if not delta < 0 else zero


@dataclass(frozen=True, slots=True, kw_only=True)
class SkellamPair(Pair):
    """Skellam noise of this variance on an integer of this sensitivity."""

    variance: Fraction
    sensitivity: int

    def __hash__(self) -> int:
        return hash((11, self.variance.as_integer_ratio(), self.sensitivity))

    def _reach(self, c: float) -> int:
        """Return the last output to list for the moment tilted by c."""
        return _end(float(self.variance), 2 * (abs(c) + 1) * self.sensitivity, self.sensitivity)

    def _beyond(self, c: float, end: int) -> Ball | None:
        """Return the tilted mass of all outputs beyond ``end``, on both sides; None where it is not known."""
        rate, delta = ball(self.variance), self.sensitivity
        masses = _masses(self.variance, end)
        far = ball(Fraction(2 * end + 3, 2))
        h = ball(Fraction(2 * end + 1, 2)) + (far * far + rate * rate).sqrt()
        tilt = ball(Fraction(max(c, 0.0)) * delta)
        ratio = _upper_ratio(rate, end - delta) * (2 * tilt / h).exp()
        if not ratio < 1:
            return None
        right = (masses[end - delta].log() + tilt * (h / rate).log()).exp() * ratio / (1 - ratio)
        plain = _upper_ratio(rate, end)
        return right + masses[end] * plain / (1 - plain)

    def moment(self, z: Ball) -> Ball:
        """Return M(z), summed over the outputs."""
        if z.real < flint().arb(-1) / 2:
            z = -1 - z
        c = max(0.0, up(z.real))
        end = self._reach(c) if c < 1e6 else _MAX_MASSES + 1
        unknown = flint().acb(flint().arb.pos_inf())
        if end > _MAX_MASSES:
            return unknown
        beyond = self._beyond(c, end)
        if beyond is None:
            return unknown
        logs, delta, total = _logs(self.variance, end), self.sensitivity, flint().acb(0)
        spend(4 * end)
        for x in range(delta - end, end + 1):
            first = logs[abs(x - delta)]
            total += (first + z * (first - logs[abs(x)])).exp()
        # The outputs from -end to Δ-end-1 are left out on the left besides, where the masses bound the terms.
        radius = beyond.upper() + sum(
            (_masses(self.variance, end)[end - i] for i in range(delta)), start=flint().arb(0)
        )
        return total + flint().acb(flint().arb(0, up(radius)), flint().arb(0, up(radius)))

    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return None: the loss grows like the logarithm of the output."""
        return None

    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        return skellam_profile(self.variance, self.sensitivity, epsilon)

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        end = self._reach(c) if abs(c) < 1e6 else _MAX_MASSES + 1
        if end > _MAX_MASSES:
            return None
        losses, masses = self._atoms(end)
        logs = masses + c * losses
        with precision(_WORKING_BITS):
            beyond = self._beyond(c, end)
            if beyond is None:
                return None
            skipped = sum((_masses(self.variance, end)[end - i] for i in range(self.sensitivity)), start=flint().arb(0))
            outside = up(beyond + skipped)
        peak = float(logs.max())
        keep = logs > peak - 80
        weights = np.exp(logs - peak)
        omitted = (outside * math.exp(-peak) if peak > -700 else math.inf) + float(weights[~keep].sum())
        size = float(np.abs(masses[keep]).max() + np.abs(c * losses[keep]).max())
        return LossCells(
            losses=losses[keep],
            logs=logs[keep],
            width=0.0,
            wrong=8 * UNIT * (2 + size + abs(c) * float(np.abs(masses[keep]).max())),
            slip=8 * UNIT * (1 + float(np.abs(losses[keep]).max()) + float(np.abs(masses[keep]).max())),
            outside=omitted / float(weights[keep].sum()) * (1 + 1e-9),
        )

    def _atoms(self, end: int) -> tuple[Floats, Floats]:
        """Return the losses of the outputs Δ-end … end, and the logarithms of their masses under P."""
        logs = _float_logs(self.variance, end)
        x = np.arange(self.sensitivity - end, end + 1)
        first = logs[np.abs(x - self.sensitivity)]
        return first - logs[np.abs(x)], first

    def group(self, size: int) -> Pair:
        return SkellamPair(variance=self.variance, sensitivity=self.sensitivity * size)

    def rho(self) -> Ball:
        """Return a ρ by the orders of a grid, and by Agarwal's bound past them."""
        delta, v = ball(Fraction(self.sensitivity)), ball(self.variance)
        orders = np.array(_ORDERS)
        cumulants, errors = Batch([self], [1]).cumulant(orders)
        divergences = (np.asarray(cumulants) + errors) / orders * (1 + 8 * UNIT)
        # D at 1+z over [1, 1+z₀], and over each further step at the order where it begins.
        grid = max(float(divergences[0]), float((divergences[1:] / (1 + orders[:-1])).max()) * (1 + 8 * UNIT))
        last = ball(Fraction(_ORDERS[-1]))
        more = ((2 * delta**2 + 6 * delta / last) / (4 * v**2)).min(3 * delta / (2 * v * last))
        past = delta**2 / (2 * v) + more
        return past * (1 + 1 / last) if down(past * (1 + 1 / last)) > grid else flint().arb(grid)

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R as sums of e^{ln P + z·l} over the outputs, each exponent right to 4 units of its size."""
        value, error = np.full(z.shape, np.inf, dtype=z.dtype), np.full(z.shape, np.inf)
        for c in np.unique(z.real):
            cells = self.cells(float(c), 0.0, reverse=reverse)
            if cells is None:
                continue  # not known at this tilt
            line = z.real == c
            imaginary = z.imag[line]
            peak = float(cells.logs.max())
            weights = np.exp(cells.logs - peak)
            size = float(weights.sum())
            summed = np.empty(imaginary.shape, dtype=np.complex128)
            spend((len(imaginary) + 4) * len(weights) // 8)
            rows = max(1, _MAX_VALUES_AT_ONCE // len(weights))
            for start in range(0, len(imaginary), rows):
                turns = np.exp(1j * imaginary[start : start + rows, None] * cells.losses)
                summed[start : start + rows] = turns @ weights
            away = np.abs(imaginary) * cells.slip + UNIT * np.abs(imaginary) * float(np.abs(cells.losses).max())
            missing = size * (cells.wrong + cells.outside + away + 4 * (len(weights) + 4) * UNIT)
            with np.errstate(divide="ignore", invalid="ignore"):
                amiss = missing / np.abs(summed)  # −ln(1 − x) ≤ 1.5x up to x = 1/2
                log = np.log(summed) + peak
            value[line] = log if z.dtype.kind == "c" else log.real
            error[line] = np.where(amiss < 0.5, 1.5 * amiss, np.inf)
        return value, error


def skellam_delta(variance: Fraction, sensitivity: int, epsilon: Fraction) -> Ball:
    """Return a ball around the smallest δ at which Skellam noise of this variance is (ε, δ)-DP."""
    with precision(_WORKING_BITS):
        return skellam_profile(variance, sensitivity, ball(epsilon))


def skellam_variance(*, sensitivity: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest variance, to 12 digits, at which Skellam noise is (ε, δ)-DP: rounded up.

    More variance is more noise added by the curator's own hand, which never hurts, so that δ falls in the variance.
    """
    return smallest_decimal(
        lambda variance: up(skellam_delta(variance, sensitivity, epsilon)) <= delta,
        digits=12,
    )


def skellam_epsilon(*, variance: Fraction, sensitivity: int, delta: Fraction) -> float:
    """Return the smallest ε, rounded up, at which Skellam noise of this variance is (ε, δ)-DP."""

    def enough(promised: Fraction) -> bool:
        return up(skellam_delta(variance, sensitivity, promised)) <= delta

    return 0.0 if enough(Fraction(0)) else float_up(smallest_decimal(enough, digits=12))
