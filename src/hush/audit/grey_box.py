r"""The grey box: record the calls of noise primitives on one data set, replay their results on its neighbour.

With the same noise everywhere, whatever still differs between neighbours is the work of the data. Recorded are the
functions of `hush.noise`, ``numpy.random``, ``random`` and ``secrets``, and, one level up, mechanisms that take the
value themselves: ``release`` of hush's, ``randomise`` of diffprivlib's, measurements of OpenDP. What is reported:

* **control flow**: other draws, or another number of them;
* **scale**: a parameter of the noise that differs between neighbours;
* **sensitivity**: values that differ by more than the mechanism was told;
* **sum**: the recorded mechanisms, or the noise against how far the outcome moved, cost more than is claimed;
* **around the noise**: mechanisms got and gave the same, and the outcome differs;
* **late**: rows are read again after the last draw, which is no violation, but worth a look.

One run is enough, because nothing is random. The idea is that of Re:cord-play (arXiv 2602.17454). It believes the
primitives: whether their law is right, a black-box audit says.

>>> import hush
>>> def mean(rows):
...     return hush.Laplace(sensitivity=1, epsilon=1).release(sum(rows)) / max(len(rows), 1)
>>> sorted({finding.kind for finding in replay(mean, epsilon=1, schema=(0, 5)).findings})
['around the noise', 'late', 'sensitivity']
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from hush.accounting import ApproximateDPEvent, GaussianEvent, LaplaceEvent, compose
from hush.audit.neighbours import NeighbourPair, Schema, as_pair, hostile
from hush.audit.outcomes import described, observed
from hush.core import HushError, Neighbours, Number, exact, nonnegative, probability
from hush.core.errors import shown
from hush.core.format import ToldInLines, figure

_FUNCTIONS = {
    "hush.noise": "",
    "numpy.random": "beta binomial choice exponential gamma geometric gumbel laplace logistic normal permutation "
    "poisson rand randint randn random random_sample shuffle standard_normal uniform",
    "random": "random uniform gauss normalvariate expovariate randint randrange choice choices sample shuffle",
    "secrets": "randbelow randbits token_bytes choice",
}
"""Functions that draw; all that the module offers where none is named."""
_METHODS = {"hush": "release", "diffprivlib.mechanisms": "randomise", "opendp.mod": "__call__"}
"""Mechanisms that take the value: which method of a module's classes."""
_SLACK = 1 + 1e-9
_VIOLATIONS = {"control flow", "scale", "sensitivity", "sum", "around the noise"}


@dataclass(slots=True)
class RecordedDraw:
    """One call of a primitive."""

    name: str
    value: Any
    """The value that a mechanism got, or the location of the noise; None for noise alone."""
    parameters: str
    sensitivity: float | None
    event: Any
    """The event for an accountant, or (law, scale)."""
    result: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that replay shows, and the pair that shows it."""

    kind: str
    words: str
    pair: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Replayed(ToldInLines):
    """The findings of a replay.

    >>> Replayed(name="mean", findings=(), draws=1, pairs=3)
    mean: replay shows no violation (3 pairs, 1 draws recorded at most)
    """

    name: str
    findings: tuple[Finding, ...]
    draws: int
    pairs: int

    @property
    def violation(self) -> bool:
        """Whether one of the findings breaks the claim."""
        return any(finding.kind in _VIOLATIONS for finding in self.findings)

    def lines(self) -> list[str]:
        """Return the findings, one of each kind."""
        head = "is not as private as claimed" if self.violation else "replay shows no violation"
        first = {finding.kind: finding for finding in reversed(self.findings)}
        counts = f"{self.pairs} pairs, {self.draws} draws recorded at most"
        return [
            f"{self.name}: {head} ({counts})",
            *(f"  {kind}: {each.words} [{each.pair}]" for kind, each in sorted(first.items())),
            *(
                ["  no draw was recorded: the noise is none of the primitives that replay knows"]
                if not self.draws
                else []
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON."""
        listed = [{"kind": each.kind, "words": each.words, "pair": each.pair} for each in self.findings]
        return {"name": self.name, "violation": self.violation, "draws": self.draws, "findings": listed}


class _Rows(list[Any]):
    """Rows that know when they were last read."""

    tape: _Tape | None = None

    def __iter__(self) -> Iterator[Any]:
        self._read()
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        self._read()
        return super().__getitem__(index)

    def __len__(self) -> int:
        self._read()
        return super().__len__()

    def _read(self) -> None:
        if self.tape is not None:
            self.tape.read_after = len(self.tape.draws)


