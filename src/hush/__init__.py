"""hush: a differential-privacy curator, and the library of exact noise, mechanisms and accounting under it."""

from hush import noise
from hush.core import Grid, HushError, InvalidValueError, Neighbours, OffGridError, PrecisionError, Unit

__all__ = [
    "Grid",
    "HushError",
    "InvalidValueError",
    "Neighbours",
    "OffGridError",
    "PrecisionError",
    "Unit",
    "noise",
]
