"""A session: who asks, the data sets they may ask about, the accounts above these, and the ledger.

`hush.curator.pipeline` leads questions and releases through a session. `AnalystSession.close` waits for those in
progress. A process that was forked while another thread was inside an engine cannot go on with that engine::

    HushError
    ├── ClosedError     the session was closed
    ├── ForkedError     the session was in use when this process was forked
    └── MadeUpError     the session has made-up rows, which are not for this
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from hush.accounting.events import Event, ZCDPEvent
from hush.core import HushError
from hush.curator.answer import Money
from hush.curator.data_sets import OpenDataSet
from hush.ledger import Actor, Ledger
from hush.ledger.budgets import Outlook, Whose, outlook
from hush.query.errors import QuestionError, UnknownTableError
from hush.query.schema import Schema

Parsed = TypeVar("Parsed")


class Accounts(NamedTuple):
    """The accounts that a release from one data set must fit: the data set's and the analyst's."""

    owned: tuple[Whose, ...]
    prefer_gaussian: bool = False

    def outlook(self, events: Sequence[Event]) -> Outlook | None:
        """Return the share of the accounts that events would take if they were charged now; None without events."""
        return outlook(self.owned, events) if events else None

    @property
    def delta(self) -> Fraction:
        """The δ at which ε is meant: the budget's; 0 where one of the accounts has none."""
        return min(map(attrgetter("account.delta"), self.owned), default=Fraction(0))

    @property
    def take_gaussian(self) -> bool:
        """Whether all accounts have a price for Gaussian noise on integers."""
        return all(map(attrgetter("account.takes_gaussian"), self.owned))

    @property
    def most_rho(self) -> Fraction | None:
        """How much zCDP an empty account holds, rounded down; None where one has no price for it.

        It can be a little less than a budget's (ε,δ) is worth: an account sets a part of δ aside and fixes its order.
        """
        if not self.owned or not self.take_gaussian:
            return None
        # the loss is proportional to ρ, so the price of a small event gives the rate
        sample = Fraction(1, 1000)
        small = ZCDPEvent(rho=sample)
        capacity = min(account.limit / account.price(small).loss * sample for _, account in self.owned)
        return capacity * Fraction(999_999, 1_000_000)

    @property
    def remaining(self) -> Money:
        """The amount that may still be spent: the least ε and the least δ of all accounts."""
        # an only analyst's account is often like the data set's
        amounts = [account.remaining() for account in set(map(attrgetter("account"), self.owned))]
        zero = Fraction(0)
        least_epsilon = min(map(attrgetter("epsilon"), amounts), default=zero)
        return Money(epsilon=least_epsilon, delta=min(map(attrgetter("delta"), amounts), default=zero))


class Outlet:
    """Decides when a charge is made, and when the outcome of the charged work leaves: this one at once.

    A service has others, which wait for public moments.
    """

    def before_charge(self) -> None:
        """Wait until the charge may be made; refuse it for an asker who cancelled."""

    def after_charge(self) -> None:
        """Note that the charge was made: from now on no refusal may say that nothing was charged."""

    def begin(self, seconds: float, fail: Callable[[], None] | None) -> None:
        """Note that rows are read from now on, which should take ``seconds`` by public figures.

        ``fail`` records a failure in the ledger; None where the work is within an earlier charge.
        """

    def wait(self) -> bool:
        """Wait until the outcome may leave; return False if the outlet ended the question, and recorded that."""
        return True


