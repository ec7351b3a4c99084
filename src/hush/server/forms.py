"""Everything a service says, as plain JSON values.

None of it depends on a row but answers, which are noisy, and what the policy calls public.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from hush.core.format import decimal
from hush.curator.data_sets import OpenDataSet
from hush.curator.explanation import Explanation
from hush.ledger import AccountView, Release
from hush.ledger.entries import Entry
from hush.policy.file import PolicyBudget
from hush.query.schema import Table
from hush.query.types import Type, Value, at_position


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
        "set_aside": float(view.set_aside),
        "pending": view.pending,
        "state": view.account.to_json(),
        "charged": None if view.charged is None else view.charged.to_json(),
    }


def release(made: Release) -> dict[str, Any]:
    """Return one charge and what became of it."""
    return asdict(made)


def receipt(made: Release, entry: Entry) -> dict[str, Any]:
    """Return a charge with its place in the chain of the ledger."""
    return {**asdict(made), "hash": entry.hash.hex()}


def explanation(found: Explanation) -> dict[str, Any]:
    """Return what a question would cost and how far off its answers would be: in figures, exactly, and in words."""
    exact, lines = found.price.itemised_json(), found.lines()
    return {**found.to_json(), "exact": exact, "drawable": found.drawable(), "lines": lines}
