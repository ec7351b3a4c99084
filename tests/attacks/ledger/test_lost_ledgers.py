"""A lost ledger never becomes a fresh budget, by whatever path its policy is opened."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import hush
from hush.cli import run
from hush.ledger import Actor, Ledger, LedgerError, LedgerMissingError, LedgerRolledBackError, NotAllowedError
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger, name_ledger

POLICY = """# whose data these are
[data.clinic]
unit = "id"
budget = { epsilon = "1" }
[data.clinic.tables.visits]
source = "visits.parquet"
columns.age = { type = "integer", lower = 0, upper = 120 }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1" }
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
OWNER = Actor.owner("owner")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A folder with a table and a policy, and no ledger."""
    folder = tmp_path / "clinic"
    (folder / "sub").mkdir(parents=True)
    parquet.write_table(pa.table({"id": list(range(100)), "age": [30] * 100}), folder / "visits.parquet")
    (folder / "hush.toml").write_text(POLICY, encoding="utf-8")
    return folder


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def ask(policy: Path, epsilon: str = "1", **options: bool) -> None:
    with hush.open(policy, **options) as curator:
        curator.ask(COUNT, epsilon=epsilon, fresh=True)


def spend(clinic: Path) -> None:
    """Spend all that there is, and lose the ledger."""
    ask(clinic / "hush.toml", create=True)
    with pytest.raises(hush.BudgetExceededError):
        ask(clinic / "hush.toml")
    (clinic / "hush.ledger").unlink()


def without_id(clinic: Path) -> None:
    """Let the policy be as hush 0.1.0 left it."""
    (clinic / "hush.toml").write_text(POLICY, encoding="utf-8")


# What uses a ledger makes none.


def test_asking_and_explaining_make_no_ledger(clinic: Path, tmp_path: Path) -> None:
    before = files(clinic)
    with hush.open(clinic / "hush.toml") as curator:
        assert curator.explain(COUNT, epsilon="0.5").to_json()["price"]["epsilon"] == "0.5"
        assert list(curator.tables()) == ["visits"]
        for use in (curator.budget, curator.history, lambda: curator.ask(COUNT, epsilon="0.5", fresh=True)):
            with pytest.raises(LedgerMissingError, match="hush ledger open"):
                use()
        with pytest.raises(hush.HushError, match="no table"):  # a question that is refused anyway
            curator.ask("SELECT COUNT(*) FROM nowhere", epsilon="0.5", fresh=True)
    assert files(clinic) == before
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["explain", COUNT, "--epsilon", "0.5"], 0),
        (["ask", COUNT, "--epsilon", "0.5"], 2),
        (["ask", COUNT, "--epsilon", "50"], 2),
        (["ask", "SELECT nothing", "--epsilon", "0.5"], 2),
        (["budget"], 2),
        (["history"], 2),
        (["ledger", "verify"], 2),
        (["ledger", "raise", "clinic", "--epsilon", "9"], 2),
        (["ledger", "restore", "--reason", "x", "--lost", "none"], 2),
    ],
)
def test_no_command_but_one_makes_a_ledger(
    clinic: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    status: int,
) -> None:
    monkeypatch.chdir(clinic)
    before = files(clinic)
    assert run(command) == status
    assert files(clinic) == before
    assert not (tmp_path / "state").exists()
    if command[0] in {"ask", "budget"} and "SELECT nothing" not in command:
        assert "hush ledger open" in capsys.readouterr().err
    assert run(["ledger", "open"]) == 0
    assert files(clinic) == before | {"hush.ledger"}
    assert run(["ask", COUNT, "--epsilon", "0.5"]) == 0


def test_the_demo_leaves_no_ledger_and_no_anchor(tmp_path: Path) -> None:
    assert run(["demo", "--folder", str(tmp_path / "tour"), "--patients", "1000"]) == 0
    assert "hush.ledger" not in files(tmp_path / "tour")
    assert not (tmp_path / "state").exists()


# What was lost stays lost.


def other_spelling(clinic: Path) -> Path:
    return clinic / "sub" / ".." / "hush.toml"


def symlinked(clinic: Path) -> Path:
    link = clinic.with_name("link")
    link.symlink_to(clinic)
    return link / "hush.toml"


def relative(clinic: Path) -> Path:
    return Path(os.path.relpath(clinic)) / "hush.toml"


def linked_policy(clinic: Path) -> Path:
    """A link to the policy in the folder itself: sources and ledger are beside it."""
    (clinic / "other.toml").symlink_to("hush.toml")
    return clinic / "other.toml"


SPELLINGS = [other_spelling, symlinked, relative, linked_policy]


def moved(clinic: Path) -> Path:
    return Path(shutil.move(clinic, clinic.with_name("moved"))) / "hush.toml"


def copied(clinic: Path) -> Path:
    return Path(shutil.copytree(clinic, clinic.with_name("copied"))) / "hush.toml"


def another_home(clinic: Path) -> Path:
    os.environ["XDG_STATE_HOME"] = str(clinic.with_name("another-home"))  # the fixture of this folder puts it back
    return clinic / "hush.toml"


@pytest.mark.parametrize("way", [*SPELLINGS, moved, copied, another_home])
def test_a_lost_ledger_is_missed_by_every_path(clinic: Path, way) -> None:
    spend(clinic)
    policy = way(clinic)
    for create in (False, True):
        with pytest.raises(LedgerRolledBackError, match="--new REASON"):
            ask(policy, create=create)
    assert run(["ledger", "open", "--policy", str(policy)]) == 2
    assert run(["ask", COUNT, "--epsilon", "1", "--policy", str(policy)]) == 2
    assert not (policy.parent / "hush.ledger").exists() or not (policy.parent / "hush.ledger").stat().st_size


@pytest.mark.parametrize("way", SPELLINGS)
def test_the_anchor_alone_knows_every_spelling(clinic: Path, way) -> None:
    spend(clinic)
    without_id(clinic)
    policy = way(clinic)
    for create in (False, True):
        with pytest.raises(LedgerRolledBackError, match="A new one would forget what was spent"):
            ask(policy, create=create)


@pytest.mark.parametrize("first", SPELLINGS)
def test_whichever_spelling_came_first(clinic: Path, first) -> None:
    ask(first(clinic), create=True)
    without_id(clinic)
    with pytest.raises(hush.BudgetExceededError):
        ask(clinic / "hush.toml")
    (clinic / "hush.ledger").unlink()
    with pytest.raises(LedgerRolledBackError):
        ask(clinic / "hush.toml", create=True)


def test_a_moved_ledger_finds_its_anchor_by_its_id(clinic: Path) -> None:
    ask(clinic / "hush.toml", "0.25", create=True)
    backup = (clinic / "hush.ledger").read_bytes()
    policy = moved(clinic)
    ask(policy, "0.25")
    ask(policy, "0.25")
    policy.with_name("hush.ledger").write_bytes(backup)
    with pytest.raises(LedgerRolledBackError, match="entries are missing"):
        ask(policy, "0.25")
    policy.with_name("hush.ledger").unlink()
    without_id(policy.parent)
    with pytest.raises(LedgerRolledBackError, match="A new one would forget"):
        ask(policy, create=True)


def test_where_a_ledger_was_moved_away_from_another_one_can_be_made(clinic: Path) -> None:
    ask(clinic / "hush.toml", "0.25", create=True)
    shutil.copytree(clinic, clinic.with_name("old"))
    (clinic / "hush.ledger").unlink()
    ask(clinic.with_name("old") / "hush.toml", "0.25")  # the ledger lives on there, and its anchor has seen it
    without_id(clinic)
    ask(clinic / "hush.toml", "0.5", create=True)
    ask(clinic.with_name("old") / "hush.toml", "0.25")
    ask(clinic / "hush.toml", "0.5")
    for folder in (clinic, clinic.with_name("old")):
        with Ledger.open(folder / "hush.ledger") as ledger:
            ledger.verify()


def test_an_empty_file_is_no_ledger(clinic: Path) -> None:
    spend(clinic)
    (clinic / "hush.ledger").touch()
    for create in (False, True):
        with pytest.raises(LedgerRolledBackError):
            ask(clinic / "hush.toml", create=create)


# Which ledger it is.


def test_another_ledger_will_not_do(clinic: Path, tmp_path: Path) -> None:
    ask(clinic / "hush.toml", create=True)
    with Ledger.open(tmp_path / "fresh.ledger", create=OWNER, anchor="none") as other:
        assert other.id not in (clinic / "hush.toml").read_text(encoding="utf-8")
    shutil.move(tmp_path / "fresh.ledger", clinic / "hush.ledger")
    with pytest.raises(LedgerRolledBackError):
        ask(clinic / "hush.toml")
    another_home(clinic)  # where no anchor knows better
    with pytest.raises(LedgerRolledBackError, match=r"hush\.toml:1: the policy's ledger is"):
        ask(clinic / "hush.toml")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_policy_names_its_ledger_and_is_otherwise_as_it_was(clinic: Path, end: str) -> None:
    text = POLICY.replace("\n", end).encode()
    policy = clinic / "hush.toml"
    policy.write_bytes(text)
    policy.chmod(0o640)
    with make_ledger(Policy.read(policy)) as ledger:
        identity = ledger.id
    line, _, rest = policy.read_bytes().partition(end.encode())
    assert line.startswith(f'ledger_id = "{identity}"'.encode())
    assert rest == text
    assert policy.stat().st_mode & 0o777 == 0o640
    written = policy.read_bytes()
    make_ledger(Policy.read(policy)).close()
    assert policy.read_bytes() == written
    assert Policy.read(policy).ledger_id == identity
    assert name_ledger(policy, "0" * 32)
    assert policy.read_bytes() == written.replace(identity.encode(), b"0" * 32)


def test_a_ledger_of_before_gets_its_name(clinic: Path) -> None:
    ask(clinic / "hush.toml", "0.25", create=True)
    without_id(clinic)
    ask(clinic / "hush.toml", "0.25")
    assert (clinic / "hush.toml").read_text(encoding="utf-8") == POLICY  # asking changes nothing
    assert run(["ledger", "open", "--policy", str(clinic / "hush.toml")]) == 0
    with Ledger.open(clinic / "hush.ledger") as ledger:
        assert Policy.read(clinic / "hush.toml").ledger_id == ledger.id


def test_a_policy_that_cannot_be_changed_is_told_what_to_add(
    clinic: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hush.policy.ledger.replace_file", lambda *_: (_ for _ in ()).throw(PermissionError()))
    with make_ledger(Policy.read(clinic / "hush.toml")) as ledger:
        assert f"ledger_id = '{ledger.id}'" in caplog.text
    assert (clinic / "hush.toml").read_text(encoding="utf-8") == POLICY


# The owner's way out.


def test_beginning_anew_is_an_act_with_a_reason(clinic: Path) -> None:
    spend(clinic)
    policy = clinic / "hush.toml"
    lost = Policy.read(policy).ledger_id
    with pytest.raises(NotAllowedError):
        make_ledger(Policy.read(policy), actor=Actor.analyst("alice"), anew="more, please")
    assert run(["ledger", "open", "--policy", str(policy), "--new", "these are other people"]) == 0
    assert Policy.read(policy).ledger_id not in {None, lost}
    with Ledger.open(clinic / "hush.ledger") as ledger:
        assert ledger.acts(OWNER)[0].detail["reason"] == "these are other people"
    ask(policy)
    assert run(["ledger", "open", "--policy", str(policy), "--new", "again"]) == 2  # there is one
    with pytest.raises(LedgerError, match="nothing is begun anew where one is"):
        make_ledger(Policy.read(policy), anew="again")


def test_the_newest_copy_put_back_goes_on(clinic: Path) -> None:
    ask(clinic / "hush.toml", "0.25", create=True)
    shutil.copy(clinic / "hush.ledger", clinic / "copy")
    (clinic / "hush.ledger").unlink()
    with pytest.raises(LedgerRolledBackError):
        ask(clinic / "hush.toml", "0.25")
    shutil.move(clinic / "copy", clinic / "hush.ledger")
    ask(clinic / "hush.toml", "0.25")


def test_a_lost_ledger_is_rebuilt_from_its_export(clinic: Path) -> None:
    policy, export = clinic / "hush.toml", clinic / "export.jsonl"
    ask(policy, "0.25", create=True)
    assert run(["ledger", "export", str(export), "--policy", str(policy)]) == 0
    (clinic / "hush.ledger").unlink()
    options = ["--policy", str(policy), "--reason", "the disk died", "--lost", "none"]
    assert run(["ledger", "import", str(export), *options]) == 0
    ask(policy, "0.75")
    with pytest.raises(hush.BudgetExceededError):
        ask(policy, "0.01")


@pytest.mark.parametrize("name", ["clinic2", "CLINIC", "Clinic"])
def test_another_name_in_the_policy_is_no_fresh_budget(
    clinic: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The budget of a data set was opened by the first question about it, so a new name had all of it again."""
    policy = clinic / "hush.toml"
    ask(policy, create=True)
    spent = policy.read_text(encoding="utf-8")
    policy.write_text(spent.replace("data.clinic", f"data.{name}").replace('["clinic"]', f'["{name}"]'), "utf-8")
    with hush.open(policy) as curator:
        assert "ε=1" in str(curator.explain(COUNT, epsilon="1"))
        with pytest.raises(LedgerMissingError, match=rf"hush.toml:\d+: .* has no budget for {name}, .* ledger open"):
            curator.ask(COUNT, epsilon="1", fresh=True)
    with Ledger.open(clinic / "hush.ledger") as ledger:
        assert {view.data for view in ledger.budget(OWNER)} == {"clinic"}
    policy.write_text(spent, encoding="utf-8")
    with pytest.raises(hush.BudgetExceededError):
        ask(policy)
    assert not caplog.records
    policy.write_text(spent.replace("data.clinic", f"data.{name}").replace('["clinic"]', f'["{name}"]'), "utf-8")
    ask(policy, create=True)  # the owner's own act, which is warned of
    assert any(f"opened for {name}. The ledger also has clinic" in record.message for record in caplog.records)


def test_an_analyst_who_is_added_needs_no_act(clinic: Path) -> None:
    policy = clinic / "hush.toml"
    ask(policy, epsilon="0.5", create=True)
    added = '[analysts.bob]\ndata = ["clinic"]\nbudget = { epsilon = "1" }\n'
    policy.write_text(policy.read_text(encoding="utf-8") + added, encoding="utf-8")
    with hush.open(policy, analyst="bob") as curator:
        curator.ask(COUNT, epsilon="0.5", fresh=True)
        with pytest.raises(hush.BudgetExceededError, match="clinic"):
            curator.ask(COUNT, epsilon="0.5", fresh=True)
