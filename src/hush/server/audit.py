"""Acts of owners, in the ledger's chain: who let whom in, with which role, and which policy came into force.

The people's store and the ledger are two stores, and no change spans both. So an act is first written down beside the
change that it tells of, in the same transaction; from there it goes into the ledger, under an identity that makes it go
there once, and is then forgotten. Whoever does this next completes what a crash left: a worker at its start and after
each act, or a command. As long as there is no ledger, acts wait for it.

``hush ledger verify`` checks them with everything else, ``hush ledger acts`` and the page Audit show them.

>>> from hush.ledger import Actor, Ledger, Role
>>> from hush.server.people import People, acting
>>> people, ledger = People.in_memory(), Ledger.in_memory()
>>> with acting("weiss"):
...     people.add("alice", roles=[Role.ANALYST])
>>> record(people, ledger), record(people, ledger)
(1, 0)
>>> [f"{act.by} {act}" for act in ledger.acts(Actor.owner("weiss"))][-1]
'weiss added alice (roles: analyst)'
"""

from __future__ import annotations

from hush.ledger import Ledger, OwnerAct
from hush.server.people import People


def record(people: People, ledger: Ledger) -> int:
    """Move what waits into the ledger, and return how many acts that were."""
    people.acted = False
    waiting = people.outbox()
    for act in waiting:
        ledger.record(act)
        people.recorded(act)
    return len(waiting)


def policy_in_force(ledger: Ledger, digest: str) -> bool:
    """Record which policy is in force, by its SHA-256, unless it is the one that was recorded last."""
    return ledger.record(OwnerAct(identity="policy", by="policy file", what="policy", detail={"sha256": digest}))
