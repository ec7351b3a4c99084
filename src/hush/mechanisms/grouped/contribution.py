"""How many groups of a question neighbours differ in: what every mechanism for groups is calibrated to.

A question answers in groups. One unit counts in at most ``groups`` of them, because its other rows are left out before
anything is computed (`hush.query.plan.limits`), and neighbours differ by ``units``: one that comes or goes, or two
where one is replaced by another. So at most groups·units groups differ between neighbours, its *cells*.

>>> Contribution(groups=3, units=2).cells
6
"""

from __future__ import annotations

from dataclasses import dataclass

from hush.accounting import ComposedEvent, Event
from hush.core import integer


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """In how many groups a unit counts, and by how many units neighbours differ."""

    groups: int = 1
    units: int = 1

    def __post_init__(self) -> None:
        integer(self.groups, "groups", minimum=1)
        integer(self.units, "units", minimum=1, maximum=2)

    @property
    def cells(self) -> int:
        """How many groups differ between neighbours, at most."""
        return self.groups * self.units

    def in_each_group(self, event: Event) -> Event:
        """Return the event of one release in each of a unit's groups."""
        return event if self.groups == 1 else ComposedEvent(parts=[(event, self.groups)])


ONE_GROUP = Contribution()
"""One unit comes or goes, and counts in one group."""
