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
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server import app
from hush.server.auth.people import People
from hush.server.monitoring import show_metrics
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
    with closing(People(settings.people)) as people:
        if people.can_sign_in():
            return None
        if name not in people.names():
            people.add(name, roles=roles)
        return people.make_link(name)


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
    sockets = [listener, *([] if pg is None else [pg])]
    if workers == 1:
        _work(settings, sockets, options)
    else:
        _supervise(settings, sockets, options, workers)


def _tune() -> None:
    """Limit the memory areas of this process, and how long one thread may keep the others waiting.

    The C library would give every thread an area of memory of its own, each of which keeps what it once needed: after
    some heavy questions a worker then holds twice what it uses. The interpreter would let a thread that computes go on
    for 5 ms at a time before the one that answers the network has its turn.
    """
    sys.setswitchinterval(0.001)
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no such areas
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


_freeze_once = cache(gc.freeze)


async def _give_back() -> None:
    """Return unused memory to the operating system."""
    _freeze_once()  # the first questions have imported and prepared more that stays
    with suppress(AttributeError, OSError, TypeError):
        await asyncio.to_thread(ctypes.CDLL(None).malloc_trim, 0)


def _work(settings: ServiceSettings, sockets: list[socket.socket], options: Mapping[str, str | None]) -> None:
    """Run one worker until it is told to end."""
    import uvicorn

    from hush.server.middleware import LimitedProtocol

    pg = None
    if sockets[1:]:
        from hush.server.pgwire.server import PgServer

        pg = partial(PgServer, listener=sockets[1], certificate=options["certificate"], key=options["key"])
    config = uvicorn.Config(
        app(settings, pg),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=options["behind_proxy"] is not None,
        forwarded_allow_ips=options["behind_proxy"] or "",
        ssl_certfile=options["certificate"],
        ssl_keyfile=options["key"],
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
            asyncio.run(uvicorn.Server(config).serve(sockets[:1]))
    finally:
        gc.unfreeze()


def _supervise(settings: ServiceSettings, sockets: list[socket.socket], options: dict[str, Any], workers: int) -> None:
    """Start worker processes that accept from the same sockets, replace those that die, and end them on a signal."""
    numbers = [listening_socket.fileno() for listening_socket in sockets]
    task = json.dumps({"settings": asdict(settings), "options": options, "sockets": numbers})
    command, environment = [sys.executable, "-m", "hush.server.workers"], {**os.environ, VARIABLE: task}
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    processes: list[subprocess.Popen[bytes]] = []
    quick = 0.0
    while not ended.is_set():
        for process in [dead for dead in processes if dead.poll() is not None]:
            processes.remove(process)
            quick += 1
            log.warning("a worker ended with status %s, and is replaced", process.returncode)
        if quick > _MOST_DEATHS:
            log.error("workers end as soon as they start")
            break
        while len(processes) < workers and not ended.is_set():
            processes.append(subprocess.Popen(command, pass_fds=numbers, env=environment))
        time.sleep(_LOOK)
        # One death a second is tolerated.
        quick = max(0.0, quick - _LOOK)
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


if __name__ == "__main__":
    _tune()
    task = json.loads(os.environ[VARIABLE])
    logging.getLogger("hush").addHandler(logging.StreamHandler())
    inherited = [socket.socket(fileno=number) for number in task["sockets"]]
    _work(ServiceSettings(**task["settings"]), inherited, task["options"])
