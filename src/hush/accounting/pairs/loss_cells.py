r"""A pair's loss in narrow cells, each merged into one atom, in double precision with error bounds.

Cut the outcomes into cells. Merging each cell into one outcome is post-processing; the merged pair gives cell i the
loss m_i = ln(p_i/q_i), with p_i and q_i its masses under P and Q. Within a cell the true loss l is spread round m_i so
that E_P[e^{-(l−m_i)} | cell] = 1 and |l − m_i| is at most the cell's width in loss: all that :mod:`.convolution` needs.

**Normal cells.** The mass of [t−h, t+h] is φ(t)·g(t), g(t) = ∫_{-h}^{h} e^{-ts−s²/2}ds, by Gauss–Legendre with three
nodes: 2h·[4/9 + (5/9)·e^{-0.3h²}cosh(√0.6·th)]. The rule's error is (2h)⁷·f⁽⁶⁾/2016000, and |f⁽⁶⁾| ≤ f·(v⁶ + 15v⁴ +
45v² + 15) with |v| ≤ |t| + h: where (|t| + 2)·h ≤ 1/50 it is below 2e-14 of g. Only ratios and relative errors matter.

* Gaussian: loss μ²/2 + μs with s standard normal under P, and q-mass that of s + μ.
* Discrete Gaussian, where σ is large: cells of neighbouring integers, the integral replaced by a sum over them.
* Sampled Gaussian: q-mass that of t, p-mass (1−q) times it plus q times that of t−κ; the loss rises with t. In reverse
  P and Q change places, and the loss its sign.
* Laplace, bounded range: density ∝ e^{l/2} under P; a cell [l−h, l+h] has m = l exactly, as ∫e^{l/2} and ∫e^{-l/2} are
  both e^{±l/2} times the same number. Laplace has its two atoms besides.
* Sampled Laplace: the same cells of the Laplace loss, A = 1−q+q·e^l.

**What is left out.** With tilt c the density of t is e^{f(t)}. Sampled forward, f(t) = −t²/2 + (1+c)·ln A(t): f' = −t +
(1+c)κω(t), with ω logistic, has at most three zeros, a maximum, a minimum and a maximum. So on any interval outside the
two maxima f is largest at one of its ends, and the mass left out is at most length·e^{max of the ends}; beyond the last
point, by a slope of at least the margin, e^f/margin. In reverse, and for the plain Gaussian, f is concave.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from hush.accounting.pairs.base import EVERYWHERE, UNIT, Floats, LossCells, Range

_MARGIN = 10.5
"""Deviations beyond the centre of a tilted normal law at which its cells end."""
_MAX_CELLS = 1 << 22
_NEGLIGIBLE_NATS = 60.0
"""Nats below the largest tilted density at which an interval is left out; its mass is counted."""
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def sampled_valley(q: float, kappa: float, c: float) -> float | None:
    """Return the t of least density between the two humps of a sampled Gaussian's tilted law, None where it has one."""
    top = (1 + c) * kappa
    if top < 2:
        return None
    t = np.linspace(0, top, 4001)
    f = _density(q, kappa, c, t, reverse=False)
    inner = int(np.argmin(f))
    # Two humps only where the density falls by e³ between them; a shallow dip is not worth a cut.
    depth = min(float(f[: inner + 1].max()), float(f[inner:].max())) - float(f[inner])
    return float(t[inner]) if depth > 3 else None


def sampled_rough_cumulant(q: float, kappa: float, c: Floats, noise: Range) -> Floats:
    """Return an estimate of ln ∫ e^{cl}dP over a range of a sampled Gaussian's noise, forward, to choose tilts."""
    cumulants = np.empty(c.shape)
    for k, tilt in enumerate(c):
        low = max(-_MARGIN, noise[0])
        high = min(max((1 + float(tilt)) * kappa, low) + _MARGIN, noise[1])
        t = np.linspace(low, max(high, low + 1e-9), 2001)
        f = _density(q, kappa, float(tilt), t, reverse=False)
        peak = float(f.max())
        cumulants[k] = peak + math.log(float(np.exp(f - peak).sum()) * float(t[1] - t[0])) - _LOG_ROOT_TWO_PI
    return cumulants


def log_a(q: float, argument: Floats) -> Floats:
    """Return ln(1−q+q·e^argument)."""
    with np.errstate(over="ignore"):
        return np.asarray(
            np.where(
                argument > 30,
                argument + math.log(q) + np.log1p((1 - q) / q * np.exp(-argument)),
                np.log1p(q * np.expm1(np.minimum(argument, 31))),
            )
        )


