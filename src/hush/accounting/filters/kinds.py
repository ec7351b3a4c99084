"""The four filters, named after the figure that adds up: ε, a Rényi divergence, ρ or μ².

**The Rényi filter: one order, fixed when the account is opened.**

**Theorem.** Fix α > 1. Let an analyst choose each mechanism after seeing all earlier outputs, such that, given any
outputs h so far, step i for every pair of neighbours has a loss Lᵢ that is infinite with probability at most mᵢ(h) and

    E[e^{(α-1)Lᵢ} ; Lᵢ < ∞ | h] ≤ e^{(α-1)γᵢ(h)},

or is a post-processing of such a step. If Σγᵢ ≤ Γ and Σmᵢ ≤ m on every path, the whole interaction satisfies

    δ(ε) ≤ m + e^{(α-1)(Γ-ε)}·(1-1/α)^{α-1}/α    for every ε ≥ 0.

*Proof.* Let L be the sum of the losses, the loss of the transcript. Xₙ = exp((α-1)·Σ_{i≤n}(Lᵢ-γᵢ)) on the event that
all of L₁…Lₙ are finite, 0 otherwise, is a non-negative supermartingale, since γᵢ is known before Lᵢ is drawn. So E Xₙ
≤ 1, and Σγᵢ ≤ Γ gives E[e^{(α-1)L}; L < ∞] ≤ e^{(α-1)Γ}. The chance that some step is the first of infinite loss is
at most E Σmᵢ ≤ m. Now δ(ε) = E(1-e^{ε-L})₊ ≤ P(L = ∞) + E[(1-e^{ε-L})₊; L < ∞], and (1-e^{-u})₊ ≤
e^{(α-1)u}·(1-1/α)^{α-1}/α. Post-processed steps: let the analyst see the unprocessed outputs too, which only
increases δ. ∎

With m = 0 this is the filter of Feldman and Zrnic (2021, arXiv 2008.11193) with the conversion of Canonne, Kamath and
Steinke (2020). *Hypotheses to note.* The order is fixed before the first step; picking the best order at the end is not
covered. So is the split of δ into ``reserve`` (m) and the rest: had the analyst the choice between mass and loss on
each path, both could be spent on the same δ. γᵢ and mᵢ must hold for both directions of every pair of neighbours,
and depend on outputs, never on data.

The account holds Γ = ε - ln(1-1/α) + (ln(δ-m) + ln α)/(α-1), rounded down.

>>> account = RenyiFilter.open(epsilon=1, delta="1e-6")
>>> account.alpha
Fraction(...)

**The filter of approximate zero-concentrated differential privacy: Σρ and Σδ.**

**Theorem** (Whitehouse, Ramdas, Rogers, Wu 2023, "Fully-adaptive composition in differential privacy"). Let an
analyst choose each mechanism after seeing all earlier outputs, such that given any of them step i is mᵢ-approximately
ρᵢ-zCDP, where ρᵢ and mᵢ are functions of those outputs alone. If Σρᵢ ≤ ρ and Σmᵢ ≤ m on every path, the interaction
is m-approximately ρ-zCDP. *Proof*: that of the Rényi filter holds at every order α at once, with γᵢ = αρᵢ and Γ = αρ.

So here the order of the conversion may be chosen at the end, and the account holds

    ρ = max over α of (ε - ln(1-1/α) + (ln(δ-m) + ln α)/(α-1)) / α,

rounded down at an order near the best: any order gives a true bound. Since a divergence is at most αρᵢ, the Rényi
filter at that order admits every step that this one admits. The advantage of this one is a currency without an order:
ρ adds up across accounts and over the years.

>>> account = ZCDPFilter.open(epsilon=1, delta="1e-6", reserve=0)
>>> round(float(account.limit), 5)
0.02436

**The filter of Gaussian differential privacy: Σμ².**

**Theorem** (Koskela, Tobaben, Honkela 2023, arXiv 2210.17520). Let an analyst choose each mechanism after seeing all
earlier outputs, such that given any of them step i is μᵢ-GDP: no easier to tell from its neighbour than N(0, 1) from
N(μᵢ, 1). If Σμᵢ² ≤ μ² on every path, the interaction is μ-GDP. *Proof.* A μᵢ-GDP step is a post-processing of one
normal variable with mean 0 or μᵢ (Blackwell), and that of a Brownian motion, with drift 0 or 1, watched for a time
μᵢ². Let all steps watch one motion, one after the other; each knows how long it will watch before it starts, and
together they watch no longer than μ². So the interaction is a post-processing of the motion up to time μ², that is of
N(0 or μ, 1). ∎

*Hypothesis to note*: each step must be Gaussian-like as a whole, a single number μᵢ for its whole trade-off curve.
Gaussian noise is, exactly. A pure ε-DP step is, with μ = 2Φ⁻¹(e^ε/(1+e^ε)): its trade-off curve consists of the two
chords of that Gaussian's convex curve. Discrete Gaussian noise and subsampled noise are not, and are refused here; so
are zCDP and Rényi descriptions. An (ε, δ) step is that pure step, or with probability δ no protection at all; those δ
add up in the reserve.

The account holds the largest μ with Φ(μ/2-ε/μ) - e^ε·Φ(-μ/2-ε/μ) ≤ δ - reserve, rounded down. For Gaussian noise
alone this is exact: the filter admits what exact composition admits, and the analyst pays nothing for adaptivity.

>>> account = GDPFilter.open(epsilon=1, delta="1e-6", reserve=0)
>>> round(float(account.limit), 6)
0.056029

**The filter of sums: Σε and Σδ.**

**Theorem** (Rogers, Roth, Ullman, Vadhan 2016; for fixed parameters Dwork et al. 2006). Let an analyst choose each
mechanism, with its (εᵢ, δᵢ), after seeing all earlier outputs, and stop before Σεᵢ > ε or Σδᵢ > δ. Then the whole
interaction is (ε, δ)-DP. *Hypothesis*: given any outputs so far, step i is (εᵢ, δᵢ)-DP, its randomness fresh; (εᵢ,
δᵢ) is a function of those outputs alone. *Proof.* Such a step is a post-processing of: with probability δᵢ reveal
everything, else randomized response with εᵢ (Kairouz, Oh, Viswanath 2015). The chance of a reveal is at most E Σδᵢ ≤
δ; without one the loss of the transcript is at most Σεᵢ ≤ ε. ∎

For pure steps no filter does better when the losses may all point the same way; for many small steps the Rényi filter
admits far more.

>>> from hush.accounting.events import ApproximateDPEvent
>>> account = PureFilter.open(epsilon=1)
>>> tenth = account.price(ApproximateDPEvent(epsilon="0.1", delta=0))
>>> for _ in range(10):
...     account = account.admit(tenth)
>>> account.remaining().epsilon
Fraction(0, 1)
>>> account.admit(tenth)
Traceback (most recent call last):
...
hush.core.errors.BudgetExceededError: takes 10% of the budget, but 0% is left; lower epsilon, or ask the owner for more
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

from hush.accounting.events import Event
from hush.accounting.events.base import read_order
from hush.accounting.filters.base import Filter
from hush.accounting.prices import gdp_price, pure_price, renyi_price, zcdp_price
from hush.accounting.theorems.conversions import best_order, conversion_cost, float_cost
from hush.accounting.theorems.gaussian import largest_mu
from hush.core import HushError, InvalidValueError, Number, fraction_between, nonnegative, positive, probability
from hush.core.balls import ball, fraction_down
from hush.core.rounding import certified, float_down
from hush.core.values import assign

RESERVE = Fraction(1, 4)
"""The part of δ kept for the masses of approximate steps unless the account says otherwise.

