"""How often intervals hold: many releases of one exact answer, each with its own noise and its own interval.

The engine runs once. Its exact integers are then copied ``BATCH`` times side by side, as if they were further groups,
and released and evaluated by the very code that answers questions. Every copy has noise of its own; the simulation
that some intervals need draws afresh for every batch.

The truth is what the answer would be without noise: the output evaluated over the exact integers, for a quantile the
smallest value with that share of the weight at or below it, for MIN and MAX the value of the rank that is aimed at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hush.curator.curator import Curator
from hush.curator.data_sets import OpenDataSet
from hush.curator.estimates import Compute, estimate_outputs, group_columns
from hush.curator.opening import protect
from hush.curator.release import KeySelector, NoisyGroups, Picks, release
from hush.engines.protocol import Choose, Exact, Sparse
from hush.query.plan.draws import Draw, DrawnAggregate, LineHistogram
from hush.query.plan.plan import Plan
from hush.query.question import AggregateKind

BATCH = 20
SIZES = {"a": 10, "b": 200, "c": 3000, "d": 16790}
"""Group sizes as parts of 20,000."""


def frame(rows: int, per_unit: int, seed: int = 5) -> Any:
    """Return a table: a normal x, a y that depends on it, a skewed z, a whole number k, a group g; w is x or NULL."""
    rng = np.random.default_rng(seed)
    x = rng.normal(50, 12, rows)
    shares = np.array(list(SIZES.values())) / sum(SIZES.values())
    units = np.arange(rows) // per_unit
    group = rng.choice(list(SIZES), units.max() + 1, p=shares)
    return pa.table(
        {
            "id": units,
            "x": np.clip(x, 0, 100),
            "y": np.clip(x * 0.5 + rng.normal(0, 10, rows), 0, 100),
            "z": np.minimum(rng.exponential(40.0, rows), 1000.0),
            "k": rng.poisson(6, rows),
            "g": group[units],
            "h": rng.choice(["p", "q", "r"], rows, p=[0.6, 0.3, 0.1]),
            "w": pa.array(np.clip(x, 0, 100), mask=rng.random(rows) < 0.2),
        }
    )


def curator(
    rows: int,
    *,
    per_unit: int = 1,
    max_rows: int = 1,
    max_groups: int = 1,
    private: bool = False,
    unused: int = 0,
    delta: str = "0",
    step: str = "0.01",
    seed: int = 5,
) -> Curator:
    """Protect such a table; ``private`` leaves the groups undeclared, and some that are declared may be ``unused``."""
    values: dict[str, Any] = {"h": ["p", "q", "r"]}
    if not private:
        values["g"] = [*SIZES, *(f"unused {at}" for at in range(unused))]
    return protect(
        frame(rows, per_unit, seed),
        unit="id" if per_unit > 1 else None,
        bounds={
            "x": (0, 100, step),
            "y": (0, 100, step),
            "z": (0, 1000, step),
            "k": (0, 50, 1),
            "w": (0, 100, step),
        },
        values=values,
        budget={"epsilon": 10**9, "delta": delta},
        max_rows=max_rows,
        max_groups=max_groups,
    )


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many intervals held, of how many; the half-widths, and how many cells had none."""

    hits: int
    runs: int
    width: float
    unknown: int

    @property
    def share(self) -> float:
        """The part that held."""
        return self.hits / self.runs if self.runs else float("nan")


