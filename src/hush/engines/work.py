r"""Bounds of the work for the rows of one unit, before the charge, from the question and the policy alone.

If one person's rows could make a question take minutes, or more memory than there is, then whether it is answered, or
how soon, would tell that they are there, for any ε. So for a unit with `STORED` rows in every table, the worst there
can be, the product of rows after all joins, functions and lengths of texts is bounded:

    rows · work ≤ TIME,

where *work* is what a row costs in all statements that run for it (`hush.engines.sql.nodes`), which has the lengths of
texts in it. Three things are chosen so that this holds:

* **How much of a text is read** (`LENGTHS`): about as much as the work allows; every text is cut where it is read.
* **How many rows a unit may have after a join**, at most `MOST_PAIRS`: a unit with more is left out of the join, before
  its rows are paired (`hush.engines.sql.relations`), and that in every join, so after all of them, too.
* What is too much even with the shortest texts is refused.

All of it depends on the question, the policy and public tables, and a note says it with every such question.

**Memory.** An engine evaluates 2,048 rows at once and holds all texts that it makes meanwhile. A character that is made
costs `MADE` nanoseconds at least, and four bytes at most: 4 · 2,048 · PER_ROW / MADE are 137 MB a thread. What sorts
and joins hold goes to disk beyond the engine's limit; of texts it is at most `HELD` characters a row (`carried`), which
is 400 MB for `STORED` rows, and for as many as a join may have; an engine may hold it twice.

**Rows that are units.** Where a unit is one row and no join multiplies it, a row may cost `ALONE`.

**What joins with public tables make of a row** (`check_fanout`). If one row could become 10¹², a question that selects
one person's rows and multiplies them would be answered at once or fail after minutes, depending on that person alone.
So a question is refused, before the charge, if the product of what its public tables multiply by exceeds `MAX_FANOUT`.
What a public table multiplies by is public: the largest number of its rows with the same key, which is not NULL, or all
of them where the join has no equality: an engine then looks at every pair. A unit may have many rows to begin with, so
a product below that is no bound for a unit. Where the rows of one that has `STORED` rows in every table might become
more than a unit may have after a join, the join counts them, and leaves such a unit out (`checked`). Elsewhere, as in a
join on a public table's own key, nothing is counted. Numbers are compared as DOUBLE in some joins, so keys that are one
DOUBLE count as one key here.

>>> most_pairs(work=4000, carried=0), most_pairs(work=20_000, carried=0), most_pairs(work=4000, carried=500)
(1000000, 200000, 200000)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count as count_from
from typing import Any, NamedTuple, TypeVar

from hush.engines.protocol import DEFAULT_ROWS
from hush.engines.sql.bounding import FreshRows
from hush.engines.sql.nodes import Select, call, column, count, select
from hush.engines.sql.relations import MOST_PAIRS, Bounds, Catalogue, RelationWriter
from hush.engines.sql.scalars import value_of
from hush.engines.sql.values import MAX_TEXT, WHOLE, SqlType
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.plan import ExactQuery
from hush.query.plan.stability import Distinct
from hush.query.relations import (
    Constants,
    Filter,
    Join,
    PerUnit,
    Project,
    Relation,
    Scan,
    UnionAll,
    WithWindows,
    private,
    scans,
    with_values,
)

STORED = 10**5
"""The rows in every table of the unit for which costs are bounded."""
TIME = 5 * 10**9
"""Nanoseconds that one unit may take."""
PER_ROW = TIME // STORED
"""Nanoseconds that a row may take where a unit has many."""
ALONE = 10**8
"""Nanoseconds that a row may take where it is a unit."""
HELD = 1000
"""Characters of text that may be held for each of `STORED` rows: 400 MB, if each takes four bytes."""
_COMPARED = 4
"""Nanoseconds for a character of a key, to be hashed, sorted and compared."""
LENGTHS = (MAX_TEXT, 5000, 2500, 1000, 500, 250, 128, 64)


class Cost(NamedTuple):
    """The costs of statements."""

    work: int
    """Nanoseconds that a row takes."""
    carried: int
    """Characters of text that are held for every row."""
    counted: int
    """In how many joins the rows of every unit are counted."""
    texts: int
    """The number of texts that are read without declared values."""


Written = TypeVar("Written")


def bounded(write: Callable[[Bounds], tuple[Written, Cost]], spread: Spread) -> tuple[Written, Cost, tuple[str, ...]]:
    """Return the statements within bounds that keep one unit's work in its limits, their cost, and notes on these.

    Refuse what nothing helps.
    """
    # where a row is a unit, what it holds is one row's, and needs no limit
    alone, longest = spread.rows == 1, MAX_TEXT
    most_work = ALONE if alone else PER_ROW
    for text in LENGTHS:
        if text > longest and text != LENGTHS[-1]:
            continue
        bounds = Bounds(text=text, pairs=MOST_PAIRS, checked=spread.checked)
        statements, cost = write(bounds)
        if cost.work <= most_work and (alone or cost.carried <= HELD):
            break
        # where a text is looked for in another the work grows with the square of the length, and nowhere faster: so no
        # length that would do is left out, and few are tried
        longest = math.isqrt(text**2 * most_work // max(cost.work, 1))
        if not alone:
            longest = min(longest, text * HELD // max(cost.carried, 1))
    else:
        raise UnplannableError(
            "this asks too much work of every row: texts without declared values are long, and every function of them "
            "counts; ask it in several questions, declare the column's values in the policy, or work with LEFT(t, 20)"
        )
    # the cost of a row is known only now, and with it how many a unit may have
    if cost.counted and (pairs := most_pairs(work=cost.work, carried=cost.carried)) < MOST_PAIRS:
        bounds = bounds._replace(pairs=pairs)
        statements, cost = write(bounds)
    notes = []
    if cost.texts and bounds.text < MAX_TEXT:
        notes.append(f"texts without declared values are read up to {bounds.text:,} characters")
    if cost.counted:
        notes.append(f"a unit with more than {bounds.pairs:,} rows after a join is left out of it")
    return statements, cost, tuple(notes)


def most_pairs(*, work: int, carried: int) -> int:
    """Return how many rows a unit may have after a join, in steps that hide the exact cost of a row."""
    rows = min(MOST_PAIRS, TIME // max(work, 1), STORED * HELD // max(carried, 1))
    return max(rows // STORED * STORED, min(rows, STORED))


def cost_of(exact_query: ExactQuery, rows: FreshRows, queries: Sequence[Select]) -> Cost:
    """Return the cost of a row: to compute it, and to sort and compare private keys and values that are told apart."""
    compared = [statistic.expression for statistic in exact_query.statistics if isinstance(statistic, Distinct)]
    if not rows.axes:
        compared += [value for _, value in exact_query.keys]
    texts = [rows.known[expression] for expression in dict.fromkeys(compared) if expression in rows.known]
    keys = sum([value.chars for value in texts if value.form is SqlType.TEXT])
    work = sum([query.cost for query in queries]) + _COMPARED * keys * (1 + len(queries))
    return Cost(work=work, carried=keys + rows.carried, counted=rows.counted, texts=rows.texts)


MAX_FANOUT = 10**4
"""How many rows one row may become through joins with public tables."""
_COUNTABLE = 10**7
"""Public relations that may have more rows are not counted key by key."""

Fetch = Callable[[Select], list[tuple[Any, ...]]]
"""Runs a query over public tables."""
Expected = Callable[[Mapping[str, int]], float]
"""Says how many rows there are, if each table has the given number."""


class Spread(NamedTuple):
    """The rows that a relation makes of one unit's: of `STORED` in each table, or of one where a row is a unit."""

    rows: int
    """How many there are in the end at most."""
    expected: Expected
    """How many rows all units have in the end, by the sizes of tables; see `hush.engines.protocol.Effort`."""
    factor: int = 1
    """How many rows one row becomes at most, by public tables."""
    checked: frozenset[int] = frozenset()
    """The joins with public tables that have to count, by their number: a join comes before the joins inside it."""


