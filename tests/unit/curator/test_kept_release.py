"""The rows of a whole release: codes from the policy's types, bounded by unit, read after the charge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from seams import set_hash_key

from hush.accounting.events import Event, ZCDPEvent
from hush.core import BudgetExceededError
from hush.curator import kept_release
from hush.curator.answer import Money
from hush.curator.curator import Curator
from hush.curator.kept_release import PlannedRows, ReleaseExplanation, ReleaseHead, WholeRelease, plan_rows
from hush.curator.opening import protect
from hush.curator.terms import Order
from hush.engines.errors import EngineError
from hush.engines.protocol import CodedRows
from hush.query.errors import QuestionError, UnplannableError

EVENT = ZCDPEvent(rho="1/100")


def clinic(**options: object) -> Curator:
    visits = pa.table(
        {
            "id": ["a"] * 5 + ["b"] * 2 + ["c"],
            "age": [30, 31, 32, 33, 200, -5, None, 40],
            "city": ["x", "y", "x", "y", "zz", "x", "y", None],
            "cost": [1.25, 2.5, 3.75, float("nan"), 5.0, 6.0, 7.0, 8.0],
            "day": [dt.date(2024, 1, 1)] * 8,
            "well": [True, False, None, True, True, False, True, False],
        }
    )
    arguments: dict[str, object] = {
        "unit": "id",
        "bounds": {"age": (0, 120), "cost": (0, 10, "0.25"), "day": ("2023-12-31", "2024-01-31")},
        "values": {"city": ["x", "y", None]},
        "budget": {"epsilon": "10", "delta": "1e-6"},
        "max_rows": 2,
    }
    return protect(visits, **(arguments | options))


def release(
    curator: Curator,
    planned: PlannedRows,
    measure: Callable[[CodedRows], bytes],
    order: Order | None = None,
    *,
    events: Sequence[Event] = (EVENT,),
    text: str = "rows",
) -> WholeRelease:
    head = ReleaseHead(kind="rows", price=Money.single("rows", Fraction(1, 100)), caveats=(), question=text)
    explained = ReleaseExplanation(head=head, rows=planned, plan=None, events=tuple(events), text=text)
    how = order or Order()
    return kept_release.release(curator.session, explained, measure, WholeRelease.made, how)


def read(curator: Curator, sql: str, **options: object) -> list[tuple[int, ...]]:
    planned = plan_rows(curator.session, sql, **options)
    seen: list[tuple[int, ...]] = []

    def measure(rows: object) -> bytes:
        table = np.column_stack(list(rows.codes.values())).astype(int)
        seen.extend(sorted(map(tuple, table.tolist())))
        return b"kept"

    release(curator, planned, measure, text=sql)
    return seen


def test_codes_come_from_the_policy_alone() -> None:
    with clinic() as curator:
        plan = plan_rows(curator.session, "SELECT age, city, cost, day, well FROM data").plan
        sizes = {column.name: column.size for column in plan.columns}
        assert sizes == {"age": 121, "city": 3, "cost": 41, "day": 32, "well": 2}
        assert [column.ordered for column in plan.columns] == [True, False, True, True, False]
        assert plan.columns[3].value(1) == dt.date(2024, 1, 1)
        assert plan.limits.rows == 2


def test_rows_are_clamped_and_missing_values_have_their_level_or_none() -> None:
    with clinic(max_rows=100) as curator:
        assert read(curator, "SELECT city FROM data") == sorted(
            [(0,), (1,), (0,), (1,), (2,), (0,), (1,), (2,)]
        )  # what is not declared counts as NULL
        assert read(curator, "SELECT age FROM data") == [(0,), (30,), (31,), (32,), (33,), (40,), (120,)]
        assert read(curator, "SELECT well, age FROM data WHERE city = 'x'") == [(0, 0), (1, 30)]
        assert read(curator, "SELECT cost FROM data WHERE age = 33") == []


def test_each_unit_has_a_few_rows() -> None:
    with clinic() as curator:
        assert len(read(curator, "SELECT city FROM data")) == 2 + 2 + 1
        assert len(read(curator, "SELECT city FROM data", max_rows=1)) == 3


def test_kept_rows_do_not_depend_on_the_order_of_rows_or_on_other_units() -> None:
    rows = [(str(unit), city) for unit in range(30) for city in "xyxyzy"]
    kept = {}
    for name, chosen in {
        "plain": rows,
        "reversed": rows[::-1],
        "without one": [row for row in rows if row[0] != "7"],
    }.items():
        table = pa.table({"id": [row[0] for row in chosen], "city": [row[1] for row in chosen]})
        with protect(
            table, unit="id", values={"city": ["x", "y", None]}, budget={"epsilon": 1, "delta": "1e-6"}, max_rows=3
        ) as curator:
            desk = next(iter(curator.data_sets.values()))
            set_hash_key(desk.engine, 7)  # the hash key lives as long as an engine
            planned = plan_rows(curator.session, "SELECT city FROM data")
            found: dict[str, list[int]] = {}

            def measure(coded: object, found: dict[str, list[int]] = found) -> bytes:
                _, unit = np.unique(coded.units, return_inverse=True)
                for number, code in zip(unit.tolist(), coded.codes["city"].tolist(), strict=True):
                    found.setdefault(number, []).append(code)
                return b""

            release(curator, planned, measure)
            kept[name] = sorted(tuple(sorted(codes)) for codes in found.values())
    assert kept["plain"] == kept["reversed"]
    missing = list(kept["plain"])
    for codes in kept["without one"]:
        missing.remove(codes)
    assert len(missing) == 1
    assert len(missing[0]) == 3


def test_the_charge_comes_first_and_stays() -> None:
    with clinic() as curator:
        planned = plan_rows(curator.session, "SELECT city FROM data")
        with pytest.raises(BudgetExceededError):
            release(curator, planned, lambda _: pytest.fail("rows were read"), events=[ZCDPEvent(rho=100)], text="much")

        def fails(_: object) -> bytes:
            raise ValueError("a row says 42")

        with pytest.raises(EngineError) as caught:
            release(curator, planned, fails, text="fails")
        assert "42" not in str(caught.value)
        assert len(curator.history()) == 1


def test_a_request_is_measured_once() -> None:
    with clinic() as curator:
        planned = plan_rows(curator.session, "SELECT city FROM data")
        first = release(curator, planned, lambda _: b"one", Order(request="r"))
        again = release(curator, planned, lambda _: b"two", Order(request="r"))
        assert (first.kept, again.kept, again.receipt) == (b"one", b"one", first.receipt)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT id FROM data", "no columns beside the unit"),
        ("SELECT city FROM data LIMIT 3", "LIMIT"),
        ("SELECT city, city FROM data", "one name|called"),
        ("SELECT DISTINCT city FROM data", "DISTINCT"),
    ],
)
def test_what_names_no_rows_is_refused(sql: str, message: str) -> None:
    with clinic() as curator, pytest.raises(QuestionError, match=message):
        plan_rows(curator.session, sql)


def test_columns_without_public_values_are_refused() -> None:
    table = pa.table({"id": [1], "free": ["text"], "open": [1.5]})
    with protect(table, unit="id", budget=1) as curator:
        for name in ("free", "open"):
            with pytest.raises(UnplannableError, match=name):
                plan_rows(curator.session, f"SELECT {name} FROM data")


def test_a_fact_about_each_unit_is_a_row_of_its_own() -> None:
    sql = "SELECT LEAST(n, 3) AS n FROM (SELECT id, COUNT(*) AS n FROM data GROUP BY id)"
    with clinic() as curator:
        plan = plan_rows(curator.session, sql).plan
        values = [int(plan.columns[0].value(code)) for (code,) in read(curator, sql)]
        assert values == [1, 2, 3]
