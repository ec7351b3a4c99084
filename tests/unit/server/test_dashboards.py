"""Dashboards: pinned, refreshed as one plan, shared with those who may see them, and nobody else's."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from hush.curator import pipeline
from hush.ledger import Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server import app
from hush.server.auth.people import People
from hush.server.dashboards import Dashboard, DashboardStore, Tile
from hush.server.questions import Turn
from hush.server.settings import ServiceSettings

COUNT = "SELECT COUNT(*) AS n\nFROM visits\nWHERE age > {}"
CITIES = "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city"


def signed_in(browser, people: People, name: str) -> dict[str, str]:
    """Sign somebody in, and return what forms must carry."""
    browser.cookies.set("hush", people.begin_session(name))
    return {"form_token": re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)[1]}


def bearer(people: People, name: str, *scopes: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {people.make_token(name, scopes=scopes or ('read', 'ask'))[1]}"}


def asked(browser, token: dict[str, str], question: str, epsilon: str = "0.5") -> str:
    body = {"question": question, "epsilon": epsilon}
    return browser.post("/api/v1/ask", json=body, headers=token).json()["receipt"]


def shares(browser, token: dict[str, str]) -> dict[str, float]:
    accounts = browser.get("/api/v1/budget", headers=token).json()["accounts"]
    return {account["analyst"] or "everybody": account["spent"]["share"] for account in accounts}


@pytest.fixture
def dashboard(browser, people, alice) -> str:
    """The address of a dashboard of alice's with three tiles, of which two ask the same."""
    form = signed_in(browser, people, "alice")
    place = browser.post("/dashboards", data={**form, "title": "Visits <b>", "data": "clinic"}).headers["location"]
    receipts = [asked(browser, alice, COUNT.format(30)), asked(browser, alice, CITIES), asked(browser, alice, CITIES)]
    for receipt in receipts:
        pinned = browser.post("/dashboards/pin", data={**form, "dashboard": place[12:], "receipt": receipt})
        assert pinned.headers["location"] == place
    return place


@pytest.fixture
def sharing(clinic) -> None:
    """The owner lets analysts have each other's answers, and there is a second data set with an analyst of its own."""
    text = clinic.read_text(encoding="utf-8").replace('unit = "id"\n', 'unit = "id"\nshare = true\n')
    text += """
[data.other]
unit = "id"
budget = { epsilon = "5" }
[data.other.tables.stays]
source = "stays.csv"

columns.age = { type = "integer", lower = 0, upper = 100 }
[analysts.eve]
data = ["other"]
budget = { epsilon = "1" }
"""
    clinic.write_text(text, encoding="utf-8")
    (clinic.parent / "stays.csv").write_text("id,age\n1,20\n2,40\n", encoding="utf-8")
    make_ledger(Policy.read(clinic)).close()


def offer(browser, place: str) -> dict[str, str]:
    """Return the request and the priced plan of the form that shows the price."""
    fields = re.findall(r'name="(request|priced)" value="(\w+)"', browser.get(f"{place}?refresh=1").text)
    return dict(fields)


def answers(page: str) -> list[str]:
    return re.findall(r"<tbody>.*?</tbody>", page, flags=re.DOTALL)


def test_tiles_are_pinned_refreshed_once_and_agree(browser, people, alice, dashboard: str) -> None:
    form = signed_in(browser, people, "alice")
    page = browser.get(dashboard).text
    assert page.count('class="panel tile"') == 3
    assert "Visits &lt;b&gt;" in page
    assert "FROM visits\nWHERE age" in page
    before = shares(browser, alice)
    offered = browser.get(f"{dashboard}?refresh=1").text
    assert "2 questions for 3 tiles" in offered
    assert "at most ε 1 (the tiles one by one: ε 1.5)" in offered
    assert shares(browser, alice) == before  # looking never spends
    refresh = {**form, **offer(browser, dashboard), "request": "refresh one"}
    assert browser.post(f"{dashboard}/refresh", data=refresh).headers["location"] == dashboard
    after = shares(browser, alice)
    assert after["alice"] > before["alice"]
    fresh = browser.get(dashboard).text
    tables = answers(fresh)
    assert tables[1] == tables[2]
    assert tables != answers(page)
    assert browser.post(f"{dashboard}/refresh", data=refresh).status_code == 303  # a second click is free
    assert shares(browser, alice) == after
    assert answers(browser.get(dashboard).text) == tables
    (charge,) = [made for made in browser.get("/history.json").json()["releases"] if "DASHBOARD" in made["question"]]
    assert CITIES in charge["question"]
    assert browser.get("/history").text.count('href="/dashboards">dashboards') == 1
    place = f"/answers/{charge['number']}"
    assert f'href="{place}">See the answers' in browser.get(f"/receipts/{charge['number']}").text
    browser.post(dashboard, data={**form, "act": "remove"})
    assert answers(browser.get(place).text) == tables  # what was paid for can be seen without the dashboard
    assert [browser.get(f"{place}.csv?place={tile}").status_code for tile in range(5)] == [404, 200, 200, 200, 404]
    assert browser.get(f"{place}.json?place=2").json()["columns"] == ["city", "visits"]
    assert place in browser.get(f"/api/v1{place}", headers=alice).json()["detail"]
    signed_in(browser, people, "bob")
    assert browser.get(place).status_code == 404


