"""Turns, slots, time limits and cancelling: what a question shows of its computation is its slot, and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import pytest
from served import running
from starlette.testclient import TestClient

from hush.client import connect
from hush.curator import curator as curator_module
from hush.ledger import Reservation
from hush.server import app
from hush.server.errors import BusyError
from hush.server.questions import Questions, ServedCurator, this_turn
from hush.server.settings import ServiceSettings
from hush.server.traffic import Traffic

COUNT = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "1"}


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What each next computation does before it is ready: a test appends to it."""
    steps: list[Callable[[], object]] = []
    original = curator_module._answer

    def computed(*arguments: object) -> object:
        answer = original(*arguments)
        if steps:
            steps.pop(0)()
        return answer

    monkeypatch.setattr(curator_module, "_answer", computed)
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

        monkeypatch.setattr(curator_module, "_answer", broken)
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
    planning, cancelled, original = threading.Event(), threading.Event(), curator_module.Curator.parse

    def parse(*arguments: object, **options: object) -> object:
        planning.set()
        assert cancelled.wait(30)
        return original(*arguments, **options)

    with client(settings) as browser, ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(curator_module.Curator, "parse", parse)
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
        traffic = Traffic.in_memory()
        questions = Questions(traffic, tick=0, limit=5, at_once=1, queue=2, each=2)
        hold = threading.Event()
        first = asyncio.create_task(questions.run("alice", "a", lambda: hold.wait(5)))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(questions.run("bob", "b", lambda: "never"))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await questions.run("carol", "c", lambda: "never")
        traffic.cancel("bob", "b")
        with pytest.raises(Exception, match="Nothing was charged"):
            await second
        hold.set()
        assert await first
        assert questions.idle

    asyncio.run(scene())


@pytest.mark.parametrize("seconds", [0.05, 0.6], ids=["ready", "late"])
def test_should_the_asker_go_the_turn_is_kept_and_its_outcome_recorded(seconds: float) -> None:
    class Kept(ServedCurator):
        outcomes: tuple[str, ...] = ()

        def __init__(self) -> None:
            self._ledger = self  # type: ignore[assignment]

        def answered(self, *_: object) -> None:
            self.outcomes += ("answered",)

        def failed(self, *_: object) -> None:
            self.outcomes += ("failed",)

    async def scene() -> None:
        traffic, curator, begun = Traffic.in_memory(), Kept(), threading.Event()
        questions = Questions(traffic, tick=0.1, limit=0.3)
        charged = Reservation(number=1, request="a", analyst="alice", data="d", question_hash="")

        def work() -> bytes:
            turn = this_turn()
            assert turn is not None
            turn.charged(curator, charged)
            begun.set()
            return curator.keep(charged, lambda: time.sleep(seconds) or b"", bytes)

        asker = asyncio.create_task(questions.run("alice", "a", work))
        assert await asyncio.to_thread(begun.wait, 20)
        asker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asker
        assert not questions.idle
        assert traffic.places("alice")
        for _ in range(1000):
            if questions.idle:
                break
            await asyncio.sleep(0.01)
        assert curator.outcomes == ("answered" if seconds < 0.3 else "failed",)
        assert not traffic.places("alice")

    asyncio.run(scene())


def test_a_turn_may_read_twice_each_time_to_a_slot() -> None:
    """A stream that somebody else advanced meanwhile is read again. What left once cannot be cancelled any more."""
    traffic, moments, late = Traffic.in_memory(), [], []

    def work() -> str:
        turn = this_turn()
        for _ in range(2):
            turn.reads()
            begun = time.monotonic()
            assert turn.wait_for_slot()
            moments.append(time.monotonic() - begun)
            late.append(traffic.cancel("alice", "a"))
        return "read twice"

    async def scene() -> str:
        return await Questions(traffic, tick=0.05, limit=5).run("alice", "a", work)

    assert asyncio.run(scene()) == "read twice"
    assert min(moments) >= 0.049
    assert late == [False, False]


def test_whoever_asked_may_go_and_the_answer_is_kept() -> None:
    kept: list[str] = []

    def work() -> None:
        turn = this_turn()
        turn.reads()
        kept.append("kept" if turn.wait_for_slot() else "lost")

    async def scene() -> None:
        asked = asyncio.create_task(Questions(Traffic.in_memory(), tick=0.2, limit=5).run("alice", "a", work))
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
            while not curator._get("/questions")["questions"]:
                time.sleep(0.01)
        assert len(asked.result(30)) == 1
    curator.close()
