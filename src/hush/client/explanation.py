"""What a service says that a question or a whole release would cost: explanations as they came over the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hush.accounting.events import Event, event_from_json
from hush.core.format import ToldInLines
from hush.core.values import dataclass
from hush.curator.answer import Money


@dataclass(frozen=True, slots=True, repr=False)
class _Told:
    """What every explanation of a service says."""

    content: Mapping[str, Any] = field(repr=False)

    @property
    def price(self) -> Money:
        """What it costs, item by item."""
        return Money.from_json(self.content["exact"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader must know, such as what can bias the answers."""
        return tuple(self.content["caveats"])

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {name: value for name, value in self.content.items() if name not in {"exact", "drawable", "lines"}}


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation(ToldInLines, _Told):
    """What a question would cost and how far off its answers would be, as a service says it."""

    @property
    def events(self) -> tuple[Event, ...]:
        """What an accountant would be told."""
        return tuple(event_from_json(event) for event in self.content["events"])

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        return str(self.content["keys"])

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return dict(self.content["errors"])

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths where HAVING may show rows that noise lifted: those of rows that it cannot have."""
        return dict(self.content["errors_if_settled"])

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average what its half-width is at most, about, times the number of rows in the group."""
        return dict(self.content["errors_times_rows"])

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        return dict(self.content["rows_off"])

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows it takes; of fewer it may be anything."""
        return dict(self.content["rows_needed"])

    def drawable(self) -> bool:
        """Return whether the answer can be drawn."""
        return bool(self.content["drawable"])

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        return list(self.content["lines"])


@dataclass(frozen=True, slots=True, repr=False)
class RemoteReleaseExplanation(_Told):
    """What a whole release would cost and how far off it would be, as a service says it."""

    @property
    def event(self) -> Event:
        """What a model would cost an accountant."""
        return event_from_json(self.content["event"])

    def errors(self) -> dict[Any, float]:
        """Return half-widths or deviations: by table, by column, or by the length of an interval."""
        if "tables" in self.content:
            return {tuple(table["columns"]): table["error"] for table in self.content["tables"]}
        return dict(self.content.get("deviations") or self.content.get("errors") or {})

    def __str__(self) -> str:
        return "\n".join(self.content["lines"])

    __repr__ = __str__
