"""What no whole release may do, each check shown to fail on a planted fault.

A check is a function that raises AssertionError. It is run on hush as it is, and again with a fault that other
libraries had or might have: then it must raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from hush.accounting.events import ZCDPEvent
from hush.curator.answer import Money
from hush.curator.kept_release import ReleaseExplanation, ReleaseHead, WholeRelease, plan_rows, release
from hush.curator.opening import protect
from hush.curator.terms import Order
from hush.engines.protocol import CodedRows
from hush.engines.sql.nodes import Select
from hush.synth import (
    CodedTable,
    Domain,
    Price,
    Settings,
    Synthetic,
    measurements,
    model,
    plan_synthesis,
    synthesis,
    synthesise,
)
from hush.synth.model import Draws, TreeModel, junction_tree, sample
from hush.synth.streams import Seen, arrivals

DOMAIN = Domain.of({"a": 4, "b": 4, "c": 4})
PURE = Price(law="laplace", amount=Fraction(1))
QUICK = Settings(iterations=2)
Patch = pytest.MonkeyPatch


def table(rows: int = 100, seed: int = 0) -> CodedTable:
    generator = np.random.default_rng(seed)
    return CodedTable.of(DOMAIN, {name: generator.integers(0, 3, rows) for name in "abc"})


def with_row(before: CodedTable, code: int, rows: int = 1) -> CodedTable:
    return CodedTable.of(DOMAIN, {name: np.append(before.column(name), np.full(rows, code)) for name in "abc"})


# 1: independent given the parent (mbi 1.1 deals children out in row order)


def children_are_independent(_: Patch) -> None:
    tree = TreeModel([2, 10, 10], junction_tree(3, [(0, 1), (0, 2)], [2, 10, 10]))
    rows = sample(tree, 8000, Draws(b"seed"))
    assert abs(np.corrcoef(rows[:, 1], rows[:, 2])[0, 1]) < 0.07  # 6 standard deviations


def rows_in_order(patch: Patch) -> None:
    patch.setattr(Draws, "order", lambda _, count: np.arange(count))


# 2: the scores of pairs are not monotone (a peer charges them as if they were)


def scores_are_paid_for(_: Patch) -> None:
    """One row raises the distance of one pair and lowers that of another: exact Rényi divergence of what is drawn."""
    plan = plan_synthesis(DOMAIN, Price(law="gaussian", amount=Fraction(1, 10)))
    reference = {0: np.array([[10, 0], [0, 0]]), 1: np.array([[30, 0], [0, 0]])}
    before, after = (np.array([[20, 0], [0, 0]]) + extra for extra in (0, np.array([[1, 0], [0, 0]])))
    shift = [int(np.abs(after - r).sum() - np.abs(before - r).sum()) for r in reference.values()]
    assert shift == [1, -1]
    share = plan.settings.scores
    variance = float(plan.score_parameter(share, len(shift)))
    charged = float(share * plan.price.amount)
    support = np.arange(-4000, 4001)
    log_law = -(support**2) / (2 * variance)
    log_law -= np.logaddexp.reduce(log_law)
    for alpha in (1.01, 2.0, 5.0):
        divergence = 0.0
        for moved in shift:
            log_moved = -((support - moved) ** 2) / (2 * variance)
            log_moved -= np.logaddexp.reduce(log_moved)
            divergence += math.log(np.sum(np.exp(alpha * log_law + (1 - alpha) * log_moved))) / (alpha - 1)
        assert divergence <= alpha * charged * (1 + 1e-6)


def scores_as_if_monotone(patch: Patch) -> None:
    def halved(plan: synthesis.SynthesisPlan, share: Fraction, pairs: int) -> Fraction:
        return plan.price.parameter(share, squared=Fraction(pairs, 4), absolute=Fraction(pairs, 2))

    patch.setattr(synthesis.SynthesisPlan, "score_parameter", halved)


# 3: a black-box audit of the whole pipeline


def pipeline_tells_no_more_than_it_says(_: Patch) -> None:
    """A row in a cell that nobody is in, with and without, at ε = 1: the ratio of one event's probabilities.

    The bound from below exceeds the true one with probability below 1e-6 (Hoeffding, both sides).
    """
    plan = plan_synthesis(DOMAIN, PURE, settings=QUICK)
    runs, seen = 130, []
    for data in (table(20), with_row(table(20), 3)):
        statistic = []
        for _run in range(runs):
            kept = synthesise(plan, data).measurements
            statistic.append(sum(float(item.values[3]) / float(item.parameter) for item in kept[:3]))
        seen.append(np.array(statistic))
    slack = math.sqrt(math.log(2e6) / (2 * runs))
    middle = 1.5 / float(synthesise(plan, table(20)).measurements[0].parameter)
    with_it, without = np.mean(seen[1] > middle) - slack, np.mean(seen[0] > middle) + slack
    assert with_it <= 0 or math.log(with_it / without) <= 1


def too_little_noise(patch: Patch) -> None:
    draw = measurements.discrete_laplace
    patch.setattr(measurements, "discrete_laplace", lambda scale, size: draw(Fraction(scale) / 200, size=size))


# 4: the number of rows is private


def row_count_is_noisy(_: Patch) -> None:
    plan = plan_synthesis(DOMAIN, PURE, settings=QUICK)
    counts = {len(synthesise(plan, table()).table) for _ in range(12)}
    assert len(counts) > 1  # a law with a deviation of some ten rows gives one number 12 times below 1e-12


def row_count_is_known(patch: Patch) -> None:
    before = synthesis.Fitting.__init__

    def known(self: synthesis.Fitting, *arguments: object) -> None:
        before(self, *arguments)
        self.count = 100

    patch.setattr(synthesis.Fitting, "__init__", known)


# 5: the domain is the policy's


def rows_outside_the_domain_change_nothing(_: Patch) -> None:
    inside, outside = table(), with_row(table(), 9)
    for name in "abc":
        assert np.array_equal(inside.marginal((name,)), outside.marginal((name,)))
    assert outside.domain == DOMAIN


def domain_grows_with_the_rows(patch: Patch) -> None:
    def grown(domain: Domain, codes: dict[str, np.ndarray]) -> CodedTable:
        sizes = {name: max(domain.size(name), int(np.max(codes[name])) + 1) for name in domain.names}
        return CodedTable(Domain.of(sizes), tuple(np.asarray(codes[name]) for name in domain.names))

    patch.setattr(CodedTable, "of", staticmethod(grown))


# 6: no failure depends on rows


def any_rows_are_released(_: Patch) -> None:
    for data in (table(0), table(1), with_row(table(0), 2, 500)):
        try:
            synthesise(plan_synthesis(DOMAIN, PURE, settings=QUICK), data)
        except Exception as error:
            raise AssertionError(type(error).__name__) from error


def shares_of_nothing(patch: Patch) -> None:
    before = synthesis.Fitting.reference

    def divided(self: synthesis.Fitting, pairs: object) -> object:
        if self.count < 200:
            raise ZeroDivisionError
        return before(self, pairs)

    patch.setattr(synthesis.Fitting, "reference", divided)


# 7: a unit with many rows


def one_unit_adds_few_rows(_: Patch) -> None:
    many = pa.table({"id": [0] * 10_000 + list(range(1, 2001)), "city": ["x"] * 12_000})
    seen = []
    with protect(
        many, unit="id", values={"city": ["x", "y"]}, budget={"epsilon": 9, "delta": "1e-6"}, max_rows=3
    ) as own:
        planned = plan_rows(own.session, "SELECT city FROM data")
        head = ReleaseHead(kind="rows", price=Money.single("rows", Fraction(1)), caveats=(), question="rows")
        explained = ReleaseExplanation(head=head, rows=planned, plan=None, events=(ZCDPEvent(rho="0.01"),), text="rows")

        def measure(rows: CodedRows) -> bytes:
            seen.append(len(rows))
            return b""

        release(own.session, explained, measure, WholeRelease.made, Order())
    assert seen == [2003]


def nobody_bounds_the_rows(patch: Patch) -> None:
    patch.setattr(Select, "qualified", lambda query, *_: query)


# 8: the order of rows


def order_of_rows_is_not_told(patch: Patch) -> None:
    patch.setattr(measurements, "discrete_laplace", lambda _, size: np.zeros(size, dtype=np.int64))
    patch.setattr(synthesis.secrets, "token_hex", lambda _: "00" * 16)
    data = table()
    turned = CodedTable.of(DOMAIN, {name: data.column(name)[::-1] for name in "abc"})
    plan = plan_synthesis(DOMAIN, PURE, settings=QUICK)
    assert synthesise(plan, data).to_bytes() == synthesise(plan, turned).to_bytes()


def first_row_counts_twice(patch: Patch) -> None:
    before = CodedTable.marginal

    def marginal(self: CodedTable, columns: tuple[str, ...]) -> np.ndarray:
        counts = before(self, columns).copy()
        counts[tuple(int(self.column(name)[0]) for name in columns)] += 1
        return counts

    patch.setattr(CodedTable, "marginal", marginal)


# 9: integers, and the same table from the same measurements


def kept_measurements_are_enough(_: Patch) -> None:
    made = synthesise(plan_synthesis(DOMAIN, PURE, settings=QUICK), table())
    again = Synthetic.from_bytes(made.to_bytes())
    for name in "abc":
        assert np.array_equal(made.table.column(name), again.table.column(name))
    assert all(item.values.dtype == np.int64 for item in made.measurements)


def sampling_is_not_repeatable(patch: Patch) -> None:
    generator = np.random.default_rng()
    patch.setattr(Draws, "words", lambda _, count: generator.integers(0, 2**63, count, dtype=np.uint64))


# 12: streams over their life


def a_unit_stays_within_its_cap(_: Patch) -> None:
    seen, total = Seen.nothing(), 0
    for day in range(1, 30):
        came, seen = arrivals(seen, np.zeros(day, int), np.zeros(day, int), None, cap=3, bound=1, size=1)
        total += int(came.sum())
    assert total == 3


def nobody_remembers_units(patch: Patch) -> None:
    from hush.synth import streams

    patch.setattr(streams, "_within_cap", lambda _units, new_rows, _used, _cap: new_rows)


# 13: an oracle


def fit_agrees_with_the_whole_joint(_: Patch) -> None:
    """The marginals of the fitted tree are those of the best distribution over all cells, found without a tree."""
    generator = np.random.default_rng(1)
    sizes = [3, 2, 4]
    truth = generator.dirichlet(np.ones(24)).reshape(sizes) * 1000
    targets = [
        model.Target(
            columns=pair, counts=truth.sum(axis=3 - sum(pair)), variances=np.full([sizes[p] for p in pair], 9.0)
        )
        for pair in ((0, 1), (1, 2))
    ]
    tree = TreeModel(sizes, junction_tree(3, [(0, 1), (1, 2)], sizes))
    tree.fit(targets, 1000.0, [np.full(size, 1000 / size) for size in sizes], iterations=3000)
    joint = np.full(sizes, 1 / 24)
    for _step in range(4000):  # iterative proportional fitting on all cells
        joint *= (targets[0].counts / 1000 / joint.sum(axis=2))[:, :, None]
        joint *= (targets[1].counts / 1000 / joint.sum(axis=0))[None, :, :]
    assert np.abs(tree.marginals[0] - joint.sum(axis=2)).max() < 1e-3
    assert np.abs(tree.marginals[1] - joint.sum(axis=0)).max() < 1e-3
    rows = sample(tree, 100_000, Draws(b"x"))
    pair = np.bincount(rows[:, 0] * 4 + rows[:, 2], minlength=12).reshape(3, 4) / 100_000
    assert np.abs(pair - joint.sum(axis=1)).max() < 0.01


def separators_are_ignored(patch: Patch) -> None:
    before = model.given_groups

    def alone(key: np.ndarray, joint: np.ndarray, draws: Draws) -> np.ndarray:
        return before(np.zeros_like(key), joint.sum(axis=0, keepdims=True), draws)

    patch.setattr(model, "given_groups", alone)


CHECKS: list[tuple[Callable[[Patch], None], Callable[[Patch], None]]] = [
    (children_are_independent, rows_in_order),
    (scores_are_paid_for, scores_as_if_monotone),
    (pipeline_tells_no_more_than_it_says, too_little_noise),
    (row_count_is_noisy, row_count_is_known),
    (rows_outside_the_domain_change_nothing, domain_grows_with_the_rows),
    (any_rows_are_released, shares_of_nothing),
    (one_unit_adds_few_rows, nobody_bounds_the_rows),
    (order_of_rows_is_not_told, first_row_counts_twice),
    (kept_measurements_are_enough, sampling_is_not_repeatable),
    (a_unit_stays_within_its_cap, nobody_remembers_units),
    (fit_agrees_with_the_whole_joint, separators_are_ignored),
]


@pytest.mark.parametrize("check", [check for check, _ in CHECKS], ids=lambda check: check.__name__)
def test_hush_passes(check: Callable[[Patch], None], monkeypatch: Patch) -> None:
    check(monkeypatch)


@pytest.mark.parametrize(("check", "fault"), CHECKS, ids=[fault.__name__ for _, fault in CHECKS])
def test_a_planted_fault_is_found(
    check: Callable[[Patch], None], fault: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        check(monkeypatch)
