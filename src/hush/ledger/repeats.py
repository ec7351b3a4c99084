"""The same question again: the answer that was paid for, free of charge.

An answer that is shown twice tells no more than shown once, so a question that is asked again brings its paid answer
back, byte for byte. What makes two questions the same is decided above the ledger, from public things alone: the typed
tree, the data set's name and declared version, the policy, ε, the confidence, the bounds. Here it is one fingerprint.
A change of the rows is not among them: that rows changed is a fact about rows. The owner declares a new version.

Which answer comes back:

- the analyst's own newest answer to the question;
- else, where the owner shares answers, that of another analyst. It costs the data set nothing, for nothing more is
  released, and the analyst's own account its price, for that bounds what *they* have learned. The charge is an entry of
  kind ``shared``. It tells the analyst that somebody has asked this before, so it is for the owner to decide;
- a charge that failed, or whose process died, has no answer: the question is charged and computed anew;
- a charge that is still being computed is waited for: of two who ask at once, one pays, and both have the answer.

What decides (who asked what, and what became of it) is in the ledger, and depends on rows no more than the ledger does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger.actors import label
from hush.ledger.entries import Entry, damaged
from hush.ledger.errors import RequestUnansweredError
from hush.ledger.stores import Store
from hush.ledger.system import alive

Result = TypeVar("Result")

_LONGEST_WAIT = 60.0
_PAUSES = (0.002, 0.005, 0.01, 0.02, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """What makes a question the same as an earlier one, and whether an earlier answer will do.

    >>> Repeat(question="ab12", fresh=True).fresh
    True
    """

    question: str
    """The fingerprint of all that decides: equal for the same question, and for nothing else."""
    fresh: bool = False
    """Whether to charge and compute anew whatever was answered before."""
    shared: bool = False
    """Whether the owner lets analysts have each other's answers."""

    def __post_init__(self) -> None:
        label(self.question, "question")
        if not isinstance(self.fresh, bool) or not isinstance(self.shared, bool):
            raise InvalidValueError("fresh", got=(self.fresh, self.shared), allowed="True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """An earlier charge for the same question."""

    entry: Entry
    """Whose number is the receipt."""
    source: Entry
    """The reservation that the answer belongs to: the same entry, or the one that it shares."""

    def own(self, analyst: str) -> bool:
        """Return whether the analyst has paid for it."""
        return self.entry.analyst == analyst


class RunningError(Exception):
    """Leaves the transaction of a question that somebody is answering at this moment."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def find(store: Store, repeat: Repeat, *, data: str, analyst: str, ungranted: Collection[bytes]) -> Paid | None:
    """Return the charge whose answer is that of a question (inside a lock); refuse where it is being computed.

    ``ungranted`` are charges of this process that nobody has used: their answer is still to be computed, and paid for.
    """
    for entry in _candidates(store, repeat, data=data, analyst=analyst):
        if entry.kind == "shared":
            source = store.entry(entry.paid_by)
            if source is None:
                raise damaged(entry.number, "the reservation that it shares is not there")
            return Paid(entry=entry, source=source)
        outcome = store.outcome(entry.number)
        if outcome is None:
            if entry.hash in ungranted and entry.analyst == analyst:
                return Paid(entry=entry, source=entry)
            if alive(entry.read()["process"]) is not False:
                raise RunningError(entry.number)
        elif outcome.kind == "answered":
            return Paid(entry=entry, source=entry)
    return None


def _candidates(store: Store, repeat: Repeat, *, data: str, analyst: str) -> Iterator[Entry]:
    """Yield the charges that may serve: one's own, then, where that is allowed, the reservations of others."""
    charges = [entry for entry in store.repeats(repeat.question) if entry.data == data]
    yield from (entry for entry in charges if entry.analyst == analyst)
    if repeat.shared:
        yield from (entry for entry in charges if entry.analyst != analyst and entry.kind == "reserve")


def waiting(attempt: Callable[[], Result]) -> Result:
    """Return what an attempt returns, as soon as nobody else is answering the same question."""
    start = time.monotonic()
    pauses = iter(_PAUSES)
    while True:
        try:
            return attempt()
        except RunningError as running:
            if time.monotonic() - start > _LONGEST_WAIT:
                raise RequestUnansweredError(
                    f"The same question is being answered since more than {_LONGEST_WAIT:g} seconds (receipt "
                    f"{running.number}). Ask again later, which is free; or ask anew with fresh=True (--fresh), which "
                    "is charged."
                ) from None
            time.sleep(next(pauses, _PAUSES[-1]))
