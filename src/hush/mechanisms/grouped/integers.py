"""Whole numbers of all groups in one array: of 64 bits, or Python's own where those may not do.

>>> exact_sum(np.array([2**62, 1]), np.array([2**62, 1])).tolist()
[9223372036854775808, 2]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[Any]
"""Of 64 bits, or Python's own where those may not do."""


def integer_array(values: Sequence[int] | Integers) -> Integers:
    """Return whole numbers as an array."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=object)


def largest_magnitude(values: Integers) -> int:
    """Return the largest magnitude, 0 of no numbers."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def exact_sum(values: Integers, noise: Integers) -> Integers:
    """Return sums; of Python's own integers where they would not fit."""
    form = np.int64 if max(largest_magnitude(values), largest_magnitude(noise)) < 2**62 else object
    return np.asarray(values.astype(form) + noise.astype(form))
