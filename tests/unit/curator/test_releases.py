"""Whole releases through the curator: tables and synthetic rows on the policy's grid, charged once, kept for ever."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hush.core import BudgetExceededError, InvalidValueError
from hush.curator.curator import Curator
from hush.curator.opening import protect
from hush.query.errors import QuestionError

ROWS = 4000


def people(rows: int = ROWS) -> pa.Table:
    generator = np.random.default_rng(0)
    age = generator.integers(18, 90, rows)
    day = np.datetime64("2024-01-01") + generator.integers(0, 300, rows)
    return pa.table(
        {
            "id": [f"p{row // 2}" for row in range(rows)],
            "age": age,
            "sex": np.where(generator.random(rows) < 0.5, "F", "M"),
            "ill": generator.random(rows) < age / 120,
            "cost": np.round(generator.gamma(2, 30, rows) + age, 2),
            "city": [None if place == 3 else "abc"[place] for place in generator.integers(0, 4, rows)],
            "day": day.astype("datetime64[D]"),
        }
    )


def curator(budget: object = None, rows: int = ROWS, **options: object) -> Curator:
    arguments: dict[str, object] = {
        "unit": "id",
        "bounds": {"age": (18, 100), "cost": (0, 1000, "0.01"), "day": ("2024-01-01", "2024-12-31")},
        "values": {"sex": ["F", "M"], "city": ["a", "b", "c", None]},
        "budget": budget or {"epsilon": "50", "delta": "1e-6"},
        "max_rows": 2,
    }
    return protect(people(rows), **(arguments | options))


def test_all_tables_at_once() -> None:
    with curator() as asked:
        explained = asked.explain_marginals("data", by=["age", "sex", "city"], degree=2, epsilon="2")
        assert not asked.history()
        release = asked.marginals("data", by=["age", "sex", "city"], degree=2, epsilon="2")
        assert release.tables == (("age", "sex"), ("age", "city"), ("sex", "city"))
        table = release["sex", "city"].table
        assert table.column_names == ["sex", "city", "n", "n_error"]
        assert table.column("city").to_pylist() == ["a", "b", "c", None] * 2
        assert table.column("n_error")[0].as_py() == pytest.approx(explained.errors()["sex", "city"])
        total = sum(release["sex"].table.column("n").to_pylist())
        assert total == pytest.approx(sum(table.column("n").to_pylist()))
        assert abs(total - ROWS) < 1500
        assert str(release.price) == "ε=2"
        assert len(asked.history()) == 1
        assert min(release.nonnegative("age", "city").table.column("n").to_pylist()) >= 0


def test_conditions_and_roll_ups_have_error_bars() -> None:
    with curator() as asked:
        release = asked.marginals("SELECT age, sex, city FROM data WHERE age >= 20", epsilon="2")
        young = release.count("age < 40 AND sex = 'F'")
        (value,), (error,) = young.columns[0].values, young.columns[0].errors
        cells = release["age", "sex"]
        rows = [row["n"] for row in cells.rows() if row["age"] < 40 and row["sex"] == "F"]
        assert value == pytest.approx(sum(rows))
        assert error < sum(row["n_error"] for row in cells.rows()[: len(rows)])
        rolled = release.rolled_up(["city", "sex"], {"city": {"a": "north", "b": "north", "c": "south"}})
        assert [column.name for column in rolled.columns] == ["sex", "city", "n"]
        assert len(rolled) == 6
        with pytest.raises(InvalidValueError, match="within one marginal"):
            release.count("age < 40 AND sex = 'F' AND city = 'a'")
        with pytest.raises(QuestionError, match="no column"):
            release.count("height < 3")


def test_files_and_a_report(tmp_path: Path) -> None:
    with curator() as asked:
        release = asked.marginals("data", by=["sex", "city", "ill"], epsilon="1")
        written = release.save(tmp_path / "out")
        assert [path.suffix for path in written] == [".csv", ".csv", ".csv", ".html", ".hush"]
        page = written[-2].read_text()
        assert "3 tables" in page
        assert "ε=1" in page
        assert "sex,city,n,n_error" in written[0].read_text().replace('"', "")
        assert release.save(tmp_path / "more", suffix=".parquet")[0].suffix == ".parquet"


def test_synthetic_rows_lie_on_the_policys_grid() -> None:
    with curator() as asked:
        explained = asked.explain_synth("SELECT age, sex, cost, city, ill, day FROM data", epsilon="3")
        assert "cost" in str(explained)
        made = asked.synth("SELECT age, sex, cost, city, ill, day FROM data", epsilon="3")
        table = made.table
        assert set(table.column("sex").to_pylist()) <= {"F", "M"}
        assert set(table.column("city").to_pylist()) <= {"a", "b", "c", None}
        assert all(18 <= age <= 100 for age in table.column("age").to_pylist())
        cents = np.array(table.column("cost").to_pylist()) * 100
        assert np.allclose(cents, np.rint(cents))
        assert 0 <= cents.min() <= cents.max() <= 100_000
        assert isinstance(table.column("day")[0].as_py(), dt.date)
        assert abs(len(table) - ROWS) < 1000
        assert made.rows(10).equals(made.rows(10))
        assert not made.rows(10).equals(made.rows(10, seed=1))
        assert made.quality is not None
        assert any("neighbouring values" in caveat for caveat in made.caveats)


def test_synthetic_counts_are_honest_about_what_is_known() -> None:
    with curator() as asked:
        made = asked.synth("SELECT age, sex, city, ill FROM data", epsilon="3")
        truth = people().to_pandas()
        young = made.count("age < 40")
        assert young.error is not None
        assert abs(young.value - (truth.age < 40).sum()) < 3 * young.error
        both = made.count("age < 40 AND sex = 'F'")
        assert both.error is not None
        assert abs(both.value - ((truth.age < 40) & (truth.sex == "F")).sum()) < 3 * both.error
        more = made.count("age < 40 AND sex = 'F' AND ill")
        assert more.error is None
        assert "ask directly" in more.source


def test_a_release_is_kept_and_repeated_for_nothing() -> None:
    with curator() as asked:
        first = asked.synth("SELECT age, sex FROM data", epsilon="1", request="again")
        left = asked.budget()[0].account.remaining()
        again = asked.synth("SELECT age, sex FROM data", epsilon="1", request="again")
        assert again.receipt == first.receipt
        assert again.table.equals(first.table)
        assert asked.budget()[0].account.remaining() == left
        tables = [asked.marginals("data", by=["sex", "ill"], epsilon="1", request="m") for _ in range(2)]
        assert tables[0]["sex", "ill"].table.equals(tables[1]["sex", "ill"].table)


def test_the_same_release_again_is_the_one_that_was_paid_for() -> None:
    with curator(rows=400) as asked:
        ways: dict[str, Callable[..., Any]] = {
            "marginals": lambda **how: asked.marginals("data", by=["sex", "ill"], **{"epsilon": "1"} | how),
            "synth": lambda **how: asked.synth("SELECT sex, ill FROM data", **{"epsilon": "1"} | how),
            "ranges": lambda **how: asked.ranges("SELECT age FROM data", **{"epsilon": "1"} | how),
            "fit": lambda **how: asked.fit("SELECT age, cost FROM data", model="moments", **{"epsilon": "1"} | how),
        }
        for name, release in ways.items():
            first, charged = release(), len(asked.history())
            again = release()
            assert again.receipt == first.receipt, name
            assert len(asked.history()) == charged
            others = [release(epsilon="2"), release(fresh=True), release(max_rows=2 if name == "fit" else 1)]
            assert len({first.receipt, *(other.receipt for other in others)}) == 4, name
            assert len(asked.history()) == charged + 3
        assert asked.fit("SELECT age, cost FROM data", model="pca", epsilon="1", components=1).receipt != (
            asked.fit("SELECT age, cost FROM data", model="pca", epsilon="1", components=2).receipt
        )
        again = asked.marginals("data", by=["sex", "ill"], epsilon="1", fresh=False)
        assert "nothing was charged now" in " ".join(again.caveats)
        assert asked.marginals("data", by=["sex", "ill"], epsilon="1", confidence=0.9).receipt != again.receipt


def test_without_delta_noise_is_laplace() -> None:
    with curator(budget={"epsilon": "50"}) as asked:
        assert asked.explain_marginals("data", by=["sex", "city"], epsilon="1").plan.law == "laplace"
        release = asked.marginals("data", by=["sex", "city"], epsilon="1")
        assert release.marginals.plan.law == "laplace"
        made = asked.synth("SELECT sex, city, ill FROM data", epsilon="1")
        assert made.synthetic.plan.price.law == "laplace"
        assert asked.budget()[0].account.remaining().epsilon == Fraction(48)


def test_the_price_is_charged_before_and_within_the_budget() -> None:
    with curator(budget={"epsilon": "1", "delta": "1e-6"}) as asked:
        with pytest.raises(BudgetExceededError):
            asked.synth("SELECT sex, ill FROM data", epsilon="5")
        asked.synth("SELECT sex, ill FROM data", epsilon="0.9")
        with pytest.raises(BudgetExceededError):
            asked.marginals("data", by=["sex", "ill"], epsilon="0.9")


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_tables_are_released_like_others(rows: int) -> None:
    with curator(rows=rows) as asked:
        assert len(asked.marginals("data", by=["sex", "city"], epsilon="1")["sex", "city"]) == 8
        assert asked.synth("SELECT sex, city, age FROM data", epsilon="1").table.column_names == ["sex", "city", "age"]


def test_bad_input_is_named() -> None:
    with curator() as asked:
        with pytest.raises(QuestionError, match="epsilon"):
            asked.synth("SELECT sex FROM data")
        with pytest.raises(InvalidValueError, match="degree"):
            asked.marginals("data", by=["sex"], degree=2, epsilon="1")
        with pytest.raises(InvalidValueError, match="by"):
            asked.marginals("data", epsilon="1")
        with pytest.raises(InvalidValueError, match="certify"):
            asked.synth("SELECT sex, ill FROM data", epsilon="1", certify="0.9")
        with pytest.raises(QuestionError):
            asked.synth("SELECT COUNT(*) FROM data", epsilon="1")
        assert not asked.history()


def test_how_many_rows_were_not_made_is_told() -> None:
    """Of forty estimates one at least is above the most rows, but with probability 2⁻⁴⁰."""
    with curator() as asked:
        terms: dict[str, Any] = {"epsilon": "1e-9", "fresh": True}
        for _ in range(40):
            release = asked.synth("SELECT sex, ill FROM data", **terms)
            assert release.table.num_rows <= 100_000
            if release.table.num_rows == 100_000:
                assert "100,000 were made" in release.caveats[-1]
                return
        pytest.fail("no estimate was large")


def test_parents_are_given_children() -> None:
    patients = "SELECT id, sex, COUNT(*) AS visits FROM data GROUP BY id, sex"
    with curator(max_rows=4) as asked:
        family = asked.synth_children(
            f"SELECT sex, LEAST(visits, 4) AS visits FROM ({patients})",
            "SELECT sex, city, cost FROM data",
            number="visits",
            epsilon="8",
        )
        parents, children = family.tables()
        assert children.column_names == ["parent", "city", "cost"]
        numbers = np.array(parents.column("visits").to_pylist())
        counts = np.bincount(children.column("parent").to_numpy(), minlength=len(numbers))
        assert np.array_equal(counts, numbers)
        assert len(asked.history()) == 1
        assert (str(family.price), str(family.parents.price)) == ("ε=8", "ε=4")
        again = asked.released(family.receipt)
        assert [part.num_rows for part in again.tables()] == [parents.num_rows, children.num_rows]
        with pytest.raises(InvalidValueError, match="number"):
            asked.synth_children("SELECT sex FROM data", "SELECT sex, city FROM data", number="city", epsilon="1")


@pytest.mark.parametrize("budget", [{"epsilon": "50", "delta": "1e-6"}, {"epsilon": "50"}])
def test_all_ranges_of_one_column(budget: dict[str, str]) -> None:
    with curator(budget=budget) as asked:
        # few cells, for which noise is planned fast
        release = asked.ranges("SELECT CLIP(cost, 0, 99) AS cost FROM data", epsilon="5")
        truth = np.clip(np.sort(people().column("cost").to_numpy()), 0, 99)
        (median,) = release.quantiles([0.5])
        assert median["low"] <= np.median(truth) <= median["high"] + 1
        totals = release.distribution().table.column("n").to_pylist()
        assert totals == sorted(totals)
        histogram = release.histogram(bins=4)
        assert len(histogram) == 4
        assert sum(histogram.table.column("n").to_pylist()) == pytest.approx(
            release.ranges.count(0, release.ranges.plan.cells - 1).value, rel=0.1
        )
        again = asked.ranges("SELECT age FROM data", epsilon="1", request="r").distribution().table
        assert asked.ranges("SELECT age FROM data", epsilon="1", request="r").distribution().table.equals(again)
        with pytest.raises(InvalidValueError, match="line"):
            asked.ranges("SELECT sex FROM data", epsilon="1")
        with pytest.raises(QuestionError, match="one column"):
            asked.ranges("SELECT age, cost FROM data", epsilon="1")


def test_ranges_and_children_are_explained_before_they_are_paid() -> None:
    patients = "SELECT id, sex, COUNT(*) AS visits FROM data GROUP BY id, sex"
    with curator(max_rows=4) as asked:
        explained = asked.explain_ranges("SELECT age FROM data", epsilon="1")
        assert not asked.history()
        release = asked.ranges("SELECT age FROM data", epsilon="1")
        assert explained.errors()["one cell"] == pytest.approx(release.ranges.count(0, 0).error, rel=1e-6)
        assert explained.to_json()["cells"] == release.ranges.plan.cells
        how = {"number": "visits", "epsilon": "2"}
        tables = (f"SELECT sex, LEAST(visits, 4) AS visits FROM ({patients})", "SELECT sex, city FROM data")
        parents, children = asked.explain_children(*tables, **how)
        assert (str(parents.price), str(children.price)) == ("ε=1", "ε=1")
        assert len(asked.history()) == 1
        family = asked.synth_children(*tables, **how, request="mine")
        again = asked.synth_children(*tables, **how, request="mine")
        assert again.children.kept == family.children.kept
        assert len(asked.history()) == 2


def test_parents_and_children_are_refused_before_any_charge() -> None:
    patients = "SELECT id, sex, COUNT(*) AS visits FROM data GROUP BY id, sex"
    parents = f"SELECT sex, LEAST(visits, 4) AS visits FROM ({patients})"
    with curator(max_rows=4, budget={"epsilon": "3", "delta": "1e-6"}) as asked:
        with pytest.raises(BudgetExceededError):  # the parents alone would fit
            asked.synth_children(parents, "SELECT sex, city FROM data", number="visits", epsilon="5.6")
        with pytest.raises(InvalidValueError, match="same values"):
            asked.synth_children(parents, "SELECT city AS sex, cost FROM data", number="visits", epsilon="1")
        with pytest.raises(InvalidValueError, match="whole numbers"):
            asked.synth_children(
                f"SELECT sex, visits / 2 AS half FROM ({patients.replace('COUNT(*)', 'LEAST(COUNT(*), 4)')})",
                "SELECT sex, city FROM data",
                number="half",
                epsilon="1",
            )
        assert not asked.history()
