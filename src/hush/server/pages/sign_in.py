"""The pages before somebody is signed in: sign-in by password or at an OpenID provider, and one-time links."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.server.auth import sessions
from hush.server.auth.oidc import CALLBACK, FLOW
from hush.server.auth.people import Person
from hush.server.errors import SignInError, TooManyError, UnknownPlaceError
from hush.server.pages.layout import draw
from hush.server.rate_limits import Rate, address_block
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service


async def sign_in_page(request: Request, service: Service, who: Person) -> Response:
    """Show the form."""
    return draw(request, service, who, "sign_in.html", message="", oidc=service.oidc is not None)


async def sign_in(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in by name, password and code; all failures look alike and take alike."""
    address = sessions.client_address(request)
    form = await request.form()
    name, password = str(form.get("name", ""))[:200], str(form.get("password", ""))[:1000]
    with _noting(request, service, name):
        _check_attempts(request, service, address_block(address), name)
    person = await asyncio.to_thread(service.people.check_password, name, password)
    if person is None or not _right_code(service, person, str(form.get("code", ""))[:100]):
        service.failures.note(name, address, "password" if person is None else "code")
        message = "Name, password or code are not right."
        return draw(request, service, who, "sign_in.html", 401, message=message, oidc=service.oidc is not None)
    return sessions.set_browser_mark(_begin(service, person, who), service.people.familiar(name), service.settings)


@contextmanager
def _noting(request: Request, service: Service, name: str = "") -> Iterator[None]:
    """Count an attempt that a rate limit refuses among the failed sign-ins."""
    try:
        yield
    except TooManyError:
        service.failures.note(name, sessions.client_address(request), "too many")
        raise


def _check_attempts(request: Request, service: Service, address: str, name: str) -> None:
    """Refuse too many attempts: from one address, for one name from there, and for one name from everywhere.

    Nobody's guesses keep out a browser in which that name has signed in before: it has attempts of its own.
    """
    browser_mark, mark = sessions.read_browser_mark(request, service.settings), service.people.familiar(name)
    if mark and hmac.compare_digest(browser_mark.encode(), mark.encode()):
        service.rates.check(Rate.SIGN_INS_OF_A_NAME_FROM_AN_ADDRESS, f"{name} {mark}")
        return
    service.rates.check(Rate.SIGN_INS_OF_AN_ADDRESS, address)
    service.rates.check(Rate.SIGN_INS_OF_A_NAME_FROM_AN_ADDRESS, f"{address} {name}")
    service.rates.check(Rate.SIGN_INS_OF_A_NAME, name)


def _right_code(service: Service, who: Person, code: str) -> bool:
    """Return whether somebody shows a code of their second factor, where they have one; use it up.

    Only who knows the password gets here, so nobody else can use up the attempts. Too many look like a wrong code:
    otherwise they would tell that the password is right.
    """
    if not service.people.has_factor(who.name):
        return True
    try:
        service.rates.check(Rate.CODES, who.name)
    except TooManyError:
        return False
    return service.people.use_code(who.name, code)


async def sign_in_elsewhere(request: Request, service: Service, who: Person) -> Response:
    """Send a browser to the OpenID provider."""
    return await _sent_elsewhere(request, service, who)


async def _sent_elsewhere(request: Request, service: Service, who: Person, link: str = "") -> Response:
    if service.oidc is None:
        raise UnknownPlaceError
    with _noting(request, service):
        service.rates.check(Rate.SIGN_INS_OF_AN_ADDRESS, sessions.client_address(request))
    provider_url, browser = await asyncio.to_thread(service.oidc.begin, service.flows, link)
    if link:  # a form must not lead to another site, so says the content security policy: people click once more
        response = draw(request, service, who, "welcome.html", message="", oidc=True, place=provider_url)
    else:
        response = RedirectResponse(provider_url, 303)
    return sessions.set_flow_cookie(response, browser, service.settings, seconds=int(FLOW))


async def back_from_elsewhere(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in who comes back from the OpenID provider; they always arrive at the first page."""
    provider = service.oidc
    if provider is None:
        raise UnknownPlaceError
    address = sessions.client_address(request)
    with _noting(request, service):
        service.rates.check(Rate.SIGN_INS_OF_AN_ADDRESS, address)
    query, browser = dict(request.query_params), sessions.read_flow_cookie(request, service.settings)
    try:
        person = await asyncio.to_thread(provider.sign_in, service.flows, service.people, query, browser)
    except SignInError as error:
        service.failures.note("", address, "oidc")
        response = draw(request, service, who, "sign_in.html", 401, message=str(error), oidc=True)
    else:
        response = _begin(service, person, who)
    return sessions.delete_flow_cookie(response, service.settings)


async def welcome_page(request: Request, service: Service, who: Person) -> Response:
    """Show a button: opening a link must not use it up, as programs that look ahead open links."""
    return draw(request, service, who, "welcome.html", message="", oidc=service.oidc is not None, place="")


async def welcome(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in by a one-time link, or have it bind the account that they have at the OpenID provider."""
    address = sessions.client_address(request)
    with _noting(request, service):
        service.rates.check(Rate.WELCOMES, address)
    if (await request.form()).get("with") == "oidc":
        return await _sent_elsewhere(request, service, who, request.path_params["secret"])
    person = service.people.use_link(request.path_params["secret"])
    if person is None:
        service.failures.note("", address, "link")
        message = "This link was used before, or is too old. Ask the owner for another one."
        return draw(request, service, who, "welcome.html", 401, message=message, oidc=False, place="")
    return _begin(service, person, who)


def _begin(service: Service, person: Person, who: Person) -> Response:
    if who.session:  # the person who was signed in in this browser before
        service.people.end_session(who.name, who.session)
    secret = service.people.begin_session(person.name, maker=person.token)
    return sessions.set_session_cookie(RedirectResponse("/", 303), secret, service.settings)


async def sign_out(_: Request, service: Service, who: Person) -> Response:
    """End the session."""
    service.people.end_session(who.name, who.session)
    return sessions.delete_session_cookie(RedirectResponse("/sign-in", 303), service.settings)


def table() -> list[Route]:
    """Return the routes of the sign-in pages."""
    anybody = Permission.ANYBODY
    return [
        page_route("GET", "/sign-in", sign_in_page, anybody),
        page_route("POST", "/sign-in", sign_in, anybody),
        page_route("GET", "/sign-in/oidc", sign_in_elsewhere, anybody),
        page_route("GET", CALLBACK, back_from_elsewhere, anybody),
        page_route("GET", "/welcome/{secret}", welcome_page, anybody),
        page_route("POST", "/welcome/{secret}", welcome, anybody),
        page_route("POST", "/sign-out", sign_out, Permission.SIGNED_IN),
    ]
