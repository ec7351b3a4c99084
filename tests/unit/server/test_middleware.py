"""What surrounds every request, on every route and status."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from unittest.mock import Mock

import pytest
import uvicorn
from served import running
from starlette.testclient import TestClient
from uvicorn.server import ServerState

from hush.server import middleware, table
from hush.server.auth.people import People
from hush.server.errors import BadRequestError
from hush.server.middleware import MOST_BYTES, LimitedProtocol, _limited
from hush.server.questions import QuestionQueue
from hush.server.rate_limits import ConnectionLimit
from hush.server.settings import ServiceSettings

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"


def check(headers) -> None:
    assert headers["content-security-policy"].startswith(POLICY)
    assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_every_route_and_status_has_the_headers(
    browser: TestClient, alice, olga, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = set()
    asked = ({}, alice, olga, {"authorization": "Bearer x"}, {"host": "evil.example"})
    for place in table():
        ways = [(place.method, headers) for headers in asked]
        for method, headers in (*ways, *((other, alice) for other in {"GET", "POST", "TRACE"} - {place.method})):
            told = browser.request(method, place.path.replace("{number}", "1"), headers=headers)
            check(told.headers)
            statuses.add(told.status_code)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("Bergen")

    monkeypatch.setattr(QuestionQueue, "positions", broken)
    told = browser.get("/api/v1/questions", headers=alice)
    check(told.headers)
    assert (told.status_code, told.json()["code"]) == (500, "internal")
    assert "Bergen" not in told.text
    assert {200, 303, 401, 403, 404, 405, 415, 421} <= statuses


def test_bodies_are_small_plain_and_come_in_time(browser: TestClient, alice) -> None:
    def post(content: object, **headers: str) -> int:
        sent = {**alice, "content-type": "application/json", **headers}
        return browser.post("/api/v1/ask", content=content, headers=sent).status_code

    assert post(b" " * (64 * 1024 + 1)) == 413
    assert post(iter([b" " * 40_000] * 2)) == 413  # in pieces, without a length
    assert post(gzip.compress(b" " * 10**7), **{"content-encoding": "gzip"}) == 415
    assert post(b"{}", **{"content-length": "1e3"}) in {400, 413}
    form = {"content-type": "application/x-www-form-urlencoded"}
    fields = "&".join(f"a{at}=1" for at in range(5000))
    assert browser.post("/sign-in", content=fields, headers=form).status_code in {400, 401}


def test_a_body_that_trickles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_TIMEOUT", 0.05)

    async def receive() -> dict[str, object]:
        await asyncio.sleep(5)
        return {"type": "http.request"}

    async def pieces() -> dict[str, object]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def read(receive: Callable[[], Awaitable[dict[str, object]]]) -> None:
        limited = _limited(receive, MOST_BYTES)
        for _ in range(20):  # the time is that of the whole body, not of each piece
            await limited()

    for trickle in (receive, pieces):
        with pytest.raises(BadRequestError, match="in time"):
            asyncio.run(read(trickle))


def place_of(address: str) -> tuple[str, int]:
    return "127.0.0.1", int(address.rpartition(":")[2])


def test_a_body_that_nobody_reads_does_not_hold_the_connection(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "UNREAD_BODY_TIMEOUT", 0.3)
    head = b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
    with running(settings) as address, socket.create_connection(place_of(address), timeout=0.05) as slow:
        slow.sendall(head)
        told, ended = b"", False
        for _ in range(100):
            with suppress(TimeoutError):
                piece = slow.recv(4000)
                told += piece
                if not piece:
                    ended = True
                    break
            try:
                slow.sendall(b" ")  # every byte put the end off
            except OSError:
                ended = True
                break
        assert told.startswith(b"HTTP/1.1 401")
        assert ended


def test_an_address_has_so_many_connections_and_others_come(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "CONNECTIONS", ConnectionLimit(most=8, each=5))
    with running(settings) as address, ExitStack() as open_ones:
        for _ in range(5):
            open_ones.enter_context(socket.create_connection(place_of(address), timeout=20))
        with socket.create_connection(place_of(address), timeout=20) as more:
            told = b""
            while piece := more.recv(4000):
                told += piece
            assert told.startswith(b"HTTP/1.1 503")
            assert b"too many connections from 127.0.0.1" in told
        other = socket.create_connection(place_of(address), timeout=20, source_address=("127.0.0.2", 0))
        with open_ones.enter_context(other):
            other.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert other.recv(4000).startswith(b"HTTP/1.1 200")
        open_ones.close()
        for _ in range(100):
            with socket.create_connection(place_of(address), timeout=20) as again:
                again.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if again.recv(4000).startswith(b"HTTP/1.1 200"):
                    break
            time.sleep(0.05)
        else:
            pytest.fail("places are not given back")


def test_a_length_that_is_said_twice_is_refused(settings: ServiceSettings) -> None:
    head = (
        b"POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with running(settings) as address, socket.create_connection(place_of(address), timeout=20) as smuggler:
        smuggler.sendall(head + b"0\r\n\r\nGET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        told = b""
        while piece := smuggler.recv(4000):
            told += piece
        assert told.startswith(b"HTTP/1.1 400")
        assert b"length is said once" in told
        assert told.count(b"HTTP/1.1") == 1  # and what follows is no request


def test_who_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "STALLED_TIMEOUT", 0.05)

    async def paused(*, resumed: bool) -> bool:
        config = uvicorn.Config(lambda: None, log_config=None)
        config.load()
        transport = Mock(get_extra_info=Mock(return_value=None))
        protocol = middleware.LimitedProtocol(config, ServerState(), {})
        protocol.connection_made(transport)
        protocol.pause_writing()
        if resumed:
            protocol.resume_writing()
        await asyncio.sleep(0.2)
        protocol.connection_lost(None)
        return bool(transport.abort.called)

    assert asyncio.run(paused(resumed=False))
    assert not asyncio.run(paused(resumed=True))


def test_heads_that_trickle_and_what_is_not_http(settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "HEAD_TIMEOUT", 0.3)
    with running(settings) as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        with socket.create_connection(place, timeout=20) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            time.sleep(0.1)
            slow.sendall(b"X-A: 1\r\n")
            assert slow.recv(100) == b""  # closed
        with socket.create_connection(place, timeout=20) as quick:
            for _ in range(2):  # the second head has its own time
                quick.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                told = b""
                while not told.endswith(b'{"status":"ok"}'):
                    told += quick.recv(4000)
                assert told.startswith(b"HTTP/1.1 200")
            quick.sendall(b"GET / HTTP/1.1\r\n")
            assert quick.recv(100) == b""
        with socket.create_connection(place, timeout=20) as other:
            other.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
            told = b""
            while piece := other.recv(4000):
                told += piece
        told = told.decode()
        assert told.startswith("HTTP/1.1 400")
        check(dict(line.lower().split(": ", 1) for line in told.split("\r\n\r\n")[0].split("\r\n")[1:]))


def test_other_host_names_are_refused(browser: TestClient) -> None:
    for host, status in (("localhost", 200), ("127.0.0.1:8000", 200), ("evil.example", 421), ("localhost.evil", 421)):
        assert browser.get("/api/v1/health", headers={"host": host}).status_code == status


def test_the_log_has_routes_and_no_secrets(
    browser: TestClient, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    secret = people.make_link("alice")
    token = people.make_token("alice")[1]
    with caplog.at_level(logging.DEBUG, "hush"):
        browser.get(f"/welcome/{secret}")
        browser.post("/sign-in", data={"name": "alice", "password": "secret-password"})
        browser.post(
            "/api/v1/ask",
            json={"question": "SELECT COUNT(*) AS n FROM visits WHERE street = 'street 3'", "epsilon": "1"},
            headers={"authorization": f"Bearer {token}"},
        )
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("hush.server")]
    assert "GET /welcome/{secret} 200" in lines
    assert not any(word in str(lines) for word in (secret, token, "secret-password", "alice", "street"))


def test_a_proxy_whose_headers_are_believed_has_no_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "CONNECTIONS", ConnectionLimit(most=9, each=1))
    config = uvicorn.Config("hush.server:app", proxy_headers=True, forwarded_allow_ips="10.0.0.0/8", log_config=None)
    config.load()

    def comes(address: str) -> bool:
        transport = Mock()
        transport.get_extra_info.side_effect = lambda name, default=None: (
            (address, 1) if name == "peername" else default
        )
        LimitedProtocol(config, ServerState(), {}).connection_made(transport)
        return not transport.close.called

    async def scene() -> list[bool]:
        return [comes(address) for address in ("10.0.0.7", "10.0.0.7", "192.0.2.1", "192.0.2.1")]

    assert asyncio.run(scene()) == [True, True, True, False]
