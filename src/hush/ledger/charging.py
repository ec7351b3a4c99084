"""One charge against every budget above it: all of them, or none."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from fractions import Fraction

from hush.accounting.events import Event
from hush.accounting.filters import Charge, Filter
from hush.ledger.book import Book, Key
from hush.ledger.budgets import share, under
from hush.ledger.entries import damaged
from hush.ledger.errors import UnknownAccountError
from hush.ledger.prices import price
from hush.ledger.rules import charge_to_json, charged

_WHOLE = 10**12


class TooMuchError(Exception):
    """Leaves the transaction of a charge that does not fit."""

    def __init__(self, account: Filter, charge: Charge, key: Key) -> None:
        super().__init__(key)
        self.account = account
        self.charge = charge
        self.key = key


def charge(
    book: Book,
    data: str,
    analyst: str,
    events: Sequence[Event],
    prices: Mapping[Key, Charge],
    lowered: Mapping[Key, tuple[Fraction, Fraction]],
    *,
    shared: bool = False,
) -> tuple[dict[Key, Filter | None], list[dict[str, str]], int]:
    """Return the accounts after the charge, its prices, and its weight; or refuse it as a whole.

    What is ``shared`` was released before: it costs the data set nothing, and the analyst what they learn by it.
    """
    keys = charged(book, data, analyst, shared=shared)
    weight = 0
    after: dict[Key, Filter | None] = dict.fromkeys(keys)
    paid: dict[Key, Charge] = {}
    for key in reversed(keys):  # the analyst's own budget first: its message is the one to act on
        account = book.accounts[key]
        if account is None:
            raise damaged(book.head.number, f"the account {key} has no state")
        paid[key] = prices[key] if key in prices else price(account, events)
        if not account.fits(paid[key]):
            raise TooMuchError(account, paid[key], key)
        if key in lowered:
            smaller = under(account, *lowered[key])
            cost = paid[key] if smaller.currency == account.currency else price(smaller, events)
            if not smaller.fits(cost):
                raise TooMuchError(smaller, cost, key)
        after[key] = account.admit(paid[key])
        if not key[1]:  # the last one, the data set's
            weight = min(-int(-share(account, paid[key]) * _WHOLE // 1), 2**62)
    return after, [charge_to_json(paid[key]) for key in keys], weight


def known(book: Book, data: str, analyst: str = "") -> None:
    """Refuse names that have no account; of data sets, name the nearest (who else may ask is nobody's business)."""
    if (data, "") not in book.accounts:
        names = [key[0] for key in book.accounts if not key[1]]
        raise UnknownAccountError(f"There is no data set {data!r} in the ledger{_nearest(data, names)}")
    if (data, analyst) not in book.accounts:
        raise UnknownAccountError(f"{analyst!r} may not ask about {data!r}; the owner can add them.")


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
