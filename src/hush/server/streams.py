"""Streams over the API: an analyst's own running totals, and declared streams for their readers and for owners.

A name is looked for among one's own streams first. To advance a stream reads rows, so it takes its turn and its slot as
a question does; the released periods become visible at the slot and not before. Nobody sees another analyst's streams.

Releases of declared streams have addresses that stay: ``/streams/NAME/2026-11-16`` and ``/streams/NAME/latest``. Where
the owner said ``readers = "public"`` nobody needs to sign in. What somebody may not read is not there for them: both
read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core import InvalidValueError
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.curator.declared_streams import (
    DeclarationExplanation,
    Publisher,
    StreamView,
    declared_release,
    declared_views,
)
from hush.curator.stream_state import StateFiles, StreamError
from hush.curator.streams import StreamRelease, own_views
from hush.ledger import Actor, Release, Role
from hush.ledger.streams import Schedule, StreamDeclaration, UnknownStreamError
from hush.policy.ledger import streams_of
from hush.policy.streams import unknown_reader
from hush.server import schemas
from hush.server.api import ARROW, CSV, FORMAT, FORMS, STORED, api_route, chosen_form, written
from hush.server.auth.people import Person
from hush.server.errors import SignInError, UnknownPlaceError
from hush.server.opened import OpenPolicy
from hush.server.rate_limits import Rate
from hush.server.routes import NOBODY, Permission, Route
from hush.server.service import Service

# reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRelease:
    """A release, as somebody may read it."""

    view: StreamView
    period: str
    answer: Answer
    receipt: Release
    hash: str
    """The hash of its charge in the ledger's chain."""


def owns(who: Person) -> bool:
    """Return whether somebody acts as an owner."""
    return who.owner and "own" in who.scopes


def _reader(request: Request, service: Service, who: Person) -> str | None:
    """Return the name of the reader; None without the scope to read. Anonymous visitors have a rate limit."""
    if who is NOBODY:
        service.rates.check(Rate.VISITS, request.client.host if request.client else "")
    return who.name if "read" in who.scopes else None


def _data_of(opened: OpenPolicy, who: Person) -> dict[str, tuple[str, ...]] | None:
    """Return the data sets of each analyst; None for an owner, who reads everything."""
    return None if owns(who) else {name: person.data for name, person in opened.policy.analysts.items()}


async def listed(request: Request, service: Service, who: Person) -> list[StreamView]:
    """Return the streams that somebody may read: their own, then declared ones."""
    reader = _reader(request, service, who)

    def look(opened: OpenPolicy) -> list[StreamView]:
        declared = declared_views(opened.ledger, reader, _data_of(opened, who)) if opened.made else []
        if reader is None or Role.ANALYST not in who.roles or reader not in opened.policy.analysts:
            return declared
        return own_views(StateFiles(streams_of(opened.policy, reader), {})) + declared

    return await service.with_policy(look)


async def found(request: Request, service: Service, who: Person, name: str) -> StreamView:
    """Return a stream by its name; a visitor who is not signed in and may not read it is asked to sign in."""
    views = await listed(request, service, who)
    matches = [view for view in views if view.name == name or (view.releases is not None and _same(view.name, name))]
    if not matches:
        raise SignInError if who is NOBODY else UnknownPlaceError
    return matches[0]


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()


async def read(request: Request, service: Service, who: Person, name: str, period: str) -> ReadRelease:
    """Return a release of a stream by its period; for running totals only ``all`` exists."""
    view, reader = await found(request, service, who, name), _reader(request, service, who)
    if view.pays == "once" and period != "all":
        raise UnknownPlaceError

    def look(opened: OpenPolicy) -> ReadRelease:
        if view.pays == "once":
            dated, answer = period, opened.curator(who).stream.open(name).answer
        else:
            dated, answer = declared_release(opened.ledger, name, period, reader, _data_of(opened, who))
        receipt, entry = opened.ledger.receipt(int(answer.receipt), Actor.owner("policy"))
        return ReadRelease(view=view, period=dated, answer=answer, receipt=receipt, hash=entry.hash.hex())

    try:
        return await service.with_policy(look)
    except UnknownStreamError:
        raise UnknownPlaceError from None


async def streams(request: Request, service: Service, who: Person) -> Response:
    """Show the streams that one may read."""
    return JSONResponse({"streams": [view.to_json() for view in await listed(request, service, who)]})


async def stream(request: Request, service: Service, who: Person) -> Response:
    """Show a stream and its periods."""
    return JSONResponse((await found(request, service, who, request.path_params["name"])).to_json())


async def release(request: Request, service: Service, who: Person) -> Response:
    """Show a release."""
    form, name = chosen_form(request, FORMS), request.path_params["name"]
    stream_release = await read(request, service, who, name, request.path_params["period"])
    response = written(stream_release.answer, form)
    response.headers["hush-period"] = stream_release.period
    return response


# running totals


def own(curator: Curator, name: str) -> StreamRelease:
    """Return running totals of somebody's own."""
    if (totals := curator.stream.own(name)) is None:
        raise UnknownPlaceError(f"There is no stream {name!r} of yours.")
    return totals


