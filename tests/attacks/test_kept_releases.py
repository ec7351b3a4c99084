"""A kept release is never used under a policy other than the one whose noise it has, and is never lost.

The attacker is a policy that changes after the charge: wider bounds, another unit, other neighbours or limits, other
values or files. Each would let one unit move a stream by more than its noise hides.
"""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hush.core import HushError
from hush.curator import stream_states
from hush.curator.opening import open_policy
from hush.curator.owner import check
from hush.curator.stream_states import StreamError, StreamState
from hush.policy.ledger import STREAMS_KEY
from hush.synth.streams import weighted

START = dt.date(2024, 1, 1)
POLICY = """
[data.clinic]
unit = "person"
budget = { epsilon = "10", delta = "1e-6" }
[data.clinic.tables.visits]
source = "visits.parquet"
max_rows = 2
columns.day = { type = "date", lower = "2024-01-01", upper = "2026-12-31" }
columns.city = { type = "text", values = ["a", "b"] }
columns.cost = { type = "integer", lower = 0, upper = 10 }
[data.clinic.tables.cities]
source = "cities.parquet"
public = true
columns.city = { type = "text" }
columns.people = { type = "integer" }
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "10", delta = "1e-6" }
"""
SUM = "SELECT day, SUM(cost) AS paid FROM visits WHERE city = 'a' GROUP BY day"
KEYED = "SELECT day, city, COUNT(*) AS n FROM visits GROUP BY day, city"


def written(folder: Path, rows: int = 200, **more: list[Any]) -> Path:
    table = {
        "person": [f"u{row}" for row in range(rows)],
        "family": [f"f{row // 2}" for row in range(rows)],
        "day": [START + dt.timedelta(days=row % 5) for row in range(rows)],
        "city": ["a"] * rows,
        "cost": [1] * rows,
    }
    pq.write_table(pa.table({name: table[name] + more.get(name, []) for name in table}), folder / "visits.parquet")
    pq.write_table(pa.table({"city": ["a", "b"], "people": [1, 2]}), folder / "cities.parquet")
    return folder / "hush.toml"


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    path = written(tmp_path)
    path.write_text(POLICY)
    with open_policy(path, create=True) as curator:
        for name, sql in {"paid": SUM, "keyed": KEYED}.items():
            stream = curator.stream.create(sql, name=name, horizon="1 year", epsilon="1")
            stream.advance("2024-01-03")
    return path


def changed(path: Path, old: str, new: str) -> None:
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))


