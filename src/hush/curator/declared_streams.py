"""Declared streams: their price, their declaration, their releases at their dates, and the view of their readers.

Charges are paid from what was set aside (`hush.ledger.streams` has the reasoning).

**When a release appears.** It is charged at its slot, or as soon as a worker looks after it: that depends on no row.
How long it computes does, so its outcome, an answer or a failure, is recorded at public moments alone: `TICK`,
2·`TICK`, 4·`TICK`, … seconds after the charge (a service has its own slots, `hush.server.questions`).

**Noise for the plan.** Where the price is said for all releases together, noise is chosen for all of them: the ρ of k
releases with Gaussian noise adds up, so each errs √k times as much as one alone, where Laplace noise would err k times.
Mechanisms are chosen by the account as it was when the stream was declared, so raising a budget changes no release. If
the policy has changed so much that a release would do something else than was declared, it is refused.

**Reading.** A release is read by the stream's name and its period, and is for ever the same. What somebody may not read
is not there for them: both read alike. All that is shown depends on the ledger alone.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal, Self

from hush.accounting import Guarantee, compose
from hush.accounting.events import Event
from hush.accounting.filters import Filter
from hush.accounting.prices import zcdp_price
from hush.core import HushError
from hush.core.format import decimal, figure, percent
from hush.core.rounding import largest_decimal
from hush.curator import pipeline
from hush.curator.answer import Answer, Money
from hush.curator.data_sets import OpenDataSet
from hush.curator.explanation import Explanation
from hush.curator.pipeline import KEY_PART, PlannedQuestion
from hush.curator.session import Accounts, AnalystSession, Outlet
from hush.curator.terms import QuestionTerms
from hush.engines.errors import EngineError
from hush.ledger import Actor, Ledger, LedgerError
from hush.ledger.budgets import Whose, price, takes, under
from hush.ledger.entries import now
from hush.ledger.streams import (
    DeclaredStream,
    DeclaredStreams,
    StreamDeclaration,
    StreamPeriod,
    UnknownStreamError,
    check_same,
)
from hush.policy.ledger import POLICY
from hush.query.errors import QuestionError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, uniform

TICK = 1.0
"""The first moment after its charge, in seconds, at which a release appears; each further one is twice as late."""
_DIGITS = 6
_GAIN = 0.1
"""The gain, as a logarithm, from which on a plan takes Gaussian noise."""
_MOST_TABLES = 8
_TABLES: dict[tuple[str, bytes, int], Answer] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationExplanation:
    """The price of a stream, before it is declared. Nothing was read or set aside."""

    declaration: StreamDeclaration
    epsilon: Fraction
    """The price of one release."""
    release: Explanation
    """One release: its price and its errors."""
    share: Fraction
    """The part of the data set's budget that all releases take."""
    fitting: int
    """How many releases the remaining budget has room for."""
    together: Fraction | None
    """The ε of all releases together at the budget's δ, by exact composition; None where it has none."""
    delta: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        releases = self.declaration.schedule.slots
        return {
            "name": self.declaration.name,
            "releases": releases,
            "epsilon": decimal(self.epsilon),
            "sum_of_epsilon": decimal(releases * self.epsilon),
            "together": None if self.together is None else float(self.together),
            "delta": decimal(self.delta),
            "share": float(self.share),
            "fitting": self.fitting,
            "fits": releases <= self.fitting,
            "release": self.release.to_json(),
        }

    def __str__(self) -> str:
        """Return the price in a sentence."""
        releases = self.declaration.schedule.slots
        together = ""
        if self.together is not None:
            together = f", together ε={figure(self.together, digits=4)}"
            if self.delta:
                total = figure(releases * self.epsilon)
                together += f" at δ={figure(self.delta)}" + (f" (their sum is {total})" if self.together else "")
        fit = "they fit" if releases <= self.fitting else f"{self.fitting} would fit"
        return (
            f"{releases} releases at ε={figure(self.epsilon)} each{together}: {percent(self.share)} of the budget of "
            f"{self.declaration.data}; {fit}"
        )


