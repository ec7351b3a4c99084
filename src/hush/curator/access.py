"""One analyst's access: the data sets they may ask about, the budgets above these, and rows for a price.

Everything that is released goes one way, whether it is the answer to a question (`hush.curator.curator`) or a whole
release such as marginals, synthetic rows or a model::

    parse ─► plan ─► compile ─► charge ─► keep(compute)

Whatever can be refused is refused before `Access.charge`. After it nothing is ever refunded, and a failure shows one
public sentence: what exactly failed may depend on a row, so it goes to the owner's log.

`close` waits for what is in use. A process that was forked off while a thread was at work in an engine cannot go on
with that engine, and says so::

    HushError
    ├── ClosedError     the curator was closed
    └── ForkedError     the curator was in use when this process was forked off
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from hush.accounting.events import Event, ZCDPEvent
from hush.accounting.filters import Filter
from hush.core import HushError, InvalidValueError, Number
from hush.core.format import visible
from hush.core.values import dataclass
from hush.curator.answer import Answer, Money
from hush.curator.data_sets import OpenDataSet
from hush.engines.base import CodedRows
from hush.engines.errors import EngineError
from hush.ledger import Actor, Ledger, Release, Repeat, Reservation
from hush.ledger.reading import Budgets
from hush.ledger.shares import Outlook, Whose, outlook
from hush.query.builder import Builder
from hush.query.composed import Composed
from hush.query.errors import QuestionError, UnknownTableError
from hush.query.question import Question, fingerprint
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.curator.catalogue import DescribedTables
    from hush.ledger.requests import ParkedQuestion
    from hush.query.plan.rows import RowPlan

log = logging.getLogger("hush.curator")

Parameters = Sequence[Any] | Mapping[str, Any]
"""The values of ``?`` or ``$name`` in SQL."""
Asked = TypeVar("Asked")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts that a release from one data set must fit: the data set's and the analyst's."""

    filters: tuple[Filter, ...]
    names: tuple[str, ...] = ()  # whose budgets they keep, in words
    prefer_gaussian: bool = False

    def outlook(self, events: Sequence[Event]) -> Outlook | None:
        """Return what events would take of these accounts, if they were charged now; None where nothing is released."""
        accounts = [Whose(name=name, account=kept) for name, kept in zip(self.names, self.filters, strict=True)]
        return outlook(accounts, events) if events else None

    @property
    def delta(self) -> Fraction:
        """The δ at which ε is meant: the budget's; 0 where one of the accounts has none."""
        return min((account.delta for account in self.filters), default=Fraction(0))

    @property
    def take_gaussian(self) -> bool:
        """Whether all accounts have a price for Gaussian noise on integers."""
        return all(account.takes_gaussian for account in self.filters)

    @property
    def most_rho(self) -> Fraction | None:
        """How much zCDP an empty account holds, rounded down; None where one has no price for it.

        It can be a little less than a budget's (ε,δ) is worth: an account sets a part of δ aside and fixes its order.
        """
        if not self.filters or not self.take_gaussian:
            return None
        some = Fraction(1, 1000)
        held = min(account.limit / account.price(ZCDPEvent(rho=some)).loss * some for account in self.filters)
        return held * Fraction(999_999, 1_000_000)

    @property
    def remaining(self) -> Money:
        """What may still be spent: of each of ε and δ the least."""
        left = [account.remaining() for account in set(self.filters)]  # an only analyst's is often like the data set's
        if not left:
            return Money(epsilon=Fraction(0), delta=Fraction(0))
        return Money(epsilon=min(amount.epsilon for amount in left), delta=min(amount.delta for amount in left))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRows:
    """The rows of a whole release: named and bounded, nothing read yet. Public."""

    data_set: OpenDataSet
    plan: RowPlan
    accounts: Accounts
    """The accounts that the release must fit."""

    @property
    def delta(self) -> Fraction:
        """The δ at which ε is meant."""
        return self.accounts.delta

    @property
    def gaussian(self) -> bool:
        """Whether the accounts have a price for Gaussian noise on integers."""
        return self.accounts.take_gaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a whole release measured, as it is stored, and its receipt."""

    measurements: bytes
    receipt: str
    remaining: Money
    repeated: str = ""  # when it was paid for, where this is a release of before

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of how it was paid."""
        told = f"paid for on {self.repeated[:10]}, and nothing was charged now; fresh=True (--fresh) releases anew"
        return (told,) if self.repeated else ()


