"""Dashboards on the page: the list, one dashboard with its tiles, pinning, sharing, and refreshing for a price.

Looking never spends. ``GET /dashboards/ID?refresh=1`` shows the price of a refresh, ``POST …/refresh`` pays it once: a
request id in the form makes a second click bring the same answers for nothing. The form also names what was priced: if
the dashboard has changed since, nothing is charged, and the new price is shown.
"""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import Any

from starlette.responses import RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.format import figure, visible
from hush.ledger import RequestConflictError
from hush.server import dashboards
from hush.server.api import number_in
from hush.server.dashboards import Dashboard, TileAnswer
from hush.server.pages.answers import shown
from hush.server.pages.ask import odds
from hush.server.pages.layout import minute, show
from hush.server.routes import ANALYST, Routes, Visit

ROUTES = Routes()


@ROUTES.page("GET /dashboards", ANALYST)
async def list_page(visit: Visit, error: HushError | None = None) -> Response:
    """Show the dashboards that one may see, and a form to make one."""
    seen, data_sets = await dashboards.listed(visit), await visit.data_sets()
    return await show(
        visit, "dashboards.html", error=error, dashboards=seen, known=[data["name"] for data in data_sets]
    )


@ROUTES.page("POST /dashboards", ANALYST, "ask", refused=list_page)
async def make(visit: Visit) -> Response:
    """Make a dashboard."""
    dashboard = await dashboards.made(visit, await visit.field("title", 1000), await visit.field("data"))
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


@ROUTES.page("POST /dashboards/pin", ANALYST, "ask")
async def pin(visit: Visit) -> Response:
    """Pin an answer to a dashboard, or to a new one about its data set."""
    visit.path["number"] = await visit.field("receipt", 20)
    receipt, chosen = number_in(visit), await visit.field("dashboard", 64)
    if chosen:
        dashboard = await dashboards.owned(visit, chosen)
    else:
        data = (await visit.receipt(receipt))["data"]
        dashboard = await dashboards.made(visit, f"Dashboard of {data}", data)
    await dashboards.pin(visit, dashboard, receipt)
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


@ROUTES.page("GET /dashboards/{identity}", ANALYST)
async def dashboard_page(visit: Visit, error: HushError | None = None) -> Response:
    """Show a dashboard; on request with the price of its refresh."""
    dashboard = await dashboards.opened_by(visit, visit.path["identity"])
    tiles = await dashboards.answers(visit, dashboard)
    price: dict[str, Any] | None = None
    if dashboard.tiles and ("refresh" in visit.query or isinstance(error, RequestConflictError)):
        try:
            told = await dashboards.explained(visit, dashboard)
        except HushError as refusal:
            error = error or refusal
        else:
            apart = sum((Fraction(tile.epsilon) for tile in dashboard.tiles), Fraction(0))
            price = {
                "identity": told.identity,
                "epsilon": figure(told.epsilon, exact=True),
                "delta": figure(told.delta, exact=True) if told.delta else "",
                "apart": figure(apart, exact=True),
                "distinct": told.questions,
                "outlook": "" if told.outlook is None else visible(str(told.outlook)),
                "fits": told.outlook is None or told.outlook.more > 0,
                "odds": odds(figure(told.epsilon, exact=True)),
            }
    return await show(
        visit,
        "dashboard.html",
        error=error,
        data=dashboard.data,
        dashboard=dashboard,
        tiles=[_tile(tile) for tile in tiles],
        price=price,
        request_id=uuid.uuid4().hex,
    )


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
        "date": minute(shown_tile.when),
        "answer": None if answer is None else shown(answer) | {"notes": [], "more_notes": []},
    }


@ROUTES.page("POST /dashboards/{identity}", ANALYST, "ask", refused=dashboard_page)
async def change(visit: Visit) -> Response:
    """Unpin a tile, name the readers, or remove a dashboard."""
    identity = visit.path["identity"]
    dashboard = await dashboards.owned(visit, identity)
    match await visit.field("act"):
        case "remove":
            dashboards.DashboardStore(visit.people.storage).remove(identity)
            return RedirectResponse("/dashboards", 303)
        case "unpin":
            dashboards.unpin(visit, dashboard, await visit.field("tile", 64))
        case "readers":
            text = await visit.field("readers", 5000)
            names = tuple(name.strip() for name in text.split(",") if name.strip())
            await dashboards.share_with(visit, dashboard, "analysts" if text == "analysts" else names)
    return RedirectResponse(f"/dashboards/{identity}", 303)


@ROUTES.page("POST /dashboards/{identity}/refresh", ANALYST, "ask", refused=dashboard_page)
async def refresh(visit: Visit) -> Response:
    """Refresh all tiles for one price."""
    return await _paid(visit, await dashboards.owned(visit, visit.path["identity"]))


@ROUTES.page("POST /dashboards/{identity}/read", ANALYST, "ask", refused=dashboard_page)
async def read(visit: Visit) -> Response:
    """Read the answers of somebody else's dashboard, at their price to one's own budget."""
    return await _paid(visit, await dashboards.opened_by(visit, visit.path["identity"]))


async def _paid(visit: Visit, dashboard: Dashboard) -> Response:
    name = await visit.field("request")
    if not name:
        raise InvalidValueError("request", got=name, allowed="the request id that the form shows with the price")
    pay = dashboards.refresh if dashboard.maker == visit.name else dashboards.read
    await pay(visit, dashboard, name, await visit.field("priced", 64))
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)
