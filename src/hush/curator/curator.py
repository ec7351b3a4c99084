"""The curator: the way of one question from text to answer.

::

    parse ─► plan ─► compile ─► reserve ─► execute ─► noise ─► answer
    └─ depends on question and policy alone ┘└ charged from here on, whatever happens

Whatever can be refused is refused before the charge. After it, nothing is ever refunded, and a failure shows one public
sentence: what exactly failed may depend on a row, so it goes to the owner's log.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hush.accounting.errors import DescriptionError
from hush.accounting.events import Event, ZCDPEvent
from hush.accounting.filters import Filter
from hush.core import InvalidValueError, Number, nonnegative
from hush.curator.answer import Answer, Money
from hush.curator.bounding import Bounding, estimate
from hush.curator.data_sets import OpenDataSet
from hush.curator.errors import ClosedError, ForkedError
from hush.curator.explanation import Explanation
from hush.curator.outputs import build
from hush.curator.release import release
from hush.engines.base import CodedRows
from hush.engines.errors import EngineError
from hush.ledger import AccountView, Actor, Ledger, Release, RequestConflictError, Reservation
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.plan import Plan, plan
from hush.query.plan.rows import RowPlan, plan_rows
from hush.query.question import Question
from hush.query.schema import Schema

if TYPE_CHECKING:
    from hush.curator.family_release import FamilyRelease
    from hush.curator.marginal_release import MarginalExplanation, MarginalRelease
    from hush.curator.model_release import FitExplanation, Recorded
    from hush.curator.range_release import RangeRelease
    from hush.curator.streams import Streams
    from hush.curator.synthetic_release import SyntheticExplanation, SyntheticRelease

log = logging.getLogger("hush.curator")
KEY_PART = Fraction(1, 100)
"""Private keys take this part of the budget's δ, unless the question says otherwise. An account sets a part of δ aside
for them (a quarter, where it is not a plain sum of ε), so that many questions may group by private keys."""

_GAUSSIAN = ZCDPEvent(rho=Fraction(1, 1000))

Parameters = Sequence[Any] | Mapping[str, Any]


Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRows:
    """The rows of a whole release: named and bounded, nothing read yet. Public."""

    data_set: OpenDataSet
    plan: RowPlan
    delta: Fraction
    """The δ at which ε is meant: the budget's; 0 where one that the release must fit has none."""
    gaussian: bool
    """Whether the accounts have a price for Gaussian noise on integers."""
    accounts: tuple[Filter, ...] = ()
    """The accounts that a release must fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a whole release measured, as it is stored, and its receipt."""

    measurements: bytes
    receipt: str
    remaining: Money


_LIVE: weakref.WeakSet[Curator] = weakref.WeakSet()


