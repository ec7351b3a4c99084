"""Synthetic children for synthetic parents: visits of patients, members of households.

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

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.synth.domain import CodedTable
from hush.synth.model import Draws

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
