"""Standing questions: declared beforehand, set aside as one plan, released one by one.

An owner declares a question, a price for each release and a schedule. The declaration is one entry of the ledger. It
*sets aside* the price of all releases of the data set's budget: from then on nobody else can spend it. Each release is
a charge of its own, with a receipt, made before any data is read; it moves its part from "set aside" to "spent".

**Price.** The releases and their noise are fixed in advance, so the plan is the composition of k equal steps, and its
price is their exact composition in the currency of the account (`hush.accounting.filters`): kε for a sum of ε, kρ for
zCDP, k times the divergence for a Rényi account, kμ² for GDP. In the last three that is worth about √k·ε for many small
steps, where the sum of the ε's is kε. Prices are exact fractions: what the k releases are charged adds up to the plan.

**Why set aside, and not charged at once.** Write S for what was charged and A for what is set aside, as vectors of
loss, ε and δ mass. Every other charge, and every declaration, is admitted only if S + A fits with it. A release moves
its part from A to S, so S + A stays, and S only approaches it: each release fits. An account is a privacy filter
(Rogers, Roth, Ullman, Vadhan 2016; Whitehouse, Ramdas, Rogers, Wu 2023, fully adaptive composition; the theorem of
each kind is in `hush.accounting.filters.kinds`): its guarantee holds for whatever was charged, in whatever order and
wherever it stops, also if that was decided in the light of earlier answers. A release that was never charged was
never made, so ending a standing question frees exactly the part A that is left, and nothing that was charged comes
back. An exact composition of the whole plan that is not additive, such as by privacy-loss distributions, would admit
a little more at the price that nothing could be freed: there, to stop early refunds nothing (`hush.accounting.plan`).

**Each period once.** The book keeps the number of the next release of each plan. It only grows. Which release is due is
decided under the ledger's lock, from that number and the clock, and the charge raises the number. So of two workers one
makes it; a clock that is set back finds nothing due, and one that is set forward releases early, but nothing twice.
A process that dies after the charge leaves a release that is charged and has no answer: it counts as failed. Only who
restores an older copy of the ledger forgets releases; what these have cost, the owner says (`hush.ledger.restoring`).

**Late releases.** A period that nobody released in time is made late, once, and in order; or, where the declaration
says so, it is skipped as soon as the next one is due, and what was set aside for it is free again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Literal

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import Filter, filter_from_json
from hush.core import BudgetExceededError, InvalidValueError, Number, fraction_between, nonnegative, positive
from hush.core.format import decimal, figure
from hush.core.values import dataclass
from hush.ledger.actors import Actor, label, prose
from hush.ledger.book import Book, Key, SetAside, account_state, events_hash
from hush.ledger.budgets import event_list, price, share, under
from hush.ledger.chain import Chain, Draft
from hush.ledger.entries import Entry
from hush.ledger.errors import LedgerError
from hush.ledger.reservation import Reservation, TooMuchError, charge, known, record_outcome, trusted
from hush.ledger.rules import charge_to_json, question_hash
from hush.ledger.schedules import Schedule
from hush.ledger.shares import percent, times
from hush.ledger.system import alive, now, this_process

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FAILED = "no answer could be computed"
PRICES = ("epsilon", "total_epsilon", "rho")
"""The ways to say what a release costs."""
State = Literal["planned", "due", "running", "made", "failed", "skipped", "ended"]
_OUTCOMES: Mapping[str, State] = {"": "running", "answered": "made", "failed": "failed"}
_LONGEST = timedelta(days=1)
"""A release that another host charged so long ago, and did not answer, counts as failed."""


class UnknownStandingError(LedgerError):
    """No standing question of this name, or no release of this period, or not for this reader: all read alike."""

    code = "unknown-standing"

    def __init__(self, name: object) -> None:
        super().__init__(f"There is no standing question or release {str(name)[:100]!r} here. See hush standing list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingQuestion:
    """A question that is asked again and again, as an owner declares it.

    >>> weekly = Schedule(first="2026-11-16", every="week", slots=12)
    >>> asked = StandingQuestion(
    ...     name="visits", data="clinic", question="SELECT COUNT(*) AS n FROM visits", schedule=weekly, epsilon="0.1"
    ... )
    >>> asked.readable("alice", {"alice": ["clinic"]}), asked.readable(None, {})
    (True, False)
    """

    name: str
    """For ever: a part of its releases' addresses."""
    data: str
    question: str
    schedule: Schedule
    epsilon: Number | None = None
    """What one release costs; or one of the next two says it."""
    total_epsilon: Number | None = None
    """What all releases cost together, by their exact composition in the account."""
    rho: Number | None = None
    """What one release costs in zCDP."""
    confidence: Number = Fraction(95, 100)
    delta: Number | None = None
    """What private keys may use of δ in one release; None for the usual part."""
    late: bool = True
    """Whether a period that was missed is made late; else it is skipped when the next one is due."""
    readers: str | tuple[str, ...] = "analysts"
    """Who may read: names, ``analysts`` (all who may ask about the data set), or ``public``."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or NAME.fullmatch(self.name) is None:
            raise InvalidValueError("name", got=self.name, allowed="1 to 64 letters, digits, - and _")
        label(self.data, "data")
        prose(self.question, "question", longest=64_000)
        for name in PRICES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        if [getattr(self, name) is None for name in PRICES].count(False) != 1:
            given = [name for name in PRICES if getattr(self, name) is not None]
            raise InvalidValueError("epsilon", got=given, allowed=f"given, or one of {', '.join(PRICES[1:])} instead")
        object.__setattr__(self, "confidence", fraction_between(self.confidence, "confidence"))
        if self.delta is not None:
            object.__setattr__(self, "delta", nonnegative(self.delta, "delta"))
        if not isinstance(self.late, bool):
            raise InvalidValueError("late", got=self.late, allowed="True to make a missed release late, or False")
        if isinstance(self.readers, str):
            if self.readers not in {"analysts", "public"}:
                raise InvalidValueError("readers", got=self.readers, allowed="a list of names, analysts or public")
        else:
            object.__setattr__(self, "readers", tuple(label(name, "readers") for name in self.readers))

    def readable(self, reader: str | None, data_of: Mapping[str, Any]) -> bool:
        """Return whether somebody may read the releases; ``data_of`` are the data sets of each analyst."""
        if self.readers == "public":
            return True
        if reader is None or self.data not in data_of.get(reader, ()):
            return False
        return self.readers == "analysts" or reader in self.readers

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as plain JSON values, every number exact."""
        return {
            "question": self.question,
            "price": {name: str(getattr(self, name)) for name in PRICES if getattr(self, name) is not None},
            "confidence": str(self.confidence),
            "delta": None if self.delta is None else str(self.delta),
            "late": self.late,
            "readers": self.readers if isinstance(self.readers, str) else list(self.readers),
            "schedule": self.schedule.to_json(),
        }

    @classmethod
    def from_json(cls, name: str, data: str, content: Mapping[str, Any]) -> StandingQuestion:
        """Return the declaration that was written."""
        plain = {key: content[key] for key in ("question", "confidence", "delta", "late", "readers")}
        return cls(name=name, data=data, schedule=Schedule.from_json(content["schedule"]), **content["price"], **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPlan:
    """A standing question that was declared, and how far it has come."""

    question: StandingQuestion
    number: int
    """The entry that declared it."""
    by: str
    when: str
    epsilon: Fraction
    """What one release costs."""
    events: tuple[Event, ...]
    """What one release does."""
    terms: Filter
    """The data set's account as it was opened then, by which noise is chosen: the same for every release."""
    gaussian: bool
    """Whether its noise is Gaussian, because that errs less for the price of all releases."""
    aside: SetAside
    share: Fraction
    """The part of the data set's budget that the whole plan takes, under the terms it was declared on."""

    def due(self, clock: str) -> int | None:
        """Return the number of the release that is to be made at a moment; None if there is none."""
        schedule, first = self.question.schedule, self.aside.next
        passed = schedule.passed(clock)
        if not self.aside.left:
            return None
        if self.question.late:
            return first if first < min(passed, schedule.slots) else None
        return passed - 1 if first < passed <= schedule.slots else None

    def state(self, number: int, passed: int) -> State:
        """Return what became of a period that was not charged, when so many slots have passed."""
        if number < self.aside.next:
            return "skipped"
        if self.aside.ended:
            return "ended"
        if not self.question.late and number < passed - 1:
            return "skipped"
        return "due" if number < passed else "planned"

    def over(self, clock: str) -> bool:
        """Return whether no release will ever be due, although some were not made: the last period was missed."""
        schedule = self.question.schedule
        return bool(self.aside.left) and not self.question.late and schedule.passed(clock) > schedule.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingRelease:
    """One period of a standing question, and what became of it."""

    period: str
    """Its name, and the last part of its address: the date of its slot."""
    slot: str
    state: State
    receipt: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"period": self.period, "slot": self.slot, "state": self.state, "receipt": self.receipt}


