"""A process that uses a ledger: the tests run several, and kill some.

Commands come by standard input, one a line; what happened goes to standard output, one word a line.
"""

from __future__ import annotations

import sys
import time

from hush.accounting import LaplaceEvent
from hush.core import BudgetExceededError
from hush.ledger import Ledger


def charge(ledger: Ledger, request: str, scale: int = 1) -> str:
    try:
        ticket = ledger.reserve(
            request,
            analyst="alice",
            data="clinic",
            question="SELECT COUNT(*) FROM visits",
            events=[LaplaceEvent(scale=scale)],
        )
    except BudgetExceededError:
        return "refused"
    ledger.answered(ticket, b"42")
    return "granted"


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def many(url: str, name: str, count: str) -> None:
    """Make a number of charges as fast as possible."""
    ledger = Ledger.open(url)
    say("ready")
    sys.stdin.readline()
    for at in range(int(count)):
        say(charge(ledger, f"{name}-{at}"))
    ledger.close()


def race(name: str) -> None:
    """For each ledger named on standard input: open it, wait for the moment, charge."""
    say("ready")
    for line in sys.stdin:
        ledger = Ledger.open(line.strip())
        say("open")
        moment = float(sys.stdin.readline())
        while time.monotonic() < moment:
            pass
        say(charge(ledger, name))
        ledger.close()


def until_killed(url: str, name: str) -> None:
    """Charge, then let the answer out, until somebody ends this process."""
    ledger = Ledger.open(url)
    say("ready")
    at = 0
    while True:
        ticket = ledger.reserve(
            f"{name}-{at}", analyst="alice", data="clinic", question="q", events=[LaplaceEvent(scale=1000)]
        )
        say(ticket.request)  # the answer is out in the world
        ledger.answered(ticket, b"42")
        at += 1


if __name__ == "__main__":
    {"many": many, "race": race, "until_killed": until_killed}[sys.argv[1]](*sys.argv[2:])
