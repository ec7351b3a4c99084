r"""Naive Bayes from noisy counts: one histogram per column and class, released at once.

A row adds 1 to one (level, class) cell of each of m columns and 1 to its class: m+1 counts of different histograms. So
the squared ℓ₂ and the ℓ₁ sensitivity are both m+1: Gaussian noise for (ε, δ), discrete Laplace noise for a budget
without δ. Everything else is made of these counts.

A number's levels are merged into bins of equal shares of √count, as knots are placed in :mod:`hush.learn.features`, and
a bin's chance within its class is mixed with the bin's overall chance, with a weight that is the noise of the bin's
count.

>>> import numpy as np
>>> x = np.arange(20_000) % 100
>>> model = NaiveBayes({"age": (0, 99)}, epsilon="1", delta=0).fit(x[:, None], x > 60)
>>> model.predict([[10.0], [90.0]]).tolist()
[0, 1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import Event
from hush.learn.budget import IntegerNoise
from hush.learn.features import choose_knots, how_many
from hush.learn.model import Classifier, counted_rows
from hush.learn.schema import Floats, ModelColumn


@dataclass(eq=False, repr=False)
class NaiveBayes(Classifier):
    """Classification by the counts of each column's levels in each class; pure where ``delta`` is 0."""

    kind: ClassVar[str] = "naive_bayes"
    target: Sequence[Any] | str | None = field(default=None, kw_only=True)

    @property
    def event(self) -> Event:
        return IntegerNoise.of(self.epsilon, self.delta).event

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Release the counts, at the price of ``event``."""
        labels, classes = self._target(X, y), self._classes().levels
        codes, labels = counted_rows(self._schema(X).codes(X), labels, labels < classes)
        columns = self._schema().columns
        noise, histograms = IntegerNoise.of(self.epsilon, self.delta), len(columns) + 1
        totals = np.bincount(labels, minlength=classes) + noise.draw(histograms, classes)
        totals = np.maximum(totals.astype(np.float64), 1.0)
        rows = float(totals.sum())
        self.log_prior_ = np.log(totals / rows)
        self.log_chances_: list[Floats] = []
        for column, code in zip(columns, codes, strict=True):
            present = code < column.levels
            cells = labels[present] * column.levels + code[present]
            counts = np.bincount(cells, minlength=classes * column.levels) + noise.draw(
                histograms, classes * column.levels
            )
            table = counts.reshape(classes, column.levels).astype(np.float64)
            self.log_chances_.append(_log_chances(column, table, totals, noise.sigma(histograms)))
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return each class's probability."""
        tables = self._fitted("log_chances_")
        codes = self._schema().codes(X)
        odds = np.tile(self.log_prior_, (len(codes[0]), 1))
        for table, code in zip(tables, codes, strict=True):
            # The last code is a missing value, which speaks for no class: a log-ratio of 0.
            odds += np.hstack([table, np.zeros((len(table), 1))]).T[code]
        chance = np.exp(odds - odds.max(axis=1, keepdims=True)) if len(odds) else odds
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def _log_chances(column: ModelColumn, table: Floats, totals: Floats, sigma: float) -> Floats:
    """Return ln P(bin | class) − ln P(bin) for each class and level."""
    bins = np.arange(column.levels)
    if column.numeric:
        largest = how_many(float(totals.sum()), 1 / max(sigma, 1e-9))
        knots = choose_knots(table.sum(axis=0), sigma * math.sqrt(len(table)), largest)
        # A bin reaches half-way to the knots beside it.
        bins = np.searchsorted([(low + high + 1) / 2 for low, high in pairwise(knots.places)], bins, side="right")
    size = int(bins.max()) + 1
    merged = np.stack([np.bincount(bins, row, minlength=size) for row in table])
    # Independent noise of the levels that a bin holds.
    noise = sigma * np.sqrt(np.bincount(bins, minlength=size))
    share = np.maximum(merged.sum(axis=0), noise)
    share = share / share.sum()
    mixed = np.maximum(merged, 0.0) + noise * share / share.max()
    chance = mixed / mixed.sum(axis=1, keepdims=True)
    return np.asarray((np.log(chance) - np.log(share))[:, bins])
