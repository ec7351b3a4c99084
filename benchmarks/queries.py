"""Questions on 10 million rows: hush against plain DuckDB and against the best bounding statement known.

Run ``python benchmarks/queries.py [rows]``; it makes its tables in a temporary directory. Every line prints hush's
time, the time of the comparison in the same run, and what is asked of the ratio.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from hush.curator import opening

CITIES = 1000


def make(directory: Path, rows: int) -> tuple[Path, Path]:
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


def best(function: Callable[[], object], repeat: int = 3) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as temporary:
        many, single = make(Path(temporary), rows)
        run(many, single)


def run(many: Path, single: Path) -> None:
    cities = [f"city_{index}" for index in range(CITIES)]
    bounds = {"age": (0, 120), "cost": (0, 5000, "0.01")}
    budget = {"epsilon": 10**6}
    plain = duckdb.connect()

    def fresh(curator: opening.Curator, sql: str) -> Callable[[], object]:
        def ask() -> object:
            curator._desks["data"].engine.forget()  # noqa: SLF001 - measure the engine, not the cache
            return curator.ask(sql, epsilon=1)

        return ask

    print(f"{'question':46} {'hush':>8} {'other':>8} {'ratio':>6}  asked")
    rows_are_units = opening.protect(single, bounds=bounds, values={"city": cities}, budget=budget)
    for sql in (
        "SELECT COUNT(*) FROM data",
        "SELECT SUM(cost) FROM data",
        "SELECT AVG(age) FROM data",
        "SELECT city, COUNT(*) AS n FROM data GROUP BY city",
        "SELECT city, COUNT(*) AS n, SUM(age) AS s, AVG(cost) AS m FROM data GROUP BY city",
    ):
        mine = best(fresh(rows_are_units, sql))
        theirs = best(lambda sql=sql: plain.execute(sql.replace("data", f"'{single}'")).fetchall())
        verdict = "ok" if mine <= 1.5 * theirs + 0.05 else "MISSED"
        print(f"{sql[:46]:46} {mine:8.3f} {theirs:8.3f} {mine / theirs:6.2f}  ≤ 1.5 + 50 ms: {verdict}")
    rows_are_units.close()

    owned = opening.protect(
        many, unit="user_id", bounds=bounds, values={"city": cities}, budget=budget, max_groups=3, max_rows=5
    )
    by_hand = f"""
        WITH k AS (SELECT unnest({cities}) AS city, unnest(range({CITIES}))::SMALLINT AS code),
        r AS (SELECT u, k, dense_rank() OVER (PARTITION BY u ORDER BY hash(u, k, 77), k) AS d
              FROM (SELECT user_id AS u, code AS k FROM '{many}' JOIN k USING (city))),
        b AS (SELECT u, k, count(*) AS n FROM r WHERE d <= 3 GROUP BY u, k)
        SELECT k, sum(least(n, 5)) FROM b GROUP BY k"""
    sql = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"
    theirs = best(lambda: plain.execute(by_hand).fetchall())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mine = best(fresh(owned, sql))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict = "ok" if mine <= 1.3 * theirs else "MISSED"
    print(f"{'GROUP BY city, 3 groups a unit':46} {mine:8.3f} {theirs:8.3f} {mine / theirs:6.2f}  ≤ 1.3: {verdict}")
    print(f"peak memory {before // 1024} MB by hand, {after // 1024} MB with hush's own; asked: at most 1.5 times")
    again = best(lambda: owned.ask(sql, epsilon=1))
    other = best(fresh(owned, "SELECT city, SUM(cost) AS s, AVG(age) AS m FROM data GROUP BY city"))
    print(f"asked again: {again:.3f} s; another question with the same groups: {other:.3f} s")
    owned.close()

    import pyarrow as pa

    small = opening.protect(
        pa.table({"id": list(range(1000)), "x": [1.0] * 1000}), unit="id", bounds={"x": (0, 2)}, budget=budget
    )
    small.ask("SELECT SUM(x) FROM data", epsilon=1)
    times = [best(fresh(small, f"SELECT SUM(x) FROM data WHERE x > {at}"), 1) for at in range(20)]
    print(f"1,000 rows: {sorted(times)[10] * 1000:.1f} ms in the median; asked: under 50 ms")
    small.close()


if __name__ == "__main__":
    main()
