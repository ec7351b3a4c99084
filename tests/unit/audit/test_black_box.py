"""Audits of functions as a black box: what is found, what is told, and that the honest are left alone."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

import hush
from hush.audit import Report, assert_private, audit
from hush.audit.catalogue import CATALOGUE
from hush.noise import discrete_laplace

CASES = int(os.environ.get("HUSH_CASES", "0"))
QUICK = {"NaN sum", "own bounds", "non-empty cells", "failing quantile", "bound before join", "one seed", "loud values"}


class Count:
    """A noisy count that draws its noise many at a time, for speed."""

    def __init__(self, scale: object = 1) -> None:
        self.scale, self.store = scale, []

    def __call__(self, rows):
        if not self.store:
            self.store = discrete_laplace(self.scale, 4000).tolist()
        return len(rows) + self.store.pop()


@pytest.mark.parametrize("case", CATALOGUE, ids=lambda case: case.name)
def test_broken_mechanisms_are_found_and_their_twins_are_not(case):
    """All of them nightly. A twin is accused with probability 1e-6."""
    if not CASES and case.name not in QUICK:
        pytest.skip("make nightly")
    report = case.audit(seconds=60)
    assert report.violation is not None
    assert case.audit(twin=True, seconds=4 if CASES else 0.5, level="1e-6").violation is None


def test_the_catalogue_is_large_and_says_where_its_faults_come_from():
    assert len(CATALOGUE) >= 24
    assert len({case.name for case in CATALOGUE}) == len(CATALOGUE)
    assert sum(bool(case.source) for case in CATALOGUE) >= 18


def test_reports_of_honest_functions_stay_within_their_level():
    """At level 5 %, so many of 24 honest audits (nightly 1,000) are accused with probability below 1e-6."""
    audits = max(24, CASES // 5)
    accused = sum(
        audit(Count(), epsilon=1, pairs=[([0], []), ([0, 0], [0])], runs=200, isolated=False).violation is not None
        for _ in range(audits)
    )
    most = next(k for k in range(audits) if math.comb(audits, k) * 0.05**k * 2 < 1e-6 and k > audits / 20)
    assert accused < most


def test_assert_private_leaves_honest_functions_alone():
    for _ in range(max(10, CASES)):
        assert_private(Count(), epsilon=1, pairs=[([0], [])], runs=300, isolated=False)


@pytest.mark.parametrize(("true", "runs"), [(2, 220), (1.5, 704)])
def test_power_with_the_choice_of_an_event_included(true, runs):
    """Found nine times in ten with these runs per side; fewer than 16 of 30 have probability below 1e-6."""
    found = sum(
        audit(Count(1 / hush.core.exact(true, "true")), epsilon=1, pairs=[([0], [])], runs=runs, isolated=False)
        .violation is not None
        for _ in range(30)
    )  # fmt: skip
    assert found >= 16


def test_a_whole_profile_is_stronger_than_one_point():
    """σ 1.4 instead of 2: the profile is refuted with runs that leave its point at δ = 1e-9 standing."""
    guarantee = hush.compose([hush.Gaussian(sensitivity=1, sigma=2)])
    noise = hush.Gaussian(sensitivity=1, sigma="1.2")
    store: list[int] = []

    def release(rows):
        if not store:
            store.extend(noise.release(np.zeros(4000, dtype=np.int64)).tolist())
        return len(rows) + store.pop()

    found = audit(release, guarantee=guarantee, pairs=[([0], [])], runs=8000, level="1e-3", isolated=False)
    assert found.violation is not None
    point = audit(
        release, epsilon=guarantee.epsilon("1e-9").upper, delta="1e-9", pairs=[([0], [])], runs=8000, level="1e-3",
        isolated=False,
    )  # fmt: skip
    assert point.violation is None


def test_a_declared_density_is_an_event():
    def density(value, rows):
        return -abs(value - len(rows))

    report = audit(Count("0.5"), epsilon=1, density=density, pairs=[([0], [])], runs=2000, isolated=False)
    assert report.violation is not None


def test_the_claimed_law_is_tested_too():
    law = hush.Laplace(sensitivity=1, epsilon=1)
    options = {"epsilon": 1, "pairs": [([0], [])], "runs": 8000, "isolated": False, "law": (law, len), "level": "1e-5"}
    assert audit(Count(), **options).law == "agrees with the claimed one"
    wide = audit(Count("1.3"), **options)  # more private than claimed, and not the claimed law
    assert wide.law == "not the claimed one"
    assert wide.violation is not None
    assert "goodness of fit" in wide.violation.how


def test_what_a_report_tells_of_a_violation(tmp_path):
    report = audit(lambda rows: 2 * len(rows) + int(discrete_laplace(1)), epsilon="0.5", schema=(0, 1), seconds=60)
    assert isinstance(report, Report)
    text = str(report)
    assert "is not as private as claimed: ε ≥" in text
    assert "proved with confidence 95 %" in text
    assert report.violation is not None
    assert report.violation.epsilon > 0.5
    pair = tmp_path / "pair.json"
    pair.write_text(report.pair_json(), "utf-8")
    told = report.to_json()
    assert told["violation"]["epsilon"] == report.violation.epsilon
    assert report._repr_html_().startswith("<pre>")
    assert all(f"<title>{name}</title>" in report.chart().svg for name in ("claimed", "measured", "blind guessing"))


def test_what_a_report_tells_where_nothing_is_found():
    report = audit(Count(), epsilon=1, pairs=[([0], [])], runs=1000, level="1e-6", isolated=False)
    assert "no violation found" in str(report)
    assert "would have been found nine times in ten" in str(report)
    assert 1 < report.detectable < 3
    assert report.epsilon <= 1
    few = audit(Count(), epsilon=1, pairs=[([0], [])], runs=40, level="1e-6", isolated=False)
    assert "too few runs" in str(few)


def test_an_endless_function_ends_in_a_report():
    report = audit(lambda _: [None for _ in iter(int, 1)], epsilon=1, seconds=20, limit=0.05)
    assert report.violation is None
    assert "gave no answer" in str(report)


def test_ctrl_c_returns_the_report_so_far():
    calls = []

    def interrupted(_stage, _done):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt

    report = audit(Count(), epsilon=1, seconds=60, progress=interrupted)
    assert report.interrupted
    assert "stopped by hand" in str(report)
    with pytest.raises(KeyboardInterrupt):
        assert_private(Count(), epsilon=1, progress=interrupted)


def test_claims_are_checked():
    with pytest.raises(hush.InvalidValueError, match="epsilon"):
        audit(len)
    with pytest.raises(hush.InvalidValueError, match="epsilon"):
        audit(len, epsilon=1, guarantee=hush.compose([hush.Laplace(sensitivity=1, epsilon=1)]))
    with pytest.raises(hush.InvalidValueError, match="level"):
        audit(len, epsilon=1, level=0)
    assert audit(len, epsilon=1, seconds=20).told().startswith("ε ≥")
