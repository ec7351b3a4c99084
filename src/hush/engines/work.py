r"""What the rows of one unit can cost at most: bounded before the charge, from the question and the policy alone.

If one person's rows could make a question take minutes, or more memory than there is, then whether it is answered, or
how soon, would tell that they are there, for any ε. So for a unit with `STORED` rows in every table, the worst there
can be, the product of rows after all joins, functions and lengths of texts is bounded:

    rows · work ≤ TIME,

where *work* is what a row costs in all statements that run for it (`hush.engines.sql.build`), which has the lengths of
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
What a public table multiplies by is public: the largest number of its rows with the same key, or all of them where the
join has no equality. A unit may have many rows to begin with, so a product below that is no bound for a unit. Where the
rows of one that has `STORED` rows in every table might become more than a unit may have after a join, the join counts
them, and leaves such a unit out (`checked`). Elsewhere, as in a join on a public table's own key, nothing is counted.
Numbers are compared as DOUBLE in some joins, so keys that are one DOUBLE count as one key here.

>>> most_pairs(work=4000, carried=0), most_pairs(work=20_000, carried=0), most_pairs(work=4000, carried=500)
(1000000, 200000, 200000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count as count_from
from math import prod
from typing import Any, TypeVar

from hush.core.values import dataclass
from hush.engines.sql.build import MADE, alias, call, column, count
from hush.engines.sql.expressions import render
from hush.engines.sql.queries import grouped, select
from hush.engines.sql.relations import MOST_PAIRS, Bounds, Catalogue, RelationWriter
from hush.engines.sql.rendered import referenced, repeated_texts, with_known
from hush.engines.sql.rows import Fresh, Reads
from hush.engines.sql.values import MAX_TEXT, WHOLE, Form
from hush.engines.statements import Statements
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Column, Expression
from hush.query.functions import FUNCTIONS
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Distinct
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
)
from hush.query.types import Kind

STORED = 10**5
"""What one unit can cost is said for one that has so many rows in a table."""
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
"""Where fewer characters are read, twice as many as guessed are tried: each of them counts."""
LENGTHS = (MAX_TEXT, 5000, 2500, 1000, 500, 250, 128, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What statements cost."""

    work: int
    """Nanoseconds that a row takes."""
    carried: int
    """Characters of text that are held for every row."""
    counted: int
    """In how many joins the rows of every unit are counted."""
    texts: int
    """How many texts are read, of which nothing is declared."""


Written = TypeVar("Written")


def bounded(
    write: Callable[[Bounds], tuple[Written, Cost]], spread: Spread, likely: int
) -> tuple[Written, Bounds, tuple[str, ...]]:
    """Return the statements within bounds that keep one unit's work in its limits, and notes on these.

    ``likely`` is how much of a text can probably be read: what needs less is written again. Refuse what nothing helps.
    """
    for text in [length for length in LENGTHS if length <= likely]:
        bounds = Bounds(text=text, pairs=MOST_PAIRS, checked=spread.checked)
        written, cost = write(bounds)
        if cost.work <= (ALONE if spread.rows == 1 else PER_ROW) and (spread.rows == 1 or cost.carried <= HELD):
            break
    else:
        raise UnplannableError(
            "this asks too much work of every row: texts without declared values are long, and every function of them "
            "counts; ask it in several questions, declare the column's values in the policy, or work with LEFT(t, 20)"
        )
    if cost.counted and (pairs := most_pairs(work=cost.work, carried=cost.carried)) < MOST_PAIRS:
        bounds = replace(bounds, pairs=pairs)
        written, _ = write(bounds)
    return written, bounds, tuple(_notes(bounds, cost))


def _notes(bounds: Bounds, cost: Cost) -> Iterator[str]:
    if cost.texts and bounds.text < MAX_TEXT:
        yield f"texts without declared values are read up to {bounds.text:,} characters"
    if cost.counted:
        yield f"a unit with more than {bounds.pairs:,} rows after a join is left out of it"


