"""Streams over the API: an analyst's own running totals, and declared streams for their readers and for owners.

A name is looked for among one's own streams first. To advance a stream reads rows, so it takes its turn and its slot as
a question does; the released periods become visible at the slot and not before. Nobody sees another analyst's streams.

Releases of declared streams have addresses that stay: ``/streams/NAME/2026-11-16`` and ``/streams/NAME/latest``. Where
the owner said ``readers = "public"`` nobody needs to sign in. What somebody may not read is not there for them: both
read alike.

They are made by the `Scheduler`: every worker looks every `LOOK` seconds whether one is due. Which worker makes it is
decided by the ledger's lock (`hush.ledger.streams`). It takes its turn and its slot as a question does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.responses import Response

from hush.core import HushError, InvalidValueError
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.curator.declared_streams import (
    DeclarationExplanation,
    Publisher,
    StreamView,
    declare_all,
    declared_release,
    declared_views,
)
from hush.curator.stream_states import StateFiles, StreamError
from hush.curator.streams import StreamRelease, own_views
from hush.engines.errors import EngineError
from hush.ledger import Actor, Role
from hush.ledger.entries import now
from hush.ledger.streams import Schedule, StreamDeclaration, StreamPeriod
from hush.policy.file import Policy
from hush.policy.ledger import streams_of
from hush.policy.streams import unknown_reader
from hush.server import schemas
from hush.server.api import ANSWERS, FORMS, chosen_form, written
from hush.server.errors import NoPolicyError, SignInError, UnknownPlaceError
from hush.server.questions import Turn
from hush.server.rate_limits import Rate
from hush.server.routes import ANALYST, ANYBODY, NOBODY, OWNER, Routes, Visit
from hush.server.service import OpenPolicy, Service

log = logging.getLogger("hush.server")
ROUTES = Routes()
LOOK = 2.0
"""The seconds between two looks of a worker for due releases."""
AGAIN = 60.0
"""The seconds after which a refused declaration is tried again, and the next release after a failed one."""
_NOBODY = "streams\n"
"""The name under which releases wait in the queue; no person can have it."""


def _reader(visit: Visit) -> str | None:
    """Return the name of the reader; None without the scope to read. Anonymous visitors have a rate limit."""
    if visit.who is NOBODY:
        visit.service.rates.check(Rate.VISITS, visit.address)
    return visit.name if "read" in visit.who.scopes else None


def _data_of(opened: OpenPolicy, visit: Visit) -> dict[str, tuple[str, ...]] | None:
    """Return the data sets of each analyst; None for an owner, who reads everything."""
    return None if visit.who.owns else {name: analyst.data for name, analyst in opened.policy.analysts.items()}


async def listed(visit: Visit) -> list[StreamView]:
    """Return the streams that somebody may read: their own, then declared ones."""
    reader = _reader(visit)

    def look(opened: OpenPolicy) -> list[StreamView]:
        declared = declared_views(opened.ledger, reader, _data_of(opened, visit)) if opened.made else []
        if reader is None or Role.ANALYST not in visit.who.roles or reader not in opened.policy.analysts:
            return declared
        return own_views(StateFiles(streams_of(opened.policy, reader), {})) + declared

    return await visit.with_policy(look)


async def found(visit: Visit, name: str) -> StreamView:
    """Return a stream by its name; a visitor who is not signed in and may not read it is asked to sign in."""
    for view in await listed(visit):
        # Names of declared streams may be written in small letters or capitals.
        if view.name == name or (view.releases is not None and view.name.casefold() == name.casefold()):
            return view
    raise SignInError if visit.who is NOBODY else UnknownPlaceError


async def read(visit: Visit, name: str, period: str) -> tuple[StreamView, str, Answer]:
    """Return a stream, the period of one of its releases, and the release; of running totals only ``all`` exists."""
    view, reader = await found(visit, name), _reader(visit)
    if view.pays == "once" and period != "all":
        raise UnknownPlaceError

    def look(opened: OpenPolicy) -> tuple[StreamView, str, Answer]:
        if view.pays == "once":
            return view, period, opened.curator(visit.who).stream.open(name).answer
        return view, *declared_release(opened.ledger, name, period, reader, _data_of(opened, visit))

    return await visit.with_policy(look)


@ROUTES.api("GET /streams", ANYBODY, "Streams")
async def streams(visit: Visit) -> dict[str, Any]:
    """Streams that one may read."""
    return {"streams": [view.to_json() for view in await listed(visit)]}


@ROUTES.api("GET /streams/{name}", ANYBODY, "Stream")
async def stream(visit: Visit) -> dict[str, Any]:
    """A stream and its periods."""
    return (await found(visit, visit.path["name"])).to_json()


@ROUTES.api("GET /streams/{name}/{period}", ANYBODY, "Answer", **ANSWERS)
async def release(visit: Visit) -> Response:
    """A release by date, the latest, or all."""
    form = chosen_form(visit.request, FORMS)
    _, period, answer = await read(visit, visit.path["name"], visit.path["period"])
    response = written(answer, form)
    response.headers["hush-period"] = period
    return response


# running totals


def own(curator: Curator, name: str) -> StreamRelease:
    """Return running totals of somebody's own."""
    if (totals := curator.stream.own(name)) is None:
        raise UnknownPlaceError(f"There is no stream {name!r} of yours.")
    return totals


