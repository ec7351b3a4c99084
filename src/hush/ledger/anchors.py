"""The anchor: the end of the chain, kept where the ledger is not.

A chain shows that entries were changed, but not that the last ones are missing: a copy from yesterday is a perfect
chain. So the last entry is also kept elsewhere, whole, with the hash of the one before it, and a ledger that does not
end there is refused.

**The order of writes.** To append entry n+1, under the ledger's lock:

1. read what others appended; compare the ledger with the anchor;
2. hand entry n+1 to the anchor;
3. commit it to the ledger;
4. when both are on the disk, and not before, something is granted.

For an act of the owner 3 waits for 2. For a charge the two may be forced to the disk at the same time.

**Every crash point.** *Neither is on the disk*: nothing happened, nothing was granted. *Only the anchor has entry
n+1*: the ledger ends at n, and this looks the same whether a crash came first or somebody took one entry away. It
need not be told apart: the anchor has the entry, and the next opener appends it. The charge stands, at worst without
an answer. (An outcome is not appended again. It moves no budget; its reservation is shown as pending.) *Only the
ledger has entry n+1*, which takes a loss of power between two disks: it is accepted if it is a charge that follows by
the rules, for that can only spend. *Both have it*: a ledger without it is put right, or, if more than one entry is
missing, refused. So no crash makes a ledger unusable, and no entry for which something was granted gets lost, or is
lost unnoticed.

A *witness* is a weaker anchor: it knows what one host has seen of a ledger that others write too, and accepts every
continuation of that. It is written after the commit, and before anything is granted. docs/ledger.md says what no anchor
can protect against.

**By name.** ``None`` means the usual place: a file under the user's state directory that is named after the ledger's
real path, so a ledger that vanished or was exchanged for another one is noticed too. A ledger that was moved finds its
anchor there by its id. For a ledger on PostgreSQL the same file is a witness; hosts that share one anchor name a table.

**In a file**: two slots written in turn, so a torn write costs the older mark, never both. A slot is a line of JSON
with its own SHA-256 in front. The even blocks of 4096 bytes belong to one slot and the odd ones to the other, so both
can grow, no block of one is ever touched by a write to the other, and a mark is overwritten in place: forcing it to the
disk needs no change to the directory or the size. The valid slot with the higher turn counts. A write that was cut
short leaves the mark before it, a state that the order of writes allows for. No slot is overwritten before the other
one is known to be on the disk.

**Kept by somebody else.** ``postgresql://host/database#name`` is one mark for all hosts that share a ledger; the name
tells several ledgers' anchors apart (by default ``hush``).

``command:PROGRAM ARGUMENT…`` (a notary, a write-once store, a colleague's server) is run without a shell as

* ``PROGRAM ARGUMENT… get``: print the mark that was last set, one line of JSON, or nothing if there is none; exit 0.
* ``PROGRAM ARGUMENT… set``: read one line of JSON from standard input, keep it durably, then exit 0.

The mark's fields are ``ledger``, ``before`` and ``entry``; ``entry.number`` counts up. Calls never overlap: they are
made under the ledger's lock. A command that wants to guard by itself refuses a ``set`` whose number is below the one
it has, for the same ledger. An exit status other than 0, or no answer within ten seconds, counts as a failure:
nothing is granted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from hush.core import InvalidValueError
from hush.ledger.entries import Entry, Head, canonical, follow
from hush.ledger.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError
from hush.ledger.store import OPTIONS
from hush.storage import in_database, open_storage, sync_directory, sync_file


class Mark(NamedTuple):
    """The content of an anchor: the last entry of a ledger, whole, and the head before it."""

    ledger: str
    """The ledger's id."""
    before: Head
    """The end of the ledger before the entry."""
    entry: Entry
    """The last entry, or the one that is about to become so."""
    place: str = ""
    """Where the ledger lay when the entry was made; nothing in a mark of hush 0.1.0."""

    def to_json(self) -> dict[str, Any]:
        """Return the mark as plain JSON values."""
        content = {"ledger": self.ledger, "before": self.before.hash.hex(), "entry": self.entry.to_json()}
        return content | ({"place": self.place} if self.place else {})

    @classmethod
    def from_json(cls, content: Any, place: str) -> Mark:
        """Return the mark that was written, as JSON values or as their text, or refuse."""
        try:
            content = json.loads(content) if isinstance(content, str | bytes) else content
            entry = Entry.from_json(content["entry"])
            before = Head(number=entry.number - 1, hash=bytes.fromhex(content["before"]))
            # The entry's hash covers the hash before it: a mark that was edited in one place only is refused.
            follow(before, entry.row)
            ledger, place = content["ledger"].strip(), content.get("place", "").strip()
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, LedgerDamagedError) as error:
            raise unreadable(place) from error
        return cls(ledger=ledger, before=before, entry=entry, place=place)


