"""Explanations from a service: the price and the errors of a question or a whole release, read from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hush.accounting.events import Event, event_from_json
from hush.core.format import ToldInLines
from hush.curator.answer import Money


@dataclass(frozen=True, slots=True, repr=False)
class _Told:
    """The common part of all explanations from a service: price and caveats."""

    content: Mapping[str, Any] = field(repr=False)

    @property
    def price(self) -> Money:
        """The price, item by item."""
        return Money.from_json(self.content["exact"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """The facts that a reader must know, for example causes of bias."""
        return tuple(self.content["caveats"])

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        # these fields are for this class alone; without them the JSON equals a local explanation's
        return {name: value for name, value in self.content.items() if name not in {"exact", "drawable", "lines"}}


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation(ToldInLines, _Told):
    """The price of a question and the half-widths of its answers, as a service states them."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that an accountant would charge."""
        return tuple(event_from_json(event) for event in self.content["events"])

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        return str(self.content["keys"])

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return dict(self.content["errors"])

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths for rows in which noise cannot have decided HAVING, for outputs with HAVING over noise."""
        return dict(self.content["errors_if_settled"])

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average about the largest half-width times the number of rows in the group."""
        return dict(self.content["errors_times_rows"])

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        return dict(self.content["rows_off"])

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows a group needs; with fewer, the quantile may be any value."""
        return dict(self.content["rows_needed"])

    def drawable(self) -> bool:
        """Return whether the answer can be drawn."""
        return bool(self.content["drawable"])

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        return list(self.content["lines"])


@dataclass(frozen=True, slots=True, repr=False)
class RemoteReleaseExplanation(_Told):
    """The price of a whole release and its errors, as a service states them."""

    @property
    def event(self) -> Event:
        """The event that an accountant would charge for a model."""
        return event_from_json(self.content["event"])

    def errors(self) -> dict[Any, float]:
        """Return half-widths or deviations: by table, by column, or by the length of an interval."""
        if "tables" in self.content:
            return {tuple(table["columns"]): table["error"] for table in self.content["tables"]}
        return dict(self.content.get("deviations") or self.content.get("errors") or {})

    def __str__(self) -> str:
        return "\n".join(self.content["lines"])

    __repr__ = __str__
