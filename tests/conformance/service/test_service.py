"""A service whose people lie in either store: two workers of it know the same, and owners' acts reach the ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from served import clinic_with
from starlette.testclient import TestClient

from hush.core import HushError
from hush.ledger import Actor, Role
from hush.policy.file import Policy
from hush.policy.ledger import open_ledger
from hush.server import app
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings, people_of


def test_two_workers_share_people_queue_and_rates(place: str, tmp_path: Path) -> None:
    policy = clinic_with(tmp_path, pa.table({"age": [1, 2, 3]}), bounds={"age": (0, 9)}, budget="100")
    settings = ServiceSettings(policy=str(policy), people=place, tick=0)
    with closing(People(place)) as people:
        people.add("me", roles=[Role.ANALYST, Role.OWNER])
        token = people.make_token("me", scopes=["read", "ask", "own"])[1]
    shown = {"authorization": f"Bearer {token}"}
    first, second = (TestClient(app(settings), base_url="http://localhost") for _ in range(2))
    with first, second:
        body = {"question": "SELECT COUNT(*) AS n FROM data", "epsilon": "1", "request": "r"}
        answers = [worker.post("/api/v1/ask", json=body, headers=shown) for worker in (first, second)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json()["rows"] == answers[1].json()["rows"]
        made = first.post("/api/v1/tokens", json={"label": "x", "scopes": ["read"], "days": 1}, headers=shown).json()
        child = {"authorization": f"Bearer {made['token']}"}
        assert second.get("/api/v1/me", headers=child).status_code == 200
        assert first.delete(f"/api/v1/tokens/{made['id']}", headers=shown).status_code == 204
        assert second.get("/api/v1/me", headers=child).status_code == 401
        assert second.get("/audit", headers=shown).text.count("a token") >= 2
    with open_ledger(Policy.read(policy)) as ledger:
        told = [str(act) for act in ledger.acts(Actor.owner("me"))]
    assert f"revoked a token of me (id: {made['id']})" in told


def test_a_store_that_cannot_be_reached_tells_nothing_of_itself(
    server: str, other_database: str, tmp_path: Path
) -> None:

    policy = clinic_with(tmp_path, pa.table({"age": [1]}), bounds={"age": (0, 9)}, budget="1")
    settings = ServiceSettings(policy=str(policy), people=other_database, tick=0)
    with TestClient(app(settings), base_url="http://localhost") as client:
        with psycopg.connect(server, autocommit=True) as connection:
            found = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'hush_tokens'").fetchall()
            for (schema,) in found:
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE')
        told = client.get("/api/v1/me", headers={"authorization": "Bearer hush_x"})
        assert told.status_code == 503
        assert "postgresql" not in told.text
        assert "hush_tokens" not in told.text


def test_people_lie_beside_a_ledger_in_a_database(tmp_path: Path) -> None:
    policy = clinic_with(tmp_path, pa.table({"age": [1]}), bounds={"age": (0, 9)}, budget="1")
    assert people_of(policy) == str(tmp_path / "hush.people")
    text = policy.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("ledger")]
    policy.write_text("\n".join(['ledger = "postgresql://db.example/hush"', *lines]), encoding="utf-8")
    assert people_of(policy) == str(tmp_path / "hush.people")  # who has a file keeps it
    (tmp_path / "hush.people").unlink()
    assert people_of(policy) == "postgresql://db.example/hush"
    policy.write_text("this is no policy", encoding="utf-8")
    assert people_of(policy) == str(tmp_path / "hush.people")
    with pytest.raises(HushError):
        Policy.read(policy)
