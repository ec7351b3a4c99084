r"""Few steps of any kind on a fine grid, with both ends of second order in its span.

**Merge, then split.** Merge each pair's outcomes into narrow cells (:mod:`hush.accounting.pairs.loss_cells`), so that
the composition L becomes M with L = M + Ξ', and split each merged atom between the grid points a ≤ m < a+d so that its
masses under P and under Q stay what they were: M becomes N = M + Ξ. Merging is post-processing and so is undoing the
split (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022), hence δ_M ≤ δ_L and δ_M ≤ δ_N. How far apart are they? Given
M = ε + y, both Ξ and Ξ' are sums of independent parts, part i within ±wᵢ of 0 with E e^{-ξᵢ} = 1, and

    δ_N − δ_M = E[(1−e^{-y-Ξ})₊ − (1−e^{-y})₊] = E[|1−e^{-y-Ξ}|; y and y+Ξ of opposite signs] ≤ e^w·E(|Ξ| − |y|)₊

with w = Σwᵢ, because e^{-y}(1−e^{-Ξ}) has mean 0. By Hoeffding's lemma Ξ is sub-Gaussian of variance s² = Σwᵢ²/4 round
its mean, which lies in [0, b], b = Σwᵢ²/6; so that expectation is at most ψ(y) = (√(π/2)·s + b)·e^{-(|y|−b)₊²/2s²}. To
turn that into something known of N: by Jensen, for any τ, E[e^{-(y+Ξ)²/2τ²}] ≥ e^{-((|y|+b)²+s²)/2τ²}, and with τ² =
1.1·s² this is at least e^{-s²/2τ² − (2b)²/2(τ²−s²) − (|y|−b)₊²/2s²}. So

    δ_N − δ_M ≤ D = (√(π/2)·s + b)·e^{w + s²/2τ² + (2b)²/2(τ²−s²)}·E[e^{-(N−ε)²/2τ²}],

about 5s² times the density at ε, and likewise δ_L − δ_M ≤ D' with Ξ' (s the larger of the two in τ). In sum

    δ_N − D ≤ δ_L ≤ δ_N + D'.

**The law of N** is kept tilted by c: each part's masses times e^{cl}, normalised, are transformed by FFT, raised to
their counts, multiplied and transformed back on a window of n points that holds all but e^{-45} of it. Then

    δ_N(ε) = e^{K − cε}·Σ_l w(l)·G(l−ε),   G(y) = e^{-cy}(1−e^{-y})₊ ≤ κ(c).

**Errors.** A relative error of each mass, mass left out, mass wrapped round (Chernoff's bound, from the arrays) and
the FFT's error (at most 16u·log₂n in the 2-norm, Higham 2002, Theorem 24.2; ‖x‖₁ ≤ √n‖x‖₂) change the law of N by E in
total variation, so the sum by κ(c)·E. Losses are known to within ζ together: the ends are taken at ε ± ζ. The span is a
power of 2, so that grid points and offsets are exact.

**Humps.** Tilted sampled Gaussians have two humps, and deep in the tail ε lies in the void between, where an error
relative to the humps is too much. There the pair's law is cut in two at the valley: j of its n steps take the upper
part, n−j the lower, and each j has its own tilt. All terms are positive, and their ends add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs.base import EVERYWHERE, UNIT, Complexes, Floats, Pair, Range
from hush.accounting.pairs.loss_cells import gaussian_cells
from hush.accounting.profile.cumulant import Cumulant, log_kappa
from hush.accounting.profile.lattices import LatticeLaw, groups
from hush.accounting.profile.method import FittedMethod, LogInterval, invert

_MAX_STEPS = 100_000
_MAX_PAIRS = 120
_MAX_TERMS = 40
"""The largest number of terms into which cuts at valleys may split the sum."""
_MAX_CUT_STEPS = 5000
"""The largest count of a pair that is cut although only the first terms of its sum are computed."""
_MAX_JUMPS = 9
"""The largest number of steps that take the upper part where only the first terms of a sum are computed."""
_LEAST_GRID_POWER, _MAX_GRID_POWER = 12, 19
"""The grid has 2^12 to 2^19 points, eight times as many where it goes deep."""
_RELATIVE_GOAL = 2e-8
_MAX_MERGED_ATOMS = 1 << 16
_NEGLIGIBLE_NATS = 26.0
"""Nats below the largest term at which a term is bounded instead of computed."""
_WINDOW_NATS = 45.0
"""The window leaves out a tilted mass of about e^{-45} on either side."""
_FARTHEST_START = 1 << 61
"""The largest distance in spans between 0 and a window's start: indices are 64-bit."""
_LARGEST_EXPONENT = 600.0
_CHERNOFF_STEPS: Floats = 10.0 ** (np.arange(-32, 9) / 8)


