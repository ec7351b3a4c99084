"""Rounding in double precision: the unit, and the few steps that every error bound shares.

The one assumption about the platform is that float64 arithmetic rounds correctly and that NumPy's elementary functions
are within 4 units in the last place (NumPy's own tests demand that; measured errors are below 1). Every bound here is
written with a further factor of two or more in hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hush.accounting.pairs.base import Complexes, Floats

UNIT = 2.0**-52
"""Twice the unit roundoff: an upper bound of the relative error of one rounded operation, with a factor 2 in hand."""


def upward(value: float) -> float:
    """Return a float safely above a value that carries a relative error of a few units."""
    return value + 64 * UNIT * abs(value) + 1e-300


def total(value: Complexes, error: Floats) -> tuple[Complexes, Floats]:
    """Turn an absolute error into R = ln(1 + error/|value|); a value lost in its error is replaced by the error.

    If |v̂| < error then |v| < 2·error, and v = error·(1+η) with |η| ≤ 3.
    """
    size = np.abs(value)
    lost = ~(size > error)
    floor = np.maximum(error, 1e-300)
    value = np.where(lost, floor.astype(value.dtype), value)
    size = np.where(lost, floor, size)
    ratio = np.where(lost, math.log(4.0), np.log1p(error / np.where(size > 0, size, 1.0)))
    return value, ratio


def log1p(v: Complexes) -> Complexes:
    """Return ln(1+v), accurate for small complex v (NumPy's own forms 1+v first)."""
    if v.dtype.kind == "f":
        return np.asarray(np.log1p(v))
    a, b = v.real, v.imag
    return np.asarray(0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a))


def expm1(v: Complexes) -> Complexes:
    """Return e^v − 1, accurate for small complex v: e^a cos b − 1 = expm1(a)·cos b − 2 sin²(b/2)."""
    if v.dtype.kind == "f":
        return np.asarray(np.expm1(v))
    a, b = v.real, v.imag
    return np.asarray(np.expm1(a) * np.cos(b) - 2 * np.sin(b / 2) ** 2 + 1j * np.exp(a) * np.sin(b))


def by_tilt(
    evaluate: Callable[[Complexes], tuple[Complexes, Floats]], z: Complexes, farthest: float
) -> tuple[Complexes, Floats]:
    """Evaluate nodes in groups of like real part, so that a quadrature fits each; beyond ``farthest`` claim nothing.

    Claiming nothing is an infinite K with an infinite error.
    """
    group = np.ceil(np.log2(np.maximum(z.real, 1.0)) / 2)
    group = np.where(z.real > farthest, -1.0, group)
    first = float(group.flat[0])
    if first >= 0 and bool((group == first).all()):
        return evaluate(z)
    value, error = np.full(z.shape, np.inf, dtype=z.dtype), np.full(z.shape, np.inf)
    for mark in np.unique(group):
        if mark >= 0:
            here = group == mark
            value[here], error[here] = evaluate(z[here])
    return value, error
