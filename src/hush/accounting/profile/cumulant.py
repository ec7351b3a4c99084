"""The cumulant of a whole composition, in double precision with an error bound, remembered where it was asked for.

Pairs of one kind are evaluated together, so ten thousand different Laplace mechanisms are one array expression. A
composition that was made by adding a few events to another one inherits the other's remembered values and adds only
what is new.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs import Pair
from hush.accounting.pairs.base import Batch, Complexes, Floats

_LINES_KEPT = 24
"""How many lines of nodes are remembered."""


class Cumulant:
    """K of the pairs of a description, in one direction."""

    def __init__(
        self,
        description: Description,
        *,
        reverse: bool = False,
        base: Cumulant | None = None,
        added: Description | None = None,
    ) -> None:
        self.pairs = description.pairs
        self.reverse = reverse
        self._batches: list[Batch] | None = None
        self._lines: dict[object, tuple[Complexes, Floats]] = {}
        self._tails: dict[tuple[float, float, float], float] = {}
        self._inherited: dict[object, tuple[Complexes, Floats]] = {}
        self._inherited_tails: dict[tuple[float, float, float], float] = {}
        self._added: Cumulant | None = None
        if base is not None and added is not None and len(added.pairs) <= max(8, len(self.pairs) // 4):
            # Only the remembered values are kept, not the base itself: a long ledger must not chain its whole past.
            self._inherited = base._lines  # noqa: SLF001 - of its own kind
            self._inherited_tails = base._tails  # noqa: SLF001
            self._added = Cumulant(added, reverse=reverse)

    def batches(self) -> list[Batch]:
        """Return the pairs grouped by kind."""
        if self._batches is None:
            kinds: dict[type[Pair], tuple[list[Pair], list[int]]] = {}
            for pair, count in self.pairs.items():
                pairs, counts = kinds.setdefault(type(pair), ([], []))
                pairs.append(pair)
                counts.append(count)
            self._batches = [kind.batch(pairs, counts, reverse=self.reverse) for kind, (pairs, counts) in kinds.items()]
        return self._batches

    def line(self, key: object, nodes: Callable[[], Complexes]) -> tuple[Complexes, Floats]:
        """Return K and its error R at the nodes that ``key`` names."""
        values = self._lines.get(key)
        if values is None:
            inherited = self._inherited.get(key)
            if inherited is not None and self._added is not None:
                k, r = self._added.at(nodes())
                values = inherited[0] + k, inherited[1] + r + 4e-16 * np.abs(inherited[0] + k)
            else:
                values = self.at(nodes())
            if len(self._lines) >= _LINES_KEPT:
                self._lines.pop(next(iter(self._lines)))
            self._lines[key] = values
        return values

    def at(self, z: Complexes) -> tuple[Complexes, Floats]:
        """Return K and R at any nodes with a positive real part (a real array stays real, which is quicker)."""
        value = np.zeros(z.shape, dtype=z.dtype)
        error = np.zeros(z.shape)
        for batch in self.batches():
            with np.errstate(invalid="ignore"):  # an infinite K says that a batch claims nothing at that node
                k, r = batch.cumulant(z)
            value = value + k
            error = error + r + 4e-16 * np.abs(value)
        return value, error

    def affordable(self) -> int:
        """How many nodes a line may have: fewer for many different pairs."""
        return max(2048, min(1 << 15, 2_000_000 // max(1, len(self.pairs))))

    def real(self, c: Floats) -> Floats:
        """Return K on the real axis, for searches: infinite where nothing is claimed, else without its error."""
        with np.errstate(all="ignore"):
            k, r = self.at(c)
            return np.asarray(np.where(np.isfinite(r), k.real, np.inf))

    def log_tail(self, c: float, low: float, high: float) -> float:
        """Return an upper bound of ln|M(c+iu)| over low ≤ |u| ≤ high."""
        key = (c, low, high)
        bound = self._tails.get(key)
        if bound is None:
            inherited = self._inherited_tails.get(key)
            if inherited is not None and self._added is not None:
                bound = inherited + self._added.log_tail(c, low, high)
                bound += 1e-15 * abs(bound)
            else:
                bound = sum(batch.log_tail(c, low, high) for batch in self.batches())
            if len(self._tails) > 16 * _LINES_KEPT:
                self._tails.clear()
            self._tails[key] = bound
        return bound
