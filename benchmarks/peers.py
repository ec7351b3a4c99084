"""Speed and memory: hush against OpenDP with Polars and Tumult on Spark, on the same questions.

Run ``python benchmarks/peers.py [--rows 10000000] [--tumult-rows 1000000]``. The tables are those of `queries.py`:

* GROUP BY city over 1,000 public cities, ten rows a person, each counted in at most 3 cities and 5 rows a city;
* a filtered sum over 1,000 rows, a different one each time, in a running process.

Each library runs in a process of its own; loading it and opening its session are not counted, asking the question is.
Memory is the peak of what the process and its children have for themselves, sampled ten times a second. A peer that
cannot run here is named and left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from others.environment import HERE, AbsentError, run, watched
from queries import CITIES, make


def timed(name: str, **arguments: Any) -> dict[str, Any] | None:
    try:
        if name == "hush":
            return watched([sys.executable, HERE / "hush_speed.py", json.dumps(arguments)], name)
        return run(name, f"{name}_speed.py", **arguments)
    except AbsentError as absent:
        print(f"left out: {absent}", flush=True)
        return None


def large(rows: int, peers: dict[str, int], place: Path) -> bool:
    many, single = make(place, rows)
    single.unlink()
    cities = [f"city_{index}" for index in range(CITIES)]
    won = True
    ours: dict[str, Any] = {}
    for name, repeats in {"hush": 3, **peers}.items():
        found = timed(name, table=str(many), cities=cities, repeats=repeats)
        if found is None:
            continue
        ours = ours or found
        first, best = found["times"][0], min(found["times"])
        ratio = "" if name == "hush" else f"{best / min(ours['times']):6.0f} times hush's"
        memory = "" if name == "hush" else f"{found['memory'] / ours['memory']:5.1f} times hush's"
        print(
            f"GROUP BY city, {rows:>10,} rows  {name:8} first {first:7.2f} s, best {best:7.2f} s {ratio:18}"
            f" {found['memory']:6.0f} MB {memory}",
            flush=True,
        )
        won &= name == "hush" or best > min(ours["times"])
    many.unlink()
    return won


def small() -> bool:
    won, ours = True, 0.0
    for name, repeats in {"hush": 21, "opendp": 7, "tumult": 5}.items():
        found = timed(name, table=None, repeats=repeats)
        if found is None:
            continue
        middle = statistics.median(found["times"][1:])
        ours = ours or middle
        ratio = "asked: under 50 ms" if name == "hush" else f"{middle / ours:.0f} times hush's"
        print(f"a sum over 1,000 rows         {name:8} median {middle * 1000:7.1f} ms  {ratio}", flush=True)
        won &= middle < 0.05 if name == "hush" else middle > ours
    return won


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tumult-rows", type=int, default=1_000_000, help="0 leaves it out, as does having no Java")
    asked = parser.parse_args()
    won = small()
    with tempfile.TemporaryDirectory() as place:
        sizes: dict[int, dict[str, int]] = {}
        for name, rows, repeats in (("opendp", asked.rows, 2), ("tumult", asked.tumult_rows, 1)):
            if rows:
                sizes.setdefault(rows, {})[name] = repeats
        for rows, peers in sorted(sizes.items()):
            won &= large(rows, peers, Path(place))
    print("hush is faster everywhere" if won else "MISSED: hush is not faster everywhere, or a small question is slow")
    return int(not won)


if __name__ == "__main__":
    sys.exit(main())
