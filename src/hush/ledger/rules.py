"""The rules that every entry obeys, checked afresh against the entries before it.

The chain proves that nobody changed an entry after it was written. These rules prove that what was written is right: a
charge adds exactly its stated price to the accounts it names, that price is no lower than the events cost today, a
raise leaves what was spent, an outcome belongs to a reservation of the same person. ``hush ledger verify`` and imports
apply them to every entry, and opening a ledger applies them to an entry that its anchor has not seen yet.

Prices may fall when accounting gets better, so a stored price may be above today's. It may never be below.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import attrgetter
from typing import Any

from hush.accounting import event_from_json
from hush.accounting.events import Event
from hush.accounting.filters import Charge, Filter
from hush.core import HushError
from hush.ledger.budgets import exhausted, price
from hush.ledger.entries import OUTCOMES, Entry, damaged
from hush.ledger.state import LedgerState, account_states, charge_from_json, charge_to_json, events_hash, question_hash

_SLACK = 1 + Fraction(1, 2**30)
"""Limits of Rényi and similar accounts are rounded; another version of hush may round the last bits differently."""

_NAMES = attrgetter("data", "analyst", "request")


def check(before: LedgerState, entry: Entry, reservation: Entry | None = None) -> None:
    """Refuse an entry that does not follow by the rules from the state before it.

    ``reservation`` is the entry that an outcome is about, or whose answer is shared.
    """
    content = entry.read()
    try:
        if entry.kind in OUTCOMES:
            same = reservation is not None and _NAMES(reservation) == _NAMES(entry)
            if not same or reservation is None or (reservation.kind, reservation.number) != ("reserve", entry.about):
                raise damaged(entry.number, "it is the outcome of no reservation")
        elif entry.kind == "reserve":
            _charge(before, entry, content)
        elif entry.kind == "shared":
            _shared(before, entry, content, reservation)
        elif entry.kind in {"data", "analyst"}:
            _opening(before, entry, content)
        elif entry.kind == "raise":
            _raise(before, entry, content)
        elif entry.kind in {"requested", "approved", "declined", "act", "standing", "ended"}:
            if content["accounts"]:
                raise damaged(entry.number, "it moves a budget")
            if entry.kind == "standing":
                _set_aside(before, entry, content)
            elif entry.kind == "ended" and before.streams[entry.request].ended:
                raise damaged(entry.number, "what it ends has ended before")
        elif entry.kind == "restored":
            _restored(before, entry, content)
        elif entry.kind != "ledger" or entry.number != 1:
            raise damaged(entry.number, f"{entry.kind!r} is no kind of entry that belongs here")
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(entry.number, "something is missing in it") from error


def _shared(before: LedgerState, entry: Entry, content: dict[str, Any], reservation: Entry | None) -> None:
    """Check that a shared answer is its reservation's, and that the analyst is charged its price."""
    if (
        reservation is None
        or (reservation.kind, reservation.number, reservation.data) != ("reserve", content["of"], entry.data)
        or not reservation.number < entry.number
        or not entry.same_question
        or reservation.same_question != entry.same_question
        or reservation.read()["events"] != content["events"]
    ):
        raise damaged(entry.number, "it shares the answer to no such reservation")
    _charge(before, entry, content)


def _set_aside(before: LedgerState, entry: Entry, content: dict[str, Any]) -> None:
    """Check that a declared stream is new, that its price is no lower than its events cost, and that it fits."""
    account = before.committed((entry.data, ""))
    if entry.request in before.streams or account is None:
        raise damaged(entry.number, "it sets aside what it should not")
    plan = before.plans_after(entry)[entry.request]
    _check_price(entry, account, plan.price, [event_from_json(item) for item in content["events"]])
    _check_fits(entry, account.spend(plan.price.repeated(plan.releases)))


