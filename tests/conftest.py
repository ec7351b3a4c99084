"""What all tests share: files in memory, a state directory of their own, a garbage collector that leaves them alone."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hush.ledger import Charge, Decision, Ledger

_MEMORY = Path("/dev/shm")  # noqa: S108 - a disk in memory
_ROOM = 8 * 2**30
"""How many bytes must be free there: services, browsers and Spark have their files there, too."""


def pytest_configure() -> None:
    """Keep temporary files in memory: ledgers force them to the disk thousands of times, which takes no time there."""
    if not os.access(_MEMORY, os.W_OK) or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ.setdefault("TMPDIR", str(_MEMORY))
        tempfile.tempdir = None  # it is chosen anew


def pytest_collection_finish() -> None:
    """Keep ten thousand tests and their modules out of collections, which would take a second each."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # extension modules tell of all that is not freed in the end


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put anchors of ledgers elsewhere than into the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def no_answer_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse an answer that was paid for before: it has no noise of its own."""
    reserve = Ledger.reserve

    def watched(self: Ledger, request: str, **how: Any) -> Decision:
        decision = reserve(self, request, **how)
        assert isinstance(decision, Charge), "this question was answered before: ask it with fresh=True"
        return decision

    monkeypatch.setattr(Ledger, "reserve", watched)
