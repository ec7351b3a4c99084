"""Private minima of convex objectives: by objective perturbation, and by noisy Newton steps.

**Objective perturbation whose floating-point errors are all paid for.**

The ideal mechanism releases the exact minimum θ* of

    J(θ) = Σᵢ ℓ(yᵢ, xᵢ·θ) + ½λ‖θ−θ₀‖² + b·θ,    b ~ N(0, σ²I) of real numbers

(:mod:`hush.accounting.pairs.objective` has its privacy). A computer finds some θ̃ near θ*. Here (Iyengar et al. 2019,
approximate minima perturbation):

* **Certificate.** J is λ-strongly convex, so ‖θ̃ − θ*‖ ≤ ‖∇J(θ̃)‖/λ. The gradient is computed in floats, with a bound
  on its error (below); θ̃ is *certified* if the computed norm and that bound together are at most the public γ.
* **Release.** θ̃ is rounded to a public grid of step g, and an ideal Gaussian of deviation s, rounded to the grid, is
  added. Given θ*, θ̃ is a function of the rows within τ = γ/λ + √d·g/2 of θ*, for either neighbour, so this is a
  Gaussian mechanism of sensitivity 2τ. The two events compose; with s = 200τ/μ the second costs 10⁻⁴ of the first's μ².

**What the error bound holds**, with u = 2⁻⁵³, k columns of at most L levels and m features each, n rows:

* b is rounded to 2⁻³⁰: √d·2⁻³¹.
* A margin is a sum of k+1 table entries, each a dot product of m terms: off by (k+m+3)·u·S, S the sum of moduli. ℓ'
  moves by β times that, is evaluated to within 16u and rounded to u, so each row is off by R·(β(k+m+3)uS + 17u).
* The sums over levels are exact integers (:mod:`hush.learn.features`). A column's features are dot products of L of
  them, whose moduli add up to at most 3n/2 over the column, for no level's features add up to more: off by
  3/2·(L+4)·u·n per column, √(k+1) times that together.
* The ridge is off by 4u·d·λ·‖θ−θ₀‖.

All of it enters with a factor of 2 in hand.

**No certificate.** Newton's direction p = −H⁻¹g lowers ‖g‖ for every convex J (the derivative of ½‖g‖² along it is
−‖g‖²), and steps are halved until it does, so the iteration ends at the minimum whatever the rows are. Only a table of
more than some ten million rows can exceed what floats certify: then the answer is the public θ₀ plus the same noise. No
error, warning or iteration count that leaves here depends on rows.

**Noisy Newton steps: fits where a unit has several rows, made of sums of integers alone.**

Objective perturbation asks that neighbours differ by one row, for its proof is about a change of rank one. Here a unit
may add or remove up to k rows. What is released is ordinary sums with Gaussian noise (Ganesh, Haghifam, Steinke,
Thakurta 2023, "Faster differentially private convex optimization via second-order methods"):

1. **The second moments** A = Σ xᵢxᵢᵀ of the features, once.
2. **Gradients** gₜ = Σ ℓ'(yᵢ, xᵢ·θₜ)·xᵢ at the public θₜ, a few times. Each step moves θ by
   −[w(Â + λI)]⁻¹ g̃ₜ, with w a public guess of the loss's mean second derivative.

**Integers.** Features are rounded to 2⁻¹⁰, derivatives, which lie in [−1, 1], to 2⁻¹². So every sum is one of integers,
the same for each order of the rows.

**Sensitivity.** In units of the grid a row has ‖x‖ ≤ R, computed exactly from the rounded public maps. It adds a vector
of norm at most 2¹²·R to a gradient. To the upper triangle of A it adds xᵢxⱼ, i ≤ j, of squared norm ½[(Σxᵢ²)² + Σxᵢ⁴] ≤
R⁴. A unit adds at most k of these, so k times as much. Each release has its share of one μ², which adds up; the event
is that of one Gaussian.

**The ridge** λ is what noise alone can make of the smallest eigenvalue, 2√d deviations of an entry: below that Â says
nothing. It shortens steps where nothing is known, and stopping early keeps them short; the coefficients themselves are
not shrunk. (Shrinking them by λ, too, lost 0.02 to 0.08 of R² on three tables.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.learn.budget import OUTPUT, deviation, noisy, noisy_products
from hush.learn.features import Design
from hush.learn.schema import Codes, Floats
from hush.noise import rounded_gaussian

GAMMA = Fraction(1, 2**13)
"""The gradient norm that a released minimum must be certified to have, times the loss's smoothness β."""
STEP = Fraction(1, 2**28)
"""The grid of released coefficients."""
_DRAW = 2**30
_UNIT = 2.0**-53
_STEPS, _HALVINGS = 60, 40


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss of a margin and a target, its derivative within ±1."""

    derivative: Callable[[Floats, Floats], Floats]
    second: Callable[[Floats, Floats], Floats]
    smoothness: Fraction
    """β, the largest second derivative."""
    two_sided: bool
    """Whether the derivative can have either sign for the same target."""


def sigmoid(m: Floats) -> Floats:
    """Return 1/(1 + e^(-m))."""
    # e^(-|m|) is at most 1 and cannot overflow.
    decay = np.exp(-np.abs(m))
    return np.asarray(np.where(m >= 0, 1.0, decay) / (1.0 + decay))


LOGISTIC = Loss(
    derivative=lambda m, y: sigmoid(m) - y,
    second=lambda m, _y: sigmoid(m) * sigmoid(-m),
    smoothness=Fraction(1, 4),
    two_sided=False,
)
"""ln(1 + e^{−m}) for y = 1 and ln(1 + e^m) for y = 0; the derivative p − y keeps its sign."""
HUBER = Loss(
    derivative=lambda m, y: np.clip(m - y, -1.0, 1.0),
    second=lambda m, y: (np.abs(m - y) < 1.0).astype(np.float64),
    smoothness=Fraction(1),
    two_sided=True,
)
"""½r² for |r| ≤ 1 and |r| − ½ beyond, r = m − y."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """The public parameters of one fit; noise and ridge follow from its price."""

    loss: Loss
    radius_squared: Fraction
    """R², the largest squared norm of a row's features with the intercept."""
    mu_squared: Fraction
    """The price of the linear term b."""
    curvature: Fraction
    """βR²/λ."""
    width: int
    """d, how many coefficients there are."""

    @property
    def sigma(self) -> Fraction:
        """The deviation of each coordinate of b."""
        return deviation(self.mu_squared, self.radius_squared)

    @property
    def ridge(self) -> Fraction:
        """λ, the least eigenvalue of the ridge."""
        return self.loss.smoothness * self.radius_squared / self.curvature

    @property
    def gamma(self) -> Fraction:
        """γ, the gradient norm that a minimum must be certified to have."""
        return GAMMA * self.loss.smoothness

    @property
    def tolerance(self) -> Fraction:
        """τ: how far a released minimum may be from the ideal one, rounded up."""
        return self.gamma / self.ridge + (math.isqrt(self.width) + 1) * STEP / 2

    @property
    def output_sigma(self) -> Fraction:
        """The deviation of the noise added to the minimum."""
        return deviation(OUTPUT * self.mu_squared, (2 * self.tolerance) ** 2)

    @property
    def penalty(self) -> float:
        """λ as a float, rounded up."""
        return math.nextafter(float(self.ridge), math.inf)

    def release(self, design: Design, target: Floats, centre: Floats) -> Floats:
        """Return the noisy minimum for the rows of a design."""
        b = np.asarray(rounded_gaussian(self.sigma * _DRAW, self.width), dtype=np.float64) / _DRAW
        minimum = certified_minimum(self, design, target, centre, b)
        # Without a certificate the noise and the price are the same, so nothing tells the two cases apart.
        point = centre if minimum is None else minimum
        steps = np.rint(point / float(STEP)).astype(np.int64)
        noisy = steps + rounded_gaussian(self.output_sigma / STEP, self.width)
        return np.asarray(noisy * float(STEP), dtype=np.float64)