def _charge(before: LedgerState, entry: Entry, content: dict[str, Any]) -> None:
    if not entry.analyst:  # the next release of a declared stream, as it was declared
        plan, number = before.streams[content["standing"]["name"]], content["standing"]["number"]
        declared = (plan.data, plan.events, [charge_to_json(plan.price)])
        if not plan.next <= number < plan.releases or plan.ended:
            raise damaged(entry.number, "it releases what is not to be released, or not again")
        if (entry.data, events_hash(content["events"]), content["price"]) != declared:
            raise damaged(entry.number, "it releases something else than was declared")
    keys = before.charged(entry.data, entry.analyst, shared=entry.kind == "shared")
    after = account_states(entry, content)
    if set(after) != set(keys) or len(content["price"]) != len(keys):
        raise damaged(entry.number, "it does not charge the accounts it should")
    try:
        events = [event_from_json(item) for item in content["events"]]
    except HushError as error:
        raise damaged(entry.number, f"its events are not known ({error})") from error
    if content["question_hash"] != question_hash(entry.data, content["question"], content["events"]):
        raise damaged(entry.number, "its question and the question's hash differ")
    for key, paid in zip(keys, content["price"], strict=True):
        account = before.accounts[key]
        if account is None:
            raise damaged(entry.number, "it charges an account without a budget")
        charge = charge_from_json(account.currency, paid)
        _check_price(entry, account, charge, events)
        # A release of a declared stream is paid from the part that was set aside; nobody else may use that part.
        room = before.committed(key) if entry.analyst else account
        _check_fits(entry, (room or account).spend(charge))
        if account.spend(charge) != after[key]:
            raise damaged(entry.number, "the totals after it are not the totals before it plus its price")


def _check_price(entry: Entry, account: Filter, charge: Charge, events: Sequence[Event]) -> None:
    due = price(account, events)
    if charge.loss < due.loss or charge.delta < due.delta or _less(charge.epsilon, due.epsilon):
        raise damaged(entry.number, "its price is lower than its events cost")


def _check_fits(entry: Entry, paid_for: Filter) -> None:
    by_loss = paid_for.spent_loss <= paid_for.limit * _SLACK
    by_sum = paid_for.spent_epsilon is not None and paid_for.spent_epsilon <= paid_for.epsilon
    if not (by_loss or by_sum) or paid_for.spent_delta > paid_for.reserve:
        raise damaged(entry.number, "its price did not fit into what was left")


def _opening(before: LedgerState, entry: Entry, content: dict[str, Any]) -> None:
    key = (entry.data, entry.analyst)
    after = account_states(entry, content)
    account = after.get(key)
    known = key in before.accounts or (entry.kind == "analyst" and (entry.data, "") not in before.accounts)
    if known or set(after) != {key} or (account is None and entry.kind == "data"):
        raise damaged(entry.number, "it does not open one new account")
    # The last test also refuses None, an infinite sum of ε.
    if account is not None and (account.spent_loss or account.spent_delta or account.spent_epsilon != 0):
        raise damaged(entry.number, "the account it opens is not fresh")


def _raise(before: LedgerState, entry: Entry, content: dict[str, Any]) -> None:
    key = (entry.data, entry.analyst)
    after = account_states(entry, content)
    old, new = before.accounts.get(key), after.get(key)
    if set(after) != {key} or old is None or new is None or new.currency != old.currency:
        raise damaged(entry.number, "it does not raise a budget that exists")
    spendings = (new.spent_loss, new.spent_delta, new.spent_epsilon)
    if spendings != (old.spent_loss, old.spent_delta, old.spent_epsilon):
        raise damaged(entry.number, "it changes what was spent")
    # δ has two parts, for keys (the reserve) and for the composition; a raise may take from neither.
    if new.epsilon < old.epsilon or new.reserve < old.reserve or new.delta - new.reserve < old.delta - old.reserve:
        raise damaged(entry.number, "it lowers a budget")


def _restored(before: LedgerState, entry: Entry, content: dict[str, Any]) -> None:
    """Check that a restore gave no budget back."""
    after = account_states(entry, content)
    # How much was lost is the owner's statement. Its price is not computed again, because prices may fall later.
    if (content["lost"] == "none") != (not after) and any(before.accounts.values()):
        raise damaged(entry.number, "the accounts it changes do not agree with what it says was lost")
    for key, new in after.items():
        old = before.accounts.get(key)
        if old is None or new is None or new.currency != old.currency:
            raise damaged(entry.number, "it changes a budget")
        if (new.epsilon, new.delta, new.reserve) != (old.epsilon, old.delta, old.reserve):
            raise damaged(entry.number, "it changes a budget")
        back = _less(new.spent_epsilon, old.spent_epsilon)
        if new.spent_loss < old.spent_loss or new.spent_delta < old.spent_delta or back:
            raise damaged(entry.number, "it gives budget back")


def _less(one: Fraction | None, other: Fraction | None) -> bool:
    """Return whether one sum of ε is smaller than another; None stands for infinity."""
    return one is not None and (other is None or one < other)


def written_off(account: Filter, lost: Any) -> Filter:
    """Return an account after it was charged for lost releases: with all that is left, or with an (ε, δ)."""
    if lost == "all":
        return exhausted(account)
    return account.spend(price(account, [event_from_json(item) for item in lost]))
