"""The named theorems side by side, on the user's own list of mechanisms.

Theorems about (ε, δ) black boxes need an (ε, δ) for each step. Pure and approximate steps have one. Gaussian noise
has one for every δ, so it is given an equal share of half of what δ the others leave, as one would by hand; the
theorem keeps the other half. All rows are upper bounds at the same total δ.

>>> from hush.accounting.events import LaplaceEvent
>>> for row in compare([LaplaceEvent(scale=10)] * 100, delta="1e-6")[:2]:
...     print(row.theorem, round(row.epsilon, 4))
basic 10.0
advanced 6.3082
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hush.accounting import theorems
from hush.accounting.events import ComposedEvent, Event
from hush.accounting.guarantee import compose
from hush.accounting.prices import best_order, float_cost, gdp_price, mu_allowed, pure_price, renyi_price, zcdp_price
from hush.core import HushError, InvalidValueError, Number, fraction_between
from hush.core.chart import Chart, ChartAxis, ChartBar, bar_chart
from hush.core.errors import DescriptionError, members
from hush.core.rounding import float_up, largest_decimal, smallest_decimal

CERTIFIED = "certified"
"""The name of the last row: the accountant's own answer, exact wherever mechanisms have dominating pairs."""

Counted = tuple[Event, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One theorem's answer.

    >>> Row(theorem="basic", epsilon=10.0, note="the sum").theorem
    'basic'
    """

    theorem: str
    epsilon: float | None
    """An upper bound of ε at the δ asked for, rounded up; None where the theorem does not apply."""
    note: str
    """Its source, or why it does not apply."""


def compare(events: Iterable[Event], *, delta: Number) -> list[Row]:
    """Return ε at ``delta`` by every theorem that applies, from the oldest to the certified accountant's.

    >>> import hush
    >>> from hush.accounting import LaplaceEvent
    >>> row = hush.compare([LaplaceEvent(scale=10)] * 100, delta="1e-6")[0]
    >>> row.theorem, round(row.epsilon, 4)
    ('basic', 10.0)
    """
    exact_delta = fraction_between(delta, "delta")
    sources = members(events, "events", allowed="a list of events", of=Event)
    steps = list(_leaves(sources))
    if not steps:
        raise InvalidValueError("events", got=sources, allowed="at least one event")
    boxes = _boxes(steps, exact_delta)
    exactly = compose(sources).epsilon(exact_delta, strict=False)
    answers: list[tuple[str, str, Callable[[], float]]] = [
        ("basic", "sums of ε and δ", lambda: float_up(theorems.basic(boxes(1)).epsilon)),
        ("advanced", "Dwork, Rothblum, Vadhan 2010", lambda: theorems.advanced(boxes(2), delta=exact_delta)),
        (
            "advanced, improved",
            "Kairouz, Oh, Viswanath 2015, Theorem 3.5",
            lambda: theorems.advanced_improved(boxes(2), delta=exact_delta),
        ),
        (
            "optimal for black boxes",
            "Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016",
            lambda: theorems.optimal_heterogeneous(boxes(2), delta=exact_delta),
        ),
        ("zCDP, textbook", "Bun, Steinke 2016", lambda: _zcdp(steps, exact_delta, theorems.zcdp_to_epsilon_textbook)),
        ("zCDP", "Canonne, Kamath, Steinke 2020", lambda: _zcdp(steps, exact_delta, theorems.zcdp_to_epsilon)),
        (
            "Rényi, textbook",
            "Mironov 2017",
            lambda: _renyi(steps, exact_delta, exactly, _textbook_cost, theorems.renyi_to_epsilon_textbook),
        ),
        (
            "Rényi",
            "Canonne, Kamath, Steinke 2020",
            lambda: _renyi(steps, exact_delta, exactly, float_cost, theorems.renyi_to_epsilon),
        ),
        ("Gaussian DP", "Dong, Roth, Su 2022", lambda: _gdp(steps, exact_delta)),
    ]
    # A theorem that does not apply raises; its row then holds the reason.
    rows = [_row(name, note, answer) for name, note, answer in answers]
    return [*rows, Row(theorem=CERTIFIED, epsilon=exactly.upper, note=f"the accountant; at least {exactly.lower:.12g}")]


def comparison_chart(rows: Sequence[Row]) -> Chart:
    """Return a chart of the rows that apply, one bar each, in their order.

    >>> comparison_chart([Row(theorem="basic", epsilon=10.0, note=""), Row(theorem="certified", epsilon=4.69, note="")])
    <Chart: ...>
    """
    bounds = [(row.theorem, row.epsilon) for row in rows if row.epsilon is not None]
    values = [epsilon for _, epsilon in bounds if math.isfinite(epsilon)] or [1.0]
    # One hopeless bound must not squeeze the others into a corner: its bar ends at the edge, with an arrow.
    edge = min(max(values), 8 * values[-1]) or 1.0
    bars = [
        ChartBar(
            row=index,
            end=epsilon,
            classes="c1" if theorem == CERTIFIED else "c0",
            text=f"{epsilon:.4g}{' →' if epsilon > edge else ''}",
            tooltip=f"{theorem}: {epsilon:.6g}",
        )
        for index, (theorem, epsilon) in enumerate(bounds)
    ]
    axis = ChartAxis.between("ε (upper bound)", 0.0, edge)
    return bar_chart([theorem for theorem, _ in bounds], bars, axis, title="The same mechanisms, by every theorem")


def _row(theorem: str, note: str, answer: Callable[[], float]) -> Row:
    try:
        return Row(theorem=theorem, epsilon=float(answer()), note=note)
    except HushError as error:
        return Row(theorem=theorem, epsilon=None, note=str(error))


def _leaves(events: Iterable[Event], times: int = 1) -> Iterable[Counted]:
    """Yield the events with their counts, compositions taken apart."""
    for event in events:
        if isinstance(event, ComposedEvent):
            for step, count in event.parts:
                yield from _leaves([step], times * count)
        elif times:
            yield event, times


def _boxes(steps: list[Counted], delta: Fraction) -> Callable[[int], list[tuple[Number, Number, int]]]:
    """Return the steps as (ε, δ, count), by the part of δ that is shared among steps with an ε at each positive δ only.

    All of it (1) is shared for theorems that need none themselves, half of it (2) for the others; where no step needs a
    share, all of δ stays.
    """
    paid: list[tuple[Number, Number, int]] = []
    unpaid: list[Counted] = []
    for event, count in steps:
        try:
            paid.append((*pure_price(event), count))
        except DescriptionError:
            unpaid.append((event, count))
    free = delta - sum((Fraction(step_delta) * count for _, step_delta, count in paid), Fraction(0))

    def boxes(part: int) -> list[tuple[Number, Number, int]]:
        if free < 0 or (free == 0 and unpaid):
            raise InvalidValueError("delta", got=delta, allowed="at least the sum of the steps' own δ")
        # An equal share for each step; its ε there is a certified upper end, so the black box holds.
        each = free / part / max(sum(count for _, count in unpaid), 1)
        shared = [(compose([event]).epsilon(each, strict=False).upper, count) for event, count in unpaid]
        return paid + [(Fraction(epsilon), each, count) for epsilon, count in shared]

    return boxes


def _totals(steps: list[Counted], price: Callable[[Event], tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Return the sums of losses and masses."""
    prices = [(price(event), count) for event, count in steps]
    losses = sum((loss * count for (loss, _), count in prices), Fraction(0))
    return losses, sum((mass * count for (_, mass), count in prices), Fraction(0))


def _zcdp(steps: list[Counted], delta: Fraction, convert: Callable[..., float]) -> float:
    rho, mass = _totals(steps, zcdp_price)
    return convert(rho, delta=_after(delta, mass))


def _textbook_cost(alpha: float, delta: Fraction) -> float:
    return (math.log(delta.denominator) - math.log(delta.numerator)) / (alpha - 1)


def _renyi(
    steps: list[Counted],
    delta: Fraction,
    near: float,
    cost: Callable[[float, Fraction], float],
    convert: Callable[..., float],
) -> float:
    """Return ε by Rényi divergences at a good order.

    Any order gives a true bound; a scan round ln(1/δ)/ε, with an ε that is ``near``, finds a good one.
    """
    masses = [renyi_price(event, Fraction(2))[1] * count for event, count in steps]
    conversion_delta = _after(delta, sum(masses, Fraction(0)))

    def total(alpha: Fraction) -> Fraction:
        return sum((renyi_price(event, alpha)[0] * count for event, count in steps), Fraction(0))

    def estimate(alpha: float) -> float:
        try:
            return float(total(Fraction(alpha))) + cost(alpha, conversion_delta)
        except DescriptionError:
            return float("inf")

    scale = (math.log(conversion_delta.denominator) - math.log(conversion_delta.numerator)) / max(near, 1e-9)
    alpha = best_order(estimate, lowest=scale / 10, highest=100 * scale, digits=4, grid=24, rounds=16)
    if estimate(float(alpha)) == math.inf:  # known up to some order only: take the largest known one
        alpha = largest_decimal(lambda order: order <= 1 or estimate(float(order)) < math.inf, digits=12)
    return convert(alpha, total(alpha), delta=conversion_delta)


def _gdp(steps: list[Counted], delta: Fraction) -> float:
    square, mass = _totals(steps, gdp_price)
    conversion_delta = _after(delta, mass)
    if square == 0 or mu_allowed(square, Fraction(0), conversion_delta):  # the total variation is within δ already
        return 0.0
    return float_up(smallest_decimal(lambda epsilon: mu_allowed(square, epsilon, conversion_delta), digits=12))


def _after(delta: Fraction, mass: Fraction) -> Fraction:
    """Return the δ' with δ' + mass = δ: the part of δ that remains for the conversion after the steps' masses."""
    if mass >= delta:
        raise InvalidValueError("delta", got=delta, allowed="above the sum of the steps' own δ")
    return delta - mass
