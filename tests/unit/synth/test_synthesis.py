"""Synthetic rows: what the pipeline promises whatever the rows are."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from census import correlated_table, random_table

from hush.core import InvalidValueError
from hush.synth import CodedTable, Domain, Price, Settings, Synthetic, plan_synthesis, synthesise
from hush.synth.model import Draws, TreeModel, eliminate, fits, junction_tree, sample
from hush.synth.synthesis import MAX_GUESSED

DOMAIN = Domain.of({"age": 40, "sex": 2, "city": 7, "cost": 30}, ordered=["age", "cost"], nulls=["cost"])
GAUSSIAN = Price(law="gaussian", amount=Fraction(1, 2))
LAPLACE = Price(law="laplace", amount=Fraction(1))
QUICK = Settings(iterations=2)


@pytest.fixture(scope="module")
def made() -> Synthetic:
    return synthesise(plan_synthesis(DOMAIN, GAUSSIAN), correlated_table(DOMAIN, 4000, 1))


def test_noise_alone_asks_for_no_memory() -> None:
    """At ε = 3e-9 the number of rows is off by 10⁸ and more: half of the time hundreds of millions were made."""
    plan = plan_synthesis(Domain.of({"a": 2, "b": 2}), Price(law="laplace", amount=Fraction("3e-9")), settings=QUICK)
    table = random_table(plan.domain, 100, 0)
    counts = [len(synthesise(plan, table).table) for _ in range(20)]
    assert max(counts) == MAX_GUESSED  # all of twenty estimates are below 0 with probability 2⁻²⁰


def test_sampling_has_no_multinomial_noise() -> None:
    model = TreeModel([4, 5], junction_tree(2, [(0, 1)], [4, 5]))
    model.marginals = [np.arange(1.0, 21).reshape(4, 5) / 210]
    rows = sample(model, 1000, Draws(b"x"))
    counts = np.bincount(rows[:, 0] * 5 + rows[:, 1], minlength=20).reshape(4, 5)
    assert np.abs(counts - 1000 * model.marginals[0]).max() <= 1


def test_every_measurement_is_an_integer_and_refitting_gives_the_same_rows(made: Synthetic) -> None:
    kept = made.to_bytes()
    again = Synthetic.from_bytes(kept)
    assert again.to_bytes() == kept
    assert all(item.values.dtype == np.int64 for item in again.measurements)
    for name in DOMAIN.names:
        assert np.array_equal(again.table.column(name), made.table.column(name))
        assert np.array_equal(again.rows(50, seed=3).column(name), made.rows(50, seed=3).column(name))


def test_rows_that_an_earlier_version_kept_are_made_again() -> None:
    """Bins and graphs were chosen by other rules then: its measurements have their shapes, and bring the same rows."""
    kept = (Path(__file__).parents[2] / "data" / "synthetic-128.kept").read_bytes()
    table = Synthetic.from_bytes(kept).table
    columns = [np.ascontiguousarray(table.column(name).astype("<i8")).tobytes() for name in table.domain.names]
    found = hashlib.sha256(b"".join(columns)).hexdigest()
    assert found == "0fd96b0adfe5df173fe332cd5ea8bd2ca6d04edd7f4e420d5a3bbaee25944803"


def test_all_noise_together_costs_no_more_than_the_price() -> None:
    for price in (GAUSSIAN, LAPLACE, Price(law="gaussian", amount=Fraction("0.0149"))):
        for rows, touched in ((1, 1), (3, 2)):
            plan = plan_synthesis(DOMAIN, price, rows=rows, touched=touched)
            found = synthesise(plan, correlated_table(DOMAIN, 500, 2))
            spent = Fraction(0)
            for item in found.measurements:
                size = len(item.values) if item.kind == "scores" else 1
                squared, absolute = plan.counts_sensitivities
                if item.kind == "scores":
                    squared = Fraction(size * (rows * touched) ** 2)
                    absolute = Fraction(size * rows * touched)
                spent += price.cost(item.parameter, squared=squared, absolute=absolute)
            assert spent <= price.amount
            if any(len(item.columns) == 2 for item in found.measurements):  # else there was nothing worth its price
                assert spent > price.amount * Fraction(9, 10)


def test_moving_a_unit_moves_every_integer_within_its_sensitivity() -> None:
    rows, generator = 5, np.random.default_rng(3)
    base = correlated_table(DOMAIN, 300, 4)
    reference = {("age", "city"): generator.integers(0, 9, (40, 7))}
    for _ in range(50):
        cells = generator.integers(0, DOMAIN.sizes, (1, 4)).repeat(rows, axis=0)
        with_unit = CodedTable.of(
            DOMAIN,
            {name: np.append(base.column(name), cells[:, place]) for place, name in enumerate(DOMAIN.names)},
        )
        for columns in (("age",), ("age", "city")):
            change = with_unit.marginal(columns) - base.marginal(columns)
            assert int((change**2).sum()) <= rows**2
        scores = [int(np.abs(t.marginal(c) - r).sum()) for t in (base, with_unit) for c, r in reference.items()]
        assert abs(scores[0] - scores[1]) <= rows


@pytest.mark.parametrize("price", [GAUSSIAN, LAPLACE, Price(law="gaussian", amount=Fraction(1, 10**6))])
@pytest.mark.parametrize("rows", ["none", "one", "equal", "outside", "many equal"])
def test_no_table_makes_it_fail(rows: str, price: Price) -> None:
    size = {"none": 0, "one": 1, "equal": 50, "outside": 50, "many equal": 100_000}[rows]
    code = 99 if rows == "outside" else 1
    table = CodedTable.of(DOMAIN, {name: np.full(size, code) for name in DOMAIN.names})
    found = synthesise(plan_synthesis(DOMAIN, price, settings=QUICK), table)
    assert len(found.table) == found.fitted.count
    assert found.table.domain == DOMAIN
    assert found.quality is not None
    assert found.count({"age": [1]}).error is not None


def test_a_single_column_and_columns_of_one_code() -> None:
    for sizes in ({"a": 5}, {"a": 1}, {"a": 1, "b": 3}):
        domain = Domain.of(sizes)
        found = synthesise(plan_synthesis(domain, GAUSSIAN), random_table(domain, 100, 5))
        assert len(Synthetic.from_bytes(found.to_bytes()).table) == len(found.table)


def test_the_number_of_rows_is_private() -> None:
    plan = plan_synthesis(DOMAIN, GAUSSIAN, settings=QUICK)
    table = correlated_table(DOMAIN, 200, 6)
    fits = [synthesise(plan, table).fitted for _ in range(30)]
    counts, deviation = [fit.total - 200 for fit in fits], fits[0].total_deviation
    # a chi-square of 30 degrees lies outside (5.8, 85) with probability below 1e-6
    assert 5.8 < sum((count / deviation) ** 2 for count in counts) < 85
    assert len(set(counts)) > 1


def test_every_declared_code_can_come_out(made: Synthetic) -> None:
    assert all((counts + 1e-9 > 0).all() for counts in made.fitted.ones)
    rows = made.rows(200_000)
    assert set(np.unique(rows.column("sex"))) == {0, 1}
    assert rows.column("age").max() < 40


def test_counts_say_where_they_come_from(made: Synthetic) -> None:
    assert made.count({}).source == "measured"
    assert made.count({"age": range(10)}).source in {"measured", "model with certificate"}
    pair = made.count({"age": range(10), "sex": [1]})
    assert pair.source == "model with certificate"
    assert pair.error is not None
    more = made.count({"age": range(10), "sex": [1], "city": [0]})
    assert more.error is None
    assert "3 columns" in more.source
    with pytest.raises(InvalidValueError):
        made.count({"age": [40]})


def test_the_certificate_is_near_the_truth(made: Synthetic) -> None:
    table = correlated_table(DOMAIN, 4000, 1)
    quality = made.quality
    assert quality is not None
    whole = made.fitted.total
    for item in quality.pairs:
        truth = np.abs(table.marginal(item.columns) - made.table.marginal(item.columns)).sum() / whole
        assert abs(item.distance - truth) < 6 * item.error / 1.96  # six standard deviations
    assert math.isclose(quality.mean, np.mean([item.distance for item in quality.pairs]))


def test_correlations_survive() -> None:
    table = correlated_table(DOMAIN, 20_000, 9)
    found = synthesise(plan_synthesis(DOMAIN, Price(law="gaussian", amount=Fraction(5))), table).table
    real, copy = (np.corrcoef(t.column("age"), t.column("cost"))[0, 1] for t in (table, found))
    assert abs(real - copy) < 0.1


def test_progress_is_told() -> None:
    stages = []
    synthesise(
        plan_synthesis(DOMAIN, GAUSSIAN), random_table(DOMAIN, 50, 10), progress=lambda stage, _: stages.append(stage)
    )
    assert list(dict.fromkeys(stages)) == ["counting", "choosing pairs", "fitting", "certifying", "done"]


def test_cliques_fit_or_not_as_their_elimination_says() -> None:
    generator = np.random.default_rng(11)
    for _ in range(300):
        columns = int(generator.integers(2, 9))
        sizes = generator.integers(1, 7, columns).tolist()
        edges = [pair for pair in combinations(range(columns), 2) if generator.random() < 0.4]
        limit = int(generator.integers(2, 400))
        largest = max(math.prod(sizes[place] for place in clique) for clique in eliminate(columns, edges, sizes))
        assert fits(columns, edges, sizes, limit) == (largest <= limit)


def test_without_a_certificate_nothing_is_certified() -> None:
    settings = Settings(certificate=Fraction(0), iterations=20)
    made = synthesise(plan_synthesis(DOMAIN, GAUSSIAN, settings=settings), random_table(DOMAIN, 200, 13))
    assert made.quality is None
    assert made.count({"age": [1], "sex": [0]}).source == "model without a bound: no certificate was bought"
    assert made.count({"age": [1]}).source == "measured"


def test_shares_that_are_next_to_nothing_leave_a_model_that_can_be_drawn_from() -> None:
    """A separator's cell with 1e-310 below it and ½ above gave ∞·0, which is no number."""
    model = TreeModel([2, 2, 2], junction_tree(3, [(0, 1), (1, 2)], [2, 2, 2]))
    opposed = [np.array([[-712.0, 0], [-712, 0]]), np.array([[0.0, 0], [-712, -np.inf]])]
    with np.errstate(all="ignore"):
        assert all(np.isfinite(belief).all() for belief in model.propagate(opposed))
