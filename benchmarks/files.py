"""Questions about a large CSV file: the first, which reads it, against DuckDB's own read; the next against parquet's.

    python benchmarks/files.py 5000000

Prints ratios of processor time (all threads), measured in one run on one machine. A question about a small table comes
first, so that both sides have their modules loaded (`benchmarks/startup.py` measures these). Asked for: first ≤ 2,
next ≤ 1.5.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import hush

BOUNDS = {"cost": (0, 5000, "0.01"), "age": (0, 120, 1)}
CITIES = [f"city {number}" for number in range(20)]
FIRST = "SELECT city, COUNT(*) AS n, SUM(cost) AS s FROM data GROUP BY city"
NEXT = [
    "SELECT city, AVG(age) AS m FROM data GROUP BY city",
    "SELECT COUNT(*) AS n FROM data WHERE age < 40",
    "SELECT age, SUM(cost) AS s FROM data GROUP BY age",
    "SELECT city, COUNT(*) AS n FROM data WHERE cost > 1000 GROUP BY city",
]


def write(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write one table as CSV and as parquet."""
    with duckdb.connect() as base:
        base.execute(
            "CREATE TABLE t AS SELECT i AS id, 'city ' || (hash(i) % 20) AS city, "
            "round((hash(i + 1) % 500000) / 100, 2) AS cost, (hash(i + 2) % 121)::INT AS age, "
            "DATE '2020-01-01' + (hash(i + 3) % 1000)::INT AS day FROM range($1) r(i)",
            [rows],
        )
        base.execute(f"COPY t TO '{folder / 'table.csv'}' (HEADER)")
        base.execute(f"COPY t TO '{folder / 'table.parquet'}'")
    return folder / "table.csv", folder / "table.parquet"


def spent(act: object) -> float:
    """Return the processor time of an act, over all threads."""
    start = time.process_time()
    act()  # type: ignore[operator]
    return time.process_time() - start


def asked(path: Path, unit: str | None) -> tuple[float, list[float]]:
    """Return what the first question costs, with opening the file, and what each next one does."""
    opened: list[hush.Curator] = []

    def first() -> None:
        curator = hush.protect(path, unit=unit, bounds=BOUNDS, values={"city": CITIES}, budget=10**6)
        opened.append(curator)
        curator.ask(FIRST, epsilon=1)

    whole = spent(first)
    with opened[0] as curator:
        return whole, [spent(lambda text=text: curator.ask(text, epsilon=1)) for text in NEXT]


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as place:
        texts, columns = write(Path(place), rows)

        def own_read() -> None:
            with duckdb.connect() as base:
                base.execute(f"CREATE TABLE t AS FROM read_csv('{texts}')")
                base.execute("SELECT city, count(*), sum(cost) FROM t GROUP BY city").fetchall()

        small = Path(place) / "small"
        small.mkdir()
        asked(write(small, 1000)[0], "id")
        read = min(spent(own_read) for _ in range(3))
        print(f"{rows:,} rows: DuckDB's own read {read:.2f} s of processor time")
        for unit in (None, "id"):
            first, later = asked(texts, unit)
            whole, again = asked(columns, unit)
            print("every row is another person:" if unit is None else "one row a unit, which the engine must find out:")
            print(f"  first question: {first:.2f} s, {first / read:.2f} of the read; on parquet {whole:.2f} s")
            ratios = [one / other for one, other in zip(later, again, strict=True)]
            for text, one, other, ratio in zip(NEXT, later, again, ratios, strict=True):
                print(f"  {ratio:5.2f} = {one:.2f} s / {other:.2f} s  {text}")
            print(f"  next questions: median ratio {statistics.median(ratios):.2f} to parquet's")


if __name__ == "__main__":
    main()
