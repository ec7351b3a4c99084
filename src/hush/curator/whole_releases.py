"""Whole releases: tables, synthetic rows, ranges, models and streams, each with what it would cost beforehand.

Every release goes the way of a question: it is planned from the policy alone, charged, then measured; what was
measured is kept with the receipt. The same release asked for again comes back as it was paid for, free of charge,
unless ``fresh`` is said. The modules named ``…_release`` hold the ways; this one lists them for an analyst.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from hush.accounting.events import Event
from hush.core import InvalidValueError, Number
from hush.curator.access import Access, Order
from hush.curator.data_sets import OpenDataSet
from hush.ledger import Actor, Ledger, LedgerError
from hush.ledger.reading import receipt_number
from hush.query.errors import QuestionError

if TYPE_CHECKING:
    from hush.curator.answer import Answer, Money
    from hush.curator.kept_release import ReleaseHead
    from hush.curator.marginal_release import MarginalExplanation, MarginalRelease
    from hush.curator.model_release import FitExplanation, Recorded
    from hush.curator.range_release import RangeExplanation, RangeRelease
    from hush.curator.standing import StandingView
    from hush.curator.streams import Streams
    from hush.curator.synthetic_release import FamilyRelease, SyntheticExplanation, SyntheticRelease


def release_of(head: ReleaseHead, measurements: bytes, *, receipt: str, remaining: Money | None) -> Any:
    """Return the release that a head and measurements make."""
    from hush.curator.marginal_release import MarginalRelease
    from hush.curator.model_release import fitted_model
    from hush.curator.range_release import RangeRelease
    from hush.curator.synthetic_release import SyntheticRelease

    kinds: Mapping[str, Callable[..., Any]] = {
        "marginals": MarginalRelease.made,
        "synthetic": SyntheticRelease.made,
        "ranges": RangeRelease.made,
        "model": fitted_model,
    }
    return kinds[head.kind](head, measurements, receipt=receipt, remaining=remaining)


class RowTerms(TypedDict, total=False):
    """On which terms rows are released: the price, how many rows of a unit count, and of which data set."""

    epsilon: Number | None
    max_rows: int | None
    data: str | None


class SynthesisTerms(RowTerms, total=False):
    """Those of synthetic rows."""

    certify: Number


class MarginalTerms(RowTerms, total=False):
    """Those of all tables at once."""

    degree: int
    optimise: str
    confidence: float


class WholeReleases(Access):
    """What an analyst may release at once."""

    def __init__(
        self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger, analyst: str, *, streams: Path | None = None
    ) -> None:
        """``streams`` is the directory of private state beside the ledger; None to keep it in memory."""
        super().__init__(data_sets, ledger, analyst)
        self._streams = streams
        self._stream_states: dict[str, bytes] = {}

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
        fresh: bool = False,
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

        terms = MarginalTerms(degree=degree, epsilon=epsilon, optimise=optimise, confidence=confidence)
        terms |= MarginalTerms(max_rows=max_rows, data=data)
        planned, explanation = planned_marginals(self, table, by, **terms)
        return release_marginals(self, planned, explanation, Order(request, fresh))

    def explain_marginals(
        self, table: str, by: Sequence[str] | None = None, **terms: Unpack[MarginalTerms]
    ) -> MarginalExplanation:
        """Say what `marginals` would cost and how far off every cell would be. Reads no data and spends nothing."""
        from hush.curator.marginal_release import planned_marginals

        return planned_marginals(self, table, by, **terms)[1]

    def synth(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        certify: Number = "0.05",
        max_rows: int | None = None,
        data: str | None = None,
        request: str | None = None,
        fresh: bool = False,
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
        return release_synthetic(self, planned, explanation, Order(request, fresh), progress)

    def explain_synth(self, question: str, **terms: Unpack[SynthesisTerms]) -> SyntheticExplanation:
        """Say what `synth` would cost, and the noise it would have. Reads no data and spends nothing."""
        from hush.curator.synthetic_release import planned_synthesis

        return planned_synthesis(self, question, **terms)[1]

    def ranges(
        self,
        question: str,
        *,
        epsilon: Number | None = None,
        max_rows: int | None = None,
        data: str | None = None,
        request: str | None = None,
        fresh: bool = False,
    ) -> RangeRelease:
        """Release every interval, the distribution and all quantiles of the one column that SQL names, and charge them.

        ``curator.ranges("SELECT age FROM visits", epsilon="0.5").quantiles([0.5, 0.9])``
        """
        from hush.curator.range_release import release_ranges

        order = Order(request, fresh)
        return release_ranges(self, question, epsilon=epsilon, max_rows=max_rows, data=data, order=order)

    def explain_ranges(self, question: str, **terms: Unpack[RowTerms]) -> RangeExplanation:
        """Say what `ranges` would cost and how far off intervals would be. Reads no data and spends nothing."""
        from hush.curator.range_release import planned_ranges

        return planned_ranges(self, question, **terms)[1]

    def synth_children(
        self,
        parents: str,
        children: str,
        *,
        number: str,
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
        request: str | None = None,
        fresh: bool = False,
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
        request
            An id of the asker's own: asked again with the same id, the stored rows come back, free of charge.
        fresh
            Whether to release anew, for a new charge, what was released before.
        """
        from hush.curator.synthetic_release import synth_children

        how = {"number": number, "epsilon": epsilon, "max_rows": max_rows, "data": data}
        return synth_children(self, parents, children, **how, order=Order(request, fresh), progress=progress)  # type: ignore[arg-type]

    def explain_children(
        self,
        parents: str,
        children: str,
        *,
        number: str,
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
    ) -> tuple[SyntheticExplanation, SyntheticExplanation]:
        """Say what the parents and the children of `synth_children` would cost. Reads no data and spends nothing."""
        from hush.curator.synthetic_release import planned_family

        (parent, child), _ = planned_family(self, parents, children, number, epsilon, max_rows, data)
        return parent[1], child[1]

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
        fresh: bool = False,
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
            How many rows of one unit count, at as many times the sensitivity.
        request
            An id of the asker's own: asked again with the same id, the stored model comes back, free of charge.
        fresh
            Whether to fit anew, for a new charge, what was fitted before.
        options
            The model's own: ``basis`` of a regression, ``components`` of pca, ``clusters`` of kmeans.
        """
        from hush.curator.model_release import planned_model, release_model

        planned, explanation = planned_model(
            self, question, target=target, model=model, epsilon=epsilon, max_rows=max_rows, data=data, options=options
        )
        return release_model(self, planned, explanation, target=target, order=Order(request, fresh))

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

    def released(self, receipt: str | int) -> Any:
        """Return a whole release of this analyst's by its receipt: tables, synthetic rows, ranges or a model. Free."""
        from hush.curator.kept_release import unpacked

        with self.in_use():
            number, actor = receipt_number(receipt), Actor.analyst(self.analyst)
            made, _ = self._ledger.receipt(number, actor)
            if made.outcome not in {"answered", "shared"}:
                raise LedgerError(f"Receipt {number} has nothing to show: it is {made.outcome}. It stays charged.")
            head, measurements = unpacked(self._ledger.stored_answer(number, actor))
            if head is None:
                hint = "Ask for it again under its request id, which is free."
                raise LedgerError(f"Receipt {number} is no whole release that can be shown by itself. {hint}")
            return release_of(head, measurements, receipt=str(number), remaining=None)

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

    def standing(self) -> list[StandingView]:
        """Return the standing questions that this analyst may read, with every period of each. Free."""
        from hush.curator.standing import views

        with self.in_use():
            return views(self._ledger, self.analyst, {self.analyst: self.data_sets})

    def standing_answer(self, name: str, period: str = "latest") -> Answer:
        """Return a release of a standing question by its period, such as "2026-11-16", or the latest. Free."""
        from hush.curator.standing import published

        with self.in_use():
            return published(self._ledger, name, period, self.analyst, {self.analyst: self.data_sets})[2]
