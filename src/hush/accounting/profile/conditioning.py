"""Few steps with atoms on incommensurable lattices: condition on the atoms, and use a closed form for the rest.

Split a composition into pairs with purely atomic losses, in groups on common lattices, and a *rest* R whose profile
δ_R is known at every real argument. Conditioning on the atoms' loss l,

    δ(ε) = Σ_l p(l)·δ_R(ε − l) = e^{K_A(c) − cε} · Σ_l w(l)·G(l − ε),   G(y) = e^{-cy}·δ_R(−y),

for any c > 0, where w is the product of the groups' tilted laws (:class:`LatticeLaw`) and K_A the sum of their
cumulants (G is scaled by e^{-K_R(c)} besides): near the saddle point every factor is of moderate size for any δ.

**Masses.** δ_R(x) ≤ κ(c)e^{K_R(c) − cx} (:mod:`.tail_bounds`), so 0 ≤ G ≤ B = κ(c)·e^{K_R(c)}. If group i is
off by E_i in total variation, the product measure is off by Π(1+E_i) − 1, and the sum by at most B times that.

**Places.** A loss is a rounded sum of rounded numbers: y is off by at most η. The rest's profile is evaluated with an
error bound that holds for every argument within η, and e^{-cy} changes by a factor e^{±cη}.

**Rests.** Nothing, with δ_R(x) = (1 − e^x)₊, and Laplace and bounded-range steps: the expansion of :mod:`.closed_forms`
in double precision. Anything else with a closed form (Gaussians, one other pair): ball arithmetic, atom by atom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs import Pair
from hush.accounting.pairs.base import UNIT, Floats
from hush.accounting.profile.closed_forms import FloatExpansion, closed_profile
from hush.accounting.profile.cumulant import Cumulant, log_kappa
from hush.accounting.profile.method import NOTHING_KNOWN, FittedMethod, LogInterval, Method
from hush.core.rounding import Ball, ball, flint, precision, up

_MAX_ATOMS = 4_000_000
_MAX_BALL_ATOMS = 6_000
"""The largest number of atoms at which the rest's profile is evaluated in ball arithmetic."""
_DROPPED_PRODUCT_MASS = 1e-16
"""The tilted mass of the smallest atoms of a product that are dropped together, and counted as an error."""
_ACCEPTED_WIDTH = 1e-9
"""The relative width of ε at which no second search with a tilt of its own for each ε is made."""
_MAX_REPEATED_ATOMS = 200_000
"""The largest number of atoms that are computed anew at every step of a search."""
_WINDOW_NATS = 42.0
"""The window leaves out a tilted mass of e^{-42} on either side."""
_DROPPED_MASS = 1e-18
"""Masses of the window that together are less than this are dropped, and counted in E."""
_MAX_WINDOW_POINTS = 1_500_000
_CHERNOFF_STEPS: Floats = 10.0 ** (np.arange(-24, 33) / 8)


class _InBalls:
    """The profile of a composition of Gaussians, or of one pair, in ball arithmetic."""

    max_arguments = _MAX_BALL_ATOMS

    def __init__(self, pairs: Mapping[Pair, int], *, reverse: bool) -> None:
        self.pairs = pairs
        self.reverse = reverse

    def _profile(self, x: Ball) -> Ball:
        return closed_profile(self.pairs, x, reverse=self.reverse)

    def tilted(self, x: Floats, eta: float, c: float, scale: float) -> tuple[Floats, Floats]:
        value, error = np.zeros(x.shape), np.zeros(x.shape)
        certain = flint().arb(1)
        away = max(4 * eta, 1 / c)
        for i, argument in enumerate(x):
            bits = 96
            while True:
                with precision(bits):
                    loss = ball(float(argument))
                    delta = self._profile(loss)
                    if (delta.is_finite() and delta.rel_accuracy_bits() > 50) or bits > 3000:
                        break
                bits *= 4
            with precision(bits):
                # |δ'(x')| ≤ P(Z > x') ≤ 1, and ≤ δ(x−s)/(1−e^{-s/2}) for x' ≥ x − s/2: 1 − e^{x-s-Z} is no less there.
                slope = certain.min(self._profile(loss - ball(away)) / -(-ball(away) / 2).expm1())
                front = (ball(c) * loss - ball(scale)).exp()
                delta, slope = delta * front, (slope if slope.is_finite() else certain) * front * ball(eta)
            middle = max(float(delta.mid()), 0.0)
            value[i] = middle
            error[i] = float(delta.rad()) + float(slope.abs_upper()) + 4 * UNIT * middle + 1e-320
        return value, error * (1 + 1e-9)


