r"""Subset selection: a report is a set of categories that probably holds the true one.

Ye, Barg 2018; Wang et al. 2016. Report a set of w ≈ k/(e^ε + 1) categories that holds the true one with probability p =
w·e^ε/(w·e^ε + k - w); given that, the others are uniform. For sets S ∋ v and S' ∌ v the ratio of probabilities is
[p/C(k-1,w-1)]/[(1-p)/C(k-1,w)] = e^ε. Its variance is the smallest known; w = 1 is randomized response. A report has w
numbers, so that it suits small domains.

>>> SubsetSelection(epsilon=1, categories=100).size
27
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush import noise
from hush.accounting import ApproximateDPEvent
from hush.core import Number
from hush.core.balls import ball
from hush.core.columns import is_scalar
from hush.core.values import dataclass
from hush.mechanisms.base import Setter, ordinary
from hush.mechanisms.randomized_response import (
    codes,
    oracle_for,
    read_categories,
    shares,
    support_error,
    support_variance,
    unbiased,
)

__all__ = ["SubsetSelection", "subset_size"]


def subset_size(epsilon: Fraction, k: int) -> int:
    """Return w, the whole number nearest to k/(e^ε+1), at least 1 and below k. Any w is private."""
    return min(max(1, round(k / (shares(epsilon) + 1))), k - 1)


@dataclass(frozen=True, slots=True, init=False)
class SubsetSelection(Setter):
    """Reports a random set of categories that probably holds the true one."""

    epsilon: Fraction
    categories: tuple[Any, ...]

    def __init__(self, *, epsilon: Number, categories: Any) -> None:
        self._set(epsilon=ordinary(epsilon, "epsilon"), categories=read_categories(categories))

    @classmethod
    def for_error(
        cls, error: Number, *, confidence: Number = Fraction(19, 20), count: int, categories: Any, at_once: int = 1
    ) -> SubsetSelection:
        """Return the oracle with the smallest ε, to 12 digits, whose `error` is at most this."""
        names = read_categories(categories)
        return oracle_for(
            lambda epsilon: cls(epsilon=epsilon, categories=names),
            lambda made: made.error(confidence, count=count, categories=at_once),
            error,
        )

    @property
    def size(self) -> int:
        """How many categories a report holds."""
        return subset_size(self.epsilon, len(self.categories))

    @property
    def support(self) -> tuple[float, float]:
        """The probabilities that a report holds the true category, and each other."""
        k, w, odds = len(self.categories), self.size, shares(self.epsilon)
        p = 1.0 if odds == float("inf") else w * odds / (w * odds + k - w)
        return p, (p * (w - 1) + (1 - p) * w) / (k - 1)

    @property
    def event(self) -> ApproximateDPEvent:
        """Pure ε."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=0)

    def release(self, answer: Any) -> Any:
        """Return one report (a set as a sorted array of positions), or a list of reports for a column."""
        if is_scalar(answer):
            return self._report(codes([answer], self.categories))[0]
        return self._report(codes(answer, self.categories))

    def _report(self, true: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        k, w, epsilon = len(self.categories), self.size, self.epsilon
        holds = noise.bernoulli_exp(
            lambda _bits: (ball(Fraction(k - w, w)) * (-ball(epsilon)).exp() + 1).log(), len(true)
        )
        reports = []
        for at, held in zip(true.tolist(), holds.tolist(), strict=True):
            order = noise.permutation(k)
            if at < 0:
                chosen = order[:w]
            else:
                others = order[order != at]
                chosen = np.append(others[: w - 1], at) if held else others[:w]
            reports.append(np.sort(chosen))
        return reports

    def estimate(self, reports: Any) -> npt.NDArray[np.float64]:
        """Return the unbiased estimate of every category's frequency."""
        sets = list(reports)
        flat = np.concatenate(sets) if sets else np.zeros(0, dtype=np.int64)
        p, q = self.support
        return unbiased(np.bincount(flat, minlength=len(self.categories)), len(sets), p, q)

    def variance(self, *, count: int, frequency: float = 0.0) -> float:
        """Return the variance of an estimated frequency from ``count`` reports."""
        return support_variance(*self.support, count=count, frequency=frequency)

    @property
    def bias(self) -> float:
        """Zero: the estimate is unbiased."""
        return 0.0

    def error(self, confidence: Number = Fraction(19, 20), *, count: int, categories: int = 1) -> float:
        """Return a half-width of estimated frequencies that holds with at least this probability."""
        return support_error(*self.support, count=count, confidence=confidence, categories=categories)
