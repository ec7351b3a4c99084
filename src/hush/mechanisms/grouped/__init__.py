"""Mechanisms that release a number of every group of a question at once; each states its event, error and sampler.

The planner chooses among them (`hush.query.plan`), the curator calls `release`, and the estimators for one column
(`hush.mechanisms.estimators`) are the same mechanisms with a single group.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.mechanisms.grouped.base import Contribution, Histograms, Sparse
    from hush.mechanisms.grouped.distribution import GroupedDistribution
    from hush.mechanisms.grouped.keys import KeySelection, KeyThreshold, units_needed
    from hush.mechanisms.grouped.mode import GroupedMode
    from hush.mechanisms.grouped.noise import (
        GroupedGaussian,
        GroupedLaplace,
        GroupedNoise,
        SummedNoise,
        exact_share,
        sum_error,
        zcdp_budget,
    )
    from hush.mechanisms.grouped.quantile import GroupedQuantile
else:
    __getattr__, __all__ = on_demand(__name__)
