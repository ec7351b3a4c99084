"""The pages Budget, History, Receipt and Requests: spent and remaining budget, and what waits for the owner.

A question above the analyst's ``ask_first`` price becomes a request when it is asked (`hush.ledger.requests`); a larger
budget is asked for here, with the old total beside the new one. Owners decide both here: they see price and errors of
what waits, but no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core import HushError, exact
from hush.core.format import figure, percent, visible
from hush.curator.curator import Curator
from hush.curator.explanation import figures
from hush.ledger import AccountView, Actor, ParkedQuestion, Role
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn
from hush.server import dashboards
from hush.server.api import attached, number_in
from hush.server.auth.people import Person
from hush.server.errors import ForbiddenError, NoPolicyError
from hush.server.pages.answers import kind_of
from hush.server.pages.layout import account_view, amount, minute, show
from hush.server.routes import ANALYST, OWNER, SIGNED_IN, Routes, Visit
from hush.server.service import OpenPolicy

ROUTES = Routes()
_COUNTS = ((10, "0.95"), (50, "0.95"), (200, "0.95"))
_MOST = 1000
_COLUMNS = ("number", "when", "data", "question", "epsilon", "share", "of", "outcome")
_SHOWN = 200
_EXPLAINED = 20
"""How many waiting questions are shown with their errors."""


@ROUTES.page("GET /budget", ANALYST)
async def budget_page(visit: Visit) -> Response:
    """Show the remaining budgets, the largest charges, and how many further counts fit."""

    def look(curator: Curator) -> list[dict[str, Any]]:
        return [
            account_view(view)
            | {
                "own": view.analyst == visit.name,
                "counts": [(width, view.counts(error=width, confidence=sure)) for width, sure in _COUNTS],
            }
            for view in curator.budget()
        ]

    accounts = await visit.with_curator(look)
    charges = [_charge(charge) for charge in await visit.history(_MOST)]
    dearest = sorted(charges, key=lambda charge: -charge["part"])[:10]
    return await show(visit, "budget.html", accounts=accounts, dearest=dearest)


@ROUTES.page("GET /budgets", OWNER)
async def budgets_page(visit: Visit) -> Response:
    """Show the budgets of all data sets and of all analysts on them, to an owner."""

    def look(opened: OpenPolicy) -> list[dict[str, Any]]:
        return list(map(account_view, opened.ledger.budget(Actor.owner(visit.name)) if opened.made else []))

    try:
        return await show(visit, "budgets.html", budgets=await visit.with_policy(look))
    except HushError as error:
        return await show(visit, "budgets.html", 200, error=error, budgets=[])


@ROUTES.page("GET /history", ANALYST)
@ROUTES.page("GET /history.{ending}", ANALYST)
async def history_page(visit: Visit) -> Response:
    """Show the history of questions, newest first, as a page, JSON or CSV."""
    charges = await visit.history(_MOST)
    ending = visit.path.get("ending", "")
    if ending == "json":
        return JSONResponse({"releases": charges})
    rows = [_charge(charge) for charge in charges]
    return csv_file(rows, _COLUMNS, "history") if ending == "csv" else await show(visit, "history.html", releases=rows)


def csv_file(rows: Sequence[Mapping[str, Any]], names: Sequence[str], file: str) -> Response:
    """Return fields of rows as a CSV file of texts."""
    texts = {
        name: tuple("" if row[name] is None else visible(str(row[name]), lines=True) for row in rows) for name in names
    }
    columns = [AnswerColumn(name=name, kind=Kind.TEXT, values=values) for name, values in texts.items()]
    return attached(Response(files.to_csv(columns), media_type="text/csv"), f"{file}.csv")


@ROUTES.page("GET /receipts/{number}", ANALYST)
async def receipt_page(visit: Visit) -> Response:
    """Show one charge: its question, its events, its price in each account, and its place in the ledger."""
    release = _charge(await visit.receipt(number_in(visit)))
    return await show(visit, "receipt.html", data=release["data"], release=release)


def _charge(charge: dict[str, Any]) -> dict[str, Any]:
    """Return a charge as pages show it."""
    share = charge["shares"].get(charge["of"], {})
    return charge | {
        "when": minute(charge["when"]),
        "epsilon": amount(charge["epsilon"]),
        "share": percent(share["took"], taken=True) if share else "nothing",
        "of": charge["of"] + (f" of ε {figure(exact(share['epsilon'], 'epsilon'))}" if share else ""),
        "left": percent(share["left"]) if share else "",
        "part": share.get("took", 0.0),
        "kind": kind_of(charge["question"]),
        "reason": charge["reason"] or "",
    }


# requests


@ROUTES.page("GET /requests", SIGNED_IN)
async def requests_page(visit: Visit, error: HushError | None = None) -> Response:
    """Show the requests that wait for the owner, and one's own requests."""
    values: dict[str, Any] = {"waiting": [], "decided": [], "mine": [], "budgets": []}
    with suppress(NoPolicyError):
        addresses = {seen.paid_as(visit.name): seen.identity for seen in await dashboards.listed(visit)}
        values |= await visit.with_policy(lambda opened: _look(opened, visit.who, addresses))
    return await show(visit, "requests.html", error=error, **values)


