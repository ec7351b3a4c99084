"""How much bounding cuts: what is estimated, what it costs, and who is told."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core import BudgetExceededError
from hush.curator.opening import open_policy, protect
from hush.policy.document import PolicyError
from hush.query.errors import QuestionError

CITIES = ["Oslo", "Bergen", "Tromsø", "Bodø"]


def visits() -> tuple[pa.Table, np.ndarray]:
    """Return 4,000 people with 1, 2, … visits, and how many; every tenth in all four cities, the others in one."""
    rng = np.random.default_rng(4)
    numbers = rng.geometric(0.35, 4000) + 3 * (np.arange(4000) % 10 == 0)
    people = np.repeat(np.arange(4000), numbers)
    nth = np.arange(len(people)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    city = np.where(people % 10 == 0, nth % 4, people % 4)
    return pa.table({"pid": people, "city": np.array(CITIES)[city], "note": ["x"] * len(people)}), numbers


@pytest.fixture
def curator():
    with protect(visits()[0], unit="pid", values={"city": CITIES}, budget={"epsilon": 1000}, max_rows=3) as found:
        yield found


def test_the_share_beyond_a_bound_and_a_proposal(curator) -> None:
    """At ε = 100 the share is within five of its half-widths but for 1e-6 of cases."""
    _, numbers = visits()
    found = curator.bounding("data", epsilon=100)
    truth = np.maximum(numbers - 3, 0).sum() / numbers.sum()
    assert 0.2 < truth < 0.5
    assert found.error is not None
    assert abs(found.share - truth) <= 5 * found.error + 0.01  # a few units have more than is counted
    assert found.error < 0.005
    assert found.limit == 3
    assert found.proposal >= np.quantile(numbers, 0.95)
    assert found.proposal <= 1.25 * np.quantile(numbers, 0.95) + 1
    assert curator.bounding("data", epsilon=100, quantile="0.5").proposal == np.quantile(numbers, 0.5)


def test_groups_by_a_column(curator) -> None:
    found = curator.bounding("data", by="city", epsilon=100)
    assert (found.by, found.limit) == ("city", 1)
    assert found.share == pytest.approx(1200 / 5200, abs=0.03)  # every tenth person has three groups too many
    assert found.proposal in {3, 4}
    assert "max_groups = 1" in str(found)


def test_it_is_charged_like_any_question_and_kept(curator) -> None:
    before = curator.budget()[0].spent.epsilon
    found = curator.bounding("data", epsilon="0.3")
    assert curator.budget()[0].spent.epsilon - before == Fraction(3, 10) == found.price.epsilon
    assert [str(entry.number) for entry in curator.history()[:2]] == [*reversed(found.receipts)]


def test_what_was_released_is_told_in_notes_where_the_bound_holds(curator) -> None:
    assert not told(curator, "SELECT COUNT(*) AS n FROM data")
    rows = curator.bounding("data", epsilon=10)
    groups = curator.bounding("data", by="city", epsilon=10)
    (note,) = told(curator, "SELECT COUNT(*) AS n FROM data")
    assert f"(receipt {', '.join(rows.receipts)})" in note
    assert "beyond max_rows = 3" in note
    notes = told(curator, "SELECT city, COUNT(*) AS n FROM data GROUP BY city")
    assert len(notes) == 2
    assert f"(receipt {', '.join(groups.receipts)})" in notes[1]
    assert not told(curator, "SELECT AVG(n) AS n FROM (SELECT CLIP(COUNT(*), 0, 9) AS n FROM data GROUP BY pid)")


def told(curator, question: str) -> list[str]:
    return [note for note in curator.explain(question, epsilon=1).caveats if "in an estimate of" in note]


def test_what_cannot_be_estimated_is_refused_free_of_charge(curator) -> None:
    for call in (
        lambda: curator.bounding("dat", epsilon=1),
        lambda: curator.bounding("data", by="town", epsilon=1),
        lambda: curator.bounding("data", epsilon=0),
        lambda: curator.bounding("data", epsilon=1, quantile=2),
    ):
        with pytest.raises((QuestionError, ValueError)):
            call()
    assert curator.history() == []
    with pytest.raises(BudgetExceededError):
        curator.bounding("data", epsilon=10_000)
    with protect(visits()[0], values={"city": CITIES}, budget=1) as rows, pytest.raises(QuestionError, match="its own"):
        rows.bounding("data", epsilon=1)


POLICY = """
[data.clinic]
unit = "pid"
budget = {{ epsilon = "100" }}
[data.clinic.tables.visits]
source = "visits.parquet"
max_rows = {}
columns.city = {{ type = "text", values = ["Oslo", "Bergen", "Tromsø", "Bodø"] }}
{}
[analysts.alice]
data = ["clinic"]
budget = {{ epsilon = "100" }}
"""


def policy(folder: Path, max_rows: int = 3, line: str = "") -> Path:
    (folder / "hush.toml").write_text(POLICY.format(max_rows, line), encoding="utf-8")
    return folder / "hush.toml"


def test_a_policy_tells_analysts_as_long_as_the_bound_is_the_same(tmp_path: Path) -> None:
    pq.write_table(visits()[0], tmp_path / "visits.parquet")
    with open_policy(policy(tmp_path), create=True) as curator:
        line = curator.bounding("visits", epsilon=10).policy()
    question = "SELECT COUNT(*) AS n FROM visits"
    with open_policy(policy(tmp_path)) as curator:
        assert not told(curator, question)
    with open_policy(policy(tmp_path, line=line)) as curator:
        (note,) = told(curator, question)
        assert "of the rows of visits were beyond max_rows = 3" in note
        assert note in curator.ask(question, epsilon=1).notes()
    with open_policy(policy(tmp_path, max_rows=5, line=line)) as curator:
        assert not told(curator, question)


@pytest.mark.parametrize(
    "line",
    [
        "beyond = 3",
        "beyond = [3]",
        'beyond = [{ max_rows = 3, share = "0.1" }]',
        'beyond = [{ max_rows = 3, share = "1.1", error = "0.1", receipt = "1", when = "2026-01-01" }]',
        'beyond = [{ max_rows = 3, share = "0.1", error = "0.1", receipt = "1", when = "soon" }]',
        'beyond = [{ max_rows = 0, share = "0.1", error = "0.1", receipt = "1", when = "2026-01-01" }]',
        'beyond = [{ by = "city", max_rows = 3, share = "0.1", error = "0.1", receipt = "1", when = "2026-01-01" }]',
        'beyond = [{ max_rows = 3, part = "0.1", error = "0.1", receipt = "1", when = "2026-01-01" }]',
    ],
)
def test_what_a_policy_may_not_say_of_it(tmp_path: Path, line: str) -> None:
    pq.write_table(visits()[0], tmp_path / "visits.parquet")
    with pytest.raises(PolicyError, match="beyond"):
        open_policy(policy(tmp_path, line=line))
