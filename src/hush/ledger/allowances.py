"""Allowances: how much of a budget may be spent in one hour, day, week, month or year. A rate limit, never a reset.

An allowance lies inside the lifetime budget. A charge must fit the lifetime accounts first, whatever time it is; then
the charges of the present window and the new one must fit an account of the same currency with the allowance's ε. So no
order of windows, restarts or clocks can let the lifetime sum pass its limit: the allowance only ever refuses more.

*Which window is it?* The ledger's clock never goes back: it is the latest of the system's clock, the last charge's on
the data set, and the analyst's own last charge's (those of analysts without an allowance have the system's time alone).
A clock that is set back stays in the window it was in, and what was spent there stays spent; a clock that
is set forward opens windows early, within the lifetime budget. A restored copy brings the times of its charges along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from hush.accounting.filters import Charge, Filter
from hush.core import BudgetExceededError, InvalidValueError, Number, positive
from hush.core.format import figure
from hush.core.values import assign, dataclass
from hush.ledger.book import Key
from hush.ledger.budgets import under
from hush.ledger.entries import Entry
from hush.ledger.rules import charge_from_json
from hush.ledger.stores import Store

EVERY = ("hour", "day", "week", "month", "year")


class AllowanceError(BudgetExceededError):
    """The budget would suffice, but not what may be spent of it at this time."""

    code = "allowance-exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """An ε for every window of time.

    >>> Allowance(epsilon="1", every="month").window("2026-11-16T09:00:00.000000Z")
    '2026-11'
    """

    epsilon: Number
    every: str

    def __post_init__(self) -> None:
        assign(self, epsilon=positive(self.epsilon, "epsilon"))
        if self.every not in EVERY:
            raise InvalidValueError("every", got=self.every, allowed=f"one of {', '.join(EVERY)}")

    def window(self, clock: str) -> str:
        """Return the name of the window in which a moment lies; later windows sort after earlier ones."""
        if self.every == "week":
            year, week, _ = datetime.fromisoformat(clock).isocalendar()
            return f"{year:04}-W{week:02}"
        return clock[: {"hour": 13, "day": 10, "month": 7, "year": 4}[self.every]]

    def next_window(self, clock: str) -> str:
        """Return when the next window begins: the first hour whose window is another one."""
        moment = datetime.fromisoformat(clock).replace(minute=0, second=0, microsecond=0)
        while self.window(moment.isoformat()) == self.window(clock):
            moment += timedelta(hours=1)
        return moment.strftime("%Y-%m-%d %H:%M UTC")


def ledger_clock(store: Store, key: Key, now: str, head: int) -> str:
    """Return the time by the ledger's clock, which never goes back for an analyst (inside a lock)."""
    last = store.previous(head + 1, key[0]), store.charge_before(head + 1, *key)
    return max([now, *(_clock(entry) for entry in last if entry is not None)])


def _clock(entry: Entry) -> str:
    content = entry.read()
    return max(str(content.get("clock", "")), str(content.get("when", "")))


def check(store: Store, allowance: Allowance, key: Key, account: Filter, charge: Charge, *, clock: str) -> None:
    """Refuse a charge that, with the others of the present window, is more than the allowance (inside a lock)."""
    fresh = replace(account, spent_loss=Fraction(0), spent_delta=Fraction(0), spent_epsilon=Fraction(0))
    window = under(fresh, Fraction(allowance.epsilon), account.delta)
    if window.currency != account.currency:  # so small that only the sum of ε counts
        raise AllowanceError(_refusal(allowance, key, clock, None))
    for earlier in _charges(store, allowance, key, account, clock):
        window = window.spend(earlier)
    if not window.fits(charge):
        raise AllowanceError(_refusal(allowance, key, clock, window))


def _charges(store: Store, allowance: Allowance, key: Key, account: Filter, clock: str) -> Iterator[Charge]:
    """Yield what was charged to an analyst in the present window, newest first."""
    entry = store.charge_before(2**62, *key)
    while entry is not None and allowance.window(_clock(entry)) >= allowance.window(clock):
        prices = entry.read()["price"]
        if prices:
            yield charge_from_json(account, prices[-1])
        entry = store.charge_before(entry.number, *key)


def _refusal(allowance: Allowance, key: Key, clock: str, window: Filter | None) -> str:
    left = "nothing" if window is None else f"ε={figure(window.remaining().epsilon)}"
    return (
        f"{key[1]} may spend ε={figure(Fraction(allowance.epsilon))} every {allowance.every} on {key[0]}, of which "
        f"{left} is left at once until {allowance.next_window(clock)}; lower epsilon, or wait. Nothing was charged"
    )
