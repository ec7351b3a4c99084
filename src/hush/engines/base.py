"""What every engine offers: a plan's exact integers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hush.core.values import dataclass
from hush.mechanisms.grouped.base import Histograms, Integers, Sparse
from hush.query.plan.plan import Extraction, Plan
from hush.query.plan.rows import RowPlan
from hush.query.plan.statistics import Statistic
from hush.query.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Exact answers, one entry a group. Private: they leave the curator only through noise."""

    keys: Sequence[tuple[Any, ...]]
    """The group keys: all public ones in order, or those of the groups that were wanted, in any order."""
    units: npt.NDArray[np.int64] | None
    """How many units each group has, where keys are chosen privately."""
    statistics: dict[Statistic, Integers]
    """An array for each, as it goes on into the noise: of 64 bits, or of Python's integers where those do not do."""
    histograms: tuple[Sequence[Sparse], ...]
    """For each of the plan's picks, a histogram a group."""

    def only(self, shown: Sequence[int] | None) -> Exact:
        """Return the public groups that are answered; None for all."""
        if shown is None:
            return self
        places = np.array(shown, dtype=np.int64)
        return Exact(
            keys=[self.keys[place] for place in shown],
            units=None,
            statistics={statistic: values[places] for statistic, values in self.statistics.items()},
            histograms=tuple(Histograms.of(bins).take(places) for bins in self.histograms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedRows:
    """The bounded rows of a question as integer codes. Private: nothing of them leaves the curator but through noise.

    Rows come in no particular order, so only what does not depend on their order may be computed from them.
    """

    codes: dict[str, npt.NDArray[Any]]
    """Each column's codes, in the smallest integers that hold them."""
    units: npt.NDArray[np.int64] | None
    """Which rows are one unit's: equal numbers. None where every row is a unit of its own."""

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def table(self) -> npt.NDArray[Any]:
        """Return the codes as one array, a column for each of the question's."""
        return np.column_stack(list(self.codes.values()))


Choose = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""Says which groups are wanted, given how many units each has. Groups come in parts, each of them once."""


TIMEOUT = 600.0
"""Seconds that a statement may take unless somebody says otherwise."""


class Compiled(Protocol):
    """A plan as an engine runs it: written, resolved, and refused where it cannot be. Opaque but for its notes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is bounded for the sake of time, whoever is there."""


CompiledPlan = TypeVar("CompiledPlan")
CompiledRows = TypeVar("CompiledRows")


class Engine(Protocol[CompiledPlan, CompiledRows]):
    """Where data lives: what the curator calls, and all that it knows of an engine.

    An engine never changes once it is made. `described`, `write`, `compile` and `compile_rows` read public tables alone
    and cost nothing; `execute` and `rows` come after the charge, and whatever fails there is an
    `hush.engines.errors.EngineError`, which says nothing of any row.
    """

    def described(self) -> Schema:
        """Return the schema, with the ranges of public tables as they are now."""

    def write(self, plan: Plan) -> CompiledPlan:
        """Return a plan's statements without having the engine resolve them: for its notes."""

    def compile(self, plan: Plan) -> CompiledPlan:
        """Return all that a plan may need; what the engine cannot do is refused here."""

    def execute(self, compiled: CompiledPlan, choose: Choose | None = None) -> Exact:
        """Return the exact integers; where keys are private, those of the groups that are wanted.

        Without ``choose`` these are all that occur, which no answer may show.
        """

    def compute(
        self, compiled: CompiledPlan, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]
    ) -> list[tuple[Any, ...]]:
        """Return functions of what was released, a row for each group; nothing else is read."""

    def compile_rows(self, plan: RowPlan, unit_key: str | None = None) -> CompiledRows:
        """Return what a plan's coded rows need; what the engine cannot do is refused here."""

    def rows(self, compiled: CompiledRows) -> CodedRows:
        """Return the bounded rows of a question as integer codes."""

    def close(self) -> None:
        """Give back what the engine holds."""


AnyEngine = Engine[Any, Any]
"""An engine, whatever it compiles plans into."""

__all__ = ["AnyEngine", "Choose", "CodedRows", "Compiled", "Engine", "Exact", "Extraction", "Histograms", "Sparse"]
