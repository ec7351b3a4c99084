"""The base class of events, their JSON form, and events made of events.

An event is written as ``{"version": 1, "type": "laplace", "scale": "2", "sensitivity": "1"}``. Numbers are exact
strings (``"1/3"``, ``"0.1"``) when written; JSON numbers are read as well. ``count`` repeats an event. A type or
version that is not known is refused by name, never skipped: an unread event would be privacy lost and not counted.

>>> event_from_json({"type": "gaussian", "sigma": 2.0, "sensitivity": 1, "count": 3})
ComposedEvent(parts=((GaussianEvent(sigma_squared=4, sensitivity=1), 3),))
>>> event_from_json({"type": "gausian", "sigma": 1})
Traceback (most recent call last):
hush.core.errors.UnknownEventError: ... Did you mean: 'gaussian'?

**Events made of events**: in sequence, in parallel over disjoint parts, or seen by a group.

>>> from hush.accounting.events.mechanisms import LaplaceEvent
>>> ParallelEvent(events=[LaplaceEvent(scale=1), LaplaceEvent(scale=2)]).pure_epsilon()
1.0
>>> moving = ParallelEvent(events=[LaplaceEvent(scale=1)] * 2, neighbours="replace", partition="value")
>>> moving.pure_epsilon()                                     # a unit may leave one part and enter the other
2.0
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from operator import itemgetter
from typing import Any, ClassVar

from hush.accounting.description import FIGURE_BITS, Described, Description, Lost
from hush.accounting.pairs.base import Pair
from hush.core import InvalidValueError, Neighbours, integer
from hush.core.errors import DescriptionError, UnknownEventError
from hush.core.numbers import assign
from hush.core.rounding import Ball, flint, fraction_up, precision, up
from hush.core.work import spend

VERSION = 1
_TYPES: dict[str, type[Event]] = {}


class Event(Described, ABC):
    """A mechanism that ran, described by the parameters that decide its privacy loss.

    >>> from hush.accounting import LaplaceEvent
    >>> isinstance(LaplaceEvent(scale=2), Event), LaplaceEvent(scale=2).pure_epsilon()
    (True, 0.5)
    """

    __slots__ = ()
    type: ClassVar[str]
    """The name in JSON; never reused."""
    _grows: ClassVar[str] = ""
    """The parameter that grows in proportion to a group's size; "" where groups have another law, or none is known."""

    def __init_subclass__(cls) -> None:
        if "type" in vars(cls):
            _TYPES[cls.type] = cls  # with slots a dataclass is made twice, and the second one stays

    @abstractmethod
    def description(self) -> Description:
        """Return the event in the canonical form that compositions are made of."""

    def described(self) -> Description:
        return self.description()

    def group(self, size: int) -> Event:
        """Return the event for a group of ``size`` units that all change at once."""
        if self._grows:
            grown = getattr(self, self._grows) * integer(size, "size", minimum=1)
            return replace(self, **{self._grows: grown})  # type: ignore[type-var]
        raise DescriptionError(
            f"A {self.type} event says nothing about groups of {size}; ask the guarantee's .group() for an (ε,δ) bound."
        )

    def rho(self) -> float:
        """Return the ρ of zCDP, rounded up, apart from ``delta_infinite``; infinite where the event is not zCDP."""
        with precision(FIGURE_BITS):
            return up(self.description().zcdp())

    def to_json(self) -> dict[str, Any]:
        """Return the event as a dictionary of plain JSON values that reads back as an equal event."""
        written: dict[str, Any] = {"version": VERSION, "type": self.type}
        for field_ in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field_.name)
            if field_.name == "sigma_squared":
                # sigma where it is rational, else sigma_squared: both read back exactly. √(n/d) of a reduced
                # fraction is rational exactly if n and d are squares.
                root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
                written |= {"sigma": str(root)} if root * root == value else {"sigma_squared": str(value)}
            else:
                written["q" if field_.name == "rate" else field_.name] = _written(value)
        return written

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Event:
        """Read an event that ``to_json`` wrote, or one of the same form with JSON numbers."""
        return event_from_json(data)

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Event:
        """Return the event with these parameters; a type with a JSON form of its own overrides this."""
        code, defaults = cls.__init__.__code__, cls.__init__.__kwdefaults__ or {}
        names = code.co_varnames[1 : 1 + code.co_kwonlyargcount]
        return cls(**cls._only(data, names, set(names).difference(defaults)))

    @classmethod
    def _only(cls, data: Mapping[str, Any], names: Sequence[str], required: Iterable[str]) -> dict[str, Any]:
        """Refuse parameters that the type does not have, with the nearest that it has, and an event that lacks one."""
        for name, value in data.items():
            if name not in names:
                close = difflib.get_close_matches(str(name), names, n=1)
                hint = f"Did you mean: {close[0]!r}?" if close else f"It has: {', '.join(sorted(names))}."
                allowed = f"left out of an event of type {cls.type!r}"
                raise InvalidValueError(str(name), got=value, allowed=allowed, hint=hint)
        for name in required:
            if name not in data:
                raise InvalidValueError(name, got=None, allowed=f"given for an event of type {cls.type!r}")
        return dict(data)

    def __mul__(self, count: int) -> Event:
        """Return the composition of ``count`` copies of the event."""
        return ComposedEvent(parts=[(self, count)])

    __rmul__ = __mul__

    def __repr__(self) -> str:
        arguments = ", ".join(f"{field_.name}={_plain(getattr(self, field_.name))}" for field_ in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({arguments})"


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Read one event; ``count`` above 1 gives a composition of equal ones."""
    if not hasattr(data, "items"):
        raise InvalidValueError("event", got=data, allowed='an object such as {"type": "laplace", "scale": 1}')
    spend(10)  # JSON from outside: its reading counts as work before a charge
    content = dict(data)
    version = content.pop("version", VERSION)
    if version != VERSION or isinstance(version, bool):  # True == 1 in Python
        raise UnknownEventError(
            "version",
            got=version,
            allowed=f"{VERSION}",
            hint="A newer hush wrote this event: upgrade to account for it.",
        )
    name = content.pop("type", None)
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        close = difflib.get_close_matches(str(name), _TYPES, n=1)
        hint = f"Did you mean: {close[0]!r}?" if close else f"Known types: {', '.join(sorted(_TYPES))}."
        raise UnknownEventError("type", got=name, allowed="a known type of event", hint=hint)
    count = integer(content.pop("count", 1), "count", minimum=0)
    try:
        event = kind._read(content)  # noqa: SLF001 - the registry and the types are one vocabulary
    except TypeError:  # a number where a list belongs, and the like
        raise InvalidValueError("event", got=content, allowed=f"what an event of type {name!r} takes") from None
    if count == 1:
        return event
    return ComposedEvent(parts=[(event, count)])


def as_event(value: object, parameter: str) -> Event:
    """Return an event, or the ``.event`` of a mechanism."""
    if isinstance(value, Event):
        return value
    inner = getattr(value, "event", None)
    if isinstance(inner, Event):
        return inner
    raise InvalidValueError(parameter, got=value, allowed="an event, or something with an .event")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComposedEvent(Event):
    """Events in sequence, each with its count; the queries may depend on earlier answers.

    >>> from hush.accounting import LaplaceEvent
    >>> round(ComposedEvent(parts=[(LaplaceEvent(scale=10), 5)]).pure_epsilon(), 9)
    0.5
    """

    type: ClassVar[str] = "composed"
    parts: tuple[tuple[Event, int], ...]

    def __init__(self, *, parts: Iterable[Event | tuple[Event, int]]) -> None:
        read = []
        for step in parts:
            event, count = step if isinstance(step, tuple) else (step, 1)
            read.append((as_event(event, "parts"), integer(count, "count", minimum=0)))
        assign(self, parts=tuple(read))

    def description(self) -> Description:
        spend(10 * len(self.parts))
        return Description.total((event.description(), count) for event, count in self.parts)

    def group(self, size: int) -> Event:
        return ComposedEvent(parts=[(event.group(size), count) for event, count in self.parts])

    def to_json(self) -> dict[str, Any]:
        events = [{**event.to_json(), "count": count} for event, count in self.parts]
        return {"version": VERSION, "type": self.type, "events": events}

    @classmethod
    def _read(cls, data: Any) -> Event:
        parts = []
        for entry in cls._only(data, ["events"], ["events"])["events"]:
            if not isinstance(entry, dict):
                raise InvalidValueError("events", got=entry, allowed="a list of events")
            content = dict(entry)
            count = integer(content.pop("count", 1), "count", minimum=0)
            parts.append((event_from_json(content), count))
        return cls(parts=parts)


def _written(value: object) -> Any:
    """Return a field's value as JSON: rationals as exact strings."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Event):
        return value.to_json()
    if isinstance(value, tuple):
        return [_written(element) for element in value]
    return value.value if isinstance(value, Enum) else value


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(_plain(element) for element in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return str(value) if isinstance(value, Fraction) else repr(value)


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
        return self.event.group(self.size).description()

    def group(self, size: int) -> Event:
        return GroupEvent(event=self.event, size=self.size * integer(size, "size", minimum=1))

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = cls._only(data, ["event", "size"], ["event", "size"])
        return cls(event=event_from_json(content["event"]), size=content["size"])


class _ApproximateGroup(Event):
    """The JSON type ``approx_dp_group``: reads as a :class:`GroupEvent` of an (ε,δ) event."""

    __slots__ = ()
    type: ClassVar[str] = "approx_dp_group"

    @classmethod
    def _read(cls, data: Any) -> Event:
        names = ("epsilon", "delta", "group")
        content = cls._only(data, names, names)
        size = content.pop("group")
        return GroupEvent(event=event_from_json({"type": "approx_dp", **content}), size=size)


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
                return Description.pure(sum(sorted(map(fraction_up, pures), reverse=True)[: self.touched], Fraction(0)))
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
        worst = ParallelEvent(events=inner, neighbours="add-remove", partition="value")
        return ComposedEvent(parts=[(worst, min(touched, len(inner)))])

    @classmethod
    def _read(cls, data: Any) -> Event:
        names = ("events", "neighbours", "partition")
        content = cls._only(data, names, names)
        return cls(**{**content, "events": [event_from_json(part) for part in content["events"]]})


def _ordered(parts: list[Description]) -> list[Description] | None:
    """Return descriptions from the most to the least costly where they are comparable one by one, else None.

    Two are comparable when both are one pair of one kind that grows with a single parameter, and nothing else.
    """
    if all(description == parts[0] for description in parts):
        return parts
    strengths: list[tuple[Fraction, Description]] = []
    kinds: set[type[Pair]] = set()
    for description in parts:
        pair = next(iter(description.pairs), None)
        strength = None if pair is None or description != Description.of(pair) else pair.strength()
        if pair is None or strength is None:
            return None
        strengths.append((strength, description))
        kinds.add(type(pair))
    # Pairs of different classes have no common order.
    return [part for _, part in sorted(strengths, key=itemgetter(0), reverse=True)] if len(kinds) == 1 else None
