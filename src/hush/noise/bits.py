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

**Lazily refined uniforms, and decisions in ball arithmetic.**

The idea behind every sampler here (docs/exact-noise.md explains it). A uniform real U in [0, 1) is known by its first n
bits: U lies in [m/2ⁿ, (m+1)/2ⁿ]. A sampler needs a discrete fact about some f(U): its floor, its sign, which grid point
is nearest. If the fact is the same for the whole interval, it is *known*, and the bits not drawn can never matter; if
not, 64 more bits are drawn. So the result is exactly what the ideal real U would have given.

Two levels decide: float64 with a proven bound on its error, unless the interval, widened by that bound, straddles the
decision; then ball arithmetic (Arb, through python-flint), in which every ball is proven to contain the true value.
(Arb's precision is a global setting. If another thread lowers it in the middle, balls grow wider and stay right.) A
decision fails to settle only for U equal to one of countably many thresholds; the chance that it takes more than n
extra words shrinks like 2^(-64n).

**Sizes, chunks and integer arrays: what every vectorised sampler shares.**

Draws are made in chunks that fit the processor's cache, so memory beyond the result itself is constant. A result is
an int64 array; when a draw does not fit, the whole array holds Python integers (dtype object) instead: nothing ever
wraps.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hush.core import InvalidValueError, integer
from hush.core.rounding import Ball, ball, flint, precision

RESEED_WORDS = 2**24
"""Words after which fresh entropy is mixed into the key (128 MiB)."""

_BUFFERED_WORDS = 512
"""Words that a stream draws at once for callers that take single words."""
_ZEROS = bytes(8 * 2**15)
"""Zero bytes: encrypted in counter mode, they become the key stream itself."""
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


class SystemBits(threading.local):
    """The production source: one stream for each thread and process, made on first use."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._drawn = 0
        self._buffer: list[int] = []
        self._start(os.urandom(32))
        # Last: were it interrupted before, by a signal handler or an error, the parent's stream would be drawn from.
        self._owner = (os.getpid(), _generation)

    def _start(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return ``count`` words of 64 fresh bits each, read-only."""
        if self._owner != (os.getpid(), _generation):  # a child of the process that began the stream
            self._begin()
        times, rest = divmod(8 * count, len(_ZEROS))
        parts = map(self._cipher.update, [_ZEROS] * times + [_ZEROS[:rest]])
        array = np.frombuffer(b"".join(parts), dtype=np.uint64)
        # Fast key erasure: the next 32 bytes of the stream are the new key, and no caller ever sees them.
        key = self._cipher.update(_ZEROS[:32])
        self._drawn += count
        if self._drawn >= RESEED_WORDS:
            self._drawn = 0
            # The hash of both is unpredictable if either is: a weak urandom cannot make the key worse.
            key = hashlib.sha256(key + os.urandom(32)).digest()
        self._start(key)
        return array

    def word(self) -> int:
        """Return 64 fresh bits as an integer."""
        if self._owner != (os.getpid(), _generation):
            self._begin()
        # list.pop is one step of the interpreter, so even a signal handler that draws noise never sees a word twice.
        while True:
            try:
                return self._buffer.pop()
            except IndexError:
                self._buffer = self.words(_BUFFERED_WORDS).tolist()


_SYSTEM = SystemBits()


def system_bits() -> SystemBits:
    """Return the process's cryptographic bit source."""
    return _SYSTEM


_HALF = Fraction(1, 2)

Real = Callable[[int], Ball]
"""A real number: called with a precision in bits, returns a ball around itself."""


class Uniform:
    """A uniform real in [0, 1), known by its first ``bits`` binary digits: the integer ``digits``."""

    __slots__ = ("bits", "digits", "source")

    def __init__(self, source: BitSource, digits: int = 0, bits: int = 0) -> None:
        self.source = source
        self.digits = digits
        self.bits = bits

    def refine(self) -> None:
        """Draw 64 more binary digits."""
        self.digits = (self.digits << 64) | self.source.word()
        self.bits += 64

    def ball(self) -> Ball:
        """Return a ball around the interval of all reals that begin with these digits."""
        module = flint()
        # [m, m+1]/2ⁿ is (2m + 1 ± 1)/2ⁿ⁺¹. Where the product is rounded to the working precision, the ball widens.
        middle = module.arb(2 * self.digits + 1, 1)
        return middle * module.arb(2) ** -(self.bits + 1)


def settle(attempt: Callable[[], Any], uniforms: list[Uniform], bits: int = 128) -> Any:
    """Call ``attempt`` with growing precision and ever more bits until it returns something other than None."""
    while True:
        with precision(bits):
            outcome = attempt()
        if outcome is not None:
            return outcome
        # The digits already drawn stay: a draw that began anew here would follow another law.
        for uniform in uniforms:
            uniform.refine()
        bits += 96  # by more than the 64 digits of a refinement, so that the precision stays ahead of the digits


def floor(value: Ball) -> int | None:
    """Return the floor of a ball if it is the same throughout, else None."""
    integer_part = value.floor().unique_fmpz()
    return None if integer_part is None else int(integer_part)


def nearest(value: Ball) -> int | None:
    """Return the integer nearest to a ball if it is the same throughout, else None."""
    return floor(value + ball(_HALF))


def less(first: Ball, second: Ball) -> bool | None:
    """Return whether first < second if the two balls do not overlap, else None."""
    if first < second:  # Arb compares balls for all their points: two that overlap are neither < nor >
        return True
    if first > second:
        return False
    return None


CHUNK = 2**15
"""Numbers drawn at once: 256 KiB, which a processor's cache holds."""
_MAX_ARRAY_LENGTH = 2**59  # more 8-byte numbers than any address space holds
_INT64_MAX = 2**63 - 1

Size = int | tuple[int, ...] | None


def drawn(
    size: object,
    batch: Callable[..., npt.NDArray[Any]],
    single: Callable[..., Any] | None,
    *law: Any,
    dtype: Any = np.int64,
) -> Any:
    """Return one draw of a law where ``size`` is None, else an array of this shape, made in chunks.

    They are ``single(*law, bits)`` and ``batch(*law, count, bits)``.
    """
    bits = system_bits()
    if size is None:
        return int(batch(*law, 1, bits)[0]) if single is None else single(*law, bits)
    if isinstance(size, list):
        raise InvalidValueError("size", got=size, allowed="a whole number or a tuple of whole numbers")
    shape = tuple(integer(length, "size", minimum=0) for length in (size if isinstance(size, tuple) else (size,)))
    if math.prod(filter(None, shape)) > _MAX_ARRAY_LENGTH:
        raise InvalidValueError("size", got=size, allowed=f"at most {_MAX_ARRAY_LENGTH} numbers in all")
    total = math.prod(shape)
    out: npt.NDArray[Any] = np.empty(total, dtype=dtype)
    for start in range(0, total, CHUNK):
        chunk = batch(*law, min(CHUNK, total - start), bits)
        if chunk.dtype == object and out.dtype != object:
            out = out.astype(object)
        out[start : start + len(chunk)] = chunk
    return out.reshape(shape)


_LIFT = 2**51
"""Added to a small result, so that Python's integer has two machine digits at any value."""


def join(high: int, low: int, bits: int, *, negative: bool) -> int:
    """Return ±(high·2^bits + low) for low < 2^bits, in a time that does not depend on the size of the result.

    Python's integers get slower past 2³⁰, where they take a second machine digit. So small results are computed in
    float64, exact below 2⁵³, lifted by 2⁵¹ to two digits at any value, and lowered again.
    """
    if bits <= 50:
        value = high * 2.0**bits + low  # may round above 2⁵³, but only results below 2⁵⁰, all exact, are used
        if value < 2.0**50:
            return int(2.0**51 - value if negative else 2.0**51 + value) - _LIFT
    magnitude = (high << bits) | low
    return -magnitude if negative else magnitude


def put(array: npt.NDArray[Any], positions: Iterable[int], values: Iterable[int]) -> npt.NDArray[Any]:
    """Return ``array`` with Python integers stored at the positions, as objects if one does not fit into int64."""
    pairs = list(zip(positions, values, strict=True))
    if array.dtype != object and any(not -_INT64_MAX <= value <= _INT64_MAX for _, value in pairs):
        array = array.astype(object)
    for position, value in pairs:
        array[position] = value
    return array
