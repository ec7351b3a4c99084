"""The ledger against the limit of its disk, in one run.

Three questions, each a ratio measured here and now:

1. How fast are charges, compared with durable commits of a single row of the same size by SQLite itself, on the same
   disk? Rounds of both alternate, so a disk that is busy is busy for both. SQLite is measured with its default journal
   and with a write-ahead log (the faster one), both with synchronous=FULL. A charge is two durable writes, the ledger's
   and the anchor's.
2. How long does opening a ledger of 100,000 entries take, with every hash checked, compared with reading those rows?
3. Does a charge take longer on a long ledger than on a short one?

Run: python benchmarks/ledger.py [--directory DIR] [--entries N] [--postgresql URL] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from hush.accounting import LaplaceEvent
from hush.ledger import Actor, Ledger
from hush.ledger.budgets import price
from hush.ledger.entries import Entry
from hush.ledger.state import account_state, charge_to_json, question_hash

OWNER = Actor.owner("owner")
QUESTION = "SELECT disease, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 30 GROUP BY disease"
EVENTS = [LaplaceEvent(scale=1000), LaplaceEvent(scale=2000)]


def make(path: str | Path, *, anchor: str | None = None) -> Ledger:
    ledger = Ledger.open(path, create=OWNER, anchor=anchor)
    ledger.create_data("clinic", {"epsilon": 10_000, "delta": "1e-6"}, actor=OWNER)
    ledger.add_analyst("alice", data="clinic", budget={"epsilon": 10_000}, actor=OWNER)
    return ledger


def charge(ledger: Ledger, request: str) -> None:
    ledger.reserve(request, analyst="alice", data="clinic", question=QUESTION, events=EVENTS)


class Raw:
    """Durable single-row commits by SQLite itself."""

    def __init__(self, path: Path, journal: str, row: bytes) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute(f"PRAGMA journal_mode = {journal}")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        self.row = row.decode()

    def __call__(self, _name: str) -> None:
        """Commit one row."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO rows (body) VALUES (?)", (self.row,))
        self.connection.execute("COMMIT")


def rates(folder: Path, rounds: int, batch: int) -> dict[str, float]:
    with make(folder / "shape.ledger") as shape:
        charge(shape, "q")
        body = shape._chain.store.entry(4).body  # type: ignore[union-attr]  # noqa: SLF001
    anchored, bare = make(folder / "anchored.ledger"), make(folder / "bare.ledger", anchor="none")
    contestants = {
        "SQLite, default journal": Raw(folder / "delete.db", "DELETE", body),
        "SQLite, write-ahead log": Raw(folder / "wal.db", "WAL", body),
        "ledger with anchor": lambda name: charge(anchored, name),
        "ledger without anchor": lambda name: charge(bare, name),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name, act in contestants.items():
            begin = time.perf_counter()
            for at in range(batch):
                act(f"{turn}-{at}")
            times[name].append((time.perf_counter() - begin) / batch)
    for ledger in (anchored, bare):
        ledger.close()
    return {name: 1 / statistics.median(found[1:]) for name, found in times.items()}


def grow(path: str | Path, entries: int) -> None:
    """Fill a ledger with charges and outcomes: the same entries as the public interface makes, in few transactions."""
    with make(path, anchor="none") as ledger:
        chain = ledger._chain  # noqa: SLF001
        events = [event.to_json() for event in EVENTS]
        hashed = question_hash("clinic", QUESTION, events)
        keys = [("clinic", ""), ("clinic", "alice")]
        with chain.locked() as book:
            prices = [price(book.accounts[key], EVENTS) for key in keys]  # type: ignore[arg-type]
            number = book.head.number
            while number < entries:
                for key, paid in zip(keys, prices, strict=True):
                    book.accounts[key] = book.accounts[key].admit(paid)  # type: ignore[union-attr]
                content = {
                    "when": "2026-11-15T12:00:00.000000Z",
                    "question": QUESTION,
                    "question_hash": hashed,
                    "events": events,
                    "price": [charge_to_json(paid) for paid in prices],
                    "accounts": [account_state(key, book.accounts[key]) for key in keys],
                    "process": {"host": "host", "pid": 1, "started": "0"},
                }
                names = {"data": "clinic", "analyst": "alice", "request": f"r{number}"}
                entry = Entry.draft("reserve", content, after=book.head, weight=1, **names)
                chain.store.append(entry, after=book.head)
                outcome = {"when": content["when"], "answer": "0" * 64, "size": 0}
                after = Entry.draft("answered", outcome, after=entry.head, about=entry.number, **names)
                chain.store.append(after, after=entry.head)
                book.head, number = after.head, after.number
            chain.store.storage.commit()


def best(act, repeat: int = 5) -> float:  # type: ignore[no-untyped-def]
    found = []
    for _ in range(repeat):
        begin = time.perf_counter()
        act()
        found.append(time.perf_counter() - begin)
    return min(found)


def opening(path: Path) -> tuple[float, float]:
    def read() -> None:
        connection = sqlite3.connect(path)
        for _ in connection.execute("SELECT * FROM hush_entries ORDER BY number"):
            pass
        connection.close()

    def open_() -> None:
        Ledger.open(path).close()

    pairs = [(best(read, 1), best(open_, 1)) for _ in range(5)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def charge_times(paths: dict[int, Path], batch: int = 100) -> dict[int, float]:
    ledgers = {size: Ledger.open(path) for size, path in paths.items()}
    found: dict[int, list[float]] = {size: [] for size in ledgers}
    for at in range(batch):
        for size, ledger in ledgers.items():
            begin = time.perf_counter()
            charge(ledger, f"late-{at}")
            found[size].append(time.perf_counter() - begin)
    for ledger in ledgers.values():
        ledger.close()
    return {size: statistics.median(times) for size, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="The ledger against the limit of its disk.")
    parser.add_argument("--directory", help="a directory on the disk to be measured")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.directory))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # the anchor on the same disk: the hardest case
    try:
        rate = rates(folder, options.rounds, options.batch)
        paths = {}
        for size in (1000, options.entries // 10, options.entries):
            paths[size] = folder / f"{size}.ledger"
            grow(paths[size], size)
        reading, open_time = opening(paths[options.entries])
        late = charge_times(paths)
    finally:
        shutil.rmtree(folder)
    ours = rate["ledger with anchor"]
    result = {
        "rates": rate,
        "ratio to SQLite, default journal": ours / rate["SQLite, default journal"],
        "ratio to SQLite, write-ahead log": ours / rate["SQLite, write-ahead log"],
        "seconds to read": reading,
        "seconds to open": open_time,
        "ratio of opening to reading": open_time / reading,
        "milliseconds per charge by entries": {size: 1000 * value for size, value in late.items()},
        "ratio of longest to shortest": late[options.entries] / late[1000],
    }
    if options.json:
        print(json.dumps(result))
        return
    for name, value in rate.items():
        print(f"{name:<28} {value:8.0f} commits a second")
    for journal in ("default journal", "write-ahead log"):
        print(f"charges / raw, {journal}    {result[f'ratio to SQLite, {journal}']:8.2f}   (at least 0.5 wanted)")
    print(f"opening / reading {options.entries} entries  {open_time / reading:8.2f}   (at most 3 wanted)")
    print(f"  {reading:.3f} s to read, {open_time:.3f} s to open")
    for size, value in late.items():
        print(f"a charge after {size:>7} entries    {1000 * value:8.3f} ms")
    print(f"longest / shortest                {result['ratio of longest to shortest']:8.2f}   (about 1 wanted)")


if __name__ == "__main__":
    main()
