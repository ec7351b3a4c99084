"""The curator: the way of one question from text to answer.

::

    parse ─► plan ─► compile ─► charge ─► execute ─► release ─► estimate
    └─ depends on question and policy alone ┘└ charged from here on, whatever happens

`Curator.ask` reads like this picture. What questions have in common with whole releases (finding the data, charging,
keeping) is in `hush.curator.access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from hush.accounting.events import Event
from hush.core import InvalidValueError, Number, nonnegative
from hush.curator.access import Access, Accounts, Parameters
from hush.curator.answer import Answer, Money
from hush.curator.bounding import Bounding, estimate
from hush.curator.data_sets import OpenDataSet
from hush.curator.explanation import Explanation
from hush.curator.outputs import estimate_outputs
from hush.curator.release import release
from hush.engines.compiled import Compiled
from hush.engines.duckdb import DuckDB
from hush.ledger import Ledger, Repeat, RequestConflictError
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.fingerprint import fingerprint
from hush.query.plan import Plan, plan
from hush.query.question import Question

if TYPE_CHECKING:
    from hush.curator.family_release import FamilyRelease
    from hush.curator.marginal_release import MarginalExplanation, MarginalRelease
    from hush.curator.model_release import FitExplanation, Recorded
    from hush.curator.range_release import RangeRelease
    from hush.curator.streams import Streams
    from hush.curator.synthetic_release import SyntheticExplanation, SyntheticRelease

KEY_PART = Fraction(1, 100)
"""Private keys take this part of the budget's δ, unless the question says otherwise. An account sets a part of δ aside
for them (a quarter, where it is not a plain sum of ε), so that many questions may group by private keys."""


class Terms(TypedDict, total=False):
    """On which terms a question is asked: for a price or an accuracy, and how often its error bars hold."""

    epsilon: Number | None
    accuracy: Number | tuple[Number, Number] | None
    delta: Number | None
    confidence: Number | None


class PlannedQuestion(NamedTuple):
    """A question that could be asked: its data set, and how it would be answered. Nothing was read or charged."""

    data_set: OpenDataSet
    plan: Plan


class Curator(Access):
    """Answers one analyst's questions within their budget."""

    def __init__(
        self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger, analyst: str, *, streams: Path | None = None
    ) -> None:
        """``streams`` is the directory of private state beside the ledger; None to keep it in memory."""
        super().__init__(data_sets, ledger, analyst)
        self._streams = streams
        self._stream_states: dict[str, bytes] = {}

    # asking

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        return start(name, alias, asker=self)

    def plan(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        data: str | None = None,
        **terms: Unpack[Terms],
    ) -> PlannedQuestion:
        """Plan a question as `ask` would answer it. Reads no data and spends nothing."""
        data_set, asked = self.parse(question, parameters, data)
        return PlannedQuestion(data_set, _planned(asked, data_set, self.accounts(data_set.schema.data), **terms))

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
        terms = Terms(epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence)
        with self.in_use():
            data_set, plan = self.plan(question, parameters, data=data, **terms)
            notes = data_set.engine.write(plan).notes
        return Explanation(replace(plan, caveats=(*plan.caveats, *notes)))

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
        fresh: bool = False,
    ) -> Answer:
        """Answer a question, and charge it.

        The same question asked again, in whatever spelling, brings back the answer that was paid for, free of charge.

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
        fresh
            Whether to ask anew, with new noise and a new charge, what was answered before.
        """
        terms = Terms(epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence)
        with self.in_use():
            data_set, plan = self.plan(question, parameters, data=data, **terms)
            data, engine = data_set.schema.data, data_set.engine
            compiled = engine.compile(plan)
            repeat = Repeat(question=same_question(data_set, plan), fresh=fresh, shared=data_set.share)
            reservation = self.charge(data, plan.question.text or str(question), plan.events, request, repeat)
            if reservation.answer is None:
                answer = self.keep(reservation, partial(_answer, plan, engine, compiled), Answer.to_bytes)
            else:
                answer = Answer.from_bytes(reservation.answer)
                _check_confidence(answer, plan, request, asked=confidence is not None)
            remaining = self.accounts(data).remaining
            if self.made_up:
                return replace(answer, made_up=True)
            return replace(
                answer,
                receipt=str(reservation.number),
                remaining=remaining,
                repeated=reservation.when,
                shared=reservation.shared,
            )

    def dummy(self) -> Curator:
        """Return a curator for the same questions on made-up rows: free, without a ledger, and marked as such."""
        from hush.curator.made_up import MadeUpCurator

        with self.in_use():
            return MadeUpCurator(self, self._ledger)

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
            known = [
                name for data_set in data_sets for name, table_ in data_set.schema.tables.items() if not table_.public
            ]
            raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), known))
        bounding = estimate(self, data_set.schema, table, by=by, epsilon=epsilon, quantile=quantile)
        if bounding.beyond is not None:  # as if it stood in the policy, as long as this curator lives
            schema = data_set.schema
            others = (beyond for beyond in schema.tables[table].beyond if beyond.by != by)
            estimated = replace(schema.tables[table], beyond=(*others, bounding.beyond))
            schema = replace(schema, tables={**schema.tables, table: estimated})
            self.data_sets[schema.data] = replace(data_set, schema=schema)
        return bounding

    # whole releases

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
        with self.in_use():
            name = next(iter(self.data_sets)) if data is None and len(self.data_sets) == 1 else data
            if name not in self.data_sets:
                listed = ", ".join(self.data_sets)
                raise QuestionError("Which data set is the event about?", f"Say data=…, one of {listed}.")
            reservation = self.charge(name, f"STATED BY THE CALLER: {note}", [event], request)
            if reservation.answer is None:
                self.keep(reservation, lambda: note, str.encode)
            remaining = self.accounts(name).remaining
            return Recorded(event=event, note=note, receipt=str(reservation.number), remaining=remaining)

    @property
    def stream(self) -> Streams:
        """Counts and sums that keep coming: ``stream.create(…)``, ``stream.open(name)``, ``stream.names()``."""
        from hush.curator.stream_state import StateFiles
        from hush.curator.streams import Streams

        return Streams(self, StateFiles(self._streams, self._stream_states))


