"""Reading a ledger: budgets, charges and acts, computed from public entries alone, never from data.

*How many more counts is that?* A count with Laplace noise of scale b = 1/ε (sensitivity 1) is off by more than t with
probability e^{-t/b} (THEORY, item 12), so a count good to ±t at confidence 1-β needs ε = ln(1/β)/t: at ±50 and 95%,
ε = 0.0599. The number that fits is what is left of the limit divided by the price of one count in the account's
own currency; for a Rényi account this is far more than what is left in ε divided by that ε.

**Acts beside budgets**, such as who let whom in, are entries of the chain that move no budget. An act has an identity,
under which it is recorded once: after a doubt whether it was, it is recorded again. What can happen more than once
under one identity, such as a policy that comes into force, is recorded when it differs from the last time.

>>> from hush.accounting import LaplaceEvent
>>> from hush.ledger import Actor, Ledger
>>> ledger, owner = Ledger.in_memory(), Actor.owner("Dr Weiss")
>>> ledger.create_data("clinic", {"epsilon": 1}, actor=owner)
>>> ledger.add_analyst("alice", data="clinic", actor=owner)
>>> asked = {"analyst": "alice", "data": "clinic", "question": "SELECT COUNT(*) FROM visits"}
>>> charge = ledger.reserve("q1", **asked, events=[LaplaceEvent(scale=4)])
>>> ledger.budget(owner)                                  # a list of AccountView
the budget of clinic (ε=1): 25% is spent, 75% is left, 1 pending
>>> ledger.history(owner)[0]                              # a Release
<4: alice on clinic, ..., 25% of the budget of clinic, pending: SELECT COUNT(*) FROM visits>
>>> added = OwnerAct(identity="a1", by="Dr Weiss", what="add-person", whom="alice", detail={"roles": "analyst"})
>>> ledger.record(added), ledger.record(added)
(True, False)
>>> print(ledger.acts(owner)[-1])                         # an Act
added alice (roles: analyst)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from hush.accounting.events import LaplaceEvent
from hush.accounting.filters import Amount, Filter, filter_from_json
from hush.core import InvalidValueError, Number, fraction_between, positive
from hush.core.format import ToldInLines, decimal, figure, percent
from hush.ledger.budgets import Lowered, budget_of, price, times, under
from hush.ledger.chain import Chain
from hush.ledger.charging import bound_by, charge_shares
from hush.ledger.entries import Actor, Entry, Role, label
from hush.ledger.errors import UnknownReceiptError
from hush.ledger.state import Key
from hush.storage import alive

if TYPE_CHECKING:
    from hush.core.chart import Chart

_SHOWN = 3
_QUESTION = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """A data set's budget, or an analyst's on it."""

    data: str
    analyst: str | None
    """None for the data set itself."""
    account: Filter
    """The filter, with its kind, limit and exact state; the part set aside for streams counts as spent."""
    pending: int
    """How many charges have no outcome yet, those of dead processes among them."""
    removed: bool = False
    """Whether the policy no longer names this analyst: their charges stay, and they cannot ask."""
    charged: Filter | None = None
    """The filter without the part set aside for streams; None if nothing is set aside."""

    @property
    def epsilon(self) -> Fraction:
        """The budget's ε."""
        return self.account.epsilon

    @property
    def delta(self) -> Fraction:
        """The budget's δ."""
        return self.account.delta

    @property
    def spent(self) -> Amount:
        """The amount spent, on the scale of one pure step."""
        return (self.charged or self.account).spent

    @property
    def set_aside(self) -> Fraction:
        """The share of the budget that is set aside for streams, and not spent yet."""
        return Fraction(0) if self.charged is None else self.account.share_spent - self.charged.share_spent

    @property
    def remaining(self) -> Amount:
        """The amount left, on the scale of one pure step."""
        return self.account.remaining()

    def counts(self, *, error: Number = 50, confidence: Number = "0.95") -> int:
        """Return how many more counts fit that are good to ±``error`` at this confidence."""
        return counts(self.account, error=error, confidence=confidence)

    def to_json(self, *, details: bool = False) -> dict[str, Any]:
        """Return the account as plain JSON values; amounts are exact texts.

        Only ``details`` have the ε and δ spent: like all sums of the accountant they may exceed a lowered budget, and
        do not add up with the amounts that remain.
        """
        told = {
            name: {"epsilon": decimal(amount.epsilon), "delta": decimal(amount.delta), "share": float(amount.share)}
            for name, amount in (("spent", self.spent), ("remaining", self.remaining))
        }
        if not details:
            told["spent"] = {"share": told["spent"]["share"]}
        return {
            "data": self.data,
            "analyst": self.analyst,
            "kind": self.account.kind,
            "budget": {"epsilon": decimal(self.epsilon), "delta": decimal(self.delta)},
            **told,
            "delta_for_keys": decimal(self.account.reserve),
            "set_aside": float(self.set_aside),
            "pending": self.pending,
        }

    @property
    def whose(self) -> str:
        """The name of the budget, for people to read."""
        return budget_of((self.data, self.analyst or ""))

    def __str__(self) -> str:
        """Return the state in a line: the shares are of the whole budget, and add up to 100 %."""
        line = f"{self.whose} ({_budget(self.account)}): {percent(self.spent.share)} is spent"
        line += f", {percent(self.set_aside)} is set aside for streams" if self.set_aside else ""
        line += f", {percent(self.remaining.share)} is left"
        return line + (f", {self.pending} pending" if self.pending else "") + (", removed" if self.removed else "")

    def __repr__(self) -> str:
        """Return the state in a line."""
        return f"<{self}>"


