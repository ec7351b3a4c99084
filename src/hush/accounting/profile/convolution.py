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

**Errors.** Relative errors of masses multiply: w is off by a share ρ of itself. Mass left out and mass wrapped round
(Chernoff's bound, from the arrays) change the law by E in total variation, so a sum Σ w·G by max G·E. The FFT's error
is at most 16u·log₂n in the 2-norm (Higham 2002, Theorem 24.2), and changes the sum by ‖G‖₂ times that at most. Losses
are known to within ζ together: the ends are taken at ε ± ζ. The span is a power of 2, so that grid points and offsets
are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from hush.accounting.pairs.base import UNIT, Complexes, Floats, LossCells, Pair
from hush.accounting.pairs.loss_cells import gaussian_cells
from hush.accounting.profile.cumulant import Cumulant, log_kappa
from hush.accounting.profile.lattices import Group, groups
from hush.accounting.profile.method import FittedMethod, LogInterval, invert

_MAX_STEPS = 100_000
_MAX_PAIRS = 120
_LEAST_GRID_POWER, _MAX_GRID_POWER = 12, 22
"""The grid has 2^12 to 2^22 points."""
_RELATIVE_GOAL = 2e-8
_MAX_MERGED_ATOMS = 1 << 16
_WINDOW_NATS = 45.0
"""The window leaves out a tilted mass of about e^{-45} on either side."""
_DROPPED_MASS = 1e-18
"""Masses on a lattice that together are less than this are left out."""
_FARTHEST_START = 1 << 61
"""The largest distance in spans between 0 and a window's start: indices are 64-bit."""
_LARGEST_EXPONENT = 600.0
_CHERNOFF_STEPS: Floats = 10.0 ** (np.arange(-32, 9) / 8)


class Convolution(FittedMethod):
    """Certified ends for few steps of any kind."""

    last_resort = True

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        super().__init__(cumulant, largest=largest)
        self._known: dict[float, list[GridPart | None]] = {}
        squares = [(pair.gaussian(), count) for pair, count in cumulant.pairs.items()]
        self._mu_squared = math.fsum(float(square) * count for square, count in squares if square is not None)

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether the steps are few enough."""
        if len(pairs) > _MAX_PAIRS:
            return False
        return sum(n for p, n in pairs.items() if not p.atoms_suffice(n) and p.gaussian() is None) <= _MAX_STEPS

    @cached_property
    def _groups(self) -> list[Group]:
        """The steps with atoms, those on one lattice together."""
        return groups({pair: count for pair, count in self.cumulant.pairs.items() if pair.atoms_suffice(count)})

    # -- the law of N ---------------------------------------------------------------------------------------------

    def _parts(self, c: float, width: float) -> list[GridPart] | None:
        """Return the tilted parts, in cells of this width."""
        laws = [
            (pair.cells(c, width, reverse=self.cumulant.reverse), count)
            for pair, count in self.cumulant.pairs.items()
            if not pair.atoms_suffice(count) and pair.gaussian() is None
        ]
        if self._mu_squared:  # all Gaussian steps are one
            laws.append((gaussian_cells(self._mu_squared, c, width), 1))
        parts = [None if cells is None else GridPart.of(cells, count) for cells, count in laws]
        parts += self._atoms(c)
        certified = [part for part in parts if part is not None]
        return certified if len(certified) == len(parts) else None

    def _atoms(self, c: float) -> list[GridPart | None]:
        """Return the tilted laws on lattices, multiplied as long as their atoms stay few."""
        if c not in self._known:
            merged: list[GridPart | None] = []
            for group in self._groups:
                law, last = on_lattice(group, c), merged[-1] if merged else None
                if law is not None and last is not None and last.losses.size * law.losses.size <= _MAX_MERGED_ATOMS:
                    merged[-1] = last.times(law, c)
                else:
                    merged.append(law)
            if len(self._known) > 8:
                self._known.clear()
            self._known[c] = merged
        return self._known[c]

    def _law(self, c: float, span: float) -> GridLaw | None:
        """Return the law of N, tilted by c, on a grid of this span where that has not too many points."""
        rough = self._parts(c, 0.25 / (c + 1))
        if rough is None:
            return None
        low, high, down, up = window(rough)
        power = math.ceil(math.log2(max((high - low) / span, 1.0)))
        power = min(max(power, _LEAST_GRID_POWER), _MAX_GRID_POWER)
        span = 2.0 ** math.ceil(math.log2((high - low) / (2.0**power * 0.95)))
        if span * c > 0.1 or span > 0.1:
            return None
        fine = self._parts(c, span / 2)
        return None if fine is None else composed(fine, c, span, 1 << power, (low + high) / 2, (down, up))

    # -- answers --------------------------------------------------------------------------------------------------

    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        best: GridLaw | None = None
        width = math.inf
        steps = sum(count for pair, count in self.cumulant.pairs.items() if not pair.atoms_suffice(count)) + 1
        # Where sampled noise has a second hump far away, a weaker tilt leaves it out.
        for tilt in (c, 0.75 * c):
            # The ends are of second order in the span: this span makes their distance about the goal.
            span = math.sqrt(_RELATIVE_GOAL / (1.3 * steps) / (tilt * (tilt + 1)))
            for _ in range(3):
                law = self._law(tilt, span)
                if law is None:
                    break
                reached = value_at(law, epsilon).width
                if best is None or reached < width:
                    best, width = law, reached
                if reached <= 10 * _RELATIVE_GOAL:
                    return partial(value_at, best)
                if law.masses.size >= 1 << _MAX_GRID_POWER:
                    break
                span = law.span * min(max(math.sqrt(_RELATIVE_GOAL / reached), 1e-3), 0.25)
        return None if best is None else partial(value_at, best)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        root = self.saddle.root(target.lower)
        if root is None:
            return 0.0, math.inf
        c, guess = root
        lower, upper = 0.0, math.inf
        for _ in range(6):
            curve = self.fitted(c, guess, target.lower)
            if curve is None:
                break
            low, high = invert(curve, target, guess=guess, slope=c, largest=self.largest)
            lower, upper = max(lower, low), min(upper, high)
            # The law is sharp next to the guess: go on from the new end as long as it moves.
            better = upper if math.isfinite(upper) else 2 * lower
            if upper - lower <= 1e-9 * upper or abs(better - guess) * c < 0.3:
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
    """Tilted masses that sum to 1, at losses; ``count`` equal steps.

    Each mass is off by a share ``wrong`` of itself, all of them by ``noise`` in the 2-norm, each loss by ``slip``, and
    ``missing`` is the mass left out.
    """

    losses: Floats
    masses: Floats
    log_scale: float
    count: int
    width: float
    wrong: float
    missing: float
    slip: float
    noise: float = 0.0

    @classmethod
    def of(cls, cells: LossCells, count: int) -> GridPart:
        """Return the part of equal steps with these cells."""
        peak = float(cells.logs.max())
        masses = np.exp(cells.logs - peak)
        mass = float(masses.sum())
        exponent = UNIT * 8 * (float(np.abs(cells.logs).max()) + abs(peak) + 8)
        return cls(
            losses=cells.losses,
            masses=masses / mass,
            log_scale=peak + math.log(mass),
            count=count,
            width=cells.width,
            wrong=(cells.wrong + exponent) * 1.1,
            missing=cells.outside * 1.1,
            slip=cells.slip,
        )

    def times(self, factor: GridPart, c: float) -> GridPart:
        """Return the product of two atomic laws of one step each."""
        losses = np.add.outer(self.losses, factor.losses).ravel()
        masses = np.multiply.outer(self.masses, factor.masses).ravel()
        rounded = 2 * UNIT * float(np.abs(losses).max())
        # (1+E)(1+F) − 1, the rounding of a product, and that of a loss in e^{cl}.
        wrong = self.wrong + factor.wrong + self.wrong * factor.wrong + 4 * UNIT + c * rounded
        return GridPart(
            losses=losses,
            masses=masses,
            log_scale=self.log_scale + factor.log_scale,
            count=1,
            width=0.0,
            wrong=wrong,
            missing=self.missing + factor.missing + self.missing * factor.missing,
            slip=self.slip + factor.slip + rounded,
            noise=self.noise + factor.noise + self.noise * factor.noise,
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
    """The tilted law of N on grid points, with bounds of its errors.

    Its masses are off by a share ``wrong`` of themselves, by ``noise`` in the 2-norm, and by ``missing`` in sum.
    """

    c: float
    span: float
    losses: Floats
    masses: Floats
    log_scale: float
    blur: float
    wrong: float
    noise: float
    missing: float
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
    rounding, noise, mismatch, missing, growth, products = 0.0, 0.0, 0.0, 0.0, 0.0, 0
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
        moved = span if above.any() else 0.0  # atoms on the grid stay whole
        if moved:
            masses += np.bincount((places + 1) % size, grid_part.masses * up * np.exp(c * (span - above)), size)
        crowd = int(np.bincount(places % size, minlength=size).max())
        # In the Fourier domain ``count`` equal steps are a power, and different steps a product.
        transformed = np.fft.rfft(masses)
        rounding += grid_part.count * float(np.linalg.norm(masses))
        noise += grid_part.count * grid_part.noise * math.sqrt(2 * crowd)
        mismatch += grid_part.count * (grid_part.wrong + UNIT * (2 * crowd + 32 + 8 * c * span))
        missing += grid_part.count * grid_part.missing
        # Squaring doubles what was lost before: the n-th power carries n roundings, however few products it takes.
        products += grid_part.count + 1
        growth += grid_part.count * math.log(max(float(masses.sum()), 1.0))
        powered = _power(transformed, grid_part.count)
        product = powered if product is None else product * powered
        # Chernoff's bound on the mass beyond either edge; splitting moves an atom by a span at most.
        for k, step in enumerate(steps):
            wrapped[k] += grid_part.count * ((c + abs(step)) * moved + log_mean(grid_part, step))
    if product is None:
        return None
    law: Floats = np.fft.irfft(product, n=size)
    whirl = 16 * UNIT * math.log2(size)
    norm = float(np.linalg.norm(law))
    # The bounds below are of first order, and of no use where the errors are not small.
    if growth > 1 or mismatch > 1 or missing > 1 or noise > 1e-4:
        return None
    # Splitting adds to the tilted mass, and with it to all that is relative to the whole.
    noise = ((whirl * rounding + noise) * math.exp(growth) + (4 * UNIT * products + whirl) * norm) * (1 + 1e-3)
    # Mass outside the window was wrapped round to a wrong loss: it counts twice, as added and as missing.
    missing = math.expm1(missing) * math.exp(growth) * (1 + 1e-6)
    missing += 2 * math.fsum(math.exp(min(wrapped[k] - steps[k] * edges[k] + 1e-9, 0.0)) for k in (0, 1))
    law = np.roll(np.maximum(law, 0.0), -(start % size))
    losses: Floats = np.asarray((start + np.arange(size)) * span, dtype=np.float64)
    scale = math.fsum(grid_part.count * grid_part.log_scale for grid_part in parts)
    blur = 8 * UNIT * math.fsum(grid_part.count * (abs(grid_part.log_scale) + 1) for grid_part in parts)
    slip = math.fsum(grid_part.count * grid_part.slip for grid_part in parts)
    return GridLaw(
        c=c,
        span=span,
        losses=losses,
        masses=law,
        log_scale=scale,
        blur=blur,
        wrong=math.expm1(mismatch * (1 + 1e-6)) * (1 + 1e-6),
        noise=noise,
        missing=missing,
        slip=slip,
        split=Displacement.of([(span, grid_part.count) for grid_part in parts]),
        merge=Displacement.of([(grid_part.width, grid_part.count) for grid_part in parts]),
    )


def on_lattice(group: Group, c: float) -> GridPart | None:
    """Return the tilted law of all steps with atoms on one lattice: in units of its span nothing is split."""
    members, offset, span = group
    unit = float(span)
    parts, turned = [], 0.0
    for pair, count in members.items():
        lattice, cells = pair.lattice(), pair.cells(c, 0.0, reverse=False)
        if lattice is None or cells is None:
            return None
        part = GridPart.of(cells, count)
        index = np.rint((part.losses - float(lattice[0])) / float(lattice[1])) * float(lattice[1] / span)
        parts.append(replace(part, losses=index))
        turned += count * c * cells.slip  # the tilt was that of the rounded loss
    low, high, down, up = window(parts)
    size = 1 << max(6, math.ceil(math.log2(high - low + 2)))
    if size > 1 << _MAX_GRID_POWER:
        return None
    law = composed(parts, c * unit, 1.0, size, (low + high) / 2, (down, up))
    if law is None:
        return None
    # Masses below the error may as well be left out: a far atom of no mass would widen the window.
    order = np.argsort(law.masses)
    keep = np.sort(order[np.cumsum(law.masses[order]) > _DROPPED_MASS])
    losses = float(offset) + law.losses[keep] * unit
    slip = 4 * UNIT * (float(np.abs(losses).max()) + abs(float(offset)))
    return GridPart(
        losses=losses,
        masses=law.masses[keep],
        log_scale=law.log_scale,
        count=1,
        width=0.0,
        wrong=(law.wrong + law.blur + turned + 16 * UNIT * (1 + abs(law.log_scale)) + c * slip) * 1.1,
        missing=law.missing + _DROPPED_MASS,
        slip=slip,
        noise=law.noise,
    )


def value_at(law: GridLaw, epsilon: float) -> LogInterval:
    """Return the ends of ln δ(ε)."""
    c = law.c
    front = law.log_scale - c * epsilon
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
        tilt = np.exp(-c * y)
        tilted = masses * tilt
        gain = tilt * -np.expm1(-np.maximum(y, 0.0))
        close = np.where(np.abs(y) <= half_width, tilt * np.exp(-0.5 * y**2 / tau), 0.0)
    total, density = float(masses @ gain), float(masses @ close)
    unsure = law.noise * float(np.linalg.norm(gain)) + bound * law.missing + math.exp(-70)
    density += law.noise * float(np.linalg.norm(close)) + law.missing * math.exp(c * c * tau / 2)
    density = density * (1 + law.wrong) * (1 + 1e-9) + 1e-300
    doubt = UNIT * (64 + 16 * c * float(np.abs(y).max(initial=0.0))) * total + unsure + law.wrong * (total + unsure)
    doubt += slip * (c * total + float(tilted[y >= -slip].sum())) * (1 + 4 * c * slip)
    ends = []
    for sign, spread, grow in ((-1.0, law.split, grows[0]), (1.0, law.merge, grows[1])):
        extra = (math.sqrt(math.pi / 2) * spread.deviation + spread.bias) * math.exp(grow) * density
        ends.append(total + sign * (doubt + extra))
    slack = law.blur + 8 * UNIT * (abs(front) + abs(law.log_scale) + c * abs(epsilon) + 1)
    lower, upper = ends
    return LogInterval(
        lower=front + math.log(lower) - slack if lower > 0 else -math.inf,
        upper=min(0.0, front + math.log(upper) + slack) if upper > 0 else -math.inf,
    )
