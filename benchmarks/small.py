"""Questions on 1,000 rows: milliseconds of every shape of question, against plain DuckDB on a plain version of it.

Run ``python benchmarks/small.py [rounds]``. One process has a policy, two parquet files of 1,000 rows and a ledger on
disk open, and asks every shape many times, each time with another number in it, so that no earlier answer and no rows
kept of it can be used; that the engine understands such a statement is known. A line has
the median and the best time by the clock, the least of the processor, plain DuckDB's best on the same files, and the
ratio of the best. What is asked of each is 50 ms; the ratio only says what privacy adds. On a machine with other work,
read the best.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb

from hush.curator.opening import Curator, open_policy

ASKED = 50.0
ROWS = 1000
KEYS = 1000
DELTA = "1e-9"
POLICY = """\
[data.shop]
engine = "duckdb"
unit = "id"
budget = {{ epsilon = "1000000", delta = "1e-3" }}

[data.shop.tables.sales]
source = "sales.parquet"
max_groups = 2
max_rows = 2
columns.x    = {{ type = "decimal", lower = 0, upper = 2 }}
columns.y    = {{ type = "decimal", lower = 0, upper = 2 }}
columns.age  = {{ type = "integer", lower = 0, upper = 120 }}
columns.day  = {{ type = "date", lower = 2025-01-01, upper = 2025-12-31 }}
columns.g    = {{ type = "text", values = ["a", "b", "c", "d"] }}
columns.city = {{ type = "text", values = [{cities}] }}
columns.word = {{ type = "text" }}

[data.shop.tables.bills]
source = "bills.parquet"
max_groups = 2
max_rows = 2
columns.paid = {{ type = "decimal", lower = 0, upper = 50, step = "0.01" }}
columns.kind = {{ type = "text", values = ["cash", "card"] }}

[analysts.me]
data = ["shop"]
budget = {{ epsilon = "1000000", delta = "1e-3" }}
"""
NUMBERS = itertools.count()
MANY = "COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, MEDIAN(x) AS h, CORR(x, y) AS r"
AGGREGATES = (
    "COUNT(*)",
    "COUNT(DISTINCT word)",
    "SUM(x)",
    "AVG(x)",
    "VARIANCE(x)",
    "STDDEV(x)",
    "COVAR_SAMP(x, y)",
    "CORR(x, y)",
    "MEDIAN(x)",
    "MEDIAN(age)",
    "QUANTILE(x, 0.9)",
    "MIN(x)",
    "MAX(day)",
    "MODE(g)",
)
BY_KEY = ("COUNT(*)", "SUM(x)", "AVG(x)", "CORR(x, y)", "MEDIAN(x)")


def shapes() -> list[tuple[str, str, str]]:
    """Return each shape's name, its text and the plain version; ``{}`` is a number that differs each time."""
    found = []
    for aggregate in AGGREGATES:
        plain = aggregate.replace("QUANTILE", "QUANTILE_CONT")
        found.append((aggregate, aggregate, plain))
    found.append(("COUNT, SUM, AVG, MEDIAN, CORR", MANY, MANY))
    listed = [
        (what, f"SELECT {mine} FROM sales WHERE x > {{}}", f"SELECT {plain} FROM sales WHERE x > {{}}")
        for what, mine, plain in found
    ]
    for key, words in (("g", "4 keys"), ("city", f"{KEYS} keys"), ("word", "private keys")):
        for aggregate in (*BY_KEY, MANY):
            text = f"SELECT {key}, {aggregate} FROM sales WHERE x > {{}} GROUP BY {key}"
            listed.append((f"{found[-1][0] if aggregate is MANY else aggregate} BY {words}", text, text))
    joined = "FROM sales JOIN bills ON sales.id = bills.id WHERE x > {}"
    each = "FROM (SELECT id, COUNT(*) AS n, SUM(x) AS s FROM sales WHERE x > {} GROUP BY id) AS t"
    rolled = "FROM sales WHERE x > {} GROUP BY ROLLUP (g, b)"
    window = "SELECT k, n, n / SUM(n) OVER () AS share, RANK() OVER (ORDER BY n DESC) AS r FROM"
    counted = "COUNT(*) AS n FROM sales WHERE x > {}"
    for what, text in (
        ("COUNT over a JOIN", f"SELECT COUNT(*) AS n {joined}"),
        ("SUM(paid) over a JOIN BY kind", f"SELECT kind, SUM(paid) AS s {joined} GROUP BY kind"),
        ("CORR(x, paid) over a JOIN", f"SELECT CORR(x, paid) AS r {joined}"),
        ("MEDIAN(paid) over a JOIN", f"SELECT MEDIAN(paid) AS r {joined}"),
        ("AVG over a subquery per unit", f"SELECT AVG(CLIP(n, 0, 5)) AS m {each}"),
        ("MEDIAN over a subquery per unit", f"SELECT MEDIAN(CLIP(s, 0, 5)) AS m {each}"),
        ("COUNT, AVG BY ROLLUP (4 keys, 2 bins)", f"SELECT g, y > 1 AS b, COUNT(*) AS n, AVG(x) AS m {rolled}"),
        ("COUNT BY ROLLUP (private keys)", "SELECT word, COUNT(*) AS n FROM sales WHERE x > {} GROUP BY ROLLUP (word)"),
        (
            "share and rank over an answer BY 4 keys",
            f"{window} (SELECT g AS k, {counted} GROUP BY g) AS t",
        ),
        (
            f"share and rank over {KEYS} keys",
            f"{window} (SELECT city AS k, {counted} GROUP BY city) AS t",
        ),
    ):
        listed.append((what, text, text.replace("CLIP(n, 0, 5)", "n").replace("CLIP(s, 0, 5)", "s")))
    return listed


