"""Live budgets for analysts who choose every next step after seeing the last answer: the machine, and four filters.

Each filter states its theorem and its hypotheses. There is deliberately no filter over privacy-loss distributions or
trade-off functions: composing exact curves along every path and stopping before the budget is crossed is *not*
private when the analyst chooses the mechanisms as the answers come in (arXiv 2602.06756, 2602.15815). With randomized
response of ε = 0.1, and then, by its answer, either Laplace noise or a step that reveals all with probability δ,
every path stays within (1, 1e-6) and the true δ is 1.475e-6. Steps that are declared in advance are another matter:
see :class:`hush.accounting.Plan`.

**The machine: a limit in an additive currency, the sums spent, and a price for each event.**

A *privacy filter* (Rogers, Roth, Ullman, Vadhan 2016) watches an analyst who may choose every next mechanism after
seeing all earlier answers, and refuses a step when the budget could break. The four filters of hush share one
machine. Each event has a *loss* in the filter's currency and a δ *mass* (the probability that its loss is
infinite); the filter admits a step exactly when

    (Σ losses ≤ limit   or   Σ ε ≤ ε of the budget)    and    Σ masses ≤ reserve,

all in exact rationals; the ε of a step is its largest finite loss, infinite for Gaussian noise. Prices are exact or
rounded up, limits rounded down, so a decision errs only towards refusal. The reserve is fixed when the account is
opened. It must be: letting the analyst decide afterwards how much of δ serves the conversion of the losses and how
much the masses would be the very adaptivity that breaks privacy-loss filters, one branch spending δ where the loss
came out low, and another spending loss where it came out high.

**Why "or" is sound.** Losses, ε and masses never shrink, so where the analyst stops, the path as a whole either
kept Σ losses ≤ limit throughout, or kept Σ ε ≤ ε throughout. Write L for the loss of the transcript and δ(ε) ≤ P(L
= ∞) + E[(1-e^{ε-L})₊; L < ∞]. P(L = ∞) is at most the reserve on either kind of path. A path of the second kind has
L ≤ Σ ε ≤ ε or L = ∞, so it adds nothing to the other term. The paths of the first kind are just those on which the
same analyst, stopped before the losses exceed the limit, is never stopped; they have the same probabilities and
losses there, so they add no more than that analyst's total, which the filter's own theorem bounds by δ - reserve.
(This holds for one theorem beside the sum: a third alternative with a δ of its own would need a share of δ.) So a
few large pure steps are charged by their sum, and many small ones by their divergence, in one account.

A filter is a value: :meth:`Filter.admit` returns the next state and changes nothing.

**The four filters, named after the figure that adds up: ε, a Rényi divergence, ρ or μ².**

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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

from hush.accounting.description import read_order
from hush.accounting.events import ApproximateDPEvent, Event
from hush.accounting.prices import (
    best_order,
    conversion_cost,
    float_cost,
    gdp_price,
    largest_mu,
    pure_loss,
    pure_price,
    renyi_price,
    zcdp_price,
)
from hush.core import (
    BudgetExceededError,
    HushError,
    InvalidValueError,
    Number,
    PrecisionError,
    exact,
    fraction_between,
    nonnegative,
    positive,
    probability,
)
from hush.core.format import figure, percent
from hush.core.numbers import assign
from hush.core.rounding import (
    ball,
    certified,
    decimal_unit,
    falling_root,
    float_down,
    fraction_down,
    largest_decimal,
    short_down,
    smallest_decimal,
)

_MAX_DENOMINATOR_BITS = 2048
"""The length of a sum's denominator in bits, above which the sum is rounded up."""
PARTS = 100_000
"""The number of equal parts in which shares of a budget are counted: a part is 0.001 %."""
RESERVE = Fraction(1, 4)
"""The part of δ kept for the masses of approximate steps unless the account says otherwise.

It costs about ln(4/3)/(α-1) of ε, one per cent at (1, 1e-6)."""
_INFINITE = "infinite"
_REPORTED_DIGITS = 6
"""Significant digits of an ε in reports and messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A price in a filter's currency. At least one of the two figures is positive: nothing is free.

    >>> Charge(currency="pure", loss="0.1")
    Charge(currency='pure', loss=Fraction(1, 10), delta=Fraction(0, 1), epsilon=None)
    """

    currency: str
    """The filter that set the price; no other filter takes it."""
    loss: Fraction
    """The amount that the charge adds to the sum of losses."""
    delta: Fraction = Fraction(0)
    """The amount that the charge adds to the sum of δ masses."""
    epsilon: Fraction | None = None
    """The amount that the charge adds to the sum of ε: its largest finite loss, None where it has no bound."""

    def __post_init__(self) -> None:
        if not isinstance(self.currency, str):
            raise InvalidValueError("currency", got=self.currency, allowed="the currency of a filter")
        assign(self, loss=nonnegative(self.loss, "loss"))
        if self.epsilon is not None:
            assign(self, epsilon=nonnegative(self.epsilon, "epsilon"))
        assign(self, delta=nonnegative(self.delta, "delta"))
        if self.loss == 0 and self.delta == 0:
            raise InvalidValueError("loss", got=0, allowed="positive where delta is zero", hint="No release is free.")

    def repeated(self, count: int) -> Self:
        """Return the price of ``count`` equal steps."""
        epsilon = None if self.epsilon is None else count * self.epsilon
        return replace(self, loss=count * self.loss, delta=count * self.delta, epsilon=epsilon)


