r"""Post-processing of released numbers, which costs nothing: rounding, consistency, averages.

**Non-negative counts with a total.** Setting negative counts to 0 makes their sum too large. The nearest point of the
simplex {x ≥ 0, Σx = total}, by ℓ₂ distance, subtracts one constant from all and cuts at 0 (Duchi, Shalev-Shwartz,
Singer, Chandra 2008).

**Repeated answers.** Independent unbiased answers y_i of variances v_i are best averaged with weights 1/v_i; the
result has variance 1/Σ(1/v_i).

>>> nonnegative([5, -2, 3], total=6).tolist()
[4.0, 0.0, 2.0]
>>> average([10, 14], variances=[1, 3])
(11.0, 0.75)
>>> rounded([1.26, 2.5], step="0.5").tolist()
[1.5, 2.5]
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Number, exact, positive
from hush.core.columns import as_array, on_grid, whole_steps


def rounded(values: Any, *, step: Number = 1) -> npt.NDArray[Any]:
    """Round released values to multiples of a step.

    >>> import hush
    >>> hush.rounded([1.26, 2.5], step="0.5").tolist()
    [1.5, 2.5]
    """
    unit = positive(step, "step")
    return np.asarray(on_grid(whole_steps(as_array(values, "values"), unit), unit))


def nonnegative(values: Any, *, total: Number | None = None) -> npt.NDArray[np.float64]:
    """Return the nearest non-negative values with this total (by default the values' own, if that is not negative).

    >>> import hush
    >>> hush.nonnegative([5, -2, 3], total=6).tolist()
    [4.0, 0.0, 2.0]
    """
    array = np.nan_to_num(as_array(values, "values").astype(np.float64))
    flat = array.ravel()
    if not flat.size:
        return array
    goal = max(float(flat.sum()), 0.0) if total is None else float(exact(total, "total"))
    if goal < 0:
        raise InvalidValueError("total", got=total, allowed="a number of at least 0")
    # The k largest stay positive; they share the excess of their sum over the goal equally (Duchi et al. 2008).
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - goal) / np.arange(1, flat.size + 1)
    # With a goal of 0 none stays positive: the largest value itself is taken from all.
    last_positive = int(np.flatnonzero(ordered > excess)[-1]) if np.any(ordered > excess) else 0
    return np.asarray(np.maximum(array - excess[last_positive], 0.0))


def average(values: Any, *, variances: Any) -> tuple[float, float]:
    """Return the inverse-variance average of independent answers, and its variance.

    >>> import hush
    >>> hush.average([10, 14], variances=[1, 3])
    (11.0, 0.75)
    """
    answers, spreads = as_array(values, "values").ravel(), as_array(variances, "variances").ravel()
    if answers.size != spreads.size or not answers.size:
        raise InvalidValueError(
            "variances", got=f"{spreads.size} numbers", allowed=f"one for each of {answers.size} values"
        )
    weights = [1 / positive(v, "variances") for v in spreads.tolist()]
    mass = sum(weights, Fraction(0))
    middle = sum((w * exact(y, "values") for w, y in zip(weights, answers.tolist(), strict=True)), Fraction(0)) / mass
    return float(middle), float(1 / mass)
