"""Synthetic rows: select, measure, generate, certify.

::

    one-way counts ─► private bins ─► scores of all pairs ─► graph ─► chosen pairs ─► fit ─► rows ─► certificate
      30 % of price       free              5 %               free        60 %        free    free       5 %

Every arrow that touches rows adds exact discrete noise to integers (`hush.synth.measurements`); all others are
post-processing. The shares are fixed before any row is read, so the price is known beforehand. The number of rows is
itself estimated: every noisy one-way total estimates it, and their inverse-variance average is used.

**Certificate.** Of the finished table, e_p = ‖M_p(data) - M_p(synthetic)‖₁ of every pair p of columns is released with
noise: one row changes it by at most 1. A condition on the two columns of p is true for at most (e_p + |N - N'|)/2 rows
more, or fewer, in the data than in the table, N and N' being their numbers of rows.

**Failure** depends on no row: an empty table, one row, or rows that are all alike give a table, perhaps an empty one.

>>> from hush.synth.domain import CodedTable, Domain
>>> domain = Domain.of({"age": 10, "sex": 2, "ill": 2}, ordered=["age"])
>>> rows = CodedTable.of(domain, {"age": [1, 2, 3] * 50, "sex": [0, 1, 0] * 50, "ill": [0, 1, 0] * 50})
>>> price = Price(law="gaussian", amount=Fraction(10))
>>> plan: SynthesisPlan = plan_synthesis(domain, price, settings=Settings(certificate=Fraction(1, 20)))
>>> made: Synthetic = synthesise(plan, rows)
>>> abs(len(made.table) - 150) < 30, made.table.domain == domain
(True, True)
>>> certificate: Certificate = made.quality
>>> worst: Quality = certificate.worst
>>> count: CountAnswer = made.count({"sex": [1]})
>>> len(certificate.pairs), worst.distance < 1, abs(count.value - 50) < 30
(3, True, True)

**Synthetic children for synthetic parents**, such as visits of patients. Two releases are joined, which costs nothing
more. One has the parents with the number of their children, one row of each unit. The other has single children with
the columns of their parent, few rows of each unit. Each synthetic parent is given as many children as it says. They are
drawn from the synthetic children whose parent has the same codes in the shared columns; where there are none, the last
of the shared columns is left out, and so on.

>>> parents = CodedTable.of(Domain.of({"sex": 2, "n": 3}), {"sex": [0, 1, 1], "n": [2, 0, 1]})
>>> children = CodedTable.of(Domain.of({"sex": 2, "ill": 2}), {"sex": [0, 0, 1], "ill": [1, 1, 0]})
>>> owners, rows = deal(parents, parents.column("n"), children, ["sex"], Draws(b"seed"))
>>> owners.tolist(), children.column("ill")[rows].tolist()
([0, 0, 2], [1, 1, 0])

**Smoothing** takes noise out of one-way counts of ordered columns, and costs nothing. Haar wavelets turn counts into
differences of neighbouring blocks; the noise is as large in each coefficient, while most of a smooth distribution sits
in few. Coefficients below 0.85·σ·√(2 ln n) are set to 0 (hard thresholds: Donoho, Johnstone 1994), averaged over shifts
(Coifman, Donoho 1995), on counts that are continued by their mirror image. Spikes stay, for they are above any
threshold.

**Bins.** Neighbouring codes of an ordered column are merged until a bin holds max(N/resolution, 6σ) rows, where the
resolution grows with the root of N over the noise: a pair's noise grows with its cells, and fine bins leave room for
fewer pairs. A code that holds as much stays alone. Rare values of other columns, below 3σ, go into one bin. Pairs of
columns are then measured on bins, and the codes within a bin are drawn from the smoothed one-way counts: the model of
bins loses nothing that was measured.

>>> bins = merge(np.array([50.0, 1, 1, 1, 1, 60]), floor=5.0, ordered=True)
>>> bins.tolist()
[0, 1, 1, 1, 1, 2]
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting.events import Event
from hush.core import InvalidValueError, integer
from hush.mechanisms.estimators.base import nonnegative
from hush.synth.domain import MAX_CELLS, CodedTable, Columns, Domain
from hush.synth.measurements import Measurement, MeasurementsError, Price, pack, quantile, shares, unpack
from hush.synth.model import (
    POWERS,
    Draws,
    Places,
    Target,
    TreeModel,
    choose,
    given_groups,
    junction_tree,
    sample,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Progress = Callable[[str, float], None]
_SHORT = 8
_SHIFTS = 32
_THRESHOLD = 0.85
MAX_BINS = 64
ONE_WAYS, SCORES = Fraction(30, 100), Fraction(5, 100)
CERTIFICATE = Fraction(5, 100)
_COARSEST, _FINEST = 16, 128
MAX_COLUMNS = 200
MAX_MADE = 2 * 10**8
"""How many cells, rows times columns, are made at once; they take about 2 GB."""
MAX_GUESSED = 10**5
"""How many rows are made where their estimated number is less than `_KNOWN` times the deviation of its noise."""
_KNOWN = 4
_CLEAR = 20_000
"""Rows over the noise of a count that takes the whole price: from here on cliques may be larger."""


def smoothed(counts: Floats, deviation: float) -> Floats:
    """Return noisy counts of an ordered column with the noise thresholded away.

    >>> noisy = np.array([10.0, -12, 9, 11, 8, 12, 9, 10] * 4)
    >>> float(np.abs(smoothed(noisy, 10.0) - noisy.mean()).max()) < 3
    True
    """
    if len(counts) < _SHORT:
        return counts.astype(np.float64)
    # Shifts go round in a circle: without the mirror image the two ends would meet in a jump.
    mirrored = np.concatenate([counts, counts[::-1]]).astype(np.float64)
    length = 1 << (len(mirrored) - 1).bit_length()
    padded = np.resize(mirrored, length)
    # The universal threshold σ·√(2 ln n) is about the largest of n pure noises.
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
        # Over √2 the transform is orthonormal: the noise is as large in every coefficient, and one limit does for all.
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
        # NULL, the last code, has no neighbours to be averaged with.
        counts = np.append(smoothed(values, deviation), counts[-1:]) if null else smoothed(values, deviation)
    return nonnegative(counts, total=max(total, 0.0))


def merge(counts: Floats, *, floor: float, ordered: bool, null: bool = False) -> Integers:
    """Return the bin of each code; bins are numbered from 0, in the order of codes."""
    values = counts[:-1] if null else counts
    bins = _neighbours(values, floor) if ordered else _rare(values, floor)
    return np.append(bins, bins.max(initial=-1) + 1) if null else bins


def _neighbours(counts: Floats, floor: float) -> Integers:
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
    # What is left at the end may be too little for a bin of its own.
    if last and float(counts[bins == last].sum()) < floor / 2:
        bins[bins == last] = last - 1
    return bins


def _rare(counts: Floats, floor: float) -> Integers:
    common = counts >= floor
    if np.count_nonzero(common) > MAX_BINS:
        common = np.zeros(len(counts), dtype=np.bool_)
        common[np.argsort(-counts, kind="stable")[:MAX_BINS]] = True
    # A bin of one rare value would merge nothing.
    if np.count_nonzero(~common) <= 1:
        return np.arange(len(counts), dtype=np.int64)
    bins = np.full(len(counts), np.count_nonzero(common), dtype=np.int64)
    bins[common] = np.arange(np.count_nonzero(common))
    return bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options that affect how good a release is, never how private."""

    one_ways: Fraction = ONE_WAYS
    scores: Fraction = SCORES
    certificate: Fraction = CERTIFICATE
    cells: int = 0
    """How many cells a clique may have; 0 to let the noise decide."""
    iterations: int = 0
    """Steps of the fit; 0 to let the noise decide."""
    resolution: int = 0
    """A bin holds about 1/resolution of all rows, or more; 0 to let the noise decide.

    Releases that earlier versions kept say 128. Their graphs are chosen as they were, or they could not be made again.
    """

    def __post_init__(self) -> None:
        if min(self.one_ways, self.scores) <= 0 or self.certificate < 0 or self.pairs <= 0:
            raise InvalidValueError("certificate", got=self.certificate, allowed="a share of the price from 0 to 1/2")

    @property
    def pairs(self) -> Fraction:
        """The share that is spent on measuring pairs."""
        return 1 - self.one_ways - self.certificate - self.scores


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisPlan:
    """The steps of a synthesis and their price. Public: nothing was read."""

    domain: Domain
    price: Price
    settings: Settings
    rows: int
    touched: int

    def columns(self, places: Places) -> Columns:
        """Return the names of columns by their places."""
        return tuple(self.domain.names[index] for index in places)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that are charged: the whole price, though roundings may leave a little unspent."""
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
        """Return the noise of the scores of all pairs, of which a unit may move each by rows·touched, up or down."""
        each = self.rows * self.touched
        return self.price.parameter(share, squared=Fraction(pairs * each**2), absolute=Fraction(pairs * each))

    def deviation(self, parameter: Fraction) -> float:
        """Return the standard deviation of noise with a parameter."""
        value = float(parameter)
        return math.sqrt(value if self.price.law == "gaussian" else 2 * value * value)

    def one_way_shares(self) -> dict[str, Fraction]:
        """Return the share of each column's counts."""
        weights = [float(size) ** self.price.power for size in self.domain.sizes]
        return dict(zip(self.domain.names, shares(weights, self.settings.one_ways), strict=True))