Choice = tuple[Pair, int, Range]
"""A pair, the number of its steps, and the range of noise in these steps."""


@dataclass(slots=True)
class _Sum:
    """The computed terms, each with ln of its multiplicity, and bounds (K + ln κ, c) of the skipped terms."""

    laws: list[tuple[GridLaw, float]]
    skipped: list[tuple[float, float]]


class Convolution(FittedMethod):
    """Certified ends for few steps of any kind."""

    last_resort = True

    def __init__(self, cumulant: Cumulant, *, largest: float, deep: bool = False) -> None:
        super().__init__(cumulant, largest=largest)
        self._max_power = _MAX_GRID_POWER + 3 if deep else _MAX_GRID_POWER
        self._goal = 5 * _RELATIVE_GOAL if deep else _RELATIVE_GOAL
        self._known: dict[float, list[GridPart]] = {}
        self._cut_short: tuple[Pair, int, float, int] | None = None
        self._loose = [pair for pair in cumulant.pairs if pair.sampled]
        squares = [(pair.gaussian(), count) for pair, count in cumulant.pairs.items()]
        self._mu_squared = math.fsum(float(square) * count for square, count in squares if square is not None)

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the steps are few enough."""
        if len(pairs) > _MAX_PAIRS:
            return False
        return sum(n for p, n in pairs.items() if not p.atoms_suffice(n) and p.gaussian() is None) <= _MAX_STEPS

    @cached_property
    def _groups(self) -> list[LatticeLaw]:
        """The steps with atoms, those on one lattice together."""
        return groups({pair: count for pair, count in self.cumulant.pairs.items() if pair.atoms_suffice(count)})

    # -- terms ----------------------------------------------------------------------------------------------------

    def _terms(self, c: float) -> list[tuple[list[Choice], float]]:
        """Return the terms of the sum: the part of its law that each pair takes, and ln of the multiplicity."""
        uncut: list[Choice] = []
        cut: list[tuple[Pair, int, float]] = []
        for pair, count in self.cumulant.pairs.items():
            if pair.atoms_suffice(count) or pair.gaussian() is not None:
                continue
            valley = None if self.cumulant.reverse else pair.valley(c)
            if valley is None:
                uncut.append((pair, count, EVERYWHERE))
            else:
                cut.append((pair, count, valley))
        # Where there would be too many terms, those with the most steps stay whole.
        cut.sort(key=lambda sampled: sampled[1])
        self._cut_short = None
        while math.prod(count + 1 for _, count, _ in cut) > _MAX_TERMS:
            pair, count, valley = cut.pop()
            jumps = _MAX_TERMS // math.prod(n + 1 for _, n, _ in cut) - 1
            if jumps >= 3 and count <= _MAX_CUT_STEPS:
                # Many steps, few of which take the upper part: the rest of the sum is bounded as a whole.
                cut.append((pair, count, valley))
                self._cut_short = pair, count, valley, min(jumps, _MAX_JUMPS)
                break
            uncut.append((pair, count, EVERYWHERE))
        tops = [n if self._cut_short is None or p != self._cut_short[0] else self._cut_short[3] for p, n, _ in cut]
        terms = []
        for numbers in product(*(range(top + 1) for top in tops)):
            term, ways = list(uncut), 0.0
            for (pair, count, valley), j in zip(cut, numbers, strict=True):
                term += [(pair, count - j, (-math.inf, valley))] if j < count else []
                term += [(pair, j, (valley, math.inf))] if j else []
                ways += math.log(math.comb(count, j))
            terms.append((term, ways))
        return terms

    def _placed(self, terms: list[tuple[list[Choice], float]], c: float, epsilon: float) -> list[float]:
        """Return an estimate of the saddle point of each term."""
        spread = 40 if len(terms) > 1 else 6
        near: Floats = c * 2.0 ** (np.arange(-spread, spread + 1) / 8)
        # K of the uncut pairs is known; for the parts of a cut law an estimate serves, since any tilt is valid.
        apart = {pair for term, _ in terms for pair, _, noise in term if noise != EVERYWHERE}
        uncut = Cumulant(
            Description(pairs={p: n for p, n in self.cumulant.pairs.items() if p not in apart}),
            reverse=self.cumulant.reverse,
        )
        base = uncut.real(near) if uncut.pairs else np.zeros(near.shape)
        base = base - near * epsilon - np.log(near) - np.log1p(near)
        tables: dict[tuple[Pair, Range], Floats] = {}
        tilts = []
        for term, _ in terms:
            height = base
            for pair, count, noise in term:
                if noise != EVERYWHERE:
                    if (pair, noise) not in tables:
                        tables[pair, noise] = pair.rough_cumulant(near, noise)
                    height = height + count * tables[pair, noise]
            height = np.where(np.isfinite(height), height, np.inf)
            lowest = min(max(int(np.argmin(height)), 1), near.size - 2)
            # The minimum of the parabola through three neighbouring points, at most one grid step away.
            before, middle, after = (float(x) for x in height[lowest - 1 : lowest + 2])
            bend = before - 2 * middle + after
            shift = 0.5 * (before - after) / bend if math.isfinite(bend) and bend > 0 else 0.0
            tilts.append(float(near[lowest]) * 2.0 ** (min(max(shift, -1.0), 1.0) / 8))
        return tilts

    def _climbed(self, term: list[Choice], c: float, epsilon: float) -> float:
        """Return a better tilt where the cumulant is not known beyond c: doubled while that lowers the peak."""
        if not self._loose or math.isfinite(float(self.cumulant.real(np.array([2 * c]))[0])):
            return c

        def height(x: float) -> float:
            parts = self._parts(term, x, 0.25 / (x + 1))
            if parts is None:
                return math.inf
            return math.fsum(p.count * p.log_scale for p in parts) - x * epsilon - math.log(x) - math.log1p(x)

        best = height(c)
        for factor in (2.0, 1.25):
            while c < 1e12:
                tried = height(factor * c)
                if not tried < best:
                    break
                best, c = tried, factor * c
        return c

    def _parts(self, term: list[Choice], c: float, width: float) -> list[GridPart] | None:
        """Return the tilted parts of a term, in cells of this width."""
        parts = []
        laws = [(pair.cells(c, width, reverse=self.cumulant.reverse, noise=noise), n) for pair, n, noise in term]
        if self._mu_squared:  # all Gaussian steps are one
            laws.append((gaussian_cells(self._mu_squared, c, width), 1))
        for cells, count in laws:
            if cells is None:
                return None
            peak = float(cells.logs.max())
            masses = np.exp(cells.logs - peak)
            mass = float(masses.sum())
            exponent = UNIT * 8 * (float(np.abs(cells.logs).max()) + abs(peak) + 8)
            error = (cells.wrong + cells.outside + exponent) * 1.1
            scale = peak + math.log(mass)
            parts.append(GridPart(cells.losses, masses / mass, scale, count, cells.width, error, cells.slip))
        atoms = self._atoms(c)
        return None if atoms is None else parts + atoms

    def _atoms(self, c: float) -> list[GridPart] | None:
        """Return the tilted laws on lattices, multiplied as long as their atoms stay few."""
        if c not in self._known:
            merged: list[GridPart] = []
            for group in self._groups:
                law = group.tilted(c)
                if law is None:
                    return None
                slip = 4 * UNIT * float(np.abs(law.losses).max())
                # Masses below the error may as well be left out: a far atom of no mass would widen the window.
                order = np.argsort(law.masses)
                keep = np.sort(order[np.cumsum(law.masses[order]) > law.error])
                if not keep.size:
                    return None
                error = (2 * law.error + law.blur + 16 * UNIT * (1 + abs(law.log_scale)) + c * slip) * 1.1
                atoms = GridPart(law.losses[keep], law.masses[keep], law.log_scale, 1, 0.0, error, slip)
                if merged and merged[-1].losses.size * atoms.losses.size <= _MAX_MERGED_ATOMS:
                    merged[-1] = merged[-1].times(atoms, c)
                else:
                    merged.append(atoms)
            if len(self._known) > 8:
                self._known.clear()
            self._known[c] = merged
        return self._known[c]

    def _sum(self, epsilon: float, c: float) -> _Sum | None:
        """Return the laws of the terms that matter at ε."""
        terms = self._terms(c)
        bounded = []
        for (term, ways), start in zip(terms, self._placed(terms, c, epsilon), strict=True):
            tilt = self._climbed(term, start, epsilon)
            parts = self._parts(term, tilt, 0.25 / (tilt + 1))
            if parts is None:
                return None
            # K of the true term is above that of its merged cells by at most c times their width.
            scale = math.fsum(p.count * (p.log_scale + tilt * p.width + p.error) for p in parts)
            log_bound = ways + scale + float(log_kappa(np.array([tilt]))[0]) + 1e-12 * (1 + abs(scale))
            bounded.append((log_bound - tilt * epsilon, log_bound, tilt, term, ways, parts))
        # From the term that weighs most at ε.
        bounded.sort(key=lambda candidate: -candidate[0])
        laws: list[tuple[GridLaw, float]] = []
        skipped: list[tuple[float, float]] = []
        if self._cut_short is not None:
            remainder = self._remainder(epsilon, c)
            if remainder is None:
                return None
            skipped.append(remainder)
        # Many terms share the cost that one may have.
        computed = sum(bound >= bounded[0][0] - _NEGLIGIBLE_NATS for bound, *_ in bounded)
        power = max(_MAX_GRID_POWER, self._max_power - math.ceil(math.log2(max(computed, 1))))
        for bound, log_bound, tilt, term, ways, parts in bounded:
            if laws and bound < bounded[0][0] - _NEGLIGIBLE_NATS:
                skipped.append((log_bound, tilt))
                continue
            law = self._law(term, tilt, parts, power)
            if law is None:
                return None
            laws.append((law, ways))
        return _Sum(laws, skipped)

    def _remainder(self, epsilon: float, c: float) -> tuple[float, float] | None:
        """Return (K + ln κ, c), a bound of all terms with more steps in the upper part than were computed."""
        assert self._cut_short is not None  # noqa: S101 - asked for only then
        pair, count, valley, top = self._cut_short
        uncut: list[Choice] = [
            (p, n, EVERYWHERE)
            for p, n in self.cumulant.pairs.items()
            if p != pair and not p.atoms_suffice(n) and p.gaussian() is None
        ]
        term: list[Choice] = [(pair, 1, (-math.inf, valley)), (pair, 1, (valley, math.inf)), *uncut]
        j = np.arange(top + 1, count + 1)
        ways = np.array([math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in j])
        best: tuple[float, float] | None = None
        # Chernoff's bound of the whole remainder at one tilt; every tilt is valid, and the least bound at ε is kept.
        for x in c * 2.0 ** (np.arange(-24.0, 5.0) / 4):
            parts = self._parts(term, float(x), 0.25 / (float(x) + 1))
            if parts is None:
                continue
            lower, upper, *uncut_scales = [p.count * (p.log_scale + x * p.width + p.error) for p in parts]
            scale = float(np.logaddexp.reduce(ways + (count - j) * lower + j * upper)) + math.fsum(uncut_scales)
            bound = scale + float(log_kappa(np.array([x]))[0]) + 1e-11 * (1 + abs(scale)), float(x)
            if best is None or bound[0] - bound[1] * epsilon < best[0] - best[1] * epsilon:
                best = bound
        return best

    def _law(self, term: list[Choice], c: float, rough: list[GridPart], largest_power: int) -> GridLaw | None:
        """Return the law of N for one term."""
        low, high, down, up = window(rough)
        # The ends are of second order in the span: this span makes their distance about the goal.
        target_span = math.sqrt(self._goal / (1.3 * sum(p.count for p in rough)) / (c * (c + 1)))
        power = min(max(math.ceil(math.log2(max((high - low) / target_span, 1.0))), _LEAST_GRID_POWER), largest_power)
        span = 2.0 ** math.ceil(math.log2((high - low) / (2.0**power * 0.95)))
        if span * c > 0.1 or span > 0.1:
            return None
        fine = self._parts(term, c, span / 2)
        return None if fine is None else composed(fine, c, span, 1 << power, (low + high) / 2, (down, up))

    # -- answers --------------------------------------------------------------------------------------------------

    def _at(self, terms: _Sum, epsilon: float) -> LogInterval:
        lows, highs = [-math.inf], [log_bound - c * epsilon for log_bound, c in terms.skipped]
        for law, ways in terms.laws:
            ends = value_at(law, ways, epsilon)
            lows.append(ends.lower)
            highs.append(ends.upper)
        lower, upper = float(np.logaddexp.reduce(lows)), float(np.logaddexp.reduce(highs))
        return LogInterval(lower=lower - 1e-14 * (1 + abs(lower)), upper=min(0.0, upper + 1e-14 * (1 + abs(upper))))

    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        terms = self._sum(epsilon, c)
        return None if terms is None else partial(self._at, terms)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        root = self.saddle.root(target.lower)
        if root is None:
            return 0.0, math.inf
        c, guess = root
        lower, upper = 0.0, math.inf
        for _ in range(6):
            terms = self._sum(guess, c)
            if terms is None:
                break
            sharp = terms.laws[0][0].c
            low, high = invert(partial(self._at, terms), target, guess=guess, slope=sharp, largest=self.largest)
            lower, upper = max(lower, low), min(upper, high)
            # The law is sharp next to the guess: go on from the new end as long as it moves.
            better = upper if math.isfinite(upper) else 2 * lower
            if upper - lower <= 1e-9 * upper or abs(better - guess) * sharp < 0.3:
                break
            guess = better
            placed = self.saddle.at_epsilon(guess)
            if placed is None:
                break
            c = placed[0]
        return lower, upper


# -- the law of N: parts split on a power-of-2 grid, transformed, multiplied, read at any ε ----------------------------


@dataclass(slots=True)
class GridPart:
    """Tilted masses that sum to 1, at losses; ``count`` equal steps."""

    losses: Floats
    masses: Floats
    log_scale: float
    count: int
    width: float
    error: float
    slip: float

    def times(self, factor: GridPart, c: float) -> GridPart:
        """Return the product of two atomic laws of one step each."""
        losses = np.add.outer(self.losses, factor.losses).ravel()
        masses = np.multiply.outer(self.masses, factor.masses).ravel()
        rounded = 2 * UNIT * float(np.abs(losses).max())
        # (1+E)(1+F) − 1, the rounding of a product, and that of a loss in e^{cl}.
        error = self.error + factor.error + self.error * factor.error + 4 * UNIT + c * rounded
        return GridPart(
            losses, masses, self.log_scale + factor.log_scale, 1, 0.0, error, self.slip + factor.slip + rounded
        )


@dataclass(frozen=True, slots=True)
class Displacement:
    """Bounds of Ξ: its deviation, its largest mean, and its largest modulus."""

    deviation: float
    bias: float
    largest: float

    @classmethod
    def of(cls, widths: list[tuple[float, int]]) -> Displacement:
        """Return the spread of a sum of independent parts, given as (width, count)."""
        square = math.fsum(count * width * width for width, count in widths)
        # Hoeffding's lemma: variance Σw²/4; and a mean of at most Σw²/6, as E e^{-ξ} = 1.
        return cls(math.sqrt(square) / 2, square / 6, math.fsum(count * width for width, count in widths))


@dataclass(slots=True)
class GridLaw:
    """The tilted law of N on grid points, with bounds of its errors."""

    c: float
    losses: Floats
    masses: Floats
    log_scale: float
    blur: float
    error: float
    slip: float
    split: Displacement
    merge: Displacement


def log_mean(grid_part: GridPart, step: float) -> float:
    """Return ln E e^{step·N} under one step's tilted law, without the rounding."""
    exponent = step * grid_part.losses
    peak = float(exponent.max())
    return peak + math.log(max(float((grid_part.masses * np.exp(exponent - peak)).sum()), 1e-300))


