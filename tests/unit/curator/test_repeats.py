"""The same question again: the paid answer, free, in any spelling; where a public thing differs, another question."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hush
from hush.core import BudgetExceededError
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.curator.pipeline import Program, same_question
from hush.engines.errors import EngineError
from hush.ledger import Actor, Ledger
from hush.query.question import fingerprint

COUNT = "SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM data WHERE age >= 30 GROUP BY city"
SPELLINGS = (
    "select city, count(*) as n, avg(age) as mean from data where age >= 30 group by city",
    'SELECT "city" , COUNT ( * ) AS "n",\n AVG(data.age) mean FROM data WHERE (age >= 30) GROUP BY 1 -- again',
    "SELECT d.city, COUNT(*) AS n, AVG(d.age) AS mean FROM data AS d WHERE d.age >= 30.0 GROUP BY d.city",
)
POLICY = """
[data.clinic]
unit = "id"
budget = {{ epsilon = "20", delta = "1e-6" }}
{extra}
[data.clinic.tables.data]
source = "{source}"
max_rows = {rows}
columns.age = {{ type = "integer", lower = 0, upper = {upper} }}
columns.city = {{ type = "text", values = ["Oslo", "Bergen"] }}
[analysts.alice]
data = ["clinic"]
budget = {{ epsilon = "5", delta = "1e-8" }}
[analysts.bob]
data = ["clinic"]
budget = {{ epsilon = "5", delta = "1e-8" }}
"""


def frame(rows: int = 300) -> pa.Table:
    return pa.table(
        {
            "id": list(range(rows)),
            "age": [at % 80 for at in range(rows)],
            "city": [("Oslo", "Bergen")[at % 2] for at in range(rows)],
        }
    )


@pytest.fixture
def curator() -> Iterator[Curator]:
    with hush.protect(
        frame(),
        unit="id",
        bounds={"age": (0, 100)},
        values={"city": ["Oslo", "Bergen"]},
        budget={"epsilon": "50", "delta": "1e-6"},
    ) as made:
        yield made


class Clinic:
    """A folder with a policy, whose every public word can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("data.parquet", "newer.parquet"):
            pa.parquet.write_table(frame(), folder / name)
        self.write()
        open_policy(self.policy, analyst="alice", create=True).close()

    @property
    def policy(self) -> Path:
        return self.folder / "hush.toml"

    def write(self, *, extra: str = "", source: str = "data.parquet", rows: int = 1, upper: int = 100) -> None:
        kept = [line for line in self._lines() if line.startswith("ledger_id")]
        text = POLICY.format(extra=extra, source=source, rows=rows, upper=upper)
        self.policy.write_text("\n".join(kept) + text, encoding="utf-8")

    def _lines(self) -> list[str]:
        return self.policy.read_text(encoding="utf-8").splitlines() if self.policy.exists() else []

    def ask(self, sql: str = COUNT, *, analyst: str = "alice", **terms: object) -> Answer:
        with open_policy(self.policy, analyst=analyst) as curator:
            return curator.ask(sql, **({"epsilon": "0.5"} | terms))


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    import pyarrow.parquet  # noqa: F401

    return Clinic(tmp_path)


def test_every_spelling_of_a_question_brings_back_the_paid_answer(curator: Curator) -> None:
    paid = curator.ask(COUNT, epsilon="0.5")
    assert paid.repeated == ""
    for spelling in SPELLINGS:
        again = curator.ask(spelling, epsilon=0.5)
        assert (again.to_bytes(), again.receipt) == (paid.to_bytes(), paid.receipt)
        assert again.repeated
        assert not again.shared
        assert "nothing was charged" in str(again)
        assert again.to_json()["repeated"] == again.repeated
    built = curator.table("data").where("age >= ?", 30).group_by("city").agg(n="COUNT(*)", mean="AVG(age)")
    assert built.ask(epsilon="1/2").to_bytes() == paid.to_bytes()
    assert [release.number for release in curator.history()] == [int(paid.receipt)]
    assert curator.ask(COUNT, epsilon="0.5").remaining == paid.remaining


def test_fresh_asks_anew_and_is_then_the_paid_answer(curator: Curator) -> None:
    first = curator.ask(COUNT, epsilon="0.5")
    fresh = curator.ask(COUNT, epsilon="0.5", fresh=True)
    assert (fresh.repeated, fresh.receipt != first.receipt) == ("", True)
    assert curator.ask(COUNT, epsilon="0.5").receipt == fresh.receipt
    assert len(curator.history()) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": "0.25"},
        {"confidence": "0.9"},
        {"question": COUNT.replace("30", "31")},
        {"question": COUNT.replace("AS n", "AS m")},
        {"question": f"{COUNT} ORDER BY n"},
    ],
)
def test_another_question_is_charged(curator: Curator, changed: dict[str, str]) -> None:
    curator.ask(COUNT, epsilon="0.5")
    terms = {"question": COUNT, "epsilon": "0.5"} | changed
    assert curator.ask(terms.pop("question"), **terms).repeated == ""
    assert len(curator.history()) == 2


def test_parameters_are_part_of_the_question(curator: Curator) -> None:
    sql = "SELECT COUNT(*) AS n FROM data WHERE age >= ?"
    curator.ask(sql, [30], epsilon="0.5")
    assert curator.ask(sql, [31], epsilon="0.5").repeated == ""
    assert curator.ask("SELECT COUNT(*) AS n FROM data WHERE age >= 30", epsilon="0.5").repeated