async def explain(_: Request, service: Service, who: Person, body: schemas.Body) -> Response:
    """Return the price and the errors of running totals."""
    return JSONResponse(await service.explain_stream(who, body.given()))


async def create(_: Request, service: Service, who: Person, body: schemas.Body) -> Response:
    """Create running totals, and charge their whole life."""
    terms = body.given()
    view = await service.at_work(
        who, terms.pop("request", None), lambda curator, name: curator.stream.create(**terms, request=name).view
    )
    return JSONResponse(view.to_json(), 201)


async def advance(request: Request, service: Service, who: Person, body: schemas.AdvanceBody) -> Response:
    """Release the periods that are over."""
    name = request.path_params["name"]

    def release(curator: Curator, _: str) -> dict[str, Any]:
        totals = own(curator, name)
        totals.advance(body.through, parts=1)  # the next request goes on: others get their turn
        return totals.view.to_json() | {"due": totals.due(body.through)}

    return JSONResponse(await service.at_work(who, body.request, release))


async def stop_own(request: Request, service: Service, who: Person) -> Response:
    """Stop running totals: nothing more is released."""
    name = request.path_params["name"]

    def stop(curator: Curator) -> None:
        totals = own(curator, name)
        if totals.view.ended:
            raise StreamError(f"The stream {name!r} has ended.")
        totals.stop()

    await service.with_curator(who, stop)
    return Response(status_code=204)


# for owners


async def explained(service: Service, declaration: StreamDeclaration) -> DeclarationExplanation:
    """Return the price of a declared stream. Sets nothing aside."""
    return await service.with_policy(lambda opened: Publisher(opened.data_sets, opened.ledger).explain(declaration))


async def declared(service: Service, who: Person, declaration: StreamDeclaration) -> StreamView:
    """Declare a stream, and set its price aside."""

    def declare(opened: OpenPolicy) -> StreamView:
        opened.ledger.check_made()
        publisher = Publisher(opened.data_sets, opened.ledger)
        declared_stream = publisher.declare(declaration, actor=Actor.owner(who.name))
        return StreamView.of(declared_stream, publisher.streams.periods(declared_stream))

    return await service.with_policy(declare)


async def stopped(service: Service, who: Person, name: str, reason: str) -> None:
    """Make no further release of a declared stream."""
    try:
        await service.with_policy(
            lambda opened: opened.ledger.streams.stop(name, actor=Actor.owner(who.name), reason=reason)
        )
    except UnknownStreamError:
        raise UnknownPlaceError from None


async def declaration_of(service: Service, terms: Mapping[str, Any]) -> StreamDeclaration:
    """Return the declaration in the fields of a form or a body."""
    policy = await service.with_policy(lambda opened: opened.policy)
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


async def explain_declaration(_: Request, service: Service, __: Person, body: schemas.DeclarationBody) -> Response:
    """Show the price of a declared stream."""
    return JSONResponse((await explained(service, await declaration_of(service, body.model_dump()))).to_json())


async def declare(_: Request, service: Service, who: Person, body: schemas.DeclarationBody) -> Response:
    """Declare a stream."""
    view = await declared(service, who, await declaration_of(service, body.model_dump()))
    return JSONResponse(view.to_json(), 201)


async def stop(request: Request, service: Service, who: Person) -> Response:
    """Stop a declared stream."""
    await stopped(service, who, request.path_params["name"], request.query_params.get("reason", "")[:2000])
    return Response(status_code=204)


def table() -> list[Route]:
    """Return the routes of streams."""
    anybody, analyst, owner = Permission.ANYBODY, Permission.ANALYST, Permission.OWNER
    answers: dict[str, Any] = {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
    totals, paid, last = schemas.StreamBody, schemas.PaidStreamBody, schemas.AdvanceBody
    plan, reason = schemas.DeclarationBody, ("reason", {"type": "string", "maxLength": 2000})
    path, declarations = "/streams/{name}", "/streams/declared"
    return [
        api_route("GET /streams", streams, anybody, "Streams that one may read", "Streams"),
        api_route(f"GET {path}", stream, anybody, "A stream and its periods", "Stream"),
        api_route(
            f"GET {path}/{{period}}", release, anybody, "A release by date, the latest, or all", "Answer", **answers
        ),
        api_route("POST /streams/explain", explain, analyst, "Price and error of totals", "StreamExplained", totals),
        api_route("POST /streams", create, analyst, "Begin totals, and pay", "NewStream", paid, scope="ask"),
        api_route(f"POST {path}/advance", advance, analyst, "Release more", "AdvancedStream", last, scope="ask"),
        api_route(f"DELETE {path}", stop_own, analyst, "Stop totals of one's own", scope="ask"),
        api_route(
            f"POST {declarations}/explain",
            explain_declaration,
            owner,
            "Price of a declared stream",
            "DeclarationExplained",
            plan,
        ),
        api_route(f"POST {declarations}", declare, owner, "Declare a stream", "NewStream", plan),
        api_route(f"DELETE {declarations}/{{name}}", stop, owner, "Stop a declared stream", query=(reason,)),
    ]
