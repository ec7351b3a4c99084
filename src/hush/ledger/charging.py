"""Charging: decide on each question under the ledger's lock, before any data is read.

`reserve` answers with a value, a `Decision`:

========= =============================================================================================================
`Charge`  a new charge is on the disk, to every budget above the question: all of them, or none. With it, and only with
          it, data may be read. Its outcome, an answer or a failure, is an entry of its own, recorded once
`Replay`  the analyst has paid for this answer before: free
`Share`   the answer that another analyst's charge has paid for, charged to this analyst's own account alone
`Parked`  the owner decides first; nothing was charged
========= =============================================================================================================

What the budgets do not hold is refused by an error. A charge without an answer stays charged.

**Replays.** An answer that is shown twice tells no more than shown once. Under the same *request id* the same question
brings its answer again; another question is refused. The same *question* under another id brings its paid answer, byte
for byte. What makes two questions the same is decided above the ledger, from public things alone; here it is one
fingerprint (`Repeat`). A change of the rows is not among them, for it is a fact about rows: the owner declares a new
version. Which answer comes back:

- the analyst's own newest answer to the question;
- else, where the owner shares answers, that of another analyst. It costs the data set nothing, for nothing more is
  released, and the analyst's own account its price, for that bounds what *they* have learned. The charge is an entry of
  kind ``shared``. It tells the analyst that somebody has asked this before, so it is for the owner to decide;
- a charge that failed, or whose process died, has no answer: the question is charged and computed anew;
- a charge that is still being computed is waited for: of two who ask at once, one pays, and both have the answer.

An old entry that is used again is first checked against the one before it, so that nobody can slip an answer in.

**Allowances** are a rate limit, never a reset: how much of a budget may be spent in one hour, day, week, month or
year. A charge must fit the lifetime accounts first, whatever time it is; then the charges of the present window and the
new one must fit an account of the same currency with the allowance's ε. So the allowance only ever refuses more.

*Which window is it?* The ledger's clock never goes back: it is the latest of three times: the system's, that of the
last entry about the data set's accounts, and that of the analyst's own last charge. (Only charges under an allowance
record this clock; others record the system's time.) A clock that is set back stays in the window it was in, and what
was spent there stays spent; a clock that is set forward opens windows early, within the lifetime budget.

A question above the price that a policy lets an analyst ask without the owner becomes a request
(:mod:`hush.ledger.requests`).

>>> from hush.accounting import LaplaceEvent
>>> from hush.ledger import Actor, Ledger
>>> ledger, owner = Ledger.in_memory(), Actor.owner("Dr Weiss")
>>> ledger.create_data("clinic", {"epsilon": 1}, actor=owner)
>>> for name in ("alice", "bob"):
...     ledger.add_analyst(name, data="clinic", budget={"epsilon": 1}, actor=owner)
>>> asked = {"data": "clinic", "question": "SELECT COUNT(*) FROM visits", "events": [LaplaceEvent(scale=4)]}
>>> same = Repeat(question="ab12", shared=True)
>>> charge = ledger.reserve("q1", analyst="alice", repeat=same, **asked)
>>> ledger.answered(charge, b"1203")
>>> again = ledger.reserve("q2", analyst="alice", repeat=same, **asked)
>>> shared = ledger.reserve("q3", analyst="bob", repeat=same, **asked)
>>> isinstance(charge, Charge), isinstance(again, Replay), isinstance(shared, Share), shared.answer
(True, True, True, b'1203')
"""

from __future__ import annotations

import difflib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from hush.accounting import filters
from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import Filter
from hush.core import InvalidValueError
from hush.core.format import decimal, figure, percent
from hush.ledger.budgets import Allowance, Lowered, Taken, event_list, part_of, price, takes, under
from hush.ledger.chain import Chain
from hush.ledger.entries import Entry, Head, damaged, follow, label, now, prose
from hush.ledger.errors import (
    AllowanceError,
    LedgerError,
    RequestConflictError,
    RequestUnansweredError,
    UnknownAccountError,
)
from hush.ledger.requests import Parked, approval
from hush.ledger.state import (
    Key,
    LedgerState,
    account_state,
    account_states,
    charge_from_json,
    charge_to_json,
    question_hash,
)
from hush.ledger.store import Store
from hush.storage import alive, this_process

