r"""All marginals of a workload at once: unbiased, mutually consistent, each cell with its error bar.

`plan_marginals` chooses the noise without data (see below), `MarginalPlan.measure` adds it to exact integers, and
`Marginals` is made of what was measured: every marginal whose columns lie within one of the workload, sums of cells
over any box of codes, roll-ups to coarser public keys, and a non-negative version to look at.

**Error of a sum of cells.** Let q be weights on the cells of S, and P_A q what is left of them when they are added up
over S∖A and centred along every axis of A. The residual's noise is white within its subspace, so

    Var(Σ q·M_S) = Σ_{A⊆S} σ_A² ‖P_A q‖² ∏_{j∈S∖A} n_j^{-2}.

**Without δ** there is no Gaussian noise. Then the largest marginals of the workload are counted with discrete Laplace
noise. Noise of variance v on all cells of S falls into uncorrelated residuals, that of A with σ_A² = v·∏_{j∈S∖A} n_j.
So the best linear estimate of a residual weighs those of all marginals that hold it by 1/σ_A², and has the σ_A² whose
inverse is the sum of theirs.

**Half-widths.** Gaussian: the normal quantile times the standard deviation. Laplace: the larger of that and of the
Laplace law's own quantile at the same standard deviation.

>>> domain = Domain.of({"age": 3, "sex": 2})
>>> plan: MarginalPlan = plan_marginals(domain, all_marginals(domain, 2), rho=Fraction(1000))
>>> released: Marginals = plan.measure(CodedTable.of(domain, {"age": [0, 1, 1, 2], "sex": [0, 1, 1, 0]}))
>>> table: MarginalTable = released["sex"]
>>> table.columns, table.rounded().tolist(), released["age", "sex"].rounded().tolist()
(('sex',), [2, 2], [[1, 0], [0, 2], [1, 0]])
>>> count: CountEstimate = released.count({"age": range(1, 3), "sex": [1]})
>>> round(count.value), count.error < 1
(2, True)

**Residual bases**: the best Gaussian noise for a set of marginals, in closed form. For a set A of columns with n_i
codes each, the *residual* of A is what its marginal says beyond the marginals of its subsets: (⊗_{i∈A} (I - 11ᵀ/n_i))
M_A. Residuals of different sets are orthogonal, and a marginal is their sum,

    M_S = Σ_{A⊆S} residual_A ⊗ (1/n_j for j ∈ S∖A).

Let W be the marginals that are wanted, C all their subsets. ResidualPlanner (Xiao, He, Zhang, Kifer 2023) adds Gaussian
noise to each residual of C with a variance parameter σ_A² of its own. With p_A = ∏_{i∈A} (n_i-1)/n_i,

    ρ = Σ_A p_A/(2σ_A²),        Var(cell of M_S) = Σ_{A⊆S} σ_A² p_A ∏_{j∈S∖A} n_j^{-2},

and this is an optimal Gaussian mechanism for every weighted sum of variances and for their maximum.

**Sum.** With v_A = Σ_S w_S·(coefficient of σ_A² in Var_S), Cauchy and Schwarz give σ_A² = √(p_A/v_A)·Σ_B √(p_B v_B)/2ρ.

**Maximum.** max_S Var_S(σ) = max_w Σ w_S Var_S(σ) over weights w that add up to 1. For given weights the minimum over σ
is g(w) = (Σ_A √(p_A v_A(w)))²/2ρ, concave in w, and g(w) ≤ optimum ≤ max_S Var_S(σ(w)). So weights are moved towards
the marginals with the largest variance until the two ends agree.

**On integers.** What is noised is the integer vector H_A x = ⊗_{i∈A}(n_i I - 11ᵀ) M_A, which is the residual times
∏n_i. A row changes it by √∏n_i(n_i-1) in ℓ₂, so discrete Gaussian noise with s² = σ_A²∏n_i² costs p_A/2σ_A², the same
as above (Canonne, Kamath, Steinke 2020). s² is a rational, rounded up. Afterwards the noise is projected: centring y
along each axis and dividing by ∏n_i leaves the residual plus noise of variance σ_A² p_A in each cell.

**Units and neighbours.** A unit with at most m rows changes H_A x by m times as much. If a unit is replaced, rows a and
b go and come: ‖h_a - h_b‖² = 2∏n_i(n_i-1) - 2⟨h_a, h_b⟩, where ⟨h_a, h_b⟩ = ∏ of n_i(n_i-1) where they agree and -n_i
where not. It is least where a and b differ in one column only, that with the fewest codes: 2(1 + 1/(n-1)) times as much
as for one row, which also covers rows that come or go without a counterpart. For A = ∅ it is one row's change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting.events import ApproximateDPEvent, ComposedEvent, DiscreteLaplaceEvent, Event, ZCDPEvent
from hush.core import InvalidValueError, integer, positive
from hush.mechanisms.estimators.base import nonnegative
from hush.synth.domain import MAX_CELLS, CodedTable, Columns, Domain
from hush.synth.measurements import Measurement, MeasurementsError, noise_variance, pack, quantile, short_up, unpack

Floats = npt.NDArray[np.float64]
_GAP = 2e-5
_STEPS = 5000


def marginal_variance(domain: Domain, columns: Columns, spreads: Mapping[Columns, float]) -> float:
    """Return Σ_{A⊆S} σ_A² p_A ∏_{j∈S∖A} n_j^{-2}, where ``spreads`` has σ_A²; a set that it leaves out has none."""
    held = [subset for subset in subsets(columns) if subset in spreads]
    return math.fsum(spreads[subset] * _share(domain, subset) * _rest(domain, columns, subset) for subset in held)


def residual_spreads(domain: Domain, law: str, noise: Mapping[Columns, Fraction]) -> dict[Columns, float]:
    """Return σ_A² of every residual: that of its own noise, or of the best estimate from all counted marginals."""
    if law == "gaussian":
        return {columns: noise_variance(law, noise[columns]) / domain.cells(columns) ** 2 for columns in noise}
    inverse: dict[Columns, float] = {}
    for counted, scale in noise.items():
        for subset in subsets(counted):
            summed = domain.cells(counted) // domain.cells(subset)
            inverse[subset] = inverse.get(subset, 0.0) + 1 / (noise_variance(law, scale) * summed)
    return {subset: 1 / weight for subset, weight in inverse.items()}


def subsets(columns: Columns) -> list[Columns]:
    """Return all subsets, small ones first."""
    return [chosen for size in range(len(columns) + 1) for chosen in combinations(columns, size)]


def closure(workload: Sequence[Columns]) -> list[Columns]:
    """Return the sets of a workload and all their subsets, each once, small ones first."""
    closed = {subset: None for columns in workload for subset in subsets(columns)}
    return sorted(closed, key=len)


def squared_sensitivity(domain: Domain, columns: Columns, rows: int = 1, touched: int = 1) -> Fraction:
    """Return by how much, squared, a neighbour can change H_A x in ℓ₂."""
    sizes = [size for size in domain.shape(columns) if size > 1]
    if len(sizes) < len(columns):
        return Fraction(0)  # a column with a single code has no residual: H_A x is 0
    single = Fraction(prod(size * (size - 1) for size in sizes))
    if touched > 1 and sizes:
        single *= 2 * (1 + Fraction(1, min(sizes) - 1))
    return single * rows * rows


def residual_noise(
    domain: Domain,
    wanted: Sequence[Columns],
    rho: Fraction,
    *,
    optimise: str | Mapping[Columns, float] = "max",
    rows: int = 1,
    touched: int = 1,
) -> tuple[dict[Columns, Fraction], Fraction]:
    """Return the s² of each residual's noise that costs at most ``rho`` and errs least, and what it costs exactly."""
    rho = positive(rho, "rho")
    # a column with a single code adds nothing: residuals with it are 0, exactly, and are not measured
    sets = [columns for columns in closure(wanted) if all(size > 1 for size in domain.shape(columns))]
    spreads = _best_spreads(domain, wanted, sets, optimise)
    # the same σ² whatever a unit's rows and the neighbours are; then all scaled so that the whole price is ρ
    sizes = [domain.cells(columns) ** 2 for columns in sets]
    sensitivity = [squared_sensitivity(domain, columns, rows, touched) for columns in sets]
    weight = [
        float(changed) / (2 * float(spread) * size)
        for changed, spread, size in zip(sensitivity, spreads, sizes, strict=True)
    ]
    # Floats chose the proportions; the margin covers their rounding, and the exact price is checked below.
    scale = Fraction(sum(weight)) * (1 + Fraction(1, 10**9)) / rho
    noise = {
        columns: short_up(Fraction(float(spread)) * size * scale)
        for columns, spread, size in zip(sets, spreads, sizes, strict=True)
    }
    # Δ²/2s² of each residual, in zero-concentrated differential privacy.
    price = sum(
        (changed / (2 * noise[columns]) for columns, changed in zip(sets, sensitivity, strict=True)), Fraction(0)
    )
    if price > rho:  # the margin above is far larger than the rounding of floats
        raise AssertionError("the plan costs more than it may")
    return noise, price


