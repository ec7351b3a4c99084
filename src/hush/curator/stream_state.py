"""What a stream remembers beside the ledger, and what it may do with the ledger and the engine.

A state file is replaced as a whole, durably and at once. It holds exact numbers and is readable by its owner alone.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core import HushError
from hush.core.values import dataclass
from hush.synth.streams import Seen, Stream, StreamPlan

if TYPE_CHECKING:
    pass

_ARRAYS = ("units", "keys", "rows", "sums", "used")


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
            return sorted(self._memory)
        return sorted(path.stem for path in self._place.glob("*.stream")) if self._place.is_dir() else []

    def read(self, name: str) -> bytes | None:
        """Return a stream's state; None if there is no such stream."""
        if self._place is None:
            return self._memory.get(name)
        try:
            return (self._place / f"{name}.stream").read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, state: bytes) -> None:
        """Replace a stream's state, durably and at once."""
        if self._place is None:
            self._memory[name] = state
            return
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._place, prefix=f".{name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(state)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._place / f"{name}.stream")
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
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
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as kept:
                definition = json.loads(kept["definition"].tobytes())
                plan = StreamPlan(
                    periods=definition["periods"],
                    variance=Fraction(definition["variance"]),
                    rho=Fraction(definition["rho"]),
                    confidence=definition["confidence"],
                )
                seen = Seen(**{name: kept[name] for name in _ARRAYS})
                return cls(definition, Stream(plan=plan, exact=kept["exact"], measured=kept["measured"]), seen)
        except (ValueError, KeyError, OSError, EOFError) as error:
            raise StreamError("The state of the stream cannot be read; restore it from a backup.") from error
