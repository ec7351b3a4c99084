"""What rows may do to a model: nothing but their share, whatever they hold, in whatever order they come."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import hush
from hush import learn
from hush.learn import convex_fits
from hush.learn.convex_fits import STEP

CHOICE = np.random.default_rng(5)  # picks rows, never noise
SCHEMA = {"age": (0, 99), "group": ["a", "b", "c"], "rate": (0.0, 1.0)}
ROWS = 4001
TABLE = {
    "age": CHOICE.integers(0, 100, ROWS),
    "group": np.array(["a", "b", "c"])[CHOICE.integers(0, 3, ROWS)],
    "rate": CHOICE.uniform(size=ROWS),
}
LABEL = (TABLE["age"] + CHOICE.normal(0, 20, ROWS) > 50).astype(int)
VALUE = TABLE["age"] * 2.0 + CHOICE.normal(0, 5, ROWS)
MAKERS = {
    "logistic": (lambda **k: learn.LogisticRegression(SCHEMA, **k), LABEL),
    "regression": (lambda **k: learn.Regression(SCHEMA, target=(0, 300), **k), VALUE),
    "linear": (lambda **k: learn.LinearModel(SCHEMA, target=(0, 300), **k), VALUE),
    "bayes": (lambda **k: learn.NaiveBayes(SCHEMA, **k), LABEL),
    "moments": (lambda **k: learn.Moments(SCHEMA, **k), None),
    "pca": (lambda **k: learn.PCA(SCHEMA, components=2, **k), None),
    "kmeans": (lambda **k: learn.KMeans({"age": (0, 99), "rate": (0, 1)}, clusters=3, epsilon=k["epsilon"]), None),
    "logistic of units": (lambda **k: learn.LogisticRegression(SCHEMA, rows=2, **k), LABEL),
    "regression of units": (lambda **k: learn.Regression(SCHEMA, target=(0, 300), rows=2, **k), VALUE),
}


def fit(kind, table, target, **settings):
    make, _ = MAKERS[kind]
    model = make(**{"epsilon": "1", **settings})
    return model.fit(table) if target is None else model.fit(table, target)


@pytest.fixture
def fixed_noise(monkeypatch):
    """Replace every draw by the same numbers, whoever asks for them."""

    def drawn(scale, size=None, **_):
        if size is None:
            return round(0.7 * float(scale))
        noise = np.cos(np.arange(np.prod(size)) * 1.7 + 0.3) * float(scale) * 1.3
        return np.rint(noise).astype(np.int64).reshape(size)

    for module in ("convex_fits", "budget", "linear", "pca", "bayes", "kmeans"):
        for name in ("rounded_gaussian", "discrete_laplace"):
            if hasattr(sys.modules[f"hush.learn.{module}"], name):
                monkeypatch.setattr(sys.modules[f"hush.learn.{module}"], name, drawn)
    monkeypatch.setattr(sys.modules["hush.learn.kmeans"], "uniform_integer", lambda n: n // 3)


def text(model):
    return json.dumps(model.to_json(), sort_keys=True)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("kind", MAKERS)
def test_order_types_and_chunks_of_the_rows_change_no_bit_of_a_release(kind, monkeypatch):
    target = MAKERS[kind][1]
    first = text(fit(kind, TABLE, target))
    order = CHOICE.permutation(ROWS)
    shuffled = {name: values[order] for name, values in TABLE.items()}
    assert text(fit(kind, shuffled, None if target is None else target[order])) == first
    retyped = {
        "age": TABLE["age"].astype(np.float32),
        "group": TABLE["group"].astype(object),
        "rate": TABLE["rate"].astype(object),
    }
    assert text(fit(kind, retyped, None if target is None else target.astype(object))) == first
    for module in ("features", "linear"):
        monkeypatch.setattr(sys.modules[f"hush.learn.{module}"], "_CHUNK", 97)
    assert text(fit(kind, TABLE, target)) == first
    assert text(fit(kind, {name: values[1:] for name, values in TABLE.items()}, None if target is None else target[1:]))


def test_threads_change_no_bit_of_a_release():
    program = """
import numpy as np
from hush import learn
from hush.learn import budget, convex_fits
def drawn(scale, size=None, **_):
    return np.rint(np.cos(np.arange(np.prod(size)) * 1.7) * float(scale)).astype(np.int64).reshape(size)
