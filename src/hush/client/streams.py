"""Streams of a service: running totals of one's own, and declared ones that one may read."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hush.client.transport import ANSWER, Connection, amount
from hush.curator.answer import Answer
from hush.ledger.actors import label
from hush.query.errors import QuestionError

if TYPE_CHECKING:
    from hush.curator.stream_views import StreamView


class RemoteStreams:
    """The streams at a service that one may read: one's own running totals, and declared ones."""

    def __init__(self, service: Connection) -> None:
        self._service = service

    def names(self) -> list[str]:
        """Return the names of the streams."""
        return [view.name for view in self.list()]

    def list(self) -> list[StreamView]:
        """Return the streams, declared ones with every period. Free."""
        return [_view(content) for content in self._service.send("GET", "/streams").json()["streams"]]

    def open(self, name: str) -> RemoteStream:
        """Return a stream by its name: one's own, else a declared one."""
        from hush.curator.stream_state import StreamError

        names = self.names()
        if name.casefold() not in map(str.casefold, names):
            raise StreamError(f"There is no stream {name!r}; there are: {', '.join(names) or 'none yet'}.")
        return RemoteStream(self._service, name)

    def explain(self, question: str, **terms: Any) -> dict[str, Any]:
        """Explain `create`: the price, and how far off days, weeks and totals would be. Spends nothing."""
        return self._service.send("POST", "/streams/explain", _totals(question, terms)).json()

    def create(self, question: str, *, name: str, request: str | None = None, **terms: Any) -> RemoteStream:
        """Create running totals and charge their whole life; see `hush.curator.streams.Streams.create`."""
        body = {**_totals(question, terms), "name": name, "request": request_id(request)}
        return RemoteStream(self._service, self._service.send("POST", "/streams", body).json()["name"])

    def explain_declaration(self, question: str, **terms: Any) -> dict[str, Any]:
        """Explain `declare`: the price that it would set aside, for an owner's token. Sets nothing aside."""
        return self._service.send("POST", "/streams/declared/explain", _declaration(question, terms)).json()

    def declare(self, question: str, **terms: Any) -> StreamView:
        """Set aside the price of a stream, as an owner with a token for it.

        The terms are those of ``[streams.NAME]`` in a policy: ``name``, ``epsilon`` (or ``total_epsilon`` or
        ``rho``), ``every``, ``first``, ``releases``, ``confidence``, ``late``, ``readers``, ``data``.
        """
        return _view(self._service.send("POST", "/streams/declared", _declaration(question, terms)).json())

    def stop(self, name: str, reason: str = "") -> None:
        """Make no further release of a declared stream, as an owner with a token for it."""
        self._service.send("DELETE", f"/streams/declared/{quote(name, safe='')}?reason={quote(reason, safe='')}")


class RemoteStream:
    """One stream at a service."""

    def __init__(self, service: Connection, name: str) -> None:
        self._service, self.name = service, name
        self._path = f"/streams/{quote(name, safe='')}"

    @property
    def view(self) -> StreamView:
        """The question, the price and the progress."""
        return _view(self._service.send("GET", self._path).json())

    @property
    def released(self) -> int:
        """How many periods were released."""
        return self.view.released

    @property
    def receipt(self) -> str | None:
        """The receipt of the newest release, or of the one charge for running totals."""
        return self.view.receipt

    def advance(self, through: object = None) -> int:
        """Release all periods of running totals that are over and were not released; return how many there are now."""
        last = through if through is None or type(through) is int else str(through)
        while True:  # a service releases one part of bounded work for each request
            reply = self._service.send("POST", f"{self._path}/advance", {"through": last}).json()
            if not reply["due"]:
                return int(reply["released"])

    def stop(self) -> None:
        """Stop running totals: nothing more will be released, and nothing is refunded."""
        self._service.send("DELETE", self._path)

    def release(self, period: str = "latest") -> Answer:
        """Return the release of a date ("2026-11-16"), the latest, or all releases in one table. Free."""
        response = self._service.send("GET", f"{self._path}/{quote(period, safe='')}", accept=ANSWER)
        return replace(Answer.from_bytes(response.body), receipt=response.headers["hush-receipt"])

    @property
    def answer(self) -> Answer:
        """All releases in one table."""
        return self.release("all")

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values, with all that was released."""
        return {**self.view.to_json(), **self.answer.to_json()}

    def __repr__(self) -> str:
        return f"<stream {self.name!r}, {self.released} periods released>"


def _view(content: Mapping[str, Any]) -> StreamView:
    from hush.curator.stream_views import StreamView

    return StreamView.from_json(content)


def request_id(request: str | None) -> str:
    """Return the asker's own id, or a new one: a request that is sent again with its id is paid once."""
    return uuid.uuid4().hex if request is None else label(request, "request")


def _totals(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of running totals."""
    if "horizon" not in terms:
        raise QuestionError("A stream needs its length.", "Say horizon='10 years'.")
    body = {name: value for name, value in terms.items() if value is not None}
    if "epsilon" in body:
        body["epsilon"] = amount(body["epsilon"], "epsilon")
    if "start" in body and not isinstance(body["start"], int):
        body["start"] = str(body["start"])
    return {"question": question, **body}


def _declaration(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a declaration, as plain JSON values with exact numbers."""
    exact = {"epsilon", "total_epsilon", "rho", "confidence", "delta"}
    body = {name: amount(value, name) if name in exact else value for name, value in terms.items() if value is not None}
    if isinstance(body.get("late"), str):
        body["late"] = body["late"] != "skip"
    if "first" in body:
        body["first"] = str(body["first"])
    return {"question": question, **body}