def _forked() -> None:
    for curator in list(_LIVE):
        curator.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Curator:
    """Answers one analyst's questions within their budget."""

    def __init__(
        self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger, analyst: str, *, streams: Path | None = None
    ) -> None:
        """``streams`` is the directory of private state beside the ledger; None to keep it in memory."""
        self.data_sets = dict(data_sets)
        """What can be asked about, by name."""
        self._ledger = ledger
        self.analyst = analyst
        self._closed = False
        self._working = 0
        self._idle = threading.Condition()
        self._streams = streams
        self._stream_states: dict[str, bytes] = {}
        self._orphaned = False
        """Whether this process was forked off while another thread was at work, in an engine that cannot go on here."""
        _LIVE.add(self)

    # asking

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        return start(name, alias, asker=self)

    def explain(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        data: str | None = None,
    ) -> Explanation:
        """Say what a question would cost and how accurate it would be. Reads no data and spends nothing."""
        with self._at_work():
            data_set, how = self._plan(
                question, parameters, epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence, data=data
            )
            return Explanation(replace(how, caveats=(*how.caveats, *data_set.engine.write(how).notes)))

    def ask(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        data: str | None = None,
        request: str | None = None,
    ) -> Answer:
        """Answer a question, and charge it.

        Parameters
        ----------
        question
            SQL, or a question built with `table`.
        parameters
            The values of ``?`` or ``$name`` in the SQL.
        epsilon
            What the whole question costs.
        accuracy
            Instead of ``epsilon``: (half-width, confidence) that every COUNT and SUM must reach, and what is made of
            them by adding and constants; or a number, at 0.95.
        delta
            What private keys may use of δ; by default a hundredth of the budget's.
        confidence
            How often an error bar holds: that of ``accuracy``, else 0.95. The price does not depend on it.
        data
            Which data set, where the analyst has several and the tables' names do not tell.
        request
            An id of the asker's own: asked again with the same id, the stored answer comes back, free of charge, and
            at its own confidence; to ask for another one is refused.
        """
        with self._at_work():
            data_set, how = self._plan(
                question, parameters, epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence, data=data
            )
            compiled = data_set.engine.compile(how)
            name = data_set.schema.data
            reservation = self._ledger.reserve(
                uuid.uuid4().hex if request is None else request,
                analyst=self.analyst,
                data=name,
                question=how.question.text or str(question),
                events=list(how.events),
            )
            if reservation.answer is not None:
                answer = Answer.from_bytes(reservation.answer)
                if confidence is not None and answer.confidence != how.confidence:
                    raise RequestConflictError(
                        f"The request {request!r} was answered at a confidence of {answer.confidence:g}, "
                        f"and is asked for at {how.confidence:g}. Leave confidence out, or ask under a new request id."
                    )
            else:
                try:
                    columns = build(
                        how,
                        release(how, partial(data_set.engine.execute, compiled)),
                        partial(data_set.engine.compute, compiled),
                    )
                    answer = Answer(
                        columns=columns,
                        confidence=how.confidence,
                        price=_price(how),
                        caveats=(*how.caveats, *compiled.notes),
                        question=how.question.text,
                    )
                    stored = answer.to_bytes()
                except BaseException as error:
                    self._ledger.failed(reservation, "no answer could be computed")
                    if not isinstance(error, Exception):
                        raise
                    if not isinstance(error, EngineError):
                        log.debug("a question failed after its charge", exc_info=error)
                    raise EngineError from None
                self._ledger.answered(reservation, stored)
            return replace(answer, receipt=str(reservation.number), remaining=self._remaining(name))

    def bounding(
        self,
        table: str,
        *,
        by: str | None = None,
        epsilon: Number,
        quantile: Number | None = None,
        data: str | None = None,
    ) -> Bounding:
        """Estimate how much the bounds of a table cut, and propose others; two questions of half the price each.

        Parameters
        ----------
        table
            A private table whose rows belong to units.
        by
            The column whose values are the groups: how many of its groups units lose by ``max_groups``. Without it, how
            many of their rows they lose by ``max_rows``, in questions without groups.
        epsilon
            What both questions cost together.
        quantile
            The proposal is the least bound that this part of the units does not exceed: 0.95 if not said.
        data
            Which data set, where several have a table of this name.
        """
        data_sets = [data_set for name, data_set in self.data_sets.items() if data in {None, name}]
        data_set = next((data_set for data_set in data_sets if table in data_set.schema.tables), None)
        if data_set is None:
            known = [name for one in data_sets for name, found in one.schema.tables.items() if not found.public]
            raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), known))
        found = estimate(self, data_set.schema, table, by=by, epsilon=epsilon, quantile=quantile)
        if found.beyond is not None:  # as if it stood in the policy, as long as this curator lives
            told = data_set.schema.tables[table]
            others = tuple(one for one in told.beyond if one.by != by)
            tables = {**data_set.schema.tables, table: replace(told, beyond=(*others, found.beyond))}
            self.data_sets[data_set.schema.data] = replace(data_set, schema=replace(data_set.schema, tables=tables))
        return found

    def _plan(
        self,
        question: str | Builder,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        data: str | None = None,
    ) -> tuple[OpenDataSet, Plan]:
        data_set, asked = self._understand(question, parameters, data)
        accounts = [view.account for view in self._accounts(data_set.schema.data)]
        # The δ at which ε is meant: the budget's; 0 where one that the question must fit has none.
        slip = min((account.delta for account in accounts), default=Fraction(0))
        keys = slip * KEY_PART if delta is None else delta
        slip = max(slip, nonnegative(keys, "delta"))
        how = plan(
            asked,
            data_set.schema,
            epsilon=epsilon,
            accuracy=accuracy,
            delta=slip,
            key_delta=keys,
            gaussian=all(map(_takes_gaussian, accounts)),
            confidence=confidence,
        )
        return data_set, how

    def _understand(
        self, question: str | Builder, parameters: Parameters, data: str | None
    ) -> tuple[OpenDataSet, Question]:
        """Return the data set that the question is about, and the question as a tree."""
        if not isinstance(question, str | Builder):
            raise InvalidValueError("question", got=question, allowed="SQL as text, or a question built with table(…)")

        def read(schema: Schema) -> Question:
            if isinstance(question, Builder):
                return question.question(schema)
            from hush.query.sql import parse

            return parse(question, schema, parameters)

        return self._find_data(read, data)

    def _find_data(self, read: Callable[[Schema], Asked], data: str | None) -> tuple[OpenDataSet, Asked]:
        """Return the first data set that has the tables of a question, and the question as ``read`` there."""
        self._check_open()
        if data is not None and data not in self.data_sets:
            listed = ", ".join(self.data_sets)
            raise QuestionError(f"There is no data set {data!r}.", f"{self.analyst} may ask about {listed}.")
        data_sets = [self.data_sets[data]] if data is not None else list(self.data_sets.values())
        elsewhere, refused = None, None  # what a data set says that has the tables goes before "there is no table"
        for data_set in data_sets:
            try:
                return data_set, read(data_set.engine.described())
            except UnknownTableError as error:
                elsewhere = elsewhere or error
            except QuestionError as error:
                refused = refused or error
        raise refused or elsewhere or QuestionError(f"{self.analyst} may ask about no data set.", "Ask the owner.")

    # whole releases

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
        with self._at_work():
            if not isinstance(question, str):
                raise InvalidValueError("question", got=question, allowed="SQL as text")
            from hush.query.sql import parse_rows

            data_set, asked = self._find_data(lambda schema: parse_rows(question, schema, parameters), data)
            return self._planned_rows(data_set, plan_rows(asked, data_set.schema, max_rows=max_rows))

    def release_rows(
        self,
        planned: PlannedRows,
        events: Sequence[Event],
        measure: Callable[[CodedRows], bytes],
        *,
        text: str,
        request: str | None = None,
    ) -> Kept:
        """Charge ``events``, then let ``measure`` make a private release of the coded rows, and keep it.

        The charge is durable before any row is read. ``measure`` must be as private as the events say, and may fail
        only in ways that depend on no row; what it returns is stored with the receipt. Asked again under the same
        request id, the stored bytes come back, free of charge.
        """
        with self._at_work():
            data_set = planned.data_set
            compiled = data_set.engine.compile_rows(planned.plan)
            reservation = self._ledger.reserve(
                uuid.uuid4().hex if request is None else request,
                analyst=self.analyst,
                data=data_set.schema.data,
                question=text,
                events=list(events),
            )
            stored = reservation.answer
            if stored is None:
                stored = self._once(reservation, lambda: measure(data_set.engine.rows(compiled)))
            return Kept(
                measurements=stored, receipt=str(reservation.number), remaining=self._remaining(data_set.schema.data)
            )

    def marginals(
        self,
        table: str,
        by: Sequence[str] | None = None,
        *,
        degree: int = 2,
        epsilon: Number | None = None,
        optimise: str = "max",
        confidence: float = 0.95,
        max_rows: int | None = None,
        data: str | None = None,
        request: str | None = None,
    ) -> MarginalRelease:
        """Release all tables of ``degree`` columns at once, with the least error that is possible, and charge them.

        Parameters
        ----------
        table, by
            A table and the columns to be crossed; or SQL that names the rows, without ``by``.
        degree
            How many columns each table has. Smaller tables are sums of these.
        epsilon
            What all tables together cost.
        optimise
            "max" for the least largest error of a cell, "sum" for the least mean over tables, "cells" over all cells.
        confidence
            How often an error bar holds.
        max_rows
            How many rows of one unit count; what the policy declares, if it is not said.
        """
        from hush.curator.marginal_release import planned_marginals, release_marginals

        how = {"degree": degree, "epsilon": epsilon, "optimise": optimise, "confidence": confidence}
        planned, explanation = planned_marginals(self, table, by, **how, max_rows=max_rows, data=data)  # type: ignore[arg-type]
        return release_marginals(self, planned, explanation, request)

    def explain_marginals(
        self,
        table: str,
        by: Sequence[str] | None = None,
        *,
        degree: int = 2,
        epsilon: Number | None = None,
        optimise: str = "max",
        confidence: float = 0.95,
        max_rows: int | None = None,
        data: str | None = None,
    ) -> MarginalExplanation:
        """Say what `marginals` would cost and how far off every cell would be. Reads no data and spends nothing."""
        from hush.curator.marginal_release import planned_marginals

        how = {"degree": degree, "epsilon": epsilon, "optimise": optimise, "confidence": confidence}
        return planned_marginals(self, table, by, **how, max_rows=max_rows, data=data)[1]  # type: ignore[arg-type]

    def synth(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        certify: Number = "0.05",
        max_rows: int | None = None,
        data: str | None = None,
        request: str | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> SyntheticRelease:
        """Release synthetic rows like those that SQL names: SELECT columns FROM …, and charge them.

        Parameters
        ----------
        question
            SQL that names the rows and their columns.
        epsilon
            What the release costs.
        certify
            The share of the price that buys a certificate of how good the rows are; 0 for none.
        max_rows
            How many rows of one unit count; what the policy declares, if it is not said.
        progress
            Is told the stage and how much of it is done.
        """
        from hush.curator.synthetic_release import planned_synthesis, release_synthetic

        planned, explanation = planned_synthesis(
            self, question, epsilon=epsilon, certify=certify, max_rows=max_rows, data=data
        )
        return release_synthetic(self, planned, explanation, request, progress)

    def explain_synth(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        certify: Number = "0.05",
        max_rows: int | None = None,
        data: str | None = None,
    ) -> SyntheticExplanation:
        """Say what `synth` would cost, and the noise it would have. Reads no data and spends nothing."""
        from hush.curator.synthetic_release import planned_synthesis

        return planned_synthesis(self, question, epsilon=epsilon, certify=certify, max_rows=max_rows, data=data)[1]

    def ranges(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        max_rows: int | None = None,
        data: str | None = None,
        request: str | None = None,
    ) -> RangeRelease:
        """Release every interval, the distribution and all quantiles of the one column that SQL names, and charge them.

        ``curator.ranges("SELECT age FROM visits", epsilon="0.5").quantiles([0.5, 0.9])``
        """
        from hush.curator.range_release import release_ranges

        return release_ranges(self, question, epsilon=epsilon, max_rows=max_rows, data=data, request=request)

    def synth_children(
        self,
        parents: str,
        children: str,
        *,
        number: str,
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> FamilyRelease:
        """Release synthetic parents with synthetic children, such as patients with visits, each for half of the price.

        Parameters
        ----------
        parents
            SQL with one row for each unit, among its columns the number of children.
        children
            SQL with the children's rows, and some columns of the parents under the same names.
        number
            The parents' column that says how many children there are.
        max_rows
            How many children of one unit count.
        """
        from hush.curator.family_release import synth_children

        how = {"number": number, "epsilon": epsilon, "max_rows": max_rows, "data": data, "progress": progress}
        return synth_children(self, parents, children, **how)  # type: ignore[arg-type]

    def fit(
        self,
        question: str,
        *,
        target: str | None = None,
        model: str = "regression",
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
        request: str | None = None,
        **options: Any,
    ) -> Any:
        """Fit a private model to the rows that SQL names, and charge it.

        Parameters
        ----------
        question
            SQL that names the rows and their columns.
        target
            The column to predict; left out for moments, pca and kmeans.
        model
            "regression", "classification", "linear", "naive_bayes", "moments", "pca" or "kmeans" (`hush.learn`).
        epsilon
            What the model costs.
        max_rows
            How many rows of one unit count; more than one for models made of sums only (not "regression" and
            "classification"), at as many times the sensitivity.
        request
            An id of the asker's own: asked again with the same id, the stored model comes back, free of charge.
        options
            The model's own: ``basis`` of a regression, ``components`` of pca, ``clusters`` of kmeans.
        """
        from hush.curator.model_release import planned_model, release_model

        planned, explanation = planned_model(
            self, question, target=target, model=model, epsilon=epsilon, max_rows=max_rows, data=data, options=options
        )
        return release_model(self, planned, explanation, target=target, request=request)

    def explain_fit(
        self,
        question: str,
        *,
        target: str | None = None,
        model: str = "regression",
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
        **options: Any,
    ) -> FitExplanation:
        """Say what `fit` would cost, and the noise its model would have. Reads no data and spends nothing."""
        from hush.curator.model_release import planned_model

        how = {"target": target, "model": model, "epsilon": epsilon, "max_rows": max_rows, "data": data}
        return planned_model(self, question, **how, options=options)[1]  # type: ignore[arg-type]

    def record(self, event: Event, note: str, *, data: str | None = None, request: str | None = None) -> Recorded:
        """Charge an event that hush does not carry out, such as a training run, before it starts.

        What the event says is stated by the caller, and the receipt says so: nobody here checks what is then done.
        """
        from hush.curator.model_release import Recorded

        if not isinstance(event, Event):
            raise InvalidValueError("event", got=event, allowed="an event of hush.accounting")
        if not isinstance(note, str) or not note.strip():
            raise InvalidValueError("note", got=note, allowed="a text that says what the event is for")
        with self._at_work():
            name = next(iter(self.data_sets)) if data is None and len(self.data_sets) == 1 else data
            if name not in self.data_sets:
                listed = ", ".join(self.data_sets)
                raise QuestionError("Which data set is the event about?", f"Say data=…, one of {listed}.")
            reservation = self._ledger.reserve(
                uuid.uuid4().hex if request is None else request,
                analyst=self.analyst,
                data=name,
                question=f"STATED BY THE CALLER: {note}",
                events=[event],
            )
            if reservation.answer is None:
                self._once(reservation, note.encode)
            return Recorded(event=event, note=note, receipt=str(reservation.number), remaining=self._remaining(name))

    @property
    def stream(self) -> Streams:
        """Counts and sums that keep coming: ``stream.create(…)``, ``stream.open(name)``, ``stream.names()``."""
        from hush.curator.stream_state import StateFiles, StreamAccess
        from hush.curator.streams import Streams

        access = StreamAccess(
            analyst=self.analyst,
            ledger=self._ledger,
            understand=lambda question, data: self._understand(question, (), data),
            planned=self._planned_rows,
            at_work=self._at_work,
        )
        return Streams(access, StateFiles(self._streams, self._stream_states))

    def _planned_rows(self, data_set: OpenDataSet, rows: RowPlan) -> PlannedRows:
        """Return rows with what the accounts say of their price."""
        accounts = [view.account for view in self._accounts(data_set.schema.data)]
        return PlannedRows(
            data_set=data_set,
            plan=rows,
            delta=min((account.delta for account in accounts), default=Fraction(0)),
            gaussian=all(map(_takes_gaussian, accounts)),
            accounts=tuple(accounts),
        )

    def _once(self, reservation: Reservation, work: Callable[[], bytes]) -> bytes:
        """Compute what was charged for and record it; a failure shows one public sentence."""
        try:
            stored = work()
        except BaseException as error:
            self._ledger.failed(reservation, "no answer could be computed")
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, EngineError):
                log.debug("a question failed after its charge", exc_info=error)
            raise EngineError from None
        self._ledger.answered(reservation, stored)
        return stored

    def _accounts(self, data: str) -> list[AccountView]:
        mine = Actor.analyst(self.analyst)
        return [
            view for view in self._ledger.budget(mine) if view.data == data and view.analyst in {None, self.analyst}
        ]

    def _remaining(self, data: str) -> Money:
        accounts = {view.account for view in self._accounts(data)}  # an only analyst's is often like the data set's
        left = [account.remaining() for account in accounts]
        if not left:
            return Money(epsilon=Fraction(0), delta=Fraction(0))
        return Money(epsilon=min(item.epsilon for item in left), delta=min(item.delta for item in left))

    # reading

    def budget(self) -> list[AccountView]:
        """Return what is left: the analyst's budgets, and those of the data sets above them."""
        with self._at_work():
            self._ledger.check_made()
            return self._ledger.budget(Actor.analyst(self.analyst))

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions and what they cost, newest first."""
        with self._at_work():
            return self._ledger.history(Actor.analyst(self.analyst), limit=limit)

    def tables(self) -> dict[str, dict[str, str]]:
        """Return the columns that can be asked about, by table."""
        return {
            name: {column: type_.kind.value for column, type_ in table.columns.items()}
            for data_set in self.data_sets.values()
            for name, table in data_set.schema.tables.items()
        }

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

    @contextmanager
    def _at_work(self) -> Iterator[None]:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _takes_gaussian(account: Filter) -> bool:
    """Return whether an account has a price for Gaussian noise on integers; a sum of ε and Gaussian DP have none."""
    try:
        account.price(_GAUSSIAN)
    except DescriptionError:
        return False
    return True


def _price(how: Plan) -> Money:
    items = tuple((item.what, item.epsilon, item.delta) for item in how.items)
    return Money(epsilon=how.epsilon, delta=how.delta, items=items)
