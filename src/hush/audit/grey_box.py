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
>>> replayed = replay(mean, epsilon=1, schema=(0, 5))
>>> isinstance(replayed, Replayed), sorted({finding.kind for finding in replayed.findings})
(True, ['around the noise', 'late', 'sensitivity'])
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from hush.accounting import ApproximateDPEvent, GaussianEvent, LaplaceEvent, compose
from hush.audit.neighbours import Schema, as_pair, hostile
from hush.audit.runs import Outcome, described, observed
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
    result: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that replay shows, and the pair that shows it."""

    kind: str
    words: str
    pair: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Replayed(ToldInLines):
    """The findings of a replay."""

    name: str
    findings: tuple[Finding, ...]
    draws: int
    pairs: int

    @property
    def violation(self) -> bool:
        """Whether one of the findings breaks the claim."""
        return any(finding.kind != "late" for finding in self.findings)

    def lines(self) -> list[str]:
        """Return the findings, one of each kind."""
        head = "is not as private as claimed" if self.violation else "replay shows no violation"
        first = {finding.kind: finding for finding in reversed(self.findings)}
        lines = [f"{self.name}: {head} ({self.pairs} pairs, {self.draws} draws recorded at most)"]
        lines += [f"  {kind}: {finding.words} [{finding.pair}]" for kind, finding in sorted(first.items())]
        if not self.draws:
            lines.append("  no draw was recorded: the noise is none of the primitives that replay knows")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the findings as JSON."""
        listed = [asdict(finding) for finding in self.findings]
        return {"name": self.name, "violation": self.violation, "draws": self.draws, "findings": listed}


