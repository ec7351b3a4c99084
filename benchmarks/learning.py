"""How good and how fast: private models of the Adult table, beside what a model without privacy reaches.

    python benchmarks/learning.py [runs]

Every figure is measured in this run: means over splits of 80 % to fit and 20 % to score, fixed by their number. δ is
1e-6, neighbours add or remove one row. "asked" is what the project holds itself to; "plain" is scikit-learn without
privacy on the first split, where it is installed. Seconds are of processor time per fit.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np

from hush import learn

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "adult.npz"
SIZES = {
    "age": 85, "workclass": 9, "fnlwgt": 100, "education-num": 16, "marital-status": 7, "occupation": 15,
    "relationship": 6, "race": 5, "sex": 2, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99,
    "native-country": 42, "income>50K": 2,
}  # fmt: skip
NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
EPSILONS = ("0.1", "0.5", "1", "4")
ASKED = {
    "income, AUC": (0.884, 0.905, 0.908, 0.915),
    "hours, R²": (0.185, 0.216, 0.223, 0.228),
    "strong signal, R²": (None, None, 0.86, None),
}


def schema(target):
    return {n: (0, s - 1) if n in NUMBERS else list(range(s)) for n, s in SIZES.items() if n != target}


def area(labels, scores):
    order = np.argsort(scores, kind="mergesort")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positive = labels.sum()
    return (ranks[labels == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive))


def explained(truth, predicted):
    return 1 - np.mean((truth - predicted) ** 2) / truth.var()


def strong(rows=12_500):
    """Return six numbers and a category that explain nine tenths of a target; bounds are wider than the rows."""
    generator = np.random.default_rng(7)
    x = generator.normal(0, 1, (rows, 6))
    group = generator.integers(0, 3, rows)
    signal = x @ np.array([1, 0.8, -0.5, 0.3, 0.2, 0]) + 0.5 * (group == 1)
    columns = {f"x{i}": x[:, i] for i in range(6)} | {"group": group}
    spec = {f"x{i}": (-5, 5) for i in range(6)} | {"group": [0, 1, 2]}
    return columns, spec, signal + generator.normal(0, signal.std() / 3, rows)


def plain(name, train, test):
    """Return the score of scikit-learn's linear model on one-hot categories, without privacy."""
    try:
        from sklearn.linear_model import LinearRegression, LogisticRegression
    except ImportError:
        return float("nan")

    def encoded(columns, spec):
        parts = [
            np.asarray(columns[n], dtype=float)[:, None] / max(abs(s[1]), 1)
            if isinstance(s, tuple)
            else np.asarray(columns[n])[:, None] == np.array(s)
            for n, s in spec.items()
        ]
        return np.hstack(parts).astype(float)

    spec = train[2]
    x, z = encoded(train[0], spec), encoded(test[0], spec)
    if name == "income, AUC":
        return area(test[1], LogisticRegression(max_iter=300).fit(x, train[1]).predict_proba(z)[:, 1])
    return explained(test[1], LinearRegression().fit(x, train[1]).predict(z))


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with np.load(DATA) as file:
        adult = dict(zip(SIZES, file["codes"].astype(float), strict=True))
    tasks = {
        "income, AUC": (adult, schema("income>50K"), adult["income>50K"], None),
        "hours, R²": (adult, schema("hours-per-week"), adult["hours-per-week"], (0, 98)),
        "strong signal, R²": (*strong(), (-10, 10)),
    }
    for name, (columns, spec, target, bounds) in tasks.items():
        for place, epsilon in enumerate(EPSILONS):
            scores, seconds, bases = [], [], []
            for run in range(runs):
                order = np.random.default_rng(1000 + run).permutation(len(target))
                cut = int(0.8 * len(order))
                first, last = ({n: columns[n][part] for n in spec} for part in (order[:cut], order[cut:]))
                if bounds is None:
                    model = learn.LogisticRegression(spec, epsilon)
                else:
                    model = learn.Regression(spec, epsilon, target=bounds)
                began = time.process_time()
                model.fit(first, target[order[:cut]])
                seconds.append(time.process_time() - began)
                truth = target[order[cut:]]
                if bounds is None:
                    scores.append(area(truth, model.predict_proba(last)[:, 1]))
                else:
                    scores.append(explained(truth, model.predict(last)))
                if run == 0:
                    bases.append(plain(name, (first, target[order[:cut]], spec), (last, truth)))
            asked = ASKED[name][place]
            print(
                f"{name:18} ε={epsilon:4} {statistics.mean(scores):.4f}  asked {asked or '–'}  "
                f"plain linear {bases[0]:.4f}  {statistics.mean(seconds):.2f} s"
            )
    rows = np.random.default_rng(1).integers(0, 8, (1_000_000, 14))
    columns = {f"c{i}": rows[:, i] for i in range(14)}
    began = time.process_time()
    learn.LogisticRegression(dict.fromkeys(columns, (0, 7)), "1").fit(columns, rows[:, 0] > 3)
    print(f"a million rows of 14 columns: {time.process_time() - began:.1f} s, asked 30 s")


if __name__ == "__main__":
    main()
