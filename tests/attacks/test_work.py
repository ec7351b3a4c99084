"""What one unit's rows can cost is bounded before the charge: rows after all joins × functions × lengths of texts.

No test here looks at a clock. They look at the bound, which is computed from the question alone, and at what it bounds:
rows, characters and matchers. `benchmarks/worst_unit.py` has the seconds and bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from seams import run_in

import hush
from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.engines.sql.nodes import column, select
from hush.engines.sql.relations import MOST_PAIRS
from hush.engines.sql.render import text_of
from hush.engines.sql.scalars import value_of
from hush.engines.sql.statements import Statements
from hush.engines.sql.texts import like
from hush.engines.sql.values import MAX_TEXT, SqlType, Value
from hush.engines.work import ALONE, HELD, PER_ROW, STORED, TIME, Cost, cost_of
from hush.query.expressions import Column, Op
from hush.query.functions import call, constant
from hush.query.plan import UnplannableError
from hush.query.types import Kind, Type

PUBLIC = pa.table({"c": list(range(4096)), "z": [f"z{at}" for at in range(4096)]})
BUDGET = {"epsilon": 100, "delta": "1e-3"}


def cost(compiled: Statements) -> Cost:
    queries = [statement.query for statement in compiled.statements]
    return cost_of(compiled.plan.exact_query, compiled.rows, queries)


def opened(texts: list[str], *, unit: str | None = "id", rows: int = 1) -> Curator:
    many = len(texts) * rows
    frame = pa.table(
        {
            "id": [at // rows for at in range(many)],
            "t": [text for text in texts for _ in range(rows)],
            "x": [1.0] * many,
        }
    )
    return hush.protect(frame, unit=unit, bounds={"x": (0, 9)}, budget=BUDGET, public={"r": PUBLIC})


def test_no_number_makes_a_function_fail() -> None:
    """DuckDB before 2.0 raises for LN and SQRT of numbers for which they are not defined."""
    with hush.protect(pa.table({"x": [-4.0, 0.0, 4.0]}), bounds={"x": (-9, 9)}, budget=BUDGET) as curator:
        for function in ("SQRT(x)", "LN(x)", "LOG10(x)", "LOG(2, x)", "SQRT(LN(x))", "POWER(x, 0.5)"):
            curator.ask(f"SELECT SUM(CLIP({function}, 0, 3)) AS s FROM data", epsilon=1)


TERMS = {
    "numbers": " + ".join(f"EXP(LN(x + {at}.5))" for at in range(45)),
    "powers": " + ".join(f"POWER(x, {at})" for at in range(2, 90)),
    "joined texts": "LENGTH(CONCAT(" + ", ".join(["t"] * 32) + "))",
    "joined literals": "LENGTH(t || '" + "l" * 20_000 + "' || t)",
    "cases": " + ".join(f"LENGTH(UPPER(t || '{at}'))" for at in range(40)),
    "searches": " + ".join(f"CASE WHEN t ILIKE '%a{at}_b%' THEN 1 ELSE 0 END" for at in range(15)),
    "needles": "CASE WHEN CONTAINS(t, t || 'x') THEN 1 ELSE 0 END",
    "replacing": " + ".join(f"LENGTH(REPLACE(t, 'a{at}', 'b'))" for at in range(30)),
    "splitting": " + ".join(f"LENGTH(SPLIT_PART(t, 'a', {at}))" for at in range(1, 20)),
    "positions": " + ".join(f"STRPOS(t, 'aaaa{at}')" for at in range(30)),
    "times": " + ".join(f"YEAR(STRPTIME(t, '%Y-{at}'))" for at in range(20)),
    "long formats": "LENGTH(STRFTIME(STRPTIME(t, '%Y'), '" + "%A" * 50 + "'))",
    "reading": " + ".join(
        f"CASE WHEN CAST(t AS DATE) = DATE '2020-01-{at:02}' THEN 1 ELSE 0 END" for at in range(1, 29)
    ),
    "doubling": "LENGTH(" + "NULLIF(" * 8 + "t" + "".join(f", '{at}')" for at in range(8)) + ")",
}
SHAPES = {
    "a sum": "SELECT SUM(CLIP({}, 0, 9)) AS s FROM data",
    "medians": "SELECT MEDIAN(CLIP({}, 0, 9)) AS a, QUANTILE(CLIP({}, 0, 9), 0.9) AS b FROM data",
    "private keys": "SELECT t, COUNT(*) AS n FROM data WHERE {} > 0 GROUP BY t",
    "distinct values": "SELECT COUNT(DISTINCT t) AS n FROM data WHERE {} > 0",
    "a public join": "SELECT COUNT(*) AS n FROM data, r WHERE {} > c",
    "a private join": "SELECT COUNT(*) AS n FROM data a JOIN (SELECT id, {} AS y FROM data) b USING (id) WHERE y > 0",
}


@pytest.fixture(scope="module")
def units() -> Curator:
    return opened(["a"])


@pytest.fixture(scope="module")
def alone() -> Curator:
    return opened(["a"], unit=None)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_times_work_is_bounded_or_the_question_refused(term: str, shape: str, units: Curator) -> None:
    """Were it charged without, a unit with 10⁵ rows could take longer than anybody waits."""
    sql = SHAPES[shape].replace("{}", TERMS[term])
    desk, how = units.plan(sql, epsilon=1)
    try:
        compiled = desk.engine.render(how)
    except UnplannableError:
        return
    price, bounds = cost(compiled), compiled.rows.bounds
    assert 0 < price.work <= PER_ROW == TIME // STORED
    assert price.carried <= HELD
    if "join" in shape:
        assert price.counted
        assert STORED <= bounds.pairs <= MOST_PAIRS
        assert bounds.pairs * price.work <= TIME
        assert bounds.pairs * price.carried <= STORED * HELD
        assert f"a unit with more than {bounds.pairs:,} rows after a join is left out of it" in compiled.notes
    if "LENGTH" in TERMS[term] or "t " in sql:
        assert any("texts without declared values" in note for note in compiled.notes) == (bounds.text < MAX_TEXT)


@pytest.mark.parametrize("term", TERMS)
def test_a_row_that_is_a_unit_may_cost_more(term: str, alone: Curator) -> None:
    desk, how = alone.plan(SHAPES["a sum"].replace("{}", TERMS[term]), epsilon=1)
    compiled = desk.engine.render(how)
    assert cost(compiled).work <= ALONE
    assert compiled.rows.bounds.text == MAX_TEXT
    assert compiled.notes == ()


SEARCHES = " OR ".join(f"t ILIKE '%a{at}x%'" for at in range(30))
DERIVED = "REPLACE(" * 12 + "t" + "".join(f", 'q{at}', 'z')" for at in range(12))
LENGTHS = " + ".join(f"LENGTH(UPPER(t || '-{at}'))" for at in range(10))
REPEATED = {
    "searches": f"SELECT COUNT(*) AS n FROM data WHERE {SEARCHES}",
    "searches of every row": f"SELECT SUM(CLIP(CASE WHEN {SEARCHES} THEN 1 ELSE 2 END, 0, 9)) AS s FROM data",
    "searches in a subquery": f"SELECT COUNT_IF(b) AS n FROM (SELECT {SEARCHES} AS b FROM data) q",
    "a derived column": f"SELECT COUNT(*) AS n FROM (SELECT {DERIVED} AS r FROM data) WHERE r LIKE '%a' OR r LIKE 'b%'",
    "a clipped sum": f"SELECT SUM(CLIP({LENGTHS}, 0, 9)) AS s FROM data",
}


def filters(node: dict[str, Any]) -> Iterator[str]:
    """Yield the conditions of an engine's plan."""
    yield str(node.get("extra_info", {}).get("Expression", "")) + str(node.get("extra_info", {}).get("Filters", ""))
    for child in node["children"]:
        yield from filters(child)


