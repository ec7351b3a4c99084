"""Which local frequency oracle to use: the one with the smallest variance whose reports stay small.

Randomized response while a report of one category is best, subset selection up to 256 categories, projective geometry
response beyond.

>>> type(frequency(epsilon=3, categories=4)).__name__
'RandomizedResponse'
>>> type(frequency(epsilon=1, categories=100)).__name__
'SubsetSelection'
>>> type(frequency(epsilon=1, categories=10**5)).__name__
'ProjectiveGeometry'
"""

from __future__ import annotations

from typing import Any

from hush.core import Number
from hush.local.projective_geometry import ProjectiveGeometry
from hush.local.subset_selection import SubsetSelection, subset_size
from hush.mechanisms.base import ordinary
from hush.mechanisms.randomized_response import RandomizedResponse, read_categories

__all__ = ["frequency"]

_SUBSET_LIMIT = 256


def frequency(*, epsilon: Number, categories: Any) -> RandomizedResponse | SubsetSelection | ProjectiveGeometry:
    """Return the local oracle for how often each category occurs.

    ``categories`` is a number k (the answers are 0 … k-1) or a list of names. A person's device calls ``release``;
    whoever collects the reports calls ``estimate`` and ``error``.
    """
    names, budget = read_categories(categories), ordinary(epsilon, "epsilon")
    if subset_size(budget, len(names)) == 1:
        return RandomizedResponse(epsilon=budget, categories=names)
    if len(names) <= _SUBSET_LIMIT:
        return SubsetSelection(epsilon=budget, categories=names)
    return ProjectiveGeometry(epsilon=budget, categories=names)
