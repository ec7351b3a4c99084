"""One file that holds ledger, people and streams as they were at one moment; and putting it back.

*Consistent* means that no part tells of what another part does not know. People are copied first: an act that waits
there and stands in the ledger too is recorded once (`hush.ledger.history`). Then no stream moves while the ledger is
read at one entry and the streams after it; one that was paid for later is left out.

*Putting it back is going back.* What was charged and released since is out in the world. So nothing is put where
anything lies; the owner says what was lost, as for every copy of a ledger (`hush.ledger.backup`); "none" is refused
where an anchor knows of more; and unless it is "none", streams that went on are ended: a period that may have been
released must not be drawn a second time.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from hush.core import HushError, InvalidValueError
from hush.curator.stream_states import StreamState
from hush.ledger import Actor, Ledger, LedgerError, LedgerRolledBackError
from hush.ledger.anchors import find_marks, open_anchor
from hush.ledger.backup import Lost
from hush.ledger.entries import now
from hush.policy.file import Policy
from hush.policy.ledger import ledger_of, streams_of
from hush.server.auth.people import People

FORMAT = 1
_KEPT = (".stream", ".released", ".ended")
_MANIFEST, _LEDGER, _PEOPLE = "manifest.json", "ledger.jsonl", "people.sqlite"


def backup(policy: Policy, ledger: Ledger, people: People, file: Path, *, actor: Actor) -> dict[str, Any]:
    """Write a copy of everything to a new file, while the service goes on; return its manifest."""
    folder = streams_of(policy, "").parent
    try:
        target = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        allowed = "a new file that can be written"
        raise InvalidValueError("FILE", got=str(file), allowed=allowed, hint=f"{error.strerror}.") from error
    try:
        with target, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hush-backup-")))
            people.backup(scratch / _PEOPLE)
            for state in sorted(folder.glob("*/*.stream")):  # none advances as long as it is locked
                lock = stack.enter_context((state.parent / f".{state.stem}.lock").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            lines = io.StringIO()
            entries = ledger.export(lines, actor=actor)
            parts = {_PEOPLE: (scratch / _PEOPLE).read_bytes(), _LEDGER: lines.getvalue().encode()}
            for state in sorted(folder.glob("*/*.stream")):
                content = state.read_bytes()
                if int(StreamState.public(io.BytesIO(content)).definition["receipt"]) > entries:
                    continue  # its charge is not in the copy
                files = [state.with_suffix(kind) for kind in _KEPT]
                contents = {path.name: path.read_bytes() for path in files if path.exists()} | {state.name: content}
                parts |= {f"streams/{state.parent.name}/{name}": part for name, part in contents.items()}
            manifest = {
                "hush-backup": FORMAT,
                "when": now(),
                "ledger": ledger.id,
                "entries": entries,
                "parts": {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()},
            }
            archive.writestr(_MANIFEST, json.dumps(manifest, sort_keys=True))
            for name, content in parts.items():
                archive.writestr(name, content)
            archive.close()
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return manifest


def restore(
    policy: Policy,
    people: str,
    file: Path,
    *,
    actor: Actor,
    reason: str,
    lost: Lost,
    anchor: str | None = None,
) -> dict[str, Any]:
    """Restore a backup to an empty place, and record the act; return the numbers of entries, people and streams."""
    actor.require_owner("restore a backup")
    manifest, parts = _read(file)
    ledger_path, folder = ledger_of(policy), streams_of(policy, "").parent
    _check_rollback(manifest, str(ledger_path), lost, anchor)
    taken = [str(path) for path in (ledger_path, folder) if isinstance(path, Path) and path.exists()]
    if not taken and (":" in people or Path(people).exists()):
        with closing(People(people)) as store:
            taken = [people] if store.names() else []
    if taken:
        raise LedgerError(
            f"There is something at {taken[0]} already, and a backup is put where nothing lies. Stop the service, move "
            "what is there away, and keep it: it may be newer."
        )
    with ExitStack() as undo, tempfile.TemporaryDirectory(prefix="hush-restore-") as scratch:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        ended = _put_streams(folder, parts, end=lost != "none")
        copy = Path(scratch) / _PEOPLE
        copy.write_bytes(parts[_PEOPLE])
        store = People(people, by=actor.name)
        try:
            undo.callback(store.clear)
            store.restore(copy)
            names = len(store.names())
            # The ledger comes last: as long as it is not there nothing is answered.
            text = io.StringIO(parts[_LEDGER].decode())
            with Ledger.import_(text, ledger_path, actor=actor, reason=reason, lost=lost, anchor=anchor) as ledger:
                report = ledger.verify()
            undo.pop_all()
        finally:
            undo.close()
            store.close()
    streams = sum(name.endswith(".stream") for name in parts)
    return {"entries": report.entries, "people": names, "streams": streams, "ended": ended, "when": manifest["when"]}


def _read(file: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the parts of a backup, each as it was written."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            parts = {name: archive.read(name) for name in manifest["parts"]}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
        intact = manifest["hush-backup"] == FORMAT and hashes == manifest["parts"] and {_LEDGER, _PEOPLE} <= set(parts)
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
        intact = False
    if not intact:
        raise InvalidValueError(
            "FILE", got=str(file), allowed="a whole file that hush ledger backup wrote", hint="Take another copy."
        )
    return manifest, parts


def _check_rollback(manifest: dict[str, Any], place: str, lost: Lost, anchor: str | None) -> None:
    """Refuse ``lost="none"`` where an anchor knows of later entries; one more may have been prepared only."""
    named = None if anchor in {None, "none"} else open_anchor(anchor, ledger=place)
    marks = [*(mark for _, mark in find_marks(manifest["ledger"])), None if named is None else named.read()]
    entries = max((mark.entry.number for mark in marks if mark and mark.ledger == manifest["ledger"]), default=0)
    if lost == "none" and entries > manifest["entries"] + 1:
        raise LedgerRolledBackError(
            f"The backup has {manifest['entries']} entries of the ledger, and its anchor knows of {entries}: what was "
            "charged since is not in it. Take a newer copy; or say what it was: --lost EPSILON, or --lost all."
        )


def _put_streams(folder: Path, parts: dict[str, bytes], *, end: bool) -> int:
    """Write the files of streams; return how many were ended."""
    ended = 0
    for name, content in parts.items():
        top, _, relative_path = name.partition("/")
        if top != "streams":
            continue
        path = folder / relative_path
        if path.suffix not in _KEPT or path.parent.parent != folder or ".." in path.parts:
            raise HushError(f"The backup has a part {name!r} that is none.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        if end and path.suffix == ".stream" and not path.with_suffix(".ended").exists():
            path.with_suffix(".ended").touch(mode=0o600)
            ended += f"{name.removesuffix('.stream')}.ended" not in parts
    return ended
