"""Error bars of roll-ups and of windows over answers hold: at least as often as in 93 % of cases, also of rows chosen.

The engine runs once for each question; its exact integers are then released `RUNS` times, and the table of answers is
made anew each time. The truth is what the same question says of the exact rows. A check fails where so few bars hold
that a coverage of 93 % gives that with a probability below 1e-6, over all cells of the question together (Bonferroni).
Of rows that noise chose it is the mean share of the rows shown that hold, by Hoeffding's bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import hush
from hush.curator.composed import Composer
from hush.curator.curator import Curator
from hush.curator.estimates import group_columns
from hush.curator.release import release
from hush.query.answers.plan import ComposedPlan
from hush.report.columns import AnswerColumn

RUNS = 250
FALSE_ALARM = 1e-6
SIZES = {"a": 900, "b": 890, "c": 400, "d": 60, "e": 20, "f": 12}


def frame() -> pa.Table:
    rng = np.random.default_rng(11)
    keys = [key for key, size in SIZES.items() for _ in range(size)]
    return pa.table(
        {"g": keys, "h": rng.choice(["p", "q", "r"], len(keys)), "x": np.clip(rng.normal(40, 15, len(keys)), 0, 100)}
    )


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    made = hush.protect(
        frame(),
        table="visits",
        bounds={"x": (0, 100, "0.01")},
        values={"g": list(SIZES), "h": ["p", "q", "r"]},
        budget={"epsilon": "1e9", "delta": "0.1"},
    )
    yield made
    made.close()


def answers(curator: Curator, sql: str, epsilon: str) -> Iterator[tuple[AnswerColumn, ...]]:
    """Yield the answer many times, each with noise of its own."""
    data_set, plan = curator.plan(sql, epsilon=epsilon)
    assert isinstance(plan, ComposedPlan)
    engine = data_set.engine
    compiled = {number: engine.prepare(part) for number, part in plan.parts.items()}
    exact = {number: engine.execute(one) for number, one in compiled.items()}
    for _ in range(RUNS):
        read = {
            number: group_columns(part, release(part, exact[number]), partial(engine.compute, compiled[number]))
            for number, part in plan.parts.items()
        }
        yield Composer(plan, read).columns()


def truth(sql: str) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Return the true rows by their texts, with DuckDB on the exact rows."""
    plain = duckdb.connect(":memory:")
    plain.register("visits", frame())
    found = {}
    for row in plain.execute(sql).fetchall():
        key = tuple(cell for cell in row if cell is None or isinstance(cell, str))
        found[key] = tuple(cell for cell in row if not (cell is None or isinstance(cell, str)))
    return found


Q = "(SELECT g, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY g) AS t"
QUESTIONS = {
    "roll-up": ("SELECT g, h, COUNT(*) AS n, AVG(x) AS m FROM visits GROUP BY ROLLUP (g, h)", "1"),
    "share": (f"SELECT g, n / SUM(n) OVER () AS p, SUM(n) OVER (ORDER BY g) AS run FROM {Q}", "0.5"),
    "rank": (f"SELECT g, RANK() OVER (ORDER BY n DESC) AS r, MAX(n) OVER () AS most FROM {Q}", "0.2"),
    "total": (f"SELECT SUM(n) AS n, AVG(s) AS a, MAX(n) AS most FROM {Q}", "0.2"),
    "passed": (f"SELECT COUNT(*) AS k, SUM(n) AS n FROM {Q} WHERE n > 50", "0.2"),
    "difference": (f"SELECT g, n - COALESCE(LAG(n) OVER (ORDER BY g), 0) AS d FROM {Q}", "0.5"),
}


@pytest.mark.parametrize("which", QUESTIONS)
def test_bars_hold_in_every_cell(curator: Curator, which: str) -> None:
    sql, epsilon = QUESTIONS[which]
    true = truth(sql)
    hits: dict[tuple[object, ...], int] = {}
    for columns in answers(curator, sql, epsilon):
        keys = [column for column in columns if not column.kind.numeric]
        noisy = [column for column in columns if column.kind.numeric]
        for row in range(len(columns[0].values)):
            key = tuple(column.values[row] for column in keys)
            for at, column in enumerate(noisy):
                # A number that no noise can have decided is shown without an error: it must be right.
                error = column.errors[row] if column.errors else 0.0
                holds = error is None or abs(float(column.values[row]) - float(true[key][at])) <= error + 1e-9
                hits[(*key, at)] = hits.get((*key, at), 0) + holds
    assert len(hits) == sum(map(len, true.values()))
    least = binom.ppf(FALSE_ALARM / len(hits), RUNS, 0.93)
    assert min(hits.values()) >= least, (min(hits.values()) / RUNS, hits)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT g, n FROM {Q} QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2",
        f"SELECT g, n FROM (SELECT g, n FROM {Q} ORDER BY n DESC LIMIT 4) WHERE n > 100",
    ],
)
def test_bars_hold_for_rows_that_noise_chose(curator: Curator, sql: str) -> None:
    true = {key[0]: cells[0] for key, cells in truth(f"SELECT g, n FROM {Q}").items()}
    shares = []
    for columns in answers(curator, sql, "0.05"):
        rows = list(zip(columns[0].values, columns[1].values, columns[1].errors or (), strict=True))
        held = [error is None or abs(value - true[key]) <= error for key, value, error in rows]
        shares.append(sum(held) / len(held) if held else 1.0)
    slack = math.sqrt(math.log(1 / FALSE_ALARM) / (2 * RUNS))  # Hoeffding
    assert np.mean(shares) >= 0.93 - slack