class _Tape:
    """The draws of a run; with ``before`` their results come from another run."""

    def __init__(self, before: list[RecordedDraw] | None = None) -> None:
        self.draws: list[RecordedDraw] = []
        self.before = before
        self.read_after = 0
        self._inside = False

    def wrap(self, name: str, original: Callable[..., Any], *, mechanism: bool = False) -> Callable[..., Any]:
        """Return a primitive that records, and replays where there is something to replay."""

        def call(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # a primitive that another one calls
                return original(*arguments, **options)
            self._inside = True
            try:
                place = len(self.draws)
                draw = _drawn(name, arguments, options, mechanism=mechanism)
                known = self.before is not None and place < len(self.before) and self.before[place].name == name
                self.draws.append(draw)
                draw.result = self.before[place].result if known and self.before else original(*arguments, **options)
                return draw.result
            finally:
                self._inside = False

        return call


def _drawn(name: str, arguments: tuple[Any, ...], options: dict[str, Any], *, mechanism: bool) -> RecordedDraw:
    if mechanism:
        owner, *rest = arguments
        value = rest[0] if rest else next(iter(options.values()), None)
        event = getattr(owner, "event", None)
        if event is None and hasattr(owner, "epsilon"):
            event = ApproximateDPEvent(epsilon=owner.epsilon, delta=getattr(owner, "delta", 0))
        reach = getattr(owner, "sensitivity", None)
        return RecordedDraw(name, value, _told(owner), None if reach is None else float(reach), event, None)
    law = name.rpartition(".")[2]
    if law in {"laplace", "normal", "gauss"}:  # numpy and random: location, scale
        place = options.get("loc", arguments[0] if arguments else 0.0)
        scale = options.get("scale", arguments[1] if len(arguments) > 1 else 1.0)
        kind = "laplace" if law == "laplace" else "gaussian"
        return RecordedDraw(name, place, f"scale {scale}", None, (kind, scale), None)
    if law in {"discrete_laplace", "rounded_laplace", "discrete_gaussian", "rounded_gaussian"}:
        scale = arguments[0] if arguments else next(iter(options.values()))
        return RecordedDraw(
            name, None, f"scale {scale}", None, ("laplace" if "laplace" in law else "gaussian", scale), None
        )
    return RecordedDraw(name, None, shown((arguments, options)), None, None, None)


def _told(owner: Any) -> str:
    names = ("sensitivity", "epsilon", "delta", "scale", "sigma")
    return ", ".join(f"{name}={getattr(owner, name)}" for name in names if hasattr(owner, name)) or type(owner).__name__


class _Place(NamedTuple):
    """A name in a module or a class that holds a primitive."""

    owner: Any
    name: str
    label: str
    original: Any
    mechanism: bool = False


def _places() -> list[_Place]:
    """Return all primitives, also where they were imported by name."""
    labels: dict[int, tuple[str, str]] = {}
    for source, names in _FUNCTIONS.items():
        home = import_module(source)
        labels |= {id(getattr(home, name)): (source, name) for name in names.split() or home.__all__}
    places = []
    for module in [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]:
        for name, value in list(vars(module).items()):
            source, primitive = labels.get(id(value), ("", ""))
            # A package's own inner modules go on calling the original, or a draw would be recorded twice.
            if primitive and not source.startswith(module.__name__ + "."):
                places.append(_Place(module, name, f"{source}.{primitive}", value))
    for source, method in _METHODS.items():
        owner = sys.modules.get(source)
        kinds = [getattr(owner, name) for name in dir(owner)] if owner is not None else []
        places += [
            _Place(kind, method, f"{kind.__name__}.{method}", vars(kind)[method], mechanism=True)
            for kind in {kind for kind in kinds if isinstance(kind, type) and method in vars(kind)}
        ]
    return places


@contextmanager
def recording(tape: _Tape, places: Sequence[_Place]) -> Iterator[None]:
    """Put recording functions in the place of all primitives, and take them away again."""
    numpy_random = import_module("numpy.random")
    default_rng = numpy_random.default_rng
    try:
        numpy_random.default_rng = _maker(default_rng, tape, "numpy.random.Generator")  # type: ignore[attr-defined]
        for place in places:
            setattr(place.owner, place.name, tape.wrap(place.label, place.original, mechanism=place.mechanism))
        yield
    finally:
        numpy_random.default_rng = default_rng  # type: ignore[attr-defined]
        for place in places:
            setattr(place.owner, place.name, place.original)


def _maker(original: Callable[..., Any], tape: _Tape, name: str) -> Callable[..., Any]:
    class Generator:
        """A generator with recorded methods."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._inner = original(*arguments, **options)

        def __getattr__(self, method: str) -> Any:
            inner = getattr(self._inner, method)
            return tape.wrap(f"{name}.{method}", inner) if callable(inner) else inner

    return Generator


def replay(
    function: Callable[[Any], Any],
    *,
    epsilon: Number,
    delta: Number = 0,
    neighbours: str | Neighbours = "add-remove",
    schema: Schema = (0.0, 1.0),
    unit: str | None = None,
    pairs: Sequence[Any] | None = None,
    name: str | None = None,
) -> Replayed:
    """Record a function on one data set of each pair, and replay it on the other.

    >>> import hush
    >>> honest = lambda rows: hush.Laplace(sensitivity=1, epsilon=1).release(len(rows))
    >>> replay(honest, epsilon=1).violation, replay(honest, epsilon="0.5").violation
    (False, True)
    """
    claim = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    listed = (
        hostile(schema, neighbours, unit=unit, outside=False)
        if pairs is None
        else [as_pair(pair, index) for index, pair in enumerate(pairs)]
    )
    findings: list[Finding] = []
    most, places = 0, _places()
    for pair in listed:
        first, tape = _run(function, pair.left, None, places)
        second, again = _run(function, pair.right, tape.draws, places)
        most = max(most, len(tape.draws))
        findings += _compared(pair, tape, again, (first, second), claim)
    label = name or str(getattr(function, "__name__", type(function).__name__))
    return Replayed(name=label, findings=tuple(findings), draws=most, pairs=len(listed))


def _run(
    function: Callable[[Any], Any], rows: Any, before: list[RecordedDraw] | None, places: Sequence[_Place]
) -> tuple[Any, _Tape]:
    tape = _Tape(before)
    handed = rows
    if type(rows) is list:
        handed = _Rows(rows)
        handed.tape = tape
    with recording(tape, places):
        outcome = observed(function, handed)
    return outcome, tape


def _compared(pair: NeighbourPair, tape: _Tape, again: _Tape, outcomes: Any, claim: Any) -> list[Finding]:
    """Return the differences between a run and its replay."""
    findings = []

    def add(kind: str, words: str) -> None:
        findings.append(Finding(kind, words, pair.name))

    names, others = [draw.name for draw in tape.draws], [draw.name for draw in again.draws]
    if names != others:
        add("control flow", f"{len(names)} draws on one side, {len(others)} on the other, or others in between")
    events, moved = [], False
    for draw, other in zip(tape.draws, again.draws, strict=False):
        if draw.parameters != other.parameters:
            add("scale", f"{draw.name} with {draw.parameters} on one side, {other.parameters} on the other")
        # Gaussian noise is calibrated to ℓ₂ distances, all other noise here to ℓ₁.
        distance = _distance(draw.value, other.value, euclidean="auss" in draw.name)
        moved |= distance > 0
        if draw.sensitivity is not None and distance > draw.sensitivity * _SLACK:
            add("sensitivity", f"{draw.name} is given values {figure(distance)} apart, not {figure(draw.sensitivity)}")
        if isinstance(draw.event, tuple):
            if distance:
                events.append(_event(draw.event, distance))
        elif draw.event is not None:
            events.append(draw.event)
    first, second = outcomes
    noises = [draw for draw in tape.draws if isinstance(draw.event, tuple)]
    if names == others and first.token != second.token:
        if noises and not moved:  # noise alone was drawn: how far did the outcome move under it?
            gap = _distance(first.numbers, second.numbers, euclidean=False)
            events.append(_event(noises[0].event, gap) if math.isfinite(gap) else None)
        elif names and not noises and all(draw.value is not None for draw in tape.draws):
            add("around the noise", "the outcome differs though every mechanism gave the same")
    _add_sum(add, events, claim)
    if max(tape.read_after, again.read_after) >= len(names) > 0:
        add("late", "rows are read after the last draw")
    return findings


def _add_sum(add: Callable[[str, str], None], events: list[Any], claim: Any) -> None:
    if None in events:
        add("sum", "the outcome moves infinitely far under the same noise")
        return
    epsilon, delta = claim
    try:
        # The certified lower end: a violation is told only where the accountant is sure.
        total = compose(events).epsilon(delta).lower if events else 0.0
    except (HushError, ArithmeticError):
        total = math.inf  # pure ε of Gaussian noise, or δ that no ε has
    if total > float(epsilon) * _SLACK:
        add("sum", f"the draws cost ε = {figure(total, digits=4)}, claimed {figure(float(epsilon))}")


def _event(draw: tuple[str, Any], distance: float) -> Any:
    law, scale = draw
    spread = float(scale)
    if spread <= 0 or not math.isfinite(spread + distance):
        return None
    gap = exact(distance, "distance")
    return (
        LaplaceEvent(scale=exact(spread, "scale"), sensitivity=gap)
        if law == "laplace"
        else GaussianEvent(sigma=exact(spread, "scale"), sensitivity=gap)
    )


def _distance(one: Any, other: Any, *, euclidean: bool) -> float:
    """Return how far two values are apart, ∞ if they cannot be compared."""
    if one is None and other is None:
        return 0.0
    ours, theirs = np.array(described(one).numbers), np.array(described(other).numbers)
    if ours.shape != theirs.shape or not ours.size:
        return 0.0 if described(one).token == described(other).token else math.inf
    with np.errstate(invalid="ignore"):
        # Equal infinities are no distance apart, but their difference is NaN.
        gap = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
    total = float(np.sqrt((gap**2).sum()) if euclidean else gap.sum())
    return math.inf if math.isnan(total) else total
