"""From exact integers to noisy answers: the one place where private numbers become public.

Everything after `release` is post-processing. Private keys are selected by `KeySelector`: an engine shows it how many
units each group has, part by part, and returns the groups that it selects. Each group gets a draw of its own, so
neither the parts nor their order matter. Selected keys are put in order here, because the order in which an engine
happens to return groups is a fact about the data. Noise is drawn for selected groups alone: given which keys are shown,
their noisy integers are a mechanism of their own, and compose with the selection.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.columns import largest_magnitude
from hush.engines.protocol import Exact, Sparse
from hush.mechanisms.grouped import GroupedDistribution, Histograms, KeySelection, KeyThreshold
from hush.mechanisms.grouped.base import Integers
from hush.mechanisms.grouped.mode import GroupedMode
from hush.mechanisms.grouped.noise import shuffled_middles
from hush.query.plan.draws import Draw, LineHistogram, ValueHistogram
from hush.query.plan.estimators import Drawn, Linear, Mean, Moment, Plausible
from hush.query.plan.plan import Plan
from hush.query.plan.stability import Factor, Statistic
from hush.query.question import AggregateKind
from hush.query.types import Kind

Floats = npt.NDArray[np.float64]
_EPOCH = dt.date(1970, 1, 1)
_MICROSECONDS = 10**6
_TOGETHER = 2**14
"""How many numbers are simulated at once: a processor's cache holds a few arrays of this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyGroups:
    """The released groups: noisy and public, one entry per group."""

    keys: Sequence[tuple[Any, ...]]
    statistics: dict[Statistic, Integers]
    picks: tuple[list[Any], ...]
    """For every choice of the plan, each group's value."""
    halves: tuple[list[float | None], ...]
    """For every choice, the half-width of each group's interval, in the value's own unit (dates: days; times: seconds);
    None for MODE."""

    def rows(self, places: Sequence[int]) -> NoisyGroups:
        """Return some of the groups, in this order."""
        rows = np.array(places, dtype=np.int64)
        return NoisyGroups(
            keys=[self.keys[group] for group in places],
            statistics={statistic: values[rows] for statistic, values in self.statistics.items()},
            picks=tuple([column[group] for group in places] for column in self.picks),
            halves=tuple([column[group] for group in places] for column in self.halves),
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
    drawn: dict[int, tuple[list[Any], list[float | None]]] = {}
    for pick, groups in zip(plan.draws, exact.histograms, strict=True):
        columns = _picked(pick, Histograms.of(groups).take(order) if private else groups)
        drawn |= dict(zip(pick.numbers, columns, strict=True))
    numbers = sorted(drawn)
    return NoisyGroups(
        keys=[keys[row] for row in order],
        statistics=statistics,
        picks=tuple(drawn[number][0] for number in numbers),
        halves=tuple(drawn[number][1] for number in numbers),
    )


def _picked(pick: Draw, histograms: Sequence[Sparse]) -> list[tuple[list[Any], list[float | None]]]:
    """Draw for each choice each group's value, and the half-width of its interval in its own unit; None for MODE."""
    histogram, mechanism = pick.choice.histogram, pick.mechanism
    if isinstance(mechanism, GroupedMode):
        assert isinstance(histogram, ValueHistogram)  # noqa: S101 - a mode is one of a list
        numbers = mechanism.release(histograms).tolist()
        return [([histogram.values[number] for number in numbers], [None] * len(numbers))]
    assert isinstance(histogram, LineHistogram)  # noqa: S101 - a quantile lies on a line
    if isinstance(mechanism, GroupedDistribution):
        requests = [(choice.quantile, often) for choice, often in zip(pick.choices, pick.confidences, strict=True)]
        intervals = mechanism.release(histograms, requests)
    else:
        intervals = [mechanism.release(histograms)]
    factor = histogram.factor
    unit = float(factor.step) / (_MICROSECONDS if factor.expression.type.kind is Kind.TIMESTAMP else 1)
    return [
        (_on_line(drawn.index.tolist(), factor), [half * unit for half in drawn.half.tolist()]) for drawn in intervals
    ]


class KeySelector:
    """Selects private keys by the numbers of their units, with fresh draws for each."""

    def __init__(self, mechanism: KeySelection | KeyThreshold) -> None:
        self._mechanism = mechanism
        self.selected = 0
        """The number of keys that were selected so far."""

    @classmethod
    def of(cls, plan: Plan) -> KeySelector | None:
        """Return a selector for the keys of a plan; None where they are public."""
        return None if plan.selection is None else cls(plan.selection.mechanism)

    def __call__(self, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return for each of some groups whether it is shown."""
        selected = self._mechanism.release(units)
        # `release` compares it with the number of groups that the engine returned
        self.selected += int(np.count_nonzero(selected))
        return selected


def _order(value: Any) -> tuple[int, Any]:
    """Order values of one column, NULL last."""
    return (1, 0) if value is None else (0, value)


def _on_line(points: Sequence[int], factor: Factor) -> list[Any]:
    """Return the values of points on a grid: whole where all are, else floats, each rounded once; dates and times."""
    kind, (above, below) = factor.expression.type.kind, factor.step.as_integer_ratio()
    numbers = [(factor.first + point) * above for point in points]
    if kind is Kind.DATE:
        return [_EPOCH + dt.timedelta(days=number // below) for number in numbers]
    if kind is Kind.TIMESTAMP:  # naive, like the column
        start = dt.datetime(1970, 1, 1)  # noqa: DTZ001
        return [start + dt.timedelta(microseconds=number // below) for number in numbers]
    return numbers if below == 1 else [number / below for number in numbers]


def estimates(plan: Plan, released: NoisyGroups) -> list[list[Any]]:
    """Return each aggregate's answers: counts and sums exactly where they are whole, other numbers as floats."""
    floats = _floats(released)
    answers: list[list[Any]] = []
    for estimator in plan.estimators:
        match estimator:
            case Linear():
                answers.append(_exactly(estimator, released))
            case Drawn():
                answers.append(released.picks[estimator.number])
            case Mean():
                answers.append(estimator.evaluate(floats).tolist())
            case Moment():  # a correlation is undefined where noise made a variance negative: nothing is known, 0 ± 1
                undefined = 0.0 if estimator.kind is AggregateKind.CORRELATION else None
                numbers = estimator.evaluate(floats).tolist()
                answers.append([undefined if math.isnan(value) else value for value in numbers])
    return answers


def _exactly(estimator: Linear, released: NoisyGroups) -> list[int | float]:
    """Return sums of whole numbers times rational factors, each moved to the nearest multiple of the grid."""
    factors = [factor / estimator.grid for _, factor in estimator.parts]
    below = math.lcm(*(factor.denominator for factor in factors))
    multipliers = [int(factor * below) for factor in factors]
    numbers = [released.statistics[statistic] for statistic, _ in estimator.parts]
    # one statistic with factor 1: no sum and no rounding
    if multipliers == [below]:
        return _times(numbers[0], estimator.grid)
    magnitude = max(map(largest_magnitude, numbers)) * sum(map(abs, multipliers))
    form = np.int64 if max(magnitude, below) < 2**61 else object  # Python's integers where sums would not fit
    sums = np.add.reduce([column.astype(form) * times for column, times in zip(numbers, multipliers, strict=True)])
    return _times(sums if below == 1 else _nearest(sums, below), estimator.grid)


def _nearest(above: npt.NDArray[Any], below: int) -> npt.NDArray[Any]:
    """Return the whole numbers nearest to ratios; halves go to the even neighbour."""
    quotient = above // below
    twice = 2 * (above - quotient * below)
    return np.asarray(quotient + ((twice > below) | ((twice == below) & (quotient % 2 == 1))))


def _times(values: Integers, step: Fraction) -> list[int | float]:
    """Return multiples of a step: whole numbers exactly, others as the nearest float, as a division of integers is."""
    above, below = step.numerator, step.denominator
    peak = max(largest_magnitude(values), 1) * above  # even of zeros: no array is multiplied by more than it can hold
    if max(peak, below) < 2**53:  # floats hold both, so that a division errs once
        quick: list[int | float] = (values * above if below == 1 else values * above / below).tolist()
        return quick
    numbers = [value * above for value in values.tolist()]
    return [number // below if number % below == 0 else number / below for number in numbers]


class Simulation:
    """Plausible truths of each aggregate: the released numbers minus fresh noise, ``draws`` times.

    The same draws serve all groups; each group's interval uses only its own. The noise law of picks is not known, only
    their half-widths: the truth is taken to lie anywhere within, or as far beyond as the confidence leaves.
    """

    def __init__(self, plan: Plan, released: NoisyGroups, draws: int) -> None:
        self._plan, self._released, self.draws = plan, released, draws
        laws = plan.laws
        self._centre = _floats(released)
        self._noise = _Made(lambda item: laws[item].imagine(draws))
        self._found: dict[int, Plausible] = {}

    def __getitem__(self, aggregate: int) -> Plausible:
        if aggregate not in self._found:
            self._found[aggregate] = self._simulated(aggregate)
        return self._found[aggregate]

    def parts(self, groups: npt.NDArray[np.int64], draws: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the groups in batches: with ``draws`` draws for each group, a batch fits the processor's cache."""
        batch_size = max(1, _TOGETHER // draws)
        for start in range(0, len(groups), batch_size):
            yield groups[start : start + batch_size]

    def _simulated(self, aggregate: int) -> Plausible:
        estimator = self._plan.estimators[aggregate]
        if not isinstance(estimator, Drawn):
            return estimator.plausible(self._centre, self._noise)
        number = estimator.number
        pick, index = self._plan.draw(number)
        # uniform beyond ±1 as well: a share of 1 - confidence lies outside the half-width
        places = shuffled_middles(self.draws) / pick.confidences[index]
        columns = self._released.picks[number], self._released.halves[number]
        middle, width = (np.array([_float(value) for value in column]) for column in columns)
        return Plausible(lambda groups, draws: middle[groups][:, None] + width[groups][:, None] * places[draws])


def _float(value: Any) -> float:
    return float(value) if isinstance(value, Fraction | float | int) else math.nan


def _floats(released: NoisyGroups) -> _Made:
    return _Made(lambda item: released.statistics[item].astype(np.float64))


class _Made(dict[Statistic, Floats]):
    """Values of statistics, each made when it is first asked for."""

    def __init__(self, make: Callable[[Statistic], Floats]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, item: Statistic) -> Floats:
        self[item] = self._make(item)
        return self[item]
