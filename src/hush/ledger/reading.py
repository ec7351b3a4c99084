"""What can be read from a ledger: budgets, charges, acts. Computed from public entries alone, never from data.

*How many more counts is that?* A count with Laplace noise of scale b = 1/ε (sensitivity 1) is off by more than t with
probability e^{-t/b} (THEORY, item 12), so a count good to ±t at confidence 1-β needs ε = ln(1/β)/t: at ±50 and 95%,
ε = 0.0599. The number that fits is what is left of the limit divided by such a count's price in the account's own
currency; for a Rényi account this is far more than what is left in ε divided by that ε.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from textwrap import shorten
from typing import Any

from hush.accounting.events import Event, LaplaceEvent
from hush.accounting.filters import Amount, Filter
from hush.core import InvalidValueError, Number, fraction_between, positive
from hush.ledger.actors import Actor
from hush.ledger.book import Key
from hush.ledger.budgets import under
from hush.ledger.chain import Chain
from hush.ledger.entries import Entry
from hush.ledger.errors import UnknownReceiptError
from hush.ledger.prices import price
from hush.ledger.system import alive

_SHOWN = 3
_CHARGED = frozenset({b"reserve", b"shared"})
_QUESTION = 60
_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """A data set's budget, or an analyst's on it."""

    data: str
    analyst: str | None
    """None for the data set itself."""
    account: Filter
    """The filter: its kind, limit, and the exact state."""
    pending: int
    """How many charges have no outcome yet, those of dead processes among them."""

    @property
    def epsilon(self) -> Fraction:
        """The budget's ε."""
        return self.account.epsilon

    @property
    def delta(self) -> Fraction:
        """The budget's δ."""
        return self.account.delta

    @property
    def reserve(self) -> Fraction:
        """The part of δ that is set aside for choosing keys; the rest serves the ε of all answers together."""
        return self.account.reserve

    @property
    def spent(self) -> Amount:
        """What was spent, on the scale of one pure step."""
        return self.account.spent

    @property
    def remaining(self) -> Amount:
        """What is left, on the scale of one pure step."""
        return self.account.remaining()

    def counts(self, *, error: Number = 50, confidence: Number = "0.95") -> int:
        """Return how many more counts fit that are good to ±``error`` at this confidence."""
        return counts(self.account, error=error, confidence=confidence)

    def __repr__(self) -> str:
        """Return the state in a line."""
        whose = self.data if self.analyst is None else f"{self.analyst} on {self.data}"
        left, delta = self.remaining, ""
        if self.delta:
            kept = self.reserve
            delta = f", and δ={float(left.delta):.3g} of {float(kept):.3g} for keys"
            delta += f" (the budget's δ is {float(self.delta):.3g})" if kept != self.delta else ""
        waiting = f", {self.pending} pending" if self.pending else ""
        return f"<{whose}: ε={float(left.epsilon):.6g} of {float(self.epsilon):.6g} remains{delta}{waiting}>"


def counts(account: Filter, *, error: Number = 50, confidence: Number = "0.95") -> int:
    """Return how many counts, each within ±error at the confidence, fit into what is left of an account."""
    width, sure = positive(error, "error"), fraction_between(confidence, "confidence")
    # ε = ln(1/β)/t, rounded up to a short decimal: the count is then a little better than asked for, never worse.
    epsilon = math.log(1 / (1 - sure)) / float(width)
    rounded = Fraction(math.ceil(epsilon * 2**40) + 1, 2**40)
    return repeats(account, [LaplaceEvent(scale=1 / rounded)])


