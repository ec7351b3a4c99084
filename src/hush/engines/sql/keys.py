"""Group keys in SQL: public keys are numbered, private ones kept as they are.

A public key that lies on a line is numbered by arithmetic; others are looked up in a table of their values. Rows with
other keys fall out where the number is given.

Private keys become numbers once they are chosen, and rows of other groups fall out. This happens *after* the rows were
bounded: which groups of a unit are kept depends on that unit's rows alone, and never on which keys were chosen. The
chosen keys and their numbers lie in a table of the session's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, Protocol

from hush.engines.sql.dialect import Dialect
from hush.engines.sql.nodes import (
    NULL,
    ArrayOf,
    Between,
    From,
    ParameterRows,
    Scalar,
    Select,
    Subquery,
    TableName,
    Union,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    columns_of,
    double,
    first_rows,
    integer,
    is_null,
    joined,
    matches,
    not_null,
    null,
    quotient,
    remainder,
    select,
    try_cast,
    where,
)
from hush.engines.sql.relations import (
    Catalogue,
    RelationWriter,
)
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import LONG, SQL_TYPES, WHOLE, SqlType, Value, constant, on_line, scaled, unscaled
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.keys import DerivedKey, Lookup, Points
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
        # round(x/step) - first is a value's place only if the grid runs through 0 and the values rise
        if step <= 0 or (numbers[0] / step).denominator != 1:
            return None
        first, p, q = int(numbers[0] / step), step.numerator, step.denominator
        if max(abs(first), abs(first + len(numbers) - 1)) > 2**51:
            return None
        # in integers: there may be a million of them
        if any(number.numerator * q != index * p * number.denominator for index, number in enumerate(numbers, first)):
            return None
        return step, first


class Lists(Protocol):
    """The lists of public keys that one question's statements read; they are there as long as this object is.

    Numbers that are one to the engine are one value of a list: a row must never fall into two groups.
    """

    @property
    def views(self) -> str:
        """How the names of the question's views begin."""

    @property
    def parameters(self) -> Mapping[int, list[Any]]:
        """The lists that are parameters of statements, by number."""

    def __call__(self, axis: Axis, form: SqlType, label: str) -> From:
        """Return the source of an axis's values k, in a form, and their numbers c, under a name."""


def key_value(value: Value, type_: Type, dialect: Dialect) -> Value:
    """Return a value fit to group by and to hand out: whole numbers as BIGINT, numbers finite without negative zero."""
    value = value.finite()
    if value.form is SqlType.WIDE and _told_apart(type_.values or ()) and dialect.wide_keys:
        return value
    if value.form is SqlType.WIDE:
        ends = [end for end in (type_.lower, type_.upper) if end is not None]
        if any(not LONG[0] <= end <= LONG[1] for end in ends):
            raise UnplannableError(
                "whole numbers beyond 64 bits are neither keys nor counted apart; write CAST(… AS VARCHAR), "
                "or limit them with CLIP(x, lower, upper)"
            )
        # the type may hold only for the rows that a condition leaves: elsewhere NULL, and no error
        return Value(try_cast(value.sql, "BIGINT", "HUGEINT"), SqlType.INTEGER)
    if value.form is SqlType.DOUBLE and type_.kind is Kind.INTEGER:
        return Value(try_cast(value.sql, "BIGINT", "DOUBLE"), SqlType.INTEGER)
    if value.form is SqlType.DOUBLE:
        # -0.0 + 0.0 is 0.0: both zeros are one key
        return replace(value, sql=value.sql + double(0))
    return value


def _told_apart(values: Sequence[Constant]) -> bool:
    """Return whether listed numbers are still different as the floats that an answer shows."""
    numbers = [float(value) for value in values if isinstance(value, Fraction)]
    return 0 < len(numbers) == len(set(numbers))


def shown_value(value: Value, type_: Type, dialect: Dialect) -> Value:
    """Return a value fit to hand out; unlike a key, it may be a whole number beyond 64 bits."""
    return value if value.form is SqlType.WIDE else key_value(value, type_, dialect)


