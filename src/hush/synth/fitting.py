r"""How synthetic rows are planned, and all that follows from what was measured: bins, graph, model, rows.

`SynthesisPlan` says, without data, what each step may cost. `Fitting` is a function of the measurements alone, so it
can be made again from those that were kept. `hush.synth.synthesis` tells the whole way.

**One-way counts made useful: noise taken out, negative counts moved away, codes put into private bins.**

All of it is post-processing of noisy counts and costs nothing.

**Smoothing** of ordered columns. Haar wavelets turn counts into differences of neighbouring blocks; the noise is as
large in each coefficient, while most of a smooth distribution sits in few. Coefficients below 0.85·σ·√(2 ln n) are set
to 0 (hard thresholds: Donoho, Johnstone 1994), averaged over shifts (Coifman, Donoho 1995), on counts that are
continued by their mirror image. Spikes stay, for they are above any threshold.

**Bins.** Neighbouring codes of an ordered column are merged until a bin holds max(N/resolution, 6σ) rows; a code that
holds as much stays alone. Rare values of other columns, below 3σ, go into one bin. Pairs of columns are then measured
on bins, and what a bin's rows are in detail is drawn from the smoothed one-way counts: the model of bins loses nothing
that was measured.

>>> bins = merge(np.array([50.0, 1, 1, 1, 1, 60]), floor=5.0, ordered=True)
>>> bins.tolist()
[0, 1, 1, 1, 1, 2]

**Which pairs of columns the model joins** is chosen from noisy scores alone, so that choosing costs nothing more.

The score of a pair is how far its table is from what a public estimate says, in rows: e = ‖M - M̂‖₁, on integers. One
row changes it by at most 1, whatever the estimate is. But the scores of two pairs may move in opposite directions, so
they are not monotone: noise must cover a change of 1 up or down in each (`score_sensitivities`).

**Graph.** Pairs are taken in the order of their scores, less a penalty for their number of cells, as long as the
cliques of the triangulated graph stay within a number of cells. Several penalties are tried.

**What is measured.** A measured pair no longer errs by e but by its noise, c·n/√ρ over its n cells. Given all pairs
that lie within cliques, the ones to be measured and their parts of ρ maximise Σ (e_p - c·n_p/√ρ_p): parts are
proportional to n_p^(2/3), so that the noise of a set is (Σ n_p^(2/3))^(3/2)·c/√ρ, and sets are prefixes of the order of
e_p/n_p^(2/3). With Laplace noise likewise, with n_p^(1/2) and a square (`hush.synth.measurements`).

>>> graph = choose(4, [2, 2, 2, 2], {(0, 1): 90.0, (2, 3): 80.0, (0, 2): 1.0}, noise=1.0, power=2 / 3, limit=8)
>>> graph.measured
((0, 1), (2, 3))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hush.accounting.events import Event
from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.mechanisms.estimators.postprocess import nonnegative
from hush.synth.domain import MAX_CELLS, CodedTable, Domain
from hush.synth.measurements import Measurement, Price, shares
from hush.synth.model import Draws, Places, Target, TreeModel, eliminate, fits, given_groups, junction_tree, sample

Progress = Callable[[str, float], None]
ONE_WAYS, SCORES = Fraction(30, 100), Fraction(5, 100)
CERTIFICATE = Fraction(5, 100)
RESOLUTION = 128
"""A bin holds about this part of all rows, or more."""
MAX_COLUMNS = 200
_CLEAR = 20_000
"""Rows over the noise of a count that takes the whole price: from here on cliques may be larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What affects how good a release is, never how private.

    >>> Settings().certificate
    Fraction(1, 20)
    """

    one_ways: Fraction = ONE_WAYS
    scores: Fraction = SCORES
    certificate: Fraction = CERTIFICATE
    rounds: int = 1
    cells: int = 0
    """How many cells a clique may have; 0 to let the noise decide."""
    iterations: int = 0
    """Steps of the fit; 0 to let the noise decide."""
    resolution: int = RESOLUTION

    def __post_init__(self) -> None:
        if min(self.one_ways, self.scores) <= 0 or self.certificate < 0 or self.pairs <= 0:
            raise InvalidValueError("certificate", got=self.certificate, allowed="a share of the price from 0 to 1/2")

    @property
    def pairs(self) -> Fraction:
        """The share that is spent on measuring pairs."""
        return 1 - self.one_ways - self.certificate - self.scores * self.rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisPlan:
    """How synthetic rows are made, and what that costs. Public: nothing was read.

    >>> from hush.synth import Domain, Price, plan_synthesis
    >>> plan = plan_synthesis(Domain.of({"age": 10, "sex": 2}), Price(law="gaussian", amount=Fraction(10)))
    >>> plan.settings.rounds
    1
    """

    domain: Domain
    price: Price
    settings: Settings
    rows: int
    touched: int

    @property
    def events(self) -> tuple[Event, ...]:
        """What is charged: the whole price, of which roundings may leave a little."""
        return (self.price.event(self.price.amount),)

    @property
    def counts_sensitivities(self) -> tuple[Fraction, Fraction]:
        """Δ₂² and Δ₁ of a table of counts: a unit's rows may all lie in one cell; replaced, they go and come."""
        return Fraction(self.rows * self.rows * self.touched), Fraction(self.rows * self.touched)

    def parameter(self, share: Fraction) -> Fraction:
        """Return the noise of a table of counts that takes a share of the price."""
        squared, absolute = self.counts_sensitivities
        return self.price.parameter(share, squared=squared, absolute=absolute)

    def score_parameter(self, share: Fraction, pairs: int) -> Fraction:
        """Return the noise of the scores of all pairs."""
        squared, absolute = score_sensitivities(pairs, self.rows, self.touched)
        return self.price.parameter(share, squared=squared, absolute=absolute)

    def deviation(self, parameter: Fraction) -> float:
        """Return the standard deviation of noise with a parameter."""
        value = float(parameter)
        return math.sqrt(value if self.price.law == "gaussian" else 2 * value * value)

    def one_way_shares(self) -> dict[str, Fraction]:
        """Return the share of each column's counts."""
        weights = [float(size) ** self.price.power for size in self.domain.sizes]
        return dict(zip(self.domain.names, shares(weights, self.settings.one_ways), strict=True))


