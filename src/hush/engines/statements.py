"""A plan as statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from hush.engines.sql.build import Query
from hush.engines.sql.keys import Axis, Lists
from hush.engines.sql.main_statement import MainWriter
from hush.engines.sql.other_statements import OtherWriter
from hush.engines.sql.relations import Bounds
from hush.engines.sql.released import ReleasedStatement
from hush.engines.sql.rows import Reads, Rows
from hush.query.plan.choices import Choice
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Distinct


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL text and the names of what it returns."""

    text: str
    labels: list[str]
    work: int
    """Nanoseconds that a stored row takes."""

    @classmethod
    def of(cls, query: Query) -> Statement:
        """Return a query as text."""
        return cls(text=query.measured, labels=query.labels, work=query.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """A plan's statements, those that any number of rows need.

    All of them are written, and measured, when this is made, which is before the charge: whether a question can be
    written must depend on the question alone, and not on how many rows there are, nor on what was asked before.
    """

    plan: Plan
    axes: list[Axis] | None
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    reads: Reads
    rows: Rows
    """The rows that the statements add up."""
    bounds: Bounds
    """What bounds the work of one unit's rows."""
    lists: Lists
    """Held as long as the statements, which read them."""
    notes: tuple[str, ...] = ()
    """What is bounded for the sake of time, whoever is there."""
    main: Statement | None
    """All statistics but distinct values."""
    distinct: tuple[tuple[int, Statement], ...]
    """Counts of distinct values that the main statement lacks, by the place of the statistic."""
    histograms: tuple[Statement, ...]
    """One for each pick."""
    released: ReleasedStatement | None
    """Functions of what is released; None if there are none."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        axes: list[Axis] | None,
        shown: list[int] | None,
        reads: Reads,
        rows: Rows,
        bounds: Bounds,
        lists: Lists,
        released: ReleasedStatement | None,
    ) -> Self:
        """Write all statements over some rows; refuse those that are too long."""
        extraction = plan.extraction

        def other(what: Choice | Distinct) -> OtherWriter:
            return OtherWriter(extraction, rows, Reads.by(what), lists)

        first = MainWriter(extraction, rows).statement()
        main = None if first is None else Statement.of(first)
        done = frozenset() if main is None else frozenset(main.labels)
        distinct = tuple(
            (index, Statement.of(other(item).distinct(item)))
            for index, item in enumerate(extraction.statistics)
            if isinstance(item, Distinct) and f"s{index}" not in done
        )
        return cls(
            plan=plan,
            axes=axes,
            shown=shown,
            reads=reads,
            rows=rows,
            bounds=bounds,
            lists=lists,
            main=main,
            distinct=distinct,
            histograms=tuple(Statement.of(other(pick.choice).histogram(pick)) for pick in plan.picks),
            released=released,
        )

    @property
    def keys(self) -> Sequence[str]:
        """The key columns of the main statement; the others have one, ``k``, if there are keys."""
        return self.rows.keys

    def over(self, rows: Rows) -> Self:
        """Return statements that compute the same from other rows."""
        return type(self).of(
            self.plan,
            axes=self.axes,
            shown=self.shown,
            reads=self.reads,
            rows=rows,
            bounds=self.bounds,
            lists=self.lists,
            released=self.released,
        )

    @property
    def others(self) -> list[Statement]:
        """All but the main one."""
        return [*(item for _, item in self.distinct), *self.histograms]

    @property
    def statements(self) -> list[Statement]:
        """All of them, in an order that depends on the plan alone."""
        main = [] if self.main is None else [self.main]
        return [*main, *self.others]
