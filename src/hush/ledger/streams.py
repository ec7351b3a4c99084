r"""Declared streams: the price of all releases is set aside as one plan, and each release is charged from it, once.

An owner declares a question, a price for each release and a schedule. The declaration is one entry of the ledger. It
*sets aside* the price of all releases of the data set's budget: from then on nobody else can spend it. Each release is
a charge of its own, with a receipt, made before any data is read; it moves its part from "set aside" to "spent".
`hush.curator.streams` has the states of a stream, and the other way to pay.

**Price.** The releases and their noise are fixed in advance, so the plan is the composition of k equal steps, and its
price is their exact composition in the currency of the account (`hush.accounting.filters`): kε for a sum of ε, kρ for
zCDP, k times the divergence for a Rényi account, kμ² for GDP. In the last three that is worth about √k·ε for many small
steps, where the sum of the ε's is kε. Prices are exact fractions: the charges of the k releases add up to the plan.

**Why set aside, and not charged at once.** Write S for what was charged and A for what is set aside, as vectors of
loss, ε and δ mass. Every other charge, and every declaration, is admitted only if S + A fits with it. A release moves
its part from A to S, so S + A stays, and S only approaches it: each release fits. An account is a privacy filter: its
guarantee holds for all that was charged, in any order and wherever it stops, also if that was decided in the light of
earlier answers. A release that was never charged was never made, so stopping a stream frees exactly the part A that is
left, and nothing that was charged comes back.

**Each period once.** The ledger keeps the number of the next release of each plan. It only grows. Which release is due
is decided under the ledger's lock, from that number and the clock, and the charge raises the number. So of two workers
one makes it; a clock that is set back finds nothing due, and one that is set forward releases early, but nothing twice.
A process that dies after the charge leaves a release that is charged and has no answer: it counts as failed.

**Names in the ledger.** Streams that are paid by the release were called standing questions. The ledger still says so:
a declaration is an entry of the kind ``standing``, and a release has the request id ``standing NAME PERIOD``.

>>> schedule = Schedule(first="2026-01-31", every="month", slots=4)
>>> [schedule.period(number) for number in range(4)]
['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30']
>>> schedule.passed("2026-03-15T09:00:00.000000Z")
2
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import Filter, filter_from_json
from hush.core import BudgetExceededError, InvalidValueError, Number, fraction_between, integer, nonnegative, positive
from hush.core.format import decimal, figure, percent
from hush.core.numbers import assign
from hush.ledger.budgets import Taken, event_list, price, takes, times, under
from hush.ledger.chain import Chain
from hush.ledger.charging import Charge, ChargeLimits, TooMuch, check_known, fit, record_outcome, trusted, write_charge
from hush.ledger.entries import Actor, Entry, label, moment, now, prose, reasons
from hush.ledger.errors import LedgerError
from hush.ledger.state import SetAside, charge_to_json, events_hash, question_hash
from hush.storage import alive, this_process

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FAILED = "no answer could be computed"
PRICES = ("epsilon", "total_epsilon", "rho")
"""The ways to say the price of a release."""
State = Literal["planned", "due", "running", "made", "failed", "skipped", "ended"]
_STATE_OF_OUTCOME: Mapping[str, State] = {"": "running", "answered": "made", "failed": "failed"}
_LONGEST = dt.timedelta(days=1)
"""A release that another host charged longer ago than this, and did not answer, counts as failed."""
_MOST_SLOTS = 10_000
_STEP = re.compile(r"(?:(\d{1,3}) +)?(day|week|month|year)s?")
_FIRST_YEAR, _LAST_YEAR = 1000, 9000
"""Between them a moment is written with four digits of its year, so that moments compare as their texts do."""


class UnknownStreamError(LedgerError):
    """No stream of this name, no release of this period, or not for this reader: the message is the same."""

    def __init__(self, name: object) -> None:
        super().__init__(f"There is no stream or release {str(name)[:100]!r} here. See hush stream list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The dates of a stream's releases: the first one, how far apart they are, and how many there are.

    Slot i is computed from the first moment, never from the slot before it, so months do not drift: a schedule that
    begins on 31 January has slots on 28 February and 31 March. All moments are in UTC. A slot is at least a day after
    the one before it, so its date names it.
    """

    first: str
    """A date, which begins at midnight, or a date and time with its offset; kept as a moment in UTC."""
    every: str
    """``day``, ``week``, ``month`` or ``year``, or several: ``14 days``."""
    slots: int
    moments: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The moments of all slots, and when the next one would have been."""

    def __post_init__(self) -> None:
        assign(self, first=_first(self.first))
        step = _STEP.fullmatch(self.every.strip()) if isinstance(self.every, str) else None
        count = 0 if step is None else int(step[1] or 1)
        if step is None or not count:
            allowed = "day, week, month or year, or several of them such as 14 days or 3 months"
            raise InvalidValueError("every", got=self.every, allowed=allowed)
        assign(self, every=step[2] if count == 1 else f"{count} {step[2]}s")
        integer(self.slots, "releases", minimum=1, maximum=_MOST_SLOTS)
        # Every month and year at its longest, so the estimated end is never before the real one.
        days = count * {"day": 1, "week": 7, "month": 31, "year": 366}[step[2]]
        if int(self.first[:4]) + days * self.slots // 365 > _LAST_YEAR:
            raise InvalidValueError("releases", got=self.slots, allowed=f"so few that they end before {_LAST_YEAR}")
        first, moments = dt.datetime.fromisoformat(self.first), []
        for units in range(0, count * (self.slots + 1), count):
            slot = first + dt.timedelta(days=units * (7 if step[2] == "week" else 1))
            if step[2] in {"month", "year"}:
                months = first.year * 12 + first.month - 1 + units * (12 if step[2] == "year" else 1)
                year, month = months // 12, months % 12 + 1
                slot = first.replace(year=year, month=month, day=min(first.day, calendar.monthrange(year, month)[1]))
            moments.append(moment(slot))
        assign(self, moments=tuple(moments))

    def slot(self, number: int) -> str:
        """Return the moment of a slot, counted from 0."""
        return self.moments[number]

    def period(self, number: int) -> str:
        """Return the name of a slot: its date."""
        return self.slot(number)[:10]

    def number(self, period: str) -> int | None:
        """Return the number of the slot with this date; None if there is none."""
        number = min(self.passed(f"{period}T23:59:59.999999Z"), self.slots) - 1
        return number if number >= 0 and self.period(number) == period else None

    def passed(self, clock: str) -> int:
        """Return how many slots have come at a moment; at most one more than there are, if the next would have too."""
        return bisect_right(self.moments, clock)


def _first(value: object) -> str:
    """Return a date, or a date and time with an offset, as a moment in UTC."""
    text = value.isoformat() if isinstance(value, dt.date) else value
    with suppress(ValueError, OverflowError, TypeError):
        first = dt.datetime.fromisoformat(text)  # type: ignore[arg-type]
        if len(str(text)) == len("2026-11-16"):
            first = first.replace(tzinfo=dt.UTC)
        if first.tzinfo is not None and first.year > _FIRST_YEAR and str(text).isascii():
            return moment(first.astimezone(dt.UTC))
    allowed = "a date such as 2026-11-16, or a time with its offset such as 2026-11-16T06:00:00Z"
    raise InvalidValueError("first", got=value, allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeclaration:
    """A question that is released again and again, as an owner declares it."""

    name: str
    """The name, which never changes: it is a part of the releases' addresses."""
    data: str
    question: str
    schedule: Schedule
    epsilon: Number | None = None
    """The price of one release; or one of the next two says it."""
    total_epsilon: Number | None = None
    """The price of all releases together, by their exact composition in the account."""
    rho: Number | None = None
    """The price of one release in zCDP."""
    confidence: Number = Fraction(95, 100)
    delta: Number | None = None
    """The δ of private keys in one release; None for the usual part."""
    late: bool = True
    """Whether a period that was missed is made late; else it is skipped when the next one is due."""
    readers: str | tuple[str, ...] = "analysts"
    """Who may read: names, ``analysts`` (all who may ask about the data set), or ``public``."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or NAME.fullmatch(self.name) is None:
            raise InvalidValueError("name", got=self.name, allowed="1 to 64 letters, digits, - and _")
        label(self.data, "data")
        prose(self.question, "question", longest=64_000)
        given = [name for name in PRICES if getattr(self, name) is not None]
        assign(self, **{name: positive(getattr(self, name), name) for name in given})
        if len(given) != 1:
            raise InvalidValueError("epsilon", got=given, allowed=f"given, or one of {', '.join(PRICES[1:])} instead")
        assign(self, confidence=fraction_between(self.confidence, "confidence"))
        if self.delta is not None:
            assign(self, delta=nonnegative(self.delta, "delta"))
        if not isinstance(self.late, bool):
            raise InvalidValueError("late", got=self.late, allowed="True to make a missed release late, or False")
        if not isinstance(self.readers, str):
            assign(self, readers=tuple(label(name, "readers") for name in self.readers))
        elif self.readers not in {"analysts", "public"}:
            raise InvalidValueError("readers", got=self.readers, allowed="a list of names, analysts or public")

    def readable(self, reader: str | None, data_of: Mapping[str, Any]) -> bool:
        """Return whether somebody may read the releases; ``data_of`` are the data sets of each analyst."""
        if self.readers == "public":
            return True
        if reader is None or self.data not in data_of.get(reader, ()):
            return False
        return self.readers == "analysts" or reader in self.readers

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as plain JSON values, every number exact."""
        schedule = self.schedule
        return {
            "question": self.question,
            "price": {name: str(getattr(self, name)) for name in PRICES if getattr(self, name) is not None},
            "confidence": str(self.confidence),
            "delta": None if self.delta is None else str(self.delta),
            "late": self.late,
            "readers": self.readers if isinstance(self.readers, str) else list(self.readers),
            "schedule": {"first": schedule.first, "every": schedule.every, "releases": schedule.slots},
        }

    @classmethod
    def from_json(cls, name: str, data: str, content: Mapping[str, Any]) -> StreamDeclaration:
        """Return the declaration that was written."""
        plain = {key: content[key] for key in ("question", "confidence", "delta", "late", "readers")}
        dates = content["schedule"]
        schedule = Schedule(first=dates["first"], every=dates["every"], slots=dates["releases"])
        return cls(name=name, data=data, schedule=schedule, **content["price"], **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStream:
    """A stream that was declared, and how far it has come."""

    declaration: StreamDeclaration
    by: str
    when: str
    epsilon: Fraction
    """The price of one release."""
    events: tuple[Event, ...]
    """The events of one release."""
    terms: Filter
    """The data set's account as it was opened then, by which noise is chosen: the same for every release."""
    gaussian: bool
    """Whether its noise is Gaussian, because that errs less for the price of all releases."""
    aside: SetAside
    share: Fraction
    """The share of the data set's budget that the whole plan took when it was declared."""

    @classmethod
    def of(cls, entry: Entry, aside: SetAside) -> DeclaredStream:
        """Return the stream that an entry declares."""
        content = entry.read()
        terms = filter_from_json(content["terms"])
        if "shares" in content:
            share = Taken.from_json(content["shares"][0]).took
        else:  # of an earlier version: as of an empty account
            priced = aside.price.repeated(aside.releases)
            share = takes(terms, priced) if terms.currency == priced.currency else Fraction(0)
        return cls(
            declaration=StreamDeclaration.from_json(entry.request, entry.data, content["declared"]),
            epsilon=Fraction(content["epsilon"]),
            events=tuple(event_from_json(event) for event in content["events"]),
            terms=terms,
            aside=aside,
            share=share,
            **{name: content[name] for name in ("by", "when", "gaussian")},
        )

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.declaration.name

    def due(self, clock: str) -> int | None:
        """Return the number of the release that is to be made at a moment; None if there is none."""
        schedule, first = self.declaration.schedule, self.aside.next
        passed = schedule.passed(clock)
        if not self.aside.left:
            return None
        # Late releases come in order, so the first open one is due. Otherwise only the newest slot is due: earlier ones
        # are skipped, and after the last slot's time (`passed` is one more than there are slots) nothing is.
        if self.declaration.late:
            return first if first < min(passed, schedule.slots) else None
        return passed - 1 if first < passed <= schedule.slots else None

    def over(self, clock: str) -> bool:
        """Return whether no release will ever be due, although some were not made: the last period was missed."""
        schedule = self.declaration.schedule
        return bool(self.aside.left) and not self.declaration.late and schedule.passed(clock) > schedule.slots

    def state(self, number: int, passed: int) -> State:
        """Return the state of a period that was not charged, after ``passed`` slots."""
        # Not charged although a later one was: the number of the next release only grows.
        if number < self.aside.next:
            return "skipped"
        if self.aside.ended:
            return "ended"
        if not self.declaration.late and number < passed - 1:
            return "skipped"
        return "due" if number < passed else "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPeriod:
    """One period of a declared stream, and its state."""

    period: str
    """Its name, and the last part of its address: the date of its slot."""
    slot: str
    state: State
    receipt: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"period": self.period, "slot": self.slot, "state": self.state, "receipt": self.receipt}


