"""Budgets over time: an allowance refuses more than the lifetime budget and never less; dear questions wait."""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import GaussianEvent, LaplaceEvent
from hush.accounting.events import Event
from hush.cli import run
from hush.core import BudgetExceededError
from hush.curator.opening import open_policy
from hush.ledger import (
    Actor,
    AllowanceError,
    ApprovalNeededError,
    Charge,
    Decision,
    Ledger,
    LedgerError,
    Parked,
    Repeat,
    backup,
    chain,
    charging,
    requests,
)
from hush.ledger import ledger as ledger_module
from hush.ledger.budgets import EVERY, Allowance
from hush.ledger.errors import TooManyRequestsError
from hush.policy.document import PolicyError
from hush.policy.file import Policy

OWNER, ALICE = Actor.owner("owner"), Actor.analyst("alice")
CASES = min(int(os.environ.get("HUSH_CASES", "30")), 500)
STEP = Fraction(1, 4)


def moment(day: int) -> str:
    return f"2026-{1 + day // 28:02}-{1 + day % 28:02}T10:00:00.000000Z"


def set_clock(patch: pytest.MonkeyPatch, when: str) -> None:
    for module in (backup, chain, charging, ledger_module):
        patch.setattr(module, "now", lambda: when)


STEPS = st.lists(st.tuples(st.integers(0, 330), st.sampled_from(["ask", "ask", "ask", "reopen", "copy"])), max_size=25)


@settings(max_examples=CASES)
@given(steps=STEPS, every=st.sampled_from(["day", "week", "month", "year"]), delta=st.sampled_from([0, "1e-6"]))
def test_no_order_of_windows_restarts_and_clocks_passes_a_limit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]], every: str, delta: object
) -> None:
    """Days come in any order: the clock goes forward and back. Every step may also open the ledger anew, or a copy."""
    folder = tmp_path_factory.mktemp("allowance")
    place, copies = folder / "0.ledger", 0
    at_first = pytest.MonkeyPatch()
    set_clock(at_first, moment(0))
    ledger = Ledger.open(place, anchor="none", create=OWNER)
    ledger.create_data("d", {"epsilon": 2, "delta": delta}, actor=OWNER)
    ledger.add_analyst("alice", data="d", budget={"epsilon": "1.5", "delta": delta}, actor=OWNER)
    at_first.undo()
    allowed = Allowance(epsilon="0.5", every=every)
    latest, spent, windows = "", Fraction(0), Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        for number, (day, act) in enumerate(steps):
            set_clock(patch, moment(day))
            clock = max(latest, moment(day))
            if act == "copy":  # the owner's act has a time too
                latest = clock
            if act == "copy":
                with (folder / "lines").open("w+") as lines:
                    ledger.export(lines, actor=OWNER)
                    lines.seek(0)
                    copies += 1
                    place = folder / f"{copies}.ledger"
                    ledger.close()
                    ledger = Ledger.import_(lines, place, actor=OWNER, reason="r", lost="none", anchor="none")
            elif act == "reopen":
                ledger.close()
                ledger = Ledger.open(place)
            ledger.allow("d", "alice", epsilon="0.5", every=every)
            try:
                made = ledger.reserve(
                    f"q{number}", analyst="alice", data="d", question="q", events=[LaplaceEvent(scale=4)]
                )
            except BudgetExceededError:
                continue
            ledger.answered(made, b"")
            latest = max(latest, clock)
            spent += STEP
            windows[allowed.window(latest)] += 1
        data, own = ledger.budget(OWNER)
        ledger.verify()
        ledger.close()
    assert own.spent.share <= 1
    assert data.spent.share <= 1
    if not delta:
        assert spent <= Fraction(3, 2)
        assert own.spent.epsilon == spent
        assert all(number * STEP <= Fraction(1, 2) for number in windows.values())


