"""What the ledger needs of the operating system: the time, durable files, and which process made a reservation.

A reservation whose process died can never be answered; it stays charged, and history says so. Process numbers are used
again, so the number goes with the moment the process started, where the system tells (Linux does).

>>> alive(this_process())
True
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def _started(pid: int) -> str:
    """Return the kernel's start time of a process, or nothing where it cannot be told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    # The second field is the program's name in brackets, which may hold anything; the rest are numbers.
    return f"{boot}:{text.rpartition(')')[2].split()[19]}"


_SELF: dict[int, dict[str, Any]] = {}


def this_process() -> dict[str, Any]:
    """Return what names this process for as long as anybody may ask."""
    pid = os.getpid()
    if pid not in _SELF:  # also after a fork
        _SELF.clear()
        _SELF[pid] = {"host": socket.gethostname(), "pid": pid, "started": _started(pid)}
    return _SELF[pid]


def alive(process: Mapping[str, Any]) -> bool | None:
    """Say whether a process still runs; None when it ran on another host or cannot be told."""
    if process.get("host") != socket.gethostname() or not isinstance(process.get("pid"), int):
        return None
    if process.get("started"):
        return bool(_started(process["pid"]) == process["started"])
    if os.name != "posix":  # elsewhere signal 0 is not a question
        return None
    try:
        os.kill(process["pid"], 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None
    return True


def now() -> str:
    """Return the present moment in UTC, to the microsecond.

    >>> len(now()), now()[-1]
    (27, 'Z')
    """
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


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
