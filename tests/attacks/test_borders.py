"""Neighbours on both sides of every border see the same: refusals, prices, notes, errors, and that they are answered.

SECURITY.md lists the branches that depend on a number of rows, bytes or groups, or on what was asked before. A case is
a random question of two neighbouring data sets, with borders drawn so low that the one unit more or less lies across
them: how many rows a join may make, how long a statement and how dear a row may be, how many bytes are kept, and what
was asked before.

``HUSH_CASES`` says how many cases there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from seams import cache_of, statements_run

import hush
from hush.core import HushError
from hush.curator.curator import Curator
from hush.engines import work
from hush.engines.errors import EngineError
from hush.engines.sql import relations, render

CASES = int(os.environ.get("HUSH_CASES", "120"))
PARTS = 4
PEOPLE = 8
AT_ONCE = 30
SMALL = "1e-3"
"""Questions about two neighbours; borders move after every third."""
PUBLIC = pa.table({"c": list(range(6)), "label": ["a", "b", "a", None, "é", ""]})
EXPRESSIONS = [
    "x",
    "y",
    "x + y",
    "LENGTH(t)",
    "SQRT(ABS(x))",
    "CASE WHEN t LIKE '%a_b%' THEN x ELSE y END",
    "LENGTH(t || u)",
]
CONDITIONS = [
    "x > {}", "t = 'a'", "t LIKE '%b%'", "u ILIKE 'a%' AND y < {}", "LENGTH(REPLACE(t, 'ab', 'c')) > {}",
    "x IN (1, 2, {})", "CAST(t AS INTEGER) > {}", "CONTAINS(t, u)", "t IS NULL OR x = {}",
    "id IN (SELECT id FROM data WHERE x > {})", "EXISTS (SELECT 1 FROM data o WHERE o.id = data.id AND o.x < data.x)",
    "NOT EXISTS (SELECT 1 FROM r WHERE label = t AND c > x)", "t NOT IN (SELECT label FROM r WHERE c > {})",
    "x > (SELECT AVG(c) FROM r)", "(SELECT COUNT(*) FROM data o WHERE o.id = data.id) > {}",
]  # fmt: skip
SOURCES = [
    "data", "data", "data",
    "data JOIN (SELECT id AS other, x AS w FROM data) b ON id = other",
    "data, r", "data LEFT JOIN r ON c = x", "data JOIN r ON t = label",
    "(SELECT id, x, y, t, u, g FROM data UNION ALL SELECT id, y, x, u, t, g FROM data) q",
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY t) AS k FROM data QUALIFY k < 4) q",
    "(SELECT *, SUM(x) OVER (PARTITION BY id, t ORDER BY y) AS k FROM data) q",
    "(SELECT *, LAG(u) OVER (PARTITION BY id ORDER BY x) AS l FROM data) q",
    "data SEMI JOIN r ON c > x", "data ANTI JOIN (SELECT id AS other, x AS w FROM data WHERE x > 4) b ON id = other",
    "data, (SELECT label, COUNT(*) AS m FROM r GROUP BY label) s", "(SELECT DISTINCT id, x, y, t, u, g FROM data) q",
    "data FULL JOIN (SELECT id AS other, x AS w FROM data WHERE x > 4) b ON id = other",
    "main.data JOIN (VALUES (0, 'a'), (5, 'b'), (5, 'é')) AS v(n, word) ON x = n",
]  # fmt: skip
OVER = [
    "SELECT {keys}a0, RANK() OVER (ORDER BY a0 DESC) AS r, COUNT(*) OVER () AS n FROM ({0}) AS q",
    "SELECT {keys}a0 / SUM(a0) OVER () AS share, LAG(a0) OVER (ORDER BY a0) AS l FROM ({0}) AS q WHERE a0 > 1",
    "SELECT COUNT(*) AS n, SUM(a0) AS s, MAX(a0) AS m, AVG(a0) AS a FROM ({0}) AS q",
    "SELECT {keys}a0 FROM ({0}) AS q QUALIFY ROW_NUMBER() OVER (ORDER BY a0) <= 2",
    "SELECT MIN(a0) AS m FROM (SELECT {keys}a0 FROM ({0}) AS q ORDER BY a0 LIMIT 2) AS p HAVING COUNT(*) > 0",
    "{0} UNION ALL {0}",
    "WITH w AS ({0}), t AS (SELECT SUM(a0) AS s FROM w) SELECT o.a0, p.a0 AS b, s FROM w o JOIN w p ON o.k0 = p.k0, t",
    "SELECT DISTINCT a0 > 1 AS big, COUNT(*) AS n FROM ({0}) AS q GROUP BY 1",
]
KEYS = ["", "", "g", "t", "t, u", "x", "LEFT(t, 1)"]


def sentence(rng: Random) -> str:
    def number() -> str:
        return f"CLIP({rng.choice(EXPRESSIONS)}, 0, {rng.choice([5, 9])})"

    aggregates = {
        "COUNT(*)": 3, f"SUM({number()})": 3, f"AVG({number()})": 2, f"MEDIAN({number()})": 3,
        f"COUNT(DISTINCT {rng.choice(['t', 'x', 'u'])})": 2, "MODE(g)": 1, f"QUANTILE({number()}, 0.9)": 1,
    }  # fmt: skip
    chosen = rng.choices(list(aggregates), list(aggregates.values()), k=rng.choice([1, 1, 2, 3]))
    shown = [f"{what} AS a{at}" for at, what in enumerate(chosen)]
    keys = rng.choice(KEYS)
    where = f" WHERE {rng.choice(CONDITIONS).format(rng.randrange(9))}" if rng.random() < 0.6 else ""
    by = (
        [f"{key} AS k{at}" for at, key in enumerate(keys.split(", "))]
        if keys and "(" not in keys
        else [f"{keys} AS k0"]
        if keys
        else []
    )
    names = [f"k{at}" for at in range(len(by))]
    how = rng.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"])
    group = f" GROUP BY {how.format(', '.join(names))}" if by else ""
    if by and rng.random() < 0.1:
        shown = []  # keys alone
    text = f"SELECT {', '.join([*by, *shown])} FROM {rng.choice(SOURCES)}{where}{group}"
    return rng.choice(OVER).format(text, keys="".join(f"{name}, " for name in names)) if rng.random() < 0.4 else text


def people(rng: Random) -> list[list[tuple[object, ...]]]:
    words = ["a", "b", "ab", "aXb", None, "é" * 300, "b" * 600, "", "7", "a" * 12_000]
    return [
        [
            (
                unit,
                rng.choice([0, 1, 5, 9, None]),
                rng.choice([0.0, 2.5, 9.0]),
                rng.choice(words),
                rng.choice(words),
                rng.choice("abc"),
            )
            for _ in range(rng.choice([1, 1, 2, 5, 40]))
        ]
        for unit in range(PEOPLE)
    ]


def opened(rows: list[tuple[object, ...]], cache: int) -> Curator:
    types = {"id": pa.int64(), "x": pa.int64(), "y": pa.float64(), "t": pa.string(), "u": pa.string(), "g": pa.string()}
    cells = list(zip(*rows, strict=True)) or [()] * len(types)
    frame = pa.table(
        {name: pa.array(list(cell), kind) for (name, kind), cell in zip(types.items(), cells, strict=True)}
    )
    curator = hush.protect(
        frame, unit="id", bounds={"x": (0, 9), "y": (0, 9)}, values={"g": ["a", "b", "c"]}, max_rows=3, max_groups=2,
        budget={"epsilon": 10**6, "delta": "1e-3"}, public={"r": PUBLIC},
    )  # fmt: skip
    cache_of(curator.data_sets["data"].engine).limit = cache
    return curator


def seen(curator: Curator, sql: str) -> tuple[object, ...]:
    """Return everything about an answer but the answer: its shape is public where its keys are."""
    before = len(curator.history())
    try:
        explained = curator.explain(sql, epsilon=SMALL)
        told: tuple[object, ...] = (str(explained.price), explained.caveats)
    except HushError as error:
        told = (type(error).__name__, str(error))
    try:
        answer = curator.ask(sql, epsilon=SMALL, fresh=True)
    except EngineError as error:
        return (*told, "failed", str(error), len(curator.history()) - before)
    except HushError as error:
        return (*told, "refused", type(error).__name__, str(error), len(curator.history()) - before)
    return (*told, "answered", str(answer.price), answer.caveats, len(curator.history()) - before)


def borders(rng: Random, patch: pytest.MonkeyPatch) -> None:
    """Move the borders to where these rows are."""
    pairs = rng.choice([1, 20, 400, 10**6])
    for module in (relations, work):
        patch.setattr(module, "MOST_PAIRS", pairs)
    patch.setattr(work, "STORED", rng.choice([1, 10, 10**5]))
    patch.setattr(work, "PER_ROW", rng.choice([2000, 20_000, 50_000, 50_000]))
    patch.setattr(render, "MOST", rng.choice([1500, 3000, 500_000, 500_000]))


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.mark.parametrize("part", range(PARTS))
def test_neighbours_see_the_same_at_every_border(part: int, patch: pytest.MonkeyPatch) -> None:
    rng, asked, answered, refused = Random(part), 0, 0, 0
    while asked < CASES // PARTS:
        members = people(rng)
        whole = [row for rows in members for row in rows]
        gone = rng.randrange(PEOPLE)
        less = [row for at, rows in enumerate(members) for row in rows if at != gone]
        questions = [sentence(rng) for _ in range(AT_ONCE)]
        cache = rng.choice([0, 20_000, 2**28])
        warm = rng.random() < 0.5
        results = []
        state = rng.getstate()
        for rows in (whole, less):
            rng.setstate(state)
            with opened(rows, cache) as curator:
                if warm:  # before the borders are moved: shapes, results and rows are kept
                    for sql in questions[:4] * 2:
                        seen(curator, sql)
                results.append([])
                for at in range(0, AT_ONCE, 3):
                    with patch.context() as moved:
                        borders(rng, moved)
                        results[-1] += [seen(curator, sql) for sql in questions[at : at + 3]]
        for sql, one, other in zip(questions, *results, strict=True):
            assert one == other, sql
            assert "failed" not in one, sql
            answered += "answered" in one
            refused += "refused" in one
            asked += 1
    assert answered > asked // 10
    assert refused


@pytest.mark.parametrize(
    "sql", ["SELECT SUM(x) AS s, MEDIAN(x) AS m FROM data", "SELECT g, COUNT(*) AS n FROM data, r GROUP BY g"]
)
def test_the_same_statements_run_whatever_number_of_rows_there_is(sql: str, patch: pytest.MonkeyPatch) -> None:
    texts: list[list[str]] = []
    for rows in (10, 65_000, 66_000, 123_000):
        frame = pa.table({"id": range(rows), "x": [3] * rows, "g": ["a"] * rows})
        public = {"r": PUBLIC}
        with hush.protect(
            frame, unit="id", bounds={"x": (0, 9)}, values={"g": ["a"]}, budget=9, public=public
        ) as curator:
            engine = curator.data_sets["data"].engine
            with patch.context() as fixed:
                fixed.setattr(engine, "_salt", 1)
                run = statements_run(fixed)
                curator.ask(sql, epsilon=1)
        texts.append(run)
    assert texts[0]
    assert all(run == texts[0] for run in texts)