_LONGEST_WAIT = 60.0
_PAUSES = (0.002, 0.005, 0.01, 0.02, 0.05)
_WEIGHT = 10**12
"""The weight of a charge is its share of the data set's budget in these parts."""


class Charge(NamedTuple):
    """A charge that is on the disk. With it, and only with it, data may be read."""

    number: int
    """The entry's number in the ledger: the receipt."""
    request: str
    analyst: str
    data: str
    question_hash: str

    @classmethod
    def of(cls, entry: Entry) -> Charge:
        """Return the charge that an entry records."""
        return cls(entry.number, entry.request, entry.analyst, entry.data, entry.read()["question_hash"])


class Replay(NamedTuple):
    """An answer that the analyst has paid for before; nothing was charged, and nothing may be drawn."""

    number: int
    """The receipt of the charge that paid for it."""
    answer: bytes
    when: str
    """When the answer was computed and paid for."""


class Share(NamedTuple):
    """Another analyst's answer, just charged to this analyst's own account; nothing may be drawn."""

    number: int
    """The receipt of this analyst's own charge."""
    answer: bytes
    when: str
    """When the answer was computed and paid for."""


Decision = Charge | Replay | Share | Parked


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The fingerprint of a question, and whether an earlier answer to it may be used."""

    question: str
    """The fingerprint: equal for the same question, and for nothing else."""
    fresh: bool = False
    """Whether to charge and compute again even if the question was answered before."""
    shared: bool = False
    """Whether the owner lets analysts have each other's answers."""

    def __post_init__(self) -> None:
        label(self.question, "question")
        if not isinstance(self.fresh, bool) or not isinstance(self.shared, bool):
            raise InvalidValueError("fresh", got=(self.fresh, self.shared), allowed="True or False")


class ChargeRequest:
    """A question as it reaches the ledger, checked, with its events as entries hold them."""

    def __init__(
        self,
        request: str,
        analyst: str,
        data: str,
        question: str,
        events: Event | Sequence[Event],
        repeat: Repeat | None,
        epsilon: Fraction | None,
        reason: str,
    ) -> None:
        self.request, self.key = label(request, "request"), (label(data, "data"), label(analyst, "analyst"))
        self.data, self.analyst = self.key
        self.question = prose(question, "question")
        self.events = event_list(events)
        self.written = [event.to_json() for event in self.events]
        self.hash = question_hash(data, question, self.written)
        self.repeat, self.epsilon, self.reason = repeat, epsilon, reason


@dataclass(slots=True)
class ChargeLimits:
    """Limits that a policy adds to the accounts of an open ledger; no entry records them."""

    lowered: dict[Key, tuple[Fraction, Fraction]] = field(default_factory=dict)
    """Smaller budgets, as (ε, δ)."""
    allowances: dict[Key, Allowance] = field(default_factory=dict)
    ask_first: dict[Key, Fraction] = field(default_factory=dict)
    """The largest ε that an analyst may ask for without the owner's approval."""
    ungranted: set[bytes] = field(default_factory=set)
    """Hashes of this process's charges that may be on the disk although an error kept them from being granted."""
    check_room: Callable[[], None] | None = None
    """Refuses further charges where a quota is used up."""


class Charged(NamedTuple):
    """The accounts after a charge, and its price to each with the shares it takes, as an entry holds them."""

    accounts: dict[Key, Filter | None]
    content: dict[str, Any]
    weight: int
    """The share of the data set's budget, by which the heaviest charges are found; 0 for a shared answer."""


class TooMuch(NamedTuple):
    """A charge that does not fit into an account."""

    key: Key
    account: Filter
    charge: filters.Charge


