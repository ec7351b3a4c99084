"""``hush init`` on a terminal: it asks for what the data must not decide, and writes what is answered."""

from __future__ import annotations

import datetime as dt
import io
import os
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import pexpect
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


_BUDGET = ("", "=", "=", "", "")
"""How many people, ε, δ, who may ask, and their own budget: what is proposed."""


@pytest.mark.usefixtures("folder")
def test_everything_that_is_answered_is_in_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ("pid", "5", "3", "0", "120", "0.10..5000", 'Oslo, "Rio, Brazil"', "2020-01-01..2030-12-31")
    answers = (*answers, "2020-01-01..2030-01-01 12:00", "-1.5..1e3 step 0.5")
    text = _init(monkeypatch, "visits.parquet", *answers, "1e6", "4", "1e-7", "alice, bob", "1", "n")
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }\n' in text
    assert 'columns.cost = { type = "decimal", step = "0.01", lower = "0.10", upper = 5000 }\n' in text
    policy = Policy.read("hush.toml")
    data = policy.data["mydata"]
    assert (data.unit, data.budget.epsilon, data.budget.delta) == ("pid", 4, Fraction(1, 10**7))
    assert (data.tables["visits"].table.max_groups, data.tables["visits"].table.max_rows) == (3, 5)
    for name in ("alice", "bob"):
        budget = policy.analysts[name].budget
        assert budget is not None
        assert (budget.epsilon, budget.delta) == (1, Fraction(1, 10**7))
    columns = _columns("visits")
    assert columns["city"].values == ("Oslo", "Rio, Brazil")
    assert columns["weight"].step == Fraction(1, 2)
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
    answers = ("<", "=pid", "pidd", "pid", "0", "2", "many", "1", "old", "0", "-5", "120", "", "a, a", "a")
    answers = (*answers, "2020-13-01", ".", "no", "", "-3", "much", "4", "2", "", "alice", "5", "")
    _init(monkeypatch, "visits.parquet", *answers)
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "This is the first question.",
        "Did you mean 'pid'?",
        "whole number from 1 to",
        "must be a positive finite number. Got '-3'",
        "must be a positive finite number. Got 'much'",
        "at least 0 and below 1. Got '2'",
        "age.lower must be a whole number; got 'old'.",
        "age.upper must not be below lower; got '-5'.",
        "city.values lists 'a' twice.",
        "day.lower must be a date, without a time zone; got '2020-13-01'. Write 2024-12-31.",
        "at most the data's 4. Got '5'",
    ):
        assert words in said
    assert (_columns("visits")["age"].lower, _columns("visits")["age"].upper) == (0, 120)


@pytest.mark.usefixtures("folder")
def test_empty_answers_leave_what_no_terminal_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["init", "visits.parquet"]) == 0  # pytest's standard input is no terminal
    without = Path("hush.toml").read_text(encoding="utf-8")
    assert _init(monkeypatch, "visits.parquet --force", *[""] * 13) == without
    assert _init(monkeypatch, "visits.parquet --force", "", ".", *[""] * 5) == without
    assert _init(monkeypatch, "visits.parquet --force --no-input") == without
    assert without.count('= ""') == 2, "the unit and one budget"


@pytest.mark.usefixtures("folder")
def test_going_back_forgets_the_last_answer_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("people.csv").write_text("age,size,city\n30,1,Rom\n", encoding="utf-8")
    answers = (
        "",
        "",
        "",
        "age",
        "back",
        "every row",
        "int",
        "<",
        "int 0..99",
        "-",
        "<",
        "int",
        "0..9",
        "<",
        "1..9",
        "a, b",
    )
    text = _init(monkeypatch, "people.csv", *answers, "100", "1", "<", "3", "=", "<", "0", "", "")
    assert "every row is another person" in text
    assert 'columns.age = { type = "integer", lower = 0, upper = 99 }' in text
    assert 'columns.size = { type = "integer", lower = 1, upper = 9 }' in text
    assert 'budget = { epsilon = "3", delta = "0" }' in text
    told = capsys.readouterr().out
    assert told.count("The file keeps no types") == 2, "said again only where one goes back before it"


@pytest.mark.usefixtures("folder")
def test_several_tables_find_their_unit_over_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, header in {"visits": "visit,pid", "drugs": "visit,drug", "codes": "drug,words"}.items():
        Path(f"{name}.csv").write_text(f"{header}\n1,secret\n", encoding="utf-8")
    answers = (
        "klingon",
        "latin-1",
        "half",
        "comma",
        "31. 12. 2O24",
        "",
        "pid",
        "=",
        "nowhere",
        "public",
        "2",
        "2",
        "-",
        "1",
        "-",
        "a, b",
    )
    text = _init(monkeypatch, "visits.csv drugs.csv codes.csv", *answers, *_BUDGET)
    policy = Policy.read("hush.toml")
    tables = policy.schema("mydata").tables
    unit = tables["drugs"].unit
    assert unit is not None
    assert (unit.column, [hop.table for hop in unit.hops]) == ("pid", ["visits"])
    assert tables["codes"].public
    assert (tables["visits"].max_rows, tables["drugs"].max_rows) == (2, 1)
    assert list(tables["drugs"].columns) == ["drug"], "what is left out is not there"
    assert list(tables["visits"].columns) == ["visit"], "but the last one is"
    assert "secret" not in text
    assert text.count('encoding = "latin-1"') == text.count('decimal = ","') == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "= takes visits.pid via visit" in told
    assert "with another table and a column of codes, or public. Got 'nowhere'" in told


@pytest.mark.usefixtures("folder")
def test_files_without_types_are_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ("", "", "31.12.24", "", ".", "", "interger", "integer", "0", "", "North,South")
    given = "--unit pid --epsilon 1 --delta 1e-7"
    text = _init(monkeypatch, f"visits.parquet beds.csv {given}", *answers, "", "", "n")
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


