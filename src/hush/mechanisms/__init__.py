"""Mechanisms release values, and each states its event, its error and its sampler; estimators build on them."""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.mechanisms.base import Additive, Mechanism
    from hush.mechanisms.column_quantile import Quantile
    from hush.mechanisms.estimators import (
        Estimate,
        average,
        count,
        histogram,
        max,  # noqa: A004 - names of the field
        mean,
        median,
        min,  # noqa: A004
        mode,
        nonnegative,
        propose_delta,
        quantile,
        quantiles,
        ratio,
        rounded,
        std,
        sum,  # noqa: A004
        top_k,
        variance,
        vector_mean,
    )
    from hush.mechanisms.exponential import Exponential
    from hush.mechanisms.flip import PermuteAndFlip
    from hush.mechanisms.gaussian import Gaussian
    from hush.mechanisms.grouped.keys import KeySelection
    from hush.mechanisms.laplace import Laplace
    from hush.mechanisms.metric import MetricExponential
    from hush.mechanisms.propose import ProposeTestRelease, Refused
    from hush.mechanisms.response import RandomizedResponse
    from hush.mechanisms.smooth import SmoothNoise
    from hush.mechanisms.threshold import AboveThreshold
    from hush.mechanisms.top import TopK
else:
    __getattr__ = on_demand(
        __name__,
        {
            "hush.mechanisms.base": ("Additive", "Mechanism"),
            "hush.mechanisms.column_quantile": ("Quantile",),
            "hush.mechanisms.estimators": (
                "Estimate",
                "average",
                "count",
                "histogram",
                "max",
                "mean",
                "median",
                "min",
                "mode",
                "nonnegative",
                "propose_delta",
                "quantile",
                "quantiles",
                "ratio",
                "rounded",
                "std",
                "sum",
                "top_k",
                "variance",
                "vector_mean",
            ),
            "hush.mechanisms.exponential": ("Exponential",),
            "hush.mechanisms.flip": ("PermuteAndFlip",),
            "hush.mechanisms.gaussian": ("Gaussian",),
            "hush.mechanisms.grouped.keys": ("KeySelection",),
            "hush.mechanisms.laplace": ("Laplace",),
            "hush.mechanisms.metric": ("MetricExponential",),
            "hush.mechanisms.propose": ("ProposeTestRelease", "Refused"),
            "hush.mechanisms.response": ("RandomizedResponse",),
            "hush.mechanisms.smooth": ("SmoothNoise",),
            "hush.mechanisms.threshold": ("AboveThreshold",),
            "hush.mechanisms.top": ("TopK",),
        },
    )

__all__ = [
    "AboveThreshold",
    "Additive",
    "Estimate",
    "Exponential",
    "Gaussian",
    "KeySelection",
    "Laplace",
    "Mechanism",
    "MetricExponential",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "Quantile",
    "RandomizedResponse",
    "Refused",
    "SmoothNoise",
    "TopK",
    "average",
    "count",
    "histogram",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nonnegative",
    "propose_delta",
    "quantile",
    "quantiles",
    "ratio",
    "rounded",
    "std",
    "sum",
    "top_k",
    "variance",
    "vector_mean",
]
