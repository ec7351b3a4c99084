"""Bit sources for tests only. They are predictable: noise drawn from them protects nobody.

A sampler takes one of these only through the private ``draw`` functions that
tests call; the public functions have no way to accept it.

>>> PredictableBits([7, 9]).words(2).tolist()
[7, 9]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

import numpy as np
import numpy.typing as npt


class PredictableBits:
    """Hand out the given words in order, then ``fill`` for ever; without it fail, so that a test must know how many.

    A fill of zeros (0) or of ones (2⁶⁴ - 1) gives the two ends of the interval of uniforms that begin with the words.
    """

    def __init__(self, words: Iterable[int], fill: int | None = None) -> None:
        self._words: Iterator[int] = iter(words) if fill is None else chain(words, repeat(fill))
        self.taken = 0

    def word(self) -> int:
        """Return the next word."""
        value = next(self._words, None)
        if value is None:
            raise EOFError(f"the sampler asked for more than the {self.taken} words provided")
        self.taken += 1
        return value

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the next ``count`` words."""
        values = list(islice(self._words, count))
        if len(values) < count:
            raise EOFError(f"the sampler asked for {count} words, {len(values)} were left")
        self.taken += count
        return np.array(values, dtype=np.uint64)
