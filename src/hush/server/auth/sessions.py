"""From a request to a person: a program's token, or the session cookie of a browser.

A program sends a token (``Authorization: Bearer …``), a browser its cookie. A token or cookie that is not valid is
refused, never ignored. A token in a URL is not read.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hush.server.auth.people import ABSOLUTE, People, Person
from hush.server.errors import SignInError
from hush.server.settings import ServiceSettings

_YEAR = 365 * 86_400


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
    secret = request.cookies.get(cookie_name(settings), "")
    return people.session(secret) if secret else None


def client_address(request: Request) -> str:
    """Return the address that a request came from; empty where it is not known."""
    return request.client.host if request.client else ""


def cookie_name(settings: ServiceSettings) -> str:
    """Return the name of the session's cookie: bound to the host and to https, where there is https."""
    # Browsers accept the prefix only with Secure, Path=/ and no Domain: no other host can set this cookie.
    return "__Host-hush" if settings.secure else "hush"


def set_session_cookie(response: Response, secret: str, settings: ServiceSettings) -> Response:
    """Give a browser its session's cookie."""
    response.set_cookie(cookie_name(settings), secret, max_age=ABSOLUTE, **_attributes(settings))
    return response


def delete_session_cookie(response: Response, settings: ServiceSettings) -> Response:
    """Delete the session's cookie in a browser."""
    response.delete_cookie(cookie_name(settings), **_attributes(settings))
    return response


def read_browser_mark(request: Request, settings: ServiceSettings) -> str:
    """Return the mark of a person who has signed in with this browser before."""
    return request.cookies.get(f"{cookie_name(settings)}-familiar", "")


def set_browser_mark(response: Response, mark: str, settings: ServiceSettings) -> Response:
    """Have a browser carry the mark of a person who has signed in with it."""
    attributes = {**_attributes(settings), "samesite": "strict"}
    response.set_cookie(f"{cookie_name(settings)}-familiar", mark, max_age=_YEAR, **attributes)
    return response


def read_flow_cookie(request: Request, settings: ServiceSettings) -> str:
    """Return the secret that binds a sign-in at an OpenID provider to this browser."""
    return request.cookies.get(f"{cookie_name(settings)}-flow", "")


def set_flow_cookie(response: Response, secret: str, settings: ServiceSettings, *, seconds: int) -> Response:
    """Bind a sign-in at an OpenID provider to a browser."""
    response.set_cookie(f"{cookie_name(settings)}-flow", secret, max_age=seconds, **_attributes(settings))
    return response


def delete_flow_cookie(response: Response, settings: ServiceSettings) -> Response:
    """Delete the secret of a sign-in at an OpenID provider."""
    response.delete_cookie(f"{cookie_name(settings)}-flow", **_attributes(settings))
    return response


def _attributes(settings: ServiceSettings) -> dict[str, Any]:
    """Return the attributes of all cookies: for the whole site, not for scripts, and not for other sites' forms."""
    # Lax, not strict: a browser that comes back from the OpenID provider must send its flow cookie.
    return {"path": "/", "secure": settings.secure, "httponly": True, "samesite": "lax"}
