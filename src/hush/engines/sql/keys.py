"""Group keys in SQL: public keys are numbered, private ones kept as they are.

A public key that lies on a line is numbered by arithmetic; others are looked up in a table of their values. Rows with
other keys fall out where the number is given.

Private keys become numbers once they are chosen, and rows of other groups fall out. This happens *after* the rows were
bounded: which groups of a unit are kept depends on that unit's rows alone, and never on which keys were chosen. The
chosen keys and their numbers lie in a table of the session's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

from hush.core.values import dataclass
from hush.engines.sql.build import (
    NULL,
    Sql,
    alias,
    array,
    between,
    binary,
    both,
    call,
    case,
    cast,
    column,
    double,
    integer,
    is_null,
    matches,
    not_null,
    null,
    try_cast,
)
from hush.engines.sql.dialect import dialect
from hush.engines.sql.expressions import render
from hush.engines.sql.queries import Query, first_rows, joined, select, subquery, union, where
from hush.engines.sql.relations import (
    Catalogue,
    RelationWriter,
)
from hush.engines.sql.values import FORMS, LONG, WHOLE, Form, Value, constant, on_line, scaled, unscaled
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.domains import Derived, Lookup, Points
from hush.query.types import Kind, Type
from hush.query.types import Value as Constant


@dataclass(frozen=True, slots=True)
class Axis:
    """One public key's values, numbered."""

    values: Sequence[Constant]
    type: Type

    def line(self) -> tuple[Fraction, int] | None:
        """Return (step, first index) if the values are consecutive points of a grid, then NULL or not; else None."""
        if not self.type.kind.numeric:
            return None
        if isinstance(self.values, Points):
            far = max(abs(self.values.first), abs(self.values.first + self.values.many - 1)) > 2**51
            return None if far else (self.values.step, self.values.first)
        values = self.values[:-1] if self.values and self.values[-1] is None else self.values
        numbers = [value for value in values if isinstance(value, Fraction)]
        if len(numbers) != len(values) or len(numbers) < 2:
            return None
        step = numbers[1] - numbers[0]
        if step <= 0 or (numbers[0] / step).denominator != 1:
            return None
        first, p, q = int(numbers[0] / step), step.numerator, step.denominator
        if max(abs(first), abs(first + len(numbers) - 1)) > 2**51:
            return None
        # in integers: there may be a million of them
        if any(number.numerator * q != at * p * number.denominator for at, number in enumerate(numbers, first)):
            return None
        return step, first


Lists = Callable[[Axis, Form, str], Sql]
"""Gives what to select an axis's values k from, in a form, and their numbers c, under a name; each value is there once.

Numbers that are one to the engine are one value: a row must never fall into two groups.
"""


def key_value(value: Value, type_: Type) -> Value:
    """Return a value fit to group by and to hand out: whole numbers as BIGINT, numbers finite without negative zero."""
    value = value.finite()
    if value.form is Form.WIDE and _told_apart(type_.values or ()) and dialect().name == "duckdb":
        return value
    if value.form is Form.WIDE:
        ends = [end for end in (type_.lower, type_.upper) if end is not None]
        if any(not LONG[0] <= end <= LONG[1] for end in ends):
            raise UnplannableError(
                "whole numbers beyond 64 bits are neither keys nor counted apart; write CAST(… AS VARCHAR), "
                "or limit them with CLIP(x, lower, upper)"
            )
        return Value(try_cast(value.sql, "BIGINT", "HUGEINT"), Form.INTEGER)
    if value.form is Form.DOUBLE and type_.kind is Kind.INTEGER:
        return Value(try_cast(value.sql, "BIGINT", "DOUBLE"), Form.INTEGER)
    if value.form is Form.DOUBLE:
        return replace(value, sql=binary("+", value.sql, double(0)))
    return value


def _told_apart(values: Sequence[Constant]) -> bool:
    """Return whether listed numbers are still different as the floats that an answer shows."""
    numbers = [float(value) for value in values if isinstance(value, Fraction)]
    return 0 < len(numbers) == len(set(numbers))


