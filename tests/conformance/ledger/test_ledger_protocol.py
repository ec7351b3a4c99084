"""What the ledger promises, on every store."""

from __future__ import annotations

import io
import json
import threading
from fractions import Fraction

import pytest
from seams import chain_of

from hush.accounting import ApproximateDPEvent, ComposedEvent, DescriptionError, GaussianEvent, LaplaceEvent
from hush.core import BudgetExceededError, HushError, InvalidValueError
from hush.ledger import (
    AccountExistsError,
    Actor,
    Charge,
    Ledger,
    LedgerDamagedError,
    LedgerError,
    LedgerMissingError,
    LedgerRolledBackError,
    NotAllowedError,
    OwnerAct,
    Repeat,
    Replay,
    RequestConflictError,
    RequestUnansweredError,
    Share,
    UnknownAccountError,
)
from hush.ledger import store as schema
from hush.ledger.anchors import open_anchor
from hush.ledger.streams import Schedule, StreamDeclaration

OWNER, ALICE, BOB = Actor.owner("Dr Weiss"), Actor.analyst("alice"), Actor.analyst("bob")


@pytest.fixture
def ledger(place):
    with Ledger.open(place, create=OWNER) as opened:
        opened.create_data("clinic", {"epsilon": 1}, actor=OWNER)
        opened.add_analyst("alice", data="clinic", budget={"epsilon": "0.6"}, actor=OWNER)
        opened.add_analyst("bob", data="clinic", budget={"epsilon": "0.8"}, actor=OWNER)
        yield opened


def ask(ledger, request, epsilon="0.1", *, analyst="alice", data="clinic", question="SELECT COUNT(*) FROM visits"):
    return ledger.reserve(
        request, analyst=analyst, data=data, question=question, events=[ApproximateDPEvent(epsilon=epsilon)]
    )


def left(ledger, analyst=None):
    return next(view for view in ledger.budget(OWNER) if view.analyst == analyst).remaining.epsilon


def state(ledger):
    return [(view.data, view.analyst, view.account) for view in ledger.budget(OWNER)], ledger.verify().head


