"""Budgets: what an owner writes, and the filter that keeps it.

An account is a filter of :mod:`hush.accounting.filters`; each is valid when the analyst picks every next question after
seeing all earlier answers, by the theorem in its docstring. A pure ε is a sum. An (ε, δ) budget is kept by the Rényi
filter at one order, fixed when the account is opened and never changed after; zCDP and GDP by choice.

*Raising* a budget (``Filter.raised``) keeps the currency, that is the kind and the order, and what was spent, and moves
the limit. What is promised from then on is the new (ε, δ). An owner who decides to raise after looking at answers
should read the promise as that of the largest budget they would ever have granted.

*Lowering* one changes no entry: a ledger may be told of smaller budgets (``Ledger.lower``), and from then on a question
must fit those as well. `under` is the account with the same spendings and the smaller budget, at the same order. It is
a filter in its own right, so where the spendings fit it the smaller (ε, δ) holds for everything released so far; where
they do not, nothing more is released.

The *price* of a list of events depends on the events and on how the account was opened, never on data nor on what was
spent. So it is computed before any lock is taken, and remembered.

>>> Budget(epsilon="4").open().limit
Fraction(4, 1)
>>> Budget.parse({"epsilon": "1", "delta": "1e-6"}).open().kind
'renyi'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Literal

from hush.accounting.events import ApproximateDPEvent, Event, event_from_json
from hush.accounting.filters import Charge, Filter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from hush.accounting.filters.base import bounded, plus
from hush.core import InvalidValueError, Number, nonnegative, probability
from hush.core.values import assign, dataclass

Kind = Literal["auto", "pure", "renyi", "zcdp", "gdp"]

LARGEST_EPSILON = 10**100
"""No budget is larger: it would promise nothing long before."""

_KINDS = ("auto", "pure", "renyi", "zcdp", "gdp")


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
        if self.kind not in _KINDS:
            raise InvalidValueError("kind", got=self.kind, allowed=f"one of {', '.join(_KINDS)}")
        if self.alpha is not None and self._kind != "renyi":
            raise InvalidValueError("alpha", got=self.alpha, allowed="given with a Rényi budget only")

    @property
    def _kind(self) -> str:
        if self.kind != "auto":
            return self.kind
        return "pure" if self.delta == 0 else "renyi"

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
        if self._kind == "pure":
            return PureFilter.open(epsilon=self.epsilon, delta=self.delta)
        if self._kind == "renyi":
            return RenyiFilter.open(epsilon=self.epsilon, delta=self.delta, alpha=self.alpha)
        if self._kind == "zcdp":
            return ZCDPFilter.open(epsilon=self.epsilon, delta=self.delta)
        return GDPFilter.open(epsilon=self.epsilon, delta=self.delta)


def under(account: Filter, epsilon: Fraction, delta: Fraction) -> Filter:
    """Return the account as it would stand if it had been opened with a smaller budget; itself if that is no smaller.

    Where the account's order is of no use at the smaller budget, what remains is the sum of ε.
    """
    less, slip = min(account.epsilon, epsilon), min(account.delta, delta)
    if (less, slip) == (account.epsilon, account.delta):
        return account
    reserve = account.reserve * slip / account.delta if account.delta else account.reserve
    try:
        return replace(account, epsilon=less, delta=slip, reserve=reserve)
    except InvalidValueError:
        summed = account.spent_epsilon
        return PureFilter(
            epsilon=less,
            delta=reserve,
            reserve=reserve,
            spent_loss=less if summed is None else summed,
            spent_delta=account.spent_delta,
            spent_epsilon=less if summed is None else summed,
        )


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


def share(account: Filter, charge: Charge) -> Fraction:
    """Return the part of the whole budget that a charge takes: of a fresh account with the same terms."""
    fresh = replace(account, spent_loss=Fraction(0), spent_delta=Fraction(0), spent_epsilon=Fraction(0))
    return fresh.spend(charge).share_spent


_REMEMBERED = 8192
_prices: dict[tuple[str, tuple[Event, ...] | Event], Charge] = {}


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
    key = (account.currency, tuple(events))  # a charge is good for every account of its currency
    priced = _prices.get(key)
    if priced is None:
        if len(_prices) >= _REMEMBERED:
            _prices.clear()
        charges = [_price(account, event) for event in events]
        summed = reduce(plus, (charge.epsilon for charge in charges))
        priced = Charge(  # rounded up where a figure would be too long to be stored and read back
            currency=account.currency,
            loss=bounded(sum((charge.loss for charge in charges), Fraction(0))),
            delta=bounded(sum((charge.delta for charge in charges), Fraction(0))),
            epsilon=None if summed is None else bounded(summed),
        )
        _prices[key] = priced
    return priced


def _price(account: Filter, event: Event) -> Charge:
    """Return the price of one event, which the events of many a question have in common."""
    key = (account.currency, event)
    charge = _prices.get(key)
    if charge is None:
        if event_from_json(event.to_json()) != event:  # what is stored must be what is priced
            raise InvalidValueError("events", got=event, allowed="an event that reads back from JSON as itself")
        charge = _prices[key] = account.price(event)
    return charge
