"""One person's row must not decide whether a question is answered: joins that multiply it without end are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import hush
from hush.engines.errors import EngineError
from hush.engines.work import MAX_FANOUT
from hush.query.plan import UnplannableError

PUBLIC = pa.table(
    {"c": list(range(1000)), "twice": [at // 2 for at in range(1000)], "z": [f"{at}" for at in range(1000)]}
)
TARGET = "d.name = 'p7' AND d.sick"


def asked(sql: str, *, sick: bool) -> str:
    """Return what an analyst sees, at a price at which answers tell nothing."""
    rows = {
        "name": [f"p{at}" for at in range(50)],
        "sick": [at == 7 and sick for at in range(50)],
        "x": list(range(50)),
    }
    with hush.protect(pa.table(rows), bounds={"x": (0, 99)}, budget=1, public={"r": PUBLIC}) as curator:
        curator.data_sets["data"].engine.connection._timeout = 5
        try:
            curator.ask(sql, epsilon="1e-9", fresh=True)
        except (UnplannableError, EngineError):
            return "failed" if curator.history() else "refused"
        return "answered"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) AS n FROM data d, r a, r b, r e, r f WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d, (SELECT a.c FROM r a, r b, r e, r f) q WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d JOIN r a ON d.x = a.c * 0 JOIN r b ON d.x = b.c - b.c WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d LEFT JOIN r a ON a.c >= d.x LEFT JOIN r b ON b.c >= d.x WHERE {TARGET}",
        f"SELECT SUM(CLIP(c, 0, 9)) AS n FROM (SELECT a.c FROM data d, r a, r b WHERE {TARGET}) q",
        "SELECT COUNT(*) AS n FROM (SELECT d.sick, d.name FROM data d, r a) d, r b WHERE d.name = 'p7' AND d.sick",
    ],
)
def test_rows_that_public_tables_multiply_are_refused_whoever_is_there(sql: str) -> None:
    assert [asked(sql, sick=sick) for sick in (False, True)] == ["refused"] * 2


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) AS n FROM data d JOIN r a ON d.x = a.c JOIN r b ON a.z = b.z WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d JOIN r a ON d.x = a.twice JOIN r b ON a.c = b.twice WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d, r a WHERE {TARGET}",
        f"SELECT COUNT(*) AS n FROM data d JOIN r a ON a.c BETWEEN d.x AND d.x + 6 WHERE {TARGET}",
    ],
)
def test_joins_that_multiply_little_are_answered(sql: str) -> None:
    assert len(PUBLIC) < MAX_FANOUT
    assert [asked(sql, sick=sick) for sick in (False, True)] == ["answered"] * 2


def test_rows_that_a_unit_multiplies_by_itself_do_not_decide() -> None:
    seen = []
    for sick in (False, True):
        rows = {"id": [at // 200 for at in range(2000)], "sick": [at < 200 and sick for at in range(2000)]}
        with hush.protect(pa.table(rows), unit="id", budget=1) as curator:
            curator.data_sets["data"].engine.connection._timeout = 3
            joins = "".join(f" JOIN data t{at} USING (id)" for at in range(4))
            try:
                curator.ask(f"SELECT COUNT(*) AS n FROM data d{joins} WHERE d.sick", epsilon="1e-9", fresh=True)
                seen.append("answered")
            except (UnplannableError, EngineError):
                seen.append("failed" if curator.history() else "refused")
    assert seen == ["answered", "answered"]
