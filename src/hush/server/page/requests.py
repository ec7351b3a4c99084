"""Requests: what waits for the owner, with price and errors and never an answer; and what an analyst asked for.

A dear question becomes a request when it is asked (`hush.ledger.requests`); a larger budget is asked for here, with the
old total beside the new one. Both are decided here by owners.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import HushError
from hush.core.format import figure, visible
from hush.ledger import AccountView, Actor, ParkedQuestion, Role
from hush.server import problems
from hush.server.api import number_in
from hush.server.errors import ForbiddenError, NoPolicyError
from hush.server.opened import OpenPolicy
from hush.server.page.frame import problem_of, show
from hush.server.people import Person
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

_SHOWN = 200
_EXPLAINED = 20
"""Of so many waiting questions the errors are told, too."""


async def requests_page(request: Request, service: Service, who: Person) -> Response:
    """Show what waits for the owner, and one's own requests."""
    return await _requests(request, service, who)


async def _requests(
    request: Request, service: Service, who: Person, status: int = 200, *, error: HushError | None = None
) -> Response:
    found: dict[str, Any] = {"waiting": [], "decided": [], "mine": [], "budgets": []}
    with suppress(NoPolicyError):
        found = await service.with_policy(lambda opened: _look(opened, who))
    problem = None if error is None else problem_of(error)
    return await show(request, service, who, "requests.html", status, **found, problem=problem)


def _look(opened: OpenPolicy, who: Person) -> dict[str, Any]:
    """Return what somebody may see: owners everything, analysts what they asked for themselves."""
    waiting: list[dict[str, Any]] = []
    decided: list[dict[str, Any]] = []
    if who.owner and "own" in who.scopes:
        listed = opened.requests(Actor.owner(who.name))
        views = opened.ledger.budget(Actor.owner(who.name)) if opened.made else []
        open_ones = [made for made in listed if made.state == "waiting"]
        waiting = [_shown(made) | _before(opened, made, views, index) for index, made in enumerate(open_ones)]
        decided = [_shown(made) for made in listed if made.state != "waiting"][:_SHOWN]
    mine: list[dict[str, Any]] = []
    budgets: list[dict[str, str]] = []
    if Role.ANALYST in who.roles:
        own = Actor.analyst(who.name)
        mine = [_shown(made) for made in opened.requests(own)][:_SHOWN]
        with suppress(ForbiddenError):
            views = opened.curator(who).budget() if opened.made else []
            budgets = [
                {"data": view.data, "epsilon": figure(view.epsilon, exact=True)}
                for view in views
                if view.analyst == who.name
            ]
    return {"waiting": waiting, "decided": decided, "mine": mine, "budgets": budgets}


def _shown(made: ParkedQuestion) -> dict[str, Any]:
    query = {"q": made.question, "data": made.data, "epsilon": _figure(made.epsilon)}
    return {
        "number": made.number,
        "when": made.when[:16].replace("T", " "),
        "analyst": visible(made.analyst),
        "data": visible(made.data),
        "question": visible(made.question, lines=True),
        "epsilon": _figure(made.epsilon) or "–",
        "wanted": _figure(made.wanted),
        "reason": visible(made.reason),
        "state": made.state,
        "by": visible(made.by),
        "why": visible(made.why),
        "address": f"/ask?{urlencode(query)}",
    }


def _figure(amount: str | None) -> str:
    return "" if amount is None else figure(Fraction(amount), exact=True)


def _before(opened: OpenPolicy, made: ParkedQuestion, views: list[AccountView], index: int) -> dict[str, Any]:
    """Return what an owner should know before deciding: old and new total, or the question's share and its errors."""
    held = next((view for view in views if (view.data, view.analyst) == (made.data, made.analyst)), None)
    told: dict[str, Any] = {"held": "" if held is None else figure(held.epsilon, exact=True), "errors": [], "share": ""}
    if made.wanted is not None or index >= _EXPLAINED or made.analyst not in opened.policy.analysts:
        return told
    asker = Person(name=made.analyst, roles=frozenset({Role.ANALYST}), scopes=frozenset())
    with suppress(HushError):  # a whole release has its price alone; and a policy may have changed meanwhile
        explained = opened.curator(asker).explain(made.question, epsilon=made.epsilon, data=made.data)
        told["errors"] = [
            (visible(name), f"± {figure(Fraction(error), digits=3)}" if error is not None else "known with the answer")
            for name, error in explained.errors().items()
        ]
        outlook = explained.outlook
        told["share"] = "" if outlook is None else visible(str(outlook))
    return told


async def ask_for_budget(request: Request, service: Service, who: Person) -> Response:
    """Record a wish for a larger budget."""
    form = await request.form()
    epsilon, reason = str(form.get("epsilon", ""))[:60].strip(), str(form.get("reason", ""))[:2000].strip()
    try:
        await service.request_budget(who, epsilon=epsilon, reason=reason, data=str(form.get("data", ""))[:200])
    except HushError as error:
        return await _requests(request, service, who, problems.status(error), error=error)
    return RedirectResponse("/requests", 303)


async def decide(request: Request, service: Service, who: Person) -> Response:
    """Approve or decline a request."""
    form = await request.form()
    approve, reason = form.get("act") == "approve", str(form.get("reason", ""))[:2000].strip()
    try:
        await service.decide(who, number_in(request), approve=approve, reason=reason)
    except HushError as error:
        return await _requests(request, service, who, problems.status(error), error=error)
    return RedirectResponse("/requests", 303)


def table() -> list[Reached]:
    """Return this page's part of the table of routes."""
    places: list[tuple[str, str, Any, Visitor, str]] = [
        ("GET", "/requests", requests_page, Visitor.SIGNED_IN, "read"),
        ("POST", "/requests", ask_for_budget, Visitor.ANALYST, "ask"),
        ("POST", "/requests/{number}", decide, Visitor.OWNER, "own"),
    ]
    return [
        Reached(method=method, path=path, handler=handler, visitor=visitor, scope=scope, page=True)
        for method, path, handler, visitor, scope in places
    ]
