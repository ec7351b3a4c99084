"""Moments, least squares with intervals, components, naive Bayes, k-means and selection."""

import numpy as np
import pytest

from hush import learn
from hush.accounting import ApproximateDPEvent, compose
from hush.core import InvalidValueError
from hush.learn.budget import NeedsDeltaError
from hush.learn.linear import Moments, integer_rows
from hush.learn.pca import _products
from hush.learn.schema import ModelSchema

CHOICE = np.random.default_rng(11)  # picks rows, never noise
SCHEMA = {"age": (0, 100), "sex": ["f", "m"], "pay": (0, 1000)}
ROWS = 20_000
AGE = CHOICE.uniform(10, 90, ROWS)
SEX = CHOICE.integers(0, 2, ROWS)
PAY = 100 + 5 * AGE + 80 * SEX + CHOICE.normal(0, 40, ROWS)
TABLE = {"age": AGE, "sex": np.array(["f", "m"])[SEX], "pay": PAY}


def plain(count=ROWS):
    """Return Σzzᵀ of the table without noise."""
    columns = ModelSchema.parse(SCHEMA).columns
    parts = ModelSchema.parse(SCHEMA).split({name: values[:count] for name, values in TABLE.items()})
    return sum(rows.T @ rows for rows in integer_rows(columns, parts)) / 2.0**24


@pytest.mark.parametrize("delta", ["1e-6", 0])
def test_the_release_is_the_moments_and_noise_of_the_stated_size(delta):
    model = Moments(SCHEMA, "1", delta).fit(TABLE)
    noise = (model.matrix_ - plain())[np.triu_indices(5)]
    assert np.abs(noise).max() < 25 * model.sigma_  # a tail of e^(-35) for Laplace noise, of nothing for Gaussian
    assert np.abs(noise).max() > model.sigma_ / 100
    assert np.array_equal(model.matrix_, model.matrix_.T)


def test_one_row_changes_the_upper_triangle_by_no_more_than_stated():
    """Over hostile rows and random ones; the bound is met with equality at the corners."""
    columns = ModelSchema.parse(SCHEMA).columns
    limit = Moments(SCHEMA)._sensitivity()
    worst = 0.0
    for age, sex, pay in [
        (0, "f", 0),
        (100, "m", 1000),
        (np.nan, None, np.inf),
        (-1e308, "x", 1e308),
        (37, "m", 512.3),
    ]:
        (row,) = integer_rows(columns, [[age], [sex], [pay]])
        change = np.outer(row[0], row[0])[np.triu_indices(row.shape[1])] / 2.0**24
        worst = max(worst, float(change @ change), float(np.abs(change).sum()))
        assert change @ change <= limit
        assert np.abs(change).sum() <= limit
    assert worst == limit


def test_least_squares_follow_for_any_columns_at_no_further_price():
    model = learn.moments(TABLE, SCHEMA, epsilon="4")
    fit = model.regression("pay")
    assert [one.name for one in fit.coefficients] == ["(intercept)", "age", "sex=m"]
    assert fit.values == pytest.approx([100, 5, 80], rel=0.1)
    assert (fit.interval("0.999999")[:, 0] <= [100, 5, 80]).all()
    assert (fit.interval("0.999999")[:, 1] >= [100, 5, 80]).all()
    alone = model.regression("age", ["sex"])
    assert len(alone.coefficients) == 2
    assert str(fit).split()[:4] == ["estimate", "from", "to", "p"]
    assert fit.coefficients[1].p_value < 1e-6
    assert model.correlation()[0, 3] == pytest.approx(np.corrcoef(AGE, PAY)[0, 1], abs=0.05)
    assert model.mean() == pytest.approx([AGE.mean(), 0.5, 0.5, PAY.mean()], rel=0.05)
    assert np.linalg.eigvalsh(model.covariance()).min() > -1e-6


def test_a_regression_that_makes_no_sense_is_refused():
    model = learn.moments(TABLE, SCHEMA)
    for target, columns in (("sex", None), ("pay", ["pay"]), ("pay", ["colour"]), ("pay", ["age", "age"])):
        with pytest.raises(InvalidValueError):
            model.regression(target, columns)


