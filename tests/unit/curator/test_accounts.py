"""The planner and the accounts: what an account cannot price is not planned, and what cannot work is not charged."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import hush
from hush.curator.curator import Curator
from hush.mechanisms.grouped import GroupedGaussian, GroupedLaplace
from hush.query.plan import UnplannableError

VISITS = pa.table({"id": [at // 3 for at in range(3000)], "city": [f"c{at % 40}" for at in range(3000)]})
CITIES = [f"c{at}" for at in range(40)]
BY_CITY = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"


def protect(budget: object, *, values: bool = True, max_groups: int = 40) -> Curator:
    listed = {"city": CITIES} if values else None
    return hush.protect(VISITS, unit="id", values=listed, budget=budget, max_groups=max_groups)


@pytest.mark.parametrize("kind", ["pure", "renyi", "zcdp", "gdp"])
@pytest.mark.parametrize("values", [True, False])
def test_every_kind_of_account_answers(kind: str, *, values: bool) -> None:
    with protect({"epsilon": "20", "delta": "1e-5", "kind": kind}, values=values) as curator:
        answer = curator.ask(BY_CITY, epsilon="10", fresh=True)
        assert answer.table.num_rows == 40 if values else answer.table.num_rows <= 40
        laws = {type(noise.law) for noise in curator.explain(BY_CITY, epsilon="0.5").plan.noises}
        assert laws == ({GroupedGaussian} if kind in {"renyi", "zcdp"} else {GroupedLaplace})


def test_a_budget_without_delta_is_answered_with_laplace_noise() -> None:
    with protect("1") as curator:
        answer = curator.ask(BY_CITY, epsilon="0.5", fresh=True)
        assert str(answer.remaining.epsilon) == "1/2"


def test_gaussian_noise_is_taken_from_the_crossover_on() -> None:
    seen, most = [], 40
    with (
        protect({"epsilon": "4", "delta": "1e-6"}, max_groups=most) as some,
        protect({"epsilon": "4", "delta": "1e-6", "kind": "pure"}, max_groups=most) as pure,
    ):
        for groups in range(1, most + 1):
            error, laplace = (
                one.explain(BY_CITY, epsilon="0.5", max_groups=groups).errors()["n"] for one in (some, pure)
            )
            assert error is not None
            assert laplace is not None
            seen.append(error < laplace)
            assert error <= laplace
    assert seen == sorted(seen)  # from some number of groups on
    assert True in seen
    assert False in seen


def test_few_groups_leave_the_sum_of_epsilon_open() -> None:
    with protect({"epsilon": "1", "delta": "1e-6"}, max_groups=3) as curator:
        curator.ask(BY_CITY, epsilon="0.5", fresh=True)
        curator.ask(
            BY_CITY, epsilon="0.5", fresh=True
        )  # only by the sum: at the account's order, one such step is too much
        assert curator.budget()[0].account.spent_epsilon == 1


@pytest.mark.parametrize("epsilon", ["1e-100", "1e-30", "1e-9"])
@pytest.mark.parametrize("kind", ["pure", "renyi"])
def test_an_epsilon_too_small_for_private_keys_is_refused_before_the_charge(epsilon: str, kind: str) -> None:
    with protect({"epsilon": "1", "delta": "1e-6", "kind": kind}, values=False, max_groups=1) as curator:
        for ask in (curator.explain, curator.ask):
            with pytest.raises(UnplannableError, match="too small to choose keys"):
                ask(BY_CITY, epsilon=epsilon)
        assert curator.budget()[0].spent.epsilon == 0
        assert curator.history() == []


@pytest.mark.parametrize("epsilon", ["1e-4", "100", "1e6", "1e9"])
def test_an_epsilon_of_any_other_size_chooses_keys(epsilon: str) -> None:
    with protect({"epsilon": "1e10", "delta": "1e-3"}, values=False, max_groups=1) as curator:
        shown = curator.ask(BY_CITY, epsilon=epsilon, fresh=True).table.num_rows
        assert shown == 40 or Fraction(epsilon) < 1


POLICY = """
[data.clinic]
unit = "id"
budget = {{ epsilon = "{data}", delta = "1e-6" }}
[data.clinic.tables.visits]
source = "visits.parquet"
columns.city = {{ type = "text" }}
[analysts.alice]
data = ["clinic"]
budget = {{ epsilon = "{alice}", delta = "{delta}" }}
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet.write_table(VISITS, tmp_path / "visits.parquet")
    return tmp_path


def opened(folder: Path, *, data: str = "4", alice: str = "2", delta: str = "1e-7") -> Curator:
    (folder / "hush.toml").write_text(POLICY.format(data=data, alice=alice, delta=delta), encoding="utf-8")
    return hush.open(folder / "hush.toml", analyst="alice", create=True)


def left(curator: Curator) -> list[Fraction]:
    return [view.remaining.epsilon for view in curator.budget()]


