"""The commands of an owner's and an analyst's day; the first is run as a program, the others in this process."""

import json
import subprocess
import sys

import pytest
from commands import command

from hush.cli import run
from hush.cli.demo import write_hospital
from hush.core import HushError
from hush.core.chart import Chart


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_hospital(folder, 2000)
    hush("ledger", "open", cwd=folder)
    return folder


def hush(*arguments, cwd, status=0, text=None):
    done = command(*arguments, cwd=cwd, text=text)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


COUNT = "SELECT COUNT(*) AS n FROM visits"


def test_ask_prints_the_documented_json(clinic):
    sql = "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease"
    program = [sys.executable, "-m", "hush", "ask", sql, "--epsilon", "0.5", "--json"]
    answer = json.loads(subprocess.run(program, cwd=clinic, capture_output=True, text=True, check=True).stdout)
    assert answer["columns"] == ["disease", "n"]
    assert sorted(row[0] for row in answer["rows"]) == ["Diabetes", "Flu", "HIV", "Hepatitis", "Injury"]
    assert all(errors[0] is None and errors[1] > 0 for errors in answer["errors"])
    assert answer["confidence"] == 0.95
    assert answer["price"] == {"epsilon": "0.5", "delta": "0"}
    assert answer["remaining"]["epsilon"] == "2.5"
    assert answer["receipt"]


def test_a_question_says_its_own_limits_and_keys(clinic):
    sql = "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease"
    plain = json.loads(hush("explain", sql, "--epsilon", "0.5", "--json", cwd=clinic))
    tight = json.loads(
        hush("explain", sql, "--epsilon", "0.5", "--max-rows", "1", "--max-groups", "1", "--json", cwd=clinic)
    )
    assert tight["limits"] == {"max_rows": 1, "max_groups": 1}
    assert tight["errors"]["n"] < plain["errors"]["n"]
    assert tight["errors"] in [rung["errors"] for rung in plain["tighter"]]
    refused = json.loads(hush("ask", sql, "--epsilon", "0.5", "--max-rows", "999", "--json", cwd=clinic, status=2))
    assert "policy" in refused["error"]["message"]
    listed = json.loads(hush("explain", sql, "--epsilon", "0.5", "--keys", "public", "--json", cwd=clinic))
    assert listed["keys"] == plain["keys"] == "5 public"


def test_the_budget_ends_with_exit_status_3(tmp_path):
    write_hospital(tmp_path, 1000)
    hush("ledger", "open", cwd=tmp_path)
    for _ in range(2):
        hush("ask", COUNT, "--epsilon", "1.5", "--json", "--fresh", cwd=tmp_path)
    refused = json.loads(hush("ask", COUNT, "--epsilon", "0.1", "--json", cwd=tmp_path, status=3))
    assert refused["error"]["code"] == "budget-exceeded"
    assert "of alice's budget, but 0% is left" in refused["error"]["message"]
    spent = json.loads(hush("history", "--json", cwd=tmp_path))
    assert len(spent["releases"] if isinstance(spent, dict) else spent) == 2


def test_a_bad_question_exits_2_and_spends_nothing(clinic):
    before = hush("budget", "--json", cwd=clinic)
    for sql in ("SELECT * FROM visits", "SELECT COUNT(*) AS n FROM vists", "DROP TABLE visits", "SELECT SUM(", ""):
        refused = json.loads(hush("ask", sql, "--epsilon", "0.1", "--json", cwd=clinic, status=2))
        assert set(refused["error"]) == {"code", "message"}
    hush("ask", COUNT, "--epsilon", "-1", cwd=clinic, status=2)
    hush("ask", COUNT, cwd=clinic, status=2)
    hush("ask", COUNT, "--epsilon", "0.1", "--as", "mallory", cwd=clinic, status=2)
    hush("ask", COUNT, "--epsilon", "0.1", "--policy", "nowhere.toml", cwd=clinic, status=2)
    assert hush("budget", "--json", cwd=clinic) == before


