"""Group keys in SQL: public keys are numbered, private ones kept as they are.

A public key that lies on a line is numbered by arithmetic; others are looked up in a table of their values. Rows with
other keys fall out where the number is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from hush.engines.sql.build import (
    Sql,
    alias,
    binary,
    call,
    case,
    cast,
    column,
    double,
    integer,
    joined,
    name,
    not_null,
    select,
    try_cast,
    where,
)
from hush.engines.sql.expressions import render
from hush.engines.sql.forms import FORMS, Form, Value, constant, on_line, scaled
from hush.engines.sql.relations import (
    Catalogue,
    RelationWriter,
)
from hush.query.expressions import Expression
from hush.query.plan.domains import Derived, Lookup
from hush.query.types import Kind, Type
from hush.query.types import Value as Constant


@dataclass(frozen=True, slots=True)
class Axis:
    """One public key's values, numbered."""

    values: tuple[Constant, ...]
    type: Type

    def line(self) -> tuple[Fraction, int] | None:
        """Return (step, first index) if the values are consecutive points of a grid, then NULL or not; else None."""
        values = self.values[:-1] if self.values and self.values[-1] is None else self.values
        numbers = [value for value in values if isinstance(value, Fraction)]
        if not self.type.kind.numeric or len(numbers) != len(values) or len(numbers) < 2:
            return None
        step = numbers[1] - numbers[0]
        if step <= 0 or (numbers[0] / step).denominator != 1 or max(map(abs, numbers)) / step > 2**51:
            return None
        if any(number != numbers[0] + index * step for index, number in enumerate(numbers)):
            return None
        return step, int(numbers[0] / step)


Lists = Callable[[Axis, Form], str]
"""Gives the name of a table in the engine that holds an axis's values k, in a form, and their numbers c."""


def key_value(value: Value, type_: Type) -> Value:
    """Return a value fit to group by and to hand out: whole numbers as BIGINT, numbers finite without negative zero."""
    value = value.finite()
    if value.form is Form.DOUBLE and type_.kind is Kind.INTEGER:
        return Value(try_cast(value.sql, "BIGINT"), Form.INTEGER)
    if value.form is Form.DOUBLE:
        return Value(binary(exp.Add, value.sql, double(0)), Form.DOUBLE)
    return value


def numbered(query: exp.Select, value: Value, axis: Axis, label: str, lists: Lists) -> tuple[exp.Select, Sql]:
    """Return the number of each key of one axis, dropping rows whose key is not on it."""
    on_grid = axis.line()
    if on_grid is not None:
        step, first = on_grid
        number = on_line(value)
        if number.form is Form.INTEGER and step == 1:
            index: Sql = number.sql
        else:
            index = try_cast(scaled(number.double().finite().sql, step), "BIGINT")
        last = len(axis.values) - 1
        null = axis.values[last] is None
        inside: Sql = exp.Between(this=index, low=integer(first), high=integer(first + last - null))
        place = binary(exp.Sub, index, integer(first)) if first else index
        if null:
            missing = exp.Is(this=key_value(value, axis.type).sql, expression=exp.null())
            inside = exp.Paren(this=binary(exp.Or, missing, inside))
            place = case((missing, integer(last)), otherwise=place)
        return where(query, inside), place
    key = key_value(value, axis.type)
    test: Sql = binary(exp.EQ, key.sql, column("k", label))
    if None in axis.values:
        test = exp.NullSafeEQ(this=key.sql, expression=column("k", label))
    table = exp.Table(this=name(lists(axis, key.form)), alias=exp.TableAlias(this=name(label)))
    return joined(query, table, "inner", test), column("c", label)


def code(parts: list[Sql], axes: Sequence[Axis]) -> Sql:
    """Return the number of a combination of keys, in the smallest type that holds all of them."""
    number = parts[0]
    for part, axis in zip(parts[1:], axes[1:], strict=True):
        number = binary(exp.Add, binary(exp.Mul, cast(number, "BIGINT"), integer(len(axis.values))), part)
    return try_cast(number, "SMALLINT" if size(axes) < 2**15 else "INTEGER")


def size(axes: Sequence[Axis]) -> int:
    """Return how many combinations of keys there are."""
    combinations = 1
    for axis in axes:
        combinations *= len(axis.values)
    return combinations


def derived_values(domain: Derived, most: int) -> exp.Select:
    """Return the distinct values of an expression over all combinations of its columns' public values."""
    columns = {}
    query: exp.Select | None = None
    for index, (label, type_, values) in enumerate(domain.columns):
        listed = [constant(value, type_) for value in values]
        form = FORMS[type_.kind]  # as the column itself: 1.0 and 1 are different texts
        array = exp.Array(expressions=[*(_as_form(item, form) for item in listed), cast(exp.null(), form.value)])
        part = exp.Select(expressions=[alias(call("unnest", array), "x")]).subquery(name(f"d{index}"))
        query = exp.Select().from_(part, copy=False) if query is None else joined(query, part, "cross")
        columns[label] = Value(column("x", f"d{index}"), form)
    assert query is not None  # noqa: S101 - a derived domain has columns
    value = key_value(render(domain.expression, columns), domain.expression.type)
    query.set("expressions", [alias(value.sql, "k")])
    seen = select([column("k", "t")], query)
    if not domain.null:
        seen = where(seen, not_null(column("k", "t")))
    return seen.distinct(copy=False).order_by(column("k", "t"), copy=False).limit(most + 1, copy=False)


def looked_values(lookup: Lookup, expressions: Sequence[Expression], catalogue: Catalogue, most: int) -> exp.Select:
    """Return the distinct combinations of expressions over a public table."""
    rendered = RelationWriter(catalogue).write(lookup.scan, alone=True)
    rows: exp.Select | Sql = rendered.query
    if lookup.optional:
        rows = exp.union(rows, exp.Select(expressions=[exp.null() for _ in rendered.query.expressions]), distinct=False)
    values = [key_value(render(item, rendered.columns), item.type) for item in expressions]
    named = [alias(value.sql, f"k{place}") for place, value in enumerate(values)]
    found = [column(f"k{place}", "t") for place in range(len(values))]
    query = select(found, select(named, rows))
    return query.distinct(copy=False).order_by(*found, copy=False).limit(most + 1, copy=False)


def listed(item: Constant, type_: Type, like: Value) -> Sql:
    """Return a public value in the form of the values it is compared with."""
    return _as_form(constant(item, type_), like.form)


def _as_form(value: Value, form: Form) -> Sql:
    return value.sql if value.form is form else try_cast(value.sql, form.value)