def _density(q: float, kappa: float, c: float, t: Floats, *, reverse: bool) -> Floats:
    logs = log_a(q, kappa * t - kappa * kappa / 2)
    return np.asarray(-0.5 * t * t + (-c if reverse else 1 + c) * logs)


def _log_mass(t: Floats, h: float) -> Floats:
    """Return the logarithm of the normal mass of [t−h, t+h]."""
    inner = 4 / 9 + 5 / 9 * math.exp(-0.3 * h * h) * np.cosh(math.sqrt(0.6) * h * t)
    return np.asarray(-0.5 * t * t + np.log(inner) + (math.log(2 * h) - _LOG_ROOT_TWO_PI))


def _ratio(t: Floats, shift: float, h: float) -> Floats:
    """Return ln g(t − shift) − ln g(t), both next to ln 2h: small, and with a small error."""
    front = 5 / 9 * math.exp(-0.3 * h * h)
    root = math.sqrt(0.6) * h
    # cosh x − 1 = 2·sinh²(x/2): the small ripples are subtracted, not two numbers near 1.
    near_ripple, moved_ripple = 2 * np.sinh(root * t / 2) ** 2, 2 * np.sinh(root * (t - shift) / 2) ** 2
    return np.asarray(np.log1p(front * (moved_ripple - near_ripple) / (4 / 9 + front * (1 + near_ripple))))


def _ruled(low: float, high: float, step: float, far: float) -> tuple[Floats, float] | None:
    """Return the middles of cells over [low, high], and half their width: at most ``step``, and fit for the rule."""
    h = min(step, 0.02 / (far + 2)) / 2
    count = math.ceil((high - low) / (2 * h))
    if not 0 < count <= _MAX_CELLS:
        return None
    h = (high - low) / (2 * count)
    return np.asarray(low + h * (2 * np.arange(count) + 1), dtype=np.float64), h


def _segments(low: float, high: float, middle: float, rate: float) -> list[tuple[float, float, float]]:
    """Cut [low, high] where ω = 1/(1+e^{-rate(t−middle)}) halves, and give each segment its largest ω."""
    edges = [middle - k * 0.7 / rate for k in range(14)]
    inner = [low, *sorted(edge for edge in edges if low < edge < high), high]
    return [(a, b, 1 / (1 + math.exp(min(rate * (middle - b), 700.0)))) for a, b in pairwise(inner)]


def _rule_error(far: float, h: float) -> float:
    """Return the relative error of the three-node rule for |t| up to ``far``."""
    v = far + h
    return 6e-7 * (2 * h) ** 6 * (v**6 + 15 * v**4 + 45 * v * v + 15)


def gaussian_cells(mu_squared: float, c: float, width: float) -> LossCells | None:
    """Return the cells of a composition of Gaussians; the tilted s is normal round cμ."""
    mu = math.sqrt(mu_squared)
    centre = c * mu
    low, high = centre - _MARGIN, centre + _MARGIN
    ruled = _ruled(low, high, max(width / mu, (high - low) / (_MAX_CELLS / 2)), abs(centre) + mu + _MARGIN)
    if ruled is None:
        return None
    s, h = ruled
    losses = mu_squared / 2 + mu * s - _ratio(s, -mu, h)
    logs = _log_mass(s, h) + c * losses
    farthest = float(np.abs(s).max())
    rule = _rule_error(farthest + mu, h)
    # The mass inherits the rule's error and the rounding of t²/2; the loss, a ratio of two masses, twice the rule's.
    wrong = rule + 16 * UNIT * (farthest * farthest + 8)
    slip = 2 * rule + 16 * UNIT * (mu_squared + mu * farthest)
    return LossCells(losses, logs, mu * 2 * h, wrong, slip, 2.1 * math.exp(-0.5 * (_MARGIN - 0.1) ** 2))


