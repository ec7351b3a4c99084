"""How much one unit can change an answer: globally, at the data at hand, and smoothly in between."""

from hush.sensitivity.finite import FiniteFunction
from hush.sensitivity.metrics import distance, hamming, l1, l2, linf
from hush.sensitivity.statistics import global_sensitivity, local_sensitivity, smooth_sensitivity

__all__ = [
    "FiniteFunction",
    "distance",
    "global_sensitivity",
    "hamming",
    "l1",
    "l2",
    "linf",
    "local_sensitivity",
    "smooth_sensitivity",
]
