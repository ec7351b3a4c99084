"""Copies of text files that an owner lets hush keep: what was read of a large CSV, as parquet, for the next process.

A text file is read whole before its first question (`hush.engines.duckdb.loading`), which takes seconds per hundred
megabytes. With ``keep = true`` what was read is also written down, in a directory of the owner's that nobody else may
enter, and a later process takes it from there.

**Never stale.** A copy holds the stamp of each file that it was made of: device, inode, size, and the times of the last
change of its content and of its state, in nanoseconds. It counts only where all of these are what they are now. A
program may set the time of the content back, not that of the state. A file that changed within the last seconds before
it was read is not kept, since clocks are coarse: it might change once more at the same instant. What else decides which
rows there are (how the file is read, which columns, of which declared types, and the version of these rules) is in the
copy's name.

**Never damaged.** A copy's name ends in a hash of its bytes, which a process compares before it first reads it. So
an error of the disk, or a copy that was cut short, shows before anything is charged, and the text is read instead.
BLAKE2 takes a second for a gigabyte, which is a fraction of the time that reading the text would.

**Never another's.** A copy is as private as the file. The directory and the copy must belong to the user whom the
process runs as, and be closed to all others; else they are left alone, as is what cannot be read or written. A process
reads through a link of its own, so that nobody replaces what a question is reading.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as place:
...     folder = Path(place) / "kept"
...     before = private_directory(folder), oct(folder.stat().st_mode & 0o777)
...     folder.chmod(0o755)
...     before, private_directory(folder)
((True, '0o700'), False)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.core.values import dataclass
from hush.engines.duckdb.delimited import Tally
from hush.engines.errors import log
from hush.engines.sql.build import name, text

if TYPE_CHECKING:
    import duckdb

    from hush.engines.duckdb.loading import Wanted
    from hush.engines.duckdb.sources import Source

Stamp = list[list[int]]
VERSION = 1
"""Changes when the same file would be read as other rows."""
_ENDING = ".parquet"
_SETTLED = 2_000_000_000
"""A file is kept if its last change is so many nanoseconds old: file systems count in seconds at worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCopy:
    """The copy of one table: where it is kept, and under which name this process reads it."""

    path: Path
    """Without its ending, which is the hash of what it holds."""
    own: Path
    """The link that only this process knows."""

    @classmethod
    def of(cls, source: Source, wanted: Wanted, own: Path, folder: Path) -> KeptCopy:
        """Return the copy of a source, in the folder where its owner lets it be kept."""
        files = [str(path.absolute()) for path in source.every_file]
        reading = (source.format, source.separator, source.encoding, source.decimal, source.quotes, source.timezone)
        columns = (list(wanted.names), list(wanted.columns), sorted(wanted.kinds.items()), sorted(wanted.kept.items()))
        digest = hashlib.sha256(repr((VERSION, files, reading, columns)).encode()).hexdigest()
        return cls(path=folder / digest[:40], own=own)

    def take(self, connection: duckdb.DuckDBPyConnection, place: str, source: Source) -> Tally | None:
        """Let a view of the engine show the copy, and return how the file was read; None if no copy holds."""
        if not any(self._linked(kept) for kept in self._kept()):
            return None
        try:
            found = connection.execute(
                f"SELECT key, value FROM parquet_kv_metadata({text(str(self.own))})"  # noqa: S608 - our own name
            )
            known = {bytes(key).decode(): bytes(value).decode() for key, value in found.fetchall()}
            if json.loads(known["stamp"]) != _stamps(source):
                return None
            tally = Tally(*json.loads(known["tally"]))
            connection.execute(f"DROP TABLE IF EXISTS {name(place)}")
            connection.execute(f"CREATE VIEW {name(place)} AS FROM read_parquet({text(str(self.own))})")
        except (OSError, ValueError, KeyError, TypeError):
            return None
        except Exception as error:  # noqa: BLE001 - the engine's, of a file that is no parquet: the source is read instead
            log.debug("a kept copy cannot be read: %s", error)
            return None
        return tally

    def put(
        self, connection: duckdb.DuckDBPyConnection, place: str, source: Source, stamp: Stamp, tally: Tally
    ) -> bool:
        """Write a table down that was read since ``stamp`` was taken; return whether a copy is kept."""
        if not private_directory(self.path.parent):
            return False
        import duckdb

        written = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        facts = {"stamp": json.dumps(stamp), "tally": json.dumps(astuple(tally))}
        listed = ", ".join(f"{key}: {text(value)}" for key, value in facts.items())
        try:
            with contextlib.suppress(OSError):
                self.own.unlink()
            connection.execute(
                f"COPY {name(place)} TO {text(str(self.own))} (FORMAT parquet, KV_METADATA {{{listed}}})"
            )
            self.own.chmod(0o600)
            shutil.copyfile(self.own, written)
            written.chmod(0o600)
            if _stamps(source) != stamp:
                return False
            others, kept = self._kept(), self.path.with_name(f"{self.path.name}.{_hash(written)}{_ENDING}")
            written.replace(kept)
            for other in others:
                if other != kept:
                    other.unlink(missing_ok=True)
        except (OSError, duckdb.Error) as error:
            why = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
            log.warning("what was read of a file cannot be kept, and will be read again by the next process: %s", why)
            return False
        finally:
            with contextlib.suppress(OSError):
                written.unlink()
        return True

    def _kept(self) -> list[Path]:
        """Return all copies; where processes wrote at once there may be several."""
        return sorted(self.path.parent.glob(f"{self.path.name}.*{_ENDING}"))

    def _linked(self, kept: Path) -> bool:
        """Link a copy of this user's, closed to all others, and return whether it holds what was written."""
        try:
            if not private_directory(kept.parent, make=False) or not _private(kept, stat.S_ISREG):
                return False
            with contextlib.suppress(OSError):
                self.own.unlink()
            try:
                os.link(kept, self.own, follow_symlinks=False)
            except OSError:  # a link may not reach another disk
                shutil.copyfile(kept, self.own, follow_symlinks=False)
                self.own.chmod(0o600)
            return _private(self.own, stat.S_ISREG) and kept.name == f"{self.path.name}.{_hash(self.own)}{_ENDING}"
        except OSError:
            return False


def private_directory(place: Path, *, make: bool = True) -> bool:
    """Return whether a directory, made if there is none, is this user's and closed to all others."""
    try:
        if make:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _private(place, stat.S_ISDIR)
    except OSError:
        return False


def _private(place: Path, kind: Any) -> bool:
    status = place.lstat()
    mine = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    closed = os.name != "posix" or not status.st_mode & 0o077
    return bool(kind(status.st_mode) and mine and closed)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20)).hexdigest()


def content_stamp(path: Path) -> tuple[int, int]:
    """Return the size and the last change of a file's content, which a further name of the file leaves as they are."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def settled_stamp(source: Source) -> Stamp | None:
    """Return the stamps of a source's files; None if one changed just now, and may once more at the same instant."""
    stamps, now = _stamps(source), time.time_ns()
    return stamps if all(now - max(changed, altered) > _SETTLED for *_, changed, altered in stamps) else None


def _stamps(source: Source) -> Stamp:
    """Return what no change of a file leaves as it is, of each file."""
    statuses = [path.stat() for path in source.every_file]
    return [
        [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns] for status in statuses
    ]