@ROUTES.api("POST /streams/explain", ANALYST, "StreamExplained", schemas.StreamBody)
async def explain(visit: Visit, body: schemas.Body) -> dict[str, Any]:
    """Price and error of totals."""
    return await visit.for_nothing(Rate.EXPLANATIONS, lambda curator: curator.stream.explain(**body.given()))


@ROUTES.api("POST /streams", ANALYST, "Stream", schemas.PaidStreamBody, scope="ask", status=201)
async def create(visit: Visit, body: schemas.Body) -> dict[str, Any]:
    """Begin totals, and pay."""
    terms = body.given()
    request = terms.pop("request", None)
    view = await visit.at_work(request, lambda curator, name: curator.stream.create(**terms, request=name).view)
    return view.to_json()


@ROUTES.api("POST /streams/{name}/advance", ANALYST, "AdvancedStream", schemas.AdvanceBody, scope="ask")
async def advance(visit: Visit, body: schemas.AdvanceBody) -> dict[str, Any]:
    """Release more."""

    def release(curator: Curator, _: str) -> dict[str, Any]:
        totals = own(curator, visit.path["name"])
        totals.advance_part(body.through)  # the next request goes on: others get their turn
        return totals.view.to_json() | {"due": totals.due(body.through)}

    return await visit.at_work(body.request, release)


@ROUTES.api("DELETE /streams/{name}", ANALYST, scope="ask")
async def stop_own(visit: Visit) -> None:
    """Stop totals of one's own."""

    def stop(curator: Curator) -> None:
        totals = own(curator, visit.path["name"])
        if totals.view.ended:
            raise StreamError(f"The stream {totals.name!r} has ended.")
        totals.stop()

    await visit.with_curator(stop)


# declared streams, for owners


async def explained(visit: Visit, terms: Mapping[str, Any]) -> DeclarationExplanation:
    """Return the price of a declared stream. Sets nothing aside."""
    return await visit.with_policy(
        lambda opened: Publisher(opened.data_sets, opened.ledger).explain(_declaration(opened.policy, terms))
    )


async def declared(visit: Visit, terms: Mapping[str, Any]) -> StreamView:
    """Declare a stream, and set its price aside."""

    def declare(opened: OpenPolicy) -> StreamView:
        opened.ledger.check_made()
        publisher = Publisher(opened.data_sets, opened.ledger)
        declared_stream = publisher.declare(_declaration(opened.policy, terms), actor=Actor.owner(visit.name))
        return StreamView.of(declared_stream, publisher.streams.periods(declared_stream))

    return await visit.with_policy(declare)


async def stopped(visit: Visit, name: str, reason: str) -> None:
    """Make no further release of a declared stream."""
    await visit.with_policy(
        lambda opened: opened.ledger.streams.stop(name, actor=Actor.owner(visit.name), reason=reason)
    )


