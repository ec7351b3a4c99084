"""Events: records of mechanisms that ran, with the parameters that an accountant needs and no data.

An append-only vocabulary: a type, once written to a ledger, keeps its meaning for ever, and new ones are added.
"""

from hush.accounting.events.base import ComposedEvent, Event, event_from_json
from hush.accounting.events.blackbox import (
    ApproximateDPEvent,
    PartitionSelectionEvent,
    ProposeTestReleaseEvent,
    RenyiEvent,
    ShuffledEvent,
    ZCDPEvent,
)
from hush.accounting.events.combined import GroupEvent, ParallelEvent
from hush.accounting.events.mechanisms import (
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PermuteAndFlipEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    RandomizedResponseEvent,
    SkellamEvent,
)

__all__ = [
    "ApproximateDPEvent",
    "BoundedRangeEvent",
    "ComposedEvent",
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "GaussianEvent",
    "GroupEvent",
    "LaplaceEvent",
    "ObjectivePerturbationEvent",
    "ParallelEvent",
    "PartitionSelectionEvent",
    "PermuteAndFlipEvent",
    "PoissonGaussianEvent",
    "PoissonLaplaceEvent",
    "ProposeTestReleaseEvent",
    "RandomizedResponseEvent",
    "RenyiEvent",
    "ShuffledEvent",
    "SkellamEvent",
    "ZCDPEvent",
    "event_from_json",
]
