"""Numbers that would take for ever, or that Python cannot write: refused at once, wherever they come from.

`hush.core.numbers` has the one limit. A test that hangs here is a failure of it.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import hush
from hush.accounting import LaplaceEvent, event_from_json
from hush.cli import run
from hush.core import MAX_DIGITS, HushError, InvalidValueError, exact
from hush.ledger import Actor, Budget, Ledger
from hush.ledger.entries import ORIGIN, digest
from hush.policy.file import Policy

LONG = "1" * 100_001
ENDLESS = ["1e99999999", "1e5000", "1e-5000", "1E+99999999", LONG, f"1/{LONG}", f"{LONG}/{LONG}", f"0.{LONG}"]
OWNER = Actor.owner("owner")
ROWS = pa.table({"id": [1, 2, 3]})


def name(number: object) -> str:
    return str(number)[:12] if isinstance(number, str | Decimal) else type(number).__name__


@pytest.mark.parametrize("number", [*ENDLESS, Decimal("1e99999999"), 10**100_000], ids=name)
def test_exact_numbers(number: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        exact(number, "epsilon")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "number", [10 ** (MAX_DIGITS - 1), Fraction(1, 10 ** (MAX_DIGITS - 1)), f"1e{MAX_DIGITS - 1}"], ids=name
)
def test_what_is_allowed_can_be_written_and_read_again(number: object) -> None:
    value = exact(number, "epsilon")
    assert exact(str(value), "epsilon") == value


@pytest.mark.parametrize("number", ENDLESS, ids=name)
@pytest.mark.parametrize("place", ["price", "items"])
def test_stored_answers(number: str, place: str) -> None:
    with hush.protect(ROWS, unit="id", budget=10) as curator:
        content = json.loads(curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1).to_bytes())
    content[place] = [number, "0"] if place == "price" else [["n", number, "0"]]
    with pytest.raises(InvalidValueError, match=r"Answer\.to_bytes wrote"):
        hush.Answer.from_bytes(json.dumps(content).encode())


def test_whole_numbers_in_json() -> None:
    with pytest.raises(InvalidValueError, match=r"Answer\.to_bytes wrote"):
        hush.Answer.from_bytes(f'{{"version": {LONG}}}'.encode())


POLICY = """[data.d]
unit = "id"
budget = {{ epsilon = {epsilon}, delta = {delta} }}
[data.d.tables.t]
source = "t.parquet"
columns.x = {{ type = "decimal", lower = {lower}, upper = 10 }}
"""


@pytest.mark.parametrize("place", ["epsilon", "delta", "lower"])
@pytest.mark.parametrize("number", [*(f'"{number}"' for number in ENDLESS), LONG, "1e5000"], ids=name)
def test_policies(place: str, number: str) -> None:
    written = {"epsilon": "1", "delta": "0", "lower": "0"} | {place: number}
    with pytest.raises(HushError) as caught:
        Policy.parse(POLICY.format(**written))
    assert str(caught.value).startswith("hush.toml")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("epsilon", [*ENDLESS[:4], "1e101", "1e400", 10**5000], ids=name)
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_budgets(epsilon: object, delta: str) -> None:
    if epsilon == "1e-5000":
        epsilon = "1e5000"
    with pytest.raises(InvalidValueError):
        hush.protect(ROWS, unit="id", budget={"epsilon": epsilon, "delta": delta})
    with pytest.raises(InvalidValueError):
        Budget(epsilon=epsilon, delta=delta)
    ledger = Ledger.in_memory()
    ledger.create_data("d", {"epsilon": 1, "delta": delta}, actor=OWNER)
    with pytest.raises(InvalidValueError):
        ledger.raise_budget("d", epsilon=epsilon, actor=OWNER)


@pytest.mark.parametrize("kind", ["pure", "renyi", "zcdp"])
def test_the_largest_budget_can_be_used(kind: str) -> None:
    budget = {"epsilon": "1e100", "delta": "1e-6", "kind": kind}
    with hush.protect(ROWS, unit="id", budget=budget) as curator:
        curator.ask("SELECT COUNT(*) AS n FROM data", epsilon=1)
        assert len(curator.budget()) >= 1


def test_totp_whose_product_no_double_holds() -> None:
    with hush.protect(ROWS, budget=10) as curator:
        for sql in (
            "SELECT COUNT(*) * 1e290 * 1e200 AS n FROM data",
            "SELECT n * 1e290 * 1e200 AS m FROM (SELECT COUNT(*) AS n FROM data) AS t",
        ):
            curator.explain(sql, epsilon=1)
            assert curator.ask(sql, epsilon=1).value() is None


@pytest.mark.parametrize("number", ENDLESS, ids=name)
def test_questions(number: str) -> None:
    with hush.protect(ROWS, bounds={"id": (0, 5)}, budget=10) as curator:
        for sql in (
            f"SELECT COUNT(*) AS n FROM data WHERE id < {number}",
            f"SELECT SUM(CLIP(id, 0, {number})) AS n FROM data",
            f"SELECT COUNT(*) AS n FROM data LIMIT {number}",
        ):
            with pytest.raises(HushError):
                curator.explain(sql, epsilon=1)
        for option in ("epsilon", "delta", "confidence", "accuracy"):
            with pytest.raises(HushError):
                curator.explain("SELECT COUNT(*) AS n FROM data", **({"epsilon": 1} | {option: number}))
        with pytest.raises(HushError):
            curator.explain("SELECT COUNT(*) AS n FROM data WHERE id < ?", [10**5000], epsilon=1)
        with suppress(HushError):  # of the longest questions
            curator.explain(f"SELECT COUNT(*) AS n FROM data WHERE CAST('{number}' AS INTEGER) = id", epsilon=1)


@pytest.mark.parametrize("number", ENDLESS, ids=name)
def test_events(number: str) -> None:
    for written in ({"scale": number}, {"scale": "1", "sensitivity": number}):
        with pytest.raises(HushError):
            event_from_json(LaplaceEvent(scale=1).to_json() | written)


@pytest.mark.parametrize("number", [LONG, *(f'"{number}"' for number in ENDLESS), "1e99999999"], ids=name)
def test_files_of_mechanisms(number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mechanisms.json"
    for name in ("scale", "count", "sensitivity"):
        fields = {"type": '"laplace"', "scale": "1", "count": "1"} | {name: number}
        body = ", ".join(f'"{key}": {value}' for key, value in fields.items())
        path.write_text(f"[{{{body}}}]", encoding="utf-8")
        assert run(["account", str(path), "--delta", "1e-6"]) == 2
    assert run(["account", str(path), "--delta", number.strip('"')]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("number", ENDLESS, ids=name)
def test_options(number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Ledger.open("l.ledger", create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
    where = ["--ledger", "l.ledger"]
    for command in (
        ["ledger", "add-data", "e", "--epsilon", "1", "--delta", number],
        ["ledger", "restore", "--reason", "x", "--lost", number],
        ["budget", "--error", number],
        ["budget", "--confidence", number],
        ["history", "--limit", number],
    ):
        assert run([*command, *where]) in {0, 2}, command
    if number != "1e-5000":
        assert run(["ledger", "raise", "d", "--epsilon", number, *where]) == 2


@pytest.mark.parametrize("number", ['"1e99999999"', '"1e5000"', LONG, f'"{LONG}"'], ids=name)
def test_entries_of_a_ledger(number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write the file can write any number into it, with the right hash."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "l.ledger"
    with Ledger.open(path, create=OWNER, anchor="none") as ledger:
        ledger.create_data("d", {"epsilon": 1}, actor=OWNER)
        ledger.add_analyst("a", data="d", actor=OWNER)
        ledger.reserve("q", analyst="a", data="d", question="q", events=LaplaceEvent(scale=4))
    raw = sqlite3.connect(path)
    with raw:
        columns = "number, kind, data, analyst, request, about, weight, body"
        rows = raw.execute(f"SELECT {columns}, hash FROM hush_entries ORDER BY number").fetchall()
        *last, _ = rows[-1]
        assert '"1/4"' in last[7]
        last[7] = last[7].replace('"1/4"', number)
        before = ORIGIN if len(rows) == 1 else rows[-2][8]
        hashed = digest(before, *(value.encode() if isinstance(value, str) else value for value in last))
        raw.execute("UPDATE hush_entries SET body = ?, hash = ? WHERE number = ?", (last[7], hashed, last[0]))
        raw.execute("UPDATE hush_head SET hash = ?", (hashed,))
    raw.close()
    with pytest.raises(HushError):
        Ledger.open(path).verify()