def test_what_is_too_dear_is_not_begun(browser, people, dashboard: str) -> None:
    form = signed_in(browser, people, "alice")
    token = bearer(people, "alice")
    dear = asked(browser, token, COUNT.format(50), "30")
    browser.post("/dashboards/pin", data={**form, "dashboard": dashboard[12:], "receipt": dear})
    before = shares(browser, token)
    assert "disabled" in browser.get(f"{dashboard}?refresh=1").text
    refused = browser.post(f"{dashboard}/refresh", data={**form, **offer(browser, dashboard)})
    assert refused.status_code == 402
    assert shares(browser, token) == before
    assert "DASHBOARD" not in browser.get("/history.json").text


def test_nobody_else_sees_or_changes_it(browser, people, dashboard: str) -> None:
    signed_in(browser, people, "alice")
    token = re.findall(r'name="tile" value="(\w+)"', browser.get(dashboard).text)[0]
    for name in ("bob", "olga"):
        form = signed_in(browser, people, name)
        refused = {403} if name == "olga" else {404}
        assert {browser.get(dashboard).status_code, browser.get(f"{dashboard}?refresh=1").status_code} == refused
        for place, fields in (
            (dashboard, {"act": "remove"}),
            (dashboard, {"act": "unpin", "tile": token}),
            (dashboard, {"act": "readers", "readers": name}),
            (f"{dashboard}/refresh", {"request": "x"}),
            (f"{dashboard}/read", {"request": "x"}),
            ("/dashboards/pin", {"dashboard": dashboard[12:], "receipt": "1"}),
        ):
            assert {browser.post(place, data={**form, **fields}).status_code} == refused
    form = signed_in(browser, people, "bob")
    assert dashboard not in browser.get("/dashboards").text
    receipt = asked(browser, bearer(people, "alice"), COUNT.format(1))
    assert browser.post("/dashboards/pin", data={**form, "receipt": receipt}).status_code == 404
    browser.cookies.clear()
    reader = bearer(people, "alice", "read")
    assert browser.post(f"{dashboard}/refresh", data={"request": "x"}, headers=reader).status_code == 403
    assert browser.get(dashboard).headers["location"] == "/sign-in"


def test_it_is_not_shared_where_the_owner_shares_no_answers(browser, people, dashboard: str) -> None:
    form = signed_in(browser, people, "alice")
    refused = browser.post(dashboard, data={**form, "act": "readers", "readers": "bob"})
    assert refused.status_code == 403
    assert "share = true" in refused.text
    signed_in(browser, people, "bob")
    assert browser.get(dashboard).status_code == 404


@pytest.mark.usefixtures("sharing")
def test_a_reader_pays_from_their_own_account_alone(settings: ServiceSettings, people: People) -> None:
    people.add("eve", roles=[Role.ANALYST])
    people.add("carl", roles=[Role.ANALYST])
    with TestClient(app(settings), base_url="http://localhost", follow_redirects=False) as browser:
        alice, bob = bearer(people, "alice"), bearer(people, "bob")
        form = signed_in(browser, people, "alice")
        receipt = asked(browser, alice, CITIES, "0.2")
        place = browser.post("/dashboards/pin", data={**form, "receipt": receipt}).headers["location"]
        for stranger in ("eve", "carl"):
            refused = browser.post(place, data={**form, "act": "readers", "readers": stranger})
            assert "analysts of clinic" in refused.text
        assert browser.post(place, data={**form, "act": "readers", "readers": "bob"}).status_code == 303
        other = signed_in(browser, people, "bob")
        assert "has not refreshed it yet" in browser.get(place).text  # the pinned answer is alice's alone
        assert answers(browser.get(place).text) == []
        assert browser.post(f"{place}/read", data={**other, "request": "early"}).status_code == 403
        form = signed_in(browser, people, "alice")
        browser.post(f"{place}/refresh", data={**form, **offer(browser, place)})
        released = answers(browser.get(place).text)
        other = signed_in(browser, people, "bob")
        page = browser.get(place).text
        assert "not read yet" in page
        assert answers(page) == []
        assert browser.post(f"{place}/refresh", data={**other, "request": "x"}).status_code == 403
        assert browser.post(place, data={**other, "act": "remove"}).status_code == 403
        before = shares(browser, bob)
        assert browser.post(f"{place}/read", data={**other, **(priced := offer(browser, place))}).status_code == 303
        after = shares(browser, bob)
        assert after["everybody"] == before["everybody"]
        assert after["bob"] > before["bob"]
        assert answers(browser.get(place).text) == released
        assert browser.post(f"{place}/read", data={**other, **priced, "request": "again"}).status_code == 303
        assert shares(browser, bob) == after
        signed_in(browser, people, "alice")
        browser.post(place, data={**form, "act": "readers", "readers": "analysts"})
        signed_in(browser, people, "eve")
        assert browser.get(place).status_code == 404  # an analyst of another data set
        assert place not in browser.get("/dashboards").text


