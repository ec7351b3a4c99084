"""From exact integers to noisy answers: the one place where private numbers become public.

Everything after `release` is post-processing. Private keys are selected by `KeySelector`: an engine shows it how many
units each group has, part by part, and returns the groups that it selects. Each group gets a draw of its own, so
neither the parts nor their order matter. Selected keys are put in order here, because the order in which an engine
happens to return groups is a fact about the data. Noise is drawn for selected groups alone: given which keys are shown,
their noisy integers are a mechanism of their own, and compose with the selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hush.engines.protocol import Exact, Sparse
from hush.mechanisms import grouped
from hush.mechanisms.grouped.base import Histograms, Integers
from hush.query.plan.draws import Draw, DrawnAggregate, LineHistogram, ValueHistogram
from hush.query.plan.plan import Plan
from hush.query.plan.stability import Factor, Statistic
from hush.query.types import Kind, at_position

_MICROSECONDS = 10**6


class Picks(NamedTuple):
    """The values that were drawn for a choice, one for each group, and their half-widths."""

    values: list[Any]
    half_widths: list[float | None]
    """In the value's own unit (dates: days; times: seconds); None for MODE."""


class NoisyGroups(NamedTuple):
    """The released groups: noisy and public, one entry per group."""

    keys: Sequence[tuple[Any, ...]]
    statistics: dict[Statistic, Integers]
    picks: Mapping[DrawnAggregate, Picks]

    def rows(self, places: Sequence[int]) -> NoisyGroups:
        """Return some of the groups, in this order."""
        rows = np.array(places, dtype=np.int64)
        return NoisyGroups(
            keys=[self.keys[group] for group in places],
            statistics={statistic: values[rows] for statistic, values in self.statistics.items()},
            picks={
                choice: Picks([values[group] for group in places], [half_widths[group] for group in places])
                for choice, (values, half_widths) in self.picks.items()
            },
        )


def release(plan: Plan, exact: Exact, selector: KeySelector | None = None) -> NoisyGroups:
    """Add the noise and draw the picks. Where keys are private, ``selector`` selected the groups of ``exact``."""
    keys = [tuple(key) for key in exact.keys]
    order = list(range(len(keys)))
    private = plan.selection is not None
    if private:
        if selector is None or selector.selected != len(keys):  # keys that nobody selected must not be shown
            raise RuntimeError("the engine returned other groups than those that were selected")
        missing = any(component is None for key in keys for component in key)
        # by key: the order of the engine is a fact about the data
        order.sort(key=(lambda at: [_order(component) for component in keys[at]]) if missing else keys.__getitem__)
    statistics = {}
    for noise in plan.noises:
        for statistic in noise.statistics:
            values = exact.statistics[statistic]
            statistics[statistic] = noise.law.release(values[order] if private else values)
    picks: dict[DrawnAggregate, Picks] = {}
    for draw, groups in zip(plan.draws, exact.histograms, strict=True):
        drawn = _drawn(draw, Histograms.of(groups).take(order) if private else groups)
        picks |= zip(draw.choices, drawn, strict=True)
    return NoisyGroups(keys=[keys[row] for row in order], statistics=statistics, picks=picks)


def _drawn(draw: Draw, histograms: Sequence[Sparse]) -> list[Picks]:
    """Draw the picks of each choice."""
    histogram, mechanism = draw.histogram, draw.mechanism
    if isinstance(mechanism, grouped.GroupedMode):
        assert isinstance(histogram, ValueHistogram)  # noqa: S101 - a mode is one of a list
        numbers = mechanism.release(histograms).tolist()
        return [Picks([histogram.values[number] for number in numbers], [None] * len(numbers))]
    assert isinstance(histogram, LineHistogram)  # noqa: S101 - a quantile lies on a line
    if isinstance(mechanism, grouped.GroupedDistribution):
        requests = [(choice.fraction, confidence) for choice, confidence in draw.confidences.items()]
        intervals = mechanism.release(histograms, requests)
    else:
        intervals = [mechanism.release(histograms)]
    factor = histogram.factor
    unit = float(factor.step) / (_MICROSECONDS if factor.expression.type.kind is Kind.TIMESTAMP else 1)
    return [
        Picks(_on_line(drawn.index.tolist(), factor), [half * unit for half in drawn.half.tolist()])
        for drawn in intervals
    ]


@dataclass(slots=True)
class KeySelector:
    """Selects private keys by the numbers of their units, with fresh draws for each."""

    mechanism: grouped.KeySelection | grouped.KeyThreshold
    selected: int = 0
    """The number of keys that were selected so far."""

    @classmethod
    def of(cls, plan: Plan) -> KeySelector | None:
        """Return a selector for the keys of a plan; None where they are public."""
        return None if plan.selection is None else cls(plan.selection.mechanism)

    def __call__(self, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return for each of some groups whether it is shown."""
        selected = self.mechanism.release(units)
        # `release` compares it with the number of groups that the engine returned
        self.selected += int(np.count_nonzero(selected))
        return selected


def _order(value: Any) -> tuple[int, Any]:
    """Order values of one column, NULL last."""
    return (1, 0) if value is None else (0, value)


def _on_line(points: Sequence[int], factor: Factor) -> list[Any]:
    """Return the values of points on a grid: whole where all are, else floats, each rounded once; dates and times."""
    kind, (above, below) = factor.expression.type.kind, factor.step.as_integer_ratio()
    if not kind.numeric:
        return [at_position(kind, (factor.first + point) * factor.step) for point in points]
    numbers = [(factor.first + point) * above for point in points]
    return numbers if below == 1 else [number / below for number in numbers]
