r"""Few steps of any kind on a fine grid, with both ends of second order in its span.

**Merge, then split.** Merge each pair's outcomes into narrow cells (:mod:`.cells`), so that the composition L becomes M
with L = M + Ξ', and split each merged atom between the grid points a ≤ m < a+d so that its masses under P and under Q
stay what they were: M becomes N = M + Ξ. Merging is post-processing and so is undoing the split (Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022), hence δ_M ≤ δ_L and δ_M ≤ δ_N. How far apart are they? Given M = ε + y, both Ξ and Ξ'
are sums of independent parts, part i within ±wᵢ of 0 with E e^{-ξᵢ} = 1, and

    δ_N − δ_M = E[(1−e^{-y-Ξ})₊ − (1−e^{-y})₊] = E[|1−e^{-y-Ξ}|; y and y+Ξ of opposite signs] ≤ e^w·E(|Ξ| − |y|)₊

with w = Σwᵢ, because e^{-y}(1−e^{-Ξ}) has mean 0. By Hoeffding's lemma Ξ is sub-Gaussian of variance s² = Σwᵢ²/4 round
its mean, which lies in [0, b], b = e^w·Σwᵢ²/7; so the last expectation is at most ψ(y) = √(π/2)·s·e^{-(|y|−b)₊²/2s²}. To
turn that into something known of N: by Jensen, for any τ, E[e^{-(y+Ξ)²/2τ²}] ≥ e^{-((|y|+b)²+s²)/2τ²}, and with τ² =
1.1·s² this is at least e^{-s²/2τ² − (2b)²/2(τ²−s²) − (|y|−b)₊²/2s²}. So

    δ_N − δ_M ≤ D = √(π/2)·s·e^{w + s²/2τ² + 20b²/s²}·E[e^{-(N−ε)²/2τ²}],

about 5s² times the density at ε, and likewise δ_L − δ_M ≤ D' with Ξ' (s the larger of the two in τ). In sum

    δ_N − D ≤ δ_L ≤ δ_N + D'.

**The law of N** is kept tilted by c: each part's masses times e^{cl}, normalised, are transformed by FFT, raised to
their counts, multiplied and transformed back on a window of n points that holds all but e^{-45} of it. Then

    δ_N(ε) = e^{K − cε}·Σ_l w(l)·G(l−ε),   G(y) = e^{-cy}(1−e^{-y})₊ ≤ κ(c).

**Errors.** A relative error of each mass, mass left out, mass wrapped round (Chernoff's bound, from the very arrays) and
the FFT's error (at most 16u·log₂n in the 2-norm, Higham 2002, Theorem 24.2; ‖x‖₁ ≤ √n‖x‖₂) change the law of N by E in
total variation, so the sum by κ(c)·E. Losses are known to within ζ together: the ends are taken at ε ± ζ. The span is a
power of 2, so that grid points and offsets are exact.

**Humps.** Tilted sampled Gaussians have two humps, and deep in the tail ε lies in the void between, where an error
relative to the humps is too much. There the pair's law is cut in two at the valley: j of its n steps take the upper
part, n−j the lower, and each j has its own tilt. All terms are positive, and their ends add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hush.accounting.cells import Whole, cells, gaussian, rough_cumulant, valley
from hush.accounting.contour import LogInterval
from hush.accounting.conversion import log_kappa
from hush.accounting.cumulant import Cumulant
from hush.accounting.description import Description
from hush.accounting.lattice_law import groups
from hush.accounting.pairs import GaussianPair
from hush.accounting.pairs.rounding import UNIT
from hush.accounting.saddle import Saddle
from hush.accounting.search import invert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hush.accounting.lattice_law import LatticeLaw
    from hush.accounting.pairs import Pair
    from hush.accounting.pairs.base import Floats

__all__ = ["Grid"]

_MOST_STEPS = 400
_MOST_PARTS = 120
_MOST_TERMS = 40
_LEAST, _MOST = 12, 19
_GOAL = 2e-8
_FEW_ATOMS = 1 << 16
_NATS = 45.0
_STEPS: Floats = 10.0 ** (np.arange(-32, 9) / 8)


@dataclass(slots=True)
class _Part:
    """Tilted masses that sum to 1, at losses; ``count`` equal steps."""

    losses: Floats
    masses: Floats
    log_scale: float
    count: int
    width: float
    error: float
    slip: float

    def times(self, other: _Part, c: float) -> _Part:
        """Return the product of two atomic laws of one step each."""
        losses = np.add.outer(self.losses, other.losses).ravel()
        masses = np.multiply.outer(self.masses, other.masses).ravel()
        rounded = 2 * UNIT * float(np.abs(losses).max())
        error = self.error + other.error + self.error * other.error + 4 * UNIT + c * rounded
        return _Part(
            losses, masses, self.log_scale + other.log_scale, 1, 0.0, error, self.slip + other.slip + rounded
        )


@dataclass(frozen=True, slots=True)
class _Spread:
    """What is known of Ξ: its deviation, the largest mean, and the largest modulus."""

    deviation: float
    bias: float
    most: float

    @classmethod
    def of(cls, widths: list[tuple[float, int]]) -> _Spread:
        """Return the spread of so many independent parts of these widths."""
        square = math.fsum(count * width * width for width, count in widths)
        return cls(math.sqrt(square) / 2, square / 6, math.fsum(count * width for width, count in widths))


@dataclass(slots=True)
class _Law:
    """The tilted law of N on grid points, and what bounds its errors."""

    c: float
    losses: Floats
    masses: Floats
    log_scale: float
    blur: float
    error: float
    slip: float
    split: _Spread
    merge: _Spread


Choice = tuple["Pair", int, tuple[float, float]]
"""A pair, how many of its steps, and the range of its noise they take."""


@dataclass(slots=True)
class _Sum:
    """The terms that count, each with ln of how many ways, and (K + ln κ, c) of those that do not."""

    laws: list[tuple[_Law, float]]
    skipped: list[tuple[float, float]]


class Grid:
    """Certified ends for few steps of any kind."""

    def __init__(self, cumulant: Cumulant, *, largest: float, deep: bool = False) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self._most = _MOST + 2 if deep else _MOST
        self._goal = _GOAL / 10 if deep else _GOAL
        self._groups: list[LatticeLaw] = groups(cumulant.pairs)
        self._known: dict[float, list[_Part]] = {}
        self._mu_squared = math.fsum(
            float(p.mu_squared) * n for p, n in cumulant.pairs.items() if isinstance(p, GaussianPair)
        )

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the steps are few enough."""
        loose = sum(n for p, n in pairs.items() if p.lattice() is None and not isinstance(p, GaussianPair))
        return loose <= _MOST_STEPS and len(pairs) <= _MOST_PARTS

    # -- terms ----------------------------------------------------------------------------------------------------

    def _terms(self, c: float) -> list[tuple[list[Choice], float]]:
        """Return the terms of the sum: which pairs take which part of their law, and ln of how many ways."""
        whole: list[Choice] = []
        cut: list[tuple[Pair, int, float]] = []
        for pair, count in self.cumulant.pairs.items():
            if pair.lattice() is not None or isinstance(pair, GaussianPair):
                continue
            at = None if self.cumulant.reverse else valley(pair, c)
            if at is None:
                whole.append((pair, count, Whole))
            else:
                cut.append((pair, count, at))
        # Where there would be too many terms, those with the most steps stay whole.
        cut.sort(key=lambda item: item[1])
        while math.prod(count + 1 for _, count, _ in cut) > _MOST_TERMS:
            pair, count, _ = cut.pop()
            whole.append((pair, count, Whole))
        terms = []
        for numbers in product(*(range(count + 1) for _, count, _ in cut)):
            chosen, ways = list(whole), 0.0
            for (pair, count, at), j in zip(cut, numbers, strict=True):
                chosen += [(pair, count - j, (-math.inf, at))] if j < count else []
                chosen += [(pair, j, (at, math.inf))] if j else []
                ways += math.lgamma(count + 1) - math.lgamma(j + 1) - math.lgamma(count - j + 1)
            terms.append((chosen, ways))
        return terms

    def _placed(self, terms: list[tuple[list[Choice], float]], c: float, epsilon: float) -> list[float]:
        """Return about the saddle point of each term."""
        spread = 40 if len(terms) > 1 else 6
        near: Floats = c * 2.0 ** (np.arange(-spread, spread + 1) / 8)
        apart = {pair for chosen, _ in terms for pair, _, part in chosen if part != Whole}
        rest = Cumulant(
            Description(pairs={p: n for p, n in self.cumulant.pairs.items() if p not in apart}),
            reverse=self.cumulant.reverse,
        )
        base = rest.real(near) if rest.pairs else np.zeros(near.shape)
        base = base - near * epsilon - np.log(near) - np.log1p(near)
        tables: dict[tuple[Pair, tuple[float, float]], Floats] = {}
        found = []
        for chosen, _ in terms:
            height = base
            for pair, count, part in chosen:
                if part != Whole:
                    if (pair, part) not in tables:
                        tables[pair, part] = rough_cumulant(pair, near, part)
                    height = height + count * tables[pair, part]
            height = np.where(np.isfinite(height), height, np.inf)
            at = min(max(int(np.argmin(height)), 1), near.size - 2)
            left, middle, right = (float(x) for x in height[at - 1 : at + 2])
            bend = left - 2 * middle + right
            shift = 0.5 * (left - right) / bend if math.isfinite(bend) and bend > 0 else 0.0
            found.append(float(near[at]) * 2.0 ** (min(max(shift, -1.0), 1.0) / 8))
        return found

    def _parts(self, term: list[Choice], c: float, width: float) -> list[_Part] | None:
        """Return the tilted parts of a term, in cells of this width."""
        parts = []
        made = [(cells(pair, c, width, reverse=self.cumulant.reverse, part=part), n) for pair, n, part in term]
        if self._mu_squared:
            made.append((gaussian(self._mu_squared, c, width), 1))
        for found, count in made:
            if found is None:
                return None
            peak = float(found.logs.max())
            masses = np.exp(found.logs - peak)
            whole = float(masses.sum())
            exponent = UNIT * 8 * (float(np.abs(found.logs).max()) + abs(peak) + 8)
            error = (found.wrong + found.outside + exponent) * 1.1
            scale = peak + math.log(whole)
            parts.append(_Part(found.losses, masses / whole, scale, count, found.width, error, found.slip))
        atoms = self._atoms(c)
        return None if atoms is None else parts + atoms

    def _atoms(self, c: float) -> list[_Part] | None:
        """Return the tilted laws on lattices, multiplied as long as their atoms stay few."""
        if c not in self._known:
            found: list[_Part] = []
            for group in self._groups:
                law = group.tilted(c)
                if law is None:
                    return None
                slip = 4 * UNIT * float(np.abs(law.losses).max())
                error = (law.error + law.blur + 16 * UNIT * (1 + abs(law.log_scale)) + c * slip) * 1.1
                part = _Part(law.losses, law.masses, law.log_scale, 1, 0.0, error, slip)
                if found and found[-1].losses.size * part.losses.size <= _FEW_ATOMS:
                    found[-1] = found[-1].times(part, c)
                else:
                    found.append(part)
            if len(self._known) > 8:
                self._known.clear()
            self._known[c] = found
        return self._known[c]

    def _sum(self, epsilon: float, c: float) -> _Sum | None:
        """Return the laws of the terms that matter at ε."""
        terms = self._terms(c)
        found = []
        for (term, ways), at in zip(terms, self._placed(terms, c, epsilon), strict=True):
            parts = self._parts(term, at, 0.25 / (at + 1))
            if parts is None:
                return None
            # K of the true term is above that of its merged cells by at most c times their width.
            scale = math.fsum(p.count * (p.log_scale + at * p.width + p.error) for p in parts)
            most = ways + scale + float(log_kappa(np.array([at]))[0]) + 1e-12 * (1 + abs(scale))
            found.append((most - at * epsilon, most, at, term, ways, parts))
        found.sort(key=lambda item: -item[0])
        laws: list[tuple[_Law, float]] = []
        skipped: list[tuple[float, float]] = []
        for bound, most, at, term, ways, parts in found:
            if laws and bound < found[0][0] - 40:
                skipped.append((most, at))
                continue
            law = self._law(term, at, parts)
            if law is None:
                return None
            laws.append((law, ways))
        return _Sum(laws, skipped)

    def _law(self, term: list[Choice], c: float, rough: list[_Part]) -> _Law | None:
        """Return the law of N for one term."""
        low, high, down, up = _window(rough)
        wanted = math.sqrt(self._goal / (1.3 * sum(p.count for p in rough)) / (c * (c + 1)))
        power = min(max(math.ceil(math.log2(max((high - low) / wanted, 1.0))), _LEAST), self._most)
        span = 2.0 ** math.ceil(math.log2((high - low) / (2.0**power * 0.95)))
        if span * c > 0.1 or span > 0.1:
            return None
        fine = self._parts(term, c, span / 2)
        return None if fine is None else _composed(fine, c, span, 1 << power, (low + high) / 2, (down, up))

    # -- answers --------------------------------------------------------------------------------------------------

    def _at(self, terms: _Sum, epsilon: float) -> LogInterval:
        lows, highs = [-math.inf], [most - c * epsilon for most, c in terms.skipped]
        for law, ways in terms.laws:
            found = _value(law, ways, epsilon)
            lows.append(found.lower)
            highs.append(found.upper)
        lower, upper = float(np.logaddexp.reduce(lows)), float(np.logaddexp.reduce(highs))
        return LogInterval(lower=lower - 1e-14 * (1 + abs(lower)), upper=min(0.0, upper + 1e-14 * (1 + abs(upper))))

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        found = Saddle(self.cumulant, largest=self.largest).saddle(epsilon)
        terms = None if found is None else self._sum(epsilon, found[0])
        return LogInterval(lower=-math.inf, upper=0.0) if terms is None else self._at(terms, epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        found = Saddle(self.cumulant, largest=self.largest).guess(target.lower)
        if found is None:
            return 0.0, math.inf
        guess, c = found
        lower, upper = 0.0, math.inf
        for _ in range(4):
            terms = self._sum(guess, c)
            if terms is None:
                break
            low, high = invert(
                lambda x, terms=terms: self._at(terms, x),  # type: ignore[misc]
                target,
                guess=guess,
                slope=c,
                largest=self.largest,
            )
            lower, upper = max(lower, low), min(upper, high)
            if upper - lower <= 1e-8 * upper or not math.isfinite(high):
                break
            c = terms.laws[0][0].c
            if abs(high - guess) * c < 0.3:
                break
            guess = high
        return lower, upper


def _cumulant(parts: list[_Part], step: float) -> float:
    """Return ln E e^{step·N} under the tilted law, roughly."""
    total = 0.0
    for part in parts:
        exponent = step * part.losses
        peak = float(exponent.max())
        total += part.count * (
            peak + math.log(max(float((part.masses * np.exp(exponent - peak)).sum()), 1e-300))
        )
    return total


def _window(parts: list[_Part]) -> tuple[float, float, float, float]:
    """Return about between which losses N lies but for e^{-45}, and the Chernoff steps that say so."""
    spread = 0.0
    for part in parts:
        mean = float((part.masses * part.losses).sum())
        spread += part.count * float((part.masses * (part.losses - mean) ** 2).sum())
    scale = max(math.sqrt(spread), 1e-300)
    ends, steps = [], []
    for sign in (-1.0, 1.0):
        logs = np.array([_cumulant(parts, sign * step / scale) for step in _STEPS])
        bounds = (logs + _NATS + 1) / (_STEPS / scale)
        at = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
        ends.append(sign * float(bounds[at]))
        steps.append(sign * float(_STEPS[at]) / scale)
    return ends[0], ends[1], steps[0], steps[1]


def _power(base: Floats, count: int) -> Floats:
    result = None
    while count:
        if count & 1:
            result = base if result is None else result * base
        count >>= 1
        if count:
            base = base * base
    assert result is not None  # noqa: S101 - counts are positive
    return result


def _composed(
    parts: list[_Part], c: float, span: float, size: int, centre: float, steps: tuple[float, float]
) -> _Law | None:
    """Split every part on the grid, and multiply their transforms."""
    product_: Floats | None = None
    rounding, mismatch, products = 0.0, 0.0, 0
    start = math.floor(centre / span) - size // 2
    edges = [start * span, (start + size) * span]
    wrapped = [0.0, 0.0]
    for part in parts:
        index = np.floor(part.losses / span)
        rest = part.losses - index * span
        up = -np.expm1(-rest) / -math.expm1(-span)
        places = index.astype(np.int64)
        masses = np.bincount(places % size, part.masses * (1 - up) * np.exp(-c * rest), size)
        masses += np.bincount((places + 1) % size, part.masses * up * np.exp(c * (span - rest)), size)
        crowd = int(np.bincount(places % size, minlength=size).max())
        transformed = np.fft.rfft(masses)
        rounding += part.count * float(np.linalg.norm(masses))
        mismatch += part.count * (part.error + UNIT * (2 * crowd + 32 + 8 * c * span))
        products += 2 * part.count.bit_length() + 1
        powered = _power(transformed, part.count)
        product_ = powered if product_ is None else product_ * powered
        for k, step in enumerate(steps):
            wrapped[k] += part.count * ((c + abs(step)) * span + _cumulant([_single(part)], step))
    if product_ is None:
        return None
    masses = np.fft.irfft(product_, n=size)
    whirl = 16 * UNIT * math.log2(size)
    norm = float(np.linalg.norm(masses))
    error = math.expm1(mismatch * (1 + 1e-6)) * (1 + 1e-6)
    error += math.sqrt(size) * (whirl * rounding + (16 * UNIT * products + whirl) * norm) * (1 + 1e-3)
    # What lies outside the window came in at the wrong place: once in, once missing.
    error += 2 * math.fsum(math.exp(min(wrapped[k] - steps[k] * edges[k] + 1e-9, 0.0)) for k in (0, 1))
    masses = np.roll(np.maximum(masses, 0.0), -(start % size))
    losses = (start + np.arange(size)) * span
    scale = math.fsum(part.count * part.log_scale for part in parts)
    blur = 8 * UNIT * math.fsum(part.count * (abs(part.log_scale) + 1) for part in parts)
    slip = math.fsum(part.count * part.slip for part in parts)
    return _Law(
        c,
        losses,
        masses,
        scale,
        blur,
        error,
        slip,
        _Spread.of([(span, part.count) for part in parts]),
        _Spread.of([(part.width, part.count) for part in parts]),
    )


def _single(part: _Part) -> _Part:
    return _Part(part.losses, part.masses, 0.0, 1, part.width, part.error, part.slip)


def _value(law: _Law, ways: float, epsilon: float) -> LogInterval:
    """Return the ends of one term's share of ln δ(ε)."""
    c = law.c
    front = law.log_scale + ways - c * epsilon
    bound = math.exp(float(log_kappa(np.array([c]))[0])) * (1 + 1e-9)
    tau = 1.1 * max(law.split.deviation, law.merge.deviation) ** 2
    slip = law.slip + 2 * UNIT * (abs(epsilon) + float(np.abs(law.losses[[0, -1]]).max()))
    # Beyond 70/c above ε, G is below e^{-70}; below ε only what is next to it matters.
    reach = 40 * math.sqrt(tau) + 2 * slip
    first, last = np.searchsorted(law.losses, [epsilon - reach, epsilon + reach + 70 / c])
    y = law.losses[first:last] - epsilon
    masses = law.masses[first:last]
    with np.errstate(under="ignore"):
        tilted = masses * np.exp(-c * y)
        total = float((tilted * -np.expm1(-np.maximum(y, 0.0))).sum())
        near = np.abs(y) <= reach
        density = float((tilted[near] * np.exp(-0.5 * y[near] ** 2 / tau)).sum()) * (1 + 1e-9) + 1e-300
    density += law.error * math.exp(c * c * tau / 2)
    # |G(y±ζ) − G(y)| ≤ ζ(cG + e^{-cy}), for y above −ζ.
    doubt = UNIT * (64 + 16 * c * float(np.abs(y).max(initial=0.0))) * total + bound * law.error + math.exp(-70)
    doubt += slip * (c * total + float(tilted[y >= -slip].sum())) * (1 + 4 * c * slip)
    ends = []
    for sign, spread in ((-1.0, law.split), (1.0, law.merge)):
        s = spread.deviation
        extra = 0.0
        if s > 0:
            grow = spread.most + law.split.deviation**2 / (2 * tau)
            grow += (law.split.bias + spread.bias) ** 2 / (2 * (tau - s * s))
            extra = math.sqrt(math.pi / 2) * (s + spread.bias) * math.exp(grow) * density
        ends.append(total + sign * (doubt + extra))
    slack = law.blur + 8 * UNIT * (abs(front) + abs(law.log_scale) + c * abs(epsilon) + 1)
    lower, upper = ends
    return LogInterval(
        lower=front + math.log(lower) - slack if lower > 0 else -math.inf,
        upper=front + math.log(upper) + slack if upper > 0 else -math.inf,
    )
