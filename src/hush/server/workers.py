"""Starting a service: its workers, its first person, and where it may listen.

Beyond this machine a service listens only with TLS, its own or that of a proxy in front of it: tokens and sessions must
not travel in the clear. Workers share one socket and the stores; the ledger keeps them from overspending.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server import app
from hush.server.auth.people import People
from hush.server.metrics import show_metrics
from hush.server.settings import ServiceSettings, is_loopback
from hush.storage import in_database

log = logging.getLogger("hush.server")


_LOOK = 0.2
"""Seconds between two checks for dead workers."""
_MOST_DEATHS = 10
"""The service ends when more than this number of workers have died within as many seconds."""
_GIVE_BACK = 10
"""Seconds between two returns of memory."""
_M_ARENA_MAX = -8
"""The option of <malloc.h> for the number of memory areas (M_ARENA_MAX)."""
VARIABLE = "HUSH_WORKER"
"""The environment variable with the settings of a worker process."""


def check_address(host: str, *, certificate: str | None, behind_proxy: str | None) -> None:
    """Refuse to listen where tokens would travel in the clear."""
    if not is_loopback(host) and certificate is None and behind_proxy is None:
        raise InvalidValueError(
            "--host",
            got=host,
            allowed="an address of this machine alone, such as 127.0.0.1, unless there is TLS",
            hint="Give --tls-certificate and --tls-key, or --behind-proxy ADDRESS if a proxy in front has TLS.",
        )


def first_link(settings: ServiceSettings, name: str = "owner", roles: tuple[Role, ...] = (Role.OWNER,)) -> str | None:
    """Return the secret of a link for the first owner; None if there is an owner already who can sign in."""
    people = People(settings.people)
    try:
        accounts = people.names()
        if any(Role.OWNER in account_roles for account_roles in accounts.values()) and people.can_sign_in():
            return None
        if name not in accounts:
            people.add(name, roles=roles)
        return people.make_link(name)
    finally:
        people.close()


def serve(
    settings: ServiceSettings,
    *,
    listener: socket.socket,
    pg: socket.socket | None = None,
    workers: int = 1,
    certificate: str | None = None,
    key: str | None = None,
    behind_proxy: str | None = None,
    metrics_port: int | None = None,
) -> None:
    """Run workers on a bound socket until the process is told to end. A worker that died is replaced."""
    _tune()
    if not in_database(settings.shared_state):  # there it may be another host's too
        # Queue, rates and counters of the run before, which may be lost at any time.
        for end in ("", "-wal", "-shm"):
            Path(settings.shared_state + end).unlink(missing_ok=True)
    if metrics_port is not None:
        show_metrics(settings, metrics_port)
    options = {"certificate": certificate, "key": key, "behind_proxy": behind_proxy}
    if workers == 1:
        _work(settings, listener, pg, **options)
    else:
        _Supervisor(settings, listener, pg, options, workers).run()


def _tune() -> None:
    """Limit the memory areas of this process, and how long one thread may keep the others waiting.

    The C library would give every thread an area of memory of its own, each of which keeps what it once needed: after
    some heavy questions a worker then holds twice what it uses. The interpreter would let a thread that computes go on
    for 5 ms at a time before the one that answers the network has its turn.
    """
    sys.setswitchinterval(0.001)
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no such areas
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


_settled = False


async def _give_back() -> None:
    """Return unused memory to the operating system."""
    global _settled  # noqa: PLW0603 - of this process
    if not _settled:  # the first questions have imported and prepared more that stays
        _settled = True
        gc.freeze()
    with suppress(AttributeError, OSError, TypeError):
        await asyncio.to_thread(ctypes.CDLL(None).malloc_trim, 0)


def _work(
    settings: ServiceSettings,
    listener: socket.socket,
    pg: socket.socket | None = None,
    *,
    certificate: str | None = None,
    key: str | None = None,
    behind_proxy: str | None = None,
) -> None:
    """Run one worker until it is told to end."""
    import uvicorn

    from hush.server.middleware import LimitedProtocol

    pg_socket = None
    if pg is not None:
        from hush.server.pgwire.server import PgSocket

        pg_socket = PgSocket(listener=pg, certificate=certificate, key=key)
    config = uvicorn.Config(
        app(settings, pg_socket),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=behind_proxy is not None,
        forwarded_allow_ips=behind_proxy or "",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=int(settings.limit) + 10,
        timeout_keep_alive=30,
        limit_concurrency=2000,
        backlog=512,
        callback_notify=_give_back,
        timeout_notify=_GIVE_BACK,
        lifespan="on",
        http=LimitedProtocol,
        ws="none",
    )
    gc.collect()
    gc.freeze()  # what was made so far stays: the collector, which stops everybody, need not look at it again
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(uvicorn.Server(config).serve([listener]))
    finally:
        gc.unfreeze()


class _Supervisor:
    """Starts worker processes that accept from one socket, replaces those that die, and ends them all in the end."""

    def __init__(
        self,
        settings: ServiceSettings,
        listener: socket.socket,
        pg: socket.socket | None,
        options: dict[str, Any],
        workers: int,
    ) -> None:
        self._sockets = [listener, *([] if pg is None else [pg])]
        self._count = workers
        places = [listening_socket.fileno() for listening_socket in self._sockets]
        self._task = json.dumps({"settings": settings.to_json(), "options": options, "sockets": places})
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ended = False

    def run(self) -> None:
        """Keep the workers at work until a signal to end arrives."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        quick = 0.0
        while not self._ended:
            for process in [dead for dead in self._processes if dead.poll() is not None]:
                self._processes.remove(process)
                quick += 1
                log.warning("a worker ended with status %s, and is replaced", process.returncode)
            if quick > _MOST_DEATHS:
                log.error("workers end as soon as they start")
                break
            while len(self._processes) < self._count and not self._ended:
                self._processes.append(self._started())
            time.sleep(_LOOK)
            # One death a second is tolerated.
            quick = max(0.0, quick - _LOOK)
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "hush.server.workers"],
            pass_fds=[listening_socket.fileno() for listening_socket in self._sockets],
            env={**os.environ, VARIABLE: self._task},
        )

    def _end(self, *_: object) -> None:
        self._ended = True


def _be_worker() -> None:
    _tune()
    task = json.loads(os.environ[VARIABLE])
    logging.getLogger("hush").addHandler(logging.StreamHandler())
    sockets = [socket.socket(fileno=number) for number in task["sockets"]]
    _work(ServiceSettings.from_json(task["settings"]), *sockets, **task["options"])


if __name__ == "__main__":
    _be_worker()