def numbered(
    query: Select, value: Value, axis: Axis, label: str, lists: Lists, dialect: Dialect
) -> tuple[Select, Scalar]:
    """Return the number of each row's key on an axis, and the query without rows that have another key."""
    on_grid = axis.line()
    if on_grid is not None:
        step, first = on_grid
        number = on_line(value)
        if number.form is SqlType.INTEGER and step == 1:
            index: Scalar = number.sql
        else:
            index = try_cast(scaled(number.double().finite().sql, step), "BIGINT", "DOUBLE")
        last = len(axis.values) - 1
        null = axis.values[last] is None
        inside: Scalar = Between(index, integer(first), integer(first + last - null))
        offset = index - first if first else index
        if null:
            # NULL, the last of the values, is also the key of what is not finite
            missing = is_null(key_value(value, axis.type, dialect).sql)
            inside = missing | inside
            offset = case((missing, integer(last)), otherwise=offset)
        return where(query, inside), offset
    key = key_value(value, axis.type, dialect)
    test: Scalar = binary("=", key.sql, column("k", label))
    # an equality never finds NULL
    if None in axis.values:
        test = matches(key.sql, column("k", label), key.form.value)
    return joined(query, lists(axis, key.form, label), "inner", test), column("c", label)


def place(value: Value, axis: Axis) -> Scalar | None:
    """Return the number of an axis's value that equals a value, NULL for none; None if arithmetic cannot find it.

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
    p, q, greatest = step.numerator, step.denominator, max(-first, last)
    if value.form is SqlType.INTEGER:
        # the values at both ends are written as 64-bit constants
        if q != 1 or greatest * p >= 2**63:
            return None
        inside: Scalar = Between(value.sql, integer(first * p), integer(last * p))
        index = value.sql
        if p != 1:
            inside = inside & binary("=", remainder(value.sql, integer(p)), integer(0))
            # exact where `inside` holds, so it does not matter how the engine rounds
            index = quotient(value.sql, integer(p))
    elif value.form is SqlType.DOUBLE and q <= 2**53 and greatest < 2**50 and greatest * p <= 2**53:
        nearest = scaled(value.sql, step, value.greatest)
        is_point = binary("=", value.sql, unscaled(nearest, step))
        inside = Between(nearest, double(first), double(last)) & is_point
        index = cast(nearest, "BIGINT")
    else:
        return None
    return case((inside, index - first if first else index))


def code(parts: list[Scalar], axes: Sequence[Axis]) -> Scalar:
    """Return the number of a combination of keys, in the smallest type that holds all numbers."""
    number = parts[0]
    for key_number, axis in zip(parts[1:], axes[1:], strict=True):
        # in 64 bits: the parts may have a smaller type, which the product would exceed
        number = cast(number, "BIGINT") * len(axis.values) + key_number
    return try_cast(number, "SMALLINT" if size(axes) < 2**15 else "INTEGER", "BIGINT")


def size(axes: Sequence[Axis]) -> int:
    """Return how many combinations of keys there are."""
    return prod(len(axis.values) for axis in axes)


def derived_values(domain: DerivedKey, catalogue: Catalogue, limit: int) -> Select:
    """Return the distinct values of an expression over all combinations of its columns' public values.

    Each column is what it is in the rows: 0.5 of a DECIMAL(9, 2) is the text 0.50, and of a DOUBLE 0.5.
    """
    stored = RelationWriter(catalogue).write(domain.relation, alone=True).columns
    columns = {}
    query: Select | None = None
    for index, (label, type_, values) in enumerate(domain.columns):
        constants = [constant(value, type_) for value in values]
        form = SQL_TYPES[type_.kind]  # as the column itself: 1.0 and 1 are different texts
        # with NULL, of which the expression may make a key; where NULL itself is none, it goes below
        options = ArrayOf((*(public_value.to(form).sql for public_value in constants), null(form.value)))
        options_table = Subquery(select([alias(call("unnest", options), "x")]), f"d{index}")
        query = select([], options_table) if query is None else joined(query, options_table, "cross")
        stored_value = stored[label]
        columns[label] = Value(column("x", f"d{index}"), form, scale=stored_value.scale, single=stored_value.single)
    assert query is not None  # noqa: S101 - a derived domain has columns
    value = key_value(value_of(domain.expression, columns), domain.expression.type, catalogue.dialect)
    distinct_keys = select([column("k", "t")], query.showing([alias(value.sql, "k")]))
    if not domain.null:
        distinct_keys = where(distinct_keys, not_null(column("k", "t")))
    # one more than is allowed tells the caller that there are too many
    return first_rows(distinct_keys, limit + 1, column("k", "t"))


def looked_values(lookup: Lookup, expressions: Sequence[Expression], catalogue: Catalogue, limit: int) -> Select:
    """Return the distinct combinations of expressions over a public table."""
    rendered = RelationWriter(catalogue).write(lookup.within or lookup.scan, alone=True)
    rows: Select | From = rendered.query
    if lookup.optional:
        # a LEFT JOIN that finds no row gives NULLs, so they are a combination of keys, too
        rows = Union((rendered.query, select([NULL for _ in rendered.query.columns])), "t")
    values = [
        key_value(value_of(expression, rendered.columns), expression.type, catalogue.dialect)
        for expression in expressions
    ]
    cells = [alias(value.sql, f"k{index}") for index, value in enumerate(values)]
    keys = [column(f"k{index}", "t") for index in range(len(values))]
    query = select(keys, select(cells, rows))
    return first_rows(query, limit + 1, *keys)


def listed(public_value: Constant, type_: Type, stored_value: Value) -> Scalar:
    """Return a public value in the form of the values it is compared with."""
    return constant(public_value, type_).to(stored_value.form).sql


NUMBER = "number"
"""The number of a chosen key."""


CHOSEN = "chosen"
"""The table of the chosen keys: their numbers and the key columns; every key is there once."""
CHOSEN_PARAMETER = 10**6
"""The parameters of chosen keys, where they are no table: their numbers, and after it the key columns."""


def numbered_by_choice(rows: Select, keys: Mapping[str, SqlType], dialect: Dialect) -> Select:
    """Return the rows with a chosen key, which is now the number ``k``, and all their other columns."""
    labels = [label for label in rows.labels if label not in keys]
    # not an equality, because NULL may be a chosen key
    is_chosen = both([matches(column(key, "t"), column(key, "c"), form.value) for key, form in keys.items()])
    cells = columns_of(labels)
    types = ("BIGINT", *(form.value for form in keys.values()))
    lists = tuple(enumerate(types, CHOSEN_PARAMETER))
    chosen = TableName(CHOSEN, "c") if dialect.keeps_keys else ParameterRows(lists, "c", (NUMBER, *keys))
    return joined(select([alias(column(NUMBER, "c"), "k"), *cells], rows), chosen, "inner", is_chosen)


def every_key(main: Select, keys: Sequence[str]) -> Select:
    """Return all keys as if they were chosen, so that other statements can be resolved before anything is chosen."""
    return select([alias(integer(0), NUMBER), *columns_of(keys)], main)


def numbered_values(axis: Axis, form: SqlType) -> dict[Any, int]:
    """Return an axis's values as the engine holds them, and their numbers; of values that are one to it, the first.

    A value with two numbers would put a row into two groups.
    """
    numbers: dict[Any, int] = {}
    for number, value in enumerate(axis.values):
        held = in_form(value, form)
        # None for a value that the form cannot hold: no row has it, and it must not stand for NULL
        if held is not None or value is None:
            numbers.setdefault(held, number)
    return numbers


def in_form(value: Constant, form: SqlType) -> Any:
    """Return a public value as the engine holds it; None if no value of that form equals it."""
    if not isinstance(value, Fraction):
        return value
    if form in WHOLE:
        fits = value.denominator == 1 and (form is SqlType.WIDE or -(2**63) <= value < 2**63)
        return int(value) if fits else None
    try:
        return float(value)
    except OverflowError:
        return None
