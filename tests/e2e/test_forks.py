"""A fork while another thread asks: the child neither hangs nor goes on with an engine that stayed behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import pyarrow as pa
from pyarrow import parquet
import hush
from hush.accounting import LaplaceEvent
from hush.curator.session import ForkedError
from hush.ledger import Actor, Ledger, LedgerError

COUNT = "SELECT COUNT(*) AS n FROM t"
how, forks = sys.argv[1], 20
parquet.write_table(pa.table({"id": list(range(100_000)), "x": [1] * 100_000}), "t.parquet")
with open("hush.toml", "x") as policy:
    policy.write('''[data.d]
unit = "id"
budget = { epsilon = 1e6 }
[data.d.tables.t]
source = "t.parquet"
columns.x = { type = "integer", lower = 0, upper = 5 }
[analysts.a]
data = ["d"]
budget = { epsilon = 1e6 }
''')
if how == "ledger":
    owner = Actor.owner("owner")
    ledger = Ledger.open("l.ledger", create=owner)
    ledger.create_data("d", {"epsilon": 10**6}, actor=owner)
    ledger.add_analyst("a", data="d", actor=owner)
    number = iter(range(10**9))

    def ask():
        name = f"{os.getpid()}-{next(number)}"
        ledger.reserve(name, analyst="a", data="d", question="q", events=LaplaceEvent(scale=1))
else:
    curator = hush.open("hush.toml", create=True)

    def ask():
        curator.ask(COUNT, epsilon=1)

ask()
ended = threading.Event()

def work():
    while not ended.is_set():
        ask()

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
told = []
for turn in range(forks):
    time.sleep(0.003 + 0.001 * turn)
    child = os.fork()
    if not child:
        signal.alarm(60)  # what hangs is killed, and counted
        try:
            ask()
            os._exit(3)
        except ForkedError:
            curator.close()
            os._exit(4)
    told.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended.set()
for thread in threads:
    thread.join()
ask()  # the parent goes on
if how == "ledger":
    assert ledger.verify().charges >= forks
print(sorted(set(told)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("how", "told"), [("ledger", {3}), ("curator", {3, 4})])
def test_a_child_of_a_busy_process_does_not_hang(how: str, told: set[int], tmp_path: Path) -> None:
    """A ledger connects afresh. A curator that was at work says so; one that was just idle answers."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, how],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stderr
    assert set(map(int, done.stdout.strip("[]\n").split(","))) <= told, done.stdout