_LIVE: weakref.WeakSet[AnalystSession] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for session in list(_LIVE):
        session.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class AnalystSession:
    """One analyst, their data sets and the ledger that charges them. Use it from any thread."""

    def __init__(
        self,
        data_sets: Mapping[str, OpenDataSet],
        ledger: Ledger,
        analyst: str,
        *,
        streams: Path | None = None,
        made_up: bool = False,
        outlet: Outlet | None = None,
    ) -> None:
        self.data_sets = dict(data_sets)
        """The data sets that can be asked about, by name."""
        self.ledger = ledger
        self.analyst = analyst
        self.streams = streams
        """The directory of the private state of streams; None to keep it in memory."""
        self.stream_states: dict[str, bytes] = {}
        self.made_up = made_up
        """Whether the rows are invented, to try questions on: then nothing is charged, and nothing is released."""
        self.outlet = Outlet() if outlet is None else outlet
        """Says when outcomes leave; at once, if nothing else is said."""
        self.closed = False
        self._forked = False  # in a child process: another thread was inside an engine when the parent forked
        self._in_progress = 0
        self._idle = threading.Condition()
        _LIVE.add(self)

    @property
    def actor(self) -> Actor:
        """The analyst as the ledger names them."""
        return Actor.analyst(self.analyst)

    def accounts(self, data: str, *, shared: bool = False, again: bool = False) -> Accounts:
        """Return the accounts that this analyst's releases are charged to; for shared answers their own alone.

        After a charge they are looked at ``again``, as the charge left them.
        """
        return Accounts(tuple(self.ledger.accounts(data, self.analyst, shared=shared, again=again)))

    # data sets

    def parse(self, read: Callable[[Schema], Parsed], data: str | None) -> tuple[OpenDataSet, Parsed]:
        """Return the one data set that has the tables of a question, and the question as ``read`` in its schema."""
        if data is not None and (not isinstance(data, str) or data not in self.data_sets):
            data_names = ", ".join(self.data_sets)
            raise QuestionError(f"There is no data set {data!r}.", f"{self.analyst} may ask about {data_names}.")
        parsed: list[tuple[OpenDataSet, Parsed]] = []
        refusals: list[QuestionError] = []
        for data_set in self.data_sets.values() if data is None else [self.data_sets[data]]:
            try:
                parsed.append((data_set, read(data_set.engine.described())))
            except QuestionError as error:
                refusals.append(error)
        if len(parsed) == 1:
            return parsed[0]
        if parsed:
            names = [repr(data_set.schema.data) for data_set, _ in parsed]
            raise QuestionError(
                f"The data sets {' and '.join(names)} have tables of these names.",
                f"Say which one is meant: data={names[0]} or another.",
            )
        # a refusal by a data set that has the tables says more than "there is no table"
        for refusal in refusals:
            if not isinstance(refusal, UnknownTableError):
                raise refusal
        if not refusals:
            raise QuestionError(f"{self.analyst} may ask about no data set.", "Ask the owner.")
        unknown = refusals[0]
        assert isinstance(unknown, UnknownTableError)  # noqa: S101 - all are
        for name, data_set in self.data_sets.items():
            if unknown.table.casefold() in map(str.casefold, data_set.schema.tables):
                hint = f"The data set {name!r} has it, and a question is about one data set: say data={name!r}."
                elsewhere = UnknownTableError(unknown.what.replace("There is no table", "Here is no table"), hint)
                elsewhere.place, elsewhere.text, elsewhere.table = unknown.place, unknown.text, unknown.table
                raise elsewhere
        raise unknown

    def only_data_set(self, data: str | None, what: str) -> str:
        """Return the name of the data set; refuse an unknown name, and a missing one where there are several."""
        names = list(self.data_sets) if data is None else [data]
        if len(names) != 1 or names[0] not in self.data_sets:
            raise QuestionError(
                f"Which data set is the {what} about?", f"Say data=…, one of {', '.join(self.data_sets)}."
            )
        return names[0]

    # open and closed

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the session open as long as the context lasts; refuse one that was closed, or in use before a fork."""
        with self._idle:
            if self.closed:
                raise ClosedError
            if self._forked:
                raise ForkedError
            self._in_progress += 1
        try:
            yield
        finally:
            with self._idle:
                self._in_progress -= 1
                self._idle.notify_all()

    def close(self) -> None:
        """Close the engines and the ledger once nothing is in progress; with made-up rows the ledger stays open."""
        with self._idle:
            # set first, so that no new question begins while this waits for the others
            self.closed = True
            self._idle.wait_for(lambda: not self._in_progress)
        if self._forked:
            return
        # never in a forked child: these engines belong to the parent
        for data_set in self.data_sets.values():
            data_set.engine.close()
        # the ledger belongs to the session with the real rows
        if not self.made_up:
            self.ledger.close()

    def after_fork(self) -> None:
        """Begin afresh in a child process: with locks that nobody holds, and without an engine that was in use."""
        # the old lock may be held by a thread that exists in the parent alone
        self._idle = threading.Condition()
        self._forked = self._forked or self._in_progress > 0
        self._in_progress = 0


class ClosedError(HushError):
    """The curator was closed, by ``close()`` or at the end of its ``with`` block."""

    def __init__(self) -> None:
        super().__init__("This curator is closed. Open another with hush.open or hush.protect.")


class ForkedError(HushError):
    """Another thread was using the curator when this process was forked off; its engine stayed with the parent."""

    def __init__(self) -> None:
        super().__init__(
            "This curator was in use by another thread when this process was forked off, and its engine stayed behind. "
            "Open another one here, with hush.open or hush.protect."
        )


class MadeUpError(HushError):
    """A whole release, a model or a charge was asked for on made-up rows."""

    def __init__(self) -> None:
        super().__init__("Made-up rows are for trying questions; whole releases and models need the real ones.")
