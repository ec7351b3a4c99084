"""Signing in by password, at an OpenID provider or by a link; and one's account: password, tokens, browsers."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

from starlette.responses import RedirectResponse, Response

from hush.core import HushError
from hush.server.api import check_password
from hush.server.auth import sessions
from hush.server.auth.oidc import CALLBACK
from hush.server.auth.people import SCOPES, Person
from hush.server.errors import ForbiddenError, SignInError, TooManyError, UnknownPlaceError
from hush.server.pages.layout import show
from hush.server.rate_limits import Rate
from hush.server.routes import ANYBODY, SIGNED_IN, Routes, Visit

ROUTES = Routes()


@ROUTES.page("GET /sign-in", ANYBODY)
async def sign_in_page(visit: Visit, message: str = "") -> Response:
    """Show the form, with the reason of a failure."""
    oidc = visit.service.oidc is not None
    return await show(visit, "sign_in.html", 401 if message else 200, places=False, message=message, oidc=oidc)


@ROUTES.page("POST /sign-in", ANYBODY)
async def sign_in(visit: Visit) -> Response:
    """Sign somebody in by name, password and code; all failures look alike and take alike."""
    form = await visit.fields()
    name, password, code = form["name"][:200], form["password"], form["code"]
    mark, browser_mark = visit.people.familiar(name), sessions.BROWSER_MARK.read(visit.request, visit.settings)
    if mark and hmac.compare_digest(browser_mark.encode(), mark.encode()):
        # Nobody's guesses keep out a browser in which that name has signed in before: it has attempts of its own.
        _count_attempt(visit, Rate.SIGN_INS_OF_A_NAME_FROM_AN_ADDRESS, f"{name} {mark}", name)
    else:
        _count_attempt(visit, Rate.SIGN_INS_OF_AN_ADDRESS, visit.address, name)
        _count_attempt(visit, Rate.SIGN_INS_OF_A_NAME_FROM_AN_ADDRESS, f"{visit.address} {name}", name)
        _count_attempt(visit, Rate.SIGN_INS_OF_A_NAME, name, name)
    person = await asyncio.to_thread(visit.people.check_password, name, password)
    if person is None or not _right_code(visit, person, code):
        visit.note_failure("password" if person is None else "code", name)
        return await sign_in_page(visit, "Name, password or code are not right.")
    return sessions.BROWSER_MARK.set(_begin(visit, person), visit.people.familiar(name), visit.settings)


def _count_attempt(visit: Visit, rate: Rate, key: str, name: str = "") -> None:
    """Count an attempt to sign in; one that is refused, because it comes too soon, is a failed one."""
    try:
        visit.service.rates.check(rate, key)
    except TooManyError:
        visit.note_failure("too many", name)
        raise


def _right_code(visit: Visit, who: Person, code: str) -> bool:
    """Return whether somebody shows a code of their second factor, where they have one; use it up.

    Only who knows the password gets here, so nobody else can use up the attempts. Too many look like a wrong code:
    otherwise they would tell that the password is right.
    """
    if not visit.people.has_factor(who.name):
        return True
    try:
        visit.service.rates.check(Rate.CODES, who.name)
    except TooManyError:
        return False
    return visit.people.use_code(who.name, code)


@ROUTES.page("GET /sign-in/oidc", ANYBODY)
async def sign_in_elsewhere(visit: Visit, link: str = "") -> Response:
    """Send a browser to the OpenID provider."""
    if visit.service.oidc is None:
        raise UnknownPlaceError
    _count_attempt(visit, Rate.SIGN_INS_OF_AN_ADDRESS, visit.address)
    provider_url, browser = await asyncio.to_thread(visit.service.oidc.begin, visit.service.shared, link)
    if link:  # a form must not lead to another site, so says the content security policy: people click once more
        response = await show(visit, "welcome.html", places=False, message="", oidc=True, place=provider_url)
    else:
        response = RedirectResponse(provider_url, 303)
    return sessions.FLOW.set(response, browser, visit.settings)


@ROUTES.page(f"GET {CALLBACK}", ANYBODY)
async def back_from_elsewhere(visit: Visit) -> Response:
    """Sign somebody in who comes back from the OpenID provider; they always arrive at the first page."""
    provider = visit.service.oidc
    if provider is None:
        raise UnknownPlaceError
    _count_attempt(visit, Rate.SIGN_INS_OF_AN_ADDRESS, visit.address)
    query, browser = dict(visit.query), sessions.FLOW.read(visit.request, visit.settings)
    try:
        person = await asyncio.to_thread(provider.sign_in, visit.service.shared, visit.people, query, browser)
    except SignInError as error:
        visit.note_failure("oidc", "")
        response = await sign_in_page(visit, str(error))
    else:
        response = _begin(visit, person)
    return sessions.FLOW.set(response, "", visit.settings)


@ROUTES.page("GET /welcome/{secret}", ANYBODY)
async def welcome_page(visit: Visit) -> Response:
    """Show a button: opening a link must not use it up, as programs that look ahead open links."""
    return await show(visit, "welcome.html", places=False, message="", oidc=visit.service.oidc is not None, place="")


@ROUTES.page("POST /welcome/{secret}", ANYBODY)
async def welcome(visit: Visit) -> Response:
    """Sign somebody in by a one-time link, or have it bind the account that they have at the OpenID provider."""
    secret = visit.path["secret"]
    _count_attempt(visit, Rate.WELCOMES, visit.address)
    if (await visit.fields())["with"] == "oidc":
        return await sign_in_elsewhere(visit, secret)
    person = visit.people.use_link(secret)
    if person is None:
        visit.note_failure("link", "")
        message = "This link was used before, or is too old. Ask the owner for another one."
        return await show(visit, "welcome.html", 401, places=False, message=message, oidc=False, place="")
    return _begin(visit, person)


def _begin(visit: Visit, person: Person) -> Response:
    if visit.who.session:  # the person who was signed in in this browser before
        visit.people.end_session(visit.name, visit.who.session)
    secret = visit.people.begin_session(person.name, maker=person.token)
    return sessions.SESSION.set(RedirectResponse("/", 303), secret, visit.settings)


@ROUTES.page("POST /sign-out", SIGNED_IN)
async def sign_out(visit: Visit) -> Response:
    """End the session."""
    visit.people.end_session(visit.name, visit.who.session)
    return sessions.SESSION.set(RedirectResponse("/sign-in", 303), "", visit.settings)


@ROUTES.page("GET /account", SIGNED_IN)
async def account_page(visit: Visit, error: HushError | None = None, **values: Any) -> Response:
    """Show one's account."""
    name = visit.name
    shown: dict[str, Any] = {
        "tokens": visit.people.tokens(name),
        "sessions": visit.people.sessions(name),
        "has_factor": visit.people.has_factor(name),
        "factor": None,
        "recovery": "",
        "secret": "",
        "good": "",
        **values,
    }
    return await show(visit, "account.html", 200 if error is None else 422, error=error, **shown)


