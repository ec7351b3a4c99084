"""A service under load: 200 analysts, two workers, and what of it must hold.

    python benchmarks/service.py [--analysts 200] [--each 20] [--workers 2]

It prints each figure as it is measured, and at the end all of them in one table beside the figures asked for, with how
busy the machine was: on a busy one times are upper bounds.

*   Explanations at 30 % of capacity: the 99th percentile against ten times what a single user waits.
*   Explanations without pauses: no error.
*   Questions without pauses: charges equal the ledger to the last fraction, nothing is overspent, every answer replays
    byte for byte; a worker is killed in the middle, and the other answers.
*   One analyst's heavy questions: what others wait for an explanation, before and meanwhile.
*   What an answer costs over the network beyond what it costs here, memory of a worker, time to start.

No two explanations are about the same question, so none comes from a cache; what a repeated one takes is printed as
well. The program itself runs on the same cores: it is one process with a thread for each analyst, so what it measures
are upper bounds. CPU time is printed beside the time waited for, because it depends less on who else is at work.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hush.cli.demo import POLICY, write_hospital
from hush.client import RemoteCurator, connect
from hush.core import HushError
from hush.curator.opening import open_policy
from hush.ledger import Actor, Ledger, Role
from hush.policy.file import Policy
from hush.policy.ledger import make_ledger
from hush.server.auth.people import People

NUMBERS = itertools.count()
HEAVY = (
    "SELECT region, sex, MEDIAN(cost) AS m, AVG(cost) AS a, COUNT(DISTINCT patient_id) AS p FROM visits "
    "GROUP BY region, sex"
)


def prepared(folder: Path, analysts: int) -> list[str]:
    """Write a hospital with many analysts and a large budget; return a token for each."""
    write_hospital(folder, 20_000)
    text = POLICY.replace('epsilon = "4", delta = "1e-7"', 'epsilon = "100000"').partition("[analysts.alice]")[0]
    names = [f"analyst{number}" for number in range(analysts)]
    text += "".join(f'[analysts.{name}]\ndata = ["clinic"]\nbudget = {{ epsilon = "1000" }}\n' for name in names)
    (folder / "hush.toml").write_text(text, encoding="utf-8")
    make_ledger(Policy.read(folder / "hush.toml"), anchor="none").close()
    people = People(folder / "hush.people")
    tokens = []
    for name in names:
        people.add(name, roles=[Role.ANALYST])
        tokens.append(people.make_token(name)[1])
    people.close()
    return tokens


def started(folder: Path, workers: int) -> tuple[subprocess.Popen[str], str, float]:
    """Start a service, and return it with its address and how long it took."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "hush", "serve", str(folder / "hush.toml"), "--port", "0", "--json"]
    command += ["--behind-proxy", "127.0.0.1"]  # analysts have addresses of their own, and those of one are limited
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["address"]
    while True:
        try:
            with urllib.request.urlopen(f"{address}/api/v1/health", timeout=5):  # noqa: S310 - this machine
                return process, address, time.monotonic() - begun
        except OSError:
            time.sleep(0.02)


def timed_explanation(curator: RemoteCurator, *, again: bool = False) -> float:
    number = 0 if again else next(NUMBERS)
    question = f"SELECT disease, COUNT(*) AS n FROM visits WHERE cost > {number} GROUP BY disease"
    begun = time.monotonic()
    curator.explain(question, epsilon="0.1")
    return time.monotonic() - begun


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time of all workers so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split() for pid in children(process)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    asked: str
    measured: str
    held: bool | None
    """Whether the figure is as good as was asked; None where nothing was asked."""


FIGURES: list[Figure] = []


def line(what: str, asked: str, measured: str, held: bool | None = None) -> None:
    """Keep a figure for the table, and show it at once."""
    FIGURES.append(Figure(what, asked, measured, held))
    print(f"... {what}: {measured}", flush=True)