def test_a_budget_lowered_in_the_policy_holds_at_once(folder: Path) -> None:
    with opened(folder) as curator:
        curator.ask(COUNT, epsilon="0.5", fresh=True)
        assert left(curator) == [Fraction(7, 2), Fraction(3, 2)]
    with opened(folder, alice="0.75") as curator:
        assert left(curator) == [Fraction(7, 2), Fraction(1, 4)]
        with pytest.raises(hush.BudgetExceededError, match=r"takes 66.667% of alice's budget, but 33.333% is left"):
            curator.ask(COUNT, epsilon="0.5", fresh=True)
        curator.ask(COUNT, epsilon="0.25", fresh=True)
    with opened(folder, alice="0.5") as curator, pytest.raises(hush.BudgetExceededError):
        curator.ask(COUNT, epsilon="0.01", fresh=True)  # more was spent already
    with opened(folder, data="0.75") as curator:
        assert left(curator)[0] == 0
        with pytest.raises(hush.BudgetExceededError, match=r"of clinic's budget, but"):
            curator.ask(COUNT, epsilon="0.01", fresh=True)
    with opened(folder) as curator:  # and back: what the ledger granted is still granted
        curator.ask(COUNT, epsilon="1", fresh=True)


def test_a_delta_lowered_to_nothing_leaves_the_sum_of_epsilon(folder: Path) -> None:
    keys = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    with opened(folder) as curator:
        curator.ask(keys, epsilon="0.5", fresh=True)
    with opened(folder, delta="0") as curator:
        with pytest.raises(hush.BudgetExceededError):  # choosing keys took more of δ than there is now
            curator.ask(COUNT, epsilon="0.5", fresh=True)
        with pytest.raises(hush.HushError, match="needs a delta"):
            curator.ask(keys, epsilon="0.5", fresh=True)


def test_a_larger_budget_in_the_policy_alone_changes_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(folder).close()
    assert not caplog.messages
    with opened(folder, alice="3") as curator:
        assert left(curator)[1] == 2
    assert "hush ledger raise clinic --analyst alice --epsilon 3 --delta 1e-7" in caplog.text


def test_listed_dates_are_keys_and_other_days_are_left_out(folder: Path) -> None:
    days = pa.table({"id": list(range(30)), "day": pa.array([at % 10 for at in range(30)], pa.date32())})
    parquet.write_table(days, folder / "days.parquet")
    listed = 'columns.day = { type = "date", values = [1970-01-02, "1970-01-05"] }'
    text = POLICY.format(data="1e6", alice="1e6", delta="0").replace('columns.city = { type = "text" }', listed)
    (folder / "hush.toml").write_text(text.replace("visits.parquet", "days.parquet"), encoding="utf-8")
    with hush.open(folder / "hush.toml", create=True) as curator:
        answer = curator.ask("SELECT day, COUNT(*) AS n FROM visits GROUP BY day", epsilon=10_000, fresh=True)
        assert [str(day) for day in answer.table.column("day").to_pylist()] == ["1970-01-02", "1970-01-05"]
        assert answer.table.column("n").to_pylist() == [3, 3]
        answer = curator.ask("SELECT COUNT(day) AS n, COUNT(*) AS rows FROM visits", epsilon=10_000, fresh=True)
        assert (answer.table.column("n").to_pylist(), answer.table.column("rows").to_pylist()) == ([6], [30])


@pytest.mark.parametrize(
    ("wrong", "message"), [('unit = "idd"', "no column 'idd'"), ("columns.citi", "Did you mean 'city'")]
)
def test_a_policy_that_names_columns_its_table_lacks_is_refused(folder: Path, wrong: str, message: str) -> None:
    text = POLICY.format(data="1", alice="1", delta="0")
    text = text.replace('unit = "id"', wrong) if "unit" in wrong else text.replace("columns.city", wrong)
    (folder / "hush.toml").write_text(text, encoding="utf-8")
    with pytest.raises(hush.HushError, match=message):
        hush.open(folder / "hush.toml")


@pytest.mark.parametrize("aggregate", ["SUM", "AVG", "VARIANCE", "STDDEV", "MEDIAN", "MAX"])
@pytest.mark.parametrize("upper", ["1e300", "1e200", "1e-250", "1e100"])
def test_numbers_of_any_size_are_answered_or_refused_before_the_charge(aggregate: str, upper: str) -> None:
    with protect({"epsilon": "1e6"}) as curator:
        try:
            curator.ask(
                f"SELECT {aggregate}(CLIP(LENGTH(city) * {upper}, 0, {upper})) AS x FROM data", epsilon=1, fresh=True
            )
        except UnplannableError:
            assert curator.history() == []


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.string()])
def test_listed_decimals_are_keys_however_they_are_stored(kind: pa.DataType) -> None:
    make = {"decimal128(9, 2)": Decimal, "string": str}.get(str(kind), float)
    stored = pa.array([make(cell) for cell in ("0.10", "0.20", "0.30")] * 10, kind)
    table = pa.table({"id": list(range(30)), "rate": stored})
    values = {"rate": [Decimal("0.1"), "0.2"]} if not pa.types.is_string(kind) else {"rate": ["0.10", "0.20"]}
    with hush.protect(table, unit="id", values=values, budget="1e6") as curator:
        answer = curator.ask("SELECT rate, COUNT(*) AS n FROM data GROUP BY rate", epsilon=10_000, fresh=True)
        assert answer.table.column("n").to_pylist() == [10, 10]


