"""Accounting: events in, guarantees out, never any data.

>>> from hush.accounting import GaussianEvent, compose
>>> g = compose([GaussianEvent(sigma=30)] * 1000)
>>> g.epsilon(delta="1e-6")
5.18903664082188...
>>> round(g.renyi(2), 12), round(g.zcdp(), 12), round(g.gdp(), 12)
(1.111111111111, 0.555555555556, 1.054092553389)
"""

from typing import TYPE_CHECKING

from hush.accounting.events import __all__ as _events  # type: ignore[attr-defined]
from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.accounting import theorems
    from hush.accounting.calibration import best_split, calibrate, largest_count
    from hush.accounting.comparison import Row, compare, comparison_chart
    from hush.accounting.events import *  # noqa: F403 - the whole vocabulary, listed there
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
    __getattr__, __all__ = on_demand(
        __name__,
        {
            "hush.accounting.events": " ".join(_events),
            "hush.accounting.calibration": "best_split calibrate largest_count",
            "hush.accounting.comparison": "Row compare comparison_chart",
            "hush.core.errors": "DescriptionError UncertainError UnknownEventError",
            "hush.accounting.filters": "Amount Charge Filter GDPFilter PureFilter RenyiFilter ZCDPFilter "
            "filter_from_json",
            "hush.accounting.guarantee": "Guarantee compose",
            "hush.accounting.interop": "from_dp_accounting from_opacus",
            "hush.accounting.plan": "Plan",
            "hush.accounting.theorems": "theorems=.",
            "hush.core.rounding": "Bound",
        },
    )
