"""Audits: what hush finds in OpenDP and diffprivlib, with how many runs, and by one run.

Run ``python benchmarks/audit.py [--audits 60]``. Each peer is audited in an environment of its own
(`others/environment.py`), with hush from this source tree. Asked: a violation of OpenDP 0.14.1 within 15 s at each
scale and none of 0.16; diffprivlib's regression by replay; nine of ten violations within 1.1 times the runs of the
table; ε ≥ 3 by one run at a true ε of 4.
"""

from __future__ import annotations

import argparse
import statistics
from fractions import Fraction

import numpy as np
from others.environment import AbsentError, run

import hush
from hush.audit import audit, one_run
from hush.audit.catalogue import CATALOGUE
from hush.noise import discrete_laplace

TABLE = [(1, 2, 200), (1, "1.5", 640), (1, "1.25", 2300), ("0.1", "0.2", 6200), (1, "1.1", 13_000)]
PUBLISHED = {
    "dp-auditorium: Laplace and Gaussian mean with the true count": "true n",
    "dp-auditorium: sparse vector techniques": "sparse vector without noise",
    "dp-auditorium: PipelineDP, contribution bounds": "bound before join",
    "dp-recorder: NaN in sums": "NaN sum",
    "dp-recorder: bounds of the data": "own bounds",
    "dp-recorder: classes of the data": "non-empty cells",
    "dp-recorder: wrong sensitivity": "wrong sensitivity",
    "dp-recorder: scale 0": "scale 0",
    "dp-recorder: raw column": "raw column",
    "dp-recorder: ε twice": "ε twice",
    "dp-recorder: sampling rate": "wrong length",
}
"""Cases that the two published, and our own version of each in the catalogue."""


def peers() -> bool:
    met = True
    for version, wanted in (("0.14.1", True), ("0.16.0", False)):
        for scale in (3.0, 5.0, 10.0):
            try:
                found = run(f"opendp-{version}", "audited.py", what="opendp", scale=scale, seconds=15)
            except AbsentError as absent:
                print(f"left out: {absent}")
                continue
            met &= found["violation"] == wanted
            print(
                f"OpenDP {version}, scale {scale:2.0f}, claimed {1 / scale:.3f}: "
                f"{'violation' if found['violation'] else 'nothing  '} ε ≥ {found['epsilon']:.3f} in "
                f"{found['seconds']:4.1f} s, {found['runs']:7,} runs per side"
                f"{'' if found['violation'] == wanted else ' MISSED'}",
                flush=True,
            )
    try:
        found = run("diffprivlib", "audited.py", what="diffprivlib")
        print("diffprivlib 0.6.6 linear regression, bounds (0, 100), by replay:\n" + found["text"], flush=True)
        met &= found["violation"]
    except AbsentError as absent:
        print(f"left out: {absent}")
    return met


class Count:
    """A noisy count whose noise is drawn many at a time."""

    def __init__(self, epsilon: object) -> None:
        self.scale, self.store = 1 / Fraction(str(epsilon)), []

    def __call__(self, rows):
        self.store = self.store or discrete_laplace(self.scale, 5000).tolist()
        return len(rows) + self.store.pop()


def power(audits: int) -> bool:
    met = True
    for claimed, true, runs in TABLE:
        most, often = runs * 11 // 10, audits if runs < 3000 else audits // 3
        found = sum(
            audit(Count(true), epsilon=claimed, pairs=[([0], [])], runs=most, isolated=False, seconds=600).violation
            is not None
            for _ in range(often)
        )
        met &= found >= 0.85 * often
        print(f"claimed {claimed}, true {true}: {found} of {often} found with {most:,} runs per side", flush=True)
    return met


def one() -> bool:
    noise = hush.Gaussian(sensitivity=1, epsilon=4, delta="1e-5", step="1/1024", coordinates=1)
    bounds = [
        one_run(
            lambda coins: noise.release(np.array(coins, dtype=int)), epsilon=4, delta="1e-5", canaries=1000,
            independent=True,
        ).gaussian_epsilon
        for _ in range(20)
    ]  # fmt: skip
    middle = statistics.median(bounds)
    print(f"one run of a Gaussian sum, true ε 4 at δ 1e-5, 1,000 canaries: median of 20 ε ≥ {middle:.2f} (asked 3)")
    return middle >= 3


def published() -> bool:
    cases = {case.name: case for case in CATALOGUE}
    met = True
    for words, name in PUBLISHED.items():
        report = cases[name].audit(seconds=60)
        met &= report.violation is not None
        print(f"{words:62} {'found' if report.violation else 'MISSED'}: {report.told()[:60]}", flush=True)
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--audits", type=int, default=60)
    chosen = parser.parse_args()
    results = [peers(), one(), published(), power(chosen.audits)]
    raise SystemExit(0 if all(results) else 1)
