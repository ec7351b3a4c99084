"""Whole releases of a service: the methods of a local curator, which return the very objects that a local one returns.

What comes over the network is what the ledger keeps: noisy measurements and what is public of them. The client makes
tables, synthetic rows, ranges and models of it, so that conditions, roll-ups, more rows and files cost nothing and need
no further request.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hush.accounting.events import Event
from hush.client.explanation import RemoteReleaseExplanation
from hush.client.transport import Connection, Response, amount, remaining_in
from hush.core import InvalidValueError, Number, positive
from hush.curator.answer import Answer, Money
from hush.ledger.actors import label
from hush.query.errors import QuestionError

if TYPE_CHECKING:
    from hush.curator.marginal_release import MarginalRelease
    from hush.curator.model_release import Recorded
    from hush.curator.range_release import RangeRelease
    from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease

_STORED = "application/vnd.hush.release"
_ANSWER = "application/vnd.hush.answer+json"
_NUMBERS = {"epsilon", "certify"}


class RemoteReleases:
    """What an analyst may release at once, by way of a service. Each method is that of a local curator."""

    _service: Connection

    def marginals(
        self, table: str, by: Sequence[str] | None = None, *, request: str | None = None, **terms: Any
    ) -> MarginalRelease:
        """Release all tables of some columns at once, and charge them; see `Curator.marginals`."""
        made: MarginalRelease = self._made("marginals", _tables(table, by, terms), request)
        return made

    def explain_marginals(self, table: str, by: Sequence[str] | None = None, **terms: Any) -> RemoteReleaseExplanation:
        """Say what `marginals` would cost and how far off every cell would be. Spends nothing."""
        return self._explained("marginals", _tables(table, by, terms))

    def synth(
        self,
        question: str,
        *,
        request: str | None = None,
        progress: Callable[[str, float], None] | None = None,
        **terms: Any,
    ) -> SyntheticRelease:
        """Release synthetic rows, and charge them; how far a service got is told to nobody: see `Curator.synth`."""
        if progress is not None:
            progress("asking the service", 0.0)
        made: SyntheticRelease = self._made("synth", _rows(question, terms), request)
        return made

    def explain_synth(self, question: str, **terms: Any) -> RemoteReleaseExplanation:
        """Say what `synth` would cost, and the noise it would have. Spends nothing."""
        return self._explained("synth", _rows(question, terms))

    def ranges(self, question: str, *, request: str | None = None, **terms: Any) -> RangeRelease:
        """Release every interval and all quantiles of one column, and charge them; see `Curator.ranges`."""
        made: RangeRelease = self._made("ranges", _rows(question, terms), request)
        return made

    def explain_ranges(self, question: str, **terms: Any) -> RemoteReleaseExplanation:
        """Say what `ranges` would cost and how far off intervals would be. Spends nothing."""
        return self._explained("ranges", _rows(question, terms))

    def fit(self, question: str, *, request: str | None = None, **terms: Any) -> Any:
        """Fit a private model to the rows that SQL names, and charge it; see `Curator.fit`."""
        return self._made("fit", _model(question, terms), request)

    def explain_fit(self, question: str, **terms: Any) -> RemoteReleaseExplanation:
        """Say what `fit` would cost, and the noise its model would have. Spends nothing."""
        return self._explained("fit", _model(question, terms))

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
        """Release synthetic parents with synthetic children, each for half of the price; `Curator.synth_children`."""
        from hush.curator.synthetic_release import FamilyRelease, shared_columns

        explained = self.explain_children(
            parents, children, number=number, epsilon=epsilon, max_rows=max_rows, data=data
        )
        names = [list(told.content["columns"]) for told in explained]
        shared = shared_columns(names[0], names[1], number, children)
        half = positive(epsilon, "epsilon") / 2
        made = [
            self.synth(
                sql,
                epsilon=half,
                max_rows=most,
                data=data,
                request=None if request is None else f"{request}: {what}",
                fresh=fresh,
                progress=progress,
            )
            for sql, most, what in ((parents, 1, "parents"), (children, max_rows, "children"))
        ]
        return FamilyRelease(parents=made[0], children=made[1], number=number, shared=shared)

    def explain_children(
        self,
        parents: str,
        children: str,
        *,
        number: str,
        epsilon: Number | None = None,
        max_rows: int = 1,
        data: str | None = None,
    ) -> tuple[RemoteReleaseExplanation, RemoteReleaseExplanation]:
        """Say what the parents and the children of `synth_children` would cost. Spends nothing."""
        from hush.curator.synthetic_release import shared_columns

        half = positive(epsilon, "epsilon") / 2
        parent, child = (
            self.explain_synth(sql, epsilon=half, max_rows=most, data=data)
            for sql, most in ((parents, 1), (children, max_rows))
        )
        shared_columns(list(parent.content["columns"]), list(child.content["columns"]), number, children)
        return parent, child

    def released(self, receipt: str | int) -> Any:
        """Return a whole release by its receipt. Free."""
        return _release(self._service.send("GET", f"/releases/{quote(str(receipt), safe='')}", accept=_STORED))

    def record(self, event: Event, note: str, *, data: str | None = None, request: str | None = None) -> Recorded:
        """Charge an event that hush does not carry out, such as a training run, before it starts."""
        from hush.curator.model_release import Recorded

        if not isinstance(event, Event):
            raise InvalidValueError("event", got=event, allowed="an event of hush.accounting")
        body = {"event": event.to_json(), "note": note, "data": data, "request": _request(request)}
        told = self._service.send("POST", "/events", body).json()
        left = Money(epsilon=Fraction(told["remaining"]["epsilon"]), delta=Fraction(told["remaining"]["delta"]))
        return Recorded(event=event, note=note, receipt=told["receipt"], remaining=left)

    @property
    def stream(self) -> RemoteStreams:
        """Counts and sums that keep coming: ``stream.create(…)``, ``stream.open(name)``, ``stream.names()``."""
        return RemoteStreams(self._service)

    def _made(self, kind: str, body: Mapping[str, Any], request: str | None) -> Any:
        told = {**body, "request": _request(request)}
        return _release(self._service.send("POST", f"/releases/{kind}", told, accept=_STORED))

    def _explained(self, kind: str, body: Mapping[str, Any]) -> RemoteReleaseExplanation:
        return RemoteReleaseExplanation(self._service.send("POST", f"/releases/{kind}/explain", body).json())


class RemoteStreams:
    """All streams of an analyst at a service."""

    def __init__(self, service: Connection) -> None:
        self._service = service

    def names(self) -> list[str]:
        """Return the names of the streams."""
        return [stream["name"] for stream in self._service.send("GET", "/streams").json()["streams"]]

    def explain(self, question: str, **terms: Any) -> dict[str, Any]:
        """Say what `create` would cost and how far off days, weeks and totals would be. Spends nothing."""
        return self._service.send("POST", "/streams/explain", _stream(question, terms)).json()

    def create(self, question: str, *, name: str, request: str | None = None, **terms: Any) -> RemoteStream:
        """Make a stream and charge its whole life; see `hush.curator.streams.Streams.create`."""
        body = {**_stream(question, terms), "name": name, "request": _request(request)}
        return RemoteStream(self._service, self._service.send("POST", "/streams", body).json()["name"])

    def open(self, name: str) -> RemoteStream:
        """Return a stream that was made before."""
        from hush.curator.stream_state import StreamError

        if name not in (known := self.names()):
            raise StreamError(f"There is no stream {name!r}; there are: {', '.join(known) or 'none yet'}.")
        return RemoteStream(self._service, name)


class RemoteStream:
    """One stream at a service."""

    def __init__(self, service: Connection, name: str) -> None:
        self._service, self.name = service, name
        self._path = f"/streams/{quote(name, safe='')}"

    @property
    def released(self) -> int:
        """How many periods were released."""
        return int(self.to_json()["released"])

    @property
    def receipt(self) -> str:
        """The receipt of the charge."""
        return str(self.to_json()["receipt"])

    def advance(self, through: object = None) -> int:
        """Release all periods that are over and were not released; return how many there are now."""
        last = (
            through if through is None or (isinstance(through, int) and not isinstance(through, bool)) else str(through)
        )
        return int(self._service.send("POST", f"{self._path}/advance", {"through": last}).json()["released"])

    def end(self) -> None:
        """End the stream: nothing more will be released. What was paid stays paid."""
        self._service.send("DELETE", self._path)

    @property
    def answer(self) -> Answer:
        """All that was released, period by period."""
        response = self._service.send("GET", self._path, accept=_ANSWER)
        return replace(Answer.from_bytes(response.body), receipt=response.headers["hush-receipt"])

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values."""
        return self._service.send("GET", self._path).json()

    def __repr__(self) -> str:
        return f"<stream {self.name!r}, {self.released} periods released>"