def test_explain_spends_nothing(clinic):
    before = hush("budget", "--json", cwd=clinic)
    explained = json.loads(hush("explain", COUNT, "--epsilon", "0.25", "--json", cwd=clinic))
    assert explained["price"]["epsilon"] == "0.25"
    assert "± " in hush("explain", COUNT, "--accuracy", "50@0.99", cwd=clinic)
    assert hush("budget", "--json", cwd=clinic) == before


def test_questions_from_files_and_pipes_and_answers_in_many_forms(clinic):
    (clinic / "q.sql").write_text("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", encoding="utf-8")
    csv = hush("ask", "@q.sql", "--epsilon", "0.1", "--csv", "--chart", "c.svg", "--output", "a.json", cwd=clinic)
    assert csv.splitlines()[0] == "region,n,n_error"
    assert len(csv.splitlines()) == 5
    assert "<svg" in (clinic / "c.svg").read_text(encoding="utf-8")
    assert json.loads((clinic / "a.json").read_text(encoding="utf-8"))["columns"] == ["region", "n"]
    assert "±" in hush("ask", "-", "--epsilon", "0.1", cwd=clinic, text=COUNT)
    hush("ask", "@nothing.sql", "--epsilon", "0.1", cwd=clinic, status=2)


def test_a_request_asked_again_is_free_and_the_same(clinic):
    first = json.loads(hush("ask", COUNT, "--epsilon", "0.1", "--request", "mine", "--json", cwd=clinic))
    again = json.loads(hush("ask", COUNT, "--epsilon", "0.1", "--request", "mine", "--json", cwd=clinic))
    assert first["rows"] == again["rows"]
    assert first["remaining"] == again["remaining"]


def test_init_drafts_a_policy_that_the_owner_must_finish(clinic, tmp_path):
    hush("init", str(clinic / "visits.parquet"), cwd=tmp_path)
    text = (tmp_path / "hush.toml").read_text(encoding="utf-8")
    assert "columns.age" in text
    assert "Hepatitis" not in text
    hush("explain", COUNT, "--epsilon", "1", cwd=tmp_path, status=2)
    hush("init", str(clinic / "visits.parquet"), cwd=tmp_path, status=2)
    hush("init", "nowhere.csv", "--force", cwd=tmp_path, status=2)


def test_bounds_are_estimated_for_a_price_and_told_by_the_policy(tmp_path):
    write_hospital(tmp_path, 2000)
    hush("ledger", "open", cwd=tmp_path)
    found = json.loads(hush("bounds", "visits", "--epsilon", "1", "--json", cwd=tmp_path))
    assert found["price"] == {"epsilon": "1", "delta": "0"}
    assert found["share"] <= 1
    assert found["proposal"] >= 1
    assert "in an estimate of" not in hush("explain", COUNT, "--epsilon", "0.1", cwd=tmp_path)
    policy = tmp_path / "hush.toml"
    written = policy.read_text(encoding="utf-8")
    table = "[data.clinic.tables.visits]\n"
    assert table in written
    policy.write_text(written.replace(table, f"{table}{found['policy']}\n"), encoding="utf-8")
    assert "in an estimate of" in hush("explain", COUNT, "--epsilon", "0.1", cwd=tmp_path)
    assert "is charged" in hush("bounds", "--help", cwd=tmp_path)
    hush("bounds", "visit", "--epsilon", "0.1", cwd=tmp_path, status=2)
    hush("bounds", "visits", "--epsilon", "100", cwd=tmp_path, status=3)


def test_the_demo_tells_its_story():
    story = json.loads(hush("demo", "--patients", "2000", "--json", cwd="."))
    assert story["attack"]["exact"] >= 1
    assert story["attack"]["error"] > 10 * story["attack"]["exact"]
    assert "is left" in story["refused"]


@pytest.mark.parametrize("name", ["demo", "init", "explain", "ask", "bounds", "account", "budget", "history", "ledger"])
def test_every_command_has_help(name, tmp_path):
    help_text = hush(name, "--help", cwd=tmp_path)
    assert "--json" in help_text or name == "ledger"