def charges(browser, token: dict[str, str]) -> list[tuple[str, str]]:
    """Return the ε and the outcome of somebody's charges of dashboards, the oldest first."""
    made = browser.get("/api/v1/history", headers=token).json()["releases"]
    return [(charge["epsilon"], charge["outcome"]) for charge in reversed(made) if "DASHBOARD" in charge["question"]]


def pinned(browser, people: People, *asked_for: tuple[str, str], share: str = "bob") -> str:
    """Return the address of a new dashboard of alice's with answers to questions, each at its ε."""
    form = signed_in(browser, people, "alice")
    place = browser.post("/dashboards", data={**form, "title": "Visits", "data": "clinic"}).headers["location"]
    for question, epsilon in asked_for:
        receipt = asked(browser, bearer(people, "alice"), question, epsilon)
        browser.post("/dashboards/pin", data={**form, "dashboard": place[12:], "receipt": receipt})
    if share:
        browser.post(place, data={**form, "act": "readers", "readers": share})
    return place


def paid(browser, people: People, name: str, place: str, offered: dict[str, str] | None = None):
    """Let somebody pay for a dashboard, as its page offers it now or offered it before, and return the reply."""
    form = signed_in(browser, people, name)
    how = "refresh" if name == "alice" else "read"
    return browser.post(f"{place}/{how}", data={**form, **(offered or offer(browser, place))})


def without_dearest(browser, people: People, place: str) -> None:
    """Let alice take her first tile off."""
    form = signed_in(browser, people, "alice")
    first = re.findall(r'name="tile" value="(\w+)"', browser.get(place).text)[0]
    assert browser.post(place, data={**form, "act": "unpin", "tile": first}).status_code == 303


@pytest.fixture
def ask_first(sharing, clinic) -> None:  # noqa: ARG001 - it writes the policy first
    """Questions of bob's above ε = 0.3, and of alice's above ε = 2, wait for the owner."""
    text = clinic.read_text(encoding="utf-8")
    text = text.replace('budget = { epsilon = "1" }', 'budget = { epsilon = "1" }\nask_first = { epsilon = "0.3" }', 1)
    text = text.replace('budget = { epsilon = "40"', 'ask_first = { epsilon = "2" }\nbudget = { epsilon = "40"', 1)
    clinic.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("ask_first")
def test_the_owner_is_asked_about_the_price_that_a_reader_pays(browser, people, olga) -> None:
    """The maker takes the dearest tile off after the refresh: the reader would still pay for its answer."""
    bob = bearer(people, "bob")
    place = pinned(browser, people, (CITIES, "0.9"), (CITIES, "0.2"))
    assert paid(browser, people, "alice", place).status_code == 303
    without_dearest(browser, people, place)
    signed_in(browser, people, "bob")
    assert "Read all for ε 0.9<" in browser.get(f"{place}?refresh=1").text
    for _ in range(2):
        refused = paid(browser, people, "bob", place)
        assert (refused.status_code, charges(browser, bob)) == (409, [])
    (waiting,) = browser.get("/api/v1/requests", headers=bob).json()["requests"]
    assert waiting["epsilon"] == "9/10"
    decision = f"/api/v1/requests/{waiting['number']}/decision"
    assert browser.post(decision, json={"approve": True}, headers=olga).status_code == 200
    assert f'href="{place}?refresh=1">ask it now' in browser.get("/requests").text
    assert paid(browser, people, "bob", place).status_code == 303
    assert charges(browser, bob) == [("0.9", "shared")]


