"""Attacks on a service that succeed on Lomas 0.4, and fail here; and canaries: values of rows leak nowhere.

A lock that a killed worker leaves is tried in tests/conformance/service/test_queue.py, and a killed worker in
tests/e2e/test_cli_serve.py. `test_security_list` names the tests of every line of the service's security.
"""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from served import clinic_with
from starlette.testclient import TestClient

from hush.curator.pipeline import Program
from hush.ledger import Actor, Ledger, Role
from hush.server import app
from hush.server.auth.people import People
from hush.server.monitoring import exposition, show_metrics
from hush.server.settings import ServiceSettings

CANARY = "canary-7f3a"
COUNT = {"question": "SELECT COUNT(*) AS n FROM data", "epsilon": "0.3"}
ANALYSTS = [f"analyst{number}" for number in range(6)]


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    frame = pa.table({"age": list(range(60)), "street": [CANARY, "x\u202ey", "=cmd()", "<img onerror=1>"] * 15})
    policy = clinic_with(tmp_path, frame, bounds={"age": (0, 100)}, budget={"epsilon": "1", "delta": "1e-3"})
    with policy.open("a", encoding="utf-8") as out:
        for name in ANALYSTS:
            out.write(f'\n[analysts.{name}]\ndata = ["data"]\nbudget = {{ epsilon = "1", delta = "1e-3" }}\n')
    people = People(tmp_path / "hush.people")
    for name in ANALYSTS:
        people.add(name, roles=[Role.ANALYST])
    people.close()
    return ServiceSettings(policy=str(policy), people=str(tmp_path / "hush.people"), tick=0.01)


@pytest.fixture
def tokens(settings: ServiceSettings) -> dict[str, dict[str, str]]:
    people = People(settings.people)
    made = {
        name: {"authorization": f"Bearer {people.make_token(name, scopes=['read', 'ask', 'own'])[1]}"}
        for name in [*ANALYSTS, "me"]
    }
    people.close()
    return made


@pytest.fixture
def browser(settings: ServiceSettings) -> Iterator[TestClient]:
    with TestClient(app(settings), base_url="http://localhost", follow_redirects=False) as client:
        yield client


def charges(settings: ServiceSettings) -> list[tuple[str, str]]:
    with Ledger.open(Path(settings.policy).with_name("hush.ledger"), anchor="none") as ledger:
        return [(made.analyst, made.outcome) for made in ledger.history(Actor.owner("test"))]


NAMES = ("user-name", "x-forwarded-user", "x-remote-user", "remote-user", "x-user", "from")


def test_a_header_names_nobody(browser: TestClient, tokens, settings: ServiceSettings) -> None:
    said = dict.fromkeys(NAMES, "analyst1")
    assert browser.post("/api/v1/ask", json=COUNT, headers=said).status_code == 401
    told = browser.post("/api/v1/ask", json=COUNT, headers={**tokens["analyst0"], **said})
    assert told.status_code == 200
    for name in ("analyst", "user_name", "as"):
        refused = browser.post("/api/v1/ask", json={**COUNT, name: "analyst1"}, headers=tokens["analyst0"])
        assert refused.status_code == 422
    assert charges(settings) == [("analyst0", "answered")]


def test_failing_after_the_read_is_not_free(
    browser: TestClient, tokens, settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(Program, "compute", broken)
    codes = [browser.post("/api/v1/ask", json=COUNT, headers=tokens["analyst0"]).json()["code"] for _ in range(4)]
    assert codes == ["engine", "engine", "engine", "budget-exceeded"]
    assert charges(settings) == [("analyst0", "failed")] * 3


def test_pooled_analysts_cannot_overspend_the_data(browser: TestClient, tokens, settings: ServiceSettings) -> None:
    def ask(name: str) -> int:
        return browser.post("/api/v1/ask", json=COUNT, headers=tokens[name]).status_code

    with ThreadPoolExecutor(len(ANALYSTS)) as threads:
        codes = sorted(threads.map(ask, ANALYSTS))
    answered = codes.count(200)
    assert set(codes) == {200, 402}
    accounts = browser.get("/api/v1/budget", headers=tokens["analyst0"]).json()["accounts"]
    spent = next(account for account in accounts if account["analyst"] is None)["spent"]["share"]
    assert 0 < spent <= 1
    assert len(charges(settings)) == answered


def test_there_is_no_open_admin_page(browser: TestClient, tokens, settings: ServiceSettings) -> None:
    for path in (
        "/admin",
        "/metrics",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/api/v1/admin",
        "/.env",
        "/static/../people.py",
    ):
        assert browser.get(path).status_code == 404
    for path in ("/api/v1/people", "/api/v1/people/me/links"):
        assert browser.post(path, json={"name": "x", "roles": ["owner"]}).status_code == 401
        refused = browser.post(path, json={"name": "x", "roles": ["owner"]}, headers=tokens["analyst0"])
        assert refused.status_code == 403
    server = show_metrics(settings, 0)
    address = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    for headers in ({}, tokens["analyst0"]):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(address, headers=headers))
    browser.app._service.counters.write()
    with urllib.request.urlopen(urllib.request.Request(address, headers=tokens["me"])) as told:
        assert b"hush_requests_total" in told.read()
    server.shutdown()
    server.server_close()


