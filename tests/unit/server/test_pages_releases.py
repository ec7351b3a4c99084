"""Releases and streams on the page and over the API: explained, made once, taken away, and nobody else's to see."""

from __future__ import annotations

import io
import re
import threading
import time
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hush.core.format import figure
from hush.curator import streams as curator_streams
from hush.curator.opening import open_policy
from hush.engines.errors import EngineError
from hush.learn.model import model_from_json
from hush.server.auth.people import People
from hush.server.questions import Turn
from hush.server.rate_limits import Rate, RateLimits
from hush.synth import model

ROWS = "SELECT age, city FROM visits"
STREAM = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"


def bearer(people: People, name: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {people.make_token(name)[1]}"}


def signed_in(browser, people: People, name: str) -> dict[str, str]:
    """Sign somebody in, and return what forms must carry."""
    browser.cookies.set("hush", people.begin_session(name))
    return {"form_token": re.search(r'name="form_token" value="(\w+)"', browser.get("/account").text)[1]}


@pytest.mark.parametrize(
    ("kind", "fields", "endings"),
    [
        ("marginals", {"q": ROWS, "degree": "2"}, ["csv", "parquet", "zip", "json"]),
        ("synth", {"q": ROWS}, ["csv", "parquet", "json"]),
        ("ranges", {"q": "SELECT age FROM visits"}, ["csv", "parquet", "json"]),
        ("fit", {"q": ROWS, "target": "age", "model": "linear"}, ["json"]),
    ],
)
def test_a_release_from_its_form_to_its_files(browser, people, kind: str, fields: dict[str, str], endings) -> None:
    form = signed_in(browser, people, "alice")
    asked = {**form, **fields, "kind": kind, "epsilon": "2", "request": f"page {kind}"}
    explained = browser.post("/releases/explain", data=asked)
    assert explained.status_code == 303
    assert "form_token" not in explained.headers["location"]
    page = browser.get(explained.headers["location"])
    assert page.status_code == 200
    assert "Before you spend" in page.text
    assert browser.get("/history.json").json() == {"releases": []}  # looking never spends
    places = {browser.post("/releases", data=asked).headers["location"] for _ in range(2)}  # a second click is free
    assert len(places) == 1
    place = places.pop()
    again = browser.post("/releases", data={**asked, "request": "another"})
    assert again.headers["location"] == f"{place}?again=1"
    assert "You released this before" in browser.get(again.headers["location"]).text
    anew = browser.post("/releases", data={**asked, "request": "a third", "fresh": "1"})
    assert anew.headers["location"].rsplit("/", 1)[1] != place.rsplit("/", 1)[1]
    assert browser.get(place).status_code == 200
    number = place.rsplit("/", 1)[1]
    assert browser.get(f"/answers/{number}").headers["location"] == place
    assert f'href="/releases/{number}"' in browser.get("/history").text
    assert f'href="/releases/{number}"' in browser.get("/releases").text
    assert "See the release" in browser.get(f"/receipts/{number}").text
    files = {ending: browser.get(f"{place}.{ending}") for ending in endings}
    assert {response.status_code for response in files.values()} == {200}
    for ending in {"csv", "parquet", "zip"} - set(endings):
        assert browser.get(f"{place}.{ending}").status_code == 422
    assert browser.get(f"{place}.docx").status_code == 404
    if "parquet" in endings:
        assert "age" in pq.read_table(io.BytesIO(files["parquet"].content)).column_names
        assert files["csv"].text.startswith("age,")
    if "zip" in endings:
        names = zipfile.ZipFile(io.BytesIO(files["zip"].content)).namelist()
        assert names == ["001-age-city.csv", "report.html", "measurements.hush"]
    signed_in(browser, people, "bob")
    assert browser.get(place).status_code == 404
    assert browser.get(f"{place}.json").status_code == 404


def test_synthetic_rows_can_be_had_in_any_number(browser, alice) -> None:
    body = {"question": ROWS, "epsilon": "1"}
    number = browser.post("/api/v1/releases/synth", json=body, headers=alice).json()["receipt"]
    path = f"/api/v1/releases/{number}?format=csv"
    few, again = (browser.get(f"{path}&rows=7&seed=3", headers=alice).text for _ in range(2))
    assert few == again
    assert len(few.splitlines()) == 8
    assert browser.get(f"{path}&rows=7&seed=4", headers=alice).text != few
    assert browser.get(f"{path}&rows=0", headers=alice).status_code == 422
    assert browser.get(f"{path}&rows=9999999", headers=alice).status_code == 422


def test_refusals_on_the_page_are_those_of_the_curator_and_cost_nothing(browser, people) -> None:
    form = signed_in(browser, people, "alice")
    for fields, said in [
        ({"kind": "ranges", "q": ROWS}, "Ranges are released of one column"),
        ({"kind": "marginals", "q": ROWS, "degree": "x"}, "degree"),
        ({"kind": "fit", "q": ROWS, "model": "oracle"}, "There is no model"),
        ({"kind": "stream", "q": STREAM, "horizon": "soon", "name": "daily"}, "horizon"),
        ({"kind": "synth", "q": ROWS, "epsilon": "1000"}, "is left"),
    ]:
        told = browser.post("/releases", data={**form, "epsilon": "1", **fields})
        assert told.status_code in {402, 422}
        assert said in told.text
    assert browser.post("/releases", data={**form, "kind": "all"}).status_code == 404
    assert browser.get("/history.json").json() == {"releases": []}


def test_a_stream_is_ones_own_and_advances_on_the_page(browser, people: People) -> None:
    form = signed_in(browser, people, "alice")
    asked = {**form, "kind": "stream", "q": STREAM, "epsilon": "2", "horizon": "60 days", "name": "daily.csv"}
    made = browser.post("/releases", data=asked)
    assert made.headers["location"] == "/streams/daily.csv"
    assert "Nothing is released yet" in browser.get("/streams/daily.csv").text
    moved = browser.post("/streams/daily.csv/change", data={**form, "act": "advance", "through": "2025-01-10"})
    assert moved.status_code == 303
    assert "Released up to now: 10 periods" in browser.get("/streams/daily.csv").text
    rows = browser.get("/streams/daily.csv/all.csv").text.splitlines()
    assert rows[0].startswith("day,n,n_error,week")
    assert len(rows) == 11
    assert (
        browser.post("/streams/daily.csv/change", data={**form, "act": "advance", "through": "never"}).status_code
        == 422
    )
    bob = bearer(people, "bob")
    assert browser.get("/api/v1/streams", headers=bob).json() == {"streams": []}
    assert browser.get("/api/v1/streams/daily.csv", headers=bob).status_code == 404
    assert browser.delete("/api/v1/streams/daily.csv", headers=bob).status_code == 404
    assert browser.post("/streams/daily.csv/change", data={**form, "act": "stop"}).status_code == 303
    assert "It has ended" in browser.get("/streams/daily.csv").text
    assert browser.post("/streams/daily.csv/change", data={**form, "act": "advance"}).status_code == 409


def test_streams_are_explained_at_the_rate_of_explanations(browser, alice, monkeypatch) -> None:
    rates = []
    monkeypatch.setattr(RateLimits, "check", lambda _limits, rate, _key, **_: rates.append(rate))
    body = {"question": STREAM, "epsilon": "1", "horizon": "60 days"}
    assert browser.post("/api/v1/streams/explain", json=body, headers=alice).status_code == 200
    assert browser.get("/releases", params={**body, "kind": "stream", "q": STREAM}, headers=alice).status_code == 200
    assert [rate for rate in rates if rate is not Rate.VISITS] == [Rate.EXPLANATIONS] * 2


def test_names_of_streams_stay_in_their_folder(browser, alice, clinic: Path) -> None:
    for name in ("..", "../x", ".hidden", "a/b", "\x00"):
        body = {"question": STREAM, "epsilon": "1", "horizon": "9 days", "name": name}
        assert browser.post("/api/v1/streams", json=body, headers=alice).status_code == 422
    assert not list(clinic.parent.glob("*.streams/**/*.stream"))


def test_what_reads_rows_leaves_at_a_slot_whether_it_works_or_fails(browser, alice, settings, monkeypatch) -> None:
    """A release, a further period, and their failures: each after a whole slot, and with the one public error."""
    body = {"question": STREAM, "epsilon": "1", "horizon": "60 days", "name": "daily"}
    assert browser.post("/api/v1/streams", json=body, headers=alice).status_code == 201
    begin = Turn.begin
    begun: list[float] = []

    def beginning(self, *arguments):
        begun.append(time.monotonic())
        return begin(self, *arguments)

    monkeypatch.setattr(Turn, "begin", beginning)
    requests = [
        ("/api/v1/releases/marginals", {"table": ROWS, "epsilon": "1"}),
        ("/api/v1/releases/synth", {"question": ROWS, "epsilon": "1"}),
        ("/api/v1/streams/daily/advance", {"through": "2025-01-05"}),
    ]
    for path, sent in requests:
        told = browser.post(path, json=sent, headers=alice)
        assert told.status_code == 200
        assert time.monotonic() - begun[-1] >= settings.tick

    def failing(*_: object) -> None:
        raise ValueError("row 17 of Mr Smith")

    for engine in {type(one.engine) for one in _opened(browser).data_sets.values()}:
        monkeypatch.setattr(engine, "rows", failing)
    requests = [(path, {**sent, "fresh": True}) for path, sent in requests[:2]]
    requests.append(("/api/v1/streams/daily/advance", {"through": "2025-01-06"}))
    for path, sent in requests:
        told = browser.post(path, json=sent, headers=alice)
        assert told.json()["detail"] == str(EngineError())
        assert time.monotonic() - begun[-1] >= settings.tick
    assert browser.get("/api/v1/streams/daily", headers=alice).json()["released"] == 5


def test_a_stream_that_is_cancelled_while_it_advances_shows_nothing(browser, alice, monkeypatch) -> None:
    body = {"question": STREAM, "epsilon": "1", "horizon": "60 days", "name": "daily"}
    assert browser.post("/api/v1/streams", json=body, headers=alice).status_code == 201
    reading, going = threading.Event(), threading.Event()
    (opened,) = _opened(browser).data_sets.values()
    rows = type(opened.engine).rows

    def slow(*arguments: object) -> object:
        reading.set()
        going.wait(10)
        return rows(*arguments)

    monkeypatch.setattr(type(opened.engine), "rows", slow)
    told: list[object] = []
    sent = {"through": "2025-01-05", "request": "r"}
    asking = threading.Thread(
        target=lambda: told.append(browser.post("/api/v1/streams/daily/advance", json=sent, headers=alice))
    )
    asking.start()
    assert reading.wait(10)
    assert browser.delete("/api/v1/questions/r", headers=alice).status_code == 202
    asking.join(10)
    going.set()
    time.sleep(0.3)  # what is still computed is thrown away
    assert (told[0].status_code, told[0].json()["code"]) == (409, "cancelled")
    assert browser.get("/api/v1/streams/daily", headers=alice).json()["released"] == 0


def test_nobody_waits_for_what_a_cancelled_stream_still_computes(browser, alice, clinic: Path, monkeypatch) -> None:
    """How long that takes depends on rows, so neither a look, a further period nor the end may show it."""
    body = {"question": STREAM, "epsilon": "1", "horizon": "60 days", "name": "daily"}
    assert browser.post("/api/v1/streams", json=body, headers=alice).status_code == 201
    reading, going, over = threading.Event(), threading.Event(), threading.Event()
    (opened,) = _opened(browser).data_sets.values()
    rows = type(opened.engine).rows

    def slow(*arguments: object) -> object:
        if not reading.is_set():
            reading.set()
            going.wait(20)
            over.set()
        return rows(*arguments)

    monkeypatch.setattr(type(opened.engine), "rows", slow)
    sent = {"through": "2025-01-05", "request": "r"}
    asking = threading.Thread(
        target=browser.post, args=("/api/v1/streams/daily/advance",), kwargs={"json": sent, "headers": alice}
    )
    asking.start()
    assert reading.wait(10)
    assert browser.delete("/api/v1/questions/r", headers=alice).status_code == 202
    asking.join(10)
    moved = browser.post("/api/v1/streams/daily/advance", json={"through": "2025-01-03"}, headers=alice)
    assert (moved.status_code, moved.json()["released"]) == (200, 3)
    before = browser.get("/api/v1/streams/daily", headers=alice).json()
    assert browser.delete("/api/v1/streams/daily", headers=alice).status_code == 204
    assert not over.is_set()
    going.set()
    assert over.wait(10)
    time.sleep(0.3)  # what it computed is thrown away
    assert browser.get("/api/v1/streams/daily", headers=alice).json() == {**before, "ended": True}
    (folder,) = clinic.parent.glob("*.streams/*")
    assert {path.name for path in folder.iterdir()} == {"daily.stream", "daily.released", "daily.ended", ".daily.lock"}


def test_what_is_cancelled_stops(browser, alice, monkeypatch) -> None:
    """A stream of which sixty periods would take a minute, and synthetic rows that would never be there."""
    body = {"question": STREAM, "epsilon": "1", "horizon": "60 days", "name": "daily"}
    assert browser.post("/api/v1/streams", json=body, headers=alice).status_code == 201
    reached = {"arrivals": threading.Event(), "propagate": threading.Event()}

    def slowed(owner: object, name: str) -> None:
        work = getattr(owner, name)

        def slow(*arguments: object, **options: object) -> object:
            reached[name].set()
            time.sleep(1)
            return work(*arguments, **options)

        monkeypatch.setattr(owner, name, slow)

    slowed(curator_streams, "arrivals")
    slowed(model.TreeModel, "propagate")
    for path, sent, name in (
        ("streams/daily/advance", {"through": "2025-03-01"}, "arrivals"),
        ("releases/synth", {"question": ROWS, "epsilon": "1"}, "propagate"),
    ):
        sent |= {"request": name}
        asking = threading.Thread(
            target=browser.post, args=(f"/api/v1/{path}",), kwargs={"json": sent, "headers": alice}
        )
        asking.start()
        assert reached[name].wait(10)
        assert browser.delete(f"/api/v1/questions/{name}", headers=alice).status_code == 202
        asking.join(10)
        deadline = time.monotonic() + 10
        while any(thread.name == "hush-question" for thread in threading.enumerate()):
            assert time.monotonic() < deadline, "what was cancelled computes on"
            time.sleep(0.05)


_USED = {
    "question": ("/ask", {"question": "SELECT COUNT(*) AS n FROM visits"}, {"epsilon": "0.2"}),
    "marginals": ("/releases/marginals", {"table": ROWS}, {"degree": 1}),
    "synth": ("/releases/synth", {"question": ROWS}, {"question": "SELECT city FROM visits"}),
    "ranges": ("/releases/ranges", {"question": "SELECT age FROM visits"}, {"epsilon": "0.2"}),
    "fit": ("/releases/fit", {"question": ROWS, "target": "age", "model": "linear"}, {"epsilon": "0.2"}),
    "stream": ("/streams", {"question": STREAM, "name": "s", "horizon": "100 days"}, {"horizon": "50 days"}),
}


@pytest.mark.parametrize("kind", _USED)
def test_a_request_id_stands_for_one_body(browser, alice, kind: str) -> None:
    path, body, other = _USED[kind]
    body = {"epsilon": "0.1", **body}

    def send(request: str, **changes: object) -> tuple[int, str]:
        told = browser.post(f"/api/v1{path}", json={**body, "request": request, **changes}, headers=alice)
        return told.status_code, told.json().get("code", "")

    made = (201 if kind == "stream" else 200, "")
    assert send("first") == send("first") == made
    assert send("first", **other) == (409, "request-conflict")
    if kind != "stream":  # what was paid for comes back under another id, which is bound to it too
        assert send("second") == send("second") == made
        assert send("second", **other) == (409, "request-conflict")
        assert send("third", **other) == made
    assert browser.get("/api/v1/history", headers=alice).json()["releases"][0]["outcome"] == "answered"


def test_streams_of_the_service_and_of_the_command_line_are_the_same(browser, alice, clinic: Path) -> None:
    asked = {"question": STREAM, "name": "daily", "horizon": "100 days", "epsilon": "0.5"}
    assert browser.post("/api/v1/streams", json=asked, headers=alice).status_code == 201
    with open_policy(clinic, analyst="alice") as curator:
        assert curator.stream.names() == ["daily"]
        assert curator.stream.open("daily").advance("2025-01-03") == 3
    with open_policy(clinic, analyst="bob") as curator:
        assert curator.stream.names() == []
    assert browser.get("/api/v1/streams", headers=alice).json()["streams"][0]["released"] == 3


def _opened(browser):
    """Return what the service has open."""
    return browser.app._service.policy.in_force()


def test_a_large_error_is_rounded_as_a_number(browser, people: People) -> None:
    """The page shows three digits of the error itself, however the lines of the API write it."""
    signed_in(browser, people, "alice")
    terms = {"table": ROWS, "epsilon": "0.0003", "degree": 2}
    told = browser.post("/api/v1/releases/marginals/explain", json=terms, headers=bearer(people, "alice")).json()
    (table,) = told["tables"]
    page = browser.get("/releases", params={"kind": "marginals", "q": ROWS, "epsilon": "0.0003", "degree": "2"}).text
    assert table["error"] > 10_000
    assert f"303 cells, each ±{round(table['error'], -2):,.0f}</td>" in page


def test_a_model_is_shown_and_predicts_for_nothing(browser, people: People) -> None:
    """Coefficients are those of the summary, predictions those of the model, and mistakes are told."""
    form = signed_in(browser, people, "alice")
    asked = {**form, "kind": "fit", "q": ROWS, "epsilon": "8", "model": "linear", "target": "age"}
    made = browser.post("/releases", data=asked).headers["location"]
    model = model_from_json(browser.get(f"{made}.json").json()["model"])
    page = browser.get(made).text
    for line in model.summary().coefficients:
        assert line.name in page
        assert figure(line.estimate, digits=4) in page
    spent = browser.get("/history.json").json()
    told = browser.get(made, params={"in city": "Oslo"}).text
    assert f">{figure(float(model.predict({'city': ['Oslo']})[0]), digits=5)}</strong></p>" in told
    refused = browser.get(made, params={"in city": "Paris"}).text
    assert "one of Oslo, Bergen, Troms" in refused
    assert browser.get("/history.json").json() == spent
    signed_in(browser, people, "bob")
    assert browser.get(made, params={"in city": "Oslo"}).status_code == 404


def test_classes_have_curves_and_chances(browser, people: People) -> None:
    form = signed_in(browser, people, "alice")
    asked = {**form, "kind": "fit", "q": ROWS, "epsilon": "8", "model": "classification", "target": "city"}
    made = browser.post("/releases", data=asked).headers["location"]
    told = browser.get(made, params={"in age": "40", "class": "Bergen"}).text
    assert "Effect of age" in told
    assert "<style" not in told
    assert re.search(r"Oslo: [\d.]+ %, Bergen: [\d.]+ %", told)
    assert "<option selected>Bergen" in told
    assert "a number" in browser.get(made, params={"in age": "old"}).text


def test_tables_of_a_release_are_shown_one_at_a_time(browser, people: People) -> None:
    form = signed_in(browser, people, "alice")
    asked = {**form, "kind": "marginals", "q": "SELECT age, city, day FROM visits", "epsilon": "1"}
    made = browser.post("/releases", data=asked).headers["location"]
    for number, name in enumerate(("age × city", "age × day", "city × day"), start=1):
        page = browser.get(made, params={"table": str(number)}).text
        assert page.count('<table class="answer">') == 1
        assert f"<h2>{name}</h2>" in page
    assert "<h2>age × city</h2>" in browser.get(made, params={"table": "99"}).text
