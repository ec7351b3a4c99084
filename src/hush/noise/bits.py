"""Random bits: AES-256 in counter mode, keyed from the operating system.

Noise is only as private as its bits are unpredictable, so there is one source, it is cryptographic, and it cannot
be seeded. Each thread of each process has a stream of its own:

* **Key.** 32 bytes from ``os.urandom``. A stream is AES-256-CTR from counter 0 under that key, so it is
  indistinguishable from uniform bits as long as AES-256 is a pseudo-random permutation and fewer than 2⁴⁸ blocks
  are drawn under one key (each key serves one request, so no request that fits into memory comes near).
* **Key erasure.** After every request the next 32 bytes of the stream become the new key and the old one is dropped
  (Bernstein 2017, "Fast-key-erasure random-number generators"): who reads the memory later cannot recompute noise
  that was drawn before.
* **Fresh entropy.** After ``RESEED_WORDS`` words the new key is SHA-256(next 32 bytes ‖ 32 bytes from
  ``os.urandom``).
* **Fork.** A child never goes on with its parent's stream: ``os.register_at_fork`` moves a generation counter, and
  the process id is compared as well, before each request. **Threads** share nothing.

Words are unsigned 64-bit integers. Samplers take a `BitSource`, so that tests can enumerate their inputs; the
public functions always pass `system_bits()`, and nothing in the package can replace that.

>>> 0 <= system_bits().word() < 2**64
True
>>> system_bits().words(3).dtype
dtype('uint64')
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

RESEED_WORDS = 2**24
"""Words after which fresh entropy is mixed into the key (128 MiB)."""

_BUFFER = 512
_ZEROS = bytes(8 * 2**15)
_generation = 0


def _forked() -> None:
    global _generation  # noqa: PLW0603 - one process, one generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class BitSource(Protocol):
    """Where samplers get their bits."""

    def word(self) -> int:
        """Return 64 fresh bits as an integer."""

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return ``count`` words of 64 fresh bits each."""


class _Stream:
    """One thread's stream; it serves one process only."""

    def __init__(self) -> None:
        self.owner = (os.getpid(), _generation)
        self._drawn = 0
        self._buffer: list[int] = []
        self._start(os.urandom(32))

    def _start(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        size = 8 * count
        if size <= len(_ZEROS):
            array = np.frombuffer(self._cipher.update(_ZEROS[:size]), dtype=np.uint64)
        else:
            parts = [self._cipher.update(_ZEROS[: min(len(_ZEROS), size - at)]) for at in range(0, size, len(_ZEROS))]
            array = np.frombuffer(b"".join(parts), dtype=np.uint64)
        key = self._cipher.update(_ZEROS[:32])
        self._drawn += count
        if self._drawn >= RESEED_WORDS:
            self._drawn = 0
            key = hashlib.sha256(key + os.urandom(32)).digest()
        self._start(key)
        return array

    def word(self) -> int:
        # list.pop is one step of the interpreter, so even a signal handler that draws noise never sees a word twice.
        while True:
            try:
                return self._buffer.pop()
            except IndexError:
                self._buffer = self.words(_BUFFER).tolist()


class SystemBits:
    """The production source: one stream a thread and process, made on first use."""

    def __init__(self) -> None:
        self._local = threading.local()

    def _stream(self) -> _Stream:
        stream: _Stream | None = getattr(self._local, "stream", None)
        if stream is None or stream.owner != (os.getpid(), _generation):
            stream = self._local.stream = _Stream()
        return stream

    def word(self) -> int:
        """Return 64 fresh bits as an integer."""
        return self._stream().word()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return ``count`` words of 64 fresh bits each, read-only."""
        return self._stream().words(count)


_SYSTEM = SystemBits()


def system_bits() -> SystemBits:
    """Return the process's cryptographic bit source."""
    return _SYSTEM
