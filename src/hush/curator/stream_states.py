"""The private state of running totals: its files, what is in them, and their encryption.

Beside the ledger, readable by its owner alone, lies one file for each stream: the definition, the exact series so far,
what was counted of each unit (by a keyed hash), and all that was released. It is replaced as a whole, durably and at
once. Killed before that, a period was shown to nobody and is measured anew; killed after, it is released. So no period
ever has two noises.

Nothing that readers wait for depends on rows: they read the public members alone (`StreamState.public`), and a new
state, which grows with the units that were counted, is written before the moment at which it counts
(`StateFiles.prepare`), and then only put in its place (`StateFiles.commit`).

How many periods were released is also noted in a file of its own: a state file that is older than that is refused,
because to go on from it would release periods twice. If both files of an earlier day are restored, nobody notices.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

from hush.core import HushError
from hush.policy.ledger import STREAMS_KEY
from hush.storage import sync_directory
from hush.synth.streams import RunningTotals, Seen, StreamPlan

_ARRAYS = ("units", "keys", "rows", "sums", "used")
_PLAIN, _SEALED = b"p", b"s"
_NONCE, _TAG = 12, 16


class StreamError(HushError):
    """A stream is not there, is there already, has ended, or its state cannot be trusted."""


class StateFiles:
    """Where private state lives: files in a directory, or in the process's memory. A stream has up to three.

    ``NAME.stream`` is its state. ``NAME.released``, how many periods were released, and ``NAME.ended`` are marks apart
    from it.
    """

    def __init__(self, place: Path | None, memory: dict[str, bytes]) -> None:
        self._place, self._memory = place, memory

    def names(self) -> list[str]:
        """Return the names of all streams."""
        files = self._memory if self._place is None else [path.name for path in self._place.glob("*.stream")]
        return sorted(file.removesuffix(".stream") for file in files if file.endswith(".stream"))

    def open(self, name: str, suffix: str = ".stream") -> IO[bytes] | None:
        """Return a stream's state, or one of its marks, as an open file; None if it is not there."""
        try:
            if self._place is None:
                return io.BytesIO(self._memory[name + suffix])
            return (self._place / f"{name}{suffix}").open("rb")
        except (KeyError, FileNotFoundError):
            return None

    def prepare(self, name: str, state: bytes) -> Path | bytes:
        """Write a new state durably, beside the old one; `commit` or `discard` it."""
        if self._place is None:
            return state
        self._make_folder(self._place)
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

    @staticmethod
    def _make_folder(place: Path) -> None:
        for folder in (place.parent, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def commit(self, name: str, prepared: Path | bytes, suffix: str = ".stream") -> None:
        """Replace a stream's state by a prepared one: a rename, which takes the same time for every size."""
        if isinstance(prepared, bytes):
            self._memory[name + suffix] = prepared
        else:
            prepared.replace(prepared.with_name(name + suffix))
            sync_directory(prepared.parent)

    @staticmethod
    def discard(prepared: Path | bytes) -> None:
        """Delete a prepared state that was not committed."""
        if isinstance(prepared, Path):
            prepared.unlink(missing_ok=True)

    def mark(self, name: str, suffix: str, text: str = "") -> None:
        """Write a mark durably, apart from the state."""
        self.commit(name, self.prepare(name, text.encode()), suffix)

    def marked(self, name: str, suffix: str) -> str | None:
        """Return the text of a mark; None if it is not there."""
        file = self.open(name, suffix)
        if file is None:
            return None
        with file:
            return file.read().decode()

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Let one process at a time change a stream."""
        if self._place is None:
            yield
            return
        self._make_folder(self._place)
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
    """Return the integers of an array from `_saved`: from digits, where they are wider than 64 bits."""
    if array.dtype.kind != "S":
        return array
    return np.array([int(digits) for digits in array.ravel()], dtype=object).reshape(array.shape)


def sealed(data: bytes, context: bytes) -> bytes:
    """Return data encrypted for a context; as they are, where there is no key."""
    key = _key()
    if key is None:
        return _PLAIN + data
    nonce = os.urandom(_NONCE)
    encryptor = Cipher(AES(key), GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(b"0 %d " % len(data) + context)
    return b"".join([_SEALED, nonce, encryptor.update(data), encryptor.finalize(), encryptor.tag])


def unsealed(data: bytes, context: bytes) -> bytes:
    """Return the data that `sealed` encrypted."""
    if data[:1] == _PLAIN:
        return data[1:]
    key = _key()
    if key is None:
        raise StreamError(f"The state of the stream is encrypted: name the file of its key in {STREAMS_KEY}.")
    nonce, encrypted, tag = data[1 : 1 + _NONCE], data[1 + _NONCE : -_TAG], data[-_TAG:]
    decryptor = Cipher(AES(key), GCM(nonce, tag)).decryptor()
    decryptor.authenticate_additional_data(b"0 %d " % len(encrypted) + context)
    try:
        return decryptor.update(encrypted) + decryptor.finalize()
    except InvalidTag as error:
        raise StreamError(
            f"The state of the stream was encrypted with another key than {STREAMS_KEY} names."
        ) from error


def _key() -> bytes | None:
    """Return the key that the environment names; None where it names none."""
    path = os.environ.get(STREAMS_KEY)
    if not path:
        return None
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise StreamError(f"{STREAMS_KEY} names {path!r}, which cannot be read: {error.strerror}.") from error
    if len(key) != 32:
        hint = f"Make one: head -c 32 /dev/urandom > {path}"
        raise StreamError(f"{STREAMS_KEY} must name a file of 32 bytes; {path!r} has {len(key)}. {hint}")
    return key


def read_state(
    files: StateFiles, name: str, read: Callable[[IO[bytes]], StreamState] = StreamState.public
) -> StreamState:
    """Return the state of running totals: by default its public members."""
    file = files.open(name)
    if file is None:
        raise StreamError(f"There is no stream {name!r} any more.")
    with file:
        state = read(file)
    if files.marked(name, ".ended") is not None:
        state = replace(state, definition=state.definition | {"ended": True})
    mark = files.marked(name, ".released") or ""
    # a mark that an earlier version was cut off while it wrote it counts as none
    marked_periods = int(mark) if mark.isdecimal() else 0
    if marked_periods > state.stream.released:
        raise StreamError(
            f"The state of {name!r} ends at period {state.stream.released}, but {marked_periods} were released. "
            "It is an old copy, and to go on from it would release periods twice. Restore the newest state."
        )
    return state
