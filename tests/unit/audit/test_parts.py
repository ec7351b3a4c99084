"""The parts of an audit: outcomes, runs of functions that nobody trusts, neighbours, events and laws."""

from __future__ import annotations

import json
import math
import os
import random
import time

import numpy as np
import pytest

import hush
from hush.audit.events import best_event
from hush.audit.neighbours import as_pair, hostile, random_pair, read_pairs
from hush.audit.runs import AuditError, Runs, Sample, described, observed
from hush.audit.statistics import LawTest


class _Rude:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (1, "int"), (-0.0, "float"), (None, "NoneType"), ("a", "str"), (True, "bool"), (np.float32(2), "float32"),
        ([1, 2.0], "list[float | int × 2]"), ((), "tuple[ × 0]"), ({1: 2}, "dict{1: int}"), ({3, 4}, "set[2]"),
        (np.zeros((2, 3)), "float64[2, 3]"), (np.zeros(10**6), "float64[1000000]"), (_Rude(), "_Rude"),
        (ValueError("x"), "raises ValueError"), (10**400, "int"), (b"x" * 10**7, "bytes"), ("\ud800" * 500, "str"),
    ],
)  # fmt: skip
def test_every_value_is_an_outcome(value, form):
    seen = described(value)
    assert seen.form == form
    assert len(seen.token) <= 130
    assert json.loads(json.dumps(seen.to_json()))[0] == form


def test_outcomes_are_the_same_if_and_only_if_values_are():
    values = [0.0, -0.0, 0, False, math.nan, None, "0", [0], (0,), {0}, {0: 0}, np.zeros(1), np.zeros(20), np.ones(20)]
    tokens = [(described(value).form, described(value).token) for value in values]
    assert len(set(tokens)) == len(values)
    assert described({"b": 1, "a": 2}).token == described({"a": 2, "b": 1}).token


def test_exceptions_warnings_and_generators_are_seen():
    def warns(_):
        import warnings

        warnings.warn("look", stacklevel=1)
        return 1

    def yields(_):
        yield 1
        raise SystemExit

    assert observed(warns, []).form == "int warns UserWarning"
    assert observed(yields, []).form == "raises SystemExit"


def test_data_frames_and_answers_are_read():
    import pandas as pd

    seen = described(pd.DataFrame({"n": [1.5, 2.5]}))
    assert seen.numbers == [1.5, 2.5]
    assert seen.keys == ["n"]


# -- runs ---------------------------------------------------------------------------------------------------------


def _forms(function, times=6, **options):
    with Runs(function, **options) as runs:
        return [outcome.form for outcome in runs.of([1, 2], times=times)]


def test_hostile_functions_give_outcomes():
    def changes(rows):
        rows.append(1)
        print("hello")  # noqa: T201 - that is what it does
        return len(rows)

    kinds = iter([1, "a", None, 2.0, [1], {1}])
    assert _forms(changes) == ["int"] * 6
    assert _forms(lambda _: next(kinds)) == ["int", "str", "NoneType", "float", "list[int × 1]", "set[1]"]
    assert _forms(lambda _: b"x" * 5_000_000, times=3) == ["bytes"] * 3
    assert _forms(lambda _: os._exit(3), times=3) == ["ends its process"] * 3


def test_runs_that_meet_the_limit_of_memory_count_for_neither_side():
    with Runs(lambda rows: np.zeros(2**40) if rows else 1) as runs:
        with pytest.raises(AuditError, match="GiB of memory"):
            runs.of([1], times=100)
        assert runs.starved > 12
        assert runs.failures == 0


def test_an_endless_function_is_stopped_and_told():
    begun = time.monotonic()
    assert _forms(lambda _: time.sleep(60), times=2, limit=0.2) == ["gives no answer in 0.2 s"] * 2
    with Runs(lambda _: time.sleep(60), limit=0.05) as runs, pytest.raises(AuditError, match=r"no answer in 13 runs"):
        runs.of([], times=100)
    assert time.monotonic() - begun < 30


def test_a_generator_of_random_numbers_goes_on_in_the_child():
    generator = random.Random(1)
    with Runs(lambda _: generator.random()) as runs:
        tokens = [outcome.token for _ in range(5) for outcome in runs.of([], times=5)]
    assert len(set(tokens)) == 25