def window(parts: list[GridPart]) -> tuple[float, float, float, float]:
    """Return an interval of losses that leaves out about e^{-45} on either side, and the Chernoff steps for it."""
    spread = 0.0
    for grid_part in parts:
        mean = float((grid_part.masses * grid_part.losses).sum())
        spread += grid_part.count * float((grid_part.masses * (grid_part.losses - mean) ** 2).sum())
    farthest = max(float(np.abs(grid_part.losses).max()) for grid_part in parts)
    scale = max(math.sqrt(spread), 1e-9 * farthest, 1e-300)
    ends, steps = [], []
    for sign in (-1.0, 1.0):
        logs = np.array(
            [sum(part.count * log_mean(part, sign * step / scale) for part in parts) for step in _CHERNOFF_STEPS]
        )
        bounds = (logs + _WINDOW_NATS + 1) / (_CHERNOFF_STEPS / scale)
        tightest = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
        ends.append(sign * float(bounds[tightest]))
        steps.append(sign * float(_CHERNOFF_STEPS[tightest]) / scale)
    return ends[0], ends[1], steps[0], steps[1]


def _power(base: Complexes, count: int) -> Complexes:
    result = None
    while count:
        if count & 1:
            result = base if result is None else result * base
        count >>= 1
        if count:
            base = base * base
    assert result is not None  # noqa: S101 - counts are positive
    return result