convex_fits.rounded_gaussian = budget.rounded_gaussian = drawn
x = (np.arange(60_000) * 7919) % 1000
rows = np.stack([x % 100, x // 10, x % 7, x % 13], axis=1)
model = learn.LogisticRegression((0, 99)).fit(rows, (x % 3 == 0).astype(int))
print(learn.Model.to_json(model)["released"])
"""
    outputs = set()
    for threads in ("1", "4"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1


HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e308, 999, None, "", "NaN", [], [1, 2], {}, 10**400, b"x", True]


@pytest.mark.parametrize("kind", MAKERS)
def test_hostile_rows_never_raise(kind):
    target = MAKERS[kind][1]
    for count in (0, 1, 3):
        rows = {name: list(TABLE[name][:count]) + HOSTILE for name in TABLE}
        labels = None if target is None else [*target[:count].tolist(), *HOSTILE]
        fit(kind, rows, labels, epsilon="0.5")
    empty = {name: values[:0] for name, values in TABLE.items()}
    fit(kind, empty, None if target is None else target[:0])
    constant = None if target is None else np.full(ROWS, target[0])
    fit(kind, TABLE, constant)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 1e308, 999.0])
def test_one_hostile_row_moves_a_minimum_by_no_more_than_one_row_may(value, monkeypatch):
    """‖θ_D − θ_D'‖ ≤ R/λ for one row, by strong convexity; curves are the minima's own, so they are compared."""
    minima = []
    original = convex_fits.certified_minimum

    def spy(how, *args, **named):
        minima.append((how, original(how, *args, **named)))
        return minima[-1][1]

    monkeypatch.setattr(convex_fits, "certified_minimum", spy)
    fit("logistic", TABLE, LABEL)
    more = {name: [*values.tolist(), value] for name, values in TABLE.items()}
    fit("logistic", more, [*LABEL.tolist(), 1])
    (how, one), (_, other) = minima
    assert one is not None
    assert np.linalg.norm(one - other) <= float(how.radius_squared) ** 0.5 / float(how.ridge) + 1e-6


@pytest.mark.parametrize("kind", MAKERS)
def test_nothing_in_a_model_is_as_long_as_the_table_or_tells_its_size(kind):
    model = fit(kind, TABLE, MAKERS[kind][1])

    def walk(value):
        if isinstance(value, np.ndarray):
            yield from value.shape
            yield from value.ravel().tolist()
        elif isinstance(value, (list, tuple)):
            yield len(value)
            for part in value:
                yield from walk(part)
        elif isinstance(value, (int, float)):
            yield value

    for name, value in vars(model).items():
        numbers = list(walk(value))
        assert ROWS not in numbers, name
        assert float(TABLE["rate"].min()) not in numbers, name
        assert float(TABLE["rate"].max()) not in numbers, name


def test_released_coefficients_lie_on_the_public_grid_and_float_noise_is_caught(monkeypatch):
    """Every release is a whole number of steps; noise added as floats, which has low bits of its own, is not."""
    released = []
    original = convex_fits.Perturbation.release

    def spy(self, *args):
        released.append(original(self, *args))
        return released[-1]

    monkeypatch.setattr(convex_fits.Perturbation, "release", spy)
    fit("logistic", TABLE, LABEL)
    steps = released[0] / float(STEP)
    assert np.array_equal(steps, np.rint(steps))

    def float_noise(sigma, size=None, **_):
        return CHOICE.normal(0, float(sigma), size)

    monkeypatch.setattr(convex_fits, "rounded_gaussian", float_noise)
    fit("logistic", TABLE, LABEL)
    steps = released[1] / float(STEP)
    assert not np.array_equal(steps, np.rint(steps))


def test_clusters_are_bounded_before_anything_is_charged():
    """A million centres took longer than a question may, after its charge, and went on when it was cancelled."""
    with hush.protect({"x": [0.5] * 20}, bounds={"x": (0, 1)}, budget="1") as curator:
        with pytest.raises(hush.InvalidValueError, match="at most 256"):
            curator.fit("SELECT x FROM data", model="kmeans", epsilon="0.5", clusters=10**6)
        assert curator.history() == []