@pytest.mark.parametrize("what", REPEATED)
def test_what_is_needed_often_is_computed_once(what: str, units: Curator) -> None:
    """Engines put expressions in place of columns, and compute LOWER(t) for each ILIKE; here they cannot."""
    desk, how = units.plan(REPEATED[what], epsilon=1)
    compiled = desk.engine.prepare(how)
    assert cost(compiled).work <= PER_ROW
    for text in [statement.text for statement in compiled.statements]:
        written = "REPLACE(" if "derived" in what else "UPPER(" if "clipped" in what else "LOWER("
        assert text.count(written) == {"REPLACE(": 12, "UPPER(": 10, "LOWER(": 1}[written]
        ((_, plan),) = run_in(desk.engine, f"EXPLAIN (FORMAT JSON) {text}")
        assert not any(written in test.upper().replace('"', "") for test in filters(json.loads(plan)[0]))


def test_what_is_computed_once_means_the_same() -> None:
    texts = ["", "A1X", "xa29Xy", "ä1x", "b", "-a3x-A4X", "A30X"]
    expected = {
        "searches": 3,
        "searches of every row": 3 * 1 + 4 * 2,
        "searches in a subquery": 3,
        "a derived column": 1,
        "a clipped sum": 7 * 9,
    }
    with opened(texts) as curator:
        for what, sql in REPEATED.items():
            (value,) = exact(curator, sql)
            steps, rest = divmod(value, expected[what])
            assert not rest, what
            assert steps.bit_count() == 1  # sums may be in steps of a power of two


