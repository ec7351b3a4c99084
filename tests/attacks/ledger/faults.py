"""A file system that fails: every write and every forced write of SQLite and of the anchor goes through here.

SQLite's own file layer is wrapped in the running process (no compiler needed: the functions are replaced through
ctypes), and so are the two system calls of the anchor. A plan says which operation fails and how:

* ``once``: the nth operation fails, everything after it works;
* ``forever``: from the nth operation on, the disk is dead;
* ``torn``: the same, and the nth write gets half way;
* ``power``: the nth operation is the last; whatever was not forced to the disk is lost, all of it or a random part.

Each case runs in a forked child, which then dies without closing anything. The parent reopens the ledger and compares
it with what the child had been granted.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hush.accounting import ApproximateDPEvent
from hush.core import HushError
from hush.ledger import Actor, Ledger
from hush.ledger import anchors as anchor_file

OWNER = Actor.owner("owner")
CHARGES = 16
ANCHOR = os.environ.get("HUSH_TEST_ANCHOR")
INT, PTR, INT64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
IOERR_WRITE, IOERR_FSYNC, FULL = 778, 1034, 13

XOPEN = ctypes.CFUNCTYPE(INT, PTR, PTR, PTR, INT, PTR)
XREAD = XWRITE = ctypes.CFUNCTYPE(INT, PTR, PTR, INT, INT64)
XTRUNCATE = ctypes.CFUNCTYPE(INT, PTR, INT64)
XSYNC = ctypes.CFUNCTYPE(INT, PTR, INT)


class Vfs(ctypes.Structure):
    _fields_ = [
        ("version", INT),
        ("file_size", INT),
        ("path_size", INT),
        ("next", PTR),
        ("name", ctypes.c_char_p),
        ("data", PTR),
        ("open", PTR),
        ("rest", PTR * 16),
    ]


class Methods(ctypes.Structure):
    _fields_ = [
        ("version", INT),
        ("close", PTR),
        ("read", PTR),
        ("write", PTR),
        ("truncate", PTR),
        ("sync", PTR),
        ("rest", PTR * 14),
    ]


class File(ctypes.Structure):
    _fields_ = [("methods", ctypes.POINTER(Methods))]


class Disk:
    """Counts operations, and fails those that the plan says."""

    def __init__(self) -> None:
        self.plan, self.at, self.count = "none", 0, 0
        self.undo: dict[Any, list[Callable[[], None]]] = {}
        self.keep: list[Any] = []
        self.lock = threading.RLock()
        self.on_power_loss: Callable[[], None] = lambda: None

    def fails(self) -> bool:
        with self.lock:
            self.count += 1
            if self.plan == "none" or self.count < self.at:
                return False
            if self.plan == "power" and self.count == self.at:
                self.lose_power()
            return self.count == self.at or self.plan != "once"

    def lose_power(self) -> None:
        """Take back what was never forced: everything in even cases, half of it, by the case's number, in odd ones."""
        for name, steps in enumerate(self.undo.values()):
            for number, step in enumerate(reversed(steps)):
                if self.at % 2 == 0 or (self.at * 31 + name * 17 + number * 7) % 3:
                    step()
        self.on_power_loss()


DISK = Disk()


