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
from fractions import Fraction

from hush.accounting import theorems
from hush.accounting.errors import DescriptionError
from hush.accounting.events import ComposedEvent, Event
from hush.accounting.guarantee import compose
from hush.accounting.prices import gdp_price, pure_price, renyi_price, zcdp_price
from hush.accounting.theorems.conversions import best_order, float_cost
from hush.accounting.theorems.gaussian import mu_allowed
from hush.core import HushError, InvalidValueError, Number, fraction_between
from hush.core.chart import Chart
from hush.core.errors import members
from hush.core.rounding import float_up, largest_decimal, smallest_decimal
from hush.core.values import dataclass

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
    slip = fraction_between(delta, "delta")
    listed = members(events, "events", allowed="a list of events", of=Event)
    steps = list(_leaves(listed))
    if not steps:
        raise InvalidValueError("events", got=listed, allowed="at least one event")
    boxes = _Boxes(steps, slip)
    exactly = compose(listed).epsilon(slip, strict=False)
    answers: list[tuple[str, str, Callable[[], float]]] = [
        ("basic", "sums of ε and δ", lambda: float_up(theorems.basic(boxes.plain()).epsilon)),
        ("advanced", "Dwork, Rothblum, Vadhan 2010", lambda: theorems.advanced(boxes.slack(), delta=slip)),
        (
            "advanced, improved",
            "Kairouz, Oh, Viswanath 2015, Theorem 3.5",
            lambda: theorems.advanced_improved(boxes.slack(), delta=slip),
        ),
        (
            "optimal for black boxes",
            "Kairouz, Oh, Viswanath 2015; Murtagh, Vadhan 2016",
            lambda: theorems.optimal_heterogeneous(boxes.slack(), delta=slip),
        ),
        ("zCDP, textbook", "Bun, Steinke 2016", lambda: _zcdp(steps, slip, theorems.zcdp_to_epsilon_textbook)),
        ("zCDP", "Canonne, Kamath, Steinke 2020", lambda: _zcdp(steps, slip, theorems.zcdp_to_epsilon)),
        (
            "Rényi, textbook",
            "Mironov 2017",
            lambda: _renyi(steps, slip, exactly, _textbook_cost, theorems.renyi_to_epsilon_textbook),
        ),
        (
            "Rényi",
            "Canonne, Kamath, Steinke 2020",
            lambda: _renyi(steps, slip, exactly, float_cost, theorems.renyi_to_epsilon),
        ),
        ("Gaussian DP", "Dong, Roth, Su 2022", lambda: _gdp(steps, slip)),
    ]
    rows = [_row(name, note, answer) for name, note, answer in answers]
    return [*rows, Row(theorem=CERTIFIED, epsilon=exactly.upper, note=f"the accountant; at least {exactly.lower:.12g}")]


def comparison_chart(rows: Sequence[Row]) -> Chart:
    """Return a chart of the rows that apply, one bar each, in their order.

    >>> comparison_chart([Row(theorem="basic", epsilon=10.0, note=""), Row(theorem="certified", epsilon=4.69, note="")])
    <Chart: ...>
    """
    from hush.core.chart import Chart

    values = [row.epsilon for row in rows if row.epsilon is not None]
    # One hopeless bound must not squeeze the others into a corner: its bar ends at the edge, with an arrow.
    edge = min(max(values), 8 * values[-1] or 1.0)
    shown = [
        {
            "theorem": row.theorem,
            "ε": row.epsilon,
            "own": row.theorem == CERTIFIED,
            "label": f"{row.epsilon:.4g}{' →' if row.epsilon > edge else ''}",
        }
        for row in rows
        if row.epsilon is not None
    ]
    order = [theorem_row["theorem"] for theorem_row in shown]
    bars = {
        "mark": {"type": "bar"},
        "encoding": {"color": {"field": "own", "type": "nominal", "legend": None}},
    }
    labels = {
        "mark": {"type": "text", "align": "left", "dx": 4},
        "encoding": {"text": {"field": "label", "type": "nominal"}},
    }
    return Chart(
        {
            "title": "The same mechanisms, by every theorem",
            "width": 420,
            "data": {"values": shown},
            "encoding": {
                "y": {"field": "theorem", "type": "nominal", "sort": order, "title": None},
                "x": {
                    "field": "ε",
                    "type": "quantitative",
                    "title": "ε (upper bound)",
                    "scale": {"domain": [0, edge], "clamp": True},
                },
            },
            "layer": [bars, labels],
        }
    )


