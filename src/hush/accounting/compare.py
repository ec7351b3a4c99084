"""The named theorems side by side, on the user's own list of mechanisms.

Theorems about (ε, δ) black boxes need an (ε, δ) for each step. Pure and approximate steps have one. Gaussian noise has one for every δ,
so it is given an equal share of half the δ, as one would do by hand; the theorem keeps the other half.

>>> from hush.accounting import GaussianEvent
>>> rows = compare([GaussianEvent(sigma=30, sensitivity=1)] * 1000, delta="1e-6")
>>> [(row.theorem, round(row.epsilon, 2)) for row in rows if row.epsilon][-3:]
[('Rényi', 5.53), ('Gaussian DP', 5.19), ('exact', 5.19)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from hush.accounting.describe import gdp, pure, renyi, zcdp
from hush.accounting.events import Event
from hush.accounting.guarantee import compose
from hush.accounting.theorems import (
    advanced,
    advanced_improved,
    basic,
    optimal_heterogeneous,
    renyi_to_epsilon,
    renyi_to_epsilon_textbook,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)
from hush.core import HushError, Number, fraction_between
from hush.core.chart import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One theorem's answer."""

    theorem: str
    epsilon: float | None
    """An upper bound of ε, rounded up; None where the theorem does not apply."""
    note: str
    """Its source, or why it does not apply."""
