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
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import overload

from hush.core.values import dataclass
from hush.query.expressions import Call, Column, Expression, Literal, Released, pieces
from hush.query.plan.restrictions import narrowed_key, public_scans, restricted
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    JoinKind,
    Named,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
)
from hush.query.relations import columns as columns_of
from hush.query.types import Kind, Type, Value

MAX_KEYS = 10**6
MANY_KEYS = 10**4
"""More public keys than that are chosen privately, unless the question wants them listed or there is no δ."""
MAX_TRIED = 10**4
"""Combinations that are tried to find out which values of a range there are."""
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Points(Sequence[Value]):
    """Many points of a grid, and NULL or not, as a list that is never written out: what is asked of it is computed.

    >>> points = Points(first=0, many=500_001, step=Fraction(1), null=True)
    >>> len(points), points[2], points[-1], Fraction(7) in points, Fraction(1, 2) in points
    (500002, Fraction(2, 1), None, True, False)
    """

    first: int
    many: int
    step: Fraction
    null: bool

    def __len__(self) -> int:
        return self.many + self.null

    @overload
    def __getitem__(self, place: int) -> Value: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Value]: ...

    def __getitem__(self, place: int | slice) -> Value | Sequence[Value]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(*place.indices(len(self))))
        at = place if place >= 0 else len(self) + place
        if not 0 <= at < len(self):
            raise IndexError(place)
        return (self.first + at) * self.step if at < self.many else None

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Fraction | int):
            return value is None and self.null
        index = value / self.step
        return index.denominator == 1 and self.first <= index < self.first + self.many

    def __iter__(self) -> Iterator[Value]:
        return (self[at] for at in range(len(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One key expression whose values are known."""

    values: Sequence[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """One key expression over columns whose values are known: the engine evaluates it on every combination of them."""

    expression: Expression
    relation: Relation
    """What the columns are those of: as what they are stored there decides how a number is spelt as text."""
    columns: tuple[tuple[str, Type, tuple[Value, ...]], ...]
    null: bool
    """Whether NULL is a key, if it comes out for some of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A public table whose rows give keys; if it is ``optional``, joined by LEFT JOIN, so does a row of NULLs.

    Where NULL is a key it is one always; where it is none, combinations with a NULL are left out.
    """

    scan: Scan
    optional: bool
    within: Relation | None = None
    """The table as far as the question's conditions on public tables leave it; None for all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One key that is an expression over a public table's columns: its distinct values there."""

    lookup: Lookup
    expression: Expression


Domain = Listed | Derived | Looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Keys, by their places, whose values come from one row of a public table: only its combinations are answered."""

    places: tuple[int, ...]
    lookup: Lookup
    expressions: tuple[Expression, ...]


def finite_values(type_: Type, limit: int = MAX_KEYS) -> tuple[Value, ...] | None:
    """Return all values of a type in order (without NULL), or None if they are not listed or too many."""
    if type_.values is not None:
        return type_.values if len(type_.values) <= limit else None
    if type_.kind is Kind.BOOLEAN:
        return (False, True)
    if type_.lower is None or type_.upper is None or type_.kind is Kind.TIMESTAMP:
        return None
    step = type_.step
    if step is None:
        if type_.kind is Kind.DECIMAL:
            return None
        step = Fraction(1)
    first, last = -((-type_.lower) // step), type_.upper // step
    if last - first + 1 > limit:
        return None
    numbers = [index * step for index in range(first, last + 1)]
    if type_.kind is Kind.DATE:
        try:
            return tuple(_EPOCH + dt.timedelta(days=int(number)) for number in numbers)
        except OverflowError:
            return None
    return tuple(numbers)


def domains(keys: tuple[Named, ...], relation: Relation, most: int = MAX_KEYS) -> tuple[Domain, ...] | None:
    """Return the public domain of every key, or None if one has none or there are more combinations than ``most``."""
    found = []
    size = 1
    for _, expression in keys:
        domain = _domain(expression, relation, most)
        if domain is None:
            return None
        found.append(domain)
        size *= _size(domain)
        if size > most:
            return None
    return tuple(found)


def most_keys(public: tuple[Domain, ...]) -> int | None:
    """Return how many combinations of public keys there are at most; None if a public table decides."""
    if any(isinstance(domain, Looked) for domain in public):
        return None
    return math.prod(map(_size, public))


def public_size(keys: tuple[Named, ...], relation: Relation) -> int | None:
    """Return how many public keys there are, listed or not; None if a key has no public list."""
    size = 1
    for _, expression in keys:
        many = _points(expression.type)
        if many is None:
            domain = _domain(expression, relation)
            if domain is None:
                return None
            many = _size(domain)
        size *= many
    return size


def why_private(keys: tuple[Named, ...], relation: Relation) -> str:
    """Return in words why `domains` has nothing for these keys, and what can be done about it."""
    names, size = ", ".join(name for name, _ in keys), public_size(keys, relation)
    if size is None:
        return f"the keys {names} have no public list; declare their values in the policy, or BIN them"
    return f"the keys {names} have {size:,} public values, more than {MAX_KEYS:,}; group by less, or BIN them"


def _points(type_: Type) -> int | None:
    """Return how many values a type has, listed or not; None if that is not known."""
    if type_.values is not None:
        return len(type_.values)
    step = type_.step or (None if type_.kind is Kind.DECIMAL else Fraction(1))
    if type_.lower is None or type_.upper is None or step is None or type_.kind is Kind.TIMESTAMP:
        return None
    return int(type_.upper // step + (-type_.lower) // step + 1)


def together(keys: tuple[Named, ...], relation: Relation) -> tuple[Together, ...]:
    """Return which keys are combined as a public table combines them."""
    found: list[tuple[Lookup, list[tuple[int, Expression]]]] = []
    for place, (_, expression) in enumerate(keys):
        public = _restricted(_public(expression, relation), relation)
        if public is None:
            continue
        lookup, said = public
        for at, (known, parts) in enumerate(found):
            if known.scan == lookup.scan:
                optional = known.optional or lookup.optional
                found[at] = replace(known, optional=optional, within=None if optional else known.within), parts
            elif known.within is None or lookup.within is None or lookup.scan not in public_scans(known.within):
                continue
            parts.append((place, said))
            break
        else:
            found.append((lookup, [(place, said)]))
    return tuple(
        Together(places=tuple(at for at, _ in parts), lookup=lookup, expressions=tuple(said for _, said in parts))
        for lookup, parts in found
        if len(parts) > 1 and (lookup.within is not None or all(_of(said) <= _names(lookup.scan) for _, said in parts))
    )


def _of(expression: Expression) -> frozenset[str]:
    return frozenset(column.name for column in _columns(expression))


def _names(scan: Scan) -> frozenset[str]:
    return frozenset(name for name, _, _ in scan.columns)


def _size(domain: Domain) -> int:
    """Return how many values a domain has at most, as far as the policy tells."""
    match domain:
        case Listed():
            return len(domain.values)
        case Derived():
            return math.prod(len(values) + 1 for _, _, values in domain.columns)
        case Looked():
            return 1


def _domain(expression: Expression, relation: Relation, most: int = MAX_KEYS) -> Domain | None:
    type_ = expression.type
    null = type_.null_is_key
    public = _restricted(_public(expression, relation), relation)
    if public is not None and type_.values is None and type_.kind is not Kind.BOOLEAN:
        return Looked(lookup=public[0], expression=public[1])
    if type_.values is None and type_.kind is not Kind.DECIMAL:
        combined = _derived(expression, relation, null=null)
        if combined is not None and _is_worthwhile(combined):
            return combined  # of YEAR(d) * 100 + MONTH(d) those that there are, and no thirteenth month
    narrowed = narrowed_key(expression, relation)
    many = _points(narrowed)
    if many is not None and MANY_KEYS < many <= most and narrowed.values is None and narrowed.kind.numeric:
        step, lower = narrowed.step or Fraction(1), narrowed.lower
        assert lower is not None  # noqa: S101 - its points were counted
        return Listed(values=Points(first=int(-(-lower // step)), many=many, step=step, null=null))
    values = finite_values(narrowed, most)
    if values is not None:
        return Listed(values=(*values, None) if null else values)
    if public is not None:
        return Looked(lookup=public[0], expression=public[1])
    return _derived(expression, relation, null=null)


def _restricted(public: tuple[Lookup, Expression] | None, relation: Relation) -> tuple[Lookup, Expression] | None:
    """Return a public table as far as conditions leave it; what a LEFT JOIN adds is left as it is."""
    if public is None or public[0].optional:
        return public
    return replace(public[0], within=restricted(public[0].scan, relation)), public[1]


def _is_worthwhile(combined: Derived) -> bool:
    """Return whether a range has gaps that are cheap to find: few combinations of several parts, without fractions."""
    exact = all(type_.kind is not Kind.DECIMAL for _, type_, _ in combined.columns)
    return exact and len(_columns(combined.expression)) > 1 and _size(combined) <= MAX_TRIED


def _derived(expression: Expression, relation: Relation, *, null: bool) -> Derived | None:
    """Return the domain of an expression over columns whose values are known; None if it is none, or they are many."""
    if isinstance(expression, Column):
        origin, inner, _ = _origin(expression, relation)
        if isinstance(inner, Call) and isinstance(origin, Project):
            expression, relation = inner, origin.source
    if not isinstance(expression, Call):
        return None
    columns: dict[str, tuple[str, Type, tuple[Value, ...]]] = {}
    for column in _columns(expression):
        listed = finite_values(column.type, 10**4)
        if listed is None:
            return None
        known = columns.get(column.name)
        # Inside CASE a column has the narrower range that its branch leaves it: the widest of all places counts.
        if known is None or set(known[2]) < set(listed):
            columns[column.name] = (column.name, column.type, listed)
        elif not set(listed) <= set(known[2]):
            return None
    size = math.prod(len(listed) + 1 for _, _, listed in columns.values())
    if not columns or size > MAX_KEYS:
        return None
    return Derived(expression=expression, relation=relation, columns=tuple(columns.values()), null=null)


def _public(expression: Expression, relation: Relation, *, nested: bool = False) -> tuple[Lookup, Expression] | None:
    """Return the one public table whose columns an expression is over, and the expression over them; else None.

    A key that is itself a column is NULL where a LEFT JOIN found nothing, whatever it is computed from; ``nested``
    inside an expression, as in COALESCE(region, 'unknown'), the NULL goes on.
    """
    match expression:
        case Column():
            origin, inner, outer = _origin(expression, relation)
            if isinstance(origin, Project) and isinstance(inner, Call):
                return None if nested and outer else _public(inner, origin.source, nested=True)
            if not isinstance(origin, Scan) or not origin.public:
                return None
            return Lookup(scan=origin, optional=nested and outer), inner
        case Call():
            parts: list[Expression] = []
            found: set[Lookup] = set()
            for argument in expression.arguments:
                if isinstance(argument, Literal):
                    parts.append(argument)
                    continue
                public = _public(argument, relation, nested=True)
                if public is None:
                    return None
                found.add(public[0])
                parts.append(public[1])
            return (found.pop(), replace(expression, arguments=tuple(parts))) if len(found) == 1 else None
        case Literal() | Released():
            return None


def _origin(column: Column, relation: Relation) -> tuple[Relation, Expression, bool]:
    """Follow a column down to the relation that makes it; the last part says whether a LEFT JOIN may make it NULL."""
    match relation:
        case Filter():
            return _origin(column, relation.source)
        case WithWindows():
            made = column.name in dict(relation.windows)
            return (relation, column, False) if made else _origin(column, relation.source)
        case Project():
            inner = dict(relation.columns)[column.name]
            return _origin(inner, relation.source) if isinstance(inner, Column) else (relation, inner, False)
        case Join():
            if column.name in columns_of(relation.left):
                return _origin(column, relation.left)
            origin, inner, outer = _origin(column, relation.right)
            return origin, inner, outer or relation.kind is JoinKind.LEFT
        case Scan() | UnionAll() | PerUnit() | Constants():
            return relation, column, False


def _columns(expression: Expression) -> list[Column]:
    return [piece for piece in pieces(expression) if isinstance(piece, Column)]


__all__ = [
    "MAX_KEYS",
    "Derived",
    "Domain",
    "Join",
    "JoinKind",
    "Listed",
    "Looked",
    "domains",
    "finite_values",
    "most_keys",
]
