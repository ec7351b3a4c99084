"""The Requests page: waiting requests for owners, with price and errors but no answer, and an analyst's own requests.

A question above the analyst's ``ask_first`` price becomes a request when it is asked (`hush.ledger.requests`); a larger
budget is asked for here, with the old total beside the new one. Both are decided here by owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import HushError
from hush.core.format import figure, visible
from hush.ledger import AccountView, Actor, ParkedQuestion, Role
from hush.server import dashboards, errors
from hush.server.api import number_in
from hush.server.auth.people import Person
from hush.server.errors import ForbiddenError, NoPolicyError
from hush.server.opened import OpenPolicy
from hush.server.pages.answers import kind_of
from hush.server.pages.layout import problem_of, show
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service

_SHOWN = 200
_EXPLAINED = 20
"""How many waiting questions are shown with their errors."""


async def requests_page(request: Request, service: Service, who: Person) -> Response:
    """Show the requests that wait for the owner, and one's own requests."""
    return await _requests(request, service, who)


async def _requests(
    request: Request, service: Service, who: Person, status: int = 200, *, error: HushError | None = None
) -> Response:
    template_values: dict[str, Any] = {"waiting": [], "decided": [], "mine": [], "budgets": []}
    with suppress(NoPolicyError):
        addresses = {seen.paid_as(who.name): seen.identity for seen in await dashboards.listed(service, who)}
        template_values = await service.with_policy(lambda opened: _look(opened, who, addresses))
    problem = None if error is None else problem_of(error)
    return await show(request, service, who, "requests.html", status, **template_values, problem=problem)


def _look(opened: OpenPolicy, who: Person, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return the template values of the Requests page: all requests for owners, their own for analysts."""
    waiting: list[dict[str, Any]] = []
    decided: list[dict[str, Any]] = []
    if who.owner and "own" in who.scopes:
        parked_questions = opened.requests(Actor.owner(who.name))
        views = opened.ledger.budget(Actor.owner(who.name)) if opened.made else []
        open_ones = [parked for parked in parked_questions if parked.state == "waiting"]
        waiting = [_shown(parked) | _before(opened, parked, views, index) for index, parked in enumerate(open_ones)]
        decided = [_shown(parked) for parked in parked_questions if parked.state != "waiting"][:_SHOWN]
    mine: list[dict[str, Any]] = []
    budgets: list[dict[str, str]] = []
    if Role.ANALYST in who.roles:
        analyst = Actor.analyst(who.name)
        mine = [_shown(parked, pages) for parked in opened.requests(analyst)][:_SHOWN]
        with suppress(ForbiddenError):
            views = opened.curator(who).budget() if opened.made else []
            budgets = [
                {"data": view.data, "epsilon": figure(view.epsilon, exact=True)}
                for view in views
                if view.analyst == who.name
            ]
    return {"waiting": waiting, "decided": decided, "mine": mine, "budgets": budgets}


def _shown(made: ParkedQuestion, pages: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    query = {"q": made.question, "data": made.data, "epsilon": _figure(made.epsilon)}
    address = f"/ask?{urlencode(query)}"
    if kind_of(made.question) == "dashboard":
        identity = pages.get(made.identity)
        address = "/dashboards" if identity is None else f"/dashboards/{identity}?refresh=1"
    return {
        "number": made.number,
        "when": made.when[:16].replace("T", " "),
        "analyst": visible(made.analyst),
        "data": visible(made.data),
        "question": visible(made.question, lines=True),
        "epsilon": _figure(made.epsilon) or "–",
        "wanted": _figure(made.wanted),
        "reason": visible(made.reason, lines=True),
        "state": made.state,
        "by": visible(made.by),
        "why": visible(made.why, lines=True),
        "address": address,
    }


def _figure(amount: str | None) -> str:
    return "" if amount is None else figure(Fraction(amount), exact=True)


def _before(opened: OpenPolicy, made: ParkedQuestion, views: list[AccountView], index: int) -> dict[str, Any]:
    """Return the figures for an owner's decision: the present budget, and the share and errors of a question."""
    account = next((view for view in views if (view.data, view.analyst) == (made.data, made.analyst)), None)
    figures: dict[str, Any] = {
        "held": "" if account is None else figure(account.epsilon, exact=True),
        "errors": [],
        "share": "",
    }
    if made.wanted is not None or index >= _EXPLAINED or made.analyst not in opened.policy.analysts:
        return figures
    asker = Person(name=made.analyst, roles=frozenset({Role.ANALYST}), scopes=frozenset())
    with suppress(HushError):  # a whole release has its price alone; and a policy may have changed meanwhile
        explained = opened.curator(asker).explain(made.question, epsilon=made.epsilon, data=made.data)
        figures["errors"] = [
            (visible(name), f"± {figure(Fraction(error), digits=3)}" if error is not None else "known with the answer")
            for name, error in explained.errors().items()
        ]
        outlook = explained.outlook
        figures["share"] = "" if outlook is None else visible(str(outlook))
    return figures


async def ask_for_budget(request: Request, service: Service, who: Person) -> Response:
    """Record a wish for a larger budget."""
    form = await request.form()
    epsilon, reason = str(form.get("epsilon", ""))[:60].strip(), str(form.get("reason", ""))[:2000].strip()
    try:
        await service.request_budget(who, epsilon=epsilon, reason=reason, data=str(form.get("data", ""))[:200])
    except HushError as error:
        return await _requests(request, service, who, errors.status(error), error=error)
    return RedirectResponse("/requests", 303)


async def decide(request: Request, service: Service, who: Person) -> Response:
    """Approve or decline a request."""
    form = await request.form()
    approve, reason = form.get("act") == "approve", str(form.get("reason", ""))[:2000].strip()
    try:
        await service.decide(who, number_in(request), approve=approve, reason=reason)
    except HushError as error:
        return await _requests(request, service, who, errors.status(error), error=error)
    return RedirectResponse("/requests", 303)


def table() -> list[Route]:
    """Return the routes of this page."""
    return [
        page_route("GET", "/requests", requests_page, Permission.SIGNED_IN),
        page_route("POST", "/requests", ask_for_budget, Permission.ANALYST, "ask"),
        page_route("POST", "/requests/{number}", decide, Permission.OWNER, "own"),
    ]