@pytest.mark.parametrize("asked", ["AVG(x)", "MEDIAN(x)", "MIN(x)", "SUM(x), AVG(x)"])
@pytest.mark.parametrize("bounds", [(0, "1e400"), ("-1e308", "1e308"), (0, "1e-400")])
def test_bounds_of_any_size_are_answered_or_refused_before_the_charge(
    asked: str, bounds: tuple[object, object]
) -> None:
    with hush.protect(pa.table({"x": [1.0, 2.0]}), bounds={"x": bounds}, budget=10) as curator:
        try:
            curator.ask(f"SELECT {asked} FROM data", epsilon=1, fresh=True)
        except UnplannableError:
            assert curator.history() == []


def test_the_delta_of_prices_adds_up_to_what_is_set_aside_for_keys() -> None:
    """Twenty-five questions by private keys fit a budget, and the next one is told which part of δ is used up."""
    frame = pa.table({"id": list(range(600)), "city": ["Oslo"] * 600})
    sql = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"
    for groups in (1, 3, 40):
        with hush.protect(
            frame, unit="id", budget={"epsilon": 100, "delta": "1e-3"}, max_groups=groups, max_rows=1
        ) as curator:
            shown = curator.explain(sql, epsilon="0.1")
            assert shown.price.delta == Fraction(1, 10**5)
            assert sum((delta for _, _, delta in shown.price.items), Fraction(0)) == shown.price.delta
            gaussian = any("with Gaussian noise this price holds at δ=" in note for note in shown.caveats)
            assert gaussian == (shown.plan.meant_at > shown.price.delta) == (groups > 1)
            left = Fraction(1, 4000)
            for _ in range(25 if groups == 3 else 1):
                answer = curator.ask(sql, epsilon="0.1", fresh=True)
                left -= answer.price.delta
                assert answer.remaining is not None
                assert answer.remaining.delta == left
            if groups == 3:
                match = r"takes 4% of .*, but 0% is left, because choosing private keys needs δ=1e-5; group by keys"
                with pytest.raises(hush.BudgetExceededError, match=match) as refused:
                    curator.ask(sql, epsilon="0.1", fresh=True)
                assert not re.search("[0-9a-f]{32}", str(refused.value))
                assert "receipt" in str(refused.value)
                assert repr(curator.budget()[0]).endswith("100% is spent, 0% is left>")


def test_a_single_number_never_costs_the_account_its_sum() -> None:
    """At so small an ε Gaussian noise would err less, and end the counting by the sum of ε."""
    with hush.protect(pa.table({"x": list(range(1000))}), budget={"epsilon": 4, "delta": "1e-5"}) as curator:
        spent = curator.ask("SELECT COUNT(*) AS n FROM data", accuracy=30_000, fresh=True).price.epsilon
        assert spent < Fraction(1, 1000)
        assert curator.budget()[0].remaining.epsilon == 4 - spent


def test_of_two_data_sets_the_one_that_has_the_table_says_what_is_wrong(tmp_path: Path) -> None:
    for name in ("visits", "orders"):
        parquet.write_table(VISITS, tmp_path / f"{name}.parquet")
    part = '[data.{0}]\nunit = "id"\nbudget = {{ epsilon = "1" }}\n[data.{0}.tables.{1}]\nsource = "{1}.parquet"\n'
    text = "".join(
        part.format(*names) + 'columns.city = "text"\n' for names in [("clinic", "visits"), ("shop", "orders")]
    )
    analyst = '[analysts.alice]\ndata = ["clinic", "shop"]\nbudget = { epsilon = "1" }\n'
    (tmp_path / "hush.toml").write_text(text + analyst, encoding="utf-8")
    with hush.open(tmp_path / "hush.toml", analyst="alice", create=True) as curator:
        for table in ("visits", "orders"):
            with pytest.raises(hush.HushError, match="Did you mean 'city'"):
                curator.ask(f"SELECT COUNT(DISTINCT citi) AS n FROM {table}", epsilon="0.1", fresh=True)
            with pytest.raises(hush.HushError, match="There is no table 'visit'"):
                curator.ask("SELECT COUNT(*) AS n FROM visit", epsilon="0.1", fresh=True)
