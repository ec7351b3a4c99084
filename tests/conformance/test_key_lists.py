"""Lists of public keys inside the engine: kept within the cache's limit, never dropped under a question."""

from __future__ import annotations

import gc
import threading

import pyarrow as pa
import pytest
from seams import cache_of, run_in

import hush
from hush.curator.curator import Curator
from hush.engines.duckdb.cache import Cache
from hush.engines.sql_engine import SqlEngine

WORDS = [f"w{at}" for at in range(40)]
ROWS = pa.table({"id": list(range(400)), "g": WORDS * 10})


def lists(engine: SqlEngine) -> list[str]:
    rows = run_in(engine, "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'list%' ORDER BY ALL")
    return [row[0] for row in rows]


def desk() -> Curator:
    return hush.protect(ROWS, values={"g": WORDS}, budget="1e9")


def limited(curator: Curator, limit: int) -> SqlEngine:
    engine = curator.data_sets["data"].engine
    cache_of(engine).limit = limit
    return engine


def ask(curator: Curator, first: int) -> list[int]:
    """Ask with a list of keys of its own."""
    keys = ", ".join(f"'{word}'" for word in WORDS[first : first + 3])
    sql = f"SELECT g, COUNT(*) AS n FROM data WHERE g IN ({keys}) GROUP BY g"
    return curator.ask(sql, epsilon=1000, fresh=True).table["n"].to_pylist()


@pytest.mark.parametrize(("limit", "most"), [(0, 0), (9000, 1), (100_000, 12)])
def test_lists_stay_within_the_limit(limit: int, most: int) -> None:
    with desk() as curator:
        engine = limited(curator, limit)
        for _ in range(2):
            for first in range(13):
                assert ask(curator, first) == [10, 10, 10]
                gc.collect()
                assert len(lists(engine)) <= most
        assert cache_of(engine).size <= limit


def test_a_list_serves_the_next_question_and_is_dropped_with_all_else() -> None:
    with desk() as curator:
        engine = limited(curator, 10**6)
        for _ in range(3):
            assert ask(curator, 0) == [10, 10, 10]
            assert lists(engine) == [f"list_{0:015}"]
        engine.connection.forget()
        assert lists(engine) == []
        assert ask(curator, 0) == [10, 10, 10]
        assert lists(engine) == [f"list_{1:015}"]  # results are found by the text of statements: no name twice


@pytest.mark.parametrize("limit", [0, 10**6])
def test_a_compiled_question_holds_its_lists(limit: int) -> None:
    with desk() as curator:
        engine = limited(curator, limit)
        sql = "SELECT g, COUNT(*) AS n FROM data GROUP BY g"
        _, how = curator.plan(sql, epsilon=1)
        compiled = engine.prepare(how)
        engine.connection.forget()
        ask(curator, 3)
        exact = engine.execute(compiled)
        assert next(iter(exact.statistics.values())).tolist() == [10] * 40
        name = lists(engine)[0]
        del compiled
        gc.collect()
        assert name not in lists(engine)


def test_many_at_once() -> None:
    """Lists come and go while others ask: every answer is right."""
    with desk() as curator:
        engine = limited(curator, 20_000)
        wrong: list[object] = []

        def work(start: int) -> None:
            for at in range(15):
                try:
                    found = ask(curator, (start + at) % 30)
                except Exception as error:  # noqa: BLE001 - it is judged below
                    wrong.append(error)
                else:
                    wrong.extend([found] if found != [10, 10, 10] else [])

        workers = [threading.Thread(target=work, args=(start,)) for start in (0, 1, 7, 8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert wrong == []
        gc.collect()
        assert len(lists(engine)) <= 2


def test_closing_while_a_question_is_held_drops_nothing_twice() -> None:
    curator = desk()
    engine = limited(curator, 0)
    sql = "SELECT g, COUNT(*) AS n FROM data GROUP BY g"
    _, how = curator.plan(sql, epsilon=1)
    compiled = engine.prepare(how)
    curator.close()
    del compiled  # an error here would be a warning, hence a failure
    gc.collect()
    assert isinstance(cache_of(engine), Cache)
