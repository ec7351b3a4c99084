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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from hush.accounting.events import Event
from hush.accounting.filters import Filter
from hush.core import BudgetExceededError, InvalidValueError, Number, integer, nonnegative, probability
from hush.ledger import charging, requests
from hush.ledger.budgets import Allowance, Budget, Spending, Whose, budget_of, under
from hush.ledger.chain import Chain
from hush.ledger.charging import Charge, ChargeLimits, ChargeRequest, Decision, Repeat, TooMuch, check_known
from hush.ledger.entries import Actor, Entry, label, now, prose, reasons
from hush.ledger.errors import AccountExistsError, LedgerError, LedgerMissingError, UnknownReceiptError
from hush.ledger.requests import ParkedQuestion
from hush.ledger.state import Key

if TYPE_CHECKING:
    from hush.ledger.backup import Lost, Verification
    from hush.ledger.history import Act, Budgets, OwnerAct, Release
    from hush.ledger.streams import DeclaredStreams


class Ledger:
    """A durable privacy budget for many analysts, processes and hosts. Safe to use from several threads."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.id = chain.state.id
        """The ledger's id, which its copies and exports have as well."""
        self.place = chain.store.place
        """The ledger's path or URL, without any password."""
        self._limits = ChargeLimits()
        self._unmade = ""
        self._granted: dict[Key, Filter | None] = {}
        """Accounts of analysts that are not open yet: their first charge opens them, reading does not."""
        self._named: frozenset[Key] | None = None
        """The analysts that the policy names, where there is one."""

    @classmethod
    def open(
        cls, url: str | Path, *, anchor: str | Path | None = None, create: Actor | None = None, anew: str = ""
    ) -> Self:
        """Open the ledger at a path or a ``postgresql://`` URL, and check every entry.

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
        """Refuse every charge from now on: this ledger is only a stand-in for planning, before the real one is made."""
        self._unmade = why

    def check_made(self) -> None:
        """Refuse if this ledger is only a stand-in for one that was not made yet."""
        if self._unmade:
            raise LedgerMissingError(self._unmade)

    def close(self) -> None:
        """Close the file or the connection, and the anchor."""
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
        with self._chain.locked() as state:
            if key[1]:
                check_known(state, key[0])
            if key in state.accounts:
                what = f"{key[1]} has a budget on {key[0]!r}" if key[1] else f"The data set {key[0]!r} has a budget"
                raise AccountExistsError(f"{what} already. Raise it instead: hush ledger raise.")
            self._chain.record(kind, actor.name, {}, {key: account}, data=key[0], analyst=key[1])

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
        """Raise a data set's budget, or an analyst's on it, to a new total; earlier charges still count."""
        actor.require_owner("raise a budget")
        why = reasons(reason)
        label(data, "data")
        Budget(epsilon=epsilon, delta=0 if delta is None else delta)  # refuses what no budget may be
        key = (data, analyst or "")
        with self._chain.locked() as state:
            check_known(state, *key)
            account = state.accounts[key]
            if account is None:
                raise LedgerError(f"{analyst} has no budget of their own on {data!r}; raise the data set's.")
            after = account.raised(epsilon=epsilon, delta=delta)
            if after == account:
                raise InvalidValueError("epsilon", got=epsilon, allowed="more than the present budget")
            self._chain.record("raise", actor.name, why, {key: after}, data=key[0], analyst=key[1])

    def lower(self, data: str, analyst: str | None = None, *, epsilon: Number, delta: Number = 0) -> None:
        """As long as this ledger is open, let nothing be charged beyond a smaller budget; a larger one is ignored."""
        self._limits.lowered[data, analyst or ""] = (nonnegative(epsilon, "epsilon"), probability(delta, "delta"))

    def grant(self, name: str, *, data: str, budget: Budget | Mapping[str, Any] | None = None, actor: Actor) -> None:
        """From now on let an analyst ask: their account is opened by their first charge, and until then shown as new.

        ``budget`` is theirs alone; without one the data set's binds them.
        """
        actor.require_owner("add an analyst")
        key = (label(data, "data"), label(name, "name"))
        self._granted[key] = None if budget is None else Budget.parse(budget).open()

    def name_analysts(self, keys: Iterable[Key]) -> None:
        """Say which analysts may still ask about which data set; others are shown as removed."""
        self._named = frozenset(keys)

    def allow(self, data: str, analyst: str, *, epsilon: Number, every: str) -> None:
        """As long as this ledger is open, let an analyst spend no more than this in each window of time."""
        self._limits.allowances[data, analyst] = Allowance(epsilon=epsilon, every=every)

    def ask_first(self, data: str, analyst: str, *, epsilon: Number) -> None:
        """As long as this ledger is open, park an analyst's questions that cost more, until the owner approves them."""
        self._limits.ask_first[data, analyst] = nonnegative(epsilon, "epsilon")

    def requests(self, actor: Actor) -> list[ParkedQuestion]:
        """Return the questions that wait, or waited, for the owner, newest first: to an analyst their own."""
        with self._chain.reading():
            listed = requests.listed(self._chain.store)
        return [request for request in listed if actor.sees(request.analyst)]

    def ask_for_budget(self, data: str, *, epsilon: Number, actor: Actor, reason: str = "") -> int:
        """Record that an analyst asks for a new total of their budget on a data set; return the request's number."""
        self.check_made()
        key = (label(data, "data"), actor.name)
        own = next((view.epsilon for view in self.budget(actor) if (view.data, view.analyst) == key), None)
        return requests.ask_for_budget(self._chain, key, own, epsilon, reason)

    def decide(self, number: int, *, approve: bool, actor: Actor, reason: str = "") -> None:
        """Approve or decline a request. An approved question may be charged once; an approved budget is raised."""
        actor.require_owner("decide on a request")
        request = requests.decide(self._chain, number, approve=approve, actor=actor, reason=reason)
        # A second entry, so it needs the lock anew: there is one write inside a lock. Another owner may have raised the
        # budget meanwhile, so compare it with the present state.
        if approve and request.raises(self._chain.state):
            self.raise_budget(request.data, request.analyst, epsilon=str(request.wanted), actor=actor, reason=reason)

    @property
    def streams(self) -> DeclaredStreams:
        """The declared streams, and the budget set aside for their releases."""
        from hush.ledger.streams import DeclaredStreams

        return DeclaredStreams(self._chain, self._limits, self.check_made)

    def analysts(self) -> list[str]:
        """Return the names of all analysts who have, or may open, an account."""
        return sorted({analyst for _, analyst in (*self._chain.state.accounts, *self._granted) if analyst})

    def limit_room(self, check: Callable[[], None]) -> None:
        """From now on call ``check`` before each charge: it refuses where a quota is used up."""
        self._limits.check_room = check

    def check_room(self) -> None:
        """Refuse to write more where the disk is full or a quota is used up."""
        self._chain.store.check_room(self._limits.check_room)

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
    ) -> Decision:
        """Decide on a question before any data is read; if it is charged, the charge is durable on return.

        A `Charge` fits the data set's budget and the analyst's, or neither is touched and
        :class:`~hush.core.BudgetExceededError` says why. A request id that was used before for the same question
        gives a `Replay` of its answer, free of charge; for another question it is refused. ``repeat`` finds the answer
        to the same question under other ids: one's own is a `Replay`, another analyst's a `Share`. ``epsilon`` is what
        the analyst calls its price, and ``reason`` why they ask, where an owner decides first: `Parked`.
        :mod:`hush.ledger.charging` has the rules.
        """
        self.check_made()
        asked = ChargeRequest(request, analyst, data, question, events, repeat, epsilon, reason)
        state, key, first = self._chain.state, asked.key, None
        if key in self._granted and key not in state.accounts and (data, "") in state.accounts:
            # The first charge opens the analyst's account, if it fits. Try it on a copy of the state: a question that
            # does not fit opens no account. This is a first look, without the lock; `charging.reserve` decides again.
            opened = replace(state, accounts=state.accounts | {key: self._granted[key]})
            first = charging.fit(opened, *key, asked.events, self._limits.lowered)
            if not isinstance(first, TooMuch):
                with suppress(AccountExistsError):  # another process was quicker
                    self._open(key, self._granted[key], "analyst", Actor.owner("policy"))
        decision = first if isinstance(first, TooMuch) else charging.reserve(self._chain, self._limits, asked)
        if not isinstance(decision, TooMuch):
            return decision
        # The message takes longer than the charge: it is made when the lock is free.
        from hush.ledger.history import heaviest

        most = heaviest(self._chain, decision.key, Actor.analyst(analyst))
        refusal = decision.account.refusal(decision.charge, decision.key[1] or decision.key[0])
        raise BudgetExceededError(f"{refusal}{most}")

    def answered(self, charge: Charge, answer: bytes) -> None:
        """Record the answer, for replays. Call this before the answer is given to anybody."""
        if not isinstance(answer, bytes):
            raise InvalidValueError("answer", got=type(answer).__name__, allowed="bytes")
        body = {"when": now(), "answer": hashlib.sha256(answer).hexdigest(), "size": len(answer)}
        charging.record_outcome(self._chain, "answered", charge, body, answer)

    def failed(self, charge: Charge, reason: str) -> None:
        """Record that there is no answer. The charge stays, for the failure itself may have told something."""
        body = {"when": now(), "reason": prose(reason, "reason", longest=2000)}
        charging.record_outcome(self._chain, "failed", charge, body, None)

    # What can be read. All of it is public: prices depend on questions and policy, never on data.

    def recorded(self) -> dict[Key, Filter]:
        """Return all accounts as the entries have them, before a policy lowers or grants any."""
        with self._chain.reading() as state:
            return {key: account for key, account in state.accounts.items() if account is not None}

    def budget(self, actor: Actor) -> Budgets:
        """Return budgets with the amounts left: for an owner all, for an analyst their own and their data sets'."""
        from hush.ledger.history import budget

        return budget(self._chain, actor, self._limits.lowered, self._granted, self._named)

    def accounts(self, data: str, analyst: str, *, shared: bool = False, again: bool = False) -> list[Whose]:
        """Return the accounts that an analyst's charges must fit, under the budgets that hold now.

        For ``shared`` answers their own alone; none for an analyst who may not ask. ``again`` looks for no entries of
        others, as after a charge that was just made here.
        """
        keys = [(data, analyst)] if shared else [(data, ""), (data, analyst)]
        with self._chain.mutex if again else self._chain.reading():
            state, accounts = self._chain.state, list[Whose]()
            if keys[-1] not in state.accounts | self._granted:
                return []
            for key in keys:
                account = state.committed(key) if key in state.accounts else self._granted.get(key)
                if account is not None:
                    account = under(account, self._limits.lowered.get(key))
                    accounts.append(Whose(name=budget_of(key), account=account))
        return accounts

    def spending(self, receipt: int) -> Spending | None:
        """Return the share that a charge took of the budget that bound it, and the share left when last looked."""
        with self._chain.mutex:
            entry = self._chain.store.entry(receipt)
            bound = None if entry is None else charging.bound_by(charging.charge_shares(self._chain, entry))
            account = None if bound is None else self._chain.state.committed(bound[0])
        if bound is None or account is None:
            return None
        key, taken = bound
        left = 1 - under(account, self._limits.lowered.get(key)).share_spent
        return Spending(whose=budget_of(key), took=taken.took, left=left)

    def history(self, actor: Actor, *, data: str | None = None, limit: int | None = None) -> list[Release]:
        """Return the charges, newest first: for an owner all, for an analyst their own."""
        self.check_made()
        if limit is not None:
            integer(limit, "limit", minimum=0)
        from hush.ledger.history import history

        return history(self._chain, actor, data=data, limit=limit)

    def receipt(self, number: int, actor: Actor) -> tuple[Release, Entry]:
        """Return one charge that an actor may see, and its entry in the chain."""
        from hush.ledger.history import receipt

        self.check_made()
        return receipt(self._chain, actor, number)

    def stored_answer(self, number: int, actor: Actor) -> bytes:
        """Return the answer that was given under a receipt, as it was recorded. Free: nothing new is learned."""
        release, entry = self.receipt(number, actor)
        if release.outcome not in {"answered", "shared"}:
            raise UnknownReceiptError(number)
        with self._chain.mutex:
            return charging.answer_of(self._chain, charging.source_of(self._chain, entry))

    def record(self, act: OwnerAct) -> bool:
        """Record an act around a service, once; return False if it was recorded before."""
        self.check_made()
        content: dict[str, Any] = {"act": act.what, "whom": act.whom, "of": dict(act.detail)}
        with self._chain.locked():
            last = self._chain.store.act(act.identity)
            # Compared with the last act of this identity, so a policy that comes back into force is recorded again.
            if last is not None and all(last.read().get(name) == value for name, value in content.items()):
                return False
            self._chain.record("act", act.by, content | ({"when": act.when} if act.when else {}), request=act.identity)
            return True

    def acts(self, actor: Actor) -> list[Act]:
        """Return the acts of owners, oldest first."""
        from hush.ledger.history import acts

        actor.require_owner("read what owners did")
        return acts(self._chain)

    def verify(self) -> Verification:
        """Check every entry, by its hash and by the rules, and account for all events afresh."""
        from hush.ledger.backup import verify

        return verify(self._chain)

    def export(self, file: IO[str], *, actor: Actor) -> int:
        """Write everything as lines of JSON, and return how many entries there are."""
        actor.require_owner("export the ledger")
        from hush.ledger.backup import export

        return export(self._chain, file)

    @classmethod
    def import_(
        cls, file: IO[str], url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None = None
    ) -> Self:
        """Make a ledger from exported lines, checked by hash and by the rules; recorded as an act of the owner."""
        from hush.ledger.backup import import_

        return cls(import_(file, url, actor=actor, reason=reason, lost=lost, anchor=anchor))

    @classmethod
    def restore(
        cls, url: str | Path, *, actor: Actor, reason: str, lost: Lost, anchor: str | Path | None = None
    ) -> Self:
        """Accept a copy that does not agree with its anchor; ``lost`` is the privacy loss of releases it lacks."""
        from hush.ledger.backup import restore

        return cls(restore(url, actor=actor, reason=reason, lost=lost, anchor=anchor))
