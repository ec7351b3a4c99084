"""The base class of dominating pairs, and float helpers with error bounds.

The pair (P, Q) is oriented: P is the law with the unit present. Most pairs are *symmetric*: reflecting the output swaps
P and Q, so that M(z) = M(−1−z) and one direction says all. For the others the reverse direction (Q, P) has the moment
M(−1−z), and an accountant takes the worse of the two.

**Rounding.** A batch of pairs computes K in double precision with a bound of its error. The one assumption about the
platform is that float64 arithmetic rounds correctly and that NumPy's elementary functions are within 4 units in the
last place (NumPy's own tests demand that; measured errors are below 1). Every bound here is written with a further
factor of two or more in hand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from hush.core.rounding import Ball, ball, flint
from hush.core.work import spend

Complexes = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

Terms = dict[Fraction, Any]
"""Losses x, each with a polynomial in 1/s (a flint ``arb_poly``)."""

Range = tuple[float, float]
"""A range of the noise, in standard deviations."""
EVERYWHERE: Range = (-math.inf, math.inf)
"""The whole range of the noise."""


class LossCells(NamedTuple):
    """A pair's loss, cut into cells that are merged into one atom each (:mod:`.loss_cells`).

    Losses m_i, ln p_i + c·m_i, and bounds of their errors. ``width``: at most |l − m_i|·2 within a cell; ``wrong``:
    the relative error of the masses; ``slip``: the absolute error of the losses; ``outside``: the tilted mass outside
    all cells, relative to the sum of e^{logs}.
    """

    losses: Floats
    logs: Floats
    width: float
    wrong: float
    slip: float
    outside: float


class Pair(ABC):
    """Two laws (P, Q), known by their moment M(z) = ∫ P^{1+z} Q^{-z}.

    A new pair needs the abstract methods, and a hash of its Fractions' integers: a Fraction's own takes a modular
    power. The others are capabilities, each with a default that claims nothing: a pair that has one is answered faster,
    or more tightly, by the method of :mod:`hush.accounting.profile` that uses it.
    """

    __slots__ = ()
    symmetric: ClassVar[bool] = True
    sampled: ClassVar[bool] = False
    """Whether the noise is on a random sample: the cumulant is then costly, and unknown beyond some tilt."""

    @abstractmethod
    def moment(self, z: Ball) -> Ball:
        """Return a ball that contains M(z); z is a complex ball."""

    @abstractmethod
    def largest_loss(self, *, reverse: bool = False) -> Ball | None:
        """Return the essential supremum of the privacy loss, or None where it is unbounded."""

    @abstractmethod
    def profile(self, epsilon: Ball, *, reverse: bool = False) -> Ball:
        """Return the hockey-stick divergence ∫(P − e^ε Q)₊ = E[(1 − e^{ε-Z})₊] at any real ε, negative ones too."""

    def brief(self) -> bool:
        """Whether ``profile`` is quick: a closed form, or a sum of few terms."""
        return True

    def top_mass(self, *, reverse: bool = False) -> Ball | None:
        """Return the mass under P of the atom at the largest loss, None where there is none."""
        return None

    @abstractmethod
    def group(self, size: int) -> Pair:
        """Return a pair that dominates ``size`` units changing at once."""

    @abstractmethod
    def rho(self) -> Ball:
        """Return a certified ρ of zCDP: K(z) ≤ ρ·z(z+1) for every z > 0."""

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the Rényi divergence of order α > 1 in the worse direction, K(α−1)/(α−1)."""
        spend(20)
        order = ball(alpha)
        worst = self.moment(flint().acb(order - 1)).real.log() / (order - 1)
        if not self.symmetric:
            # In reverse the moment at α−1 is M(−1−(α−1)) = M(−α).
            worst = worst.max(self.moment(flint().acb(-order)).real.log() / (order - 1))
        return worst

    # -- capabilities of some pairs; a method of accounting that needs one does not apply to the others --------------

    def lattice(self) -> tuple[Fraction, Fraction] | None:
        """Return (offset, span) where every loss lies in offset + span·ℤ, or None for a law that has a density."""
        return None

    def atoms_suffice(self, count: int) -> bool:
        """Whether the lattice is the best way to the law of ``count`` steps: there is one, with not too many points."""
        return self.lattice() is not None

    def terms(self) -> Terms | None:
        """Return {x: q} with M = Σ e^{sx}·q(1/s), s = z + 1/2 and q a polynomial in balls, or None."""
        return None

    def cells(self, c: float, width: float, *, reverse: bool, noise: Range = EVERYWHERE) -> LossCells | None:
        """Return the loss in cells of at most this width, tilted by c; ``noise`` restricts it to a range of the noise.

        None where it is not known, or where there would be too many.
        """
        return None

    def valley(self, c: float) -> float | None:
        """Return the noise of least density between two humps of the law tilted by c; None where it has one hump."""
        return None

    def rough_cumulant(self, c: Floats, noise: Range) -> Floats:
        """Return an estimate of ln ∫ e^{cl}dP over a range of the noise, to choose tilts for pairs with a valley."""
        raise NotImplementedError

    def gaussian(self) -> Fraction | None:
        """Return μ² where the pair is exactly that of Gaussian noise; Gaussian pairs compose by adding μ²."""
        return None

    def dominating_gaussian(self) -> Fraction | None:
        """Return the μ² of a Gaussian pair that dominates this one, if known other than by the largest loss."""
        return self.gaussian()

    def exact_largest_loss(self) -> Fraction | None:
        """Return the largest loss of both directions where it is a rational parameter of the pair."""
        return None

    def strength(self) -> Fraction | None:
        """Return a parameter that orders pairs of this class by domination: the larger dominates the smaller."""
        return None

    def adaptive(self) -> Pair:
        """Return the pair of the same mechanism, not fixed in advance but chosen as answers come in."""
        return self

    def attained(self) -> Pair:
        """Return the pair of a mechanism that this pair was made for: no valid bound can go below it."""
        return self

    def cumulant(self, z: Complexes, *, reverse: bool) -> tuple[Complexes, Floats]:
        """Return K̂ and R with M = e^{K̂}·(1+η), |η| ≤ e^R − 1, in double precision, at z with a positive real part."""
        raise NotImplementedError

    def log_tail(self, c: float, low: float, high: float, *, reverse: bool) -> float:
        """Return an upper bound of ln |M(c+iu)| over low ≤ u ≤ high (which may be infinite), c > 0.

        By default it is ln M(c), as |M(c+iu)| ≤ M(c): no decay is claimed, and where there is an atom there is none.
        """
        value, error = self.cumulant(np.array([c]), reverse=reverse)
        return upward(float(value[0] + error[0]))

    @classmethod
    def batch(cls, pairs: Sequence[Pair], counts: Sequence[int], *, reverse: bool = False) -> Batch:
        """Return the cumulant of many pairs of this kind, each with its count; some kinds have a faster one."""
        return Batch(pairs, counts, reverse=reverse)


