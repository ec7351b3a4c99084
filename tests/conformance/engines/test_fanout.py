"""Public tables that make many rows of one: on every engine all of them count, as in plain DuckDB, or it is refused.

Answers are asked for at ε = 10⁸, where the chance that noise changes a count by 0.4 is below 1e-20.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core import HushError
from hush.curator.curator import Curator
from hush.curator.opening import open_policy, protect

MATCHES = (1, 2, 7, 50)
WORDS = ("ant", "bee", "cat")
ROWS = 400
VISITS = {
    # a unit has up to three rows, in up to two combinations of city and word
    "id": [row // 3 for row in range(ROWS)],
    "city": ["ab"[row // 3 % 2] for row in range(ROWS)],
    "word": [WORDS[(row // 3 + row % 3 // 2) % 3] for row in range(ROWS)],
    "n": [row % 60 for row in range(ROWS)],
}


def tags(matches: int) -> dict[str, list[Any]]:
    """Return a public table in which each word has as many rows; two of its tags are often the same."""
    rows = [(word, f"t{row // 2}", row % 3) for word in WORDS for row in range(matches)]
    return {name: list(column) for name, column in zip(("word", "tag", "weight"), zip(*rows, strict=True), strict=True)}


GAPS: dict[str, list[Any]] = {"k": [1, 2, *[None] * 1000]}
TABLES: Mapping[str, dict[str, list[Any]]] = {
    "visits": VISITS,
    "gaps": GAPS,
    **{f"tags{most}": tags(most) for most in MATCHES},
}
POLICY = """
[data.clinic]
{engine}
{unit}
budget = {{ epsilon = "1e12" }}
[data.clinic.tables.visits]
source = "{sources[visits]}"
{limits}
[data.clinic.tables.visits.columns]
city = {{ type = "text", values = ["a", "b"] }}
word = {{ type = "text" }}
n = {{ type = "integer", lower = 0, upper = 60 }}
[data.clinic.tables.gaps]
source = "{sources[gaps]}"
public = true
columns.k = "integer"
[analysts.ann]
data = ["clinic"]
budget = {{ epsilon = "1e12" }}
"""
PUBLIC = """
[data.clinic.tables.tags{most}]
source = "{sources[tags{most}]}"
public = true
[data.clinic.tables.tags{most}.columns]
word = {{ type = "text" }}
tag = {{ type = "text" }}
weight = {{ type = "integer" }}
"""
JOINS = {
    "all": "SELECT COUNT(*) AS n, SUM(t.weight) AS s FROM visits AS v JOIN {tags} AS t ON v.word = t.word",
    "by a public key": "SELECT t.tag, COUNT(*) AS n FROM visits AS v JOIN {tags} AS t ON v.word = t.word GROUP BY 1",
    "by a private key": "SELECT v.city, COUNT(*) AS n FROM visits AS v JOIN {tags} AS t ON v.word = t.word GROUP BY 1",
    "by both": "SELECT v.city, t.tag, COUNT(*) AS n FROM {tags} AS t JOIN visits AS v ON v.word = t.word GROUP BY 1, 2",
    "by what is computed": "SELECT t.weight + v.n % 2 AS k, COUNT(*) AS n FROM visits AS v JOIN {tags} AS t "
    "ON v.word = t.word GROUP BY 1",
    "without equality": "SELECT t.tag, COUNT(*) AS n FROM visits AS v JOIN {tags} AS t ON v.n >= t.weight GROUP BY 1",
    "with conditions": "SELECT t.tag, COUNT(*) AS n FROM visits AS v JOIN {tags} AS t "
    "ON v.word = t.word AND t.weight = 1 WHERE t.tag > 't1' GROUP BY 1",
    "optional": "SELECT COUNT(*) AS n, COUNT(t.tag) AS m FROM visits AS v LEFT JOIN {tags} AS t "
    "ON v.word = t.word AND t.weight > 0",
    "of a union": "SELECT COUNT(*) AS n FROM (SELECT t.tag FROM visits AS v JOIN {tags} AS t ON v.word = t.word "
    "WHERE v.n <= 9 UNION ALL SELECT t.tag FROM visits AS v JOIN {tags} AS t ON v.word = t.word WHERE v.n > 9) AS u",
    "twice": "SELECT COUNT(*) AS n FROM visits AS v JOIN {tags} AS t ON v.word = t.word JOIN {tags} AS u "
    "ON v.word = u.word",
    "of groups of units": "SELECT COUNT(*) AS n, SUM(c) AS s FROM (SELECT v.id, t.tag, COUNT(*) AS c FROM visits AS v "
    "JOIN {tags} AS t ON v.word = t.word GROUP BY v.id, t.tag) AS g WHERE c BETWEEN 1 AND 9",
    "by an aggregate of units": "SELECT c, COUNT(*) AS n FROM (SELECT v.id, t.tag, COUNT(*) AS c FROM visits AS v "
    "JOIN {tags} AS t ON v.word = t.word GROUP BY v.id, t.tag) AS g WHERE c BETWEEN 1 AND 9 GROUP BY c",
}
CONSTANTS = {
    "a list of words": "SELECT w.x, COUNT(*) AS n FROM visits AS v JOIN (VALUES ('a'), ('b'), ('e'), ('t')) AS w(x) "
    "ON CONTAINS(v.word, w.x) GROUP BY w.x",
    "a list of words in all": "SELECT COUNT(*) AS n FROM visits AS v JOIN (VALUES ('a'), ('b'), ('e'), ('t')) AS w(x) "
    "ON CONTAINS(v.word, w.x)",
    "a series": "SELECT s.k, COUNT(*) AS n FROM visits AS v JOIN generate_series(1, 50) AS s(k) ON v.n >= s.k "
    "GROUP BY s.k",
    "repeated constants": "SELECT COUNT(*) AS n FROM visits AS v JOIN (VALUES ('ant'), ('ant'), ('bee')) AS w(x) "
    "ON v.word = w.x",
}
MISSING = {
    "a missing key": "SELECT COUNT(*) AS n FROM visits AS v JOIN gaps AS g ON v.n = g.k",
    "a missing end": "SELECT COUNT(*) AS n FROM visits AS v JOIN gaps AS g ON v.n BETWEEN g.k AND 2 * g.k",
    "a missing key that is a value": "SELECT COUNT(*) AS n FROM visits AS v JOIN gaps AS g "
    "ON NULLIF(v.n, 5) IS NOT DISTINCT FROM g.k",
}
QUESTIONS = {
    **{f"{name}, {most}": text.format(tags=f"tags{most}") for name, text in JOINS.items() for most in MATCHES},
    **CONSTANTS,
    **MISSING,
}
SPARK_QUESTIONS = ["by both, 7", "all, 50", "a list of words"]
OWNED = {"unit": 'unit = "id"', "limits": "max_rows = 3\nmax_groups = 2"}
"""A unit has many rows, or one."""
ALONE = {"unit": "", "limits": ""}


@pytest.fixture(scope="module", params=["duckdb", "postgresql", "spark"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a function that opens a policy over the tables on one engine."""
    if request.param == "spark" and "HUSH_SPARK_CASES" not in os.environ:
        pytest.skip(
            "a question of Spark takes a second, and each counts public rows; with HUSH_SPARK_CASES, as nightly"
        )
    folder = tmp_path_factory.mktemp("fanout")
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    for name, table in TABLES.items():
        pq.write_table(pa.table(table), files[name])
    engine, sources, owner = "", {name: str(file) for name, file in files.items()}, None
    if request.param == "postgresql":
        address = request.getfixturevalue("postgresql")
        owner = psycopg.connect(address, autocommit=True)
        owner.execute("DROP SCHEMA IF EXISTS fanout CASCADE; CREATE SCHEMA fanout")
        for name, table in TABLES.items():
            kinds = ["text" if isinstance(column[0], str) else "bigint" for column in table.values()]
            columns = ", ".join(f"{label} {kind}" for label, kind in zip(table, kinds, strict=True))
            owner.execute(f"CREATE TABLE fanout.{name} ({columns})")
            with owner.cursor().copy(f"COPY fanout.{name} FROM STDIN") as copy:
                for row in zip(*table.values(), strict=True):
                    copy.write_row(row)
        engine, sources = f'engine = "{address}"', {name: f"fanout.{name}" for name in TABLES}
    elif request.param == "spark":
        engine = f'engine = "{request.getfixturevalue("spark")}"'

    def opened(terms: Mapping[str, str]) -> Curator:
        path = folder / f"{len(terms['unit'])}" / "hush.toml"
        path.parent.mkdir(exist_ok=True)
        public = "".join(PUBLIC.replace("{most}", str(most)) for most in MATCHES)
        path.write_text((POLICY + public).format(engine=engine, sources=sources, **terms))
        return open_policy(path, create=True)

    opened.name = request.param  # type: ignore[attr-defined]
    yield opened
    if owner is not None:
        owner.execute("DROP SCHEMA fanout CASCADE")
        owner.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(f"{name}_rows", pa.table(table))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        yield connection


