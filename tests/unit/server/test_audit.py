"""What owners do stands in the ledger's chain, with who did it, and on the page Audit."""

from __future__ import annotations

import time
from pathlib import Path

from starlette.testclient import TestClient

from hush.curator.data_sets import read_policy
from hush.ledger import Act, Actor
from hush.policy.ledger import open_ledger
from hush.server.people import People

OLGA = Actor.owner("olga")


def acts(clinic: Path) -> list[Act]:
    with open_ledger(read_policy(clinic)) as ledger:
        ledger.verify()
        return [act for act in ledger.acts(OLGA) if act.kind == "act"]


def test_what_is_done_over_the_network_is_told_with_who_did_it(
    browser: TestClient, olga: dict[str, str], alice: dict[str, str], clinic: Path
) -> None:
    made = browser.post("/api/v1/people", json={"name": "carol", "roles": ["analyst"]}, headers=olga)
    assert made.status_code == 201
    token = browser.post("/api/v1/tokens", json={"label": "mine", "scopes": ["read"], "days": 1}, headers=alice).json()
    assert browser.delete(f"/api/v1/tokens/{token['id']}", headers=alice).status_code == 204
    assert browser.delete("/api/v1/people/carol", headers=olga).status_code == 204
    assert browser.delete("/api/v1/people/carol", headers=olga).status_code == 422  # what was refused is no act
    told = [(act.by, str(act)) for act in acts(clinic)]
    assert [line for line in told if line[0] in {"olga", "alice"}] == [
        ("olga", "added carol (roles: analyst)"),
        ("olga", "made a one-time link for carol"),
        ("alice", f"made a token for alice (id: {token['id']}; scopes: read)"),
        ("alice", f"revoked a token of alice (id: {token['id']})"),
        ("olga", "removed carol"),
    ]
    shown = str([act.detail for act in acts(clinic)])
    assert token["token"] not in shown
    assert made.json()["link"].rpartition("/")[2] not in shown


def test_a_policy_that_comes_into_force_is_told_once(browser: TestClient, alice: dict[str, str], clinic: Path) -> None:
    def policies() -> list[str]:
        return [act.detail["of"]["sha256"] for act in acts(clinic) if act.detail["act"] == "policy"]

    assert browser.get("/api/v1/data", headers=alice).status_code == 200
    first = policies()
    assert len(first) == 1
    clinic.write_text(clinic.read_text(encoding="utf-8") + "\n# the same in other words\n", encoding="utf-8")
    time.sleep(0.6)
    assert browser.get("/api/v1/data", headers=alice).status_code == 200
    assert browser.get("/api/v1/data", headers=alice).status_code == 200
    assert len(policies()) == 2
    assert policies()[0] == first[0]


def test_a_revoked_token_takes_along_what_it_made(
    browser: TestClient, olga: dict[str, str], alice: dict[str, str], people: People
) -> None:
    first = browser.post("/api/v1/tokens", json={"label": "a", "scopes": ["read"], "days": 1}, headers=alice).json()
    shown = {"authorization": f"Bearer {first['token']}"}
    second = browser.post("/api/v1/tokens", json={"label": "b", "scopes": ["read"], "days": 1}, headers=shown).json()
    child = {"authorization": f"Bearer {second['token']}"}
    assert browser.get("/api/v1/me", headers=child).status_code == 200
    assert browser.delete(f"/api/v1/tokens/{first['id']}", headers=alice).status_code == 204
    assert [browser.get("/api/v1/me", headers=headers).status_code for headers in (shown, child)] == [401, 401]
    own = people.token(olga["authorization"].removeprefix("Bearer "))
    assert own is not None
    link = browser.post("/api/v1/people/olga/links", headers=olga).json()["link"]
    welcomed = browser.post(link, headers={"sec-fetch-site": "same-origin"})
    assert welcomed.status_code == 303
    assert browser.get("/audit").status_code == 200
    assert people.revoke_token("olga", own.token)
    assert browser.get("/audit").status_code == 303  # the session ended with the token that had made its link


def test_the_page_shows_the_acts(browser: TestClient, olga: dict[str, str]) -> None:
    browser.post("/api/v1/people", json={"name": "carol<b>", "roles": ["analyst"]}, headers=olga)
    page = browser.get("/audit", headers=olga).text
    assert "added carol&lt;b&gt; (roles: analyst)" in page
    assert "the policy came into force" in page
    assert "The chain is whole" in page


def test_acts_wait_until_there_is_a_ledger(
    browser: TestClient, olga: dict[str, str], people: People, clinic: Path
) -> None:
    ledger = clinic.parent / "hush.ledger"
    browser.get("/api/v1/people", headers=olga)
    assert people.outbox() == []
    away = ledger.rename(ledger.with_suffix(".away"))
    assert browser.post("/api/v1/people", json={"name": "carol", "roles": ["analyst"]}, headers=olga).status_code == 201
    away.rename(ledger)
    browser.get("/api/v1/people", headers=olga)
    assert people.outbox() == []
    assert "added carol (roles: analyst)" in [str(act) for act in acts(clinic)]