def certified_pairs(plan: SynthesisPlan) -> list[Places]:
    """Return the pairs that are certified: all but those with too large a table."""
    pairs = combinations(range(len(plan.domain)), 2)
    return [pair for pair in pairs if plan.domain.cells(plan.columns(pair)) <= MAX_CELLS]


class Fitting:
    """Everything that follows from the measurements: number of rows, bins, graph, model. Public."""

    def __init__(self, plan: SynthesisPlan, ones: Sequence[Measurement]) -> None:
        self._plan, domain = plan, plan.domain
        # The total of n noisy cells has n times the variance of one.
        weights = [1 / (measurement.variance * len(measurement.values)) for measurement in ones]
        totals = [float(measurement.values.sum()) for measurement in ones]
        self.total = sum(weight * value for weight, value in zip(weights, totals, strict=True)) / sum(weights)
        self.total_deviation = math.sqrt(1 / sum(weights))
        # at a low price the noise on their number alone would ask for any memory
        certain = self.total >= _KNOWN * self.total_deviation
        self.most = min(MAX_MADE // len(domain), MAX_MADE if certain else MAX_GUESSED)
        self.count = min(max(0, round(self.total)), self.most)
        # how many rows there are for the noise of a count that takes the whole price
        clarity = max(self.total, 0.0) / plan.deviation(plan.parameter(Fraction(1)))
        self._clear = clarity > _CLEAR
        self.resolution = plan.settings.resolution or min(max(round(math.sqrt(clarity) / 3), _COARSEST), _FINEST)
        self.ones: list[Floats] = []
        self.bins: list[Integers] = []
        for measurement, name in zip(ones, domain.names, strict=True):
            deviation, ordered, null = math.sqrt(measurement.variance), name in domain.ordered, name in domain.nulls
            counts = settled(measurement.values.astype(float), self.total, deviation, ordered=ordered, null=null)
            floor = max(self.total / self.resolution, 6 * deviation) if ordered else 3 * deviation
            self.ones.append(counts)
            self.bins.append(merge(counts, floor=floor, ordered=ordered, null=null))
        self.sizes = [int(bins.max()) + 1 for bins in self.bins]
        self.binned = replace(domain, sizes=tuple(self.sizes))
        self.grouped = [
            np.bincount(bins, counts, minlength=size).astype(np.float64)
            for bins, counts, size in zip(self.bins, self.ones, self.sizes, strict=True)
        ]
        self.edges: tuple[Places, ...] = ()
        self.model: TreeModel

    def reference(self, pair: Places) -> Integers:
        """Return the table of two columns' bins that is expected if they are independent."""
        first, other = pair
        return np.rint(np.outer(self.grouped[first], self.grouped[other]) / max(self.total, 1.0)).astype(np.int64)

    def chosen(self, scored: Measurement, pairs: Sequence[Places]) -> list[tuple[Places, Fraction]]:
        """Return the pairs to be measured, with their shares of the price, by the noisy scores of all pairs."""
        price, settings = self._plan.price, self._plan.settings
        share, scores = settings.pairs, dict(zip(pairs, scored.values.astype(float).tolist(), strict=True))
        noise = price.magnitude(float(share)) * math.sqrt(float(self._plan.counts_sensitivities[0]))
        # Larger cliques take longer, which pays only where the model errs by more than the noise.
        limit = 60_000 if self._clear else 20_000
        powers: tuple[float, ...] = ()
        if not settings.resolution:
            # few columns have few cliques, which may be larger in the same time
            limit, powers = round(limit * min(max(14 / len(self.sizes), 1.0) ** 2, 2.5)), POWERS
        graph = choose(
            len(self.sizes),
            self.sizes,
            scores,
            noise=noise,
            power=price.power,
            limit=settings.cells or limit,
            powers=powers,
            # A score below two deviations may be noise alone.
            least=2 * math.sqrt(scored.variance),
        )
        self.edges = graph.edges
        if not graph.measured:
            return []
        weights = [float(self.sizes[first] * self.sizes[other]) ** price.power for first, other in graph.measured]
        return list(zip(graph.measured, shares(weights, share), strict=True))

    def fit(self, measurements: Sequence[Measurement], progress: Progress) -> None:
        """Fit the model of the graph to all counts that were measured."""
        domain = self._plan.domain
        targets = []
        for measurement in measurements:
            places = tuple(domain.place(name) for name in measurement.columns)
            counts = measurement.values.astype(float)
            variances = np.full(counts.shape, measurement.variance)
            if len(places) == 1:
                bins, size = self.bins[places[0]], self.sizes[places[0]]
                counts = np.bincount(bins, counts, minlength=size)
                # Independent noise adds up over the codes of a bin.
                variances = measurement.variance * np.bincount(bins, minlength=size)
            targets.append(Target(columns=places, counts=counts, variances=variances))
        self.model = TreeModel(self.sizes, junction_tree(len(self.sizes), self.edges, self.sizes))
        self.model.fit(
            targets,
            self.total,
            self.grouped,
            iterations=self._plan.settings.iterations or (400 if self._clear else 300),
            progress=lambda part: progress("fitting", part),
        )

    def draw(self, rows: int, draws: Draws) -> CodedTable:
        """Return synthetic rows: bins from the model, then codes within bins from the one-way counts."""
        domain = self._plan.domain
        binned = sample(self.model, rows, draws)
        codes = {}
        for column, name in enumerate(domain.names):
            bins = self.bins[column]
            detail = np.zeros((self.sizes[column], len(bins)))
            # A bin whose codes all have the count 0 can still be drawn from.
            detail[bins, np.arange(len(bins))] = self.ones[column] + 1e-9
            codes[name] = given_groups(binned[:, column], detail, draws)
        return CodedTable.of(domain, codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The certified distance of one pair's table from the data: the sum of all differences of shares, from 0 to 2."""

    columns: Columns
    distance: float
    error: float
    """Half-width of the distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far the synthetic table is from the data, itself private."""

    pairs: tuple[Quality, ...]
    mean: float
    mean_error: float
    confidence: float

    @property
    def worst(self) -> Quality:
        """The pair that is furthest from the data, as far as is known."""
        return max(self.pairs, key=lambda quality: quality.distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAnswer:
    """A count of rows, its half-width, and where it comes from."""

    value: float
    error: float | None
    """None where nothing is known."""
    source: str
    """"measured", "model with certificate", or why there is no bound."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthetic:
    """Synthetic rows, counts and certificate, made from measurements alone. Public."""

    plan: SynthesisPlan
    measurements: tuple[Measurement, ...]
    seed: str
    fitted: Fitting

    @cached_property
    def table(self) -> CodedTable:
        """The rows that the certificate speaks of, as many as the table is estimated to have."""
        return self.fitted.draw(self.fitted.count, Draws(bytes.fromhex(self.seed)))

    def rows(self, count: int, *, seed: int = 0) -> CodedTable:
        """Return ``count`` rows of the same model; free, as often as wanted, and the same for the same seed."""
        number = integer(count, "count", minimum=0, maximum=10**9)
        mixed = bytes.fromhex(self.seed) + integer(seed, "seed", minimum=0, maximum=2**63).to_bytes(8, "big")
        return self.fitted.draw(number, Draws(mixed))

    # what is known of it

    @cached_property
    def quality(self) -> Certificate | None:
        """The certified distance of every pair of columns; None without a certificate."""
        return self.certificate()

    def certificate(self, confidence: float = 0.95) -> Certificate | None:
        """Return the certificate at a confidence."""
        scores = self._certified()
        if scores is None:
            return None
        pairs, measurement = scores
        total = max(self.fitted.total, 1.0)
        deviation = math.sqrt(measurement.variance) / total
        half = quantile(measurement.law, confidence) * deviation
        qualities = tuple(
            Quality(columns=self.plan.columns(pair), distance=float(score) / total, error=half)
            for pair, score in zip(pairs, measurement.values.tolist(), strict=True)
        )
        # A mean of many independent noises is nearly normal, whatever their law.
        mean_error = quantile("gaussian", confidence) * deviation / math.sqrt(len(pairs))
        mean = sum(quality.distance for quality in qualities) / len(qualities)
        return Certificate(pairs=qualities, mean=mean, mean_error=mean_error, confidence=confidence)

    def _certified(self) -> tuple[list[Places], Measurement] | None:
        if not self.plan.settings.certificate or len(self.plan.domain) < 2:
            return None
        scores = [measurement for measurement in self.measurements if measurement.kind == "scores"]
        return certified_pairs(self.plan), scores[-1]  # the certificate is measured last

    def count(self, where: Mapping[str, Iterable[int]], *, confidence: float = 0.95) -> CountAnswer:
        """Return how many rows have, in each named column, one of the given codes.

        Over one column the noisy one-way counts answer, if they are surer. Over two columns the synthetic table does,
        within what the certificate says. Over more there is no bound.
        """
        domain = self.plan.domain
        columns = domain.columns(where)
        return self.count_where(columns, domain.mask(columns, where), confidence=confidence)

    def count_where(self, columns: Columns, mask: npt.NDArray[np.bool_], *, confidence: float = 0.95) -> CountAnswer:
        """Return how many rows lie in the cells of a marginal that a mask names; any shape of cells will do."""
        z = quantile(self.plan.price.law, confidence)
        if not columns:
            share = float(mask)
            error = z * self.fitted.total_deviation * share
            return CountAnswer(value=self.fitted.total * share, error=error, source="measured")
        value = float(np.count_nonzero(mask[tuple(self.table.column(name) for name in columns)]))
        options: list[CountAnswer] = []
        if len(columns) == 1:
            measurement = self.measurements[self.plan.domain.place(columns[0])]
            error = z * math.sqrt(measurement.variance * np.count_nonzero(mask))
            options.append(CountAnswer(value=float(measurement.values[mask].sum()), error=error, source="measured"))
        bound = self._bound(columns, confidence)
        if bound is not None:
            options.append(CountAnswer(value=value, error=bound, source="model with certificate"))
        if options:
            return min(options, key=lambda answer: answer.error or 0.0)
        reason = f"{len(columns)} columns; a certificate covers 2"
        if len(columns) <= 2:
            bought = self.plan.settings.certificate
            reason = "their table is too large for a certificate" if bought else "no certificate was bought"
        return CountAnswer(value=value, error=None, source=f"model without a bound: {reason}")

    def _bound(self, columns: Columns, confidence: float) -> float | None:
        """Return how far a count over at most two columns can be off: (e + |N - N'|)/2.

        A fifth of what may fail is left for the number of rows. Over one column every pair that holds it will do; the
        best is taken, and each may fail a part of the time only.
        """
        scores = self._certified()
        if scores is None or len(columns) > 2:
            return None
        places = {self.plan.domain.place(name) for name in columns}
        held = [value for pair, value in zip(scores[0], scores[1].values.tolist(), strict=True) if places <= set(pair)]
        if not held:
            return None
        # Union bound over the pairs, for the least of them is taken.
        miss = (1 - confidence) * 4 / 5 / len(held)
        # Only a distance above the measured one does harm; `quantile` is two-sided, so that 2·miss leaves one tail.
        sure = float(min(held)) + quantile(scores[1].law, 1 - 2 * miss) * math.sqrt(scores[1].variance)
        rows = quantile(self.plan.price.law, 1 - (1 - confidence) / 5) * self.fitted.total_deviation
        return max(0.0, sure + rows + abs(self.fitted.total - self.fitted.count)) / 2

    # keeping

    def to_bytes(self) -> bytes:
        """Return the measurements as they are kept."""
        plan, settings = self.plan, self.plan.settings
        head = {
            "release": "synthetic",
            "domain": dict(zip(plan.domain.names, plan.domain.sizes, strict=True)),
            "ordered": sorted(plan.domain.ordered),
            "nulls": sorted(plan.domain.nulls),
            "price": [plan.price.law, str(plan.price.amount)],
            "rows": plan.rows,
            "touched": plan.touched,
            "settings": {field_.name: str(getattr(settings, field_.name)) for field_ in fields(settings)},
            "seed": self.seed,
        }
        return pack(head, self.measurements)

    @classmethod
    def from_bytes(cls, data: bytes) -> Synthetic:
        """Return the release that was kept, fitted again."""
        head, kept = unpack(data)
        if head.get("release") != "synthetic":
            raise MeasurementsError(f"These are measurements of {head.get('release')}, not of synthetic rows.")
        exact = {"one_ways", "scores", "certificate"}
        settings: dict[str, Any] = {
            name: Fraction(value) if name in exact else int(value) for name, value in head["settings"].items()
        }
        if settings.pop("rounds", 1) != 1:
            raise MeasurementsError("These are measurements of two rounds, which this version cannot fit again.")
        plan = SynthesisPlan(
            domain=Domain.of(head["domain"], ordered=head["ordered"], nulls=head["nulls"]),
            price=Price(law=head["price"][0], amount=Fraction(head["price"][1])),
            settings=Settings(**settings),
            rows=head["rows"],
            touched=head["touched"],
        )
        remaining, nobody = iter(kept), CodedTable.of(plan.domain, dict.fromkeys(plan.domain.names, ()))
        fitted = _fitted(plan, nobody, lambda *_: next(remaining), _silent)
        return cls(plan=plan, measurements=tuple(kept), seed=head["seed"], fitted=fitted)


def plan_synthesis(
    domain: Domain, price: Price, *, rows: int = 1, touched: int = 1, settings: Settings | None = None
) -> SynthesisPlan:
    """Plan synthetic rows; ``rows`` is how many a unit has at most, ``touched`` 2 where neighbours replace a unit."""
    if len(domain) > MAX_COLUMNS:
        raise InvalidValueError("domain", got=f"{len(domain)} columns", allowed=f"at most {MAX_COLUMNS} columns")
    if settings is None:
        settings = Settings()
    if len(domain) < 2:
        settings = Settings(certificate=settings.certificate)
    return SynthesisPlan(
        domain=domain,
        price=price,
        settings=settings,
        rows=integer(rows, "rows", minimum=1),
        touched=integer(touched, "touched", minimum=1, maximum=2),
    )


Take = Callable[[Columns, str, Fraction, Callable[[], npt.NDArray[Any]]], Measurement]
"""Takes a measurement of some columns: its kind, its noise's parameter, and what returns the exact numbers."""


def synthesise(plan: SynthesisPlan, table: CodedTable, *, progress: Progress | None = None) -> Synthetic:
    """Measure a table, and make synthetic rows from the measurements."""
    if table.domain != plan.domain:
        raise InvalidValueError("table", got="a table of another domain", allowed="a table of the plan's domain")
    tell, taken = progress or _silent, list[Measurement]()

    def take(columns: Columns, kind: str, parameter: Fraction, exact: Callable[[], npt.NDArray[Any]]) -> Measurement:
        law = plan.price.law
        taken.append(Measurement.of(columns, exact(), kind=kind, law=law, parameter=parameter))
        return taken[-1]

    fitted = _fitted(plan, table, take, tell)
    made = Synthetic(plan=plan, measurements=(), seed=secrets.token_hex(16), fitted=fitted)
    if len(plan.domain) > 1 and plan.settings.certificate:
        tell("certifying", 0.0)
        produced, share = made.table, plan.settings.certificate
        _score(plan, table, lambda pair: produced.marginal(plan.columns(pair)), certified_pairs(plan), share, take)
    tell("done", 1.0)
    return replace(made, measurements=tuple(taken))


def _silent(_stage: str, _part: float) -> None:
    """Tell nobody how far the work is."""


def _fitted(plan: SynthesisPlan, table: CodedTable, take: Take, progress: Progress) -> Fitting:
    """Take all measurements but the certificate, and fit the model."""
    progress("counting", 0.0)
    counts = [
        take((name,), "counts", plan.parameter(share), partial(table.marginal, (name,)))
        for name, share in plan.one_way_shares().items()
    ]
    state = Fitting(plan, counts)
    codes = tuple(bins.astype(np.uint16)[codes] for bins, codes in zip(state.bins, table.codes, strict=True))
    binned, pairs = CodedTable(state.binned, codes), list(combinations(range(len(plan.domain)), 2))
    if pairs:
        progress("choosing pairs", 0.0)
        scored = _score(plan, binned, state.reference, pairs, plan.settings.scores, take)
        for pair, share in state.chosen(scored, pairs):
            columns = plan.columns(pair)
            counts.append(take(columns, "counts", plan.parameter(share), partial(binned.marginal, columns)))
    # Of a single column the smoothed counts say more than the noisy ones.
    state.fit(counts if pairs else [], progress)
    return state


def _score(
    plan: SynthesisPlan,
    table: CodedTable,
    reference: Callable[[Places], npt.NDArray[np.int64]],
    pairs: Sequence[Places],
    share: Fraction,
    take: Take,
) -> Measurement:
    """Measure how far each pair's marginal is from a public one of integers."""

    def distances() -> npt.NDArray[np.int64]:
        far = [int(np.abs(table.marginal(plan.columns(pair)) - reference(pair)).sum()) for pair in pairs]
        return np.array(far, dtype=np.int64)

    return take((), "scores", plan.score_parameter(share, len(pairs)), distances)


def deal(
    parents: CodedTable, numbers: npt.NDArray[Any], children: CodedTable, shared: Sequence[str], draws: Draws
) -> tuple[Integers, Integers]:
    """Return, for each child that is dealt out, the place of its parent and that of the row it is a copy of."""
    for name in shared:
        if parents.domain.size(name) != children.domain.size(name):
            raise InvalidValueError("shared", got=name, allowed="columns that have the same codes in both releases")
    owners = np.repeat(np.arange(len(parents)), np.maximum(np.asarray(numbers, dtype=np.int64), 0))
    chosen = np.full(len(owners), -1, dtype=np.int64)
    if not len(children):
        return owners[:0], chosen[:0]
    columns = list(shared)
    while True:
        open_ = np.flatnonzero(chosen < 0)
        if not len(open_):
            return owners, chosen
        wanted = parents.mixed(columns)[owners[open_]] if columns else np.zeros(len(open_), dtype=np.int64)
        offered = children.mixed(columns) if columns else np.zeros(len(children), dtype=np.int64)
        order = np.argsort(offered, kind="stable")
        first = np.searchsorted(offered[order], wanted, side="left")
        count = np.searchsorted(offered[order], wanted, side="right") - first
        there = count > 0
        # The remainder favours small numbers by less than count/2⁶⁴.
        pick = (draws.words(len(open_)) % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
        chosen[open_[there]] = order[(first + pick)[there]]
        if not columns:
            return owners, chosen
        columns.pop()
