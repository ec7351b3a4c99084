"""Estimators a person would call: a column in, an `Estimate` out."""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.mechanisms.estimators.base import Estimate, propose_delta
    from hush.mechanisms.estimators.categories import histogram, mode, top_k
    from hush.mechanisms.estimators.means import mean, vector_mean
    from hush.mechanisms.estimators.numeric import count, ratio, std, sum, variance  # noqa: A004 - names of the field
    from hush.mechanisms.estimators.ordered import max, median, min, quantile, quantiles  # noqa: A004 - names of the field
    from hush.mechanisms.estimators.postprocess import average, nonnegative, rounded
else:
    __getattr__, __all__ = on_demand(
        __name__,
        {
            "hush.mechanisms.estimators.base": "Estimate propose_delta",
            "hush.mechanisms.estimators.categories": "histogram mode top_k",
            "hush.mechanisms.estimators.means": "mean vector_mean",
            "hush.mechanisms.estimators.numeric": "count ratio std sum variance",
            "hush.mechanisms.estimators.ordered": "max median min quantile quantiles",
            "hush.mechanisms.estimators.postprocess": "average nonnegative rounded",
        },
    )