@pytest.mark.usefixtures("sharing")
def test_a_reader_pays_the_price_that_was_shown_or_nothing(browser, people) -> None:
    bob = bearer(people, "bob")
    place = pinned(browser, people, (CITIES, "0.7"), (COUNT.format(3), "0.01"))
    assert paid(browser, people, "alice", place).status_code == 303
    without_dearest(browser, people, place)
    signed_in(browser, people, "bob")
    page = browser.get(f"{place}?refresh=1").text
    assert "Read all for ε 0.71<" in page
    assert "takes 71% of bob&#39;s budget" in page
    offered = offer(browser, place)
    assert paid(browser, people, "alice", place).status_code == 303  # a newer refresh, at another price
    refused = paid(browser, people, "bob", place, offered)
    assert refused.status_code == 409
    assert "Read all for ε 0.01<" in refused.text
    assert charges(browser, bob) == []
    assert paid(browser, people, "bob", place).status_code == 303
    assert charges(browser, bob) == [("0.01", "shared")]
    assert shares(browser, bob)["bob"] == pytest.approx(0.01)


def test_a_refresh_pays_the_price_that_was_shown_or_nothing(browser, people, alice) -> None:
    place = pinned(browser, people, (CITIES, "0.15"), share="")
    offered = offer(browser, place)
    form = signed_in(browser, people, "alice")
    dear = asked(browser, alice, COUNT.format(3), "1.05")
    browser.post("/dashboards/pin", data={**form, "dashboard": place[12:], "receipt": dear})
    refused = paid(browser, people, "alice", place, offered)
    assert refused.status_code == 409
    assert "Refresh all for ε 1.2<" in refused.text
    without_request = {"priced": offer(browser, place)["priced"]}
    assert paid(browser, people, "alice", place, without_request).status_code == 422
    assert charges(browser, alice) == []


@pytest.mark.usefixtures("ask_first")
def test_an_approved_refresh_is_made_however_often_it_was_tried(browser, people, alice, olga) -> None:
    place = pinned(browser, people, (CITIES, "1.5"), (COUNT.format(3), "1"))
    for _ in range(2):
        assert paid(browser, people, "alice", place).status_code == 409
    (waiting,) = browser.get("/api/v1/requests", headers=alice).json()["requests"]
    decision = f"/api/v1/requests/{waiting['number']}/decision"
    assert browser.post(decision, json={"approve": True}, headers=olga).status_code == 200
    assert f'href="{place}?refresh=1">ask it now' in browser.get("/requests").text
    assert paid(browser, people, "alice", place).status_code == 303
    assert charges(browser, alice) == [("2.5", "answered")]
    assert paid(browser, people, "alice", place).status_code == 409  # an approval is good for one refresh
    without_dearest(browser, people, place)
    assert 'href="/dashboards">ask it now' not in browser.get("/requests").text


@pytest.mark.usefixtures("sharing")
def test_an_older_request_that_is_sent_again_leaves_a_newer_refresh(browser, people, alice) -> None:
    place = pinned(browser, people, (CITIES, "0.1"))
    older = offer(browser, place)
    assert paid(browser, people, "alice", place, older).status_code == 303
    assert paid(browser, people, "alice", place).status_code == 303
    newest = answers(browser.get(place).text)
    assert paid(browser, people, "bob", place).status_code == 303
    assert paid(browser, people, "alice", place, older).status_code == 303
    assert answers(browser.get(place).text) == newest
    assert len(charges(browser, alice)) == 2
    signed_in(browser, people, "bob")
    assert answers(browser.get(place).text) == newest  # the reader keeps what they paid for


TERMS: list[dict[str, object]] = [
    {"question": CITIES, "max_rows": 1, "max_groups": 1},
    {"question": CITIES, "confidence": "0.8"},
    {"question": "SELECT street, COUNT(*) AS n FROM visits GROUP BY street", "keys": "private", "delta": "1e-8"},
    {"question": "SELECT COUNT(*) AS n FROM visits WHERE day >= $1", "parameters": [{"date": "2025-03-01"}]},
    {"question": "SELECT TOP 2 city, COUNT(*) AS [the n] FROM visits GROUP BY city", "dialect": "tsql"},
]


