r"""Private k-means: a noisy histogram on a public grid, then any k-means on its cells.

Every row lies in one cell, so the histogram has sensitivity 1 and the noise is discrete Laplace: pure ε, no δ. What
happens to the noisy cells afterwards is free, so k-means runs on them from several starts (Su, Cao, Li, Bertino, Jin
2016, compare such histograms with noisy versions of Lloyd's iteration: for few columns they win).

**How fine.** A sixteenth of ε counts the rows. The grid has at most 0.3·n̂ε cells, so that a cell has on average over
the whole box three times as many rows as the noise's scale, and a power of two along each column, which meets values
that lie on coarse grids of their own. Cells below three scales count as empty, for where most of the box is empty,
noise would fill it.

**More columns.** The box grows with the power of its dimension. With more than four columns the whole of ε buys
synthetic rows instead, each column in 32 cells (:mod:`hush.synth`): they keep the pairs of columns that matter, and
k-means runs on them. With a δ their noise is Gaussian.

>>> rows = np.array([[0.1, 0.1], [0.9, 0.9]] * 5000)
>>> model = KMeans({"x": (0, 1), "y": (0, 1)}, clusters=2, epsilon="1").fit(rows)
>>> np.round(sorted(model.cluster_centers_[:, 0].tolist()), 1).tolist()
[0.1, 0.9]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hush.accounting import ComposedEvent, DiscreteLaplaceEvent, Event
from hush.core import InvalidValueError, Number, integer
from hush.core.work import check_wanted
from hush.learn.budget import read_budget
from hush.learn.model import Model
from hush.learn.schema import Floats, ModelColumn
from hush.mechanisms.grouped import zcdp_budget
from hush.noise import discrete_laplace, uniform_integer
from hush.synth import CodedTable, Domain, Settings, SynthesisPlan, plan_synthesis, synthesise
from hush.synth.measurements import Price

_LOOK = Fraction(1, 16)
_GRID_COLUMNS, _CELLS, _FINEST = 4, 2_000_000, 64
_LEVELS, _SYNTHETIC_ROWS = 32, 20_000
"""The cells of each column of synthetic rows, and how many rows are clustered."""
_DENSITY, _EMPTY = 0.3, 3.0
_MAX_CLUSTERS = 256
"""More centres than this would take longer than a question may, after it was charged."""
_STARTS, _ROUNDS = 16, 40


@dataclass(eq=False, repr=False)
class KMeans(Model):
    """Cluster centres of numeric columns, each scaled to [0, 1] by its bounds."""

    kind: ClassVar[str] = "kmeans"
    delta: Number = 0
    clusters: int = field(default=8, kw_only=True)

    def _columns(self) -> tuple[ModelColumn, ...]:
        columns = self._schema().columns
        integer(self.clusters, "clusters", minimum=1, maximum=_MAX_CLUSTERS)
        if categories := [column.name for column in columns if not column.numeric]:
            hint = "Distances of categories mean nothing: leave them out."
            raise InvalidValueError("schema", got=categories, allowed="numbers with bounds", hint=hint)
        return columns

    def _synthesis(self, columns: Sequence[ModelColumn]) -> SynthesisPlan:
        epsilon, delta = read_budget(self.epsilon, self.delta)
        pure = Price(law="laplace", amount=epsilon)
        price = Price(law="gaussian", amount=zcdp_budget(epsilon, delta)) if delta else pure
        names = [column.name for column in columns]
        domain = Domain.of(dict.fromkeys(names, _LEVELS), ordered=names)
        # Nobody reads a certificate of these rows: its share goes to the measurements.
        return plan_synthesis(domain, price, settings=Settings(certificate=Fraction(0)))

    @property
    def event(self) -> Event:
        epsilon, _ = read_budget(self.epsilon, self.delta)
        columns = self._columns()
        if len(columns) > _GRID_COLUMNS:
            return ComposedEvent(parts=[(event, 1) for event in self._synthesis(columns).events])
        steps = (epsilon * _LOOK, epsilon * (1 - _LOOK))
        return ComposedEvent(parts=[(DiscreteLaplaceEvent(parameter=step), 1) for step in steps])

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's names
        """Release the cells' noisy counts and their centres, at the price of ``event``."""
        epsilon, _ = read_budget(self.epsilon, self.delta)
        parts = self._schema(X).split(X)
        columns = self._columns()
        rows = unit_rows(columns, parts)
        present = ~np.isnan(rows).any(axis=1)
        rows = rows[present]
        if len(columns) > _GRID_COLUMNS:
            points, weights = _synthetic_points(self._synthesis(columns), rows)
            self.cluster_centers_ = weighted_kmeans(points, weights, self.clusters, len(columns))
            return self
        scale = 1 / (epsilon * (1 - _LOOK))
        count = len(rows) + discrete_laplace(1 / (epsilon * _LOOK))
        # Cells along each column: a power of two, with as many rows in a cell on average as the noise lets through.
        cells_in_all = min(max(_DENSITY * count * float(epsilon), 2.0 ** len(columns)), _CELLS)
        size = min(2 ** int(math.log2(cells_in_all) / len(columns)), _FINEST if len(columns) > 1 else 1024)
        cells = np.minimum((rows * size).astype(np.intp), size - 1)
        flat = np.ravel_multi_index(tuple(cells.T), (size,) * len(columns)) if len(rows) else np.zeros(0, dtype=np.intp)
        counts = np.bincount(flat, minlength=size ** len(columns)) + discrete_laplace(scale, size ** len(columns))
        kept = np.flatnonzero(counts > _EMPTY * float(scale))
        points = (np.stack(np.unravel_index(kept, (size,) * len(columns)), axis=1) + 0.5) / size
        self.cluster_centers_ = weighted_kmeans(points, counts[kept].astype(np.float64), self.clusters, len(columns))
        return self

    def predict(self, X: Any) -> npt.NDArray[np.intp]:  # noqa: N803
        """Return the number of the nearest centre for each row; missing numbers count as the middle."""
        centres = self._fitted("cluster_centers_")
        rows = unit_rows(self._columns(), self._schema().split(X))
        rows = np.where(np.isnan(rows), 0.5, rows)
        return np.asarray(np.argmin(_distances(rows, centres), axis=1))


