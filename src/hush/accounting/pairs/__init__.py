"""Dominating pairs: the two output laws that a mechanism's worst neighbours can be reduced to, and their cumulants.

A pair (P, Q) dominates a mechanism when every hockey-stick divergence between neighbouring outputs is at most that of
(P, Q). Everything an accountant needs of it is M(z) = ∫ P^{1+z} Q^{-z} (Zhu, Dong, Wang 2022): K = ln M adds under
composition, K(z)/z is the Rényi divergence of order 1 + z, and on a vertical line K gives δ(ε) exactly.
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.accounting.pairs.base import Pair
    from hush.accounting.pairs.gaussian import DiscreteGaussianPair, GaussianPair
    from hush.accounting.pairs.hyperbolic import BoundedRangePair, DiscreteLaplacePair, LaplacePair, ResponsePair
    from hush.accounting.pairs.objective import ObjectivePerturbationPair
    from hush.accounting.pairs.poisson import PoissonGaussianPair, PoissonLaplacePair
    from hush.accounting.pairs.skellam import SkellamPair
else:
    __getattr__, __all__ = on_demand(
        __name__,
        {
            "hush.accounting.pairs.base": "Pair",
            "hush.accounting.pairs.gaussian": "DiscreteGaussianPair GaussianPair",
            "hush.accounting.pairs.hyperbolic": "BoundedRangePair DiscreteLaplacePair LaplacePair ResponsePair",
            "hush.accounting.pairs.objective": "ObjectivePerturbationPair",
            "hush.accounting.pairs.poisson": "PoissonGaussianPair PoissonLaplacePair",
            "hush.accounting.pairs.skellam": "SkellamPair",
        },
    )