class Order(NamedTuple):
    """How a release is ordered: under which id of the asker's own, and whether one that was paid for will do."""

    request: str | None = None
    fresh: bool = False


_LIVE: weakref.WeakSet[Access] = weakref.WeakSet()


def _forked() -> None:
    for access in list(_LIVE):
        access.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Access:
    """What one analyst may reach."""

    made_up: ClassVar[bool] = False
    """Whether the rows are invented ones, to try questions on."""

    def __init__(self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger, analyst: str) -> None:
        self.data_sets = dict(data_sets)
        """What can be asked about, by name."""
        self.analyst = analyst
        self._ledger = ledger
        self._closed = False
        self._working = 0
        self._idle = threading.Condition()
        self._orphaned = False
        """Whether this process was forked off while another thread was at work, in an engine that cannot go on here."""
        _LIVE.add(self)

    # what a question is about

    def parse(
        self, question: str | Builder, parameters: Parameters = (), data: str | None = None, dialect: str = "duckdb"
    ) -> tuple[OpenDataSet, Question | Composed]:
        """Return the data set that a question is about, and the question as a tree."""
        if not isinstance(question, str | Builder):
            raise InvalidValueError("question", got=question, allowed="SQL as text, or a question built with table(…)")

        def read(schema: Schema) -> Question | Composed:
            if isinstance(question, Builder):
                return question.question(schema)
            from hush.query.sql import parse

            return parse(question, schema, parameters, dialect)

        return self.find_data(read, data)

    def find_data(self, read: Callable[[Schema], Asked], data: str | None) -> tuple[OpenDataSet, Asked]:
        """Return the data set that has the tables of a question, and the question as ``read`` there."""
        self._check_open()
        if data is not None and (not isinstance(data, str) or data not in self.data_sets):
            listed = ", ".join(self.data_sets)
            raise QuestionError(f"There is no data set {data!r}.", f"{self.analyst} may ask about {listed}.")
        data_sets = [self.data_sets[data]] if data is not None else list(self.data_sets.values())
        understood: list[tuple[OpenDataSet, Asked]] = []
        refusals: list[QuestionError] = []
        for data_set in data_sets:
            try:
                understood.append((data_set, read(data_set.engine.described())))
            except QuestionError as error:
                refusals.append(error)
        if len(understood) == 1:
            return understood[0]
        if understood:
            names = [repr(data_set.schema.data) for data_set, _ in understood]
            raise QuestionError(
                f"The data sets {' and '.join(names)} have tables of these names.",
                f"Say which one is meant: data={names[0]} or another.",
            )
        # what a data set says that has the tables goes before "there is no table"
        refused = next((error for error in refusals if not isinstance(error, UnknownTableError)), None)
        unknown = next((error for error in refusals if isinstance(error, UnknownTableError)), None)
        if refused is None and unknown is not None:
            refused = self._where_it_is(unknown)
        raise refused or QuestionError(f"{self.analyst} may ask about no data set.", "Ask the owner.")

    def _where_it_is(self, unknown: UnknownTableError) -> QuestionError:
        """Return the refusal of an unknown table, with the data set that has it, if there is one."""
        for name, data_set in self.data_sets.items():
            if unknown.table.casefold() in map(str.casefold, data_set.schema.tables):
                hint = f"The data set {name!r} has it, and a question is about one data set: say data={name!r}."
                elsewhere = UnknownTableError(unknown.what.replace("There is no table", "Here is no table"), hint)
                elsewhere.place, elsewhere.text, elsewhere.table = unknown.place, unknown.text, unknown.table
                return elsewhere
        return unknown

    # charging

    def accounts(self, data: str) -> Accounts:
        """Return the accounts above a data set that this analyst's releases are charged to."""
        views = self._ledger.budget(Actor.analyst(self.analyst))
        binding = [view for view in views if view.data == data and view.analyst in {None, self.analyst}]
        return Accounts(tuple(view.account for view in binding), tuple(view.whose for view in binding))

    def charge(
        self,
        data: str,
        text: str,
        events: Sequence[Event],
        request: str | None = None,
        repeat: Repeat | None = None,
        *,
        epsilon: Fraction | None = None,
        reason: str = "",
    ) -> Reservation:
        """Charge events to a data set and this analyst, durably.

        A request that was answered brings its answer, and so does a ``repeat`` of a question that was.
        """
        return self._ledger.reserve(
            uuid.uuid4().hex if request is None else request,
            analyst=self.analyst,
            data=data,
            question=text,
            events=list(events),
            repeat=repeat,
            epsilon=epsilon,
            reason=reason,
        )

    def keep(
        self, reservation: Reservation, compute: Callable[[], Result], to_bytes: Callable[[Result], bytes]
    ) -> Result:
        """Compute what was charged for, and record it with its charge; a failure shows one public sentence."""
        try:
            result = compute()
            stored = to_bytes(result)
        except BaseException as error:
            self._ledger.failed(reservation, "no answer could be computed")
            if not isinstance(error, Exception):
                error.add_note(
                    f"The question was interrupted after its charge, and stays charged: {reservation.number}"
                )
                raise
            if not isinstance(error, EngineError):
                log.debug("a question failed after its charge", exc_info=error)
            raise EngineError from None
        self._ledger.answered(reservation, stored)
        return result

    def measured(self, compute: Callable[[], Result]) -> Result:
        """Return what is computed from rows within what was charged before, such as a further period of a stream."""
        try:
            return compute()
        except EngineError:
            raise
        except Exception as error:
            log.debug("a release failed after its charge", exc_info=error)
            raise EngineError from None

    def remaining(self, receipt: str | int) -> Money:
        """Return what may still be spent of the data set that a receipt of this analyst's is about."""
        made, _ = self._ledger.receipt(int(receipt), Actor.analyst(self.analyst))
        return self.accounts(made.data).remaining

    # rows for whole releases

    def plan_rows(
        self,
        question: str,
        parameters: Parameters = (),
        *,
        max_rows: int | None = None,
        data: str | None = None,
    ) -> PlannedRows:
        """Plan the rows of a whole release or a model: SELECT columns FROM …, without aggregates. Reads no data.

        Parameters
        ----------
        question
            SQL that names the rows and their columns.
        max_rows
            How many rows of one unit count; what the policy declares, if it is not said.
        """
        with self.in_use():
            if not isinstance(question, str):
                raise InvalidValueError("question", got=question, allowed="SQL as text")
            from hush.query.plan.rows import plan_rows
            from hush.query.sql import parse_rows

            data_set, asked = self.find_data(lambda schema: parse_rows(question, schema, parameters), data)
            return self.planned_rows(data_set, plan_rows(asked, data_set.schema, max_rows=max_rows))

    def planned_rows(self, data_set: OpenDataSet, rows: RowPlan) -> PlannedRows:
        """Return rows with the accounts that their release must fit."""
        return PlannedRows(data_set=data_set, plan=rows, accounts=self.accounts(data_set.schema.data))

    def release_rows(
        self,
        planned: PlannedRows,
        events: Sequence[Event],
        measure: Callable[[CodedRows], bytes],
        *,
        text: str,
        public: object,
        order: Order,
        epsilon: Fraction | None = None,
    ) -> Kept:
        """Charge ``events``, then let ``measure`` make a private release of the coded rows, and keep it.

        The charge is durable before any row is read. ``measure`` must be as private as the events say, and may fail
        only in ways that depend on no row; what it returns is stored with the receipt. Asked again, or under the same
        request id, the stored bytes come back, free of charge. ``public`` is all that decides besides the rows, and
        that the plan and the events do not say: with something else in it this is another release.
        """
        with self.in_use():
            data, engine = planned.data_set.schema.data, planned.data_set.engine
            compiled = engine.compile_rows(planned.plan)
            same = self._same_release(planned, events, text, public)
            repeat = Repeat(question=same, fresh=order.fresh, shared=planned.data_set.share)
            reservation = self.charge(data, text, events, order.request, repeat, epsilon=epsilon)
            stored = reservation.answer
            if stored is None:
                stored = self.keep(reservation, lambda: measure(engine.rows(compiled)), bytes)
            return Kept(
                measurements=stored,
                receipt=str(reservation.number),
                remaining=self.accounts(data).remaining,
                repeated=reservation.when,
            )

    @staticmethod
    def _same_release(planned: PlannedRows, events: Sequence[Event], text: str, public: object) -> str:
        """Return what a release has in common with every other way to ask for the same, and with nothing else."""
        data_set, plan = planned.data_set, planned.plan
        tables = {name: replace(table, beyond=()) for name, table in data_set.schema.tables.items()}
        schema, told = replace(data_set.schema, tables=tables), [event.to_json() for event in events]
        return fingerprint("release", text, data_set.identity, schema, plan.question, plan.limits, told, public)

    # reading

    def budget(self) -> Budgets:
        """Return what is left: the analyst's budgets, and those of the data sets above them."""
        with self.in_use():
            self._ledger.check_made()
            return self._ledger.budget(Actor.analyst(self.analyst))

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions and what they cost, newest first."""
        with self.in_use():
            return self._ledger.history(Actor.analyst(self.analyst), limit=limit)

    def request(self, *, epsilon: Number, reason: str = "", data: str | None = None) -> ParkedQuestion:
        """Ask the owner for a larger budget: ``epsilon`` is its new total. Spends nothing.

        A question dearer than the owner lets pass unseen needs no such call: `ask` records it as a request.
        """
        with self.in_use():
            names = list(self.data_sets) if data is None else [data]
            if len(names) != 1 or names[0] not in self.data_sets:
                listed = ", ".join(self.data_sets)
                raise QuestionError("Which data set is the budget about?", f"Say data=…, one of {listed}.")
            actor = Actor.analyst(self.analyst)
            number = self._ledger.ask_for_budget(names[0], epsilon=epsilon, actor=actor, reason=reason)
            return next(request for request in self._ledger.requests(actor) if request.number == number)

    def requests(self) -> list[ParkedQuestion]:
        """Return what this analyst's waits, or waited, for the owner's approval, newest first."""
        with self.in_use():
            return self._ledger.requests(Actor.analyst(self.analyst))

    def show(self, receipt: str | int) -> Answer:
        """Return an answer of this analyst's by its receipt: what was paid for can always be seen again."""
        with self.in_use():
            return Answer.shown(self._ledger, receipt, Actor.analyst(self.analyst))

    def tables(self) -> DescribedTables:
        """Return the tables that can be asked about: columns, bounds, values, whose rows they are, examples."""
        from hush.curator.catalogue import DescribedTables

        return DescribedTables(data_set.schema for data_set in self.data_sets.values())

    # as long as it is open

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep everything open as long as the context lasts."""
        with self._idle:
            self._check_open()
            self._working += 1
        try:
            yield
        finally:
            with self._idle:
                self._working -= 1
                self._idle.notify_all()

    def close(self) -> None:
        """Close the engines and the ledger once all that was asked is answered; nothing can be asked any more."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: not self._working)
        if self._orphaned:
            return
        for data_set in self.data_sets.values():
            data_set.engine.close()
        self._ledger.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError
        if self._orphaned:
            raise ForkedError

    def after_fork(self) -> None:
        """Begin afresh in a child: with locks that nobody holds, and without an engine that was at work."""
        self._idle = threading.Condition()
        self._orphaned = self._orphaned or self._working > 0
        self._working = 0

    def __repr__(self) -> str:
        """Return who asks about what, and what is left."""
        tables = ", ".join(self.tables())
        lines = [f"<{type(self).__name__} of {self.analyst}: {tables}{', made-up rows' * self.made_up}>"]
        if not self._closed and not self.made_up:
            lines += [f"  {view}" for view in self._ledger.budget(Actor.analyst(self.analyst))]
        return "\n".join(map(visible, lines)) + (" (closed)" if self._closed else "")

    def _repr_html_(self) -> str:
        if self._closed or self.made_up:
            return f"<pre>{escape(repr(self))}</pre>"
        return self._ledger.budget(Actor.analyst(self.analyst))._repr_html_() + self.tables()._repr_html_()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClosedError(HushError):
    """The curator was closed, by ``close()`` or at the end of its ``with`` block."""

    code = "closed"

    def __init__(self) -> None:
        super().__init__("This curator is closed. Open another with hush.open or hush.protect.")


class ForkedError(HushError):
    """Another thread was using the curator when this process was forked off; its engine stayed with the parent."""

    code = "forked"

    def __init__(self) -> None:
        super().__init__(
            "This curator was in use by another thread when this process was forked off, and its engine stayed behind. "
            "Open another one here, with hush.open or hush.protect."
        )
