"""Closing waits for what was asked, and nothing can be asked after it."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from hush.core import HushError
from hush.curator.curator import Curator
from hush.curator.opening import protect
from hush.curator.session import ClosedError


class Asker(threading.Thread):
    """Asks twenty times, whatever comes back."""

    def __init__(self, curator: Curator, begun: threading.Event) -> None:
        super().__init__()
        self._curator, self._begun = curator, begun
        self.answers, self.refusals = 0, []

    def run(self) -> None:
        for _ in range(20):
            try:
                self._curator.ask("SELECT COUNT(*) AS n, MEDIAN(x) AS m FROM data", epsilon="0.1", fresh=True)
                self.answers += 1
            except HushError as error:
                self.refusals.append(error)
            self._begun.set()


@pytest.mark.parametrize("_", range(3))
def test_closing_waits_for_questions_that_run(_: int) -> None:
    begun = threading.Event()
    curator = protect(pa.table({"x": list(range(1000))}), bounds={"x": (0, 1000)}, budget=1000)
    askers = [Asker(curator, begun) for _ in range(4)]
    for asker in askers:
        asker.start()
    assert begun.wait(60)
    curator.close()
    for asker in askers:
        asker.join()
    refusals = [error for asker in askers for error in asker.refusals]
    assert all(isinstance(error, ClosedError) for error in refusals), refusals
    assert 0 < sum(asker.answers for asker in askers) == 80 - len(refusals)


def test_nothing_can_be_asked_after_it() -> None:
    curator = protect(pa.table({"x": [1]}), budget=1)
    curator.close()
    curator.close()
    for act in (curator.budget, curator.history, lambda: curator.explain("SELECT COUNT(*) FROM data", epsilon=1)):
        with pytest.raises(ClosedError):
            act()
