"""Audits: is something as private as it says? Ours or anybody's, as a black box, by replay, or in one run.

An audit proves violations and never privacy: it says which ε is at least revealed, and what it would have found.

>>> import hush
>>> noise = hush.Laplace(sensitivity=1, epsilon=1)
>>> report = hush.audit.audit(lambda rows: noise.release(2 * len(rows)), epsilon="1", seconds=20)
>>> report.violation is None
False
"""

from typing import TYPE_CHECKING

from hush.core.on_demand import on_demand

if TYPE_CHECKING:
    from hush.audit.black_box import Report, Violation, assert_private, audit
    from hush.audit.canaries import OneRun, one_run
    from hush.audit.grey_box import Replayed, replay
    from hush.audit.neighbours import NeighbourPair, hostile
else:
    __getattr__, __all__ = on_demand(__name__)
