"""Requests over the network: a dear question or a larger budget waits, an owner decides, and the rest sees nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from served import running

from hush.client import connect
from hush.core import BudgetExceededError, InvalidValueError
from hush.curator.opening import open_policy
from hush.ledger import ApprovalNeededError, Ledger, LedgerError, Role
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings


def bearer(people: People, name: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {people.make_token(name)[1]}"}


COUNT = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}


@pytest.fixture
def clinic(clinic: Path) -> Path:
    """A policy in which alice's dearer questions wait."""
    text = clinic.read_text(encoding="utf-8")
    clinic.write_text(
        text.replace('budget = { epsilon = "40"', 'ask_first = { epsilon = "0.5" }\nbudget = { epsilon = "40"')
    )
    return clinic


def test_what_the_budget_does_not_hold_is_refused_and_does_not_wait(browser, alice, clinic: Path) -> None:
    told = browser.post("/api/v1/ask", json={**COUNT, "epsilon": "41"}, headers=alice)
    assert (told.status_code, told.json()["code"]) == (402, "budget-exceeded")
    with open_policy(clinic, analyst="alice") as curator, pytest.raises(BudgetExceededError) as refused:
        curator.ask(COUNT["question"], epsilon="41")
    assert told.json()["detail"] == str(refused.value)
    assert browser.get("/api/v1/requests", headers=alice).json() == {"requests": []}


def test_a_dear_question_waits_is_approved_and_is_asked_once(browser, alice, olga, people: People) -> None:
    assert browser.post("/api/v1/ask", json={**COUNT, "epsilon": "0.5"}, headers=alice).status_code == 200
    told = browser.post("/api/v1/ask", json={**COUNT, "reason": "yearly report"}, headers=alice)
    assert (told.status_code, told.json()["code"]) == (409, "approval-needed")
    number = told.json()["request"]
    (mine,) = browser.get("/api/v1/requests", headers=alice).json()["requests"]
    assert (mine["number"], mine["state"], mine["reason"], mine["epsilon"]) == (number, "waiting", "yearly report", "1")
    assert browser.get("/api/v1/requests", headers=bearer(people, "bob")).json() == {"requests": []}
    decision = f"/api/v1/requests/{number}/decision"
    assert browser.post(decision, json={"approve": True}, headers=alice).status_code == 403
    approved = browser.post(decision, json={"approve": True, "reason": "fine"}, headers=olga)
    assert (approved.status_code, approved.json()["state"], approved.json()["why"]) == (200, "approved", "fine")
    assert browser.post(decision, json={"approve": False}, headers=olga).status_code == 409
    assert browser.post("/api/v1/ask", json=COUNT, headers=alice).status_code == 200
    assert browser.post("/api/v1/ask", json={**COUNT, "fresh": True}, headers=alice).status_code == 409
    assert browser.post("/api/v1/requests/1/decision", json={"approve": True}, headers=olga).status_code == 404


def test_a_larger_budget_is_asked_for_and_granted_in_ledger_and_policy(browser, olga, people, clinic: Path) -> None:
    bob = bearer(people, "bob")
    assert browser.post("/api/v1/ask", json=COUNT, headers=bob).status_code == 200
    assert browser.post("/api/v1/requests", json={"epsilon": "1"}, headers=bob).status_code == 422
    made = browser.post("/api/v1/requests", json={"epsilon": "1.5", "reason": "one more"}, headers=bob)
    assert (made.status_code, made.json()["wanted"]) == (201, "3/2")
    assert browser.post("/api/v1/requests", json={"epsilon": "2"}, headers=bob).status_code == 409
    before = clinic.read_text(encoding="utf-8")
    number = made.json()["number"]
    assert browser.post(f"/api/v1/requests/{number}/decision", json={"approve": True}, headers=olga).status_code == 200
    assert clinic.read_text(encoding="utf-8") == before.replace('{ epsilon = "1" }', '{ epsilon = "1.5" }')
    asked = {**COUNT, "epsilon": "0.5", "fresh": True}
    assert browser.post("/api/v1/ask", json=asked, headers=bob).status_code == 200  # the policy was read again
    own = [held for held in browser.get("/api/v1/budget", headers=bob).json()["accounts"] if held["analyst"] == "bob"]
    assert (own[0]["budget"]["epsilon"], own[0]["remaining"]["epsilon"]) == ("1.5", "0")


def test_before_the_first_charge_the_policy_alone_is_raised(browser, olga, people) -> None:
    bob = bearer(people, "bob")
    number = browser.post("/api/v1/requests", json={"epsilon": "3"}, headers=bob).json()["number"]
    assert browser.post(f"/api/v1/requests/{number}/decision", json={"approve": True}, headers=olga).status_code == 200
    assert browser.post("/api/v1/ask", json={**COUNT, "epsilon": "3"}, headers=bob).status_code == 200


def test_a_policy_that_cannot_be_changed_safely_decides_nothing(browser, olga, people, clinic: Path) -> None:
    text = clinic.read_text(encoding="utf-8")
    head, _ = text.split("[analysts.bob]")
    quoted = '[analysts.bob]\ndata = ["clinic"]\nbudget = { "epsilon" = "1" }\n'
    clinic.write_text(head + quoted, encoding="utf-8")
    browser.app._service.policy.look_again()
    bob = bearer(people, "bob")
    number = browser.post("/api/v1/requests", json={"epsilon": "3"}, headers=bob).json()["number"]
    told = browser.post(f"/api/v1/requests/{number}/decision", json={"approve": True}, headers=olga)
    assert (told.status_code, told.json()["code"]) == (422, "policy-edit")
    assert browser.get("/api/v1/requests", headers=bob).json()["requests"][0]["state"] == "waiting"