def discrete_gaussian_cells(sigma: float, delta: int, c: float, width: float) -> LossCells | None:
    """Return the cells of a wide discrete Gaussian: an odd number of neighbouring integers each."""
    mu = delta / sigma
    farthest = abs(c * mu) + _MARGIN + 1
    step = max(width / mu, 2 * (_MARGIN + 1) / (_MAX_CELLS / 2))
    half = math.floor(min(step, 0.02 / (farthest + mu + 2)) * sigma / 2 - 0.5)
    half = max(half, 0)
    size = 2 * half + 1
    middle = round(c * delta)
    cells_ = math.ceil((_MARGIN + 0.5) * sigma / size)
    if not 0 < 2 * cells_ < _MAX_CELLS or farthest * sigma > 2**50:
        return None
    offsets = middle + size * np.arange(-cells_, cells_ + 1, dtype=np.float64)  # x − Δ
    s = offsets / sigma
    # The mean of e^{-vu−u²/2} over u = −half/σ…half/σ, by its even moments: Hermite polynomials in v.
    k = float(half)
    second = k * (k + 1) / 3 / sigma**2
    fourth = k * (k + 1) * (3 * k * k + 3 * k - 1) / 15 / sigma**4
    sixth = k * (k + 1) * (3 * k**4 + 6 * k**3 - 3 * k + 1) / 21 / sigma**6

    def excess(v: Floats) -> Floats:
        w = v * v
        first = second / 2 * (w - 1) + fourth / 24 * (w * w - 6 * w + 3)
        return np.asarray(first + sixth / 720 * (w * w * w - 15 * w * w + 45 * w - 15))

    ripple, moved_ripple = excess(s), excess(s + mu)
    losses = mu * (s + mu / 2) + np.log1p((ripple - moved_ripple) / (1 + moved_ripple))
    logs = -0.5 * s * s + np.log1p(ripple) + math.log(size / sigma) - _LOG_ROOT_TWO_PI + c * losses
    # The series of `excess` ends after the sixth moment; the eighth is below far⁸.
    far = (farthest + mu + 2) * size / (2 * sigma)
    slip = 16 * UNIT * (mu * farthest + mu * mu + far * far) + far**8
    wrong = 16 * UNIT * (farthest * farthest + 8) + far**8
    outside = 2.1 * math.exp(-0.5 * (_MARGIN - 0.1) ** 2)
    return LossCells(losses, logs, mu * (size - 1) / sigma, wrong, slip, outside)


def sampled_gaussian_cells(
    q: float, kappa: float, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE
) -> LossCells | None:
    """Return the cells of a sampled Gaussian over a range of its noise t, which is standard normal under Q."""
    power = -c if reverse else 1 + c
    first = max(min(0.0, power * kappa) - _MARGIN, noise[0])
    last = min(max(0.0, power * kappa, first) + _MARGIN, noise[1])
    if not last > first:
        return None
    # Cut where the density has fallen by e^{-60} from its largest; left of the first maximum and right of the last.
    t = np.linspace(first, last, 8001)
    f = _density(q, kappa, c, t, reverse=reverse)
    dense = np.nonzero(f > f.max() - _NEGLIGIBLE_NATS)[0]
    low, high = float(t[max(dense[0] - 1, 0)]), float(t[min(dense[-1] + 1, 8000)])
    far = max(abs(low), abs(high)) + kappa
    # ω = dlnA/d(κt) passes 1/2 where q·e^{κt−κ²/2} = 1−q.
    middle = (math.log((1 - q) / q) + kappa * kappa / 2) / kappa
    lists: list[tuple[Floats, Floats]] = []
    slip = wrong = widest = 0.0
    points = 0
    segments = _segments(low, high, middle, kappa)
    # Wider cells where there would be too many.
    width = max(width, math.fsum((end - start) * kappa * omega for start, end, omega in segments) / (_MAX_CELLS / 2))
    for start, end, omega in segments:
        ruled = _ruled(start, end, width / (kappa * omega), far)
        points += 0 if ruled is None else ruled[0].size
        if ruled is None or points > _MAX_CELLS:
            return None
        nodes, h = ruled
        loss = log_a(q, kappa * nodes - kappa * kappa / 2 + _ratio(nodes, kappa, h))
        lists.append((loss, _log_mass(nodes, h) + (-c * loss if reverse else (1 + c) * loss)))
        rule = _rule_error(far, h)
        # q's rounding is amplified by 1/(1−q), that of the argument by ω.
        loss_error = omega * (2 * rule + 16 * UNIT * kappa * far) + 16 * UNIT * float(np.abs(loss).max()) / (1 - q)
        slip, widest = max(slip, loss_error), max(widest, kappa * omega * 2 * h)
        wrong = max(wrong, rule + 16 * UNIT * (far * far + 8) + loss_error)
    losses, logs = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    peak = float(logs.max())
    log_total = peak + math.log(float(np.exp(logs - peak).sum()))
    ends = _density(q, kappa, c, np.array([first, low, high, last]), reverse=reverse) - _LOG_ROOT_TWO_PI
    # Length times the larger density of the ends, in logarithms, for each of the two intervals left out.
    left_mass = max(float(ends[0]), float(ends[1])) + math.log(low - first) if low > first else -math.inf
    right_mass = max(float(ends[2]), float(ends[3])) + math.log(last - high) if last > high else -math.inf
    outside = math.exp(min(left_mass - log_total, 0.0)) + math.exp(min(right_mass - log_total, 0.0))
    for nodes, open_end in ((ends[0], noise[0]), (ends[3], noise[1])):
        if math.isinf(open_end):  # beyond the last point: the density over its slope, at least the margin
            outside += math.exp(min(float(nodes) - log_total, 0.0)) / (_MARGIN - 0.5)
    losses = -losses if reverse else losses
    return LossCells(losses, logs, widest, wrong, slip, outside * (1 + 1e-6))


