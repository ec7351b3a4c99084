"""Declared streams in the ledger: set aside as one plan, each period charged once, no charge given back."""

from __future__ import annotations

import datetime as dt
import io
import os
import signal
import subprocess
import sys
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import LaplaceEvent
from hush.accounting.events import Event, ZCDPEvent
from hush.accounting.filters import Filter
from hush.core import BudgetExceededError, InvalidValueError
from hush.ledger import Actor, Ledger, LedgerDamagedError, LedgerError, NotAllowedError, streams
from hush.ledger.entries import Entry
from hush.ledger.rules import check
from hush.ledger.state import LedgerState
from hush.ledger.streams import DeclaredStream, DeclaredStreams, Schedule, StreamDeclaration, UnknownStreamError

OWNER, ALICE = Actor.owner("owner"), Actor.analyst("alice")
CASES = min(int(os.environ.get("HUSH_CASES", "25")), 1000)
NOISY: list[Event] = [LaplaceEvent(scale=10)]
ASKED: dict[str, Any] = {"analyst": "alice", "data": "d", "question": "SELECT 1"}


def made(place: str | Path = ":memory:", *, delta: object = 0, epsilon: object = 2) -> Ledger:
    ledger = Ledger.in_memory() if place == ":memory:" else Ledger.open(place, anchor="none", create=OWNER)
    ledger.create_data("d", {"epsilon": epsilon, "delta": delta}, actor=OWNER)
    ledger.add_analyst("alice", data="d", actor=OWNER)
    return ledger


def question(name: str = "weekly", *, releases: int = 4, **words: Any) -> StreamDeclaration:
    schedule = Schedule(first="2026-01-05", every="week", slots=releases)
    return StreamDeclaration(
        **{"name": name, "data": "d", "question": "SELECT 2", "schedule": schedule, "epsilon": "0.1"} | words
    )


def declared(ledger: Ledger, asked: StreamDeclaration, events: list[Event] | None = None) -> DeclaredStream:
    terms = ledger.budget(OWNER)[0].account
    return ledger.streams.declare(asked, epsilon=Fraction(1, 10), events=events or NOISY, terms=terms, actor=OWNER)


def account(ledger: Ledger) -> Filter:
    """Return what was charged to the data set, without what is set aside."""
    view = ledger.budget(OWNER)[0]
    return view.charged or view.account


def day(number: int) -> str:
    return f"2026-{1 + number // 28:02}-{1 + number % 28:02}T10:00:00.000000Z"


@pytest.mark.parametrize(("delta", "events"), [(0, NOISY), ("1e-6", NOISY), ("1e-6", [ZCDPEvent(rho="1/700")])])
def test_what_releases_are_charged_is_the_plan_to_the_last_fraction(delta: object, events: list[Event]) -> None:
    ledger = made(delta=delta)
    plan = declared(ledger, question(releases=7), events)
    committed = ledger.budget(OWNER)[0].account
    assert account(ledger).spent_loss == 0
    assert committed.spent_loss == 7 * plan.aside.price.loss > 0
    for number in range(7):
        before = account(ledger).spent_loss
        reserved = ledger.streams.reserve("weekly", clock=day(300))
        assert reserved is not None
        ledger.answered(reserved[0], b"noisy")
        assert account(ledger).spent_loss - before == plan.aside.price.loss
        assert ledger.budget(OWNER)[0].account == committed, number
    assert account(ledger) == committed
    assert ledger.streams.reserve("weekly", clock=day(300)) is None
    assert ledger.budget(OWNER)[0].set_aside == 0
    ledger.verify()


def test_a_plan_costs_less_than_the_sum_of_its_epsilons_where_the_account_composes_better() -> None:
    """365 releases at ε=0.02 fit ε=2 and δ=1e-6, although their sum is 7.3; in a sum of ε 100 would fit."""
    daily: list[Event] = [LaplaceEvent(scale=50)]
    plan = declared(made(delta="1e-6"), question(releases=365), daily)
    assert plan.share < 1
    with pytest.raises(BudgetExceededError, match=r"365 releases at ε=0.1 each do not fit .*; 100 would"):
        declared(made(), question(releases=365), daily)


