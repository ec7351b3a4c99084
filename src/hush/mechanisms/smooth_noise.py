r"""Noise scaled to smooth sensitivity: less noise where the data are kind, at no loss of privacy.

Let S be β-smooth: S(D) ≤ e^β·S(D') and |f(D) - f(D')| ≤ S(D) for neighbours, hence ≤ min(S, S'). Release f + c·S·Z with
(THEORY item 15; Nissim, Raskhodnikova, Smith 2007):

* ``"polynomial"`` (default), pure ε: density ∝ (1+|z|)^{-a}, β = ε/(a-1),
  c = max(e^{-β}/(e^{(ε-β)/a} - 1), 1/(e^{ε/a} - 1));
* ``"cauchy"``, pure ε: density ∝ 1/(1+|z|^γ), β = ε/2(γ+1), c = 2(γ+1)/ε;
* ``"laplace"``, (ε, δ): β = ε/(2 ln(2/δ)), c = 2/ε;
* ``"gaussian"``, (ε, δ): β = ε/(4(1 + ln(2/δ))), c = 5√(2 ln(2/δ))/ε, Z standard normal (one source prints Laplace).

**Proof for the polynomial.** With s = cS, s' = cS', λ = S'/S, u = |y-f|, u' = |y-f'| ≤ u + min(s, s')/c the
densities' ratio is λ^{1-a}·((s'+u')/(s+u))^a. *λ ≥ 1*: (s'+u+s/c)/(s+u) falls with u, so at worst u = 0: λ(1+1/cλ)^a.
Its logarithm's slope in λ, (1 - a/(cλ+1))/λ, changes sign once from - to +, so the worst λ is an end: λ = 1 needs c ≥
1/(e^{ε/a}-1), and λ = e^β needs c ≥ e^{-β}/(e^{(ε-β)/a}-1). *λ ≤ 1*: with u' ≤ u + s'/c either the fraction rises
with u, at most to 1, and the ratio is at most λ^{1-a} ≤ e^{β(a-1)} = ε's e^ε; or it falls, and the ratio is at most
λ(1+1/c)^a ≤ e^ε. ∎

**Rounding.** a is rational and β = ε/(a-1) exactly; c is rounded up, β down, which both conditions allow: they hold
for every larger c and every smaller β. The noise is an ideal real rounded to the grid (`hush.noise.reals`):
post-processing. A computed S is β-smooth with its rounding included (`hush.sensitivity.statistics`).

**Utility.** For a smooth sensitivity S the noise has scale cS: `error` is its quantile, `variance` its variance
(`hush.mechanisms.base`; infinite for a ≤ 3 and γ ≤ 3), and `bias` 0, for the noise is symmetric; for γ ≤ 2 it has
no mean, and `bias` is NaN. S is private, so these are for planning and for the owner's eyes. `for_error` takes a guess
of S: as β grows with ε, and S falls with β, an S computed for a smaller ε is on the safe side.

>>> SmoothNoise(epsilon=1, step="0.001").release(0.25, "1e-9")
0.25
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from hush.accounting import ApproximateDPEvent
from hush.core import InvalidValueError, Number, exact, fraction_between, nonnegative
from hush.core.grid import on_grid, one_number, whole_step
from hush.core.numbers import assign
from hush.core.rounding import Ball, ball, certified, float_up, fraction_down, fraction_up, short_down, short_up
from hush.mechanisms.base import Calibrated, RoundedNoise, choose, confidence_level, least, ordinary, unquoted

_LARGEST_EPSILON = Fraction(1000)  # a guarantee at a smaller ε implies one at a larger ε, and e^ε stays computable
NOISES = ("polynomial", "cauchy", "laplace", "gaussian")
PURE = NOISES[:2]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SmoothNoise(Calibrated):
    """Adds noise in proportion to a β-smooth bound of the local sensitivity.

    Parameters
    ----------
    epsilon, delta
        The guarantee; δ for "laplace" and "gaussian" only. From ε = 1000 on the noise is that of 1000.
    noise
        "polynomial", "cauchy", "laplace" or "gaussian".
    power
        a of the polynomial (above 2; 4.5 by default, near the best for medians), or γ of the Cauchy (above 1; 2).
    step
        The public grid of answers.

    Examples
    --------
    >>> import hush
    >>> hush.SmoothNoise(epsilon=1, step="0.001").beta
    Fraction(2, 7)
    """

    epsilon: Fraction
    delta: Fraction
    noise: str
    power: Fraction
    step: Fraction
    beta: Fraction
    factor: Fraction

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        noise: str = "polynomial",
        power: Number | None = None,
        step: Number,
    ) -> None:
        budget = ordinary(epsilon, "epsilon")
        choose(noise, NOISES, "noise")
        if noise in PURE and delta is not None:
            raise InvalidValueError("delta", got=delta, allowed=f"left out for {noise!r} noise, which is pure")
        slip = Fraction(0) if noise in PURE else fraction_between(delta, "delta")
        default = Fraction(9, 2) if noise == "polynomial" else Fraction(2)
        exponent = default if power is None else exact(power, "power")
        if exponent < (Fraction(21, 10) if noise == "polynomial" else Fraction(11, 10)):
            raise InvalidValueError("power", got=power, allowed="at least 2.1 (polynomial) or 1.1 (cauchy)")
        beta, factor = _rates(noise, min(budget, _LARGEST_EPSILON), slip, exponent)
        grid = ordinary(step, "step")
        assign(self, epsilon=budget, delta=slip, noise=noise, power=exponent, step=grid, beta=beta, factor=factor)

    @classmethod
    def with_noise(cls, scale: Number, /, **parameters: Any) -> Self:
        """Return the mechanism of the smallest ε, to 12 digits, with a noise scale of at most ``scale``·S."""
        wanted, why = ordinary(scale, "scale"), "beyond which the noise does not fall: it stays that of ε = 1000"
        return least(lambda epsilon: cls._at(epsilon, parameters), lambda made: float_up(made.factor), wanted, why=why)

    @property
    def _law(self) -> RoundedNoise:
        return RoundedNoise(self.noise, self.power)

    @property
    def event(self) -> ApproximateDPEvent:
        """The release is (ε, δ), pure for polynomial and Cauchy noise."""
        return ApproximateDPEvent(epsilon=self.epsilon, delta=self.delta)

    def release(self, value: Any, smooth_sensitivity: Number) -> Any:
        """Return value + noise; ``smooth_sensitivity`` must be β-smooth for this mechanism's ``beta``."""
        exact_value, allowed = one_number(value), "a finite number of at least zero"
        scale = self.factor * unquoted(nonnegative, smooth_sensitivity, "smooth_sensitivity", allowed) / self.step
        if not scale:  # smooth and 0 here means 0 at every data set: the function is a constant, and no secret
            return on_grid(whole_step(exact_value, self.step), self.step)
        return on_grid(self._law.draw(scale, exact_value / self.step), self.step)

    def error(self, confidence: Number = Fraction(19, 20), *, smooth_sensitivity: Number) -> float:
        """Return the half-width for a given smooth sensitivity.

        That is a private number, so this is for planning and for the owner's eyes.
        """
        width = self._law.half_width(1 - confidence_level(confidence)) * self.factor
        # The rounding of the answer is included.
        return float_up(width * ordinary(smooth_sensitivity, "smooth_sensitivity") + self.step / 2)

    def variance(self, smooth_sensitivity: Number) -> float:
        """Return the noise's variance for a given smooth sensitivity; infinite where the tail is too heavy."""
        scale = self.factor * ordinary(smooth_sensitivity, "smooth_sensitivity") / self.step
        return self._law.variance(scale) * float(self.step) ** 2

    @property
    def bias(self) -> float:
        """Zero: the noise is symmetric. NaN for Cauchy noise with γ ≤ 2, which has no mean."""
        return math.nan if self.noise == "cauchy" and self.power <= 2 else 0.0


def _rates(noise: str, epsilon: Fraction, delta: Fraction, power: Fraction) -> tuple[Fraction, Fraction]:
    """Return β, rounded down (a smaller one asks for a smoother S), and c, rounded up: both to the safe side."""
    if noise == "cauchy":
        return epsilon / (2 * (power + 1)), 2 * (power + 1) / epsilon
    if noise == "polynomial":
        beta = epsilon / (power - 1)

        def factor() -> Ball:
            e, b, a = ball(epsilon), ball(beta), ball(power)
            return ((-b).exp() / ((e - b) / a).expm1()).max(1 / (e / a).expm1())

        return beta, short_up(fraction_up(certified(factor)))

    def logarithm() -> Ball:
        return (2 / ball(delta)).log()

    if noise == "laplace":
        return short_down(fraction_down(certified(lambda: ball(epsilon) / (2 * logarithm())))), 2 / epsilon
    beta = short_down(fraction_down(certified(lambda: ball(epsilon) / (4 * (1 + logarithm())))))
    return beta, short_up(fraction_up(certified(lambda: 5 * (2 * logarithm()).sqrt() / ball(epsilon))))
