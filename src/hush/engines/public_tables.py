"""Public tables: the ranges of their columns, and the values of public keys.

**Ranges** (`with_public_ranges`). The owner declares bounds of private columns, because the data must not decide them.
A public table has no secrets, so what its policy leaves open is looked up: the least and the greatest value of each
number, date and time, as it is read (finite, within the calendar). Where there is none, any range is true. The file may
change after it was looked at. The range then is the question's all the same: it is part of the types in the plan, and
the engine forces every value that it reads into it (`hush.engines.sql.forcing.force`), so sensitivities hold for
whatever is there; only what lies outside is taken for the nearest end until the next question looks again.

**Keys** (`public_axes`), and which of their combinations are answered. Some are in the plan; others an engine is asked
for, about public things alone: an expression over listed values, or the rows of a public table
(`hush.query.plan.keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

from hush.engines.sql.dialect import FIXED
from hush.engines.sql.forcing import force
from hush.engines.sql.keys import Axis, key_value, size
from hush.engines.sql.nodes import (
    NULL,
    From,
    Scalar,
    Select,
    Subquery,
    array,
    call,
    column,
    null,
    read,
    select,
)
from hush.engines.sql.relations import (
    Catalogue,
    RelationWriter,
)
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import SQL_TYPES, Value, constant
from hush.engines.work import Fetch, PublicRows
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.keys import MAX_KEYS, DerivedKey, Domain, Listed, Lookup
from hush.query.plan.plan import ExactQuery
from hush.query.refine import interval_of
from hush.query.relations import scans
from hush.query.schema import Schema, Table
from hush.query.types import Interval, Kind, Type, position
from hush.query.types import Value as Constant

_MOST_ROWS = 10**7


def public_axes(
    exact_query: ExactQuery, catalogue: Catalogue, fetch: Fetch
) -> tuple[list[Axis] | None, list[int] | None]:
    """Return the values of each public key, and the numbers of the combinations there are; None for all."""
    if exact_query.domains is None:
        return None, None
    values: dict[int, tuple[Constant, ...]] = {}
    combined: list[tuple[tuple[int, ...], set[tuple[Constant, ...]]]] = []
    types = [expression.type for _, expression in exact_query.keys]
    nulls = [type_.null_is_key for type_ in types]
    for group in exact_query.together:
        if not _is_affordable(group.lookup, catalogue, fetch):
            continue
        rows = _looked(
            group.lookup, group.expressions, [nulls[key_place] for key_place in group.places], catalogue, fetch
        )
        for index, key_place in enumerate(group.places):
            domain = exact_query.domains[key_place]
            if isinstance(domain, Listed):  # a filter may have left fewer than the table has
                values_left = frozenset(domain.values)
                rows = [row for row in rows if row[index] in values_left]
            else:
                rows = [row for row in rows if _inside(row[index], types[key_place])]
        for index, key_place in enumerate(group.places):
            cells: set[Any] = {row[index] for row in rows}
            # NULL last, and sorted: the numbers of keys must not depend on the order of a set
            values[key_place] = tuple(sorted(cells, key=lambda value: (value is None, value)))
        combined.append((group.places, set(rows)))
    axes = [
        Axis(values[key_place] if key_place in values else _values(domain, type_, catalogue, fetch), type_)
        for key_place, (domain, type_) in enumerate(zip(exact_query.domains, types, strict=True))
    ]
    if size(axes) > MAX_KEYS:
        raise UnplannableError(
            f"there are {size(axes)} combinations of public keys, more than {MAX_KEYS}; group by less"
        )
    if not combined:
        return axes, None
    keys = enumerate(product(*(axis.values for axis in axes)))
    return axes, [
        number
        for number, key in keys
        if all(tuple(key[index] for index in places) in rows for places, rows in combined)
    ]


def _values(domain: Domain, type_: Type, catalogue: Catalogue, fetch: Fetch) -> Sequence[Constant]:
    if isinstance(domain, Listed):
        return domain.values
    if isinstance(domain, DerivedKey):
        constants = [_constant(row[0]) for row in _few(fetch(derived_values(domain, catalogue, MAX_KEYS)))]
    else:
        rows = _looked(domain.lookup, [domain.expression], [type_.null_is_key], catalogue, fetch)
        constants = [row[0] for row in rows]
    return tuple(value for value in constants if _inside(value, type_))


def _inside(value: Constant, type_: Type) -> bool:
    """Return whether filters leave a key in its range, compared as floats; text has no range, and NULL is in any."""
    interval = interval_of(value)
    return interval is None or interval.meet(Interval.of(type_.lower, type_.upper)) is not None


def _looked(
    lookup: Lookup, expressions: Sequence[Expression], nulls: Sequence[bool], catalogue: Catalogue, fetch: Fetch
) -> list[tuple[Constant, ...]]:
    """Return the combinations of values in a public table; with a NULL only where that is a key, and there always."""
    if not _is_affordable(lookup, catalogue, fetch):
        # the table alone may have more keys than are left by those it is joined with, but no fewer
        lookup = replace(lookup, within=None)
    rows = fetch(looked_values(lookup, expressions, catalogue, MAX_KEYS))
    combinations = [tuple(_constant(cell) for cell in row) for row in _few(rows)]
    combinations = [
        row for row in combinations if all(null or cell is not None for cell, null in zip(row, nulls, strict=True))
    ]
    missing: tuple[Constant, ...] = (None,) * len(nulls)
    return [*combinations, missing] if all(nulls) and missing not in combinations else combinations


def _is_affordable(lookup: Lookup, catalogue: Catalogue, fetch: Fetch) -> bool:
    """Return whether a public table, with those that conditions connect it with, has few enough rows to be read."""
    if lookup.within is None or len(list(scans(lookup.within))) == 1:
        return True
    return PublicRows(catalogue, fetch).rows(lookup.within) <= _MOST_ROWS


def _few(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if len(rows) > MAX_KEYS:
        raise UnplannableError(f"there are more than {MAX_KEYS} public keys; group by less")
    return rows


def _constant(value: Any) -> Constant:
    # to Python a bool is an int
    if isinstance(value, bool) or not isinstance(value, int | float):
        other: Constant = value
        return other
    # a float by its shortest digits: 0.1 is the decimal 1/10, and not the float's own value
    return Fraction(value) if isinstance(value, int) else Fraction(str(value))


def with_public_ranges(catalogue: Catalogue, fetch: Fetch) -> Schema:
    """Return the catalogue's schema, in which public columns without bounds have those of their values."""
    tables = dict(catalogue.schema.tables)
    for label, table in tables.items():
        if table.public:
            tables[label] = _described(table, catalogue, fetch)
    return replace(catalogue.schema, tables=tables)


