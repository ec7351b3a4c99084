"""Mechanisms release values, and each states its event, its error and its sampler; estimators build on them."""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.mechanisms.above_threshold import AboveThreshold
    from hush.mechanisms.base import Additive, Mechanism
    from hush.mechanisms.column_quantile import Quantile
    from hush.mechanisms.estimators.base import Estimate, average, nonnegative, propose_delta, rounded
    from hush.mechanisms.estimators.categories import histogram, mode, top_k
    from hush.mechanisms.estimators.numeric import (
        count,
        mean,
        ratio,
        std,
        sum,  # noqa: A004 - names of the field
        variance,
        vector_mean,
    )
    from hush.mechanisms.estimators.ordered import max, median, min, quantile, quantiles  # noqa: A004 - as above
    from hush.mechanisms.gaussian import Gaussian
    from hush.mechanisms.grouped.keys import KeySelection
    from hush.mechanisms.laplace import Laplace
    from hush.mechanisms.metric_privacy import MetricExponential
    from hush.mechanisms.propose_test_release import ProposeTestRelease, Refused
    from hush.mechanisms.randomized_response import RandomizedResponse
    from hush.mechanisms.selection import Exponential, PermuteAndFlip, TopK
    from hush.mechanisms.smooth_noise import SmoothNoise
else:
    __getattr__, __all__ = on_demand(__name__)
