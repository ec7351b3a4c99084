"""The base class of events, and their JSON form.

An event is written as ``{"version": 1, "type": "laplace", "scale": "2", "sensitivity": "1"}``. Numbers are exact
strings (``"1/3"``, ``"0.1"``) when written; JSON numbers are read as well. ``count`` repeats an event. A type or
version that is not known is refused by name, never skipped: an unread event would be privacy lost and not counted.

>>> event_from_json({"type": "gaussian", "sigma": 2.0, "sensitivity": 1, "count": 3})
ComposedEvent(parts=((GaussianEvent(sigma_squared=4, sensitivity=1), 3),))
>>> event_from_json({"type": "gausian", "sigma": 1})
Traceback (most recent call last):
hush.accounting.errors.UnknownEventError: ... Did you mean: 'gaussian'?
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from hush.accounting.description import Description
from hush.accounting.errors import DescriptionError, UnknownEventError
from hush.core import InvalidValueError, Number, exact, integer
from hush.core.balls import precision, up
from hush.core.values import assign
from hush.core.work import spend

VERSION = 1
_TYPES: dict[str, type[Event]] = {}
_WORKING_BITS = 96
"""The precision of figures that are then rounded up to floats."""

E = TypeVar("E", bound="type[Event]")


class Event(ABC):
    """A mechanism that ran, described by the parameters that decide its privacy loss.

    >>> from hush.accounting import LaplaceEvent
    >>> isinstance(LaplaceEvent(scale=2), Event), LaplaceEvent(scale=2).pure_epsilon()
    (True, 0.5)
    """

    __slots__ = ()
    type: ClassVar[str]
    _names: ClassVar[tuple[str, ...]] = ()
    """The parameters in JSON, where they are others than the fields."""

    @abstractmethod
    def description(self) -> Description:
        """Return the event in the canonical form that compositions are made of."""

    def group(self, size: int) -> Event:
        """Return the event for a group of ``size`` units that all change at once."""
        raise DescriptionError(
            f"A {self.type} event says nothing about groups of {size}; ask the guarantee's .group() for an (ε,δ) bound."
        )

    @property
    def delta_infinite(self) -> float:
        """The probability, rounded up, that the loss is infinite; the Rényi divergences below hold otherwise."""
        with precision(_WORKING_BITS):
            return min(1.0, up(self.description().delta_infinite()))

    def renyi(self, alpha: Number) -> float:
        """Return the Rényi divergence of order ``alpha`` in the worse direction, rounded up.

        It holds unless an event of probability ``delta_infinite`` happens (approximate Rényi DP). Infinite where the
        event has none at this order; at ``alpha = inf`` it is the pure ε.
        """
        if alpha in {math.inf, "inf"}:
            return self.description_pure()
        order = read_order(alpha)
        with precision(_WORKING_BITS):
            return max(0.0, up(self.description().renyi(order)))

    def description_pure(self) -> float:
        """Return the largest finite loss, rounded up: pure ε but for the mass where the loss is infinite."""
        with precision(_WORKING_BITS):
            return up(self.description().finite().pure_epsilon())

    def pure_epsilon(self) -> float:
        """Return the smallest known ε of pure ε-DP, rounded up; infinite where the event is not pure."""
        with precision(_WORKING_BITS):
            return up(self.description().pure_epsilon())

    def rho(self) -> float:
        """Return the ρ of zCDP, rounded up, apart from ``delta_infinite``; infinite where the event is not zCDP."""
        with precision(_WORKING_BITS):
            return up(self.description().zcdp())

    def to_json(self) -> dict[str, Any]:
        """Return the event as a dictionary of plain JSON values that reads back as an equal event."""
        return {"version": VERSION, "type": self.type, **self._parameters()}

    def _parameters(self) -> dict[str, Any]:
        return {field_.name: written(getattr(self, field_.name)) for field_ in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Event:
        """Read an event that ``to_json`` wrote, or one of the same form with JSON numbers."""
        return event_from_json(data)

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Event:
        """Return the event with these parameters; a type with a JSON form of its own overrides this."""
        names = cls._names or {field_.name for field_ in fields(cls)}  # type: ignore[arg-type]
        return cls(**only_parameters(cls.type, data, set(names)))

    def __mul__(self, count: int) -> Event:
        """Return the composition of ``count`` copies of the event."""
        return ComposedEvent(parts=[(self, count)])

    __rmul__ = __mul__

    def __repr__(self) -> str:
        arguments = ", ".join(f"{field_.name}={_plain(getattr(self, field_.name))}" for field_ in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({arguments})"


def registered(cls: E) -> E:
    """Add an event type to the vocabulary."""
    _TYPES[cls.type] = cls
    return cls


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


@registered
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
        """Return the sum of the parts."""
        spend(10 * len(self.parts))
        return Description.total((event.description(), count) for event, count in self.parts)

    def group(self, size: int) -> Event:
        """Return the composition of the groups' events."""
        return ComposedEvent(parts=[(event.group(size), count) for event, count in self.parts])

    def _parameters(self) -> dict[str, Any]:
        return {"events": [{**event.to_json(), "count": count} for event, count in self.parts]}

    @classmethod
    def _read(cls, data: Any) -> Event:
        content = only_parameters(cls.type, data, {"events"})
        require(content, cls.type, "events")
        return cls(parts=[_counted_part(entry) for entry in content["events"]])


def _counted_part(entry: Any) -> tuple[Event, int]:
    if not isinstance(entry, dict):
        raise InvalidValueError("events", got=entry, allowed="a list of events")
    content = dict(entry)
    count = integer(content.pop("count", 1), "count", minimum=0)
    return event_from_json(content), count


def only_parameters(kind: str, data: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Refuse parameters that the type does not have, and name the nearest that it has."""
    for name in data:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"Did you mean: {close[0]!r}?" if close else f"It has: {', '.join(sorted(names))}."
            raise InvalidValueError(
                str(name), got=data[name], allowed=f"left out of an event of type {kind!r}", hint=hint
            )
    return dict(data)


def require(data: Mapping[str, Any], kind: str, *names: str) -> None:
    """Refuse an event that lacks a parameter."""
    for name in names:
        if name not in data:
            raise InvalidValueError(name, got=None, allowed=f"given for an event of type {kind!r}")


def read_order(alpha: object) -> Fraction:
    """Return a Rényi order, above 1."""
    order = exact(alpha, "alpha", allowed="a number above 1")
    if order <= 1:
        raise InvalidValueError("alpha", got=alpha, allowed="a number above 1")
    return order


def written(value: object) -> Any:
    """Return a field's value as JSON: rationals as exact strings."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Event):
        return value.to_json()
    if isinstance(value, tuple):
        return [written(element) for element in value]
    return value


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(_plain(element) for element in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return str(value) if isinstance(value, Fraction) else repr(value)
