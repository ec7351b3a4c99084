"""One number for a budget: every place shows the same share, shares add up to 100 %, and the past never changes."""

from __future__ import annotations

import json
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from fractions import Fraction
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting import ApproximateDPEvent, LaplaceEvent
from hush.accounting.events import Event, ZCDPEvent
from hush.accounting.filters import filter_from_json
from hush.cli import run
from hush.core import BudgetExceededError, InvalidValueError
from hush.core.format import percent
from hush.curator.opening import open_policy
from hush.curator.session import Accounts
from hush.ledger import Actor, Ledger
from hush.ledger.budgets import Whose
from hush.ledger.errors import AllowanceError
from hush.ledger.history import AccountView, Release
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server import schemas

OWNER = Actor.owner("owner")
ANALYSTS = ("alice", "bob", "carol")
"""Carol has no budget of her own."""
EVENTS = st.one_of(
    st.builds(lambda scale: LaplaceEvent(scale=scale), st.sampled_from([2, 3, 7, 40, 3000])),
    st.builds(lambda rho: ZCDPEvent(rho=Fraction(rho), delta=Fraction(1, 10**9)), st.sampled_from(["1/50", "1/2000"])),
    st.builds(lambda epsilon: ApproximateDPEvent(epsilon=epsilon, delta="1e-8"), st.sampled_from(["0.1", "1"])),
)
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(ANALYSTS), EVENTS),
    st.tuples(st.just("ask"), st.sampled_from(ANALYSTS), EVENTS),
    st.tuples(st.just("raise"), st.sampled_from(["", "alice", "bob"]), st.integers(4, 9)),
    st.tuples(st.just("lower"), st.sampled_from(["", "alice"]), st.integers(1, 9)),
    st.tuples(st.just("allow"), st.sampled_from(["alice", "bob"]), st.integers(1, 3)),
)


def opened(path: str) -> Ledger:
    ledger = Ledger.open(path, anchor="none", create=OWNER)
    ledger.create_data("clinic", {"epsilon": 4, "delta": "1e-6"}, actor=OWNER)
    ledger.add_analyst("alice", data="clinic", budget={"epsilon": 3, "delta": "1e-6"}, actor=OWNER)
    ledger.add_analyst("bob", data="clinic", budget={"epsilon": 2, "delta": "1e-7", "kind": "zcdp"}, actor=OWNER)
    ledger.add_analyst("carol", data="clinic", actor=OWNER)
    return ledger


def views(ledger: Ledger, analyst: str) -> dict[str, AccountView]:
    mine = ledger.budget(Actor.analyst(analyst))
    return {view.whose: view for view in mine if view.analyst in {None, analyst}}


def check_views(ledger: Ledger) -> None:
    """Spent, set aside and left are all of a budget, in JSON and in words."""
    for view in ledger.budget(OWNER):
        assert view.spent.share + view.set_aside + view.remaining.share == 1
        told = schemas.account(view)
        assert (told["spent"]["share"], told["remaining"]["share"]) == (
            float(view.spent.share),
            float(view.remaining.share),
        )
        spent, left = percent(view.spent.share), percent(view.remaining.share)
        assert f"{spent} is spent, {left} is left" in str(view)
        assert Fraction(spent.rstrip("%")) + Fraction(left.rstrip("%")) == 100


def check_charge(ledger: Ledger, analyst: str, events: list[Event], name: str) -> Release | None:
    """What is foreseen is taken, recorded and told, of the same budget."""
    before = views(ledger, analyst)
    accounts = Accounts(tuple(Whose(name, view.account) for name, view in before.items()))
    foreseen = accounts.outlook(events)
    assert foreseen is not None
    asked: dict[str, Any] = {"analyst": analyst, "data": "clinic", "question": name, "events": events}
    try:
        charge = ledger.reserve(name, **asked)
    except AllowanceError:  # refuses more than the budgets do
        return None
    except BudgetExceededError:
        assert foreseen.more == 0
        assert "does not fit" in str(foreseen)
        return None
    assert foreseen.more > 0
    release = ledger.history(Actor.analyst(analyst))[0]
    spending = ledger.spending(charge.number)
    assert spending is not None
    assert release.of == foreseen.whose == spending.whose
    assert foreseen.takes == spending.took
    assert float(foreseen.takes) == release.took
    assert foreseen.left - foreseen.takes == spending.left
    assert float(spending.left) == release.shares[release.of]["left"]
    for word in (str(foreseen), str(spending), repr(release)):
        assert f"{percent(spending.took, taken=True)} of {spending.whose}" in word
    after = views(ledger, analyst)
    for whose, share in release.shares.items():
        assert float(before[whose].remaining.share - after[whose].remaining.share) == share["took"]
        assert float(after[whose].remaining.share) == share["left"]
    return release


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=14))
def test_shares_are_the_same_everywhere_and_the_past_never_changes(steps: list[tuple[str, str, Any]]) -> None:
    with opened(":memory:") as ledger:
        past: dict[int, dict[str, Any]] = {}
        sums: dict[str, Fraction] = {}
        """What was taken of each budget since it last became another one, with what was spent before."""
        for number, (what, who, value) in enumerate(steps):
            if what == "ask":
                release = check_charge(ledger, who, [value], f"q{number}")
                if release is not None:
                    past[release.number] = asdict(release)
                    for whose, share in release.shares.items():
                        sums[whose] = sums.get(whose, Fraction(0)) + Fraction(str(share["took"]))
            elif what == "raise":
                with suppress(InvalidValueError):  # no more than it is
                    ledger.raise_budget("clinic", who or None, epsilon=value, actor=OWNER)
            elif what == "lower":
                ledger.lower("clinic", who or None, epsilon=value, delta="1e-6")
            else:
                ledger.allow("clinic", who, epsilon=value, every="year")
            check_views(ledger)
            spent = {view.whose: view.spent.share for view in ledger.budget(OWNER)}
            if what == "ask":
                assert all(spent[whose] == total for whose, total in sums.items())
            else:
                sums = spent
            assert {release.number: asdict(release) for release in ledger.history(OWNER)} == past
        ledger.verify()


