"""Streams as readers see them: the question, the price and the progress of each, and releases of declared ones.

A release of a declared stream is read by the stream's name and its period, and is for ever the same; ``latest`` is the
newest that was made, and ``all`` one table of all of them. Who may read was declared with it. What somebody may not
read is not there for them: both read alike. All that is shown depends on the ledger alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal

from hush.core.format import decimal
from hush.curator.answer import Answer, Money
from hush.ledger import Actor, Ledger
from hush.ledger.streams import DeclaredStream, StreamPeriod, UnknownStreamError
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, uniform

_READING = Actor.owner("policy")
_MOST_TABLES = 8
_TABLES: dict[tuple[str, bytes, int], Answer] = {}


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
        state = (
            "ended"
            if self.ended
            else f"{self.periods - self.released} to come"
            if self.left is None
            else f"{self.left} to come"
        )
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
    charge, _ = ledger.receipt(receipt, _READING)
    return charge.request.rpartition(" ")[2], replace(Answer.shown(ledger, receipt, _READING), repeated="")


def _one_table(ledger: Ledger, stream: DeclaredStream) -> Answer:
    """Return all releases of a declared stream as one table, oldest first.

    Tables that were read of late are kept by the hash of their last charge, which covers all before it: anybody may ask
    for them, and reading a thousand answers takes seconds.
    """
    releases = [release for release in ledger.streams.periods(stream) if release.state == "made"]
    if not releases:
        raise UnknownStreamError(f"{stream.name}/all")
    _, last = ledger.receipt(releases[-1].receipt or 0, _READING)
    key = (stream.name, last.hash, len(releases))
    table = _TABLES.pop(key, None)
    if table is None:
        answers = [Answer.shown(ledger, release.receipt or 0, _READING) for release in releases]
        table = _stacked([dt.date.fromisoformat(release.period) for release in releases], answers)
    _TABLES[key] = table
    with suppress(KeyError, StopIteration, RuntimeError):  # another thread may be at it
        while len(_TABLES) > _MOST_TABLES:
            del _TABLES[next(iter(_TABLES))]
    return table


def _stacked(dates: Sequence[dt.date], answers: Sequence[Answer]) -> Answer:
    """Return answers below each other, with a column of their dates."""
    first = answers[0]
    names = {column.name for column in first.columns}
    name = next(name for name in ("release", "release_date", "_release") if name not in names)
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
    return replace(first, columns=tuple(columns), price=price, receipt=answers[-1].receipt, repeated="")