# -- neighbours ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("schema", [(0, 10), (0.0, 1.0), ["a", "b"], {"age": (0, 120), "sex": ["f", "m"]}])
def test_pairs_are_neighbours(schema, neighbours):
    listed = hostile(schema, neighbours)
    made = [random_pair(schema, neighbours) for _ in range(20)]
    for pair in listed + made:
        if pair.name.endswith("row order"):
            assert sorted(map(repr, pair.left)) == sorted(map(repr, pair.right))
            continue
        left, right = [*map(repr, pair.left)], [*map(repr, pair.right)]
        assert len(left) - len(right) == (neighbours == "add-remove")
        assert left[: len(right) - (neighbours == "replace")] == right[: len(right) - (neighbours == "replace")]


def test_the_catalogue_of_pairs_has_what_libraries_get_wrong():
    names = " ".join(pair.name for pair in hostile({"x": (0, 1), "c": ["a", "b"]}, unit="who"))
    for word in ("NaN", "∞", "-0.0", "NULL", "new category", "heavy unit", "tie", "outlier", "2^63", "none"):
        assert word in names
    heavy = next(pair for pair in hostile({"x": (0, 1)}, unit="who") if pair.name.startswith("a heavy unit"))
    assert {row["who"] for row in heavy.left} - {row["who"] for row in heavy.right} == {"unit new"}


def test_pairs_are_read_from_json(tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text('[[[1, NaN], [1]], {"name": "mine", "left": [2], "right": []}]', "utf-8")
    first, second = read_pairs(path)
    assert (len(first.left), first.right, second.name) == (2, [1], "mine")
    path.write_text("[1]", "utf-8")
    with pytest.raises(hush.InvalidValueError, match="pairs"):
        read_pairs(path)
    with pytest.raises(hush.InvalidValueError):
        as_pair(3)


# -- events -------------------------------------------------------------------------------------------------------


def _sample(values):
    return Sample([described(value) for value in values])


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ([0.1 + i / 8 for i in range(40)], [i / 8 for i in range(40)], "low bits"),
        ([1] * 40, [2] * 40, "value"),
        ([{"a": 1}] * 40, [{"a": 1, "b": 1}] * 40, "value"),
        ([math.nan] * 40, [1.0] * 40, "value"),
    ],
)
def test_events_of_many_kinds_are_found(left, right, kind):
    event = best_event(_sample(left), _sample(right), [(1.0, 0.0)])
    assert event.gain > 0
    assert kind in {event.kind, "value"}
    counts = [int(event.holds(_sample(side)).sum()) for side in (left, right)]
    assert abs(counts[0] - counts[1]) > 25


def test_an_event_depends_on_its_own_outcome_alone():
    """A longer outcome in the same sample must not change what is said of a shorter one: bets would not be honest."""
    choice = np.random.default_rng(1)
    left = _sample([[float(choice.normal())] * choice.integers(1, 5) for _ in range(100)])
    right = _sample([[float(choice.normal() + 1)] * choice.integers(1, 8) for _ in range(100)])
    for _ in range(20):
        event = best_event(left, right, [(float(choice.random()), 0.0)])
        together = event.holds(left)
        alone = np.concatenate([event.holds(left.part(index, index + 1)) for index in range(100)])
        assert np.array_equal(together, alone)
        left, right = right, left.part(0, 60)
        right.extend(left.outcomes[:40])


# -- laws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "law", [hush.Laplace(sensitivity=1, epsilon="0.3"), hush.Gaussian(sensitivity=1, sigma=2)], ids=["laplace", "gauss"]
)
def test_a_law_is_refuted_only_if_the_noise_has_another(law):
    honest, narrow, off = LawTest(law), LawTest(law), LawTest(law)
    for size in (500, 1000, 2000, 4000):
        draws = law.release(np.zeros(size, dtype=np.int64))
        honest.add(draws)
        narrow.add(np.round(draws * 0.8))
    off.add([0.5])
    assert not honest.refuted(1e-6)
    assert narrow.refuted(1e-6)
    assert off.refuted(1e-6)
