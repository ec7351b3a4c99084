"""An approved budget is that of one data set: no other one of the analyst's grows by it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.ledger import Actor, Ledger
from hush.policy.file import Policy
from hush.policy.ledger import PolicyEditError, decide_request, make_ledger, open_ledger

OWNER, ANN = Actor.owner("olga"), Actor.analyst("ann")
POLICY = """
[data.a]
unit = "id"
budget = { epsilon = "50" }
tables.one = { source = "one.parquet", columns.age = { type = "integer", lower = 0, upper = 9 } }
[data.b]
unit = "id"
budget = { epsilon = "50" }
tables.two = { source = "two.parquet", columns.age = { type = "integer", lower = 0, upper = 9 } }
"""
ANALYST = """[analysts.ann]
data = ["a", "b"]
budget = { epsilon = "1" }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        pq.write_table(pa.table({"id": [1, 2, 3], "age": [4, 5, 6]}), tmp_path / f"{name}.parquet")
    path = tmp_path / "hush.toml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def budgets(ledger: Ledger) -> dict[str, Fraction]:
    return {view.data: view.epsilon for view in ledger.budget(ANN) if view.analyst == "ann"}


def test_an_account_that_is_not_open_yet_keeps_its_budget(policy: Path) -> None:
    make_ledger(Policy.read(policy)).close()
    policy.write_text(policy.read_text(encoding="utf-8") + ANALYST, encoding="utf-8")
    with open_ledger(Policy.read(policy)) as ledger:
        number = ledger.ask_for_budget("a", epsilon=5, actor=ANN)
        assert decide_request(Policy.read(policy), policy, ledger, number, approve=True, actor=OWNER)
    with open_ledger(Policy.read(policy)) as ledger:
        assert budgets(ledger) == {"a": 5, "b": 1}


def test_an_account_that_the_policy_alone_keeps_smaller_is_not_raised_along(policy: Path) -> None:
    larger = ANALYST.replace('"1"', '"9"')
    policy.write_text(policy.read_text(encoding="utf-8") + larger, encoding="utf-8")
    make_ledger(Policy.read(policy)).close()
    policy.write_text(policy.read_text(encoding="utf-8").replace(larger, ANALYST), encoding="utf-8")
    with open_ledger(Policy.read(policy)) as ledger:
        number = ledger.ask_for_budget("a", epsilon=5, actor=ANN)
        with pytest.raises(PolicyEditError, match="also that on 'b'"):
            decide_request(Policy.read(policy), policy, ledger, number, approve=True, actor=OWNER)
        assert [request.state for request in ledger.requests(ANN)] == ["waiting"]
    assert ANALYST in policy.read_text(encoding="utf-8")
