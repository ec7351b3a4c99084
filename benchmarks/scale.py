"""What a question on Spark takes as rows grow: the bytes it shuffles, CPU, time, and memory.

Run ``python benchmarks/scale.py [rows …]``. The rows are those of `engines`. Bytes are Spark's own count of what its
stages wrote for each other; CPU seconds are those of the JVM and of this process, the second time that the question is
asked; memory is the most that the JVM has had, in which a local Spark has its driver and its workers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from engines import QUESTION, SparkBench


def memory(parent: int) -> float:
    """Return the most memory, in GB, that a child process has had."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it ended meanwhile
            continue
        if int(lines["PPid"]) == parent:
            most = max(most, int(lines.get("VmHWM", "0 kB").split()[0]))
    return most / 2**20


def shuffled(session: Any) -> int:
    """Return how many bytes stages have written for each other since the session began."""
    context = session.sparkContext
    empty = context._gateway.new_array(context._gateway.jvm.double, 0)  # noqa: SLF001 - PySpark does not offer it
    stages = context._jsc.sc().statusStore().stageList(None, False, False, empty, None)  # noqa: SLF001
    return sum(stages.apply(at).shuffleWriteBytes() for at in range(stages.size()))


def measure(bench: SparkBench, rows: int) -> str:
    """Ask twice, and return the second time's figures."""
    session = bench._session  # noqa: SLF001 - of this folder
    with bench.curator("many") as curator:
        curator.ask(QUESTION, epsilon=1, fresh=True)
        before, bytes_, start = bench.cpu(), shuffled(session), time.perf_counter()
        answer = curator.ask(QUESTION, epsilon=1, fresh=True)
        seconds, clock, moved = bench.cpu() - before, time.perf_counter() - start, shuffled(session) - bytes_
        groups = len(answer.rows())
    return (
        f"{rows:>12,} {moved / 2**20:>12.1f} {moved / rows:>12.1f} {seconds:>8.1f} {10**6 * seconds / rows:>12.2f} "
        f"{clock:>8.1f} {memory(os.getpid()):>8.2f} {groups:>8,}"
    )


def main(arguments: list[str]) -> None:
    named = ("rows", 12), ("shuffle MB", 12), ("bytes/row", 12), ("CPU s", 8), ("CPU µs/row", 12), ("clock s", 8)
    print(" ".join(f"{name:>{width}}" for name, width in (*named, ("GB", 8), ("groups", 8))))
    with tempfile.TemporaryDirectory(prefix="hush-scale-", ignore_cleanup_errors=True) as folder:
        for rows in map(int, arguments or ["1000000"]):
            bench = SparkBench(Path(folder), rows)
            try:
                print(measure(bench, rows), flush=True)
            finally:
                bench.close()


if __name__ == "__main__":
    main(sys.argv[1:])
