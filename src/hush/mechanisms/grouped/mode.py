r"""Pick a most common value of a public list in every group: the exponential mechanism over exact histograms.

Of each group it is known how much weight each value of the list has. A row weighs ⌊W·min(1, rows/n)⌋ for a unit with n
rows in the group, so a unit's weight in a group is at most M = W·rows, whatever its rows are. A value of weight w is
drawn with probability proportional to e^{rate·w}. A unit that comes only raises weights, by at most M, so that
log-probabilities change within an interval of length rate·M: the mechanism has *bounded range* (Durfee, Rogers 2019).
At most ``cells`` groups differ between neighbours (`Contribution`): rate = ε/(M·cells) makes all together ε-DP.

**Error.** Some value has the largest weight, so P[w < largest - (ln(values) + ln(1/β))/rate] ≤ β.

>>> often = GroupedMode(values=3, epsilon=Fraction(10**6))
>>> often.release([Sparse(bins=np.array([0, 2]), weights=np.array([4, 9]))]).tolist()
[2]
>>> round(GroupedMode(values=3, epsilon=Fraction(1)).error(0.95), 2)            # rows
4.09
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hush.core import Number
from hush.mechanisms.base import confidence_level
from hush.mechanisms.grouped.base import DrawnByWeight, Histograms, Sparse
from hush.noise import select_each, uniform_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedMode(DrawnByWeight):
    """Draws a value of a public list in every group, the more likely the more weight it has."""

    values: int
    """The number of values of the list."""

    def release(self, histograms: Sequence[Sparse]) -> npt.NDArray[np.int64]:
        """Return the number of the value that was drawn in each group."""
        if not len(histograms):
            return np.zeros(0, dtype=np.int64)
        return draw_listed(self.rate, Histograms.of(histograms), self.values)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """Return α: with at least this probability the value has at most α rows fewer than the most common one."""
        miss = float(1 - confidence_level(confidence))
        return math.log(self.values / miss) / float(self.rate * self.row_weight)


def draw_listed(rate: Fraction, every: Histograms, size: int) -> npt.NDArray[np.int64]:
    """Draw of each group one of ``size`` values, with a probability proportional to e^(rate·weight).

    Of many values a group has few. All others have the score 0, so they run as one candidate that counts as often as
    they are: it wins with probability n/Z, for n values without weight and Z = n + Σ e^(rate·weight) over the k
    occupied ones. If it does, one of the n is drawn, all equally likely: each has 1/n·n/Z = e⁰/Z, and a value with
    weight w has e^(rate·w)/Z, as if all had run. The race is as long as the bins and the groups together, however many
    values there are. Where k is ``size`` the further candidate counts 0 times and does not run.

    Of ascending bins b₀, b₁, … the j-th has b_j - j values without weight below it. So the value without weight that
    has r others below it comes after those bins with b_j - j ≤ r, and is r plus their number.
    """
    groups, bins, occupied_bins = every.groups, every.joined.bins, np.diff(every.edges)
    absentees = every.edges[1:] + np.arange(len(every))  # the last candidate of each group: all values without weight
    scores, times = np.zeros((2, len(bins) + len(every)), dtype=np.int64)
    occupied = np.arange(len(bins)) + groups
    scores[occupied], times[occupied], times[absentees] = every.joined.weights, 1, size - occupied_bins
    won = select_each(scores, rate, weights=times, sizes=occupied_bins + 1)
    absent = won == absentees
    picked = np.zeros(len(every), dtype=np.int64)
    picked[~absent] = bins[won[~absent] - np.flatnonzero(~absent)]
    drawn = np.flatnonzero(absent)
    rank = uniform_integers(size - occupied_bins[drawn])
    below = bins - (np.arange(len(bins)) - every.edges[groups]) + groups * size  # ascending over all groups
    picked[drawn] = rank + np.searchsorted(below, rank + drawn * size, side="right") - every.edges[drawn]
    return picked
