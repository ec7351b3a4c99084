"""One scale for a budget: shares. What a question took, what is left, how many more like it fit.

An account keeps exact sums in its own currency, and a loss in that currency is no ε of anybody's question. So whatever
people are shown is a share of the budget, from 0 to 1: `Filter.share_spent` of the account. A charge *took* the
difference between the share spent after it and before it, both under the budget that holds now. These differences add
up: all that charges took, and what is left, are the whole budget. (By itself a charge may be worth more than it took:
where small losses compose better than they add, a charge among many takes less of a budget than it would alone.)

>>> from hush.accounting import LaplaceEvent
>>> from hush.ledger import Budget
>>> outlook([Whose(name="alice's budget", account=Budget(epsilon="1").open())], [LaplaceEvent(scale=4)])
Outlook(whose="alice's budget", takes=Fraction(1, 4), left=Fraction(1, 1), more=4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.accounting.events import Event
from hush.accounting.filters import Charge, Filter, filter_from_json
from hush.core import HushError
from hush.core.format import figure
from hush.core.values import dataclass
from hush.ledger.book import Key
from hush.ledger.budgets import price
from hush.ledger.chain import Chain
from hush.ledger.entries import Entry, damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """An account, and whose budget it keeps."""

    name: str
    account: Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a charge took of the budget that has least left, and how much that is now."""

    whose: str
    took: Fraction
    left: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {"of": self.whose, "took": float(self.took), "left": float(self.left)}

    def __str__(self) -> str:
        """Return both figures in words."""
        return f"{percent(self.took)} of {self.whose}; {percent(self.left)} of it is left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a question would take of the budget that ends first, if it were asked now."""

    whose: str
    takes: Fraction
    left: Fraction
    more: int
    """How often it could be asked."""

    def __str__(self) -> str:
        """Return the outlook in words."""
        if not self.more:
            return f"does not fit into {self.whose}, of which {percent(self.left)} is left"
        times = "once" if self.more == 1 else f"about {self.more:,} times"
        return (
            f"takes {percent(self.takes)} of {self.whose}, of which {percent(self.left)} is left: enough for it {times}"
        )


def percent(share: Fraction) -> str:
    """Return a share as per cent, to three digits.

    >>> percent(Fraction(1, 30)), percent(Fraction(1))
    ('3.33%', '100%')
    """
    return f"{figure(100 * share, digits=3)}%"


def outlook(accounts: Sequence[Whose], events: Sequence[Event]) -> Outlook | None:
    """Return what events would take of the account that has room for them least often; None without an account."""
    found = [_outlook(whose, price(whose.account, events)) for whose in accounts]
    return min(found, key=lambda one: (one.more, -one.takes), default=None)


def _outlook(whose: Whose, charge: Charge) -> Outlook:
    account = whose.account
    before = account.share_spent
    return Outlook(
        whose=whose.name,
        takes=account.spend(charge).share_spent - before,
        left=1 - before,
        more=times(account, charge),
    )


def times(account: Filter, charge: Charge) -> int:
    """Return how often a charge fits into what is left of an account."""
    most = _times(account.limit - account.spent_loss, charge.loss)
    if account.spent_epsilon is not None and charge.epsilon is not None:  # admitted by whichever sum has room
        most = max(most, _times(account.epsilon - account.spent_epsilon, charge.epsilon))
    return min(most, _times(account.reserve - account.spent_delta, charge.delta))


def _times(room: Fraction, cost: Fraction) -> int:
    endless = 2**62
    return min(max(int(room // cost), 0), endless) if cost else endless


def spending(charges: Sequence[tuple[Whose, Fraction]]) -> Spending | None:
    """Return what was taken of the account that has least left; each comes with the share that the charge took."""
    found = [Spending(whose=whose.name, took=took, left=1 - whose.account.share_spent) for whose, took in charges]
    return min(found, key=lambda one: one.left, default=None)


def took(chain: Chain, entry: Entry, key: Key, now: Filter) -> Fraction:
    """Return the share of an account that a charge took, under the budget that holds ``now``; 0 if it took nothing."""
    after = _state(entry, key)
    if after is None:
        return Fraction(0)
    before, earlier = None, entry
    while before is None:
        previous = chain.store.previous(earlier.number, key[0])
        if previous is None:
            raise damaged(entry.number, "it charges an account that nobody opened")
        before, earlier = _state(previous, key), previous
    return _share(after, now) - _share(before, now)


def _share(state: Filter, now: Filter) -> Fraction:
    """Return the share of today's budget that a state of the past had spent."""
    loss, summed = state.spent_loss, state.spent_epsilon
    if now.currency != state.currency:  # a budget lowered so far that only the sum of ε counts
        loss = now.epsilon if summed is None else summed
    return replace(now, spent_loss=loss, spent_delta=state.spent_delta, spent_epsilon=summed).share_spent


def _state(entry: Entry, key: Key) -> Filter | None:
    """Return the state of an account after an entry; None if the entry does not change it."""
    try:
        for state in entry.read().get("accounts", ()):
            if (state["data"], state["analyst"]) == key and state["state"] is not None:
                return filter_from_json(state["state"])
    except (KeyError, TypeError, HushError) as error:
        raise damaged(entry.number, "its accounts cannot be read") from error
    return None


def budget_of(key: tuple[str, str]) -> str:
    """Return whose budget an account keeps, in words: that of an analyst, or of a data set."""
    return f"{key[1]}'s budget" if key[1] else f"the budget of {key[0]}"
