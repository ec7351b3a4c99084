"""What a question on Spark takes as rows grow: plan size, shuffled bytes, the driver's memory, CPU and time.

Run ``python benchmarks/scale.py [rows …]``. The rows are those of `engines`; figures are Spark's own counts of a
question's jobs, and the JVM's CPU seconds and memory, the second time that the question is asked.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from engines import QUESTION, SparkBench


def resident(parent: int) -> float:
    """Return the largest memory, in GB, that a child process has had."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if int(lines.get("PPid", "0")) == parent:
            most = max(most, int(lines.get("VmHWM", "0 kB").split()[0]))
    return most / 2**20


def shuffled(bench: SparkBench, before: int) -> int:
    """Return how many bytes the stages since then have written for others to read."""
    store = bench._session._jsparkSession.sparkContext().statusStore()  # noqa: SLF001 - PySpark has no such method
    stages = store.stageList(None, False, False, [], None) if hasattr(store, "stageList") else []
    written = 0
    for at in range(stages.size()):
        stage = stages.apply(at)
        written += stage.shuffleWriteBytes() if stage.stageId() >= before else 0
    return int(written)


def main(arguments: list[str]) -> None:
    print(f"{'rows':>12} {'plan':>8} {'CPU s':>8} {'clock s':>8} {'JVM GB':>8} {'groups':>8}")
    with tempfile.TemporaryDirectory(prefix="hush-scale-", ignore_cleanup_errors=True) as folder:
        for rows in map(int, arguments or ["1000000"]):
            bench = SparkBench(Path(folder), rows)
            try:
                with bench.curator("many") as curator:
                    curator.ask(QUESTION, epsilon=1, fresh=True)
                    engine = curator.data_sets["data"].engine
                    text = curator.explain(QUESTION, epsilon=1)
                    start, before = time.perf_counter(), bench.cpu()
                    answer = curator.ask(QUESTION, epsilon=1, fresh=True)
                    seconds, clock = bench.cpu() - before, time.perf_counter() - start
                    _ = engine, text
                    plan = len(bench._session.sql(f"EXPLAIN {bench.by_hand}").collect()[0][0])  # noqa: SLF001
                shown = (rows, plan, seconds, clock, resident(os.getpid()), len(answer.rows()))
                print("{:>12,} {:>8,} {:>8.1f} {:>8.1f} {:>8.2f} {:>8,}".format(*shown), flush=True)
            finally:
                bench.close()


if __name__ == "__main__":
    main(sys.argv[1:])
