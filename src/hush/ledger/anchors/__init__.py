"""Anchors by name: a file, a table in another database, a command, or none.

``None`` means the usual place: for a ledger in a file, a file under the user's state directory that is named after the
ledger's path, so a ledger that vanished or was exchanged for another one is noticed too. For a ledger on PostgreSQL
the same file is a *witness* of what this host has seen; hosts that share one anchor name a table. ``"none"`` does
without.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hush.core import InvalidValueError
from hush.ledger.anchors.base import Anchor, Mark
from hush.ledger.anchors.command import CommandAnchor
from hush.ledger.anchors.file import FileAnchor

__all__ = ["Anchor", "CommandAnchor", "FileAnchor", "Mark", "open_anchor", "usual_place"]


def usual_place(ledger: str) -> Path:
    """Return the file that anchors the ledger at a place by default."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    try:
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:  # an account without a home
        base = Path("/var/lib")
    return base / "hush" / "anchors" / f"{hashlib.sha256(ledger.encode()).hexdigest()[:32]}.anchor"


def open_anchor(url: str | Path | None, *, ledger: str) -> Anchor | None:
    """Return the anchor at a path, ``postgresql://`` URL or ``command:``; None stands for the usual place."""
    on_server = ledger.startswith(("postgresql://", "postgres://"))
    if url is None:
        return FileAnchor(usual_place(ledger), exclusive=not on_server)
    if isinstance(url, Path):
        return FileAnchor(url.absolute())
    if not isinstance(url, str) or not url:
        raise InvalidValueError("anchor", got=url, allowed="a path, a postgresql:// URL, command:PROGRAM, or none")
    if url == "none":
        return None
    if url.startswith(("postgresql://", "postgres://")):
        from hush.ledger.anchors.table import TableAnchor

        return TableAnchor(url)
    if url.startswith("command:"):
        return CommandAnchor(url)
    if "://" in url:
        raise InvalidValueError("anchor", got=url, allowed="a path, a postgresql:// URL, command:PROGRAM, or none")
    return FileAnchor(Path(url).absolute())
