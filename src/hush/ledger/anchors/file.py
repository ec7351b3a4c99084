"""An anchor in a file: two slots written in turn, so a torn write costs the older mark, never both.

A slot is a line of JSON with its own SHA-256 in front. The even blocks of 4096 bytes belong to one slot and the odd
ones to the other, so both can grow, no block of one is ever touched by a write to the other, and a mark is
overwritten in place: forcing it to the disk needs no change to the directory or the size. The valid slot with the
higher turn counts. A write that was cut short leaves the mark before it, a state that the order of writes allows for.
No slot is overwritten before the other one is known to be on the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hush.ledger.anchors.base import Anchor, Mark, unreadable
from hush.ledger.entries import canonical
from hush.ledger.errors import LedgerDamagedError, LedgerUnavailableError
from hush.ledger.system import sync_directory, sync_file

_BLOCK = 4096
_QUICK = 3e-4
"""Seconds: forced writes below this are not worth a thread."""


class FileAnchor(Anchor):
    """A mark in a file."""

    def __init__(self, path: Path, *, exclusive: bool = True) -> None:
        self._path = path
        self.place = str(path)
        self.exclusive = exclusive
        self._seen: tuple[bytes, int, Mark] | None = None
        self._worker: tuple[int, ThreadPoolExecutor] | None = None
        self._slowness = 0.0
        self._forced: bytes | None = None
        """What the file held when this process last forced it to the disk."""

    def read(self) -> Mark | None:
        """Return the newer of the two slots' marks."""
        found = self._latest()
        return None if found is None else found[1]

    def _latest(self) -> tuple[int, Mark] | None:
        """Return the newest turn and its mark."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._seen = None
            return None
        except OSError as error:
            raise self._unavailable(error) from error
        if self._seen is not None and self._seen[0] == data:
            return self._seen[1:]
        self._seen = None
        if not data.strip(b"\0"):  # made, and never written: the crash came before the first mark
            return None
        valid = [content for slot in (0, 1) if (content := _content(data, slot)) is not None]
        if not valid:
            raise unreadable(self.place)
        newest = max(valid, key=lambda content: int(content["turn"]))
        mark = Mark.from_json(newest, self.place)
        self._seen = (data, newest["turn"], mark)
        return newest["turn"], mark

    def write(self, mark: Mark) -> None:
        """Write the slot that does not hold the newest mark, and force it to the disk."""
        with self._errors():
            descriptor = self._put(mark)
        self._force(descriptor)

    def begin(self, mark: Mark) -> Callable[[], None]:
        """Write the slot, and force it to the disk while the caller does something else."""
        with self._errors():
            descriptor = self._put(mark)
        if self._slowness < _QUICK:  # handing it to a thread would take longer
            return lambda: self._force(descriptor)
        if self._worker is None or self._worker[0] != os.getpid():  # threads do not survive a fork
            self._worker = (os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="hush-anchor"))
        return self._worker[1].submit(self._force, descriptor).result

    def _force(self, descriptor: int) -> None:
        """Force a written mark to the disk, and remember how long that took."""
        begin = time.monotonic()
        try:
            with self._errors():
                sync_file(descriptor)
        finally:
            os.close(descriptor)
        self._forced = self._seen[0] if self._seen is not None else None
        self._slowness += (time.monotonic() - begin - self._slowness) / 4

    def _put(self, mark: Mark) -> int:
        """Write a mark into the page cache; return the open file."""
        # The caller holds the ledger's lock and has read this anchor since it got it: what was seen is what is there.
        latest = self._seen[1:] if self._seen is not None else self._latest()
        turn = 0 if latest is None else latest[0] + 1
        if latest is None:
            self._make()
        line = canonical({"turn": turn, **mark.to_json()})
        text = hashlib.sha256(line).hexdigest().encode() + b" " + line + b"\n"
        before = bytes(2 * _BLOCK) if self._seen is None else self._seen[0]
        data = bytearray(before)
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            if before != self._forced:
                # Another process may still be forcing the newest mark to the disk. It must be there before the older
                # one is overwritten, and before this process commits anything: so that at most one mark is missing.
                sync_file(descriptor)
            for at in range(0, len(text), _BLOCK):
                block, place = text[at : at + _BLOCK].ljust(_BLOCK, b"\0"), 2 * at + turn % 2 * _BLOCK
                if os.pwrite(descriptor, block, place) != _BLOCK:
                    raise OSError("short write")  # noqa: TRY301 - the same way out as for any other failure
                data.extend(bytes(max(place - len(data), 0)))
                data[place : place + _BLOCK] = block
        except BaseException:
            os.close(descriptor)
            raise
        self._seen = (bytes(data), turn, mark)  # good as long as the file holds exactly this
        return descriptor

    def reset(self, mark: Mark) -> None:
        """Begin the file afresh, if what is in it cannot be read."""
        try:
            self._latest()
        except LedgerDamagedError:
            self._path.unlink()
        self.write(mark)

    def close(self) -> None:
        """End the thread that forces marks to the disk."""
        if self._worker is not None and self._worker[0] == os.getpid():
            self._worker[1].shutdown()
        self._worker = None

    def _make(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.truncate(descriptor, 2 * _BLOCK)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(self._path.parent)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"The anchor at {self.place} could not be read or written ({error.strerror or error}). Nothing is granted. "
            "Check the disk (space, rights), then try again, or choose another place when making a ledger: --anchor."
        )


def _content(data: bytes, slot: int) -> dict[str, Any] | None:
    """Return what a slot holds, or None if it was never written or is damaged."""
    text = b"".join(data[at : at + _BLOCK] for at in range(slot * _BLOCK, len(data), 2 * _BLOCK))
    check, _, line = text.partition(b"\n")[0].partition(b" ")
    if hashlib.sha256(line).hexdigest().encode() != check:
        return None
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):  # a forgery: no mark of ours is nested deeply, or has endless digits
        return None
    return content if isinstance(content, dict) and type(content.get("turn")) is int else None
