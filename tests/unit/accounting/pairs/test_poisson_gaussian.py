"""Long lines of nodes of a sampled Gaussian's cumulant."""

from __future__ import annotations

import numpy as np

from hush.accounting.pairs.poisson import evenly_spaced, sums_on_a_line


def test_long_lines_match_the_direct_sum() -> None:
    """The matrix product is within its own bound of the sum term by term."""
    u, log = 0.37 * np.arange(200), np.linspace(-0.3, 2.0, 1500)
    size = np.exp(-((log - 0.4) ** 2))
    value, bound = sums_on_a_line(u, size, log)
    direct = (size * np.exp(1j * np.multiply.outer(u, log))).sum(axis=1)
    assert np.all(np.abs(value - direct) <= bound)
    assert evenly_spaced(0.5 + 1j * u)
    assert not evenly_spaced(0.5 + 1j * u**2)
