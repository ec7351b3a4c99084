"""Anchors by name: a file, a table in another database, a command, or none.

``None`` means the usual place: for a ledger in a file, a file under the user's state directory that is named after the
ledger's path (its real one, however it was spelled), so a ledger that vanished or was exchanged for another one is
noticed too. A ledger that was moved finds its anchor there by its id: every mark says whose it is. For a ledger on
PostgreSQL the same file is a *witness* of what this host has seen; hosts that share one anchor name a table.
``"none"`` does without.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hush.core import InvalidValueError
from hush.ledger.anchors.base import Anchor, Mark
from hush.ledger.anchors.file import FileAnchor
from hush.ledger.errors import LedgerError, LedgerUnavailableError
from hush.ledger.system import sync_directory

__all__ = [
    "Anchor",
    "FileAnchor",
    "Mark",
    "find_marks",
    "known_at",
    "open_anchor",
    "set_aside",
    "usual_place",
]


def usual_place(ledger: str) -> Path:
    """Return the file that anchors the ledger at a place by default."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    try:
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:  # an account without a home
        base = Path("/var/lib")
    return base / "hush" / "anchors" / f"{hashlib.sha256(ledger.encode()).hexdigest()[:32]}.anchor"


def known_at(spellings: Sequence[str]) -> list[tuple[Path, Mark]]:
    """Return the anchors in the state directory whose ledgers lay at a place when they were last written to.

    One that knows of nothing but its ledger's first entry does not count: nothing was granted, and whoever made that
    ledger may have crashed. An anchor under the place's own name that cannot be read is refused.
    """
    named = [path for path in map(usual_place, spellings) if path.exists()]
    marks = [(path, mark) for path in named if (mark := FileAnchor(path).read()) and mark.place in {"", *spellings}]
    marks += [(path, mark) for path, mark in _marks() if mark.place in spellings and path not in named]
    return [(path, mark) for path, mark in marks if mark.entry.number > 1]


def find_marks(identity: str) -> list[tuple[Path, Mark]]:
    """Return the anchors in the state directory that know a ledger by its id, the latest mark first."""
    marks = [(path, mark) for path, mark in _marks() if mark.ledger == identity]
    return sorted(marks, key=lambda known: -known[1].entry.number)


def set_aside(path: Path) -> None:
    """Give an anchor in the state directory another name, so that another ledger's can take its place.

    Its own ledger still finds it by its id.
    """
    mark = FileAnchor(path).read()
    if mark is None:
        return
    try:
        path.rename(path.with_name(f"{mark.entry.hash.hex()}.anchor"))
        sync_directory(path.parent)
    except OSError as error:
        raise LedgerUnavailableError(f"The old anchor at {path} could not be set aside ({error}).") from error


def _marks() -> Iterator[tuple[Path, Mark]]:
    """Yield every anchor in the state directory that can be read."""
    for path in sorted(usual_place("").parent.glob("*.anchor")):
        with suppress(LedgerError):  # damaged, or somebody else's
            if (mark := FileAnchor(path).read()) is not None:
                yield path, mark


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
        from hush.ledger.anchors.remote import TableAnchor

        return TableAnchor(url)
    if url.startswith("command:"):
        from hush.ledger.anchors.remote import CommandAnchor

        return CommandAnchor(url)
    if "://" in url:
        raise InvalidValueError("anchor", got=url, allowed="a path, a postgresql:// URL, command:PROGRAM, or none")
    return FileAnchor(Path(url).absolute())