def certified_pairs(plan: SynthesisPlan) -> list[Places]:
    """Return the pairs that are certified: all whose tables are not too large."""
    names = plan.domain.names
    pairs = combinations(range(len(names)), 2)
    return [pair for pair in pairs if plan.domain.cells([names[column] for column in pair]) <= MAX_CELLS]


class Fitting:
    """Everything that follows from the measurements: number of rows, bins, graph, model. Public."""

    def __init__(self, plan: SynthesisPlan, measurements: Sequence[Measurement]) -> None:
        self._plan = plan
        domain = plan.domain
        ones = list(measurements[: len(domain)])
        weights = [1 / (measurement.variance * len(measurement.values)) for measurement in ones]
        totals = [float(measurement.values.sum()) for measurement in ones]
        self.total = sum(weight * value for weight, value in zip(weights, totals, strict=True)) / sum(weights)
        self.total_deviation = math.sqrt(1 / sum(weights))
        self.count = max(0, round(self.total))
        self.ones: list[Floats] = []
        self.bins: list[Bins] = []
        for measurement, name in zip(ones, domain.names, strict=True):
            deviation, ordered, null = math.sqrt(measurement.variance), name in domain.ordered, name in domain.nulls
            counts = settled(measurement.values.astype(float), self.total, deviation, ordered=ordered, null=null)
            floor = max(self.total / plan.settings.resolution, 6 * deviation) if ordered else 3 * deviation
            self.ones.append(counts)
            self.bins.append(merge(counts, floor=floor, ordered=ordered, null=null))
        self.sizes = [int(bins.max()) + 1 for bins in self.bins]
        self.binned = domain.resized(dict(zip(domain.names, self.sizes, strict=True)))
        self.grouped = [
            np.bincount(bins, counts, minlength=size).astype(np.float64)
            for bins, counts, size in zip(self.bins, self.ones, self.sizes, strict=True)
        ]
        self.edges: list[Places] = []
        self.model: TreeModel | None = None
        self._round = 0

    def reference(self, pairs: Sequence[Places]) -> dict[Places, npt.NDArray[np.int64]]:
        """Return what is expected of each pair on bins: independent columns, or rows of the model, if there is one."""
        if self.model is not None:
            rows = sample(self.model, self.count, Draws(b"reference"))
            tables = {}
            for pair in pairs:
                shape = (self.sizes[pair[0]], self.sizes[pair[1]])
                mixed = rows[:, pair[0]] * shape[1] + rows[:, pair[1]]
                tables[pair] = np.bincount(mixed, minlength=math.prod(shape)).reshape(shape)
            return tables
        total = max(self.total, 1.0)
        return {
            pair: np.rint(np.outer(self.grouped[pair[0]], self.grouped[pair[1]]) / total).astype(np.int64)
            for pair in pairs
        }

    def chosen(
        self, measurements: Sequence[Measurement], pairs: Sequence[Places], share: Fraction
    ) -> list[tuple[Places, Fraction]]:
        """Return the pairs to be measured in this round, with their shares of the price."""
        price, settings = self._plan.price, self._plan.settings
        latest = [measurement for measurement in measurements if measurement.kind == "scores"][self._round]
        self._round += 1
        scores = dict(zip(pairs, latest.values.astype(float).tolist(), strict=True))
        noise = price.magnitude(float(share)) * math.sqrt(float(self._plan.counts_sensitivities[0]))
        graph = choose(
            len(self.sizes),
            self.sizes,
            scores,
            noise=noise,
            power=price.power,
            limit=settings.cells or self._scaled(20_000, 60_000),
            least=2 * math.sqrt(latest.variance),
            held=self.edges,
        )
        self.edges = list(graph.edges)
        if not graph.measured:
            return []
        weights = [float(self.sizes[first] * self.sizes[other]) ** price.power for first, other in graph.measured]
        return list(zip(graph.measured, shares(weights, share), strict=True))

    def _scaled(self, usual: int, large: int) -> int:
        """Return the larger figure where there are many rows for their noise, and the model is what limits it."""
        return large if self.total > _CLEAR * self._plan.deviation(self._plan.parameter(Fraction(1))) else usual

    def fit(self, measurements: Sequence[Measurement], progress: Progress) -> None:
        """Fit the model of the graph to all counts that were measured."""
        domain = self._plan.domain
        targets = []
        for measurement in measurements:
            if measurement.kind != "counts":
                continue
            places = tuple(domain.place(name) for name in measurement.columns)
            counts = measurement.values.astype(float)
            variances = np.full(counts.shape, measurement.variance)
            if len(places) == 1:
                bins, size = self.bins[places[0]], self.sizes[places[0]]
                counts = np.bincount(bins, counts, minlength=size)
                variances = measurement.variance * np.bincount(bins, minlength=size)
            targets.append(Target(columns=places, counts=counts, variances=variances))
        self.model = TreeModel(self.sizes, junction_tree(len(self.sizes), self.edges, self.sizes))
        self.model.fit(
            targets,
            self.total,
            self.grouped,
            iterations=self._plan.settings.iterations or self._scaled(300, 400),
            progress=lambda part: progress("fitting", part),
        )

    def draw(self, rows: int, draws: Draws) -> CodedTable:
        """Return synthetic rows: bins from the model, then codes within bins from the one-way counts."""
        domain = self._plan.domain
        if self.model is None:
            self.model = TreeModel(self.sizes, junction_tree(len(self.sizes), [], self.sizes))
            self.fit([], lambda _stage, _part: None)
        binned = sample(self.model, rows, draws)
        codes = {}
        for column, name in enumerate(domain.names):
            bins = self.bins[column]
            detail = np.zeros((self.sizes[column], len(bins)))
            detail[bins, np.arange(len(bins))] = self.ones[column] + 1e-9
            codes[name] = given_groups(binned[:, column], detail, draws)
        return CodedTable.of(domain, codes)


