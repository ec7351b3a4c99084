"""The named theorems of composition, group privacy and conversion: for teaching, and to compare.

Everything here is an upper bound that is rounded up, or an exact value with both ends. They ask for (ε, δ) pairs, ρ
or Rényi divergences, all a theorem knows of a mechanism; the certified accountant, :func:`hush.accounting.compose`,
knows the mechanisms themselves and is never worse. :func:`hush.accounting.compare` puts them side by side.
"""

from hush.accounting.theorems import gaussian
from hush.accounting.theorems.composition import (
    ApproximateDP,
    Partition,
    advanced,
    advanced_improved,
    basic,
    group,
    group_textbook,
    optimal_heterogeneous,
    optimal_heterogeneous_delta,
    optimal_homogeneous,
    optimal_homogeneous_delta,
    parallel,
)
from hush.accounting.theorems.conversions import (
    renyi_to_delta,
    renyi_to_epsilon,
    renyi_to_epsilon_textbook,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)

__all__ = [
    "ApproximateDP",
    "Partition",
    "advanced",
    "advanced_improved",
    "basic",
    "gaussian",
    "group",
    "group_textbook",
    "optimal_heterogeneous",
    "optimal_heterogeneous_delta",
    "optimal_homogeneous",
    "optimal_homogeneous_delta",
    "parallel",
    "renyi_to_delta",
    "renyi_to_epsilon",
    "renyi_to_epsilon_textbook",
    "zcdp_to_delta",
    "zcdp_to_epsilon",
    "zcdp_to_epsilon_textbook",
]
