"""One row must not be able to make a question fail: some channels, each with the row that would open it.

Every question is asked of two tables that differ in one person, whose row holds the poison. Both must be answered,
and the exact integers behind the answers must differ by no more than the plan's sensitivity.
"""

from __future__ import annotations

import datetime as dt
import logging
import subprocess
import sys

import pyarrow as pa
import pytest

from hush.curator.opening import protect

BIG = 2**63 - 1

CHANNELS = {
    "division by zero": ("SUM(CLIP(10 / (i - 7), 0, 5))", {"i": 7}),
    "modulo by zero": ("SUM(CLIP(10 % (i - 7), 0, 5))", {"i": 7}),
    "logarithm of nothing": ("SUM(CLIP(LN(x), 0, 5))", {"x": 0.0}),
    "logarithm of a negative number": ("SUM(CLIP(LN(x), 0, 5))", {"x": -1.0}),
    "root of a negative number": ("SUM(CLIP(SQRT(x), 0, 5))", {"x": -1.0}),
    "exponential overflow": ("SUM(CLIP(EXP(x), 0, 5))", {"x": 1e6}),
    "power overflow": ("SUM(CLIP(POWER(x, 9), 0, 5))", {"x": 1e300}),
    "power of zero": ("SUM(CLIP(POWER(x, -1), 0, 5))", {"x": 0.0}),
    "text that is no number": ("SUM(CLIP(CAST(t AS INTEGER), 0, 5))", {"t": "seven"}),
    "text that is no date": ("COUNT(CAST(t AS DATE))", {"t": "2024-13-45"}),
    "integer product overflow": ("SUM(CLIP(i * i, 0, 5))", {"i": BIG}),
    "sum of the largest integers": ("SUM(wide)", {"wide": BIG}),
    "absolute value of the least integer": ("SUM(CLIP(ABS(i), 0, 5))", {"i": -(2**63)}),
    "infinity": ("SUM(y)", {"y": float("inf")}),
    "not a number": ("AVG(y)", {"y": float("nan")}),
    "cast beyond the range": ("SUM(CLIP(CAST(x AS INTEGER), 0, 5))", {"x": 1e300}),
    "a text that grows": (f"COUNT({' || '.join('t' * 10)})", {"t": "a" * 2000}),
    "whole division by zero": ("SUM(CLIP(10 // (i - 7), 0, 5))", {"i": 7}),
    "the least integer, divided by minus one": ("SUM(CLIP(i // -1, 0, 5))", {"i": -(2**63)}),
    "a day after the last": ("COUNT(d + INTERVAL 1 DAY)", {"d": dt.date(9999, 12, 31)}),
    "millennia after the last day": ("COUNT((d + INTERVAL 9999 YEAR) - INTERVAL 9999 YEAR)", {"d": dt.date.max}),
    "an escape at the end of a text": ("COUNT_IF(t LIKE '1!%' ESCAPE '!')", {"t": "1!"}),
    "text with a vast exponent": ("SUM(CLIP(CAST(t AS INTEGER), 0, 5))", {"t": "1e-999999999"}),
    "time between the ends": (
        "SUM(CLIP(DATE_DIFF('second', d, DATE '0001-01-01'), 0, 5))",
        {"d": dt.date(9999, 12, 31)},
    ),
    "the last day": ("COUNT(DATE_TRUNC('year', d))", {"d": dt.date(9999, 12, 31)}),
}

BLANK = {"i": 1, "x": 1.0, "y": 1.0, "t": "1", "wide": 1, "d": dt.date(2024, 1, 1)}
TYPES = {
    "id": pa.int64(),
    "i": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "t": pa.string(),
    "wide": pa.int64(),
    "d": pa.date32(),
}


def table(poison: dict[str, object] | None) -> pa.Table:
    rows = [{"id": at, **BLANK} for at in range(20)]
    if poison is not None:
        rows.append({"id": 20, **BLANK, **poison})
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


def ask(sql: str, poison: dict[str, object] | None):
    bounds = {"y": (0, 10), "wide": (-(2**62), 2**62)}
    with protect(table(poison), unit="id", bounds=bounds, budget=100, max_rows=2) as curator:
        answer = curator.ask(sql, epsilon=1, fresh=True)
        desk, how = curator.plan(sql, epsilon=1)
        return len(answer), how, desk.engine.run(how)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_row_cannot_make_a_question_fail(channel: str) -> None:
    expression, poison = CHANNELS[channel]
    sql = f"SELECT {expression} AS v FROM data"
    with_row, how, exact = ask(sql, poison)
    without, _, other = ask(sql, None)
    assert with_row == without == 1
    for noise in how.noises:
        change = sum(
            abs(exact.statistics[item].tolist()[0] - other.statistics[item].tolist()[0]) for item in noise.statistics
        )
        assert change <= noise.law.sensitivity * noise.law.contribution.cells


def test_a_failing_engine_says_nothing_about_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from hush.engines.errors import EngineError

    with protect(table({"t": "secret"}), unit="id", budget=100) as curator:
        desk = curator.data_sets["data"]

        def broken(*_: object) -> None:
            raise ValueError("the row 'secret' is broken")

        monkeypatch.setattr(type(desk.engine.connection), "_cached", broken)
        with pytest.raises(EngineError) as caught:
            curator.ask("SELECT COUNT(*) FROM data", epsilon=1, fresh=True)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert len(curator.history()) == 1
        assert curator.budget()[0].spent.epsilon >= 1  # charged all the same
        assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_a_failing_statement_prints_nothing_where_no_log_is_set_up() -> None:
    program = (
        "import pyarrow as pa\n"
        "from hush.curator.opening import protect\n"
        "from hush.engines.errors import EngineError\n"
        "curator = protect(pa.table({'x': [1]}), budget=1)\n"
        "try:\n"
        "    curator.data_sets['data'].engine.connection.execute(\"SELECT CAST('secret' AS INTEGER)\")\n"
        "except EngineError:\n"
        "    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "refused" in done.stdout
    assert "secret" not in done.stderr
