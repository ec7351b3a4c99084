"""A limit of work: counted in steps, the same on every machine, and where abandoned work ends."""

from __future__ import annotations

import threading

import pytest

from hush.core import work
from hush.core.work import TooMuchWorkError, check_wanted, lift, limited, spend
from hush.curator.opening import protect
from hush.engines.errors import EngineError


def test_without_a_limit_nothing_is_counted() -> None:
    spend(10**18)
    lift(lambda: None)


def test_the_limit_is_of_all_steps_together() -> None:
    with limited(100):
        spend(100)
        with pytest.raises(TooMuchWorkError, match="more than 100 steps"):
            spend()
    spend(10**18)


def test_work_that_nobody_wants_ends() -> None:
    wanted = True

    def check() -> None:
        if not wanted:
            raise KeyboardInterrupt

    with limited(10**9, check):
        spend(10 * work._STEPS_BETWEEN_CHECKS)
        wanted = False
        with pytest.raises(KeyboardInterrupt):
            spend(10 * work._STEPS_BETWEEN_CHECKS)


def test_what_is_paid_for_has_no_limit_and_ends_when_abandoned() -> None:
    asked: list[int] = []
    with limited(10):
        lift(lambda: asked.append(1))
        spend(10**9)
    assert asked


def test_a_limit_holds_for_its_own_thread() -> None:
    with limited(10):
        thread = threading.Thread(target=spend, args=(1000,))
        thread.start()
        thread.join()
        spend(10)


def test_a_statement_is_interrupted() -> None:
    """One that would add up 10¹² products ends long before the test does; and none begins once nobody wants it."""
    abandoned = threading.Event()

    def check() -> None:
        if abandoned.is_set():
            raise EngineError

    with protect({"x": [1, 2, 3]}, bounds={"x": (0, 9)}, budget="1") as curator:
        (data_set,) = curator.data_sets.values()
        with limited(10**9, check) as at_work, data_set.engine.connection._begin() as talk:
            threading.Timer(0.2, lambda: (abandoned.set(), at_work.interrupt())).start()
            for _ in range(2):
                with pytest.raises(EngineError):
                    talk.execute("SELECT sum(a.i * b.i) FROM range(1000000) AS a(i), range(1000000) AS b(i)")
            with pytest.raises(EngineError):
                check_wanted()
    check_wanted()