def test_a_linear_model_predicts_and_keeps_its_intervals_in_a_file(tmp_path):
    schema = {name: spec for name, spec in SCHEMA.items() if name != "pay"}
    model = learn.LinearModel(schema, epsilon="4", target=(0, 1000)).fit(TABLE, PAY)
    assert 1 - np.mean((model.predict(TABLE) - PAY) ** 2) / PAY.var() > 0.85
    again = learn.load(model.save(tmp_path / "model.json"))
    assert np.array_equal(again.interval(0.9), model.interval(0.9))
    assert np.array_equal(again.predict(TABLE), model.predict(TABLE))
    assert model.summary(["age"]).coefficients[1].name == "age"
    with pytest.raises(InvalidValueError, match="one target per row"):
        model.fit(TABLE, PAY[:-1])


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_give_wide_intervals_and_no_error(rows):
    part = {name: values[:rows] for name, values in TABLE.items()}
    schema = {name: spec for name, spec in SCHEMA.items() if name != "pay"}
    ends = learn.LinearModel(schema, target=(0, 1000)).fit(part, PAY[:rows]).interval()
    assert (ends[:, 1] > ends[:, 0]).all()


def lines(kind, rows):
    """Return three columns within ±1, the target, and the coefficients of the line it comes from."""
    match kind:
        case "strong":
            x = CHOICE.uniform(-1, 1, (rows, 3))
            beta, spread = np.array([0.6, 0.2, -0.1]), 0.02
        case "correlated":
            x = np.clip(CHOICE.normal(0, 0.3, (rows, 1)) + CHOICE.normal(0, 0.1, (rows, 3)), -1, 1)
            beta, spread = np.array([0.5, -0.3, 0.2]), 0.1
        case _:
            x = np.minimum(CHOICE.exponential(0.05, (rows, 3)), 2) - 1
            beta, spread = np.array([0.8, 0.1, 0.0]), 0.05
    return x, np.clip(x @ beta + CHOICE.normal(0, spread, rows), -1, 1), beta


@pytest.mark.parametrize(
    ("kind", "rows", "epsilon", "delta"),
    [
        ("strong", 1000, "0.1", "1e-6"),
        ("strong", 1000, "1", "1e-6"),
        ("strong", 1000, "10", "0"),
        ("correlated", 1000, "1", "1e-6"),
        ("correlated", 3000, "10", "1e-6"),
        ("skewed", 1000, "10", "1e-6"),
    ],
)
def test_intervals_hold_where_lines_are_strong_and_columns_correlated_or_skewed(kind, rows, epsilon, delta):
    """Of 600 intervals, three from each of 200 fits, fewer than 510 hold with a probability below 1e-6, even where the
    three of a fit hold or miss together and each holds in 94.5 % of cases."""
    held = 0
    for _ in range(200):
        x, y, beta = lines(kind, rows)
        ends = learn.LinearModel((-1, 1), epsilon, delta, target=(-1, 1)).fit(x, y).interval()
        held += int(((ends[:, 0] <= beta) & (beta <= ends[:, 1])).sum())
    assert held >= 510


def test_a_level_that_few_rows_have_leaves_the_others_known():
    """The noise of a count is 16 rows: of ten nothing is known, but the other columns' effects are. At 1 − 10⁻⁶ the
    interval holds; that the noise hides a slope of ten deviations has a smaller probability."""
    group = np.where(np.arange(20_000) < 10, 2, np.arange(20_000) % 2)
    age = CHOICE.uniform(0, 100, 20_000)
    pay = 100 + 5 * age + 80 * group + CHOICE.normal(0, 50, 20_000)
    schema = {"age": (0, 100), "group": [0, 1, 2]}
    line = learn.LinearModel(schema, "1", target=(0, 1000)).fit({"age": age, "group": group}, pay).summary()
    low, high = line.interval()[1]
    assert 3 < low < 5.5
    assert 4.5 < high < 7
    assert line.coefficients[1].p_value < 0.05


