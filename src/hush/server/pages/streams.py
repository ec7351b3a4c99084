"""Pages of streams: the list, releases with chart and receipt, and forms to declare, advance and stop streams.

Every release of a declared stream has an address that stays, ``/streams/NAME/2026-11-16``; the newest is also
``/streams/NAME/latest``, and ``/streams/NAME/all`` is one table of all. They take ``.json``, ``.csv``, ``.arrow`` or
``.svg`` at their end for files. What is public is shown to anybody.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.format import percent, visible
from hush.curator.declared_streams import DeclarationExplanation, StreamView
from hush.ledger.streams import StreamDeclaration
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn, shown_error
from hush.report.pictures import picture
from hush.server import errors, streams
from hush.server.api import written
from hush.server.auth.people import Person
from hush.server.errors import NoPolicyError, UnknownPlaceError
from hush.server.pages.answers import NARROW, both, shown
from hush.server.pages.layout import problem_of, show, text_of
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service

_FILES = ("csv", "json", "arrow", "svg")
_MOST_ROWS = 60
_WIDEST = 1040.0
_SERIES = 3
"""The number of releases from which on they are drawn over time."""
_PRICES = (("epsilon", "each release"), ("total_epsilon", "all releases together"))
_WORDS = {
    "planned": "to come",
    "due": "due: it is made soon",
    "running": "being made",
    "made": "released",
    "failed": "failed; it stays charged",
    "skipped": "skipped",
    "ended": "not made: stopped before",
}
_FIELDS = ("name", "question", "amount", "price", "every", "first", "releases", "late", "readers", "data")


async def streams_page(request: Request, service: Service, who: Person) -> Response:
    """Show the streams that one may read, as a page, JSON or CSV."""
    ending = request.path_params.get("ending", "")
    if not ending:
        return await _list(request, service, who, given={})
    views = await streams.listed(request, service, who)
    if ending == "json":
        return JSONResponse({"streams": [view.to_json() for view in views]})
    rows = [{"name": view.name} | release.to_json() for view in views for release in view.releases or ()]
    return _csv(rows, ("name", "period", "slot", "state", "receipt"), "streams", ending)


async def _list(
    request: Request,
    service: Service,
    who: Person,
    status: int = 200,
    *,
    given: dict[str, str],
    explained: DeclarationExplanation | None = None,
    error: HushError | None = None,
) -> Response:
    views = await streams.listed(request, service, who)
    names = await service.with_policy(lambda opened: list(opened.policy.data))
    defaults = dict.fromkeys(_FIELDS, "") | {"every": "week", "releases": "12", "late": "make", "readers": "analysts"}
    defaults |= {"price": "epsilon", "first": datetime.now(UTC).date().isoformat(), "data": names[0] if names else ""}
    return await show(
        request,
        service,
        who,
        "streams.html",
        status,
        streams=[_stream(view) for view in views],
        owner=streams.owns(who),
        known_data=names,
        prices=_PRICES,
        given=defaults | given,
        explained=None if explained is None else _explanation(explained),
        problem=None if error is None else problem_of(error),
    )


def _stream(view: StreamView) -> dict[str, Any]:
    """Return a stream as templates draw it."""
    periods_left = view.periods - view.released if view.left is None else view.left
    to_come = [release for release in view.releases or () if release.state in {"planned", "due"}]
    released_periods = [release.period for release in view.releases or () if release.state == "made"]
    return {
        "name": view.name,
        "address": quote(view.name, safe=""),
        "own": view.pays == "once",
        "data": visible(view.data),
        "question": visible(view.question, lines=True),
        "every": view.every,
        "price": f"ε {view.epsilon} {'a release' if view.pays == 'each release' else 'for all of it, paid once'}",
        "left": periods_left,
        "ended": view.ended,
        "state": "ended" if view.ended else f"{periods_left} to come" if periods_left else "complete",
        "released": view.released,
        "receipt": view.receipt,
        "latest": released_periods[-1] if released_periods else "",
        "next": "" if view.ended or not to_come else to_come[0].slot[:16].replace("T", " ") + " UTC",
    }


def _explanation(explained: DeclarationExplanation) -> dict[str, Any]:
    errors = [
        (visible(name), "known with the answer" if error is None else f"± {shown_error(float(error))}")
        for name, error in explained.release.errors().items()
    ]
    fits = explained.declaration.schedule.slots <= explained.fitting
    return {"head": visible(str(explained)), "errors": errors, "fits": fits, "share": percent(explained.share)}


async def stream_page(request: Request, service: Service, who: Person) -> Response:
    """Show a stream: running totals with all that was released, a declared stream with its dates and a chart."""
    name = str(request.path_params["name"])
    stem, _, ending = name.rpartition(".")
    match = any(view.name == name for view in await streams.listed(request, service, who))  # its name may have a dot
    if match or ending not in {"json", "csv"}:
        return await _one(request, service, who, await streams.found(request, service, who, name))
    view = await streams.found(request, service, who, stem)
    if ending == "json":
        return JSONResponse(view.to_json())
    rows = [release.to_json() for release in view.releases or ()]
    return _csv(rows, ("period", "slot", "state", "receipt"), view.name, ending)


async def _one(
    request: Request, service: Service, who: Person, view: StreamView, error: HushError | None = None
) -> Response:
    series = answer = None
    if view.released >= (1 if view.pays == "once" else _SERIES):
        released = (await streams.read(request, service, who, view.name, "all")).answer
        if view.pays == "once":
            answer = shown(released, request.url.path, request.query_params)
        else:
            chart = both([picture(released.columns, width=width, heading=False) for width in (_WIDEST, NARROW)])
            series = {"chart": chart, "confidence": f"{100 * released.confidence:.6g} %"}
    return await _drawn(request, service, who, view, error, series=series, answer=answer)


async def release_page(request: Request, service: Service, who: Person) -> Response:
    """Show a release, in any of its forms."""
    name, (period, _, ending) = request.path_params["name"], str(request.path_params["period"]).partition(".")
    if ending and ending not in _FILES:
        raise UnknownPlaceError
    release = await streams.read(request, service, who, name, period)
    if ending:
        file = f"{release.view.name}-{release.period}.{ending}"
        if ending == "svg":
            response = Response(release.answer.chart().svg, media_type="image/svg+xml")
        else:
            response = written(release.answer, ending)
        response.headers["content-disposition"] = f'attachment; filename="{file}"'
        return response
    if release.period == "all":
        return RedirectResponse(f"/streams/{quote(release.view.name, safe='')}", 303)
    charge = release.receipt
    receipt = {
        "number": charge.number,
        "when": charge.when[:16].replace("T", " "),
        "epsilon": charge.epsilon,
        "share": percent(charge.share, taken=True),
        "request": charge.request,
        "hash": release.hash,
    }
    answer = shown(release.answer, request.url.path, request.query_params)
    return await _drawn(request, service, who, release.view, period=release.period, answer=answer, receipt=receipt)


async def _drawn(
    request: Request, service: Service, who: Person, view: StreamView, error: HushError | None = None, **values: Any
) -> Response:
    future = {"planned", "ended"}
    releases = view.releases or ()
    past = [release for release in releases if release.state not in future]
    ordered = [*reversed(past), *(release for release in releases if release.state in future)]
    rows = [
        {"period": release.period, "state": release.state, "receipt": release.receipt, "words": _WORDS[release.state]}
        for release in ordered[:_MOST_ROWS]
    ]
    nothing: dict[str, Any] = {"period": "", "answer": None, "receipt": None, "series": None}
    return await show(
        request,
        service,
        who,
        "stream.html",
        200 if error is None else errors.status(error),
        data=view.data,
        stream=_stream(view),
        releases=rows,
        further=max(len(ordered) - _MOST_ROWS, 0),
        owner=streams.owns(who),
        request_id=uuid.uuid4().hex,
        problem=None if error is None else problem_of(error),
        **nothing | values,
    )


# running totals


async def change(request: Request, service: Service, who: Person) -> Response:
    """Release the periods that are over, or stop running totals."""
    form, name = await request.form(), request.path_params["name"]
    last = text_of(form, "through", 40).strip() or None
    through = int(last) if last is not None and last.isascii() and last.isdigit() else last
    try:
        if form.get("act") == "stop":
            await service.with_curator(who, lambda curator: streams.own(curator, name).stop())
        else:
            await service.at_work(
                who,
                text_of(form, "request", 200) or None,
                lambda curator, _: streams.own(curator, name).advance(through, parts=1),
            )
    except UnknownPlaceError:
        raise
    except HushError as error:
        view = await streams.found(request, service, who, name)
        return await _one(request, service, who, view, error)
    return RedirectResponse(f"/streams/{quote(name, safe='')}", 303)


# declarations


async def _given(request: Request) -> dict[str, str]:
    form = await request.form()
    return {name: text_of(form, name, 50_000 if name == "question" else 1000).strip() for name in _FIELDS}


async def _declaration(service: Service, given: dict[str, str]) -> StreamDeclaration:
    if not given["releases"].isascii() or not given["releases"].isdecimal() or len(given["releases"]) > 5:
        raise InvalidValueError("releases", got=given["releases"], allowed="a whole number from 1")
    price = given["price"] if given["price"] in dict(_PRICES) else "epsilon"
    readers = given["readers"]
    terms = {name: given[name] for name in ("name", "question", "every", "first", "data")} | {
        price: given["amount"],
        "releases": int(given["releases"]),
        "late": given["late"] != "skip",
        "readers": readers
        if readers in {"analysts", "public"}
        else [name.strip() for name in readers.split(",") if name.strip()],
    }
    return await streams.declaration_of(service, terms)


async def explain(request: Request, service: Service, who: Person) -> Response:
    """Show the price of a declared stream."""
    fields = await _given(request)
    try:
        explained = await streams.explained(service, await _declaration(service, fields))
    except HushError as error:
        return await _list(request, service, who, errors.status(error), given=fields, error=error)
    return await _list(request, service, who, given=fields, explained=explained)


async def declare(request: Request, service: Service, who: Person) -> Response:
    """Declare a stream."""
    fields = await _given(request)
    try:
        view = await streams.declared(service, who, await _declaration(service, fields))
    except HushError as error:
        return await _list(request, service, who, errors.status(error), given=fields, error=error)
    return RedirectResponse(f"/streams/{view.name}", 303)


async def stop(request: Request, service: Service, who: Person) -> Response:
    """Stop a declared stream."""
    name, form = request.path_params["name"], await request.form()
    view = await streams.found(request, service, who, name)
    try:
        await streams.stopped(service, who, view.name, text_of(form, "reason", 2000).strip())
    except (NoPolicyError, UnknownPlaceError):
        raise
    except HushError as error:
        return await _drawn(request, service, who, view, error)
    return RedirectResponse(f"/streams/{view.name}", 303)


def _csv(rows: list[dict[str, Any]], names: tuple[str, ...], file: str, ending: str) -> Response:
    if ending != "csv":
        raise UnknownPlaceError
    columns = [
        AnswerColumn(
            name=name, kind=Kind.TEXT, values=tuple("" if row[name] is None else str(row[name]) for row in rows)
        )
        for name in names
    ]
    headers = {"content-disposition": f'attachment; filename="{file}.csv"'}
    return Response(files.to_csv(columns), media_type="text/csv", headers=headers)


def table() -> list[Route]:
    """Return the routes of the pages."""
    anybody, analyst, owner = Permission.ANYBODY, Permission.ANALYST, Permission.OWNER
    return [
        page_route("GET", "/streams", streams_page, anybody),
        page_route("GET", "/streams.{ending}", streams_page, anybody),
        page_route("POST", "/streams/declared", declare, owner, "own"),
        page_route("POST", "/streams/declared/explain", explain, owner, "own"),
        page_route("POST", "/streams/declared/{name}/stop", stop, owner, "own"),
        page_route("GET", "/streams/{name}", stream_page, anybody),
        page_route("POST", "/streams/{name}/change", change, analyst, "ask"),
        page_route("GET", "/streams/{name}/{period}", release_page, anybody),
    ]
