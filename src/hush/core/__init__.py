"""Exact numbers, the public grid, units and neighbours, and the error tree.

Everything else in hush stands on these four ideas; this layer imports nothing of the others.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.core.errors import BudgetExceededError, HushError, InvalidValueError, OffGridError, PrecisionError
    from hush.core.grid import Grid
    from hush.core.neighbours import Neighbours, Unit
    from hush.core.numbers import (
        MAX_DIGITS,
        Number,
        exact,
        fraction_between,
        integer,
        nonnegative,
        positive,
        probability,
    )
else:
    __getattr__, __all__ = on_demand(__name__)