def composed(
    parts: list[GridPart], c: float, span: float, size: int, centre: float, steps: tuple[float, float]
) -> GridLaw | None:
    """Return the law of the sum: every part split on the grid, their transforms multiplied."""
    product: Complexes | None = None
    rounding, mismatch, growth, products = 0.0, 0.0, 0.0, 0
    start = math.floor(centre / span) - size // 2
    if abs(start) > _FARTHEST_START:
        return None
    edges = [start * span, (start + size) * span]
    wrapped = [0.0, 0.0]
    for grid_part in parts:
        # Split each atom between its two grid points so that its masses under P and under Q stay: E e^{-ξ} = 1.
        index = np.floor(grid_part.losses / span)
        above = grid_part.losses - index * span  # the distance to the grid point below; the span is a power of 2: exact
        up = -np.expm1(-above) / -math.expm1(-span)
        places = index.astype(np.int64)
        masses = np.bincount(places % size, grid_part.masses * (1 - up) * np.exp(-c * above), size)
        masses += np.bincount((places + 1) % size, grid_part.masses * up * np.exp(c * (span - above)), size)
        crowd = int(np.bincount(places % size, minlength=size).max())
        # In the Fourier domain ``count`` equal steps are a power, and different steps a product.
        transformed = np.fft.rfft(masses)
        rounding += grid_part.count * float(np.linalg.norm(masses))
        mismatch += grid_part.count * (grid_part.error + UNIT * (2 * crowd + 32 + 8 * c * span))
        # Squaring doubles what was lost before: the n-th power carries n roundings, however few products it takes.
        products += grid_part.count + 1
        growth += grid_part.count * math.log(max(float(masses.sum()), 1.0))
        powered = _power(transformed, grid_part.count)
        product = powered if product is None else product * powered
        # Chernoff's bound on the mass beyond either edge; splitting moves an atom by a span at most.
        for k, step in enumerate(steps):
            wrapped[k] += grid_part.count * ((c + abs(step)) * span + log_mean(grid_part, step))
    if product is None:
        return None
    law: Floats = np.fft.irfft(product, n=size)
    whirl = 16 * UNIT * math.log2(size)
    norm = float(np.linalg.norm(law))
    # The bounds below are of first order, and of no use where the errors are not small.
    if growth > 1 or mismatch > 1:
        return None
    # Splitting adds to the tilted mass, and with it to all that is relative to the whole.
    error = math.expm1(mismatch * (1 + 1e-6)) * (1 + 1e-6) * math.exp(growth)
    error += math.sqrt(size) * (whirl * rounding * math.exp(growth) + (4 * UNIT * products + whirl) * norm) * (1 + 1e-3)
    # Mass outside the window was wrapped round to a wrong loss: it counts twice, as added and as missing.
    error += 2 * math.fsum(math.exp(min(wrapped[k] - steps[k] * edges[k] + 1e-9, 0.0)) for k in (0, 1))
    law = np.roll(np.maximum(law, 0.0), -(start % size))
    losses: Floats = np.asarray((start + np.arange(size)) * span, dtype=np.float64)
    scale = math.fsum(grid_part.count * grid_part.log_scale for grid_part in parts)
    blur = 8 * UNIT * math.fsum(grid_part.count * (abs(grid_part.log_scale) + 1) for grid_part in parts)
    slip = math.fsum(grid_part.count * grid_part.slip for grid_part in parts)
    return GridLaw(
        c,
        losses,
        law,
        scale,
        blur,
        error,
        slip,
        Displacement.of([(span, grid_part.count) for grid_part in parts]),
        Displacement.of([(grid_part.width, grid_part.count) for grid_part in parts]),
    )