def test_what_is_set_aside_is_nobody_elses() -> None:
    ledger = made(epsilon=1)
    plan = declared(ledger, question(releases=8))
    view = ledger.budget(OWNER)[0]
    assert (view.spent.share, view.set_aside, view.remaining.share) == (0, Fraction(4, 5), Fraction(1, 5))
    assert "80% is set aside for streams" in str(view)
    ledger.reserve("q1", **ASKED, events=NOISY)
    with pytest.raises(BudgetExceededError, match=r"takes 20% of d's budget, but 10% is left"):
        ledger.reserve("q2", **ASKED, events=[LaplaceEvent(scale=5)])
    with pytest.raises(BudgetExceededError, match="1 would"):
        declared(ledger, question("another", releases=2))
    assert ledger.streams.fitting("d", NOISY) == 1
    assert plan.share == Fraction(4, 5)
    ledger.streams.stop("weekly", actor=OWNER, reason="enough")
    ledger.reserve("q2", **ASKED, events=[LaplaceEvent(scale=5)])
    ledger.verify()
    assert str(ledger.acts(OWNER)[-1]) == "stopped the stream weekly on d: enough"


def test_nothing_is_released_before_its_slot_and_each_period_has_a_receipt() -> None:
    ledger = made()
    plan = declared(ledger, question())
    assert ledger.streams.reserve("weekly", clock="2026-01-04T23:59:59.999999Z") is None
    reserved = ledger.streams.reserve("weekly", clock="2026-01-05T00:00:00.000000Z")
    assert reserved is not None
    reservation, period = reserved
    assert (period, reservation.request) == ("2026-01-05", "standing weekly 2026-01-05")
    assert ledger.streams.reserve("weekly", clock=day(5)) is None
    states = [release.state for release in ledger.streams.periods(plan, clock=day(12))]
    assert states == ["running", "due", "planned", "planned"]
    with pytest.raises(UnknownStreamError):  # not yet there
        ledger.streams.receipt(plan, "2026-01-05")
    ledger.answered(reservation, b"noisy")
    assert ledger.streams.receipt(plan, "2026-01-05") == ledger.streams.receipt(plan, "latest") == reservation.number
    assert ledger.history(ALICE) == []  # nobody's own
    (release,) = ledger.history(OWNER)
    assert (release.who, release.outcome, release.own_share) == ("standing weekly 2026-01-05", "answered", None)
    second = ledger.streams.reserve("weekly", clock=day(12))
    assert second is not None
    ledger.failed(second[0], "no answer could be computed")
    states = [release.state for release in ledger.streams.periods(plan, clock=day(12))]
    assert states == ["made", "failed", "planned", "planned"]
    for period in ("2026-01-12", "2026-01-19", "2026-01-06", "no"):
        with pytest.raises(UnknownStreamError):
            ledger.streams.receipt(plan, period)


def test_missed_periods_are_made_late_in_order_or_skipped() -> None:
    ledger = made()
    declared(ledger, question("late"))
    declared(ledger, question("skipping", late=False))
    late = [ledger.streams.reserve("late", clock=day(19)) for _ in range(4)]
    assert [found and found[1] for found in late] == ["2026-01-05", "2026-01-12", "2026-01-19", None]
    skipping = ledger.streams.find("skipping")
    states = [release.state for release in ledger.streams.periods(skipping, clock=day(19))]
    assert states == ["skipped", "skipped", "due", "planned"]
    newest = ledger.streams.reserve("skipping", clock=day(19))
    assert newest is not None
    assert newest[1] == "2026-01-19"
    assert ledger.streams.find("skipping").aside.left == 1  # what was set aside for two skipped ones is free again
    assert ledger.streams.reserve("skipping", clock=day(5)) is None  # the clock was set back
    assert ledger.streams.reserve("skipping", clock=day(200)) is None  # the last period is over
    assert ledger.streams.find("skipping").over(day(200))
    ledger.verify()