def test_an_allowance_refuses_and_says_when_the_next_window_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, moment(0))
    with Ledger.in_memory() as ledger:
        ledger.create_data("d", {"epsilon": 4}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        ledger.allow("d", "alice", epsilon="0.5", every="month")

        def ask(name: str, when: str) -> None:
            set_clock(monkeypatch, when)
            events = [LaplaceEvent(scale=4)]
            ledger.reserve(name, analyst="alice", data="d", question=name, events=events)

        ask("a", moment(0))
        ask("b", moment(1))
        with pytest.raises(AllowanceError, match=r"every month on d, but 0% is left until 2026-02-01"):
            ask("c", moment(2))
        ask("d", moment(30))
        ask("e", moment(0))  # the clock was set back: it is still February
        with pytest.raises(AllowanceError):
            ask("f", moment(0))
        assert ledger.budget(OWNER)[0].spent.epsilon == 1


@pytest.mark.parametrize("every", EVERY)
def test_windows_follow_each_other(every: str) -> None:
    allowed = Allowance(epsilon=1, every=every)
    names = [allowed.window(moment(day)) for day in range(330)]
    assert names == sorted(names)


POLICY = """
[data.clinic]
budget = { epsilon = "4" }
[data.clinic.tables.people]
source = "people.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
[analysts.alice]
data = ["clinic"]
allowance = { epsilon = "2", every = "day" }
ask_first = { epsilon = "0.5" }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("age\n" + "40\n" * 100)
    (tmp_path / "hush.toml").write_text(POLICY)
    open_policy(tmp_path / "hush.toml", create=True).close()
    return tmp_path / "hush.toml"


def test_a_dear_question_waits_for_the_owner(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy.parent)
    count = "SELECT COUNT(*) AS n FROM people"
    with open_policy(policy) as curator:
        curator.ask(count, epsilon="0.5")
        with pytest.raises(ApprovalNeededError, match=r"Questions above ε=0\.5 need the owner's approval") as parked:
            curator.ask(count, epsilon="1", reason="for the yearly report")
        number = parked.value.number
        with pytest.raises(ApprovalNeededError, match=f"waits for the owner \\(request {number}\\)"):
            curator.ask(count.lower(), epsilon="1.0")
        assert [(request.state, request.reason) for request in curator.requests()] == [
            ("waiting", "for the yearly report")
        ]
        assert len(curator.history()) == 1
        assert run(["requests", "--approve", str(number), "--as", "alice"]) == 2
        assert run(["requests", "--approve", str(number)]) == 0
        assert "approved by" in capsys.readouterr().out
        answer = curator.ask(count, epsilon="1")
        assert curator.ask(count, epsilon="1").receipt == answer.receipt  # again: free, and needs no approval
        with pytest.raises(ApprovalNeededError):  # an approval serves once
            curator.ask(count, epsilon="1", fresh=True)
        other = curator.requests()[0].number
        assert run(["requests", "--decline", str(other), "--reason", "once is enough"]) == 0
        with pytest.raises(ApprovalNeededError, match="once is enough"):
            curator.ask(count, epsilon="1", fresh=True)
        assert run(["requests", "--approve", str(other)]) == 2
        assert curator.ask(count, epsilon="0.5", fresh=True).repeated == ""
        with pytest.raises(AllowanceError):
            curator.ask(count, epsilon="0.4", fresh=True)
    with Ledger.open(policy.parent / "hush.ledger") as ledger:
        ledger.verify()
        assert {"requested", "approved", "declined"} <= {act.kind for act in ledger.acts(OWNER)}
        with pytest.raises(LedgerError):
            ledger.decide(1, approve=True, actor=OWNER)


def test_a_larger_budget_is_asked_for_and_approved_at_the_machine(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy.parent)
    with open_policy(policy) as curator, pytest.raises(LedgerError, match="no budget of their own"):
        curator.request(epsilon=3)
    (policy.parent / "own").mkdir()
    (policy.parent / "people.csv").rename(policy.parent / "own" / "people.csv")
    policy = policy.parent / "own" / "hush.toml"
    policy.write_text(POLICY + 'budget = { epsilon = "1" }\n')
    monkeypatch.chdir(policy.parent)
    open_policy(policy, create=True).close()
    text = policy.read_text()
    with open_policy(policy) as curator:
        wish = curator.request(epsilon="3/2", reason="one more")
        assert run(["requests"]) == 0
        assert f"{wish.number}  waiting  alice on clinic, a budget of ε=3/2; one more" in capsys.readouterr().out
    assert run(["requests", "--approve", str(wish.number)]) == 0
    assert policy.read_text() == text.replace('budget = { epsilon = "1" }', 'budget = { epsilon = "1.5" }')
    with open_policy(policy) as curator:
        own = next(view for view in curator.budget() if view.analyst == "alice")
        assert own.epsilon == Fraction(3, 2)


@pytest.mark.parametrize(
    "line",
    [
        'allowance = { epsilon = "1", every = "fortnight" }',
        'allowance = { epsilon = "0", every = "month" }',
        'allowance = { every = "month" }',
        'ask_first = { epsilon = "-1" }',
        "ask_first = { }",
    ],
)
def test_mistakes_of_a_policy_are_told(line: str) -> None:
    with pytest.raises(PolicyError, match=r"Write |must be"):
        Policy.parse(POLICY.split("allowance", maxsplit=1)[0] + line)


def test_a_window_is_not_opened_twice_by_somebody_without_an_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their charges have the system's time alone: after one of them a clock that was set back stays the analyst's."""
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 9}, actor=OWNER)
    for name in ("alice", "bob"):
        ledger.add_analyst(name, data="d", budget={"epsilon": 9}, actor=OWNER)
    ledger.allow("d", "alice", epsilon="0.5", every="month")

    def ask(request: str, analyst: str, day: int, scale: int = 2) -> None:
        set_clock(monkeypatch, moment(day))
        events = LaplaceEvent(scale=scale)
        ledger.answered(ledger.reserve(request, analyst=analyst, data="d", question=request, events=events), b"")

    ask("1", "alice", 310, scale=4)
    ask("2", "bob", 280)
    ask("3", "alice", 280, scale=4)
    ask("4", "bob", 311)
    with pytest.raises(AllowanceError):
        ask("5", "alice", 311)