def check_fanout(relation: Relation, public: PublicRows) -> Spread:
    """Refuse a question with public tables that multiply rows too much; reads public tables at most.

    A join with a public table makes as many rows as it can of every row. One of private tables is taken to pair few
    rows of most units, and of one unit as many as it may have.
    """
    numbers, checked, tables = count_from(0), set[int](), public.catalogue.schema.tables
    owned = any(tables[scan.table].unit is not None for scan in scans(relation))  # else rows are units

    def made_by(relation: Relation) -> Spread:
        """Return how many rows a relation makes of the rows in its tables."""
        match relation:
            case Scan() if not relation.public:
                return Spread(STORED if owned else 1, lambda sizes: sizes.get(relation.table, DEFAULT_ROWS))
            case Scan() | Constants():
                return Spread(1, lambda _: 0)
            case Filter() | Project() | PerUnit() | WithWindows():
                return made_by(relation.source)
            case UnionAll():
                counts, parts, factors, _ = zip(*map(made_by, relation.sources), strict=True)
                return Spread(sum(counts), lambda sizes: sum([part(sizes) for part in parts]), sum(factors))
        # numbered before its sides are, as the writer of relations counts its joins
        number = next(numbers)
        left, right, widens = made_by(relation.left), made_by(relation.right), relation.kind.widens
        private_sides = private(relation.left), private(relation.right)
        if not any(private_sides):
            return Spread(1, lambda _: 0)
        # a row is looked up by keys, not paired with each of its matches
        looked_up = not widens and bool(relation.on) and relation.where is None
        if all(private_sides):  # it always counts, so no unit has more than it may have

            def paired(sizes: Mapping[str, int]) -> float:
                mine, theirs = left.expected(sizes), right.expected(sizes)
                return mine + theirs + (0 if looked_up else min(mine * theirs, MOST_PAIRS))

            counted = MOST_PAIRS if widens else min(left.rows, MOST_PAIRS)
            return Spread(counted, paired, left.factor if looked_up else left.factor * right.factor)
        if looked_up:
            return left._replace(expected=lambda sizes: left.expected(sizes) + right.expected(sizes))
        if private_sides[0]:
            partners, kept = public.partners(relation.right, [theirs for _, theirs in relation.on]), left
        else:
            partners, kept = public.partners(relation.left, [ours for ours, _ in relation.on]), right
        # a row may be paired with every match on the other side, hence a product
        rows = kept.rows * partners
        if rows > MOST_PAIRS:
            checked.add(number)
        counted = min(rows if widens else left.rows, MOST_PAIRS)
        return Spread(counted, lambda sizes: kept.expected(sizes) * partners, kept.factor * partners)

    made = made_by(relation)
    if made.factor > MAX_FANOUT:
        raise UnplannableError(
            f"joins with public tables would make more than {MAX_FANOUT} rows of one; "
            "join them on a key that few of their rows share"
        )
    return made._replace(checked=frozenset(checked))


