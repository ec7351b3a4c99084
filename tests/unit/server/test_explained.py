"""Explanations are kept for whoever they were given to, as long as they hold."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from hush.curator import pipeline
from hush.curator.session import AnalystSession
from hush.curator.terms import QuestionTerms
from hush.server.service import ExplanationCache

QUESTION = {"question": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.1"}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who had a question planned."""
    names: list[str] = []
    original = pipeline.parse

    def counted(session: AnalystSession, terms: QuestionTerms) -> object:
        names.append(session.analyst)
        return original(session, terms)

    monkeypatch.setattr(pipeline, "parse", counted)
    return names


def test_a_repeated_explanation_is_not_planned_again(
    browser: TestClient, alice: dict[str, str], planned: list[str]
) -> None:
    first, second = (browser.post("/api/v1/explain", json=QUESTION, headers=alice).json() for _ in range(2))
    assert first == second
    assert planned == ["alice"]
    other = {**QUESTION, "epsilon": "0.2"}
    assert browser.post("/api/v1/explain", json=other, headers=alice).json() != first
    assert planned == ["alice"] * 2


def test_nobody_is_told_quickly_what_another_was_told(
    browser: TestClient, alice: dict[str, str], people, planned: list[str]
) -> None:
    bob = {"authorization": f"Bearer {people.make_token('bob')[1]}"}
    for headers in (alice, bob, alice, bob):
        browser.post("/api/v1/explain", json=QUESTION, headers=headers)
    assert planned == ["alice", "bob"]


def test_what_is_left_is_that_of_now(browser: TestClient, alice: dict[str, str]) -> None:
    before = browser.post("/api/v1/explain", json=QUESTION, headers=alice).json()
    assert browser.post("/api/v1/ask", json={**QUESTION, "epsilon": "7"}, headers=alice).status_code == 200
    after = browser.post("/api/v1/explain", json=QUESTION, headers=alice).json()
    assert before != after


def test_it_is_bounded_and_forgets() -> None:
    now = [0.0]
    cache: ExplanationCache[int] = ExplanationCache(lambda: now[0])
    made: list[int] = []

    def explain() -> int:
        made.append(1)
        return len(made)

    for number in range(1000):
        cache.get(f"person {number % 100}", number, explain)
    assert len(cache._people) == 32
    assert max(map(len, cache._people.values())) <= 8
    made.clear()
    cache.get("person 99", 999, explain)
    assert made == []
    now[0] = 60.0
    cache.get("person 99", 999, explain)
    assert made == [1]
    with pytest.raises(ZeroDivisionError):
        cache.get("person 99", "wrong", lambda: 1 // 0)
    assert cache.get("person 99", "wrong", lambda: 2) == 2