def _row(theorem: str, note: str, answer: Callable[[], float]) -> Row:
    try:
        return Row(theorem=theorem, epsilon=float(answer()), note=note)
    except HushError as error:
        return Row(theorem=theorem, epsilon=None, note=str(error))


def _leaves(events: Iterable[Event], times: int = 1) -> Iterable[Counted]:
    """Yield the events with their counts, compositions taken apart."""
    for event in events:
        if isinstance(event, ComposedEvent):
            for part, count in event.parts:
                yield from _leaves([part], times * count)
        elif times:
            yield event, times


class _Boxes:
    """The steps as (ε, δ, count), with two ways to share δ with steps that have an ε only at some δ."""

    def __init__(self, steps: list[Counted], delta: Fraction) -> None:
        self._delta = delta
        self._known: list[tuple[Number, Number, int]] = []
        self._open: list[Counted] = []
        for event, count in steps:
            try:
                self._known.append((*pure_price(event), count))
            except DescriptionError:
                self._open.append((event, count))
        self._left = delta - sum((Fraction(own) * count for _, own, count in self._known), Fraction(0))

    def plain(self) -> list[tuple[Number, Number, int]]:
        """Give all of δ to the steps, for theorems that need none themselves."""
        return self._shared(self._left)

    def slack(self) -> list[tuple[Number, Number, int]]:
        """Give half of δ to the steps; all of it stays where no step needs any."""
        return self._shared(self._left / 2)

    def _shared(self, share: Fraction) -> list[tuple[Number, Number, int]]:
        if share < 0 or (share == 0 and self._open):
            raise InvalidValueError("delta", got=self._delta, allowed="at least the sum of the steps' own δ")
        steps = sum(count for _, count in self._open)
        return self._known + [
            (Fraction(compose([event]).epsilon(share / steps, strict=False).upper), share / steps, count)
            for event, count in self._open
        ]


def _zcdp(steps: list[Counted], delta: Fraction, convert: Callable[..., float]) -> float:
    prices = [(zcdp_price(event), count) for event, count in steps]
    rho = sum((loss * count for (loss, _), count in prices), Fraction(0))
    mass = sum((own * count for (_, own), count in prices), Fraction(0))
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
    """Any order gives a true bound; a scan round ln(1/δ)/ε, with an ε that is ``near``, finds a good one."""
    masses = [renyi_price(event, Fraction(2))[1] * count for event, count in steps]
    left = _after(delta, sum(masses, Fraction(0)))

    def total(alpha: Fraction) -> Fraction:
        return sum((renyi_price(event, alpha)[0] * count for event, count in steps), Fraction(0))

    def estimate(alpha: float) -> float:
        try:
            return float(total(Fraction(alpha))) + cost(alpha, left)
        except DescriptionError:
            return float("inf")

    scale = (math.log(left.denominator) - math.log(left.numerator)) / max(near, 1e-9)
    alpha = best_order(estimate, lowest=scale / 10, highest=100 * scale, digits=4, grid=24, rounds=16)
    if estimate(float(alpha)) == math.inf:  # known up to some order only: take the largest known one
        alpha = largest_decimal(lambda order: order <= 1 or estimate(float(order)) < math.inf, digits=12)
    return convert(alpha, total(alpha), delta=left)


def _gdp(steps: list[Counted], delta: Fraction) -> float:
    prices = [(gdp_price(event), count) for event, count in steps]
    square = sum((loss * count for (loss, _), count in prices), Fraction(0))
    left = _after(delta, sum((own * count for (_, own), count in prices), Fraction(0)))
    if square == 0:
        return 0.0
    if mu_allowed(square, Fraction(0), left):
        return 0.0
    return float_up(smallest_decimal(lambda epsilon: mu_allowed(square, epsilon, left), digits=12))


def _after(delta: Fraction, mass: Fraction) -> Fraction:
    """Return the δ' with δ' + mass = δ: what the steps' own masses leave for the conversion."""
    if mass >= delta:
        raise InvalidValueError("delta", got=delta, allowed="above the sum of the steps' own δ")
    return delta - mass
