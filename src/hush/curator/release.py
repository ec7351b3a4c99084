"""From exact integers to noisy answers: the one place where private numbers become public.

Everything after `release` is post-processing. Private keys are chosen here: the engine offers how many units each group
has, part by part, and hands out the groups that were chosen. Each group gets a draw of its own, so neither the parts
nor their order matter. Chosen keys are put in order here, because the order in which an engine happens to return groups
is a fact about the data. Noise is drawn for chosen groups alone: given which keys are shown, what is said about them is
a mechanism of its own over their integers, and composes with the choice.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.curator.picking import pick
from hush.engines.base import Choose, Exact
from hush.noise import permutation
from hush.query.plan.aggregates import Direct, Mean, Moment, Picked, ShiftedSum
from hush.query.plan.choices import LineHistogram
from hush.query.plan.plan import Plan, Selection
from hush.query.plan.selection import pass_threshold, select_keys
from hush.query.plan.statistics import Count, Factor, Halves, Statistic, Total, line
from hush.query.question import AggregateKind
from hush.query.types import Kind

Floats = npt.NDArray[np.float64]
_EPOCH = dt.date(1970, 1, 1)
_MICROSECONDS = 10**6
TOGETHER = 2**14
"""So many numbers are simulated at once: a processor's cache holds a few arrays of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Noisy, public: one entry a group."""

    keys: Sequence[tuple[Any, ...]]
    statistics: dict[Statistic, list[int]]
    picks: tuple[list[Any], ...]
    """For every pick of the plan, each group's value."""
    halves: tuple[list[float | None], ...]
    """For every pick, the half-width of each group's interval, in the value's own unit (dates: days; times: seconds);
    None for MODE."""


def release(plan: Plan, execute: Callable[[Choose | None], Exact]) -> Released:
    """Choose the keys, add the noise, draw the picks. ``execute`` runs the plan in an engine."""
    chooser = None if plan.selection is None else Chooser(plan.selection)
    exact = execute(chooser)
    keys = [tuple(key) for key in exact.keys]
    shown = list(range(len(keys)))
    if chooser is not None:
        if chooser.chosen != len(keys):  # an engine that did not ask must not have its keys shown
            raise RuntimeError("the engine returned other groups than those that were chosen")
        missing = any(part is None for key in keys for part in key)
        shown.sort(key=(lambda at: [_order(part) for part in keys[at]]) if missing else keys.__getitem__)
    statistics = {}
    for noise in plan.noises:
        for statistic in noise.statistics:
            drawn = noise.law.draw(len(shown)).tolist()
            values = exact.statistics[statistic]
            statistics[statistic] = [values[at] + extra for at, extra in zip(shown, drawn, strict=True)]
    picks, halves = [], []
    for item, groups in zip(plan.picks, exact.histograms, strict=True):
        drawn_picks = [pick(item, groups[at]) for at in shown]
        histogram = item.choice.histogram
        if isinstance(histogram, LineHistogram):
            factor = histogram.factor
            kind = factor.expression.type.kind
            picks.append([_on_line((factor.first + one.index) * factor.step, kind) for one in drawn_picks])
            unit = float(factor.step) / (_MICROSECONDS if kind is Kind.TIMESTAMP else 1)
            halves.append([None if one.half is None else one.half * unit for one in drawn_picks])
        else:
            picks.append([histogram.values[one.index] for one in drawn_picks])
            halves.append([None] * len(shown))
    return Released(keys=[keys[at] for at in shown], statistics=statistics, picks=tuple(picks), halves=tuple(halves))


