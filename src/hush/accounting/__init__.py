"""Accounting: events in, guarantees out, never any data.

>>> from hush.accounting import GaussianEvent, compose
>>> g = compose([GaussianEvent(sigma=30)] * 1000)
>>> g.epsilon(delta="1e-6")
5.18903664082188...
>>> round(g.renyi(2), 12), round(g.zcdp(), 12), round(g.gdp(), 12)
(1.111111111111, 0.555555555556, 1.054092553389)
"""

from typing import TYPE_CHECKING

from hush.accounting import events
from hush.accounting.events import *  # noqa: F403 - the whole vocabulary, listed there
from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.accounting import theorems
    from hush.accounting.calibration import best_split, calibrate, largest_count
    from hush.accounting.comparison import Row, compare, comparison_chart
    from hush.accounting.filters import (
        Amount,
        Charge,
        Filter,
        GDPFilter,
        PureFilter,
        RenyiFilter,
        ZCDPFilter,
        filter_from_json,
    )
    from hush.accounting.guarantee import Guarantee, compose
    from hush.accounting.interop import from_dp_accounting, from_opacus
    from hush.accounting.plan import Plan
    from hush.core.errors import DescriptionError, UncertainError, UnknownEventError
    from hush.core.rounding import Bound
else:
    __getattr__, __all__ = on_demand(__name__)
    __all__ += events.__all__
