"""Events: records of mechanisms that ran, with the parameters that an accountant needs and no data.

An append-only vocabulary: a type, once written to a ledger, keeps its meaning for ever, and new ones are added.
"""

from typing import TYPE_CHECKING

from hush.accounting.events.base import ComposedEvent, Event, GroupEvent, ParallelEvent, event_from_json
from hush.accounting.events.mechanisms import (
    ApproximateDPEvent,
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PartitionSelectionEvent,
    PermuteAndFlipEvent,
    PoissonGaussianEvent,
    PoissonLaplaceEvent,
    ProposeTestReleaseEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    ShuffledEvent,
    SkellamEvent,
    ZCDPEvent,
)

if not TYPE_CHECKING:  # a type checker takes the names from the imports
    __all__ = [name for name in dir() if name.endswith("Event") or name == "event_from_json"]
