"""The socket of the SQL door: TLS, who comes, and messages in their order.

A client says who it is and shows a token as its password. Passwords travel in the clear inside the connection, so
beyond this machine there is TLS or no talk at all. Whatever is wrong with name or token, the reply is the same.

A connection that has not signed in within some seconds is closed; so is one that says nothing for an hour, or sends
what is no message, or whose token was revoked or has expired.
Who comes too often waits, as at the other doors of the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import ssl
import struct
from collections.abc import Mapping

from hush.core import HushError
from hush.core.values import dataclass
from hush.ledger import Role
from hush.server.door import messages
from hush.server.door.catalogue_rows import PARAMETERS
from hush.server.door.conversation import Conversation
from hush.server.door.messages import MessageError, Reader, message, texts
from hush.server.door.settings import from_start
from hush.server.questions import check_rate
from hush.server.service import Service
from hush.server.settings import is_loopback
from hush.server.traffic import Rate

_log = logging.getLogger("hush.server.door")
_VERSION, _SSL, _GSS, _CANCEL = 196_608, 80_877_103, 80_877_104, 80_877_102
_SIGN_IN, _IDLE, _STALLED, _PARTING = 15.0, 3600.0, 300.0, 2.0
_MOST, _EACH = 200, 40
"""How many connections a worker keeps, and how many of one person."""
_GONE = "The service is ending."
_WRONG = "Sign in with your name and a token of yours as the password."


class Door:
    """Listens, and talks with those who come."""

    def __init__(self, service: Service, *, tls: ssl.SSLContext | None = None, clear: bool = False) -> None:
        """``clear`` allows connections without TLS: only where the socket is this machine's alone."""
        self._service, self._tls, self._clear = service, tls, clear
        self._server: asyncio.Server | None = None
        self._talking: dict[asyncio.Task[None], Conversation | None] = {}
        """Who has come, and what they say once they are known."""
        self._ending = False
        self._keys: dict[tuple[int, int], Conversation] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        """One for each person: of all of their connections one statement about the catalogue runs at a time."""

    async def open(self, listener: socket.socket) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._come, sock=listener, limit=messages.LONGEST + 5)

    async def close(self) -> None:
        """Stop listening, and end all conversations: those with a question at work once it is answered."""
        self._ending = True
        if self._server is not None:
            self._server.close()
        asked = [task for task, conversation in self._talking.items() if conversation and conversation.request]
        for task in self._talking.keys() - asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked, timeout=self._service.settings.limit + _PARTING)
        for task in self._talking:
            task.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        self._talking[task] = None
        try:
            if len(self._talking) > _MOST:
                writer.write(_fatal("Too many connections; try again soon.", "53300"))
            else:
                await self._talk(reader, writer)
            await writer.drain()
        except MessageError:
            writer.write(
                _fatal(f"This is no message of the protocol, or one beyond {messages.LONGEST} bytes.", "08P01")
            )
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError, HushError):
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

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_SIGN_IN):
            token, options = await self._sign_in(reader, writer)
        who = None if token is None else await asyncio.to_thread(self._service.people.token, token)
        if token is None or who is None:
            return
        if sum(other.who.name == who.name for other in self._keys.values()) >= _EACH:
            writer.write(_fatal(f"You have {_EACH} connections; close some.", "53300"))
            return
        key = secrets.randbelow(2**31), secrets.randbelow(2**31)
        turn = self._turns.setdefault(who.name, asyncio.Lock())
        conversation = Conversation(self._service, who, turn, session=f"door-{secrets.token_hex(12)}")
        try:
            conversation.first = from_start(options)
            conversation.settings = dict(conversation.first)
        except HushError as error:
            writer.write(_fatal(str(error), "22023"))
            return
        self._keys[key] = conversation
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - we are in one
        self._talking[task] = conversation
        try:
            for name, value in PARAMETERS.items():
                if name in {"search_path", "max_identifier_length", "transaction_isolation"}:
                    continue
                writer.write(message(b"S", texts(name, value)))
            writer.write(message(b"K", struct.pack("!II", *key)) + conversation.ready())
            await writer.drain()
            while True:
                async with asyncio.timeout(_IDLE):
                    kind, content = await _read(reader)
                if kind == b"X":
                    return
                still = await asyncio.to_thread(self._service.people.token, token)
                if still is None or Role.ANALYST not in still.roles:  # revoked or expired since, as at the other doors
                    writer.write(_fatal(_WRONG, "28000"))
                    return
                conversation.who = still
                writer.write(await conversation.hear(kind, content))
                async with asyncio.timeout(_STALLED):  # a client that takes nothing does not keep its rows here
                    await writer.drain()
                if self._ending:
                    writer.write(_fatal(_GONE, "57P01"))
                    return
        finally:
            del self._keys[key]
            conversation.close()

    async def _sign_in(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str | None, dict[str, str]]:
        """Return the token of who comes and what they set, after TLS; None if they are refused or came to cancel."""
        secured = False
        while True:
            content = await _start(reader)
            code = content.long()
            if code in {_SSL, _GSS} and await _waiting(reader):
                raise MessageError  # what came in the clear must not be taken for what comes after TLS
            if code == _SSL:
                writer.write(b"S" if self._tls is not None and not secured else b"N")
                await writer.drain()
                if self._tls is not None and not secured:
                    await writer.start_tls(self._tls)
                    secured = True
                continue
            if code == _GSS:
                writer.write(b"N")
                await writer.drain()
                continue
            if code == _CANCEL:
                self._cancel(content.long(), content.long())
                return None, {}
            break
        if code >> 16 != _VERSION >> 16:
            writer.write(_fatal("Only version 3.0 of the protocol is spoken here.", "08P01"))
            return None, {}
        if not secured and not self._clear:
            writer.write(_fatal("Connect with TLS: sslmode=require.", "28000"))
            return None, {}
        options: dict[str, str] = {}
        while content.more and (name := content.text()):
            options[name] = content.text()
        newer = [name for name in options if name.startswith("_pq_.")]
        if code != _VERSION or newer:  # the client goes on with what is spoken here
            writer.write(message(b"v", struct.pack("!ii", _VERSION, len(newer)) + texts(*newer)))
        return await self._identify(options, reader, writer), options

    async def _identify(
        self, options: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str | None:
        peer = writer.get_extra_info("peername")
        address = peer[0] if isinstance(peer, tuple) else "local"
        try:
            check_rate(self._service.traffic, Rate.DOORS, address)
        except HushError as error:
            writer.write(_fatal(str(error), "53300"))
            return None
        writer.write(message(b"R", struct.pack("!i", 3)))
        await writer.drain()
        kind, shown = await _read(reader)
        if kind != b"p":
            raise MessageError
        token = Reader(shown).text()
        who = await asyncio.to_thread(self._service.people.token, token)
        if who is None or who.name != options.get("user") or Role.ANALYST not in who.roles:
            writer.write(_fatal(_WRONG, "28P01"))
            return None
        writer.write(message(b"R", struct.pack("!i", 0)))
        return token

    def _cancel(self, process: int, secret: int) -> None:
        conversation = self._keys.get((process, secret))
        if conversation is not None and conversation.request:
            with contextlib.suppress(HushError):
                self._service.cancel(conversation.who, conversation.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSocket:
    """Where the door is, and its certificate."""

    listener: socket.socket
    certificate: str | None = None
    key: str | None = None

    async def open(self, service: Service) -> Door:
        """Begin to listen; without a certificate only this machine may come."""
        tls = None if self.certificate is None else tls_context(self.certificate, self.key or self.certificate)
        address = self.listener.getsockname()
        alone = not isinstance(address, tuple) or is_loopback(str(address[0]))
        door = Door(service, tls=tls, clear=alone)
        await door.open(self.listener)
        return door


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return what TLS needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


async def _start(reader: asyncio.StreamReader) -> Reader:
    """Read the first message, which has no type."""
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    if not 8 <= length <= 8192:
        raise MessageError
    return Reader(await reader.readexactly(length - 4))


async def _waiting(reader: asyncio.StreamReader) -> bool:
    """Return whether more has come already; a client that asks for TLS waits for the reply."""
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


def _fatal(text: str, code: str) -> bytes:
    return messages.error(text, code=code, severity="FATAL")
