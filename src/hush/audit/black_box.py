"""The black-box audit: run on neighbours, choose an event on earlier runs, bet against the claim on later ones.

The order of an audit is: a few runs of every hostile pair; the better half gets twice as many, and so on until few are
left; then the best pair gets growing batches of runs, each tested with the event that all runs before it suggest. Every
few batches go to a random pair. All bets share one fortune, so that neither the many pairs and events nor the moment of
stopping cost confidence (`hush.audit.statistics`).

>>> import hush
>>> noise = hush.Laplace(sensitivity=1, epsilon=2)
>>> report = audit(lambda rows: noise.release(len(rows)), epsilon="1", schema=(0, 1), seconds=20, level="1e-6")
>>> isinstance(report, Report), isinstance(report.violation, Violation), report.violation.epsilon > 1
(True, True, True)
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from hush.accounting import Guarantee
from hush.accounting.guarantee import trade_off_chart, trade_off_points
from hush.audit.events import OutcomeEvent, best_event
from hush.audit.neighbours import NeighbourPair, Schema, as_pair, hostile, random_pair
from hush.audit.runs import AuditError, Density, Function, Outcome, Runs, Sample
from hush.audit.statistics import Fortune, LawTest, detectable, gaussian_mu, interval
from hush.core import InvalidValueError, Neighbours, Number, fraction_between, nonnegative, positive, probability
from hush.core.chart import Chart, ChartLine
from hush.core.errors import shown
from hush.core.format import ToldInLines, figure
from hush.noise import uniform_integer

Progress = Callable[[str, float], None]
_FIRST = 40
"""Runs on each data set before a pair is judged."""
_RATIO = 1.4
"""How fast the runs of the best pair grow."""
_FINALISTS = 3
_EXPLORED = 4
"""Another pair is tried after this number of batches."""
_REVISITED = 60
"""Each of the other pairs gets one run for this number of runs of the best pair."""
_PROFILE = 24
_LATER = 2.0
"""By what factor the runs of the best pair grow after a violation is proved, for a better lower bound."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The event that told most, with both probabilities from runs that had no part in choosing it."""

    pair: NeighbourPair
    event: OutcomeEvent
    runs: int
    counts: tuple[int, int]
    p: tuple[float, float]
    q: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Violation:
    """A proof that a claim does not hold."""

    epsilon: float
    event: str
    pair: NeighbourPair
    how: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(ToldInLines):
    """The result of an audit; it prints itself, shows itself in notebooks, and knows its chart and its JSON."""

    name: str
    points: tuple[tuple[float, float], ...]
    """The claim: (ε, δ), or several points of a profile."""
    level: float
    violation: Violation | None
    epsilon: float
    """The proved lower bound of ε at the claim's first δ."""
    detectable: float
    """The true ε that would have been found nine times in ten; ∞ if none."""
    mu: float
    """The least μ of Gaussian privacy that the best event allows."""
    runs: int
    """Runs on each data set of the pair that was tested longest."""
    pairs: int
    seconds: float
    measured: Evidence | None
    law: str = ""
    timing: str = ""
    """The finding about the time of a run, a channel that is not part of the claim."""
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    def lines(self) -> list[str]:
        """Return the report in lines."""
        claim = claim_words(self.points)
        claim = f"a profile of {len(self.points)} points, {claim} the first" if len(self.points) > 1 else claim
        confidence = f"{figure(100 * (1 - self.level), digits=8)} %"
        if self.violation is not None:
            proved = self.violation
            lines = [
                f"{self.name} is not as private as claimed: ε ≥ {figure(proved.epsilon, digits=4)}, claimed {claim}",
                f"  proved with confidence {confidence}, {proved.how}",
                f"  pair       {proved.pair.name}",
                f"    left     {_rows(proved.pair.left)}",
                f"    right    {_rows(proved.pair.right)}",
                f"  event      {proved.event}",
            ]
        else:
            found = f"a true ε of {figure(self.detectable, digits=4)} would"
            found = found if math.isfinite(self.detectable) else "too few runs: no true ε would"
            lines = [
                f"{self.name}: no violation found of {claim}",
                f"  lower bound of ε {figure(self.epsilon, digits=4)}, confidence {confidence}",
                f"  {found} have been found nine times in ten",
                "  (if one of these pairs and a threshold of what it shows tells them apart)",
            ]
        if self.measured is not None:
            seen = self.measured
            sides = ("right", "left") if seen.event.swapped else ("left", "right")
            if self.violation is None:
                lines += [f"  best pair  {seen.pair.name}", f"  event      {seen.event.name}"]
            for side, count, ends in zip(sides, seen.counts, (seen.p, seen.q), strict=True):
                low, high = (figure(end, digits=3) for end in ends)
                lines.append(f"    on the {side:5} {count} of {seen.runs} runs, {low} to {high}")
        lines += [f"  Gaussian   μ ≥ {figure(self.mu, digits=3)}"] if self.mu > 0 else []
        lines += [f"  law        {self.law}"] if self.law else []
        lines += [f"  time       {self.timing}"] if self.timing else []
        spent = figure(self.seconds, digits=3)
        lines.append(f"  {self.pairs} pairs, {self.runs} runs per side of the longest, {spent} s")
        lines += [f"  {note}" for note in self.notes]
        lines += ["  stopped by hand: the figures hold for the runs so far"] if self.interrupted else []
        if self.violation is not None:
            lines.append("  again      audit this pair alone: report.pair_json(), or --save-pair, is a file for --rows")
        return lines

    def told(self) -> str:
        """Return the report in one line, for tables."""
        if self.violation is not None:
            return f"ε ≥ {figure(self.violation.epsilon, digits=3)}: {self.violation.event}"
        missed = figure(self.detectable, digits=3) if math.isfinite(self.detectable) else "none"
        return f"ε ≥ {figure(self.epsilon, digits=3)}; found would be {missed}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        plain = ("name", "epsilon", "mu", "runs", "pairs", "seconds", "law", "interrupted")
        proved, seen = self.violation, self.measured
        return {name: getattr(self, name) for name in plain} | {
            "claim": [{"epsilon": epsilon, "delta": delta} for epsilon, delta in self.points],
            "confidence": 1 - self.level,
            "violation": proved
            and {
                "epsilon": proved.epsilon, "event": proved.event, "pair": proved.pair.name, "how": proved.how,
                "left": _plain(proved.pair.left), "right": _plain(proved.pair.right),
            },
            "detectable": self.detectable if math.isfinite(self.detectable) else None,
            "event": seen
            and {
                "pair": seen.pair.name, "event": seen.event.name, "runs": seen.runs, "counts": list(seen.counts),
                "p": list(seen.p), "q": list(seen.q),
            },
            "time": self.timing,
            "notes": list(self.notes),
        }  # fmt: skip

    def pair_json(self) -> str:
        """Return the pair of the violation, or the best pair, as ``--rows`` reads it."""
        best = self.violation or self.measured
        # Python's JSON has NaN and infinities, and reads them back.
        return json.dumps([] if best is None else [asdict(best.pair)], default=shown)

    def chart(self) -> Chart:
        """Return the claimed trade-off curve with the measured point and its interval."""
        measured = []
        if self.measured is not None:
            # Guess "the data set on which the event is likelier" if the event holds: α = q and β = 1 − p.
            (p_low, p_high), (left, right) = self.measured.p, self.measured.q
            low, high = 1 - p_high, 1 - p_low
            alpha, beta = (left + right) / 2, (low + high) / 2
            cross = [(left, beta), (right, beta), (alpha, beta), (alpha, low), (alpha, high)]
            measured.append(ChartLine(name="measured", points=cross, dot=(alpha, beta)))
        return trade_off_chart(
            [trade_off_points(self.points)], names=["claimed"], title=f"Audit of {self.name}",
            subtitle="a point below the claimed curve is a violation", measured=measured,
        )  # fmt: skip


