"""Turns, slots, time limits and cancelling: what a question shows of its computation is its slot, and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from served import running
from starlette.testclient import TestClient

from hush.client import connect
from hush.core import InvalidValueError
from hush.curator import pipeline
from hush.curator.curator import Curator
from hush.curator.pipeline import Program, publish
from hush.curator.session import AnalystSession
from hush.ledger import Charge
from hush.ledger import store as ledger_store
from hush.server import app
from hush.server.errors import BusyError, CancelledError, StorageError
from hush.server.questions import SCHEMA, QuestionQueue, Questions, Turn
from hush.server.settings import ServiceSettings, open_storage


def _questions(tickets: QuestionQueue, **figures: Any) -> Questions:
    return Questions(tickets, ServiceSettings(policy="", people="", **figures))


def _queue() -> QuestionQueue:
    return QuestionQueue(open_storage(":memory:", SCHEMA, durable=False))


COUNT = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What each next computation does before it is ready: a test appends to it."""
    steps: list[Callable[[], object]] = []
    original = Program.compute

    def computed(*arguments: object) -> object:
        answer = original(*arguments)
        if steps:
            steps.pop(0)()
        return answer

    monkeypatch.setattr(Program, "compute", computed)
    return steps


def client(settings: ServiceSettings) -> TestClient:
    return TestClient(app(settings), base_url="http://localhost")


def timed(browser: TestClient, headers: dict[str, str], **body: object) -> tuple[float, int, dict[str, object]]:
    begun = time.monotonic()
    told = browser.post("/api/v1/ask", json={**COUNT, **body}, headers=headers)
    return time.monotonic() - begun, told.status_code, told.json()


def finished(browser: TestClient, headers: dict[str, str]) -> list[tuple[str, float]]:
    """Return the outcomes of charges in the ledger, and how long after its charge each was recorded."""
    releases = browser.get("/api/v1/history", headers=headers).json()["releases"]
    moments = [[datetime.fromisoformat(made[name]) for name in ("when", "finished")] for made in releases]
    return [
        (made["outcome"], (after - before).total_seconds())
        for made, (before, after) in zip(releases, moments, strict=True)
    ]


def wait_until_asked(browser: TestClient, headers: dict[str, str]) -> None:
    while not any(place["running"] for place in browser.get("/api/v1/questions", headers=headers).json()["questions"]):
        time.sleep(0.01)


def test_outcomes_leave_and_are_recorded_at_slots(settings: ServiceSettings, alice, computing) -> None:
    with client(replace(settings, tick=0.3)) as browser:
        computing += [lambda: None, lambda: time.sleep(0.4)]
        quick, slower = (timed(browser, alice, epsilon=price) for price in ("1", "2"))
        assert quick[0] >= 0.3
        assert slower[0] >= 0.6
        (_, second), (_, first) = finished(browser, alice)
        assert first >= 0.29  # the ledger's clock reads the charge a little later
        assert second >= 0.59


