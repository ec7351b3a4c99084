"""Many public keys are chosen privately; a question may say which it wants; data sets are told apart."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

import hush
from hush import protect
from hush.core import InvalidValueError
from hush.query.errors import QuestionError, UnknownTableError
from hush.query.plan import UnplannableError

BY_INCOME = "SELECT income, COUNT(*) AS n FROM data GROUP BY income"
INCOMES = pa.table({"income": [30_000] * 400 + [45_000] * 300 + list(range(100))})


def incomes(**budget: object) -> hush.Curator:
    return protect(INCOMES, bounds={"income": (0, 500_000)}, budget={"epsilon": 100, **budget})


def test_of_many_public_keys_those_are_shown_that_units_have() -> None:
    with incomes(delta="1e-6") as curator:
        shown = curator.explain(BY_INCOME, epsilon=1)
        assert shown.keys == "chosen privately"
        assert any("500,001 declared groups" in note for note in shown.caveats)
        answer = curator.ask(BY_INCOME, epsilon=1)
    assert {30_000, 45_000} <= set(answer.table["income"].to_pylist()) <= {30_000, 45_000, *range(100)}


def test_a_question_may_say_which_keys_it_wants() -> None:
    with incomes(delta="1e-6") as curator:
        few = BY_INCOME.replace("GROUP", "WHERE income < 20 GROUP")
        assert curator.explain(few, epsilon=1).keys == "20 public"
        assert curator.explain(few, epsilon=1, keys="private").keys == "chosen privately"
        wide = BY_INCOME.replace("GROUP", "WHERE income < 20000 GROUP")
        assert curator.explain(wide, epsilon=1).keys == "chosen privately"
        assert curator.explain(wide, epsilon=1, keys="public").keys == "20000 public"
        with pytest.raises(InvalidValueError, match="keys"):
            curator.explain(few, epsilon=1, keys="all")


def test_without_a_delta_keys_are_listed_and_cannot_be_chosen() -> None:
    with incomes() as curator:
        wide = BY_INCOME.replace("GROUP", "WHERE income < 20000 GROUP")
        assert curator.explain(wide, epsilon=1).keys == "20000 public"
        with pytest.raises(UnplannableError, match=r"wants its keys chosen.*delta above 0"):
            curator.explain(wide, epsilon=1, keys="private")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_choosing_keys_is_charged_for_all_keys_that_neighbours_change(neighbours: str) -> None:
    names = pa.table({"id": [0, 0, 1, 2], "name": ["a", "b", "a", "c"], "x": [1, 2, 3, 4]})
    budget = {"epsilon": 10, "delta": "1e-6"}
    with protect(names, unit="id", max_rows=1, max_groups=2, budget=budget, neighbours=neighbours) as curator:
        asked = "SELECT name, COUNT(*) AS n, MEDIAN(CLIP(x, 0, 9)) AS m FROM data GROUP BY name"
        plan = curator.plan(asked, epsilon=1).plan
    assert plan.selection is not None
    assert plan.selection.mechanism.keys == (2 if neighbours == "add-remove" else 4)
    drawn = [draw.mechanism for draw in plan.draws]
    assert len(drawn) == 1
    charged = [plan.selection.mechanism, *(noise.law for noise in plan.noises), *drawn]
    assert list(plan.events) == [mechanism.event for mechanism in charged]


def test_keys_their_threshold_and_the_numbers_share_one_delta() -> None:
    table = pa.table({"id": [row // 12 for row in range(600)], "name": [f"n{row % 40}" for row in range(600)]})
    with protect(table, unit="id", max_rows=1, max_groups=12, budget={"epsilon": 10, "delta": "1e-6"}) as curator:
        plan = curator.plan("SELECT name, COUNT(*) AS n FROM data GROUP BY name", epsilon=1).plan
    assert plan.selection is not None
    assert plan.selection.gaussian
    assert [type(noise.law).__name__ for noise in plan.noises] == ["GroupedGaussian"]
    assert 0 < plan.delta < plan.meant_at <= Fraction(1, 10**6)


def test_keys_without_a_public_list_cannot_be_listed() -> None:
    table = pa.table({"name": ["a", "b"]})
    curator = protect(table, budget={"epsilon": 1, "delta": "1e-6"})
    with curator, pytest.raises(UnplannableError, match=r"no public list.*keys='public'"):
        curator.explain("SELECT name, COUNT(*) FROM data GROUP BY name", epsilon="0.1", keys="public")


POLICY = """
[data.clinic]
budget = { epsilon = "4" }
[data.clinic.tables.visits]
source = "visits.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
[data.hr]
budget = { epsilon = "4" }
[data.hr.tables.staff]
source = "staff.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
[data.hr.tables.visits]
source = "days.csv"
columns.day = { type = "integer", lower = 0, upper = 9 }
[analysts.alice]
data = ["clinic", "hr"]
budget = { epsilon = "4" }
"""


@pytest.fixture
def both(tmp_path: Path) -> hush.Curator:
    (tmp_path / "hush.toml").write_text(POLICY, encoding="utf-8")
    for name in ("visits", "staff", "days"):
        csv.write_csv(pa.table({"age": [30, 40], "day": [1, 2]}), tmp_path / f"{name}.csv")
    return hush.open(tmp_path / "hush.toml", analyst="alice", create=True)


def test_the_data_set_that_has_the_table_is_named(both: hush.Curator) -> None:
    with both as curator:
        assert curator.plan("SELECT COUNT(*) FROM staff", epsilon=1).data_set.schema.data == "hr"
        with pytest.raises(UnknownTableError, match=r"no table 'staff'.*data set 'hr' has it.*data='hr'"):
            curator.explain("SELECT COUNT(*) FROM staff", epsilon=1, data="clinic")
        with pytest.raises(UnknownTableError, match="one data set"):
            curator.explain("SELECT COUNT(*) FROM staff JOIN nobody USING (age)", epsilon=1, data="clinic")


def test_a_table_of_two_data_sets_is_asked_about_by_name(both: hush.Curator) -> None:
    with both as curator:
        with pytest.raises(QuestionError, match=r"'clinic' and 'hr' have tables of these names.*data='clinic'"):
            curator.explain("SELECT COUNT(*) FROM visits", epsilon=1)
        assert curator.plan("SELECT AVG(age) FROM visits", epsilon=1).data_set.schema.data == "clinic"
        assert curator.plan("SELECT COUNT(*) FROM visits", epsilon=1, data="hr").data_set.schema.data == "hr"
