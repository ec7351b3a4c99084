"""Streams over the API: counts and sums that keep coming, paid once, and each period released once.

To advance a stream reads rows, so it takes its turn and its slot as a question does. The released periods become
visible at the slot and not before. Nobody sees another analyst's streams.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.curator.stream_state import StreamError
from hush.curator.streams import StreamRelease
from hush.server import bodies
from hush.server.api import ARROW, CSV, FORMAT, FORMS, STORED, chosen_form, place, written
from hush.server.errors import UnknownPlaceError
from hush.server.people import Person
from hush.server.questions import ServedCurator
from hush.server.routes import Reached, Visitor
from hush.server.service import Service


def shown(stream: StreamRelease) -> dict[str, Any]:
    """Return what is known of a stream without its numbers."""
    told = stream.to_json()
    return {name: told[name] for name in ("name", "question", "every", "periods", "released", "ended", "receipt")}


def found(curator: ServedCurator, name: str) -> StreamRelease:
    """Return a stream of somebody's own."""
    if name not in curator.stream.names():
        raise UnknownPlaceError(f"There is no stream {name!r} of yours.")
    return curator.stream.open(name)


async def streams(_: Request, service: Service, who: Person) -> Response:
    """Show one's streams."""
    return JSONResponse({"streams": await listed(service, who)})


async def listed(service: Service, who: Person) -> list[dict[str, Any]]:
    """Return one's streams."""

    def look(curator: ServedCurator) -> list[dict[str, Any]]:
        return [shown(curator.stream.open(name)) for name in curator.stream.names()]

    return await service.with_curator(who, look)


async def explain(request: Request, service: Service, who: Person) -> Response:
    """Say what a stream would cost."""
    body = await bodies.read(request, bodies.StreamBody)
    return JSONResponse(await service.explain_stream(who, body.how()))


async def create(request: Request, service: Service, who: Person) -> Response:
    """Begin a stream, and charge its whole life."""
    body = await bodies.read(request, bodies.PaidStreamBody)
    made = await service.at_work(
        who, body.request, lambda curator, name: shown(curator.stream.create(**body.how(), request=name))
    )
    return JSONResponse(made, 201)


async def stream(request: Request, service: Service, who: Person) -> Response:
    """Show all that a stream has released."""
    form, name = chosen_form(request, FORMS), request.path_params["name"]
    told, answer = await service.with_curator(
        who, lambda curator: (found(curator, name).to_json(), found(curator, name).answer)
    )
    return JSONResponse(told, headers={"hush-receipt": answer.receipt}) if form == "json" else written(answer, form)


async def advance(request: Request, service: Service, who: Person) -> Response:
    """Release the periods that are over."""
    body, name = await bodies.read(request, bodies.AdvanceBody), request.path_params["name"]

    def release(curator: ServedCurator, _: str) -> dict[str, Any]:
        made = found(curator, name)
        made.advance(body.through)
        return shown(made)

    return JSONResponse(await service.at_work(who, body.request, release))


async def end(request: Request, service: Service, who: Person) -> Response:
    """End a stream: nothing more is released."""
    name = request.path_params["name"]

    def stop(curator: ServedCurator) -> None:
        if shown(stream := found(curator, name))["ended"]:
            raise StreamError(f"The stream {name!r} has ended.")
        stream.end()

    await service.with_curator(who, stop)
    return Response(status_code=204)


def table() -> list[Reached]:
    """Return this part of the table of routes."""
    analyst, answers = Visitor.ANALYST, {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
    free, paid, last = bodies.StreamBody, bodies.PaidStreamBody, bodies.AdvanceBody
    path = "/streams/{name}"
    return [
        place("GET", "/streams", streams, analyst, "One's streams", "Streams"),
        place(
            "POST", "/streams/explain", explain, analyst, "Price and error of a stream", "StreamExplained", body=free
        ),
        place("POST", "/streams", create, analyst, "Begin a stream, and pay", "NewStream", body=paid, scope="ask"),
        place("GET", path, stream, analyst, "What a stream has released", "StreamAnswer", **answers),
        place("POST", f"{path}/advance", advance, analyst, "Release more", "Stream", body=last, scope="ask"),
        place("DELETE", path, end, analyst, "End a stream", scope="ask"),
    ]
