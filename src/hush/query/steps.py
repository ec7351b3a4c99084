"""The steps of a question that is built in Python: plain records, which the SQL front end turns into a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hush.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Fragment:
    """A SQL expression and the values of its ``?``."""

    text: str
    values: tuple[Any, ...] = ()


Item = tuple[str | None, Fragment]
"""An expression and the name of its result, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """A join with another table or question."""

    source: str | Steps
    alias: str | None
    how: str
    on: Fragment | None
    using: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One SELECT in the making."""

    source: str | Steps
    alias: str | None = None
    joins: tuple[JoinStep, ...] = ()
    where: tuple[Fragment, ...] = ()
    keys: tuple[Item, ...] = ()
    select: tuple[Item, ...] = ()
    """Keys and aggregates, or columns of rows; nothing means all columns."""
    grouped: bool = False
    having: tuple[Fragment, ...] = ()
    order: tuple[Fragment, ...] = ()
    limit: int | None = None
    offset: int = 0
    also: tuple[Steps, ...] = ()
    """Further parts of a UNION ALL."""

    def rows(self) -> Steps:
        """Return steps that can still be added to: finished ones become a table."""
        return self.wrapped() if self.grouped or self.select or self.also else self

    def wrapped(self) -> Steps:
        """Return the same rows as a table of their own, which keeps the name of a single table."""
        if self == replace(Steps(source=self.source), alias=self.alias):
            return self
        single = isinstance(self.source, str) and not (self.joins or self.grouped or self.also)
        name = self.alias or (self.source if single and isinstance(self.source, str) else "t")
        return Steps(source=self, alias=name if single or self.alias else "t")
