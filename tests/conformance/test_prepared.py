"""The engine resolves statements before the charge, those of one shape once; they run after it, on files as then."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from seams import statements_run

from hush.curator.opening import protect
from hush.engines.duckdb.connection import DuckDBSession
from hush.engines.errors import EngineError
from hush.query.plan import UnplannableError

FRAME = pa.table({"id": list(range(100)), "x": [1.0] * 100})
OPTIONS = {"unit": "id", "bounds": {"x": (0, 2)}, "budget": 100}
QUESTION = "SELECT SUM(x) AS s, MEDIAN(x) AS m FROM data"


def test_a_shape_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        run = statements_run(monkeypatch)
        curator.ask(QUESTION, epsilon=1, fresh=True)
        assert [text.split()[0] for text in run] == ["PREPARE"] * 2 + ["SELECT"] * 2
        run.clear()
        curator.ask(QUESTION, epsilon=1, fresh=True)  # what is kept is not even run
        assert run == []
        new = ["PREPARE", "SELECT"]
        for limit, words in ((1, new), (0.5, new), (0.25, ["SELECT"])):
            curator.ask(f"SELECT COUNT(*) AS n FROM data WHERE x > {limit}", epsilon=1, fresh=True)
            assert [text.split()[0] for text in run] == words, limit  # a whole number is of another shape
            run.clear()


def test_texts_are_part_of_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.table({"id": list(range(100)), "word": ["a", "b"] * 50})
    with protect(frame, unit="id", budget=100) as curator:
        curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1, fresh=True)
        run = statements_run(monkeypatch)
        for word in "aab":
            curator.ask("SELECT COUNT(*) AS n FROM data WHERE word = ?", [word], epsilon=1, fresh=True)
        assert [text.split()[0] for text in run] == ["PREPARE", "SELECT"] * 2


def test_private_keys_are_resolved_with_what_runs_once_they_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = FRAME.append_column("k", pa.array(["odd", "even"] * 50))
    with protect(frame, unit="id", bounds={"x": (0, 2)}, budget={"epsilon": 100, "delta": "1e-3"}) as curator:
        run = statements_run(monkeypatch)
        for limit in (0.5, 0.25):
            curator.ask(f"SELECT k, MEDIAN(x) AS m FROM data WHERE x > {limit} GROUP BY k", epsilon=50, fresh=True)
        assert sum(text.startswith("PREPARE") for text in run) == 2


@pytest.mark.parametrize("rest", ["", " WHERE a.x > 1.5", " JOIN data AS b ON a.id = b.id"])
def test_statements_for_any_number_of_rows_are_resolved(monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        run = statements_run(monkeypatch)
        curator.ask(f"SELECT SUM(a.x) AS s, MEDIAN(a.x) AS m FROM data AS a{rest}", epsilon=1, fresh=True)
        assert sum(text.startswith("PREPARE") for text in run) == 2


def test_what_the_engine_cannot_plan_is_refused_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        execute = DuckDBSession.execute

        def refuse(talk: DuckDBSession, text: str) -> object:
            if text.startswith("PREPARE"):
                raise EngineError
            return execute(talk, text)

        monkeypatch.setattr(DuckDBSession, "execute", refuse)
        with pytest.raises(UnplannableError, match="nothing was charged"):
            curator.ask(QUESTION, epsilon=1, fresh=True)
        assert curator.history() == []


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_changes_after_the_plan_is_read_as_it_is(tmp_path, again: bool) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(FRAME, path)
    with protect(path, **OPTIONS) as curator:
        desk, how = curator.plan("SELECT COUNT(*) AS n FROM data", epsilon=1)
        compiled = desk.engine.prepare(how)
        (statistic,) = how.exact_query.statistics
        if again:
            assert desk.engine.execute(compiled).statistics[statistic].tolist() == [100]
        pq.write_table(FRAME.slice(0, 7), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(path)
        for _ in range(2):
            assert desk.engine.execute(compiled).statistics[statistic].tolist() == [7]