def test_an_approval_is_used_up_by_an_answer_that_is_shared() -> None:
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 9}, actor=OWNER)
    for name in ("alice", "bob"):
        ledger.add_analyst(name, data="d", budget={"epsilon": 9}, actor=OWNER)
    ledger.ask_first("d", "alice", epsilon="0.1")

    def reserve(request: str, analyst: str, *, fresh: bool = False) -> Decision:
        repeat = Repeat(question="same", shared=True, fresh=fresh)
        terms = {"data": "d", "question": "q", "events": LaplaceEvent(scale=2), "epsilon": Fraction(1, 2)}
        return ledger.reserve(request, analyst=analyst, repeat=repeat, **terms)

    ledger.answered(reserve("1", "bob"), b"7")
    parked = reserve("2", "alice")
    assert isinstance(parked, Parked)
    ledger.decide(parked.number, approve=True, actor=OWNER)
    assert reserve("3", "alice").answer == b"7"
    assert [request.state for request in ledger.requests(ALICE)] == ["used"]
    assert isinstance(reserve("4", "alice", fresh=True), Parked)
    assert ledger.verify().entries


def test_an_approval_is_for_one_price_and_one_charge() -> None:
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 9}, actor=OWNER)
    ledger.add_analyst("alice", data="d", budget={"epsilon": 9}, actor=OWNER)
    ledger.ask_first("d", "alice", epsilon="0.1")

    def reserve(request: str, epsilon: Fraction | None) -> Decision:
        scale = 2 if epsilon is None else 1 / epsilon
        terms = {"data": "d", "question": "q", "events": LaplaceEvent(scale=scale), "epsilon": epsilon}
        return ledger.reserve(request, analyst="alice", repeat=Repeat(question="same", fresh=True), **terms)

    half, one = Fraction(1, 2), Fraction(1)
    parked = reserve("1", half)
    assert isinstance(parked, Parked)
    ledger.decide(parked.number, approve=True, actor=OWNER)
    other = reserve("2", one)
    assert isinstance(other, Parked), "it is good for the price that was approved alone"
    assert other.number != parked.number
    assert isinstance(reserve("3", half), Charge)
    again = reserve("4", half)
    assert isinstance(again, Parked), "and for one charge"
    assert again.number not in {parked.number, other.number}
    assert isinstance(reserve("5", None), Parked), "a charge whose ε is not known may be above the limit"
    assert isinstance(reserve("6", Fraction(1, 10)), Charge)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_owners_who_decide_at_once_the_first_one_decides(*, first: bool) -> None:
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 9}, actor=OWNER)
    ledger.add_analyst("alice", data="d", budget={"epsilon": 1}, actor=OWNER)
    number = ledger.ask_for_budget("d", epsilon=5, actor=ALICE)
    ledger.decide(number, approve=first, actor=Actor.owner("quicker"))
    with pytest.raises(LedgerError, match="approved already" if first else "declined already"):
        ledger.decide(number, approve=not first, actor=OWNER)
    (told,) = ledger.requests(ALICE)
    assert (told.state, told.by) == ("approved" if first else "declined", "quicker")
    own = next(view for view in ledger.budget(ALICE) if view.analyst == "alice")
    assert own.epsilon == (5 if first else 1)
    assert ledger.verify().entries


