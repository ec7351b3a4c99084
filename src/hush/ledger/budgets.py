"""Budgets: the (ε, δ) that an owner grants, and the filter that enforces it.

An account is a filter of :mod:`hush.accounting.filters`; each is valid when the analyst picks every next question after
seeing all earlier answers, by the theorem in its docstring. A pure ε is a sum. An (ε, δ) budget is kept by the Rényi
filter at one order, fixed when the account is opened and never changed after; zCDP and GDP by choice.

*Raising* a budget (``Filter.raised``) moves the limit; docs/ledger.md says how the promise is then to be read.
*Lowering* one changes no entry: a ledger may be told of smaller budgets (``Ledger.lower``), and from then on a question
must fit those as well. `under` is the account with the same spendings and the smaller budget, at the same order. It is
a filter in its own right, so where the spendings fit it the smaller (ε, δ) holds for everything released so far; where
they do not, nothing more is released.

The *price* of a list of events depends on the events and on how the account was opened, never on data nor on what was
spent. So it is computed before any lock is taken, and remembered.

*Shares* are the one scale of a budget that people see (docs/budget.md; `Filter.share_used` has the rule), in whole
thousandths of a per cent: what a question took is the share spent after it less the share spent before it. Where a
question is charged to two accounts, the one that *binds* is shown: that of which it takes the larger part of what is
left.

>>> Budget(epsilon="4").open().limit
Fraction(4, 1)
>>> Budget.parse({"epsilon": "1", "delta": "1e-6"}).open().kind
'renyi'
>>> from hush.accounting import LaplaceEvent
>>> outlook([Whose(name="alice's budget", account=Budget(epsilon="1").open())], [LaplaceEvent(scale=4)])
Outlook(whose="alice's budget", takes=Fraction(1, 4), left=Fraction(1, 1), more=4, falls=None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Literal, NamedTuple, cast

from hush.accounting.events import ApproximateDPEvent, Event, event_from_json
from hush.accounting.filters import PARTS, Charge, Filter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter, bounded, plus
from hush.core import InvalidValueError, Number, nonnegative, positive, probability
from hush.core.format import decimal, figure, percent
from hush.core.numbers import assign

Kind = Literal["auto", "pure", "renyi", "zcdp", "gdp"]

LARGEST_EPSILON = 10**100
"""The largest budget; a guarantee is empty long before this ε."""

_FILTERS: Mapping[str, Any] = {"pure": PureFilter, "renyi": RenyiFilter, "zcdp": ZCDPFilter, "gdp": GDPFilter}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An (ε, δ) and the kind of filter that keeps it; ``auto`` is a sum for δ = 0 and Rényi otherwise."""

    epsilon: Number
    delta: Number = 0
    kind: Kind = "auto"
    alpha: Number | None = None
    """The order of a Rényi filter; by default hush chooses one for many small steps."""

    def __post_init__(self) -> None:
        epsilon = nonnegative(self.epsilon, "epsilon")
        if epsilon > LARGEST_EPSILON:  # also so that it is a float, and so are its square and its exponent's logarithm
            raise InvalidValueError("epsilon", got=self.epsilon, allowed="a number from 0 to 1e100")
        assign(self, epsilon=epsilon, delta=probability(self.delta, "delta"))
        if self.kind not in {"auto", *_FILTERS}:
            raise InvalidValueError("kind", got=self.kind, allowed=f"one of auto, {', '.join(_FILTERS)}")
        if self.alpha is not None and self._kind != "renyi":
            raise InvalidValueError("alpha", got=self.alpha, allowed="given with a Rényi budget only")

    @property
    def _kind(self) -> str:
        usual = "renyi" if self.delta else "pure"
        return usual if self.kind == "auto" else self.kind

    @classmethod
    def parse(cls, value: object, parameter: str = "budget") -> Budget:
        """Return the budget that a policy writes as ``{ epsilon = "4", delta = "1e-7" }``."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and set(value) <= {"epsilon", "delta", "kind", "alpha"} and "epsilon" in value:
            return cls(**value)
        raise InvalidValueError(parameter, got=value, allowed='a budget such as {"epsilon": "1", "delta": "1e-6"}')

    def open(self) -> Filter:
        """Return a fresh account."""
        order = {"alpha": self.alpha} if self._kind == "renyi" else {}
        account: Filter = _FILTERS[self._kind].open(epsilon=self.epsilon, delta=self.delta, **order)
        return account


EVERY = ("hour", "day", "week", "month", "year")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """An ε for every window of time, within a budget (:mod:`hush.ledger.charging`).

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
        # Moments are texts in UTC, so a window is the beginning of its moments' texts.
        return clock[: {"hour": 13, "day": 10, "month": 7, "year": 4}[self.every]]

    def next_window(self, clock: str) -> str:
        """Return the moment at which the next window begins: the first full hour in another window."""
        moment = datetime.fromisoformat(clock).replace(minute=0, second=0, microsecond=0)
        while self.window(moment.isoformat()) == self.window(clock):
            moment += timedelta(hours=1)
        return moment.strftime("%Y-%m-%d %H:%M UTC")