def certified_minimum(
    how: Perturbation, design: Design, target: Floats, centre: Floats, b: Floats, *, steps: int = _STEPS
) -> Floats | None:
    """Return a point with a gradient certified to be at most γ, or None."""
    loss, penalty = how.loss, how.penalty

    def gradient(theta: Floats) -> tuple[Floats, Floats]:
        margins = design.margins(theta)
        return design.sums(loss.derivative(margins, target)) + penalty * (theta - centre) + b, margins

    theta = np.array(centre, dtype=np.float64)
    slope, margins = gradient(theta)
    norm = float(np.linalg.norm(slope))
    for _ in range(steps):
        # Far below γ, for the bound on the gradient's own error must fit in as well.
        if norm <= float(how.gamma) / 256:
            break
        hessian = design.curvature(loss.second(margins, target))
        hessian[np.diag_indices_from(hessian)] += penalty
        try:
            direction = np.linalg.solve(hessian, slope)
        except np.linalg.LinAlgError:  # rows so heavy that floats lose the ridge: no certificate, and no error
            break
        share = 1.0
        for _ in range(_HALVINGS):
            trial = theta - share * direction
            slope_there, margins_there = gradient(trial)
            norm_there = float(np.linalg.norm(slope_there))
            # Along Newton's direction the norm falls at first by all of `share`; a quarter of that is asked for.
            if norm_there <= (1 - share / 4) * norm:
                break
            share /= 2
        else:
            break  # floats can do no better
        theta, slope, margins, norm = trial, slope_there, margins_there, norm_there
    return theta if norm + _gradient_error(how, design, theta, centre) <= float(how.gamma) else None