def wrap_sqlite() -> bool:
    """Put the wrapper under every file that SQLite opens from now on; False if the library cannot be reached."""
    library = ctypes.CDLL(_sqlite3.__file__)
    try:
        library.sqlite3_vfs_find.restype = PTR
        library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
        library.sqlite3_vfs_register.argtypes = [PTR, INT]
    except AttributeError:
        return False
    original = library.sqlite3_vfs_find(None)
    copy = Vfs.from_buffer_copy(ctypes.string_at(original, ctypes.sizeof(Vfs)))
    real_open = XOPEN(copy.open)
    wrapped: dict[int, Methods] = {}

    def opened(_vfs: int, name: int, file: int, flags: int, out: int) -> int:
        status = real_open(original, name, file, flags, out)
        handle = File.from_address(file)
        if status == 0 and handle.methods:
            address = ctypes.addressof(handle.methods.contents)
            if address not in wrapped:
                wrapped[address] = wrap(handle.methods.contents)
            handle.methods = ctypes.pointer(wrapped[address])
            DISK.undo[file] = []
        return status

    def wrap(real: Methods) -> Methods:
        read, write, truncate, sync = XREAD(real.read), XWRITE(real.write), XTRUNCATE(real.truncate), XSYNC(real.sync)

        def on_write(file: int, data: int, size: int, at: int) -> int:
            if DISK.fails():
                if DISK.plan == "torn" and DISK.count == DISK.at:
                    write(file, data, size // 2, at)
                return FULL if DISK.at % 2 else IOERR_WRITE
            before = ctypes.create_string_buffer(size)
            read(file, ctypes.addressof(before), size, at)
            DISK.undo[file].append(lambda: write(file, ctypes.addressof(before), size, at) and None)
            return write(file, data, size, at)

        def on_truncate(file: int, size: int) -> int:
            return IOERR_WRITE if DISK.fails() else truncate(file, size)

        def on_sync(file: int, flags: int) -> int:
            if DISK.fails():
                return IOERR_FSYNC
            DISK.undo[file].clear()
            return sync(file, flags)

        new = Methods.from_buffer_copy(real)
        for name, kind, function in (
            ("write", XWRITE, on_write),
            ("truncate", XTRUNCATE, on_truncate),
            ("sync", XSYNC, on_sync),
        ):
            callback = kind(function)
            DISK.keep.append((callback, function))
            setattr(new, name, ctypes.cast(callback, PTR).value)
        DISK.keep.append(new)
        return new

    callback = XOPEN(opened)
    copy.open = ctypes.cast(callback, PTR).value
    copy.name = b"faulty"
    DISK.keep += [callback, opened, copy, real_open, wrapped]
    return library.sqlite3_vfs_register(ctypes.addressof(copy), 1) == 0


class AnchorCalls:
    """Stands for the os module in the anchor's file."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: bytes, at: int) -> int:
        if DISK.fails():
            if DISK.plan == "torn" and DISK.count == DISK.at:
                os.pwrite(descriptor, data[: len(data) // 2], at)
            raise OSError(errno.ENOSPC, "no space left")
        before = os.pread(descriptor, len(data), at)
        again = os.dup(descriptor)
        DISK.undo.setdefault("anchor", []).append(lambda: os.pwrite(again, before, at) and None)
        return os.pwrite(descriptor, data, at)


def wrap_anchor() -> None:
    def forced(descriptor: int) -> None:
        if DISK.fails():
            raise OSError(errno.EIO, "input/output error")
        DISK.undo.setdefault("anchor", []).clear()
        os.fdatasync(descriptor)

    anchor_file.os = AnchorCalls()
    anchor_file.sync_file = forced


def use(path: Path, say: Callable[[str], None]) -> None:
    """Make a ledger and charge it, going on after every error; say what was granted."""
    ledger = None
    for step in ["open", "data", "alice", *(f"q{at}" for at in range(CHARGES))]:
        try:
            if ledger is None:
                ledger = Ledger.open(path, create=OWNER, anchor=ANCHOR)
                if os.environ.get("HUSH_TEST_CARELESS"):
                    ledger._chain.store.storage._connection.execute("PRAGMA synchronous = OFF")
            if step == "data":
                ledger.create_data("d", {"epsilon": 100}, actor=OWNER)
            elif step == "alice":
                ledger.add_analyst("alice", data="d", actor=OWNER)
            elif step != "open":
                events = [ApproximateDPEvent(epsilon=1)]
                ticket = ledger.reserve(step, analyst="alice", data="d", question="q", events=events)
                say(step)
                ledger.answered(ticket, b"42")
        except HushError:
            continue


def child(path: Path, plan: str, at: int, output: int) -> None:
    def say(word: str) -> None:
        os.write(output, word.encode() + b"\n")

    DISK.plan, DISK.at, DISK.count = plan, at, 0
    DISK.on_power_loss = lambda: os._exit(0)
    use(path, say)
    say(f"operations={DISK.count}")
    os._exit(0)


def case(folder: Path, plan: str, at: int) -> tuple[str | None, int]:
    """Run one case; return what is wrong, if anything, and how many operations there were."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    path = folder / "hush.ledger"
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child(path, plan, at, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        words = pipe.read().split()
    if os.waitpid(pid, 0)[1] != 0:
        return f"{plan} {at}: the child broke", 0
    operations = int(words.pop().split("=")[1]) if words and "=" in words[-1] else at
    try:
        with Ledger.open(path, create=OWNER, anchor=ANCHOR) as ledger:
            shown = {release.request for release in ledger.history(OWNER)}
            spent = sum(view.spent.epsilon for view in ledger.budget(OWNER) if view.analyst is None)
            ledger.verify()
    except HushError as error:
        return f"{plan} {at}: reopening failed after {words}: {error}", operations
    if not set(words) <= shown:
        return f"{plan} {at}: granted {sorted(set(words) - shown)}, but the ledger does not show it", operations
    if spent != len(shown):
        return f"{plan} {at}: {len(shown)} charges, but {spent} spent", operations
    return None, operations


def main(plans: list[str], last: int, step: int) -> None:
    if not wrap_sqlite():
        sys.stdout.write(json.dumps({"skip": "this Python's SQLite does not let its functions be found"}))
        return
    wrap_anchor()
    memory = Path("/dev/shm")  # noqa: S108 - forced writes to a memory disk take no time
    place = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    wrong, most = [], 0
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for plan in plans:
            for at in range(1, last + 1, step):
                problem, operations = case(Path(folder) / "case", plan, at)
                most = max(most, operations)
                if problem:
                    wrong.append(problem)
    sys.stdout.write(json.dumps({"wrong": wrong, "operations": most}))


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]))