@pytest.mark.parametrize("epsilon", ["9", "1"])
def test_a_budget_below_what_was_spent_is_shown_as_it_was_stated(epsilon: str) -> None:
    """At ε = 1 the account's order is of no use: the sum of ε alone is left of it."""
    ledger = Ledger.in_memory()
    ledger.create_data("clinic", {"epsilon": "20", "delta": "1e-7"}, actor=OWNER)
    ledger.add_analyst("alice", data="clinic", actor=OWNER)
    asked: dict[str, Any] = {"analyst": "alice", "data": "clinic", "question": "q", "events": [LaplaceEvent(scale=1)]}
    for number in range(20):
        ledger.reserve(str(number), **asked)
    ledger.lower("clinic", epsilon=epsilon, delta="1e-7")
    (view,) = [view for view in ledger.budget(OWNER) if view.analyst is None]
    told = view.to_json()
    assert told["budget"] == {"epsilon": epsilon, "delta": "1e-7"}
    assert f"ε={epsilon}, δ=1e-7" in str(view)
    assert told["spent"] == {"share": 1.0}  # its ε would be more than that of the budget
    assert Fraction(view.to_json(details=True)["spent"]["epsilon"]) > Fraction(epsilon)
    assert told["delta_for_keys"] == "2.5e-8"
    assert filter_from_json(view.account.to_json()) == view.account  # as the client reads it
    with pytest.raises(BudgetExceededError):
        ledger.reserve("more", **asked)


POLICY = """
[data.clinic]
budget = { epsilon = "4", delta = "1e-6" }
[data.clinic.tables.people]
source = "people.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
columns.town = { type = "text" }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "3", delta = "1e-6" }
[analysts.bob]
data = ["clinic"]
"""
QUESTIONS = ("SELECT COUNT(*) AS n FROM people", "SELECT town, COUNT(*) AS n FROM people GROUP BY town")


def said(*command: str) -> str:
    """Run a command, and return the words that it printed, with single spaces between them."""
    with redirect_stdout(StringIO()) as printed:
        status = run(list(command))
    assert status == 0
    return " ".join(printed.getvalue().split())


@settings(max_examples=6, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["alice", "bob"]), st.sampled_from(QUESTIONS), st.sampled_from(["0.05", "0.24"])),
        min_size=1,
        max_size=4,
    )
)
def test_commands_answers_and_json_show_the_same_share(steps: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("COLUMNS", "400")
        patched.setenv("XDG_STATE_HOME", folder)
        Path("people.csv").write_text("age,town\n" + "40,here\n" * 100)
        Path("hush.toml").write_text(POLICY)
        make_ledger(Policy.read(Path("hush.toml"))).close()
        for analyst, question, epsilon in steps:
            asked = (question, "--epsilon", epsilon, "--as", analyst)
            foreseen = said("explain", *asked)
            told = json.loads(said("explain", *asked, "--json"))["budget"]
            with open_policy("hush.toml", analyst=analyst) as curator:
                answer = curator.ask(question, epsilon=epsilon, fresh=True)
                release, spending = curator.history()[0], answer.spending
            assert spending is not None
            took, left = f"{percent(spending.took)} of {spending.whose}", f"{percent(spending.left)} of it is left"
            assert f"takes {took}" in foreseen
            assert (told["of"], told["takes"]) == (release.of, release.took) == (spending.whose, float(spending.took))
            assert answer.to_json()["budget"] == {"of": release.of, "took": release.took, "left": float(spending.left)}
            assert f"which took {took}; {left}" in answer.notes()[0]
            assert f" {epsilon} {percent(spending.took)}" in said("history", "--as", analyst, "--limit", "1")
            assert f"{percent(spending.left)} is left" in said("history", "--as", analyst)
            accounts = json.loads(said("budget", "--as", analyst, "--json"))["accounts"]
            assert float(spending.left) in [account["remaining"]["share"] for account in accounts]
            assert f" {percent(spending.left)} " in said("budget", "--as", analyst)
