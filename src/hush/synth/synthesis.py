"""Synthetic rows: select, measure, generate, certify.

::

    one-way counts ─► private bins ─► scores of all pairs ─► graph ─► chosen pairs ─► fit ─► rows ─► certificate
      30 % of price       free              5 %               free        60 %        free    free       5 %

Every arrow that touches rows adds exact discrete noise to integers (`hush.synth.measurements`); all others are
post-processing. The shares are fixed before any row is read, so the price is known beforehand. The number of rows is
itself estimated: every noisy one-way total estimates it, and their inverse-variance average is used.

**Two rounds.** Where the price is high, half of what is spent on pairs is kept for a second round: the scores are taken
again, against the rows that the first fit yields, and pairs that still err are measured, in the same cliques or new
ones. All measurements go into the second fit.

**Certificate.** Of the finished table, e_p = ‖M_p(data) - M_p(synthetic)‖₁ of every pair p of columns is released with
noise: one row changes it by at most 1. A condition on the two columns of p is true for at most (e_p + |N - N'|)/2 rows
more, or fewer, in the data than in the table, N and N' being their numbers of rows.

**Failure** depends on no row: an empty table, one row, or rows that are all alike give a table, perhaps an empty one.

>>> from hush.synth.domain import CodedTable, Domain
>>> domain = Domain.of({"age": 10, "sex": 2, "ill": 2}, ordered=["age"])
>>> rows = CodedTable.of(domain, {"age": [1, 2, 3] * 50, "sex": [0, 1, 0] * 50, "ill": [0, 1, 0] * 50})
>>> plan = plan_synthesis(domain, Price(law="gaussian", amount=Fraction(10)))
>>> made = synthesise(plan, rows)
>>> abs(len(made.table) - 150) < 30, made.table.domain == domain
(True, True)

**Synthetic children for synthetic parents: visits of patients, members of households.**

Two releases are joined, which costs nothing more. One has the parents with the number of their children, one row of
each unit. The other has single children with the columns of their parent, few rows of each unit. Each synthetic parent
is given as many children as it says. They are drawn from the synthetic children whose parent has the same codes in the
shared columns; where there are none, the last of the shared columns is left out, and so on.

>>> from hush.synth.domain import Domain
>>> parents = CodedTable.of(Domain.of({"sex": 2, "n": 3}), {"sex": [0, 1, 1], "n": [2, 0, 1]})
>>> children = CodedTable.of(Domain.of({"sex": 2, "ill": 2}), {"sex": [0, 0, 1], "ill": [1, 1, 0]})
>>> owners, rows = deal(parents, parents.column("n"), children, ["sex"], Draws(b"seed"))
>>> owners.tolist(), children.column("ill")[rows].tolist()
([0, 0, 2], [1, 1, 0])
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, integer
from hush.synth.domain import CodedTable, Columns, Domain
from hush.synth.fitting import MAX_COLUMNS, Fitting, Progress, Settings, SynthesisPlan, certified_pairs
from hush.synth.measurements import Measurement, Price
from hush.synth.model import Draws, Places
from hush.synth.synthetic import Synthetic


def plan_synthesis(
    domain: Domain, price: Price, *, rows: int = 1, touched: int = 1, settings: Settings | None = None
) -> SynthesisPlan:
    """Plan synthetic rows; ``rows`` is how many a unit has at most, ``touched`` 2 where neighbours replace a unit."""
    if len(domain) > MAX_COLUMNS:
        raise InvalidValueError("domain", got=f"{len(domain)} columns", allowed=f"at most {MAX_COLUMNS} columns")
    if settings is None:
        settings = Settings()
    if len(domain) < 2:
        settings = Settings(certificate=settings.certificate)
    return SynthesisPlan(
        domain=domain,
        price=price,
        settings=settings,
        rows=integer(rows, "rows", minimum=1),
        touched=integer(touched, "touched", minimum=1, maximum=2),
    )


def synthesise(plan: SynthesisPlan, table: CodedTable, *, progress: Progress | None = None) -> Synthetic:
    """Measure a table, and make synthetic rows of what was measured."""
    if table.domain != plan.domain:
        raise InvalidValueError("table", got="a table of another domain", allowed="a table of the plan's domain")
    return _Run(plan, table, progress or (lambda _stage, _part: None)).release()


class _Run:
    """One release: measures, and hands over what was measured."""

    def __init__(self, plan: SynthesisPlan, table: CodedTable, progress: Progress) -> None:
        self._plan, self._table, self._progress = plan, table, progress
        self._kept: list[Measurement] = []

    def release(self) -> Synthetic:
        plan = self._plan
        names = plan.domain.names
        self._progress("counting", 0.0)
        for name, share in plan.one_way_shares().items():
            self._measure((name,), self._table.marginal((name,)), "counts", plan.parameter(share))
        state = Fitting(plan, self._kept)
        pairs = list(combinations(range(len(names)), 2))
        if pairs:
            binned = self._table.recoded(state.binned, dict(zip(names, state.bins, strict=True)))
            spent = plan.settings.pairs
            for number in range(plan.settings.rounds):
                self._progress("choosing pairs", 0.0)
                expected = state.reference(pairs)
                self._score(binned, expected.__getitem__, pairs, plan.settings.scores)
                part = spent / 2 if number + 1 < plan.settings.rounds else spent
                spent -= part
                for pair, share in state.chosen(self._kept, pairs, part):
                    columns = tuple(names[column] for column in pair)
                    self._measure(columns, binned.marginal(columns), "counts", plan.parameter(share))
                state.fit(self._kept, self._progress)
        seed = secrets.token_hex(16)
        made = Synthetic(plan=plan, measurements=tuple(self._kept), seed=seed, fitted=state)
        if pairs and plan.settings.certificate:
            self._progress("certifying", 0.0)
            produced = made.table

            def shown(pair: Places) -> npt.NDArray[np.int64]:
                return produced.marginal(tuple(names[column] for column in pair))

            self._score(self._table, shown, certified_pairs(plan), plan.settings.certificate)
            made = Synthetic(plan=plan, measurements=tuple(self._kept), seed=seed, fitted=state)
        self._progress("done", 1.0)
        return made

    def _measure(self, columns: Columns, exact: npt.NDArray[Any], kind: str, parameter: Fraction) -> None:
        self._kept.append(Measurement.of(columns, exact, kind=kind, law=self._plan.price.law, parameter=parameter))

    def _score(
        self,
        table: CodedTable,
        reference: Callable[[Places], npt.NDArray[np.int64]],
        pairs: Sequence[Places],
        share: Fraction,
    ) -> None:
        """Release how far each pair's table is from a public one of integers."""
        names = self._plan.domain.names
        scores = np.array(
            [
                int(np.abs(table.marginal(tuple(names[column] for column in pair)) - reference(pair)).sum())
                for pair in pairs
            ],
            dtype=np.int64,
        )
        self._measure((), scores, "scores", self._plan.score_parameter(share, len(pairs)))


