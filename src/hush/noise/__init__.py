"""Random bits and exact samplers.

Every function draws from the operating system's randomness through a cryptographic stream (`hush.noise.bits`) and
returns integers whose law is exactly the one named, not a floating-point likeness of it (`hush.noise.bits` tells
how).
"""

from hush.noise.bernoulli import bernoulli, bernoulli_exp
from hush.noise.gaussian import discrete_gaussian
from hush.noise.laplace import discrete_laplace, geometric
from hush.noise.negative_binomial import laplace_share, negative_binomial
from hush.noise.poisson import poisson, skellam
from hush.noise.reals import (
    rounded_cauchy,
    rounded_gaussian,
    rounded_laplace,
    rounded_polynomial,
    rounded_student,
)
from hush.noise.select import select, select_each
from hush.noise.uniform import permutation, uniform_integer, uniform_integers

__all__ = [
    "bernoulli",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "laplace_share",
    "negative_binomial",
    "permutation",
    "poisson",
    "rounded_cauchy",
    "rounded_gaussian",
    "rounded_laplace",
    "rounded_polynomial",
    "rounded_student",
    "select",
    "select_each",
    "skellam",
    "uniform_integer",
    "uniform_integers",
]
