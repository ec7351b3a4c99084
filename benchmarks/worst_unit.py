"""What one unit can cost: seconds and bytes of the worst unit of every construct, against the same tables without it.

Run ``python benchmarks/worst_unit.py [rows]``. The tables have 2,000 ordinary people; the worst unit has 100,000 rows
(or as many as are said), each with texts of 10,000 characters or as long as the construct is about. Every question
runs in a process of its own, once with the unit and once without. A line has the processor's seconds and the most
memory of both, their differences, and what was bounded before the charge. Asked: 5 s and 1 GB.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import hush
from hush.curator.curator import Curator

SECONDS, BYTES = 5.0, 10**9
ROWS = 10**5
LONG = "aé😀b" * 2500
JOINS = "".join(f" JOIN (SELECT id AS i{at} FROM data) j{at} ON id = i{at}" for at in range(4))
ALL = "SELECT t, MEDIAN(CLIP(LENGTH(UPPER(t) || z), 0, 9)) AS m FROM data, r WHERE t LIKE '%a__b%' GROUP BY t"
CONSTRUCTS = {
    "rows": ("SELECT COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m FROM data", "short"),
    "many medians": ("SELECT " + ", ".join(f"MEDIAN(x + {at}) AS m{at}" for at in range(20)) + " FROM data", "short"),
    "functions": ("SELECT SUM(CLIP(" + " + ".join(f"EXP(LN(x + {at}.5))" for at in range(45)) + ", 0, 9)) AS s FROM data", "short"),
    "a join of five": (f"SELECT COUNT(*) AS n FROM data{JOINS}", "few"),
    "a join of five, times a public table": (f"SELECT COUNT(*) AS n FROM data{JOINS}, r", "few"),
    "a public table": ("SELECT COUNT(*) AS n FROM data, r", "short"),
    "texts as keys": ("SELECT t, COUNT(*) AS n FROM data GROUP BY t", "long"),
    "distinct texts": ("SELECT COUNT(DISTINCT t) AS n FROM data", "long"),
    "distinct numbers": ("SELECT SUM(DISTINCT x) AS s, AVG(DISTINCT x * 0.5) AS a FROM data", "short"),
    "texts joined": ("SELECT SUM(CLIP(LENGTH(CONCAT(" + ", ".join(["t"] * 32) + ")), 0, 9)) AS s FROM data", "long"),
    "upper case": ("SELECT SUM(CLIP(" + " + ".join(f"LENGTH(UPPER(t || '{at}'))" for at in range(10)) + ", 0, 9)) AS s FROM data", "long"),
    "LIKE": ("SELECT COUNT(*) AS n FROM data WHERE t LIKE '%a_a%a_a%a_b%c'", "long"),
    "ILIKE": ("SELECT COUNT(*) AS n FROM data WHERE " + " OR ".join(f"t ILIKE '%a{at}_x%'" for at in range(5)), "long"),
    "a regular expression of few states": ("SELECT COUNT(*) AS n FROM data WHERE REGEXP_MATCHES(t, '(aé|a😀)+[^c]*x$')", "long"),
    "one of many states": ("SELECT COUNT(*) AS n FROM data WHERE REGEXP_MATCHES(t, 'a.{8}c')", "long"),
    "dates in texts": ("SELECT COUNT(*) AS n FROM data WHERE " + " OR ".join(f"CAST(t AS DATE) = DATE '2020-01-{at:02}'" for at in range(1, 20)), "long"),
    "one text of 20 MB": ("SELECT COUNT(*) AS n FROM data, r WHERE LENGTH(t || t || z) > 5", "vast"),
    "all together, as many rows as stay": (ALL, "some"),
    "all together": (ALL, "long"),
}  # fmt: skip


def frame(kind: str, rows: int) -> pa.Table:
    """Return the people, and the worst unit last."""
    many, text = {
        "short": (rows, "a"),
        "few": (14, "a"),
        "some": (24, LONG),
        "long": (rows, LONG),
        "vast": (1, "ab" * 10**7),
    }[kind]
    words = [f"{at}{text}" for at in range(97)] if text is LONG else [text]
    numbers = pa.array([0] * 2000 + [1 + at % len(words) for at in range(many)], pa.int32())
    texts = pa.DictionaryArray.from_arrays(numbers, pa.array(["ab", *words]))
    ids = list(range(2000)) + [-1] * many
    return pa.table({"id": ids, "x": [1.0 + at % 7 for at in range(len(ids))], "t": texts})


def opened(path: str) -> Curator:
    """Open a file of people."""
    public = pa.table({"z": [f"z{at}" for at in range(4096)]})
    return hush.protect(
        path, unit="id", bounds={"x": (0, 9)}, budget={"epsilon": 9, "delta": "1e-3"}, public={"r": public}
    )


def measure(path: str, sql: str) -> None:
    """Ask a question, and print what it took."""
    with opened(path) as curator:
        curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="1e-9", fresh=True)
        started, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            notes = list(curator.ask(sql, epsilon="1e-9", fresh=True).caveats)
        except hush.HushError as error:
            notes = ["charged, and failed" if len(curator.history()) > 1 else "refused", str(error)]
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = {"seconds": time.process_time() - started, "bytes": 1024 * (most - held), "notes": notes}
    print(json.dumps(found))


def asked(path: Path, sql: str) -> dict[str, object]:
    """Ask it in a process of its own."""
    command = [sys.executable, __file__, "--one", str(path), sql]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    return json.loads(done.stdout) if done.returncode == 0 else {"seconds": 0, "bytes": 0, "notes": ["killed"]}


def main() -> None:
    """Print a line for each construct."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(
        f"{'worst unit: ' + format(rows, ',') + ' rows':40} {'without':>9} {'with':>9} {'more':>8} {'memory':>9}  asked: 5 s, 1000 MB"
    )
    with tempfile.TemporaryDirectory() as directory:
        for what, (sql, kind) in CONSTRUCTS.items():
            whole = frame(kind, rows)
            paths = [Path(directory) / f"{name}.parquet" for name in ("without", "with")]
            for path, table in zip(paths, (whole.slice(0, 2000), whole), strict=True):
                pq.write_table(table, path)
            before, after = (asked(path, sql) for path in paths)
            more, memory = after["seconds"] - before["seconds"], after["bytes"] - before["bytes"]
            same = before["notes"] == after["notes"]
            verdict = "ok" if same and more <= SECONDS and memory <= BYTES else "NO"
            print(
                f"{what:40} {before['seconds']:8.2f}s {after['seconds']:8.2f}s {more:7.2f}s {memory / 1e6:6.0f} MB  {verdict}"
                f"{'' if same else ' other notes'}",
                flush=True,
            )
            for note in after["notes"]:
                print(f"    {note}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], sys.argv[3])
    else:
        main()
