"""Models on the curator: rows of a question, charged first, replayed free; events that the caller states."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hush import learn, protect
from hush.accounting import PoissonGaussianEvent, from_opacus
from hush.core import BudgetExceededError, InvalidValueError
from hush.learn.budget import NeedsDeltaError
from hush.query.errors import QuestionError

CHOICE = np.random.default_rng(3)  # picks rows, never noise
ROWS = 20_000
AGE = CHOICE.integers(18, 90, ROWS)
SEX = CHOICE.integers(0, 2, ROWS)
COST = 100 + 10 * AGE + 200 * SEX + CHOICE.normal(0, 50, ROWS)


def clinic(**options):
    table = pa.table(
        {
            "id": np.arange(ROWS) // 2,
            "age": AGE,
            "sex": np.array(["f", "m"])[SEX],
            "cost": COST,
            "ill": AGE + CHOICE.normal(0, 15, ROWS) > 55,
        }
    )
    arguments = {
        "bounds": {"age": (0, 120), "cost": (0, 2000, "0.01")},
        "values": {"sex": ["f", "m"]},
        "budget": {"epsilon": "4", "delta": "1e-6"},
        **options,
    }
    return protect(table, **arguments)


ALL = "SELECT age, sex, cost FROM data"


def test_a_regression_on_the_curator_predicts_without_it(tmp_path):
    with clinic() as curator:
        before = curator.budget()[0].account.remaining().epsilon
        model = curator.fit(ALL, target="cost", model="regression", epsilon="2")
        after = curator.budget()[0].account.remaining().epsilon
        assert after < before
        assert model.receipt
        assert curator.history()[0].question.startswith("FIT regression of cost")
    again = learn.load(model.save(tmp_path / "cost.json"))
    rows = {"age": AGE, "sex": np.array(["f", "m"])[SEX]}
    assert 1 - np.mean((again.predict(rows) - COST) ** 2) / COST.var() > 0.9


def test_a_model_costs_what_a_question_of_the_same_epsilon_may_cost():
    with clinic() as curator, clinic() as other:
        curator.fit(ALL, target="cost", epsilon="1")
        other.ask("SELECT sex, COUNT(*) AS n, SUM(cost) AS s FROM data GROUP BY sex", epsilon="1")
        left = [one.budget()[0].account.remaining().share for one in (curator, other)]
        assert float(left[0]) >= 0.5
        assert float(left[0]) == pytest.approx(float(left[1]), abs=0.25)


def test_a_request_is_replayed_free():
    with clinic() as curator:
        first = curator.fit(ALL, target="cost", epsilon="1", request="mine")
        left = curator.budget()[0].account.remaining().share
        second = curator.fit(ALL, target="cost", epsilon="1", request="mine")
        assert curator.budget()[0].account.remaining().share == left
        assert first.to_json() == second.to_json()
        assert first.receipt == second.receipt


@pytest.mark.parametrize(
    ("model", "target", "options"),
    [
        ("classification", "ill", {}),
        ("naive_bayes", "ill", {}),
        ("linear", "cost", {}),
        ("moments", None, {}),
        ("pca", None, {"components": 1}),
    ],
)
def test_every_model_is_fitted(model, target, options):
    with clinic() as curator:
        fitted = curator.fit(
            "SELECT age, sex, cost, ill FROM data WHERE age >= 18", target=target, model=model, epsilon="1", **options
        )
        if target == "ill":
            rows = {"age": [20, 85], "sex": ["f", "f"], "cost": [400, 900]}
            assert fitted.predict(rows).tolist() == [False, True]
        if model == "linear":
            assert fitted.coef_[0] == pytest.approx(10, rel=0.3)


def test_clusters_and_components_of_numbers():
    with clinic() as curator:
        assert curator.fit(
            "SELECT age, cost FROM data", model="kmeans", epsilon="1", clusters=3
        ).cluster_centers_.shape == (3, 2)


def test_of_each_unit_one_row_counts():
    with clinic(unit="id", max_rows=5) as curator:
        planned = curator.explain_fit(ALL, target="cost", epsilon="1")
        assert "one row counts" in str(planned)
        moments = curator.fit("SELECT age, cost FROM data", model="moments", epsilon="3")
        assert moments.rows == pytest.approx(ROWS / 2, rel=0.05)


def test_explaining_costs_nothing_and_says_the_price_and_the_noise():
    with clinic() as curator:
        explained = curator.explain_fit(ALL, target="cost", model="linear", epsilon="1")
        assert explained.to_json()["price"] == {"epsilon": "1", "delta": "0"}
        assert "standard deviation" in str(explained)
        assert curator.history() == []


def test_a_pure_budget_takes_pure_models_and_refuses_others_before_the_charge():
    with clinic(budget={"epsilon": "4"}) as curator:
        curator.fit("SELECT age, sex, ill FROM data", target="ill", model="naive_bayes", epsilon="1")
        curator.fit("SELECT age, cost FROM data", target="cost", model="linear", epsilon="1")
        with pytest.raises(NeedsDeltaError, match="NaiveBayes"):
            curator.fit("SELECT age, sex, ill FROM data", target="ill", model="classification", epsilon="1")
        assert len(curator.history()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": "trees", "target": "cost"}, "no model"),
        ({"target": None}, "needs a target"),
        ({"model": "moments", "target": "cost"}, "has no target"),
        ({"target": "kost"}, "cost"),
        ({"target": "sex"}, "classification"),
        ({"target": "cost", "model": "classification"}, "regression"),
        ({"target": "cost", "epsilon": None}, "price"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused_before_the_charge(arguments, said):
    with clinic() as curator:
        with pytest.raises(QuestionError, match=said):
            curator.fit(ALL, **{"epsilon": "1", **arguments})
        with pytest.raises(InvalidValueError, match="basis"):
            curator.fit(ALL, target="cost", epsilon="1", bases="linear")
        assert curator.history() == []


@pytest.mark.parametrize("options", [{"neighbours": "replace"}, {"unit": "id", "max_rows": 5}])
def test_models_take_several_rows_and_neighbours_that_replace(options):
    many = {"max_rows": 2} if "unit" in options else {}
    with clinic(**options) as curator, clinic() as plain:
        model = curator.fit(ALL, target="cost", epsilon="1", **(many or {"max_rows": 1}))
        assert model.rows == 2
        assert model.event.type == "gaussian"
        single = curator.explain_fit(ALL, target="cost", model="linear", epsilon="1", **many)
        assert single.event.sensitivity == 2
        fitted = curator.fit(ALL, target="cost", model="linear", epsilon="1", **many)
        assert fitted.sigma_ > plain.fit(ALL, target="cost", model="linear", epsilon="1").sigma_
        assert fitted.coef_[0] == pytest.approx(10, rel=0.3)
        assert curator.fit("SELECT age, cost FROM data", model="kmeans", epsilon="1", clusters=2, **many).receipt


def test_too_little_budget_is_no_model():
    with clinic() as curator, pytest.raises(BudgetExceededError):
        curator.fit(ALL, target="cost", epsilon="50")


def test_a_training_run_is_charged_before_it_starts_and_stated_by_the_caller():
    with clinic() as curator:
        before = curator.budget()[0].account.remaining().share
        event = from_opacus({"mechanism": "rdp", "history": [(4.0, 0.01, 100)]})
        recorded = curator.record(event, "a network for images, Opacus, 100 steps", request="run-1")
        assert curator.budget()[0].account.remaining().share < before
        assert curator.history()[0].question.startswith("STATED BY THE CALLER: a network")
        assert (
            curator.record(event, "a network for images, Opacus, 100 steps", request="run-1").receipt
            == recorded.receipt
        )
        assert len(curator.history()) == 1
        with pytest.raises(BudgetExceededError):
            curator.record(PoissonGaussianEvent(rate=1, sigma="0.01"), "far too little noise")
        with pytest.raises(InvalidValueError):
            curator.record("an event", "a note")
        with pytest.raises(InvalidValueError):
            curator.record(event, " ")
        with pytest.raises(QuestionError, match="Which data set"):
            curator.record(event, "a note", data="elsewhere")


@pytest.mark.parametrize("model", ["classification", "naive_bayes"])
@pytest.mark.parametrize("listed", [True, False])
def test_listed_numbers_and_decimals_of_a_grid_are_classes_and_columns_as_numbers(model, listed):
    tenths = np.arange(2000) % 9
    tenth = np.array([f"{k / 10:.1f}" for k in range(9)], dtype=float)[tenths]
    table = pa.table({"k": tenth, "sure": tenths > 4, "sex": tenths % 2})
    declared = {"values": {"k": sorted(set(tenth)), "sex": [0, 1]}} if listed else {"values": {"sex": [0, 1]}}
    bounds = {} if listed else {"bounds": {"k": (0, 0.8, "0.1")}}
    with protect(table, **declared, **bounds, budget={"epsilon": "1000", "delta": "1e-6"}) as curator:
        binary = curator.fit("SELECT k, sex FROM data", target="sex", model=model, epsilon="30")
        many = curator.fit("SELECT k, sex FROM data", target="k", model=model, epsilon="30")
    assert binary.classes_.tolist() == [0, 1]
    assert many.classes_.tolist() == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    # A ninth of the rows has each class, with noise of less than 3 at ε=30: none can be lost.
    chances = many.predict_proba({"sex": [0, 1, 0.0, True]})
    assert (chances[0, ::2] > 0.1).all()
    assert (chances[1, 1::2] > 0.1).all()
    assert (chances[:2] == chances[2:]).all()
    if listed:
        assert np.mean(binary.predict({"k": tenth}) == tenths % 2) == 1
        assert (binary.predict({"k": [Decimal("0.3"), np.float32(0.7), 0]}) == [1, 1, 0]).all()


def test_dates_are_predicted_for_as_dates():
    days = np.datetime64("2026-01-01") + np.arange(3000) % 200
    table = pa.table({"day": days, "late": days > np.datetime64("2026-04-01")})
    bounds = {"day": (dt.date(2026, 1, 1), dt.date(2026, 7, 31))}
    with protect(table, bounds=bounds, budget={"epsilon": "100", "delta": "1e-6"}) as curator:
        model = curator.fit("SELECT day, late FROM data", target="late", model="classification", epsilon="20")
    assert np.mean(model.predict({"day": days}) == (days > np.datetime64("2026-04-01"))) > 0.95