def test_a_question_past_its_limit_is_ended_charged_and_told_like_any_failure(
    settings: ServiceSettings, alice, computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, thrown_away = threading.Event(), threading.Event()

    def endless() -> None:
        told.wait(30)
        thrown_away.set()

    with client(replace(settings, tick=0.1, limit=0.6)) as browser:
        computing.append(endless)
        late = timed(browser, alice, request="late")  # comes although the computation goes on
        told.set()
        assert late[0] >= 0.6
        assert timed(browser, alice, request="late")[2]["code"] == "request-unanswered"

        def broken(*_: object) -> None:
            raise RuntimeError("Bergen")

        monkeypatch.setattr(Program, "compute", broken)
        failed = timed(browser, alice, epsilon="2")
        assert late[1:] == failed[1:]
        assert "Bergen" not in str(failed)
        assert thrown_away.wait(30)
        time.sleep(0.1)
        outcomes = browser.get("/api/v1/history", headers=alice).json()["releases"]
        assert {(made["outcome"], made["reason"]) for made in outcomes} == {("failed", "no answer could be computed")}


@pytest.mark.parametrize("ready", [True, False], ids=["done already", "still at work"])
def test_cancelling_never_shows_how_far_it_got(settings: ServiceSettings, alice, computing, ready: bool) -> None:
    began, told = threading.Event(), threading.Event()
    with client(replace(settings, tick=1.0)) as browser, ThreadPoolExecutor(1) as threads:
        computing.append(lambda: (began.set(), ready or told.wait(30)))
        asked = threads.submit(timed, browser, alice, request="mine")
        assert began.wait(30)
        assert browser.delete("/api/v1/questions/mine", headers=alice).status_code == 202
        seconds, status, refusal = asked.result(30)
        told.set()
        assert (status, refusal["code"]) == (409, "cancelled")
        assert "stays charged" in str(refusal["detail"])
        assert seconds >= 1.0  # at a slot, and not when it was cancelled
        time.sleep(0.1)
        ((outcome, after),) = finished(browser, alice)
        assert outcome == "failed"
        assert after >= 0.95
        assert browser.delete("/api/v1/questions/mine", headers=alice).status_code == 404


@pytest.mark.parametrize("seconds", [0.0, 0.1], ids=["ready at once", "ready later"])
def test_a_cancel_shortly_before_the_slot_ends_the_question_there(
    settings: ServiceSettings, alice, computing, seconds: float
) -> None:
    tick, told = 0.3, []
    with client(replace(settings, tick=tick)) as browser, ThreadPoolExecutor(1) as threads:
        for number, before in enumerate((0.03, 0.02, 0.01, 0.005, 0.0)):
            began = threading.Event()
            computing.append(lambda began=began: (began.set(), time.sleep(seconds)))
            asked = threads.submit(timed, browser, alice, request=f"request {number}", fresh=True)
            assert began.wait(30)
            time.sleep(tick - before)
            there = browser.delete(f"/api/v1/questions/request {number}", headers=alice).status_code
            _, status, refusal = asked.result(30)
            told.append((there, status, refusal.get("code")))
    # What comes after the slot is told so, and gets its answer.
    assert set(told) <= {(202, 409, "cancelled"), (404, 200, None)}, told


def test_a_cancel_before_the_charge_charges_nothing(
    settings: ServiceSettings, alice, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning, cancelled, original = threading.Event(), threading.Event(), pipeline.parse

    def parse(*arguments: object, **options: object) -> object:
        planning.set()
        assert cancelled.wait(30)
        return original(*arguments, **options)

    with client(settings) as browser, ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(pipeline, "parse", parse)
        asked = threads.submit(timed, browser, alice, request="mine")
        assert planning.wait(30)
        assert browser.delete("/api/v1/questions/mine", headers=alice).status_code == 202
        cancelled.set()
        _, status, refusal = asked.result(30)
        assert (status, refusal["code"]) == (409, "cancelled")
        assert "Nothing was charged" in str(refusal["detail"])
        assert finished(browser, alice) == []


def test_others_cannot_cancel_or_see_it(settings: ServiceSettings, people, alice, computing) -> None:
    bob, told = {"authorization": f"Bearer {people.make_token('bob')[1]}"}, threading.Event()
    with client(settings) as browser, ThreadPoolExecutor(1) as threads:
        computing.append(lambda: told.wait(30))
        asked = threads.submit(timed, browser, alice, request="mine")
        wait_until_asked(browser, alice)
        assert browser.get("/api/v1/questions", headers=bob).json()["questions"] == []
        assert browser.delete("/api/v1/questions/mine", headers=bob).status_code == 404
        told.set()
        assert asked.result(30)[1] == 200


def test_one_question_at_a_time_for_each_person(settings: ServiceSettings, people, alice, computing) -> None:
    bob, told = {"authorization": f"Bearer {people.make_token('bob')[1]}"}, threading.Event()
    with client(settings) as browser, ThreadPoolExecutor(2) as threads:
        computing.append(lambda: told.wait(30))
        first = threads.submit(timed, browser, alice, request="first")
        wait_until_asked(browser, alice)
        second = threads.submit(timed, browser, alice, request="second", epsilon="2")
        while len(places := browser.get("/api/v1/questions", headers=alice).json()["questions"]) < 2:
            time.sleep(0.01)
        assert timed(browser, bob)[1] == 200  # does not wait for alice
        assert [place["running"] for place in places] == [True, False]
        assert not second.done()
        told.set()
        assert [asked.result(30)[1] for asked in (first, second)] == [200, 200]


def test_a_full_queue_refuses_and_a_cancelled_wait_charges_nothing() -> None:
    async def scene() -> None:
        queue = _queue()
        questions = _questions(queue, tick=0, limit=5, at_once=1, queue=2, each=2)
        hold = threading.Event()
        first = asyncio.create_task(questions.run("alice", "a", lambda _: hold.wait(5)))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(questions.run("bob", "b", lambda _: "never"))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await questions.run("carol", "c", lambda _: "never")
        queue.cancel("bob", "b")
        with pytest.raises(Exception, match="Nothing was charged"):
            await second
        hold.set()
        assert await first
        assert questions.idle

    asyncio.run(scene())


@pytest.mark.parametrize("seconds", [0.05, 0.6], ids=["ready", "late"])
def test_should_the_asker_go_the_turn_is_kept_and_its_outcome_recorded(seconds: float) -> None:
    outcomes: list[str] = []

    class Outcomes:
        def answered(self, *_: object) -> None:
            outcomes.append("answered")

        def failed(self, *_: object) -> None:
            outcomes.append("failed")

    async def scene() -> None:
        queue, session, begun = _queue(), AnalystSession({}, Outcomes(), "alice"), threading.Event()  # type: ignore[arg-type]
        questions = _questions(queue, tick=0.1, limit=0.3)
        charged = Charge(number=1, request="a", analyst="alice", data="d", question_hash="")

        def compute() -> bytes:
            begun.set()
            time.sleep(seconds)
            return b""

        def work(turn: Turn) -> bytes:
            session.outlet = turn
            return publish(session, charged, compute, bytes)

        asker = asyncio.create_task(questions.run("alice", "a", work))
        assert await asyncio.to_thread(begun.wait, 20)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        assert not questions.idle
        assert queue.positions("alice")
        for _ in range(1000):
            if questions.idle:
                break
            await asyncio.sleep(0.01)
        assert outcomes == ["answered" if seconds < 0.3 else "failed"]
        assert not queue.positions("alice")

    asyncio.run(scene())


def test_a_turn_may_read_twice_each_time_to_a_slot() -> None:
    """A stream that somebody else advanced meanwhile is read again. What left once cannot be cancelled any more."""
    queue, moments, late = _queue(), [], []

    def work(turn: Turn) -> str:
        for _ in range(2):
            begun = time.monotonic()
            turn.begin(0.0, None)
            assert turn.wait()
            moments.append(time.monotonic() - begun)
            late.append(queue.cancel("alice", "a"))
        return "read twice"

    async def scene() -> str:
        return await _questions(queue, tick=0.05, limit=5).run("alice", "a", work)

    assert asyncio.run(scene()) == "read twice"
    assert min(moments) >= 0.049
    assert late == [False, False]


@pytest.mark.parametrize(("computes", "left"), [(0.0, 0.2), (0.1, 0.2), (0.25, 0.4)])
def test_the_first_slot_follows_from_public_figures(
    computes: float, left: float, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not earlier for work that was done at once, and what misses it leaves at twice its time, and is told."""

    def work(turn: Turn) -> float:
        turn.begin(0.2, None)
        begun = time.monotonic()
        time.sleep(computes)
        assert turn.wait()
        return time.monotonic() - begun

    async def scene() -> float:
        return await _questions(_queue(), tick=0.01, limit=5).run("alice", "a", work)

    assert asyncio.run(scene()) >= left - 0.001
    assert ("declare in the policy how many rows" in caplog.text) >= (left > 0.2)


@pytest.mark.parametrize("computes", [0.0, 20.0])
def test_a_cancel_does_not_wait_for_a_late_slot(computes: float) -> None:
    """It ends at the next tick, ready or not: that the outcome has not left yet is known."""
    queue, going = _queue(), threading.Event()

    def work(turn: Turn) -> None:
        turn.begin(20.0, None)
        queue.cancel("alice", "a")
        going.wait(computes)
        turn.wait()

    async def scene() -> float:
        begun = time.monotonic()
        with pytest.raises(CancelledError):
            await _questions(queue, tick=0.1, limit=30).run("alice", "a", work)
        going.set()
        return time.monotonic() - begun

    assert asyncio.run(scene()) < 10


def test_whoever_asked_may_go_and_the_answer_is_kept() -> None:
    kept: list[str] = []

    def work(turn: Turn) -> None:
        turn.begin(0.0, None)
        kept.append("kept" if turn.wait() else "lost")

    async def scene() -> None:
        asked = asyncio.create_task(_questions(_queue(), tick=0.2, limit=5).run("alice", "a", work))
        await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.sleep(0.4)

    asyncio.run(scene())
    assert kept == ["kept"]


def test_a_worker_that_is_told_to_end_answers_first(settings: ServiceSettings, alice, computing) -> None:
    computing.append(lambda: time.sleep(0.5))
    with ThreadPoolExecutor(1) as threads:
        with running(settings) as address:
            curator = connect(address, token=alice["authorization"].removeprefix("Bearer "))
            asked = threads.submit(curator.ask, COUNT["question"], epsilon=1)
            while not curator._service.get("/questions")["questions"]:
                time.sleep(0.01)
        assert len(asked.result(30)) == 1
    curator.close()


SHUFFLED = [
    {"type": "shuffled", "local_epsilon": f"{at}/100", "reports": 10**6, "delta": "1e-9"} for at in range(50, 350)
]
STATED = {"event": {"type": "composed", "events": SHUFFLED}, "note": "a run elsewhere", "request": "stated"}


def test_pricing_has_a_limit_of_work(settings: ServiceSettings, alice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.server.questions.MOST_WORK", 200_000)
    with client(settings) as browser:
        told = browser.post("/api/v1/events", json=STATED, headers=alice)
        assert (told.status_code, told.json()["code"]) == (422, "too-much-work")
        assert "more than 200,000 steps. Nothing was charged" in told.json()["detail"]
        assert not browser.get("/api/v1/history", headers=alice).json()["releases"]


def test_what_is_priced_can_be_cancelled(settings: ServiceSettings, alice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.server.questions.MOST_WORK", 10**12)
    with client(settings) as browser, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(browser.post, "/api/v1/events", json=STATED, headers=alice)
        while not browser.get("/api/v1/questions", headers=alice).json()["questions"]:
            time.sleep(0.01)
        assert browser.delete("/api/v1/questions/stated", headers=alice).status_code == 202
        told = asked.result(30)
        assert (told.status_code, told.json()["code"]) == (409, "cancelled")
        assert "Nothing was charged" in told.json()["detail"]
        assert not browser.get("/api/v1/history", headers=alice).json()["releases"]


def test_nobody_explains_more_than_two_things_at_once(
    settings: ServiceSettings, alice, people, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = threading.Semaphore(0), threading.Event()
    original = Curator.explain

    def explain(self: Curator, *arguments: object, **terms: object) -> object:
        if self.analyst == "alice":
            began.release()
            assert go.wait(30)
        return original(self, *arguments, **terms)

    monkeypatch.setattr(Curator, "explain", explain)
    bob = {"authorization": f"Bearer {people.make_token('bob')[1]}"}
    with client(settings) as browser, ThreadPoolExecutor(4) as threads:
        bodies = [{**COUNT, "epsilon": f"0.{at}"} for at in range(1, 5)]
        asked = [threads.submit(browser.post, "/api/v1/explain", json=body, headers=alice) for body in bodies]
        assert began.acquire(timeout=30)
        assert began.acquire(timeout=30)
        assert browser.post("/api/v1/explain", json=COUNT, headers=bob).status_code == 200
        assert not began.acquire(blocking=False)
        go.set()
        assert {one.result(30).status_code for one in asked} == {200}


def test_a_state_that_cannot_be_reached_takes_no_answer_away(
    settings: ServiceSettings, alice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that nothing was charged, after a charge, and the turn was never handed back."""
    original = QuestionQueue.leave

    def out_of_reach(*_: object) -> None:
        raise StorageError

    with client(settings) as browser:
        monkeypatch.setattr(QuestionQueue, "leave", out_of_reach)
        _, status, told = timed(browser, alice)
        assert (status, "receipt" in told) == (200, True)
        monkeypatch.setattr(QuestionQueue, "leave", original)
        _, status, _ = timed(browser, alice, fresh=True)  # the turn is handed back when that can be done
        assert status == 200
        assert not browser.get("/api/v1/questions", headers=alice).json()["questions"]
    assert "Nothing was charged" not in str(StorageError())


def test_a_full_disk_and_a_quota_refuse_before_the_charge(
    settings: ServiceSettings, alice, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}

    def asked(browser: TestClient, **more: object) -> tuple[int, str]:
        told = browser.post("/api/v1/ask", json={**body, **more}, headers=alice)
        return told.status_code, told.json().get("code", "")

    with TestClient(app(settings), base_url="http://localhost") as browser:
        assert asked(browser) == (200, "")
        monkeypatch.setattr(ledger_store, "LEAST_FREE", 2**62)
        assert asked(browser, fresh=True) == (507, "ledger-full")
        assert asked(browser) == (200, "")  # what was paid for comes again
        monkeypatch.undo()
        assert len(browser.get("/api/v1/history", headers=alice).json()["releases"]) == 1
    with TestClient(app(replace(settings, quota="10KB")), base_url="http://localhost") as browser:
        assert asked(browser, fresh=True) == (507, "ledger-full")
        detail = browser.post("/api/v1/ask", json={**body, "fresh": True}, headers=alice).json()["detail"]
        assert "the quota of this service is 10,000. Nothing was charged" in detail
    with TestClient(app(replace(settings, quota="1GB")), base_url="http://localhost") as browser:
        assert asked(browser, fresh=True) == (200, "")
    with pytest.raises(InvalidValueError, match="quota"):
        replace(settings, quota="much")


def test_what_decides_by_its_result_is_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(":memory:", SCHEMA, durable=False)
    begun, begin = [], storage.begin
    monkeypatch.setattr(storage, "begin", lambda: begun.append(begin()))
    tickets = QuestionQueue(storage)
    tickets.cancel("alice", "q")
    tickets.close_ticket(1)
    assert len(begun) == 2
