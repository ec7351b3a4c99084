"""Whole releases: how long they take, how much memory, and how good they are, on Adult and on a million rows.

    python benchmarks/releases.py [adult|million|marginals|stream]

Prints CPU seconds and ratios to what limits them: the distance of pairs to that of a bootstrap of the table, the
largest error of tables to that of noise on each table alone, a stream's error to that of fresh noise every day.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np

from hush.mechanisms.grouped import zcdp_budget
from hush.synth import CodedTable, Domain, Price, all_marginals, plan_marginals, plan_stream, plan_synthesis, synthesise

sys.path.append(str(Path(__file__).parents[1] / "tests" / "unit" / "synth"))
from census import ADULT

ORDERED = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]


def adult() -> CodedTable:
    codes = np.load(Path(__file__).parents[1] / "tests" / "data" / "adult.npz")["codes"]
    return CodedTable.of(Domain.of(ADULT, ordered=ORDERED), dict(zip(ADULT, codes, strict=True)))


def million(columns: int = 20, rows: int = 10**6) -> CodedTable:
    """Return rows whose columns hang on each other in a chain."""
    generator = np.random.default_rng(0)
    sizes = {f"c{place}": int(generator.choice([2, 4, 8, 16, 50, 100])) for place in range(columns)}
    hidden = generator.random(rows)
    codes = {}
    for name, size in sizes.items():
        hidden = np.where(generator.random(rows) < 0.8, hidden, generator.random(rows))
        codes[name] = np.minimum((hidden * size).astype(np.int64), size - 1)
    ordered = [name for name, size in sizes.items() if size >= 16]
    return CodedTable.of(Domain.of(sizes, ordered=ordered), codes)


def distance(one: CodedTable, other: CodedTable) -> float:
    pairs = combinations(one.domain.names, 2)
    found = [np.abs(one.marginal(p) / len(one) - other.marginal(p) / max(len(other), 1)).sum() for p in pairs]
    return float(np.mean(found))


def measured(work: object) -> tuple[float, object]:
    start = time.process_time()
    found = work()  # type: ignore[operator]
    return time.process_time() - start, found


def memory() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


def synthetic(name: str, table: CodedTable) -> None:
    resampled = np.random.default_rng(1).integers(0, len(table), len(table))
    floor = distance(table, CodedTable(table.domain, tuple(codes[resampled] for codes in table.codes)))
    for epsilon in ("0.1", "1", "10"):
        price = Price(law="gaussian", amount=zcdp_budget(Fraction(epsilon), Fraction("1e-9")))
        seconds, made = measured(lambda price=price: synthesise(plan_synthesis(table.domain, price), table))
        drawn, rows = measured(lambda made=made: made.table)
        error = distance(table, rows)
        print(
            f"{name} ε={epsilon}: pairs {error:.4f} ({error / floor:.2f} × a bootstrap), "
            f"certified {made.quality.mean:.4f}, {seconds + drawn:.1f} CPU-s, {memory()}"
        )


def marginals() -> None:
    table = adult()
    for degrees in ((2,), (1, 2, 3)):
        workload = [columns for degree in degrees for columns in all_marginals(table.domain, degree)]
        seconds, plan = measured(lambda work=workload: plan_marginals(table.domain, work, rho=Fraction(1, 2)))
        largest = max(plan.variance(columns) for columns in plan.workload) ** 0.5
        taken, _ = measured(lambda plan=plan: plan.measure(table))
        alone = math.sqrt(len(workload))
        print(
            f"tables of degree {degrees}: largest deviation {largest:.3f} ({largest / alone:.3f} × each table alone), "
            f"plan {seconds:.2f} and measuring {taken:.2f} CPU-s, {memory()}"
        )


def stream() -> None:
    for periods in (1000, 3653):
        plan = plan_stream(periods=periods, rho=Fraction(1, 2))
        errors = np.array([plan.total_error(period) for period in range(1, periods + 1)]) / 1.959964
        fresh = math.sqrt(periods)
        print(
            f"stream of {periods}: largest {errors.max():.3f} ({errors.max() / fresh:.3f} × fresh noise every day), "
            f"mean {np.sqrt((errors**2).mean()):.3f}"
        )


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["adult", "marginals", "stream"]
    if "adult" in wanted:
        synthetic("adult", adult())
    if "million" in wanted:
        synthetic("million", million())
    if "marginals" in wanted:
        marginals()
    if "stream" in wanted:
        stream()
