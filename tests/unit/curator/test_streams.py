"""Streams through the curator: paid once, each period released once, whatever is killed or put back."""

from __future__ import annotations

import datetime as dt
import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.core import InvalidValueError
from hush.curator import streams
from hush.curator.curator import Curator
from hush.curator.opening import open_policy, protect
from hush.curator.session import Outlet
from hush.curator.stream_states import StateFiles, StreamError, StreamState
from hush.engines.protocol import DEFAULT_ROWS
from hush.ledger import RequestConflictError
from hush.ledger.errors import LedgerFullError
from hush.query.errors import QuestionError
from hush.synth.streams import seconds

DAYS = 30
SQL = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day"
START = dt.date(2024, 1, 1)


def visits(days: int, *, late: int = 0, rows: int = 200) -> pa.Table:
    generator = np.random.default_rng(0)
    count = days * rows
    day = [START + dt.timedelta(days=row // rows) for row in range(count)]
    return pa.table(
        {
            "person": [f"u{row}" for row in range(count)] + [f"late{row}" for row in range(late)],
            "day": [*day, *[START] * late],
            "city": ["ab"[code] for code in generator.integers(0, 2, count + late)],
            "cost": generator.integers(0, 100, count + late),
        }
    )


def policy(folder: Path, budget: str = '{ epsilon = "10", delta = "1e-6" }') -> Path:
    path = folder / "hush.toml"
    path.write_text(
        f"""
[data.clinic]
engine = "duckdb"
unit = "person"
budget = {budget}
[data.clinic.tables.visits]
source = "visits.parquet"
max_rows = 1
columns.day = {{ type = "date", lower = "2024-01-01", upper = "2026-12-31" }}
columns.city = {{ type = "text", values = ["a", "b"] }}
columns.cost = {{ type = "integer", lower = 0, upper = 100 }}
[analysts.alice]
data = ["clinic"]
budget = {budget}
"""
    )
    return path


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    pq.write_table(visits(DAYS), tmp_path / "visits.parquet")
    path = policy(tmp_path)
    open_policy(path, create=True).close()
    return path


def made(path: Path, **options: object) -> None:
    with open_policy(path) as curator:
        arguments: dict[str, object] = {"name": "daily", "horizon": "2 years", "epsilon": "1"}
        curator.stream.create(SQL, **(arguments | options))


def through(path: Path, day: str) -> bytes:
    with open_policy(path) as curator:
        stream = curator.stream.open("daily")
        stream.advance(day)
        return stream.answer.to_csv().encode()


def test_days_weeks_and_totals_with_their_errors(clinic: Path) -> None:
    made(clinic)
    with open_policy(clinic) as curator:
        stream = curator.stream.open("daily")
        assert stream.advance("2024-01-30") == 30
        table = stream.table
        assert table.column_names == ["day", "n", "n_error", "week", "week_error", "total", "total_error"]
        rows = table.to_pylist()
        assert rows[0]["day"] == START
        assert rows[29]["total"] == pytest.approx(sum(row["n"] for row in rows))
        for row, truth in ((rows[29], 6000), (rows[9], 2000)):
            assert abs(row["total"] - truth) < 3 * row["total_error"]  # six standard deviations
        assert abs(rows[20]["week"] - 1400) < 3 * rows[20]["week_error"]


def test_a_period_is_released_once_and_charged_never_again(clinic: Path) -> None:
    made(clinic)
    first = through(clinic, "2024-01-10")
    with open_policy(clinic) as curator:
        left = curator.budget()[0].account.remaining()
    assert through(clinic, "2024-01-10") == first
    more = through(clinic, "2024-01-20")
    assert more.startswith(first)
    with open_policy(clinic) as curator:
        assert curator.budget()[0].account.remaining() == left


def test_rows_that_come_late_count_in_the_open_period(clinic: Path) -> None:
    made(clinic)
    before = through(clinic, "2024-01-10")
    pq.write_table(visits(DAYS, late=5000), clinic.parent / "visits.parquet")
    after = through(clinic, "2024-01-11")
    assert after.startswith(before)
    with open_policy(clinic) as curator:
        rows = curator.stream.open("daily").table.to_pylist()
        assert abs(rows[10]["n"] - 5200) < 3 * rows[10]["n_error"]
        assert abs(rows[10]["total"] - 7200) < 3 * rows[10]["total_error"]


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before the state", "after the state"])
def test_killed_while_it_advances(clinic: Path, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(clinic)
    first = through(clinic, "2024-01-05")
    commit = StateFiles.commit

    def killed(files: StateFiles, name: str, prepared: Path | bytes) -> None:
        if moment == "after the state":
            commit(files, name, prepared)
        raise KilledError

    monkeypatch.setattr(StateFiles, "commit", killed)
    with pytest.raises(KilledError):
        through(clinic, "2024-01-06")
    monkeypatch.undo()
    with open_policy(clinic) as curator:
        stream = curator.stream.open("daily")
        assert stream.released == (5 if moment == "before the state" else 6)
        kept = stream.answer.to_csv().encode()
    assert kept.startswith(first)
    assert through(clinic, "2024-01-06").startswith(kept)


def test_killed_between_the_charge_and_the_first_state(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr(StateFiles, "commit", killed)
    with pytest.raises(KilledError):
        made(clinic)
    monkeypatch.undo()
    with open_policy(clinic) as curator:  # the budget is lost, and nothing else
        assert curator.budget()[0].account.remaining().epsilon < 10
        assert curator.stream.names() == []


def test_an_old_copy_of_the_state_is_refused(clinic: Path) -> None:
    made(clinic)
    through(clinic, "2024-01-05")
    (place,) = clinic.parent.glob("*.streams/*")
    old = (place / "daily.stream").read_bytes()
    through(clinic, "2024-01-08")
    (place / "daily.stream").write_bytes(old)
    with pytest.raises(StreamError, match="old copy"):
        through(clinic, "2024-01-08")


def test_the_state_is_its_owners_alone_and_holds_no_names(clinic: Path) -> None:
    made(clinic)
    through(clinic, "2024-01-05")
    (place,) = clinic.parent.glob("*.streams/*")
    assert place.stat().st_mode & 0o077 == 0
    assert place.parent.stat().st_mode & 0o077 == 0
    assert (place / "daily.stream").stat().st_mode & 0o077 == 0
    state = (place / "daily.stream").read_bytes()
    assert b"u17" not in state
    assert StreamState.read(io.BytesIO(state)).stream.exact.sum() == 1000


def test_a_unit_counts_to_its_cap_over_the_whole_life(tmp_path: Path) -> None:
    days = [START + dt.timedelta(days=row // 50) for row in range(1000)]
    pq.write_table(
        pa.table({"person": ["one"] * 1000, "day": days, "city": ["a"] * 1000, "cost": [100] * 1000}),
        tmp_path / "visits.parquet",
    )
    path = policy(tmp_path)
    open_policy(path, create=True).close()
    made(path, max_rows=3)
    through(path, "2024-01-20")
    (place,) = tmp_path.glob("*.streams/*")
    exact = StreamState.read(io.BytesIO((place / "daily.stream").read_bytes())).stream.exact
    assert exact.sum() == 3
    with open_policy(path) as curator:
        sums = curator.stream.create(
            "SELECT day, SUM(cost) AS total_cost FROM visits GROUP BY day", name="s", horizon="1 year", epsilon="1"
        )
        sums.advance("2024-01-20")
    assert StreamState.read(io.BytesIO((place / "s.stream").read_bytes())).stream.exact.sum() == 100


def test_several_keys_at_once(clinic: Path) -> None:
    with open_policy(clinic) as curator:
        stream = curator.stream.create(
            "SELECT day, city, COUNT(*) AS n FROM visits GROUP BY day, city", name="c", horizon="60 days", epsilon="2"
        )
        stream.advance("2024-01-03")
        rows = stream.table.to_pylist()
        assert [(row["day"].day, row["city"]) for row in rows] == [(d, c) for d in (1, 2, 3) for c in "ab"]
        assert abs(rows[4]["total"] + rows[5]["total"] - 600) < 3 * (rows[4]["total_error"] + rows[5]["total_error"])


def test_weeks_and_an_end(clinic: Path) -> None:
    with open_policy(clinic) as curator:
        stream = curator.stream.create(SQL, name="weekly", horizon="1 year", epsilon="1", every="week")
        assert stream.advance("2024-01-28") == 4
        assert stream.table.column_names[3] == "four_weeks"
        stream.stop()
        with pytest.raises(StreamError, match="ended"):
            stream.advance("2024-02-28")
        assert stream.to_json()["ended"] is True


def test_to_look_at_a_stream_reads_nothing_that_grows_with_rows(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(clinic, request="r")
    shown = through(clinic, "2024-01-05")

    def private(*_: object) -> None:
        pytest.fail("the private part of the state was read")

    monkeypatch.setattr(StreamState, "read", private)
    with open_policy(clinic) as curator:
        stream = curator.stream.open("daily")
        assert stream.answer.to_csv().encode() == shown
        assert (stream.released, stream.to_json()["released"]) == (5, 5)
        again = curator.stream.create(SQL, name="daily", horizon="2 years", epsilon="1", request="r")
        assert again.receipt == stream.receipt
        stream.stop()
        assert stream.to_json()["ended"] is True


def test_of_two_who_advance_at_once_one_is_first(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(clinic)
    prepare, quicker = StateFiles.prepare, []

    def meanwhile(files: StateFiles, name: str, state: bytes) -> Path | bytes:
        prepared = prepare(files, name, state)
        monkeypatch.setattr(StateFiles, "prepare", prepare)
        quicker.append(through(clinic, "2024-01-03"))
        return prepared

    monkeypatch.setattr(StateFiles, "prepare", meanwhile)
    shown = through(clinic, "2024-01-05")
    assert shown.startswith(quicker[0])
    assert len(shown.splitlines()) == len(quicker[0].splitlines()) + 2
    (place,) = clinic.parent.glob("*.streams/*")
    assert not list(place.glob(".daily-*"))


def test_explaining_spends_nothing(clinic: Path) -> None:
    with open_policy(clinic) as curator:
        said = curator.stream.explain(SQL, horizon="2 years", epsilon="1")
        assert said["periods"] == 731
        assert said["errors"]["day"] < said["errors"]["week"] < said["errors"]["total"]
        assert not curator.history()
        assert curator.stream.names() == []


def test_what_cannot_be_a_stream_is_refused_before_the_charge(clinic: Path, tmp_path: Path) -> None:
    with open_policy(clinic) as curator:
        streams = curator.stream
        for sql in (
            "SELECT COUNT(*) AS n FROM visits",
            "SELECT day, AVG(cost) AS m FROM visits GROUP BY day",
            "SELECT day, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY day",
        ):
            with pytest.raises(QuestionError):
                streams.create(sql, name="x", horizon="1 year", epsilon="1")
        with pytest.raises(InvalidValueError, match="horizon"):
            streams.create(SQL, name="x", horizon="soon", epsilon="1")
        with pytest.raises(InvalidValueError, match="name"):
            streams.create(SQL, name="../x", horizon="1 year", epsilon="1")
        with pytest.raises(StreamError, match="no stream"):
            streams.open("nothing")
        assert not curator.history()
    folder = tmp_path / "pure"
    folder.mkdir()
    pq.write_table(visits(2), folder / "visits.parquet")
    path = policy(folder, '{ epsilon = "10" }')
    with open_policy(path, create=True) as curator, pytest.raises(QuestionError, match="without δ"):
        curator.stream.create(SQL, name="x", horizon="1 year", epsilon="1")


def test_a_stream_in_memory_lives_as_long_as_the_curator() -> None:
    table = pa.table({"id": list(range(100)), "week": [row % 10 for row in range(100)]})
    curator: Curator = protect(
        table, unit="id", bounds={"week": (0, 99)}, budget={"epsilon": "5", "delta": "1e-6"}, table="visits"
    )
    with curator:
        stream = curator.stream.create(
            "SELECT week, COUNT(*) AS n FROM visits GROUP BY week", name="w", horizon="50 periods", epsilon="1"
        )
        assert stream.advance(4) == 5
        assert curator.stream.open("w").released == 5
        assert Fraction(stream.answer.price.epsilon) == 1
        with pytest.raises(StreamError, match="already"):
            curator.stream.create(
                "SELECT week, COUNT(*) AS n FROM visits GROUP BY week", name="w", horizon="9 periods", epsilon="1"
            )


class Figures(Outlet):
    """An outlet that notes how long work should take."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def begin(self, seconds: float, fail: object) -> None:  # noqa: ARG002 - as the pipeline calls it
        self.seconds.append(seconds)


def advanced_for(path: Path, *, rows: int | None, day: str) -> float:
    """Return how long an advance should take, where the policy declares how many rows there are."""
    text = path.read_text()
    path.write_text(text if rows is None else text.replace("max_rows = 1", f"max_rows = 1\nrows = {rows}"))
    with open_policy(path) as opened:
        outlet = Figures()
        opened.session.outlet = outlet
        opened.stream.open("daily").advance(day)
    path.write_text(text)
    return outlet.seconds[0]


def test_when_an_advance_appears_follows_from_declared_rows_and_periods(clinic: Path) -> None:
    """The first slot of a service was that of reading alone, while the work grows with rows and periods."""
    made(clinic)
    one = advanced_for(clinic, rows=None, day="2024-01-01")
    assert one > seconds(rows=DEFAULT_ROWS, keys=1, first=0, last=1)
    many = advanced_for(clinic, rows=None, day="2025-06-01")
    assert many > one + 500 * 5e-4
    assert advanced_for(clinic, rows=10**6, day="2025-06-02") > one + 9e5 * 5e-6


def test_many_periods_are_released_in_parts_that_last(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is interrupted goes on where it was; what was released stays."""
    made(clinic)
    monkeypatch.setattr(streams, "PART", 0.05)
    publish, parts = streams.publish, []

    def interrupted(*arguments: object) -> object:
        parts.append(arguments)
        if len(parts) == 3:
            raise KilledError
        return publish(*arguments)

    monkeypatch.setattr(streams, "publish", interrupted)
    with open_policy(clinic) as curator, pytest.raises(KilledError):
        curator.stream.open("daily").advance("2025-06-01")
    with open_policy(clinic) as curator:
        stream = curator.stream.open("daily")
        half = stream.released
        assert 0 < half < 518
        assert stream.due("2025-06-01") == 518 - half
        shown = stream.answer.to_csv()
        assert stream.advance_part("2025-06-01")
        assert half < stream.released < 518
        assert stream.advance("2025-06-01") == 518
        assert stream.answer.to_csv().startswith(shown)
        assert len(curator.history()) == 1


def test_a_request_id_stands_for_one_stream(clinic: Path) -> None:
    terms = {"horizon": "2 years", "epsilon": "1", "request": "mine"}
    with open_policy(clinic) as curator:
        receipt = curator.stream.create(SQL, name="daily", **terms).receipt
        assert curator.stream.create(SQL, name="daily", **terms).receipt == receipt
        with pytest.raises(RequestConflictError):
            curator.stream.create(SQL, name="another", **terms)
        with pytest.raises(RequestConflictError):
            curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.1", request="mine")
        assert (curator.stream.names(), len(curator.history())) == (["daily"], 1)
    (place,) = clinic.parent.glob("*.streams/*")
    (place / "daily.stream").unlink()  # to begin again under the old charge would draw new noise for known periods
    with open_policy(clinic) as curator, pytest.raises(StreamError, match="its state is gone"):
        curator.stream.create(SQL, name="daily", **terms)


def test_a_full_disk_stops_releases_before_any_row_is_read(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(clinic)

    def full() -> None:
        raise LedgerFullError("full")

    with open_policy(clinic) as curator:
        curator.session.ledger.limit_room(full)
        monkeypatch.setattr(streams, "publish", lambda *_: pytest.fail("rows were read"))
        with pytest.raises(LedgerFullError):
            curator.stream.open("daily").advance("2024-01-05")
        assert curator.stream.open("daily").released == 0
