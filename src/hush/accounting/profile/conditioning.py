r"""Few steps with atoms on incommensurable lattices: condition on the atoms, and let a closed form do the rest.

Split a composition into pairs with purely atomic losses, in groups on common lattices, and a *rest* R whose profile
δ_R is known at every real argument. Conditioning on the atoms' loss l,

    δ(ε) = Σ_l p(l)·δ_R(ε − l) = e^{K_A(c) − cε} · Σ_l w(l)·G(l − ε),   G(y) = e^{-cy}·δ_R(−y),

for any c > 0, where w is the product of the groups' tilted laws (:mod:`.tilted_lattice`) and K_A the sum of their
cumulants (G is scaled by e^{-K_R(c)} besides): near the saddle point every factor is of moderate size, whatever the
size of δ.

**Masses.** δ_R(x) ≤ κ(c)e^{K_R(c) − cx} (:mod:`.renyi_conversion`), so 0 ≤ G ≤ B = κ(c)·e^{K_R(c)}. If group i is
off by E_i in total variation, the product measure is off by Π(1+E_i) − 1, and the sum by at most B times that.

**Places.** A loss is a rounded sum of rounded numbers: y is off by at most η. The rest's profile is evaluated with an
error bound that holds for every argument within η, and e^{-cy} changes by a factor e^{±cη}.

**Rests.** Nothing: δ_R(x) = (1 − e^x)₊. Laplace and bounded-range steps: the expansion of :mod:`.expansion` in double
precision. Anything else with a closed form (Gaussians, one other pair): ball arithmetic, atom by atom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs import Pair
from hush.accounting.pairs.base import Floats
from hush.accounting.pairs.float_errors import UNIT
from hush.accounting.profile.closed_form import closed_profile
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.expansion import FloatExpansion, tilt
from hush.accounting.profile.method import NOTHING_KNOWN, LogInterval, invert
from hush.accounting.profile.renyi_conversion import log_kappa
from hush.accounting.profile.saddle_point import SaddlePoint
from hush.accounting.profile.tilted_lattice import groups
from hush.core.balls import Ball, ball, flint, precision

_MOST_ATOMS = 4_000_000
_MOST_BALLS = 6_000
_DROPPED = 1e-16
_CLOSE = 1e-9
_MOST_AGAIN = 200_000
"""How many atoms may be made anew at every step of a search."""


class _Rest(Protocol):
    most: int
    """How many arguments it can be asked for."""

    def tilted(self, x: Floats, eta: float, c: float, scale: float) -> tuple[Floats, Floats]:
        """Return e^{cx − scale}·δ_R(x), and an error that holds for every argument of δ_R within η of x."""
        ...


class _NoRest:
    most = _MOST_ATOMS

    def tilted(self, x: Floats, eta: float, c: float, scale: float) -> tuple[Floats, Floats]:
        below = np.minimum(x, 0.0)
        value = -np.expm1(below)
        wrong = 8 * UNIT * value + np.where(x < eta, eta * np.exp(below) * (1 + 1e-6), 0.0)
        return tilt(x, value, wrong, c, scale)


class _InBalls:
    """The profile of Gaussians together, or of one pair."""

    most = _MOST_BALLS

    def __init__(self, pairs: Mapping[Pair, int], *, reverse: bool) -> None:
        self.pairs = pairs
        self.reverse = reverse

    def _profile(self, x: Ball) -> Ball:
        return closed_profile(self.pairs, x, reverse=self.reverse)

    def tilted(self, x: Floats, eta: float, c: float, scale: float) -> tuple[Floats, Floats]:
        value, error = np.zeros(x.shape), np.zeros(x.shape)
        certain = flint().arb(1)
        away = max(4 * eta, 1 / c)
        for i, place in enumerate(x):
            bits = 96
            while True:
                with precision(bits):
                    at = ball(float(place))
                    found = self._profile(at)
                    if (found.is_finite() and found.rel_accuracy_bits() > 50) or bits > 3000:
                        break
                bits *= 4
            with precision(bits):
                # |δ'(x')| ≤ P(Z > x') ≤ 1, and ≤ δ(x−s)/(1−e^{-s/2}) for x' ≥ x − s/2: 1 − e^{x-s-Z} is no less there.
                slope = certain.min(self._profile(at - ball(away)) / -(-ball(away) / 2).expm1())
                front = (ball(c) * at - ball(scale)).exp()
                found, slope = found * front, (slope if slope.is_finite() else certain) * front * ball(eta)
            middle = max(float(found.mid()), 0.0)
            value[i] = middle
            error[i] = float(found.rad()) + float(slope.abs_upper()) + 4 * UNIT * middle + 1e-320
        return value, error * (1 + 1e-9)


class Conditioning:
    """Certified ends for a composition of atoms and a rest with a closed form."""

    last_resort: ClassVar[bool] = False

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.largest = largest
        self.cumulant = cumulant
        self.laws = groups(cumulant.pairs)
        rest = {pair: count for pair, count in cumulant.pairs.items() if pair.lattice() is None}
        self.beyond = Cumulant(Description(pairs=rest), reverse=cumulant.reverse)
        self.rest = _rest(rest, reverse=cumulant.reverse)
        self._products: dict[float, tuple[Floats, Floats, float, float, float, float] | None] = {}

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there are atoms to condition on, and a closed form for the rest."""
        atomic = [pair for pair in pairs if pair.lattice() is not None]
        rest = {pair: count for pair, count in pairs.items() if pair.lattice() is None}
        return 0 < len(atomic) <= 12 and _rest(rest, reverse=False) is not None

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
            if law is None or losses.size * law.losses.size > 4 * _MOST_ATOMS:
                return None
            losses = np.add.outer(losses, law.losses).ravel()
            masses = np.multiply.outer(masses, law.masses).ravel()
            size += float(np.abs(law.losses).max())
            # (1+E)(1+F) − 1, and a unit for each product.
            error = error + law.error + error * law.error + 4 * UNIT
            scale, blur = scale + law.log_scale, blur + law.blur
            if losses.size > 1000:
                order = np.argsort(masses)
                keep = order[np.cumsum(masses[order]) >= _DROPPED]
                losses, masses = losses[keep], masses[keep]
                error += _DROPPED * (1 + 1e-9)
        if losses.size > self.rest.most:
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
        # The place is off by η in e^{-cy} as well.
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

    def _tilt(self, c: float, epsilon: float) -> float:
        """Return c, held to where rounding of c·y does not matter."""
        return min(c, 1e9 / (1 + epsilon))

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        saddle = SaddlePoint(self.cumulant, largest=self.largest).at_epsilon(epsilon)
        if saddle is None:
            return NOTHING_KNOWN
        return self._at(epsilon, self._tilt(saddle[0], epsilon))

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        start = SaddlePoint(self.cumulant, largest=self.largest).guess(target.lower)
        if start is None:
            return 0.0, math.inf
        guess, slope = start
        c = self._tilt(slope, guess)
        if self._product(c) is None:
            return 0.0, math.inf
        lower, upper = invert(lambda x: self._at(x, c), target, guess=guess, slope=slope, largest=self.largest)
        made = self._product(c)
        if (math.isfinite(upper) and upper - lower <= _CLOSE * upper) or made is None or made[0].size > _MOST_AGAIN:
            return lower, upper
        # One tilt does not serve where the curve bends within a rounding of an atom.
        again = invert(self.log_delta, target, guess=min(guess, upper), slope=slope, largest=self.largest)
        return max(lower, again[0]), min(upper, again[1])


def _rest(pairs: Mapping[Pair, int], *, reverse: bool) -> _Rest | None:
    if not pairs:
        return _NoRest()
    if all(pair.terms_shape() is not None for pair in pairs):
        return FloatExpansion(pairs, _MOST_ATOMS) if FloatExpansion.suits(pairs) else None
    if all(pair.gaussian() is not None for pair in pairs) or sum(pairs.values()) == 1:
        return _InBalls(pairs, reverse=reverse)
    return None
