"""Public facts about tables: columns, types, paths to the unit, and limits on rows and groups per unit.

A `Schema` is everything the front end and the planner may know of a data set; it comes from the owner's policy and
never from the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from hush.core import Neighbours
from hush.core.numbers import assign
from hush.query.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a foreign-key path: this table's ``column`` refers to ``key``, the primary key of ``table``."""

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPath:
    """Where a table's rows find their unit: after the hops (none: in the table itself), in ``column``."""

    column: str
    hops: tuple[Hop, ...] = ()

    def columns(self, table: str) -> Iterator[tuple[str, str]]:
        """Yield the columns by which the rows of a table find their unit, each after its own table."""
        for hop in self.hops:
            yield table, hop.column
            yield hop.table, hop.key
            table = hop.table
        yield table, self.column


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """A released estimate, made public by the owner, of the share of rows that ``max_rows`` or ``max_groups`` cuts."""

    by: str | None
    """The column that defines the groups; None for rows."""
    limit: int
    share: Fraction
    error: Fraction
    receipt: str
    when: str

    @property
    def key(self) -> str:
        """The name of the bound in a policy."""
        return "max_rows" if self.by is None else "max_groups"

    @property
    def percent(self) -> str:
        """The share and its half-width, to two digits of the latter.

        >>> Beyond(by=None, limit=3, share=Fraction("0.14085"), error=Fraction("0.00018"), receipt="1", when="").percent
        '14.085% ± 0.018%'
        """
        share, error = 100 * float(self.share), 100 * float(self.error)
        digits = 1 - math.floor(math.log10(error)) if error else 6
        return f"{share:.{max(digits, 0)}f}% ± {error:.2g}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. A private table without a unit path has one unit a row."""

    name: str
    columns: Mapping[str, Type]
    public: bool = False
    unit: UnitPath | None = None
    max_rows: int = 1
    """How many rows of one unit count within one group."""
    max_groups: int = 1
    """How many groups one unit counts in."""
    beyond: tuple[Beyond, ...] = field(default=(), compare=False)
    """Released estimates of the share of rows or groups beyond these two limits; they change no answer."""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Columns that cannot be asked about because hush has no type for them, with the engine's name of theirs."""
    keys: Mapping[str, Type] = field(default_factory=dict)
    """Columns that are not declared, but by which paths lead to units: they can be joined on and counted."""

    def __post_init__(self) -> None:
        assign(
            self,
            keys=MappingProxyType(dict(self.keys)),
            unsupported=MappingProxyType(dict(self.unsupported)),
            columns=MappingProxyType(dict(self.columns)),
        )


Target = tuple[str, str]
"""A table and the key in it that a foreign key refers to, without regard to case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A data set: its tables and the neighbour relation they are protected under."""

    data: str
    tables: Mapping[str, Table]
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: str | None = field(default=None)
    """The unit's public name (``patient_id``); None where every row is a unit."""

    def __post_init__(self) -> None:
        assign(self, tables=MappingProxyType(dict(self.tables)))

    def identifying(self, table: str) -> dict[str, None]:
        """Return the columns of a table by which rows, its own or those of other tables, find their unit."""
        paths = [(reader.name, reader.unit) for reader in self.tables.values() if reader.unit is not None]
        steps = [step for name, path in paths for step in path.columns(name)]
        return dict.fromkeys(column for holder, column in steps if holder == table)

    def targets(self, table: Table) -> dict[str, Target]:
        """Return the columns of a private table by which rows find their unit, each with the key that it stands for.

        A foreign key stands for the key that it refers to, and so does that key itself: where two columns stand for one
        key, rows in which they are equal belong to one unit, if the key is unique, as a policy assumes.

        >>> orders = Table(name="orders", columns={}, unit=UnitPath(column="customer"))
        >>> hop = Hop(column="order_id", table="orders", key="id")
        >>> items = Table(name="items", columns={}, unit=UnitPath(column="customer", hops=(hop,)))
        >>> shop = Schema(data="shop", tables={"orders": orders, "items": items}, unit="customer")
        >>> shop.targets(orders), shop.targets(items)
        ({'id': ('orders', 'id')}, {'order_id': ('orders', 'id')})
        """
        if table.public:
            return {}
        found: dict[str, Target] = {}
        for other in self.tables.values():
            hops = () if other.unit is None else other.unit.hops[:1]
            for hop in hops:
                target = (hop.table.casefold(), hop.key.casefold())
                if other.name == table.name:
                    found[hop.column.casefold()] = target
                elif hop.table == table.name:
                    found.setdefault(hop.key.casefold(), target)
        return found
