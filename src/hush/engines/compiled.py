"""A plan as statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hush.engines.lists import HeldLists
from hush.engines.sql.build import Query
from hush.engines.sql.extraction import MainWriter
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A plan's statements."""

    plan: Plan
    axes: list[Axis] | None
    shown: list[int] | None
    """Which combinations of public keys are answered; None for all."""
    reads: Reads
    keys: Sequence[str]
    """The key columns of the main statement; the others have one, ``k``, if there are keys."""
    main: Statement | None
    distinct: tuple[tuple[int, Statement], ...]
    histograms: tuple[Statement, ...]
    lists: HeldLists
    """Held as long as the statements, which read them."""
    few: bool
    """Whether histograms were written for few rows: what is run in place of these statements must return the same."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        axes: list[Axis] | None,
        shown: list[int] | None,
        reads: Reads,
        rows: Rows,
        lists: HeldLists,
        *,
        few: bool,
    ) -> Compiled:
        """Return the statements of a plan over rows, which may be ``few``."""
        extraction = plan.extraction
        main = MainWriter(extraction, rows).statement()
        done = set() if main is None else set(main.labels)

        def other(what: Choice | DistinctCount) -> OtherWriter:
            return OtherWriter(extraction, rows, Reads.by(what), lists, few=few)

        return cls(
            plan=plan,
            axes=axes,
            shown=shown,
            reads=reads,
            keys=rows.keys,
            main=None if main is None else Statement.of(main),
            distinct=tuple(
                (index, Statement.of(other(item).distinct(item)))
                for index, item in enumerate(extraction.statistics)
                if isinstance(item, DistinctCount) and f"s{index}" not in done
            ),
            histograms=tuple(Statement.of(other(pick.choice).histogram(pick)) for pick in plan.picks),
            lists=lists,
            few=few,
        )

    def over(self, rows: Rows) -> Compiled:
        """Return statements that compute the same from other rows."""
        return Compiled.of(self.plan, self.axes, self.shown, self.reads, rows, self.lists, few=self.few)

    @property
    def others(self) -> list[Statement]:
        """All but the main one."""
        return [*(item for _, item in self.distinct), *self.histograms]

    @property
    def statements(self) -> list[Statement]:
        """All of them, in an order that depends on the plan alone."""
        main = [] if self.main is None else [self.main]
        return [*main, *self.others]