def test_what_another_owner_writes_into_the_policy_meanwhile_stays(browser, olga, people, clinic, monkeypatch) -> None:
    bob = bearer(people, "bob")
    number = browser.post("/api/v1/requests", json={"epsilon": "3"}, headers=bob).json()["number"]
    before, decide = clinic.read_text(encoding="utf-8"), Ledger.decide

    def meanwhile(*arguments, **options) -> None:
        decide(*arguments, **options)
        clinic.write_text(before.replace("max_groups = 2", "max_groups = 1"), encoding="utf-8")

    monkeypatch.setattr(Ledger, "decide", meanwhile)
    assert browser.post(f"/api/v1/requests/{number}/decision", json={"approve": True}, headers=olga).status_code == 200
    wanted = before.replace("max_groups = 2", "max_groups = 1").replace('{ epsilon = "1" }', '{ epsilon = "3" }')
    assert clinic.read_text(encoding="utf-8") == wanted


def test_a_client_asks_waits_and_decides(settings: ServiceSettings, people: People) -> None:
    secrets = [people.make_token(name, scopes=("read", "ask", "own"))[1] for name in ("alice", "olga")]
    with running(settings) as address:
        alice, olga = (connect(address, token=secret) for secret in secrets)
        with pytest.raises(ApprovalNeededError, match="need the owner's approval") as parked:
            alice.ask(COUNT["question"], epsilon=1, reason="why not")
        assert [request.number for request in alice.requests()] == [parked.value.number]
        assert olga.requests() == alice.requests()
        assert olga.decide(parked.value.number, approve=True).state == "approved"
        assert alice.ask(COUNT["question"], epsilon=1).receipt
        wish = alice.request(epsilon=41, reason="more")
        assert (wish.wanted, wish.state, str(wish).split("  ")[2]) == (
            "41",
            "waiting",
            "alice on clinic, a budget of ε=41; more",
        )
        assert olga.decide(wish.number, approve=False, reason="no").why == "no"
        with pytest.raises(InvalidValueError, match="more than the present budget, 40"):
            alice.request(epsilon=40)
        with pytest.raises(LedgerError, match="declined already"):
            olga.decide(wish.number, approve=True)
        alice.close()
        olga.close()


def test_an_owners_token_that_only_reads_sees_nobodys_requests(browser, alice, olga, people: People) -> None:
    asked = {**COUNT, "reason": "for a yearly report"}
    assert browser.post("/api/v1/ask", json=asked, headers=alice).status_code == 409
    assert asked["reason"] in browser.get("/requests", headers=olga).text
    reading = {"authorization": f"Bearer {people.make_token('olga', scopes=['read'])[1]}"}
    assert browser.get("/api/v1/requests", headers=reading).json() == {"requests": []}
    assert asked["reason"] not in browser.get("/requests", headers=reading).text


def signed_in(browser, people: People, name: str) -> str:
    """Sign somebody in, and return what forms must carry."""
    browser.cookies.set("hush", people.begin_session(name))
    return re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)[1]


def test_the_page_shows_an_owner_what_waits_and_an_analyst_what_became_of_it(browser, people: People) -> None:
    form = {"form_token": signed_in(browser, people, "alice")}
    asked = {**form, "q": COUNT["question"], "epsilon": "1", "reason": "<b>yearly</b>"}
    told = browser.post("/ask", data=asked)
    assert (told.status_code, "See what waits for the owner" in told.text) == (409, True)
    assert browser.post("/requests", data={**form, "data": "clinic", "epsilon": "50"}).status_code == 303
    assert browser.post("/requests", data={**form, "data": "clinic", "epsilon": "x"}).status_code == 422
    form = {"form_token": signed_in(browser, people, "olga")}
    page = browser.get("/requests").text
    assert '<span class="badge">2<' in page
    assert "ε 40 → 50" in page
    assert "&lt;b&gt;yearly" in page
    assert "Expected error of n" in page
    numbers = sorted(set(map(int, re.findall(r'action="/requests/(\d+)"', page))))
    for number, act in zip(numbers, ("approve", "decline"), strict=True):
        assert browser.post(f"/requests/{number}", data={**form, "act": act, "reason": "so be it"}).status_code == 303
    assert browser.post(f"/requests/{numbers[0]}", data={**form, "act": "approve"}).status_code == 409
    form = {"form_token": signed_in(browser, people, "alice")}
    page = browser.get("/requests").text
    assert "approved by olga: so be it" in page
    assert "ask it now" in page
    assert browser.post(f"/requests/{numbers[0]}", data={**form, "act": "approve"}).status_code == 403
    assert browser.post("/ask", data={**form, "q": COUNT["question"], "epsilon": "1"}).status_code == 303


def test_an_owner_who_is_an_analyst_sees_both(browser, people: People) -> None:
    people.add("both", roles=[Role.OWNER, Role.ANALYST])
    signed_in(browser, people, "both")
    assert "Nothing waits for you" in browser.get("/requests").text
