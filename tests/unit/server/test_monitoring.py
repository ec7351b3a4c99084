"""What owners do stands in the ledger's chain, with who did it, and on the page Audit."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hush.cli import run
from hush.ledger import Act, Actor
from hush.policy.file import Policy
from hush.policy.ledger import open_ledger
from hush.server import monitoring
from hush.server.auth.people import FailedSignIn, People
from hush.server.rate_limits import RateLimits

OLGA = Actor.owner("olga")


def acts(clinic: Path) -> list[Act]:
    with open_ledger(Policy.read(clinic)) as ledger:
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
    for _ in range(50):  # the file is looked at twice a second, and read in the background
        time.sleep(0.6)
        assert browser.get("/api/v1/data", headers=alice).status_code == 200
        if len(policies()) > 1:
            break
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


def test_everything_done_and_every_failed_sign_in_is_exported_as_lines(
    browser: TestClient, people: People, alice: dict[str, str], clinic: Path, tmp_path: Path
) -> None:
    people.set_password("olga", "correct horse battery")
    for name in ("olga", "olga", "my password by mistake"):
        browser.post("/sign-in", data={"name": name, "password": "wrong"})
    browser.post("/welcome/not-a-link")
    browser.get("/api/v1/me", headers={"authorization": "Bearer nonsense"})
    browser.post("/api/v1/ask", json={"question": "SELECT COUNT(*) FROM visits", "epsilon": "1"}, headers=alice)
    browser.app._service.failures.write()
    file = tmp_path / "audit.jsonl"
    assert run(["people", "audit", str(file), "--policy", str(clinic), "--json"]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["when"] for line in lines] == sorted(line["when"] for line in lines)
    failed = {(line["person"], line["way"]): line["number"] for line in lines if line["kind"] == "failed-sign-in"}
    assert failed == {("olga", "password"): 2, ("", "password"): 1, ("", "link"): 1, ("", "token"): 1}
    assert "my password" not in text
    assert "nonsense" not in text
    assert {line["act"] for line in lines if line["kind"] == "act"} >= {"ledger", "data", "act"}
    (charge,) = [line for line in lines if line["kind"] == "charge"]
    assert (charge["analyst"], charge["outcome"]) == ("alice", "answered")
    assert run(["people", "audit", str(file), "--policy", str(clinic)]) == 2  # nothing is written over


def test_wrong_passwords_and_refused_attempts_are_failed_sign_ins_too(
    browser: TestClient, people: People, alice: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen session that guesses the old password, and attempts that a rate limit refuses, are in the audit."""
    people.set_password("alice", "correct horse battery")
    body = {"old": "wrong", "new": "another horse battery"}
    assert browser.put("/api/v1/password", json=body, headers=alice).status_code == 403
    page = browser.post("/account", data={"act": "password", **body}, headers=alice)
    assert page.status_code == 422

    def refuse(*_: object, **__: object) -> float:
        return 1.0

    monkeypatch.setattr(RateLimits, "visit", refuse)
    assert browser.post("/welcome/not-a-link").status_code == 429
    browser.app._service.failures.write()
    failures = {(failed.person, failed.way): number for failed, number in people.failures().items()}
    assert failures == {("alice", "password"): 2, ("", "too many"): 1}


def test_a_flood_of_failures_is_counted_in_bounded_room(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "_MOST", 3)
    counts = monitoring.FailureCounts(people)
    for at in range(20):
        counts.note("alice", f"10.0.0.{at}", "password")
    counts.write()
    counts.note("alice", "10.0.0.0", "password")
    counts.write()
    found = people.failures()
    assert {failed.address: number for failed, number in found.items()} == {
        "10.0.0.0": 2, "10.0.0.1": 1, "10.0.0.2": 1, "others": 17,
    }  # fmt: skip
    monkeypatch.setattr("hush.server.auth.people._FAILURES", 2)
    people.fail({FailedSignIn(f"2030-01-0{at}T00:00:00Z", "", "10.0.0.1", "link"): 1 for at in range(1, 6)})
    assert len(people.failures()) <= 2