def reserve(chain: Chain, limits: ChargeLimits, asked: ChargeRequest) -> Decision | TooMuch:
    """Decide on a question; if it is charged, the charge is durable when this returns."""
    for key in ((asked.data, ""), asked.key):  # price before the lock is held: it may take a while, and is remembered
        account = chain.state.accounts.get(key)
        if account is not None:
            price(account, asked.events)
    deadline, pauses = time.monotonic() + _LONGEST_WAIT, iter(_PAUSES)
    while isinstance(decision := _decide(chain, limits, asked), int):
        if time.monotonic() > deadline:
            raise RequestUnansweredError(
                f"The same question is being answered since more than {_LONGEST_WAIT:g} seconds (receipt {decision}). "
                "Ask again later, which is free; or ask anew with fresh=True (--fresh), which is charged."
            )
        time.sleep(next(pauses, _PAUSES[-1]))
    return decision


def _decide(chain: Chain, limits: ChargeLimits, asked: ChargeRequest) -> Decision | TooMuch | int:
    """Decide under the lock and write the decision; return the receipt of a charge that is still being answered."""
    store, repeat = chain.store, asked.repeat
    with chain.locked() as state:
        check_known(state, *asked.key)
        # The request id is looked up before the fingerprint: an id stands for one question for ever.
        earlier = store.reservation(asked.analyst, asked.request)
        if earlier is not None:
            return _same_request(chain, limits, earlier, asked)
        bound = store.bound(asked.analyst, asked.request)
        if bound not in {None, asked.hash}:
            raise _conflict(asked.request)
        paid = None if repeat is None or repeat.fresh else _paid_before(store, limits, asked, repeat)
        if isinstance(paid, int):
            return paid
        if paid is not None and paid.analyst == asked.analyst:
            decision = _replay(chain, limits, paid)
            if bound is None:  # from now on this id, too, stands for this question alone
                store.bind(asked.analyst, asked.request, asked.hash)
                store.storage.commit()
            return decision
        # Nothing of their own: the question is charged, or another analyst's answer is. What was released then is
        # what this analyst learns now, so its events are charged.
        events, written, epsilon = asked.events, asked.written, asked.epsilon
        if paid is not None:
            stored = paid.read()
            written, epsilon = stored["events"], stored.get("epsilon")
            events = tuple(event_from_json(event) for event in written)
            epsilon = None if epsilon is None else Fraction(epsilon)
        # The budget before the approval: the owner is not asked about a question that the budget cannot pay.
        fitting = fit(state, asked.data, asked.analyst, events, limits.lowered, shared=paid is not None)
        if isinstance(fitting, TooMuch):
            return fitting
        approved: int | Parked | None = None
        if (limit := limits.ask_first.get(asked.key)) is not None and (epsilon is None or epsilon > limit):
            identity = asked.hash if repeat is None else repeat.question
            wish = {"question": asked.question, "identity": identity, "reason": asked.reason}
            approved = approval(chain, asked.key, limit, wish, epsilon)
            if isinstance(approved, Parked):
                return approved
        body: dict[str, Any] = {"when": now(), "question": asked.question, "process": this_process()}
        body |= {"question_hash": question_hash(asked.data, asked.question, written), "events": written}
        body |= {"epsilon": decimal(epsilon)} if epsilon is not None else {}
        body |= {"same_question": repeat.question} if repeat is not None else {}
        body |= {"of": paid.number} if paid is not None else {}
        body |= {"approved": approved} if approved is not None else {}
        # After `fit`, so that an allowance can only refuse more than the lifetime budget does.
        if (allowance := limits.allowances.get(asked.key)) is not None and fitting.content["price"]:
            # The ledger's clock never goes back. 2⁶² is above every entry's number.
            last = store.previous(2**62, asked.data), store.charge_before(2**62, *asked.key)
            body["clock"] = max([body["when"], *(_clock(entry) for entry in last if entry is not None)])
            account = fitting.accounts.get(asked.key) or fitting.accounts[asked.data, ""]  # theirs, if they have one
            assert account is not None  # noqa: S101 - it was just charged
            # The last price is the one to that account.
            _check_allowance(store, allowance, asked.key, account, fitting.content["price"][-1], clock=body["clock"])
        body |= fitting.content
        names: dict[str, Any] = {"data": asked.data, "analyst": asked.analyst, "request": asked.request}
        kind = "reserve" if paid is None else "shared"
        entry = Entry.draft(kind, body, after=state.head, weight=fitting.weight, **names)
        answer = b"" if paid is None else answer_of(chain, paid)  # before the charge: what is damaged is not paid for
        write_charge(chain, limits, entry, fitting)
        if paid is None:
            return Charge.of(entry)
        return Share(number=entry.number, answer=answer, when=paid.read()["when"])


