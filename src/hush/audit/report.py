"""The report of an audit: a proved violation and how to see it again, or the ε that would have been found.

>>> from hush.audit import audit
>>> report = audit(lambda rows: float(sum(rows)), epsilon="1", schema=(0, 1), seconds=5)
>>> print(report)
<lambda> is not as private as claimed: ε ≥ ..., claimed ε = 1
...
>>> report.violation.event
'...'
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from hush.accounting.trade_off import trade_off_chart, trade_off_points
from hush.audit.neighbours import NeighbourPair
from hush.core.chart import Chart, ChartLine
from hush.core.errors import shown
from hush.core.format import ToldInLines, figure


@dataclass(frozen=True, slots=True)
class Evidence:
    """The event that told most, with both probabilities from runs that had no part in choosing it."""

    pair: NeighbourPair
    event: str
    kind: str
    swapped: bool
    runs: int
    counts: tuple[int, int]
    p: tuple[float, float]
    q: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Violation:
    """A proof that a claim does not hold.

    >>> from hush.audit import audit
    >>> audit(len, epsilon="1", seconds=20).violation.event
    '...'
    """

    epsilon: float
    event: str
    pair: NeighbourPair
    how: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(ToldInLines):
    """The result of an audit; it prints itself, shows itself in notebooks, and knows its chart and its JSON.

    >>> from hush.audit import audit
    >>> import hush
    >>> count = hush.Laplace(sensitivity=1, epsilon=1)
    >>> report = audit(lambda rows: count.release(len(rows)), epsilon="1", schema=(0, 1), seconds=1, level="1e-6")
    >>> report.violation is None, report.epsilon <= 1 < report.detectable
    (True, True)
    """

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
        (epsilon, delta), *more = self.points
        claim = f"ε = {figure(epsilon)}" + (f", δ = {figure(delta)}" if delta else "")
        claim = f"a profile of {len(self.points)} points, {claim} the first" if more else claim
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
            lines = [
                f"{self.name}: no violation found of {claim}",
                f"  lower bound of ε {figure(self.epsilon, digits=4)}, confidence {confidence}",
                f"  a true ε of {figure(self.detectable, digits=4)} would have been found nine times in ten"
                if math.isfinite(self.detectable)
                else "  too few runs: no true ε would have been found nine times in ten",
                "  (if one of these pairs and a threshold of what it shows tells them apart)",
            ]
        if self.measured is not None:
            seen = self.measured
            sides = ("right", "left") if seen.swapped else ("left", "right")
            if self.violation is None:
                lines += [f"  best pair  {seen.pair.name}", f"  event      {seen.event}"]
            for side, count, ends in zip(sides, seen.counts, (seen.p, seen.q), strict=True):
                low, high = (figure(end, digits=3) for end in ends)
                lines.append(f"    on the {side:5} {count} of {seen.runs} runs, {low} to {high}")
        lines += [f"  Gaussian   μ ≥ {figure(self.mu, digits=3)}"] if self.mu > 0 else []
        lines += [f"  law        {self.law}"] if self.law else []
        lines += [f"  time       {self.timing}"] if self.timing else []
        lines.append(
            f"  {self.pairs} pairs, {self.runs} runs per side of the longest, {figure(self.seconds, digits=3)} s"
        )
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
                "pair": seen.pair.name, "event": seen.event, "runs": seen.runs, "counts": list(seen.counts),
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