def table() -> str:
    """Return all figures, each beside what was asked."""
    rows = [("figure", "asked", "measured", "held")]
    rows += [(one.what, one.asked, one.measured, {True: "yes", False: "NO", None: ""}[one.held]) for one in FIGURES]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    drawn = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([drawn[0], "  ".join("-" * width for width in widths), *drawn[1:]])


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()]


def memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    sys.setswitchinterval(0.0005)  # a thread that has its answer is not to wait for those that send
    parser = argparse.ArgumentParser()
    parser.add_argument("--analysts", type=int, default=200)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="hush-load-") as place:
        folder = Path(place)
        tokens = prepared(folder, chosen.analysts)
        process, address, seconds = started(folder, chosen.workers)
        try:
            shown = f"{seconds:.1f} s; CPU {cpu_seconds(process):.1f} s of all workers"
            line("start of the service", "<= 3 s", shown, seconds <= 3)
            measure(chosen, folder, process, [connect(address, token=token) for token in tokens])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(90)
    print(f"\n{chosen.analysts} analysts x {chosen.each}, {chosen.workers} workers, {os.cpu_count()} cores")
    print(f"load of the machine: {before:.1f} before, {os.getloadavg()[0]:.1f} after (of this program too)\n")
    print(table())


def measure(
    chosen: argparse.Namespace, folder: Path, process: subprocess.Popen[str], curators: list[RemoteCurator]
) -> None:
    alone = statistics.median(timed_explanation(curators[0]) for _ in range(40))
    again = statistics.median(timed_explanation(curators[0], again=True) for _ in range(40))
    line("an explanation alone, and repeated", "-", f"{1000 * alone:.1f} ms, {1000 * again:.1f} ms")
    explanations(chosen, curators, alone)
    questions(chosen, folder, process, curators)
    heavy(curators)
    overhead(folder, process, curators[0])
    most = max(map(memory, children(process)))
    line("memory of a worker", "<= 250 MB", f"{most:.0f} MB", most <= 250)


def explanations(chosen: argparse.Namespace, curators: list[RemoteCurator], alone: float) -> None:
    errors: list[str] = []

    def all_of(curator: RemoteCurator, pause: float) -> list[float]:
        waited = []
        time.sleep(pause * curators.index(curator) / len(curators))  # people do not begin at the same moment
        for _ in range(chosen.each):
            try:
                waited.append(timed_explanation(curator))
            except HushError as error:
                errors.append(str(error))
            time.sleep(pause)
        return waited

    begun = time.monotonic()
    with ThreadPoolExecutor(len(curators)) as threads:
        list(threads.map(lambda curator: all_of(curator, 0), curators))
    rate = len(curators) * chosen.each / (time.monotonic() - begun)
    line("explanations without pauses: errors", "0", f"{len(errors)} ({rate:.0f} a second)", not errors)
    pause = len(curators) / (0.3 * rate)
    with ThreadPoolExecutor(len(curators)) as threads:
        waited = [seconds for found in threads.map(lambda one: all_of(one, pause), curators) for seconds in found]
    p99 = percentile(waited, 0.99)
    shown = f"{p99 / alone:.1f} ({1000 * p99:.0f} ms)"
    line("explanations at 30 % of capacity: p99 / single median", "<= 10", shown, p99 <= 10 * alone)


