r"""Histograms, the most common value, the k most common.

Categories are public: declared names, a range, or the edges of bins; never the data's own. Rows of no category are
left out. A row changes one cell by 1 under add/remove, two cells under replace: ℓ₁ sensitivity 1 or 2.

Counts under add/remove all move the same way, so choosing among them needs only half the noise (``monotonic``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, Neighbours, Number, exact, integer
from hush.core.grid import any_array, as_floats, one_column, present, require_column
from hush.mechanisms.base import choose, ordinary
from hush.mechanisms.estimators.base import Estimate, estimated, read_delta
from hush.mechanisms.gaussian import Gaussian
from hush.mechanisms.grouped import GroupedLaplace, GroupedMode, Sparse
from hush.mechanisms.randomized_response import codes, read_categories
from hush.mechanisms.selection import PermuteAndFlip, TopK
from hush.sensitivity.statistics import read_bounds

ADD_REMOVE = Neighbours.ADD_REMOVE
_PUBLIC = "Categories are public: declare them, do not take them from the data."


def histogram(
    data: Any,
    *,
    categories: Any = None,
    bins: int | Sequence[Number] | None = None,
    bounds: tuple[Number, Number] | None = None,
    epsilon: Number,
    delta: Number | None = None,
    neighbours: Neighbours | str = ADD_REMOVE,
    method: str = "laplace",
) -> Estimate:
    """Count the rows of every category, or between edges ``bins`` (closed below, open above; the last closed).

    ``categories`` is a list of names, or a number k for whole numbers 0 … k-1. ``bins`` may be a number of bins of one
    width between ``bounds``. The error is for one cell.

    >>> import hush
    >>> hush.histogram([1, 2, 2, 3, 99] * 100, bins=[0, 2, 4], epsilon=20).value.tolist()
    [100, 300]
    """
    relation = Neighbours.parse(neighbours)
    if isinstance(bins, (int, np.integer)):
        number = integer(bins, "bins", minimum=1, maximum=2**24)
        if bounds is None:
            raise InvalidValueError(
                "bounds", got=None, allowed="the ends of the bins, such as bounds=(0, 100)",
                hint="Where bins lie is public: declare it, do not take it from the data.",
            )  # fmt: skip
        lower, upper = read_bounds(bounds)
        bins = [lower + (upper - lower) * Fraction(i, number) for i in range(number + 1)]
    elif bounds is not None:
        raise InvalidValueError("bounds", got=bounds, allowed="only beside a number of bins; leave it out")
    counts = tally(data, categories, bins)
    noise: GroupedLaplace | Gaussian
    if choose(method, ("laplace", "gaussian")) == "laplace":
        noise = GroupedLaplace.for_epsilon(ordinary(epsilon, "epsilon"), sensitivity=relation.units_touched)
    else:
        size = 0
        if relation is Neighbours.REPLACE:
            size = len(data) if isinstance(data, (list, tuple)) else any_array(data, "data").size
        slip = read_delta(delta, size, relation)
        # A replaced row moves two cells by 1: √2 in ℓ₂, rounded up, and two coordinates.
        touched = relation.units_touched
        sensitivity = Fraction(1) if touched == 1 else Fraction(1_414_213_562_374, 10**12)
        noise = Gaussian(sensitivity=sensitivity, epsilon=epsilon, delta=slip, step=1, coordinates=touched)
    return estimated(noise, noise.release(counts), method, noise.error)


def mode(
    data: Any,
    *,
    categories: Any,
    epsilon: Number,
    neighbours: Neighbours | str = ADD_REMOVE,
    method: str = "exponential",
) -> Estimate:
    """Choose a most common category; the error is its shortfall in rows against the most common one.

    Parameters
    ----------
    method
        "exponential", the mechanism of a question's `MODE(x)` and the cheaper one to compose; or "permute-and-flip",
        which errs less, by up to a half, where nothing else is asked.

    Examples
    --------
    >>> import hush
    >>> hush.mode(["flu"] * 9 + ["hiv"], categories=["flu", "hiv"], epsilon=10**6).value
    'flu'
    """
    relation = Neighbours.parse(neighbours)
    choose(method, ("exponential", "permute-and-flip"))
    names, counts = read_categories(categories, least=1, hint=_PUBLIC), tally(data, categories, None)
    if method == "permute-and-flip":
        flip = PermuteAndFlip(sensitivity=1, epsilon=epsilon, monotonic=relation is ADD_REMOVE)
        chosen, half_width = names[flip.release(counts)], partial(flip.error, candidates=len(names))
        return estimated(flip, chosen, method, half_width, unit="count")
    # Replacing a row moves one count up and another down: as if one row counted twice.
    law = GroupedMode(values=len(names), epsilon=ordinary(epsilon, "epsilon"), rows=relation.units_touched)
    occupied = np.flatnonzero(counts)
    (number,) = law.release([Sparse(bins=occupied, weights=counts[occupied])]).tolist()
    return estimated(law, names[number], method, law.error, unit="count")


def top_k(
    data: Any, k: int, *, categories: Any, epsilon: Number, neighbours: Neighbours | str = ADD_REMOVE
) -> Estimate:
    """Choose the k most common categories, best first.

    >>> import hush
    >>> hush.top_k(["a"] * 900 + ["b"] * 500 + ["c"] * 10, 2, categories=["a", "b", "c", "d"], epsilon=5).value
    ['a', 'b']
    """
    relation = Neighbours.parse(neighbours)
    names, counts = read_categories(categories, least=1, hint=_PUBLIC), tally(data, categories, None)
    law = TopK(k=k, sensitivity=1, epsilon=epsilon, monotonic=relation is ADD_REMOVE)
    chosen = [names[index] for index in law.release(counts)]
    return estimated(law, chosen, "top-k", partial(law.error, candidates=len(names)), unit="count")


def tally(data: Any, categories: Any, bins: Sequence[Number] | None) -> npt.NDArray[np.int64]:
    """Count rows exactly; nothing a row holds makes it fail."""
    if (categories is None) == (bins is None):
        raise InvalidValueError("categories", got=categories, allowed="given, or else 'bins', and not both")
    if bins is not None:
        if not isinstance(bins, (list, tuple, range, np.ndarray)) or np.ndim(bins) != 1:
            raise InvalidValueError("bins", got=bins, allowed="a list of at least two edges in increasing order")
        edges = [exact(edge, "bins") for edge in bins]
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
            raise InvalidValueError("bins", got=bins, allowed="at least two edges in increasing order")
        return np.histogram(as_floats(present(data)), [float(edge) for edge in edges])[0].astype(np.int64)
    names = read_categories(categories, least=1, hint=_PUBLIC)
    require_column(data)
    column = one_column(any_array(data, "data")) if not isinstance(data, (list, tuple)) else None
    if column is not None and column.dtype.kind in "iu" and isinstance(names, range) and names.step == 1:
        code = column[(column >= names.start) & (column < names.stop)].astype(np.int64) - names.start
        return np.bincount(code, minlength=len(names)).astype(np.int64)
    code = codes(data, tuple(names))
    return np.bincount(code[code >= 0], minlength=len(names)).astype(np.int64)