def _rows(rows: Any) -> str:
    """Return the rows of a pair in one line; they are made up, or the caller's own."""
    return f"{len(rows)} rows {shown(rows)}" if hasattr(rows, "__len__") else shown(rows)


def _plain(value: Any) -> Any:
    """Return rows as JSON: NaN and infinities as words, objects as their text."""
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else shown(value)


@dataclass(slots=True)
class _Arm:
    """A pair with its runs and the event that tells most about it."""

    pair: NeighbourPair
    left: Sample = field(default_factory=Sample)
    right: Sample = field(default_factory=Sample)
    event: OutcomeEvent | None = None

    @property
    def runs(self) -> int:
        return min(len(self.left), len(self.right))


def claimed_points(epsilon: Number | None, delta: Number, guarantee: Guarantee | None) -> list[tuple[float, float]]:
    """Return the claim as points (ε, δ) that hold together, rounded to the side that protects the mechanism."""
    if (epsilon is None) == (guarantee is None):
        raise InvalidValueError("epsilon", got=epsilon, allowed="given, or guarantee, but not both")
    if guarantee is None:
        # One ulp up: a mechanism is never blamed for the rounding of its ε.
        point = float(nonnegative(epsilon, "epsilon")), float(probability(delta, "delta"))
        return [(math.nextafter(point[0], math.inf), math.nextafter(point[1], 1) if point[1] else 0.0)]
    top = guarantee.epsilon("1e-9").upper if math.isinf(guarantee.pure_epsilon()) else guarantee.pure_epsilon()
    curve = [(top * index / (_PROFILE - 1)) for index in range(_PROFILE)][::-1]
    return [(value, float(guarantee.delta(value).upper)) for value in curve]