def most_pairs(*, work: int, carried: int) -> int:
    """Return how many rows a unit may have after a join, in steps that say nothing of what a row costs exactly."""
    most = min(MOST_PAIRS, TIME // max(work, 1), STORED * HELD // max(carried, 1))
    return max(most // STORED * STORED, min(most, STORED))


def likely_length(plan: Plan, spread: Spread) -> int:
    """Return how much of a text can be read, guessed from the question: most need to be written only once then."""
    if spread.rows == 1:
        return MAX_TEXT
    extraction, choices = plan.extraction, [pick.choice for pick in plan.picks]
    distinct = [item for item in extraction.statistics if isinstance(item, Distinct)]
    held: list[Expression] = [item.expression for item in distinct]
    if not extraction.domains:
        held += [value for _, value in extraction.keys]
    many = sum(item.type.kind is Kind.TEXT and item.type.values is None for item in dict.fromkeys(held))
    statements = 1 + len(choices) + len(distinct)
    every = sum(rate_of([item]) for item in referenced(extraction.relation))
    every += sum(rate(value) for _, value in extraction.keys)
    read = rate_of(dict.fromkeys(Reads.of(extraction, choices).expressions))
    each = statements * (every + MADE) + _COMPARED * many * (1 + statements) + 2 * read
    length = min(MAX_TEXT, _SHARE * PER_ROW // 10 // each, HELD // many if many else MAX_TEXT)
    return max(LENGTHS[-1], length if length >= _LONG else 2 * length)


def cost_of(compiled: Statements, flat: int = 0) -> Cost:
    """Return what a row costs: to compute it, and to sort and compare what is held of it.

    Rows are handed out, which takes ``flat`` of work, or added up inside the engine; both only where a join turned out
    to make many.
    """
    rows = compiled.rows
    assert isinstance(rows, Fresh)  # noqa: S101 - stored rows cost less than those they were made of
    inside, keys = sum(statement.work for statement in compiled.statements), _keys(compiled)
    work = flat + inside if rows.joined else max(flat, inside)
    return cost_of_rows(rows, work + _COMPARED * keys * (1 + len(compiled.statements)), keys)


def cost_of_rows(rows: Fresh, work: int, keys: int = 0) -> Cost:
    """Return what statements over some rows cost that take so much work, and hold keys of so many characters."""
    return Cost(work=work, carried=keys + rows.carried, counted=rows.counted, texts=rows.texts)


def _keys(compiled: Statements) -> int:
    """Return how many characters private keys and values that are told apart have."""
    extraction = compiled.plan.extraction
    held = [item.expression for item in extraction.statistics if isinstance(item, Distinct)]
    if not compiled.axes:
        held += [value for _, value in extraction.keys]
    values = [compiled.rows.known[item] for item in dict.fromkeys(held) if item in compiled.rows.known]
    return sum(value.chars for value in values if value.form is Form.TEXT)


MAX_FANOUT = 10**4
"""How many rows one row may become through joins with public tables."""
_COUNTABLE = 10**7
"""Public relations that may have more rows are not counted key by key."""

Fetch = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What joins make of the rows of one unit that has `STORED` rows, or one where a row is a unit."""

    rows: int
    """How many there are in the end at most."""
    checked: frozenset[int]
    """The joins with public tables that have to count, by their number: a join comes before those inside of it."""


def check_fanout(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> Spread:
    """Refuse a question whose public tables multiply rows too much; reads public tables at most."""
    fanout = _Fanout(catalogue, fetch)
    if fanout.of(relation) > MAX_FANOUT:
        raise UnplannableError(
            f"joins with public tables would make more than {MAX_FANOUT} rows of one; "
            "join them on a key that few of their rows share"
        )
    checked: set[int] = set()
    owned = any(catalogue.schema.tables[name].unit is not None for name in tables(relation))  # else rows are units
    rows = fanout.spread(relation, STORED if owned else 1, checked, count_from(0))
    return Spread(rows, frozenset(checked))


def public_rows(relation: Relation, catalogue: Catalogue, fetch: Fetch) -> int:
    """Return how many rows a public relation has at most; reads public tables."""
    return _Fanout(catalogue, fetch).rows(relation)


class _Fanout:
    def __init__(self, catalogue: Catalogue, fetch: Fetch) -> None:
        self._catalogue = catalogue
        self._fetch = fetch

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
                    (relation.left, [one for one, _ in relation.on]),
                    (relation.right, [two for _, two in relation.on]),
                )
                return prod(self.of(side) if private(side) else self._matches(side, keys) for side, keys in sides)

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
                number = next(numbers)
                left, right = (self.spread(side, stored, checked, numbers) for side in (relation.left, relation.right))
                if private(relation.left) and private(relation.right):
                    return MOST_PAIRS if relation.kind.widens else min(left, MOST_PAIRS)
                if not private(relation):
                    return 1
                mine = private(relation.left)
                keys = [theirs if mine else ours for ours, theirs in relation.on]
                if not relation.kind.widens and relation.on and relation.where is None:
                    return left
                rows = (left if mine else right) * self._matches(relation.right if mine else relation.left, keys)
                if rows > MOST_PAIRS:
                    checked.add(number)
                return min(rows if relation.kind.widens else left, MOST_PAIRS)

    def _matches(self, public: Relation, keys: Sequence[Expression]) -> int:
        """Return how many rows of a public relation have the same keys at most, and at least 1."""
        rows = self.rows(public)
        if not keys or not 1 < rows <= _COUNTABLE:
            return max(rows, 1)
        rendered = RelationWriter(self._catalogue).write(public, alone=True)
        values = [render(key, rendered.columns).finite() for key in keys]
        cells = [value.double().sql if value.form in WHOLE else value.sql for value in values]
        named = [alias(cell, f"k{at}") for at, cell in enumerate(cells)]
        by = [column(f"k{at}", "t") for at in range(len(cells))]
        groups = grouped(select([alias(count(), "n")], select(named, rendered.query)), by)
        found = self._fetch(select([call("max", column("n", "t"))], groups).text)
        return max(found[0][0] or 0, 1)

    def rows(self, public: Relation) -> int:
        """Return how many rows a public relation has at most."""
        match public:
            case Scan():
                rendered = RelationWriter(self._catalogue).write(public, alone=True)
                return int(self._fetch(select([count()], rendered.query).text)[0][0])
            case PerUnit() if not public.keys:
                return 1
            case Filter() | Project() | PerUnit() | WithWindows():
                return self.rows(public.source)
            case Constants():
                return len(public.rows)
            case UnionAll():
                return sum(self.rows(source) for source in public.sources)
            case Join() if not public.kind.widens:
                return self.rows(public.left)
            case Join():
                return self.rows(public.left) * self._matches(public.right, [theirs for _, theirs in public.on])


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
    own = (MADE if per_character is None else per_character) * texts
    return own + sum(rate(argument) for argument in expression.arguments)


def rate_of(expressions: Iterable[Expression]) -> int:
    """Return about how many nanoseconds expressions take for each character, if equal texts are made once."""
    given = list(expressions)
    known = {text: Column(str(at), text.type) for at, text in enumerate(repeated_texts(given))}
    return sum(rate(text) + MADE for text in known) + sum(rate(with_known(item, known)) for item in given)
