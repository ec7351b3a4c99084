"""From a request to a person: a program's token, or the session cookie of a browser.

A program sends a token (``Authorization: Bearer …``), a browser its cookie. A token or cookie that is not valid is
refused, never ignored. A token in a URL is not read.

**Cross-site request forgery.** A browser sends its session's cookie also when another site makes it. So a request that
changes something and comes with a cookie must

*   come from this site: ``Sec-Fetch-Site`` says so, or, in browsers without it, ``Origin`` does; and
*   carry the CSRF token, which only pages of this site can read.

The token is a hash of the session's secret, so it needs no store of its own and ends with the session.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from hush.server.auth.people import ABSOLUTE, People, Person
from hush.server.errors import ForbiddenError, SignInError
from hush.server.settings import ServiceSettings

CSRF_FIELD = "form_token"
CSRF_HEADER = "hush-form-token"
_MOST_FIELDS = 4000
"""The largest number of fields in a form: up to seven for each column and table of the owner's form about new data."""
_SAFE = {"GET", "HEAD", "OPTIONS"}
"""Methods that change nothing."""
_FOREIGN = "This request came from another site, so nothing was done. Open the page here, and try again."
AnyResponse = TypeVar("AnyResponse", bound=Response)


def identify(request: Request, people: People, settings: ServiceSettings) -> Person | None:
    """Return the person of a request; None where it has neither token nor cookie."""
    authorization = request.headers.get("authorization")
    if authorization is not None:
        kind, _, secret = authorization.partition(" ")
        person = people.token(secret.strip()) if kind.lower() == "bearer" else None
        # No fallback to the cookie: the client meant to act with this token and its scopes.
        if person is None:
            raise SignInError("The token is not valid: it is misspelt, has expired or was revoked.")
        return person
    secret = SESSION.read(request, settings)
    return people.session(secret) if secret else None


def client_address(request: Request) -> str:
    """Return the address that a request came from; empty where it is not known."""
    return request.client.host if request.client else ""


@dataclass(frozen=True, slots=True)
class Cookie:
    """One of the cookies of a browser: for the whole site, not for scripts, and not for other sites' forms."""

    suffix: str
    seconds: int
    samesite: Literal["lax", "strict"] = "lax"

    def name(self, settings: ServiceSettings) -> str:
        """Return its name: bound to the host and to https, where there is https."""
        # Browsers accept the prefix only with Secure, Path=/ and no Domain: no other host can set this cookie.
        return f"{'__Host-hush' if settings.secure else 'hush'}{self.suffix}"

    def read(self, request: Request, settings: ServiceSettings) -> str:
        """Return its value, empty if there is none."""
        return request.cookies.get(self.name(settings), "")

    def set(self, response: AnyResponse, value: str, settings: ServiceSettings) -> AnyResponse:
        """Give it to a browser; an empty one is deleted there."""
        attributes: dict[str, Any] = {"secure": settings.secure, "httponly": True, "samesite": self.samesite}
        seconds = self.seconds if value else 0
        response.set_cookie(self.name(settings), value, max_age=seconds, path="/", **attributes)
        return response


SESSION = Cookie("", ABSOLUTE)
BROWSER_MARK = Cookie("-familiar", 365 * 86_400, "strict")
"""The mark of a person who has signed in with this browser before."""
FLOW = Cookie("-flow", 600)
"""The secret that binds a sign-in at an OpenID provider to this browser, which must come back within these seconds."""
# Lax, not strict: a browser that comes back from the OpenID provider must send its flow cookie.


# cross-site request forgery


def csrf_token(request: Request, settings: ServiceSettings) -> str:
    """Return the token that forms of this session must carry."""
    secret = SESSION.read(request, settings)
    # The prefix keeps the token apart from the stored hash of the same secret.
    return hashlib.sha256(b"form\0" + secret.encode()).hexdigest()


def check_origin(request: Request) -> None:
    """Refuse a change that another site made a browser send."""
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        # "none" is a request that the person made, not a site; "same-site" may be another host.
        if site not in {"same-origin", "none"}:
            raise ForbiddenError(_FOREIGN)
    elif origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForbiddenError(_FOREIGN)


async def check_csrf(request: Request, settings: ServiceSettings) -> None:
    """Refuse a change by cookie without the CSRF token, in the header or in the form."""
    if request.method in _SAFE:
        return
    token = request.headers.get(CSRF_HEADER, "")
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not token and media in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        field = (await request.form(max_fields=_MOST_FIELDS)).get(CSRF_FIELD, "")
        token = field if isinstance(field, str) else ""
    if not hmac.compare_digest(token.encode(), csrf_token(request, settings).encode()):
        raise ForbiddenError("The form is no longer valid. Load the page again, and try once more.")
