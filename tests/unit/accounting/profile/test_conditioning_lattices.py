"""The tilted law on a lattice is a law, with its own moment; lattices that do not fit stay apart."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import special

from hush.accounting.pairs import DiscreteGaussianPair, ResponsePair
from hush.accounting.profile.conditioning import groups


def test_tilted_law_is_a_law() -> None:
    """The tilted masses of a thousand responses are the tilted binomial's, within the stated distance."""
    pair, count, c = ResponsePair(epsilon=Fraction(3, 100)), 1000, 4.0
    (group,) = groups({pair: count})
    law = group.tilted(c)
    assert law is not None
    p = 1 / (1 + math.exp(-0.03 * (2 * c + 1)))
    index = np.rint((law.losses / 0.03 + count) / 2)
    logs = (
        special.gammaln(count + 1)
        - special.gammaln(index + 1)
        - special.gammaln(count - index + 1)
        + index * math.log(p)
        + (count - index) * math.log1p(-p)
    )
    assert np.abs(law.masses - np.exp(logs)).sum() < 1e-10
    assert law.error < 1e-9


def test_groups_keep_incommensurable_lattices_apart() -> None:
    """A half and a quarter share a lattice; an unrelated variance has its own."""
    made = groups(
        {
            ResponsePair(epsilon=Fraction(1, 2)): 1,
            ResponsePair(epsilon=Fraction(1, 4)): 2,
            DiscreteGaussianPair(sigma_squared=Fraction(96721, 62500), sensitivity=2): 1,
        }
    )
    assert len(made) == 2
