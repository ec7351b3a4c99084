"""Where an engine puts what does not fit into memory: a directory of its own, which goes when the engine does."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable


def spill_of(owner: object) -> tuple[str, Callable[[], object]]:
    """Return a new directory, and what removes it; without that it goes with its owner, or with the process."""
    place = tempfile.mkdtemp(prefix="hush-spill-")
    return place, weakref.finalize(owner, _remove, place, os.getpid())


def _remove(place: str, pid: int) -> None:
    if pid == os.getpid():  # a fork ends earlier, and is not the owner
        shutil.rmtree(place, ignore_errors=True)
