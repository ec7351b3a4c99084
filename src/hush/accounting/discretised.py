r"""The discretised privacy-loss law: the certified last resort, for any composition.

**Upper end.** Split each outcome of loss l between the grid points a ≤ l ≤ b = a+d so that its mass under P and under Q
stays what it was. Merging the two again is post-processing, so the split pair dominates; on the grid it has the masses

    q_j = s_j − s_{j-1},  p_j = e^{l_j} q_j,   s_j = (δ(l_{j+1}) − δ(l_j)) / (e^{l_{j+1}} − e^{l_j}),

second differences of the pair's own profile ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022).
Mass above the grid counts as infinite loss, mass below moves up to its first point. The error is of second order in d.

**Lower end.** Every loss is moved down to the grid point below it: mass S(l_j) − S(l_{j+1}) at l_j, S(l) = P(Z ≥ l).
The loss only falls, and with it δ. First order in d.

Pairs that live on the grid anyway are left as they are. Masses are computed as balls and rounded to the safe side; the
grid law's moments on a full circle of nodes come from a tilted FFT, whose rounding error is at most C·u·log₂N·√N·‖x‖₂
in every entry (Higham 2002, Theorem 24.2), and :mod:`.contour` does the rest.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hush.accounting.balls import ball, down, flint, precision, up
from hush.accounting.contour import Contour, Lattice, LogInterval
from hush.accounting.pairs import BoundedRangePair, LaplacePair
from hush.accounting.pairs.rounding import UNIT, total
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hush.accounting.cumulant import Cumulant
    from hush.accounting.pairs import Pair
    from hush.accounting.pairs.base import Complexes, Floats

__all__ = ["Discretised"]

_NODES = 60_000
_MOST = 400_000
_POINTS = 30_000
_BITS = 112


class _Law:
    """Masses on the grid points first·d, (first+1)·d, …, and what is left over as infinite loss."""

    def __init__(self, first: int, masses: Floats, infinite: float) -> None:
        self.first = first
        self.masses = masses
        self.infinite = infinite


def _ends(pair: Pair, reverse: bool, tiny: float) -> tuple[float, float]:
    """Return losses between which all but about ``tiny`` of a pair's law lies."""
    with precision(96):
        top = pair.largest_loss(reverse=reverse)
        bottom = pair.largest_loss(reverse=not reverse)
        high = up(top) if top is not None else _reach(lambda x: up(pair.profile(ball(x), reverse=reverse)), tiny)
        low = (
            -up(bottom)
            if bottom is not None
            else -_reach(lambda x: up(pair.profile(ball(x), reverse=not reverse)), tiny)
        )
    return low, high


def _reach(profile: Callable[[float], float], tiny: float) -> float:
    x = 1e-6
    while profile(x) > tiny and x < 1e9:
        x *= 1.5
    return x


def _upper_law(pair: Pair, span: Fraction, first: int, last: int, reverse: bool) -> _Law:
    with precision(_BITS):
        d = ball(span)
        points = [d * j for j in range(first, last + 1)]
        values = [pair.profile(point, reverse=reverse) for point in points]
        step = d.expm1()
        # e^{l_j}·s_j and e^{l_j}·s_{j-1}: no large exponentials.
        slopes = [(values[j + 1] - values[j]) / step for j in range(len(points) - 1)]
        shrink = (-d).exp()
        masses = [0.0] * len(points)
        above = flint().arb(0)
        for j in range(len(points) - 1, 0, -1):
            right = slopes[j] if j < len(points) - 1 else flint().arb(0)
            # s_{j-1}·e^{l_j} = slopes[j-1]·e^{d}
            mass = right - slopes[j - 1] / shrink
            masses[j] = max(up(mass), 0.0)
            above += mass
        infinite = max(up(values[-1]), 0.0)
        masses[0] = min(max(up(1 - above - values[-1]), 0.0), 1.0)
    return _Law(first, np.array(masses), infinite)


def _lower_law(pair: Pair, span: Fraction, first: int, last: int, reverse: bool) -> _Law:
    with precision(_BITS):
        d = ball(span)
        survival = [pair.survival(d * j, reverse=reverse) for j in range(first, last + 1)]
        # Rounding a survival down keeps the law below; cumulative sums of rounded masses would not.
        floors = [max(down(value), 0.0) for value in survival]
    masses = [floors[j] - floors[j + 1] for j in range(len(floors) - 1)] + [floors[-1]]
    return _Law(first, np.maximum(np.array(masses) * (1 - 4 * UNIT) - 1e-320, 0.0), 0.0)