def test_a_name_stands_for_one_stream_for_ever() -> None:
    ledger = made()
    first = declared(ledger, question())
    assert declared(ledger, question()).aside.number == first.aside.number
    with pytest.raises(LedgerError, match=r"with other words \(question\)"):
        declared(ledger, question(question="SELECT 3"))
    with pytest.raises(LedgerError, match="for ever"):
        declared(ledger, question("WEEKLY"))
    ledger.streams.stop("weekly", actor=OWNER)
    assert ledger.streams.reserve("weekly", clock=day(300)) is None
    with pytest.raises(LedgerError, match="has ended already"):
        ledger.streams.stop("weekly", actor=OWNER)
    with pytest.raises(NotAllowedError):
        ledger.streams.stop("weekly", actor=ALICE)
    with pytest.raises(UnknownStreamError):
        ledger.streams.stop("monthly", actor=OWNER)


def test_a_lowered_budget_holds_releases_back() -> None:
    ledger = made(epsilon=1)
    declared(ledger, question(releases=5))
    ledger.lower("d", epsilon="0.25")
    for _ in range(2):
        assert ledger.streams.reserve("weekly", clock=day(300)) is not None
    with pytest.raises(BudgetExceededError, match="weekly/2026-01-19 takes 40% of d's budget, but 20% is left"):
        ledger.streams.reserve("weekly", clock=day(300))
    ledger.verify()


@pytest.mark.parametrize(
    "words",
    [
        {"name": "a/b"}, {"name": ""}, {"epsilon": None}, {"epsilon": 0}, {"epsilon": "0.1", "rho": "1"},
        {"readers": "nobody"}, {"confidence": 1}, {"question": " "}, {"delta": -1}, {"late": "skip"}, {"late": 0},
    ],
)  # fmt: skip
def test_mistakes_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        question(**words)


@pytest.mark.parametrize(
    "words",
    [
        {"every": "0 days"}, {"every": "00 days"}, {"every": "000 weeks"}, {"every": "1.5 days"}, {"slots": 0},
        {"first": "0999-12-31"}, {"first": "0001-01-01T00:00:00+14:00"}, {"first": "2026-11-16T06:00:00"},
    ],
)  # fmt: skip
def test_a_schedule_that_could_not_be_read_back_is_refused(words: dict[str, Any]) -> None:
    """An entry of the ledger stays for ever: one that cannot be read would stop every stream."""
    with pytest.raises(InvalidValueError):
        Schedule(**{"first": "2026-11-16", "every": "day", "slots": 3} | words)


@pytest.mark.parametrize(
    ("first", "every", "third"),
    [
        ("2026-01-31", "month", "2026-03-31"), ("2027-12-31", "2 months", "2028-04-30"),
        ("2028-02-29", "year", "2030-02-28"), ("2028-02-29", "4 years", "2036-02-29"),
        ("2026-03-28T23:30:00+00:00", "day", "2026-03-30"),
        ("2026-11-16T00:30:00+02:00", "week", "2026-11-29"),
    ],
)  # fmt: skip
def test_ends_of_months_leap_days_and_offsets(first: str, every: str, third: str) -> None:
    schedule = Schedule(first=first, every=every, slots=3)
    assert schedule.period(2) == third
    asked = question(schedule=schedule)
    assert StreamDeclaration.from_json("weekly", "d", asked.to_json()) == asked
    assert [schedule.passed(schedule.slot(number)) for number in range(3)] == [1, 2, 3]


def test_who_may_read() -> None:
    data_of = {"alice": ["d"], "bob": ["d"], "carol": ["e"]}
    people = (None, "alice", "bob", "carol", "dave")
    for readers, may in (("analysts", "alice bob"), (("alice", "carol"), "alice"), ("public", "alice bob carol dave")):
        asked = question(readers=readers)
        assert [name for name in people if name and asked.readable(name, data_of)] == may.split()
        assert asked.readable(None, data_of) == (readers == "public")


