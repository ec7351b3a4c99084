"""Events made of events: in parallel over disjoint parts, or seen by a group (in sequence: :class:`.ComposedEvent`).

>>> from hush.accounting.events.mechanisms import LaplaceEvent
>>> ParallelEvent(events=[LaplaceEvent(scale=1), LaplaceEvent(scale=2)]).pure_epsilon()
1.0
>>> moving = ParallelEvent(events=[LaplaceEvent(scale=1)] * 2, neighbours="replace", partition="value")
>>> moving.pure_epsilon()                                     # a unit may leave one part and enter the other
2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hush.accounting.description import Description, Lost
from hush.accounting.events.base import (
    ComposedEvent,
    Event,
    as_event,
    event_from_json,
    only_parameters,
    registered,
    require,
)
from hush.accounting.events.blackbox import ApproximateDPEvent
from hush.accounting.events.mechanisms import pure
from hush.accounting.pairs import Pair
from hush.core import InvalidValueError, Neighbours, integer
from hush.core.balls import Ball, flint, fraction_up, precision
from hush.core.values import assign
from hush.core.work import spend


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupEvent(Event):
    """An event as it looks to ``size`` units that change together.

    >>> from hush.accounting import LaplaceEvent
    >>> round(GroupEvent(event=LaplaceEvent(scale=10), size=3).pure_epsilon(), 9)
    0.3
    """

    type: ClassVar[str] = "group"
    event: Event
    size: int

    def __init__(self, *, event: Event, size: int) -> None:
        assign(self, event=as_event(event, "event"), size=integer(size, "size", minimum=1))
        self.event.group(self.size)  # an event that says nothing of groups is refused here, not when it is charged

    def description(self) -> Description:
        """Return the group's description."""
        return self.event.group(self.size).description()

    def group(self, size: int) -> Event:
        """Return a group of groups."""
        return GroupEvent(event=self.event, size=self.size * integer(size, "size", minimum=1))

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"event", "size"})
        require(content, cls.type, "event", "size")
        return cls(event=event_from_json(content["event"]), size=content["size"])


class _ApproximateGroup(Event):
    """The JSON type ``approx_dp_group``: reads as a :class:`GroupEvent` of an (ε,δ) event."""

    __slots__ = ()
    type: ClassVar[str] = "approx_dp_group"

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"epsilon", "delta", "group"})
        require(content, cls.type, "epsilon", "delta", "group")
        inner = ApproximateDPEvent(epsilon=content["epsilon"], delta=content["delta"])
        return GroupEvent(event=inner, size=content["group"])


registered(_ApproximateGroup)


@dataclass(frozen=True, slots=True)
class _WorstOf:
    """A Rényi curve: the sum of the ``touched`` largest."""

    events: tuple[Event, ...]
    touched: int

    def at(self, alpha: Fraction) -> Ball:
        largest = [flint().arb(0)] * self.touched
        for event in self.events:
            value = event.description().renyi(alpha)
            # Insertion into a sorted list, with max and min so that overlapping balls need no order.
            for rank, ranked in enumerate(largest):
                largest[rank], value = ranked.max(value), ranked.min(value)
        return sum(largest, flint().arb(0))

    def gaussian(self) -> Fraction:
        return Fraction(0)


