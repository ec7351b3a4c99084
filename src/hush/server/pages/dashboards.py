"""Dashboards on the page: the list, one dashboard with its tiles, pinning, sharing, and refreshing for a price.

Looking never spends. ``GET /dashboards/ID?refresh=1`` shows the price of a refresh, ``POST …/refresh`` pays it once: a
request id in the form makes a second click bring the same answers for nothing. The form also names what was priced: if
the dashboard has changed since, nothing is charged, and the new price is shown.
"""

from __future__ import annotations

import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.format import figure, visible
from hush.ledger import RequestConflictError
from hush.server import dashboards, errors
from hush.server.api import number_in
from hush.server.auth.people import Person
from hush.server.dashboards import Dashboard, TileAnswer
from hush.server.pages.answers import shown
from hush.server.pages.layout import problem_of, show, text_of
from hush.server.pages.preview import odds
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service


async def list_page(request: Request, service: Service, who: Person) -> Response:
    """Show the dashboards that one may see, and a form to make one."""
    return await _list(request, service, who)


async def _list(
    request: Request, service: Service, who: Person, status: int = 200, error: HushError | None = None
) -> Response:
    seen = [_head(dashboard, who) for dashboard in await dashboards.listed(service, who)]
    names = [data_set["name"] for data_set in await service.data_sets(who)]
    problem = None if error is None else problem_of(error)
    return await show(request, service, who, "dashboards.html", status, dashboards=seen, known=names, problem=problem)


def _head(dashboard: Dashboard, who: Person) -> dict[str, Any]:
    return {
        "address": f"/dashboards/{dashboard.identity}",
        "identity": dashboard.identity,
        "title": visible(dashboard.title),
        "data": dashboard.data,
        "maker": dashboard.maker,
        "own": dashboard.maker == who.name,
        "tiles": len(dashboard.tiles),
        "readers": _readers(dashboard) if dashboard.maker == who.name else "you",
        "refreshed": bool(dashboard.refreshed),
        "paid": who.name in dashboard.paid,
    }


def _readers(dashboard: Dashboard) -> str:
    return dashboard.readers if isinstance(dashboard.readers, str) else ", ".join(dashboard.readers)


async def make(request: Request, service: Service, who: Person) -> Response:
    """Make a dashboard."""
    form = await request.form()
    try:
        dashboard = await dashboards.made(service, who, text_of(form, "title", 1000), text_of(form, "data", 200))
    except HushError as error:
        return await _list(request, service, who, errors.status(error), error)
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


async def pin(request: Request, service: Service, who: Person) -> Response:
    """Pin an answer to a dashboard, or to a new one about its data set."""
    form = await request.form()
    request.path_params["number"] = text_of(form, "receipt", 20)
    receipt, chosen = number_in(request), text_of(form, "dashboard", 64)
    if chosen:
        dashboard = await dashboards.owned(service, who, chosen)
    else:
        charged = await service.receipt(who, receipt)
        dashboard = await dashboards.made(service, who, f"Dashboard of {charged['data']}", charged["data"])
    await dashboards.pin(service, who, dashboard, receipt)
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


async def dashboard_page(request: Request, service: Service, who: Person) -> Response:
    """Show a dashboard; on request with the price of its refresh."""
    return await _dashboard(request, service, who)


async def _dashboard(
    request: Request, service: Service, who: Person, status: int = 200, error: HushError | None = None
) -> Response:
    dashboard = await dashboards.opened_by(service, who, request.path_params["identity"])
    tiles = await dashboards.answers(service, who, dashboard)
    price: dict[str, Any] | None = None
    if dashboard.tiles and ("refresh" in request.query_params or isinstance(error, RequestConflictError)):
        try:
            price = await _price(service, who, dashboard)
        except HushError as refusal:
            if error is None:
                error, status = refusal, errors.status(refusal)
    return await show(
        request,
        service,
        who,
        "dashboard.html",
        status,
        data=dashboard.data,
        dashboard=_head(dashboard, who),
        tiles=[_tile(tile) for tile in tiles],
        price=price,
        request_id=uuid.uuid4().hex,
        problem=None if error is None else problem_of(error),
    )


