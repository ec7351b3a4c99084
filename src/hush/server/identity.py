"""Who asks, and whether they mean it: tokens, sessions, and requests that another site made a browser send.

A program shows a token (``Authorization: Bearer …``), a browser its session's cookie. What is shown and not valid is
refused, never taken for nobody. A token in a URL is not looked at.

A browser sends its cookie also when another site makes it. So whatever changes something and comes with a cookie must

*   come from this site: ``Sec-Fetch-Site`` says so, or, in browsers without it, ``Origin`` does; and
*   show the form token, which only pages of this site can read.

The form token is a hash of the session's secret, so it needs no store of its own and ends with the session.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from hush.server.errors import ForbiddenError, SignInError
from hush.server.people import ABSOLUTE, People, Person
from hush.server.settings import ServiceSettings

FORM_FIELD = "form_token"
FORM_HEADER = "hush-form-token"
_SAFE = {"GET", "HEAD", "OPTIONS"}
_FOREIGN = "This request came from another site, so nothing was done. Open the page here, and try again."


def cookie_name(settings: ServiceSettings) -> str:
    """Return the name of the session's cookie: bound to the host and to https, where there is https."""
    return "__Host-hush" if settings.secure else "hush"


def flow_cookie(settings: ServiceSettings) -> str:
    """Return the name of the cookie that binds a sign-in at another place to a browser."""
    return f"{cookie_name(settings)}-flow"


def identify(request: Request, people: People, settings: ServiceSettings) -> Person | None:
    """Return who sent a request; None where nothing was shown. Raises where it is not valid."""
    shown = request.headers.get("authorization")
    if shown is not None:
        kind, _, secret = shown.partition(" ")
        person = people.token(secret.strip()) if kind.lower() == "bearer" else None
        if person is None:
            raise SignInError("The token is not valid: it is misspelt, has expired or was revoked.")
        return person
    secret = request.cookies.get(cookie_name(settings), "")
    return people.session(secret) if secret else None


def form_token(request: Request, settings: ServiceSettings) -> str:
    """Return what forms of a page must carry, for whoever is signed in with a cookie."""
    secret = request.cookies.get(cookie_name(settings), "")
    return hashlib.sha256(b"form\0" + secret.encode()).hexdigest()


def check_origin(request: Request) -> None:
    """Refuse what another site made a browser send."""
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        if site not in {"same-origin", "none"}:
            raise ForbiddenError(_FOREIGN)
    elif origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForbiddenError(_FOREIGN)


async def check_form(request: Request, settings: ServiceSettings) -> None:
    """Refuse a change by cookie that does not show the form token, in its header or in the form."""
    if request.method in _SAFE:
        return
    shown = request.headers.get(FORM_HEADER, "")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not shown and kind in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        field = (await request.form()).get(FORM_FIELD, "")
        shown = field if isinstance(field, str) else ""
    if not hmac.compare_digest(shown.encode(), form_token(request, settings).encode()):
        raise ForbiddenError("The form is no longer valid. Load the page again, and try once more.")


def signed_in(response: Response, secret: str, settings: ServiceSettings) -> Response:
    """Give a browser its session's cookie."""
    response.set_cookie(
        cookie_name(settings), secret, max_age=ABSOLUTE, path="/", secure=settings.secure, httponly=True, samesite="lax"
    )
    return response


def signed_out(response: Response, settings: ServiceSettings) -> Response:
    """Take a browser's cookie away."""
    response.delete_cookie(cookie_name(settings), path="/", secure=settings.secure, httponly=True, samesite="lax")
    return response