def _release(response: Response) -> Any:
    """Return the release in a response."""
    from hush.curator.kept_release import unpacked
    from hush.curator.whole_releases import release_of

    head, measurements = unpacked(response.body)
    assert head is not None  # noqa: S101 - a service sends releases with their heads
    receipt = response.headers.get("hush-receipt", "")
    return release_of(head, measurements, receipt=receipt, remaining=remaining_in(response.headers))


def _request(request: str | None) -> str:
    return uuid.uuid4().hex if request is None else label(request, "request")


def _terms(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return terms as they travel; what is not said is left to the service."""
    return {
        name: amount(value, name) if name in _NUMBERS else value for name, value in terms.items() if value is not None
    }


def _tables(table: str, by: Sequence[str] | None, terms: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(by, str):
        raise InvalidValueError("by", got=by, allowed="the columns of the tables, such as ['age', 'sex']")
    return {"table": table, **({} if by is None else {"by": list(by)}), **_terms(terms)}


def _rows(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(question, str):
        raise InvalidValueError("question", got=question, allowed="SQL as text")
    return {"question": question, **_terms(terms)}


def _model(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    known = {"target", "model", "epsilon", "max_rows", "data", "fresh"}
    own = {name: value for name, value in terms.items() if name not in known}
    return {**_rows(question, {name: terms[name] for name in known & set(terms)}), "options": own}


def _stream(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    if "horizon" not in terms:
        raise QuestionError("A stream needs its length.", "Say horizon='10 years'.")
    told = dict(terms)
    if told.get("start") is not None and not isinstance(told["start"], int):
        told["start"] = str(told["start"])
    return _rows(question, told)
