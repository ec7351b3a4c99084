"""From exact integers to noisy answers: the one place where private numbers become public.

Everything after `release` is post-processing. Keys that were chosen privately are put in order here, because the order
in which an engine happens to return groups is a fact about the data.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.curator.picking import pick
from hush.engines.base import Exact, Sparse
from hush.noise import permutation
from hush.query.plan.choices import LineHistogram
from hush.query.plan.estimators import Linear, Mean, Moment, Picked
from hush.query.plan.plan import CONFIDENCE, Plan
from hush.query.plan.selection import pass_threshold, select_keys
from hush.query.plan.statistics import Statistic
from hush.query.question import AggregateKind
from hush.query.types import Kind

Floats = npt.NDArray[np.float64]
_EPOCH = dt.date(1970, 1, 1)
_MICROSECONDS = 10**6


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


def release(plan: Plan, exact: Exact) -> Released:
    """Choose the keys, add the noise, draw the picks."""
    shown = list(range(len(exact.keys)))
    keys = [tuple(key) for key in exact.keys]
    if plan.selection is not None:
        assert exact.units is not None  # noqa: S101 - asked for by the extraction
        how = plan.selection
        if how.law is not None:
            chosen = pass_threshold(exact.units, how.law, how.threshold)
        else:
            chosen = select_keys(exact.units, how.epsilon, how.delta, how.keys)
        shown = sorted(np.flatnonzero(chosen).tolist(), key=lambda at: [_order(part) for part in keys[at]])
    statistics = {}
    for noise in plan.noises:
        for statistic in noise.statistics:
            drawn = noise.law.draw(len(shown)).tolist()
            values = exact.statistics[statistic]
            statistics[statistic] = [values[at] + extra for at, extra in zip(shown, drawn, strict=True)]
    picks, halves = [], []
    for item, groups in zip(plan.picks, exact.histograms, strict=True):
        empty = Sparse(bins=np.zeros(0, dtype=np.int64), weights=np.zeros(0, dtype=np.int64))
        drawn_picks = [pick(item, groups[at] if at < len(groups) else empty) for at in shown]
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
            case Linear():
                answers.append(_exactly(estimator, released))
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


def _exactly(estimator: Linear, released: Released) -> list[Any]:
    """Return sums of whole numbers times rational factors, each moved to the nearest multiple of the grid."""
    factors = [factor / estimator.grid for _, factor in estimator.parts]
    below = math.lcm(*(factor.denominator for factor in factors))
    whole = [int(factor * below) for factor in factors]
    numbers = [released.statistics[statistic] for statistic, _ in estimator.parts]
    sums = numbers[0] if whole == [1] else [sum(map(operator.mul, whole, row)) for row in zip(*numbers, strict=True)]
    return _times(sums if below == 1 else [_nearest(value, below) for value in sums], estimator.grid)


def _nearest(above: int, below: int) -> int:
    """Return the whole number nearest to a ratio, an even one of two."""
    whole, rest = divmod(above, below)
    return whole + (2 * rest > below or (2 * rest == below and whole % 2 == 1))


def _times(values: Sequence[int], step: Fraction) -> list[Any]:
    if step.denominator == 1:
        return [value * step.numerator for value in values]
    return [Fraction(value * step.numerator, step.denominator) for value in values]


def simulate(plan: Plan, released: Released, draws: int, needed: Collection[int]) -> list[Floats]:
    """Return, for each aggregate needed, ``draws`` plausible truths a group: what was released minus fresh noise.

    The same draws serve all groups; each group's interval uses only its own column. Of picks no law is known
    but their half-widths: the truth is taken to lie anywhere within, or a twentieth beyond.
    """
    centre = _Drawn(lambda item: np.array(released.statistics[item], dtype=np.float64)[None, :])
    values = _Drawn(lambda item: centre[item] - _noise(plan, item, draws)[:, None])
    results: list[Floats] = []
    picked = 0
    for index, estimator in enumerate(plan.estimators):
        if isinstance(estimator, Picked):
            results.append(_simulate_pick(released.picks[picked], released.halves[picked], draws))
            picked += 1
        elif index not in needed:
            results.append(np.zeros(0))
        else:
            with np.errstate(all="ignore"):
                found = (
                    estimator.plausible(values, centre)
                    if isinstance(estimator, Mean | Moment)
                    else estimator.evaluate(values)
                )
                results.append(np.asarray(found, dtype=np.float64))
    return results


class _Drawn(dict[Statistic, Floats]):
    """Values of statistics, each made when it is first asked for."""

    def __init__(self, make: Callable[[Statistic], Floats]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, item: Statistic) -> Floats:
        self[item] = self._make(item)
        return self[item]


def _noise(plan: Plan, item: Statistic, draws: int) -> Floats:
    return plan.laws[item].imagine(draws)


def _simulate_pick(values: list[Any], halves: list[float | None], draws: int) -> Floats:
    centre = np.array([float(value) if isinstance(value, Fraction) else np.nan for value in values])
    width = np.array([np.nan if half is None else half / CONFIDENCE for half in halves])
    places = (2.0 * permutation(draws) + 1) / draws - 1
    return np.asarray(centre[None, :] + width[None, :] * places[:, None])
