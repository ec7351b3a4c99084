r"""The law of N of :mod:`.convolution`: parts split on a power-of-2 grid, transformed, multiplied, read at any ε."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.accounting.pairs.base import UNIT, Complexes, Floats
from hush.accounting.profile.cumulant import log_kappa
from hush.accounting.profile.method import LogInterval

_WINDOW_NATS = 45.0
"""The window leaves out a tilted mass of about e^{-45} on either side."""
_FARTHEST_START = 1 << 61
"""The largest distance in spans between 0 and a window's start: indices are 64-bit."""
_LARGEST_EXPONENT = 600.0
_CHERNOFF_STEPS: Floats = 10.0 ** (np.arange(-32, 9) / 8)


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


def log_mean(parts: list[GridPart], step: float) -> float:
    """Return ln E e^{step·N} under the tilted law, without the rounding."""
    total = 0.0
    for grid_part in parts:
        exponent = step * grid_part.losses
        peak = float(exponent.max())
        total += grid_part.count * (
            peak + math.log(max(float((grid_part.masses * np.exp(exponent - peak)).sum()), 1e-300))
        )
    return total


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
        logs = np.array([log_mean(parts, sign * step / scale) for step in _CHERNOFF_STEPS])
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
            wrapped[k] += grid_part.count * ((c + abs(step)) * span + log_mean([_single(grid_part)], step))
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


def _single(grid_part: GridPart) -> GridPart:
    return GridPart(grid_part.losses, grid_part.masses, 0.0, 1, grid_part.width, grid_part.error, grid_part.slip)


def value_at(law: GridLaw, ways: float, epsilon: float) -> LogInterval:
    """Return the ends of one term's share of ln δ(ε)."""
    c = law.c
    front = law.log_scale + ways - c * epsilon
    bound = math.exp(float(log_kappa(np.array([c]))[0])) * (1 + 1e-9)
    # τ² of :mod:`.convolution`: the density of N next to ε bounds the mass that splitting and merging moved.
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
