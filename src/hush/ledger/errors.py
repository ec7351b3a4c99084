"""What can go wrong with a ledger, under the one tree of :mod:`hush.core.errors`.

::

    HushError
    └── LedgerError
        ├── LedgerMissingError        there is no ledger here yet
        ├── LedgerDamagedError        an entry was edited or removed, or the file is not readable as a ledger
        ├── LedgerRolledBackError     the ledger is gone, older than its anchor, or has a history that it never saw
        ├── LedgerBusyError           somebody else held the lock for too long
        ├── LedgerUnavailableError    the storage or the anchor failed: nothing was granted
        ├── NotAllowedError           the actor lacks the role
        ├── UnknownAccountError       no such data set, or no such analyst on it
        ├── UnknownReceiptError       no such charge, or not of this analyst
        ├── AccountExistsError        a data set or an analyst of that name is there already
        ├── RequestConflictError      a request id was used before, for another question
        └── RequestUnansweredError    a request id was used before, and its answer is not there

Whatever is raised, no grant was given. A charge may have been made all the same (the storage failed after the commit):
errors cost budget, never privacy.
"""

from __future__ import annotations

from hush.core import HushError

RESTORE = (
    "Stop everything that uses the ledger, put the newest copy in its place, and have the owner record the act: "
    "hush ledger restore --reason TEXT --lost EPSILON (or --lost all)."
)
"""The way out of a history that cannot be trusted."""


def missing(place: str) -> str:
    """Return what to say where there is no ledger, and never was one that anybody here knows of."""
    return (
        f"There is no ledger at {place}, and asking makes none. The owner makes one, once: hush ledger open "
        "(in Python: hush.open(…, create=True))."
    )


class LedgerError(HushError):
    """The ledger refuses."""

    code = "ledger"


class LedgerMissingError(LedgerError):
    """There is no ledger at this place."""

    code = "ledger-missing"


class LedgerDamagedError(LedgerError):
    """The entries do not hang together: something was edited, removed or overwritten."""

    code = "ledger-damaged"


class LedgerRolledBackError(LedgerError):
    """The ledger and its anchor tell different histories."""

    code = "ledger-rolled-back"


class LedgerBusyError(LedgerError):
    """The lock could not be had in time."""

    code = "ledger-busy"


class LedgerUnavailableError(LedgerError):
    """The storage or the anchor failed."""

    code = "ledger-unavailable"


class NotAllowedError(LedgerError):
    """The actor may not do this."""

    code = "not-allowed"


class UnknownAccountError(LedgerError):
    """No such account."""

    code = "unknown-account"


class UnknownReceiptError(LedgerError):
    """No such charge, or none that the actor may see: both read alike."""

    code = "unknown-receipt"

    def __init__(self, number: object) -> None:
        super().__init__(f"There is no receipt {number}, or its answer is not yours. See hush history.")


class AccountExistsError(LedgerError):
    """The account is there already."""

    code = "account-exists"


class RequestConflictError(LedgerError):
    """A request id stands for one question for ever."""

    code = "request-conflict"


class RequestUnansweredError(LedgerError):
    """The request was charged, but no answer to it is stored."""

    code = "request-unanswered"
