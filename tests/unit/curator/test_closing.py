"""Closing waits for what was asked, and nothing can be asked after it."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from hush.core import HushError
from hush.curator.errors import ClosedError
from hush.curator.opening import protect


def test_closing_waits_for_questions_that_run() -> None:
    for _ in range(3):
        curator = protect(pa.table({"x": list(range(1000))}), bounds={"x": (0, 1000)}, budget=1000)
        begun, answered, refused = threading.Barrier(5), [], []

        def ask() -> None:
            begun.wait()  # noqa: B023 - the threads end within the round
            for _ in range(20):
                try:
                    answered.append(curator.ask("SELECT COUNT(*) AS n, MEDIAN(x) AS m FROM data", epsilon="0.1"))  # noqa: B023
                except HushError as error:
                    refused.append(error)  # noqa: B023

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        while not answered:
            pass
        curator.close()
        for thread in threads:
            thread.join()
        assert answered
        assert all(isinstance(error, ClosedError) for error in refused), refused
        assert len(answered) + len(refused) == 80


def test_nothing_can_be_asked_after_it() -> None:
    curator = protect(pa.table({"x": [1]}), budget=1)
    curator.close()
    curator.close()
    for act in (curator.budget, curator.history, lambda: curator.explain("SELECT COUNT(*) FROM data", epsilon=1)):
        with pytest.raises(ClosedError):
            act()