def write_charge(chain: Chain, limits: ChargeLimits, entry: Entry, fitting: Charged) -> None:
    """Append a charge; if that fails, remember that it may be on the disk without having been granted.

    Every charge is written here, of questions and of declared streams, so no charge escapes the limits of the disk.
    They are checked last: an answer that was paid for comes again from a full disk too.
    """
    chain.store.check_room(limits.check_room)
    try:
        chain.write(entry, fitting.accounts)
    except BaseException:
        # Ctrl-C or a failed disk may come after the commit: the charge may stand although nobody got it.
        limits.ungranted.add(entry.hash)
        raise


# Answers that were paid for.


def _same_request(chain: Chain, limits: ChargeLimits, earlier: Entry, asked: ChargeRequest) -> Charge | Replay:
    """Return the answer that was given under a request id, if it was used for the same question."""
    content = trusted(chain, earlier).read()
    same = content.get("question_hash") == asked.hash
    if earlier.kind == "shared" and asked.repeat is not None:
        # The price of a shared answer is that of its source. So the fingerprint decides, where there is one.
        same = earlier.same_question == asked.repeat.question and content["question"] == asked.question
    if not same:
        raise _conflict(earlier.request)
    return _replay(chain, limits, earlier)


def _conflict(request: str) -> RequestConflictError:
    return RequestConflictError(
        f"The request id {request!r} was used before for another question or price. Use a new id for a new question; "
        "nothing was charged."
    )


def _paid_before(store: Store, limits: ChargeLimits, asked: ChargeRequest, repeat: Repeat) -> Entry | int | None:
    """Return the charge that paid for the same question: the analyst's own, or, if answers are shared, another's.

    Of a charge that is still being answered, the receipt.
    """
    own: list[Entry] = []
    others: list[Entry] = []
    for entry in store.repeats(repeat.question):
        if (entry.data, entry.same_question) != (asked.data, repeat.question):
            continue
        if entry.analyst == asked.analyst:
            own.append(entry)
        elif repeat.shared and entry.kind == "reserve":  # a shared charge has no answer, and its source is listed too
            others.append(entry)
    for entry in (*own, *others):
        if entry.kind == "shared":  # made only when the answer was there
            return entry
        outcome = store.outcome(entry.number)
        if outcome is None:
            # Charged, but the write ended in an error: nobody is answering it, so the analyst may use it now.
            if entry.hash in limits.ungranted and entry.analyst == asked.analyst:
                return entry
            # None means a process on another host: it may still be running.
            if alive(entry.read()["process"]) is not False:
                return entry.number
        elif outcome.kind == "answered":
            return entry
    return None


def _replay(chain: Chain, limits: ChargeLimits, paid: Entry) -> Charge | Replay:
    """Return the answer of an analyst's own charge, free; or the charge itself, if it was never used."""
    source = source_of(chain, paid)
    if source.hash in limits.ungranted and chain.store.outcome(source.number) is None:
        limits.ungranted.remove(source.hash)  # paid for, never used: the disk failed in between
        return Charge.of(trusted(chain, source))
    return Replay(number=paid.number, answer=answer_of(chain, source), when=source.read()["when"])


def source_of(chain: Chain, paid: Entry) -> Entry:
    """Return the reservation that has the answer: the charge itself, or the source of a shared answer."""
    if paid.kind != "shared":
        return paid
    source = chain.store.entry(trusted(chain, paid).paid_by)
    if source is None:
        raise damaged(paid.number, "the reservation that it shares is not there")
    return source


