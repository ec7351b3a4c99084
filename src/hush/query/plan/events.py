"""What a plan charges, written in the vocabulary of `hush.accounting.events`.

* **Laplace** noise on a vector over groups: under add/remove a unit changes at most ``groups`` coordinates, each by at most
  b, independently noised: the composition of ``groups`` scalar mechanisms of sensitivity b, which is never worse than pure ε
  and better in Rényi terms. Under replace one coordinate may change by 2b or two by b each; the pure ε covers all.
* **Gaussian**: Δ₂²/2σ² of zero-concentrated DP, whatever the shape of the change; with one coordinate the discrete law
  itself.
* **Choices**: bounded range in each of at most ``groups`` groups under add/remove, else pure ε.
* **Keys**: (ε,δ), met with equality.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from hush.query.plan.laws import Laplace, Law
from hush.query.plan.limits import Limits

Record = Mapping[str, Any]


def noise_event(law: Law, step: int, bounds: Limits, epsilon: Fraction) -> Record:
    """Return the event of one noisy statistic; ``step`` is the most one unit changes in one group."""
    if isinstance(law, Laplace):
        if bounds.touched > 1:
            return {"version": 1, "type": "approx_dp", "epsilon": str(epsilon), "delta": "0"}
        single = {"version": 1, "type": "discrete_laplace", "parameter": str(1 / law.scale), "sensitivity": step}
        return _repeated(single, bounds.groups)
    if bounds.cells == 1:
        return {"version": 1, "type": "discrete_gaussian", "sigma": str(law.sigma), "sensitivity": step}
    rho = Fraction(bounds.touched**2 * bounds.groups * step * step) / (2 * law.sigma**2)
    return {"version": 1, "type": "zcdp", "rho": str(rho)}


def choice_event(epsilons: Sequence[Fraction], bounds: Limits) -> Record:
    """Return the event of picks made with these ε."""
    if bounds.touched > 1:
        return {"version": 1, "type": "approx_dp", "epsilon": str(sum(epsilons, Fraction(0))), "delta": "0"}
    parts = [
        {"version": 1, "type": "exponential_br", "epsilon": str(part / bounds.groups), "count": bounds.groups}
        for part in epsilons
    ]
    return {"version": 1, "type": "composed", "events": parts}


def selection_event(epsilon: Fraction, delta: Fraction) -> Record:
    """Return the event of choosing keys."""
    return {"version": 1, "type": "partition_selection", "epsilon": str(epsilon), "delta": str(delta)}


def _repeated(event: dict[str, Any], count: int) -> Record:
    if count == 1:
        return event
    return {"version": 1, "type": "composed", "events": [{**event, "count": count}]}
