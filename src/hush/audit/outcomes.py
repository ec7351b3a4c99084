"""Everything that can be seen of one run: value, type, shape, keys, exception, warnings; and, apart, its time.

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

import math
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

NUMBERS = 64
"""How many numbers of an outcome are looked at."""
_KEYS = 64
_MEMBERS = 100_000
"""How many members of a list or of a generator are read."""
_DEEPEST = 8
_LONGEST = 120
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


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

    def has(self, key: str) -> npt.NDArray[np.bool_]:
        """Return which runs show a key."""
        return np.fromiter((key in outcome.keys for outcome in self.outcomes), dtype=bool, count=len(self))
