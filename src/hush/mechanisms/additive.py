"""What mechanisms that add noise share: the default grid, sensitivity in whole steps, and the addition.

**Sensitivity in steps.** A caller promises that neighbours' values differ by at most Δ. On a grid of step g the rounded
values differ by at most d = ⌈Δ/g⌉ steps (`hush.core.columns`), and d is what the noise is calibrated to: the
ceiling is the safe side. For a *vector* each of the k coordinates that a neighbour changes is rounded by itself, and
Σ⌈dᵢ⌉ can exceed ⌈Σdᵢ⌉ by k-1. So arrays that are not on the grid beforehand need ``coordinates=k``, and d becomes
⌈Δ/g⌉ + k - 1. Arrays of whole numbers on a grid that contains the whole numbers are not rounded at all, and need
nothing.

**Half-widths** are measured from the value as it was given. Rounding it to the grid first moves it by up to half a
step, which they include, unless the sensitivity and the grid are whole (`off_grid`): the values are then taken to be
whole too, as counts are, and are not moved.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import Number
from hush.core.columns import add, as_array, is_scalar, on_grid, one_number, whole_step, whole_steps
from hush.mechanisms.base import ordinary

_FINE = 2**10  # steps in one sensitivity, at least, on a default grid that is not the whole numbers


def default_step(sensitivity: Fraction, step: Number | None) -> Fraction:
    """Return the declared step, or 1 for a whole sensitivity, or a power of two below a thousandth of it."""
    if step is not None:
        return ordinary(step, "step")
    if sensitivity.denominator == 1:
        return Fraction(1)
    target = sensitivity / _FINE
    exponent = target.numerator.bit_length() - target.denominator.bit_length()
    while Fraction(2) ** exponent > target:
        exponent -= 1
    return Fraction(2) ** exponent


def off_grid(sensitivity: Fraction, step: Fraction) -> Fraction:
    """Return how far from its grid point a value may lie: half a step, or 0 where whole numbers are on the grid."""
    whole = sensitivity.denominator == 1 and step.numerator == 1
    return Fraction(0) if whole else step / 2


def in_steps(sensitivity: Fraction, step: Fraction) -> int:
    """Return ⌈Δ/g⌉."""
    return -(-sensitivity // step)


def already_on_grid(array: npt.NDArray[Any], step: Fraction) -> bool:
    """Is every value of this *type* a whole number of steps? Looks at the dtype only."""
    return array.dtype.kind in "biu" and step.numerator == 1


def release_on_grid(
    value: Any, *, step: Fraction, draw: Callable[[Any], Any], admit: Callable[[npt.NDArray[Any]], None]
) -> Any:
    """Add ``draw(None)`` or ``draw(shape)`` steps of noise to a number or column.

    ``admit`` may refuse an array by its type or size.
    """
    if is_scalar(value):
        return on_grid(whole_step(one_number(value), step) + draw(None), step)
    array = as_array(value)
    admit(array)
    noise = np.asarray(draw(array.shape))
    return on_grid(add(whole_steps(array, step), noise), step)