It costs about ln(4/3)/(α-1) of ε, one per cent at (1, 1e-6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReservingFilter(Filter):
    """An (ε, δ) budget of which a part of δ is kept for the masses of approximate steps."""

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number, reserve: Number | None = None) -> Self:
        """Open an account of (ε, δ); ``reserve`` of δ is kept for the masses of approximate steps (a quarter)."""
        exact_delta = fraction_between(delta, "delta")
        set_aside = exact_delta * RESERVE if reserve is None else probability(reserve, "reserve")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=exact_delta, reserve=set_aside)

    def _check(self) -> None:
        if not self.reserve < self.delta < 1:
            raise InvalidValueError("reserve", got=self.reserve, allowed="below delta, and delta below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiFilter(_ReservingFilter):
    """Adds up Rényi divergences at one fixed order: the default for an (ε, δ) budget."""

    kind: ClassVar[str] = "renyi"
    takes_gaussian: ClassVar[bool] = True

    alpha: Fraction
    """The order, fixed for the life of the account."""

    @classmethod
    def open(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        alpha: Number | None = None,
        reserve: Number | None = None,
        expected: Iterable[Event] | None = None,
    ) -> Self:
        """Open an account of (ε, δ).

        ``expected`` is the mix of events that the account is likely to see; the order and the reserve are then chosen
        so that the mix can be repeated most often. Without it the order is the best for Gaussian-like steps, whose
        divergence is proportional to α, as that of every small step is. Both choices affect how much fits, never what
        is promised.
        """
        budget, exact_delta = positive(epsilon, "epsilon"), fraction_between(delta, "delta")
        mix = None if expected is None else list(expected)
        if mix is not None and not (mix and all(isinstance(event, Event) for event in mix)):
            raise InvalidValueError("expected", got=mix, allowed="at least one event, and events only")
        if reserve is not None:
            set_aside = probability(reserve, "reserve")
        elif mix:
            set_aside = None
        else:
            set_aside = exact_delta * RESERVE
        if alpha is not None:
            fixed = read_order(alpha)
            set_aside = set_aside if set_aside is not None else _balanced(budget, exact_delta, fixed, mix or [])
            return cls(epsilon=budget, delta=exact_delta, reserve=set_aside, alpha=fixed)
        if set_aside is not None and set_aside >= exact_delta:
            raise InvalidValueError("reserve", got=reserve, allowed="below delta: the conversion needs the rest")
        fixed, set_aside = _choose(budget, exact_delta, set_aside, mix)
        return cls(epsilon=budget, delta=exact_delta, reserve=set_aside, alpha=fixed)

    def _check(self) -> None:
        assign(self, alpha=read_order(self.alpha))
        super(RenyiFilter, self)._check()
        if self.limit <= 0:
            raise InvalidValueError(
                "alpha",
                got=self.alpha,
                allowed=f"an order at which something fits into epsilon {self.epsilon} and delta {self.delta}",
                hint="Leave the order to hush, or open a pure account.",
            )

    @property
    def currency(self) -> str:
        """Divergence at this account's order."""
        return f"renyi:{self.alpha}"

    @property
    def limit(self) -> Fraction:
        """Γ, rounded down."""
        return _largest_divergence(self.epsilon, self.delta - self.reserve, self.alpha)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return renyi_price(event, self.alpha)


@lru_cache(maxsize=4096)
def _largest_divergence(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> Fraction:
    """Return the largest float below ε minus the cost of the conversion."""
    # Rounded down twice: from the ball, and to a float, so that the limit is short. A smaller limit only refuses more.
    room = certified(lambda: ball(epsilon) - conversion_cost(alpha, delta), bits=32)
    return Fraction(float_down(fraction_down(room)))


def _choose(
    epsilon: Fraction, delta: Fraction, reserve: Fraction | None, mix: list[Event] | None
) -> tuple[Fraction, Fraction]:
    """Return the order and the reserve under which most fits. Floats: they decide how much, not whether it is safe."""
    if not mix:
        set_aside = reserve if reserve is not None else delta * RESERVE

        def fewest(alpha: float) -> float:
            return (float_cost(alpha, delta - set_aside) - float(epsilon)) / alpha

        return best_order(fewest, highest=1e15, digits=4), set_aside

    def repeats(alpha: float) -> float:
        order = Fraction(alpha)
        set_aside = reserve if reserve is not None else _balanced(epsilon, delta, order, mix)
        loss, mass = _mix(mix, order)
        room = float(epsilon) - float_cost(alpha, delta - set_aside)
        return -min(room / loss if loss else math.inf, float(set_aside) / mass if mass else math.inf)

    # Something fits from about α-1 = ln(1/δ)/ε on, and a hundred times that is as good as a sum of ε.
    scale = (math.log(delta.denominator) - math.log(delta.numerator)) / float(epsilon)
    alpha = best_order(repeats, lowest=scale / 4, highest=100 * scale, digits=4, grid=24, rounds=16)
    if repeats(float(alpha)) >= 0:
        raise InvalidValueError("expected", got=mix, allowed="events that have a Rényi divergence at a useful order")
    return alpha, reserve if reserve is not None else _balanced(epsilon, delta, alpha, mix)


def _mix(mix: list[Event], alpha: Fraction) -> tuple[float, float]:
    """Return the loss and the mass of the mix in floats; infinite where it has no divergence of this order."""
    try:
        prices = [renyi_price(event, alpha) for event in mix]
    except HushError:
        return math.inf, 0.0
    return float(sum(loss for loss, _ in prices)), float(sum(mass for _, mass in prices))


def _balanced(epsilon: Fraction, delta: Fraction, alpha: Fraction, mix: list[Event]) -> Fraction:
    """Return the reserve at which the mix exhausts losses and masses together, to two digits of δ."""
    loss, mass = _mix(mix, alpha)
    if mass == 0:
        return Fraction(0)
    low, high = 0, 1024
    while high - low > 1:
        middle = (low + high) // 2
        set_aside = delta * middle / 1024
        room = float(epsilon) - float_cost(float(alpha), delta - set_aside)
        # More reserve admits more masses and fewer losses: the two counts cross once.
        low, high = (middle, high) if float(set_aside) / mass < room / loss else (low, middle)
    return delta * high / 1024 if high < 1024 else delta * low / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ZCDPFilter(_ReservingFilter):
    """Adds up ρ, and the masses of approximate steps."""

    kind: ClassVar[str] = "zcdp"
    takes_gaussian: ClassVar[bool] = True

    def _check(self) -> None:
        super(ZCDPFilter, self)._check()
        if self.limit <= 0:
            raise InvalidValueError("epsilon", got=self.epsilon, allowed="large enough that something fits")

    @property
    def limit(self) -> Fraction:
        """The largest ρ that is (ε, δ - reserve)-DP, rounded down."""
        return _largest_rho(self.epsilon, self.delta - self.reserve)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return zcdp_price(event)


@lru_cache(maxsize=4096)
def _largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    alpha = best_order(lambda order: (float_cost(order, delta) - float(epsilon)) / order, highest=1e15)
    # Any order gives a valid ρ, so the float search for it needs no error bound. Rounded down, as above.
    room = certified(lambda: (ball(epsilon) - conversion_cost(alpha, delta)) / ball(alpha), bits=32)
    return Fraction(float_down(fraction_down(room)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GDPFilter(_ReservingFilter):
    """Adds up μ², exactly for Gaussian noise."""

    kind: ClassVar[str] = "gdp"
    takes_gaussian: ClassVar[bool] = False

    @property
    def limit(self) -> Fraction:
        """The largest μ², rounded down."""
        return _largest_mu_squared(self.epsilon, self.delta - self.reserve)

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return gdp_price(event)


@lru_cache(maxsize=4096)
def _largest_mu_squared(epsilon: Fraction, delta: Fraction) -> Fraction:
    return largest_mu(epsilon=epsilon, delta=delta) ** 2  # largest_mu is rounded down, and so is its square


@dataclass(frozen=True, slots=True, kw_only=True)
class PureFilter(Filter):
    """Adds up ε, and the δ of approximate steps, in exact rationals."""

    kind: ClassVar[str] = "pure"
    takes_gaussian: ClassVar[bool] = False

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number = 0) -> PureFilter:
        """Open an account of (ε, δ); with δ = 0 only pure steps fit."""
        exact_delta = probability(delta, "delta")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=exact_delta, reserve=exact_delta)

    def _check(self) -> None:
        if self.epsilon == 0 and self.delta == 0:
            raise InvalidValueError("epsilon", got=0, allowed="positive where delta is zero", hint="Nothing would fit.")
        if not self.reserve <= self.delta < 1:
            raise InvalidValueError("delta", got=self.delta, allowed="below 1, and no less than the reserve")

    @property
    def limit(self) -> Fraction:
        """The budget's ε."""
        return self.epsilon

    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        return pure_price(event)

    def _at_most(self, loss: Fraction) -> Fraction:
        return loss  # a pure step's loss is its ε: exact, nothing to search for

    def _at_least(self, loss: Fraction) -> Fraction:
        return loss