class AtTicks(Outlet):
    """The outlet without a service: outcomes are recorded `TICK`, 2·`TICK`, 4·`TICK`, … seconds after the charge."""

    def begin(self, seconds: float, fail: Callable[[], None] | None) -> None:  # noqa: ARG002 - the same ticks for all
        """Note when rows begin to be read."""
        self._began = time.monotonic()

    def wait(self) -> bool:
        """Wait for the next tick."""
        moment = TICK
        while moment < time.monotonic() - self._began:
            moment *= 2
        time.sleep(max(0.0, self._began + moment - time.monotonic()))
        return True


class Publisher:
    """The owner's session: declares streams, and releases them when they are due."""

    def __init__(self, data_sets: Mapping[str, OpenDataSet], ledger: Ledger, outlet: Outlet | None = None) -> None:
        self.session = AnalystSession(data_sets, ledger, "", outlet=AtTicks() if outlet is None else outlet)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    @property
    def streams(self) -> DeclaredStreams:
        """The declared streams of the ledger."""
        return self.session.ledger.streams

    # declaring

    def explain(self, declaration: StreamDeclaration) -> DeclarationExplanation:
        """Return the price and the errors of a stream. Reads no data, sets nothing aside."""
        with self.session.in_use():
            account, terms = self._account(declaration.data)
            epsilon, accounts = self._price(declaration, terms)
            events = self._planned(declaration, epsilon, accounts).plan.events
            releases = declaration.schedule.slots
            release = pipeline.explain(self.session, _terms(declaration, epsilon, accounts), accounts)
            return DeclarationExplanation(
                declaration=declaration,
                epsilon=epsilon,
                release=replace(release, outlook=None),  # that of all is below
                share=takes(account, price(account, events).repeated(releases)),
                fitting=self.streams.fitting(declaration.data, list(events)),
                together=_together(events, releases, terms.delta),
                delta=terms.delta,
            )

    def declare(self, declaration: StreamDeclaration, *, actor: Actor) -> DeclaredStream:
        """Set aside the price of all releases, as one plan; a refusal says how many releases would fit."""
        with self.session.in_use():
            _, terms = self._account(declaration.data)
            epsilon, accounts = self._price(declaration, terms)
            planned = self._planned(declaration, epsilon, accounts)
            pipeline.prepare(planned.plan, planned.data_set)  # what an engine cannot do is refused now
            return self.streams.declare(
                declaration,
                epsilon=epsilon,
                events=list(planned.plan.events),
                terms=terms,
                gaussian=accounts.prefer_gaussian,
                actor=actor,
            )

    def _account(self, data: str) -> tuple[Filter, Filter]:
        """Return the data set's account, in which what is set aside counts as spent, and the same without any charge.

        Noise is chosen by the second one, so that the choice does not depend on charges.
        """
        views = self.session.ledger.budget(POLICY)
        account = next((view.account for view in views if (view.data, view.analyst) == (data, None)), None)
        if account is None:
            raise QuestionError(f"There is no budget for a data set {data!r}.", "Open it: hush ledger open.")
        return account, replace(account, spent_loss=Fraction(0), spent_delta=Fraction(0), spent_epsilon=Fraction(0))

    def _planned(self, declaration: StreamDeclaration, epsilon: Fraction, accounts: Accounts) -> PlannedQuestion:
        data_set, question, terms = pipeline.parse(self.session, _terms(declaration, epsilon, accounts))
        plan = pipeline.plan(question, data_set, accounts, terms)
        if not plan.events:
            raise QuestionError("The question costs nothing, so there is nothing to set aside.", "Just ask it.")
        return PlannedQuestion(data_set, plan)

    def _price(self, declaration: StreamDeclaration, terms: Filter) -> tuple[Fraction, Accounts]:
        """Return the ε of one release, and the account by which its noise is chosen.

        The ε is the declared one; or the largest that the price of all releases, or a ρ, allows. Then noise is chosen
        for the plan and not for one release: of Laplace and Gaussian noise, each at its largest ε, the one that errs
        less. Gaussian noise must err a tenth less: it ends the counting by the sum of ε in the account
        (`hush.query.plan.plan`).
        """
        laplace, gaussian = (_accounts(declaration, terms, gaussian=gaussian) for gaussian in (False, True))
        if declaration.epsilon is not None:
            return Fraction(declaration.epsilon), laplace
        epsilon, widths = self._at_largest(declaration, laplace)
        if not terms.takes_gaussian or not terms.delta:
            return epsilon, laplace
        try:
            gaussian_epsilon, narrower = self._at_largest(declaration, gaussian)
        except HushError:  # no price at which Gaussian noise keeps to the terms
            return epsilon, laplace
        gains = [math.log(widths[name] / narrower[name]) for name in widths.keys() & narrower.keys()]
        if gains and math.fsum(gains) / len(gains) > _GAIN:
            return gaussian_epsilon, gaussian
        return epsilon, laplace

    def _at_largest(self, declaration: StreamDeclaration, accounts: Accounts) -> tuple[Fraction, dict[str, float]]:
        """Return the largest ε or ρ of one release that the price of all releases allows, and the half-widths then."""
        ((_, terms),), releases = accounts.owned, declaration.schedule.slots
        limit = Fraction(declaration.total_epsilon or declaration.rho or 0)
        room = under(terms, (limit, terms.delta))

        def holds(epsilon: Fraction) -> bool:
            events = self._planned(declaration, epsilon, accounts).plan.events
            if declaration.rho is not None:
                return sum((zcdp_price(event)[0] for event in events), Fraction(0)) <= limit
            if not accounts.prefer_gaussian:
                return epsilon <= limit and room.fits(price(room, events).repeated(releases))
            together = _together(events, releases, terms.delta)
            return together is not None and together <= limit and terms.fits(price(terms, events).repeated(releases))

        epsilon = largest_decimal(holds, digits=_DIGITS, near=limit / releases)
        errors = pipeline.explain(self.session, _terms(declaration, epsilon, accounts), accounts).errors()
        return epsilon, {name: error for name, error in errors.items() if error}

    # releasing

    def release_due(self, name: str, *, clock: str | None = None) -> StreamPeriod | None:
        """Make the release of a stream that is due, if there is one: charge it, compute it, record it."""
        with self.session.in_use():
            stream, moment = self.streams.find(name), clock or now()
            if stream.due(moment) is None:
                if stream.over(moment):  # it will never be due again
                    try:
                        self.streams.stop(name, actor=POLICY, reason="its last period has passed")
                    except LedgerError:
                        if not self.streams.find(name).aside.ended:  # else another worker was quicker
                            raise
                return None
            declaration = stream.declaration
            accounts = _accounts(declaration, stream.terms, gaussian=stream.gaussian)
            planned = self._planned(declaration, stream.epsilon, accounts)
            # the price that was set aside covers these events and no others
            if tuple(planned.plan.events) != stream.events:
                raise LedgerError(
                    f"Under the present policy a release of {name!r} would do something else than was declared and set "
                    "aside. Take back the change of the policy; or stop it with hush stream stop, and declare it under "
                    "another name. Nothing was charged."
                )
            program = pipeline.prepare(planned.plan, planned.data_set)
            reserved = self.streams.reserve(name, clock=clock)
            if reserved is None:  # another worker was quicker
                return None
            charge, period = reserved
            release = StreamPeriod(period=period, slot="", state="made", receipt=charge.number)
            try:
                pipeline.publish(self.session, charge, program.compute, Answer.to_bytes, program.seconds)
            except EngineError:
                return replace(release, state="failed")
            return release


