"""Several processes on one ledger: never more granted than fits, and nothing released that is not paid for."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from hush.ledger import Actor, Ledger

OWNER = Actor.owner("owner")
WORKER = str(Path(__file__).with_name("worker.py"))
KILLS = int(os.environ.get("HUSH_KILLS", "12"))
RACES = 100 if "HUSH_KILLS" in os.environ else 20


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, WORKER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )


def start_program(program: str) -> subprocess.Popen[str]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", program], **pipes, text=True)


def say(process: subprocess.Popen[str], word: str) -> None:
    process.stdin.write(word + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip()


def make(url: str, *, epsilon: object) -> None:
    with Ledger.open(url, create=OWNER) as ledger:
        ledger.create_data("clinic", {"epsilon": epsilon}, actor=OWNER)
        ledger.add_analyst("alice", data="clinic", budget={"epsilon": 10**6}, actor=OWNER)


def spent(url: str) -> Fraction:
    with Ledger.open(url) as ledger:
        return next(view for view in ledger.budget(OWNER) if view.analyst is None).spent.epsilon


def test_four_processes_with_100_charges_each_on_room_for_50(place):
    make(place, epsilon=50)
    workers = [start("many", place, f"w{at}", "100") for at in range(4)]
    try:
        for worker in workers:
            assert hear(worker) == "ready"
        outputs = []
        for worker in workers:
            say(worker, "go")
        outputs = [worker.communicate(timeout=120)[0].split() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    words = [word for output in outputs for word in output]
    assert len(words) == 400
    assert words.count("granted") == 50
    assert words.count("refused") == 350
    assert spent(place) == 50
    with Ledger.open(place) as ledger:
        report = ledger.verify()
        assert (report.charges, report.answered, report.pending) == (50, 50, 0)


def test_many_ledgers_with_room_for_one_and_four_processes_at_a_barrier(places):
    ledgers = [places() for _ in range(RACES)]
    for url in ledgers:
        make(url, epsilon=1)
    workers = [start("race", f"w{at}") for at in range(4)]
    try:
        for worker in workers:
            assert hear(worker) == "ready"
        for url in ledgers:
            for worker in workers:
                say(worker, url)
            for worker in workers:
                assert hear(worker) == "open"
            moment = repr(time.monotonic() + 0.002)
            for worker in workers:
                say(worker, moment)
            words = [hear(worker) for worker in workers]
            assert sorted(words) == ["granted", "refused", "refused", "refused"]
    finally:
        for worker in workers:
            worker.stdin.close()
            worker.kill()
            worker.wait()
            worker.stdout.close()


def test_kill_at_random_moments(place, request):
    """Kills of a process by the system, at random moments: every released answer is paid for after reopening."""
    make(place, epsilon=10**5)
    kills = KILLS if "sqlite" in request.node.name else max(KILLS // 3, 1)
    released: list[str] = []
    for at in range(kills):
        worker = start("until_killed", place, f"k{at}")
        assert hear(worker) == "ready"
        # Some answers out, however busy the machine is, and then a moment in the middle of whatever comes next.
        released += [worker.stdout.readline() for _ in range(secrets.randbelow(6))]
        time.sleep(secrets.randbelow(10_000) / 1e6)
        worker.kill()
        output, _ = worker.communicate()
        # The last line may be cut short: then its answer never left.
        released += [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
        with Ledger.open(place) as ledger:
            paid = {release.request: release for release in ledger.history(OWNER)}
            assert {line.strip() for line in released} <= set(paid)
            # A line that was printed came after its charge; at most the last one of each process has no outcome.
            assert sum(release.outcome == "abandoned" for release in paid.values()) <= at + 1
            assert all(release.outcome in {"answered", "abandoned"} for release in paid.values())
            total = next(view for view in ledger.budget(OWNER) if view.analyst is None).spent.epsilon
            assert total == Fraction(len(paid), 1000)
    with Ledger.open(place) as ledger:
        ledger.verify()
    assert released


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_uses_its_own_connection(place):
    make(place, epsilon=10)
    code = """
import os, sys
from hush.accounting import LaplaceEvent
from hush.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
def ask(name):
    ledger.reserve(name, analyst="alice", data="clinic", question="q", events=[LaplaceEvent(scale=1)])
ask("before")
child = os.fork()
for at in range(3):
    ask(f"{'child' if child == 0 else 'parent'}-{at}")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
ask("after")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, place], check=True, timeout=60)
    assert spent(place) == 8


MAKER = """
import contextlib, sys
from hush.ledger import Actor, Ledger
with contextlib.suppress(ImportError):
    import psycopg
print("ready", flush=True)
for line in sys.stdin:
    place, anchor = line.split()
    with Ledger.open(place, anchor=None if anchor == "usual" else anchor, create=Actor.owner("owner")) as ledger:
        ledger.verify()
        print(ledger.id, flush=True)
"""


def test_several_processes_make_one_ledger_at_once(places, other_database, request):
    """Of four that begin together one makes it, and all open it; half of such races used to be lost."""
    makers = [start_program(MAKER) for _ in range(4)]
    assert [hear(maker) for maker in makers] == ["ready"] * 4
    usual = 12 if "sqlite" in request.node.name else 1  # one at a time they seldom meet
    for anchor in (f"{other_database}#here", "none", *["usual"] * usual):
        place = places()
        for maker in makers:
            say(maker, f"{place} {anchor}")
        identities = {hear(maker) for maker in makers}
        assert len(identities) == 1
        with Ledger.open(place, anchor=None if anchor == "usual" else anchor) as ledger:
            assert ledger.id in identities
            assert len(ledger.acts(OWNER)) == 1
    assert [maker.communicate(timeout=60)[1] for maker in makers] == [""] * 4
