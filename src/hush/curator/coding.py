"""A release's columns: codes on the policy's grid, grouped where there are too many, and their values.

A column on a line may have millions of codes, such as amounts in cents. For a release its neighbours are put into
groups of one public width, so that there are at most `MAX_GROUPED`. Values are drawn uniformly within a group, on the
grid.

**Conditions.** ``age < 40 AND sex = 'F'`` is read like any question, evaluated on the public values of the columns, and
becomes a mask. Where neighbouring values are one code a condition may cut a group: then it holds for some of the
group's rows, nobody knows how many. So there are two masks, of the cells for which it holds whatever the values are,
and of those for which it may hold. The truth lies between their counts. What cuts groups must be found for sure. A
column with few points is evaluated on all of them. One with many may only be compared with constants: then the
condition changes at these, and the ends of each group and the constants' neighbours are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.curator.catalogue import in_quotes
from hush.engines.protocol import CodedRows
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.functions.logic import conjuncts
from hush.query.functions.record import key_array
from hush.query.parameters import from_wire, to_wire
from hush.query.plan.rows import CodedColumn, RowPlan
from hush.query.question import Question
from hush.query.released import evaluate, released_in
from hush.query.schema import Schema, Table
from hush.query.types import Kind, Type, position
from hush.report import files
from hush.report.columns import AnswerColumn, uniform
from hush.synth import CodedTable, Domain
from hush.synth.model import Draws

MAX_GROUPED = 256
MAX_LISTED = 2**16
_ENDS = ("lower", "upper", "step")


@dataclass(frozen=True)
class ReleaseColumn:
    """One column of a release."""

    coded: CodedColumn
    width: int
    """How many neighbouring codes are one code here."""

    @classmethod
    def of(cls, coded: CodedColumn) -> ReleaseColumn:
        """Return a column, grouped if it lies on a line with many points."""
        if coded.factor is not None:
            return cls(coded, -(-coded.levels // MAX_GROUPED))
        if coded.levels > MAX_LISTED:
            got = f"{coded.name} with {coded.levels:,} values"
            raise InvalidValueError("column", got=got, allowed=f"at most {MAX_LISTED:,} values")
        return cls(coded, 1)

    @property
    def name(self) -> str:
        """The column's name."""
        return self.coded.name

    @property
    def groups(self) -> int:
        """How many codes stand for values."""
        return -(-self.coded.levels // self.width)

    @property
    def size(self) -> int:
        """How many codes there are, including the code of NULL."""
        return self.groups + self.coded.null

    def grouped(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Convert codes of the engine to codes of the release, where neighbours share one code."""
        missing = codes >= self.coded.levels
        return np.where(missing, self.groups, codes.astype(np.int64) // self.width)

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The value of each code; for a group of neighbours, its first value."""
        first = [self.coded.value(code * self.width) for code in range(self.groups)]
        return uniform([*first, *([None] if self.coded.null else [])], self.coded.type.kind)

    def drawn(self, codes: npt.NDArray[np.int64], draws: Draws) -> Any:
        """Return a value for each code, as an Arrow array; within a group any point of the grid is as likely."""
        pa = optional("pyarrow", "arrow")
        if self.width == 1:
            value_table = files.arrow([AnswerColumn(name=self.name, kind=self.coded.type.kind, values=self.values)])
            return value_table.column(0).take(pa.array(codes)).combine_chunks()
        factor, kind = self.coded.factor, self.coded.type.kind
        assert factor is not None  # noqa: S101 - only columns on a line are grouped
        inside = (draws.words(len(codes)) % np.uint64(self.width)).astype(np.int64)
        # the last group may be shorter than the others
        places = np.minimum(codes * self.width + inside, self.coded.levels - 1) + factor.first
        missing = codes >= self.groups
        above, below = factor.step.numerator, factor.step.denominator
        if kind is Kind.DATE:
            return pa.array((places * above // below).astype(np.int32), mask=missing).cast(pa.date32())
        if kind is Kind.TIMESTAMP:
            return pa.array(places * above // below, type=pa.timestamp("us"), mask=missing)
        # i·p/q as one division of integers below 2⁵³ is the nearest float, as everywhere
        return pa.array(places * above if below == 1 else places * above / below, mask=missing)

    def key(self, codes: Sequence[int]) -> AnswerColumn:
        """Return the column of an answer that shows these codes."""
        key_values = tuple(self.values[code] for code in codes)
        return AnswerColumn(name=self.name, kind=self.coded.type.kind, values=key_values)


@dataclass(frozen=True)
class Coding:
    """All columns of a release, and the domain that they make."""

    columns: tuple[ReleaseColumn, ...]

    @classmethod
    def of(cls, plan: RowPlan) -> Coding:
        """Return the coding of a plan's rows."""
        return cls(tuple(ReleaseColumn.of(column) for column in plan.columns))

    @classmethod
    def from_json(cls, content: Sequence[Mapping[str, Any]]) -> Coding:
        """Return the coding that `to_json` wrote."""
        columns = []
        for entry in content:
            bounds: dict[str, Any] = {end: entry[end] and Fraction(entry[end]) for end in _ENDS}
            values = None if entry["values"] is None else tuple(from_wire(entry["values"]))
            flags = {"nullable": entry["nullable"], "lists_null": entry["lists_null"]}
            type_ = Type(kind=Kind(entry["kind"]), values=values, **bounds, **flags)
            columns.append(ReleaseColumn(CodedColumn.of(entry["name"], Column(entry["name"], type_)), entry["width"]))
        return cls(tuple(columns))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the meaning of the columns' codes as plain JSON values; no other part of the policy is included."""
        return [
            {
                "name": column.name,
                "width": column.width,
                "kind": type_.kind.value,
                "nullable": type_.nullable,
                "lists_null": type_.lists_null,
                **{end: None if (limit := getattr(type_, end)) is None else str(limit) for end in _ENDS},
                "values": None if type_.values is None else to_wire(type_.values),
            }
            for column, type_ in ((column, column.coded.type) for column in self.columns)
        ]

    @cached_property
    def domain(self) -> Domain:
        """The public domain."""
        return Domain.of(
            {column.name: column.size for column in self.columns},
            ordered=[column.name for column in self.columns if column.coded.ordered],
            nulls=[column.name for column in self.columns if column.coded.null],
        )

    def table(self, rows: CodedRows) -> CodedTable:
        """Return an engine's rows with the release's codes."""
        return CodedTable.of(
            self.domain, {column.name: column.grouped(rows.codes[column.name]) for column in self.columns}
        )

    def column(self, name: str) -> ReleaseColumn:
        """Return a column by its name."""
        return self.columns[self.domain.place(name)]


Flags = npt.NDArray[np.bool_]
_CELLS = 2**22
_ALL_POINTS = 2**16
_LOGIC = {Op.AND, Op.OR, Op.NOT}
_COMPARED = {
    Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.IN, Op.IS_NULL,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """The cells of a table for which a condition holds, as masks with an axis for each column."""

    columns: tuple[str, ...]
    surely: Flags
    maybe: Flags

    @property
    def exact(self) -> bool:
        """Whether no group of neighbours is cut."""
        return bool(np.array_equal(self.surely, self.maybe))

    def counted(self, count: Callable[[Flags, float], Any], confidence: float) -> Any:
        """Return the count of the cells with its half-width; ``count`` returns those of a mask, at a confidence."""
        if self.exact:
            return count(self.surely, confidence)
        # the truth lies between two counts, each of which may miss half as often
        low, high = (count(mask, (1 + confidence) / 2) for mask in (self.surely, self.maybe))
        value, error = (low.value + high.value) / 2, None
        if low.error is not None and high.error is not None:
            error = max(value - (low.value - low.error), high.value + high.error - value)
        return replace(high, value=value, error=error)


def masks(coding: Coding, condition: str) -> Masks:
    """Return the cells of a release that a condition holds for."""
    from hush.query.sql import parse
    from hush.query.sql.text import read_expression

    read_expression(condition)
    names = coding.domain.names
    types: dict[str, Type] = {column.name: column.coded.type for column in coding.columns}
    schema = Schema(data="release", tables={"release": Table(name="release", columns=types)})
    fields = ", ".join(map(in_quotes, names))
    query = parse(f"SELECT {fields}, COUNT(*) FROM release GROUP BY {fields} HAVING {condition}", schema)  # noqa: S608
    having = query.having if isinstance(query, Question) else None
    if having is None or not isinstance(query, Question) or query.order or query.limit is not None:
        raise InvalidValueError("condition", got=condition, allowed="one condition")
    if any(key.source != "key" for key in released_in([having])):
        raise InvalidValueError("condition", got=condition, allowed="a condition on the release's columns alone")
    order = [names.index(name) for name, _ in query.keys]  # the place of each key's column
    places = sorted({order[key.index] for key in released_in([having])})
    shape = tuple(coding.columns[column_index].size for column_index in places)
    if float(np.prod(np.array(shape, dtype=np.float64))) > _CELLS:
        raise InvalidValueError("condition", got=condition, allowed="a condition on fewer columns at once")
    surely, maybe = np.ones(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    for conjunct in conjuncts(having):
        read = sorted({order[key.index] for key in released_in([conjunct])})
        grouped = [column_index for column_index in read if coding.columns[column_index].width > 1]
        if grouped and len(read) > 1:
            name = coding.columns[grouped[0]].name
            hint = f"Its neighbouring values are one here; compare {name} with constants, and join conditions with AND."
            raise InvalidValueError("condition", got=condition, allowed=f"one that reads {name!r} alone", hint=hint)
        if grouped:
            low, high = _grouped(coding, conjunct, read[0], order)
        else:  # on every combination of values
            sizes = [coding.columns[column_index].size for column_index in read]
            codes = np.indices(sizes).reshape(len(sizes), int(np.prod(sizes)))
            values = {
                index: [coding.columns[index].values[code] for code in row.tolist()]
                for index, row in zip(read, codes, strict=True)
            }
            low = high = _true(conjunct, order, values, coding, codes.shape[1])
        spread = [coding.columns[column_index].size if column_index in read else 1 for column_index in places]
        surely &= low.reshape(spread)
        maybe &= high.reshape(spread)
    return Masks(
        columns=tuple(coding.columns[column_index].name for column_index in places), surely=surely, maybe=maybe
    )


def _true(expression: Expression, order: list[int], values: dict[int, list[Any]], coding: Coding, size: int) -> Flags:
    """Evaluate a condition on values of its columns, by their places."""
    keys: list[Any] = [np.empty(0)] * len(order)
    for index, column_index in enumerate(order):
        if column_index in values:
            keys[index] = key_array(values[column_index], coding.columns[column_index].coded.type.kind)
    try:
        truth = np.asarray(evaluate(expression, keys, [])).astype(np.float64)
    except (KeyError, NotImplementedError, TypeError, ValueError) as error:
        raise InvalidValueError(
            "condition", got="a function that is not known here", allowed="comparisons and arithmetic"
        ) from error
    return np.broadcast_to(np.nan_to_num(truth) > 0, (size,))


def _grouped(coding: Coding, part: Expression, place: int, order: list[int]) -> tuple[Flags, Flags]:
    """Return two masks of a column's groups: a condition holds everywhere in the group, and somewhere in it."""
    column = coding.columns[place]
    levels, width = column.coded.levels, column.width
    if levels <= _ALL_POINTS:
        points = np.arange(levels)
    else:
        firsts = np.arange(column.groups) * width
        ends = np.minimum(firsts + width - 1, levels - 1)
        near = [code + shift for code in _constants(part, column) for shift in (-1, 0, 1, 2)]
        points = np.unique(np.clip(np.concatenate([firsts, ends, np.array(near, dtype=np.int64)]), 0, levels - 1))
    values: list[Any] = [column.coded.value(code) for code in points.tolist()]
    if column.coded.null:
        values.append(None)
    true = _true(part, order, {place: values}, coding, len(values))
    groups = points // width
    count = np.bincount(groups, minlength=column.groups)
    hits = np.bincount(groups, weights=true[: len(points)], minlength=column.groups)
    low, high = hits == count, hits > 0
    if column.coded.null:
        low, high = np.append(low, true[-1]), np.append(high, true[-1])
    return low, high


def _constants(part: Expression, column: ReleaseColumn) -> Iterator[int]:
    """Return the codes of the constants that a column is compared with; refuse anything else."""
    if isinstance(part, Call) and part.op in _LOGIC:
        for argument in part.arguments:
            yield from _constants(argument, column)
        return
    plain = isinstance(part, Call) and part.op in _COMPARED
    arguments = part.arguments if isinstance(part, Call) else ()
    if not plain or not all(isinstance(argument, Released | Literal) for argument in arguments):
        raise InvalidValueError(
            "condition",
            got=f"a function of {column.name}",
            allowed=f"comparisons of {column.name!r} with constants, for it has many values",
        )
    factor = column.coded.factor
    assert factor is not None  # noqa: S101 - only columns on a line are grouped
    for argument in arguments:
        if isinstance(argument, Literal) and argument.value is not None:
            yield int(position(argument.value) // factor.step) - factor.first
