"""A plan as statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hush.engines.lists import HeldLists
from hush.engines.sql.build import Query
from hush.engines.sql.extraction import MainWriter
from hush.engines.sql.flat import Flat
from hush.engines.sql.keys import Axis
from hush.engines.sql.others import OtherWriter
from hush.engines.sql.rows import Reads, Rows
from hush.query.plan.choices import Choice
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import DistinctCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text and the names of what it returns."""

    text: str
    labels: list[str]

    @classmethod
    def of(cls, query: Query) -> Statement:
        """Return a query as text."""
        return cls(text=query.measured, labels=query.labels)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A plan's statements: for few rows the one that hands them out, and those that any number of rows need.

    These are written when they are first asked for.
    """

    plan: Plan
    axes: list[Axis] | None
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    reads: Reads
    fresh: Callable[[], Rows]
    """Makes the rows of the statements, when these are first asked for."""
    lists: HeldLists
    """Held as long as the statements, which read them."""
    flat: Flat | None = None
    """None where rows may be many."""

    @cached_property
    def rows(self) -> Rows:
        """The rows that the statements add up."""
        return self.fresh()

    @property
    def keys(self) -> Sequence[str]:
        """The key columns of the main statement; the others have one, ``k``, if there are keys."""
        return self.rows.keys

    @cached_property
    def main(self) -> Statement | None:
        """All statistics but distinct values."""
        main = MainWriter(self.plan.extraction, self.rows).statement()
        return None if main is None else Statement.of(main)

    @cached_property
    def distinct(self) -> tuple[tuple[int, Statement], ...]:
        """Counts of distinct values that the main statement lacks, by the place of the statistic."""
        done = set() if self.main is None else set(self.main.labels)
        return tuple(
            (index, Statement.of(self._other(item).distinct(item)))
            for index, item in enumerate(self.plan.extraction.statistics)
            if isinstance(item, DistinctCount) and f"s{index}" not in done
        )

    @cached_property
    def histograms(self) -> tuple[Statement, ...]:
        """One for each pick."""
        return tuple(Statement.of(self._other(pick.choice).histogram(pick)) for pick in self.plan.picks)

    def _other(self, what: Choice | DistinctCount) -> OtherWriter:
        return OtherWriter(self.plan.extraction, self.rows, Reads.by(what), self.lists)

    def over(self, rows: Rows) -> Compiled:
        """Return statements that compute the same from other rows."""
        return replace(self, fresh=lambda: rows, flat=None)

    @property
    def others(self) -> list[Statement]:
        """All but the main one."""
        return [*(item for _, item in self.distinct), *self.histograms]

    @property
    def statements(self) -> list[Statement]:
        """All of them, in an order that depends on the plan alone."""
        main = [] if self.main is None else [self.main]
        return [*main, *self.others]
