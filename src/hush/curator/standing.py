"""Standing questions as readers see them: the question, its schedule, and every period with what became of it.

A release is read by its name and period, and is for ever the same; ``latest`` is the newest that was made, and
``all`` one table of all of them. Who may read was declared with the question. What somebody may not read is not there
for them: both read alike.

What is shown depends on the ledger alone. `hush.curator.publishing` is the owner's side.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.core.format import decimal
from hush.core.values import dataclass
from hush.curator.answer import Answer, Money
from hush.ledger import Actor, Ledger
from hush.ledger.standing import StandingPlan, StandingRelease, UnknownStandingError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, uniform

_READING = Actor.owner("policy")
_MOST_TABLES = 8
_TABLES: dict[tuple[str, bytes, int], Answer] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingView:
    """A standing question as a reader sees it."""

    name: str
    data: str
    question: str
    epsilon: str
    confidence: float
    every: str
    first: str
    late: bool
    readers: str | tuple[str, ...]
    declared: str
    """When it was declared."""
    share: float
    """The part of the data set's budget that the whole plan takes."""
    left: int
    """How many releases are still to come, and set aside."""
    ended: bool
    releases: tuple[StandingRelease, ...]
    """Every period, oldest first."""

    @classmethod
    def of(cls, plan: StandingPlan, releases: Sequence[StandingRelease]) -> StandingView:
        """Return what is public of a plan: all of it."""
        asked = plan.question
        return cls(
            name=asked.name,
            data=asked.data,
            question=asked.question,
            epsilon=decimal(plan.epsilon),
            confidence=float(asked.confidence),
            every=asked.schedule.every,
            first=asked.schedule.first,
            late=asked.late,
            readers=asked.readers,
            declared=plan.when,
            share=float(plan.share),
            left=plan.aside.left,
            ended=plan.aside.ended,
            releases=tuple(releases),
        )

    @property
    def latest(self) -> StandingRelease | None:
        """The newest release that was made."""
        return next((release for release in reversed(self.releases) if release.state == "made"), None)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        readers = self.readers if isinstance(self.readers, str) else list(self.readers)
        return fields | {"readers": readers, "releases": [release.to_json() for release in self.releases]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StandingView:
        """Return the view that was written."""
        readers = content["readers"] if isinstance(content["readers"], str) else tuple(content["readers"])
        releases = tuple(StandingRelease(**release) for release in content["releases"])
        return cls(**{**content, "readers": readers, "releases": releases})

    def __str__(self) -> str:
        """Return the question and how far it has come, in a line."""
        made = sum(release.state == "made" for release in self.releases)
        state = "ended" if self.ended else f"{self.left} to come"
        return f"{self.name}: every {self.every}, {made} made, {state}, ε={self.epsilon} each: {self.question}"


def views(ledger: Ledger, reader: str | None, data_of: Mapping[str, Any] | None) -> list[StandingView]:
    """Return the standing questions that somebody may read; None is anybody. Of named readers they see themselves.

    ``data_of`` are the data sets of each analyst; None for the owner, who reads all.
    """
    plans = ledger.standing
    listed = plans.listed()
    if data_of is None:
        return [StandingView.of(plan, plans.releases(plan)) for plan in listed]
    own = [StandingView.of(plan, plans.releases(plan)) for plan in listed if plan.question.readable(reader, data_of)]
    # who else may read is nobody's business
    return [view if isinstance(view.readers, str) else replace(view, readers=(str(reader),)) for view in own]


def published(
    ledger: Ledger, name: str, period: str, reader: str | None, data_of: Mapping[str, Any] | None
) -> tuple[StandingPlan, str, Answer]:
    """Return a release that somebody may read, its period, and its answer; what they may not read is not there.

    ``latest`` is the newest release. ``all`` is one table of all of them, with a column that says which is which.
    """
    plans = ledger.standing
    try:
        plan = plans.find(name)
    except UnknownStandingError:  # told in the words that were asked for, as of what they may not read
        raise UnknownStandingError(f"{name}/{period}") from None
    if data_of is not None and not plan.question.readable(reader, data_of):
        raise UnknownStandingError(f"{name}/{period}")
    if period == "all":
        return plan, period, _stacked(ledger, plan)
    receipt = plans.receipt(plan, period)
    made, _ = ledger.receipt(receipt, _READING)
    return plan, made.request.rpartition(" ")[2], replace(Answer.shown(ledger, receipt, _READING), repeated="")


def _stacked(ledger: Ledger, plan: StandingPlan) -> Answer:
    """Return all releases of a standing question as one table, oldest first.

    Tables that were read of late are kept by the hash of their last charge, which covers all before it: anybody may ask
    for them, and reading a thousand answers takes seconds.
    """
    made = [release for release in ledger.standing.releases(plan) if release.state == "made"]
    if not made:
        raise UnknownStandingError(f"{plan.question.name}/all")
    _, last = ledger.receipt(made[-1].receipt or 0, _READING)
    key = (plan.question.name, last.hash, len(made))
    table = _TABLES.pop(key, None) or _one_table(ledger, made)
    _TABLES[key] = table
    with suppress(KeyError, StopIteration, RuntimeError):  # another thread may be at it
        while len(_TABLES) > _MOST_TABLES:
            del _TABLES[next(iter(_TABLES))]
    return table


def _one_table(ledger: Ledger, made: Sequence[StandingRelease]) -> Answer:
    answers = [Answer.shown(ledger, release.receipt or 0, _READING) for release in made]
    dates = [dt.date.fromisoformat(release.period) for release in made]
    first = answers[0]
    name = next(name for name in ("release", "release_date", "_release") if name not in map(_name, first.columns))
    periods = tuple(date for date, answer in zip(dates, answers, strict=True) for _ in range(len(answer)))
    columns = [AnswerColumn(name=name, kind=Kind.DATE, values=periods)]
    for number, column in enumerate(first.columns):
        parts = [answer.columns[number] for answer in answers]
        values = uniform([value for part in parts for value in part.values], column.kind)
        errors = tuple(error for part in parts for error in part.errors or ()) if column.noisy else None
        columns.append(replace(column, values=values, errors=errors))
    price = Money(
        epsilon=sum((answer.price.epsilon for answer in answers), Fraction(0)),
        delta=sum((answer.price.delta for answer in answers), Fraction(0)),
    )
    return replace(first, columns=tuple(columns), price=price, receipt=answers[-1].receipt, repeated="")


def _name(column: AnswerColumn) -> str:
    return column.name
