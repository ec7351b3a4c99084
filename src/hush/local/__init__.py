"""Local privacy: every person randomises their own answer, and nobody has to be trusted.

Client and server share one object: ``release`` runs with the person, ``estimate`` and ``error`` where reports are
collected.

>>> from hush import local
>>> oracle = local.frequency(epsilon=1, categories=["never", "sometimes", "often"])
>>> reports = oracle.release(["often"] * 600 + ["never"] * 400)
>>> bool(abs(oracle.estimate(reports)[2] - 0.6) < oracle.error(0.999999, count=1000))
True
"""

from hush.local.frequencies import LocalHashing, ProjectiveGeometry, SubsetSelection, frequency
from hush.local.hitters import HeavyHitters
from hush.local.means import LocalMean, LocalVectorMean
from hush.local.shuffling import Shuffled, shuffled
from hush.local.survey import Form

heavy_hitters, mean, vector_mean = HeavyHitters, LocalMean, LocalVectorMean

__all__ = [
    "Form",
    "HeavyHitters",
    "LocalHashing",
    "LocalMean",
    "LocalVectorMean",
    "ProjectiveGeometry",
    "Shuffled",
    "SubsetSelection",
    "frequency",
    "heavy_hitters",
    "mean",
    "shuffled",
    "vector_mean",
]
