"""One's own account: password, tokens for programs, browsers that are signed in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hush.core import HushError
from hush.server.errors import ForbiddenError
from hush.server.page.frame import problem_of, show
from hush.server.people import SCOPES, Person
from hush.server.questions import check_rate
from hush.server.routes import Reached, Visitor
from hush.server.service import Service
from hush.server.traffic import Rate


async def account_page(request: Request, service: Service, who: Person) -> Response:
    """Show one's account."""
    return await _account(request, service, who)


async def _account(request: Request, service: Service, who: Person, status: int = 200, **values: Any) -> Response:
    given: dict[str, Any] = {
        "tokens": [
            {"id": token.id, "label": token.label, "scopes": ", ".join(token.scopes), "expires": _day(token.expires)}
            for token in service.people.tokens(who.name)
        ],
        "sessions": [
            {"id": session.id, "since": _day(session.created), "this": session.id == who.session}
            for session in service.people.sessions(who.name)
        ],
        "secret": "",
        "problem": None,
        "good": "",
    }
    return await show(request, service, who, "account.html", status, **{**given, **values})


async def change_account(request: Request, service: Service, who: Person) -> Response:
    """Make or end a token, end a session, or set the password."""
    form = await request.form()
    act, name = str(form.get("act", "")), str(form.get("id", ""))
    try:
        match act:
            case "token":
                check_rate(service.traffic, Rate.TOKENS, who.name)
                scopes = [scope for scope in SCOPES[:2] if scope in who.scopes]
                label = str(form.get("label", ""))[:200]
                _, secret = service.people.make_token(who.name, label=label, scopes=scopes, until=who.expires)
                return await _account(request, service, who, secret=secret)
            case "revoke":
                service.people.revoke_token(who.name, name)
            case "end":
                service.people.end_session(who.name, name)
            case "password":
                check_rate(service.traffic, Rate.PASSWORDS, who.name)
                if not await asyncio.to_thread(service.people.may_change, who, str(form.get("old", ""))):
                    raise ForbiddenError("The old password is not right.")
                await asyncio.to_thread(service.people.set_password, who.name, str(form.get("new", "")))
                return await _account(request, service, who, good="The password is set. Sign in with it from now on.")
    except HushError as error:
        return await _account(request, service, who, 422, problem=problem_of(error))
    return await _account(request, service, who)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def table() -> list[Reached]:
    """Return this page's part of the table of routes."""
    places: list[tuple[str, Any]] = [("GET", account_page), ("POST", change_account)]
    return [
        Reached(method=method, path="/account", handler=handler, visitor=Visitor.SIGNED_IN, page=True)
        for method, handler in places
    ]
