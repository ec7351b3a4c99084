"""Pairs whose losses lie on common lattices.

Steps with atoms on one lattice (responses, discrete Laplace and Gaussian noise) are one law of losses, which
:mod:`.convolution` takes as it is. Pairs whose lattices have no useful common measure stay in groups of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from hush.accounting.pairs.base import Pair

Group = tuple[dict[Pair, int], Fraction, Fraction]
"""Pairs with their counts, and the offset and the span of the lattice that the sum of their losses lies on."""


def groups(pairs: Mapping[Pair, int]) -> list[Group]:
    """Return the pairs in groups on common lattices; pairs join if the refinement is at most eight times finer."""
    lattices: list[Group] = []
    for pair, count in pairs.items():
        lattice = pair.lattice()
        if lattice is None:
            continue
        for i, (members, offset, span) in enumerate(lattices):
            common = common_measure(span, lattice[1])
            if 8 * common >= max(span, lattice[1]):
                lattices[i] = ({**members, pair: count}, offset + count * lattice[0], common)
                break
        else:
            lattices.append(({pair: count}, count * lattice[0], lattice[1]))
    return lattices


def common_measure(a: Fraction, b: Fraction) -> Fraction:
    """Return the greatest rational that divides both."""
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)