def test_a_file_that_cannot_be_written_is_refused_before_the_charge(clinic):
    before = hush("budget", "--json", cwd=clinic)
    for option in (
        ["--chart", "a.json"],
        ["--chart", "nowhere/a.svg"],
        ["--output", "a.svg"],
        ["--output", "no/a.csv"],
    ):
        hush("ask", COUNT, "--epsilon", "0.1", *option, cwd=clinic, status=2)
    assert hush("budget", "--json", cwd=clinic) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--accuracy", "50@"], "such as 50 or 50@0.99"),
        (["--accuracy", "@0.9"], "such as 50 or 50@0.99"),
        (["--epsilon", "0.1", "--csv"], "choose one"),
    ],
)
def test_half_said_options_are_refused_before_the_charge(clinic, options, words):
    before = hush("budget", "--json", cwd=clinic)
    refused = json.loads(hush("ask", COUNT, *options, "--json", cwd=clinic, status=2))
    assert words in refused["error"]["message"]
    assert hush("budget", "--json", cwd=clinic) == before


@pytest.mark.parametrize("result", ["MODE(disease) AS m", "MODE(disease) || '!' AS m"])
def test_an_answer_that_could_not_be_drawn_is_refused_before_the_charge(clinic, result):
    before = hush("budget", "--json", cwd=clinic)
    question = ("ask", f"SELECT {result} FROM visits", "--epsilon", "0.01", "--json")
    refused = json.loads(hush(*question, "--chart", "m.svg", cwd=clinic, status=2))
    assert "no result is a noisy number" in refused["error"]["message"]
    assert hush("budget", "--json", cwd=clinic) == before
    assert not (clinic / "m.svg").exists()
    assert json.loads(hush(*question, cwd=clinic))["columns"] == ["m"]


def test_a_paid_answer_is_shown_even_if_its_chart_cannot_be_written(clinic, monkeypatch, capsys):
    def full(*_):
        raise HushError("the disk is full")

    monkeypatch.chdir(clinic)
    monkeypatch.setattr(Chart, "save", full)
    assert run(["ask", COUNT, "--epsilon", "0.01", "--json", "--chart", "m.svg"]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["columns"] == ["n"]
    assert "the answer is above, but not in the file: the disk is full" in shown.err


def test_a_file_whose_writer_is_missing_is_refused_before_the_charge(clinic, monkeypatch, capsys):
    monkeypatch.chdir(clinic)
    monkeypatch.setattr("hush.cli.ask.find_spec", lambda _: None)
    before = hush("budget", "--json", cwd=clinic)
    for option, extra in (("--chart=a.png", "charts"), ("--output=a.parquet", "arrow")):
        assert run(["ask", COUNT, "--epsilon", "0.1", option]) == 2
        assert f"pip install 'hush[{extra}]'" in " ".join(capsys.readouterr().err.split())
    assert hush("budget", "--json", cwd=clinic) == before


def test_a_question_comes_from_standard_input_without_being_told(clinic):
    assert hush("explain", "--epsilon", "0.1", cwd=clinic, text=COUNT).startswith("price: ε=0.1")


def test_a_file_name_is_not_a_question(clinic):
    (clinic / "question.sql").write_text(COUNT, encoding="utf-8")
    refused = json.loads(hush("explain", "question.sql", "--epsilon", "1", "--json", cwd=clinic, status=2))
    assert "@question.sql" in refused["error"]["message"]


def test_init_reads_every_table_of_a_database(tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "hospital.duckdb")) as base:
        base.execute("CREATE TABLE visits (id BIGINT, age INTEGER)")
        base.execute("CREATE TABLE wards (name VARCHAR)")
    (tmp_path / "lines.csv").write_text("id,score\n007,1\n", encoding="utf-8")
    done = hush("init", "hospital.duckdb", "lines.csv", "--unit", "id", "--json", cwd=tmp_path)
    assert json.loads(done) == {
        "policy": "hush.toml",
        "tables": ["lines", "visits", "wards"],
        "without_unit": ["wards"],
    }
    text = (tmp_path / "hush.toml").read_text(encoding="utf-8")
    assert 'source = "hospital.duckdb#visits"' in text
    assert 'columns.age = { type = "integer" }' in text
    assert "This file keeps no types" in text.split("tables.lines")[1]
    assert "007" not in text
