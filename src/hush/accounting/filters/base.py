"""The base class of filters: a limit in an additive currency, the sums spent, and a price for each event.

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
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from hush.accounting.errors import DescriptionError
from hush.accounting.events import ApproximateDPEvent, Event
from hush.accounting.prices import pure_price
from hush.core import (
    BudgetExceededError,
    HushError,
    InvalidValueError,
    Number,
    PrecisionError,
    exact,
    nonnegative,
    probability,
)
from hush.core.format import figure, percent
from hush.core.rounding import decimal_unit, largest_decimal, short_down, smallest_decimal
from hush.core.values import assign

_MAX_DENOMINATOR_BITS = 2048
"""The length of a sum's denominator in bits, above which the sum is rounded up."""
PARTS = 100_000
"""The number of equal parts in which shares of a budget are counted: a part is 0.001 %."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
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

    def __post_init__(self) -> None:
        if self.spent_epsilon is not None:
            assign(self, spent_epsilon=nonnegative(self.spent_epsilon, "spent_epsilon"))
        for name in ("epsilon", "spent_loss", "spent_delta"):
            object.__setattr__(self, name, nonnegative(getattr(self, name), name))
        assign(self, delta=probability(self.delta, "delta"), reserve=probability(self.reserve, "reserve"))
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Refuse a budget that this kind of filter cannot hold."""

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
            try:
                epsilon: Fraction | None = pure_price(event)[0]
            except DescriptionError:
                epsilon = None
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
        return self._losses_fit(charge) and bounded(self.spent_delta + charge.delta) <= self.reserve

    def _losses_fit(self, charge: Charge) -> bool:
        """Return whether the sum of losses or the sum of ε, rounded as it is stored, stays within its limit."""
        # Either theorem suffices; the module's docstring proves the "or". Sums are compared as they will be stored.
        summed = plus(self.spent_epsilon, charge.epsilon)
        by_sum = summed is not None and bounded(summed) <= self.epsilon
        return by_sum or bounded(self.spent_loss + charge.loss) <= self.limit

    def admit(self, step: Event | Charge, *, owner: str = "the budget") -> Self:
        """Return the account after this step, or raise :class:`~hush.core.BudgetExceededError`.

        ``owner`` names the budget in the message: "alice's".
        """
        charge = step if isinstance(step, Charge) else self.price(step)
        if not self.fits(charge):
            raise BudgetExceededError(self._refusal(charge, owner))
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
        new_reserve = self._new_reserve(larger_delta) if reserve is None else probability(reserve, "reserve")
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

    def _new_reserve(self, delta: Fraction) -> Fraction:
        """Return the reserve for a larger δ: the increase is split in the same proportion as before."""
        return self.reserve + (delta - self.delta) * self.reserve / self.delta if self.delta else delta

    @property
    def spent(self) -> Amount:
        """The amount spent, rounded up: the sum of ε if its share is smaller, else the ε of a pure step of equal loss.

        A report, not a guarantee. The guarantee is the budget itself, at any moment the analyst stops. A running
        total is no guarantee at a moment that the analyst chooses.
        """
        by_sum = self._sum_share <= self._loss_share and self.spent_epsilon is not None
        epsilon = self.spent_epsilon if by_sum else self._at_least(self.spent_loss)
        return Amount(epsilon=epsilon or Fraction(0), delta=self.spent_delta, share=self.share_spent)

    def remaining(self) -> Amount:
        """Return the remaining amount: its ε is the largest, exact or to six digits, of one further pure step.

        Certified: a pure step of ``remaining().epsilon`` is admitted unless that is zero. Many small steps may add up
        to more, because small losses compose better than they add.
        """
        free_loss = max(self.limit - self.spent_loss, Fraction(0))
        epsilon = Fraction(0) if self.spent_epsilon is None else max(self.epsilon - self.spent_epsilon, Fraction(0))
        # Only if the next decimal above the sum's ε fits by its loss can the search find a larger one.
        if free_loss > 0 and (not epsilon or self._pure(_next(epsilon)) <= free_loss):
            epsilon = max(epsilon, self._at_most(free_loss))
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
        losses = self._loss_share if self.spent_epsilon is None else min(self._loss_share, self._sum_share)
        share = max(losses, _part(self.spent_delta, self.reserve))
        return Fraction(math.ceil(share * PARTS), PARTS)

    @property
    def _loss_share(self) -> Fraction:
        return _part(self.spent_loss, self.limit)

    @property
    def _sum_share(self) -> Fraction:
        return Fraction(1) if self.spent_epsilon is None else _part(self.spent_epsilon, self.epsilon)

    def _pure(self, epsilon: Fraction) -> Fraction:
        """Return the loss of a pure step."""
        return self._loss(ApproximateDPEvent(epsilon=epsilon, delta=0))[0]

    def _at_most(self, loss: Fraction) -> Fraction:
        """Return the largest ε of six digits at which a pure step costs at most ``loss``."""
        if loss <= 0:
            return loss
        return largest_decimal(
            lambda epsilon: self._pure(epsilon) <= loss, digits=_REPORTED_DIGITS, near=self._near(loss)
        )

    def _at_least(self, loss: Fraction) -> Fraction:
        """Return the smallest ε of six digits at which a pure step costs ``loss`` or more."""
        if loss <= 0:
            return loss
        return smallest_decimal(
            lambda epsilon: self._pure(epsilon) >= loss, digits=_REPORTED_DIGITS, near=self._near(loss)
        )

    def _near(self, loss: Fraction) -> Fraction | None:
        """Return an estimate of the ε at which a pure step costs ``loss``; None if the search fails.

        Secants of ln loss over ln ε. A starting point for an exact search, which does not rely on it.
        """
        try:
            # The loss of a small pure step is proportional to ε², so the first slope of ln loss over ln ε is 2.
            goal, log_epsilon, slope = math.log(loss), 0.0, 2.0
            miss = math.log(self._pure(Fraction(1))) - goal
            for _ in range(8):
                step = -miss / slope
                log_epsilon += step
                before, miss = miss, math.log(self._pure(Fraction(math.exp(log_epsilon)))) - goal
                if abs(miss) < 1e-7:
                    break
                slope = (miss - before) / step
            return Fraction(math.exp(log_epsilon - miss / slope))
        except (ArithmeticError, ValueError, HushError):
            return None

    def _refusal(self, charge: Charge, owner: str) -> str:
        """Return the message of a refusal: the share that is needed, the share that is left, and the next step."""
        whose = owner if owner == "the budget" else f"{owner}'s budget"
        takes = percent(self.spend(charge).share_used - self.share_used)
        left = f"takes {takes} of {whose}, but {percent(1 - self.share_spent)} is left"
        if self._losses_fit(charge):
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
        figures = {name: getattr(self, name) for name in self._fields()}
        texts = {name: _INFINITE if figure is None else str(figure) for name, figure in figures.items()}
        return {"version": 1, "kind": self.kind, **texts}

    @classmethod
    def _fields(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the filter from the state that :meth:`to_json` wrote; refuse anything else.

        The limit is not read but computed afresh from the budget, so an edited state cannot raise it.
        """
        names = {"version", "kind", *cls._fields()}
        if not isinstance(data, Mapping) or data.get("kind") != cls.kind or data.get("version") != 1:
            raise InvalidValueError("state", got=data, allowed=f"a {cls.kind!r} filter's state of version 1")
        if set(data) != names or not all(isinstance(data[name], str) for name in cls._fields()):
            raise InvalidValueError("state", got=data, allowed=f"exact numbers as text for {', '.join(cls._fields())}")
        figures: dict[str, Any] = {
            name: None if name == "spent_epsilon" and data[name] == _INFINITE else exact(data[name], name)
            for name in cls._fields()
        }
        return cls(**figures)


def _overspent(owner: str, symbol: str, total: Fraction) -> str:
    return f"more than the {symbol}={figure(total)} of {owner} has been spent already; ask the owner for more"


def plus(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    """Return the sum of two figures; None stands for infinity."""
    return None if first is None or second is None else first + second


def _next(value: Fraction) -> Fraction:
    """Return the smallest decimal of six digits above a positive number."""
    unit = decimal_unit(value, digits=_REPORTED_DIGITS)
    return (value // unit + 1) * unit


def _part(spent: Fraction, limit: Fraction) -> Fraction:
    return spent / limit if limit else Fraction(spent > 0)


def bounded(total: Fraction) -> Fraction:
    """Return a sum, rounded up to denominator 2²⁰⁴⁸ if its own is larger: no choice of prices makes the state large."""
    if total.denominator.bit_length() <= _MAX_DENOMINATOR_BITS:
        return total
    # -(-n // d) is ⌈n/d⌉: spending is rounded up, so an account never admits more than its exact sum would.
    return Fraction(-(-(total.numerator << _MAX_DENOMINATOR_BITS) // total.denominator), 1 << _MAX_DENOMINATOR_BITS)
