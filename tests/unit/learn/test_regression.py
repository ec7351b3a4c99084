"""Logistic regression and regression: prices before rows, curves with bands, files without rows, refusals."""

import json
from fractions import Fraction

import numpy as np
import pytest

from hush import learn
from hush.accounting import ObjectivePerturbationEvent, compose
from hush.core import InvalidValueError
from hush.learn.budget import NeedsDeltaError, deviation, gaussian_budget, share_budget
from hush.learn.model import NotFittedError

CHOICE = np.random.default_rng(7)  # picks rows, never noise
SCHEMA = {"age": (0, 99), "group": ["a", "b", "c"]}
ROWS = 30_000
AGE = CHOICE.integers(0, 100, ROWS)
GROUP = CHOICE.integers(0, 3, ROWS)
TABLE = {"age": AGE, "group": np.array(["a", "b", "c"])[GROUP]}
SCORE = (AGE - 50) / 20 + 1.5 * (GROUP == 1)
LABEL = (CHOICE.uniform(size=ROWS) < 1 / (1 + np.exp(-SCORE))).astype(int)
VALUE = 100 + 10 * SCORE + CHOICE.normal(0, 3, ROWS)


def classifier(**changes):
    return learn.LogisticRegression(SCHEMA, **{"epsilon": "1", "delta": "1e-6", **changes})


def regressor(**changes):
    return learn.Regression(SCHEMA, **{"epsilon": "1", "delta": "1e-6", "target": (0, 200), **changes})


@pytest.mark.parametrize("make", [classifier, regressor])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "7"])
def test_the_price_is_within_the_budget_and_close_to_it(make, epsilon):
    price = compose([make(epsilon=epsilon).event]).epsilon("1e-6").upper
    assert 0.998 * float(epsilon) <= price <= float(epsilon)
    assert f"ε={float(epsilon):.6g}" in make(epsilon=epsilon).explain()


def test_classes_share_the_budget():
    event = classifier(target=["x", "y", "z"]).event
    parts = [part for part, _ in event.parts if isinstance(part, ObjectivePerturbationEvent)]
    assert sum(count for part, count in event.parts if isinstance(part, ObjectivePerturbationEvent)) == 3
    assert {part.mu_squared for part in parts} == {parts[0].mu_squared}


def test_two_classes_are_told_apart():
    """An AUC of about 0.83 without privacy; the noise at ε=1 costs less than 0.01 of it. False alarm below 1e-6."""
    model = classifier().fit(TABLE, LABEL)
    chance = model.predict_proba(TABLE)
    assert np.allclose(chance.sum(axis=1), 1)
    assert np.mean(model.predict(TABLE) == LABEL) > np.mean((SCORE > 0) == LABEL) - 0.02
    curve = model.shape("age")
    assert curve.values[-1] - curve.values[0] == pytest.approx(99 / 20, abs=1.5)
    assert model.coef_.shape == (1, 103)
    assert model.intercept_.shape == (1,)


def test_three_classes_are_told_apart():
    labels = np.array(["low", "middle", "high"])[np.digitize(AGE, [33, 66])]
    model = classifier(target=["low", "middle", "high"], epsilon="2").fit(TABLE, labels)
    assert model.predict_proba(TABLE).shape == (ROWS, 3)
    assert np.mean(model.predict(TABLE) == labels) > 0.85


@pytest.mark.parametrize("basis", ["additive", "linear"])
def test_a_strong_signal_is_found(basis):
    """Without privacy R² is 0.97; at ε=1 within 0.02 of it. The noise's share is about 0.001, so no false alarm."""
    model = regressor(basis=basis).fit(TABLE, VALUE)
    predicted = model.predict(TABLE)
    assert 1 - np.mean((predicted - VALUE) ** 2) / VALUE.var() > 0.95
    assert (predicted >= 0).all()
    assert (predicted <= 200).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_a_large_epsilon_costs_no_accuracy(rows):
    """With 300 rows noise no longer matters from ε=100 on.

    Over 100 fits at ε=100 no bound below came nearer than six deviations of what it bounds.
    """
    age = {name: values[:300] for name, values in TABLE.items()}
    right = {}
    for epsilon in ("100", "1000", "1e6", "1e12"):
        model = classifier(epsilon=epsilon, rows=rows).fit(age, LABEL[:300])
        right[epsilon] = np.mean(model.predict(TABLE) == (SCORE > 0))
        predicted = regressor(epsilon=epsilon, rows=rows).fit(age, VALUE[:300]).predict(TABLE)
        assert 1 - np.mean((predicted - VALUE) ** 2) / VALUE.var() > 0.8
    assert min(right.values()) > 0.8
    assert max(right["1000"], right["1e6"]) - right["1e12"] < 0.06


