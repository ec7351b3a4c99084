"""Statements are written character by character as sqlglot writes them, whatever the question."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from test_sensitivity import Bench, from_text, from_tree

from hush.core import HushError
from hush.engines import axes, fanout
from hush.engines.compiled import Statement
from hush.engines.sql import writing
from hush.engines.sql.build import binary, column, integer, select, text
from hush.engines.sql.writing import Texts, written
from hush.query.plan.errors import UnplannableError

DONE = {"asked": 0, "compared": 0}


def compared(query: exp.Select, texts: Texts | None = None) -> str:
    mine = (texts or Texts()).of(query)
    assert mine == query.sql("duckdb")
    DONE["compared"] += 1
    return mine


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    with pytest.MonkeyPatch.context() as patch:
        of = Statement.of
        patch.setattr(Statement, "of", lambda query, texts: (compared(query, texts), of(query, texts))[1])
        for module in (axes, fanout):
            patch.setattr(module, "written", compared)
        yield made
    made.engine.close()


@pytest.mark.parametrize("kind", ["tree", "text"])
@settings(
    max_examples=int(os.environ.get("HUSH_CASES", "100")),
    suppress_health_check=list(HealthCheck),
    database=None,
    deadline=None,
)
@given(seed=st.integers(0, 2**63))
def test_statements_are_written_as_sqlglot_writes_them(bench: Bench, kind: str, seed: int) -> None:
    rng = Random(seed)
    DONE["asked"] += 1
    try:
        how, about = from_tree(rng) if kind == "tree" else from_text(rng)
        object.__setattr__(bench.engine._catalogue, "schema", about)
        bench.engine.compile(how)
    except HushError:
        return


def test_enough_were_compared() -> None:
    assert 2 * DONE["compared"] >= DONE["asked"]


@pytest.mark.parametrize(
    "word", ["'", "''", '"', "\\", "\\'", "\n", "é", "💥", "%", "$$", "--", "/* */", ";", "\t", "'; --"]
)
def test_constants_and_names_are_escaped(word: str) -> None:
    compared(
        select(
            [text(word), column(word, word)],
            exp.Table(
                this=exp.to_identifier(word, quoted=True),
                alias=exp.TableAlias(this=exp.to_identifier("t", quoted=True)),
            ),
        )
    )


def test_what_multiplies_without_end_is_refused() -> None:
    value = column("x", "t")
    for _ in range(100):  # 2¹⁰⁰ places, 100 nodes
        value = binary(exp.Add, value, value)
    with pytest.raises(UnplannableError, match="too large"):
        written(value)


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        written(exp.Lateral(this=integer(1)))
    assert exp.Lateral not in writing._WRITERS
