"""Shared state: rate limits that are exact across workers, tickets that no dead worker holds, counters."""

from __future__ import annotations

import subprocess
import sys

from hush.server import monitoring, questions, rate_limits
from hush.server.monitoring import Counters, exposition
from hush.server.questions import QuestionQueue
from hush.server.rate_limits import RateLimits
from hush.server.settings import open_storage
from hush.storage import Storage

_VISITS = """
import sys; from hush.server.rate_limits import SCHEMA, RateLimits; from hush.server.settings import open_storage
limits = RateLimits(open_storage(sys.argv[1], SCHEMA, durable=False), clock=lambda: 1000.0)
print(sum(limits.visit("alice", every=1, burst=50) == 0 for _ in range(40)))
"""


def _opened(place: str) -> Storage:
    return open_storage(place, (*questions.SCHEMA, *rate_limits.SCHEMA, *monitoring.SCHEMA), durable=False)


def test_rates_are_exact_across_workers(place: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", _VISITS, place], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert sum(int(worker.communicate(timeout=60)[0]) for worker in workers) == 50


def test_a_rate_recovers_and_a_clock_set_back_locks_nobody_out(place: str) -> None:
    now = [1000.0]
    storage = _opened(place)
    limits = RateLimits(storage, clock=lambda: now[0])
    for _ in range(5):
        assert limits.visit("alice", every=2, burst=5) == 0
    assert limits.visit("alice", every=2, burst=5) == 2
    now[0] += 2
    assert limits.visit("alice", every=2, burst=5) == 0
    assert limits.visit("bob", every=2, burst=5) == 0
    now[0] = 10.0
    assert 0 <= limits.visit("alice", every=2, burst=5) <= 2
    storage.close()


def test_nobody_has_two_questions_at_work(place: str) -> None:
    stores = _opened(place), _opened(place)
    here, there = map(QuestionQueue, stores)
    first, second = (here.enter("alice", name, limit=30, queue=9, each=9) for name in "ab")
    third = there.enter("bob", "c", limit=30, queue=9, each=9)
    assert here.start(first, limit=30)
    assert not here.start(second, limit=30)
    assert there.start(third, limit=30)
    assert [(position["request"], position["running"], position["ahead"]) for position in here.positions("alice")] == [
        ("a", True, 0),
        ("b", False, 0),
    ]
    here.leave(first)
    assert here.start(second, limit=30)
    assert there.cancel("alice", "b")
    assert not there.cancel("bob", "b")
    assert here.cancelled() == {second}
    for storage in stores:
        storage.close()


def test_whoever_is_told_that_a_question_is_cancelled_is_right(place: str) -> None:
    stores = _opened(place), _opened(place)
    here, there = map(QuestionQueue, stores)
    first, second = (here.enter("alice", name, limit=30, queue=9, each=9) for name in "ab")
    assert first is not None
    assert second is not None
    assert there.cancel("alice", "a")
    assert not here.close_ticket(first)
    assert there.cancel("alice", "a")  # told twice
    assert here.close_ticket(second)
    assert here.close_ticket(second)
    assert not there.cancel("alice", "b")
    assert here.cancelled() == {first}
    for storage in stores:
        storage.close()


def test_a_killed_worker_leaves_no_lock(place: str) -> None:
    code = (
        "import os, sys; from hush.server.questions import SCHEMA, QuestionQueue;"
        "from hush.server.settings import open_storage;"
        "t = QuestionQueue(open_storage(sys.argv[1], SCHEMA, durable=False));"
        "k = t.enter('alice', 'a', limit=30, queue=1, each=1); assert t.start(k, limit=30); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, place], check=False).returncode == -9
    storage = _opened(place)
    tickets = QuestionQueue(storage)
    ticket = tickets.enter("alice", "b", limit=30, queue=1, each=1)
    assert ticket is not None
    assert tickets.start(ticket, limit=30)
    storage.close()


def test_the_queue_and_everybodys_part_of_it_are_bounded(place: str) -> None:
    storage = _opened(place)
    tickets = QuestionQueue(storage)
    assert [tickets.enter("alice", "r", limit=1, queue=3, each=2) is None for _ in range(3)] == [False, False, True]
    assert tickets.enter("bob", "r", limit=1, queue=3, each=2) is not None
    assert tickets.enter("carol", "r", limit=1, queue=3, each=2) is None
    storage.close()


def test_counters_are_written_over_and_shown_together(place: str) -> None:
    storage = _opened(place)
    assert exposition(storage) == ""
    counters = Counters(storage, tick=0.1)
    for _ in range(3):
        counters.request("/", 200)
        counters.write()
    assert exposition(storage) == 'hush_requests_total{route="/",status="200"} 3\n'
    storage.close()