def _accounts(declaration: StreamDeclaration, terms: Filter, *, gaussian: bool) -> Accounts:
    """Return the account of a data set, on the terms of a declaration; no analyst's own budget is charged."""
    return Accounts((Whose(f"the budget of {declaration.data}", terms),), gaussian)


def _terms(declaration: StreamDeclaration, epsilon: Fraction, accounts: Accounts) -> QuestionTerms:
    """Return one release as a question.

    The δ of private keys is the usual one, but for all releases together no more than half of what the account has for
    keys, unless the declaration says what it is.
    """
    ((_, account),), delta = accounts.owned, declaration.delta
    if delta is None and account.reserve:
        delta = min(account.delta * KEY_PART, account.reserve / (2 * declaration.schedule.slots))
    confidence, data = declaration.confidence, declaration.data
    return QuestionTerms(declaration.question, data=data, epsilon=epsilon, delta=delta, confidence=confidence)


def declare_all(publisher: Publisher, declarations: Iterable[StreamDeclaration]) -> dict[str, HushError]:
    """Declare the streams of a policy that the ledger lacks; return the refusals by name. The others are declared."""
    refused: dict[str, HushError] = {}
    declared = {stream.name.casefold(): stream for stream in publisher.streams.listed()}
    for declaration in declarations:
        try:
            if (stream := declared.get(declaration.name.casefold())) is not None:
                check_same(stream, declaration)
            else:
                publisher.declare(declaration, actor=POLICY)
        except HushError as error:
            refused[declaration.name] = error
    return refused


