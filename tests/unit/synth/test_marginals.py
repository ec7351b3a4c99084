"""Marginals by residual bases: optimal plans, exact sensitivity, consistent and unbiased answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from census import ADULT, correlated_table, random_table

import hush
from hush.core import InvalidValueError
from hush.synth import CodedTable, Domain, Marginals, all_marginals, plan_marginals
from hush.synth.marginals import (
    closure,
    marginal_variance,
    residual_of,
    residual_spreads,
    squared_sensitivity,
    subsets,
)
from hush.synth.measurements import MeasurementsError

HALF = Fraction(1, 2)
SMALL = Domain.of({"a": 3, "b": 4, "c": 2})


@pytest.mark.parametrize(("degrees", "optimum"), [((2,), 8.2342), ((1, 2, 3), 15.9195)])
def test_the_largest_variance_of_adult_is_the_published_optimum(degrees: tuple[int, ...], optimum: float) -> None:
    domain = Domain.of(ADULT)
    workload = [columns for degree in degrees for columns in all_marginals(domain, degree)]
    plan = plan_marginals(domain, workload, rho=HALF)
    assert plan.events[0].rho_ <= HALF
    assert max(plan.variance(columns) for columns in workload) ** 0.5 == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize(("degree", "rmse"), [(1, 3.047), (2, 6.359), (3, 10.515)])
def test_the_mean_over_cells_of_adult_is_the_published_one(degree: int, rmse: float) -> None:
    domain = Domain.of(ADULT)
    workload = all_marginals(domain, degree)
    plan = plan_marginals(domain, workload, rho=HALF, optimise="cells")
    cells = np.array([domain.cells(columns) for columns in workload])
    variances = np.array([plan.variance(columns) for columns in workload])
    assert np.sqrt(cells @ variances / cells.sum()) == pytest.approx(rmse, abs=6e-4)


def test_no_other_noise_at_the_same_price_has_a_smaller_largest_variance() -> None:
    plan = plan_marginals(SMALL, all_marginals(SMALL, 2), rho=HALF)
    best = max(plan.variance(columns) for columns in plan.workload)
    generator = np.random.default_rng(0)
    sets, spreads = list(plan.noise), residual_spreads(SMALL, "gaussian", plan.noise)
    prices = np.array([float(squared_sensitivity(SMALL, columns) / (2 * plan.noise[columns])) for columns in sets])
    for _ in range(300):
        other = prices * np.exp(generator.normal(0, 0.2, len(sets)))
        other *= prices.sum() / other.sum()
        spread = {name: spreads[name] * mine / new for name, mine, new in zip(sets, prices, other, strict=True)}
        largest = max(marginal_variance(SMALL, columns, spread) for columns in plan.workload)
        assert largest >= best * (1 - 1e-4)


@pytest.mark.parametrize("touched", [1, 2])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_neighbour_changes_a_residual_by_more_than_is_said(rows: int, touched: int) -> None:
    generator = np.random.default_rng(rows + 10 * touched)
    reached = dict.fromkeys(closure(all_marginals(SMALL, 3)), 0)
    for _ in range(400):
        same = generator.random() < 0.5  # a unit whose rows are all alike is the worst case
        units = []
        for unit in range(touched):
            cells = generator.integers(0, [3, 4, 2], (1 if same else rows, 3))
            kept = rows if unit == 0 else generator.integers(0, rows + 1)
            units.append(np.repeat(cells, rows, axis=0)[:kept] if same else cells[:kept])
        for columns in reached:
            places = [SMALL.place(name) for name in columns]
            change = 0
            for sign, cells in zip((1, -1), units, strict=False):
                table = CodedTable.of(SMALL, dict(zip("abc", cells.T, strict=True)))
                change = change + sign * residual_of(table.marginal(columns))
            squared = int(np.sum(np.asarray(change).astype(object) ** 2))
            assert squared <= squared_sensitivity(SMALL, columns, rows, touched), places
            reached[columns] = max(reached[columns], squared)
    for columns, squared in reached.items():
        limit = squared_sensitivity(SMALL, columns, rows, touched)
        assert squared == limit or touched > 1  # reached, so no smaller figure would do


def test_a_price_is_exact_and_never_above_what_is_paid() -> None:
    for rho in (Fraction(1, 3), Fraction("0.014973"), Fraction(10)):
        for rows, touched in ((1, 1), (7, 1), (2, 2)):
            plan = plan_marginals(SMALL, all_marginals(SMALL, 2), rho=rho, rows=rows, touched=touched)
            assert rho * (1 - Fraction(1, 10**6)) < plan.events[0].rho_ <= rho


def test_the_variance_of_a_cell_is_that_of_the_estimate() -> None:
    """The covariance of the estimate, by matrices, has the planned variance on its diagonal."""
    workload = all_marginals(SMALL, 2)
    plan = plan_marginals(SMALL, workload, rho=HALF)
    spreads = residual_spreads(SMALL, "gaussian", plan.noise)
    for columns in workload:
        shape = SMALL.shape(columns)
        covariance = np.zeros((np.prod(shape), np.prod(shape)))
        for subset in subsets(columns):
            matrix = np.ones((1, 1))
            for name, size in zip(columns, shape, strict=True):
                part = np.eye(size) - 1 / size if name in subset else np.full((size, size), 1 / size**2)
                matrix = np.kron(matrix, part)
            covariance += spreads[subset] * matrix
        assert np.allclose(np.diag(covariance), plan.variance(columns))


def test_marginals_agree_with_each_other() -> None:
    table = correlated_table(SMALL, 500, 1)
    for options in ({"rho": HALF}, {"epsilon": Fraction(1)}):
        found = plan_marginals(SMALL, all_marginals(SMALL, 2), **options).measure(table)
        for one, other in combinations(all_marginals(SMALL, 2), 2):
            (shared,) = set(one) & set(other)
            sums = []
            for columns in (one, other):
                axes = tuple(axis for axis, name in enumerate(columns) if name != shared)
                sums.append(found[columns].values.sum(axis=axes))
            assert np.allclose(*sums)
            assert np.allclose(sums[0], found[shared].values)


def test_more_is_known_of_smaller_marginals_and_of_totals() -> None:
    for options in ({"rho": HALF}, {"epsilon": Fraction(1)}):
        plan = plan_marginals(SMALL, all_marginals(SMALL, 2), **options)
        found = plan.measure(random_table(SMALL, 100, 3))
        for columns in (("a", "b"), ("a",), ()):
            assert plan.error(columns) == pytest.approx(found[columns].error)
        assert found.count({}).error == pytest.approx(plan.error(()))


def test_sums_of_cells_and_roll_ups_have_one_error() -> None:
    found = plan_marginals(SMALL, [("a", "b")], rho=HALF).measure(random_table(SMALL, 100, 4))
    values, errors = found.rolled_up(("a", "b"), {"b": [0, 0, 1, 1]})
    single = found.count({"a": [1], "b": [2, 3]})
    assert values[1, 1] == pytest.approx(single.value)
    assert errors[1, 1] == pytest.approx(single.error)
    cell = found.count({"a": [1], "b": [2]})
    assert cell.error == pytest.approx(found["a", "b"].error)


def test_the_version_to_look_at_has_no_negative_count_and_agrees() -> None:
    table = correlated_table(Domain.of({"a": 12, "b": 9, "c": 7}), 300, 5)
    found = plan_marginals(table.domain, all_marginals(table.domain, 2), rho=HALF).measure(table)
    assert min(found[columns].values.min() for columns in found.workload) < 0
    shown = found.nonnegative()
    assert all(np.all(values >= 0) for values in shown.values())
    assert np.abs(shown["a", "b"].sum(axis=1) - shown["a", "c"].sum(axis=1)).max() < 0.5 * 9


def test_kept_measurements_give_the_same_release() -> None:
    found = plan_marginals(SMALL, all_marginals(SMALL, 2), rho=HALF).measure(random_table(SMALL, 50, 6))
    again = Marginals.from_bytes(found.to_bytes())
    assert again.to_bytes() == found.to_bytes()
    assert np.array_equal(again["a", "c"].values, found["a", "c"].values)
    assert all(item.values.dtype == np.int64 for item in again.measurements)
    with pytest.raises(MeasurementsError):
        Marginals.from_bytes(found.to_bytes()[:-5])


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("options", [{"rho": HALF}, {"epsilon": Fraction(1)}])
def test_no_table_makes_a_release_fail(rows: int, options: dict[str, Fraction]) -> None:
    domain = Domain.of({"a": 1, "b": 4, "c": 1})
    codes = {"a": np.zeros(rows, int), "b": np.full(rows, 9), "c": np.zeros(rows, int)}
    found = plan_marginals(domain, all_marginals(domain, 2), **options).measure(CodedTable.of(domain, codes))
    assert found["a", "b"].values.shape == (1, 4)
    assert found.nonnegative()


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidValueError, match="workload"):
        plan_marginals(SMALL, [], rho=HALF)
    with pytest.raises(InvalidValueError, match="column"):
        plan_marginals(SMALL, [("a", "z")], rho=HALF)
    with pytest.raises(InvalidValueError, match="higher degree"):
        plan_marginals(SMALL, [("a", "b")], rho=HALF).measure(random_table(SMALL, 5, 7))["a", "c"]
    with pytest.raises(InvalidValueError, match="cells"):
        plan_marginals(Domain.of({"a": 2**12, "b": 2**12}), [("a", "b")], rho=HALF)
    with pytest.raises(InvalidValueError, match="optimise"):
        plan_marginals(SMALL, [("a", "b")], rho=HALF, optimise="least")


@pytest.mark.parametrize("epsilon", [1000, 3000, 90_000])
def test_noise_whose_variance_is_below_all_floats_leaves_the_tables_readable(epsilon: int) -> None:
    rows = {"id": [1, 2, 3], "a": ["x", "y", "x"], "b": [1, 2, 1]}
    with hush.protect(rows, unit="id", values={"a": ["x", "y"], "b": [1, 2]}, budget=100_000) as curator:
        table = curator.marginals("data", by=["a", "b"], degree=2, epsilon=epsilon)["a", "b"].table
    assert table["n"].to_pylist() == [2, 0, 0, 1]
