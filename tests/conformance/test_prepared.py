"""Statements are planned once, before the charge, and run after it; a plan that does not fit the files is not used."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.curator.opening import protect
from hush.engines.errors import EngineError
from hush.engines.session import Session
from hush.query.plan import UnplannableError

FRAME = pa.table({"id": list(range(100)), "x": [1.0] * 100})
OPTIONS = {"unit": "id", "bounds": {"x": (0, 2)}, "budget": 100}
QUESTION = "SELECT SUM(x) AS s, MEDIAN(x) AS m FROM data"


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    run: list[str] = []
    execute = Session.execute
    monkeypatch.setattr(Session, "execute", lambda talk, text: run.append(text) or execute(talk, text))
    return run


def test_a_statement_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        run = watched(monkeypatch)
        curator.ask(QUESTION, epsilon=1)
        assert [text.split()[0] for text in run] == ["PREPARE", "PREPARE", "EXECUTE", "EXECUTE"]
        run.clear()
        curator.ask(QUESTION, epsilon=1)  # what is kept needs no plan either
        assert run == []


def test_what_the_engine_cannot_plan_is_refused_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    with protect(FRAME, **OPTIONS) as curator:
        execute = Session.execute

        def refuse(talk: Session, text: str) -> object:
            if text.startswith("PREPARE"):
                raise EngineError
            return execute(talk, text)

        monkeypatch.setattr(Session, "execute", refuse)
        with pytest.raises(UnplannableError, match="nothing was charged"):
            curator.ask(QUESTION, epsilon=1)
        assert curator.history() == []


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_changes_after_the_plan_is_read_as_it_is(tmp_path, again: bool) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(FRAME, path)
    with protect(path, **OPTIONS) as curator:
        desk, how = curator._plan("SELECT COUNT(*) AS n FROM data", epsilon=1)
        compiled = desk.engine.compile(how)
        assert len(compiled.prepared) == 1
        (statistic,) = how.extraction.statistics
        if again:
            assert desk.engine.execute(compiled).statistics[statistic] == [100]
        pq.write_table(FRAME.slice(0, 7), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(path)
        for _ in range(2):
            assert desk.engine.execute(compiled).statistics[statistic] == [7]
