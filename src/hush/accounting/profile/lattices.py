"""Tilted laws of atoms: the losses of pairs that share a lattice, from their certified moments.

Steps with atoms on one lattice (responses, discrete Laplace and Gaussian noise) are one law of losses, which
:mod:`.convolution` takes as it is. Pairs whose lattices have no useful common measure stay in groups of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs.base import UNIT, Floats, Pair
from hush.accounting.profile.cumulant import Cumulant
from hush.core.rounding import precision, up

_WINDOW_NATS = 42.0
"""The window leaves out a tilted mass of e^{-42} on either side."""
_DROPPED_MASS = 1e-18
"""Masses of the window that together are less than this are dropped, and counted in E."""
_MAX_WINDOW_POINTS = 1_500_000
_CHERNOFF_STEPS: Floats = 10.0 ** (np.arange(-24, 33) / 8)


@dataclass(frozen=True, slots=True)
class TiltedLaw:
    """Losses and tilted masses; ``error`` bounds Σ|ŵ − w|, ``log_scale`` is K(c) and ``blur`` its error."""

    losses: Floats
    masses: Floats
    error: float
    log_scale: float
    blur: float


class LatticeLaw:
    """The exponentially tilted law of losses that lie on one lattice, from its certified moments.

    For pairs whose losses all lie in o + d·ℤ, the tilted law gives loss l the mass w(l) = p(l)·e^{cl − K(c)}; its
    Fourier transform at u is M(c+iu)/M(c). Sampling that at the N points u_j = 2πj/(Nd) and transforming back gives,
    for a window of N lattice points,

        ŵ(l) = Σ_k w(l + kNd),

    the true mass plus the masses wrapped round from outside the window. So the sum of |ŵ − w| over the window and of w
    outside it is at most

        E = N·(mean of |M(c+iu_j)/M(c)|·error_j) + √N·(FFT's error in the 2-norm) + 2·(tilted mass outside the window):

    an error of each sampled moment moves every ŵ by at most its N-th part, the FFT's error is at most 16u·log₂N·‖ŵ‖₂
    (Higham 2002, Theorem 24.2) and ‖x‖₁ ≤ √N·‖x‖₂. The mass outside is bounded by Chernoff's inequality: the tilted law
    has the moments M(c+s)/M(c), so at most e^{K(c+s)−K(c)−sb} lies at or above b for s > 0, at or below b for s < 0.
    The laws here are symmetric, M(z) = M(−1−z), which gives K left of −1; between −1 and 0 nothing is asked for.

    **Nodes.** In floating point, node j is off by at most 2 units of u_j ≤ π/d. With μ the mean, M = e^{iuμ}·M₀: the
    turn of the first factor is charged to |M|, and the second moves by at most that times |M₀'|. The M₀'(u_j) are the
    transform of (l−μ)w(l), so by Parseval their mean square is ‖(l−μ)w‖₂² and, as w differs from ŵ by E at most, in a
    window of half-width R, E ≤ E₀ + s·(‖(l−μ)ŵ‖₂ + 2R·E + first moment outside), s = 2 units·πN/d, which is solved for
    E. The second derivative, at most E(l−μ)², enters with the square of a node's error, and is added.

    E is the total-variation distance (as Σ|·|) between the true tilted law and the arrays returned; callers rely on E
    alone.
    """

    def __init__(self, pairs: Mapping[Pair, int], offset: Fraction, span: Fraction) -> None:
        self.cumulant = Cumulant(Description(pairs=pairs))
        self.offset, self.span = offset, span
        top = 0.0
        with precision(96):
            for pair, count in pairs.items():
                largest = pair.largest_loss()
                top = math.inf if largest is None else top + count * up(largest) * (1 + 4 * UNIT)
        self.top = top
        """All losses lie in [−top, top]."""

    def window(self, c: float) -> tuple[float, float, float]:
        """Return the ends of an interval of losses, and the tilted mass outside it."""
        steps = _CHERNOFF_STEPS / min(1.0, float(self.span))
        log_moment, blur = self.cumulant.at(np.array([c]))
        up_k, up_r = self.cumulant.at(c + steps)
        down_steps = np.concatenate([c * np.linspace(0.05, 0.95, 19), c + 1 + steps])
        # K(c − s) = K(s − c − 1) where s > c + 1.
        places = np.where(down_steps < c, c - down_steps, down_steps - c - 1)
        down_k, down_r = self.cumulant.at(np.maximum(places, 1e-300))
        with np.errstate(all="ignore"):
            slack = blur[0] + 1e-12 * (1 + abs(log_moment[0]))
            highs = (up_k + up_r + 1e-12 * np.abs(up_k) - log_moment[0] + slack + _WINDOW_NATS) / steps
            lows = -(down_k + down_r + 1e-12 * np.abs(down_k) - log_moment[0] + slack + _WINDOW_NATS) / down_steps
        high = float(np.min(np.where(np.isfinite(highs), highs, np.inf)))
        low = float(np.max(np.where(np.isfinite(lows), lows, -np.inf)))
        outside = 0.0
        if high < self.top:
            outside += math.exp(-_WINDOW_NATS)
        if low > -self.top:
            outside += math.exp(-_WINDOW_NATS)
        return max(low, -self.top), min(high, self.top), outside

    def tilted(self, c: float) -> TiltedLaw | None:
        """Return the tilted law, or None where the window has too many points."""
        low, high, outside = self.window(c)
        span = float(self.span)
        if not (math.isfinite(low) and math.isfinite(high)) or (high - low) / span > _MAX_WINDOW_POINTS:
            return None
        first = math.floor((Fraction(low) - self.offset) / self.span)
        size = math.ceil((Fraction(high) - self.offset) / self.span) - first + 1
        # Odd, so that no node is its own conjugate.
        size = max(3, size + 1 - size % 2)
        j = np.arange((size + 1) // 2)
        z = c + 1j * (2 * math.pi / (size * span)) * j
        k, r = self.cumulant.at(z)
        scale = float(k[0].real)
        # The first loss is (first + o/d)·d: its turn at node j is 2π(j·first mod N)/N + 2πj(o/d)/N, no large angle.
        offset_steps = self.offset / self.span
        whole_steps = math.floor(offset_steps)
        turn = (
            2
            * math.pi
            * (
                np.remainder(j * ((first + whole_steps) % size), size) / size
                + j * (float(offset_steps - whole_steps) / size)
            )
        )
        with np.errstate(under="ignore"):
            moments = np.exp(k - scale - 1j * turn)
        farthest = max(abs(low), abs(high)) + 2 * span
        units = 64 + 8 * np.abs(k - scale) + 8 * turn + 8 * np.abs(z.imag) * farthest + 8 * abs(scale)
        # |M − e^K̂| ≤ e^K̂·(e^R − 1), below e^{K̂+R} for a node whose value is lost: there e^R alone may overflow.
        sure = r + r[0]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            moment_errors = np.abs(moments) * (np.expm1(np.minimum(sure, 1.0)) + UNIT * units)
            lost = np.exp(k.real - scale + sure + UNIT * units)
            errors = np.where(sure <= 1.0, moment_errors, lost)
        masses = np.fft.irfft(np.conj(moments), n=size)
        norm = float(np.linalg.norm(masses))
        blur = 2 * float(errors.sum())
        blur += math.sqrt(size) * 32 * UNIT * (1 + math.log2(size)) * norm + 2 * outside
        # 1/s for the smallest step s: E[(l − b)₊] ≤ ∫_b e^{K(c+s)−K(c)−sx}dx is the Chernoff bound over s.
        farther = 1 / min(0.05 * c, float(_CHERNOFF_STEPS[0]))
        blur = _misplaced(blur, masses, span, farthest, outside, farther)
        if not math.isfinite(blur):
            return None
        # A negative value stands for a mass of at least 0: raising it brings it nearer to the truth.
        masses = np.maximum(masses, 0.0)
        order = np.argsort(masses)
        small = order[np.cumsum(masses[order]) < _DROPPED_MASS]
        keep = np.ones(size, dtype=bool)
        keep[small] = False
        index = np.nonzero(keep)[0]
        # Rounding of the first loss, a product and a sum: at most 3 units of the largest |loss|.
        losses = np.asarray(float(self.offset + first * self.span) + index * span, dtype=np.float64)
        return TiltedLaw(losses, masses[keep], blur * (1 + 1e-9) + 2 * _DROPPED_MASS, scale, float(r[0]))


def _misplaced(blur: float, masses: Floats, span: float, farthest: float, outside: float, farther: float) -> float:
    r"""Return E with the cost of the rounding of the nodes u_j added; see **Nodes** above."""
    size = len(masses)
    places = span * np.arange(size)
    mean = float(places @ np.abs(masses)) / max(float(np.abs(masses).sum()), 1e-300)
    spread = float(np.linalg.norm((places - mean) * masses))
    slope = 2 * UNIT * math.pi / span * size
    if slope * 4 * farthest > 0.5:  # the equation for E has no useful solution: claim nothing
        return math.inf
    # |M₀''| ≤ E(l−μ)², at most (2R)² inside the window and 2·mass/s² + … outside it.
    bend = (slope / size) ** 2 * size * ((2 * farthest) ** 2 + 2 * outside * (farther + 2 * farthest) ** 2)
    return (blur + slope * (spread + outside * (farther + 2 * farthest)) + bend) / (1 - slope * 4 * farthest)


def groups(pairs: Mapping[Pair, int]) -> list[LatticeLaw]:
    """Return the pairs in groups on common lattices; pairs join if the refinement is at most eight times finer."""
    lattices: list[tuple[dict[Pair, int], Fraction, Fraction]] = []
    for pair, count in pairs.items():
        lattice = pair.lattice()
        if lattice is None:
            continue
        for i, (members, offset, span) in enumerate(lattices):
            common = common_measure(span, lattice[1])
            if 8 * common >= max(span, lattice[1]):
                lattices[i] = ({**members, pair: count}, offset + count * lattice[0], common)
                break
        else:
            lattices.append(({pair: count}, count * lattice[0], lattice[1]))
    return [LatticeLaw(members, offset, span) for members, offset, span in lattices]


def common_measure(a: Fraction, b: Fraction) -> Fraction:
    """Return the greatest rational that divides both."""
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)
