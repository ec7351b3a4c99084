"""One scale for a budget: what charges took and what is left are the whole of it, wherever it is shown."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path

import pytest

from hush.accounting import LaplaceEvent
from hush.cli import run
from hush.core import BudgetExceededError
from hush.curator.opening import open_policy
from hush.ledger import Actor, Ledger
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger, open_ledger

OWNER, ALICE = Actor.owner("owner"), Actor.analyst("alice")
POLICY = """
[data.clinic]
budget = { epsilon = "4", delta = "1e-6" }
[data.clinic.tables.people]
source = "people.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
"""
WITH_ALICE = '[analysts.alice]\ndata = ["clinic"]\nbudget = { epsilon = "2", delta = "1e-7" }\n'
WITH_BOB = '[analysts.bob]\ndata = ["clinic"]\n'


def ask(ledger: Ledger, number: int, scale: int = 4) -> int:
    event = LaplaceEvent(scale=scale)
    made = ledger.reserve(f"q{number}", analyst="alice", data="clinic", question=f"q {number}", events=[event])
    ledger.answered(made, b"x")
    return made.number


@pytest.mark.parametrize("budget", [{"epsilon": 30}, {"epsilon": 8, "delta": "1e-6"}, {"epsilon": 9, "delta": "1e-9"}])
@pytest.mark.parametrize("raised", [False, True])
def test_what_charges_took_adds_up_to_what_is_spent(budget: dict[str, object], *, raised: bool) -> None:
    with Ledger.in_memory() as ledger:
        ledger.create_data("clinic", budget, actor=OWNER)
        ledger.add_analyst("alice", data="clinic", budget={"epsilon": 8, "delta": "1e-6"}, actor=OWNER)
        numbers = [ask(ledger, number, scale=1 + number % 5) for number in range(12)]
        if raised:
            ledger.raise_budget("clinic", epsilon=60, actor=OWNER)
        data, own = ledger.budget(ALICE)
        releases = ledger.history(ALICE)
        before = Fraction(budget["epsilon"]) / 60 if raised and "delta" not in budget else Fraction(not raised)
        if before:
            taken = sum(Fraction(str(release.share)) for release in releases)
            assert abs(data.spent.share - taken * before) <= Fraction(1, 10**5)
        assert sum(Fraction(str(release.own_share)) for release in releases) == own.spent.share
        assert data.spent.share + data.remaining.share == 1
        last = ledger.spending(numbers[-1])
        assert last is not None
        assert last.left == {data.whose: data, own.whose: own}[releases[0].of].remaining.share
        assert float(last.took) == releases[0].took


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("age\n" + "40\n" * 100)
    file = tmp_path / "hush.toml"
    file.write_text(POLICY)
    make_ledger(Policy.read(file)).close()
    return file


def write(policy: Path, *more: str) -> None:
    first = policy.read_text().splitlines()[0]
    policy.write_text(f"{first}\n{POLICY}{''.join(more)}")


def accounts(policy: Path) -> list[str | None]:
    with Ledger.open(policy.parent / "hush.ledger") as ledger:
        return [view.analyst for view in ledger.budget(OWNER)]


def test_nothing_is_opened_by_looking(policy: Path) -> None:
    write(policy, WITH_ALICE)
    before = (policy.parent / "hush.ledger").read_bytes()
    with open_policy(policy) as curator:
        curator.explain("SELECT COUNT(*) FROM people", epsilon="1")
        assert [view.analyst for view in curator.budget()] == [None, "alice"]
        assert curator.budget()[1].remaining.share == 1
        curator.history()
        with pytest.raises(BudgetExceededError):
            curator.ask("SELECT COUNT(*) FROM people", epsilon="3")
        assert accounts(policy) == [None]
        curator.ask("SELECT COUNT(*) FROM people", epsilon="1")
    assert accounts(policy) == [None, "alice"]
    assert before != (policy.parent / "hush.ledger").read_bytes()


def test_an_analyst_may_have_no_budget_of_their_own(policy: Path) -> None:
    write(policy, WITH_ALICE, WITH_BOB)
    with open_policy(policy, analyst="bob") as curator:
        assert [view.analyst for view in curator.budget()] == [None]
        answer = curator.ask("SELECT COUNT(*) FROM people", epsilon="3.5")
        assert answer.spending is not None
        assert answer.spending.whose == "the budget of clinic"
        with pytest.raises(BudgetExceededError):
            curator.ask("SELECT COUNT(*) FROM people", epsilon="3.5", fresh=True)


def test_analysts_whom_the_policy_names_no_longer_are_removed(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(policy, WITH_ALICE)
    with open_policy(policy) as curator:
        curator.ask("SELECT COUNT(*) FROM people", epsilon="1")
    write(policy)
    with open_ledger(Policy.read(policy)) as ledger:
        assert [(view.analyst, view.removed) for view in ledger.budget(OWNER)] == [(None, False), ("alice", True)]
    monkeypatch.chdir(policy.parent)
    assert run(["budget"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "alice on clinic: removed" in told
    assert "(removed)" in told


def test_one_wording_across_commands(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(policy, WITH_ALICE)
    monkeypatch.chdir(policy.parent)
    monkeypatch.setenv("COLUMNS", "200")
    question = "SELECT COUNT(*) AS n FROM people"
    said = {}
    for command in (["explain", question, "--epsilon", "0.5"], ["ask", question, "--epsilon", "0.5"], ["history"]):
        command += ["--as", "alice"]
        assert run(command) == 0
        said[command[0]] = capsys.readouterr().out
    assert run(["budget"]) == 0
    said["budget"] = capsys.readouterr().out
    assert "takes 25% of alice's budget, of which 100% is left: enough for it about 4 times" in said["explain"]
    assert "price ε=0.5, which took 25% of alice's budget; 75% of it is left" in said["ask"]
    assert " 25%  answered" in said["history"]
    assert "alice's budget (ε=2, δ=1e-7): 25% is spent, 75% is left" in said["history"]
    assert "25%    75%" in said["budget"]


def test_acts_say_figures_and_reasons_and_exports_are_private(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy.parent)
    assert run(["ledger", "raise", "clinic", "--epsilon", "6", "--reason", "the board of May"]) == 0
    assert run(["ledger", "export", "all.jsonl"]) == 0
    assert stat.S_IMODE((policy.parent / "all.jsonl").stat().st_mode) == 0o600
    reason = ["--reason", "the disk broke", "--lost", "0.5"]
    assert run(["ledger", "import", "all.jsonl", "--ledger", "copy.ledger", *reason, "--anchor", "none"]) == 0
    capsys.readouterr()
    assert run(["ledger", "acts", "--ledger", "copy.ledger"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "opened clinic: ε=4, δ=1e-6" in told
    assert "raised clinic: ε=6, δ=1e-6: the board of May" in told
    assert "restored a copy that lacks ε=" in told
    assert "the disk broke" in told


def test_figures_in_a_refusal_are_the_same(policy: Path) -> None:
    write(policy, WITH_ALICE)
    with open_policy(policy) as curator:
        curator.ask("SELECT COUNT(*) FROM people", epsilon="1.5")
        with pytest.raises(BudgetExceededError, match=r"75% on .* \(receipt \d+: SELECT COUNT"):
            curator.ask("SELECT COUNT(*) FROM people", epsilon="1")
        assert curator.budget()[1].spent.share == Fraction(3, 4)
        assert "75% of it" not in repr(curator)
        assert "75% is spent, 25% is left" in repr(curator)
        assert "75% is spent, 25% is left" in curator._repr_html_()


def test_history_shows_the_epsilon_that_was_asked_for(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(policy, WITH_ALICE)
    with open_policy(policy) as curator:
        curator.ask("SELECT COUNT(*) FROM people", epsilon="0.125")
        assert curator.history()[0].epsilon == "0.125"
    monkeypatch.chdir(policy.parent)
    capsys.readouterr()
    assert run(["history"]) == 0
    assert " 0.125 " in capsys.readouterr().out
