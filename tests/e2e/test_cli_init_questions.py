"""``hush init`` on a terminal: it asks for what the data must not decide, and writes what is answered."""

from __future__ import annotations

import datetime as dt
import io
import os
import pty
import select
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import hush
from hush.cli import run
from hush.policy.file import Policy
from hush.query.types import Type, position

_COLUMNS = """
    7 AS pid, 30 AS age, 12.5::DECIMAL(10, 2) AS cost, 'Oslo' AS city, DATE '2024-05-06' AS day,
    TIMESTAMP '2024-05-06 07:08:09' AS at, true AS paid, 3.25::DOUBLE AS weight
"""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as base:
        base.execute(f"COPY (SELECT {_COLUMNS}) TO 'visits.parquet'")
    (tmp_path / "beds.csv").write_text("pid,beds,ward\n7,41,North\n", encoding="utf-8")
    return tmp_path


def _init(monkeypatch: pytest.MonkeyPatch, files: str, *answers: str) -> str:
    monkeypatch.setattr("sys.stdin", _Terminal("".join(f"{answer}\n" for answer in answers)))
    assert run(["init", *files.split()]) == 0
    assert not sys.stdin.read(), "an answer that no question asked for"
    return Path("hush.toml").read_text(encoding="utf-8")


def _columns(table: str) -> dict[str, Type]:
    return dict(Policy.read("hush.toml").schema("mydata").tables[table].columns)


@pytest.mark.usefixtures("folder")
def test_everything_that_is_answered_is_in_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ("pid", "4", "1e-7", "0", "120", "0.10", "5000", 'Oslo, "Rio, Brazil"', "2020-01-01", "2030-12-31")
    answers = (*answers, "2020-01-01", "2030-01-01 12:00", "-1.5", "1e3")
    text = _init(monkeypatch, "visits.parquet", *answers)
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }\n' in text
    assert 'columns.cost = { type = "decimal", step = "0.01", lower = "0.10", upper = 5000 }\n' in text
    policy = Policy.read("hush.toml")
    assert policy.data["mydata"].unit == "pid"
    budget = policy.analysts["alice"].budget
    assert (budget.epsilon, budget.delta) == (4, Fraction(1, 10**7))
    columns = _columns("visits")
    assert columns["city"].values == ("Oslo", "Rio, Brazil")
    found = {name: (column.lower, column.upper) for name, column in columns.items() if column.bounded}
    assert found == {
        "age": (0, 120),
        "cost": (Fraction(1, 10), 5000),
        "day": (position(dt.date(2020, 1, 1)), position(dt.date(2030, 12, 31))),
        "at": (position(dt.datetime(2020, 1, 1)), position(dt.datetime(2030, 1, 1, 12))),
        "weight": (Fraction(-3, 2), 1000),
    }


@pytest.mark.usefixtures("folder")
def test_wrong_answers_are_asked_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = ("pidd", "pid", "-3", "much", "4", "2", "", "old", "0", "-5", "120", "", "", "a, a", "a", "2020-13-01")
    _init(monkeypatch, "visits.parquet", *answers, ".")
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "Did you mean 'pid'?",
        "must be a positive finite number. Got '-3'",
        "must be a positive finite number. Got 'much'",
        "at least 0 and below 1. Got '2'",
        "age.lower must be a whole number; got 'old'.",
        "age.upper must not be below lower; got '-5'.",
        "city.values lists 'a' twice.",
        "day.lower must be a date, without a time zone; got '2020-13-01'. Write 2024-12-31.",
    ):
        assert words in said
    assert (_columns("visits")["age"].lower, _columns("visits")["age"].upper) == (0, 120)


@pytest.mark.usefixtures("folder")
def test_empty_answers_leave_what_no_terminal_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["init", "visits.parquet"]) == 0  # pytest's standard input is no terminal
    without = Path("hush.toml").read_text(encoding="utf-8")
    assert _init(monkeypatch, "visits.parquet --force", *[""] * 16) == without
    assert _init(monkeypatch, "visits.parquet --force", "", "", "", ".") == without
    assert _init(monkeypatch, "visits.parquet --force --no-input") == without


@pytest.mark.usefixtures("folder")
def test_files_without_types_are_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ("int", "integer", "0", "", "", "North,South")
    text = _init(monkeypatch, "visits.parquet beds.csv --unit pid --epsilon 1 --delta 1e-7", ".", *answers)
    assert 'columns.beds = { type = "integer", lower = 0 }  # add' in text
    assert 'columns.ward = { type = "text", values = ["North", "South"] }\n' in text
    assert _columns("beds")["ward"].values == ("North", "South")
    assert "41" not in text
    assert _columns("visits")["age"].lower is None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("option", "value"), [("--epsilon", "-1"), ("--delta", "1")])
def test_options_are_checked_like_answers(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "visits.parquet", option, value]) == 2
    assert option in capsys.readouterr().err
    assert not Path("hush.toml").exists()


def test_on_a_pseudo_terminal(folder: Path) -> None:
    answers = iter(["pid", "1", "", "0", "120", "."])
    child, terminal = pty.fork()
    if child == 0:
        here = os.environ | {"PYTHONPATH": str(Path(hush.__file__).parents[1])}
        os.execve(sys.executable, [sys.executable, "-m", "hush.cli", "init", "visits.parquet"], here)  # noqa: S606
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            read = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if not read:
            break
        shown += read
        if shown.endswith(b": "):
            os.write(terminal, next(answers, "").encode() + b"\n")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown.decode()
    assert "age (integer): upper bound" in shown.decode()
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }' in (folder / "hush.toml").read_text("utf-8")


@pytest.mark.usefixtures("folder")
def test_every_row_ranges_usual_values_and_short_types(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("people.csv").write_text("age,sex,size\n30,x,1\n", encoding="utf-8")
    answers = ("every row", "1", "", "int", "=", "", "=", "int", "5..3", "0..100", "n")
    text = _init(monkeypatch, "people.csv", *answers)
    told = " ".join(capsys.readouterr().out.split())
    assert "\nunit" not in text
    assert "every row is another person" in text
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }' in text
    assert 'columns.sex = { type = "text", values = ["female", "male"] }' in text
    assert 'columns.size = { type = "integer", lower = 0, upper = 100 }' in text
    assert "x" not in _columns("people")["sex"].values
    assert "usual is 0..120" in told
    assert "counts that are right to within ±50" in told
    assert Policy.read("hush.toml").data["mydata"].unit is None