def unreadable(place: str) -> LedgerDamagedError:
    """Return the error about an anchor that cannot be read as a mark."""
    return LedgerDamagedError(
        f"The anchor at {place} cannot be read, so nobody knows whether the ledger is complete. No budget is given "
        "out. If the ledger is certainly the newest, the owner may set the anchor anew: "
        "hush ledger restore --reason TEXT --lost none."
    )


class Anchor(ABC):
    """A place for one mark."""

    place: str
    """How the anchor is named in messages and recorded in the ledger; without any password."""
    exclusive: bool = True
    """Whether every writer of the ledger writes this anchor; a witness is not exclusive."""

    @abstractmethod
    def read(self) -> Mark | None:
        """Return the mark, or None where none was ever written."""

    @abstractmethod
    def write(self, mark: Mark) -> None:
        """Replace the mark, durably and at once."""

    def begin(self, mark: Mark) -> Callable[[], None]:
        """Replace the mark, and return a function that waits until it is on the disk."""
        self.write(mark)
        return lambda: None

    def close(self) -> None:  # noqa: B027 - most anchors hold nothing open
        """Release the anchor's connection or thread; never fails."""


_BLOCK = 4096
_QUICK = 3e-4
"""Seconds: forced writes below this are not worth a thread."""


class FileAnchor(Anchor):
    """A mark in a file."""

    def __init__(self, path: Path, *, exclusive: bool = True) -> None:
        self._path = path
        self.place = str(path)
        self.exclusive = exclusive
        self._seen: tuple[bytes, int, Mark] | None = None
        self._worker: tuple[int, ThreadPoolExecutor] | None = None
        self._slowness = 0.0
        self._forced: bytes | None = None
        """The content of the file when this process last forced it to the disk."""

    def read(self) -> Mark | None:
        """Return the newer of the two slots' marks."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            self._seen = None
            return None
        except OSError as error:
            raise self._unavailable(error) from error
        if self._seen is not None and self._seen[0] == data:
            return self._seen[2]
        self._seen = None
        if not data.strip(b"\0"):  # made, and never written: the crash came before the first mark
            return None
        slots = [content for slot in (0, 1) if (content := _content(data, slot)) is not None]
        if not slots:
            raise unreadable(self.place)
        newest = max(slots, key=itemgetter("turn"))
        mark = Mark.from_json(newest, self.place)
        self._seen = (data, newest["turn"], mark)
        return mark

    def write(self, mark: Mark) -> None:
        """Write the slot that does not hold the newest mark, and force it to the disk."""
        self._force(self._put(mark))

    def begin(self, mark: Mark) -> Callable[[], None]:
        """Write the slot, and force it to the disk while the caller does something else."""
        descriptor = self._put(mark)
        here = partial(self._force, descriptor)
        if self._slowness < _QUICK:  # handing it to a thread would take longer
            return here
        if self._worker is None or self._worker[0] != os.getpid():  # threads do not survive a fork
            self._worker = (os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="hush-anchor"))
        try:
            return self._worker[1].submit(here).result
        except RuntimeError:  # no thread can start, as after the main thread has ended, but others may still ask
            self._worker = None
            return here

    def _force(self, descriptor: int) -> None:
        """Force a written mark to the disk, and remember how long that took."""
        begin = time.monotonic()
        try:
            sync_file(descriptor)
        except OSError as error:
            raise self._unavailable(error) from error
        finally:
            os.close(descriptor)
        self._forced = self._seen[0] if self._seen is not None else None
        self._slowness += (time.monotonic() - begin - self._slowness) / 4

    def _put(self, mark: Mark) -> int:
        """Write a mark into the page cache; return the open file."""
        # The caller holds the ledger's lock and has read this anchor since it got it: what was seen is what is there.
        turn = 0 if self._seen is None else self._seen[1] + 1
        line = canonical({"turn": turn, **mark.to_json()})
        text = hashlib.sha256(line).hexdigest().encode() + b" " + line + b"\n"
        # The copy in memory is kept equal to the file, so the next read can be compared with it.
        before = bytes(2 * _BLOCK) if self._seen is None else self._seen[0]
        data, descriptor = bytearray(before), -1
        try:
            if self._seen is None:
                self._make()
            descriptor = os.open(self._path, os.O_RDWR)
            if before != self._forced:
                # Another process may still be forcing the newest mark to the disk. It must be there before the older
                # one is overwritten, and before this process commits anything: so that at most one mark is missing.
                sync_file(descriptor)
            for start in range(0, len(text), _BLOCK):
                # The blocks of the two slots alternate in the file: see the module's text.
                block, offset = text[start : start + _BLOCK].ljust(_BLOCK, b"\0"), 2 * start + (turn % 2) * _BLOCK
                if os.pwrite(descriptor, block, offset) != _BLOCK:
                    raise OSError("short write")  # noqa: TRY301 - the same way out as for any other failure
                data.extend(bytes(max(offset - len(data), 0)))
                data[offset : offset + _BLOCK] = block
        except BaseException as error:
            if descriptor >= 0:
                os.close(descriptor)
            if isinstance(error, OSError):
                raise self._unavailable(error) from error
            raise
        self._seen = (bytes(data), turn, mark)  # good as long as the file holds exactly this
        return descriptor

    def close(self) -> None:
        """End the thread that forces marks to the disk."""
        if self._worker is not None and self._worker[0] == os.getpid():
            self._worker[1].shutdown()
        self._worker = None

    def _make(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # What was there could not be read, and only who restores a ledger writes then.
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            # Both slots get their first blocks now, so a later write changes neither the size nor the directory.
            os.truncate(descriptor, 2 * _BLOCK)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(self._path.parent)

    def _unavailable(self, error: OSError) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"The anchor at {self.place} could not be read or written ({error.strerror or error}). Nothing is granted. "
            "Check the disk (space, rights), then try again, or choose another place when making a ledger: --anchor."
        )


def _content(data: bytes, slot: int) -> dict[str, Any] | None:
    """Return the JSON object in a slot, or None if the slot was never written or is damaged."""
    text = b"".join(data[at : at + _BLOCK] for at in range(slot * _BLOCK, len(data), 2 * _BLOCK))
    check, _, line = text.partition(b"\n")[0].partition(b" ")
    if hashlib.sha256(line).hexdigest().encode() != check:
        return None
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):  # a forgery: no mark of ours is nested deeply, or has endless digits
        return None
    return content if isinstance(content, dict) and type(content.get("turn")) is int else None


_CREATE = "CREATE TABLE IF NOT EXISTS hush_anchors (name TEXT PRIMARY KEY, mark TEXT NOT NULL)"


class TableAnchor(Anchor):
    """A mark in a row."""

    def __init__(self, url: str) -> None:
        base, _, name = url.partition("#")
        self._name = name or "hush"
        self._storage = open_storage(base, OPTIONS)
        self.place = f"{self._storage.place}#{self._name}"
        self._made = False

    def read(self) -> Mark | None:
        """Return the row's mark."""
        self._storage.ready()
        if not self._storage.has_table("hush_anchors"):
            return None
        rows = self._storage.rows("SELECT mark FROM hush_anchors WHERE name = ?", self._name)
        return Mark.from_json(rows[0][0], self.place) if rows else None

    def write(self, mark: Mark) -> None:
        """Replace the row; the statement commits by itself, durably."""
        self._storage.ready()
        text = canonical(mark.to_json()).decode()
        if not self._made:
            # IF NOT EXISTS alone fails where two sessions say it at once.
            self._storage.rows("SELECT pg_advisory_lock(hashtext('hush anchors'))")
            try:
                self._storage.change(_CREATE)
            finally:
                self._storage.rows("SELECT pg_advisory_unlock(hashtext('hush anchors'))")
            self._made = True
        # Two statements need no transaction: the caller holds the ledger's lock, so there is one writer.
        if not self._storage.change("UPDATE hush_anchors SET mark = ? WHERE name = ?", text, self._name):
            self._storage.change("INSERT INTO hush_anchors (mark, name) VALUES (?, ?)", text, self._name)

    def close(self) -> None:
        """Close the connection."""
        self._storage.close()


