"""How often the bars of shown rows hold: many answers to one question that shows some of its groups.

The engine runs once for a data set; every answer has noise of its own, and is chosen, ordered and cut by the very code
that answers questions. The truth is the same question without noise, HAVING, ORDER BY and LIMIT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from coverage_runs import computing, noiseless, wanted

from hush.curator.curator import Curator
from hush.curator.estimates import estimate_outputs, group_columns
from hush.curator.opening import protect
from hush.curator.release import KeySelector, release


@dataclass(slots=True)
class Shown:
    """How many bars were shown of one output, how many of them held, how many said nothing; and how wide they were."""

    held: int = 0
    rows: int = 0
    unknown: int = 0
    widths: list[float] | None = None

    def add(self, value: Any, truth: Any, width: float | None) -> None:
        """Count a cell; where there is no truth there is nothing to hold."""
        if value is None or truth is None:
            return
        self.rows += 1
        self.unknown += width is None
        self.held += width is None or abs(value - truth) <= width * (1 + 1e-12)
        self.widths = [*(self.widths or ()), float("inf") if width is None else width]

    @property
    def median(self) -> float:
        """The width in the middle."""
        return float(np.median(self.widths or [float("nan")]))


def groups(sizes: list[int], *, private: bool = False, seed: int = 1, **limits: Any) -> Curator:
    """Protect groups of so many rows: a normal x, and y which is as often negative."""
    rng = np.random.default_rng(seed)
    names = [f"g{at:03}" for at in range(len(sizes))]
    x = np.clip(rng.normal(50, 20, sum(sizes)), 0, 100)
    return protect(
        pa.table({"g": np.repeat(names, sizes), "x": x, "y": x - 50}),
        bounds={"x": (0, 100, "0.01"), "y": (-50, 50, "0.01")},
        values={} if private else {"g": names},
        budget={"epsilon": 10**9, "delta": "1e-6"},
        **limits,
    )


def shown(desk: Curator, sql: str, epsilon: str, runs: int, confidence: str = "0.95") -> dict[str, Shown]:
    """Return how often the bars of each output held in the rows that were shown; ``g`` is the key."""
    table, how = desk.plan(sql, epsilon=epsilon, confidence=confidence)
    exact, compute = table.engine.run(how), computing(table, how)
    whole = replace(how.question, having=None, order=(), limit=None, offset=0)
    truths = {
        column.name: column.values
        for column in estimate_outputs(
            group_columns(replace(how, question=whole, winners=None), noiseless(how, exact), compute)
        )
    }
    found: dict[str, Shown] = {}
    for _ in range(runs):
        selector = KeySelector.of(how)
        released = release(how, exact if selector is None else wanted(exact, selector), selector)
        columns = estimate_outputs(group_columns(how, released, compute))
        at = [truths["g"].index(key) for key in next(column.values for column in columns if column.name == "g")]
        for column in columns:
            for place, value, width in zip(at, column.values, column.errors or (), strict=column.errors is not None):
                found.setdefault(column.name, Shown()).add(value, truths[column.name][place], width)
    return found
