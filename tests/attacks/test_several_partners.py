"""A row that meets several keys of a public table, as equal as doubles: it counts for all of them, or once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
import pytest

import hush

LISTED = ", ".join(f"({2**62 + more})" for more in range(200))
KEYS = f"(VALUES {LISTED}) AS a(v)"
KEYED = f"(SELECT v, COUNT(*) AS m FROM {KEYS} GROUP BY v) AS r"


@contextmanager
def asked(unit: str | None) -> Iterator[tuple[hush.Curator, str]]:
    """Yield a curator and the source of its rows, one of which meets all keys."""
    rows = pd.DataFrame({"id": range(21), "x": [2.0**62] + [1.0] * 20})
    source = "t" if unit is None else "(SELECT id, MAX(x) AS x FROM t GROUP BY id)"
    with hush.protect(rows, table="t", unit=unit, budget="1e10") as curator:
        yield curator, source


@pytest.mark.parametrize("unit", [None, "id"])
@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) AS n FROM {{0}} AS t JOIN {KEYED} ON x = r.v",
        f"SELECT COUNT(*) AS n FROM {{0}} AS t LEFT JOIN {KEYED} ON x = r.v WHERE x > 5",
    ],
)
def test_a_unit_counts_for_each_key_that_it_meets_or_once(unit: str | None, text: str) -> None:
    with asked(unit) as (curator, source):
        assert curator.ask(text.format(source), epsilon="1e9").value() == 200
        assert curator.ask(text.format(source), epsilon="1e9", max_rows=1).value() == 1


@pytest.mark.parametrize("unit", [None, "id"])
@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) AS n FROM {{0}} AS t WHERE (SELECT COUNT(*) FROM {KEYS} WHERE v = x) > 0",
        f"SELECT COUNT(*) AS n FROM {{0}} AS t WHERE x IN (SELECT v FROM {KEYS}) OR x > 5",
        f"SELECT COUNT(*) AS n FROM {{0}} AS t WHERE x > 5 OR EXISTS (SELECT v FROM {KEYS} WHERE v = x)",
    ],
)
def test_a_condition_is_true_once_however_many_keys_meet_it(unit: str | None, text: str) -> None:
    with asked(unit) as (curator, source):
        assert curator.ask(text.format(source), epsilon="1e9").value() == 1