def _gradient_error(how: Perturbation, design: Design, theta: Floats, centre: Floats) -> float:
    """Return the bound on the error of a computed gradient's norm; the docstring derives it."""
    radius, count = math.sqrt(float(how.radius_squared)), len(design.codes)
    levels = max((part.shape[0] for part in design.maps), default=1)
    wide = max((part.shape[1] for part in design.maps), default=1)
    margin = (count + wide + 3) * _UNIT * design.reach(theta)
    rows = design.rows * radius * (float(how.loss.smoothness) * margin + 17 * _UNIT)
    features = 1.5 * (levels + 4) * _UNIT * design.rows * math.sqrt(count + 1) * design.intercept
    ridge = 4 * design.width * _UNIT * how.penalty * float(np.linalg.norm(theta - centre))
    return 2 * (rows + features + ridge) + math.sqrt(design.width) / (2 * _DRAW)


LOOKS, MOMENTS, STEPS = Fraction(12, 100), Fraction(28, 100), Fraction(60, 100)
"""How a fit shares its μ²: looks at the columns, second moments, all gradients together."""
_FEATURE, _DERIVATIVE = 2.0**10, 2.0**12
"""The grids of features and of derivatives, as parts of 1."""


@dataclass(frozen=True, slots=True)
class NewtonDesign:
    """Rows with features rounded to the grid; a unit has at most ``rows``."""

    design: Design
    radius_squared: int
    """The largest squared norm of a row's features, in squared units of the grid."""
    rows: int

    @property
    def width(self) -> int:
        """How many coefficients there are."""
        return self.design.width

    @classmethod
    def of(cls, codes: Sequence[Codes], maps: Sequence[Floats], *, intercept: float, rows: int) -> NewtonDesign:
        """Round the public maps, and find how long a row can be."""
        rounded = [np.rint(part * _FEATURE) for part in maps]
        constant = round(intercept * _FEATURE)
        # The longest level of each column, after rounding and in integers: no row can be longer.
        longest = sum(int((part * part).sum(axis=1).max()) for part in rounded) + constant**2
        return cls(Design(codes, rounded, intercept=float(constant)), longest, rows)

    def margins(self, theta: Floats) -> Floats:
        """Return x·θ for each row."""
        return self.design.margins(theta) / _FEATURE

    def moments(self, mu_squared: Fraction) -> tuple[Floats, float]:
        """Return the noisy second moments of the rows, and the deviation of an entry's noise."""
        # Whole numbers below 2⁵³ times one power of two, as for fewer than 2²⁹ rows: all sums are exact.
        total = self.design.curvature(np.ones(self.design.rows))
        sigma = deviation(mu_squared, Fraction(self.rows**2 * self.radius_squared**2))
        unit = int(_FEATURE) ** 2
        return noisy_products(total, unit, lambda count: rounded_gaussian(sigma, count)), float(sigma) / unit

    def gradient_deviation(self, mu_squared: Fraction) -> Fraction:
        """Return the deviation of an entry's noise in a gradient."""
        longest = Fraction(self.rows**2 * self.radius_squared) * int(_DERIVATIVE) ** 2
        return deviation(mu_squared, longest) / int(_FEATURE * _DERIVATIVE)

    def gradient(self, derivative: Floats, mu_squared: Fraction) -> Floats:
        """Return the noisy sum of derivative times features."""
        # ±1 are on the grid, so that rounding cannot lead beyond the bound that the price rests on.
        derivatives = np.rint(np.clip(derivative, -1.0, 1.0) * _DERIVATIVE) / _DERIVATIVE
        # Whole numbers times whole features: the sums are exact while they are below 2⁵³, as for fewer than 2²⁹ rows.
        total, unit = self.design.sums(derivatives) * _DERIVATIVE, int(_FEATURE * _DERIVATIVE)
        return noisy(total, self.gradient_deviation(mu_squared) * unit) / unit

    def minimum(
        self, loss: Loss, target: Floats, start: Floats, *, inverse: Floats, steps: int, mu_squared: Fraction
    ) -> Floats:
        """Return where steps lead from ``start``: by ``inverse`` times a gradient, each at the price ``mu_squared``."""
        theta = start
        for _ in range(steps):
            theta = theta - inverse @ self.gradient(loss.derivative(self.margins(theta), target), mu_squared)
        return theta


def inverse_moments(moments: Floats, sigma: float) -> Floats:
    """Return (A + λI)⁻¹ of noisy second moments, eigenvalues below zero taken as zero: noise made them."""
    values, vectors = np.linalg.eigh(moments)
    return np.asarray(vectors / (np.maximum(values, 0.0) + 2 * sigma * math.sqrt(len(values))) @ vectors.T)
