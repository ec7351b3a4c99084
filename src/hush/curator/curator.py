"""The curator: the methods for one analyst. `hush.curator.pipeline` leads a question from text to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, Self

from hush.accounting.events import Event
from hush.core import InvalidValueError, Number
from hush.core.format import visible
from hush.curator import pipeline
from hush.curator.answer import Answer, Money, stored_answer
from hush.curator.data_sets import OpenDataSet
from hush.curator.pipeline import PlannedQuestion
from hush.curator.session import AnalystSession
from hush.curator.terms import (
    BoundingTerms,
    FamilyOrder,
    FamilyTerms,
    FitOrder,
    FitTerms,
    MarginalOrder,
    MarginalTerms,
    Parameters,
    QuestionOrder,
    QuestionTerms,
    RangeOrder,
    RangeTerms,
    SynthesisOrder,
    SynthesisTerms,
    takes,
    takes_options,
)
from hush.ledger import Charge, LedgerError

if TYPE_CHECKING:
    from hush.curator.catalogue import DescribedTables
    from hush.curator.count_release import MarginalRelease, RangeRelease
    from hush.curator.explanation import Explanation
    from hush.curator.kept_release import ReleaseExplanation, ReleaseHead
    from hush.curator.model_release import Recorded
    from hush.curator.owner import Bounding
    from hush.curator.streams import Streams
    from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
    from hush.ledger.history import Budgets, Release
    from hush.ledger.requests import ParkedQuestion
    from hush.query.answers.tree import Composed
    from hush.query.builder import Builder
    from hush.query.question import Question


class Curator:
    """Answers one analyst's questions within their budget.

    >>> import hush
    >>> with hush.protect({"age": [30, 40, 50]}, bounds={"age": (0, 120)}, budget="1") as curator:
    ...     answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.25")
    ...     float(curator.budget()[0].remaining.epsilon)
    0.75
    """

    def __init__(self, session: AnalystSession) -> None:
        self.session = session

    @property
    def analyst(self) -> str:
        """Who asks."""
        return self.session.analyst

    @property
    def data_sets(self) -> dict[str, OpenDataSet]:
        """The data sets that can be asked about, by name."""
        return self.session.data_sets

    # questions

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        from hush.query.builder import table

        return table(name, alias, asker=self)

    def parse(
        self, question: str | Builder, parameters: Parameters = (), data: str | None = None, dialect: str = "duckdb"
    ) -> tuple[OpenDataSet, Question | Composed]:
        """Return the data set that a question is about, and the question as a tree."""
        with self.session.in_use():
            return pipeline.parse(self.session, QuestionTerms(question, parameters, data=data, dialect=dialect))[:2]

    @takes(QuestionTerms)
    def plan(self, terms: QuestionTerms) -> PlannedQuestion:
        """Plan a question as `ask` would answer it. Reads no data and spends nothing."""
        with self.session.in_use():
            data_set, parsed, terms = pipeline.parse(self.session, terms)
            accounts = self.session.accounts(data_set.schema.data)
            return PlannedQuestion(data_set, pipeline.plan(parsed, data_set, accounts, terms))

    def at_prices(
        self, question: str | Builder, /, parameters: Parameters = (), *, epsilons: Sequence[Number], **terms: Any
    ) -> list[Explanation]:
        """Explain a question at several prices, which reads it once. Reads no data and spends nothing."""
        return pipeline.explain_at_prices(self.session, QuestionTerms(question, parameters, **terms), epsilons)

    @takes(QuestionTerms)
    def explain(self, terms: QuestionTerms) -> Explanation:
        """Explain a question: its price and how accurate its answer would be. Reads no data and spends nothing.

        It also says how accurate it would be at tighter limits, ``max_rows`` and ``max_groups``, for the same price.
        """
        return pipeline.explain(self.session, terms)

    @takes(QuestionOrder)
    def ask(self, order: QuestionOrder) -> Answer:
        """Answer a question, and charge it.

        The same question asked again, in any spelling, returns the answer that was paid for, free of charge.
        """
        return pipeline.ask(self.session, order)

    def dummy(self) -> Curator:
        """Return a curator for the same questions on made-up rows: free, without a ledger, and marked as made up."""
        from hush.curator.made_up import made_up

        with self.session.in_use():
            return Curator(made_up(self.session))

    @takes(BoundingTerms)
    def bounding(self, terms: BoundingTerms) -> Bounding:
        """Estimate how much the bounds of a table cut, and propose others; two questions of half the price each."""
        from hush.curator.owner import estimate

        schemas = [data_set.schema for name, data_set in self.data_sets.items() if terms.data in {None, name}]
        schema, bounding = estimate(self, schemas, terms)
        if bounding.beyond is not None:  # as if it stood in the policy, as long as this curator lives
            table = schema.tables[terms.table]
            estimates = (beyond for beyond in table.beyond if beyond.by != terms.by)
            estimated = replace(table, beyond=(*estimates, bounding.beyond))
            schema = replace(schema, tables={**schema.tables, terms.table: estimated})
            self.data_sets[schema.data] = replace(self.data_sets[schema.data], schema=schema)
        return bounding

    # whole releases

    @takes(MarginalOrder)
    def marginals(self, order: MarginalOrder) -> MarginalRelease:
        """Release all tables of ``degree`` columns at once, with the least error that is possible, and charge them."""
        from hush.curator.count_release import release_marginals

        return release_marginals(self.session, order)

    @takes(MarginalTerms)
    def explain_marginals(self, terms: MarginalTerms) -> ReleaseExplanation[Any]:
        """Explain `marginals`: the price, and how far off every cell would be. Reads no data and spends nothing."""
        from hush.curator.count_release import plan_marginals

        return plan_marginals(self.session, terms)

    @takes(SynthesisOrder)
    def synth(self, order: SynthesisOrder) -> SyntheticRelease:
        """Release synthetic rows like those that SQL names: SELECT columns FROM …, and charge them."""
        from hush.curator.synthetic_release import release_synthetic

        return release_synthetic(self.session, order)

    @takes(SynthesisTerms)
    def explain_synth(self, terms: SynthesisTerms) -> ReleaseExplanation[Any]:
        """Explain `synth`: the price, and the noise of the rows. Reads no data and spends nothing."""
        from hush.curator.synthetic_release import plan_synthetic

        return plan_synthetic(self.session, terms)

    @takes(FamilyOrder)
    def synth_children(self, order: FamilyOrder) -> FamilyRelease:
        """Release synthetic parents and children, for example patients and visits, each at half the price."""
        from hush.curator.synthetic_release import release_family

        return release_family(self.session, order)

    @takes(FamilyTerms)
    def explain_children(self, terms: FamilyTerms) -> tuple[ReleaseExplanation[Any], ReleaseExplanation[Any]]:
        """Explain `synth_children`: the prices of the parents and of the children. Reads no data and spends nothing."""
        from hush.curator.synthetic_release import plan_family

        return plan_family(self.session, terms)[:2]

    @takes(RangeOrder)
    def ranges(self, order: RangeOrder) -> RangeRelease:
        """Release every interval, the distribution and all quantiles of the one column that SQL names, and charge them.

        ``curator.ranges("SELECT age FROM visits", epsilon="0.5").quantiles([0.5, 0.9])``
        """
        from hush.curator.count_release import release_ranges

        return release_ranges(self.session, order)

    @takes(RangeTerms)
    def explain_ranges(self, terms: RangeTerms) -> ReleaseExplanation[Any]:
        """Explain `ranges`: the price, and how far off intervals would be. Reads no data and spends nothing."""
        from hush.curator.count_release import plan_ranges

        return plan_ranges(self.session, terms)

    @takes_options(FitOrder)
    def fit(self, order: FitOrder, options: dict[str, Any]) -> Any:
        """Fit a private model (`hush.learn`) to the rows that SQL names, and charge it.

        Of each unit ``max_rows`` rows count, at as many times the sensitivity.
        """
        from hush.curator.model_release import release_model

        return release_model(self.session, order, options)

    @takes_options(FitTerms)
    def explain_fit(self, terms: FitTerms, options: dict[str, Any]) -> ReleaseExplanation[Any]:
        """Explain `fit`: the price, and the noise of the model. Reads no data and spends nothing."""
        from hush.curator.model_release import plan_model

        return plan_model(self.session, terms, options)

    def released(self, receipt: str | int) -> Any:
        """Return a whole release of this analyst's by its receipt: tables, synthetic rows, ranges or a model. Free."""
        from hush.curator.kept_release import unpacked

        with self.session.in_use():
            charged, stored = stored_answer(self.session.ledger, receipt, self.session.actor)
            head, measurements = unpacked(stored)
            if head is None:
                hint = "Ask for it again under its request id, which is free."
                raise LedgerError(f"Receipt {charged.number} is no whole release that can be shown by itself. {hint}")
            return release_of(head, measurements, receipt=str(charged.number), remaining=None)

    def record(self, event: Event, note: str, *, data: str | None = None, request: str | None = None) -> Recorded:
        """Charge an event that hush does not carry out, for example a training run, before it starts.

        The caller states the event, and the receipt says so: hush does not check the work that is then done.
        """
        from hush.curator.model_release import Recorded

        if not isinstance(event, Event):
            raise InvalidValueError("event", got=event, allowed="an event of hush.accounting")
        if not isinstance(note, str) or not note.strip():
            raise InvalidValueError("note", got=note, allowed="a text that says what the event is for")
        session = self.session
        with session.in_use():
            data_set = session.data_sets[session.only_data_set(data, "event")]
            text = f"STATED BY THE CALLER: {note}"
            decision = pipeline.charge(session, data_set, [event], text=text, request=request)
            if isinstance(decision, Charge):
                # nothing is computed: the note is stored, so that the same request id brings it back
                pipeline.publish(session, decision, lambda: note, str.encode)
            remaining = session.accounts(data_set.schema.data).remaining
            return Recorded(event=event, note=note, receipt=str(decision.number), remaining=remaining)

    @property
    def stream(self) -> Streams:
        """Releases that come again and again: ``stream.create(…)``, ``stream.open(name)``, ``stream.list()``."""
        from hush.curator.streams import Streams

        return Streams(self.session)

    # budgets and receipts

    def budget(self) -> Budgets:
        """Return the remaining budgets: the analyst's own, and those of the data sets above them."""
        with self.session.in_use():
            self.session.ledger.check_made()
            return self.session.ledger.budget(self.session.actor)

    def remaining(self, receipt: str | int) -> Money:
        """Return the amount that this analyst may still spend on the data set of a receipt."""
        charged, _ = self.session.ledger.receipt(int(receipt), self.session.actor)
        return self.session.accounts(charged.data).remaining

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions with their prices, newest first."""
        with self.session.in_use():
            return self.session.ledger.history(self.session.actor, limit=limit)

    def request(self, *, epsilon: Number, reason: str = "", data: str | None = None) -> ParkedQuestion:
        """Ask the owner for a larger budget: ``epsilon`` is its new total. Spends nothing.

        A question above the price that needs the owner's approval needs no call of this: `ask` records it as a request.
        """
        ledger, actor = self.session.ledger, self.session.actor
        with self.session.in_use():
            name = self.session.only_data_set(data, "budget")
            number = ledger.ask_for_budget(name, epsilon=epsilon, actor=actor, reason=reason)
            return next(request for request in ledger.requests(actor) if request.number == number)

    def requests(self) -> list[ParkedQuestion]:
        """Return this analyst's requests that wait, or waited, for the owner's approval, newest first."""
        with self.session.in_use():
            return self.session.ledger.requests(self.session.actor)

    def show(self, receipt: str | int) -> Answer:
        """Return an answer of this analyst by its receipt: a paid answer can always be seen again."""
        with self.session.in_use():
            return Answer.shown(self.session.ledger, receipt, self.session.actor)

    def tables(self) -> DescribedTables:
        """Return the tables that can be asked about: columns, bounds, values, protected units and examples."""
        from hush.curator.catalogue import DescribedTables

        return DescribedTables(data_set.schema for data_set in self.data_sets.values())

    def close(self) -> None:
        """Close the engines and the ledger once all that was asked is answered; nothing can be asked any more."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return the analyst, the tables and the remaining budgets, line by line."""
        session, tables = self.session, ", ".join(self.tables())
        lines = [f"<{type(self).__name__} of {self.analyst}: {tables}{', made-up rows' * session.made_up}>"]
        if not session.closed and not session.made_up:
            lines += [f"  {view}" for view in session.ledger.budget(session.actor)]
        return "\n".join(map(visible, lines)) + (" (closed)" if session.closed else "")

    def _repr_html_(self) -> str:
        if self.session.closed or self.session.made_up:
            return f"<pre>{escape(repr(self))}</pre>"
        return self.session.ledger.budget(self.session.actor)._repr_html_() + self.tables()._repr_html_()


def release_of(head: ReleaseHead, measurements: bytes, **paid: Any) -> Any:
    """Return the release that a head and measurements make; ``paid`` are receipt, remaining budget and spending."""
    from hush.curator.count_release import MarginalRelease, RangeRelease
    from hush.curator.model_release import fitted_model
    from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease

    kinds: Mapping[str, Callable[..., Any]] = {
        "marginals": MarginalRelease.made,
        "synthetic": SyntheticRelease.made,
        "family": FamilyRelease.made,
        "ranges": RangeRelease.made,
        "model": fitted_model,
    }
    return kinds[head.kind](head, measurements, **paid)
