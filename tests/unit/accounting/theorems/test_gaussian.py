"""The analytic Gaussian mechanism where exponentials overflow."""

from fractions import Fraction

import pytest

from hush.accounting.theorems import gaussian


@pytest.mark.parametrize("epsilon", [10**4, 10**5, 10**8])
def test_the_analytic_gaussian_at_a_large_epsilon(epsilon: int) -> None:
    sigma = gaussian.analytic(epsilon, "1e-6")
    less = sigma * (1 - Fraction(1, 10**9))
    assert gaussian.gaussian_delta(epsilon=epsilon, mu=1 / sigma).upper <= 1e-6
    assert gaussian.gaussian_delta(epsilon=epsilon, mu=1 / less).lower > 1e-6