Floats = npt.NDArray[np.float64]
Bins = npt.NDArray[np.int64]
_SHORT = 8
_SHIFTS = 32
_THRESHOLD = 0.85
MAX_BINS = 64


def smoothed(counts: Floats, deviation: float) -> Floats:
    """Return noisy counts of an ordered column with the noise thresholded away.

    >>> noisy = np.array([10.0, -12, 9, 11, 8, 12, 9, 10] * 4)
    >>> float(np.abs(smoothed(noisy, 10.0) - noisy.mean()).max()) < 3
    True
    """
    if len(counts) < _SHORT:
        return counts.astype(np.float64)
    mirrored = np.concatenate([counts, counts[::-1]]).astype(np.float64)
    length = 1 << (len(mirrored) - 1).bit_length()
    padded = np.resize(mirrored, length)
    limit = _THRESHOLD * deviation * math.sqrt(2 * math.log(len(counts)))
    total = np.zeros(length)
    turns = min(length, _SHIFTS)
    for shift in range(turns):
        total += np.roll(_thresholded(np.roll(padded, shift), limit), -shift)
    return np.asarray(total[: len(counts)] / turns)


def _thresholded(values: Floats, limit: float) -> Floats:
    details = []
    root = math.sqrt(2)
    while len(values) > 1:
        even, odd = values[0::2], values[1::2]
        detail = (even - odd) / root
        details.append(np.where(np.abs(detail) > limit, detail, 0.0))
        values = (even + odd) / root
    for detail in reversed(details):
        finer = np.empty(2 * len(values))
        finer[0::2], finer[1::2] = (values + detail) / root, (values - detail) / root
        values = finer
    return values


def settled(noisy: Floats, total: float, deviation: float, *, ordered: bool, null: bool) -> Floats:
    """Return non-negative counts that add up to the total: smoothed where codes are ordered, without that of NULL."""
    counts = noisy.astype(np.float64)
    if ordered:
        values = counts[:-1] if null else counts
        counts = np.append(smoothed(values, deviation), counts[-1:]) if null else smoothed(values, deviation)
    return nonnegative(counts, total=max(total, 0.0))


