"""Runs of a function that nobody trusts: in a child process, with limits, one after the other.

The function may run for ever, leave the process, print, change its rows, or eat all memory. So a child runs it and
sends back described outcomes, as lines of JSON. One child serves a whole audit: a generator of pseudo-random numbers
that the function keeps goes on where it was. A child that ends or does not answer in time is itself an outcome. It is
replaced, and from then on each run is sent by itself, so that nothing else is lost.

>>> with Runs(lambda rows: sum(rows)) as runs:
...     [outcome.token for outcome in runs.of([1, 2], times=3)]
['3', '3', '3']

**Outcomes** are all that can be seen of one run: value, type, shape, keys, exception, warnings; and, apart, its time.
An outcome is reduced to plain data where it arises, so that a huge or strange one costs little:

* ``form``: types, shapes and keys, without values: ``dict{a: float, b: float}``, ``raises ValueError``;
* ``token``: the whole value as text, or its hash where it is long; two outcomes are the same if their tokens are;
* ``numbers``: the first numbers in it, in a fixed order;
* ``keys``: names in mappings and members of sets;
* ``seconds``: how long the run took, which is a channel of its own;
* ``ratio``: the log-likelihood ratio of the pair, where a density is declared.

>>> seen = described({"b": 2.5, "a": -0.0})
>>> seen.form, seen.token, seen.numbers, seen.keys
('dict{a: float, b: float}', "{'a': -0.0, 'b': 2.5}", [-0.0, 2.5], ['a', 'b'])
>>> observed(lambda rows: iter(rows), [1, 2]).form, described(ValueError("no rows")).form
('list_iterator[int × 2]', 'raises ValueError')
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hush.core import HushError

NUMBERS = 64
"""How many numbers of an outcome are looked at."""
_KEYS = 64
_MEMBERS = 100_000
"""How many members of a list or of a generator are read."""
_DEEPEST = 8
_LONGEST = 120
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_CHUNK_SECONDS = 0.05
_MEMORY = 8 * 2**30
"""Bytes that the function may take beyond those that the child has at its start."""
_MOST_FAILURES = 12
"""The audit stops after this number of runs that ended, timed out or met the limit of memory."""

Function = Callable[[Any], Any]
Density = Callable[[Any, Any], float]


@dataclass(slots=True)
class Outcome:
    """Everything that was seen in one run."""

    form: str
    token: str
    numbers: list[float]
    keys: list[str]
    seconds: float = 0.0
    ratio: float = 0.0

    def to_json(self) -> list[Any]:
        """Return it as a list, for the way from one process to another."""
        return [self.form, self.token, self.numbers, self.keys, self.seconds, self.ratio]


def observed(function: Callable[[Any], Any], rows: Any, ratio: Callable[[Any], float] | None = None) -> Outcome:
    """Run a function once and describe everything that can be seen."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        begun, read = time.perf_counter(), ""
        try:
            value = function(rows)
            if isinstance(value, Iterator):  # a generator runs when it is read, and may fail there
                read, value = type(value).__name__, list(islice(value, _MEMBERS))
        except MemoryError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever leaves the function is an outcome, SystemExit too
            value = error
        seconds = time.perf_counter() - begun
    outcome = described(value)
    outcome.seconds = seconds
    outcome.form = read + outcome.form.removeprefix("list") if read else outcome.form
    if told:
        names = "+".join(sorted({warning.category.__name__ for warning in told}))
        outcome.form += f" warns {names}"
        outcome.token += f" warns {names}"
    if ratio is not None and not isinstance(value, BaseException):
        outcome.ratio = ratio(value)
    return outcome


def described(value: Any) -> Outcome:
    """Return a value as an outcome; never fails."""
    if type(value) is float or type(value) is int:  # by far the most frequent
        text = _hash(hex(value).encode()) if isinstance(value, int) and abs(value) >= 2**200 else repr(value)
        return Outcome(type(value).__name__, text, [_float(value)], [])
    numbers: list[float] = []
    keys: list[str] = []
    form, token = _describe(value, numbers, keys, 0)
    return Outcome(_short(form), _short(token), numbers[:NUMBERS], sorted(set(keys))[:_KEYS])