def test_a_condition_costs_what_the_engine_puts_in_place_of_its_columns(units: Curator) -> None:
    value = "EXP(LN(x + 1.5))"

    def work(sql: str) -> int:
        desk, how = units.plan(sql, epsilon=1)
        return cost(desk.engine.render(how)).work

    plain = work(f"SELECT COUNT(*) AS n FROM data WHERE {value} > 3 OR {value} < 2 OR {value} = 2.5")
    nested = f"SELECT COUNT(*) AS n FROM (SELECT {value} AS y FROM data) q WHERE y > 3 OR y < 2 OR y = 2.5"
    assert work(nested) >= plain


def exact(curator: Curator, sql: str) -> list[int]:
    desk, how = curator.plan(sql, epsilon=1)
    (statistic,) = how.exact_query.statistics
    return desk.engine.run(how).statistics[statistic].tolist()


LONG = "ab" * 500_000


@pytest.mark.parametrize("piece", ["t", "t || t", "LOWER(t)", "t || 'x' || t || t", "TRIM(t)", "REPLACE(t, 'ab', 'c')"])
def test_texts_are_cut_where_they_are_read_and_made(piece: str) -> None:
    """A stored text of a million characters; and what is made of it stays short, though it is joined with itself."""
    with opened([LONG]) as curator:
        desk, how = curator.plan(f"SELECT SUM(CLIP(LENGTH({piece}), 0, 10000000)) AS s FROM data", epsilon=1)
        read = desk.engine.prepare(how).rows.bounds.text
        (statistic,) = how.exact_query.statistics
        (length,) = desk.engine.run(how).statistics[statistic]
        whole = eval_length(piece, read)
    assert length == whole


def eval_length(piece: str, read: int) -> int:
    text = LONG[:read]
    made = {
        "t": text,
        "t || t": text + text,
        "LOWER(t)": text,
        "t || 'x' || t || t": text + "x" + text + text,
        "TRIM(t)": text,
        "REPLACE(t, 'ab', 'c')": text.replace("ab", "c"),
    }[piece]
    return min(len(made), MAX_TEXT)


def test_a_unit_with_too_many_rows_after_all_joins_is_left_out() -> None:
    """14 rows in a join of five are fewer pairs than the limit; times a public table they are 2·10⁹ rows."""
    joins = "".join(f" JOIN data t{at} USING (id)" for at in range(4))
    sql = f"SELECT COUNT(*) AS n FROM data d{joins}, r"
    frame = pa.table({"id": [0] * 14 + [1, 1, 2], "x": [1.0] * 17})
    with hush.protect(frame, unit="id", max_rows=2**20, budget=BUDGET, public={"r": PUBLIC}) as curator:
        assert exact(curator, sql) == [min(2**20, (2**5 + 1) * 4096)]
        assert any("left out" in note for note in curator.explain(sql, epsilon=1).caveats)
        (plain,) = exact(curator, "SELECT COUNT(*) AS n FROM data d")
        assert plain == 17
        # its 14 rows alone are few enough, as are its pairs without the public table
        assert exact(curator, "SELECT COUNT(*) AS n FROM data d, r") == [17 * 4096]
        assert exact(curator, f"SELECT COUNT(*) AS n FROM data d{joins}") == [14**5 + 2**5 + 1]


