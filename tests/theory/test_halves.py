"""Two halves at the price of one: what their charge rests on, and that means and sums come out of them right."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

from hush.accounting.events import DiscreteLaplaceEvent, ZCDPEvent
from hush.curator.opening import protect
from hush.query.plan.aggregates import Mean
from hush.query.plan.laws import Gaussian, Laplace
from hush.query.plan.statistics import Count, Halves


def clamped(size: int, r: Fraction) -> list[Fraction]:
    """Return the masses of a discrete Laplace number around 0, clamped to [0, size]."""
    if size == 0:
        return [Fraction(1)]
    return [1 / (1 + r), *((1 - r) / (1 + r) * r**t for t in range(1, size)), r**size / (1 + r)]


@pytest.mark.parametrize("r", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)])
def test_one_coordinate_reveals_at_least_as_much_as_two_that_share_its_change(r: Fraction) -> None:
    """Every hockey-stick divergence, at every point where it bends, in exact arithmetic."""
    for i in range(7):
        for j in range(7):
            s = i + j
            one, two = clamped(s, r), [Fraction(0)] * (s + 1)
            for y, p in enumerate(clamped(i, r)):
                for z, q in enumerate(clamped(j, r)):
                    two[y + z] += p * q
            ratios = [r ** (s - 2 * t) for t in range(s + 1)]
            assert sum(one) == sum(two) == 1
            assert sum(p * ratio for p, ratio in zip(one, ratios, strict=True)) == 1
            for bend in ratios:
                alone, shared = (
                    sum(p * max(ratio - bend, 0) for p, ratio in zip(law, ratios, strict=True)) for law in (one, two)
                )
                assert alone >= shared


FRAME = pd.DataFrame({"x": [20, 21, 25, 30] * 50, "y": [1, 2, 3, 6] * 50, "g": ["a", "b"] * 100})
BOUNDS = {"x": (20, 30), "y": (-5, 15)}


def test_an_average_gives_all_of_epsilon_to_both_halves() -> None:
    with protect(FRAME, bounds=BOUNDS, budget=10) as curator:
        plan = curator.explain("SELECT AVG(x) FROM data", epsilon="0.5").plan
    (noise,) = plan.noises
    assert isinstance(noise.noised, Halves)
    assert len(noise.statistics) == 2
    assert noise.law == Laplace(scale=Fraction(10) / Fraction(1, 2))
    assert noise.event == DiscreteLaplaceEvent(scale=20, sensitivity=10)


def test_gaussian_halves_are_charged_as_zcdp_of_their_common_change() -> None:
    with protect(FRAME, bounds=BOUNDS, budget={"epsilon": 10, "delta": "1e-3"}) as curator:
        many = ", ".join(f"AVG(x) FILTER (WHERE y > {at})" for at in range(14))
        plan = curator.explain(f"SELECT {many} FROM data", epsilon=1, delta="1e-3").plan
    for noise in plan.noises:
        assert isinstance(noise.law, Gaussian)
        assert noise.event == ZCDPEvent(rho=Fraction(100) / (2 * noise.law.sigma**2))


def test_a_count_that_is_asked_for_is_not_taken_from_halves() -> None:
    with protect(FRAME, bounds=BOUNDS, budget=10) as curator:
        plan = curator.explain("SELECT AVG(x), COUNT(x) FROM data", epsilon=1).plan
    assert not any(isinstance(noise.noised, Halves) for noise in plan.noises)
    assert any(isinstance(noise.noised, Count) for noise in plan.noises)
    assert isinstance(plan.estimators[0], Mean)


def test_a_column_of_one_value_has_no_halves() -> None:
    with protect(FRAME, bounds={"x": (20, 20)}, budget=10**6) as curator:
        assert curator.ask("SELECT AVG(x) AS m FROM data", epsilon=1000).value() == 20


@pytest.mark.parametrize("unit", [None, "g"])
def test_sums_and_means_from_halves_are_right(unit: str | None) -> None:
    """At ε = 10⁷ noise that changes a mean by 0.001, or a sum by 1/2, has a probability below e⁻¹⁰⁰."""
    with protect(FRAME, unit=unit, bounds=BOUNDS, max_rows=100, budget=10**9) as curator:
        sql = "SELECT AVG(x) AS a, SUM(x) AS s, SUM(y) AS t, AVG(y) AS b FROM data"
        (row,) = curator.ask(sql, epsilon=10**7).rows()
    assert (row["s"], row["t"]) == (4800, 600)
    assert (row["a"], row["b"]) == (pytest.approx(24, abs=1e-3), pytest.approx(3, abs=1e-3))
    assert isinstance(row["s"], int)


def test_halves_are_weighted_down_together() -> None:
    """Two units of 100 rows each, weighted down to 7: the mean stays, the sum shrinks to 7 rows a unit."""
    with protect(FRAME, unit="g", bounds=BOUNDS, max_rows=7, budget=10**9) as curator:
        (row,) = curator.ask("SELECT AVG(x) AS a, SUM(x) AS s FROM data", epsilon=10**7).rows()
    assert row["a"] == pytest.approx(24, abs=1e-3)
    assert row["s"] == 14 * 24


@pytest.mark.parametrize("asked", ["SUM(x)", "SUM(x), AVG(x)", "SUM(x), COUNT(x)"])
def test_weighting_down_cuts_nothing_off_small_numbers(asked: str) -> None:
    """Units of three rows, two of them 1, count as one row each: 2/3 a unit, not 0."""
    frame = pd.DataFrame({"x": [0, 1, 1] * 300, "id": [at // 3 for at in range(900)]})
    with protect(frame, unit="id", bounds={"x": (0, 1)}, max_rows=1, budget=10**9) as curator:
        (row,) = curator.ask(f"SELECT {asked} FROM data", epsilon=10**7).rows()
    total, error = list(row.values())[:2]
    assert total == 200
    assert error <= 0.51