def value_at(law: GridLaw, ways: float, epsilon: float) -> LogInterval:
    """Return the ends of one term's share of ln δ(ε)."""
    c = law.c
    front = law.log_scale + ways - c * epsilon
    bound = math.exp(float(log_kappa(np.array([c]))[0])) * (1 + 1e-9)
    # τ² of the module's docstring: the density of N next to ε bounds the mass that splitting and merging moved.
    tau = 1.1 * max(law.split.deviation, law.merge.deviation) ** 2
    slip = law.slip + 2 * UNIT * (abs(epsilon) + float(np.abs(law.losses[[0, -1]]).max()))
    grows = [
        spread.largest
        + law.split.deviation**2 / (2 * tau)
        + (law.split.bias + spread.bias) ** 2 / (2 * (tau - spread.deviation**2))
        for spread in (law.split, law.merge)
    ]
    if not (max(*grows, c * c * tau / 2) < _LARGEST_EXPONENT and c * slip < 0.1):
        return LogInterval(lower=-math.inf, upper=math.inf)
    # Beyond 70/c above ε, G is below e^{-70}; below ε only the losses next to it matter.
    half_width = 40 * math.sqrt(tau) + 2 * slip
    first, last = np.searchsorted(law.losses, [epsilon - half_width, epsilon + half_width + 70 / c])
    y = law.losses[first:last] - epsilon
    masses = law.masses[first:last]
    with np.errstate(under="ignore"):
        tilted = masses * np.exp(-c * y)
        total = float((tilted * -np.expm1(-np.maximum(y, 0.0))).sum())
        near = np.abs(y) <= half_width
        density = float((tilted[near] * np.exp(-0.5 * y[near] ** 2 / tau)).sum()) * (1 + 1e-9) + 1e-300
    density += law.error * math.exp(c * c * tau / 2)
    # |G(y±ζ) − G(y)| ≤ ζ(cG + e^{-cy}), for y above −ζ.
    doubt = UNIT * (64 + 16 * c * float(np.abs(y).max(initial=0.0))) * total + bound * law.error + math.exp(-70)
    doubt += slip * (c * total + float(tilted[y >= -slip].sum())) * (1 + 4 * c * slip)
    ends = []
    for sign, spread, grow in ((-1.0, law.split, grows[0]), (1.0, law.merge, grows[1])):
        extra = (math.sqrt(math.pi / 2) * spread.deviation + spread.bias) * math.exp(grow) * density
        ends.append(total + sign * (doubt + extra))
    slack = law.blur + 8 * UNIT * (abs(front) + abs(law.log_scale) + c * abs(epsilon) + 1)
    lower, upper = ends
    return LogInterval(
        lower=front + math.log(lower) - slack if lower > 0 else -math.inf,
        upper=front + math.log(upper) + slack if upper > 0 else -math.inf,
    )