@ROUTES.page("POST /account", SIGNED_IN, refused=account_page)
async def change_account(visit: Visit) -> Response:
    """Make or end a token, end a session, or set the password or the second factor."""
    form, people, who = await visit.fields(), visit.people, visit.who
    match form["act"]:
        case "token":
            visit.check_rate(Rate.TOKENS)
            scopes = [scope for scope in SCOPES[:2] if scope in who.scopes]
            _, secret = people.make_token(who.name, label=form["label"], scopes=scopes, until=who.expires)
            return await account_page(visit, secret=secret)
        case "revoke":
            visit.revoke_token(form["id"])
        case "end":
            visit.end_session(form["id"])
        case "password":
            await check_password(visit, form["old"], "The old password is not right.")
            await asyncio.to_thread(people.set_password, who.name, form["new"])
            return await account_page(visit, good="The password is set. Sign in with it from now on.")
        case "factor" | "factor-on" | "factor-off" if not who.session or who.token:
            raise ForbiddenError("A second factor is set up in a browser, by who signed in without a token.")
        case "factor":
            await check_password(visit, form["old"], "The password is not right.")
            return await account_page(visit, factor=people.begin_factor(who.name))
        case "factor-on":
            visit.check_rate(Rate.CODES)
            return await account_page(visit, recovery=", ".join(people.confirm_factor(who.name, form["code"])))
        case "factor-off":
            visit.check_rate(Rate.CODES)
            if not people.use_code(who.name, form["code"]):
                visit.note_failure("code")
                raise ForbiddenError("The code is not right.")
            people.drop_factor(who.name)
    return await account_page(visit)
