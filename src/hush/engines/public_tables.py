"""Public tables: the ranges of their columns, and the values of public keys.

**Ranges** (`with_public_ranges`). The owner declares bounds of private columns, because the data must not decide them.
A public table has no secrets, so what its policy leaves open is looked up: the least and the greatest value of each
number, date and time, as it is read (finite, within the calendar). Where there is none, any range is true. The file may
change after it was looked at. The range then is the question's all the same: it is part of the types in the plan, and
the engine forces every value that it reads into it (`hush.engines.sql.forcing.force`), so sensitivities hold for
whatever is there; only what lies outside is taken for the nearest end until the next question looks again.

**Keys** (`public_axes`), and which of their combinations are answered. Some are in the plan; for others an engine
computes an expression over listed values, or reads a public table (`hush.query.plan.keys`).
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
from hush.engines.sql.nodes import NULL, From, Scalar, Select, Subquery, array, call, column, null, read, select
from hush.engines.sql.relations import Catalogue, RelationWriter
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import MAX_SCALE, SQL_TYPES, Value, constant
from hush.engines.work import Fetch, PublicRows
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.keys import MAX_KEYS, DerivedKey, Domain, Listed, Lookup
from hush.query.plan.plan import ExactQuery
from hush.query.refine import interval_of
from hush.query.relations import scans
from hush.query.schema import Schema
from hush.query.types import Interval, Kind, Type, position
from hush.query.types import Value as Constant

_MOST_ROWS = 10**7


def public_axes(exact_query: ExactQuery, public: PublicRows) -> tuple[list[Axis] | None, list[int] | None]:
    """Return the values of each public key, and the numbers of the combinations there are; None for all."""
    if exact_query.domains is None:
        return None, None
    values: dict[int, tuple[Constant, ...]] = {}
    combined: list[tuple[tuple[int, ...], set[tuple[Constant, ...]]]] = []
    types = [expression.type for _, expression in exact_query.keys]
    nulls = [type_.null_is_key for type_ in types]
    for group in exact_query.together:
        if not _is_affordable(group.lookup, public):
            continue
        rows = _looked(group.lookup, group.expressions, [nulls[key_place] for key_place in group.places], public)
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
        Axis(values[key_place] if key_place in values else _values(domain, type_, public), type_)
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


def _values(domain: Domain, type_: Type, public: PublicRows) -> Sequence[Constant]:
    if isinstance(domain, Listed):
        return domain.values
    if isinstance(domain, DerivedKey):
        constants = [_constant(row[0]) for row in _few(public.fetch(derived_values(domain, public.catalogue)))]
    else:
        rows = _looked(domain.lookup, [domain.expression], [type_.null_is_key], public)
        constants = [row[0] for row in rows]
    return tuple(value for value in constants if _inside(value, type_))


def _inside(value: Constant, type_: Type) -> bool:
    """Return whether filters leave a key in its range, compared as floats; text has no range, and NULL is in any."""
    interval = interval_of(value)
    return interval is None or interval.meet(Interval.of(type_.lower, type_.upper)) is not None


def _looked(
    lookup: Lookup, expressions: Sequence[Expression], nulls: Sequence[bool], public: PublicRows
) -> list[tuple[Constant, ...]]:
    """Return the combinations of values in a public table; with a NULL only where that is a key, and there always."""
    if not _is_affordable(lookup, public):
        # the table alone may have more keys than are left by those it is joined with, but no fewer
        lookup = replace(lookup, within=None)
    rendered = RelationWriter(public.catalogue).write(lookup.within or lookup.scan, alone=True)
    rows: Select | From = rendered.query
    if lookup.optional:
        # a LEFT JOIN that finds no row gives NULLs, so they are a combination of keys, too
        rows = Subquery((rendered.query, select([NULL for _ in rendered.query.columns])), "t")
    values = [
        key_value(value_of(expression, rendered.columns), expression.type, public.catalogue.dialect)
        for expression in expressions
    ]
    cells = [value.sql.alias(f"k{index}") for index, value in enumerate(values)]
    keys = [column(f"k{index}", "t") for index in range(len(values))]
    key_rows = _few(public.fetch(select(keys, select(cells, rows)).first_rows(MAX_KEYS + 1, *keys)))
    combinations = [tuple(_constant(cell) for cell in row) for row in key_rows]
    combinations = [
        row for row in combinations if all(null or cell is not None for cell, null in zip(row, nulls, strict=True))
    ]
    missing: tuple[Constant, ...] = (None,) * len(nulls)
    return [*combinations, missing] if all(nulls) and missing not in combinations else combinations


def _is_affordable(lookup: Lookup, public: PublicRows) -> bool:
    """Return whether a public table, with those that conditions connect it with, has few enough rows to be read."""
    return lookup.within is None or len(list(scans(lookup.within))) == 1 or public.rows(lookup.within) <= _MOST_ROWS


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
    for name, table in tables.items():
        stored, types, cells = catalogue.types.get(name, {}), dict(table.columns), dict[str, Scalar]()
        for label, type_ in types.items():
            is_open = type_.kind.ranged and not type_.bounded and type_.values is None
            if not table.public or not is_open or label not in stored:
                continue
            decimals = FIXED.fullmatch(stored[label])
            if type_.kind is Kind.DECIMAL and type_.step is None and decimals and int(decimals[2]) <= MAX_SCALE:
                # the step of the engine's type: DECIMAL(9, 2) counts in hundredths
                types[label] = replace(type_, step=Fraction(1, 10 ** int(decimals[2])))
            cells[label] = force(column(label, "s"), stored[label], types[label]).sql
        if not cells:
            continue
        ends = [call(end, cell) for cell in cells.values() for end in ("min", "max")]
        extremes = iter(fetch(select(ends, read(catalogue.tables[name], "s")))[0])
        for label, least, greatest in zip(cells, extremes, extremes, strict=True):
            # values were forced, hence are within the bound that there is
            lower, upper = types[label].lower, types[label].upper
            if least is None:  # there is no value, so any range holds, and a single point is the smallest
                lower = upper = next((end for end in (lower, upper) if end is not None), Fraction(0))
            lower = position(_constant(least)) if lower is None else lower
            upper = position(_constant(greatest)) if upper is None else upper
            types[label] = replace(types[label], lower=lower, upper=upper)
        tables[name] = replace(table, columns=types)
    return replace(catalogue.schema, tables=tables)


def derived_values(domain: DerivedKey, catalogue: Catalogue) -> Select:
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
    return distinct_keys.first_rows(MAX_KEYS + 1, column("k", "t"))
