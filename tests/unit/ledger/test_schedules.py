"""Slots of time: computed from the first one, named by their dates, in order."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import InvalidValueError
from hush.ledger.schedules import Schedule

DATES = st.dates(dt.date(2000, 1, 1), dt.date(2100, 1, 1))


@given(first=DATES, count=st.integers(1, 400), unit=st.sampled_from(["day", "week", "month", "year"]))
def test_slots_come_one_after_the_other_and_are_found_by_their_names(first: dt.date, count: int, unit: str) -> None:
    schedule = Schedule(first=first, every=f"{count} {unit}s", slots=8)  # type: ignore[arg-type]
    periods = [schedule.period(number) for number in range(8)]
    assert periods == sorted(set(periods))
    assert periods[0] == first.isoformat()
    assert [schedule.number(period) for period in periods] == list(range(8))
    assert Schedule.from_json(schedule.to_json()) == schedule
    for number in range(9):
        assert schedule.passed(schedule.slot(number)) == number + 1
    assert schedule.passed("1990-01-01T00:00:00.000000Z") == 0


def test_months_end_when_they_end() -> None:
    schedule = Schedule(first="2023-12-31T06:30:00+02:00", every="month", slots=4)
    moments = [schedule.slot(number) for number in range(4)]
    assert moments == [f"{date}T04:30:00.000000Z" for date in ("2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31")]
    assert schedule.passed("2024-01-31T04:29:59.999999Z") == 1


def test_a_date_that_is_no_slot_has_no_number() -> None:
    schedule = Schedule(first="2026-11-16", every="week", slots=3)
    for period in ("2026-11-17", "2026-11-09", "2026-12-07", "latest", "2026-11-16T00:00:00Z", "", "9999-12-31"):
        assert schedule.number(period) is None


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ({"first": "soon"}, "first"),
        ({"first": "2026-11-16T06:00:00"}, "first"),  # whose clock?
        ({"first": 20261116}, "first"),
        ({"every": "hour"}, "every"),
        ({"every": "0 days"}, "every"),
        ({"every": 7}, "every"),
        ({"slots": 0}, "releases"),
        ({"slots": True}, "releases"),
        ({"slots": 10_001}, "releases"),
        ({"every": "900 years", "slots": 9}, "releases"),
    ],
)
def test_mistakes_are_named(words: dict[str, object], parameter: str) -> None:
    right: dict[str, object] = {"first": "2026-11-16", "every": "week", "slots": 3}
    with pytest.raises(InvalidValueError) as error:
        Schedule(**{**right, **words})  # type: ignore[arg-type]
    assert error.value.parameter == parameter