def run_due(
    publisher: Publisher, *, clock: str | None = None, only: str | None = None
) -> list[tuple[str, StreamPeriod | HushError]]:
    """Make every release that is due, each period once, oldest first; return the releases and the refusals.

    After a failure the further periods of that stream wait for the next call.
    """
    publisher.streams.close_dead()
    outcomes: list[tuple[str, StreamPeriod | HushError]] = []
    for stream in publisher.streams.listed() if only is None else [publisher.streams.find(only)]:
        try:
            while (release := publisher.release_due(stream.name, clock=clock)) is not None:
                outcomes.append((stream.name, release))
                if release.state == "failed":  # what is due besides would fail alike, and be charged
                    break
        except HushError as error:
            outcomes.append((stream.name, error))
    return outcomes


def _together(events: Sequence[Event], releases: int, delta: Fraction) -> Fraction | None:
    """Return the ε of all releases together, by exact composition, rounded up; None where there is none."""
    try:
        guarantee = Guarantee((compose(events) * releases).description.adaptive())
        return Fraction(guarantee.epsilon(delta, strict=False).upper)
    except HushError:
        return None


# for readers


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """A stream as a reader sees it. Public."""

    name: str
    data: str
    question: str
    pays: Literal["each release", "once"]
    """A declared stream pays for each release from its plan, which was set aside; running totals are paid once."""
    epsilon: str
    """The price of one release, or of the whole life of running totals."""
    confidence: float
    every: str
    periods: int
    """How many releases, or periods, its whole life has."""
    released: int
    ended: bool
    receipt: str | None
    """The receipt of the newest release, or of the one charge for running totals."""
    # the rest is of declared streams alone
    first: str | None = None
    late: bool | None = None
    readers: str | tuple[str, ...] | None = None
    declared: str | None = None
    """When it was declared."""
    share: float | None = None
    """The part of the data set's budget that the whole plan takes."""
    left: int | None = None
    """How many releases are still to come, and set aside."""
    releases: tuple[StreamPeriod, ...] | None = None
    """Every period, oldest first."""

    @classmethod
    def of(cls, stream: DeclaredStream, releases: Sequence[StreamPeriod]) -> StreamView:
        """Return a declared stream with its periods."""
        declaration = stream.declaration
        receipts = [release.receipt for release in releases if release.state == "made"]
        return cls(
            name=declaration.name,
            data=declaration.data,
            question=declaration.question,
            pays="each release",
            epsilon=decimal(stream.epsilon),
            confidence=float(declaration.confidence),
            every=declaration.schedule.every,
            periods=declaration.schedule.slots,
            released=len(receipts),
            ended=stream.aside.ended,
            receipt=str(receipts[-1]) if receipts else None,
            first=declaration.schedule.first,
            late=declaration.late,
            readers=declaration.readers,
            declared=stream.when,
            share=float(stream.share),
            left=stream.aside.left,
            releases=tuple(releases),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the fields that it does not have."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.releases is not None:
            content["releases"] = [release.to_json() for release in self.releases]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()
                if value is not None or name == "receipt"}  # fmt: skip

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StreamView:
        """Return the view that was written."""
        values = dict(content)
        if "releases" in values:
            values["releases"] = tuple(StreamPeriod(**release) for release in values["releases"])
        if isinstance(values.get("readers"), list):
            values["readers"] = tuple(values["readers"])
        return cls(**values)

    def __str__(self) -> str:
        """Return the stream and how far it has come, in a line."""
        left = self.periods - self.released if self.left is None else self.left
        state = "ended" if self.ended else f"{left} to come"
        price = f"ε={self.epsilon} {'each' if self.pays == 'each release' else 'for all'}"
        return f"{self.name}: every {self.every}, {self.released} made, {state}, {price}: {self.question}"


