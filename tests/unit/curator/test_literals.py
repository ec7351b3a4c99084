"""Values that analysts write reach the engine as values, whatever they contain."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.curator.opening import protect
from hush.engines.sql.nodes import column, integer, select, text
from hush.engines.sql.render import text_of

NASTY = [
    "'",
    "''",
    "\\",
    "\\'",
    "a\nb",
    "x'; DROP TABLE t; --",
    "%",
    "$1",
    "?",
    "é\u2028",
    '"',
    "/*",
    "--",
    "{{x}}",
    "\x01",
]


@pytest.fixture(scope="module")
def connection():
    import duckdb

    made = duckdb.connect()
    yield made
    made.close()


@settings(max_examples=200, deadline=None)
@given(
    value=st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20))
)
def test_text_constants_survive(connection, value: str) -> None:
    assert connection.execute(text_of(select([text(value)]))).fetchall() == [(value,)]


@settings(max_examples=100, deadline=None)
@given(label=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=12))
def test_names_survive(connection, label: str) -> None:
    statement = select([column(label, "t")], select([integer(7).alias(label)]))
    assert connection.execute(text_of(statement)).fetchall() == [(7,)]


@pytest.mark.parametrize("value", NASTY)
def test_keys_and_parameters(value: str) -> None:
    frame = pa.table({"id": [1, 2, 3], "name": [value, value, "other"]})
    with protect(frame, unit="id", values={"name": [value, "other"]}, budget=1000) as curator:
        answer = curator.ask("SELECT name, COUNT(*) AS n FROM data GROUP BY name", epsilon=100)
        assert answer.columns[0].values == (value, "other")
        assert answer.columns[1].values == (2, 1)
        asked = curator.ask("SELECT COUNT(*) FROM data WHERE name = ?", [value], epsilon=100)
        assert asked.value() == 2
