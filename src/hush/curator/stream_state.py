"""What a stream remembers beside the ledger, and what it may do with the ledger and the engine.

A state file is replaced as a whole, durably and at once. It holds exact numbers and is readable by its owner alone.

It grows with the units that were counted, so whoever only looks at a stream reads its public members alone
(`StreamState.public`): looking takes as long whatever the rows are. For the same reason a new state is written before
the moment at which it counts (`StateFiles.prepare`), and then only put in its place (`StateFiles.commit`).
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np

from hush.core import HushError
from hush.core.values import dataclass
from hush.synth.streams import Seen, Stream, StreamPlan

_ARRAYS = ("units", "keys", "rows", "sums", "used")
_ENDED = "\0ended"
"""Marks in memory that a stream has ended; no stream can be called so."""


class StreamError(HushError):
    """A stream is not there, is there already, has ended, or its state cannot be trusted."""

    code = "stream"


class StateFiles:
    """Where private state lives: a directory, or the process's memory."""

    def __init__(self, place: Path | None, memory: dict[str, bytes]) -> None:
        self._place, self._memory = place, memory

    def names(self) -> list[str]:
        """Return the names of all streams."""
        if self._place is None:
            return sorted(name for name in self._memory if not name.endswith(_ENDED))
        return sorted(path.stem for path in self._place.glob("*.stream")) if self._place.is_dir() else []

    def open(self, name: str) -> IO[bytes] | None:
        """Return a stream's state as a file, to be read as far as is wanted; None if there is no such stream."""
        if self._place is None:
            return io.BytesIO(self._memory[name]) if name in self._memory else None
        try:
            return (self._place / f"{name}.stream").open("rb")
        except FileNotFoundError:
            return None

    def write(self, name: str, state: bytes) -> None:
        """Replace a stream's state, durably and at once."""
        self.commit(name, self.prepare(name, state))

    def prepare(self, name: str, state: bytes) -> Path | bytes:
        """Write what is to become a stream's state, durably; `commit` or `discard` it."""
        if self._place is None:
            return state
        self._make()
        handle, temporary = tempfile.mkstemp(dir=self._place, prefix=f".{name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(state)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return Path(temporary)

    def _make(self) -> None:
        assert self._place is not None  # noqa: S101 - files alone
        for folder in (self._place.parent, self._place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def commit(self, name: str, prepared: Path | bytes) -> None:
        """Put what was prepared in the place of a stream's state, however large it is, in the same time."""
        if self._place is None or isinstance(prepared, bytes):
            assert isinstance(prepared, bytes)  # noqa: S101 - prepared in memory
            self._memory[name] = prepared
            return
        try:
            prepared.replace(self._place / f"{name}.stream")
        except BaseException:
            self.discard(prepared)
            raise
        self._sync()

    @staticmethod
    def discard(prepared: Path | bytes) -> None:
        """Throw away what was prepared, if it was not committed."""
        if isinstance(prepared, Path):
            prepared.unlink(missing_ok=True)

    def end(self, name: str) -> None:
        """Note that a stream has ended, apart from its state."""
        if self._place is None:
            self._memory[name + _ENDED] = b""
            return
        (self._place / f"{name}.ended").touch(mode=0o600)
        self._sync()

    def ended(self, name: str) -> bool:
        """Return whether a stream has ended, as was noted apart from its state."""
        if self._place is None:
            return name + _ENDED in self._memory
        return (self._place / f"{name}.ended").exists()

    def _sync(self) -> None:
        assert self._place is not None  # noqa: S101 - files alone
        directory = os.open(self._place, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def mark(self, name: str, period: int) -> None:
        """Note how far a stream was released, apart from its state."""
        if self._place is None:
            return
        path = self._place / f"{name}.released"
        with path.open("w") as file:
            file.write(str(period))
            file.flush()
            os.fsync(file.fileno())

    def marked(self, name: str) -> int:
        """Return how far a stream was released, as was noted apart from its state."""
        if self._place is None:
            return 0
        try:
            text = (self._place / f"{name}.released").read_text()
        except FileNotFoundError:
            return 0
        return int(text) if text.isdecimal() else 0

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Let one process at a time change a stream."""
        if self._place is None:
            yield
            return
        self._make()
        with (self._place / f".{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class StreamState:
    """All that a stream remembers. Private."""

    definition: dict[str, Any]
    stream: Stream
    seen: Seen

    def to_bytes(self) -> bytes:
        """Return the state as it is written."""
        file = io.BytesIO()
        arrays = {name: getattr(self.seen, name) for name in _ARRAYS}
        head = np.frombuffer(json.dumps(self.definition).encode(), dtype=np.uint8)
        np.savez(file, definition=head, exact=self.stream.exact, measured=self.stream.measured, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamState:
        """Return the state that was written."""
        return cls.read(io.BytesIO(data))

    @classmethod
    def read(cls, file: IO[bytes]) -> StreamState:
        """Return the state in a file."""
        state = cls.public(file)
        with _members(file) as kept:
            seen = Seen(**{name: kept[name] for name in _ARRAYS})
            return cls(state.definition, replace(state.stream, exact=kept["exact"]), seen)

    @classmethod
    def public(cls, file: IO[bytes]) -> StreamState:
        """Return what is public of the state in a file: definition and released numbers. The rest is not read."""
        with _members(file) as kept:
            definition = json.loads(kept["definition"].tobytes())
            plan = StreamPlan(
                periods=definition["periods"],
                variance=Fraction(definition["variance"]),
                rho=Fraction(definition["rho"]),
                confidence=definition["confidence"],
            )
            measured = kept["measured"]
            return cls(definition, Stream(plan=plan, exact=measured[:0], measured=measured), Seen.nothing())


@contextmanager
def _members(file: IO[bytes]) -> Iterator[Any]:
    """Give the members of a state's file; each is read when it is asked for."""
    try:
        file.seek(0)
        with np.load(file, allow_pickle=False) as kept:
            yield kept
    except (ValueError, KeyError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise StreamError("The state of the stream cannot be read; restore it from a backup.") from error
