"""The quality of answers: (α, β) both ways, measured usefulness, budget splits, and ε in plain words."""

from hush.mechanisms.estimators.means import vector_noise
from hush.utility.meaning import exposure, hockey_stick, is_private, plain, posterior, privacy_loss
from hush.utility.usefulness import (
    Measured,
    Question,
    alpha_at,
    beta_at,
    crossover,
    expected_errors,
    laplace_for,
    largest_error,
    lower_bound,
    measure,
    split,
    upper_bound,
    useful,
)

__all__ = [
    "Measured",
    "Question",
    "alpha_at",
    "beta_at",
    "crossover",
    "expected_errors",
    "exposure",
    "hockey_stick",
    "is_private",
    "laplace_for",
    "largest_error",
    "lower_bound",
    "measure",
    "plain",
    "posterior",
    "privacy_loss",
    "split",
    "upper_bound",
    "useful",
    "vector_noise",
]
