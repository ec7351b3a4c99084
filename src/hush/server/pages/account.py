"""One's own account: password, tokens for programs, browsers that are signed in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hush.core import HushError
from hush.server.auth.people import SCOPES, Person
from hush.server.auth.sessions import client_address
from hush.server.errors import ForbiddenError
from hush.server.pages.layout import problem_of, show
from hush.server.rate_limits import Rate
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service


async def account_page(request: Request, service: Service, who: Person) -> Response:
    """Show one's account."""
    return await _account(request, service, who)


async def _account(request: Request, service: Service, who: Person, status: int = 200, **values: Any) -> Response:
    defaults: dict[str, Any] = {
        "tokens": [
            {"id": token.id, "label": token.label, "scopes": ", ".join(token.scopes), "expires": _day(token.expires)}
            for token in service.people.tokens(who.name)
        ],
        "sessions": [
            {"id": session.id, "since": _day(session.created), "this": session.id == who.session}
            for session in service.people.sessions(who.name)
        ],
        "has_factor": service.people.has_factor(who.name),
        "factor": None,
        "recovery": "",
        "secret": "",
        "problem": None,
        "good": "",
    }
    return await show(request, service, who, "account.html", status, **{**defaults, **values})


async def change_account(request: Request, service: Service, who: Person) -> Response:
    """Make or end a token, end a session, or set the password or the second factor."""
    form = await request.form()
    act, name = str(form.get("act", "")), str(form.get("id", ""))
    try:
        match act:
            case "token":
                service.rates.check(Rate.TOKENS, who.name)
                scopes = [scope for scope in SCOPES[:2] if scope in who.scopes]
                label = str(form.get("label", ""))[:200]
                _, secret = service.people.make_token(who.name, label=label, scopes=scopes, until=who.expires)
                return await _account(request, service, who, secret=secret)
            case "revoke":
                service.revoke_token(who, name)
            case "end":
                service.end_session(who, name)
            case "password":
                await _check_password(request, service, who, "The old password is not right.")
                await asyncio.to_thread(service.people.set_password, who.name, str(form.get("new", "")))
                return await _account(request, service, who, good="The password is set. Sign in with it from now on.")
            case "factor" | "factor-on" | "factor-off" if not who.session or who.token:
                raise ForbiddenError("A second factor is set up in a browser, by who signed in without a token.")
            case "factor":
                await _check_password(request, service, who, "The password is not right.")
                return await _account(request, service, who, factor=service.people.begin_factor(who.name))
            case "factor-on":
                service.rates.check(Rate.CODES, who.name)
                codes = service.people.confirm_factor(who.name, str(form.get("code", ""))[:100])
                return await _account(request, service, who, recovery=", ".join(codes))
            case "factor-off":
                service.rates.check(Rate.CODES, who.name)
                if not service.people.use_code(who.name, str(form.get("code", ""))[:100]):
                    service.failures.note(who.name, client_address(request), "code")
                    raise ForbiddenError("The code is not right.")
                service.people.drop_factor(who.name)
    except HushError as error:
        return await _account(request, service, who, 422, problem=problem_of(error))
    return await _account(request, service, who)


async def _check_password(request: Request, service: Service, who: Person, refusal: str) -> None:
    """Refuse a change by somebody who does not know the password, and count it among the failed sign-ins."""
    service.rates.check(Rate.PASSWORDS, who.name)
    old = str((await request.form()).get("old", ""))
    if not await asyncio.to_thread(service.people.may_change, who, old):
        service.failures.note(who.name, client_address(request), "password")
        raise ForbiddenError(refusal)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def table() -> list[Route]:
    """Return the routes of this page."""
    signed_in = Permission.SIGNED_IN
    return [
        page_route("GET", "/account", account_page, signed_in),
        page_route("POST", "/account", change_account, signed_in),
    ]