def answer_of(chain: Chain, reservation: Entry) -> bytes:
    """Return the stored answer of a reservation, after checking it against the hash in its outcome."""
    content = trusted(chain, reservation).read()
    charged_on = f"The request {reservation.request!r} was charged on {content['when']} and"
    outcome = chain.store.outcome(reservation.number)
    if outcome is None:
        raise RequestUnansweredError(
            f"{charged_on} has no answer: it is still running, or its process died. It stays charged. Ask again under "
            "a new request id."
        )
    result = trusted(chain, outcome).read()
    if outcome.kind == "failed":
        raise RequestUnansweredError(
            f"{charged_on} failed: {result['reason']}. It stays charged. Ask again under a new request id."
        )
    answer = chain.store.answer(reservation.number)
    if answer is None or hashlib.sha256(answer).hexdigest() != result["answer"]:
        raise damaged(outcome.number, "the answer stored with it is not the one that was given")
    return answer


def trusted(chain: Chain, entry: Entry) -> Entry:
    """Check the hash of an old entry against the entry before it, and return the entry."""
    # Opening checked every hash, but the file may have been edited since; accounts are in memory, old answers not.
    before = chain.store.entry(entry.number - 1)
    follow(Head() if before is None else before.head, entry.row)
    return entry


def record_outcome(chain: Chain, kind: str, charge: Charge, body: dict[str, Any], answer: bytes | None) -> None:
    """Record the outcome of a charge, once."""
    with chain.locked() as state:
        reserved = chain.store.entry(charge.number) if isinstance(charge, Charge) else None
        if reserved is None or reserved.kind != "reserve" or Charge.of(reserved) != charge:
            raise InvalidValueError("charge", got=charge, allowed="a charge of this ledger")
        if chain.store.outcome(charge.number) is not None:
            raise LedgerError(f"The outcome of the request {charge.request!r} is recorded already.")
        names: dict[str, Any] = {"data": charge.data, "analyst": charge.analyst, "request": charge.request}
        chain.write(Entry.draft(kind, body, after=state.head, about=charge.number, **names), {}, answer=answer)


# The accounts that a charge must fit.


def fit(
    state: LedgerState,
    data: str,
    analyst: str,
    events: Sequence[Event],
    lowered: Lowered,
    *,
    shared: bool = False,
    unit_price: filters.Charge | None = None,
) -> Charged | TooMuch:
    """Return the accounts after a charge, its prices and its shares; or the account that it does not fit.

    An answer that is ``shared`` was released before: it costs the data set nothing, and the analyst its price. Without
    an analyst it is a release of a declared stream, paid from what was set aside for it at its ``unit_price``.
    """
    keys = state.charged(data, analyst, shared=shared)
    after: dict[Key, Filter | None] = dict.fromkeys(keys)
    content: dict[str, Any] = {"price": [], "shares": [], "accounts": []}
    weight = 0
    for key in reversed(keys):  # the analyst's own budget first: its message is the one to act on
        account = state.accounts[key]
        room = state.committed(key) if analyst else account  # what is set aside is for declared streams alone
        if account is None or room is None:
            raise damaged(state.head.number, f"the account {key} has no state")
        paid = unit_price or price(account, events)
        if not room.fits(paid):
            return TooMuch(key=key, account=room, charge=paid)
        room = under(room, lowered.get(key))
        cost = paid if room.currency == account.currency else price(room, events)
        if not room.fits(cost):
            return TooMuch(key=key, account=room, charge=cost)
        after[key], spent = account.spend(paid), room.spend(cost)
        share = spent.share_used - room.share_used
        # A release of a stream takes nothing of what is left: its price was set aside.
        left = spent if analyst else under(state.committed(key) or account, lowered.get(key))
        weight = 0 if key[1] else int(share * _WEIGHT)  # that of the data set, which is the last one here
        content["price"].insert(0, charge_to_json(paid))
        content["shares"].insert(0, Taken(room.epsilon, room.delta, share, 1 - left.share_spent).to_json())
        content["accounts"].insert(0, account_state(key, after[key]))
    return Charged(accounts=after, content=content, weight=weight)


