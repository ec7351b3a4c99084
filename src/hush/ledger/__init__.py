"""A durable, multi-process, multi-analyst privacy budget.

Data sets have a budget for life, analysts have budgets on them, and a charge fits all of them or none. Entries are
chained by hashes; the head of the chain is also kept elsewhere. See docs/ledger.md for owners, and the modules for
the reasoning.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.ledger.actors import Actor, Role
    from hush.ledger.acts import OwnerAct
    from hush.ledger.allowances import Allowance, AllowanceError
    from hush.ledger.budgets import Budget
    from hush.ledger.errors import (
        AccountExistsError,
        LedgerBusyError,
        LedgerDamagedError,
        LedgerError,
        LedgerMissingError,
        LedgerRolledBackError,
        LedgerUnavailableError,
        NotAllowedError,
        RequestConflictError,
        RequestUnansweredError,
        UnknownAccountError,
        UnknownReceiptError,
    )
    from hush.ledger.ledger import Ledger
    from hush.ledger.reading import AccountView, Act, Release
    from hush.ledger.repeats import Repeat
    from hush.ledger.requests import ApprovalNeededError, ParkedQuestion
    from hush.ledger.reservation import Reservation
    from hush.ledger.verifying import Report
else:
    __getattr__ = on_demand(
        __name__,
        {
            "hush.ledger.actors": ("Actor", "Role"),
            "hush.ledger.acts": ("OwnerAct",),
            "hush.ledger.allowances": ("Allowance", "AllowanceError"),
            "hush.ledger.budgets": ("Budget",),
            "hush.ledger.errors": (
                "AccountExistsError",
                "LedgerBusyError",
                "LedgerDamagedError",
                "LedgerError",
                "LedgerMissingError",
                "LedgerRolledBackError",
                "LedgerUnavailableError",
                "NotAllowedError",
                "RequestConflictError",
                "RequestUnansweredError",
                "UnknownAccountError",
                "UnknownReceiptError",
            ),
            "hush.ledger.ledger": ("Ledger",),
            "hush.ledger.reading": ("AccountView", "Act", "Release"),
            "hush.ledger.repeats": ("Repeat",),
            "hush.ledger.requests": ("ApprovalNeededError", "ParkedQuestion"),
            "hush.ledger.reservation": ("Reservation",),
            "hush.ledger.verifying": ("Report",),
        },
    )

__all__ = [
    "AccountExistsError",
    "AccountView",
    "Act",
    "Actor",
    "Allowance",
    "AllowanceError",
    "ApprovalNeededError",
    "Budget",
    "Ledger",
    "LedgerBusyError",
    "LedgerDamagedError",
    "LedgerError",
    "LedgerMissingError",
    "LedgerRolledBackError",
    "LedgerUnavailableError",
    "NotAllowedError",
    "OwnerAct",
    "ParkedQuestion",
    "Release",
    "Repeat",
    "Report",
    "RequestConflictError",
    "RequestUnansweredError",
    "Reservation",
    "Role",
    "UnknownAccountError",
    "UnknownReceiptError",
]
