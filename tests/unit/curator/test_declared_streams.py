"""Declared streams from declaration to release: price, noise on the terms of the declaration, public moments."""

from __future__ import annotations

import datetime as dt
import gc
import time
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core import BudgetExceededError
from hush.curator import declared_streams
from hush.curator.answer import Answer
from hush.curator.declared_streams import POLICY, Publisher, declare_all, declared_release, declared_views, run_due
from hush.curator.opening import open_policy, open_publisher
from hush.engines.sql_engine import SqlEngine
from hush.ledger import Actor, LedgerError
from hush.ledger.errors import LedgerFullError
from hush.ledger.streams import DeclaredStreams, Schedule, StreamDeclaration, UnknownStreamError
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger, open_ledger
from hush.query.errors import QuestionError

TEXT = """
[data.clinic]
unit = "id"
budget = { epsilon = "2", delta = "1e-6" }
[data.clinic.tables.visits]
source = "visits.parquet"
max_groups = 1
columns.age  = { type = "integer", lower = 0, upper = 100 }
columns.city = { type = "text", values = ["Oslo", "Bergen"] }
columns.street = { type = "text" }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1", delta = "1e-7" }
"""
SQL = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
SECOND = "2026-01-12T10:00:00.000000Z"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_streams, "TICK", 0.001)


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    ages, streets = [number % 90 for number in range(400)], ["High Street", "Broadway"] * 200
    rows = pa.table({"id": range(400), "age": ages, "city": ["Oslo", "Bergen"] * 200, "street": streets})
    pq.write_table(rows, tmp_path / "visits.parquet")
    policy = tmp_path / "hush.toml"
    policy.write_text(TEXT, encoding="utf-8")
    make_ledger(Policy.read(policy)).close()
    return policy


@pytest.fixture
def publisher(clinic: Path) -> Iterator[Publisher]:
    _, publisher = open_publisher(clinic)
    with publisher:
        yield publisher


def asked(**words: Any) -> StreamDeclaration:
    schedule = Schedule(first="2026-01-05", every="week", slots=words.pop("releases", 4))
    price = {} if {"total_epsilon", "rho"} & words.keys() else {"epsilon": "0.1"}
    return StreamDeclaration(
        **{"name": "weekly", "data": "clinic", "question": SQL, "schedule": schedule} | price | words
    )


def test_an_explanation_sets_nothing_aside_and_tells_the_price_of_the_plan(publisher: Publisher) -> None:
    told = publisher.explain(asked(releases=200, epsilon="0.02"))
    assert publisher.streams.listed() == []
    assert told.together is not None
    assert 0 < told.together < 2  # by exact composition, where the sum of ε is 4
    assert told.fitting >= 200
    assert told.to_json()["sum_of_epsilon"] == "4"
    assert "200 releases at ε=0.02 each, together ε=" in str(told)
    assert told.release.errors().keys() == {"n"}
    too_many = publisher.explain(asked(releases=50, epsilon="0.5"))
    assert "would fit" in str(too_many)
    with pytest.raises(BudgetExceededError, match=f"; {too_many.fitting} would"):
        publisher.declare(asked(releases=50, epsilon="0.5"), actor=POLICY)
    assert publisher.declare(asked(releases=too_many.fitting, epsilon="0.5"), actor=POLICY).aside.left


def test_a_price_for_all_releases_buys_the_noise_that_errs_least(publisher: Publisher) -> None:
    """Of 52 releases Gaussian noise errs a third of what Laplace noise would; of a few, Laplace noise errs less."""
    plan = publisher.declare(asked(releases=52, total_epsilon="0.5"), actor=POLICY)
    assert plan.gaussian
    again = publisher.explain(asked(name="twin", releases=52, total_epsilon="0.5"))
    assert again.epsilon == plan.epsilon
    assert again.together is not None
    assert 0.499 < again.together <= 0.5
    laplace = publisher.explain(asked(name="laplace", releases=52, epsilon=Fraction(1, 104)))
    assert again.release.errors()["n"] < 0.4 * laplace.release.errors()["n"]
    few = publisher.explain(asked(name="few", releases=4, total_epsilon="0.5"))
    assert few.epsilon == Fraction(1, 8)
    rho = publisher.explain(asked(name="zcdp", rho="0.0002"))
    assert rho.release.errors()["n"] == 98  # σ = 50, at 95 %
    assert [release.state for _, release in run_due(publisher, clock=SECOND)] == ["made", "made"]


