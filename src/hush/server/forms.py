"""Everything a service says, as plain JSON values, and the values of questions as they travel.

None of it depends on a row but answers, which are noisy, and what the policy calls public.

Values of parameters travel as JSON's own where it has them. Dates, times and exact numbers, which it has not, are
objects with one name:

>>> import datetime as dt
>>> from fractions import Fraction
>>> to_wire([3, "x", dt.date(2026, 1, 31), Fraction(1, 3)])
[3, 'x', {'date': '2026-01-31'}, {'number': '1/3'}]
>>> from_wire(to_wire({"from": dt.date(2026, 1, 31)}))
{'from': datetime.date(2026, 1, 31)}
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from hush.core import InvalidValueError, exact
from hush.core.format import decimal
from hush.curator.data_sets import OpenDataSet
from hush.ledger import AccountView, Release
from hush.ledger.entries import Entry
from hush.policy.file import PolicyBudget
from hush.query.schema import Table
from hush.query.types import Type, Value, at_position

_READ: Mapping[str, Any] = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "number": lambda text: exact(text, "parameters"),
}


def to_wire(value: Any) -> Any:
    """Return a parameter, or a list or mapping of such, as JSON values."""
    if isinstance(value, Mapping):
        return {str(name): to_wire(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(part) for part in value]
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, Fraction):
        return {"number": str(value)}
    return value


def from_wire(value: Any) -> Any:
    """Return the parameters that `to_wire` wrote: a list, or a mapping by name."""
    if isinstance(value, Mapping):
        return {name: _value(part) for name, part in value.items()}
    return [_value(part) for part in value]


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    allowed = "a value, or an object with one of the names date, timestamp and number, and a text"
    if len(value) == 1:
        name, text = next(iter(value.items()))
        if name in _READ and isinstance(text, str):
            try:
                return _READ[name](text)
            except ValueError:
                pass
    raise InvalidValueError("parameters", got=value, allowed=allowed)


def data_set(opened: OpenDataSet, budget: PolicyBudget) -> dict[str, Any]:
    """Return what an analyst may know of a data set: its schema and its policy."""
    schema = opened.schema
    return {
        "name": schema.data,
        "unit": schema.unit,
        "neighbours": schema.neighbours.value,
        "budget": {"epsilon": decimal(budget.epsilon), "delta": decimal(budget.delta)},
        "tables": [_table(table) for table in schema.tables.values()],
    }


def _table(table: Table) -> dict[str, Any]:
    limits = {} if table.public else {"max_rows": table.max_rows, "max_groups": table.max_groups}
    return {
        "name": table.name,
        "public": table.public,
        **limits,
        "columns": [{"name": name, **_column(column)} for name, column in table.columns.items()],
    }


def _column(column: Type) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": column.kind.value}
    if column.kind.ranged:
        for name, bound in (("lower", column.lower), ("upper", column.upper)):
            shown[name] = None if bound is None else plain(at_position(column.kind, bound))
    if column.kind.numeric and column.step is not None:
        shown["step"] = decimal(column.step)
    if column.values is not None:
        shown["values"] = [plain(value) for value in column.values]
    return shown


def plain(value: Value) -> Any:
    """Return a public value as JSON: numbers as exact texts, dates in ISO's form."""
    if isinstance(value, Fraction):
        return decimal(value)
    return value.isoformat() if isinstance(value, dt.date) else value


def account(view: AccountView) -> dict[str, Any]:
    """Return what is left of a budget."""
    remaining, spent = view.remaining, view.spent
    return {
        "data": view.data,
        "analyst": view.analyst,
        "kind": view.account.kind,
        "budget": {"epsilon": decimal(view.epsilon), "delta": decimal(view.delta)},
        "spent": {"epsilon": decimal(spent.epsilon), "delta": decimal(spent.delta), "share": float(spent.share)},
        "remaining": {
            "epsilon": decimal(remaining.epsilon),
            "delta": decimal(remaining.delta),
            "share": float(remaining.share),
        },
        "delta_for_keys": decimal(view.reserve),
        "pending": view.pending,
        "state": view.account.to_json(),
    }


def release(made: Release) -> dict[str, Any]:
    """Return one charge and what became of it."""
    return asdict(made)


def receipt(made: Release, entry: Entry) -> dict[str, Any]:
    """Return a charge with its place in the chain of the ledger."""
    return {**asdict(made), "hash": entry.hash.hex()}
