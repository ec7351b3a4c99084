"""The middleware around every request: security headers, limits of size and time, the access log; and slow connections.

`Middleware` wraps the application:

*   Every response has the headers that keep a browser from doing anything but show it: a content security policy with
    Trusted Types, no sniffing, no referrer, no storing, no other origin's frames, windows or reads.
*   A body has at most 64 KB, is not compressed and arrives within ten seconds. So there are no bombs and no trickles.
*   A host name that is not the service's own is refused, so DNS rebinding does not work.
*   The log has one line for a request: method, route, status. Never a path with a secret, a text, a value or a name.

`LimitedProtocol` wraps the connection below it. uvicorn waits for a request without a limit of time. Here a request's
head must have arrived after ten seconds and its body after some more, or the connection is closed. The connections of
one address are limited, unless it is a proxy's. A request that is not HTTP, or has its length said twice in two ways
(RFC 9112, 6.3: a sign of smuggling), gets the headers that every response has.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from hush.core import HushError
from hush.server import errors
from hush.server.errors import BadRequestError, BusyError
from hush.server.rate_limits import ConnectionLimit
from hush.server.service import Service

log = logging.getLogger("hush.server.requests")

MOST_BYTES = 64 * 1024
"""The size of a body, at most …"""
_LARGER = {"/data": 1024 * 1024, "/data/policy": 1024 * 1024}
"""… but for forms about all columns of new data. Bodies are read only for people who are signed in, on these paths."""
BODY_TIMEOUT = 10.0
"""Seconds in which a body must have arrived, where a handler reads it …"""
UNREAD_BODY_TIMEOUT = BODY_TIMEOUT + 5
"""… and where none does: the handler's refusal comes first."""
HEAD_TIMEOUT = 10.0
"""Seconds in which a request's head must have arrived."""
STALLED_TIMEOUT = 60.0
"""Seconds after which a client that reads nothing of its response is disconnected."""
CONNECTIONS = ConnectionLimit(most=1500, each=100)
"""The connections of this worker."""
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


class Middleware:
    """Wraps the application: limits, headers and the access log."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_wrapper(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if self._service.settings.secure:
                    headers["strict-transport-security"] = "max-age=31536000"
                route = scope.get("hush.route", "-")
                self._service.counters.request(route, message["status"])
                log.info("%s %s %s", scope["method"], route, message["status"])
            await send(message)

        try:
            most_bytes = _LARGER.get(scope["path"], MOST_BYTES)
            self._check(Headers(scope=scope), most_bytes)
            await self._app(scope, _limited(receive, most_bytes), send_wrapper)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            refusal = errors.problem_response(error)
            refusal.headers["connection"] = "close"  # the rest of the body must not be read as the next request
            if not started:  # else the connection is closed in the middle: a status was sent already
                await refusal(scope, receive, send_wrapper)

    def _check(self, headers: Headers, most_bytes: int) -> None:
        hosts = self._service.settings.hosts
        address = headers.get("host", "")
        name, _, port = address.rpartition(":")
        host = name if port.isdigit() and name else address
        if hosts and host.lower() not in hosts:
            raise BadRequestError("The service is not addressed by this host name; say it with --host-name.", 421)
        if "content-length" in headers and "transfer-encoding" in headers:
            raise BadRequestError("A body's length is said once: by Content-Length or by Transfer-Encoding.")
        if headers.get("content-encoding", "identity") != "identity":
            raise BadRequestError("Bodies must not be compressed.", 415)
        length = headers.get("content-length", "0")
        # Twelve digits decide: int() fails for texts of thousands of digits.
        if not length.isascii() or not length.isdigit() or int(length[:12]) > most_bytes:
            raise _too_large(most_bytes)


def _too_large(most_bytes: int) -> BadRequestError:
    return BadRequestError(f"A body may have {most_bytes} bytes.", 413)


def _limited(receive: Receive, most_bytes: int) -> Receive:
    """Return a reader of a body that refuses more than ``most_bytes``, or more than `BODY_TIMEOUT`."""
    size, complete = 0, False
    deadline = asyncio.get_running_loop().time() + BODY_TIMEOUT  # of the whole body, in any number of pieces

    async def limited() -> Message:
        nonlocal size, complete
        if complete:  # the next message is the end of the connection, which has no deadline
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise BadRequestError("The body did not arrive in time.", 408) from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > most_bytes:
                raise _too_large(most_bytes)
            complete = not message.get("more_body", False)
        return message

    return limited


class LimitedProtocol(H11Protocol):
    """One HTTP connection, with deadlines and a place in `CONNECTIONS`."""

    _deadline: asyncio.TimerHandle | None = None
    """The timer of the head or the body that is awaited."""
    _awaiting_body = False
    _stalled: asyncio.TimerHandle | None = None
    """The timer of a client that takes nothing."""
    _address: str | None = None
    """The address of the connection, once it is counted."""

    def connection_made(self, transport: Any) -> None:
        """Start the timer of the first head, if the connection is within the limits."""
        super().connection_made(transport)
        address = self.client[0] if self.client else "local"
        # Whose X-Forwarded headers are believed is a proxy.
        proxy = isinstance(self.app, ProxyHeadersMiddleware) and address in self.app.trusted_hosts
        if CONNECTIONS.enter(address, proxy=proxy):
            self._address = address
            self._start_timer(HEAD_TIMEOUT)
        else:
            self._refuse(BusyError(f"There are too many connections from {address}; close some."))

    def data_received(self, data: bytes) -> None:
        """Pass data on; a head has its time from its first byte, and a body from the end of its head."""
        if self._address is None:
            return
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._start_timer(HEAD_TIMEOUT)
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            if not self._awaiting_body:
                self._start_timer(UNREAD_BODY_TIMEOUT)
                self._awaiting_body = True
        elif self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]:
            self._stop_timer()  # the request is complete, and no byte of the next one is here

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and give the connection's place back."""
        self._stop_timer()
        if self._stalled is not None:
            self._stalled.cancel()
        if self._address is not None:
            CONNECTIONS.leave(self._address)
            self._address = None
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's text is replaced by ours
        """Refuse bytes that are not HTTP."""
        self._refuse(BadRequestError("This is not a proper HTTP request."))

    def _refuse(self, error: HushError) -> None:
        refusal = errors.problem_response(error)
        refusal.headers.update({**HEADERS, "connection": "close"})
        status, reason = refusal.status_code, HTTPStatus(refusal.status_code).phrase.encode()
        events = (
            h11.Response(status_code=status, headers=refusal.raw_headers, reason=reason),
            h11.Data(data=bytes(refusal.body)),
            h11.EndOfMessage(),
        )
        with suppress(h11.LocalProtocolError):  # another response has begun already
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        """Start the timer of a client that takes nothing."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        self._awaiting_body = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