def _best_spreads(
    domain: Domain, wanted: Sequence[Columns], sets: Sequence[Columns], optimise: str | Mapping[Columns, float]
) -> Floats:
    """Return the variance σ² of each set of columns, where Σ price/σ² = 1: the sum, or the largest, is least."""
    index_of = {columns: index for index, columns in enumerate(sets)}
    price = np.array([_share(domain, columns) for columns in sets])
    # Var = K σ² with one row for each wanted marginal; of K the rows, columns and values that are not 0
    entries = [
        (row, index_of[subset], price[index_of[subset]] * _rest(domain, columns, subset))
        for row, columns in enumerate(wanted)
        for subset in subsets(columns)
        if subset in index_of
    ]
    rows, columns_, values = map(np.array, zip(*entries, strict=True))

    def weighted(weights: Floats) -> Floats:
        load = np.bincount(columns_, values * weights[rows], minlength=len(price))
        roots = np.sqrt(price * load)
        return np.asarray(np.sqrt(price / load) * roots.sum())

    if optimise == "sum":
        return weighted(np.ones(len(wanted)))
    if optimise == "cells":
        return weighted(np.array([float(domain.cells(columns)) for columns in wanted]))
    if isinstance(optimise, Mapping):
        given = np.array([float(optimise.get(columns, 0.0)) for columns in wanted])
        if np.all(given > 0) and np.all(np.isfinite(given)):
            return weighted(given)
    if optimise != "max":
        allowed = "'max', 'sum', 'cells', or a positive weight for each marginal of the workload"
        raise InvalidValueError("optimise", got=optimise, allowed=allowed)
    weights = np.full(len(wanted), 1.0 / len(wanted))
    best, least = price, np.inf
    for _ in range(_STEPS):
        spreads = weighted(weights)
        variances = np.bincount(rows, values * spreads[columns_], minlength=len(wanted))
        # At the best spreads for these weights this is g(w), which no plan's largest variance falls below.
        bound = float(weights @ variances)
        largest = float(variances.max())
        if largest < least:
            best, least = spreads, largest
        if largest <= bound * (1 + _GAP):
            break
        weights = weights * (variances / bound)
        weights /= weights.sum()
    return best