class Conditioning(FittedMethod):
    """Certified ends for a composition of atoms and a rest with a closed form."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        super().__init__(cumulant, largest=largest)
        self.laws = groups(cumulant.pairs)
        smooth = {pair: count for pair, count in cumulant.pairs.items() if pair.lattice() is None}
        self.beyond = Cumulant(Description(pairs=smooth), reverse=cumulant.reverse)
        self.rest = _rest(smooth, reverse=cumulant.reverse)
        self._products: dict[float, tuple[Floats, Floats, float, float, float, float] | None] = {}

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there are atoms to condition on, and a closed form for the rest."""
        atomic = [pair for pair in pairs if pair.lattice() is not None]
        smooth = {pair: count for pair, count in pairs.items() if pair.lattice() is None}
        return 0 < len(atomic) <= 12 and _rest(smooth, reverse=False) is not None

    def _product(self, c: float) -> tuple[Floats, Floats, float, float, float, float] | None:
        """Return losses and tilted masses of the product, its error, K_A and its error, and the losses' own error."""
        if c not in self._products:
            if len(self._products) > 4:
                self._products.pop(next(iter(self._products)))
            self._products[c] = self._multiplied(c)
        return self._products[c]

    def _multiplied(self, c: float) -> tuple[Floats, Floats, float, float, float, float] | None:
        losses, masses = np.zeros(1), np.ones(1)
        error, scale, blur, size = 0.0, 0.0, 0.0, 0.0
        assert self.rest is not None  # noqa: S101 - suits() was asked
        for group in self.laws:
            law = group.tilted(c)
            if law is None or losses.size * law.losses.size > 4 * _MAX_ATOMS:
                return None
            losses = np.add.outer(losses, law.losses).ravel()
            masses = np.multiply.outer(masses, law.masses).ravel()
            size += float(np.abs(law.losses).max())
            # (1+E)(1+F) − 1, and a unit for each product.
            error = error + law.error + error * law.error + 4 * UNIT
            scale, blur = scale + law.log_scale, blur + law.blur
            if losses.size > 1000:
                order = np.argsort(masses)
                keep = order[np.cumsum(masses[order]) >= _DROPPED_PRODUCT_MASS]
                losses, masses = losses[keep], masses[keep]
                error += _DROPPED_PRODUCT_MASS * (1 + 1e-9)
        if losses.size > self.rest.max_arguments:
            return None
        # Each loss is off by 3 units of its group's largest, and each sum by one.
        eta = 2 * UNIT * (len(self.laws) + 3) * size
        return losses, masses, error, scale, blur + 8 * UNIT * (len(self.laws) + 1) * abs(scale), eta

    def _at(self, epsilon: float, c: float) -> LogInterval:
        product = self._product(c)
        if product is None or self.rest is None:
            return NOTHING_KNOWN
        losses, masses, error, scale, blur, eta = product
        y = losses - epsilon
        eta += 2 * UNIT * (float(np.abs(losses).max(initial=0.0)) + epsilon)
        if c * eta > 0.1:
            return NOTHING_KNOWN
        k, r = self.beyond.at(np.array([c])) if self.beyond.pairs else (np.zeros(1), np.zeros(1))
        beyond = float(k[0])
        value, wrong = self.rest.tilted(-y, eta, c, beyond)
        bound = math.exp(float(log_kappa(np.array([c]))[0] + r[0])) * (1 + 1e-9)
        # y is off by η in e^{-cy} as well.
        total = float((masses * value).sum())
        doubt = float((masses * (wrong * (1 + 2 * c * eta) + value * 2 * c * eta)).sum()) * (1 + 1e-6)
        doubt += 64 * UNIT * total + error * bound
        if not (math.isfinite(total) and math.isfinite(doubt)):
            return NOTHING_KNOWN
        scale += beyond
        front = scale - c * epsilon
        slack = blur + 8 * UNIT * (abs(scale) + abs(beyond) + c * epsilon + 1)
        lower, upper = total - doubt, total + doubt
        return LogInterval(
            lower=front + math.log(lower) - slack - UNIT * 8 * abs(math.log(lower)) if lower > 0 else -math.inf,
            upper=min(0.0, front + math.log(upper) + slack + UNIT * 8 * abs(math.log(upper))) if upper > 0 else 0.0,
        )

    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        tilt = min(c, 1e9 / (1 + epsilon))  # cut off where the rounding of c·y would matter
        return None if self._product(tilt) is None else lambda x: self._at(x, tilt)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        lower, upper = super().epsilon(target)
        sizes = [product[0].size for product in self._products.values() if product is not None]
        narrow = math.isfinite(upper) and upper - lower <= _ACCEPTED_WIDTH * upper
        if narrow or not sizes or max(sizes) > _MAX_REPEATED_ATOMS:
            return lower, upper
        # One tilt does not serve where the curve bends within a rounding of an atom: then each ε gets its own.
        again = Method.epsilon(self, target)
        return max(lower, again[0]), min(upper, again[1])


def _rest(pairs: Mapping[Pair, int], *, reverse: bool) -> FloatExpansion | _InBalls | None:
    if all(pair.terms_shape() is not None for pair in pairs):
        return FloatExpansion(pairs, _MAX_ATOMS) if FloatExpansion.suits(pairs) else None
    if all(pair.gaussian() is not None for pair in pairs) or sum(pairs.values()) == 1:
        return _InBalls(pairs, reverse=reverse)
    return None


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
