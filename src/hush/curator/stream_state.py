"""The private state of running totals, beside the ledger.

A state file is replaced as a whole, durably and at once. It holds exact numbers and is readable by its owner alone.

It grows with the units that were counted, so a reader of a stream reads its public members alone
(`StreamState.public`): the time that this takes does not depend on rows. For the same reason a new state is written
before the moment at which it counts (`StateFiles.prepare`), and then only put in its place (`StateFiles.commit`).

Integers of any width are written: those beyond 64 bits as decimal digits. A new state is read back before it replaces
the old one, so a stream that was paid for cannot become unreadable.

**Encryption.** ``HUSH_STREAMS_KEY`` in the environment names a file of 32 random bytes outside the directory. With it,
all that is private in a state is written under AES-256-GCM, bound to the definition that it belongs to. Definitions and
released numbers are public, and stay readable without the key.
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
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hush.core import HushError
from hush.synth.streams import RunningTotals, Seen, StreamPlan

KEY = "HUSH_STREAMS_KEY"
"""The environment variable that names the file of the key."""
_ARRAYS = ("units", "keys", "rows", "sums", "used")
_PLAIN, _SEALED = b"p", b"s"
_NONCE, _TAG, _CHUNK = 12, 16, 2**30
_ENDED = "\0ended"
"""The suffix that marks an ended stream in memory; it is not allowed in names of streams."""


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
        """Return a stream's state as an open file; None if there is no stream of this name."""
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
        """Write a new state durably, beside the old one; `commit` or `discard` it."""
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
        """Replace a stream's state by a prepared one: a rename, which takes the same time for every size."""
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
        """Delete a prepared state that was not committed."""
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
        # a rename or a new file is durable only when its directory is written, too
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
        # a mark that was cut off while it was written counts as none
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
    stream: RunningTotals
    seen: Seen

    def to_bytes(self) -> bytes:
        """Return the state as it is written."""
        head = json.dumps(self.definition).encode()
        private = _saved(exact=self.stream.exact, **{name: getattr(self.seen, name) for name in _ARRAYS})
        members = {"definition": head, "private": sealed(private, head)}
        arrays = {name: np.frombuffer(member, np.uint8) for name, member in members.items()}
        return _saved(measured=self.stream.measured, **arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamState:
        """Return the state that was written."""
        return cls.read(io.BytesIO(data))

    @classmethod
    def read(cls, file: IO[bytes]) -> StreamState:
        """Return the state in a file."""
        state = cls.public(file)
        with _members(file) as members:
            private = unsealed(members["private"].tobytes(), members["definition"].tobytes())
        with _members(io.BytesIO(private)) as members:
            arrivals = Seen(**{name: _wide(members[name]) for name in _ARRAYS})
            return cls(state.definition, replace(state.stream, exact=_wide(members["exact"])), arrivals)

    @classmethod
    def public(cls, file: IO[bytes]) -> StreamState:
        """Return the public members of a state: definition and released numbers. The others are not read."""
        with _members(file) as members:
            definition = json.loads(members["definition"].tobytes())
            plan = StreamPlan(
                periods=definition["periods"],
                variance=Fraction(definition["variance"]),
                rho=Fraction(definition["rho"]),
                confidence=definition["confidence"],
            )
            measured = _wide(members["measured"])
            # the exact series and the units are private members, so they stay empty here
            return cls(definition, RunningTotals(plan=plan, exact=measured[:0], measured=measured), Seen.nothing())


@contextmanager
def _members(file: IO[bytes]) -> Iterator[Any]:
    """Give the members of a state's file; each is read when it is asked for."""
    try:
        file.seek(0)
        with np.load(file, allow_pickle=False) as members:
            yield members
    except (ValueError, KeyError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise StreamError("The state of the stream cannot be read; restore it from a backup.") from error


def _saved(**arrays: npt.NDArray[Any]) -> bytes:
    """Return arrays as a file; integers wider than 64 bits as digits."""
    narrow = {name: array.astype(np.bytes_) if array.dtype == object else array for name, array in arrays.items()}
    np.savez(file := io.BytesIO(), **narrow)  # type: ignore[arg-type]
    return file.getvalue()


def _wide(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers as they were before `_saved`."""
    if array.dtype.kind != "S":
        return array
    return np.array([int(digits) for digits in array.ravel()], dtype=object).reshape(array.shape)


def sealed(data: bytes, context: bytes) -> bytes:
    """Return data encrypted for a context, in chunks that the cipher takes; as they are, where there is no key."""
    cipher = _cipher()
    if cipher is None:
        return _PLAIN + data
    pieces = [_SEALED]
    for start in range(0, len(data), _CHUNK):
        nonce = os.urandom(_NONCE)
        # place and length are authenticated with each chunk: none can be moved or cut off
        pieces += [nonce, cipher.encrypt(nonce, data[start : start + _CHUNK], b"%d %d " % (start, len(data)) + context)]
    return b"".join(pieces)


def unsealed(data: bytes, context: bytes) -> bytes:
    """Return the data that `sealed` encrypted."""
    if data[:1] == _PLAIN:
        return data[1:]
    cipher = _cipher()
    if cipher is None:
        raise StreamError(f"The state of the stream is encrypted: name the file of its key in {KEY}.")
    sealed_size, size = _CHUNK + _NONCE + _TAG, len(data) - 1
    length = size - -(-size // sealed_size) * (_NONCE + _TAG)
    chunks = [data[start : start + sealed_size] for start in range(1, len(data), sealed_size)]
    try:
        return b"".join(
            cipher.decrypt(chunk[:_NONCE], chunk[_NONCE:], b"%d %d " % (number * _CHUNK, length) + context)
            for number, chunk in enumerate(chunks)
        )
    except InvalidTag as error:
        raise StreamError(f"The state of the stream was encrypted with another key than {KEY} names.") from error


def _cipher() -> AESGCM | None:
    """Return the cipher of the key that the environment names; None where it names none."""
    path = os.environ.get(KEY)
    if not path:
        return None
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise StreamError(f"{KEY} names {path!r}, which cannot be read: {error.strerror}.") from error
    if len(key) != 32:
        hint = f"Make one: head -c 32 /dev/urandom > {path}"
        raise StreamError(f"{KEY} must name a file of 32 bytes; {path!r} has {len(key)}. {hint}")
    return AESGCM(key)
