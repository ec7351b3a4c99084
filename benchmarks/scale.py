"""What a question on Spark takes as rows grow: its plan, the bytes it shuffles, CPU, time, and memory; and 10¹² rows.

Run ``python benchmarks/scale.py [rows …]``. The rows are those of `engines`, ten for each unit, and lie in a parquet
file below TMPDIR. The question is asked twice, and what is printed is of the second time; beyond a million rows it is
asked once, in a JVM that smaller tables have warmed:

* the plan: characters of the statement, and nodes of the physical plan;
* what its stages wrote for each other, and what they wrote to disk because memory was short, as Spark counts it;
* CPU seconds of the JVM and of this process, and seconds by the clock;
* the driver: its tasks, the bytes that they sent to it, with Spark's counters of each task, and what lives in its heap
  afterwards, once garbage is collected;
* memory: the most that this process and its JVM have had, in which a local Spark has driver and workers.

Then come figures for more rows, from the constants of the largest table: so much for each row, and the same plan. Spark
is given a task for each four million rows behind the shuffle, and at least eight, so that no task grows with the rows.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import EPSILON, QUESTION, SparkBench

ASKED = 16
"""GB that a hundred million rows may take."""
A_TASK, TWICE = 4 * 10**6, 10**6


class ScaleBench(SparkBench):
    """Spark with tasks of one size."""

    def fill(self, tables: dict[str, Path]) -> None:
        self.partitions = max(8, self.rows // A_TASK)
        super().fill(tables)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one question took."""

    rows: int
    characters: int
    nodes: int
    shuffled: int
    spilled: int
    cpu: float
    clock: float
    tasks: int
    sent: int
    live: int
    memory: float
    groups: int

    HEADER = (
        f"{'rows':>13} {'characters':>10} {'nodes':>5} {'shuffle MB':>10} {'bytes/row':>9} {'spilt MB':>8} "
        f"{'CPU s':>7} {'CPU µs/row':>10} {'clock s':>7} {'tasks':>5} {'sent KB':>7} {'live MB':>7} "
        f"{'peak GB':>7} {'groups':>6}"
    )

    def __str__(self) -> str:
        return (
            f"{self.rows:>13,} {self.characters:>10,} {self.nodes:>5} {self.shuffled / 10**6:>10.1f} "
            f"{self.shuffled / self.rows:>9.1f} {self.spilled / 10**6:>8.1f} {self.cpu:>7.1f} "
            f"{10**6 * self.cpu / self.rows:>10.2f} {self.clock:>7.1f} {self.tasks:>5} "
            f"{self.sent / 1000:>7.0f} {self.live / 10**6:>7.0f} {self.memory:>7.2f} {self.groups:>6,}"
        )


def peak() -> float:
    """Return the most memory, in GB, that this process and those that it started have had, added up."""
    processes = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it ended meanwhile
            continue
        processes[int(status.parent.name)] = int(lines["PPid"]), int(lines.get("VmHWM", "0 kB").split()[0])
    family = {os.getpid()}
    for _ in range(8):
        family |= {process for process, (parent, _) in processes.items() if parent in family}
    return sum(processes[process][1] for process in family if process in processes) / 10**6 * 1.024


def counted(session: Any) -> tuple[int, ...]:
    """Return the bytes that stages have shuffled, spilt to disk and sent to the driver, and their tasks, until now."""
    context = session.sparkContext
    empty = context._gateway.new_array(context._gateway.jvm.double, 0)  # noqa: SLF001 - PySpark does not offer it
    stages = context._jsc.sc().statusStore().stageList(None, False, False, empty, None)  # noqa: SLF001
    found = [stages.apply(at) for at in range(stages.size())]
    return (
        sum(stage.shuffleWriteBytes() for stage in found),
        sum(stage.diskBytesSpilled() for stage in found),
        sum(stage.resultSize() for stage in found),
        sum(stage.numCompleteTasks() for stage in found),
    )


def live(session: Any) -> int:
    """Return how many bytes of the JVM's heap are in use when garbage has been collected."""
    machine = session.sparkContext._jvm  # noqa: SLF001
    machine.System.gc()
    time.sleep(1)
    machine.System.gc()
    runtime = machine.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def planned(curator: Any) -> tuple[int, int]:
    """Return how many characters the question's statements have, and how many nodes their physical plans."""
    data_set, plan = curator.plan(QUESTION, epsilon=EPSILON)
    compiled = data_set.engine.prepare(plan)
    texts = [item.text for item in compiled.statements]
    nodes = 0
    with data_set.engine.connection.begin() as transaction:  # as the engine itself runs them
        for item in compiled.statements:
            frame = transaction._query(item, compiled.lists.parameters)  # noqa: SLF001
            execution = frame._jdf.queryExecution()  # noqa: SLF001
            nodes += len(execution.executedPlan().treeString().splitlines())
    return sum(map(len, texts)), nodes


def measure(bench: SparkBench, rows: int) -> Figures:
    """Ask once or twice, and return the last time's figures."""
    session = bench._session  # noqa: SLF001 - of this folder
    with bench.curator("many") as curator:
        characters, nodes = planned(curator)
        if rows <= TWICE:
            curator.ask(QUESTION, epsilon=EPSILON, fresh=True)
        before, bytes_, start = bench.cpu(), counted(session), time.perf_counter()
        answer = curator.ask(QUESTION, epsilon=EPSILON, fresh=True)
        seconds, clock = bench.cpu() - before, time.perf_counter() - start
        time.sleep(2)  # Spark counts what has ended a little later
        shuffled, spilled, sent, tasks = (
            after - earlier for after, earlier in zip(counted(session), bytes_, strict=True)
        )
        return Figures(
            rows=rows, characters=characters, nodes=nodes, shuffled=shuffled, spilled=spilled, cpu=seconds,
            clock=clock, tasks=tasks, sent=sent, live=live(session), memory=peak(), groups=len(answer.rows()),
        )  # fmt: skip


def larger(figures: Figures) -> None:
    """Print what more rows would take, by the constants of a table."""
    print(f"\nby the constants of {figures.rows:,} rows; the plan and what the driver holds stay as they are")
    print(f"{'rows':>8} {'shuffle':>10} {'CPU hours':>10} {'100 cores':>12} {'1,000 cores':>12} {'10,000 cores':>12}")
    for power in (9, 10, 11, 12):
        seconds = figures.cpu / figures.rows * 10**power
        volume = figures.shuffled / figures.rows * 10**power / 10**9
        times = " ".join(f"{seconds / cores:>10,.0f} s" for cores in (100, 1000, 10_000))
        print(f"{f'10^{power}':>8} {volume:>7,.0f} GB {seconds / 3600:>10,.1f} {times}")


def main(arguments: list[str]) -> int:
    print(Figures.HEADER)
    missed, figures = False, None
    with tempfile.TemporaryDirectory(prefix="hush-scale-", ignore_cleanup_errors=True) as folder:
        for rows in map(int, arguments or ["1000000"]):
            bench = ScaleBench(Path(folder), rows)
            try:
                figures = measure(bench, rows)
                print(figures, flush=True)
            finally:
                bench.close()
                bench.paths["many"].unlink()
            missed |= figures.memory > ASKED
    if figures is not None:
        print(f"memory asked ≤ {ASKED} GB: {'MISSED' if missed else 'ok'}")
        larger(figures)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
