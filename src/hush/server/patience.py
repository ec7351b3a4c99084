"""HTTP at the edge: how long a head of a request may take, and what is said to what is none.

uvicorn waits for the head of a request as long as somebody cares to trickle it. Here it must have arrived after ten
seconds, or the connection is closed. What is not HTTP gets the headers that every response has.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hush.server.problems import MEDIA, BadRequestError, problem
from hush.server.protection import HEADERS

SLOWEST_HEAD = 10.0
"""A request's head must have arrived after so many seconds."""


class PatientProtocol(H11Protocol):
    """One connection."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what arrived; the next head has its time from its first byte."""
        if self._idle and self._head is None:
            self._wait()
        super().data_received(data)
        if not self._idle:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        """Answer what is not HTTP."""
        _, body = problem(BadRequestError("This is not a proper HTTP request."))
        content = json.dumps(body).encode()
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        headers += [(b"content-type", MEDIA.encode()), (b"connection", b"close")]
        headers += [(b"content-length", str(len(content)).encode())]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._head = self.loop.call_later(SLOWEST_HEAD, self._too_slow)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        if self._idle and not self.transport.is_closing():
            self.transport.close()