def joins(node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind of every join of an engine's plan, and where its rows come from."""
    kind = node.get("extra_info", {}).get("Join Type")
    if kind is not None:
        yield kind, node["children"][0]
    for child in node["children"]:
        yield from joins(child)


POLICY = """\
[data.shop]
engine = "duckdb"
unit = "id"
budget = { epsilon = "100", delta = "1e-3" }
[data.shop.tables.orders]
source = "orders.parquet"
columns.y = { type = "integer", lower = 0, upper = 9 }
[data.shop.tables.bills]
source = "bills.parquet"
columns.x = { type = "integer", lower = 0, upper = 9 }
[data.shop.tables.lines]
source = "lines.parquet"
unit = "orders via order"
max_rows = 1048576
columns.w = { type = "integer", lower = 0, upper = 9 }
[data.shop.tables.notes]
source = "notes.parquet"
unit = "lines via line"
max_rows = 1048576
columns.z = { type = "integer", lower = 0, upper = 9 }
[analysts.me]
data = ["shop"]
budget = { epsilon = "100", delta = "1e-3" }
"""


def shop(place: Path, **tables: dict[str, Any]) -> Curator:
    empty = {"bills": ["id", "x"], "lines": ["order", "line", "w"], "notes": ["line", "z"]}
    for name, cells in ({name: {label: [0] for label in labels} for name, labels in empty.items()} | tables).items():
        pq.write_table(pa.table(cells), place / f"{name}.parquet")
    (place / "hush.toml").write_text(POLICY, encoding="utf-8")
    return open_policy(place / "hush.toml", create=True)


@pytest.mark.parametrize("rest", ["", " WHERE y = 3", " WHERE x = y", " WHERE x = y AND y = 3"])
def test_the_engine_leaves_heavy_units_out_before_it_pairs_rows(tmp_path: Path, rest: str) -> None:
    """An engine that expects few pairs makes them first, and all those of a heavy unit, if nothing keeps it from it."""
    many = range(20_000)
    orders = {"id": [at % 2000 for at in many], "order": many, "y": [at % 9 for at in many]}
    bills = {"id": range(50), "x": [at % 7 for at in range(50)]}
    with shop(tmp_path, orders=orders, bills=bills) as curator:
        desk, how = curator.plan(f"SELECT COUNT(*) AS n FROM orders JOIN bills USING (id){rest}", epsilon=1)
        compiled = desk.engine.render(how)
        for text in [statement.text for statement in compiled.statements]:
            ((_, plan),) = run_in(desk.engine, f"EXPLAIN (FORMAT JSON) {text}")
            sources = [source for kind, source in joins(json.loads(plan)[0]) if kind == "ANTI"]
            assert len(sources) == 1
            assert not list(joins(sources[0]))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_keys_that_are_not_unique_make_no_more_rows_than_are_stored(tmp_path: Path, kind: pa.DataType) -> None:
    """300 orders, lines and notes with one key are 27 million rows if each is paired with each."""
    same, several = [7] * 300, [7] * 300 + [8, 9]
    orders = {"id": [*same, 8, 8], "order": [*same, 7, 8], "y": [1] * 302}
    lines = {"order": pa.array(several).cast(kind), "line": several, "w": [1] * 302}
    with shop(tmp_path, orders=orders, lines=lines, notes={"line": several, "z": [1] * 302}) as curator:
        # unit 7 has all rows of key 7; unit 8 has them, too, and those of key 8; nobody has those of key 9
        assert exact(curator, "SELECT COUNT(*) AS n FROM lines") == [300 + 301]
        assert exact(curator, "SELECT COUNT(*) AS n FROM notes") == [300 + 301]


@pytest.mark.parametrize("on", ["", " ON c = x"])
def test_public_joins_that_cannot_multiply_count_nothing(on: str) -> None:
    with opened(["a"]) as curator:
        sql = f"SELECT COUNT(*) AS n FROM data JOIN r{on}" if on else "SELECT COUNT(*) AS n FROM data, r"
        desk, how = curator.plan(sql, epsilon=1)
        compiled = desk.engine.render(how)
        assert bool(compiled.rows.bounds.checked) == (not on)
        assert bool(compiled.notes) == (not on)


def test_a_left_join_with_a_public_table_keeps_who_matches_nothing() -> None:
    frame = pa.table({"id": [0, 1, 1], "x": [1.0, 5000.0, 2.0]})
    with hush.protect(
        frame, unit="id", max_rows=2**20, bounds={"x": (0, 9999)}, budget=BUDGET, public={"r": PUBLIC}
    ) as curator:
        sql = "SELECT COUNT(*) AS n FROM data LEFT JOIN r ON c >= x"
        desk, how = curator.plan(sql, epsilon=1)
        assert desk.engine.render(how).rows.bounds.checked
        assert exact(curator, sql) == [4095 + 1 + 4094]


def test_notes_are_the_same_whoever_is_there() -> None:
    sql = "SELECT COUNT(*) AS n FROM data a JOIN data b USING (id), r WHERE a.t LIKE '%x%'"
    seen = set()
    for rows in (1, 60):
        with opened(["x" * (1 if rows == 1 else 9000)] * 2, rows=rows) as curator:
            answer = curator.ask(sql, epsilon="1e-9", fresh=True)
            assert answer.caveats == curator.explain(sql, epsilon="1e-9").caveats
            seen.add(answer.caveats)
    assert len(seen) == 1


TEXT = Column("t", Type(Kind.TEXT, True))


@pytest.mark.parametrize("escape", ["", "!"])
def test_like_is_linear_and_means_the_same(escape: str) -> None:
    """Against the engine's own matcher, on texts that are too short to take it long."""
    rng = Random(1)
    with duckdb.connect() as base:
        base.execute("CREATE TABLE s (t VARCHAR)")
        texts = ["".join(rng.choices("ab%_.\\é\n\U0001f600!(", k=rng.randrange(7))) for _ in range(300)]
        base.executemany("INSERT INTO s VALUES (?)", [[text] for text in texts])
        different = 0
        for _ in range(400):
            pattern = "".join(
                rng.choices(["a", "b", "%", "%", "_", "_", ".", "é", "(", "\\", "^"], k=rng.randrange(1, 7))
            )
            if escape:
                pattern = pattern.replace("a", "!%").replace("b", "!_").replace(".", "!!")
            parts = [TEXT, constant(pattern), *([constant(escape)] if escape else [])]
            value = value_of(call(Op.LIKE, *parts), {"t": Value(column("t", "s"), SqlType.TEXT, most=9)})
            written = text_of(select([value.sql])).removeprefix("SELECT ")
            assert "LIKE_ESCAPE" not in written
            if "REGEXP" not in written:
                assert "_" not in pattern.partition("%")[2]
            different += "REGEXP" in written
            own = "t LIKE $1" + (f" ESCAPE '{escape}'" if escape else "")
            rows = base.execute(
                f"SELECT count(*) FROM s WHERE ({own}) IS DISTINCT FROM ({written})", [pattern]
            ).fetchall()
            assert rows == [(0,)], pattern
        assert different > 40
    assert like.__doc__


def test_a_pattern_that_would_go_back_is_an_automaton() -> None:
    """On older engines this takes 18 seconds for one row, and no interrupt reaches it."""
    with opened(["a" * 180]) as curator:
        sql = "SELECT COUNT_IF(t LIKE '%a_a%a_a%a_a%a_a%b') AS n FROM data"
        desk, how = curator.plan(sql, epsilon=1)
        compiled = desk.engine.render(how)
        texts = [statement.text for statement in compiled.statements]
        assert all("REGEXP_FULL_MATCH" in text and "LIKE" not in text for text in texts)
        assert exact(curator, sql) == [0]
