"""Local privacy: every person randomises their own answer, and nobody has to be trusted.

Client and server share one object: ``release`` runs with the person, ``estimate`` and ``error`` where reports are
collected.

>>> from hush import local
>>> oracle = local.frequency(epsilon=1, categories=["never", "sometimes", "often"])
>>> reports = oracle.release(["often"] * 600 + ["never"] * 400)
>>> bool(abs(oracle.estimate(reports)[2] - 0.6) < oracle.error(0.999999, count=1000))
True
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.local.frequencies import LocalHashing, ProjectiveGeometry, SubsetSelection, frequency
    from hush.local.hitters import HeavyHitters
    from hush.local.hitters import HeavyHitters as heavy_hitters  # noqa: N813 - a name as a function has
    from hush.local.means import LocalMean, LocalVectorMean
    from hush.local.means import LocalMean as mean  # noqa: N813 - likewise
    from hush.local.means import LocalVectorMean as vector_mean  # noqa: N813
    from hush.local.shuffling import Shuffled, shuffled
    from hush.local.survey import Form
else:
    __getattr__, __all__ = on_demand(__name__)
