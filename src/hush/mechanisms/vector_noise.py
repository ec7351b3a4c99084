r"""Choose Laplace or Gaussian noise for a vector, whichever is smaller.

For k coordinates, each of sensitivity Δ, Laplace noise needs b = kΔ/ε and has variance 2b² in each; Gaussian noise
needs σ for √k·Δ. With σ₁ the Gaussian's σ at sensitivity 1, Gaussian wins from k > (σ₁ε)²/2 on: 9 at (1, 10⁻⁶).
It wins by √k, not k (THEORY item 17). The variances of both mechanisms are compared as they are.

>>> [type(vector_noise(dimension=k, epsilon=1, delta="1e-6")).__name__ for k in (5, 30)]
['Laplace', 'Gaussian']
"""

from __future__ import annotations

from fractions import Fraction

from hush.core import Number, integer, positive
from hush.mechanisms.additive import default_step
from hush.mechanisms.gaussian import Gaussian
from hush.mechanisms.laplace import Laplace
from hush.sensitivity.statistics import global_sensitivity


def vector_noise(
    *,
    dimension: int,
    epsilon: Number,
    delta: Number,
    sensitivity: Number = 1,
    step: Number | None = None,
) -> Laplace | Gaussian:
    """Return the mechanism with the smaller variance for ``dimension`` numbers, each changed by up to ``sensitivity``.

    A whole sensitivity on a grid with the whole numbers is taken to mean a vector of whole numbers.
    """
    k, one = integer(dimension, "dimension", minimum=1), positive(sensitivity, "sensitivity")
    root = global_sensitivity("count", dimension=k, norm="l2")
    unit = default_step(one, step)
    whole = unit.numerator == 1 and (one / unit).denominator == 1 and one.denominator == 1
    laplace = Laplace(sensitivity=one * k, epsilon=epsilon, step=unit, coordinates=None if whole else k)
    gaussian = Gaussian(sensitivity=one * Fraction(root), epsilon=epsilon, delta=delta, step=unit, coordinates=k)
    return laplace if laplace.variance <= gaussian.variance else gaussian
