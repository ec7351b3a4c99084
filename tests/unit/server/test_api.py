"""The API: what an analyst does with it, in which forms, and what it refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from hush.curator.answer import Answer
from hush.curator.opening import open_policy
from hush.ledger import Actor, Ledger

COUNT = {"question": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "epsilon": "1"}


def test_an_answer_has_its_price_and_its_receipt(browser, alice) -> None:
    answer = browser.post("/api/v1/ask", json=COUNT, headers=alice)
    assert answer.status_code == 200
    body = answer.json()
    assert [row[0] for row in body["rows"]] == ["Oslo", "Bergen", "Tromsø"]
    assert abs(body["rows"][0][1] - 450) < 200  # noise of scale 6
    assert body["price"] == {"epsilon": "1", "delta": "0"}
    again = browser.get(f"/api/v1/answers/{body['receipt']}", headers=alice).json()
    then = {"remaining": None, "budget": None}  # what was left is said when it was asked
    assert {**again, **then} == {**body, **then}
    receipt = browser.get(f"/api/v1/receipts/{body['receipt']}", headers=alice).json()
    assert (receipt["question"], receipt["outcome"]) == (COUNT["question"], "answered")
    assert len(receipt["hash"]) == 64


def test_answers_in_four_forms_are_one_answer(browser, alice) -> None:
    stored = browser.post("/api/v1/ask?format=stored", json=COUNT, headers=alice)
    answer = Answer.from_bytes(stored.content)
    number = stored.headers["hush-receipt"]

    def again(form: str) -> bytes:
        return browser.get(f"/api/v1/answers/{number}", headers={**alice, "accept": form}).content

    assert again("application/vnd.hush.answer+json") == stored.content
    assert again("text/csv").decode() == answer.to_csv()
    assert pa.ipc.open_stream(again("application/vnd.apache.arrow.stream")).read_all().equals(answer.table)
    assert json.loads(again("application/json"))["rows"] == answer.to_json()["rows"]
    assert browser.get(f"/api/v1/answers/{number}?format=docx", headers=alice).status_code == 422
    assert browser.get(f"/api/v1/answers/{number}", headers={**alice, "accept": "image/png"}).status_code == 406


def test_a_request_id_makes_retries_safe(browser, alice) -> None:
    first, second = (browser.post("/api/v1/ask", json={**COUNT, "request": "r1"}, headers=alice) for _ in range(2))
    assert (first.json()["rows"], first.json()["receipt"]) == (second.json()["rows"], second.json()["receipt"])
    assert len(browser.get("/api/v1/history", headers=alice).json()["releases"]) == 1
    other = browser.post("/api/v1/ask", json={**COUNT, "epsilon": "2", "request": "r1"}, headers=alice)
    assert (other.status_code, other.json()["code"]) == (409, "request-conflict")


def test_many_prices_in_one_call_are_what_each_alone_would_be(browser, alice) -> None:
    prices = ["0.1", "0.5", "2"]
    body = {"question": COUNT["question"], "epsilons": prices}
    many = browser.post("/api/v1/explain", json=body, headers=alice).json()["explanations"]
    alone = [
        browser.post("/api/v1/explain", json={**COUNT, "epsilon": price}, headers=alice).json() for price in prices
    ]
    for explanation in [*many, *alone]:
        for name in ("tighter", "budget", "lines"):  # are said of one price alone
            del explanation[name]
    assert many == alone
    assert browser.get("/api/v1/history", headers=alice).json() == {"releases": []}


def test_refusals_are_those_of_a_local_curator(browser, alice, clinic) -> None:
    cases = [
        {**COUNT, "epsilon": "100"},
        {**COUNT, "epsilon": "-1"},
        {**COUNT, "question": "SELECT * FROM visits"},
        {**COUNT, "question": "SELECT COUNT(*) FROM visit"},
        {**COUNT, "data": "klinik"},
        {"question": COUNT["question"]},
    ]
    with open_policy(clinic, analyst="alice") as curator:
        for case in cases:
            terms = {name: value for name, value in case.items() if name != "question"}
            with pytest.raises(Exception) as refusal:
                curator.ask(case["question"], **terms)
            told = browser.post("/api/v1/ask", json=case, headers=alice)
            assert told.headers["content-type"] == "application/problem+json"
            assert told.json()["detail"] == str(refusal.value)
            assert told.json()["code"] == refusal.value.code
            assert told.status_code in {402, 422}


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 422), (b'{"question": 1}', 422), (b'{"question": "x", "colour": 1}', 422), (b"\xff", 400)],
)
def test_bodies_that_are_none(browser, alice, body: bytes, status: int) -> None:
    headers = {**alice, "content-type": "application/json"}
    told = browser.post("/api/v1/ask", content=body, headers=headers)
    assert (told.status_code, told.json()["code"]) == (status, "bad-request")


def test_parameters_travel(browser, alice) -> None:
    body = {
        "question": "SELECT COUNT(*) AS n FROM visits WHERE day >= $day AND city = $city",
        "parameters": {"day": {"date": "2025-06-01"}, "city": "Oslo"},
        "epsilon": "1",
    }
    assert browser.post("/api/v1/ask", json=body, headers=alice).status_code == 200
    (made,) = browser.get("/api/v1/history?limit=1", headers=alice).json()["releases"]
    assert made["question"].endswith("-- $city = \"Oslo\"\n-- $day = DATE '2025-06-01'")
    wrong = {**body, "parameters": {"day": {"day": "2025-06-01"}, "city": "Oslo"}}
    assert browser.post("/api/v1/ask", json=wrong, headers=alice).json()["code"] == "invalid-value"


def test_data_sets_are_schema_and_policy(browser, alice) -> None:
    (clinic,) = browser.get("/api/v1/data", headers=alice).json()["data"]
    assert (clinic["name"], clinic["unit"], clinic["budget"]["epsilon"]) == ("clinic", "id", "50")
    columns = {column["name"]: column for column in clinic["tables"][0]["columns"]}
    assert columns["age"] == {"name": "age", "type": "integer", "lower": "0", "upper": "100", "step": "1"}
    assert columns["city"]["values"] == ["Oslo", "Bergen", "Tromsø"]
    assert "id" not in columns


def test_a_changed_policy_is_read_again_and_a_mistake_changes_nothing(browser, alice, clinic: Path) -> None:
    def city(wanted: int = 0) -> int:
        for _ in range(50):  # the file is looked at twice a second, and read in the background
            time.sleep(0.6)
            status = browser.post("/api/v1/explain", json=COUNT, headers=alice).status_code
            if status == (wanted or status):
                break
        return status

    assert city() == 200
    text = clinic.read_text("utf-8")
    clinic.write_text(text.replace("columns.city = ", "columns.town = "), encoding="utf-8")  # no such column
    assert city() == 200
    without = [line for line in text.splitlines() if "columns.city" not in line]
    clinic.write_text("\n".join(without), encoding="utf-8")
    assert city(422) == 422


def test_charges_are_in_the_ledger_exactly(browser, alice, clinic) -> None:
    for price in ("1", "2", "1/3"):
        assert browser.post("/api/v1/ask", json={**COUNT, "epsilon": price}, headers=alice).status_code == 200
    with Ledger.open(clinic.parent / "hush.ledger") as ledger:
        made = ledger.history(Actor.analyst("alice"))
    shown = browser.get("/api/v1/history", headers=alice).json()["releases"]
    assert len(made) == 3
    assert [(one.number, one.price) for one in made] == [(one["number"], one["price"]) for one in shown]