def test_releases_are_made_once_and_read_by_who_may(clinic: Path, publisher: Publisher) -> None:
    publisher.declare(asked(readers=("alice", "ben"), epsilon="0.5"), actor=Actor.owner("olga"))
    made = run_due(publisher, clock=SECOND)
    assert [(name, release.period, release.state) for name, release in made] == [
        ("weekly", "2026-01-05", "made"),
        ("weekly", "2026-01-12", "made"),
    ]
    assert run_due(publisher, clock=SECOND) == []
    with open_policy(clinic, analyst="alice") as alice:
        (view,) = alice.stream.list()
        assert view.readers == ("alice",)
        assert (view.left, view.released) == (2, 2)
        answer = alice.stream.open("weekly").release("2026-01-05")
        assert answer.receipt == str(view.releases[0].receipt)
        assert [round(count, -2) for count in answer["n"]] == [200, 200]  # off by 50 with probability 2e-11
        assert alice.stream.open("weekly").release().receipt == str(view.releases[1].receipt)
        series = alice.stream.open("weekly").release("all")
        assert [column.name for column in series.columns] == ["release", "city", "n"]
        assert [date.day for date in series["release"]] == [5, 5, 12, 12]
        assert series["n"][:2] == answer["n"]
        assert (series.price.epsilon, len(series.columns[2].errors)) == (1, 4)
        assert alice.history() == []
        assert alice.budget()[1].spent.share == 0
        with pytest.raises(UnknownStreamError):
            alice.stream.open("weekly").release("2026-01-19")
    ledger = publisher.session.ledger
    assert declared_views(ledger, "bob", {"bob": ["clinic"]}) == []
    told = []
    for name in ("weekly", "secret"):  # the first is there, and not for bob
        with pytest.raises(UnknownStreamError) as refusal:
            declared_release(ledger, name, "latest", "bob", {"bob": ["clinic"]})
        told.append(str(refusal.value).replace(name, "…"))
    assert told[0] == told[1]
    with pytest.raises(UnknownStreamError):
        declared_release(ledger, "weekly", "latest", None, {})