def _rest(domain: Domain, columns: Columns, subset: Columns) -> float:
    """Return ∏_{j∈S∖A} n_j^{-2}."""
    return math.prod((domain.size(name) ** -2.0 for name in columns if name not in subset), start=1.0)


def _share(domain: Domain, columns: Columns) -> float:
    """Return p_A = ∏ (n_i-1)/n_i."""
    return prod((size - 1) / size for size in domain.shape(columns))


MAX_TOTAL_CELLS = 2**26
"""No release has more cells altogether."""
_ROUNDS = 60


def all_marginals(domain: Domain, degree: int) -> list[Columns]:
    """Return every set of ``degree`` columns."""
    chosen = integer(degree, "degree", minimum=1, maximum=len(domain))
    return list(combinations(domain.names, chosen))


@dataclass(frozen=True, kw_only=True)
class MarginalPlan:
    """The measurements for a set of marginals, their noise and their price. Public."""

    domain: Domain
    workload: tuple[Columns, ...]
    law: str
    noise: Mapping[Columns, Fraction]
    """The s² of discrete Gaussian noise on each H_A x, or the scale of discrete Laplace noise on each marginal."""
    events: tuple[Event, ...] = ()
    """The price; none where kept measurements were read again."""

    def held(self, columns: Iterable[str]) -> Columns:
        """Return columns in the domain's order; refuse those that do not lie within one marginal of the workload."""
        chosen = self.domain.columns(columns)
        if not any(set(chosen) <= set(wanted) for wanted in self.workload):
            raise InvalidValueError(
                "columns",
                got=" × ".join(chosen),
                allowed="columns that lie within one marginal of the release",
                hint="Release marginals of a higher degree, or name fewer columns.",
            )
        return chosen

    @cached_property
    def spreads(self) -> dict[Columns, float]:
        """σ_A² of each residual."""
        return residual_spreads(self.domain, self.law, self.noise)

    def variance(self, columns: Iterable[str]) -> float:
        """Return the variance of every cell of a marginal. It is known before anything is measured."""
        return marginal_variance(self.domain, self.held(columns), self.spreads)

    def error(self, columns: Iterable[str], confidence: float = 0.95) -> float:
        """Return the half-width of every cell of a marginal."""
        return quantile(self.law, confidence) * math.sqrt(self.variance(columns))

    def measure(self, table: CodedTable) -> Marginals:
        """Add the planned noise to a table's exact integers."""
        if table.domain != self.domain:
            raise InvalidValueError("table", got="a table of another domain", allowed="a table of the plan's domain")
        kept = []
        for columns, parameter in self.noise.items():
            counts, kind = table.marginal(columns), "counts"
            if self.law == "gaussian":
                counts, kind = residual_of(counts), "residual"
            kept.append(Measurement.of(columns, counts, kind=kind, law=self.law, parameter=parameter))
        return Marginals(plan=self, measurements=tuple(kept))


