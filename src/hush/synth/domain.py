"""Integer-coded tables over a public domain, and their exact marginals.

A `Domain` names the columns and says how many codes each has, from a public schema and never from rows. A `CodedTable`
holds rows as codes. A row with a code outside the domain is left out, whatever it holds: no row can make the domain
larger, and none can make a release fail.

>>> domain = Domain.of({"age": 3, "sex": 2}, ordered=["age"])
>>> table = CodedTable.of(domain, {"age": [0, 1, 1, 9], "sex": [0, 1, 1, 0]})
>>> len(table), table.marginal(("age", "sex")).tolist()
(3, [[1, 0], [0, 2], [0, 0]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError, integer
from hush.core.work import check_wanted

Columns = tuple[str, ...]
"""The columns of one marginal, in the domain's order."""
Counts = npt.NDArray[np.int64]
MAX_LEVELS = 2**20
MAX_CELLS = 2**22
"""No marginal has more cells, so that sums over fewer than 2⁴⁰ rows times the number of cells stay below 2⁶²."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The columns of a table and how many codes each has. Public."""

    names: Columns
    sizes: tuple[int, ...]
    ordered: frozenset[str] = frozenset()
    """Columns with a meaningful order of codes: neighbouring codes may be put into one bin."""
    nulls: frozenset[str] = frozenset()
    """Columns with a last code for missing values, which is outside the order."""

    @classmethod
    def of(cls, sizes: Mapping[str, int], *, ordered: Iterable[str] = (), nulls: Iterable[str] = ()) -> Domain:
        """Return the domain with these sizes, by name."""
        if not isinstance(sizes, Mapping) or not sizes:
            raise InvalidValueError("sizes", got=sizes, allowed="the number of codes of each column, by its name")
        return cls(names=tuple(sizes), sizes=tuple(sizes.values()), ordered=frozenset(ordered), nulls=frozenset(nulls))

    def __post_init__(self) -> None:
        for name, size in zip(self.names, self.sizes, strict=True):
            integer(size, f"sizes[{name!r}]", minimum=1, maximum=MAX_LEVELS)
        for label, group in (("ordered", self.ordered), ("nulls", self.nulls)):
            unknown = sorted(group - set(self.names))
            if unknown:
                raise InvalidValueError(label, got=unknown, allowed=f"columns of the table: {', '.join(self.names)}")

    def __len__(self) -> int:
        return len(self.names)

    def size(self, name: str) -> int:
        """Return how many codes a column has."""
        return self.sizes[self.place(name)]

    def place(self, name: str) -> int:
        """Return where a column stands."""
        try:
            return self.names.index(name)
        except ValueError:
            allowed = f"a column of the table: {', '.join(self.names)}"
            raise InvalidValueError("column", got=name, allowed=allowed) from None

    def columns(self, names: Iterable[str]) -> Columns:
        """Return columns in the domain's order, each once."""
        return tuple(self.names[index] for index in sorted({self.place(name) for name in names}))

    def shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Return the sizes of some columns."""
        return tuple(self.size(name) for name in columns)

    def cells(self, columns: Sequence[str]) -> int:
        """Return how many cells a marginal has."""
        return prod(self.shape(columns))

    def mask(self, columns: Columns, where: Mapping[str, Iterable[int]]) -> npt.NDArray[np.bool_]:
        """Return the cells of a marginal that have, in each of its columns, one of the given codes."""
        mask = np.ones((), dtype=np.bool_)
        for name in columns:
            inside = np.zeros(self.size(name), dtype=np.bool_)
            for code in where[name]:
                inside[integer(code, f"where[{name!r}]", minimum=0, maximum=len(inside) - 1)] = True
            mask = np.logical_and.outer(mask, inside)
        return mask


@dataclass(frozen=True, slots=True)
class CodedTable:
    """Rows as codes within a domain. Private, unless it is synthetic."""

    domain: Domain
    codes: tuple[npt.NDArray[Any], ...]
    """One array for each column of the domain."""

    @classmethod
    def of(cls, domain: Domain, codes: Mapping[str, Any]) -> CodedTable:
        """Return the rows with all codes inside the domain; ``codes`` has an array of integers for each column."""
        missing = [name for name in domain.names if name not in codes]
        if missing:
            raise InvalidValueError("codes", got=list(codes), allowed=f"an array for each column, also {missing[0]!r}")
        arrays = [np.asarray(codes[name]) for name in domain.names]
        if len({array.shape for array in arrays}) != 1 or arrays[0].ndim != 1:
            raise InvalidValueError("codes", got="arrays of several shapes", allowed="arrays of one length")
        if any(array.size and array.dtype.kind not in "iub" for array in arrays):
            raise InvalidValueError("codes", got="an array that holds no integers", allowed="arrays of integers")
        # Rows with a code outside are dropped in silence: an error would tell that such a row exists.
        inside = np.ones(len(arrays[0]), dtype=np.bool_)
        for array, size in zip(arrays, domain.sizes, strict=True):
            inside &= (array >= 0) & (array < size)
        kept = [array if inside.all() else array[inside] for array in arrays]
        return cls(
            domain,
            tuple(
                array.astype(np.min_scalar_type(size - 1), copy=False)
                for array, size in zip(kept, domain.sizes, strict=True)
            ),
        )

    def __len__(self) -> int:
        return len(self.codes[0])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column's codes."""
        return self.codes[self.domain.place(name)]

    def marginal(self, columns: Sequence[str]) -> Counts:
        """Return how many rows have each combination of codes, an axis for each column."""
        check_wanted()
        if not columns:
            return np.asarray(len(self), dtype=np.int64)
        shape = self.domain.shape(columns)
        return np.bincount(self.mixed(columns), minlength=prod(shape)).reshape(shape).astype(np.int64, copy=False)

    def mixed(self, columns: Sequence[str]) -> npt.NDArray[Any]:
        """Return the number of each row's cell in a marginal."""
        shape = self.domain.shape(columns)
        # Half the memory where it can be: the largest number of a cell is prod(shape) - 1.
        narrow: type[Any] = np.int32 if prod(shape) < 2**31 else np.int64
        cell: npt.NDArray[Any] = self.column(columns[0]).astype(narrow)
        for name, size in zip(columns[1:], shape[1:], strict=True):
            # Horner's rule: the order of cells is that of a C-ordered array, so `marginal` can reshape the counts.
            cell = cell * size + self.column(name)
        return cell
