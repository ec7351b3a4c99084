"""Private keys: what is fetched of chosen groups is what all groups have, and nothing else leaves the engine."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from seams import cache_of, hash_key, run_in, set_hash_key

from hush.curator.curator import Curator
from hush.curator.opening import protect
from hush.curator.release import KeySelector, release
from hush.engines.duckdb import connection as private
from hush.engines.errors import EngineError
from hush.engines.protocol import Choose, Exact
from hush.engines.sql.render import Statement, plain
from hush.mechanisms.grouped import KeySelection, KeyThreshold

STREETS = ["a", "b", "é", "", None, "zz"]
FLOORS = [1, 2, None]
SQL = {
    "counts and means": "SELECT street, COUNT(*) AS n, AVG(age) AS m, SUM(age) AS s FROM data GROUP BY street",
    "quantiles": "SELECT street, MEDIAN(age) AS m, MAX(age) AS x, COUNT(DISTINCT unit_id) AS u FROM data GROUP BY 1",
    "distinct values": "SELECT street, COUNT(DISTINCT age) AS d, VARIANCE(age) AS v FROM data GROUP BY street",
    "two columns": "SELECT street, floor, COUNT(*) AS n, MEDIAN(age) AS m FROM data GROUP BY street, floor",
    "an expression": "SELECT street || '!' AS k, COUNT(*) AS n, MODE(colour) AS c FROM data GROUP BY street || '!'",
    "a filter": "SELECT street, MEDIAN(age) FILTER (WHERE age > 5) AS m FROM data WHERE age <> 7 GROUP BY street",
    "a join": (
        "SELECT a.street, MEDIAN(b.age) AS m, COUNT(*) AS n FROM data AS a JOIN data AS b ON a.unit_id = b.unit_id "
        "GROUP BY a.street"
    ),
    "a subquery": (
        "SELECT n, MEDIAN(oldest) AS m, COUNT(*) AS c FROM "
        "(SELECT unit_id, COUNT(*) AS n, MAX(age) AS oldest FROM data GROUP BY unit_id) AS t GROUP BY n"
    ),
}


def rows(seed: int = 1, size: int = 300) -> pa.Table:
    rng = Random(seed)
    return pa.table(
        {
            "unit_id": pa.array([rng.randrange(60) for _ in range(size)], pa.int64()),
            "street": pa.array([rng.choice(STREETS) for _ in range(size)], pa.string()),
            "floor": pa.array([rng.choice(FLOORS) for _ in range(size)], pa.int64()),
            "age": pa.array([rng.randrange(20) for _ in range(size)], pa.int64()),
            "colour": pa.array([rng.choice(["red", "blue"]) for _ in range(size)], pa.string()),
        }
    )


def made(table: pa.Table | None = None, *, groups: int = 3, **options: Any) -> Curator:
    given: dict[str, Any] = {
        "unit": "unit_id",
        "bounds": {"age": (0, 20)},
        "values": {"colour": ["red", "blue"]},
        "budget": {"epsilon": 10**6, "delta": "0.1"},
        "max_groups": groups,
        "max_rows": 2,
    }
    return protect(rows() if table is None else table, **{**given, **options})


def planned(curator: Curator, sql: str) -> tuple[Any, Any]:
    desk, how = curator.plan(sql, epsilon=5)
    return desk.engine, how


def by_key(exact: Exact) -> dict[Any, Any]:
    found = {}
    for at, key in enumerate(exact.keys):
        bins = [
            (one[at].bins.tolist(), one[at].weights.tolist(), None if one[at].cells is None else one[at].cells.tolist())
            for one in exact.histograms
        ]
        units = None if exact.units is None else int(exact.units[at])
        found[tuple(key)] = (units, [values.tolist()[at] for values in exact.statistics.values()], bins)
    assert len(found) == len(exact.keys)
    return found


CASES = [
    pytest.param(sql, unit, id=f"{label}-{unit}")
    for label, sql in SQL.items()
    for unit in ("unit_id", None)
    if unit or "unit_id" not in sql  # without units there are none to join or to count
]


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("sql", "unit"), CASES)
def test_chosen_groups_have_the_integers_that_all_groups_have(sql: str, groups: int, unit: str | None) -> None:
    with made(groups=groups, unit=unit) as curator:
        engine, how = planned(curator, sql)
        assert how.selection is not None
        everything = by_key(engine.run(how))
        offered: list[int] = []

        def some(units: np.ndarray) -> np.ndarray:
            offered.extend(units.tolist())
            return np.arange(len(units)) % 2 == 1

        for _ in range(3):  # from the tables, and from bounded rows
            offered.clear()
            chosen = by_key(engine.run(how, some))
            assert sorted(offered) == sorted(units for units, _, _ in everything.values())
            assert len(chosen) == len(everything) // 2
            assert chosen.items() <= everything.items()
        assert by_key(engine.run(how, lambda units: np.zeros(len(units), dtype=bool))) == {}
        engine.connection.forget()
        assert by_key(engine.run(how)) == everything


@pytest.mark.parametrize("sql", [SQL["counts and means"], SQL["quantiles"], SQL["distinct values"]])
def test_private_and_public_keys_have_the_same_integers(sql: str) -> None:
    """A unit has at most six streets, so that no order of them matters."""
    declared = {"colour": ["red", "blue"], "street": [street for street in STREETS if street is not None]}
    sql = sql.replace(" GROUP BY", " WHERE street IS NOT NULL GROUP BY")
    with made(groups=6) as one, made(groups=6, values=declared) as other:
        set_hash_key(
            other.data_sets["data"].engine, hash_key(one.data_sets["data"].engine)
        )  # one order of distinct values
        engine, how = planned(one, sql)
        mine = by_key(engine.run(how))
        engine, how = planned(other, sql)
        assert how.selection is None
        theirs = by_key(engine.run(how))
    assert {key: found[1:] for key, found in mine.items()} == {key: found[1:] for key, found in theirs.items()}
    assert len(mine) == 5


def test_groups_are_offered_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as curator:
        engine, how = planned(curator, SQL["two columns"])
        everything = by_key(engine.run(how))
        monkeypatch.setattr(private, "_AT_ONCE", 4)
        sizes = []

        def every(units: np.ndarray) -> np.ndarray:
            sizes.append(len(units))
            return np.ones(len(units), dtype=bool)

        assert by_key(engine.run(how, every)) == everything
    assert max(sizes) <= 4
    assert sum(sizes) == len(everything) > 8


@pytest.mark.parametrize("seed", range(3))
def test_keys_come_in_their_own_order_whatever_the_rows_order(seed: int) -> None:
    table = rows()
    shuffled = table.take(Random(seed).sample(range(len(table)), len(table)))
    with made(shuffled) as curator:
        answer = curator.ask("SELECT street, COUNT(*) AS n FROM data GROUP BY street", epsilon=10**4, fresh=True)
        assert answer.columns[0].values == ("", "a", "b", "zz", "é", None)
        pairs = curator.ask(
            "SELECT street, floor, COUNT(*) AS n FROM data GROUP BY street, floor", epsilon=10**5, fresh=True
        )
        found = list(zip(pairs.columns[0].values, pairs.columns[1].values, strict=True))
        assert found == [(street, floor) for street in ("", "a", "b", "zz", "é", None) for floor in (1, 2, None)]


def test_an_engine_that_does_not_ask_has_nothing_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as curator:
        engine, how = planned(curator, SQL["counts and means"])
        for selector in (None, KeySelector.of(how)):
            with pytest.raises(RuntimeError):
                release(how, engine.run(how), selector)
        # nor one that returns what it was told not to
        for mechanism in (KeySelection, KeyThreshold):
            monkeypatch.setattr(mechanism, "release", lambda _, units: np.zeros(len(units), dtype=bool))
        selector = KeySelector.of(how)
        engine.run(how, selector)
        with pytest.raises(RuntimeError):
            release(how, engine.run(how), selector)


def left(engine: Any) -> list[tuple[Any, ...]]:
    return run_in(engine, "SELECT table_name FROM duckdb_tables() WHERE table_name NOT LIKE 'table%' ORDER BY ALL")


def test_nothing_is_left_of_groups_even_if_choosing_fails() -> None:
    def broken(_: np.ndarray) -> np.ndarray:
        raise ValueError("no")

    with made() as curator:
        engine, how = planned(curator, SQL["quantiles"])
        cache_of(engine).limit = 0
        assert len(engine.run(how).keys) == 6
        with pytest.raises(ValueError, match="no"):
            engine.run(how, broken)
        assert left(engine) == []


def test_groups_are_made_anew_where_the_statement_over_stored_rows_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as curator:
        engine, how = planned(curator, SQL["quantiles"])
        everything = by_key(engine.run(how))
        over_stored_rows = type(engine.connection)._over_stored_rows
        tried = []

        def failing(self: Any, *arguments: Any) -> tuple[dict[str, Statement], Any]:
            texts, demand = over_stored_rows(self, *arguments)
            tried.extend(texts)
            return dict.fromkeys(tried, plain("SELECT no_such_column")), demand

        monkeypatch.setattr(type(engine.connection), "_over_stored_rows", failing)
        assert by_key(engine.run(how)) == everything
        assert tried


def test_questions_with_private_keys_at_the_same_time() -> None:
    with made() as curator:
        plans = [planned(curator, sql) for sql in SQL.values()] * 2
        alone = [by_key(engine.run(how)) for engine, how in plans]
        plans[0][0].connection.forget()
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda pair: by_key(pair[0].run(pair[1])), plans))
        assert together == alone


def test_private_keys_need_neither_pandas_nor_arrow(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,street\n" + "".join(f"{at},{'ab'[at % 2]}\n" for at in range(2000)))
    program = (
        "import sys\n"
        "sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "import hush\n"
        f"with hush.protect({str(path)!r}, unit='id', budget={{'epsilon': 10, 'delta': '0.01'}}) as curator:\n"
        "    answer = curator.ask('SELECT street, COUNT(*) AS n FROM data GROUP BY street', epsilon=5)\n"
        "print(*answer.columns[0].values)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["a", "b"]


def test_one_more_unit_changes_what_is_offered_by_one_at_most() -> None:
    """Neighbours differ in ``max_groups`` groups, by one unit each, whatever was chosen before."""
    table = rows()
    fewer = table.filter(pa.array([unit != 7 for unit in table["unit_id"].to_pylist()]))
    sql = "SELECT street, COUNT(*) AS n FROM data GROUP BY street"
    with made(table, groups=2) as one, made(fewer, groups=2) as other:
        set_hash_key(
            other.data_sets["data"].engine, hash_key(one.data_sets["data"].engine)
        )  # one order of each unit's groups
        found = []
        for curator in (one, other):
            engine, how = planned(curator, sql)
            found.append({key: units for key, (units, _, _) in by_key(engine.run(how)).items()})
    changes = [found[0].get(key, 0) - found[1].get(key, 0) for key in found[0].keys() | found[1].keys()]
    assert sorted(changes)[-2:] == [1, 1]
    assert sum(map(abs, changes)) == 2


def test_a_failure_while_choosing_is_charged_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Choose:
        raise ValueError("the key 'zz' is broken")

    for mechanism in (KeySelection, KeyThreshold):
        monkeypatch.setattr(mechanism, "release", broken)
    with made() as curator:
        with pytest.raises(EngineError) as caught:
            curator.ask(SQL["counts and means"], epsilon=1, fresh=True)
        assert "zz" not in str(caught.value)
        assert curator.budget()[0].spent.epsilon > 0


def test_neither_kept_nor_chosen_groups_depend_on_the_choice() -> None:
    """The bounded rows of a unit are cut before keys are chosen: dropping a key gives nobody a further group."""
    with made(groups=1) as curator:
        engine, how = planned(curator, SQL["quantiles"])
        everything = by_key(engine.run(how))
        size = len(everything)
        for at in range(size):
            engine.connection.forget()
            chosen = by_key(engine.run(how, lambda units, at=at: np.arange(len(units)) != at))
            assert chosen.items() <= everything.items()
            assert len(chosen) == size - 1
