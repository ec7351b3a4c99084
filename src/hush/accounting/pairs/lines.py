r"""Σ_t size_t·e^{iu_j·L_t} on many evenly spaced u_j at once: a product of two matrices.

With j = aB + b, u_j = u_{aB} + u_b, and the sum is Σ_t (size_t·e^{iu_{aB}L_t})·e^{iu_bL_t}: as many multiplications as
before, but in one matrix product, and only √n exponentials for each t.

**Rounding.** u_{aB} + u_b differs from the given u_j by less than 4 units of it, and each product with L_t rounds once:
the turn is off by at most 8 units of |u_j L_t|. A matrix product over n points, in whatever order it is summed, is off
by at most (n + 8) units of Σ_t size_t (Higham 2002, section 3.5, with 4 real products in a complex one).
"""

from __future__ import annotations

import math

import numpy as np

from hush.accounting.pairs.base import Complexes, Floats
from hush.accounting.pairs.float_errors import UNIT

MOST_PRODUCTS = 600_000_000
"""How many complex products are worth it."""


def even(z: Complexes) -> bool:
    """Whether z runs evenly up a vertical line from the real axis."""
    if z.ndim != 1 or z.size < 64 or not bool((z.real == z.real[0]).all()) or z.imag[0] != 0:
        return False
    spaced = z.imag[1] * np.arange(z.size)
    return bool((np.abs(z.imag - spaced) <= 2 * UNIT * np.abs(spaced)).all())


def sums(u: Floats, size: Floats, log: Floats) -> tuple[Complexes, Floats]:
    """Return the sums at every u_j, and a bound on the error of each."""
    block = math.isqrt(u.size) + 1
    starts = u[::block]
    total = np.zeros((len(starts), block), dtype=np.complex128)
    # Slices of t keep the matrices small.
    width = max(1, (1 << 20) // block)
    for first in range(0, size.size, width):
        part = slice(first, first + width)
        left = size[part] * np.exp(1j * np.multiply.outer(starts, log[part]))
        right = np.exp(1j * np.multiply.outer(log[part], u[:block]))
        total += left @ right
    mass = float(size.sum())
    turn = float(size @ np.abs(log))
    return total.ravel()[: u.size], UNIT * ((2 * size.size + 64) * mass + 8 * u * turn)
