"""Group keys: a public list, or chosen privately.

Keys are public where every key expression has a finite public domain: declared values, a range with a step, booleans, a
public table's own columns and expressions over them, or any expression over columns that have one. Then every
combination of keys is answered, with its noisy zero where there are no rows, and rows with other keys are dropped. Keys
that come from one public table are combined only as its rows combine them: no town is listed under a region that it
does not lie in. A row has its keys from one row of that table, so no row is dropped by this.

**NULL** is a public key where the policy names it (``nullable = true``, or None among the values) or the question does
(LEFT JOIN, NULLIF, CASE without ELSE), and the key can still be NULL: not after ``WHERE g IS NOT NULL`` or COALESCE.
Elsewhere a row whose key is NULL is dropped. Every type carries this (`Type.null_is_key`). What a column holds beyond
its declared values is NULL where it is read, so such rows are under NULL as well.

All other keys are chosen privately (`hush.mechanisms.grouped.keys`); there NULL is a key like any other. So are keys
that have a public list of more than `MANY_KEYS`, such as an income from 0 to 500,000, where the account can pay for
choosing: nearly all of them would be noisy zeros, among which noise alone lifts some above most true counts. A question
may say which it wants (``keys="public"`` or ``keys="private"``). Which of the two happens depends on question, policy
and the account's kind alone. How many keys there are is known from their bounds, before any is listed.

**Conditions.** ``WHERE r_name = 'ASIA' GROUP BY n_name`` can have five nations, not 25. Every row of a question
satisfies the conditions of its filters and inner joins. Those over columns of public tables alone are a question about
public tables: their join, so restricted, has every combination of public values that a row can have. Only what is not
in it is left out, so no row is dropped. Tables are taken together where an equality connects them; a LEFT JOIN's
optional side, unions and aggregates are left as they are.

A condition over one key expression and constants, ``WHERE MONTH(day) < 4 GROUP BY MONTH(day)``, narrows that key.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from hush.query.expressions import (
    MOST_PIECES,
    Call,
    Column,
    Expression,
    Literal,
    Op,
    columns_in,
    pieces,
    substituted,
)
from hush.query.functions import all_of, call
from hush.query.functions.logic import conjuncts
from hush.query.refine import narrowed
from hush.query.relations import (
    Filter,
    Join,
    JoinKind,
    Named,
    PerUnit,
    Project,
    Relation,
    Scan,
    WithWindows,
    scans,
    with_sources,
    with_values,
)
from hush.query.relations import columns as columns_of
from hush.query.types import Kind, Type, Value, at_position, position

MAX_KEYS = 10**6
MANY_KEYS = 10**4
"""More public keys than that are chosen privately, unless the question wants them listed or there is no δ."""
MAX_TRIED = 10**4
"""The most combinations that are evaluated to find the values of a range that can occur."""
_KEY = "\0key"
_CALENDAR = (position(dt.date.min), position(dt.date.max))


@dataclass(frozen=True, slots=True, kw_only=True)
class Points(Sequence[Value]):
    """A lazy sequence of grid points, with or without NULL at the end.

    >>> points = Points(kind=Kind.INTEGER, first=0, many=500_001, step=Fraction(1), null=True)
    >>> len(points), points[2], points[-1], Fraction(7) in points, Fraction(1, 2) in points
    (500002, Fraction(2, 1), None, True, False)
    """

    kind: Kind
    first: int
    many: int
    step: Fraction
    null: bool = False

    def __len__(self) -> int:
        return self.many + self.null

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self[index] for index in range(len(self))[place])
        index = range(len(self))[place]
        return at_position(self.kind, (self.first + index) * self.step) if index < self.many else None

    def __contains__(self, value: object) -> bool:
        if value is None or isinstance(value, str | bool):
            return value is None and self.null
        index = position(cast("Value", value)) / self.step
        return index.denominator == 1 and self.first <= index < self.first + self.many


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One key expression with a public list of values."""

    values: Sequence[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedKey:
    """One key expression over columns with public lists: the engine evaluates every combination of their values."""

    expression: Expression
    relation: Relation
    """The relation that has these columns: their stored types decide how a number is written as text."""
    columns: tuple[tuple[str, Type, Sequence[Value]], ...]
    null: bool
    """Whether NULL is a key, if the expression is NULL for some combination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A public table with keys in its rows; ``optional`` (joined by LEFT JOIN) adds a row of NULLs.

    Where NULL is a key it is one always; where it is none, combinations with a NULL are left out.
    """

    scan: Scan
    optional: bool
    within: Relation | None = None
    """The table restricted by the question's conditions on public tables; None for the whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One key that is an expression over a public table's columns: its distinct values there."""

    lookup: Lookup
    expression: Expression
    further: int
    """The most keys that are not among the table's: NULL, and the expression's value for a row of NULLs."""


Domain = Listed | DerivedKey | Looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Keys, by their places, that come from one row of a public table: only its combinations are answered."""

    places: tuple[int, ...]
    lookup: Lookup
    expressions: tuple[Expression, ...]


def finite_values(type_: Type, limit: float = MAX_KEYS) -> Sequence[Value] | None:
    """Return all values of a type in order (without NULL), or None if they are not listed or too many."""
    if type_.values is not None:
        return type_.values if len(type_.values) <= limit else None
    if type_.kind is Kind.BOOLEAN:
        return (False, True)
    step = type_.step or (None if type_.kind is Kind.DECIMAL else Fraction(1))
    if type_.lower is None or type_.upper is None or step is None or type_.kind is Kind.TIMESTAMP:
        return None
    # the grid points within the bounds
    first, last = math.ceil(type_.lower / step), math.floor(type_.upper / step)
    in_calendar = type_.kind is not Kind.DATE or _CALENDAR[0] <= first <= last <= _CALENDAR[1]
    if last - first >= limit or not in_calendar:
        return None
    return Points(kind=type_.kind, first=first, many=max(last - first + 1, 0), step=step)


def domains(keys: tuple[Named, ...], relation: Relation, most: float = MAX_KEYS) -> tuple[Domain, ...] | None:
    """Return the public domain of every key, or None if one has none or there are more combinations than ``most``."""
    public: list[Domain] = []
    for _, expression in keys:
        domain = _domain(expression, relation, most)
        if domain is None:
            return None
        public.append(domain)
    return tuple(public) if most_keys(public) <= most else None


def most_keys(public: Sequence[Domain], matches: Callable[[Relation, Sequence[Expression]], int] | None = None) -> int:
    """Return an upper bound on the number of public keys; ``matches`` counts rows of public tables, 1 without it."""
    size = 1
    for domain in public:
        match domain:
            case Listed(values=Points() as points):  # perhaps more than a length may be
                size *= points.many + points.null
            case Listed():
                size *= len(domain.values)
            case DerivedKey():
                # plus NULL, for each column
                size *= math.prod(len(values) + 1 for _, _, values in domain.columns)
            case Looked() if matches is not None:
                # the different keys that the table has, and those of rows that a LEFT JOIN finds no partner for
                lookup, key = domain.lookup, domain.expression
                source = with_values(lookup.within or lookup.scan, [key])
                rows = matches(PerUnit(source=source, keys=((_KEY, key),), aggregates=()), ())
                size *= rows + domain.further
    return size


def public_size(keys: tuple[Named, ...], relation: Relation) -> int | None:
    """Return how many public keys there are, listed or not; None if a key has no public list."""
    public = domains(keys, relation, math.inf)
    return None if public is None else most_keys(public)


def why_private(keys: tuple[Named, ...], relation: Relation) -> str:
    """Return an explanation why `domains` is None for these keys, with a remedy."""
    names, size = ", ".join(name for name, _ in keys), public_size(keys, relation)
    if size is None:
        return f"the keys {names} have no public list; declare their values in the policy, or BIN them"
    return f"the keys {names} have {size:,} public values, more than {MAX_KEYS:,}; group by less, or BIN them"


def together(keys: tuple[Named, ...], relation: Relation) -> tuple[Together, ...]:
    """Return the groups of keys that come from one public table."""
    found: list[tuple[Lookup, list[tuple[int, Expression]]]] = []
    for place, (_, expression) in enumerate(keys):
        public = _public(expression, relation)
        if public is None:
            continue
        lookup, said = public
        for at, (known, parts) in enumerate(found):
            if known.scan == lookup.scan:
                optional = known.optional or lookup.optional
                # the optional side of a LEFT JOIN stays whole, as in `_public`
                found[at] = replace(known, optional=optional, within=None if optional else known.within), parts
            elif known.within is None or lookup.within is None or lookup.scan not in scans(known.within):
                continue
            parts.append((place, said))
            break
        else:
            found.append((lookup, [(place, said)]))
    return tuple(
        Together(places=tuple(at for at, _ in parts), lookup=lookup, expressions=tuple(said for _, said in parts))
        for lookup, parts in found
        if len(parts) > 1
        and (lookup.within is not None or all(columns_in(said) <= _names(lookup.scan) for _, said in parts))
    )


def _names(scan: Scan) -> frozenset[str]:
    return frozenset(name for name, _, _ in scan.columns)


def _domain(expression: Expression, relation: Relation, most: float) -> Domain | None:
    type_ = expression.type
    public = _public(expression, relation)
    looked = None
    if public is not None:
        lookup, said = public
        # of a row of NULLs an expression is one value, NULL or not; a LEFT JOIN around it adds NULL to that
        outer = isinstance(expression, Column) and _origin(expression, relation)[2]
        further = (type_.null_is_key or lookup.optional) + (outer and lookup.optional)
        looked = Looked(lookup=lookup, expression=said, further=further)
    derived = _derived(expression, relation)
    if type_.values is None:
        if looked is not None and type_.kind is not Kind.BOOLEAN:
            return looked
        # a range with gaps that are cheap to find, from several columns without fractions: of YEAR(d) * 100 + MONTH(d)
        # those that there are, and no thirteenth month
        kinds = {type_.kind} if derived is None else {type_.kind, *(column.kind for _, column, _ in derived.columns)}
        several = derived is not None and len(_columns(derived.expression)) > 1 and most_keys([derived]) <= MAX_TRIED
        if several and Kind.DECIMAL not in kinds:
            return derived
    values = finite_values(narrowed_key(expression, relation) if isinstance(expression, Call) else type_, most)
    if values is None:
        return looked or derived
    if type_.null_is_key:
        values = replace(values, null=True) if isinstance(values, Points) else (*values, None)
    return Listed(values=values)


def _derived(expression: Expression, relation: Relation) -> DerivedKey | None:
    """Return the domain of an expression over columns with public lists; None if a list is missing or too long."""
    null = expression.type.null_is_key
    if isinstance(expression, Column):
        origin, expression, _ = _origin(expression, relation)
        relation = origin.source if isinstance(origin, Project | PerUnit) else origin
    if not isinstance(expression, Call):
        return None
    columns: list[tuple[str, Type, Sequence[Value]]] = []
    # inside CASE a column has the narrower range that its branch leaves it, so the relation's range counts
    types = columns_of(relation)
    for name in dict.fromkeys(column.name for column in _columns(expression)):
        values = finite_values(types[name], 10**4)
        if values is None:
            return None
        columns.append((name, types[name], values))
    if not columns or math.prod(len(values) + 1 for _, _, values in columns) > MAX_KEYS:
        return None
    return DerivedKey(expression=expression, relation=relation, columns=tuple(columns), null=null)


def _columns(expression: Expression) -> list[Column]:
    return [piece for piece in pieces(expression) if isinstance(piece, Column)]


# where columns come from


def _public(expression: Expression, relation: Relation) -> tuple[Lookup, Expression] | None:
    """Return the only public table that an expression reads, and the expression over its columns; else None."""
    defined = _defined(expression, relation)
    if defined is None:
        return None
    in_tables, optional = defined
    used = columns_in(in_tables)
    for scan in scans(relation):
        if scan.public and used and used <= _names(scan):
            # the optional side of a LEFT JOIN stays whole
            within = None if optional else restricted(scan, relation)
            return Lookup(scan=scan, optional=optional, within=within), in_tables
    return None


def _defined(expression: Expression, relation: Relation, *, nested: bool = False) -> tuple[Expression, bool] | None:
    """Return an expression over columns of tables, and whether a LEFT JOIN may make one of the columns NULL.

    A key that is itself a column is NULL where a LEFT JOIN found nothing, whatever it is computed from; ``nested``
    inside an expression, as in COALESCE(region, 'unknown'), the NULL goes on. None where an expression is not over
    columns of tables, or too large.
    """
    if isinstance(expression, Column):
        origin, inner, outer = _origin(expression, relation)
        if isinstance(origin, Project | PerUnit) and isinstance(inner, Call):
            return None if nested and outer else _defined(inner, origin.source, nested=True)
        return (inner, nested and outer) if isinstance(origin, Scan) or isinstance(inner, Literal) else None
    if not isinstance(expression, Call):
        return expression, False
    parts = [_defined(argument, relation, nested=True) for argument in expression.arguments]
    known = [part for part in parts if part is not None]
    size = sum(getattr(part, "size", 1) for part, _ in known)
    if len(known) < len(parts) or size >= MOST_PIECES:
        return None
    return replace(expression, arguments=tuple(part for part, _ in known)), any(optional for _, optional in known)


def _origin(column: Column, relation: Relation) -> tuple[Relation, Expression, bool]:
    """Follow a column down to the relation that makes it; the last part says whether a LEFT JOIN may make it NULL."""
    match relation:
        case Filter():
            return _origin(column, relation.source)
        case WithWindows() if column.name not in dict(relation.windows):
            return _origin(column, relation.source)
        case Project() | PerUnit():
            named = dict(relation.columns if isinstance(relation, Project) else relation.keys)
            inner = named.get(column.name)
            if isinstance(inner, Column):
                return _origin(inner, relation.source)
            return relation, inner or column, False
        case Join():
            if column.name in columns_of(relation.left):
                return _origin(column, relation.left)
            origin, inner, outer = _origin(column, relation.right)
            return origin, inner, outer or relation.kind is JoinKind.LEFT
        case _:
            return relation, column, False


# conditions on public keys


def _conditions(relation: Relation) -> tuple[list[Scan], list[Expression]]:
    """Return the tables that inner joins connect, and the conditions on all rows as expressions over their columns.

    Rows of a LEFT or ANTI JOIN need not satisfy its condition; fewer conditions list more keys, which is safe.
    """
    leaves: list[Scan] = []
    conditions: list[Expression] = []
    terms: list[Expression] = []
    match relation:
        case Scan():
            return [relation], []
        case Filter():
            leaves, conditions = _conditions(relation.source)
            terms = conjuncts(relation.condition)
        case Project() | PerUnit() | WithWindows():
            return _conditions(relation.source)
        case Join():
            leaves, conditions = _conditions(relation.left)
            if relation.kind is JoinKind.INNER:
                further, on_right = _conditions(relation.right)
                leaves, conditions = [*leaves, *further], [*conditions, *on_right]
                terms = [call(Op.EQUAL, one, two) for one, two in relation.on]
                terms += [] if relation.where is None else conjuncts(relation.where)
    defined = [_defined(term, relation, nested=True) for term in terms]
    return leaves, conditions + [term[0] for term in defined if term is not None and not term[1]]


def with_public_conditions(relation: Relation) -> Relation:
    """Return a relation in which public tables have only rows that satisfy the question's conditions on them alone."""
    leaves, spoken = _conditions(relation)

    def narrowed_source(source: Relation) -> Relation:
        if not isinstance(source, Scan) or not source.public or source not in leaves:
            return with_sources(source, narrowed_source)
        conditions = [term for term in spoken if columns_in(term) and columns_in(term) <= _names(source)]
        return Filter(source=source, condition=all_of(conditions)) if conditions else source

    return narrowed_source(relation)


def restricted(scan: Scan, relation: Relation) -> Relation:
    """Return a public table joined with connected public tables and filtered by all public conditions."""
    leaves, spoken = _conditions(relation)
    public = [leaf for leaf in leaves if leaf.public]
    if scan not in public:
        return scan
    owners = {name: leaf for leaf in public for name, _, _ in leaf.columns}
    plain: list[Expression] = []
    links: list[Call] = []
    """Equalities between columns of two tables."""
    for condition in spoken:
        # a condition over a private column says nothing that is public
        if not columns_in(condition) or not columns_in(condition) <= owners.keys():
            continue
        if isinstance(condition, Call) and condition.op is Op.EQUAL:
            first, second = ({id(owners[name]) for name in columns_in(side)} for side in condition.arguments)
            if len(first) == len(second) == 1 and first != second:
                links.append(condition)
                continue
        plain.append(condition)
    result: Relation = scan
    while True:
        joined = columns_of(result).keys()
        # links of which one side is joined already, that side first
        outward: dict[Call, tuple[Expression, Expression]] = {}
        for link in links:
            one, other = link.arguments
            if (columns_in(one) <= joined) is not (columns_in(other) <= joined):
                outward[link] = (one, other) if columns_in(one) <= joined else (other, one)
        if not outward:
            break
        _, far_side = next(iter(outward.values()))
        leaf = owners[next(iter(columns_in(far_side)))]
        on = {link: pair for link, pair in outward.items() if columns_in(pair[1]) <= _names(leaf)}
        result = Join(left=result, right=leaf, kind=JoinKind.INNER, on=tuple(on.values()))
        links = [link for link in links if link not in on]
    applicable = [condition for condition in [*plain, *links] if columns_in(condition) <= joined]
    return Filter(source=result, condition=all_of(applicable)) if applicable else result


def narrowed_key(key: Call, relation: Relation) -> Type:
    """Return the type of a key on the rows that pass all conditions over that key and constants alone."""
    defined = _defined(key, relation)
    if defined is None:
        return key.type
    name = Column(_KEY, key.type)
    types: dict[str, Type] = {_KEY: key.type}
    for condition in _conditions(relation)[1]:
        about = substituted(condition, lambda piece: name if _same(piece, defined[0]) else None)
        if columns_in(about) == {_KEY}:
            types = narrowed(types, about)
    return types[_KEY]


def _same(first: Expression, second: Expression) -> bool:
    """Return whether two expressions are equal, apart from the ranges in their types."""
    if isinstance(first, Call) and isinstance(second, Call):
        alike = first.op is second.op and len(first.arguments) == len(second.arguments)
        return alike and all(map(_same, first.arguments, second.arguments))
    if isinstance(first, Column) and isinstance(second, Column):
        return first.name == second.name
    return first == second
