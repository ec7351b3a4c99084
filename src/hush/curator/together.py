"""Several questions as one plan: priced together, charged in one decision, released together or not at all.

Questions that ask the same are paid once, at the highest ε that one of them names, and share one answer: so what they
have in common agrees. The events of all distinct questions are one charge. An account composes events at no more than
the sum of their prices, so the plan costs at most what its questions cost one by one; and either all of it is
affordable, or nothing is charged and no row is read.

`hush.server.dashboards` keeps such plans as pages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hush.accounting.events import Event, event_from_json
from hush.core import InvalidValueError
from hush.curator import pipeline
from hush.curator.answer import Answer
from hush.curator.data_sets import OpenDataSet
from hush.curator.session import AnalystSession
from hush.curator.terms import QuestionTerms
from hush.ledger import Charge, Release
from hush.ledger.budgets import Outlook
from hush.query.answers.plan import ComposedPlan
from hush.query.plan import Plan
from hush.query.question import fingerprint

MOST = 24
"""How many questions one plan can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPlan:
    """Questions that are priced as one plan. Nothing was read or charged.

    The places say for each question which of the distinct plans answers it.
    """

    data_set: OpenDataSet
    plans: tuple[Plan | ComposedPlan, ...]
    places: tuple[int, ...]
    outlook: Outlook | None
    """The share of the budgets that the plan takes; None where nothing binds it, or nothing is charged."""

    @property
    def events(self) -> list[Event]:
        """The events of all distinct questions, which are charged at once."""
        return [event for chosen in self.plans for event in chosen.events]

    @property
    def epsilon(self) -> Fraction:
        """The sum of the distinct questions' ε, which bounds the price."""
        return sum((chosen.epsilon for chosen in self.plans), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """The sum of the distinct questions' δ, which private keys use."""
        return sum((chosen.delta for chosen in self.plans), Fraction(0))

    @property
    def identity(self) -> str:
        """The fingerprint of the plan: equal for equal questions at equal prices under one policy."""
        same = [pipeline.same_question(self.data_set, chosen) for chosen in self.plans]
        return fingerprint("together", same, list(self.places))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersTogether:
    """The answers to the questions of one plan, in their order, and the receipt of their one charge."""

    answers: tuple[Answer, ...]
    receipt: int
    when: str = ""
    """When they were computed, where that was earlier."""


def plan(session: AnalystSession, questions: Sequence[QuestionTerms]) -> QuestionPlan:
    """Plan questions about one data set as one. Reads no private row and charges nothing."""
    if not 0 < len(questions) <= MOST:
        raise InvalidValueError("questions", got=len(questions), allowed=f"from 1 to {MOST} questions")
    with session.in_use():
        parsed = [pipeline.parse(session, terms) for terms in questions]
        data_set = parsed[0][0]
        for other, _, _ in parsed:
            if other.schema.data != data_set.schema.data:
                raise InvalidValueError("questions", got=other.schema.data, allowed="questions about one data set")
        accounts = session.accounts(data_set.schema.data)
        distinct: dict[str, Plan | ComposedPlan] = {}
        keys = []
        for _, question, terms in parsed:
            chosen = pipeline.plan(question, data_set, accounts, terms)
            # without the price: of two that ask the same the better answer serves both
            key = fingerprint("question", chosen.question, terms.limits(), terms.delta, chosen.confidence)
            keys.append(key)
            if key not in distinct or chosen.epsilon > distinct[key].epsilon:
                distinct[key] = chosen
        order, events = list(distinct), [event for chosen in distinct.values() for event in chosen.events]
        return QuestionPlan(
            data_set=data_set,
            plans=tuple(distinct.values()),
            places=tuple(order.index(key) for key in keys),
            outlook=accounts.outlook(events),
        )


def ask(
    session: AnalystSession, planned: QuestionPlan, *, text: str, same: str, request: str, limit: float = math.inf
) -> AnswersTogether:
    """Charge a plan in one decision, and release all of its answers, or none.

    ``same`` stands for this release: it is charged once, and `read` lets another analyst have it. What should take more
    seconds than ``limit`` is refused.
    """
    with session.in_use():
        # before the charge: a statement that the engine refuses must cost nothing
        programs = [pipeline.prepare(chosen, planned.data_set) for chosen in planned.plans]
        if (seconds := sum(program.seconds for program in programs)) > limit:
            raise InvalidValueError(
                "questions",
                got=f"{len(programs)} that need about {seconds:.3g} s",
                allowed=f"answered within {limit:g} s, the time limit of the service",
                hint="Nothing was charged. Divide them among several dashboards, each with fewer tiles.",
            )
        decision = pipeline.charge(
            session, planned.data_set, planned.events, text=text, same=same, request=request, epsilon=planned.epsilon
        )
        if isinstance(decision, Charge):
            answers = pipeline.publish(
                session,
                decision,
                lambda: [program.compute() for program in programs],
                lambda computed: packed(computed, planned.places),
                seconds,
            )
            return AnswersTogether(answers=tuple(answers[index] for index in planned.places), receipt=decision.number)
        return AnswersTogether(answers=unpacked(decision.answer), receipt=decision.number, when=decision.when)


def read(session: AnalystSession, source: Release, *, same: str, request: str) -> AnswersTogether:
    """Charge another analyst's answered plan to one's own account, at its recorded price, and return its answers.

    The plan must be answered, and its owner must share answers: else this would be a new charge to everybody's budget.
    """
    with session.in_use():
        decision = pipeline.charge(
            session,
            session.data_sets[source.data],
            [event_from_json(event) for event in source.events],
            text=source.question,
            same=same,
            request=request,
            epsilon=None if source.epsilon is None else Fraction(source.epsilon),
        )
        assert not isinstance(decision, Charge)  # noqa: S101 - the caller looked
        return AnswersTogether(answers=unpacked(decision.answer), receipt=decision.number, when=decision.when)


def packed(answers: Sequence[Answer], places: Sequence[int]) -> bytes:
    """Return answers as the ledger keeps them, as JSON; each distinct one once."""
    content = {"together": 1, "answers": [json.loads(answer.to_bytes()) for answer in answers], "places": list(places)}
    return json.dumps(content, ensure_ascii=False).encode()


def unpacked(stored: bytes) -> tuple[Answer, ...]:
    """Return the answers that `packed` wrote, in the order of the questions."""
    content = json.loads(stored)
    answers = [Answer.from_bytes(json.dumps(answer).encode()) for answer in content["answers"]]
    return tuple(answers[index] for index in content["places"])
