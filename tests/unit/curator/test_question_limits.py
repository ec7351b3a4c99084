"""Limits per question: fewer rows and groups of a unit than the policy keeps, never more."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from hush import protect
from hush.core import InvalidValueError
from hush.curator.curator import Curator
from hush.ledger import RequestConflictError

UNITS, GROUPS, ROWS = 50, 4, 3
BY_CITY = "SELECT city, COUNT(*) AS n, MEDIAN(age) AS m FROM data GROUP BY city"


@pytest.fixture
def curator() -> Iterator[Curator]:
    """Fifty units, each with three rows in each of four cities; the policy keeps two rows in three."""
    rows = [(unit, f"c{group}", 30) for unit in range(UNITS) for group in range(GROUPS) for _ in range(ROWS)]
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("id", "city", "age"))})
    with protect(
        table,
        unit="id",
        bounds={"age": (0, 100)},
        values={"city": [f"c{group}" for group in range(GROUPS)]},
        budget={"epsilon": 10**9, "delta": "1e-6"},
        max_rows=2,
        max_groups=3,
    ) as found:
        yield found


@pytest.mark.parametrize(
    ("limits", "kept"),
    [({}, 6), ({"max_rows": 1}, 3), ({"max_groups": 1}, 2), ({"max_rows": 1, "max_groups": 2}, 2)],
)
def test_a_question_counts_as_much_of_a_unit_as_it_asks_for(curator: Curator, limits: dict, kept: int) -> None:
    answer = curator.ask(BY_CITY, epsilon=10**5, **limits)
    total = sum(row["n"] for row in answer.table.to_pylist())
    assert total == pytest.approx(kept * UNITS, abs=1)


def test_fewer_rows_and_groups_mean_less_noise_for_the_same_price(curator: Curator) -> None:
    declared = curator.explain(BY_CITY, epsilon=1)
    tight = curator.explain(BY_CITY, epsilon=1, max_rows=1, max_groups=1)
    assert declared.price == tight.price
    assert tight.errors()["n"] < declared.errors()["n"] / 3
    assert tight.rows_off()["m"] < declared.rows_off()["m"] / 3


@pytest.mark.parametrize(("limit", "most"), [("max_rows", 2), ("max_groups", 3)])
def test_a_question_never_widens_the_policys_limits(curator: Curator, limit: str, most: int) -> None:
    for ask in (curator.explain, curator.ask):
        with pytest.raises(InvalidValueError, match=f"'{limit}'.*at most {most}.*Got {most + 1}"):
            ask(BY_CITY, epsilon=1, **{limit: most + 1})
        with pytest.raises(InvalidValueError, match=limit):
            ask(BY_CITY, epsilon=1, **{limit: 0})
    assert not curator.history()


def test_where_a_unit_has_one_row_limits_change_nothing(curator: Curator) -> None:
    each = "SELECT AVG(CLIP(n, 0, 9)) AS mean FROM (SELECT id, COUNT(*) AS n FROM data GROUP BY id)"
    plain = curator.explain(each, epsilon=1)
    assert not plain.tighter
    assert curator.explain(each, epsilon=1, max_rows=1).plan.noises == plain.plan.noises


def test_explain_shows_the_error_at_several_limits(curator: Curator) -> None:
    shown = curator.explain(BY_CITY, epsilon=1)
    lines = [line for line in shown.lines() if line.startswith("  with ")]
    assert "max_rows=1, max_groups=3" in lines[0]
    assert "max_rows=1, max_groups=1" in lines[-1]
    for line, plan in zip(shown.to_json()["tighter"], shown.tighter, strict=True):
        again = curator.explain(BY_CITY, epsilon=1, **line["limits"])
        assert line["errors"] == again.errors()
        assert plan.noises == again.plan.noises


def test_at_other_limits_it_is_another_question(curator: Curator) -> None:
    first = curator.ask(BY_CITY, epsilon=1, max_rows=1, request="a")
    assert curator.ask(BY_CITY, epsilon=1, max_rows=1, request="a").table == first.table
    with pytest.raises(RequestConflictError):
        curator.ask(BY_CITY, epsilon=1, request="a")
    assert "max_rows=1" in curator.history()[0].question