@registered
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ParallelEvent(Event):
    """Events on disjoint parts of the data: the cost of the worst part, where a neighbour changes one part only.

    That holds under add/remove with parts chosen by value, and under replace with parts fixed by row number
    (``partition="index"``). Under replace with parts chosen by value, a unit may leave one part and enter another: it
    costs two parts together (two cells of ε = 1 cost 2). Under add/remove parts fixed by row number are refused: a row
    that comes or goes moves all later rows, through every part.

    Where one part dominates the others the description is that part's. Where all are pure it is the largest pure ε.
    Otherwise only the Rényi divergences are combined (the largest at each order).
    """

    type: ClassVar[str] = "parallel"
    events: tuple[Event, ...]
    neighbours: Neighbours
    partition: str

    def __init__(
        self, *, events: Iterable[Event], neighbours: Neighbours | str = "add-remove", partition: str = "value"
    ) -> None:
        assign(
            self, events=tuple(as_event(event, "events") for event in events), neighbours=Neighbours.parse(neighbours)
        )
        if partition not in {"value", "index"}:
            raise InvalidValueError("partition", got=partition, allowed="'value' or 'index'")
        if partition == "index" and self.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidValueError(
                "partition",
                got=partition,
                allowed="'value' when units are added or removed",
                hint="A row that comes or goes shifts the position of every later row, so all parts may change.",
            )
        assign(self, partition=partition)

    @property
    def touched(self) -> int:
        """The number of parts that a neighbour can change."""
        return 2 if self.neighbours is Neighbours.REPLACE and self.partition == "value" else 1

    def description(self) -> Description:
        """Return the worst part's description, or the worst two parts' where a unit can move."""
        if not self.events:
            return Description()
        spend(20 * len(self.events))
        parts = [event.description() for event in self.events]
        ordered = _ordered(parts)
        if ordered is not None:
            return Description.total((description, 1) for description in ordered[: self.touched])
        with precision(160):
            # Not comparable, but pure: randomized response of the largest ε dominates every part.
            pures = [description.pure_epsilon() for description in parts]
            if all(value.is_finite() for value in pures):
                return pure(sum(sorted(map(fraction_up, pures), reverse=True)[: self.touched], Fraction(0)))
        # Otherwise: the largest divergence at each order, and the largest masses, each part's worst separately.
        masses = sorted((fraction_up(description.delta_infinite()) for description in parts), reverse=True)
        lost = sum(masses[: self.touched], Fraction(0))
        infinite: dict[Lost, int] = {Lost(min(lost, Fraction(1)), None): 1} if lost else {}
        return Description(curves={_WorstOf(self.events, self.touched): 1}, infinite=infinite)

    def group(self, size: int) -> Event:
        """Return at most ``size`` parts' groups in sequence: a group of K may touch that many parts, one at a time."""
        inner = tuple(event.group(size) for event in self.events)
        # K units change at most K times as many parts, one after the other: the worst part's group, that often.
        touched = self.touched * integer(size, "size", minimum=1)
        return ComposedEvent(
            parts=[
                (
                    ParallelEvent(events=inner, neighbours="add-remove", partition="value"),
                    min(touched, len(inner)),
                )
            ]
        )

    def _parameters(self) -> dict[str, Any]:
        return {
            "events": [event.to_json() for event in self.events],
            "neighbours": self.neighbours.value,
            "partition": self.partition,
        }

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"events", "neighbours", "partition"})
        require(content, cls.type, "events", "neighbours", "partition")
        return cls(**{**content, "events": [event_from_json(content_of_part) for content_of_part in content["events"]]})


def _ordered(parts: list[Description]) -> list[Description] | None:
    """Return descriptions from the most to the least costly where they are comparable one by one, else None.

    Two are comparable when both are one pair of one kind that grows with a single parameter, and no loss is infinite.
    """

    def size(description: Description) -> tuple[type[Pair], Fraction] | None:
        if description.infinite or description.rho or description.curves or description.ranges:
            return None
        if len(description.pairs) != 1:
            return None
        ((pair, count),) = description.pairs.items()
        if count != 1:
            return None
        strength = pair.strength()
        return None if strength is None else (type(pair), strength)

    if all(description == parts[0] for description in parts):
        return parts
    sizes = [size(description) for description in parts]
    kinds = {kind_and_size[0] if kind_and_size else None for kind_and_size in sizes}
    if None in kinds or len(kinds) != 1:  # pairs of different classes have no common order
        return None
    by_size = sorted(zip(sizes, parts, strict=True), key=lambda sized: sized[0][1], reverse=True)  # type: ignore[index]
    return [description for _, description in by_size]
