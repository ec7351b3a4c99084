"""Bars hold for the rows that are shown, however noise decided which these are.

The bound is 93 % of all rows shown, over many answers. A check fails only where so few bars held that a share of 93 %
gives as few with a probability below 1e-6, if they held independently; what is shown together shares no noise. False
alarm: below 1e-6 each.
"""

from __future__ import annotations

import pytest
from scipy.stats import binom
from selected_runs import Shown, groups, shown

LIKE = [100] * 70
ZEROS = [1000] * 3 + [0] * 67
RUNS = 400
QUESTION = "SELECT g, {} FROM data GROUP BY g {}"


def assert_holds(found: Shown) -> None:
    assert found.rows >= 20, found
    assert found.held >= binom.ppf(1e-6, found.rows, 0.93), found


@pytest.mark.parametrize(
    "rest",
    [
        "ORDER BY n DESC LIMIT 3",
        "ORDER BY n LIMIT 3",
        "ORDER BY n DESC LIMIT 1",
        "ORDER BY 2 * COUNT(*) - 1 DESC LIMIT 20 OFFSET 1",
        "HAVING n > 130",
        "HAVING n < 70 OR n > 140",
        "HAVING n > 130 ORDER BY n DESC LIMIT 1",
    ],
)
def test_of_like_groups_those_that_are_shown_are_covered(rest: str) -> None:
    with groups(LIKE) as desk:
        assert_holds(shown(desk, QUESTION.format("COUNT(*) AS n", rest), "0.1", RUNS)["n"])


@pytest.mark.parametrize(
    "rest",
    [
        "HAVING n > 50",
        "HAVING ABS(n) > 50 ORDER BY g",
        "HAVING n BETWEEN 40 AND 80",
        "HAVING n > 40 ORDER BY n LIMIT 2",
    ],
)
def test_noise_is_not_shown_as_a_finding(rest: str) -> None:
    """Of rows that nobody is in, as of others: their bars reach down to 0."""
    with groups([*ZEROS[3:]]) as desk:
        assert_holds(shown(desk, QUESTION.format("COUNT(*) AS n", rest), "0.1", 2 * RUNS)["n"])


def test_rows_far_from_the_threshold_have_bars_that_are_little_wider() -> None:
    """At α/2 a bar is ln(40)/ln(20) = 1.23 times as wide."""
    with groups(ZEROS[:3]) as desk:
        plain = shown(desk, QUESTION.format("COUNT(*) AS n", ""), "0.1", 20)["n"]
        having = shown(desk, QUESTION.format("COUNT(*) AS n", "HAVING n > 50"), "0.1", 20)["n"]
    assert plain.median < having.median < 1.3 * plain.median


@pytest.mark.parametrize(
    ("outputs", "rest", "epsilon"),
    [
        ("COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a", "HAVING n > 50", "0.1"),
        ("COUNT(*) AS n, SUM(y) AS s", "HAVING SUM(y) > 1000", "0.2"),
        ("AVG(x) AS a, COUNT(*) AS n", "ORDER BY a DESC LIMIT 5", "1"),
        ("STDDEV(x) AS d", "ORDER BY d DESC LIMIT 5", "2"),
        ("SUM(y) / COUNT(*) AS r", "ORDER BY r DESC LIMIT 5", "1"),
        ("AVG(x) AS a", "HAVING a > 54", "1"),
        ("COUNT(*) AS n, MEDIAN(x) AS m", "HAVING n > 60 AND m > 40", "0.5"),
    ],
)
def test_every_output_of_a_shown_row_is_covered(outputs: str, rest: str, epsilon: str) -> None:
    sizes = ZEROS if "n > 50" in rest else [60] * 40
    with groups(sizes) as desk:
        for found in shown(desk, QUESTION.format(outputs, rest), epsilon, RUNS // 2).values():
            assert_holds(found)


def test_quantiles_that_decide_are_covered() -> None:
    with groups([400] * 30) as desk:
        assert_holds(shown(desk, QUESTION.format("MEDIAN(x) AS m", "ORDER BY m DESC LIMIT 3"), "0.5", RUNS // 4)["m"])


@pytest.mark.parametrize("rest", ["", "ORDER BY n DESC LIMIT 3", "HAVING n > 54"])
def test_private_keys_are_covered(rest: str) -> None:
    """They are chosen by noise that is not shown, so that alone widens nothing."""
    with groups([50] * 70, private=True) as desk:
        found = shown(desk, QUESTION.format("COUNT(*) AS n", rest), "1", RUNS // 4)["n"]
        assert_holds(found)
        assert rest or found.held <= binom.isf(1e-6, found.rows, 0.97), found


@pytest.mark.parametrize("max_groups", [1, 30])
def test_gaussian_noise_and_other_confidences(max_groups: int) -> None:
    with groups(LIKE, max_groups=max_groups) as desk:
        found = shown(desk, QUESTION.format("COUNT(*) AS n", "ORDER BY n DESC LIMIT 3"), "1", RUNS, "0.8")["n"]
    assert found.held >= binom.ppf(1e-6, found.rows, 0.78), found
