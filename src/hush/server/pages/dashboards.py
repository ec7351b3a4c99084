"""Dashboards on the page: the list, one dashboard with its tiles, pinning, sharing, and refreshing for a price.

Looking never spends. ``GET /dashboards/ID?refresh=1`` shows the price of a refresh, ``POST …/refresh`` pays it once: a
request id in the form makes a second click bring the same answers for nothing. The form also names what was priced: if
the dashboard has changed since, nothing is charged, and the new price is shown.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

from starlette.responses import RedirectResponse, Response

from hush.accounting.events import event_from_json
from hush.core import HushError, InvalidValueError
from hush.core.format import figure
from hush.curator import together
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.ledger import Actor, Ledger, Release, RequestConflictError
from hush.server import dashboards
from hush.server.api import number_of
from hush.server.dashboards import Dashboard
from hush.server.errors import UnknownPlaceError
from hush.server.pages.answers import UNNOTED, shown
from hush.server.pages.ask import odds
from hush.server.pages.layout import minute, show
from hush.server.rate_limits import Rate
from hush.server.routes import ANALYST, Routes, Visit

ROUTES = Routes()


@ROUTES.page("GET /dashboards", ANALYST)
async def list_page(visit: Visit, error: HushError | None = None) -> Response:
    """Show the dashboards that one may see, and a form to make one."""
    return await show(visit, "dashboards.html", error=error, dashboards=await dashboards.listed(visit))


@ROUTES.page("POST /dashboards", ANALYST, "ask", refused=list_page)
async def make(visit: Visit) -> Response:
    """Make a dashboard."""
    form = await visit.fields()
    dashboard = await dashboards.made(visit, form["title"], form["data"])
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


@ROUTES.page("POST /dashboards/pin", ANALYST, "ask")
async def pin(visit: Visit) -> Response:
    """Pin an answer to a dashboard, or to a new one about its data set."""
    form = await visit.fields()
    if (receipt := number_of(form["receipt"])) is None:
        raise UnknownPlaceError
    if form["dashboard"]:
        dashboard = await dashboards.owned(visit, form["dashboard"])
    else:
        data = (await visit.receipt(receipt))["data"]
        dashboard = await dashboards.made(visit, f"Dashboard of {data}", data)
    await dashboards.pin(visit, dashboard, receipt)
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)


@ROUTES.page("GET /dashboards/{identity}", ANALYST)
async def dashboard_page(visit: Visit, error: HushError | None = None) -> Response:
    """Show a dashboard; on request with the price of its refresh."""
    dashboard = await dashboards.opened_by(visit, visit.path["identity"])
    tiles = await visit.with_policy(lambda opened: _tiles(opened.ledger, dashboard, visit.analyst))
    price: dict[str, Any] | None = None
    if dashboard.tiles and ("refresh" in visit.query or isinstance(error, RequestConflictError)):
        try:
            price = await visit.for_nothing(Rate.EXPLANATIONS, lambda curator: _price(curator, dashboard))
        except HushError as refusal:
            error = error or refusal
    values: dict[str, Any] = {"dashboard": dashboard, "tiles": tiles, "price": price}
    return await show(visit, "dashboard.html", error=error, data=dashboard.data, **values)


def _price(curator: Curator, dashboard: Dashboard) -> dict[str, Any]:
    """Return the price of a refresh; to a reader that of the answers of the last one.

    ``identity`` is the fingerprint of the priced plan or refresh: the payment names it, and for another one nothing is
    charged. ``distinct`` counts the questions that are asked: none to a reader.
    """
    if dashboard.maker == curator.analyst:
        plan = together.plan(curator.session, dashboard.terms())
        identity, distinct = plan.identity, len(plan.plans)
        epsilon, delta, outlook = plan.epsilon, plan.delta, plan.outlook
    else:
        paid = dashboards.last_refresh(curator, dashboard)
        events = [event_from_json(event) for event in paid.events]
        identity, distinct = dashboard.refreshed, 0
        epsilon, delta = Fraction(paid.epsilon or 0), Fraction(paid.price[0]["delta"])
        outlook = curator.session.accounts(dashboard.data, shared=True).outlook(events)
    apart = sum((Fraction(tile.epsilon) for tile in dashboard.tiles), Fraction(0))
    return {
        "identity": identity,
        "epsilon": figure(epsilon, exact=True),
        "delta": figure(delta, exact=True) if delta else "",
        "apart": figure(apart, exact=True),
        "distinct": distinct,
        "outlook": "" if outlook is None else str(outlook),
        "fits": outlook is None or outlook.more > 0,
        "odds": odds(figure(epsilon, exact=True)),
    }


def _tiles(ledger: Ledger, dashboard: Dashboard, actor: Actor) -> list[dict[str, Any]]:
    """Return the tiles, each with the answer that somebody has paid for: none to a reader who has not yet."""
    receipt = dashboard.paid.get(actor.name)
    refreshed = () if receipt is None else together.unpacked(ledger.stored_answer(receipt, actor))
    tiles = []
    for tile in dashboard.tiles:
        drawn = asdict(tile) | {"title": tile.question.split("\n", 1)[0], "answer": None}
        if tile.index is not None and receipt is not None:
            drawn |= _answered(refreshed[tile.index], ledger.receipt(receipt, actor)[0])
        elif dashboard.maker == actor.name:
            drawn |= _answered(Answer.shown(ledger, tile.receipt, actor), ledger.receipt(tile.receipt, actor)[0])
        tiles.append(drawn)
    return tiles


def _answered(answer: Answer, charge: Release) -> dict[str, Any]:
    outputs, keys = ([column.name for column in answer.columns if column.noisy is noisy] for noisy in (True, False))
    return {
        "title": " and ".join(outputs) + (f" by {' and '.join(keys)}" if keys else ""),
        "epsilon": figure(answer.price.epsilon, exact=True),
        "receipt": charge.number,
        "date": minute(charge.when),
        "answer": {**shown(answer), **UNNOTED},
    }


@ROUTES.page("POST /dashboards/{identity}", ANALYST, "ask", refused=dashboard_page)
async def change(visit: Visit) -> Response:
    """Unpin a tile, name the readers, or remove a dashboard."""
    identity = visit.path["identity"]
    dashboard, form = await dashboards.owned(visit, identity), await visit.fields()
    match form["act"]:
        case "remove":
            dashboards.store(visit).remove(identity)
            return RedirectResponse("/dashboards", 303)
        case "unpin":
            dashboards.store(visit).change(
                identity,
                lambda current: replace(
                    current, tiles=tuple(tile for tile in current.tiles if tile.identity != form["tile"])
                ),
            )
        case "readers":
            names = tuple(name.strip() for name in form["readers"].split(",") if name.strip())
            await dashboards.share_with(visit, dashboard, "analysts" if names == ("analysts",) else names)
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
    form = await visit.fields()
    if not form["request"]:
        raise InvalidValueError("request", got="", allowed="the request id that the form shows with the price")
    pay = dashboards.refresh if dashboard.maker == visit.name else dashboards.read
    await pay(visit, dashboard, form["request"], form["priced"])
    return RedirectResponse(f"/dashboards/{dashboard.identity}", 303)
