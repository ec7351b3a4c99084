"""Quantiles of dates and times carry their half-widths: days, seconds."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from hush.curator.answer import Answer
from hush.curator.opening import protect

DAY, TIME = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)


def test_dates_and_times() -> None:
    rows = 4000
    frame = pa.table(
        {
            "d": [DAY + dt.timedelta(days=i % 400) for i in range(rows)],
            "t": pa.array([TIME + dt.timedelta(seconds=i) for i in range(rows)], pa.timestamp("us")),
        }
    )
    bounds = {"d": (dt.date(2020, 1, 1), dt.date(2030, 1, 1)), "t": (TIME, TIME + dt.timedelta(days=1))}
    with protect(frame, bounds=bounds, budget=100) as curator:
        answer = curator.ask("SELECT MEDIAN(d) AS d, MEDIAN(t) AS t FROM data", epsilon=2, fresh=True)
    day, time = answer.columns
    # A draw misses its aim, 6 ranks off, by 100 more with probability e^-50: that is 10 days, or 100 seconds.
    assert abs((day.values[0] - DAY).days - 199) <= 12
    assert day.errors[0] <= 12
    assert abs((time.values[0] - TIME).total_seconds() - 2000) <= 110
    assert 0 < time.errors[0] <= 110
    assert " days" in str(answer)
    assert Answer.from_bytes(answer.to_bytes()).columns == answer.columns
    assert answer.table.column_names == ["d", "d_error", "t", "t_error"]