class Budgets(ToldInLines, list[AccountView]):
    """Accounts, as terminals and notebooks show them."""

    def lines(self) -> list[str]:
        """Return a line for each account."""
        return list(map(str, self))

    def chart(self) -> Chart:
        """Return a chart with a bar for each budget, divided into the shares spent, set aside and left."""
        from hush.core.chart import ChartAxis, ChartBar, bar_chart

        colours = {"spent": "c1", "set aside": "c4", "left": "h1"}
        if not any(view.set_aside for view in self):
            del colours["set aside"]
        labels, bars = [], []
        for row, view in enumerate(self):
            labels.append(view.whose + " (removed)" * view.removed)
            left, aside, start = float(view.remaining.share), float(view.set_aside), 0.0
            for part, end in (("spent", 1 - left - aside), ("set aside", 1 - left), ("left", 1.0)):
                tooltip = f"{labels[-1]}, {_budget(view.account)}: {percent(end - start)} {part}"
                if end > start:
                    bars.append(ChartBar(row=row, start=start, end=end, classes=colours[part], tooltip=tooltip))
                start = end
        quarters = [(part / 4, f"{25 * part}%") for part in range(5)]
        axis = ChartAxis(name="share of the budget", low=0, high=1, ticks=quarters)
        subtitle = "which share of each is spent, and which is left"
        return bar_chart(labels, bars, axis, title="Budgets", subtitle=subtitle, legend=[*colours.items()])

    plot = chart


