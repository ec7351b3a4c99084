r"""Laplace, randomized response and bounded range in double precision: the batches of :mod:`.hyperbolic`.

Each cumulant is K = z·e + ln(bracket) − ln(norm) with every exponential in the bracket of modulus at most 1; where |se|
is small it is ln(1 + excess), so that the rounding is relative to K and not to 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from hush.accounting.pairs.base import Batch, Complexes, Floats
from hush.accounting.pairs.float_errors import UNIT, log1p, upward

_CELLS = 1 << 17
"""How many (pair, node) values are computed at once; bounds the memory of large compositions."""


class _HyperbolicBatch(Batch):
    """Where |se| ≤ 1, M−1 is formed without cancellation and K = log1p(M−1); elsewhere K = ze + ln(bracket)."""

    def __init__(self, epsilons: Sequence[float], counts: Sequence[int]) -> None:
        self.e = np.array(epsilons, dtype=np.float64)[:, None]
        self.counts = np.array([float(n) for n in counts])

    def cumulant(self, z: Complexes) -> tuple[Complexes, Floats]:
        value = np.zeros(z.shape, dtype=z.dtype)
        error = np.zeros(z.shape)
        rows = max(1, _CELLS // max(1, z.size))
        for first in range(0, len(self.e), rows):
            part = slice(first, first + rows)
            k, r = self._rows(z, part)
            value += self.counts[part] @ k
            error += self.counts[part] @ r
            # Summing n terms of either sign: at most (n+2) units of the sum of moduli.
            error += (min(rows, len(self.e)) + 4) * UNIT * (self.counts[part] @ np.abs(k))
        return value, error * (1 + 1e-9)

    def _rows(self, z: Complexes, part: slice) -> tuple[Complexes, Floats]:
        e = self.e[part]
        near = np.abs(z + 0.5) * e <= 1.0
        if near.all():
            return self._near(z, e, part)
        if not near.any():
            return self._far(z, e, part)
        # On the far side of the mask the near formula (and the reverse) may overflow; its values are discarded.
        with np.errstate(all="ignore"):
            k1, r1 = self._near(z, e, part)
            k2, r2 = self._far(z, e, part)
        return np.where(near, k1, k2), np.where(near, r1, r2)

    @abstractmethod
    def _excess(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:
        """Return M−1 and the sum of the moduli of its terms."""

    @abstractmethod
    def _bracket(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats, Floats]:
        """Return B with M = e^{ze}·B/norm, an absolute error of B in units, and ln(norm)."""

    def _near(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:
        v, size = self._excess(z, e, part)
        k = log1p(v)
        # e has a relative error of one unit and v is quadratic in it; each sinh, product and the sums add a few more.
        return k, UNIT * (64 * size + 16 * np.abs(v)) / np.maximum(np.abs(1 + v), 1e-3) + 8 * UNIT * np.abs(k)

    def _far(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:
        b, units, norm = self._bracket(z, e, part)
        size = np.abs(b)
        lost = ~(size > 4 * UNIT * units)
        b = np.where(lost, 4 * UNIT * units, b)
        size = np.where(lost, np.abs(b), size)
        log = np.log(b)
        k = z * e + log - norm
        r = np.where(lost, math.log(4), np.log1p(UNIT * units / size))
        return k, r + UNIT * (16 * np.abs(z) * e + 8 * np.abs(log) + 16 * np.abs(norm) + 8)


def _sinhc_excess(z: Complexes, e: Floats) -> Complexes:
    """Return sinhc(se) − sinhc(e/2) for |se| ≤ 1: z(z+1)e²·Σ hₙ/(2n+1)!, hₙ₊₁ = w hₙ + w₀ⁿ; ten terms leave 1e-21."""
    w, w0 = ((z + 0.5) * e) ** 2, (e / 2) ** 2
    h = np.ones(w.shape, dtype=w.dtype)
    power = np.ones(e.shape)
    summed = h / 6.0
    factorial = 6.0
    for n in range(2, 11):
        power = power * w0
        h = w * h + power
        factorial *= (2 * n) * (2 * n + 1)
        summed = summed + h / factorial
    return z * (z + 1.0) * (e * e) * summed


class LaplaceBatch(_HyperbolicBatch):
    """Many Laplace pairs."""

    def _excess(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:  # noqa: ARG002
        first = 2 * np.sinh((z + 1) * (e / 2)) * np.sinh(z * (e / 2))
        second = (e / 2) * _sinhc_excess(z, e)
        scale = np.exp(-e / 2)
        return scale * (first + second), scale * (np.abs(first) + np.abs(second))

    def _bracket(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats, Floats]:  # noqa: ARG002
        s = z + 0.5
        quarter = 0.25 / s
        decay = np.exp(-2 * s * e)
        b = (0.5 + quarter) + (0.5 - quarter) * decay
        return b, 16 + np.abs(decay) * (16 + 16 * np.abs(s) * e), np.zeros(e.shape)

    def log_tail(self, c: float, low: float, high: float) -> float:  # noqa: ARG002
        """Bound |cosh(se)| + |sinh(se)|/2|s| over u ≥ low, with |cosh|² = cosh²(xe) − sin²(ue), x = c + 1/2.

        Up to ue = π/2 the first falls and |sinh(se)/s| ≤ e·cosh(xe); from there to 3π/4 |cosh|² ≤ cosh² − 1/2; beyond,
        cosh(xe)(1 + 1/2|s|). All is divided by cosh(xe), which enters as e^{xe}(1+e^{-2xe})/2.
        """
        e = self.e[:, 0]
        x = c + 0.5
        cosh = 0.5 * (1 + np.exp(-2 * x * e))  # times e^{xe}
        inverse = np.minimum(1 / cosh**2 * np.exp(-2 * np.minimum(x * e, 350.0)), 1.0)  # 1/cosh²(xe)
        turn = math.pi / 2 / e
        spread = 0.5 / np.hypot(x, low)
        near = np.sqrt(np.maximum(1 - np.sin(np.minimum(low, turn) * e) ** 2 * inverse, 0)) + np.minimum(e / 2, spread)
        middle = np.sqrt(1 - 0.5 * inverse) + 0.5 / np.hypot(x, np.maximum(low, turn))
        far = 1 + 0.5 / np.hypot(x, np.maximum(low, 1.5 * turn))
        best = np.where(low < turn, np.maximum(near, np.maximum(middle, far)), np.maximum(middle, far))
        best = np.where(low >= 1.5 * turn, far, best)
        logs = c * e + np.log(cosh * best)
        return _sum_up(self.counts, logs, 8 + c * e)


class ResponseBatch(_HyperbolicBatch):
    """Many randomized responses."""

    def __init__(self, epsilons: Sequence[float], counts: Sequence[int], others: Floats) -> None:
        super().__init__(epsilons, counts)
        self.others = others

    def _excess(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:
        scale = 4 / (2 * np.cosh(e / 2) + self.others[part] * np.exp(-e / 2))
        v = scale * np.sinh((z + 1) * (e / 2)) * np.sinh(z * (e / 2))
        return v, np.abs(v)

    def _bracket(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats, Floats]:
        s = z + 0.5
        decay = np.exp(-2 * s * e)
        middle = self.others[part] * np.exp(-(z + 1) * e)
        size = (np.abs(decay) + np.abs(middle)) * (16 + 16 * np.abs(s) * e)
        return 1 + decay + middle, 16 + size, np.log1p((1 + self.others[part]) * np.exp(-e))

    def log_tail(self, c: float, low: float, high: float) -> float:
        """|2cosh(se) + m|² = 4(cosh² xe − 1 + y²) + 4m·y·cosh xe + m², y = cos ue: convex in y, largest at an end."""
        e = self.e[:, 0]
        x = c + 0.5
        decay = np.exp(-2 * x * e)
        cosh = 0.5 * (1 + decay)  # times e^{xe}
        shrink = np.exp(-np.minimum(x * e, 700.0))
        m = self.others[:, 0] * np.exp(-e / 2) * shrink
        inside = high * e <= (2 * math.pi - low * e) * (1 - 1e-12)
        ends = np.where(inside, np.cos(np.minimum(low * e, math.pi)) + 1e-15, 1.0)
        # The other end of y: cos(high·e) before half a turn, else −1.
        others = np.cos(np.minimum(high * e, math.pi))
        sinh2 = (0.5 * (1 - decay)) ** 2
        square = m * m + np.maximum(
            4 * (sinh2 + np.minimum(ends, 1.0) ** 2 * shrink**2) + 4 * m * ends * cosh,
            4 * (sinh2 + (np.abs(others) + 1e-15) ** 2 * shrink**2) + 4 * m * (others + 1e-15) * cosh,
        )
        # e^{-e/2+xe}·√square over (1 + (1+n)e^{-e}): M = e^{ce}·… with xe − e/2 = ce.
        logs = c * e + 0.5 * np.log(np.maximum(square, 1e-300)) - np.log1p((1 + self.others[:, 0]) * np.exp(-e))
        return _sum_up(self.counts, logs, 8 + c * e)


class RangeBatch(_HyperbolicBatch):
    """Many bounded ranges."""

    def _excess(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats]:  # noqa: ARG002
        half = e / 2
        v = _sinhc_excess(z, e) * (half / np.sinh(half))
        return v, np.abs(v)

    def _bracket(self, z: Complexes, e: Floats, part: slice) -> tuple[Complexes, Floats, Floats]:  # noqa: ARG002
        s = z + 0.5
        decay = np.exp(-2 * s * e)
        b = (1 - decay) / (2 * s)
        return b, (16 + np.abs(decay) * (16 + 16 * np.abs(s) * e)) / np.abs(s), np.log(-np.expm1(-e))

    def log_tail(self, c: float, low: float, high: float) -> float:  # noqa: ARG002
        """|sinh(se)/s|² = (sinh² xe + sin² ue)/(x²+u²) falls while ue ≤ π; beyond, at most cosh² xe/(x²+u²).

        With X = xe, θ = ue: the derivative's sign is that of sinθ·cosθ·(X²+θ²) − θ(sinh²X + sin²θ), and sinθcosθ ≤ θ,
        X ≤ sinh X, θcosθ ≤ sinθ on [0, π].
        """
        e = self.e[:, 0]
        x = (c + 0.5) * e
        # Everything is divided by e^{2X}; sinh X = X·(sinhc) keeps its relative accuracy for small X.
        shrink = np.exp(-2 * np.minimum(x, 350.0))
        sinh2, cosh2 = (0.5 * np.expm1(-2 * x)) ** 2, (0.5 * (1 + np.exp(-2 * x))) ** 2
        start = np.minimum(low * e, math.pi)
        near = (sinh2 + np.sin(start) ** 2 * shrink) / (x * x + start * start)
        far = cosh2 / (x * x + np.maximum(low * e, math.pi) ** 2)
        square = np.where(low * e < math.pi, np.maximum(near, far), far)
        # M = e^{X-e/2}·√square·e/(1 − e^{-e}), and X − e/2 = ce.
        logs = c * e + 0.5 * np.log(square) - np.log(-np.expm1(-e) / e)
        return _sum_up(self.counts, logs, 8 + c * e)


def _sum_up(counts: Floats, logs: Floats, size: Floats) -> float:
    """Return Σ count·log, rounded up; ``size`` bounds, in units, the error of a log whose terms are of that size."""
    return upward(float(counts @ (logs + 64 * UNIT * (size + np.abs(logs)))))