def questions(
    chosen: argparse.Namespace, folder: Path, process: subprocess.Popen[str], curators: list[RemoteCurator]
) -> None:
    killed, refused, answers = threading.Event(), [], []
    recovered: list[float] = []

    def all_of(curator: RemoteCurator) -> None:
        for number in range(chosen.each):
            try:
                answer = curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="1/7", fresh=True)
                answers.append((curator, answer))
            except HushError as error:
                refused.append(error.code)
            if number == chosen.each // 2 and not killed.is_set():
                killed.set()
                os.kill(children(process)[0], signal.SIGKILL)
                begun = time.monotonic()
                timed_explanation(curator)
                recovered.append(time.monotonic() - begun)

    begun = time.monotonic()
    with ThreadPoolExecutor(len(curators)) as threads:
        list(threads.map(all_of, curators))
    rate = len(answers) / (time.monotonic() - begun)
    with Ledger.open(folder / "hush.ledger", anchor="none") as ledger:
        made = ledger.history(Actor.owner("benchmark"))
        views = ledger.budget(Actor.owner("benchmark"))
        kept = sum(
            ledger.stored_answer(release.number, Actor.analyst(release.analyst)) != b""
            for release in made
            if release.outcome == "answered"
        )
    view = next(view for view in views if view.analyst is None)
    overspent = [view.whose for view in views if view.spent.epsilon > view.epsilon]
    outcomes = {
        kind: sum(release.outcome == kind for release in made)
        for kind in ("answered", "failed", "abandoned", "pending")
    }
    exact = view.spent.epsilon == Fraction(1, 7) * len(made)
    line("questions: spent equals charges, to the last fraction", "yes", f"{exact} ({len(made)} charges)", exact)
    line("questions: budgets that are overspent", "0", str(len(overspent)), not overspent)
    same = sum(curator.answer(answer.receipt).to_bytes() == answer.to_bytes() for curator, answer in answers)
    shown = f"{same} of {len(answers)} ({rate:.0f} a second)"
    line("questions: answers with a receipt that replay byte for byte", "all", shown, same == len(answers))
    shown = f"{kept} of {outcomes['answered']} answered are kept; {outcomes['abandoned']} were at work"
    line("kill -9 of a worker: what was paid for is kept", "all", shown, kept == outcomes["answered"])
    shown = f"{len(refused)} {sorted(set(refused))}; {outcomes['answered'] - len(answers)} answered to nobody"
    told = outcomes["answered"] == len(answers) and len(refused) == outcomes["abandoned"]
    line("kill -9: questions without an answer", "what was at work", shown, told)
    line("kill -9: the other worker answers", "<= 1 s", f"{recovered[0]:.2f} s", recovered[0] <= 1)


def heavy(curators: list[RemoteCurator]) -> None:
    before = [timed_explanation(curator) for curator in curators[1:21] for _ in range(3)]
    done = threading.Event()

    def many() -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: curators[0].ask(HEAVY, epsilon="1/9", fresh=True), range(50)))
        done.set()

    threading.Thread(target=many, daemon=True).start()
    meanwhile = []
    while not done.is_set():
        meanwhile += [timed_explanation(curator) for curator in curators[1:21]]
    ratio = percentile(meanwhile, 0.95) / percentile(before, 0.95)
    line("one's 50 heavy questions: others' explain p95", "<= 3 x before", f"{ratio:.1f} x", ratio <= 3)


def overhead(folder: Path, process: subprocess.Popen[str], curator: RemoteCurator) -> None:
    """Compare the time before the charge and after the slot with what a local curator takes without computing."""
    question = "SELECT COUNT(*) AS n FROM visits"

    def replayed(ask: object, request: str) -> float:
        begun = time.monotonic()
        ask(question, epsilon="1", request=request)  # type: ignore[operator]
        return time.monotonic() - begun

    curator.ask(question, epsilon="1", request="r")
    for _ in range(10):
        replayed(curator.ask, "r")
    worked, own = cpu_seconds(process), time.process_time()
    there = statistics.median(replayed(curator.ask, "r") for _ in range(200))
    worked, own = cpu_seconds(process) - worked, time.process_time() - own
    with open_policy(folder / "hush.toml", analyst=curator.analyst) as local:
        for _ in range(10):
            replayed(local.ask, "r")
        alone = time.process_time()
        here = statistics.median(replayed(local.ask, "r") for _ in range(200))
        alone = time.process_time() - alone
    shown = (
        f"{1000 * (there - here):.1f} ms; CPU {5 * (worked - alone):.1f} ms there and {5 * own:.1f} ms for the client"
    )
    line("overhead of an ask (stored answer, so without slots)", "<= 5 ms", shown, there - here <= 0.005)


if __name__ == "__main__":
    main()