def merge(counts: Floats, *, floor: float, ordered: bool, null: bool = False) -> Bins:
    """Return the bin of each code; bins are numbered from 0, in the order of codes."""
    values = counts[:-1] if null else counts
    bins = _neighbours(values, floor) if ordered else _rare(values, floor)
    return np.append(bins, bins.max(initial=-1) + 1) if null else bins


def _neighbours(counts: Floats, floor: float) -> Bins:
    bins = np.zeros(len(counts), dtype=np.int64)
    current, mass = 0, 0.0
    for code, count in enumerate(counts.tolist()):
        if count >= floor and mass > 0:  # a spike keeps to itself
            current, mass = current + 1, 0.0
        bins[code] = current
        mass += count
        if mass >= floor:
            current, mass = current + 1, 0.0
    last = int(bins[-1])
    if last and float(counts[bins == last].sum()) < floor / 2:
        bins[bins == last] = last - 1
    return bins


def _rare(counts: Floats, floor: float) -> Bins:
    common = counts >= floor
    if np.count_nonzero(common) > MAX_BINS:
        common = np.zeros(len(counts), dtype=np.bool_)
        common[np.argsort(-counts, kind="stable")[:MAX_BINS]] = True
    if np.count_nonzero(~common) <= 1:
        return np.arange(len(counts), dtype=np.int64)
    bins = np.full(len(counts), np.count_nonzero(common), dtype=np.int64)
    bins[common] = np.arange(np.count_nonzero(common))
    return bins


_PENALTIES = (0.0, 0.1, 0.4, 0.8)
_FAILURES = 200
"""After so many pairs in a row that would make a clique too large, the others are not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The pairs that a model joins, and those of them that are measured."""

    edges: tuple[Places, ...]
    measured: tuple[Places, ...]
    gain: float
    """By how many rows the measured pairs are expected to err less than before."""


def score_sensitivities(pairs: int, rows: int, touched: int) -> tuple[Fraction, Fraction]:
    """Return Δ₂² and Δ₁ of all scores together: each may move by ``rows·touched``, up or down."""
    each = rows * touched
    return Fraction(pairs * each * each), Fraction(pairs * each)


def choose(
    columns: int,
    sizes: Sequence[int],
    scores: Mapping[Places, float],
    *,
    noise: float,
    power: float,
    limit: int,
    least: float = 0.0,
    held: Iterable[Places] = (),
) -> Graph:
    """Return the graph with the largest gain.

    Parameters
    ----------
    scores
        By how many rows each pair errs, as far as is known.
    noise
        The mean size of the noise on a count that takes all of what is to be spent on measuring.
    power
        2/3 for Gaussian and 1/2 for Laplace noise.
    limit
        How many cells a clique may have.
    least
        Pairs with smaller scores are not joined.
    held
        Pairs that are joined in any case, because they were measured before.
    """
    cells = {pair: sizes[pair[0]] * sizes[pair[1]] for pair in scores}
    best: Graph | None = None
    for penalty in _PENALTIES:
        order = sorted(scores, key=lambda pair: (penalty * noise * cells[pair] - scores[pair], pair))
        edges = _grown(columns, sizes, [pair for pair in order if scores[pair] > least], limit, list(held))
        inside = {pair for clique in eliminate(columns, edges, sizes) for pair in combinations(clique, 2)}
        measured, gain = _worthwhile(inside & scores.keys(), scores, cells, noise, power)
        if best is None or gain > best.gain:
            best = Graph(edges=tuple(sorted(edges)), measured=measured, gain=gain)
    assert best is not None  # noqa: S101 - there are penalties
    return best


def _grown(
    columns: int, sizes: Sequence[int], order: Sequence[Places], limit: int, edges: list[Places]
) -> list[Places]:
    failures = 0
    joined = set(edges)
    for pair in order:
        if pair in joined:
            continue
        if fits(columns, [*edges, pair], sizes, limit):
            edges.append(pair)
            failures = 0
        else:
            failures += 1
            if failures > _FAILURES:
                break
    return edges


def _worthwhile(
    pairs: Iterable[Places], scores: Mapping[Places, float], cells: Mapping[Places, int], noise: float, power: float
) -> tuple[tuple[Places, ...], float]:
    """Return the pairs to be measured, and by how many rows they will err less."""
    order = sorted(pairs, key=lambda pair: (-scores[pair] / cells[pair] ** power, pair))
    best, count, error, weight = 0.0, 0, 0.0, 0.0
    for rank, pair in enumerate(order, start=1):
        error += scores[pair]
        weight += cells[pair] ** power
        gain = error - noise * weight ** (1 / power)
        if gain > best:
            best, count = gain, rank
    return tuple(sorted(order[:count])), best
