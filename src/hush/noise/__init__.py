"""Random bits and exact samplers.

Every function draws from the operating system's randomness through a cryptographic stream and returns integers whose
law is exactly the one named, not a floating-point likeness of it (`hush.noise.bits` tells how).
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.noise.gaussian import discrete_gaussian
    from hush.noise.laplace import discrete_laplace, geometric
    from hush.noise.race import select, select_each
    from hush.noise.reals import (
        rounded_cauchy,
        rounded_gaussian,
        rounded_laplace,
        rounded_polynomial,
        rounded_student,
    )
    from hush.noise.shares import laplace_share, negative_binomial, poisson, skellam
    from hush.noise.uniform import bernoulli, bernoulli_exp, permutation, uniform_integer, uniform_integers
else:
    __getattr__, __all__ = on_demand(__name__)
