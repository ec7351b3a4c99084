"""The error bounds that the proofs assume of float64 functions, measured on this machine against ball arithmetic."""

import math

import flint
import numpy as np
import pytest
from enumeration import precise

from hush.noise.bits import system_bits

POINTS = 4000


def uniforms(low, high):
    words = system_bits().words(POINTS)
    return low + (high - low) * (words.astype(np.float64) * 2.0**-64)


def powers(low, high):
    return 2.0 ** uniforms(low, high)


RANGES = {
    "log": [powers(-22, 0), uniforms(0.5, 1), 1 - powers(-52, -1), powers(-22, 3), powers(0, 64), uniforms(1, 1.001)],
    "log1p": [-powers(-22, -1), -uniforms(0.5, 1 - 2.0**-8), -uniforms(0.9, 1 - 2.0**-8)],
    "exp": [-uniforms(0, 1), -uniforms(0, 64), -uniforms(64, 708), uniforms(0, 709), -powers(-60, 0)],
    "expm1": [uniforms(0, 1), powers(-60, 0), uniforms(0, 709), powers(-1000, -900)],
    "sqrt": [powers(-1000, 1000), uniforms(0, 1)],
}
BOUND = {"log": 8, "log1p": 8, "exp": 4, "expm1": 8, "sqrt": 8}


def ulps(results, points, ideal):
    """Return the largest error in units of the last place of the true value."""
    worst = 0.0
    with precise():
        for result, point in zip(results.tolist(), points.tolist(), strict=True):
            truth = ideal(flint.arb(point))
            size = math.ulp(float(truth))
            worst = max(worst, float(abs(flint.arb(result) - truth)) / size)
    return worst


@pytest.mark.parametrize("name", RANGES)
def test_numpy(name):
    for points in RANGES[name]:
        for results in (
            getattr(np, name)(points),
            np.array([getattr(np, name)(points[i : i + 1])[0] for i in range(50)]),
        ):
            assert ulps(results, points[: len(results)], getattr(flint.arb, name)) <= BOUND[name]


@pytest.mark.parametrize("name", ["log", "exp"])
def test_math(name):
    for points in RANGES[name]:
        results = np.array([getattr(math, name)(point) for point in points.tolist()])
        assert ulps(results, points, getattr(flint.arb, name)) <= BOUND[name]


def test_math_log_of_large_integers():
    integers = [
        int.from_bytes(system_bits().words(n).tobytes(), "little") | 1 for n in (1, 2, 10, 50, 200) for _ in range(40)
    ]
    with precise():
        for value in integers:
            truth = flint.arb(value).log()
            assert abs(flint.arb(math.log(value)) - truth) <= 8 * math.ulp(float(truth))


def test_cos():
    """Where the proof uses it, on [0, 2π], cos is right to 8·2⁻⁵³ absolutely, next to its zeros too."""
    points = np.concatenate([uniforms(0, 2 * math.pi), math.pi / 2 + powers(-50, -3), 1.5 * math.pi - powers(-50, -3)])
    with precise():
        for result, point in zip(np.cos(points).tolist(), points.tolist(), strict=True):
            assert abs(flint.arb(result) - flint.arb(point).cos()) <= 8 * 2.0**-53


def test_floats_are_ieee_754_doubles():
    assert np.finfo(np.float64).nmant == 52
    assert (2.0**53 + 1) - 2.0**53 in {0.0, 2.0}
    assert 1 / 3 == (6004799503160661 * 2.0**-54)
    assert float(np.uint64(2**63 + 2**10)) == 2**63  # ties to even
    assert np.array([2**63 + 2**10 + 1], dtype=np.uint64).astype(np.float64)[0] == 2**63 + 2**11
    assert np.array([1e-308])[0] * 2.0**-50 > 0  # gradual underflow is on
