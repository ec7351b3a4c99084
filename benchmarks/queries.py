"""Questions on 10 million rows: hush against plain DuckDB and against the best bounding statement known.

Run ``python benchmarks/queries.py [rows] [rounds]``; it makes its tables in a temporary directory. Each line has hush's
time and the other's, the best of several rounds that take turns, and what is asked of their ratio. On a machine with
other work, read the processor time instead (all threads together): it is in the last two columns. Peak memory is that
of a process of its own for each side. Private keys are a tenth as many as rows. Few rows: see `small.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from hush.curator import opening

CITIES = 1000
NAMES = [f"city_{index}" for index in range(CITIES)]
GROUPS, ROWS = 3, 5
BOUNDS = {"age": (0, 120), "cost": (0, 5000, "0.01")}
BUDGET = {"epsilon": 10**6}
SINGLE = (
    "SELECT COUNT(*) FROM data",
    "SELECT SUM(cost) FROM data",
    "SELECT AVG(age) FROM data",
    "SELECT city, COUNT(*) AS n FROM data GROUP BY city",
    "SELECT city, SUM(cost) AS s FROM data GROUP BY city",
    "SELECT city, AVG(cost) AS m FROM data GROUP BY city",
    "SELECT city, COUNT(*) AS n, SUM(age) AS s, AVG(cost) AS m FROM data GROUP BY city",
    "SELECT city, COUNT(*) AS n, SUM(age) AS s, AVG(cost) AS m, AVG(age) AS a, SUM(cost) AS c FROM data GROUP BY city",
)
COUNTED = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"
SUMMED = "SELECT city, SUM(cost) AS s, AVG(age) AS m FROM data GROUP BY city"
NEXT = (
    "SELECT city, SUM(age) AS s FROM data GROUP BY city",
    "SELECT city, AVG(cost) AS m FROM data GROUP BY city",
    "SELECT city, COUNT(*) FILTER (WHERE age > 40) AS n FROM data GROUP BY city",
)
PRIVATE = "SELECT street, COUNT(*) AS n FROM data GROUP BY street"
DELTA = "0.01"


def make(directory: Path, rows: int) -> tuple[Path, Path]:
    """Write a table with ten rows a unit, and one whose rows are units."""
    connection = duckdb.connect()
    many, single = directory / "many.parquet", directory / "single.parquet"
    columns = (
        f"'city_' || (hash(i * 7 + 1) % {CITIES})::VARCHAR AS city, (hash(i * 3 + 5) % 121)::INTEGER AS age, "
        "round((hash(i * 11) % 500000) / 100.0, 2)::DOUBLE AS cost"
    )
    source = f"range({rows}) t(i)"
    connection.execute(
        f"COPY (SELECT (hash(i) % {rows // 10})::BIGINT AS user_id, {columns} FROM {source}) TO '{many}'"
    )
    connection.execute(f"COPY (SELECT {columns} FROM {source}) TO '{single}'")
    connection.close()
    return many, single


def by_hand(many: Path, *, values: bool) -> str:
    """Return the quickest exact statement known that bounds each unit: a count, or also two weighted sums."""
    more, sums, answers = ("", "", "")
    if values:
        more = ", age, cost"
        sums = ", sum(age) AS a, sum(cost) AS c"
        answers = f", sum(a * least(n, {ROWS}) / n), sum(c * least(n, {ROWS}) / n)"
    return f"""
        WITH k AS (SELECT unnest({NAMES}) AS city, unnest(range({CITIES}))::SMALLINT AS code),
        r AS (SELECT u, k{more}, dense_rank() OVER (PARTITION BY u ORDER BY hash(u, k, 77), k) AS d
              FROM (SELECT user_id AS u, code AS k{more} FROM '{many}' JOIN k USING (city))),
        b AS (SELECT u, k, count(*) AS n{sums} FROM r WHERE d <= {GROUPS} GROUP BY u, k)
        SELECT k, sum(least(n, {ROWS})){answers} FROM b GROUP BY k"""


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock and of the processor."""

    wall: float
    cpu: float


