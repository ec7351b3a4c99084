"""Half-widths from simulated truths: the least that leave few enough outside, by the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.query.released import SIDE, least_widths


def least(row: np.ndarray, outside: float) -> float:
    """Try every distance there is, from the least on; where the truth is undefined it lies anywhere."""
    draws = len(row)
    both, one = (draws - 1 - math.ceil((1 - share) * (draws - 1)) for share in (outside, SIDE * outside))
    for width in [*np.sort(np.abs(row[~np.isnan(row)])), math.inf]:
        undefined = np.count_nonzero(np.isnan(row)) if width < math.inf else 0
        above, below = (np.count_nonzero(side > width) + undefined for side in (row, -row))
        if above + below - undefined <= both and above <= one and below <= one:
            return width
    raise AssertionError


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("undefined", [0.0, 0.01, 0.03, 0.1, 0.9])
def test_half_widths_are_the_least_that_hold(confidence: float, undefined: float) -> None:
    rng = np.random.default_rng(7)
    for draws in (1, 2, 40, 41, 400):
        moved = rng.standard_t(2, (20, draws)) + rng.normal(0, 1, (20, 1))
        moved[::2] = np.round(moved[::2])  # ties
        moved[rng.random(moved.shape) < undefined] = np.nan
        expected = [least(row, 1 - confidence) for row in moved]
        assert least_widths(moved, 1 - confidence).tolist() == expected
