"""Plans: steps declared first, composed exactly, charged once.

**Theorem** (Zhu, Dong, Wang 2022 for dominating pairs; Dong, Roth, Su 2022 for trade-off functions). If step i is
dominated by a pair (Pᵢ, Qᵢ) *fixed in advance*, for all earlier outputs, then the interaction is dominated
by the product of the pairs. So the queries may depend on the answers, but not the noise: neither which mechanism runs
next, nor how strong it is, nor whether the remaining steps change. Under that hypothesis composition is exact, and a
plan admits more than any filter.

When the analyst does choose the mechanisms as the answers come in, the product of the pairs along each path says
nothing, however small it is on every path; use a filter then.

A plan is charged as a whole when it is opened. Its steps then run in their order at no further price; to stop early is
allowed (and refunds nothing), to run anything else is not.

>>> from hush.accounting import GaussianEvent
>>> plan = Plan.open([GaussianEvent(sigma=30, sensitivity=1)] * 100, epsilon="1.6", delta="1e-6")
>>> plan = plan.run(GaussianEvent(sigma=30, sensitivity=1))
>>> plan.done, len(plan.steps)
(1, 100)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hush.accounting.events import ComposedEvent, Event, event_from_json
from hush.accounting.guarantee import Guarantee, compose
from hush.accounting.prices import pure_price
from hush.core import BudgetExceededError, InvalidValueError, Number, exact, integer, nonnegative, probability
from hush.core.numbers import assign


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Declared steps that fit an (ε, δ) budget by exact composition, and the number of steps that have run."""

    steps: tuple[Event, ...]
    epsilon: Fraction
    delta: Fraction
    done: int = 0

    def __post_init__(self) -> None:
        assign(self, steps=tuple(self.steps))
        if not self.steps or not all(isinstance(step, Event) for step in self.steps):
            raise InvalidValueError("steps", got=self.steps, allowed="at least one event, and events only")
        assign(self, epsilon=nonnegative(self.epsilon, "epsilon"), delta=probability(self.delta, "delta"))
        integer(self.done, "done", minimum=0, maximum=len(self.steps))
        if self.delta == 0:
            # At δ = 0 the losses add up, in exact rationals.
            prices = [pure_price(step) for step in self.steps]
            if any(mass for _, mass in prices):
                raise InvalidValueError("delta", got=0, allowed="positive: a step of the plan has a δ of its own")
            needs = sum((loss for loss, _ in prices), Fraction(0))
        else:  # the certified upper end, as the exact rational that the float is
            needs = Fraction(self.guarantee.epsilon(self.delta, strict=False).upper)
        if needs > self.epsilon:
            raise BudgetExceededError(
                f"the plan's {len(self.steps)} steps need ε={float(needs):.6g} at δ={float(self.delta):.6g} but the "
                f"budget is ε={float(self.epsilon):.6g}; add noise, drop steps, or ask the owner for more"
            )

    @classmethod
    def open(cls, steps: Iterable[Event], *, epsilon: Number, delta: Number = 0) -> Plan:
        """Return the plan of the steps if they fit; otherwise raise :class:`~hush.core.BudgetExceededError`."""
        return cls(steps=tuple(steps), epsilon=nonnegative(epsilon, "epsilon"), delta=probability(delta, "delta"))

    @property
    def guarantee(self) -> Guarantee:
        """The exact composition of all steps, with queries that may depend on the answers.

        So mechanisms of bounded range count as adaptive in either ``mode``: their optimum holds for fixed queries
        only.
        """
        return Guarantee(compose(self.steps).description.adaptive())

    @property
    def event(self) -> ComposedEvent:
        """All steps as one event, for an account that holds other steps too."""
        return ComposedEvent(parts=self.steps)

    @property
    def finished(self) -> bool:
        """Whether every step has run."""
        return self.done == len(self.steps)

    def run(self, step: Event) -> Plan:
        """Return the plan after its next step, which must be the one declared. Costs nothing: the plan was charged."""
        if self.finished:
            raise BudgetExceededError(
                f"all {len(self.steps)} steps of the plan have run; open a new plan, or ask the owner for more"
            )
        if step != self.steps[self.done]:  # the theorem holds for the declared order and noise only
            raise InvalidValueError(
                "step",
                got=step,
                allowed=f"the plan's step {self.done + 1}, {self.steps[self.done]}",
                hint="A plan is priced for what it declares; use a filter to choose mechanisms as you go.",
            )
        return replace(self, done=self.done + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values, every number exact."""
        return {
            "version": 1,
            "kind": "plan",
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "done": self.done,
            "steps": [step.to_json() for step in self.steps],
        }

    @classmethod
    def from_json(cls, data: object) -> Plan:
        """Return the plan written by :meth:`to_json`; it is composed and checked afresh."""
        names = {"version", "kind", "epsilon", "delta", "done", "steps"}
        if not isinstance(data, Mapping) or set(data) != names or (data["version"], data["kind"]) != (1, "plan"):
            raise InvalidValueError("plan", got=data, allowed="a plan of version 1")
        if not isinstance(data["steps"], list):
            raise InvalidValueError("steps", got=data["steps"], allowed="a list of events")
        # Built anew, so an edited file cannot hold steps that do not fit the budget.
        return cls(
            steps=tuple(event_from_json(step) for step in data["steps"]),
            epsilon=exact(data["epsilon"], "epsilon"),
            delta=exact(data["delta"], "delta"),
            done=data["done"],
        )