def test_components_point_where_the_rows_do(tmp_path):
    along = CHOICE.uniform(0.2, 0.8, 30_000)
    rows = np.stack([along, along, np.full(30_000, 0.5)], axis=1) + CHOICE.normal(0, 0.01, (30_000, 3))
    model = learn.PCA({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, components=2).fit(rows)
    assert abs(model.components_[0] @ np.array([1, 1, 0]) / np.sqrt(2)) > 0.999
    again = learn.load(model.save(tmp_path / "pca.json"))
    assert np.array_equal(again.transform(rows[:5]), model.transform(rows[:5]))
    with pytest.raises(InvalidValueError, match="protected"):
        model.fit_transform(rows)
    with pytest.raises(NeedsDeltaError):
        learn.PCA({"a": (0, 1)}, components=1, delta=0).fit(rows[:, :1])


def test_long_rows_are_shortened_to_the_length_that_is_priced():
    columns = ModelSchema.parse({f"x{i}": (0, 1) for i in range(6)}).columns
    for row in (np.ones(6), np.linspace(0.1, 1, 6), np.array([np.inf, np.nan, 1, 0, -5, 0.3])):
        product = _products(integer_rows(columns, list(row[:, None]), lowest=0), 2, 7) / 2.0**24
        change = product[np.triu_indices(7)]
        assert change @ change <= ((1 + 2) ** 2 + 1 + 2) / 2
        assert np.trace(product) <= 3


@pytest.mark.parametrize("delta", ["1e-6", 0])
def test_naive_bayes_tells_classes_apart_with_and_without_delta(delta, tmp_path):
    labels = np.where(PAY > 400, "high", "low")
    schema = {name: spec for name, spec in SCHEMA.items() if name != "pay"}
    model = learn.NaiveBayes(schema, "1", delta, target=["low", "high"]).fit(TABLE, labels)
    assert np.mean(model.predict(TABLE) == labels) > 0.85
    assert np.allclose(model.predict_proba(TABLE).sum(axis=1), 1)
    again = learn.load(model.save(tmp_path / "bayes.json"))
    assert np.array_equal(again.predict_proba(TABLE), model.predict_proba(TABLE))
    if delta == 0:
        assert model.event == ApproximateDPEvent(epsilon=1)
    else:
        assert compose([model.event]).epsilon("1e-6").upper <= 1


def test_clusters_are_found_purely(tmp_path):
    middles = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]])
    rows = middles[CHOICE.integers(0, 3, 9000)] + CHOICE.normal(0, 0.03, (9000, 2))
    model = learn.KMeans({"x": (0, 1), "y": (0, 1)}, clusters=3, epsilon="1").fit(rows)
    distance = np.sqrt(((model.cluster_centers_[:, None] - middles) ** 2).sum(axis=2))
    assert (distance.min(axis=0) < 0.05).all()
    assert model.event.pure_epsilon() <= 1
    again = learn.load(model.save(tmp_path / "clusters.json"))
    assert np.array_equal(again.predict(rows), model.predict(rows))
    with pytest.raises(InvalidValueError, match="numbers"):
        learn.KMeans({"x": (0, 1), "g": ["a", "b"]}).fit({"x": [1.0], "g": ["a"]})
    assert learn.KMeans({"x": (0, 1)}, clusters=2).fit(np.zeros((0, 1))).cluster_centers_.shape == (2, 1)


def test_more_columns_are_clustered_by_synthetic_rows():
    """Two far clusters of 10,000 rows at ε = 8: noise would have to be a hundred times its deviation to hide them."""
    draws = np.random.default_rng(1)
    rows = np.repeat([[0.2] * 5, [0.8] * 5], 10_000, axis=0) + draws.uniform(-0.1, 0.1, (20_000, 5))
    models = [learn.KMeans((0, 1), epsilon="8", delta=delta, clusters=2) for delta in ("1e-6", 0)]
    model, pure = (model.fit(part) for model, part in zip(models, (rows, rows[:0]), strict=True))
    assert np.allclose(np.sort(model.cluster_centers_, axis=0), [[0.2] * 5, [0.8] * 5], atol=0.1)
    assert pure.cluster_centers_.shape == (2, 5)
    assert compose([model.event]).epsilon("1e-6") <= 8
    assert pure.event.pure_epsilon() <= 8


def test_selection_keeps_the_best_and_costs_what_the_theorem_says():
    schemas = [{"age": (0, 100)}, {"age": (99, 100)}]
    labels = AGE > 50
    candidates = [learn.NaiveBayes(schema, "0.2", "1e-6") for schema in schemas]
    public, truth = {"age": np.arange(100.0)}, np.arange(100) > 50
    chosen = learn.select(
        candidates, {"age": AGE}, labels, score=lambda m: float(np.mean(m.predict(public) == truth)), expected_trials=30
    )
    # All of some 30 trials would have to pick the second candidate, or there be one or two of them: at most 1/20 each.
    assert isinstance(chosen.model, learn.NaiveBayes)
    price = compose([chosen.event]).epsilon("1e-6").upper
    assert 0.2 < price < 2
    more = compose([learn.selection_event(candidates, expected_trials=1000)]).epsilon("1e-6").upper
    assert price < more < 2 * price
    pure = [learn.NaiveBayes(schema, "0.2", 0) for schema in schemas]
    assert learn.selection_event(pure).pure_epsilon() == pytest.approx(0.6)
    with pytest.raises(InvalidValueError):
        learn.selection_event([])
    with pytest.raises(InvalidValueError):
        learn.selection_event(pure, expected_trials="0.5")
