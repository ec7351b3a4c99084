"""Made-up rows from a schema: to try a question free of charge, before it is asked about people.

`made_up` is a session of the same analyst and the same policy over rows that hush invents from what the policy says of
columns: values spread over their bounds or lists, a few NULLs, units that have as many rows as count. Public tables are
the real ones, which everybody may see. No private row is read, and no ledger is needed: nothing is charged.

An answer made so can never pass for a real one. It says so wherever it is shown, its tables and files begin with a
column ``made_up``, it has no receipt, and nothing stores it: `hush.curator.pipeline` charges and
records nothing for made-up rows.

Values are spread by a hash of table and column, so the rows are the same every time. They protect nobody and need no
secret.

>>> import pyarrow as pa
>>> from hush.curator.opening import protect
>>> people = pa.table({"id": [1, 2], "age": [30, 40]})
>>> with protect(people, unit="id", bounds={"age": (0, 120)}, budget="1") as curator:
...     answer = curator.dummy().ask("SELECT COUNT(*) AS n FROM data", epsilon="0.1")
...     spent = curator.budget()[0].spent.epsilon
>>> answer.made_up, answer.receipt, answer.table.column_names, str(spent)
(True, '', ['made_up', 'n', 'n_error'], '0')
"""

from __future__ import annotations

import datetime as dt
import hashlib
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core.on_demand import optional
from hush.curator.data_sets import OpenDataSet
from hush.curator.session import AnalystSession
from hush.engines.registry import open_engine, open_sources
from hush.query.schema import Schema
from hush.query.types import Kind, Type, at_position, position
from hush.report.columns import plain

UNITS = 1000
"""How many people are made up."""
_NULLS = 50
"""One cell in this many is NULL, in columns that may have NULL."""
_WIDE = Fraction(2**62)
_LINES = {
    Kind.DATE: (position(dt.date(2020, 1, 1)), position(dt.date(2025, 12, 31))),
    Kind.TIMESTAMP: (position(dt.datetime(2020, 1, 1)), position(dt.datetime(2025, 12, 31))),  # noqa: DTZ001
}
_STEPS = {Kind.INTEGER: Fraction(1), Kind.DATE: Fraction(1), Kind.TIMESTAMP: Fraction(1_000_000)}
_WORDS = tuple(f"made up {number}" for number in range(1, 21))


def made_up(session: AnalystSession) -> AnalystSession:
    """Return a session of the same analyst over invented rows; accounts are the real ones, which price questions."""
    data_sets = {}
    for name, data_set in session.data_sets.items():
        opened = open_sources({**data_set.public, **rows(data_set.schema)})
        engine = open_engine(data_set.schema, opened)
        data_sets[name] = OpenDataSet(schema=data_set.schema, engine=engine, public=data_set.public)
    return AnalystSession(data_sets, session.ledger, session.analyst, made_up=True)


def rows(schema: Schema) -> dict[str, Any]:
    """Return Arrow tables with invented rows for every private table of a schema."""
    pa = optional("pyarrow", "arrow")
    keys: dict[str, set[str]] = {}  # the columns by which rows of other tables refer to a table
    for table in schema.tables.values():
        for hop in table.unit.hops if table.unit is not None else ():
            keys.setdefault(hop.table, set()).add(hop.key)
    frames = {}
    for name, table in schema.tables.items():
        if table.public:
            continue
        # a few rows of each unit are enough to try a question, and quick to invent
        number = UNITS if table.unit is None else UNITS * min(table.max_rows, 3)
        columns = {column: _cells(f"{name}.{column}", type_, number) for column, type_ in table.columns.items()}
        # the number of a unit, or of a row of another table: all thousand occur equally often
        references = [row % UNITS for row in range(number)]
        columns |= dict.fromkeys(keys.get(name, ()), references)
        if table.unit is not None:
            columns[table.unit.hops[0].column if table.unit.hops else table.unit.column] = references
        frames[name] = pa.table({column: pa.array(cells) for column, cells in columns.items()})
    return frames


def _cells(name: str, type_: Type, number: int) -> list[Any]:
    """Return invented values of a type."""
    mixed = _mixed(name, number)
    cells: list[Any]
    if type_.kind is Kind.BOOLEAN:
        cells = [bool(mix % 2) for mix in mixed]
    elif type_.values is not None or type_.kind is Kind.TEXT:
        values = [plain(value) for value in type_.values or _WORDS]
        cells = [values[mix % len(values)] for mix in mixed]
    else:
        # the line on which values are spread: between the bounds, as far as there are any
        lower, upper = _LINES.get(type_.kind, (Fraction(0), Fraction(100)))
        lower = max(type_.lower if type_.lower is not None else min(lower, type_.upper or lower), -_WIDE)
        upper = max(min(type_.upper if type_.upper is not None else max(upper, lower), _WIDE), lower)
        step = max(type_.step or Fraction(0), _STEPS.get(type_.kind, Fraction(0)))
        step = step or (upper - lower) / 1000 or Fraction(1)
        places = int((upper - lower) / step) + 1
        cells = [plain(at_position(type_.kind, lower + (mix % places) * step)) for mix in mixed]
    if not type_.nullable:
        return cells
    # mixed anew, so that NULL does not fall on the same values each time
    return [None if mix % _NULLS == 0 else cell for cell, mix in zip(cells, _mixed(f"{name}?", number), strict=True)]


def _mixed(name: str, number: int) -> list[int]:
    """Return well-mixed whole numbers, one for each row."""
    mixed: list[int] = np.frombuffer(hashlib.shake_128(name.encode()).digest(8 * number), dtype="<u8").tolist()
    return mixed