def test_a_request_id_still_names_its_own_answer(curator: Curator) -> None:
    first = curator.ask(COUNT, epsilon="0.5", request="mine")
    fresh = curator.ask(COUNT, epsilon="0.5", request="other", fresh=True)
    assert curator.ask(COUNT, epsilon="0.5", request="mine").receipt == first.receipt != fresh.receipt
    assert curator.ask(COUNT, epsilon="0.5", request="third").receipt == fresh.receipt


def test_the_answer_outlives_the_process_and_a_change_of_rows(clinic: Clinic) -> None:
    paid = clinic.ask()
    pa.parquet.write_table(frame(10), clinic.folder / "data.parquet")  # a file's stamp is no part of the key
    again = clinic.ask(SPELLINGS[0])
    assert (again.to_bytes(), again.receipt) == (paid.to_bytes(), paid.receipt)
    assert again.repeated


@pytest.mark.parametrize(
    "written", [{"extra": 'version = "2"'}, {"source": "newer.parquet"}, {"rows": 2}, {"upper": 120}]
)
def test_another_version_or_policy_is_another_question(clinic: Clinic, written: dict[str, object]) -> None:
    clinic.ask()
    clinic.write(**written)  # type: ignore[arg-type]
    assert clinic.ask().repeated == ""
    assert clinic.ask().repeated


def test_analysts_do_not_see_each_others_answers(clinic: Clinic) -> None:
    clinic.ask()
    other = clinic.ask(analyst="bob")
    assert (other.repeated, other.shared) == ("", False)


def test_shared_answers_cost_the_data_nothing_and_the_analyst_their_price(clinic: Clinic) -> None:
    clinic.write(extra="share = true")
    paid = clinic.ask()
    other = clinic.ask(analyst="bob")
    assert other.shared
    assert other.to_bytes() == paid.to_bytes()
    assert other.receipt != paid.receipt
    assert "your own budget alone" in str(other)
    with open_policy(clinic.policy, analyst="bob") as curator:
        left = {view.analyst: view for view in curator.budget()}
        assert left["bob"].spent.epsilon > 0
        assert [release.outcome for release in curator.history()] == ["shared"]
    with open_policy(clinic.policy, analyst="alice") as curator:
        mine = {view.analyst: view for view in curator.budget()}
    assert mine[None].account == left[None].account  # what alice paid is all that was taken
    again = clinic.ask(analyst="bob")
    assert (again.receipt, again.shared) == (other.receipt, False)
    assert clinic.ask().receipt == paid.receipt


def test_a_shared_answer_must_fit_the_analysts_own_budget(clinic: Clinic) -> None:
    clinic.write(extra="share = true")
    clinic.ask(epsilon="3")
    clinic.ask("SELECT COUNT(*) FROM data", analyst="bob", epsilon="4")
    with pytest.raises(BudgetExceededError):
        clinic.ask(analyst="bob", epsilon="3")


def test_two_at_once_pay_once(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    started, answers = threading.Event(), []
    compute = Program.compute

    def slow(*arguments: object) -> object:
        started.set()
        release.wait(5)
        return compute(*arguments)  # type: ignore[arg-type]

    release = threading.Event()
    monkeypatch.setattr(Program, "compute", slow)
    threads = [threading.Thread(target=lambda: answers.append(curator.ask(COUNT, epsilon="0.5"))) for _ in range(4)]
    threads[0].start()
    assert started.wait(5)
    for thread in threads[1:]:
        thread.start()
    release.set()
    for thread in threads:
        thread.join()
    assert len({answer.to_bytes() for answer in answers}) == 1
    assert {answer.receipt for answer in answers} == {str(curator.history()[0].number)}
    assert len(curator.history()) == 1


def test_a_question_that_failed_is_computed_anew(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Program, "compute", lambda *_: 1 / 0)
        with pytest.raises(EngineError):
            curator.ask(COUNT, epsilon="0.5")
    assert curator.ask(COUNT, epsilon="0.5").repeated == ""
    assert [release.outcome for release in curator.history()] == ["answered", "failed"]


def test_estimates_beyond_bounds_make_no_other_question(curator: Curator) -> None:
    paid = curator.ask(COUNT, epsilon="0.5")
    curator.bounding("data", epsilon="0.5")
    assert curator.ask(COUNT, epsilon="0.5").receipt == paid.receipt


def test_the_ledger_with_shared_answers_verifies_and_can_be_copied(clinic: Clinic, tmp_path: Path) -> None:
    clinic.write(extra="share = true")
    clinic.ask()
    clinic.ask(analyst="bob")
    owner, copied = Actor.owner("owner"), tmp_path / "copy.ledger"
    with Ledger.open(clinic.folder / "hush.ledger") as ledger:
        assert ledger.verify().charges == 1
        views = ledger.budget(owner)
        with (tmp_path / "export").open("w") as file:
            ledger.export(file, actor=owner)
    with (tmp_path / "export").open() as file:
        book = Ledger.import_(file, copied, actor=owner, reason="a copy", lost="none", anchor="none")
    with book as ledger:
        assert ledger.verify().charges == 1
        assert [view.account for view in ledger.budget(owner)] == [view.account for view in views]


def test_a_fingerprint_is_the_same_in_every_process(curator: Curator) -> None:
    planned = curator.plan(COUNT, epsilon="0.5")
    assert len({same_question(planned.data_set, planned.plan), fingerprint(planned.plan.question)}) == 2
    assert fingerprint(frozenset({"a", "b"}), {"x": 1, "y": 2}) == fingerprint(frozenset({"b", "a"}), {"y": 2, "x": 1})
    assert fingerprint("a", "bc") != fingerprint("ab", "c")
    assert fingerprint(None) != fingerprint("None") != fingerprint(("None",))
    with pytest.raises(TypeError, match="object"):
        fingerprint(object())
