"""Made-up rows: every question can be tried on them, for nothing, and no answer of theirs passes for a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.core import HushError
from hush.curator.catalogue import quoted
from hush.curator.curator import Curator
from hush.curator.made_up import rows
from hush.curator.opening import open_policy
from hush.curator.session import MadeUpError

POLICY = """
[data.clinic]
unit = "patient"
budget = { epsilon = "2", delta = "1e-6" }
[data.clinic.tables.visits]
source = "visits.parquet"
max_rows = 3
max_groups = 2
columns.age = { type = "integer", lower = 0, upper = 120 }
columns.sex = { type = "text", values = ["f", "m"] }
columns.day = { type = "date", lower = 2025-01-01, upper = 2025-12-31 }
columns.seen = { type = "timestamp", lower = 2025-01-01T00:00:00, upper = 2025-12-31T00:00:00 }
columns.cost = { type = "decimal", lower = -10, upper = 5000, step = "0.01" }
columns.urgent = { type = "boolean" }
columns.remark = { type = "text" }
columns.size = { type = "integer" }
columns."education-num" = { type = "integer", lower = 1, upper = 16 }
[data.clinic.tables.drugs]
source = "drugs.parquet"
unit = "visits.patient via visit = number"
columns.dose = { type = "decimal", lower = 0, upper = 5 }
[data.clinic.tables.regions]
source = "regions.csv"
public = true
columns.sex = { type = "text" }
columns.word = { type = "text" }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1", delta = "1e-8" }
"""


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    """A curator without a ledger, over tables of one person."""
    names = ("age", "size", "education-num", "number", "patient")
    visits = {name: [1] for name in names} | {"sex": ["f"], "remark": ["secret"], "cost": [1.0], "urgent": [True]}
    visits |= {"day": ["2025-02-01"], "seen": ["2025-02-01"]}
    pq.write_table(pa.table(visits), tmp_path / "visits.parquet")
    pq.write_table(pa.table({"visit": [1], "dose": [1.0]}), tmp_path / "drugs.parquet")
    (tmp_path / "regions.csv").write_text("sex,word\nf,female\nm,male\n")
    (tmp_path / "hush.toml").write_text(POLICY)
    with open_policy(tmp_path / "hush.toml") as made:
        yield made


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT sex, urgent, COUNT(*) AS n FROM visits GROUP BY sex, urgent",
        "SELECT AVG(cost) AS c, MEDIAN(age) AS a FROM visits WHERE day >= DATE '2025-06-01'",
        "SELECT remark, COUNT(*) AS n FROM visits GROUP BY remark",
        'SELECT AVG("education-num") AS n FROM visits',
        "SELECT word, COUNT(*) AS n FROM visits JOIN regions USING (sex) GROUP BY word",
        "SELECT AVG(n) AS m FROM (SELECT patient, CLIP(COUNT(*), 0, 5) AS n FROM visits GROUP BY patient)",
        "SELECT SUM(dose) AS s FROM drugs",
    ],
)
def test_every_kind_of_question_can_be_tried_without_a_ledger(curator: Curator, sql: str) -> None:
    with curator.dummy() as dummy:
        answer = dummy.ask(sql, epsilon="50")
        assert answer.made_up
        assert len(answer) >= 1
        assert answer.price == curator.explain(sql, epsilon="50").price
        assert all(value is not None for column in answer.columns if column.noisy for value in column.values)


def test_a_made_up_answer_cannot_pass_for_a_real_one(curator: Curator, tmp_path: Path) -> None:
    with curator.dummy() as dummy:
        answer = dummy.ask("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon="1")
    assert (answer.receipt, answer.remaining) == ("", None)
    for shown in (str(answer), answer._repr_html_(), answer.to_markdown(), answer.chart().svg):
        assert "MADE-UP ROWS" in shown
    assert answer.table.column_names[0] == answer.to_pandas().columns[0] == answer.to_polars().columns[0] == "made_up"
    assert answer.to_csv().startswith("made_up,")
    assert answer.to_json()["made_up"] is True
    assert all(row["made_up"] for row in answer)
    answer.save(tmp_path / "answer.parquet")
    assert pq.read_schema(tmp_path / "answer.parquet").metadata[b"hush.made_up"] == b"true"
    with pytest.raises(HushError, match="not kept"):
        answer.to_bytes()


def test_made_up_rows_are_for_questions_alone(curator: Curator) -> None:
    with curator.dummy() as dummy:
        for release in (
            lambda: dummy.marginals("visits", ["sex", "urgent"], epsilon="1"),
            lambda: dummy.synth("SELECT sex, age FROM visits", epsilon="1"),
            lambda: dummy.fit("SELECT age, cost FROM visits", target="cost", epsilon="1"),
            lambda: dummy.record(hush.Laplace(sensitivity=1, epsilon="0.1").event, "a run"),
        ):
            with pytest.raises(MadeUpError):
                release()


def test_nothing_is_charged_and_nothing_repeated() -> None:
    people = pa.table({"id": [1, 2, 3], "age": [30, 40, 50]})
    with hush.protect(people, unit="id", bounds={"age": (0, 120)}, budget="1") as real:
        with real.dummy() as dummy:
            for _ in range(3):
                assert dummy.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.9").repeated == ""
        assert real.history() == []
        answer = real.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.9")
        assert (answer.made_up, bool(answer.receipt)) == (False, True)


def test_rows_come_from_the_policy_alone(curator: Curator) -> None:
    schema = curator.data_sets["clinic"].schema
    first, second = rows(schema), rows(schema)
    assert {name: frame.to_pydict() for name, frame in first.items()} == {
        name: frame.to_pydict() for name, frame in second.items()
    }
    assert set(first) == {"visits", "drugs"}
    ages = [age for age in first["visits"]["age"].to_pylist() if age is not None]
    assert (min(ages), max(ages)) == (0, 120)
    assert "secret" not in str(first["visits"].to_pydict())


def test_tables_say_what_may_be_known_and_their_examples_can_be_asked(curator: Curator) -> None:
    tables = curator.tables()
    text = str(tables)
    for words in (
        "protects each patient (of one patient, 3 rows count in each of 2 groups)",
        "integer from 0 to 120",
        "one of f, m",
        "date from 2025-01-01 to 2025-12-31",
        "decimal from -10 to 5000 in steps of 0.01",
        "true or false",
        "text (values are not listed)",
        "public, nothing in it is protected",
        'AVG("education-num")',
    ):
        assert words in text
    assert tables["visits"].types["seen"] == "timestamp"
    assert len(tables) == 3
    examples = [question for table in tables.values() for question in table.examples]
    assert len(examples) >= 4
    for question in examples:
        curator.explain(question, epsilon="0.5")
    assert json.loads(json.dumps(tables.to_json()))[0]["columns"][0]["upper"] == "120"
    assert "<table>" in tables._repr_html_()
    with pytest.raises(KeyError, match="visits"):
        tables["visit"]


def test_names_are_quoted_where_sql_needs_it() -> None:
    assert [quoted(name) for name in ("a", "A1", "a b", 'a"b', "1a", "order", "é")] == [
        "a",
        "A1",
        '"a b"',
        '"a""b"',
        '"1a"',
        '"order"',
        '"é"',
    ]


def test_answers_go_from_row_to_row() -> None:
    people = pa.table({"id": list(range(100)), "city": ["Oslo"] * 100})
    with hush.protect(people, unit="id", values={"city": ["Oslo", "Bergen"]}, budget="10") as curator:
        answer = curator.ask("SELECT city, COUNT(*) AS n FROM data GROUP BY city", epsilon="5")
        assert [row["city"] for row in answer] == ["Oslo", "Bergen"] == list(answer["city"])
        assert answer[0] == answer.rows()[0]
        assert answer["n_error"] == answer.columns[1].errors
        with pytest.raises(HushError, match="city, n, n_error"):
            answer["m"]
        assert answer.to_markdown().splitlines()[0] == "| city | n |"
        shown = curator.show(answer.receipt)
        assert (shown.to_bytes(), shown.receipt, bool(shown.repeated)) == (answer.to_bytes(), answer.receipt, True)
        for wrong in ("0", "1", "99", 99):
            with pytest.raises(HushError, match="receipt"):
                curator.show(wrong)
        for wrong in ("x", "", True, "9" * 40):
            with pytest.raises(HushError, match="the number on a receipt"):
                curator.show(wrong)
