"""Runs of a function that nobody trusts: in a child process, with limits, one after the other.

The function may run for ever, leave the process, print, change its rows, or eat all memory. So a child runs it and
sends back described outcomes, as lines of JSON. One child serves a whole audit: a generator of pseudo-random numbers
that the function keeps goes on where it was. A child that ends or does not answer in time is itself an outcome. It is
replaced, and from then on each run is sent by itself, so that nothing else is lost.

>>> with Runs(lambda rows: sum(rows)) as runs:
...     [outcome.token for outcome in runs.of([1, 2], times=3)]
['3', '3', '3']
"""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Self

from hush.audit.outcomes import Outcome, observed
from hush.core import HushError

_CHUNK_SECONDS = 0.05
_MEMORY = 8 * 2**30
"""Bytes that the function may take beyond those that the child has at its start."""
_MOST_FAILURES = 12
"""The audit stops after this number of runs that ended, timed out or met the limit of memory."""
_OUTPUT = 2**20

Function = Callable[[Any], Any]
Density = Callable[[Any, Any], float]


class AuditError(HushError):
    """An audit cannot go on: the function gives no outcomes."""

    code = "audit"


class Runs:
    """Runs a function on rows; with ``isolated`` in a child process."""

    def __init__(
        self, function: Function, *, density: Density | None = None, limit: float = 10.0, isolated: bool = True
    ) -> None:
        self.function, self.density, self.limit = function, density, limit
        self.isolated = isolated and hasattr(os, "fork")
        self.failures = 0
        self.starved = 0
        """Runs that met our limit of memory: they say something about the limit, not about the rows."""
        self._known: list[Any] = []
        self._child: tuple[int, Connection] | None = None
        self._careful = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def of(self, rows: Any, *, times: int, other: Any = None, until: float | None = None) -> list[Outcome]:
        """Return the outcomes of ``times`` runs on rows, or of the runs that fit before ``until``."""
        outcomes: list[Outcome] = []
        while len(outcomes) < times and (until is None or not outcomes or time.monotonic() < until):
            if not self.isolated:
                outcomes.append(observed(self.function, _fresh(rows), self._ratio(rows, other)))
                continue
            outcomes += self._from_child(rows, other, times - len(outcomes), until)
            if self.failures + self.starved > _MOST_FAILURES:
                raise AuditError(
                    f"The function gave no answer in {self.failures + self.starved} runs: each ended its process, took "
                    f"more than {self.limit:g} s, or {_MEMORY >> 30} GiB of memory. Raise the limit of one run, or "
                    "call it on the rows yourself to see why."
                )
        return outcomes

    def knows(self, rows: Any) -> None:
        """Let the child have an object that is no JSON; before the first run."""
        self._known.append(rows)

    def _ratio(self, rows: Any, other: Any) -> Callable[[Any], float] | None:
        density = self.density
        return None if density is None else lambda value: density(value, rows) - density(value, other)

    # -- the child ----------------------------------------------------------------------------------------------------

    def _from_child(self, rows: Any, other: Any, times: int, until: float | None) -> list[Outcome]:
        _, pipe = self._child = self._child or self._started()
        seconds = 1e9 if until is None else max(until - time.monotonic(), 0.0)
        order = [self._sent(rows), self._sent(other), times, seconds, self._careful]
        outcomes: list[Outcome] = []
        try:
            pipe.send_bytes(json.dumps(order).encode())
            while pipe.poll(self.limit + 2 * _CHUNK_SECONDS):
                chunk = json.loads(pipe.recv_bytes())
                if chunk == "end":
                    return outcomes
                outcomes += [Outcome(*fields) for fields in chunk if fields is not None]
                self.starved += chunk.count(None)
            form = f"gives no answer in {self.limit:g} s"
        except (EOFError, ConnectionError):
            form = "ends its process"
        self._stop()
        self._careful = True
        self.failures += 1
        return [*outcomes, Outcome(form, form, [], [])]

    def _sent(self, rows: Any) -> Any:
        """Return rows as JSON that the child reads back; objects that it has from its birth go by number."""
        number = next((index for index, known in enumerate(self._known) if rows is known), None)
        return {"rows": rows} if number is None else {"known": number}

    def _started(self) -> tuple[int, Connection]:
        sys.stdout.flush()
        sys.stderr.flush()
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of the parent are not needed in the child
            child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                ours.close()
                self._serve(theirs)
            finally:
                # Not sys.exit: the parent's own clean-up must not run a second time in the child.
                os._exit(1)
        theirs.close()
        return child, ours

    def _serve(self, pipe: Connection) -> None:  # pragma: no cover - another process
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends the child
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        for module in {"random", "numpy.random"} & sys.modules.keys():  # not the numbers that its predecessor had
            sys.modules[module].seed(int.from_bytes(os.urandom(4)))
        _limit_memory()
        while True:
            *sent, times, seconds, careful = json.loads(pipe.recv_bytes())
            rows, other = (self._known[part["known"]] if "known" in part else part["rows"] for part in sent)
            ratio, flushed = self._ratio(rows, other), time.monotonic()
            ends, chunk = flushed + seconds, list[Any]()
            while times:
                times -= 1
                try:
                    chunk.append(observed(self.function, _fresh(rows), ratio).to_json())
                except MemoryError:
                    chunk.append(None)
                now = time.monotonic()
                if careful or now > min(flushed + _CHUNK_SECONDS, ends) or not times:
                    pipe.send_bytes(json.dumps(chunk).encode())
                    chunk, flushed = [], now
                    if now > ends:
                        break
            pipe.send_bytes(b'"end"')

    def _stop(self) -> None:
        if self._child is not None:
            child, pipe = self._child
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pipe.close()
            self._child = None


def _fresh(rows: Any) -> Any:
    """Return a copy that the function may change."""
    if type(rows) is list and all(type(row) in {int, float, str, bool, type(None)} for row in rows[:3]):
        return list(rows)
    if type(rows) is list and all(type(row) is dict for row in rows):
        return [dict(row) for row in rows]
    return copy.deepcopy(rows)


def _limit_memory() -> None:
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY, resource.RLIM_INFINITY))
    except (ImportError, OSError, ValueError):  # not Linux: the machine's own limits hold
        return


def program(arguments: list[str], *, limit: float = 10.0) -> Function:
    """Return a function that runs a program on rows: ``{rows}`` becomes the path of a CSV file. No shell is involved.

    Its outcome is the exit status and what it prints: JSON, or numbers and words.

    >>> program(["wc", "-l", "{rows}"])([1, 2, 3])["status"]
    0
    """
    folder = tempfile.mkdtemp(prefix="hush-audit-")
    path = Path(folder, "rows.csv")

    def run(rows: Any) -> Any:
        path.write_text(_csv(rows), "utf-8")
        filled = [part.replace("{rows}", str(path)) for part in arguments]
        try:
            done = subprocess.run(
                filled, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                timeout=limit,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"status": "no answer in time", "printed": []}
        return {"status": done.returncode, "printed": _parsed(done.stdout[:_OUTPUT].decode("utf-8", "replace"))}

    weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    return run


def _csv(rows: Any) -> str:
    out = io.StringIO()
    listed = [row if isinstance(row, dict) else {"value": row} for row in rows]
    writer = csv.DictWriter(out, list(listed[0]) if listed else ["value"])
    writer.writeheader()
    writer.writerows(listed)
    return out.getvalue()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [_word(word) for word in text.replace(",", " ").split()]


def _word(word: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return word
