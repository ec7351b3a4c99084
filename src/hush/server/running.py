"""Starting a service: its workers, its first person, and where it may listen.

Beyond this machine a service listens only with TLS, its own or that of a proxy in front of it: tokens and sessions must
not travel in the clear. Workers share one socket and the stores; the ledger keeps them from overspending.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server import app
from hush.server.people import People
from hush.server.settings import VARIABLE, Settings, is_loopback

log = logging.getLogger("hush.server")


def from_environment() -> ASGIApp:
    """Return the application of a worker, whose settings its parent left in the environment."""
    return app(Settings.from_json(os.environ[VARIABLE]))


def check_address(host: str, *, certificate: str | None, behind_proxy: str | None) -> None:
    """Refuse to listen where tokens would travel in the clear."""
    if not is_loopback(host) and certificate is None and behind_proxy is None:
        raise InvalidValueError(
            "--host",
            got=host,
            allowed="an address of this machine alone, such as 127.0.0.1, unless there is TLS",
            hint="Give --tls-certificate and --tls-key, or --behind-proxy ADDRESS if a proxy in front has TLS.",
        )


def first_link(settings: Settings, name: str = "owner", roles: tuple[Role, ...] = (Role.OWNER,)) -> str | None:
    """Return the secret of a link for the first owner; None if there is an owner already who can sign in."""
    people = People(settings.people)
    try:
        known = people.names()
        if any(Role.OWNER in held for held in known.values()) and people.can_sign_in():
            return None
        if name not in known:
            people.add(name, roles=roles)
        return people.make_link(name)
    finally:
        people.close()


def serve(
    settings: Settings,
    *,
    listener: socket.socket,
    workers: int = 1,
    certificate: str | None = None,
    key: str | None = None,
    behind_proxy: str | None = None,
    ready: Callable[[], Any] = lambda: None,
) -> None:
    """Run workers on a bound socket until the process is told to end."""
    import uvicorn

    Path(settings.traffic).unlink(missing_ok=True)
    os.environ[VARIABLE] = settings.to_json()
    config = uvicorn.Config(
        "hush.server.running:from_environment",
        factory=True,
        workers=workers,
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
        lifespan="on",
        http="h11",
        ws="none",
    )
    ready()
    if workers == 1:
        with suppress(KeyboardInterrupt):
            asyncio.run(uvicorn.Server(config).serve([listener]))
        return
    from uvicorn.supervisors import Multiprocess

    Multiprocess(config, target=uvicorn.Server(config).run, sockets=[listener]).run()
