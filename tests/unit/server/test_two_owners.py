"""Where raises and edits take two owners, one alone changes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from hush.ledger import Role
from hush.server import app
from hush.server.auth.people import PROPOSAL, People, acting
from hush.server.settings import ServiceSettings

OWN = ("read", "ask", "own")


@pytest.fixture
def settings(settings: ServiceSettings) -> ServiceSettings:
    return replace(settings, two_owners=True)


def shown(people: People, name: str, *scopes: str) -> dict[str, str]:
    return {"authorization": f"Bearer {people.make_token(name, scopes=scopes or ('read', 'ask'))[1]}"}


def test_a_raise_holds_once_a_second_owner_approves_it(
    browser: TestClient, people: People, olga: dict[str, str], clinic: Path
) -> None:
    people.add("otto", roles=[Role.OWNER])
    otto, before = shown(people, "otto", *OWN), clinic.read_text(encoding="utf-8")
    wish = browser.post("/api/v1/requests", json={"epsilon": "1.5"}, headers=shown(people, "bob")).json()
    decision = f"/api/v1/requests/{wish['number']}/decision"
    for _ in range(2):  # the same owner twice is one owner
        told = browser.post(decision, json={"approve": True}, headers=olga)
        assert (told.status_code, told.json()["code"]) == (409, "second-owner")
    assert clinic.read_text(encoding="utf-8") == before
    people.set_roles("olga", roles=[Role.ANALYST])  # the word of who is no owner any more counts no longer
    assert browser.post(decision, json={"approve": True}, headers=otto).status_code == 409
    people.set_roles("olga", roles=[Role.OWNER])
    assert browser.post(decision, json={"approve": True}, headers=olga).status_code == 200
    assert '{ epsilon = "1.5" }' in clinic.read_text(encoding="utf-8")
    acts = browser.get("/audit", headers=olga).text
    assert acts.count("proposed (") == 2
    assert acts.count("confirmed the proposal of otto") == 1
    agreements = re.findall(r'"by">([^<]*)</td><td [^>]*>(proposed|confirmed the proposal of \w+) \(', acts)
    assert set(agreements) == {("olga", "proposed"), ("otto", "proposed"), ("olga", "confirmed the proposal of otto")}


def test_an_edit_of_the_policy_is_shown_to_the_second_owner_and_confirmed(
    settings: ServiceSettings, people: People, clinic: Path
) -> None:
    people.add("otto", roles=[Role.OWNER])
    before = clinic.read_text(encoding="utf-8")
    text = before.replace('epsilon = "40"', 'epsilon = "45"')
    with TestClient(app(settings), base_url="http://localhost", follow_redirects=False):
        browsers = {}
        for name in ("olga", "otto"):
            browsers[name] = TestClient(app(settings), base_url="http://localhost", follow_redirects=False)
            assert browsers[name].post(f"/welcome/{people.make_link(name)}").status_code == 303

        def save(name: str, policy: str) -> str:
            token = re.findall(r'name="form_token" value="(\w+)"', browsers[name].get("/data").text)[0]
            return browsers[name].post("/data/policy", data={"policy": policy, "form_token": token}).text

        assert "This takes two owners" in save("olga", text)
        assert "This takes two owners" in save("otto", text.replace("45", "46"))  # another edit is not the same
        assert clinic.read_text(encoding="utf-8") == before
        page = browsers["otto"].get("/data").text
        assert "Proposed by olga" in page
        assert "+budget = { epsilon = &#34;45&#34;" in page
        assert "Saved." in save("otto", text.replace("\n", "\r\n"))
        assert clinic.read_text(encoding="utf-8") == text
        assert "Proposed by" not in browsers["olga"].get("/data").text  # of another policy than the one in force


def test_no_owner_makes_themselves_a_second_one(browser: TestClient, people: People, olga: dict[str, str]) -> None:
    people.add("otto", roles=[Role.OWNER])
    for path, body in (("people", {"name": "puppet", "roles": ["owner"]}), ("people/otto/links", None)):
        told = browser.post(f"/api/v1/{path}", json=body, headers=olga)
        assert (told.status_code, told.json()["code"]) == (422, "people")
    assert "puppet" not in people.names()
    assert browser.post("/api/v1/people/olga/links", headers=olga).status_code == 201
    assert browser.post("/api/v1/people/alice/links", headers=olga).status_code == 201


def test_an_owner_is_removed_by_two_owners_only(browser: TestClient, people: People, olga: dict[str, str]) -> None:
    for name in ("otto", "oskar"):
        people.add(name, roles=[Role.OWNER])
    for _ in range(2):  # the same owner twice is one owner
        told = browser.delete("/api/v1/people/otto", headers=olga)
        assert (told.status_code, told.json()["code"]) == (409, "second-owner")
    assert "otto" in people.names()
    assert browser.delete("/api/v1/people/otto", headers=shown(people, "oskar", *OWN)).status_code == 204
    assert "otto" not in people.names()
    assert browser.delete("/api/v1/people/bob", headers=olga).status_code == 204  # an analyst takes one
    people.remove("oskar")  # at the machine one is enough


def test_a_proposal_lapses() -> None:
    moment = [0.0]
    people = People(":memory:", clock=lambda: moment[0])
    for name in ("olga", "otto"):
        people.add(name, roles=[Role.OWNER])
    with acting("olga"):
        assert not people.agreed("olga", "raise", "x")
    moment[0] += PROPOSAL + 1
    assert people.proposals("raise") == []
    assert not people.agreed("otto", "raise", "x")
    assert people.agreed("olga", "raise", "x")


def test_a_question_that_waits_takes_two_owners_too(
    clinic: Path, settings: ServiceSettings, people: People, olga: dict[str, str]
) -> None:
    text = clinic.read_text(encoding="utf-8")
    waits = 'ask_first = { epsilon = "0.5" }\nbudget = { epsilon = "40"'
    clinic.write_text(text.replace('budget = { epsilon = "40"', waits), encoding="utf-8")
    people.add("otto", roles=[Role.OWNER])
    alice, otto = shown(people, "alice"), shown(people, "otto", *OWN)
    count = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}
    with TestClient(app(settings), base_url="http://localhost") as browser:
        number = browser.post("/api/v1/ask", json=count, headers=alice).json()["request"]
        decision = f"/api/v1/requests/{number}/decision"
        assert browser.post(decision, json={"approve": True}, headers=olga).status_code == 409
        assert browser.post("/api/v1/ask", json=count, headers=alice).status_code == 409
        assert browser.post(decision, json={"approve": True}, headers=otto).status_code == 200
        assert browser.post("/api/v1/ask", json=count, headers=alice).status_code == 200