def repeats(account: Filter, events: Sequence[Event]) -> int:
    """Return how many times a question with these events fits into what is left of an account."""
    one = price(account, list(events))
    rooms = [(account.limit - account.spent_loss, one.loss)]
    if account.spent_epsilon is not None and one.epsilon is not None:
        rooms.append((account.epsilon - account.spent_epsilon, one.epsilon))
    most = max(0, 0, *(int(room // loss) for room, loss in rooms if loss))
    return min(most, int((account.reserve - account.spent_delta) // one.delta)) if one.delta else most


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One charge and what became of it."""

    number: int
    request: str
    analyst: str
    data: str
    when: str
    question: str
    question_hash: str
    events: list[dict[str, Any]]
    """What was released, in the vocabulary of events: it can be accounted for again at any time."""
    price: list[dict[str, str]]
    """The exact price to the data set's account, then to the analyst's if it has one."""
    share: float
    """The part of the data set's budget, as it was then."""
    outcome: str
    """``answered``, ``failed``, ``pending``, or ``abandoned``: its process is dead. All are charged.

    ``shared`` is another analyst's answer, charged to this one's own account alone.
    """
    finished: str | None
    reason: str | None

    def __repr__(self) -> str:
        """Return the charge in a line."""
        return (
            f"<{self.number}: {self.analyst} on {self.data}, {self.when[:19]}, {self.share:.3g} of the budget, "
            f"{self.outcome}: {shorten(self.question, 80)}>"
        )


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


def budget(chain: Chain, actor: Actor, lowered: Mapping[Key, tuple[Fraction, Fraction]]) -> list[AccountView]:
    """Return the accounts that an actor may see, data sets first, under the smaller budgets that hold now."""
    with chain.reading() as book:
        accounts, pending = dict(book.accounts), list(book.pending.values())
    mine = {data for data, analyst in accounts if analyst and actor.sees(analyst)}
    waiting = Counter([*pending, *((data, "") for data, _ in pending)])

    def now(key: Key, account: Filter) -> Filter:
        return under(account, *lowered[key]) if key in lowered else account

    return [
        AccountView(
            data=data,
            analyst=analyst or None,
            account=now((data, analyst), account),
            pending=waiting[data, analyst],
        )
        for (data, analyst), account in sorted(accounts.items(), key=lambda item: item[0])
        if account is not None and (actor.sees(analyst) if analyst else data in mine or actor.sees(""))
    ]


def history(chain: Chain, actor: Actor, *, data: str | None, limit: int | None) -> list[Release]:
    """Return charges, newest first."""
    outcomes: dict[int, Entry] = {}
    charges: list[Entry] = []
    with chain.reading(), chain.store.entries() as rows:
        for row in rows:
            if row[1] in _CHARGED:
                charges.append(Entry.of(row))
            elif row[5]:
                outcomes[row[5]] = Entry.of(row)
    wanted = [
        entry for entry in reversed(charges) if actor.sees(entry.analyst) and (data is None or entry.data == data)
    ]
    return [_release(entry, outcomes.get(entry.number)) for entry in wanted[:limit]]


def receipt_number(receipt: str | int) -> int:
    """Return the number on a receipt.

    >>> receipt_number("56")
    56
    """
    text = str(receipt)
    if isinstance(receipt, bool) or not (text.isascii() and text.isdecimal()) or not 0 < len(text) <= _DIGITS:
        raise InvalidValueError("receipt", got=receipt, allowed="the number on a receipt, such as 56")
    return int(text)


def receipt(chain: Chain, actor: Actor, number: int) -> tuple[Release, Entry]:
    """Return one charge that an actor may see, and its entry."""
    with chain.reading():
        entry = chain.store.entry(number) if 0 < number < 2**63 else None
        if entry is None or entry.kind.encode() not in _CHARGED or not actor.sees(entry.analyst):
            raise UnknownReceiptError(number)
        return _release(entry, chain.store.outcome(number)), entry


def _release(entry: Entry, outcome: Entry | None) -> Release:
    content = entry.read()
    result = {} if outcome is None else outcome.read()
    state = "pending"
    if outcome is not None or entry.kind == "shared":
        state = "shared" if outcome is None else outcome.kind
    elif alive(content["process"]) is False:
        state = "abandoned"
    return Release(
        number=entry.number,
        request=entry.request,
        analyst=entry.analyst,
        data=entry.data,
        when=content["when"],
        question=content["question"],
        question_hash=content["question_hash"],
        events=content["events"],
        price=content["price"],
        share=entry.weight / 10**12,
        outcome=state,
        finished=result.get("when"),
        reason=result.get("reason"),
    )


def acts(chain: Chain) -> list[Act]:
    """Return what owners did, oldest first."""
    with chain.reading(), chain.store.entries() as rows:
        entries = [Entry.of(row) for row in rows if row[1] not in _CHARGED and not row[5]]
    found = []
    for entry in entries:
        content = entry.read()
        found.append(
            Act(
                number=entry.number,
                kind=entry.kind,
                by=content["by"],
                when=content["when"],
                data=entry.data,
                analyst=entry.analyst,
                detail={name: value for name, value in content.items() if name not in {"by", "when"}},
            )
        )
    return found


def heaviest(chain: Chain, key: Key, actor: Actor) -> str:
    """Return a sentence on which charges took most of a budget; other analysts' questions are not shown."""
    with chain.reading():
        entries = chain.store.heaviest(*key, _SHOWN)
    parts = []
    for entry in entries:
        content = entry.read()
        text = " ".join(content["question"].split())
        text = text if len(text) <= _QUESTION else text[: _QUESTION - 1] + "…"
        what = f"receipt {entry.number}: {text}" if actor.sees(entry.analyst) else "another analyst's question"
        parts.append(f"{entry.weight / 10**10:.3g}% of {entry.data} on {content['when'][:10]} ({what})")
    return f". Most was spent by: {'; '.join(parts)}." if parts else "."
