"""hush audits itself, and finds mutants of itself. All of them nightly, some always."""

from __future__ import annotations

import dataclasses
import os
from importlib import import_module

import numpy as np
import pytest

import hush
from hush.audit import audit
from hush.audit.ourselves import _curator as curators
from hush.audit.ourselves import asked, ourselves, question_pairs
from hush.curator import pipeline
from hush.engines.sql import bounding as sql_rows
from hush.mechanisms.grouped import keys as key_choice
from hush.query.plan import stability

plan = import_module("hush.query.plan.plan")  # the package has a function of that name
CASES = int(os.environ.get("HUSH_CASES", "0"))
SECONDS = float(os.environ.get("HUSH_AUDIT_SECONDS", "0"))
ONE, HEAVY, *_ = question_pairs()
BASE = ONE[1]
EVERYWHERE = ([*BASE, *({**BASE[0], "who": "new", "x": x % 11} for x in range(33))], BASE)
TWO_KEYS = ([1, 1], [0, 0])  # how many units have each of two keys


def _no_group_bound(patch):
    patch.setattr(sql_rows.FreshRows, "order", lambda _: None)


def _bound_without_the_key(patch):
    original = sql_rows.window

    def window(name, by, order, *more, **options):
        return original(name, by, [] if name == "dense_rank" else order, *more, **options)

    patch.setattr(sql_rows, "window", window)


def _step_rounded_twice(patch):
    original = plan.per_group
    patch.setattr(plan, "per_group", lambda item, rows: max(1, original(item, rows) // 4))


def _delta_not_split(patch):
    original = key_choice.keep_probabilities
    patch.setattr(key_choice, "keep_probabilities", lambda epsilon, delta, keys: original(epsilon, delta * keys, keys))


def _unit_in_two_tables(patch):
    patch.setattr(stability, "one_row_per_unit", lambda *_, **__: True)


def _noise_of_the_wrong_column(patch):
    original = pipeline.release

    def release(made, exact, selector):
        quietest = min((noise.law for noise in made.noises), key=lambda law: law.variance)
        noises = tuple(dataclasses.replace(noise, law=quietest) for noise in made.noises)
        return original(dataclasses.replace(made, noises=noises), exact, selector)

    patch.setattr(pipeline, "release", release)


def _threshold_one_lower(patch):
    original = key_choice.KeySelection.release

    def release(self, units):
        counts = np.asarray(units)
        return original(self, counts + (counts > 0))

    patch.setattr(key_choice.KeySelection, "release", release)


def _old_bounds(patch):
    original, kept = plan.sensitivity, {}
    patch.setattr(plan, "sensitivity", lambda item, limits: kept.setdefault(type(item), original(item, limits)))
    narrow = hush.protect([{"x": 1}], bounds={"x": (0, 1)}, budget=1)
    narrow.ask("SELECT SUM(x) AS s FROM data", epsilon="1")


WIDE = "SELECT x, COUNT(*) AS n FROM visits GROUP BY x"
SUMS = "SELECT COUNT(DISTINCT who) AS n, SUM(x) AS s FROM visits"
MUTANTS = {
    "no group bound": (_no_group_bound, WIDE, EVERYWHERE, "0"),
    "bound without the key": (_bound_without_the_key, WIDE, EVERYWHERE, "0"),
    "step rounded twice": (_step_rounded_twice, "SELECT SUM(x) AS s FROM visits", HEAVY, "0"),
    "δ not split": (_delta_not_split, "", TWO_KEYS, "0.05"),
    "a unit in two tables": (
        _unit_in_two_tables, "SELECT COUNT(*) AS n FROM visits JOIN stays ON visits.who = stays.who", HEAVY, "0",
    ),
    "noise of the wrong column": (_noise_of_the_wrong_column, SUMS, HEAVY, "0"),
    "threshold one lower": (_threshold_one_lower, "", TWO_KEYS, "0.05"),
    "old bounds": (_old_bounds, SUMS, HEAVY, "0"),
}  # fmt: skip
QUICK = {"threshold one lower", "old bounds"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name, monkeypatch):
    if not CASES and name not in QUICK:
        pytest.skip("make nightly")
    plant, sql, pair, delta = MUTANTS[name]

    def release(rows):
        if sql:
            return asked(sql, rows, delta)["rows"]
        return hush.KeySelection(epsilon=1, delta=delta, keys=2).release(np.array(rows)).tolist()

    options = {"epsilon": 1, "delta": delta, "pairs": [pair], "isolated": False}
    curators.cache_clear()  # a curator keeps the statements that it has written
    with monkeypatch.context() as patch:
        plant(patch)
        assert audit(release, seconds=120, **options).violation is not None
    curators.cache_clear()
    sound = audit(release, **options | {"runs": 150, "level": "1e-6"})
    assert sound.violation is None


@pytest.mark.parametrize("name", ["Laplace", "RandomizedResponse", "ask: public keys", "curator.marginals"])
def test_parts_of_hush_are_as_private_as_they_say(name):
    """False alarms have probability 1e-6."""
    assert not ourselves()[name].audit(seconds=SECONDS or 2, level="1e-6").violation


@pytest.mark.skipif(not SECONDS, reason="make nightly")
@pytest.mark.parametrize("name", ourselves())
def test_all_parts_of_hush_are_as_private_as_they_say(name):
    assert not ourselves()[name].audit(seconds=SECONDS, level="1e-7").violation


def test_all_kinds_of_things_are_audited():
    names = " ".join(ourselves())
    for word in ("private keys", "quantile", "mode", "distinct", "join", "window", "roll-up", "synth", "fit", "stream"):
        assert word in names