Lowered = Mapping[tuple[str, str], tuple[Fraction, Fraction]]
"""Smaller budgets, as (ε, δ), by data set and analyst."""


def under(account: Filter, limit: tuple[Fraction, Fraction] | None) -> Filter:
    """Return the account as if it had been opened with a smaller budget (ε, δ); unchanged if that is not smaller.

    Where the account's order is of no use at the smaller budget, what remains is the sum of ε.
    """
    if limit is None:
        return account
    less, slip = min(account.epsilon, limit[0]), min(account.delta, limit[1])
    if (less, slip) == (account.epsilon, account.delta):
        return account
    reserve = account.reserve * slip / account.delta if account.delta else account.reserve
    try:
        return replace(account, epsilon=less, delta=slip, reserve=reserve)
    except InvalidValueError:
        # Without a finite sum of ε the smaller budget counts as used up.
        summed = less if account.spent_epsilon is None else account.spent_epsilon
        spent = {"spent_loss": summed, "spent_delta": account.spent_delta, "spent_epsilon": summed}
        return PureFilter(epsilon=less, delta=slip, reserve=reserve, **spent)


def exhausted(account: Filter) -> Filter:
    """Return the account with nothing left, in which nothing comes back with a raise either.

    What was admitted by its sum of ε may have cost more than the limit, but no more than one pure step of the whole ε:
    the loss of a pure step grows at least in proportion to its ε.
    """
    budget = account.price(ApproximateDPEvent(epsilon=account.epsilon, delta=account.delta)).loss
    return replace(
        account,
        spent_loss=max(account.spent_loss, account.limit, budget),
        spent_delta=max(account.spent_delta, account.reserve),
        spent_epsilon=None,
    )


def takes(account: Filter, charge: Charge) -> Fraction:
    """Return the share of an account that a charge would take now; more than is left where it does not fit."""
    return account.spend(charge).share_used - account.share_used


_REMEMBERED = 8192
_prices: dict[tuple[str, Event], Charge] = {}


def event_list(events: object) -> tuple[Event, ...]:
    """Return the events of one question; at least one, for nothing is free."""
    if isinstance(events, Event):
        return (events,)
    if isinstance(events, (str, bytes)) or not isinstance(events, Sequence) or not events:
        raise InvalidValueError("events", got=events, allowed="the events of at least one mechanism")
    for event in events:
        if not isinstance(event, Event):
            raise InvalidValueError("events", got=event, allowed="events, each saying which mechanism runs")
    return tuple(events)


def price(account: Filter, events: Sequence[Event]) -> Charge:
    """Return the sum of the events' prices. Every event costs something on its own: a charge of nothing is refused."""
    loss, delta, epsilon = Fraction(0), Fraction(0), cast("Fraction | None", Fraction(0))
    for event in events:
        key = (account.currency, event)  # a charge is good for every account of its currency
        if (charge := _prices.get(key)) is None:
            if event_from_json(event.to_json()) != event:  # what is stored must be what is priced
                raise InvalidValueError("events", got=event, allowed="an event that reads back from JSON as itself")
            if len(_prices) >= _REMEMBERED:  # analysts choose the events, so the cache must be bounded
                _prices.clear()
            charge = _prices[key] = account.price(event)
        loss, delta, epsilon = loss + charge.loss, delta + charge.delta, plus(epsilon, charge.epsilon)
    # Rounded up where a figure would be too long to be stored and read back.
    epsilon = None if epsilon is None else bounded(epsilon)
    return Charge(currency=account.currency, loss=bounded(loss), delta=bounded(delta), epsilon=epsilon)


class Whose(NamedTuple):
    """An account, with the name of its budget for messages."""

    name: str
    account: Filter


