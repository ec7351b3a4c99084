"""Protection against cross-site request forgery: requests that another site made a browser send.

A browser sends its session's cookie also when another site makes it. So a request that changes something and comes with
a cookie must

*   come from this site: ``Sec-Fetch-Site`` says so, or, in browsers without it, ``Origin`` does; and
*   carry the CSRF token, which only pages of this site can read.

The token is a hash of the session's secret, so it needs no store of its own and ends with the session.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from hush.server.auth.sessions import cookie_name
from hush.server.errors import ForbiddenError
from hush.server.settings import ServiceSettings

CSRF_FIELD = "form_token"
CSRF_HEADER = "hush-form-token"
_MOST_FIELDS = 4000
"""The largest number of fields in a form: up to seven for each column and table of the owner's form about new data."""
_SAFE = {"GET", "HEAD", "OPTIONS"}
"""Methods that change nothing."""
_FOREIGN = "This request came from another site, so nothing was done. Open the page here, and try again."


def csrf_token(request: Request, settings: ServiceSettings) -> str:
    """Return the token that forms of this session must carry."""
    secret = request.cookies.get(cookie_name(settings), "")
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