def _terminal(*arguments: str) -> pexpect.spawn[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(hush.__file__).parents[1]), "TERM": "dumb"}
    command = ["-m", "hush", *arguments]
    return pexpect.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=120, dimensions=(50, 200))


def test_on_a_terminal_from_the_first_question_to_the_ledger(folder: Path) -> None:
    child = _terminal("init", "visits.parquet")
    for question, answer in (
        ("Whose row is it.*: ", "pid"),
        ("How many rows has one pid.*: ", "<"),
        ("Whose row is it.*: ", "="),
        ("How many rows has one pid.*: ", "4"),
        ("In how many groups.*: ", "2"),
        ("age: range.*takes 0..120.*: ", "="),
        ("cost: range.*: ", "."),
        ("About how many people.*: ", "5000"),
        ("ε = 2  good      about .* counts at ±50.*ε .= takes 2.: ", "="),
        ("δ, .*takes 1e-6.*: ", "="),
        ("Who may ask.*: ", ""),
        ("A budget of their own.*: ", ""),
        ("Make its ledger now.*: ", "y"),
    ):
        child.expect(question)
        child.sendline(answer)
    child.expect("hush ask .SELECT COUNT")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert (folder / "hush.ledger").exists()
    policy = Policy.read(folder / "hush.toml")
    assert policy.analysts["alice"].budget is None
    assert policy.data["mydata"].budget.epsilon == 2


def test_an_interrupted_interview_writes_nothing(folder: Path) -> None:
    child = _terminal("init", "visits.parquet")
    child.expect("Whose row is it.*: ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert not (folder / "hush.toml").exists()


@pytest.mark.usefixtures("folder")
def test_every_row_ranges_usual_values_and_short_types(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("people.csv").write_text("age,sex,size,day,at,name\n30,x,1,,,\n", encoding="utf-8")
    answers = (
        "",
        "",
        "31/12/2024",
        "every row",
        "=",
        "=",
        "=",
        "5..3",
        "0..100",
        "0.5..1",
        "<",
        "date 2020-01-01..2020-12-31",
        "",
        "=",
    )
    text = _init(monkeypatch, "people.csv", *answers, "", "1", "0", "", "")
    told = " ".join(capsys.readouterr().out.split())
    assert "\nunit" not in text
    assert "every row is another person" in text
    assert 'columns.age = { type = "integer", lower = 0, upper = 120 }' in text
    assert 'columns.sex = { type = "text", values = ["female", "male"] }' in text
    assert 'columns.size = { type = "integer", lower = 0, upper = 100 }' in text
    assert 'columns.day = { type = "date", format = "%d/%m/%Y", lower = 2020-01-01, upper = 2020-12-31 }' in text
    assert "columns.name" not in text
    assert "x" not in _columns("people")["sex"].values
    assert "= takes integer 0..120" in told
    assert "That buys about 16 counts at ±50" in told
    assert "1 cells of sex that are not what the policy says" in told
    assert Policy.read("hush.toml").data["mydata"].unit is None


@pytest.mark.usefixtures("folder")
def test_a_messy_file_is_set_right_before_its_ledger_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another encoding, semicolons, decimal commas, dates of two kinds: what was not said is proposed, and read."""
    lines = [
        f"P{number % 50};{number % 28 + 1:02}/02/1950;{number % 12 + 1:02}/{number % 28 + 1:02}/24 8:05;{number},5;"
        f"{('Pädiatrie', 'Chirurgie')[number % 2]}"
        for number in range(200)
    ]
    text = "\r\n".join(["pid;date_of_birth;seen;cost;ward", *lines])
    Path("visits.csv").write_bytes(text.encode("windows-1252"))
    answers = ("", "", "31/12/2024", "pid", "40", "3", "=", "timestamp 2020-01-01..2030-12-31", "decimal 0..500")
    answers = (*answers, "Pädiatrie, Chirurgie", "200", "100000", "=", "", "", "y", "y")
    written = _init(monkeypatch, "visits.csv", *answers)
    year = dt.datetime.now(dt.UTC).year
    for words in (
        'separator = ";"\nencoding = "windows-1252"  #',
        'decimal = ","  #',
        "max_groups = 3\nmax_rows = 40",
        f'date_of_birth = {{ type = "date", format = "%d/%m/%Y", lower = 1900-01-01, upper = {year}-12-31 }}',
        'format = "%m/%d/%y %H:%M" }',
    ):
        assert words in written
    told = " ".join(capsys.readouterr().out.split())
    assert 'Write encoding = "windows-1252", format = "%m/%d/%y %H:%M", and read again?' in told
    assert "Made " in told
    sql = "SELECT COUNT(date_of_birth), COUNT(seen), COUNT(cost), COUNT_IF(ward = 'Pädiatrie') FROM visits"
    with hush.open("hush.toml") as curator:
        counts = [round(cell) for cell in curator.ask(sql, epsilon="50000").rows()[0].values()][::2]
    assert counts == [200, 200, 200, 100]


@pytest.mark.usefixtures("folder")
def test_a_policy_that_reads_nothing_gets_no_ledger(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("visits.csv").write_text("pid,day\n1,31.12.2024\n2,30.11.2024\n", encoding="utf-8")
    answers = ("", "", "", "pid", "1", "date 2020-01-01..2030-12-31", "10", "1", "=", "", "", "n")
    _init(monkeypatch, "visits.csv", *answers)
    told = " ".join(capsys.readouterr().out.split())
    assert "2 of 2 cells cannot be read as date" in told
    assert "Make its ledger now" not in told
    assert not Path("hush.ledger").exists()
