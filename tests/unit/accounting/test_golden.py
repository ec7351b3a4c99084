"""The golden values of composition, and the accuracy that is promised for them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from hush.accounting import compose, event_from_json

CASES = json.loads((Path(__file__).parents[2] / "data" / "accounting.json").read_text(encoding="utf-8"))


def answer(case):
    guarantee = compose(event_from_json(item) for item in case["mechanisms"])
    return guarantee.epsilon(case["at"]) if case["query"] == "epsilon at delta" else guarantee.delta(case["at"])


def excess(case, found):
    if (
        "adaptive-safe dominating pair" in case["description"]
    ):  # a bound that no mechanism attains, and others are below
        return max((found.upper - case["value"]) / case["value"], 0.0)
    return abs(found.upper - case["value"]) / case["value"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_value_lies_between_the_certified_ends(case):
    found = answer(case)
    assert found.lower <= case["upper"]
    assert found.upper >= case["lower"] or "adaptive-safe dominating pair" in case["description"]
    own = (case["upper"] - case["lower"]) / case["value"]
    assert excess(case, found) <= max(1e-6, own)


def test_half_of_the_values_are_met_to_nine_digits_and_more():
    assert median(excess(case, answer(case)) for case in CASES) < 1e-9


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_events_read_back_as_they_were_written(case):
    for item in case["mechanisms"]:
        event = event_from_json(item)
        again = event_from_json(json.loads(json.dumps(event.to_json())))
        assert again == event
        assert hash(again) == hash(event)
