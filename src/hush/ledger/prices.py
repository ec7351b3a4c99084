"""What a list of events costs an account.

A price depends on the events and on how the account was opened, never on data nor on what was spent, so it is computed
before any lock is taken, and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import Charge, Filter
from hush.accounting.filters.base import bounded, plus
from hush.core import InvalidValueError

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
    found = _prices.get(key)
    if found is None:
        if len(_prices) >= _REMEMBERED:
            _prices.clear()
        charges = [_price(account, event) for event in events]
        summed = reduce(plus, (charge.epsilon for charge in charges))
        found = Charge(  # rounded up where a figure would be too long to be stored and read back
            currency=account.currency,
            loss=bounded(sum((charge.loss for charge in charges), Fraction(0))),
            delta=bounded(sum((charge.delta for charge in charges), Fraction(0))),
            epsilon=None if summed is None else bounded(summed),
        )
        _prices[key] = found
    return found


def _price(account: Filter, event: Event) -> Charge:
    """Return the price of one event, which the events of many a question have in common."""
    key = (account.currency, event)
    found = _prices.get(key)
    if found is None:
        if event_from_json(event.to_json()) != event:  # what is stored must be what is priced
            raise InvalidValueError("events", got=event, allowed="an event that reads back from JSON as itself")
        found = _prices[key] = account.price(event)
    return found