class _GridCumulant:
    """Stands in for a Cumulant on the nodes of a full circle; on the real axis it is the true one, which bounds it."""

    def __init__(self, true: Cumulant, exact: Cumulant, laws: list[tuple[_Law, int]], span: Fraction) -> None:
        self.true = true
        self.exact = exact
        self.laws = laws
        self.span = float(span)

    def line(self, key: object, nodes: Callable[[], Complexes]) -> tuple[Complexes, Floats]:
        if key == "real" or (isinstance(key, tuple) and key[0] == "real"):
            return self.true.line(key, nodes)
        z = nodes()
        value, error = self.exact.at(z) if self.exact.pairs else (np.zeros(z.shape, complex), np.zeros(z.shape))
        for law, count in self.laws:
            k, r = self._moments(law, z)
            value = value + count * k
            error = error + count * r + 4 * UNIT * np.abs(value)
        return value, error

    def affordable(self) -> int:
        return 1 << 15

    def log_tail(self, c: float, low: float, high: float) -> float:
        del c, low, high
        return math.inf

    def _moments(self, law: _Law, z: Complexes) -> tuple[Complexes, Floats]:
        c = float(z[0].real)
        size = 2 * len(z) - 1
        index = law.first + np.arange(len(law.masses))
        present = law.masses > 0
        index, logs = index[present], np.log(law.masses[present]) + c * self.span * index[present]
        peak = float(logs.max())
        tilted = np.exp(logs - peak)
        mass = float(tilted.sum())
        # c·l carries a relative error of 4 units in the exponent, d itself one more.
        blur = UNIT * float(
            (tilted * (16 + 8 * np.abs(c * self.span * index) + 8 * np.abs(logs) + 8 * abs(peak))).sum()
        )
        if len(tilted) <= 48:
            turn = np.remainder(np.outer(np.arange(len(z)), index), size)
            values = np.exp(2j * math.pi / size * turn) @ tilted
            noise = 64 * UNIT * (1 + len(tilted)) * mass
        else:
            wrapped = np.zeros(size)
            np.add.at(wrapped, index % size, tilted)
            values = np.conj(np.fft.rfft(wrapped))
            noise = 16 * UNIT * math.log2(size) * math.sqrt(size) * float(np.linalg.norm(wrapped)) + 64 * UNIT * mass
        value, ratio = total(values, np.full(len(z), blur + noise))
        k = np.log(value) + peak
        return k, ratio + UNIT * (8 * np.abs(k) + 8 * abs(peak) + 8)


