"""Mechanisms against their peers and limits: a private histogram against OpenDP's, a private median against sorting.

    python benchmarks/mechanisms.py [--cells 1000000] [--values 1000000]

Prints one line a figure: ours, the other's, the ratio, and what is asked. OpenDP is compared where it is installed.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hush.mechanisms import Laplace, Quantile, histogram, mean, median
from hush.sensitivity import smooth_sensitivity

RNG = np.random.default_rng(4)


def best(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def line(what: str, ours: float, theirs: float | None, asked: str) -> None:
    peer = "not installed" if theirs is None else f"{theirs * 1e3:10.2f} ms   ratio {theirs / ours:8.1f}"
    print(f"{what:<44} {ours * 1e3:10.2f} ms   peer {peer}   asked: {asked}", flush=True)


def opendp_histogram(counts: np.ndarray) -> float | None:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int), size=len(counts)), dp.l1_distance(T=int)
    noise = dp.m.make_laplace(*space, scale=1.0)
    values = counts.tolist()
    return best(lambda: noise(values), repeats=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10**6)
    parser.add_argument("--values", type=int, default=10**6)
    options = parser.parse_args()

    counts = RNG.integers(0, 1000, options.cells)
    law = Laplace(sensitivity=1, epsilon=1)
    line(
        f"noise on a histogram of {options.cells:,} cells",
        best(lambda: law.release(counts)),
        opendp_histogram(counts),
        ">= 100",
    )
    rows = RNG.integers(0, options.cells, options.cells)
    line("counting and noise together", best(lambda: histogram(rows, categories=options.cells, epsilon=1)), None, "-")

    data = RNG.normal(size=options.values)
    sort = best(lambda: np.sort(data))
    bounds = (-1000, 1000)
    line(
        f"median of {options.values:,}, against np.sort",
        best(lambda: median(data, bounds=bounds, epsilon=1)),
        sort,
        ">= 0.5",
    )
    line("the same at epsilon 0.001", best(lambda: Quantile(bounds=bounds, epsilon="0.001").release(data)), sort, "-")
    line(
        "smooth sensitivity of that median",
        best(lambda: smooth_sensitivity("median", data, beta="0.3", bounds=bounds)),
        sort,
        "seconds",
    )
    line("mean with private clipping", best(lambda: mean(data, bounds=bounds, epsilon=1)), sort, "-")


if __name__ == "__main__":
    main()
