"""Which event tells two samples apart: single values, tails, low bits, keys, and the score of a small model.

An event is a *score* of an outcome and a condition on it. Every score is a function of outcomes alone, fixed by the
runs that it was chosen on, so that later runs test it honestly (`hush.audit.statistics`). Among all events the one is
taken whose bet is expected to grow fastest at the claimed (ε, δ), after p and q were moved towards each other by about
one standard error: the best of thousands looks better than it is.

>>> from hush.audit.runs import Sample, described
>>> left, right = (Sample([described(value) for value in values * 50]) for values in ([1.0, 2.0], [1.0, 1.0]))
>>> event = best_event(left, right, [(1.0, 0.0)])
>>> event.p > 0.3 > event.q
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.audit.runs import Sample
from hush.audit.statistics import Floats, rough_growth
from hush.core.format import figure

Booleans = npt.NDArray[np.bool_]
Score = Callable[[Sample], Floats]
_QUANTILES = np.concatenate([[0.001, 0.003, 0.01], np.linspace(0.02, 0.98, 49), [0.99, 0.997, 0.999]])
_VALUES = 16
"""How many single values of a score are tried."""
_LOOKED_AT = 100_000
"""How many runs per side an event is chosen on, the latest."""
_COORDINATES = 24
_BITS = 4
"""The low bits of the first numbers are looked at."""
_CELLS = 400
_LEAST_LEAF = 10


@dataclass(slots=True)
class OutcomeEvent:
    """An event, its direction, and its probabilities in earlier runs."""

    name: str
    holds: Callable[[Sample], Booleans]
    swapped: bool
    """Whether the event is likelier on the right data set, so that p is the right one's probability."""
    p: float
    q: float
    point: tuple[float, float]
    gain: float
    """The expected growth of the log-fortune with each pair of runs."""
    kind: str


