"""The theorems under whole releases, each checked by brute force on small cases."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hush.synth import Domain, all_marginals
from hush.synth.marginals import plan_marginals, residual_of, squared_sensitivity, subsets
from hush.synth.model import Draws, Target, TreeModel, given_groups, junction_tree
from hush.synth.ranges import _square_root
from hush.synth.streams import Factorisation


def test_a_marginal_is_the_sum_of_its_residuals() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (3, 4, 2)).astype(float)
    built = np.zeros(counts.shape)
    for axes in product([False, True], repeat=3):
        others = tuple(axis for axis, kept in enumerate(axes) if not kept)
        part = counts.sum(axis=others, keepdims=True)
        for axis, kept in enumerate(axes):
            if kept:
                part = part - part.mean(axis=axis, keepdims=True)
        built += part / math.prod(counts.shape[axis] for axis in others)
    assert np.allclose(built, counts)


def test_residuals_on_integers_are_multiples_of_the_residual() -> None:
    counts = np.random.default_rng(1).integers(0, 50, (3, 4))
    centred = counts - counts.mean(axis=0, keepdims=True)
    centred = centred - centred.mean(axis=1, keepdims=True)
    assert np.allclose(residual_of(counts) / 12, centred)


def test_the_price_on_integers_is_the_continuous_one() -> None:
    """Δ²/2s² with s² = σ²∏n² is p/2σ²."""
    domain = Domain.of({"a": 5, "b": 3})
    for columns in subsets(("a", "b")):
        share = Fraction(math.prod(size - 1 for size in domain.shape(columns)), domain.cells(columns))
        scale = domain.cells(columns) ** 2
        assert squared_sensitivity(domain, columns) / scale == share


def test_no_gaussian_mechanism_errs_less_on_a_small_workload() -> None:
    """Among random strategies of the same price none has a smaller mean variance over the tables of two columns."""
    domain = Domain.of({"a": 2, "b": 3})
    plan = plan_marginals(domain, all_marginals(domain, 1), rho=Fraction(1, 2), optimise="cells")
    cells = [(columns, domain.cells(columns)) for columns in plan.workload]
    mean = sum(size * plan.variance(columns) for columns, size in cells) / sum(size for _, size in cells)
    workload = np.vstack([np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.ones((1, 2)), np.eye(3))])
    generator = np.random.default_rng(2)
    for _ in range(300):
        strategy = generator.normal(size=(8, 6))
        strategy /= np.sqrt((strategy**2).sum(axis=0).max())  # a price of ½: the longest column is 1
        gram = strategy.T @ strategy
        variance = np.trace(workload @ np.linalg.solve(gram, workload.T)) / 5
        assert variance >= mean * (1 - 1e-6)


def test_the_square_root_of_totals_is_within_its_closed_form() -> None:
    """Σ f_k² = (ln T + γ + ln 16)/π + O(1/T)."""
    for periods in (100, 1000, 10_000):
        total = float(np.sum(Factorisation.of(periods).root ** 2))
        assert total == pytest.approx((math.log(periods) + 0.5772156649 + math.log(16)) / math.pi, abs=1 / periods)


def test_the_strategy_for_ranges_is_near_the_bound_of_all_strategies() -> None:
    cells = 256
    place = np.arange(1, cells + 1)
    gram = np.minimum.outer(place, place) * (cells + 1 - np.maximum.outer(place, place))
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    bound = roots.sum() ** 2 / cells
    matrix = _square_root(cells).astype(float) / 2**20
    mine = float((matrix**2).sum(axis=0).max()) * np.trace(np.linalg.solve(matrix.T @ matrix, gram))
    assert bound <= mine <= bound * 1.02


def test_messages_give_the_marginals_of_the_joint() -> None:
    generator = np.random.default_rng(3)
    sizes = [2, 3, 2, 4]
    model = TreeModel(sizes, junction_tree(4, [(0, 1), (1, 2), (1, 3), (2, 3)], sizes))
    potentials = [generator.normal(size=[sizes[place] for place in clique.columns]) for clique in model.cliques]
    joint = np.zeros(sizes)
    for cell in product(*map(range, sizes)):
        for clique, potential in zip(model.cliques, potentials, strict=True):
            joint[cell] += potential[tuple(cell[place] for place in clique.columns)]
    joint = np.exp(joint)
    joint /= joint.sum()
    for clique, marginal in zip(model.cliques, model.propagate(potentials), strict=True):
        others = tuple(axis for axis in range(4) if axis not in clique.columns)
        assert np.allclose(joint.sum(axis=others), marginal)


def test_the_fit_never_climbs() -> None:
    generator = np.random.default_rng(4)
    sizes = [4, 3, 5]
    model = TreeModel(sizes, junction_tree(3, [(0, 1), (1, 2)], sizes))
    targets = [
        Target(columns=(0, 1), counts=generator.normal(20, 30, (4, 3)), variances=np.full((4, 3), 25.0)),
        Target(columns=(1, 2), counts=generator.normal(15, 30, (3, 5)), variances=np.full((3, 5), 100.0)),
    ]
    losses = [model.fit(targets, 240.0, [np.ones(size) for size in sizes], iterations=steps) for steps in (20, 80, 320)]
    assert losses[0] >= losses[1] >= losses[2]


def test_systematic_rounding_is_within_one_row_of_its_expectation() -> None:
    generator = np.random.default_rng(5)
    joint = generator.dirichlet(np.ones(7), 30) * generator.random((30, 1))
    key = generator.integers(0, 30, 5000)
    codes = given_groups(key, joint, Draws(b"x"))
    counts = np.bincount(key * 7 + codes, minlength=210).reshape(30, 7)
    expected = joint / joint.sum(axis=1, keepdims=True) * np.bincount(key, minlength=30)[:, None]
    assert np.abs(counts - expected).max() <= 1 + 1e-9
