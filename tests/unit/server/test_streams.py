"""Declared streams over the network: declared by owners, released once by whichever worker, read by who may."""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from served import running
from starlette.testclient import TestClient

from hush.client import connect
from hush.core import BudgetExceededError, HushError
from hush.curator import streams as curator_streams
from hush.engines.sql_engine import SqlEngine
from hush.ledger import Actor, Ledger
from hush.server import app, streams
from hush.server.auth.people import People
from hush.server.settings import ServiceSettings

OWNER = Actor.owner("olga")
TODAY = dt.datetime.now(dt.UTC).date()
WEEKLY: dict[str, Any] = {
    "name": "weekly",
    "question": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
    "epsilon": "0.5",
    "every": "week",
    "first": (TODAY - dt.timedelta(days=8)).isoformat(),
    "releases": 4,
}
PERIODS = [(TODAY + dt.timedelta(days=7 * number - 8)).isoformat() for number in range(4)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LOOK", 0.05)


def bearer(people: People, name: str, *scopes: str) -> dict[str, str]:
    return {"authorization": f"Bearer {people.make_token(name, scopes=scopes or ('read', 'ask'))[1]}"}


def states(client: TestClient, headers: dict[str, str], name: str = "weekly") -> list[str]:
    releases = client.get(f"/api/v1/streams/{name}", headers=headers).json()["releases"]
    return [release["state"] for release in releases]


def wait_for(client: TestClient, headers: dict[str, str], wanted: list[str]) -> None:
    """Wait for a state that must come."""
    for _ in range(600):
        if states(client, headers) == wanted:
            return
        time.sleep(0.05)
    assert states(client, headers) == wanted


def test_an_owner_declares_and_analysts_read_what_is_released(browser, alice, olga) -> None:
    told = browser.post("/api/v1/streams/declared/explain", json=WEEKLY, headers=olga)
    assert told.status_code == 200, told.text
    assert told.json()["fits"] is True
    assert browser.get("/api/v1/streams", headers=alice).json() == {"streams": []}
    assert browser.post("/api/v1/streams/declared", json=WEEKLY, headers=alice).status_code == 403
    made = browser.post("/api/v1/streams/declared", json=WEEKLY, headers=olga)
    assert made.status_code == 201, made.text
    wait_for(browser, alice, ["made", "made", "planned", "planned"])
    (view,) = browser.get("/api/v1/streams", headers=alice).json()["streams"]
    assert [release["period"] for release in view["releases"]] == PERIODS
    answer = browser.get(f"/api/v1/streams/weekly/{PERIODS[1]}", headers=alice)
    latest = browser.get("/api/v1/streams/weekly/latest", headers=alice)
    assert answer.json() == latest.json()
    assert answer.json()["columns"] == ["city", "n"]
    assert answer.headers["hush-period"] == latest.headers["hush-period"] == PERIODS[1]
    assert answer.headers["hush-receipt"] == str(view["releases"][1]["receipt"])
    for period in (PERIODS[2], "2020-01-01", "nonsense"):
        assert browser.get(f"/api/v1/streams/weekly/{period}", headers=alice).status_code == 404
    csv = browser.get(f"/api/v1/streams/weekly/{PERIODS[0]}?format=csv", headers=alice)
    assert csv.text.startswith("city,n,n_error")
    series = browser.get("/api/v1/streams/weekly/all", headers=alice).json()
    assert series["columns"] == ["release", "city", "n"]
    assert sorted({row[0] for row in series["rows"]}) == PERIODS[:2]
    accounts = browser.get("/api/v1/budget", headers=alice).json()["accounts"]
    assert [account["set_aside"] > 0 for account in accounts] == [True, False]
    assert [account["spent"]["share"] > 0 for account in accounts] == [True, False]  # nobody's own budget is charged
    assert browser.delete("/api/v1/streams/declared/weekly?reason=enough", headers=alice).status_code == 403
    assert browser.delete("/api/v1/streams/declared/weekly?reason=enough", headers=olga).status_code == 204
    assert browser.delete("/api/v1/streams/declared/weekly", headers=olga).status_code == 409
    assert browser.delete("/api/v1/streams/declared/monthly", headers=olga).status_code == 404
    assert states(browser, alice) == ["made", "made", "ended", "ended"]
    assert browser.get("/api/v1/budget", headers=alice).json()["accounts"][0]["set_aside"] == 0


def test_what_somebody_may_not_read_is_not_there(browser, alice, olga, people: People) -> None:
    bob = bearer(people, "bob")
    for name, readers in (("ours", ["alice"]), ("open", "public")):
        words = {**WEEKLY, "name": name, "readers": readers, "releases": 1}
        assert browser.post("/api/v1/streams/declared", json=words, headers=olga).status_code == 201
    for _ in range(600):
        if states(browser, olga, "ours") == states(browser, olga, "open") == ["made"]:
            break
        time.sleep(0.05)
    names = {
        who: [view["name"] for view in browser.get("/api/v1/streams", headers=headers).json()["streams"]]
        for who, headers in (("alice", alice), ("bob", bob), ("olga", olga), ("nobody", {}))
    }
    assert names == {"alice": ["ours", "open"], "bob": ["open"], "olga": ["ours", "open"], "nobody": ["open"]}
    ours, unknown = (browser.get(f"/api/v1/streams/{name}/latest", headers=bob) for name in ("ours", "none"))
    assert (ours.status_code, ours.json()) == (unknown.status_code, unknown.json())
    assert ours.status_code == 404
    for path in ("/streams/ours/latest", "/streams/none/latest", "/streams/ours"):  # who it may be, signs in first
        assert browser.get(path).headers["location"] == "/sign-in"
        assert browser.get(f"/api/v1{path}").status_code == 401
    page = browser.get("/streams/open/latest")
    assert page.status_code == 200
    assert "Release of" in page.text
    assert browser.get("/streams/open/latest.csv").text.startswith("city,n,n_error")
    assert browser.get("/streams/open.json").json()["name"] == "open"
    assert browser.get("/streams.csv").text.splitlines()[0] == "name,period,slot,state,receipt"
    assert browser.get(f"/streams/open/{PERIODS[0]}.svg").headers["content-type"] == "image/svg+xml"
    assert browser.get("/streams/open/latest.exe").status_code == 404


def test_a_plan_that_does_not_fit_is_refused_with_how_much_would(browser, olga) -> None:
    told = browser.post("/api/v1/streams/declared", json={**WEEKLY, "epsilon": "20", "releases": 9}, headers=olga)
    assert told.status_code == 402
    assert "9 releases at ε=20 each do not fit" in told.json()["detail"]
    assert "; 2 would" in told.json()["detail"]
    for words in (
        {"every": "hour"},
        {"first": "soon"},
        {"rho": "1"},
        {"readers": "nobody"},
        {"readers": ["nobody"]},
        {"question": "SELECT"},
    ):
        assert browser.post("/api/v1/streams/declared", json={**WEEKLY, **words}, headers=olga).status_code == 422


SECTION = f"""
[standing.daily]
sql = "SELECT COUNT(*) AS n FROM visits"
epsilon = "0.25"
every = "day"
first = {(TODAY - dt.timedelta(days=3)).isoformat()}
releases = 10
"""


def test_what_the_policy_names_is_declared_and_workers_release_each_period_once(
    clinic: Path, settings: ServiceSettings, alice: dict[str, str]
) -> None:
    """Four workers look at once; the ledger has one charge for each period."""
    clinic.write_text(clinic.read_text("utf-8") + SECTION, encoding="utf-8")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with TestClient(app(settings), base_url="http://localhost") as client:
                for _ in range(600):
                    listed = client.get("/api/v1/streams", headers=alice).json()["streams"]
                    if listed and [made["state"] for made in listed[0]["releases"]][:4] == ["made"] * 4:
                        return
                    time.sleep(0.05)
                failures.append(TimeoutError(listed))
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        requests = [made.request for made in ledger.history(OWNER)]
        assert len(requests) == len(set(requests)) == 4
        assert ledger.verify().charges == 4


def test_a_failure_is_told_as_failed_at_a_slot_and_stays_charged(
    browser, alice, olga, clinic: Path, settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a row's value")

    monkeypatch.setattr(SqlEngine, "execute", fail)
    assert browser.post("/api/v1/streams/declared", json={**WEEKLY, "releases": 2}, headers=olga).status_code == 201
    wait_for(browser, alice, ["failed", "due"])
    assert streams.AGAIN > 10  # what else is due waits for so long: it would fail alike, and be charged
    page = browser.get("/api/v1/streams/weekly", headers=alice)
    assert "row's value" not in page.text
    for period in ("latest", "all"):
        assert browser.get(f"/api/v1/streams/weekly/{period}", headers=alice).status_code == 404
    assert browser.get("/api/v1/budget", headers=alice).json()["accounts"][0]["spent"]["share"] > 0
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        for made in ledger.history(OWNER):  # it failed at once, and says so no earlier than at its slot
            waited = dt.datetime.fromisoformat(made.finished or "") - dt.datetime.fromisoformat(made.when)
            assert waited.total_seconds() >= settings.tick - 0.005  # the charge itself takes a while to be on the disk


def test_a_quota_stops_releases_before_their_charge(
    settings: ServiceSettings, alice, olga, clinic: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = replace(settings, quota="10KB")
    with TestClient(app(full), base_url="http://localhost") as browser:
        assert browser.post("/api/v1/streams/declared", json=WEEKLY, headers=olga).status_code == 201
        for _ in range(200):
            if "the quota of this service is 10,000" in caplog.text:
                break
            time.sleep(0.05)
        assert "the quota of this service is 10,000" in caplog.text
        assert states(browser, alice) == ["due", "due", "planned", "planned"]
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        assert not ledger.history(OWNER)


def test_the_client_reads_and_owners_declare(settings: ServiceSettings, people: People) -> None:
    with running(settings) as address:
        token = people.make_token("olga", scopes=("read", "ask", "own"))[1]
        words = {name: word for name, word in WEEKLY.items() if name != "question"}
        with connect(address, token=token) as olga:
            told = olga.stream.explain_declaration(WEEKLY["question"], **words)
            assert (told["releases"], told["epsilon"]) == (4, "0.5")
            view = olga.stream.declare(WEEKLY["question"], **words | {"late": "make"})
            assert view.left == 4
            with pytest.raises(BudgetExceededError):
                olga.stream.declare("SELECT COUNT(*) AS n FROM visits", **words | {"name": "big", "epsilon": 50})
        with connect(address, token=people.make_token("alice")[1]) as alice:
            for _ in range(600):
                (view,) = alice.stream.list()
                if view.released == 2:
                    break
                time.sleep(0.05)
            weekly = alice.stream.open("weekly")
            answer = weekly.release()
            assert answer.receipt == view.receipt
            assert answer.to_bytes() == weekly.release(PERIODS[1]).to_bytes()
            assert answer.to_bytes() != weekly.release(PERIODS[0]).to_bytes()
            assert "2 made, 2 to come" in str(view)
            assert alice.budget()[0].set_aside > 0
            with pytest.raises(HushError):
                alice.stream.stop("weekly")
        with connect(address, token=token) as olga:
            olga.stream.stop("weekly", "enough")
            assert olga.stream.list()[0].ended


def signed_in(browser: TestClient, people: People, name: str) -> str:
    """Sign in by a link, and return what forms must carry."""
    browser.post(f"/welcome/{people.make_link(name)}")
    found = re.search(
        r'name="form-token" value="([^"]+)"|name="[^"]*token[^"]*" value="([^"]+)"', browser.get("/streams").text
    )
    assert found is not None
    return next(group for group in found.groups() if group)


def test_owners_declare_and_stop_on_the_page(browser, people: People) -> None:
    token = signed_in(browser, people, "olga")
    field = re.search(rf'name="([^"]+)" value="{re.escape(token)}"', browser.get("/streams").text)
    assert field is not None
    form = {field[1]: token, "amount": "2", "price": "total_epsilon", "late": "skip", "readers": "analysts", "data": ""}
    form |= {name: str(word) for name, word in WEEKLY.items() if name != "epsilon"}
    told = browser.post("/streams/declared/explain", data=form)
    assert told.status_code == 200, told.text
    assert "Before you declare" in told.text
    assert "Expected error of n" in told.text
    wrong = browser.post("/streams/declared", data={**form, "every": "hour"})
    assert wrong.status_code == 422
    assert 'value="hour"' in wrong.text
    made = browser.post("/streams/declared", data=form)
    assert (made.status_code, made.headers["location"]) == (303, "/streams/weekly")
    page = browser.get("/streams/weekly").text
    assert "Stop it, and free what is set aside" in page
    ended = browser.post("/streams/declared/weekly/stop", data={field[1]: token, "reason": "enough"})
    assert ended.headers["location"] == "/streams/weekly"
    assert "ended" in browser.get("/streams/weekly").text
    assert browser.post("/streams/declared/weekly/stop", data={field[1]: token}).status_code == 409


def test_periods_of_ten_years_are_released_one_part_for_each_request(
    settings: ServiceSettings, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curator_streams, "PART", 0.01)
    with running(settings) as address, connect(address, token=people.make_token("alice")[1]) as alice:
        sql = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
        stream = alice.stream.create(sql, name="daily", horizon="60 days", epsilon="2", request="mine")
        first = alice._service.send("POST", "/streams/daily/advance", {"through": "2025-01-04"}).json()
        assert first["released"] + first["due"] == 4
        assert first["released"] < 4
        assert stream.advance("2025-01-04") == stream.released == 4
        assert (stream.view.pays, stream.view.receipt) == ("once", stream.receipt)
        with pytest.raises(HushError):  # the request id has another stream
            alice.stream.create(sql, name="other", horizon="60 days", epsilon="2", request="mine")
        assert len(alice.history()) == 1


def test_a_declaration_over_the_api_is_taken_as_it_is(browser, olga) -> None:
    for address in ("/api/v1/streams/declared/explain", "/api/v1/streams/declared"):
        told = browser.post(address, json={**WEEKLY, "data": "nowhere"}, headers=olga)
        assert told.status_code == 404
        assert "Say which data set it is about" in told.json()["detail"]
    unread = browser.post("/api/v1/streams/declared/explain", json={**WEEKLY, "readers": []}, headers=olga)
    assert unread.status_code == 200
    blanks = f" {WEEKLY['question']}\n"
    made = browser.post("/api/v1/streams/declared", json={**WEEKLY, "question": blanks}, headers=olga)
    assert made.json()["question"] == blanks
