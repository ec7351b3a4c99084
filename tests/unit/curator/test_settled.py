"""Bars of rows that noise chose: when they are widened, by how much, and what is said of it."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from hush.curator.opening import protect
from hush.query.errors import UnplannableError

GROUPS = [f"g{at:02}" for at in range(70)]
LUCKY, LIFTED = "noise also decides which rows", "noise can bring a row past"


@pytest.fixture(scope="module")
def curator():
    rows = pa.table({"g": [GROUPS[at % 70] for at in range(7000)], "p": [str(at % 7) for at in range(7000)],
                     "x": [float(at % 100) for at in range(7000)]})  # fmt: skip
    with protect(
        rows, bounds={"x": (0, 100, 1)}, values={"g": GROUPS}, budget={"epsilon": 10**6, "delta": "1e-6"}
    ) as found:
        yield found


def asked(curator, outputs: str, rest: str, **how):
    return curator.ask(f"SELECT {outputs} FROM data GROUP BY g {rest}", **{"epsilon": "0.01", **how}, fresh=True)


def explained(curator, outputs: str, rest: str, **how):
    return curator.explain(f"SELECT {outputs} FROM data GROUP BY g {rest}", **{"epsilon": "0.01", **how})


@pytest.mark.parametrize("limit", [1, 3, 35])
def test_a_limit_takes_its_share_of_what_may_miss(curator, limit: int) -> None:
    rest = f"ORDER BY n DESC LIMIT {limit}"
    told = explained(curator, "g, COUNT(*) AS n", rest)
    answer = asked(curator, "g, COUNT(*) AS n", rest)
    half_width = 100 * math.log(70 / limit / 0.05)
    assert told.errors()["n"] == pytest.approx(half_width, abs=1)
    assert {row["n_error"] for row in answer.rows()} == {told.errors()["n"]}
    assert any(LUCKY in note for note in answer.caveats)
    assert told.caveats == answer.caveats


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "ORDER BY n DESC",
        "ORDER BY n DESC LIMIT 70",
        "ORDER BY g LIMIT 3",
        "HAVING g > 'g10'",
        "HAVING g > 'g10' ORDER BY g DESC LIMIT 3",
        "LIMIT 3",
    ],
)
def test_where_noise_decides_nothing_nothing_is_widened(curator, rest: str) -> None:
    answer = asked(curator, "g, COUNT(*) AS n", rest)
    assert explained(curator, "g, COUNT(*) AS n", rest).errors()["n"] == 300
    assert {row["n_error"] for row in answer.rows()} == {300}
    assert not any(LUCKY in note or LIFTED in note for note in answer.caveats)


def test_noise_of_others_widens_nothing(curator) -> None:
    """How many rows a group has says nothing of the draws that made a median, or a sum with noise of its own."""
    told = explained(
        curator, "g, COUNT(*) AS n, COUNT(DISTINCT p) AS p, MEDIAN(x) AS m", "ORDER BY n DESC LIMIT 3", epsilon="0.03"
    )
    whole = explained(curator, "g, COUNT(*) AS n, COUNT(DISTINCT p) AS p, MEDIAN(x) AS m", "", epsilon="0.03")
    assert told.errors()["p"] == whole.errors()["p"]
    assert told.rows_off() == whole.rows_off()
    assert told.errors()["n"] > whole.errors()["n"]


def test_a_quantile_that_decides_aims_further_out(curator) -> None:
    told, whole = (explained(curator, "g, MEDIAN(x) AS m", rest) for rest in ("ORDER BY m LIMIT 3", ""))
    assert told.rows_off()["m"] > whole.rows_off()["m"]


def test_having_widens_a_little_where_it_is_settled_and_down_to_nobody_elsewhere(curator) -> None:
    rest = "HAVING n > -100000"
    told = explained(curator, "g, COUNT(*) AS n", rest)
    assert told.errors() == {"n": None}
    half_width = told.errors_if_settled()["n"]
    assert half_width == pytest.approx(100 * math.log(2 / 0.05 / (1 - 0.05 / 2)), abs=1)
    assert f"n: ± {half_width:g}, and more in rows close to what HAVING asks" in str(told)
    answer = asked(curator, "g, COUNT(*) AS n", rest)
    assert {row["n_error"] for row in answer.rows()} == {half_width}
    assert any(LIFTED in note for note in answer.caveats)
    for row in asked(curator, "g, COUNT(*) AS n", "HAVING n > 150").rows():
        if row["n"] < 450:
            assert row["n_error"] == max(row["n"], half_width)


def test_both_limit_and_having(curator) -> None:
    """Of H rows that pass, three are shown: their bars miss three H-ths as often."""
    answer = asked(curator, "g, COUNT(*) AS n", "HAVING n > -100000 ORDER BY n DESC LIMIT 3")
    missing = 0.05 * 3 / 70
    assert answer.rows()[0]["n_error"] == pytest.approx(100 * math.log(2 / missing / (1 - missing / 2)), abs=1)
    assert explained(curator, "g, COUNT(*) AS n", "HAVING n > 9 ORDER BY n DESC LIMIT 3").errors_if_settled() == {}


def test_accuracy_is_about_the_bars_that_are_shown(curator) -> None:
    plain, first = (
        explained(curator, "g, COUNT(*) AS n", rest, epsilon=None, accuracy=50).price.epsilon
        for rest in ("", "ORDER BY n DESC LIMIT 3")
    )
    assert first > 1.9 * plain  # ln(70/3/0.05) is 2.05 times ln(20)
    with pytest.raises(UnplannableError, match="cannot be promised for n"):
        explained(curator, "g, COUNT(*) AS n", "HAVING n > 9 ORDER BY n LIMIT 3", epsilon=None, accuracy=50)


def test_accuracy_finds_an_epsilon_that_private_keys_can_be_chosen_with(curator) -> None:
    told = curator.explain("SELECT p, COUNT(*) AS n FROM data GROUP BY p", accuracy=50)
    assert told.errors()["n"] <= 50
    with pytest.raises(UnplannableError, match="cannot be promised for n"):
        curator.explain("SELECT p, COUNT(*) AS n FROM data GROUP BY p ORDER BY n LIMIT 3", accuracy=50)


def test_private_keys_are_counted_when_they_are_known(curator) -> None:
    answer = curator.ask(
        "SELECT p, COUNT(*) AS n FROM data GROUP BY p ORDER BY n DESC LIMIT 2", epsilon="1", fresh=True
    )
    price = {what: epsilon for what, epsilon, _ in answer.price.items}
    assert answer.rows()[0]["n_error"] == pytest.approx(math.log(7 / 2 / 0.05) / float(price["count"]), abs=1)


def test_an_answer_without_rows_and_one_without_groups(curator) -> None:
    assert len(asked(curator, "g, COUNT(*) AS n", "HAVING n > 1000000 ORDER BY n LIMIT 3")) == 0
    assert len(asked(curator, "g, COUNT(*) AS n", "ORDER BY n LIMIT 0")) == 0
    answer = curator.ask("SELECT COUNT(*) AS n FROM data HAVING n > 10", epsilon=1, fresh=True)
    assert answer.rows()[0]["n_error"] == 4
    assert len(curator.ask("SELECT COUNT(*) AS n FROM data HAVING MODE(g) = 'g01'", epsilon=1, fresh=True)) <= 1


def test_what_an_order_by_several_or_a_text_decides(curator) -> None:
    rows = asked(curator, "g, COUNT(*) AS n, CASE WHEN COUNT(*) > 50 THEN 'many' END AS t", "ORDER BY t, g LIMIT 3")
    assert rows.rows()[0]["n_error"] > 600
