"""Where there are fewer public keys than max_groups, they bound in how many groups a unit is; and what answers say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hush import protect
from hush.query.plan import expected_error

FRAME = pa.table({"id": [1, 1, 2, 3], "age": [20, 60, 90, 35], "x": [1.0, 2.0, 3.0, 4.0], "k": ["a", "b", "a", "z"]})
OPTIONS = {
    "unit": "id",
    "bounds": {"age": (0, 50), "x": (0, 5)},
    "values": {"k": ["a", "b", "c"]},
    "max_rows": 2,
    "budget": {"epsilon": 10**6, "delta": "1e-6"},
}
CLAMPED = "values outside the declared bounds are moved to the nearest bound"


@pytest.mark.parametrize("most", [1, 2, 3, 4, 60])
@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("SELECT k, COUNT(*) AS n FROM data GROUP BY k", 3),
        ("SELECT k, COUNT(*) AS n FROM data WHERE k = 'a' GROUP BY k", 1),
        ("SELECT k, age > 30 AS old, COUNT(*) AS n FROM data WHERE age IS NOT NULL GROUP BY k, old", 6),
        ("SELECT FLOOR(age / 10) AS d, SUM(x) AS s FROM data GROUP BY d", 6),
    ],
)
def test_keys_bound_groups(question: str, keys: int, most: int) -> None:
    with protect(FRAME, max_groups=most, **OPTIONS) as curator:
        desk, how = curator.plan(question, epsilon=1)
        assert how.exact_query.limits.groups == min(most, keys)
        assert len(desk.engine.run(how).keys) == keys  # no more than was counted on
        bounded = any(f"counts in at most {most} group" in note for note in how.caveats)
        assert bounded == (most < keys)


def test_errors_do_not_grow_with_groups_that_cannot_be() -> None:
    def error(most: int, question: str) -> float:
        with protect(FRAME, max_groups=most, **OPTIONS) as curator:
            plan = curator.plan(question, epsilon=1)[1]
            return expected_error(plan, plan.question.outputs[-1][1])

    by_key = "SELECT k, COUNT(*) AS n FROM data GROUP BY k"
    assert error(60, by_key) == error(3, by_key) > error(2, by_key)
    one = "SELECT k, COUNT(*) AS n FROM data WHERE k = 'a' GROUP BY k"
    assert error(60, one) == error(1, "SELECT COUNT(*) AS n FROM data")


def test_keys_of_the_data_alone_are_bounded_as_declared() -> None:
    with protect(FRAME, max_groups=7, **{**OPTIONS, "values": {}}) as curator:
        assert curator.plan("SELECT k, COUNT(*) FROM data GROUP BY k", epsilon=1)[1].exact_query.limits.groups == 7


@pytest.mark.parametrize(
    ("question", "clamped"),
    [
        ("SELECT COUNT(*) FROM data", False),
        ("SELECT COUNT(*) FROM data WHERE k = 'a'", False),
        ("SELECT MODE(k) FROM data", False),
        ("SELECT COUNT(*) FROM data WHERE age > 30", True),
        ("SELECT MEDIAN(age) FROM data", True),
        ("SELECT MAX(age) FROM data", True),
        ("SELECT MODE(age) FROM data", True),
        ("SELECT AVG(x) FROM data", True),
        ("SELECT FLOOR(age / 10) AS d, COUNT(*) FROM data GROUP BY d", True),
    ],
)
def test_answers_say_that_values_are_moved_to_bounds(question: str, clamped: bool) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        assert (CLAMPED in curator.explain(question, epsilon=1).plan.caveats) == clamped


def test_what_becomes_of_other_keys() -> None:
    with protect(FRAME, **OPTIONS) as curator:

        def said(question: str) -> str:
            return curator.plan(question, epsilon=1)[1].caveats[-1]

        listed = said("SELECT k, COUNT(*) FROM data GROUP BY k")
        groups = "all declared groups are listed, also empty ones"
        assert listed == f"{groups}; rows with another value, or without one, are not counted"
        moved = said("SELECT age, COUNT(*) FROM data GROUP BY age")
        assert moved == f"{groups}; rows without a value are not counted"
