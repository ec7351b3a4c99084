r"""The law of N of :mod:`.convolution`: parts split on a power-of-2 grid, transformed, multiplied, read at any ε."""

from __future__ import annotations

import math

import numpy as np

from hush.accounting.pairs.base import UNIT, Complexes, Floats
from hush.accounting.profile.cumulant import log_kappa
from hush.accounting.profile.method import LogInterval
from hush.core.values import dataclass

_WINDOW_NATS = 45.0
_FARTHEST_START = 1 << 61
"""How many spans from 0 a window may begin: indices are 64-bit."""
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

    def times(self, other: GridPart, c: float) -> GridPart:
        """Return the product of two atomic laws of one step each."""
        losses = np.add.outer(self.losses, other.losses).ravel()
        masses = np.multiply.outer(self.masses, other.masses).ravel()
        rounded = 2 * UNIT * float(np.abs(losses).max())
        error = self.error + other.error + self.error * other.error + 4 * UNIT + c * rounded
        return GridPart(
            losses, masses, self.log_scale + other.log_scale, 1, 0.0, error, self.slip + other.slip + rounded
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """What is known of Ξ: its deviation, the largest mean, and the largest modulus."""

    deviation: float
    bias: float
    most: float

    @classmethod
    def of(cls, widths: list[tuple[float, int]]) -> Spread:
        """Return the spread of so many independent parts of these widths."""
        square = math.fsum(count * width * width for width, count in widths)
        return cls(math.sqrt(square) / 2, square / 6, math.fsum(count * width for width, count in widths))


@dataclass(slots=True)
class GridLaw:
    """The tilted law of N on grid points, and what bounds its errors."""

    c: float
    losses: Floats
    masses: Floats
    log_scale: float
    blur: float
    error: float
    slip: float
    split: Spread
    merge: Spread


def log_mean(parts: list[GridPart], step: float) -> float:
    """Return ln E e^{step·N} under the tilted law, roughly."""
    total = 0.0
    for part in parts:
        exponent = step * part.losses
        peak = float(exponent.max())
        total += part.count * (peak + math.log(max(float((part.masses * np.exp(exponent - peak)).sum()), 1e-300)))
    return total


def window(parts: list[GridPart]) -> tuple[float, float, float, float]:
    """Return about between which losses N lies but for e^{-45}, and the Chernoff steps that say so."""
    spread = 0.0
    for part in parts:
        mean = float((part.masses * part.losses).sum())
        spread += part.count * float((part.masses * (part.losses - mean) ** 2).sum())
    farthest = max(float(np.abs(part.losses).max()) for part in parts)
    scale = max(math.sqrt(spread), 1e-9 * farthest, 1e-300)
    ends, steps = [], []
    for sign in (-1.0, 1.0):
        logs = np.array([log_mean(parts, sign * step / scale) for step in _CHERNOFF_STEPS])
        bounds = (logs + _WINDOW_NATS + 1) / (_CHERNOFF_STEPS / scale)
        at = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
        ends.append(sign * float(bounds[at]))
        steps.append(sign * float(_CHERNOFF_STEPS[at]) / scale)
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
    """Split every part on the grid, and multiply their transforms."""
    product: Complexes | None = None
    rounding, mismatch, growth, products = 0.0, 0.0, 0.0, 0
    start = math.floor(centre / span) - size // 2
    if abs(start) > _FARTHEST_START:
        return None
    edges = [start * span, (start + size) * span]
    wrapped = [0.0, 0.0]
    for part in parts:
        # Split each atom between its two grid points so that its masses under P and under Q stay: E e^{-ξ} = 1.
        index = np.floor(part.losses / span)
        rest = part.losses - index * span
        up = -np.expm1(-rest) / -math.expm1(-span)
        places = index.astype(np.int64)
        masses = np.bincount(places % size, part.masses * (1 - up) * np.exp(-c * rest), size)
        masses += np.bincount((places + 1) % size, part.masses * up * np.exp(c * (span - rest)), size)
        crowd = int(np.bincount(places % size, minlength=size).max())
        # In the Fourier domain ``count`` equal steps are a power, and different steps a product.
        transformed = np.fft.rfft(masses)
        rounding += part.count * float(np.linalg.norm(masses))
        mismatch += part.count * (part.error + UNIT * (2 * crowd + 32 + 8 * c * span))
        # Squaring doubles what was lost before: the n-th power carries n roundings, however few products it takes.
        products += part.count + 1
        growth += part.count * math.log(max(float(masses.sum()), 1.0))
        powered = _power(transformed, part.count)
        product = powered if product is None else product * powered
        # Chernoff's bound on the mass beyond either edge; splitting moves an atom by a span at most.
        for k, step in enumerate(steps):
            wrapped[k] += part.count * ((c + abs(step)) * span + log_mean([_single(part)], step))
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
    # What lies outside the window came in at the wrong place: once in, once missing.
    error += 2 * math.fsum(math.exp(min(wrapped[k] - steps[k] * edges[k] + 1e-9, 0.0)) for k in (0, 1))
    law = np.roll(np.maximum(law, 0.0), -(start % size))
    losses: Floats = np.asarray((start + np.arange(size)) * span, dtype=np.float64)
    scale = math.fsum(part.count * part.log_scale for part in parts)
    blur = 8 * UNIT * math.fsum(part.count * (abs(part.log_scale) + 1) for part in parts)
    slip = math.fsum(part.count * part.slip for part in parts)
    return GridLaw(
        c,
        losses,
        law,
        scale,
        blur,
        error,
        slip,
        Spread.of([(span, part.count) for part in parts]),
        Spread.of([(part.width, part.count) for part in parts]),
    )


def _single(part: GridPart) -> GridPart:
    return GridPart(part.losses, part.masses, 0.0, 1, part.width, part.error, part.slip)


def value_at(law: GridLaw, ways: float, epsilon: float) -> LogInterval:
    """Return the ends of one term's share of ln δ(ε)."""
    c = law.c
    front = law.log_scale + ways - c * epsilon
    bound = math.exp(float(log_kappa(np.array([c]))[0])) * (1 + 1e-9)
    # τ² of :mod:`.convolution`: what is known of N next to ε bounds what splitting and merging may have moved.
    tau = 1.1 * max(law.split.deviation, law.merge.deviation) ** 2
    slip = law.slip + 2 * UNIT * (abs(epsilon) + float(np.abs(law.losses[[0, -1]]).max()))
    grows = [
        spread.most
        + law.split.deviation**2 / (2 * tau)
        + (law.split.bias + spread.bias) ** 2 / (2 * (tau - spread.deviation**2))
        for spread in (law.split, law.merge)
    ]
    if not (max(*grows, c * c * tau / 2) < _LARGEST_EXPONENT and c * slip < 0.1):
        return LogInterval(lower=-math.inf, upper=math.inf)
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
    for sign, spread, grow in ((-1.0, law.split, grows[0]), (1.0, law.merge, grows[1])):
        extra = (math.sqrt(math.pi / 2) * spread.deviation + spread.bias) * math.exp(grow) * density
        ends.append(total + sign * (doubt + extra))
    slack = law.blur + 8 * UNIT * (abs(front) + abs(law.log_scale) + c * abs(epsilon) + 1)
    lower, upper = ends
    return LogInterval(
        lower=front + math.log(lower) - slack if lower > 0 else -math.inf,
        upper=front + math.log(upper) + slack if upper > 0 else -math.inf,
    )
