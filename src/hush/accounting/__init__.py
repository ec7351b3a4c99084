"""Accounting: events in, guarantees out, never any data.

>>> from hush.accounting import GaussianEvent, compose
>>> g = compose([GaussianEvent(sigma=30)] * 1000)
>>> g.epsilon(delta="1e-6")
5.18903664082188...
>>> round(g.renyi(2), 12), round(g.zcdp(), 12), round(g.gdp(), 12)
(1.111111111111, 0.555555555556, 1.054092553389)
"""

from hush.accounting.bound import Bound
from hush.accounting.errors import DescriptionError, UnknownEventError
from hush.accounting.events import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PartitionSelectionEvent,
    PermuteAndFlipEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    ProposeTestReleaseEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    ZCDPEvent,
    event_from_json,
)
from hush.accounting.guarantee import Guarantee, compose

__all__ = [
    "ApproximateDPEvent",
    "Bound",
    "BoundedRangeEvent",
    "ComposedEvent",
    "DescriptionError",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "GaussianEvent",
    "GroupEvent",
    "Guarantee",
    "LaplaceEvent",
    "ParallelEvent",
    "PartitionSelectionEvent",
    "PermuteAndFlipEvent",
    "PoissonGaussianEvent",
    "PoissonLaplaceEvent",
    "ProposeTestReleaseEvent",
    "RandomizedResponseEvent",
    "RenyiEvent",
    "UnknownEventError",
    "ZCDPEvent",
    "compose",
    "event_from_json",
]
