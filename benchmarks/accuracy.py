"""Errors at equal ε on the Adult table: hush, OpenDP with Polars, Tumult Analytics on Spark; real answers of all three.

Run ``python benchmarks/accuracy.py``; ``--help`` lists what may be varied. The same rows, bounds, unit of privacy (one
row more or less) and ε for all. Each peer runs in an environment of its own (`others/environment.py`); one that cannot
run here is named and left out.

One release grouped by a public column ``copy`` of a table that holds Adult many times over is as many independent
releases, each with the noise of the ungrouped question; hush's and OpenDP's workers check that this is so. The
printed range of a ratio of root mean squared errors holds with 99.9 % confidence (delta method on the logarithm); a
ratio is WORSE only if its whole range lies above 1. Where a peer reports the scale of its noise on a count or sum and
it is hush's, the law is the same, whatever the draws say, and the line says so. Tumult answers medians with a real
number between two candidates, so errs by about half a step on whole numbers however large ε is. Adult's ages crowd so
much around the median that it comes out exact at every ε from 0.01 on.

Last, a δ: counts over groups of which each person is in up to ``GROUPS``, at (ε, δ). hush chooses its noise; the peers
are given the better of Laplace noise at ε and Gaussian noise at the ρ that hush finds for (ε, δ), since they leave that
choice to the analyst. This compares the noise they report, without draws.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from others.environment import AbsentError, run

from hush.curator.opening import protect
from hush.mechanisms.grouped import GroupedLaplace, zcdp_budget

ADULT = Path(__file__).parent / "data" / "adult.csv"
HIGH = 100
CONFIDENT = 3.29
GROUPS = [3, 25]
DELTA = "1e-6"
SQL = {
    "count": "COUNT(*)",
    "sum": "SUM(age)",
    "mean": "AVG(age)",
    "mean at an edge": "AVG(gain)",
    "grouped mean": "AVG(age)",
    "median": "MEDIAN(age)",
}


def truths() -> dict[str, dict[int | None, float]]:
    frame = pd.read_csv(ADULT, skipinitialspace=True)
    ages = frame["age"]
    return {
        "count": {None: float(len(frame))},
        "sum": {None: float(ages.sum())},
        "mean": {None: float(ages.mean())},
        "mean at an edge": {None: float(frame["capital-gain"].mean())},
        "grouped mean": {int(sex): float(mean) for sex, mean in frame.groupby("sex")["age"].mean().items()},
        "median": {None: float(ages.median())},
    }


def make(path: Path, copies: int) -> None:
    duckdb.sql(
        'COPY (SELECT i::INTEGER AS copy, age, sex, "capital-gain" AS gain, '
        f"age - {HIGH // 2} AS centred_age, gain - {HIGH // 2} AS centred_gain "
        f"FROM read_csv('{ADULT}'), range({copies}) t(i)) TO '{path}'"
    )


def hush(table: Path, copies: int, questions: list[tuple[str, dict[str, float], int]]) -> list[dict[str, Any]]:
    results = []
    bounds = {"age": (0, HIGH), "gain": (0, HIGH)}
    values = {"copy": list(range(copies)), "sex": [0, 1]}
    with protect(table, bounds=bounds, values=values, budget=10**9) as curator:
        for question, loss, repeats in questions:
            by = "copy, sex" if question == "grouped mean" else "copy"
            sql = f"SELECT {by}, {SQL[question]} AS v FROM data GROUP BY {by}"
            noises = curator.explain(sql, **loss).plan.noises
            alone = curator.explain(f"SELECT {SQL[question]} AS v FROM data", **loss).plan.noises
            assert [noise.law for noise in noises] == [noise.law for noise in alone], question
            answers = [
                [row.get("sex"), float(row["v"])]
                for _ in range(repeats)
                for row in curator.ask(sql, **loss, fresh=True).rows()
            ]
            scales = [float(n.law.scale if isinstance(n.law, GroupedLaplace) else n.law.sigma) for n in noises]
            results.append({"answers": answers, "scales": scales})
    return results


def deviation(law: str, scale: float) -> float:
    """Return the standard deviation of the discrete noise that a library names."""
    if "gauss" in law.lower():
        return scale
    return GroupedLaplace(scale=Fraction(scale)).variance ** 0.5


def spread(epsilon: float, groups: int) -> float:
    """Return the standard deviation of hush's noise on counts over groups, of which a person is in at most some."""
    frame = pd.DataFrame({"id": [1, 2], "copy": [0, 1]})
    budget = {"epsilon": 10, "delta": DELTA}
    with protect(
        frame, unit="id", values={"copy": range(200)}, max_groups=groups, max_rows=1, budget=budget
    ) as curator:
        sql = "SELECT copy, COUNT(*) AS n FROM data GROUP BY copy"
        (noise,) = curator.explain(sql, epsilon=epsilon, delta=DELTA).plan.noises
    return noise.law.variance**0.5