def coverage(
    desk: Curator, sql: str, epsilon: str, runs: int = 2000, confidence: str = "0.95", batch: int = BATCH
) -> dict[tuple[Any, ...], Coverage]:
    """Return the coverage of the question's column ``v`` in every group."""
    table, how = desk.plan(sql, epsilon=epsilon, confidence=confidence)
    exact, compute = table.engine.run(how), computing(table, how)
    truth = truths(how, exact, compute)
    seen: dict[tuple[Any, ...], list[tuple[float, float, float]]] = {key: [] for key in truth}
    many = _copied(exact, batch)
    for _ in range(runs // batch):
        selector = KeySelector.of(how)
        released = release(how, many if selector is None else wanted(many, selector), selector)
        column = next(item for item in estimate_outputs(group_columns(how, released, compute)) if item.name == "v")
        for key, value, error in zip(released.keys, column.values, column.errors or (), strict=True):
            answer = float("nan") if value is None else float(value)
            seen[key].append((answer, truth[key], float("inf") if error is None else error))
    return {key: _summary(cells) for key, cells in seen.items() if cells}


def computing(table: OpenDataSet, how: Plan) -> Compute:
    """Return how a data set's engine computes functions of what was released."""
    return partial(table.engine.compute, table.engine.prepare(how))


def wanted(exact: Exact, choose: Choose) -> Exact:
    """Return what an engine returns of private groups."""
    assert exact.units is not None
    at = np.flatnonzero(choose(exact.units)).tolist()
    return exact._replace(
        keys=[exact.keys[place] for place in at],
        units=exact.units[at],
        statistics={item: values[at] for item, values in exact.statistics.items()},
        histograms=tuple([groups[place] for place in at] for groups in exact.histograms),
    )


def _summary(cells: list[tuple[float, float, float]]) -> Coverage:
    table = np.array(cells)
    table = table[np.isfinite(table[:, 0]) & np.isfinite(table[:, 1])]
    hits = int(np.count_nonzero(np.abs(table[:, 0] - table[:, 1]) <= table[:, 2] * (1 + 1e-12)))
    return Coverage(
        hits,
        len(table),
        float(np.median(table[:, 2])) if len(table) else float("nan"),
        int(np.count_nonzero(np.isinf(table[:, 2]))),
    )


def _copied(exact: Exact, times: int) -> Exact:
    return exact._replace(
        keys=[tuple(key) for key in exact.keys] * times,
        units=None if exact.units is None else np.tile(exact.units, times),
        statistics={item: np.tile(values, times) for item, values in exact.statistics.items()},
        histograms=tuple(list(groups) * times for groups in exact.histograms),
    )


def noiseless(how: Plan, exact: Exact) -> NoisyGroups:
    """Return what would be released without noise."""
    picks = {
        choice: Picks([_exact_pick(item, choice, histogram) for histogram in groups], [0.0] * len(groups))
        for item, groups in zip(how.draws, exact.histograms, strict=True)
        for choice in item.choices
    }
    return NoisyGroups(
        keys=[tuple(key) for key in exact.keys],
        statistics={item: np.array(values, dtype=object) for item, values in exact.statistics.items()},
        picks=picks,
    )


def truths(how: Plan, exact: Exact, compute: Compute) -> dict[tuple[Any, ...], float]:
    """Return the answers without noise."""
    released = noiseless(how, exact)
    (column,) = (item for item in estimate_outputs(group_columns(how, released, compute)) if item.name == "v")
    return {
        key: float("nan") if value is None else float(value)
        for key, value in zip(released.keys, column.values, strict=True)
    }


def _exact_pick(item: Draw, choice: DrawnAggregate, sparse: Sparse) -> Any:
    """Return the value that has the rank aimed at; None of no rows."""
    histogram = item.histogram
    assert isinstance(histogram, LineHistogram)
    upto = np.cumsum(sparse.weights.astype(object))
    if not len(upto):
        return None
    whole = upto[-1]
    if choice.kind is AggregateKind.QUANTILE:
        aim = choice.fraction * whole
    elif choice.kind is AggregateKind.MIN:
        aim = min(item.mechanism.rank, whole // 2)
    else:
        aim = max(whole - item.mechanism.rank, whole - whole // 2)
    at = next(i for i, one in enumerate(upto) if one >= aim)
    return (histogram.factor.first + int(sparse.bins[at]) * histogram.cell) * histogram.factor.step
