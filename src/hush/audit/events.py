"""Which event tells two samples apart: single values, tails, low bits, keys, and the score of a small model.

An event is a *score* of an outcome and a condition on it. Every score is a function of outcomes alone, fixed by the
runs that it was chosen on, so that later runs test it honestly (`hush.audit.statistics`). Among all events the one is
taken whose bet is expected to grow fastest at the claimed (ε, δ), after p and q were moved towards each other by about
one standard error: the best of thousands looks better than it is.

>>> from hush.audit.outcomes import Sample, described
>>> left, right = (Sample([described(value) for value in values * 50]) for values in ([1.0, 2.0], [1.0, 1.0]))
>>> event = best_event(left, right, [(1.0, 0.0)])
>>> event.p > 0.3 > event.q
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.audit.outcomes import Sample
from hush.audit.statistics import Floats, rough_growth
from hush.core.format import figure
from hush.core.on_demand import optional

Booleans = npt.NDArray[np.bool_]
Score = Callable[[Sample], Floats]
_QUANTILES = np.concatenate([[0.001, 0.003, 0.01], np.linspace(0.02, 0.98, 49), [0.99, 0.997, 0.999]])
_VALUES = 16
"""How many single values of a score are tried."""
_LOOKED_AT = 100_000
"""How many runs per side an event is chosen on, the latest."""
_COORDINATES = 24
_DEEP = 3
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
    if timing:
        scores: list[tuple[str, str, Score]] = [("time", "seconds", _seconds)]
    else:
        scores = list(_scores(left, right, ratio=ratio, low_bits=low_bits))
    caution = 1 + 0.25 * np.log(len(scores) + 1)
    # Where nothing speaks against the claim, the event that speaks most against half of it bounds ε from below.
    half = points[len(points) // 2]
    best: list[OutcomeEvent | None] = [None, None]
    for kind, name, score in scores:
        one, other = score(left), score(right)
        if kind == "model":  # fitted to the first half: only the second can say how good it is
            one, other = one[count // 2 :], other[count // 2 :]
        for condition, threshold, ours, theirs in _conditions(one, other, single=kind not in {"time", "model"}):
            for swapped in (False, True):
                first, second = (theirs, ours) if swapped else (ours, theirs)
                p, q = _cautious(first, second, len(one), caution)
                for rank, claim in enumerate((points, [(half[0] / 2, half[1])])):
                    epsilons, deltas = (np.array(part)[None, :] for part in zip(*claim, strict=True))
                    gains = rough_growth(p[:, None], q[:, None], epsilons, deltas)
                    event, point = np.unravel_index(int(np.argmax(gains)), gains.shape)
                    before = best[rank]
                    if before is None or gains[event, point] > before.gain:
                        best[rank] = OutcomeEvent(
                            _named(name, condition, float(threshold[event])),
                            _held(score, condition, float(threshold[event])),
                            swapped, float(p[event]), float(q[event]),
                            points[int(point)] if rank == 0 else half, float(gains[event, point]), kind,
                        )  # fmt: skip
    against, below = best
    if against is None or below is None or against.gain > 0:
        return against
    below.gain -= 10.0
    return below


def _cautious(ours: Floats, theirs: Floats, count: int, caution: float) -> tuple[Floats, Floats]:
    """Return p and q from counts, moved towards each other by ``caution`` standard errors."""
    p, q = (ours + 0.5) / (count + 1), (theirs + 0.5) / (count + 1)
    p_low = p - caution * np.sqrt(p * (1 - p) / count)
    q_high = q + caution * np.sqrt(q * (1 - q) / count)
    return np.maximum(p_low, 0.0), np.minimum(q_high, 1.0)


def _conditions(one: Floats, other: Floats, *, single: bool) -> Any:
    """Yield ≥, < and = with thresholds, and how many runs of each side fulfil them. NaN fulfils none."""
    ours, theirs = np.sort(one[~np.isnan(one)]), np.sort(other[~np.isnan(other)])
    pooled = np.sort(np.concatenate([ours, theirs]))
    if not len(pooled):
        return
    cuts = np.unique(pooled[np.minimum((_QUANTILES * len(pooled)).astype(int), len(pooled) - 1)])
    # A cut lies between two values, so that rounding moves none of them across it.
    lower = pooled[np.maximum(np.searchsorted(pooled, cuts) - 1, 0)]
    with np.errstate(invalid="ignore", over="ignore"):
        middle = (cuts + lower) / 2
    cuts = np.unique(np.where(np.isfinite(middle) & (middle > lower), middle, cuts))
    below = [np.searchsorted(side, cuts).astype(float) for side in (ours, theirs)]
    yield "≥", cuts, len(ours) - below[0], len(theirs) - below[1]
    yield "<", cuts, below[0], below[1]
    if single:
        values, times = np.unique(pooled, return_counts=True)
        if times.max() > 1:
            values = values[np.argsort(times)[::-1][:_VALUES]]
            counts = [
                (np.searchsorted(side, values, "right") - np.searchsorted(side, values)).astype(float)
                for side in (ours, theirs)
            ]
            yield "=", values, counts[0], counts[1]


def _held(score: Score, condition: str, threshold: float) -> Callable[[Sample], Booleans]:
    compare = {"≥": np.greater_equal, "<": np.less, "=": np.equal}[condition]
    return lambda sample: np.asarray(compare(score(sample), threshold))


def _named(name: str, condition: str, threshold: float) -> str:
    if name.startswith(("the outcome ", "shows ")):
        return name if (condition, threshold > 0) in {("≥", True), ("=", True)} else f"not: {name}"
    return f"{name} {condition} {figure(threshold)}"


def _scores(left: Sample, right: Sample, *, ratio: bool, low_bits: bool) -> Any:
    """Yield kind, name and score of everything that may tell the samples apart."""
    for column in ("form", "token"):
        counts = Counter(left.column(column).tolist())
        others = Counter(right.column(column).tolist())
        values = sorted(set(counts) | set(others), key=lambda value: -abs(counts[value] - others[value]))
        if len(values) > 1:
            for value in values[: _VALUES if len(values) < len(left) else 4]:
                yield "value", f"the outcome is {value}", _indicator(column, value)
    keys = Counter(key for sample in (left, right) for outcome in sample.outcomes for key in outcome.keys)
    for key, times in keys.most_common(200):
        if times < len(left) + len(right):
            yield "key", f"shows {key}", lambda sample, key=key: sample.has(key).astype(float)
    if ratio:
        yield "likelihood", "likelihood ratio", lambda sample: sample.column("ratio")
    width = min(left.numbers().shape[1], right.numbers().shape[1])
    if not width:
        width = max(left.numbers().shape[1], right.numbers().shape[1])
    for index in range(min(width, _COORDINATES)):
        yield "number", f"number {index + 1}", lambda sample, index=index: _coordinate(sample, index)
    for index in range(min(width, 4)):
        if low_bits and (_fractional(left, index) or _fractional(right, index)):
            yield "low bits", f"lowest bit of number {index + 1}", lambda sample, index=index: _lowest(sample, index)
    if width > 1:
        yield "number", "sum of numbers", lambda sample: _reduced(sample, np.nansum)
        yield "number", "largest number", lambda sample: _reduced(sample, np.nanmax)
        yield "number", "smallest number", lambda sample: _reduced(sample, np.nanmin)
        yield "number", "how many are not 0", lambda sample: _reduced(sample, _nonzero)
    half = len(left) // 2
    if width and half >= _LEAST_LEAF:
        yield from _models(left.part(0, half), right.part(0, half), width)


def _seconds(sample: Sample) -> Floats:
    return sample.column("seconds")


def _indicator(column: str, value: str) -> Score:
    return lambda sample: (sample.column(column) == value).astype(float)


def _coordinate(sample: Sample, index: int) -> Floats:
    table = sample.numbers()
    return table[:, index] if index < table.shape[1] else np.full(len(sample), np.nan)


def _fractional(sample: Sample, index: int) -> bool:
    column = _coordinate(sample, index)
    return bool(np.any(np.isfinite(column) & (column != np.round(column))))


def _lowest(sample: Sample, index: int) -> Floats:
    """Return the exponent of the lowest bit that is set in a float: noise by inversion leaves its own pattern there.

    I. Mironov, *On significance of the least significant bits for differential privacy*, CCS 2012.
    """
    column = _coordinate(sample, index)
    mantissa, exponent = np.frexp(np.where(np.isfinite(column), column, 0.0))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1)) + exponent - 53
    return np.where(np.isfinite(column) & (column != 0), lowest, np.nan)


def _nonzero(table: Floats, axis: int) -> Any:
    return ((table != 0) & ~np.isnan(table)).sum(axis)  # NaN is where a longer outcome has a number


def _reduced(sample: Sample, reduce: Callable[..., Any]) -> Floats:
    table = sample.numbers()
    result = np.full(len(sample), np.nan)
    some = ~np.isnan(table).all(axis=1) if table.size else np.zeros(len(sample), bool)
    if some.any():
        with np.errstate(invalid="ignore", over="ignore"):
            result[some] = reduce(table[some], axis=1)
    return result


def _models(left: Sample, right: Sample, width: int) -> Any:
    """Yield scores that tell the sides apart: a histogram of one number; a linear model and a small tree of more."""
    if width == 1:
        yield "model", "histogram score", _histogram(left, right)
        return
    table = _prepared(np.concatenate([_padded(left, width), _padded(right, width)]))
    side = np.concatenate([np.ones(len(left)), np.zeros(len(right))])
    centre, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread == 0] = 1.0
    scaled = (table - centre) / spread
    # Fisher's discriminant, with a ridge for columns that move together.
    gap = scaled[side == 1].mean(axis=0) - scaled[side == 0].mean(axis=0)
    weights = np.linalg.solve(np.cov(scaled, rowvar=False) + 0.05 * np.eye(width), gap)
    yield (
        "model", "linear score",
        lambda sample: ((_prepared(_padded(sample, width)) - centre) / spread) @ weights,
    )  # fmt: skip
    predict = _forest(scaled, side) or _tree(scaled, side, _DEEP)
    yield "model", "tree score", lambda sample: predict((_prepared(_padded(sample, width)) - centre) / spread)


def _histogram(left: Sample, right: Sample) -> Score:
    """Return the smoothed log-ratio of how often a number fell into the same cell on both sides."""
    ours, theirs = (np.nan_to_num(_coordinate(side, 0)) for side in (left, right))
    values = np.unique(np.concatenate([ours, theirs]))
    edges = values if len(values) <= _CELLS else np.quantile(values, np.linspace(0, 1, _CELLS))
    counts = [np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1) for side in (ours, theirs)]
    ratios = np.log((counts[0] + 2.0) / (counts[1] + 2.0))
    return lambda sample: ratios[np.searchsorted(edges, np.nan_to_num(_coordinate(sample, 0)))]


def _padded(sample: Sample, width: int) -> Floats:
    table = sample.numbers()[:, :width]
    return np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=np.nan)


def _prepared(table: Floats) -> Floats:
    return np.clip(np.nan_to_num(table, nan=-1e6, posinf=1e9, neginf=-1e9), -1e9, 1e9)


def _forest(table: Floats, side: Floats) -> Callable[[Floats], Floats] | None:
    """Return scikit-learn's tree where the extra is installed and the sample is large enough to pay for it."""
    if len(table) < 2000:
        return None
    try:
        model = optional("sklearn.tree", "learn").DecisionTreeClassifier(max_depth=4, min_samples_leaf=50)
    except Exception:  # noqa: BLE001 - without the extra our own tree does
        return None
    model.fit(table, side)
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def _tree(table: Floats, side: Floats, depth: int) -> Callable[[Floats], Floats]:
    """Return a small decision tree: at each node the cut that separates the sides most, by χ²."""
    share = (side.sum() + 0.5) / (len(side) + 1)
    best: tuple[float, int, float] | None = None
    for column in range(table.shape[1]) if depth and len(side) >= 2 * _LEAST_LEAF else ():
        for cut in np.unique(np.quantile(table[:, column], np.linspace(0.1, 0.9, 9))):
            above = table[:, column] >= cut
            n = above.sum()
            if _LEAST_LEAF <= n <= len(side) - _LEAST_LEAF:
                gap = abs(side[above].mean() - side.mean()) * np.sqrt(n * len(side) / (len(side) - n))
                if best is None or gap > best[0]:
                    best = (float(gap), column, float(cut))
    if best is None:
        return lambda rows: np.full(len(rows), share)
    _, index, threshold = best
    above = table[:, index] >= threshold
    upper, lower = _tree(table[above], side[above], depth - 1), _tree(table[~above], side[~above], depth - 1)
    return lambda rows: np.where(rows[:, index] >= threshold, upper(rows), lower(rows))
