"""The errors of a ledger, under the one tree of :mod:`hush.core.errors`.

All stand directly under `LedgerError`, but for `AllowanceError`, which is a `BudgetExceededError`. After every error,
no grant was given. A charge may have been made all the same (the storage failed after the commit): errors cost budget,
never privacy.
"""

from __future__ import annotations

from hush.core import BudgetExceededError, HushError

RESTORE = (
    "Stop everything that uses the ledger, put the newest copy in its place, and have the owner record the act: "
    "hush ledger restore --reason TEXT --lost EPSILON (or --lost all)."
)
"""The way out of a history that cannot be trusted."""


def missing(place: str) -> str:
    """Return the message for a place that has no ledger and is not known to any anchor."""
    return (
        f"There is no ledger at {place}, and asking makes none. The owner makes one, once: hush ledger open "
        "(in Python: hush.open(…, create=True))."
    )


class LedgerError(HushError):
    """The ledger refuses."""


class LedgerMissingError(LedgerError):
    """There is no ledger at this place yet."""


class LedgerDamagedError(LedgerError):
    """The ledger or its anchor cannot be trusted: an entry was edited or removed, or cannot be read."""


class LedgerRolledBackError(LedgerError):
    """The ledger is gone, older than its anchor, or has a history that the anchor never saw."""


class LedgerBusyError(LedgerError):
    """Another process held the lock for too long."""


class LedgerUnavailableError(LedgerError):
    """The storage or the anchor failed; nothing was granted."""


class LedgerFullError(LedgerError):
    """There is too little room left where the ledger lies; nothing was charged."""


class NotAllowedError(LedgerError):
    """The actor may not do this."""


class UnknownAccountError(LedgerError):
    """The ledger has no account of this name."""


class UnknownReceiptError(LedgerError):
    """The charge does not exist, or the actor may not see it; the message is the same for both."""

    def __init__(self, number: object) -> None:
        super().__init__(f"There is no receipt {number}, or its answer is not yours. See hush history.")


class AccountExistsError(LedgerError):
    """The account is there already."""


class RequestConflictError(LedgerError):
    """The request id was used before for another question."""


class RequestUnansweredError(LedgerError):
    """The request was charged, but no answer to it is stored."""


class ApprovalNeededError(LedgerError):
    """The owner has to approve the question first; it is recorded as a request, and nothing was charged."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number
        """The request's number in the ledger."""


class TooManyRequestsError(LedgerError):
    """An analyst has too many waiting requests; this one was not recorded."""


class AllowanceError(BudgetExceededError):
    """The charge fits the budget, but not the allowance for the present window of time."""

    code = "allowance-exceeded"
