r"""The definition itself, on laws of finitely many outcomes (THEORY items 1 and 3).

M is (ε, δ)-DP if for neighbours P[M(D) ∈ S] ≤ e^ε·P[M(D') ∈ S] + δ for every set S. The worst S holds the outcomes
with p > e^ε·q, so that is the same as a *hockey-stick divergence* of at most δ, in both directions:

    E_{e^ε}(P‖Q) = Σ (p - e^ε·q)₊.

The *privacy loss* of an outcome is Z = ln(p/q). With Y drawn from P the exact δ(ε) is E[(1 - e^{ε-Z})₊], which is the
same sum; P(|Z| ≤ ε) ≥ 1-δ is sufficient for (ε, δ)-DP, not necessary.

This is for laws that can be written down: small examples, tests, teaching. For mechanisms there are events and
`hush.accounting`, which certify their figures.

>>> from hush.mechanisms import RandomizedResponse
>>> coin = RandomizedResponse.with_truth("0.5")
>>> yes, no = coin.probabilities(1), coin.probabilities(0)
>>> privacy_loss(yes, no).round(4).tolist()
[-1.0986, 1.0986]
>>> round(hockey_stick(yes, no, 0), 4), round(hockey_stick(yes, no, 1), 4), is_private(yes, no, epsilon=1.0987)
(0.5, 0.0704, True)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, nonnegative, probability


def hockey_stick(p: Any, q: Any, epsilon: Number) -> float:
    """Return Σ (p - e^ε·q)₊: the smallest δ for which P is hidden behind Q at this ε."""
    one, other = _laws(p, q)
    at = float(nonnegative(epsilon, "epsilon"))
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.where(other > 0, np.exp(at) * other, 0.0)
    return math.fsum(np.maximum(one - grown, 0.0))


def privacy_loss(p: Any, q: Any) -> npt.NDArray[np.float64]:
    """Return ln(p/q) of every outcome: infinite where only P is possible, minus infinity where only Q is."""
    one, other = _laws(p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(one) - np.log(other)
    return np.where((one == 0) & (other == 0), 0.0, found)


def is_private(p: Any, q: Any, *, epsilon: Number, delta: Number = 0) -> bool:
    """Say whether two laws are (ε, δ)-indistinguishable, up to the rounding of their sums (10⁻¹²)."""
    slip = float(probability(delta, "delta")) + 1e-12
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= slip


def _laws(p: Any, q: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    laws = []
    for law, name in ((p, "p"), (q, "q")):
        try:
            array = np.asarray(law, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.full(1, np.nan)
        if array.ndim != 1 or not np.all(array >= 0) or not abs(float(array.sum()) - 1) <= 1e-6:
            raise InvalidValueError(name, got=law, allowed="probabilities of finitely many outcomes, adding up to 1")
        laws.append(array)
    if len(laws[0]) != len(laws[1]):
        raise InvalidValueError("q", got=f"{len(laws[1])} outcomes", allowed=f"of as many outcomes, {len(laws[0])}")
    return laws[0], laws[1]
