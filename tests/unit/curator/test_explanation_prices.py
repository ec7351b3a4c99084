"""The price list of a question: every item is told from every other, and what is shown adds up."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush.core.format import figure
from hush.curator.curator import Curator
from hush.curator.explanation import itemised

TABLE = pa.table({"id": [1, 2], "a": [1, 2], "b": [1, 2], "c": [1, 2], "k": ["x", "y"]})
CORRELATIONS = "SELECT CORR(a, b), CORR(a, c), CORR(b, c) FROM data"
MANY = (
    "SELECT MEDIAN(a), QUANTILE(a, 0.9), MODE(k), MAX(b), AVG(a), SUM(b) FILTER (WHERE c > 3), COUNT(DISTINCT k), "
    "COUNT(DISTINCT id), COUNT(DISTINCT id) FILTER (WHERE c > 3), VARIANCE(c) FROM data"
)


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    bounds = {"a": (0, 10), "b": (0, 20), "c": (0, 30)}
    budget = {"epsilon": 10, "delta": "1e-6"}
    with hush.protect(TABLE, unit="id", bounds=bounds, values={"k": ["x", "y"]}, budget=budget) as opened:
        yield opened


@pytest.mark.parametrize("question", [CORRELATIONS, MANY])
def test_no_two_items_are_called_the_same(question: str, curator: Curator) -> None:
    called = [what for what, _, _ in curator.explain(question, epsilon="0.7").price.items]
    assert len(set(called)) == len(called) > 9


def test_items_say_of_which_columns_and_rows(curator: Curator) -> None:
    called = [what for what, _, _ in curator.explain(MANY, epsilon="0.7").price.items]
    for words in (
        "quantiles 0.5, 0.9 of a",
        "mode of k",
        "sum of b where c > 3",
        "distinct values of k",
        "sum of c * c",
    ):
        assert words in called
    assert "sum of a * b" in str(curator.explain(CORRELATIONS, epsilon=1))


@pytest.mark.parametrize("epsilon", ["0.7", "1e-9", "1/3", "123456.75"])
def test_shown_prices_add_up_to_the_shown_price(epsilon: str, curator: Curator) -> None:
    explained = curator.explain(CORRELATIONS, epsilon=epsilon)
    assert sum(item[1] for item in explained.price.items) == Fraction(epsilon)
    told = explained.to_json()
    assert sum(Fraction(item["epsilon"]) for item in told["items"]) == Fraction(told["price"]["epsilon"])
    assert all(f": ε={item['epsilon']}" in str(explained) for item in told["items"])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.fractions(Fraction(1, 10**12), 10**6).filter(bool))
def test_parts_of_any_total_add_up_and_are_near(weights: list[int], total: Fraction) -> None:
    parts = [weight * total / sum(weights) for weight in weights]
    shown = [Fraction(text) for text in itemised(total, parts)]
    assert sum(shown) == Fraction(figure(total, exact=True))
    assert all(abs(one - part) <= part / 10**4 for one, part in zip(shown, parts, strict=True))
