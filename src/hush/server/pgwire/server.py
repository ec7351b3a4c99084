"""The socket of the PostgreSQL protocol: TLS, sign-in, and messages in their order.

A client says who it is and shows a token as its password. Passwords travel in the clear inside the connection, so
beyond this machine TLS is required. For every mistake in name or token the reply is the same.

A connection that has not signed in within some seconds is closed; so is one that says nothing for an hour, or sends
what is no message, or whose token was revoked or has expired.
Rate limits hold as for the API and the pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import ssl
import struct

from hush.core import HushError
from hush.ledger import Role
from hush.server.auth.people import Person
from hush.server.errors import ServiceError
from hush.server.pgwire import messages
from hush.server.pgwire.catalogue import PARAMETERS
from hush.server.pgwire.connection import PgConnection
from hush.server.pgwire.messages import MessageError, Reader, message, texts
from hush.server.pgwire.statements import from_start
from hush.server.rate_limits import ConnectionLimit, Rate
from hush.server.service import PersonalService, Service
from hush.server.settings import is_loopback

_log = logging.getLogger("hush.server.pgwire")
_VERSION, _SSL, _GSS, _CANCEL = 196_608, 80_877_103, 80_877_104, 80_877_102
_SIGN_IN, _IDLE, _STALLED, _PARTING = 15.0, 3600.0, 300.0, 2.0
_MOST, _EACH = 200, 40
"""How many connections a worker keeps, and how many of one person."""
_STRANGERS, _STRANGERS_EACH = 100, 40
"""How many connections may be signing in, in all and from one address; they do not count as signed-in ones."""
_GONE = "The service is ending."
_WRONG = "Sign in with your name and a token of yours as the password."


class _FatalError(Exception):
    """The connection ends, with a text and its SQLSTATE."""


class PgServer:
    """Accepts connections of the PostgreSQL protocol, and serves each in a task."""

    def __init__(
        self, service: Service, listener: socket.socket, certificate: str | None = None, key: str | None = None
    ) -> None:
        """Without a certificate only clients on this machine may connect."""
        self._service, self._listener, self._tls = service, listener, None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
            self._tls.load_cert_chain(certificate, key or certificate)
        address = listener.getsockname()
        self._clear = not isinstance(address, tuple) or is_loopback(str(address[0]))
        """Whether connections without TLS are allowed: only where the socket is this machine's alone."""
        self._server: asyncio.Server | None = None
        self._talking: dict[asyncio.Task[None], PgConnection | None] = {}
        """The task of each connection, with its state once it is signed in."""
        self._ending = False
        self._strangers = ConnectionLimit(most=_STRANGERS, each=_STRANGERS_EACH)
        self._keys: dict[tuple[int, int], PgConnection] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        """A lock for each person: one statement about the catalogue runs at a time on all their connections."""

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._come, sock=self._listener, limit=messages.LONGEST + 5)

    async def close(self) -> None:
        """Stop listening, and end all connections: those with a question at work once it is answered."""
        self._ending = True
        if self._server is not None:
            self._server.close()
        # A question at work may be charged already, so its answer is still delivered.
        busy_tasks = [task for task, conversation in self._talking.items() if conversation and conversation.request]
        for task in self._talking.keys() - busy_tasks:
            task.cancel()
        if busy_tasks:
            await asyncio.wait(busy_tasks, timeout=self._service.settings.limit + _PARTING)
        for task in self._talking:
            task.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        self._talking[task] = None
        try:
            await self._talk(task, reader, writer)
            await writer.drain()
        except _FatalError as refusal:
            writer.write(_fatal(*refusal.args))
        except MessageError:
            writer.write(
                _fatal(f"This is no message of the protocol, or one beyond {messages.LONGEST} bytes.", "08P01")
            )
        except HushError as error:
            writer.write(_fatal(str(error), "53300" if isinstance(error, ServiceError) else "22023"))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            writer.write(_fatal(_GONE, "57P01"))
        except Exception as error:  # the connection ends, and nothing is told of what it said  # noqa: BLE001
            _log.error("a connection of the SQL door failed: %s", type(error).__name__)
            writer.write(_fatal("The connection failed; connect again.", "XX000"))
        finally:
            del self._talking[task]
            with contextlib.suppress(Exception):
                writer.close()
                async with asyncio.timeout(_PARTING):
                    await writer.wait_closed()
            writer.transport.abort()  # a client that does not take its leave, or broke off TLS, is not waited for

    async def _talk(self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = _address(writer)
        if not self._strangers.enter(address):
            raise _FatalError("Too many connections are about to sign in; try again soon.", "53300")
        try:
            async with asyncio.timeout(_SIGN_IN):
                signed_in = await self._sign_in(reader, writer)
        finally:
            self._strangers.leave(address)
        if signed_in is None:
            return
        person, token, options = signed_in
        if len(self._keys) >= _MOST:
            raise _FatalError("Too many connections; try again soon.", "53300")
        if sum(connection.analyst.name == person.name for connection in self._keys.values()) >= _EACH:
            raise _FatalError(f"You have {_EACH} connections; close some.", "53300")
        # The secret of cancel requests (BackendKeyData), which come on connections of their own.
        key = secrets.randbelow(2**31), secrets.randbelow(2**31)
        turn = self._turns.setdefault(person.name, asyncio.Lock())
        conversation = PgConnection(
            PersonalService(self._service, person), turn, self._kept, session=f"door-{secrets.token_hex(12)}"
        )
        conversation.first = from_start(options)
        conversation.settings = dict(conversation.first)
        self._keys[key] = conversation
        self._talking[task] = conversation
        try:
            for name, value in PARAMETERS.items():
                writer.write(message(b"S", texts(name, value)))
            writer.write(message(b"K", struct.pack("!II", *key)) + conversation.ready())
            await writer.drain()
            while True:
                async with asyncio.timeout(_IDLE):
                    kind, content = await _read(reader)
                if kind == b"X":
                    return
                # At every message: a revocation holds at once for open connections, too.
                still = await asyncio.to_thread(self._service.people.token, token)
                if still is None or Role.ANALYST not in still.roles:  # revoked or expired since, as in the API
                    raise _FatalError(_WRONG, "28000")
                conversation.analyst = PersonalService(self._service, still)
                writer.write(await conversation.hear(kind, content))
                async with asyncio.timeout(_STALLED):  # a client that takes nothing does not keep its rows here
                    await writer.drain()
                if self._ending:
                    raise _FatalError(_GONE, "57P01")
        finally:
            del self._keys[key]
            conversation.close()

    async def _sign_in(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Person, str, dict[str, str]] | None:
        """Return a client's person, token and options, after TLS; None if it only cancels."""
        secured = False
        while True:
            # The first message has no type.
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            if not 8 <= length <= 8192:
                raise MessageError
            content = Reader(await reader.readexactly(length - 4))
            code = content.long()
            if code not in {_SSL, _GSS}:
                break
            if await _waiting(reader):
                raise MessageError  # what came in the clear must not be taken for what comes after TLS
            # Encryption by GSSAPI is not offered; the client then goes on with TLS or without.
            begin = code == _SSL and self._tls is not None and not secured
            writer.write(b"S" if begin else b"N")
            await writer.drain()
            if begin and self._tls is not None:
                await writer.start_tls(self._tls)
                secured = True
        # A cancel needs no sign-in, since only the client knows its key. The protocol has no reply to it.
        if code == _CANCEL:
            conversation = self._keys.get((content.long(), content.long()))
            if conversation is not None and conversation.request:
                with contextlib.suppress(HushError):
                    conversation.analyst.cancel(conversation.request)
            return None
        # The upper half is the major version; a newer minor version is negotiated below.
        if code >> 16 != _VERSION >> 16:
            raise _FatalError("Only version 3.0 of the protocol is spoken here.", "08P01")
        if not secured and not self._clear:
            raise _FatalError("Connect with TLS: sslmode=require.", "28000")
        options: dict[str, str] = {}
        while content.more and (name := content.text()):
            options[name] = content.text()
        newer = [name for name in options if name.startswith("_pq_.")]
        if code != _VERSION or newer:  # the client goes on with what is spoken here
            writer.write(message(b"v", struct.pack("!ii", _VERSION, len(newer)) + texts(*newer)))
        self._service.rates.check(Rate.PG_CONNECTIONS, _address(writer))
        # AuthenticationCleartextPassword: the token is the password, inside TLS or on this machine alone.
        writer.write(message(b"R", struct.pack("!i", 3)))
        await writer.drain()
        kind, password = await _read(reader)
        if kind != b"p":
            raise MessageError
        token = Reader(password).text()
        person = await asyncio.to_thread(self._service.people.token, token)
        if person is None or person.name != options.get("user") or Role.ANALYST not in person.roles:
            self._service.failures.note(options.get("user", ""), _address(writer), "sql door")
            raise _FatalError(_WRONG, "28P01")
        # AuthenticationOk.
        writer.write(message(b"R", struct.pack("!i", 0)))
        return person, token, options

    def _kept(self) -> int:
        return sum(conversation.kept() for conversation in self._keys.values())


async def _waiting(reader: asyncio.StreamReader) -> bool:
    """Return whether further bytes have arrived; a client that asks for TLS must wait for the reply."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            return bool(await reader.read(1))
    return False


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    if not 4 <= length <= messages.LONGEST:
        raise MessageError
    return kind, await reader.readexactly(length - 4)


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else "local"


def _fatal(text: str, code: str) -> bytes:
    return messages.error(text, code=code, severity="FATAL")
