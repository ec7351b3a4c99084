"""How answers and budgets are shown: the same sentence wherever it is read, and charts under one name."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pytest
from rich.console import Console

from hush.accounting import LaplaceEvent, compose
from hush.curator.answer import Answer
from hush.curator.opening import protect
from hush.learn.regression import Shape
from hush.ledger.history import Budgets
from hush.local.survey import Estimated


def test_a_note_says_why_a_quantile_at_a_higher_price_may_have_a_wider_bar() -> None:
    rows = pa.table({"income": [1000.0 * (row % 60) for row in range(3000)]})
    with protect(rows, bounds={"income": (0, 500_000, 1)}, budget=10) as curator:
        question = "SELECT MEDIAN(income) AS m FROM data"
        explained = curator.explain(question, epsilon=1)
        answer = curator.ask(question, epsilon=1)
    console = Console(file=io.StringIO(), width=400)
    console.print(answer)
    shown = [str(explained), repr(answer), answer._repr_html_(), console.file.getvalue()]  # type: ignore[attr-defined]
    for text in shown:
        assert "may be wider at a higher price" in text
        assert "ROUND in the question, makes it narrower" in text


def test_two_caveats_are_shown_and_the_others_are_a_step_away() -> None:
    rows = pa.table({"patient": [0, 1] * 500, "city": ["Oslo", "Bergen"] * 500, "age": list(range(100)) * 10})
    with protect(
        rows, unit="patient", bounds={"age": (0, 120)}, values={"city": ["Oslo", "Bergen"]}, budget=10
    ) as curator:
        answer = curator.ask("SELECT city, AVG(age) AS m FROM data GROUP BY city", epsilon=1)
    first, second, third = answer.caveats
    assert first.startswith("each patient with more than 1 row")
    for text in (repr(answer), answer._repr_html_()):
        assert first in text
        assert second in text
        assert "1 more note" in text
    assert third not in repr(answer)
    assert "<details>" in answer._repr_html_()
    assert third in answer.notes()


@pytest.mark.parametrize("kind", [Answer, Budgets, Shape, Estimated, type(compose(LaplaceEvent(scale=1)))])
def test_every_chart_is_also_called_plot(kind: type) -> None:
    assert kind.plot is kind.chart  # type: ignore[attr-defined]


def test_a_chart_of_budgets_shows_shares() -> None:
    with protect(pa.table({"x": [1, 2, 3]}), budget=2) as curator:
        curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.5")
        svg = curator.budget().plot().svg
    shown = re.findall('width="([0-9.]+)" rx="1.5"><title>[^<]*, (ε=2: .*?)</title>', svg)
    assert [words for _, words in shown] == ["ε=2: 25% spent", "ε=2: 75% left"]
    assert float(shown[1][0]) == pytest.approx(3 * float(shown[0][0]), abs=0.2)
    assert "nothing to show" in Budgets([]).chart().svg
