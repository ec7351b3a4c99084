"""How pages are drawn, and those that anybody sees before they are signed in; `hush.server.page` has the others.

A page is a handler in the table of routes (`hush.server.routes.Reached` with ``page=True``), calls the same methods of
`Service` as the API, and draws a template of ``templates/`` with `draw`. Templates escape everything and know no
undefined names. Scripts and styles lie in ``static/`` and are served as they are.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from hush.report.svg import style_sheet
from hush.server import identity, problems
from hush.server.errors import SignInError, UnknownPlaceError
from hush.server.oidc import CALLBACK, FLOW
from hush.server.people import Person
from hush.server.questions import check_rate
from hush.server.routes import NOBODY, Reached, Visitor
from hush.server.service import Service
from hush.server.traffic import Rate

_HERE = Path(__file__).parent
_STATIC = _HERE / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(_HERE / "templates")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)


def draw(request: Request, service: Service, who: Person, template: str, status: int = 200, **values: Any) -> Response:
    """Return a page: a template with its values, who is signed in and what forms must carry."""
    person = None if who is NOBODY else who
    token = identity.form_token(request, service.settings)
    head: dict[str, Any] = {"places": [], "badges": {}, "bars": [], "data_sets": [], "data": ""}
    form = {"form_field": identity.FORM_FIELD, "form_token": token}
    given = {**head, "me": person, **form, "path": request.url.path, **values}
    return HTMLResponse(_templates().get_template(template).render(given), status)


def refused(request: Request, service: Service, error: Exception) -> Response:
    """Return the response to an error: a page to whoever reads pages, and to programs what the API says."""
    told = problems.response(error)
    if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/api/"):
        return told
    text = json.loads(bytes(told.body))["detail"]
    shown = draw(request, service, NOBODY, "problem.html", told.status_code, problem={"text": text, "pointer": ""})
    if "retry-after" in told.headers:
        shown.headers["retry-after"] = told.headers["retry-after"]
    return shown


async def sign_in_page(request: Request, service: Service, who: Person) -> Response:
    """Show the form."""
    return draw(request, service, who, "sign_in.html", message="", oidc=service.oidc is not None)


async def sign_in(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in by name and password; all failures look alike and take alike."""
    address = request.client.host if request.client else ""
    form = await request.form()
    name, password = str(form.get("name", ""))[:200], str(form.get("password", ""))[:1000]
    check_rate(service.traffic, Rate.SIGN_INS_OF_AN_ADDRESS, address)
    check_rate(service.traffic, Rate.SIGN_INS_OF_A_NAME, name)
    person = await asyncio.to_thread(service.people.check_password, name, password)
    if person is None:
        message = "Name or password are not right."
        return draw(request, service, who, "sign_in.html", 401, message=message, oidc=service.oidc is not None)
    return _begin(service, person, who)


async def sign_in_elsewhere(request: Request, service: Service, _: Person) -> Response:
    """Send a browser to the OpenID provider."""
    if service.oidc is None:
        raise UnknownPlaceError
    address = request.client.host if request.client else ""
    check_rate(service.traffic, Rate.SIGN_INS_OF_AN_ADDRESS, address)
    place, browser = await asyncio.to_thread(service.oidc.begin, service.traffic)
    response = RedirectResponse(place, 303)
    response.set_cookie(
        identity.flow_cookie(service.settings),
        browser,
        max_age=int(FLOW),
        path="/",
        secure=service.settings.secure,
        httponly=True,
        samesite="lax",
    )
    return response


async def back_from_elsewhere(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in who comes back from the OpenID provider; they always arrive at the first page."""
    provider = service.oidc
    if provider is None:
        raise UnknownPlaceError
    address = request.client.host if request.client else ""
    check_rate(service.traffic, Rate.SIGN_INS_OF_AN_ADDRESS, address)
    cookie = identity.flow_cookie(service.settings)
    query = dict(request.query_params)

    def sign_in() -> Person:
        claims = provider.claims(service.traffic, query, request.cookies.get(cookie, ""))
        return provider.person(service.people, claims)

    try:
        person = await asyncio.to_thread(sign_in)
    except SignInError as error:
        response = draw(request, service, who, "sign_in.html", 401, message=str(error), oidc=True)
    else:
        response = _begin(service, person, who)
    response.delete_cookie(cookie, path="/", secure=service.settings.secure, httponly=True, samesite="lax")
    return response


async def welcome_page(request: Request, service: Service, who: Person) -> Response:
    """Show a button: opening a link must not use it up, as programs that look ahead open links."""
    return draw(request, service, who, "welcome.html", message="")


async def welcome(request: Request, service: Service, who: Person) -> Response:
    """Sign somebody in by a one-time link."""
    address = request.client.host if request.client else ""
    check_rate(service.traffic, Rate.WELCOMES, address)
    person = service.people.use_link(request.path_params["secret"])
    if person is None:
        message = "This link was used before, or is too old. Ask the owner for another one."
        return draw(request, service, who, "welcome.html", 401, message=message)
    return _begin(service, person, who)


def _begin(service: Service, person: Person, who: Person) -> Response:
    if who.session:  # whoever was signed in here before is not any more
        service.people.end_session(who.name, who.session)
    secret = service.people.begin_session(person.name, maker=person.token)
    return identity.signed_in(RedirectResponse("/", 303), secret, service.settings)


async def sign_out(_: Request, service: Service, who: Person) -> Response:
    """End the session."""
    service.people.end_session(who.name, who.session)
    return identity.signed_out(RedirectResponse("/sign-in", 303), service.settings)


async def static(request: Request, _: Service, __: Person) -> Response:
    """Give out a script, a style or a picture."""
    if request.path_params["name"] == "chart.css":  # the colours of charts belong to charts
        return Response(style_sheet(), media_type="text/css")
    path = _STATIC / request.path_params["name"]
    if path.parent != _STATIC or path.suffix not in _TYPES or not path.is_file():
        raise UnknownPlaceError
    return FileResponse(path, media_type=_TYPES[path.suffix])


def table() -> list[Reached]:
    """Return the pages' part of the table of routes."""
    anybody, known = Visitor.ANYBODY, Visitor.SIGNED_IN
    places = [
        ("GET", "/sign-in", sign_in_page, anybody),
        ("POST", "/sign-in", sign_in, anybody),
        ("GET", "/sign-in/oidc", sign_in_elsewhere, anybody),
        ("GET", CALLBACK, back_from_elsewhere, anybody),
        ("GET", "/welcome/{secret}", welcome_page, anybody),
        ("POST", "/welcome/{secret}", welcome, anybody),
        ("POST", "/sign-out", sign_out, known),
        ("GET", "/static/{name}", static, anybody),
    ]
    return [
        Reached(method=method, path=path, handler=handler, visitor=visitor, page=True)
        for method, path, handler, visitor in places
    ]
