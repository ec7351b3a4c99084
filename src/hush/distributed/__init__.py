"""Privacy without a trusted curator: noise made by all together, and sums that nobody sees without it.

`LaplaceShare` and `SkellamShare` are shares of noise that add up to exactly the noise of a curator. `Session`,
`aggregate` and `join` run a secure sum of counters between processes. `price_of_trust` compares what a count costs in
error when the curator, an aggregator, a shuffler or nobody is trusted.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.distributed.messages import new_key
    from hush.distributed.network import aggregate, join, listen
    from hush.distributed.party import Aggregator, NoisySum, Party
    from hush.distributed.session import AggregationError, Session
    from hush.distributed.shares import LaplaceShare, SkellamShare
    from hush.distributed.trust import TrustRow, chart_of_trust, price_of_trust
else:
    __getattr__, __all__ = on_demand(__name__)