_SECONDS = 10


class CommandAnchor(Anchor):
    """An anchor kept by a program of the owner (``command:PROGRAM``): ``get`` prints the mark, ``set`` reads it."""

    def __init__(self, url: str) -> None:
        self._command = shlex.split(url.removeprefix("command:"))
        if not self._command:
            raise InvalidValueError("anchor", got=url, allowed="command: followed by a program")
        self.place = url

    def _run(self, verb: str, text: bytes = b"") -> bytes:
        words, pipe = [*self._command, verb], subprocess.PIPE
        try:
            done = subprocess.run(words, input=text, stdout=pipe, check=True, timeout=_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            raise LedgerUnavailableError(
                f"The anchor's command {self._command[0]!r} failed to {verb} the mark ({error}). Nothing is granted."
            ) from error
        return done.stdout

    def read(self) -> Mark | None:
        """Ask for the mark."""
        line = self._run("get").strip()
        return Mark.from_json(line, self.place) if line else None

    def write(self, mark: Mark) -> None:
        """Hand the mark over."""
        self._run("set", canonical(mark.to_json()) + b"\n")


def usual_place(ledger: str) -> Path:
    """Return the file that anchors the ledger at a place by default."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    try:
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:  # an account without a home
        base = Path("/var/lib")
    return base / "hush" / "anchors" / f"{hashlib.sha256(ledger.encode()).hexdigest()[:32]}.anchor"


def known_at(spellings: Sequence[str]) -> list[tuple[Path, Mark]]:
    """Return the anchors in the state directory that were last written for a ledger at this place.

    An anchor with nothing but its ledger's first entry does not count: nothing was granted, and the process that made
    the ledger may have crashed. An anchor under the place's own name that cannot be read is refused.
    """
    named = [path for path in map(usual_place, spellings) if path.exists()]
    # A mark of hush 0.1.0 has no place; there the name of its file, made from the place, is the proof.
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
        # Named after its last entry's hash: no other ledger's anchor has this name, so none is overwritten.
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
    if url is None:
        return FileAnchor(usual_place(ledger), exclusive=not in_database(ledger))
    if url == "none":
        return None
    if isinstance(url, str) and in_database(url):
        return TableAnchor(url)
    if isinstance(url, str) and url.startswith("command:"):
        return CommandAnchor(url)
    if isinstance(url, Path) or (isinstance(url, str) and url and "://" not in url):
        return FileAnchor(Path(url).absolute())
    raise InvalidValueError("anchor", got=url, allowed="a path, a postgresql:// URL, command:PROGRAM, or none")
