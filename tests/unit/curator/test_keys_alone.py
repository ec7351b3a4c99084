"""Keys alone, and other spellings of LIMIT."""

from __future__ import annotations

import pandas as pd
import pytest

import hush
from hush.query.errors import QuestionError


@pytest.fixture(scope="module")
def curator():
    rows = pd.DataFrame({"disease": ["Flu", "HIV"] * 400, "city": ["a", "b"] * 399 + ["a", "z"]})
    with hush.protect(
        rows, table="visits", values={"disease": ["Flu", "HIV", "Mumps"]}, budget={"epsilon": "1000", "delta": "1e-5"}
    ) as made:
        yield made


@pytest.mark.parametrize("sql", ["SELECT DISTINCT city FROM visits", "SELECT city FROM visits GROUP BY city"])
def test_private_keys_are_chosen_for_the_whole_price(sql, curator):
    explained = curator.explain(sql, epsilon=20)
    assert [item.what for item in explained.plan.items] == ["choosing keys"]
    assert explained.plan.items[0].epsilon == explained.price.epsilon == 20
    keys = [row["city"] for row in curator.ask(sql, epsilon=20).rows()]
    assert keys == ["a", "b"]  # z has one unit: it is shown with a probability of δ, below 1e-6


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT disease FROM visits",
        "SELECT disease FROM visits WHERE city = 'b' GROUP BY 1",
        "SELECT DISTINCT TOP 3 disease FROM visits",
    ],
)
def test_public_keys_are_listed_free_of_charge_and_no_row_is_read(sql, curator, monkeypatch):
    before = curator.budget()[0].remaining
    engine = next(iter(curator.data_sets.values())).engine
    monkeypatch.setattr(engine.connection, "results", None)
    answer = curator.ask(sql, epsilon=1)
    assert [row["disease"] for row in answer.rows()] == ["Flu", "HIV", "Mumps"]
    assert answer.price.epsilon == 0
    assert "the list is free" in str(curator.explain(sql, epsilon=1))
    assert curator.budget()[0].remaining == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TOP 1 disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC",
        "SELECT TOP (1) disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC",
        "SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC FETCH FIRST 1 ROW ONLY",
        "SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC FETCH FIRST ROW ONLY",
        "SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY",
    ],
)
def test_other_spellings_of_limit_are_the_same_question(sql, curator):
    plain = "SELECT disease, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY n DESC LIMIT 1"
    assert curator.parse(sql)[1] == curator.parse(plain)[1]


@pytest.mark.parametrize(
    "sql",
    ["SELECT DISTINCT ON (disease) disease FROM visits", "SELECT DISTINCT * FROM visits", "SELECT disease FROM visits"],
)
def test_rows_are_not_shown(sql, curator):
    with pytest.raises(QuestionError):
        curator.ask(sql, epsilon=1)


def test_a_question_that_costs_nothing_is_explained_at_wide_limits_too():
    table = pd.DataFrame({"id": [1, 1], "age": [30, 40]})
    with hush.protect(table, unit="id", max_rows=2, bounds={"age": (0, 120)}, budget=1) as curator:
        explained = curator.explain("SELECT DISTINCT age FROM data", epsilon="0.1")
    assert str(explained).startswith("price: ε=0")
