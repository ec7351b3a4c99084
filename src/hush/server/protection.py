"""What surrounds every request, whatever its route and status: headers, sizes, times, and the log.

*   Every response has the headers that keep a browser from doing anything but show it: a content security policy with
    Trusted Types, no sniffing, no referrer, no storing, no other origin's frames, windows or reads.
*   A body has at most 64 KB, is not compressed and arrives within ten seconds. So there are no bombs and no trickles.
*   A host name that is not the service's own is refused, so that no name that leads here by trickery works.
*   The log has one line for a request: method, route, status. Never a path with a secret, a text, a value or a name.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hush.server import problems
from hush.server.problems import BadRequestError
from hush.server.service import Service

log = logging.getLogger("hush.server.requests")

MOST_BYTES = 64 * 1024
SLOWEST = 10.0
"""A body must have arrived after so many seconds."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Protection:
    """Wraps a whole application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def protected(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if self._service.settings.secure:
                    headers["strict-transport-security"] = "max-age=31536000"
                route = scope.get("hush.route", "-")
                self._service.counters.request(route, message["status"])
                log.info("%s %s %s", scope["method"], route, message["status"])
            await send(message)

        try:
            self._check(Headers(scope=scope))
            await self._app(scope, _limited(receive), protected)
        except Exception as error:  # noqa: BLE001 - whatever it is, it leaves in one form
            refusal = problems.response(error)
            if not begun:  # else the connection is closed in the middle, which is all that can be said
                await refusal(scope, receive, protected)

    def _check(self, headers: Headers) -> None:
        hosts = self._service.settings.hosts
        name = headers.get("host", "").rpartition(":")
        host = name[0] if name[2].isdigit() and name[0] else headers.get("host", "")
        if hosts and host.lower() not in hosts:
            raise BadRequestError("The service is not addressed by this host name; say it with --host-name.", 421)
        if headers.get("content-encoding", "identity") != "identity":
            raise BadRequestError("Bodies must not be compressed.", 415)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:12]) > MOST_BYTES:
            raise _too_large()


def _too_large() -> BadRequestError:
    return BadRequestError(f"A body may have {MOST_BYTES} bytes.", 413)


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        if size < 0:
            return await receive()
        try:
            async with asyncio.timeout(SLOWEST):
                message = await receive()
        except TimeoutError:
            raise BadRequestError("The body did not arrive in time.", 408) from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > MOST_BYTES:
                raise _too_large()
            if not message.get("more_body", False):
                size = -1  # what comes next is the end of the connection, which may take its time
        return message

    return limited
