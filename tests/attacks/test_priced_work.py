"""What is done before a charge has a limit that its input alone decides: reading, planning, pricing, explaining.

Every case here kept a worker busy for minutes, or for ever, or filled the memory.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.accounting.events import event_from_json
from hush.accounting.filters import Filter, PureFilter, RenyiFilter, ZCDPFilter
from hush.core import HushError
from hush.core.work import TooMuchWorkError, limited
from hush.query.errors import QuestionError

MOST = 300_000
"""Some 0.3 s, so that the tests are quick; a service allows more."""
SHUFFLED = [
    {"type": "shuffled", "local_epsilon": f"{50 + at}/100", "reports": 10**6 + at, "delta": "1e-9"} for at in range(300)
]
PURE, RENYI, ZCDP = (
    PureFilter.open(epsilon=10),
    RenyiFilter.open(epsilon=10, delta="1e-6"),
    ZCDPFilter.open(epsilon=10, delta="1e-6"),
)


@pytest.mark.parametrize(
    ("event", "account"),
    [
        ({"type": "composed", "events": SHUFFLED}, ZCDP),
        ({"type": "shuffled", "local_epsilon": 1, "reports": 10**12, "delta": "1e-9"}, PURE),
        ({"type": "poisson_laplace", "q": "0.01", "scale": "1e-6"}, RENYI),
        (
            {
                "type": "composed",
                "events": [{"type": "poisson_gaussian", "q": "0.01", "sigma": f"0.0{at + 1}"} for at in range(600)],
            },
            RENYI,
        ),
        (
            {
                "type": "composed",
                "events": [{"type": "skellam", "variance": 10**6 - at, "sensitivity": 10} for at in range(600)],
            },
            ZCDP,
        ),
    ],
)
def test_a_price_that_takes_too_long_is_refused(event: dict[str, Any], account: Filter) -> None:
    with limited(MOST), pytest.raises(TooMuchWorkError, match="Nothing was charged"):
        account.price(event_from_json(event))


def nested(depth: int) -> dict[str, Any]:
    event: dict[str, Any] = {"type": "laplace", "scale": 1}
    for _ in range(depth):
        parts = [event, {"type": "gaussian", "sigma": 2}]
        event = {"type": "parallel", "events": parts, "neighbours": "replace", "partition": "value"}
    return event


@pytest.mark.parametrize(
    "event",
    [
        nested(40),
        {
            "type": "parallel",
            "events": [
                {"type": ("laplace", "gaussian")[at % 2], ("scale", "sigma")[at % 2]: at + 1} for at in range(900)
            ],
            "neighbours": "replace",
            "partition": "value",
        },
        {"type": "group", "event": {"type": "approx_dp", "epsilon": "0.1", "delta": "1e-9"}, "size": 10**12},
    ],
    ids=["parts within parts", "many parts", "a group beyond all numbers"],
)
def test_a_price_that_doubled_with_every_part_does_not(event: dict[str, Any]) -> None:
    with limited(MOST):
        assert RENYI.price(event_from_json(event)).loss > 0


def test_a_figure_that_no_memory_holds_is_refused() -> None:
    event = {"type": "propose_test_release", "epsilon": "1e9", "delta": "1e-9", "noise": "gaussian"}
    with pytest.raises(HushError, match="too large to be written down"):
        PURE.price(event_from_json(event))


def test_two_largest_parts_are_what_every_two_parts_gave() -> None:
    from itertools import combinations

    events = [{"type": "gaussian", "sigma": 3}, {"type": "laplace", "scale": 2}, {"type": "laplace", "scale": 5}]
    parts = [event_from_json(event) for event in events]
    whole = event_from_json({"type": "parallel", "events": events, "neighbours": "replace", "partition": "value"})
    dearest = max(sum(one.renyi(4) for one in two) for two in combinations(parts, 2))
    assert whole.renyi(4) == pytest.approx(dearest, rel=1e-12)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> hush.Curator:
    folder: Path = tmp_path_factory.mktemp("chains")
    table = pa.table({"id": [1, 2], "age": [30, 40], "city": ["Oslo", "Bergen"]})
    pq.write_table(table, folder / "visits.parquet")
    policy = folder / "hush.toml"
    policy.write_text(
        '[data.clinic]\nunit = "id"\nbudget = { epsilon = 5 }\n[data.clinic.tables.visits]\nsource = "visits.parquet"\n'
        'columns.age = { type = "integer", lower = 0, upper = 100 }\n'
        'columns.city = { type = "text", values = ["Oslo", "Bergen"] }\n[analysts.alice]\ndata = ["clinic"]\n',
        "utf-8",
    )
    return hush.open(policy, analyst="alice")


ANSWERS, ROWS = "SELECT city, COUNT(*) AS x FROM visits GROUP BY city", "SELECT id, age AS x, city FROM visits"


@pytest.mark.parametrize(
    ("first", "step", "refused"),
    [
        (ANSWERS, "SELECT city, x + x AS x FROM t", True),
        (ANSWERS, "SELECT city, CASE WHEN x > 1 THEN x ELSE x + 1 END AS x FROM t", True),
        (ANSWERS, "SELECT city, x FROM t UNION ALL SELECT city, x FROM t", True),
        (ANSWERS, "SELECT city, x + SUM(x) OVER () AS x FROM t", False),
        (ANSWERS, "SELECT city, RANK() OVER (ORDER BY x) AS x FROM t QUALIFY RANK() OVER (ORDER BY x) < 4", False),
        (ANSWERS, "SELECT city, SUM(x) + MAX(x) AS x FROM t GROUP BY city HAVING SUM(x) > MAX(x)", False),
        (ROWS, "SELECT id, GREATEST(x, x * x) AS x, city FROM t", False),
    ],
)
def test_parts_that_use_each_other_twice_do_not_double_the_work(
    curator: hush.Curator, first: str, step: str, refused: bool
) -> None:
    steps = [f"t{at} AS ({step.replace('FROM t', f'FROM t{at - 1}')})" for at in range(1, 31)]
    text = f"WITH t0 AS ({first}), {', '.join(steps)} SELECT city, SUM(CLIP(x, 0, 1)) FROM t30 GROUP BY city"
    with limited(MOST):
        if refused:
            with pytest.raises(QuestionError, match="Ask for less"):
                curator.explain(text, epsilon=1)
        else:
            curator.explain(text, epsilon=1)


UNIONS = [
    "SELECT id, x FROM (SELECT * FROM t) AS q UNION ALL SELECT id, age AS x FROM visits",
    "SELECT id, age AS x FROM visits UNION ALL SELECT id, x FROM t",
    "SELECT id, x FROM t UNION ALL SELECT id, x FROM t",
    "SELECT id, x FROM t UNION SELECT id, age AS x FROM visits",
    "SELECT id, x FROM t EXCEPT SELECT id, age AS x FROM visits",
    "SELECT id, age AS x FROM visits WHERE (id, age) IN (SELECT id, x FROM t UNION ALL SELECT id, age FROM visits)",
    "SELECT DISTINCT ON (id, x) id, x FROM (SELECT id, x FROM t UNION ALL SELECT id, age FROM visits) ORDER BY id, x",
    "SELECT id, age AS x FROM visits, (SELECT COUNT(*) FROM (SELECT * FROM t), (SELECT COUNT(*) FROM visits))",
]


@pytest.mark.parametrize("length", [12, 30])
@pytest.mark.parametrize("step", UNIONS)
def test_a_query_that_is_tried_first_does_not_double_the_work(curator: hush.Curator, step: str, length: int) -> None:
    steps = [f"t{at} AS ({step.replace('FROM t', f'FROM t{at - 1}')})" for at in range(1, length + 1)]
    text = f"WITH t0 AS (SELECT id, age AS x FROM visits), {', '.join(steps)} SELECT COUNT(*) FROM t{length}"
    began = time.process_time()
    with limited(2 * MOST) as work, contextlib.suppress(HushError):  # of 30, some read too many tables
        curator.explain(text, epsilon=1)
    assert work.spent > 0
    assert time.process_time() - began < 5


def test_what_trials_do_is_counted(curator: hush.Curator) -> None:
    parts = [f"t{at} AS (SELECT id, age AS x FROM visits UNION ALL SELECT * FROM t{at - 1})" for at in range(1, 30)]
    text = f"WITH t0 AS (SELECT id, age AS x FROM visits), {', '.join(parts)} SELECT COUNT(*) FROM visits"
    with limited(MOST), pytest.raises(TooMuchWorkError):
        curator.explain(text, epsilon=1)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "composed", "events": 5},
        {"type": "parallel", "events": 5, "neighbours": "replace", "partition": "value"},
        {"type": "rdp", "points": [5]},
        {"type": "discrete_gaussian", "sigma": "1e-4000", "sensitivity": 1},
        {"type": "discrete_gaussian", "sigma": "1e4000", "sensitivity": 1},
        {"type": "poisson_gaussian", "q": "1e-4000", "sigma": "1e-4000"},
        {"type": "poisson_laplace", "q": "0.5", "scale": "1e-4000"},
        {"type": "shuffled", "local_epsilon": "1e-4000", "reports": 10**9, "delta": "1e-4000"},
        {"type": "propose_test_release", "epsilon": "1e4000", "delta": "0.5", "noise": "gaussian"},
    ],
    ids=lambda event: str(event)[:60],
)
def test_what_no_figures_hold_is_refused_and_no_mistake_of_ours(event: dict[str, Any]) -> None:
    with limited(MOST), pytest.raises(HushError):
        RENYI.price(event_from_json(event))