def _describe(value: Any, numbers: list[float], keys: list[str], depth: int) -> tuple[str, str]:
    """Return form and token; add numbers and keys."""
    kind = type(value).__name__
    if depth > _DEEPEST:
        return kind, "…"
    if isinstance(value, BaseException):
        return f"raises {kind}", f"raises {kind}: {_text(value)}"
    if value is None or isinstance(value, str | bytes | bytearray):
        return kind, repr(value) if value is None or len(value) <= _LONGEST else f"{len(value)} {_hash(_raw(value))}"
    if isinstance(value, bool | int | float | np.number | np.bool_):
        if len(numbers) < NUMBERS:
            numbers.append(_float(value))
        return kind, repr(value)
    if isinstance(value, np.ndarray):
        kind = f"{value.dtype}{list(value.shape)}"
        if value.dtype.kind in "biuf":
            numbers += [float(number) for number in value.ravel()[: NUMBERS - len(numbers)]]
            return kind, repr(value.tolist()) if value.size <= 8 else _hash(value.tobytes())
        form, token = _describe(value.ravel()[:_MEMBERS].tolist(), numbers, keys, depth + 1)
        return f"{kind} {form}", token
    if isinstance(value, Mapping):
        pairs = sorted(((_text(key), member) for key, member in value.items()), key=lambda pair: pair[0])
        keys += [key for key, _ in pairs[:_KEYS]]
        parts = [(key, *_describe(member, numbers, keys, depth + 1)) for key, member in pairs[:_MEMBERS]]
        form = ", ".join(f"{key}: {form}" for key, form, _ in parts)
        return f"{kind}{{{form}}}", "{" + ", ".join(f"{key!r}: {token}" for key, _, token in parts) + "}"
    if isinstance(value, AbstractSet):
        members = sorted(map(_text, value))
        keys += members[:_KEYS]
        return f"{kind}[{len(members)}]", f"{{{', '.join(members)}}}"
    if isinstance(value, Sequence):
        listed = [_describe(member, numbers, keys, depth + 1) for member in value[:_MEMBERS]]
        inner = _short(" | ".join(sorted({form for form, _ in listed})))
        return f"{kind}[{inner} × {len(value)}]", "[" + ", ".join(token for _, token in listed) + "]"
    if hasattr(value, "__array__") or hasattr(value, "to_numpy"):  # a data frame or a series of some library
        try:
            columns = [str(column) for column in getattr(value, "columns", ())]
            form, token = _describe(np.asarray(value), numbers, keys, depth)
        except Exception:  # noqa: BLE001 - a strange object is described by its text
            return kind, _text(value)
        keys += columns
        return f"{kind}{{{', '.join(columns)}}} {form}", token
    inside = {field.name: getattr(value, field.name, None) for field in fields(value)} if is_dataclass(value) else None
    inside = inside or getattr(value, "__dict__", None)
    if isinstance(inside, dict) and inside and not isinstance(value, type) and not callable(value):
        form, token = _describe(dict(inside), numbers, keys, depth + 1)
        return f"{kind} {form}", token
    return kind, _text(value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: object) -> str:
    try:
        return _ADDRESS.sub("0x…", str(value))[:10_000]
    except Exception:  # noqa: BLE001 - an object may break its own text
        return f"an unprintable {type(value).__name__}"


def _raw(value: str | bytes | bytearray) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 30]}… {_hash(_raw(text))}"


class Sample:
    """The outcomes of many runs on one data set, by column."""

    def __init__(self, outcomes: Sequence[Outcome] = ()) -> None:
        self.outcomes = list(outcomes)
        self._columns: dict[object, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.outcomes)

    def extend(self, outcomes: Sequence[Outcome]) -> None:
        """Add runs."""
        self.outcomes += outcomes
        self._columns.clear()

    def part(self, first: int, last: int) -> Sample:
        """Return some of the runs."""
        return Sample(self.outcomes[first:last])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the forms, tokens, seconds or ratios of all runs."""
        if name not in self._columns:
            values = [getattr(outcome, name) for outcome in self.outcomes]
            kind = object if name in {"form", "token"} else np.float64
            self._columns[name] = np.array(values, dtype=kind)
        return self._columns[name]

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the numbers of all runs, a row for each; NaN where a run has fewer."""
        if "numbers" not in self._columns:
            width = max((len(outcome.numbers) for outcome in self.outcomes), default=0)
            table = np.full((len(self), width), np.nan)
            for row, outcome in zip(table, self.outcomes, strict=True):
                row[: len(outcome.numbers)] = outcome.numbers
            self._columns["numbers"] = table
        return self._columns["numbers"]

    def has(self, key: str) -> npt.NDArray[np.float64]:
        """Return 1 for each run that shows a key, else 0."""
        return np.fromiter((key in outcome.keys for outcome in self.outcomes), dtype=np.float64, count=len(self))


# Runs of a function.


class AuditError(HushError):
    """An audit cannot go on: the function gives no outcomes."""


class Runs:
    """Runs a function on rows; with ``isolated`` in a child process."""

    def __init__(
        self,
        function: Function,
        *,
        density: Density | None = None,
        limit: float = 10.0,
        isolated: bool = True,
        known: Sequence[Any] = (),
    ) -> None:
        # The child has what is ``known`` from its birth, so that may be no JSON.
        self.function, self.density, self.limit, self._known = function, density, limit, known
        self.isolated = isolated and hasattr(os, "fork")
        self.failures = 0
        self.starved = 0
        """Runs that met our limit of memory: they say something about the limit, not about the rows."""
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

    def _ratio(self, rows: Any, other: Any) -> Callable[[Any], float] | None:
        density = self.density
        return None if density is None else lambda value: density(value, rows) - density(value, other)

    # -- the child ----------------------------------------------------------------------------------------------------

    def _from_child(self, rows: Any, other: Any, times: int, until: float | None) -> list[Outcome]:
        _, pipe = self._child = self._child or self._started()
        seconds = 1e9 if until is None else max(until - time.monotonic(), 0.0)
        order = [*map(self._sent, (rows, other)), times, seconds, self._careful]
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
        # Not a process of multiprocessing: those of a pool may have none of their own, and audits run in them too.
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
        with contextlib.suppress(ImportError, OSError, ValueError):  # elsewhere than on Linux the machine's limits hold
            import resource

            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
            most = pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
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