class Amount(NamedTuple):
    """An amount of budget, spent or remaining, as ε, δ and a share of the limit.

    >>> from hush.accounting import PureFilter
    >>> PureFilter.open(epsilon=2).remaining().epsilon
    Fraction(2, 1)
    """

    epsilon: Fraction
    """The ε of a single pure step that costs this much."""
    delta: Fraction
    """The δ mass."""
    share: Fraction
    """The share of the budget, from 0 to 1 (`Filter.share_spent`); the shares spent and remaining add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(ABC):
    """An immutable account of an adaptive analyst's spending. A subclass defines the currency of losses.

    >>> from hush.accounting import LaplaceEvent, PureFilter
    >>> account = PureFilter.open(epsilon=1)
    >>> account.admit(account.price(LaplaceEvent(scale=4))).remaining().epsilon
    Fraction(3, 4)
    """

    epsilon: Fraction
    """The budget's ε."""
    delta: Fraction
    """The budget's δ."""
    reserve: Fraction
    """The part of δ set aside for the masses of events."""
    spent_loss: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)
    spent_epsilon: Fraction | None = Fraction(0)
    """The sum of ε; None once a step without a largest loss was admitted."""

    kind: ClassVar[str]
    takes_gaussian: ClassVar[bool]
    """Whether Gaussian noise on integers (`ZCDPEvent`) has a price here."""

    @classmethod
    def open(cls, *, epsilon: Number, delta: Number = 0, reserve: Number | None = None) -> Self:
        """Open an account of (ε, δ); ``reserve`` of δ is kept for the masses of approximate steps (a quarter)."""
        exact_delta = fraction_between(delta, "delta")
        set_aside = exact_delta * RESERVE if reserve is None else probability(reserve, "reserve")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=exact_delta, reserve=set_aside)

    def __post_init__(self) -> None:
        for name in ("epsilon", "spent_loss", "spent_delta", "spent_epsilon"):
            if getattr(self, name) is not None:
                assign(self, **{name: nonnegative(getattr(self, name), name)})
        assign(self, delta=probability(self.delta, "delta"), reserve=probability(self.reserve, "reserve"))
        self._check()

    def _check(self) -> None:
        """Refuse a budget that this kind of filter cannot hold."""
        if not self.reserve < self.delta < 1:
            raise InvalidValueError("reserve", got=self.reserve, allowed="below delta, and delta below 1")
        if self.limit <= 0:
            raise InvalidValueError("epsilon", got=self.epsilon, allowed="large enough that something fits")

    @property
    @abstractmethod
    def limit(self) -> Fraction:
        """The largest sum of losses that is admitted; rounded down."""

    @property
    def currency(self) -> str:
        """The currency of losses; a charge in another currency is refused."""
        return self.kind

    @abstractmethod
    def _loss(self, event: Event) -> tuple[Fraction, Fraction]:
        """Return the event's loss and mass, exact or rounded up."""

    def price(self, event: Event) -> Charge:
        """Return the price of the event in this account; it depends on the event and the opening terms alone."""
        if not isinstance(event, Event):
            raise InvalidValueError("event", got=event, allowed="an event that says which mechanism runs")
        try:
            loss, mass = self._loss(event)
            epsilon = pure_loss(event.description())
        except HushError:
            raise
        except (ArithmeticError, ValueError) as error:  # figures that no float holds, such as a scale of 1e-4000
            raise PrecisionError(
                f"The price of a {event.type} event is beyond all figures; use moderate ones."
            ) from error
        return Charge(currency=self.currency, loss=loss, delta=mass, epsilon=epsilon)

    def fits(self, charge: Charge) -> bool:
        """Return whether the budget admits the charge."""
        if not isinstance(charge, Charge) or charge.currency != self.currency:
            raise InvalidValueError("charge", got=charge, allowed=f"a charge priced in {self.currency!r}")
        after = self.spend(charge)  # sums are compared as they will be stored
        return after.losses_within and after.spent_delta <= after.reserve

    @property
    def losses_within(self) -> bool:
        """Whether the sum of losses or the sum of ε is within its limit: the module's docstring proves the "or"."""
        by_sum = self.spent_epsilon is not None and self.spent_epsilon <= self.epsilon
        return by_sum or self.spent_loss <= self.limit

    def admit(self, step: Event | Charge, *, owner: str = "the budget") -> Self:
        """Return the account after this step, or raise :class:`~hush.core.BudgetExceededError`.

        ``owner`` names the budget in the message: "alice's".
        """
        charge = step if isinstance(step, Charge) else self.price(step)
        if not self.fits(charge):
            raise BudgetExceededError(self.refusal(charge, owner))
        return self.spend(charge)

    def spend(self, charge: Charge) -> Self:
        """Return the account with this charge added, whether or not it fits."""
        summed = plus(self.spent_epsilon, charge.epsilon)
        return replace(
            self,
            spent_loss=bounded(self.spent_loss + charge.loss),
            spent_delta=bounded(self.spent_delta + charge.delta),
            spent_epsilon=None if summed is None else bounded(summed),
        )

    def raised(
        self, *, epsilon: Number | None = None, delta: Number | None = None, reserve: Number | None = None
    ) -> Self:
        """Return the account with a larger budget; its spending and its Rényi order stay unchanged.

        Nothing may shrink: neither ε, nor the reserve, nor the rest of δ. To move δ from one to the other would let the
        answers so far decide what δ is spent on. The promise is then the largest budget, part by part, that the owner
        would have granted on any course of the answers; so an owner should not raise it in the light of them.
        """
        larger = self.epsilon if epsilon is None else nonnegative(epsilon, "epsilon")
        larger_delta = self.delta if delta is None else probability(delta, "delta")
        if reserve is not None:
            new_reserve = probability(reserve, "reserve")
        elif self.delta:  # the increase is split in the same proportion as before
            new_reserve = self.reserve + (larger_delta - self.delta) * self.reserve / self.delta
        else:
            new_reserve = larger_delta
        if (
            larger < self.epsilon
            or new_reserve < self.reserve
            or larger_delta - new_reserve < self.delta - self.reserve
        ):
            raise InvalidValueError(
                "epsilon" if larger < self.epsilon else "delta",
                got=larger if larger < self.epsilon else larger_delta,
                allowed="no part of it less than before",
                hint="A budget can be raised; what has been spent cannot be unspent.",
            )
        return replace(self, epsilon=larger, delta=larger_delta, reserve=new_reserve)

    @property
    def spent(self) -> Amount:
        """The amount spent, rounded up: the sum of ε if its share is smaller, else the ε of a pure step of equal loss.

        A report, not a guarantee. The guarantee is the budget itself, at any moment the analyst stops. A running
        total is no guarantee at a moment that the analyst chooses.
        """
        epsilon, by_loss = self.spent_epsilon, _part(self.spent_loss, self.limit)
        if epsilon is None or _part(epsilon, self.epsilon) > by_loss:
            epsilon = self._pure_step(self.spent_loss, at_least=True)
        return Amount(epsilon=epsilon, delta=self.spent_delta, share=self.share_spent)

    def remaining(self) -> Amount:
        """Return the remaining amount: its ε is the largest, exact or to six digits, of one further pure step.

        Certified: a pure step of ``remaining().epsilon`` is admitted unless that is zero. Many small steps may add up
        to more, because small losses compose better than they add.
        """
        free_loss = max(self.limit - self.spent_loss, Fraction(0))
        epsilon = Fraction(0) if self.spent_epsilon is None else max(self.epsilon - self.spent_epsilon, Fraction(0))
        if free_loss > 0:
            # Only if the next decimal of six digits above the sum's ε fits by its loss is there a larger one.
            unit = decimal_unit(epsilon, digits=_REPORTED_DIGITS) if epsilon else None
            if unit is None or self._pure((epsilon // unit + 1) * unit) <= free_loss:
                epsilon = max(epsilon, self._pure_step(free_loss, at_least=False))
        return Amount(
            epsilon=epsilon,
            delta=max(self.reserve - self.spent_delta, Fraction(0)),
            share=1 - self.share_spent,
        )

    @property
    def share_spent(self) -> Fraction:
        """The share of the budget that was spent, at most 1: the one scale on which people see a budget."""
        return min(self.share_used, Fraction(1))

    @property
    def share_used(self) -> Fraction:
        """The share of the budget that was spent, rounded up to a whole number of `PARTS`; above 1 if overspent.

        It is the smaller of Σ losses/limit and Σ ε/ε, or Σ masses/reserve if that is larger: a step needs room for the
        masses, and in one of the two sums. Each of the three only grows, and so does the share. A step *takes* the
        share after it less the share before it, so the shares that steps took add up to the share spent, exactly.
        """
        share = _part(self.spent_loss, self.limit)
        if self.spent_epsilon is not None:
            share = min(share, _part(self.spent_epsilon, self.epsilon))
        return Fraction(math.ceil(max(share, _part(self.spent_delta, self.reserve)) * PARTS), PARTS)

    def _pure(self, epsilon: Fraction) -> Fraction:
        """Return the loss of a pure step."""
        return self._loss(ApproximateDPEvent(epsilon=epsilon, delta=0))[0]

    def _pure_step(self, loss: Fraction, *, at_least: bool) -> Fraction:
        """Return the least ε of six digits at which a pure step costs ``loss`` or more, or the largest at most that."""
        if loss <= 0:
            return loss
        near = None
        # The loss of a small pure step is proportional to ε², so its root is nearly a line. An exact search starts from
        # there, and does not rely on it.
        with suppress(ArithmeticError, ValueError, HushError):
            goal = math.sqrt(loss)
            missing = falling_root(
                lambda epsilon: goal - math.sqrt(self._pure(Fraction(epsilon))), goal, slope=1.0, tolerance=1e-7 * goal
            )
            near = Fraction(missing[0])
        if at_least:
            return smallest_decimal(lambda epsilon: self._pure(epsilon) >= loss, digits=_REPORTED_DIGITS, near=near)
        return largest_decimal(lambda epsilon: self._pure(epsilon) <= loss, digits=_REPORTED_DIGITS, near=near)

    def refusal(self, charge: Charge, owner: str) -> str:
        """Return the message of a refusal: the share that is needed, the share that is left, and the next step."""
        whose = owner if owner == "the budget" else f"{owner}'s budget"
        after = self.spend(charge)
        takes = percent(after.share_used - self.share_used)
        left = f"takes {takes} of {whose}, but {percent(1 - self.share_spent)} is left"
        if after.losses_within:
            if not charge.delta:
                return _overspent(whose, "δ", self.reserve)
            lower = "lower delta, " if self.spent_delta < self.reserve else ""
            return (
                f"{left}, because choosing private keys needs δ={figure(charge.delta)}; "
                f"{lower}group by keys that have a public list, or ask the owner for more"
            )
        if not (charge.epsilon or charge.loss):  # only under a budget that was lowered below what it had spent
            return _overspent(whose, "ε", self.epsilon)
        # Gaussian noise has no ε of its own that could be compared with the largest pure step.
        largest = Fraction(0) if charge.epsilon is None else self.remaining().epsilon
        fits = f"; a price of at most ε={figure(short_down(largest, digits=_REPORTED_DIGITS))} fits" if largest else ""
        return f"{left}{fits}; lower epsilon, or ask the owner for more"

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON values, every number exact."""
        state: dict[str, Any] = {"version": 1, "kind": self.kind}
        for field in fields(self):
            amount = getattr(self, field.name)
            state[field.name] = _INFINITE if amount is None else str(amount)
        return state

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the filter from the state that :meth:`to_json` wrote; refuse anything else.

        The limit is not read but computed afresh from the budget, so an edited state cannot raise it.
        """
        if not isinstance(data, Mapping) or data.get("kind") != cls.kind or data.get("version") != 1:
            raise InvalidValueError("state", got=data, allowed=f"a {cls.kind!r} filter's state of version 1")
        texts, figures = dict(data), dict[str, Any]()
        del texts["kind"], texts["version"]
        for field in fields(cls):
            text = texts.pop(field.name, None)
            infinite = text == _INFINITE and field.name == "spent_epsilon"
            if not isinstance(text, str):
                raise InvalidValueError("state", got=data, allowed=f"exact numbers as text, {field.name} among them")
            figures[field.name] = None if infinite else exact(text, field.name)
        if texts:
            raise InvalidValueError("state", got=data, allowed=f"without {', '.join(map(str, texts))}")
        return cls(**figures)


def _overspent(owner: str, symbol: str, total: Fraction) -> str:
    return f"more than the {symbol}={figure(total)} of {owner} has been spent already; ask the owner for more"


def plus(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    """Return the sum of two figures; None stands for infinity."""
    return None if first is None or second is None else first + second


def _part(spent: Fraction, limit: Fraction) -> Fraction:
    return spent / limit if limit else Fraction(spent > 0)


def bounded(total: Fraction) -> Fraction:
    """Return a sum, rounded up to denominator 2²⁰⁴⁸ if its own is larger: no choice of prices makes the state large."""
    if total.denominator.bit_length() <= _MAX_DENOMINATOR_BITS:
        return total
    # -(-n // d) is ⌈n/d⌉: spending is rounded up, so an account never admits more than its exact sum would.
    return Fraction(-(-(total.numerator << _MAX_DENOMINATOR_BITS) // total.denominator), 1 << _MAX_DENOMINATOR_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenyiFilter(Filter):
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
        delta: Number = 0,
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
        mix = [] if expected is None else list(expected)
        if expected is not None and not (mix and all(isinstance(event, Event) for event in mix)):
            raise InvalidValueError("expected", got=mix, allowed="at least one event, and events only")
        set_aside = None if reserve is None else probability(reserve, "reserve")
        if set_aside is None and not mix:
            set_aside = exact_delta * RESERVE
        if set_aside is not None and set_aside >= exact_delta:
            raise InvalidValueError("reserve", got=reserve, allowed="below delta: the conversion needs the rest")
        order = _useful_order(budget, exact_delta, set_aside, mix) if alpha is None else read_order(alpha)
        if set_aside is None:
            set_aside = _balanced(budget, exact_delta, order, mix)
        return cls(epsilon=budget, delta=exact_delta, reserve=set_aside, alpha=order)

    def _check(self) -> None:
        assign(self, alpha=read_order(self.alpha))
        if self.reserve < self.delta < 1 and self.limit <= 0:
            raise InvalidValueError(
                "alpha",
                got=self.alpha,
                allowed=f"an order at which something fits into epsilon {self.epsilon} and delta {self.delta}",
                hint="Leave the order to hush, or open a pure account.",
            )
        super(RenyiFilter, self)._check()

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
    room = certified(lambda: ball(epsilon) - conversion_cost(alpha, ball(delta).log()), bits=32)
    return Fraction(float_down(fraction_down(room)))


def _useful_order(epsilon: Fraction, delta: Fraction, reserve: Fraction | None, mix: list[Event]) -> Fraction:
    """Return the order under which most fits. Floats: they decide how much, not whether it is safe."""
    if reserve is not None and not mix:
        conversion_delta = delta - reserve
        return best_order(
            lambda alpha: (float_cost(alpha, conversion_delta) - float(epsilon)) / alpha, highest=1e15, digits=4
        )

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
    return alpha


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
class ZCDPFilter(Filter):
    """Adds up ρ, and the masses of approximate steps."""

    kind: ClassVar[str] = "zcdp"
    takes_gaussian: ClassVar[bool] = True

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
    room = certified(lambda: (ball(epsilon) - conversion_cost(alpha, ball(delta).log())) / ball(alpha), bits=32)
    return Fraction(float_down(fraction_down(room)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GDPFilter(Filter):
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
    def open(cls, *, epsilon: Number, delta: Number = 0, reserve: Number | None = None) -> Self:
        """Open an account of (ε, δ); with δ = 0 only pure steps fit. All of δ serves the masses."""
        exact_delta = probability(delta, "delta")
        set_aside = exact_delta if reserve is None else probability(reserve, "reserve")
        return cls(epsilon=nonnegative(epsilon, "epsilon"), delta=exact_delta, reserve=set_aside)

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

    def _pure_step(self, loss: Fraction, *, at_least: bool) -> Fraction:  # noqa: ARG002 - neither more nor less
        return loss  # a pure step's loss is its ε: exact, nothing to search for


_KINDS: Mapping[str, type[Filter]] = {"pure": PureFilter, "renyi": RenyiFilter, "zcdp": ZCDPFilter, "gdp": GDPFilter}


def filter_from_json(data: object) -> Filter:
    """Return the filter of any kind from its JSON state; refuse anything else.

    >>> account = PureFilter.open(epsilon=1)
    >>> filter_from_json(account.to_json()) == account
    True
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidValueError("state", got=data, allowed=f"the state of a filter: {', '.join(_KINDS)}")
    return _KINDS[kind].from_json(data)