def _synthetic_points(plan: SynthesisPlan, rows: Floats) -> tuple[Floats, Floats]:
    """Return the middles of the cells of synthetic rows, and how many rows lie in each."""
    codes = np.minimum((rows * _LEVELS).astype(np.int64), _LEVELS - 1)
    table = CodedTable.of(plan.domain, dict(zip(plan.domain.names, codes.T, strict=True)))
    made = synthesise(plan, table).rows(_SYNTHETIC_ROWS)
    drawn = np.stack([made.column(name) for name in plan.domain.names], axis=1)
    cells, counts = np.unique(drawn, axis=0, return_counts=True)
    return (cells + 0.5) / _LEVELS, counts.astype(np.float64)


def unit_rows(columns: Sequence[ModelColumn], parts: Sequence[Any]) -> Floats:
    """Return numbers scaled to [0, 1] by their bounds; missing ones stay NaN."""
    return np.stack([column.shares(values) for column, values in zip(columns, parts, strict=True)], axis=1)


def _distances(points: Floats, centres: Floats) -> Floats:
    return np.asarray(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2))


def weighted_kmeans(points: Floats, weights: Floats, clusters: int, columns: int) -> Floats:
    """Return the best centres of several starts: k-means++ (Arthur, Vassilvitskii 2007), then Lloyd's rounds."""
    if not len(points):
        return np.full((clusters, columns), 0.5)
    best, least = None, np.inf
    for _ in range(_STARTS):
        centres = _start(points, weights, clusters)
        for _ in range(_ROUNDS):
            check_wanted()
            nearest = np.argmin(_distances(points, centres), axis=1)
            mass = np.bincount(nearest, weights, minlength=clusters)
            sums = np.stack([np.bincount(nearest, weights * axis, minlength=clusters) for axis in points.T], axis=1)
            moved = np.where(mass[:, None] > 0, sums / np.maximum(mass, 1e-300)[:, None], centres)
            if np.allclose(moved, centres, atol=1e-6):
                break
            centres = moved
        loss = float(weights @ _distances(points, centres).min(axis=1))
        if loss < least:
            best, least = centres, loss
    return np.asarray(best)


def _start(points: Floats, weights: Floats, clusters: int) -> Floats:
    """Return k-means++ starts: each next centre with a probability that grows with its distance from the others."""
    chosen: list[Floats] = []
    chance, nearest = weights.copy(), np.full(len(points), np.inf)
    for _ in range(clusters):
        check_wanted()
        edges = np.cumsum(chance)
        draw = float(uniform_integer(2**53)) / 2**53 * edges[-1]
        chosen.append(points[min(int(np.searchsorted(edges, draw)), len(points) - 1)])
        nearest = np.minimum(nearest, _distances(points, chosen[-1][None, :])[:, 0])
        chance = weights * nearest
        if not chance.any():
            chance = weights.copy()
    return np.array(chosen)
