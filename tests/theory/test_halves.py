"""Halves at the price of one sum: what their charge rests on, who shares them, and that what comes out is right."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pandas as pd
import pytest

from hush.accounting.events import DiscreteLaplaceEvent, ZCDPEvent
from hush.curator.opening import protect
from hush.mechanisms.grouped import GroupedGaussian, GroupedLaplace
from hush.query.plan import Plan
from hush.query.plan.estimators import Linear
from hush.query.plan.stability import Count, Halves, Total


def clamped(size: int, r: Fraction) -> list[Fraction]:
    """Return the masses of a discrete Laplace number around 0, clamped to [0, size]."""
    if size == 0:
        return [Fraction(1)]
    return [1 / (1 + r), *((1 - r) / (1 + r) * r**t for t in range(1, size)), r**size / (1 + r)]


@pytest.mark.parametrize("r", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)])
@pytest.mark.parametrize("coordinates", [2, 3])
def test_one_coordinate_reveals_at_least_as_much_as_those_that_share_its_change(r: Fraction, coordinates: int) -> None:
    """Every hockey-stick divergence, at every point where it bends, in exact arithmetic."""
    for shares in product(range(7 if coordinates == 2 else 4), repeat=coordinates):
        s = sum(shares)
        one, several = clamped(s, r), [Fraction(1)]
        for share in shares:
            law = clamped(share, r)
            several = [
                sum((several[t - z] * q for z, q in enumerate(law) if 0 <= t - z < len(several)), Fraction(0))
                for t in range(len(several) + share)
            ]
        ratios = [r ** (s - 2 * t) for t in range(s + 1)]
        assert sum(one) == sum(several) == 1
        assert sum(p * ratio for p, ratio in zip(one, ratios, strict=True)) == 1
        for bend in ratios:
            alone, shared = (
                sum(p * max(ratio - bend, 0) for p, ratio in zip(law, ratios, strict=True)) for law in (one, several)
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
    assert noise.law == GroupedLaplace(scale=Fraction(10) / Fraction(1, 2), sensitivity=10)
    assert noise.law.event == DiscreteLaplaceEvent(scale=20, sensitivity=10)


def test_gaussian_halves_are_charged_as_zcdp_of_their_common_change() -> None:
    with protect(FRAME, bounds=BOUNDS, budget={"epsilon": 10, "delta": "1e-3"}) as curator:
        many = ", ".join(f"AVG(x) FILTER (WHERE y > {at})" for at in range(14))
        plan = curator.explain(f"SELECT {many} FROM data", epsilon=1, delta="1e-3").plan
    for noise in plan.noises:
        assert isinstance(noise.law, GroupedGaussian)
        assert noise.law.event == ZCDPEvent(rho=Fraction(100) / (2 * noise.law.sigma**2))


def planned(asked: str) -> Plan:
    with protect(FRAME, bounds=BOUNDS, budget=10) as curator:
        return curator.explain(f"SELECT {asked} FROM data", epsilon=1).plan


@pytest.mark.parametrize(
    ("asked", "vectors"),
    [
        ("COUNT(y), SUM(y), AVG(y)", [2]),
        ("COUNT(y), AVG(y)", [2]),
        ("COUNT(y), SUM(y)", [2]),
        ("COUNT(*), AVG(y)", [3]),
        ("COUNT(*), COUNT(y), SUM(y), AVG(y)", [3]),
        ("SUM(y) / COUNT(*)", [3]),
        ("AVG(y), VARIANCE(y), STDDEV(y), COUNT(y)", [2, 1]),
        ("COUNT(*), AVG(x), AVG(y)", [3, 2]),
        ("COUNT(*), AVG(y), COUNT(*) FILTER (WHERE x > 20)", [3, 1]),
        ("COUNT(*) FILTER (WHERE x > 20), AVG(y) FILTER (WHERE x > 20)", [3]),
        ("SUM(y)", [1]),
        ("COUNT(*)", [1]),
        ("COUNT(x), SUM(x)", [1, 1]),  # bounds far from zero: the count matters more, and gets most of ε
    ],
)
def test_what_shares_one_price(asked: str, vectors: list[int]) -> None:
    plan = planned(asked)
    assert [len(noise.statistics) for noise in plan.noises] == vectors


def test_numbers_that_cannot_be_null_share_their_count() -> None:
    """Then COUNT(*) is COUNT(x): halves of one column count for all."""
    asked = "SELECT COUNT(*), AVG(x), SUM(y) FROM (SELECT COALESCE(x, 20) AS x, COALESCE(y, 0) AS y FROM data)"
    with protect(FRAME, bounds=BOUNDS, budget=10) as curator:
        plan = curator.explain(asked, epsilon=1).plan
    assert [type(noise.noised) for noise in plan.noises] == [Halves, Total]
    assert sum(isinstance(item, Count) for item in plan.exact_query.statistics) == 0


def weigh(plan: Plan, aggregate: int) -> float:
    """Return the variance of a count or sum."""
    estimator = plan.estimators[aggregate]
    assert isinstance(estimator, Linear)
    return sum(float(factor) ** 2 * plan.laws[item].variance for item, factor in estimator.parts)


def test_the_stated_variances() -> None:
    """2v for a count, 3v for all rows, 2v·(h² + c²) for a sum; v = 2/ε² up to what integer noise of scale 20 saves."""
    plan = planned("COUNT(*), COUNT(y), SUM(y), AVG(y)")
    assert weigh(plan, 0) == pytest.approx(6, rel=1e-3)
    assert weigh(plan, 1) == pytest.approx(4, rel=1e-3)
    assert weigh(plan, 2) == pytest.approx(4 * (10**2 + 5**2), rel=1e-3)


def test_the_choice_is_the_least_error_of_all_sources() -> None:
    """Against a plain search: with a count of its own, or the halves of either column."""
    asked = "SELECT COUNT(*), {}, {} FROM (SELECT COALESCE(x, {low}) AS x, COALESCE(y, 0) AS y FROM data)"
    for low in (0, 10, 20, 29):
        for first in ("SUM(x)", "AVG(x)"):
            for second in ("SUM(y)", "AVG(y)"):
                with protect(FRAME, bounds={"x": (low, 30), "y": (-5, 15)}, budget=10) as curator:
                    plan = curator.explain(asked.format(first, second, low=low), epsilon=1).plan
                centre, half = Fraction(low + 30, 2), Fraction(30 - low, 2)
                x = (half**2 / 900, centre**2 / 900) if first == "SUM(x)" else (Fraction(1), Fraction(1, 4))
                y = (Fraction(100, 225), Fraction(25, 225)) if second == "SUM(y)" else (Fraction(1), Fraction(1, 4))
                count = 1 + x[1] + y[1]
                costs = {
                    None: math.cbrt(count) + math.cbrt(x[0]) + math.cbrt(y[0]),
                    "x": math.cbrt(2 * (count + x[0])) + math.cbrt(y[0]),
                    "y": math.cbrt(2 * (count + y[0])) + math.cbrt(x[0]),
                }
                least = min(costs.values())
                chosen = [noise.noised.factor.last for noise in plan.noises if isinstance(noise.noised, Halves)]
                found = None if not chosen else "x" if chosen[0] == 30 else "y"
                assert costs[found] <= least * 1.01  # half of an odd width is rounded


@pytest.mark.parametrize("unit", [None, "g"])
@pytest.mark.parametrize(
    "asked", ["COUNT(*) AS n, AVG(x) AS a", "AVG(x) AS a, SUM(x) AS s, COUNT(x) AS m, COUNT(*) AS n"]
)
def test_counts_from_halves_are_right_and_whole(unit: str | None, asked: str) -> None:
    """At ε = 10⁷ noise that changes a count by 1/2 has a probability below e⁻¹⁰⁰."""
    frame = FRAME.assign(x=[None if at % 5 == 0 else at % 7 + 20 for at in range(200)])
    with protect(frame, unit=unit, bounds=BOUNDS, max_rows=100, budget=10**9) as curator:
        (row,) = curator.ask(f"SELECT {asked} FROM data", epsilon=10**7, fresh=True).rows()
    assert row["n"] == 200
    assert isinstance(row["n"], int)
    assert row["n_error"] == 0
    assert row["a"] == pytest.approx(frame["x"].mean(), abs=1e-3)
    if "m" in row:
        assert (row["m"], row["s"]) == (160, pytest.approx(frame["x"].sum(), abs=0.01))


def test_weighting_down_leaves_counts_whole() -> None:
    """1,000 units of three rows, of which one counts: 1,000 rows, though a third of a sum is no whole number."""
    frame = pd.DataFrame({"x": [0, 1, 1] * 1000, "id": [at // 3 for at in range(3000)]})
    frame["y"] = [None if at % 3 == 2 else 7 for at in range(3000)]
    with protect(frame, unit="id", bounds={"x": (0, 1), "y": (0, 9)}, max_rows=1, budget=10**9) as curator:
        (row,) = curator.ask("SELECT COUNT(x) AS n, AVG(x) AS a FROM data", epsilon=10**7, fresh=True).rows()
        (wide,) = curator.ask(
            "SELECT COUNT(*) AS n, COUNT(y) AS m, AVG(y) AS a FROM data", epsilon=10**7, fresh=True
        ).rows()
    assert row["n"] == 1000
    assert row["a"] == pytest.approx(2 / 3, abs=1e-3)
    assert (wide["n"], wide["m"]) == (1000, 667)
    assert wide["a"] == pytest.approx(7, abs=1e-2)


def test_a_row_has_one_weight_whatever_is_asked() -> None:
    """Units of ten rows, of which one counts: shares are shares, and neighbours in a question change nothing."""
    frame = pd.DataFrame({"id": [at // 10 for at in range(20_000)], "x": [float(at % 7) for at in range(20_000)]})
    frame["f"] = [at % 10 < 3 for at in range(20_000)]
    frame["y"] = frame["x"].where(frame["f"])
    with protect(frame, unit="id", bounds={"x": (0, 6, "0.5"), "y": (0, 6, "0.5")}, budget=10**9) as curator:
        alone = (
            "COUNT(*)",
            "COUNT(y)",
            "COUNT(*) FILTER (WHERE f)",
            "SUM(y)",
            "SUM(x) FILTER (WHERE f)",
            "AVG(y)",
            "SUM(x)",
        )
        ask = {one: curator.ask(f"SELECT {one} AS v FROM data", epsilon=10**6, fresh=True).value() for one in alone}
        named = ", ".join(f"{one} AS v{at}" for at, one in enumerate(alone))
        (together,) = curator.ask(f"SELECT {named} FROM data", epsilon=10**7, fresh=True).rows()
        ratio = "SELECT COUNT(*) FILTER (WHERE f) / COUNT(*) AS a, SUM(y) / SUM(x) AS b FROM data"
        (share,) = curator.ask(ratio, epsilon=10**6, fresh=True).rows()
    # the noise is below 0.1 but for a probability of e⁻¹⁰⁰, and 2,000 units are rounded by 2⁻²⁰ each or less
    assert ask["COUNT(*)"] == 2000
    assert ask["COUNT(y)"] == ask["COUNT(*) FILTER (WHERE f)"] == 600
    assert ask["SUM(y)"] == pytest.approx(frame["y"].sum() / 10, abs=1)
    assert ask["AVG(y)"] == pytest.approx(frame["y"].mean(), abs=0.01)
    for at, one in enumerate(alone):
        assert together[f"v{at}"] == pytest.approx(ask[one], abs=1), one
    assert share["a"] == pytest.approx(0.3, abs=1e-3)
    assert share["b"] == pytest.approx(frame["y"].sum() / frame["x"].sum(), abs=1e-3)


def test_variances_and_correlations_from_halves_are_right() -> None:
    """On a grid of its own, around a centre of its own; a grid so fine that products are taken on a coarser one."""
    bounds = {"x": (20, 30, "0.00000000001"), "y": (-5, 15)}
    with protect(FRAME.astype({"x": float}), bounds=bounds, budget=10**15) as curator:
        asked = "SELECT VAR_POP(x) AS v, STDDEV_POP(y) AS s, CORR(x, y) AS r, COUNT(*) AS n, AVG(x) AS a FROM data"
        (row,) = curator.ask(asked, epsilon=10**9, fresh=True).rows()
    assert row["v"] == pytest.approx(FRAME["x"].var(ddof=0), rel=1e-5)
    assert row["s"] == pytest.approx(FRAME["y"].std(ddof=0), rel=1e-5)
    assert row["r"] == pytest.approx(FRAME["x"].corr(FRAME["y"]), rel=1e-5)
    assert (row["n"], row["a"]) == (200, pytest.approx(24, rel=1e-6))


def test_a_column_of_one_value_has_no_halves() -> None:
    with protect(FRAME, bounds={"x": (20, 20)}, budget=10**6) as curator:
        assert curator.ask("SELECT AVG(x) AS m FROM data", epsilon=1000, fresh=True).value() == 20


@pytest.mark.parametrize("unit", [None, "g"])
def test_sums_and_means_from_halves_are_right(unit: str | None) -> None:
    """At ε = 10⁷ noise that changes a mean by 0.001, or a sum by 1/2, has a probability below e⁻¹⁰⁰."""
    with protect(FRAME, unit=unit, bounds=BOUNDS, max_rows=100, budget=10**9) as curator:
        sql = "SELECT AVG(x) AS a, SUM(x) AS s, SUM(y) AS t, AVG(y) AS b FROM data"
        (row,) = curator.ask(sql, epsilon=10**7, fresh=True).rows()
    assert (row["s"], row["t"]) == (4800, 600)
    assert (row["a"], row["b"]) == (pytest.approx(24, abs=1e-3), pytest.approx(3, abs=1e-3))
    assert isinstance(row["s"], int)


def test_halves_are_weighted_down_together() -> None:
    """Two units of 100 rows each, weighted down to 7: the mean stays, the sum shrinks to 7 rows a unit."""
    with protect(FRAME, unit="g", bounds=BOUNDS, max_rows=7, budget=10**9) as curator:
        (row,) = curator.ask("SELECT AVG(x) AS a, SUM(x) AS s FROM data", epsilon=10**7, fresh=True).rows()
    assert row["a"] == pytest.approx(24, abs=1e-3)
    assert row["s"] == 14 * 24


@pytest.mark.parametrize("asked", ["SUM(x)", "SUM(x), AVG(x)", "SUM(x), COUNT(x)"])
def test_weighting_down_cuts_nothing_off_small_numbers(asked: str) -> None:
    """Units of three rows, two of them 1, count as one row each: 2/3 a unit, not 0."""
    frame = pd.DataFrame({"x": [0, 1, 1] * 300, "id": [at // 3 for at in range(900)]})
    with protect(frame, unit="id", bounds={"x": (0, 1)}, max_rows=1, budget=10**9) as curator:
        (row,) = curator.ask(f"SELECT {asked} FROM data", epsilon=10**7, fresh=True).rows()
    total, error = list(row.values())[:2]
    assert total == 200
    assert error <= 0.51