Integers = npt.NDArray[np.int64]


def deal(
    parents: CodedTable, numbers: npt.NDArray[Any], children: CodedTable, shared: Sequence[str], draws: Draws
) -> tuple[Integers, Integers]:
    """Return, for each child that is dealt out, the place of its parent and that of the row it is a copy of."""
    for name in shared:
        if parents.domain.size(name) != children.domain.size(name):
            raise InvalidValueError("shared", got=name, allowed="columns that have the same codes in both releases")
    owners = np.repeat(np.arange(len(parents)), np.maximum(np.asarray(numbers, dtype=np.int64), 0))
    chosen = np.full(len(owners), -1, dtype=np.int64)
    if not len(children):
        return owners[:0], chosen[:0]
    columns = list(shared)
    while True:
        open_ = np.flatnonzero(chosen < 0)
        if not len(open_):
            return owners, chosen
        wanted = parents.mixed(columns)[owners[open_]] if columns else np.zeros(len(open_), dtype=np.int64)
        offered = children.mixed(columns) if columns else np.zeros(len(children), dtype=np.int64)
        order = np.argsort(offered, kind="stable")
        first = np.searchsorted(offered[order], wanted, side="left")
        count = np.searchsorted(offered[order], wanted, side="right") - first
        there = count > 0
        pick = (draws.words(len(open_)) % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
        chosen[open_[there]] = order[(first + pick)[there]]
        if not columns:
            return owners, chosen
        columns.pop()