def _look(opened: OpenPolicy, who: Person, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return the template values of the Requests page: all requests for owners, their own for analysts."""
    values: dict[str, Any] = {}
    if who.owns:
        owner = Actor.owner(who.name)
        parked, views = opened.requests(owner), opened.ledger.budget(owner) if opened.made else []
        waiting = [request for request in parked if request.state == "waiting"]
        values["waiting"] = [
            _shown(request) | _before(opened, request, views, explain=index < _EXPLAINED)
            for index, request in enumerate(waiting)
        ]
        values["decided"] = [_shown(request) for request in parked if request.state != "waiting"][:_SHOWN]
    if Role.ANALYST in who.roles:
        values["mine"] = [_shown(request, pages) for request in opened.requests(Actor.analyst(who.name))][:_SHOWN]
        with suppress(ForbiddenError):
            values["budgets"] = [
                {"data": view.data, "epsilon": figure(view.epsilon, exact=True)}
                for view in (opened.curator(who).budget() if opened.made else [])
                if view.analyst == who.name
            ]
    return values


def _shown(request: ParkedQuestion, pages: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    epsilon, wanted = (
        "" if epsilon is None else figure(Fraction(epsilon), exact=True)
        for epsilon in (request.epsilon, request.wanted)
    )
    query = {"q": request.question, "data": request.data, "epsilon": epsilon}
    address = f"/ask?{urlencode(query)}"
    if kind_of(request.question) == "dashboard":
        identity = pages.get(request.identity)
        address = "/dashboards" if identity is None else f"/dashboards/{identity}?refresh=1"
    amounts = {"epsilon": epsilon or "–", "wanted": wanted}
    return {**asdict(request), **amounts, "when": minute(request.when), "address": address}


def _before(opened: OpenPolicy, request: ParkedQuestion, views: list[AccountView], *, explain: bool) -> dict[str, Any]:
    """Return the figures for an owner's decision: the present budget, and the share and errors of a question."""
    account = next((view for view in views if (view.data, view.analyst) == (request.data, request.analyst)), None)
    shown: dict[str, Any] = {"held": "" if account is None else figure(account.epsilon, exact=True)}
    shown |= {"errors": [], "share": ""}
    if request.wanted is None and explain and request.analyst in opened.policy.analysts:
        asker = Person(name=request.analyst, roles=frozenset({Role.ANALYST}), scopes=frozenset())
        with suppress(HushError):  # a whole release has its price alone; and a policy may have changed meanwhile
            explained = opened.curator(asker).explain(request.question, epsilon=request.epsilon, data=request.data)
            words = dict.fromkeys(explained.errors(), "known with the answer") | figures(explained)
            shown["errors"] = words.items()
            shown["share"] = "" if explained.outlook is None else str(explained.outlook)
    return shown


@ROUTES.page("POST /requests", ANALYST, "ask", refused=requests_page)
async def ask_for_budget(visit: Visit) -> Response:
    """Record a wish for a larger budget."""
    form = await visit.fields()
    await visit.request_budget(epsilon=form["epsilon"].strip(), reason=form["reason"].strip(), data=form["data"])
    return RedirectResponse("/requests", 303)


@ROUTES.page("POST /requests/{number}", OWNER, refused=requests_page)
async def decide(visit: Visit) -> Response:
    """Approve or decline a request."""
    form = await visit.fields()
    await visit.decide(number_in(visit), approve=form["act"] == "approve", reason=form["reason"].strip())
    return RedirectResponse("/requests", 303)
