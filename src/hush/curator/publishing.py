"""Publishing: what a standing question would cost, how it is declared, and how what is due is released.

`Publisher` is a curator without an analyst, for the owner. Its charges are paid from what was set aside
(`hush.ledger.standing` has the reasoning). Readers see standing questions by `hush.curator.standing`.

**When a release appears.** It is charged at its slot, or as soon as somebody looks after it: that depends on no row.
How long it computes does, so its outcome, an answer or a failure, is recorded at public moments alone: `TICK`,
2·`TICK`, 4·`TICK`, … seconds after the charge (a service has its own slots, `hush.server.questions`). Of a failure
readers see that it failed, and nothing else; it stays charged.

**Noise for the plan.** Where the price is said for all releases together, noise is chosen for all of them: the ρ of k
releases with Gaussian noise adds up, so each errs √k times as much as one alone, where Laplace noise would err k times.

**The same noise every time.** Mechanisms are chosen by the account as it was when the question was declared, so raising
a budget changes no release. If the policy has changed so much that a release would do something else than was declared,
it is refused and nothing is charged: the price was for what was declared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from hush.accounting import Guarantee, compose
from hush.accounting.events import Event
from hush.accounting.filters import Charge, Filter
from hush.accounting.prices import zcdp_price
from hush.core import HushError
from hush.core.format import decimal, figure
from hush.core.rounding import largest_decimal
from hush.core.values import dataclass
from hush.curator.access import Accounts
from hush.curator.answer import Answer
from hush.curator.curator import KEY_PART, Curator, PlannedQuestion, computing
from hush.curator.data_sets import OpenDataSet
from hush.curator.explanation import Explanation
from hush.engines.errors import EngineError
from hush.ledger import Actor, Ledger, LedgerError, Reservation
from hush.ledger.budgets import price, share, under
from hush.ledger.shares import percent
from hush.ledger.standing import StandingPlan, StandingPlans, StandingQuestion, StandingRelease
from hush.ledger.system import now
from hush.query.errors import QuestionError

TICK = 1.0
"""The first moment after its charge, in seconds, at which a release appears; each further one is twice as late."""
_DIGITS = 6
_GAIN = 0.1
"""By so much, as a logarithm, the errors of Gaussian noise must be smaller for a plan to take it."""
POLICY = Actor.owner("policy")
"""Who declares what a policy names."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingExplanation:
    """What a standing question would cost, before it is declared. Nothing was read or set aside."""

    question: StandingQuestion
    epsilon: Fraction
    """What one release costs."""
    release: Explanation
    """One release: its price and its errors."""
    events: tuple[Event, ...]
    share: Fraction
    """The part of the data set's budget that all releases take."""
    fitting: int
    """How many releases fit into what is left."""
    together: Fraction | None
    """The ε of all releases together at the budget's δ, by exact composition; None where it has none."""
    delta: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        releases = self.question.schedule.slots
        return {
            "name": self.question.name,
            "releases": releases,
            "epsilon": decimal(self.epsilon),
            "sum_of_epsilon": decimal(releases * self.epsilon),
            "together": None if self.together is None else float(self.together),
            "delta": decimal(self.delta),
            "share": float(self.share),
            "fitting": self.fitting,
            "fits": releases <= self.fitting,
            "release": self.release.to_json(),
        }

    def __str__(self) -> str:
        """Return the price in a sentence."""
        releases = self.question.schedule.slots
        at = f" at δ={figure(self.delta)}" if self.delta else ""
        together = "" if self.together is None else f", together ε={figure(self.together, digits=4)}{at}"
        summed = f" (their sum is {figure(releases * self.epsilon)})" if self.together and self.delta else ""
        fit = "they fit" if releases <= self.fitting else f"{self.fitting} would fit"
        return (
            f"{releases} releases at ε={figure(self.epsilon)} each{together}{summed}: {percent(self.share)} of the "
            f"budget of {self.question.data}; {fit}"
        )