class Batch:
    """The cumulant of a composition of pairs of one kind, in double precision with a proven error bound."""

    def __init__(self, pairs: Sequence[Any], counts: Sequence[int], *, reverse: bool = False) -> None:
        self.pairs = list(zip(pairs, counts, strict=True))
        self.reverse = reverse

    def cumulant(self, z: Complexes) -> tuple[Complexes, Floats]:
        """Return the sum of K̂ and R over all pairs."""
        value, error = np.zeros(z.shape, dtype=z.dtype), np.zeros(z.shape)
        for pair, count in self.pairs:
            k, r = pair.cumulant(z, reverse=self.reverse)
            with np.errstate(invalid="ignore"):
                value += count * k
                error += count * r
        with np.errstate(invalid="ignore"):
            return value, error + UNIT * (len(self.pairs) + 4) * np.abs(value)

    def log_tail(self, c: float, low: float, high: float) -> float:
        """Return an upper bound of ln |M(c+iu)| over low ≤ u ≤ high (which may be infinite), c > 0."""
        tails = (count * pair.log_tail(c, low, high, reverse=self.reverse) for pair, count in self.pairs)
        return upward(sum(tails))


UNIT = 2.0**-52
"""Twice the unit roundoff: an upper bound of the relative error of one rounded operation, with a factor 2 in hand."""


def upward(value: float) -> float:
    """Return a float safely above a value that carries a relative error of a few units."""
    return value + 64 * UNIT * abs(value) + 1e-300


def total(value: Complexes, error: Floats) -> tuple[Complexes, Floats]:
    """Return the value and R = ln(1 + error/|value|); a value lost in its error is replaced by the error.

    If |v̂| < error then |v| < 2·error, and v = error·(1+η) with |η| ≤ 3.
    """
    size = np.abs(value)
    lost = ~(size > error)
    floor = np.maximum(error, 1e-300)
    value = np.where(lost, floor.astype(value.dtype), value)
    size = np.where(lost, floor, size)
    ratio = np.where(lost, math.log(4.0), np.log1p(error / np.where(size > 0, size, 1.0)))
    return value, ratio


def log1p(v: Complexes) -> Complexes:
    """Return ln(1+v), accurate for small complex v (NumPy's own forms 1+v first)."""
    if v.dtype.kind == "f":
        return np.asarray(np.log1p(v))
    a, b = v.real, v.imag
    # |1+v|² = 1 + a(2+a) + b², without forming 1 + a.
    return np.asarray(0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a))


def expm1(v: Complexes) -> Complexes:
    """Return e^v − 1, accurate for small complex v: e^a cos b − 1 = expm1(a)·cos b − 2 sin²(b/2)."""
    if v.dtype.kind == "f":
        return np.asarray(np.expm1(v))
    a, b = v.real, v.imag
    return np.asarray(np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2 + 1j * np.exp(a) * np.sin(b))


def by_tilt(
    evaluate: Callable[[Complexes], tuple[Complexes, Floats]], z: Complexes, farthest: float
) -> tuple[Complexes, Floats]:
    """Return K̂ and R, evaluated in groups of like real part so that a quadrature fits each group.

    Beyond the tilt ``farthest`` nothing is claimed: K and its error are infinite there.
    """
    # Groups by a factor of 4 in the real part: one step width and one range of nodes serve each.
    group = np.ceil(np.log2(np.maximum(z.real, 1.0)) / 2)
    group = np.where(z.real > farthest, -1.0, group)
    first = float(group.flat[0])
    if first >= 0 and bool((group == first).all()):
        return evaluate(z)
    value, error = np.full(z.shape, np.inf, dtype=z.dtype), np.full(z.shape, np.inf)
    for mark in np.unique(group):
        if mark >= 0:
            members = group == mark
            value[members], error[members] = evaluate(z[members])
    return value, error