@dataclass(frozen=True, slots=True)
class Taken:
    """The share of an account that a charge took, and the share it left, of the budget of that day, as in entries.

    >>> Taken(Fraction(4), Fraction(0), Fraction(1, 8), Fraction(1, 2)).to_json()
    {'epsilon': '4', 'delta': '0', 'took': 12500, 'left': 50000}
    """

    epsilon: Fraction
    """The budget of that day: a raise changes no entry of before."""
    delta: Fraction
    took: Fraction
    left: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return the shares as whole numbers of parts."""
        parts = {"took": int(self.took * PARTS), "left": int(self.left * PARTS)}
        return {"epsilon": str(self.epsilon), "delta": str(self.delta), **parts}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Taken:
        """Return the shares that `to_json` wrote."""
        took, left = Fraction(content["took"], PARTS), Fraction(content["left"], PARTS)
        return cls(Fraction(content["epsilon"]), Fraction(content["delta"]), took, left)


class Spending(NamedTuple):
    """The share that a charge took of the budget that bound it, and the share that is left."""

    whose: str
    took: Fraction
    left: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {"of": self.whose, "took": float(self.took), "left": float(self.left)}

    def __str__(self) -> str:
        """Return both figures in words."""
        return f"{percent(self.took, taken=True)} of {self.whose}; {percent(self.left)} of it is left"


class Outlook(NamedTuple):
    """The share that a question would take now of the budget that binds it."""

    whose: str
    takes: Fraction
    left: Fraction
    """The share that is left before it."""
    more: int
    """The number of times that the question still fits."""
    falls: tuple[Fraction, Fraction] | None = None
    """The largest single price that fits now, and then; None where it falls no more than the share that is left."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        falls = None if self.falls is None else [decimal(price) for price in self.falls]
        shares = {"takes": float(self.takes), "left": float(self.left)}
        return {"of": self.whose, **shares, "times": self.more, "largest_price_falls": falls}

    def __str__(self) -> str:
        """Return the outlook in words."""
        share, left = percent(self.takes, taken=True), percent(self.left)
        if not self.more:
            return f"does not fit: it takes {share} of {self.whose}, of which {left} is left"
        enough = "once" if self.more == 1 else f"about {self.more:,} times"
        told = f"takes {share} of {self.whose}, of which {left} is left: enough for it {enough}"
        if self.falls is None:
            return told
        now, then = (figure(price, digits=3) for price in self.falls)
        return f"{told}; the largest price of a single question that fits falls from ε={now} to ε={then}"


def outlook(accounts: Sequence[Whose], events: Sequence[Event]) -> Outlook | None:
    """Return the outlook of the account that binds a question; None without an account."""
    outlooks = []
    for whose in accounts:
        account, charge = whose.account, price(whose.account, events)
        left, share, more, falls = 1 - account.share_spent, takes(account, charge), times(account, charge), None
        if more:
            # One pure step: in proportion to the share where sums of ε bind, slower where losses do. It falls faster
            # where the question closes the sum of ε for ever, as Gaussian noise does: told from a hundredth on.
            now, then = account.remaining().epsilon, account.spend(charge).remaining().epsilon
            falls = (now, then) if then * left < Fraction(99, 100) * now * (left - share) else None
        outlooks.append(Outlook(whose=whose.name, takes=share, left=left, more=more, falls=falls))
    if not outlooks:
        return None
    tightest = max(outlooks, key=lambda account: part_of(account.takes, account.left))
    return tightest._replace(more=min(account.more for account in outlooks))


def part_of(took: Fraction, left: Fraction) -> tuple[bool, Fraction]:
    """Return the part that a charge takes of the share that was left before, after whether it takes more than that.

    The account with the largest part binds the charge; of equal ones the data set's, which comes first.
    """
    return took > left, took / left if left else took


def times(account: Filter, charge: Charge) -> int:
    """Return how many more times a charge fits into an account."""

    def fitting(room: Fraction, cost: Fraction) -> int:
        endless = 2**62
        return min(max(int(room // cost), 0), endless) if cost else endless

    most = fitting(account.limit - account.spent_loss, charge.loss)
    if account.spent_epsilon is not None and charge.epsilon is not None:  # admitted by whichever sum has room
        most = max(most, fitting(account.epsilon - account.spent_epsilon, charge.epsilon))
    return min(most, fitting(account.reserve - account.spent_delta, charge.delta))


def budget_of(key: tuple[str, str]) -> str:
    """Return the name of an account's budget for messages: an analyst's or a data set's."""
    return f"{key[1]}'s budget" if key[1] else f"the budget of {key[0]}"