class StandingPlans:
    """The standing questions of a ledger."""

    def __init__(
        self,
        chain: Chain,
        lowered: Mapping[Key, tuple[Fraction, Fraction]],
        ungranted: set[bytes],
        check_made: Callable[[], None],
    ) -> None:
        self._chain, self._lowered, self._ungranted, self._check_made = chain, lowered, ungranted, check_made

    # what owners do

    def declare(
        self,
        question: StandingQuestion,
        *,
        epsilon: Fraction,
        events: list[Event],
        terms: Filter,
        gaussian: bool = False,
        actor: Actor,
    ) -> StandingPlan:
        """Set aside the price of all releases, or refuse and say how many would fit. Durable when it returns.

        ``epsilon`` and ``events`` are what one release costs and does, ``terms`` the account that noise is chosen by,
        and ``gaussian`` whether that is to be Gaussian.

        Declared again in the same words, it is there already, and nothing more is set aside.
        """
        actor.require_owner("declare a standing question")
        self._check_made()
        steps, key = event_list(events), (question.data, "")
        written = [event.to_json() for event in steps]
        declared = {"declared": question.to_json(), "epsilon": str(epsilon), "releases": question.schedule.slots}
        body = {"by": actor.name, "when": now(), **declared, "events": written, "terms": terms.to_json()}
        body["gaussian"] = gaussian

        def make(book: Book) -> Draft:
            known(book, *key)
            name = next((name for name in book.standing if name.casefold() == question.name.casefold()), None)
            if name is not None:
                raise _DeclaredError(name)
            account = book.committed(key)
            assert account is not None  # noqa: S101 - data sets have budgets
            unit = price(account, steps)
            plan = SetAside(data=key[0], price=unit, events=events_hash(written), releases=question.schedule.slots)
            self._check_room(question, account, plan, steps, epsilon)
            priced = charge_to_json(unit) | {"currency": unit.currency}
            content = body | {"price": priced, "accounts": []}
            return Entry.draft("standing", content, after=book.head, data=key[0], request=question.name), {}

        try:
            self._chain.append(make)
        except _DeclaredError as declared:
            plan = self.find(declared.name)
            self.check_same(plan, question)
            return plan
        return self.find(question.name)

    @staticmethod
    def check_same(plan: StandingPlan, question: StandingQuestion) -> None:
        """Refuse other words under a name that was declared."""
        old, new = plan.question.to_json(), question.to_json()
        if (plan.question.name, plan.question.data, old) != (question.name, question.data, new):
            words = ", ".join(name for name in new if old[name] != new[name]) or "its data set"
            raise LedgerError(
                f"The standing question {plan.question.name!r} was declared on {plan.when[:10]} with other words "
                f"({words}), and a name stands for one question for ever. Take back the change; or end it with hush "
                "standing end, and declare the new one under another name."
            )

    def _check_room(
        self, question: StandingQuestion, account: Filter, plan: SetAside, events: Any, epsilon: Fraction
    ) -> None:
        """Refuse a plan that does not fit into what is neither spent nor set aside."""
        rooms = [(account, plan)]
        if (key := (question.data, "")) in self._lowered:
            smaller = under(account, *self._lowered[key])
            cost = plan.price if smaller.currency == account.currency else price(smaller, events)
            rooms.append((smaller, SetAside(data=plan.data, price=cost, events=plan.events, releases=plan.releases)))
        fitting = min(times(room, priced.price) for room, priced in rooms)
        if all(room.fits(priced.times(plan.releases)) for room, priced in rooms):
            return
        left = min(room.remaining().share for room, _ in rooms)
        does = f"1 release at ε={figure(epsilon)} does"
        if plan.releases > 1:
            does = f"{plan.releases} releases at ε={figure(epsilon)} each do"
        fit = f"{min(fitting, plan.releases - 1)} would" if fitting else "not even one does"
        keys = any(plan.releases * priced.price.delta > room.reserve - room.spent_delta for room, priced in rooms)
        raise BudgetExceededError(
            f"{does} not fit into what is left of the budget of {question.data} ({percent(left)}); {fit}. Lower "
            f"{'delta, which private keys use' if keys else 'epsilon'}, declare fewer releases, or raise the budget. "
            "Nothing was set aside."
        )

    def end(self, name: str, *, actor: Actor, reason: str = "") -> None:
        """Make no further release. What is still set aside is free again; what was charged stays charged."""
        actor.require_owner("end a standing question")
        plan = self.find(name)
        body: dict[str, Any] = {"by": actor.name, "when": now(), "accounts": []}
        body |= {"reason": prose(reason, "reason", longest=2000)} if reason else {}

        def make(book: Book) -> Draft:
            if not book.standing[plan.question.name].left:
                raise LedgerError(f"The standing question {plan.question.name!r} has ended already.")
            return Entry.draft("ended", body, after=book.head, data=plan.question.data, request=plan.question.name), {}

        self._chain.append(make)

    # what is released

    def reserve(self, name: str, *, clock: str | None = None) -> tuple[Reservation, str] | None:
        """Charge the release that is due, and return it with its period's name; None if there is none.

        Whoever gets it makes it: nobody gets it twice.
        """
        self._check_made()
        declared = self.find(name)
        asked, written = declared.question, [event.to_json() for event in declared.events]
        hashed = question_hash(asked.data, asked.question, written)
        drafts: list[Entry] = []

        def make(book: Book) -> Draft:
            plan = self._plan(declared, book)
            due = plan.due(clock or now())
            if due is None:
                raise _NothingDueError
            try:
                after, paid, weight = charge(
                    book, asked.data, "", declared.events, {(asked.data, ""): plan.aside.price}, self._lowered
                )
            except TooMuchError:
                raise _too_much(plan, due) from None
            body: dict[str, Any] = {"when": now(), "question": asked.question, "process": this_process()}
            body |= {"epsilon": decimal(declared.epsilon), "question_hash": hashed, "events": written}
            body |= {"standing": {"name": asked.name, "number": due}, "price": paid}
            body["accounts"] = [account_state(key, account) for key, account in after.items()]
            request = request_of(asked.name, asked.schedule.period(due))
            drafts.append(
                Entry.draft("reserve", body, after=book.head, data=asked.data, request=request, weight=weight)
            )
            return drafts[-1], after

        try:
            entry = self._chain.append(make)
        except _NothingDueError:
            return None
        except BaseException:
            self._ungranted.update(draft.hash for draft in drafts)
            raise
        return _reservation(entry), asked.schedule.period(entry.read()["standing"]["number"])

    def close_dead(self) -> int:
        """Record as failed what a process charged and did not live to answer; return how many."""
        with self._chain.reading() as book:
            pending = [number for number, (_, analyst) in book.pending.items() if not analyst]
            entries = [entry for number in pending if (entry := self._chain.store.entry(number)) is not None]
        dead = [entry for entry in entries if entry.hash in self._ungranted or _given_up(entry.read())]
        for entry in dead:
            record_outcome(self._chain, "failed", _reservation(entry), {"when": now(), "reason": FAILED}, None)
        return len(dead)

    # what can be read

    def listed(self) -> list[StandingPlan]:
        """Return all standing questions, in the order in which they were declared."""
        with self._chain.reading() as book:
            numbers = sorted(plan.number for plan in book.standing.values())
            entries = [entry for number in numbers if (entry := self._chain.store.entry(number)) is not None]
            return [_read(trusted(self._chain, entry), book) for entry in entries]

    def find(self, name: str) -> StandingPlan:
        """Return one standing question."""
        for plan in self.listed():
            if plan.question.name.casefold() == str(name).casefold():
                return plan
        raise UnknownStandingError(name)

    def fitting(self, data: str, events: Event | list[Event]) -> int:
        """Return how many releases of this price fit into what is left now."""
        with self._chain.reading() as book:
            known(book, data)
            account = book.committed((data, ""))
        assert account is not None  # noqa: S101 - data sets have budgets
        if (data, "") in self._lowered:
            account = under(account, *self._lowered[data, ""])
        return times(account, price(account, event_list(events)))

    def releases(self, plan: StandingPlan, *, clock: str | None = None) -> list[StandingRelease]:
        """Return every period of a standing question, oldest first, with what became of it."""
        schedule = plan.question.schedule
        passed, periods = schedule.passed(clock or now()), []
        with self._chain.reading() as book:
            plan = self._plan(plan, book)
            ends = (request_of(plan.question.name, schedule.period(number)) for number in (0, schedule.slots - 1))
            charged = self._chain.store.without_analyst(*ends)
        for number in range(schedule.slots):
            slot = schedule.slot(number)
            receipt, outcome = charged.get(request_of(plan.question.name, slot[:10]), (None, ""))
            state = plan.state(number, passed) if receipt is None else _OUTCOMES[outcome]
            periods.append(StandingRelease(period=slot[:10], slot=slot, state=state, receipt=receipt))
        return periods

    def receipt(self, plan: StandingPlan, period: str) -> int:
        """Return the receipt of the release of a period, or of the ``latest`` that was made."""
        if period == "latest":
            made = [release.receipt for release in self.releases(plan) if release.state == "made"]
            if not made or made[-1] is None:
                raise UnknownStandingError(f"{plan.question.name}/{period}")
            return made[-1]
        number = plan.question.schedule.number(period)
        entry = None if number is None else self._charged(plan, number)
        if entry is None or (outcome := self._chain.store.outcome(entry.number)) is None or outcome.kind == "failed":
            raise UnknownStandingError(f"{plan.question.name}/{period}")
        return entry.number

    def _charged(self, plan: StandingPlan, number: int) -> Entry | None:
        request = request_of(plan.question.name, plan.question.schedule.period(number))
        return self._chain.store.reservation("", request)

    @staticmethod
    def _plan(plan: StandingPlan, book: Book) -> StandingPlan:
        return replace(plan, aside=book.standing[plan.question.name])


