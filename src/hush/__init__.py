"""hush: a differential-privacy curator, and the library of exact noise, mechanisms and accounting under it.

Names are imported when they are first used, so that ``import hush`` is quick and loads no engine.

>>> import hush
>>> hush.Laplace(sensitivity=1, epsilon="0.1").event
DiscreteLaplaceEvent(parameter=1/10, sensitivity=1)
"""

from typing import TYPE_CHECKING, Any

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush import accounting, audit, distributed, learn, local, noise, sensitivity, synth, utility
    from hush.accounting import Bound, Guarantee, best_split, calibrate, compare, compose, largest_count
    from hush.client import RemoteCurator, connect
    from hush.core import (
        BudgetExceededError,
        Grid,
        HushError,
        InvalidValueError,
        Neighbours,
        OffGridError,
        PrecisionError,
        Unit,
    )
    from hush.curator.answer import Answer
    from hush.curator.curator import Curator
    from hush.curator.explanation import Explanation
    from hush.curator.opening import open_policy as open  # noqa: A004 - the public name is hush.open
    from hush.curator.opening import protect
    from hush.local import LocalHashing, SubsetSelection
    from hush.local import frequency as frequency_oracle
    from hush.mechanisms import (
        AboveThreshold,
        Estimate,
        Exponential,
        Gaussian,
        KeySelection,
        Laplace,
        MetricExponential,
        PermuteAndFlip,
        ProposeTestRelease,
        Quantile,
        RandomizedResponse,
        Refused,
        SmoothNoise,
        TopK,
        average,
        count,
        histogram,
        max,  # noqa: A004 - hush.max is a private maximum
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
    from hush.utility import plain
else:
    __getattr__, _ = on_demand(__name__)


__all__ = [
    "AboveThreshold", "Answer", "Bound", "BudgetExceededError", "Curator", "Estimate", "Explanation", "Exponential",
    "Gaussian", "Grid", "Guarantee", "HushError", "InvalidValueError", "KeySelection", "Laplace", "LocalHashing",
    "MetricExponential", "Neighbours", "OffGridError", "PermuteAndFlip", "PrecisionError", "ProposeTestRelease",
    "Quantile", "RandomizedResponse", "Refused", "RemoteCurator", "SmoothNoise", "SubsetSelection", "TopK", "Unit",
    "accounting", "audit", "average", "best_split", "calibrate", "compare", "compose", "connect", "count",
    "distributed", "frequency_oracle", "histogram", "largest_count", "learn", "local", "max", "mean", "median", "min",
    "mode", "noise", "nonnegative", "open", "plain", "propose_delta", "protect", "quantile", "quantiles", "ratio",
    "rounded", "sensitivity", "std", "sum", "synth", "top_k", "utility", "variance", "vector_mean",
]  # fmt: skip


def load_ipython_extension(shell: Any) -> None:
    """Add ``%hush`` and ``%%hush`` to a notebook, after ``%load_ext hush``."""
    from hush.notebook import magic

    shell.register_magic_function(magic(shell), "line_cell", "hush")


def __dir__() -> list[str]:
    return __all__
