"""Sizes, chunks and integer arrays: what every vectorised sampler shares.

Draws are made in chunks that fit the processor's cache, so memory beyond the result itself is constant. A result is
an int64 array; when a draw does not fit, the whole array holds Python integers (dtype object) instead: nothing ever
wraps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, integer

CHUNK = 2**15
_MOST = 2**59  # more 8-byte numbers than any address space holds
_INT64 = 2**63 - 1

Size = int | tuple[int, ...] | None
Shape = tuple[int, ...]


def shape_of(size: object) -> Shape | None:
    """Return a size as a shape; None asks for one Python integer."""
    if size is None:
        return None
    if isinstance(size, list):
        raise InvalidValueError("size", got=size, allowed="a whole number or a tuple of whole numbers")
    lengths = size if isinstance(size, tuple) else (size,)
    shape = tuple(integer(length, "size", minimum=0) for length in lengths)
    if math.prod(length for length in shape if length) > _MOST:
        raise InvalidValueError("size", got=size, allowed=f"at most {_MOST} numbers in all")
    return shape


def fill(shape: Shape, draw: Callable[[int], npt.NDArray[Any]], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """Fill an array by ``draw(count)`` in chunks; nothing is returned before all of it is drawn."""
    total = math.prod(shape)
    out: npt.NDArray[Any] = np.empty(total, dtype=dtype)
    for start in range(0, total, CHUNK):
        part = draw(min(CHUNK, total - start))
        if part.dtype == object and out.dtype != object:
            out = out.astype(object)
        out[start : start + len(part)] = part
    return out.reshape(shape)


_LIFT = 2**51


def join(high: int, low: int, bits: int, *, negative: bool) -> int:
    """Return ±(high·2^bits + low) for low < 2^bits, in a time that does not depend on the size of the result.

    Python's integers get slower past 2³⁰, where they take a second machine digit. So small results are computed in
    float64, exact below 2⁵³, lifted by 2⁵¹ to two digits whatever they are, and lowered again.
    """
    if bits <= 50:
        value = high * 2.0**bits + low
        if value < 2.0**50:
            return int(2.0**51 - value if negative else 2.0**51 + value) - _LIFT
    whole = (high << bits) | low
    return -whole if negative else whole


def put(array: npt.NDArray[Any], positions: Iterable[int], values: Iterable[int]) -> npt.NDArray[Any]:
    """Return ``array`` with Python integers stored at the positions, as objects if one does not fit into int64."""
    pairs = list(zip(positions, values, strict=True))
    if array.dtype != object and any(not -_INT64 <= value <= _INT64 for _, value in pairs):
        array = array.astype(object)
    for position, value in pairs:
        array[position] = value
    return array