def _described(table: Table, catalogue: Catalogue, fetch: Fetch) -> Table:
    stored = catalogue.types[table.name]
    types: dict[str, Type] = dict(table.columns)
    cells: list[Scalar] = []
    open_: list[str] = []
    for label, type_ in types.items():
        if type_.kind.ranged and not type_.bounded and type_.values is None and label in stored:
            types[label] = _with_step(type_, stored[label])
            value = force(column(label, "s"), stored[label], types[label]).sql
            cells += [call("min", value), call("max", value)]
            open_.append(label)
    if not open_:
        return table
    (ends,) = fetch(select(cells, read(catalogue.tables[table.name], "s")))
    for index, label in enumerate(open_):
        types[label] = _within(types[label], *ends[2 * index : 2 * index + 2])
    return replace(table, columns=types)


def _with_step(type_: Type, physical: str) -> Type:
    """Return a type with the step that the engine's type has: DECIMAL(9, 2) counts in hundredths."""
    decimals = FIXED.fullmatch(physical)
    if type_.kind is not Kind.DECIMAL or type_.step is not None or decimals is None or int(decimals[2]) > 15:
        return type_
    return replace(type_, step=Fraction(1, 10 ** int(decimals[2])))


def _within(type_: Type, least: Any, greatest: Any) -> Type:
    # there is no value, so any range holds, and a single point is the smallest
    if least is None:
        nearest = type_.lower if type_.lower is not None else type_.upper if type_.upper is not None else Fraction(0)
        return replace(type_, lower=nearest, upper=nearest)
    lower, upper = _place(least), _place(greatest)  # forced, hence within the bound that there is
    return replace(
        type_,
        lower=lower if type_.lower is None else type_.lower,
        upper=upper if type_.upper is None else type_.upper,
    )


def _place(value: Any) -> Fraction:
    return Fraction(str(value)) if isinstance(value, int | float) else position(value)


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
        options = array([*(public_value.to(form).sql for public_value in constants), null(form.value)])
        options_table = Subquery((select([call("unnest", options).alias("x")]),), f"d{index}")
        query = select([], options_table) if query is None else query.joined(options_table, "cross")
        stored_value = stored[label]
        columns[label] = Value(column("x", f"d{index}"), form, scale=stored_value.scale, single=stored_value.single)
    assert query is not None  # noqa: S101 - a derived domain has columns
    value = key_value(value_of(domain.expression, columns), domain.expression.type, catalogue.dialect)
    distinct_keys = select([column("k", "t")], query.showing([value.sql.alias("k")]))
    if not domain.null:
        distinct_keys = distinct_keys.where(column("k", "t").not_null())
    # one more than is allowed tells the caller that there are too many
    return distinct_keys.first_rows(limit + 1, column("k", "t"))


def looked_values(lookup: Lookup, expressions: Sequence[Expression], catalogue: Catalogue, limit: int) -> Select:
    """Return the distinct combinations of expressions over a public table."""
    rendered = RelationWriter(catalogue).write(lookup.within or lookup.scan, alone=True)
    rows: Select | From = rendered.query
    if lookup.optional:
        # a LEFT JOIN that finds no row gives NULLs, so they are a combination of keys, too
        rows = Subquery((rendered.query, select([NULL for _ in rendered.query.columns])), "t")
    values = [
        key_value(value_of(expression, rendered.columns), expression.type, catalogue.dialect)
        for expression in expressions
    ]
    cells = [value.sql.alias(f"k{index}") for index, value in enumerate(values)]
    keys = [column(f"k{index}", "t") for index in range(len(values))]
    query = select(keys, select(cells, rows))
    return query.first_rows(limit + 1, *keys)