def spent(function: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def best(found: list[Spent]) -> Spent:
    return Spent(min(one.wall for one in found), min(one.cpu for one in found))


def turns(mine: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[Spent, Spent]:
    """Return the best of both, taking turns so that what else the machine does hits both alike."""
    both = [(spent(mine), spent(theirs)) for _ in range(rounds)]
    return best([first for first, _ in both]), best([second for _, second in both])


def line(what: str, mine: Spent, theirs: Spent, factor: float, extra: float = 0.0) -> None:
    verdict = "ok" if mine.wall <= factor * theirs.wall + extra else "MISSED"
    asked = f"≤ {factor}" + (f" + {extra * 1000:.0f} ms" if extra else "")
    print(
        f"{what[:58]:58} {mine.wall:8.3f} {theirs.wall:8.3f} {mine.wall / theirs.wall:6.2f}  {asked}: {verdict:6}"
        f"  {mine.cpu:8.3f} {theirs.cpu:8.3f} {mine.cpu / theirs.cpu:6.2f}"
    )


def single_curator(single: Path) -> opening.Curator:
    return opening.protect(single, bounds=BOUNDS, values={"city": NAMES}, budget=BUDGET)


def many_curator(many: Path) -> opening.Curator:
    return opening.protect(
        many,
        unit="user_id",
        bounds=BOUNDS,
        values={"city": NAMES},
        budget=BUDGET,
        max_groups=GROUPS,
        max_rows=ROWS,
    )


def forgetful(curator: opening.Curator, sql: str) -> Callable[[], object]:
    """Return the question, asked by somebody who never asked anything before."""

    def ask() -> object:
        curator.data_sets["data"].engine.connection.forget()  # measure the work, not what is kept of it
        return curator.ask(sql, epsilon=1, fresh=True)

    return ask


def one_row_a_unit(single: Path, rounds: int) -> None:
    plain = duckdb.connect()
    with single_curator(single) as curator:
        for sql in SINGLE:
            theirs = sql.replace("data", f"'{single}'")
            mine, other = turns(forgetful(curator, sql), lambda sql=theirs: plain.execute(sql).fetchall(), 2 * rounds)
            line(sql, mine, other, 1.5, 0.05)
    plain.close()


def many_rows_a_unit(many: Path, rounds: int) -> None:
    plain = duckdb.connect()
    with many_curator(many) as curator:
        for what, sql, values in (("COUNT", COUNTED, False), ("SUM and AVG", SUMMED, True)):
            statement = by_hand(many, values=values)
            mine, other = turns(forgetful(curator, sql), lambda text=statement: plain.execute(text).fetchall(), rounds)
            line(f"{what} by city, {GROUPS} groups a unit, first question", mine, other, 1.3)
        curator.data_sets["data"].engine.connection.forget()
        statement = by_hand(many, values=False)
        hand = spent(lambda: plain.execute(statement).fetchall())
        first = spent(lambda: curator.ask(COUNTED, epsilon=1, fresh=True))
        second = spent(lambda: curator.ask(SUMMED, epsilon=1, fresh=True))
        print(f"a conversation: first {first.wall:.3f} s; second, which keeps the bounded rows, {second.wall:.3f} s")
        for sql in NEXT:
            mine = spent(lambda sql=sql: curator.ask(sql, epsilon=1, fresh=True))
            print(
                f"  next: {sql[:60]:60} {mine.wall:.3f} s, {hand.wall / mine.wall:.0f} times quicker "
                f"(processor {mine.cpu:.3f} s)"
            )
        again = spent(lambda: curator.ask(COUNTED, epsilon=1, fresh=True))
        print(f"  asked again: {again.wall:.3f} s")
    plain.close()


def private_keys(directory: Path, rows: int, rounds: int) -> None:
    """Measure keys of which nobody has said which there are, one for every ten rows.

    The others leave their groups in a table of the engine: to fetch them all takes longer than to find them.
    """
    keys = directory / "streets.parquet"
    plain = duckdb.connect()
    plain.execute(
        f"COPY (SELECT (hash(i) % {rows // 10})::BIGINT AS user_id, "
        f"'street_' || (hash(i * 7 + 1) % {rows // 10})::VARCHAR AS street FROM range({rows}) t(i)) TO '{keys}'"
    )
    plain.execute("SET disabled_optimizers = 'top_n_window_elimination'")
    budget = {**BUDGET, "delta": DELTA}
    store = "CREATE OR REPLACE TABLE found AS "
    with opening.protect(keys, budget=budget) as curator:
        theirs = store + PRIVATE.replace("data", f"'{keys}'")
        mine, other = turns(forgetful(curator, PRIVATE), lambda: plain.execute(theirs), rounds)
        line(f"COUNT by {rows // 10:,} private keys, against GROUP BY", mine, other, 2, 0.2)
    bounded = f"""{store}SELECT k, count(*), sum(least(n, {ROWS})) FROM (SELECT u, k, count(*) AS n FROM (
        SELECT u, k, dense_rank() OVER (PARTITION BY u ORDER BY hash(u, k, 77), k) AS d
        FROM (SELECT user_id AS u, street AS k FROM '{keys}')) WHERE d <= {GROUPS} GROUP BY u, k) GROUP BY k"""
    options = {"unit": "user_id", "max_groups": GROUPS, "max_rows": ROWS}
    with opening.protect(keys, budget=budget, **options) as curator:
        mine, other = turns(forgetful(curator, PRIVATE), lambda: plain.execute(bounded), rounds)
        line(f"the same, {GROUPS} groups a unit, against bounding by hand", mine, other, 1.3, 0.2)
    plain.close()


def peak(side: str, many: Path) -> None:
    """Print the peak memory of this process after one question, in MB."""
    if side == "hand":
        duckdb.connect().execute(by_hand(many, values=False)).fetchall()
    else:
        with many_curator(many) as curator:
            curator.ask(COUNTED, epsilon=1, fresh=True)
            if side == "conversation":
                for sql in (SUMMED, *NEXT):
                    curator.ask(sql, epsilon=1, fresh=True)
    # not getrusage: its peak begins with what the parent process had when it started this one
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)


def memory(many: Path, rounds: int) -> None:
    found: dict[str, list[int]] = {"hand": [], "hush": [], "conversation": []}
    for _ in range(rounds):
        for side, sizes in found.items():
            command = [sys.executable, __file__, "--peak", side, str(many)]
            sizes.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    hand, hush, talk = (min(found[side]) for side in ("hand", "hush", "conversation"))
    verdict = "ok" if hush <= 1.5 * hand else "MISSED"
    print(f"peak memory: hush {hush} MB, by hand {hand} MB, ratio {hush / hand:.2f}; asked ≤ 1.5: {verdict}")
    print(f"peak memory of a conversation whose bounded rows are kept: {talk} MB, ratio {talk / hand:.2f}")


def main() -> None:
    if sys.argv[1:2] == ["--peak"]:
        peak(sys.argv[2], Path(sys.argv[3]))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as temporary:
        many, single = make(Path(temporary), rows)
        header = f"{'question':58} {'hush':>8} {'other':>8} {'ratio':>6}"
        print(f"{header}  {'asked':22}  {'hush':>7} {'other':>9} {'ratio':>5} (processor)")
        one_row_a_unit(single, rounds)
        many_rows_a_unit(many, rounds)
        private_keys(Path(temporary), rows, rounds)
        memory(many, rounds)


if __name__ == "__main__":
    main()