def shown_value(value: Value, type_: Type) -> Value:
    """Return a value fit to hand out; unlike a key, it may be a whole number beyond 64 bits."""
    return value if value.form is Form.WIDE else key_value(value, type_)


def numbered(query: Query, value: Value, axis: Axis, label: str, lists: Lists) -> tuple[Query, Sql]:
    """Return the number of each key of one axis, dropping rows whose key is not on it."""
    on_grid = axis.line()
    if on_grid is not None:
        step, first = on_grid
        number = on_line(value)
        if number.form is Form.INTEGER and step == 1:
            index: Sql = number.sql
        else:
            index = try_cast(scaled(number.double().finite().sql, step), "BIGINT", "DOUBLE")
        last = len(axis.values) - 1
        null = axis.values[last] is None
        inside: Sql = between(index, integer(first), integer(first + last - null))
        place = binary("-", index, integer(first)) if first else index
        if null:
            missing = is_null(key_value(value, axis.type).sql)
            inside = binary("OR", missing, inside)
            place = case((missing, integer(last)), otherwise=place)
        return where(query, inside), place
    key = key_value(value, axis.type)
    test: Sql = binary("=", key.sql, column("k", label))
    if None in axis.values:
        test = matches(key.sql, column("k", label), key.form.value)
    return joined(query, lists(axis, key.form, label), "inner", test), column("c", label)


def place(value: Value, axis: Axis) -> Sql | None:
    """Return the number of the value of an axis that a value equals, NULL for none, by arithmetic; None without such.

    As `key_value` gives it, the value is whole, or a float that is compared with the floats nearest to the points i·p/q
    of a grid of step p/q:

    * they are (i·p)/q, correctly rounded, for i·p and q are floats up to 2⁵³;
    * a float that equals one of them has a relative error of at most 2⁻⁵³ (with q ≤ 2⁵³ none but 0 is so small that it
      has fewer bits), and `scaled` adds at most 2·2⁻⁵³. So for |i| < 2⁵⁰ it is within 3/8 of i, or hardly more, before
      it is rounded, and rounded to i.

    Hence x is the float of a point if and only if it is that of the point i = scaled(x).
    """
    line = axis.line()
    if line is None or axis.values[-1] is None:
        return None
    (step, first), last = line, line[1] + len(axis.values) - 1
    p, q, most = step.numerator, step.denominator, max(-first, last)
    if value.form is Form.INTEGER:
        if q != 1 or most * p >= 2**63:
            return None
        inside: Sql = between(value.sql, integer(first * p), integer(last * p))
        index = value.sql
        if p != 1:
            inside = binary("AND", inside, binary("=", binary("%", value.sql, integer(p)), integer(0)))
            index = binary("//", value.sql, integer(p))
    elif value.form is Form.DOUBLE and q <= 2**53 and most < 2**50 and most * p <= 2**53:
        nearest = scaled(value.sql, step, value.greatest)
        same = binary("=", value.sql, unscaled(nearest, step))
        inside = binary("AND", between(nearest, double(first), double(last)), same)
        index = cast(nearest, "BIGINT")
    else:
        return None
    return case((inside, binary("-", index, integer(first)) if first else index))


def code(parts: list[Sql], axes: Sequence[Axis]) -> Sql:
    """Return the number of a combination of keys, in the smallest type that holds all of them."""
    number = parts[0]
    for part, axis in zip(parts[1:], axes[1:], strict=True):
        number = binary("+", binary("*", cast(number, "BIGINT"), integer(len(axis.values))), part)
    return try_cast(number, "SMALLINT" if size(axes) < 2**15 else "INTEGER", "BIGINT")


def size(axes: Sequence[Axis]) -> int:
    """Return how many combinations of keys there are."""
    return prod(len(axis.values) for axis in axes)


