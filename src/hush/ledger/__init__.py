"""A durable, multi-process, multi-analyst privacy budget.

Data sets have a budget for life, analysts have budgets on them, and a charge fits all of them or none. Entries are
chained by hashes; the head of the chain is also kept elsewhere. See docs/ledger.md for owners, and the modules for
the reasoning.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.ledger.backup import Verification
    from hush.ledger.budgets import Allowance, Budget
    from hush.ledger.charging import Charge, Decision, Repeat, Replay, Share
    from hush.ledger.entries import Actor, Role
    from hush.ledger.errors import (
        AccountExistsError,
        AllowanceError,
        ApprovalNeededError,
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
    from hush.ledger.history import AccountView, Act, OwnerAct, Release
    from hush.ledger.ledger import Ledger
    from hush.ledger.requests import Parked, ParkedQuestion
else:
    __getattr__, __all__ = on_demand(__name__)
