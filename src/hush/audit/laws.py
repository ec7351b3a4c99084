"""Does noise have the claimed law? A test of goodness of fit against a mechanism's exact probabilities.

Where the claimed law is a hush mechanism's, its probabilities are known, and a sampler that follows another law is
found long before its ε can be refuted. The test is again a bet (`hush.audit.statistics`): earlier runs estimate the
law, and the likelihood ratio of that estimate to the claimed law is the stake on the next runs. Under the claimed law
each factor has mean 1, so the product exceeds 1/α with probability at most α, whenever one looks.

>>> import hush
>>> law = hush.Laplace(sensitivity=1, epsilon=1)
>>> honest, wrong = LawTest(law), LawTest(law)
>>> for _ in range(6):
...     honest.add([law.release(0) for _ in range(500)])
...     wrong.add([2 * law.release(0) for _ in range(500)])
>>> honest.refuted(1e-6), wrong.refuted(1e-6)
(False, True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError

_CELLS = 24
_WEIGHT = 64.0
"""How many runs of the claimed law the estimate begins with: few early runs move it little."""


class LawTest:
    """Bets that noise does not have the law of a mechanism that adds noise on a grid, for instance `hush.Laplace`."""

    def __init__(self, mechanism: Any) -> None:
        if not hasattr(mechanism, "probabilities"):
            raise InvalidValueError("law", got=mechanism, allowed="a mechanism with probabilities: Laplace or Gaussian")
        self._step = float(mechanism.step)
        reach = math.ceil(8 * math.sqrt(mechanism.variance) / self._step) + 4
        probabilities = np.asarray(mechanism.probabilities(min(reach, 200_000)))
        # Cells of about equal probability; what lies beyond the table belongs to the outer ones.
        edges = np.searchsorted(np.cumsum(probabilities), np.linspace(0, 1, _CELLS + 1)[1:-1])
        self._edges = np.unique(edges) - (len(probabilities) - 1) // 2
        masses = np.add.reduceat(probabilities, np.concatenate([[0], np.unique(edges) + 1]))
        self._claimed = masses / masses.sum()
        self._counts = np.zeros(len(masses))
        self.log = self.best = 0.0

    def add(self, noise: Sequence[float] | npt.NDArray[np.float64]) -> None:
        """Bet on draws of noise with the law that earlier draws suggest, then add these draws to the estimate."""
        steps = np.asarray(noise, dtype=np.float64) / self._step
        whole = np.round(steps)
        # A value off the grid has probability 0 under the claimed law: one is a proof.
        if not np.all(np.abs(steps - whole) <= 1e-6 * np.maximum(1, np.abs(steps))):
            self.log = self.best = math.inf
            return
        cells = np.bincount(np.searchsorted(self._edges, whole), minlength=len(self._counts))
        seen = self._counts.sum()
        estimate = (self._counts + _WEIGHT * self._claimed) / (seen + _WEIGHT)
        self.log += float(cells @ np.log(estimate / self._claimed))
        self.best = max(self.best, self.log)
        self._counts += cells

    def refuted(self, level: float) -> bool:
        """Return whether the law is refuted with confidence 1 − level."""
        return self.best >= -math.log(level)