def derived_values(domain: Derived, catalogue: Catalogue, most: int) -> Query:
    """Return the distinct values of an expression over all combinations of its columns' public values.

    Each column is what it is in the rows: 0.5 of a DECIMAL(9, 2) is the text 0.50, and of a DOUBLE 0.5.
    """
    stored = RelationWriter(catalogue).write(domain.relation, alone=True).columns
    columns = {}
    query: Query | None = None
    for index, (label, type_, values) in enumerate(domain.columns):
        listed = [constant(value, type_) for value in values]
        form = FORMS[type_.kind]  # as the column itself: 1.0 and 1 are different texts
        options = array([*(_as_form(item, form) for item in listed), null(form.value)])
        part = subquery(select([alias(call("unnest", options), "x")]), f"d{index}")
        query = select([], part) if query is None else joined(query, part, "cross")
        like = stored[label]
        columns[label] = Value(column("x", f"d{index}"), form, scale=like.scale, single=like.single)
    assert query is not None  # noqa: S101 - a derived domain has columns
    value = key_value(render(domain.expression, columns), domain.expression.type)
    seen = select([column("k", "t")], query.showing([alias(value.sql, "k")]))
    if not domain.null:
        seen = where(seen, not_null(column("k", "t")))
    return first_rows(seen, most + 1, column("k", "t"))


def looked_values(lookup: Lookup, expressions: Sequence[Expression], catalogue: Catalogue, most: int) -> Query:
    """Return the distinct combinations of expressions over a public table."""
    rendered = RelationWriter(catalogue).write(lookup.within or lookup.scan, alone=True)
    rows: Query | Sql = rendered.query
    if lookup.optional:
        rows = union([rendered.query, select([NULL for _ in rendered.query.columns])])
    values = [key_value(render(item, rendered.columns), item.type) for item in expressions]
    named = [alias(value.sql, f"k{place}") for place, value in enumerate(values)]
    found = [column(f"k{place}", "t") for place in range(len(values))]
    query = select(found, select(named, rows))
    return first_rows(query, most + 1, *found)


def listed(item: Constant, type_: Type, like: Value) -> Sql:
    """Return a public value in the form of the values it is compared with."""
    return _as_form(constant(item, type_), like.form)


def _as_form(value: Value, form: Form) -> Sql:
    return value.sql if value.form is form else try_cast(value.sql, form.value, value.form.value)


CHOSEN = "chosen"
"""The table of the chosen keys: ``number`` and the key columns; every key is there once."""
NUMBER = "number"


def numbered_by_choice(rows: Query, keys: Mapping[str, Form]) -> Query:
    """Return the rows with a chosen key, which is now the number ``k``, and all their other columns."""
    labels = [label for label in rows.labels if label not in keys]
    same = both([matches(column(key, "t"), column(key, "c"), form.value) for key, form in keys.items()])
    cells = [column(label, "t") for label in labels]
    return joined(
        select([alias(column(NUMBER, "c"), "k"), *cells], rows),
        Sql(dialect().chosen(CHOSEN, "c", [NUMBER, *keys], ["BIGINT", *(form.value for form in keys.values())])),
        "inner",
        same,
    )


def without_choice(main: str, keys: Sequence[str]) -> str:
    """Return a statement that lets the others be read, without running, before anything is chosen: a view of all."""
    columns = ", ".join(f'"{key}"' for key in keys)
    return f'CREATE TEMP VIEW "{CHOSEN}" AS SELECT 0 AS "{NUMBER}", {columns} FROM ({main}) AS t'  # noqa: S608


def in_form(value: Constant, form: Form) -> Any:
    """Return a public value as the engine holds it; None if no value of that form equals it."""
    if not isinstance(value, Fraction):
        return value
    if form in WHOLE:
        held = value.denominator == 1 and (form is Form.WIDE or -(2**63) <= value < 2**63)
        return int(value) if held else None
    try:
        return float(value)
    except OverflowError:
        return None