def _too_much(plan: StandingPlan, due: int) -> BudgetExceededError:
    """Return why a release is not made although it was set aside: the owner has lowered the budget since."""
    period = plan.question.schedule.period(due)
    return BudgetExceededError(
        f"The release {plan.question.name}/{period} was set aside, but the budget of {plan.question.data} is smaller "
        "now than what was spent and this. Raise it, or end the standing question. Nothing was charged."
    )


def _reservation(entry: Entry) -> Reservation:
    """Return the charge of a release."""
    hashed = entry.read()["question_hash"]
    return Reservation(number=entry.number, request=entry.request, analyst="", data=entry.data, question_hash=hashed)


def _given_up(charge: Mapping[str, Any]) -> bool:
    """Return whether nobody will answer a charge: its process is dead, or on another host and silent for long."""
    running = alive(charge["process"])
    age = datetime.fromisoformat(now()) - datetime.fromisoformat(charge["when"])
    return running is False or (running is None and age > _LONGEST)


def request_of(name: str, period: str) -> str:
    """Return the request id of a release: each name and period has one, for ever."""
    return f"standing {name} {period}"


def _read(entry: Entry, book: Book) -> StandingPlan:
    content, aside = entry.read(), book.standing[entry.request]
    terms = filter_from_json(content["terms"])
    priced = aside.times(aside.releases)
    return StandingPlan(
        question=StandingQuestion.from_json(entry.request, entry.data, content["declared"]),
        epsilon=Fraction(content["epsilon"]),
        number=entry.number,
        by=content["by"],
        when=content["when"],
        events=tuple(event_from_json(event) for event in content["events"]),
        terms=terms,
        gaussian=content["gaussian"],
        aside=aside,
        share=share(terms, priced) if terms.currency == priced.currency else Fraction(0),
    )


class _DeclaredError(Exception):
    """Leaves the transaction of a declaration that stands in the ledger already."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _NothingDueError(Exception):
    """Leaves the transaction of a release that is not due."""
