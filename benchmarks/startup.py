"""Start-up: what a command costs from the shell, against importing the libraries that it stands on.

Run ``python benchmarks/startup.py [rounds]``. A policy, a CSV file of 1,000 rows and a ledger lie on disk; each line is
a process of its own, with bytecode that an earlier round has written, as after an installation. A line has the least
processor time, the least time by the clock, and the ratio of processor times to that of importing DuckDB, sqlglot,
NumPy, typer and rich together. The last line says how many modules of hush a question loads, and in how many of them a
function runs. Asked: ``hush ask`` in 0.5 s, ``hush --help`` in 0.3 s, ``import hush`` in 0.15 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 1000
POLICY = """\
[data.shop]
unit = "id"
budget = { epsilon = "1000000", delta = "1e-3" }

[data.shop.tables.people]
source = "people.csv"
columns.age = { type = "integer", lower = 0, upper = 120 }
columns.city = { type = "text", values = ["A", "B", "C"] }

[analysts.me]
data = ["shop"]
budget = { epsilon = "1000000", delta = "1e-3" }
"""
QUESTION = "SELECT city, COUNT(*) AS n FROM people GROUP BY city"
HUSH = [sys.executable, "-c", "from hush.cli import main; main()"]
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "libraries": [sys.executable, "-c", "import duckdb, sqlglot, numpy, typer, rich"],
    "import hush": [sys.executable, "-c", "import hush"],
    "hush --help": [*HUSH, "--help"],
    "hush explain": [*HUSH, "explain", QUESTION, "--epsilon", "0.5"],
    "hush ask": [*HUSH, "ask", QUESTION, "--epsilon", "0.5", "--fresh"],
}
TRACE = """
import sys, threading
ran, inlined = set(), {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
def follow(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    code = frame.f_code  # functions, not bodies of classes, nor comprehensions, which belong to whoever runs them
    if event == "call" and code.co_flags & 1 and name.startswith("hush") and code.co_name not in inlined:
        ran.add(name)
threading.setprofile(follow)
sys.setprofile(follow)
from hush.cli import main
try:
    main()
except SystemExit:
    sys.setprofile(None)
print(sum(name.startswith("hush") for name in sys.modules), len(ran))
"""


def main() -> None:
    """Print a line for each command."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows = "".join(f"{row},{18 + row % 70},{'ABC'[row % 3]}\n" for row in range(ROWS))
        (place / "people.csv").write_text("id,age,city\n" + rows, encoding="utf-8")
        (place / "hush.toml").write_text(POLICY, encoding="utf-8")
        path = [str(Path(entry).resolve()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        environment = os.environ | {
            "PYTHONPYCACHEPREFIX": str(place / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPATH": os.pathsep.join(path),
            "XDG_STATE_HOME": str(place / "state"),
        }

        def run(words: list[str]) -> tuple[float, float, str]:
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            done = subprocess.run(words, cwd=place, env=environment, check=True, capture_output=True, text=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return spent, time.perf_counter() - started, done.stdout

        run([*HUSH, "ledger", "open"])
        taken = {name: [run(words)[:2] for _ in range(rounds + 1)][1:] for name, words in COMMANDS.items()}
        base = min(spent for spent, _ in taken["libraries"])
        for name, times in taken.items():
            spent, clock = min(spent for spent, _ in times), min(clock for _, clock in times)
            print(f"{name:14s} processor {spent:6.3f} s   clock {clock:6.3f} s   {spent / base:5.2f} × libraries")
        loaded, ran = run([sys.executable, "-c", TRACE, *COMMANDS["hush ask"][3:]])[2].split()[-2:]
        print(f"modules of hush in hush ask: {loaded} loaded, a function runs in {ran} of them")


if __name__ == "__main__":
    main()