def test_entries_that_do_not_follow_are_damage(tmp_path: Path) -> None:
    """A release of another question, of a period that was released, or at another price is found by the rules."""
    ledger = made()
    declared(ledger, question())
    reserved = ledger.streams.reserve("weekly", clock=day(300))
    assert reserved is not None
    entry = ledger._chain.store.entry(reserved[0].number)
    assert entry is not None
    book = LedgerState()
    with ledger._chain.store.entries() as rows:
        book.follow(islice(rows, entry.number - 1))
    check(book, entry)
    plain = entry.read()
    forgeries: list[dict[str, Any]] = [
        plain | {"standing": {"name": "weekly", "number": 9}},
        plain | {"standing": {"name": "weekly", "number": -1}},
        plain | {"standing": {"name": "monthly", "number": 0}},
        plain | {"price": [{"loss": "1/20", "delta": "0", "epsilon": "1/20"}]},
        plain | {"events": [LaplaceEvent(scale=20).to_json()]},
        {name: value for name, value in plain.items() if name != "standing"},
    ]
    for body in forgeries:
        forged = Entry.draft("reserve", body, after=book.head, data="d", request=entry.request, weight=entry.weight)
        with pytest.raises(LedgerDamagedError):
            check(book, forged)
    with pytest.raises(LedgerDamagedError):  # again
        check(ledger._chain.state, entry)
    file = io.StringIO()
    ledger.export(file, actor=OWNER)
    file.seek(0)
    copy = Ledger.import_(file, tmp_path / "copy", actor=OWNER, reason="test", lost="none", anchor="none")
    assert copy.streams.find("weekly").aside == ledger.streams.find("weekly").aside
    copy.close()