class Publisher(Curator):
    """The owner's curator: declares standing questions, and releases them when they are due."""

    def __init__(self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger) -> None:
        super().__init__(data_sets, ledger, "")
        self._terms: Filter | None = None
        self._gaussian = False

    def __repr__(self) -> str:
        """Return what is published from."""
        return f"<Publisher of {', '.join(self.data_sets)}>"

    @property
    def plans(self) -> StandingPlans:
        """The standing questions of the ledger."""
        return self._ledger.standing

    def accounts(self, data: str) -> Accounts:
        """Return the account above a data set, on the terms of what is released: nobody's own budget is charged."""
        terms = self._terms or self._fresh(data)
        return Accounts((terms,), (f"the budget of {data}",), self._gaussian)

    @contextmanager
    def _on(self, terms: Filter, *, gaussian: bool) -> Iterator[None]:
        """Plan on the terms of a declaration."""
        self._terms, self._gaussian = terms, gaussian
        try:
            yield
        finally:
            self._terms, self._gaussian = None, False

    def _fresh(self, data: str) -> Filter:
        """Return the data set's account as it would be opened now."""
        views = self._ledger.budget(POLICY)
        account = next((view.account for view in views if (view.data, view.analyst) == (data, None)), None)
        if account is None:
            raise QuestionError(f"There is no budget for a data set {data!r}.", "Open it: hush ledger open.")
        return replace(account, spent_loss=Fraction(0), spent_delta=Fraction(0), spent_epsilon=Fraction(0))

    # declaring

    def explain_standing(self, question: StandingQuestion) -> StandingExplanation:
        """Say what a standing question would cost and how accurate it would be. Reads no data, sets nothing aside."""
        with self.in_use():
            terms = self._fresh(question.data)
            epsilon, gaussian = self._price(question, terms)
            with self._on(terms, gaussian=gaussian):
                events = self._planned(question, epsilon).plan.events
                release = replace(self._explained(question, epsilon), outlook=None)  # the plan's own is told beside it
            releases = question.schedule.slots
            return StandingExplanation(
                question=question,
                epsilon=epsilon,
                release=release,
                events=tuple(events),
                share=share(terms, _times(price(terms, events), releases)),
                fitting=self.plans.fitting(question.data, list(events)),
                together=_together(events, releases, terms.delta),
                delta=terms.delta,
            )

    def declare(self, question: StandingQuestion, *, actor: Actor) -> StandingPlan:
        """Set aside the price of all releases, as one plan; refuse what does not fit, and say how much would."""
        with self.in_use():
            terms = self._fresh(question.data)
            epsilon, gaussian = self._price(question, terms)
            with self._on(terms, gaussian=gaussian):
                planned = self._planned(question, epsilon)
            computing(planned.plan, planned.data_set.engine)  # what cannot be written is refused now
            events = list(planned.plan.events)
            return self.plans.declare(
                question, epsilon=epsilon, events=events, terms=terms, gaussian=gaussian, actor=actor
            )

    def _planned(self, question: StandingQuestion, epsilon: Fraction) -> PlannedQuestion:
        planned = self.plan(question.question, **self._asked(question, epsilon))
        if not planned.plan.events:
            raise QuestionError("The question costs nothing, so there is nothing to set aside.", "Just ask it.")
        return planned

    def _explained(self, question: StandingQuestion, epsilon: Fraction) -> Explanation:
        return self.explain(question.question, **self._asked(question, epsilon))

    def _asked(self, question: StandingQuestion, epsilon: Fraction) -> dict[str, Any]:
        """Return on which terms one release is asked for.

        The δ of private keys is the usual one, but for all releases together no more than half of what the account has
        for keys, unless the declaration says what it is.
        """
        terms, delta = self._terms, question.delta
        if delta is None and terms is not None and terms.reserve:
            delta = min(terms.delta * KEY_PART, terms.reserve / (2 * question.schedule.slots))
        return {"data": question.data, "epsilon": epsilon, "delta": delta, "confidence": question.confidence}

    def _price(self, question: StandingQuestion, terms: Filter) -> tuple[Fraction, bool]:
        """Return the ε of one release and whether its noise is to be Gaussian.

        The ε is as it was said; or the largest that the price of all releases, or a ρ, allows. Then noise is chosen for
        the plan and not for one release: of Laplace and Gaussian noise, each at its largest ε, what errs less. Gaussian
        noise must err a tenth less: it ends the counting by the sum of ε in the account (`hush.query.plan.plan`).
        """
        if question.epsilon is not None:
            return Fraction(question.epsilon), False
        epsilon, widths = self._at_largest(question, terms, gaussian=False)
        if not terms.takes_gaussian or not terms.delta:
            return epsilon, False
        try:
            other, narrower = self._at_largest(question, terms, gaussian=True)
        except HushError:  # no price at which Gaussian noise keeps to the terms
            return epsilon, False
        gains = [math.log(widths[name] / narrower[name]) for name in widths.keys() & narrower.keys()]
        better = bool(gains) and math.fsum(gains) / len(gains) > _GAIN
        return (other, True) if better else (epsilon, False)

    def _at_largest(
        self, question: StandingQuestion, terms: Filter, *, gaussian: bool
    ) -> tuple[Fraction, dict[str, float]]:
        """Return the largest ε of one release, and the half-widths at that price that are known beforehand."""
        with self._on(terms, gaussian=gaussian):
            epsilon = self._largest(question, terms, gaussian=gaussian)
            errors = self._explained(question, epsilon).errors()
        return epsilon, {name: error for name, error in errors.items() if error}

    def _largest(self, question: StandingQuestion, terms: Filter, *, gaussian: bool) -> Fraction:
        """Return the largest ε of one release that keeps to the price of all of them, or to a ρ of one."""
        releases = question.schedule.slots
        most = Fraction(question.total_epsilon or question.rho or 0)
        room = under(terms, most, terms.delta)

        def holds(epsilon: Fraction) -> bool:
            events = self._planned(question, epsilon).plan.events
            if question.rho is not None:
                return sum((zcdp_price(event)[0] for event in events), Fraction(0)) <= most
            if not gaussian:
                return epsilon <= most and room.fits(_times(price(room, events), releases))
            together = _together(events, releases, terms.delta)
            return together is not None and together <= most and terms.fits(_times(price(terms, events), releases))

        return largest_decimal(holds, digits=_DIGITS, near=most / releases)

    # releasing

    def release_due(self, name: str, *, clock: str | None = None) -> StandingRelease | None:
        """Make the release of a standing question that is due, if there is one: charge it, compute it, record it."""
        with self.in_use():
            declared = self.plans.find(name)
            if declared.due(clock or now()) is None:
                if declared.over(clock or now()):
                    self._end(name)
                return None
            asked = declared.question
            with self._on(declared.terms, gaussian=declared.gaussian):
                planned = self._planned(asked, declared.epsilon)
            if tuple(planned.plan.events) != declared.events:
                raise LedgerError(
                    f"Under the present policy a release of {asked.name!r} would do something else than was declared "
                    "and set aside. Take back the change of the policy; or end it with hush standing end, and declare "
                    "it under another name. Nothing was charged."
                )
            compute = computing(planned.plan, planned.data_set.engine)
            reserved = self.plans.reserve(name, clock=clock)
            if reserved is None:  # another worker was quicker
                return None
            reservation, period = reserved
            self.reserved(reservation)
            release = StandingRelease(period=period, slot="", state="made", receipt=reservation.number)
            try:
                self.keep(reservation, compute, Answer.to_bytes)
            except EngineError:
                return replace(release, state="failed")
            return release

    def _end(self, name: str) -> None:
        """End what will never be due again, unless another worker was quicker."""
        try:
            self.plans.end(name, actor=POLICY, reason="its last period has passed")
        except LedgerError:
            if not self.plans.find(name).aside.ended:
                raise

    def reserved(self, reservation: Reservation) -> None:
        """Note that a release was charged: a service counts its slots from here."""

    def keep(
        self, reservation: Reservation, compute: Callable[[], Result], to_bytes: Callable[[Result], bytes]
    ) -> Result:
        """Compute what was charged for, and record it at a public moment."""
        began = time.monotonic()

        def held() -> Result:
            try:
                return compute()
            finally:
                moment = TICK
                while moment < time.monotonic() - began:
                    moment *= 2
                time.sleep(max(0.0, began + moment - time.monotonic()))

        return super().keep(reservation, held, to_bytes)


