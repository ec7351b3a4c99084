"""Keys are chosen within (ε, δ): the exact probabilities of neighbouring numbers of units meet the definition."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from hush.mechanisms import KeySelection


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "20"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.1"])
@pytest.mark.parametrize("keys", [1, 3])
def test_neighbouring_counts_meet_the_definition_exactly(epsilon: str, delta: str, keys: int) -> None:
    table = [*KeySelection(epsilon=epsilon, delta=delta, keys=keys).probabilities, Fraction(1)]
    step, slip = Fraction(epsilon) / keys, Fraction(delta) / keys
    # a rational that is certainly below e^step
    grown = sum((step**k / math.factorial(k) for k in range(80 + 8 * int(step))), Fraction(0))
    assert table[0] == 0
    for fewer, more in pairwise(table):
        assert more >= fewer
        assert more <= grown * fewer + slip + Fraction(1, 10**25)
        assert 1 - fewer <= grown * (1 - more) + slip + Fraction(1, 10**25)