class DeclaredStreams:
    """The declared streams of a ledger."""

    def __init__(self, chain: Chain, limits: ChargeLimits, check_made: Callable[[], None]) -> None:
        self._chain, self._limits, self._check_made = chain, limits, check_made

    # for owners

    def declare(
        self,
        declaration: StreamDeclaration,
        *,
        epsilon: Fraction,
        events: list[Event],
        terms: Filter,
        gaussian: bool = False,
        actor: Actor,
    ) -> DeclaredStream:
        """Set aside the price of all releases, or refuse and say how many would fit. Durable when it returns.

        ``epsilon`` and ``events`` are what one release costs and does, ``terms`` the account that noise is chosen by,
        and ``gaussian`` whether that is to be Gaussian.

        Declared again in the same words, it is there already, and nothing more is set aside.
        """
        actor.require_owner("declare a stream")
        self._check_made()
        steps, data, releases = event_list(events), declaration.data, declaration.schedule.slots
        written = [event.to_json() for event in steps]
        with self._chain.locked() as state:
            check_known(state, data, "")
            if declaration.name.casefold() not in map(str.casefold, state.streams):
                account = state.committed((data, ""))
                assert account is not None  # noqa: S101 - data sets have budgets
                unit = price(account, steps)
                plan = SetAside(data=data, price=unit, events=events_hash(written), releases=releases)
                share = self._fit(declaration, account, plan, steps, epsilon).to_json()
                body = {"declared": declaration.to_json(), "epsilon": str(epsilon), "releases": releases}
                body |= {"events": written, "terms": terms.to_json(), "gaussian": gaussian, "shares": [share]}
                body["price"] = charge_to_json(unit) | {"currency": unit.currency}
                self._chain.record("standing", actor.name, body, data=data, request=declaration.name)
        stream = self.find(declaration.name)
        check_same(stream, declaration)  # it may have been declared before
        return stream

    def _fit(
        self, declaration: StreamDeclaration, account: Filter, plan: SetAside, events: Any, epsilon: Fraction
    ) -> Taken:
        """Return the share that a plan takes; refuse one for which too little is neither spent nor set aside."""
        room = under(account, self._limits.lowered.get((declaration.data, "")))
        cost = plan.price if room.currency == account.currency else price(room, events)
        left, whole = 1 - room.share_spent, cost.repeated(plan.releases)
        if room.fits(whole):
            share = takes(room, whole)
            return Taken(room.epsilon, room.delta, share, left - share)
        does = f"{plan.releases} releases at ε={figure(epsilon)} each do"
        does = f"1 release at ε={figure(epsilon)} does" if plan.releases == 1 else does
        fitting = min(times(room, cost), plan.releases - 1)
        fit = f"{fitting} would" if fitting else "not even one does"
        keys = whole.delta > room.reserve - room.spent_delta
        raise BudgetExceededError(
            f"{does} not fit into what is left of the budget of {declaration.data} ({percent(left)}); {fit}. Lower "
            f"{'delta, which private keys use' if keys else 'epsilon'}, declare fewer releases, or raise the budget. "
            "Nothing was set aside."
        )

    def stop(self, name: str, *, actor: Actor, reason: str = "") -> None:
        """Make no further release, and free the part that is still set aside. Charges stay."""
        actor.require_owner("stop a declared stream")
        stream = self.find(name)
        why = reasons(reason)
        with self._chain.locked() as state:
            if not state.streams[stream.name].left:
                raise LedgerError(f"The stream {stream.name!r} has ended already.")
            self._chain.record("ended", actor.name, why, data=stream.declaration.data, request=stream.name)

    # releasing

    def reserve(self, name: str, *, clock: str | None = None) -> tuple[Charge, str] | None:
        """Charge the release that is due, and return the charge with its period's name; None if nothing is due.

        The caller makes the release: nobody else gets it.
        """
        self._check_made()
        stream = self.find(name)
        asked, written = stream.declaration, [event.to_json() for event in stream.events]
        hashed = question_hash(asked.data, asked.question, written)
        with self._chain.locked() as state:
            # under the ledger's lock: the number of the next release is the one that other workers see
            aside = state.streams[stream.name]
            due = replace(stream, aside=aside).due(clock or now())
            if due is None:
                return None
            period = asked.schedule.period(due)
            # The declared price, even if events cost less by now: the releases must add up to the plan.
            fitting = fit(state, asked.data, "", stream.events, self._limits.lowered, unit_price=aside.price)
            if isinstance(fitting, TooMuch):
                refusal = fitting.account.refusal(fitting.charge, asked.data)
                raise BudgetExceededError(f"The release {asked.name}/{period} {refusal}. Nothing was charged.")
            body: dict[str, Any] = {"when": now(), "question": asked.question, "process": this_process()}
            body |= {"epsilon": decimal(stream.epsilon), "question_hash": hashed, "events": written}
            body |= {"standing": {"name": asked.name, "number": due}, **fitting.content}
            request, weight = _request_of(asked.name, period), fitting.weight
            entry = Entry.draft("reserve", body, after=state.head, data=asked.data, request=request, weight=weight)
            write_charge(self._chain, self._limits, entry, fitting)
            return Charge.of(entry), period

    def close_dead(self) -> int:
        """Record charged releases of dead processes as failed; return how many there were."""
        with self._chain.reading() as state:
            entries = [self._chain.store.entry(number) for number, (_, analyst) in state.pending.items() if not analyst]
        # A charge in `ungranted` ended in an error of this very process, which is alive but will not make the release.
        closed = 0
        for entry in filter(None, entries):
            charge = entry.read()
            running = alive(charge["process"])
            # Nobody will answer it: its process is dead, or on another host and silent for long.
            age = dt.datetime.fromisoformat(now()) - dt.datetime.fromisoformat(charge["when"])
            dead = running is False or (running is None and age > _LONGEST)
            if dead or entry.hash in self._limits.ungranted:
                record_outcome(self._chain, "failed", Charge.of(entry), {"when": now(), "reason": FAILED}, None)
                closed += 1
        return closed

    # reading

    def listed(self) -> list[DeclaredStream]:
        """Return all declared streams, in the order in which they were declared."""
        with self._chain.reading() as state:
            numbers = sorted(plan.number for plan in state.streams.values())
            entries = [entry for number in numbers if (entry := self._chain.store.entry(number)) is not None]
            return [DeclaredStream.of(trusted(self._chain, entry), state.streams[entry.request]) for entry in entries]

    def find(self, name: str) -> DeclaredStream:
        """Return a declared stream by its name, in any case of letters."""
        for stream in self.listed():
            if stream.name.casefold() == str(name).casefold():
                return stream
        raise UnknownStreamError(name)

    def fitting(self, data: str, events: Event | list[Event]) -> int:
        """Return how many releases of this price fit into the remaining budget."""
        with self._chain.reading() as state:
            check_known(state, data)
            account = state.committed((data, ""))
        assert account is not None  # noqa: S101 - data sets have budgets
        account = under(account, self._limits.lowered.get((data, "")))
        return times(account, price(account, event_list(events)))

    def periods(self, stream: DeclaredStream, *, clock: str | None = None) -> list[StreamPeriod]:
        """Return every period of a stream, oldest first, with its state."""
        schedule = stream.declaration.schedule
        passed, periods = schedule.passed(clock or now()), []
        with self._chain.reading() as state:
            stream = replace(stream, aside=state.streams[stream.name])
            # The request ids of a stream differ in their dates alone, which sort as texts: one range has them all.
            ends = (_request_of(stream.name, schedule.period(number)) for number in (0, schedule.slots - 1))
            charged = self._chain.store.without_analyst(*ends)
        for number in range(schedule.slots):
            slot = schedule.slot(number)
            receipt, outcome = charged.get(_request_of(stream.name, slot[:10]), (None, ""))
            became = stream.state(number, passed) if receipt is None else _STATE_OF_OUTCOME[outcome]
            periods.append(StreamPeriod(period=slot[:10], slot=slot, state=became, receipt=receipt))
        return periods

    def receipt(self, stream: DeclaredStream, period: str) -> int:
        """Return the receipt of the release of a period, or of the ``latest`` that was made."""
        if period == "latest":
            made = [release.receipt for release in self.periods(stream) if release.state == "made"]
            if made and made[-1] is not None:
                return made[-1]
        elif stream.declaration.schedule.number(period) is not None:
            entry = self._chain.store.reservation("", _request_of(stream.name, period))
            outcome = None if entry is None else self._chain.store.outcome(entry.number)
            if entry is not None and outcome is not None and outcome.kind != "failed":
                return entry.number
        raise UnknownStreamError(f"{stream.name}/{period}")


def check_same(stream: DeclaredStream, declaration: StreamDeclaration) -> None:
    """Refuse a declaration that differs from the earlier one of the same name."""
    before, old, new = stream.declaration, stream.declaration.to_json(), declaration.to_json()
    if (before.name, before.data, old) != (declaration.name, declaration.data, new):
        words = ", ".join(name for name in new if old[name] != new[name]) or "its data set"
        raise LedgerError(
            f"The stream {stream.name!r} was declared on {stream.when[:10]} with other words ({words}), and a name "
            "stands for one stream for ever. Take back the change; or stop it with hush stream stop, and declare the "
            "new one under another name."
        )


def _request_of(name: str, period: str) -> str:
    """Return the request id of a release: each name and period has one, for ever."""
    return f"standing {name} {period}"
