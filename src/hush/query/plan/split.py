r"""Splitting ε over what a question needs.

With Laplace noise the variance of a statistic is proportional to 1/ε_i². Measured against its own bound (that is:
relative to a typical value of the same number of rows) every statistic has the same sensitivity, so the total
Σ w_i/ε_i² under Σε_i = ε is least for ε_i ∝ w_i^{1/3}, where w_i says how much the answers depend on the statistic.
With Gaussian noise the variance is proportional to 1/ρ_i, and ρ_i ∝ w_i^{1/2}. Shares are small whole numbers, so that
they add up to ε exactly. The whole question takes whichever noise gives the smaller weighted variance at its (ε,δ).

>>> shares([Fraction(1), Fraction(8)], 1 / 3)
[Fraction(1, 3), Fraction(2, 3)]
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

_FINE = 1000


def shares(weights: Sequence[Fraction], power: float) -> list[Fraction]:
    """Return parts of 1 proportional to weight^power, to about a tenth of a per cent, exactly adding up to 1."""
    whole = [max(1, round(_FINE * float(weight) ** power)) for weight in weights]
    return [Fraction(part, sum(whole)) for part in whole]
