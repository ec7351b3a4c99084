"""A small clinic behind a service, and programs that talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from argon2 import PasswordHasher
from pg_servers import RunningPgServer
from starlette.testclient import TestClient

from hush.ledger import Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server import app
from hush.server.auth import credentials
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings

POLICY = """
[data.clinic]
unit = "id"
budget = { epsilon = "50", delta = "1e-5" }
[data.clinic.tables.visits]
source = "visits.parquet"
max_rows = 3
max_groups = 2
columns.age  = { type = "integer", lower = 0, upper = 100 }
columns.city = { type = "text", values = ["Oslo", "Bergen", "Tromsø"] }
columns.street = { type = "text" }
columns.day = { type = "date", lower = 2025-01-01, upper = 2025-12-31 }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "40", delta = "1e-6" }
[analysts.bob]
data = ["clinic"]
budget = { epsilon = "1" }
"""
ROWS = 900


def visits() -> pa.Table:
    import datetime as dt

    return pa.table(
        {
            "id": [at // 3 for at in range(ROWS)],
            "age": [at % 80 for at in range(ROWS)],
            "city": [("Oslo", "Bergen")[at % 2] for at in range(ROWS)],
            "street": [f"street {at % 5}" for at in range(ROWS)],
            "day": [dt.date(2025, 1, 1) + dt.timedelta(days=at % 365) for at in range(ROWS)],
        }
    )


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A policy with its data and its ledger."""
    pq.write_table(visits(), tmp_path / "visits.parquet")
    policy = tmp_path / "hush.toml"
    policy.write_text(POLICY, encoding="utf-8")
    make_ledger(Policy.read(policy)).close()
    people = People(tmp_path / "hush.people")
    people.add("olga", roles=[Role.OWNER])
    people.add("alice", roles=[Role.ANALYST])
    people.add("bob", roles=[Role.ANALYST])
    people.close()
    return policy


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords at little cost; `tests/conformance/service` checks what they cost a service."""
    monkeypatch.setattr(credentials, "_hasher", lambda: PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr(credentials, "_stand_in", credentials._stand_in.__wrapped__)  # the cheap one is not kept


@pytest.fixture
def settings(clinic: Path) -> ServiceSettings:
    return ServiceSettings(policy=str(clinic), people=str(clinic.parent / "hush.people"), tick=0.02, limit=20)


@pytest.fixture
def people(settings: ServiceSettings) -> Iterator[People]:
    store = People(settings.people)
    yield store
    store.close()


@pytest.fixture
def browser(settings: ServiceSettings) -> Iterator[TestClient]:
    """Somebody who is not signed in."""
    with TestClient(app(settings), base_url="http://localhost", follow_redirects=False) as client:
        yield client


def bearer(people: People, name: str, *scopes: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {people.make_token(name, scopes=scopes or ('read', 'ask'))[1]}"}


@pytest.fixture
def alice(people: People) -> dict[str, str]:
    return bearer(people, "alice")


@pytest.fixture
def olga(people: People) -> dict[str, str]:
    return bearer(people, "olga", "read", "ask", "own")


@pytest.fixture
def running(settings: ServiceSettings) -> Iterator[RunningPgServer]:
    """The SQL door, on loopback."""
    door = RunningPgServer(settings)
    yield door
    door.close()


@pytest.fixture
def token(people: People) -> str:
    return people.make_token("alice")[1]
