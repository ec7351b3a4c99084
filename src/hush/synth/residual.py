r"""Residual bases: the best Gaussian noise for a set of marginals, in closed form.

**Basis.** For a set A of columns with n_i codes each, the *residual* of A is what its marginal says beyond the
marginals of its subsets: (⊗_{i∈A} (I - 11ᵀ/n_i)) M_A. Residuals of different sets are orthogonal, and a marginal is
their sum,

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

>>> plan = plan_residuals(Domain.of({"a": 4, "b": 3}), [("a",), ("b",)], rho=Fraction(1, 2), optimise="max")
>>> sorted(plan.variances), plan.rho <= Fraction(1, 2)
([(), ('a',), ('b',)], True)
>>> round(plan.variance(("a",)), 3) == round(plan.variance(("b",)), 3)
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.synth.domain import MAX_CELLS, Columns, Domain
from hush.synth.measurements import short_up

Floats = npt.NDArray[np.float64]
_GAP = 2e-5
_STEPS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualPlan:
    """The noise of every residual. Public: it depends on the domain and the workload alone."""

    domain: Domain
    workload: tuple[Columns, ...]
    variances: Mapping[Columns, Fraction]
    """For each set A the parameter s² of the discrete Gaussian noise on H_A x."""
    rows: int = 1
    """How many rows a unit has at most."""
    touched: int = 1
    """Units that a neighbour changes: 1 for add/remove, 2 for replace."""

    @property
    def rho(self) -> Fraction:
        """The price in zero-concentrated differential privacy, exactly."""
        return sum((self.cost(columns) for columns in self.variances), Fraction(0))

    def cost(self, columns: Columns) -> Fraction:
        """Return the price of one residual: Δ²/2s²."""
        return squared_sensitivity(self.domain, columns, self.rows, self.touched) / (2 * self.variances[columns])

    def spread(self, columns: Columns) -> float:
        """Return σ_A²: the noise in a cell of the residual has the variance σ_A² p_A."""
        return float(self.variances[columns]) / prod(size * size for size in self.domain.shape(columns))

    def variance(self, columns: Columns) -> float:
        """Return the variance of a cell of a marginal; all its cells have the same."""
        return marginal_variance(self.domain, columns, self.spread)


def marginal_variance(domain: Domain, columns: Columns, spread: Callable[[Columns], float]) -> float:
    """Return Σ_{A⊆S} σ_A² p_A ∏_{j∈S∖A} n_j^{-2}, where ``spread`` gives σ_A²."""
    variance = 0.0
    for subset in subsets(columns):
        rest = prod(domain.size(name) ** -2.0 for name in columns if name not in subset)
        variance += spread(subset) * _share(domain, subset) * rest
    return variance


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


def plan_residuals(
    domain: Domain,
    workload: Sequence[Columns],
    *,
    rho: Fraction,
    optimise: str | Mapping[Columns, float] = "max",
    rows: int = 1,
    touched: int = 1,
) -> ResidualPlan:
    """Return the noise that costs at most ``rho`` and errs least on a workload.

    ``optimise`` is "max" for the largest variance of a cell of any marginal, "sum" for the mean over marginals, "cells"
    for the mean over all cells, or a weight for each marginal.
    """
    wanted = tuple(dict.fromkeys(domain.columns(columns) for columns in workload))
    if not wanted:
        raise InvalidValueError("workload", got=workload, allowed="at least one set of columns")
    for columns in wanted:
        if domain.cells(columns) > MAX_CELLS:
            raise InvalidValueError(
                "workload",
                got=" × ".join(columns),
                allowed=f"marginals of at most {MAX_CELLS:,} cells",
                hint="Leave the marginal out, or declare coarser columns.",
            )
    if not isinstance(rho, Fraction) or rho <= 0:
        raise InvalidValueError("rho", got=rho, allowed="a positive fraction")
    # a column with a single code adds nothing: residuals with it are 0, exactly, and are not measured
    sets = [columns for columns in closure(wanted) if all(size > 1 for size in domain.shape(columns))]
    program = _Program(domain, wanted, sets)
    spreads = program.minimax() if optimise == "max" else program.weighted(program.weights(optimise))
    # the same σ² whatever a unit's rows and the neighbours are; then all scaled so that the whole price is ρ
    sizes = [prod(size * size for size in domain.shape(columns)) for columns in sets]
    sensitivity = [squared_sensitivity(domain, columns, rows, touched) for columns in sets]
    weight = [
        float(changed) / (2 * float(spread) * size)
        for changed, spread, size in zip(sensitivity, spreads, sizes, strict=True)
    ]
    # Floats chose the proportions; the margin covers their rounding, and the exact price is checked below.
    scale = Fraction(sum(weight)) * (1 + Fraction(1, 10**9)) / rho
    variances = {
        columns: short_up(Fraction(float(spread)) * size * scale)
        for columns, spread, size in zip(sets, spreads, sizes, strict=True)
    }
    plan = ResidualPlan(domain=domain, workload=wanted, variances=variances, rows=rows, touched=touched)
    if plan.rho > rho:  # the margin above is far larger than the rounding of floats
        raise AssertionError("the plan costs more than it may")
    return plan


class _Program:
    """The optimisation over σ²: Var = K σ² with one row for each wanted marginal, Σ p/σ² = 1."""

    def __init__(self, domain: Domain, wanted: Sequence[Columns], sets: Sequence[Columns]) -> None:
        index_of = {columns: index for index, columns in enumerate(sets)}
        self._cells = np.array([float(domain.cells(columns)) for columns in wanted])
        self._wanted = wanted
        self.price = np.array([_share(domain, columns) for columns in sets])
        rows, columns_, values = [], [], []
        for row, columns in enumerate(wanted):
            shape = dict(zip(columns, domain.shape(columns), strict=True))
            for subset in subsets(columns):
                if subset in index_of:
                    rows.append(row)
                    columns_.append(index_of[subset])
                    rest = prod(size**-2.0 for name, size in shape.items() if name not in subset)
                    values.append(self.price[index_of[subset]] * rest)
        self._rows, self._columns = np.array(rows), np.array(columns_)
        self._values = np.array(values)

    def _times(self, spreads: Floats) -> Floats:
        sums = np.bincount(self._rows, self._values * spreads[self._columns], minlength=len(self._wanted))
        return np.asarray(sums, dtype=np.float64)

    def weights(self, optimise: str | Mapping[Columns, float]) -> Floats:
        if optimise == "sum":
            return np.ones(len(self._wanted))
        if optimise == "cells":
            return self._cells
        if isinstance(optimise, Mapping):
            given = np.array([float(optimise.get(columns, 0.0)) for columns in self._wanted])
            if np.all(given > 0) and np.all(np.isfinite(given)):
                return given
        allowed = "'max', 'sum', 'cells', or a positive weight for each marginal of the workload"
        raise InvalidValueError("optimise", got=optimise, allowed=allowed)

    def weighted(self, weights: Floats) -> Floats:
        """Return σ² of the least weighted sum of variances, at Σ p/σ² = 1."""
        load = np.bincount(self._columns, self._values * weights[self._rows], minlength=len(self.price))
        roots = np.sqrt(self.price * load)
        return np.asarray(np.sqrt(self.price / load) * roots.sum())

    def minimax(self) -> Floats:
        """Return σ² of the least largest variance, within the gap of the optimum that the bound from below proves."""
        weights = np.full(len(self._wanted), 1.0 / len(self._wanted))
        best, least = None, np.inf
        power = 1.0
        for _ in range(_STEPS):
            spreads = self.weighted(weights)
            variances = self._times(spreads)
            # At the best spreads for these weights this is g(w), which no plan's largest variance falls below.
            bound = float(weights @ variances)
            largest = float(variances.max())
            if largest < least:
                best, least = spreads, largest
            if largest <= bound * (1 + _GAP):
                break
            weights = weights * (variances / bound) ** power
            weights /= weights.sum()
        assert best is not None  # noqa: S101 - a workload is not empty
        return best


def _share(domain: Domain, columns: Columns) -> float:
    """Return p_A = ∏ (n_i-1)/n_i."""
    return prod((size - 1) / size for size in domain.shape(columns))
