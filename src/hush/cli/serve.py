"""``hush serve``: put a curator on the network, with an API and a page."""

from __future__ import annotations

import logging
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hush.cli.demo import write_hospital
from hush.cli.options import POLICY, JsonOption, StoreOption
from hush.cli.output import console, print_json
from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.ledger import Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger


def serve(
    policy: Annotated[Path, Argument(metavar="[POLICY]", help="The policy file.")] = POLICY,
    demo: Annotated[bool, Option("--demo", help="Serve a synthetic hospital, gone at the end.")] = False,
    host: Annotated[str, Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, Option(help="The port; 0 for any free one.", min=0, max=65535)] = 8000,
    workers: Annotated[int, Option(help="How many processes.", min=1, max=64)] = 1,
    people: StoreOption = None,
    tick: Annotated[float, Option(metavar="SECONDS", help="No outcome leaves earlier; 0: no slots.")] = 0.1,
    limit: Annotated[float, Option(metavar="SECONDS", help="How long a question may take.")] = 30.0,
    memory: Annotated[str, Option(metavar="SIZE", help="What an engine may use, such as 2GB.")] = "",
    quota: Annotated[str, Option(metavar="SIZE", help="What ledger, streams and people may take on disk.")] = "",
    threads: Annotated[int, Option(help="Threads of an engine; 0 for its own choice.", min=0, max=1024)] = 0,
    at_once: Annotated[int, Option(help="Questions that a worker computes at once.", min=1, max=1024)] = 2,
    queue: Annotated[int, Option(help="Questions that may wait, on all workers.", min=1, max=100_000)] = 256,
    each: Annotated[int, Option(help="Of these, everybody's part.", min=1, max=100_000)] = 32,
    certificate: Annotated[str | None, Option("--tls-certificate", metavar="FILE", help="For https.")] = None,
    key: Annotated[str | None, Option("--tls-key", metavar="FILE", help="The certificate's key.")] = None,
    behind_proxy: Annotated[
        str | None, Option(metavar="ADDRESS,…", help="Proxies with TLS whose X-Forwarded headers are believed.")
    ] = None,
    oidc: Annotated[Path | None, Option(metavar="FILE", help="A TOML file: sign in at its OpenID provider.")] = None,
    two_owners: Annotated[bool, Option("--two-owners", help="A second owner confirms raises and edits.")] = False,
    pg: Annotated[
        int | None, Option(metavar="PORT", help="Speak PostgreSQL's protocol here, too.", min=0, max=65535)
    ] = None,
    mcp: Annotated[bool, Option("--mcp", help="Also let language models ask, at /mcp.")] = False,
    host_name: Annotated[
        list[str] | None, Option(metavar="NAME", help="A name under which the service is addressed; repeat.")
    ] = None,
    metrics_port: Annotated[
        int | None, Option(metavar="PORT", help="Show metrics at 127.0.0.1:PORT/metrics, to owners' tokens.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Serve a policy's data sets over HTTP: an API for programs (/api/v1) and pages for people. The first start prints
    a one-time link for the owner.

    Examples:

        hush serve                                     the policy hush.toml, at http://127.0.0.1:8000
        hush serve --demo                              a hospital that never was, to try everything
        hush serve --pg 5433                           also for psql, DBeaver, Metabase, pandas, Excel
        hush serve --mcp                               also for language models, at /mcp
        hush serve --workers 2 --host 0.0.0.0 --tls-certificate cert.pem --tls-key key.pem
        hush serve --host 0.0.0.0 --behind-proxy 10.0.0.2

    Beyond this machine it listens only with TLS, its own or that of a proxy. It makes no ledger: hush ledger open does.
    """
    for module in ("argon2", "jinja2", "pydantic", "python_multipart", "starlette", "uvicorn"):
        optional(module, "server")
    if mcp:
        optional("mcp", "mcp")
    from hush.server import workers as service
    from hush.server.settings import ServiceSettings, is_loopback, people_of

    if oidc is not None:
        from hush.server.auth.oidc import OidcSettings, OpenIdProvider

        OpenIdProvider(OidcSettings.read(oidc))  # a mistake in it is told here, not by a worker
    service.check_address(host, certificate=certificate, behind_proxy=behind_proxy)
    logging.getLogger("hush.server").setLevel(logging.WARNING)
    with ExitStack() as stack:
        if demo:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hush-demo-")))
            write_hospital(folder)
            policy, people = folder / "hush.toml", None
            make_ledger(Policy.read(policy), anchor="none").close()
        secure = certificate is not None or behind_proxy is not None
        names = tuple(host_name or ()) or (("localhost", "127.0.0.1", "[::1]") if is_loopback(host) else ())
        settings = ServiceSettings(
            policy=str(policy), people=str(people or people_of(policy)), tick=tick, limit=limit, memory=memory,
            quota=quota, threads=threads, at_once=at_once, queue=queue, each=each, two_owners=two_owners, mcp=mcp,
            oidc="" if oidc is None else str(oidc.resolve()), secure=secure, hosts=names,
        )  # fmt: skip
        if policy.exists():  # else the owner makes one on the page
            Policy.read(policy)  # a mistake in it is told here, not by a worker
        listener = stack.enter_context(_listening(host, port))
        bound = listener.getsockname()[1]
        address = f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{bound}"
        roles = (Role.OWNER, Role.ANALYST) if demo else (Role.OWNER,)
        link = service.first_link(settings, "alice" if demo else "owner", roles)

        pg_listener = None if pg is None else stack.enter_context(_listening(host, pg))
        sql = None if pg_listener is None else f"{host}:{pg_listener.getsockname()[1]}"
        if as_json:
            print_json({"address": address, "sql": sql, "link": None if link is None else f"{address}/welcome/{link}"})
        else:
            out = console()
            out.print(f"hush serves {policy} at {address}; stop with Ctrl-C.")
            if link is not None:
                out.print(f"This link signs the owner in once, within a day: {address}/welcome/{link}", soft_wrap=True)
            if mcp:
                out.print(f"Language models ask at {address}/mcp, with a token.")
            if sql is not None:
                out.print(f"psql and other tools of PostgreSQL find it at {sql}; the password is a token.")
        sys.stdout.flush()
        service.serve(
            settings, listener=listener, pg=pg_listener, workers=workers, certificate=certificate, key=key,
            behind_proxy=behind_proxy, metrics_port=metrics_port,
        )  # fmt: skip


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        allowed = f"an address and a port that are free here ({error.strerror})"
        raise InvalidValueError("--port", got=f"{host}:{port}", allowed=allowed) from None