def check_known(state: LedgerState, data: str, analyst: str = "") -> None:
    """Refuse names without an account; suggest the nearest data set, but never the name of another analyst."""
    if (data, "") not in state.accounts:
        names = [key[0] for key in state.accounts if not key[1]]
        close = difflib.get_close_matches(str(data), names, n=1)
        nearest = f"; did you mean {close[0]!r}?" if close else "."
        raise UnknownAccountError(f"There is no data set {data!r} in the ledger{nearest}")
    if (data, analyst) not in state.accounts:
        raise UnknownAccountError(f"{analyst!r} may not ask about {data!r}; the owner can add them.")


# Shares of budgets.


def charge_shares(chain: Chain, entry: Entry) -> dict[Key, Taken]:
    """Return the shares that a charge took, by account, as they were on its day: no later raise changes them."""
    content, shares = entry.read(), {}
    for index, account in enumerate(content["accounts"]):
        key = (account["data"], account["analyst"])
        if "shares" in content:
            shares[key] = Taken.from_json(content["shares"][index])
            continue
        # An entry of an earlier version has the state of the account after it; the one before it is looked for.
        after, before, earlier = account_states(entry, content)[key], None, entry
        while before is None:
            # An entry of the same data set may leave this account alone (another analyst's charge): go back further.
            previous = chain.store.previous(earlier.number, key[0])
            if previous is None or after is None:
                raise damaged(entry.number, "it charges an account that nobody opened")
            before, earlier = account_states(previous, previous.read()).get(key), previous
        assert after is not None  # noqa: S101 - looked at above
        took, left = after.share_spent - before.share_spent, 1 - after.share_spent
        shares[key] = Taken(after.epsilon, after.delta, took, left)
    return shares


def bound_by(shares: Mapping[Key, Taken]) -> tuple[Key, Taken] | None:
    """Return the account that bound a charge, and its share; None for a shared answer that cost nothing."""
    return max(shares.items(), key=lambda item: part_of(item[1].took, item[1].took + item[1].left), default=None)


# Allowances.


def _clock(entry: Entry) -> str:
    content = entry.read()
    return max(str(content.get("clock", "")), str(content.get("when", "")))


def _check_allowance(
    store: Store, allowance: Allowance, key: Key, account: Filter, due: dict[str, str], *, clock: str
) -> None:
    """Refuse a charge that, with the others of the present window, is more than the allowance (inside a lock)."""
    fresh = replace(account, spent_loss=Fraction(0), spent_delta=Fraction(0), spent_epsilon=Fraction(0))
    window = under(fresh, (Fraction(allowance.epsilon), account.delta))
    entry = store.charge_before(2**62, *key)
    while entry is not None and allowance.window(_clock(entry)) >= allowance.window(clock):
        if prices := entry.read()["price"]:
            window = window.spend(_in_currency(window, charge_from_json(account.currency, prices[-1])))
        entry = store.charge_before(entry.number, *key)
    cost = _in_currency(window, charge_from_json(account.currency, due))
    if not window.fits(cost):
        share = takes(window, cost)
        raise AllowanceError(
            f"takes {percent(share)} of the ε={figure(Fraction(allowance.epsilon))} that {key[1]} may spend every "
            f"{allowance.every} on {key[0]}, but {percent(1 - window.share_spent)} is left until "
            f"{allowance.next_window(clock)}; lower epsilon, or wait. Nothing was charged"
        )


def _in_currency(window: Filter, charge: filters.Charge) -> filters.Charge:
    """Return a charge in the currency of a window, which sums ε alone where the account's order is of no use.

    A charge without a largest loss, as of Gaussian noise, then costs more than the window has.
    """
    if charge.currency == window.currency:
        return charge
    epsilon = window.epsilon + 1 if charge.epsilon is None else charge.epsilon
    return filters.Charge(currency=window.currency, loss=epsilon, delta=charge.delta, epsilon=epsilon)
