"""What goes on: rates that are exact across workers, and tickets that no dead worker holds."""

from __future__ import annotations

import json
import subprocess
import sys

from hush.server.traffic import Traffic

_VISITS = """
import sys; from hush.server.traffic import Traffic
traffic = Traffic(sys.argv[1], clock=lambda: 1000.0)
print(sum(traffic.visit("alice", every=1, burst=50) == 0 for _ in range(40)))
"""


def test_rates_are_exact_across_workers(place: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", _VISITS, place], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert sum(int(worker.communicate(timeout=60)[0]) for worker in workers) == 50


def test_a_rate_recovers_and_a_clock_set_back_locks_nobody_out(place: str) -> None:
    now = [1000.0]
    traffic = Traffic(place, clock=lambda: now[0])
    for _ in range(5):
        assert traffic.visit("alice", every=2, burst=5) == 0
    assert traffic.visit("alice", every=2, burst=5) == 2
    now[0] += 2
    assert traffic.visit("alice", every=2, burst=5) == 0
    assert traffic.visit("bob", every=2, burst=5) == 0
    now[0] = 10.0
    assert 0 <= traffic.visit("alice", every=2, burst=5) <= 2
    traffic.close()


def test_nobody_has_two_questions_at_work(place: str) -> None:
    here, there = Traffic(place), Traffic(place)
    first, second = (here.enter("alice", name, limit=30, queue=9, each=9) for name in "ab")
    third = there.enter("bob", "c", limit=30, queue=9, each=9)
    assert here.start(first, limit=30)
    assert not here.start(second, limit=30)
    assert there.start(third, limit=30)
    assert [(place.request, place.running, place.ahead) for place in here.places("alice")] == [
        ("a", True, 0),
        ("b", False, 0),
    ]
    here.leave(first)
    assert here.start(second, limit=30)
    assert there.cancel("alice", "b")
    assert not there.cancel("bob", "b")
    assert here.cancelled() == {second}
    here.close()
    there.close()


def test_whoever_is_told_that_a_question_is_cancelled_is_right(place: str) -> None:
    here, there = Traffic(place), Traffic(place)
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
    here.close()
    there.close()


def test_a_killed_worker_leaves_no_lock(place: str) -> None:
    code = (
        "import os, sys; from hush.server.traffic import Traffic; t = Traffic(sys.argv[1]);"
        "k = t.enter('alice', 'a', limit=30, queue=1, each=1); assert t.start(k, limit=30); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, place], check=False).returncode == -9
    traffic = Traffic(place)
    ticket = traffic.enter("alice", "b", limit=30, queue=1, each=1)
    assert ticket is not None
    assert traffic.start(ticket, limit=30)
    traffic.close()


def test_the_queue_and_everybodys_part_of_it_are_bounded(place: str) -> None:
    traffic = Traffic(place)
    assert [traffic.enter("alice", "r", limit=1, queue=3, each=2) is None for _ in range(3)] == [False, False, True]
    assert traffic.enter("bob", "r", limit=1, queue=3, each=2) is not None
    assert traffic.enter("carol", "r", limit=1, queue=3, each=2) is None
    assert json.dumps(traffic.counters()) == "{}"
    for value in (1, 3):
        traffic.count({"hush_requests_total": value})
    assert traffic.counters() == {"hush_requests_total": 3}
    traffic.close()
