"""Mechanisms release values, and each states its event, its error and its sampler; estimators build on them."""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand
from hush.mechanisms import estimators

if TYPE_CHECKING:
    from hush.mechanisms.above_threshold import AboveThreshold
    from hush.mechanisms.base import Additive, Mechanism
    from hush.mechanisms.column_quantile import Quantile
    from hush.mechanisms.estimators import *  # noqa: F403 - all of them, listed there
    from hush.mechanisms.gaussian import Gaussian
    from hush.mechanisms.grouped.keys import KeySelection
    from hush.mechanisms.laplace import Laplace
    from hush.mechanisms.metric_privacy import MetricExponential
    from hush.mechanisms.propose_test_release import ProposeTestRelease, Refused
    from hush.mechanisms.randomized_response import RandomizedResponse
    from hush.mechanisms.selection import Exponential, PermuteAndFlip, TopK
    from hush.mechanisms.smooth_noise import SmoothNoise
else:
    __getattr__, __all__ = on_demand(
        __name__,
        {
            "hush.mechanisms.above_threshold": "AboveThreshold",
            "hush.mechanisms.base": "Additive Mechanism",
            "hush.mechanisms.column_quantile": "Quantile",
            "hush.mechanisms.estimators": " ".join(estimators.__all__),
            "hush.mechanisms.gaussian": "Gaussian",
            "hush.mechanisms.grouped.keys": "KeySelection",
            "hush.mechanisms.laplace": "Laplace",
            "hush.mechanisms.metric_privacy": "MetricExponential",
            "hush.mechanisms.propose_test_release": "ProposeTestRelease Refused",
            "hush.mechanisms.randomized_response": "RandomizedResponse",
            "hush.mechanisms.selection": "Exponential PermuteAndFlip TopK",
            "hush.mechanisms.smooth_noise": "SmoothNoise",
        },
    )
