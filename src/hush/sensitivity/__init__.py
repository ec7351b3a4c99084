"""The sensitivity of an answer to one unit: global, local at the data at hand, and smooth in between."""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.sensitivity.finite import FiniteFunction, distance, hamming, l1, l2, linf
    from hush.sensitivity.statistics import global_sensitivity, local_sensitivity, smooth_sensitivity
else:
    __getattr__, __all__ = on_demand(__name__)
