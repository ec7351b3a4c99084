"""Every engine computes the same exact integers as DuckDB, for generated questions over generated tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from benches import DuckDBBench, PostgreSQLBench, SparkBench
from gaps import EXTREMES, REFUSALS
from test_sensitivity import ASK, assert_near, integers
from worlds import Rows, world

from hush.core import HushError, Neighbours
from hush.query.errors import UnplannableError

CASES = {
    "postgresql": -(-int(os.environ.get("HUSH_CASES", "198")) // len(ASK)),
    "spark": -(-int(os.environ.get("HUSH_SPARK_CASES", "18")) // len(ASK)),
    "sail": -(-int(os.environ.get("HUSH_SAIL_CASES", "18")) // len(ASK)),
}
CASES["connect"] = max(CASES["spark"] // 3, 1)
NEIGHBOURS = {
    "postgresql": max(CASES["postgresql"] // 4, 6),
    "spark": max(CASES["spark"] // 3, 1),
    "sail": max(CASES["sail"] // 3, 1),
}
NEIGHBOURS["connect"] = max(NEIGHBOURS["spark"] // 3, 1)


@pytest.fixture(scope="module")
def reference() -> Iterator[DuckDBBench]:
    bench = DuckDBBench()
    yield bench
    bench.close()


@pytest.fixture(scope="module", params=list(CASES))
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give an engine over the tables of `worlds`, made from a connection alone."""
    address = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp("rows")
    bench: Any = PostgreSQLBench(address) if request.param == "postgresql" else SparkBench(address, folder)
    bench.place, bench.cases, bench.neighbours = request.param, CASES[request.param], NEIGHBOURS[request.param]
    yield bench
    bench.close()


def few_over_the_wire(kind: str, engine: Any) -> None:
    """Skip most kinds over Spark Connect, where the same Spark computes them."""
    if engine.place == "connect" and kind != "lists" and "HUSH_SPARK_CASES" not in os.environ:
        pytest.skip("the same Spark computes them; with HUSH_SPARK_CASES, as nightly")


def milder(rows: Rows) -> Rows:
    """Return tables without the numbers at which engines may differ (`gaps`)."""

    def mild(cell: object) -> object:
        return EXTREMES.get(cell, cell) if isinstance(cell, float) else cell

    return {table: [tuple(map(mild, row)) for row in held] for table, held in rows.items()}


def compiled(bench: Any, plan: Any, about: Any) -> Any:
    """Return a compiled plan; None if it is refused for a declared reason."""
    try:
        return bench.prepare(plan, about)
    except UnplannableError as error:
        if not any(reason in str(error) for reason in REFUSALS[bench.name]):
            raise
        return None


@pytest.mark.parametrize("kind", ASK)
def test_exact_integers_are_those_of_duckdb(kind: str, reference: DuckDBBench, engine: Any) -> None:
    few_over_the_wire(kind, engine)
    seen = Counter[str]()
    for seed in range(engine.cases):
        rng = Random(f"{kind} {seed}")
        try:
            plan, about = ASK[kind](rng)
            rows = milder(world(rng)[0])
            reference.fill(rows)
            here = reference.prepare(plan, about)
        except HushError:
            continue
        engine.fill(rows)
        there = compiled(engine, plan, about)
        if there is None:
            seen["refused"] += 1
            continue
        assert integers(engine.execute(there), plan) == integers(reference.execute(here), plan), seed
        seen["same"] += 1
    # trees of random operations take a remainder or a power, which some engines refuse, in every other question
    assert seen["same"] >= engine.cases // 4, seen


@pytest.mark.parametrize("kind", ASK)
def test_no_row_makes_it_fail_and_neighbours_differ_as_planned(kind: str, engine: Any) -> None:
    """All nasty values, the extremes too: no statement fails, and one unit changes no more than the plan says."""
    few_over_the_wire(kind, engine)
    answered = 0
    for seed in range(4 * engine.neighbours):
        if answered == engine.neighbours:
            break
        rng = Random(f"neighbours {kind} {seed}")
        try:
            plan, about = ASK[kind](rng)
        except HushError:
            continue
        full, without, replaced = world(rng)
        engine.fill(full)
        there = compiled(engine, plan, about)
        if there is None:
            continue
        answered += 1
        exact = engine.execute(there)
        others = [without, replaced] if about.neighbours is Neighbours.REPLACE else [without]
        for touched, rows in enumerate(others, start=1):
            engine.fill(rows)
            assert_near(plan, exact, engine.execute(there), touched)
    assert answered
