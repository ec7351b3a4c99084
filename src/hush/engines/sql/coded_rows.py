"""The statement that hands out a question's bounded rows as integer codes; `hush.query.plan.rows` says which.

Everything that depends on one row alone is computed first: its unit and its codes c0, c1, …. Then the first rows of
each unit are kept, in the order of a keyed hash of its unit and codes. Where rows are told apart by numbers alone the
hash leaves the unit out, because those numbers shift when a row goes.
"""

from __future__ import annotations

from hush.core.values import dataclass
from hush.engines.sql.build import (
    Named,
    Sql,
    alias,
    binary,
    call,
    cast,
    column,
    integer,
    not_null,
    row_hash,
    try_cast,
    unit_number,
    window,
)
from hush.engines.sql.dialect import dialect
from hush.engines.sql.grid import grid_index
from hush.engines.sql.keys import Lists
from hush.engines.sql.other_statements import binned
from hush.engines.sql.queries import qualified, select, where
from hush.engines.sql.relations import UNBOUNDED, Bounds, Catalogue
from hush.engines.sql.rendered import UNIT
from hush.engines.sql.rows import Fresh, Reads
from hush.query.plan.choices import ValueHistogram
from hush.query.plan.limits import Units
from hush.query.plan.plan import Extraction
from hush.query.plan.rows import CodedColumn, RowPlan
from hush.query.plan.statistics import Population

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_TYPES = ((2**8, "UTINYINT"), (2**16, "USMALLINT"), (2**31, "INTEGER"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedStatement:
    """The statement, and the names of its columns."""

    text: str
    work: int
    """Nanoseconds that a stored row takes."""
    rows: Fresh
    """The rows that are coded."""
    codes: tuple[str, ...]
    """One for each column of the plan, in order."""
    unit: str | None
    """An integer that tells units apart; None where every row is a unit of its own."""


def coded_statement(
    plan: RowPlan,
    catalogue: Catalogue,
    salt: int,
    lists: Lists,
    unit_type: str | None,
    bounds: Bounds = UNBOUNDED,
    unit_key: str | None = None,
) -> CodedStatement:
    """Return the statement whose rows are the plan's coded rows; ``unit_type`` is how the engine stores units.

    With a ``unit_key`` units are told apart by a keyed hash that is the same at any time and on any version.
    """
    extraction = Extraction(
        relation=plan.relation, keys=(), domains=None, limits=plan.limits, statistics=(), count_units=False
    )
    reads = Reads(tuple(item.expression for item in plan.columns), frozenset())
    rows = Fresh(extraction, catalogue, None, salt, reads, lists=lists, bounds=bounds)
    cells: list[Named] = []
    for index, item in enumerate(plan.columns):
        rows, code = _code(rows, item, lists)
        cells.append(alias(code, f"c{index}"))
    codes = [column(cell.label, "t") for cell in cells]
    alone = plan.limits.units is Units.ALONE
    whole = select([*([] if alone else [column(UNIT, "t")]), *codes], rows.plain(cells))
    for code, item in zip(codes, plan.columns, strict=True):
        if not item.null:
            whole = where(whole, not_null(code))
    if alone:
        return CodedStatement(
            text=whole.measured, work=whole.work, rows=rows, codes=tuple(code.label for code in codes), unit=None
        )
    unit = column(UNIT, "t")
    hashed = [] if plan.limits.units is Units.NUMBERED else [unit]
    order = [row_hash([*hashed, *codes], salt), *codes]
    kept = qualified(select([unit, *codes], whole), window("row_number", [unit], order), plan.limits.rows)
    if unit_key is not None and plan.limits.units is Units.COLUMN:
        told: Named = alias(unit_number(unit_key, unit), UNIT)
    elif plan.limits.units is Units.NUMBERED and dialect().numbers_closely:
        told = alias(try_cast(unit, "BIGINT", "HUGEINT"), UNIT)
    elif unit_type in _INTEGERS and plan.limits.units is Units.COLUMN:
        told = alias(cast(unit, "BIGINT"), UNIT)
    else:
        told = alias(window("dense_rank", [], [unit]), UNIT)
    query = select([told, *codes], kept)
    return CodedStatement(
        text=query.measured, work=query.work, rows=rows, codes=tuple(code.label for code in codes), unit=UNIT
    )


def _code(rows: Fresh, item: CodedColumn, lists: Lists) -> tuple[Fresh, Sql]:
    """Return the rows, perhaps with a further column, and a column's code; NULL where there is none."""
    if item.factor is not None:
        index = grid_index(rows.known[item.expression], item.factor)
        code: Sql = binary("-", index, integer(item.factor.first)) if item.factor.first else index
    else:
        histogram = ValueHistogram(population=Population(), expression=item.expression, values=item.values)
        rows, code = binned(rows, histogram, lists)
    if item.null:
        code = call("coalesce", code, integer(item.levels))
    narrow = next((name for size, name in _TYPES if item.size <= size), "BIGINT")
    return rows, cast(code, narrow)