class PublicRows:
    """Numbers of rows of public relations, each counted once."""

    def __init__(self, catalogue: Catalogue, fetch: Fetch) -> None:
        self.catalogue, self.fetch = catalogue, fetch
        self._counted: dict[tuple[Relation, tuple[Expression, ...]], int] = {}

    def matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation have the same keys at most, and at least 1."""
        question = (public, tuple(keys))
        if question in self._counted:
            return self._counted[question]
        rows = self.rows(public)
        # without an equality every row matches; too many rows to count are taken to match all at once
        if keys and 1 < rows <= _COUNTABLE:
            rendered = RelationWriter(self.catalogue).write(public, alone=True)
            values = [value_of(key, rendered.columns).finite() for key in keys]
            # as the join may compare them: keys that are one DOUBLE match the same row
            cells = [value.double().sql if value.form in WHOLE else value.sql for value in values]
            cells_named = [cell.alias(f"k{index}") for index, cell in enumerate(cells)]
            by = [column(f"k{index}", "t") for index in range(len(cells))]
            groups = select([count().alias("n")], select(cells_named, rendered.query)).grouped(by)
            rows = self.fetch(select([call("max", column("n", "t"))], groups))[0][0] or 0
        self._counted[question] = max(rows, 1)
        return self._counted[question]

    def partners(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation are equal to a row by some keys at most, and at least 1."""
        return self.matches(with_values(public, keys), keys)

    def rows(self, public: Relation) -> int:
        """Return how many rows a public relation has at most."""
        match public:
            # an aggregate without keys is one row
            case PerUnit() if not public.keys:
                return 1
            case PerUnit() | Filter() if (source_rows := self.rows(public.source)) > _COUNTABLE:
                return source_rows
            case Scan() | PerUnit() | Filter():
                rendered = RelationWriter(self.catalogue).write(public, alone=True)
                return int(self.fetch(select([count()], rendered.query))[0][0])
            case Project() | WithWindows():
                return self.rows(public.source)
            case Constants():
                return len(public.rows)
            case UnionAll():
                return sum(self.rows(source) for source in public.sources)
            case Join() if not public.kind.widens:
                return self.rows(public.left)
            case Join():
                return self.rows(public.left) * self.partners(public.right, [theirs for _, theirs in public.on])