def errors(result: dict[str, Any], truth: dict[int | None, float]) -> np.ndarray:
    return np.array([(value - truth[key]) ** 2 for key, value in result["answers"]])


def compare(mine: np.ndarray, theirs: np.ndarray) -> tuple[str, bool]:
    """Return the ratio of RMSEs with its range, and whether it is certainly above 1."""
    if not len(theirs):
        return f"{'':24}", False
    if not (mine.mean() and theirs.mean()):
        ratio = "equal" if mine.mean() == theirs.mean() else "0" if theirs.mean() else "∞"
        return f"{ratio:24}", ratio == "∞"
    spread = [squares.std() / squares.mean() / math.sqrt(len(squares)) / 2 for squares in (mine, theirs)]
    ratio, factor = math.sqrt(mine.mean() / theirs.mean()), math.exp(CONFIDENT * math.hypot(*spread))
    return f"{ratio:6.3f} ({ratio / factor:.3f} to {ratio * factor:.3f})", ratio / factor > 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.5, 1.0, 4.0])
    parser.add_argument("--copies", type=int, default=200, help="independent releases an evaluation gives")
    parser.add_argument("--repeats", type=int, default=10, help="evaluations by hush and OpenDP")
    parser.add_argument("--tumult-repeats", type=int, default=1, help="evaluations by Tumult")
    parser.add_argument("--tumult-epsilons", type=float, nargs="*", default=[0.5], help="where Tumult answers")
    parser.add_argument("--whole-averages", action="store_true", help="Tumult's average as one question; slow")
    parser.add_argument("--questions", nargs="+", default=list(SQL), choices=list(SQL))
    asked = parser.parse_args()
    truth = truths()
    vectors = [(epsilon, groups) for epsilon in asked.epsilons for groups in GROUPS]
    noises = [
        (f"groups {groups}", loss, 0)
        for epsilon, groups in vectors
        for loss in ({"epsilon": epsilon}, {"rho": float(zcdp_budget(Fraction(epsilon), Fraction(DELTA)))})
    ]
    plain = [(question, {"epsilon": epsilon}) for epsilon in asked.epsilons for question in asked.questions]
    peers: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "copies.parquet"
        make(table, asked.copies)
        ours = hush(table, asked.copies, [(*one, asked.repeats) for one in plain])
        counts = {
            "opendp": [asked.repeats for _ in plain],
            "tumult": [asked.tumult_repeats * (loss["epsilon"] in asked.tumult_epsilons) for _, loss in plain],
        }
        for peer, repeats in counts.items():
            questions = [(*one, count) for one, count in zip(plain, repeats, strict=True)] + noises
            try:
                answered = run(
                    peer,
                    f"{peer}_answers.py",
                    table=str(table),
                    copies=asked.copies,
                    high=HIGH,
                    questions=questions,
                    whole_averages=asked.whole_averages,
                )
                peers[peer] = answered["results"]
            except AbsentError as absent:
                print(f"left out: {absent}")
    worse = 0
    heads = "".join(f" {peer:>10} {'hush/' + peer:24}         " for peer in peers)
    print(f"{'question':16} {'ε':>4} {'hush':>10}{heads}")
    for at, (question, loss) in enumerate(plain):
        mine = errors(ours[at], truth[question])
        line = f"{question:16} {loss['epsilon']:4g} {math.sqrt(mine.mean()):10.4g}"
        for results in peers.values():
            theirs = errors(results[at], truth[question])
            ratio, lost = compare(mine, theirs)
            same = question in {"count", "sum"} and np.allclose(results[at]["scales"], ours[at]["scales"], rtol=1e-9)
            lost &= not same
            worse += lost
            rmse = f"{math.sqrt(theirs.mean()):10.4g}" if len(theirs) else f"{'':10}"
            line += f" {rmse} {ratio} {'WORSE' if lost else 'same law' if same else '':8}"
        print(line)
    print(f"\nnoise on counts at (ε, {DELTA}), by how many groups a person is in: standard deviations")
    print(f"{'groups':>8} {'ε':>4} {'hush':>10}" + "".join(f" {peer:>10} {'ratio':>6}" for peer in peers))
    for at, (epsilon, groups) in enumerate(vectors):
        mine = spread(epsilon, groups)
        line = f"{groups:8} {epsilon:4g} {mine:10.4g}"
        for results in peers.values():
            pair = results[len(plain) + 2 * at : len(plain) + 2 * at + 2]
            theirs = min(deviation(one["laws"][0], one["scales"][0]) for one in pair)
            lost = mine > theirs * (1 + 1e-6)
            worse += lost
            line += f" {theirs:10.4g} {mine / theirs:6.3f}{' WORSE' if lost else ''}"
        print(line)
    print(f"hush errs certainly more in {worse} of {(len(plain) + len(vectors)) * len(peers)} comparisons; asked: 0")
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
