r"""Release the distribution of every group's values on a line, and read all quantiles off it: hierarchical counts.

A line of n bins is cut into equal parts, each part into parts again, B of them at each of L levels, down to single bins
(Hay, Rastogi, Miklau, Suciu 2010; Qardaji, Yang, Li 2013). Every node of this tree is the weight of its bins, a whole
number, and has noise of its own. All quantiles of a column come from the same noisy tree, so any number of them costs
the same; `hush.mechanisms.grouped.quantile` draws a few of them better.

**Price.** A unit's rows in one group weigh at most M together (`Contribution`, `hush.mechanisms.grouped.quantile`), and
each row is in one node of every level. So a unit that comes or goes moves the nodes of one level of one group by w ≥ 0
with Σ wᵢ ≤ M: by at most M in ℓ₁ and, as Σ wᵢ² ≤ (Σ wᵢ)², by at most M in ℓ₂. Over its groups that is M²·groups in ℓ₂,
squared, and M·groups in ℓ₁; a unit that replaces another moves at most twice as far. The levels compose:

* **Gaussian** noise on each level at ρ/L makes all levels of all groups ρ-zCDP (`GroupedGaussian`). It pays by ℓ₂: a
  unit in g groups costs √g times the noise of one group, not g times;
* **Laplace** noise on each level at ε/L makes them ε-DP (`GroupedLaplace`, whose docstring has the histogram).

**Nodes that nobody looks at get no noise.** A descent looks at the children of few nodes. To draw the noise of a node
when it is first looked at, once for all descents of its group, is the same law as to draw that of all nodes beforehand
and to look at some: independent noise does not depend on when it is drawn. What is released is a function of the whole
noisy tree, so the price above covers it.

**Estimates.** Let R(y) = (weight up to y) - p·(all weight), so that the quantile p is where R becomes 0. Let a node
have the estimate P of its weight and R₀ of R where it begins, with variances V and U and covariance C. Its r children y
have noise of variance v, and are made to add up to P: eᵢ = yᵢ + (P - Σy)/r. After k of them

    R_k = R₀ + Σ_{i≤k} eᵢ,   Var R_k = U + 2·(k/r)·C + (k/r)²·V + v·k·(1 - k/r),

for Σ_{i≤k} yᵢ - (k/r)·Σy has variance v·k·(1-k/r) and is independent of P and R₀. Child k+1 goes on with P' = e_{k+1}
of variance v·(1-1/r) + V/r², R₀' = R_k and covariance C/r + k·V/r² - v·k/r. Of the root, which was not measured, P = Σy
and R₀ = -p·Σy, which are independent of the same difference: V = r·v, U = p²·V and C = -p·V.

**Intervals.** The lower end is found by going down to the first child at whose end R_k ≥ -z·sd, the upper end by going
down to the last child at whose beginning R_k < z·sd, z being the normal quantile of the confidence. The true R is not
negative at the end of any node that the quantile y* lies in. So the lower end is above y* only if the noise at the end
of one of these few nodes, which share most of it, is below -z·sd: once in forty at 95 %, about, whatever the data are,
ties, gaps and lattices included. Other nodes that noise lifts only make the interval wider. Likewise above. The answer
is the middle. Where there are too few rows, R never leaves ± z·sd, and the interval is everything.

**Error.** Half-widths are about z·sd rows. With equal children the variance is v·(p·(1-p)·B + (L-1)·B/6) on average, v
being proportional to L for Gaussian noise and to L² for Laplace noise. B is the one for which that is least.

>>> curve = GroupedDistribution(bins=361, laplace=Fraction(1000))
>>> delays = Sparse(bins=np.array([40, 58, 90]), weights=np.array([10, 100, 30]))
>>> [drawn.index.tolist() for drawn in curve.release([delays], [(Fraction(1, 2), 0.95), (Fraction(9, 10), 0.95)])]
[[58], [90]]
>>> curve.event
ComposedEvent(parts=((DiscreteLaplaceEvent(parameter=500, sensitivity=1), 2),))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from hush.accounting import ComposedEvent, Event, ZCDPEvent
from hush.core import InvalidValueError, integer
from hush.core.grid import add
from hush.core.numbers import assign
from hush.mechanisms.grouped.base import Histograms, OfHistograms, Sparse
from hush.mechanisms.grouped.noise import GroupedGaussian, GroupedLaplace, squared_sensitivity
from hush.mechanisms.grouped.quantile import DrawnIntervals

Floats = npt.NDArray[np.float64]
_MOST_CHILDREN = 64
_LARGEST_MACHINE_SUM = 2**60
_DESCENTS_AT_ONCE = 2**14
"""The number of descents that are computed together, which bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedDistribution(OfHistograms):
    """Noisy hierarchical counts of every group, from which quantiles with intervals are read."""

    bins: int
    """n, the number of bins of the line."""
    rho: Fraction | None = None
    """The price of all groups together in zCDP, for Gaussian noise."""
    laplace: Fraction | None = None
    """Or their pure ε, for Laplace noise."""
    points: int = 0
    """The number of grid points of the line; by default bins·cell."""
    cell: int = 1
    """The number of grid points of a bin."""
    children: int = field(init=False)
    """B, the number of children of a node."""
    levels: int = field(init=False)
    """L, the number of levels below the root."""
    noise: GroupedGaussian | GroupedLaplace = field(init=False)
    """The law of each node's noise; its event is that of one level."""

    def __post_init__(self) -> None:
        integer(self.bins, "bins", minimum=1)
        if (self.rho is None) == (self.laplace is None):
            raise InvalidValueError("rho", got=self.rho, allowed="given for Gaussian noise, else laplace=ε")
        assign(self, points=self.points or self.bins * self.cell)

        def cost(children: int) -> float:
            levels = _levels(self.bins, children)
            return _spread(self.bins, children, 0.5) * (levels if self.laplace is None else levels * levels)

        children = min(range(2, _MOST_CHILDREN + 1), key=cost)
        levels, span, contribution = _levels(self.bins, children), self.span, self.contribution
        noise: GroupedGaussian | GroupedLaplace
        if self.laplace is not None:
            noise = GroupedLaplace.for_epsilon(self.laplace / levels, sensitivity=span, contribution=contribution)
        elif self.rho is not None:
            noise = GroupedGaussian.for_rho(self.rho / levels, sensitivity=span, contribution=contribution)
        assign(self, children=children, levels=levels, noise=noise)

    @property
    def event(self) -> Event:
        """The privacy event of all levels in all groups."""
        if isinstance(self.noise, GroupedGaussian):
            changed = squared_sensitivity(self.span, self.contribution)
            return ZCDPEvent(rho=self.levels * changed / (2 * self.noise.sigma**2))
        return self.noise.event if self.levels == 1 else ComposedEvent(parts=[(self.noise.event, self.levels)])

    def release(
        self, histograms: Sequence[Sparse], quantiles: Sequence[tuple[Fraction, float]]
    ) -> list[DrawnIntervals]:
        """Return every group's quantiles from one noisy tree; ``quantiles`` are pairs (fraction, confidence)."""
        every = Histograms.of(histograms)
        together = max(1, _DESCENTS_AT_ONCE // (2 * len(quantiles)))
        ends = [
            _ends(self, every.take(range(len(every))[start : start + together]), quantiles)
            for start in range(0, len(every), together)
        ]
        bounds = np.concatenate([np.zeros((0, len(quantiles), 2), dtype=np.int64), *ends])
        drawn = []
        for low, high in np.moveaxis(bounds, (1, 2), (0, 1)):
            # The middle of the two bins, in grid points, and its distance from the further end.
            first, last = low * self.cell, np.minimum((high + 1) * self.cell, self.points) - 1
            index = (first + last) // 2
            drawn.append(DrawnIntervals(index=index, half=np.maximum(last - index, 1)))
        return drawn

    def error(self, fraction: Fraction, confidence: float = 0.95) -> float:
        """Return the approximate error of a quantile in rows, averaged over its places on the line."""
        cost = _spread(self.bins, self.children, float(fraction))
        return normal_quantile(confidence) * math.sqrt(self.noise.variance * cost) / self.row_weight

    def rows_needed(self, fraction: Fraction, confidence: float = 0.95) -> float:
        """Return the number of rows at which a quantile can be told from the ends of the range."""
        return self.error(fraction, confidence) / float(min(fraction, 1 - fraction))


def normal_quantile(confidence: float) -> float:
    """Return z with P[|Z| ≤ z] = confidence."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _levels(bins: int, children: int) -> int:
    levels = 1
    while children**levels < bins:
        levels += 1
    return levels


def _spread(bins: int, children: int, fraction: float) -> float:
    """Return the variance of R near its zero, as a multiple of a node's, averaged over all places of the quantile."""
    levels = _levels(bins, children)
    first = -(-bins // int(children ** (levels - 1)))
    return fraction * (1 - fraction) * first + (levels - 1) * (children / 6 + 0.25)


def _ends(
    law: GroupedDistribution, histograms: Histograms, quantiles: Sequence[tuple[Fraction, float]]
) -> npt.NDArray[np.int64]:
    """Return the bins of the lower and the upper end of each interval: groups by quantiles by two.

    There is a descent for each end. The names of the module docstring: ``before`` is R₀, ``weight`` P, their variances
    U and V, and ``present`` r, the number of a node's children.
    """
    shape = (len(histograms), len(quantiles), 2)
    group, quantile, end = (numbers.ravel() for numbers in np.indices(shape))
    p = np.array([float(fraction) for fraction, _ in quantiles])[quantile]
    z = np.array([normal_quantile(confidence) for _, confidence in quantiles])[quantile]
    weights = histograms.joined.weights
    form = np.int64 if float(weights.sum(dtype=np.float64)) < _LARGEST_MACHINE_SUM else object
    # Cumulated weights over the bins of all groups; group·bins + bin is ascending, so one search serves all groups.
    upto = np.append(np.zeros(1, form), np.cumsum(weights.astype(form)))
    places = histograms.groups * law.bins + histograms.joined.bins
    rows, borders, variance = np.arange(len(group)), np.arange(law.children + 1), law.noise.variance
    start = np.zeros(len(group), dtype=np.int64)
    before = weight = before_variance = weight_variance = covariance = np.zeros(len(group))
    for level in reversed(range(law.levels)):
        width = law.children**level
        # Descents of one group that share a node must see the same noise: distinct nodes are drawn once.
        nodes, node_of = np.unique(group * law.bins + start, return_inverse=True)
        node_group, first = np.divmod(nodes, law.bins)
        begin = first[:, None] + width * borders
        # Exact weights of the children, as differences of cumulated weights; an end beyond the line is cut.
        edges = upto[np.searchsorted(places, node_group[:, None] * law.bins + np.minimum(begin, law.bins))]
        inside = begin[:, :-1] < law.bins
        drawn, exact = np.zeros(inside.shape), np.diff(edges, axis=1)[inside]
        drawn[inside] = add(exact, law.noise.draw(len(exact))).astype(np.float64)
        noisy, exists = drawn[node_of.ravel()], inside[node_of.ravel()]
        total, present = noisy.sum(axis=1), exists.sum(axis=1)
        if level == law.levels - 1:  # the root, which was not measured
            before, weight, weight_variance = -p * total, total, variance * present
            before_variance, covariance = p**2 * weight_variance, -p * weight_variance
        # Consistency: the children are shifted equally so that they add up to the parent's estimate P.
        parts = np.where(exists, noisy + ((weight - total) / present)[:, None], 0.0)
        values = before[:, None] + np.pad(np.cumsum(parts, axis=1), ((0, 0), (1, 0)))  # R at the borders
        number = np.minimum(borders, present[:, None])
        share = number / present[:, None]
        # Var R_k = U + 2·(k/r)·C + (k/r)²·V + v·k·(1 - k/r)
        spread = before_variance[:, None] + 2 * share * covariance[:, None] + share**2 * weight_variance[:, None]
        spread = np.maximum(spread + variance * number * (1 - share), 0.0)
        # Lower end: the first child at whose end R ≥ -z·sd. Upper end: the last child at whose beginning R < z·sd.
        slack = z[:, None] * np.sqrt(spread)
        lower = np.argmax((values + slack >= 0)[:, 1:], axis=1)
        short = (values - slack < 0)[:, :-1] & exists
        upper = np.where(short.any(axis=1), law.children - 1 - np.argmax(short[:, ::-1], axis=1), present - 1)
        child = np.minimum(np.where(end == 1, upper, lower), present - 1)
        start = start + child * width
        before, weight, before_variance = values[rows, child], parts[rows, child], spread[rows, child]
        covariance = covariance / present + child * weight_variance / present**2 - variance * child / present
        weight_variance = variance * (1 - 1 / present) + weight_variance / present**2
    return start.reshape(shape)
