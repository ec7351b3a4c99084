"""Disks that fail, fill up, or lose power: no grant that the reopened ledger does not show, no ledger that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from seams import chain_of

from hush.accounting import ApproximateDPEvent
from hush.ledger import Actor, Charge, Ledger, LedgerUnavailableError, RequestUnansweredError
from hush.ledger.anchors import usual_place

OWNER = Actor.owner("owner")
FAULTS = str(Path(__file__).with_name("faults.py"))
EVERY, LAST = (1, 199) if "HUSH_EVERY_BYTE" in os.environ else (5, 196)
"""Which operations fail: nightly each of them."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and replaces functions of SQLite")


def run(plans: str, last: int, *, step: int = 1, **environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", FAULTS, plans, str(last), str(step)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    found = json.loads(done.stdout)
    if "skip" in found:
        pytest.skip(found["skip"])
    return found


@pytest.mark.parametrize("plan", ["once", "forever", "torn", "power"])
def test_every_write_and_every_forced_write_fails_in_its_turn(plan):
    found = run(plan, LAST, step=EVERY)
    assert found["wrong"] == []
    assert found["operations"] >= LAST, "every case must reach its operation"


def test_power_lost_without_an_anchor(tmp_path):
    """Here nothing but the ledger's own forced writes keeps a grant."""
    assert run("power", LAST, step=EVERY, HUSH_TEST_ANCHOR="none", XDG_STATE_HOME=str(tmp_path))["wrong"] == []


def test_this_test_can_fail():
    """Without forced writes the same cases do lose grants, so the cases above are worth something."""
    assert run("power", 120, step=3, HUSH_TEST_CARELESS="1", HUSH_TEST_ANCHOR="none")["wrong"]


def test_a_full_disk(tmp_path):
    """The system refuses to let any file grow beyond a limit, in the middle of the work."""
    path = tmp_path / "hush.ledger"
    code = """
import resource, sys
from hush.accounting import ApproximateDPEvent
from hush.core import HushError
from hush.ledger import Actor, Ledger
owner = Actor.owner("owner")
ledger = Ledger.open(sys.argv[1], create=owner)
ledger.create_data("d", {"epsilon": 10000}, actor=owner)
ledger.add_analyst("alice", data="d", actor=owner)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
errors = 0
for at in range(100):
    try:
        ticket = ledger.reserve(f"q{at}", analyst="alice", data="d", question="q" * 3000,
                                events=[ApproximateDPEvent(epsilon=1)])
        sys.stdout.write(f"q{at}\\n")
        sys.stdout.flush()
        ledger.answered(ticket, b"42")
    except HushError as error:
        errors += error.code == "ledger-unavailable"
sys.stdout.write(f"{errors}\\n")
import os
sys.stdout.flush()
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(400_000)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    *granted, errors = done.stdout.split()
    assert int(errors) > 10
    assert len(granted) > 5
    with Ledger.open(path) as ledger:
        shown = {release.request for release in ledger.history(OWNER)}
        assert set(granted) <= shown
        assert ledger.budget(OWNER)[0].spent.epsilon == len(shown)
        ledger.verify()
        ledger.reserve("next", analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon=1)])


def test_every_crash_point_of_an_append(tmp_path, monkeypatch):
    """A process that dies between two steps of the protocol leaves a ledger that opens, with the charge or without."""

    class DiedError(BaseException):
        pass

    def die(*_arguments, **_options):
        raise DiedError

    def fresh(name):
        path = tmp_path / name
        ledger = Ledger.open(path, create=OWNER)
        ledger.create_data("d", {"epsilon": 10}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        return path, ledger

    def ask(ledger):
        return ledger.reserve("q", analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon=1)])

    # What is patched dies in this process only; the ledger is abandoned as it stands, and opened by "somebody else".
    for step, spent in (("announce", 0), ("append", 1), ("commit", 1), ("forced", 1)):
        path, ledger = fresh(f"{step}.ledger")
        chain = chain_of(ledger)
        with monkeypatch.context() as patch:
            if step == "announce":
                patch.setattr(chain.anchor, "begin", die)
            elif step == "append":
                patch.setattr(chain.store, "append", die)
            elif step == "commit":
                patch.setattr(chain.store.storage, "commit", die)
            else:
                begin = chain.anchor.begin
                patch.setattr(chain.anchor, "begin", lambda mark, begin=begin: begin(mark) and die)
            with pytest.raises(DiedError):
                ask(ledger)
        for _ in range(2):
            with Ledger.open(path) as other:
                assert other.budget(OWNER)[0].spent.epsilon == spent
                other.verify()
        ledger.close()

    # The owner's acts: announced to the anchor first, so they are completed, or never happened.
    for step, budget in (("announce", 10), ("append", 20), ("commit", 20)):
        path, ledger = fresh(f"raise-{step}.ledger")
        chain = chain_of(ledger)
        with monkeypatch.context() as patch:
            target = {"announce": chain.anchor, "append": chain.store, "commit": chain.store.storage}[step]
            patch.setattr(target, "write" if step == "announce" else step, die)
            with pytest.raises(DiedError):
                ledger.raise_budget("d", epsilon=20, actor=OWNER)
        with Ledger.open(path) as other:
            assert other.budget(OWNER)[0].epsilon == budget
        ledger.close()


def test_an_anchor_that_cannot_be_written_grants_nothing(tmp_path, monkeypatch):
    path = tmp_path / "hush.ledger"
    with Ledger.open(path, create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 10}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        before = ledger.verify()

        def full(*_arguments):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(LedgerUnavailableError, match="Nothing is granted"):
                ledger.reserve("q", analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon=1)])
        assert ledger.verify() == before
        assert usual_place(str(path)).exists()


def test_a_request_that_failed_on_the_way_to_the_disk_can_be_sent_again(tmp_path, monkeypatch):
    """The charge may be there or not; sent again by the same process it is granted once, and paid for once."""
    with Ledger.open(tmp_path / "hush.ledger", create=OWNER) as ledger:
        ledger.create_data("d", {"epsilon": 10}, actor=OWNER)
        ledger.add_analyst("alice", data="d", actor=OWNER)
        store = chain_of(ledger).store.storage

        def ask(request):
            return ledger.reserve(
                request, analyst="alice", data="d", question="q", events=[ApproximateDPEvent(epsilon=1)]
            )

        def fail(*_arguments, **_options):
            raise LedgerUnavailableError("disk full")

        commit = store.commit
        for at, broken in enumerate((fail, lambda: (commit(), fail()))):  # not committed; committed, but nobody knows
            with monkeypatch.context() as patch:
                patch.setattr(store, "commit", broken)
                with pytest.raises(LedgerUnavailableError):
                    ask(f"q{at}")
            assert isinstance(ask(f"q{at}"), Charge)
            assert ledger.budget(OWNER)[0].spent.epsilon == at + 1
            with pytest.raises(RequestUnansweredError):  # once only
                ask(f"q{at}")
        ledger.verify()