CHANGES: dict[str, tuple[str, str, str]] = {
    "a wider bound": ("upper = 10 ", "upper = 100000 ", "visits.cost"),
    "a narrower bound": ("upper = 10 ", "upper = 5 ", "visits.cost"),
    "another unit": ('unit = "person"', 'unit = "family"', "the unit"),
    "other neighbours": ('unit = "person"', 'unit = "person"\nneighbours = "replace"', "neighbours"),
    "other limits": ("max_rows = 2", "max_rows = 9", "limits of the table visits"),
    "other values": ('["a", "b"]', '["b", "a"]', "visits.city"),
    "another time": ("2026-12-31", "2027-12-31", "visits.day"),
    "another file": ('"visits.parquet"', '"visits2.parquet"', "source of the table visits"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_of_the_policy_nothing_more_is_released(clinic: Path, change: str) -> None:
    (clinic.parent / "visits2.parquet").write_bytes((clinic.parent / "visits.parquet").read_bytes())
    old, new, told = CHANGES[change]
    with open_policy(clinic) as curator:
        shown = {name: curator.stream.open(name).answer.to_csv() for name in ("paid", "keyed")}
        left = curator.budget()[0].account.remaining()
    changed(clinic, old, new)
    with open_policy(clinic) as curator:
        paid = curator.stream.open("paid")
        with pytest.raises(StreamError, match=told) as refusal:
            paid.advance("2024-01-05")
        assert "stop it" in str(refusal.value)
        assert curator.budget()[0].account.remaining() == left
        # what was released stays readable as it was, under whatever policy
        assert {name: curator.stream.open(name).answer.to_csv() for name in shown} == shown
    changed(clinic, new, old)
    with open_policy(clinic) as curator:
        assert curator.stream.open("paid").advance("2024-01-05") == 5


def test_one_persons_large_value_never_shows(clinic: Path) -> None:
    """The attack as it was found: the bound is raised, and one person's 100,000 came out as 100,004 ± 213."""
    changed(clinic, "upper = 10 ", "upper = 100000 ")
    target = {"person": ["target"], "family": ["t"], "day": [dt.date(2024, 1, 4)], "city": ["a"], "cost": [100_000]}
    written(clinic.parent, **target)
    with open_policy(clinic) as curator:
        paid = curator.stream.open("paid")
        with pytest.raises(StreamError, match=r"visits\.cost"):
            paid.advance("2024-01-04")
        assert paid.released == 3


def test_changes_that_do_not_concern_a_stream_leave_it_alone(clinic: Path) -> None:
    changed(clinic, "[analysts.alice]", 'columns.other = { type = "text" }\n[analysts.alice]')
    changed(clinic, "columns.people = { type", "columns.people = { upper = 5, lower = 0, type")
    pq.write_table(pa.table({"city": ["a"], "people": [1], "other": ["x"]}), clinic.parent / "cities.parquet")
    with open_policy(clinic) as curator:
        assert curator.stream.open("paid").advance("2024-01-05") == 5


def test_a_stream_of_an_earlier_version_is_read_and_not_advanced(clinic: Path) -> None:
    """Earlier versions wrote down neither what a stream depends on nor its columns: it may be read, and ended."""
    with open_policy(clinic) as curator:
        shown = curator.stream.open("keyed").answer.to_csv()
    (file,) = clinic.parent.glob("*.streams/*/keyed.stream")
    with np.load(io.BytesIO(file.read_bytes())) as kept:
        definition = json.loads(kept["definition"].tobytes())
        for name in ("terms", "columns", "output", "counts"):
            definition.pop(name)
        members = {name: kept[name] for name in kept.files} | {
            "definition": np.frombuffer(json.dumps(definition).encode(), dtype=np.uint8)
        }
    np.savez(buffer := io.BytesIO(), **members)
    file.write_bytes(buffer.getvalue())
    with open_policy(clinic) as curator:
        stream = curator.stream.open("keyed")
        with pytest.raises(StreamError, match="earlier version"):
            stream.advance("2024-01-05")
        assert stream.answer.to_csv() == shown
    changed(clinic, '["a", "b"]', '["a", "b", "c"]')
    with open_policy(clinic) as curator, pytest.raises(HushError, match="earlier version"):
        _ = curator.stream.open("keyed").answer


def test_a_release_that_comes_back_keeps_its_own_columns(clinic: Path) -> None:
    """Under the same request id the stored cells are told with the columns that they were measured with."""
    ask: dict[str, Any] = {"epsilon": "1", "request": "r"}
    with open_policy(clinic) as curator:
        first = curator.marginals("SELECT city FROM visits", degree=1, **ask)
    changed(clinic, '["a", "b"]', '["b", "a"]')
    with open_policy(clinic) as curator:
        again = curator.marginals("SELECT city FROM visits", degree=1, **ask)
    assert (again.head.coding, again.kept) == (first.head.coding, first.kept)
    assert any("paid for on" in caveat for caveat in again.caveats)


def test_sums_beyond_64_bits_are_exact_and_the_state_stays_readable(tmp_path: Path) -> None:
    """4,200 values of 2⁵¹ are more than 2⁶³: 64 bits wrapped, and one row more made the state unreadable."""
    most, rows = 2**51, 4200
    path = written(tmp_path, rows, cost=[])
    path.write_text(POLICY.replace("upper = 10 ", f"upper = {most} "))
    table = pq.read_table(tmp_path / "visits.parquet")
    for sign in (1, -1):
        if sign < 0:
            changed(path, "lower = 0, upper", f"lower = -{most}, upper")
        cost = pa.array([sign * most] * rows)
        pq.write_table(table.set_column(4, "cost", cost), tmp_path / "visits.parquet")
        with open_policy(path, create=sign > 0) as curator:
            stream = curator.stream.create(SUM, name=f"s{sign}", horizon="30 days", epsilon="2")
            assert [stream.advance(day) for day in ("2024-01-03", "2024-01-05")] == [3, 5]
            row = stream.table.to_pylist()[-1]
            assert abs(row["total"] - sign * most * rows) < 3.5 * row["total_error"]  # seven standard deviations
        (file,) = tmp_path.glob(f"*.streams/*/s{sign}.stream")
        assert sum(StreamState.read(io.BytesIO(file.read_bytes())).stream.exact[:, 0].tolist()) == sign * most * rows


def test_weighted_sums_are_those_of_pythons_integers() -> None:
    generator = np.random.default_rng(0)
    exact = generator.integers(-(2**62), 2**62, (300, 3))
    exact[:2] = [[2**63 - 1] * 3, [-(2**63)] * 3]
    weights = generator.integers(0, 2**20 + 1, 300)
    for numbers in (exact, exact.astype(object)):
        assert weighted(weights, numbers) == [
            sum(int(weight) * int(number) for weight, number in zip(weights, column, strict=True)) for column in exact.T
        ]


def test_exact_numbers_are_encrypted_with_a_key_outside(
    clinic: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path_factory.mktemp("keys") / "streams.key"
    key.write_bytes(bytes(range(32)))
    (file,) = clinic.parent.glob("*.streams/*/paid.stream")
    assert "encrypt" in str(check(clinic).notes)
    monkeypatch.setenv(STREAMS_KEY, str(key))
    assert not check(clinic).notes
    with open_policy(clinic) as curator:
        assert curator.stream.open("paid").advance("2024-01-04") == 4  # one that was begun without a key
        curator.stream.create(SUM, name="other", horizon="1 year", epsilon="1").advance("2024-01-02")
        shown = curator.stream.open("paid").answer.to_csv()
    state = StreamState.read(io.BytesIO(file.read_bytes()))
    for hidden in (state.stream.exact.tobytes(), state.seen.units.tobytes()):
        assert hidden not in file.read_bytes()
    monkeypatch.delenv(STREAMS_KEY)
    with open_policy(clinic) as curator:
        for name in ("paid", "other"):
            with pytest.raises(StreamError, match="encrypted"):
                curator.stream.open(name).advance("2024-01-05")
        assert curator.stream.open("paid").answer.to_csv() == shown
    for wrong, told in ((b"x" * 32, "another key"), (b"short", "32 bytes")):
        key.write_bytes(wrong)
        monkeypatch.setenv(STREAMS_KEY, str(key))
        with open_policy(clinic) as curator, pytest.raises(StreamError, match=told):
            curator.stream.open("paid").advance("2024-01-05")
    key.write_bytes(bytes(range(32)))
    with open_policy(clinic) as curator:
        assert curator.stream.open("paid").advance("2024-01-05") == 5


def test_states_are_encrypted_for_their_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    monkeypatch.setenv(STREAMS_KEY, str(tmp_path / "key"))
    data = stream_states.sealed(b"x" * 35, b"head")
    assert stream_states.unsealed(data, b"head") == b"x" * 35
    # as earlier versions wrote it: place and length are authenticated with the definition
    nonce, earlier = bytes(12), AESGCM(bytes(32)).encrypt(bytes(12), b"y" * 9, b"0 9 head")
    assert stream_states.unsealed(b"s" + nonce + earlier, b"head") == b"y" * 9
    for changed_data, context in ((data, b"other"), (data[:-1], b"head"), (data[:20] + data[21:], b"head")):
        with pytest.raises(StreamError, match="another key"):
            stream_states.unsealed(changed_data, context)
