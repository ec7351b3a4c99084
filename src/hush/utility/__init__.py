"""How good an answer is: (α, β) both ways, measured usefulness, budget splits, and ε in plain words."""

from hush.mechanisms.vector_noise import vector_noise
from hush.utility.confidence import lower_bound, upper_bound
from hush.utility.divergence import hockey_stick, is_private, privacy_loss
from hush.utility.planner import Question, crossover, expected_errors, split
from hush.utility.usefulness import Measured, alpha_at, beta_at, laplace_for, largest_error, measure, useful
from hush.utility.words import exposure, plain, posterior

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