def plan_marginals(
    domain: Domain,
    workload: Sequence[Iterable[str]],
    *,
    rho: Fraction | None = None,
    epsilon: Fraction | None = None,
    optimise: str | Mapping[Columns, float] = "max",
    rows: int = 1,
    touched: int = 1,
) -> MarginalPlan:
    """Plan the noise for a workload: Gaussian at a price of ``rho``, or Laplace at ``epsilon``.

    ``optimise`` is "max" for the largest variance of a cell of any marginal, "sum" for the mean over marginals, "cells"
    for the mean over all cells, or a weight for each marginal. ``rows`` is how many rows a unit has at most;
    ``touched`` is 2 where neighbours replace a unit.
    """
    wanted = tuple(dict.fromkeys(domain.columns(columns) for columns in workload))
    cells = [domain.cells(columns) for columns in wanted]
    if not wanted or sum(cells) > MAX_TOTAL_CELLS or max(cells) > MAX_CELLS:
        raise InvalidValueError(
            "workload",
            got=f"{len(wanted)} marginals with {sum(cells):,} cells, the largest with {max(cells, default=0):,}",
            allowed=f"at least one marginal, of at most {MAX_CELLS:,} cells each and {MAX_TOTAL_CELLS:,} altogether",
            hint="Name fewer columns, declare coarser ones, or lower the degree.",
        )
    if (rho is None) == (epsilon is None):
        raise InvalidValueError("rho", got=rho, allowed="given, or epsilon, but not both")
    if rho is not None:
        noise, price = residual_noise(domain, wanted, rho, optimise=optimise, rows=rows, touched=touched)
        events = (ZCDPEvent(rho=price),)
        return MarginalPlan(domain=domain, workload=wanted, law="gaussian", noise=noise, events=events)
    budget = positive(epsilon, "epsilon")
    # A marginal within another is a sum of its cells, and costs nothing.
    largest = [columns for columns in wanted if not any(set(columns) < set(other) for other in wanted)]
    scale = Fraction(rows * touched * len(largest)) / budget
    # a unit's rows lie in one cell or in several: ℓ₁ is what bounds them
    single: Event = DiscreteLaplaceEvent(scale=scale, sensitivity=rows)
    if touched > 1 or rows > 1:
        single = ApproximateDPEvent(epsilon=budget / len(largest))
    event = single if len(largest) == 1 else ComposedEvent(parts=[(single, len(largest))])
    noise = dict.fromkeys(largest, scale)
    return MarginalPlan(domain=domain, workload=wanted, law="laplace", noise=noise, events=(event,))


