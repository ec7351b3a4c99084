r"""The price of trust: the error of one count when less and less is trusted.

n people, one bit each, how many have it, at the same ε. Four ways, each with the standard deviation of its estimate:

* *central*: a curator sees all bits and adds discrete Laplace noise, √(2q)/(1-q) with q = e^-ε;
* *aggregated*: nobody sees a bit; everybody adds a share of noise (`hush.distributed.shares`) that suffices when a part
  τ of them drop out or collude: √(1/(1-τ)) times as much;
* *shuffled*: everybody answers by randomized response with an ε₀ such that the shuffled answers are (ε, δ)-DP,
  certified by the stronger clone bound, or exactly for up to 20,000 people; √(n·p(1-p))/(2p-1) with p = e^ε₀/(e^ε₀+1);
* *local*: the same with ε₀ = ε, and nothing at all is trusted.

>>> price: list[TrustRow] = price_of_trust(epsilon=1, people=10**4)
>>> [(row.model, round(row.deviation, 2)) for row in price]       # doctest: +NORMALIZE_WHITESPACE
[('central', 1.36), ('aggregated, 10% lost', 1.43), ('aggregated, 33% lost', 1.66), ('shuffled', 5.84), ('local',
95.95)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hush.accounting.pairs.shuffle import (
    LARGEST_EPSILON,
    LEAST_REPORTS,
    MOST_REPORTS,
    largest_local_epsilon,
    shuffled_epsilon,
)
from hush.core import Number, fraction_between, integer, positive
from hush.core.chart import Chart, ChartAxis, ChartBar, bar_chart, tick_text
from hush.core.rounding import largest_decimal
from hush.distributed.shares import LaplaceShare


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRow:
    """One way to count, and its error."""

    model: str
    trusted: str
    """The people to be trusted, and their role."""
    deviation: float
    """The standard deviation of the estimated count."""
    local_epsilon: Fraction | None = None
    """The ε₀ of each person's own answer, where people randomise."""


def price_of_trust(*, epsilon: Number, people: int, delta: Number = "1e-6") -> list[TrustRow]:
    """Return the error of a count of ``people`` bits under each model of trust, at the same ε.

    ``delta`` is needed for the shuffled model alone; the others are pure.
    """
    budget = positive(epsilon, "epsilon")
    count = integer(people, "people", minimum=10, maximum=10**9)
    chance = fraction_between(delta, "delta")

    def shared(lost: Fraction) -> float:
        honest = count - math.floor(count * lost)
        # Only the ratio of all parties to honest ones matters, so that their number may exceed a session's limit.
        ratio = Fraction(count, honest)
        return math.sqrt(LaplaceShare(epsilon=budget, parties=1).variance * float(ratio))

    hidden = _shuffled_epsilon0(budget, count, chance)
    return [
        TrustRow(model="central", trusted="a curator who sees every answer", deviation=shared(Fraction(0))),
        TrustRow(model="aggregated, 10% lost", trusted="nine tenths of the others", deviation=shared(Fraction(1, 10))),
        TrustRow(model="aggregated, 33% lost", trusted="two thirds of the others", deviation=shared(Fraction(1, 3))),
        TrustRow(
            model="shuffled",
            trusted=f"a shuffler that forgets who answered what (δ = {float(chance):g})",
            deviation=_response_deviation(hidden, count),
            local_epsilon=hidden,
        ),
        TrustRow(model="local", trusted="nobody", deviation=_response_deviation(budget, count), local_epsilon=budget),
    ]


def _response_deviation(epsilon: Fraction, people: int) -> float:
    """Return √(n·p(1-p))/(2p-1) = √n/(2 sinh(ε/2))."""
    # Beyond 700 the error is 0 for every purpose, and sinh would overflow.
    return math.sqrt(people) / (2 * math.sinh(min(float(epsilon), 700.0) / 2))


def _shuffled_epsilon0(epsilon: Fraction, people: int, delta: Fraction) -> Fraction:
    """Return the largest ε₀, to 4 digits, with (ε, δ)-DP shuffled answers; at least ε itself."""
    if LEAST_REPORTS <= people <= MOST_REPORTS and epsilon < LARGEST_EPSILON:
        return max(epsilon, largest_local_epsilon(reports=people, epsilon=epsilon, delta=delta))

    def holds(local: Fraction) -> bool:
        if local <= epsilon:
            return True
        return local <= 30 and shuffled_epsilon(local, reports=people, delta=delta).upper <= epsilon

    return max(epsilon, largest_decimal(holds, digits=4))


def chart_of_trust(rows: list[TrustRow]) -> Chart:
    """Return a chart of the rows: a dot each, on a logarithmic scale, where a bar would have no beginning.

    >>> chart_of_trust(price_of_trust(epsilon=1, people=10**4))
    <Chart: ...>
    """
    smallest, largest = min(row.deviation for row in rows), max(row.deviation for row in rows)
    start, end = 10.0 ** math.floor(math.log10(smallest / 1.1)), largest * 1.1
    digits = [digit * 10.0**power for power in range(-6, 12) for digit in (1, 2, 5)]
    ticks = [(tick, tick_text(tick)) for tick in digits if start <= tick <= end]
    dots = [
        ChartBar(
            row=index,
            start=start,
            end=row.deviation,
            dot=True,
            classes="d0",
            text=tick_text(float(f"{row.deviation:.3g}")),
            tooltip=f"{row.model}: {row.deviation:.4g}, if you trust {row.trusted}",
        )
        for index, row in enumerate(rows)
    ]
    axis = ChartAxis(name="standard deviation", low=start, high=end, ticks=ticks, logarithmic=True)
    subtitle = "standard deviation of one count at the same ε"
    return bar_chart([row.model for row in rows], dots, axis, title="The price of trust", subtitle=subtitle)
