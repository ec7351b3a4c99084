"""The ledger: charge first, never refund.

>>> from hush.accounting import LaplaceEvent
>>> from hush.ledger import Actor, Ledger
>>> ledger = Ledger.in_memory()
>>> owner = Actor.owner("Dr Weiss")
>>> ledger.create_data("clinic", {"epsilon": 1}, actor=owner)
>>> ledger.add_analyst("alice", data="clinic", budget={"epsilon": "0.5"}, actor=owner)
>>> asked = {"analyst": "alice", "data": "clinic", "question": "SELECT COUNT(*) FROM visits"}
>>> ticket = ledger.reserve("q1", **asked, events=[LaplaceEvent(scale=4)])
>>> ledger.answered(ticket, b"1203")                      # whatever the curator wants back on a replay
>>> ledger.reserve("q1", **asked, events=[LaplaceEvent(scale=4)]).answer
b'1203'
>>> [str(view.remaining.epsilon) for view in ledger.budget(owner)]
['3/4', '1/4']
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, Self

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import Filter
from hush.core import BudgetExceededError, InvalidValueError, Number, integer, nonnegative, probability
from hush.core.format import decimal
from hush.ledger import acts, reading, repeats, restoring, verifying
from hush.ledger.actors import Actor, label, prose
from hush.ledger.allowances import Allowance, ledger_clock
from hush.ledger.allowances import check as check_allowance
from hush.ledger.book import Book, Key, account_state
from hush.ledger.budgets import Budget, event_list, price
from hush.ledger.chain import Chain, Draft
from hush.ledger.entries import Entry, damaged
from hush.ledger.errors import AccountExistsError, LedgerError, LedgerMissingError, UnknownReceiptError
from hush.ledger.repeats import Repeat
from hush.ledger.requests import ParkedQuestion, approval, ask_for_budget, decide, parked
from hush.ledger.reservation import (
    Charged,
    ReplayError,
    Reservation,
    TooMuchError,
    bind,
    charge,
    check_bound,
    known,
    record_outcome,
    replayed,
    trusted,
    used_before,
)
from hush.ledger.rules import charge_from_json, charged, question_hash
from hush.ledger.shares import Spending, Whose, budget_of, spending
from hush.ledger.standing import StandingPlans
from hush.ledger.system import now, this_process


class Ledger:
    """A durable privacy budget for many analysts, processes and hosts. Safe to use from several threads."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._ungranted: set[bytes] = set()
        """Charges of this process that may be on the disk although an error kept them from being granted."""
        self._lowered: dict[Key, tuple[Fraction, Fraction]] = {}
        """Smaller budgets that hold while this ledger is open, as (ε, δ)."""
        self._unmade = ""
        self._allowances: dict[Key, Allowance] = {}
        self._asks_first: dict[Key, Fraction] = {}
        """The largest ε that an analyst may ask for without the owner's approval."""
        self._granted: dict[Key, Budget | None] = {}
        """Accounts of analysts that their first charge opens: nothing is opened by looking."""
        self._named: frozenset[Key] | None = None
        """The analysts that the policy names, where there is one."""

    @classmethod
    def open(
        cls, url: str | Path, *, anchor: str | Path | None = None, create: Actor | None = None, anew: str = ""
    ) -> Self:
        """Open the ledger at a path or a ``postgresql://`` URL, and check all of it.

        ``anchor`` is where its head is kept as well: a path, a ``postgresql://`` URL, ``command:PROGRAM``, or
        ``none``; left out, the usual place. With ``create``, an owner makes a ledger where there is none; where one
        was lost only with ``anew``, the reason, which is recorded.
        """
        if anew:
            prose(anew, "anew", longest=2000)
        return cls(Chain.open(url, anchor=anchor, create=create, anew=anew))

    @classmethod
    def in_memory(cls) -> Self:
        """Return a ledger that lives and dies with this process: for notebooks and tests."""
        return cls(Chain.open(":memory:", anchor="none", create=Actor.owner("owner")))

    def refuse(self, why: str) -> None:
        """From now on charge nothing: this ledger only stands for one that nobody has made, to plan questions by."""
        self._unmade = why

    def check_made(self) -> None:
        """Refuse, where this ledger only stands for one that nobody has made."""
        if self._unmade:
            raise LedgerMissingError(self._unmade)

    @property
    def id(self) -> str:
        """What names this ledger wherever it lies: copies and exports have the same."""
        return self._chain.book.id

    @property
    def place(self) -> str:
        """Where it lies."""
        return self._chain.store.place

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What owners do.

    def create_data(self, name: str, budget: Budget | Mapping[str, Any], *, actor: Actor) -> None:
        """Add a data set with a budget for its whole life."""
        actor.require_owner("add a data set")
        self._open((label(name, "name"), ""), Budget.parse(budget).open(), "data", actor)

    def add_analyst(
        self, name: str, *, data: str, budget: Budget | Mapping[str, Any] | None = None, actor: Actor
    ) -> None:
        """Let an analyst ask about a data set, within a budget of their own or, without one, within the data set's."""
        actor.require_owner("add an analyst")
        account = None if budget is None else Budget.parse(budget).open()
        self._open((label(data, "data"), label(name, "name")), account, "analyst", actor)

    def _open(self, key: Key, account: Filter | None, kind: str, actor: Actor) -> None:
        def make(book: Book) -> Draft:
            if key[1]:
                known(book, key[0])
            if key in book.accounts:
                what = f"{key[1]} has a budget on {key[0]!r}" if key[1] else f"The data set {key[0]!r} has a budget"
                raise AccountExistsError(f"{what} already. Raise it instead: hush ledger raise.")
            body = {"by": actor.name, "when": now(), "accounts": [account_state(key, account)]}
            return Entry.draft(kind, body, after=book.head, data=key[0], analyst=key[1]), {key: account}

        self._chain.append(make)

    def raise_budget(
        self,
        data: str,
        analyst: str | None = None,
        *,
        epsilon: Number,
        delta: Number | None = None,
        actor: Actor,
        reason: str = "",
    ) -> None:
        """Raise a data set's budget, or an analyst's on it, to a new total. What was spent stays spent."""
        actor.require_owner("raise a budget")
        why = {"reason": prose(reason, "reason", longest=2000)} if reason else {}
        label(data, "data")
        Budget(epsilon=epsilon, delta=0 if delta is None else delta)  # refuses what no budget may be

        def make(book: Book) -> Draft:
            key = (data, analyst or "")
            known(book, *key)
            account = book.accounts[key]
            if account is None:
                raise LedgerError(f"{analyst} has no budget of their own on {data!r}; raise the data set's.")
            after = account.raised(epsilon=epsilon, delta=delta)
            if after == account:
                raise InvalidValueError("epsilon", got=epsilon, allowed="more than the present budget")
            body = {"by": actor.name, "when": now(), "accounts": [account_state(key, after)], **why}
            return Entry.draft("raise", body, after=book.head, data=key[0], analyst=key[1]), {key: after}

        self._chain.append(make)

    def lower(self, data: str, analyst: str | None = None, *, epsilon: Number, delta: Number = 0) -> None:
        """As long as this ledger is open, let nothing be charged beyond a smaller budget; a larger one is ignored."""
        self._lowered[data, analyst or ""] = (nonnegative(epsilon, "epsilon"), probability(delta, "delta"))

    def grant(self, name: str, *, data: str, budget: Budget | Mapping[str, Any] | None = None, actor: Actor) -> None:
        """From now on let an analyst ask: their account is opened by their first charge, and until then shown as new.

        ``budget`` is theirs alone; without one the data set's binds them.
        """
        actor.require_owner("add an analyst")
        key = (label(data, "data"), label(name, "name"))
        self._granted[key] = None if budget is None else Budget.parse(budget)

    def name_analysts(self, keys: Iterable[Key]) -> None:
        """Say which analysts may still ask about which data set; others are shown as removed."""
        self._named = frozenset(keys)

    def allow(self, data: str, analyst: str, *, epsilon: Number, every: str) -> None:
        """As long as this ledger is open, let an analyst spend no more than this in each window of time."""
        self._allowances[data, analyst] = Allowance(epsilon=epsilon, every=every)

    def ask_first(self, data: str, analyst: str, *, epsilon: Number) -> None:
        """As long as this ledger is open, park an analyst's questions that cost more, until the owner approves them."""
        self._asks_first[data, analyst] = nonnegative(epsilon, "epsilon")

    def requests(self, actor: Actor) -> list[ParkedQuestion]:
        """Return the questions that wait, or waited, for the owner, newest first: to an analyst their own."""
        return parked(self._chain, actor)

    def ask_for_budget(self, data: str, *, epsilon: Number, actor: Actor, reason: str = "") -> int:
        """Record that an analyst asks for a new total of their budget on a data set; return the request's number."""
        self.check_made()
        return ask_for_budget(self._chain, self.budget(actor), data, epsilon=epsilon, actor=actor, reason=reason)

    def decide(self, number: int, *, approve: bool, actor: Actor, reason: str = "") -> None:
        """Approve or decline a request. An approved question may be charged once; an approved budget is raised."""
        actor.require_owner("decide on a request")
        decide(self._chain, number, approve=approve, actor=actor, reason=reason, raise_budget=self.raise_budget)

    @property
    def standing(self) -> StandingPlans:
        """Questions that are released again and again, and what is set aside for them."""
        return StandingPlans(self._chain, self._lowered, self._ungranted, self.check_made)

    def analysts(self) -> list[str]:
        """Return the names of all analysts who have, or may open, an account."""
        return sorted({analyst for _, analyst in (*self._chain.book.accounts, *self._granted) if analyst})

    def _open_granted(self, data: str, analyst: str, events: Sequence[Event]) -> None:
        """Open an analyst's account for their first charge, if that fits."""
        key = (data, analyst)
        if key not in self._granted or key in self._chain.book.accounts or (data, "") not in self._chain.book.accounts:
            return
        budget = self._granted[key]
        shadow = Book()
        shadow.accounts = self._chain.book.accounts | {key: None if budget is None else budget.open()}
        shadow.standing = self._chain.book.standing
        try:
            charge(shadow, data, analyst, events, {}, self._lowered)
        except TooMuchError as refusal:
            raise self._refusal(refusal, Actor.analyst(analyst)) from None
        with suppress(AccountExistsError):  # another process was quicker
            self.add_analyst(analyst, data=data, budget=budget, actor=Actor.owner("policy"))

    # The way of one question.

    def reserve(
        self,
        request: str,
        *,
        analyst: str,
        data: str,
        question: str,
        events: Event | Sequence[Event],
        repeat: Repeat | None = None,
        epsilon: Fraction | None = None,
        reason: str = "",
    ) -> Reservation:
        """Charge a question before any data is read. Durable when it returns.

        The charge fits the data set's budget and the analyst's, or neither is touched and
        :class:`~hush.core.BudgetExceededError` says why. A request id that was used before for the same question
        gives the stored answer back, free of charge; for another question it is refused. ``repeat`` finds the answer
        to the same question under other ids (`hush.ledger.repeats`). ``epsilon`` is what the analyst calls its price,
        and ``reason`` why they ask, where an owner decides first (`hush.ledger.requests`).
        """
        self.check_made()
        label(request, "request")
        label(analyst, "analyst")
        label(data, "data")
        prose(question, "question")
        steps = event_list(events)
        written = [event.to_json() for event in steps]
        hashed = question_hash(data, question, written)
        self._open_granted(data, analyst, steps)
        # Price before the lock is held: it may take a while. The currency of an account never changes.
        prices = {
            key: price(account, steps)
            for key in ((data, ""), (data, analyst))
            if (account := self._chain.book.accounts.get(key)) is not None
        }
        replay: list[Reservation] = []
        drafts: list[Entry] = []
        approved: int | None = None

        def fits(book: Book, source: Entry | None) -> Charged:
            known(book, data, analyst)
            if source is None:
                return charge(book, data, analyst, steps, prices, self._lowered)
            learned = [event_from_json(event) for event in source.read()["events"]]
            return charge(book, data, analyst, learned, {}, self._lowered, shared=True)

        def make(book: Book) -> Draft:
            known(book, data, analyst)
            earlier = self._chain.store.reservation(analyst, request)
            if earlier is not None:
                replay.append(self._retried(earlier, question, hashed, repeat))
                raise ReplayError
            check_bound(self._chain, analyst, request, hashed)
            body: dict[str, Any] = {"when": now(), "question": question, "process": this_process()}
            body |= {"epsilon": decimal(epsilon)} if epsilon is not None else {}
            body |= {"same_question": repeat.question} if repeat is not None else {}
            source = self._repeated(repeat, data, analyst, replay)
            after, paid, weight = fits(book, source)
            if source is None:
                body |= {"question_hash": hashed, "events": written}
            else:  # what was released then is what this analyst learns now
                released = source.read()["events"]
                body |= {"question_hash": question_hash(data, question, released), "events": released}
                body["of"] = source.number
            if approved is not None:
                if approved in self._chain.store.used_approvals():
                    raise LedgerError(f"Request {approved} was used already; ask again for a new approval.")
                body["approved"] = approved
            if (allowance := self._allowances.get((data, analyst))) is not None and paid:
                body["clock"] = ledger_clock(self._chain.store, (data, analyst), body["when"], book.head.number)
                account = book.accounts[charged(book, data, analyst, shared=source is not None)[-1]]
                assert account is not None  # noqa: S101 - it was just charged
                now_due = charge_from_json(account, paid[-1])
                check_allowance(self._chain.store, allowance, (data, analyst), account, now_due, clock=body["clock"])
            body |= {"price": paid, "accounts": [account_state(key, account) for key, account in after.items()]}
            kind = "reserve" if source is None else "shared"
            entry = Entry.draft(kind, body, after=book.head, data=data, analyst=analyst, request=request, weight=weight)
            if source is None:
                drafts.append(entry)
            else:
                replay.append(self._own(entry, source, shared=True))
            return entry, after

        try:
            if (limit := self._asks_first.get((data, analyst))) is not None:
                asked = (self._chain, (data, analyst), limit, request, question, repeat)
                approved = approval(*asked, hashed=hashed, epsilon=epsilon, reason=reason, fits=fits)
            entry = repeats.waiting(lambda: self._chain.append(make))
        except ReplayError:
            if replay[0].request != request:
                bind(self._chain, analyst, request, hashed)
            return replay[0]
        except TooMuchError as refusal:  # the message takes longer than the charge: it is made when the lock is free
            raise self._refusal(refusal, Actor.analyst(analyst)) from None
        except BaseException:
            self._ungranted.update(draft.hash for draft in drafts)
            raise
        if replay:
            return replay[-1]
        return Reservation(number=entry.number, request=request, analyst=analyst, data=data, question_hash=hashed)

    def _refusal(self, refusal: TooMuchError, analyst: Actor) -> BudgetExceededError:
        try:
            refusal.account.admit(refusal.charge, owner=refusal.key[1] or refusal.key[0])
        except BudgetExceededError as error:
            return BudgetExceededError(f"{error}{reading.heaviest(self._chain, refusal.key, analyst, self._lowered)}")
        raise refusal

    def _repeated(self, repeat: Repeat | None, data: str, analyst: str, replay: list[Reservation]) -> Entry | None:
        """Leave the transaction with the analyst's own answer to the same question; return another's to be shared."""
        if repeat is None or repeat.fresh:
            return None
        paid = repeats.find(self._chain.store, repeat, data=data, analyst=analyst, ungranted=frozenset(self._ungranted))
        if paid is None:
            return None
        if not paid.own(analyst):
            return paid.source
        trusted(self._chain, paid.entry)
        replay.append(self._own(paid.entry, paid.source))
        raise ReplayError

    def _retried(self, earlier: Entry, question: str, hashed: str, repeat: Repeat | None) -> Reservation:
        """Return the answer that was given under a request id, for the question that it was used for."""
        if earlier.kind == "reserve":
            return replayed(self._chain, earlier, hashed, self._ungranted)
        content = trusted(self._chain, earlier).read()
        # The price of a shared answer is that of its source. So the fingerprint decides, where there is one.
        same = content["question_hash"] == hashed if repeat is None else earlier.same_question == repeat.question
        if not same or content["question"] != question:
            raise used_before(earlier)
        return self._own(earlier, self._source(earlier))

    def _source(self, shared: Entry) -> Entry:
        """Return the reservation whose answer was shared."""
        source = self._chain.store.entry(shared.paid_by)
        if source is None:
            raise damaged(shared.number, "the reservation that it shares is not there")
        return source

    def _own(self, entry: Entry, source: Entry, *, shared: bool = False) -> Reservation:
        """Return the answer of a reservation under the receipt of whoever paid for it; ``shared`` is another's."""
        found = replayed(self._chain, source, source.read()["question_hash"], self._ungranted)
        request = entry.request if shared else found.request
        return replace(found, number=entry.number, analyst=entry.analyst, request=request, shared=shared)

    def answered(self, reservation: Reservation, answer: bytes) -> None:
        """Record the answer, for replays. Call this before the answer leaves the house."""
        if not isinstance(answer, bytes):
            raise InvalidValueError("answer", got=type(answer).__name__, allowed="bytes")
        body = {"when": now(), "answer": hashlib.sha256(answer).hexdigest(), "size": len(answer)}
        record_outcome(self._chain, "answered", reservation, body, answer)

    def failed(self, reservation: Reservation, reason: str) -> None:
        """Record that there is no answer. The charge stays, for the failure itself may have told something."""
        body = {"when": now(), "reason": prose(reason, "reason", longest=2000)}
        record_outcome(self._chain, "failed", reservation, body, None)

    # What can be read. All of it is public: prices depend on questions and policy, never on data.

    def budget(self, actor: Actor, *, recorded: bool = False) -> reading.Budgets:
        """Return what is left: to an owner every account, to an analyst their own and those of their data sets."""
        if recorded:  # as the entries have it, whatever a policy lowers or has not opened yet
            return reading.budget(self._chain, actor, {})
        granted = {key: None if budget is None else budget.open() for key, budget in self._granted.items()}
        return reading.budget(self._chain, actor, self._lowered, granted, self._named)

    def spending(self, receipt: int) -> Spending | None:
        """Return what a charge took of the budget that has least left; None where no budget binds it."""
        with self._chain.reading():
            entry = self._chain.store.entry(receipt)
            if entry is None:
                return None
            shares = reading.charge_shares(self._chain, entry, self._lowered)
        told = [(Whose(name=budget_of(key), account=account), took) for key, (account, took) in shares.items()]
        return spending(told)

    def history(self, actor: Actor, *, data: str | None = None, limit: int | None = None) -> list[reading.Release]:
        """Return the charges, newest first: for an owner all, for an analyst their own."""
        self.check_made()
        if limit is not None:
            integer(limit, "limit", minimum=0)
        return reading.history(self._chain, actor, self._lowered, data=data, limit=limit)

    def receipt(self, number: int, actor: Actor) -> tuple[reading.Release, Entry]:
        """Return one charge that an actor may see, and its entry in the chain."""
        self.check_made()
        return reading.receipt(self._chain, actor, number, self._lowered)

    def stored_answer(self, number: int, actor: Actor) -> bytes:
        """Return the answer that was given under a receipt, as it was recorded. Free: nothing new is learned."""
        made, entry = self.receipt(number, actor)
        source: Entry | None = entry
        if made.outcome == "shared":
            source = self._chain.store.entry(trusted(self._chain, entry).paid_by)
        if made.outcome not in {"answered", "shared"} or source is None:
            raise UnknownReceiptError(number)
        answer = replayed(self._chain, source, source.read()["question_hash"], self._ungranted).answer
        assert answer is not None  # noqa: S101 - it was answered
        return answer

    def record(self, act: acts.OwnerAct) -> bool:
        """Record what somebody did around a service, once; return whether it was not recorded yet."""
        self.check_made()
        return acts.record(self._chain, act)

    def acts(self, actor: Actor) -> list[reading.Act]:
        """Return what owners did, oldest first."""
        actor.require_owner("read what owners did")
        return reading.acts(self._chain)

    def verify(self) -> verifying.Report:
        """Check every entry, by its hash and by the rules, and account for all events afresh."""
        return verifying.verify(self._chain)

    def export(self, file: IO[str], *, actor: Actor) -> int:
        """Write everything as lines of JSON, and return how many entries there are."""
        actor.require_owner("export the ledger")
        return restoring.export(self._chain, file)

    @classmethod
    def import_(
        cls,
        file: IO[str],
        url: str | Path,
        *,
        actor: Actor,
        reason: str,
        lost: restoring.Lost,
        anchor: str | Path | None = None,
    ) -> Self:
        """Make a ledger from exported lines, checked by hash and by the rules; recorded as an act of the owner."""
        return cls(restoring.import_(file, url, actor=actor, reason=reason, lost=lost, anchor=anchor))

    @classmethod
    def restore(
        cls, url: str | Path, *, actor: Actor, reason: str, lost: restoring.Lost, anchor: str | Path | None = None
    ) -> Self:
        """Accept a copy whose anchor disagrees or is missing; ``lost`` says which releases it does not show."""
        return cls(restoring.restore(url, actor=actor, reason=reason, lost=lost, anchor=anchor))