def test_two_workers_release_a_standing_question_once_for_each_period(ledger, place):
    schedule = Schedule(first="2026-01-05", every="week", slots=6)
    asked = StreamDeclaration(name="weekly", data="clinic", question="SELECT 1", schedule=schedule, epsilon="0.1")
    events, terms = [LaplaceEvent(scale=10)], ledger.budget(OWNER)[0].account
    ledger.streams.declare(asked, epsilon=Fraction(1, 10), events=events, terms=terms, actor=OWNER)
    assert left(ledger) == Fraction(4, 10)
    released = []

    def work():
        with Ledger.open(place) as worker:
            while (reserved := worker.streams.reserve("weekly", clock="2026-02-04T00:00:00.000000Z")) is not None:
                worker.answered(reserved[0], b"noisy")
                released.append(reserved[1])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(released) == ["2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    plan = ledger.streams.find("weekly")
    assert [release.state for release in ledger.streams.periods(plan)][:5] == ["made"] * 5
    assert left(ledger) == Fraction(4, 10)
    ledger.streams.stop("weekly", actor=OWNER)
    assert left(ledger) == Fraction(5, 10)
    assert ledger.verify().charges == 5


def test_a_charge_fits_every_budget_above_it(ledger):
    ask(ledger, "a1", "0.5")
    assert (left(ledger), left(ledger, "alice"), left(ledger, "bob")) == (
        Fraction(1, 2),
        Fraction(1, 10),
        Fraction(4, 5),
    )
    before = state(ledger)
    with pytest.raises(BudgetExceededError, match=r"takes 33.333% of alice's budget, but 16.666% is left"):
        ask(ledger, "a2", "0.2")
    with pytest.raises(BudgetExceededError, match=r"takes 60% of clinic's budget, but 50% is left"):
        ask(ledger, "b1", "0.6", analyst="bob")
    assert state(ledger) == before


def test_the_refusal_says_which_releases_spent_most(ledger):
    ask(ledger, "small", "0.1", question="SELECT 1")
    ask(ledger, "large", "0.4", question="SELECT AVG(cost) FROM visits")
    with pytest.raises(BudgetExceededError) as refusal:
        ask(ledger, "more", "0.3")
    message = str(refusal.value)
    assert refusal.value.exit_status == 3
    assert "takes 50% of alice's budget, but 16.666% is left; a price of at most ε=0.1 fits; lower epsilon" in message
    assert message.index(": SELECT AVG(cost) FROM visits)") < message.index(": SELECT 1)")
    assert "receipt" in message
    assert "66.667% on " in message  # 0.4 of the 0.6 that are hers
    # Bob is told that others spent it, not what they asked.
    with pytest.raises(BudgetExceededError) as refusal:
        ask(ledger, "b", "0.7", analyst="bob")
    assert "another analyst's question" in str(refusal.value)
    assert "SELECT AVG" not in str(refusal.value)


def test_replay_gives_the_stored_answer_and_draws_nothing(ledger):
    ticket = ask(ledger, "q", "0.3")
    assert isinstance(ticket, Charge)
    ledger.answered(ticket, b"\x00 any bytes \xff")
    before = state(ledger)
    again = ask(ledger, "q", "0.3")
    assert isinstance(again, Replay)
    assert again.answer == b"\x00 any bytes \xff"
    assert again.number == ticket.number
    assert state(ledger) == before
    with pytest.raises(InvalidValueError):
        ledger.answered(again, b"other")


@pytest.mark.parametrize("change", [{"question": "SELECT 2"}, {"epsilon": "0.31"}])
def test_a_request_id_stands_for_one_question(ledger, change):
    ledger.answered(ask(ledger, "q", "0.3"), b"1")
    before = state(ledger)
    with pytest.raises(RequestConflictError, match="another question or price"):
        ask(ledger, "q", **{"epsilon": "0.3", **change})
    assert state(ledger) == before
    ask(ledger, "q", "0.1", analyst="bob")  # ids are each analyst's own


def test_failed_and_pending_stay_charged(ledger):
    failed, pending = ask(ledger, "f", "0.2"), ask(ledger, "p", "0.2")
    ledger.failed(failed, "the engine timed out")
    assert left(ledger, "alice") == Fraction(1, 5)
    with pytest.raises(RequestUnansweredError, match=r"failed: the engine timed out. It stays charged"):
        ask(ledger, "f", "0.2")
    with pytest.raises(RequestUnansweredError, match="has no answer"):
        ask(ledger, "p", "0.2")
    assert [view.pending for view in ledger.budget(OWNER)] == [1, 1, 0]
    assert [release.outcome for release in ledger.history(ALICE)] == ["pending", "failed"]
    ledger.answered(pending, b"x")
    with pytest.raises(LedgerError, match="recorded already"):
        ledger.failed(pending, "too late")
    with pytest.raises(LedgerError, match="recorded already"):
        ledger.answered(pending, b"x")


def test_ten_tenths_fit_and_the_eleventh_does_not(place):
    with Ledger.open(place, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        for at in range(10):
            ask(ledger, f"q{at}", 0.1, data="d")
        assert left(ledger) == 0
        with pytest.raises(BudgetExceededError):
            ask(ledger, "q10", 0.1, data="d")
        with pytest.raises(BudgetExceededError):
            ask(ledger, "q11", "1e-300", data="d")


def test_a_thousand_tiny_charges_after_a_half_are_not_free(place):
    with Ledger.open(place, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": Fraction(1, 2) + Fraction(1000, 2**60)}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        ask(ledger, "half", "0.5", data="d")
        for at in range(100):  # ten at a time
            tiny = [ApproximateDPEvent(epsilon=Fraction(1, 2**60))] * 10
            ledger.reserve(f"t{at}", analyst="alice", data="d", question="q", events=tiny)
        assert left(ledger) == 0
        with pytest.raises(BudgetExceededError):
            ask(ledger, "one more", Fraction(1, 2**60), data="d")


@pytest.mark.parametrize(
    "price",
    [float("nan"), float("inf"), -float("inf"), 0, -1, True, False, "0.1", "", None, [], {}, [0.1], [None], object()],
    ids=lambda price: repr(price).split(" at ")[0],
)
def test_what_is_no_price_is_refused_without_change(ledger, price):
    before = state(ledger)
    with pytest.raises(InvalidValueError):
        ledger.reserve("q", analyst="alice", data="clinic", question="q", events=price)
    if price is not None and not isinstance(price, (list, dict, str)):
        with pytest.raises(HushError):
            ask(ledger, "q", price)
    for events in ([ApproximateDPEvent(epsilon=0)], [ComposedEvent(parts=[(LaplaceEvent(scale=1), 0)])]):
        with pytest.raises(HushError):
            ledger.reserve("q", analyst="alice", data="clinic", question="q", events=events)
    assert state(ledger) == before


def test_an_event_without_a_price_here_is_refused_without_change(ledger):
    before = state(ledger)
    with pytest.raises((DescriptionError, InvalidValueError, BudgetExceededError)):
        ledger.reserve("q", analyst="alice", data="clinic", question="q", events=[GaussianEvent(sigma=3)])
    assert state(ledger) == before


def test_approximate_budgets_use_the_renyi_filter(place):
    with Ledger.open(place, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1, "delta": "1e-6"}, actor=OWNER)
        ledger.add_analyst("alice", data="d", budget={"epsilon": 1, "delta": "1e-7", "kind": "zcdp"}, actor=OWNER)
        for at in range(5):
            ledger.reserve(f"g{at}", analyst="alice", data="d", question="q", events=[GaussianEvent(sigma=30)])
        kinds = [view.account.kind for view in ledger.budget(OWNER)]
        assert kinds == ["renyi", "zcdp"]
        ledger.verify()
        shares = [view.spent.share for view in ledger.budget(OWNER)]
    with Ledger.open(place) as again:
        assert [view.spent.share for view in again.budget(OWNER)] == shares


def test_roles(ledger):
    for act in (
        lambda: ledger.create_data("x", {"epsilon": 1}, actor=ALICE),
        lambda: ledger.add_analyst("eve", data="clinic", actor=ALICE),
        lambda: ledger.raise_budget("clinic", epsilon=2, actor=ALICE),
        lambda: ledger.export(io.StringIO(), actor=ALICE),
        lambda: ledger.acts(ALICE),
    ):
        with pytest.raises(NotAllowedError, match="needs the owner role"):
            act()
    ask(ledger, "a")
    ask(ledger, "b", analyst="bob")
    assert [release.analyst for release in ledger.history(OWNER)] == ["bob", "alice"]
    assert [release.analyst for release in ledger.history(ALICE)] == ["alice"]
    assert [view.analyst for view in ledger.budget(BOB)] == [None, "bob"]
    assert ledger.budget(Actor.analyst("stranger")) == []


def test_names_must_be_known_and_sane(ledger):
    with pytest.raises(UnknownAccountError, match="did you mean 'clinic'"):
        ask(ledger, "q", data="clinik")
    with pytest.raises(UnknownAccountError, match="may not ask about"):
        ask(ledger, "q", analyst="alise")
    with pytest.raises(AccountExistsError):
        ledger.create_data("clinic", {"epsilon": 5}, actor=OWNER)
    with pytest.raises(AccountExistsError):
        ledger.add_analyst("alice", data="clinic", actor=OWNER)
    for bad in ("", " x", "a\nb", "a\0", "x" * 201, "\ud800", 7, None):
        with pytest.raises(InvalidValueError):
            ledger.create_data(bad, {"epsilon": 1}, actor=OWNER)
        with pytest.raises(InvalidValueError):
            ask(ledger, bad)
        with pytest.raises(InvalidValueError):
            ask(ledger, "q", data=bad)
    for bad in ("", "\ud800", 7, None):
        with pytest.raises(InvalidValueError):
            ask(ledger, "q", question=bad)
    ask(ledger, "ünïcode ☃", question="SELECT '\0\n☃' -- anything goes in a text")
    assert ledger.history(ALICE)[0].question == "SELECT '\0\n☃' -- anything goes in a text"


def test_raising_keeps_what_was_spent(ledger):
    ask(ledger, "q", "0.5")
    ledger.raise_budget("clinic", epsilon=2, actor=OWNER)
    ledger.raise_budget("clinic", "alice", epsilon="1.5", actor=OWNER)
    assert (left(ledger), left(ledger, "alice")) == (Fraction(3, 2), Fraction(1))
    for bad in (1, "nan", -1, 2):
        with pytest.raises(InvalidValueError):
            ledger.raise_budget("clinic", epsilon=bad, actor=OWNER)
    kinds = [act.kind for act in ledger.acts(OWNER)]
    assert kinds == ["ledger", "data", "analyst", "analyst", "raise", "raise"]
    assert ledger.acts(OWNER)[-1].by == "Dr Weiss"
    ledger.verify()


@pytest.mark.parametrize("kind", ["renyi", "zcdp", "gdp"])
def test_raising_an_approximate_budget_keeps_its_currency(place, kind):
    with Ledger.open(place, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1, "delta": "1e-6", "kind": kind}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        ask(ledger, "q", "0.1", data="d")
        before = ledger.budget(OWNER)[0].account
        ledger.raise_budget("d", epsilon=2, delta="1e-5", actor=OWNER)
        after = ledger.budget(OWNER)[0].account
        assert (after.currency, after.spent_loss) == (before.currency, before.spent_loss)
        assert after.limit > before.limit
        ledger.verify()


def test_what_another_process_wrote_is_seen(place, ledger):
    with Ledger.open(place) as other:
        ask(other, "theirs", "0.5")
        with pytest.raises(BudgetExceededError):
            ask(ledger, "mine", "0.2")
        ask(ledger, "small", "0.1")
        assert left(other) == left(ledger) == Fraction(4, 10)


def test_threads_share_a_ledger(ledger):
    granted = []

    def work(name):
        for at in range(10):
            try:
                ask(ledger, f"{name}-{at}", "0.1")
            except BudgetExceededError:
                continue
            granted.append(name)

    threads = [threading.Thread(target=work, args=(f"t{at}",)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 6
    assert left(ledger, "alice") == 0


def test_export_and_import_reproduce_the_totals(ledger, places):
    ledger.answered(ask(ledger, "q1", "0.3"), b"answer one")
    ledger.failed(ask(ledger, "q2", "0.2"), "no")
    ask(ledger, "q3", "0.1", analyst="bob")
    ledger.raise_budget("clinic", epsilon=3, actor=OWNER)
    lines = io.StringIO()
    count = ledger.export(lines, actor=OWNER)
    text = lines.getvalue()
    assert count == ledger.verify().entries
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
    target = places()
    with Ledger.import_(io.StringIO(text), target, actor=OWNER, reason="a new server", lost="none") as copy:
        assert [view.account for view in copy.budget(OWNER)] == [view.account for view in ledger.budget(OWNER)]
        assert ask(copy, "q1", "0.3").answer == b"answer one"
        assert copy.acts(OWNER)[-1].kind == "restored"
        assert copy.acts(OWNER)[-1].detail["reason"] == "a new server"
        copy.verify()
    with pytest.raises(LedgerError, match="already"):
        Ledger.import_(io.StringIO(text), target, actor=OWNER, reason="again", lost="none")
    # A line changed, left out, or moved: refused, and nothing is made.
    rows = text.splitlines(keepends=True)
    for bad in (
        text.replace('"loss":"3/10"', '"loss":"1/10"'),
        "".join(rows[:5] + rows[6:]),
        "".join(rows[:-1]),
        "".join(rows[:-3]),
        "".join([*rows[:4], rows[5], rows[4], *rows[6:]]),
        "",
        "{}\n",
        "not json\n",
        rows[0],
    ):
        broken = places()
        with pytest.raises(HushError):
            Ledger.import_(io.StringIO(bad), broken, actor=OWNER, reason="broken", lost="none")
        with pytest.raises(LedgerMissingError):
            Ledger.open(broken)


def test_what_an_import_lost_is_charged(ledger, places):
    ask(ledger, "q1", "0.3")
    lines = io.StringIO()
    ledger.export(lines, actor=OWNER)
    for lost, rest in (("0.25", Fraction(45, 100)), ("all", 0), (("0.1", 0), Fraction(6, 10)), ("9", 0)):
        copy = Ledger.import_(io.StringIO(lines.getvalue()), places(), actor=OWNER, reason="disk died", lost=lost)
        with copy:
            assert left(copy) == rest
            copy.verify()
            if not rest:
                with pytest.raises(BudgetExceededError):
                    ask(copy, "q2", "0.01")
                copy.raise_budget("clinic", epsilon=20, actor=OWNER)
                copy.raise_budget("clinic", "alice", epsilon=20, actor=OWNER)
                ask(copy, "q2", "0.01")
    for bad in ("some", -1, "nan", (1, 2, 3), (1, 2)):
        with pytest.raises(InvalidValueError):
            Ledger.import_(io.StringIO(lines.getvalue()), places(), actor=OWNER, reason="r", lost=bad)
    with pytest.raises(NotAllowedError):
        Ledger.import_(io.StringIO(lines.getvalue()), places(), actor=ALICE, reason="r", lost="none")


def test_no_ledger_here(place):
    with pytest.raises(LedgerMissingError, match="There is no ledger at"):
        Ledger.open(place)
    with pytest.raises(NotAllowedError):
        Ledger.open(place, create=ALICE)


def test_migrations_run_once_and_newer_versions_are_refused(place, ledger, monkeypatch):
    ask(ledger, "q")
    before, version = state(ledger), schema.VERSION
    monkeypatch.setattr(schema, "VERSION", version + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {version: ["CREATE TABLE hush_new (x {integer}, y {blob})"]})
    with Ledger.open(place) as migrated:
        assert chain_of(migrated).store.storage.rows("SELECT COUNT(*) FROM hush_new")[0][0] == 0
        assert state(migrated) == before
    with Ledger.open(place) as again:
        ask(again, "q2")
    monkeypatch.setattr(schema, "VERSION", version + 2)  # a migration that breaks leaves everything as it was
    monkeypatch.setattr(schema, "MIGRATIONS", {version + 1: ["CREATE TABLE hush_newer (x {integer})", "NONSENSE"]})
    with pytest.raises(HushError):
        Ledger.open(place)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match=f"schema version {version + 1}; this hush knows versions 1 to {version}"):
        Ledger.open(place)


def test_a_replaced_history_is_refused(ledger):
    """An entry that another process has read already is exchanged, hash and all, behind its back."""
    ask(ledger, "q1", "0.3")
    store = chain_of(ledger).store
    store.storage.change("UPDATE hush_entries SET hash = ? WHERE number = ?", b"\1" * 32, 5)
    with pytest.raises(HushError):
        ask(ledger, "q2", "0.3")


def test_a_witness_or_an_anchor_notices_a_shortened_ledger(place, ledger):
    for at in range(4):
        ask(ledger, f"q{at}", "0.1")
    store = chain_of(ledger).store
    store.storage.change("DELETE FROM hush_entries WHERE number > ?", 5)
    head = store.entry(5)
    store.storage.change("UPDATE hush_head SET number = ?, hash = ?", head.number, head.hash)
    with pytest.raises(LedgerRolledBackError, match="its last 3 entries are missing"):
        Ledger.open(place)


def test_an_anchor_in_a_table_of_another_database(place, other_database):
    anchor = f"{other_database}#clinic"
    with Ledger.open(place, create=OWNER, anchor=anchor) as ledger:
        ledger.create_data("clinic", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("alice", data="clinic", actor=OWNER)
        assert ledger.verify().anchor.endswith("#clinic")
        ledger.answered(ask(ledger, "q0"), b"x")
        with Ledger.open(place) as other:  # the ledger says where its anchor is
            ask(other, "q1")
        ask(ledger, "q2")
        store = chain_of(ledger).store

        def cut(number):
            store.storage.change("DELETE FROM hush_entries WHERE number > ?", number)
            store.storage.change("UPDATE hush_head SET number = ?, hash = ?", number, store.entry(number).hash)

        whole = left(ledger)
        cut(6)  # the last one: put right
        with Ledger.open(place) as again:
            assert left(again) == whole
        cut(5)  # the last two: refused
        with pytest.raises(LedgerRolledBackError, match="its last 2 entries are missing"):
            Ledger.open(place)
    with Ledger.in_memory() as fresh:
        chain_of(fresh).anchor = open_anchor(anchor, ledger="x")
        with pytest.raises(LedgerRolledBackError, match="belongs to another ledger"):
            fresh.budget(OWNER)


def shared(ledger, request, *, analyst="alice", question="SELECT COUNT(*) FROM visits", same="count"):
    return ledger.reserve(
        request,
        analyst=analyst,
        data="clinic",
        question=question,
        events=[ApproximateDPEvent(epsilon="0.1")],
        repeat=Repeat(question=same, shared=True),
    )


def test_a_request_id_is_bound_where_the_answer_was_shared(ledger):
    ledger.answered(shared(ledger, "b1", analyst="bob"), b"7")
    ledger.answered(shared(ledger, "b2", analyst="bob", question="SELECT SUM(age) FROM visits", same="sum"), b"8")
    first = shared(ledger, "a1")
    assert isinstance(first, Share)
    assert (first.answer, left(ledger, "alice")) == (b"7", Fraction(1, 2))
    before = state(ledger)
    again = shared(ledger, "a1")
    assert again == Replay(number=first.number, answer=b"7", when=first.when)
    for question, same in (
        ("SELECT SUM(age) FROM visits", "sum"),  # another question that is shared
        ("SELECT MAX(age) FROM visits", "max"),  # another question that nobody asked
        ("SELECT COUNT(*) FROM visits", "dearer"),  # the same words at another price
    ):
        with pytest.raises(RequestConflictError, match="for another question or price"):
            shared(ledger, "a1", question=question, same=same)
    with pytest.raises(RequestConflictError):
        ask(ledger, "a1", "0.2")
    assert state(ledger) == before
    assert ask(ledger, "a1", "0.1").answer == b"7"


def test_acts_around_a_service_are_links_of_the_chain(ledger):
    budgets = state(ledger)[0]
    added = OwnerAct(identity="x1", by="Dr Weiss", what="add-person", whom="alice", detail={"roles": "analyst"})
    assert [ledger.record(added), ledger.record(added)] == [True, False]
    for digest, new in (("one", True), ("one", False), ("two", True), ("one", True)):
        policy = OwnerAct(identity="policy", by="file", what="policy", detail={"sha256": digest})
        assert ledger.record(policy) is new
    told = [str(act) for act in ledger.acts(OWNER) if act.kind == "act"]
    assert told[0] == "added alice (roles: analyst)"
    assert told[1:] == [f"the policy came into force (sha256: {word})" for word in ("one", "two", "one")]
    assert state(ledger)[0] == budgets
    with pytest.raises(InvalidValueError, match="what"):
        OwnerAct(identity="x2", by="Dr Weiss", what="something", whom="alice")
    store = chain_of(ledger).store
    number = store.act("x1").number
    with store.storage.locked():  # whoever makes somebody else the doer breaks the chain
        body = store.entry(number).body.decode().replace("Dr Weiss", "Dr Black")
        store.storage.change("UPDATE hush_entries SET body = ? WHERE number = ?", body, number)
        store.storage.commit()
    with pytest.raises(LedgerDamagedError, match=f"Entry {number}"):
        ledger.verify()
