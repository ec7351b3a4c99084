"""Errors at equal ε on the Adult table: hush's answers against the textbook constructions that other libraries use.

Run ``python benchmarks/accuracy.py [runs]``. The textbook column is what OpenDP's and Tumult's
documentation describes, with ideal noise and the same bounds: Laplace counts and sums; a mean as a noisy sum over a
noisy count, half of ε each; a median by the exponential mechanism over the same candidates. Root mean squared errors;
below 1 hush errs less.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from hush.curator.opening import protect

ADULT = Path(__file__).parent / "data" / "adult.csv"
EPSILON = 0.5
LOW, HIGH = 0, 100


def rmse(values: list[float], truth: float) -> float:
    return math.sqrt(sum((value - truth) ** 2 for value in values) / len(values))


def textbook(ages: np.ndarray, rng: np.random.Generator) -> dict[str, Callable[[], float]]:
    def mean() -> float:
        total = ages.sum() + rng.laplace(0, 2 * HIGH / EPSILON)
        return float(total / (len(ages) + rng.laplace(0, 2 / EPSILON)))

    def median() -> float:
        candidates = np.arange(LOW, HIGH + 1)
        below = np.searchsorted(np.sort(ages), candidates, side="left")
        upto = np.searchsorted(np.sort(ages), candidates, side="right")
        score = -np.maximum(np.maximum(2 * below - len(ages), len(ages) - 2 * upto), 0)
        weight = np.exp(EPSILON / 2 * (score - score.max()))
        return float(rng.choice(candidates, p=weight / weight.sum()))

    return {
        "count": lambda: len(ages) + rng.laplace(0, 1 / EPSILON),
        "sum": lambda: float(ages.sum() + rng.laplace(0, HIGH / EPSILON)),
        "mean": mean,
        "median": median,
    }


def main() -> None:
    frame = pd.read_csv(ADULT, skipinitialspace=True)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    ages = frame["age"].to_numpy()
    rng = np.random.default_rng()
    truth = {"count": len(ages), "sum": ages.sum(), "mean": ages.mean(), "median": float(np.median(ages))}
    functions = {"count": "COUNT(*)", "sum": "SUM(age)", "mean": "AVG(age)", "median": "MEDIAN(age)"}
    others = textbook(ages, rng)
    print(f"{'question':14} {'hush':>10} {'textbook':>10} {'ratio':>6}")
    sexes = sorted(frame["sex"].unique())
    with protect(frame, bounds={"age": (LOW, HIGH)}, values={"sex": sexes}, budget=10**9) as curator:
        for name, function in functions.items():
            asked = [curator.ask(f"SELECT {function} FROM data", epsilon=EPSILON).value() for _ in range(runs)]
            mine = rmse([float(value) for value in asked], float(truth[name]))
            theirs = rmse([others[name]() for _ in range(runs)], float(truth[name]))
            print(f"{name:14} {mine:10.4g} {theirs:10.4g} {mine / theirs if theirs else float(mine > 0):6.2f}")
        squares, other_squares = [], []
        parts = {sex: textbook(frame.loc[frame["sex"] == sex, "age"].to_numpy(), rng)["mean"] for sex in sexes}
        means = frame.groupby("sex")["age"].mean()
        for _ in range(runs):
            answer = curator.ask("SELECT sex, AVG(age) AS m FROM data GROUP BY sex", epsilon=EPSILON)
            squares += [(row["m"] - means[row["sex"]]) ** 2 for row in answer.rows()]
            other_squares += [(parts[sex]() - means[sex]) ** 2 for sex in sexes]
        mine, theirs = math.sqrt(np.mean(squares)), math.sqrt(np.mean(other_squares))
        print(f"{'grouped mean':14} {mine:10.4g} {theirs:10.4g} {mine / theirs:6.2f}")


if __name__ == "__main__":
    main()