def _planned(
    question: Question,
    data_set: OpenDataSet,
    accounts: Accounts,
    *,
    epsilon: Number | None = None,
    accuracy: Number | tuple[Number, Number] | None = None,
    delta: Number | None = None,
    confidence: Number | None = None,
) -> Plan:
    """Choose the mechanisms of a question, in the currency of the accounts that it must fit."""
    keys = accounts.delta * KEY_PART if delta is None else delta
    return plan(
        question,
        data_set.schema,
        epsilon=epsilon,
        accuracy=accuracy,
        delta=max(accounts.delta, nonnegative(keys, "delta")),
        key_delta=keys,
        gaussian=accounts.take_gaussian,
        confidence=confidence,
    )


def same_question(data_set: OpenDataSet, plan: Plan) -> str:
    """Return what a question has in common with every other way to ask the same, and with nothing else.

    All of it is public: the typed tree, which data the owner says these are, the policy, the price, the confidence and
    the bounds. Estimates of what lies beyond bounds are left out, which change no answer.
    """
    schema = data_set.schema
    tables = {name: replace(table, beyond=()) for name, table in schema.tables.items()}
    return fingerprint(
        "question",
        plan.question,
        data_set.identity,
        replace(schema, tables=tables),
        (plan.epsilon, plan.delta, plan.meant_at),
        plan.confidence,
        plan.extraction.limits,
    )


def _answer(plan: Plan, engine: DuckDB, compiled: Compiled) -> Answer:
    """Execute, release and estimate: from exact integers to noisy answers. Call this after the charge, never before."""
    released = release(plan, partial(engine.execute, compiled))
    columns = estimate_outputs(plan, released, partial(engine.compute, compiled))
    return Answer(
        columns=columns,
        confidence=plan.confidence,
        price=Money.of(plan),
        caveats=(*plan.caveats, *compiled.notes),
        question=plan.question.text,
    )


def _check_confidence(answer: Answer, plan: Plan, request: str | None, *, asked: bool) -> None:
    """Refuse to show a stored answer's error bars as those of another confidence."""
    if asked and answer.confidence != plan.confidence:
        raise RequestConflictError(
            f"The request {request!r} was answered at a confidence of {answer.confidence:g}, "
            f"and is asked for at {plan.confidence:g}. Leave confidence out, or ask under a new request id."
        )
