"""Standing questions as readers see them: the question, its schedule, and every period with what became of it.

A release is read by its name and period, and is for ever the same; ``latest`` is the newest that was made. Who may read
was declared with the question. What somebody may not read is not there for them: both read alike.

What is shown depends on the ledger alone. `hush.curator.publishing` is the owner's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hush.core.format import decimal
from hush.core.values import dataclass
from hush.curator.answer import Answer
from hush.ledger import Actor, Ledger
from hush.ledger.standing import StandingPlan, StandingRelease, UnknownStandingError

_READING = Actor.owner("policy")


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
    """Return the standing questions that somebody may read; None is anybody.

    ``data_of`` are the data sets of each analyst; None for the owner, who reads all.
    """
    plans = ledger.standing
    listed = plans.listed()
    readable = listed if data_of is None else [plan for plan in listed if plan.question.readable(reader, data_of)]
    return [StandingView.of(plan, plans.releases(plan)) for plan in readable]


def published(
    ledger: Ledger, name: str, period: str, reader: str | None, data_of: Mapping[str, Any] | None
) -> tuple[StandingPlan, str, Answer]:
    """Return a release that somebody may read, its period, and its answer; all else reads alike."""
    plans = ledger.standing
    plan = plans.find(name)
    if data_of is not None and not plan.question.readable(reader, data_of):
        raise UnknownStandingError(f"{name}/{period}" if period else name)
    receipt = plans.receipt(plan, period)
    made, _ = ledger.receipt(receipt, _READING)
    answer = Answer.shown(ledger, receipt, _READING)
    return plan, made.request.rpartition(" ")[2], replace(answer, repeated="")