def residual_of(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the residual of a table of counts: each count times n, less the sum of its line, along every axis."""
    residual = counts
    for axis, size in enumerate(counts.shape):
        # Whole numbers stay whole: the mean is never divided out here.
        residual = size * residual - residual.sum(axis=axis, keepdims=True)
    return residual


def _centred(values: Floats) -> Floats:
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def _part(values: npt.NDArray[Any], columns: Columns, subset: Columns) -> tuple[Floats, int]:
    """Return what a table says of one residual, and how many cells are summed for each of its own."""
    others = tuple(axis for axis, name in enumerate(columns) if name not in subset)
    return _centred(values.sum(axis=others).astype(np.float64)), prod(values.shape[axis] for axis in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountEstimate:
    """An unbiased count and the half-width of its interval.

    >>> CountEstimate(value=120.0, error=8.0).value
    120.0
    """

    value: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarginalTable:
    """One marginal: an axis for each column."""

    columns: Columns
    values: Floats
    error: float
    """The half-width of every cell."""

    def rounded(self) -> npt.NDArray[np.int64]:
        """Return the values as whole numbers, the nearest ones."""
        return np.rint(self.values).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginals:
    """A release of marginals, made of its measurements alone. Public."""

    plan: MarginalPlan
    measurements: tuple[Measurement, ...]
    confidence: float = 0.95

    @property
    def domain(self) -> Domain:
        """The columns and their codes."""
        return self.plan.domain

    @property
    def workload(self) -> tuple[Columns, ...]:
        """The marginals that were wanted."""
        return self.plan.workload

    @cached_property
    def _residuals(self) -> dict[Columns, Floats]:
        """Each residual's best estimate."""
        residuals: dict[Columns, Floats] = {}
        for measurement in self.measurements:
            columns, values = measurement.columns, measurement.values
            if measurement.kind == "residual":
                # Noise on single cells also leaves the residual's subspace; centring takes that part out.
                residuals[columns] = _centred(values / self.domain.cells(columns))
                continue
            for subset in subsets(columns):
                part, cells = _part(values, columns, subset)
                # Inverse variances: the best linear combination of uncorrelated unbiased estimates.
                share = part * (self.plan.spreads[subset] / (measurement.variance * cells))
                residuals[subset] = residuals[subset] + share if subset in residuals else share
        return residuals

    def __contains__(self, columns: object) -> bool:
        wanted = {columns} if isinstance(columns, str) else set(columns)  # type: ignore[call-overload]
        return any(wanted <= set(held) for held in self.workload)

    def __getitem__(self, columns: str | Iterable[str]) -> MarginalTable:
        """Return one marginal; its columns lie within one marginal of the workload."""
        chosen = self.plan.held([columns] if isinstance(columns, str) else columns)
        error = self.plan.error(chosen, self.confidence)
        return MarginalTable(columns=chosen, values=self._built(chosen, self._residuals), error=error)

    def _built(self, columns: Columns, residuals: Mapping[Columns, Floats]) -> Floats:
        values = np.zeros(self.domain.shape(columns))
        for subset in subsets(columns):
            if subset in residuals:
                rest = math.prod(self.domain.size(name) for name in columns if name not in subset)
                shape = [self.domain.size(name) if name in subset else 1 for name in columns]
                values += residuals[subset].reshape(shape) / rest
        return values

    def count(self, where: Mapping[str, Iterable[int]]) -> CountEstimate:
        """Return how many rows have, in each named column, one of the given codes."""
        columns = self.plan.held(where)
        return self.sum_of(columns, self.domain.mask(columns, where))

    def sum_of(self, columns: Iterable[str], weights: npt.NDArray[Any]) -> CountEstimate:
        """Return the weighted sum of a marginal's cells; ``weights`` has an axis for each column, in their order."""
        chosen = self.plan.held(columns)
        given = np.asarray(weights, dtype=np.float64)
        if given.shape != self.domain.shape(chosen):
            raise InvalidValueError(
                "weights", got=given.shape, allowed=f"an array of shape {self.domain.shape(chosen)}"
            )
        variance = 0.0
        for subset in subsets(chosen):
            part, cells = _part(given, chosen, subset)
            # P_A q, with the factor ∏ n_j⁻¹ inside, so that its square is the formula's n_j⁻².
            variance += self.plan.spreads.get(subset, 0.0) * float(np.vdot(part / cells, part / cells))
        value = float(np.vdot(given, self[chosen].values))
        return CountEstimate(value=value, error=quantile(self.plan.law, self.confidence) * math.sqrt(variance))

    def rolled_up(self, columns: Iterable[str], groups: Mapping[str, Sequence[int]]) -> tuple[Floats, Floats]:
        """Return a marginal over coarser keys, and its half-widths: ``groups`` gives the group of every code.

        Groups are numbered from 0; a district's region, a month's year. Sums of what was released cost nothing, and
        have error bars of their own.
        """
        chosen = self.plan.held(columns)
        values = self[chosen].values
        maps = []
        for name in chosen:
            size = self.domain.size(name)
            group = np.asarray(groups.get(name, range(size)))
            if len(group) != size or group.min() < 0:
                got, allowed = f"{len(group)} groups", f"one for each of {size} codes"
                raise InvalidValueError("groups", got=got, allowed=allowed)
            maps.append(np.equal.outer(np.arange(group.max() + 1), group).astype(np.float64))
        for axis, map_ in enumerate(maps):
            values = np.moveaxis(np.tensordot(map_, values, axes=(1, axis)), 0, axis)
        variance = np.zeros(values.shape)
        for subset in subsets(chosen):
            part = np.full(values.shape, self.plan.spreads.get(subset, 0.0))
            for axis, (name, map_) in enumerate(zip(chosen, maps, strict=True)):
                counts = map_.sum(axis=1)
                outside = (counts / map_.shape[1]) ** 2
                # ‖P q‖² of an indicator of c codes out of n: centred c - c²/n, added up and spread (c/n)².
                factor = counts - counts**2 / map_.shape[1] if name in subset else outside
                part *= factor.reshape([-1 if other == axis else 1 for other in range(len(chosen))])
            variance += part
        return values, quantile(self.plan.law, self.confidence) * np.sqrt(variance)

    def nonnegative(self) -> dict[Columns, Floats]:
        """Return all marginals of the workload without negative counts, consistent with each other; to look at.

        Alternately each marginal is moved to the nearest one that has no negative count, and all are made consistent
        by averaging what they say of each residual, until no count is below -½. What is left is cut to 0. This biases
        small counts upwards: the unbiased values and their error bars are those of ``self[columns]``.
        """
        # The empty residual is the number of rows; all tables must add up to it.
        total = max(0.0, float(self._residuals[()]))
        residuals = {**self._residuals, (): np.asarray(total)}
        tables = {columns: self._built(columns, residuals) for columns in self.workload}
        for _ in range(_ROUNDS):
            # What is left is half a row at most, and is cut to 0 below.
            if min(float(values.min()) for values in tables.values()) >= -0.5:
                break
            sums: dict[Columns, Floats] = {}
            weights: dict[Columns, float] = {}
            for columns, values in tables.items():
                fixed = nonnegative(values, total=total)
                for subset in subsets(columns):
                    # A residual that is summed over more cells is less sure, as with white noise on the cells.
                    part, cells = _part(fixed, columns, subset)
                    sums[subset] = part / cells if subset not in sums else sums[subset] + part / cells
                    weights[subset] = weights.get(subset, 0.0) + 1 / cells
            residuals = {subset: value / weights[subset] for subset, value in sums.items()}
            tables = {columns: self._built(columns, residuals) for columns in self.workload}
        return {columns: np.maximum(values, 0.0) for columns, values in tables.items()}

    def to_bytes(self) -> bytes:
        """Return the measurements as they are kept."""
        head = {
            "release": "marginals",
            "domain": dict(zip(self.domain.names, self.domain.sizes, strict=True)),
            "workload": [list(columns) for columns in self.workload],
        }
        return pack(head, self.measurements)

    @classmethod
    def from_bytes(cls, data: bytes, *, confidence: float = 0.95) -> Marginals:
        """Return the release that was kept."""
        head, kept = unpack(data)
        if head.get("release") != "marginals":
            raise MeasurementsError(f"These are measurements of {head.get('release')}, not of marginals.")
        plan = MarginalPlan(
            domain=Domain.of(head["domain"]),
            workload=tuple(tuple(columns) for columns in head["workload"]),
            law=kept[0].law,
            noise={measurement.columns: measurement.parameter for measurement in kept},
        )
        return cls(plan=plan, measurements=tuple(kept), confidence=confidence)
