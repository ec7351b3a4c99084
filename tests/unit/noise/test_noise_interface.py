"""Bad input is refused by name, memory stays in proportion, and nothing heavy is imported."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from predictable_bits import PredictableBits

from hush import noise
from hush.core import HushError, InvalidValueError
from hush.noise.bits import CHUNK, drawn

SCALED = {
    "discrete_laplace": ("scale", {}),
    "geometric": ("scale", {}),
    "discrete_gaussian": ("sigma", {}),
    "rounded_laplace": ("scale", {}),
    "rounded_gaussian": ("sigma", {}),
    "rounded_cauchy": ("scale", {}),
    "rounded_polynomial": ("scale", {"a": 3}),
    "rounded_student": ("scale", {"nu": 3}),
}
BAD_SCALES = [0, -1, "-0.5", "0", -0.0, float("nan"), float("inf"), "nan", None, True, "x", [1], 1j, np.float32("inf")]
BAD_SIZES = [
    1.0,
    -1,
    "3",
    True,
    [2],
    (2, -1),
    (1.5,),
    (None,),
    float("nan"),
    np.float64(3),
    10**30,
    (0, 10**30),
    (2**40, 2**40),
]


@pytest.mark.parametrize("name", SCALED)
def test_bad_scales_and_sizes(name):
    parameter, options = SCALED[name]
    draw = getattr(noise, name)
    for scale in BAD_SCALES:
        if scale is None and name == "discrete_gaussian":
            continue
        for size in (None, 3):
            with pytest.raises(
                InvalidValueError, match=f"The '{parameter}' parameter must be a positive finite number. Got "
            ):
                draw(scale, size, **options)
    for size in BAD_SIZES:
        with pytest.raises(InvalidValueError, match=r"The 'size' parameter must be .* Got "):
            draw(1, size, **options)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (noise.discrete_gaussian, "sigma"),
        (lambda: noise.discrete_gaussian(1, variance=1), "sigma"),
        (lambda: noise.discrete_gaussian(variance=0), "variance"),
        (lambda: noise.bernoulli("1.0001"), "p"),
        (lambda: noise.bernoulli(-1, 3), "p"),
        (lambda: noise.bernoulli("1/2", 1.5), "size"),
        (lambda: noise.bernoulli_exp(-1), "x"),
        (lambda: noise.bernoulli_exp(float("nan")), "x"),
        (lambda: noise.bernoulli_exp(1, -1), "size"),
        (lambda: noise.uniform_integer(0), "n"),
        (lambda: noise.uniform_integer(2.0), "n"),
        (lambda: noise.uniform_integer(2, "a"), "size"),
        (lambda: noise.permutation(-1), "n"),
        (lambda: noise.rounded_laplace(1, centre=float("inf")), "centre"),
        (lambda: noise.rounded_cauchy(1, gamma=1), "gamma"),
        (lambda: noise.rounded_polynomial(1, a=1), "a"),
        (lambda: noise.rounded_student(1, nu=0), "nu"),
        (lambda: noise.rounded_student(1, nu=float("nan")), "nu"),
    ],
)
def test_bad_parameters(call, parameter):
    with pytest.raises(InvalidValueError) as refusal:
        call()
    assert refusal.value.parameter == parameter
    assert isinstance(refusal.value, HushError)


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: noise.discrete_laplace(20, n),
        lambda n: noise.discrete_laplace("1e9", n),
        lambda n: noise.discrete_gaussian(500, n),
        lambda n: noise.rounded_student(5, n, nu=3),
        lambda n: noise.uniform_integer(100, n),
    ],
)
def test_memory_is_the_result_and_a_constant(draw):
    """Ten chunks' worth of intermediate arrays, at most 2 MiB each, beside 16 MB of result."""
    draw(10)
    size = 2_000_000
    tracemalloc.start()
    try:
        result = draw(size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.nbytes == 8 * size
    assert peak < result.nbytes + 10 * 2**21


def test_chunks_join_without_seams():
    parts = []

    def draw(count, _bits):
        parts.append(count)
        return np.full(count, len(parts), dtype=np.int64 if len(parts) < 3 else object)

    out = drawn((3, CHUNK), draw, None)
    assert parts == [CHUNK] * 3
    assert out.dtype == object
    assert [row[0] for row in out] == [1, 2, 3]
    assert all(type(value) is int for value in out[:, -1])


def test_nothing_is_returned_when_a_draw_fails():
    def draw(count, _bits):
        if count < CHUNK:
            raise RuntimeError
        return np.zeros(count, dtype=np.int64)

    with pytest.raises(RuntimeError):
        drawn((CHUNK + 1,), draw, None)


def test_predictable_bits():
    source = PredictableBits([1, 2, 3], fill=9)
    assert source.word() == 1
    assert source.words(4).tolist() == [2, 3, 9, 9]
    assert source.taken == 5
    short = PredictableBits([1])
    with pytest.raises(EOFError):
        short.words(2)
    with pytest.raises(EOFError):
        PredictableBits([]).word()


HEAVY = ["flint", "scipy", "pandas", "polars", "pyarrow", "duckdb", "sqlglot", "typer", "rich"]


def test_importing_hush_imports_nothing_heavy():
    program = f"import hush, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
