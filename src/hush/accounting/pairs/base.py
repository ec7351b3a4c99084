"""What every dominating pair offers.

The pair (P, Q) is oriented: P is the law with the unit present. Most pairs are *symmetric*: reflecting the output swaps
P and Q, so that M(z) = M(−1−z) and one direction says all. For the others the reverse direction (Q, P) has the moment
M(−1−z), and an accountant takes the worse of the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from hush.core.balls import ball, flint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    import numpy as np
    import numpy.typing as npt

    from hush.core.balls import Ball

    Complexes = npt.NDArray[Any]
    Floats = npt.NDArray[np.float64]

__all__ = ["Batch", "Pair"]


class Pair(ABC):
    """Two laws (P, Q), known by their moment M(z) = ∫ P^{1+z} Q^{-z}."""

    __slots__ = ()
    symmetric: ClassVar[bool] = True

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
        """Whether ``profile`` and ``survival`` are quick: closed forms, or sums of few terms."""
        return True

    @abstractmethod
    def survival(self, loss: Ball, *, reverse: bool = False) -> Ball:
        """Return a ball not above P(Z ≥ loss) by more than its radius, Z the privacy loss under P."""

    def top_mass(self, *, reverse: bool = False) -> Ball | None:  # noqa: ARG002
        """Return the mass under P of the atom at the largest loss, None where there is none."""
        return None

    @abstractmethod
    def group(self, size: int) -> Pair:
        """Return a pair that dominates ``size`` units changing at once."""

    @abstractmethod
    def rho(self) -> Ball:
        """Return a certified ρ such that the pair satisfies ρ-zCDP: K(z) ≤ ρ·z(z+1) for every z > 0."""

    def renyi(self, alpha: Fraction) -> Ball:
        """Return the Rényi divergence of order α > 1 in the worse direction, K(α−1)/(α−1)."""
        order = ball(alpha)
        worst = self.moment(flint().acb(order - 1)).real.log() / (order - 1)
        if not self.symmetric:
            worst = worst.max(self.moment(flint().acb(-order)).real.log() / (order - 1))
        return worst

    def lattice(self) -> tuple[Fraction, Fraction] | None:
        """Return (offset, span) where every loss lies in offset + span·ℤ, or None for a law that has a density."""
        return None

    @classmethod
    @abstractmethod
    def batch(cls, pairs: Sequence[Pair], counts: Sequence[int], *, reverse: bool = False) -> Batch:
        """Return the vectorised double-precision cumulant of many pairs of this kind, each with its count."""


class Batch(ABC):
    """The cumulant of a composition of pairs of one kind, in double precision with a proven error bound."""

    @abstractmethod
    def cumulant(self, z: Complexes) -> tuple[Complexes, Floats]:
        """Return K̂ and R with M = e^{K̂}·(1+η), |η| ≤ e^R − 1, at every z with a positive real part."""

    @abstractmethod
    def log_tail(self, c: float, low: float, high: float) -> float:
        """Return an upper bound of ln |M(c+iu)| over low ≤ u ≤ high (which may be infinite), c > 0."""