KILLED = """
import os, signal, sys
from hush.ledger import Ledger
ledger = Ledger.open(sys.argv[1], anchor="none")
assert ledger.streams.reserve("weekly", clock=sys.argv[2]) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_between_charge_and_answer_it_stays_charged_and_is_never_made_again(tmp_path: Path) -> None:
    place = tmp_path / "ledger"
    with made(place) as ledger:
        plan = declared(ledger, question(releases=2))
    status = subprocess.run([sys.executable, "-c", KILLED, str(place), day(5)], check=False)
    assert status.returncode == -signal.SIGKILL
    with Ledger.open(place, anchor="none") as ledger:
        assert account(ledger).spent_loss == plan.aside.price.loss
        assert ledger.streams.reserve("weekly", clock=day(5)) is None
        assert ledger.streams.close_dead() == 1
        assert ledger.streams.close_dead() == 0
        states = [release.state for release in ledger.streams.periods(plan, clock=day(5))]
        assert states == ["failed", "planned"]
        ledger.verify()


def test_what_another_host_never_answered_counts_as_failed_after_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = made()
    declared(ledger, question())
    monkeypatch.setattr(streams, "this_process", lambda: {"host": "elsewhere", "pid": 1, "started": ""})
    assert ledger.streams.reserve("weekly", clock=day(5)) is not None
    assert ledger.streams.close_dead() == 0
    later = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=25)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    monkeypatch.setattr(streams, "now", lambda: later)
    assert ledger.streams.close_dead() == 1


STEPS = st.lists(
    st.tuples(
        st.integers(-10, 80),  # the clock, in days: it goes forward and back
        st.sampled_from(["run", "run", "run", "die", "reopen", "end", "ask", "declare"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),  # which of two workers
    ),
    max_size=25,
)


@settings(max_examples=CASES)
@given(steps=STEPS, late=st.booleans(), delta=st.sampled_from([0, "1e-6"]))
def test_no_order_of_clocks_restarts_ends_and_workers_releases_twice_or_overspends(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, str, int]], late: bool, delta: object
) -> None:
    place = tmp_path_factory.mktemp("streams") / "ledger"
    made(place, delta=delta, epsilon="1.2").close()
    workers = [Ledger.open(place, anchor="none") for _ in range(2)]
    charges: dict[tuple[str, str], int] = {}
    plans: dict[str, DeclaredStream] = {}
    for number, (clock, act, name, which) in enumerate(steps):
        ledger, other = workers[which], workers[1 - which]
        if act == "declare" and name not in plans:
            try:
                plans[name] = declared(ledger, question(name, releases=5, late=late))
            except BudgetExceededError:
                continue
        elif act in {"run", "die"} and name in plans:
            reserved = ledger.streams.reserve(name, clock=day(max(clock, 0)))
            if reserved is None:
                continue
            key = (name, reserved[1])
            assert key not in charges, "released twice"
            assert reserved[1] <= day(max(clock, 0))[:10]
            charges[key] = reserved[0].number
            if act == "run":
                ledger.answered(reserved[0], b"noisy")
        elif act == "end" and name in plans and other.streams.find(name).aside.left:
            ledger.streams.stop(name, actor=OWNER)
        elif act == "ask":
            try:
                ledger.reserve(f"q{number}", **ASKED, events=[LaplaceEvent(scale=4)])
            except BudgetExceededError:
                continue
        elif act == "reopen":
            ledger.close()
            workers[which] = Ledger.open(place, anchor="none")
    ledger = workers[0]
    spent = {name: sum(key[0] == name for key in charges) for name in plans}
    for name, plan in plans.items():
        assert spent[name] <= 5
        assert ledger.streams.find(name).aside.left <= 5 - spent[name]
        receipts = {release.receipt for release in ledger.streams.periods(plan)} - {None}
        assert receipts == {number for key, number in charges.items() if key[0] == name}
    view = ledger.budget(OWNER)[0]
    losses = Fraction(0)
    for release in ledger.history(OWNER):
        losses += Fraction(release.price[0]["loss"])
    assert account(ledger).spent_loss == losses
    assert view.account.share_spent <= 1  # spent and set aside fit, always
    ledger.verify()
    for worker in workers:
        worker.close()


# schedules

DATES = st.dates(dt.date(2000, 1, 1), dt.date(2100, 1, 1))


@given(first=DATES, count=st.integers(1, 400), unit=st.sampled_from(["day", "week", "month", "year"]))
def test_slots_come_one_after_the_other_and_their_names_differ(first: dt.date, count: int, unit: str) -> None:
    schedule = Schedule(first=first, every=f"{count} {unit}s", slots=8)  # type: ignore[arg-type]
    periods = [schedule.period(number) for number in range(8)]
    assert periods == sorted(set(periods))
    assert periods[0] == first.isoformat()
    for number in range(9):
        assert schedule.passed(schedule.slot(number)) == number + 1
    assert schedule.passed("1990-01-01T00:00:00.000000Z") == 0


def test_months_end_when_they_end() -> None:
    schedule = Schedule(first="2023-12-31T06:30:00+02:00", every="month", slots=4)
    moments = [schedule.slot(number) for number in range(4)]
    assert moments == [f"{date}T04:30:00.000000Z" for date in ("2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31")]
    assert schedule.passed("2024-01-31T04:29:59.999999Z") == 1


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
def test_mistakes_in_a_schedule_are_named(words: dict[str, object], parameter: str) -> None:
    right: dict[str, object] = {"first": "2026-11-16", "every": "week", "slots": 3}
    with pytest.raises(InvalidValueError) as error:
        Schedule(**{**right, **words})  # type: ignore[arg-type]
    assert error.value.parameter == parameter


def test_a_dated_release_is_found_without_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = made()
    plan = declared(ledger, question())
    reserved = ledger.streams.reserve("weekly", clock=day(5))
    assert reserved is not None
    ledger.answered(reserved[0], b"noisy")
    monkeypatch.setattr(DeclaredStreams, "periods", lambda *_: pytest.fail("all periods were built"))
    assert ledger.streams.receipt(plan, "2026-01-05") == reserved[0].number
