"""Whole releases: all marginals at once, synthetic rows, streams and ranges, on integer-coded tables.

All of them go one way: plan without data, add exact discrete noise to exact integers, keep what was measured, and make
everything else of that, free of charge.
"""

from hush.synth.domain import CodedTable, Domain
from hush.synth.marginals import Estimate, MarginalPlan, Marginals, MarginalTable, all_marginals, plan_marginals

__all__ = [
    "CodedTable",
    "Domain",
    "Estimate",
    "MarginalPlan",
    "MarginalTable",
    "Marginals",
    "all_marginals",
    "plan_marginals",
]