def declared_views(ledger: Ledger, reader: str | None, data_of: Mapping[str, Any] | None) -> list[StreamView]:
    """Return the declared streams that somebody may read; None is anybody. Of named readers they see themselves.

    ``data_of`` are the data sets of each analyst; None for the owner, who reads all.
    """
    streams = ledger.streams
    readable = [
        stream for stream in streams.listed() if data_of is None or stream.declaration.readable(reader, data_of)
    ]
    views = [StreamView.of(stream, streams.periods(stream)) for stream in readable]
    if data_of is None:
        return views
    # who else may read is nobody's business
    return [view if isinstance(view.readers, str) else replace(view, readers=(str(reader),)) for view in views]


def declared_release(
    ledger: Ledger, name: str, period: str, reader: str | None, data_of: Mapping[str, Any] | None
) -> tuple[str, Answer]:
    """Return the period and the answer of a release that somebody may read; others are refused as unknown.

    ``latest`` is the newest release. ``all`` is one table of all of them, with a column that says which is which.
    """
    streams = ledger.streams
    stream = next((stream for stream in streams.listed() if stream.name.casefold() == name.casefold()), None)
    if stream is None or (data_of is not None and not stream.declaration.readable(reader, data_of)):
        raise UnknownStreamError(f"{name}/{period}")
    if period == "all":
        return period, _one_table(ledger, stream)
    receipt = streams.receipt(stream, period)
    charge, _ = ledger.receipt(receipt, POLICY)
    return charge.request.rpartition(" ")[2], replace(Answer.shown(ledger, receipt, POLICY), repeated="")


def _one_table(ledger: Ledger, stream: DeclaredStream) -> Answer:
    """Return all releases of a declared stream below each other, oldest first, with a column of their dates.

    Tables that were read of late are kept by the hash of their last charge, which covers all before it: anybody may ask
    for them, and reading a thousand answers takes seconds.
    """
    releases = [release for release in ledger.streams.periods(stream) if release.state == "made"]
    if not releases:
        raise UnknownStreamError(f"{stream.name}/all")
    _, last = ledger.receipt(releases[-1].receipt or 0, POLICY)
    key = (stream.name, last.hash, len(releases))
    table = _TABLES.pop(key, None)
    if table is None:
        answers = [Answer.shown(ledger, release.receipt or 0, POLICY) for release in releases]
        first, names = answers[0], {column.name for column in answers[0].columns}
        name = next(name for name in ("release", "release_date", "_release") if name not in names)
        dates = [dt.date.fromisoformat(release.period) for release in releases]
        periods = tuple(date for date, answer in zip(dates, answers, strict=True) for _ in range(len(answer)))
        columns = [AnswerColumn(name=name, kind=Kind.DATE, values=periods)]
        for number, column in enumerate(first.columns):
            pieces = [answer.columns[number] for answer in answers]
            values = uniform([value for piece in pieces for value in piece.values], column.kind)
            errors = tuple(error for piece in pieces for error in piece.errors or ()) if column.noisy else None
            columns.append(replace(column, values=values, errors=errors))
        price = Money(
            epsilon=sum((answer.price.epsilon for answer in answers), Fraction(0)),
            delta=sum((answer.price.delta for answer in answers), Fraction(0)),
        )
        table = replace(first, columns=tuple(columns), price=price, receipt=answers[-1].receipt, repeated="")
    _TABLES[key] = table
    with suppress(KeyError, StopIteration, RuntimeError):  # another thread may be at it
        while len(_TABLES) > _MOST_TABLES:
            del _TABLES[next(iter(_TABLES))]
    return table