def best_event(
    left: Sample,
    right: Sample,
    points: Sequence[tuple[float, float]],
    *,
    timing: bool = False,
    ratio: bool = False,
    low_bits: bool = True,
) -> OutcomeEvent | None:
    """Return the event that promises most, at whichever point of the claim; None if all outcomes are the same."""
    count = min(len(left), len(right), _LOOKED_AT)
    left, right = left.part(len(left) - count, len(left)), right.part(len(right) - count, len(right))
    seconds: tuple[str, str, Score] = ("time", "seconds", partial(Sample.column, name="seconds"))
    scores = [seconds] if timing else _scores(left, right, ratio, low_bits)
    caution = 1 + 0.25 * np.log(len(scores) + 1)
    # Where nothing speaks against the claim, the event that speaks most against half of it bounds ε from below.
    half = points[len(points) // 2]
    claims = [np.array(points), np.array([[half[0] / 2, half[1]]])]
    best: list[OutcomeEvent | None] = [None, None]
    for kind, name, score in scores:
        first = count // 2 if kind == "model" else 0  # fitted to the first half: only the second can say how good it is
        sides = score(left)[first:], score(right)[first:]
        for condition, thresholds, ours, theirs in _conditions(*sides, single=kind not in {"time", "model"}):
            for swapped in (False, True):
                runs = count - first
                p, q = ((held + 0.5) / (runs + 1) for held in ((theirs, ours) if swapped else (ours, theirs)))
                p, q = p - caution * np.sqrt(p * (1 - p) / runs), q + caution * np.sqrt(q * (1 - q) / runs)
                p, q = np.maximum(p, 0.0), np.minimum(q, 1.0)
                for rank, claim in enumerate(claims):
                    gains = rough_growth(p[:, None], q[:, None], claim[None, :, 0], claim[None, :, 1])
                    event, point = np.unravel_index(int(np.argmax(gains)), gains.shape)
                    before, gain, threshold = best[rank], float(gains[event, point]), float(thresholds[event])
                    if before is None or gain > before.gain:
                        best[rank] = OutcomeEvent(
                            _named(name, condition, threshold), partial(_holds, score, condition, threshold), swapped,
                            float(p[event]), float(q[event]), points[int(point)] if rank == 0 else half, gain, kind,
                        )  # fmt: skip
    against, below = best
    if below is not None and against is not None and against.gain <= 0:
        below.gain -= 10.0  # it ranks behind every event that speaks against the claim
        return below
    return against


def _conditions(one: Floats, other: Floats, *, single: bool) -> Iterator[tuple[str, Floats, Floats, Floats]]:
    """Yield each comparison (≥, <, =), its thresholds, and the runs of each side that fulfil it; NaN never does."""
    sides = [np.sort(side[~np.isnan(side)]) for side in (one, other)]
    pooled = np.sort(np.concatenate(sides))
    if not len(pooled):
        return
    cuts = np.unique(pooled[np.minimum((_QUANTILES * len(pooled)).astype(int), len(pooled) - 1)])
    # A cut lies between two values, so that rounding moves none of them across it.
    lower = pooled[np.maximum(np.searchsorted(pooled, cuts) - 1, 0)]
    with np.errstate(invalid="ignore", over="ignore"):
        middle = (cuts + lower) / 2
    cuts = np.unique(np.where(np.isfinite(middle) & (middle > lower), middle, cuts))
    ours, theirs = (np.searchsorted(side, cuts).astype(float) for side in sides)
    yield "≥", cuts, len(sides[0]) - ours, len(sides[1]) - theirs
    yield "<", cuts, ours, theirs
    values, times = np.unique(pooled, return_counts=True)
    if single and times.max() > 1:
        values = values[np.argsort(times)[::-1][:_VALUES]]
        ours, theirs = (
            (np.searchsorted(side, values, "right") - np.searchsorted(side, values)).astype(float) for side in sides
        )
        yield "=", values, ours, theirs


def _holds(score: Score, condition: str, threshold: float, sample: Sample) -> Booleans:
    compare = {"≥": np.greater_equal, "<": np.less, "=": np.equal}[condition]
    return np.asarray(compare(score(sample), threshold))


def _named(name: str, condition: str, threshold: float) -> str:
    if name.startswith(("the outcome ", "shows ")):
        return name if (condition, threshold > 0) in {("≥", True), ("=", True)} else f"not: {name}"
    return f"{name} {condition} {figure(threshold)}"


def _scores(left: Sample, right: Sample, ratio: bool, low_bits: bool) -> list[tuple[str, str, Score]]:
    """Return kind, name and score of everything that may tell the samples apart."""
    scores: list[tuple[str, str, Score]] = []
    for column in ("form", "token"):
        counts, others = (Counter(side.column(column).tolist()) for side in (left, right))
        values = sorted(counts.keys() | others.keys(), key=lambda value: (-abs(counts[value] - others[value]), value))
        if len(values) > 1:
            tried = values[: _VALUES if len(values) < len(left) else 4]
            scores += [("value", f"the outcome is {value}", partial(_equals, column, value)) for value in tried]
    keys = Counter(key for sample in (left, right) for outcome in sample.outcomes for key in outcome.keys)
    for key, times in keys.most_common(200):
        if times < len(left) + len(right):
            scores.append(("key", f"shows {key}", partial(Sample.has, key=key)))
    if ratio:
        scores.append(("likelihood", "likelihood ratio", partial(Sample.column, name="ratio")))
    widths = [side.numbers().shape[1] for side in (left, right)]
    width = min(widths) or max(widths)
    for index in range(min(width, _COORDINATES)):
        coordinate = partial(_coordinate, index=index)
        scores.append(("number", f"number {index + 1}", coordinate))
        finite = (column[np.isfinite(column)] for column in map(coordinate, (left, right)))
        if low_bits and index < _BITS and any(np.any(column != np.round(column)) for column in finite):
            scores.append(("low bits", f"lowest bit of number {index + 1}", partial(_lowest, index=index)))
    if width > 1:
        reductions: dict[str, Callable[..., Any]] = {
            "sum of numbers": np.nansum, "largest number": np.nanmax, "smallest number": np.nanmin,
            # NaN is where a longer outcome has a number
            "how many are not 0": lambda table, axis: np.count_nonzero(np.nan_to_num(table), axis=axis),
        }  # fmt: skip
        scores += [("number", name, partial(_reduced, reduce=reduce)) for name, reduce in reductions.items()]
    half = len(left) // 2
    if width and half >= _LEAST_LEAF:
        scores.append(("model", *_model(left.part(0, half), right.part(0, half), width)))
    return scores


def _equals(column: str, value: str, sample: Sample) -> Floats:
    return np.asarray(sample.column(column) == value, dtype=float)


def _coordinate(sample: Sample, index: int) -> Floats:
    table = sample.numbers()
    return table[:, index] if index < table.shape[1] else np.full(len(sample), np.nan)


def _lowest(sample: Sample, index: int) -> Floats:
    """Return the exponent of the lowest bit that is set in a float: noise by inversion leaves its own pattern there.

    I. Mironov, *On significance of the least significant bits for differential privacy*, CCS 2012.
    """
    column = _coordinate(sample, index)
    mantissa, exponent = np.frexp(np.where(np.isfinite(column), column, 0.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1)) + exponent - 53
    return np.where(np.isfinite(column) & (column != 0), lowest, np.nan)


def _reduced(sample: Sample, reduce: Callable[..., Any]) -> Floats:
    table = sample.numbers()
    result = np.full(len(sample), np.nan)
    some = ~np.isnan(table).all(axis=1) if table.size else np.zeros(len(sample), bool)
    if some.any():
        with np.errstate(invalid="ignore", over="ignore"):
            result[some] = reduce(table[some], axis=1)
    return result


def _model(left: Sample, right: Sample, width: int) -> tuple[str, Score]:
    """Return a score that tells the sides apart, and its name: a histogram of one number, or a linear model of more."""
    if width == 1:  # the smoothed log-ratio of how often a number fell into the same cell on both sides
        numbers = [np.nan_to_num(_coordinate(side, 0)) for side in (left, right)]
        values = np.unique(np.concatenate(numbers))
        edges = values if len(values) <= _CELLS else np.quantile(values, np.linspace(0, 1, _CELLS))
        ours, theirs = (np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1) for side in numbers)
        ratios = np.log((ours + 2.0) / (theirs + 2.0))
        return "histogram score", lambda sample: ratios[np.searchsorted(edges, np.nan_to_num(_coordinate(sample, 0)))]

    def padded(sample: Sample) -> Floats:
        table = sample.numbers()[:, :width]
        table = np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=np.nan)
        return np.clip(np.nan_to_num(table, nan=-1e6, posinf=1e9, neginf=-1e9), -1e9, 1e9)

    sides = padded(left), padded(right)
    table = np.concatenate(sides)
    spread = table.std(axis=0)
    spread[spread == 0] = 1.0
    # Fisher's discriminant, with a ridge for columns that move together.
    gap = (sides[0].mean(axis=0) - sides[1].mean(axis=0)) / spread
    weights = np.linalg.solve(np.cov(table / spread, rowvar=False) + 0.05 * np.eye(width), gap) / spread
    return "linear score", lambda sample: padded(sample) @ weights