def _declaration(policy: Policy, terms: Mapping[str, Any]) -> StreamDeclaration:
    """Return the declaration in the fields of a form or a body."""
    names, readers = list(policy.data), terms["readers"]
    data = terms.get("data") or (names[0] if len(names) == 1 else "")
    if data not in names:
        raise UnknownPlaceError(f"Say which data set it is about: one of {', '.join(names)}.")
    if (stranger := unknown_reader(readers, data, policy.analysts)) is not None:
        raise InvalidValueError("readers", got=stranger, allowed=f"analysts of {data}, or analysts, or public")
    schedule = Schedule(first=terms["first"], every=terms["every"], slots=terms["releases"])
    plain = {name: terms[name] for name in terms.keys() - {"data", "first", "every", "releases", "readers"}}
    readers = readers if isinstance(readers, str) else tuple(readers)
    return StreamDeclaration(data=data, schedule=schedule, readers=readers, **plain)


@ROUTES.api("POST /streams/declared/explain", OWNER, "DeclarationExplained", schemas.DeclarationBody)
async def explain_declaration(visit: Visit, body: schemas.DeclarationBody) -> dict[str, Any]:
    """Price of a declared stream."""
    return (await explained(visit, body.model_dump())).to_json()


@ROUTES.api("POST /streams/declared", OWNER, "Stream", schemas.DeclarationBody, status=201)
async def declare(visit: Visit, body: schemas.DeclarationBody) -> dict[str, Any]:
    """Declare a stream."""
    return (await declared(visit, body.model_dump())).to_json()


@ROUTES.api("DELETE /streams/declared/{name}", OWNER, query=(("reason", {"type": "string", "maxLength": 2000}),))
async def stop(visit: Visit) -> None:
    """Stop a declared stream."""
    await stopped(visit, visit.path["name"], visit.query.get("reason", "")[:2000])


class Scheduler:
    """Makes the releases that are due, as long as a worker lives."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._logged: dict[str, str] = {}
        self._refused: dict[str, float] = {}
        """The times of refused declarations: they are tried again after `AGAIN` seconds."""
        self._failed: dict[str, float] = {}
        """The times of failed releases: the next one waits `AGAIN` seconds, as it would fail alike and be charged."""
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that looks for due releases."""
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Stop the task, after the release at work is finished."""
        self._ending.set()
        if self._task is not None:
            await self._task

    async def _look(self) -> None:
        while not self._ending.is_set():
            try:
                await self.release_due()
            except HushError as error:
                self._warn("", error)
            except Exception as error:  # whatever it is, the next look may do better
                log.error("looking for due releases failed: %s", type(error).__name__)  # noqa: TRY400 - no values
                log.debug("its trace", exc_info=error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK)

    async def release_due(self) -> int:
        """Declare the streams of the policy, make every release that is due, and return how many were made."""
        try:
            names, refused = await self._service.with_policy(self._due)
        except NoPolicyError:
            return 0
        for name, error in refused.items():
            self._warn(name, error)
        count = 0

        def release(name: str, turn: Turn) -> StreamPeriod | None:
            opened = self._service.policy.in_force()
            return Publisher(opened.data_sets, opened.ledger, turn).release_due(name)

        for name in names:
            try:
                while not self._ending.is_set():  # what is due and was not begun can wait for the next worker
                    period = await self._service.questions.run(_NOBODY, f"stream {name}", partial(release, name))
                    if period is None:
                        break
                    count += 1
                    if period.state == "failed":
                        self._failed[name] = time.monotonic()
                        break
            except HushError as error:
                if isinstance(error, EngineError):  # it took longer than a question may
                    self._failed[name] = time.monotonic()
                self._warn(name, error)
        return count

    def _due(self, opened: OpenPolicy) -> tuple[list[str], Mapping[str, HushError]]:
        """Return the streams with a due release; declare those of the policy that are not yet."""
        if not opened.made:
            return [], {}
        publisher = Publisher(opened.data_sets, opened.ledger)
        soon = time.monotonic() - AGAIN
        declared = opened.policy.streams.items()
        wanted = [declaration for name, declaration in declared if self._refused.get(name, soon) <= soon]
        refused = declare_all(publisher, wanted)
        self._refused |= dict.fromkeys(refused, time.monotonic())
        publisher.streams.close_dead()
        clock = now()
        streams = [stream for stream in publisher.streams.listed() if self._failed.get(stream.name, soon) <= soon]
        return [stream.name for stream in streams if stream.due(clock) is not None or stream.over(clock)], refused

    def _warn(self, name: str, error: HushError) -> None:
        """Log a refusal, once as long as it stays the same."""
        if self._logged.get(name) != str(error):
            self._logged[name] = str(error)
            log.warning("stream %s: %s", name or "-", error)
