"""Forcing files and directories to the disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def sync_file(descriptor: int) -> None:
    """Return when the file's content is on the disk."""
    if sys.platform == "darwin":  # fsync leaves the data in the drive's cache there
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk, where the system can do that at all."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