def test_two_workers_end_what_is_over_at_once(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher.declare(asked(late=False), actor=POLICY)
    end = DeclaredStreams.stop

    def outrun(plans: DeclaredStreams, name: str, **how: Any) -> None:
        end(plans, name, **how)  # another worker's
        end(plans, name, **how)

    monkeypatch.setattr(DeclaredStreams, "stop", outrun)
    assert run_due(publisher, clock="2027-01-01T00:00:00.000000Z") == []
    assert publisher.streams.find("weekly").aside.ended


def test_private_keys_share_the_part_of_delta_that_is_for_keys(publisher: Publisher) -> None:
    private = "SELECT street, COUNT(*) AS n FROM visits GROUP BY street"
    told = publisher.explain(asked(question=private, releases=365, epsilon="0.01"))
    assert told.fitting >= 365
    with pytest.raises(BudgetExceededError, match=r"25 would\. Lower delta, which private keys use"):
        publisher.declare(asked(question=private, releases=60, epsilon="0.01", delta="1e-8"), actor=POLICY)


def test_raising_a_budget_changes_no_noise(publisher: Publisher) -> None:
    private = "SELECT street, COUNT(*) AS n FROM visits GROUP BY street"
    publisher.declare(asked(question=private, epsilon="0.2"), actor=POLICY)
    publisher.session.ledger.raise_budget("clinic", epsilon=5, delta="1e-4", actor=POLICY)
    publisher.session.ledger.lower("clinic", epsilon=5, delta="1e-4")
    assert [release.state for _, release in run_due(publisher, clock=SECOND)] == ["made", "made"]


def test_a_policy_under_which_a_release_would_be_something_else_stops_it(clinic: Path, publisher: Publisher) -> None:
    publisher.declare(asked(), actor=POLICY)
    clinic.write_text(clinic.read_text("utf-8").replace("max_groups = 1", "max_groups = 2"), encoding="utf-8")
    _, changed = open_publisher(clinic)
    with changed:
        ((name, error),) = run_due(changed, clock=SECOND)
        assert (name, type(error)) == ("weekly", LedgerError)
        assert "something else than was declared" in str(error)
        assert changed.session.ledger.history(POLICY) == []


def test_what_the_policy_names_is_declared_once_and_other_words_are_refused(publisher: Publisher) -> None:
    assert declare_all(publisher, [asked(), asked(name="big", epsilon="2", releases=9)]).keys() == {"big"}
    assert declare_all(publisher, [asked()]) == {}
    (error,) = declare_all(publisher, [asked(epsilon="0.2")]).values()
    assert "with other words (price)" in str(error)
    with pytest.raises(QuestionError, match="costs nothing"):
        publisher.declare(asked(name="free", question="SELECT city FROM visits GROUP BY city"), actor=POLICY)


def test_a_plan_that_skips_ends_when_its_last_period_is_over(publisher: Publisher) -> None:
    publisher.declare(asked(late=False), actor=POLICY)
    assert [release.period for _, release in run_due(publisher, clock=SECOND)] == ["2026-01-12"]
    assert run_due(publisher, clock="2027-01-01T00:00:00.000000Z") == []
    assert publisher.streams.find("weekly").aside.ended
    (view,) = declared_views(publisher.session.ledger, None, None)
    assert [release.state for release in view.releases] == ["skipped", "made", "ended", "ended"]


@pytest.mark.parametrize("seconds", [0.0, 0.03])
def test_an_outcome_is_recorded_at_a_public_moment(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Whether it is made in no time, slowly or not at all, the outcome comes at tick·2ᵏ after the charge."""
    waited: list[float] = []
    monkeypatch.setattr(declared_streams, "TICK", 0.04)
    sleep = time.sleep
    monkeypatch.setattr(declared_streams.time, "sleep", waited.append)

    def slow(*_: object) -> None:
        sleep(seconds)
        raise ValueError("no")

    publisher.declare(asked(releases=1), actor=POLICY)
    monkeypatch.setattr(SqlEngine, "execute", slow)
    ((_, release),) = run_due(publisher, clock=SECOND)
    assert release.state == "failed"
    assert len(waited) == 1
    assert 0 <= waited[0] <= 0.08
    made = publisher.session.ledger.history(POLICY)[0]
    assert (made.outcome, made.reason) == ("failed", "no answer could be computed")


def test_dates_are_those_of_utc(publisher: Publisher) -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    schedule = Schedule(first=tomorrow.isoformat(), every="day", slots=2)
    publisher.declare(asked(schedule=schedule), actor=POLICY)
    assert run_due(publisher) == []


def test_a_failure_keeps_the_other_periods_from_being_charged_at_once(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.declare(asked(), actor=POLICY)
    with monkeypatch.context() as broken:
        broken.setattr(SqlEngine, "execute", lambda *_: 1 // 0)
        assert [release.state for _, release in run_due(publisher, clock=SECOND)] == ["failed"]
    assert [(release.period, release.state) for _, release in run_due(publisher, clock=SECOND)] == [
        ("2026-01-12", "made")
    ]


def test_the_table_of_all_releases_is_read_once(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher.declare(asked(), actor=POLICY)
    run_due(publisher, clock=SECOND)
    ledger = publisher.session.ledger
    _, first = declared_release(ledger, "weekly", "all", None, None)
    monkeypatch.setattr(Answer, "shown", lambda *_: pytest.fail("read again"))
    _, again = declared_release(ledger, "weekly", "all", None, None)
    assert first.to_bytes() == again.to_bytes()


def test_a_quota_stops_releases_before_the_charge(publisher: Publisher) -> None:
    def full() -> None:
        raise LedgerFullError("full")

    publisher.declare(asked(), actor=POLICY)
    publisher.session.ledger.limit_room(full)
    ((name, refusal),) = run_due(publisher, clock=SECOND)
    assert (name, type(refusal)) == ("weekly", LedgerFullError)
    assert publisher.streams.find("weekly").aside.next == 0


def test_the_table_of_all_releases_keeps_no_ledger(publisher: Publisher, clinic: Path) -> None:
    publisher.declare(asked(), actor=POLICY)
    run_due(publisher, clock=SECOND)
    ledger = open_ledger(Policy.read(clinic))
    declared_release(ledger, "weekly", "all", None, None)
    ledger.close()
    closed = weakref.ref(ledger)
    del ledger
    gc.collect()
    assert closed() is None
