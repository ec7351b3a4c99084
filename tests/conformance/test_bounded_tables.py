"""Bounded rows that are kept for the next question: the same integers with and without, whatever was asked before."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seams import cache_of, duckdb_engine, hash_key, run_in, set_hash_key, statements_run
from test_sensitivity import Bench, any_matches, integers
from worlds import question, schema, world

from hush.core import HushError, InvalidValueError
from hush.core.storage import parse_size
from hush.curator.opening import protect
from hush.engines.duckdb.cache import Cache
from hush.engines.sql.statements import Statements
from hush.engines.sql_engine import SqlEngine
from hush.query.errors import UnplannableError
from hush.query.plan import plan
from hush.query.plan.plan import Plan
from hush.query.plan.stability import Units
from hush.query.relations import WithWindows, walk
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type

SETTINGS = settings(
    max_examples=int(os.environ.get("HUSH_CASES", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


def forget_results(engine: SqlEngine) -> None:
    """Forget results, but neither bounded rows nor which questions there were."""
    kept = cache_of(engine)._items.items()
    for key in [key for key, (value, *_) in kept if isinstance(value, list)]:
        cache_of(engine)._forget(*cache_of(engine)._items.pop(key))


def tables(engine: SqlEngine) -> list[str]:
    rows = run_in(engine, "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'bounded%' ORDER BY ALL")
    return [row[0] for row in rows]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.engine.close()


SEEN = {"stored": 0, "asked": 0}


@SETTINGS
@given(seed=st.integers(0, 2**63))
def test_stored_rows_give_the_same_integers(bench: Bench, seed: int) -> None:
    rng = Random(seed)
    about = schema(rng)
    try:
        how = plan(question(rng), about, epsilon=1, delta="1e-6", matches=any_matches(rng))
    except HushError:
        return
    try:
        (first,) = bench.runs(how, about, [world(rng)[0]])
    except UnplannableError:  # before any row is read
        return
    if any(isinstance(relation, WithWindows) for relation in walk(how.question.relation)):
        return  # rows that tie in a window's order may come in another order in another statement: SQL leaves it open
    compiled = bench.engine.prepare(how)
    forget_results(bench.engine)
    second = bench.engine.execute(compiled)
    assert integers(first) == integers(second)
    if how.exact_query.limits.units is not Units.ALONE:
        SEEN["asked"] += 1
        SEEN["stored"] += len(tables(bench.engine))


def test_rows_were_stored_indeed() -> None:
    if not SEEN["asked"]:
        pytest.skip("the questions were asked in another process")
    assert SEEN["stored"] == SEEN["asked"]


# questions that share groups

INTEGER = Type(Kind.INTEGER, True, Fraction(0), Fraction(9), Fraction(1))
COLUMNS = {
    "x": replace(INTEGER, lower=Fraction(-5)),
    "y": Type(Kind.DECIMAL, True, Fraction(-2), Fraction(3)),
    "z": Type(Kind.DECIMAL, False, Fraction(1), Fraction(3), Fraction(1, 4)),
    "b": Type(Kind.BOOLEAN, values=(False, True)),
    "city": Type(Kind.TEXT, values=("a", "b", "c", "d")),
    "word": Type(Kind.TEXT),
    "many": Type(Kind.TEXT, values=tuple(f"m{at}" for at in range(40))),
    "day": Type(Kind.DATE, True, Fraction(0), Fraction(30), Fraction(1)),
}
FILTERS = ["", " WHERE x > 0", " WHERE y < 1 AND city <> 'a'", " WHERE word = 'p'"]
KEYS = ["", "city", "word", "city, b", "x"]
AGGREGATES = [
    "COUNT(*)",
    "COUNT(y)",
    "SUM(x)",
    "SUM(y)",
    "SUM(z)",
    "AVG(z)",
    "AVG(x)",
    "VARIANCE(x)",
    "COVAR_POP(x, z)",
    "MEDIAN(x)",
    "MEDIAN(z)",
    "COUNT(DISTINCT id)",
    "COUNT(DISTINCT word)",
    "COUNT(DISTINCT z)",
    "COUNT(*) FILTER (WHERE word = 'q' OR z > 2)",
    "SUM(x) FILTER (WHERE b)",
    "SUM(CLIP(x, 0, 3))",
    "SUM(x * y)",
    "MODE(x)",
    "MODE(z)",
    "MODE(city)",
    "MODE(many)",
    "MODE(day)",
    "MODE(many) FILTER (WHERE x > 0)",
]


def random_rows(rng: Random, size: int) -> pa.Table:
    def cell(*values: object) -> list[object]:
        return [rng.choice(values) for _ in range(size)]

    return pa.table(
        {
            "id": pa.array(cell(None, 1, 2, 3, 4, 5, 6), pa.int64()),
            "x": pa.array(cell(None, -7, -1, 0, 2, 9, 100), pa.int64()),
            "y": pa.array(cell(None, -9.5, 0.1, -0.0, 2.75, float("nan"), float("inf")), pa.float64()),
            "z": pa.array(cell(None, 1.1, 1.25, 2.6, 99.0, float("nan")), pa.float64()),
            "b": pa.array(cell(None, True, False), pa.bool_()),
            "city": pa.array(cell(None, "a", "b", "c", "d", "e"), pa.string()),
            "word": pa.array(cell(None, "p", "q", "r"), pa.string()),
            "many": pa.array(cell(None, "m0", "m1", "m39", "m40", "other"), pa.string()),
            "day": pa.array(cell(None, dt.date(1970, 1, 1), dt.date(1970, 1, 9), dt.date(2024, 1, 1)), pa.date32()),
        }
    )


@SETTINGS
@given(seed=st.integers(0, 2**63))
def test_a_conversation_is_answered_alike_with_and_without(seed: int) -> None:
    rng = Random(seed)
    rows, groups = rng.randint(1, 3), rng.randint(1, 3)
    path = UnitPath(column="id")
    table = Table(name="t", columns=COLUMNS, unit=path, max_rows=rows, max_groups=groups)
    about = Schema(data="d", tables={"t": table}, unit="id")
    data = random_rows(rng, rng.randint(0, 60))
    keep, filters = rng.sample(KEYS, 2), rng.sample(FILTERS, 2)
    with (
        duckdb_engine(about, {"t": data}, threads=1) as kept,
        duckdb_engine(about, {"t": data}, threads=1, cache="0") as plain,
    ):
        set_hash_key(plain, hash_key(kept))
        for _ in range(8):
            keys, wanted = rng.choice(keep), rng.sample(AGGREGATES, rng.randint(1, 3))
            picked = ", ".join([*([keys] if keys else []), *(f"{item} AS a{at}" for at, item in enumerate(wanted))])
            sql = f"SELECT {picked} FROM t{rng.choice(filters)}" + (f" GROUP BY {keys}" if keys else "")
            how = plan(parse(sql, about), about, epsilon=1, delta="1e-6")
            assert integers(kept.run(how)) == integers(plain.run(how)), sql
        assert not tables(plain)


# what is kept, and how long

FRAME = pa.table(
    {
        "id": [at // 4 for at in range(400)],
        "city": ["abcd"[at % 3] for at in range(400)],
        "x": [at % 10 for at in range(400)],
        "y": [at / 8 for at in range(400)],
        "word": ["w"] * 400,
    }
)
OPTIONS = {
    "unit": "id",
    "bounds": {"x": (0, 9), "y": (0, 50, "0.125")},
    "values": {"city": ["a", "b", "c", "d"]},
    "budget": {"epsilon": 1000, "delta": "1e-6"},
    "max_rows": 2,
    "max_groups": 2,
}


def compiled(curator, sql: str) -> tuple[SqlEngine, Statements, Plan]:
    desk, how = curator.plan(sql, epsilon=1)
    return desk.engine, desk.engine.prepare(how), how


def ask(curator, what: str, rest: str = "") -> list[int]:
    engine, statements, how = compiled(curator, f"SELECT city, {what} AS a FROM data{rest} GROUP BY city")
    return engine.execute(statements).statistics[how.exact_query.statistics[0]].tolist()


def test_the_second_question_stores_rows_and_later_ones_read_them(monkeypatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        engine = curator.data_sets["data"].engine
        ask(curator, "COUNT(*)")
        assert tables(engine) == []
        ask(curator, "SUM(x)")
        assert tables(engine) == ["bounded_1"]
        run = statements_run(monkeypatch)
        ask(curator, "SUM(y)")  # a column that nobody had asked for
        ask(curator, "AVG(y)")
        read = [text for text in run if not text.startswith("PREPARE")]
        assert len(read) == 2
        assert all("bounded_1" in text and "table_0" not in text for text in read)


def test_other_groups_share_nothing() -> None:
    with protect(FRAME, **OPTIONS) as curator:
        engine = curator.data_sets["data"].engine
        for rest in ("", " WHERE x > 3", " WHERE x > 4", " WHERE x > 3 AND y < 9"):
            ask(curator, "COUNT(*)", rest)
        assert tables(engine) == []


def test_a_changed_file_is_read_anew(tmp_path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(FRAME, path)
    with protect(path, **OPTIONS) as curator:
        for what in ("COUNT(*)", "SUM(x)", "SUM(y)"):
            before = ask(curator, what)
        assert sum(before) > 0
        pq.write_table(FRAME.slice(0, 0), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(path)
        for what in ("COUNT(*)", "SUM(x)", "SUM(y)", "AVG(y)"):
            assert sum(ask(curator, what)) == 0


def test_a_table_that_would_not_fit_is_not_stored() -> None:
    about = Schema(
        data="d", tables={"t": Table(name="t", columns={"x": INTEGER}, unit=UnitPath(column="id"), max_rows=9)}
    )
    with duckdb_engine(about, {"t": FRAME}, cache="1KB") as engine:
        for what in ("COUNT(*)", "SUM(x)", "AVG(x)", "VARIANCE(x)"):
            engine.run(plan(parse(f"SELECT {what} AS a FROM t", about), about, epsilon=1))
        assert tables(engine) == []
        assert cache_of(engine).size <= 1000


def test_what_was_used_least_recently_goes_first() -> None:
    dropped: list[str] = []
    cache = Cache(100, dropped.append)
    for at in range(3):
        cache.put(at, at, 40, table=f"t{at}")
        cache.get(0)
    assert dropped == ["t1"]
    assert cache.size == 80
    cache.put(9, 9, 101, table="large")
    assert (cache.get(9), cache.get(0)) == (None, 0)
    cache.put(3, 3, 90)
    assert dropped == ["t1", "large", "t2", "t0"]
    assert cache.size == 90


def test_a_failure_of_the_stored_table_is_not_the_question_s(monkeypatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        engine = curator.data_sets["data"].engine
        expected = [ask(curator, what) for what in ("COUNT(*)", "SUM(x)", "SUM(y)")]
        forget_results(engine)
        run_in(engine, 'DROP TABLE "bounded_1"')
        assert [ask(curator, what) for what in ("COUNT(*)", "SUM(x)", "SUM(y)")] == expected
        cache_of(engine)._items.clear()
        monkeypatch.setattr(engine.connection._bounded, "_store", lambda *_: 1 / 0)
        assert [ask(curator, what) for what in ("SUM(y)", "COUNT(*)", "SUM(x)")] == [expected[at] for at in (2, 0, 1)]


def test_many_threads_ask_and_nothing_is_dropped_under_them() -> None:
    questions = [f"SELECT city, {what} AS a FROM data GROUP BY city" for what in ("COUNT(*)", "SUM(x)", "SUM(y)")]
    questions += [f"SELECT {what} AS a FROM data" for what in ("COUNT(*)", "SUM(x)", "SUM(y)")]
    about = {}
    failures: list[BaseException] = []
    with protect(FRAME, **OPTIONS) as curator:
        engine = curator.data_sets["data"].engine
        for sql in questions:
            _, statements, _ = compiled(curator, sql)
            about[sql] = (statements, integers(engine.execute(statements)))
        engine.connection.forget()
        cache_of(engine).limit = 30_000

        def work(seed: int) -> None:
            rng = Random(seed)
            try:
                for _ in range(40):
                    sql = rng.choice(questions)
                    assert integers(engine.execute(about[sql][0])) == about[sql][1]
                    if rng.random() < 0.2:
                        engine.connection.forget()
            except BaseException as error:  # noqa: BLE001 - reported below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


@pytest.mark.parametrize("text", ["", "many", "-1MB", "1 XB", "1e9", "MB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidValueError, match="cache"):
        parse_size(text)