def declare_all(publisher: Publisher, questions: Iterable[StandingQuestion]) -> dict[str, HushError]:
    """Declare what a policy names and the ledger lacks; return what was refused, by name. Others are declared."""
    refused: dict[str, HushError] = {}
    declared = {plan.question.name.casefold(): plan for plan in publisher.plans.listed()}
    for question in questions:
        try:
            if (plan := declared.get(question.name.casefold())) is not None:
                publisher.plans.check_same(plan, question)
            else:
                publisher.declare(question, actor=POLICY)
        except HushError as error:
            refused[question.name] = error
    return refused


def run_due(
    publisher: Publisher, *, clock: str | None = None, only: str | None = None
) -> list[tuple[str, StandingRelease | HushError]]:
    """Make everything that is due, each period once, oldest first; return what was made, and what was refused.

    After a failure the further periods of that question wait for the next call.
    """
    publisher.plans.close_dead()
    made: list[tuple[str, StandingRelease | HushError]] = []
    for plan in publisher.plans.listed() if only is None else [publisher.plans.find(only)]:
        name = plan.question.name
        try:
            while (release := publisher.release_due(name, clock=clock)) is not None:
                made.append((name, release))
                if release.state == "failed":  # what is due besides would fail alike, and be charged
                    break
        except HushError as error:
            made.append((name, error))
    return made


def _times(charge: Charge, count: int) -> Charge:
    """Return the price of so many equal steps."""
    summed = None if charge.epsilon is None else count * charge.epsilon
    return replace(charge, loss=count * charge.loss, delta=count * charge.delta, epsilon=summed)


def _together(events: Sequence[Event], releases: int, delta: Fraction) -> Fraction | None:
    """Return the ε of all releases together, by exact composition, rounded up; None where it cannot be told."""
    try:
        guarantee = Guarantee((compose(events) * releases).description.adaptive())
        return Fraction(guarantee.epsilon(delta, strict=False).upper)
    except HushError:
        return None