class Chooser:
    """Chooses private keys by the numbers of their units, with fresh draws for each."""

    def __init__(self, how: Selection) -> None:
        self._how = how
        self.chosen = 0
        """How many were chosen so far."""

    def __call__(self, units: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some groups are shown."""
        how = self._how
        if how.law is not None:
            shown = pass_threshold(units, how.law, how.threshold)
        else:
            shown = select_keys(units, how.epsilon, how.delta, how.keys)
        self.chosen += int(np.count_nonzero(shown))
        return shown


def _order(value: Any) -> tuple[int, Any]:
    """Order values of one column, NULL last."""
    return (1, 0) if value is None else (0, value)


def _on_line(number: Fraction, kind: Kind) -> Any:
    if kind is Kind.DATE:
        return _EPOCH + dt.timedelta(days=int(number))
    if kind is Kind.TIMESTAMP:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))  # noqa: DTZ001 - naive, like the column
    return number


def estimates(plan: Plan, released: Released) -> list[list[Any]]:
    """Return each aggregate's answers: exact rationals where the estimator is linear, floats elsewhere."""
    floats = {item: np.array([float(value) for value in values]) for item, values in released.statistics.items()}
    answers: list[list[Any]] = []
    picked = 0
    for estimator in plan.estimators:
        match estimator:
            case Direct():
                answers.append(_rounded(estimator, released.statistics[estimator.statistic]))
            case ShiftedSum():
                factor, (counts, scale) = estimator.total.factors[0], _counts(released, estimator.count)
                pairs = zip(released.statistics[estimator.total], counts, strict=True)
                sums = [scale * total + factor.centre * count for total, count in pairs]
                answers.append(_on_grid(factor, sums, scale))
            case Picked():
                answers.append(released.picks[picked])
                picked += 1
            case Mean():
                answers.append([float(value) for value in estimator.evaluate(floats)])
            case Moment():  # a correlation is undefined where noise made a variance negative: nothing is known, 0 ± 1
                undefined = 0.0 if estimator.kind is AggregateKind.CORRELATION else None
                found = estimator.evaluate(floats)
                answers.append([undefined if np.isnan(value) else float(value) for value in found])
    return answers


def _rounded(estimator: Direct, values: list[int]) -> list[Any]:
    if isinstance(estimator.statistic, Total):
        return _on_grid(estimator.statistic.factors[0], values)
    return _times(values, estimator.step)


def _on_grid(factor: Factor, sums: Sequence[int], scale: int = 1) -> list[Any]:
    """Return sums of indices, divided by ``scale``, as values; on the column's own grid where that is coarser."""
    own = max(line(factor.expression.type)[2], factor.step)
    above, below = (factor.step / (own * scale)).as_integer_ratio()
    return _times(sums if above == below else [_nearest(value * above, below) for value in sums], own)


def _nearest(above: int, below: int) -> int:
    """Return the whole number nearest to a ratio, an even one of two."""
    whole, rest = divmod(above, below)
    return whole + (2 * rest > below or (2 * rest == below and whole % 2 == 1))


def _times(values: Sequence[int], step: Fraction) -> list[Any]:
    if step.denominator == 1:
        return [value * step.numerator for value in values]
    return [Fraction(value * step.numerator, step.denominator) for value in values]


def _counts(released: Released, count: Count | Halves) -> tuple[list[int], int]:
    """Return the numbers of rows, times a number, and that number."""
    if isinstance(count, Halves):
        pairs = zip(released.statistics[count.above], released.statistics[count.below], strict=True)
        return [above - below for above, below in pairs], count.bound
    return released.statistics[count], 1


def simulate(plan: Plan, released: Released, draws: int, needed: Collection[int]) -> list[Floats]:
    """Return, for each aggregate needed, ``draws`` plausible truths a group: what was released minus fresh noise.

    The same draws serve all groups; each group's interval uses only its own column. Of picks no law is known
    but their half-widths: the truth is taken to lie anywhere within, or as far beyond as the confidence leaves.
    """
    laws, size = plan.laws, len(released.keys)
    centre = _Drawn(lambda item: np.array(released.statistics[item], dtype=np.float64)[None, :])
    noise = _Drawn(lambda item: laws[item].imagine(draws)[:, None])
    many = max(1, TOGETHER // draws)
    parts = [slice(start, start + many) for start in range(0, size, many)]
    results: list[Floats] = []
    picked = 0
    for index, estimator in enumerate(plan.estimators):
        if isinstance(estimator, Picked):
            results.append(_simulate_pick(plan, released.picks[picked], released.halves[picked], draws))
            picked += 1
        elif index not in needed:
            results.append(np.zeros(0))
        else:
            found = np.empty((draws, size))
            for part in parts:
                found[:, part] = _simulate_groups(estimator, centre, noise, part)
            results.append(found)
    return results


def _simulate_groups(
    estimator: Direct | ShiftedSum | Mean | Moment, centre: _Drawn, noise: _Drawn, part: slice
) -> Floats:
    here = _Drawn(lambda item: centre[item][:, part])
    values = _Drawn(lambda item: here[item] - noise[item])
    with np.errstate(all="ignore"):
        if isinstance(estimator, Mean | Moment):
            return np.asarray(estimator.plausible(values, here), dtype=np.float64)
        return np.asarray(estimator.evaluate(values), dtype=np.float64)


class _Drawn(dict[Statistic, Floats]):
    """Values of statistics, each made when it is first asked for."""

    def __init__(self, make: Callable[[Statistic], Floats]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, item: Statistic) -> Floats:
        self[item] = self._make(item)
        return self[item]


def _simulate_pick(plan: Plan, values: list[Any], halves: list[float | None], draws: int) -> Floats:
    centre = np.array([float(value) if isinstance(value, Fraction) else np.nan for value in values])
    width = np.array([np.nan if half is None else half / plan.confidence for half in halves])
    places = (2.0 * permutation(draws) + 1) / draws - 1
    return np.asarray(centre[None, :] + width[None, :] * places[:, None])
