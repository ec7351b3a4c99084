"""A service in a thread of its own, on a port of the system's choosing, and curators that ask it over the network."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hush.client import RemoteCurator, connect
from hush.ledger import Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server import app
from hush.server.auth.people import People
from hush.server.middleware import LimitedProtocol
from hush.server.settings import ServiceSettings

_TYPES = {
    pa.int64(): "integer",
    pa.float64(): "decimal",
    pa.string(): "text",
    pa.date32(): "date",
    pa.bool_(): "boolean",
}


@contextmanager
def running(settings: ServiceSettings, *, tls: tuple[str, str] = ("", "")) -> Iterator[str]:
    """Run a service, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app(settings),
            http=LimitedProtocol,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ssl_certfile=tls[0] or None,
            ssl_keyfile=tls[1] or None,
            lifespan="on",
            ws="none",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        try:
            yield f"http{'s' if tls[0] else ''}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


def clinic_with(
    folder: Path,
    frame: pa.Table,
    *,
    budget: Any,
    unit: str | None = None,
    bounds: Mapping[str, Sequence[Any]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    max_rows: int = 1,
    max_groups: int = 1,
    neighbours: str = "add-remove",
    roles: Sequence[Role] = (Role.OWNER, Role.ANALYST),
) -> Path:
    """Write what `hush.protect` is told of a frame as a policy, with its ledger and one person called me."""
    pq.write_table(frame, folder / "data.parquet")
    limit = budget if isinstance(budget, Mapping) else {"epsilon": budget}
    shown = "{ " + ", ".join(f'{name} = "{amount}"' for name, amount in limit.items()) + " }"
    lines = ["[data.data]", f'neighbours = "{neighbours}"', f"budget = {shown}"]
    lines += [f'unit = "{unit}"'] if unit else []
    lines += ["[data.data.tables.data]", 'source = "data.parquet"', f"max_rows = {max_rows}"]
    lines += [f"max_groups = {max_groups}"]
    for column in frame.schema:
        if column.name == unit:
            continue
        parts = [f'type = "{_TYPES[column.type]}"']
        if column.name in (bounds or {}):
            lower, upper, *step = (bounds or {})[column.name]
            parts += [f"lower = {_toml(lower)}", f"upper = {_toml(upper)}", *(f'step = "{one}"' for one in step)]
        if column.name in (values or {}):
            listed = (values or {})[column.name]
            parts.append(f"values = [{', '.join(repr(value) for value in listed if value is not None)}]")
            parts += ["nullable = true"] if None in listed else []
        lines.append(f"columns.{column.name} = {{ {', '.join(parts)} }}")
    lines += ["[analysts.me]", 'data = ["data"]', f"budget = {shown}"]
    policy = folder / "hush.toml"
    policy.write_text("\n".join(lines), encoding="utf-8")
    make_ledger(Policy.read(policy), anchor="none").close()
    people = People(folder / "hush.people")
    people.add("me", roles=roles)
    people.close()
    return policy


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@contextmanager
def protected_elsewhere(folder: Path, frame: pa.Table, **options: Any) -> Iterator[RemoteCurator]:
    """Do what `hush.protect` does with a frame, behind a service, and give a curator that asks it."""
    policy = clinic_with(folder, frame, **options)
    people = People(folder / "hush.people")
    secret = people.make_token("me")[1]
    people.close()
    settings = ServiceSettings(policy=str(policy), people=str(folder / "hush.people"), tick=0)
    with running(settings) as address, connect(address, token=secret) as curator:
        yield curator


def certificate(folder: Path) -> tuple[str, str]:
    """Write a certificate of this machine, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return str(files[0]), str(files[1])