def test_curves_chart_themselves_and_show_no_band():
    """What is released does not tell how columns go together, so that no band of a curve holds as often as it says."""
    chart = regressor().fit(TABLE, VALUE).shape("group").chart()
    assert chart.svg.count('<rect class="c0"') == 3
    curve = classifier().fit(TABLE, LABEL).shape("age")
    assert curve.chart().title == "Effect of age"
    assert "band" not in curve.chart().svg.split("</style>")[1]
    assert not hasattr(curve, "errors")


@pytest.mark.parametrize("make", [classifier, regressor])
def test_saved_models_predict_the_same_and_hold_no_rows(make, tmp_path):
    model = make().fit(TABLE, LABEL)
    path = model.save(tmp_path / "model.json")
    again = learn.load(path)
    assert type(again) is type(model)
    assert np.array_equal(again.predict(TABLE), model.predict(TABLE))
    assert again.event == model.event
    assert np.array_equal(again.shape("age").values, model.shape("age").values)
    assert len(path.read_text(encoding="utf-8")) < 20_000
    assert json.loads(path.read_text(encoding="utf-8"))["format"] == "hush model"


def test_a_model_without_a_fit_says_so():
    for act in (lambda m: m.predict(TABLE), lambda m: m.shape("age"), lambda m: m.to_json(), lambda m: m.coef_):
        with pytest.raises(NotFittedError, match="fit"):
            act(classifier())


def test_what_makes_no_sense_is_refused_before_a_row_is_read():
    with pytest.raises(NeedsDeltaError, match="NaiveBayes"):
        classifier(delta=0).fit(TABLE, LABEL)
    with pytest.raises(NeedsDeltaError, match="LinearModel"):
        _ = regressor(delta=0).event
    with pytest.raises(InvalidValueError, match="basis"):
        classifier(basis="trees").fit(TABLE, LABEL)
    with pytest.raises(InvalidValueError, match="target"):
        classifier(target=[1]).fit(TABLE, LABEL)
    with pytest.raises(InvalidValueError, match="one label per row"):
        classifier().fit(TABLE, LABEL[:-1])
    with pytest.raises(InvalidValueError, match="colour"):
        classifier().fit(TABLE, LABEL).shape("colour")
    with pytest.raises(InvalidValueError, match="fit"):
        classifier().fit(TABLE, LABEL).shape("age", fit=1)
    with pytest.raises(InvalidValueError, match="parameters"):
        classifier().set_params(alpha=1)


def test_the_refusal_of_unequal_rows_does_not_say_how_many_there_are():
    with pytest.raises(InvalidValueError) as raised:
        regressor().fit(TABLE, VALUE[:-1])
    assert str(ROWS) not in str(raised.value)
    assert str(ROWS - 1) not in str(raised.value)


@pytest.mark.parametrize(("mu", "square"), [("1/25", 14), ("3e-9", 1), (400, "1e-12")])
def test_deviations_are_rounded_up_and_by_little(mu, square):
    sigma = deviation(Fraction(mu), square)
    assert 1 - Fraction(1, 2**40) <= Fraction(square) / sigma**2 / Fraction(mu) <= 1


def test_the_gaussian_budget_is_certified():
    mu_squared = gaussian_budget(Fraction(1), Fraction(1, 10**6))
    assert float(mu_squared) ** -0.5 == pytest.approx(4.224679, rel=1e-5)
    shares = share_budget(
        Fraction(1), Fraction(1, 10**6), looks=Fraction(1, 10), fits=(Fraction(9, 10),), two_sided=False
    )
    assert shares.looks + sum(shares.fits) < mu_squared


def test_a_target_may_be_a_column_of_the_schema(tmp_path):
    table = {**TABLE, "value": VALUE, "label": np.array(["no", "yes"])[LABEL]}
    schema = {**SCHEMA, "value": (0, 200), "label": ["no", "yes"]}
    number = {name: spec for name, spec in schema.items() if name != "label"}
    model = learn.Regression(number, target="value").fit(table)
    assert 1 - np.mean((model.predict(table) - VALUE) ** 2) / VALUE.var() > 0.9
    assert np.array_equal(learn.load(model.save(tmp_path / "model.json")).predict(TABLE), model.predict(TABLE))
    linear = learn.LinearModel(number, target="value").fit(table)
    assert len(linear.coef_) == 3
    label = {name: spec for name, spec in schema.items() if name != "value"}
    for kind in (learn.LogisticRegression, learn.NaiveBayes):
        assert set(kind(label, target="label").fit(table).predict(TABLE)) == {"no", "yes"}
    for wrong in (None, "colour", "label"):
        with pytest.raises(InvalidValueError):
            learn.Regression(schema, target=wrong).fit(table)
    with pytest.raises(InvalidValueError, match="classes"):
        learn.LogisticRegression(schema, target="value").fit(table)
    with pytest.raises(InvalidValueError, match="target"):
        learn.Regression(SCHEMA).fit(TABLE, VALUE)
