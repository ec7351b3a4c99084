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

>>> most_pairs(work=4000, carried=0), most_pairs(work=20_000, carried=0), most_pairs(work=4000, carried=500)
(1000000, 200000, 200000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from hush.engines.fanout import STORED, Spread
from hush.engines.sql.build import MADE
from hush.engines.sql.lengths import rate, rate_of
from hush.engines.sql.relations import MOST_PAIRS, Bounds
from hush.engines.sql.rows import Fresh, Reads
from hush.engines.sql.traversal import referenced
from hush.engines.sql.values import MAX_TEXT, Form
from hush.engines.statements import Statements
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression
from hush.query.plan.plan import Plan
from hush.query.plan.statistics import Distinct
from hush.query.types import Kind

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
