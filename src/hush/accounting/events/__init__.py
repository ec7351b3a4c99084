"""Events: records of mechanisms that ran, with the parameters that an accountant needs and no data.

An append-only vocabulary: a type, once written to a ledger, keeps its meaning for ever, and new ones are added.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.accounting.events.base import ComposedEvent, Event, GroupEvent, ParallelEvent, event_from_json
    from hush.accounting.events.mechanisms import (
        ApproximateDPEvent,
        BoundedRangeEvent,
        DiscreteLaplaceEvent,
        LaplaceEvent,
        PartitionSelectionEvent,
        PermuteAndFlipEvent,
        ProposeTestReleaseEvent,
        RandomizedResponseEvent,
        RenyiEvent,
        ZCDPEvent,
    )
    from hush.accounting.pairs.gaussian import DiscreteGaussianEvent, GaussianEvent
    from hush.accounting.pairs.objective import ObjectivePerturbationEvent
    from hush.accounting.pairs.poisson import PoissonGaussianEvent, PoissonLaplaceEvent
    from hush.accounting.pairs.shuffle import ShuffledEvent
    from hush.accounting.pairs.skellam import SkellamEvent
else:
    __getattr__, __all__ = on_demand(
        __name__,
        {
            "hush.accounting.events.base": "ComposedEvent Event GroupEvent ParallelEvent event_from_json",
            "hush.accounting.events.mechanisms": "ApproximateDPEvent BoundedRangeEvent DiscreteLaplaceEvent "
            "LaplaceEvent PartitionSelectionEvent PermuteAndFlipEvent ProposeTestReleaseEvent RandomizedResponseEvent "
            "RenyiEvent ZCDPEvent",
            "hush.accounting.pairs.gaussian": "DiscreteGaussianEvent GaussianEvent",
            "hush.accounting.pairs.objective": "ObjectivePerturbationEvent",
            "hush.accounting.pairs.poisson": "PoissonGaussianEvent PoissonLaplaceEvent",
            "hush.accounting.pairs.shuffle": "ShuffledEvent",
            "hush.accounting.pairs.skellam": "SkellamEvent",
        },
    )