def test_values_of_rows_leak_nowhere(
    browser: TestClient,
    tokens,
    settings: ServiceSettings,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headers, said = tokens["analyst0"], []
    questions = [
        "SELECT street, COUNT(*) AS n FROM data GROUP BY street",
        "SELECT CAST(street AS INTEGER) AS n, COUNT(*) FROM data GROUP BY 1",
        "SELECT COUNT(*) AS n FROM data WHERE street = age",
        "SELECT SUM(street) FROM data",
        "SELECT COUNT(*) AS n FROM data WHERE 1 / (age - age) > 0",
    ]
    original = Program.compute

    def failing(*arguments: object) -> None:
        original(*arguments)
        raise ValueError(f"could not convert {CANARY}")

    with caplog.at_level(logging.INFO):
        monkeypatch.setattr(Program, "compute", failing)
        for question in questions:
            for path in ("/api/v1/explain", "/api/v1/ask"):
                body = {"question": question, "epsilon": "0.01"}
                said.append(browser.post(path, json=body, headers=headers))
        places = ("/api/v1/data", "/api/v1/history", "/api/v1/budget", "/api/v1/questions", "/ask", "/history")
        said += [browser.get(path, headers=headers) for path in places]
    browser.app._service.counters.write()
    told = "".join(f"{one.text} {dict(one.headers)}" for one in said)
    told += exposition(browser.app._service.shared)
    told += "".join(record.getMessage() for record in caplog.records)
    for file in Path(settings.policy).parent.glob("hush.people*"):
        told += file.read_bytes().decode("latin-1")
    assert CANARY not in told
    assert any(one.status_code == 422 for one in said)


def test_exports_show_no_value_of_a_row(browser: TestClient, tokens) -> None:
    """Answers and releases about rows that have the canary, in all their forms, with receipts and the history."""
    headers, said = tokens["analyst0"], []

    def post(path: str, **body: object) -> str:
        told = browser.post(f"/api/v1{path}", json=body, headers=headers)
        assert told.status_code == 200, told.text
        said.append(told)
        return str(told.json()["receipt"])

    conditions = ("street LIKE 'can%'", "LENGTH(street) > 8", "street IS NOT NULL")
    numbers = [
        post("/ask", question=f"SELECT COUNT(*) AS n FROM data WHERE {condition}", epsilon="0.05")
        for condition in conditions
    ]
    numbers.append(post("/ask", question="SELECT COUNT(DISTINCT street) AS n FROM data", epsilon="0.05"))
    for number in numbers:
        said += [browser.get(f"/api/v1/answers/{number}?format={form}", headers=headers) for form in ("csv", "arrow")]
        said += [browser.get(f"/answers/{number}{ending}", headers=headers) for ending in ("", ".csv", ".py", ".ipynb")]
        said += [browser.get(f"/receipts/{number}", headers=headers)]
    made = post("/releases/ranges", question="SELECT age FROM data WHERE street LIKE '%a%'", epsilon="0.1")
    said += [browser.get(f"/api/v1/releases/{made}?format={form}", headers=headers) for form in ("csv", "parquet")]
    said += [browser.get(path, headers=headers) for path in ("/history.csv", "/history.json", "/budget")]
    assert [str(one.url) for one in said if one.status_code != 200] == []
    assert not [one.url for one in said if CANARY.encode() in one.content or CANARY in str(one.headers)]


def test_keys_that_are_code_arrive_as_text(browser: TestClient, tokens) -> None:
    body = {"question": "SELECT street, COUNT(*) AS n FROM data GROUP BY street", "epsilon": "0.9", "delta": "1e-4"}
    told = browser.post("/api/v1/ask", json=body, headers=tokens["analyst0"])
    assert told.headers["content-type"] == "application/json"
    number = told.json()["receipt"]
    shown = browser.get(f"/api/v1/answers/{number}?format=csv", headers=tokens["analyst0"])
    assert shown.headers["content-type"].startswith("text/csv")
    assert not any(line.startswith(("=", "@", "+", "-")) for line in shown.text.splitlines())
    refused = browser.post(
        "/api/v1/ask", json={**COUNT, "question": 'SELECT COUNT(*) FROM "<img>\u202e"'}, headers=tokens["analyst0"]
    )
    assert "\u202e" not in refused.text
    assert Fraction(told.json()["price"]["epsilon"]) == Fraction("0.9")
