"""Pages of streams: the list, releases with chart and receipt, and forms to declare, advance and stop streams.

Every release of a declared stream has an address that stays, ``/streams/NAME/2026-11-16``; the newest is also
``/streams/NAME/latest``, and ``/streams/NAME/all`` is one table of all. They take ``.json``, ``.csv``, ``.arrow`` or
``.svg`` at their end for files. What is public is shown to anybody.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core import HushError
from hush.curator.declared_streams import DeclarationExplanation, StreamView
from hush.policy.ledger import POLICY
from hush.server import streams
from hush.server.api import number_of, whole
from hush.server.errors import UnknownPlaceError
from hush.server.pages.answers import FILES, answer_file, both, shown
from hush.server.pages.budget import csv_file
from hush.server.pages.layout import minute, show
from hush.server.routes import ANALYST, ANYBODY, OWNER, Routes, Visit

ROUTES = Routes()
_MOST_ROWS = 60
_SERIES = 3
"""The number of releases from which on they are drawn over time."""
_PRICES = (("epsilon", "each release"), ("total_epsilon", "all releases together"))
_FIELDS = ("name", "question", "amount", "price", "every", "first", "releases", "late", "readers", "data")


@ROUTES.page("GET /streams", ANYBODY)
@ROUTES.page("GET /streams.{ending}", ANYBODY)
async def streams_page(
    visit: Visit, *, error: HushError | None = None, explained: DeclarationExplanation | None = None
) -> Response:
    """Show the streams that one may read, as a page, JSON or CSV; to owners with the form of a declaration."""
    views, ending = await streams.listed(visit), visit.path.get("ending", "")
    if ending == "json":
        return JSONResponse({"streams": [view.to_json() for view in views]})
    if ending == "csv":
        rows = [{"name": view.name} | release.to_json() for view in views for release in view.releases or ()]
        return csv_file(rows, ("name", "period", "slot", "state", "receipt"), "streams")
    if ending:
        raise UnknownPlaceError
    names = await visit.with_policy(lambda opened: list(opened.policy.data))
    given = dict.fromkeys(_FIELDS, "") | {"every": "week", "releases": "12", "late": "make", "readers": "analysts"}
    given |= {"price": "epsilon", "first": datetime.now(UTC).date().isoformat(), "data": names[0] if names else ""}
    return await show(
        visit,
        "streams.html",
        error=error,
        streams=list(map(_stream, views)),
        known_data=names,
        prices=_PRICES,
        given=given | await visit.fields(),
        explained=explained,
    )


def _stream(view: StreamView) -> dict[str, Any]:
    periods_left = view.periods - view.released if view.left is None else view.left
    to_come = [release for release in view.releases or () if release.state in {"planned", "due"}]
    released_periods = [release.period for release in view.releases or () if release.state == "made"]
    return asdict(view) | {
        "address": quote(view.name, safe=""),
        "own": view.pays == "once",
        "price": f"ε {view.epsilon} {'a release' if view.pays == 'each release' else 'for all of it, paid once'}",
        "left": periods_left,
        "state": "ended" if view.ended else f"{periods_left} to come" if periods_left else "complete",
        "latest": released_periods[-1] if released_periods else "",
        "next": "" if view.ended or not to_come else minute(to_come[0].slot) + " UTC",
    }


@ROUTES.page("GET /streams/{name}", ANYBODY)
async def stream_page(visit: Visit, *, error: HushError | None = None) -> Response:
    """Show a stream: running totals with all that was released, a declared stream with its dates and a chart."""
    name = str(visit.path["name"])
    stem, _, ending = name.rpartition(".")
    if ending in {"json", "csv"} and not any(view.name == name for view in await streams.listed(visit)):
        view = await streams.found(visit, stem)
        if ending == "json":
            return JSONResponse(view.to_json())
        rows = [release.to_json() for release in view.releases or ()]
        return csv_file(rows, ("period", "slot", "state", "receipt"), view.name)
    view = await streams.found(visit, name)
    series = answer = None
    if view.released >= (1 if view.pays == "once" else _SERIES):
        *_, released = await streams.read(visit, view.name, "all")
        if view.pays == "once":
            answer = shown(released, visit.request.url.path, visit.query)
        else:
            series = {"chart": both(released.columns, wide=1040.0), "confidence": f"{100 * released.confidence:.6g} %"}
    return await _drawn(visit, view, error, series=series, answer=answer)


@ROUTES.page("GET /streams/{name}/{period}", ANYBODY)
async def release_page(visit: Visit) -> Response:
    """Show a release, in any of its forms."""
    period, _, ending = str(visit.path["period"]).partition(".")
    if ending and ending not in FILES:
        raise UnknownPlaceError
    view, dated, released = await streams.read(visit, visit.path["name"], period)
    if ending:
        return answer_file(released, f"{view.name}-{dated}", ending)
    if dated == "all":
        return RedirectResponse(f"/streams/{quote(view.name, safe='')}", 303)
    number, answer = int(released.receipt), shown(released, visit.request.url.path, visit.query)
    receipt, entry = await visit.with_policy(lambda opened: opened.ledger.receipt(number, POLICY))
    return await _drawn(visit, view, answer=answer, period=dated, receipt=receipt, hash=entry.hash.hex())


async def _drawn(visit: Visit, view: StreamView, error: HushError | None = None, **values: Any) -> Response:
    future, releases = {"planned", "ended"}, view.releases or ()
    past = [release for release in releases if release.state not in future]
    ordered = [*reversed(past), *(release for release in releases if release.state in future)]
    nothing: dict[str, Any] = {"period": "", "answer": None, "receipt": None, "hash": "", "series": None}
    return await show(
        visit,
        "stream.html",
        error=error,
        data=view.data,
        stream=_stream(view),
        releases=ordered[:_MOST_ROWS],
        further=max(len(ordered) - _MOST_ROWS, 0),
        **nothing | values,
    )


# running totals


@ROUTES.page("POST /streams/{name}/change", ANALYST, "ask", refused=stream_page)
async def change(visit: Visit) -> Response:
    """Release the periods that are over, or stop running totals."""
    name, form = visit.path["name"], await visit.fields()
    last = form["through"].strip()
    through = last or None if number_of(last) is None else int(last)
    if form["act"] == "stop":
        await visit.with_curator(lambda curator: streams.own(curator, name).stop())
    else:
        await visit.at_work(
            form["request"] or None, lambda curator, _: streams.own(curator, name).advance_part(through)
        )
    return RedirectResponse(f"/streams/{quote(name, safe='')}", 303)


# declarations


async def _declaration(visit: Visit) -> dict[str, Any]:
    """Return the terms of a declaration in the form."""
    form = await visit.fields()
    given = {name: form[name].strip() for name in _FIELDS}
    readers, price = given["readers"], given["price"] if given["price"] in dict(_PRICES) else "epsilon"
    names = [name.strip() for name in readers.split(",") if name.strip()]
    return {name: given[name] for name in ("name", "question", "every", "first", "data")} | {
        price: given["amount"],
        "releases": whole(given["releases"], "releases"),
        "late": given["late"] != "skip",
        "readers": readers if readers in {"analysts", "public"} else names,
    }


@ROUTES.page("POST /streams/declared/explain", OWNER, refused=streams_page)
async def explain(visit: Visit) -> Response:
    """Show the price of a declared stream."""
    return await streams_page(visit, explained=await streams.explained(visit, await _declaration(visit)))


@ROUTES.page("POST /streams/declared", OWNER, refused=streams_page)
async def declare(visit: Visit) -> Response:
    """Declare a stream."""
    view = await streams.declared(visit, await _declaration(visit))
    return RedirectResponse(f"/streams/{view.name}", 303)


@ROUTES.page("POST /streams/declared/{name}/stop", OWNER, refused=stream_page)
async def stop(visit: Visit) -> Response:
    """Stop a declared stream."""
    view = await streams.found(visit, visit.path["name"])
    await streams.stopped(visit, view.name, (await visit.fields())["reason"].strip())
    return RedirectResponse(f"/streams/{view.name}", 303)
