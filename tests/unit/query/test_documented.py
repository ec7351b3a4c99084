"""Every function and aggregate is in the analysts' manual, and every key in the owners'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hush.policy.file import Policy
from hush.query.expressions import Op
from hush.query.functions.record import spelled
from hush.query.question import AggregateKind
from hush.query.sql import parse
from hush.query.sql.allow_list import OFFERED

DOCS = Path(__file__).parents[3] / "docs"
SQL = (DOCS / "sql.md").read_text(encoding="utf-8").replace("\\|", "|")
AGGREGATES = {
    AggregateKind.COUNT: "COUNT(*)",
    AggregateKind.COUNT_UNITS: "COUNT(DISTINCT patient_id)",
    AggregateKind.COUNT_DISTINCT: "COUNT(DISTINCT x)",
    AggregateKind.SUM: "SUM(x)",
    AggregateKind.SUM_DISTINCT: "SUM(DISTINCT x)",
    AggregateKind.AVG: "AVG(x)",
    AggregateKind.AVG_DISTINCT: "AVG(DISTINCT x)",
    AggregateKind.VARIANCE: "VARIANCE(x)",
    AggregateKind.VARIANCE_POPULATION: "VAR_POP(x)",
    AggregateKind.COVARIANCE: "COVAR_SAMP(x, y)",
    AggregateKind.COVARIANCE_POPULATION: "COVAR_POP(x, y)",
    AggregateKind.CORRELATION: "CORR(x, y)",
    AggregateKind.QUANTILE: "QUANTILE(x, p)",
    AggregateKind.MIN: "MIN(x)",
    AggregateKind.MAX: "MAX(x)",
    AggregateKind.MODE: "MODE(x)",
}


@pytest.mark.parametrize("op", list(Op))
def test_every_function_is_documented(op):
    name = {Op.TO_INTEGER: "CAST(x AS INTEGER)"}.get(op, spelled(op))
    assert re.search(rf"`[^`\n]*{re.escape(name)}[^`\n]*`", SQL)


@pytest.mark.parametrize("kind", list(AggregateKind))
def test_every_aggregate_is_documented_and_can_be_asked(kind, schema):
    written = AGGREGATES[kind]
    assert f"`{written}`" in SQL
    x = "disease" if kind is AggregateKind.MODE else "cost"
    text = written.replace("x", x).replace(", y", ", age").replace(", p", ", 0.5").replace("mac", "max")
    question = parse(f"SELECT {text} FROM visits", schema)
    assert question.aggregates[0].kind is kind


@pytest.mark.parametrize("name", OFFERED)
def test_every_name_offered_is_documented(name):
    assert re.search(rf"\b{name}\b", SQL)


def test_the_first_question_of_the_manual_can_be_asked(schema):
    blocks = re.findall(r"```sql\n(.*?)```", SQL, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        parse(block, schema)


def test_the_policy_of_the_manual_loads():
    text = (DOCS / "policy.md").read_text(encoding="utf-8")
    policy = Policy.parse("\n".join(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)))
    assert [asked.schedule.slots for asked in policy.streams.values()] == [52]
    assert policy.ledger == "clinic-ledger.db"
    for key in (
        "engine",
        "unit",
        "neighbours",
        "budget",
        "tables",
        "source",
        "public",
        "max_groups",
        "max_rows",
        "columns",
    ):
        assert f"`{key}`" in text
    for key in ("type", "lower", "upper", "step", "values", "nullable"):
        assert f"`{key}`" in text