def claim_words(points: Sequence[tuple[float, float]]) -> str:
    """Return the first point of a claim in words."""
    epsilon, delta = points[0]
    return f"ε = {figure(epsilon)}" + (f", δ = {figure(delta)}" if delta else "")


def audit(
    function: Function,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    guarantee: Guarantee | None = None,
    neighbours: str | Neighbours = "add-remove",
    schema: Schema = (0.0, 1.0),
    unit: str | None = None,
    pairs: Sequence[Any] | None = None,
    outside: bool = True,
    seconds: Number = 60,
    runs: int | None = None,
    level: Number = "0.05",
    density: Density | None = None,
    law: tuple[Any, Callable[[Any], float]] | None = None,
    limit: Number = 10,
    isolated: bool = True,
    timing: bool = False,
    low_bits: bool = True,
    name: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Look for a proof that a function of rows is less private than claimed.

    The claim is ``epsilon`` and ``delta``, or the whole profile of a ``guarantee``. Rows are lists that `hostile` makes
    from the ``schema``, or the ``pairs`` that are given. ``level`` is the probability that an honest function is
    accused. ``density(outcome, rows)`` is a log-density, if one is known; ``law`` is a mechanism that adds noise, with
    the function that computes the exact value. ``timing`` tests the time of a run, and nothing else. Noise in floating
    point nearly always shows itself in the low bits of an outcome; ``low_bits=False`` looks past that. ``limit`` is
    for one run, in seconds. Ctrl-C returns the report so far.

    >>> import hush
    >>> mean = lambda rows: sum(rows) / max(len(rows), 1) + hush.Laplace(sensitivity=1, epsilon=1).release(0) / 100
    >>> audit(mean, epsilon="1", schema=(0, 1), seconds=10).violation is None
    False
    """
    points, alpha = claimed_points(epsilon, delta, guarantee), float(fraction_between(level, "level"))
    listed = [as_pair(pair, index) for index, pair in enumerate(pairs)] if pairs is not None else None
    game = _Game(
        name=name or str(getattr(function, "__name__", type(function).__name__)),
        runs=Runs(
            function, density=density, limit=float(positive(limit, "limit")), isolated=isolated,
            known=[rows for pair in listed or () for rows in (pair.left, pair.right)],
        ),
        arms=[_Arm(pair) for pair in (listed or hostile(schema, neighbours, unit=unit, outside=outside))],
        points=points, level=alpha, share=alpha if law is None else 0.9 * alpha, fortune=Fortune(delta=points[0][1]),
        ends=time.monotonic() + float(positive(seconds, "seconds")), most=runs, timing=timing, low_bits=low_bits,
        law=None if law is None else (LawTest(law[0]), law[1]), progress=progress,
        search=None if listed else partial(random_pair, schema, neighbours, unit=unit),
    )  # fmt: skip
    notes: list[str] = []
    interrupted = False
    with game.runs:
        try:
            game.play()
        except KeyboardInterrupt:
            interrupted = True
        except AuditError as error:
            notes.append(str(error))
    if game.runs.failures:
        notes.append(f"{game.runs.failures} runs ended their process or gave no answer within {float(limit):g} s")
    if game.runs.starved:
        notes.append(f"{game.runs.starved} runs met the limit of memory, and count for neither side")
    return game.report(notes, interrupted=interrupted)


@dataclass(slots=True, kw_only=True)
class _Game:
    """One audit as it runs."""

    name: str
    runs: Runs
    arms: list[_Arm]
    points: list[tuple[float, float]]
    level: float
    ends: float
    most: int | None
    timing: bool
    low_bits: bool
    law: tuple[LawTest, Callable[[Any], float]] | None
    progress: Progress | None
    search: Callable[[], NeighbourPair] | None
    fortune: Fortune
    share: float
    """The part of the level that bets may use: a tenth is the law's where one is claimed."""
    begun: float = field(default_factory=time.monotonic)
    tested: tuple[_Arm, OutcomeEvent, Sample, Sample] | None = None
    looks: int = 0

    def play(self) -> None:
        """Run until the claim is refuted or time is up."""
        arms = self.screened()
        best, batches = arms[0], 0
        while not self.over(best):
            batches += 1
            if self.search is not None and batches % _EXPLORED == 0:
                self.arms.append(_Arm(self.search()))
                self.run(self.arms[-1], 2 * _FIRST)
                for arm in self.arms:  # pairs that were given up get their share of the runs, and another chance
                    if not self.over(arm):
                        self.run(arm, best.runs // _REVISITED - arm.runs)
                arms = [arm for arm in self.arms if arm.runs]
            elif batches % _EXPLORED == 2 and len(arms) > 1:
                self.batch(min(arms[:_FINALISTS], key=lambda arm: arm.runs))
            else:
                self.batch(best)
            if self.tested is not None and self.fortune.won(self.share):
                winner, now = self.tested[0], time.monotonic()
                wanted, self.ends = int(_LATER * winner.runs), min(self.ends, 2 * now - self.begun + 1)
                while not self.over(winner) and winner.runs < wanted:
                    self.batch(winner)
                return
            arms.sort(key=_rank)
            best = arms[0]

    def screened(self) -> list[_Arm]:
        """Run every pair a little, the better half again, and return the last ones, best first."""
        arms, size = list(self.arms), _FIRST
        # A fifth of the time, at most, goes to pairs that are given up.
        stop = time.monotonic() + (self.ends - time.monotonic()) / 5
        while True:
            for arm in arms:
                if self.over(arm):
                    break
                self.run(arm, size - arm.runs)
                self.tell("looking for a pair")
            arms = sorted((arm for arm in arms if arm.runs), key=_rank) or arms[:1]
            # An event that is all but certain needs no further search.
            clear = arms[0].event is not None and arms[0].event.gain * arms[0].runs > 4 - math.log(self.share)
            if len(arms) <= _FINALISTS or clear or self.over(arms[0]) or time.monotonic() > stop:
                return arms
            arms, size = arms[: max(len(arms) // 2, _FINALISTS)], 2 * size

    def over(self, arm: _Arm) -> bool:
        """Return whether time or runs are used up."""
        spent = self.most is not None and arm.runs >= self.most
        return spent or (arm.runs > 0 and time.monotonic() >= self.ends) or self.law_refuted()

    def law_refuted(self) -> bool:
        """Return whether the noise has not the claimed law."""
        return self.law is not None and self.law[0].refuted(0.1 * self.level)

    def run(self, arm: _Arm, count: int) -> tuple[list[Outcome], list[Outcome]]:
        """Run a pair ``count`` times more, and choose its event anew."""
        if count <= 0:
            return [], []
        pair = arm.pair
        if self.timing:  # by turns, in random order: other work of the machine must not tell the two apart
            left, right = list[Outcome](), list[Outcome]()
            while len(left) < count and (not left or time.monotonic() < self.ends):
                turns = [(pair.left, left), (pair.right, right)]
                for rows, outcomes in turns if uniform_integer(2) else turns[::-1]:
                    outcomes.extend(self.runs.of(rows, times=1))
        else:
            left = self.runs.of(pair.left, other=pair.right, times=count, until=self.ends)
            right = self.runs.of(pair.right, other=pair.left, times=min(count, len(left)), until=self.ends + 1)
        if self.runs.density is not None:
            for outcome in right:  # the ratio is left to right for both
                outcome.ratio = -outcome.ratio
        left = left[: len(right)]
        arm.left.extend(left)
        arm.right.extend(right)
        if self.law is not None:
            test, exact = self.law
            for rows, outcomes in ((pair.left, left), (pair.right, right)):
                with contextlib.suppress(TypeError, ValueError):  # rows on which no exact value exists
                    value = float(exact(rows))
                    test.add([outcome.numbers[0] - value for outcome in outcomes if len(outcome.numbers) == 1])
        if arm.runs:
            arm.event = best_event(
                arm.left, arm.right, self.points, timing=self.timing, ratio=self.runs.density is not None,
                low_bits=self.low_bits,
            )  # fmt: skip
        return left, right

    def batch(self, arm: _Arm) -> None:
        """Run a pair once more, with a bet on the event that its earlier runs suggest."""
        event, count = arm.event, max(math.ceil((_RATIO - 1) * arm.runs), 16)
        left, right = self.run(arm, count if self.most is None else min(count, self.most - arm.runs))
        self.tell("betting against the claim")
        if event is None or not right:
            return
        ours, theirs = Sample(left), Sample(right)
        sides = (event.holds(theirs), event.holds(ours)) if event.swapped else (event.holds(ours), event.holds(theirs))
        self.fortune.bet(*sides, p=event.p, q=event.q, point=event.point)
        self.tested = arm, event, ours, theirs
        self.looks += 1

    def tell(self, doing: str) -> None:
        """Show how far the audit is."""
        if self.progress is not None:
            whole = max(self.ends - self.begun, 1e-9)
            self.progress(doing, min((time.monotonic() - self.begun) / whole, 1.0))

    def report(self, notes: list[str], *, interrupted: bool) -> Report:
        """Return the report of this audit."""
        epsilon, delta = self.points[0]
        bound = self.fortune.epsilon(self.share)
        measured, mu, violation, law = None, 0.0, None, ""
        if self.tested is not None:  # the last event that was tested, with exact intervals
            arm, event, *sides = self.tested
            runs = min(map(len, sides))
            ours, theirs = (int(np.count_nonzero(event.holds(side))) for side in sides[:: -1 if event.swapped else 1])
            p, q = (interval(n, runs, level=self.level / 2, look=max(self.looks, 1)) for n in (ours, theirs))
            measured, mu = Evidence(arm.pair, event, runs, (ours, theirs), p, q), gaussian_mu(p, q)
            if self.fortune.won(self.share):
                how = f"{event.kind}, chosen on earlier runs and tested on later ones, {self.looks} batches"
                violation = Violation(max(bound, epsilon), event.name, arm.pair, how)
        if self.law is not None:
            law = "not the claimed one" if self.law_refuted() else "agrees with the claimed one"
            if self.law_refuted() and violation is None:
                how = "goodness of fit with the exact probabilities"
                violation = Violation(bound, "the noise has not the claimed law", self.arms[0].pair, how)
        forms = {outcome.form for arm in self.arms for outcome in arm.left.outcomes}
        if forms and all(form.startswith("raises ") for form in forms):
            notes.append(f"every run {min(forms)}: nothing else was audited")
        longest = max((arm.runs for arm in self.arms), default=0)
        later = max(longest - _FIRST, 0)
        return Report(
            name=self.name, points=tuple(self.points), level=self.level, violation=violation, epsilon=max(bound, 0.0),
            detectable=detectable(claimed=epsilon, runs=later, level=self.share, delta=delta) if later else math.inf,
            mu=mu, runs=longest, pairs=sum(1 for arm in self.arms if arm.runs),
            seconds=time.monotonic() - self.begun, measured=measured, law=law,
            timing="the only thing that was tested" if self.timing else "", notes=tuple(notes),
            interrupted=interrupted,
        )  # fmt: skip


def _rank(arm: _Arm) -> float:
    return -arm.event.gain if arm.event is not None else math.inf


def assert_private(function: Function, *, false_alarm: Number = "1e-6", seconds: Number = 10, **claim: Any) -> Report:
    """Raise AssertionError if an audit proves that a function is not as private as claimed; for tests.

    An honest function fails with probability ``false_alarm`` at most. Arguments are those of `audit`.

    >>> import hush
    >>> noise = hush.Laplace(sensitivity=1, epsilon=1)
    >>> report = assert_private(lambda rows: noise.release(len(rows)), epsilon="1", seconds=1)
    >>> assert_private(lambda rows: len(rows), epsilon="1")
    Traceback (most recent call last):
    ...
    AssertionError: <lambda> is not as private as claimed: ...
    """
    report = audit(function, level=false_alarm, seconds=seconds, **claim)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.violation is not None:
        raise AssertionError(str(report))
    return report