def test_a_refresh_asks_on_the_terms_of_the_pinned_answers(browser, people, alice) -> None:
    place = pinned(browser, people, share="")
    form = signed_in(browser, people, "alice")
    before = []
    for terms in TERMS:
        answer = browser.post("/api/v1/ask", json={**terms, "epsilon": "0.5"}, headers=alice).json()
        reply = browser.post("/dashboards/pin", data={**form, "dashboard": place[12:], "receipt": answer["receipt"]})
        assert reply.status_code == 303
        before.append(answer)
    assert "ε 2.5, δ 1e-8 for keys" in browser.get(f"{place}?refresh=1").text
    assert paid(browser, people, "alice", place).status_code == 303
    number = browser.get("/history.json").json()["releases"][0]["number"]
    for at, answer in enumerate(before, start=1):
        again = browser.get(f"/answers/{number}.json?place={at}").json()
        same = ("columns", "confidence", "price", "caveats")
        assert {name: again[name] for name in same} == {name: answer[name] for name in same}
    assert "max_rows=1, max_groups=1" in browser.get(f"/receipts/{number}").text


def test_an_answer_without_its_terms_is_not_pinned(browser, people, alice, monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "_kept_terms", lambda *_: None)  # as answers of earlier versions have none
    receipt = asked(browser, alice, CITIES)
    form = signed_in(browser, people, "alice")
    refused = browser.post("/dashboards/pin", data={**form, "receipt": receipt})
    assert refused.status_code == 422
    assert "Ask the question afresh" in refused.text


def test_a_plan_that_takes_longer_than_the_limit_is_refused_before_the_charge(browser, people, alice) -> None:
    place = pinned(browser, people, *[(COUNT.format(age), "0.1") for age in range(5)], share="")
    service = browser.app._service
    service.settings = replace(service.settings, limit=0.1)  # longer than each of the five should take
    refused = paid(browser, people, "alice", place)
    assert refused.status_code == 422
    assert "answered within 0.1 s" in refused.text
    assert "with fewer tiles" in refused.text
    assert charges(browser, alice) == []


@pytest.mark.usefixtures("sharing")
def test_a_reader_does_not_see_who_else_reads(browser, people) -> None:
    place = pinned(browser, people, (CITIES, "0.1"), share="alice, bob")
    assert "for alice, bob" in browser.get(place).text
    signed_in(browser, people, "bob")
    for page in (browser.get(place).text, browser.get("/dashboards").text):
        assert "alice, bob" not in page
        assert "you" in page


def test_tiles_are_taken_off_and_a_dashboard_is_removed(browser, people, alice, dashboard: str) -> None:
    form = signed_in(browser, people, "alice")
    first, *_ = re.findall(r'name="tile" value="(\w+)"', browser.get(dashboard).text)
    browser.post(f"{dashboard}/refresh", data={**form, **offer(browser, dashboard)})
    before = answers(browser.get(dashboard).text)
    browser.post(dashboard, data={**form, "act": "unpin", "tile": first})
    assert answers(browser.get(dashboard).text) == before[1:]
    late = asked(browser, alice, COUNT.format(70))
    browser.post("/dashboards/pin", data={**form, "dashboard": dashboard[12:], "receipt": late})
    assert answers(browser.get(dashboard).text)[:2] == before[1:]
    assert browser.post(dashboard, data={**form, "act": "remove"}).headers["location"] == "/dashboards"
    assert browser.get(dashboard).status_code == 404


def test_dashboards_go_with_their_maker_and_are_in_a_copy(people, tmp_path) -> None:
    tile = Tile(question=CITIES, epsilon="0.1", receipt=3)
    made = Dashboard(identity="a", maker="alice", title="t", data="clinic", tiles=(tile,), paid={"alice": 4})
    DashboardStore(people.storage).add(made)
    people.backup(tmp_path / "copy")
    copy = People(tmp_path / "copy")
    assert DashboardStore(copy.storage).all() == [made]
    copy.close()
    people.remove("alice")
    assert DashboardStore(people.storage).all() == []


def test_a_refresh_leaves_at_a_slot_however_long_rows_are_read(settings, people, monkeypatch) -> None:
    """All of its questions are one piece of work: the reply waits for the tick, not for the rows."""
    tick, begun = 0.5, []
    original = Turn.begin
    monkeypatch.setattr(Turn, "begin", lambda turn, *how: (begun.append(time.monotonic()), original(turn, *how))[1])
    with TestClient(app(replace(settings, tick=tick)), base_url="http://localhost", follow_redirects=False) as browser:
        form, alice = signed_in(browser, people, "alice"), bearer(people, "alice")
        first, second = asked(browser, alice, CITIES), asked(browser, alice, COUNT.format(3))
        place = browser.post("/dashboards/pin", data={**form, "receipt": first}).headers["location"]
        browser.post("/dashboards/pin", data={**form, "dashboard": place[12:], "receipt": second})
        paid = {**form, **offer(browser, place)}
        begun.clear()
        assert browser.post(f"{place}/refresh", data=paid).status_code == 303
        assert len(begun) == 1
        assert time.monotonic() - begun[0] >= tick
