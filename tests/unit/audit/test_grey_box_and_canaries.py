"""Replay of recorded noise, and audits in one run."""

from __future__ import annotations

import random
import secrets
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import linprog

import hush
from hush.audit import one_run, replay
from hush.audit.canaries import curve_refuted
from hush.noise import discrete_laplace

LAPLACE = hush.Laplace(sensitivity=1, epsilon=1)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda rows: LAPLACE.release(len(rows)), None),
        (lambda rows: len(rows) + np.random.laplace(0, 1), None),
        (lambda rows: len(rows) + discrete_laplace(1), None),
        (lambda rows: hush.count(rows, epsilon=1).value, None),
        (lambda rows: LAPLACE.release(sum(rows)), "sensitivity"),
        (lambda rows: LAPLACE.release(len(rows)) / max(len(rows), 1), "around the noise"),
        (lambda rows: (LAPLACE.release(len(rows)), LAPLACE.release(len(rows))), "sum"),
        (lambda rows: len(rows) + np.random.laplace(0, 0.5), "sum"),
        (lambda rows: np.random.laplace(sum(rows), 1), "sum"),
        (lambda rows: len(rows) + discrete_laplace("0.5"), "sum"),
        (lambda rows: random.gauss(len(rows), 0.1), "sum"),
        (lambda rows: len(rows) + np.random.laplace(0, max(rows, default=1)), "scale"),
        (lambda rows: [row + np.random.default_rng().laplace(0, 9) for row in rows], "control flow"),
        (lambda rows: [secrets.randbelow(9) for _ in rows], "control flow"),
    ],
)
def test_replay_says_what_differs(function, kind):
    report = replay(function, epsilon=1, schema=(0, 3))
    kinds = {finding.kind for finding in report.findings}
    assert (kind in kinds and report.violation) if kind else not report.violation
    assert report.to_json()["violation"] == report.violation


def test_replay_leaves_everything_as_it_was():
    before = [np.random.laplace, random.random, secrets.randbelow, hush.noise.discrete_laplace, hush.Laplace.release]
    replay(lambda rows: 1 / len(rows), epsilon=1)
    after = [np.random.laplace, random.random, secrets.randbelow, hush.noise.discrete_laplace, hush.Laplace.release]
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert "no draw was recorded" in str(replay(len, epsilon=1))


def test_one_run_of_the_gaussian_sum():
    """True ε 4 at 1e-5 has μ = 0.925. The bound varies by 0.085 around 0.79: 0.35 and 1.25 are five times that away."""
    noise = hush.Gaussian(sensitivity=1, epsilon=4, delta="1e-5", coordinates=1)
    report = one_run(
        lambda coins: noise.release(np.array(coins, dtype=int)),
        epsilon=4, delta="1e-5", canaries=1000, independent=True, level="1e-1",
    )  # fmt: skip
    assert 0.35 < report.mu < 1.25
    assert report.epsilon < 4
    assert "canaries guessed right" in str(report)


def test_one_run_finds_what_shows_its_canaries():
    assert one_run(list, epsilon=2, canaries=200).violation
    assert one_run(list, epsilon=2, delta="1e-5", canaries=200, independent=True).violation
    assert not one_run(lambda coins: [0.0] * len(coins), epsilon=0, level="1e-6", canaries=100).violation
    with pytest.raises(hush.InvalidValueError, match="scores"):
        one_run(lambda _: [1], epsilon=1)


@pytest.mark.parametrize(("m", "right"), [(20, 15), (30, 26)])
def test_the_recursion_is_the_solution_of_its_linear_programme(m, right):
    """The largest P[C ≥ right] that the inequalities h_k ≥ g(r_{k+1}) allow, by tangents of g."""
    normal, mu = NormalDist(), 0.9

    def least(r):
        return normal.cdf(normal.inv_cdf(r) - mu) if 0 < r < 1 else float(r >= 1)

    points = np.concatenate([np.geomspace(1e-5, 0.5, 80), 1 - np.geomspace(1e-5, 0.5, 80)])
    count = np.arange(m + 1)
    rows, ends = [], []
    for k in range(m):
        for r in points:
            slope = np.exp(mu * normal.inv_cdf(r) - mu * mu / 2)
            rows.append(np.where(count > k, slope * count / m, 0) - np.where(count >= k, (m - count) / m, 0))
            ends.append(slope * r - least(r))
    best = linprog(-(count >= right).astype(float), rows, ends, np.ones((1, m + 1)), [1], bounds=(0, 1))
    assert not curve_refuted(m, right, least, -best.fun * 0.98)
    assert curve_refuted(m, right, least, min(-best.fun * 1.02, 1))