def counts(account: Filter, *, error: Number = 50, confidence: Number = "0.95") -> int:
    """Return how many counts, each within ±error at the confidence, fit into an account's remaining budget."""
    width, sure = positive(error, "error"), fraction_between(confidence, "confidence")
    # ε = ln(1/β)/t, rounded up to a short decimal: the count is then a little better than asked for, never worse.
    epsilon = math.log(1 / (1 - sure)) / float(width)
    rounded = Fraction(math.ceil(epsilon * 2**40) + 1, 2**40)
    return times(account, price(account, [LaplaceEvent(scale=1 / rounded)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One charge and its outcome."""

    number: int
    request: str
    analyst: str
    data: str
    when: str
    question: str
    question_hash: str
    events: list[dict[str, Any]]
    """The released events as JSON, so that the charge can be accounted for again at any time."""
    price: list[dict[str, str]]
    """The exact price to the data set's account, then to the analyst's if it has one."""
    share: float
    """The share of the data set's budget that it took, of the budget of that day; 0 for a shared answer."""
    own_share: float | None = None
    """The share of the analyst's own budget that it took; None without one."""
    of: str = ""
    """The name of the budget that bound it: the data set's, or the analyst's own."""
    shares: dict[str, dict[str, Any]] = field(default_factory=dict)
    """For each budget the share that it took and that it left, and the budget's ε and δ on that day."""
    outcome: str
    """``answered``, ``failed``, ``pending``, or ``abandoned``: its process is dead. All are charged.

    ``shared`` is another analyst's answer, charged to this one's own account alone.
    """
    epsilon: str | None = None
    """The ε that the analyst stated; None without one, as for Gaussian noise of a given σ."""
    finished: str | None
    reason: str | None

    @property
    def took(self) -> float:
        """The share that it took of the budget that bound it; 0 for a shared answer that cost nothing."""
        return float(self.shares[self.of]["took"]) if self.of else 0.0

    @property
    def who(self) -> str:
        """The analyst, or for a release of a declared stream its request id."""
        return self.analyst or self.request

    def __repr__(self) -> str:
        """Return the charge in a line."""
        return (
            f"<{self.number}: {self.who} on {self.data}, {self.when[:19]}, "
            f"{percent(self.took, taken=True)} of {self.of}, {self.outcome}: {shorten(self.question, 80)}>"
        )


WORDS = {
    "add-person": "added",
    "remove-person": "removed",
    "change-roles": "changed the roles of",
    "make-link": "made a one-time link for",
    "make-token": "made a token for",
    "revoke-token": "revoked a token of",
    "set-password": "set the password of",
    "sign-out": "ended all sessions of",
    "bind-identity": "bound an account at the provider to",
    "unbind-identity": "took the account at the provider from",
    "suspend-person": "suspended",
    "set-factor": "set up the second factor of",
    "drop-factor": "turned off the second factor of",
    "restore-people": "restored the people of the service",
    "write-policy": "wrote the policy",
    "read-rows": "looked at the first rows of a file",
    "propose": "proposed",
    "confirm": "confirmed the proposal of",
    "policy": "the policy came into force",
}
"""The kinds of acts, and their words in reports; no kind is ever removed, because old entries name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerAct:
    """Something that somebody did around a service."""

    identity: str
    """The act is recorded once under this identity."""
    by: str
    what: str
    """One of `WORDS`."""
    whom: str = ""
    """Whom it concerns."""
    detail: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    """The time of the act, if it was earlier than its record; empty for the time of the record."""

    def __post_init__(self) -> None:
        label(self.identity, "identity")
        label(self.by, "by")
        if self.what not in WORDS:
            raise InvalidValueError("what", got=self.what, allowed=f"one of {', '.join(WORDS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something an owner did."""

    number: int
    kind: str
    by: str
    when: str
    data: str
    analyst: str
    detail: dict[str, Any]

    def __str__(self) -> str:
        """Return the act with its figures and its reason, in words."""
        reason = f": {self.detail['reason']}" if self.detail.get("reason") else ""
        who = f"{self.analyst} on {self.data}" if self.analyst else self.data
        match self.kind:
            case "ledger":
                return f"made the ledger{', anew' if reason else ''}{reason}"
            case "data" | "analyst" | "raise":
                done = {"data": "opened", "analyst": "added", "raise": "raised"}[self.kind]
                state = self.detail["accounts"][0]["state"]
                budget = "no budget of their own" if state is None else _budget(filter_from_json(state))
                return f"{done} {who}: {budget}{reason}"
            case "restored":
                lost = self.detail.get("lost", "none")
                told = lost if isinstance(lost, str) else ", ".join(f"ε={event.get('epsilon')}" for event in lost)
                return f"restored a copy that lacks {told}{reason}"
            case "act":
                more = "; ".join(f"{name}: {value}" for name, value in self.detail.get("of", {}).items())
                what = WORDS.get(self.detail["act"], self.detail["act"])
                return f"{what} {self.detail.get('whom', '')}".strip() + (f" ({more})" if more else "")
            case "requested":
                wanted, price = self.detail.get("wanted"), self.detail.get("epsilon")
                asked = f"a budget of ε={wanted}" if wanted else f"a question{f' for ε={price}' if price else ''}"
                return f"asked for {asked} on {self.data}{reason}"
            case "standing" | "ended":
                what = "set aside for" if self.kind == "standing" else "stopped"
                return f"{what} the stream {self.detail['name']} on {self.data}{reason}"
            case _:  # approved, declined
                return f"{self.kind} request {self.detail['of']} of {who}{reason}"


def _budget(account: Filter) -> str:
    return f"ε={figure(account.epsilon)}" + (f", δ={figure(account.delta)}" if account.delta else "")


def budget(
    chain: Chain, actor: Actor, lowered: Lowered, granted: Mapping[Key, Filter | None], named: Collection[Key] | None
) -> Budgets:
    """Return the accounts that an actor may see, data sets first, under the smaller budgets that hold now.

    ``granted`` are accounts that the first charge opens. Of analysts who are not ``named`` it says so.
    """
    with chain.reading() as state:
        accounts, pending = dict(granted) | dict(state.accounts), list(state.pending.values())
        committed = {key: state.committed(key) for key in {(plan.data, "") for plan in state.streams.values()}}
    mine = {data for data, analyst in accounts if analyst and actor.sees(analyst)}
    waiting = Counter([*(key for key in pending if key[1]), *((data, "") for data, _ in pending)])
    return Budgets(
        AccountView(
            data=data,
            analyst=analyst or None,
            account=under(committed.get((data, analyst)) or account, lowered.get((data, analyst))),
            charged=under(account, lowered.get((data, analyst))) if (data, analyst) in committed else None,
            pending=waiting[data, analyst],
            removed=bool(analyst) and named is not None and (data, analyst) not in named,
        )
        for (data, analyst), account in sorted(accounts.items(), key=lambda item: item[0])
        if account is not None and (actor.sees(analyst) if analyst else data in mine or actor.sees(""))
    )


def history(chain: Chain, actor: Actor, *, data: str | None, limit: int | None) -> list[Release]:
    """Return charges, newest first."""
    analyst = None if actor.role is Role.OWNER else actor.name
    with chain.reading():
        charges = chain.store.charges(data, analyst, limit)
        outcomes = chain.store.outcomes(charges[-1].number) if charges else {}
        return [_release(chain, entry, outcomes.get(entry.number)) for entry in charges]


def receipt(chain: Chain, actor: Actor, number: int) -> tuple[Release, Entry]:
    """Return one charge that an actor may see, and its entry."""
    with chain.reading():
        entry = chain.store.entry(number) if 0 < number < 2**63 else None
        if entry is None or entry.kind not in {"reserve", "shared"} or not actor.sees(entry.analyst):
            raise UnknownReceiptError(number)
        return _release(chain, entry, chain.store.outcome(number)), entry


def _release(chain: Chain, entry: Entry, outcome: Entry | None) -> Release:
    content, shares = entry.read(), charge_shares(chain, entry)
    bound = bound_by(shares)
    own = shares.get((entry.data, entry.analyst)) if entry.analyst else None
    result = {} if outcome is None else outcome.read()
    state = "pending"
    if outcome is not None or entry.kind == "shared":
        state = "shared" if outcome is None else outcome.kind
    elif alive(content["process"]) is False:
        state = "abandoned"
    facts: dict[str, Any] = {name: getattr(entry, name) for name in ("number", "request", "analyst", "data")}
    facts |= {name: content[name] for name in ("when", "question", "question_hash", "events", "price")}
    taken = {}
    for key, share in shares.items():
        exact = {"epsilon": decimal(share.epsilon), "delta": decimal(share.delta)}
        taken[budget_of(key)] = {"took": float(share.took), "left": float(share.left), **exact}
    facts |= {"epsilon": content.get("epsilon"), "finished": result.get("when"), "reason": result.get("reason")}
    return Release(
        **facts,
        share=float(shares[entry.data, ""].took) if (entry.data, "") in shares else 0.0,
        own_share=None if own is None else float(own.took),
        of="" if bound is None else budget_of(bound[0]),
        shares=taken,
        outcome=state,
    )


def acts(chain: Chain) -> list[Act]:
    """Return the acts of owners, oldest first."""
    with chain.reading():
        entries = chain.store.acts()
    listed = []
    for entry in entries:
        detail = entry.read()
        if entry.kind in {"standing", "ended"}:
            detail["name"] = entry.request
        who = {"by": detail.pop("by"), "when": detail.pop("when"), "data": entry.data, "analyst": entry.analyst}
        listed.append(Act(number=entry.number, kind=entry.kind, **who, detail=detail))
    return listed


def heaviest(chain: Chain, key: Key, actor: Actor) -> str:
    """Return a sentence on which charges took most of a budget; other analysts' questions are not shown."""
    parts = []
    with chain.reading():
        for entry in chain.store.heaviest(*key, _SHOWN):
            content = entry.read()
            share = charge_shares(chain, entry)[key].took
            text = shorten(content["question"], _QUESTION, placeholder="…")
            what = f"receipt {entry.number}: {text}" if actor.sees(entry.analyst) else "another analyst's question"
            parts.append(f"{percent(share, taken=True)} on {content['when'][:10]} ({what})")
    return f". Most was spent by: {'; '.join(parts)}." if parts else "."