def groups(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """Return the counts and sums of each group that has rows."""
    found = {}
    for row in rows:
        key = tuple(cell for name, cell in row.items() if name not in {"n", "m", "s"})
        found[key] = tuple(row[name] for name in ("n", "m", "s") if name in row)
    return {key: values for key, values in found.items() if values[0] > 0.4}


@pytest.mark.parametrize("terms", [OWNED, ALONE], ids=["units with rows", "rows as units"])
def test_no_row_that_a_join_makes_is_left_out(place: Any, plain: duckdb.DuckDBPyConnection, terms: Any) -> None:
    asked = SPARK_QUESTIONS if place.name == "spark" else QUESTIONS
    with place(terms) as curator:
        for name in asked:
            if terms is ALONE and ("units" in name or "union" in name):
                continue  # there is no unit to group by, or the table would be read twice
            cursor = plain.execute(QUESTIONS[name])
            labels = [column[0] for column in cursor.description]
            exact = groups([dict(zip(labels, row, strict=True)) for row in cursor.fetchall()])
            answer = curator.ask(QUESTIONS[name], epsilon="1e8").rows()
            got = groups([{label: row[label] for label in labels} for row in answer])
            assert got.keys() == exact.keys(), name
            for key, values in exact.items():
                pairs = zip(got[key], values, strict=True)
                assert all(math.isclose(*pair, rel_tol=1e-6, abs_tol=0.4) for pair in pairs), (name, key, got[key])


def test_what_no_limit_holds_is_refused_and_what_the_question_tightens_is_not(place: Any) -> None:
    everything = " ".join(f"CROSS JOIN (VALUES {', '.join(['(1)'] * 110)}) AS w{at}(x)" for at in range(3))
    with place(OWNED) as curator:
        with pytest.raises(HushError, match="joins with public tables would make more than 10000 rows of one"):
            curator.explain(f"SELECT COUNT(*) AS n FROM visits AS v {everything}", epsilon="1")
        asked = "SELECT t.tag, COUNT(*) AS n FROM visits AS v JOIN tags50 AS t ON v.word = t.word GROUP BY t.tag"
        limits = curator.plan(asked, epsilon="1").plan.exact_query.limits
        # 50 rows of one, two of them with the same tag; no unit is in more groups than there are tags
        assert (limits.rows, limits.groups, limits.matches) == (6, 25, 50)
        assert "make up to 50 rows of one" in str(curator.explain(asked, epsilon="1"))
        few = asked.replace("GROUP BY", "WHERE t.weight = 1 AND t.tag IN ('t0', 't3') GROUP BY")
        limits = curator.plan(few, epsilon="1").plan.exact_query.limits
        assert (limits.rows, limits.groups, limits.matches) == (3, 2, 2)
        tighter = curator.plan(asked, epsilon="1", max_rows=1, max_groups=2).plan.exact_query.limits
        assert (tighter.rows, tighter.groups) == (1, 2)
        with pytest.raises(HushError, match="at most 6, which is what the policy and the rows of public"):
            curator.plan(asked, epsilon="1", max_rows=7)


def test_a_missing_key_is_no_match(place: Any) -> None:
    with place(OWNED) as curator:
        made = [curator.plan(asked, epsilon="1").plan.exact_query.limits for asked in MISSING.values()]
        assert [limits.matches for limits in made] == [1, 2, 1002]


def test_keys_that_are_missing_or_no_numbers_neither_refuse_a_join_nor_make_it_noisier() -> None:
    public = {"p": pa.table({"k": [1.0, 2.0, *[math.nan] * 10_001, *[None] * 10_001]})}
    with protect({"id": [1, 2, 3], "x": [1, 2, 3]}, unit="id", public=public, budget=10) as curator:
        asked = "SELECT COUNT(*) AS n FROM data JOIN p ON data.x = p.k"
        limits = curator.plan(asked, epsilon="1").plan.exact_query.limits
        assert (limits.rows, limits.groups, limits.matches) == (1, 1, 1)
        assert "rows of one" not in str(curator.explain(asked, epsilon="1"))


def test_no_unit_is_in_more_groups_than_public_tables_have_keys(place: Any) -> None:
    asked = (
        "SELECT t.tag, u.weight, COUNT(*) AS n FROM visits AS v JOIN tags50 AS t ON v.word = t.word JOIN tags50 AS u "
        "ON v.word = u.word WHERE t.tag IN ('t0', 't3') AND u.weight > 0 GROUP BY 1, 2"
    )
    with place(OWNED) as curator:
        assert curator.plan(asked, epsilon="1").plan.exact_query.limits.groups == 4
        assert len(curator.ask(asked, epsilon="1").rows()) == 4


def test_the_note_says_what_tighter_limits_do(place: Any) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits AS v JOIN tags50 AS t ON v.word = t.word"
    with place(OWNED) as curator:
        assert "50 rows of one, and the limits grow with them" in str(curator.explain(asked, epsilon="1"))
        tighter = str(curator.explain(asked, epsilon="1", max_rows=2))
        assert "50 rows of one, and the question sets tighter limits: rows beyond them count less" in tighter