def dear_ledger(**budget: object) -> Ledger:
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 100, "delta": "1e-6"}, actor=OWNER)
    ledger.add_analyst("alice", data="d", budget={"epsilon": 50, **budget}, actor=OWNER)
    return ledger


def test_an_allowance_too_small_for_the_order_counts_the_sum_of_epsilon() -> None:
    """At 0.2 of 0.6 the account's Rényi order is of no use, and everything was refused."""
    ledger = dear_ledger(epsilon="0.6", delta="1e-6")
    ledger.allow("d", "alice", epsilon="0.2", every="month")

    def ask(request: str, events: Event) -> None:
        ledger.reserve(request, analyst="alice", data="d", question=request, events=events)

    ask("1", LaplaceEvent(scale=10))
    with pytest.raises(AllowanceError, match=r"but 50% is left"):
        ask("2", LaplaceEvent(scale=9))
    ask("3", LaplaceEvent(scale=10))
    with pytest.raises(AllowanceError, match=r"but 0% is left"):
        ask("4", LaplaceEvent(scale=1000))
    ledger = dear_ledger(epsilon="0.6", delta="1e-6")
    ledger.allow("d", "alice", epsilon="0.2", every="month")
    with pytest.raises(AllowanceError):  # it has no largest loss, so no sum
        ask("5", GaussianEvent(sigma=100))


def test_requests_that_wait_are_bounded_in_number_and_size() -> None:
    ledger = dear_ledger()
    ledger.ask_first("d", "alice", epsilon="0.1")

    def ask(question: str) -> int:
        parked = ledger.reserve(
            question[:50], analyst="alice", data="d", question=question, events=LaplaceEvent(scale=2),
            epsilon=Fraction(1, 2), repeat=Repeat(question=question[:50]),
        )  # fmt: skip
        assert isinstance(parked, Parked)
        return parked.number

    first = ask("SELECT 0")
    for number in range(1, requests.MOST_WAITING):
        ask(f"SELECT {number}")
    with pytest.raises(TooManyRequestsError, match=r"20 requests of alice wait .* not recorded, and nothing"):
        ask("SELECT 99")
    with pytest.raises(TooManyRequestsError):
        ledger.ask_for_budget("d", epsilon=60, actor=ALICE)
    ledger.decide(first, approve=False, actor=OWNER)
    ask("SELECT 99")  # what was decided waits no longer
    for request in ledger.requests(ALICE)[:8]:
        ledger.decide(request.number, approve=True, actor=OWNER)
    for letter in "abcde":
        ask(letter * 49_000)
    with pytest.raises(TooManyRequestsError, match="the limits are 20 and 262,144"):
        ask("f" * 49_000)
    assert len(ledger.requests(ALICE)) < 30