@dataclass(slots=True)
class _Tape:
    """The draws of a run; with ``before`` their results come from another run."""

    before: list[RecordedDraw] = field(default_factory=list)
    draws: list[RecordedDraw] = field(default_factory=list)
    read_after: int = 0
    """The number of draws before the last time that rows were read."""
    _inside: bool = False

    def wrap(self, name: str, original: Callable[..., Any], *, mechanism: bool = False) -> Callable[..., Any]:
        """Return a primitive that records, and replays where there is something to replay."""

        def call(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # a primitive that another one calls
                return original(*arguments, **options)
            self._inside = True
            try:
                draw = (_released if mechanism else _drawn)(name, arguments, options)
                self.draws.append(draw)
                recorded = self.before[len(self.draws) - 1 : len(self.draws)]
                replayed = bool(recorded) and recorded[0].name == name
                draw.result = recorded[0].result if replayed else original(*arguments, **options)
                return draw.result
            finally:
                self._inside = False

        return call


class _Rows(list[Any]):
    """Rows that tell a tape when they are read."""

    def __init__(self, rows: list[Any], tape: _Tape) -> None:
        super().__init__(rows)
        self.tape = tape

    def __iter__(self) -> Iterator[Any]:
        self.tape.read_after = len(self.tape.draws)
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        self.tape.read_after = len(self.tape.draws)
        return super().__getitem__(index)

    def __len__(self) -> int:
        self.tape.read_after = len(self.tape.draws)
        return super().__len__()


def _released(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> RecordedDraw:
    """Return the record of a mechanism that is given a value."""
    owner, *values = [*arguments, *options.values()]
    event = getattr(owner, "event", None)
    if event is None and hasattr(owner, "epsilon"):
        event = ApproximateDPEvent(epsilon=owner.epsilon, delta=getattr(owner, "delta", 0))
    names = [part for part in ("sensitivity", "epsilon", "delta", "scale", "sigma") if hasattr(owner, part)]
    told = ", ".join(f"{part}={getattr(owner, part)}" for part in names) or type(owner).__name__
    reach = getattr(owner, "sensitivity", None)
    return RecordedDraw(name, values[0] if values else None, told, None if reach is None else float(reach), event)


def _drawn(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> RecordedDraw:
    """Return the record of noise alone."""
    law, value = name.rpartition(".")[2], None
    kind = "laplace" if "laplace" in law else "gaussian"
    if law in {"laplace", "normal", "gauss"}:  # numpy and random: location, scale
        value = options.get("loc", arguments[0] if arguments else 0.0)
        scale = options.get("scale", arguments[1] if len(arguments) > 1 else 1.0)
    elif law in {"discrete_laplace", "rounded_laplace", "discrete_gaussian", "rounded_gaussian"}:
        scale = arguments[0] if arguments else next(iter(options.values()))
    else:
        return RecordedDraw(name, None, shown((arguments, options)), None, None)
    return RecordedDraw(name, value, f"scale {scale}", None, (kind, scale))


Place = tuple[Any, str, str, Any, bool]
"""A primitive: the module or class that holds it, its name there, its label, itself, whether it is given a value."""


def _places() -> list[Place]:
    """Return all primitives, also where they were imported by name."""
    labels: dict[int, tuple[str, str]] = {}
    for source, names in _FUNCTIONS.items():
        library = import_module(source)
        labels |= {id(getattr(library, name)): (source, name) for name in names.split() or library.__all__}
    places: list[Place] = []
    for module in [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]:
        for name, value in list(vars(module).items()):
            source, primitive = labels.get(id(value), ("", ""))
            # A package's own inner modules go on calling the original, or a draw would be recorded twice.
            if primitive and not source.startswith(module.__name__ + "."):
                places.append((module, name, f"{source}.{primitive}", value, False))
    for source, method in _METHODS.items():
        home = sys.modules.get(source)  # the names of None have no such method
        exported = [getattr(home, name) for name in dir(home)]
        kinds = {kind for kind in exported if isinstance(kind, type) and method in vars(kind)}
        places += [(kind, method, f"{kind.__name__}.{method}", vars(kind)[method], True) for kind in kinds]
    return places


@contextmanager
def recording(tape: _Tape, places: Sequence[Place]) -> Iterator[None]:
    """Put recording functions in the place of all primitives, and take them away again."""
    numpy_random: Any = import_module("numpy.random")
    default_rng = numpy_random.default_rng

    class Generator:
        """A generator with recorded methods."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._inner = default_rng(*arguments, **options)

        def __getattr__(self, method: str) -> Any:
            inner = getattr(self._inner, method)
            return tape.wrap(f"numpy.random.Generator.{method}", inner) if callable(inner) else inner

    try:
        numpy_random.default_rng = Generator
        for owner, name, label, original, mechanism in places:
            setattr(owner, name, tape.wrap(label, original, mechanism=mechanism))
        yield
    finally:
        numpy_random.default_rng = default_rng
        for owner, name, _, original, _ in places:
            setattr(owner, name, original)


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
    listed = [as_pair(pair, index) for index, pair in enumerate(pairs or ())]
    if pairs is None:
        listed = hostile(schema, neighbours, unit=unit, outside=False)
    findings: list[Finding] = []
    most, places = 0, _places()
    for pair in listed:
        tape = _Tape()
        again, outcomes = _Tape(before=tape.draws), list[Outcome]()
        for rows, record in ((pair.left, tape), (pair.right, again)):
            with recording(record, places):
                outcomes.append(observed(function, _Rows(rows, record) if type(rows) is list else rows))
        most = max(most, len(tape.draws))
        findings += [Finding(kind, words, pair.name) for kind, words in _compared(tape, again, outcomes, claim)]
    label = name or str(getattr(function, "__name__", type(function).__name__))
    return Replayed(name=label, findings=tuple(findings), draws=most, pairs=len(listed))


def _compared(tape: _Tape, again: _Tape, outcomes: Sequence[Outcome], claim: Any) -> Iterator[tuple[str, str]]:
    """Yield the differences between a run and its replay."""
    names, others = [draw.name for draw in tape.draws], [draw.name for draw in again.draws]
    if names != others:
        yield "control flow", f"{len(names)} draws on one side, {len(others)} on the other, or others in between"
    events: list[Any] = []
    moved = False
    for draw, other in zip(tape.draws, again.draws, strict=False):
        if draw.parameters != other.parameters:
            yield "scale", f"{draw.name} with {draw.parameters} on one side, {other.parameters} on the other"
        # Gaussian noise is calibrated to ℓ₂ distances, all other noise here to ℓ₁.
        distance = _distance(draw.value, other.value, euclidean="auss" in draw.name)
        moved |= distance > 0
        if draw.sensitivity is not None and distance > draw.sensitivity * _SLACK:
            yield "sensitivity", f"{draw.name} is given values {figure(distance)} apart, not {figure(draw.sensitivity)}"
        if not isinstance(draw.event, tuple):
            events += [] if draw.event is None else [draw.event]
        elif distance:
            events.append(_event(draw.event, distance))
    noises = [draw for draw in tape.draws if isinstance(draw.event, tuple)]
    first, second = outcomes
    if names == others and first.token != second.token:
        if noises and not moved:  # noise alone was drawn: how far did the outcome move under it?
            events.append(_event(noises[0].event, _distance(first.numbers, second.numbers, euclidean=False)))
        elif names and not noises and all(draw.value is not None for draw in tape.draws):
            yield "around the noise", "the outcome differs though every mechanism gave the same"
    epsilon, delta = claim
    if None in events:
        yield "sum", "the outcome moves infinitely far under the same noise"
    elif events:
        try:  # the certified lower end: a violation is told only where the accountant is sure
            total = compose(events).epsilon(delta).lower
        except (HushError, ArithmeticError):
            total = math.inf  # pure ε of Gaussian noise, or δ that no ε has
        if total > float(epsilon) * _SLACK:
            yield "sum", f"the draws cost ε = {figure(total, digits=4)}, claimed {figure(float(epsilon))}"
    if max(tape.read_after, again.read_after) >= len(names) > 0:
        yield "late", "rows are read after the last draw"


def _event(noise: tuple[str, Any], distance: float) -> Any:
    """Return the event of noise of this scale against a distance; None where no noise hides it."""
    law, spread = noise[0], float(noise[1])
    if spread <= 0 or not math.isfinite(spread + distance):
        return None
    gap, width = exact(distance, "distance"), exact(spread, "scale")
    if law == "laplace":
        return LaplaceEvent(scale=width, sensitivity=gap)
    return GaussianEvent(sigma=width, sensitivity=gap)


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