async def _price(service: Service, who: Person, dashboard: Dashboard) -> dict[str, Any]:
    price = await dashboards.explained(service, who, dashboard)
    epsilon = figure(price.epsilon, exact=True)
    return {
        "identity": price.identity,
        "epsilon": epsilon,
        "delta": figure(price.delta, exact=True) if price.delta else "",
        "apart": figure(dashboards.sum_of_parts(dashboard), exact=True),
        "distinct": price.questions,
        "outlook": "" if price.outlook is None else visible(str(price.outlook)),
        "fits": price.outlook is None or price.outlook.more > 0,
        "odds": odds(epsilon),
    }


def _tile(shown_tile: TileAnswer) -> dict[str, Any]:
    tile, answer = shown_tile.tile, shown_tile.answer
    names = [] if answer is None else [visible(column.name) for column in answer.columns]
    keys = 0 if answer is None else sum(not column.noisy for column in answer.columns)
    title = " and ".join(names[keys:]) + (f" by {' and '.join(names[:keys])}" if names[:keys] else "")
    return {
        "identity": tile.identity,
        "title": title or visible(tile.question.split("\n", 1)[0]),
        "question": visible(tile.question, lines=True),
        "epsilon": tile.epsilon if answer is None else figure(answer.price.epsilon, exact=True),
        "receipt": shown_tile.receipt,
        "date": shown_tile.when[:16].replace("T", " "),
        "answer": None if answer is None else shown(answer) | {"notes": [], "more_notes": []},
    }


async def change(request: Request, service: Service, who: Person) -> Response:
    """Unpin a tile, name the readers, or remove a dashboard."""
    form, identity = await request.form(), request.path_params["identity"]
    dashboard = await dashboards.owned(service, who, identity)
    try:
        match form.get("act"):
            case "remove":
                dashboards.DashboardStore(service.people.storage).remove(identity)
                return RedirectResponse("/dashboards", 303)
            case "unpin":
                dashboards.unpin(service, dashboard, text_of(form, "tile", 64))
            case "readers":
                text = text_of(form, "readers", 5000).strip()
                names = tuple(name.strip() for name in text.split(",") if name.strip())
                await dashboards.share_with(service, dashboard, "analysts" if text == "analysts" else names)
    except HushError as error:
        return await _dashboard(request, service, who, errors.status(error), error)
    return RedirectResponse(f"/dashboards/{identity}", 303)


async def refresh(request: Request, service: Service, who: Person) -> Response:
    """Refresh all tiles for one price."""
    return await _paid(request, service, who, await dashboards.owned(service, who, request.path_params["identity"]))


async def read(request: Request, service: Service, who: Person) -> Response:
    """Read the answers of somebody else's dashboard, at their price to one's own budget."""
    return await _paid(request, service, who, await dashboards.opened_by(service, who, request.path_params["identity"]))


async def _paid(request: Request, service: Service, who: Person, dashboard: Dashboard) -> Response:
    form = await request.form()
    name = text_of(form, "request", 200)
    pay = dashboards.refresh if dashboard.maker == who.name else dashboards.read
    try:
        if not name:
            raise InvalidValueError("request", got=name, allowed="the request id that the form shows with the price")
        await pay(service, who, dashboard, name, text_of(form, "priced", 64))
    except HushError as error:
        return await _dashboard(request, service, who, errors.status(error), error)
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


def table() -> list[Route]:
    """Return the routes of dashboards."""
    analyst = Permission.ANALYST
    return [
        page_route("GET", "/dashboards", list_page, analyst),
        page_route("POST", "/dashboards", make, analyst, "ask"),
        page_route("POST", "/dashboards/pin", pin, analyst, "ask"),
        page_route("GET", "/dashboards/{identity}", dashboard_page, analyst),
        page_route("POST", "/dashboards/{identity}", change, analyst, "ask"),
        page_route("POST", "/dashboards/{identity}/refresh", refresh, analyst, "ask"),
        page_route("POST", "/dashboards/{identity}/read", read, analyst, "ask"),
    ]