class Discretised:
    """Certified ends for any pairs, on a grid fitted to the target."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.true = cumulant
        self.largest = largest
        self.reverse = cumulant.reverse

    def _grid(self, period: float, widest: float) -> Fraction:
        """Return a span that divides the pairs' own lattices where that is fine enough, and gives enough nodes.

        ``widest`` is the longest range of losses of a pair that has to be put on the grid: a law of too many points
        takes too long.
        """
        wanted = max(period / _NODES, widest / _POINTS)
        common = Fraction(0)
        for pair in self.true.pairs:
            for number in _natural(pair):
                common = _gcd(common, number)
        if common and float(common) > max(period / _MOST, widest / (2 * _POINTS)):
            return common / max(1, math.floor(float(common) / wanted))
        # One irrational end (sampled Laplace noise): a grid that meets it, to within a rounding upwards.
        with precision(96):
            tops = {
                up(top)
                for pair in self.true.pairs
                if (top := pair.largest_loss(reverse=self.reverse)) is not None and pair.lattice() is None
            }
        if len(tops) == 1:
            top = Fraction(tops.pop())
            return top / max(1, math.ceil(float(top) / wanted))
        return Fraction(wanted).limit_denominator(10**12) or Fraction(wanted)

    def _contours(self, log_delta: float) -> tuple[Contour, Contour, float, float] | None:
        fit = Contour(self.true, largest=self.largest).period(log_delta)
        if fit is None:
            return None
        _, period, guess = fit
        tiny = math.exp(max(log_delta, -690.0)) * 1e-17 / max(1, sum(self.true.pairs.values()))
        ends = {
            pair: _ends(pair, self.reverse, tiny) if pair.brief() else (-math.inf, math.inf) for pair in self.true.pairs
        }
        loose = [high - low for pair, (low, high) in ends.items() if pair.lattice() is None and pair.brief()]
        span = self._grid(period, max(loose, default=0.0))
        exact = {pair: count for pair, count in self.true.pairs.items() if _fits(pair, span)}
        widest = max((high - low for pair, (low, high) in ends.items() if pair not in exact), default=0.0)
        if not math.isfinite(widest):
            return None  # thousands of sums of thousands of terms
        if widest / float(span) > 2 * _POINTS:
            span = Fraction(widest / _POINTS).limit_denominator(10**12) or Fraction(widest / _POINTS)
            exact = {}
        return (*self._laws(span, exact, ends), guess)

    def _laws(
        self, span: Fraction, exact: dict[Pair, int], ends: dict[Pair, tuple[float, float]]
    ) -> tuple[Contour, Contour, float]:
        from hush.accounting.cumulant import Cumulant
        from hush.accounting.description import Description

        kept = Cumulant(Description(pairs=exact), reverse=self.reverse)
        offset = sum((count * pair.lattice()[0] for pair, count in exact.items()), Fraction(0))  # type: ignore[index]
        lattice = Lattice(offset=offset % span, span=span)
        uppers: list[tuple[_Law, int]] = []
        lowers: list[tuple[_Law, int]] = []
        lost = 0.0
        for pair, count in self.true.pairs.items():
            if pair in exact:
                continue
            low, high = ends[pair]
            first, last = math.floor(low / float(span) - 1e-9), math.ceil(high / float(span) + 1e-9)
            law = _upper_law(pair, span, first, last, self.reverse)
            lost += count * law.infinite
            uppers.append((law, count))
            lowers.append((_lower_law(pair, span, first, last, self.reverse), count))
        top = sum((count * (law.first + len(law.masses)) for law, count in uppers), 0) * float(span)
        largest = max(self.largest, top) if math.isfinite(self.largest) else math.inf
        made = [
            Contour(_GridCumulant(self.true, kept, laws, span), lattice=lattice, largest=largest)
            for laws in (uppers, lowers)
        ]
        return made[0], made[1], lost * (1 + 1e-9)

    def _joined(self, upper: LogInterval, lower: LogInterval, lost: float) -> LogInterval:
        top = math.exp(upper.upper) * (1 + 1e-15) + lost if upper.upper < 700 else 1.0
        return LogInterval(lower=lower.lower, upper=min(0.0, math.log(top) + 1e-15) if top > 0 else -math.inf)

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        rough = Contour(self.true, largest=self.largest).estimate(epsilon)
        found = None if rough is None else self._contours(rough)
        if found is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        above, below, lost, _ = found
        lines = above.fit_epsilon(epsilon), below.fit_epsilon(epsilon)
        if lines[0] is None or lines[1] is None:
            return LogInterval(lower=-math.inf, upper=0.0)
        return self._joined(above.log_delta(lines[0], epsilon), below.log_delta(lines[1], epsilon), lost)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        found = self._contours(target.lower)
        if found is None:
            return 0.0, math.inf
        above, below, lost, guess = found
        fits = above.fit_delta(target.lower), below.fit_delta(target.lower)
        if fits[0] is None or fits[1] is None:
            return 0.0, math.inf
        high_line, low_line = fits[0][0], fits[1][0]
        slope = high_line.c
        upper = invert(
            lambda x: self._joined(above.log_delta(high_line, x), LogInterval(lower=-math.inf, upper=0.0), lost),
            target,
            guess=guess,
            slope=slope,
            largest=math.inf,
            ends="upper",
        )[1]
        lower = invert(
            lambda x: below.log_delta(low_line, x), target, guess=guess, slope=slope, largest=math.inf, ends="lower"
        )[0]
        return lower, upper


def _natural(pair: Pair) -> Iterable[Fraction]:
    """Return the numbers that a grid should divide to hold a pair's atoms."""
    lattice = pair.lattice()
    if lattice is not None:
        yield lattice[1]
    elif isinstance(pair, (LaplacePair, BoundedRangePair)):
        yield pair.epsilon


def _fits(pair: Pair, span: Fraction) -> bool:
    lattice = pair.lattice()
    return lattice is not None and (lattice[1] / span).denominator == 1


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    if not a:
        return b
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)
