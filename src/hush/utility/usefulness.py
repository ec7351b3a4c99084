r"""(α, β)-usefulness: with probability above 1-β no answer is off by more than α (THEORY item 19).

Four readings, one definition:

* **one query**: the half-width of its mechanism at confidence 1-β is at most α;
* **a set of queries**: the largest of all errors is at most α. The noises are independent, so each must hold at
  (1-β)^(1/m), which is `error(confidence, count=m)`, exactly; the whole set's ℓ₁ (or ℓ₂) sensitivity is what the
  mechanism was made for;
* **a synthetic data set**: the largest error over a set of queries, answered on it instead of the data,
  `largest_error`;
* **an analysis**: whatever a program makes of the data. That is measured: run it again and again, and bound the
  chance of a failure by Clopper and Pearson, `measure`. It reads the true answer, so it is for the owner.

Both directions: `alpha_at` and `beta_at` from a mechanism, `laplace_for` from a wanted (α, β).

>>> from hush.mechanisms.laplace import Laplace
>>> noisy = Laplace(sensitivity=1, epsilon="0.1")
>>> round(alpha_at(noisy, beta=0.01), 2), useful(noisy, alpha=47, beta=0.01), useful(noisy, alpha=40, beta=0.01)
(46.05, True, False)
>>> needed = laplace_for(alpha=10, beta=0.05, queries=20)
>>> useful(needed, alpha=10, beta=0.05, queries=20), float(needed.epsilon) < 12
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.core import Number, exact, fraction_between, integer, nonnegative, positive
from hush.mechanisms.base import Additive
from hush.mechanisms.laplace import Laplace
from hush.utility.confidence import upper_bound


def alpha_at(mechanism: Additive, *, beta: Number, queries: int = 1) -> float:
    """Return α such that ``queries`` answers of this mechanism are (α, β)-useful."""
    return mechanism.error(1 - fraction_between(beta, "beta"), count=queries)


def useful(mechanism: Additive, *, alpha: Number, beta: Number, queries: int = 1) -> bool:
    """Say whether the answers to a set of queries are (α, β)-useful."""
    return exact(alpha_at(mechanism, beta=beta, queries=queries), "alpha") <= nonnegative(alpha, "alpha")


def beta_at(mechanism: Additive, *, alpha: Number, queries: int = 1) -> float:
    """Return the smallest β, to 30 bits, at which the answers are (α, β)-useful; 1 if there is none."""
    low, high = Fraction(0), Fraction(1)
    for _ in range(60):
        middle = (low + high) / 2 if low else high / 16
        if useful(mechanism, alpha=alpha, beta=middle, queries=queries):
            high = middle
        else:
            low = middle
        if low and high - low < low / 2**30:
            break
    return float(high)


def laplace_for(
    *, alpha: Number, beta: Number, queries: int = 1, sensitivity: Number | None = None, step: Number | None = None
) -> Laplace:
    """Return the Laplace mechanism of the smallest ε whose answers to a set of queries are (α, β)-useful.

    ``sensitivity`` is the set's ℓ₁ sensitivity; by default each query has sensitivity 1, and they add up.
    """
    many = integer(queries, "queries", minimum=1)
    return Laplace.for_error(
        positive(alpha, "alpha"),
        confidence=1 - fraction_between(beta, "beta"),
        sensitivity=many if sensitivity is None else sensitivity,
        step=step,
        count=many,
    )


def largest_error(queries: Iterable[Callable[[Any], Any]], data: Any, synthetic: Any) -> float:
    """Return max |f(data) - f(synthetic)| over the queries: the α of a synthetic data set. Private: for the owner."""
    return max((abs(float(query(data)) - float(query(synthetic))) for query in queries), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What repeated runs of an analysis showed."""

    alpha: float
    runs: int
    failures: int
    beta: float
    """The chance of an error above α is at most this, with the confidence asked for."""
    errors: tuple[float, ...]

    @property
    def mean_error(self) -> float:
        """The mean of all errors."""
        return sum(self.errors) / len(self.errors)


def measure(
    analysis: Callable[[], Any], *, truth: float, alpha: Number, runs: int = 200, confidence: Number = Fraction(99, 100)
) -> Measured:
    """Run an analysis again and again and bound the chance that it is off by more than α."""
    many = integer(runs, "runs", minimum=1)
    limit = float(nonnegative(alpha, "alpha"))
    errors = tuple(abs(float(analysis()) - truth) for _ in range(many))
    failures = sum(error > limit for error in errors)
    beta = upper_bound(failures, many, miss=1 - fraction_between(confidence, "confidence"))
    return Measured(alpha=limit, runs=many, failures=failures, beta=beta, errors=errors)