def make(directory: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i // 2 AS id, (hash(i) % 2000) / 1000 AS x, (hash(i + {ROWS}) % 2000) / 1000 AS y, "
            "(hash(i * 3) % 121)::INTEGER AS age, DATE '2025-01-01' + (hash(i * 5) % 365)::INTEGER AS day, "
            f"chr((97 + hash(i * 7) % 4)::INTEGER) AS g, 'city_' || hash(i * 11) % {KEYS} AS city, "
            f"'word_' || hash(i * 13) % 8 AS word FROM range({ROWS}) AS t(i)) TO '{directory}/sales.parquet'"
        )
        connection.execute(
            f"COPY (SELECT i // 2 AS id, (hash(i * 17) % 5000) / 100 AS paid, "
            f"CASE WHEN hash(i * 19) % 2 = 0 THEN 'cash' ELSE 'card' END AS kind FROM range({ROWS}) AS t(i)) "
            f"TO '{directory}/bills.parquet'"
        )
    cities = ", ".join(f'"city_{index}"' for index in range(KEYS))
    (directory / "hush.toml").write_text(POLICY.format(cities=cities), encoding="utf-8")


def spent(curator: Curator, plain: duckdb.DuckDBPyConnection, mine: str, theirs: str, rounds: int) -> list[float]:
    """Return hush's median, its best and its least processor time, and plain DuckDB's best, in ms."""
    found: list[tuple[float, float, float]] = []
    for _ in range(rounds + 1):
        low = f"0.{next(NUMBERS):06}1"
        start, cpu = time.perf_counter(), time.process_time()
        curator.ask(mine.format(low), epsilon=1, delta=DELTA, fresh=True)
        middle, used = time.perf_counter(), time.process_time() - cpu
        plain.execute(theirs.format(low)).fetchall()
        found.append((middle - start, used, time.perf_counter() - middle))
    wall, processor, other = zip(*found[1:], strict=True)  # the first question of a shape has its statements resolved
    return [1000 * figure for figure in (median(wall), min(wall), min(processor), min(other))]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    figures = f"{'median':>7} {'best':>7} {'(cpu)':>7} {'plain':>6} {'ratio':>6}"
    print(f"{'on 1,000 rows, in ms':46} {figures}  asked: {ASKED:.0f} ms")
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as plain:
        make(Path(temporary))
        for table in ("sales", "bills"):
            plain.execute(f"CREATE VIEW {table} AS FROM '{temporary}/{table}.parquet'")
        with open_policy(Path(temporary) / "hush.toml", create=True) as curator:
            for what, mine, theirs in shapes():
                middle, best, cpu, other = spent(curator, plain, mine, theirs, rounds)
                worst = max(worst, middle)
                verdict = "ok" if middle < ASKED else "MISSED"
                figures = f"{middle:7.1f} {best:7.1f} {cpu:7.1f} {other:6.1f} {best / other:6.1f}"
                print(f"{what:46} {figures}  {verdict}", flush=True)
    print(f"the slowest: {worst:.1f} ms; asked under {ASKED:.0f} ms: {'ok' if worst < ASKED else 'MISSED'}")


if __name__ == "__main__":
    main()
