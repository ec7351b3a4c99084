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
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
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
        self._child: int | None = None
        self._input = self._output = -1
        self._buffer = b""
        self._careful = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def of(self, rows: Any, *, times: int, other: Any = None, until: float | None = None) -> list[Outcome]:
        """Return the outcomes of ``times`` runs on rows, or of the runs that fit before ``until``."""
        outcomes: list[Outcome] = []
        if not self.isolated:
            while len(outcomes) < times and (until is None or not outcomes or time.monotonic() < until):
                outcomes.append(observed(self.function, _fresh(rows), self._ratio(rows, other)))
            return outcomes
        while len(outcomes) < times and (until is None or not outcomes or time.monotonic() < until):
            outcomes += self._from_child(rows, other, times - len(outcomes), until)
            if self.failures + self.starved > _MOST_FAILURES:
                raise AuditError(
                    f"The function gave no answer in {self.failures + self.starved} runs: each ended its process, took "
                    f"more than {self.limit:g} s, or {_MEMORY >> 30} GiB of memory. Raise the limit of one run, or "
                    "call it on the rows yourself to see why."
                )
        return outcomes

    def _ratio(self, rows: Any, other: Any) -> Callable[[Any], float] | None:
        if self.density is None:
            return None
        density = self.density
        return lambda value: density(value, rows) - density(value, other)

    # -- the child ----------------------------------------------------------------------------------------------------

    def _from_child(self, rows: Any, other: Any, times: int, until: float | None) -> list[Outcome]:
        if self._child is None:
            self._start()
        order = {"rows": self._sent(rows), "other": self._sent(other), "times": times, "careful": self._careful}
        if until is not None:
            order["seconds"] = max(until - time.monotonic(), 0.0)
        outcomes: list[Outcome] = []
        try:
            os.write(self._input, json.dumps(order).encode() + b"\n")
            while True:
                line = self._line()
                if line == "end":
                    return outcomes
                outcomes += [Outcome(*fields) for fields in line if fields is not None]
                self.starved += line.count(None)
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            self._stop()
            self._careful = True
            self.failures += 1
            form = f"gives no answer in {self.limit:g} s" if isinstance(error, TimeoutError) else "ends its process"
            return [*outcomes, Outcome(form, form, [], [])]

    def _sent(self, rows: Any) -> Any:
        """Return rows as JSON that the child reads back; objects that it has from its birth go by number."""
        for index, known in enumerate(self._known):
            if rows is known:
                return {"known": index}
        return {"rows": rows}

    def knows(self, rows: Any) -> None:
        """Let the child have an object that is no JSON; before the first run."""
        self._known.append(rows)

    def _line(self) -> Any:
        deadline = time.monotonic() + self.limit + 2 * _CHUNK_SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._output], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            part = os.read(self._output, 2**16)
            if not part:
                raise EOFError
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        input_end, self._input = os.pipe()
        self._output, output_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of the parent are not needed in the child
            self._child = os.fork()
        if self._child == 0:  # pragma: no cover - another process
            status = 1
            try:
                os.close(self._input)
                os.close(self._output)
                self._serve(input_end, output_end)
                status = 0
            finally:
                # Not sys.exit: the parent's own clean-up must not run a second time in the child.
                os._exit(status)
        os.close(input_end)
        os.close(output_end)
        self._buffer = b""

    def _serve(self, orders: int, results: int) -> None:  # pragma: no cover - another process
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends the child
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        _reseed()
        _limit_memory()
        with os.fdopen(orders, "rb") as lines, os.fdopen(results, "wb") as out:
            for line in lines:
                order = json.loads(line)
                rows, other = (
                    self._known[part["known"]] if "known" in part else part["rows"]
                    for part in (order["rows"], order["other"])
                )
                ratio, ends = self._ratio(rows, other), time.monotonic() + order.get("seconds", 1e9)
                chunk: list[Any] = []
                flushed = time.monotonic()
                for index in range(order["times"]):
                    try:
                        chunk.append(observed(self.function, _fresh(rows), ratio).to_json())
                    except MemoryError:
                        chunk.append(None)
                    now = time.monotonic()
                    if order["careful"] or now > flushed + _CHUNK_SECONDS or index + 1 == order["times"] or now > ends:
                        out.write(json.dumps(chunk).encode() + b"\n")
                        out.flush()
                        chunk, flushed = [], now
                    if now > ends:
                        break
                out.write(b'"end"\n')
                out.flush()

    def _stop(self) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            os.close(self._input)
            os.close(self._output)
            self._child = None


def _fresh(rows: Any) -> Any:
    """Return a copy that the function may change."""
    if type(rows) is list and all(type(row) in {int, float, str, bool, type(None)} for row in rows[:3]):
        return list(rows)
    if type(rows) is list and all(type(row) is dict for row in rows):
        return [dict(row) for row in rows]
    return copy.deepcopy(rows)


def _reseed() -> None:
    """Give a new child other pseudo-random numbers than its predecessor had."""
    for module, seed in (("random", "seed"), ("numpy.random", "seed")):
        if module in sys.modules:
            getattr(sys.modules[module], seed)(int.from_bytes(os.urandom(4)))


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
    with tempfile.NamedTemporaryFile(prefix="hush-audit-", suffix=".csv", delete=False) as file:
        path = Path(file.name)

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
        finally:
            path.unlink(missing_ok=True)
        return {"status": done.returncode, "printed": _parsed(done.stdout[:_OUTPUT].decode("utf-8", "replace"))}

    path.unlink()
    return run


def _csv(rows: Any) -> str:
    import csv
    import io

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
    try:
        return float(word) if any(mark in word for mark in ".einEIN") else int(word)
    except ValueError:
        return word
