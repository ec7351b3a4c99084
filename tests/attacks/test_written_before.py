"""Whether a question can be written is settled before the charge, from the question alone.

How many rows there are decides which statements run, and what was asked before which of them the engine has resolved.
Neither may decide what is written and measured: or one row decides whether a paid question fails, or a free refusal
tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from seams import cache_of

import hush
from hush.curator.curator import Curator
from hush.engines.protocol import Exact
from hush.engines.sql import render
from hush.engines.sql_engine import SqlEngine
from hush.query.plan import UnplannableError

PEOPLE = 40
PRICE = "1e-9"
"""How far a pick is refined depends on it, and the length of a statement in some digits."""
PATHS = {
    "sums": "SELECT COUNT(*) AS n, SUM(x) AS s FROM data WHERE x > {}",
    "distinct values": "SELECT COUNT(DISTINCT x) AS d, COUNT(DISTINCT word) AS w FROM data WHERE x > {}",
    "one number picked": "SELECT MEDIAN(x) AS m FROM data WHERE x > {}",
    "a refined pick": "SELECT MEDIAN(y) AS m FROM data WHERE x > {}",
    "a listed pick": "SELECT MODE(g) AS m FROM data WHERE x > {}",
    "public keys": "SELECT g, SUM(x) AS s, MEDIAN(y) AS m, COUNT(DISTINCT word) AS w FROM data WHERE x > {} GROUP BY g",
    "private keys": "SELECT word, COUNT(*) AS n FROM data WHERE x > {} GROUP BY word",
    "private keys and more": "SELECT word, MEDIAN(y) AS m, COUNT(DISTINCT x) AS d FROM data WHERE x > {} GROUP BY word",
    "a join": "SELECT COUNT(*) AS n, MEDIAN(a.y) AS m FROM data a JOIN data b USING (id) WHERE a.x > {}",
    "a public join": "SELECT label, COUNT(*) AS n FROM data JOIN r ON g = label WHERE x > {} GROUP BY label",
    "a subquery": "SELECT SUM(CLIP(s, 0, 9)) AS n FROM (SELECT id, SUM(x) AS s FROM data WHERE x > {} GROUP BY id) t",
    "a union": "SELECT SUM(x) AS s FROM (SELECT id, x FROM data UNION ALL SELECT id, x FROM data) t WHERE x > {}",
}


def opened(rows: int = 2 * PEOPLE, **options: object) -> Curator:
    frame = pa.table(
        {
            "id": [at % PEOPLE for at in range(rows)],
            "x": [at % 10 for at in range(rows)],
            "y": [at * 7919 % 1_000_000 / 100 for at in range(rows)],
            "g": [("a", "b", "c")[at % 3] for at in range(rows)],
            "word": [f"word {at % 5}" for at in range(rows)],
        }
    )
    return hush.protect(
        frame,
        unit="id",
        bounds={"x": (0, 9), "y": (0, 10_000)},
        values={"g": ["a", "b", "c"]},
        max_rows=3,
        max_groups=2,
        budget={"epsilon": 1000, "delta": "1e-3"},
        public={"r": pa.table({"label": ["a", "b"]})},
        **options,
    )


@pytest.fixture(scope="module")
def curator() -> Iterator[Curator]:
    with opened() as made:
        yield made


def lengths(curator: Curator, sql: str) -> list[int]:
    desk, how = curator.plan(sql, epsilon=PRICE)
    compiled = desk.engine.prepare(how)
    return [len(statement.text) for statement in compiled.statements]


def seen(curator: Curator, sql: str) -> str:
    before = len(curator.history())
    try:
        curator.ask(sql, epsilon=PRICE)
    except UnplannableError as error:
        assert len(curator.history()) == before
        return str(error)
    return "answered"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("met", [False, True])
def test_every_statement_is_measured_whichever_runs(path: str, met: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the longest statement is too long; it may be one that these rows do not need, of a shape met before."""
    with opened() as curator:
        if met:
            assert seen(curator, PATHS[path].format("0.5")) == "answered"
        sizes = lengths(curator, PATHS[path].format("1.5"))
        monkeypatch.setattr(render, "MOST", max(sizes) + 99)  # texts may first be tried at a greater length
        assert seen(curator, PATHS[path].format("1.5")) == "answered"
        monkeypatch.setattr(render, "MOST", max(sizes) - 1)
        assert seen(curator, PATHS[path].format("2.5")).startswith("the question is too large")


def forget_results(engine: SqlEngine) -> None:
    """Forget results, but neither the rows that are stored nor which questions there were."""
    cache = cache_of(engine)
    for key in [key for key, (value, *_) in cache._items.items() if isinstance(value, list)]:
        cache._forget(*cache._items.pop(key))


def numbers(exact: Exact) -> object:
    histograms = [[(one.bins.tolist(), one.weights.tolist()) for one in groups] for groups in exact.histograms]
    order = sorted(range(len(exact.keys)), key=lambda at: repr(exact.keys[at]))
    return (
        [exact.keys[at] for at in order],
        [[values.tolist()[at] for at in order] for values in exact.statistics.values()],
        [[groups[at] for at in order] for groups in histograms],
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("earlier", [0, 3])
def test_nothing_is_written_after_the_charge(
    path: str, earlier: int, curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a question is compiled, no further piece of SQL is needed: a single one would be too long here.

    Earlier questions on the same groups have their rows stored; statements over those are written late, and if they
    cannot be, the others run.
    """
    desk, how = curator.plan(PATHS[path].format("3.5"), epsilon=1)
    desk.engine.connection.forget()
    right = numbers(desk.engine.run(how))
    desk.engine.connection.forget()
    for _ in range(earlier):
        desk.engine.run(how)
        forget_results(desk.engine)
    compiled = desk.engine.prepare(how)
    monkeypatch.setattr(render, "MOST", 0)
    assert numbers(desk.engine.execute(compiled)) == right


NESTED = "SQRT(" * 5 + "x" + ")" * 5


@pytest.mark.parametrize("sql", [PATHS["sums"].format("0.5"), f"SELECT MEDIAN({NESTED}) AS m FROM data"])
def test_a_refusal_tells_of_no_number_of_rows(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = []
    for rows in (10, 70_000):
        with opened(rows) as curator, monkeypatch.context() as patch:
            patch.setattr(render, "MOST", min(lengths(curator, sql)) - 1)
            words.append(seen(curator, sql))
    assert len(set(words)) == 1
    assert words[0].startswith("the question is too large")


def test_statements_have_one_length() -> None:
    """No engine's salt makes a statement longer."""
    sizes = set()
    for _ in range(3):
        with opened() as other:
            sizes.add(tuple(lengths(other, PATHS["public keys"].format("4.5"))))
    assert len(sizes) == 1
