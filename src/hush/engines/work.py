r"""Bounds of the work for the rows of one unit, before the charge, from the question and the policy alone.

If one person's rows could make a question take minutes, or more memory than there is, then whether it is answered, or
how soon, would tell that they are there, for any ε. So for a unit with `STORED` rows in every table, the worst there
can be, the product of rows after all joins, functions and lengths of texts is bounded:

    rows · work ≤ TIME,

where *work* is what a row costs in all statements that run for it (`hush.engines.sql.cost`), which has the lengths of
texts in it. Three things are chosen so that this holds:

* **How much of a text is read** (`LENGTHS`): about as much as the work allows; every text is cut where it is read.
* **How many rows a unit may have after a join**, at most `MOST_PAIRS`: a unit with more is left out of the join, before
  its rows are paired (`hush.engines.sql.relations`), and that in every join, so after all of them, too.
* What is too much even with the shortest texts is refused.

All of it depends on the question, the policy and public tables. What is read of texts, and that units may be left out,
is said in a note with every such question, whoever is there.

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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from math import prod
from typing import Any, TypeVar

from hush.engines.protocol import DEFAULT_ROWS, Effort, Pace
from hush.engines.sql.bounding import FreshRows, Reads
from hush.engines.sql.cost import costs
from hush.engines.sql.nodes import (
    MADE,
    Select,
    alias,
    call,
    column,
    count,
    grouped,
    select,
)
from hush.engines.sql.relations import (
    MOST_PAIRS,
    Bounds,
    Catalogue,
    RelationWriter,
    referenced,
    repeated_texts,
    with_known,
)
from hush.engines.sql.scalars import value_of
from hush.engines.sql.statements import Statements
from hush.engines.sql.values import MAX_TEXT, WHOLE, SqlType
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression
from hush.query.functions import FUNCTIONS
from hush.query.plan.plan import Plan
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
    tables,
    with_values,
)
from hush.query.types import Kind

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
_SHARE = 9
"""Tenths of a row's time that are left for texts."""
_LONG = 500
"""Below this number of characters, twice the estimate is tried: each character counts."""
LENGTHS = (MAX_TEXT, 5000, 2500, 1000, 500, 250, 128, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
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


def bounded(
    write: Callable[[Bounds], tuple[Written, Cost]], spread: Spread, likely: int
) -> tuple[Written, Cost, tuple[str, ...]]:
    """Return the statements within bounds that keep one unit's work in its limits, their cost, and notes on these.

    ``likely`` is how much of a text can probably be read: what needs less is written again. Refuse what nothing helps.
    """
    for text in [length for length in LENGTHS if length <= likely]:
        bounds = Bounds(text=text, pairs=MOST_PAIRS, checked=spread.checked)
        statements, cost = write(bounds)
        # where a row is a unit, what it holds is one row's, and needs no limit
        if cost.work <= (ALONE if spread.rows == 1 else PER_ROW) and (spread.rows == 1 or cost.carried <= HELD):
            break
    else:
        raise UnplannableError(
            "this asks too much work of every row: texts without declared values are long, and every function of them "
            "counts; ask it in several questions, declare the column's values in the policy, or work with LEFT(t, 20)"
        )
    # the cost of a row is known only now, and with it how many a unit may have
    if cost.counted and (pairs := most_pairs(work=cost.work, carried=cost.carried)) < MOST_PAIRS:
        bounds = replace(bounds, pairs=pairs)
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


def likely_length(plan: Plan, spread: Spread) -> int:
    """Return how much of a text can be read, guessed from the question: most need to be written only once then."""
    if spread.rows == 1:
        return MAX_TEXT
    exact_query, choices = plan.exact_query, [draw.choice for draw in plan.draws]
    distinct = [statistic for statistic in exact_query.statistics if isinstance(statistic, Distinct)]
    compared: list[Expression] = [statistic.expression for statistic in distinct]
    # public keys become numbers, so only private ones are compared as texts
    if not exact_query.domains:
        compared += [value for _, value in exact_query.keys]
    types = [expression.type for expression in dict.fromkeys(compared)]
    text_count = sum(type_.kind is Kind.TEXT and type_.values is None for type_ in types)
    statements = 1 + len(choices) + len(distinct)
    every = sum(rate_of([expression]) for expression in referenced(exact_query.relation))
    every += sum(rate(value) for _, value in exact_query.keys)
    read = rate_of(dict.fromkeys(Reads.of(exact_query, choices).expressions))
    each = statements * (every + MADE) + _COMPARED * text_count * (1 + statements) + 2 * read
    length = min(MAX_TEXT, _SHARE * PER_ROW // 10 // each, HELD // text_count if text_count else MAX_TEXT)
    return max(LENGTHS[-1], length if length >= _LONG else 2 * length)


def cost_of(prepared: Statements) -> Cost:
    """Return the cost of a row: to compute it, and to sort and compare its keys."""
    rows = prepared.rows
    assert isinstance(rows, FreshRows)  # noqa: S101 - stored rows cost less than those they were made of
    work, keys = costs(statement.query for statement in prepared.statements), _keys(prepared)
    return cost_of_rows(rows, work + _COMPARED * keys * (1 + len(prepared.statements)), keys)


def effort_of(prepared: Statements, cost: Cost, spread: Spread, pace: Pace) -> Effort:
    """Return how much there is to do for a question."""
    picks = len(prepared.plan.draws)
    return Effort(
        work=cost.work,
        statements=len(prepared.statements),
        rows=spread.expected,
        pace=pace,
        statistics=len(prepared.plan.exact_query.statistics) + picks,
        picks=picks,
        groups=prod(len(axis.values) for axis in prepared.rows.axes or ()),
    )


def effort_of_rows(cost: Cost, spread: Spread, columns: int, pace: Pace) -> Effort:
    """Return the effort for coded rows with a number of columns, and to count them in Python."""
    return Effort(work=cost.work, statements=columns, rows=spread.expected, pace=pace)


def cost_of_rows(rows: FreshRows, work: int, keys: int = 0) -> Cost:
    """Return the costs of statements over rows, from their work and the characters of their keys."""
    return Cost(work=work, carried=keys + rows.carried, counted=rows.counted, texts=rows.texts)


def _keys(prepared: Statements) -> int:
    """Return how many characters private keys and values that are told apart have."""
    exact_query = prepared.plan.exact_query
    compared = [statistic.expression for statistic in exact_query.statistics if isinstance(statistic, Distinct)]
    if not prepared.rows.axes:
        compared += [value for _, value in exact_query.keys]
    known = prepared.rows.known
    values = [known[expression] for expression in dict.fromkeys(compared) if expression in known]
    return sum(value.chars for value in values if value.form is SqlType.TEXT)


MAX_FANOUT = 10**4
"""How many rows one row may become through joins with public tables."""
_COUNTABLE = 10**7
"""Public relations that may have more rows are not counted key by key."""

Fetch = Callable[[Select], list[tuple[Any, ...]]]
"""Runs a query over public tables."""
Expected = Callable[[Mapping[str, int]], float]
"""Says how many rows there are, if each table has the given number."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The rows of one unit after joins, from `STORED` rows in each table, or from one where a row is a unit."""

    rows: int
    """How many there are in the end at most."""
    checked: frozenset[int]
    """The joins with public tables that have to count, by their number: a join comes before the joins inside it."""
    expected: Expected
    """How many rows all units have in the end, by the sizes of tables; see `hush.engines.protocol.Effort`."""


def check_fanout(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> Spread:
    """Refuse a question with public tables that multiply rows too much; reads public tables at most."""
    fanout = _Fanout(PublicRows(catalogue, fetch))
    if fanout.of(relation) > MAX_FANOUT:
        raise UnplannableError(
            f"joins with public tables would make more than {MAX_FANOUT} rows of one; "
            "join them on a key that few of their rows share"
        )
    checked: set[int] = set()
    owned = any(catalogue.schema.tables[name].unit is not None for name in tables(relation))  # else rows are units
    rows = fanout.spread(relation, STORED if owned else 1, checked, count_from(0))
    return Spread(rows, frozenset(checked), fanout.expected(relation))


class PublicRows:
    """Numbers of rows of public relations, each counted once."""

    def __init__(self, catalogue: Catalogue, fetch: Fetch) -> None:
        self._catalogue = catalogue
        self._fetch = fetch
        self._counted: dict[tuple[Relation, tuple[Expression, ...]], int] = {}

    def matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation have the same keys at most, and at least 1."""
        question = (public, tuple(keys))
        if question not in self._counted:
            self._counted[question] = self._most(public, keys)
        return self._counted[question]

    def partners(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation are equal to a row by some keys at most, and at least 1."""
        return self.matches(with_values(public, keys), keys)

    def _most(self, public: Relation, keys: Sequence[Expression]) -> int:
        rows = self.rows(public)
        # without an equality every row matches; too many rows to count are taken to match all at once
        if not keys or not 1 < rows <= _COUNTABLE:
            return max(rows, 1)
        rendered = RelationWriter(self._catalogue).write(public, alone=True)
        values = [value_of(key, rendered.columns).finite() for key in keys]
        # as the join may compare them: keys that are one DOUBLE match the same row
        cells = [value.double().sql if value.form in WHOLE else value.sql for value in values]
        cells_named = [alias(cell, f"k{index}") for index, cell in enumerate(cells)]
        by = [column(f"k{index}", "t") for index in range(len(cells))]
        groups = grouped(select([alias(count(), "n")], select(cells_named, rendered.query)), by)
        largest = self._fetch(select([call("max", column("n", "t"))], groups))
        return max(largest[0][0] or 0, 1)

    def rows(self, public: Relation) -> int:
        """Return how many rows a public relation has at most."""
        match public:
            # an aggregate without keys is one row
            case PerUnit() if not public.keys:
                return 1
            case PerUnit() | Filter() if (source_rows := self.rows(public.source)) > _COUNTABLE:
                return source_rows
            case Scan() | PerUnit() | Filter():
                rendered = RelationWriter(self._catalogue).write(public, alone=True)
                return int(self._fetch(select([count()], rendered.query))[0][0])
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


class _Fanout:
    def __init__(self, public: PublicRows) -> None:
        self._partners = public.partners

    def of(self, relation: Relation) -> int:
        """Return how many rows one row of a private table becomes at most."""
        match relation:
            case Scan() | Constants():
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.of(relation.source)
            case UnionAll():
                return sum(self.of(source) for source in relation.sources)
            case Join():
                if not relation.kind.widens and relation.on and relation.where is None:
                    return self.of(relation.left)  # looked up, not paired
                sides = (
                    (relation.left, [first for first, _ in relation.on]),
                    (relation.right, [two for _, two in relation.on]),
                )
                # a row may be paired with every match on the other side, hence a product
                return prod(self.of(side) if private(side) else self._partners(side, keys) for side, keys in sides)

    def spread(self, relation: Relation, stored: int, checked: set[int], numbers: Iterator[int]) -> int:
        """Return how many rows a unit has at most, and add the joins that must count; 1 for public relations."""
        match relation:
            case Scan():
                return 1 if relation.public else stored
            case Constants():
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.spread(relation.source, stored, checked, numbers)
            case UnionAll():
                return sum(self.spread(source, stored, checked, numbers) for source in relation.sources)
            case Join():
                # numbered before its sides are, as the writer of relations counts its joins
                number = next(numbers)
                left, right = (self.spread(side, stored, checked, numbers) for side in (relation.left, relation.right))
                if private(relation.left) and private(relation.right):
                    # joins of private tables always count, so no unit has more rows after one
                    return MOST_PAIRS if relation.kind.widens else min(left, MOST_PAIRS)
                if not private(relation):
                    return 1
                mine = private(relation.left)
                keys = [theirs if mine else ours for ours, theirs in relation.on]
                if not relation.kind.widens and relation.on and relation.where is None:
                    return left
                rows = (left if mine else right) * self._partners(relation.right if mine else relation.left, keys)
                if rows > MOST_PAIRS:
                    checked.add(number)
                return min(rows if relation.kind.widens else left, MOST_PAIRS)

    def expected(self, relation: Relation) -> Expected:
        """Return how many rows to expect, none of public relations.

        A join with a public table makes as many as it can of every row. One of private tables is taken to pair few rows
        of most units, and of one unit as many as it may have.
        """
        match relation:
            case Scan() if not relation.public:
                return lambda sizes: sizes.get(relation.table, DEFAULT_ROWS)
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.expected(relation.source)
            case UnionAll():
                parts = [self.expected(source) for source in relation.sources]
                return lambda sizes: sum(branch(sizes) for branch in parts)
            case Join() if private(relation):
                left, right = self.expected(relation.left), self.expected(relation.right)
                looked_up = not relation.kind.widens and relation.on and relation.where is None
                if looked_up:
                    return lambda sizes: left(sizes) + right(sizes)
                if private(relation.left) and private(relation.right):
                    return lambda sizes: left(sizes) + right(sizes) + min(left(sizes) * right(sizes), MOST_PAIRS)
                mine = private(relation.left)
                keys = [theirs if mine else ours for ours, theirs in relation.on]
                matches = self._partners(relation.right if mine else relation.left, keys)
                return lambda sizes: (left if mine else right)(sizes) * matches
            case _:
                return lambda _: 0


def rate(expression: Expression) -> int:
    """Return about how many nanoseconds an expression takes for each character of the texts that it reads.

    >>> from hush.query.types import Kind, Type
    >>> from hush.query.expressions import Op
    >>> rate(Call(Op.LOWER, (Column("t", Type(Kind.TEXT, True)),), Type(Kind.TEXT, True)))
    20
    """
    if not isinstance(expression, Call):
        return 0
    texts = sum(argument.type.kind is Kind.TEXT and argument.type.values is None for argument in expression.arguments)
    record = FUNCTIONS[expression.op]
    per_character = record.per_character if record.cost is None else record.cost(expression)
    own_rate = (MADE if per_character is None else per_character) * texts
    return own_rate + sum(rate(argument) for argument in expression.arguments)


def rate_of(expressions: Iterable[Expression]) -> int:
    """Return about how many nanoseconds expressions take for each character, if equal texts are made once."""
    roots = list(expressions)
    replacements = {text: Column(str(index), text.type) for index, text in enumerate(repeated_texts(roots))}
    return sum(rate(text) + MADE for text in replacements) + sum(
        rate(with_known(expression, replacements)) for expression in roots
    )