def laplace_cells(
    e: float, c: float, width: float, *, rate: float = 1.0, reverse: bool = False, atoms: bool = True
) -> LossCells | None:
    """Return the cells of Laplace noise of largest loss e, on a sample where ``rate`` is below 1.

    Without its two ``atoms`` the law is that of bounded range.
    """
    power = -c if reverse and rate < 1 else 1 + c
    # The tilted density, ln of ¼e^{-(l+e)/2}A^p, has one minimum at most (p > 0) or falls (p < 0): over an interval it
    # is largest at an end. Intervals where it is e^{-60} of the largest are left out.
    edges = np.linspace(-e, e, 2001)
    f = -0.5 * (edges + e) + power * (edges if rate == 1.0 else log_a(rate, edges))
    included = np.maximum(f[1:], f[:-1]) >= f.max() - _NEGLIGIBLE_NATS
    outside = math.exp(-_NEGLIGIBLE_NATS) * (1 + 2 * e) if not included.all() else 0.0
    runs = np.flatnonzero(np.diff(np.concatenate([[0], included.astype(int), [0]])))
    # ω = dlnA/dl passes 1/2 where q·e^l = 1−q.
    segments = []
    for i, j in zip(runs[::2], runs[1::2], strict=True):
        low, high = float(edges[i]), float(edges[j])
        segments += _segments(low, high, math.log((1 - rate) / rate), 1.0) if rate < 1 else [(low, high, 1.0)]
    lists: list[tuple[Floats, Floats]] = []
    widest, points = 0.0, 0
    width = max(width, math.fsum((end - start) * omega for start, end, omega in segments) / (_MAX_CELLS / 2))
    for start, end, omega in segments:
        count = math.ceil((end - start) * omega / width)
        points += count
        if points > _MAX_CELLS:
            return None
        h = (end - start) / (2 * count)
        middles: Floats = np.asarray(start + h * (2 * np.arange(count) + 1), dtype=np.float64)
        # ln of the q-mass ¼∫e^{-(l+e)/2}dl = ¼·e^{-(l+e)/2}·4·sinh(h/2); ln sinh x = x + ln(1−e^{-2x}) − ln 2.
        lists.append((middles, -0.5 * (middles + e) + (h / 2 + math.log(-math.expm1(-h)) - math.log(2))))
        widest = max(widest, 2 * h * omega)
    centres, still = (np.concatenate(parts) for parts in zip(*lists, strict=True))
    if not atoms:
        still = still + math.log(2 / -math.expm1(-e))
    else:
        centres = np.concatenate([centres, [-e, e]])
        still = np.concatenate([still, [math.log(0.5), math.log(0.5) - e]])
    losses = centres if rate == 1.0 else log_a(rate, centres)
    sign = -1.0 if reverse and rate < 1.0 else 1.0
    logs = still + power * losses
    omega = min(1.0, rate * math.exp(min(e, 700.0)) / (1 - rate)) if rate < 1 else 1.0
    slip = 16 * UNIT * (float(np.abs(losses).max()) / (1 - rate if rate < 1 else 1.0) + omega * e)
    wrong = 32 * UNIT * (8 + e + float(np.abs(logs).max())) + slip
    return LossCells(sign * losses, logs, widest, wrong, slip, outside)
