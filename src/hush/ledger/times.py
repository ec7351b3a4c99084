"""Moments, as the ledger writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the present moment in UTC, to the microsecond.

    >>> len(now()), now()[-1]
    (27, 'Z')
    """
    return datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
